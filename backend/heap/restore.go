package heap

import (
	"context"
	"errors"
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// restored is how the entries of a state in a file are read; one goroutine uses it.
type restored struct {
	// namespace and value read what an older serializer wrote: each a
	// func(*serializer.Input) T, nil where the codec reads the same bytes.
	namespace, value any
	now              backend.Clock
	// group is the index of the key group that is read, expected how many values the one before had.
	group, expected int
	in              serializer.Input
}

func (r *restored) input(b []byte) *serializer.Input {
	r.in.Reset(b)
	return &r.in
}

func readAs[T any](read any, c serializer.Codec[T], in *serializer.Input) T {
	if f, ok := read.(func(*serializer.Input) T); ok {
		return f(in)
	}
	return c.Read(in)
}

func readWith[T any](r *restored, c serializer.Codec[T], in *serializer.Input) T {
	return readAs(r.value, c, in)
}

func (b *Backend[K]) readKey(r *restored, key []byte) (K, error) {
	in := r.input(key)
	k := b.key.Read(in)
	if err := in.Finish(); err != nil {
		return k, fmt.Errorf("key: %w", err)
	}
	if b.oddKey != nil && b.oddKey(k) {
		return k, oddError("key", k)
	}
	return k, nil
}

// Restore is that of [backend.Keyed].
func (b *Backend[K]) Restore(ctx context.Context, files backend.Files, h backend.Handles) error {
	if b.closed {
		return backend.ErrClosed
	}
	if b.loaded {
		return errors.New("state was restored before")
	}
	for i := range b.states {
		if b.states[i].table.len() > 0 {
			return fmt.Errorf("state %q has entries: restore before anything is written", b.states[i].table.meta().Meta.Name)
		}
	}
	b.loaded = true
	load := func(t *target[K], e *backend.Entry) error { return t.load(e, b.groups.Start) }
	return h.Each(ctx, files, b.o.MaxParallelism, func(r *backend.KeyedReader) error {
		return backend.LoadEntries(ctx, b.subtask, r, b.target, load)
	})
}

// target is where the entries of a state of a file go.
type target[K comparable] struct {
	table anyTable[K]
	how   restored
	raw   *rawState
}

func (t *target[K]) load(e *backend.Entry, first int) error {
	if e.Unsplit || e.Joined {
		return fmt.Errorf("key and namespace can't be told apart, as their serializers are not known: %w", serializer.ErrUnsupported)
	}
	if t.table == nil {
		return t.raw.add(e, e.KeyGroup-first)
	}
	return t.table.load(e.KeyGroup-first, e, &t.how)
}

// target finds where a state of a file goes, and checks that it can go there.
func (b *Backend[K]) target(s *backend.State) (*target[K], error) {
	s, err := s.Managed()
	if err != nil {
		return nil, err
	}
	if err := backend.SameKeys(b.key, s.Parts().Key); err != nil {
		return nil, err
	}
	i, ok := b.byName[s.Meta.Name]
	if !ok {
		raw := newRawState(s, b.groups)
		b.byName[s.Meta.Name] = len(b.states)
		b.states = append(b.states, slot[K]{raw: raw})
		return &target[K]{raw: raw}, nil
	}
	slot := &b.states[i]
	if slot.table == nil {
		if err := backend.SameState(slot.raw.state, s); err != nil {
			return nil, err
		}
		return &target[K]{raw: slot.raw}, nil
	}
	t := &target[K]{table: slot.table}
	return t, slot.table.adapt(s, &t.how)
}

// adaptState prepares to read the entries of a state that was restored.
func adaptState[N comparable](namespace serializer.Codec[N], is, was *backend.State, r *restored) error {
	if err := backend.SameType(is, was); err != nil {
		return err
	}
	f, err := backend.AdaptNamespace(namespace, was.Parts().Namespace)
	if f != nil {
		r.namespace = f
	}
	return err
}

// adaptValue prepares to read the values, or elements, of a state that was restored.
func adaptValue[V any](c serializer.Codec[V], old *serializer.Snapshot, r *restored) error {
	f, err := backend.AdaptValue(c, old, r.now)
	if f != nil {
		r.value = f
	}
	return err
}
