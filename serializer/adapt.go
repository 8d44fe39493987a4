package serializer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// ErrIncompatible is given if what one serializer wrote can't be read as the values of another.
var ErrIncompatible = errors.New("not compatible")

// Adaption is how what an older serializer wrote is read as values of a codec
// (TypeSerializerSchemaCompatibility). The zero value says that the codec itself reads it.
type Adaption[T any] struct {
	// Read reads a value; nil if the bytes are those of the codec. It may be used
	// concurrently, each time with another Input.
	Read func(*Input) T
	// Migrates says that the values have another schema, as that of a class with other
	// fields. If not, they only stand for the same in other bytes, as the constants of an enum
	// in another order do, which Flink calls reconfigured.
	Migrates bool
}

// Adapt says how a codec reads what the serializer of an older snapshot wrote, by the rules of Flink's snapshots
// (resolveSchemaCompatibility). The error unwraps to [ErrIncompatible] if it can't be done.
//
// If now is not nil, the values may have got a time to live, which counts from the time that it gives in
// milliseconds since 1970, or may have lost it, as Flink has it since 2.0. It is asked for each value that is read.
func Adapt[T any](c Codec[T], old *Snapshot, now func() int64) (Adaption[T], error) {
	r := new(resolution)
	read := top(r, c, old, now)
	switch {
	case r.err != nil:
		return Adaption[T]{}, r.err
	case !r.differs:
		return Adaption[T]{}, nil
	}
	return Adaption[T]{Read: read, Migrates: r.migrates}, nil
}

// top is adapted for a whole value, which is where the time to live is.
func top[T any](r *resolution, c Codec[T], old *Snapshot, now func() int64) func(*Input) T {
	own, _ := c.(*codec[T])
	had, has := old != nil && old.HasTTL(), own != nil && own.begin != nil
	if old == nil || had == has || now == nil {
		return adapted(r, "", c, old)
	}
	r.differs, r.migrates = true, true
	if has {
		return own.begin(r, old, now)
	}
	was, _ := old.Modern().Body.(*Composite)
	if was == nil || len(was.Nested) != 2 {
		r.fail("%s, by %s, of which the parts are others", old, old.Class)
		return nil
	}
	read := adapted(r, "", c, was.Nested[1])
	return func(in *Input) T {
		in.I64()
		return read(in)
	}
}

// resolution is what was found out so far of how serializers differ.
type resolution struct {
	differs, migrates bool
	err               error // the first reason why it can't be done
}

func (r *resolution) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrIncompatible}, args...)...)
	}
}

// adapted gives what reads values of an older snapshot, c.Read where it does. It is called for each part of
// a value, which is named, and never gives nil.
func adapted[T any](r *resolution, name string, c Codec[T], old *Snapshot) func(*Input) T {
	failed := r.err != nil
	read := resolve(r, c, old)
	if name != "" && r.err != nil && !failed {
		r.err = fmt.Errorf("%s: %w", name, r.err)
	}
	if read == nil {
		return c.Read
	}
	return read
}

func resolve[T any](r *resolution, c Codec[T], old *Snapshot) func(*Input) T {
	old = old.Modern()
	is := c.Snapshot()
	switch own, ok := c.(*codec[T]); {
	case r.err != nil:
	case old == nil:
		r.fail("what wrote it is not known, it is to be read by %s", is.Class)
	case ok && own.wraps:
		return own.adapt(r, old)
	case old.Class != is.Class:
		r.fail("%s, written by %s, is to be read as %s by %s", old, old.Class, is, is.Class)
	case sameBytes(old, is):
	case ok && own.adapt != nil:
		return own.adapt(r, old)
	case ok && is.Body == nil: // its class says all
	default:
		r.fail("%s of another configuration, by %s", old, old.Class)
	}
	return nil
}

func sameBytes(a, b *Snapshot) bool {
	var was, is Output
	a.Write(&was)
	b.Write(&is)
	return was.Err() == nil && is.Err() == nil && bytes.Equal(was.Bytes(), is.Bytes())
}

// byParts makes the adapt of a codec that is made of others, as many as the older snapshot must have.
func byParts[T any](n int, adapt func(r *resolution, old *Composite) func(*Input) T) func(*resolution, *Snapshot) func(*Input) T {
	return func(r *resolution, old *Snapshot) func(*Input) T {
		c, _ := old.Body.(*Composite)
		if c == nil || len(c.Nested) != n {
			r.fail("%s, by %s, of which the parts are others", old, old.Class)
			return nil
		}
		return adapt(r, c)
	}
}

// adaptEnum reads constants by their names.
func adaptEnum[T ~string](r *resolution, class string, constants []T, old *Snapshot) func(*Input) T {
	b, _ := old.Body.(*Enum)
	if b == nil || b.Class != class {
		r.fail("%s, not %s", old, class)
		return nil
	}
	for i, name := range b.Constants {
		switch at := slices.Index(constants, T(name)); {
		case at < 0:
			r.fail("%s has no constant %q any more", class, name)
			return nil
		case at != i:
			r.differs = true
		}
	}
	return func(in *Input) T {
		off := in.Offset()
		i := in.I32()
		if i < 0 || int(i) >= len(b.Constants) {
			in.FailAt(off, class, fmt.Errorf("%w: no constant %d", ErrCorrupt, i))
			return ""
		}
		return T(b.Constants[i])
	}
}

// adaptPojo reads the fields that an object had. Those that it had not stay zero values, those that are no more are passed over.
func adaptPojo[T any](r *resolution, class string, members []Member[T], old *Snapshot) func(*Input) T {
	b, _ := old.Body.(*Pojo)
	if b == nil || b.Class != class {
		r.fail("%s, not %s", old, class)
		return nil
	}
	// Objects of subclasses can't be read, so that none may be taken over unread.
	r.differs = r.differs || len(b.Registered)+len(b.Others) > 0
	fields := make([]func(*Input, *T), 0, len(b.Fields))
	kept := 0
	for i := range b.Fields {
		f := &b.Fields[i]
		at := slices.IndexFunc(members, func(m Member[T]) bool {
			return bytes.Equal(f.Key, PojoField(m.declarer(class), m.name, nil).Key)
		})
		if at < 0 {
			fields = append(fields, passOver[T](f))
			continue
		}
		r.differs = r.differs || at != i
		kept++
		fields = append(fields, members[at].adapt(r, f.Snapshot))
	}
	if kept < len(b.Fields) || kept < len(members) {
		r.differs, r.migrates = true, true
	}
	return func(in *Input) T { return readPojoFields(in, class, fields) }
}

// passOver skips a field.
func passOver[T any](f *Frame) func(*Input, *T) {
	s := f.serializer()
	return func(in *Input, _ *T) {
		if in.flag("flag of null") {
			return
		}
		off := in.Offset()
		if s.Skip(in); in.lost {
			in.FailAt(off, "field "+f.Name, fmt.Errorf("%w: it is no more, but its end can't be found", ErrUnsupported))
		}
	}
}
