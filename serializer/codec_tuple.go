package serializer

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

// forTuple is TupleSerializer of these parts.
func forTuple[T any](write func(*Output, T), read func(*Input) T, parts ...shape) Codec[T] {
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
	}
}

// ForTuple1 is TupleSerializer of Tuple1.
func ForTuple1[A any](a Codec[A]) Codec[Tuple1[A]] {
	return forTuple(
		func(out *Output, v Tuple1[A]) { a.Write(out, v.F0) },
		func(in *Input) Tuple1[A] { return Tuple1[A]{a.Read(in)} }, a)
}

// ForTuple2 is TupleSerializer of Tuple2.
func ForTuple2[A, B any](a Codec[A], b Codec[B]) Codec[Tuple2[A, B]] {
	return forTuple(
		func(out *Output, v Tuple2[A, B]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
		},
		func(in *Input) Tuple2[A, B] { return Tuple2[A, B]{a.Read(in), b.Read(in)} }, a, b)
}

// ForTuple3 is TupleSerializer of Tuple3.
func ForTuple3[A, B, C any](a Codec[A], b Codec[B], c Codec[C]) Codec[Tuple3[A, B, C]] {
	return forTuple(
		func(out *Output, v Tuple3[A, B, C]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
			c.Write(out, v.F2)
		},
		func(in *Input) Tuple3[A, B, C] { return Tuple3[A, B, C]{a.Read(in), b.Read(in), c.Read(in)} }, a, b, c)
}

// ForTuple4 is TupleSerializer of Tuple4.
func ForTuple4[A, B, C, D any](a Codec[A], b Codec[B], c Codec[C], d Codec[D]) Codec[Tuple4[A, B, C, D]] {
	return forTuple(
		func(out *Output, v Tuple4[A, B, C, D]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
			c.Write(out, v.F2)
			d.Write(out, v.F3)
		},
		func(in *Input) Tuple4[A, B, C, D] {
			return Tuple4[A, B, C, D]{a.Read(in), b.Read(in), c.Read(in), d.Read(in)}
		}, a, b, c, d)
}

// ForTuple5 is TupleSerializer of Tuple5.
func ForTuple5[A, B, C, D, E any](a Codec[A], b Codec[B], c Codec[C], d Codec[D], e Codec[E]) Codec[Tuple5[A, B, C, D, E]] {
	return forTuple(
		func(out *Output, v Tuple5[A, B, C, D, E]) {
			a.Write(out, v.F0)
			b.Write(out, v.F1)
			c.Write(out, v.F2)
			d.Write(out, v.F3)
			e.Write(out, v.F4)
		},
		func(in *Input) Tuple5[A, B, C, D, E] {
			return Tuple5[A, B, C, D, E]{a.Read(in), b.Read(in), c.Read(in), d.Read(in), e.Read(in)}
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
		read: func(in *Input) OneOf[L, R] {
			if in.flag("flag of left") {
				return OneOf[L, R]{IsLeft: true, Left: left.Read(in)}
			}
			return OneOf[L, R]{Right: right.Read(in)}
		},
	}
}
