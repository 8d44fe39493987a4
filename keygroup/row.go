package keygroup

// RowRelease is a range of Flink's releases in which Row.hashCode is the same.
// Keys of type Row are in other key groups in each.
type RowRelease uint8

const (
	// Row8 is Flink 1.8 to 1.10, whose rows have no kind.
	Row8 RowRelease = iota
	// Row11 is Flink 1.11.
	Row11
	// Row12 is Flink 1.12.
	Row12
	// Row13 is Flink 1.13 and later.
	Row13
)

// Hash is the hash of a row by position with fields that count so much: what
// [RowRelease.Field], [RowRelease.Row] or [RowRelease.Map] gives for a field,
// 0 for null. Arrays and lists count a [ListHash] of what their elements
// count; but arrays of primitives are fields of that hash, and in Flink 1.8 to 1.10 a row with
// an array has no hash that lasts. The kind is 0 for +I, 1 -U, 2 +U, 3 -D.
func (r RowRelease) Hash(kind byte, fields ...int32) int32 {
	switch r {
	case Row8:
		return ListHash(fields...)
	case Row12:
		h := int32(kind)
		for _, f := range fields {
			h = 31*h + f
		}
		return h
	default:
		return 31*int32(kind) + ListHash(fields...)
	}
}

// Field is what a field counts that is no row, array, list or map and has this hash.
func (r RowRelease) Field(hash int32) int32 {
	if r >= Row12 {
		return 31 + hash
	}
	return hash
}

// Row is what a row in the row counts that has this hash.
func (r RowRelease) Row(hash int32) int32 {
	if r == Row13 {
		return 31 + hash
	}
	return hash
}

// Map is what a map counts; entries are an [EntryHash] of what key and value count, for each.
func (r RowRelease) Map(entries ...int32) int32 {
	h := SetHash(entries...)
	if r >= Row12 {
		return 1 + h
	}
	return h
}

// NamedRowHash is the hash of a row made by Row.withNames (since Flink 1.13);
// fields are the [EntryHash] of what name and value count, for each. The name is a [RowRelease.Field].
func NamedRowHash(kind byte, fields ...int32) int32 {
	return 31*int32(kind) + Row13.Map(fields...)
}
