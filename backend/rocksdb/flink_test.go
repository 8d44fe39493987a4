package rocksdb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/drey-state/drey/storage"
)

// segment is a part of an object, as Flink's file merging makes it.
type segment struct {
	storage.Object
	off, size int64
}

func (s *segment) Size() int64 { return s.size }

func (s *segment) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(s.Object, s.off, s.size).ReadAt(p, off)
}

func (s *segment) Reader(_ context.Context, off int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.Object, s.off+off, s.size-off)), nil
}

// flinkHandle is what the readable form of the fixtures says of a handle.
type flinkHandle struct {
	Class     string `json:"@class"`
	FilePath  string
	StartPos  int64
	StateSize int64
}

// flinkFile is an element of the shared or private state of an incremental handle.
type flinkFile struct {
	Handle    flinkHandle
	LocalPath string
}

// incremental collects the incremental handles below a value of JSON; false
// if one has a file whose bytes are in the metadata.
func incremental(v any, visit func([]flinkFile)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			incremental(e, visit)
		}
	case map[string]any:
		if v["@class"] == "IncrementalRemoteKeyedStateHandle" {
			var files []flinkFile
			for _, part := range []string{"sharedState", "privateState"} {
				var list []flinkFile
				b, _ := json.Marshal(v[part])
				_ = json.Unmarshal(b, &list)
				files = append(files, list...)
			}
			visit(files)
			return
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			incremental(v[k], visit)
		}
	}
}

// flinkFiles finds the files of a handle; false if bytes are in the metadata.
func flinkFiles(caseDir, snapshot string, list []flinkFile) (Files, bool) {
	local := storage.NewLocal(storage.LocalOptions{})
	release, name := filepath.Base(filepath.Dir(caseDir)), filepath.Base(caseDir)
	files := Files{}
	for _, f := range list {
		h := f.Handle
		if h.Class == "ByteStreamStateHandle" {
			return nil, false
		}
		path, ok := strings.CutPrefix(h.FilePath, "${SNAPSHOT}")
		if ok {
			path = snapshot + path
		} else if _, rest, ok := strings.Cut(h.FilePath, "/"+release+"/"+name+"/"); ok {
			path = caseDir + "/" + rest
		}
		files[f.LocalPath] = func(ctx context.Context) (storage.Object, error) {
			obj, err := local.Open(ctx, filepath.ToSlash(path))
			if err == nil && h.Class == "SegmentFileStateHandle" {
				obj = &segment{obj, h.StartPos, h.StateSize}
			}
			return obj, err
		}
	}
	return files, true
}

// flinkDBs visits the RocksDB of each subtask of the fixtures of Flink.
func flinkDBs(t *testing.T, visit func(name string, files Files)) {
	root := shared(t, "flink")
	metas, err := filepath.Glob(filepath.Join(root, "*", "*", "*.meta.json"))
	if err != nil || len(metas) == 0 {
		t.Fatal("no fixtures")
	}
	for _, file := range metas {
		caseDir := filepath.Dir(file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var meta any
		if err := json.Unmarshal(data, &meta); err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(file), ".meta.json")
		snapshot := filepath.Join(caseDir, base)
		if found, _ := filepath.Glob(filepath.Join(caseDir, "ckpt", "*", base)); len(found) > 0 {
			snapshot = found[0]
		}
		rel, _ := filepath.Rel(root, filepath.Join(caseDir, base))
		n := 0
		incremental(meta, func(list []flinkFile) {
			files, ok := flinkFiles(caseDir, snapshot, list)
			if ok {
				visit(filepath.ToSlash(rel)+"#"+strconv.Itoa(n), files)
			}
			n++
		})
	}
}

// TestFlink reads the RocksDB of every subtask in the fixtures of Flink and
// compares it with what RocksDB 8.10.0 read from the same files (testdata/flink.txt,
// which leaves out empty families).
func TestFlink(t *testing.T) {
	text, err := os.ReadFile("testdata/flink.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		p := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		want[p[0]+"\t"+p[1]] = p[2]
	}
	dbs, total := 0, 0
	flinkDBs(t, func(name string, files Files) {
		db, err := Open(context.Background(), files, Options{Merge: merge})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		dbs++
		for _, f := range db.Families() {
			key := name + "\t" + f.Name()
			n, sum, err := digest(f)
			if got := fmt.Sprintf("%d\t%.16s", n, sum); err != nil || n > 0 && got != want[key] {
				t.Errorf("%s: %s, %v; want %s", key, got, err, want[key])
			}
			delete(want, key)
			total += n
		}
	})
	if dbs != 140 || len(want) > 0 {
		t.Errorf("%d databases, want 140; %d families that RocksDB read were not met", dbs, len(want))
	}
	t.Logf("%d databases, %d rows", dbs, total)
}
