package serializer

// ownFamily knows snapshots that are laid out in their own way.
func ownFamily(class string) (family, bool) {
	switch class {
	case javaRuntime + "RowSerializer$RowSerializerSnapshot":
		return rowFamily(), true
	}
	return family{}, false
}
