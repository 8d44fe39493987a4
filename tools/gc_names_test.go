package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// localWorld is a world of files in a directory of this machine, and the names of a job's directories in it.
type localWorld struct {
	*gcWorld
	dir string
}

func newLocalWorld(t *testing.T) *localWorld {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &localWorld{&gcWorld{t, storage.NewLocal(storage.LocalOptions{NoSync: true})}, dir}
}

func (w *localWorld) at(names ...string) string {
	return storage.Join("file:"+filepath.ToSlash(w.dir), names...)
}

func (w *localWorld) link(target, name string) {
	w.t.Helper()
	if err := os.Symlink(target, filepath.Join(w.dir, filepath.FromSlash(name))); err != nil {
		w.t.Skip(err)
	}
}

// write makes files, a minute old for each of their numbers.
func (w *localWorld) write(dir string, ns ...int) (uris []string) {
	w.t.Helper()
	for _, n := range ns {
		uri := storage.Join(dir, uuid(n))
		put(w.t, w.fsys, uri, 7)
		old := time.Now().Add(-time.Hour - time.Duration(n)*time.Minute)
		if err := os.Chtimes(filepath.FromSlash(strings.TrimPrefix(uri, "file:")), old, old); err != nil {
			w.t.Fatal(err)
		}
		uris = append(uris, uri)
	}
	return uris
}

var noGrace = AuditOptions{Grace: -1}

// TestGCLinkedDirectory: files that are listed under one name, and that snapshots name by another, stay.
func TestGCLinkedDirectory(t *testing.T) {
	w := newLocalWorld(t)
	real, link := w.at("ck", "real", jobA), w.at("ck", "link", jobA)
	w.write(storage.Join(real, "shared"), 1, 2, 3)
	w.link("real", "ck/link")
	w.snapshot(storage.Join(real, "chk-1"), 1, []string{storage.Join(link, "shared", uuid(1)), storage.Join(link, "shared", uuid(2))}, 4)
	litter := storage.Join(real, "shared", uuid(3))

	r, err := Audit(t.Context(), w.fsys, []string{w.at("ck")}, noGrace)
	if err != nil || !r.Decided() || r.Missing != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	if want := []AuditLink{{w.at("ck", "link"), w.at("ck", "real"), true}}; !slices.Equal(r.Links, want) {
		t.Errorf("links %+v", r.Links)
	}
	causes := map[string]string{}
	for f := range r.Files() {
		causes[f.URI] = f.Status.String() + ": " + f.Cause
	}
	for n, want := range map[int]string{1: "undecided: " + CauseNamed, 2: "undecided: " + CauseNamed, 3: "unreferenced: " + CauseBefore} {
		if got := causes[storage.Join(real, "shared", uuid(n))]; got != want {
			t.Errorf("file %d: %s", n, got)
		}
	}
	if len(causes) != 3 {
		t.Errorf("%q", causes)
	}
	p := w.plan(GCOptions{AuditOptions: noGrace}, w.at("ck"))
	wantRefusal(t, p, "2 files", w.at("ck", "link"), w.at("ck", "real"), "alias")
	o := GCOptions{AuditOptions: AuditOptions{Grace: -1, Aliases: []Rule{{From: w.at("ck", "link"), To: w.at("ck", "real")}}}}
	if got := planned(t, w.plan(o, w.at("ck"))); !slices.Equal(got, []string{litter}) {
		t.Errorf("with an alias: %q", got)
	}
	w.run(w.plan(o, w.at("ck")), 1, 0, 0, 0)
	// A root that is a link itself is looked into.
	p = w.plan(GCOptions{AuditOptions: noGrace}, w.at("ck", "link"))
	if got := planned(t, p); len(got) != 0 || p.Snapshots != 1 {
		t.Errorf("%d snapshots, %q", p.Snapshots, got)
	}
}

