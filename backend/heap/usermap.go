package heap

import (
	"slices"

	"github.com/drey-state/drey/backend"
)

// mostSearched is the number of entries up to which a map is searched through. Most maps of a state are small,
// and then a slice is smaller and faster than a hash table.
const mostSearched = 16

// userMap is the map of one key and namespace.
type userMap[U comparable, V any] struct {
	entries []backend.MapEntry[U, V]
	index   map[U]int // where an entry is; nil for as long as there are few
	// epoch is that of the table when the entries were made. Snapshots of later epochs may read them.
	epoch uint64
}

// find gives the place of an entry, -1 if there is none.
func (m *userMap[U, V]) find(u U) int {
	if m.index != nil {
		if i, ok := m.index[u]; ok {
			return i
		}
		return -1
	}
	for i := range m.entries {
		if m.entries[i].Key == u {
			return i
		}
	}
	return -1
}

func (m *userMap[U, V]) put(u U, v V) {
	if i := m.find(u); i >= 0 {
		m.entries[i].Value = v
		return
	}
	m.add(u, v)
}

// add adds an entry whose key is not there.
func (m *userMap[U, V]) add(u U, v V) {
	m.entries = append(m.entries, backend.MapEntry[U, V]{Key: u, Value: v})
	switch n := len(m.entries); {
	case m.index != nil:
		m.index[u] = n - 1
	case n > mostSearched:
		m.index = make(map[U]int, n)
		for i := range m.entries {
			m.index[m.entries[i].Key] = i
		}
	}
}

// remove removes the entry at a place, which the last one takes.
func (m *userMap[U, V]) remove(i int) {
	last := len(m.entries) - 1
	if m.index != nil {
		delete(m.index, m.entries[i].Key)
		if i < last {
			m.index[m.entries[last].Key] = i
		}
	}
	m.entries[i] = m.entries[last]
	m.entries[last] = backend.MapEntry[U, V]{}
	m.entries = m.entries[:last]
	if cap(m.entries) > mostSearched && len(m.entries)*shrink < cap(m.entries) {
		*m = m.clone(m.epoch)
	}
}

// clone gives a map of the same entries, of no more room than they need.
func (m *userMap[U, V]) clone(epoch uint64) userMap[U, V] { return m.where(epoch, nil) }

// where gives a map of the entries that are not to be left out.
func (m *userMap[U, V]) where(epoch uint64, out func(V) bool) userMap[U, V] {
	c := userMap[U, V]{entries: make([]backend.MapEntry[U, V], 0, len(m.entries)), epoch: epoch}
	if out == nil {
		c.entries = append(c.entries, m.entries...)
	} else {
		for _, e := range m.entries {
			if !out(e.Value) {
				c.entries = append(c.entries, e)
			}
		}
	}
	if len(c.entries) > mostSearched {
		c.index = make(map[U]int, len(c.entries))
		for i := range c.entries {
			c.index[c.entries[i].Key] = i
		}
	}
	return c
}

// any says that a value is.
func (m *userMap[U, V]) any(is func(V) bool) bool {
	return slices.ContainsFunc(m.entries, func(e backend.MapEntry[U, V]) bool { return is(e.Value) })
}
