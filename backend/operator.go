package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// OperatorEntry is one element of a list of operator state, one entry of a
// broadcast state, or the raw bytes of raw operator state. The slices are
// valid until the next entry. One goroutine may use it at a time.
type OperatorEntry struct {
	State *OperatorState
	// Index is the position in its state within this handle.
	Index int
	// Key is the key of a broadcast state, else nil.
	Key, Value []byte

	in *serializer.Input // scratch
}

// DecodeKey decodes the key of a broadcast state's entry, else nil. Errors are as those of [Entry.DecodeKey].
func (e *OperatorEntry) DecodeKey() (any, error) {
	if e.State.Key == nil {
		return nil, nil
	}
	v, err := decode(e.input(), e.State.Key, e.Key)
	return v, e.wrap("key", err)
}

// DecodeValue decodes the value; raw operator state is a [serializer.Opaque].
func (e *OperatorEntry) DecodeValue() (any, error) {
	v, err := decode(e.input(), e.State.values(), e.Value)
	return v, e.wrap("value", err)
}

// AppendKeyJSON is [Entry.AppendKeyJSON]; without a key it appends null.
func (e *OperatorEntry) AppendKeyJSON(dst []byte) ([]byte, error) {
	if e.State.Key == nil {
		return append(dst, "null"...), nil
	}
	dst, err := appendDecoded(dst, e.input(), e.State.Key, e.Key)
	return dst, e.wrap("key", err)
}

// AppendValueJSON is [Entry.AppendValueJSON].
func (e *OperatorEntry) AppendValueJSON(dst []byte) ([]byte, error) {
	dst, err := appendDecoded(dst, e.input(), e.State.values(), e.Value)
	return dst, e.wrap("value", err)
}

// input is the scratch of an entry, also of one that no reader made.
func (e *OperatorEntry) input() *serializer.Input {
	if e.in == nil {
		e.in = serializer.NewInput(nil)
	}
	return e.in
}

func (e *OperatorEntry) wrap(part string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state %q, entry %d: %s: %w", e.State.Name, e.Index, part, err)
}

// OperatorState is one state of an operator reader with what decodes it.
type OperatorState struct {
	Name string
	// Meta is nil for raw operator state.
	Meta *StateMeta
	Mode metadata.Mode
	// Key is nil unless it is a broadcast state, Value nil for raw operator state.
	Key, Value serializer.Serializer

	offsets []int64
}

// values is the serializer of values, also where there is none.
func (s *OperatorState) values() serializer.Serializer {
	if s.Value == nil {
		return serializer.Of(nil)
	}
	return s.Value
}

// OperatorReader reads the operator state of one handle. Its methods may be
// called concurrently.
type OperatorReader struct {
	obj       *object
	o         Options
	header    *OperatorHeader
	headerErr error
	states    []*OperatorState
	lost      []*LostError // states of the handle that are not in the header
	offsets   []int64      // all that the handle has, in order
}

// OpenOperator opens a handle of operator state and reads its header. With
// o.Raw it has none. The caller closes it.
func OpenOperator(ctx context.Context, files Files, h *metadata.OperatorState, o Options) (*OperatorReader, error) {
	if _, empty := h.Delegate.(*metadata.EmptySegment); empty && len(h.States) == 0 {
		return &OperatorReader{obj: &object{inline(nil), "empty segment"}}, nil
	}
	obj, err := files.open(ctx, h.Delegate)
	if err != nil {
		return nil, err
	}
	r := &OperatorReader{obj: obj, o: o}
	if err := r.open(ctx, h); err != nil {
		obj.Close()
		return nil, fmt.Errorf("%s: %w", obj.name, err)
	}
	return r, nil
}

func (r *OperatorReader) open(ctx context.Context, h *metadata.OperatorState) error {
	for _, s := range h.States {
		r.offsets = append(r.offsets, s.Offsets...)
	}
	slices.Sort(r.offsets)
	if r.o.Raw {
		for i := range h.States {
			s := &h.States[i]
			r.states = append(r.states, &OperatorState{Name: s.Name.String(), Mode: s.Mode, offsets: s.Offsets})
		}
		return nil
	}
	if err := r.readHeader(ctx); err != nil {
		return err
	}
	byName := map[string]*OperatorState{}
	for _, list := range [][]StateMeta{r.header.Operator, r.header.Broadcast} {
		for i := range list {
			s := newOperatorState(&list[i])
			if byName[s.Name] != nil {
				return fmt.Errorf("header: %w: state %q a second time", serializer.ErrCorrupt, s.Name)
			}
			byName[s.Name] = s
			r.states = append(r.states, s)
		}
	}
	seen := map[string]bool{}
	for i := range h.States {
		o := &h.States[i]
		name := o.Name.String()
		s := byName[name]
		var err error
		switch {
		case seen[name]:
			err = fmt.Errorf("%w: the handle has the state a second time", serializer.ErrCorrupt)
		case s == nil && r.headerErr != nil:
			r.states = append(r.states, &OperatorState{Name: name, Meta: &StateMeta{Name: name}, Mode: o.Mode, Value: serializer.Of(nil), offsets: o.Offsets})
		case s == nil:
			err = fmt.Errorf("%w: the file's header does not have the state of the handle", serializer.ErrCorrupt)
		case o.Mode != s.Mode:
			err = fmt.Errorf("%w: mode %s in the handle, %s in the file", serializer.ErrCorrupt, o.Mode, s.Mode)
		default:
			s.offsets = o.Offsets
		}
		if err != nil {
			r.lost = append(r.lost, &LostError{State: name, KeyGroup: -1, Entries: int64(len(o.Offsets)), Err: fmt.Errorf("%s: %w", r.obj.name, err)})
		}
		seen[name] = true
	}
	return nil
}

