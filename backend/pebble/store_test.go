package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
)

// testStore is a store whose database is in memory.
func testStore(t testing.TB, buffer, most int) *store {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Merger: listMerger(most), MemTableSize: 64 << 10, Logger: logger{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return newStore(db, buffer, most, func(int) {})
}

// modelValue is what a key should be: too large a list is told when it is read, whatever is added.
type modelValue struct {
	is    []byte
	large bool
}

// A store gives what was written, in whatever order its buffer is filled, flushed and emptied. Its limits make it full after
// some dozens of writes, and let values be too large for it.
func TestStoreModel(t *testing.T) {
	const most = 3000
	rapid.Check(t, func(r *rapid.T) {
		s, model := testStore(t, 6000, most), map[string]modelValue{}
		keys := rapid.SliceOfNDistinct(rapid.Custom(func(r *rapid.T) string {
			group, no := rapid.IntRange(0, 2).Draw(r, "group"), rapid.IntRange(0, 2).Draw(r, "state")
			key := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(r, "key")
			return string(append(appendPrefix(nil, group, no), key...))
		}), 1, 100, rapid.ID).Draw(r, "keys")
		key := rapid.SampledFrom(keys)
		value := rapid.Custom(func(r *rapid.T) []byte {
			size := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 1100), rapid.Just(most)).Draw(r, "size")
			return bytes.Repeat([]byte{rapid.Byte().Draw(r, "byte")}, size)
		})
		do := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				k, v := key.Draw(r, "key"), value.Draw(r, "value")
				do(s.set([]byte(k), v))
				model[k] = modelValue{is: v}
			},
			"merge": func(r *rapid.T) {
				k, v := key.Draw(r, "key"), value.Draw(r, "value")
				do(s.merge([]byte(k), v))
				all := join(bytes.Clone(model[k].is), v)
				model[k] = modelValue{all, model[k].large || len(all) > most}
			},
			"delete": func(r *rapid.T) {
				k := key.Draw(r, "key")
				do(s.delete([]byte(k)))
				delete(model, k)
			},
			"get": func(r *rapid.T) {
				k := key.Draw(r, "key")
				var got []byte
				ok, err := s.get([]byte(k), func(v []byte) error {
					got = bytes.Clone(v)
					return nil
				})
				want, there := model[k]
				if want.large {
					if !errors.Is(err, backend.ErrTooLarge) {
						r.Fatalf("%x: %v, it is too large", k, err)
					}
					return
				}
				if err != nil || ok != there || !bytes.Equal(got, want.is) {
					r.Fatalf("%x: %x, %t, %v, want %x, %t", k, got, ok, err, want.is, there)
				}
			},
			"flush":      func(*rapid.T) { do(s.flush()) },
			"flush all":  func(*rapid.T) { do(s.flushAll()) },
			"flush one":  func(r *rapid.T) { do(s.flushState(rapid.IntRange(0, 3).Draw(r, "state"))) },
			"flush file": func(*rapid.T) { do(s.db.Flush()) },
			"scan": func(r *rapid.T) {
				do(s.flushState(1))
				do(scanned(s, model, 1))
			},
		})
		do(s.flush())
		for no := range 3 {
			do(scanned(s, model, no))
		}
		if s.buffer.size > s.buffer.limit {
			r.Errorf("%d bytes of %d", s.buffer.size, s.buffer.limit)
		}
	})
}

// scanned compares the entries of a state in the database.
func scanned(s *store, model map[string]modelValue, no int) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if it.Key()[3] != byte(no) {
			continue
		}
		want, there := model[string(it.Key())]
		got, err := it.ValueAndErr()
		if err != nil || !there || !want.large && !bytes.Equal(got, want.is) || want.large && len(got) <= s.most {
			return fmt.Errorf("%x: %x, %w, want %+v, %t", it.Key(), got, err, want, there)
		}
		n++
	}
	for k := range model {
		if k[3] == byte(no) {
			n--
		}
	}
	if n != 0 {
		return fmt.Errorf("state %d: %d entries more than there should be", no, n)
	}
	return nil
}

// What the database lacks is handed out in order of keys, each once.
func TestBufferOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBuffer(1<<20, backend.MaxSize, func(int) {})
		want := map[string]bool{}
		n := rapid.IntRange(1, 600).Draw(r, "keys")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		longest, letters := rapid.IntRange(0, 20).Draw(r, "longest"), rapid.IntRange(1, 256).Draw(r, "letters")
		for range n {
			key := appendPrefix(nil, random.IntN(2)*300, random.IntN(2))
			for range random.IntN(longest + 1) {
				key = append(key, byte(random.IntN(letters)))
			}
			if want[string(key)] && random.IntN(2) == 0 {
				b.forget(key)
			}
			if !b.write(key, []byte("value"), present) {
				r.Fatal("there is no room")
			}
			want[string(key)] = true
		}
		items, size := b.lacking()
		wantSize, last := 0, []byte(nil)
		for _, i := range items {
			e := b.at(i.place)
			if bytes.Compare(e.key(), last) <= 0 || !want[string(e.key())] || string(e.value()) != "value" {
				r.Fatalf("%x: %q after %x", e.key(), e.value(), last)
			}
			last = e.key()
			wantSize += len(e.key()) + len("value")
		}
		if len(items) != len(want) || size < wantSize {
			r.Errorf("%d entries of %d bytes, want %d of %d", len(items), size, len(want), wantSize)
		}
	})
}
