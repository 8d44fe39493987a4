package rewrite

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
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

// moved finds the files of a fixture where it lies now: the absolute paths in it name the place where it was written, as .../release/case/rest.
type moved struct {
	storage.FS
	caseDir string
}

func (m moved) Open(ctx context.Context, uri string) (storage.Object, error) {
	if _, bucket, ok := strings.Cut(uri, "://"); ok && strings.HasPrefix(uri, "s3") {
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
	name string // its path below the fixtures
	src  Source
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
				return nil // of no version that is read; package metadata has tests of that
			}
			caseDir := root
			for _, part := range strings.SplitN(filepath.ToSlash(name), "/", 4)[:3] {
				caseDir = filepath.Join(caseDir, part)
			}
			visit(fixture{filepath.ToSlash(name), Source{backend.Files{FS: moved{local, caseDir}, Dir: "file:" + filepath.Dir(path)}, s}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// contentOf gives all that a snapshot holds, as sorted lines. Whose key groups says is left out of them, the layout is, too. The error is the first of reading.
func contentOf(ctx context.Context, src Source) (lines []string, err error) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for i := range src.Metadata.Operators {
		op := &src.Metadata.Operators[i]
		broadcast := map[string]bool{}
		if op.Coordinator != nil {
			data, err := src.Files.ReadAll(ctx, op.Coordinator, 0)
			if err != nil {
				return nil, err
			}
			add("%s coordinator %x", op.ID, data)
		}
		for _, sub := range op.Subtasks {
			if sub.State == nil {
				add("%s subtask %d finished", op.ID, sub.Index)
				continue
			}
			for raw, k := range []metadata.Keyed{sub.State.ManagedKeyed, sub.State.RawKeyed} {
				if k == nil {
					continue
				}
				r, err := backend.OpenKeyed(ctx, src.Files, k, backend.Options{MaxParallelism: int(op.MaxParallelism), Raw: raw == 1})
				if err != nil {
					return nil, err
				}
				defer func() { _ = r.Close() }()
				if r.HeaderErr() != nil {
					return nil, r.HeaderErr()
				}
				rawBytes := map[int]string{}
				for e, err := range r.Entries(ctx, backend.Filter{}) {
					if err != nil {
						return nil, err
					}
					if r.Format() == "raw" {
						rawBytes[e.KeyGroup] += fmt.Sprintf("%x", e.Value)
						continue
					}
					add("%s %s %s kg%d k%x n%x u%x v%x %t %d", op.ID, e.State.Meta.Name, e.State.Type, e.KeyGroup, e.Key, e.Namespace, e.UserKey, e.Value, e.Null, e.Timestamp)
				}
				for g, b := range rawBytes {
					add("%s raw keyed %d %s", op.ID, g, b)
				}
			}
			for raw, list := range [][]*metadata.OperatorState{sub.State.ManagedOperator, sub.State.RawOperator} {
				for _, h := range list {
					if h == nil {
						continue
					}
					r, err := backend.OpenOperator(ctx, src.Files, h, backend.Options{Raw: raw == 1})
					if err != nil {
						return nil, err
					}
					defer func() { _ = r.Close() }()
					for e, err := range r.Entries(ctx, nil) {
						if err != nil {
							return nil, err
						}
						line := fmt.Sprintf("%s operator state %s %s k%x v%x", op.ID, e.State.Name, e.State.Mode, e.Key, e.Value)
						if e.State.Mode == metadata.ModeBroadcast && broadcast[line] {
							continue // all subtasks have the same
						}
						broadcast[line] = true
						lines = append(lines, line)
					}
				}
			}
			for _, c := range append(slices.Clone(sub.State.InputChannels), sub.State.OutputChannels...) {
				data, err := src.Files.ReadAll(ctx, c.Delegate, 0)
				if err != nil {
					return nil, err
				}
				add("%s subtask %d channel %d %d %v %x %x", op.ID, sub.Index, c.Group, c.Channel, c.Offsets, c.Blob, data)
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// rewritten executes a plan in memory and gives what was written.
func rewritten(t testing.TB, p *Plan) (Source, error) {
	t.Helper()
	memory := storage.NewMemory()
	target := backend.Target{FS: memory, Dir: "mem://b/new"}
	_, err := p.Execute(t.Context(), target, nil)
	if err != nil {
		for info := range memory.List(t.Context(), "mem://b") {
			t.Errorf("%s was left behind after %v", info.URI, err)
		}
		return Source{}, err
	}
	return readBack(t, target), nil
}

func readBack(t testing.TB, target backend.Target) Source {
	t.Helper()
	data, err := storage.ReadAll(t.Context(), target.FS, storage.Join(target.Dir, metadata.FileName), 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return Source{backend.Files{FS: target.FS, Dir: target.Dir}, s}
}

// cutFS gives every object of state without its last byte.
type cutFS struct{ storage.FS }

func (c *cutFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	o, err := c.FS.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	return &cutObject{o}, nil
}

type cutObject struct{ storage.Object }

func (c *cutObject) Size() int64 { return c.Object.Size() - 1 }

func (c *cutObject) ReadAt(p []byte, off int64) (int, error) {
	left := c.Size() - off
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := c.Object.ReadAt(p[:min(int64(len(p)), left)], off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}
