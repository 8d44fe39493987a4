package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// TestAuditEntropy: files in directories with random names are found, and
// so many directories are listed from above without counting anything twice.
func TestAuditEntropy(t *testing.T) {
	for _, n := range []int{5, mostSiblings + 40} {
		depots(t, func(t *testing.T, d *depot) {
			var used []string
			for i := range n {
				dir := fmt.Sprintf("%04x/ck/%s/shared", i, ownerA)
				used = append(used, d.state(dir, 1, 5*day)...)
				d.state(dir, 1, 5*day)
			}
			d.snapshot("ck/"+ownerA+"/chk-2", 3*day, used...)
			d.put("loose", 3, 5*day)
			r := d.audit(AuditOptions{Jobs: 3})
			wantTotals(t, r, int64(n+1), int64(n), 0, 1)
			if len(r.Jobs) != 1 || len(r.Foreign) != 0 || r.Snapshots[0].Shared.Files != int64(n) {
				t.Errorf("%d jobs, foreign %v, %+v", len(r.Jobs), r.Foreign, r.Snapshots)
			}
		})
	}
}

// TestAuditWorkingDirectories: ForSt's last attempt may be running, and so may one of a lower number that wrote
// later: numbers begin again when the JobManager recovers.
func TestAuditWorkingDirectories(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		shared := "ck/" + ownerA + "/shared/"
		task := shared + "op_X_64b44402c21d76abce376a0b9b821872__1_2__attempt_"
		d.state(task+"0/db", 2, 9*day)
		used := d.state(task+"9/db", 1, 9*day)
		d.state(task+"10/db", 3, 8*day)
		again := shared + "op_X_64b44402c21d76abce376a0b9b821872__2_2__attempt_"
		d.state(again+"0/db", 1, 20*day)
		d.state(again+"0/db", 1, 7*day)
		d.state(again+"1/db", 2, 11*day)
		d.state(again+"3/db", 1, 10*day)
		d.state(again+"3/db", 1, 9*day)
		// A file that a checkpoint uses tells as much.
		third := shared + "op_X_64b44402c21d76abce376a0b9b821872__3_3__attempt_"
		d.state(third+"0/db", 1, 20*day)
		used = append(used, d.state(third+"0/db", 1, 7*day)...)
		d.state(third+"1/db", 1, 8*day)
		unknown := shared + "op_Y_64b44402c21d76abce376a0b9b821872__1_1__attempt_"
		d.state(unknown+"0/db", 1, 20*day)
		delete(d.times, d.state(unknown+"0/db", 1, 20*day)[0])
		d.state(unknown+"1/db", 1, 8*day)
		young := shared + "op_Z_64b44402c21d76abce376a0b9b821872__1_1__attempt_"
		d.state(young+"0/db", 1, 20*day)
		d.state(young+"0/db", 1, 73*hour)
		d.state(young+"1/db", 1, 72*hour)
		d.snapshot("ck/"+ownerA+"/chk-2", 3*day, used...)
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 3, 4, 2, 13)
		if got := causesOf(r); got[CauseAttempt] != 4 || got[CauseWorking] != 13 || got[CauseYoung] != 2 {
			t.Errorf("causes: %v", got)
		}
		for dir, want := range map[string]string{task + "9": DirAttempt, task + "10": DirWorking, again + "0": DirWorking, again + "1": DirAttempt, again + "3": DirWorking, third + "0": DirWorking, unknown + "0": DirWorking} {
			if got := stateOf(t, r, dir); got.State != want {
				t.Errorf("%s: %s, want %s", dir, got.State, want)
			}
		}
	})
}

// TestAuditWithoutJobDirectory: the level of the job's id can be switched off; a directory far above may be called shared.
func TestAuditWithoutJobDirectory(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		used := d.state("shared/flink/shared", 1, 5*day)
		d.state("shared/flink/shared", 1, 5*day)
		d.snapshot("shared/flink/chk-2", 3*day, used...)
		d.state("shared/other", 1, 5*day)
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 2, 1, 0, 1)
		if len(r.Jobs) != 1 || r.Jobs[0].Dir != storage.Join(d.base, "shared/flink") {
			t.Errorf("jobs: %+v", r.Jobs)
		}
	})
}

