package serializer

import "strings"

// ownFamily knows snapshots that are laid out in their own way.
func ownFamily(class string) (family, bool) {
	switch class {
	case javaRuntime + "RowSerializer$RowSerializerSnapshot":
		return rowFamily(), true
	case pojoSnapshot:
		return pojoFamily(), true
	case base + "EnumSerializer$EnumSerializerSnapshot":
		return enumFamily(), true
	case javaRuntime + "kryo.KryoSerializerSnapshot":
		return kryoFamily(), true
	case copyableValue, selfWritten,
		javaRuntime + "WritableSerializer$WritableSerializerSnapshot": // of Hadoop's classes
		return family{
			oldest: 2, newest: 2, read: readClassName, make: makeValue,
			name: func(s *Snapshot) string {
				class, _ := s.Body.(ClassName)
				return string(class)
			},
		}, true
	case runtimeState + "ttl.TtlAwareSerializerSnapshot":
		return ttlAwareFamily(), true
	case "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot":
		return avroFamily(), true
	case base + "VariantSerializer$VariantSerializerSnapshot":
		return simple("Variant", variantSerializer()), true
	case base + "BitmapSerializer$BitmapSerializerSnapshot":
		return simple("Bitmap", byteArray()), true
	}
	return scalaFamily(class)
}

// Kryo is the body of KryoSerializerSnapshot. Values have no length that could be told without Kryo.
type Kryo struct {
	// Class of the values.
	Class string
	// Registrations are the classes that the job registered, with their
	// serializers; DefaultInstances and DefaultClasses its default serializers.
	Registrations, DefaultInstances, DefaultClasses []Frame
}

func (b *Kryo) write(out *Output, _ int32) {
	out.UTF(b.Class)
	writeFrames(out, b.Registrations)
	writeFrames(out, b.DefaultInstances)
	writeFrames(out, b.DefaultClasses)
}

func kryoFamily() family {
	return family{
		oldest: 2, newest: 2,
		read: func(in *Input, _ int32) Body {
			return &Kryo{
				Class:            in.name(),
				Registrations:    readFrames(in, false),
				DefaultInstances: readFrames(in, false),
				DefaultClasses:   readFrames(in, false),
			}
		},
		make: func(s *Snapshot) Serializer {
			if b, ok := s.Body.(*Kryo); ok {
				return kryoValues{class: b.Class}
			}
			return nil
		},
		name: func(s *Snapshot) string {
			if b, ok := s.Body.(*Kryo); ok {
				return b.Class
			}
			return shortName(s.Class)
		},
	}
}

// The snapshots of serializers of classes that write themselves.
const (
	copyableValue = javaRuntime + "CopyableValueSerializer$CopyableValueSerializerSnapshot"
	selfWritten   = javaRuntime + "ValueSerializer$ValueSerializerSnapshot"
)

// makeValue is for classes that write themselves, of which Flink's own are known.
func makeValue(s *Snapshot) Serializer {
	class, _ := s.Body.(ClassName)
	var v Serializer
	if class == types+"NullValue" {
		v = unit("NullValue", 1, 1) // its other serializer writes nothing
	} else if plain := s.plain(); plain != s {
		v = Of(plain)
	} else {
		return unknown{class: string(class), reason: "the class writes itself"}
	}
	if s.Class != copyableValue {
		return variableLength(v)
	}
	return v
}

const types = "org.apache.flink.types."

// plain is [Snapshot.Modern], and for Flink's classes that write themselves the
// snapshot that Flink has for that class alone, which has the same values.
func (s *Snapshot) plain() *Snapshot {
	s = s.Modern()
	if s == nil || s.Class != copyableValue && s.Class != selfWritten {
		return s
	}
	class, _ := s.Body.(ClassName)
	switch name, _ := strings.CutPrefix(string(class), types); name {
	case "StringValue", "LongValue", "IntValue", "ShortValue", "ByteValue", "BooleanValue", "DoubleValue", "FloatValue", "CharValue":
		return &Snapshot{Class: base + name + "Serializer$" + name + "SerializerSnapshot", Version: 3}
	}
	return s
}

// TTLAware is the body of TtlAwareSerializerSnapshot of Flink 2.
type TTLAware struct {
	// TTL says that values have a time to live.
	TTL    bool
	Nested *Snapshot
}

func (b *TTLAware) write(out *Output, _ int32) {
	out.Bool(b.TTL)
	b.Nested.Write(out)
}

func ttlAwareFamily() family {
	return family{
		oldest: 1, newest: 1,
		read: func(in *Input, _ int32) Body {
			return &TTLAware{TTL: in.flag("flag of time to live"), Nested: ReadSnapshot(in)}
		},
		make: func(s *Snapshot) Serializer {
			if b, ok := s.Body.(*TTLAware); ok {
				return Of(b.Nested)
			}
			return nil
		},
		name: func(s *Snapshot) string {
			if b, ok := s.Body.(*TTLAware); ok {
				return b.Nested.String()
			}
			return shortName(s.Class)
		},
	}
}

// variable is a serializer of values whose length only reading tells.
func variable(read func(in *Input) any) *scalar {
	return &scalar{len: -1, size: -1, read: read, skip: func(in *Input) { read(in) }}
}
