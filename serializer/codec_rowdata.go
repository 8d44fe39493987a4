package serializer

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// canParseBinary says that keys which are rows of this type can be given as text: no field is an
// array, a map or of an unknown type.
func canParseBinary(row *logicalType) bool {
	for _, t := range row.children {
		switch t.root {
		case rootArray, rootMap, rootMultiset, rootRaw, rootVariant, rootUnknown, rootNull:
			return false
		case rootRow:
			if !canParseBinary(t) {
				return false
			}
		}
	}
	return true
}

// binaryWriter is a row or an array that is being written as Flink's BinaryRowWriter and BinaryArrayWriter do.
type binaryWriter struct {
	w    *encoding
	data []byte // header, slots and what does not fit into them
	slot int    // where the slot is
	// width of the slots of an array; a row has them of 8 bytes.
	width int
}

func (w *encoding) binaryRow(t *logicalType, v any) ([]byte, error) {
	if len(t.names) == 2 && slices.Contains(t.names, "rowKind") && slices.Contains(t.names, "fields") {
		return nil, w.opaque(t.String(), "the JSON of its fields is like that of a row with its kind")
	}
	kind, v, err := splitKind(v)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(t, v)
	if err != nil {
		return nil, err
	}
	header := rowHeader(len(fields))
	b := binaryWriter{w: w, data: make([]byte, header+8*len(fields)), width: 8}
	b.data[0] = byte(kind)
	for i, f := range fields {
		b.slot = header + 8*i
		// Flink has nulls in fields that are NOT NULL, such as processing time.
		if c := t.children[i]; f != nil || c.onlyNull() {
			err = b.write(c, f)
		} else {
			b.data[(i+8)/8] |= 1 << (i % 8)
			if !fixedSlot(c) {
				err = w.ambiguous("a null " + c.text)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("field %d: %w", i, err)
		}
	}
	return b.data, nil
}

// fieldsOf gives the fields by position, from an array or, if they have names, an object.
func fieldsOf(t *logicalType, v any) ([]any, error) {
	if m, ok := v.(members); ok && len(t.names) == len(t.children) {
		return membersOf(m, t.names...)
	}
	list, ok := v.([]any)
	if !ok || len(list) != len(t.children) {
		return nil, unexpected(fmt.Sprintf("an array of %d", len(t.children)), v)
	}
	return list, nil
}

// onlyNull says that the type has but one value, which is shown as null but is none: that of a view of
// an accumulator, whose content is a state of its own.
func (t *logicalType) onlyNull() bool {
	_, only := t.raw.(onlyNull)
	return only
}

// fixedSlot says that the field's null is always an empty slot: Flink's
// generated code may keep room for others.
func fixedSlot(t *logicalType) bool {
	switch t.root {
	case rootDecimal:
		return t.precision <= compactDecimal
	case rootTimestamp, rootTimestampLTZ:
		return t.precision <= compactTimestamp
	case rootUnknown:
		return false
	}
	return true
}

func (w *encoding) binaryArray(element *logicalType, v any) ([]byte, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, unexpected("an array", v)
	}
	width := element.width()
	header := 4 + (len(list)+31)/32*4
	b := binaryWriter{w: w, data: make([]byte, padded(header+width*len(list))), width: width}
	binary.LittleEndian.PutUint32(b.data, uint32(len(list)))
	for i, e := range list {
		if e == nil && !element.onlyNull() {
			b.data[4+i/8] |= 1 << (i % 8)
			continue
		}
		b.slot = header + width*i
		if err := b.write(element, e); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return b.data, nil
}

// padded is the next multiple of eight.
func padded(n int) int { return (n + 7) / 8 * 8 }

// binaryMap is the size of the array of keys, that array, and the array of values.
func (w *encoding) binaryMap(t *logicalType, v any) ([]byte, error) {
	var keys, values []any
	var alone encoding // the keys as each would be alone, to see whether one comes twice
	err := alone.entries(v, func(int) {}, func(key, value any) (int, error) {
		keys, values = append(keys, key), append(values, value)
		b, err := w.binaryArray(t.children[0], []any{key})
		alone.Raw(b)
		return alone.Len(), err
	})
	if err != nil {
		return nil, err
	}
	k, err := w.binaryArray(t.children[0], keys)
	if err != nil {
		return nil, err
	}
	b, err := w.binaryArray(t.children[1], values)
	if err != nil {
		return nil, err
	}
	all := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(k)+len(b)), uint32(len(k)))
	return append(append(all, k...), b...), nil
}

// binary is what a slot of an array, map, row or raw type refers to.
func (w *encoding) binary(t *logicalType, v any) ([]byte, error) {
	switch t.root {
	case rootArray:
		return w.binaryArray(t.children[0], v)
	case rootMap, rootMultiset:
		return w.binaryMap(t, v)
	case rootRow:
		return w.binaryRow(t, v)
	case rootVariant:
		return w.binaryVariant(v)
	case rootRaw:
		if t.raw == nil {
			return nil, w.opaque(t.class, "the serializer of the raw type is not known")
		}
		raw := encoding{key: w.key, budget: w.budget, depth: w.depth}
		err := raw.value(t.raw, v)
		if v == nil && err == nil {
			err = w.ambiguous("a null " + t.text)
		}
		if w.budget = raw.budget; err == nil {
			err = raw.err
		}
		return raw.buf, err
	}
	return nil, w.opaque(t.text, "the SQL type is not known")
}

