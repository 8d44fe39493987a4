package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

const (
	savepointA = "s3://b/sp/savepoint-012345-aaaaaaaaaaaa"
	savepointB = "s3://b/sp/savepoint-012345-bbbbbbbbbbbb"
)

func (w *gcWorld) dispose(o DisposeOptions, snapshots ...string) *GCPlan {
	w.t.Helper()
	p, err := PlanDispose(w.t.Context(), w.fsys, snapshots, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// own are the URIs of files beside metadata.
func own(dir string, ns ...int) (uris []string) {
	for _, n := range ns {
		uris = append(uris, storage.Join(dir, uuid(n)))
	}
	return uris
}

// TestD13DisposeDerived is the recipe: A can't go as long as B uses 12 of its files.
func TestD13DisposeDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		var all []int
		for n := range 20 {
			all = append(all, n)
		}
		w.snapshot(savepointA, 4, nil, all...)
		time.Sleep(5 * day)
		w.snapshot(savepointB, 5, own(savepointA, all[:12]...), 100, 101)
		scope := []string{"s3://b/sp"}
		wantRefusal(t, w.dispose(DisposeOptions{Scope: scope}, savepointA), savepointB, "uses 12 files in its directory")
		p := w.dispose(DisposeOptions{Scope: scope, KeepUsed: true}, savepointA)
		if got := planned(t, p); !slices.Equal(got, append([]string{savepointA + "/_metadata"}, own(savepointA, all[12:]...)...)) && len(got) != 9 {
			t.Errorf("got %q", got)
		}
		// gc with keep-N doesn't take it either.
		time.Sleep(5 * day)
		gp := w.plan(GCOptions{KeepSavepoints: 1}, "s3://b")
		if got := planned(t, gp); len(got) != 0 || !strings.Contains(strings.Join(gp.Notes, ""), savepointB) {
			t.Errorf("got %q, notes %q", got, gp.Notes)
		}
		// Both at once: nobody is left who uses a file.
		p = w.dispose(DisposeOptions{Scope: scope}, savepointA, savepointB)
		if got := planned(t, p); len(got) != 24 {
			t.Errorf("%d files", len(got))
		}
		w.run(p, 24, 0, 0, 0)
		if left := w.files(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestD19DisposeOfWhatWasClaimed: checkpoints of B use files of a savepoint that has no metadata any more.
func TestD19DisposeOfWhatWasClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		files := own(savepointA, 1, 2, 3, 4)
		for _, f := range files {
			put(t, w.fsys, f, 7)
		}
		w.checkpoint(jobA, 8, files[:3])
		time.Sleep(5 * day)
		w.checkpoint(jobA, 9, files[1:3])
		p := w.plan(GCOptions{KeepLast: 1}, "s3://b")
		want := []string{chkDir(jobA, 8) + "/_metadata", files[0], files[3]}
		if got := planned(t, p); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_, err := PlanDispose(t.Context(), w.fsys, []string{savepointA}, DisposeOptions{})
		if err == nil || !strings.Contains(err.Error(), "no _metadata") {
			t.Errorf("got %v", err)
		}
		// What lies outside of the scope stays.
		d := w.dispose(DisposeOptions{}, chkDir(jobA, 8))
		if got := planned(t, d); !slices.Equal(got, want[:1]) || len(d.Kept) != 1 {
			t.Errorf("got %q, kept %+v", got, d.Kept)
		}
		d = w.dispose(DisposeOptions{Scope: []string{"s3://b"}}, chkDir(jobA, 8))
		if got := planned(t, d); !slices.Equal(got, want[:2]) {
			t.Errorf("got %q", got)
		}
		w.run(d, 2, 0, 0, 0)
	})
}

