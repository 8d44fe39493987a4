package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/drey-state/drey/serializer"
)

// EncodeKeyJSON gives the bytes of a key from its JSON, as [Entry.AppendKeyJSON] prints it. Errors of this and
// the methods like it are those of [serializer.EncodeJSON].
func (s *State) EncodeKeyJSON(text []byte) ([]byte, error) {
	b, err := serializer.EncodeKeyJSON(s.Key, text)
	return b, s.wrap("key", err)
}

// EncodeNamespaceJSON is the inverse of [Entry.AppendNamespaceJSON].
func (s *State) EncodeNamespaceJSON(text []byte) ([]byte, error) {
	b, err := serializer.EncodeKeyJSON(s.Namespace, text)
	return b, s.wrap("namespace", err)
}

// EncodeUserKeyJSON is the inverse of [Entry.AppendUserKeyJSON]. It fails for a state that is no map.
func (s *State) EncodeUserKeyJSON(text []byte) ([]byte, error) {
	if s.UserKey == nil {
		return nil, s.wrap("user key", errors.New("only a map has one"))
	}
	b, err := serializer.EncodeKeyJSON(s.UserKey, text)
	return b, s.wrap("user key", err)
}

// EncodeValueJSON gives the Value and Null of an [Entry] from the JSON of its value, as [Entry.AppendValueJSON] prints it: that of a
// whole list, the elements joined by commas; of one entry of a map, whose null has no bytes and no time of access. Timers have no value: theirs is null.
// An empty list has no bytes; Flink has no entry for one, which is removed instead.
func (s *State) EncodeValueJSON(text []byte) (value []byte, null bool, err error) {
	isNull := string(bytes.TrimSpace(text)) == "null"
	switch {
	case s.Value == nil && isNull:
		return nil, false, nil
	case s.Value == nil:
		return nil, false, s.wrap("value", errors.New("a timer has none"))
	case s.Type == TypeMap && isNull && !s.TTL:
		return nil, true, nil
	case s.Type == TypeList:
		value, err = s.encodeList(text)
	default:
		value, err = serializer.EncodeJSON(s.Value, text)
	}
	if err != nil {
		return nil, false, s.wrap("value", err)
	}
	return value, false, nil
}

func (s *State) encodeList(text []byte) ([]byte, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(text, &elements); err != nil {
		return nil, err
	}
	if elements == nil {
		return nil, errors.New("an array is expected, not null")
	}
	var list []byte
	for i, e := range elements {
		b, err := serializer.EncodeJSON(s.Value, e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, b...)
	}
	return list, nil
}

func (s *State) wrap(part string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state %q: %s: %w", s.Meta.Name, part, err)
}

// EncodeKeyJSON gives the bytes of the key of a broadcast state from its JSON, as [OperatorEntry.AppendKeyJSON] prints
// it. It fails for a state without keys.
func (s *OperatorState) EncodeKeyJSON(text []byte) ([]byte, error) {
	if s.Key == nil {
		return nil, s.wrap("key", errors.New("only a broadcast state has one"))
	}
	b, err := serializer.EncodeKeyJSON(s.Key, text)
	return b, s.wrap("key", err)
}

// EncodeValueJSON is the inverse of [OperatorEntry.AppendValueJSON]: of one element of a list, or of the value of an
// entry of a broadcast state.
func (s *OperatorState) EncodeValueJSON(text []byte) ([]byte, error) {
	b, err := serializer.EncodeJSON(s.values(), text)
	return b, s.wrap("value", err)
}

func (s *OperatorState) wrap(part string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state %q: %s: %w", s.Name, part, err)
}
