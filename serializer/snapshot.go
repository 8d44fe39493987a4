package serializer

import (
	"fmt"
	"strings"
)

// Snapshot is what a state file says of the serializer that wrote it
// (TypeSerializerSnapshot): the class of the snapshot, its version and what
// that class wrote. It is not changed after it was read or made; any number of goroutines may use it.
type Snapshot struct {
	// Class is the binary name of the snapshot's class in Flink.
	Class string
	// Version is the snapshot version of that class.
	Version int32
	// Body is what the class wrote after its version; nil if nothing.
	Body Body
}

// Body is the content of a snapshot; its type belongs to the class.
type Body interface {
	// write is the inverse of the class's family.read.
	write(out *Output, version int32)
}

// Unread is the body of a snapshot that could not be read but whose end was
// found by what follows it.
type Unread []byte

func (b Unread) write(out *Output, _ int32) { out.Raw(b) }

// family is what the snapshot classes of a kind have in common.
type family struct {
	// oldest and newest are the snapshot versions that read understands.
	oldest, newest int32
	// read reads the body; nil if there is none. It need not check in.Err.
	read func(in *Input, version int32) Body
	// make gives nil if the snapshot is not as its class writes it, or if
	// values cannot be decoded; then Of gives what reads them as opaque.
	make func(s *Snapshot) Serializer
	// name is for Snapshot.String; nil for the class's own name.
	name func(s *Snapshot) string
}

// familyOf looks up a class. It is a chain of switches, not a table, since
// families refer to each other through Of.
func familyOf(class string) (family, bool) {
	for _, look := range [...]func(string) (family, bool){
		basicFamily, compositeFamily, streamingFamily, ownFamily, tableFamily, legacyFamily,
	} {
		if f, ok := look(class); ok {
			return f, true
		}
	}
	return family{}, false
}

// ReadSnapshot reads a snapshot with its class name and version
// (TypeSerializerSnapshot.readVersionedSnapshot). A class that is not known
// has an unknown length, and fails with an error that names it and unwraps to
// [ErrUnsupported]; so does a version. It returns nil after a failure.
func ReadSnapshot(in *Input) *Snapshot {
	if !in.deeper("serializer snapshot", maxDepth) {
		return nil
	}
	defer in.higher()
	off := in.Offset()
	s := &Snapshot{Class: in.name(), Version: in.I32()}
	if in.err != nil {
		in.within("serializer snapshot")
		return nil
	}
	f, ok := familyOf(s.Class)
	switch {
	case s.Version == adapterVersion:
		s.Body = readAdapted(in, s.Class)
	case !ok:
		in.FailAt(off, "serializer snapshot", fmt.Errorf("class %q: %w", s.Class, ErrUnsupported))
	case s.Version < f.oldest || s.Version > f.newest:
		in.FailAt(off, "serializer snapshot", fmt.Errorf("class %q in version %d: %w", s.Class, s.Version, ErrUnsupported))
	case f.read != nil:
		if s.Body = f.read(in, s.Version); in.err != nil {
			in.within(shortName(s.Class))
		}
	}
	if in.err != nil {
		return nil
	}
	return s
}

// Write is the inverse of [ReadSnapshot], byte for byte.
func (s *Snapshot) Write(out *Output) {
	out.UTF(s.Class)
	out.I32(s.Version)
	if s.Body != nil {
		s.Body.write(out, s.Version)
	}
}

// String names the type that the serializer is for, as a Java or SQL
// programmer would: "Map<String, Long>", "ROW<INT, STRING>", "com.example.Order".
func (s *Snapshot) String() string {
	if s == nil {
		return "?"
	}
	s = s.Modern()
	if _, unread := s.Body.(Unread); unread {
		return shortName(s.Class)
	}
	if f, ok := familyOf(s.Class); ok && f.name != nil {
		return f.name(s)
	}
	return shortName(s.Class)
}

// Of makes the serializer that a snapshot describes. It never fails: what is
// not known becomes a serializer of [Opaque] values that says why.
func Of(s *Snapshot) Serializer {
	if s == nil {
		return unknown{reason: "no serializer is known"}
	}
	s = s.Modern()
	if _, unread := s.Body.(Unread); unread {
		return unknown{class: s.Class, reason: "the serializer is not known"}
	}
	if f, ok := familyOf(s.Class); ok && f.make != nil {
		if r := f.make(s); r != nil {
			return r
		}
	}
	return unknown{class: s.Class, reason: "the serializer is not known"}
}

// shortName is a class name without its package.
func shortName(class string) string {
	return class[strings.LastIndexByte(class, '.')+1:]
}

// unknown reads values of unknown length.
type unknown struct{ class, reason string }

func (u unknown) Len() int { return -1 }

func (u unknown) Skip(in *Input) { u.rest(in) }

func (u unknown) Read(in *Input) any {
	raw := u.rest(in)
	if in.err != nil {
		return nil
	}
	return Opaque{Class: u.class, Raw: append([]byte{}, raw...), Reason: u.reason}
}

func (u unknown) encode(w *encoding, _ any) error { return w.opaque(u.class, u.reason) }

func (u unknown) rest(in *Input) []byte {
	if !in.Framed() {
		in.Fail("value", fmt.Errorf("%q has no length: %s: %w", u.class, u.reason, ErrUnsupported))
		return nil
	}
	raw := in.Rest()
	in.Lose()
	return raw
}