// TestDisposeCheckpoint: files that later checkpoints share stay, and one that may be in progress is minded.
func TestDisposeCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(1, 2, 3)
		w.checkpoint(jobA, 1, shared[:2], 10)
		w.checkpoint(jobA, 2, shared[1:], 11)
		put(t, w.fsys, chkDir(jobA, 3)+"/"+uuid(12), 7)
		wantRefusal(t, w.dispose(DisposeOptions{}, chkDir(jobA, 1)), "chk-3")
		p := w.dispose(DisposeOptions{Stopped: true}, chkDir(jobA, 1))
		want := []string{chkDir(jobA, 1) + "/" + uuid(10), chkDir(jobA, 1) + "/_metadata", shared[0]}
		if got := planned(t, p); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if !slices.Equal(p.Directories, []string{chkDir(jobA, 1)}) {
			t.Errorf("directories %q", p.Directories)
		}
		w.run(p, 3, 0, 0, 0)
		if _, err := PlanDispose(t.Context(), w.fsys, []string{storage.Join(gcRoot, jobA)}, DisposeOptions{}); !errors.Is(err, ErrRefused) {
			t.Errorf("a job's directory is taken: %v", err)
		}
		put(t, w.fsys, chkDir(jobB, 1)+"/_metadata", 7)
		wantRefusal(t, w.dispose(DisposeOptions{Stopped: true}, chkDir(jobA, 2)), jobB)
	})
}

// TestD20KeepSavepoints is the recipe: 9 savepoints, 2 incomplete, the newest one of them, the third oldest pinned.
func TestD20KeepSavepoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		var dirs []string
		for i := range 9 {
			dir := fmt.Sprintf("s3://b/sp/savepoint-012345-%012x", i)
			dirs = append(dirs, dir)
			w.snapshot(dir, int64(i+1), nil, 10*i, 10*i+1)
			time.Sleep(2 * day)
		}
		for _, i := range []int{4, 8} { // incomplete
			if err := w.fsys.Delete(t.Context(), storage.Join(dirs[i], uuid(10*i))); err != nil {
				t.Fatal(err)
			}
		}
		moved := "s3://b/sp/copy-of-one"
		w.snapshot(moved, 1, nil, 500)
		orphan := "s3://b/sp/savepoint-ffffff-aaaaaaaaaaaa"
		put(t, w.fsys, orphan+"/"+uuid(600), 7)
		time.Sleep(2 * day)
		o := GCOptions{KeepSavepoints: 5, Pins: pinsOf(dirs[2] + "/")}
		p := w.plan(o, "s3://b/sp")
		planned(t, p)
		// Newest complete ones: 7, 6, 5, 3, 2. Of the others 8 is newer than those, 4 between them.
		var dropped []string
		for _, d := range p.Drop {
			dropped = append(dropped, storage.Dir(d.Snapshot))
		}
		slices.Sort(dropped)
		if want := dirs[:2]; !slices.Equal(dropped, want) {
			t.Errorf("dropped %q, want %q", dropped, want)
		}
		if !slices.Equal(p.OrphanSavepoints, []string{orphan}) {
			t.Errorf("orphans %q", p.OrphanSavepoints)
		}
		o.KeepSavepoints = 1
		p = w.plan(o, "s3://b/sp")
		planned(t, p)
		dropped = nil
		for _, d := range p.Drop {
			dropped = append(dropped, storage.Dir(d.Snapshot))
		}
		slices.Sort(dropped)
		if want := []string{dirs[0], dirs[1], dirs[3], dirs[4], dirs[5], dirs[6]}; !slices.Equal(dropped, want) {
			t.Errorf("dropped %q, want %q", dropped, want)
		}
		w.run(p, 6*3-1, 0, 0, 0) // the orphan stays, as no checkpoint is in scope
		for _, stays := range []string{dirs[2], dirs[7], dirs[8], moved} {
			if !slices.Contains(w.files(), stays+"/_metadata") {
				t.Errorf("%s is gone", stays)
			}
		}
	})
}

