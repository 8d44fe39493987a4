package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// faultWorld has two jobs, snapshots to drop that share files, and litter.
func faultWorld(t *testing.T) *gcWorld {
	w := newGCWorld(t)
	shared := w.shared(1, 2, 3, 4, 5, 6)
	w.checkpoint(jobA, 1, shared[:3], 10, 11)
	w.checkpoint(jobA, 2, shared[1:4], 12)
	w.snapshot(savepointA, 3, nil, 20, 21)
	time.Sleep(5 * day)
	w.checkpoint(jobA, 4, shared[3:5], 13)
	w.checkpoint(jobB, 1, shared[2:3])
	return w
}

var faultOptions = GCOptions{KeepLast: 1, KeepSavepoints: 1}

// collect plans and executes with a store that fails.
func collect(t *testing.T, fsys storage.FS) error {
	p, err := PlanGC(t.Context(), fsys, []string{"s3://b"}, faultOptions)
	if err != nil {
		return err
	}
	_, err = p.Execute(t.Context(), fsys, GCExecuteOptions{Batch: 2, Recheck: -1})
	return err
}

// wantSound demands that every snapshot that is there has all its files.
func wantSound(t *testing.T, w *gcWorld, what string) {
	t.Helper()
	r, err := Audit(t.Context(), w.fsys, []string{"s3://b"}, AuditOptions{})
	if err != nil || !r.Decided() {
		t.Fatalf("%s: %v", what, err)
	}
	for _, s := range r.Snapshots {
		if !s.Complete() {
			t.Errorf("%s: %s misses %d files", what, s.URI, s.Missing)
		}
	}
	for _, dir := range []string{chkDir(jobA, 4), chkDir(jobB, 1), savepointA} {
		if !slices.Contains(w.files(), dir+"/_metadata") {
			t.Errorf("%s: %s is gone", what, dir)
		}
	}
}

// TestGCFaults lets each step fail, before and after its work, and everything fail from each step on.
func TestGCFaults(t *testing.T) {
	var steps int
	var want []string
	synctest.Test(t, func(t *testing.T) {
		w := faultWorld(t)
		f := storagetest.NewFaulty(w.fsys, storagetest.FaultOptions{})
		if err := collect(t, f); err != nil {
			t.Fatal(err)
		}
		steps, want = f.Steps(), w.files()
		var left []string
		for _, n := range []int{3, 4, 5} {
			left = append(left, storage.Join(gcRoot, jobA, "shared", uuid(n)))
		}
		for dir, own := range map[string][]int{chkDir(jobA, 4): {13}, chkDir(jobB, 1): nil, savepointA: {20, 21}} {
			left = append(left, storage.Join(dir, MetadataName))
			for _, n := range own {
				left = append(left, storage.Join(dir, uuid(n)))
			}
		}
		slices.Sort(left)
		if !slices.Equal(want, left) {
			t.Fatalf("left:\n got %q\nwant %q", want, left)
		}
		wantSound(t, w, "without faults")
	})
	if steps < 100 {
		t.Fatalf("only %d steps", steps)
	}
	broken := errors.New("broken")
	for name, options := range map[string]func(n int) storagetest.FaultOptions{
		"crash": func(n int) storagetest.FaultOptions { return storagetest.FaultOptions{CrashAfter: n} },
		"before": func(n int) storagetest.FaultOptions {
			return storagetest.FaultOptions{Inject: failAt(n, &storagetest.Fault{Err: broken})}
		},
		"after": func(n int) storagetest.FaultOptions {
			return storagetest.FaultOptions{Inject: failAt(n, &storagetest.Fault{Err: broken, Done: true})}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			for n := 1; n < steps; n++ {
				w := faultWorld(t)
				before := w.files()
				err := collect(t, storagetest.NewFaulty(w.fsys, options(n)))
				if errors.Is(err, ErrRefused) && !slices.Equal(before, w.files()) {
					t.Errorf("step %d: refused, but something was changed", n)
				}
				wantSound(t, w, name)
				if err := collect(t, w.fsys); err != nil && !errors.Is(err, ErrRefused) {
					t.Fatalf("step %d: running again: %v", n, err)
				}
				time.Sleep(5 * day)
				// What is young relative to the newest checkpoint stays; no more than that.
				for _, uri := range w.files() {
					if !slices.Contains(want, uri) && !slices.Contains(before, uri) {
						t.Errorf("step %d: %s came out of nothing", n, uri)
					}
				}
				wantSound(t, w, name+" and again")
				if left := w.files(); len(left) != len(want) {
					t.Errorf("step %d: %d files are left, want %d: %v", n, len(left), len(want), err)
				}
			}
		})
	}
}

func failAt(n int, f *storagetest.Fault) func(storagetest.Step) *storagetest.Fault {
	return func(s storagetest.Step) *storagetest.Fault {
		if s.N == n {
			return f
		}
		return nil
	}
}

