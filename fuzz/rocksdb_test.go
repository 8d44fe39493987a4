package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/storage"
)

// rocksRecord frames a record of a MANIFEST; it must fit in a block.
func rocksRecord(rec []byte) []byte {
	body := append([]byte{1}, rec...)
	c := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	b := binary.LittleEndian.AppendUint32(nil, c>>15|c<<17+0xa282ead8)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(rec)))
	return append(b, body...)
}

// rocksManifest names one table that may hold any keys.
func rocksManifest(size int) []byte {
	lp := func(b, s []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	rec := lp([]byte{1}, []byte(rocksdb.Bytewise))
	rec = binary.AppendUvarint(append(rec, 4), 1<<56-1)
	rec = append(rec, 100, 6, 7)
	rec = binary.AppendUvarint(rec, uint64(size))
	rec = lp(rec, bytes.Repeat([]byte{0xff}, 8))
	rec = lp(rec, append(bytes.Repeat([]byte{0xff}, 64), make([]byte, 8)...))
	return rocksRecord(append(rec, 0, 9))
}

// rocksScan reads all of a checkpoint and checks that what it takes is
// bounded, that errors say where they are, and that rows are in order.
func rocksScan(t *testing.T, files map[string][]byte) {
	ctx := context.Background()
	store := storage.NewMemory()
	size := 0
	for name, data := range files {
		w, err := store.Create(ctx, "mem:/db/"+name, storage.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		size += len(data)
	}
	list, err := rocksdb.Directory(ctx, store, "mem:/db")
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		var e *rocksdb.Error
		if err != nil && (!errors.As(err, &e) || e.File == "") {
			t.Errorf("error %#v", err)
		}
	}
	db, err := rocksdb.Open(ctx, list, rocksdb.Options{Merge: rocksdb.StringAppend(",")})
	if err != nil {
		check(err)
		return
	}
	if _, err := db.Verify(ctx, func(e *rocksdb.Error) { check(e) }); err != nil {
		t.Fatal(err)
	}
	for _, b := range []rocksdb.Bounds{{}, {Lower: []byte{0, 40}, Upper: []byte{0, 90}}} {
		for _, f := range db.Families() {
			it := f.Iter(ctx, b)
			var last []byte
			rows := 0
			// A block may be named many times and compressed very well, so
			// that there is much to read: the beginning is enough.
			for it.Next() && rows < 1<<16 {
				if rows > 0 && bytes.Compare(it.Key(), last) <= 0 {
					t.Fatalf("%x after %x", it.Key(), last)
				}
				last = append(last[:0], it.Key()...)
				rows++
			}
			check(it.Err())
			it.Close()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 1<<30 {
		t.Errorf("%d bytes in use for %d of input", m.HeapAlloc, size)
	}
}

// rocksFiles is where the databases in the testdata of backend/rocksdb are.
const rocksFiles = "../backend/rocksdb/testdata/*/*/"

// FuzzRocksTable reads any bytes as a table; most seeds have no checksums, so
// that what is changed in them gets as far as the decoders.
func FuzzRocksTable(f *testing.F) {
	seeds(f, rocksFiles+"*.sst", func(data []byte) {
		f.Add(data)
		if len(data) > 53 && data[len(data)-1] == 0x88 {
			data[len(data)-53] = 0
			f.Add(data)
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		rocksScan(t, map[string][]byte{
			"CURRENT":         []byte("MANIFEST-000001\n"),
			"MANIFEST-000001": rocksManifest(len(data)),
			"000007.sst":      data,
		})
	})
}

// FuzzRocksManifest reads any bytes as a MANIFEST, and as an edit in one.
func FuzzRocksManifest(f *testing.F) {
	seeds(f, rocksFiles+"MANIFEST-*", func(data []byte) {
		f.Add(data)
		for rest := data; len(rest) > 7; { // the edits by themselves
			n := int(binary.LittleEndian.Uint16(rest[4:]))
			if rest[6] != 1 || n > len(rest)-7 {
				break
			}
			f.Add(rest[7 : 7+n])
			rest = rest[7+n:]
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 32<<10 {
			return
		}
		files := map[string][]byte{"CURRENT": []byte("MANIFEST-000001\n"), "MANIFEST-000001": data, "000007.sst": []byte("no table")}
		rocksScan(t, files)
		files["MANIFEST-000001"] = rocksRecord(data[:min(len(data), 32<<10-7)])
		rocksScan(t, files)
	})
}