// TestGCSavepointsOfJobsWithOneID: the beginning of an id tells a job only if no other job can have it. Flink gives
// jobs of application mode with high availability the id 0, and since 1.16 one that begins with 32 bits of a hash's sign.
func TestGCSavepointsOfJobsWithOneID(t *testing.T) {
	drops := func(w *gcWorld) (dropped []string) {
		p := w.plan(GCOptions{KeepSavepoints: 1}, "s3://b")
		planned(w.t, p)
		for _, d := range p.Drop {
			dropped = append(dropped, storage.Dir(d.Snapshot))
		}
		return dropped
	}
	savepoints := func(w *gcWorld, dir, id string) {
		for i := range 3 {
			w.snapshot(fmt.Sprintf("%s/savepoint-%s-%012x", dir, id, i), int64(i+1), nil, len(dir)*100+i)
			time.Sleep(2 * day)
		}
	}
	for _, id := range []string{"00000000000000000000000000000000", "0000000006924de00000000000000000", "ffffffffa24a3fb20000000000000000"} {
		bubble(t, id, func(t *testing.T) {
			w := newGCWorld(t)
			w.checkpoint(id, 1, nil, 1)
			savepoints(w, "s3://b/sp", id[:6])
			if got := drops(w); len(got) > 0 {
				t.Errorf("dropped %q", got)
			}
		})
	}
	bubble(t, "two directories of one id", func(t *testing.T) {
		w := newGCWorld(t)
		w.checkpoint(jobA, 1, nil, 1)
		w.snapshot("s3://b/other/"+jobA+"/chk-1", 1, nil, 2)
		savepoints(w, "s3://b/sp", jobA[:6])
		if got := drops(w); len(got) > 0 {
			t.Errorf("dropped %q", got)
		}
	})
	bubble(t, "files of one job in two directories", func(t *testing.T) {
		w := newGCWorld(t)
		w.checkpoint(jobA, 1, nil, 1)
		put(t, w.fsys, "s3://b/entropy/"+jobA+"/chk-1/"+uuid(3), 7)
		savepoints(w, "s3://b/sp", jobA[:6])
		if got := drops(w); len(got) != 2 {
			t.Errorf("dropped %q", got)
		}
	})
	bubble(t, "savepoints in two directories", func(t *testing.T) {
		w := newGCWorld(t)
		savepoints(w, "s3://b/sp", jobA[:6])
		savepoints(w, "s3://b/spx", jobA[:6])
		if got := drops(w); len(got) != 4 {
			t.Errorf("dropped %q", got)
		}
	})
}

// TestGCNumbersThatBeginAgain: a job that was started without its state counts from 1 again.
func TestGCNumbersThatBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		for i, id := range []int64{100, 101, 1, 2} {
			w.snapshot(fmt.Sprintf("s3://b/sp/savepoint-012345-%012x", i), id, nil, i)
			time.Sleep(2 * day)
		}
		p := w.plan(GCOptions{KeepSavepoints: 1}, "s3://b/sp")
		planned(t, p)
		if len(p.Drop) != 2 || p.Drop[0].CheckpointID+p.Drop[1].CheckpointID != 101 {
			t.Errorf("%+v", p.Drop)
		}
	})
}

