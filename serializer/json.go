package serializer

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends a value as JSON, which is always valid UTF-8:
//
//   - integers and BigInteger as numbers, as are floats; "NaN", "Infinity" and "-Infinity"
//   - Decimal as a string in plain notation that keeps its scale, such as "1.50"
//   - strings and Char as strings; a lone surrogate as its escape
//   - bytes as "0x" and hexadecimal digits
//   - "2024-02-29", "12:34:56.789", "2024-02-29T12:34:56.789", "2023-11-14T22:13:20.060Z"
//     for Date, Time, DateTime and Instant; years outside of 0 to 9999 as Java prints them
//   - Window as {"start":1000,"end":2000}, in milliseconds; Unit as its name
//   - lists as arrays; a Map as an object if the JSON of all keys is text, numbers or
//     booleans and no two are the same, otherwise as an array of [key, value]
//   - a Record with names as an object, which begins with "@class" if it is of a
//     subclass and ends with "@cut":true if fields are missing; without names as an array.
//     With a Kind other than "+I", or without names and cut, it is
//     {"rowKind":"-D","fields":...,"@cut":true}
//   - Either as {"left":v} or {"right":v}, TTL as {"value":v,"lastAccess":"2026-01-31T00:00:00Z"},
//     Timer as {"timestamp":ms,"key":k,"namespace":n}
//   - Opaque as {"@class":"...","@raw":"0x...","@reason":"..."}
//
// A number of more than 65536 digits is a string: hexadecimal, or with an exponent.
// A value of any other type is the string that package fmt makes of it.
func AppendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int8:
		return strconv.AppendInt(dst, int64(v), 10)
	case int16:
		return strconv.AppendInt(dst, int64(v), 10)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case float64:
		return appendFloat(dst, v, 64)
	case string:
		return appendQuoted(dst, v)
	case []byte:
		return appendHex(dst, v)
	case *big.Int:
		return appendInteger(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, e)
		}
		return append(dst, ']')
	case Map:
		return appendMap(dst, v)
	case *Record:
		return appendRecord(dst, v)
	case Unit:
		return appendQuoted(dst, string(v))
	case Char:
		return append(appendCharacterJSON(append(dst, '"'), rune(v)), '"')
	case Decimal:
		return append(appendDecimal(append(dst, '"'), v), '"')
	case Date:
		return append(appendDate(append(dst, '"'), v), '"')
	case Time:
		return append(appendTime(append(dst, '"'), v), '"')
	case DateTime:
		return append(appendTime(append(appendDate(append(dst, '"'), v.Date), 'T'), v.Time), '"')
	case Instant:
		return append(appendInstant(append(dst, '"'), v), '"')
	case Window:
		dst = strconv.AppendInt(append(dst, `{"start":`...), v.Start, 10)
		dst = strconv.AppendInt(append(dst, `,"end":`...), v.End, 10)
		return append(dst, '}')
	case Either:
		side := `{"right":`
		if v.Left {
			side = `{"left":`
		}
		return append(AppendJSON(append(dst, side...), v.Value), '}')
	case TTL:
		dst = AppendJSON(append(dst, `{"value":`...), v.Value)
		return appendLastAccess(dst, v.LastAccess)
	case Timer:
		dst = strconv.AppendInt(append(dst, `{"timestamp":`...), v.Timestamp, 10)
		dst = AppendJSON(append(dst, `,"key":`...), v.Key)
		dst = AppendJSON(append(dst, `,"namespace":`...), v.Namespace)
		return append(dst, '}')
	case Opaque:
		dst = appendQuoted(append(dst, `{"@class":`...), v.Class)
		dst = appendHex(append(dst, `,"@raw":`...), v.Raw)
		dst = appendQuoted(append(dst, `,"@reason":`...), v.Reason)
		return append(dst, '}')
	}
	return appendQuoted(dst, fmt.Sprint(v))
}

// Text is a value as a key in a CSV cell or on a command line: strings as they are, everything else as its JSON.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(AppendJSON(nil, v))
}

// appendLastAccess ends the JSON of a TTL.
func appendLastAccess(dst []byte, ms int64) []byte {
	dst = appendInstant(append(dst, `,"lastAccess":"`...), millis(ms))
	return append(dst, `"}`...)
}

