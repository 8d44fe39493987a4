package serializer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// CheckEncodeJSON checks that what is printed of a value gives its bytes back, or is refused where it can't.
func CheckEncodeJSON(t interface {
	Helper()
	Errorf(format string, args ...any)
}, s *Snapshot, value, text []byte) {
	t.Helper()
	got, err := EncodeJSON(Of(s), text)
	switch {
	case noBytes(s, text):
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s %.300s: %x, %v", s, text, got, err)
		}
	case bytes.Contains(text, []byte(`["a",1],["a",2]`)):
		if err == nil {
			t.Errorf("%s %s: %x, which no map of Java is", s, text, got)
		}
	case err != nil:
		t.Errorf("%s %.300s: %v", s, text, err)
	case otherBytes(s, value):
		if again := AppendRead(nil, Of(s), NewInput(got)); bytes.Equal(got, value) || !bytes.Equal(again, text) {
			t.Errorf("%s %.300s: %x is %.300s", s, text, got, again)
		}
	case !bytes.Equal(got, value):
		t.Errorf("%s %.300s is\n%x, not\n%x", s, text, got, value)
	}
}

// noBytes says that JSON does not tell the bytes.
func noBytes(s *Snapshot, text []byte) bool {
	if bytes.Contains(text, []byte(`"@raw":`)) || bytes.Contains(text, []byte(`"@cut":true`)) {
		return true
	}
	switch s.String() {
	case "Variant", "java.io.Serializable":
		return true
	}
	_, kryo := s.Modern().Body.(*Kryo)
	return kryo
}

// otherBytes says that Java has another value with the same JSON, or other bytes for the same value, which is what EncodeJSON gives.
func otherBytes(s *Snapshot, value []byte) bool {
	name := s.String()
	if !strings.Contains(name, "BigInteger") && !strings.Contains(name, "BigDecimal") {
		return false
	}
	for _, digits := range []byte{0, 1, 10} { // not the constant of BigInteger
		if bytes.Contains(value, []byte{0, 0, 0, 5, digits}) {
			return true
		}
	}
	return name == "BigDecimal" && len(value) > 4 && value[len(value)-4] == 0xff // a negative scale
}

// TestEncodeJSONSamples gives back what Flink wrote of keys and of the values of Table jobs.
func TestEncodeJSONSamples(t *testing.T) {
	others := 0
	for _, s := range samples(t) {
		snapshot := s.read(t)
		CheckEncodeJSON(t, snapshot, s.raw, AppendRead(nil, Of(snapshot), NewInput(s.raw)))
		if otherBytes(snapshot, s.raw) {
			others++
		}
	}
	if others != 27 {
		t.Errorf("%d values of which the JSON stands for others, too", others)
	}
	for _, sample := range tableSamples(t) {
		s := readTableSnapshot(t, sample.Snapshot)
		for _, v := range sample.Values {
			text := AppendRead(nil, Of(s), NewInput(v.Value))
			if !strings.Contains(sample.From, "key") || !strings.Contains(string(text), "null") {
				CheckEncodeJSON(t, s, v.Value, text)
			}
			key, err := EncodeKeyJSON(Of(s), text)
			if !bytes.Equal(key, v.Value) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s %s: %x, %v", s, text, key, err)
			}
		}
	}
}

// wideRow are rows of the types of SQL, as a snapshot has them.
func wideRow(t testing.TB, names []string, types ...*logicalType) Serializer {
	t.Helper()
	return framed{&logicalType{root: rootRow, text: "ROW", names: names, children: types}}
}

func sqlType(root typeRoot, children ...*logicalType) *logicalType {
	return &logicalType{root: root, text: fmt.Sprint(root), nullable: true, children: children}
}

func avroOf(schema string) Serializer {
	return Of(&Snapshot{
		Class: formatsAvro + "AvroSerializerSnapshot", Version: 3, Body: &Avro{Class: genericRecord, Schema: schema},
	})
}

