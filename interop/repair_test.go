package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepair takes checkpoints that Flink itself cannot restore, as it wrote relative handles of files
// that lie in the savepoint which the job claimed (FLINK-39964), at a place where their absolute
// paths are out of date too, and half copies of the savepoint: after the repair Flink restores them all.
func TestRepair(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			testRepair(t, v)
		})
	}
}

func testRepair(t *testing.T, v flink) {
	const name = "ck-rocksdb-claim-native"
	from := filepath.Join("..", "..", "shared", "fixtures", "extra", string(v), name)
	dir := t.TempDir()
	all := snapshots(t, filepath.Dir(from), filepath.Join(dir, "truth"))
	var lines [][]string
	var broken []string
	var done []relocation
	fresh := func(how string) string {
		to := filepath.Join(dir, how, name)
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	add := func(s snapshot, how, at string, args ...string) {
		drey(t, nil, "verify", "--deep", at)
		done = append(done, relocation{s, how, at, args})
		lines = append(lines, append([]string{at, s.Truth, "--entry", s.Dir}, args...))
	}
	for _, s := range all {
		if s.Case != name {
			continue
		}
		if strings.HasPrefix(s.Dir, "savepoint-") {
			// A copy of the savepoint that ended half-way; the rest is where it was.
			original := filepath.Join(fresh("original"), s.Dir)
			half := filepath.Join(fresh("half copy"), s.Dir)
			files, err := filepath.Glob(filepath.Join(half, "*-*"))
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range files {
				if i%2 == 0 {
					if err := os.Remove(f); err != nil {
						t.Fatal(err)
					}
				}
			}
			drey(t, nil, "repair", "--in", original, "--write", half)
			add(s, "half copy", half)
			continue
		}
		at := filepath.Join(fresh("as it is "+filepath.Base(s.Dir)), s.Dir)
		broken = append(broken, at)
		lines = append(lines, []string{at, s.Truth, "--entry", s.Dir})

		at = filepath.Join(fresh("repaired "+filepath.Base(s.Dir)), s.Dir)
		drey(t, nil, "repair", "--write", at)
		add(s, "repaired", at)

		// A job that claims it registers its files, where handles that disagree show up.
		at = filepath.Join(fresh("claimed "+filepath.Base(s.Dir)), s.Dir)
		drey(t, nil, "repair", "--write", at)
		add(s, "repaired, claimed", at, "--claim")
	}
	if len(broken) != 2 || len(done) != 5 {
		t.Fatalf("%d broken, %d repaired", len(broken), len(done))
	}
	wrong := v.verify(t, nil, lines)
	for _, at := range broken {
		if wrong[at] == "" {
			t.Errorf("Flink restored %s without a repair", at)
		}
	}
	report(t, v, done, wrong)
}
