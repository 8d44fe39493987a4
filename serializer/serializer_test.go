package serializer_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

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

func row(fields ...*serializer.Snapshot) *serializer.Snapshot {
	return composite(runtime+"RowSerializer$RowSerializerSnapshot", 4, serializer.Flag(true), fields...)
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
		{nullable(4, of("Int")), "00 00000001", `1`},
		{nullable(4, of("Int")), "01 00000000", `null`},
	} {
		testValue(t, c.s, fromHex(t, c.bytes), c.json)
	}
}

// testValue checks that Read, Skip and AppendRead consume all of the bytes and agree.
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
	if !json.Valid(got) {
		t.Errorf("%s %x: not JSON: %s", snapshot, value, got)
	}
	in.Reset(value)
	if direct := serializer.AppendRead(nil, s, in); string(direct) != string(got) || in.Err() != nil || in.Remaining() != 0 {
		t.Errorf("%s %x: straight to JSON: %s, want %s; %v, %d bytes left", snapshot, value, direct, got, in.Err(), in.Remaining())
	}
	in.Reset(value)
	if s.Skip(in); in.Err() != nil || in.Remaining() != 0 {
		t.Errorf("%s %x: skipped: %v, %d bytes left", snapshot, value, in.Err(), in.Remaining())
	}
	if s.Len() > 0 && s.Len() != len(value) {
		t.Errorf("%s %x: %d bytes, but its length is %d", snapshot, value, len(value), s.Len())
	}
}