func (w *encoding) binaryVariant(v any) ([]byte, error) {
	parts, err := membersOf(v, "value", "metadata")
	if err != nil {
		return nil, err
	}
	value, err := bytesOf(parts[0])
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	metadata, err := bytesOf(parts[1])
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(metadata)))
	return append(append(b, metadata...), value...), nil
}

// number fills the slot, from its low bytes.
func (b *binaryWriter) number(v uint64) {
	for i := range b.width {
		b.data[b.slot+i] = byte(v >> (8 * i))
	}
}

// part puts bytes behind the slots, padded to a multiple of eight, and in the
// slot where they are and a number of 32 bits.
func (b *binaryWriter) part(bytes []byte, number int) {
	b.number(uint64(len(b.data))<<32 | uint64(uint32(number)))
	b.data = append(b.data, bytes...)
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
	if len(b.data) > math.MaxInt32 {
		b.w.Fail(fmt.Errorf("a row of more than %d bytes: %w", math.MaxInt32, ErrTooLarge))
	}
}

// text puts up to seven bytes into the slot itself.
func (b *binaryWriter) text(s []byte) {
	if len(s) > 7 {
		b.part(s, len(s))
		return
	}
	copy(b.data[b.slot:], s)
	b.data[b.slot+7] = 0x80 | byte(len(s))
}

func (b *binaryWriter) write(t *logicalType, v any) error {
	switch t.root {
	case rootBoolean:
		on, err := booleanOf(v)
		if on {
			b.number(1)
		}
		return err
	case rootTinyInt:
		n, err := integerOf(v, 8)
		b.number(uint64(uint8(n)))
		return err
	case rootSmallInt:
		n, err := integerOf(v, 16)
		b.number(uint64(uint16(n)))
		return err
	case rootInteger, rootYearMonth:
		n, err := integerOf(v, 32)
		b.number(uint64(uint32(n)))
		return err
	case rootBigInt, rootDayTime:
		n, err := integerOf(v, 64)
		b.number(uint64(n))
		return err
	case rootFloat:
		f, err := floatOf(v, 32)
		b.number(uint64(floatBits(float32(f))))
		return err
	case rootDouble:
		f, err := floatOf(v, 64)
		b.number(doubleBits(f))
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
	case rootDate, rootTime, rootTimestamp, rootTimestampLTZ:
		return b.time(t, v)
	}
	part, err := b.w.binary(t, v)
	if err == nil {
		b.part(part, len(part))
	}
	return err
}

func (b *binaryWriter) decimal(t *logicalType, v any) error {
	unscaled, err := unscaledOf(v, t.precision, t.scale)
	if err != nil {
		return err
	}
	if t.precision <= compactDecimal {
		b.number(uint64(unscaled.Int64()))
		return nil
	}
	digits := appendTwosComplement(make([]byte, 0, 16), unscaled)
	if len(digits) > 16 {
		return unexpected("a number of 16 bytes", v)
	}
	b.part(append(digits, make([]byte, 16-len(digits))...), len(digits))
	return nil
}

// unscaledOf is a decimal in units of its last place.
func unscaledOf(v any, precision, scale int32) (*big.Int, error) {
	if precision > maxPrecision {
		return nil, fmt.Errorf("a DECIMAL of %d digits: %w", precision, ErrUnsupported)
	}
	d, err := decimalOf(v)
	if err != nil {
		return nil, err
	}
	unscaled := d.Unscaled
	if missing := int64(scale) - int64(d.Scale); missing < 0 || missing > int64(precision) {
		return nil, unexpected(fmt.Sprintf("a number with %d decimal places", scale), v)
	} else if missing > 0 {
		unscaled = new(big.Int).Mul(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(missing), nil))
	}
	if limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil); unscaled.CmpAbs(limit) >= 0 {
		return nil, unexpected(fmt.Sprintf("a number of %d digits", precision), v)
	}
	return unscaled, nil
}

// maxPrecision is that of a DECIMAL.
const maxPrecision = 38

// time writes dates and times.
func (b *binaryWriter) time(t *logicalType, v any) error {
	switch t.root {
	case rootDate:
		day, err := dayOfText(v)
		b.number(uint64(uint32(day)))
		return err
	case rootTime:
		ms, err := millisOfDayText(v)
		b.number(uint64(ms))
		return err
	}
	parse := instantOfText
	if t.root == rootTimestamp {
		parse = localInstantOfText
	}
	at, err := parse(v)
	if err != nil {
		return err
	}
	if t.precision <= compactTimestamp {
		if at.Nano%1_000_000 != 0 {
			return unexpected("a time in milliseconds", v)
		}
		b.number(uint64(at.millis()))
		return nil
	}
	b.part(binary.LittleEndian.AppendUint64(nil, uint64(at.millis())), int(at.Nano%1_000_000))
	return nil
}

// dayOfText is a date as the number of days since 1970.
func dayOfText(v any) (int32, error) {
	d, err := dateOfText(v)
	if err != nil {
		return 0, err
	}
	day := d.day()
	if day != int64(int32(day)) {
		return 0, unexpected("a date of SQL", v)
	}
	return int32(day), nil
}

// millisOfDayText is a time as the number of milliseconds since midnight.
func millisOfDayText(v any) (int32, error) {
	c, err := timeOfText(v)
	if err == nil && c.Nano%1_000_000 != 0 {
		err = unexpected("a time in milliseconds", v)
	}
	return int32(c.nanos() / 1_000_000), err
}
