package incremental

import "hash/maphash"

// names gives paths dense numbers, and takes the numbers back. A path is the
// number of its directory in another names, and its last segment. It keeps the
// text of each segment once, so that an answer is never a matter of hashes.
type names struct {
	seed maphash.Seed
	// slots is a table with open addressing; its length is a power of two. A slot
	// is 0, or the tag of a name in the upper half and its number plus 1 in the lower.
	slots   []uint64
	entries []entry
	free    []uint32
	text    []byte
	garbage int // bytes of text of entries that are free
}

type entry struct {
	offset uint64 // of the name in text
	length uint32
	parent uint32
	uses   uint32
	live   bool
}

func newNames() *names {
	return &names{seed: maphash.MakeSeed(), slots: make([]uint64, 16)}
}

// tag is the hash of a name, of which the lower bits say where its slot is.
func (n *names) tag(parent uint32, name string) uint32 {
	h := maphash.String(n.seed, name) ^ uint64(parent)*0x9e3779b97f4a7c15
	return uint32(h>>32) ^ uint32(h)
}

// name is the text of an entry.
func (n *names) name(id uint32) []byte {
	e := &n.entries[id]
	return n.text[e.offset : e.offset+uint64(e.length)]
}

func (n *names) find(parent uint32, name string) (uint32, bool) {
	return n.lookup(n.tag(parent, name), parent, name)
}

func (n *names) lookup(tag, parent uint32, name string) (uint32, bool) {
	mask := uint32(len(n.slots) - 1)
	for i := tag & mask; n.slots[i] != 0; i = (i + 1) & mask {
		if uint32(n.slots[i]>>32) != tag {
			continue
		}
		id := uint32(n.slots[i]) - 1
		if e := &n.entries[id]; e.parent == parent && string(n.name(id)) == name {
			return id, true
		}
	}
	return 0, false
}

// intern gives the entry of a name, a new one without uses if there is none.
func (n *names) intern(parent uint32, name string) (id uint32, added bool) {
	tag := n.tag(parent, name)
	if id, ok := n.lookup(tag, parent, name); ok {
		return id, false
	}
	return n.add(tag, parent, name), true
}

func (n *names) add(tag, parent uint32, name string) (id uint32) {
	e := entry{offset: uint64(len(n.text)), length: uint32(len(name)), parent: parent, live: true}
	n.text = append(n.text, name...)
	if last := len(n.free) - 1; last >= 0 {
		id, n.free = n.free[last], n.free[:last]
		n.entries[id] = e
	} else {
		id = uint32(len(n.entries))
		n.entries = append(n.entries, e)
	}
	if live := len(n.entries) - len(n.free); live > len(n.slots)/4*3 {
		old := n.slots
		n.slots = make([]uint64, 2*len(old))
		for _, s := range old {
			if s != 0 {
				n.place(s)
			}
		}
	}
	n.place(uint64(tag)<<32 | uint64(id+1))
	return id
}

// place puts a slot where it belongs, or behind.
func (n *names) place(slot uint64) {
	mask := uint32(len(n.slots) - 1)
	i := uint32(slot>>32) & mask
	for n.slots[i] != 0 {
		i = (i + 1) & mask
	}
	n.slots[i] = slot
}

// remove gives the number of an entry back.
func (n *names) remove(id uint32) {
	e := &n.entries[id]
	mask := uint32(len(n.slots) - 1)
	gap := n.tag(e.parent, string(n.name(id))) & mask
	for uint32(n.slots[gap]) != id+1 {
		gap = (gap + 1) & mask
	}
	n.slots[gap] = 0
	// What stands behind the gap as its place was taken moves up, or it would not be found any more.
	for i := (gap + 1) & mask; n.slots[i] != 0; i = (i + 1) & mask {
		home := uint32(n.slots[i]>>32) & mask
		if (i-home)&mask >= (i-gap)&mask {
			n.slots[gap], n.slots[i] = n.slots[i], 0
			gap = i
		}
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
