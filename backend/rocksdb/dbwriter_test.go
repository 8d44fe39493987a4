package rocksdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/storage"
	"pgregory.net/rapid"
)

// into creates files in m; a file is there when it is committed.
func into(m memory) CreateFunc {
	return func(_ context.Context, name string) (storage.Writer, error) {
		if _, ok := m[name]; ok {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrExist)
		}
		return &memoryWriter{m: m, name: name}, nil
	}
}

type memoryWriter struct {
	m    memory
	name string
	data []byte
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), nil
}

func (w *memoryWriter) Commit() error {
	w.m[w.name] = w.data
	return nil
}

func (w *memoryWriter) Abort() {}

// newWriter begins a database in memory.
func newWriter(t testing.TB, o WriterOptions) (*Writer, memory) {
	t.Helper()
	m := memory{}
	w, err := Create(context.Background(), into(m), o)
	if err != nil {
		t.Fatal(err)
	}
	return w, m
}

// checkWritten reads what was written: it must be sound, and hold these rows.
func checkWritten(t rapid.TB, m memory, list []Written, want map[string][]row) (tables int) {
	t.Helper()
	got, err := m.dump()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(got, want, slices.Equal[[]row]) {
		t.Fatalf("read %v, written %v", got, want)
	}
	db, err := Open(context.Background(), m.files(nil, nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := db.Verify(context.Background(), func(e *Error) { t.Errorf("Verify: %v", e) })
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, rows := range want {
		total += len(rows)
	}
	if n.Entries != uint64(total) {
		t.Errorf("%d entries, want %d", n.Entries, total)
	}
	names := map[string]bool{}
	for _, w := range list {
		if w.Size != int64(len(m[w.Name])) || w.Table != strings.HasSuffix(w.Name, ".sst") {
			t.Errorf("%+v, but it has %d bytes", w, len(m[w.Name]))
		}
		names[w.Name] = true
	}
	if len(names) != len(m) || len(list) != len(m) || n.Tables != len(m)-2 {
		t.Errorf("%d files told, %d tables live, %d files there", len(list), n.Tables, len(m))
	}
	return n.Tables
}

// TestWriteRandom writes rows of every shape, families by turns, and reads them.
func TestWriteRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memory{}
		w, err := Create(context.Background(), into(m), WriterOptions{
			BlockSize:     rapid.SampledFrom([]int{0, 1, 40, 300}).Draw(t, "block size"),
			TableSize:     rapid.SampledFrom([]int64{0, 1, 500, 3000}).Draw(t, "table size"),
			Compression:   rapid.SampledFrom([]Compression{Snappy, Uncompressed}).Draw(t, "compression"),
			MergeOperator: rapid.SampledFrom([]string{"", "StringAppendTESTOperator"}).Draw(t, "merge"),
		})
		if err != nil {
			t.Fatal(err)
		}
		// Few different bytes give keys that share much, keys that are the beginning of others among them.
		key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0xff}), 0, 40)
		value := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 20), rapid.Custom(func(t *rapid.T) []byte {
			return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(0, 10000).Draw(t, "length"))
		}))
		want := map[string][]row{"default": nil}
		var families []*FamilyWriter
		var left [][][]byte
		for _, name := range rapid.SliceOfNDistinct(rapid.OneOf(rapid.Just("default"), rapid.String()), 0, 4, rapid.ID).Draw(t, "families") {
			f, err := w.Family(name)
			if err != nil {
				t.Fatal(err)
			}
			keys := rapid.SliceOfNDistinct(key, 0, 60, func(k []byte) string { return string(k) }).Draw(t, "keys")
			slices.SortFunc(keys, bytes.Compare)
			families, left, want[name] = append(families, f), append(left, keys), nil
		}
		for slices.ContainsFunc(left, func(keys [][]byte) bool { return len(keys) > 0 }) {
			for i, f := range families {
				n := min(len(left[i]), rapid.IntRange(1, 20).Draw(t, "turn"))
				for _, k := range left[i][:n] {
					v := value.Draw(t, "value")
					if err := f.Add(k, v); err != nil {
						t.Fatal(err)
					}
					want[f.name] = append(want[f.name], row{hex.EncodeToString(k), hex.EncodeToString(v)})
				}
				left[i] = left[i][n:]
				if rapid.IntRange(0, 9).Draw(t, "finish") == 0 {
					if err := f.Finish(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		list, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		checkWritten(t, m, list, want)
	})
}

// TestWriteTables writes enough for many tables, finds rows by their bounds,
// and looks at what the tables say of themselves.
func TestWriteTables(t *testing.T) {
	for _, c := range []Compression{Snappy, Uncompressed} {
		w, m := newWriter(t, WriterOptions{TableSize: 20 << 10, Compression: c, MergeOperator: "op"})
		f, err := w.Family("names")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]row{"default": nil}
		for i := range 5000 {
			k := binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(i))
			v := fmt.Appendf(nil, "value %d of %x", i, i*i*7919)
			if err := f.Add(k, v); err != nil {
				t.Fatal(err)
			}
			want["names"] = append(want["names"], row{hex.EncodeToString(k), hex.EncodeToString(v)})
		}
		list, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if n := checkWritten(t, m, list, want); n < 4 {
			t.Errorf("only %d tables", n)
		}
		db, err := Open(context.Background(), m.files(nil, nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		family, _ := db.Family("names")
		for _, from := range []int{0, 1, 15, 16, 17, 2499, 4990} {
			b := Bounds{Lower: binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(from)), Upper: binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(from+10))}
			got, err := rows(family, b)
			if err != nil || !slices.Equal(got, want["names"][from:from+10]) {
				t.Errorf("from %d: %v, %v", from, got, err)
			}
		}
		name := map[Compression]string{Snappy: "Snappy", Uncompressed: "NoCompression"}[c]
		for file := range family.Files() {
			p, err := family.Properties(context.Background(), file)
			if err != nil {
				t.Fatal(err)
			}
			if p.FamilyName != "names" || p.Comparator != Bytewise || p.MergeOperator != "op" || p.Compression != name || p.FormatVersion != 2 {
				t.Errorf("%s: %+v", file.Name(), p)
			}
			if over := file.Size - 20<<10; over > 10<<10 {
				t.Errorf("%s has %d bytes", file.Name(), file.Size)
			}
		}
	}
}

