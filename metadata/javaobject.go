package metadata

import (
	"errors"

	"github.com/drey-state/drey/internal/javaio"
)

// Type codes of a Java object stream, as far as Flink's CheckpointProperties needs them.
const (
	javaMagic     = 0xACED0005
	javaNull      = 'p'
	javaReference = 'q'
	javaClass     = 'r'
	javaObject    = 's'
	javaString    = 't'
	javaEndBlock  = 'x'
	javaEnum      = '~'

	javaFirstHandle = 0x7e0000

	// Flags of a class: default serialization, and that for enums.
	javaSerializable = 0x02
	javaEnumFlag     = 0x10
)

// What is more than this is not understood, so that input can't make it costly.
// CheckpointProperties has 8 fields, and not 20 things with a handle.
const (
	maxJavaDepth   = 8 // objects in objects, superclasses
	maxJavaFields  = 64
	maxJavaHandles = 256
)

// errJavaUnknown is a part of a stream that is not understood; it may be right.
var errJavaUnknown = errors.New("unknown Java object")

// javaValue is an object, or a string or enum constant as its text.
type javaValue struct {
	class  *javaClassDesc
	text   string
	fields map[string]javaValue
}

type javaClassDesc struct {
	name   string
	flags  byte
	fields []javaField
	super  *javaClassDesc
}

type javaField struct {
	code byte
	name string
}

// javaStream reads a Java object stream as data: it makes no objects, and
// knows default serialization only.
type javaStream struct {
	*javaio.Reader
	handles []javaValue // a class description has class only
}

// readJava reads the object at the beginning of data, and how long it is. The
// error is an ErrTruncated if data ends within it.
func readJava(data []byte) (v javaValue, size int, err error) {
	s := &javaStream{Reader: javaio.NewReader(data)}
	if m := s.I32("magic"); !s.Failed() && uint32(m) != javaMagic {
		s.unknown()
	}
	v = s.content(maxJavaDepth)
	return v, s.Offset(), s.Err()
}

func (s *javaStream) unknown() { s.Fail(s.Offset(), "object", errJavaUnknown) }

func (s *javaStream) content(depth int) (v javaValue) {
	code := s.U8("code")
	if depth <= 0 || len(s.handles) > maxJavaHandles {
		s.unknown()
	}
	if s.Failed() {
		return v
	}
	switch code {
	case javaNull:
	case javaReference:
		v = s.reference()
	case javaString:
		v.text = javaio.DecodeUTF(s.UTF("string"))
		s.handles = append(s.handles, v)
	case javaEnum:
		v.class = s.classDesc(depth - 1)
		h := len(s.handles)
		s.handles = append(s.handles, v)
		v.text = s.content(depth - 1).text
		s.handles[h] = v
	case javaObject:
		v.class = s.classDesc(depth - 1)
		v.fields = map[string]javaValue{}
		s.handles = append(s.handles, v)
		s.fields(v.fields, v.class, depth-1)
	default:
		s.unknown()
	}
	return v
}

func (s *javaStream) reference() javaValue {
	n := int(s.I32("handle")) - javaFirstHandle
	if !s.Failed() && (n < 0 || n >= len(s.handles)) {
		s.unknown()
	}
	if s.Failed() {
		return javaValue{}
	}
	return s.handles[n]
}

// fields reads the values of a class's fields, its superclass's first.
func (s *javaStream) fields(into map[string]javaValue, c *javaClassDesc, depth int) {
	if c == nil || s.Failed() {
		return
	}
	if depth <= 0 || c.flags != javaSerializable {
		s.unknown()
		return
	}
	s.fields(into, c.super, depth-1)
	for _, f := range c.fields {
		var v javaValue
		switch f.code {
		case 'B', 'Z':
			v.text = string(s.Raw(1, f.name))
		case 'C', 'S':
			v.text = string(s.Raw(2, f.name))
		case 'F', 'I':
			v.text = string(s.Raw(4, f.name))
		case 'D', 'J':
			v.text = string(s.Raw(8, f.name))
		case 'L':
			v = s.content(depth - 1)
		default:
			s.unknown()
		}
		if s.Failed() {
			return
		}
		into[f.name] = v
	}
}

func (s *javaStream) classDesc(depth int) *javaClassDesc {
	code := s.U8("code")
	if depth <= 0 {
		s.unknown()
	}
	if s.Failed() {
		return nil
	}
	switch code {
	case javaNull:
		return nil
	case javaReference:
		c := s.reference().class
		if c == nil {
			s.unknown()
		}
		return c
	case javaClass:
	default:
		s.unknown()
		return nil
	}
	c := &javaClassDesc{name: javaio.DecodeUTF(s.UTF("class"))}
	s.Raw(8, "serialVersionUID")
	s.handles = append(s.handles, javaValue{class: c})
	c.flags = s.U8("flags")
	b := s.Raw(2, "fields")
	if s.Failed() {
		return nil
	}
	n := int(b[0])<<8 | int(b[1])
	if n > maxJavaFields {
		s.unknown()
		return nil
	}
	for range n {
		f := javaField{code: s.U8("code"), name: s.UTF("field")}
		if f.code == 'L' || f.code == '[' {
			s.content(depth - 1) // the type's name
		}
		if s.Failed() {
			return nil
		}
		c.fields = append(c.fields, f)
	}
	if s.U8("annotation") != javaEndBlock {
		s.unknown()
		return nil
	}
	c.super = s.classDesc(depth - 1)
	return c
}
