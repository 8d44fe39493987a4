package metadata

import (
	"errors"
	"strings"

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

// PropertiesOf gives the properties of a snapshot of that kind as Flink 1.16 to 2.3 write them: of a savepoint, which is
// kept, or of a checkpoint that is retained on cancellation. For other kinds they are NullProperties.
func PropertiesOf(k Kind) Properties {
	const (
		core, checkpoint = "org.apache.flink.core.execution.", "org.apache.flink.runtime.checkpoint."
		enumUID          = "\x00\x00\x00\x00\x00\x00\x00\x00"
		enumFlags, null  = "\x12", "p"
		text             = "Ljava/lang/String;"
		reference        = "q\x00\x7e\x00\x09" // to the description of java.lang.Enum
	)
	utf := func(s string) string { return string([]byte{byte(len(s) >> 8), byte(len(s))}) + s }
	newText := func(s string) string { return "t" + utf(s) }
	field := func(name, class string) string {
		return "L" + utf(name) + newText("L"+strings.ReplaceAll(class, ".", "/")+";")
	}
	class := func(name, uid, flags, super string, fields ...string) string {
		return "r" + utf(name) + uid + flags + string([]byte{0, byte(len(fields))}) + strings.Join(fields, "") + "x" + super
	}
	enum := class("java.lang.Enum", enumUID, enumFlags, null)
	constant := func(name, super, value string) string {
		return "~" + class(name, enumUID, enumFlags, super) + newText(value)
	}
	var flags []string
	for _, name := range []string{"discardCancelled", "discardFailed", "discardFinished", "discardSubsumed", "discardSuspended", "forced", "unclaimed"} {
		flags = append(flags, "Z"+utf(name))
	}
	properties := "\xac\xed\x00\x05s" + class(propertiesClass, "\x00\x00\x00\x00\x00\x00\x00\x02", "\x02", null,
		append(flags, field("checkpointType", checkpoint+"SnapshotType"))...)
	savepoint := func(format string) Properties {
		const formats, actions = core + "SavepointFormatType", checkpoint + "SavepointType$PostCheckpointAction"
		return Properties(properties + "\x00\x00\x00\x00\x00\x01\x00s" +
			class(savepointClass, "\xa0\x87\xd3\x08\xa4X\x14\xb8", "\x02", null,
				field("formatType", formats), "L"+utf("name")+newText(text), field("postCheckpointAction", actions)) +
			constant(formats, enum, format) + newText("Savepoint") + constant(actions, reference, "NONE"))
	}
	switch k {
	case KindCanonicalSavepoint:
		return savepoint("CANONICAL")
	case KindNativeSavepoint:
		return savepoint("NATIVE")
	case KindCheckpoint:
		const strategies = checkpoint + "SnapshotType$SharingFilesStrategy"
		return Properties(properties + "\x00\x00\x01\x01\x00\x00\x00s" +
			class(checkpointClass, "\xd6\xdeO\x03\x05\xae\x1d:", "\x02", null,
				"L"+utf("name")+newText(text), field("sharingFilesStrategy", strategies)) +
			newText("Checkpoint") + constant(strategies, enum, "FORWARD_BACKWARD"))
	}
	return NullProperties
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
