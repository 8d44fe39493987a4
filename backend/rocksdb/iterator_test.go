package rocksdb

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestBounds compares scans between random bounds with parts of a whole scan.
func TestBounds(t *testing.T) {
	for _, dir := range testdata(t) {
		m := load(t, dir)
		db, err := Open(context.Background(), m.files(nil, nil), Options{Merge: merge, ReadAhead: 4 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range db.Families() {
			all, err := rows(f, Bounds{})
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 {
				continue
			}
			bound := rapid.Custom(func(t *rapid.T) []byte {
				key, _ := hex.DecodeString(all[rapid.IntRange(0, len(all)-1).Draw(t, "row")].key)
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					return nil
				case 1:
					return append(key, 0)
				case 2:
					return key[:len(key)/2]
				case 3:
					return rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes")
				}
				return key
			})
			rapid.Check(t, func(rt *rapid.T) {
				b := Bounds{bound.Draw(rt, "lower"), bound.Draw(rt, "upper")}
				lower, upper := hex.EncodeToString(b.Lower), hex.EncodeToString(b.Upper)
				from := sort.Search(len(all), func(i int) bool { return all[i].key >= lower })
				to := len(all)
				if b.Upper != nil {
					to = sort.Search(len(all), func(i int) bool { return all[i].key >= upper })
				}
				got, err := rows(f, b)
				if err != nil {
					rt.Fatal(err)
				}
				if want := all[from:max(from, to)]; !slices.Equal(got, want) {
					rt.Fatalf("%s: %q: %d rows, want %d", dir, f.Name(), len(got), len(want))
				}
			})
		}
	}
}

// TestReadsLittle checks that a scan of one row reads little more than its block.
func TestReadsLittle(t *testing.T) {
	m := load(t, shared(t, "rocksdb", "r8", "none"))
	read, opened := 0, 0
	db, err := Open(context.Background(), m.files(&read, &opened), Options{Merge: merge})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := db.Family("value-state")
	all, err := rows(f, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	whole := read
	key, _ := hex.DecodeString(all[len(all)/2].key)
	read = 0
	got, err := rows(f, Bounds{key, append(bytes.Clone(key), 0)})
	if err != nil || len(got) != 1 || got[0] != all[len(all)/2] {
		t.Errorf("%v, %v", got, err)
	}
	if read > whole/2 {
		t.Errorf("%d bytes read for one row, %d for all", read, whole)
	}
	t.Logf("%d bytes read for one row, %d for all", read, whole)

	it := f.Iter(context.Background(), Bounds{})
	it.Next()
	it.Close()
	it.Close()
	if it.Next() || it.Err() != nil || opened != 0 {
		t.Errorf("after Close: %v, %d objects open", it.Err(), opened)
	}
}

func TestNoMerge(t *testing.T) {
	m := load(t, "testdata/whole/r8-atomic")
	db, err := Open(context.Background(), m.files(nil, nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, f := range db.Families() {
		if _, err := rows(f, Bounds{}); err != nil {
			failed = err
		}
	}
	if !errors.Is(failed, ErrNoMerge) {
		t.Errorf("%v is not ErrNoMerge", failed)
	}
	boom := errors.New("boom")
	db, _ = Open(context.Background(), m.files(nil, nil), Options{Merge: func(_, _, _ []byte, _ bool, _ [][]byte) ([]byte, error) { return nil, boom }})
	failed = nil
	for _, f := range db.Families() {
		if _, err := rows(f, Bounds{}); err != nil {
			failed = err
		}
	}
	if !errors.Is(failed, boom) {
		t.Errorf("%v is not the merge's error", failed)
	}
}

func TestCancelled(t *testing.T) {
	db, err := Open(context.Background(), load(t, "testdata/cut/r8-xxh3").files(nil, nil), Options{Merge: merge})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := db.Family(cutFamily)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	it := f.Iter(ctx, Bounds{})
	if it.Next() || !errors.Is(it.Err(), context.Canceled) {
		t.Errorf("%v", it.Err())
	}
}

func TestStringAppend(t *testing.T) {
	for _, c := range []struct {
		base     []byte
		has      bool
		operands string
		want     string
	}{
		{nil, false, "a", "a"},
		{nil, false, "a|b", "a,b"},
		{nil, false, "|", ","},
		{[]byte{}, true, "a", ",a"},
		{[]byte("x"), true, "a|", "x,a,"},
	} {
		var operands [][]byte
		for o := range strings.SplitSeq(c.operands, "|") {
			operands = append(operands, []byte(o))
		}
		got, err := merge([]byte("dst:"), nil, c.base, c.has, operands)
		if err != nil || string(got) != "dst:"+c.want {
			t.Errorf("%q %v %q: %q, %v", c.base, c.has, c.operands, got, err)
		}
	}
}

// TestConcurrent scans one DB from several goroutines, and looks at what it says of itself.
func TestConcurrent(t *testing.T) {
	db := open(t, "testdata/whole/r8-atomic")
	want := readDump(t, "testdata/whole/r8-atomic.dump.gz")
	if db.Manifest() != "MANIFEST-000005" || db.LastSequence() == 0 {
		t.Errorf("%s, last sequence %d", db.Manifest(), db.LastSequence())
	}
	var wg sync.WaitGroup
	for range 4 {
		for _, f := range db.Families() {
			if f.Comparator() != Bytewise || (f.ID() == 0) != (f.Name() == "default") {
				t.Errorf("family %d, %q, comparator %q", f.ID(), f.Name(), f.Comparator())
			}
			wg.Go(func() {
				if got, err := rows(f, Bounds{}); err != nil || !slices.Equal(got, want[f.Name()]) {
					t.Errorf("%q: %d rows, %v", f.Name(), len(got), err)
				}
			})
		}
	}
	wg.Wait()
}

// TestProperties looks at what tables say of themselves.
func TestProperties(t *testing.T) {
	for dir, version := range map[string]uint32{"r5-fmt0": 0, "r6-levels": 5, "r8-fmt6lz4part": 6} {
		db := open(t, "testdata/cut/"+dir)
		f, _ := db.Family(cutFamily)
		n := 0
		for file := range f.Files() {
			p, err := f.Properties(context.Background(), file)
			if err != nil {
				t.Fatal(err)
			}
			n++
			if p.FormatVersion != version || p.FamilyName != cutFamily || p.Comparator != Bytewise || p.Entries == 0 ||
				p.MergeOperator != "StringAppendTESTOperator" || bytes.Compare(file.Smallest(), file.Largest()) > 0 {
				t.Errorf("%s: %+v", dir, p)
			}
		}
		if n == 0 {
			t.Error("no files")
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, name := range []string{"r6/lz4", "r6/zstd", "r6/fmt5", "r8/default", "r8/none", "r6/crcnone"} {
		b.Run(name, func(b *testing.B) {
			m := load(b, shared(b, "rocksdb", name))
			db, err := Open(context.Background(), m.files(nil, nil), Options{Merge: merge})
			if err != nil {
				b.Fatal(err)
			}
			size := int64(0)
			for _, f := range db.Families() {
				for file := range f.Files() {
					p, err := f.Properties(context.Background(), file)
					if err != nil {
						b.Fatal(err)
					}
					size += int64(p.RawKeySize + p.RawValueSize)
				}
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				for _, f := range db.Families() {
					it := f.Iter(context.Background(), Bounds{})
					for it.Next() {
						_ = it.Value()
					}
					if it.Err() != nil {
						b.Fatal(it.Err())
					}
				}
			}
		})
	}
}
