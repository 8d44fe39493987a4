package backend

import (
	"context"
	"fmt"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// Subtask says which keys a keyed backend holds: those of its key groups. One goroutine may use it at a time.
type Subtask[K any] struct {
	// KeyGroups are those of the subtask, MaxParallelism is the number of all.
	KeyGroups      keygroup.Range
	MaxParallelism int

	key  serializer.Codec[K]
	hash func(K) (int32, error)
	in   serializer.Input
}

// NewSubtask checks what a backend is opened for. hash may be nil where hashCode of the keys follows from their serializer.
func NewSubtask[K any](key serializer.Codec[K], groups keygroup.Range, maxParallelism int, hash func(K) int32) (*Subtask[K], error) {
	s := &Subtask[K]{KeyGroups: groups, MaxParallelism: maxParallelism, key: key}
	switch {
	case maxParallelism <= 0 || maxParallelism > keygroup.UpperBound:
		return nil, fmt.Errorf("max parallelism %d: it must be from 1 to %d", maxParallelism, keygroup.UpperBound)
	case groups.Start < 0 || groups.End >= maxParallelism || groups.Empty():
		return nil, fmt.Errorf("key groups %v of %d", groups, maxParallelism)
	case hash != nil:
		s.hash = func(k K) (int32, error) { return hash(k), nil }
		return s, nil
	}
	var err error
	if s.hash, err = HashFunc(key); err != nil {
		return nil, fmt.Errorf("key: %w; set Options.Hash to what the class's hashCode gives", err)
	}
	return s, nil
}

// GroupOf gives the key group of a key. The error unwraps to ErrKeyGroup if it is none of the subtask's.
func (s *Subtask[K]) GroupOf(key K) (int, error) {
	hash, err := s.hash(key)
	if err != nil {
		return 0, err
	}
	group := keygroup.ForHash(hash, s.MaxParallelism)
	if group < s.KeyGroups.Start || group > s.KeyGroups.End {
		return 0, fmt.Errorf("key group %d, but this subtask has %v of %d: %w", group, s.KeyGroups, s.MaxParallelism, ErrKeyGroup)
	}
	return group, nil
}

// check checks that the key of an entry belongs into the entry's key group. If not, the
// operator had another max parallelism, or keys have another hash.
func (s *Subtask[K]) check(e *Entry) error {
	s.in.Reset(e.Key)
	k := s.key.Read(&s.in)
	if err := s.in.Finish(); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	hash, err := s.hash(k)
	if err != nil {
		return err
	}
	if g := keygroup.ForHash(hash, s.MaxParallelism); g != e.KeyGroup {
		return fmt.Errorf("a key of key group %d of %d: the state is of another max parallelism, or its keys have another hash: %w",
			g, s.MaxParallelism, ErrKeyGroup)
	}
	return nil
}

// LoadEntries hands the entries of a reader that are of the subtask to take, with what target gives of
// their state. The first key of each key group is checked to belong there.
func LoadEntries[K, T any](ctx context.Context, s *Subtask[K], r *KeyedReader, target func(*State) (T, error), take func(T, *Entry) error) error {
	into := map[*State]T{}
	for _, state := range r.States() {
		t, err := target(state)
		if err != nil {
			return fmt.Errorf("state %q: %w", state.Meta.Name, err)
		}
		into[state] = t
	}
	var last *State // the state of t
	var t T
	group, ok := -1, false
	for e, err := range r.Entries(ctx, Filter{KeyGroups: []keygroup.Range{s.KeyGroups}}) {
		if err != nil {
			return err
		}
		if e.State != last {
			last = e.State
			t, ok = into[last]
		}
		if !ok {
			return fmt.Errorf("state %q: the header does not describe it: %w", e.State.Meta.Name, serializer.ErrUnsupported)
		}
		if e.KeyGroup != group && !e.Unsplit && !e.Joined {
			group = e.KeyGroup
			err = s.check(e)
		}
		if err == nil {
			err = take(t, e)
		}
		if err != nil {
			return fmt.Errorf("state %q, key group %d: %w", e.State.Meta.Name, e.KeyGroup, err)
		}
	}
	return nil
}
