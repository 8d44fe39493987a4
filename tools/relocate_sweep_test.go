package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
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

// oddNames is a directory name with everything that a careless program decodes, encodes or cuts.
const oddNames = "Team Log a%20b a+b ü 日本 😀 x?y#z {1}[2]"

// unrelocatable says why a fixture can't be relocated, or "". Only files are
// missing there that Flink did not leave, or that did not come with the fixture.
func unrelocatable(path string) string {
	for part, why := range map[string]string{
		"/public/":                  "Flink ships these for tests of decoding, some without their state files",
		"/ck-rocksdb-claim-native/": "FLINK-39964: Flink wrote handles that dangle",
		"/rocksdb/":                 "tables only",
	} {
		if strings.Contains(path, part) {
			return why
		}
	}
	return ""
}

// TestRelocateFixtures relocates every snapshot that real Flink wrote to a
// directory with an awkward name and looks whether everything is there and the
// source as it was.
func TestRelocateFixtures(t *testing.T) {
	root := sharedFixtures(t)
	ctx := context.Background()
	// The buckets that some snapshots were written to belong to somebody else by now.
	denied := storagetest.NewFaulty(storage.NewMemory(), storagetest.FaultOptions{Inject: func(storagetest.Step) *storagetest.Fault {
		return &storagetest.Fault{Err: fs.ErrPermission}
	}})
	fsys := storage.Mux{"file": storage.NewLocal(storage.LocalOptions{NoSync: true}), "s3": denied}
	before := stamp(t, root)
	out := t.TempDir()
	seen, n, skipped := 0, 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != MetadataName || d.IsDir() {
			return err
		}
		if seen++; seen%sweepStep != 0 {
			return nil
		}
		dst := "file:" + filepath.Join(out, oddNames)
		defer os.RemoveAll(filepath.Join(out, oddNames))
		plan, err := PlanRelocate(ctx, fsys, "file:"+path, dst, RelocateOptions{})
		if err != nil {
			var problems *ProblemsError
			if unrelocatable(path) != "" && (errors.As(err, &problems) || errors.Is(err, metadata.ErrVersion)) {
				skipped++
				return nil
			}
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if err := plan.Execute(ctx); err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		n++
		checkComplete(t, fsys, dst)
		if v, err := Verify(ctx, fsys, []string{dst}, VerifyOptions{}); err != nil || v.Snapshots[0].Verdict != VerdictIntact {
			t.Errorf("%s: verify says %+v, %v", path, v, err)
		}
		again, err := PlanRelocate(ctx, fsys, "file:"+path, dst, RelocateOptions{})
		if err != nil || !again.Done {
			t.Errorf("%s: running again: done %v, %v", path, again != nil && again.Done, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := stamp(t, root); !maps.Equal(before, after) {
		t.Error("the fixtures were changed")
	}
	t.Logf("%d snapshots relocated, %d whose files are not there refused", n, skipped)
	if n+skipped < 1142/sweepStep || skipped > 6 {
		t.Errorf("%d relocated, %d refused", n, skipped)
	}
}

// stamp is size and time of every file below root.
func stamp(t *testing.T, root string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			m[path] = fmt.Sprint(info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkComplete fails unless everything that the snapshot in dir names is
// below dir and has the right size.
func checkComplete(t *testing.T, fsys storage.FS, dir string) {
	t.Helper()
	ctx := context.Background()
	s, err := Open(ctx, fsys, dir)
	if err != nil {
		t.Error(err)
		return
	}
	for ref := range s.Refs() {
		uri := actual(s.Dir, ref)
		if _, ok := storage.Rel(dir, uri); !ok {
			t.Errorf("%s: %s is not below the target", ref.Field(), uri)
		}
		if ref.Kind == metadata.RefDirectory {
			continue
		}
		info, err := fsys.Stat(ctx, uri)
		if err != nil {
			t.Errorf("%s: %v", ref.Field(), err)
			continue
		}
		switch {
		case ref.Part == metadata.PartChange:
		case ref.Kind == metadata.RefSegment:
			if info.Size < ref.Start+ref.Size {
				t.Errorf("%s: segment ends at %d of %d", ref.Field(), ref.Start+ref.Size, info.Size)
			}
		case info.Size != ref.Size:
			t.Errorf("%s: %d bytes instead of %d", ref.Field(), info.Size, ref.Size)
		}
	}
}
