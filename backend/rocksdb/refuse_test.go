package rocksdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/drey-state/drey/storage"
)

// record builds a VersionEdit: ints are varints, strings have a length before them.
func record(fields ...any) []byte {
	var b []byte
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			b = binary.AppendUvarint(b, uint64(f))
		case string:
			b = appendLP(b, []byte(f))
		case []byte:
			b = append(b, f...)
		}
	}
	return b
}

const someKey = "k\x01\x02\x00\x00\x00\x00\x00\x00"

// TestEdits gives MANIFESTs edits that must be read or refused.
func TestEdits(t *testing.T) {
	file := func(tag int, rest ...any) []any {
		return append([]any{tag, 6, 9, 100, someKey, someKey}, rest...)
	}
	add := record(file(tagNewFile)...)
	for _, c := range []struct {
		name  string
		edits [][]byte
		want  error
		field string
	}{
		{"empty edit", [][]byte{{}}, nil, ""},
		{"comparator", [][]byte{record(tagComparator, Bytewise)}, nil, ""},
		{"new file of each form", [][]byte{
			add,
			record(file(tagNewFile2, 1, 2)...)[:0],
			record(append([]any{tagNewFile2, 5, 10, 100, someKey, someKey}, 1, 2)...),
			record(tagNewFile3, 5, 11, 0, 100, someKey, someKey, 1, 2),
			record(tagNewFile4, 5, 12, 100, someKey, someKey, 1, 2, 5, "\x01", 63, "new", fieldPathID, "\x00", fieldEnd),
		}, nil, ""},
		{"move", [][]byte{add, record(tagDeletedFile, 6, 9, tagNewFile, 7, 9, 100, someKey, someKey)}, nil, ""},
		{"ignorable", [][]byte{record(8193, "id", 8201, "\x01", 8230, "future", tagPrevLogNumber, 0, tagMinLogToKeep, 0, tagMaxFamily, 3, tagCompactCursor, 1, "key")}, nil, ""},
		{"wal", [][]byte{record(tagWalAddition, 3, 2, 100, 1, tagWalDeletion, 3)}, nil, ""},
		{"add and drop", [][]byte{record(tagFamilyAdd, "a", tagFamilyID, 1), record(tagFamilyID, 1, tagFamilyDrop), record(tagFamilyID, 1, tagLogNumber, 3)}, nil, ""},
		{"group", [][]byte{record(tagInAtomicGroup, 1), record(tagInAtomicGroup, 0)}, nil, ""},
		{"unfinished group", [][]byte{slices.Concat(add, record(tagInAtomicGroup, 1))}, nil, ""},
		{"broken group", [][]byte{record(tagInAtomicGroup, 1), record()}, ErrCorrupt, "edit[1]"},
		{"unknown tag", [][]byte{record(11)}, ErrUnsupported, "edit[0].tag"},
		{"blob", [][]byte{record(tagBlobFile)}, ErrUnsupported, "edit[0].tag"},
		{"old blob", [][]byte{record(tagBlobFileOld)}, ErrUnsupported, "edit[0].tag"},
		{"blob reference", [][]byte{record(file(tagNewFile4, 1, 2, fieldOldestBlobFile, "\x07", fieldEnd)...)}, ErrUnsupported, "edit[0].new file.oldest blob file"},
		{"unknown field", [][]byte{record(file(tagNewFile4, 1, 2, 66, "", fieldEnd)...)}, ErrUnsupported, "edit[0].new file.field tag"},
		{"short", [][]byte{record(tagComparator, 9)}, ErrTruncated, "edit[0].comparator"},
		{"long varint", [][]byte{bytes.Repeat([]byte{0xff}, 11)}, ErrCorrupt, "edit[0].tag"},
		{"short boundary", [][]byte{record(tagNewFile, 6, 9, 100, "short", someKey)}, ErrCorrupt, "edit[0].new file.smallest key"},
		{"reversed boundaries", [][]byte{record(tagNewFile, 6, 9, 100, "z"+someKey, someKey)}, ErrCorrupt, "edit[0].new file.smallest key"},
		{"level", [][]byte{record(tagDeletedFile, 5000, 9)}, ErrCorrupt, "edit[0].deleted file.level"},
		{"deleted twice", [][]byte{record(tagDeletedFile, 6, 9)}, ErrCorrupt, "edit[0]"},
		{"added twice", [][]byte{add, add}, ErrCorrupt, "edit[1]"},
		{"never added", [][]byte{record(tagFamilyID, 7)}, ErrCorrupt, "edit[0]"},
		{"family twice", [][]byte{record(tagFamilyAdd, "a", tagFamilyID, 1), record(tagFamilyAdd, "a", tagFamilyID, 1)}, ErrCorrupt, "edit[1]"},
		{"nothing", nil, ErrTruncated, "edit[0]"},
	} {
		var log []byte
		for _, e := range c.edits {
			log = appendRecord(log, e)
		}
		v, err := readManifest("MANIFEST-1", bytes.NewReader(log), int64(len(log)))
		if c.want == nil {
			if err != nil || v == nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var e *Error
		if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Field != c.field || e.File != "MANIFEST-1" {
			t.Errorf("%s: %v; want %v at %q", c.name, err, c.want, c.field)
		}
	}
}

// TestLog frames records of many lengths around the blocks' ends.
func TestLog(t *testing.T) {
	var log []byte
	var want [][]byte
	for i, n := range []int{0, 1, logBlock - 30, 3, 2, 0, logBlock, 3 * logBlock, logBlock - 7, 7} {
		rec := bytes.Repeat([]byte{byte(i)}, n)
		want = append(want, rec)
		log = appendRecord(log, rec)
	}
	log = append(log, make([]byte, 2*logBlock)...) // preallocated
	l := &logReader{file: "log", r: bytes.NewReader(log), size: int64(len(log))}
	for i := 0; ; i++ {
		rec, _, ok, err := l.next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if i != len(want) {
				t.Errorf("%d records, want %d", i, len(want))
			}
			break
		}
		if !bytes.Equal(rec, want[i]) {
			t.Errorf("record %d is another", i)
		}
	}
	for _, c := range []struct {
		typ  byte
		want error
	}{{logMiddle, ErrCorrupt}, {logLast, ErrCorrupt}, {5, ErrUnsupported}, {9, ErrUnsupported}} {
		body := []byte{c.typ, 'x'}
		log := binary.LittleEndian.AppendUint32(nil, mask(crc32.Checksum(body, castagnoli)))
		log = append(append(log, 1, 0), body...)
		if _, err := readManifest("MANIFEST-1", bytes.NewReader(log), int64(len(log))); !errors.Is(err, c.want) {
			t.Errorf("type %d: %v", c.typ, err)
		}
	}
}

