package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Operator is the operator state of one subtask (DefaultOperatorStateBackend): lists that
// are split or united when the parallelism changes, and broadcast maps. It is held in memory, whatever
// holds the keyed state. One goroutine at a time may use it, but for the writing of a snapshot.
type Operator struct {
	states []operatorSlot
	byName map[string]int
}

// operatorSlot is a state: opened, or only restored.
type operatorSlot struct {
	meta  StateMeta
	state openOperatorState // nil if it was not opened
	raw   []operatorRaw     // if it was not
}

// operatorRaw is an element or an entry as it was restored.
type operatorRaw struct{ key, value []byte }

// openOperatorState gives what an opened state holds.
type openOperatorState interface {
	// each yields the elements or entries; the slices are valid until the next.
	each(out *serializer.Output, yield func(key, value []byte) error) error
	load(raw []operatorRaw, was *StateMeta) error
	len() int
}

// NewOperator makes operator state without content.
func NewOperator() *Operator { return &Operator{byName: map[string]int{}} }

// OperatorList is a list of operator state (ListState of an OperatorStateStore).
type OperatorList[V any] struct {
	codec    serializer.Codec[V]
	elements []V
}

// OpenOperatorList opens a list whose elements are split among the subtasks on restore, or, if union is set, given to
// each of them.
func OpenOperatorList[V any](o *Operator, name string, c serializer.Codec[V], union bool) (*OperatorList[V], error) {
	mode := metadata.ModeSplit
	if union {
		mode = metadata.ModeUnion
	}
	l := &OperatorList[V]{codec: c}
	return l, o.open(StateMeta{
		Name: name, Kind: KindOperator, Options: []Option{{OptionDistributionMode, mode.String()}},
		Serializers: []NamedSnapshot{{SerializerValue, c.Snapshot()}},
	}, l)
}

// Get gives the elements, which must not be changed.
func (l *OperatorList[V]) Get() []V { return slices.Clip(l.elements) }

// Add appends elements.
func (l *OperatorList[V]) Add(v ...V) { l.elements = append(l.elements, v...) }

// Set replaces the list.
func (l *OperatorList[V]) Set(v []V) { l.elements = slices.Clone(v) }

func (l *OperatorList[V]) len() int { return len(l.elements) }

