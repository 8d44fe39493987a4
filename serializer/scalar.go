package serializer

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// scalar is a serializer made of functions.
type scalar struct {
	// len is what Len says, size the true length or -1.
	len, size int
	read      func(in *Input) any
	skip      func(in *Input)                    // needed if size is -1
	json      func(dst []byte, in *Input) []byte // may be nil
	// write is encode; see text and writes.
	write func(w *encoding, v any) error
	form  textForm
}

func (s *scalar) Len() int { return s.len }

func (s *scalar) Skip(in *Input) {
	if s.size >= 0 {
		in.Skip(int64(s.size))
		return
	}
	s.skip(in)
}

// Width is how many bytes every value of a serializer has, if its Skip looks at none of them; else -1.
func Width(s Serializer) int {
	if f, ok := s.(*scalar); ok {
		return f.size
	}
	return -1
}

func (s *scalar) Read(in *Input) any {
	v := s.read(in)
	if in.err != nil {
		return nil
	}
	return v
}

func (s *scalar) appendJSON(dst []byte, in *Input) []byte {
	if s.json == nil {
		return AppendJSON(dst, s.Read(in))
	}
	n := len(dst)
	if dst = s.json(dst, in); in.err != nil {
		return append(dst[:n], "null"...)
	}
	return dst
}

func (s *scalar) encode(w *encoding, v any) error {
	return s.write(w, v)
}

// writes sets how values are written.
func (s *scalar) writes(write func(w *encoding, v any) error) *scalar {
	s.write = write
	return s
}

// text sets how values are written whose JSON is a text, a number or a truth value.
func (s *scalar) text(write writeText) *scalar {
	return s.writes(func(w *encoding, v any) error { return write(&w.Output, v) }).as(formPlain)
}

// as sets how the text of a key is read.
func (s *scalar) as(form textForm) *scalar {
	s.form = form
	return s
}

// fixed is a scalar of size bytes.
func fixed(size int, read func(in *Input) any) *scalar {
	return &scalar{len: size, size: size, read: read}
}

func long() Serializer {
	s := fixed(8, func(in *Input) any { return in.I64() })
	s.json = func(dst []byte, in *Input) []byte { return strconv.AppendInt(dst, in.I64(), 10) }
	return s.text(longText)
}

func integer() Serializer {
	s := fixed(4, func(in *Input) any { return in.I32() })
	s.json = func(dst []byte, in *Input) []byte { return strconv.AppendInt(dst, int64(in.I32()), 10) }
	return s.text(intText)
}

func short() Serializer {
	s := fixed(2, func(in *Input) any { return int16(in.U16()) })
	s.json = func(dst []byte, in *Input) []byte { return strconv.AppendInt(dst, int64(int16(in.U16())), 10) }
	return s.text(shortText)
}

func octet() Serializer {
	s := fixed(1, func(in *Input) any { return int8(in.U8()) })
	s.json = func(dst []byte, in *Input) []byte { return strconv.AppendInt(dst, int64(int8(in.U8())), 10) }
	return s.text(byteText)
}

func boolean() Serializer {
	s := fixed(1, func(in *Input) any { return in.Bool() })
	s.json = func(dst []byte, in *Input) []byte { return strconv.AppendBool(dst, in.Bool()) }
	return s.text(booleanText)
}

func double() Serializer {
	s := fixed(8, func(in *Input) any { return in.F64() })
	s.json = func(dst []byte, in *Input) []byte { return appendFloat(dst, in.F64(), 64) }
	return s.text(doubleText)
}

func float() Serializer {
	s := fixed(4, func(in *Input) any { return in.F32() })
	s.json = func(dst []byte, in *Input) []byte { return appendFloat(dst, float64(in.F32()), 32) }
	return s.text(floatText)
}

func character() Serializer {
	return fixed(2, func(in *Input) any { return Char(in.U16()) }).text(charText)
}

func text() Serializer {
	s := &scalar{
		len: -1, size: -1, skip: skipFlinkString, json: appendStringJSON,
		read: func(in *Input) any {
			if s, ok := in.FlinkString(); ok {
				return s
			}
			return nil
		},
	}
	return s.text(nullStringText)
}

// stringValue is text that cannot be null: its length is one less than text's.
func stringValue() Serializer {
	s := &scalar{
		len: -1, size: -1,
		skip: func(in *Input) { in.skipUnits(int(in.Uvarint())) },
		read: func(in *Input) any {
			s, _ := in.text(int(in.Uvarint()))
			return s
		},
	}
	return s.text(with(stringOf, writeStringValue))
}

