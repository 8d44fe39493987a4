package backend

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// sharedFixtures is the directory of all snapshots by real Flink, or skips.
func sharedFixtures(t testing.TB) string {
	root, err := filepath.Abs(filepath.Join("..", "..", "shared", "fixtures"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal("the shared fixtures are missing")
		}
		t.Skip("needs the shared fixtures beside the checkout")
	}
	return root
}

// moved finds the files of a fixture where it lies now: the absolute paths in
// it name the place where it was written, as .../release/case/rest.
type moved struct {
	storage.FS
	caseDir string
}

func (m moved) Open(ctx context.Context, uri string) (storage.Object, error) {
	if bucket, ok := strings.CutPrefix(uri, "s3://"); ok {
		return m.FS.Open(ctx, storage.Join("file:"+m.caseDir, "s3", bucket))
	}
	name := filepath.Base(filepath.Dir(m.caseDir)) + "/" + filepath.Base(m.caseDir) + "/"
	if _, rest, ok := strings.Cut(uri, "/"+name); ok {
		return m.FS.Open(ctx, storage.Join("file:"+m.caseDir, rest))
	}
	return m.FS.Open(ctx, uri)
}

// fixture is a snapshot by real Flink.
type fixture struct {
	name     string // its path below the fixtures
	snapshot *metadata.Snapshot
	files    Files
}

// eachFixture visits the snapshots in the given directories of the fixtures.
func eachFixture(t testing.TB, dirs []string, visit func(fixture)) {
	t.Helper()
	root := sharedFixtures(t)
	local := storage.NewLocal(storage.LocalOptions{})
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "_metadata" || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s, err := metadata.Decode(data)
			if err != nil {
				if !strings.HasPrefix(name, "public") {
					t.Errorf("%s: %v", name, err)
				}
				return nil
			}
			caseDir := root
			for _, part := range strings.SplitN(filepath.ToSlash(name), "/", 4)[:3] {
				caseDir = filepath.Join(caseDir, part)
			}
			visit(fixture{filepath.ToSlash(name), s, Files{FS: moved{local, caseDir}, Dir: "file:" + filepath.Dir(path)}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// keyedHandle is a handle of keyed state with what is needed to read it.
type keyedHandle struct {
	handle metadata.Keyed
	o      Options
	label  string
}

// keyed gives all handles of keyed state of a snapshot.
func (f fixture) keyed() (all []keyedHandle) {
	for _, op := range f.snapshot.Operators {
		for _, sub := range op.Subtasks {
			if sub.State == nil {
				continue
			}
			for raw, h := range []metadata.Keyed{sub.State.ManagedKeyed, sub.State.RawKeyed} {
				if h != nil {
					all = append(all, keyedHandle{h, Options{MaxParallelism: int(op.MaxParallelism), Raw: raw == 1}, fmt.Sprintf("%s: operator %s, subtask %d", f.name, op.ID, sub.Index)})
				}
			}
		}
	}
	return all
}

// operatorHandle is a handle of operator state.
type operatorHandle struct {
	handle *metadata.OperatorState
	o      Options
	label  string
}

// operator gives all handles of operator state of a snapshot.
func (f fixture) operator() (all []operatorHandle) {
	for _, op := range f.snapshot.Operators {
		for _, sub := range op.Subtasks {
			if sub.State == nil {
				continue
			}
			for raw, list := range [][]*metadata.OperatorState{sub.State.ManagedOperator, sub.State.RawOperator} {
				for _, h := range list {
					if h != nil {
						all = append(all, operatorHandle{h, Options{Raw: raw == 1}, fmt.Sprintf("%s: operator %s, subtask %d", f.name, op.ID, sub.Index)})
					}
				}
			}
		}
	}
	return all
}
