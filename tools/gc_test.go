package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

const (
	jobB   = "b123456789abcdef0123456789abcdef"
	gcRoot = "s3://b/ck"
)

// uuid is a name that Flink could give.
func uuid(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n) }

// gcWorld is a store in which snapshots are made. Files get the time of the test's bubble.
type gcWorld struct {
	t    testing.TB
	fsys storage.FS
}

func newGCWorld(t testing.TB) *gcWorld { return &gcWorld{t, storage.NewMemory()} }

// shared writes files 7 bytes long into the shared directory of job A.
func (w *gcWorld) shared(ns ...int) (uris []string) {
	for _, n := range ns {
		uri := storage.Join(gcRoot, jobA, "shared", uuid(n))
		put(w.t, w.fsys, uri, 7)
		uris = append(uris, uri)
	}
	return uris
}

// snapshot writes metadata that names shared files by absolute paths, and
// own files that are written beside it.
func (w *gcWorld) snapshot(dir string, id int64, shared []string, own ...int) {
	w.t.Helper()
	h := incrementalHandle(&metadata.ByteStream{Name: "m", Data: []byte{1}}, nil, nil)
	for i, uri := range shared {
		h.Shared = append(h.Shared, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("%06d.sst", i)), Stream: file(w.t, uri, 7)})
	}
	for i, n := range own {
		put(w.t, w.fsys, storage.Join(dir, uuid(n)), 7)
		h.Private = append(h.Private, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("MANIFEST-%06d", i)), Stream: &metadata.RelativeFile{Path: metadata.Text(uuid(n)), Size: 7}})
	}
	putMetadata(w.t, w.fsys, dir, &metadata.Snapshot{Version: metadata.Version4, CheckpointID: id, Properties: metadata.NullProperties,
		Operators: []metadata.Operator{operator("op", &metadata.SubtaskState{ManagedKeyed: h})}})
}

func (w *gcWorld) checkpoint(job string, id int64, shared []string, own ...int) {
	w.t.Helper()
	w.snapshot(chkDir(job, id), id, shared, own...)
}

func chkDir(job string, id int64) string {
	return storage.Join(gcRoot, job, fmt.Sprintf("chk-%d", id))
}

// files lists what is there.
func (w *gcWorld) files() []string {
	var uris []string
	for info, err := range w.fsys.List(w.t.Context(), "s3://b") {
		if err != nil {
			w.t.Fatal(err)
		}
		uris = append(uris, info.URI)
	}
	slices.Sort(uris)
	return uris
}

func (w *gcWorld) plan(o GCOptions, roots ...string) *GCPlan {
	w.t.Helper()
	if len(roots) == 0 {
		roots = []string{gcRoot}
	}
	p, err := PlanGC(w.t.Context(), w.fsys, roots, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// planned are the paths of a plan, which must not be refused.
func planned(t testing.TB, p *GCPlan) []string {
	t.Helper()
	if len(p.Refused) > 0 {
		t.Fatalf("refused: %q", p.Refused)
	}
	paths := []string{}
	n := AuditCount{}
	for e, err := range p.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, e.Path)
		n.add(e.Size)
	}
	if n != p.Delete {
		t.Errorf("the plan says %+v, and has %+v", p.Delete, n)
	}
	slices.Sort(paths)
	return paths
}

func (w *gcWorld) wantPlan(o GCOptions, want ...string) *GCPlan {
	w.t.Helper()
	p := w.plan(o)
	got := planned(w.t, p)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("to delete:\n got %q\nwant %q", got, want)
	}
	return p
}

// wantRefusal demands a refusal that says all of words, and an empty plan.
func wantRefusal(t testing.TB, p *GCPlan, words ...string) {
	t.Helper()
	if len(p.Refused) == 0 {
		t.Fatal("not refused")
	}
	for _, w := range words {
		if !strings.Contains(strings.Join(p.Refused, "\n"), w) {
			t.Errorf("%q does not say %q", p.Refused, w)
		}
	}
	for e := range p.Entries() {
		t.Errorf("a refused plan deletes %s", e.Path)
		break
	}
	if _, err := p.Execute(t.Context(), storage.NewMemory(), GCExecuteOptions{}); !errors.Is(err, ErrRefused) {
		t.Errorf("executed: %v", err)
	}
}

