package rocksdb

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// verify gives what Verify finds.
func verify(t testing.TB, db *DB) (n Verified, list []*Error) {
	t.Helper()
	n, err := db.Verify(context.Background(), func(e *Error) { list = append(list, e) })
	if err != nil {
		t.Fatal(err)
	}
	return n, list
}

// TestVerifySound verifies what real RocksDB wrote.
func TestVerifySound(t *testing.T) {
	var total Verified
	check := func(name string, db *DB) {
		n, list := verify(t, db)
		for _, e := range list {
			t.Errorf("%s: %v", name, e)
		}
		total.Tables += n.Tables
		total.Blocks += n.Blocks
		total.Entries += n.Entries
		total.Bytes += n.Bytes
	}
	for _, dir := range testdata(t) {
		check(dir, open(t, dir))
	}
	t.Logf("testdata: %+v", total)
	root := shared(t, "rocksdb")
	dumps, err := filepath.Glob(filepath.Join(root, "*", "*.dump.gz"))
	if err != nil || len(dumps) != 44 {
		t.Fatalf("%d checkpoints with a dump, want 44", len(dumps))
	}
	for _, file := range dumps {
		dir := strings.TrimSuffix(file, ".dump.gz")
		check(dir, open(t, dir))
	}
	flinkDBs(t, func(name string, files Files) {
		db, err := Open(context.Background(), files, Options{})
		if err != nil {
			t.Fatal(err)
		}
		check(name, db)
	})
	t.Logf("%+v", total)
}

// verifyDamaged gives what is found in a checkpoint of which something was changed.
func verifyDamaged(t *testing.T, m memory) []*Error {
	t.Helper()
	opened := 0
	db, err := Open(context.Background(), m.files(nil, &opened), Options{})
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%v is no *Error", err)
		}
		return []*Error{e}
	}
	_, list := verify(t, db)
	if opened != 0 {
		t.Errorf("%d objects were not closed", opened)
	}
	return list
}

// uncovered says whether a flipped bit may go unnoticed: the format version
// before 6, and everything where there are no checksums.
func uncovered(dir, name string, data []byte, at int) bool {
	return strings.HasSuffix(dir, "crcnone") && strings.HasSuffix(name, ".sst") ||
		data[len(data)-1] == 0x88 && at == len(data)-12
}

// TestVerifyBitFlips flips a bit in each byte (without DREY_LONG=1, in a
// sample that meets each block) of each file: it is found, at the block.
func TestVerifyBitFlips(t *testing.T) {
	flips, passed := 0, 0
	for _, dir := range testdata(t) {
		m := load(t, dir)
		r := rand.New(rand.NewPCG(5, 6))
		for _, name := range slices.Sorted(maps.Keys(m)) {
			data := m[name]
			for at := 0; at < len(data); at++ {
				if inside := at < len(data)-160; inside && !long() {
					at += r.IntN(30)
				}
				m[name] = bytes.Clone(data)
				m[name][at] ^= 1 << r.IntN(8)
				list := verifyDamaged(t, m)
				flips++
				if len(list) == 0 {
					passed++
					if !uncovered(dir, name, data, at) {
						t.Errorf("%s/%s: a flipped bit of byte %d of %d is not found", dir, name, at, len(data))
					}
					continue
				}
				if name != "CURRENT" && list[0].File != name {
					t.Errorf("%s/%s: byte %d: %v", dir, name, at, list[0])
				}
				before := func(e *Error) bool { return e.Offset >= 0 && e.Offset <= int64(at) }
				if strings.HasSuffix(name, ".sst") && at < len(data)-footerSize && !strings.HasSuffix(dir, "crcnone") && !slices.ContainsFunc(list, before) {
					t.Errorf("%s/%s: byte %d: %v", dir, name, at, list)
				}
			}
			m[name] = data
		}
	}
	t.Logf("%d flips, %d of them where nothing covers", flips, passed)
}

