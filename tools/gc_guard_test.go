package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/storage"
)

// TestGCHeld: what a running job holds stays, whatever else is asked for.
func TestGCHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(1, 2, 3, 4)
		w.checkpoint(jobA, 1, shared[:1])
		w.checkpoint(jobA, 2, shared[1:2])
		w.snapshot(savepointA, 1, nil, 30)
		w.snapshot(savepointB, 2, nil, 31)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 3, shared[2:3])
		w.snapshot("s3://b/sp/savepoint-012345-cccccccccccc", 3, nil, 32)
		late := w.shared(5)
		began := time.Now()
		time.Sleep(2 * day)
		w.checkpoint(jobA, 4, shared[3:])
		time.Sleep(2 * day)

		job := HeldJob{ID: jobA, State: "RUNNING", KeepSince: began, newest: 4, Snapshots: []HeldSnapshot{
			{ID: 4, Path: "s3a://b/ck/" + jobA + "/chk-4"}, {ID: 2, Path: "s3a://b/ck/" + jobA + "/chk-2"},
		}, Restored: &HeldSnapshot{ID: 1, Savepoint: true, Path: savepointA}, Directories: []string{"s3a://b/ck/" + jobA}}
		o := GCOptions{KeepLast: 1, KeepSavepoints: 1}
		drops := func(held ...*Held) (ids []string) {
			o.Held = held
			p := w.plan(o, "s3://b")
			planned(t, p)
			for _, d := range p.Drop {
				ids = append(ids, storage.Base(storage.Dir(d.Snapshot)))
			}
			slices.Sort(ids)
			return ids
		}
		b, c := storage.Base(savepointB), storage.Base(savepointA)
		if got := drops(); !slices.Equal(got, []string{"chk-1", "chk-2", "chk-3", c, b}) {
			t.Errorf("nobody holds anything: %q", got)
		}
		// chk-1 has the number of what the job was restored from; better too much than too little.
		if got := drops(&Held{Jobs: []HeldJob{job}}); !slices.Equal(got, []string{"chk-3", b}) {
			t.Errorf("a running job: %q", got)
		}
		p := w.plan(o, "s3://b")
		if slices.Contains(planned(t, p), late[0]) {
			t.Error("a file that was written since the newest checkpoint began is deleted")
		}
		ended := job
		ended.Ended, ended.State = true, "CANCELED"
		if got := drops(&Held{Jobs: []HeldJob{ended}}); len(got) != 5 {
			t.Errorf("a job that ended: %q", got)
		}

		o.Held, o.Retire = []*Held{{Jobs: []HeldJob{job}}}, []string{"s3://b/ck/" + jobA}
		wantRefusal(t, w.plan(o, "s3://b"), "RUNNING")
		o.Retire = nil
		other := job
		other.Snapshots = []HeldSnapshot{{ID: 4, Path: "hdfs://ns/ck/" + jobA + "/chk-4"}}
		o.Held = []*Held{{Jobs: []HeldJob{other}}}
		wantRefusal(t, w.plan(o, "s3://b"), "hdfs://ns/ck/", "spelled in another way")
		wantRefusal(t, w.dispose(DisposeOptions{Scope: []string{"s3://b/sp"}, Held: []*Held{{Jobs: []HeldJob{job}}}}, savepointA), "held by job "+jobA)

		// What is held is asked again before the deletion.
		o.Held = nil
		p = w.plan(o, "s3://b")
		before := w.files()
		gone := errors.New("no answer")
		_, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{Guard: func(context.Context) ([]*Held, error) { return nil, gone }})
		if !errors.Is(err, ErrRefused) || !errors.Is(err, gone) || !slices.Equal(before, w.files()) {
			t.Errorf("got %v", err)
		}
		r, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{Guard: func(context.Context) ([]*Held, error) { return []*Held{{Jobs: []HeldJob{job}}}, nil }})
		if !errors.Is(err, ErrPartly) || r.Skipped.Files != 4 || r.Failed.Files != 3 {
			t.Errorf("%v: %+v", err, r)
		}
		left := strings.Join(w.files(), "\n")
		for _, stays := range []string{"chk-1/_metadata", "chk-2/_metadata", savepointA + "/_metadata", savepointA + "/" + uuid(30), shared[0], shared[1], late[0]} {
			if !strings.Contains(left, stays) {
				t.Errorf("%s is gone", stays)
			}
		}
	})
}

// TestGCClocks: where the clocks of Flink and of this machine differ, no file counts as older than it is.
func TestGCClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		w.checkpoint(jobA, 1, w.shared(1))
		time.Sleep(2 * day)
		began := time.Now()
		time.Sleep(time.Minute)
		late := w.shared(5)
		time.Sleep(2 * day)
		w.checkpoint(jobA, 4, w.shared(2))
		time.Sleep(2 * day)
		job := HeldJob{ID: jobA, State: "RUNNING", KeepSince: began.Add(30 * time.Minute), newest: 4, Snapshots: []HeldSnapshot{{ID: 4, Path: chkDir(jobA, 4)}}}
		w.wantPlan(GCOptions{}, late...)
		w.wantPlan(GCOptions{Held: []*Held{{Jobs: []HeldJob{job}}}}, late...)
		ahead := &Held{ClockAhead: 30 * time.Minute, Jobs: []HeldJob{job}}
		w.wantPlan(GCOptions{Held: []*Held{ahead}})

		// A plan that was made without asking is executed with what Flink says.
		p := w.plan(GCOptions{})
		r, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{Guard: func(context.Context) ([]*Held, error) { return []*Held{ahead}, nil }})
		if err != nil || r.Deleted.Files != 0 || r.Skipped.Files != 1 {
			t.Errorf("%v: %+v", err, r)
		}

		// The clock of this machine is ahead.
		orphan := storage.Join(gcRoot, jobB, "shared", uuid(9))
		put(t, w.fsys, orphan, 7)
		time.Sleep(DefaultGrace + time.Minute)
		w.checkpoint(jobB, 1, nil)
		w.wantPlan(GCOptions{}, append(late, orphan)...)
		w.wantPlan(GCOptions{Held: []*Held{{ClockAhead: -time.Hour}}}, late...)
	})
}
