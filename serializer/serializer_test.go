package serializer_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drey-state/drey/serializer"
)

const (
	base     = "org.apache.flink.api.common.typeutils.base."
	arrays   = base + "array."
	runtime  = "org.apache.flink.api.java.typeutils.runtime."
	states   = "org.apache.flink.runtime.state."
	windows  = "org.apache.flink.streaming.api.windowing.windows."
	operator = "org.apache.flink.streaming.api.operators."
)

// basic is the snapshot of a serializer without configuration.
func basic(class string) *serializer.Snapshot {
	return &serializer.Snapshot{Class: class, Version: 3}
}

// of is the snapshot of a class of the package base.
func of(name string) *serializer.Snapshot {
	return basic(base + name + "Serializer$" + name + "SerializerSnapshot")
}

func composite(class string, version int32, outer serializer.Body, nested ...*serializer.Snapshot) *serializer.Snapshot {
	return &serializer.Snapshot{Class: class, Version: 3, Body: &serializer.Composite{
		OuterVersion: version, Outer: outer, Nested: nested,
	}}
}

func listOf(s *serializer.Snapshot) *serializer.Snapshot {
	return composite(base+"ListSerializerSnapshot", 1, nil, s)
}

func mapOf(k, v *serializer.Snapshot) *serializer.Snapshot {
	return composite(base+"MapSerializerSnapshot", 1, nil, k, v)
}

func tupleOf(class string, fields ...*serializer.Snapshot) *serializer.Snapshot {
	return composite(runtime+"TupleSerializerSnapshot", 2, serializer.ClassName("org.apache.flink.api.java.tuple."+class), fields...)
}

