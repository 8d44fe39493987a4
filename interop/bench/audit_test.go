//go:build linux

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// TestDepot makes a small tree and audits it: what the benchmark measures is what it says, and an
// audit stays within the memory that a million files may take, divided by 50.
func TestDepot(t *testing.T) {
	const limit = 512 << 20 / 50
	d := depot{objects: 20_000, jobs: 2, snapshots: 20, references: 2000}
	root := t.TempDir() + "/tree"
	if err := d.make(t.Context(), putLocal, root); err != nil {
		t.Fatal(err)
	}
	var r *tools.AuditReport
	var err error
	peak := heapPeak(func() {
		r, err = tools.Audit(t.Context(), storage.NewLocal(storage.LocalOptions{}), []string{root}, tools.AuditOptions{Grace: -1})
	})
	if err != nil {
		t.Fatal(err)
	}
	c, got := d.count(), r.Totals
	if c.all != 20_000 || got.All.Files != c.all || got.Referenced.Files != c.referenced || got.Unreferenced.Files != c.unreferenced {
		t.Errorf("got %+v, want %+v", got, c)
	}
	if c.referenced < c.all/3 || c.unreferenced < c.all/3 {
		t.Errorf("%+v is not what a job leaves", c)
	}
	if len(r.Snapshots) != d.snapshots || len(r.Jobs) != d.jobs || r.Missing+r.WrongSize+r.Unseen != 0 {
		t.Errorf("%d snapshots, %d jobs, %d missing", len(r.Snapshots), len(r.Jobs), r.Missing)
	}
	for _, s := range r.Snapshots {
		if n := s.Own.Files + s.Shared.Files; n != int64(d.references)+1 || s.Foreign.Files != 0 {
			t.Errorf("%s uses %d files and %d of others", s.URI, n, s.Foreign.Files)
		}
	}
	t.Logf("%d KiB on the heap", peak>>10)
	if peak > limit {
		t.Errorf("%d bytes on the heap, more than %d", peak, limit)
	}
}

// heapPeak gives how many bytes more were on the heap, garbage included, while fn ran.
func heapPeak(fn func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	var peak atomic.Uint64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				peak.Store(max(peak.Load(), sample[0].Value.Uint64()))
			case <-stop:
				return
			}
		}
	}()
	fn()
	close(stop)
	<-ended
	return max(peak.Load(), before) - before
}