// TestD22DeletionFails is the recipe: one key that may not be deleted, three that are gone, a marker, batches of 1,000.
func TestD22DeletionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		var ns []int
		for n := range 2500 {
			ns = append(ns, n)
		}
		litter := w.shared(ns...)
		w.checkpoint(jobA, 1, w.shared(3000))
		time.Sleep(5 * day)
		used := w.shared(3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010, 3011, 3012, 3013, 3014, 3015, 3016, 3017, 3018, 3019, 3020, 3021, 3022, 3023, 3024, 3025, 3026)
		w.checkpoint(jobA, 2, used)
		p := w.plan(GCOptions{KeepLast: 1})
		planned(t, p)
		for _, i := range []int{3, 33, 333} {
			if err := w.fsys.Delete(t.Context(), litter[i]); err != nil {
				t.Fatal(err)
			}
		}
		denied := litter[1234]
		inner := w.fsys
		w.fsys = denyDelete(inner, denied)
		var record strings.Builder
		r, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{Record: &record})
		if !errors.Is(err, ErrPartly) || r.Deleted.Files != 2500+2-4 || r.Gone.Files != 3 || r.Failed.Files != 1 || r.Failures[0].Path != denied {
			t.Fatalf("%v: %+v", err, r)
		}
		if n := strings.Count(record.String(), "\n"); n != 1+2502+1 || !strings.Contains(record.String(), `"what":"failed","error":"permission denied"`) {
			t.Errorf("%d lines", n)
		}
		w.fsys = inner
		w.run(p, 1, 2501, 0, 0)
		// The metadata of a snapshot can't be deleted: then its files stay.
		time.Sleep(5 * day)
		w.checkpoint(jobA, 3, nil, 9)
		p = w.plan(GCOptions{KeepLast: 1, AcceptMismatch: true})
		planned(t, p)
		w.fsys = denyDelete(inner, chkDir(jobA, 2)+"/_metadata")
		r, err = p.Execute(t.Context(), w.fsys, GCExecuteOptions{})
		if !errors.Is(err, ErrPartly) || r.Deleted.Files != 0 || r.Failed.Files != 27 {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

// denyDelete is a store that refuses to delete one object.
func denyDelete(inner storage.FS, uri string) storage.FS {
	return storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "delete" && s.URI == uri {
			return &storagetest.Fault{Err: fs.ErrPermission}
		}
		return nil
	}})
}

// TestD23Changelog is the recipe: three increments in two files, five files that nobody uses, two of them young.
func TestD23ChangelogGC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		dstl := storage.Join("s3://b/dstl", jobA, "dstl")
		write := func(ns ...int) (uris []string) {
			for _, n := range ns {
				uris = append(uris, storage.Join(dstl, uuid(n)))
				put(t, w.fsys, uris[len(uris)-1], 50)
			}
			return uris
		}
		old := write(1, 2, 3)
		used := write(10, 11)
		base := w.shared(20)
		time.Sleep(5 * day)
		changes := &metadata.ChangelogFile{StorageID: "filesystem", KeyGroups: metadata.KeyGroupRange{Count: 128}}
		for i, f := range []string{used[0], used[0], used[1]} {
			changes.Streams = append(changes.Streams, metadata.ChangelogStream{Stream: file(t, f, 30), Offset: int64(i)})
		}
		changes.Streams = append(changes.Streams, metadata.ChangelogStream{Stream: &metadata.ByteStream{Name: "c", Data: []byte{1}}})
		h := &metadata.Changelog{KeyGroups: metadata.KeyGroupRange{Count: 128},
			Base:  []metadata.Keyed{incrementalHandle(&metadata.ByteStream{Name: "m"}, []metadata.Stream{file(t, base[0], 7)}, nil)},
			Delta: []metadata.Keyed{changes}}
		putMetadata(t, w.fsys, chkDir(jobA, 1), &metadata.Snapshot{Version: metadata.Version4, CheckpointID: 1, Properties: metadata.NullProperties,
			Operators: []metadata.Operator{operator("op", &metadata.SubtaskState{ManagedKeyed: h})}})
		young := write(4, 5)
		time.Sleep(2 * day)
		p := w.plan(GCOptions{}, gcRoot, "s3://b/dstl")
		if got := planned(t, p); !slices.Equal(got, old) || p.Listed.Young.Files != int64(len(young)) {
			t.Errorf("got %q", got)
		}
		// The directory of the changelog alone says nothing.
		wantRefusal(t, w.plan(GCOptions{}, "s3://b/dstl"), "no snapshot")
		// Of a snapshot that goes, the changelog goes, too, if it is in scope.
		d := w.dispose(DisposeOptions{Scope: []string{"s3://b"}, Stopped: true}, chkDir(jobA, 1))
		if got := planned(t, d); !slices.Equal(got, []string{chkDir(jobA, 1) + "/_metadata", base[0], used[0], used[1]}) {
			t.Errorf("got %q", got)
		}
	})
}

