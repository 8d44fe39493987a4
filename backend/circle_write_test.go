package backend

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/metadata"
)

// keyGroupsFiles visits the files of keyed state by key group that Flink
// wrote, those in the base of a changelog too.
func keyGroupsFiles(t testing.TB, visit func(f fixture, h *metadata.KeyGroups, o Options, label string)) {
	eachFixture(t, allFixtures, func(f fixture) {
		for _, h := range f.keyed() {
			if h.o.Raw {
				continue
			}
			switch k := h.handle.(type) {
			case *metadata.KeyGroups:
				visit(f, k, h.o, h.label)
			case *metadata.Changelog:
				for _, base := range k.Base {
					if k, ok := base.(*metadata.KeyGroups); ok {
						visit(f, k, h.o, h.label)
					}
				}
			}
		}
	})
}

// whole reads all bytes of a stream.
func whole(t testing.TB, f fixture, s metadata.Stream) []byte {
	t.Helper()
	obj, err := f.files.open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	data, err := io.ReadAll(io.NewSectionReader(obj, 0, obj.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// plain gives the data of the snappy streams of b, one behind the other.
func plain(t testing.TB, b []byte) []byte {
	t.Helper()
	data, err := io.ReadAll(snappy.NewReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// snappyChunks gives the data of each chunk of b, nil for the identifier that begins a stream.
func snappyChunks(t testing.TB, b []byte) (all [][]byte) {
	t.Helper()
	for len(b) > 0 {
		n := 4 + (int(b[1]) | int(b[2])<<8 | int(b[3])<<16)
		if bytes.Equal(b[:n], []byte(identifier)) {
			all = append(all, nil)
		} else {
			all = append(all, plain(t, append([]byte(identifier), b[:n]...)))
		}
		b = b[n:]
	}
	return all
}

// sameKeyGroups compares a file with what Flink wrote: byte by byte, or, if
// it is compressed, the header and the data of each chunk. skip is how many
// bytes of a key group are not compressed.
func sameKeyGroups(t *testing.T, label string, zip bool, skip int64, want []byte, wantOffsets metadata.KeyGroupOffsets, got []byte, gotOffsets metadata.KeyGroupOffsets) {
	t.Helper()
	if !zip {
		if !bytes.Equal(got, want) {
			t.Errorf("%s: differs from byte %d on, of %d and %d", label, firstDifference(got, want), len(got), len(want))
		}
		if gotOffsets.Start != wantOffsets.Start || !slices.Equal(gotOffsets.Offsets, wantOffsets.Offsets) {
			t.Errorf("%s: offsets %v, want %v", label, gotOffsets, wantOffsets)
		}
		return
	}
	a, b := pieces(got, gotOffsets), pieces(want, wantOffsets)
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) {
			t.Errorf("%s: %d pieces, want %d", label, len(a), len(b))
			return
		}
		if i == 0 {
			if !bytes.Equal(a[i], b[i]) {
				t.Errorf("%s: the header differs", label)
			}
			continue
		}
		if !bytes.Equal(a[i][:skip], b[i][:skip]) || !slices.EqualFunc(snappyChunks(t, a[i][skip:]), snappyChunks(t, b[i][skip:]), bytes.Equal) {
			t.Errorf("%s: key group %d of the file differs", label, i-1)
		}
	}
	for i := range wantOffsets.Offsets {
		if (gotOffsets.Offsets[i] == 0) != (wantOffsets.Offsets[i] == 0) {
			t.Errorf("%s: key group %d begins at %d, in Flink's file at %d", label, i, gotOffsets.Offsets[i], wantOffsets.Offsets[i])
		}
	}
}

// pieces are the header and the key groups of a file.
func pieces(file []byte, o metadata.KeyGroupOffsets) (all [][]byte) {
	start := int64(0)
	for _, off := range o.Offsets {
		if off > 0 {
			all = append(all, file[start:off])
			start = off
		}
	}
	return append(all, file[start:])
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// canonicalEntries takes the entries of a decompressed key group of Flink's apart: number of
// the state, composite key without its key group, value.
func canonicalEntries(b []byte, prefix int, entry func(state int, key, value []byte)) error {
	for {
		state := int(binary.BigEndian.Uint16(b))
		b = b[2:]
		if state == endOfGroup {
			if len(b) > 0 {
				return fmt.Errorf("%d bytes follow", len(b))
			}
			return nil
		}
		for last := false; !last; {
			n := binary.BigEndian.Uint32(b)
			key := b[4 : 4+n]
			last = key[0]&lastKey != 0
			b = b[4+n:]
			n = binary.BigEndian.Uint32(b)
			entry(state, key[prefix:], b[4:4+n])
			b = b[4+n:]
		}
	}
}

// TestCanonicalCircle writes the entries of all of Flink's canonical files
// again: as they stand there, and as the reader gives them.
func TestCanonicalCircle(t *testing.T) {
	ctx := context.Background()
	counts := map[string]int{}
	keyGroupsFiles(t, func(f fixture, h *metadata.KeyGroups, o Options, label string) {
		r, err := OpenKeyed(ctx, f.files, h, o)
		if err != nil {
			if !expected(f.name, err) {
				t.Errorf("%s: %v", label, err)
			}
			return
		}
		defer r.Close()
		if r.Format() != "canonical" {
			return
		}
		if r.Header().Version != KeyedVersion || r.HeaderErr() != nil {
			counts[fmt.Sprintf("not written: header version %d", r.Header().Version)]++
			return
		}
		zip := r.Header().Compressed
		want := whole(t, f, h.Delegate)
		kind := fmt.Sprintf("compressed %t", zip)
		counts["files "+kind]++

		var b bytes.Buffer
		w := NewCanonicalWriter(&b, r.Header(), h.Range(), o.MaxParallelism)
		groups := pieces(want, h.KeyGroupOffsets)[1:]
		for i, off := range h.Offsets {
			if err := w.StartKeyGroup(int(h.Start) + i); err != nil {
				t.Fatal(err)
			}
			if off == 0 {
				continue
			}
			data := groups[0]
			groups = groups[1:]
			if zip {
				data = plain(t, data)
			}
			err := canonicalEntries(data, prefixLen(o.MaxParallelism), func(state int, key, value []byte) {
				counts["entries "+kind]++
				if err := w.Entry(state, key, value); err != nil {
					t.Fatal(err)
				}
			})
			if err != nil {
				t.Errorf("%s: %v", label, err)
			}
		}
		offsets, size, err := w.Close()
		if err != nil || size != int64(b.Len()) {
			t.Errorf("%s: %d of %d bytes, %v", label, size, b.Len(), err)
		}
		sameKeyGroups(t, label, zip, 0, want, h.KeyGroupOffsets, b.Bytes(), offsets)

		b.Reset()
		w = NewCanonicalWriter(&b, r.Header(), h.Range(), o.MaxParallelism)
		number := map[*State]int{}
		for i, s := range r.States() {
			number[s] = i
		}
		group := -1
		var key, value []byte
		for e, err := range r.Entries(ctx, Filter{}) {
			if err != nil {
				t.Errorf("%s: %v", label, err)
				continue
			}
			if e.KeyGroup != group {
				group = e.KeyGroup
				if err := w.StartKeyGroup(group); err != nil {
					t.Fatal(err)
				}
			}
			key, value = e.AppendStoredKey(key[:0]), e.AppendStoredValue(value[:0])
			if err := w.Entry(number[e.State], key, value); err != nil {
				t.Fatal(err)
			}
		}
		if offsets, _, err = w.Close(); err != nil {
			t.Errorf("%s: %v", label, err)
		}
		sameKeyGroups(t, label+", by entries", zip, 0, want, h.KeyGroupOffsets, b.Bytes(), offsets)
	})
	t.Log(counts)
	if counts["files compressed false"] == 0 || counts["files compressed true"] == 0 {
		t.Error("files are missing")
	}
}
