package incremental

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"slices"
)

// names gives paths dense numbers, and takes the numbers back. A path is the
// number of its directory in another names, and its last segment. It keeps the
// text of each segment once, so that an answer is never a matter of hashes; a UUID,
// which nearly all of Flink's files have for a name, is kept as 16 bytes in the entry itself.
type names struct {
	seed maphash.Seed
	// slots is a table with open addressing; its length is a power of two. A slot
	// is 0, or the tag of a name in the upper half and its number plus 1 in the lower.
	slots   []uint64
	entries []entry
	free    []uint32
	text    []byte
	garbage int // bytes of text of entries that are free
	// byUUID are the entries whose name is a UUID, in its order; nil if that is to be made again.
	byUUID []uint32
}

type entry struct {
	name   packed
	parent uint32
	uses   uint32
	live   bool
}

// packed is a name: a UUID, or a place in the text.
type packed struct {
	// words are the UUID's bits, or the offset of the text and nothing.
	words  [2]uint64
	length uint32 // of the text
	uuid   bool
}

const dashed = len("01234567-89ab-cdef-0123-456789abcdef")

// nibbles gives the value of a hexadecimal digit in lower case, notDigit for other bytes.
var nibbles = func() (table [256]byte) {
	for i := range table {
		table[i] = notDigit
	}
	for i, c := range "0123456789abcdef" {
		table[c] = byte(i)
	}
	return table
}()

const notDigit = 0xff

// pack makes a UUID in lower case, which can be written again as it was, into bits; false for other names.
func pack(name string) (p packed, ok bool) {
	if len(name) != dashed || name[8] != '-' || name[13] != '-' || name[18] != '-' || name[23] != '-' {
		return packed{}, false
	}
	a, bad := digits(0, name[:8])
	a, bad1 := digits(a, name[9:13])
	a, bad2 := digits(a, name[14:18])
	b, bad3 := digits(0, name[19:23])
	b, bad4 := digits(b, name[24:])
	if (bad|bad1|bad2|bad3|bad4)&0xf0 != 0 {
		return packed{}, false
	}
	return packed{words: [2]uint64{a, b}, uuid: true}, true
}

// digits appends hexadecimal digits to a number; check has high bits if others are among them.
func digits(n uint64, text string) (_ uint64, check byte) {
	for i := range len(text) {
		v := nibbles[text[i]]
		check |= v
		n = n<<4 | uint64(v)
	}
	return n, check
}

// unpack writes a UUID.
func (p packed) unpack() []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], p.words[0])
	binary.BigEndian.PutUint64(raw[8:], p.words[1])
	b := make([]byte, 0, dashed)
	b = append(hex.AppendEncode(b, raw[:4]), '-')
	b = append(hex.AppendEncode(b, raw[4:6]), '-')
	b = append(hex.AppendEncode(b, raw[6:8]), '-')
	b = append(hex.AppendEncode(b, raw[8:10]), '-')
	return hex.AppendEncode(b, raw[10:])
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
	if p := n.entries[id].name; p.uuid {
		return p.unpack()
	}
	return n.inText(n.entries[id].name)
}

// inText is a name that is not packed.
func (n *names) inText(p packed) []byte {
	return n.text[p.words[0] : p.words[0]+uint64(p.length)]
}

func (n *names) find(parent uint32, name string) (uint32, bool) {
	bits, _ := pack(name)
	return n.lookup(n.tag(parent, name), parent, name, bits)
}

// is says whether an entry has a name, of which bits is what pack gives.
func (n *names) is(id, parent uint32, name string, bits packed) bool {
	e := &n.entries[id]
	if e.parent != parent || !e.live {
		return false
	}
	if bits.uuid || e.name.uuid {
		return e.name == bits
	}
	return string(n.inText(e.name)) == name
}

func (n *names) lookup(tag, parent uint32, name string, bits packed) (uint32, bool) {
	mask := uint32(len(n.slots) - 1)
	for i := tag & mask; n.slots[i] != 0; i = (i + 1) & mask {
		if uint32(n.slots[i]>>32) != tag {
			continue
		}
		if id := uint32(n.slots[i]) - 1; n.is(id, parent, name, bits) {
			return id, true
		}
	}
	return 0, false
}

// intern gives the entry of a name, a new one without uses if there is none. It looks at
// the entry guess first, which is much faster than the table: snapshots name most
// of their files in the same order as the ones before.
func (n *names) intern(parent uint32, name string, guess uint32) (id uint32, added bool) {
	bits, _ := pack(name)
	if int64(guess) < int64(len(n.entries)) && n.is(guess, parent, name, bits) {
		return guess, false
	}
	tag := n.tag(parent, name)
	if id, ok := n.lookup(tag, parent, name, bits); ok {
		return id, false
	}
	return n.add(tag, parent, name, bits), true
}

func (n *names) add(tag, parent uint32, name string, bits packed) (id uint32) {
	n.byUUID = nil
	e := entry{name: bits, parent: parent, live: true}
	if !bits.uuid {
		e.name = packed{words: [2]uint64{uint64(len(n.text))}, length: uint32(len(name))}
		n.text = append(n.text, name...)
	}
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

// named gives the entries of a name that is a UUID, whatever their parents.
func (n *names) named(bits packed) []uint32 {
	compare := func(a, b packed) int {
		return cmp.Or(cmp.Compare(a.words[0], b.words[0]), cmp.Compare(a.words[1], b.words[1]))
	}
	if n.byUUID == nil {
		count := 0
		for i := range n.entries {
			if n.entries[i].name.uuid {
				count++
			}
		}
		n.byUUID = make([]uint32, 0, count)
		for i := range n.entries {
			if n.entries[i].name.uuid {
				n.byUUID = append(n.byUUID, uint32(i))
			}
		}
		slices.SortFunc(n.byUUID, func(a, b uint32) int { return compare(n.entries[a].name, n.entries[b].name) })
	}
	first, _ := slices.BinarySearchFunc(n.byUUID, bits, func(id uint32, bits packed) int { return compare(n.entries[id].name, bits) })
	end := first
	for end < len(n.byUUID) && n.entries[n.byUUID[end]].name == bits {
		end++
	}
	return n.byUUID[first:end]
}

// remove gives the number of an entry back.
func (n *names) remove(id uint32) {
	n.byUUID = nil
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
	n.garbage += int(e.name.length)
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
		if e := &n.entries[id]; e.live && !e.name.uuid {
			name := n.inText(e.name)
			e.name.words[0] = uint64(len(text))
			text = append(text, name...)
		}
	}
	n.text, n.garbage = text, 0
}
