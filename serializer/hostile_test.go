package serializer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	gort "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/serializer"
)

func kryo(class string) *serializer.Snapshot {
	return &serializer.Snapshot{Class: runtime + "kryo.KryoSerializerSnapshot", Version: 2, Body: &serializer.Kryo{Class: class}}
}

func written(t testing.TB, s *serializer.Snapshot) []byte {
	t.Helper()
	var out serializer.Output
	if s.Write(&out); out.Err() != nil {
		t.Fatal(out.Err())
	}
	return out.Bytes()
}

// TestUnknownClass checks that a class that is not known is named.
func TestUnknownClass(t *testing.T) {
	for _, s := range []*serializer.Snapshot{
		basic("com.example.MySnapshot"),
		{Class: base + "LongSerializer$LongSerializerSnapshot", Version: 9},
		listOf(basic("com.example.MySnapshot")),
	} {
		in := serializer.NewInput(written(t, s))
		if got := serializer.ReadSnapshot(in); got != nil || !errors.Is(in.Err(), serializer.ErrUnsupported) {
			t.Errorf("%v: %v", got, in.Err())
		}
	}
	in := serializer.NewInput(written(t, basic("com.example.MySnapshot")))
	serializer.ReadSnapshot(in)
	if !strings.Contains(in.Err().Error(), `"com.example.MySnapshot"`) {
		t.Error(in.Err())
	}
}

// TestUnknownField checks that a POJO's field whose snapshot is not known is
// kept as it is, and only costs what follows it.
func TestUnknownField(t *testing.T) {
	class := "com.example.Order"
	raw := written(t, &serializer.Snapshot{Class: runtime + "PojoSerializerSnapshot", Version: 2, Body: &serializer.Pojo{
		Class: class,
		Fields: []serializer.Frame{
			serializer.PojoField(class, "a", of("Int")),
			serializer.PojoField(class, "b", basic("com.example.MySnapshot")),
			serializer.PojoField(class, "c", of("Int")),
			{Name: "removed"},
		},
	}})
	in := serializer.NewInput(raw)
	s := serializer.ReadSnapshot(in)
	if s == nil || in.Remaining() != 0 {
		t.Fatal(in.Err())
	}
	if f := s.Body.(*serializer.Pojo).Fields; f[0].Snapshot == nil || f[1].Snapshot != nil || f[1].Value == nil || f[3].Value != nil {
		t.Errorf("%+v", f)
	}
	if again := written(t, s); !bytes.Equal(again, raw) {
		t.Errorf("written again: %x, not %x", again, raw)
	}
	testOpaque(t, serializer.Of(s), "02 00 00000001 00 abcd",
		`{"a":1,"b":{"@class":"com.example.MySnapshot","@raw":"0xabcd","@reason":"the serializer is not known"},"@cut":true}`)
	testOpaque(t, serializer.Of(s), "02 01 01 00 00000003 01", `{"a":null,"b":null,"c":3,"removed":null}`)
}

func testOpaque(t *testing.T, s serializer.Serializer, value, want string) {
	t.Helper()
	raw := fromHex(t, value)
	in := serializer.NewInput(raw)
	got := serializer.AppendJSON(nil, s.Read(in))
	if string(got) != want || in.Err() != nil || in.Remaining() != 0 || in.Lost() != strings.Contains(want, "@raw") {
		t.Errorf("%x is %s, not %s; lost %t, %v", raw, got, want, in.Lost(), in.Err())
	}
	testJSON(t, s, raw, got)
}