// unit is a serializer of values without content that writes size bytes.
func unit(name Unit, length, size int) Serializer {
	s := &scalar{len: length, size: size, read: func(in *Input) any {
		in.Take(size)
		return name
	}}
	return s.writes(func(w *encoding, v any) error {
		w.Raw(make([]byte, size))
		if v != string(name) {
			return unexpected(strconv.Quote(string(name)), v)
		}
		return nil
	})
}

func void() Serializer {
	return fixed(1, func(in *Input) any {
		in.U8()
		return nil
	}).writes(writeVoid)
}

// writeVoid writes null, which takes a byte.
func writeVoid(w *encoding, v any) error {
	w.U8(0)
	if v != nil {
		return unexpected("null", v)
	}
	return nil
}

func bigInteger() Serializer {
	s := &scalar{
		len: -1, size: -1,
		skip: func(in *Input) { bigIntegerBytes(in) },
		read: func(in *Input) any {
			if v := readBigInteger(in); v != nil {
				return v
			}
			return nil
		},
	}
	return s.writes(func(w *encoding, v any) error {
		if v == nil {
			writeBigInteger(&w.Output, nil)
			return nil
		}
		i, err := bigIntegerOf(v)
		if err != nil {
			return err
		}
		return w.bigInteger(i)
	}).as(formPlain)
}

// readBigInteger reads an int n: 0 is null, 1 to 3 are the constants ZERO, ONE
// and TEN, otherwise n-4 bytes of two's complement follow.
func readBigInteger(in *Input) *big.Int {
	n, b := bigIntegerBytes(in)
	if in.err != nil {
		return nil
	}
	switch n {
	case 0:
		return nil
	case 1:
		return new(big.Int)
	case 2:
		return big.NewInt(1)
	case 3:
		return big.NewInt(10)
	}
	return twosComplement(b)
}

func bigIntegerBytes(in *Input) (int, []byte) {
	off := in.Offset()
	n := in.Length()
	if n < 4 {
		return n, nil
	}
	if n == 4 {
		in.FailAt(off, "integer", fmt.Errorf("%w: no bytes", ErrCorrupt))
		return n, nil
	}
	return n, in.Take(n - 4)
}

// twosComplement is what Java's new BigInteger(b) is.
func twosComplement(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return v
}

func bigDecimal() Serializer {
	s := &scalar{
		len: -1, size: -1,
		skip: func(in *Input) {
			if n, _ := bigIntegerBytes(in); n != 0 {
				in.Skip(4)
			}
		},
		read: func(in *Input) any {
			v := readBigInteger(in)
			if v == nil {
				return nil
			}
			return Decimal{Unscaled: v, Scale: in.I32()}
		},
	}
	return s.writes(func(w *encoding, v any) error {
		if v == nil {
			writeBigInteger(&w.Output, nil)
			return nil
		}
		d, err := decimalTextOf(v)
		if err != nil {
			return err
		}
		err = w.bigInteger(d.Unscaled)
		w.I32(d.Scale)
		return err
	}).as(formPlain)
}

func timeWindow() Serializer {
	return fixed(16, func(in *Input) any { return Window{Start: in.I64(), End: in.I64()} }).writes(func(w *encoding, v any) error {
		return w.fields(v, field{"start", long()}, field{"end", long()})
	})
}

func byteArray() Serializer {
	s := &scalar{
		len: -1, size: -1,
		skip: func(in *Input) { in.Skip(int64(in.Length())) },
		read: func(in *Input) any { return append([]byte{}, in.Bytes32()...) },
		json: func(dst []byte, in *Input) []byte { return appendHex(dst, in.Bytes32()) },
	}
	return s.text(with(bytesOf, (*Output).Bytes32))
}

// primitiveArray is an array whose elements have a fixed size.
func primitiveArray(element Serializer) Serializer {
	size := int64(element.Len())
	s := &scalar{
		len: -1, size: -1,
		skip: func(in *Input) { in.Skip(int64(in.Length()) * size) },
		read: func(in *Input) any { return readElements(in, element) },
		json: func(dst []byte, in *Input) []byte { return appendElements(dst, in, element) },
	}
	return s.writes((&list{element}).encode).as(formArray)
}

// Int values that the JSON of floats shares with encoding/json: outside of
// them it has an exponent.
const (
	smallestPlain = 1e-6
	largestPlain  = 1e21
)

// appendFloat appends the shortest number that reads back as f.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case f != f:
		return append(dst, `"NaN"`...)
	case f > math.MaxFloat64:
		return append(dst, `"Infinity"`...)
	case f < -math.MaxFloat64:
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < smallestPlain || a >= largestPlain) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

