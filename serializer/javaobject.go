package serializer

import (
	"encoding/binary"
	"slices"

	"github.com/drey-state/drey/internal/javaio"
)

// javaObjects is the class of the snapshot of values that are Java object streams.
const javaObjects = runtimeState + "JavaSerializer$JavaSerializerSnapshot"

// objects reads Java object streams as records of the fields that are in
// them. Such a stream says where it ends, unless a class wrote in a way of its own.
type objects struct{}

func (objects) Len() int { return -1 }

func (o objects) Skip(in *Input) { o.read(in) }

func (o objects) Read(in *Input) any {
	s, v := o.read(in)
	if s == nil {
		return v
	}
	return convertObject(s)
}

func (objects) encode(w *encoding, _ any) error {
	return w.opaque("java.io.Serializable", "the JSON of a Java object does not tell its classes")
}

// read gives a stream, or what stands for it.
func (objects) read(in *Input) (*javaio.ObjectStream, any) {
	if !in.Framed() || in.err != nil {
		s, err := javaio.ReadObject(in)
		if err != nil {
			return nil, nil
		}
		return s, nil
	}
	s, n, err := javaio.ParseObject(in.buf[in.pos:])
	if err != nil {
		raw := slices.Clone(in.Rest())
		in.Lose()
		return nil, Opaque{Class: "java.io.Serializable", Raw: raw, Reason: err.Error()}
	}
	in.Skip(int64(n))
	return s, nil
}

// maxObjects bounds how many values are made of a stream besides its length:
// objects that refer to each other could be unfolded without end.
const maxObjects = 1000

// objectConverter makes values of Java objects.
type objectConverter struct {
	budget int
	path   []*javaio.Object // of the objects that are being converted
}

func (c *objectConverter) value(v javaio.Value) any {
	if c.budget--; c.budget < 0 {
		return Opaque{Class: classNameOf(v), Reason: "too many references to the same objects"}
	}
	switch v := v.(type) {
	case nil, bool, int8, int16, int32, int64, float32, float64, string:
		return v
	case uint16:
		return Char(v)
	case javaio.Block:
		return slices.Clone([]byte(v))
	case *javaio.Enum:
		return v.Constant
	case *javaio.Class:
		return v.Desc.Name
	case *javaio.Array:
		return c.array(v)
	case *javaio.Object:
		return c.object(v)
	}
	return Opaque{Class: classNameOf(v), Reason: "no Java object"}
}

func classNameOf(v javaio.Value) string {
	switch v := v.(type) {
	case *javaio.Object:
		return v.Class.Name
	case *javaio.Array:
		return v.Class.Name
	case *javaio.ClassDesc:
		return v.Name
	}
	return ""
}

func (c *objectConverter) array(a *javaio.Array) any {
	if a.Class.Name == "[B" {
		return slices.Clone(a.Primitives)
	}
	all := make([]any, 0, a.Len)
	if a.Primitives == nil {
		for _, e := range a.Elements {
			all = append(all, c.value(e))
		}
		return all
	}
	var in Input
	in.Reset(a.Primitives)
	for !in.AtEnd() {
		all = append(all, primitive(&in, a.Class.Name[1]))
	}
	return all
}

// primitive reads an element of an array.
func primitive(in *Input, code byte) any {
	switch code {
	case 'Z':
		return in.Bool()
	case 'C':
		return Char(in.U16())
	case 'S':
		return int16(in.U16())
	case 'I':
		return in.I32()
	case 'J':
		return in.I64()
	case 'F':
		return in.F32()
	}
	return in.F64()
}

func (c *objectConverter) object(o *javaio.Object) any {
	if slices.Contains(c.path, o) {
		return Opaque{Class: o.Class.Name, Reason: "it holds itself"}
	}
	c.path = append(c.path, o)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	switch o.Class.Name {
	case "java.lang.Boolean", "java.lang.Byte", "java.lang.Character", "java.lang.Short",
		"java.lang.Integer", "java.lang.Long", "java.lang.Float", "java.lang.Double":
		return c.value(o.Field("value"))
	case "java.util.Date", "java.sql.Timestamp":
		if b := o.Of("java.util.Date").Block(); len(b) == 8 {
			ms := int64(binary.BigEndian.Uint64(b))
			sec, rest := floorDiv(ms, 1000)
			t := Instant{Second: sec, Nano: int32(rest) * 1e6}
			if nanos, ok := o.Field("nanos").(int32); ok {
				t.Nano = nanos
			}
			return t
		}
	}
	if elements, ok := javaio.Elements(o); ok {
		all := make([]any, 0, len(elements))
		for _, e := range elements {
			all = append(all, c.value(e))
		}
		return all
	}
	if entries, ok := javaio.Entries(o); ok {
		m := make(Map, 0, len(entries))
		for _, e := range entries {
			m = append(m, MapEntry{Key: c.value(e.Key), Value: c.value(e.Value)})
		}
		return m
	}
	return c.record(o)
}

// record makes a record of an object's fields, superclasses first. What a class
// wrote by itself is a field without a name.
func (c *objectConverter) record(o *javaio.Object) any {
	r := &Record{Class: o.Class.Name}
	for _, part := range o.Data {
		for i, v := range part.Fields {
			if v == javaio.Value(o) && part.Class.Name == "java.lang.Throwable" {
				v = nil // an exception that has no cause is its own
			}
			r.Fields = append(r.Fields, Field{Name: part.Class.Fields[i].Name, Value: c.value(v)})
		}
		for _, v := range part.Annotations {
			r.Fields = append(r.Fields, Field{Value: c.value(v)})
		}
	}
	return r
}

// Checkpointed is the serializer of what a function of the Checkpointed
// interface saved, which is gone since Flink 1.4 (AbstractUdfStreamOperator): a flag, and if
// it is set a Java object. What the operator wrote behind it is the second field of
// a [Record]. An operator without such a function wrote in a way of its own, which is [Opaque].
func Checkpointed() Serializer { return checkpointed{} }

type checkpointed struct{}

func (checkpointed) Len() int { return -1 }

func (c checkpointed) Skip(in *Input) { c.Read(in) }

func (checkpointed) Read(in *Input) any {
	raw := slices.Clone(in.Rest())
	if in.err != nil {
		return nil
	}
	if len(raw) > 0 && raw[0] == 0 {
		return withOperator(nil, raw[1:])
	}
	if len(raw) > 0 && raw[0] == 1 {
		if s, n, err := javaio.ParseObject(raw[1:]); err == nil {
			return withOperator(convertObject(s), raw[1+n:])
		}
	}
	return Opaque{Class: "org.apache.flink.streaming.api.operators.StreamCheckpointedOperator", Raw: raw, Reason: "the operator wrote it in its own way"}
}

func withOperator(function any, operator []byte) any {
	if len(operator) == 0 {
		return function
	}
	return record("", "function", function, "operator", operator)
}

// convertObject makes a value of a stream's object.
func convertObject(s *javaio.ObjectStream) any {
	c := objectConverter{budget: maxObjects + len(s.Raw)}
	return c.value(s.Root)
}
