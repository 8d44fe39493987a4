package serializer

// Snapshot is what a state file says of the serializer that wrote it
// (TypeSerializerSnapshot): the class of the snapshot, its version and what
// that class wrote. It is not changed after it was read or made; any number of goroutines may use it.
type Snapshot struct {
	// Class is the binary name of the snapshot's class in Flink.
	Class string
	// Version is the snapshot version of that class.
	Version int32
	// Body is what the class wrote after its version; nil if nothing.
	Body Body
}

// Body is the content of a snapshot; its type belongs to the class.
type Body interface {
	isBody()
}