func pojoOf(fields ...Frame) Serializer {
	return Of(&Snapshot{Class: javaRuntime + "PojoSerializerSnapshot", Version: 2, Body: &Pojo{Class: "P", Fields: fields}})
}

// forms are serializers of which the tests below have JSON.
func forms(t testing.TB) map[string]Serializer {
	str, long, integer := ForString().Snapshot(), ForLong().Snapshot(), ForInt().Snapshot()
	enum := &Snapshot{Class: base + "EnumSerializer$EnumSerializerSnapshot", Version: 3, Body: &Enum{Class: "E", Constants: []string{"A", "B", "B"}}}
	wide := &Snapshot{Class: javaRuntime + "PojoSerializerSnapshot", Version: 2, Body: &Pojo{Class: "P", Fields: []Frame{PojoField("P", strings.Repeat("a", 1000), str)}}}
	decimal := sqlType(rootDecimal)
	decimal.precision, decimal.scale = 20, 2
	short := sqlType(rootDecimal)
	short.precision, short.scale = 5, 2
	stamp := sqlType(rootTimestamp)
	stamp.precision = 9
	raw := sqlType(rootRaw)
	raw.raw = Of(long)
	inner := sqlType(rootRow, sqlType(rootInteger))
	inner.names = []string{"n"}
	return map[string]Serializer{
		"String": Of(str), "Long": Of(long), "Int": Of(integer), "Double": Of(ForDouble().Snapshot()), "Float": Of(ForFloat().Snapshot()),
		"Boolean": Of(ForBoolean().Snapshot()), "Char": Of(ForChar().Snapshot()), "Byte": Of(ForByte().Snapshot()), "Short": Of(ForShort().Snapshot()),
		"byte[]": Of(ForBytes().Snapshot()), "BigInteger": Of(ForBigInteger().Snapshot()), "BigDecimal": Of(ForBigDecimal().Snapshot()),
		"LocalDate": Of(ForLocalDate().Snapshot()), "LocalTime": Of(ForLocalTime().Snapshot()), "Instant": Of(ForInstant().Snapshot()),
		"Date": Of(ForDate().Snapshot()), "Timestamp": Of(ForSQLTimestamp().Snapshot()), "TimeWindow": Of(ForTimeWindow().Snapshot()),
		"VoidNamespace": Of(ForVoidNamespace().Snapshot()), "enum": Of(enum),
		"Tuple":    Of(compositeOf(javaRuntime+"TupleSerializerSnapshot", 2, ClassName("Tuple2"), str, long)),
		"List":     Of(compositeOf(base+"ListSerializerSnapshot", 1, nil, long)),
		"Set":      Of(compositeOf(base+"SetSerializerSnapshot", 1, nil, str)),
		"array":    Of(compositeOf(base+"GenericArraySerializerSnapshot", 1, ClassName("[L"), str)),
		"Map":      Of(compositeOf(base+"MapSerializerSnapshot", 1, nil, str, long)),
		"LongMap":  Of(compositeOf(base+"MapSerializerSnapshot", 1, nil, long, str)),
		"Option":   Of(compositeOf(scala+"ScalaOptionSerializerSnapshot", 2, nil, str)),
		"Either":   Of(compositeOf(scala+"ScalaEitherSerializerSnapshot", 1, nil, long, str)),
		"Try":      Of(compositeOf(scala+"ScalaTrySerializerSnapshot", 2, nil, long, kryoOf("java.lang.Throwable"))),
		"case":     Of(compositeOf(scala+"ScalaCaseClassSerializerSnapshot", 2, ClassName("C"), integer, str)),
		"TTL":      Of(compositeOf(ttlSnapshot, 2, nil, long, str)),
		"Nullable": Of(compositeOf(javaRuntime+"NullableSerializer$NullableSerializerSnapshot", 2, Number(8), long)),
		"padded":   Of(compositeOf(javaRuntime+"NullableSerializer$NullableSerializerSnapshot", 2, Number(1<<30), str)),
		"Row":      Of(compositeOf(javaRuntime+"RowSerializer$RowSerializerSnapshot", 4, Flag(true), str, long)),
		"old Row":  Of(compositeOf(javaRuntime+"RowSerializer$RowSerializerSnapshot", 2, nil, str, long)),
		"Stream":   Of(compositeOf(streaming+"runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot", 2, nil, str)),
		"POJO":     pojoOf(PojoField("P", "a", str), PojoField("P", "b", long)),
		"wide":     Of(compositeOf(base+"ListSerializerSnapshot", 1, nil, wide)),
		"Kryo":     Of(kryoOf("java.util.UUID")),
		"unknown":  Of(nil),

		"avro":       avroOf(`{"type":"record","name":"R","fields":[{"name":"u","type":["null","int","string"]},{"name":"m","type":{"type":"map","values":"long"}},{"name":"f","type":{"type":"fixed","name":"F","size":2}}]}`),
		"union":      avroOf(`["null","float","double","string",{"type":"enum","name":"E","symbols":["A"]}]`),
		"avro times": avroOf(`[{"type":"int","logicalType":"time-millis"},{"type":"long","logicalType":"timestamp-micros"}]`),
		"avro fixed": avroOf(`{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":9,"scale":2}`),
		"avro node":  avroOf(`{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}`),
		"twins": avroOf(`{"type":"record","name":"A","fields":[{"name":"n","type":["null","A",{"type":"record","name":"B","fields":[` +
			`{"name":"n","type":["null","A","B"]}]}]}]}`),

		"ROW<STRING>":        wideRow(t, nil, sqlType(rootString)),
		"ROW<DECIMAL>":       wideRow(t, nil, decimal),
		"ROW<SHORT>":         wideRow(t, nil, short),
		"ROW<TIMESTAMP>":     wideRow(t, nil, stamp),
		"ROW<ARRAY>":         wideRow(t, nil, sqlType(rootArray, sqlType(rootSmallInt))),
		"ROW<ARRAY<STRING>>": wideRow(t, nil, sqlType(rootArray, sqlType(rootString))),
		"ROW<MAP>":           wideRow(t, nil, sqlType(rootMap, sqlType(rootString), sqlType(rootTinyInt))),
		"ROW<ROW>":           wideRow(t, nil, inner),
		"ROW<RAW>":           wideRow(t, nil, raw),
		"ROW<VARIANT>":       wideRow(t, nil, sqlType(rootVariant)),
		"ROW<DOUBLE>":        wideRow(t, nil, sqlType(rootDouble), sqlType(rootFloat)),
		"ROW<?>":             wideRow(t, nil, unknownType("?")),
		"ROW<kind>":          wideRow(t, []string{"fields", "rowKind"}, sqlType(rootInteger), sqlType(rootString)),
		"ROW<named>":         wideRow(t, []string{"a", "b"}, sqlType(rootInteger), sqlType(rootBoolean)),
	}
}

