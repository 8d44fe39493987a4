package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// life is a job with [incremental.Checkpoints] on a store that fails: it claims a checkpoint of a job that has ended, checkpoints
// complete in and out of order, are aborted, and savepoints are taken.
type life struct {
	t     *testing.T
	w     *gcWorld
	fsys  storage.FS
	c     *incremental.Checkpoints
	base  []string // shared files of the newest checkpoint
	newer int64    // number of the newest that completed
	kept  []string // savepoints that completed
}

const (
	savepointLife    = "s3://b/sp/savepoint-012345-cccccccccccc"
	savepointAborted = "s3://b/sp/savepoint-012345-dddddddddddd"
)

func newLife(t *testing.T) *life {
	w := newGCWorld(t)
	var shared []string
	for _, n := range []int{1, 2} {
		uri := storage.Join(gcRoot, jobB, "shared", uuid(n))
		put(t, w.fsys, uri, 7)
		shared = append(shared, uri)
	}
	w.checkpoint(jobB, 9, shared, 3)
	time.Sleep(10 * day)
	return &life{t: t, w: w, base: shared}
}

// twice tries again once, as a job does after a failure.
func twice(do func() error) error {
	err := do()
	if err != nil {
		err = do()
	}
	return err
}

// open opens the checkpoints, as a process that starts, which knows what was claimed before.
func (l *life) open(fsys storage.FS, claimed ...string) error {
	l.fsys = fsys
	return twice(func() (err error) {
		l.c, err = incremental.OpenCheckpoints(l.t.Context(), incremental.CheckpointsOptions{
			FS: fsys, Dir: storage.Join(gcRoot, jobA), Claimed: claimed,
		})
		return err
	})
}

