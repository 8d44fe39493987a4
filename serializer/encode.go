package serializer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// EncodeJSON gives the bytes that s reads as the value that a JSON text stands for, as [AppendJSON] and [AppendRead] print
// it: the inverse of these. Nothing is rounded, cut off or left out: the bytes are read again, and if their JSON is not the
// one given, but for white space, the order of fields, and how a number or a character is written, it fails.
//
// Fields of a POJO that are missing are null, unless they may be of a primitive type, which has none; all other fields
// must be there, and no others. A map has its entries in the order given, none twice.
//
// What can't be written fails with an error that unwraps to [ErrUnsupported]: what the JSON itself says was cut or not decoded (@cut,
// @raw), values written by Kryo or as Java objects, variants (but in a row), the states of an old NFA, failures of a Try, a subclass of
// a POJO that is none itself, a value of a union of Avro that could be of more than one of its types, constants of the same name, a row
// of two fields that are named as those of a row with its kind.
//
// Where other bytes have the same JSON, these are given:
//
//   - null is that of the outermost type that has one: of the map, not of the string that is its value
//   - a BigInteger 0, 1 or 10, also as the digits of a BigDecimal, is the constant of Java's class
//   - a BigDecimal has the scale that is seen: "100" has none, though 1E+2 is shown like it
//   - a null of a DECIMAL of more than 18 digits, or of a TIMESTAMP of a precision above 3, is an empty slot: so RowDataSerializer
//     writes rows of objects, while generated code keeps room for a value
//   - a row has no bytes but those of its fields, though Flink passes on some that have more
//   - milliseconds of a java.sql.Timestamp agree with its nanoseconds, NaN is Java's one, U+FFFD is itself and no damaged UTF-8
func EncodeJSON(s Serializer, text []byte) ([]byte, error) { return encodeJSON(s, text, false) }

// EncodeKeyJSON is [EncodeJSON] for keys, namespaces and keys of maps, which Flink finds by their bytes: a BigInteger and
// a null in a row that it writes in more than one way are refused, with an error that unwraps to [ErrUnsupported].
func EncodeKeyJSON(s Serializer, text []byte) ([]byte, error) { return encodeJSON(s, text, true) }

func encodeJSON(s Serializer, text []byte, key bool) ([]byte, error) {
	v, err := parseJSON(string(text))
	if err != nil {
		return nil, err
	}
	if err := decoded(v); err != nil {
		return nil, err
	}
	w := newEncoding(len(text), key)
	if err := w.value(s, v); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	if err := readsAs(s, w.buf, v); err != nil {
		return nil, err
	}
	return w.buf, nil
}

// readsAs fails if bytes are not read as the value.
func readsAs(s Serializer, b []byte, v any) error {
	in := NewInput(b)
	text := AppendRead(nil, s, in)
	if err := in.Finish(); err != nil {
		return fmt.Errorf("it can't be read again: %w", err)
	}
	again, err := parseJSON(string(text))
	if err == nil && !sameJSON(v, again) {
		err = fmt.Errorf("it would be read again as %.200s", text)
	}
	return err
}

