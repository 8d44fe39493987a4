package serializer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// Java objects as Java writes them, but for handles: each class is described anew.
type (
	// object has the fields of its classes, superclasses first.
	object struct{ parts []objectPart }

	objectPart struct {
		class   string
		fields  []objectField
		written []any // by writeObject; nil if there is no such method
	}

	objectField struct {
		name  string
		value any
	}

	objects    []any // an array of TypeSerializer
	className  string
	enumValue  struct{ class, constant string }
	block      []byte
	handle     int32 // of what was written before
	anything   []any // an array of Object
	javaString string
)

// javaObject makes an object of a class, whose fields are pairs of a name and a value.
func javaObject(class string, fields ...any) *object { return (&object{}).extend(class, fields...) }

func (o *object) extend(class string, fields ...any) *object {
	p := objectPart{class: class}
	for i := 0; i < len(fields); i += 2 {
		p.fields = append(p.fields, objectField{fields[i].(string), fields[i+1]})
	}
	return &object{append(o.parts, p)}
}

func (o *object) writes(written ...any) *object {
	o.parts[len(o.parts)-1].written = written
	return o
}

type javaWriter struct{ serializer.Output }

func javaStream(v any) []byte {
	w := &javaWriter{}
	w.Raw([]byte{0xAC, 0xED, 0, 5})
	w.content(v)
	return w.Bytes()
}

func (w *javaWriter) content(v any) {
	switch v := v.(type) {
	case nil:
		w.U8(0x70)
	case *object:
		w.U8(0x73)
		w.describe(v.parts)
		for _, p := range v.parts {
			w.part(p)
		}
	case objects:
		w.U8(0x75)
		w.class("[Lorg.apache.flink.api.common.typeutils.TypeSerializer;", 2)
		w.I32(int32(len(v)))
		for _, e := range v {
			w.content(e)
		}
	case anything:
		w.U8(0x75)
		w.class("[Ljava.lang.Object;", 2)
		w.I32(int32(len(v)))
		for _, e := range v {
			w.content(e)
		}
	case handle:
		w.U8(0x71)
		w.I32(0x7E0000 + int32(v))
	case []enumValue:
		w.U8(0x75)
		w.class("["+"L"+v[0].class+";", 2)
		w.I32(int32(len(v)))
		for _, e := range v {
			w.content(e)
		}
	case []byte:
		w.U8(0x75)
		w.class("[B", 2)
		w.Bytes32(v)
	case className:
		w.U8(0x76)
		w.class(string(v), 2)
	case enumValue:
		w.U8(0x7E)
		w.class(v.class, 0x12)
		w.content(javaString(v.constant))
	case javaString:
		w.U8(0x74)
		w.UTF(string(v))
	case block:
		w.U8(0x77)
		w.U8(byte(len(v)))
		w.Raw(v)
	default:
		panic(v)
	}
}

// class describes a class without fields.
func (w *javaWriter) class(name string, flags byte) {
	w.U8(0x72)
	w.UTF(name)
	w.I64(1)
	w.U8(flags)
	w.U16(0)
	w.U8(0x78)
	w.U8(0x70)
}

func (w *javaWriter) describe(parts []objectPart) {
	if len(parts) == 0 {
		w.U8(0x70)
		return
	}
	p := parts[len(parts)-1]
	w.U8(0x72)
	w.UTF(p.class)
	w.I64(1)
	if p.written != nil {
		w.U8(3)
	} else {
		w.U8(2)
	}
	w.U16(uint16(len(p.fields)))
	for _, f := range p.fields {
		switch f.value.(type) {
		case int32:
			w.U8('I')
			w.UTF(f.name)
		default:
			w.U8('L')
			w.UTF(f.name)
			w.content(javaString("Ljava/lang/Object;"))
		}
	}
	w.U8(0x78)
	w.describe(parts[:len(parts)-1])
}

