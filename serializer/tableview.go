package serializer

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/drey-state/drey/internal/javaio"
)

// Objects is a body of Java objects, kept as they are: types and serializers
// of an ARRAY or MAP.
type Objects struct{ streams []*javaio.ObjectStream }

func (b *Objects) write(out *Output, _ int32) { writeObjects(out, b.streams) }

// objectFamily is the family of a snapshot that consists of n Java objects,
// of which of makes the type of the values.
func objectFamily(n int, of func(*Objects) *logicalType) family {
	get := func(s *Snapshot) *logicalType {
		if b, ok := s.Body.(*Objects); ok && len(b.streams) == n {
			return of(b)
		}
		return nil
	}
	return family{
		oldest: 3, newest: 3,
		read: func(in *Input, _ int32) Body { return &Objects{readObjects(in, n)} },
		make: func(s *Snapshot) Serializer {
			if t := get(s); t != nil {
				return framed{t}
			}
			return nil
		},
		name: func(s *Snapshot) string {
			if t := get(s); t != nil {
				return t.String()
			}
			return shortName(s.Class)
		},
	}
}

// External is the outer body of a serializer that converts between Java's
// classes and the table runtime's: the data type as a Java object.
type External struct {
	dataType *javaio.ObjectStream
	Internal bool
}

func (b *External) write(out *Output, _ int32) {
	out.Raw(b.dataType.Raw)
	out.Bool(b.Internal)
}

func readExternal(in *Input, _ int32) Body {
	s, err := javaio.ReadObject(in)
	if err != nil {
		in.within("data type")
		return nil
	}
	return &External{dataType: s, Internal: in.flag("input")}
}

func externalName(c *Composite) string {
	if b, ok := c.Outer.(*External); ok {
		return dataTypeOf(b.dataType).String()
	}
	return c.Nested[0].String()
}

// makeExternal reads what the serializer within wrote; the data type knows
// more of it than that one does.
func makeExternal(c *Composite, p []Serializer) Serializer {
	b, ok := c.Outer.(*External)
	if !ok {
		return p[0]
	}
	t := dataTypeOf(b.dataType)
	if f, ok := p[0].(framed); ok {
		return framed{f.t.named(t)}
	}
	switch t.root {
	case rootDate, rootTime:
		return converted{p[0], t.root}
	case rootTimestampLTZ:
		return timestampValue(t.precision, true)
	}
	return p[0]
}

// named is a row type with the names of another, if that is of the same fields.
func (t *logicalType) named(other *logicalType) *logicalType {
	if t.root != rootRow || other.root != rootRow || len(t.children) != len(other.children) {
		return t
	}
	n := *t
	n.names, n.class, n.text = other.names, other.class, other.text
	return &n
}

// converted is a date or time by the serializer of an int.
type converted struct {
	value Serializer
	root  typeRoot
}

func (c converted) Len() int { return c.value.Len() }

func (c converted) Skip(in *Input) { c.value.Skip(in) }

func (c converted) Read(in *Input) any {
	off := in.Offset()
	v := c.value.Read(in)
	n, ok := v.(int32)
	switch {
	case !ok:
		return v
	case c.root == rootDate:
		return dateOf(n)
	}
	return timeOf(in, off, n)
}

func (c converted) encode(w *encoding, v any) error {
	if v == nil {
		return w.value(c.value, nil)
	}
	n, err := dayOfText(v)
	if c.root == rootTime {
		n, err = millisOfDayText(v)
	}
	if err != nil {
		return err
	}
	return w.value(c.value, json.Number(strconv.Itoa(int(n))))
}

// readMaskFlag reads the outer body of a linked list, which since version 3 says whether there is a mask.
func readMaskFlag(in *Input, version int32) Body {
	if version < 3 {
		return nil
	}
	return Flag(in.flag("null mask"))
}

func makeLinkedList(c *Composite, p []Serializer) Serializer {
	mask := c.OuterVersion >= 2
	if f, ok := c.Outer.(Flag); ok {
		mask = bool(f)
	}
	if mask {
		return maskedList{p[0]}
	}
	return &list{p[0]}
}

// maskedList has a bit for each element, high bit first, that is set for a
// null; then come the others.
type maskedList struct{ element Serializer }

func (maskedList) Len() int { return -1 }

// each calls visit for the elements, with whether they are null.
func (maskedList) each(in *Input, visit func(null bool)) {
	n := in.Length()
	// The mask is kept, since elements are read while it is in use.
	mask := append([]byte{}, in.Take((n+7)/8)...)
	for i := 0; i < n && !in.Lost(); i++ {
		visit(mask[i/8]<<(i%8)&0x80 != 0)
	}
}