// run executes a plan and demands the counts.
func (w *gcWorld) run(p *GCPlan, deleted, gone, skipped, failed int64) *GCRun {
	w.t.Helper()
	r, err := p.Execute(w.t.Context(), w.fsys, GCExecuteOptions{Recheck: -1})
	if (err != nil) != (failed > 0) || failed > 0 && !errors.Is(err, ErrPartly) {
		w.t.Fatal(err)
	}
	if r.Deleted.Files != deleted || r.Gone.Files != gone || r.Skipped.Files != skipped || r.Failed.Files != failed {
		w.t.Errorf("deleted %d, gone %d, skipped %d, failed %d; want %d, %d, %d, %d: %v %v",
			r.Deleted.Files, r.Gone.Files, r.Skipped.Files, r.Failed.Files, deleted, gone, skipped, failed, r.Skips, r.Failures)
	}
	return r
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// TestD14GrowingShared is the recipe: old litter goes, what is as new as the newest checkpoint stays.
func TestD14GrowingShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		var all []string
		for n := range 1000 {
			all = append(all, w.shared(n)...)
		}
		time.Sleep(10 * day)
		for id := range 3 {
			w.checkpoint(jobA, int64(40+id), all[id*20:id*20+200], 5000+id)
			time.Sleep(time.Minute)
		}
		flight := w.shared(2000, 2001, 2002)
		time.Sleep(2 * time.Hour)
		p := w.wantPlan(GCOptions{}, all[240:]...)
		if p.Listed.Referenced.Files != 240+3+3 || p.Listed.Young.Files != 3 {
			t.Errorf("%+v", p.Listed)
		}
		// The clock alone is not enough: no checkpoint was completed since.
		time.Sleep(10 * day)
		w.wantPlan(GCOptions{}, all[240:]...)
		w.run(p, 760, 0, 0, 0)
		w.wantPlan(GCOptions{})
		w.checkpoint(jobA, 43, all[:10])
		w.wantPlan(GCOptions{}, flight...)
		// A time that lies ahead says nothing about the age.
		p, err := PlanGC(t.Context(), w.fsys, []string{gcRoot}, GCOptions{AuditOptions: AuditOptions{Grace: -1, Now: time.Now().AddDate(-1, 0, 0)}})
		if err != nil || len(planned(t, p)) != 0 {
			t.Errorf("%v: files of the future are deleted", err)
		}
	})
}

// TestD15DirectoriesWithoutMetadata is the recipe.
func TestD15DirectoriesWithoutMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		put(t, w.fsys, chkDir(jobA, 17)+"/"+uuid(17), 7)
		put(t, w.fsys, chkDir(jobA, 23)+"/"+uuid(23), 7)
		stray := []string{chkDir(jobA, 39) + "/" + uuid(390), chkDir(jobA, 39) + "/" + uuid(391), chkDir(jobA, 39) + "/" + uuid(392)}
		for _, s := range stray {
			put(t, w.fsys, s, 7)
		}
		writing := chkDir(jobA, 39) + "/._metadata_temp"
		put(t, w.fsys, writing, 7)
		w.checkpoint(jobA, 39, nil, 1, 2)
		time.Sleep(3 * day)
		w.checkpoint(jobA, 40, nil, 3)
		put(t, w.fsys, chkDir(jobA, 41)+"/"+uuid(41), 7)
		time.Sleep(2 * time.Minute)
		want := append([]string{chkDir(jobA, 17) + "/" + uuid(17), chkDir(jobA, 23) + "/" + uuid(23), writing}, stray...)
		p := w.wantPlan(GCOptions{EmptyDirs: true}, want...)
		if want := []string{chkDir(jobA, 17), chkDir(jobA, 23), chkDir(jobA, 39)}; !slices.Equal(p.Directories, want) {
			t.Errorf("directories %q, want %q", p.Directories, want)
		}
		w.run(p, 6, 0, 0, 0)
	})
}

// TestD16OtherJobs is the recipe: what B uses of A stays, and A alone is not enough to know.
func TestD16OtherJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		shared := w.shared(slices.Collect(func(yield func(int) bool) {
			for n := range 30 {
				yield(n)
			}
		})...)
		w.checkpoint(jobA, 7, shared[:20])
		time.Sleep(5 * day)
		w.checkpoint(jobB, 3, shared[6:20])
		time.Sleep(5 * day)
		a := storage.Join(gcRoot, jobA)
		wantRefusal(t, w.plan(GCOptions{}, a), "not in scope", jobB)
		wantRefusal(t, w.plan(GCOptions{Retire: []string{a}}), "chk-3 uses 14 files of it")
		// With the sibling as a reference the same is known.
		p := w.plan(GCOptions{References: []string{storage.Join(gcRoot, jobB)}, AuditOptions: AuditOptions{Grace: -1}}, a)
		if got := planned(t, p); !slices.Equal(got, shared[20:]) {
			t.Errorf("got %q", got)
		}
		if err := w.fsys.Delete(t.Context(), chkDir(jobB, 3)+"/_metadata"); err != nil {
			t.Fatal(err)
		}
		w.checkpoint(jobB, 4, nil, 99)
		p = w.plan(GCOptions{Retire: []string{a}, EmptyDirs: true})
		if got := planned(t, p); len(got) != 31 {
			t.Errorf("%d files of the job that ended: %q", len(got), got)
		}
		w.run(p, 31, 0, 0, 0)
		if left := w.files(); len(left) != 2 || !strings.Contains(left[0], jobB) {
			t.Errorf("left: %q", left)
		}
	})
}

