package tools

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// synthetic are directories of fixtures whose metadata does not describe a job that ran.
func synthetic(path string) bool { return strings.Contains(path, "/metadata-only/") }

// TestReadFixtures runs everything that only reads over every snapshot by real Flink.
func TestReadFixtures(t *testing.T) {
	root := sharedFixtures(t)
	local := storage.NewLocal(storage.LocalOptions{})
	counts := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if !d.Type().IsRegular() || !strings.HasPrefix(name, "_metadata") && !strings.HasSuffix(name, "._metadata") && !(synthetic(path) && strings.HasSuffix(name, ".bin")) {
			return nil
		}
		counts["files"]++
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		readFixture(t, local, filepath.ToSlash(abs), counts)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if counts["files"] < 200 {
		t.Errorf("only %d files", counts["files"])
	}
	t.Log(counts)
}

func readFixture(t *testing.T, local storage.FS, path string, counts map[string]int) {
	uri := "file:" + path
	r, err := Inspect(t.Context(), local, uri, InspectOptions{Top: 5})
	if errors.Is(err, metadata.ErrVersion) {
		counts["version 0"]++
		return
	}
	if err != nil {
		t.Errorf("inspect %s: %v", path, err)
		return
	}
	counts[r.Kind]++
	if _, err := json.Marshal(r); err != nil {
		t.Errorf("inspect %s: %v", path, err)
	}
	var classes int64
	for _, n := range r.Classes {
		classes += n
	}
	if classes != r.MetadataBytes {
		t.Errorf("%s: classes %v add up to %d of %d bytes", path, r.Classes, classes, r.MetadataBytes)
	}

	pr, pw := io.Pipe()
	go func() {
		_, err := DumpRaw(t.Context(), local, uri, pw, DumpOptions{InlineLimit: 16})
		pw.CloseWithError(err)
	}()
	dec := json.NewDecoder(pr)
	var tree struct {
		Operators []struct {
			ID string `json:"id"`
		} `json:"operators"`
	}
	if err := dec.Decode(&tree); err != nil || len(tree.Operators) != len(r.Operators) {
		t.Errorf("dump %s: %v, %d operators", path, err, len(tree.Operators))
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Errorf("dump %s: %v after the document", path, err)
	}

	p, err := Preflight(t.Context(), local, uri, PreflightOptions{})
	if err != nil || !p.OK && !synthetic(path) {
		t.Errorf("preflight %s: %v, %v", path, err, p)
	}
	d, err := Diff(t.Context(), local, uri, uri)
	if err != nil || d.Different {
		t.Errorf("diff %s: %v, %+v", path, err, d)
	}
	if synthetic(path) {
		return // the files that it names never were
	}
	v, err := Verify(t.Context(), storage.Mux{"file": local}, []string{uri}, VerifyOptions{})
	if err != nil {
		t.Errorf("verify %s: %v", path, err)
		return
	}
	c := &v.Snapshots[0]
	counts[c.Verdict]++
	for _, problem := range c.Problems {
		if problem.Problem == ProblemOffset {
			t.Errorf("verify %s: %+v", path, problem)
		}
	}
	for _, w := range c.Warnings {
		t.Errorf("verify %s: %s", path, w)
	}
	switch {
	case c.Moved:
		counts["moved"]++
	case c.Verdict != VerdictIntact && unrelocatable(path) == "":
		t.Errorf("verify %s: %s; %v", path, c.Verdict, c.Advice)
	case c.Verdict != VerdictIntact:
		counts["lacking files"]++
	}
}
