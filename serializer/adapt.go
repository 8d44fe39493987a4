package serializer

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrIncompatible is given if what one serializer wrote can't be read as the values of another.
var ErrIncompatible = errors.New("not compatible")

// Adapt gives the function that reads what the serializer of an older snapshot
// wrote as values of the codec (TypeSerializerSnapshot.resolveSchemaCompatibility). It is
// nil if the codec reads the same bytes. The error unwraps to [ErrIncompatible]
// if it can't be done. The function may be used concurrently, each time with another Input.
func Adapt[T any](c Codec[T], old *Snapshot) (func(*Input) T, error) {
	if old == nil {
		return nil, fmt.Errorf("%w: no snapshot of the serializer", ErrIncompatible)
	}
	was, is := written(old.Modern()), written(c.Snapshot())
	if was == nil || is == nil || !bytes.Equal(was, is) {
		return nil, fmt.Errorf("%w: was written by %s, is to be read by %s", ErrIncompatible, old.Class, c.Snapshot().Class)
	}
	return nil, nil
}

// written is a snapshot's bytes, nil if it has none.
func written(s *Snapshot) []byte {
	out := NewOutput(nil)
	s.Write(out)
	if out.Err() != nil {
		return nil
	}
	return out.Bytes()
}
