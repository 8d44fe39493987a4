package serializer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// variantSerializer reads a semi-structured value: the lengths of its two
// parts and the parts, the value and the dictionary of its names.
func variantSerializer() Serializer {
	return variable(func(in *Input) any {
		value, metadata := in.Length(), in.Length()
		both := in.Take(value + metadata)
		if in.err != nil {
			return nil
		}
		return decodeVariant(both[:value], both[value:])
	}).writes(func(w *encoding, _ any) error {
		return w.opaque("a variant", "its JSON does not tell the types of numbers and the order of names")
	})
}

// decodeVariant gives the value of a variant (BinaryVariant). One that is
// damaged is Opaque: its bytes have a length, and nothing else depends on them.
func decodeVariant(value, metadata []byte) any {
	v := variant{value: value, metadata: metadata, left: len(value)}
	if root := v.at(0, 0); !v.bad {
		return root
	}
	return Opaque{
		Class:  "org.apache.flink.types.variant.BinaryVariant",
		Raw:    slices.Concat(value, metadata),
		Reason: "the variant is malformed",
	}
}

// variant decodes; all numbers in it are little-endian, but UUIDs.
type variant struct {
	value, metadata []byte
	// left is how many values there may still be: each has a byte of its own,
	// unless offsets were made to share them.
	left int
	bad  bool
}

// number reads an unsigned number of some bytes.
func (v *variant) number(b []byte, at, size int) int {
	if at < 0 || size > len(b) || at > len(b)-size {
		v.bad = true
		return 0
	}
	var n uint32
	for i := range size {
		n |= uint32(b[at+i]) << (8 * i)
	}
	if n > math.MaxInt32 {
		v.bad = true
		return 0
	}
	return int(n)
}

func (v *variant) bytes(at, n int) []byte {
	if at < 0 || n > len(v.value) || at > len(v.value)-n {
		v.bad = true
		return make([]byte, min(n, 16))
	}
	return v.value[at : at+n]
}

// at decodes the value at a position.
func (v *variant) at(at, depth int) any {
	if v.left--; v.left < 0 || depth > maxValueDepth {
		v.bad = true
	}
	header := v.bytes(at, 1)[0]
	if v.bad {
		return nil
	}
	info := int(header >> 2)
	switch header & 3 {
	case 1:
		return string(v.bytes(at+1, info))
	case 2:
		return v.object(at+1, info, depth)
	case 3:
		return v.array(at+1, info, depth)
	}
	return v.primitive(at+1, info)
}

// count reads the number of parts, of one byte or four.
func (v *variant) count(at int, large bool) (n, next int) {
	size := 1
	if large {
		size = 4
	}
	if n = v.number(v.value, at, size); n > len(v.value) {
		v.bad = true
		n = 0
	}
	return n, at + size
}

func (v *variant) object(at, info, depth int) any {
	n, ids := v.count(at, info&16 != 0)
	idSize, offsetSize := info>>2&3+1, info&3+1
	offsets := ids + n*idSize
	data := offsets + (n+1)*offsetSize
	m := Map{}
	for i := 0; i < n && !v.bad; i++ {
		m = append(m, MapEntry{
			Key:   v.key(v.number(v.value, ids+i*idSize, idSize)),
			Value: v.at(data+v.number(v.value, offsets+i*offsetSize, offsetSize), depth+1),
		})
	}
	return m
}

func (v *variant) array(at, info, depth int) any {
	n, offsets := v.count(at, info&4 != 0)
	offsetSize := info&3 + 1
	data := offsets + (n+1)*offsetSize
	list := []any{}
	for i := 0; i < n && !v.bad; i++ {
		list = append(list, v.at(data+v.number(v.value, offsets+i*offsetSize, offsetSize), depth+1))
	}
	return list
}

// key is a name of the dictionary: a byte with the size of offsets, the number
// of names, one more offset than names, and their text.
func (v *variant) key(id int) string {
	if len(v.metadata) == 0 {
		v.bad = true
		return ""
	}
	size := int(v.metadata[0]>>6) + 1
	n := v.number(v.metadata, 1, size)
	if id >= n || n > len(v.metadata) {
		v.bad = true
		return ""
	}
	text := 1 + (n+2)*size
	from := v.number(v.metadata, 1+(id+1)*size, size)
	to := v.number(v.metadata, 1+(id+2)*size, size)
	if v.bad || from > to || text+to > len(v.metadata) {
		v.bad = true
		return ""
	}
	return string(v.metadata[text+from : text+to])
}

func (v *variant) primitive(at, kind int) any {
	le := binary.LittleEndian
	long := func() int64 { return int64(le.Uint64(v.bytes(at, 8))) }
	switch kind {
	case 0:
		return nil
	case 1, 2:
		return kind == 1
	case 3:
		return int8(v.bytes(at, 1)[0])
	case 4:
		return int16(le.Uint16(v.bytes(at, 2)))
	case 5:
		return int32(le.Uint32(v.bytes(at, 4)))
	case 6:
		return long()
	case 7:
		return math.Float64frombits(uint64(long()))
	case 8, 9, 10:
		size := 4 << (kind - 8)
		scale := v.bytes(at, 1)[0]
		b := slices.Clone(v.bytes(at+1, size))
		slices.Reverse(b)
		return Decimal{Unscaled: twosComplement(b), Scale: int32(scale)}
	case 11:
		return dateOfDay(int64(int32(le.Uint32(v.bytes(at, 4)))))
	case 12:
		return instantOf(long(), 1000)
	case 13:
		return instantOf(long(), 1000).utc()
	case 14:
		return math.Float32frombits(le.Uint32(v.bytes(at, 4)))
	case 15:
		return slices.Clone(v.bytes(at+4, v.number(v.value, at, 4)))
	case 16:
		return string(v.bytes(at+4, v.number(v.value, at, 4)))
	case 17:
		return timeOfDay(long(), 1000)
	case 18:
		return instantOf(long(), 1)
	case 19:
		return instantOf(long(), 1).utc()
	case 20:
		b := v.bytes(at, 16)
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	v.bad = true
	return nil
}
