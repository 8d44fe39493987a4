package backend

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// place is where an element of a list, or a broadcast state, begins in a file.
type place struct {
	state     int // in the header, lists first
	broadcast bool
	offset    int64
	entries   []pair
}

// places gives what a file of Flink's holds, in the order of the file.
func places(r *OperatorReader, h *metadata.OperatorState) (all []*place) {
	for i, s := range r.States() {
		for _, o := range h.States {
			if o.Name.String() != s.Name {
				continue
			}
			for _, off := range o.Offsets {
				all = append(all, &place{state: i, broadcast: s.Key != nil, offset: off})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *place) int { return cmp.Compare(a.offset, b.offset) })
	return all
}

// fillExact gives each place the bytes that stand in the file, decompressed.
func fillExact(t testing.TB, r *OperatorReader, all []*place, file []byte) error {
	for i, p := range all {
		data := file[p.offset:]
		if i+1 < len(all) {
			data = file[p.offset:all[i+1].offset]
		}
		if r.Header().Compressed {
			data = plain(t, append([]byte(identifier), data...))
		}
		if !p.broadcast {
			p.entries = append(p.entries, pair{nil, data})
			continue
		}
		s := r.States()[p.state]
		in := serializer.NewInput(data)
		for range in.I32() {
			start := in.Offset()
			s.Key.Skip(in)
			middle := in.Offset()
			s.Value.Skip(in)
			if in.Lost() {
				return fmt.Errorf("state %q: %w", s.Name, cmp.Or(in.Err(), serializer.ErrUnsupported))
			}
			p.entries = append(p.entries, pair{data[start:middle], data[middle:in.Offset()]})
		}
		if !in.AtEnd() {
			return fmt.Errorf("state %q: %d bytes follow", s.Name, in.Remaining())
		}
	}
	return nil
}

// fillRead gives each place what the reader reads.
func fillRead(r *OperatorReader, all []*place) error {
	byState := map[*OperatorState][]*place{}
	for _, p := range all {
		s := r.States()[p.state]
		byState[s] = append(byState[s], p)
	}
	for e, err := range r.Entries(context.Background(), nil) {
		if err != nil {
			return err
		}
		i := e.Index
		if e.State.Key != nil {
			i = 0
		}
		p := byState[e.State][i]
		p.entries = append(p.entries, pair{bytes.Clone(e.Key), bytes.Clone(e.Value)})
	}
	return nil
}

// writePlaces writes a file.
func writePlaces(h *OperatorHeader, all []*place) ([]byte, []metadata.StateOffsets, error) {
	var out bytes.Buffer
	w := NewOperatorWriter(&out, h)
	for _, p := range all {
		if p.broadcast {
			if err := w.StartBroadcast(p.state-len(h.Operator), len(p.entries)); err != nil {
				return nil, nil, err
			}
		}
		for _, e := range p.entries {
			var err error
			if p.broadcast {
				err = w.BroadcastEntry(e.key, e.value)
			} else {
				err = w.Element(p.state, e.value)
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	states, size, err := w.Close()
	if err == nil && size != int64(out.Len()) {
		err = fmt.Errorf("size %d of %d", size, out.Len())
	}
	return out.Bytes(), states, err
}

// sameOffsets compares offsets by state; Flink's are in the order of a Java map.
func sameOffsets(t *testing.T, label string, zip bool, got, want []metadata.StateOffsets) {
	t.Helper()
	byName := map[metadata.Text]metadata.StateOffsets{}
	for _, s := range want {
		byName[s.Name] = s
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d states, want %d", label, len(got), len(want))
	}
	for _, s := range got {
		w := byName[s.Name]
		if s.Mode != w.Mode || len(s.Offsets) != len(w.Offsets) || !zip && !slices.Equal(s.Offsets, w.Offsets) {
			t.Errorf("%s: %+v, want %+v", label, s, w)
		}
	}
}

// TestOperatorCircle writes all of Flink's files of operator state again, from
// the bytes that stand there and from what the reader gives.
func TestOperatorCircle(t *testing.T) {
	ctx := context.Background()
	counts := map[string]int{}
	eachFixture(t, allFixtures, func(f fixture) {
		for _, h := range f.operator() {
			if h.o.Raw {
				continue
			}
			r, err := OpenOperator(ctx, f.files, h.handle, h.o)
			if err != nil {
				if !expected(f.name, err) {
					t.Errorf("%s: %v", h.label, err)
				}
				continue
			}
			defer r.Close()
			if r.Header() == nil {
				counts["empty segments"]++
				continue
			}
			if r.Header().legacy != nil || r.HeaderErr() != nil {
				counts[fmt.Sprintf("not written: header version %d", r.Header().Version)]++
				continue
			}
			zip := r.Header().Compressed
			want := whole(t, f, h.handle.Delegate)
			exact, read := places(r, h.handle), places(r, h.handle)
			if err := cmp.Or(fillExact(t, r, exact, want), fillRead(r, read)); err != nil {
				if !expected(f.name, err) {
					t.Errorf("%s: %v", h.label, err)
				}
				counts["not written: unknown serializer"]++
				continue
			}
			kind := fmt.Sprintf("version %d, compressed %t", r.Header().Version, zip)
			counts["files "+kind]++
			for i, all := range [][]*place{exact, read} {
				label := fmt.Sprintf("%s, way %d", h.label, i)
				got, states, err := writePlaces(r.Header(), all)
				if err != nil {
					t.Errorf("%s: %v", label, err)
					continue
				}
				sameOffsets(t, label, zip, states, h.handle.States)
				if !zip {
					if !bytes.Equal(got, want) {
						t.Errorf("%s: differs from byte %d on, of %d and %d", label, firstDifference(got, want), len(got), len(want))
					}
					continue
				}
				head := len(headerBytes(t, r.Header()))
				if !bytes.Equal(got[:head], want[:head]) || !slices.EqualFunc(snappyChunks(t, got[head:]), snappyChunks(t, want[head:]), bytes.Equal) {
					t.Errorf("%s: differs", label)
				}
			}
			for _, p := range read {
				counts["entries "+kind] += len(p.entries)
			}
		}
	})
	t.Log(counts)
	if counts["files version 5, compressed false"] == 0 || counts["files version 6, compressed false"] == 0 || counts["files version 6, compressed true"] == 0 {
		t.Error("files are missing")
	}
}
