package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// TestD13DerivedSavepoint: B's metadata names files in savepoint A.
func TestD13DerivedSavepoint(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		const a, b = "sp/savepoint-0f1e2d-aaaaaaaaaaaa", "sp/savepoint-0f1e2d-bbbbbbbbbbbb"
		mine := d.state(a, 12, 9*day)
		d.snapshot(a, 9*day, mine...)
		own := d.state(b, 1, 8*day)
		shared := []metadata.Stream{relative(storage.Base(own[0]), 10)}
		for _, u := range mine {
			shared = append(shared, file(t, u, 10))
		}
		uri := d.numbered(b, 5, 8*day, incrementalHandle(inline("m", 1), shared, nil))
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 15, 0, 0, 0)
		want := ForeignUse{Snapshot: uri, Owner: storage.Join(d.base, a), AuditCount: AuditCount{12, 120}, OfAll: 13}
		if len(r.Foreign) != 1 || r.Foreign[0] != want {
			t.Errorf("foreign: %+v", r.Foreign)
		}
		sp := snapshotNamed(t, r, b)
		if sp.Own.Files != 2 || sp.Shared.Files != 0 || sp.Foreign.Files != 12 || sp.Exclusive.Files != 2 || sp.Kind != "savepoint" {
			t.Errorf("B: %+v", sp)
		}
		n, err := r.NeededBy(storage.Join(d.base, a))
		if err != nil || n.Free() || len(n.Others) != 1 || n.Others[0].Snapshot != uri || n.Others[0].Files != 12 || n.Files.Files != 13 {
			t.Errorf("needed by: %+v, %v", n, err)
		}

		// Neither dispose nor gc takes A away from B.
		wantRefusal(t, d.dispose(a), b, "uses 12 files in its directory")
		p := d.plan(GCOptions{KeepSavepoints: 1})
		wantPlanned(t, p)
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, a) || !strings.Contains(notes, b) {
			t.Errorf("notes: %q", notes)
		}
		// Made independent, B is whole without A.
		c := "moved/" + storage.Base(b)
		relocated(t, d.fsys, storage.Join(d.base, b), storage.Join(d.base, c), RelocateOptions{MakeRelative: true})
		d.collect(d.dispose(a, b))
		r = d.audit(AuditOptions{})
		if len(r.Snapshots) != 1 || !r.Snapshots[0].Complete() || r.Snapshots[0].Own.Files != 14 || len(r.Foreign) != 0 || r.Totals.All.Files != 14 {
			t.Errorf("what is left: %+v, foreign %+v", r.Snapshots, r.Foreign)
		}
	})
}

