package serializer

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
)

// canWriteBinary says that rows of this type can be written: no field is an
// array, a map or of an unknown type.
func canWriteBinary(row *logicalType) bool {
	for _, t := range row.children {
		switch t.root {
		case rootArray, rootMap, rootMultiset, rootRaw, rootVariant, rootUnknown, rootNull:
			return false
		case rootRow:
			if !canWriteBinary(t) {
				return false
			}
		}
	}
	return true
}

// writeBinaryText writes a key of a Table job: the length and the bytes of
// its BinaryRowData. A row is an array, or an object if its fields have names.
func writeBinaryText(out *Output, t *logicalType, v any) error {
	row, err := appendBinaryRow(t, v)
	out.Bytes32(row)
	return err
}

// binaryRow is a row that is being written as BinaryRowWriter does.
type binaryRow struct {
	data []byte // header, slots and what does not fit into them
	slot int    // where the field's slot is
}

func appendBinaryRow(t *logicalType, v any) ([]byte, error) {
	kind, v, err := splitKind(v)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(t, v)
	if err != nil {
		return nil, err
	}
	header := rowHeader(len(fields))
	b := binaryRow{data: make([]byte, header+8*len(fields))}
	b.data[0] = byte(kind)
	for i, f := range fields {
		b.slot = header + 8*i
		if f == nil {
			if !fixedSlot(t.children[i]) {
				return nil, fmt.Errorf("field %d: a null %s has more than one form: %w", i, t.children[i].text, ErrUnsupported)
			}
			b.data[(i+8)/8] |= 1 << (i % 8)
			continue
		}
		if err := b.write(t.children[i], f); err != nil {
			return nil, fmt.Errorf("field %d: %w", i, err)
		}
	}
	return b.data, nil
}

// fieldsOf gives the fields by position.
func fieldsOf(t *logicalType, v any) ([]any, error) {
	if m, ok := v.(map[string]any); ok && len(t.names) == len(t.children) && len(m) == len(t.names) {
		list := make([]any, len(t.names))
		for i, name := range t.names {
			f, ok := m[name]
			if !ok {
				return nil, fmt.Errorf("field %q is missing", name)
			}
			list[i] = f
		}
		return list, nil
	}
	list, ok := v.([]any)
	if !ok || len(list) != len(t.children) {
		return nil, unexpected(fmt.Sprintf("an array of %d", len(t.children)), v)
	}
	return list, nil
}

// fixedSlot says that the field's null is always an empty slot: Flink's
// generated code may keep room for others.
func fixedSlot(t *logicalType) bool {
	switch t.root {
	case rootDecimal:
		return t.precision <= compactDecimal
	case rootTimestamp, rootTimestampLTZ:
		return t.precision <= compactTimestamp
	}
	return true
}

func (b *binaryRow) long(v uint64) { binary.LittleEndian.PutUint64(b.data[b.slot:], v) }

// part puts bytes behind the slots, padded to a multiple of eight, and in the
// slot where they are and a number of 32 bits.
func (b *binaryRow) part(bytes []byte, number int) {
	b.long(uint64(len(b.data))<<32 | uint64(uint32(number)))
	b.data = append(b.data, bytes...)
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
}

// text puts up to seven bytes into the slot itself.
func (b *binaryRow) text(s []byte) {
	if len(s) > 7 {
		b.part(s, len(s))
		return
	}
	copy(b.data[b.slot:], s)
	b.data[b.slot+7] = 0x80 | byte(len(s))
}

func (b *binaryRow) write(t *logicalType, v any) error {
	switch t.root {
	case rootBoolean:
		on, err := booleanOf(v)
		if on {
			b.long(1)
		}
		return err
	case rootTinyInt:
		n, err := integerOf(v, 8)
		b.long(uint64(uint8(n)))
		return err
	case rootSmallInt:
		n, err := integerOf(v, 16)
		b.long(uint64(uint16(n)))
		return err
	case rootInteger, rootYearMonth:
		n, err := integerOf(v, 32)
		b.long(uint64(uint32(n)))
		return err
	case rootBigInt, rootDayTime:
		n, err := integerOf(v, 64)
		b.long(uint64(n))
		return err
	case rootFloat:
		f, err := floatOf(v, 32)
		b.long(uint64(math.Float32bits(float32(f))))
		return err
	case rootDouble:
		f, err := floatOf(v, 64)
		b.long(math.Float64bits(f))
		return err
	case rootDecimal:
		return b.decimal(t, v)
	case rootString:
		s, err := stringOf(v)
		b.text([]byte(s))
		return err
	case rootBytes:
		s, err := bytesOf(v)
		b.text(s)
		return err
	case rootRow:
		row, err := appendBinaryRow(t, v)
		b.part(row, len(row))
		return err
	}
	return b.time(t, v)
}

func (b *binaryRow) decimal(t *logicalType, v any) error {
	d, err := decimalOf(v)
	if err != nil {
		return err
	}
	unscaled := d.Unscaled
	if missing := int64(t.scale) - int64(d.Scale); missing < 0 || missing > int64(t.precision) {
		return unexpected(fmt.Sprintf("a number with %d decimal places", t.scale), v)
	} else if missing > 0 {
		unscaled = new(big.Int).Mul(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(missing), nil))
	}
	if limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.precision)), nil); unscaled.CmpAbs(limit) >= 0 {
		return unexpected(fmt.Sprintf("a number of %d digits", t.precision), v)
	}
	if t.precision <= compactDecimal {
		b.long(uint64(unscaled.Int64()))
		return nil
	}
	digits := appendTwosComplement(make([]byte, 0, 16), unscaled)
	b.part(append(digits, make([]byte, 16-len(digits))...), len(digits))
	return nil
}

// time writes dates and times.
func (b *binaryRow) time(t *logicalType, v any) error {
	switch t.root {
	case rootDate:
		d, err := dateOfText(v)
		if err != nil {
			return err
		}
		day := d.day()
		if day != int64(int32(day)) {
			return unexpected("a date of SQL", v)
		}
		b.long(uint64(uint32(day)))
		return nil
	case rootTime:
		c, err := timeOfText(v)
		if err == nil && c.Nano%1_000_000 != 0 {
			err = unexpected("a time in milliseconds", v)
		}
		b.long(uint64(c.nanos() / 1_000_000))
		return err
	case rootTimestamp:
		at, err := dateTimeOfText(v)
		if err != nil {
			return err
		}
		return b.timestamp(t, at.instant(), v)
	case rootTimestampLTZ:
		at, err := instantOfText(v)
		if err != nil {
			return err
		}
		return b.timestamp(t, at, v)
	}
	return unexpected("a value of type "+t.text, v)
}

func (b *binaryRow) timestamp(t *logicalType, at Instant, v any) error {
	if t.precision <= compactTimestamp {
		if at.Nano%1_000_000 != 0 {
			return unexpected("a time in milliseconds", v)
		}
		b.long(uint64(at.millis()))
		return nil
	}
	b.part(binary.LittleEndian.AppendUint64(nil, uint64(at.millis())), int(at.Nano%1_000_000))
	return nil
}
