package backend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// splitHeap takes a decompressed key group of Flink's apart, without the
// number in front of it. Of a timer it gives the time, key and namespace.
func splitHeap(h *KeyedHeader, b []byte, block func(state, entries int), entry func(state int, parts [3][]byte)) error {
	in := serializer.NewInput(b)
	for range h.States {
		state := int(in.U16())
		entries := int(in.I32())
		if in.Err() != nil || state >= len(h.States) {
			return fmt.Errorf("state %d: %w", state, in.Err())
		}
		block(state, entries)
		m := &h.States[state]
		s := NewState(m, h.Key)
		skips := [3]func(*serializer.Input){s.Namespace.Skip, s.Key.Skip, serializer.Of(m.Serializer(SerializerValue)).Skip}
		if m.Kind == KindPriorityQueue {
			skips = [3]func(*serializer.Input){func(in *serializer.Input) { in.Skip(8) }, s.Key.Skip, s.Namespace.Skip}
		}
		for range entries {
			var parts [3][]byte
			for i, skip := range skips {
				start := in.Offset()
				skip(in)
				if in.Lost() {
					return fmt.Errorf("state %q: %w", m.Name, cmp.Or(in.Err(), serializer.ErrUnsupported))
				}
				parts[i] = b[start:in.Offset()]
			}
			entry(state, parts)
		}
	}
	if !in.AtEnd() {
		return fmt.Errorf("%d bytes follow", in.Remaining())
	}
	return nil
}

// TestHeapCircle writes the entries of all files of Flink's heap backend
// again: as they stand there, and as the reader gives them.
func TestHeapCircle(t *testing.T) {
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
		if r.Format() != "heap" {
			return
		}
		if r.Header().Version != KeyedVersion || r.HeaderErr() != nil {
			counts[fmt.Sprintf("not written: header version %d", r.Header().Version)]++
			return
		}
		zip := r.Header().Compressed
		want := whole(t, f, h.Delegate)
		kind := fmt.Sprintf("compressed %t", zip)
		states := r.States()
		var exact, known, gathered bytes.Buffer
		a := NewHeapWriter(&exact, r.Header(), h.Range())
		b := NewHeapWriter(&known, r.Header(), h.Range())
		c := NewHeapWriter(&gathered, r.Header(), h.Range())
		next, stop := iter.Pull2(r.Entries(ctx, Filter{}))
		defer stop()
		e, err, more := next()
		for i, group := range pieces(want, h.KeyGroupOffsets)[1:] {
			number := int(h.Start) + i
			for _, w := range []*HeapWriter{a, b, c} {
				if err := w.StartKeyGroup(number); err != nil {
					t.Fatal(err)
				}
			}
			data := group[4:]
			if zip {
				data = plain(t, data)
			}
			failed := splitHeap(r.Header(), data, func(s, entries int) {
				counts["blocks "+kind]++
				if a.StartState(s, entries) != nil || b.StartState(s, -1) != nil || c.StartState(s, -1) != nil {
					t.Fatal(a.err, b.err, c.err)
				}
				for ; more && err == nil && e.KeyGroup == number && e.State == states[s]; e, err, more = next() {
					counts["entries of the reader "+kind]++
					if err := c.Add(e); err != nil {
						t.Fatal(err)
					}
				}
			}, func(state int, parts [3][]byte) {
				counts["entries "+kind]++
				for _, w := range []*HeapWriter{a, b} {
					var err error
					if states[state].Type == TypeTimers {
						err = w.Timer(int64(binary.BigEndian.Uint64(parts[0]))^math.MinInt64, parts[1], parts[2])
					} else {
						err = w.Entry(parts[0], parts[1], parts[2])
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			})
			if failed = cmp.Or(failed, err); failed != nil {
				if !expected(f.name, failed) {
					t.Errorf("%s: %v", label, failed)
				}
				counts["not written: unknown serializer"]++
				return
			}
		}
		counts["files "+kind]++
		for i, w := range []*HeapWriter{a, b, c} {
			out := []*bytes.Buffer{&exact, &known, &gathered}[i]
			offsets, size, err := w.Close()
			if err != nil || size != int64(out.Len()) {
				t.Errorf("%s: %d of %d bytes, %v", label, size, out.Len(), err)
				continue
			}
			sameKeyGroups(t, fmt.Sprintf("%s, writer %d", label, i), zip, 4, want, h.KeyGroupOffsets, out.Bytes(), offsets)
		}
	})
	t.Log(counts)
	if counts["files compressed false"] == 0 || counts["files compressed true"] == 0 {
		t.Error("files are missing")
	}
}
