package backend

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/drey-state/drey/keygroup"
)

// steadyWriters gives for each way to write an entry a function that writes
// one more, to a file that is never closed.
func steadyWriters(tb testing.TB, zip bool) map[string]func() error {
	tb.Helper()
	h := sampleHeader(zip)
	r := keygroup.Range{Start: 3, End: 3}
	canonical := NewCanonicalWriter(io.Discard, h, r, 128)
	timers := NewHeapWriter(io.Discard, h, r)
	counted := NewHeapWriter(io.Discard, h, r)
	operator := NewOperatorWriter(io.Discard, &OperatorHeader{Version: 6, Compressed: zip, Broadcast: []StateMeta{{Name: "map", Kind: KindBroadcast}}})
	if err := errors.Join(canonical.StartKeyGroup(3),
		counted.StartKeyGroup(3), counted.StartState(0, counted.limit),
		timers.StartKeyGroup(3), timers.StartState(3, timers.limit),
		operator.StartBroadcast(0, operator.limit)); err != nil {
		tb.Fatal(err)
	}
	values, maps := sampleEntries(h, 0, 3), sampleEntries(h, 2, 3)
	var key, value []byte
	i := 0
	next := func(all []*Entry) *Entry {
		i++
		return all[i%len(all)]
	}
	return map[string]func() error{
		"canonical": func() error {
			e := next(maps)
			key, value = e.AppendStoredKey(key[:0]), e.AppendStoredValue(value[:0])
			return canonical.Entry(2, key, value)
		},
		"heap": func() error {
			e := next(values)
			return counted.Entry(e.Namespace, e.Key, e.Value)
		},
		"heap timer": func() error {
			e := next(values)
			return timers.Timer(int64(i), e.Key, e.Namespace)
		},
		"broadcast": func() error {
			e := next(values)
			return operator.BroadcastEntry(e.Key, e.Value)
		},
	}
}

// TestWriterAllocations: an entry is written without allocating.
func TestWriterAllocations(t *testing.T) {
	for _, zip := range []bool{false, true} {
		for name, write := range steadyWriters(t, zip) {
			several := func() {
				for range 10_000 {
					if err := write(); err != nil {
						t.Fatal(err)
					}
				}
			}
			several() // the buffers grow
			if n := testing.AllocsPerRun(3, several); n > 0 {
				t.Errorf("%s, compressed %t: %v allocations for 10,000 entries", name, zip, n)
			}
		}
	}
}

// TestHeapAddAllocations: entries of a reader, lists and maps too, are put
// into a block without allocating, once the block's buffer has grown.
func TestHeapAddAllocations(t *testing.T) {
	h := sampleHeader(false)
	var all [][]*Entry
	for state := range h.States {
		all = append(all, sampleEntries(h, state, 0))
	}
	w := NewHeapWriter(io.Discard, h, keygroup.Range{Start: 0, End: 100})
	group := 0
	write := func() {
		err := w.StartKeyGroup(group)
		group++
		for state, entries := range all {
			err = errors.Join(err, w.StartState(state, -1))
			for _, e := range entries {
				if w.Add(e) != nil {
					err = w.err
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write()
	if n := testing.AllocsPerRun(5, write); n > 0 {
		t.Errorf("%v allocations for %d entries", n, 4*len(all[0]))
	}
}

func BenchmarkWriters(b *testing.B) {
	for _, zip := range []bool{false, true} {
		for _, name := range []string{"canonical", "heap", "heap timer", "broadcast"} {
			b.Run(fmt.Sprintf("%s/compressed=%t", name, zip), func(b *testing.B) {
				write := steadyWriters(b, zip)[name]
				size := map[string]int64{"canonical": 4 + 1 + 8 + 1 + 2 + 4 + 1 + 81, "heap": 1 + 8 + 81, "heap timer": 8 + 8 + 1, "broadcast": 8 + 81}
				b.SetBytes(size[name])
				b.ReportAllocs()
				for b.Loop() {
					if err := write(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
