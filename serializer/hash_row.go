package serializer

import "github.com/drey-state/drey/keygroup"

// The outer versions of a row's snapshot that tell how its Flink release hashes rows.
const (
	rowOf1_8  = 2 // 1.8 to 1.10
	rowOf1_14 = 4 // 1.14 and later
)

// row is Row.hashCode.
func (b hashBuilder) row(s *Snapshot) (hash, error) {
	c := s.composite(-1)
	if c == nil {
		return nil, noHash(s, "its snapshot is not whole")
	}
	switch c.OuterVersion {
	case rowOf1_8:
		fields, err := b.each(c.Nested, b.plain)
		if err != nil {
			return nil, err
		}
		return rowHash(&row{fields: make([]Serializer, len(fields))}, fields), nil
	case rowOf1_14:
		fields, err := b.each(c.Nested, b.deep)
		if err != nil {
			return nil, err
		}
		kinds, _ := c.Outer.(Flag)
		b.h.assume("that rows were not made by Row.withNames")
		return rowHash(&row{fields: make([]Serializer, len(fields)), kinds: bool(kinds)}, fields), nil
	}
	return nil, noHash(s, "Flink 1.11, 1.12 and 1.13 hash rows in different ways")
}

// rowHash hashes rows laid out as r says.
func rowHash(r *row, fields []hash) hash {
	return func(in *Input) (int32, bool) {
		mask := in.Take((r.offset() + len(fields) + 7) / 8) // valid, since keys are slices
		if in.err != nil {
			return 0, false
		}
		h := int32(1)
		for i, f := range fields {
			var e int32
			if !bit(mask, r.offset()+i) {
				e, _ = f(in)
			}
			h = 31*h + e
		}
		if r.kinds && bit(mask, 0) {
			h += 31
		}
		if r.kinds && bit(mask, 1) {
			h += 2 * 31
		}
		return h, false
	}
}

// deep is what a field of a row counts in Flink 1.13 and later: it looks
// into lists, maps and arrays, and hashes arrays by content.
func (b hashBuilder) deep(s *Snapshot) (hash, error) {
	if s = s.Modern(); s == nil {
		return b.plain(nil)
	}
	switch s.Class {
	case javaRuntime + "NullableSerializer$NullableSerializerSnapshot":
		return b.nullable(s, b.deep)
	case base + "ListSerializerSnapshot", runtimeState + "ArrayListSerializerSnapshot":
		if c := s.composite(1); c != nil {
			return b.list(c.Nested[0], b.deep, false)
		}
	case base + "GenericArraySerializerSnapshot":
		if c := s.composite(1); c != nil {
			return b.list(c.Nested[0], b.deep, true)
		}
	case base + "MapSerializerSnapshot":
		if c := s.composite(2); c != nil {
			return b.mapping(c, b.deep, 1)
		}
	case stringArray:
		return listHash(leaf(stringHash), false), nil
	}
	if element := elementHash(s.Class); element != nil {
		return leaf(listHash(element, false)), nil
	}
	value, err := b.plain(s)
	if err != nil {
		return nil, err
	}
	return leaf(value), nil
}

// leaf is what a value counts in a row that is no list, map or array of objects.
func leaf(value hash) hash {
	return func(in *Input) (int32, bool) {
		code, null := value(in)
		if null {
			return 0, true
		}
		return keygroup.Row13.Field(code), false
	}
}
