package tools

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
)

// auditNow is the time of audits in tests.
var auditNow = time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)

// aged is a store whose files have the times that a test gives them.
type aged struct {
	storage.FS
	time func(uri string) time.Time
}

func (f aged) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return f.set(f.FS.List(ctx, dir))
}

func (f aged) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return f.set(f.FS.ReadDir(ctx, dir))
}

func (f aged) set(seq iter.Seq2[storage.Info, error]) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		for info, err := range seq {
			if err == nil && !info.Dir {
				info.ModTime = f.time(info.URI)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// litter is orphans.json of a fixture: what Flink's own reader says is used, against the disk.
type litter struct {
	Metadata            []string            `json:"metadata"`
	Retained            []string            `json:"retained"`
	Referenced          []string            `json:"referenced"`
	Orphans             map[string]int64    `json:"orphans"`
	DirsWithoutMetadata []string            `json:"dirsWithoutMetadata"`
	EmptyDirs           []string            `json:"emptyDirs"`
	Dangling            map[string][]string `json:"danglingReferences"`
}

// TestAuditFixtures finds in every fixture of which the truth is known exactly
// what nobody uses, what is missing, and which directories are no snapshots.
func TestAuditFixtures(t *testing.T) {
	root := filepath.Join(sharedFixtures(t), "extra")
	truths, err := filepath.Glob(filepath.Join(root, "*", "*", "orphans.json"))
	if err != nil || len(truths) < 24 {
		t.Fatalf("%d fixtures: %v", len(truths), err)
	}
	for _, name := range truths {
		dir := filepath.Dir(name)
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) { auditFixture(t, dir) })
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func auditFixture(t *testing.T, dir string) {
	// Git keeps no empty directories.
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	want := litterIn(t, dir)
	for _, d := range want.EmptyDirs {
		if err := os.MkdirAll(filepath.Join(work, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	auditCopy(t, storage.NewLocal(storage.LocalOptions{}), dir, "file:"+work, want)
}

func litterIn(t *testing.T, dir string) *litter {
	var want litter
	readJSON(t, filepath.Join(dir, "orphans.json"), &want)
	return &want
}

// auditCopy audits a copy of a fixture at base.
func auditCopy(t *testing.T, store storage.FS, dir, base string, want *litter) {
	var truth struct {
		WrittenAt string `json:"writtenAt"`
	}
	readJSON(t, filepath.Join(dir, "truth.json"), &truth)
	rules := []Rule{{From: "file:" + truth.WrittenAt, To: base}}
	roots := []string{base}
	if objects, err := filepath.Glob(filepath.Join(dir, "s3", "*")); err == nil && len(objects) > 0 {
		roots = nil
		for _, o := range objects {
			if fi, err := os.Stat(o); err == nil && fi.IsDir() {
				to := storage.Join(base, "s3", filepath.Base(o))
				rules = append(rules, Rule{From: "s3://" + filepath.Base(o), To: to})
				roots = append(roots, to)
			}
		}
	}
	// Metadata is a day younger than the files, and all are long past.
	fsys := aged{store, func(uri string) time.Time {
		if storage.Base(uri) == MetadataName {
			return auditNow.AddDate(0, 0, -2)
		}
		return auditNow.AddDate(0, 0, -10)
	}}
	r, err := Audit(t.Context(), fsys, roots, AuditOptions{Now: auditNow, Aliases: rules})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Decided() {
		t.Fatalf("unreadable %v, unlisted %v", r.Unreadable, r.Unlisted)
	}
	rel := func(uri string) string {
		rest, ok := storage.Rel(base, uri)
		if !ok {
			t.Errorf("%s is not in the fixture", uri)
		}
		return rest
	}

	orphans := map[string]int64{}
	for f := range r.Files() {
		if p := rel(f.URI); !strings.Contains(p, "/") || f.Area == AreaOther && strings.HasPrefix(p, "sink out") {
			continue // the fixture's own files
		}
		orphans[rel(f.URI)] = f.Size
		if f.Status != FileUnreferenced && f.Area != AreaWorking {
			t.Errorf("%s: %s, %s", f.URI, f.Status, f.Cause)
		}
	}
	if !maps.Equal(orphans, want.Orphans) {
		t.Errorf("%d orphans, want %d", len(orphans), len(want.Orphans))
	}

	var metadata []string
	for _, s := range r.Snapshots {
		metadata = append(metadata, rel(s.URI))
	}
	wantMetadata := want.Metadata
	for _, d := range want.Retained {
		wantMetadata = append(wantMetadata, d+"/"+MetadataName)
	}
	compareSets(t, "metadata", metadata, wantMetadata)

	var referenced []string
	directories := map[string]bool{}
	for id := range r.Registry().Limit() {
		if f := r.Registry().File(id); !f.Directory {
			referenced = append(referenced, rel(f.URI))
		} else {
			directories[f.URI] = true
		}
	}
	compareSets(t, "referenced", referenced, want.Referenced)

	dangling := map[string][]string{}
	for p := range r.Problems() {
		if p.Problem != ProblemMissing {
			t.Errorf("%+v", p)
		}
		for _, s := range p.Snapshots {
			dangling[rel(storage.Dir(s))] = append(dangling[rel(storage.Dir(s))], rel(p.URI))
		}
	}
	compareSets(t, "snapshots with dangling references", slices.Collect(maps.Keys(dangling)), slices.Collect(maps.Keys(want.Dangling)))
	for s := range want.Dangling {
		compareSets(t, "dangling references of "+s, dangling[s], want.Dangling[s])
	}

	var without []string
	for _, d := range r.Dirs {
		if d.Unused.Files > 0 && d.State != DirCompleted {
			without = append(without, rel(d.Dir))
		}
	}
	var wantWithout []string
	for _, d := range want.DirsWithoutMetadata {
		wantWithout = append(wantWithout, strings.TrimSuffix(d, "/db")) // the attempt's directory
	}
	compareSets(t, "directories without metadata", without, wantWithout)

	var empty []string
	for _, d := range r.EmptyDirs {
		empty = append(empty, rel(d))
	}
	compareSets(t, "empty directories", empty, want.EmptyDirs)
}

func compareSets(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d, want %d\n got %q\nwant %q", what, len(got), len(want), got[:min(len(got), 8)], want[:min(len(want), 8)])
	}
}
