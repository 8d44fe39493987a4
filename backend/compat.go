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

// SameKeys checks that keys which the serializer old wrote are read and
// written by the codec as they are; an error unwraps to [ErrIncompatible]. Keys are
// never rewritten, nor does Flink do it: they would belong to other key groups.
func SameKeys[K any](c serializer.Codec[K], old *serializer.Snapshot) error {
	read, err := serializer.Adapt(c, old)
	if err == nil && read != nil {
		err = fmt.Errorf("%w: they were written otherwise", ErrIncompatible)
	}
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	return nil
}

// Parts are the serializers of what the entries of a state are made of, each nil if there is none.
type Parts struct {
	Key, Namespace, UserKey, Value *serializer.Snapshot
}

// Parts gives the serializers of the state's parts: of a list, Value is that of
// an element; of a map, of a value in it.
func (s *State) Parts() Parts { return s.parts }
