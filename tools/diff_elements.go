package tools

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
)

// elementCount is how often an element is there more often on the old side,
// and the hash of its value if it has a key.
type elementCount struct {
	old, new int32
	value    uint64
	changed  bool
}

// compareElements compares operator state: lists as multisets over all
// subtasks, union state, of which every subtask may have all, as a set, and
// broadcast state, of which every subtask has a copy, as a map.
func (w *worker) compareElements() error {
	table := map[xxh3.Uint128]elementCount{}
	count := func(side int) error {
		return w.scan(side, visitor{element: func(e *backend.OperatorEntry) error {
			s := w.state(e.State.Name, e.State.Mode.String())
			id, value := w.elementIdentity(s, e)
			c := table[id]
			n, total := &c.old, &s.Old
			if side == sideNew {
				n, total = &c.new, &s.New
			}
			if *n > 0 && e.State.Mode != metadata.ModeSplit {
				return nil // a copy
			}
			*n++
			*total++
			if side == sideOld {
				c.value = value
			} else {
				c.changed = c.old > 0 && c.value != value
			}
			table[id] = c
			return nil
		}})
	}
	for side := range sides {
		if err := count(side); err != nil {
			return err
		}
	}
	different := false
	for id, c := range table {
		if c.old == c.new && !c.changed {
			delete(table, id)
			continue
		}
		different = true
	}
	if !different {
		return nil
	}
	news := map[xxh3.Uint128]rawJSON{} // new values of entries of broadcast state that changed
	err := w.scan(sideNew, visitor{element: func(e *backend.OperatorEntry) error {
		s := w.state(e.State.Name, e.State.Mode.String())
		id, _ := w.elementIdentity(s, e)
		c := table[id]
		switch {
		case c.changed:
			news[id] = jsonOf(e.AppendValueJSON)
			return nil
		case c.new <= c.old || w.unread(sideOld):
			return nil
		}
		c.new--
		table[id] = c
		s.Added++
		return w.show(s, func() Difference { return elementDifference(changeAdded, e, "", jsonOf(e.AppendValueJSON)) })
	}})
	if err != nil {
		return err
	}
	return w.scan(sideOld, visitor{element: func(e *backend.OperatorEntry) error {
		s := w.state(e.State.Name, e.State.Mode.String())
		id, _ := w.elementIdentity(s, e)
		c := table[id]
		switch {
		case c.changed:
			delete(table, id)
			s.Changed++
			return w.show(s, func() Difference { return elementDifference(changeChanged, e, jsonOf(e.AppendValueJSON), news[id]) })
		case c.old <= c.new || w.unread(sideNew):
			return nil
		}
		c.old--
		table[id] = c
		s.Removed++
		return w.show(s, func() Difference { return elementDifference(changeRemoved, e, jsonOf(e.AppendValueJSON), "") })
	}})
}

// elementIdentity is the hash of what makes an element the same one on both
// sides: its key, or its value if it has none; and the hash of its value if it has a key.
func (w *worker) elementIdentity(s *comparedState, e *backend.OperatorEntry) (id xxh3.Uint128, value uint64) {
	b := binary.BigEndian.AppendUint32(w.buf[:0], s.id)
	if e.Key != nil {
		b = w.elementPart(b, s, e.Key, e.DecodeKey)
		id = xxh3.Hash128(b)
		b = w.elementPart(b[:0], s, e.Value, e.DecodeValue)
		value = xxh3.Hash(b)
	} else {
		b = w.elementPart(b, s, e.Value, e.DecodeValue)
		id = xxh3.Hash128(b)
	}
	w.buf = b
	return id, value
}

// elementPart appends what to compare of a part: its bytes, or its decoded
// text where equal values may have different bytes.
func (w *worker) elementPart(dst []byte, s *comparedState, raw []byte, decode func() (any, error)) []byte {
	if s.texts {
		if v, err := decode(); err == nil {
			return appendCanonical(dst, v, w.o.IgnoreTTL)
		}
	}
	return append(dst, raw...)
}

func elementDifference(change string, e *backend.OperatorEntry, old, new rawJSON) Difference {
	x := Difference{Change: change, KeyGroup: -1, Old: old, New: new}
	if e.Key != nil {
		x.Key = jsonOf(e.AppendKeyJSON)
	}
	return x
}