// upload writes files of a checkpoint: shared ones from 100 on.
func (l *life) upload(p *incremental.Pending, ns ...int) error {
	for _, n := range ns {
		dir := p.Dir()
		if n >= 100 {
			dir = p.SharedDir()
		}
		time.Sleep(time.Second)
		if err := storage.WriteFile(l.t.Context(), p.FS(), storage.Join(dir, uuid(n)), []byte("1234567"), storage.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// finish completes a checkpoint of base and what was uploaded, or aborts it if something failed.
func (l *life) finish(p *incremental.Pending, err error, base []string, ns ...int) {
	if err != nil {
		_ = p.Abort(l.t.Context()) // what it can't delete is deleted later
		return
	}
	h := incrementalHandle(&metadata.ByteStream{Name: "m", Data: []byte{1}}, nil, nil)
	shared := slices.Clone(base)
	for _, n := range ns {
		if n >= 100 && p.SharedDir() != p.Dir() {
			shared = append(shared, storage.Join(p.SharedDir(), uuid(n)))
		} else {
			h.Private = append(h.Private, metadata.LocalFile{LocalName: "MANIFEST-000001", Stream: &metadata.RelativeFile{Path: metadata.Text(uuid(n)), Size: 7}})
		}
	}
	for _, uri := range shared {
		h.Shared = append(h.Shared, metadata.LocalFile{LocalName: "000001.sst", Stream: file(l.t, uri, 7)})
	}
	kind := metadata.KindCheckpoint
	if p.SharedDir() == p.Dir() {
		kind = metadata.KindNativeSavepoint
	}
	done, err := p.Complete(l.t.Context(), &metadata.Snapshot{
		Version: metadata.Version4, CheckpointID: p.ID(), Properties: metadata.PropertiesOf(kind),
		Operators: []metadata.Operator{operator("op", &metadata.SubtaskState{ManagedKeyed: h})},
	})
	switch {
	case err != nil:
	case kind == metadata.KindNativeSavepoint:
		l.kept = append(l.kept, done.URI)
	default:
		l.base, l.newer = shared, done.ID
	}
}

func (l *life) begin(id int64) *incremental.Pending {
	p, err := l.c.Begin(id)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *life) beginSavepoint(id int64, dir string) *incremental.Pending {
	p, err := l.c.BeginSavepoint(id, dir)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// run is the life from its beginning; faults are everything's but the world's.
func (l *life) run(fsys storage.FS) {
	ctx := l.t.Context()
	if l.open(fsys, chkDir(jobB, 9)) != nil || twice(func() error { _, err := l.c.Restore(ctx, chkDir(jobB, 9), incremental.Claim); return err }) != nil {
		return
	}
	p := l.begin(10)
	l.finish(p, l.upload(p, 100, 101, 12), l.base[1:], 100, 101, 12)
	time.Sleep(time.Minute)
	older, newer := l.begin(11), l.begin(12)
	_ = l.upload(older, 102, 13)
	l.finish(newer, l.upload(newer, 103), l.base[:len(l.base)-1], 103)
	time.Sleep(time.Minute)
	if newer.Err() != nil && !errors.Is(newer.Err(), incremental.ErrCompleted) {
		l.finish(older, nil, nil, 102, 13) // which may be without its files
	}
	p = l.begin(13)
	l.finish(p, errors.Join(l.upload(p, 104, 14), errors.New("a subtask failed")), nil)
	p = l.beginSavepoint(14, savepointLife)
	l.finish(p, l.upload(p, 15, 16), nil, 15, 16)
	p = l.beginSavepoint(15, savepointAborted)
	l.finish(p, errors.Join(l.upload(p, 17), errors.New("canceled")), nil)
	time.Sleep(time.Minute)
	p = l.begin(16)
	l.finish(p, l.upload(p, 105, 18), l.base[len(l.base)-1:], 105, 18)
	_ = twice(func() error { return l.c.Close(ctx) })
}

// named are the files that the snapshots there name, with their metadata; all must be there.
func (l *life) named(what string) []string {
	l.t.Helper()
	files := l.w.files()
	var named []string
	for _, uri := range files {
		if storage.Base(uri) != MetadataName {
			continue
		}
		named = append(named, uri)
		data, err := storage.ReadAll(l.t.Context(), l.w.fsys, uri, 0)
		if err != nil {
			l.t.Fatal(err)
		}
		s, err := metadata.Decode(data)
		if err != nil {
			l.t.Fatal(err)
		}
		for ref := range s.Refs() {
			path := ref.Path
			if ref.Kind == metadata.RefRelative {
				path = storage.Join(storage.Dir(uri), path)
			}
			named = append(named, path)
			if !slices.Contains(files, path) {
				l.t.Errorf("%s: %s misses %s", what, uri, path)
			}
		}
	}
	if l.newer > 0 && !slices.Contains(named, storage.Join(chkDir(jobA, l.newer), MetadataName)) {
		l.t.Errorf("%s: checkpoint %d is lost", what, l.newer)
	}
	for _, uri := range l.kept {
		if !slices.Contains(named, uri) {
			l.t.Errorf("%s: savepoint %s is lost", what, uri)
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// TestCheckpointsFaults lets each step of a job's checkpoints fail, before and after its work. No completed checkpoint loses
// a file, and in the end nothing is there that no snapshot names.
func TestCheckpointsFaults(t *testing.T) {
	steps := lifeSteps(t)
	broken := errors.New("broken")
	for name, done := range map[string]bool{"before": false, "after": true} {
		bubble(t, name, func(t *testing.T) {
			for n := 1; n <= steps; n++ {
				l := newLife(t)
				var at storagetest.Step
				l.run(storagetest.NewFaulty(l.w.fsys, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
					if s.N != n {
						return nil
					}
					at = s
					return &storagetest.Fault{Err: broken, Done: done}
				}}))
				if files, named := l.w.files(), l.named(name); !slices.Equal(files, named) {
					t.Errorf("%s step %d, %s of %s: there is\n%s\nnamed are\n%s", name, n, at.Op, at.URI, strings.Join(files, "\n"), strings.Join(named, "\n"))
				}
				if l.newer < 12 {
					t.Errorf("%s step %d, %s of %s: the newest checkpoint is %d", name, n, at.Op, at.URI, l.newer)
				}
			}
		})
	}
}

// lifeSteps is the number of steps of a life without faults.
func lifeSteps(t *testing.T) (steps int) {
	bubble(t, "without", func(t *testing.T) {
		l := newLife(t)
		f := storagetest.NewFaulty(l.w.fsys, storagetest.FaultOptions{})
		l.run(f)
		steps = f.Steps()
		want := []string{
			chkDir(jobA, 16) + "/_metadata", chkDir(jobA, 16) + "/" + uuid(18),
			storage.Join(gcRoot, jobA, "shared", uuid(103)), storage.Join(gcRoot, jobA, "shared", uuid(105)),
			savepointLife + "/_metadata", savepointLife + "/" + uuid(15), savepointLife + "/" + uuid(16),
		}
		slices.Sort(want)
		if files := l.w.files(); !slices.Equal(files, want) || l.newer != 16 {
			t.Fatalf("there is\n%s\nwant\n%s", strings.Join(files, "\n"), strings.Join(want, "\n"))
		}
	})
	if steps < 80 {
		t.Fatalf("only %d steps", steps)
	}
	return steps
}

// TestCheckpointsCrash lets a job die at each step. What had completed is there with all its files, the next process goes
// on from it, and then garbage collection names all that no snapshot uses, and nothing else.
func TestCheckpointsCrash(t *testing.T) {
	steps := lifeSteps(t)
	litter := 0
	bubble(t, "crash", func(t *testing.T) {
		for n := 1; n < steps; n++ {
			l := newLife(t)
			l.run(storagetest.NewFaulty(l.w.fsys, storagetest.FaultOptions{CrashAfter: n}))
			l.named("after the crash")
			time.Sleep(10 * day)
			if err := l.open(l.w.fsys, chkDir(jobB, 9)); err != nil {
				t.Fatalf("step %d: %v", n, err)
			}
			latest, ok := l.c.Latest()
			if !ok || latest.ID < l.newer {
				t.Errorf("step %d: latest %+v, want %d", n, latest, l.newer)
			}
			p := l.begin(l.c.NextID())
			l.finish(p, l.upload(p, 999), nil, 999)
			if l.newer != p.ID() {
				t.Fatalf("step %d: %v", n, p.Err())
			}
			if err := l.c.Close(context.Background()); err != nil {
				t.Errorf("step %d: %v", n, err)
			}
			time.Sleep(10 * day)
			named := l.named("after the next checkpoint")
			var unused []string
			o := GCOptions{KeepSavepoints: 9}
			for _, uri := range l.w.files() {
				if !slices.Contains(named, uri) {
					unused = append(unused, uri)
					if _, ok := storage.Rel(storage.Join(gcRoot, jobB), uri); ok {
						o.Retire = []string{storage.Join(gcRoot, jobB)} // as nobody would say otherwise that it has ended
					}
				}
			}
			if got := planned(t, l.w.plan(o, "s3://b")); !slices.Equal(got, unused) {
				t.Errorf("step %d: to delete:\n%s\nunused:\n%s", n, strings.Join(got, "\n"), strings.Join(unused, "\n"))
			}
			litter += len(unused)
		}
	})
	if litter == 0 {
		t.Error("no crash left anything")
	}
	t.Logf("%d crashes left %d files", steps-1, litter)
}

// TestClaimModes: references alone tell whether the job that a snapshot is from may go (D16, D18).
func TestClaimModes(t *testing.T) {
	for mode := incremental.NoClaim; mode <= incremental.Legacy; mode++ {
		bubble(t, mode.String(), func(t *testing.T) {
			l := newLife(t)
			if err := l.open(l.w.fsys); err != nil {
				t.Fatal(err)
			}
			if _, err := l.c.Restore(t.Context(), chkDir(jobB, 9), mode); err != nil {
				t.Fatal(err)
			}
			base := l.base[1:]
			if l.c.NextFull() {
				base = nil
			}
			for _, id := range []int64{10, 11} {
				p := l.begin(id)
				n := int(id) * 10
				l.finish(p, l.upload(p, n, n+100), base, n, n+100)
				if l.newer != id {
					t.Fatal(p.Err())
				}
				base = l.base
			}
			if mode != incremental.Claim { // or it is gone
				r, err := Audit(t.Context(), l.w.fsys, []string{gcRoot}, AuditOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if n, err := r.NeededBy(chkDir(jobB, 9)); err != nil || n.Free() != (mode == incremental.NoClaim) || !n.Metadata || n.Files.Files != 4 {
					t.Errorf("needed: %+v, %v", n, err)
				}
			}
			time.Sleep(10 * day)
			p := l.w.plan(GCOptions{Retire: []string{storage.Join(gcRoot, jobB)}})
			if mode != incremental.NoClaim {
				wantRefusal(t, p, chkDir(jobA, 11)+" uses 1 files of it")
				return
			}
			if got := planned(t, p); len(got) != 4 {
				t.Errorf("to delete: %q", got)
			}
		})
	}
}
