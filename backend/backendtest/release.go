package backendtest

import (
	"context"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/storage"
)

// triggered is a store that calls f each time a file is written to.
type triggered struct {
	storage.FS
	f func()
}

func (s triggered) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	s.f()
	w, err := s.FS.Create(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return triggeredWriter{w, s.f}, nil
}

type triggeredWriter struct {
	storage.Writer
	f func()
}

func (w triggeredWriter) Write(b []byte) (int, error) {
	w.f()
	return w.Writer.Write(b)
}

// testRelease gives snapshots up while they are written, as when a checkpoint is aborted. What is
// written must be whole, or nothing.
func testRelease(t *testing.T, open Opener) {
	bed := newBed()
	b := open(t, All, bed.now)
	w := bed.settle(t, b)
	bed.steps(t, random(3), 500)
	for _, k := range someKeys {
		// More than is held back before it is written.
		must(t, b.SetKey(k))
		large := strings.Repeat(k, 100<<10)
		must(t, w.bytes.Set([]byte(large)))
		bed.content[at("bytes", k)] = large
	}
	for _, format := range formats {
		store := storage.NewMemory()
		s := made[backend.Snapshot](t)(b.Snapshot(1, backend.SnapshotOptions{Format: format}))
		h, err := s.Write(t.Context(), backend.Target{FS: triggered{store, s.Release}, Dir: dir, Shared: shared, InlineBelow: inFile})
		if err != nil {
			equal(t, "files that are left", files(t, store), 0)
			continue
		}
		again := open(t, All, bed.now)
		must(t, restore(again, store, handles(s, h)))
		(&mirror{bed, inhabit(t, again)}).check(t, "what was written when it was given up")
	}
	for range 20 {
		s := made[backend.Snapshot](t)(b.Snapshot(1, backend.SnapshotOptions{}))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Release()
		}()
		_, _ = s.Write(t.Context(), backend.Target{FS: storage.NewMemory(), Dir: dir, Shared: shared})
		<-ended
	}
	bed.check(t, "after all")
}

// testMergeFails checks that what could not be merged is still there.
func testMergeFails(t *testing.T, l Limits) {
	w := openBulky(t, l.Open(t, maxSize))
	elements := make([]string, maxSize/2) // with commas between them as many bytes as there may be
	for _, n := range []string{"a", "b", "c"} {
		w.list.SetNamespace(n)
		must(t, w.list.Set(elements))
		w.sum.SetNamespace(n)
		must(t, w.sum.Add(make([]byte, maxSize/2)))
	}
	if err := w.list.Merge("a", "b", "c"); err != nil {
		for _, n := range []string{"a", "b", "c"} {
			w.list.SetNamespace(n)
			equal(t, "list of namespace "+n, made[[]string](t)(w.list.Get()), elements)
		}
	}
	if err := w.sum.Merge("a", "b"); err != nil {
		for _, n := range []string{"a", "b"} {
			w.sum.SetNamespace(n)
			v, ok, err := w.sum.Get()
			must(t, err)
			if !ok || len(v) != maxSize/2 {
				t.Errorf("namespace %s: %d bytes, %v", n, len(v), ok)
			}
		}
	}
}

// testRestoreLate checks that what was written before is not mixed with what is restored.
func testRestoreLate(t *testing.T, open Opener) {
	var w *world
	fs := storage.NewMemory()
	for what, write := range map[string]func() error{
		"a value": func() error { return w.value.Set(1) },
		"a timer": func() error { return w.event.Register("w", 1) },
	} {
		late := open(t, All, nil)
		w = inhabit(t, late)
		must(t, late.SetKey("k"))
		must(t, write())
		if err := restore(late, fs); err == nil {
			t.Errorf("restored after %s was written", what)
		}
	}
}