// TestD14Growth: shared/ has much that nobody uses.
func TestD14Growth(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		used := d.state(job+"/shared", 2400, 20*day)
		third := len(used) / 3
		d.snapshot(job+"/chk-8", 10*day, used[:2*third]...)
		d.snapshot(job+"/chk-9", 5*day, used[third:]...)
		d.snapshot(job+"/chk-10", 2*hour, used[2*third:]...)
		d.state(job+"/shared", 150, hour)
		before, between, recent := 3000, 2450, 1998
		litter := [][]string{d.state(job+"/shared", before, 40*day), d.state(job+"/shared", between, 8*day), d.state(job+"/shared", recent, 3*day)}
		future := d.state(job+"/shared", 1, -hour)[0]
		unknown := d.state(job+"/shared", 1, 0)[0]
		delete(d.times, unknown)

		r := d.audit(AuditOptions{})
		wantTotals(t, r, int64(len(used)+3), int64(before+between+recent), 150, 2)
		got := causesOf(r)
		for cause, n := range map[string]int{CauseBefore: before, CauseBetween: between + recent, CauseYoung: 150, CauseFuture: 1, CauseNoTime: 1} {
			if got[cause] != n {
				t.Errorf("%s: %d, want %d", cause, got[cause], n)
			}
		}
		for f := range r.Files() {
			switch ago := auditNow.Sub(f.ModTime); {
			case f.URI == future || f.URI == unknown:
				if f.Status != FileUndecided {
					t.Errorf("%+v", f)
				}
			case ago == 8*day && (f.After != 8 || f.Before != 9), ago == 3*day && (f.After != 9 || f.Before != 10), ago == 40*day && (f.After != -1 || f.Before != 8), ago == hour && (f.After != 10 || f.Before != -1):
				t.Fatalf("%+v", f)
			}
		}
		months := map[string]int64{}
		for _, g := range r.Groups {
			if g.Status == FileUnreferenced {
				months[g.Month] += g.Files
			}
		}
		if months["2026-05"] != int64(before) || months["2026-06"] != int64(between+recent) {
			t.Errorf("months: %v", months)
		}
		s := snapshotNamed(t, r, "chk-9")
		if s.Own.Files != 1 || s.Shared.Files != int64(2*third) || s.Exclusive.Files != 1 || s.Kept.Files != int64(third) {
			t.Errorf("chk-9: %+v", s)
		}
		if top := r.LargestFiles(FileUnreferenced, 3); len(top) != 3 || top[0].Size != 10 {
			t.Errorf("largest: %+v", top)
		}

		// The grace period counts from the newest checkpoint, too.
		d.times[storage.Join(d.base, job, "chk-10", MetadataName)] = auditNow.Add(-7 * day / 2)
		if r := d.audit(AuditOptions{}); r.Totals.Young.Files != int64(150+recent) {
			t.Errorf("too young: %d", r.Totals.Young.Files)
		}
		d.times[storage.Join(d.base, job, "chk-10", MetadataName)] = time.Time{}
		if r := d.audit(AuditOptions{}); r.Totals.Unreferenced.Files != 0 {
			t.Errorf("%d unreferenced, while nobody knows when the newest checkpoint was completed", r.Totals.Unreferenced.Files)
		}

		// The same is deleted, and no more.
		d.times[storage.Join(d.base, job, "chk-10", MetadataName)] = auditNow.Add(-7 * day / 2)
		wantPlanned(t, d.plan(GCOptions{}), litter[:2]...)
		d.times[storage.Join(d.base, job, "chk-10", MetadataName)] = auditNow.Add(-2 * hour)
		p := d.plan(GCOptions{})
		wantPlanned(t, p, litter...)
		d.collect(p)
		wantTotals(t, d.audit(AuditOptions{}), int64(len(used)+3), 0, 150, 2)
	})
}

// TestD15CheckpointDirectories: chk-N in all conditions.
func TestD15CheckpointDirectories(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		d.snapshot(job+"/chk-39", 4*day, d.state(job+"/chk-39", 2, 4*day)...)
		litter := [][]string{d.state(job+"/chk-39", 3, 4*day)}
		d.snapshot(job+"/chk-40", hour, d.state(job+"/chk-40", 2, hour)...)
		d.state(job+"/chk-41", 2, 2*time.Minute)
		litter = append(litter, d.state(job+"/chk-17", 2, 9*day), d.state(job+"/chk-23", 1, 8*day), d.state(job+"/chk-43", 1, 2*day),
			[]string{d.put(job+"/chk-23/._metadata_temp", 5, 8*day)})
		d.put(job+"/chk-40/"+MetadataName+".before-relocate", 5, 8*day)
		d.put(job+"/chk-17/notes.txt", 5, 8*day)
		empty := []string{}
		if d.mkdir != nil {
			empty = d.at(job + "/chk-5")
			d.mkdir(t, empty[0])
		}
		d.put("readme", 5, 8*day)
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 6, 3+2+1+1+1, 2, 3)
		want := map[string]int{CauseStray: 3, CauseSuperseded: 3, CauseAborted: 1, CauseWriting: 1, CauseInProgress: 2, CauseCopy: 1, CauseName: 1, CauseOutside: 1}
		got := causesOf(r)
		for cause, n := range want {
			if got[cause] != n {
				t.Errorf("%s: %d, want %d", cause, got[cause], n)
			}
		}
		for dir, state := range map[string]string{"chk-39": DirCompleted, "chk-40": DirCompleted, "chk-41": DirInProgress, "chk-17": DirSuperseded, "chk-23": DirSuperseded, "chk-43": DirAborted} {
			if got := stateOf(t, r, dir).State; got != state {
				t.Errorf("%s: %s, want %s", dir, got, state)
			}
		}
		if j := r.Jobs; len(j) != 1 || j[0].Newest != 40 || j[0].Checkpoints != 2 || !j[0].NewestTime.Equal(auditNow.Add(-hour)) {
			t.Errorf("jobs: %+v", j)
		}
		if !slices.Equal(r.EmptyDirs, empty) {
			t.Errorf("empty: %q, want %q", r.EmptyDirs, empty)
		}
		// gc takes what is old of those, and never what is in progress.
		p := d.plan(GCOptions{EmptyDirs: true})
		wantPlanned(t, p, litter...)
		gone := append(d.at(job+"/chk-23"), empty...)
		for _, dir := range gone {
			if !slices.Contains(p.Directories, dir) {
				t.Errorf("%s is not to be removed", dir)
			}
		}
		if d.mkdir != nil && d.collect(p).Directories == 0 {
			t.Error("no directory was removed")
		}
		for _, dir := range gone {
			if _, err := d.fsys.Stat(t.Context(), dir); d.mkdir != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", dir, err)
			}
		}
	})
}

