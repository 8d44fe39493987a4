package incremental

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// TestFailedDeletion: what can't be deleted fails no checkpoint, and is deleted later.
func TestFailedDeletion(t *testing.T) {
	inner := storage.NewMemory()
	deny := ""
	denied := errors.New("no permission")
	f := storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "delete" && deny != "" && strings.Contains(s.URI, deny) {
			return &storagetest.Fault{Err: denied}
		}
		return nil
	}})
	var log bytes.Buffer
	c := open(t, CheckpointsOptions{FS: f, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	checkpoint(t, c, 1, "+shared/a", "+own")
	deny = "chk-1/_metadata"
	checkpoint(t, c, 2, "+shared/b")
	wantThere(t, inner, job, "chk-1/_metadata chk-1/own chk-2/_metadata shared/a shared/b")
	if !strings.Contains(log.String(), "no permission") || ids(c.Retained()) != "2" {
		t.Errorf("log: %s", log.String())
	}
	deny = "shared/a"
	checkpoint(t, c, 3, "shared/b")
	wantThere(t, inner, job, "chk-3/_metadata shared/a shared/b")
	p := begin(t, c, 4)
	if _, err := p.Complete(t.Context(), snapshotWith(4, "shared/a")); !errors.Is(err, ErrLost) {
		t.Errorf("it is only not deleted yet: %v", err)
	}
	p = begin(t, c, 5)
	upload(t, p, "shared/aborted")
	if err := inner.Delete(t.Context(), job+"/shared/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.FS().Create(t.Context(), job+"/shared/a", storage.CreateOptions{}); err == nil {
		t.Error("a file can be written that is to be deleted")
	}
	put(t, inner, job+"/shared/a", "a")
	deny = "shared/"
	if err := p.Abort(t.Context()); !errors.Is(err, denied) {
		t.Errorf("abort: %v", err)
	}
	if err := c.Close(t.Context()); !errors.Is(err, denied) || !strings.Contains(err.Error(), "2 of 2 files") {
		t.Errorf("close: %v", err)
	}
	deny = ""
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wantThere(t, inner, job, "chk-3/_metadata shared/b")
	if _, err := c.Begin(6); !errors.Is(err, ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
	if _, err := c.Restore(t.Context(), job+"/chk-3", Claim); !errors.Is(err, ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
}

// TestLateDeletion: what a late writer can't delete is deleted with the next checkpoint.
func TestLateDeletion(t *testing.T) {
	inner := storage.NewMemory()
	deny := true
	g := &gate{FS: storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		if s.Op == "delete" && deny {
			return &storagetest.Fault{Err: errors.New("away")}
		}
		return nil
	}}), name: "late", arrived: make(chan struct{}), passes: make(chan struct{})}
	c := open(t, CheckpointsOptions{FS: g})
	p := begin(t, c, 1)
	w, err := p.FS().Create(t.Context(), p.Dir()+"/late", storage.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- w.Commit() }()
	<-g.arrived
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err) // there is nothing to delete yet
	}
	close(g.passes)
	<-result
	wantThere(t, inner, job, "chk-1/late")
	deny = false
	checkpoint(t, c, 2)
	wantThere(t, inner, job, "chk-2/_metadata")
}

