package serializer

import (
	"fmt"
	"math/big"

	"github.com/drey-state/drey/internal/javaio"
)

// Packages of classes of the table runtime.
const (
	tableTypes   = "org.apache.flink.table.runtime.typeutils."
	tableWindows = "org.apache.flink.table.runtime.operators.window."
	linkedState  = "org.apache.flink.table.runtime.sequencedmultisetstate.linked."
	dataview     = "org.apache.flink.table.dataview."
)

// tableFamily knows the classes of the table runtime and of CEP.
func tableFamily(class string) (family, bool) {
	switch class {
	case tableTypes + "RowDataSerializer$RowDataSerializerSnapshot":
		return family{oldest: 3, newest: 4, read: readRowTypes, make: makeRow, name: rowName}, true
	case tableTypes + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot":
		return family{
			oldest: 3, newest: 3,
			read: func(in *Input, _ int32) Body { return Number(in.I32()) },
			make: func(*Snapshot) Serializer { return untypedRow{} },
			name: func(*Snapshot) string { return "ROW" },
		}, true
	case tableTypes + "StringDataSerializer$StringDataSerializerSnapshot":
		return simple("STRING", framed{&logicalType{root: rootString, text: "STRING"}}), true
	case tableTypes + "DecimalDataSerializer$DecimalSerializerSnapshot":
		return family{oldest: 1, newest: 3, read: readPrecision, make: makeDecimal, name: precisionName("DECIMAL")}, true
	case tableTypes + "TimestampDataSerializer$TimestampDataSerializerSnapshot":
		return family{
			oldest: 1, newest: 1,
			read: func(in *Input, _ int32) Body { return Number(in.I32()) },
			make: makeTimestamp, name: precisionName("TIMESTAMP"),
		}, true
	case tableTypes + "ArrayDataSerializer$ArrayDataSerializerSnapshot":
		return objectFamily(2, func(b *Objects) *logicalType {
			element := typeOf(b.streams[0])
			return &logicalType{root: rootArray, text: "ARRAY", nullable: true, children: []*logicalType{element}}
		}), true
	case tableTypes + "MapDataSerializer$MapDataSerializerSnapshot":
		return objectFamily(4, func(b *Objects) *logicalType {
			key, value := typeOf(b.streams[0]), typeOf(b.streams[1])
			return &logicalType{root: rootMap, text: "MAP", nullable: true, children: []*logicalType{key, value}}
		}), true
	case tableTypes + "RawValueDataSerializer$RawValueDataSerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("RAW"),
			make: func(c *Composite, p []Serializer) Serializer {
				return framed{&logicalType{root: rootRaw, text: "RAW", class: c.Nested[0].String(), raw: p[0]}}
			},
		}), true
	case tableTypes + "ExternalSerializer$ExternalSerializerSnapshot":
		return composite(part{
			parts: 1, outer: readExternal, name: externalName,
			make: makeExternal,
		}), true
	case tableTypes + "WindowKeySerializer$WindowKeySerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("WindowKey"),
			make: func(_ *Composite, p []Serializer) Serializer {
				return newObject("WindowKey", field{"window", long()}, field{"key", p[0]})
			},
		}), true
	case tableTypes + "LinkedListSerializer$LinkedListSerializerSnapshot":
		return composite(part{parts: 1, outer: readMaskFlag, name: generic("List"), make: makeLinkedList}), true
	case tableTypes + "SortedMapSerializerSnapshot":
		return family{oldest: 3, newest: 3, read: readSortedMap, make: makeSortedMap, name: sortedMapName}, true
	}
	if f, ok := dataviewFamily(class); ok {
		return f, true
	}
	return cepFamily(class)
}

// dataviewFamily knows windows, views and what single operators keep.
func dataviewFamily(class string) (family, bool) {
	switch class {
	case tableWindows + "TimeWindow$Serializer$TimeWindowSerializerSnapshot":
		return simple("TimeWindow", timeWindow()), true
	case tableWindows + "CountWindow$Serializer$CountWindowSerializerSnapshot":
		return simple("CountWindow", newObject("CountWindow", field{"id", long()})), true
	case tableWindows + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot":
		return simple("GlobalWindow", unit("GlobalWindow", 1, 1)), true
	case dataview + "ListViewSerializerSnapshot", dataview + "MapViewSerializerSnapshot":
		return composite(part{
			parts: 1, name: func(c *Composite) string { return c.Nested[0].String() },
			make: func(_ *Composite, p []Serializer) Serializer { return p[0] },
		}), true
	case dataview + "NullAwareMapSerializerSnapshot":
		return composite(part{
			parts: 2, name: generic("Map"),
			make: func(_ *Composite, p []Serializer) Serializer {
				return &mapping{&nullable{value: p[0]}, p[1]}
			},
		}), true
	case dataview + "NullSerializer$NullSerializerSnapshot":
		return simple("NULL", onlyNull{}), true
	case "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot":
		return simple("Long", sortedLong()), true
	case linkedState + "RowDataKeySerializerSnapshot":
		return family{oldest: 0, newest: 0, read: readRowKey, make: makeRowKey, name: rowKeyName}, true
	case linkedState + "NodeSerializer$NodeSerializerSnapshot":
		return objectOf("Node", "row", "sqn", "prevSqn", "nextSqn", "nextSqnForRecord", "timestamp"), true
	case linkedState + "MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot":
		return objectOf("MetaSqnInfo", "highSqn", "size"), true
	case linkedState + "RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot":
		return objectOf("RowSqnInfo", "firstSqn", "lastSqn"), true
	}
	return family{}, false
}