// TestD16OtherJobsFiles: B/chk-3 uses A's files, and A alone is no scope to decide by.
func TestD16OtherJobsFiles(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		files := d.state("ck/"+ownerA+"/shared", 20, 9*day)
		d.snapshot("ck/"+ownerA+"/chk-7", 8*day, files[14:]...)
		uri := d.snapshot("ck/"+ownerB+"/chk-3", 2*day, append(d.state("ck/"+ownerB+"/shared", 5, 3*day), files[:14]...)...)
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 27, 0, 0, 0)
		want := ForeignUse{Snapshot: uri, Owner: storage.Join(d.base, "ck", ownerA), AuditCount: AuditCount{14, 140}, OfAll: 21}
		if len(r.Foreign) != 1 || r.Foreign[0] != want || len(r.Siblings) != 0 {
			t.Errorf("foreign: %+v, siblings %q", r.Foreign, r.Siblings)
		}
		alone := d.audit(AuditOptions{}, "ck/"+ownerA)
		if alone.Totals.Unreferenced.Files != 14 || !slices.Equal(alone.Siblings, []string{storage.Join(d.base, "ck", ownerB)}) {
			t.Errorf("A alone: %+v, siblings %q", alone.Totals, alone.Siblings)
		}
		if both := d.audit(AuditOptions{}, "ck/"+ownerA, "ck/"+ownerB, "ck/"+ownerB); len(both.Siblings) != 0 || both.Totals != r.Totals {
			t.Errorf("both: %+v", both)
		}
		// B alone names files outside of the root, which are there.
		if b := d.audit(AuditOptions{}, "ck/"+ownerB); b.Missing != 0 || b.Snapshots[0].Foreign.Bytes != 140 {
			t.Errorf("B alone: %+v", b.Snapshots)
		}

		a := storage.Join(d.base, "ck", ownerA)
		wantRefusal(t, d.plan(GCOptions{Retire: []string{a}}), "chk-3 uses 14 files of it")
		wantRefusal(t, d.plan(GCOptions{}, "ck/"+ownerA), "not in scope", storage.Join(d.base, "ck", ownerB))
		wantPlanned(t, d.plan(GCOptions{References: d.at("ck/" + ownerB)}, "ck/"+ownerA))
		// When B has a checkpoint without them, A can go.
		d.collect(d.dispose("ck/" + ownerB + "/chk-3"))
		d.own("ck/"+ownerB+"/chk-4", 4, 2, day)
		d.collect(d.plan(GCOptions{Retire: []string{a}}))
		wantTotals(t, d.audit(AuditOptions{}), 3, 0, 0, 0)
	})
}

