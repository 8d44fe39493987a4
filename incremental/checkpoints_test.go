package incremental

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// put writes an object.
func put(t testing.TB, f storage.FS, uri, data string) {
	t.Helper()
	if err := storage.WriteFile(t.Context(), f, uri, []byte(data), storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// there gives the objects below a directory, relative to it.
func there(t testing.TB, f storage.FS, dir string) []string {
	t.Helper()
	list := []string{}
	for info, err := range f.List(t.Context(), dir) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rest, _ := storage.Rel(dir, info.URI)
		list = append(list, rest)
	}
	slices.Sort(list)
	return list
}

// wantThere compares what is below a directory; want is one line.
func wantThere(t testing.TB, f storage.FS, dir, want string) {
	t.Helper()
	if got := strings.Join(there(t, f, dir), " "); got != want {
		t.Errorf("there is\n  %s, want\n  %s", got, want)
	}
}

func open(t testing.TB, o CheckpointsOptions) *Checkpoints {
	t.Helper()
	if o.Dir == "" {
		o.Dir = job
	}
	c, err := OpenCheckpoints(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func begin(t testing.TB, c *Checkpoints, id int64) *Pending {
	t.Helper()
	p, err := c.Begin(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// snapshotWith names files: such with a slash by absolute path (below the job's directory if they have no scheme), others beside the
// metadata. Each is as long as its name's last segment.
func snapshotWith(id int64, files ...string) *metadata.Snapshot {
	var streams []metadata.Stream
	var private []metadata.LocalFile
	for _, f := range files {
		size := int64(len(storage.Base("x:/" + f)))
		switch {
		case strings.Contains(f, ":"):
			streams = append(streams, file(f, size))
		case strings.Contains(f, "/"):
			streams = append(streams, file(job+"/"+f, size))
		default:
			private = append(private, metadata.LocalFile{Stream: &metadata.RelativeFile{Path: metadata.Text(f), Size: size}})
		}
	}
	s := snapshotOf(id, streams...)
	h := s.Operators[0].Subtasks[0].State.ManagedKeyed.(*metadata.Incremental)
	h.Private, h.Meta = private, &metadata.ByteStream{Name: "m", Data: []byte("0123456789")}
	return s
}

// upload writes files through the store of a checkpoint, named as in snapshotWith.
func upload(t testing.TB, p *Pending, files ...string) {
	t.Helper()
	for _, f := range files {
		uri := storage.Join(p.Dir(), f)
		if strings.Contains(f, "/") {
			uri = storage.Join(storage.Dir(p.SharedDir()), f)
		}
		put(t, p.FS(), uri, storage.Base(uri))
	}
}

func complete(t testing.TB, p *Pending, files ...string) Completed {
	t.Helper()
	d, err := p.Complete(t.Context(), snapshotWith(p.ID(), files...))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkpoint does one from beginning to end: those of files with a plus are uploaded.
func checkpoint(t testing.TB, c *Checkpoints, id int64, files ...string) Completed {
	t.Helper()
	p := begin(t, c, id)
	for i, f := range files {
		if rest, ok := strings.CutPrefix(f, "+"); ok {
			files[i] = rest
			upload(t, p, rest)
		}
	}
	return complete(t, p, files...)
}

func ids(list []Completed) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprint(&b, c.ID, " ")
	}
	return strings.TrimSpace(b.String())
}

func TestSubsumption(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	one := checkpoint(t, c, 1, "+shared/a", "+shared/b", "+own")
	wantThere(t, f, job, "chk-1/_metadata chk-1/own shared/a shared/b")
	two := checkpoint(t, c, 2, "shared/b", "+shared/cc", "+own")
	wantThere(t, f, job, "chk-2/_metadata chk-2/own shared/b shared/cc")
	if latest, ok := c.Latest(); !ok || latest != two || ids(c.Retained()) != "2" {
		t.Errorf("latest %+v, retained %v", latest, c.Retained())
	}
	info, err := f.Stat(t.Context(), two.URI)
	if err != nil {
		t.Fatal(err)
	}
	// "cc" and "own" are new, "b" is not.
	if !one.Full || two.Full || two.CheckpointedSize != info.Size+5 || two.FullSize != info.Size+6 || two.Files != 4 || two.ID != 2 || two.Dir != job+"/chk-2" {
		t.Errorf("first %+v\nsecond %+v, metadata %d bytes", one, two, info.Size)
	}
	data, err := storage.ReadAll(t.Context(), f, two.URI, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil || s.Properties.Info().Kind != metadata.KindCheckpoint {
		t.Errorf("metadata: %v, %v", s, err)
	}
}

func TestRetain(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f, Retain: 3})
	checkpoint(t, c, 1, "+shared/a")
	checkpoint(t, c, 2, "shared/a", "+shared/b")
	checkpoint(t, c, 4, "shared/b", "+shared/d")
	wantThere(t, f, job, "chk-1/_metadata chk-2/_metadata chk-4/_metadata shared/a shared/b shared/d")
	checkpoint(t, c, 5, "shared/d")
	wantThere(t, f, job, "chk-2/_metadata chk-4/_metadata chk-5/_metadata shared/a shared/b shared/d")
	checkpoint(t, c, 6, "shared/d")
	wantThere(t, f, job, "chk-4/_metadata chk-5/_metadata chk-6/_metadata shared/b shared/d")
	if got := ids(c.Retained()); got != "4 5 6" {
		t.Errorf("retained: %s", got)
	}
	// As after a restart of the process, with fewer to retain.
	c = open(t, CheckpointsOptions{FS: f})
	if latest, _ := c.Latest(); latest.ID != 6 || ids(c.Retained()) != "4 5 6" || c.NextID() != 7 || latest.CheckpointedSize != -1 {
		t.Errorf("opened: %+v", latest)
	}
	checkpoint(t, c, 7, "shared/d")
	wantThere(t, f, job, "chk-7/_metadata shared/d")
}

func TestIDs(t *testing.T) {
	f := storage.NewMemory()
	put(t, f, job+"/chk-9/leftover", "x")
	put(t, f, job+"/chk-x/leftover", "x")
	c := open(t, CheckpointsOptions{FS: f})
	if n := c.NextID(); n != 10 {
		t.Errorf("next %d", n)
	}
	refused := func(id int64) {
		t.Helper()
		if _, err := c.Begin(id); !errors.Is(err, ErrID) {
			t.Errorf("%d: %v", id, err)
		}
		if _, err := c.BeginSavepoint(id, "s3://b/sp"); !errors.Is(err, ErrID) {
			t.Errorf("savepoint %d: %v", id, err)
		}
	}
	refused(9) // is there
	refused(0)
	refused(-1)
	p := begin(t, c, 3)
	refused(3)
	if err := p.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(3) // a late writer could be at work
	checkpoint(t, c, 5)
	refused(4)
	refused(5)
	sp, err := c.BeginSavepoint(6, "s3://b/sp")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sp.Complete(t.Context(), savepointOf(6)); err != nil {
		t.Fatal(err)
	}
	refused(6)
	checkpoint(t, c, 11)
	if n := c.NextID(); n != 12 || len(c.used) != 0 {
		t.Errorf("next %d, remembered %v", n, c.used)
	}
}

// savepointOf is a snapshot with the properties of a savepoint.
func savepointOf(id int64, files ...string) *metadata.Snapshot {
	s := snapshotWith(id, files...)
	s.Properties = metadata.PropertiesOf(metadata.KindNativeSavepoint)
	return s
}

func TestOutOfOrder(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	older, newer := begin(t, c, 2), begin(t, c, 3)
	sp, err := c.BeginSavepoint(4, "s3://b/sp")
	if err != nil {
		t.Fatal(err)
	}
	last := begin(t, c, 5)
	upload(t, older, "shared/b", "own")
	upload(t, newer, "shared/c")
	upload(t, last, "shared/d")
	late, err := older.FS().Create(t.Context(), job+"/shared/late", storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if older.Base() != 1 || newer.Base() != 1 || older.Err() != nil {
		t.Errorf("bases %d, %d, %v", older.Base(), newer.Base(), older.Err())
	}
	complete(t, newer, "shared/c")
	<-older.Done()
	if !errors.Is(older.Err(), ErrSubsumed) || last.Err() != nil || sp.Err() != nil {
		t.Errorf("older: %v, others: %v, %v", older.Err(), last.Err(), sp.Err())
	}
	// a is kept, as 5 began before 1 was subsumed.
	wantThere(t, f, job, "chk-3/_metadata shared/a shared/c shared/d")
	if _, err := older.Complete(t.Context(), snapshotWith(2, "shared/a")); !errors.Is(err, ErrSubsumed) {
		t.Errorf("older: %v", err)
	}
	if _, err := late.Write([]byte("x")); !errors.Is(err, ErrSubsumed) {
		t.Errorf("a late write: %v", err)
	}
	if err := late.Commit(); !errors.Is(err, ErrSubsumed) {
		t.Errorf("a late commit: %v", err)
	}
	if err := older.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	// It is given up by one, and taken by the other.
	complete(t, last, "shared/a", "shared/d")
	// The savepoint could copy c.
	wantThere(t, f, job, "chk-5/_metadata shared/a shared/c shared/d")
	if _, err := sp.Complete(t.Context(), savepointOf(4)); err != nil {
		t.Error(err)
	}
	wantThere(t, f, job, "chk-5/_metadata shared/a shared/d")
	checkpoint(t, c, 6, "shared/d")
	wantThere(t, f, job, "chk-6/_metadata shared/d")
}

// TestHeld: a file that a subsumed checkpoint used stays as long as a pending one could name it, and is not for those that began later.
func TestHeld(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a", "+own")
	before := begin(t, c, 9)
	checkpoint(t, c, 2, "+shared/b")
	wantThere(t, f, job, "chk-1/own chk-2/_metadata shared/a shared/b")
	after := begin(t, c, 10)
	if _, err := after.Complete(t.Context(), snapshotWith(10, "shared/a")); !errors.Is(err, ErrLost) {
		t.Errorf("it is not kept for this one: %v", err)
	}
	wantThere(t, f, job, "chk-1/own chk-2/_metadata shared/a shared/b")
	if err := before.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantThere(t, f, job, "chk-2/_metadata shared/b")
	if after.Base() != 2 || before.Base() != 1 {
		t.Errorf("bases %d, %d", after.Base(), before.Base())
	}
}

func TestAbort(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	p := begin(t, c, 2)
	upload(t, p, "own", "shared/b")
	w, err := p.FS().Create(t.Context(), job+"/shared/open", storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("open")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := p.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	wantThere(t, f, job, "chk-1/_metadata shared/a")
	cancel()
	if err := w.Commit(); !errors.Is(err, ErrAborted) {
		t.Errorf("a late commit: %v", err)
	}
	w.Abort()
	if _, err := p.FS().Create(ctx, job+"/shared/late", storage.CreateOptions{}); !errors.Is(err, ErrAborted) {
		t.Errorf("a late create: %v", err)
	}
	if err := p.FS().Copy(t.Context(), job+"/shared/a", job+"/shared/copy"); !errors.Is(err, ErrAborted) {
		t.Errorf("a late copy: %v", err)
	}
	if _, err := p.Complete(t.Context(), snapshotWith(2)); !errors.Is(err, ErrAborted) || errors.Is(err, ErrLost) {
		t.Errorf("a late completion: %v", err)
	}
	wantThere(t, f, job, "chk-1/_metadata shared/a")

	done := begin(t, c, 3)
	complete(t, done, "shared/a")
	if err := done.Abort(t.Context()); err != nil || !errors.Is(done.Err(), ErrCompleted) {
		t.Errorf("an abort of what has completed: %v, %v", err, done.Err())
	}
	if _, err := done.Complete(t.Context(), snapshotWith(3)); !errors.Is(err, ErrCompleted) {
		t.Errorf("completed twice: %v", err)
	}
	wantThere(t, f, job, "chk-3/_metadata shared/a")
}

// gate is a store whose commits of some objects wait.
type gate struct {
	storage.FS
	name            string
	arrived, passes chan struct{}
}

func (g *gate) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	w, err := g.FS.Create(ctx, uri, o)
	if err == nil && storage.Base(uri) == g.name {
		w = &gatedWriter{w, g}
	}
	return w, err
}

// Prune implements storage.Pruner.
func (g *gate) Prune(ctx context.Context, dirs ...string) (int, error) {
	if p, ok := g.FS.(storage.Pruner); ok {
		return p.Prune(ctx, dirs...)
	}
	return 0, nil
}

type gatedWriter struct {
	storage.Writer
	g *gate
}

func (w *gatedWriter) Commit() error {
	close(w.g.arrived)
	<-w.g.passes
	return w.Writer.Commit()
}

// TestCommitDuringAbort: an object that becomes visible after its checkpoint was aborted goes again, though its writer was canceled.
func TestCommitDuringAbort(t *testing.T) {
	f := &gate{FS: storage.NewLocal(storage.LocalOptions{NoSync: true}), name: "late", arrived: make(chan struct{}), passes: make(chan struct{})}
	dir := t.TempDir()
	c := open(t, CheckpointsOptions{FS: f, Dir: dir})
	p := begin(t, c, 1)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := p.FS().Create(context.WithoutCancel(ctx), p.Dir()+"/late", storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- w.Commit() }()
	<-f.arrived
	if err := p.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	close(f.passes)
	if err := <-result; !errors.Is(err, ErrAborted) {
		t.Errorf("commit: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// TestCommitDuringComplete: a file whose commit is under way when its checkpoint is to complete is not one that it may name.
func TestCommitDuringComplete(t *testing.T) {
	f := &gate{FS: storage.NewMemory(), name: "late", arrived: make(chan struct{}), passes: make(chan struct{})}
	c := open(t, CheckpointsOptions{FS: f})
	p := begin(t, c, 1)
	w, err := p.FS().Create(t.Context(), job+"/shared/late", storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- w.Commit() }()
	<-f.arrived
	if _, err := p.Complete(t.Context(), snapshotWith(1, "shared/late")); !errors.Is(err, ErrLost) {
		t.Errorf("completed: %v", err)
	}
	close(f.passes)
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Errorf("commit: %v", err)
	}
	wantThere(t, f, job, "")
}

func TestLost(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	put(t, f, job+"/shared/stray", "stray")
	put(t, f, job+"/taskowned/wal", "wal")
	put(t, f, "s3://b/elsewhere/x", "x")
	checkpoint(t, c, 1, "+shared/a")
	for i, broken := range []*metadata.Snapshot{
		snapshotWith(2, "shared/a", "shared/stray"),
		snapshotWith(3, "shared/gone"),
		snapshotWith(4, "beside"),
		snapshotWith(5, "chk-1/_metadata", "chk-1/x"),
		snapshotOf(6, &metadata.RelativeFile{Path: "../shared/stray", Size: 5}),
	} {
		p := begin(t, c, int64(i+2))
		upload(t, p, "shared/new", "own")
		if _, err := p.Complete(t.Context(), broken); !errors.Is(err, ErrLost) || !errors.Is(p.Err(), ErrLost) {
			t.Errorf("%d: %v", i+2, err)
		}
		wantThere(t, f, job, "chk-1/_metadata shared/a shared/stray taskowned/wal")
	}
	for i, broken := range []*metadata.Snapshot{
		snapshotWith(1, "shared/a"), // another number
		savepointOf(8, "shared/a"),
		snapshotOf(9, file(job+"/shared/new", 2)), // not as long
		snapshotOf(10, &metadata.Segment{Path: metadata.Text(job + "/shared/new"), Start: 2, Size: 2}),
	} {
		p := begin(t, c, int64(i+7))
		upload(t, p, "shared/new")
		if _, err := p.Complete(t.Context(), broken); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("%d: %v", i+7, err)
		}
		wantThere(t, f, job, "chk-1/_metadata shared/a shared/stray taskowned/wal")
	}
	// What is not the job's, or a task's, is for others to keep.
	checkpoint(t, c, 11, "shared/a", "taskowned/wal", "s3://b/elsewhere/x")
	checkpoint(t, c, 12, "+shared/b")
	wantThere(t, f, "s3://b/elsewhere", "x")
	wantThere(t, f, job, "chk-12/_metadata shared/b shared/stray")
}

func TestPlaces(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	put(t, f, job+"/shared/there", "there")
	p := begin(t, c, 7)
	sp, err := c.BeginSavepoint(8, "s3://b/sp/savepoint-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{
		"/chk-7/_metadata", "/chk-7", "/chk-70/x", "/shared", "/sharedx/y", "/x", "/taskowned/x", "/chk-7/../chk-6/x",
	} {
		if _, err := p.FS().Create(t.Context(), job+uri, storage.CreateOptions{}); err == nil {
			t.Errorf("%s can be written", uri)
		}
		if err := p.FS().Copy(t.Context(), job+"/shared/there", job+uri); err == nil {
			t.Errorf("%s can be copied to", uri)
		}
	}
	for _, uri := range []string{job + "/shared/x", "s3://b/sp/savepoint-1/_metadata", "s3://b/sp/savepoint-10/x"} {
		if _, err := sp.FS().Create(t.Context(), uri, storage.CreateOptions{}); err == nil {
			t.Errorf("%s can be written for a savepoint", uri)
		}
	}
	if _, err := p.FS().Create(t.Context(), job+"/shared/y", storage.CreateOptions{Overwrite: true}); err == nil {
		t.Error("a file can be overwritten")
	}
	if _, err := p.FS().Create(t.Context(), job+"/shared/there", storage.CreateOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created again: %v", err)
	}
	if err := p.FS().Delete(t.Context(), job+"/shared/there"); err == nil {
		t.Error("what was not written for it can be deleted")
	}
	upload(t, p, "mine")
	if err := p.FS().Delete(t.Context(), p.Dir()+"/mine"); err != nil {
		t.Error(err)
	}
	if _, err := p.Complete(t.Context(), snapshotWith(7, "mine")); !errors.Is(err, ErrLost) {
		t.Errorf("names what was deleted: %v", err)
	}
	wantThere(t, f, job, "shared/there")
	for _, dir := range []string{job, "s3://b/ck", job + "/shared", job + "/chk-7", job + "/shared/x", job + "/taskowned/x"} {
		if _, err := c.BeginSavepoint(20, dir); err == nil || errors.Is(err, ErrID) {
			t.Errorf("savepoint in %s: %v", dir, err)
		}
	}
}

func TestCopyAndUnusedUploads(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	p := begin(t, c, 2)
	ctx := t.Context()
	if err := p.FS().Copy(ctx, job+"/shared/a", p.SharedDir()+"/b"); err != nil {
		t.Fatal(err)
	}
	if err := p.FS().(storage.Linker).Link(ctx, job+"/shared/a", p.Dir()+"/c"); err != nil {
		t.Fatal(err)
	}
	upload(t, p, "shared/unused", "unused")
	complete(t, p, "shared/b", "c")
	wantThere(t, f, job, "chk-2/_metadata chk-2/c shared/b")
}

func TestSavepoints(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	ctx := t.Context()
	sp, err := c.BeginSavepoint(2, "s3://b/sp/two")
	if err != nil || !sp.Full() || sp.SharedDir() != sp.Dir() {
		t.Fatal(err)
	}
	put(t, sp.FS(), "s3://b/sp/two/x", "x")
	put(t, sp.FS(), "s3://b/sp/two/unused", "unused")
	done, err := sp.Complete(ctx, savepointOf(2, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if done.URI != "s3://b/sp/two/_metadata" || done.Files != 2 || done.FullSize != done.CheckpointedSize || !done.Full {
		t.Errorf("%+v", done)
	}
	if latest, _ := c.Latest(); latest.ID != 1 || ids(c.Retained()) != "1" {
		t.Errorf("the savepoint counts: %+v", latest)
	}
	// One that names what it did not write would be lost with it.
	for i, name := range []string{"shared/a", "s3://b/sp/two/x"} {
		sp, err = c.BeginSavepoint(int64(3+i), "s3://b/sp/three")
		if err != nil {
			t.Fatal(err)
		}
		put(t, sp.FS(), "s3://b/sp/three/y", "y")
		if _, err := sp.Complete(ctx, savepointOf(int64(3+i), "y", name)); err == nil {
			t.Errorf("a savepoint names %s", name)
		}
	}
	sp, err = c.BeginSavepoint(5, "s3://b/sp/five")
	if err != nil {
		t.Fatal(err)
	}
	put(t, sp.FS(), "s3://b/sp/five/y", "y")
	if err := sp.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	// Another one is there already.
	sp, err = c.BeginSavepoint(6, "s3://b/sp/two")
	if err != nil {
		t.Fatal(err)
	}
	put(t, sp.FS(), "s3://b/sp/two/y", "y")
	if _, err := sp.Complete(ctx, savepointOf(6, "y")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	checkpoint(t, c, 7)
	checkpoint(t, c, 8)
	wantThere(t, f, "s3://b/sp", "two/_metadata two/x")
}

func TestRebase(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f, RebaseEvery: 4})
	checkpoint(t, c, 1, "+shared/a")
	checkpoint(t, c, 2, "shared/a")
	checkpoint(t, c, 3, "shared/a")
	if !c.NextFull() {
		t.Error("the fourth is not full")
	}
	p := begin(t, c, 4)
	if _, err := p.Complete(t.Context(), snapshotWith(4, "shared/a")); !p.Full() || err == nil {
		t.Errorf("full: %v, %v", p.Full(), err)
	}
	if d := checkpoint(t, c, 5, "+shared/b"); !d.Full || c.NextFull() {
		t.Errorf("after the full one: %+v, %v", d, c.NextFull())
	}
	before := begin(t, c, 6)
	c.Rebase()
	complete(t, before, "shared/b")
	if !c.NextFull() || before.Full() {
		t.Error("one that began before does for a rebase")
	}
	put(t, f, job+"/taskowned/wal", "wal")
	checkpoint(t, c, 9, "+shared/c", "taskowned/wal") // which is not shared, but its task's
	if c.NextFull() {
		t.Error("a rebase does not end")
	}
	wantThere(t, f, job, "chk-9/_metadata shared/c taskowned/wal")
}

// TestOtherProcess: metadata that is there already is another's.
func TestOtherProcess(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	p := begin(t, c, 2)
	upload(t, p, "shared/b")
	put(t, f, job+"/chk-2/_metadata", "another's")
	put(t, f, job+"/chk-2/x", "x")
	if _, err := p.Complete(t.Context(), snapshotWith(2, "shared/a", "shared/b")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another's: %v", err)
	}
	wantThere(t, f, job, "chk-1/_metadata chk-2/_metadata chk-2/x shared/a")
	checkpoint(t, c, 3, "shared/a")
	wantThere(t, f, job, "chk-2/_metadata chk-2/x chk-3/_metadata shared/a")
}

func TestOpenRefuses(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f, Retain: 2})
	checkpoint(t, c, 1, "+shared/a")
	put(t, f, job+"/chk-2/_metadata", "damaged")
	before := there(t, f, job)
	if _, err := OpenCheckpoints(t.Context(), CheckpointsOptions{FS: f, Dir: job}); err == nil || !strings.Contains(err.Error(), job+"/chk-2/_metadata") {
		t.Errorf("opened with a damaged checkpoint: %v", err)
	}
	if got := there(t, f, job); !slices.Equal(got, before) {
		t.Errorf("there is %q, was %q", got, before)
	}
	for _, o := range []CheckpointsOptions{{}, {FS: f}, {Dir: job}, {FS: f, Dir: job, Retain: -1}, {FS: f, Dir: job, RebaseEvery: -1}} {
		if _, err := OpenCheckpoints(t.Context(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if c := open(t, CheckpointsOptions{FS: storage.NewLocal(storage.LocalOptions{}), Dir: filepath.Join(t.TempDir(), "new")}); c.NextID() != 1 {
		t.Error("a new job has checkpoints")
	}
}

// TestCopyOfACheckpoint: metadata that somebody put into the job's directory is neither counted nor deleted, and its files stay.
func TestCopyOfACheckpoint(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	checkpoint(t, c, 1, "+shared/a")
	for _, name := range []string{"chk-100", "before-upgrade"} {
		if err := f.Copy(t.Context(), job+"/chk-1/_metadata", job+"/"+name+"/_metadata"); err != nil {
			t.Fatal(err)
		}
	}
	c = open(t, CheckpointsOptions{FS: f})
	if latest, _ := c.Latest(); latest.ID != 1 || c.NextID() != 101 {
		t.Errorf("latest %+v, next %d", latest, c.NextID())
	}
	checkpoint(t, c, 101, "+shared/b")
	wantThere(t, f, job, "before-upgrade/_metadata chk-100/_metadata chk-101/_metadata shared/a shared/b")
}

// TestDirectories: directories of checkpoints that are gone are gone, too.
func TestDirectories(t *testing.T) {
	f := storage.NewLocal(storage.LocalOptions{NoSync: true})
	dir := t.TempDir()
	c := open(t, CheckpointsOptions{FS: f, Dir: dir})
	for id := int64(1); id <= 3; id++ {
		p := begin(t, c, id)
		put(t, p.FS(), p.Dir()+"/own", "own")
		complete(t, p, "own")
	}
	p := begin(t, c, 4)
	put(t, p.FS(), p.Dir()+"/own", "own")
	if err := p.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	sp, err := c.BeginSavepoint(5, dir+"/sp")
	if err != nil {
		t.Fatal(err)
	}
	put(t, sp.FS(), dir+"/sp/x", "x")
	if err := sp.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	list, err := os.ReadDir(dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"chk-3"}) {
		t.Errorf("left: %v, %v", names, err)
	}
}

// canceling is a store at whose first deletion the caller is canceled.
type canceling struct {
	storage.FS
	cancel func()
}

func (c *canceling) Delete(ctx context.Context, uris ...string) error {
	c.cancel()
	return c.FS.Delete(ctx, uris...)
}

func TestCanceled(t *testing.T) {
	f := storage.NewMemory()
	c := open(t, CheckpointsOptions{FS: f})
	p := begin(t, c, 1)
	upload(t, p, "shared/a")
	c.turn <- struct{}{} // another one is at work
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Complete(ctx, snapshotWith(1, "shared/a")); !errors.Is(err, context.Canceled) || p.Err() != nil {
		t.Errorf("without its turn: %v, %v", err, p.Err())
	}
	if _, err := c.Restore(ctx, "s3://b/x", Claim); !errors.Is(err, context.Canceled) {
		t.Errorf("without its turn: %v", err)
	}
	aborted := begin(t, c, 2)
	upload(t, aborted, "shared/b")
	if err := aborted.Abort(ctx); !errors.Is(err, context.Canceled) || !errors.Is(aborted.Err(), ErrAborted) {
		t.Errorf("aborted without its turn: %v, %v", err, aborted.Err())
	}
	<-c.turn
	wantThere(t, f, job, "shared/a shared/b")
	complete(t, p, "shared/a")
	wantThere(t, f, job, "chk-1/_metadata shared/a")
	// Once the metadata is there nothing can fail any more.
	p = begin(t, c, 3)
	upload(t, p, "shared/c")
	ctx, cancel = context.WithCancel(t.Context())
	c.fs = &canceling{f, cancel}
	if _, err := p.Complete(ctx, snapshotWith(3, "shared/c")); err != nil {
		t.Error(err)
	}
	c.fs = f
	wantThere(t, f, job, "chk-1/_metadata chk-3/_metadata shared/a shared/c")
	checkpoint(t, c, 4, "shared/c")
	wantThere(t, f, job, "chk-4/_metadata shared/c")
}

// local is a store with copies on local disk.
type local struct {
	storage.FS
	kept map[string]string
}

// Keep implements storage.Keeper.
func (l *local) Keep(_ context.Context, uri, path string) { l.kept[uri] = path }

// Locate implements storage.Locator.
func (l *local) Locate(_ context.Context, uri string) (string, bool) {
	path, ok := l.kept[uri]
	return path, ok
}

// TestLocalCopies: a store with copies on local disk is told of files that checkpoints name, also of those that are shared.
func TestLocalCopies(t *testing.T) {
	f := &local{storage.NewMemory(), map[string]string{}}
	for _, c := range []struct {
		store storage.FS
		found bool
	}{{f, true}, {storage.NewMemory(), false}} {
		p := begin(t, open(t, CheckpointsOptions{FS: c.store}), 1)
		p.FS().(storage.Keeper).Keep(t.Context(), job+"/shared/a", "/data/a")
		if path, ok := p.FS().(storage.Locator).Locate(t.Context(), job+"/shared/a"); ok != c.found || ok && path != "/data/a" {
			t.Errorf("%T: %q, %v", c.store, path, ok)
		}
	}
}