// TestGCLinkOutOfScope: snapshots behind a link that leads out of scope may use anything.
func TestGCLinkOutOfScope(t *testing.T) {
	for name, siblings := range map[string]int{"read by directory": 0, "listed at once": mostSiblings + 1} {
		t.Run(name, func(t *testing.T) {
			w := newLocalWorld(t)
			shared := w.write(w.at("ck", jobA, "shared"), 1, 2, 3)
			w.snapshot(w.at("ck", jobA, "chk-1"), 1, shared[:1])
			w.snapshot(w.at("other", jobB, "chk-1"), 1, shared[1:2])
			for i := range siblings {
				w.write(w.at("ck", fmt.Sprint("entropy", i)), 10000)
			}
			o := GCOptions{AuditOptions: noGrace}
			before := w.plan(o, w.at("ck"))
			planned(t, before)
			w.link("../other/"+jobB, "ck/linked")
			wantRefusal(t, w.plan(o, w.at("ck")), w.at("ck", "linked"), w.at("other", jobB))
			if _, err := before.Execute(t.Context(), w.fsys, GCExecuteOptions{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "linked") {
				t.Errorf("the link came after the plan: %v", err)
			}
			wantRefusal(t, w.dispose(DisposeOptions{Stopped: true}, w.at("ck", jobA, "chk-1")), w.at("ck", "linked"))
			r, err := Audit(t.Context(), w.fsys, []string{w.at("ck")}, noGrace)
			if err != nil || r.Decided() || len(r.Links) != 1 || r.Links[0].InScope {
				t.Errorf("%v: %+v", err, r.Links)
			}
			o.References = []string{w.at("other")}
			if got := planned(t, w.plan(o, w.at("ck"))); !slices.Equal(got, shared[2:]) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestGCLinksThatLeadNowhere: what was there may come back, unless it would be in scope.
func TestGCLinksThatLeadNowhere(t *testing.T) {
	w := newLocalWorld(t)
	shared := w.write(w.at("ck", jobA, "shared"), 1, 2)
	w.snapshot(w.at("ck", jobA, "chk-1"), 1, shared[:1])
	o := GCOptions{AuditOptions: noGrace}
	w.link("gone", "ck/latest")
	if got := planned(t, w.plan(o, w.at("ck"))); !slices.Equal(got, shared[1:]) {
		t.Errorf("got %q", got)
	}
	for target, word := range map[string]string{"/mnt/not/mounted": "/mnt/not/mounted", "circle": "not known"} {
		w.link(target, "ck/circle")
		wantRefusal(t, w.plan(o, w.at("ck")), w.at("ck", "circle"), word)
		if err := os.Remove(w.dir + "/ck/circle"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGCLinkedFiles: neither links to files nor what they lead to is litter.
func TestGCLinkedFiles(t *testing.T) {
	w := newLocalWorld(t)
	dir := w.at("ck", jobA, "shared")
	shared := w.write(dir, 1, 2, 3, 4)
	w.link(uuid(1), "ck/"+jobA+"/shared/"+uuid(11)) // that a snapshot uses
	w.link(uuid(2), "ck/"+jobA+"/shared/"+uuid(12)) // that nobody does
	w.link(uuid(3), "ck/"+jobA+"/shared/"+uuid(13)) // that nobody does, to a file of a snapshot that is dropped
	w.snapshot(w.at("ck", jobA, "chk-0"), 0, shared[2:3])
	w.snapshot(w.at("ck", jobA, "chk-1"), 1, []string{storage.Join(dir, uuid(11))})
	o := GCOptions{AuditOptions: noGrace, Retire: []string{w.at("ck", jobA)}}
	for range 2 {
		got := planned(t, w.plan(o, w.at("ck")))
		for i, uri := range shared {
			if slices.Contains(got, uri) != (i == 3) {
				t.Errorf("got %q", got)
			}
		}
		if !slices.Contains(got, w.at("ck", jobA, "chk-0", MetadataName)) {
			t.Errorf("chk-0 stays: %q", got)
		}
		o.Retire, o.KeepLast = nil, 1
	}
}

// TestGCNamesakes: a name that a snapshot uses elsewhere protects a file, also if both are there.
func TestGCNamesakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(1, 2, 3)
		copied := storage.Join("s3://b/copy", jobA, "shared", uuid(2))
		put(t, w.fsys, copied, 7)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 1, []string{shared[0], copied})
		w.wantPlan(GCOptions{References: []string{"s3://b/copy"}}, shared[2])
		// One that is used under another name since the plan was made stays.
		p := w.wantPlan(GCOptions{References: []string{"s3://b/copy"}}, shared[2])
		w.checkpoint(jobA, 2, []string{storage.Join("hdfs://ns1/ck", jobA, "shared", uuid(3))})
		w.run(p, 0, 0, 1, 0)
	})
	bubble(t, "retired", func(t *testing.T) {
		w := newGCWorld(t)
		w.checkpoint(jobA, 1, nil)
		time.Sleep(time.Hour)
		young := w.shared(1, 2)
		other := "s3://b/ck/other/" + uuid(1)
		put(t, w.fsys, other, 7)
		w.checkpoint(jobB, 1, []string{other})
		time.Sleep(5 * day)
		got := planned(t, w.plan(GCOptions{Retire: []string{storage.Join(gcRoot, jobA)}}))
		if !slices.Equal(got, []string{chkDir(jobA, 1) + "/" + MetadataName, young[1]}) {
			t.Errorf("got %q", got)
		}
	})
}

// TestGCDroppedNamesakes: a file of a dropped snapshot stays if it may be one that another snapshot names at another place.
func TestGCDroppedNamesakes(t *testing.T) {
	for name, c := range map[string]struct {
		other string
		write bool
		later time.Duration
		goes  bool
	}{
		"a copy":             {"s3://b/ck/other", true, time.Hour, true},
		"of the same time":   {"s3://b/ck/other", true, 0, false},
		"a place not seen":   {"hdfs://ns1/ck", false, 0, false},
		"the one file there": {storage.Join(gcRoot, jobA), false, 0, false},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			shared := w.shared(1)
			other := storage.Join(c.other, "shared", uuid(1))
			time.Sleep(c.later)
			if c.write {
				put(t, w.fsys, other, 7)
			}
			w.checkpoint(jobA, 1, shared)
			time.Sleep(5 * day)
			w.checkpoint(jobA, 2, []string{other})
			want := []string{chkDir(jobA, 1) + "/_metadata"}
			if c.goes {
				want = append(want, shared...)
			}
			if c.other != "hdfs://ns1/ck" { // then chk-2 is not complete, and chk-1 stays
				w.wantPlan(GCOptions{KeepLast: 1}, want...)
			}
			if got := planned(t, w.dispose(DisposeOptions{Scope: []string{"s3://b"}, Stopped: true}, chkDir(jobA, 1))); !slices.Equal(got, want) {
				t.Errorf("disposal of %q, want %q", got, want)
			}
		})
	}
}

// TestGCListedIsUsed: only files that the listing shows say that it fits what the snapshots name.
func TestGCListedIsUsed(t *testing.T) {
	for name, n := range map[string]int{"asked for one by one": 3, "by their directory": listFrom} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			w.shared(1001, 1002, 1003)
			var used []string
			for i := range n {
				used = append(used, w.shared(i)...)
			}
			time.Sleep(5 * day)
			w.checkpoint(jobA, 1, used)
			p, err := PlanGC(t.Context(), &lateFS{FS: w.fsys, late: used, seen: map[string]bool{}}, []string{gcRoot}, GCOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if r := p.audit.report; r.Missing+r.Unseen != 0 {
				t.Errorf("%d missing, %d not seen", r.Missing, r.Unseen)
			}
			wantRefusal(t, p, "none of the files")
		})
	}
}

