package serializer

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// ParseKey gives the bytes of a key from its text, as [Text] shows it: a
// string as it is, numbers, true and false, dates and times, byte[] as 0x and
// hexadecimal digits, an enum by its constant, and tuples, rows, lists and arrays
// as JSON arrays. A key of another type can be given as its serialized bytes, 0x and hexadecimal digits.
//
// Two keys that Java serializes in more than one way may not be found by
// the bytes: a BigInteger 0, 1 or 10 that is not Java's constant, and a
// BigDecimal shown without its negative scale ("1E+5" is not "100000").
func ParseKey(s *Snapshot, text string) ([]byte, error) {
	s = s.plain()
	var out Output
	write, compound := textWriter(s)
	var err error
	switch {
	case write == nil:
		if digits, ok := strings.CutPrefix(text, "0x"); ok {
			if raw, err := hex.DecodeString(digits); err == nil {
				return raw, nil
			}
		}
		return nil, fmt.Errorf("a key of type %s can be given as its serialized bytes only, as 0x and hexadecimal digits: %w", s, ErrUnsupported)
	case compound:
		var v any
		if v, err = parseJSON(text); err == nil {
			err = write(&out, v)
		}
	default:
		err = write(&out, unquoted(s, text))
	}
	if err == nil {
		err = out.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("key of type %s: %w", s, err)
	}
	return out.Bytes(), nil
}

// unquoted takes the quotes off that the JSON of dates and such has. Strings and enums are as they are.
func unquoted(s *Snapshot, text string) any {
	switch s.Class {
	case base + "StringSerializer$StringSerializerSnapshot", base + "StringValueSerializer$StringValueSerializerSnapshot",
		base + "EnumSerializer$EnumSerializerSnapshot":
		return text
	}
	if strings.HasPrefix(text, `"`) {
		if v, err := parseJSON(text); err == nil {
			return v
		}
	}
	return text
}

// writeText writes a value that stands for itself as text or in JSON: nil,
// bool, string, json.Number, []any or [members].
type writeText func(out *Output, v any) error

// textWriter gives how values of a type are written, nil if they cannot be.
// Those that are compound are JSON, others are text.
func textWriter(s *Snapshot) (write writeText, compound bool) {
	if s = s.plain(); s == nil {
		return nil, false
	}
	if write := basicText(s.Class); write != nil {
		return write, false
	}
	if element := elementText(s.Class); element != nil {
		return listText(element), true
	}
	switch s.Class {
	case base + "EnumSerializer$EnumSerializerSnapshot":
		if b, ok := s.Body.(*Enum); ok {
			return enumText(b), false
		}
	case javaRuntime + "NullableSerializer$NullableSerializerSnapshot":
		return nullableText(s)
	case javaRuntime + "Tuple0SerializerSnapshot":
		return fieldsText(nil, func(out *Output) { out.U8(42) }), true
	case javaRuntime + "TupleSerializerSnapshot", scala + "ScalaCaseClassSerializerSnapshot", scala + "Tuple2CaseClassSerializerSnapshot":
		if fields := partsText(s, -1); fields != nil {
			return fieldsText(fields, nil), true
		}
	case base + "ListSerializerSnapshot", runtimeState + "ArrayListSerializerSnapshot":
		if p := partsText(s, 1); p != nil {
			return listText(p[0]), true
		}
	case base + "GenericArraySerializerSnapshot":
		if p := partsText(s, 1); p != nil {
			return listText(optionalText(p[0])), true
		}
	case javaRuntime + "RowSerializer$RowSerializerSnapshot":
		if fields := partsText(s, -1); fields != nil {
			return rowText(s.Body.(*Composite), fields), true
		}
	case tableTypes + "RowDataSerializer$RowDataSerializerSnapshot":
		if b, ok := s.Body.(*RowTypes); ok {
			if t := b.rowType(); t != nil && canParseBinary(t) {
				return func(out *Output, v any) error { return writeBinaryText(out, t, v) }, true
			}
		}
	}
	return nil, false
}

// partsText gives the writers of the parts of a composite, nil if one has none.
func partsText(s *Snapshot, n int) []writeText {
	c := s.composite(n)
	if c == nil {
		return nil
	}
	parts := make([]writeText, len(c.Nested))
	for i, p := range c.Nested {
		if parts[i], _ = textWriter(p); parts[i] == nil {
			return nil
		}
	}
	return parts
}

func nullableText(s *Snapshot) (writeText, bool) {
	c := s.composite(1)
	if c == nil {
		return nil, false
	}
	value, compound := textWriter(c.Nested[0])
	padding, _ := c.Outer.(Number)
	if value == nil || padding < 0 || padding > maxPrepared {
		return nil, false
	}
	return func(out *Output, v any) error {
		if out.Bool(v == nil); v != nil {
			return value(out, v)
		}
		out.Raw(make([]byte, padding))
		return nil
	}, compound
}

// optionalText has a flag that there is a value before it.
func optionalText(value writeText) writeText {
	return func(out *Output, v any) error {
		if out.Bool(v != nil); v != nil {
			return value(out, v)
		}
		return nil
	}
}

