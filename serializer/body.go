package serializer

import "strings"

// Simple is the body of a snapshot without content in its version 2, which
// had the class of the serializer (SimpleTypeSerializerSnapshot).
type Simple string

func (b Simple) write(out *Output, _ int32) { out.UTF(string(b)) }

func readSimple(in *Input, version int32) Body {
	if version != 2 {
		return nil
	}
	return Simple(in.name())
}

// ClassName is the body of a snapshot that consists of the class of the values.
type ClassName string

func (b ClassName) write(out *Output, _ int32) { out.UTF(string(b)) }

func readClassName(in *Input, _ int32) Body { return ClassName(in.name()) }

// Number is an outer body that is one int.
type Number int32

func (b Number) write(out *Output, _ int32) { out.I32(int32(b)) }

// Flag is an outer body that is one flag.
type Flag bool

func (b Flag) write(out *Output, _ int32) { out.Bool(bool(b)) }

// Composite is the body of a serializer that is made of others
// (CompositeTypeSerializerSnapshot).
type Composite struct {
	// OuterVersion is the version of Outer. In snapshot versions 1 and 2 it
	// is the snapshot's.
	OuterVersion int32
	// Outer is what the class has besides; nil if nothing: ClassName of tuples
	// and arrays, Number (the padding) of nullables, Flag of rows.
	Outer Body
	// Nested are the snapshots of the parts.
	Nested []*Snapshot
}

const (
	compositeMagic = 911108
	nestedMagic    = 1333245
)

func (b *Composite) write(out *Output, version int32) {
	if version >= 3 {
		out.I32(compositeMagic)
		out.I32(b.OuterVersion)
	}
	if b.Outer != nil {
		b.Outer.write(out, b.OuterVersion)
	}
	writeNested(out, b.Nested)
}

// readComposite makes a family.read; outer may be nil.
func readComposite(outer func(in *Input, version int32) Body) func(*Input, int32) Body {
	return func(in *Input, version int32) Body {
		b := &Composite{OuterVersion: version}
		if version >= 3 {
			in.magic("magic number of a composite", compositeMagic)
			b.OuterVersion = in.I32()
		}
		if outer != nil {
			b.Outer = outer(in, b.OuterVersion)
		}
		b.Nested = readNested(in)
		return b
	}
}

// readNested reads the snapshots of parts (NestedSerializersSnapshotDelegate).
func readNested(in *Input) []*Snapshot {
	in.magic("magic number of nested snapshots", nestedMagic)
	in.magic("version of nested snapshots", 1)
	n := in.Length()
	var nested []*Snapshot
	for i := 0; i < n && in.err == nil; i++ {
		nested = append(nested, ReadSnapshot(in))
	}
	return nested
}

func writeNested(out *Output, nested []*Snapshot) {
	out.I32(nestedMagic)
	out.I32(1)
	out.I32(int32(len(nested)))
	for _, s := range nested {
		s.Write(out)
	}
}

// simple is the family of a serializer without configuration.
func simple(name string, s Serializer) family {
	return family{
		oldest: 2, newest: 3, read: readSimple,
		make: func(*Snapshot) Serializer { return s },
		name: func(*Snapshot) string { return name },
	}
}

// part describes a family of composites.
type part struct {
	// parts is how many nested serializers there are; -1 for any number.
	parts int
	outer func(in *Input, version int32) Body
	make  func(c *Composite, parts []Serializer) Serializer
	name  func(c *Composite) string
}

// composite is the family of a serializer that is made of others.
func composite(p part) family {
	get := func(s *Snapshot) *Composite {
		c, _ := s.Body.(*Composite)
		if c == nil || p.parts >= 0 && len(c.Nested) != p.parts {
			return nil
		}
		return c
	}
	return family{
		oldest: 1, newest: 3, read: readComposite(p.outer),
		make: func(s *Snapshot) Serializer {
			c := get(s)
			if c == nil {
				return nil
			}
			parts := make([]Serializer, len(c.Nested))
			for i, n := range c.Nested {
				parts[i] = Of(n)
			}
			return p.make(c, parts)
		},
		name: func(s *Snapshot) string {
			c := get(s)
			if c == nil {
				return shortName(s.Class)
			}
			return p.name(c)
		},
	}
}

// generic names a type by its parts, such as "Map<String, Long>".
func generic(name string) func(*Composite) string {
	return func(c *Composite) string { return name + arguments(c.Nested) }
}

func arguments(nested []*Snapshot) string {
	if len(nested) == 0 {
		return ""
	}
	names := make([]string, len(nested))
	for i, n := range nested {
		names[i] = n.String()
	}
	return "<" + strings.Join(names, ", ") + ">"
}