// TestGCNothingThere: a root in which nothing is listed is a mistake, or not mounted.
func TestGCNothingThere(t *testing.T) {
	memory := newGCWorld(t)
	local := newLocalWorld(t)
	for name, c := range map[string]struct {
		w    *gcWorld
		root string
	}{"objects": {memory, "s3://b"}, "files": {local.gcWorld, local.at()}} {
		t.Run(name, func(t *testing.T) {
			w := c.w
			ck, file, empty := c.root+"/ck", c.root+"/file", c.root+"/empty"
			w.snapshot(ck+"/"+jobA+"/chk-1", 1, nil, 1)
			w.snapshot(ck+"/"+jobA+"/chk-2", 2, nil, 2)
			put(t, w.fsys, file, 7)
			places := []string{c.root + "/typo", file}
			if name == "files" {
				places = append(places, empty)
				if err := os.Mkdir(strings.TrimPrefix(empty, "file:"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, place := range places {
				r, err := Audit(t.Context(), w.fsys, []string{ck, place}, noGrace)
				if err != nil || r.Decided() || len(r.Unlisted) != 1 || r.Unlisted[0].URI != place {
					t.Errorf("audit of %s: %v: %+v", place, err, r)
				}
				for _, o := range []struct{ roots, refs []string }{{[]string{ck, place}, nil}, {[]string{ck}, []string{place}}, {[]string{place}, nil}} {
					p, err := PlanGC(t.Context(), w.fsys, o.roots, GCOptions{AuditOptions: noGrace, References: o.refs})
					if err == nil {
						wantRefusal(t, p, place)
					} else if !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%+v: %v", o, err)
					}
				}
				wantRefusal(t, w.dispose(DisposeOptions{Stopped: true, Scope: []string{ck, place}}, ck+"/"+jobA+"/chk-1"), place)
			}
		})
	}
}

// TestGCNotFoundButThere: a directory that a store doesn't find, and that is there on a second look, was not listed.
func TestGCNotFoundButThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := faultWorld(t)
		for op, where := range map[string]string{"list": jobB, "open": chkDir(jobB, 1)} {
			lost := storagetest.NewFaulty(w.fsys, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.Op == op && strings.Contains(s.URI, where) {
					return &storagetest.Fault{Err: fs.ErrNotExist}
				}
				return nil
			}})
			p, err := PlanGC(t.Context(), lost, []string{"s3://b"}, faultOptions)
			if err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, p, jobB)
			if p, err = PlanDispose(t.Context(), lost, []string{chkDir(jobA, 1)}, DisposeOptions{Stopped: true}); err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, p, jobB)
			before := w.files()
			p = w.plan(faultOptions, "s3://b")
			p.audit = nil // as if it was read
			if _, err := p.Execute(t.Context(), lost, GCExecuteOptions{}); !errors.Is(err, ErrRefused) || !slices.Equal(before, w.files()) {
				t.Errorf("%s: %v", op, err)
			}
		}
	})
}

