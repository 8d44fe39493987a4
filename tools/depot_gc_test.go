package tools

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// dated is an [aged] store in which files can also be deleted.
type dated struct{ aged }

func (f dated) Stat(ctx context.Context, uri string) (storage.Info, error) {
	info, err := f.FS.Stat(ctx, uri)
	if err == nil && !info.Dir {
		info.ModTime = f.time(uri)
	}
	return info, err
}

func (f dated) Prune(ctx context.Context, dirs ...string) (int, error) {
	if p, ok := f.FS.(storage.Pruner); ok {
		return p.Prune(ctx, dirs...)
	}
	return 0, nil
}

// store is the depot's store, with the times of its files.
func (d *depot) store() storage.FS {
	return dated{aged{d.fsys, func(uri string) time.Time { return d.times[uri] }}}
}

// at gives the URIs of places below the base.
func (d *depot) at(names ...string) []string {
	uris := make([]string, len(names))
	for i, n := range names {
		uris[i] = storage.Join(d.base, n)
	}
	return uris
}

func (d *depot) plan(o GCOptions, roots ...string) *GCPlan {
	d.t.Helper()
	if len(roots) == 0 {
		roots = []string{""}
	}
	o.Now = auditNow
	p, err := PlanGC(d.t.Context(), d.store(), d.at(roots...), o)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// dispose plans the disposal of snapshots in directories below the base; everything there is in scope, and no job runs.
func (d *depot) dispose(dirs ...string) *GCPlan {
	d.t.Helper()
	p, err := PlanDispose(d.t.Context(), d.store(), d.at(dirs...), DisposeOptions{Scope: []string{d.base}, Stopped: true})
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// wantPlanned demands that a plan deletes exactly some files.
func wantPlanned(t testing.TB, p *GCPlan, want ...[]string) {
	t.Helper()
	all := slices.Sorted(slices.Values(slices.Concat(want...)))
	if got := planned(t, p); !slices.Equal(got, all) {
		t.Errorf("to delete: %d, want %d\n got %q\nwant %q", len(got), len(all), got[:min(len(got), 12)], all[:min(len(all), 12)])
	}
}

// collect executes a plan and demands that exactly the files that it names go.
func (d *depot) collect(p *GCPlan) *GCRun {
	d.t.Helper()
	left := d.files()
	for _, uri := range planned(d.t, p) {
		delete(left, uri)
	}
	r, err := p.Execute(d.t.Context(), d.store(), GCExecuteOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	if r.Deleted != p.Delete || r.Gone.Files+r.Skipped.Files+r.Failed.Files != 0 {
		d.t.Errorf("of %+v: %+v, skips %v, failures %v", p.Delete, r, r.Skips, r.Failures)
	}
	if now := d.files(); !maps.Equal(now, left) {
		d.t.Errorf("%d files are left, want %d", len(now), len(left))
	}
	return r
}

// files are all that there are, with their sizes.
func (d *depot) files() map[string]int64 {
	d.t.Helper()
	all := map[string]int64{}
	for info, err := range d.fsys.List(d.t.Context(), d.base) {
		if err != nil {
			d.t.Fatal(err)
		}
		all[info.URI] = info.Size
	}
	return all
}

// own writes a snapshot with a number of its own whose n files lie beside the metadata.
func (d *depot) own(dir string, id int64, n int, ago time.Duration) {
	d.t.Helper()
	var private []metadata.Stream
	for _, uri := range d.state(dir, n, ago) {
		private = append(private, relative(storage.Base(uri), 10))
	}
	d.numbered(dir, id, ago, incrementalHandle(inline("m", 1), nil, private))
}

// remove deletes files as somebody else would.
func (d *depot) remove(uris ...string) {
	d.t.Helper()
	if err := d.fsys.Delete(d.t.Context(), uris...); err != nil {
		d.t.Fatal(err)
	}
}

// dropped are the directories, below the base, of the snapshots that a plan drops.
func (d *depot) dropped(p *GCPlan) []string {
	var dirs []string
	for _, s := range p.Drop {
		dirs = append(dirs, strings.TrimPrefix(storage.Dir(s.Snapshot), d.base+"/"))
	}
	slices.Sort(dirs)
	return dirs
}

// denying is a store that refuses to delete one object.
type denying struct {
	dated
	uri string
}

func (f denying) Delete(ctx context.Context, uris ...string) error {
	i := slices.Index(uris, f.uri)
	if i < 0 {
		return f.dated.Delete(ctx, uris...)
	}
	denied := &storage.DeleteError{URI: f.uri, Err: fs.ErrPermission}
	return errors.Join(f.dated.Delete(ctx, slices.Delete(slices.Clone(uris), i, i+1)...), denied)
}

// below are the files in a directory, and below it.
func (d *depot) below(dir string) []string {
	d.t.Helper()
	var uris []string
	for info, err := range d.fsys.List(d.t.Context(), storage.Join(d.base, dir)) {
		if err != nil {
			d.t.Fatal(err)
		}
		uris = append(uris, info.URI)
	}
	slices.Sort(uris)
	return uris
}