// decoded fails if JSON says that it does not tell all.
func decoded(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := decoded(e); err != nil {
				return err
			}
		}
	case members:
		class, reason := "?", ""
		for _, m := range v {
			switch m.name {
			case "@class":
				class, _ = m.value.(string)
			case "@reason":
				reason, _ = m.value.(string)
			}
		}
		for _, m := range v {
			switch {
			case m.name == "@raw":
				return fmt.Errorf("a value of class %q was not decoded: %.200s: %w", class, reason, ErrUnsupported)
			case m.name == "@cut" && m.value == true:
				return fmt.Errorf("fields are missing (@cut): %w", ErrUnsupported)
			}
			if err := decoded(m.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameJSON says that values are the same, though numbers may be written otherwise, fields may be in another order, and
// those that are null may be missing.
func sameJSON(given, again any) bool {
	switch given := given.(type) {
	case json.Number:
		number, ok := again.(json.Number)
		return ok && sameNumber(string(given), string(number))
	case []any:
		list, ok := again.([]any)
		if !ok || len(list) != len(given) {
			return false
		}
		for i := range given {
			if !sameJSON(given[i], list[i]) {
				return false
			}
		}
		return true
	case members:
		all, ok := again.(members)
		if !ok {
			return false
		}
		names := make([]string, len(all))
		for i, m := range all {
			names[i] = m.name
		}
		values, err := given.named(names)
		if err != nil {
			return false
		}
		for i, v := range values {
			if v == missing {
				v = nil
			}
			if !sameJSON(v, all[i].value) {
				return false
			}
		}
		return true
	case nil, bool, string:
		return given == again
	}
	return false
}

// sameNumber compares the values of two numbers of JSON.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	negativeA, digitsA, exponentA, okA := normalNumber(a)
	negativeB, digitsB, exponentB, okB := normalNumber(b)
	return okA && okB && negativeA == negativeB && digitsA == digitsB && exponentA == exponentB
}

// normalNumber takes a number apart: 0.digits * 10^exponent, of which the digits neither begin nor end with 0.
func normalNumber(s string) (negative bool, digits string, exponent int64, ok bool) {
	s, negative = strings.CutPrefix(s, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(s), "e")
	if power != "" {
		var err error
		if exponent, err = strconv.ParseInt(power, 10, 32); err != nil {
			return false, "", 0, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = whole + fraction
	exponent += int64(len(whole))
	significant := strings.TrimLeft(digits, "0")
	exponent -= int64(len(digits) - len(significant))
	if digits = strings.TrimRight(significant, "0"); digits == "" {
		exponent = 0
	}
	return negative, digits, exponent, true
}

// encoder is a serializer that can write what JSON stands for.
type encoder interface {
	// encode writes the value that v stands for, as parseJSON gives it; the name of a
	// member of an object, where it stands for the key of a map, is a string.
	encode(w *encoding, v any) error
}

// encoding is the output of a value that is made of JSON.
type encoding struct {
	Output
	// key has what Flink writes in more than one way refused.
	key bool
	// budget is for what costs more than its JSON is long, see spend.
	budget int
	depth  int
}

func newEncoding(text int, key bool) *encoding {
	const fixed, perByte = 4096, 64
	return &encoding{key: key, budget: fixed + perByte*text}
}

func (w *encoding) value(s Serializer, v any) error {
	e, ok := s.(encoder)
	if !ok { // not of this package
		return w.opaque("a value", "its serializer only reads")
	}
	return e.encode(w, v)
}

// opaque is the error for a value of which the JSON does not tell the bytes.
func (w *encoding) opaque(class, reason string) error {
	if class == "" {
		class = "a value of a class that is not known"
	}
	return fmt.Errorf("%s can't be written: %s: %w", class, reason, ErrUnsupported)
}

// ambiguous fails for a key that has a value which Flink writes in more than one way.
func (w *encoding) ambiguous(what string) error {
	if !w.key {
		return nil
	}
	return fmt.Errorf("%s of a key has more than one form: %w", what, ErrUnsupported)
}

// spend fails if JSON asks for far more than it is long: by fields that are missing, nulls that are padded, or
// unions whose types are alike and are tried in each other, as many times as there are paths through them.
func (w *encoding) spend(n int) error {
	if w.budget -= n; w.budget < 0 {
		return errors.New("so short a JSON text stands for too much")
	}
	return nil
}

// bigInteger is writeBigInteger for what is not null.
func (w *encoding) bigInteger(v *big.Int) error {
	writeBigInteger(&w.Output, v)
	if v.IsInt64() && (v.Int64() == 0 || v.Int64() == 1 || v.Int64() == 10) {
		return w.ambiguous(fmt.Sprintf("a BigInteger %d", v))
	}
	return nil
}

// elements writes the elements of an array after their number.
func (w *encoding) elements(v any, element func(any) error) error {
	return w.counted(v, w.Length, element)
}

func (w *encoding) counted(v any, count func(int), element func(any) error) error {
	list, ok := v.([]any)
	if !ok {
		return unexpected("an array", v)
	}
	count(len(list))
	for i, e := range list {
		if err := element(e); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// entries writes the entries of a map after their number; entry says where the key ended.
func (w *encoding) entries(v any, count func(int), entry func(key, value any) (end int, err error)) error {
	switch v := v.(type) {
	case members:
		count(len(v))
		for _, m := range v {
			if _, err := entry(m.name, m.value); err != nil {
				return fmt.Errorf("entry %.100q: %w", m.name, err)
			}
		}
		return nil
	case []any:
		count(len(v))
		seen := make(map[string]struct{}, len(v))
		for i, e := range v {
			pair, ok := e.([]any)
			if !ok || len(pair) != 2 {
				return fmt.Errorf("entry %d: %w", i, unexpected("an array of key and value", e))
			}
			start := w.Len()
			end, err := entry(pair[0], pair[1])
			if err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
			if seen[string(w.buf[start:end])] = struct{}{}; len(seen) == i {
				return fmt.Errorf("entry %d: its key comes twice", i)
			}
		}
		return nil
	}
	return unexpected("an object, or an array of keys and values", v)
}

// fields writes fields one after the other, from an object that has them all.
func (w *encoding) fields(v any, fields ...field) error {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	values, err := membersOf(v, names...)
	if err != nil {
		return err
	}
	for i, f := range fields {
		if err := w.value(f.value, values[i]); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// oneOf writes a tag, that of the first of some kinds of objects being given, and the fields of the object that has their names.
func (w *encoding) oneOf(v any, first byte, kinds [][]field) error {
	o, ok := v.(members)
	if !ok {
		return unexpected("an object", v)
	}
	for i, fields := range kinds {
		if len(fields) != len(o) {
			continue
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.name
		}
		if _, err := membersOf(v, names...); err == nil {
			w.U8(first + byte(i))
			return w.fields(v, fields...)
		}
	}
	return errors.New("an object with other fields is expected")
}

// membersOf gives the members of an object that has all of these names and no others.
func membersOf(v any, names ...string) ([]any, error) {
	o, ok := v.(members)
	if !ok {
		return nil, unexpected("an object", v)
	}
	values, err := o.named(names)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if v == missing {
			return nil, fmt.Errorf("field %q is missing", names[i])
		}
	}
	return values, nil
}

// bigIntegerOf is an integer of any size, as appendInteger shows it.
func bigIntegerOf(v any) (*big.Int, error) {
	if i, ok := hexOf(v); ok {
		return i, nil
	}
	d, err := decimalOf(v)
	if err == nil && d.Scale != 0 {
		err = unexpected("an integer", v)
	}
	return d.Unscaled, err
}

// decimalTextOf is a decimal, as appendDecimal shows it.
func decimalTextOf(v any) (Decimal, error) {
	if s, ok := v.(string); ok {
		if digits, power, ok := strings.Cut(s, "*10^"); ok {
			unscaled, ok := hexOf(digits)
			exponent, err := strconv.ParseInt(power, 10, 64)
			if scale := int32(-exponent); ok && err == nil && int64(scale) == -exponent {
				return Decimal{Unscaled: unscaled, Scale: scale}, nil
			}
		}
	}
	return decimalOf(v)
}

// hexOf is an integer too long to be shown otherwise.
func hexOf(v any) (*big.Int, bool) {
	s, _ := v.(string)
	digits, negative := strings.CutPrefix(s, "-")
	digits, ok := strings.CutPrefix(digits, "0x")
	if !ok || digits == "" || digits[0] == '-' || digits[0] == '+' || strings.Contains(digits, "_") {
		return nil, false
	}
	i, ok := new(big.Int).SetString(digits, 16)
	if ok && negative {
		i.Neg(i)
	}
	return i, ok
}
