package rewrite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// small gives a snapshot of real Flink that is kept with the tests of the command.
func small(t testing.TB, name string) Source {
	t.Helper()
	caseDir, err := filepath.Abs(filepath.Join("..", "tools", "drey", "testdata", "snapshots", name))
	if err != nil {
		t.Fatal(err)
	}
	var found string
	for _, pattern := range []string{"savepoint-*", "savepoints/savepoint-*", "ckpt/*/chk-*"} {
		if list, err := filepath.Glob(filepath.Join(caseDir, pattern)); err == nil && len(list) > 0 {
			found = list[len(list)-1]
		}
	}
	data, err := os.ReadFile(filepath.Join(found, metadata.FileName))
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return Source{backend.Files{FS: moved{storage.NewLocal(storage.LocalOptions{}), caseDir}, Dir: "file:" + found}, s}
}

func planOf(t testing.TB, src Source, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range p.Problems {
		t.Fatal(pr)
	}
	return p
}

// faultyPlan has entries that are read, sorted with temporary files and copied, all in files.
func faultyPlan(t testing.TB) *Plan {
	return planOf(t, small(t, "1.20.5/sp-native-rocksdb-files"), Options{Format: NativeRocksDB, Parallelism: 3, Memory: 2 << 10, Jobs: 2})
}

// TestFaults fails each step of the writing in turn, before and after it did its work: then nothing is there.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	p := faultyPlan(t)
	for _, done := range []bool{false, true} {
		for n := 1; ; n += 1 + n/20 {
			memory := storage.NewMemory()
			hit, op := false, ""
			faulty := storagetest.NewFaulty(memory, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.N != n {
					return nil
				}
				hit, op = true, s.Op+" "+s.URI
				return &storagetest.Fault{Err: broken, Done: done}
			}})
			_, err := p.Execute(t.Context(), backend.Target{FS: faulty, Dir: "mem://b/new", InlineBelow: -1}, nil)
			if !hit {
				if err != nil {
					t.Fatal(err)
				}
				if n < 100 {
					t.Errorf("only %d steps", n)
				}
				break
			}
			if err == nil {
				t.Fatalf("step %d, %s: no error", n, op)
			}
			for info, err := range memory.List(t.Context(), "mem://b") {
				t.Fatalf("step %d, %s: %s was left behind, %v", n, op, info.URI, err)
			}
		}
	}
}

// TestCrash stops at each step for good: what is there then is no snapshot, or the whole.
func TestCrash(t *testing.T) {
	p := faultyPlan(t)
	want, err := contentOf(t.Context(), p.src)
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for n := 1; ; n += 1 + n/20 {
		memory := storage.NewMemory()
		faulty := storagetest.NewFaulty(memory, storagetest.FaultOptions{CrashAfter: n})
		target := backend.Target{FS: faulty, Dir: "mem://b/new", InlineBelow: -1}
		_, err := p.Execute(t.Context(), target, nil)
		_, stat := memory.Stat(t.Context(), "mem://b/new/"+metadata.FileName)
		if stat == nil {
			whole++
			target.FS = memory
			has, err := contentOf(t.Context(), readBack(t, target))
			if err != nil || !slices.Equal(want, has) {
				t.Fatalf("step %d: there is metadata without all its state: %v", n, err)
			}
		}
		if !faulty.Crashed() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if stat != nil && n%10 == 0 {
			// Where there is no snapshot, a new run says what is in the way.
			target.FS = memory
			if _, err := p.Execute(t.Context(), target, nil); err != nil && !errors.Is(err, ErrNotEmpty) {
				t.Fatalf("step %d: run again: %v", n, err)
			}
		}
	}
	if whole == 0 {
		t.Error("it was never written")
	}
}

// TestTruncatedSource ends with an error, and leaves nothing, if files of the state lack a byte.
func TestTruncatedSource(t *testing.T) {
	src := small(t, "1.20.5/sp-canonical-hashmap-files")
	p := planOf(t, src, Options{Format: NativeHeap})
	src.Files.FS = &cutFS{FS: src.Files.FS}
	p.src = src
	memory := storage.NewMemory()
	_, err := p.Execute(t.Context(), backend.Target{FS: memory, Dir: "mem://b/new"}, nil)
	if err == nil {
		t.Error("no error")
	}
	for info := range memory.List(t.Context(), "mem://b") {
		t.Errorf("%s was left behind", info.URI)
	}
}