// TestOpaque checks what follows a value of unknown length.
func TestOpaque(t *testing.T) {
	const uuid = `{"@class":"java.util.UUID","@raw":"0xff00","@reason":"written by Kryo"}`
	k := kryo("java.util.UUID")
	for _, c := range []struct {
		s           *serializer.Snapshot
		value, want string
	}{
		{k, "ff00", uuid},
		{listOf(k), "00000003 ff00", "[" + uuid + "]"},
		{tupleOf("Tuple2", of("Int"), k), "00000007 ff00", "[7," + uuid + "]"},
		{tupleOf("Tuple2", k, of("Int")), "ff00", "[" + uuid + "]"},
		{mapOf(of("Int"), k), "00000002 00000007 00 ff00", `{"7":` + uuid + `}`},
		{mapOf(k, of("Int")), "00000002 ff00", `[[` + uuid + `,null]]`},
		{row(of("Int"), k), "00 00000007 ff00", "[7," + uuid + "]"},
		{row(k, of("Int")), "00 ff00", `{"fields":[` + uuid + `],"@cut":true}`},
		{row(k, of("Int")), "c0 ff00", `{"rowKind":"-D","fields":[` + uuid + `],"@cut":true}`},
		{ttl(k), "0000000000000000 ff00", `{"value":` + uuid + `,"lastAccess":"1970-01-01T00:00:00Z"}`},
		{nullable(0, k), "00 ff00", uuid},
		{timer(k, void), "8000000000000001 ff00", `{"timestamp":1,"key":` + uuid + `,"namespace":null}`},
		{either(k, of("Int")), "01 ff00", `{"left":` + uuid + `}`},
	} {
		testOpaque(t, serializer.Of(c.s), c.value, c.want)
		for _, read := range []func(*serializer.Input){
			serializer.Of(c.s).Skip,
			func(in *serializer.Input) { serializer.Of(c.s).Read(in) },
			func(in *serializer.Input) { serializer.AppendRead(nil, serializer.Of(c.s), in) },
		} {
			in := serializer.NewStreamInput(bytes.NewReader(fromHex(t, c.value)), 0)
			if read(in); !errors.Is(in.Err(), serializer.ErrUnsupported) || !strings.Contains(in.Err().Error(), "java.util.UUID") {
				t.Errorf("%s in a stream: %v", c.s, in.Err())
			}
		}
	}
}

// TestMismatched checks that a snapshot that contradicts its class gives opaque values.
func TestMismatched(t *testing.T) {
	for _, s := range []*serializer.Snapshot{
		nil,
		{},
		{Class: base + "ListSerializerSnapshot", Version: 3},
		composite(base+"ListSerializerSnapshot", 1, nil),
		composite(base+"MapSerializerSnapshot", 1, nil, of("Int")),
		nullable(-1, of("Int")),
		{Class: runtime + "PojoSerializerSnapshot", Version: 2},
		{Class: runtime + "kryo.KryoSerializerSnapshot", Version: 2},
		{Class: base + "EnumSerializer$EnumSerializerSnapshot", Version: 3},
		avro("com.example.Order", `{"type":`),
	} {
		if v, ok := serializer.Of(s).Read(serializer.NewInput([]byte{1, 2})).(serializer.Opaque); !ok || v.Reason == "" {
			t.Errorf("%s: %+v", s, v)
		}
	}
}