// onlyNull has no other value; it writes a byte though its length is 0.
type onlyNull struct{}

func (onlyNull) Len() int { return 0 }

func (onlyNull) Skip(in *Input) { in.Skip(1) }

func (onlyNull) Read(in *Input) any {
	in.U8()
	return nil
}

func (onlyNull) encode(w *encoding, v any) error { return writeVoid(w, v) }

// sortedLong is a long whose bytes sort as it does.
func sortedLong() Serializer {
	return fixed(8, func(in *Input) any { return in.I64() ^ -1<<63 }).text(func(out *Output, v any) error {
		n, err := integerOf(v, 64)
		out.I64(n ^ -1<<63)
		return err
	})
}

// withLen is a serializer for which Flink gives another length than it has.
type withLen struct {
	len int
	Serializer
}

func (w withLen) encode(out *encoding, v any) error { return out.value(w.Serializer, v) }

func (w withLen) Len() int { return w.len }

// RowTypes is the body of a RowData serializer: the types of the fields as
// Java objects, which are kept as they are, and their serializers.
type RowTypes struct {
	types  []*javaio.ObjectStream
	Nested []*Snapshot
	// Named says that there are names, in version 4.
	Named bool
	Names []string
}

func readRowTypes(in *Input, version int32) Body {
	b := new(RowTypes)
	n := in.Length()
	b.types = readObjects(in, n)
	b.Nested = readNested(in)
	if version < 4 {
		return b
	}
	if b.Named = in.flag("names"); b.Named {
		for range b.types {
			b.Names = append(b.Names, in.name())
		}
	}
	return b
}

func (b *RowTypes) write(out *Output, version int32) {
	out.I32(int32(len(b.types)))
	writeObjects(out, b.types)
	writeNested(out, b.Nested)
	if version < 4 {
		return
	}
	out.Bool(b.Named)
	for _, n := range b.Names {
		out.UTF(n)
	}
}

func readObjects(in *Input, n int) []*javaio.ObjectStream {
	var all []*javaio.ObjectStream
	for i := 0; i < n && in.err == nil; i++ {
		if s, err := javaio.ReadObject(in); err == nil {
			all = append(all, s)
		} else {
			in.within(fmt.Sprintf("type[%d]", i))
		}
	}
	return all
}

func writeObjects(out *Output, streams []*javaio.ObjectStream) {
	for _, s := range streams {
		out.Raw(s.Raw)
	}
}

// rowType is the type that a body describes; nil if its parts don't fit.
func (b *RowTypes) rowType() *logicalType {
	t := &logicalType{root: rootRow, text: "ROW", nullable: true, names: b.Names}
	if len(b.Nested) != len(b.types) {
		return nil
	}
	for i, s := range b.types {
		c := typeOf(s)
		if c.root == rootRaw && c.raw == nil {
			if f, ok := Of(b.Nested[i]).(framed); ok {
				c.raw = f.t.raw
			}
		}
		t.children = append(t.children, c)
	}
	return t
}

func makeRow(s *Snapshot) Serializer {
	if b, ok := s.Body.(*RowTypes); ok {
		if t := b.rowType(); t != nil {
			return framed{t}
		}
	}
	return nil
}

func rowName(s *Snapshot) string {
	if b, ok := s.Body.(*RowTypes); ok {
		if t := b.rowType(); t != nil {
			return t.String()
		}
	}
	return "ROW"
}

// framed reads a value in the binary layout after its length in bytes.
type framed struct{ t *logicalType }

func (f framed) Len() int { return -1 }

func (f framed) Skip(in *Input) { in.Skip(int64(in.Length())) }

// open reads the bytes; false after a failure.
func (f framed) open(in *Input) (binaryValue, bool) {
	n := in.Length()
	at := in.Offset()
	data := in.Take(n)
	return binaryValue{in: in, at: at, data: data, left: n}, in.err == nil
}

func (f framed) Read(in *Input) any {
	b, ok := f.open(in)
	if !ok {
		return nil
	}
	switch f.t.root {
	case rootString:
		return string(b.data)
	case rootArray:
		return b.array(f.t.children[0])
	case rootMap:
		return b.mapping(f.t)
	case rootRaw:
		return b.rawValue(f.t)
	}
	return b.row(f.t)
}

