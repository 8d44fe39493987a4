package serializer

import (
	"math/big"
	"unicode/utf8"
)

// basicText writes values of a basic type, nil if the class is none.
func basicText(class string) writeText {
	switch class {
	case base + "StringSerializer$StringSerializerSnapshot":
		return nullStringText
	case base + "StringValueSerializer$StringValueSerializerSnapshot":
		return with(stringOf, writeStringValue)
	case base + "LongSerializer$LongSerializerSnapshot", base + "LongValueSerializer$LongValueSerializerSnapshot":
		return longText
	case base + "IntSerializer$IntSerializerSnapshot", base + "IntValueSerializer$IntValueSerializerSnapshot":
		return intText
	case base + "ShortSerializer$ShortSerializerSnapshot", base + "ShortValueSerializer$ShortValueSerializerSnapshot":
		return shortText
	case base + "ByteSerializer$ByteSerializerSnapshot", base + "ByteValueSerializer$ByteValueSerializerSnapshot":
		return byteText
	case base + "BooleanSerializer$BooleanSerializerSnapshot", base + "BooleanValueSerializer$BooleanValueSerializerSnapshot":
		return booleanText
	case base + "DoubleSerializer$DoubleSerializerSnapshot", base + "DoubleValueSerializer$DoubleValueSerializerSnapshot":
		return doubleText
	case base + "FloatSerializer$FloatSerializerSnapshot", base + "FloatValueSerializer$FloatValueSerializerSnapshot":
		return floatText
	case base + "CharSerializer$CharSerializerSnapshot", base + "CharValueSerializer$CharValueSerializerSnapshot":
		return charText
	case base + "BigIntSerializer$BigIntSerializerSnapshot":
		return with(func(v any) (*big.Int, error) {
			d, err := decimalOf(v)
			if err == nil && d.Scale != 0 {
				err = unexpected("an integer", v)
			}
			return d.Unscaled, err
		}, writeBigInteger)
	case base + "BigDecSerializer$BigDecSerializerSnapshot":
		return with(decimalOf, func(out *Output, v Decimal) {
			writeBigInteger(out, v.Unscaled)
			out.I32(v.Scale)
		})
	case arrays + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot":
		return with(bytesOf, (*Output).Bytes32)
	case base + "DateSerializer$DateSerializerSnapshot",
		base + "SqlDateSerializer$SqlDateSerializerSnapshot",
		base + "SqlTimeSerializer$SqlTimeSerializerSnapshot":
		return with(millisOfText, (*Output).I64)
	case base + "SqlTimestampSerializer$SqlTimestampSerializerSnapshot":
		return with(instantOfText, writeTimestamp)
	case base + "InstantSerializer$InstantSerializerSnapshot":
		return with(instantOfText, writeInstant)
	case base + "LocalDateSerializer$LocalDateSerializerSnapshot":
		return with(dateOfText, writeDate)
	case base + "LocalTimeSerializer$LocalTimeSerializerSnapshot":
		return with(timeOfText, writeTime)
	case base + "LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot":
		return with(dateTimeOfText, writeDateTime)
	}
	return nil
}

// elementText writes the elements of an array of a primitive type or of
// strings, nil if the class is none. byte[] is text, not JSON.
func elementText(class string) writeText {
	switch class {
	case arrays + "BooleanPrimitiveArraySerializer$BooleanPrimitiveArraySerializerSnapshot":
		return booleanText
	case arrays + "CharPrimitiveArraySerializer$CharPrimitiveArraySerializerSnapshot":
		return charText
	case arrays + "DoublePrimitiveArraySerializer$DoublePrimitiveArraySerializerSnapshot":
		return doubleText
	case arrays + "FloatPrimitiveArraySerializer$FloatPrimitiveArraySerializerSnapshot":
		return floatText
	case arrays + "IntPrimitiveArraySerializer$IntPrimitiveArraySerializerSnapshot":
		return intText
	case arrays + "LongPrimitiveArraySerializer$LongPrimitiveArraySerializerSnapshot":
		return longText
	case arrays + "ShortPrimitiveArraySerializer$ShortPrimitiveArraySerializerSnapshot":
		return shortText
	case arrays + "StringArraySerializer$StringArraySerializerSnapshot":
		return nullStringText
	}
	return nil
}

// with writes what parse makes of a value.
func with[T any](parse func(any) (T, error), write func(*Output, T)) writeText {
	return func(out *Output, v any) error {
		t, err := parse(v)
		if err != nil {
			return err
		}
		write(out, t)
		return nil
	}
}

func nullStringText(out *Output, v any) error {
	if v == nil {
		out.U8(0)
		return nil
	}
	return with(stringOf, (*Output).FlinkString)(out, v)
}

// writeStringValue is FlinkString with a length that is one less, as it is never null.
func writeStringValue(out *Output, s string) {
	var text Output
	text.FlinkString(s)
	if text.Err() != nil {
		out.Fail(text.Err())
		return
	}
	in := NewInput(text.Bytes())
	out.Uvarint(in.Uvarint() - 1)
	out.Raw(in.Rest())
}

func longText(out *Output, v any) error {
	n, err := integerOf(v, 64)
	out.I64(n)
	return err
}

func intText(out *Output, v any) error {
	n, err := integerOf(v, 32)
	out.I32(int32(n))
	return err
}

func shortText(out *Output, v any) error {
	n, err := integerOf(v, 16)
	out.U16(uint16(n))
	return err
}

func byteText(out *Output, v any) error {
	n, err := integerOf(v, 8)
	out.U8(byte(n))
	return err
}

func booleanText(out *Output, v any) error {
	b, err := booleanOf(v)
	out.Bool(b)
	return err
}

func doubleText(out *Output, v any) error {
	f, err := floatOf(v, 64)
	out.F64(f)
	return err
}

func floatText(out *Output, v any) error {
	f, err := floatOf(v, 32)
	out.F32(float32(f))
	return err
}

// charText writes a character of one UTF-16 unit.
func charText(out *Output, v any) error {
	s, err := stringOf(v)
	if err != nil {
		return err
	}
	r, n := decodeCharacter(s)
	if n == 0 || n != len(s) || r > 0xFFFF || r == utf8.RuneError && n == 1 {
		return unexpected("one character", v)
	}
	out.U16(uint16(r))
	return nil
}
