package serializer

// variantSerializer reads a semi-structured value: the lengths of its two
// parts, which are the value and the dictionary of its names.
func variantSerializer() Serializer {
	return variable(func(in *Input) any {
		value, metadata := in.Length(), in.Length()
		v := append([]byte{}, in.Take(value)...)
		m := append([]byte{}, in.Take(metadata)...)
		return record("Variant", "value", v, "metadata", m)
	})
}
