package tools

import (
	"io"
	"testing"
)

// heapLimit is what the operations may have on the heap; the state is 20 times as large.
const heapLimit = 16 << 20

// TestMemory runs the operations on a savepoint 20 times larger than the
// limit of memory.
func TestMemory(t *testing.T) {
	perGroup := int64(40_000)
	if raceEnabled {
		perGroup /= 20 // then it is about the races
	}
	fsys := newGeneratedFS()
	s, snapshot := fsys.add(t, "file:/old", perGroup, -1)
	_, changed := fsys.add(t, "file:/new", perGroup, 77*perGroup+5)
	if s.size < 20*heapLimit && !raceEnabled {
		t.Fatalf("only %d bytes", s.size)
	}
	entries := 2 * perGroup * generatedGroups
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"dump", func() error {
			d, err := DumpState(t.Context(), fsys, snapshot, io.Discard, DumpStateOptions{EntryOptions: EntryOptions{Jobs: 2}})
			if err == nil && d.Entries != entries {
				t.Errorf("%d entries", d.Entries)
			}
			return err
		}},
		{"sizes", func() error {
			r, err := Sizes(t.Context(), fsys, snapshot, SizeOptions{EntryOptions: EntryOptions{Jobs: 2}, Details: true})
			if err == nil && r.Entries != entries {
				t.Errorf("%d entries", r.Entries)
			}
			return err
		}},
		{"diff", func() error {
			var shown []*Difference
			r, err := DiffState(t.Context(), fsys, snapshot, changed, DiffStateOptions{Limit: 5, Jobs: 1}, func(x *Difference) error {
				shown = append(shown, x)
				return nil
			})
			if err == nil && (len(shown) != 1 || shown[0].Key != "5" || shown[0].KeyGroup != 77 || r.States[0].Old != entries/2) {
				t.Errorf("got %+v", r)
			}
			return err
		}},
	} {
		var err error
		peak := heapPeak(func() { err = c.run() })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		t.Logf("%s: %d MB of state, %d MB on the heap", c.name, s.size>>20, peak>>20)
		if peak > heapLimit && !raceEnabled {
			t.Errorf("%s: %d bytes on the heap", c.name, peak)
		}
	}
}
