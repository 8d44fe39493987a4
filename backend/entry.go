package backend

import (
	"bytes"
	"fmt"

	"github.com/drey-state/drey/serializer"
)

// Entry is one entry of keyed state as serialized bytes, the same whatever
// the file's format: a value of a key and namespace, a whole list, one entry
// of a map, or a timer. The slices are valid until the next entry. One
// goroutine may use it at a time.
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
	// Joined says so of Namespace: it holds all that follows the key.
	Joined bool

	in *serializer.Input // scratch
}

// DecodeKey decodes the key. This and the other methods that decode give a
// [serializer.Opaque] with an error if the bytes are not what the serializer
// writes; the error unwraps to [serializer.ErrCorrupt] if bytes are left over.
// A value of a type that is not known is an Opaque without an error.
func (e *Entry) DecodeKey() (any, error) {
	if e.Unsplit {
		return joined(e.Key), nil
	}
	v, err := decode(e.input(), e.State.Key, e.Key)
	return v, e.wrap("key", err)
}

// DecodeNamespace decodes the namespace, nil if it could not be told from the key.
func (e *Entry) DecodeNamespace() (any, error) {
	switch {
	case e.Unsplit:
		return nil, nil
	case e.Joined:
		return joined(e.Namespace), nil
	}
	v, err := decode(e.input(), e.State.Namespace, e.Namespace)
	return v, e.wrap("namespace", err)
}

// DecodeUserKey decodes the user key of a map's entry, nil for other types.
func (e *Entry) DecodeUserKey() (any, error) {
	if e.noUserKey() {
		return nil, nil
	}
	v, err := decode(e.input(), e.State.UserKey, e.UserKey)
	return v, e.wrap("user key", err)
}

// DecodeValue decodes the value: an []any for a list, nil for timers.
func (e *Entry) DecodeValue() (any, error) {
	if e.noValue() {
		return nil, nil
	}
	if e.State.Type != TypeList {
		v, err := decode(e.input(), e.State.Value, e.Value)
		return v, e.wrap("value", err)
	}
	list := []any{}
	e.input().Reset(e.Value)
	for i := 0; e.element(i); i++ {
		list = append(list, e.State.Value.Read(e.in))
	}
	if err := e.in.Err(); err != nil {
		return opaque(e.Value, err), e.wrap("value", err)
	}
	return list, nil
}

// AppendKeyJSON appends the JSON of the decoded key, faster than decoding
// first. What can't be decoded is appended as [serializer.Opaque]; then the
// error says why, and dst is still whole JSON.
func (e *Entry) AppendKeyJSON(dst []byte) ([]byte, error) {
	if e.Unsplit {
		return serializer.AppendJSON(dst, joined(e.Key)), nil
	}
	dst, err := appendDecoded(dst, e.input(), e.State.Key, e.Key)
	return dst, e.wrap("key", err)
}

// AppendNamespaceJSON is [Entry.AppendKeyJSON] for the namespace.
func (e *Entry) AppendNamespaceJSON(dst []byte) ([]byte, error) {
	if e.Unsplit {
		return append(dst, "null"...), nil
	}
	if e.Joined {
		return serializer.AppendJSON(dst, joined(e.Namespace)), nil
	}
	dst, err := appendDecoded(dst, e.input(), e.State.Namespace, e.Namespace)
	return dst, e.wrap("namespace", err)
}

// AppendUserKeyJSON is [Entry.AppendKeyJSON] for the user key.
func (e *Entry) AppendUserKeyJSON(dst []byte) ([]byte, error) {
	if e.noUserKey() {
		return append(dst, "null"...), nil
	}
	dst, err := appendDecoded(dst, e.input(), e.State.UserKey, e.UserKey)
	return dst, e.wrap("user key", err)
}

// AppendValueJSON is [Entry.AppendKeyJSON] for the value.
func (e *Entry) AppendValueJSON(dst []byte) ([]byte, error) {
	if e.noValue() {
		return append(dst, "null"...), nil
	}
	if e.State.Type != TypeList {
		dst, err := appendDecoded(dst, e.input(), e.State.Value, e.Value)
		return dst, e.wrap("value", err)
	}
	start := len(dst)
	dst = append(dst, '[')
	e.input().Reset(e.Value)
	for i := 0; e.element(i); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = serializer.AppendRead(dst, e.State.Value, e.in)
	}
	if err := e.in.Err(); err != nil {
		return serializer.AppendJSON(dst[:start], opaque(e.Value, err)), e.wrap("value", err)
	}
	return append(dst, ']'), nil
}

// element moves to element i of a list, and says whether there is one.
func (e *Entry) element(i int) bool {
	in := e.in
	if in.Lost() || in.AtEnd() {
		return false
	}
	if i == 0 {
		return true
	}
	if c := in.U8(); c != ',' {
		in.Failf("list", "byte %#02x between elements", c)
	} else if in.AtEnd() {
		in.Failf("list", "a comma at the end")
	}
	return in.Err() == nil
}

func (e *Entry) noUserKey() bool { return e.State.UserKey == nil || e.Unsplit || e.Joined }

func (e *Entry) noValue() bool { return e.State.Value == nil || e.Null }

// joined stands for parts that cannot be told apart.
func joined(b []byte) any {
	return serializer.Opaque{Raw: bytes.Clone(b), Reason: "joined with what follows it, because a serializer is not known"}
}

// input is the scratch of an entry, also of one that no reader made.
func (e *Entry) input() *serializer.Input {
	if e.in == nil {
		e.in = serializer.NewInput(nil)
	}
	return e.in
}

func (e *Entry) wrap(part string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state %q, key group %d: %s: %w", e.State.Meta.Name, e.KeyGroup, part, err)
}

// decode decodes one value that fills b.
func decode(in *serializer.Input, s serializer.Serializer, b []byte) (any, error) {
	in.Reset(b)
	v := s.Read(in)
	if err := in.Finish(); err != nil {
		return opaque(b, err), err
	}
	return v, nil
}

// appendDecoded appends the JSON of one value that fills b.
func appendDecoded(dst []byte, in *serializer.Input, s serializer.Serializer, b []byte) ([]byte, error) {
	in.Reset(b)
	start := len(dst)
	dst = serializer.AppendRead(dst, s, in)
	if err := in.Finish(); err != nil {
		return serializer.AppendJSON(dst[:start], opaque(b, err)), err
	}
	return dst, nil
}

func opaque(b []byte, err error) serializer.Opaque {
	return serializer.Opaque{Raw: bytes.Clone(b), Reason: err.Error()}
}