// TestD18NeededBy: when may the snapshot be deleted that B was restored from?
func TestD18NeededBy(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		a, b := "ck/"+ownerA, "ck/"+ownerB
		files := d.state(a+"/shared", 6, 9*day)
		old := d.snapshot(a+"/chk-7", 8*day, files...)
		full := d.state(b+"/shared", 4, 7*day)
		d.snapshot(b+"/chk-1", 7*day, full...)
		d.snapshot(b+"/chk-2", 6*day, append(d.state(b+"/shared", 1, 6*day), full...)...)
		n, err := d.audit(AuditOptions{}).NeededBy(old)
		if err != nil || !n.Free() || n.Files.Files != 7 || len(n.Jobs) != 1 || n.Jobs[0].Since != 1 || len(n.Jobs[0].Users) != 0 {
			t.Errorf("not needed since the first: %+v, %v", n, err)
		}

		// The variant: the first checkpoint of B is gone.
		d.remove(storage.Join(d.base, b, "chk-1", MetadataName))
		n, err = d.audit(AuditOptions{}).NeededBy(old)
		if err != nil || !n.Free() || len(n.Jobs) != 1 || n.Jobs[0].Since != 2 || len(n.Jobs[0].Users) != 0 {
			t.Errorf("without the first: %+v, %v", n, err)
		}

		// B uses A's files for a while.
		d.snapshot(b+"/chk-3", 5*day, append(d.state(b+"/shared", 1, 5*day), files[:2]...)...)
		n, err = d.audit(AuditOptions{}).NeededBy(storage.Join(d.base, a, "chk-7"))
		if err != nil || n.Free() || n.Used.Files != 2 || len(n.Jobs) != 1 || n.Jobs[0].Since != -1 || len(n.Jobs[0].Users) != 1 || n.Jobs[0].Users[0].CheckpointID != 3 {
			t.Errorf("needed by the newest: %+v, %v", n, err)
		}
		d.snapshot(b+"/chk-12", 4*day, full...)
		n, err = d.audit(AuditOptions{}).NeededBy(old)
		if err != nil || n.Free() || n.Jobs[0].Since != 12 || n.Jobs[0].Users[0].CheckpointID != 3 {
			t.Errorf("not needed since 12: %+v, %v", n, err)
		}
		if _, err := d.audit(AuditOptions{}).NeededBy(storage.Join(d.base, a, "chk-8")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a snapshot that is not there: %v", err)
		}
	})
}

// TestD19ClaimedSavepoint: files of a savepoint whose metadata Flink deleted are in use.
func TestD19ClaimedSavepoint(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		const sp = "sp/savepoint-0f1e2d-aaaaaaaaaaaa"
		files := d.state(sp, 40, 9*day)
		b := "ck/" + ownerB
		for n := 8; n <= 10; n++ {
			d.snapshot(fmt.Sprint(b, "/chk-", n), time.Duration(12-n)*day, files[n-8:31]...)
		}
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 34, 9, 0, 0)
		dir := stateOf(t, r, sp)
		if dir.State != DirInUse || dir.Used.Files != 31 || dir.Unused.Files != 9 {
			t.Errorf("savepoint: %+v", dir)
		}
		if len(r.Foreign) != 3 || r.Foreign[0].Owner != storage.Join(d.base, sp) || r.Foreign[0].OfAll != 31 {
			t.Errorf("foreign: %+v", r.Foreign)
		}
		n, err := r.NeededBy(storage.Join(d.base, sp))
		if err != nil || n.Metadata || n.Files.Files != 40 || n.Used.Files != 31 || len(n.Jobs) != 1 || len(n.Jobs[0].Users) != 3 || n.Jobs[0].Since != -1 {
			t.Errorf("needed: %+v, %v", n, err)
		}
		for f := range r.Files() {
			if f.Cause != CauseNoMetadata || f.Area != AreaSavepoint {
				t.Fatalf("%+v", f)
			}
		}
		if !r.Decided() || r.Missing+r.WrongSize+r.Unseen+len(r.Hints) != 0 {
			t.Errorf("taken for damage: %d missing, unreadable %v", r.Missing, r.Unreadable)
		}

		// Whose savepoint it was is not known, so that even what nobody uses is not litter.
		wantPlanned(t, d.plan(GCOptions{}))
		if _, err := PlanDispose(t.Context(), d.store(), d.at(sp), DisposeOptions{Scope: []string{d.base}}); err == nil || !strings.Contains(err.Error(), "no _metadata") {
			t.Errorf("disposed of: %v", err)
		}
		// With a checkpoint goes what only that used, here and there.
		p := d.dispose(b + "/chk-8")
		wantPlanned(t, p, d.at(b+"/chk-8/"+MetadataName), files[:1])
		d.collect(p)
		if r := d.audit(AuditOptions{}); r.Missing != 0 || len(r.Snapshots) != 2 {
			t.Errorf("%d missing of %d snapshots", r.Missing, len(r.Snapshots))
		}
	})
}