func (l *OperatorList[V]) each(out *serializer.Output, yield func(key, value []byte) error) error {
	for _, v := range l.elements {
		out.Reset()
		l.codec.Write(out, v)
		if err := out.Err(); err != nil {
			return err
		}
		if err := yield(nil, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (l *OperatorList[V]) load(raw []operatorRaw, was *StateMeta) error {
	read, err := reader(l.codec, was.Serializer(SerializerValue))
	if err != nil {
		return err
	}
	for i := range raw {
		v, err := read(raw[i].value)
		if err != nil {
			return fmt.Errorf("element %d: %w", len(l.elements), err)
		}
		l.elements = append(l.elements, v)
	}
	return nil
}

// Broadcast is a map of operator state that is the same in all subtasks (BroadcastState).
type Broadcast[U comparable, V any] struct {
	key     serializer.Codec[U]
	value   serializer.Codec[V]
	entries map[U]V
}

// OpenBroadcast opens a broadcast map.
func OpenBroadcast[U comparable, V any](o *Operator, name string, key serializer.Codec[U], value serializer.Codec[V]) (*Broadcast[U, V], error) {
	b := &Broadcast[U, V]{key, value, map[U]V{}}
	return b, o.open(StateMeta{
		Name: name, Kind: KindBroadcast, Options: []Option{{OptionDistributionMode, metadata.ModeBroadcast.String()}},
		Serializers: []NamedSnapshot{{SerializerValue, value.Snapshot()}, {SerializerKey, key.Snapshot()}},
	}, b)
}

// Get gives the value of a key; false if there is none.
func (b *Broadcast[U, V]) Get(u U) (V, bool) {
	v, ok := b.entries[u]
	return v, ok
}

// Put sets the value of a key. All subtasks must do the same.
func (b *Broadcast[U, V]) Put(u U, v V) { b.entries[u] = v }

// Delete removes a key.
func (b *Broadcast[U, V]) Delete(u U) { delete(b.entries, u) }

// Clear removes all keys.
func (b *Broadcast[U, V]) Clear() { clear(b.entries) }

// All yields the entries in no certain order.
func (b *Broadcast[U, V]) All() iter.Seq2[U, V] { return maps.All(b.entries) }

func (b *Broadcast[U, V]) len() int { return len(b.entries) }

// each yields the entries in the order of their keys' bytes, so that equal maps are written alike.
func (b *Broadcast[U, V]) each(out *serializer.Output, yield func(key, value []byte) error) error {
	list := make([]operatorRaw, 0, len(b.entries))
	for u, v := range b.entries {
		out.Reset()
		b.key.Write(out, u)
		n := out.Len()
		b.value.Write(out, v)
		if err := out.Err(); err != nil {
			return err
		}
		entry := slices.Clone(out.Bytes())
		list = append(list, operatorRaw{entry[:n:n], entry[n:]})
	}
	slices.SortFunc(list, func(x, y operatorRaw) int { return slices.Compare(x.key, y.key) })
	for _, e := range list {
		if err := yield(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broadcast[U, V]) load(raw []operatorRaw, was *StateMeta) error {
	readKey, err := reader(b.key, was.Serializer(SerializerKey))
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	readValue, err := reader(b.value, was.Serializer(SerializerValue))
	if err != nil {
		return fmt.Errorf("value: %w", err)
	}
	for i := range raw {
		u, err := readKey(raw[i].key)
		if err != nil {
			return fmt.Errorf("entry %d: key: %w", i, err)
		}
		if b.entries[u], err = readValue(raw[i].value); err != nil {
			return fmt.Errorf("entry %d: value: %w", i, err)
		}
	}
	return nil
}

// reader gives a function that decodes whole values that a serializer wrote.
func reader[T any](c serializer.Codec[T], was *serializer.Snapshot) (func([]byte) (T, error), error) {
	a, err := serializer.Adapt(c, was, nil)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, adviceValue)
	}
	read := a.Read
	if read == nil {
		read = c.Read
	}
	in := serializer.NewInput(nil)
	return func(b []byte) (T, error) {
		in.Reset(b)
		v := read(in)
		return v, in.Finish()
	}, nil
}

// open takes a state in, with what was restored of it.
func (o *Operator) open(meta StateMeta, s openOperatorState) error {
	i, ok := o.byName[meta.Name]
	switch {
	case !ok:
		o.byName[meta.Name] = len(o.states)
		o.states = append(o.states, operatorSlot{meta: meta, state: s})
		return nil
	case o.states[i].state != nil:
		return fmt.Errorf("operator state %q: it was opened before: %w", meta.Name, ErrState)
	}
	if err := o.states[i].into(meta, s); err != nil {
		return fmt.Errorf("operator state %q: %w", meta.Name, err)
	}
	return nil
}

// into opens a state that was restored.
func (slot *operatorSlot) into(meta StateMeta, s openOperatorState) error {
	if err := sameMode(&meta, &slot.meta); err != nil {
		return err
	}
	if err := s.load(slot.raw, &slot.meta); err != nil {
		return err
	}
	*slot = operatorSlot{meta: meta, state: s}
	return nil
}

func sameMode(is, was *StateMeta) error {
	if a, b := is.Option(OptionDistributionMode), was.Option(OptionDistributionMode); is.Kind != was.Kind || a != b {
		return fmt.Errorf("it is of mode %s, and was of mode %s: %w", a, b, ErrState)
	}
	return nil
}

// Restore takes up the states of what [RepartitionOperator] chose for the subtask. States may be
// opened before it or after it; those that are never opened stay as they were and are in every snapshot. After
// an error the operator state is of no use.
func (o *Operator) Restore(ctx context.Context, files Files, shares []OperatorShare) error {
	for _, s := range shares {
		if err := o.restore(ctx, files, s); err != nil {
			return err
		}
	}
	return nil
}

func (o *Operator) restore(ctx context.Context, files Files, share OperatorShare) error {
	r, err := OpenOperator(ctx, files, share.Handle, Options{})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := r.HeaderErr(); err != nil {
		return err
	}
	wanted := func(s *OperatorState) bool { _, ok := share.Elements[s.Name]; return ok }
	entries := map[*OperatorState][]operatorRaw{}
	for e, err := range r.Entries(ctx, wanted) {
		if err != nil {
			return err
		}
		if in := share.Elements[e.State.Name]; e.Key != nil || e.Index >= in.From && e.Index < in.To {
			entries[e.State] = append(entries[e.State], operatorRaw{slices.Clone(e.Key), slices.Clone(e.Value)})
		}
	}
	for _, s := range r.States() {
		switch {
		case !wanted(s):
			continue
		case s.Meta == nil:
			return fmt.Errorf("operator state %q: the header does not describe it: %w", s.Name, serializer.ErrUnsupported)
		}
		if err := o.take(s.Meta, entries[s]); err != nil {
			return fmt.Errorf("operator state %q: %w", s.Name, err)
		}
	}
	return nil
}

// take takes up the entries of a state of a handle.
func (o *Operator) take(meta *StateMeta, raw []operatorRaw) error {
	i, ok := o.byName[meta.Name]
	if !ok {
		o.byName[meta.Name] = len(o.states)
		o.states = append(o.states, operatorSlot{meta: *meta, raw: raw})
		return nil
	}
	slot := &o.states[i]
	if err := sameMode(&slot.meta, meta); err != nil {
		return err
	}
	if slot.state != nil {
		return slot.state.load(raw, meta)
	}
	slot.raw = append(slot.raw, raw...)
	return nil
}

// OperatorSnapshot is operator state as it was at one point in time.
type OperatorSnapshot struct {
	header OperatorHeader
	states [][]operatorRaw // of the header's lists, then of its maps
}

// Snapshot copies the state as it is now: the whole of it is serialized at once, as in Flink, as it is small.
func (o *Operator) Snapshot(compress bool) (*OperatorSnapshot, error) {
	s := &OperatorSnapshot{header: OperatorHeader{Version: OperatorVersion, Compressed: compress}}
	out := serializer.NewOutput(nil)
	for _, kind := range []Kind{KindOperator, KindBroadcast} {
		for i := range o.states {
			slot := &o.states[i]
			if slot.meta.Kind != kind {
				continue
			}
			raw := slot.raw
			if slot.state != nil {
				raw = make([]operatorRaw, 0, slot.state.len())
				err := slot.state.each(out, func(key, value []byte) error {
					raw = append(raw, operatorRaw{slices.Clone(key), slices.Clone(value)})
					return nil
				})
				if err != nil {
					return nil, fmt.Errorf("operator state %q: %w", slot.meta.Name, err)
				}
			}
			s.states = append(s.states, raw)
			if kind == KindOperator {
				s.header.Operator = append(s.header.Operator, slot.meta)
			} else {
				s.header.Broadcast = append(s.header.Broadcast, slot.meta)
			}
		}
	}
	return s, nil
}

// Write writes the state and gives its handle, nil if there are no states. Another goroutine may
// call it than the one that uses the state.
func (s *OperatorSnapshot) Write(ctx context.Context, t Target) (*metadata.OperatorState, error) {
	if len(s.states) == 0 {
		return nil, nil
	}
	stream := t.Create(ctx)
	defer stream.Abort()
	w := NewOperatorWriter(stream, &s.header)
	var err error
	for i, raw := range s.states {
		if i < len(s.header.Operator) {
			for _, e := range raw {
				err = errors.Join(err, w.Element(i, e.value))
			}
			continue
		}
		err = errors.Join(err, w.StartBroadcast(i-len(s.header.Operator), len(raw)))
		for _, e := range raw {
			err = errors.Join(err, w.BroadcastEntry(e.key, e.value))
		}
	}
	if err != nil {
		return nil, err
	}
	offsets, _, err := w.Close()
	if err != nil {
		return nil, err
	}
	delegate, err := stream.Commit()
	if err != nil {
		return nil, err
	}
	return &metadata.OperatorState{States: offsets, Delegate: delegate}, nil
}

// OperatorShare is what a subtask restores of a handle that some subtask wrote.
type OperatorShare struct {
	Handle *metadata.OperatorState
	// Elements are those of each state that the subtask is to have; of a broadcast map it has all.
	// States that are not in it are not restored.
	Elements map[string]ElementRange
}

// ElementRange is the elements of a list from number From on and before To.
type ElementRange struct{ From, To int }

// RepartitionOperator gives each of the new subtasks what it restores of the handles that the old ones
// wrote, which are in the order of the subtasks, nil where there is none: the elements of split lists are
// shared out evenly in their order, also if the parallelism stays, those of union lists go to all, and a broadcast map is given from one
// old subtask (RoundRobinOperatorStateRepartitioner).
func RepartitionOperator(old []*metadata.OperatorState, parallelism int) [][]OperatorShare {
	assigned := make([][]OperatorShare, parallelism)
	total := map[metadata.Text]int{}     // elements of split lists
	holders := map[metadata.Text][]int{} // old subtasks that have a broadcast map
	for from, h := range old {
		if h == nil {
			continue
		}
		for _, s := range h.States {
			switch s.Mode {
			case metadata.ModeSplit:
				total[s.Name] += len(s.Offsets)
			case metadata.ModeBroadcast:
				holders[s.Name] = append(holders[s.Name], from)
			}
		}
	}
	before := map[metadata.Text]int{} // elements of the subtasks before
	for from, h := range old {
		if h == nil {
			continue
		}
		for to := range assigned {
			share := OperatorShare{h, map[string]ElementRange{}}
			for _, s := range h.States {
				r := ElementRange{0, len(s.Offsets)}
				switch s.Mode {
				case metadata.ModeSplit:
					n := total[s.Name]
					r.From = min(max(to*n/parallelism-before[s.Name], 0), r.To)
					r.To = min(max((to+1)*n/parallelism-before[s.Name], r.From), r.To)
				case metadata.ModeBroadcast:
					if list := holders[s.Name]; list[to%len(list)] != from {
						continue
					}
				}
				share.Elements[s.Name.String()] = r
			}
			assigned[to] = append(assigned[to], share)
		}
		for _, s := range h.States {
			if s.Mode == metadata.ModeSplit {
				before[s.Name] += len(s.Offsets)
			}
		}
	}
	return assigned
}
