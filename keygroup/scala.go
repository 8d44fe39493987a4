package keygroup

import "math"

// ScalaHash is the hash that the compiler of Scala 2.12 gives a case
// class, and that a Scala tuple has. Elements hash as they do in Java, but
// numbers by [ScalaLong], [ScalaFloat] and [ScalaDouble]; null's hash is 0. A case class
// without elements hashes as the string of its name.
func ScalaHash(elements ...int32) int32 {
	h := uint32(0xcafebabe)
	for _, e := range elements {
		h = mix(h, uint32(e))
	}
	return int32(finish(h ^ uint32(len(elements))))
}

// ScalaLong is the hash of a Long in Scala: that of an equal Int, if there is one.
func ScalaLong(v int64) int32 {
	if v == int64(int32(v)) {
		return int32(v)
	}
	return LongHash(v)
}

// ScalaFloat is the hash of a Float in Scala: that of an equal Int or Long, if there is one.
func ScalaFloat(v float32) int32 {
	if i := int32Of(float64(v)); float32(i) == v {
		return i
	}
	if v >= -1<<63 && v < 1<<63 && float32(int64(v)) == v {
		return LongHash(int64(v))
	}
	return FloatHash(v)
}

// ScalaDouble is the hash of a Double in Scala 2.12: that of an equal Int, Long
// or Float, if there is one. Scala 2.11 does not look for a Long.
func ScalaDouble(v float64) int32 {
	if i := int32Of(v); float64(i) == v {
		return i
	}
	if v >= -1<<63 && v < 1<<63 && float64(int64(v)) == v {
		return LongHash(int64(v))
	}
	if f := float32(v); float64(f) == v {
		return FloatHash(f)
	}
	return DoubleHash(v)
}

// int32Of converts as Java does: to the nearest bound if it is out of range.
func int32Of(v float64) int32 {
	switch {
	case v >= math.MaxInt32:
		return math.MaxInt32
	case v <= math.MinInt32:
		return math.MinInt32
	case v != v:
		return 0
	}
	return int32(v)
}
