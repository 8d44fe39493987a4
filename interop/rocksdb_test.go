package interop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
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
// writer and the state backends wrote, and reads the checkpoint that it then takes.
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
			expect := func(dir string, held map[string]string) {
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
			for _, name := range slices.Sorted(maps.Keys(options)) {
				dir := filepath.Join(t.TempDir(), name)
				expect(dir, writeRocksDB(t, dir, options[name]))
			}
			for _, kind := range []string{"heap", "pebble"} {
				dir := filepath.Join(t.TempDir(), kind)
				expect(dir, writeBackend(t, kind, dir))
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

// writeBackend has a state backend write a database of several tables for most states, and gives what each column family holds.
func writeBackend(t *testing.T, kind, dir string) map[string]string {
	t.Helper()
	const groups = 128
	all := keygroup.RangeOf(0, groups, 1)
	var b backend.Keyed[string]
	var err error
	if kind == "heap" {
		b, err = heap.Open(serializer.ForString(), heap.Options[string]{MaxParallelism: groups, KeyGroups: all})
	} else {
		b, err = pebble.Open(serializer.ForString(), pebble.Options[string]{MaxParallelism: groups, KeyGroups: all, Dir: filepath.Join(t.TempDir(), "db")})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	none, window := serializer.ForVoidNamespace(), serializer.ForTimeWindow()
	value, errV := state.OpenValue(b, backend.Descriptor[struct{}, []byte]{Name: "value", Namespace: none, Value: serializer.ForBytes()})
	aged, errA := state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "aged", Namespace: none, Value: serializer.ForLong(), TTL: &backend.TTL{After: time.Hour}})
	list, errL := state.OpenList(b, backend.Descriptor[serializer.Window, string]{Name: "list", Namespace: window, Value: serializer.ForString()})
	table, errM := state.OpenMap(b, backend.MapDescriptor[struct{}, int64, string]{Name: "map", Namespace: none, UserKey: serializer.ForLong(), Value: serializer.ForString()})
	sum, errR := state.OpenReducing(b, backend.ReducingDescriptor[struct{}, int64]{
		Descriptor: backend.Descriptor[struct{}, int64]{Name: "sum", Namespace: none, Value: serializer.ForLong()},
		Reduce:     func(a, b int64) (int64, error) { return a + b, nil },
	})
	timers, errT := state.OpenTimers(b, backend.TimersDescriptor[serializer.Window]{Service: "timers", Namespace: window})
	if err := errors.Join(errV, errA, errL, errM, errR, errT); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		w := serializer.Window{Start: int64(i % 7), End: int64(i%7) + 10}
		list.SetNamespace(w)
		v := make([]byte, r.IntN(200))
		for j := range v {
			v[j] = byte(r.IntN(64))
		}
		err := errors.Join(b.SetKey(fmt.Sprint("key ", i)), value.Set(v), aged.Set(int64(i)), list.Add(string(v[:len(v)/2]), ","), list.Add("x"),
			sum.Add(int64(i)), sum.Add(1), timers.Register(w, int64(r.IntN(1000)-500)), timers.Register(w, int64(i)))
		for u := range i % 5 {
			err = errors.Join(err, table.Put(int64(u), fmt.Sprint(r.Uint64(), r.Uint64())))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, held := map[string][][2]string{}, map[string]string{"default": (&tally{sum: sha256.New()}).String()}
	for e, err := range b.Entries("", all) {
		if err != nil {
			t.Fatal(err)
		}
		name := e.State.Meta.Name
		key := e.AppendStoredKey(backend.AppendKeyGroup(nil, e.KeyGroup, groups))
		rows[name] = append(rows[name], [2]string{string(key), string(e.AppendStoredValue(nil))})
	}
	for name, list := range rows {
		slices.SortFunc(list, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		y := &tally{sum: sha256.New()}
		for _, row := range list {
			y.add([]byte(row[0]), []byte(row[1]))
		}
		held[name] = y.String()
	}

	s, err := b.Snapshot(7, backend.SnapshotOptions{Format: backend.FormatRocksDB, TableSize: 50 << 10})
	if err != nil {
		t.Fatal(err)
	}
	store := storage.NewLocal(storage.LocalOptions{})
	chk := filepath.ToSlash(t.TempDir())
	h, err := s.Write(t.Context(), backend.Target{FS: store, Dir: chk})
	if err != nil {
		t.Fatal(err)
	}
	// RocksDB finds the files by the names that the handle gives them.
	tables := 0
	for _, list := range [][]metadata.LocalFile{h.(*metadata.Incremental).Shared, h.(*metadata.Incremental).Private} {
		for _, f := range list {
			o, err := (backend.Files{FS: store, Dir: chk}).Open(t.Context(), f.Stream)
			if err != nil {
				t.Fatal(err)
			}
			content := make([]byte, o.Size())
			if _, err := o.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			o.Close()
			if err := storage.WriteFile(t.Context(), store, filepath.ToSlash(filepath.Join(dir, f.LocalName.String())), content, storage.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(f.LocalName.String(), ".sst") {
				tables++
			}
		}
	}
	if tables < 2*len(rows) {
		t.Errorf("%s: only %d tables", kind, tables)
	}
	t.Logf("%s: %d tables", kind, tables)
	return held
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