// TestWriteSame writes the same rows twice: the same bytes.
func TestWriteSame(t *testing.T) {
	var files [2]memory
	for i := range files {
		w, m := newWriter(t, WriterOptions{})
		for _, name := range []string{"b", "a", ""} {
			f, err := w.Family(name)
			if err != nil {
				t.Fatal(err)
			}
			for j := range 1000 {
				if err := f.Add(binary.BigEndian.AppendUint16(nil, uint16(j)), []byte(name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		files[i] = m
	}
	if !maps.EqualFunc(files[0], files[1], bytes.Equal) {
		t.Error("other bytes for the same rows")
	}
}

// TestLogWriter writes records that end at each place near the end of a block.
func TestLogWriter(t *testing.T) {
	for n := logBlock - 40; n < logBlock+40; n++ {
		var b bytes.Buffer
		w := &logWriter{w: &b}
		want := [][]byte{bytes.Repeat([]byte{1}, n), {}, bytes.Repeat([]byte{2}, 3*logBlock), {3}, bytes.Repeat([]byte{4}, n)}
		for _, rec := range want {
			if err := w.add(rec); err != nil {
				t.Fatal(err)
			}
		}
		if w.off != int64(b.Len()) {
			t.Fatalf("%d bytes told of %d", w.off, b.Len())
		}
		l := &logReader{file: "log", r: &b, size: w.off}
		for i := 0; ; i++ {
			rec, _, ok, err := l.next()
			if err != nil {
				t.Fatalf("records of %d: %v", n, err)
			}
			if !ok && i == len(want) {
				break
			}
			if !ok || i == len(want) || !bytes.Equal(rec, want[i]) {
				t.Fatalf("records of %d: record %d is another", n, i)
			}
		}
	}
}

// TestWriteRefused asks for what is no database. The writer then takes no more.
func TestWriteRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *Writer, f *FamilyWriter) error
		want error
	}{
		{"lower key", func(_ *Writer, f *FamilyWriter) error { return f.Add([]byte("a"), nil) }, ErrOrder},
		{"same key", func(_ *Writer, f *FamilyWriter) error { return f.Add([]byte("b"), nil) }, ErrOrder},
		{"empty key", func(_ *Writer, f *FamilyWriter) error { return f.Add(nil, nil) }, ErrOrder},
		{"lower key in another table", func(_ *Writer, f *FamilyWriter) error {
			if err := f.Finish(); err != nil {
				return err
			}
			return f.Add([]byte("a"), nil)
		}, ErrOrder},
		{"large value", func(_ *Writer, f *FamilyWriter) error { return f.Add([]byte("c"), make([]byte, MaxEntry)) }, ErrTooLarge},
		{"large key", func(_ *Writer, f *FamilyWriter) error { return f.Add(make([]byte, MaxEntry+1), nil) }, ErrTooLarge},
		{"family twice", func(w *Writer, _ *FamilyWriter) error { _, err := w.Family("f"); return err }, fs.ErrExist},
		{"default twice", func(w *Writer, _ *FamilyWriter) error {
			if _, err := w.Family("default"); err != nil {
				return err
			}
			_, err := w.Family("default")
			return err
		}, fs.ErrExist},
		{"after Finish", func(w *Writer, f *FamilyWriter) error {
			if _, err := w.Finish(); err != nil {
				return err
			}
			return f.Add([]byte("c"), nil)
		}, fs.ErrClosed},
		{"after Abort", func(w *Writer, f *FamilyWriter) error {
			w.Abort()
			return f.Add([]byte("c"), nil)
		}, fs.ErrClosed},
	} {
		w, m := newWriter(t, WriterOptions{})
		f, err := w.Family("f")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add([]byte("b"), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.do(w, f); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		_, finished := m["CURRENT"]
		if err := f.Add([]byte("z"), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: then Add: %v", c.name, err)
		}
		if _, err := w.Family("z"); !errors.Is(err, c.want) {
			t.Errorf("%s: then Family: %v", c.name, err)
		}
		if list, err := w.Finish(); !errors.Is(err, c.want) || list != nil {
			t.Errorf("%s: then Finish: %v, %v", c.name, list, err)
		}
		w.Abort()
		if _, ok := m["CURRENT"]; ok != finished {
			t.Errorf("%s: it was finished in spite of an error", c.name)
		}
	}
	for _, o := range []WriterOptions{
		{BlockSize: -1}, {BlockSize: maxSize + 1}, {TableSize: -1}, {TableSize: maxSize + 1}, {Compression: Uncompressed + 1},
	} {
		if _, err := Create(context.Background(), into(memory{}), o); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

var errFault = errors.New("fault")

// faulty is a store of which the operation fail fails; it minds that each
// file is committed or aborted.
type faulty struct {
	memory
	ops, fail, open int
}

func (s *faulty) op() error {
	s.ops++
	if s.ops == s.fail {
		return errFault
	}
	return nil
}

func (s *faulty) create(_ context.Context, name string) (storage.Writer, error) {
	if err := s.op(); err != nil {
		return nil, err
	}
	s.open++
	return &faultyWriter{memoryWriter{m: s.memory, name: name}, s, true}, nil
}

type faultyWriter struct {
	memoryWriter
	s    *faulty
	open bool
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if err := w.s.op(); err != nil {
		return 0, err
	}
	return w.memoryWriter.Write(p)
}

func (w *faultyWriter) Commit() error {
	if err := w.s.op(); err != nil {
		return err
	}
	w.Abort()
	return w.memoryWriter.Commit()
}

func (w *faultyWriter) Abort() {
	if w.open {
		w.s.open--
	}
	w.open = false
}

// TestWriteFaults lets each operation on the store fail once.
func TestWriteFaults(t *testing.T) {
	write := func(s *faulty) ([]Written, error) {
		w, err := Create(context.Background(), s.create, WriterOptions{TableSize: 100 << 10, Compression: Uncompressed})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		var families []*FamilyWriter
		for _, name := range []string{"a", "b"} {
			f, err := w.Family(name)
			if err != nil {
				return nil, err
			}
			families = append(families, f)
		}
		value := make([]byte, 10<<10)
		for i := range 30 {
			for _, f := range families {
				if err := f.Add([]byte{byte(i)}, value); err != nil {
					if _, again := w.Finish(); again != err {
						t.Errorf("Finish after %v: %v", err, again)
					}
					return nil, err
				}
			}
		}
		return w.Finish()
	}
	whole := &faulty{memory: memory{}}
	if list, err := write(whole); err != nil || len(list) != 8 || whole.open != 0 {
		t.Fatalf("%v, %v; %d files open", list, err, whole.open)
	}
	for n := 1; n <= whole.ops; n++ {
		s := &faulty{memory: memory{}, fail: n}
		list, err := write(s)
		if !errors.Is(err, errFault) || list != nil {
			t.Errorf("operation %d fails: %v, %v", n, list, err)
		}
		if _, ok := s.memory["CURRENT"]; ok || s.open != 0 {
			t.Errorf("operation %d fails: CURRENT is there, or %d files are open", n, s.open)
		}
	}
	t.Logf("%d operations", whole.ops)
}

// TestWriteCancelled ends the context: the next block is an error.
func TestWriteCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := memory{}
	w, err := Create(ctx, into(m), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Family("f")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add([]byte{1}, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := f.Add([]byte{2}, make([]byte, 5000)); !errors.Is(err, context.Canceled) {
		t.Errorf("Add: %v", err)
	}
	if _, err := w.Finish(); !errors.Is(err, context.Canceled) || len(m) != 0 {
		t.Errorf("Finish: %v; files %v", err, m)
	}
}

// nowhere takes files and keeps nothing.
type nowhere struct{ n *int64 }

func (w nowhere) Write(p []byte) (int, error) { *w.n += int64(len(p)); return len(p), nil }
func (nowhere) Commit() error                 { return nil }
func (nowhere) Abort()                        {}

func toNowhere(n *int64) CreateFunc {
	return func(context.Context, string) (storage.Writer, error) { return nowhere{n}, nil }
}

// TestWriteMemory writes much: what is allocated in all does not grow with it
// but for what each table and the index take.
func TestWriteMemory(t *testing.T) {
	var n int64
	w, err := Create(context.Background(), toNowhere(&n), WriterOptions{TableSize: 16 << 20, Compression: Uncompressed})
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Family("f")
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	key, value := make([]byte, 8), make([]byte, 1000)
	for i := range 100000 {
		binary.BigEndian.PutUint64(key, uint64(i))
		if err := f.Add(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if total := after.TotalAlloc - before.TotalAlloc; n < 100_000_000 || total > 10<<20 {
		t.Errorf("%d bytes allocated for %d written", total, n)
	}
}

// BenchmarkWrite measures keys and values as states have them; MB/s are those of keys and values.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []Compression{Snappy, Uncompressed} {
		b.Run(map[Compression]string{Snappy: "snappy", Uncompressed: "none"}[c], func(b *testing.B) {
			var n int64
			w, err := Create(context.Background(), toNowhere(&n), WriterOptions{Compression: c})
			if err != nil {
				b.Fatal(err)
			}
			f, err := w.Family("f")
			if err != nil {
				b.Fatal(err)
			}
			key, value := []byte("\x00\x01\x0a0000000000\x01"), make([]byte, 60)
			b.SetBytes(int64(len(key) + len(value)))
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i++
				for d, x := len(key)-2, i; d > 2; d, x = d-1, x/10 {
					key[d] = byte('0' + x%10)
				}
				binary.LittleEndian.PutUint64(value[20:], i*0x9e3779b97f4a7c15)
				binary.LittleEndian.PutUint64(value[40:], i*i*0x9e3779b97f4a7c15)
				if err := f.Add(key, value); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := w.Finish(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
