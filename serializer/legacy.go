package serializer

import (
	"fmt"
	"slices"

	"github.com/drey-state/drey/internal/javaio"
)

// adapterVersion stands as the version of a snapshot that Flink 1.7 wrote in
// the way of its predecessors (TypeSerializerConfigSnapshot.ADAPTER_VERSION).
const adapterVersion = 0x7A53C4F0

// noConfig stands as the class of what Flink 1.2 wrote, which was a serializer
// without a snapshot. Flink itself never writes it.
const noConfig = typeutils + "BackwardsCompatibleSerializerSnapshot"

// Legacy is the body of a snapshot of Flink before 1.8: the serializer itself as a Java object,
// and what the snapshot's class wrote (TypeSerializerConfigSnapshot).
type Legacy struct {
	// Object is the Java object stream of the serializer.
	Object []byte
	// Config is what the class wrote, its own version first; nil from Flink 1.2.
	Config []byte
	// Modern is the snapshot that Flink 1.8 and later have for such a
	// serializer, see [Snapshot.Modern]; never nil.
	Modern *Snapshot
}

func (b *Legacy) write(out *Output, _ int32) {
	if b.Config == nil {
		out.Fail(fmt.Errorf("a serializer of Flink 1.2 has no snapshot: %w", ErrUnsupported))
		return
	}
	out.I32(objectVersion)
	out.Bytes32(b.Object)
	out.Raw(b.Config)
}

// Modern gives the snapshot by which Flink 1.8 and later describe such a
// serializer: s itself, unless its body is a [Legacy].
func (s *Snapshot) Modern() *Snapshot {
	if s == nil {
		return nil
	}
	if b, ok := s.Body.(*Legacy); ok {
		return b.Modern
	}
	return s
}

// newLegacy makes a snapshot of a serializer's object.
func newLegacy(class string, root javaio.Value, object, config []byte) *Snapshot {
	return &Snapshot{Class: class, Version: adapterVersion, Body: &Legacy{
		Object: object, Config: config, Modern: modernOf(root),
	}}
}

// objectVersion is the version of TypeSerializerSerializationProxy.
const objectVersion = 1

// ReadLegacyObject reads a serializer as Flink up to 1.6 wrote it alone
// (TypeSerializerSerializationProxy): a version, a length and a Java object
// stream. It returns nil after a failure.
func ReadLegacyObject(in *Input) *Snapshot {
	object, root := legacyObject(in)
	if in.err != nil {
		return nil
	}
	return newLegacy(noConfig, root, object, nil)
}

// legacyObject reads the stream and gives its object, which is nil if it is
// not understood: it has a length, so that this loses nothing else.
func legacyObject(in *Input) ([]byte, javaio.Value) {
	in.magic("version of a serializer", objectVersion)
	object := slices.Clone(in.Bytes32())
	if in.err != nil {
		return nil, nil
	}
	s, n, err := javaio.ParseObject(object)
	if err != nil || n != len(object) {
		return object, nil
	}
	return object, s.Root
}

// ReadLegacyStream reads a serializer that is a Java object stream without a
// length (operator state of Flink 1.2, timers up to 1.4.0). It returns nil after a failure.
func ReadLegacyStream(in *Input) *Snapshot {
	s, err := javaio.ReadObject(in)
	if err != nil {
		in.within("serializer")
		return nil
	}
	return newLegacy(noConfig, s.Root, s.Raw, nil)
}

// ReadLegacyPairs reads serializers with their snapshots as Flink up to 1.6
// wrote them (TypeSerializerSerializationUtil.writeSerializersAndConfigsWithResilience):
// where each begins, and then all of them. It returns nil after a failure.
func ReadLegacyPairs(in *Input) []*Snapshot {
	off := in.Offset()
	n := in.Length()
	var starts []int32
	for i := 0; i < n && in.err == nil; i++ {
		starts = append(starts, in.I32(), in.I32())
	}
	base := in.Offset() + 4
	data := slices.Clone(in.Bytes32())
	if in.err != nil {
		in.within("serializers")
		return nil
	}
	var pairs []*Snapshot
	end := int32(len(data))
	for i := 0; i < n; i++ {
		object, config, next := starts[2*i], starts[2*i+1], end
		if i+1 < n {
			next = starts[2*i+2]
		}
		if object < 0 || config < object || next < config || next > end {
			in.FailAt(off, "serializers", fmt.Errorf("%w: offsets %d, %d, %d of %d bytes", ErrCorrupt, object, config, next, end))
			return nil
		}
		pairs = append(pairs, legacyPair(in, data, base, object, config, next))
	}
	if in.err != nil {
		return nil
	}
	return pairs
}

