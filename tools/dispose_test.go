package tools

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/storage"
)

// TestDisposeNewest: the newest checkpoint of a job is what it restores from after a failure, and goes only if it is
// said, or Flink says, that the job doesn't need it.
func TestDisposeNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(1, 2, 3)
		for id := int64(1); id <= 3; id++ {
			w.checkpoint(jobA, id, shared[id-1:id])
			time.Sleep(time.Minute)
		}
		planned(t, w.dispose(DisposeOptions{}, chkDir(jobA, 2)))
		wantRefusal(t, w.dispose(DisposeOptions{}, chkDir(jobA, 3)), "chk-3", "newest", "may be running")
		// Without the one before it is the newest that is left.
		wantRefusal(t, w.dispose(DisposeOptions{}, chkDir(jobA, 3), chkDir(jobA, 2)), "chk-2/_metadata: the newest", "chk-3/_metadata: the newest")
		if got := planned(t, w.dispose(DisposeOptions{Stopped: true}, chkDir(jobA, 3))); len(got) != 2 {
			t.Errorf("got %q", got)
		}

		held := func(jobs ...HeldJob) DisposeOptions { return DisposeOptions{Held: []*Held{{Jobs: jobs}}} }
		job := HeldJob{ID: jobA, State: "RUNNING", newest: 4, Directories: []string{"s3a://b/ck/" + jobA}}
		wantRefusal(t, w.dispose(held(), chkDir(jobA, 3)), "newest")
		other := job
		other.ID, other.Directories = jobB, []string{"s3a://b/ck/" + jobB}
		wantRefusal(t, w.dispose(held(other), chkDir(jobA, 3)), "newest")
		// One of this id that ended elsewhere is another job.
		other = job
		other.Ended, other.State, other.Directories = true, "CANCELED", []string{"s3://other/ck/" + jobA}
		wantRefusal(t, w.dispose(held(other), chkDir(jobA, 3)), "newest")
		holds := job
		holds.Snapshots = []HeldSnapshot{{ID: 3, Path: "s3://b/ck/" + jobA + "/chk-3"}}
		wantRefusal(t, w.dispose(held(holds), chkDir(jobA, 3)), "held by job "+jobA)
		planned(t, w.dispose(held(job), chkDir(jobA, 3)))
		ended := job
		ended.Ended, ended.State = true, "FINISHED"
		put(t, w.fsys, chkDir(jobA, 4)+"/"+uuid(12), 7)
		wantRefusal(t, w.dispose(held(job), chkDir(jobA, 3)), "chk-4 has no metadata")
		planned(t, w.dispose(held(ended), chkDir(jobA, 3)))
		// It ended on one cluster and runs on another.
		wantRefusal(t, w.dispose(DisposeOptions{Held: []*Held{{Jobs: []HeldJob{ended}}, {Jobs: []HeldJob{job}}}}, chkDir(jobA, 3)), "chk-4 has no metadata")

		// Started without its state, the job counts from 1 again.
		restarted := "s3://b/ck/" + jobB
		w.checkpoint(jobB, 100, nil, 20)
		time.Sleep(time.Hour)
		w.checkpoint(jobB, 1, nil, 21)
		wantRefusal(t, w.dispose(DisposeOptions{}, chkDir(jobB, 1)), restarted+"/chk-1/_metadata: the newest")
		wantRefusal(t, w.dispose(DisposeOptions{}, chkDir(jobB, 100)), restarted+"/chk-100/_metadata: the newest")
	})
}

// TestDisposeClaimed: checkpoints of a job that claimed a native savepoint use its files, and lie elsewhere.
func TestDisposeClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		w.snapshot(savepointA, 1, nil, 1, 2, 3)
		w.checkpoint(jobB, 1, own(savepointA, 1, 2), 4)
		wantRefusal(t, w.dispose(DisposeOptions{}, savepointA), savepointA, "native", "s3://b/sp", "scope")
		wantRefusal(t, w.dispose(DisposeOptions{Scope: []string{"s3://b"}}, savepointA), "chk-1 uses 2 files in its directory")
		planned(t, w.dispose(DisposeOptions{Scope: []string{"s3://b/sp"}}, savepointA))
	})
}

// TestDisposeFixtures: of the savepoints that Flink wrote, those of the native format need a scope, and the others don't.
func TestDisposeFixtures(t *testing.T) {
	truths, err := filepath.Glob(filepath.Join(sharedFixtures(t), "flink", "*", "sp-*", "truth.json"))
	if err != nil || len(truths) < 56 {
		t.Fatalf("%d fixtures: %v", len(truths), err)
	}
	native := 0
	for _, name := range truths {
		var truth struct {
			Snapshots []struct{ Command, Dir string }
		}
		readJSON(t, name, &truth)
		for _, s := range truth.Snapshots {
			dir := "file:" + filepath.Join(filepath.Dir(name), s.Dir)
			p, err := PlanDispose(t.Context(), storage.NewLocal(storage.LocalOptions{}), []string{dir}, DisposeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			refused := slices.ContainsFunc(p.Refused, func(r string) bool { return strings.Contains(r, "native") })
			if want := strings.Contains(s.Command, "NATIVE"); refused != want {
				t.Errorf("%s, %s: refused %q", dir, s.Command, p.Refused)
			} else if want {
				native++
			}
		}
	}
	if native < 8 {
		t.Errorf("only %d native savepoints", native)
	}
}
