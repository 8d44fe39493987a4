package backendtest

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// taken is an incremental checkpoint of all subtasks, with what it must hold.
type taken struct {
	id      int64
	pieces  []piece
	content map[string]any
	clock   int64
}

// files are what a checkpoint uses.
func (c *taken) files() map[string]bool {
	used := map[string]bool{}
	add := func(s metadata.Stream) {
		switch s := s.(type) {
		case *metadata.File:
			used[storage.Key(s.Path.String())] = true
		case *metadata.RelativeFile:
			used[storage.Key(storage.Join(dir, s.Path.String()))] = true
		}
	}
	for _, p := range c.pieces {
		for _, h := range slices.Concat(p.h.Managed, p.h.Raw) {
			switch h := h.(type) {
			case *metadata.Incremental:
				add(h.Meta)
				for _, f := range slices.Concat(h.Shared, h.Private) {
					add(f.Stream)
				}
			case *metadata.KeyGroups:
				add(h.Delegate)
			}
		}
	}
	return used
}

// testIncremental takes incremental checkpoints of a state that changes, completes some and aborts others, and goes back to the newest
// complete one with any number of subtasks. A file is deleted as soon as neither that one needs it nor one that began with it.
func testIncremental(t *testing.T, open Opener) {
	rapid.Check(t, func(r *rapid.T) {
		d := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(r, what) }
		fs := storage.NewMemory()
		bed := newBed()
		closeAll := func() {
			for _, w := range bed.worlds {
				must(r, w.b.Close())
			}
			bed.worlds = nil
		}
		defer closeAll()
		bed.settle(r, open(t, All, bed.now))
		last := &taken{content: map[string]any{}, clock: bed.clock}
		var pending []*taken
		id := int64(0)
		each := func(f func(l backend.CheckpointListener)) {
			for _, w := range bed.worlds {
				if l, ok := w.b.(backend.CheckpointListener); ok {
					f(l)
				}
			}
		}
		clean := func() {
			used := map[string]bool{}
			for _, c := range append(slices.Clone(pending), last) {
				maps.Copy(used, c.files())
			}
			for info, err := range fs.List(t.Context(), "mem://checkpoints") {
				must(r, err)
				if !used[storage.Key(info.URI)] {
					must(r, fs.Delete(t.Context(), info.URI))
				}
			}
		}
		actions := []func(){
			func() { // take one
				id++
				c := &taken{id: id, content: maps.Clone(bed.content), clock: bed.clock}
				o := backend.SnapshotOptions{Format: backend.FormatIncremental, Rebase: d("rebase", 8) == 0}
				below := []int{inline, inFile, 0}[d("inline", 3)]
				for _, w := range bed.worlds {
					s := made[backend.Snapshot](r)(w.b.Snapshot(id, o))
					c.pieces = append(c.pieces, piece{w.b.KeyGroups(), write(r, s, fs, below)})
				}
				pending = append(pending, c)
			},
			func() { // complete one, which aborts those before
				if len(pending) == 0 {
					return
				}
				n := d("complete", len(pending))
				for _, c := range pending[:n] {
					each(func(l backend.CheckpointListener) { l.CheckpointAborted(c.id) })
				}
				last = pending[n]
				pending = pending[n+1:]
				each(func(l backend.CheckpointListener) { l.CheckpointCompleted(last.id) })
				clean()
			},
			func() { // abort one
				if len(pending) == 0 {
					return
				}
				n := d("abort", len(pending))
				c := pending[n]
				pending = slices.Delete(pending, n, n+1)
				each(func(l backend.CheckpointListener) { l.CheckpointAborted(c.id) })
				clean()
			},
			func() { // complete a savepoint, in which the database has no part
				id++
				each(func(l backend.CheckpointListener) { l.CheckpointCompleted(id) })
			},
			func() { // go back
				closeAll()
				pending = nil
				clean()
				bed.content, bed.clock = maps.Clone(last.content), last.clock
				parallelism := 1 + d("parallelism", 3)
				for i := range parallelism {
					groups := keygroup.RangeOf(i, MaxParallelism, parallelism)
					var handles []backend.Handles
					for _, p := range last.pieces {
						if !p.groups.Intersect(groups).Empty() {
							handles = append(handles, p.h)
						}
					}
					k := open(t, groups, bed.now)
					var w *world
					if d("opened before", 2) == 0 {
						w = inhabit(r, k)
					}
					must(r, restore(k, fs, handles...))
					if w == nil {
						w = inhabit(r, k)
					}
					bed.worlds = append(bed.worlds, w)
				}
				bed.check(r, "restored")
			},
		}
		for range modelSteps {
			if n := d("what", 4*len(actions)); n < len(actions) {
				actions[n]()
				continue
			}
			bed.step(r, d)
		}
		bed.check(r, "at last")
	})
}
