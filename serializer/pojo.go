package serializer

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// pojoSnapshot is the class of the snapshots of POJOs.
const pojoSnapshot = javaRuntime + "PojoSerializerSnapshot"

// Pojo is the body of PojoSerializerSnapshot.
type Pojo struct {
	// Class of the values.
	Class string
	// Fields in the order in which they are written.
	Fields []Frame
	// Registered are the subclasses that the job registered, in the order of
	// their tags; Others are subclasses that it met.
	Registered, Others []Frame
}

func (b *Pojo) write(out *Output, _ int32) {
	out.UTF(b.Class)
	writeFrames(out, b.Fields)
	writeFrames(out, b.Registered)
	writeFrames(out, b.Others)
}

func readPojo(in *Input, _ int32) Body {
	return &Pojo{
		Class:      in.name(),
		Fields:     readFrames(in, true),
		Registered: readFrames(in, true),
		Others:     readFrames(in, true),
	}
}

func pojoFamily() family {
	return family{
		oldest: 2, newest: 2, read: readPojo,
		make: func(s *Snapshot) Serializer {
			if b, ok := s.Body.(*Pojo); ok {
				return newPojo(b)
			}
			return nil
		},
		name: func(s *Snapshot) string {
			if b, ok := s.Body.(*Pojo); ok {
				return b.Class
			}
			return shortName(s.Class)
		},
	}
}

// What a POJO begins with.
const (
	pojoNull       = 1
	pojoExact      = 2
	pojoSubclass   = 4 // its name and value follow
	pojoRegistered = 8 // its tag and value follow
)

// subclasses are the classes that values of a POJO's type may be of, each as a T.
type subclasses[T any] struct {
	class      string
	registered []T
	others     map[string]T
	unknown    func(class string) T
}

func subclassesOf[T any](b *Pojo, of func(*Frame) T, unknown func(class string) T) subclasses[T] {
	s := subclasses[T]{class: b.Class, unknown: unknown}
	for i := range b.Registered {
		s.registered = append(s.registered, of(&b.Registered[i]))
	}
	if len(b.Others) > 0 {
		s.others = make(map[string]T, len(b.Others))
	}
	for i := range b.Others {
		s.others[b.Others[i].Name] = of(&b.Others[i])
	}
	return s
}

// start reads what follows: exact says that fields do; sub, unless it is zero, that a
// value of a subclass does; neither, that it is null or the input has failed.
func (s *subclasses[T]) start(in *Input) (exact bool, sub T) {
	off := in.Offset()
	switch flags := in.U8(); flags {
	case pojoNull:
	case pojoExact:
		return true, sub
	case pojoSubclass:
		class := in.UTF()
		if in.err != nil {
			return false, sub
		}
		if t, ok := s.others[class]; ok {
			return false, t
		}
		return false, s.unknown(class)
	case pojoRegistered:
		if tag := int(in.U8()); tag < len(s.registered) {
			return false, s.registered[tag]
		}
		in.FailAt(off, s.class, fmt.Errorf("%w: no registered subclass has the tag", ErrCorrupt))
	default:
		in.FailAt(off, s.class, fmt.Errorf("%w: flags %#x", ErrCorrupt, flags))
	}
	return false, sub
}

// noSubclass is why a value of a subclass can't be read.
const noSubclass = "the snapshot has no serializer of this subclass"

// pojo is a Java object with fields: a byte that says what follows, and for
// each field a flag of null and the value.
type pojo struct {
	subclasses[Serializer]
	names  []string
	fields []Serializer
	// primitive says of each field that its class may be one that has no null.
	primitive []bool
}

func newPojo(b *Pojo) *pojo {
	p := &pojo{subclasses: subclassesOf(b, (*Frame).serializer, func(class string) Serializer {
		return unknown{class: class, reason: noSubclass}
	})}
	for i := range b.Fields {
		p.names = append(p.names, b.Fields[i].Name)
		p.fields = append(p.fields, b.Fields[i].serializer())
		p.primitive = append(p.primitive, mayBePrimitive(b.Fields[i].Snapshot))
	}
	return p
}

func (p *pojo) Len() int { return -1 }

func (p *pojo) Skip(in *Input) {
	exact, sub := p.start(in)
	if sub != nil {
		sub.Skip(in)
	}
	if !exact {
		return
	}
	for _, f := range p.fields {
		if null := in.Bool(); !null {
			f.Skip(in)
		}
		if in.Lost() {
			return
		}
	}
}

func (p *pojo) Read(in *Input) any { return p.read(in, false) }

func (p *pojo) read(in *Input, subclass bool) any {
	exact, sub := p.start(in)
	switch {
	case sub != nil:
		if s, ok := sub.(*pojo); ok {
			return s.read(in, true)
		}
		return sub.Read(in)
	case !exact || in.err != nil:
		return nil
	}
	r := &Record{Class: p.class, Subclass: subclass, Fields: make([]Field, 0, len(p.fields))}
	for i, f := range p.fields {
		if in.Lost() {
			r.Cut = true
			break
		}
		var v any
		if null := in.Bool(); !null {
			v = f.Read(in)
		}
		if in.within(p.names[i]); in.err == nil {
			r.Fields = append(r.Fields, Field{Name: p.names[i], Value: v})
		}
	}
	return r
}

func (p *pojo) appendJSON(dst []byte, in *Input) []byte { return p.appendObject(dst, in, false) }

