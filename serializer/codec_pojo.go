package serializer

import (
	"cmp"
	"fmt"
	"slices"
)

// Member is a field of a POJO of which T is the Go type.
type Member[T any] struct {
	name, declaredBy string
	snapshot         *Snapshot
	write            func(out *Output, v *T) // with the flag of null
	read             func(in *Input, v *T)
}

// NewMember is a field that is never null, such as one of a primitive type.
// at gives where it lies in the Go value. Reading a null fails with [ErrNull].
func NewMember[T, F any](name string, c Codec[F], at func(*T) *F) Member[T] {
	return Member[T]{
		name: name, snapshot: c.Snapshot(),
		write: func(out *Output, v *T) {
			out.Bool(false)
			c.Write(out, *at(v))
		},
		read: func(in *Input, v *T) {
			if in.flag("flag of null") {
				in.Fail("field "+name, ErrNull)
				return
			}
			*at(v) = c.Read(in)
		},
	}
}

// NewNullMember is a field that may be null, which is nil.
func NewNullMember[T, F any](name string, c Codec[F], at func(*T) **F) Member[T] {
	return Member[T]{
		name: name, snapshot: c.Snapshot(),
		write: func(out *Output, v *T) {
			f := *at(v)
			if out.Bool(f == nil); f != nil {
				c.Write(out, *f)
			}
		},
		read: func(in *Input, v *T) {
			if in.flag("flag of null") {
				*at(v) = nil
				return
			}
			f := c.Read(in)
			*at(v) = &f
		},
	}
}

// DeclaredBy says that a superclass declares the field.
func (m Member[T]) DeclaredBy(class string) Member[T] {
	m.declaredBy = class
	return m
}

// ForPojo is PojoSerializer of a Java class by its binary name, such as
// "com.example.Jobs$Event". Its fields may stand in any order; Flink sorts them
// by name. The object itself is never null, and an object of a subclass fails with [ErrUnsupported].
func ForPojo[T any](class string, members ...Member[T]) Codec[T] {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b Member[T]) int { return cmp.Compare(a.name, b.name) })
	body := &Pojo{Class: class}
	for _, m := range members {
		body.Fields = append(body.Fields, PojoField(cmp.Or(m.declaredBy, class), m.name, m.snapshot))
	}
	return &codec[T]{
		snapshot: &Snapshot{Class: javaRuntime + "PojoSerializerSnapshot", Version: 2, Body: body},
		len:      -1,
		write: func(out *Output, v T) {
			out.U8(pojoExact)
			for i := range members {
				members[i].write(out, &v)
			}
		},
		read: func(in *Input) (v T) {
			off := in.Offset()
			switch flags := in.U8(); flags {
			case pojoExact:
			case pojoNull:
				in.FailAt(off, class, ErrNull)
			case pojoSubclass, pojoRegistered:
				in.FailAt(off, class, fmt.Errorf("%w: an object of a subclass", ErrUnsupported))
			default:
				in.FailAt(off, class, fmt.Errorf("%w: flags %#x", ErrCorrupt, flags))
			}
			for i := range members {
				if in.err != nil {
					break
				}
				members[i].read(in, &v)
			}
			return v
		},
	}
}
