package serializer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drey-state/drey/keygroup"
)

// pojo is the hashCode of POJOs by the rules of their classes. top says that they are the keys themselves, behind
// which nothing follows.
func (b hashBuilder) pojo(s *Snapshot, top bool) (hash, error) {
	body, _ := s.Body.(*Pojo)
	if body == nil {
		return nil, noHash(s, "its snapshot is not whole")
	}
	_, hasRule := b.rules.of(body.Class)
	own, err := b.fields(body, top)
	if err != nil && hasRule {
		return nil, err
	}
	known := err == nil
	var wrong error
	subs := subclassesOf(body, func(f *Frame) hash {
		h, why := b.subclass(f, top)
		if why == nil {
			known = true
			return h
		}
		if _, hasRule := b.rules.of(f.Name); hasRule && wrong == nil && f.Snapshot != nil && f.Snapshot.Class == pojoSnapshot {
			wrong = why
		}
		return failing(f.Name, why)
	}, func(class string) hash {
		return failing(class, fmt.Errorf("%s: %w: %s", class, ErrNoHash, noSubclass))
	})
	switch {
	case wrong != nil:
		return nil, wrong
	case !known:
		return nil, err
	case own == nil: // there may be objects of its subclasses only
		own = failing(body.Class, err)
	}
	return func(in *Input) (int32, bool) {
		exact, sub := subs.start(in)
		switch {
		case sub != nil:
			return sub(in)
		case exact:
			return own(in)
		}
		return 0, true
	}, nil
}

func (b hashBuilder) subclass(f *Frame, top bool) (hash, error) {
	switch {
	case f.Snapshot == nil:
		return nil, fmt.Errorf("%s: %w: %s", f.Name, ErrNoHash, noSubclass)
	case f.Snapshot.Class == pojoSnapshot:
		return b.pojo(f.Snapshot, top)
	}
	return b.plain(f.Snapshot)
}

// failing is the hash of values that have none.
func failing(class string, why error) hash {
	return func(in *Input) (int32, bool) {
		in.Fail(class, why)
		return 0, false
	}
}

// hashMember is a field of a POJO.
type hashMember struct {
	name  string
	hash  hash       // nil if hashCode does not take it
	skip  Serializer // then
	place int        // in the rule
	null  int32      // what null counts
}

// fields is the hashCode of objects of the class itself, behind their first byte.
func (b hashBuilder) fields(body *Pojo, top bool) (hash, error) {
	rule, ok := b.rules.of(body.Class)
	fail := func(format string, args ...any) (hash, error) {
		return nil, fmt.Errorf("%s: %w: "+format, append([]any{body.Class, ErrNoHash}, args...)...)
	}
	switch {
	case !ok && len(b.rules) > 0:
		return fail("its class has a hashCode of its own, and no rule is given for it")
	case !ok:
		return fail("its class has a hashCode of its own")
	}
	if err := rule.check(); err != nil {
		return fail("the rule %s: %w", rule, err)
	}
	var names []string
	for i := range body.Fields {
		names = append(names, body.Fields[i].Name)
	}
	if len(rule.Fields) == 0 {
		if len(names) != 1 {
			return fail("the rule %s must name the fields that hashCode takes, in its order, of %s", rule, strings.Join(names, ", "))
		}
		rule.Fields = []HashField{{Name: names[0]}}
	}
	places := make(map[string]int, len(rule.Fields))
	for i, f := range rule.Fields {
		places[f.Name] = i
	}
	members := make([]hashMember, len(names))
	last := 0 // behind the last one that is taken
	for i := range members {
		m, frame := &members[i], &body.Fields[i]
		m.name = names[i]
		var taken bool
		if m.place, taken = places[m.name]; !taken {
			m.skip = frame.serializer()
			continue
		}
		delete(places, m.name)
		var err error
		if m.hash, m.null, err = b.member(rule.Kind, rule.Fields[m.place].As, frame); err != nil {
			return fail("field %s: %w", m.name, err)
		}
		last = i + 1
	}
	for _, f := range rule.Fields {
		if _, missing := places[f.Name]; missing {
			return fail("the rule %s has a field %s, the class has %s", rule, f.Name, strings.Join(names, ", "))
		}
	}
	b.h.assume(fmt.Sprintf("that the hashCode of %s is %s", body.Class, rule))

	hashes := make([]int32, len(rule.Fields))
	join := rule.Kind.join()
	return func(in *Input) (int32, bool) {
		for i := range members {
			m := &members[i]
			null := in.Bool()
			switch {
			case m.hash == nil && !null:
				m.skip.Skip(in)
			case m.hash == nil:
			case null:
				hashes[m.place] = m.null
			default:
				if hashes[m.place], null = m.hash(in); null {
					hashes[m.place] = m.null
				}
			}
			if in.Lost() {
				if m.hash == nil && i >= last && top {
					break // of a length that is not known, but nothing is needed that is behind it
				}
				in.Fail("field "+m.name, fmt.Errorf("%w: what is behind it can't be found", ErrNoHash))
				break
			}
		}
		return join(hashes...), false
	}, nil
}

