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
	// adapt gives what reads the field as an older serializer wrote it.
	adapt func(r *resolution, old *Snapshot) func(in *Input, v *T)
}

// declarer is the class that declares the field of an object of a class.
func (m *Member[T]) declarer(class string) string { return cmp.Or(m.declaredBy, class) }

// NewMember is a field that is never null, such as one of a primitive type.
// at gives where it lies in the Go value. Reading a null fails with [ErrNull].
func NewMember[T, F any](name string, c Codec[F], at func(*T) *F) Member[T] {
	read := func(in *Input, v *T, value func(*Input) F) {
		if in.flag("flag of null") {
			in.Fail("field "+name, ErrNull)
			return
		}
		*at(v) = value(in)
	}
	write := func(out *Output, v *T) {
		out.Bool(false)
		c.Write(out, *at(v))
	}
	return newMember(name, c, write, read)
}

func newMember[T, F any](name string, c Codec[F], write func(*Output, *T), read func(in *Input, v *T, value func(*Input) F)) Member[T] {
	value := c.Read
	return Member[T]{
		name: name, snapshot: c.Snapshot(), write: write,
		read: func(in *Input, v *T) { read(in, v, value) },
		adapt: func(r *resolution, old *Snapshot) func(*Input, *T) {
			value := adapted(r, "field "+name, c, old)
			return func(in *Input, v *T) { read(in, v, value) }
		},
	}
}

// NewNullMember is a field that may be null, which is nil.
func NewNullMember[T, F any](name string, c Codec[F], at func(*T) **F) Member[T] {
	write := func(out *Output, v *T) {
		f := *at(v)
		if out.Bool(f == nil); f != nil {
			c.Write(out, *f)
		}
	}
	read := func(in *Input, v *T, value func(*Input) F) {
		if in.flag("flag of null") {
			*at(v) = nil
			return
		}
		f := value(in)
		*at(v) = &f
	}
	return newMember(name, c, write, read)
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
	fields := make([]func(*Input, *T), len(members))
	for i, m := range members {
		body.Fields = append(body.Fields, PojoField(m.declarer(class), m.name, m.snapshot))
		fields[i] = m.read
	}
	return &codec[T]{
		snapshot: &Snapshot{Class: pojoSnapshot, Version: 2, Body: body},
		len:      -1,
		write: func(out *Output, v T) {
			out.U8(pojoExact)
			for i := range members {
				members[i].write(out, &v)
			}
		},
		read:  func(in *Input) T { return readPojoFields(in, class, fields) },
		adapt: func(r *resolution, old *Snapshot) func(*Input) T { return adaptPojo(r, class, members, old) },
	}
}

func readPojoFields[T any](in *Input, class string, fields []func(*Input, *T)) (v T) {
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
	for _, read := range fields {
		if in.err != nil {
			break
		}
		read(in, &v)
	}
	return v
}
