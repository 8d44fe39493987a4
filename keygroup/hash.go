package keygroup

import (
	"math"
	"math/big"
	"unicode/utf8"
)

// StringHash is String.hashCode of a UTF-8 string: over its UTF-16 code
// units. A lone surrogate may stand as the three bytes that its code point
// would have in UTF-8.
func StringHash(s string) int32 {
	var h uint32
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r >= 0x10000:
			r -= 0x10000
			h = h*31 + 0xD800 + uint32(r>>10)
			r = 0xDC00 + r&0x3FF
		case n == 1 && r == utf8.RuneError && i+3 <= len(s) && s[i] == 0xED && s[i+1]>>5 == 0b101 && s[i+2]>>6 == 0b10:
			r = 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
			n = 3
		}
		h = h*31 + uint32(r)
		i += n
	}
	return int32(h)
}

// LongHash is Long.hashCode, and that of a Date by its milliseconds.
// The hash of an int, short, byte or char is its value.
func LongHash(v int64) int32 { return int32(v ^ int64(uint64(v)>>32)) }

// BoolHash is Boolean.hashCode.
func BoolHash(v bool) int32 {
	if v {
		return 1231
	}
	return 1237
}

// FloatHash is Float.hashCode. All NaNs have the same.
func FloatHash(v float32) int32 {
	if v != v {
		return 0x7fc00000
	}
	return int32(math.Float32bits(v))
}

// DoubleHash is Double.hashCode. All NaNs have the same.
func DoubleHash(v float64) int32 {
	bits := math.Float64bits(v)
	if v != v {
		bits = 0x7ff8000000000000
	}
	return LongHash(int64(bits))
}

// BigIntHash is BigInteger.hashCode.
func BigIntHash(v *big.Int) int32 {
	var h uint32
	b := v.Bytes()
	for n := len(b) % 4; len(b) > 0; n = 0 {
		if n == 0 {
			n = 4
		}
		var word uint32
		for _, x := range b[:n] {
			word = word<<8 | uint32(x)
		}
		h = 31*h + word
		b = b[n:]
	}
	return int32(h) * int32(v.Sign())
}

// DecimalHash is BigDecimal.hashCode of unscaled / 10^scale. Numbers that
// differ only in scale have different hashes.
func DecimalHash(unscaled *big.Int, scale int32) int32 {
	if !unscaled.IsInt64() || unscaled.Int64() == math.MinInt64 {
		return 31*BigIntHash(unscaled) + scale
	}
	v := unscaled.Int64()
	a := uint64(v)
	if v < 0 {
		a = uint64(-v)
	}
	h := int32(31*uint32(a>>32) + uint32(a))
	if v < 0 {
		h = -h
	}
	return 31*h + scale
}

// TupleHash is the hash of a Flink tuple with fields of these hashes; a null field's is 0.
func TupleHash(fields ...int32) int32 {
	if len(fields) == 0 {
		return 0
	}
	h := fields[0]
	for _, f := range fields[1:] {
		h = 31*h + f
	}
	return h
}

// ListHash is List.hashCode, and what Objects.hash and most generated
// hashCode methods of POJOs give for fields of these hashes; null's is 0.
func ListHash(elements ...int32) int32 {
	h := int32(1)
	for _, e := range elements {
		h = 31*h + e
	}
	return h
}
