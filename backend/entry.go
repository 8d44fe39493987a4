package backend

import (
	"context"
	"iter"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// Entry is one entry of keyed state as serialized bytes, the same whatever
// the file's format: a value of a key and namespace, a whole list, one entry
// of a map, or a timer. The slices are valid until the next entry.
type Entry struct {
	State    *State
	KeyGroup int
	// Key and Namespace as their serializers wrote them.
	Key, Namespace []byte
	// UserKey is the key in a map; nil if State.Type is not [TypeMap].
	UserKey []byte
	// Value as its serializer wrote it; the elements of a list are joined by
	// commas as RocksDB has them; empty for timers and for a null in a map.
	Value []byte
	// Null says that the value of a map's entry is null.
	Null bool
	// Timestamp is when a timer fires, in milliseconds since 1970; else 0.
	Timestamp int64
	// Unsplit says that Key holds key, namespace and user key joined, because
	// a serializer is not known.
	Unsplit bool

	in *serializer.Input // scratch
}

// DecodeKey decodes the key.
func (e *Entry) DecodeKey() (any, error) { panic("not yet") }

// DecodeNamespace decodes the namespace.
func (e *Entry) DecodeNamespace() (any, error) { panic("not yet") }

// DecodeUserKey decodes the user key of a map's entry, nil for other types.
func (e *Entry) DecodeUserKey() (any, error) { panic("not yet") }

// DecodeValue decodes the value: an []any for a list, nil for timers.
func (e *Entry) DecodeValue() (any, error) { panic("not yet") }

// AppendKeyJSON, AppendNamespaceJSON, AppendUserKeyJSON and AppendValueJSON
// append the JSON of the decoded part, faster than decoding first. What can't be decoded is
// appended as [serializer.Opaque]; then the error says why, and dst is still whole JSON.
func (e *Entry) AppendKeyJSON(dst []byte) ([]byte, error)       { panic("not yet") }
func (e *Entry) AppendNamespaceJSON(dst []byte) ([]byte, error) { panic("not yet") }
func (e *Entry) AppendUserKeyJSON(dst []byte) ([]byte, error)   { panic("not yet") }
func (e *Entry) AppendValueJSON(dst []byte) ([]byte, error)     { panic("not yet") }

// Files opens the streams that handles name.
type Files struct {
	FS storage.FS
	// Dir is the directory of the metadata file, for relative handles.
	Dir string
}

// Open opens the bytes of a stream handle: inline bytes, a whole file or the
// segment of one. Offsets in the object are those of the handle.
func (f Files) Open(ctx context.Context, s metadata.Stream) (storage.Object, error) {
	panic("not yet")
}

// Filter says which entries are wanted; the zero value is all. A reader does
// not read what it can pass over.
type Filter struct {
	// KeyGroups that are wanted; nil means all.
	KeyGroups []keygroup.Range
	// State says whether a state is wanted; nil means all.
	State func(*State) bool
	// Key is the serialized key that is wanted; nil means all.
	Key []byte
}

// LostError is an error of [KeyedReader.Entries] after which the sequence
// goes on: entries that could not be read were passed over.
type LostError struct {
	// State names the state, "" if it is not known. KeyGroup is -1 if it is not known.
	State    string
	KeyGroup int
	// Entries is how many were lost, -1 if that is not known.
	Entries int64
	Err     error
}

// Error implements error.
func (e *LostError) Error() string { panic("not yet") }

// Unwrap gives the cause.
func (e *LostError) Unwrap() error { return e.Err }

// Options of a reader; the zero value is the default.
type Options struct {
	// MaxParallelism is the operator's number of key groups; it must be set for keyed state.
	MaxParallelism int
	// Raw says that the handle stands in the slot of raw keyed state.
	Raw bool
	// ReadAhead is the most that is read at once of a file, in bytes; 0 means 512 KiB.
	ReadAhead int
	// Progress, if set, is told of bytes read from files. It may be called by several goroutines at once.
	Progress func(bytes int64)
}

// KeyedReader reads the keyed state of one handle, whatever its format.
type KeyedReader struct{}

// OpenKeyed opens a handle of keyed state and reads its header. The caller closes it.
func OpenKeyed(ctx context.Context, files Files, h metadata.Keyed, o Options) (*KeyedReader, error) {
	panic("not yet")
}

// Header is what the file says of its states; nil for raw keyed state.
func (r *KeyedReader) Header() *KeyedHeader { panic("not yet") }

// States are those of the header, in its order.
func (r *KeyedReader) States() []*State { panic("not yet") }

// KeyGroups is the range of the handle.
func (r *KeyedReader) KeyGroups() keygroup.Range { panic("not yet") }

// Format names the layout: "canonical", "heap", "rocksdb", "changelog", "raw timers" or "raw".
func (r *KeyedReader) Format() string { panic("not yet") }

// Entries yields the entries that the filter lets through, in the order of
// the file. After an error that is a [*LostError] it goes on, after any other it ends. Several
// sequences may run at once, on disjoint key groups for instance.
func (r *KeyedReader) Entries(ctx context.Context, f Filter) iter.Seq2[*Entry, error] {
	panic("not yet")
}

// Close closes the files.
func (r *KeyedReader) Close() error { panic("not yet") }

// OperatorEntry is one element of a list of operator state, one entry of a
// broadcast state, or the raw bytes of raw operator state. The slices are valid until the next entry.
type OperatorEntry struct {
	State *OperatorState
	// Index is the position in its state within this handle.
	Index int
	// Key is the key of a broadcast state, else nil.
	Key, Value []byte

	in *serializer.Input // scratch
}

// DecodeKey decodes the key of a broadcast state's entry, else nil.
func (e *OperatorEntry) DecodeKey() (any, error) { panic("not yet") }

// DecodeValue decodes the value.
func (e *OperatorEntry) DecodeValue() (any, error) { panic("not yet") }

// AppendKeyJSON and AppendValueJSON are those of [Entry].
func (e *OperatorEntry) AppendKeyJSON(dst []byte) ([]byte, error)   { panic("not yet") }
func (e *OperatorEntry) AppendValueJSON(dst []byte) ([]byte, error) { panic("not yet") }

// OperatorState is one state of an operator reader with what decodes it.
type OperatorState struct {
	Name string
	// Meta is nil for raw operator state.
	Meta *StateMeta
	Mode metadata.Mode
	// Key is nil unless it is a broadcast state, Value nil for raw operator state.
	Key, Value serializer.Serializer
}

// OperatorReader reads the operator state of one handle.
type OperatorReader struct{}

// OpenOperator opens a handle of operator state and reads its header. With
// o.Raw it has none. The caller closes it.
func OpenOperator(ctx context.Context, files Files, h *metadata.OperatorState, o Options) (*OperatorReader, error) {
	panic("not yet")
}

// Header is what the file says of its states; nil for raw operator state.
func (r *OperatorReader) Header() *OperatorHeader { panic("not yet") }

// States are those of the header, in its order, or those that the handle names if there is no header.
func (r *OperatorReader) States() []*OperatorState { panic("not yet") }

// Entries yields the entries of all states of which want is true (nil: all), state by state.
func (r *OperatorReader) Entries(ctx context.Context, want func(*OperatorState) bool) iter.Seq2[*OperatorEntry, error] {
	panic("not yet")
}

// Close closes the file.
func (r *OperatorReader) Close() error { panic("not yet") }
