package metadata

import (
	"bytes"
	"strings"
)

// Properties is the Java-serialized CheckpointProperties at the end of a
// file of version 4 and later. It is carried, never deserialized; a
// recognizer of the forms that Flink writes tells what it says.
type Properties []byte

// NullProperties is what Flink writes for no properties, as its State
// Processor API does.
var NullProperties = Properties("\xac\xed\x00\x05p")

// propertiesClass begins every serialized CheckpointProperties.
const propertiesClass = "\xac\xed\x00\x05sr\x00\x38org.apache.flink.runtime.checkpoint.CheckpointProperties"

// Offsets in serialized CheckpointProperties.
const (
	propertiesFlags = 0x102 // seven booleans
	propertiesType  = 0x109 // the type object
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

// PropertiesInfo is what the recognizer finds.
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

// propertiesForm is one of the forms of the type object, told by class and constants.
type propertiesForm struct {
	kind Kind
	stop string
	size int // of the whole serialized object
}

// forms are the lengths of what Flink 1.16 to 2.3 write.
var forms = []propertiesForm{
	{KindCheckpoint, "", 604},
	{KindFullCheckpoint, "", 600},
	{KindCanonicalSavepoint, "", 745},
	{KindNativeSavepoint, "", 742},
	{KindCanonicalSavepoint, "suspend", 756},
	{KindNativeSavepoint, "suspend", 753},
	{KindCanonicalSavepoint, "terminate", 760},
	{KindNativeSavepoint, "terminate", 757},
}

// constant is a serialized Java string with its length.
func constant(s string) []byte {
	return append([]byte{'t', byte(len(s) >> 8), byte(len(s))}, s...)
}

// form recognizes p, also if it goes on after the object.
func (p Properties) form() (propertiesForm, bool) {
	if !bytes.HasPrefix(p, []byte(propertiesClass)) || len(p) < propertiesType {
		return propertiesForm{}, false
	}
	t := p[propertiesType:]
	for _, f := range forms {
		if len(p) < f.size {
			continue
		}
		t := t[:f.size-propertiesType]
		var class, mark, last string
		switch f.kind {
		case KindCheckpoint:
			class, mark, last = "CheckpointType", "Checkpoint", "FORWARD_BACKWARD"
		case KindFullCheckpoint:
			class, mark, last = "CheckpointType", "Full Checkpoint", "FORWARD"
		case KindCanonicalSavepoint:
			class, mark = "SavepointType", "CANONICAL"
		case KindNativeSavepoint:
			class, mark = "SavepointType", "NATIVE"
		}
		if class == "SavepointType" {
			last = strings.ToUpper(f.stop)
			if last == "" {
				last = "NONE"
			}
		}
		if bytes.Contains(t, []byte(".checkpoint."+class)) && bytes.Contains(t, constant(mark)) && bytes.HasSuffix(t, constant(last)) {
			return f, true
		}
	}
	return propertiesForm{}, false
}

// missing is how many bytes p must at least be longer to be whole, as far as
// it is a beginning of a form that is known; 0 if it is whole or unknown.
func (p Properties) missing() int {
	if bytes.HasPrefix(p, NullProperties) {
		return 0
	}
	if len(p) < len(NullProperties) {
		return len(NullProperties) - len(p)
	}
	if n := min(len(p), len(propertiesClass)); string(p[:n]) != propertiesClass[:n] {
		return 0
	}
	if _, ok := p.form(); ok {
		return 0
	}
	// A known class, and yet no known form: too short for the shortest one
	// of its type is certainly cut, anything longer may be a form of its own.
	least := 600
	if bytes.Contains(p, []byte(".checkpoint.SavepointType")) {
		least = 742
	}
	return max(0, least-len(p))
}

// Info says what the properties tell. Unknown properties give the zero value.
func (p Properties) Info() PropertiesInfo {
	if bytes.HasPrefix(p, NullProperties) {
		return PropertiesInfo{Trailing: len(p) - len(NullProperties)}
	}
	f, ok := p.form()
	if !ok {
		return PropertiesInfo{}
	}
	info := PropertiesInfo{Kind: f.kind, Stop: f.stop, Trailing: len(p) - f.size}
	// discardCancelled, discardFailed, discardFinished, discardSubsumed, discardSuspended
	switch string(p[propertiesFlags : propertiesFlags+5]) {
	case "\x01\x01\x01\x01\x01":
		info.Retention = "never retained"
	case "\x01\x00\x01\x01\x01":
		info.Retention = "retained on failure"
	case "\x00\x00\x01\x01\x00":
		info.Retention = "retained on cancellation"
	case "\x00\x00\x00\x00\x00":
		info.Retention = "kept"
	}
	return info
}
