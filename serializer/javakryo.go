package serializer

import (
	"fmt"
	"slices"
	"unicode/utf16"

	"github.com/drey-state/drey/internal/javaio"
)

// kryoValues reads what Kryo wrote with the class in front. Only Kryo and the
// job know how most classes are written, and where such a value ends; but boxed
// numbers, strings and exceptions, which Flink has Java serialize, can be read.
type kryoValues struct{ class string }

func (kryoValues) Len() int { return -1 }

func (k kryoValues) Skip(in *Input) { k.Read(in) }

func (k kryoValues) Read(in *Input) any {
	if in.err != nil {
		return nil
	}
	if !in.Framed() {
		off := in.Offset()
		v, ok := readKryo(in)
		if !ok {
			in.FailAt(off, "value", fmt.Errorf("%q has no length: written by Kryo: %w", k.class, ErrUnsupported))
			return nil
		}
		return v
	}
	var sub Input
	sub.ResetAt(in.buf[in.pos:], in.Offset())
	if v, ok := readKryo(&sub); ok && sub.err == nil {
		in.Skip(int64(sub.pos))
		return v
	}
	return unknown{class: k.class, reason: "written by Kryo"}.Read(in)
}

func (k kryoValues) encode(w *encoding, _ any) error { return w.opaque(k.class, "written by Kryo") }

// Numbers of the classes that Kryo registers by itself, plus two.
const (
	kryoNull = iota
	kryoName // the name of a class that is not registered follows
	kryoInt
	kryoString
	kryoFloat
	kryoBoolean
	kryoByte
	kryoChar
	kryoShort
	kryoLong
	kryoDouble
)

// readKryo reads a value, false if its class is not one of those. Then, as after
// a failure, bytes are lost.
func readKryo(in *Input) (any, bool) {
	switch in.U8() {
	case kryoNull:
		return nil, true
	case kryoName:
		return readKryoObject(in)
	case kryoInt:
		n := in.Uvarint()
		return int32(n>>1) ^ -int32(n&1), true
	case kryoString:
		if in.U8() != 1 { // it is no reference to another
			return nil, false
		}
		return readKryoString(in)
	case kryoBoolean:
		return in.Bool(), true
	case kryoByte:
		return int8(in.U8()), true
	case kryoLong:
		n := kryoVarLong(in)
		return int64(n>>1) ^ -int64(n&1), true
	case kryoFloat:
		return kryoFixed(in, "java.lang.Float", 4), true
	case kryoDouble:
		return kryoFixed(in, "java.lang.Double", 8), true
	case kryoChar:
		return kryoFixed(in, "java.lang.Character", 2), true
	case kryoShort:
		return kryoFixed(in, "java.lang.Short", 2), true
	}
	return nil, false
}

// kryoFixed reads a number that Kryo 2, which is in Flink 1, writes from its
// high byte on, but Kryo 5 from its low one.
func kryoFixed(in *Input, class string, n int) any {
	return Opaque{Class: class, Raw: slices.Clone(in.Take(n)), Reason: "the order of its bytes depends on the release of Kryo"}
}

// kryoVarLong reads LEB128 of at most nine bytes, of which the last has eight bits.
func kryoVarLong(in *Input) uint64 {
	var v uint64
	for shift := 0; shift < 56; shift += 7 {
		b := in.U8()
		v |= uint64(b&0x7F) << shift
		if b < 0x80 {
			return v
		}
	}
	return v | uint64(in.U8())<<56
}

// javaMagic begins a Java object stream.
const javaMagic = "\xac\xed\x00\x05"

// readKryoObject reads an object of a class that is named, if it is Java serialized.
func readKryoObject(in *Input) (any, bool) {
	if in.U8() != 0 { // the first class of the value
		return nil, false
	}
	if _, ok := readKryoString(in); !ok || in.U8() != 1 {
		return nil, false
	}
	if !in.need(len(javaMagic)) || string(in.buf[in.pos:in.pos+len(javaMagic)]) != javaMagic {
		return nil, false
	}
	s, err := javaio.ReadObject(in)
	if err != nil {
		return nil, false
	}
	return convertObject(s), true
}

// readKryoString reads ASCII whose last byte has its high bit set, or a number
// of UTF-16 code units and these as UTF-8. False is for null and after a failure.
func readKryoString(in *Input) (string, bool) {
	b := in.U8()
	if b&0x80 == 0 {
		text := []byte{b}
		for in.err == nil && b&0x80 == 0 {
			b = in.U8()
			text = append(text, b&0x7F)
		}
		return string(text), in.err == nil
	}
	n := uint32(b & 0x3F)
	if b&0x40 != 0 {
		n |= in.Uvarint() << 6
	}
	if n == 0 {
		return "", false
	}
	var units []uint16
	for n--; n > 0 && in.err == nil; n-- {
		units = append(units, kryoUnit(in))
	}
	return string(utf16.Decode(units)), in.err == nil
}

// kryoUnit reads a UTF-16 code unit of one to three bytes.
func kryoUnit(in *Input) uint16 {
	b := uint16(in.U8())
	switch b >> 4 {
	case 12, 13:
		return b&0x1F<<6 | uint16(in.U8())&0x3F
	case 14:
		second := uint16(in.U8())
		return b&0x0F<<12 | second&0x3F<<6 | uint16(in.U8())&0x3F
	}
	return b
}
