package metadata

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fixtures lists every _metadata file of the shared fixtures, or skips.
func fixtures(t testing.TB) []string {
	root := filepath.Join("..", "..", "shared", "fixtures")
	if _, err := os.Stat(root); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal("the shared fixtures are missing")
		}
		t.Skip("needs the shared fixtures beside the checkout")
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.Type().IsRegular() && (strings.HasPrefix(name, "_metadata") || strings.HasSuffix(name, "._metadata")) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fixtureCase is what truth.json says about a case of the fixtures.
type fixtureCase struct {
	dir       string
	WrittenAt string
	// Kind is "chk" or "sp", of the cases by old Flink only.
	Kind      string
	Snapshots []struct {
		Dir, Path string // relative to the case
		Command   string
		URI       string // of a snapshot on S3
	}
}

var cases sync.Map // directory to *fixtureCase

// caseOf finds the case of a fixture, which has no dir for public and synthetic files.
func caseOf(file string) *fixtureCase {
	parts := strings.Split(filepath.ToSlash(file), "/fixtures/")
	rel := strings.Split(parts[len(parts)-1], "/")
	if len(parts) < 2 || len(rel) < 4 {
		return &fixtureCase{}
	}
	dir := filepath.Join(parts[0], "fixtures", rel[0], rel[1], rel[2])
	if c, ok := cases.Load(dir); ok {
		return c.(*fixtureCase)
	}
	c := &fixtureCase{}
	if data, err := os.ReadFile(filepath.Join(dir, "truth.json")); err == nil {
		if err := json.Unmarshal(data, c); err == nil {
			c.dir = dir
			c.WrittenAt = strings.TrimPrefix(c.WrittenAt, "file://")
		}
	}
	cases.Store(dir, c)
	return c
}

// testdata lists the checked-in files, of which testdata/README.md tells the origin.
func testdata(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*/*._metadata")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files in testdata", len(files))
	}
	return files
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t testing.TB, file string) (*Snapshot, []byte) {
	t.Helper()
	data := read(t, file)
	s, err := Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s, data
}
