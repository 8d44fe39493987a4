package heap

import (
	"math/bits"
	"slices"

	"github.com/drey-state/drey/backend"
)

// mostTagged is the number of entries up to which a map is searched by tags, of which two words hold so many.
// Most maps of a state are small, and then they are smaller and faster than with a hash table.
const mostTagged = 16

// userMap is the map of one key and namespace. Beside a key of eight bytes it fills a cache line, which is all
// that is read to find out that a small map doesn't have an entry, mostly; to find one costs another.
type userMap[U comparable, V any] struct {
	entries []backend.MapEntry[U, V]
	index   map[U]int // where an entry is; nil for as long as there are few
	// tags has for each of few entries a byte of the hash of its key, not zero: that of entry i is byte i%8 of word i/8.
	tags [2]uint64
	// epoch is that of the table when the entries were made. Snapshots of later epochs may read them.
	epoch uint64
}

// userSeed is that of all maps, whose tags don't leave them.
var userSeed = newSeed()

// userTag gives the tag of a user key.
func userTag[U comparable](u U) uint64 { return max(sumOf(&userSeed, u)>>56, 1) }

// tagged gives what has the lowest bit of each byte set that is the tag. Bytes above such a one may be set wrongly.
func tagged(tags, tag uint64) uint64 {
	const ones = 0x0101010101010101
	x := tags ^ tag*ones
	return (x - ones) &^ x >> 7 & ones
}

// find gives the place of an entry, -1 if there is none.
func (m *userMap[U, V]) find(u U) int {
	if m.index != nil {
		if i, ok := m.index[u]; ok {
			return i
		}
		return -1
	}
	return m.search(u, userTag(u))
}

// search is find of few entries, for a key with this tag.
func (m *userMap[U, V]) search(u U, tag uint64) int {
	// No branch says in which of the words the tag is: it would be mispredicted, which costs an access to memory.
	for at := tagged(m.tags[0], tag) | tagged(m.tags[1], tag)<<1; at != 0; at &= at - 1 {
		bit := bits.TrailingZeros64(at)
		if i := bit>>3 | bit&1<<3; i < len(m.entries) && m.entries[i].Key == u {
			return i
		}
	}
	return -1
}

// setTag sets the tag of an entry, zero if there is none any more.
func (m *userMap[U, V]) setTag(i int, tag uint64) {
	word, shift := &m.tags[i>>3], i&7*8
	*word = *word&^(0xff<<shift) | tag<<shift
}

func (m *userMap[U, V]) put(u U, v V) {
	var i int
	var tag uint64
	if m.index != nil {
		i = m.find(u)
	} else {
		tag = userTag(u)
		i = m.search(u, tag)
	}
	if i >= 0 {
		m.entries[i].Value = v
		return
	}
	m.add(u, v, tag)
}

// add adds an entry whose key is not there and has this tag, which doesn't matter if there are many.
func (m *userMap[U, V]) add(u U, v V, tag uint64) {
	n := len(m.entries)
	m.entries = append(m.entries, backend.MapEntry[U, V]{Key: u, Value: v})
	switch {
	case m.index != nil:
		m.index[u] = n
	case n < mostTagged:
		m.setTag(n, tag)
	default:
		m.makeIndex()
	}
}

// makeIndex makes what finds the entries, if there are many.
func (m *userMap[U, V]) makeIndex() {
	m.index = make(map[U]int, len(m.entries))
	for i := range m.entries {
		m.index[m.entries[i].Key] = i
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
	} else {
		m.setTag(i, m.tags[last>>3]>>(last&7*8)&0xff)
		m.setTag(last, 0)
	}
	m.entries[i] = m.entries[last]
	m.entries[last] = backend.MapEntry[U, V]{}
	m.entries = m.entries[:last]
	if cap(m.entries) > mostTagged && len(m.entries)*shrink < cap(m.entries) {
		*m = m.clone(m.epoch)
	}
}

// clone gives a map of the same entries, of no more room than they need.
func (m *userMap[U, V]) clone(epoch uint64) userMap[U, V] { return m.where(epoch, nil) }

// where gives a map of the entries that are not to be left out.
func (m *userMap[U, V]) where(epoch uint64, out func(V) bool) userMap[U, V] {
	c := userMap[U, V]{entries: make([]backend.MapEntry[U, V], 0, len(m.entries)), epoch: epoch}
	for _, e := range m.entries {
		if out == nil || !out(e.Value) {
			c.entries = append(c.entries, e)
		}
	}
	if len(c.entries) > mostTagged {
		c.makeIndex()
		return c
	}
	for i := range c.entries {
		c.setTag(i, userTag(c.entries[i].Key))
	}
	return c
}

// any says that a value is.
func (m *userMap[U, V]) any(is func(V) bool) bool {
	return slices.ContainsFunc(m.entries, func(e backend.MapEntry[U, V]) bool { return is(e.Value) })
}
