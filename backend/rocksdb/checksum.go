package rocksdb

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// Checksum types, a byte of the footer.
const (
	checksumNone   = 0
	checksumCRC32C = 1
	checksumXXH32  = 2
	checksumXXH64  = 3
	checksumXXH3   = 4
)

// xxh3Type mixes the type byte into XXH3, which is not hashed with the block.
const xxh3Type = 0x6b9083d9

// checksum is that of a block with its compression type behind it.
func checksum(kind byte, block []byte) uint32 {
	switch kind {
	case checksumCRC32C:
		return mask(crc32.Checksum(block, castagnoli))
	case checksumXXH32:
		return xxh32(block)
	case checksumXXH64:
		return uint32(xxhash.Sum64(block))
	case checksumXXH3:
		n := len(block) - 1
		return uint32(xxh3.Hash(block[:n])) ^ uint32(block[n])*xxh3Type
	}
	return 0
}

// modifier is added to checksums from format version 6 on, so that a block
// at the wrong place is noticed. base is the footer's.
func modifier(base uint32, offset int64) uint32 {
	if base == 0 {
		return 0
	}
	return base ^ (uint32(offset) + uint32(offset>>32))
}

// The primes of XXH32.
const (
	xxp1 = 2654435761
	xxp2 = 2246822519
	xxp3 = 3266489917
	xxp4 = 668265263
	xxp5 = 374761393
)

// xxh32 is XXH32 with seed 0.
func xxh32(b []byte) uint32 {
	var h uint32
	n := uint32(len(b))
	if len(b) >= 16 {
		v := [4]uint32{xxp1, xxp2, 0, 0}
		v[0] += xxp2
		v[3] -= xxp1
		for ; len(b) >= 16; b = b[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+binary.LittleEndian.Uint32(b[4*i:])*xxp2, 13) * xxp1
			}
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	} else {
		h = xxp5
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxp3, 17) * xxp4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxp5, 11) * xxp1
	}
	h ^= h >> 15
	h *= xxp2
	h ^= h >> 13
	h *= xxp3
	return h ^ h>>16
}
