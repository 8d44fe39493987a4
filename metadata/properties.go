package metadata

import (
	"errors"

	"github.com/drey-state/drey/internal/javaio"
)

// Properties is the Java-serialized CheckpointProperties at the end of a
// file of version 4 and later. It is carried as it is. [Properties.Info] reads
// it as data, never by a general deserialization.
type Properties []byte

// NullProperties is what Flink writes for no properties, as its State
// Processor API does.
var NullProperties = Properties("\xac\xed\x00\x05p")

// Classes of the serialized properties.
const (
	propertiesClass = "org.apache.flink.runtime.checkpoint.CheckpointProperties"
	checkpointClass = "org.apache.flink.runtime.checkpoint.CheckpointType"
	savepointClass  = "org.apache.flink.runtime.checkpoint.SavepointType"
)

// Kind is what a snapshot is, as its properties tell.
type Kind uint8

// The kinds of snapshot.
const (
	// KindUnknown is a snapshot without properties or with unknown ones.
	KindUnknown Kind = iota
	KindCheckpoint
	// KindFullCheckpoint is a checkpoint that may not reuse older files.
	KindFullCheckpoint
	KindCanonicalSavepoint
	KindNativeSavepoint
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case KindCheckpoint:
		return "checkpoint"
	case KindFullCheckpoint:
		return "full checkpoint"
	case KindCanonicalSavepoint:
		return "savepoint (canonical)"
	case KindNativeSavepoint:
		return "savepoint (native)"
	}
	return "unknown"
}

// Savepoint says that the kind is one of the savepoints.
func (k Kind) Savepoint() bool { return k == KindCanonicalSavepoint || k == KindNativeSavepoint }

// PropertiesInfo is what properties say.
type PropertiesInfo struct {
	Kind Kind
	// Stop is "suspend" or "terminate" for a savepoint of stop-with-savepoint.
	Stop string
	// Retention is what happens to the snapshot when the job ends: "never
	// retained", "retained on failure", "retained on cancellation", "kept" or "".
	Retention string
	// Trailing is the number of bytes after the object, which Flink ignores.
	Trailing int
}

// missing is how many bytes p must at least be longer to be a whole object;
// 0 if it is whole, or not understood.
func (p Properties) missing() int {
	if len(p) < len(NullProperties) {
		return len(NullProperties) - len(p)
	}
	_, _, err := javaio.ParseObject(p)
	var e *TruncatedError
	if errors.As(err, &e) {
		return int(e.Need) - len(p)
	}
	return 0
}

// Info says what the properties tell. Unknown properties give the zero value.
func (p Properties) Info() PropertiesInfo {
	s, size, err := javaio.ParseObject(p)
	if err != nil {
		return PropertiesInfo{}
	}
	info := PropertiesInfo{Trailing: len(p) - size}
	if s.Root == nil {
		return info
	}
	v, ok := s.Root.(*javaio.Object)
	if !ok || v.Class.Name != propertiesClass {
		return PropertiesInfo{}
	}
	t, ok := v.Field("checkpointType").(*javaio.Object)
	if !ok {
		return info
	}
	switch t.Class.Name {
	case checkpointClass:
		switch constant(t, "sharingFilesStrategy") {
		case "FORWARD_BACKWARD":
			info.Kind = KindCheckpoint
		case "FORWARD":
			info.Kind = KindFullCheckpoint
		}
	case savepointClass:
		switch constant(t, "formatType") {
		case "CANONICAL":
			info.Kind = KindCanonicalSavepoint
		case "NATIVE":
			info.Kind = KindNativeSavepoint
		}
		switch constant(t, "postCheckpointAction") {
		case "SUSPEND":
			info.Stop = "suspend"
		case "TERMINATE":
			info.Stop = "terminate"
		}
	}
	var discard [5]javaio.Value
	for i, f := range [...]string{"discardCancelled", "discardFailed", "discardFinished", "discardSubsumed", "discardSuspended"} {
		discard[i] = v.Field(f)
	}
	switch discard {
	case [5]javaio.Value{true, true, true, true, true}:
		info.Retention = "never retained"
	case [5]javaio.Value{true, false, true, true, true}:
		info.Retention = "retained on failure"
	case [5]javaio.Value{false, false, true, true, false}:
		info.Retention = "retained on cancellation"
	case [5]javaio.Value{false, false, false, false, false}:
		info.Retention = "kept"
	}
	return info
}

// constant is the name of an enum constant in a field, "" if there is none.
func constant(o *javaio.Object, field string) string {
	if e, ok := o.Field(field).(*javaio.Enum); ok {
		return e.Constant
	}
	return ""
}
