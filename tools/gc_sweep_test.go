package tools

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
)

// Stat gives the file the time that the test says.
func (f aged) Stat(ctx context.Context, uri string) (storage.Info, error) {
	info, err := f.FS.Stat(ctx, uri)
	if err == nil && !info.Dir {
		info.ModTime = f.time(info.URI)
	}
	return info, err
}

// TestGCFixtures plans, and deletes, exactly the litter of every fixture of which the truth is known, but for
// what may be a running task's; the snapshots stay as good as they were.
func TestGCFixtures(t *testing.T) {
	root := filepath.Join(sharedFixtures(t), "extra")
	truths, err := filepath.Glob(filepath.Join(root, "*", "*", "orphans.json"))
	if err != nil || len(truths) < 24 {
		t.Fatalf("%d fixtures: %v", len(truths), err)
	}
	for _, name := range truths {
		dir := filepath.Dir(name)
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) { gcFixture(t, dir) })
	}
}

func gcFixture(t *testing.T, dir string) {
	var want litter
	readJSON(t, filepath.Join(dir, "orphans.json"), &want)
	var truth struct {
		WrittenAt string `json:"writtenAt"`
	}
	readJSON(t, filepath.Join(dir, "truth.json"), &truth)
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	rules := []Rule{{From: "file:" + truth.WrittenAt, To: "file:" + work}}
	roots := []string{"file:" + work}
	if objects, err := filepath.Glob(filepath.Join(work, "s3", "*")); err == nil && len(objects) > 0 {
		roots = nil
		for _, o := range objects {
			if fi, err := os.Stat(o); err == nil && fi.IsDir() {
				rules = append(rules, Rule{From: "s3://" + filepath.Base(o), To: "file:" + o})
				roots = append(roots, "file:"+o)
			}
		}
	}
	fsys := aged{storage.NewLocal(storage.LocalOptions{NoSync: true}), func(uri string) time.Time {
		if storage.Base(uri) == MetadataName {
			return auditNow.AddDate(0, 0, -2)
		}
		return auditNow.AddDate(0, 0, -10)
	}}
	o := GCOptions{AuditOptions: AuditOptions{Now: auditNow, Aliases: rules}, TaskOwned: true}
	p, err := PlanGC(t.Context(), fsys, roots, o)
	if err != nil {
		t.Fatal(err)
	}
	orphans := maps.Clone(want.Orphans)
	maps.DeleteFunc(orphans, func(name string, _ int64) bool { return strings.Contains(name, "__attempt_") })
	var got []string
	for _, uri := range planned(t, p) {
		rest, _ := storage.Rel("file:"+work, uri)
		got = append(got, rest)
	}
	compareSets(t, "to delete", got, slices.Collect(maps.Keys(orphans)))
	before, err := Audit(t.Context(), fsys, roots, o.AuditOptions)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Execute(t.Context(), withPruner{fsys}, GCExecuteOptions{})
	if err != nil || r.Deleted != p.Delete {
		t.Fatalf("%v: %+v", err, r)
	}
	after, err := Audit(t.Context(), fsys, roots, o.AuditOptions)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range after.Snapshots {
		if b := before.Snapshots[i]; s.URI != b.URI || s.Missing != b.Missing || s.Own != b.Own || s.Shared != b.Shared || s.Foreign != b.Foreign {
			t.Errorf("%s: %+v, before %+v", s.URI, s, b)
		}
	}
	if p, err = PlanGC(t.Context(), fsys, roots, o); err != nil || len(planned(t, p)) > 0 {
		t.Errorf("litter is left: %v, %+v", err, p.Delete)
	}
}

// withPruner lets a store in which times are set remove directories.
type withPruner struct{ aged }

func (p withPruner) Prune(ctx context.Context, dirs ...string) (int, error) {
	return p.FS.(storage.Pruner).Prune(ctx, dirs...)
}
