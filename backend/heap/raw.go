package heap

import (
	"encoding/binary"
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
)

// rawState is a state that was restored but not opened: its entries as bytes, which never change.
type rawState struct {
	state  *backend.State
	groups [][]byte // entries, one after the other, by index of key group
	first  int      // the first key group
	n      int64
}

func newRawState(s *backend.State, groups keygroup.Range) *rawState {
	return &rawState{state: s, groups: make([][]byte, groups.Len()), first: groups.Start}
}

func (r *rawState) meta() *backend.State { return r.state }
func (r *rawState) len() int64           { return r.n }
func (r *rawState) release(int)          {}

// into hands the entries over to a table.
func (r *rawState) into(t loader) error {
	var how restored
	if err := t.adapt(r.state, &how); err != nil {
		return err
	}
	for g := range r.groups {
		var failed error
		_ = r.parts(g, func(e *backend.Entry) bool {
			failed = t.load(g, e, &how)
			return failed == nil
		})
		if failed != nil {
			return fmt.Errorf("key group %d: %w", r.first+g, failed)
		}
	}
	return nil
}

// add appends an entry: whether its value is null, its timestamp, and then its parts, each with its length.
func (r *rawState) add(e *backend.Entry, group int) error {
	b := r.groups[group]
	null := byte(0)
	if e.Null {
		null = 1
	}
	b = append(b, null)
	b = binary.AppendVarint(b, e.Timestamp)
	for _, part := range [][]byte{e.Key, e.Namespace, e.UserKey, e.Value} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	r.groups[group] = b
	r.n++
	return nil
}

func (r *rawState) parts(group int, yield func(*backend.Entry) bool) error {
	e := &backend.Entry{State: r.state, KeyGroup: r.first + group}
	for b := r.groups[group]; len(b) > 0; {
		e.Null = b[0] != 0
		timestamp, n := binary.Varint(b[1:])
		e.Timestamp, b = timestamp, b[1+n:]
		for _, part := range []*[]byte{&e.Key, &e.Namespace, &e.UserKey, &e.Value} {
			size, n := binary.Uvarint(b)
			*part, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		}
		if e.State.Type != backend.TypeMap {
			e.UserKey = nil
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}

func (r *rawState) entries(group int, yield func(key, value []byte) bool) error {
	var key, value []byte
	return r.parts(group, func(e *backend.Entry) bool {
		key, value = e.AppendStoredKey(key[:0]), e.AppendStoredValue(value[:0])
		return yield(key, value)
	})
}

func (r *rawState) native(group int, w *backend.HeapWriter) error {
	var failed error
	_ = r.parts(group, func(e *backend.Entry) bool {
		failed = w.Add(e)
		return failed == nil
	})
	return failed
}