func appendMap(dst []byte, m Map) []byte {
	start := len(dst)
	var keys keySet
	dst = append(dst, '{')
	for i, e := range m {
		if i > 0 {
			dst = append(dst, ',')
		}
		from := len(dst)
		var ok bool
		if dst, ok = appendedKey(AppendJSON(dst, e.Key), from); !ok || !keys.add(dst, from) {
			return appendPairs(dst[:start], m)
		}
		dst = AppendJSON(append(dst, ':'), e.Value)
	}
	return append(dst, '}')
}

func appendPairs(dst []byte, m Map) []byte {
	dst = append(dst, '[')
	for i, e := range m {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendJSON(append(dst, '['), e.Key), ',')
		dst = append(AppendJSON(dst, e.Value), ']')
	}
	return append(dst, ']')
}

// appendedKey makes the value that begins at from a key: text is one, numbers
// and booleans get quotes, nothing else can be one.
func appendedKey(dst []byte, from int) ([]byte, bool) {
	switch dst[from] {
	case '"':
		return dst, true
	case '{', '[', 'n':
		return dst, false
	}
	dst = append(dst, 0, '"')
	copy(dst[from+1:], dst[from:len(dst)-2])
	dst[from] = '"'
	return dst, true
}

// keySet says whether the keys of an object differ. It remembers where they
// are in the output; most maps are small.
type keySet struct {
	places [16][2]int
	n      int
	texts  map[string]struct{}
}

// add adds the key from there to the end of dst; false if it was there before.
func (k *keySet) add(dst []byte, from int) bool {
	key := dst[from:]
	if k.texts == nil {
		for _, p := range k.places[:k.n] {
			if string(dst[p[0]:p[1]]) == string(key) {
				return false
			}
		}
		if k.n < len(k.places) {
			k.places[k.n] = [2]int{from, len(dst)}
			k.n++
			return true
		}
		k.texts = make(map[string]struct{})
		for _, p := range k.places {
			k.texts[string(dst[p[0]:p[1]])] = struct{}{}
		}
	}
	if _, ok := k.texts[string(key)]; ok {
		return false
	}
	k.texts[string(key)] = struct{}{}
	return true
}

func appendRecord(dst []byte, r *Record) []byte {
	wrapped := r.wrapped()
	if wrapped {
		dst = appendRowStart(dst, r.Kind)
	}
	if r.named() {
		o := objectJSON{dst: append(dst, '{')}
		if r.Subclass {
			o.class(r.Class)
		}
		for _, f := range r.Fields {
			o.name(f.Name)
			o.dst = AppendJSON(o.dst, f.Value)
		}
		dst = o.end(r.Cut)
	} else {
		dst = append(dst, '[')
		for i, f := range r.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, f.Value)
		}
		dst = append(dst, ']')
	}
	if wrapped {
		dst = appendRowEnd(dst, r.Cut && !r.named())
	}
	return dst
}

// named says that the record is shown as an object.
func (r *Record) named() bool {
	return r.Class != "" || len(r.Fields) > 0 && r.Fields[0].Name != ""
}

// wrapped says that there is more to show than the fields.
func (r *Record) wrapped() bool {
	return r.Kind != "" && r.Kind != rowKinds[0] || r.Cut && !r.named()
}

func appendRowStart(dst []byte, kind string) []byte {
	dst = append(dst, '{')
	if kind != "" && kind != rowKinds[0] {
		dst = append(appendQuoted(append(dst, `"rowKind":`...), kind), ',')
	}
	return append(dst, `"fields":`...)
}

func appendRowEnd(dst []byte, cut bool) []byte {
	if cut {
		dst = append(dst, `,"@cut":true`...)
	}
	return append(dst, '}')
}

// objectJSON appends the members of an object.
type objectJSON struct {
	dst []byte
	any bool
}

func (o *objectJSON) name(name string) {
	if o.any {
		o.dst = append(o.dst, ',')
	}
	o.any = true
	o.dst = append(appendQuoted(o.dst, name), ':')
}

func (o *objectJSON) class(class string) {
	o.name("@class")
	o.dst = appendQuoted(o.dst, class)
}