func TestAuditWrongSizes(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		short := d.put(job+"/shared/s", 9, 5*day)
		merged := d.put(job+"/shared/m", 20, 5*day)
		d.snapshot(job+"/chk-1", 3*day, short)
		d.keyed(job+"/chk-2", 2*day, incrementalHandle(inline("m", 1), []metadata.Stream{&metadata.Segment{Path: text(t, merged), Start: 5, Size: 15}}, nil))
		d.keyed(job+"/chk-3", day, incrementalHandle(inline("m", 1), []metadata.Stream{&metadata.Segment{Path: text(t, merged), Start: 15, Size: 6}}, nil))
		r := d.audit(AuditOptions{})
		if r.WrongSize != 2 || r.Missing != 0 {
			t.Errorf("%d of wrong size, %d missing", r.WrongSize, r.Missing)
		}
		got := map[string][2]int64{}
		for p := range r.Problems() {
			got[p.URI] = [2]int64{p.Need, p.Found}
		}
		if len(got) != 2 || got[short] != [2]int64{10, 9} || got[merged] != [2]int64{21, 20} {
			t.Errorf("problems: %v", got)
		}
	})
}

// TestAuditUnreadable: what can't be read is listed, and nothing beside it counts as litter.
func TestAuditUnreadable(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		for n, data := range map[int][]byte{1: {}, 2: []byte("garbage and more of it"), 3: {0x49, 0x60, 0x67, 0x2d & 0x7f, 0, 0, 0, 7}} {
			dir := fmt.Sprint(job, "/chk-", n)
			d.state(dir, 2, 9*day)
			uri := storage.Join(d.base, dir, MetadataName)
			if err := storage.WriteFile(t.Context(), d.fsys, uri, data, storage.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			d.times[uri] = auditNow.Add(-9 * day)
		}
		d.snapshot(job+"/chk-4", 3*day)
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 1, 0, 0, 9)
		if r.Decided() || len(r.Unreadable) != 3 || r.Unreadable[0].Error == "" || !r.Unreadable[0].ModTime.Equal(auditNow.Add(-9*day)) {
			t.Errorf("unreadable: %+v", r.Unreadable)
		}
		if got := causesOf(r); got[CauseUnreadable] != 9 {
			t.Errorf("causes: %v", got)
		}
		if got := stateOf(t, r, "chk-2").State; got != DirUnreadable {
			t.Errorf("chk-2: %s", got)
		}
	})
}

// TestAuditFailingStore: directories that can't be listed, files that vanish, and an end in between.
func TestAuditFailingStore(t *testing.T) {
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://b", times: map[string]time.Time{}}
	job := "ck/" + ownerA
	files := d.state(job+"/shared", 3, 9*day)
	d.snapshot(job+"/chk-1", 3*day, files...)
	d.snapshot(job+"/chk-2", 2*day, files...)
	inner := d.fsys
	inject := func(f func(storagetest.Step) error) {
		d.fsys = storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
			if err := f(s); err != nil {
				return &storagetest.Fault{Err: err}
			}
			return nil
		}})
	}

	inject(func(s storagetest.Step) error {
		if strings.Contains(s.URI, "/shared") {
			return fs.ErrPermission
		}
		return nil
	})
	r := d.audit(AuditOptions{})
	if r.Decided() || len(r.Unlisted) != 1 || !strings.HasSuffix(r.Unlisted[0].URI, "/shared") || !errors.Is(r.Unlisted[0].Cause, fs.ErrPermission) {
		t.Errorf("unlisted: %+v", r.Unlisted)
	}
	if r.Unseen != 3 || r.Missing != 0 || r.Snapshots[0].Unseen != 3 || r.Snapshots[0].Complete() {
		t.Errorf("%d unseen, %d missing", r.Unseen, r.Missing)
	}
	for p := range r.Problems() {
		if p.Problem != ProblemAccess || len(p.Snapshots) != 2 || p.Error == "" {
			t.Errorf("%+v", p)
		}
	}

	inject(func(s storagetest.Step) error {
		if s.Op == "open" && strings.Contains(s.URI, "chk-1/") {
			return fs.ErrNotExist
		}
		return nil
	})
	if r := d.audit(AuditOptions{}); r.Vanished != 0 || len(r.Unreadable) != 1 {
		t.Errorf("not found, but there: %+v", r)
	}

	inject(func(s storagetest.Step) error {
		if s.Op != "list" && strings.Contains(s.URI, "chk-1/") {
			return fs.ErrNotExist
		}
		return nil
	})
	if r := d.audit(AuditOptions{}); r.Vanished != 1 || len(r.Snapshots) != 1 || !r.Decided() {
		t.Errorf("vanished: %+v", r)
	}

	inject(func(s storagetest.Step) error {
		if s.Op == "open" && strings.Contains(s.URI, "chk-1/") {
			return fs.ErrPermission
		}
		return nil
	})
	if r := d.audit(AuditOptions{}); len(r.Unreadable) != 1 || r.Decided() {
		t.Errorf("denied: %+v", r.Unreadable)
	}

	// Cancelled after each number of steps.
	for n := 1; n < 12; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		inject(func(s storagetest.Step) error {
			if s.N >= n {
				cancel()
			}
			return nil
		})
		if _, err := Audit(ctx, d.fsys, []string{d.base}, AuditOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d steps: %v", n, err)
		}
		cancel()
	}

	d.fsys = inner
	if _, err := Audit(t.Context(), d.fsys, nil, AuditOptions{}); err == nil {
		t.Error("no root")
	}
	if _, err := Audit(t.Context(), d.fsys, []string{d.base}, AuditOptions{Aliases: []Rule{{"s3://x", "s3://y"}, {"s3://x", "s3://z"}}}); err == nil {
		t.Error("aliases that contradict each other")
	}
	local := storage.NewLocal(storage.LocalOptions{})
	missing := "file:" + t.TempDir() + "/nothing"
	if r, err := Audit(t.Context(), local, []string{missing}, AuditOptions{}); err != nil || r.Decided() || r.Unlisted[0].URI != missing {
		t.Errorf("a root that is not there: %+v, %v", r, err)
	}
}

