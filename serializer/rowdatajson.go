package serializer

import (
	"strconv"
	"unsafe"
)

// The functions of this file are AppendJSON of what their namesakes in
// rowdata.go give, without making the values. After a failure dst is still JSON.

func (b *binaryValue) appendValue(dst []byte, t *logicalType, off int) []byte {
	switch t.root {
	case rootBoolean:
		return strconv.AppendBool(dst, b.data[off] != 0)
	case rootInteger, rootYearMonth:
		return strconv.AppendInt(dst, int64(b.int(off)), 10)
	case rootBigInt, rootDayTime:
		return strconv.AppendInt(dst, int64(b.long(off)), 10)
	case rootDate:
		return append(appendDate(append(dst, '"'), dateOf(b.int(off))), '"')
	case rootTime:
		return append(appendTime(append(dst, '"'), timeOf(b.in, b.at+int64(off), b.int(off))), '"')
	case rootTimestamp:
		at := b.instant(t, off).utc()
		return append(appendTime(append(appendDate(append(dst, '"'), at.Date), 'T'), at.Time), '"')
	case rootTimestampLTZ:
		return append(appendInstant(append(dst, '"'), b.instant(t, off)), '"')
	case rootDecimal:
		if t.precision <= compactDecimal && t.scale >= 0 && t.scale <= compactDecimal {
			return append(appendCompactDecimal(append(dst, '"'), int64(b.long(off)), int(t.scale)), '"')
		}
		return append(appendDecimal(append(dst, '"'), b.decimal(t, off)), '"')
	case rootString:
		p := b.part(off)
		return appendQuotedBytes(dst, p.data)
	case rootBytes:
		p := b.part(off)
		return appendHex(dst, p.data)
	case rootArray:
		p := b.part(off)
		return p.appendArray(dst, t.children[0])
	case rootRow:
		p := b.part(off)
		return p.appendRow(dst, t)
	}
	return AppendJSON(dst, b.value(t, off))
}

func (b *binaryValue) appendRow(dst []byte, t *logicalType) []byte {
	if !b.openRow(t) {
		return append(dst, "null"...)
	}
	kind := b.rowKind()
	wrapped := kind != "" && kind != "+I"
	if wrapped {
		dst = appendRowStart(dst, kind)
	}
	slot := rowHeader(len(t.children))
	if t.class == "" && len(t.names) == 0 {
		dst = append(dst, '[')
		for i, c := range t.children {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = b.appendField(dst, c, i, slot)
		}
		dst = append(dst, ']')
	} else {
		o := objectJSON{dst: append(dst, '{')}
		for i, c := range t.children {
			o.name(t.names[i])
			o.dst = b.appendField(o.dst, c, i, slot)
		}
		dst = o.end(false)
	}
	if wrapped {
		dst = appendRowEnd(dst, false)
	}
	return dst
}

func (b *binaryValue) appendField(dst []byte, t *logicalType, i, slot int) []byte {
	if b.fieldIsNull(i) || b.in.err != nil {
		return append(dst, "null"...)
	}
	return b.appendValue(dst, t, slot+8*i)
}

func (b *binaryValue) appendArray(dst []byte, element *logicalType) []byte {
	n, first := b.openArray(element)
	dst = append(dst, '[')
	for i := 0; i < n && b.in.err == nil; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		if b.elementIsNull(i) {
			dst = append(dst, "null"...)
		} else {
			dst = b.appendValue(dst, element, first+i*element.width())
		}
	}
	return append(dst, ']')
}

// appendQuotedBytes is appendQuoted without a copy.
func appendQuotedBytes(dst, b []byte) []byte {
	return appendQuoted(dst, unsafe.String(unsafe.SliceData(b), len(b)))
}

// appendCompactDecimal is appendDecimal of a long with up to 18 digits behind the point.
func appendCompactDecimal(dst []byte, unscaled int64, scale int) []byte {
	magnitude := uint64(unscaled)
	if unscaled < 0 {
		dst = append(dst, '-')
		magnitude = -magnitude
	}
	var digits [20]byte
	n := len(digits)
	for i := 0; i <= scale || magnitude > 0; i++ {
		n--
		digits[n] = '0' + byte(magnitude%10)
		magnitude /= 10
	}
	point := len(digits) - scale
	if dst = append(dst, digits[n:point]...); scale == 0 {
		return dst
	}
	return append(append(dst, '.'), digits[point:]...)
}
