package rocksdb

import (
	"encoding/binary"
	"fmt"
)

// Magic numbers at the end of a table.
const (
	magicBlockBased = 0x88e241b785f4cff7
	magicLegacy     = 0xdb4775248b80fb57
	magicPlain      = 0x8242229663bf9564
	magicPlainOld   = 0x4f3418eb7a8f13b8
	magicCuckoo     = 0x926789d0c5f17873
)

const (
	footerLegacy  = 48
	footerSize    = 53
	formatContext = 6 // from this version on with context checksums
	maxFormat     = 6
	footerExtend  = "\x3e\x00\x7a\x00" // begins the second part in version 6
)

// footer is the end of a table.
type footer struct {
	version   uint32
	checksum  byte
	base      uint32 // of context checksums; 0 for none
	metaindex handle
	index     handle // in version 6 from the metaindex
	start     int64  // where it begins; blocks end before
}

// decodeFooter reads the last bytes of a file of that size.
func decodeFooter(file string, tail []byte, size int64) (*footer, error) {
	fail := func(at int64, field string, err error) error {
		return &Error{File: file, Offset: at, Inner: -1, Field: "footer." + field, Err: err}
	}
	if len(tail) < footerLegacy {
		return nil, fail(0, "magic", fmt.Errorf("%w: %d bytes are no table", ErrTruncated, size))
	}
	f := new(footer)
	var part []byte
	switch magic := binary.LittleEndian.Uint64(tail[len(tail)-8:]); magic {
	case magicLegacy:
		f.start = size - footerLegacy
		f.checksum = checksumCRC32C
		part = tail[len(tail)-footerLegacy : len(tail)-8]
	case magicBlockBased:
		if len(tail) < footerSize {
			return nil, fail(0, "magic", fmt.Errorf("%w: %d bytes are no table", ErrTruncated, size))
		}
		f.start = size - footerSize
		tail = tail[len(tail)-footerSize:]
		f.checksum = tail[0]
		part = tail[1:41]
		f.version = binary.LittleEndian.Uint32(tail[41:])
	case magicPlain, magicPlainOld:
		return nil, fail(size-8, "magic", unsupported("a plain table"))
	case magicCuckoo:
		return nil, fail(size-8, "magic", unsupported("a cuckoo table"))
	default:
		return nil, fail(size-8, "magic", corrupt("%#016x is no table of RocksDB", magic))
	}
	if f.version > maxFormat {
		return nil, fail(size-12, "format version", unsupported("version %d; a newer RocksDB?", f.version))
	}
	if f.checksum > checksumXXH3 {
		return nil, fail(f.start, "checksum type", unsupported("type %d", f.checksum))
	}
	if f.version >= formatContext {
		return f, f.extended(tail, part, fail)
	}
	var ok bool
	if f.metaindex, part, ok = parseHandle(part); ok {
		f.index, _, ok = parseHandle(part)
	}
	if !ok {
		return nil, fail(f.start, "handles", corrupt("varint"))
	}
	return f, nil
}

// extended reads the second part of a footer of version 6.
func (f *footer) extended(tail, part []byte, fail func(int64, string, error) error) error {
	if string(part[:4]) != footerExtend {
		return fail(f.start+1, "extension", corrupt("% x", part[:4]))
	}
	stored := binary.LittleEndian.Uint32(part[4:])
	f.base = binary.LittleEndian.Uint32(part[8:])
	if f.base == 0 {
		return fail(f.start+9, "base context checksum", corrupt("it is zero"))
	}
	if f.checksum != checksumNone {
		var whole [footerSize]byte
		copy(whole[:], tail)
		clear(whole[5:9])
		if got := checksum(f.checksum, whole[:]) + modifier(f.base, f.start); got != stored {
			return fail(f.start, "checksum", fmt.Errorf("%w: %08x instead of %08x", ErrChecksum, got, stored))
		}
	}
	size := int64(binary.LittleEndian.Uint32(part[12:]))
	if binary.LittleEndian.Uint64(part[32:]) != 0 {
		return fail(f.start+33, "reserved", unsupported("bytes that must be zero; a newer RocksDB?"))
	}
	if size > f.start-blockTrailer {
		return fail(f.start+13, "metaindex size", corrupt("%d bytes do not fit", size))
	}
	f.metaindex = handle{uint64(f.start - blockTrailer - size), uint64(size)}
	return nil
}