// TestGCSpelling: a listing that fits the metadata in no spelling that is known is not litter.
func TestGCSpelling(t *testing.T) {
	for name, c := range map[string]struct {
		recorded string
		alias    []Rule
		refused  bool
	}{
		"s3a for s3":         {"s3a://b", nil, false},
		"another scheme":     {"hdfs://ns1/b", nil, true},
		"another bucket":     {"s3://other", nil, true},
		"another, mentioned": {"hdfs://ns1/b", []Rule{{From: "hdfs://ns1/b", To: "s3://b"}}, false},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			litter := w.shared(100)
			var recorded []string
			for _, uri := range w.shared(1, 2, 3) {
				recorded = append(recorded, c.recorded+strings.TrimPrefix(uri, "s3://b"))
			}
			time.Sleep(5 * day)
			w.checkpoint(jobA, 1, recorded, 5)
			p := w.plan(GCOptions{AuditOptions: AuditOptions{Aliases: c.alias}})
			if c.refused {
				wantRefusal(t, p, c.recorded, "s3://b", "alias")
				// Statistics may be accepted, but not that.
				wantRefusal(t, w.plan(GCOptions{AcceptMismatch: true}), c.recorded, "s3://b", "alias")
			} else if got := planned(t, p); !slices.Equal(got, litter) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestGCSuspicious: where nothing, or hardly anything, of a listing is in use, snapshots are missing.
func TestGCSuspicious(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		var ns []int
		for n := range 200 {
			ns = append(ns, n)
		}
		litter := w.shared(ns...)
		time.Sleep(5 * day)
		wantRefusal(t, w.plan(GCOptions{}), "no snapshot")
		w.checkpoint(jobA, 1, nil)
		wantRefusal(t, w.plan(GCOptions{}), "none of the files")
		w.checkpoint(jobA, 2, litter[:1])
		wantRefusal(t, w.plan(GCOptions{}), "only 1 files")
		if got := planned(t, w.plan(GCOptions{AcceptMismatch: true})); len(got) != 199 {
			t.Errorf("%d files", len(got))
		}
		w.checkpoint(jobA, 3, litter[:2])
		w.wantPlan(GCOptions{}, litter[2:]...)
		p := w.plan(GCOptions{MaxDelete: 197})
		if len(p.Refused) != 1 || !strings.Contains(p.Refused[0], "198 files") {
			t.Errorf("%q", p.Refused)
		}
		if _, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{}); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		w.wantPlan(GCOptions{MaxDelete: 198}, litter[2:]...)
		w.wantPlan(GCOptions{Only: []string{"s3://b/ck/" + jobB}})
		w.wantPlan(GCOptions{Pins: pinsOf(litter[7])}, slices.Delete(slices.Clone(litter), 7, 8)[2:]...)
		if _, err := PlanGC(t.Context(), w.fsys, []string{gcRoot}, GCOptions{References: []string{"s3://b/typo"}}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a reference that is not there: %v", err)
		}
	})
}

// TestGCTaskOwned: files of write-ahead logs are in no metadata.
func TestGCTaskOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		wal := storage.Join(gcRoot, jobA, "taskowned", uuid(1))
		put(t, w.fsys, wal, 7)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 1, w.shared(2))
		p := w.wantPlan(GCOptions{})
		if len(p.Kept) != 1 || !strings.Contains(p.Kept[0].Reason, "taskowned") {
			t.Errorf("%+v", p.Kept)
		}
		w.wantPlan(GCOptions{TaskOwned: true}, wal)
	})
}

// pinsOf are pins without a word on where they come from.
func pinsOf(paths ...string) (pins []Pin) {
	for _, p := range paths {
		pins = append(pins, Pin{Path: p})
	}
	return pins
}

