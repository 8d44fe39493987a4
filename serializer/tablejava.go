package serializer

import "github.com/drey-state/drey/internal/javaio"

// serializer makes what reads the values of a serializer that is a Java
// object, as raw types have one; nil if its class is not known. Those of the
// table runtime hold types as objects, so they are not made by way of a snapshot.
func (r *typeReader) serializer(v javaio.Value) Serializer {
	o, ok := v.(*javaio.Object)
	if !ok || r.depth >= maxTypeDepth {
		return nil
	}
	r.depth++
	defer func() { r.depth-- }()
	switch o.Class.Name {
	case dataview + "NullSerializer":
		return onlyNull{}
	case tableTypes + "LinkedListSerializer":
		element := r.serializer(o.Field("elementSerializer"))
		if element == nil {
			return nil
		}
		if mask, _ := o.Field("hasNullMask").(bool); mask {
			return maskedList{element}
		}
		return &list{element}
	case tableTypes + "ExternalSerializer":
		return r.serializer(o.Field("internalSerializer"))
	case tableTypes + "RawValueDataSerializer":
		return framed{&logicalType{root: rootRaw, text: "RAW", raw: r.serializer(o.Field("serializer"))}}
	case tableTypes + "ArrayDataSerializer":
		return framed{&logicalType{root: rootArray, text: "ARRAY", children: []*logicalType{r.of(o.Field("eleType"))}}}
	case tableTypes + "MapDataSerializer":
		key, value := r.of(o.Field("keyType")), r.of(o.Field("valueType"))
		return framed{&logicalType{root: rootMap, text: "MAP", children: []*logicalType{key, value}}}
	case tableTypes + "DecimalDataSerializer":
		return decimalValue{o.Int("precision"), o.Int("scale")}
	case tableTypes + "TimestampDataSerializer":
		return timestampValue(o.Int("precision"), false)
	case tableTypes + "RowDataSerializer":
		types, ok := javaio.Elements(o.Field("types"))
		if r.left -= len(types); !ok || r.left < 0 {
			return nil
		}
		t := &logicalType{root: rootRow, text: "ROW"}
		for _, c := range types {
			t.children = append(t.children, r.of(c))
		}
		return framed{t}
	}
	if s := modernOf(v); knownClass(s.Class) {
		return Of(s)
	}
	return nil
}

func knownClass(class string) bool {
	_, ok := familyOf(class)
	return ok
}
