package pebble

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
)

// buffer holds what was written last, by key. A further write to a key takes the place of the one before, and a read
// looks here first, so that keys in use cost neither writes nor reads of the database. What the database lacks
// is handed out in one batch, and then kept for reads until the buffer is emptied.
//
// Entries are appended to chunks of memory without pointers, and found by an open hash table. An entry is a header, the key and room for the value.
type buffer struct {
	limit   int // of size
	most    int // bytes of the largest entry's key and value
	shift   int // chunks have 1<<shift bytes
	seed    maphash.Seed
	table   []uint64 // a hash and the place of an entry, 0 if there is none
	n       int      // places taken in table
	chunks  [][]byte // those behind end are spare
	end     int      // where the next entry goes
	size    int      // bytes of chunks, table and dirty
	reserve func(bytes int)

	dirty []uint32 // places of entries that the database lacks, some of them twice or no longer
	lacks []bool   // by state: the database lacks entries
}

// entry is one in its chunk: the lengths of key, value and room in 2, 4 and 4 bytes, its effect, and whether the database lacks it.
type entry []byte

const entryHeader = 12

// effect is what an entry says of its key.
type effect byte

const (
	nothing effect = iota // what the database has counts
	present               // this is the value
	deleted
	added // this is to be added to a list
)

func (e entry) keyLen() int    { return int(binary.LittleEndian.Uint16(e)) }
func (e entry) effect() effect { return effect(e[2]) }
func (e entry) dirty() bool    { return e[3] != 0 }
func (e entry) room() int      { return int(binary.LittleEndian.Uint32(e[8:])) }
func (e entry) key() []byte    { return e[entryHeader : entryHeader+e.keyLen()] }
func (e entry) set(w effect)   { e[2] = byte(w) }
func (e entry) setDirty(dirty bool) {
	e[3] = 0
	if dirty {
		e[3] = 1
	}
}

func (e entry) value() []byte {
	at := entryHeader + e.keyLen()
	return e[at : at+int(binary.LittleEndian.Uint32(e[4:]))]
}

// fill sets the value, for which there must be room.
func (e entry) fill(value []byte) {
	binary.LittleEndian.PutUint32(e[4:], uint32(len(value)))
	copy(e.value(), value)
}

// extend adds to a list.
func (e entry) extend(value []byte) {
	list := e.value()
	binary.LittleEndian.PutUint32(e[4:], uint32(len(join(list, value))))
}

const (
	minTable   = 64
	minChunk   = 4 << 10
	mostChunk  = 256 << 10
	chunkParts = 32 // chunks of a buffer, if they are between those
)

// newBuffer makes a buffer of so many bytes at most, for entries of at most so many. reserve is told when it takes some.
func newBuffer(limit, most int, reserve func(bytes int)) *buffer {
	chunk := min(max(limit/chunkParts, minChunk), mostChunk)
	b := &buffer{limit: limit, shift: bits.Len(uint(chunk)) - 1, seed: maphash.MakeSeed(), reserve: reserve}
	b.most = min(1<<b.shift/4, math.MaxUint16, most)
	b.table = make([]uint64, minTable)
	b.grown(8 * minTable)
	return b
}

func (b *buffer) grown(by int) {
	if by == 0 {
		return
	}
	b.size += by
	b.reserve(by)
}

func (b *buffer) at(place uint32) entry {
	return b.chunks[place>>b.shift][place&(1<<b.shift-1):]
}

func (b *buffer) hash(key []byte) uint64 { return maphash.Bytes(b.seed, key) >> 32 }