// TestAuditAliases: a name of the store that metadata has and the root has not.
func TestAuditAliases(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		var recorded []string
		for _, u := range d.state(job+"/shared", 3, 9*day) {
			recorded = append(recorded, strings.Replace(u, d.base, "hdfs://nn1:8020/flink", 1))
		}
		d.snapshot(job+"/chk-1", 3*day, recorded...)
		if r := d.audit(AuditOptions{Aliases: []Rule{{From: "hdfs://nn1/flink", To: d.base}}}); r.Totals.Referenced.Files != 4 || r.Missing != 0 {
			t.Errorf("with the alias: %+v", r.Totals)
		}
		r := d.audit(AuditOptions{})
		if want := (AliasHint{Rule{"hdfs://nn1:8020/flink", storage.Key(d.base)}, 3}); len(r.Hints) != 1 || storage.Key(r.Hints[0].From) != storage.Key(want.From) || r.Hints[0].To != want.To || r.Hints[0].Files != 3 {
			t.Errorf("hints: %+v", r.Hints)
		}
		if r.Totals.Referenced.Files != 1 || r.Missing+r.Unseen != 3 {
			t.Errorf("without: %+v, %d missing, %d unseen", r.Totals, r.Missing, r.Unseen)
		}
	})
}

// TestAuditReportsAreEqual: the order in which directories were listed leaves no trace.
func TestAuditReportsAreEqual(t *testing.T) {
	d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://b", times: map[string]time.Time{}}
	for i, owner := range []string{ownerA, ownerB} {
		for n := range 4 {
			dir := fmt.Sprintf("ck/%s/chk-%d", owner, n)
			d.snapshot(dir, time.Duration(9-n)*day, append(d.state(dir, 3, 9*day), d.state("ck/"+owner+"/shared", 5+i, 9*day)...)...)
		}
		d.state("ck/"+owner+"/shared", 50, 8*day)
	}
	var first string
	for range 5 {
		r := d.audit(AuditOptions{Jobs: 8})
		var b strings.Builder
		for _, s := range r.Snapshots {
			s.ID = 0
			fmt.Fprintf(&b, "%+v\n", s)
		}
		fmt.Fprintf(&b, "%+v %+v %+v\n", r.Totals, r.Dirs, r.Groups)
		for f := range r.Files() {
			fmt.Fprintln(&b, f)
		}
		first = cmp.Or(first, b.String())
		if b.String() != first {
			t.Fatal("two reports differ")
		}
	}
}