func (f framed) appendJSON(dst []byte, in *Input) []byte {
	b, ok := f.open(in)
	switch {
	case !ok:
		return append(dst, "null"...)
	case f.t.root == rootString:
		return appendQuotedBytes(dst, b.data)
	case f.t.root == rootArray:
		return b.appendArray(dst, f.t.children[0])
	case f.t.root == rootMap:
		return AppendJSON(dst, b.mapping(f.t))
	case f.t.root == rootRaw:
		return AppendJSON(dst, b.rawValue(f.t))
	}
	return b.appendRow(dst, f.t)
}

func (f framed) encode(w *encoding, v any) error {
	var b []byte
	var err error
	switch f.t.root {
	case rootString:
		var s string
		s, err = stringOf(v)
		b = []byte(s)
	case rootArray, rootMap, rootRaw:
		b, err = w.binary(f.t, v)
	default:
		b, err = w.binaryRow(f.t, v)
	}
	w.Bytes32(b)
	return err
}

// untypedRow is a row of which only the number of fields is known.
type untypedRow struct{}

func (untypedRow) Len() int { return -1 }

func (untypedRow) Skip(in *Input) { in.Skip(int64(in.Length())) }

func (untypedRow) Read(in *Input) any {
	raw := in.Bytes32()
	if in.err != nil {
		return nil
	}
	return Opaque{Class: "BinaryRowData", Raw: append([]byte{}, raw...), Reason: "the types of the fields are not known"}
}

func (untypedRow) encode(w *encoding, _ any) error {
	return w.opaque("BinaryRowData", "the types of the fields are not known")
}

// Precision is the body of the serializer of DECIMAL.
type Precision struct{ Precision, Scale int32 }

func (p Precision) write(out *Output, _ int32) {
	out.I32(p.Precision)
	out.I32(p.Scale)
}

func readPrecision(in *Input, _ int32) Body { return Precision{in.I32(), in.I32()} }

func precisionName(name string) func(s *Snapshot) string {
	return func(s *Snapshot) string {
		switch b := s.Body.(type) {
		case Precision:
			return fmt.Sprintf("%s(%d, %d)", name, b.Precision, b.Scale)
		case Number:
			return sized(name, int32(b))
		}
		return name
	}
}

func makeDecimal(s *Snapshot) Serializer {
	p, ok := s.Body.(Precision)
	if !ok {
		return nil
	}
	return decimalValue(p)
}

// decimalValue is a DECIMAL outside of a row: a long, or bytes if that is too short.
type decimalValue Precision

func (decimalValue) Len() int { return -1 }

func (d decimalValue) Skip(in *Input) {
	if d.Precision <= compactDecimal {
		in.Skip(8)
	} else {
		in.Skip(int64(in.Length()))
	}
}

func (d decimalValue) Read(in *Input) any {
	v := Decimal{Scale: d.Scale}
	if d.Precision <= compactDecimal {
		v.Unscaled = big.NewInt(in.I64())
	} else {
		v.Unscaled = twosComplement(in.Bytes32())
	}
	if in.err != nil {
		return nil
	}
	return v
}

func (d decimalValue) encode(w *encoding, v any) error {
	unscaled, err := unscaledOf(v, d.Precision, d.Scale)
	switch {
	case err != nil:
		return err
	case d.Precision <= compactDecimal:
		w.I64(unscaled.Int64())
	default:
		w.Bytes32(appendTwosComplement(nil, unscaled))
	}
	return nil
}

func makeTimestamp(s *Snapshot) Serializer {
	if precision, ok := s.Body.(Number); ok {
		return timestampValue(int32(precision), false)
	}
	return nil
}

// timestampValue is a TIMESTAMP outside of a row: milliseconds and, if they do
// not suffice, nanoseconds. That of TIMESTAMP_LTZ is the same, and its snapshot
// does not tell them apart.
func timestampValue(precision int32, zoned bool) Serializer {
	show := func(i Instant) any {
		if zoned {
			return i
		}
		return i.utc()
	}
	parse := instantOfText
	if !zoned {
		parse = localInstantOfText
	}
	if precision <= compactTimestamp {
		return fixed(8, func(in *Input) any { return show(millis(in.I64())) }).text(func(out *Output, v any) error {
			i, err := parse(v)
			if err == nil && i.Nano%1_000_000 != 0 {
				err = unexpected("a time in milliseconds", v)
			}
			out.I64(i.millis())
			return err
		})
	}
	return fixed(12, func(in *Input) any {
		at := in.Offset()
		ms, nanos := in.I64(), in.I32()
		i := timestampOf(in, at, ms, int64(nanos))
		if in.err != nil {
			return nil
		}
		return show(i)
	}).text(with(parse, func(out *Output, i Instant) {
		out.I64(i.millis())
		out.I32(i.Nano % 1_000_000)
	}))
}
