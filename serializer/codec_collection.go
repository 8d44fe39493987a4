package serializer

import (
	"bytes"
	"fmt"
	"slices"
)

// ForList is ListSerializer.
func ForList[T any](element Codec[T]) Codec[[]T] {
	return &codec[[]T]{
		snapshot: compositeSnapshot(base+"ListSerializerSnapshot", 1, nil, element.Snapshot()),
		len:      -1,
		write:    func(out *Output, v []T) { writeAll(out, v, element.Write) },
		read:     func(in *Input) []T { return readAll(in, element.Read) },
		adapt: byParts(1, func(r *resolution, old *Composite) func(*Input) []T {
			read := adapted(r, "element", element, old.Nested[0])
			return func(in *Input) []T { return readAll(in, read) }
		}),
	}
}

func writeAll[T any](out *Output, list []T, write func(*Output, T)) {
	out.Length(len(list))
	for _, v := range list {
		write(out, v)
	}
}

// readAll never gives nil but after a failure. It takes memory as elements arrive.
func readAll[T any](in *Input, read func(*Input) T) []T {
	n := in.Length()
	if in.err != nil {
		return nil
	}
	list := make([]T, 0, min(n, in.Remaining(), maxPrepared))
	for ; n > 0; n-- {
		start := in.Offset()
		v := read(in)
		if !in.element(start) {
			return nil
		}
		list = append(list, v)
	}
	return list
}

// maxPrepared is for how many elements memory is taken before they are there.
const maxPrepared = 1024

// ForSet is SetSerializer (Flink 2.0 and later) without a null element. The elements are written as they stand.
func ForSet[T any](element Codec[T]) Codec[[]T] {
	return &codec[[]T]{
		snapshot: compositeSnapshot(base+"SetSerializerSnapshot", 1, nil, element.Snapshot()),
		len:      -1,
		write: func(out *Output, v []T) {
			writeAll(out, v, func(out *Output, v T) {
				out.Bool(false)
				element.Write(out, v)
			})
		},
		read: readSet(element.Read),
		adapt: byParts(1, func(r *resolution, old *Composite) func(*Input) []T {
			return readSet(adapted(r, "element", element, old.Nested[0]))
		}),
	}
}

func readSet[T any](element func(*Input) T) func(*Input) []T {
	read := func(in *Input) T {
		if in.flag("flag of null") {
			in.Fail("element of a set", ErrNull)
		}
		return element(in)
	}
	return func(in *Input) []T { return readAll(in, read) }
}

// ForMap is MapSerializer without null values. The entries are written in the
// order of their keys' bytes. A key that comes twice fails.
func ForMap[K comparable, V any](key Codec[K], value Codec[V]) Codec[map[K]V] {
	return forMap(key, value,
		func(out *Output, v V) {
			out.Bool(false)
			value.Write(out, v)
		},
		func(in *Input, read func(*Input) V) (v V) {
			if in.flag("flag of null") {
				in.Fail("value of a map", ErrNull)
				return v
			}
			return read(in)
		})
}

// ForPointer is the serializer of value itself, for pointers of which those
// that are written are never nil: where whoever holds them marks null in another way, as a map does.
func ForPointer[T any](value Codec[T]) Codec[*T] {
	return &codec[*T]{
		snapshot: value.Snapshot(),
		len:      value.Len(),
		write: func(out *Output, v *T) {
			if v == nil {
				out.Fail(ErrNull)
				return
			}
			value.Write(out, *v)
		},
		read: func(in *Input) *T {
			v := value.Read(in)
			return &v
		},
		wraps: true,
		adapt: func(r *resolution, old *Snapshot) func(*Input) *T {
			read := adapted(r, "", value, old)
			return func(in *Input) *T {
				v := read(in)
				return &v
			}
		},
	}
}

// ForNullMap is MapSerializer; a null value is nil. Otherwise it is [ForMap].
func ForNullMap[K comparable, V any](key Codec[K], value Codec[V]) Codec[map[K]*V] {
	return forMap(key, value,
		func(out *Output, v *V) {
			if out.Bool(v == nil); v != nil {
				value.Write(out, *v)
			}
		},
		func(in *Input, read func(*Input) V) *V {
			if in.flag("flag of null") {
				return nil
			}
			v := read(in)
			return &v
		})
}

// forMap is for maps of values of type W, of which V is a value or what may be null.
func forMap[K comparable, V, W any](key Codec[K], value Codec[W], write func(*Output, V), read func(*Input, func(*Input) W) V) Codec[map[K]V] {
	return &codec[map[K]V]{
		snapshot: compositeSnapshot(base+"MapSerializerSnapshot", 1, nil, key.Snapshot(), value.Snapshot()),
		len:      -1,
		write: func(out *Output, m map[K]V) {
			entries := make([][2]int, 0, len(m)) // where they begin and end
			var scratch Output
			for k, v := range m {
				start := scratch.Len()
				key.Write(&scratch, k)
				write(&scratch, v)
				entries = append(entries, [2]int{start, scratch.Len()})
			}
			b := scratch.Bytes()
			slices.SortFunc(entries, func(x, y [2]int) int { return bytes.Compare(b[x[0]:x[1]], b[y[0]:y[1]]) })
			out.Length(len(m))
			for _, e := range entries {
				out.Raw(b[e[0]:e[1]])
			}
			if scratch.Err() != nil {
				out.Fail(scratch.Err())
			}
		},
		read: readMap(key.Read, value.Read, read),
		adapt: byParts(2, func(r *resolution, old *Composite) func(*Input) map[K]V {
			return readMap(adapted(r, "key", key, old.Nested[0]), adapted(r, "value", value, old.Nested[1]), read)
		}),
	}
}

