package incremental

import "hash/maphash"

// names gives paths dense numbers, and takes the numbers back. A path is the
// number of its directory in another names, and its last segment. It keeps the
// text of each segment once, so that an answer is never a matter of hashes.
type names struct {
	seed    maphash.Seed
	byHash  map[uint64]uint32 // to the first entry of a chain
	entries []entry
	free    []uint32
	text    []byte
	garbage int // bytes of text of entries that are free
}

type entry struct {
	offset uint64 // of the name in text
	parent uint32
	next   uint32 // entry of the same hash plus 1, or 0
	uses   uint32
	length uint32
	live   bool
}

func newNames() *names {
	return &names{seed: maphash.MakeSeed(), byHash: map[uint64]uint32{}}
}

func (n *names) hash(parent uint32, name string) uint64 {
	return maphash.String(n.seed, name) ^ uint64(parent)*0x9e3779b97f4a7c15
}

// name is the text of an entry.
func (n *names) name(id uint32) []byte {
	e := &n.entries[id]
	return n.text[e.offset : e.offset+uint64(e.length)]
}

func (n *names) find(parent uint32, name string) (uint32, bool) {
	id, ok := n.byHash[n.hash(parent, name)]
	for ok {
		e := &n.entries[id]
		if e.parent == parent && string(n.name(id)) == name {
			return id, true
		}
		id, ok = e.next-1, e.next != 0
	}
	return 0, false
}

// intern gives the entry of a name, a new one without uses if there is none.
func (n *names) intern(parent uint32, name string) (id uint32, added bool) {
	if id, ok := n.find(parent, name); ok {
		return id, false
	}
	e := entry{offset: uint64(len(n.text)), parent: parent, length: uint32(len(name)), live: true}
	n.text = append(n.text, name...)
	h := n.hash(parent, name)
	if first, ok := n.byHash[h]; ok {
		e.next = first + 1
	}
	if last := len(n.free) - 1; last >= 0 {
		id, n.free = n.free[last], n.free[:last]
		n.entries[id] = e
	} else {
		id = uint32(len(n.entries))
		n.entries = append(n.entries, e)
	}
	n.byHash[h] = id
	return id, true
}

// remove gives the number of an entry back.
func (n *names) remove(id uint32) {
	e := &n.entries[id]
	h := n.hash(e.parent, string(n.name(id)))
	if first := n.byHash[h]; first != id {
		for n.entries[first].next != id+1 {
			first = n.entries[first].next - 1
		}
		n.entries[first].next = e.next
	} else if e.next != 0 {
		n.byHash[h] = e.next - 1
	} else {
		delete(n.byHash, h)
	}
	n.garbage += int(e.length)
	*e = entry{}
	n.free = append(n.free, id)
	if n.garbage > 1<<16 && n.garbage > len(n.text)/2 {
		n.compact()
	}
}

// compact drops the text of entries that are free.
func (n *names) compact() {
	text := make([]byte, 0, len(n.text)-n.garbage)
	for id := range n.entries {
		if e := &n.entries[id]; e.live {
			name := n.name(uint32(id))
			e.offset = uint64(len(text))
			text = append(text, name...)
		}
	}
	n.text, n.garbage = text, 0
}
