package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// prefixLen is the number of bytes of the key group in front of a composite key.
func prefixLen(maxParallelism int) int {
	if maxParallelism <= 128 {
		return 1
	}
	return 2
}

// groups says where the key groups of a handle lie in its object.
type groups struct {
	obj     *object
	start   int // the first key group
	offsets []int64
	// ends has for each offset where the next one is, or the object's end.
	ends []int64
	// again says for each offset that a later key group has the same.
	again []bool
}

func newGroups(obj *object, o metadata.KeyGroupOffsets, maxParallelism int) (groups, error) {
	g := groups{obj: obj, start: int(o.Start), offsets: o.Offsets}
	if o.Start < 0 || g.start+len(o.Offsets) > maxParallelism {
		return g, fmt.Errorf("%s: key groups %s of %d: %w", obj.name, o.Range(), maxParallelism, serializer.ErrCorrupt)
	}
	sorted := slices.Clone(o.Offsets)
	slices.Sort(sorted)
	for _, off := range o.Offsets {
		end := obj.Size()
		if i, _ := slices.BinarySearch(sorted, off+1); i < len(sorted) && off < math.MaxInt64 {
			end = min(end, sorted[i])
		}
		g.ends = append(g.ends, end)
	}
	g.again = make([]bool, len(o.Offsets))
	seen := make(map[int64]bool, len(o.Offsets))
	for i, off := range slices.Backward(o.Offsets) {
		g.again[i] = seen[off]
		seen[off] = true
	}
	return g, nil
}

// limit is where the last of the key groups of a run ends.
func (g *groups) limit(run keygroup.Range) int64 {
	limit := int64(0)
	for i := run.Start; i <= run.End; i++ {
		if g.offsets[i-g.start] >= 0 {
			limit = max(limit, g.ends[i-g.start])
		}
	}
	return limit
}

// keyGroupsFile is keyed state in one stream, one key group after the other:
// in the canonical layout, or in that of the heap backend.
type keyGroupsFile struct {
	groups
	o          Options
	canonical  bool
	compressed bool
	nested     bool // entries are grouped by namespace, as by the heap backend of Flink 1.2
	prefix     int
	// partial says that the stream holds other key groups than those of the handle.
	partial bool
	states  []*State
	key     *serializer.Snapshot

	// If not even the number of states is known, states are made as they are met.
	counted bool
	mu      sync.Mutex
	unknown map[int]*State
}

func openKeyGroups(ctx context.Context, files Files, h *metadata.KeyGroups, o Options) (*KeyedReader, error) {
	obj, err := files.open(ctx, h.Delegate)
	if err != nil {
		return nil, err
	}
	r, err := newKeyGroups(ctx, obj, h, o)
	if err != nil {
		obj.Close()
		return nil, err
	}
	return r, nil
}

func newKeyGroups(ctx context.Context, obj *object, h *metadata.KeyGroups, o Options) (*KeyedReader, error) {
	g, err := newGroups(obj, h.KeyGroupOffsets, o.MaxParallelism)
	if err != nil {
		return nil, err
	}
	f := &keyGroupsFile{groups: g, o: o, prefix: prefixLen(o.MaxParallelism), partial: o.partial}
	r := &KeyedReader{layout: f, keyGroups: h.Range()}
	if err := f.open(ctx, r); err != nil {
		return nil, fmt.Errorf("%s: %w", obj.name, err)
	}
	f.states = r.states
	f.compressed = r.header.Compressed
	f.nested = r.header.Version == 1
	if f.canonical = h.Form == metadata.KeyGroupsSavepoint; !f.canonical {
		if f.canonical, err = f.looksCanonical(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", obj.name, err)
		}
	}
	r.format = "heap"
	if f.canonical {
		r.format = "canonical"
	}
	return r, nil
}

// open reads the header, which ends where the first key group begins.
func (f *keyGroupsFile) open(ctx context.Context, r *KeyedReader) error {
	first := f.obj.Size()
	for _, off := range f.offsets {
		if off > 0 {
			first = min(first, off)
		}
	}
	src := newSource(ctx, f.obj, &f.o)
	src.limit = first
	var h *KeyedHeader
	var n int
	in := readHeader(src, first, func(hr *headerReader) { h, n = hr.keyed() })
	r.header = h
	switch err := in.Err(); {
	case src.err != nil:
		return src.err
	case err == nil && (in.Offset() == first || f.partial):
	case err == nil:
		return fmt.Errorf("offset %d: header: %w: ends here, but the first key group begins at %d", in.Offset(), serializer.ErrCorrupt, first)
	case h == nil || h.Version != KeyedVersion || !errors.Is(err, serializer.ErrUnsupported):
		return fmt.Errorf("header: %w", err)
	default:
		r.headerErr = fmt.Errorf("%s: header: %w", f.obj.name, err)
	}
	f.key = h.Key
	for i := range h.States {
		r.states = append(r.states, NewState(&h.States[i], f.key))
	}
	for i := len(h.States); i < n; i++ {
		r.states = append(r.states, unknownState(unknownID(i), f.key))
	}
	f.counted = n >= 0
	return nil
}

// state gives a state by its number, nil if there is none.
func (f *keyGroupsFile) state(id int) *State {
	if id < len(f.states) {
		return f.states[id]
	}
	if f.counted || id > math.MaxInt16 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unknown == nil {
		f.unknown = map[int]*State{}
	}
	if f.unknown[id] == nil {
		f.unknown[id] = unknownState(unknownID(id), f.key)
	}
	return f.unknown[id]
}