func listText(element writeText) writeText {
	return func(out *Output, v any) error {
		list, ok := v.([]any)
		if !ok {
			return unexpected("an array", v)
		}
		out.Length(len(list))
		for i, e := range list {
			if err := element(out, e); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
}

// fieldsText writes fields one after the other, and then what end does.
func fieldsText(fields []writeText, end func(*Output)) writeText {
	return func(out *Output, v any) error {
		list, ok := v.([]any)
		if !ok || len(list) != len(fields) {
			return unexpected(fmt.Sprintf("an array of %d", len(fields)), v)
		}
		for i, f := range fields {
			if err := f(out, list[i]); err != nil {
				return fmt.Errorf("field %d: %w", i, err)
			}
		}
		if end != nil {
			end(out)
		}
		return nil
	}
}

// rowText writes a Row from an array, or from {"rowKind":"-D","fields":[...]}.
func rowText(c *Composite, fields []writeText) writeText {
	kinds := c.OuterVersion == 3
	if f, ok := c.Outer.(Flag); ok {
		kinds = bool(f)
	}
	return func(out *Output, v any) error {
		kind, v, err := splitKind(v)
		if err != nil {
			return err
		}
		list, ok := v.([]any)
		if !ok || len(list) != len(fields) {
			return unexpected(fmt.Sprintf("an array of %d", len(fields)), v)
		}
		var bits []bool
		if kinds {
			bits = []bool{kind&1 != 0, kind&2 != 0}
		} else if kind != 0 {
			return errors.New("these rows have no row kind")
		}
		for _, f := range list {
			bits = append(bits, f == nil)
		}
		mask := make([]byte, (len(bits)+7)/8)
		for i, set := range bits {
			if set {
				mask[i/8] |= 0x80 >> (i % 8)
			}
		}
		out.Raw(mask)
		for i, f := range fields {
			if list[i] == nil {
				continue
			}
			if err := f(out, list[i]); err != nil {
				return fmt.Errorf("field %d: %w", i, err)
			}
		}
		return nil
	}
}

// splitKind takes apart a row that is shown with its kind.
func splitKind(v any) (kind int, fields any, err error) {
	m, ok := v.(members)
	if !ok || len(m) != 2 {
		return 0, v, nil
	}
	parts, err := m.named([]string{"rowKind", "fields"})
	if err != nil || parts[1] == nil {
		return 0, v, nil
	}
	name, ok := parts[0].(string)
	if !ok {
		return 0, v, nil
	}
	if kind = slices.Index(rowKinds[:], name); kind < 0 {
		return 0, nil, fmt.Errorf("no row kind: %.100q", name)
	}
	return kind, parts[1], nil
}

func unexpected(want string, v any) error {
	switch v := v.(type) {
	case nil:
		return fmt.Errorf("%s is expected, not null", want)
	case []any:
		return fmt.Errorf("%s is expected, not an array of %d", want, len(v))
	case members:
		return fmt.Errorf("%s is expected, not an object", want)
	}
	return fmt.Errorf("%s is expected, not %.100v", want, v)
}

func enumText(b *Enum) writeText {
	return func(out *Output, v any) error {
		name, _ := v.(string)
		i := slices.Index(b.Constants, name)
		if i < 0 {
			return unexpected("one of "+strings.Join(b.Constants, ", "), v)
		}
		out.I32(int32(i))
		return nil
	}
}

// textOf is a string, or the text of a number or truth value.
func textOf(want string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", unexpected(want, v)
}

// stringOf is a string.
func stringOf(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", unexpected("a string", v)
	}
	return s, nil
}

// integerOf is an integer of so many bits.
func integerOf(v any, bits int) (int64, error) {
	s, err := textOf("a number", v)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, bits)
}

func floatOf(v any, bits int) (float64, error) {
	s, err := textOf("a number", v)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(s, bits)
}

func booleanOf(v any) (bool, error) {
	switch v {
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return false, unexpected("true or false", v)
}

func bytesOf(v any) ([]byte, error) {
	s, _ := v.(string)
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return nil, unexpected("bytes as 0x and hexadecimal digits", v)
	}
	return hex.DecodeString(digits)
}

// decimalOf is a decimal; its scale is what the text shows.
func decimalOf(v any) (Decimal, error) {
	s, err := textOf("a number", v)
	if err != nil {
		return Decimal{}, err
	}
	digits, exponent, exponential := strings.Cut(strings.ToUpper(s), "E")
	scale := int64(0)
	if exponential {
		e, err := strconv.ParseInt(exponent, 10, 33)
		if err != nil {
			return Decimal{}, err
		}
		scale = -e
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	scale += int64(len(fraction))
	unscaled, ok := new(big.Int), len(whole+fraction) <= maxDigits && !strings.ContainsAny(fraction, "+-_") && !strings.Contains(whole, "_")
	if ok {
		unscaled, ok = unscaled.SetString(whole+fraction, 10)
	}
	if !ok || scale != int64(int32(scale)) {
		return Decimal{}, unexpected("a number", v)
	}
	return Decimal{Unscaled: unscaled, Scale: int32(scale)}, nil
}