// TestHostileValues checks that what a length or a type promises costs nothing.
func TestHostileValues(t *testing.T) {
	empty := avro("A", `{"type":"record","name":"A","fields":[]}`)
	for _, c := range []struct {
		name  string
		s     *serializer.Snapshot
		value string
	}{
		{"no bytes", listOf(of("NullValue")), "7fffffff"},
		{"no bytes", listOf(tupleOf("Tuple0")), "7fffffff"},
		{"no bytes", listOf(rowOf(2, nil)), "7fffffff"},
		{"no bytes", avro("A", `{"type":"array","items":"null"}`), "ffffffff07"},
		{"no bytes", listOf(empty), "7fffffff"},
		{"no bytes", avro("A", doubling(40)), ""},
		{"count", listOf(of("Long")), "7fffffff"},
		{"count", mapOf(of("Long"), of("Long")), "7fffffff"},
		{"negative count", listOf(of("Long")), "ffffffff"},
		{"length", of("String"), "ffffffff0f 61"},
		{"length", basic(arrays + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"), "7fffffff"},
		{"length", of("BigInt"), "7fffffff"},
		{"length", of("BigInt"), "00000004"},
		{"length", of("Variant"), "7fffffff 7fffffff"},
		{"recursion", avro("A", `{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`), ""},
		{"date", of("LocalDate"), "000007e7 02 1d"},
		{"time", of("LocalTime"), "18 00 00 00000000"},
		{"nanoseconds", of("Instant"), "0000000000000000 3b9aca00"},
		{"half a null", of("LocalDateTime"), "80000000 8000 00 00 00 00000000"},
		{"long form", of("String"), "8200 61"},
		{"character", of("String"), "02 808004"},
		{"flags", order, "03"},
		{"tag", order, "08 07"},
		{"constant", order.Body.(*serializer.Pojo).Fields[2].Snapshot, "00000002"},
		{"union", avro("A", `["null","int"]`), "00000002"},
	} {
		s, raw := serializer.Of(c.s), fromHex(t, c.value)
		in := serializer.NewInput(raw)
		if s.Read(in); in.Err() == nil {
			t.Errorf("%s: %s %s is read", c.name, c.s, c.value)
		}
		in.Reset(raw)
		if text := serializer.AppendRead(nil, s, in); in.Err() == nil || !json.Valid(text) {
			t.Errorf("%s: %s %s straight to JSON: %s", c.name, c.s, c.value, text)
		}
		in.Reset(raw)
		s.Skip(in)
	}
}

// doubling is a record of two records of two records, and so on, without a byte in them.
func doubling(depth int) string {
	inner := `"null"`
	for i := range depth {
		inner = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, i, inner, i-1)
		if i == 0 {
			inner = `{"type":"record","name":"R0","fields":[]}`
		}
	}
	return inner
}

// TestHostileSnapshots checks that depth is bounded and that text that would
// not be written as it was is refused.
func TestHostileSnapshots(t *testing.T) {
	deep := of("Int")
	for range 10_000 {
		deep = listOf(deep)
	}
	for name, raw := range map[string][]byte{
		"depth":        written(t, deep),
		"count":        fromHex(t, "0000"),
		"NUL":          append([]byte{0, 1, 0}, 0, 0, 0, 3),
		"magic number": bytes.Replace(written(t, listOf(of("Int"))), []byte{0, 0x0d, 0xe7, 4}, []byte{0, 0x0d, 0xe7, 5}, 1),
		"nested count": bytes.Replace(written(t, listOf(of("Int"))), []byte{0x57, 0xfd, 0, 0, 0, 1, 0, 0, 0, 1}, []byte{0x57, 0xfd, 0, 0, 0, 1, 0x7f, 0, 0, 0}, 1),
		"flag":         bytes.Replace(written(t, row(of("Int"))), []byte{0, 0, 0, 4, 1}, []byte{0, 0, 0, 4, 2}, 1),
	} {
		in := serializer.NewInput(raw)
		if s := serializer.ReadSnapshot(in); s != nil || in.Err() == nil {
			t.Errorf("%s: %v", name, in.Err())
		}
	}
}

// TestSurrogates checks that half a pair survives, and that JSON is still valid.
func TestSurrogates(t *testing.T) {
	for value, want := range map[string]string{
		"02 80b003":               `"\ud800"`,
		"03 80b003 61":            `"\ud800a"`,
		"03 80b803 80b003":        `"\udc00\ud800"`,
		"04 80b003 bdb003 80bc03": `"\ud800😀"`,
		"05 0a 09 0d 00":          `"\n\t\r\u0000"`,
	} {
		raw := fromHex(t, value)
		testValue(t, of("String"), raw, want)
		s, ok := serializer.NewInput(raw).FlinkString()
		if out := serializer.NewOutput(nil); !ok {
			t.Error(value)
		} else if out.FlinkString(s); !bytes.Equal(out.Bytes(), raw) {
			t.Errorf("%x, read and written it is %x", raw, out.Bytes())
		}
	}
	out := serializer.NewOutput(nil)
	if out.FlinkString("a\xff"); out.Err() == nil {
		t.Error("bytes that are no UTF-8 are written")
	}
	if got := string(serializer.AppendJSON(nil, "a\xff\xed\xa0\x80")); got != `"a�\ud800"` {
		t.Error(got)
	}
}

// TestEmptyValues checks that values without a byte are no reason to stop a
// stream that has bytes between them.
func TestEmptyValues(t *testing.T) {
	empty := serializer.Of(avro("A", `{"type":"record","name":"A","fields":[]}`))
	const n = 200_000
	in := serializer.NewStreamInput(bytes.NewReader(make([]byte, n)), 1<<40)
	for range n {
		in.U8()
		empty.Read(in)
	}
	if in.Err() != nil || !in.AtEnd() {
		t.Error(in.Err())
	}
}

// TestErrors checks that an error says what it was that could not be read.
func TestErrors(t *testing.T) {
	s := mapOf(of("String"), listOf(row(of("Int"), order)))
	value := fromHex(t, "00000001 0261 00 00000002 00 00000001 01 00 00000002 02 00 00000007 01 00 00000005 00 026e")
	in := serializer.NewInput(value)
	if serializer.Of(s).Read(in); in.Err() == nil || in.Err().Error() != "offset 30: [0][1][1].color.Ser$Color: corrupt: no constant 5" {
		t.Error(in.Err())
	}
	in.Reset(value[:26])
	if serializer.AppendRead(nil, serializer.Of(s), in); in.Err() == nil || in.Err().Error() != "offset 24: [0][1][1].a.bytes: file ends at byte 26 of at least 28" {
		t.Error(in.Err())
	}
	in.Reset(written(t, s)[:900])
	if serializer.ReadSnapshot(in); in.Err() == nil || !strings.HasPrefix(in.Err().Error(), "offset ") || !strings.Contains(in.Err().Error(), "MapSerializerSnapshot.ListSerializerSnapshot.RowSerializer$RowSerializerSnapshot.") {
		t.Error(in.Err())
	}
}

// TestNestedCounts reads lists in lists that each claim to be huge: what they
// claim is not added up.
func TestNestedCounts(t *testing.T) {
	deep := of("Byte")
	var value []byte
	for range 50 {
		deep = listOf(deep)
		value = append(value, 0x7f, 0xff, 0xff, 0xff)
	}
	s := serializer.Of(deep)
	value = append(value, make([]byte, 1<<20)...)
	var before, after gort.MemStats
	gort.ReadMemStats(&before)
	if in := serializer.NewInput(value); s.Read(in) == nil || !errors.Is(in.Err(), serializer.ErrTruncated) {
		t.Error(in.Err())
	}
	gort.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 128<<20 {
		t.Errorf("%d MiB for %d bytes", taken>>20, len(value))
	}
}

// TestWideName names a tuple of more fields than any has: its name takes time
// by its length.
func TestWideName(t *testing.T) {
	const n = 1 << 19
	s := tupleOf("Tuple2", slices.Repeat([]*serializer.Snapshot{of("Long")}, n)...)
	if got, want := s.String(), "Tuple2<"+strings.Repeat("Long, ", n-1)+"Long>"; got != want {
		t.Errorf("%d bytes instead of %d", len(got), len(want))
	}
}

// TestNegativeTake takes less than no bytes, which must not go back in the input.
func TestNegativeTake(t *testing.T) {
	for name, in := range map[string]*serializer.Input{
		"slice":  serializer.NewInput([]byte{1, 2, 3}),
		"stream": serializer.NewStreamInput(bytes.NewReader([]byte{1, 2, 3}), 0),
	} {
		in.U8()
		if b := in.Take(-2); b != nil || !errors.Is(in.Err(), serializer.ErrCorrupt) {
			t.Errorf("%s: %x, %v", name, b, in.Err())
		}
	}
}
