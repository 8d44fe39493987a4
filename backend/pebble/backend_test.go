package pebble_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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

// variant are the tests of the suite that a further kind of Pebble backend is run through: all, or under the race detector
// those in which it differs.
func variant(tests ...string) []string {
	if raceEnabled {
		return tests
	}
	return nil
}

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
	backendtest.Run(t, opener(pebble.TimersOnHeap), map[string]backendtest.Opener{"timers in the database": opener(pebble.TimersInDatabase)},
		variant("Timers", "Misuse", "CloseWithin", "Rescale", "Consistency", "Overlap", "RestoreLate", "Incremental")...)
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
	}, nil, variant("List", "Map", "TTL", "Consistency", "Overlap", "Model")...)
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
		if n := b.Kept(); n > 0 {
			t.Errorf("%d entries are left in the write buffer", n)
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

// A large map that is cleared takes nothing of others out of the write buffer if it is in there itself.
func TestClearLargeMap(t *testing.T) {
	for what, flush := range map[string]bool{"in the write buffer": false, "in files": true} {
		b := openLong(t).(*pebble.Backend[int64])
		void, long := serializer.ForVoidNamespace(), serializer.ForLong()
		m, err := pebble.OpenMap(b, backend.MapDescriptor[struct{}, int64, int64]{Name: "map", Namespace: void, UserKey: long, Value: long})
		check(t, err)
		v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "value", Namespace: void, Value: long})
		check(t, err)
		for k := range int64(2) {
			check(t, b.SetKey(k))
			for u := range int64(1000) {
				check(t, m.Put(u, u))
			}
		}
		if flush {
			check(t, b.Flush())
		}
		check(t, v.Set(7))
		check(t, m.Clear())
		if n := b.Kept(); !flush && n < 2001 {
			t.Errorf("%s: %d entries are left in the write buffer", what, n)
		}
		check(t, m.Put(5, -5))
		if is, ok, err := v.Get(); is != 7 || !ok || err != nil {
			t.Errorf("%s: the value: %d, %v, %v", what, is, ok, err)
		}
		for range 2 { // in the buffer, and in the database
			for u := range int64(1000) {
				if is, ok, err := m.Get(u); ok != (u == 5) || ok && is != -5 || err != nil {
					t.Fatalf("%s: user key %d: %d, %v, %v", what, u, is, ok, err)
				}
			}
			n := 0
			for e, err := range m.All() {
				check(t, err)
				if n++; e.Key != 5 {
					t.Errorf("%s: user key %d is still there", what, e.Key)
				}
			}
			if n != 1 {
				t.Errorf("%s: %d entries", what, n)
			}
			check(t, b.Flush())
		}
		check(t, b.SetKey(0))
		for u := range int64(1000) {
			if is, ok, err := m.Get(u); is != u || !ok || err != nil {
				t.Fatalf("%s: the other map: user key %d: %d, %v, %v", what, u, is, ok, err)
			}
		}
	}
}

// Who still holds a backend that was closed holds none of its memory.
func TestCloseFreesBuffer(t *testing.T) {
	b := openLong(t).(*pebble.Backend[int64])
	held := b.HasBuffer()
	check(t, b.Close())
	runtime.GC()
	if held() {
		t.Error("the write buffer is still held")
	}
	runtime.KeepAlive(b)
}

// The iterator that is kept for reads holds neither write buffers nor files for long.
func TestViewIsGivenUp(t *testing.T) {
	b := openLong(t).(*pebble.Backend[int64])
	void := serializer.ForVoidNamespace()
	v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, []byte]{Name: "value", Namespace: void, Value: serializer.ForBytes()})
	check(t, err)
	q, err := pebble.OpenTimers(b, backend.TimersDescriptor[struct{}]{Service: "timers", Namespace: void})
	check(t, err)
	check(t, b.SetKey(1))
	for what, does := range map[string]func() error{
		"a flush":    func() error { return errors.Join(v.Set([]byte("value")), b.Flush()) },
		"a snapshot": func() error { s, err := b.Snapshot(1, backend.SnapshotOptions{}); s.Release(); return err },
		"timers": func() error {
			for i := range int64(10_000) {
				if err := q.Register(struct{}{}, i); err != nil {
					return err
				}
			}
			return nil
		},
		"a large value, written": func() error { return v.Set(make([]byte, 2<<20)) },
		"a large value, read":    func() error { return errors.Join(v.Set(make([]byte, 2<<20)), get(v)) },
	} {
		check(t, errors.Join(b.Flush(), v.Clear(), b.Flush(), get(v)))
		if !b.HasView() {
			t.Errorf("before %s: none is kept", what)
		}
		if check(t, does()); b.HasView() {
			t.Errorf("after %s: it is still kept", what)
		}
	}
}

func get(v backend.Value[struct{}, []byte]) error {
	_, _, err := v.Get()
	return err
}

// What fails when a state is cleared names the state.
func TestClearFails(t *testing.T) {
	b := openLong(t).(*pebble.Backend[int64])
	v, err := pebble.OpenValue(b, backend.Descriptor[string, int64]{Name: "value", Namespace: serializer.ForEnum("com.example.Kind", "A"), Value: serializer.ForLong()})
	check(t, err)
	check(t, b.SetKey(1))
	v.SetNamespace("B")
	if err := v.Clear(); err == nil || !strings.HasPrefix(err.Error(), `state "value": namespace: `) {
		t.Error(err)
	}
}