// TestGCPinElsewhere: a pinned snapshot outside of the roots protects what it uses below them, as do those of a pinned job.
func TestGCPinElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(1, 2, 3, 4)
		w.snapshot(savepointA, 1, shared[:1], 7)
		other := "s3://b/old/" + jobB
		w.snapshot(other+"/chk-8", 8, shared[2:3])
		time.Sleep(5 * day)
		w.checkpoint(jobA, 1, shared[1:2])
		w.wantPlan(GCOptions{}, shared[0], shared[2], shared[3])
		w.wantPlan(GCOptions{Pins: pinsOf(savepointA)}, shared[2], shared[3])
		w.wantPlan(GCOptions{Pins: pinsOf(savepointA+"/_metadata", "s3a://b//old/"+jobB+"/")}, shared[3])
		// Flink may know the place under another name.
		alias := []Rule{{From: "hdfs://ns1/b", To: "s3://b"}}
		w.wantPlan(GCOptions{AuditOptions: AuditOptions{Aliases: alias}, Pins: pinsOf("hdfs://ns1/b/old", "hdfs://ns1/b/ck/"+jobA+"/shared/"+uuid(4))}, shared[0])
	})
}

// TestGCPinsOfNothing: a pin that names nothing is a mistake, and protects nothing.
func TestGCPinsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		litter := w.shared(1)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 1, w.shared(2))
		w.snapshot(savepointA, 1, nil, 7)
		put(t, w.fsys, "s3://b/notes.txt", 1)
		for pin, why := range map[string]string{
			"s3://b/gone": "nothing is there",
			"https://x/y": "nothing is there",
			savepointB:    "nothing is there",
			"hdfs://b/ck/" + jobA + "/shared/" + uuid(1): "nothing is there",
			gcRoot + "/" + jobA + "/chk-9":               "nothing is there",
			"s3://b/notes.txt":                           "outside of the roots",
		} {
			_, err := PlanGC(t.Context(), w.fsys, []string{gcRoot}, GCOptions{Pins: []Pin{{Path: litter[0]}, {Path: pin, From: "pins.txt, line 7"}}})
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), pin+" (pins.txt, line 7)") || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", pin, err)
			}
		}
		// A saved plan is not executed without its pins.
		p := w.plan(GCOptions{Pins: pinsOf(savepointA)})
		p.audit = nil
		if err := w.fsys.Delete(t.Context(), savepointA+"/_metadata", savepointA+"/"+uuid(7)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{}); !errors.Is(err, ErrRefused) || !slices.Contains(w.files(), litter[0]) {
			t.Errorf("without a pinned snapshot: %v", err)
		}
	})
}

// TestGCReferenceInRoot: below a reference nothing is deleted, also where a root is above it, and also by a plan that was edited.
func TestGCReferenceInRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		jobDir, other := storage.Join(gcRoot, jobA), storage.Join(gcRoot, jobB)
		litter, used := w.shared(100, 101), w.shared(1)
		w.checkpoint(jobA, 1, used)
		w.checkpoint(jobB, 1, nil, 2)
		orphan := storage.Join(other, "shared", uuid(200))
		put(t, w.fsys, orphan, 7)
		put(t, w.fsys, chkDir(jobA, 0)+"/"+uuid(3), 7)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 2, used)
		w.checkpoint(jobB, 2, nil, 4)
		all := GCOptions{KeepLast: 1, EmptyDirs: true}
		if got := planned(t, w.plan(all)); len(got) != 7 {
			t.Fatalf("without a reference %q", got)
		}
		o := all
		o.References = []string{"s3a://b/ck/" + jobA + "/"}
		w.wantPlan(o, orphan, chkDir(jobB, 1)+"/_metadata", chkDir(jobB, 1)+"/"+uuid(2))
		for _, dir := range w.plan(o).Directories {
			if !strings.HasPrefix(dir, other) {
				t.Errorf("%s is to be removed", dir)
			}
		}
		o.Retire = []string{jobDir}
		if _, err := PlanGC(t.Context(), w.fsys, []string{gcRoot}, o); err == nil || !strings.Contains(err.Error(), "reference") {
			t.Errorf("a job below a reference is retired: %v", err)
		}
		// Nothing could be deleted below such a root.
		wantRefusal(t, w.plan(GCOptions{References: []string{gcRoot}}, jobDir), "below the reference")

		p := w.plan(all)
		p.References = []string{jobDir}
		w.run(p, 3, 0, 4, 0)
		if !slices.Contains(w.files(), litter[0]) || !slices.Contains(w.files(), chkDir(jobA, 1)+"/_metadata") {
			t.Error("a file below a reference is gone")
		}
	})
}