func readMap[K comparable, V, W any](key func(*Input) K, value func(*Input) W, read func(*Input, func(*Input) W) V) func(*Input) map[K]V {
	return func(in *Input) map[K]V {
		m := map[K]V{}
		for n := in.Length(); n > 0 && in.err == nil; n-- {
			off := in.Offset()
			k := key(in)
			v := read(in, value)
			if _, twice := m[k]; twice {
				in.FailAt(off, "key of a map", fmt.Errorf("%w: it comes twice", ErrCorrupt))
			}
			m[k] = v
		}
		return m
	}
}

// ForNullable is NullableSerializer; null is nil. If padded, which needs a
// codec of fixed length, a null takes as many bytes as a value.
func ForNullable[T any](value Codec[T], padded bool) Codec[*T] {
	padding, length := 0, -1
	if padded && value.Len() > 0 {
		padding, length = value.Len(), 1+value.Len()
	}
	return &codec[*T]{
		snapshot: compositeSnapshot(javaRuntime+"NullableSerializer$NullableSerializerSnapshot", 2, Number(padding), value.Snapshot()),
		len:      length,
		write: func(out *Output, v *T) {
			if out.Bool(v == nil); v != nil {
				value.Write(out, *v)
				return
			}
			for range padding {
				out.U8(0)
			}
		},
		read: readNullable(padding, value.Read),
		adapt: byParts(1, func(r *resolution, old *Composite) func(*Input) *T {
			if old.Outer != Number(padding) {
				r.fail("nulls padded otherwise")
			}
			return readNullable(padding, adapted(r, "", value, old.Nested[0]))
		}),
	}
}

func readNullable[T any](padding int, value func(*Input) T) func(*Input) *T {
	return func(in *Input) *T {
		if in.flag("flag of null") {
			in.Skip(int64(padding))
			return nil
		}
		v := value(in)
		return &v
	}
}

// ForArray is GenericArraySerializer of an array of objects of a Java class,
// such as "java.lang.Long"; null is nil.
func ForArray[T any](class string, element Codec[T]) Codec[[]*T] {
	return &codec[[]*T]{
		snapshot: compositeSnapshot(base+"GenericArraySerializerSnapshot", 1, ClassName(class), element.Snapshot()),
		len:      -1,
		write: func(out *Output, v []*T) {
			writeAll(out, v, func(out *Output, v *T) {
				if out.Bool(v != nil); v != nil {
					element.Write(out, *v)
				}
			})
		},
		read: readArray(element.Read),
		adapt: byParts(1, func(r *resolution, old *Composite) func(*Input) []*T {
			if old.Outer != ClassName(class) {
				r.fail("an array of another class than %s", class)
			}
			return readArray(adapted(r, "element", element, old.Nested[0]))
		}),
	}
}

func readArray[T any](element func(*Input) T) func(*Input) []*T {
	read := func(in *Input) *T {
		if !in.flag("flag of an element") {
			return nil
		}
		v := element(in)
		return &v
	}
	return func(in *Input) []*T { return readAll(in, read) }
}

// ForStringArray is StringArraySerializer; null is nil.
func ForStringArray() Codec[[]*string] {
	return forArray("StringArraySerializer$StringArraySerializerSnapshot", writeNullString, readNullString)
}

func forArray[T any](class string, write func(*Output, T), read func(*Input) T) Codec[[]T] {
	return newCodec(arrays+class, -1,
		func(out *Output, v []T) { writeAll(out, v, write) },
		func(in *Input) []T { return readAll(in, read) })
}

// ForBytes is BytePrimitiveArraySerializer of byte[].
func ForBytes() Codec[[]byte] {
	return newCodec(arrays+"BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot", -1,
		(*Output).Bytes32, func(in *Input) []byte { return append([]byte{}, in.Bytes32()...) })
}

// ForBooleans is BooleanPrimitiveArraySerializer of boolean[].
func ForBooleans() Codec[[]bool] {
	return forArray("BooleanPrimitiveArraySerializer$BooleanPrimitiveArraySerializerSnapshot", (*Output).Bool, readBoolean)
}

// ForShorts is ShortPrimitiveArraySerializer of short[].
func ForShorts() Codec[[]int16] {
	return forArray("ShortPrimitiveArraySerializer$ShortPrimitiveArraySerializerSnapshot", writeShort, readShort)
}

// ForInts is IntPrimitiveArraySerializer of int[].
func ForInts() Codec[[]int32] {
	return forArray("IntPrimitiveArraySerializer$IntPrimitiveArraySerializerSnapshot", (*Output).I32, (*Input).I32)
}

// ForLongs is LongPrimitiveArraySerializer of long[].
func ForLongs() Codec[[]int64] {
	return forArray("LongPrimitiveArraySerializer$LongPrimitiveArraySerializerSnapshot", (*Output).I64, (*Input).I64)
}

// ForFloats is FloatPrimitiveArraySerializer of float[].
func ForFloats() Codec[[]float32] {
	return forArray("FloatPrimitiveArraySerializer$FloatPrimitiveArraySerializerSnapshot", (*Output).F32, (*Input).F32)
}

// ForDoubles is DoublePrimitiveArraySerializer of double[].
func ForDoubles() Codec[[]float64] {
	return forArray("DoublePrimitiveArraySerializer$DoublePrimitiveArraySerializerSnapshot", (*Output).F64, (*Input).F64)
}

// ForChars is CharPrimitiveArraySerializer of char[].
func ForChars() Codec[[]Char] {
	return forArray("CharPrimitiveArraySerializer$CharPrimitiveArraySerializerSnapshot", writeChar, readChar)
}
