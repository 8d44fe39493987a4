package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
)

// testStore is a store whose database is in memory.
func testStore(t testing.TB, buffer, most int) *store {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Merger: listMerger(most), MemTableSize: 64 << 10, Logger: logger{}})
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(db, buffer, most, func(int) {})
	t.Cleanup(func() {
		s.outdated()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
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
			"timers":     func(r *rapid.T) { s.timersWritten(rapid.IntRange(0, minBuffer).Draw(r, "bytes")) },
			"walk": func(r *rapid.T) {
				no := rapid.IntRange(0, 2).Draw(r, "state")
				do(s.flushState(no))
				prefix := appendPrefix(nil, rapid.IntRange(0, 2).Draw(r, "group"), no)
				var want []string
				for k := range model {
					if k[:prefixLen] == string(prefix) {
						want = append(want, k)
					}
				}
				slices.Sort(want)
				it, err := s.take(prefix, after(prefix))
				do(err)
				changes := s.changes
				var got []string
				for ok := it.First(); ok; ok = it.Next() {
					got = append(got, string(it.Key()))
					if rapid.Bool().Draw(r, "write") { // which it doesn't see
						k := key.Draw(r, "key")
						do(s.set([]byte(k), []byte("meanwhile")))
						model[k] = modelValue{is: []byte("meanwhile")}
						do(s.flush())
					}
					if _, err := s.get([]byte(key.Draw(r, "key")), func([]byte) error { return nil }); err != nil && !errors.Is(err, backend.ErrTooLarge) {
						r.Fatal(err)
					}
				}
				do(s.give(it, changes))
				if !slices.Equal(got, want) {
					r.Fatalf("%x, want %x", got, want)
				}
			},
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
			key := appendPrefix(nil, []int{0, 300, math.MaxUint16}[random.IntN(3)], random.IntN(2))
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

// What a flush of some entries takes does not depend on how high their key groups are.
func TestLackingOfHighGroups(t *testing.T) {
	b := newBuffer(1<<20, backend.MaxSize, func(int) {})
	for i := range 2 * fewItems {
		if !b.write(appendPrefix(nil, math.MaxUint16-i%4, 0), []byte{byte(i)}, present) || !b.write(append(appendPrefix(nil, math.MaxUint16-i%4, 0), byte(i)), nil, present) {
			t.Fatal("there is no room")
		}
	}
	var before, since runtime.MemStats
	runtime.ReadMemStats(&before)
	items, _ := b.lacking()
	runtime.ReadMemStats(&since)
	if len(items) != 2*fewItems+4 {
		t.Errorf("%d entries", len(items))
	}
	if n := since.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// A sweep over a few entries goes round in one view for a while, and yet sees what is written later.
func TestSweepOfFewEntries(t *testing.T) {
	s := testStore(t, 6000, 3000)
	ttl := &backend.TTL{After: 50 * time.Millisecond, CleanUp: 1}
	of := &slot{state: &backend.State{Meta: &backend.StateMeta{Name: "state"}, Type: backend.TypeValue}}
	sweep := newSweep(1, keygroup.Range{Start: 0, End: 127}, ttl, of, 3000)
	defer sweep.stop()
	at := func(timestamp uint64) []byte { return binary.BigEndian.AppendUint64(nil, timestamp) }
	key := func(group int) []byte { return append(appendPrefix(nil, group, 1), "key"...) }
	views := 0
	steps := func(n int) {
		for range n {
			if sweep.it == nil {
				views++
			}
			if err := sweep.step(s, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, group := range []int{3, 60, 127} {
		if err := s.set(key(group), at(80)); err != nil {
			t.Fatal(err)
		}
	}
	steps(10)
	if err := s.set(key(61), at(50)); err != nil {
		t.Fatal(err)
	}
	steps(990)
	if views > 1+1000/sweepLeast {
		t.Errorf("%d views for 1000 steps", views)
	}
	for group, want := range map[int]bool{3: true, 60: true, 61: false, 127: true} {
		if ok, err := s.get(key(group), func([]byte) error { return nil }); ok != want || err != nil {
			t.Errorf("key group %d: %v, %v", group, ok, err)
		}
	}
}