// TestGCRetireGrace: a job that wrote something within the grace period may be running, whatever is said of it.
func TestGCRetireGrace(t *testing.T) {
	for name, write := range map[string]func(*gcWorld){
		"a checkpoint":             func(w *gcWorld) { w.checkpoint(jobA, 2, nil, 2) },
		"a checkpoint in progress": func(w *gcWorld) { put(w.t, w.fsys, chkDir(jobA, 2)+"/"+uuid(2), 7) },
		"a shared file":            func(w *gcWorld) { w.shared(2) },
		"changes":                  func(w *gcWorld) { put(w.t, w.fsys, storage.Join("s3://b/dstl", jobA, "dstl", uuid(2)), 7) },
	} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			w.checkpoint(jobA, 1, w.shared(1))
			w.checkpoint(jobB, 1, nil, 50)
			time.Sleep(5 * day)
			write(w)
			dir := storage.Join(gcRoot, jobA)
			o := GCOptions{Retire: []string{dir}}
			time.Sleep(DefaultGrace - time.Minute)
			wantRefusal(t, w.plan(o, "s3://b"), dir, "can't be retired", "grace period")
			job := HeldJob{ID: jobA, State: "RUNNING", Directories: []string{dir}}
			o.Held = []*Held{{Jobs: []HeldJob{job}}}
			wantRefusal(t, w.plan(o, "s3://b"), "RUNNING", "grace period")
			job.State, job.Ended = "CANCELED", true
			o.Held[0].Jobs[0] = job
			planned(t, w.plan(o, "s3://b"))
			o.Held = nil
			time.Sleep(time.Minute)
			if got := planned(t, w.plan(o, "s3://b")); len(got) < 3 {
				t.Errorf("got %q", got)
			}
		})
	}
	bubble(t, "no time", func(t *testing.T) {
		w := newGCWorld(t)
		w.checkpoint(jobA, 1, w.shared(1))
		w.checkpoint(jobB, 1, nil, 50)
		time.Sleep(5 * day)
		w.fsys = aged{w.fsys, func(string) time.Time { return time.Time{} }}
		wantRefusal(t, w.plan(GCOptions{Retire: []string{storage.Join(gcRoot, jobA)}}), "not known")
	})
}

// TestGCCopyOfMetadata: where metadata was given another name, its files are not of a savepoint without any.
func TestGCCopyOfMetadata(t *testing.T) {
	for name, aside := range map[string]bool{"_metadata.bak": false, "_metadata.before-repair": true, "_metadata.before-relocate": true} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			w.checkpoint(jobA, 1, nil, 1)
			litter := w.shared(2)
			w.snapshot(savepointA, 1, nil, 10, 11)
			data, err := storage.ReadAll(t.Context(), w.fsys, savepointA+"/_metadata", 1<<20)
			if err == nil {
				err = storage.WriteFile(t.Context(), w.fsys, savepointA+"/"+name, data, storage.CreateOptions{})
			}
			time.Sleep(5 * day)
			w.checkpoint(jobA, 2, nil, 3)
			o := GCOptions{KeepSavepoints: 1}
			if got := planned(t, w.plan(o, "s3://b")); err != nil || !slices.Equal(got, litter) {
				t.Errorf("beside its metadata: %v, %q", err, got)
			}
			if err := w.fsys.Delete(t.Context(), savepointA+"/_metadata"); err != nil {
				t.Fatal(err)
			}
			p := w.plan(o, "s3://b")
			if !aside {
				wantRefusal(t, p, savepointA+"/"+name, "ignore")
				o.IgnoreMetadata = []string{savepointA + "/" + name}
				p = w.plan(o, "s3://b")
			} else if !strings.Contains(strings.Join(p.Notes, ""), savepointA+"/"+name) {
				t.Errorf("notes %q", p.Notes)
			}
			if got := planned(t, p); !slices.Equal(got, litter) {
				t.Errorf("without its metadata: %q", got)
			}
		})
	}
}

