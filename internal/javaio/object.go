package javaio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var (
	// ErrCorrupt says that bytes contradict the format or each other.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsupported says that what was read is not understood here.
	ErrUnsupported = errors.New("not supported")
)

// ObjectSource is what an object stream is read from.
type ObjectSource interface {
	// Take reads n bytes, which are valid until the next call; nil after a failure.
	Take(n int) []byte
	// Err is the first failure.
	Err() error
	// Fail makes err the failure, unless there is one.
	Fail(field string, err error)
}

// ObjectStream is a Java object stream with one object.
type ObjectStream struct {
	// Raw is the whole stream, which has no length of its own.
	Raw []byte
	// Root is its object.
	Root Value
}

// ReadObject reads a stream with one object, as Flink writes them into its
// snapshots (InstantiationUtil.serializeObject to a DataOutputView): header and
// one content. The error is also the source's.
func ReadObject(src ObjectSource) (*ObjectStream, error) {
	r := NewObjectReader(src)
	root := r.Next()
	if err := src.Err(); err != nil {
		return nil, err
	}
	return &ObjectStream{Raw: r.raw, Root: root}, nil
}

// ParseObject is ReadObject at the start of a slice. It also gives the number of bytes read.
func ParseObject(data []byte) (*ObjectStream, int, error) {
	src := &sliceSource{r: NewReader(data)}
	s, err := ReadObject(src)
	return s, src.r.Offset(), err
}

// ParseContents reads a stream that is all of a slice: objects and blocks.
// The error comes with the contents before it.
func ParseContents(data []byte) ([]Value, error) {
	src := &sliceSource{r: NewReader(data)}
	r := NewObjectReader(src)
	var all []Value
	for src.Err() == nil && src.r.Remaining() > 0 {
		v := r.Next()
		if src.Err() == nil {
			all = append(all, v)
		}
	}
	return all, src.Err()
}

// sliceSource is a source of a slice.
type sliceSource struct{ r *Reader }

func (s *sliceSource) Take(n int) []byte { return s.r.Raw(n, "object stream") }

func (s *sliceSource) Err() error { return s.r.Err() }

func (s *sliceSource) Fail(field string, err error) { s.r.Fail(s.r.Offset(), field, err) }

const (
	objectMagic  = 0xACED0005
	firstHandle  = 0x7E0000
	maxDepth     = 500 // objects in objects
	maxHierarchy = 64  // classes of an object
)

// Type codes of the protocol (java.io.ObjectStreamConstants).
const (
	tcNull = 0x70 + iota
	tcReference
	tcClassDesc
	tcObject
	tcString
	tcArray
	tcClass
	tcBlock
	tcEndBlock
	tcReset
	tcBlockLong
	tcException
	tcLongString
	tcProxyClassDesc
	tcEnum
)

// ObjectReader reads the contents of one object stream one by one. It makes no
// Java objects, it reads what they wrote. Memory follows the bytes that arrive.
type ObjectReader struct {
	src     ObjectSource
	raw     []byte
	handles []Value // nil at an object that can't be referred to yet
	depth   int
}

// NewObjectReader reads the header of a stream. Failures are the source's.
func NewObjectReader(src ObjectSource) *ObjectReader {
	r := &ObjectReader{src: src}
	if m := r.u32(); src.Err() == nil && m != objectMagic {
		r.fail("magic", "%w: no Java object stream: %#x", ErrCorrupt, m)
	}
	return r
}

// Next reads the next content; resets before it are passed over. After a
// failure, which the source tells, the result means nothing.
func (r *ObjectReader) Next() Value {
	code := r.u8()
	for code == tcReset && r.ok() {
		r.handles = r.handles[:0]
		code = r.u8()
	}
	return r.content(code)
}

// Raw is all that was read, header included.
func (r *ObjectReader) Raw() []byte { return r.raw }

func (r *ObjectReader) ok() bool { return r.src.Err() == nil }

func (r *ObjectReader) fail(field, format string, args ...any) {
	r.src.Fail(field, fmt.Errorf(format, args...))
}

// take reads n bytes, which stay valid; nil after a failure.
func (r *ObjectReader) take(n int) []byte {
	b := r.src.Take(n)
	if b == nil {
		return nil
	}
	r.raw = append(r.raw, b...)
	return r.raw[len(r.raw)-n : len(r.raw) : len(r.raw)]
}

