package rocksdb

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/drey-state/drey/storage"
)

// bytesObject is an object in memory that counts what is read of it.
type bytesObject struct {
	data   []byte
	read   *int
	closed *int
}

func (o bytesObject) Size() int64 { return int64(len(o.data)) }

func (o bytesObject) Close() error {
	if o.closed != nil {
		*o.closed--
	}
	return nil
}

func (o bytesObject) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(o.data)) {
		return 0, io.EOF
	}
	n := copy(p, o.data[off:])
	if o.read != nil {
		*o.read += n
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o bytesObject) Reader(_ context.Context, off int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(o, off, o.Size()-off)), nil
}

// memory is a checkpoint in memory.
type memory map[string][]byte

func load(t testing.TB, dir string) memory {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := memory{}
	for _, e := range entries {
		if m[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// files gives the checkpoint; read counts bytes, opened the objects not closed yet.
func (m memory) files(read, opened *int) Files {
	files := Files{}
	for name := range m {
		files[name] = func(context.Context) (storage.Object, error) {
			if opened != nil {
				*opened++
			}
			return bytesObject{m[name], read, opened}, nil
		}
	}
	return files
}

// dump scans all families.
func (m memory) dump() (map[string][]row, error) {
	opened := 0
	db, err := Open(context.Background(), m.files(nil, &opened), Options{Merge: merge})
	if err != nil {
		return nil, err
	}
	all := map[string][]row{}
	for _, f := range db.Families() {
		list, err := rows(f, Bounds{})
		if err != nil {
			return nil, err
		}
		all[f.Name()] = list
	}
	if opened != 0 {
		panic("objects were not closed")
	}
	return all, nil
}
