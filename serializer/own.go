package serializer

// ownFamily knows snapshots that are laid out in their own way.
func ownFamily(class string) (family, bool) {
	switch class {
	case javaRuntime + "RowSerializer$RowSerializerSnapshot":
		return rowFamily(), true
	case javaRuntime + "PojoSerializerSnapshot":
		return pojoFamily(), true
	case base + "EnumSerializer$EnumSerializerSnapshot":
		return enumFamily(), true
	case javaRuntime + "kryo.KryoSerializerSnapshot":
		return kryoFamily(), true
	case javaRuntime + "CopyableValueSerializer$CopyableValueSerializerSnapshot",
		javaRuntime + "ValueSerializer$ValueSerializerSnapshot",
		javaRuntime + "WritableSerializer$WritableSerializerSnapshot": // of Hadoop's classes
		return family{
			oldest: 2, newest: 2, read: readClassName,
			make: func(s *Snapshot) Serializer {
				class, _ := s.Body.(ClassName)
				return valueOf(string(class))
			},
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

// valueOf is for classes that write themselves, of which Flink's own are known.
func valueOf(class string) Serializer {
	switch class {
	case "org.apache.flink.types.StringValue":
		return text()
	case "org.apache.flink.types.LongValue":
		return long()
	case "org.apache.flink.types.IntValue":
		return integer()
	case "org.apache.flink.types.ShortValue":
		return short()
	case "org.apache.flink.types.ByteValue":
		return octet()
	case "org.apache.flink.types.BooleanValue":
		return boolean()
	case "org.apache.flink.types.DoubleValue":
		return double()
	case "org.apache.flink.types.FloatValue":
		return float()
	case "org.apache.flink.types.CharValue":
		return character()
	}
	return unknown{class: class, reason: "the class writes itself"}
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
func variable(read func(in *Input) any) Serializer {
	return &scalar{len: -1, size: -1, read: read, skip: func(in *Input) { read(in) }}
}
