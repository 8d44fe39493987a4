package pebble

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// However the database groups what was added to a list, it gets the same: all of it, or that it is too much.
func TestListMerger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 20
		operands := rapid.SliceOfN(rapid.StringMatching("[a-c]{0,8}"), 1, 8).Draw(t, "operands")
		var merge func(list []string) string
		merge = func(list []string) string {
			if len(list) == 1 {
				return list[0]
			}
			parts := list
			if rapid.Bool().Draw(t, "grouped") {
				i := rapid.IntRange(1, len(list)-1).Draw(t, "at")
				parts = []string{merge(list[:i]), merge(list[i:])}
			}
			// It begins with one of them, and takes up older and newer ones by turns.
			from := rapid.IntRange(0, len(parts)-1).Draw(t, "from")
			m, err := listMerger(limit).Merge(nil, []byte(parts[from]))
			for older, newer := from-1, from+1; err == nil && (older >= 0 || newer < len(parts)); {
				if newer == len(parts) || older >= 0 && rapid.Bool().Draw(t, "older") {
					err = m.MergeOlder([]byte(parts[older]))
					older--
				} else {
					err = m.MergeNewer([]byte(parts[newer]))
					newer++
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			b, closer, err := m.Finish(true)
			if err != nil || closer != nil {
				t.Fatal(closer, err)
			}
			return string(b)
		}
		var filled []string
		for _, o := range operands {
			if o != "" {
				filled = append(filled, o)
			}
		}
		want, got := strings.Join(filled, ","), merge(operands)
		if len(want) > limit {
			if len(got) != limit+1 && len(operands) > 1 {
				t.Fatalf("%d bytes for a list that is too long", len(got))
			}
		} else if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// A list that is too long stays so when the database is written to files and compacted, which goes on as before.
func TestTooLongCompacted(t *testing.T) {
	b, err := Open(serializer.ForString(), Options[string]{
		MaxParallelism: 128, KeyGroups: keygroup.RangeOf(0, 128, 1), Dir: filepath.Join(t.TempDir(), "db"), MaxSize: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, err := OpenList(b, backend.Descriptor[struct{}, string]{Name: "list", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForString()})
	if err != nil {
		t.Fatal(err)
	}
	compact := func() {
		t.Helper()
		if err := errors.Join(b.db.Flush(), b.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= 30; n++ {
		for _, key := range []string{"long", "short"} {
			if err := b.SetKey(key); err != nil {
				t.Fatal(err)
			}
			if key == "long" {
				err = l.Add(strings.Repeat("x", 99))
			} else {
				err = l.Add("x")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if n%3 == 0 {
			compact()
		}
		// An element has 101 bytes with its comma.
		for key, fits := range map[string]bool{"short": true, "long": n*101-1 <= 1000} {
			if err := b.SetKey(key); err != nil {
				t.Fatal(err)
			}
			got, err := l.Get()
			if fits && (err != nil || len(got) != n) || !fits && !errors.Is(err, backend.ErrTooLarge) {
				t.Fatalf("key %q, %d elements: %d, %v", key, n, len(got), err)
			}
		}
	}
	if err := errors.Join(b.SetKey("long"), l.Clear()); err != nil {
		t.Fatal(err)
	}
	compact()
	if got, err := l.Get(); err != nil || len(got) > 0 {
		t.Fatalf("cleared: %d elements, %v", len(got), err)
	}
}