// TestD17UnreadableMetadata is the recipe.
func TestD17UnreadableMetadata(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)-9] },
		"future":    func(b []byte) []byte { b[7] = 7; return b },
		"empty":     func([]byte) []byte { return nil },
	} {
		bubble(t, name, func(t *testing.T) {
			w := newGCWorld(t)
			shared := w.shared(1, 2, 3, 4, 5, 6, 7)
			litter := w.shared(100)
			w.checkpoint(jobA, 1, shared[:1])
			time.Sleep(90 * day)
			for id := int64(2); id < 6; id++ {
				w.checkpoint(jobA, id, shared[id:id+1])
			}
			// Old metadata is metadata.
			time.Sleep(2 * day)
			w.checkpoint(jobA, 6, shared[6:7])
			w.wantPlan(GCOptions{}, append(litter, shared[1])...)
			meta := chkDir(jobA, 4) + "/_metadata"
			data, err := storage.ReadAll(t.Context(), w.fsys, meta, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if err := storage.WriteFile(t.Context(), w.fsys, meta, spoil(data), storage.CreateOptions{Overwrite: true}); err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, w.plan(GCOptions{}), meta, "ignore")
			wantRefusal(t, w.plan(GCOptions{IgnoreMetadata: []string{chkDir(jobA, 3) + "/_metadata"}}), meta, "can be read, and so is not ignored")
			p := w.plan(GCOptions{IgnoreMetadata: []string{meta}})
			if got, want := planned(t, p), []string{shared[1], shared[4], litter[0]}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			w.run(p, 3, 0, 0, 0)
		})
	}
}

// TestGCPlanSaved: what is read is what was written, and is executed exactly.
func TestGCPlanSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		litter := w.shared(100, 101, 102, 103)
		w.checkpoint(jobA, 1, w.shared(1))
		time.Sleep(5 * day)
		w.checkpoint(jobA, 2, w.shared(2), 50)
		p := w.wantPlan(GCOptions{KeepLast: 1}, append(litter, chkDir(jobA, 1)+"/_metadata", storage.Join(gcRoot, jobA, "shared", uuid(1)))...)
		var saved bytes.Buffer
		if n, err := p.WriteTo(&saved); err != nil || n != int64(saved.Len()) {
			t.Fatal(n, err)
		}
		for _, cut := range []int{0, 1, 100, saved.Len() / 2, saved.Len() - 20, saved.Len() - 5} {
			q, err := ReadGCPlan(bytes.NewReader(saved.Bytes()[:cut]))
			if err == nil {
				for _, e := range q.Entries() {
					err = e
				}
			}
			if err == nil {
				t.Errorf("a plan that was cut at %d of %d is read", cut, saved.Len())
			}
		}
		q, err := ReadGCPlan(bytes.NewReader(saved.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		var edited []byte
		for line := range bytes.Lines(saved.Bytes()) {
			if !bytes.Contains(line, []byte(litter[0])) {
				edited = append(edited, line...)
			}
		}
		if e, err := ReadGCPlan(bytes.NewReader(edited)); err != nil || e.Delete != (AuditCount{5, q.Delete.Bytes - 7}) {
			t.Errorf("one of the 6 files was taken out: %v, %v", e, err)
		}
		// Litter that came since is not in the plan.
		later := w.shared(104)
		time.Sleep(5 * day)
		r := w.run(q, 6, 0, 0, 0)
		if r.Plan != p.ID {
			t.Errorf("plan %s, want %s", r.Plan, p.ID)
		}
		if !slices.Contains(w.files(), later[0]) {
			t.Error("a file is gone that the plan does not have")
		}
		again, err := ReadGCPlan(&saved)
		if err != nil {
			t.Fatal(err)
		}
		w.run(again, 0, 6, 0, 0)
	})
}

