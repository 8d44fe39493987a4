package fuzz

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/storage"
)

// FuzzRocksDBWrite writes rows, whatever keys they have, to two column
// families by turns. What the writer takes must be sound and be read again.
func FuzzRocksDBWrite(f *testing.F) {
	f.Add([]byte("\x01a\x01a\x02ab\x03abc"), uint16(40), uint16(300), true)
	f.Add([]byte("\x00\x01\x00\x02\x00\x00\x01b\x01c"), uint16(0), uint16(0), false)
	f.Add(append([]byte{120}, make([]byte, 240)...), uint16(1), uint16(1), true)
	f.Add([]byte("\x02ba\x02aa"), uint16(10), uint16(10), false)
	f.Fuzz(func(t *testing.T, data []byte, block, table uint16, plain bool) {
		ctx := context.Background()
		store := storage.NewMemory()
		o := rocksdb.WriterOptions{BlockSize: int(block), TableSize: int64(table)}
		if plain {
			o.Compression = rocksdb.Uncompressed
		}
		w, err := rocksdb.Create(ctx, func(ctx context.Context, name string) (storage.Writer, error) {
			return store.Create(ctx, "mem:/db/"+name, storage.CreateOptions{})
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		names := []string{"a", "default"}
		var families []*rocksdb.FamilyWriter
		for _, name := range names {
			f, err := w.Family(name)
			if err != nil {
				t.Fatal(err)
			}
			families = append(families, f)
		}
		// A byte says how long the key is, which follows it, and by that how long the value.
		var want [2][][2][]byte
		for i := 0; len(data) > 0 && i < 2000; i++ {
			n := min(int(data[0]), len(data)-1)
			k, v := data[1:1+n], bytes.Repeat(data[:1], n*n/4)
			data = data[1+n:]
			rows := want[i%2]
			ordered := len(rows) == 0 || bytes.Compare(k, rows[len(rows)-1][0]) > 0
			if err := families[i%2].Add(k, v); !ordered {
				if !errors.Is(err, rocksdb.ErrOrder) {
					t.Fatalf("a key that is not in order: %v", err)
				}
				if list, err := w.Finish(); err == nil || list != nil {
					t.Fatal("it ended without an error")
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			want[i%2] = append(rows, [2][]byte{k, v})
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		files, err := rocksdb.Directory(ctx, store, "mem:/db")
		if err != nil {
			t.Fatal(err)
		}
		db, err := rocksdb.Open(ctx, files, rocksdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Verify(ctx, func(e *rocksdb.Error) { t.Error(e) }); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			family, _ := db.Family(name)
			it := family.Iter(ctx, rocksdb.Bounds{})
			n := 0
			for ; it.Next(); n++ {
				if n == len(want[i]) || !bytes.Equal(it.Key(), want[i][n][0]) || !bytes.Equal(it.Value(), want[i][n][1]) {
					t.Fatalf("row %d of %q is another", n, name)
				}
			}
			if it.Err() != nil || n != len(want[i]) {
				t.Fatalf("%d rows of %q, want %d: %v", n, name, len(want[i]), it.Err())
			}
		}
	})
}
