package rewrite

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestExecuteDirectory writes into a directory that isn't there, and not into one with a snapshot.
func TestExecuteDirectory(t *testing.T) {
	id := metadata.UIDHash("op")
	s := &metadata.Snapshot{Version: metadata.Version4, CheckpointID: 3, Operators: []metadata.Operator{{ID: id, Parallelism: 2, MaxParallelism: 128}}}
	p, err := NewPlan(t.Context(), Source{Metadata: s}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	target := backend.Target{FS: storage.NewLocal(storage.LocalOptions{}), Dir: filepath.ToSlash(filepath.Join(t.TempDir(), "new", "savepoint"))}
	if _, err := p.Execute(t.Context(), target, nil); err != nil {
		t.Fatal(err)
	}
	if got := readBack(t, target).Metadata; got.CheckpointID != 3 || len(got.Operators) != 1 || got.Operators[0].ID != id {
		t.Errorf("%+v was written", got)
	}
	if _, err := p.Execute(t.Context(), target, nil); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("into a directory with a snapshot: %v", err)
	}
}

// TestOlderRocksDB writes tables of Flink 2 anew for Flink 1, whose RocksDB opens the files and fails at the first block that it reads.
func TestOlderRocksDB(t *testing.T) {
	seen := 0
	eachFixture(t, []string{"flink/2.3.0/sp-native-rocksdb-files"}, func(f fixture) {
		for version, want := range map[metadata.Version]Work{metadata.Version4: Rewritten, metadata.Version5: Copied, metadata.Version6: Copied} {
			p, err := NewPlan(t.Context(), f.src, Options{Version: version, Format: NativeRocksDB})
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range p.Operators {
				if slices.Contains(op.From, "rocksdb") {
					if seen++; op.Work != want {
						t.Errorf("metadata of version %d: %s is %s, not %s", version, Label(op.Source), op.Work, want)
					}
				}
			}
		}
	})
	if seen == 0 {
		t.Error("no RocksDB in the fixture")
	}
}

// TestRenamedInOldMetadata gives an operator another uid in metadata that has no uids, only their hashes.
func TestRenamedInOldMetadata(t *testing.T) {
	s := &metadata.Snapshot{Version: metadata.Version4, Operators: []metadata.Operator{{ID: metadata.UIDHash("old"), Parallelism: 1, MaxParallelism: 128}}}
	id := metadata.UIDHash("new")
	for version, uid := range map[metadata.Version]metadata.Text{metadata.Version4: "", metadata.Version6: "new"} {
		p, err := NewPlan(t.Context(), Source{Metadata: s}, Options{Version: version, Transform: func(*metadata.Operator) (*Transform, error) {
			return &Transform{ID: &id, UID: "new"}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rewritten(t, p)
		if err != nil {
			t.Fatal(err)
		}
		if op := got.Metadata.Operators[0]; op.ID != id || op.UID != uid {
			t.Errorf("version %d: %s, uid %q", version, op.ID, op.UID)
		}
	}
}

// blindFS lists nothing, as a run sees the target that began when another one had not written yet.
type blindFS struct{ storage.FS }

func (blindFS) ReadDir(context.Context, string) iter.Seq2[storage.Info, error] {
	return func(func(storage.Info, error) bool) {}
}

// TestTwoRuns into one directory: the one that comes later fails, and leaves what the other one wrote.
func TestTwoRuns(t *testing.T) {
	p := planOf(t, small(t, "1.20.5/sp-canonical-hashmap-files"), Options{Format: NativeHeap})
	memory := storage.NewMemory()
	target := backend.Target{FS: memory, Dir: "mem://b/new", InlineBelow: -1}
	if _, err := p.Execute(t.Context(), target, nil); err != nil {
		t.Fatal(err)
	}
	want, err := contentOf(t.Context(), readBack(t, target))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Execute(t.Context(), backend.Target{FS: blindFS{memory}, Dir: target.Dir, InlineBelow: -1}, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second run: %v", err)
	}
	got, err := contentOf(t.Context(), readBack(t, target))
	if err != nil || !slices.Equal(want, got) {
		t.Errorf("%d lines became %d, %v", len(want), len(got), err)
	}
}

// TestOtherSize refuses to copy a file that has another size than the metadata says.
func TestOtherSize(t *testing.T) {
	src := small(t, "1.20.5/sp-native-rocksdb-files")
	p := planOf(t, src, Options{})
	p.src.Files.FS = &cutFS{FS: src.Files.FS}
	memory := storage.NewMemory()
	if _, err := p.Execute(t.Context(), backend.Target{FS: memory, Dir: "mem://b/new"}, nil); !errors.Is(err, serializer.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	for info := range memory.List(t.Context(), "mem://b") {
		t.Errorf("%s was left behind", info.URI)
	}
}
