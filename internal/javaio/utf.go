package javaio

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxUTF is the longest encoding, in bytes, that writeUTF's two-byte length can announce.
const MaxUTF = 65535

// ErrInvalidUTF says that bytes are not what DataInput.readUTF accepts.
var ErrInvalidUTF = errors.New("malformed modified UTF-8")

// UTFTooLongError says that a string's encoding does not fit writeUTF's length field.
type UTFTooLongError struct{ Bytes int }

// Error implements error.
func (e *UTFTooLongError) Error() string {
	return fmt.Sprintf("%d bytes as modified UTF-8; the format allows %d", e.Bytes, MaxUTF)
}

// ValidUTF says whether DataInput.readUTF accepts raw. Like Java it accepts a
// plain NUL, over-long forms and lone surrogates.
func ValidUTF(raw string) bool {
	for i := ascii(raw); i < len(raw); {
		switch c := raw[i]; {
		case c < 0x80:
			i++
		case c>>5 == 0b110:
			if i+2 > len(raw) || raw[i+1]>>6 != 0b10 {
				return false
			}
			i += 2
		case c>>4 == 0b1110:
			if i+3 > len(raw) || raw[i+1]>>6 != 0b10 || raw[i+2]>>6 != 0b10 {
				return false
			}
			i += 3
		default:
			return false
		}
	}
	return true
}

// DecodeUTF turns valid modified UTF-8 into UTF-8. A lone surrogate stays as
// its three bytes, which are not valid UTF-8 but which EncodeUTF turns back
// into the same code unit.
func DecodeUTF(raw string) string {
	if isPlain(raw) {
		return raw
	}
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); {
		u, n := unit(raw[i:])
		i += n
		if 0xD800 <= u && u < 0xDC00 && i < len(raw) {
			if lo, m := unit(raw[i:]); 0xDC00 <= lo && lo < 0xE000 {
				b.WriteRune((u-0xD800)<<10 + (lo - 0xDC00) + 0x10000)
				i += m
				continue
			}
		}
		if 0xD800 <= u && u < 0xE000 {
			b.Write([]byte{0xE0 | byte(u>>12), 0x80 | byte(u>>6)&0x3F, 0x80 | byte(u)&0x3F})
			continue
		}
		b.WriteRune(u)
	}
	return b.String()
}

// ascii counts the leading bytes of s that are ASCII: all of them in nearly
// every string of a real file, which is why it looks at eight at once.
func ascii(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		t := s[i : i+8]
		if (uint64(t[0])|uint64(t[1])<<8|uint64(t[2])<<16|uint64(t[3])<<24|
			uint64(t[4])<<32|uint64(t[5])<<40|uint64(t[6])<<48|uint64(t[7])<<56)&0x8080808080808080 != 0 {
			break
		}
	}
	for i < len(s) && s[i] < 0x80 {
		i++
	}
	return i
}

// isPlain says that raw is the same in UTF-8 and modified UTF-8: valid UTF-8
// with no supplementary character (those have other bytes in either form).
func isPlain(raw string) bool {
	n := ascii(raw)
	return n == len(raw) || utf8.ValidString(raw[n:])
}

// unit decodes one UTF-16 code unit of valid modified UTF-8. It tolerates bad
// input, so that a caller's mistake can't make it read past the end.
func unit(s string) (rune, int) {
	c := rune(s[0])
	switch {
	case c>>5 == 0b110 && len(s) >= 2:
		return c&0x1F<<6 | rune(s[1])&0x3F, 2
	case c>>4 == 0b1110 && len(s) >= 3:
		return c&0xF<<12 | rune(s[1])&0x3F<<6 | rune(s[2])&0x3F, 3
	}
	return c, 1
}

// EncodeUTF turns UTF-8 into the modified UTF-8 that DataOutput.writeUTF
// writes. Bytes that are neither UTF-8 nor a lone surrogate kept by DecodeUTF
// are ErrInvalidUTF. It does not limit the length.
func EncodeUTF(s string) (string, error) {
	n := ascii(s)
	if rest := s[n:]; utf8.ValidString(rest) && strings.IndexByte(s, 0) < 0 && !hasSupplementary(rest) {
		return s, nil
	}
	b := make([]byte, 0, len(s)+len(s)/2)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			if i+3 > len(s) || s[i] != 0xED || s[i+1]>>5 != 0b101 || s[i+2]>>6 != 0b10 {
				return "", fmt.Errorf("byte %d: not valid UTF-8: %w", i, ErrInvalidUTF)
			}
			b = append(b, s[i:i+3]...)
			n = 3
		case r == 0:
			b = append(b, 0xC0, 0x80)
		case r >= 0x10000:
			r -= 0x10000
			b = appendUnit(b, 0xD800+r>>10)
			b = appendUnit(b, 0xDC00+r&0x3FF)
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b), nil
}

func hasSupplementary(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0xF0 {
			return true
		}
	}
	return false
}

func appendUnit(b []byte, u rune) []byte {
	return append(b, 0xE0|byte(u>>12), 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
}
