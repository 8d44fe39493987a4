package heap_test

import (
	"path/filepath"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

func open(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string] {
	b, err := heap.Open(serializer.ForString(), heap.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBackend(t *testing.T) {
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	backendtest.Run(t, open, map[string]backendtest.Opener{
		"pebble": func(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string] {
			b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
				MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Clock: clock,
				Dir: filepath.Join(t.TempDir(), "db"), Memory: memory,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			return b
		},
	})
}

func limits(t *testing.T) backendtest.Limits {
	t.Helper()
	return backendtest.Limits{
		Open: func(t testing.TB, maxSize int) backend.Keyed[string] {
			b, err := heap.Open(serializer.ForString(), heap.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, MaxSize: maxSize})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			return b
		},
		// One byte is that of the key group.
		Key: func(maxSize int) int { return maxSize - 1 },
	}
}

func TestLimits(t *testing.T) { backendtest.RunLimits(t, limits(t)) }

func TestLarge(t *testing.T) { backendtest.RunLarge(t, limits(t)) }

// Snapshots that were taken before Close can still be written.
func TestCloseWithSnapshot(t *testing.T) {
	b := open(t, backendtest.All, nil)
	s, err := b.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), backend.Target{}); err != nil {
		t.Errorf("written after Close: %v", err)
	}
}

// Options that are wrong are refused.
func TestOpenRefuses(t *testing.T) {
	for name, o := range map[string]heap.Options[string]{
		"no max parallelism":        {KeyGroups: keygroup.Range{End: 1}},
		"too large max parallelism": {MaxParallelism: 1 << 16},
		"key groups beyond it":      {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 10}},
		"negative key groups":       {MaxParallelism: 10, KeyGroups: keygroup.Range{Start: -1, End: 1}},
		"no key groups":             {MaxParallelism: 10, KeyGroups: keygroup.Range{Start: 1, End: 0}},
		"negative max size":         {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 1}, MaxSize: -1},
		"too large max size":        {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 1}, MaxSize: backend.MaxSize + 1},
	} {
		if b, err := heap.Open(serializer.ForString(), o); err == nil || b != nil {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
	if _, err := heap.Open(serializer.ForNullString(), heap.Options[*string]{MaxParallelism: 1, KeyGroups: keygroup.Range{}}); err == nil {
		t.Error("keys that are pointers were taken")
	}
}
