package rewrite

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/keygroup"
)

type sorted struct {
	group, state int
	key, value   string
}

// TestSorter: whatever the entries and the memory are, they come by key group, state and key, equal ones as they were added; also from a
// sorter that was used before.
func TestSorter(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		groups := keygroup.Range{Start: rapid.IntRange(0, 3).Draw(t, "start")}
		groups.End = groups.Start + rapid.IntRange(0, 40).Draw(t, "more")
		limit := rapid.SampledFrom([]int64{1, 4 << 10, 20 << 10, 1 << 20}).Draw(t, "limit")
		// Keys with much in common, of which some begin others; and zeros, which are behind a key that ends, too.
		part := rapid.SampledFrom([]string{"", "\x00", "a", "\xff", "\x00\x00\x00", "the same beginning of sixteen", string(make([]byte, 3000))})
		key := rapid.Custom(func(t *rapid.T) string {
			return part.Draw(t, "a") + part.Draw(t, "b") + string(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "c"))
		})
		sorters := make([]*sorter, rapid.IntRange(1, 3).Draw(t, "sorters"))
		for i := range sorters {
			sorters[i] = newSorter(limit, dir, 1)
			defer sorters[i].close()
		}
		var m merger
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			for _, s := range sorters {
				s.reset(groups)
			}
			by := make([][]sorted, len(sorters))
			entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sorted {
				return sorted{rapid.IntRange(groups.Start, groups.End).Draw(t, "group"), rapid.IntRange(0, 2).Draw(t, "state"), key.Draw(t, "key"), part.Draw(t, "value")}
			}), 0, 300).Draw(t, "entries")
			for i, e := range entries {
				e.value = fmt.Sprint(i, e.value)
				n := i % len(sorters)
				by[n] = append(by[n], e)
				if err := sorters[n].add(e.group, e.state, []byte(e.key), []byte(e.value)); err != nil {
					t.Fatal(err)
				}
			}
			want := slices.Concat(by...)
			slices.SortStableFunc(want, func(a, b sorted) int { return cmp.Or(a.group-b.group, a.state-b.state, cmp.Compare(a.key, b.key)) })
			var got []sorted
			for g := groups.Start; g <= groups.End; g++ {
				if err := m.merge(sorters, g, 8<<10, func(state int, key, value []byte) error {
					got = append(got, sorted{g, state, string(key), string(value)})
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %+v\nwant %+v", got, want)
			}
		}
	})
}

// TestSorterMany: key groups that are sorted by bytes, not by comparing.
func TestSorterMany(t *testing.T) {
	const n = 5000
	for name, key := range map[string]func(i int) string{
		"numbers": func(i int) string {
			return string([]byte{0, 0, 0, 0, byte(i * 7919 >> 16), byte(i * 7919 >> 8), byte(i * 7919), 0})
		},
		"ascending":       func(i int) string { return fmt.Sprintf("%08d", i) },
		"long beginnings": func(i int) string { return fmt.Sprintf("%s%020d", bytes.Repeat([]byte{'x'}, i%3*40), i*7919%n) },
		"few of them":     func(i int) string { return fmt.Sprint("key", i*7919%11) },
		"zeros":           func(i int) string { return string(make([]byte, i*7919%97)) },
	} {
		for _, limit := range []int64{40 << 10, 64 << 20} {
			s := newSorter(limit, t.TempDir(), 1)
			s.reset(keygroup.Range{Start: 5, End: 6})
			var want []sorted
			for i := range n {
				e := sorted{5 + i%2, 0, key(i), fmt.Sprint(i)}
				want = append(want, e)
				if err := s.add(e.group, e.state, []byte(e.key), []byte(e.value)); err != nil {
					t.Fatal(err)
				}
			}
			slices.SortStableFunc(want, func(a, b sorted) int { return cmp.Or(a.group-b.group, cmp.Compare(a.key, b.key)) })
			var m merger
			var got []sorted
			for g := 5; g <= 6; g++ {
				if err := m.merge([]*sorter{s}, g, 1<<20, func(state int, key, value []byte) error {
					got = append(got, sorted{g, state, string(key), string(value)})
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, memory of %d: not in order", name, limit)
			}
			if spills := s.spilled > 0; spills != (limit < 1<<20) {
				t.Errorf("%s, memory of %d: %d bytes spilled", name, limit, s.spilled)
			}
			s.close()
		}
	}
}

// TestSorterMemory: chunks, free ones too, and what sorting the largest key group takes stay within the limit, whether entries are of all
// key groups or of one.
func TestSorterMemory(t *testing.T) {
	const limit = 1 << 20
	s := newSorter(limit, t.TempDir(), 2)
	defer s.close()
	s.reset(keygroup.Range{End: 127})
	for i := range 200_000 {
		group := i % 128
		if i > 100_000 {
			group = 77
		}
		if err := s.add(group, 0, fmt.Appendf(nil, "key %d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if held := s.used + int64(len(s.free)*s.chunk) + int64(2*s.most*orderBytes); held > limit+int64(2*orderBytes*s.chunk/len("headkey 0value")) { // a chunk is filled before the next look
			t.Fatalf("after %d entries: %d bytes are held", i+1, held)
		}
	}
	if len(s.runs) < 2 {
		t.Errorf("%d runs", len(s.runs))
	}
}

// TestSorterDamage: a temporary file that lost bytes is an error.
func TestSorterDamage(t *testing.T) {
	s := newSorter(1, t.TempDir(), 1)
	defer s.close()
	s.reset(keygroup.Range{End: 0})
	for i := range 100 {
		if err := s.add(0, 0, fmt.Appendf(nil, "key %d", i), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.file.Truncate(s.size / 2); err != nil {
		t.Fatal(err)
	}
	var m merger
	if err := m.merge([]*sorter{s}, 0, 1<<20, func(int, []byte, []byte) error { return nil }); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(s.file.Name()); err == nil {
		t.Error("the temporary file has a name")
	}
}
