package serializer

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
)

// binaryValue is a row or an array in the binary layout of the table runtime
// (BinaryRowData, BinaryArrayData): fields in slots of known places, which may
// point to a part behind them. All numbers are little-endian.
type binaryValue struct {
	in   *Input
	at   int64 // offset of data in the file
	data []byte
	// left bounds the lengths of all parts: parts do not overlap, so their sum
	// is not more than the whole, and what is read no more than is there.
	left int
}

func (b *binaryValue) fail(off int, field, format string, args ...any) {
	b.in.FailAt(b.at+int64(off), field, fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...))
}

// long reads the slot of eight bytes at off.
func (b *binaryValue) long(off int) uint64 { return binary.LittleEndian.Uint64(b.data[off:]) }

// part is what the slot at off has: up to seven bytes in itself, or an offset and a length.
func (b *binaryValue) part(off int) binaryValue {
	slot := b.long(off)
	if slot>>63 != 0 {
		n := int(slot >> 56 & 0x7F)
		if n > 7 {
			b.fail(off, "slot", "%d bytes within a slot of 8", n)
			return binaryValue{in: b.in, at: b.at + int64(off)}
		}
		return binaryValue{in: b.in, at: b.at + int64(off), data: b.data[off : off+n], left: n}
	}
	return b.slice(off, slot>>32, slot&math.MaxUint32)
}

// slice is n bytes at from, which the slot at off names.
func (b *binaryValue) slice(off int, from, n uint64) binaryValue {
	if size := uint64(len(b.data)); from > size || n > size-from {
		b.fail(off, "slot", "%d bytes at %d of %d", n, from, size)
		return binaryValue{in: b.in, at: b.at + int64(off)}
	}
	if n > uint64(b.left) {
		b.fail(off, "slot", "%d bytes at %d overlap others", n, from)
		return binaryValue{in: b.in, at: b.at + int64(off)}
	}
	b.left -= int(n)
	return binaryValue{in: b.in, at: b.at + int64(from), data: b.data[from : from+n : from+n], left: int(n)}
}

// value decodes the slot at off, which is wide enough and not null.
func (b *binaryValue) value(t *logicalType, off int) any {
	switch t.root {
	case rootBoolean:
		return b.data[off] != 0
	case rootTinyInt:
		return int8(b.data[off])
	case rootSmallInt:
		return int16(binary.LittleEndian.Uint16(b.data[off:]))
	case rootInteger, rootYearMonth:
		return b.int(off)
	case rootBigInt, rootDayTime:
		return int64(b.long(off))
	case rootFloat:
		return math.Float32frombits(binary.LittleEndian.Uint32(b.data[off:]))
	case rootDouble:
		return math.Float64frombits(b.long(off))
	case rootDate:
		return dateOf(b.int(off))
	case rootTime:
		return timeOf(b.in, b.at+int64(off), b.int(off))
	case rootTimestamp:
		return b.instant(t, off).utc()
	case rootTimestampLTZ:
		return b.instant(t, off)
	case rootDecimal:
		return b.decimal(t, off)
	case rootString:
		p := b.part(off)
		return string(p.data)
	case rootBytes:
		p := b.part(off)
		return append([]byte{}, p.data...)
	case rootArray:
		p := b.part(off)
		return p.array(t.children[0])
	case rootMap, rootMultiset:
		p := b.part(off)
		return p.mapping(t)
	case rootRow:
		p := b.part(off)
		return p.row(t)
	case rootRaw:
		p := b.part(off)
		return p.rawValue(t)
	case rootVariant:
		p := b.part(off)
		return p.variant()
	}
	return Opaque{Class: t.text, Raw: append([]byte{}, b.data[off:off+8]...), Reason: "the SQL type is not known"}
}

func (b *binaryValue) int(off int) int32 { return int32(binary.LittleEndian.Uint32(b.data[off:])) }

// dateOf is the date of a number of days since 1970.
func dateOf(days int32) Date { return Instant{Second: int64(days) * 86400}.utc().Date }

// timeOf is the time of the milliseconds of a day, which were read at an offset.
func timeOf(in *Input, at int64, ms int32) Time {
	if ms < 0 || ms >= 86_400_000 {
		in.FailAt(at, "TIME", fmt.Errorf("%w: %d ms", ErrCorrupt, ms))
		return Time{}
	}
	return millis(int64(ms)).utc().Time
}

// compactTimestamp is the highest precision of timestamps that have
// milliseconds only; compactDecimal that of decimals in a long.
const (
	compactTimestamp = 3
	compactDecimal   = 18
)

func (b *binaryValue) instant(t *logicalType, off int) Instant {
	slot := b.long(off)
	if t.precision <= compactTimestamp {
		return millis(int64(slot))
	}
	p := b.slice(off, slot>>32, 8)
	if p.data == nil {
		return Instant{}
	}
	return timestampOf(b.in, b.at+int64(off), int64(p.long(0)), int64(slot&math.MaxUint32))
}

// timestampOf adds the nanoseconds within a millisecond.
func timestampOf(in *Input, at, ms, nanos int64) Instant {
	if nanos < 0 || nanos > 999_999 {
		in.FailAt(at, "timestamp", fmt.Errorf("%w: %d ns in a millisecond", ErrCorrupt, nanos))
		return Instant{}
	}
	i := millis(ms)
	i.Nano += int32(nanos)
	return i
}

