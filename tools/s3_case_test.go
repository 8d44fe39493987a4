package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
)

// The cases in audit_case_test.go and here run on every kind of store; those in gc_case_test.go in memory, with a clock of their own.

// TestD17OnStores is the recipe: five checkpoints, one truncated, one of a version to come, one valid and 90 days old.
func TestD17OnStores(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		files := d.state(job+"/shared", 5, 91*day)
		litter := d.state(job+"/shared", 4, 50*day)
		meta := make([]string, 6)
		for i, ago := range []time.Duration{90 * day, 9 * day, 8 * day, 7 * day, 6 * day} {
			meta[i+1] = d.snapshot(fmt.Sprint(job, "/chk-", i+1), ago, files[i])
		}
		beside := d.state(job+"/chk-2", 1, 9*day)
		spoil := func(uri string, change func([]byte) []byte) {
			data, err := storage.ReadAll(t.Context(), d.fsys, uri, maxMetadata)
			if err != nil {
				t.Fatal(err)
			}
			if err := storage.WriteFile(t.Context(), d.fsys, uri, change(data), storage.CreateOptions{Overwrite: true}); err != nil {
				t.Fatal(err)
			}
		}
		wantPlanned(t, d.plan(GCOptions{}), litter, beside)
		spoil(meta[2], func(b []byte) []byte { return b[:len(b)-9] })
		spoil(meta[3], func(b []byte) []byte { b[7] = 7; return b })

		r := d.audit(AuditOptions{})
		if r.Decided() || len(r.Unreadable) != 2 || r.Unreadable[0].URI != meta[2] || r.Unreadable[1].URI != meta[3] {
			t.Errorf("unreadable: %+v", r.Unreadable)
		}
		wantRefusal(t, d.plan(GCOptions{}), meta[2], meta[3], "version 7", "ignore this metadata by its path")
		for _, only := range []GCOptions{{KeepLast: 1}, {Only: d.at(job + "/chk-1")}, {Retire: d.at(job)}, {IgnoreMetadata: meta[2:3]}} {
			wantRefusal(t, d.plan(only), meta[3])
		}
		wantRefusal(t, d.dispose(job+"/chk-1"), meta[2], meta[3])
		wantRefusal(t, d.plan(GCOptions{IgnoreMetadata: meta[1:4]}), meta[1], "can be read, and so is not ignored")
		// On purpose: what only those two used goes, what lies beside them stays, and old metadata is metadata.
		p := d.plan(GCOptions{IgnoreMetadata: meta[2:4]})
		wantPlanned(t, p, litter, files[1:3])
		d.collect(p)
		if s := snapshotNamed(t, d.audit(AuditOptions{}), "chk-1"); !s.Complete() {
			t.Errorf("of the oldest checkpoint %d files are missing", s.Missing)
		}
	})
}

// TestD20OnStores is the recipe: nine savepoints, two incomplete, the newest one of them, the third oldest pinned.
func TestD20OnStores(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		var dirs []string
		for i := range 9 {
			dir := fmt.Sprintf("sp/savepoint-%s-%012x", ownerA[:6], i)
			dirs = append(dirs, dir)
			d.own(dir, int64(i+1), 2, time.Duration(30-2*i)*day)
		}
		for i, info := range []int{4, 8} {
			files := slices.DeleteFunc(d.below(dirs[info]), func(uri string) bool { return storage.Base(uri) == MetadataName })
			d.remove(files[i])
		}
		d.own("sp/copy of one", 1, 1, 40*day)
		d.own("other/savepoint-abcdef-000000000000", 1, 1, 40*day)
		const orphan = "sp/savepoint-ffffff-aaaaaaaaaaaa"
		d.state(orphan, 1, 20*day)
		// The pins are the paths that the operator says of its resources, one in a line.
		pins, err := ReadPins(strings.NewReader("\n"+d.at(dirs[2])[0]+"\n"), "pins.txt")
		if err != nil {
			t.Fatal(err)
		}

		r := d.audit(AuditOptions{})
		for i, dir := range dirs {
			if s := snapshotNamed(t, r, dir); s.Complete() != (i != 4 && i != 8) {
				t.Errorf("%s: %d missing", dir, s.Missing)
			}
		}
		// The five newest complete ones are 7, 6, 5, 3 and 2; 8 and 4 are between them.
		p := d.plan(GCOptions{KeepSavepoints: 5, Pins: pins})
		// The orphan may be a savepoint that a job claimed: no checkpoint is in scope that would show it.
		wantPlanned(t, p, d.below(dirs[0]), d.below(dirs[1]))
		if got := d.dropped(p); !slices.Equal(got, dirs[:2]) || !slices.Equal(p.OrphanSavepoints, d.at(orphan)) {
			t.Errorf("dropped %q, orphans %q", got, p.OrphanSavepoints)
		}
		// Without the order to look at savepoints, none goes, nor what may be of one.
		p = d.plan(GCOptions{})
		wantPlanned(t, p)
		if !slices.Equal(p.OrphanSavepoints, d.at(orphan)) {
			t.Errorf("orphans %q", p.OrphanSavepoints)
		}
		// Of those that are kept the last is complete, and not the newest of all.
		p = d.plan(GCOptions{KeepSavepoints: 1, Pins: pins})
		if got, want := d.dropped(p), []string{dirs[0], dirs[1], dirs[3], dirs[4], dirs[5], dirs[6]}; !slices.Equal(got, want) {
			t.Errorf("dropped %q, want %q", got, want)
		}
		d.collect(p)
		r = d.audit(AuditOptions{})
		if len(r.Snapshots) != 5 || !snapshotNamed(t, r, dirs[2]).Complete() || !snapshotNamed(t, r, dirs[7]).Complete() {
			t.Errorf("left: %+v", r.Snapshots)
		}
	})
}