// TestGCListingFails: a page of a listing that is lost refuses, in planning and in looking again.
func TestGCListingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := faultWorld(t)
		lost := func(s storagetest.Step) *storagetest.Fault {
			if s.Op == "list" && strings.HasSuffix(s.URI, jobB) {
				return &storagetest.Fault{Err: errors.New("page lost")}
			}
			return nil
		}
		faulty := storagetest.NewFaulty(w.fsys, storagetest.FaultOptions{Inject: lost})
		p, err := PlanGC(t.Context(), faulty, []string{"s3://b"}, faultOptions)
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, p, "page lost", jobB)
		before := w.files()
		p = w.plan(faultOptions, "s3://b")
		if _, err := p.Execute(t.Context(), faulty, GCExecuteOptions{}); !errors.Is(err, ErrRefused) || !slices.Equal(before, w.files()) {
			t.Errorf("%v", err)
		}
	})
}

// liar is a store that says it deleted metadata, and does not.
type liar struct{ storage.FS }

func (l liar) Delete(ctx context.Context, uris ...string) error {
	return l.FS.Delete(ctx, slices.DeleteFunc(slices.Clone(uris), func(u string) bool { return storage.Base(u) == MetadataName })...)
}

// TestGCMetadataStays: the files of a dropped snapshot stay unless its metadata is seen to be gone.
func TestGCMetadataStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, fsys := range map[string]func(storage.FS) storage.FS{
			"still there": func(fsys storage.FS) storage.FS { return liar{fsys} },
			"not seen": func(fsys storage.FS) storage.FS {
				looks := map[string]int{}
				return storagetest.NewFaulty(fsys, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
					if looks[s.URI]++; s.Op == "delete" && storage.Base(s.URI) == MetadataName {
						looks[s.URI] = 100
					}
					if looks[s.URI] > 100 && s.Op == "stat" {
						return &storagetest.Fault{Err: errors.New("no answer")}
					}
					return nil
				}})
			},
		} {
			w := faultWorld(t)
			p := w.plan(faultOptions, "s3://b")
			of := map[string]bool{}
			for e := range p.Entries() {
				of[e.Path] = len(e.Of) > 0
			}
			r, err := p.Execute(t.Context(), fsys(w.fsys), GCExecuteOptions{Recheck: -1})
			if !errors.Is(err, ErrPartly) || r.Failed.Files < int64(len(p.Drop))+1 || len(p.Drop) == 0 {
				t.Errorf("%s: %v: %+v", name, err, r)
			}
			left := w.files()
			for uri, dropped := range of {
				if dropped && !slices.Contains(left, uri) {
					t.Errorf("%s: %s is gone", name, uri)
				}
			}
		}
	})
}

// cutDelete is a store that is told to stop when it has deleted n objects.
type cutDelete struct {
	storage.FS
	n      int
	cancel context.CancelFunc
}

// Delete deletes the first n.
func (c cutDelete) Delete(ctx context.Context, uris ...string) error {
	defer c.cancel()
	return c.FS.Delete(&endsAfter{ctx, c.n}, uris...)
}

// endsAfter is a context that ends when it was asked n times.
type endsAfter struct {
	context.Context
	n int
}

func (c *endsAfter) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestGCCancelled: what was deleted before a run was told to stop is in its record as deleted, and nothing else.
func TestGCCancelled(t *testing.T) {
	for name, drop := range map[string]bool{"files": false, "metadata": true} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			if drop {
				for id := range int64(5) {
					w.checkpoint(jobA, id, nil)
				}
			} else {
				w.shared(1, 2, 3, 4, 5)
			}
			time.Sleep(5 * day)
			w.checkpoint(jobA, 9, nil, 20)
			p := w.plan(GCOptions{KeepLast: 1, AcceptMismatch: true})
			before := planned(t, p)
			if len(before) != 5 {
				t.Fatalf("got %q", before)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var record strings.Builder
			r, err := p.Execute(ctx, cutDelete{w.fsys, 2, cancel}, GCExecuteOptions{Record: &record})
			if !errors.Is(err, context.Canceled) || r.Deleted.Files != 2 || r.Failed.Files != 3 {
				t.Errorf("%v: %+v", err, r)
			}
			left := w.files()
			for _, uri := range before {
				what := "failed"
				if !slices.Contains(left, uri) {
					what = "deleted"
				}
				line := ""
				for l := range strings.Lines(record.String()) {
					if strings.Contains(l, fmt.Sprintf(`"file":{"path":%q`, uri)) {
						line = l
					}
				}
				if !strings.Contains(line, fmt.Sprintf(`"what":%q`, what)) {
					t.Errorf("%s was %s: %q", uri, what, line)
				}
			}
		})
	}
}
