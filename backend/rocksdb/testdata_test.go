package rocksdb

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "make testdata/cut from the shared fixtures")

// whole are checkpoints that are in testdata as they are, except for OPTIONS.
var whole = []string{"r6-ingest", "r8-atomic"}

// cuts are checkpoints of which testdata/cut has one family: its tables as
// they are, and a MANIFEST that names only them.
var cuts = []string{
	"r5-fmt0", "r5-zlib", "r5-lz4", "r5-zstd", "r5-partitioned",
	"r6-hashidx", "r6-partitioned", "r6-zstddict", "r6-levels",
	"r8-fmt6lz4part", "r8-firstkey", "r8-xxh3", "r8-crcnone",
}

const cutFamily = "ünïcode state"

// testdata lists the checkpoints that are checked in, each with its dump beside it.
func testdata(t testing.TB) []string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"testdata/whole/*.dump.gz", "testdata/cut/*.dump.gz"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			dirs = append(dirs, strings.TrimSuffix(f, ".dump.gz"))
		}
	}
	if len(dirs) != len(whole)+len(cuts) {
		t.Fatalf("%d checkpoints in testdata", len(dirs))
	}
	return dirs
}

// TestTestdata reads the checkpoints that are checked in.
func TestTestdata(t *testing.T) {
	if *update {
		makeTestdata(t)
	}
	for _, dir := range testdata(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if n := compareDump(t, open(t, dir), readDump(t, dir+".dump.gz")); n == 0 {
				t.Error("no rows")
			}
		})
	}
}

// appendRecord appends a record of a log that begins at a multiple of its block.
func appendRecord(log, rec []byte) []byte {
	for first := true; first || len(rec) > 0; first = false {
		if left := logBlock - len(log)%logBlock; left < logHeader {
			log = append(log, make([]byte, left)...)
		}
		n := min(len(rec), logBlock-len(log)%logBlock-logHeader)
		last := n == len(rec)
		typ := byte(logMiddle)
		switch {
		case first && last:
			typ = logFull
		case first:
			typ = logFirst
		case last:
			typ = logLast
		}
		body := append([]byte{typ}, rec[:n]...)
		log = binary.LittleEndian.AppendUint32(log, mask(crc32.Checksum(body, castagnoli)))
		log = binary.LittleEndian.AppendUint16(log, uint16(n))
		log = append(log, body...)
		rec = rec[n:]
	}
	return log
}

func appendLP(b []byte, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendKey(b []byte, k ikey) []byte {
	return appendLP(b, binary.LittleEndian.AppendUint64(slices.Clone(k.user), k.trailer))
}

// encodeManifest writes a MANIFEST of some families.
func encodeManifest(lastSequence uint64, families ...*Family) []byte {
	uv := binary.AppendUvarint
	rec := appendLP(uv(nil, tagComparator), []byte(Bytewise))
	rec = uv(uv(rec, tagNextFile), 1<<20)
	rec = uv(uv(rec, tagLastSequence), lastSequence)
	log := appendRecord(nil, rec)
	for _, f := range families {
		rec := uv(uv(nil, tagFamilyID), uint64(f.id))
		rec = appendLP(uv(rec, tagComparator), []byte(f.comparator))
		if f.id != 0 {
			rec = appendLP(uv(rec, tagFamilyAdd), []byte(f.name))
		}
		log = appendRecord(log, rec)
		rec = uv(uv(nil, tagFamilyID), uint64(f.id))
		for _, file := range f.files {
			rec = uv(rec, tagNewFile2)
			rec = uv(uv(uv(rec, uint64(file.Level)), file.Number), uint64(file.Size))
			rec = appendKey(appendKey(rec, file.smallest), file.largest)
			rec = uv(uv(rec, file.SmallestSequence), file.LargestSequence)
		}
		log = appendRecord(log, rec)
	}
	return log
}

func makeTestdata(t *testing.T) {
	root := shared(t, "rocksdb")
	write := func(file string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll("testdata/whole"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll("testdata/cut"); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(whole, cuts) {
		from := filepath.Join(root, filepath.FromSlash(strings.Replace(name, "-", "/", 1)))
		db, dump := open(t, from), readDump(t, from+".dump.gz")
		to := filepath.Join("testdata", "cut", name)
		families, all := db.Families(), slices.Contains(whole, name)
		if all {
			to = filepath.Join("testdata", "whole", name)
		} else {
			f, ok := db.Family(cutFamily)
			if !ok {
				t.Fatalf("%s: no family %q", name, cutFamily)
			}
			families = []*Family{f}
		}
		copyFile := func(file string) {
			data, err := os.ReadFile(filepath.Join(from, file))
			if err != nil {
				t.Fatal(err)
			}
			write(filepath.Join(to, file), data)
		}
		copyFile("CURRENT")
		if all {
			copyFile(db.Manifest())
		} else {
			write(filepath.Join(to, db.Manifest()), encodeManifest(db.LastSequence(), families...))
			dump = map[string][]row{cutFamily: dump[cutFamily], "default": nil}
		}
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
		for _, f := range db.Families() {
			list, ok := dump[f.Name()]
			if !ok {
				continue
			}
			for _, r := range list {
				fmt.Fprintf(z, "%s\t%s\t%s\n", f.Name(), r.key, r.value)
			}
			fmt.Fprintf(z, "#cf\t%s\t%d\t\n", f.Name(), len(list))
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for file := range f.Files() {
				copyFile(file.Name())
			}
		}
		write(to+".dump.gz", out.Bytes())
	}
}
