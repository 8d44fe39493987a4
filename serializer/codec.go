package serializer

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Codec reads and writes Go values of one type as one of Flink's serializers
// does, for programs that know the types of a job; [Of] is for those that
// don't. Codecs are made by the functions whose names begin with For. They are
// immutable: any number of goroutines may use one, each with its own Input and Output.
//
// Where Java has null and the Go type has not, Read fails with [ErrNull].
//
// A value that was read is written as the same bytes, with three exceptions that
// Go values do not tell: the order of a map, which NaN it was, and whether a BigInteger 0, 1 or 10 was the
// constant of Java's class.
type Codec[T any] interface {
	// Snapshot is what Flink 1.20 and 2.x write of the serializer.
	Snapshot() *Snapshot
	// Len is that of [Serializer].
	Len() int
	// Write appends a value. What cannot be written makes out.Err an error.
	Write(out *Output, v T)
	// Read decodes one value. After a failure, which in.Err tells, what it gives is of no use.
	Read(in *Input) T
}

// ErrNull says that a value is null where the Go type has no null.
var ErrNull = errors.New("null")

// codec is a Codec made of functions.
type codec[T any] struct {
	snapshot *Snapshot
	len      int
	write    func(out *Output, v T)
	read     func(in *Input) T

	// adapt gives what reads values of an older snapshot of the same class, see [Adapt]; nil if there
	// is nothing in which they could differ. If wraps is set, the class is that of another codec, which adapt asks.
	adapt func(r *resolution, old *Snapshot) func(*Input) T
	wraps bool
	// begin gives what reads values without time to live; nil if those of the codec have none.
	begin func(r *resolution, old *Snapshot, now func() int64) func(*Input) T
}

func (c *codec[T]) Snapshot() *Snapshot    { return c.snapshot }
func (c *codec[T]) Len() int               { return c.len }
func (c *codec[T]) Write(out *Output, v T) { c.write(out, v) }
func (c *codec[T]) Read(in *Input) T       { return c.read(in) }

// newCodec is for a serializer without configuration.
func newCodec[T any](class string, length int, write func(*Output, T), read func(*Input) T) Codec[T] {
	return &codec[T]{snapshot: &Snapshot{Class: class, Version: 3}, len: length, write: write, read: read}
}

// compositeSnapshot is the snapshot of a serializer that is made of others.
func compositeSnapshot(class string, outerVersion int32, outer Body, nested ...*Snapshot) *Snapshot {
	return &Snapshot{Class: class, Version: 3, Body: &Composite{OuterVersion: outerVersion, Outer: outer, Nested: nested}}
}

// ForString is StringSerializer without null. A lone surrogate is its three bytes, see [Input.FlinkString].
func ForString() Codec[string] {
	return newCodec(base+"StringSerializer$StringSerializerSnapshot", -1, (*Output).FlinkString, func(in *Input) string {
		off := in.Offset()
		s, ok := in.FlinkString()
		if !ok {
			in.FailAt(off, "string", ErrNull)
		}
		return s
	})
}

// ForNullString is StringSerializer; null is nil.
func ForNullString() Codec[*string] {
	return newCodec(base+"StringSerializer$StringSerializerSnapshot", -1, writeNullString, readNullString)
}

func writeNullString(out *Output, s *string) {
	if s == nil {
		out.U8(0)
		return
	}
	out.FlinkString(*s)
}

func readNullString(in *Input) *string {
	if s, ok := in.FlinkString(); ok {
		return &s
	}
	return nil
}

// ForLong is LongSerializer.
func ForLong() Codec[int64] {
	return newCodec(base+"LongSerializer$LongSerializerSnapshot", 8, (*Output).I64, (*Input).I64)
}

// ForInt is IntSerializer.
func ForInt() Codec[int32] {
	return newCodec(base+"IntSerializer$IntSerializerSnapshot", 4, (*Output).I32, (*Input).I32)
}

// ForShort is ShortSerializer.
func ForShort() Codec[int16] {
	return newCodec(base+"ShortSerializer$ShortSerializerSnapshot", 2, writeShort, readShort)
}

func writeShort(out *Output, v int16) { out.U16(uint16(v)) }
func readShort(in *Input) int16       { return int16(in.U16()) }

// ForByte is ByteSerializer.
func ForByte() Codec[int8] {
	return newCodec(base+"ByteSerializer$ByteSerializerSnapshot", 1,
		func(out *Output, v int8) { out.U8(byte(v)) }, func(in *Input) int8 { return int8(in.U8()) })
}

// ForBoolean is BooleanSerializer.
func ForBoolean() Codec[bool] {
	return newCodec(base+"BooleanSerializer$BooleanSerializerSnapshot", 1, (*Output).Bool, readBoolean)
}

func readBoolean(in *Input) bool { return in.flag("boolean") }

// ForDouble is DoubleSerializer. Every NaN is written as Java's one.
func ForDouble() Codec[float64] {
	return newCodec(base+"DoubleSerializer$DoubleSerializerSnapshot", 8, (*Output).F64, (*Input).F64)
}

