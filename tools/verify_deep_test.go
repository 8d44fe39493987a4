package tools

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
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
		for _, file := range files {
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
	if snapshots < 500 || checked < 100_000 {
		t.Error("too few")
	}
}