// readHeader reads the header, behind which the first entry stands.
func (r *OperatorReader) readHeader(ctx context.Context) error {
	first := r.obj.Size()
	if len(r.offsets) > 0 {
		first = min(first, max(0, r.offsets[0]))
	}
	src := newSource(ctx, r.obj, &r.o)
	src.limit = first
	// With compression the start of a snappy stream lies in between.
	end := first
	if tail := first - int64(len(identifier)); tail > 0 {
		in := serializer.NewStreamInput(&span{src, 0, 5}, 0)
		if in.I32() == OperatorVersion && in.U8() == 1 {
			end = tail
		}
	}
	in := readHeader(src, end, func(hr *headerReader) { r.header = hr.operator() })
	if src.err != nil {
		return src.err
	}
	switch err := in.Err(); {
	case err == nil && in.Offset() != end:
		return fmt.Errorf("offset %d: header: %w: ends here, but not at %d, where the first entry begins", in.Offset(), serializer.ErrCorrupt, first)
	case err == nil && end < first:
		in = serializer.NewStreamInput(&span{src, end, first}, end)
		if string(in.Take(len(identifier))) != identifier {
			return fmt.Errorf("offset %d: header: %w: no snappy stream follows it", end, serializer.ErrCorrupt)
		}
	case err == nil:
	case r.header == nil || r.header.Version < operatorVersionPlain || !errors.Is(err, serializer.ErrUnsupported):
		return fmt.Errorf("header: %w", err)
	default:
		r.headerErr = fmt.Errorf("%s: header: %w", r.obj.name, err)
	}
	return nil
}

func newOperatorState(m *StateMeta) *OperatorState {
	s := &OperatorState{Name: m.Name, Meta: m, Value: serializer.Of(m.Serializer(SerializerValue))}
	switch m.Option(OptionDistributionMode) {
	case metadata.ModeUnion.String():
		s.Mode = metadata.ModeUnion
	case metadata.ModeBroadcast.String():
		s.Mode = metadata.ModeBroadcast
	}
	if m.Kind == KindBroadcast {
		s.Mode = metadata.ModeBroadcast
		s.Key = serializer.Of(m.Serializer(SerializerKey))
	}
	return s
}

// Header is what the file says of its states; nil for raw operator state and for an empty segment.
func (r *OperatorReader) Header() *OperatorHeader { return r.header }

// HeaderErr says why the header could not be read to its end, nil if it was.
// The states behind that place are those that the handle names; what is in
// them is not decoded.
func (r *OperatorReader) HeaderErr() error { return r.headerErr }

// States are those of the header, in its order, or those that the handle names if there is no header.
func (r *OperatorReader) States() []*OperatorState { return slices.Clone(r.states) }

// Close closes the file.
func (r *OperatorReader) Close() error { return r.obj.Close() }

// Entries yields the entries of all states of which want is true (nil: all), state by state.
// After an error that is a [*LostError] it goes on, after any other it ends.
// Several sequences may run at once.
func (r *OperatorReader) Entries(ctx context.Context, want func(*OperatorState) bool) iter.Seq2[*OperatorEntry, error] {
	return func(yield func(*OperatorEntry, error) bool) {
		s := &operatorScan{r: r, src: newSource(ctx, r.obj, &r.o), yield: yield, in: serializer.NewStreamInput(nil, 0)}
		s.entry.in = serializer.NewInput(nil)
		for _, e := range r.lost {
			s.tell(e)
		}
		for _, state := range r.states {
			if s.done {
				return
			}
			if want == nil || want(state) {
				s.state(state)
			}
		}
	}
}

// operatorScan is one sequence of entries.
type operatorScan struct {
	r      *OperatorReader
	src    *source
	in     *serializer.Input
	span   span
	snappy unsnappy
	yield  func(*OperatorEntry, error) bool
	entry  OperatorEntry
	done   bool
}

func (s *operatorScan) tell(err error) {
	if !s.done && !s.yield(nil, err) {
		s.done = true
	}
}

func (s *operatorScan) emit() {
	if !s.done && !s.yield(&s.entry, nil) {
		s.done = true
	}
}

