package serializer

import (
	"strings"

	"github.com/drey-state/drey/internal/javaio"
)

// Packages of the classes of serializers.
const (
	typeutils   = "org.apache.flink.api.common.typeutils."
	streaming   = "org.apache.flink.streaming."
	formatsAvro = "org.apache.flink.formats.avro.typeutils."
)

const (
	// maxNested bounds how deep serializers are looked for in each other,
	maxNested = 40
	// and maxParts how many: objects may share parts, which are unfolded.
	maxParts = 10000
)

// modernOf describes a serializer, given as a Java object of Flink 1.2 to 1.7,
// by the snapshot of Flink 1.8. It never fails: a serializer that is not known
// becomes a snapshot of an unknown class, which is then the serializer's.
func modernOf(v javaio.Value) *Snapshot {
	left := maxParts
	return modernPart(v, 0, &left)
}

// modernPart is modernOf for a part of another; left is how many may still follow.
func modernPart(v javaio.Value, depth int, left *int) *Snapshot {
	o, ok := v.(*javaio.Object)
	if *left--; !ok || *left < 0 || depth > maxNested {
		return &Snapshot{Class: "?"}
	}
	j := javaSerializer{o, depth + 1, left}
	if s := j.composite(o.Class.Name); s != nil {
		return s
	}
	// The code of a Scala job holds a class of its own for each type, which extends Flink's.
	for c := o.Class.Super; c != nil; c = c.Super {
		switch c.Name {
		case scala + "CaseClassSerializer", scala + "TraversableSerializer":
			if s := j.composite(c.Name); s != nil {
				return s
			}
		}
	}
	if s := simpleOf(o.Class.Name); s != nil {
		return s
	}
	return &Snapshot{Class: o.Class.Name}
}

// simpleOf is modernOf for serializers without configuration. The class of
// their snapshots is named after them.
func simpleOf(class string) *Snapshot {
	name := shortName(class)
	name = name[strings.LastIndexByte(name, '$')+1:]
	snapshot := class + "$" + name + "Snapshot"
	switch class {
	case windows + "TimeWindow$Serializer":
		snapshot = class + "$TimeWindowSerializerSnapshot"
	case windows + "GlobalWindow$Serializer":
		snapshot = class + "$GlobalWindowSerializerSnapshot"
	case javaRuntime + "Tuple0Serializer":
		snapshot = class + "Snapshot"
	}
	s := &Snapshot{Class: snapshot, Version: 3}
	if f, ok := familyOf(snapshot); !ok || f.make == nil || f.make(s) == nil {
		return nil
	}
	return s
}

// javaSerializer is a serializer as a Java object.
type javaSerializer struct {
	*javaio.Object
	depth int
	left  *int
}

func (j javaSerializer) part(v javaio.Value) *Snapshot { return modernPart(v, j.depth, j.left) }

// parts describes the serializers in fields; one may hold an array of them.
func (j javaSerializer) parts(fields ...string) []*Snapshot {
	var all []*Snapshot
	for _, name := range fields {
		switch v := j.Field(name).(type) {
		case *javaio.Array:
			for _, e := range v.Elements {
				all = append(all, j.part(e))
			}
		default:
			all = append(all, j.part(v))
		}
	}
	return all
}

// class is the name of the class in a field.
func (j javaSerializer) class(field string) ClassName {
	c, ok := j.Field(field).(*javaio.Class)
	if !ok {
		return "?"
	}
	return ClassName(c.Desc.Name)
}

// of makes the snapshot of a composite.
func (j javaSerializer) of(class string, outerVersion int32, outer Body, fields ...string) *Snapshot {
	return compositeOf(class, outerVersion, outer, j.parts(fields...)...)
}

func compositeOf(class string, outerVersion int32, outer Body, parts ...*Snapshot) *Snapshot {
	return &Snapshot{Class: class, Version: 3, Body: &Composite{OuterVersion: outerVersion, Outer: outer, Nested: parts}}
}