func (l maskedList) Skip(in *Input) {
	l.each(in, func(null bool) {
		if !null {
			l.element.Skip(in)
		}
	})
}

func (l maskedList) Read(in *Input) any {
	list := []any{}
	l.each(in, func(null bool) {
		var v any
		if !null {
			v = l.element.Read(in)
		}
		list = append(list, v)
	})
	return list
}

func (l maskedList) encode(w *encoding, v any) error {
	list, ok := v.([]any)
	if !ok {
		return unexpected("an array", v)
	}
	w.Length(len(list))
	mask := make([]byte, (len(list)+7)/8)
	for i, e := range list {
		if e == nil {
			mask[i/8] |= 0x80 >> (i % 8)
		}
	}
	w.Raw(mask)
	for i, e := range list {
		if e == nil {
			continue
		}
		if err := w.value(l.element, e); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// SortedMap is the body of a sorted map: the comparator as a Java object.
type SortedMap struct {
	comparator *javaio.ObjectStream
	Nested     []*Snapshot
}

func (b *SortedMap) write(out *Output, _ int32) {
	out.Raw(b.comparator.Raw)
	writeNested(out, b.Nested)
}

func readSortedMap(in *Input, _ int32) Body {
	s, err := javaio.ReadObject(in)
	if err != nil {
		in.within("comparator")
		return nil
	}
	return &SortedMap{comparator: s, Nested: readNested(in)}
}

func makeSortedMap(s *Snapshot) Serializer {
	b, ok := s.Body.(*SortedMap)
	if !ok || len(b.Nested) != 2 {
		return nil
	}
	return &mapping{Of(b.Nested[0]), Of(b.Nested[1])}
}

func sortedMapName(s *Snapshot) string {
	if b, ok := s.Body.(*SortedMap); ok {
		return "SortedMap" + arguments(b.Nested)
	}
	return "SortedMap"
}

// RowKey is the body of a row with generated functions for equality and hash,
// which are Java objects.
type RowKey struct {
	Equaliser, Hash []byte
	Row             *Snapshot
}

func (b *RowKey) write(out *Output, _ int32) {
	out.Bytes32(b.Equaliser)
	out.Bytes32(b.Hash)
	b.Row.Write(out)
}

func readRowKey(in *Input, _ int32) Body {
	b := new(RowKey)
	b.Equaliser = append(b.Equaliser, in.Bytes32()...)
	b.Hash = append(b.Hash, in.Bytes32()...)
	b.Row = ReadSnapshot(in)
	return b
}

func makeRowKey(s *Snapshot) Serializer {
	if b, ok := s.Body.(*RowKey); ok {
		return Of(b.Row)
	}
	return nil
}

func rowKeyName(s *Snapshot) string {
	if b, ok := s.Body.(*RowKey); ok {
		return b.Row.String()
	}
	return shortName(s.Class)
}

// field is a field of an object.
type field struct {
	name  string
	value Serializer
}

// object is a value of a class that is its fields one after the other.
type object struct {
	class  string
	fields []field
	len    int
}

// newObject makes an object. Its length is known if that of each field is.
func newObject(class string, fields ...field) *object {
	r := &object{class: class, fields: fields}
	for _, f := range fields {
		if f.value.Len() < 0 {
			return &object{class: class, fields: fields, len: -1}
		}
		r.len += f.value.Len()
	}
	return r
}

// objectOf is the family of a composite whose parts are the fields of an object.
func objectOf(class string, names ...string) family {
	return composite(part{
		parts: len(names), name: func(*Composite) string { return class },
		make: func(_ *Composite, p []Serializer) Serializer {
			fields := make([]field, len(names))
			for i, n := range names {
				fields[i] = field{n, p[i]}
			}
			return newObject(class, fields...)
		},
	})
}

func (r *object) Len() int { return r.len }

func (r *object) Skip(in *Input) {
	for _, f := range r.fields {
		if f.value.Skip(in); in.Lost() {
			return
		}
	}
}

func (r *object) Read(in *Input) any {
	v := &Record{Class: r.class, Fields: make([]Field, 0, len(r.fields))}
	for i, f := range r.fields {
		value := f.value.Read(in)
		if in.err != nil {
			break
		}
		v.Fields = append(v.Fields, Field{f.name, value})
		if in.Lost() {
			v.Cut = i < len(r.fields)-1
			break
		}
	}
	return v
}

func (r *object) encode(w *encoding, v any) error { return w.fields(v, r.fields...) }