// lost tells of entries that were passed over, or ends the sequence if the
// file cannot be read.
func (s *operatorScan) lost(state *OperatorState, entries int64, err error) {
	err = fmt.Errorf("%s: %w", s.r.obj.name, err)
	if s.src.err != nil {
		s.tell(err)
		s.done = true
		return
	}
	s.tell(&LostError{State: state.Name, KeyGroup: -1, Entries: entries, Err: err})
}

func (s *operatorScan) state(state *OperatorState) {
	if state.Mode == metadata.ModeBroadcast && state.Key == nil && state.Meta != nil {
		s.lost(state, -1, fmt.Errorf("a broadcast state that the header does not describe: %w", serializer.ErrUnsupported))
		return
	}
	if state.Key != nil && len(state.offsets) > 1 {
		s.lost(state, -1, fmt.Errorf("%w: a broadcast state with %d offsets", serializer.ErrCorrupt, len(state.offsets)))
		return
	}
	for i, off := range state.offsets {
		if s.done {
			return
		}
		end, err := s.r.end(state, i)
		if err != nil {
			s.lost(state, 1, err)
			continue
		}
		s.src.limit = end
		if len(state.offsets) > i+1 {
			s.src.limit = max(end, min(s.r.obj.Size(), state.offsets[len(state.offsets)-1]))
		}
		s.begin(off, end)
		s.entry.State, s.entry.Index = state, i
		if state.Key != nil {
			s.broadcast(state)
		} else {
			s.element(state)
		}
	}
}

// end is where entry i of a state ends: where the next one begins.
func (r *OperatorReader) end(state *OperatorState, i int) (int64, error) {
	off := state.offsets[i]
	if off < 0 || off > r.obj.Size() {
		return 0, fmt.Errorf("%w: an entry at offset %d of %d", serializer.ErrCorrupt, off, r.obj.Size())
	}
	if i+1 < len(state.offsets) && state.offsets[i+1] == off {
		return off, nil // it has no bytes
	}
	first, _ := slices.BinarySearch(r.offsets, off)
	next, _ := slices.BinarySearch(r.offsets, off+1)
	own := 1
	for j := i - 1; j >= 0 && state.offsets[j] == off; j-- {
		own++
	}
	if next-first > own {
		return 0, fmt.Errorf("%w: entries of two states at offset %d", serializer.ErrCorrupt, off)
	}
	if next < len(r.offsets) {
		return min(r.offsets[next], r.obj.Size()), nil
	}
	return r.obj.Size(), nil
}

func (s *operatorScan) begin(start, end int64) {
	if s.r.header != nil && s.r.header.Compressed {
		s.snappy.resetInside(s.src, start, end)
		s.in.ResetStream(&s.snappy, 0)
		return
	}
	s.span = span{s.src, start, end}
	s.in.ResetStream(&s.span, start)
}

// rest takes all that is left of an entry.
func (s *operatorScan) rest() []byte {
	s.in.Mark()
	for !s.in.AtEnd() {
		s.in.Skip(int64(s.in.Remaining()))
	}
	return s.in.Marked()
}

// element reads an element of a list, which reaches to where the next one begins.
func (s *operatorScan) element(state *OperatorState) {
	s.entry.Key, s.entry.Value = nil, s.rest()
	if err := s.in.Err(); err != nil {
		s.lost(state, 1, err)
		return
	}
	s.emit()
}

// broadcast reads a map.
func (s *operatorScan) broadcast(state *OperatorState) {
	in := s.in
	count := in.Length()
	for i := 0; i < count && in.Err() == nil && !s.done; i++ {
		s.entry.Index = i
		if i == count-1 {
			s.last(state)
			return
		}
		in.Mark()
		start := in.Offset()
		skipValue(in, state.Key, "key")
		middle := in.Offset()
		skipValue(in, state.Value, "value")
		b := in.Marked()
		if in.Err() == nil && len(b) == 0 {
			in.Failf("entries", "of no bytes")
		}
		if in.Err() != nil {
			s.lost(state, int64(count-i), in.Err())
			return
		}
		n := int(middle - start)
		s.entry.Key, s.entry.Value = b[:n:n], b[n:]
		s.emit()
	}
	if in.Err() == nil && !in.AtEnd() && !s.done {
		in.Failf("end", "bytes follow the last entry")
	}
	if in.Err() != nil {
		s.lost(state, -1, in.Err())
	}
}

// last reads the last entry of a map, which reaches to where the next state
// begins, so that its value may be of unknown length.
func (s *operatorScan) last(state *OperatorState) {
	b := s.rest()
	err := s.in.Err()
	if err == nil {
		in := s.entry.in
		in.Reset(b)
		state.Key.Skip(in)
		n := int(in.Offset())
		if err = in.Err(); err == nil && in.Lost() {
			err = fmt.Errorf("key: a value of unknown length: %w", serializer.ErrUnsupported)
		}
		s.entry.Key, s.entry.Value = b[:n:n], b[n:]
	}
	if err != nil {
		s.lost(state, 1, err)
		return
	}
	s.emit()
}