// join gives the function that joins the hash codes of fields.
func (k HashKind) join() func(...int32) int32 {
	switch k {
	case HashObjects:
		return keygroup.ListHash
	case HashLombok:
		return keygroup.LombokHash
	}
	return keygroup.TupleHash // of one field, its own
}

// member is what a field counts, and what it does if it is null.
func (b hashBuilder) member(kind HashKind, as HashAs, frame *Frame) (of hash, null int32, err error) {
	s := frame.Snapshot.plain()
	if s == nil {
		return nil, 0, errors.New("its serializer is not known")
	}
	array := isArray(s.Class)
	isBool := s.Class == base+"BooleanSerializer$BooleanSerializerSnapshot"
	if kind == HashLombok && !array {
		null = keygroup.LombokNull
	}
	switch {
	case as == HashName:
		of, err = enumName(s)
	case as == HashArray && !array:
		return nil, 0, fmt.Errorf("it is %s, no array", s)
	case as == HashArray, kind == HashLombok && array && as == "":
		of, err = b.content(s)
	case as == "" && array:
		return nil, 0, fmt.Errorf("it is an array: write %s:array if hashCode takes its content; its own hash is its address", frame.Name)
	case as == "" && kind == HashLombok && isBool:
		return nil, 0, fmt.Errorf("for Lombok it matters whether it is a boolean or a Boolean: write %[1]s:boolean or %[1]s:Boolean", frame.Name)
	case as == "":
		if of, err = b.plain(s); err != nil && s.Class == base+"EnumSerializer$EnumSerializerSnapshot" {
			err = fmt.Errorf("it is an enum: write %s:name if hashCode takes its name; its own hash is its address", frame.Name)
		}
	case !isBool:
		return nil, 0, fmt.Errorf("it is %s, no Boolean", s)
	case as == HashPrimitive && kind == HashLombok:
		of = func(in *Input) (int32, bool) { return keygroup.LombokBool(in.Bool()), false }
	case as == HashBit:
		of = func(in *Input) (int32, bool) {
			if in.Bool() {
				return 1, false
			}
			return 0, false
		}
	default:
		of = boolHash
	}
	return of, null, err
}

// isArray says that a class is the snapshot of a serializer of arrays.
func isArray(class string) bool {
	return elementHash(class) != nil || class == stringArray || class == base+"GenericArraySerializerSnapshot"
}

const stringArray = arrays + "StringArraySerializer$StringArraySerializerSnapshot"

// content is Arrays.hashCode or, of arrays in arrays, Arrays.deepHashCode; of anything else, its hashCode.
func (b hashBuilder) content(s *Snapshot) (hash, error) {
	if s = s.plain(); s == nil {
		return b.plain(nil)
	}
	if element := elementHash(s.Class); element != nil {
		return listHash(element, false), nil
	}
	switch s.Class {
	case stringArray:
		return listHash(stringHash, false), nil
	case base + "GenericArraySerializerSnapshot":
		if c := s.composite(1); c != nil {
			return b.list(c.Nested[0], b.content, true)
		}
	}
	return b.plain(s)
}

// enumName is the hashCode of the names of enum constants.
func enumName(s *Snapshot) (hash, error) {
	body, _ := s.Body.(*Enum)
	if body == nil {
		return nil, fmt.Errorf("it is %s, no enum", s)
	}
	codes := make([]int32, len(body.Constants))
	for i, name := range body.Constants {
		codes[i] = keygroup.StringHash(name)
	}
	return func(in *Input) (int32, bool) {
		off := in.Offset()
		i := in.I32()
		if i < 0 || int(i) >= len(codes) {
			in.FailAt(off, body.Class, fmt.Errorf("%w: no constant %d", ErrCorrupt, i))
			return 0, false
		}
		return codes[i], false
	}, nil
}
