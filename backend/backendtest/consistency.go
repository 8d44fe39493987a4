package backendtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// paced is a store whose files are begun and written only as a count goes on.
type paced struct {
	storage.FS
	steps *atomic.Int64
}

// pace is how many steps are waited for.
const pace = 15

func (p paced) wait() {
	for until := p.steps.Load() + pace; p.steps.Load() < until; {
		runtime.Gosched()
	}
}

func (p paced) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	p.wait()
	w, err := p.FS.Create(ctx, uri, o)
	return pacedWriter{w, p}, err
}

type pacedWriter struct {
	storage.Writer
	p paced
}

func (w pacedWriter) Write(b []byte) (int, error) {
	w.p.wait()
	return w.Writer.Write(b)
}

// testConsistency changes everything at full speed, values of each kind, merges, timers and what has expired, while
// snapshots are written, which must hold what was there when they were taken.
func testConsistency(t *testing.T, open Opener) {
	bed := newBed()
	b := open(t, All, bed.now)
	w := bed.settle(t, b)
	d := random(7)
	for _, o := range []backend.SnapshotOptions{
		{Format: backend.FormatCanonical}, {Format: backend.FormatCanonical, Compress: true}, {Format: backend.FormatFull},
		{Format: backend.FormatFull, Compress: true}, {Format: backend.FormatRocksDB, TableSize: 16 << 10}, {Format: backend.FormatIncremental},
	} {
		t.Run(fmt.Sprintf("format %v, compressed %v", o.Format, o.Compress), func(t *testing.T) {
			for i, k := range someKeys {
				// Enough for many writes, each in the midst of the state, and nothing that can be compressed.
				v := make([]byte, 64<<10)
				for j := range v {
					v[j] = byte(d("byte", 256))
				}
				must(t, b.SetKey(k))
				must(t, w.bytes.Set(v))
				bed.content[at("bytes", k)] = string(v)
				if i%4 == 0 {
					bed.steps(t, d, 100)
				}
			}
			var steps atomic.Int64
			fs := paced{storage.NewMemory(), &steps}
			want, clock := bed.want(), bed.clock
			s := made[backend.Snapshot](t)(b.Snapshot(1, o))
			var h metadata.Keyed
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				h, err = s.Write(context.Background(), backend.Target{FS: fs, Dir: dir, Shared: shared, InlineBelow: inFile})
			}()
			for running := true; running; {
				bed.step(t, d)
				steps.Add(1)
				select {
				case <-done:
					running = false
				default:
				}
			}
			must(t, err)
			if n := steps.Load(); n < 3*pace {
				t.Errorf("only %d steps while the snapshot was written", n)
			}
			bed.check(t, "the backend itself")
			again := open(t, All, func() int64 { return clock })
			must(t, restore(again, fs.FS, handles(s, h)))
			got := map[string]any{}
			inhabit(t, again).read(t, got)
			equal(t, "the snapshot", got, want)
			must(t, again.Close())
		})
	}
}

// unwritten is how many bytes the first snapshot of a large state may take, for what the backend has not given its database yet.
const unwritten = 8 << 20

// testSynchronous measures what taking hold of the state costs. It must not depend on how much there is, by
// the memory that it takes; the time is only printed. The first snapshot may take more, within a limit.
func testSynchronous(t *testing.T, open Opener) {
	type cost struct{ bytes, objects uint64 }
	var first cost
	for _, n := range []int64{10_000, 100_000, 1_000_000} {
		b := open(t, All, nil)
		v := made[backend.Value[void, int64]](t)(state.OpenValue(b, value("value", serializer.ForLong())))
		q := made[backend.Timers[string, string]](t)(state.OpenTimers(b, backend.TimersDescriptor[string]{Service: "timers", Namespace: serializer.ForString()}))
		for i := range n {
			must(t, b.SetKey(fmt.Sprint(i)))
			must(t, v.Set(i))
			if i%10 == 0 {
				must(t, q.Register("", i))
			}
		}
		var costs []cost
		var times []time.Duration
		for i := range 30 {
			must(t, b.SetKey(fmt.Sprint(i)))
			must(t, v.Set(int64(i))) // so that a snapshot is not the one before
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			s, err := b.Snapshot(1, backend.SnapshotOptions{})
			times = append(times, time.Since(start))
			runtime.ReadMemStats(&after)
			must(t, err)
			s.Release()
			costs = append(costs, cost{after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs})
		}
		t.Logf("%8d keys: %6d bytes, %4d objects, %v (the first)", n, costs[0].bytes, costs[0].objects, times[0])
		if costs[0].bytes > unwritten {
			t.Errorf("%d keys: %+v for the first snapshot", n, costs[0])
		}
		// Others of the process may have taken memory meanwhile, too, but hardly each time.
		least := slices.MinFunc(costs, func(a, b cost) int { return int(a.bytes) - int(b.bytes) })
		slices.Sort(times)
		t.Logf("%8d keys: %6d bytes, %4d objects, %v (median), %v (longest)", n, least.bytes, least.objects, times[len(times)/2], times[len(times)-1])
		if first == (cost{}) {
			first = least
		}
		if least.bytes > first.bytes+first.bytes/4 || least.objects > first.objects+first.objects/4 {
			t.Errorf("%d keys: %+v, but %+v for fewer", n, least, first)
		}
		must(t, b.Close())
	}
}
