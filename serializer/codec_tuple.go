package serializer

import "strconv"

// Tuple1 to Tuple5 are Flink's tuples, whose fields are never null.
type (
	// Tuple1 is a tuple of one field.
	Tuple1[A any] struct{ F0 A }
	// Tuple2 is a tuple of two fields.
	Tuple2[A, B any] struct {
		F0 A
		F1 B
	}
	// Tuple3 is a tuple of three fields.
	Tuple3[A, B, C any] struct {
		F0 A
		F1 B
		F2 C
	}
	// Tuple4 is a tuple of four fields.
	Tuple4[A, B, C, D any] struct {
		F0 A
		F1 B
		F2 C
		F3 D
	}
	// Tuple5 is a tuple of five fields.
	Tuple5[A, B, C, D, E any] struct {
		F0 A
		F1 B
		F2 C
		F3 D
		F4 E
	}
)

// shape is what the codecs of parts have in common.
type shape interface {
	Snapshot() *Snapshot
	Len() int
}

// forTuple is TupleSerializer of these parts. adapt gives what reads older ones.
func forTuple[T any](write func(*Output, T), read func(*Input) T, adapt func(r *resolution, old []*Snapshot) func(*Input) T, parts ...shape) Codec[T] {
	var nested []*Snapshot
	length := 0
	for _, p := range parts {
		nested = append(nested, p.Snapshot())
		if p.Len() <= 0 || length < 0 {
			length = -1
			continue
		}
		length += p.Len()
	}
	return &codec[T]{
		snapshot: compositeSnapshot(javaRuntime+"TupleSerializerSnapshot", 2, ClassName(tupleClass(len(parts))), nested...),
		len:      length, write: write, read: read,
		adapt: byParts(len(parts), func(r *resolution, old *Composite) func(*Input) T { return adapt(r, old.Nested) }),
	}
}

// tupleField is adapted for a field of a tuple.
func tupleField[T any](r *resolution, i int, c Codec[T], old []*Snapshot) func(*Input) T {
	return adapted(r, "field "+strconv.Itoa(i), c, old[i])
}

// ForTuple1 is TupleSerializer of Tuple1.
func ForTuple1[A any](a Codec[A]) Codec[Tuple1[A]] {
	read := func(a func(*Input) A) func(*Input) Tuple1[A] {
		return func(in *Input) Tuple1[A] { return Tuple1[A]{a(in)} }
	}
	return forTuple(
		func(out *Output, v Tuple1[A]) { a.Write(out, v.F0) },
		read(a.Read),
		func(r *resolution, old []*Snapshot) func(*Input) Tuple1[A] {
			return read(tupleField(r, 0, a, old))
		}, a)
}

// ForTuple2 is TupleSerializer of Tuple2.
func ForTuple2[A, B any](a Codec[A], b Codec[B]) Codec[Tuple2[A, B]] {
	read := func(a func(*Input) A, b func(*Input) B) func(*Input) Tuple2[A, B] {
		return func(in *Input) Tuple2[A, B] { return Tuple2[A, B]{a(in), b(in)} }
	}
	return forTuple(
		func(out *Output, v Tuple2[A, B]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
		},
		read(a.Read, b.Read),
		func(r *resolution, old []*Snapshot) func(*Input) Tuple2[A, B] {
			return read(tupleField(r, 0, a, old), tupleField(r, 1, b, old))
		}, a, b)
}

// ForTuple3 is TupleSerializer of Tuple3.
func ForTuple3[A, B, C any](a Codec[A], b Codec[B], c Codec[C]) Codec[Tuple3[A, B, C]] {
	read := func(a func(*Input) A, b func(*Input) B, c func(*Input) C) func(*Input) Tuple3[A, B, C] {
		return func(in *Input) Tuple3[A, B, C] { return Tuple3[A, B, C]{a(in), b(in), c(in)} }
	}
	return forTuple(
		func(out *Output, v Tuple3[A, B, C]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
			c.Write(out, v.F2)
		},
		read(a.Read, b.Read, c.Read),
		func(r *resolution, old []*Snapshot) func(*Input) Tuple3[A, B, C] {
			return read(tupleField(r, 0, a, old), tupleField(r, 1, b, old), tupleField(r, 2, c, old))
		}, a, b, c)
}

