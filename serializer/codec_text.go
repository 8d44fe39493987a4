package serializer

import (
	"encoding/hex"
	"encoding/json"
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
// What Java serializes in more than one way, such as a BigInteger 0, 1 or 10, is refused with an error that
// unwraps to [ErrUnsupported], as is a type without text: such a key is to be looked for by its [Text]. A BigDecimal
// that is shown without its negative scale is not found by the bytes ("1E+5" is not "100000").
func ParseKey(s *Snapshot, text string) ([]byte, error) {
	s = s.plain()
	t := Of(s)
	var v any
	var err error
	switch formOf(t) {
	case formNone:
		if digits, ok := strings.CutPrefix(text, "0x"); ok {
			if raw, err := hex.DecodeString(digits); err == nil {
				return raw, nil
			}
		}
		return nil, fmt.Errorf("a key of type %s can be given as its serialized bytes only, as 0x and hexadecimal digits: %w", s, ErrUnsupported)
	case formArray:
		v, err = parseJSON(text)
	case formPlain:
		v = unquoted(s, text)
	}
	w := newEncoding(len(text), true)
	if err == nil {
		err = w.value(t, v)
	}
	if err == nil {
		err = w.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("key of type %s: %w", s, err)
	}
	return w.Bytes(), nil
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

// textForm is how the text of a key is read.
type textForm uint8

const (
	formNone  textForm = iota
	formPlain          // as it is
	formArray          // as a JSON array
)

// formOf tells it of the keys that a serializer reads.
func formOf(s Serializer) textForm {
	switch s := s.(type) {
	case *scalar:
		return s.form
	case *nullable:
		return formOf(s.value)
	case *tuple:
		return formOfParts(s.fields...)
	case *list:
		return formOfParts(s.element)
	case *flagged:
		if !s.null { // a set has no order
			return formOfParts(s.element)
		}
	case *row:
		return formOfParts(s.fields...)
	case framed:
		if s.t.root == rootRow && canParseBinary(s.t) {
			return formArray
		}
	}
	return formNone
}

func formOfParts(parts ...Serializer) textForm {
	for _, p := range parts {
		if formOf(p) == formNone {
			return formNone
		}
	}
	return formArray
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
