package rocksdb

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/storage"
)

// shared is a directory of the shared fixtures; the test is skipped without them.
func shared(t testing.TB, parts ...string) string {
	dir := filepath.Join(append([]string{"..", "..", "..", "shared", "fixtures"}, parts...)...)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal("the shared fixtures are missing")
		}
		t.Skip("needs the shared fixtures beside the checkout")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// merge is the operator of all fixtures, as of Flink.
var merge = StringAppend(",")

// directory gives the files of a local directory.
func directory(t testing.TB, dir string) Files {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Directory(context.Background(), storage.NewLocal(storage.LocalOptions{}), filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func open(t testing.TB, dir string) *DB {
	t.Helper()
	db, err := Open(context.Background(), directory(t, dir), Options{Merge: merge})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// row is a line of a dump: a key and a value in hexadecimal.
type row struct{ key, value string }

// readDump reads what RocksDB's own iterator gave, by family.
func readDump(t testing.TB, file string) map[string][]row {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dump := map[string][]row{}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		p := strings.Split(lines.Text(), "\t")
		switch {
		case p[0] == "#cf" && len(p) == 4:
			if n := fmt.Sprint(len(dump[p[1]])); n != p[2] {
				t.Fatalf("%s: %s rows of %s, but %s are said to be", file, n, p[1], p[2])
			}
			dump[p[1]] = slices.Clip(dump[p[1]])
		case len(p) == 3:
			dump[p[0]] = append(dump[p[0]], row{p[1], p[2]})
		default:
			t.Fatalf("%s: line %q", file, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return dump
}

// rows scans a family.
func rows(f *Family, b Bounds) ([]row, error) {
	it := f.Iter(context.Background(), b)
	defer it.Close()
	var list []row
	for it.Next() {
		list = append(list, row{hex.EncodeToString(it.Key()), hex.EncodeToString(it.Value())})
	}
	return list, it.Err()
}

// compareDump checks that the families and rows of db are those of a dump.
func compareDump(t testing.TB, db *DB, dump map[string][]row) (n int) {
	t.Helper()
	families := db.Families()
	if len(families) != len(dump) {
		t.Errorf("%d families instead of %d", len(families), len(dump))
	}
	for _, f := range families {
		want, ok := dump[f.Name()]
		if !ok {
			t.Errorf("family %q is not in the dump", f.Name())
			continue
		}
		got, err := rows(f, Bounds{})
		if err != nil {
			t.Errorf("family %q: %v", f.Name(), err)
			continue
		}
		if !slices.Equal(got, want) {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("family %q: %d rows, want %d; row %d is another: got %v, want %v",
				f.Name(), len(got), len(want), i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
		n += len(got)
	}
	return n
}
