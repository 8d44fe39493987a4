package serializer_test

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/serializer"
)

// kind is a type of values: its snapshot, and a generator that appends the
// bytes of a value as Flink writes them and gives what reading must give.
type kind struct {
	snapshot *serializer.Snapshot
	value    func(t *rapid.T, out *serializer.Output) any
}

// scalarKinds are written here as Flink's classes write them, not by the package.
var scalarKinds = []kind{
	{of("Long"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.Int64().Draw(t, "long")
		out.I64(v)
		return v
	}},
	{of("Int"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.Int32().Draw(t, "int")
		out.I32(v)
		return v
	}},
	{of("Boolean"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.Bool().Draw(t, "boolean")
		out.Bool(v)
		return v
	}},
	{of("Double"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.Float64().Draw(t, "double")
		out.I64(int64(math.Float64bits(v)))
		return v
	}},
	{of("Float"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.Float32().Draw(t, "float")
		out.I32(int32(math.Float32bits(v)))
		return v
	}},
	{of("Char"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.Uint16().Draw(t, "char")
		out.U16(v)
		return serializer.Char(v)
	}},
	{of("String"), func(t *rapid.T, out *serializer.Output) any {
		if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
			out.U8(0)
			return nil
		}
		v := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~\x00]*`)).Draw(t, "string")
		units := utf16.Encode([]rune(v))
		out.Uvarint(uint32(len(units) + 1))
		for _, u := range units {
			out.Uvarint(uint32(u))
		}
		return v
	}},
	{of("BigDec"), func(t *rapid.T, out *serializer.Output) any {
		b := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "unscaled")
		scale := rapid.Int32Range(-50, 50).Draw(t, "scale")
		out.I32(int32(len(b)) + 4)
		out.Raw(b)
		out.I32(scale)
		v := new(big.Int).SetBytes(b)
		if b[0]&0x80 != 0 {
			v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return serializer.Decimal{Unscaled: v, Scale: scale}
	}},
	{basic(windows + "TimeWindow$Serializer$TimeWindowSerializerSnapshot"), func(t *rapid.T, out *serializer.Output) any {
		v := serializer.Window{Start: rapid.Int64().Draw(t, "start"), End: rapid.Int64().Draw(t, "end")}
		out.I64(v.Start)
		out.I64(v.End)
		return v
	}},
	{basic(arrays + "BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"), func(t *rapid.T, out *serializer.Output) any {
		v := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		out.I32(int32(len(v)))
		out.Raw(v)
		return append([]byte{}, v...)
	}},
}

// anyKind draws a type, nested at most so deep.
func anyKind(t *rapid.T, depth int) kind {
	if depth == 0 || rapid.Bool().Draw(t, "scalar") {
		return rapid.SampledFrom(scalarKinds).Draw(t, "kind")
	}
	size := rapid.IntRange(0, 4)
	switch rapid.IntRange(0, 7).Draw(t, "composite") {
	case 0:
		element := anyKind(t, depth-1)
		return kind{listOf(element.snapshot), func(t *rapid.T, out *serializer.Output) any {
			v := make([]any, size.Draw(t, "size"))
			out.I32(int32(len(v)))
			for i := range v {
				v[i] = element.value(t, out)
			}
			return v
		}}
	case 1:
		key, value := anyKind(t, depth-1), anyKind(t, depth-1)
		return kind{mapOf(key.snapshot, value.snapshot), func(t *rapid.T, out *serializer.Output) any {
			v := make(serializer.Map, size.Draw(t, "size"))
			out.I32(int32(len(v)))
			for i := range v {
				v[i].Key = key.value(t, out)
				v[i].Value = optional(t, out, true, value)
			}
			return v
		}}
	case 2:
		fields := anyKinds(t, depth)
		return kind{tupleOf("TupleN", snapshots(fields)...), func(t *rapid.T, out *serializer.Output) any {
			v := make([]any, len(fields))
			for i, f := range fields {
				v[i] = f.value(t, out)
			}
			return v
		}}
	case 3:
		fields := anyKinds(t, depth)
		return kind{row(snapshots(fields)...), func(t *rapid.T, out *serializer.Output) any { return rowValue(t, out, fields) }}
	case 4:
		fields := anyKinds(t, depth)
		pojo := &serializer.Pojo{Class: "com.example.Order"}
		for i, f := range fields {
			pojo.Fields = append(pojo.Fields, serializer.PojoField("com.example.Order", fmt.Sprint("field", i), f.snapshot))
		}
		return kind{&serializer.Snapshot{Class: runtime + "PojoSerializerSnapshot", Version: 2, Body: pojo}, func(t *rapid.T, out *serializer.Output) any {
			v := &serializer.Record{Class: pojo.Class, Fields: []serializer.Field{}}
			out.U8(2)
			for i, f := range fields {
				v.Fields = append(v.Fields, serializer.Field{Name: fmt.Sprint("field", i), Value: optional(t, out, true, f)})
			}
			return v
		}}
	case 5:
		value := anyKind(t, depth-1)
		return kind{ttl(value.snapshot), func(t *rapid.T, out *serializer.Output) any {
			last := rapid.Int64().Draw(t, "last access")
			out.I64(last)
			return serializer.TTL{LastAccess: last, Value: value.value(t, out)}
		}}
	case 6:
		value := anyKind(t, depth-1)
		return kind{nullable(0, value.snapshot), func(t *rapid.T, out *serializer.Output) any { return optional(t, out, true, value) }}
	default:
		value := anyKind(t, depth-1)
		array := composite(base+"GenericArraySerializerSnapshot", 1, serializer.ClassName("java.lang.Object"), value.snapshot)
		return kind{array, func(t *rapid.T, out *serializer.Output) any {
			v := make([]any, size.Draw(t, "size"))
			out.I32(int32(len(v)))
			for i := range v {
				v[i] = optional(t, out, false, value)
			}
			return v
		}}
	}
}

func anyKinds(t *rapid.T, depth int) []kind {
	kinds := make([]kind, rapid.IntRange(0, 12).Draw(t, "fields"))
	for i := range kinds {
		kinds[i] = anyKind(t, depth-1)
	}
	return kinds
}

func snapshots(kinds []kind) []*serializer.Snapshot {
	list := make([]*serializer.Snapshot, len(kinds))
	for i, k := range kinds {
		list[i] = k.snapshot
	}
	return list
}

// optional writes a flag, which for a null is null, and the value unless it is null.
func optional(t *rapid.T, out *serializer.Output, null bool, k kind) any {
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		out.Bool(null)
		return nil
	}
	out.Bool(!null)
	return k.value(t, out)
}

func rowValue(t *rapid.T, out *serializer.Output, fields []kind) any {
	number := rapid.IntRange(0, 3).Draw(t, "row kind")
	bits := fmt.Sprint(number%2, number/2)
	bits = strings.ReplaceAll(bits, " ", "")
	for range fields {
		bits += rapid.SampledFrom([]string{"0", "1"}).Draw(t, "null")
	}
	padded := bits + "0000000"
	for i := 0; i+8 <= len(padded); i += 8 {
		var b byte
		for _, c := range padded[i : i+8] {
			b = b<<1 | byte(c-'0')
		}
		out.U8(b)
	}
	v := &serializer.Record{Kind: []string{"+I", "-U", "+U", "-D"}[number], Fields: []serializer.Field{}}
	for i, f := range fields {
		var value any
		if bits[2+i] == '0' {
			value = f.value(t, out)
		}
		v.Fields = append(v.Fields, serializer.Field{Value: value})
	}
	return v
}

// testEncode checks that JSON gives the bytes, or, where Java has several of them, others that are read as the same.
func testEncode(t *rapid.T, s serializer.Serializer, snapshot, value, text []byte) {
	got, err := serializer.EncodeJSON(s, text)
	if err != nil && bytes.Contains(snapshot, []byte("MapSerializer")) && strings.Contains(err.Error(), "key comes twice") {
		return
	}
	// Of two nulls in each other the outer one is meant; digits and scales of decimals that are drawn are not all as Java has them.
	several := bytes.Contains(text, []byte("null")) || bytes.Contains(snapshot, []byte("BigDecSerializer"))
	if err != nil || !several && !bytes.Equal(got, value) {
		t.Fatalf("%s is %x, %v; not %x", text, got, err, value)
	}
	testJSON(t, s, got, text)
}

// TestProperties draws types and values: snapshots are read and written again
// byte for byte, values are read as they were, the three ways to read a value
// consume the same, and the two ways to JSON give the same.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := anyKind(t, 3)
		var raw serializer.Output
		if k.snapshot.Write(&raw); raw.Err() != nil {
			t.Fatal(raw.Err())
		}
		in := serializer.NewInput(raw.Bytes())
		snapshot := serializer.ReadSnapshot(in)
		if snapshot == nil || in.Remaining() != 0 {
			t.Fatalf("%v, %d bytes left", in.Err(), in.Remaining())
		}
		var again serializer.Output
		if snapshot.Write(&again); !bytes.Equal(again.Bytes(), raw.Bytes()) {
			t.Fatalf("%x, read and written it is %x", raw.Bytes(), again.Bytes())
		}
		if a, b := snapshot.String(), k.snapshot.String(); a != b {
			t.Fatalf("named %s and %s", a, b)
		}

		var value serializer.Output
		want := k.value(t, &value)
		s := serializer.Of(snapshot)
		for name, in := range map[string]*serializer.Input{
			"slice":  serializer.NewInput(value.Bytes()),
			"stream": serializer.NewStreamInput(bytes.NewReader(value.Bytes()), 0),
			"crumbs": serializer.NewStreamInput(iotest.OneByteReader(bytes.NewReader(value.Bytes())), 0),
		} {
			got := s.Read(in)
			if in.Err() != nil || !in.AtEnd() {
				t.Fatalf("%s of %s: %v at %d of %d", name, snapshot, in.Err(), in.Offset(), value.Len())
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s of %s: %#v, not %#v", name, snapshot, got, want)
			}
		}
		text := serializer.AppendJSON(nil, want)
		testJSON(t, s, value.Bytes(), text)

		testEncode(t, s, raw.Bytes(), value.Bytes(), text)

		// Every shorter input is refused, by an error and never a panic.
		cut := rapid.IntRange(0, max(0, value.Len()-1)).Draw(t, "cut")
		for _, read := range []func(*serializer.Input){s.Skip, func(in *serializer.Input) { s.Read(in) }} {
			in := serializer.NewInput(value.Bytes()[:cut])
			if read(in); value.Len() > 0 && in.Err() == nil {
				t.Fatalf("%s: %d of %d bytes are enough", snapshot, cut, value.Len())
			}
		}
	})
}
