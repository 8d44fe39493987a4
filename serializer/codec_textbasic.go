package serializer

import (
	"unicode/utf8"
)

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