// TestEncodeJSON has bytes that were put together as FORMAT.md says. An array is as long as it is padded.
func TestEncodeJSON(t *testing.T) {
	all := forms(t)
	for _, c := range []struct{ form, text, want string }{
		{"Long", " 9007199254740993\n", "0020000000000001"},
		{"Long", "-9223372036854775808", "8000000000000000"},
		{"Double", "1", "3ff0000000000000"},
		{"Double", "10E-1", "3ff0000000000000"},
		{"Double", "-0.0", "8000000000000000"},
		{"Double", `"NaN"`, "7ff8000000000000"},
		{"Float", `"-Infinity"`, "ff800000"},
		{"Float", "16777216", "4b800000"},
		{"String", `"\u0041\ud83d\ude00"`, "04 41 bdb003 80bc03"},
		{"String", `"😀"`, "03 bdb003 80bc03"},
		{"String", `"\udc00\ud800"`, "03 80b803 80b003"},
		{"String", `"\ud800\u0041"`, "03 80b003 41"},
		{"String", `"\b\f\/"`, "04 08 0c 2f"},
		{"Char", `"\ud800"`, "d800"},
		{"Char", `"é"`, "00e9"},
		{"BigInteger", "10", "00000003"},
		{"BigDecimal", `"-0.10"`, "00000005 f6 00000002"},
		{"BigDecimal", `"100"`, "00000005 64 00000000"},
		{"BigDecimal", `"-1E-2147483647"`, "00000005 ff 7fffffff"},
		{"BigDecimal", `"2E+2147483648"`, "00000005 02 80000000"},
		{"Timestamp", `"1970-01-01T00:00:01.001000002Z"`, "00000000000003e9 000f4242"},
		{"VoidNamespace", `"VoidNamespace"`, "00"},
		{"enum", `"A"`, "00000000"},
		{"Map", `{"b":1, "a":null}`, "00000002 0262 00 0000000000000001 0261 01"},
		{"Map", `{}`, "00000000"},
		{"Map", `[[null,2]]`, "00000001 00 00 0000000000000002"},
		{"LongMap", `{"-1":"x"}`, "00000001 ffffffffffffffff 00 0278"},
		{"Option", `null`, "00"},
		{"Option", `"a"`, "01 0261"},
		{"Either", `{"right":null}`, "00 00"},
		{"Try", `5`, "01 0000000000000005"},
		{"case", `[1,"a"]`, "00000001 0261"},
		{"TTL", `{"lastAccess":"1970-01-01T00:00:00.013Z","value":"a"}`, "000000000000000d 0261"},
		{"Nullable", `null`, "01 0000000000000000"},
		{"Row", `{"fields":["x",null],"rowKind":"-D"}`, "d0 0278"},
		{"Stream", `{"timestamp":1}`, "02 0000000000000001"},
		{"Stream", `{"value":"a","timestamp":1}`, "00 0000000000000001 0261"},
		{"Stream", `{"value":"a"}`, "01 0261"},
		{"POJO", `{"b":1}`, "02 01 00 0000000000000001"},
		{"POJO", `{"b":null,"a":"x"}`, "02 00 0278 01"},
		{"avro", `{"u":"7","m":{"k":1},"f":"0x0102"}`, "00000002 00000001 37 01 00000001 6b 0000000000000001 00 0102"},
		{"avro", `{"u":7,"m":{},"f":"0x0102"}`, "00000001 00000007 00 0102"},
		{"union", `0.30000000000000004`, "00000002 3fd3333333333334"},
		{"union", `"B"`, "00000003 00000001 42"},
		{"avro times", `"00:00:00.001"`, "00000000 00000001"},
		{"avro times", `"1969-12-31T23:59:59.999999Z"`, "00000001 ffffffffffffffff"},
		{"avro times", `"-290308-12-21T19:59:05.224192Z"`, "00000001 8000000000000000"},
		{"avro fixed", `"-0.01"`, "ffffffff"},
		{"avro fixed", `"1.00"`, "00000064"},
		{"ROW<STRING>", `["seven77"]`, "00000010 0000000000000000 736576656e373787"},
		{"ROW<STRING>", `["eight888"]`, "00000018 0000000000000000 08000000 10000000 6569676874383838"},
		{"ROW<STRING>", `{"rowKind":"+U","fields":[null]}`, "00000010 0201000000000000 0000000000000000"},
		{"ROW<DECIMAL>", `["1.28"]`, "00000020 0000000000000000 02000000 10000000 0080000000000000 0000000000000000"},
		{"ROW<DECIMAL>", `[null]`, "00000010 0001000000000000 0000000000000000"},
		{"ROW<SHORT>", `["-999.99"]`, "00000010 0000000000000000 6179feffffffffff"},
		{"ROW<TIMESTAMP>", `["1970-01-01T00:00:00.001000002"]`, "00000018 0000000000000000 02000000 10000000 0100000000000000"},
		{"ROW<ARRAY>", `[[1,null,-1]]`, "00000020 0000000000000000 10000000 10000000" + "03000000 02000000 0100 0000 ffff 0000"},
		{"ROW<ARRAY<STRING>>", `[["a","eight888"]]`, "00000030 0000000000000000 20000000 10000000" +
			"02000000 00000000 6100000000000081 08000000 18000000 6569676874383838"},
		{"ROW<MAP>", `[{"a":1}]`, "00000038 0000000000000000 24000000 10000000" +
			"10000000 01000000 00000000 6100000000000081 01000000 00000000 0100000000000000 00000000"},
		{"ROW<ROW>", `[{"n":-2}]`, "00000020 0000000000000000 10000000 10000000 0000000000000000 feffffff00000000"},
		{"ROW<RAW>", `[7]`, "00000018 0000000000000000 08000000 10000000 0000000000000007"},
		{"ROW<VARIANT>", `[{"value":"0x0c01","metadata":"0x010000"}]`, "00000020 0000000000000000 09000000 10000000 00000003 010000 0c01 00000000000000"},
		{"ROW<DOUBLE>", `["NaN","NaN"]`, "00000018 0000000000000000 000000000000f87f 0000c07f00000000"},
		{"ROW<?>", `[null]`, "00000010 0001000000000000 0000000000000000"},
		{"ROW<named>", `{"b":true,"a":1}`, "00000018 0000000000000000 0100000000000000 0100000000000000"},
	} {
		got, err := EncodeJSON(all[c.form], []byte(c.text))
		if want := strings.ReplaceAll(c.want, " ", ""); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%s %s: %x, %v; want %s", c.form, c.text, got, err, want)
		}
	}
}