// TestDoubtfulMetadata: metadata that could not be written can be there, or another's. As long as that is not known, the files that it names stay.
func TestDoubtfulMetadata(t *testing.T) {
	const uri = job + "/chk-2/_metadata"
	for _, c := range []struct {
		name  string
		taken bool   // another process has written it
		op    string // that fails,
		err   error  // so; a commit when it has done its work
		deaf  bool   // it can't be read then
		good  bool   // the checkpoint completes
	}{
		{"the first answer was lost", false, "commit", fs.ErrExist, false, true},
		{"the first answer was lost, and no other came", false, "commit", fs.ErrExist, true, false},
		{"the answer was lost", false, "commit", errors.New("lost"), true, false},
		{"another's, and no answer comes", true, "", nil, true, false},
		{"another's, and the answer was lost", true, "create", errors.New("lost"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := storage.NewMemory()
			deaf := c.deaf
			f := storagetest.NewFaulty(inner, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				switch {
				case s.URI == uri && s.Op == c.op:
					return &storagetest.Fault{Err: c.err, Done: s.Op == "commit"}
				case s.URI == uri && s.Op == "open" && deaf:
					return &storagetest.Fault{Err: errors.New("away")}
				}
				return nil
			}})
			k := open(t, CheckpointsOptions{FS: f})
			checkpoint(t, k, 1, "+shared/a")
			p := begin(t, k, 2)
			upload(t, p, "shared/b")
			if c.taken {
				put(t, inner, uri, "another's")
			}
			_, err := p.Complete(t.Context(), snapshotWith(2, "shared/a", "shared/b"))
			if (err == nil) != c.good {
				t.Fatalf("completed: %v", err)
			}
			if c.good {
				wantThere(t, inner, job, "chk-2/_metadata shared/a shared/b")
				return
			}
			if c.deaf {
				wantThere(t, inner, job, "chk-1/_metadata chk-2/_metadata shared/a shared/b")
				checkpoint(t, k, 3, "+shared/c") // which lets 1 go, but not what 2 names
				wantThere(t, inner, job, "chk-2/_metadata chk-3/_metadata shared/a shared/b shared/c")
			}
			deaf = false
			checkpoint(t, k, 4, "+shared/d")
			if c.taken {
				wantThere(t, inner, job, "chk-2/_metadata chk-4/_metadata shared/d")
			} else {
				wantThere(t, inner, job, "chk-4/_metadata shared/d")
			}
		})
	}
}

// TestFaultsOnDisk lets each step on a local disk fail, before and after its work: in the end there is what the newest checkpoint names, and
// no directory or temporary file besides.
func TestFaultsOnDisk(t *testing.T) {
	disk := storage.NewLocal(storage.LocalOptions{NoSync: true})
	broken := errors.New("broken")
	run := func(dir string, o storagetest.FaultOptions) (steps int, newest int64, names []string) {
		f := storagetest.NewFaulty(disk, o)
		c, err := OpenCheckpoints(t.Context(), CheckpointsOptions{FS: f, Dir: dir})
		if err != nil {
			c = open(t, CheckpointsOptions{FS: f, Dir: dir})
		}
		for id := int64(1); id <= 4; id++ {
			p := begin(t, c, id)
			files := []string{fmt.Sprintf("%s/%d", p.SharedDir(), id), fmt.Sprintf("%s/own%d", p.Dir(), id)}
			err := error(nil)
			for _, uri := range files {
				err = errors.Join(err, storage.WriteFile(t.Context(), p.FS(), uri, []byte(storage.Base(uri)), storage.CreateOptions{}))
			}
			if err != nil || id == 2 {
				_ = p.Abort(t.Context()) // what it can't delete is deleted later
				continue
			}
			all := append(slices.Clone(names[:min(1, len(names))]), files...)
			if _, err := p.Complete(t.Context(), modelSnapshotOf(id, []metadata.Stream{fileOf(all[0]), fileOf(all[len(all)-2]), fileOf(all[len(all)-1])})); err == nil {
				newest, names = id, []string{all[0], all[len(all)-2], all[len(all)-1]}
			}
		}
		if c.Close(t.Context()) != nil {
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return f.Steps(), newest, names
	}
	check := func(what, dir string, newest int64, names []string) {
		want := map[string]bool{dir: true, dir + "/shared": true}
		for _, uri := range append(names, fmt.Sprintf("%s/chk-%d/_metadata", dir, newest)) {
			want[uri], want[filepath.Dir(uri)] = true, true
		}
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if !want[path] {
				t.Errorf("%s: %s is left", what, path)
			}
			delete(want, path)
			return err
		})
		if err != nil || len(want) > 0 {
			t.Errorf("%s: missing %v, %v", what, want, err)
		}
	}
	dir := t.TempDir()
	steps, newest, names := run(dir, storagetest.FaultOptions{})
	check("without faults", dir, newest, names)
	if steps < 40 || newest != 4 {
		t.Fatalf("%d steps, newest checkpoint %d", steps, newest)
	}
	for n := 1; n <= steps; n++ {
		for _, done := range []bool{false, true} {
			dir := t.TempDir()
			var at storagetest.Step
			_, newest, names := run(dir, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.N != n {
					return nil
				}
				at = s
				return &storagetest.Fault{Err: broken, Done: done}
			}})
			check(fmt.Sprintf("%s of %s, done: %v", at.Op, at.URI, done), dir, newest, names)
		}
	}
}

// fileOf is a file that is as long as its name.
func fileOf(uri string) metadata.Stream { return file(uri, int64(len(storage.Base(uri)))) }