// legacyPair reads a serializer in data[object:config] and its snapshot in data[config:end].
func legacyPair(in *Input, data []byte, base int64, object, config, end int32) *Snapshot {
	var sub Input
	sub.ResetAt(data[object:config], base+int64(object))
	sub.depth = in.depth
	stream, root := legacyObject(&sub)
	if sub.err == nil {
		sub.ResetAt(data[config:end], base+int64(config))
		sub.depth = in.depth
		s := legacyConfig(&sub, stream, root)
		if sub.err == nil {
			return s
		}
	}
	if in.err == nil {
		in.err = sub.err
		in.within("serializers")
	}
	return nil
}

// legacyConfig reads a snapshot that reaches to the end of in
// (TypeSerializerSnapshotSerializationUtil).
func legacyConfig(in *Input, object []byte, root javaio.Value) *Snapshot {
	off := in.Offset()
	switch v := in.I32(); v {
	case 1:
		class := in.name()
		return newLegacy(class, root, object, slices.Clone(in.Rest()))
	case 2:
		rest := slices.Clone(in.Rest())
		if in.err != nil {
			return nil
		}
		var sub Input
		sub.ResetAt(rest, off+4)
		sub.depth = in.depth
		s := ReadSnapshot(&sub)
		if sub.err == nil && sub.AtEnd() && !misnamed(root, s.Class) {
			return s
		}
		// Its class is not known, or is another's, but the serializer may be known.
		sub.ResetAt(rest, off+4)
		class := sub.name()
		if sub.err != nil {
			in.err = sub.err
			return nil
		}
		return newLegacy(class, root, object, sub.Rest())
	default:
		in.FailAt(off, "version of a serializer snapshot", fmt.Errorf("%d: %w", v, ErrUnsupported))
		return nil
	}
}

// readAdapted reads the body of a snapshot whose version is adapterVersion.
func readAdapted(in *Input, class string) Body {
	object, root := legacyObject(in)
	if in.err != nil {
		return nil
	}
	off := in.Offset()
	t := &tee{in: in}
	version := t.i32()
	if in.err != nil {
		return nil
	}
	if known := t.config(class, version); !known {
		// A class of Flink 1.8 that had been of the old kind under the same name.
		f, ok := familyOf(class)
		if !ok || version < f.oldest || version > f.newest {
			in.FailAt(off, "serializer snapshot", fmt.Errorf("class %q in version %d: %w", class, version, ErrUnsupported))
			return nil
		}
		var body Body
		if f.read != nil {
			body = f.read(in, version)
		}
		if in.err != nil {
			return nil
		}
		out := NewOutput(t.raw)
		if body != nil {
			body.write(out, version)
		}
		return &Legacy{Object: object, Config: out.Bytes(), Modern: &Snapshot{Class: class, Version: version, Body: body}}
	}
	if in.err != nil {
		return nil
	}
	return &Legacy{Object: object, Config: t.raw, Modern: modernOf(root)}
}

// legacyFamily knows values that are Java objects. Snapshots of the old kind are
// not here, see [Legacy].
func legacyFamily(class string) (family, bool) {
	if class != javaObjects {
		return family{}, false
	}
	return simple("java.io.Serializable", objects{}), true
}

// tee reads what it also keeps.
type tee struct {
	in  *Input
	raw []byte
}

// Take, Err and Fail make it a source of Java objects.
func (t *tee) Take(n int) []byte {
	b := t.in.Take(n)
	t.raw = append(t.raw, b...)
	return b
}

func (t *tee) Err() error { return t.in.err }

func (t *tee) Fail(field string, err error) { t.in.Fail(field, err) }

func (t *tee) i32() int32 {
	b := t.Take(4)
	if b == nil {
		return 0
	}
	return int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
}

func (t *tee) count(field string) int {
	n := t.i32()
	if n < 0 {
		t.in.Failf(field, "%d", n)
		return 0
	}
	return int(n)
}

func (t *tee) utf() {
	if b := t.Take(2); b != nil {
		t.Take(int(b[0])<<8 | int(b[1]))
	}
}

func (t *tee) object() { _, _ = javaio.ReadObject(t) } // the error is the input's

// offsets reads n pairs of offsets.
func (t *tee) offsets() {
	for n := t.count("serializers"); n > 0 && t.in.err == nil; n-- {
		t.Take(8)
	}
}

// pairs reads what ReadLegacyPairs does.
func (t *tee) pairs() {
	t.offsets()
	t.Take(t.count("length"))
}

// kind of a class of old snapshots.
type kind int

