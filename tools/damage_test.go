package tools

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestDamage cuts state files and flips bits in them: every operation tells
// of it or gives other content, and ends.
func TestDamage(t *testing.T) {
	for _, source := range []string{
		"1.20.5/sp-canonical-hashmap-files/savepoint-508158-bcdaedc881d5",
		"1.20.5/sp-native-rocksdb-files/savepoint-9a3f7f-82cc97159642",
		"2.3.0/ck-unaligned/ckpt/a78b391bff6f34f8820cc7eb77ebe4f5/chk-1",
	} {
		dir := filepath.ToSlash(t.TempDir())
		if err := os.CopyFS(dir, os.DirFS("drey/testdata/snapshots/"+source)); err != nil {
			t.Fatal(err)
		}
		fsys, s := openLocal(t, dir)
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		ways, found := 0, 0
		for i, f := range files {
			// Each file in one way, and not all of RocksDB's.
			if f.Name() == MetadataName || len(files) > 50 && i%4 != 0 {
				continue
			}
			path := filepath.Join(dir, f.Name())
			data, err := os.ReadFile(path)
			if err != nil || len(data) == 0 {
				t.Fatal(len(data), err)
			}
			if bytes.HasPrefix(data, []byte("# This is a RocksDB option file")) {
				continue // which nothing reads
			}
			damaged := bytes.Clone(data)
			switch i % 3 {
			case 0:
				damaged = damaged[:len(data)/2]
			case 1:
				damaged[len(data)-1-i%len(data)] ^= 1 << (i % 8)
			default:
				damaged[i*37%len(data)] ^= 0x80
			}
			if err := os.WriteFile(path, damaged, 0o666); err != nil {
				t.Fatal(err)
			}
			d, err := VerifyDeep(t.Context(), fsys, s, 2, nil)
			if err != nil {
				t.Fatalf("%s: %v", f.Name(), err)
			}
			ways++
			if len(d.Damage)+len(d.Unread) > 0 {
				found++
			} else if i%3 == 0 && len(data) > 100 {
				t.Errorf("%s/%s: half of it is missing, and not found", source, f.Name())
			}
			dump, err := DumpState(t.Context(), fsys, s, io.Discard, DumpStateOptions{})
			if err != nil {
				t.Fatalf("%s: %v", f.Name(), err)
			}
			if i%3 == 0 && len(dump.Problems) == 0 && len(d.Damage) == 0 {
				t.Errorf("%s/%s: no problem", source, f.Name())
			}
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: damage found in %d of %d files", source, found, ways)
	}
}

// TestCancel ends the operations in their midst.
func TestCancel(t *testing.T) {
	fsys := newGeneratedFS()
	_, s := fsys.add(t, "file:/a", 2000, -1)
	for name, run := range map[string]func(context.Context, func(int64, int64)) error{
		"dump": func(ctx context.Context, p func(int64, int64)) error {
			_, err := DumpState(ctx, fsys, s, io.Discard, DumpStateOptions{EntryOptions: EntryOptions{Progress: p}})
			return err
		},
		"sizes": func(ctx context.Context, p func(int64, int64)) error {
			_, err := Sizes(ctx, fsys, s, SizeOptions{EntryOptions: EntryOptions{Progress: p}})
			return err
		},
		"diff": func(ctx context.Context, p func(int64, int64)) error {
			_, err := DiffState(ctx, fsys, s, s, DiffStateOptions{Progress: p}, func(*Difference) error { return nil })
			return err
		},
		"verify": func(ctx context.Context, p func(int64, int64)) error {
			_, err := VerifyDeep(ctx, fsys, s, 2, p)
			return err
		},
		"entries": func(ctx context.Context, p func(int64, int64)) error {
			for _, err := range Entries(ctx, fsys, s, EntryOptions{Progress: p}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, func(done, total int64) {
			if done > total/4 {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failingWriter fails after some bytes.
type failingWriter struct{ left int }

var errFull = errors.New("disk full")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteError ends a dump where its output ends.
func TestWriteError(t *testing.T) {
	fsys := newGeneratedFS()
	_, s := fsys.add(t, "file:/a", 2000, -1)
	for _, f := range []Format{FormatJSON, FormatCSV, FormatParquet} {
		if _, err := DumpState(t.Context(), fsys, s, &failingWriter{300_000}, DumpStateOptions{Format: f}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestReadsOnlyWhatIsWanted: one key group of 128 is a 128th of the bytes.
func TestReadsOnlyWhatIsWanted(t *testing.T) {
	fsys := newGeneratedFS()
	file, s := fsys.add(t, "file:/a", 2000, -1)
	groups, err := ParseKeyGroups("17")
	if err != nil {
		t.Fatal(err)
	}
	d, err := DumpState(t.Context(), fsys, s, io.Discard, DumpStateOptions{EntryOptions: EntryOptions{Selection: Selection{KeyGroups: groups}}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Entries != 4000 {
		t.Errorf("%d entries", d.Entries)
	}
	if n := file.read.Load(); n > file.blockBytes()+4096 {
		t.Errorf("%d bytes were read for a key group of %d", n, file.blockBytes())
	}
}
