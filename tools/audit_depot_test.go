package tools

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

const (
	ownerA = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	ownerB = "abcdef0123456789abcdef0123456789"
	hour   = time.Hour
	day    = 24 * time.Hour
)

// depot is a store with files of given ages.
type depot struct {
	t     testing.TB
	fsys  storage.FS
	base  string
	times map[string]time.Time
	n     int
	// mkdir makes an empty directory; nil where there are none.
	mkdir func(t testing.TB, uri string)
}

// depots runs a test on each kind of store.
func depots(t *testing.T, test func(t *testing.T, d *depot)) {
	t.Helper()
	onStores(t, func(t *testing.T, s testStore) {
		test(t, &depot{t: t, fsys: s.fsys, base: s.base, times: map[string]time.Time{}, mkdir: s.mkdir})
	})
}

// put makes a file below the base, so long ago.
func (d *depot) put(name string, n int, ago time.Duration) string {
	d.t.Helper()
	uri := storage.Join(d.base, name)
	put(d.t, d.fsys, uri, n)
	d.times[uri] = auditNow.Add(-ago)
	return uri
}

// state makes n files of 10 bytes with names as Flink gives them.
func (d *depot) state(dir string, n int, ago time.Duration) []string {
	d.t.Helper()
	uris := make([]string, n)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range uris {
		d.n++
		uris[i] = storage.Join(d.base, dir, uuid(d.n))
		d.times[uris[i]] = auditNow.Add(-ago)
		g.Go(func() error {
			return storage.WriteFile(d.t.Context(), d.fsys, uris[i], []byte("ten bytes."), storage.CreateOptions{})
		})
	}
	if err := g.Wait(); err != nil {
		d.t.Fatal(err)
	}
	return uris
}

// snapshot writes the metadata of a checkpoint that names files, absolutely.
func (d *depot) snapshot(dir string, ago time.Duration, uris ...string) string {
	d.t.Helper()
	var shared []metadata.Stream
	for _, u := range uris {
		shared = append(shared, file(d.t, u, 10))
	}
	return d.keyed(dir, ago, incrementalHandle(inline("m", 1), shared, nil))
}

func (d *depot) keyed(dir string, ago time.Duration, h metadata.Keyed) string {
	d.t.Helper()
	id, _ := incremental.CheckpointNumber(storage.Base(dir))
	return d.numbered(dir, id, ago, h)
}

// numbered writes the metadata of a snapshot that has a number of its own, as savepoints do.
func (d *depot) numbered(dir string, id int64, ago time.Duration, h metadata.Keyed) string {
	d.t.Helper()
	uri := storage.Join(d.base, dir, MetadataName)
	putMetadata(d.t, d.fsys, storage.Dir(uri), &metadata.Snapshot{Version: metadata.Version3, CheckpointID: id,
		Operators: []metadata.Operator{operator("op", &metadata.SubtaskState{ManagedKeyed: h})}})
	d.times[uri] = auditNow.Add(-ago)
	return uri
}

func (d *depot) audit(o AuditOptions, roots ...string) *AuditReport {
	d.t.Helper()
	if len(roots) == 0 {
		roots = []string{""}
	}
	uris := make([]string, len(roots))
	for i, r := range roots {
		uris[i] = storage.Join(d.base, r)
	}
	o.Now = auditNow
	r, err := Audit(d.t.Context(), aged{d.fsys, func(uri string) time.Time { return d.times[uri] }}, uris, o)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// wantTotals compares numbers of files.
func wantTotals(t *testing.T, r *AuditReport, referenced, unreferenced, young, undecided int64) {
	t.Helper()
	got := [4]int64{r.Totals.Referenced.Files, r.Totals.Unreferenced.Files, r.Totals.Young.Files, r.Totals.Undecided.Files}
	if want := [4]int64{referenced, unreferenced, young, undecided}; got != want {
		t.Errorf("referenced, unreferenced, too young, undecided: %v, want %v", got, want)
	}
	if sum := got[0] + got[1] + got[2] + got[3]; r.Totals.All.Files != sum {
		t.Errorf("%d in all, %d in sum", r.Totals.All.Files, sum)
	}
	counts := map[FileStatus]int64{}
	var last string
	for f := range r.Files() {
		counts[f.Status]++
		// In the order of directories, then names.
		if key := storage.Dir(f.URI) + "\x00" + storage.Base(f.URI); key <= last {
			t.Errorf("%s is out of order", f.URI)
		} else {
			last = key
		}
	}
	if counts[FileUnreferenced] != unreferenced || counts[FileYoung] != young || counts[FileUndecided] != undecided {
		t.Errorf("files: %v", counts)
	}
}

// causesOf counts the files that no snapshot uses by cause.
func causesOf(r *AuditReport) map[string]int {
	m := map[string]int{}
	for f := range r.Files() {
		m[f.Cause]++
	}
	return m
}

func snapshotNamed(t *testing.T, r *AuditReport, dir string) *AuditSnapshot {
	t.Helper()
	for i := range r.Snapshots {
		if strings.HasSuffix(r.Snapshots[i].Dir(), dir) {
			return &r.Snapshots[i]
		}
	}
	t.Fatalf("no snapshot %s", dir)
	return nil
}

func stateOf(t *testing.T, r *AuditReport, dir string) AuditDir {
	t.Helper()
	for _, d := range r.Dirs {
		if strings.HasSuffix(d.Dir, dir) {
			return d
		}
	}
	t.Fatalf("no directory %s", dir)
	return AuditDir{}
}