// find gives the entry of a key, nil if there is none, and its place in the table.
func (b *buffer) find(hash uint64, key []byte) (int, entry) {
	mask := uint64(len(b.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		t := b.table[i]
		if t == 0 {
			return int(i), nil
		}
		if t>>32 == hash {
			if e := b.at(uint32(t) - 1); bytes.Equal(e.key(), key) {
				return int(i), e
			}
		}
	}
}

// get tells what is known of a key. The value is valid until the next write.
func (b *buffer) get(key []byte) (effect, []byte) {
	if _, e := b.find(b.hash(key), key); e != nil {
		return e.effect(), e.value()
	}
	return nothing, nil
}

// fits says whether an entry is small enough.
func (b *buffer) fits(key, value []byte) bool { return len(key)+len(value) <= b.most }

// write notes a write that fits; false if there is no room for it, or if it would make a list larger than what fits: then
// there is after the database has been given all, or else after the buffer has been emptied.
func (b *buffer) write(key, value []byte, w effect) bool {
	if !b.roomInTables() {
		return false
	}
	hash := b.hash(key)
	i, e := b.find(hash, key)
	size, more := len(value), false
	if w == added && e != nil && e.dirty() {
		switch e.effect() {
		case present, added:
			w, more = e.effect(), true
			if size += len(e.value()) + 1; len(key)+size > b.most {
				return false
			}
		case deleted:
			w = present
		}
	}
	if e == nil || e.room() < size {
		room := size
		if more {
			room = min(size+size/2, b.most) // for what is going to be added next
		}
		next := b.add(i, hash, key, room)
		if next == nil {
			return false
		}
		if more {
			next.fill(e.value())
		}
		if e == nil {
			b.n++
		} else {
			e.forget()
		}
		e = next
	}
	if more {
		e.extend(value)
	} else {
		e.fill(value)
	}
	e.set(w)
	if !e.dirty() {
		e.setDirty(true)
		b.lack(uint32(b.table[i]) - 1)
		no := int(binary.BigEndian.Uint16(key[2:]))
		b.lacks = append(b.lacks, make([]bool, max(0, no+1-len(b.lacks)))...)
		b.lacks[no] = true
	}
	return true
}

// lack notes the place of an entry that the database lacks.
func (b *buffer) lack(place uint32) {
	before := cap(b.dirty)
	b.dirty = append(b.dirty, place)
	b.grown(4 * (cap(b.dirty) - before))
}

// forget lets go of what is known of a key.
func (e entry) forget() {
	e.set(nothing)
	e.setDirty(false)
}

// forget lets go of what is known of a key.
func (b *buffer) forget(key []byte) {
	if _, e := b.find(b.hash(key), key); e != nil {
		e.forget()
	}
}

// roomInTables makes room for one more place.
func (b *buffer) roomInTables() bool {
	if n := len(b.dirty); n > 0 && n == cap(b.dirty) && b.size+4*n > b.limit {
		return false
	}
	if 4*(b.n+1) <= 3*len(b.table) {
		return true
	}
	old := b.table
	if b.size+8*len(old) > b.limit {
		return false
	}
	b.grown(8 * len(old))
	b.table = make([]uint64, 2*len(old))
	mask := uint64(len(b.table) - 1)
	for _, t := range old {
		if t == 0 {
			continue
		}
		i := t >> 32 & mask
		for b.table[i] != 0 {
			i = (i + 1) & mask
		}
		b.table[i] = t
	}
	return true
}

// add makes an entry, and puts it into the table; nil if there is no room.
func (b *buffer) add(i int, hash uint64, key []byte, room int) entry {
	size, chunk := entryHeader+len(key)+room, 1<<b.shift
	if b.end&(chunk-1)+size > chunk {
		b.end = (b.end + chunk - 1) &^ (chunk - 1)
	}
	if b.end>>b.shift == len(b.chunks) {
		if b.size+chunk > b.limit {
			return nil
		}
		b.chunks = append(b.chunks, make([]byte, chunk))
		b.grown(chunk)
	}
	e := b.at(uint32(b.end))
	binary.LittleEndian.PutUint16(e, uint16(len(key)))
	binary.LittleEndian.PutUint32(e[8:], uint32(room))
	copy(e.key(), key)
	e.forget()
	b.table[i] = hash<<32 | uint64(b.end+1)
	b.end += size
	return e
}

// clean says that the database lacks nothing.
func (b *buffer) clean() bool { return len(b.dirty) == 0 }

// cleaned notes that the database has all.
func (b *buffer) cleaned() {
	for _, place := range b.dirty {
		e := b.at(place)
		e.setDirty(false)
		if e.effect() == added {
			e.set(nothing) // that is not all of the list
		}
	}
	b.dirty = b.dirty[:0]
	clear(b.lacks)
}

// empty lets go of all.
func (b *buffer) empty() {
	clear(b.table)
	b.n, b.end, b.dirty = 0, 0, b.dirty[:0]
	clear(b.lacks)
}