// composite is modernOf for a class with configuration; nil for any other.
func (j javaSerializer) composite(class string) *Snapshot {
	switch class {
	case base + "ListSerializer":
		return j.of(base+"ListSerializerSnapshot", 1, nil, "elementSerializer")
	case runtimeState + "ArrayListSerializer":
		return j.of(runtimeState+"ArrayListSerializerSnapshot", 1, nil, "elementSerializer")
	case "org.apache.flink.cep.operator.AbstractKeyedCEPPatternOperator$PriorityQueueSerializer":
		// Not of any later Flink; what it wrote are lists.
		return j.of(base+"ListSerializerSnapshot", 1, nil, "elementSerializer")
	case base + "MapSerializer", runtimeState + "HashMapSerializer":
		return j.of(base+"MapSerializerSnapshot", 1, nil, "keySerializer", "valueSerializer")
	case base + "GenericArraySerializer":
		return j.of(base+"GenericArraySerializerSnapshot", 1, j.class("componentClass"), "componentSerializer")
	case javaRuntime + "TupleSerializer":
		return j.of(javaRuntime+"TupleSerializerSnapshot", 2, j.class("tupleClass"), "fieldSerializers")
	case javaRuntime + "RowSerializer":
		return j.of(javaRuntime+"RowSerializer$RowSerializerSnapshot", 2, nil, "fieldSerializers")
	case javaRuntime + "EitherSerializer":
		return j.of(javaRuntime+"JavaEitherSerializerSnapshot", 1, nil, "leftSerializer", "rightSerializer")
	case javaRuntime + "NullableSerializer":
		var padding Number
		if a, ok := j.Field("padding").(*javaio.Array); ok {
			padding = Number(a.Len)
		}
		return j.of(javaRuntime+"NullableSerializer$NullableSerializerSnapshot", 2, padding, "originalSerializer")
	case javaRuntime + "PojoSerializer":
		return j.pojo()
	case javaRuntime + "CopyableValueSerializer":
		return &Snapshot{Class: class + "$CopyableValueSerializerSnapshot", Version: 2, Body: j.class("valueClass")}
	case javaRuntime + "kryo.KryoSerializer":
		return kryoOf(j.class("type"))
	case base + "EnumSerializer":
		return j.enum()
	case runtimeState + "ttl.TtlStateFactory$TtlSerializer":
		return j.of(runtimeState+"ttl.TtlStateFactory$TtlSerializerSnapshot", 2, nil, "fieldSerializers")
	case operators + "TimerSerializer":
		return j.of(operators+"TimerSerializerSnapshot", 2, nil, "keySerializer", "namespaceSerializer")
	case streaming + "runtime.streamrecord.StreamElementSerializer":
		return j.of(class+"$StreamElementSerializerSnapshot", 2, nil, "typeSerializer")
	case streaming + "api.datastream.CoGroupedStreams$UnionSerializer":
		return j.of(class+"Snapshot", 2, nil, "oneSerializer", "twoSerializer")
	case streaming + "api.operators.co.IntervalJoinOperator$BufferEntrySerializer":
		return j.of(class+"Snapshot", 2, nil, "elementSerializer")
	case streaming + "api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializer":
		return j.of(class+"Snapshot", 2, nil, "transactionSerializer", "contextSerializer")
	case formatsAvro + "AvroSerializer":
		if schema := j.Text("schemaString"); schema != "" {
			return &Snapshot{Class: class + "Snapshot", Version: 3, Body: &Avro{Class: string(j.class("type")), Schema: schema}}
		}
	}
	if s := j.scala(class); s != nil {
		return s
	}
	return j.pattern(class)
}

// enum describes a Java enum. Flink 1.2 did not write its constants: then
// values are the numbers that they are.
func (j javaSerializer) enum() *Snapshot {
	var constants []string
	values, _ := javaio.Elements(j.Field("values"))
	for _, v := range values {
		if e, ok := v.(*javaio.Enum); ok {
			constants = append(constants, e.Constant)
		}
	}
	if len(constants) == 0 {
		return simpleOf(base + "IntSerializer")
	}
	return &Snapshot{
		Class: base + "EnumSerializer$EnumSerializerSnapshot", Version: 3,
		Body: &Enum{Class: string(j.class("enumClass")), Constants: constants},
	}
}

// kryoOf describes KryoSerializer, of which only the class of the values matters.
func kryoOf(class ClassName) *Snapshot {
	return &Snapshot{
		Class: javaRuntime + "kryo.KryoSerializerSnapshot", Version: 2,
		Body: &Kryo{Class: string(class)},
	}
}

// pojo describes a POJO. The names of its fields are block data, a class that
// declares it before each.
func (j javaSerializer) pojo() *Snapshot {
	part := j.Of(javaRuntime + "PojoSerializer")
	if part == nil {
		return nil
	}
	var names []byte
	for _, v := range part.Annotations {
		if b, ok := v.(javaio.Block); ok {
			names = append(names, b...)
		}
	}
	var in Input
	in.Reset(names)
	n := in.Length()
	fields := j.parts("fieldSerializers")
	declaring := part.Objects()
	if n != len(fields) || n != len(declaring) {
		return nil
	}
	p := &Pojo{Class: string(j.class("clazz"))}
	for i, s := range fields {
		owner, _ := declaring[i].(*javaio.Class)
		name := in.UTF()
		if owner == nil || in.err != nil {
			return nil
		}
		p.Fields = append(p.Fields, PojoField(owner.Desc.Name, name, s))
	}
	serializers := j.Field("registeredSerializers")
	registered, _ := javaio.Entries(j.Field("registeredClasses"))
	if a, ok := serializers.(*javaio.Array); ok && len(a.Elements) == len(registered) {
		for i, e := range registered {
			if c, ok := e.Key.(*javaio.Class); ok {
				p.Registered = append(p.Registered, Frame{Name: c.Desc.Name, Key: []byte{}, Snapshot: j.part(a.Elements[i])})
			}
		}
	}
	return &Snapshot{Class: pojoSnapshot, Version: 2, Body: p}
}

