package serializer

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// FlinkString reads what StringValue.writeString wrote: the number of UTF-16
// code units plus one and then the units, all as LEB128. A lone surrogate
// becomes its three bytes. ok is false for null and after a failure.
func (in *Input) FlinkString() (s string, ok bool) {
	n := int(in.Uvarint())
	if n == 0 {
		return "", false
	}
	return in.text(n - 1)
}

// text reads n UTF-16 code units.
func (in *Input) text(n int) (s string, ok bool) {
	if b := in.ascii(n); b != nil {
		return string(b), true
	}
	text := in.units(make([]byte, 0, min(n, in.Remaining())), n, appendCharacter)
	if in.err != nil {
		return "", false
	}
	return string(text), true
}

// ascii takes n bytes if they are there and are n ASCII characters, else nil.
func (in *Input) ascii(n int) []byte {
	if len(in.buf)-in.pos < n || in.err != nil {
		return nil
	}
	b := in.buf[in.pos : in.pos+n : in.pos+n]
	for _, c := range b {
		if c >= 0x80 {
			return nil
		}
	}
	in.pos += n
	return b
}

// units reads n UTF-16 code units and appends the characters that they make.
func (in *Input) units(dst []byte, n int, add func([]byte, rune) []byte) []byte {
	var high rune // a high surrogate that waits for its low one
	for ; n > 0; n-- {
		u := in.unit()
		if in.err != nil {
			break
		}
		if high != 0 {
			if 0xDC00 <= u && u < 0xE000 {
				dst = add(dst, (high-0xD800)<<10+(u-0xDC00)+0x10000)
				high = 0
				continue
			}
			dst = add(dst, high)
			high = 0
		}
		if 0xD800 <= u && u < 0xDC00 {
			high = u
			continue
		}
		dst = add(dst, u)
	}
	if high != 0 {
		dst = add(dst, high)
	}
	return dst
}

// unit reads one UTF-16 code unit.
func (in *Input) unit() rune {
	off := in.Offset()
	u := in.Uvarint()
	if u > 0xFFFF {
		in.FailAt(off, "text", fmt.Errorf("%w: character %#x", ErrCorrupt, u))
		return 0
	}
	return rune(u)
}

// appendCharacter is utf8.AppendRune that keeps surrogates.
func appendCharacter(b []byte, r rune) []byte {
	if isSurrogate(r) {
		return append(b, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(b, r)
}

func isSurrogate(r rune) bool { return 0xD800 <= r && r < 0xE000 }

// decodeCharacter is utf8.DecodeRuneInString that knows surrogates in three
// bytes; other bytes that are not UTF-8 are utf8.RuneError of one byte.
func decodeCharacter(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 && len(s) >= 3 && s[0] == 0xED && s[1]>>5 == 0b101 && s[2]>>6 == 0b10 {
		return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return r, n
}

// skipFlinkString moves past a string.
func skipFlinkString(in *Input) {
	in.skipUnits(int(in.Uvarint()) - 1)
}

// skipUnits moves past n UTF-16 code units.
func (in *Input) skipUnits(n int) {
	if n <= 0 || in.ascii(n) != nil {
		return
	}
	for ; n > 0 && in.err == nil; n-- {
		for in.U8() >= 0x80 && in.err == nil {
		}
	}
}

// FlinkString writes what [Input.FlinkString] reads; null is one byte 0. Bytes
// that are neither UTF-8 nor surrogates fail.
func (o *Output) FlinkString(s string) {
	units := 0
	for i := 0; i < len(s); {
		r, n := decodeCharacter(s[i:])
		if r == utf8.RuneError && n == 1 {
			o.Fail(fmt.Errorf("byte %d of a string: not UTF-8", i))
			return
		}
		if units++; r >= 0x10000 {
			units++
		}
		i += n
	}
	if units >= math.MaxInt32 {
		o.Fail(fmt.Errorf("a string of %d characters, the limit is %d: %w", units, math.MaxInt32-1, ErrTooLarge))
		return
	}
	o.Uvarint(uint32(units) + 1)
	for i := 0; i < len(s); {
		r, n := decodeCharacter(s[i:])
		i += n
		if r >= 0x10000 {
			r -= 0x10000
			o.Uvarint(uint32(0xD800 + r>>10))
			r = 0xDC00 + r&0x3FF
		}
		o.Uvarint(uint32(r))
	}
}

// appendStringJSON reads a string straight to JSON.
func appendStringJSON(dst []byte, in *Input) []byte {
	n := int(in.Uvarint())
	if n == 0 {
		return append(dst, "null"...)
	}
	n--
	dst = append(dst, '"')
	if b := in.ascii(n); b != nil {
		for i, c := range b {
			if c < ' ' || c == '"' || c == '\\' {
				dst = append(dst, b[:i]...)
				for _, c := range b[i:] {
					dst = appendCharacterJSON(dst, rune(c))
				}
				return append(dst, '"')
			}
		}
		dst = append(dst, b...)
		return append(dst, '"')
	}
	return append(in.units(dst, n, appendCharacterJSON), '"')
}