func (w *javaWriter) part(p objectPart) {
	for _, f := range p.fields {
		if n, ok := f.value.(int32); ok {
			w.I32(n)
		} else {
			w.content(f.value)
		}
	}
	if p.written == nil {
		return
	}
	for _, v := range p.written {
		w.content(v)
	}
	w.U8(0x78)
}

func utf(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}

// Serializers as Flink 1.7 and before have them: their classes and fields are
// those of Flink's source, and so are the bytes of the values.
func TestJavaSerializers(t *testing.T) {
	const (
		typeutils = "org.apache.flink.api.common.typeutils."
		streaming = "org.apache.flink.streaming."
		scala     = "org.apache.flink.api.scala.typeutils."
		cep       = "org.apache.flink.cep.nfa."
	)
	long, text, integer := javaObject(base+"LongSerializer"), javaObject(base+"StringSerializer"), javaObject(base+"IntSerializer")
	window := javaObject(windows + "TimeWindow$Serializer")
	tuple := func(class, tupleClass string, fields ...any) *object {
		return javaObject(typeutils+"TypeSerializer").
			extend(runtime+"TupleSerializerBase", "arity", int32(len(fields)), "length", int32(-2), "fieldSerializers", objects(fields), "tupleClass", className(tupleClass)).
			extend(class)
	}
	pojo := javaObject(runtime+"PojoSerializer", "numFields", int32(2), "clazz", className("com.example.P"), "executionConfig", nil,
		"fieldSerializers", objects{long, text},
		"registeredClasses", javaObject("java.util.HashMap").writes(block{0, 0, 0, 16, 0, 0, 0, 1}, className("com.example.Q"), javaObject("java.lang.Integer", "value", int32(0))),
		"registeredSerializers", objects{integer},
	).writes(block{0, 0, 0, 2}, className("com.example.Base"), block(utf("a")), className("com.example.P"), block(utf("b")))
	enum := func(values any) *object {
		return javaObject(base+"EnumSerializer", "enumClass", className("com.example.E"), "valueToOrdinal", nil, "values", values)
	}
	weekday := javaObject("scala.Enumeration").extend("com.example.Days$",
		"MON", javaObject("scala.Enumeration$Value").extend("scala.Enumeration$Val", "scala$Enumeration$Val$$i", int32(3), "name", nil),
		"TUE", javaObject("scala.Enumeration$Value").extend("scala.Enumeration$Val", "scala$Enumeration$Val$$i", int32(7), "name", javaString("Tuesday")))
	kryo := javaObject(runtime+"kryo.KryoSerializer", "type", className("com.example.K"))
	for _, c := range []struct {
		name   string
		object *object
		typ    string
		value  string // hexadecimal
		json   string
	}{
		{"long", long, "Long", "0000000000000007", "7"},
		{"byte[]", javaObject(base + "array.BytePrimitiveArraySerializer"), "byte[]", "00000002 0a0b", `"0x0a0b"`},
		{"namespace", javaObject(states + "VoidNamespaceSerializer"), "VoidNamespace", "00", `"VoidNamespace"`},
		{"window", window, "TimeWindow", "00000000000003e8 00000000000007d0", `{"start":1000,"end":2000}`},
		{"global window", javaObject(windows + "GlobalWindow$Serializer"), "GlobalWindow", "00", `"GlobalWindow"`},
		{"list", javaObject(base+"ListSerializer", "elementSerializer", long), "List<Long>", "00000001 0000000000000007", "[7]"},
		{"array list", javaObject(states+"ArrayListSerializer", "elementSerializer", long), "List<Long>", "00000001 0000000000000007", "[7]"},
		{"map", javaObject(base+"MapSerializer", "keySerializer", text, "valueSerializer", long), "Map<String, Long>", "00000001 0261 00 0000000000000007", `{"a":7}`},
		{"map of Flink 1.3", javaObject(states+"HashMapSerializer", "keySerializer", text, "valueSerializer", long), "Map<String, Long>", "00000001 0261 01", `{"a":null}`},
		{"array", javaObject(base+"GenericArraySerializer", "componentClass", className("java.lang.Long"), "componentSerializer", long), "Long[]", "00000002 01 0000000000000007 00", "[7,null]"},
		{"tuple", tuple(runtime+"TupleSerializer", "org.apache.flink.api.java.tuple.Tuple2", text, long), "Tuple2<String, Long>", "0261 0000000000000007", `["a",7]`},
		{"row", javaObject(runtime+"RowSerializer", "arity", int32(2), "fieldSerializers", objects{text, integer}), "Row<String, Integer>", "40 0261", `["a",null]`},
		{"either", javaObject(runtime+"EitherSerializer", "leftSerializer", text, "rightSerializer", long), "Either<String, Long>", "01 0261", `{"left":"a"}`},
		{"nullable", javaObject(runtime+"NullableSerializer", "originalSerializer", integer, "padding", make([]byte, 4)), "Integer", "01 00000000", "null"},
		{"pojo", pojo, "com.example.P", "02 00 0000000000000007 00 0261", `{"a":7,"b":"a"}`},
		{"pojo's subclass", pojo, "com.example.P", "08 00 00000009", "9"},
		{"enum", enum([]enumValue{{"com.example.E", "A"}, {"com.example.E", "B"}}), "com.example.E", "00000001", `"B"`},
		{"enum of Flink 1.2", enum(nil), "Integer", "00000001", "1"},
		{"value", javaObject(runtime+"CopyableValueSerializer", "valueClass", className("org.apache.flink.types.LongValue")), "org.apache.flink.types.LongValue", "0000000000000007", "7"},
		{"time to live", javaObject(typeutils+"CompositeSerializer", "fieldSerializers", objects{long, text}, "precomputed", nil).extend(states + "ttl.TtlStateFactory$TtlSerializer"), "TTL<String>", "00000000000003e8 0261", `{"value":"a","lastAccess":"1970-01-01T00:00:01Z"}`},
		{"timer", javaObject(operator+"TimerSerializer", "length", int32(24), "keySerializer", long, "namespaceSerializer", javaObject(states+"VoidNamespaceSerializer")), "Timer<Long, VoidNamespace>", "8000000000000005 0000000000000007 00", `{"timestamp":5,"key":7,"namespace":"VoidNamespace"}`},
		{"stream element", javaObject(streaming+"runtime.streamrecord.StreamElementSerializer", "typeSerializer", text), "StreamElement<String>", "01 0261", `{"value":"a"}`},
		{"union", javaObject(streaming+"api.datastream.CoGroupedStreams$UnionSerializer", "oneSerializer", text, "twoSerializer", long), "TaggedUnion<String, Long>", "02 0000000000000007", `{"two":7}`},
		{"interval join", javaObject(streaming+"api.operators.co.IntervalJoinOperator$BufferEntrySerializer", "elementSerializer", text), "BufferEntry<String>", "01 0261", `{"hasBeenJoined":true,"element":"a"}`},
		{"case class", tuple(scala+"CaseClassSerializer", "com.example.C", text, long).extend("com.example.Job$$anon$1$$anon$2"), "com.example.C<String, Long>", "0261 0000000000000007", `["a",7]`},
		{"option", javaObject(scala+"OptionSerializer", "elemSerializer", text), "Option<String>", "01 0261", `"a"`},
		{"scala's either", javaObject(scala+"EitherSerializer", "leftSerializer", text, "rightSerializer", long), "Either<String, Long>", "00 0000000000000007", `{"right":7}`},
		{"try", javaObject(scala+"TrySerializer", "elemSerializer", text, "executionConfig", nil), "Try<String>", "01 0261", `"a"`},
		{"traversable", javaObject(scala+"TraversableSerializer", "elementSerializer", text).extend("com.example.Job$$anon$3"), "Traversable<String>", "00000002 01 0261 00", `["a",null]`},
		{"scala's enum", javaObject(scala+"EnumValueSerializer", "enum", weekday), "com.example.Days$", "00000007", `"Tuesday"`},
		{"scala's enum without a name", javaObject(scala+"EnumValueSerializer", "enum", weekday), "com.example.Days$", "00000003", `"MON"`},
		{"lockable", javaObject(cep+"sharedbuffer.Lockable$LockableTypeSerializer", "elementSerializer", text), "Lockable<String>", "00000002 0261", `{"refCounter":2,"element":"a"}`},
		{"node", javaObject(cep + "sharedbuffer.NodeId$NodeIdSerializer"), "NodeId", "01 00000001 0000000000000005 0261", `{"eventId":{"id":1,"timestamp":5},"pageName":"a"}`},
		{"priority queue", javaObject("org.apache.flink.cep.operator.AbstractKeyedCEPPatternOperator$PriorityQueueSerializer", "elementSerializer", text), "List<String>", "00000001 0261", `["a"]`},
		{"kryo", kryo, "com.example.K", "01 00 636fe4", `{"@class":"com.example.K","@raw":"0x0100636fe4","@reason":"written by Kryo"}`},
		{"a boxed long by kryo", kryo, "com.example.K", "09 0e", "7"},
		{"a string by kryo", kryo, "com.example.K", "03 01 61e2", `"ab"`},
		{"null by kryo", kryo, "com.example.K", "00", "null"},
		{"of the job", javaObject("com.example.OwnSerializer"), "OwnSerializer", "0102", `{"@class":"com.example.OwnSerializer","@raw":"0x0102","@reason":"the serializer is not known"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := javaStream(c.object)
			in := serializer.NewInput(append(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(len(stream))), stream...))
			s := serializer.ReadLegacyObject(in)
			if err := in.Err(); err != nil || !in.AtEnd() {
				t.Fatalf("at %d: %v", in.Offset(), err)
			}
			if got := s.String(); got != c.typ {
				t.Errorf("type %s, want %s", got, c.typ)
			}
			value, err := hex.DecodeString(strings.ReplaceAll(c.value, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			in.Reset(value)
			if got := string(serializer.AppendRead(nil, serializer.Of(s), in)); got != c.json || in.Err() != nil || !in.AtEnd() {
				t.Errorf("value %s, want %s; %v", got, c.json, in.Err())
			}
			// Bare streams mean the same.
			in.Reset(append(stream, 0x2A))
			if bare := serializer.ReadLegacyStream(in); bare.String() != c.typ || in.Remaining() != 1 {
				t.Errorf("bare: %s, %d left, %v", bare, in.Remaining(), in.Err())
			}
			var out serializer.Output
			if s.Write(&out); !errors.Is(out.Err(), serializer.ErrUnsupported) {
				t.Errorf("a snapshot that Flink 1.2 did not have is written: %v", out.Err())
			}
		})
	}
}

// Serializers that share parts are not unfolded without end.
func TestSharedSerializers(t *testing.T) {
	// A class of one field has the handles of its description, of the field's type and of the object.
	var s any = javaObject(base + "LongSerializer")
	for level := 29; level >= 0; level-- {
		s = javaObject(base+"MapSerializer", "keySerializer", s, "valueSerializer", handle(4*level+4+3))
	}
	snapshot := serializer.ReadLegacyStream(serializer.NewInput(javaStream(s)))
	if text := snapshot.String(); len(text) > 200000 || !strings.Contains(text, "?") {
		t.Errorf("%d bytes: %.100s", len(text), text)
	}
}

// oldSnapshot is what Flink 1.7 wrote for a serializer whose snapshot was of
// the old kind: class, a version that tells it, the serializer's object, and what the class writes.
func oldSnapshot(class string, stream, config []byte) []byte {
	out := serializer.NewOutput(nil)
	out.UTF(class)
	out.I32(0x7A53C4F0)
	out.I32(1)
	out.Bytes32(stream)
	out.Raw(config)
	return out.Bytes()
}

func TestOldSnapshots(t *testing.T) {
	stream := javaStream(javaObject(base + "LongSerializer"))
	frame := func(bytes ...byte) []byte { // no serializers
		return append([]byte{0, 0, 0, 0, 0, 0, 0, byte(len(bytes))}, bytes...)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	v1, v2 := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}
	class := javaStream(className("com.example.C"))
	for name, c := range map[string]struct {
		class  string
		config []byte
	}{
		"parameterless":          {"org.apache.flink.api.common.typeutils.ParameterlessTypeSerializerConfig", join(v1, utf("x"))},
		"list":                   {base + "CollectionSerializerConfigSnapshot", join(v1, frame(1, 2))},
		"tuple":                  {runtime + "TupleSerializerConfigSnapshot", join(v1, frame(), class)},
		"array":                  {base + "GenericArraySerializerConfigSnapshot", join(v1, frame(), class)},
		"enum":                   {base + "EnumSerializer$EnumSerializerConfigSnapshot", join(v2, utf("E"), v2, utf("A"), utf("B"))},
		"enum of Flink 1.3":      {base + "EnumSerializer$EnumSerializerConfigSnapshot", join(v1, utf("E"), class)},
		"scala's enum":           {"org.apache.flink.api.scala.typeutils.EnumValueSerializer$ScalaEnumSerializerConfigSnapshot", join(v2, utf("E"), v1, utf("A"), v2)},
		"pojo":                   {runtime + "PojoSerializer$PojoSerializerConfigSnapshot", join(v1, utf("P"), v1, make([]byte, 8), make([]byte, 8), v2, []byte{7, 7})},
		"kryo":                   {runtime + "kryo.KryoSerializer$KryoSerializerConfigSnapshot", join(v1, utf("K"), v2, utf("a"), utf("a"), make([]byte, 4), utf("b"), utf("b"), v1, utf("s"))},
		"kryo with an instance":  {runtime + "kryo.KryoSerializer$KryoSerializerConfigSnapshot", join(v1, utf("K"), v1, utf("a"), utf("a"), v2, class)},
		"avro":                   {"org.apache.flink.formats.avro.typeutils.AvroSerializer$AvroSchemaSerializerConfigSnapshot", join(v1, utf("{}"))},
		"changed under its name": {base + "LongSerializer$LongSerializerSnapshot", []byte{0, 0, 0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			data := oldSnapshot(c.class, stream, c.config)
			in := serializer.NewInput(append(data, 0x2A))
			s := serializer.ReadSnapshot(in)
			if in.Err() != nil || in.Remaining() != 1 {
				t.Fatalf("%d bytes left, %v", in.Remaining(), in.Err())
			}
			if s.String() != "Long" || s.Modern().Class != base+"LongSerializer$LongSerializerSnapshot" {
				t.Errorf("%s by %s", s, s.Modern().Class)
			}
			var out serializer.Output
			if s.Write(&out); out.Err() != nil || !bytes.Equal(out.Bytes(), data) {
				t.Errorf("written as %x, %v", out.Bytes(), out.Err())
			}
			for n := range data {
				in.Reset(data[:n])
				if s := serializer.ReadSnapshot(in); s != nil || in.Err() == nil {
					t.Fatalf("cut at %d: %v", n, s)
				}
			}
		})
	}
	in := serializer.NewInput(oldSnapshot("com.example.Config", stream, v1))
	if s := serializer.ReadSnapshot(in); s != nil || !errors.Is(in.Err(), serializer.ErrUnsupported) || !strings.Contains(in.Err().Error(), "com.example.Config") {
		t.Errorf("a class of the job: %v", in.Err())
	}
}

// Serializers with their snapshots, as headers of Flink 1.3 to 1.6 have them.
func TestLegacyPairs(t *testing.T) {
	long, own := javaStream(javaObject(base+"LongSerializer")), javaStream(javaObject("com.example.OwnSerializer"))
	pair := func(stream []byte, class string) []byte {
		out := serializer.NewOutput(nil)
		out.I32(1)
		out.Bytes32(stream)
		out.I32(1)
		out.UTF(class)
		out.Raw([]byte{1, 2, 3})
		return out.Bytes()
	}
	a, b := pair(long, "com.example.Config"), pair(own, "com.example.Config")
	frame := func(offsets ...int32) []byte {
		out := serializer.NewOutput(nil)
		out.I32(int32(len(offsets) / 2))
		for _, o := range offsets {
			out.I32(o)
		}
		out.Bytes32(append(append([]byte{}, a...), b...))
		return out.Bytes()
	}
	first, second := int32(8+len(long)), int32(8+len(own))
	n := int32(len(a))
	in := serializer.NewInput(frame(0, first, n, n+second))
	pairs := serializer.ReadLegacyPairs(in)
	if in.Err() != nil || !in.AtEnd() || len(pairs) != 2 || pairs[0].String() != "Long" || pairs[1].String() != "OwnSerializer" {
		t.Fatalf("%v, %v", pairs, in.Err())
	}
	// The classes of their snapshots are not known, but where these end is.
	config := pairs[0].Body.(*serializer.Legacy)
	if pairs[0].Class != "com.example.Config" || !bytes.Equal(config.Config, []byte{1, 2, 3}) || !bytes.Equal(config.Object, long) {
		t.Errorf("snapshot %+v", pairs[0])
	}
	for _, bad := range [][]int32{{0, first, n, n + second + 1000}, {first, 0, n, n + second}, {-1, first, n, n + second}, {n, n + second, 0, first}} {
		in.Reset(frame(bad...))
		if pairs := serializer.ReadLegacyPairs(in); pairs != nil || !errors.Is(in.Err(), serializer.ErrCorrupt) && !errors.Is(in.Err(), serializer.ErrTruncated) {
			t.Errorf("offsets %v: %v, %v", bad, pairs, in.Err())
		}
	}
	// A count costs nothing by itself.
	in.Reset([]byte{0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0})
	if serializer.ReadLegacyPairs(in) != nil || !errors.Is(in.Err(), serializer.ErrTruncated) {
		t.Error(in.Err())
	}
}

// Values that are Java objects.
func TestJavaObjects(t *testing.T) {
	s := serializer.Of(&serializer.Snapshot{Class: states + "JavaSerializer$JavaSerializerSnapshot", Version: 3})
	boxed := javaObject("java.lang.Number").extend("java.lang.Integer", "value", int32(5))
	for _, c := range []struct {
		name  string
		value any
		json  string
	}{
		{"null", nil, "null"},
		{"text", javaString("a"), `"a"`},
		{"bytes", []byte{1, 2}, `"0x0102"`},
		{"enum", enumValue{"com.example.E", "A"}, `"A"`},
		{"class", className("com.example.C"), `"com.example.C"`},
		{"boxed", boxed, "5"},
		{"date", javaObject("java.util.Date").writes(block{0, 0, 0, 0, 0, 0, 3, 0xE9}), `"1970-01-01T00:00:01.001Z"`},
		{"list", javaObject("java.util.ArrayList", "size", int32(1)).writes(block{0, 0, 0, 1}, boxed), "[5]"},
		{"map", javaObject("java.util.HashMap").writes(block{0, 0, 0, 16, 0, 0, 0, 1}, javaString("k"), boxed), `{"k":5}`},
		{"fields", javaObject("com.example.Base", "a", boxed).extend("com.example.C", "b", javaString("x")), `{"a":5,"b":"x"}`},
		{"fields and what writeObject wrote", javaObject("com.example.C", "a", boxed).writes(block{7}), `{"a":5,"":"0x07"}`},
		// The class is handle 0, the type of its field 1, the object 2.
		{"itself", javaObject("com.example.C", "self", handle(2)), `{"self":{"@class":"com.example.C","@raw":"0x","@reason":"it holds itself"}}`},
		{"an exception without a cause", javaObject("java.lang.Throwable", "cause", handle(2)), `{"cause":null}`},
	} {
		in := serializer.NewInput(javaStream(c.value))
		if got := string(serializer.AppendJSON(nil, s.Read(in))); got != c.json || in.Err() != nil || !in.AtEnd() {
			t.Errorf("%s: %s, want %s; %v", c.name, got, c.json, in.Err())
		}
		in.ResetStream(bytes.NewReader(javaStream(c.value)), 0)
		if s.Skip(in); in.Err() != nil || !in.AtEnd() {
			t.Errorf("%s: of a stream: %v", c.name, in.Err())
		}
	}

	// Each array holds the next one twice: 2^100 values, if unfolded.
	var v any = anything{}
	for level := 99; level >= 0; level-- {
		v = anything{v, handle(2*level + 3)}
	}
	stream := javaStream(v)
	if got := serializer.AppendJSON(nil, s.Read(serializer.NewInput(stream))); len(got) > 200*len(stream) || !bytes.Contains(got, []byte("too many references")) {
		t.Errorf("%d bytes of JSON for %d", len(got), len(stream))
	}

	in := serializer.NewInput([]byte{0xAC, 0xED, 0, 5, 0x7F})
	if o, ok := s.Read(in).(serializer.Opaque); !ok || len(o.Raw) != 5 || o.Reason == "" || in.Err() != nil || !in.Lost() {
		t.Errorf("no object: %+v, %v", o, in.Err())
	}
	in.ResetStream(bytes.NewReader([]byte{0xAC, 0xED, 0, 5, 0x7F}), 0)
	if s.Read(in); in.Err() == nil {
		t.Error("no object in a stream is one")
	}
}

// What Kryo wrote of numbers has a length, so that nothing behind it is lost.
func TestKryoValues(t *testing.T) {
	s := serializer.Of(&serializer.Snapshot{Class: base + "ListSerializerSnapshot", Version: 3, Body: &serializer.Composite{
		OuterVersion: 1, Nested: []*serializer.Snapshot{{Class: runtime + "kryo.KryoSerializerSnapshot", Version: 2, Body: &serializer.Kryo{Class: "java.lang.Object"}}},
	}})
	value, err := hex.DecodeString("0000000a" + "00" + "0203" + "0501" + "06fe" + "090e" + "09ffffffffffffffffff" + "043fc00000" + "030182e4b8ad" + "030161e2" + "030181")
	if err != nil {
		t.Fatal(err)
	}
	want := `[null,-2,true,-2,7,-9223372036854775808,{"@class":"java.lang.Float","@raw":"0x3fc00000","@reason":"the order of its bytes depends on the release of Kryo"},"中","ab",""]`
	for _, in := range []*serializer.Input{serializer.NewInput(value), serializer.NewStreamInput(bytes.NewReader(value), 0)} {
		if got := string(serializer.AppendJSON(nil, s.Read(in))); got != want || in.Err() != nil || !in.AtEnd() {
			t.Errorf("%s, want %s; %v", got, want, in.Err())
		}
	}
	exception := append([]byte("\x01\x00java.lang.RuntimeExceptio\xee\x01"), javaStream(javaObject("java.lang.RuntimeException"))...)
	value = append([]byte{0, 0, 0, 2}, exception...)
	value = append(value, 9, 14)
	in := serializer.NewInput(value)
	if got := string(serializer.AppendJSON(nil, s.Read(in))); got != "[{},7]" || in.Err() != nil || !in.AtEnd() {
		t.Errorf("%s, %v", got, in.Err())
	}
	// An object of another class takes the rest, and is an error in a stream.
	value = []byte("\x00\x00\x00\x02\x01\x00com.example.\xc3\x01\x02\x03\x04\x05")
	in.Reset(value)
	if got := string(serializer.AppendJSON(nil, s.Read(in))); !strings.Contains(got, "written by Kryo") || in.Err() != nil || !in.Lost() {
		t.Errorf("%s, %v", got, in.Err())
	}
	in.ResetStream(bytes.NewReader(value), 0)
	if s.Read(in); !errors.Is(in.Err(), serializer.ErrUnsupported) {
		t.Error(in.Err())
	}
}
