package interop

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kinds has a case for every way in which Flink lays out a snapshot.
var kinds = []string{
	"sp-canonical-hashmap", // most state inside _metadata
	"sp-canonical-hashmap-files",
	"sp-canonical-rocksdb-files",
	"sp-native-hashmap-files",
	"sp-native-rocksdb-files",
	"sp-masterhook",
	"ck-hashmap-files",
	"ck-rocksdb-full",
	"ck-rocksdb-incr",
	"ck-rocksdb-claim", // names files of two jobs
	"ck-unaligned",
	"ck-changelog-hashmap",
	"ck-changelog-materialized-rocksdb",
	"ck-filemerging-hashmap",
	"ck-filemerging-rocksdb",
	"ck-unicode-rocksdb", // in a directory with spaces, %20 and more
	"sp-2pc",             // paths inside state
}

// relocation is one snapshot at its new place, with what Flink says about it.
type relocation struct {
	snapshot
	how  string // what was done to it
	at   string
	args []string // of the verification
}

// TestRelocate lets Flink write snapshots of every kind, relocates them in
// every way, removes the place where Flink wrote them, and lets Flink restore
// them at the new place. Every state must be what a model says.
func TestRelocate(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Parallel()
			testRelocate(t, v)
		})
	}
}

func testRelocate(t *testing.T, v flink) {
	written := v.generate(t, nil, kinds...)
	dir := t.TempDir()
	all := snapshots(t, written, filepath.Join(dir, "truth"))
	before := digest(t, written)

	var done []relocation
	place := func(s snapshot, how string) string {
		return filepath.Join(dir, how, s.Case+" "+filepath.Base(s.Dir))
	}
	add := func(s snapshot, how, at string, args ...string) {
		drey(t, nil, "verify", at)
		done = append(done, relocation{s, how, at, args})
	}
	for i, s := range all {
		src := filepath.Join(written, s.Case, s.Dir)

		// Every retained checkpoint by itself.
		at := place(s, "relocated")
		drey(t, nil, "relocate", src, at)
		add(s, "relocated", at)
		if i+1 < len(all) && all[i+1].Case == s.Case {
			continue
		}

		// The rest with the newest of a case only, and not with savepoints
		// that are copied as they are.
		if strings.HasPrefix(s.Case, "sp-") && s.Case != "sp-native-rocksdb-files" {
			continue
		}

		// A job that claims the snapshot registers its files: there handles
		// that disagree show up.
		at = place(s, "claimed")
		drey(t, nil, "relocate", src, at)
		add(s, "claimed", at, "--claim")

		// Made relative, it survives a plain mv. Merged files can't be.
		at = place(s, "relative")
		if strings.HasPrefix(s.Case, "ck-filemerging") {
			refused(t, "relocate", "--make-relative", src, at)
		} else {
			drey(t, nil, "relocate", "--make-relative", src, at+" before")
			if err := os.Rename(at+" before", at); err != nil {
				t.Fatal(err)
			}
			add(s, "relative, then mv", at, "--claim")
		}

		if !strings.HasPrefix(s.Case, "ck-") {
			continue
		}

		// The layout of the job's directory stays, elsewhere, by a rule.
		from, to := filepath.Join(written, s.Case), place(s, "ruled ü %20 日本")
		at = filepath.Join(to, s.Dir)
		drey(t, nil, "relocate", "--rewrite", from+"="+to, src, at)
		add(s, "rewritten by rule", at)

		// Somebody moved the whole directory and only then thought of drey.
		to = place(s, "moved")
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		at = filepath.Join(to, s.Dir)
		done = append(done, relocation{s, "mv, then metadata only", at, nil}) // rewritten below
	}

	// A copy without drey, to see that this test can fail.
	i := slices.IndexFunc(all, func(s snapshot) bool { return s.Case == "ck-rocksdb-incr" })
	plain := filepath.Join(dir, "plain")
	if err := os.CopyFS(plain, os.DirFS(filepath.Join(written, all[i].Case, all[i].Dir))); err != nil {
		t.Fatal(err)
	}

	if after := digest(t, written); after != before {
		t.Errorf("relocating changed the source:\n%s\nbecame\n%s", before, after)
	}
	if err := os.RemoveAll(written); err != nil {
		t.Fatal(err)
	}
	for _, r := range done {
		if r.how == "mv, then metadata only" {
			drey(t, nil, "relocate", "--metadata-only", r.at)
			drey(t, nil, "verify", r.at)
		}
	}

	lines := [][]string{{plain, all[i].Truth, "--entry", all[i].Dir}}
	for _, r := range done {
		lines = append(lines, append([]string{r.at, r.Truth, "--entry", r.Dir}, r.args...))
	}
	wrong := v.verify(t, nil, lines)
	if wrong[plain] == "" {
		t.Error("Flink restored a checkpoint that was copied without its shared files")
	}
	report(t, v, done, wrong)
}

// report logs a table of what Flink said, and fails the test for what it refused.
func report(t *testing.T, v flink, done []relocation, wrong map[string]string) {
	t.Helper()
	var b strings.Builder
	bad := 0
	for _, r := range done {
		answer := "PASS"
		if w := wrong[r.at]; w != "" {
			answer = "FAIL"
			bad++
			t.Errorf("Flink %s, %s, %s: %s", v, r.name(), r.how, w)
		}
		fmt.Fprintf(&b, "%-7s %-60s %-24s %s\n", v, r.name(), r.how, answer)
	}
	t.Logf("restored by Flink %s: %d of %d\n%s", v, len(done)-bad, len(done), b.String())
}

// digest lists the files below dir with their hashes.
func digest(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		fmt.Fprintf(&b, "%x %s\n", sha256.Sum256(data), rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
