package rocksdb

import (
	"encoding/binary"
	"math"
	"sort"
)

// block is the content of a block: entries, and offsets of those that share
// nothing with the one before (restarts).
type block struct {
	entries  []byte
	restarts []byte // u32 each
}

const hashIndexBit = 1 << 31 // in a block's footer: a hash index lies before it

// parseBlock finds where the entries end.
func parseBlock(data []byte) (block, error) {
	if len(data) < 4 {
		return block{}, corrupt("block of %d bytes", len(data))
	}
	end := len(data) - 4
	foot := binary.LittleEndian.Uint32(data[end:])
	if foot&hashIndexBit != 0 {
		if end < 2 {
			return block{}, corrupt("hash index in a block of %d bytes", len(data))
		}
		end -= 2
		buckets := int(binary.LittleEndian.Uint16(data[end:]))
		if buckets > end {
			return block{}, corrupt("hash index of %d buckets in a block of %d bytes", buckets, len(data))
		}
		end -= buckets
	}
	n := uint64(foot &^ hashIndexBit)
	if n > uint64(end)/4 {
		return block{}, corrupt("%d restarts in a block of %d bytes", n, len(data))
	}
	first := end - 4*int(n)
	return block{entries: data[:first:first], restarts: data[first:end]}, nil
}

// header reads the numbers before an entry's key at off. Entries of an index
// with delta encoded values have no length of the value.
func (b *block) header(off int, withValue bool) (shared, unshared, value, pos int, ok bool) {
	e := b.entries
	if withValue && len(e)-off >= 3 && e[off]|e[off+1]|e[off+2] < 0x80 {
		return int(e[off]), int(e[off+1]), int(e[off+2]), off + 3, int(e[off+1])+int(e[off+2]) <= len(e)-off-3
	}
	var v [3]uint64
	n := 2
	if withValue {
		n = 3
	}
	for i := range n {
		x, used := binary.Uvarint(e[off:])
		if used <= 0 || x > math.MaxInt32 {
			return 0, 0, 0, 0, false
		}
		v[i] = x
		off += used
	}
	return int(v[0]), int(v[1]), int(v[2]), off, v[1]+v[2] <= uint64(len(e)-off)
}

// restart gives the offset and the key of a restart.
func (b *block) restart(i int, withValue bool) (int, []byte, bool) {
	off := int64(binary.LittleEndian.Uint32(b.restarts[4*i:]))
	if off >= int64(len(b.entries)) {
		return 0, nil, false
	}
	shared, unshared, _, pos, ok := b.header(int(off), withValue)
	if !ok || shared != 0 {
		return 0, nil, false
	}
	return int(off), b.entries[pos : pos+unshared], true
}

// seek gives the offset of the last restart whose key is less, or 0.
func (b *block) seek(less func(key []byte) bool, withValue bool) (int, error) {
	bad := false
	n := len(b.restarts) / 4
	i := sort.Search(n, func(i int) bool {
		_, key, ok := b.restart(i, withValue)
		bad = bad || !ok
		return !ok || !less(key)
	})
	if bad && len(b.entries) > 0 {
		return 0, corrupt("restart of a block")
	}
	if i == 0 {
		return 0, nil
	}
	off, _, _ := b.restart(i-1, withValue)
	return off, nil
}

// blockIter goes over the entries of a block that have keys and values.
type blockIter struct {
	block
	off   int // of the next entry
	key   []byte
	value []byte
}

func (b *blockIter) reset(bl block) { b.block, b.off, b.key, b.value = bl, 0, b.key[:0], nil }

// next goes to the next entry; false at the end.
func (b *blockIter) next() (bool, error) {
	if b.off >= len(b.entries) {
		return false, nil
	}
	shared, unshared, value, pos, ok := b.header(b.off, true)
	if !ok || shared > len(b.key) {
		return false, corrupt("entry at byte %d of a block", b.off)
	}
	b.key = append(b.key[:shared], b.entries[pos:pos+unshared]...)
	pos += unshared
	b.value = b.entries[pos : pos+value : pos+value]
	b.off = pos + value
	return true, nil
}

// handle is where a block lies in a file, without its trailer.
type handle struct{ offset, size uint64 }

// blockTrailer follows a block: compression type u8, checksum u32.
const blockTrailer = 5

// parseHandle reads a handle and gives what is behind it.
func parseHandle(b []byte) (handle, []byte, bool) {
	off, n := binary.Uvarint(b)
	if n <= 0 {
		return handle{}, nil, false
	}
	size, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return handle{}, nil, false
	}
	return handle{off, size}, b[n+m:], true
}

// indexForm says how the entries of an index are written; a table's properties tell.
type indexForm struct {
	userKeys bool // keys have no trailer
	delta    bool // values are delta encoded and have no length
	firstKey bool // behind a handle stands the first key of its block
}

// indexIter goes over the handles of an index block.
type indexIter struct {
	block
	form  indexForm
	off   int
	key   []byte // with the trailer, if there is one
	h     handle
	first []byte // first key of the block, with the trailer; nil if the form has none
}

func (x *indexIter) reset(b block) {
	x.block, x.off, x.key, x.h, x.first = b, 0, x.key[:0], handle{}, nil
}

func (x *indexIter) next() (bool, error) {
	if x.off >= len(x.entries) {
		return false, nil
	}
	shared, unshared, value, pos, ok := x.header(x.off, !x.form.delta)
	if !ok || shared > len(x.key) {
		return false, corrupt("entry at byte %d of an index block", x.off)
	}
	x.key = append(x.key[:shared], x.entries[pos:pos+unshared]...)
	rest := x.entries[pos+unshared:]
	if !x.form.delta {
		rest = rest[:value]
	}
	if x.form.delta && shared > 0 {
		d, n := binary.Varint(rest)
		if n <= 0 {
			return false, corrupt("size delta at byte %d of an index block", pos)
		}
		x.h = handle{x.h.offset + x.h.size + blockTrailer, x.h.size + uint64(d)}
		rest = rest[n:]
	} else if x.h, rest, ok = parseHandle(rest); !ok {
		return false, corrupt("handle at byte %d of an index block", pos)
	}
	if !x.form.delta {
		x.off = pos + unshared + value
		return true, nil
	}
	if x.form.firstKey {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) {
			return false, corrupt("first key at byte %d of an index block", pos)
		}
		rest = rest[used:]
		x.first, rest = rest[:n], rest[n:]
	}
	x.off = len(x.entries) - len(rest)
	return true, nil
}

// user gives the user key of an index key.
func (x *indexIter) user(key []byte) []byte {
	if x.form.userKeys {
		return key
	}
	return key[:max(0, len(key)-trailerSize)]
}

// seek goes to the first entry whose user key is lower or behind it; false
// if all are before.
func (x *indexIter) seek(lower []byte) (bool, error) {
	less := func(key []byte) bool { return string(x.user(key)) < string(lower) }
	off, err := x.block.seek(less, !x.form.delta)
	if err != nil {
		return false, err
	}
	x.reset(x.block)
	x.off = off
	for {
		ok, err := x.next()
		if err != nil || !ok || !less(x.key) {
			return ok, err
		}
	}
}
