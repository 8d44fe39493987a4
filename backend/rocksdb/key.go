package rocksdb

import (
	"bytes"
	"cmp"
	"encoding/binary"
)

// Types of entries, the low byte of an internal key's trailer.
const (
	typeDeletion       = 0x00
	typeValue          = 0x01
	typeMerge          = 0x02
	typeSingleDeletion = 0x07
	typeRangeDeletion  = 0x0f
	typeBlobIndex      = 0x11
	typeWideColumns    = 0x16

	trailerSize = 8
	maxSequence = 1<<56 - 1
	maxTrailer  = 1<<64 - 1
)

// ikey is an internal key: a user key, and a trailer of sequence and type.
// Of one user key, the higher trailer comes first.
type ikey struct {
	user    []byte
	trailer uint64
}

func (k ikey) sequence() uint64 { return k.trailer >> 8 }

func (k ikey) compare(o ikey) int {
	if c := bytes.Compare(k.user, o.user); c != 0 {
		return c
	}
	return cmp.Compare(o.trailer, k.trailer)
}

// splitKey takes an internal key apart; false if it is too short.
func splitKey(b []byte) (ikey, bool) {
	n := len(b) - trailerSize
	if n < 0 {
		return ikey{}, false
	}
	return ikey{user: b[:n:n], trailer: binary.LittleEndian.Uint64(b[n:])}, true
}
