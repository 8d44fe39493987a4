package interop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/storage"
)

// tally is what was written to a column family: rows, and a digest of keys
// and values with their lengths.
type tally struct {
	rows int
	sum  hash.Hash
}

func (y *tally) add(key, value []byte) {
	y.rows++
	for _, b := range [][]byte{key, value} {
		y.sum.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		y.sum.Write(b)
	}
}

func (y *tally) String() string { return fmt.Sprintf("%d\t%x", y.rows, y.sum.Sum(nil)[:16]) }

// writeRocksDB writes a database of many shapes of rows, and gives what each column family holds.
func writeRocksDB(t *testing.T, dir string, o rocksdb.WriterOptions) map[string]string {
	t.Helper()
	store := storage.NewLocal(storage.LocalOptions{})
	w, err := rocksdb.Create(t.Context(), func(ctx context.Context, name string) (storage.Writer, error) {
		return store.Create(ctx, filepath.ToSlash(filepath.Join(dir, name)), storage.CreateOptions{})
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(32)) // few enough, so that it can be compressed a bit
		}
		return b
	}
	held := map[string]string{"default": (&tally{sum: sha256.New()}).String()}
	family := func(name string, rows int, row func(i int) (key, value []byte)) {
		y := &tally{sum: sha256.New()}
		f, err := w.Family(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			k, v := row(i)
			if err := f.Add(k, v); err != nil {
				t.Fatal(err)
			}
			y.add(k, v)
		}
		if err := f.Finish(); err != nil {
			t.Fatal(err)
		}
		held[name] = y.String()
	}
	number := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte{byte(i >> 10)}, uint32(i)) }
	family("values", 6000, func(i int) ([]byte, []byte) { return number(i), random(r.IntN(60)) })
	family("empty", 0, nil)
	family("one row", 1, func(int) ([]byte, []byte) { return []byte{0, 1, 2}, []byte("value") })
	family("large values", 12, func(i int) ([]byte, []byte) { return number(i), random(30000 * i) })
	family("large keys", 12, func(i int) ([]byte, []byte) { return append(number(i), random(3000*i)...), number(i) })
	family("no values", 1000, func(i int) ([]byte, []byte) { return number(i), nil })
	family("Zähler-状態", 1000, func(i int) ([]byte, []byte) { return fmt.Appendf(nil, "\x00long common beginning/%06d", i), number(i) })
	family("_timer_state/event_timers", 500, func(i int) ([]byte, []byte) { return number(i), []byte{} })
	family("lists", 500, func(i int) ([]byte, []byte) { return number(i), []byte(strings.Repeat("element,", i%9) + "element") })
	family("compressible", 300, func(i int) ([]byte, []byte) { return number(i), make([]byte, 3000) })
	family("prefixes", 700, func(i int) ([]byte, []byte) { return make([]byte, i), number(i) }) // from the empty key on
	list, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range list {
		size += f.Size
	}
	t.Logf("%d files, %d bytes", len(list), size)
	return held
}

// TestRocksDB lets the RocksDB of several releases of Flink work with what the
// writer wrote, and reads the checkpoint that it then takes.
func TestRocksDB(t *testing.T) {
	options := map[string]rocksdb.WriterOptions{
		"default": {MergeOperator: "StringAppendTESTOperator"},
		"small":   {BlockSize: 200, TableSize: 100 << 10},
		"plain":   {Compression: rocksdb.Uncompressed, TableSize: 200 << 10},
		"large":   {BlockSize: 1 << 20},
	}
	stages := []string{"opened", "worked", "compacted", "reopened", "checkpoint", "rescaled"}
	for _, v := range []flink{"1.8.3", "1.12.7", "1.20.5", "2.3.0"} {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			dirs, want, names := []string{}, map[string]bool{}, map[string]map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(options)) {
				dir := filepath.Join(t.TempDir(), name)
				held := writeRocksDB(t, dir, options[name])
				dirs, names[dir] = append(dirs, dir), held
				for family, y := range held {
					for _, stage := range stages {
						if stage == "rescaled" {
							if v != "2.3.0" {
								continue
							}
							family = strings.Replace(family, "default", "imported default", 1)
						}
						want[strings.Join([]string{dir, stage, family, y}, "\t")] = true
					}
				}
			}
			out, err := command(t, nil, "./rocksdb/run.sh", append([]string{string(v)}, dirs...)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, tail(out))
			}
			verified := 0
			for line := range strings.Lines(out) {
				line = strings.TrimSpace(line)
				switch {
				case strings.HasSuffix(line, "\tverified"):
					verified++
				case !want[line]:
					t.Errorf("RocksDB says %q", line)
				}
				delete(want, line)
			}
			if len(want) > 0 {
				t.Errorf("RocksDB does not say %q", slices.Sorted(maps.Keys(want)))
			}
			if n := 2 * len(dirs); verified != n && !v.old() {
				t.Errorf("RocksDB verified %d directories, want %d", verified, n)
			}
			for dir, held := range names {
				readRocksDB(t, dir+".checkpoint", held)
			}
		})
	}
}

// readRocksDB reads a database with the reader.
func readRocksDB(t *testing.T, dir string, held map[string]string) {
	t.Helper()
	files, err := rocksdb.Directory(t.Context(), storage.NewLocal(storage.LocalOptions{}), filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	db, err := rocksdb.Open(t.Context(), files, rocksdb.Options{Merge: rocksdb.StringAppend(",")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Verify(t.Context(), func(e *rocksdb.Error) { t.Errorf("%s: %v", dir, e) }); err != nil {
		t.Fatal(err)
	}
	if n := len(db.Families()); n != len(held) {
		t.Errorf("%s: %d column families, want %d", dir, n, len(held))
	}
	for _, f := range db.Families() {
		y := &tally{sum: sha256.New()}
		it := f.Iter(t.Context(), rocksdb.Bounds{})
		for it.Next() {
			y.add(it.Key(), it.Value())
		}
		if err := it.Err(); err != nil || y.String() != held[f.Name()] {
			t.Errorf("%s: %q: %s, %v; want %s", dir, f.Name(), y, err, held[f.Name()])
		}
	}
}