// TestEncodeJSONRefused has JSON that is none, that stands for no value of the type, or for which no bytes can be given.
func TestEncodeJSONRefused(t *testing.T) {
	all := forms(t)
	deep := strings.Repeat("[", 200_000)
	for _, c := range []struct{ form, text, want string }{
		{"Long", "", "it ends"}, {"Long", "1 2", "more than one"}, {"Long", "01", "more than one"}, {"Long", "+1", "a value"}, {"Long", "-", "digit"},
		{"Long", "1.0", ""}, {"Long", "1e3", ""}, {"Long", "9223372036854775808", "range"}, {"Int", "2147483648", "range"}, {"Short", "-32769", "range"},
		{"Byte", "128", "range"}, {"Long", `"1"`, "read again as 1"}, {"Long", "null", "null"}, {"Long", "-0", "read again as 0"}, {"Long", "[1]", "array"},
		{"Double", "1e400", "range"}, {"Double", "1e-400", "read again as 0"}, {"Double", "0.1000000000000000055511151231257827", "read again as 0.1"}, {"Float", "16777217", "read again as 16777216"},
		{"Double", `"nan"`, "NaN"}, {"Double", `"1"`, "read again"}, {"Double", "1.", "digit"}, {"Double", "1e", "digit"}, {"Double", "NaN", "a value"},
		{"Boolean", `"true"`, "read again"}, {"Boolean", "1", "true or false"}, {"Boolean", "tru", "a value"},
		{"String", "\"\xff\"", "UTF-8"}, {"String", "\"\xed\xa0\x80\"", "UTF-8"}, {"String", `"\x"`, "escape"}, {"String", `"\u12"`, "escape"}, {"String", `"\u+123"`, "escape"},
		{"String", "\"\n\"", "control"}, {"String", `"a`, "quote"}, {"String", "7", "string"}, {"String", `{"a":1,"a":2}`, "twice"}, {"String", `{"a" 1}`, "colon"}, {"String", `[1 2]`, "comma"}, {"String", `{"a":1 "b"}`, "comma"}, {"String", `{1:2}`, "a name"}, {"String", `"\`, "escape"},
		{"Char", `"ab"`, "one character"}, {"Char", `"😀"`, "one character"}, {"Char", `""`, "one character"}, {"byte[]", `"00"`, "0x"}, {"byte[]", `"0x0"`, ""}, {"byte[]", `"0xAB"`, "read again"},
		{"BigInteger", "1.5", "integer"}, {"BigInteger", "1e3", "integer"}, {"BigInteger", `"0x10"`, "read again as 16"}, {"BigDecimal", "1.5", "read again"}, {"BigDecimal", `"1E+5"`, "read again as \"100000\""},
		{"LocalDate", `"2023-02-29"`, "date"}, {"LocalTime", `"12:34"`, "read again"}, {"Instant", `"2023-11-14T22:13:20"`, "point in time"}, {"Date", `"1970-01-01T00:00:00.0001Z"`, "milliseconds"},
		{"Date", `"+999999999-12-31T23:59:59Z"`, "read again"}, {"TimeWindow", `{"start":1}`, "missing"}, {"TimeWindow", `{"start":1,"end":2,"x":3}`, `no field "x"`}, {"VoidNamespace", "null", "VoidNamespace"},
		{"enum", `"C"`, "constant"}, {"enum", "0", "constant"}, {"Tuple", `["a"]`, "array of 2"}, {"Tuple", `["a",null]`, "field 1"}, {"List", "[1,null]", "element 1"}, {"List", "{}", "array"},
		{"Map", `[["a",1]]`, "read again"}, {"Map", `[["a"]]`, "key and value"}, {"Map", `[[null,1],[null,2]]`, "twice"}, {"Map", "7", "object"}, {"LongMap", `{"1.0":null}`, "entry"}, {"LongMap", `{"01":null}`, "read again"},
		{"Either", `{"left":1,"right":"a"}`, ""}, {"Either", `{}`, "missing"}, {"TTL", `{"value":"a"}`, "missing"}, {"TTL", `{"value":"a","lastAccess":13}`, "point in time"},
		{"Row", `{"rowKind":"+X","fields":["x",null]}`, "row kind"}, {"Row", `["x"]`, "array of 2"}, {"old Row", `{"rowKind":"-D","fields":["x",null]}`, "no row kind"}, {"Row", `{"rowKind":"+I","fields":["x",1]}`, "read again"},
		{"Stream", `{"time":1}`, "other fields"}, {"POJO", `{"a":"x"}`, "primitive"}, {"POJO", `{"b":1,"c":2}`, `no field "c"`}, {"POJO", "[]", "object"}, {"POJO", `{"@class":"Q","b":1}`, "no subclass"}, {"POJO", `{"@class":7,"b":1}`, "string"},
		{"avro", `{"u":1,"m":{}}`, "missing"}, {"avro", `{"u":true,"m":{},"f":"0x0000"}`, "union"}, {"avro", `{"u":1,"m":{},"f":"0x00"}`, "2 bytes"}, {"avro fixed", `"99999999999.00"`, "4 bytes"}, {"avro fixed", `"1.0"`, "decimal places"},
		{"avro times", `"00:00:00.0001"`, "union"}, {"avro times", `"+999999999-01-01T00:00:00Z"`, "64 bits"},
		{"avro node", strings.Repeat(`{"n":`, 1500) + "null" + strings.Repeat("}", 1500), "1000 deep"}, {"List", deep, "deep"},
		{"twins", strings.Repeat(`{"n":`, 60) + "null" + strings.Repeat("}", 60), "too much"}, {"padded", "null", "too much"}, {"wide", "[" + strings.Repeat("{},", 100) + "{}]", "too much"},
		{"ROW<STRING>", `["a","b"]`, "array of 1"}, {"ROW<STRING>", `{"f0":"a"}`, "array of 1"}, {"ROW<SHORT>", `["1.0"]`, "read again"}, {"ROW<SHORT>", `["1.001"]`, "decimal places"}, {"ROW<SHORT>", `["1000.00"]`, "digits"},
		{"ROW<ARRAY>", `[[40000]]`, "range"}, {"ROW<MAP>", `[{"a":300}]`, "range"}, {"ROW<MAP>", `[[[null,1],[null,1]]]`, "twice"}, {"ROW<named>", `{"a":1}`, "missing"}, {"ROW<named>", `[1,true]`, "read again"},
	} {
		got, err := EncodeJSON(all[c.form], []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.100s: %x, %v; want %s", c.form, c.text, got, err, c.want)
		}
	}
	for _, c := range []struct{ form, text, want string }{
		{"Kryo", `"a"`, "java.util.UUID"}, {"Kryo", `{"@class":"java.util.UUID","@raw":"0x01","@reason":"written by Kryo"}`, "java.util.UUID"}, {"unknown", "1", "no serializer"},
		{"List", `[{"@class":"A","@raw":"0x","@reason":"why"}]`, "why"}, {"POJO", `{"a":"x","@cut":true}`, "@cut"}, {"enum", `"B"`, "more than one constant"}, {"Try", `{"exception":1}`, "Kryo"},
		{"union", `"A"`, "2 of its types"}, {"union", "0.1", "2 of its types"}, {"ROW<?>", "[1]", "SQL type"},
		{"ROW<kind>", `{"fields":1,"rowKind":"-D"}`, "like that of a row with its kind"},
	} {
		got, err := EncodeJSON(all[c.form], []byte(c.text))
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.100s: %x, %v; want %s", c.form, c.text, got, err, c.want)
		}
	}
	// Keys of more than one form.
	for _, c := range []struct{ form, text string }{
		{"BigInteger", "0"}, {"BigInteger", "10"}, {"BigDecimal", `"0.1"`}, {"ROW<DECIMAL>", "[null]"}, {"ROW<TIMESTAMP>", "[null]"}, {"ROW<?>", "[null]"},
	} {
		if got, err := EncodeKeyJSON(all[c.form], []byte(c.text)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s %s: %x, %v", c.form, c.text, got, err)
		}
	}
	if got, err := EncodeKeyJSON(all["BigInteger"], []byte("11")); err != nil || hex.EncodeToString(got) != "000000050b" {
		t.Errorf("%x, %v", got, err)
	}
}

// TestEncodeLongNumbers has numbers that are too long to be shown with all their digits.
func TestEncodeLongNumbers(t *testing.T) {
	all := forms(t)
	digits := bytes.Repeat([]byte{0x12}, maxDigits)
	for form, raw := range map[string][]byte{
		"BigInteger": append([]byte{0, 1, 0, 4}, digits...),
		"BigDecimal": append(append([]byte{0, 1, 0, 4}, append([]byte{0x81}, digits[1:]...)...), 0xff, 0xff, 0xff, 0xfe),
	} {
		text := AppendRead(nil, all[form], NewInput(raw))
		if got, err := EncodeJSON(all[form], text); err != nil || !bytes.Equal(got, raw) || !strings.Contains(string(text), "0x") {
			t.Errorf("%s %.50s: %.50x, %v", form, text, got, err)
		}
	}
}

// TestParseJSON accepts what encoding/json does, but for names that come twice.
func TestParseJSON(t *testing.T) {
	piece := rapid.SampledFrom([]string{"{", "}", "[", "]", ",", ":", `"a"`, `"b"`, `"\ud83d\ude00"`, `"\n"`, "1", "-0", "0.5", "1e5", "true", "null", " ", "01", `"`, `\`, "e", "-"})
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces"), "")
		v, err := parseJSON(text)
		if valid := json.Valid([]byte(text)); valid != (err == nil) && (err == nil || !strings.Contains(err.Error(), "twice")) {
			t.Fatalf("%s: %v, %v; valid: %v", text, v, err, valid)
		}
		if err == nil {
			accepted++
			if !sameJSON(v, v) {
				t.Fatalf("%s is not what it is", text)
			}
		}
	})
	if accepted == 0 {
		t.Error("none was JSON")
	}
}
