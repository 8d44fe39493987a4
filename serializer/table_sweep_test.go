package serializer

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fixtures gives the directory of a kind of files of real Flink; the test is
// skipped if there are none.
func fixtures(t testing.TB, kind string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join("../../shared/fixtures", kind))
	if err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Skip("no fixtures beside the source tree: ", err)
	}
	return dir
}

// files visits the files of a directory that are no tables of RocksDB, which
// leave out common prefixes.
func files(t testing.TB, dir string, visit func(name string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err == nil && !bytes.HasSuffix(data, []byte("\xf7\xcf\xf4\x85\xb7\x41\xe2\x88")) {
			visit(name, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTableSnapshots reads every snapshot of a serializer of SQL or CEP in
// the files of real Flink, wherever it stands, and writes it again.
func TestTableSnapshots(t *testing.T) {
	class := regexp.MustCompile(`org\.apache\.flink\.(table|cep)\.[A-Za-z0-9_.$]*`)
	old := regexp.MustCompile(`/1\.[0-7]/`) // serializers themselves, as Java objects
	total, count := 0, map[string]int{}
	for _, kind := range []string{"sql", "public/flink-table-planner", "public/serializer-snapshots", "public/operator-snapshots"} {
		files(t, fixtures(t, kind), func(name string, data []byte) {
			if old.MatchString(name) {
				return
			}
			for _, at := range class.FindAllIndex(data, -1) {
				start := at[0] - 2
				if start < 0 {
					continue
				}
				n := int(binary.BigEndian.Uint16(data[start:]))
				if n > at[1]-at[0] {
					continue
				}
				class := string(data[at[0] : at[0]+n])
				if _, ok := familyOf(class); !ok {
					if strings.HasSuffix(class, "Snapshot") {
						t.Errorf("%s: offset %d: class %s", name, start, class)
					}
					continue
				}
				in := NewInput(data[start:])
				s := ReadSnapshot(in)
				if s == nil {
					t.Errorf("%s: offset %d: %s: %v", name, start, class, in.Err())
					continue
				}
				out := NewOutput(nil)
				s.Write(out)
				if want := data[start : start+int(in.Offset())]; !bytes.Equal(out.Bytes(), want) {
					t.Errorf("%s: offset %d: %s: other bytes", name, start, class)
				}
				count[class]++
				total++
			}
		})
	}
	if len(count) < 23 || total < 11733 {
		t.Errorf("only %d snapshots of %d classes", total, len(count))
	}
	t.Logf("%d snapshots of %d classes", total, len(count))
}