func (p *pojo) appendObject(dst []byte, in *Input, subclass bool) []byte {
	exact, sub := p.start(in)
	switch {
	case sub != nil:
		if s, ok := sub.(*pojo); ok {
			return s.appendObject(dst, in, true)
		}
		return AppendRead(dst, sub, in)
	case !exact || in.err != nil:
		return append(dst, "null"...)
	}
	o := objectJSON{dst: append(dst, '{')}
	if subclass {
		o.class(p.class)
	}
	for i, f := range p.fields {
		if in.Lost() {
			return o.end(true)
		}
		o.name(p.names[i])
		if null := in.Bool(); null {
			o.dst = append(o.dst, "null"...)
		} else {
			o.dst = AppendRead(o.dst, f, in)
		}
		in.within(p.names[i])
	}
	return o.end(false)
}

func (p *pojo) encode(w *encoding, v any) error {
	o, ok := v.(members)
	switch {
	case v == nil:
		w.U8(pojoNull)
		return nil
	case !ok:
		if len(p.registered)+len(p.others) > 0 {
			return w.opaque(p.class, "a value of a subclass is shown without its class")
		}
		return unexpected("an object", v)
	case len(o) > 0 && o[0].name == "@class":
		return p.encodeSubclass(w, o)
	}
	w.U8(pojoExact)
	return p.encodeFields(w, o)
}

// encodeSubclass is encode of an object that names its class. As Flink does, it prefers a registered one.
func (p *pojo) encodeSubclass(w *encoding, o members) error {
	class, err := stringOf(o[0].value)
	if err != nil {
		return fmt.Errorf("@class: %w", err)
	}
	for tag, s := range p.registered {
		if sub, ok := s.(*pojo); ok && sub.class == class && tag <= math.MaxUint8 {
			w.U8(pojoRegistered)
			w.U8(byte(tag))
			w.U8(pojoExact)
			return sub.encodeFields(w, o[1:])
		}
	}
	if sub, ok := p.others[class].(*pojo); ok && sub.class == class {
		w.U8(pojoSubclass)
		w.UTF(class)
		w.U8(pojoExact)
		return sub.encodeFields(w, o[1:])
	}
	return fmt.Errorf("the serializer of %s knows no subclass %q", p.class, class)
}

func (p *pojo) encodeFields(w *encoding, o members) error {
	values, err := o.named(p.names)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v == missing {
			if v = nil; p.primitive[i] {
				return fmt.Errorf("field %q is missing: it may be a primitive, which has no null", p.names[i])
			}
			if err := w.spend(1 + len(p.names[i])); err != nil {
				return err
			}
		}
		if w.Bool(v == nil); v == nil {
			continue
		}
		if err := w.value(p.fields[i], v); err != nil {
			return fmt.Errorf("field %q: %w", p.names[i], err)
		}
	}
	return nil
}

// mayBePrimitive says that a serializer is that of a primitive type and of its box.
func mayBePrimitive(s *Snapshot) bool {
	if s = s.Modern(); s == nil {
		return false
	}
	switch s.Class {
	case base + "LongSerializer$LongSerializerSnapshot", base + "IntSerializer$IntSerializerSnapshot",
		base + "ShortSerializer$ShortSerializerSnapshot", base + "ByteSerializer$ByteSerializerSnapshot",
		base + "BooleanSerializer$BooleanSerializerSnapshot", base + "CharSerializer$CharSerializerSnapshot",
		base + "DoubleSerializer$DoubleSerializerSnapshot", base + "FloatSerializer$FloatSerializerSnapshot":
		return true
	}
	return false
}

// Enum is the body of EnumSerializer's snapshot: a value is an index into Constants.
type Enum struct {
	Class     string
	Constants []string
}

func (b *Enum) write(out *Output, _ int32) {
	out.UTF(b.Class)
	out.I32(int32(len(b.Constants)))
	for _, c := range b.Constants {
		out.UTF(c)
	}
}

func readEnum(in *Input, _ int32) Body {
	b := &Enum{Class: in.name()}
	for n := in.Length(); n > 0 && in.err == nil; n-- {
		b.Constants = append(b.Constants, in.name())
	}
	return b
}

func enumFamily() family {
	return family{
		oldest: 3, newest: 3, read: readEnum,
		make: func(s *Snapshot) Serializer {
			b, ok := s.Body.(*Enum)
			if !ok {
				return nil
			}
			ids := make([]int32, len(b.Constants))
			for i := range ids {
				ids[i] = int32(i)
			}
			return constants(b.Class, b.Constants, ids)
		},
		name: func(s *Snapshot) string {
			if b, ok := s.Body.(*Enum); ok {
				return b.Class
			}
			return shortName(s.Class)
		},
	}
}

// constants is a serializer of int values that each stand for a name.
func constants(class string, names []string, ids []int32) Serializer {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return ids[order[a]] < ids[order[b]] })
	find := func(in *Input) string {
		off := in.Offset()
		id := in.I32()
		at := sort.Search(len(order), func(i int) bool { return ids[order[i]] >= id })
		if at == len(order) || ids[order[at]] != id {
			in.FailAt(off, class, fmt.Errorf("%w: no constant %d", ErrCorrupt, id))
			return ""
		}
		return names[order[at]]
	}
	s := fixed(4, func(in *Input) any { return find(in) })
	s.json = func(dst []byte, in *Input) []byte { return appendQuoted(dst, find(in)) }
	return s.writes(func(w *encoding, v any) error {
		name, ok := v.(string)
		at := slices.Index(names, name)
		if !ok || at < 0 {
			return unexpected("a constant of "+class, v)
		}
		if slices.Contains(names[at+1:], name) {
			return w.opaque(class, "more than one constant has this name")
		}
		w.I32(ids[at])
		return nil
	}).as(formPlain)
}
