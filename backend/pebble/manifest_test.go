package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/serializer"
)

// drawVersion makes a version whose tables are in order.
func drawVersion(t *rapid.T) *version {
	n := func(what string, from, to uint64) uint64 { return rapid.Uint64Range(from, to).Draw(t, what) }
	v := &version{comparer: rapid.String().Draw(t, "comparer"), nextFile: 1, lastSequence: n("last", 0, 1<<55), backings: map[uint64]uint64{}}
	for level := range v.levels {
		key := uint64(0)
		for range n("tables", 0, 4) {
			trailer := func() []byte { return binary.LittleEndian.AppendUint64(nil, n("trailer", 0, 1<<62)) }
			internal := func(end []byte) []byte {
				key += n("gap", 1, 1<<40)
				return append(binary.BigEndian.AppendUint64(nil, key), end...)
			}
			m := tableMeta{number: v.nextFile, size: n("size", 1, 1<<60), smallest: internal(trailer()), marked: n("marked", 0, 3) == 0}
			v.nextFile++
			if n("sentinel", 0, 3) == 0 {
				m.largest = internal(rangeEnd)
			} else {
				m.largest = internal(trailer())
			}
			m.seqs[0] = n("smallest", 0, v.lastSequence)
			m.seqs[1] = n("largest", m.seqs[0], v.lastSequence)
			if n("created", 0, 1) == 0 {
				m.created = n("seconds", 1, 1<<40)
			}
			if n("virtual", 0, 3) == 0 {
				m.virtual, m.backing = true, v.nextFile
				v.backings[m.backing] = n("backing", 1, 1<<60)
				v.nextFile++
			}
			v.levels[level] = append(v.levels[level], m)
		}
	}
	return v
}

var versions = cmp.AllowUnexported(version{}, tableMeta{})

// What is written is read, and a manifest of which something was lost or changed gives an error or one of whole edits, never a panic.
func TestManifest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVersion(t)
		var out bytes.Buffer
		if err := v.write(&out); err != nil {
			t.Fatal(err)
		}
		got, err := readVersion(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, got, versions); d != "" {
			t.Fatal(d)
		}
		damaged := bytes.Clone(out.Bytes())
		damaged[rapid.IntRange(0, len(damaged)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if got, err := readVersion(bytes.NewReader(damaged[:rapid.IntRange(0, len(damaged)).Draw(t, "cut")])); err == nil && len(got.files()) == len(v.files()) && len(v.files()) > 0 {
			t.Fatal("damage was not noticed")
		}
		edit := rapid.SliceOf(rapid.Byte()).Draw(t, "edit")
		hostile := &version{backings: map[uint64]uint64{}}
		if err := hostile.apply(edit); err == nil {
			err = hostile.check()
			if err != nil && !errors.Is(err, serializer.ErrCorrupt) {
				t.Fatal(err)
			}
		} else if !errors.Is(err, serializer.ErrCorrupt) && !errors.Is(err, serializer.ErrUnsupported) {
			t.Fatal(err)
		}
	})
}

// Versions whose keys don't mix become one: all tables of both with their bounds, each file under one number.
func TestManifestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		merged := &version{nextFile: 1, backings: map[uint64]uint64{}}
		tables, last, want := 0, uint64(0), map[string]int{}
		used := map[uint64]bool{}
		for i := range rapid.IntRange(1, 4).Draw(t, "databases") {
			v := drawVersion(t)
			for level := range v.levels {
				for j := range v.levels[level] {
					m := &v.levels[level][j]
					m.smallest, m.largest = append([]byte{byte(i)}, m.smallest...), append([]byte{byte(i)}, m.largest...)
					want[fmt.Sprintf("%d %x %x %d %v", level, m.smallest, m.largest, m.size, m.seqs)]++
					tables++
				}
			}
			last = max(last, v.lastSequence)
			files := merged.merge(v)
			if len(files) != len(v.files()) {
				t.Fatalf("%d files where there are %d", len(files), len(v.files()))
			}
			for _, n := range files {
				if used[n] {
					t.Fatalf("file %d twice", n)
				}
				used[n] = true
			}
		}
		if err := merged.check(); err != nil {
			t.Fatal(err)
		}
		if merged.lastSequence != last {
			t.Fatalf("last sequence number %d, want %d", merged.lastSequence, last)
		}
		for level := range merged.levels {
			for _, m := range merged.levels[level] {
				key := fmt.Sprintf("%d %x %x %d %v", level, m.smallest, m.largest, m.size, m.seqs)
				if want[key]--; want[key] < 0 || !used[m.file()] {
					t.Fatalf("table %s of file %d", key, m.file())
				}
				tables--
			}
		}
		if tables != 0 {
			t.Fatalf("%d tables are missing", tables)
		}
	})
}
