package tools

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/drey-state/drey/serializer"
)

// The truth files have values as the JSON that the programs which made them
// print, see Truth.java and Reader.java. What drey decodes is brought to that
// form here, by the type of the Go value and never by the name of a case.

// notation is how a truth file prints what JSON has no type for.
type notation struct {
	// avro prints records as Avro's toString does: no class, bytes as Latin-1.
	avro bool
	// timeMillis prints a time of day as milliseconds, as TIME of Table jobs is stored.
	timeMillis bool
}

// notationOf is the notation for a key, namespace or value of a type.
func notationOf(typeName string) notation {
	return notation{
		avro:       strings.Contains(typeName, "Avro("),
		timeMillis: strings.HasPrefix(typeName, "ROW<") && strings.Contains(typeName, "TIME("),
	}
}

// tree is a decoded value as JSON: nil, bool, json.Number, string, []any or map[string]any.
func (n notation) tree(v any) any {
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case int8, int16, int32, int64:
		return json.Number(fmt.Sprint(v))
	case float32:
		return floatTree(float64(v), 32)
	case float64:
		return floatTree(v, 64)
	case serializer.Char:
		return string(utf16.Decode([]uint16{uint16(v)}))
	case *big.Int:
		return v.String()
	case serializer.Decimal:
		return decimalText(v)
	case serializer.Date:
		return dateText(v)
	case serializer.Time:
		if n.timeMillis {
			return json.Number(strconv.FormatInt((int64(v.Hour)*3600+int64(v.Minute)*60+int64(v.Second))*1000+int64(v.Nano)/1e6, 10))
		}
		return timeText(v)
	case serializer.DateTime:
		return dateText(v.Date) + "T" + timeText(v.Time)
	case serializer.Instant:
		return instantText(v)
	case serializer.Window:
		return fmt.Sprintf("%d..%d", v.Start, v.End)
	case serializer.Unit:
		return string(v)
	case []byte:
		if n.avro {
			return latin1(v)
		}
		return "0x" + hex.EncodeToString(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = n.tree(e)
		}
		return list
	case serializer.Map:
		m := map[string]any{}
		for _, e := range v {
			m[n.text(e.Key)] = n.tree(e.Value)
		}
		return m
	case serializer.Either:
		return map[string]any{side(v): n.tree(v.Value)}
	case serializer.TTL:
		return map[string]any{"lastAccess": json.Number(strconv.FormatInt(v.LastAccess, 10)), "value": n.tree(v.Value)}
	case *serializer.Record:
		return n.record(v)
	case serializer.Opaque:
		return "opaque " + v.Class + " " + hex.EncodeToString(v.Raw)
	}
	panic(fmt.Sprintf("a value of type %T is not in the table of value.go", v))
}

func side(e serializer.Either) string {
	if e.Left {
		return "left"
	}
	return "right"
}

func (n notation) record(r *serializer.Record) any {
	if r.Class == "" {
		fields := make([]any, len(r.Fields))
		for i, f := range r.Fields {
			fields[i] = n.tree(f.Value)
		}
		if r.Kind == "" || r.Kind == "+I" {
			return fields
		}
		return map[string]any{"rowKind": r.Kind, "fields": fields}
	}
	m := map[string]any{}
	if !n.avro {
		m["class"] = r.Class
	}
	for _, f := range r.Fields {
		m[f.Name] = n.tree(f.Value)
	}
	return m
}

// text is a value as the key of a JSON object, in the form that normText gives to the truth's.
func (n notation) text(v any) string {
	t := n.tree(v)
	if s, ok := t.(string); ok {
		return normText(s)
	}
	return canon(t)
}

// normText brings the key of a JSON object to one form: keys that are no
// strings stand there as compact JSON.
func normText(s string) string {
	if v, ok := parseJSON(s); ok {
		return canon(v)
	}
	return normTime(s)
}

// parseJSON reads text that is one JSON value.
func parseJSON(s string) (any, bool) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.InputOffset() != int64(len(s)) {
		return nil, false
	}
	return v, true
}

// canon is a JSON tree as text that is the same for equal values.
func canon(v any) string {
	switch v := v.(type) {
	case json.Number:
		return normNumber(string(v))
	case string:
		return strconv.Quote(normTime(v))
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = canon(e)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		if v["rowKind"] == "+I" && len(v) == 2 {
			return canon(v["fields"])
		}
		parts := make([]string, 0, len(v))
		class, isObject := v["class"].(string)
		for k, e := range v {
			if isObject && implied(class, k, e) {
				continue
			}
			if isObject && k == "class" {
				e = simpleName(class)
			}
			parts = append(parts, strconv.Quote(normText(k))+":"+canon(e))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return fmt.Sprint(v)
}

// simpleName is the name of a class without its package and the classes
// around it: the truth has those of Flink's own classes, drey does not.
func simpleName(class string) string { return class[strings.LastIndexAny(class, ".$")+1:] }

// implied says that a field of an object in the truth is none of the file's,
// or says no more than others do.
func implied(class, field string, value any) bool {
	switch simpleName(class) {
	case "StreamRecord":
		return field == "hasTimestamp" && value == true // there is a timestamp
	case "TaggedUnion":
		return value == nil // the half that is not set
	case "NFAState":
		return value == false // flags of the running job
	}
	return false
}

// normNumber keeps integers as they are and writes floats in one way.
func normNumber(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		return s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	return floatText(f, 64)
}

func floatTree(f float64, bits int) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return floatText(f, bits)
	}
	return json.Number(floatText(f, bits))
}

