package metadata

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// UIDHash is the id that Flink gives an operator whose uid is set: murmur3
// (x64, 128 bits, seed 0) of the uid. A lone surrogate counts as "?", as in Java.
func UIDHash(uid string) OperatorID {
	if !utf8.ValidString(uid) {
		uid = replaceSurrogates(uid)
	}
	h1, h2 := murmur128([]byte(uid))
	var id OperatorID
	binary.LittleEndian.PutUint64(id[:8], h1)
	binary.LittleEndian.PutUint64(id[8:], h2)
	return id
}

func replaceSurrogates(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n <= 1 {
			b.WriteByte('?')
			if n = 1; len(s) >= 3 && s[0] == 0xED {
				n = 3
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// murmur128 is MurmurHash3_x64_128 with seed 0.
func murmur128(data []byte) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	n := uint64(len(data))
	mix1 := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	mix2 := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	for ; len(data) >= 16; data = data[16:] {
		h1 ^= mix1(binary.LittleEndian.Uint64(data))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mix2(binary.LittleEndian.Uint64(data[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var tail [16]byte
	copy(tail[:], data)
	if len(data) > 8 {
		h2 ^= mix2(binary.LittleEndian.Uint64(tail[8:]))
	}
	if len(data) > 0 {
		h1 ^= mix1(binary.LittleEndian.Uint64(tail[:8]))
	}
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	h1, h2 = fmix(h1), fmix(h2)
	h1 += h2
	h2 += h1
	return h1, h2
}

func fmix(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}