// TestGCLooksAgain: between plan and deletion files change, and snapshots come that use them.
func TestGCLooksAgain(t *testing.T) {
	saved := func(t *testing.T, p *GCPlan) *GCPlan {
		var b bytes.Buffer
		if _, err := p.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		p, err := ReadGCPlan(&b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	asMade := func(_ *testing.T, p *GCPlan) *GCPlan { return p }
	for name, through := range map[string]func(*testing.T, *GCPlan) *GCPlan{"at once": asMade, "saved": saved} {
		prepare := func(t *testing.T) (*gcWorld, []string, *GCPlan) {
			w := newGCWorld(t)
			litter := w.shared(100, 101, 102, 103)
			w.checkpoint(jobA, 1, w.shared(1))
			time.Sleep(5 * day)
			w.checkpoint(jobA, 2, w.shared(2))
			return w, litter, through(t, w.plan(GCOptions{KeepLast: 1}))
		}
		bubble(t, name+"/used since", func(t *testing.T) {
			w, litter, p := prepare(t)
			w.checkpoint(jobB, 1, litter[:2])
			r := w.run(p, 4, 0, 2, 0)
			if len(r.Skips) != 2 || !strings.Contains(r.Skips[0].Error, jobB) {
				t.Errorf("%+v", r.Skips)
			}
		})
		bubble(t, name+"/changed", func(t *testing.T) {
			w, litter, p := prepare(t)
			for i, n := range []int{8, 7} {
				if err := storage.WriteFile(t.Context(), w.fsys, litter[i], make([]byte, n), storage.CreateOptions{Overwrite: true}); err != nil {
					t.Fatal(err)
				}
			}
			w.run(p, 4, 0, 2, 0)
		})
		bubble(t, name+"/a dropped snapshot is another now", func(t *testing.T) {
			w, _, p := prepare(t)
			dir := chkDir(jobA, 1)
			if err := w.fsys.Delete(t.Context(), dir+"/_metadata"); err != nil {
				t.Fatal(err)
			}
			w.checkpoint(jobA, 1, []string{storage.Join(gcRoot, jobA, "shared", uuid(1))})
			w.run(p, 4, 0, 1, 1)
			if !slices.Contains(w.files(), storage.Join(gcRoot, jobA, "shared", uuid(1))) {
				t.Error("a snapshot has lost a file")
			}
		})
		bubble(t, name+"/unreadable metadata came", func(t *testing.T) {
			w, _, p := prepare(t)
			put(t, w.fsys, chkDir(jobB, 1)+"/_metadata", 7)
			before := w.files()
			if _, err := p.Execute(t.Context(), w.fsys, GCExecuteOptions{}); !errors.Is(err, ErrRefused) || !slices.Equal(before, w.files()) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestGCEditedPlan: a plan that a person has changed deletes nothing that is in use or elsewhere.
func TestGCEditedPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGCWorld(t)
		litter := w.shared(100)
		used := w.shared(1)
		w.checkpoint(jobA, 1, used, 2)
		time.Sleep(5 * day)
		w.checkpoint(jobA, 2, used)
		outside := "s3://b/other/" + uuid(5)
		put(t, w.fsys, outside, 7)
		var b bytes.Buffer
		if _, err := w.plan(GCOptions{}).WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		entry := doc["delete"].([]any)[0].(map[string]any)
		for _, uri := range []string{used[0], outside, chkDir(jobA, 1) + "/_metadata", chkDir(jobA, 1) + "/" + uuid(2)} {
			e := maps.Clone(entry)
			e["path"] = uri
			doc["delete"] = append(doc["delete"].([]any), e)
		}
		doc["planned"] = map[string]any{"files": 5, "bytes": 35}
		data, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		// json.Marshal sorts the members, so that the entries don't come last.
		if _, err := ReadGCPlan(bytes.NewReader(data)); err == nil {
			t.Error("members behind the entries are passed over")
		}
		last, err := json.Marshal(doc["delete"])
		if err != nil {
			t.Fatal(err)
		}
		delete(doc, "delete")
		if data, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		data = append(append(bytes.TrimSuffix(data, []byte("}")), `,"delete":`...), append(last, '}')...)
		p, err := ReadGCPlan(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		w.run(p, 1, 0, 4, 0)
		if slices.Contains(w.files(), litter[0]) {
			t.Error("the litter is still there")
		}
	})
}

// TestGCPlanStreams writes and reads a plan of a million files and holds none of them.
func TestGCPlanStreams(t *testing.T) {
	const n = 1000000
	p := &GCPlan{Format: GCPlanFormat, Operation: "gc", Roots: []string{gcRoot}, Delete: AuditCount{n, 7 * n}}
	p.entries = func(yield func(GCEntry, error) bool) {
		for i := range n {
			if !yield(GCEntry{Path: storage.Join(gcRoot, jobA, "shared", uuid(i)), Size: 7, Reason: CauseBefore, ModTime: auditNow}, nil) {
				return
			}
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	r, w := io.Pipe()
	go func() {
		_, err := p.WriteTo(w)
		w.CloseWithError(err)
	}()
	q, err := ReadGCPlan(r)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, err := range q.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read == n-1 {
			if h := heap(); h > before+8<<20 {
				t.Errorf("%d bytes are held", h-before)
			}
		}
	}
	if read != n || q.Delete != p.Delete {
		t.Errorf("%d files, %+v", read, q.Delete)
	}
}
