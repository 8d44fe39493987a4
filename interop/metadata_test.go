package interop

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
)

// fixtures holds snapshots beside the project's working tree, where there are any.
const fixtures = "../../shared/fixtures"

// longer is put into every path: it makes paths longer, and leaves ASCII.
const longer = "/längerer Weg %20/日本 😀"

// shorter takes longer out of the JSON of Flink's loader, which shows a path
// and beside it a file's identity, the URI of that path.
var shorter = strings.NewReplacer(
	`/längerer Weg %20/日本 \uD83D\uDE00`, "",
	`/längerer%20Weg%20%2520/日本%20\uD83D\uDE00`, "",
)

// TestLoadReencoded decodes metadata that Flink wrote, gives every file
// another path, encodes, and lets Flink's own loader read the result. It must
// see what it sees in the original, paths aside, and its own writer must give
// the same bytes as ours.
func TestLoadReencoded(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Parallel()
			testLoadReencoded(t, v)
		})
	}
}

func testLoadReencoded(t *testing.T, v flink) {
	files := metadataFiles(t, filepath.Join(fixtures, "flink", string(v)), filepath.Join(fixtures, "extra", string(v)), filepath.Join(fixtures, "sql", string(v)))
	if len(files) == 0 {
		t.Log("no fixtures here: taking new snapshots")
		files = metadataFiles(t, v.generate(t, nil, "sp-canonical-hashmap", "sp-native-rocksdb-files", "sp-finished-partly", "ck-rocksdb-incr-inline",
			"ck-unaligned", "ck-changelog-memory", "ck-changelog-materialized-hashmap", "ck-filemerging-rocksdb"))
	}
	dir := t.TempDir()
	type pair struct{ name, original, mapped string }
	var pairs []pair
	var show, rewrite [][]string
	paths := 0
	for i, name := range files {
		data := read(t, name)
		mapped, n := reencode(t, name, data)
		paths += n
		p := pair{name, filepath.Join(dir, fmt.Sprint(i), "original"), filepath.Join(dir, fmt.Sprint(i), "mapped")}
		pairs = append(pairs, p)
		// Not the directory that it was in: Flink's loader would show relative
		// files as what absolute ones are.
		write(t, p.original, data)
		write(t, p.mapped, mapped)
		show = append(show, []string{p.original, p.original + ".json"}, []string{p.mapped, p.mapped + ".json"})
		rewrite = append(rewrite, []string{p.mapped, p.mapped + ".flink"})
	}
	t.Logf("%d metadata files, %d paths in them changed", len(files), paths)
	v.many(t, "meta-many", show)
	v.many(t, "rewrite-many", rewrite)
	if t.Failed() {
		return
	}
	for _, p := range pairs {
		want, got := tree(t, p.original+".json"), tree(t, p.mapped+".json")
		for i, line := range got {
			got[i] = shorter.Replace(line)
		}
		if i := firstDifference(want, got); i >= 0 {
			t.Errorf("%s: Flink %s reads something else after re-encoding: line %d of its tree was\n%s\nis\n%s", p.name, v, i+1, at(want, i), at(got, i))
		}
		if ours, theirs := read(t, p.mapped), read(t, p.mapped+".flink"); !bytes.Equal(ours, theirs) {
			t.Errorf("%s: Flink %s writes other bytes for what it read from ours: %d bytes, ours has %d", p.name, v, len(theirs), len(ours))
		}
	}
}

// metadataFiles finds all _metadata below the directories.
func metadataFiles(t *testing.T, dirs ...string) []string {
	t.Helper()
	var files []string
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Name() == "_metadata" && !d.IsDir() {
				files = append(files, name)
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	return files
}

// reencode puts longer into every absolute path, and says how many there are.
func reencode(t *testing.T, name string, data []byte) ([]byte, int) {
	t.Helper()
	s, err := metadata.Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	n := 0
	mapped, err := s.MapPaths(func(r metadata.Ref) (string, error) {
		if r.Kind == metadata.RefRelative {
			return r.Path, nil
		}
		n++
		scheme, rest, found := strings.Cut(r.Path, ":")
		if !found {
			return "", fmt.Errorf("path without a scheme: %q", r.Path)
		}
		authority := ""
		if strings.HasPrefix(rest, "//") {
			end := strings.IndexByte(rest[2:]+"/", '/') + 2
			authority, rest = rest[:end], rest[end:]
		}
		return scheme + ":" + authority + longer + rest, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out, err := metadata.Encode(mapped)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out, n
}

// tree is the canonical JSON of Flink's loader, by lines, without the file's length.
func tree(t *testing.T, name string) []string {
	t.Helper()
	return slices.DeleteFunc(strings.Split(string(read(t, name)), "\n"), func(l string) bool {
		return strings.Contains(l, `"fileLength"`)
	})
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if at(a, i) != at(b, i) {
			return i
		}
	}
	return -1
}

func at(l []string, i int) string {
	if i < len(l) {
		return l[i]
	}
	return "(nothing)"
}
