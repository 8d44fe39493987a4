package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
)

// TestVerifyDeepFixtures finds no damage in what real Flink wrote.
func TestVerifyDeepFixtures(t *testing.T) {
	root := sharedFixtures(t)
	snapshots, entries, checked := 0, int64(0), int64(0)
	unchecked := map[string]int64{}
	missing := 0 // what CLAIM restores of Flink left dangling
	for _, pattern := range []string{"flink/*/*/truth.json", "sql/*/*/truth.json", "extra/*/*/truth.json", "old/*/*/truth.json"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			if i%sweepStep != 0 {
				continue
			}
			dir := filepath.Dir(file)
			var truth struct {
				WrittenAt string `json:"writtenAt"`
			}
			readTruth(t, file, &truth)
			fsys := newFixtureFS(dir, truth.WrittenAt)
			err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.Name() != MetadataName {
					return err
				}
				s, err := Open(t.Context(), fsys, "file:"+filepath.ToSlash(path))
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return nil
				}
				d, err := VerifyDeep(t.Context(), fsys, s, 2, nil)
				if err != nil {
					return err
				}
				snapshots++
				entries += d.Entries
				checked += d.KeysChecked
				for k, n := range d.KeysUnchecked {
					unchecked[k] += n
				}
				for _, p := range d.Damage {
					if errors.Is(p, fs.ErrNotExist) {
						missing++
						continue
					}
					t.Errorf("%s: %v", path, p)
				}
				for _, p := range d.Unread {
					// The fixtures' own class, of which Flink knows no more.
					if !strings.Contains(p.Text, `class "lab.Extra$Chaos`) {
						t.Errorf("%s: %v", path, p)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d snapshots, %d entries, %d keys in their key group; %d problems of missing files; keys not checked: %v", snapshots, entries, checked, missing, unchecked)
	if snapshots < 500/sweepStep || checked < 100_000/sweepStep {
		t.Error("too few")
	}
}

// TestVerifyDeepMemory: millions of problems don't make a report of millions.
// The keys of the generated state are not in the key groups that they hash to.
func TestVerifyDeepMemory(t *testing.T) {
	fsys := newGeneratedFS()
	_, s := fsys.add(t, "file:/a", 500, -1)
	d, err := VerifyDeep(t.Context(), fsys, s, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Damage) != 2 || d.Entries != 2*500*generatedGroups {
		t.Fatalf("%d problems, %d entries", len(d.Damage), d.Entries)
	}
	for _, p := range d.Damage {
		// Of 128 numbers about one is in its key group.
		if n := int64(p.Times); n < 490*generatedGroups || p.State == "" {
			t.Errorf("got %+v", p)
		}
	}
	if d.KeysChecked+int64(d.Damage[0].Times+d.Damage[1].Times) != d.Entries {
		t.Errorf("%d keys checked", d.KeysChecked)
	}
}

func TestProblemListIsBounded(t *testing.T) {
	u := &unit{op: new(metadata.Operator)}
	var l problemList
	for i := range 5000 {
		l.add(u, newProblem(u, "", fmt.Errorf("offset %d", i)))
	}
	if len(l.list) != mostDistinct+1 || l.list[mostDistinct].Times != 5000-mostDistinct {
		t.Errorf("%d problems", len(l.list))
	}
}
