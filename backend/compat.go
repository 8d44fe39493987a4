package backend

import (
	"bytes"
	"fmt"

	"github.com/drey-state/drey/serializer"
)

// SameState checks that two files describe a state alike, so that the entries
// of both can be taken for one state; an error unwraps to [ErrState].
func SameState(a, b *State) error {
	was, is := serializer.NewOutput(nil), serializer.NewOutput(nil)
	a.Meta.write(was)
	b.Meta.write(is)
	if a.Type != b.Type || was.Err() != nil || is.Err() != nil || !bytes.Equal(was.Bytes(), is.Bytes()) {
		return fmt.Errorf("described otherwise in another handle: %w", ErrState)
	}
	return nil
}

// SameType checks that a state that was restored is of the kind that it is opened as; an error unwraps to [ErrState].
func SameType(is, was *State) error {
	if is.Type != was.Type {
		return fmt.Errorf("it is %s state, and was %s state: %w; open it as it was, or under another name", is.Type, was.Type, ErrState)
	}
	return nil
}

// SameKeys checks that keys which the serializer old wrote are read and
// written by the codec as they are; an error unwraps to [ErrIncompatible]. Keys are
// never rewritten, nor does Flink do it: they would belong to other key groups.
func SameKeys[K any](c serializer.Codec[K], old *serializer.Snapshot) error {
	return same("key", c, old)
}

// SameUserKeys is SameKeys for the user keys of map state. RocksDB backends of Flink
// don't migrate them; the hashmap backend does, but then the state is bound to it.
func SameUserKeys[U any](c serializer.Codec[U], old *serializer.Snapshot) error {
	return same("user key", c, old)
}

func same[T any](what string, c serializer.Codec[T], old *serializer.Snapshot) error {
	a, err := serializer.Adapt(c, old, nil)
	if err == nil && a.Read != nil {
		err = fmt.Errorf("%w: %s, by %s, was written in another form", ErrIncompatible, old, old.Class)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; keys can't be migrated: take the serializer that wrote them", what, err)
	}
	return nil
}

// AdaptNamespace gives what reads namespaces as an older serializer wrote them, nil if the codec does. They may
// be in another form, but not of another schema, as in Flink; an error unwraps to [ErrIncompatible].
func AdaptNamespace[N any](c serializer.Codec[N], old *serializer.Snapshot) (func(*serializer.Input) N, error) {
	a, err := serializer.Adapt(c, old, nil)
	if err == nil && a.Migrates {
		err = fmt.Errorf("%w: %s, by %s, was of another schema", ErrIncompatible, old, old.Class)
	}
	if err != nil {
		return nil, fmt.Errorf("namespace: %w; namespaces can't be migrated: take the serializer that wrote them", err)
	}
	return a.Read, nil
}

// adviceValue is what to do about values that can't be read.
const adviceValue = "open the state with a serializer that can read it, or under another name"

// AdaptValue gives what reads values, or elements, of a state as an older serializer wrote them, nil if the codec does.
// The time to live of values that had none begins when they are read; that of others is passed over
// if they have none any more. An error unwraps to [ErrIncompatible]. See [serializer.Adapt].
func AdaptValue[V any](c serializer.Codec[V], old *serializer.Snapshot, now Clock) (func(*serializer.Input) V, error) {
	a, err := serializer.Adapt(c, old, now)
	if err != nil {
		return nil, fmt.Errorf("value: %w; %s", err, adviceValue)
	}
	return a.Read, nil
}

// Managed gives the state as a backend holds it: timers of raw keyed state become a queue, as which they
// stand in all files but the native ones of a RocksDB backend with timers on the heap. The error unwraps to
// [serializer.ErrUnsupported] if it is other raw keyed state.
func (s *State) Managed() (*State, error) {
	switch {
	case !s.Raw:
		return s, nil
	case s.Type != TypeTimers:
		return nil, fmt.Errorf("raw keyed state that does not read as timers: it belongs to its operator, not to the backend, or is damaged: %w", serializer.ErrUnsupported)
	}
	meta := NewTimersMeta(s.Meta.Name, serializer.TimerSnapshot(s.parts.Key.Modern(), s.parts.Namespace.Modern()))
	return NewState(&meta, s.parts.Key.Modern()), nil
}

// Parts are the serializers of what the entries of a state are made of, each nil if there is none.
type Parts struct {
	Key, Namespace, UserKey, Value *serializer.Snapshot
}

// Parts gives the serializers of the state's parts: of a list, Value is that of
// an element; of a map, of a value in it.
func (s *State) Parts() Parts { return s.parts }