// TestGCProtectedThroughLinks: what a pin or a reference leads to stays, whatever it is called.
func TestGCProtectedThroughLinks(t *testing.T) {
	w := newLocalWorld(t)
	job := w.at("ck", jobA)
	old := w.write(storage.Join(job, "shared"), 1, 2)
	w.snapshot(storage.Join(job, "chk-1"), 1, old[:1])
	w.snapshot(storage.Join(job, "chk-2"), 2, nil, 3)
	w.link(jobA+"/chk-1", "ck/latest")
	w.link("ck", "link")
	o := GCOptions{AuditOptions: noGrace, KeepLast: 1}
	all := []string{storage.Join(job, "chk-1", MetadataName), old[0], old[1]}
	for _, c := range []struct {
		root, pin, ref string
		want           []string // nil if it is refused
	}{
		{"ck", "", "", all},
		{"ck", "ck/latest", "", all[2:]},
		{"ck", "link/" + jobA + "/chk-1", "", all[2:]},
		{"link", "ck/" + jobA + "/chk-1/" + MetadataName, "", nil},
		{"ck", "link", "", []string{}},
		{"ck", "", "link/" + jobA, []string{}},
		{"link", "", "ck", nil},
		{"ck", "", "link", nil},
	} {
		o.Pins, o.References = nil, nil
		if c.pin != "" {
			o.Pins = []Pin{{Path: w.at(c.pin)}}
		}
		if c.ref != "" {
			o.References = []string{w.at(c.ref)}
		}
		p := w.plan(o, w.at(c.root))
		if c.want == nil {
			wantRefusal(t, p, w.at("link"))
		} else if got := planned(t, p); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// lateFS is a store whose first listing of a directory doesn't show some files.
type lateFS struct {
	storage.FS
	late []string
	mu   sync.Mutex
	seen map[string]bool
}

func (l *lateFS) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		l.mu.Lock()
		again := l.seen[dir]
		l.seen[dir] = true
		l.mu.Unlock()
		for info, err := range l.FS.ReadDir(ctx, dir) {
			if (again || !slices.Contains(l.late, info.URI)) && !yield(info, err) {
				return
			}
		}
	}
}
