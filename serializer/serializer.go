package serializer

// Serializer reads values as one of Flink's serializers wrote them. It is
// made of a [Snapshot] by [Of] and is immutable: any number of goroutines may
// use it, each with its own Input.
type Serializer interface {
	// Len is the length in bytes of every value, or -1 if it varies. It is
	// what getLength of Flink's class says, which decides the layout of
	// composite keys, even where that is not the true length (VoidNamespace: 0).
	Len() int
	// Skip moves past one value.
	Skip(in *Input)
	// Read decodes one value; see the table of Go types in value.go. After a
	// failure, which in.Err tells, the result is what had been read until then or nil.
	Read(in *Input) any
}

// appender is a serializer that can write JSON without making a value first.
type appender interface {
	// appendJSON is AppendJSON(dst, s.Read(in)).
	appendJSON(dst []byte, in *Input) []byte
}

// AppendRead decodes one value straight to JSON: AppendJSON(dst, s.Read(in)), but faster.
func AppendRead(dst []byte, s Serializer, in *Input) []byte {
	if a, ok := s.(appender); ok {
		return a.appendJSON(dst, in)
	}
	return AppendJSON(dst, s.Read(in))
}

// Of makes the serializer that a snapshot describes. It never fails: what is
// not known becomes a serializer of [Opaque] values that says why.
func Of(s *Snapshot) Serializer { panic("not yet") }

// ReadSnapshot reads a snapshot with its class name and version
// (TypeSerializerSnapshot.readVersionedSnapshot). A class that is not known
// has an unknown length, and fails with an error that names it and unwraps to [ErrUnsupported].
func ReadSnapshot(in *Input) *Snapshot { panic("not yet") }

// Write is the inverse of [ReadSnapshot], byte for byte.
func (s *Snapshot) Write(out *Output) { panic("not yet") }

// String names the type that the serializer is for, as a Java or SQL
// programmer would: "Map<String, Long>", "ROW<INT, STRING>", "com.example.Order".
func (s *Snapshot) String() string { panic("not yet") }

// AppendJSON appends a value as JSON.
func AppendJSON(dst []byte, v any) []byte { panic("not yet") }

// Text is a value as a key in a CSV cell or on a command line: strings as they are, everything else as its JSON.
func Text(v any) string { panic("not yet") }
