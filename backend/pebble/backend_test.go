package pebble_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// openAt opens a backend in a directory.
func openAt(t testing.TB, dir string, memory *pebble.Memory, groups keygroup.Range, clock backend.Clock) *pebble.Backend[string] {
	t.Helper()
	b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
		MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Clock: clock, Dir: dir, Memory: memory,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Timers on the heap, whose snapshots are restored with timers in the database and the other way round.
func TestBackendWithTimersOnHeap(t *testing.T) {
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	opener := func(timers pebble.TimerStore) backendtest.Opener {
		return func(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string] {
			b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
				MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Clock: clock,
				Dir: filepath.Join(t.TempDir(), "db"), Memory: memory, Timers: timers,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			return b
		}
	}
	backendtest.Run(t, opener(pebble.TimersOnHeap), map[string]backendtest.Opener{"timers in the database": opener(pebble.TimersInDatabase)})
}

func TestBackend(t *testing.T) {
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	open := func(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string] {
		return openAt(t, filepath.Join(t.TempDir(), "db"), memory, groups, clock)
	}
	backendtest.Run(t, open, map[string]backendtest.Opener{
		"heap": func(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string] {
			b, err := heap.Open(serializer.ForString(), heap.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	})
}

// A write buffer that is full after some dozens of writes.
func TestBackendWithFullBuffer(t *testing.T) {
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	backendtest.Run(t, func(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string] {
		b := openAt(t, filepath.Join(t.TempDir(), "db"), memory, groups, clock)
		b.LimitBuffer(6000)
		return b
	}, nil)
}

func limits(t *testing.T) backendtest.Limits {
	t.Helper()
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	return backendtest.Limits{
		Open: func(t testing.TB, maxSize int) backend.Keyed[string] {
			b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
				MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, MaxSize: maxSize, Dir: filepath.Join(t.TempDir(), "db"), Memory: memory,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			return b
		},
		AtOnce: true,
		Key:    func(maxSize int) int { return maxSize / 2 },
	}
}

func TestLimits(t *testing.T) { backendtest.RunLimits(t, limits(t)) }

func TestLarge(t *testing.T) { backendtest.RunLarge(t, limits(t)) }

// blocked is a target that waits for ctx when a file is created.
type blocked struct {
	storage.FS
	begun chan struct{}
}

func (b blocked) Create(ctx context.Context, _ string, _ storage.CreateOptions) (storage.Writer, error) {
	close(b.begun)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Close ends the snapshots that are there, those that are held and those that are being written.
func TestCloseWithSnapshots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	b := openAt(t, dir, nil, backendtest.All, nil)
	v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.SetKey("k"), v.Set(1)); err != nil {
		t.Fatal(err)
	}
	held, err := b.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writing, err := b.Snapshot(2, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fs := blocked{storage.NewMemory(), make(chan struct{})}
	ended := make(chan error)
	go func() {
		_, err := writing.Write(context.Background(), backend.Target{FS: fs, Dir: "mem://x", InlineBelow: -1})
		ended <- err
	}()
	<-fs.begun
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	if err := <-ended; !errors.Is(err, backend.ErrClosed) {
		t.Errorf("the snapshot that was being written: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := held.Write(t.Context(), backend.Target{FS: storage.NewMemory(), Dir: "mem://x"}); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("the snapshot that was held: %v", err)
	}
	held.Release()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// A restore that fails leaves no files of its own.
func TestRestoreFails(t *testing.T) {
	b := openAt(t, filepath.Join(t.TempDir(), "db"), nil, backendtest.All, nil)
	v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b", "c", "d"} {
		if err := errors.Join(b.SetKey(k), v.Set(1)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Write(t.Context(), backend.Target{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "db")
	again := openAt(t, dir, nil, backendtest.All, nil)
	if err := again.Restore(t.Context(), backend.Files{}, backend.Handles{Managed: []metadata.Keyed{h, h}}); err == nil {
		t.Fatal("the same handle twice was taken")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "restore-*")); len(left) > 0 {
		t.Errorf("files that are left: %v", left)
	}
}

// Options that are wrong are refused.
func TestOpenRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]pebble.Options[string]{
		"no max parallelism":        {KeyGroups: keygroup.Range{End: 1}, Dir: dir},
		"too large max parallelism": {MaxParallelism: 1 << 16, Dir: dir},
		"key groups beyond it":      {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 10}, Dir: dir},
		"negative key groups":       {MaxParallelism: 10, KeyGroups: keygroup.Range{Start: -1, End: 1}, Dir: dir},
		"no key groups":             {MaxParallelism: 10, KeyGroups: keygroup.Range{Start: 1, End: 0}, Dir: dir},
		"negative max size":         {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 1}, Dir: dir, MaxSize: -1},
		"too large max size":        {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 1}, Dir: dir, MaxSize: backend.MaxSize + 1},
		"no directory":              {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 1}},
		"a directory with files":    {MaxParallelism: 10, KeyGroups: keygroup.Range{End: 1}, Dir: full},
	} {
		if b, err := pebble.Open(serializer.ForString(), o); err == nil || b != nil {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
}

// What a backend holds is the same after it was compacted.
func TestCompact(t *testing.T) {
	b := openLong(t).(*pebble.Backend[int64])
	list, err := pebble.OpenList(b, backend.Descriptor[struct{}, int64]{Name: "list", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 1000
	for range 3 {
		for k := range int64(keys) {
			if err := errors.Join(b.SetKey(k), list.Add(k)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for k := range int64(keys) {
		if err := b.SetKey(k); err != nil {
			t.Fatal(err)
		}
		if got, err := list.Get(); err != nil || !slices.Equal(got, []int64{k, k, k}) {
			t.Fatalf("key %d: %v, %v", k, got, err)
		}
	}
	if err := errors.Join(b.Close(), b.Compact(t.Context())); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
