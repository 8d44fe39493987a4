package serializer

import (
	"math"

	"github.com/drey-state/drey/keygroup"
)

// basicHash is the hash of values of a basic type, nil if the class is none.
func basicHash(class string) hash {
	switch class {
	case base + "StringSerializer$StringSerializerSnapshot":
		return stringHash
	case base + "StringValueSerializer$StringValueSerializerSnapshot":
		return func(in *Input) (int32, bool) { return unitsHash(in, int(in.Uvarint())), false }
	case base + "LongSerializer$LongSerializerSnapshot":
		return longHash
	case base + "LongValueSerializer$LongValueSerializerSnapshot":
		return func(in *Input) (int32, bool) { return 43 + keygroup.LongHash(in.I64()), false }
	case base + "IntSerializer$IntSerializerSnapshot", base + "IntValueSerializer$IntValueSerializerSnapshot":
		return intHash
	case base + "ShortSerializer$ShortSerializerSnapshot", base + "ShortValueSerializer$ShortValueSerializerSnapshot":
		return shortHash
	case base + "ByteSerializer$ByteSerializerSnapshot", base + "ByteValueSerializer$ByteValueSerializerSnapshot":
		return byteHash
	case base + "CharSerializer$CharSerializerSnapshot", base + "CharValueSerializer$CharValueSerializerSnapshot":
		return charHash
	case base + "BooleanSerializer$BooleanSerializerSnapshot":
		return boolHash
	case base + "BooleanValueSerializer$BooleanValueSerializerSnapshot":
		return func(in *Input) (int32, bool) {
			if in.Bool() {
				return 1, false
			}
			return 0, false
		}
	case base + "FloatSerializer$FloatSerializerSnapshot", base + "FloatValueSerializer$FloatValueSerializerSnapshot":
		return floatHash
	case base + "DoubleSerializer$DoubleSerializerSnapshot":
		return doubleHash
	case base + "DoubleValueSerializer$DoubleValueSerializerSnapshot":
		return func(in *Input) (int32, bool) { return 31 + keygroup.DoubleHash(in.F64()), false }
	case base + "BigIntSerializer$BigIntSerializerSnapshot":
		return bigIntegerHash
	case base + "BigDecSerializer$BigDecSerializerSnapshot":
		return bigDecimalHash
	case base + "DateSerializer$DateSerializerSnapshot",
		base + "SqlDateSerializer$SqlDateSerializerSnapshot",
		base + "SqlTimeSerializer$SqlTimeSerializerSnapshot":
		return millisHash
	case base + "SqlTimestampSerializer$SqlTimestampSerializerSnapshot":
		return timestampHash
	case base + "InstantSerializer$InstantSerializerSnapshot":
		return instantHash
	case base + "LocalDateSerializer$LocalDateSerializerSnapshot":
		return func(in *Input) (int32, bool) {
			d, ok := in.date()
			return d.hash(), !ok
		}
	case base + "LocalTimeSerializer$LocalTimeSerializerSnapshot":
		return func(in *Input) (int32, bool) {
			t, ok := in.time()
			return t.hash(), !ok
		}
	case base + "LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot":
		return func(in *Input) (int32, bool) {
			d, hasDate := in.date()
			t, hasTime := in.time()
			return d.hash() ^ t.hash(), !hasDate || !hasTime
		}
	case base + "VoidSerializer$VoidSerializerSnapshot":
		return func(in *Input) (int32, bool) {
			in.U8()
			return 0, true
		}
	case javaRuntime + "Tuple0SerializerSnapshot":
		return func(in *Input) (int32, bool) {
			in.U8()
			return 0, false
		}
	}
	return nil
}

// elementHash is the hash of the elements of an array of a primitive type,
// nil if the class is none.
func elementHash(class string) hash {
	switch class {
	case arrays + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot":
		return byteHash
	case arrays + "BooleanPrimitiveArraySerializer$BooleanPrimitiveArraySerializerSnapshot":
		return boolHash
	case arrays + "CharPrimitiveArraySerializer$CharPrimitiveArraySerializerSnapshot":
		return charHash
	case arrays + "DoublePrimitiveArraySerializer$DoublePrimitiveArraySerializerSnapshot":
		return doubleHash
	case arrays + "FloatPrimitiveArraySerializer$FloatPrimitiveArraySerializerSnapshot":
		return floatHash
	case arrays + "IntPrimitiveArraySerializer$IntPrimitiveArraySerializerSnapshot":
		return intHash
	case arrays + "LongPrimitiveArraySerializer$LongPrimitiveArraySerializerSnapshot":
		return longHash
	case arrays + "ShortPrimitiveArraySerializer$ShortPrimitiveArraySerializerSnapshot":
		return shortHash
	}
	return nil
}

// stringHash reads what [Input.FlinkString] does, unit by unit.
func stringHash(in *Input) (int32, bool) {
	n := int(in.Uvarint())
	if n == 0 {
		return 0, true
	}
	return unitsHash(in, n-1), false
}

// unitsHash hashes n UTF-16 code units.
func unitsHash(in *Input, n int) (h int32) {
	if b := in.ascii(n); b != nil {
		for _, c := range b {
			h = 31*h + int32(c)
		}
		return h
	}
	for ; n > 0 && in.err == nil; n-- {
		h = 31*h + in.unit()
	}
	return h
}

func longHash(in *Input) (int32, bool)   { return keygroup.LongHash(in.I64()), false }
func intHash(in *Input) (int32, bool)    { return in.I32(), false }
func shortHash(in *Input) (int32, bool)  { return int32(int16(in.U16())), false }
func byteHash(in *Input) (int32, bool)   { return int32(int8(in.U8())), false }
func charHash(in *Input) (int32, bool)   { return int32(in.U16()), false }
func boolHash(in *Input) (int32, bool)   { return keygroup.BoolHash(in.Bool()), false }
func floatHash(in *Input) (int32, bool)  { return keygroup.FloatHash(in.F32()), false }
func doubleHash(in *Input) (int32, bool) { return keygroup.DoubleHash(in.F64()), false }

func millisHash(in *Input) (int32, bool) {
	v := in.I64()
	return keygroup.LongHash(v), v == math.MinInt64
}

// timestampHash leaves out the nanoseconds, as java.sql.Timestamp does.
func timestampHash(in *Input) (int32, bool) {
	at, ok := readTimestamp(in).(Instant)
	if !ok {
		return 0, true
	}
	return keygroup.LongHash(at.millis()), false
}

func instantHash(in *Input) (int32, bool) {
	at, ok := readInstant(in).(Instant)
	return keygroup.InstantHash(at.Second, at.Nano), !ok
}

// millis is the milliseconds since 1970, rounded down.
func (i Instant) millis() int64 { return i.Second*1000 + int64(i.Nano/1_000_000) }

// nanos is the nanoseconds since midnight.
func (t Time) nanos() int64 {
	return ((int64(t.Hour)*60+int64(t.Minute))*60+int64(t.Second))*1_000_000_000 + int64(t.Nano)
}

func (d Date) hash() int32 { return keygroup.DateHash(d.Year, d.Month, d.Day) }
func (t Time) hash() int32 { return keygroup.TimeHash(t.nanos()) }