// ForFloat is FloatSerializer. Every NaN is written as Java's one.
func ForFloat() Codec[float32] {
	return newCodec(base+"FloatSerializer$FloatSerializerSnapshot", 4, (*Output).F32, (*Input).F32)
}

// ForChar is CharSerializer.
func ForChar() Codec[Char] {
	return newCodec(base+"CharSerializer$CharSerializerSnapshot", 2, writeChar, readChar)
}

func writeChar(out *Output, v Char) { out.U16(uint16(v)) }
func readChar(in *Input) Char       { return Char(in.U16()) }

// ForBigInteger is BigIntSerializer; null is nil.
func ForBigInteger() Codec[*big.Int] {
	return newCodec(base+"BigIntSerializer$BigIntSerializerSnapshot", -1, writeBigInteger, readBigInteger)
}

// writeBigInteger is the inverse of readBigInteger. Java writes 0, 1 and 10 in
// two ways, as the constant or as a number; this is the way of
// BigInteger.valueOf.
func writeBigInteger(out *Output, v *big.Int) {
	switch {
	case v == nil:
		out.I32(0)
		return
	case v.IsInt64() && v.Int64() == 0:
		out.I32(1)
		return
	case v.IsInt64() && v.Int64() == 1:
		out.I32(2)
		return
	case v.IsInt64() && v.Int64() == 10:
		out.I32(3)
		return
	}
	b := appendTwosComplement(nil, v)
	out.Length(len(b) + 4)
	out.Raw(b)
}

// appendTwosComplement appends what BigInteger.toByteArray gives: the fewest bytes of two's complement.
func appendTwosComplement(dst []byte, v *big.Int) []byte {
	if v.Sign() >= 0 {
		if v.BitLen()%8 == 0 {
			dst = append(dst, 0) // for the sign
		}
		return append(dst, v.Bytes()...)
	}
	// -v-1 has the bits of v inverted.
	inverted := new(big.Int).Not(v)
	start := len(dst)
	dst = appendTwosComplement(dst, inverted)
	for i := start; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
	return dst
}

// ForBigDecimal is BigDecSerializer; null is a Decimal without Unscaled.
func ForBigDecimal() Codec[Decimal] {
	return newCodec(base+"BigDecSerializer$BigDecSerializerSnapshot", -1,
		func(out *Output, v Decimal) {
			if writeBigInteger(out, v.Unscaled); v.Unscaled != nil {
				out.I32(v.Scale)
			}
		},
		func(in *Input) Decimal {
			v := readBigInteger(in)
			if v == nil {
				return Decimal{}
			}
			return Decimal{Unscaled: v, Scale: in.I32()}
		})
}

// ForVoid is VoidSerializer.
func ForVoid() Codec[struct{}] {
	return newCodec(base+"VoidSerializer$VoidSerializerSnapshot", 1, writeNothing, readNothing)
}

// ForVoidNamespace is VoidNamespaceSerializer, which says that its length is 0 but writes a byte.
func ForVoidNamespace() Codec[struct{}] {
	return newCodec(runtimeState+"VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", 0, writeNothing, readNothing)
}

// ForGlobalWindow is GlobalWindow.Serializer.
func ForGlobalWindow() Codec[struct{}] {
	return newCodec(windows+"GlobalWindow$Serializer$GlobalWindowSerializerSnapshot", 1, writeNothing, readNothing)
}

func writeNothing(out *Output, _ struct{}) { out.U8(0) }
func readNothing(in *Input) struct{}       { in.U8(); return struct{}{} }

// ForTimeWindow is TimeWindow.Serializer.
func ForTimeWindow() Codec[Window] {
	return newCodec(windows+"TimeWindow$Serializer$TimeWindowSerializerSnapshot", 16,
		func(out *Output, w Window) {
			out.I64(w.Start)
			out.I64(w.End)
		},
		func(in *Input) Window { return Window{Start: in.I64(), End: in.I64()} })
}

// ForEnum is EnumSerializer. The constants stand in the order of the Java
// class, in which a value is its place. Other text than that of a constant fails.
func ForEnum[T ~string](class string, constants ...T) Codec[T] {
	constants = slices.Clone(constants)
	names := make([]string, len(constants))
	for i, c := range constants {
		names[i] = string(c)
	}
	return &codec[T]{
		snapshot: &Snapshot{Class: base + "EnumSerializer$EnumSerializerSnapshot", Version: 3, Body: &Enum{Class: class, Constants: names}},
		len:      4,
		write: func(out *Output, v T) {
			i := slices.Index(constants, v)
			if i < 0 {
				out.Fail(fmt.Errorf("%s has no constant %q", class, v))
			}
			out.I32(int32(i))
		},
		read: func(in *Input) T {
			off := in.Offset()
			i := in.I32()
			if i < 0 || int(i) >= len(constants) {
				in.FailAt(off, class, fmt.Errorf("%w: no constant %d", ErrCorrupt, i))
				return ""
			}
			return constants[i]
		},
		adapt: func(r *resolution, old *Snapshot) func(*Input) T { return adaptEnum(r, class, constants, old) },
	}
}
