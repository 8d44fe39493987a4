package keygroup

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
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

// UUIDHash is UUID.hashCode of the two halves of a UUID.
func UUIDHash(msb, lsb uint64) int32 { return LongHash(int64(msb ^ lsb)) }

// TupleHash is the hash of a Flink tuple with fields of these hashes; a null
// field's is 0. OpenJDK gives the same to a record.
func TupleHash(fields ...int32) int32 {
	var h int32
	for _, f := range fields {
		h = 31*h + f
	}
	return h
}

// ListHash is List.hashCode and Arrays.hashCode, and what Objects.hash and
// most generated hashCode methods of POJOs give for fields of these hashes;
// null's is 0.
func ListHash(elements ...int32) int32 {
	h := int32(1)
	for _, e := range elements {
		h = 31*h + e
	}
	return h
}

// BytesHash is Arrays.hashCode of a byte[]. A byte[] itself has no hash that
// lasts, see the package comment.
func BytesHash(b []byte) int32 {
	h := int32(1)
	for _, x := range b {
		h = 31*h + int32(int8(x))
	}
	return h
}

// SetHash is Set.hashCode of elements of these hashes, in any order. That of
// a Map is SetHash of an [EntryHash] for each entry.
func SetHash(elements ...int32) int32 {
	var h int32
	for _, e := range elements {
		h += e
	}
	return h
}

// EntryHash is the hash of an entry of a Map.
func EntryHash(key, value int32) int32 { return key ^ value }

// LombokNull is what null counts in a [LombokHash].
const LombokNull = 43

// LombokHash is what the hashCode method that Lombok generates gives for
// fields of these hashes, those of a class without a superclass that hashes. A
// boolean's is [LombokBool].
func LombokHash(fields ...int32) int32 {
	h := int32(1)
	for _, f := range fields {
		h = 59*h + f
	}
	return h
}

// LombokBool is what a boolean field (not a Boolean) counts in a [LombokHash].
func LombokBool(v bool) int32 {
	if v {
		return 79
	}
	return 97
}

// RowDataHash is the hash of a key of a Table or SQL job: the murmur3 hash of
// the bytes of its BinaryRowData, without the length before them. It is false
// if the length is not a multiple of four, which no such row has.
func RowDataHash(row []byte) (int32, bool) {
	if len(row)%4 != 0 {
		return 0, false
	}
	h := uint32(42)
	for b := row; len(b) > 0; b = b[4:] {
		h = mix(h, binary.LittleEndian.Uint32(b))
	}
	return int32(finish(h ^ uint32(len(row)))), true
}

// mix is one step of the 32-bit murmur3.
func mix(h, k uint32) uint32 {
	return bits.RotateLeft32(h^bits.RotateLeft32(k*0xcc9e2d51, 15)*0x1b873593, 13)*5 + 0xe6546b64
}

// finish is the end of the 32-bit murmur3.
func finish(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}
