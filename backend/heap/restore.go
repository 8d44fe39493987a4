package heap

import (
	"context"
	"errors"
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// restored is how the entries of a state in a file are read; one goroutine uses it.
type restored struct {
	// key, namespace, userKey and value read what an older serializer wrote: each a
	// func(*serializer.Input) T, nil where the codec reads the same bytes.
	key, namespace, userKey, value any
	in                             serializer.Input
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

func readUserKey[T any](r *restored, c serializer.Codec[T], in *serializer.Input) T {
	return readAs(r.userKey, c, in)
}

// filled gives the input's error, or one if bytes are left.
func filled(in *serializer.Input) error {
	if in.Err() == nil && !in.AtEnd() {
		in.Failf("end", "%d bytes follow", in.Remaining())
	}
	return in.Err()
}

func (b *Backend[K]) readKey(r *restored, key []byte) (K, error) {
	in := r.input(key)
	k := readAs(r.key, b.key, in)
	if err := filled(in); err != nil {
		return k, fmt.Errorf("key: %w", err)
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
	b.loaded = true
	for _, m := range h.Managed {
		if err := b.restore(ctx, files, m, false); err != nil {
			return err
		}
	}
	for _, m := range h.Raw {
		if err := b.restore(ctx, files, m, true); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend[K]) restore(ctx context.Context, files backend.Files, h metadata.Keyed, raw bool) error {
	r, err := backend.OpenKeyed(ctx, files, h, backend.Options{MaxParallelism: b.o.MaxParallelism, Raw: raw})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.HeaderErr(); err != nil {
		return err
	}
	into := map[*backend.State]*target[K]{}
	for _, s := range r.States() {
		t, err := b.target(s)
		if err != nil {
			return fmt.Errorf("state %q: %w", s.Meta.Name, err)
		}
		into[s] = t
	}
	for e, err := range r.Entries(ctx, backend.Filter{KeyGroups: []keygroup.Range{b.groups}}) {
		if err != nil {
			return err
		}
		t := into[e.State]
		if t == nil {
			return fmt.Errorf("state %q: the header does not describe it: %w", e.State.Meta.Name, serializer.ErrUnsupported)
		}
		if err := t.load(e, b.groups.Start); err != nil {
			return fmt.Errorf("state %q, key group %d: %w", e.State.Meta.Name, e.KeyGroup, err)
		}
	}
	return nil
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
	if s.Raw && s.Type != backend.TypeTimers {
		return nil, fmt.Errorf("raw keyed state that is no timers belongs to its operator, not to the backend: %w", serializer.ErrUnsupported)
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
func adaptState[K, N comparable](key serializer.Codec[K], namespace serializer.Codec[N], is, was *backend.State, r *restored) error {
	if was.Type != is.Type {
		return fmt.Errorf("it is %s state, and was %s state: %w", is.Type, was.Type, backend.ErrState)
	}
	old := was.Parts()
	if err := adapt(&r.key, "key", key, old.Key); err != nil {
		return err
	}
	return adapt(&r.namespace, "namespace", namespace, old.Namespace)
}

// adapt sets read to what reads values of an older serializer, if there is need.
func adapt[T any](read *any, what string, c serializer.Codec[T], old *serializer.Snapshot) error {
	f, err := serializer.Adapt(c, old)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if f != nil {
		*read = f
	}
	return nil
}