// floatText is Float.toString or Double.toString.
func floatText(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.Replace(strconv.FormatFloat(f, 'f', -1, 64), "Inf", "Infinity", 1)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-3 || a >= 1e7) {
		mantissa, exp, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, bits), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		e, _ := strconv.Atoi(exp)
		return mantissa + "E" + strconv.Itoa(e)
	}
	s := strconv.FormatFloat(f, 'f', -1, bits)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// decimalText is BigDecimal.toString.
func decimalText(d serializer.Decimal) string {
	digits := new(big.Int).Abs(d.Unscaled).String()
	sign := ""
	if d.Unscaled.Sign() < 0 {
		sign = "-"
	}
	exp := len(digits) - 1 - int(d.Scale)
	if d.Scale < 0 || exp < -6 {
		if len(digits) > 1 {
			digits = digits[:1] + "." + digits[1:]
		}
		if exp == 0 {
			return sign + digits
		}
		return fmt.Sprintf("%s%sE%+d", sign, digits, exp)
	}
	if d.Scale == 0 {
		return sign + digits
	}
	if missing := int(d.Scale) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	at := len(digits) - int(d.Scale)
	return sign + digits[:at] + "." + digits[at:]
}

// dateText is LocalDate.toString.
func dateText(d serializer.Date) string {
	year := fmt.Sprintf("%04d", d.Year)
	switch {
	case d.Year > 9999:
		year = "+" + year
	case d.Year < 0:
		year = fmt.Sprintf("-%04d", -int64(d.Year))
	}
	return fmt.Sprintf("%s-%02d-%02d", year, d.Month, d.Day)
}

// timeText is LocalTime.toString.
func timeText(t serializer.Time) string {
	s := fmt.Sprintf("%02d:%02d", t.Hour, t.Minute)
	if t.Second != 0 || t.Nano != 0 {
		s += fmt.Sprintf(":%02d", t.Second) + nanoText(t.Nano)
	}
	return s
}

// nanoText has three, six or nine digits, or none.
func nanoText(n int32) string {
	switch {
	case n == 0:
		return ""
	case n%1e6 == 0:
		return fmt.Sprintf(".%03d", n/1e6)
	case n%1e3 == 0:
		return fmt.Sprintf(".%06d", n/1e3)
	}
	return fmt.Sprintf(".%09d", n)
}

// instantText is Instant.toString.
func instantText(i serializer.Instant) string {
	day, sec := i.Second/86400, i.Second%86400
	if sec < 0 {
		day, sec = day-1, sec+86400
	}
	return fmt.Sprintf("%sT%02d:%02d:%02d%sZ", dateText(civil(day)), sec/3600, sec/60%60, sec%60, nanoText(i.Nano))
}

// civil is the date of a day counted from 1970-01-01 (Howard Hinnant's days-to-civil).
func civil(day int64) serializer.Date {
	z := day + 719468
	era := z / 146097
	if z < 0 {
		era = (z - 146096) / 146097
	}
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	month := mp + 3
	if month > 12 {
		month -= 12
	}
	year := yoe + era*400
	if month <= 2 {
		year++
	}
	return serializer.Date{Year: int32(year), Month: uint8(month), Day: uint8(doy - (153*mp+2)/5 + 1)}
}

var timePattern = regexp.MustCompile(`^([+-]?\d{4,}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?Z?$`)

// normTime gives points in time one spelling: that of java.sql.Timestamp,
// Instant and LocalDateTime differ in separator, zone and omitted zeros.
func normTime(s string) string {
	m := timePattern.FindStringSubmatch(s)
	if m == nil {
		return s
	}
	seconds, nanos := m[3], m[4]
	if seconds == "" {
		seconds = "00"
	}
	return m[1] + "T" + m[2] + ":" + seconds + "." + nanos + strings.Repeat("0", 9-len(nanos))
}

func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// javaString is toString of a value that a truth file prints as one string:
// tuples in parentheses, an Either as Left or Right.
func javaString(v any) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = javaString(e)
		}
		return "(" + strings.Join(parts, ",") + ")"
	case serializer.Either:
		if v.Left {
			return "Left(" + javaString(v.Value) + ")"
		}
		return "Right(" + javaString(v.Value) + ")"
	}
	switch t := (notation{}).tree(v).(type) {
	case string:
		return t
	case json.Number:
		return string(t)
	default:
		return fmt.Sprint(t)
	}
}
