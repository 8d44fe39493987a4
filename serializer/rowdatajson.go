package serializer

import "strconv"

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
		return append(appendDecimal(append(dst, '"'), b.decimal(t, off)), '"')
	case rootString:
		p := b.part(off)
		return appendQuoted(dst, string(p.data))
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