// TestVerifyTruncated cuts each table, and lets the MANIFEST say the new size.
func TestVerifyTruncated(t *testing.T) {
	cuts := 0
	for _, dir := range testdata(t) {
		m := load(t, dir)
		db, err := Open(context.Background(), m.files(nil, nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range db.Families() {
			for file := range f.Files() {
				data, manifest := m[file.Name()], m[db.Manifest()]
				stride := max(1, len(data)/50)
				if long() {
					stride = 1
				}
				for n := 0; n < len(data); n += stride {
					m[file.Name()] = data[:n]
					if list := verifyDamaged(t, m); len(list) != 1 || !errors.Is(list[0], ErrTruncated) {
						t.Errorf("%s/%s: cut to %d of %d: %v", dir, file.Name(), n, len(data), list)
					}
					whole := file.Size
					file.Size = int64(n)
					m[db.Manifest()] = encodeManifest(db.LastSequence(), db.Families()...)
					if list := verifyDamaged(t, m); len(list) == 0 {
						t.Errorf("%s/%s: cut to %d of %d, as the MANIFEST says, and nothing is found", dir, file.Name(), n, len(data))
					}
					file.Size = whole
					m[db.Manifest()] = manifest
					cuts++
				}
				delete(m, file.Name())
				if list := verifyDamaged(t, m); len(list) != 1 || !errors.Is(list[0], fs.ErrNotExist) {
					t.Errorf("%s without %s: %v", dir, file.Name(), list)
				}
				m[file.Name()] = data
			}
		}
	}
	t.Logf("%d cuts", cuts)
}

// TestVerifyMeaning changes what no checksum covers: the MANIFEST says
// something else of a table, or a table without checksums contradicts itself.
func TestVerifyMeaning(t *testing.T) {
	for field, change := range map[string]func(f *File){
		"below the smallest key": func(f *File) { f.smallest.user = append(f.smallest.user, 0) },
		"above the largest key":  func(f *File) { f.largest.user = f.largest.user[:len(f.largest.user)-1] },
		"below the sequences":    func(f *File) { f.SmallestSequence = f.LargestSequence },
		"above the sequences":    func(f *File) { f.LargestSequence = f.SmallestSequence },
	} {
		m := load(t, "testdata/cut/r8-xxh3")
		db, err := Open(context.Background(), m.files(nil, nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range db.Families() {
			for _, file := range f.files {
				if !bytes.Equal(file.smallest.user, file.largest.user) && file.SmallestSequence < file.LargestSequence {
					change(file)
				}
			}
		}
		m[db.Manifest()] = encodeManifest(db.LastSequence(), db.Families()...)
		list := verifyDamaged(t, m)
		if len(list) == 0 || !strings.Contains(list[0].Error(), db.Manifest()) {
			t.Errorf("%s: %v", field, list)
		}
	}

	m := load(t, "testdata/cut/r8-crcnone")
	swap := func(old, new string) memory {
		c := maps.Clone(m)
		done := false
		for name, data := range m {
			if strings.HasSuffix(name, ".sst") && bytes.Contains(data, []byte(old)) {
				c[name], done = bytes.Replace(data, []byte(old), []byte(new), 1), true
			}
		}
		if !done {
			t.Fatalf("no table has %q", old)
		}
		return c
	}
	for _, c := range []struct{ old, new, field string }{
		{"\x0c\x07\x01entries", "\x0c\x07\x01entriez", "entries"},
		{"raw.key.size", "raw.key.sizf", "raw key size"},
		{"num.data.blocks", "num.data.blockt", "data blocks"},
	} {
		found := func(e *Error) bool { return e.Field == c.field }
		if list := verifyDamaged(t, swap(c.old, c.new)); !slices.ContainsFunc(list, found) {
			t.Errorf("%s: %v", c.old, list)
		}
	}
}

// TestVerifyNoChecksums changes bytes that nothing covers: whatever is found,
// nothing panics or takes more memory than the input is worth.
func TestVerifyNoChecksums(t *testing.T) {
	changes, found := 0, 0
	for _, dir := range testdata(t) {
		m := load(t, dir)
		r := rand.New(rand.NewPCG(7, 8))
		for _, name := range slices.Sorted(maps.Keys(m)) {
			data := m[name]
			if !strings.HasSuffix(name, ".sst") || data[len(data)-1] == 0xdb {
				continue
			}
			n := 200
			if long() {
				n = 20000
			}
			for range n {
				bad := bytes.Clone(data)
				bad[len(bad)-footerSize] = checksumNone
				for range 1 + r.IntN(3) {
					bad[r.IntN(len(bad)-footerSize)] = byte(r.Uint32())
				}
				m[name] = bad
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				list := verifyDamaged(t, m)
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > maxAllocated(m) {
					t.Errorf("%s/%s: %d bytes allocated", dir, name, n)
				}
				changes++
				if len(list) > 0 {
					found++
				}
			}
			m[name] = data
		}
	}
	if found < changes/2 {
		t.Errorf("%d of %d changes found", found, changes)
	}
	t.Logf("%d of %d changes found", found, changes)
}

// TestVerifyEnds stops when the context does.
func TestVerifyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	db := open(t, "testdata/cut/r6-levels")
	cancel()
	n, err := db.Verify(ctx, func(e *Error) { t.Errorf("found %v", e) })
	if !errors.Is(err, context.Canceled) || n.Tables > 1 {
		t.Errorf("%+v, %v", n, err)
	}
}
