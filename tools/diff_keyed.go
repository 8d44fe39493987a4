package tools

import (
	"bytes"
	"errors"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// keyedTable maps the identities of entries of the old side to the hashes of their values.
type keyedTable map[xxh3.Uint128]uint64

// compareKeyed compares keyed state in as many passes as the tables need,
// each over the entries whose hash has the same remainder.
func (w *worker) compareKeyed() error {
	table := w.tables.get()
	if *table == nil {
		*table = keyedTable{}
	}
	defer w.tables.put(table)
	passes := uint64(1)
	err := w.fill(*table, 0, passes, w.budget)
	for errors.Is(err, errOverBudget) {
		passes *= 4
		err = w.fill(*table, 0, passes, w.budget)
	}
	for pass := uint64(0); err == nil; pass++ {
		if err = w.pass(*table, pass, passes); err != nil || pass+1 == passes {
			break
		}
		err = w.fill(*table, pass+1, passes, 0) // hashes are even: it is about as large as the first
	}
	return err
}

// fill makes the table of the entries of a pass. One that gets larger than
// most, if that is not 0, ends with [errOverBudget].
func (w *worker) fill(table keyedTable, pass, passes uint64, most int) error {
	clear(table)
	counts := map[*comparedState]int64{}
	var last *backend.State
	var s *comparedState
	var n int64
	next := func(state *backend.State) {
		if s != nil {
			counts[s] += n
		}
		n = 0
		if state != nil {
			last, s = state, w.state(state.Meta.Name, string(state.Type))
		}
	}
	err := w.scan(sideOld, visitor{keyed: func(e *backend.Entry) error {
		if e.State != last {
			next(e.State)
		}
		id := w.identity(s, e)
		if id.Hi%passes != pass {
			return nil
		}
		n++
		table[id] = w.valueHash(e)
		if most > 0 && len(table) > most {
			return errOverBudget
		}
		return nil
	}})
	if err != nil {
		return err
	}
	next(nil)
	for s, n := range counts {
		s.Old += n
	}
	return nil
}

// newValue is the new value of an entry whose old value has other bytes.
type newValue struct {
	state *comparedState
	entry backend.Entry // with state, value and null only
}

// pass compares the entries of one pass.
func (w *worker) pass(table keyedTable, pass, passes uint64) error {
	pending := map[xxh3.Uint128]newValue{}
	pendingBytes := 0
	var last *backend.State
	var s *comparedState
	err := w.scan(sideNew, visitor{keyed: func(e *backend.Entry) error {
		if e.State != last {
			last, s = e.State, w.state(e.State.Meta.Name, string(e.State.Type))
		}
		id := w.identity(s, e)
		if id.Hi%passes != pass {
			return nil
		}
		s.New++
		hash, ok := table[id]
		if !ok && w.unread(sideOld) {
			return nil
		}
		if !ok {
			s.Added++
			return w.show(s, func() Difference {
				x := keyedDifference(changeAdded, e)
				x.New = valueJSON(e)
				return x
			})
		}
		delete(table, id)
		if hash == w.valueHash(e) {
			return nil
		}
		pending[id] = newValue{s, backend.Entry{State: e.State, Value: bytes.Clone(e.Value), Null: e.Null}}
		if pendingBytes += len(e.Value) + 200; pendingBytes < diffPending {
			return nil
		}
		pendingBytes = 0
		return w.changed(pending)
	}})
	if err == nil && len(pending) > 0 {
		err = w.changed(pending)
	}
	if err != nil || len(table) == 0 || w.unread(sideNew) {
		return err
	}
	last = nil
	return w.scan(sideOld, visitor{keyed: func(e *backend.Entry) error {
		if e.State != last {
			last, s = e.State, w.state(e.State.Meta.Name, string(e.State.Type))
		}
		id := w.identity(s, e)
		if _, ok := table[id]; !ok {
			return nil
		}
		delete(table, id)
		s.Removed++
		return w.show(s, func() Difference {
			x := keyedDifference(changeRemoved, e)
			x.Old = valueJSON(e)
			return x
		})
	}})
}

// changed looks for the old values of entries that have new ones, compares
// them decoded, and empties pending.
func (w *worker) changed(pending map[xxh3.Uint128]newValue) error {
	var last *backend.State
	var s *comparedState
	err := w.scan(sideOld, visitor{keyed: func(e *backend.Entry) error {
		if len(pending) == 0 {
			return nil
		}
		if e.State != last {
			last, s = e.State, w.state(e.State.Meta.Name, string(e.State.Type))
		}
		id := w.identity(s, e)
		now, ok := pending[id]
		if !ok {
			return nil
		}
		delete(pending, id)
		if w.equal(e, &now.entry) {
			return nil
		}
		s.Changed++
		return w.show(s, func() Difference {
			x := keyedDifference(changeChanged, e)
			x.Old, x.New = valueJSON(e), valueJSON(&now.entry)
			return x
		})
	}})
	clear(pending)
	return err
}

// equal compares two values decoded.
func (w *worker) equal(a, b *backend.Entry) bool {
	x, err := a.DecodeValue()
	if err != nil {
		return false
	}
	y, err := b.DecodeValue()
	return err == nil && bytes.Equal(appendCanonical(nil, x, w.o.IgnoreTTL), appendCanonical(nil, y, w.o.IgnoreTTL))
}

func valueJSON(e *backend.Entry) rawJSON {
	if e.State.Type == backend.TypeTimers {
		return ""
	}
	return jsonOf(e.AppendValueJSON)
}

// appendCanonical appends a decoded value as text that is equal for equal
// values: like JSON, with the entries of maps sorted.
func appendCanonical(dst []byte, v any, ignoreTTL bool) []byte {
	switch v := v.(type) {
	case []any:
		dst = append(dst, '[')
		for _, e := range v {
			dst = append(appendCanonical(dst, e, ignoreTTL), ',')
		}
		return append(dst, ']')
	case serializer.Map:
		entries := make([][]byte, len(v))
		for i, e := range v {
			b := append(appendCanonical(nil, e.Key, ignoreTTL), ':')
			entries[i] = appendCanonical(b, e.Value, ignoreTTL)
		}
		slices.SortFunc(entries, bytes.Compare)
		dst = append(dst, '{')
		for _, e := range entries {
			dst = append(append(dst, e...), ',')
		}
		return append(dst, '}')
	case *serializer.Record:
		dst = append(append(append(dst, v.Class...), ' '), v.Kind...)
		dst = append(dst, '(')
		for _, f := range v.Fields {
			dst = append(append(dst, f.Name...), '=')
			dst = append(appendCanonical(dst, f.Value, ignoreTTL), ',')
		}
		return append(dst, ')')
	case serializer.Either:
		side := "right "
		if v.Left {
			side = "left "
		}
		return appendCanonical(append(dst, side...), v.Value, ignoreTTL)
	case serializer.TTL:
		dst = appendCanonical(dst, v.Value, ignoreTTL)
		if ignoreTTL {
			return dst
		}
		return serializer.AppendJSON(append(dst, " at "...), v.LastAccess)
	}
	return serializer.AppendJSON(dst, v)
}
