package backend

import (
	"fmt"

	"github.com/drey-state/drey/serializer"
)

// State is one state of a keyed reader with what decodes it. Its serializers
// may be used from any number of goroutines.
type State struct {
	// Meta is what the header says; for a state that it does not describe
	// only a name.
	Meta *StateMeta
	// Type of the state; [TypeTimers] for a queue of timers.
	Type Type
	// Key and Namespace are never nil.
	Key, Namespace serializer.Serializer
	// UserKey is nil unless Type is [TypeMap].
	UserKey serializer.Serializer
	// Value is for one value: of a list, one element; of a map, the value of
	// one entry; nil for timers. With time to live it is a serializer of [serializer.TTL].
	Value serializer.Serializer
	// TTL says that values have a last access time.
	TTL bool
	// Raw says that the state lies in raw keyed state: timers of a RocksDB
	// backend with timers on the heap, or what an operator wrote by itself.
	Raw bool

	known bool // the header describes it
	keys  composite
	parts Parts
}

// NewState makes the state that a header with this serializer of keys
// describes. It shares the memory of m.
func NewState(m *StateMeta, key *serializer.Snapshot) *State {
	s := &State{Meta: m, Key: serializer.Of(key), known: true}
	value := m.Serializer(SerializerValue).Modern()
	if m.Kind == KindPriorityQueue {
		s.Type = TypeTimers
		s.parts = Parts{Key: key, Namespace: part(value, 1, 2)}
		s.Namespace = serializer.Of(s.parts.Namespace)
		s.keys = newComposite(s, false, false)
		return s
	}
	s.Type = stateType(m.Option(OptionStateType))
	s.parts = Parts{Key: key, Namespace: m.Serializer(SerializerNamespace)}
	s.Namespace = serializer.Of(s.parts.Namespace)
	v2 := m.Kind == KindKeyValueV2
	switch {
	case s.Type == TypeMap && v2:
		s.parts.UserKey = m.Serializer(SerializerUserKey)
	case s.Type == TypeMap:
		s.parts.UserKey = part(value, 0, 2)
		value = part(value, 1, 2)
	case s.Type == TypeList && !v2:
		value = part(value, 0, 1)
	}
	if s.Type == TypeMap {
		s.UserKey = serializer.Of(s.parts.UserKey)
	}
	s.parts.Value = value
	s.Value = serializer.Of(value)
	s.TTL = value != nil && value.HasTTL()
	s.keys = newComposite(s, isUnread(key), isUnread(m.Serializer(SerializerNamespace)))
	return s
}

// isUnread says that a serializer is not known, not even the length of its values.
func isUnread(s *serializer.Snapshot) bool {
	if s == nil {
		return true
	}
	_, unread := s.Body.(serializer.Unread)
	return unread
}

// unknownState stands for a state of which only the name is known.
func unknownState(name string, key *serializer.Snapshot) *State {
	s := &State{
		Meta: &StateMeta{Name: name}, Type: TypeUnknown,
		Key: serializer.Of(key), Namespace: serializer.Of(nil), Value: serializer.Of(nil),
	}
	s.keys = newComposite(s, isUnread(key), true)
	return s
}

// unknownID names a state of which only the number is known.
func unknownID(id int) string { return fmt.Sprintf("state#%d (unknown)", id) }

// part gives one of the parts of a serializer that has so many, else nil.
func part(s *serializer.Snapshot, i, of int) *serializer.Snapshot {
	if s == nil {
		return nil
	}
	c, _ := s.Modern().Body.(*serializer.Composite)
	if c == nil || len(c.Nested) != of {
		return nil
	}
	return c.Nested[i]
}

func stateType(option string) Type {
	switch t := Type(option); t {
	case TypeValue, TypeList, TypeMap, TypeReducing, TypeAggregating, TypeFolding:
		return t
	}
	return TypeUnknown
}