var (
	void   = basic(states + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot")
	window = basic(windows + "TimeWindow$Serializer$TimeWindowSerializerSnapshot")
	order  = &serializer.Snapshot{Class: runtime + "PojoSerializerSnapshot", Version: 2, Body: &serializer.Pojo{
		Class: "Ser$Order",
		Fields: []serializer.Frame{
			serializer.PojoField("Ser$Base", "a", of("Int")),
			serializer.PojoField("Ser$Order", "boxed", of("Long")),
			serializer.PojoField("Ser$Order", "color", &serializer.Snapshot{
				Class: base + "EnumSerializer$EnumSerializerSnapshot", Version: 3,
				Body: &serializer.Enum{Class: "Ser$Color", Constants: []string{"RED", "GREEN"}},
			}),
			serializer.PojoField("Ser$Order", "name", of("String")),
		},
		Registered: []serializer.Frame{{Name: "Ser$Registered", Key: []byte{}, Snapshot: sub("Ser$Registered")}},
		Others:     []serializer.Frame{{Name: "Ser$Sub", Key: []byte{}, Snapshot: sub("Ser$Sub")}},
	}}
	avroG = avro("org.apache.avro.generic.GenericRecord", `{"type":"record","name":"G","namespace":"sqlfix.avro","fields":[`+
		`{"name":"id","type":"long"},{"name":"name","type":"string"},{"name":"opt","type":["null","int","string"],"default":null},`+
		`{"name":"color","type":{"type":"enum","name":"C","symbols":["RED","GREEN"]}},{"name":"tags","type":{"type":"array","items":"string"}},`+
		`{"name":"props","type":{"type":"map","values":"double"}},{"name":"raw","type":"bytes"},{"name":"fix","type":{"type":"fixed","name":"F4","size":4}},`+
		`{"name":"inner","type":{"type":"record","name":"I","fields":[{"name":"f","type":"float"},{"name":"b","type":"boolean"}]}},`+
		`{"name":"day","type":{"type":"int","logicalType":"date"}}]}`)
)

func sub(class string) *serializer.Snapshot {
	return &serializer.Snapshot{Class: runtime + "PojoSerializerSnapshot", Version: 2, Body: &serializer.Pojo{
		Class: class, Fields: []serializer.Frame{serializer.PojoField("Ser$Base", "a", of("Int"))},
	}}
}

func avro(class, schema string) *serializer.Snapshot {
	return &serializer.Snapshot{
		Class: "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", Version: 3,
		Body: &serializer.Avro{Class: class, Schema: schema},
	}
}

func timer(key, namespace *serializer.Snapshot) *serializer.Snapshot {
	return composite(operator+"TimerSerializerSnapshot", 2, nil, key, namespace)
}

func ttl(s *serializer.Snapshot) *serializer.Snapshot {
	return composite(states+"ttl.TtlStateFactory$TtlSerializerSnapshot", 2, nil, of("Long"), s)
}

func either(left, right *serializer.Snapshot) *serializer.Snapshot {
	return composite(runtime+"JavaEitherSerializerSnapshot", 1, nil, left, right)
}

func rowOf(version int32, outer serializer.Body, fields ...*serializer.Snapshot) *serializer.Snapshot {
	return composite(runtime+"RowSerializer$RowSerializerSnapshot", version, outer, fields...)
}

func row(fields ...*serializer.Snapshot) *serializer.Snapshot {
	return rowOf(4, serializer.Flag(true), fields...)
}

func nullable(padding int32, s *serializer.Snapshot) *serializer.Snapshot {
	return composite(runtime+"NullableSerializer$NullableSerializerSnapshot", 2, serializer.Number(padding), s)
}

func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestValues decodes bytes that Flink's classes wrote.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		s     *serializer.Snapshot
		bytes string
		json  string
	}{
		{of("String"), "02 e9 01", `"é"`},
		{of("String"), "03 e5cb01 acce01", `"日本"`},
		{of("String"), "03 bdb003 80bc03", `"😀"`},
		{of("String"), "00", `null`},
		{of("String"), "01", `""`},
		{of("BigInt"), "00000001", `0`},
		{of("BigInt"), "00000002", `1`},
		{of("BigInt"), "00000003", `10`},
		{of("BigInt"), "00000005 ff", `-1`},
		{of("BigInt"), "00000006 0080", `128`},
		{of("BigInt"), "00000011 018ee90ff6c373e0ee4e3f0ad2", `123456789012345678901234567890`},
		{of("BigDec"), "00000006 0096 00000002", `"1.50"`},
		{of("BigDec"), "00000005 ff fffffffb", `"-100000"`},
		{of("BigDec"), "00000001 00000000", `"0"`},
		{of("LocalDate"), "000007e8 02 1d", `"2024-02-29"`},
		{of("LocalDate"), "fffffffb 01 01", `"-0005-01-01"`},
		{of("SqlTimestamp"), "00000000000003e9 000f4240", `"1970-01-01T00:00:01.001Z"`},
		{mapOf(of("String"), of("Long")), "00000002 0261 00 0000000000000001 0262 01", `{"a":1,"b":null}`},
		{composite(base+"SetSerializerSnapshot", 1, nil, of("String")), "00000002 00 0261 01", `["a",null]`},
		{composite(base+"GenericArraySerializerSnapshot", 1, serializer.ClassName("java.lang.Long"), of("Long")), "00000002 01 0000000000000001 00", `[1,null]`},
		{row(of("String"), of("Int")), "00 0261 00000001", `["a",1]`},
		{row(of("String"), of("Int")), "20 00000002", `[null,2]`},
		{row(of("String"), of("Int")), "d0 0278", `{"rowKind":"-D","fields":["x",null]}`},
		{listOf(tupleOf("Tuple2", of("String"), of("Double"))), "00000001 0261 3ff8000000000000", `[["a",1.5]]`},
		{of("BigDec"), "00000000", `null`},
		{of("BigDec"), "00000005 ff 00000003", `"-0.001"`},
		{of("LocalDate"), "80000000 8000", `null`},
		{of("LocalTime"), "0c 22 38 2f072f40", `"12:34:56.789"`},
		{of("LocalDateTime"), "000007e8 02 1d 0c 22 38 2f072f40", `"2024-02-29T12:34:56.789"`},
		{of("LocalDateTime"), "80000000 8000 80 8000 80000000", `null`},
		{of("Instant"), "000000006553f100 03938700", `"2023-11-14T22:13:20.060Z"`},
		{of("Instant"), "8000000000000000 80000000", `null`},
		{of("Date"), "0000018bcfe5683c", `"2023-11-14T22:13:20.060Z"`},
		{of("Date"), "8000000000000000", `null`},
		{of("Date"), "ffffffffffffffff", `"1969-12-31T23:59:59.999Z"`},
		{of("SqlTimestamp"), "8000000000000000 00000000", `null`},
		{of("Char"), "0022", `"\""`},
		{of("Char"), "d800", `"\ud800"`},
		{of("Float"), "3dcccccd", `0.1`},
		{of("Double"), "7ff8000000000000", `"NaN"`},
		{of("Double"), "8000000000000000", `-0`},
		{of("Double"), "fff0000000000000", `"-Infinity"`},
		{of("Void"), "00", `null`},
		{basic(states + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"), "00", `"VoidNamespace"`},
		{basic(windows + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"), "00", `"GlobalWindow"`},
		{basic(arrays + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"), "00000002 00ff", `"0x00ff"`},
		{basic(arrays + "ShortPrimitiveArraySerializer$ShortPrimitiveArraySerializerSnapshot"), "00000002 0001 ffff", `[1,-1]`},
		{basic(arrays + "StringArraySerializer$StringArraySerializerSnapshot"), "00000002 0261 00", `["a",null]`},
		{basic(runtime + "Tuple0SerializerSnapshot"), "2a", `[]`},
		{timer(of("String"), void), "8000000000000005 026b 00", `{"timestamp":5,"key":"k","namespace":"VoidNamespace"}`},
		{timer(of("String"), void), "7ffffffffffffffb 026b 00", `{"timestamp":-5,"key":"k","namespace":"VoidNamespace"}`},
		{timer(of("Long"), window), "80000000000007cf 0000000000000007 00000000000003e8 00000000000007d0", `{"timestamp":1999,"key":7,"namespace":{"start":1000,"end":2000}}`},
		{ttl(of("Long")), "0000018bcfe5683c 000000000000004d", `{"value":77,"lastAccess":"2023-11-14T22:13:20.060Z"}`},
		{mapOf(of("Long"), listOf(of("Int"))), "00000002 0000000000000001 00 00000001 00000007 0000000000000002 01", `{"1":[7],"2":null}`},
		{mapOf(tupleOf("Tuple1", of("Int")), of("Int")), "00000001 00000001 00 00000002", `[[[1],2]]`},
		{mapOf(of("String"), of("Int")), "00000002 0261 00 00000001 0261 00 00000002", `[["a",1],["a",2]]`},
		{mapOf(of("String"), of("Int")), "00000001 00 00 00000001", `[[null,1]]`},
		{either(of("Int"), of("String")), "01 00000007", `{"left":7}`},
		{either(of("Int"), of("String")), "00 0261", `{"right":"a"}`},
		{order, "02 00 00000007 01 00 00000001 00 026e", `{"a":7,"boxed":null,"color":"GREEN","name":"n"}`},
		{order, "01", `null`},
		{order, "04 0007 53657224537562 02 00 00000001", `{"@class":"Ser$Sub","a":1}`},
		{order, "08 00 02 00 00000002", `{"@class":"Ser$Registered","a":2}`},
		{rowOf(3, nil, of("String"), of("Int")), "20 00000002", `[null,2]`},
		{rowOf(2, nil, of("String"), of("Int")), "80 00000002", `[null,2]`},
		{rowOf(4, serializer.Flag(false), of("String"), of("Int")), "80 00000002", `[null,2]`},
		{avroG, // Flink 1.20.5 wrote it
			"000000037e11d669000000056ec3a93135000000000000000102000000037431350000000000010000000170401e00000000000000000000020fff0001020f417800000000004a47",
			`{"id":15000000105,"name":"né15","opt":null,"color":"GREEN","tags":["t15",""],"props":{"p":7.5},"raw":"0x0fff","fix":"0x0001020f","inner":{"f":15.5,"b":false},"day":"2022-01-23"}`},
		{of("Variant"), "00000007 00000005 0201000002 0c01 0101000161", `{"a":1}`},
		{of("Variant"), "0000000b 00000003 03 02 00 01 06 04 11 74657374 010000", `[true,"test"]`},
		{nullable(4, of("Int")), "00 00000001", `1`},
		{nullable(4, of("Int")), "01 00000000", `null`},
	} {
		testValue(t, c.s, fromHex(t, c.bytes), c.json)
	}
}

// testValue checks that Read, Skip and AppendRead consume all of the bytes and agree, and that the JSON gives them back.
func testValue(t *testing.T, snapshot *serializer.Snapshot, value []byte, want string) {
	t.Helper()
	s := serializer.Of(snapshot)
	in := serializer.NewInput(value)
	v := s.Read(in)
	if in.Err() != nil || in.Remaining() != 0 {
		t.Errorf("%s %x: %v, %d bytes left", snapshot, value, in.Err(), in.Remaining())
		return
	}
	got := serializer.AppendJSON(nil, v)
	if want != "" && string(got) != want {
		t.Errorf("%s %x is %s, want %s", snapshot, value, got, want)
	}
	testJSON(t, s, value, got)
	serializer.CheckEncodeJSON(t, snapshot, value, got)
	if s.Len() > 0 && s.Len() != len(value) {
		t.Errorf("%s %x: %d bytes, but its length is %d", snapshot, value, len(value), s.Len())
	}
}

// testJSON checks that a value is skipped and is JSON without being read, too.
func testJSON(t interface {
	Helper()
	Errorf(format string, args ...any)
}, s serializer.Serializer, value, want []byte) {
	t.Helper()
	if !json.Valid(want) || !utf8.Valid(want) {
		t.Errorf("%x: not JSON: %s", value, want)
	}
	in := serializer.NewInput(value)
	if got := serializer.AppendRead(nil, s, in); string(got) != string(want) || in.Err() != nil || in.Remaining() != 0 {
		t.Errorf("%x straight to JSON is %s, not %s; %v, %d bytes left", value, got, want, in.Err(), in.Remaining())
	}
	in.Reset(value)
	if s.Skip(in); in.Err() != nil || in.Remaining() != 0 {
		t.Errorf("%x skipped: %v, %d bytes left", value, in.Err(), in.Remaining())
	}
}

// TestOldVersions reads snapshots as older releases of Flink wrote them. The
// bytes are put together here as Flink's source says.
func TestOldVersions(t *testing.T) {
	utf := func(s string) []byte { return append([]byte{byte(len(s) >> 8), byte(len(s))}, s...) }
	long := append(utf(base+"LongSerializer$LongSerializerSnapshot"), 0, 0, 0, 3)
	nested := func(n byte) []byte { return []byte{0, 0x14, 0x57, 0xfd, 0, 0, 0, 1, 0, 0, 0, n} }
	schema := `{"type":"record","name":"A","namespace":"com.example","fields":[{"name":"a","type":"long"}]}`
	avroClass := "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
	const one = "0000000000000001"
	for _, c := range []struct {
		name, value, json string
		raw               []byte
	}{
		{"Long", one, "1", slices.Concat(utf(base+"LongSerializer$LongSerializerSnapshot"), []byte{0, 0, 0, 2}, utf(base+"LongSerializer"))},
		{"List<Long>", "00000001" + one, "[1]", slices.Concat(utf(base+"ListSerializerSnapshot"), []byte{0, 0, 0, 1}, nested(1), long)},
		{"Long[]", "00000001 01" + one, "[1]", slices.Concat(utf(base+"GenericArraySerializerSnapshot"), []byte{0, 0, 0, 2}, utf("java.lang.Long"), nested(1), long)},
		{"Either<Long, Long>", "01" + one, `{"left":1}`, slices.Concat(utf(runtime+"EitherSerializerSnapshot"), []byte{0, 0, 0, 2}, nested(2), long, long)},
		{"com.example.A", one, `{"a":1}`, slices.Concat(utf(avroClass), []byte{0, 0, 0, 1}, utf(schema))},
		{"com.example.Order", one, `{"a":1}`, slices.Concat(utf(avroClass), []byte{0, 0, 0, 2}, utf("com.example.Order"), utf(schema))},
	} {
		in := serializer.NewInput(c.raw)
		s := serializer.ReadSnapshot(in)
		if s == nil || in.Remaining() != 0 {
			t.Errorf("%s: %v, %d bytes left", c.name, in.Err(), in.Remaining())
			continue
		}
		if s.String() != c.name {
			t.Errorf("%s is named %s", c.name, s)
		}
		out := serializer.NewOutput(nil)
		if s.Write(out); !bytes.Equal(out.Bytes(), c.raw) {
			t.Errorf("%s: written again it is %x, not %x", c.name, out.Bytes(), c.raw)
		}
		testValue(t, s, fromHex(t, c.value), c.json)
	}
}

// TestHasTTL checks both classes of values with a time to live.
func TestHasTTL(t *testing.T) {
	for class, want := range map[string]bool{
		states + "ttl.TtlStateFactory$TtlSerializerSnapshot":    true,
		states + "v2.ttl.TtlStateFactory$TtlSerializerSnapshot": true,
		runtime + "JavaEitherSerializerSnapshot":                false,
	} {
		s := composite(class, 2, nil, of("Long"), of("Int"))
		if s.HasTTL() != want {
			t.Error(class)
		}
		if _, ok := serializer.Of(s).Read(serializer.NewInput(make([]byte, 12))).(serializer.TTL); ok != want {
			t.Error(class)
		}
	}
	// Flink 2 may wrap them once more.
	for _, nested := range []*serializer.Snapshot{ttl(of("Long")), of("Long")} {
		aware := &serializer.Snapshot{
			Class: states + "ttl.TtlAwareSerializerSnapshot", Version: 1,
			Body: &serializer.TTLAware{TTL: nested.HasTTL(), Nested: nested},
		}
		if aware.HasTTL() != nested.HasTTL() {
			t.Errorf("%s aware of a time to live: %t", nested, aware.HasTTL())
		}
	}
}