// scala is composite for the serializers of Flink's Scala API.
func (j javaSerializer) scala(class string) *Snapshot {
	switch class {
	case scala + "CaseClassSerializer":
		return j.of(scala+"ScalaCaseClassSerializerSnapshot", 2, j.class("tupleClass"), "fieldSerializers")
	case scala + "OptionSerializer":
		return j.of(scala+"ScalaOptionSerializerSnapshot", 2, nil, "elemSerializer")
	case scala + "EitherSerializer":
		return j.of(scala+"ScalaEitherSerializerSnapshot", 1, nil, "leftSerializer", "rightSerializer")
	case scala + "TrySerializer":
		parts := j.parts("elemSerializer", "throwableSerializer")
		if parts[1].Class == "?" { // was made anew when it was read
			parts[1] = kryoOf("java.lang.Throwable")
		}
		return compositeOf(scala+"ScalaTrySerializerSnapshot", 2, nil, parts...)
	case scala + "TraversableSerializer":
		// The code that builds the collection was in the class, not in its objects.
		return j.of(scala+"TraversableSerializerSnapshot", 2, ClassName(j.Text("cbfCode")), "elementSerializer")
	case scala + "EnumValueSerializer":
		return j.scalaEnum()
	}
	return nil
}

// scalaEnum describes a scala.Enumeration: its constants are fields of the
// object, and each knows its number.
func (j javaSerializer) scalaEnum() *Snapshot {
	e, ok := j.Field("enum").(*javaio.Object)
	if !ok {
		return nil
	}
	body := &ScalaEnum{Class: e.Class.Name}
	for _, part := range e.Data {
		if part.Class.Name == "scala.Enumeration" {
			continue
		}
		for i, v := range part.Fields {
			if o, ok := v.(*javaio.Object); ok && o.Class.Name == "scala.Enumeration$Val" {
				name := o.Text("name")
				if name == "" {
					name = part.Class.Fields[i].Name
				}
				body.Constants = append(body.Constants, ScalaConstant{Name: name, ID: o.Int("scala$Enumeration$Val$$i")})
			}
		}
	}
	return &Snapshot{Class: scala + "ScalaEnumSerializerSnapshot", Version: 3, Body: body}
}

// pattern is composite for the serializers of CEP.
func (j javaSerializer) pattern(class string) *Snapshot {
	switch class {
	case cepNFA + "NFA$NFASerializer":
		return j.of(cepNFA+"NFA$MigratedNFASerializerSnapshot", 2, nil, "eventSerializer", "sharedBufferSerializer")
	case cepNFA + "SharedBuffer$SharedBufferSerializer":
		return compositeOf(class+"Snapshot", 2, nil, append(j.parts("keySerializer", "valueSerializer"), deweyNumberSnapshot())...)
	case cepNFA + "NFA$Serializer":
		return &Snapshot{Class: javaObjects, Version: 3}
	case cepNFA + "NFAStateSerializer":
		if j.Field("sharedBufferSerializer") != nil {
			return &Snapshot{Class: class} // of a build between Flink 1.5 and 1.6
		}
		return compositeOf(cepNFA+"NFAStateSerializerSnapshot", 1, nil, deweyNumberSnapshot(), nodeIDSnapshot(), eventIDSnapshot())
	case cepBuffer + "Lockable$LockableTypeSerializer":
		return j.of(cepBuffer+"LockableTypeSerializerSnapshot", 1, nil, "elementSerializer")
	case cepBuffer + "NodeId$NodeIdSerializer":
		return nodeIDSnapshot()
	case cepBuffer + "SharedBufferEdge$SharedBufferEdgeSerializer":
		return sharedBufferEdgeSnapshot()
	case cepBuffer + "SharedBufferNode$SharedBufferNodeSerializer":
		return compositeOf(class+"$SharedBufferNodeSerializerSnapshot", 1, nil,
			compositeOf(base+"ListSerializerSnapshot", 1, nil, sharedBufferEdgeSnapshot()))
	}
	return nil
}

func deweyNumberSnapshot() *Snapshot {
	return &Snapshot{Class: cepNFA + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot", Version: 3}
}

func eventIDSnapshot() *Snapshot {
	return &Snapshot{Class: cepBuffer + "EventId$EventIdSerializer$EventIdSerializerSnapshot", Version: 3}
}

func nodeIDSnapshot() *Snapshot {
	return compositeOf(cepBuffer+"NodeId$NodeIdSerializer$NodeIdSerializerSnapshot", 1, nil, eventIDSnapshot())
}

func sharedBufferEdgeSnapshot() *Snapshot {
	return compositeOf(cepBuffer+"SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot", 1, nil, nodeIDSnapshot(), deweyNumberSnapshot())
}

// misnamed says that a snapshot is not its serializer's but that of an element
// (LockableTypeSerializer in Flink 1.6).
func misnamed(v javaio.Value, snapshot string) bool {
	o, ok := v.(*javaio.Object)
	const lockable = cepBuffer + "Lockable$LockableTypeSerializer"
	return ok && o.Class.Name == lockable && snapshot != cepBuffer+"LockableTypeSerializerSnapshot"
}