func (r *ObjectReader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *ObjectReader) u16() int {
	if b := r.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *ObjectReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *ObjectReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// length reads an int that must not be negative.
func (r *ObjectReader) length(field string) int {
	n := int32(r.u32())
	if n < 0 {
		r.fail(field, "%w: negative length %d", ErrCorrupt, n)
		return 0
	}
	return int(n)
}

func (r *ObjectReader) utf(field string) string { return r.text(r.u16(), field) }

// text reads n bytes of modified UTF-8.
func (r *ObjectReader) text(n int, field string) string {
	raw := string(r.take(n))
	if !ValidUTF(raw) {
		r.src.Fail(field, ErrInvalidUTF)
		return ""
	}
	return DecodeUTF(raw)
}

// assign gives v the next handle.
func (r *ObjectReader) assign(v Value) { r.handles = append(r.handles, v) }

func (r *ObjectReader) enter() bool {
	if r.depth++; r.depth > maxDepth {
		r.fail("object", "%w: objects nested deeper than %d", ErrUnsupported, maxDepth)
	}
	return r.ok()
}

// content reads a content after its type code.
func (r *ObjectReader) content(code byte) Value {
	defer func() { r.depth-- }()
	if !r.enter() {
		return nil
	}
	switch code {
	case tcNull:
		return nil
	case tcReference:
		return r.reference()
	case tcClassDesc, tcProxyClassDesc:
		return r.newClassDesc(code)
	case tcObject:
		return r.object()
	case tcString, tcLongString:
		return r.str(code)
	case tcArray:
		return r.array()
	case tcClass:
		c := &Class{Desc: r.classOf()}
		r.assign(c)
		return c
	case tcBlock:
		return Block(r.take(int(r.u8())))
	case tcBlockLong:
		return Block(r.take(r.length("block data")))
	case tcEnum:
		e := &Enum{Class: r.classOf()}
		r.assign(e)
		e.Constant = r.textOf("enum constant")
		return e
	case tcException:
		r.handles = r.handles[:0]
		a := &Aborted{Cause: r.content(r.u8())}
		r.handles = r.handles[:0]
		return a
	}
	r.fail("type code", "%w: %#x in a Java object stream", ErrCorrupt, code)
	return nil
}

func (r *ObjectReader) reference() Value {
	h := int64(r.u32()) - firstHandle
	if !r.ok() {
		return nil
	}
	if h < 0 || h >= int64(len(r.handles)) {
		r.fail("handle", "%w: %#x, of %d", ErrCorrupt, h+firstHandle, len(r.handles))
		return nil
	}
	return r.handles[h]
}

func (r *ObjectReader) str(code byte) string {
	n := 0
	if code == tcString {
		n = r.u16()
	} else {
		long := r.u64()
		if long > math.MaxInt32 {
			r.fail("string", "%w: length %d", ErrUnsupported, long)
			return ""
		}
		n = int(long)
	}
	s := r.text(n, "string")
	r.assign(s)
	return s
}

// textOf reads a content that must be a string.
func (r *ObjectReader) textOf(field string) string {
	switch code := r.u8(); code {
	case tcString, tcLongString:
		return r.str(code)
	case tcReference:
		if s, ok := r.reference().(string); ok {
			return s
		}
	}
	r.fail(field, "%w: no string", ErrCorrupt)
	return ""
}

// classOf reads the class of an object or array, which must not be null.
func (r *ObjectReader) classOf() *ClassDesc {
	c := r.classDesc()
	if c == nil {
		r.fail("class", "%w: no class", ErrCorrupt)
		return &ClassDesc{} // so that callers need not care
	}
	return c
}

// classDesc reads a class, nil for null.
func (r *ObjectReader) classDesc() *ClassDesc {
	defer func() { r.depth-- }()
	if !r.enter() {
		return nil
	}
	code := r.u8()
	switch code {
	case tcNull:
		return nil
	case tcClassDesc, tcProxyClassDesc:
		return r.newClassDesc(code)
	case tcReference:
		if c, ok := r.reference().(*ClassDesc); ok && c.closed {
			return c
		}
	}
	r.fail("class", "%w: no class description", ErrCorrupt)
	return nil
}

func (r *ObjectReader) newClassDesc(code byte) *ClassDesc {
	c := new(ClassDesc)
	if code == tcProxyClassDesc {
		c.Proxy, c.Flags = true, FlagSerializable
		r.assign(c)
		for n := r.length("interfaces"); n > 0 && r.ok(); n-- {
			c.Interfaces = append(c.Interfaces, r.utf("interface"))
		}
	} else {
		c.Name = r.utf("class name")
		c.UID = int64(r.u64())
		r.assign(c)
		c.Flags = r.u8()
		for n := r.u16(); n > 0 && r.ok(); n-- {
			c.Fields = append(c.Fields, r.classField())
		}
	}
	c.Annotations = r.annotations()
	c.Super = r.classDesc()
	if c.Super != nil {
		c.depth = c.Super.depth + 1
	}
	if c.depth >= maxHierarchy {
		r.fail("class", "%w: more than %d superclasses", ErrUnsupported, maxHierarchy)
	}
	c.closed = true
	return c
}

func (r *ObjectReader) classField() ClassField {
	f := ClassField{Code: r.u8(), Name: r.utf("field name")}
	switch codeSize(f.Code) {
	case -1:
		r.fail("field type", "%w: %q", ErrCorrupt, f.Code)
	case 0:
		f.Type = r.textOf("field type")
	}
	return f
}

// annotations reads blocks and objects up to the mark that ends them.
func (r *ObjectReader) annotations() []Value {
	var all []Value
	for r.ok() {
		code := r.u8()
		if code == tcEndBlock {
			break
		}
		all = append(all, r.content(code))
	}
	return all
}

func (r *ObjectReader) object() *Object {
	o := &Object{Class: r.classOf()}
	r.assign(o)
	if o.Class.Flags&FlagExternalizable != 0 {
		if o.Class.Flags&FlagBlockData == 0 {
			r.fail("object", "%w: %s wrote itself without marks", ErrUnsupported, o.Class.Name)
			return o
		}
		o.Data = []ClassData{{Class: o.Class, Annotations: r.annotations()}}
		return o
	}
	var chain [maxHierarchy]*ClassDesc
	n := 0
	for c := o.Class; c != nil && n < maxHierarchy; c = c.Super {
		chain[n] = c
		n++
	}
	for n--; n >= 0 && r.ok(); n-- {
		r.classData(o, chain[n])
	}
	return o
}

func (r *ObjectReader) classData(o *Object, c *ClassDesc) {
	if c.Flags&FlagSerializable == 0 {
		r.fail("class", "%w: %s is not serializable", ErrCorrupt, c.Name)
		return
	}
	if len(c.Fields) == 0 && c.Flags&FlagWriteMethod == 0 {
		return
	}
	o.Data = append(o.Data, ClassData{Class: c})
	d := &o.Data[len(o.Data)-1]
	for i := range c.Fields {
		v := r.field(c.Fields[i].Code)
		if !r.ok() {
			return
		}
		d.Fields = append(d.Fields, v)
	}
	if c.Flags&FlagWriteMethod != 0 {
		d.Annotations = r.annotations()
	}
}

func (r *ObjectReader) field(code byte) Value {
	switch code {
	case 'B':
		return int8(r.u8())
	case 'Z':
		return r.u8() != 0
	case 'C':
		return uint16(r.u16())
	case 'S':
		return int16(r.u16())
	case 'I':
		return int32(r.u32())
	case 'J':
		return int64(r.u64())
	case 'F':
		return math.Float32frombits(r.u32())
	case 'D':
		return math.Float64frombits(r.u64())
	}
	return r.item()
}

// item reads an object that is a field or an element, which can't be block data.
func (r *ObjectReader) item() Value {
	code := r.u8()
	if code == tcBlock || code == tcBlockLong {
		r.fail("object", "%w: a class wrote its fields by itself", ErrUnsupported)
		return nil
	}
	return r.content(code)
}

func (r *ObjectReader) array() *Array {
	a := &Array{Class: r.classOf()}
	r.assign(a)
	n := r.length("array")
	size := codeSize(elemCode(a.Class.Name))
	switch {
	case !r.ok():
	case size < 0:
		r.fail("array", "%w: class %s", ErrCorrupt, a.Class.Name)
	case size > 0:
		if n > math.MaxInt32/size {
			r.fail("array", "%w: %d elements", ErrUnsupported, n)
			return a
		}
		a.Primitives = r.take(n * size)
		a.Len = n
	default:
		for ; n > 0 && r.ok(); n-- {
			a.Elements = append(a.Elements, r.item())
		}
		a.Len = len(a.Elements)
	}
	return a
}