// TestD22OnStores is the recipe: one key that may not be deleted, three that are gone, a directory with
// nothing in it, and more keys than a request takes.
func TestD22OnStores(t *testing.T) {
	depots(t, func(t *testing.T, d *depot) {
		job := "ck/" + ownerA
		litter := d.state(job+"/shared", 2500, 9*day)
		only := d.state(job+"/shared", 1, 9*day)
		used := d.state(job+"/shared", 30, 9*day)
		old := d.snapshot(job+"/chk-8", 8*day, append(only, used...)...)
		d.snapshot(job+"/chk-10", 2*hour, used...)
		marker := d.at(job + "/chk-9")[0]
		if d.mkdir != nil {
			d.mkdir(t, marker)
		}
		if p := d.plan(GCOptions{KeepLast: 1}); len(p.Directories) != 0 {
			t.Errorf("without being asked: %q", p.Directories)
		}
		p := d.plan(GCOptions{KeepLast: 1, EmptyDirs: true})
		wantPlanned(t, p, litter, only, []string{old})
		first := true
		for e := range p.Entries() {
			if (e.Path == old) != first {
				t.Fatalf("%s comes before the metadata", e.Path)
			}
			first = false
		}

		d.remove(litter[3], litter[33], litter[333])
		plain := dated{aged{d.fsys, func(uri string) time.Time { return d.times[uri] }}}
		var record strings.Builder
		r, err := p.Execute(t.Context(), denying{plain, litter[1234]}, GCExecuteOptions{Record: &record})
		if !errors.Is(err, ErrPartly) || r.Planned.Files != 2502 || r.Deleted.Files != 2498 || r.Gone.Files != 3 || r.Failed.Files != 1 ||
			len(r.Failures) != 1 || r.Failures[0].Path != litter[1234] || r.ID == "" || r.Plan != p.ID {
			t.Fatalf("%v: %+v", err, r)
		}
		lines := strings.Split(strings.TrimSuffix(record.String(), "\n"), "\n")
		denied := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"what":"failed"`) })
		if len(lines) != 2502+2 || denied < 0 || !strings.Contains(lines[denied], litter[1234]) || !strings.Contains(lines[denied], "permission denied") {
			t.Errorf("%d lines, %d says what failed", len(lines), denied)
		}
		if _, err := d.fsys.Stat(t.Context(), marker); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the empty directory is left: %v", err)
		}
		// Again: the rest goes, and nothing is done twice.
		r, err = p.Execute(t.Context(), d.store(), GCExecuteOptions{})
		if err != nil || r.Deleted.Files != 1 || r.Gone.Files != 2501 {
			t.Errorf("again: %v: %+v", err, r)
		}
		wantTotals(t, d.audit(AuditOptions{}), 31, 0, 0, 0)

		// Metadata that can't be deleted keeps its files.
		d.times[d.snapshot(job+"/chk-11", hour, used[:1]...)] = auditNow.Add(-hour)
		d.times[storage.Join(d.base, job, "chk-10", MetadataName)] = auditNow.Add(-5 * day)
		p = d.plan(GCOptions{KeepLast: 1})
		wantPlanned(t, p, d.at(job+"/chk-10/"+MetadataName), used[1:])
		r, err = p.Execute(t.Context(), denying{plain, storage.Join(d.base, job, "chk-10", MetadataName)}, GCExecuteOptions{})
		if !errors.Is(err, ErrPartly) || r.Deleted.Files != 0 || r.Failed.Files != 30 {
			t.Errorf("%v: %+v", err, r)
		}
		if a := d.audit(AuditOptions{}); len(a.Snapshots) != 2 || a.Missing != 0 {
			t.Errorf("%d missing of %d snapshots", a.Missing, len(a.Snapshots))
		}
	})
}