// TestRefused opens checkpoints that cannot be read as they are.
func TestRefused(t *testing.T) {
	m := load(t, "testdata/cut/r8-xxh3")
	scan := func(m memory) error {
		_, err := m.dump()
		return err
	}
	if err := scan(m); err != nil {
		t.Fatal(err)
	}
	change := func(f func(m memory)) memory {
		c := maps.Clone(m)
		f(c)
		return c
	}
	sst, manifest := "", ""
	for name := range m {
		if strings.HasSuffix(name, ".sst") {
			sst = name
		} else if strings.HasPrefix(name, "MANIFEST") {
			manifest = name
		}
	}
	magic := func(v uint64) func(memory) {
		return func(m memory) {
			b := bytes.Clone(m[sst])
			binary.LittleEndian.PutUint64(b[len(b)-8:], v)
			m[sst] = b
		}
	}
	foot := func(at int, v byte) func(memory) {
		return func(m memory) {
			b := bytes.Clone(m[sst])
			b[len(b)-footerSize+at] = v
			m[sst] = b
		}
	}
	for name, c := range map[string]struct {
		f    func(memory)
		want error
		text string
	}{
		"plain table":     {magic(magicPlain), ErrUnsupported, "plain table"},
		"cuckoo table":    {magic(magicCuckoo), ErrUnsupported, "cuckoo table"},
		"other file":      {magic(1), ErrCorrupt, "magic"},
		"format version":  {foot(41, 7), ErrUnsupported, "version 7"},
		"checksum type":   {foot(0, 5), ErrUnsupported, "checksum type"},
		"no CURRENT":      {func(m memory) { delete(m, "CURRENT") }, fs.ErrNotExist, "CURRENT"},
		"no MANIFEST":     {func(m memory) { delete(m, manifest) }, fs.ErrNotExist, manifest},
		"no table":        {func(m memory) { delete(m, sst) }, fs.ErrNotExist, sst},
		"longer table":    {func(m memory) { m[sst] = append(bytes.Clone(m[sst]), 0) }, ErrCorrupt, "size"},
		"other name":      {func(m memory) { m["CURRENT"] = []byte("../MANIFEST-1\n") }, ErrCorrupt, "name"},
		"no newline":      {func(m memory) { m["CURRENT"] = []byte(manifest) }, ErrTruncated, "name"},
		"long CURRENT":    {func(m memory) { m["CURRENT"] = make([]byte, 1<<20) }, ErrCorrupt, "CURRENT"},
		"write-ahead log": {func(m memory) { m["000099.log"] = []byte("rows") }, ErrUnsupported, "write-ahead log"},
		"comparator": {func(m memory) {
			m[manifest] = appendRecord(bytes.Clone(m[manifest]), record(tagComparator, "rocksdb.ReverseBytewiseComparator"))
		}, ErrUnsupported, "comparator"},
		"low sequence": {func(m memory) {
			db, err := Open(context.Background(), m.files(nil, nil), Options{})
			if err != nil {
				t.Fatal(err)
			}
			m[manifest] = encodeManifest(1, db.Families()...)
		}, ErrCorrupt, "above the last one"},
	} {
		err := scan(change(c.f))
		if !errors.Is(err, c.want) || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// These do no harm.
	for name, f := range map[string]func(memory){
		"empty log":    func(m memory) { m["000099.log"] = nil },
		"other files":  func(m memory) { m["LOG"], m["x.log"], m["999999.sst"] = nil, []byte("x"), []byte("x") },
		"index is old": func(m memory) { m["OPTIONS-000001"] = []byte("junk") },
	} {
		if err := scan(change(f)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCompressedSizes gives sizes that the bytes cannot have.
func TestCompressedSizes(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<31)
	for version := range uint32(3) {
		for kind := range 256 {
			if kind == compressNone {
				continue
			}
			d := decompressor{version: version}
			for _, src := range [][]byte{nil, {0}, make([]byte, 20), append(slices.Clone(huge), "some bytes that are no stream"...), bytes.Repeat([]byte{0xff}, 32)} {
				out, err := d.decode(nil, src, byte(kind))
				if err == nil && len(out) > 0 || err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
					t.Errorf("version %d, type %d, %x: %d bytes, %v", version, kind, src, len(out), err)
				}
			}
		}
	}
}

// TestXXH32 uses the published values of the algorithm.
func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %#x instead of %#x", in, got, want)
		}
	}
	if got := checksum(checksumXXH64, []byte("abc")); got != uint32(xxhash.Sum64String("abc")) {
		t.Errorf("%#x", got)
	}
}

// TestDirectory reads from a store, with a directory among the files.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, data := range load(t, "testdata/cut/r8-xxh3") {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "lost"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := directory(t, dir)
	if _, ok := files["lost"]; ok || files["CURRENT"] == nil {
		t.Errorf("%v", slices.Sorted(maps.Keys(files)))
	}
	if open(t, dir).Families()[1].Name() != cutFamily {
		t.Error("no family")
	}
	if _, err := Directory(context.Background(), storage.NewLocal(storage.LocalOptions{}), filepath.ToSlash(dir)+"/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