// looksCanonical tells the layouts apart where the handle does not: the heap
// backend writes every key group, each with its number in front.
func (f *keyGroupsFile) looksCanonical(ctx context.Context) (bool, error) {
	src := newSource(ctx, f.obj, &f.o)
	zero := 0
	for i, off := range f.offsets {
		if off <= 0 {
			return true, nil
		}
		src.limit = min(off+4, f.obj.Size())
		in := serializer.NewStreamInput(&span{src, off, src.limit}, off)
		n := in.I32()
		if src.err != nil {
			return false, src.err
		}
		if in.Err() != nil {
			continue
		}
		if int(n) != f.start+i {
			return true, nil
		}
		// In the canonical layout the upper half of the first key's length
		// follows the number of the first state, so that 0 proves nothing.
		if n > 0 || f.compressed {
			return false, nil
		}
		zero++
	}
	if zero == 0 {
		return len(f.offsets) == 0, nil
	}
	return f.parses(ctx), nil
}

// parses says whether the only key group, which is number 0, is canonical.
func (f *keyGroupsFile) parses(ctx context.Context) bool {
	ok := true
	out := &sink{
		runs:   []keygroup.Range{{}},
		filter: Filter{State: func(*State) bool { return false }},
		yield:  func(_ *Entry, err error) bool { ok = ok && err == nil; return ok },
	}
	out.entry.in = serializer.NewInput(nil)
	quiet := f.o
	quiet.Progress = nil
	probe := &keyGroupsFile{groups: f.groups, o: quiet, canonical: true, prefix: f.prefix, states: f.states, key: f.key, counted: f.counted}
	probe.entries(ctx, out)
	return ok
}

func (f *keyGroupsFile) close() error { return f.obj.Close() }

func (f *keyGroupsFile) entries(ctx context.Context, out *sink) {
	g := &groupReader{file: f, out: out, src: newSource(ctx, f.obj, &f.o), in: serializer.NewStreamInput(nil, 0), seen: map[int]bool{}, wanted: map[*State]bool{}}
	defer g.src.end()
	for _, run := range out.runs {
		g.src.limit = f.limit(run)
		for i := run.Start; i <= run.End && !out.done; i++ {
			g.read(i)
		}
	}
}

// groupReader reads key groups one after the other.
type groupReader struct {
	file   *keyGroupsFile
	out    *sink
	src    *source
	in     *serializer.Input
	span   span
	snappy unsnappy
	seen   map[int]bool    // the states of the key group so far
	wanted map[*State]bool // what the filter says
	group  int
	copied []byte // namespace and key of a map or list
	list   []byte
}

// read reads a key group.
func (g *groupReader) read(group int) {
	f := g.file
	g.group = group
	i := group - f.start
	start, end := f.offsets[i], f.ends[i]
	if start == 0 && f.canonical {
		return // nothing in it
	}
	if start <= 0 || start >= f.obj.Size() {
		g.lost("", -1, fmt.Errorf("%w: begins at offset %d of %d", serializer.ErrCorrupt, start, f.obj.Size()))
		return
	}
	if f.again[i] {
		g.lost("", -1, fmt.Errorf("%w: begins at offset %d, as another one does", serializer.ErrCorrupt, start))
		return
	}
	clear(g.seen)
	if f.canonical {
		g.readCanonical(start, end)
	} else {
		g.readHeap(start, end)
	}
}

// begin makes the input read from start to end, decompressed if the file is.
func (g *groupReader) begin(start, end int64) {
	if g.file.compressed {
		g.snappy.reset(g.src, start, end)
		g.in.ResetStream(&g.snappy, 0)
		return
	}
	g.span = span{g.src, start, end}
	g.in.ResetStream(&g.span, start)
}

// wants asks the filter once for each state.
func (g *groupReader) wants(s *State) bool {
	w, ok := g.wanted[s]
	if !ok {
		w = g.out.filter.wants(s)
		g.wanted[s] = w
	}
	return w
}

// lost tells of entries of the key group that were passed over, or ends the
// sequence if the file cannot be read.
func (g *groupReader) lost(state string, entries int64, err error) {
	if g.src.err != nil {
		g.out.fail(fmt.Errorf("%s: %w", g.file.obj.name, g.src.err))
		return
	}
	if g.file.compressed {
		err = fmt.Errorf("decompressed: %w", err)
	}
	g.out.lost(&LostError{State: state, KeyGroup: g.group, Entries: entries, Err: fmt.Errorf("%s: %w", g.file.obj.name, err)})
}

// begun finds the state that a block of the key group is of. It fails the
// input and gives nil if there is no such state, or if it was there before.
func (g *groupReader) begun(id int, offset int64) *State {
	if g.in.Err() != nil {
		return nil
	}
	s := g.file.state(id)
	if s == nil {
		g.in.FailAt(offset, "state", fmt.Errorf("%w: number %d of %d", serializer.ErrCorrupt, id, len(g.file.states)))
	} else if g.seen[id] {
		g.in.FailAt(offset, "state", fmt.Errorf("%w: %q a second time", serializer.ErrCorrupt, s.Meta.Name))
		s = nil
	}
	g.seen[id] = true
	return s
}

// checkEnd fails the input if something follows the last block.
func (g *groupReader) checkEnd(end int64) {
	if g.in.Err() != nil || g.file.partial && end == g.file.obj.Size() {
		return
	}
	if !g.in.AtEnd() || g.file.compressed && !g.snappy.drained() {
		g.in.Failf("end", "bytes follow the last state")
	}
}
