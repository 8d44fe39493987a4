package runtime

import (
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// TestSizes: what subtasks tell of their state adds up to the files that there are, and an incremental checkpoint of a job at rest writes little.
func TestSizes(t *testing.T) {
	for name, set := range map[string]func(b *bench) *Job{
		"full": func(b *bench) *Job { return b.job() },
		"incremental": func(b *bench) *Job {
			b.o.Backend, b.o.WorkDir, b.o.Checkpoints.Incremental = BackendPebble, t.TempDir(), true
			return b.job()
		},
		"unaligned": func(b *bench) *Job {
			b.o.Checkpoints.Unaligned = true
			b.delay.Store(int64(time.Millisecond))
			return b.backlog()
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 3000, func(b *bench) {
				j := set(b)
				b.o.Checkpoints.InlineBelow = -1
				x, err := Start(b.t.Context(), j, b.o)
				if err != nil {
					b.t.Fatal(err)
				}
				time.Sleep(550 * time.Millisecond)
				all, err := x.Checkpoints(b.t.Context())
				if err != nil {
					b.t.Fatal(err)
				}
				c := all[len(all)-1]
				if c.Status != CheckpointCompleted || (c.Channels > 0) != (name == "unaligned") {
					b.t.Fatalf("%+v", c)
				}
				var files, described int64
				for info, err := range b.fs.List(b.t.Context(), "mem:///checkpoints/"+x.ID()) {
					if err != nil {
						b.t.Fatal(err)
					}
					if storage.Base(info.URI) == metadata.FileName {
						described = info.Size
						continue
					}
					files += info.Size
				}
				var state, written int64
				for _, s := range c.Subtasks {
					state, written = state+s.StateSize, written+s.CheckpointedSize
				}
				// Each part of the state is described once more than in the metadata.
				overhead := described + 100*int64(len(c.Subtasks))
				if c.FullSize != files+described || state < files || state > files+overhead {
					b.t.Errorf("files of %d bytes, metadata of %d; full size %d; state of all subtasks %d", files, described, c.FullSize, state)
				}
				if c.CheckpointedSize < described || written < c.CheckpointedSize-described || written > c.CheckpointedSize+overhead {
					b.t.Errorf("%d bytes were written, by all subtasks %d", c.CheckpointedSize, written)
				}
				if (written < state) != (name == "incremental") {
					b.t.Errorf("state of %d bytes, of which %d were written", state, written)
				}
				if err := x.Cancel(b.t.Context()); err != nil {
					b.t.Fatal(err)
				}
			})
		})
	}
}