const (
	configUnknown kind = iota
	configName         // one text
	configParts        // serializers with their snapshots
	configTuple        // parts and a class
	configArray        // the same
	configEnum         // class, constants
	configScalaEnum
	configPojo
	configKryo
	configAvro // Kryo's and a text
)

// configKind sorts the classes that extended TypeSerializerConfigSnapshot in Flink 1.3 to 1.7.
func configKind(class string) kind {
	switch class {
	case typeutils + "ParameterlessTypeSerializerConfig",
		javaRuntime + "CopyableValueSerializer$CopyableValueSerializerConfigSnapshot",
		formatsAvro + "AvroSerializer$AvroSchemaSerializerConfigSnapshot":
		return configName
	case base + "CollectionSerializerConfigSnapshot",
		base + "MapSerializerConfigSnapshot",
		typeutils + "CompositeSerializer$ConfigSnapshot",
		javaRuntime + "EitherSerializerConfigSnapshot",
		javaRuntime + "RowSerializer$RowSerializerConfigSnapshot",
		javaRuntime + "NullableSerializer$NullableSerializerConfigSnapshot",
		scala + "OptionSerializer$OptionSerializerConfigSnapshot",
		scala + "ScalaOptionSerializerConfigSnapshot",
		scala + "TrySerializer$TrySerializerConfigSnapshot",
		scala + "ScalaTrySerializerConfigSnapshot",
		scala + "TraversableSerializerConfigSnapshot",
		streaming + "api.operators.TimerSerializer$TimerSerializerConfigSnapshot",
		streaming + "api.operators.co.IntervalJoinOperator$BufferSerializerConfigSnapshot",
		streaming + "api.datastream.CoGroupedStreams$UnionSerializerConfigSnapshot",
		streaming + "api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerConfigSnapshot",
		streaming + "runtime.streamrecord.StreamElementSerializer$StreamElementSerializerConfigSnapshot",
		cepNFA + "NFA$NFASerializerConfigSnapshot",
		cepNFA + "SharedBuffer$SharedBufferSerializerConfigSnapshot":
		return configParts
	case javaRuntime + "TupleSerializerConfigSnapshot":
		return configTuple
	case base + "GenericArraySerializerConfigSnapshot":
		return configArray
	case base + "EnumSerializer$EnumSerializerConfigSnapshot":
		return configEnum
	case scala + "EnumValueSerializer$ScalaEnumSerializerConfigSnapshot":
		return configScalaEnum
	case javaRuntime + "PojoSerializer$PojoSerializerConfigSnapshot":
		return configPojo
	case javaRuntime + "kryo.KryoSerializer$KryoSerializerConfigSnapshot",
		javaRuntime + "ValueSerializer$ValueSerializerConfigSnapshot":
		return configKryo
	case formatsAvro + "AvroSerializer$AvroSerializerConfigSnapshot",
		javaRuntime + "AvroSerializer$AvroSerializerConfigSnapshot":
		return configAvro
	}
	return configUnknown
}

// config reads what an old class wrote after its version. False means that
// the class is not an old one; then nothing was read.
func (t *tee) config(class string, version int32) bool {
	switch configKind(class) {
	case configName:
		t.utf()
	case configParts:
		t.pairs()
	case configTuple:
		t.pairs()
		t.object()
	case configArray:
		if version != 1 {
			return false
		}
		t.pairs()
		t.object()
	case configEnum:
		t.utf()
		if version == 1 {
			t.object()
			break
		}
		for n := t.count("constants"); n > 0 && t.in.err == nil; n-- {
			t.utf()
		}
	case configScalaEnum:
		if version == 1 {
			t.object()
			t.object()
			break
		}
		t.utf()
		for n := t.count("constants"); n > 0 && t.in.err == nil; n-- {
			t.utf()
			t.i32()
		}
	case configPojo:
		t.utf()
		t.offsets() // fields
		t.offsets() // registered subclasses
		t.offsets() // other subclasses
		t.Take(t.count("length"))
	case configKryo:
		t.kryo()
	case configAvro:
		t.kryo()
		t.utf()
	default:
		return false
	}
	return true
}

// kryo reads a class and registrations for Kryo (KryoRegistrationSerializerConfigSnapshot).
func (t *tee) kryo() {
	t.utf()
	for n := t.count("registrations"); n > 0 && t.in.err == nil; n-- {
		t.utf()
		t.utf()
		switch kind := t.i32(); kind {
		case 0:
		case 1:
			t.utf()
		case 2:
			t.object()
		default:
			t.in.Failf("registration", "kind %d", kind)
		}
	}
}
