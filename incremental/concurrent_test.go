package incremental

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// TestConcurrentCheckpoints has subtasks upload while checkpoints complete, are aborted and are restored, all at once.
// Whatever the order, a snapshot that is there has its files, and in the end nothing else is there.
func TestConcurrentCheckpoints(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f, Retain: 2})
	var mu sync.Mutex
	files := map[int64][]string{0: nil} // that each checkpoint which completed names
	var completed atomic.Int64
	var wg sync.WaitGroup
	for worker := range 4 {
		rnd := rand.New(rand.NewPCG(1, uint64(worker)))
		wg.Go(func() {
			for range 60 {
				p, err := c.Begin(c.NextID())
				if err != nil {
					if !errors.Is(err, ErrID) { // another one was faster
						t.Error(err)
					}
					continue
				}
				var uploads sync.WaitGroup
				names := make([]string, 3)
				ends := rnd.IntN(4)
				for i := range names {
					names[i] = fmt.Sprintf("%s/f%d-%d", p.SharedDir(), p.ID(), i)
					uploads.Go(func() {
						err := storage.WriteFile(t.Context(), p.FS(), names[i], []byte("x"), storage.CreateOptions{})
						if err != nil && p.Err() == nil {
							t.Errorf("upload: %v", err)
						}
					})
				}
				if ends == 0 {
					if err := p.Abort(t.Context()); err != nil {
						t.Error(err)
					}
					uploads.Wait()
					continue
				}
				uploads.Wait()
				mu.Lock()
				base := files[p.Base()]
				mu.Unlock()
				all := append(slices.Clone(base[:len(base)/2]), names...)
				var streams []metadata.Stream
				for _, uri := range all {
					streams = append(streams, file(uri, 1))
				}
				mu.Lock()
				files[p.ID()] = all // before it can be another's base
				mu.Unlock()
				_, err = p.Complete(t.Context(), modelSnapshotOf(p.ID(), streams))
				if err == nil {
					completed.Add(1)
				}
				if err != nil && !errors.Is(err, ErrSubsumed) && !errors.Is(err, ErrAborted) {
					t.Errorf("checkpoint %d on %d: %v", p.ID(), p.Base(), err)
				}
				if latest, ok := c.Latest(); ok && ends == 1 && rnd.IntN(4) == 0 {
					if _, err := c.Restore(t.Context(), latest.URI, NoClaim); err != nil && !isGone(c, latest.ID) {
						t.Errorf("restore of %d: %v", latest.ID, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d checkpoints completed", completed.Load())
	want := map[string]bool{}
	for _, r := range c.Retained() {
		want[r.URI] = true
		for _, uri := range files[r.ID] {
			want[uri] = true
		}
	}
	got := there(t, f, job)
	for _, name := range got {
		if !want[job+"/"+name] {
			t.Errorf("%s is left", name)
		}
	}
	if len(got) != len(want) || len(c.Retained()) != 2 {
		t.Errorf("there is\n%s\nretained %v", strings.Join(got, "\n"), c.Retained())
	}
	if len(c.pending)+len(c.held)+len(c.garbage)+len(c.doomed)+len(c.dirs) > 0 {
		t.Errorf("something is remembered: %v", c.leftovers)
	}
}

// isGone says that a checkpoint was subsumed meanwhile.
func isGone(c *Checkpoints, id int64) bool {
	return !slices.ContainsFunc(c.Retained(), func(r Completed) bool { return r.ID == id })
}
