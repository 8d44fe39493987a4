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
