package rocksdb

import (
	"encoding/binary"
	"math/bits"
)

// blockWriter makes the content of a block; the next begins with reset.
type blockWriter struct {
	interval int // entries from one restart to the next
	buf      []byte
	restarts []uint32
	n        int // entries
}

func (b *blockWriter) reset() { b.buf, b.restarts, b.n = b.buf[:0], b.restarts[:0], 0 }

// add appends an entry; prev is the key of the one before it.
func (b *blockWriter) add(prev, key, value []byte) {
	shared := 0
	if b.n%b.interval == 0 {
		b.restarts = append(b.restarts, uint32(len(b.buf)))
	} else {
		shared = commonPrefix(prev, key)
	}
	b.n++
	b.buf = binary.AppendUvarint(b.buf, uint64(shared))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)-shared))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(b.buf, key[shared:]...)
	b.buf = append(b.buf, value...)
}

// size is how many bytes finish will give.
func (b *blockWriter) size() int { return len(b.buf) + 4*len(b.restarts) + 4 }

// finish gives the content, which is valid until the next reset.
func (b *blockWriter) finish() []byte {
	for _, r := range b.restarts {
		b.buf = binary.LittleEndian.AppendUint32(b.buf, r)
	}
	b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(b.restarts)))
	return b.buf
}

// commonPrefix counts the bytes with which both begin.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; n-i >= 8; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// append gives the handle's bytes.
func (h handle) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, h.offset), h.size)
}