func (o *objectJSON) end(cut bool) []byte {
	if cut {
		o.name("@cut")
		o.dst = append(o.dst, "true"...)
	}
	return append(o.dst, '}')
}

func appendQuoted(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends what stands between the quotes of a JSON string.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf && c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		r, n := decodeCharacter(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r >= utf8.RuneSelf && !isSurrogate(r) && (r != utf8.RuneError || n > 1) {
			i += n
			continue
		}
		dst = appendCharacterJSON(append(dst, s[from:i]...), r)
		i += n
		from = i
	}
	return append(dst, s[from:]...)
}

// appendCharacterJSON appends a character of a JSON string.
func appendCharacterJSON(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r < ' ' || isSurrogate(r):
		return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

func appendHex(dst, b []byte) []byte {
	dst = append(dst, `"0x`...)
	return append(hex.AppendEncode(dst, b), '"')
}

// maxDigits bounds the digits that a number is written out with, since a
// scale of four bytes may ask for thousands of millions of zeros, and long
// numbers take time that grows faster than they do.
const maxDigits = 1 << 16

func appendInteger(dst []byte, v *big.Int) []byte {
	if v.BitLen() > 3*maxDigits {
		return fmt.Appendf(dst, `"%#x"`, v)
	}
	return v.Append(dst, 10)
}

// appendDecimal appends what BigDecimal.toPlainString gives, or with an
// exponent if that has too many zeros.
func appendDecimal(dst []byte, d Decimal) []byte {
	switch {
	case d.Unscaled == nil:
		return append(dst, '0')
	case d.Unscaled.BitLen() > 3*maxDigits:
		return fmt.Appendf(dst, "%#x*10^%d", d.Unscaled, -int64(d.Scale))
	case d.Scale > maxDigits || d.Scale < -maxDigits:
		return fmt.Appendf(dst, "%dE%+d", d.Unscaled, -int64(d.Scale))
	}
	start := len(dst)
	dst = d.Unscaled.Append(dst, 10)
	scale := int(d.Scale)
	if scale <= 0 {
		if d.Unscaled.Sign() == 0 {
			return dst
		}
		return appendZeros(dst, -scale)
	}
	if dst[start] == '-' {
		start++
	}
	if digits := len(dst) - start; digits <= scale {
		zeros := scale + 1 - digits // one of them before the point
		dst = appendZeros(dst, zeros)
		copy(dst[start+zeros:], dst[start:])
		for i := range zeros {
			dst[start+i] = '0'
		}
	}
	dst = append(dst, 0)
	point := len(dst) - 1 - scale
	copy(dst[point+1:], dst[point:])
	dst[point] = '.'
	return dst
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}

// appendPadded appends a number of at least width digits.
func appendPadded(dst []byte, v int64, width int) []byte {
	for limit := int64(10); width > 1 && v >= limit; width-- {
		limit *= 10
	}
	return strconv.AppendInt(appendZeros(dst, width-1), v, 10)
}

func appendDate(dst []byte, d Date) []byte {
	year := int64(d.Year)
	switch {
	case year < 0:
		dst = append(dst, '-')
		year = -year
	case year > 9999:
		dst = append(dst, '+')
	}
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, int64(d.Month), 2), '-')
	return appendPadded(dst, int64(d.Day), 2)
}

func appendTime(dst []byte, t Time) []byte {
	dst = append(appendPadded(dst, int64(t.Hour), 2), ':')
	dst = append(appendPadded(dst, int64(t.Minute), 2), ':')
	dst = appendPadded(dst, int64(t.Second), 2)
	switch {
	case t.Nano == 0:
		return dst
	case t.Nano%1_000_000 == 0:
		return appendPadded(append(dst, '.'), int64(t.Nano/1_000_000), 3)
	case t.Nano%1000 == 0:
		return appendPadded(append(dst, '.'), int64(t.Nano/1000), 6)
	}
	return appendPadded(append(dst, '.'), int64(t.Nano), 9)
}

func appendInstant(dst []byte, i Instant) []byte {
	at := i.utc()
	return append(appendTime(append(appendDate(dst, at.Date), 'T'), at.Time), 'Z')
}