// basicFamily knows the serializers of single values and arrays of them.
func basicFamily(class string) (family, bool) {
	switch class {
	case base + "StringSerializer$StringSerializerSnapshot":
		return simple("String", text()), true
	case base + "StringValueSerializer$StringValueSerializerSnapshot":
		return simple("StringValue", stringValue()), true
	case base + "LongSerializer$LongSerializerSnapshot", base + "LongValueSerializer$LongValueSerializerSnapshot":
		return simple("Long", long()), true
	case base + "IntSerializer$IntSerializerSnapshot", base + "IntValueSerializer$IntValueSerializerSnapshot":
		return simple("Integer", integer()), true
	case base + "ShortSerializer$ShortSerializerSnapshot", base + "ShortValueSerializer$ShortValueSerializerSnapshot":
		return simple("Short", short()), true
	case base + "ByteSerializer$ByteSerializerSnapshot", base + "ByteValueSerializer$ByteValueSerializerSnapshot":
		return simple("Byte", octet()), true
	case base + "BooleanSerializer$BooleanSerializerSnapshot", base + "BooleanValueSerializer$BooleanValueSerializerSnapshot":
		return simple("Boolean", boolean()), true
	case base + "DoubleSerializer$DoubleSerializerSnapshot", base + "DoubleValueSerializer$DoubleValueSerializerSnapshot":
		return simple("Double", double()), true
	case base + "FloatSerializer$FloatSerializerSnapshot", base + "FloatValueSerializer$FloatValueSerializerSnapshot":
		return simple("Float", float()), true
	case base + "CharSerializer$CharSerializerSnapshot", base + "CharValueSerializer$CharValueSerializerSnapshot":
		return simple("Character", character()), true
	case base + "NullValueSerializer$NullValueSerializerSnapshot":
		return simple("NullValue", unit("NullValue", 0, 0)), true
	case base + "BigIntSerializer$BigIntSerializerSnapshot":
		return simple("BigInteger", bigInteger()), true
	case base + "BigDecSerializer$BigDecSerializerSnapshot":
		return simple("BigDecimal", bigDecimal()), true
	case base + "VoidSerializer$VoidSerializerSnapshot":
		return simple("Void", void()), true
	case runtimeState + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot":
		return simple("VoidNamespace", unit("VoidNamespace", 0, 1)), true
	case windows + "TimeWindow$Serializer$TimeWindowSerializerSnapshot":
		return simple("TimeWindow", timeWindow()), true
	case windows + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot":
		return simple("GlobalWindow", unit("GlobalWindow", 1, 1)), true
	case javaRuntime + "Tuple0SerializerSnapshot":
		return simple("Tuple0", tupleOfNone()), true
	case arrays + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot":
		return simple("byte[]", byteArray()), true
	case arrays + "BooleanPrimitiveArraySerializer$BooleanPrimitiveArraySerializerSnapshot":
		return simple("boolean[]", primitiveArray(boolean())), true
	case arrays + "CharPrimitiveArraySerializer$CharPrimitiveArraySerializerSnapshot":
		return simple("char[]", primitiveArray(character())), true
	case arrays + "DoublePrimitiveArraySerializer$DoublePrimitiveArraySerializerSnapshot":
		return simple("double[]", primitiveArray(double())), true
	case arrays + "FloatPrimitiveArraySerializer$FloatPrimitiveArraySerializerSnapshot":
		return simple("float[]", primitiveArray(float())), true
	case arrays + "IntPrimitiveArraySerializer$IntPrimitiveArraySerializerSnapshot":
		return simple("int[]", primitiveArray(integer())), true
	case arrays + "LongPrimitiveArraySerializer$LongPrimitiveArraySerializerSnapshot":
		return simple("long[]", primitiveArray(long())), true
	case arrays + "ShortPrimitiveArraySerializer$ShortPrimitiveArraySerializerSnapshot":
		return simple("short[]", primitiveArray(short())), true
	case arrays + "StringArraySerializer$StringArraySerializerSnapshot":
		return simple("String[]", &list{text()}), true
	}
	return timeFamily(class)
}

// Packages of Flink's snapshot classes.
const (
	base         = "org.apache.flink.api.common.typeutils.base."
	arrays       = base + "array."
	javaRuntime  = "org.apache.flink.api.java.typeutils.runtime."
	runtimeState = "org.apache.flink.runtime.state."
	windows      = "org.apache.flink.streaming.api.windowing.windows."
	operators    = "org.apache.flink.streaming.api.operators."
)