func (b *binaryValue) decimal(t *logicalType, off int) Decimal {
	slot := b.long(off)
	if t.precision <= compactDecimal {
		return Decimal{Unscaled: big.NewInt(int64(slot)), Scale: t.scale}
	}
	p := b.slice(off, slot>>32, slot&math.MaxUint32)
	return Decimal{Unscaled: twosComplement(p.data), Scale: t.scale}
}

// variant is the length of the metadata, big-endian, the metadata and the value.
func (b *binaryValue) variant() any {
	if b.in.err != nil {
		return nil
	}
	if len(b.data) < 4 || uint64(binary.BigEndian.Uint32(b.data)) > uint64(len(b.data)-4) {
		b.fail(0, "variant", "%d bytes", len(b.data))
		return nil
	}
	n := 4 + binary.BigEndian.Uint32(b.data)
	return record("Variant", "value", append([]byte{}, b.data[n:]...), "metadata", append([]byte{}, b.data[4:n]...))
}

func (b *binaryValue) rawValue(t *logicalType) any {
	if b.in.err != nil {
		return nil
	}
	if t.raw == nil {
		return Opaque{Class: t.class, Raw: append([]byte{}, b.data...), Reason: "the serializer of the raw type is not known"}
	}
	in := NewInput(b.data)
	in.base = b.at
	v := t.raw.Read(in)
	if in.err == nil && !in.lost && !in.AtEnd() {
		in.Failf("RAW value", "%d bytes are left", in.Remaining())
	}
	if in.err != nil {
		return Opaque{Class: t.class, Raw: append([]byte{}, b.data...), Reason: in.err.Error()}
	}
	return v
}

// rowHeader is how many bytes the kind and the null bits of a row take.
func rowHeader(fields int) int { return (fields + 8 + 63) / 64 * 8 }

// openRow checks that the fixed part of a row is there.
func (b *binaryValue) openRow(t *logicalType) bool {
	if b.in.err != nil {
		return false
	}
	if need := rowHeader(len(t.children)) + 8*len(t.children); len(b.data) < need {
		b.fail(0, "row", "%d bytes, %d fields take %d", len(b.data), len(t.children), need)
		return false
	}
	return true
}

// fieldIsNull says that field i of a row is null.
func (b *binaryValue) fieldIsNull(i int) bool { return b.data[(i+8)>>3]>>((i+8)&7)&1 != 0 }

// rowKind is the short text of RowKind; "" after a failure.
func (b *binaryValue) rowKind() string {
	switch b.data[0] {
	case 0:
		return "+I"
	case 1:
		return "-U"
	case 2:
		return "+U"
	case 3:
		return "-D"
	}
	b.fail(0, "row kind", "%d", b.data[0])
	return ""
}

func (b *binaryValue) row(t *logicalType) any {
	if !b.openRow(t) {
		return nil
	}
	r := &Record{Class: t.class, Kind: b.rowKind(), Fields: make([]Field, 0, len(t.children))}
	slot := rowHeader(len(t.children))
	for i, c := range t.children {
		if b.in.err != nil {
			break
		}
		var f Field
		if i < len(t.names) {
			f.Name = t.names[i]
		}
		if !b.fieldIsNull(i) {
			f.Value = b.value(c, slot+8*i)
		}
		r.Fields = append(r.Fields, f)
	}
	return r
}

// openArray gives the number of elements and where the first one is.
func (b *binaryValue) openArray(element *logicalType) (n, first int) {
	if b.in.err != nil {
		return 0, 0
	}
	if len(b.data) < 4 {
		b.fail(0, "array", "%d bytes", len(b.data))
		return 0, 0
	}
	count := int64(binary.LittleEndian.Uint32(b.data))
	start := 4 + (count+31)/32*4
	if need := start + count*int64(element.width()); need > int64(len(b.data)) {
		b.fail(0, "array", "%d bytes, %d elements take %d", len(b.data), count, need)
		return 0, 0
	}
	return int(count), int(start)
}

// elementIsNull says that element i of an array is null.
func (b *binaryValue) elementIsNull(i int) bool { return b.data[4+i>>3]>>(i&7)&1 != 0 }

func (b *binaryValue) array(element *logicalType) any {
	n, first := b.openArray(element)
	list := make([]any, n)
	for i := range list {
		if b.in.err != nil {
			return list[:i]
		}
		if !b.elementIsNull(i) {
			list[i] = b.value(element, first+i*element.width())
		}
	}
	return list
}

// openMap gives the arrays of keys and values.
func (b *binaryValue) openMap() (keys, values binaryValue) {
	keys, values = binaryValue{in: b.in}, binaryValue{in: b.in}
	if b.in.err != nil {
		return keys, values
	}
	if len(b.data) < 4 {
		b.fail(0, "map", "%d bytes", len(b.data))
		return keys, values
	}
	size := uint64(binary.LittleEndian.Uint32(b.data))
	keys = b.slice(0, 4, size)
	if b.in.err == nil {
		values = b.slice(0, 4+size, uint64(len(b.data))-4-size)
	}
	return keys, values
}

func (b *binaryValue) mapping(t *logicalType) any {
	k, v := b.openMap()
	keys, _ := k.array(t.children[0]).([]any)
	values, _ := v.array(t.children[1]).([]any)
	if b.in.err != nil {
		return nil
	}
	if len(keys) != len(values) {
		b.fail(0, "map", "%d keys and %d values", len(keys), len(values))
		return nil
	}
	entries := make(Map, len(keys))
	for i := range keys {
		entries[i] = MapEntry{keys[i], values[i]}
	}
	return entries
}