// TestGCRate deletes no faster than it should.
func TestGCRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		w.shared(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 1, nil, 20)
		p := w.plan(GCOptions{})
		planned(t, p)
		began := time.Now()
		if _, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{Rate: 2, Batch: 3}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %s of the bubble's time", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Execute(ctx, w.fsys, GCExecuteOptions{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestGCRateChecksLast: what comes while a slow run waits for its turn is minded: a checkpoint that
// uses files of the plan, and a file that was written anew.
func TestGCRateChecksLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 1, nil, 20)
		p := w.plan(GCOptions{})
		if n := len(planned(t, p)); n != len(shared) {
			t.Fatalf("%d files are planned", n)
		}
		done := make(chan *GCRun)
		go func() {
			r, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{Rate: 0.05})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		time.Sleep(2*time.Minute + time.Second)
		var left []string
		for _, uri := range shared {
			if _, err := w.fsys.Stat(t.Context(), uri); err == nil {
				left = append(left, uri)
			}
		}
		if len(left) < 2 || len(left) == len(shared) {
			t.Fatalf("%d of %d files are left after two minutes", len(left), len(shared))
		}
		w.checkpoint(jobA, 2, left[1:], 21)
		if err := w.fsys.Delete(t.Context(), left[0]); err != nil {
			t.Fatal(err)
		}
		put(t, w.fsys, left[0], 7)
		r := <-done
		if int(r.Skipped.Files) != len(left) || int(r.Deleted.Files) != len(shared)-len(left) {
			t.Errorf("%d skipped, %d deleted; %d files were left: %v", r.Skipped.Files, r.Deleted.Files, len(left), r.Skips)
		}
		for _, uri := range left {
			if _, err := w.fsys.Stat(t.Context(), uri); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestReadPins reads lists, and refuses what it would have to guess at.
func TestReadPins(t *testing.T) {
	pin := func(path string, at string) Pin { return Pin{Path: path, From: "pins.txt, " + at} }
	for text, want := range map[string][]Pin{
		"# pins\n\ns3://b/x\r\n /y/z \n":          {pin("s3://b/x", "line 3"), pin("/y/z", "line 4")},
		"\ufeffs3://b/x\nfile:/a b\n":             {pin("s3://b/x", "line 1"), pin("file:/a b", "line 2")},
		"\ufeff# s3://b/x\n":                      nil,
		"\ufeff[\"/a\", \n\"hdfs:///b/c\" ] \r\n": {pin("/a", "element 1"), pin("hdfs:///b/c", "element 2")},
		"[]": nil,
		"":   nil,
	} {
		if got, err := ReadPins(strings.NewReader(text), "pins.txt"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"s3://b/x\n- s3://b/y":          "line 2",
		"paths:\n  - s3://b/y":          "line 1",
		"\n\nlocation: s3://b/y":        "line 3",
		"location:s3://b/y":             "line 1",
		`"s3://b/y"`:                    "line 1",
		"'s3://b/y'":                    "line 1",
		"b/y":                           "line 1",
		"savepoint-012345-aaaaaaaaaaaa": "line 1",
		"s3://b":                        "line 1",
		"/":                             "line 1",
		"<none>":                        "line 1",
		"\xff\xfes\x003\x00":            "line 1",
		"s3://b/x\ts3://b/y":            "line 1",
		`["s3://b/x", "y"]`:             "element 2",
		`["s3://b/x", 7]`:               "list",
		`["s3://b/x",]`:                 "list",
		`["s3://b/x"] s3://b/y`:         "list",
		`{"items":["s3://b/x"]}`:        "line 1",
	} {
		if got, err := ReadPins(strings.NewReader(text), "pins.txt"); err == nil || !strings.HasPrefix(err.Error(), "pins.txt") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