// ForTuple4 is TupleSerializer of Tuple4.
func ForTuple4[A, B, C, D any](a Codec[A], b Codec[B], c Codec[C], d Codec[D]) Codec[Tuple4[A, B, C, D]] {
	read := func(a func(*Input) A, b func(*Input) B, c func(*Input) C, d func(*Input) D) func(*Input) Tuple4[A, B, C, D] {
		return func(in *Input) Tuple4[A, B, C, D] { return Tuple4[A, B, C, D]{a(in), b(in), c(in), d(in)} }
	}
	return forTuple(
		func(out *Output, v Tuple4[A, B, C, D]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
			c.Write(out, v.F2)
			d.Write(out, v.F3)
		},
		read(a.Read, b.Read, c.Read, d.Read),
		func(r *resolution, old []*Snapshot) func(*Input) Tuple4[A, B, C, D] {
			return read(tupleField(r, 0, a, old), tupleField(r, 1, b, old), tupleField(r, 2, c, old), tupleField(r, 3, d, old))
		}, a, b, c, d)
}

// ForTuple5 is TupleSerializer of Tuple5.
func ForTuple5[A, B, C, D, E any](a Codec[A], b Codec[B], c Codec[C], d Codec[D], e Codec[E]) Codec[Tuple5[A, B, C, D, E]] {
	read := func(a func(*Input) A, b func(*Input) B, c func(*Input) C, d func(*Input) D, e func(*Input) E) func(*Input) Tuple5[A, B, C, D, E] {
		return func(in *Input) Tuple5[A, B, C, D, E] { return Tuple5[A, B, C, D, E]{a(in), b(in), c(in), d(in), e(in)} }
	}
	return forTuple(
		func(out *Output, v Tuple5[A, B, C, D, E]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
			c.Write(out, v.F2)
			d.Write(out, v.F3)
			e.Write(out, v.F4)
		},
		read(a.Read, b.Read, c.Read, d.Read, e.Read),
		func(r *resolution, old []*Snapshot) func(*Input) Tuple5[A, B, C, D, E] {
			return read(tupleField(r, 0, a, old), tupleField(r, 1, b, old), tupleField(r, 2, c, old), tupleField(r, 3, d, old), tupleField(r, 4, e, old))
		}, a, b, c, d, e)
}

// OneOf is Flink's Either with Go types; the side that is not meant is a zero value.
type OneOf[L, R any] struct {
	IsLeft bool
	Left   L
	Right  R
}

// ForEither is the EitherSerializer of Flink's Java API.
func ForEither[L, R any](left Codec[L], right Codec[R]) Codec[OneOf[L, R]] {
	read := func(left func(*Input) L, right func(*Input) R) func(*Input) OneOf[L, R] {
		return func(in *Input) OneOf[L, R] {
			if in.flag("flag of left") {
				return OneOf[L, R]{IsLeft: true, Left: left(in)}
			}
			return OneOf[L, R]{Right: right(in)}
		}
	}
	return &codec[OneOf[L, R]]{
		snapshot: compositeSnapshot(javaRuntime+"JavaEitherSerializerSnapshot", 1, nil, left.Snapshot(), right.Snapshot()),
		len:      -1,
		write: func(out *Output, v OneOf[L, R]) {
			if out.Bool(v.IsLeft); v.IsLeft {
				left.Write(out, v.Left)
			} else {
				right.Write(out, v.Right)
			}
		},
		read: read(left.Read, right.Read),
		adapt: byParts(2, func(r *resolution, old *Composite) func(*Input) OneOf[L, R] {
			return read(adapted(r, "left", left, old.Nested[0]), adapted(r, "right", right, old.Nested[1]))
		}),
	}
}