// TestD21Pointers: what high availability names.
func TestD21Pointers(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		files := d.state(job+"/shared", 5, 9*day)
		d.snapshot(job+"/chk-9699", 4*day, files...)
		complete := storage.Dir(d.snapshot(job+"/chk-9700", 3*day, files...))
		damaged := d.snapshot(job+"/chk-9701", 2*day, append(files[:3:3], storage.Join(d.base, job, "shared/gone1"), storage.Join(d.base, job, "shared/gone2"))...)
		bad := d.put("x/"+MetadataName, 5, day)
		elsewhere := storage.Dir(d.snapshot("elsewhere/sp", 2*day, files...))
		r := d.audit(AuditOptions{}, job)
		pointers := []string{storage.Join(d.base, job, "chk-9702"), damaged, complete, storage.Dir(bad), elsewhere, storage.Join(d.base, job)}
		got, err := r.Pointers(t.Context(), pointers)
		if err != nil {
			t.Fatal(err)
		}
		want := []PointerCheck{
			{State: PointerGone, Instead: complete}, {State: PointerDamaged, Missing: 2, Instead: complete}, {State: PointerComplete},
			{State: PointerUnreadable}, {State: PointerComplete}, {State: PointerGone, Instead: complete},
		}
		for i, w := range want {
			w.Pointer, w.Error = pointers[i], got[i].Error
			if got[i] != w {
				t.Errorf("got %+v, want %+v", got[i], w)
			}
		}
		if r.Missing != 2 {
			t.Errorf("%d missing", r.Missing)
		}
		i := 0
		for p := range r.Problems() {
			if i++; p.Problem != ProblemMissing || p.Need != 10 || p.Found != -1 || !slices.Equal(p.Snapshots, []string{damaged}) || !strings.HasSuffix(p.URI, fmt.Sprint("gone", i)) {
				t.Errorf("problem: %+v", p)
			}
		}
	})
}

// TestD23Changelog: files of a changelog lie in another directory and are used at several offsets.
func TestD23Changelog(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job, dstl := "ck/"+ownerA, "changes/"+ownerA+"/dstl"
		log := d.state(dstl, 2, 3*day)
		base := d.state(job+"/taskowned", 2, 4*day)
		groups := metadata.KeyGroupRange{Count: 128}
		d.keyed(job+"/chk-5", 2*day, &metadata.Changelog{
			V1: true, KeyGroups: groups, ID: "c",
			Base: []metadata.Keyed{incrementalHandle(file(t, base[0], 10), []metadata.Stream{file(t, base[1], 10)}, nil)},
			Delta: []metadata.Keyed{
				&metadata.ChangelogFile{V1: true, KeyGroups: groups, ID: "d", Streams: []metadata.ChangelogStream{
					{Offset: 0, Stream: file(t, log[0], 4)}, {Offset: 4, Stream: file(t, log[0], 5)}, {Offset: 0, Stream: file(t, log[1], 99)},
				}},
				&metadata.ChangelogMemory{KeyGroups: groups, ID: "e"},
			},
		})
		old := d.state(dstl, 3, 9*day)
		d.state(dstl, 2, hour)
		d.state(job+"/taskowned", 1, 9*day)
		r := d.audit(AuditOptions{})
		wantTotals(t, r, 5, 4, 2, 0)
		s := snapshotNamed(t, r, "chk-5")
		if !s.Complete() || s.Own.Files != 1 || s.Shared.Files != 4 || s.Foreign.Files != 0 || len(r.Foreign) != 0 {
			t.Errorf("snapshot: %+v", s)
		}
		if len(r.Jobs) != 1 {
			t.Errorf("the changelog is a job of its own: %+v", r.Jobs)
		}
		owned := 0
		for f := range r.Files() {
			if f.Job != storage.Join(d.base, job) {
				t.Errorf("%+v", f)
			}
			if f.TaskOwned {
				owned++
			}
		}
		if owned != 1 {
			t.Errorf("%d in taskowned", owned)
		}

		wantRefusal(t, d.plan(GCOptions{}, "changes"), "no snapshot")
		p := d.plan(GCOptions{})
		wantPlanned(t, p, old)
		d.collect(p)
		// Each file goes once with the snapshot that uses it.
		p = d.dispose(job + "/chk-5")
		wantPlanned(t, p, d.at(job+"/chk-5/"+MetadataName), base, log)
		d.collect(p)
	})
}
