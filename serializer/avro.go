package serializer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/avro"
)

// Avro is the body of AvroSerializerSnapshot.
type Avro struct {
	// Class is the runtime class; version 1 does not have it.
	Class string
	// Schema is the JSON of the schema that values were written with.
	Schema string
}

func (b *Avro) write(out *Output, version int32) {
	switch version {
	case 1:
		out.UTF(b.Schema)
	case 2:
		out.UTF(b.Class)
		out.UTF(b.Schema)
	default:
		out.FlinkString(b.Class)
		out.FlinkString(b.Schema)
	}
}

func readAvro(in *Input, version int32) Body {
	switch version {
	case 1:
		return &Avro{Schema: in.name()}
	case 2:
		return &Avro{Class: in.name(), Schema: in.name()}
	}
	b := new(Avro)
	for _, text := range []*string{&b.Class, &b.Schema} {
		off := in.Offset()
		s, ok := in.FlinkString()
		if !ok {
			in.FailAt(off, "text", fmt.Errorf("%w: null", ErrCorrupt))
		}
		*text = s
	}
	return b
}

const genericRecord = "org.apache.avro.generic.GenericRecord"

func avroFamily() family {
	return family{
		oldest: 1, newest: 3, read: readAvro,
		make: func(s *Snapshot) Serializer {
			b, ok := s.Body.(*Avro)
			if !ok {
				return nil
			}
			schema, err := parseAvro(b.Schema)
			if err != nil {
				return unknown{class: b.Class, reason: fmt.Sprintf("its Avro schema can't be parsed: %v", err)}
			}
			return newAvroTypes().of(schema.Root())
		},
		name: func(s *Snapshot) string {
			b, ok := s.Body.(*Avro)
			if !ok {
				return shortName(s.Class)
			}
			if b.Class != "" && b.Class != genericRecord {
				return b.Class
			}
			schema, err := parseAvro(b.Schema)
			if err != nil {
				return b.Class
			}
			return fullName(schema.Root())
		},
	}
}

// parseAvro parses a schema as Flink does: names are not checked, since
// those of nested Java classes have a $.
func parseAvro(text string) (*avro.Schema, error) {
	return avro.Parse(text, avro.WithLaxNames(nil))
}

func fullName(n *avro.SchemaNode) string {
	switch {
	case n.Name == "":
		return n.Type
	case n.Namespace == "":
		return n.Name
	}
	return n.Namespace + "." + n.Name
}

// avroTypes makes serializers of a schema whose types may refer to each other by name.
type avroTypes struct{ named map[string]Serializer }

func newAvroTypes() avroTypes { return avroTypes{make(map[string]Serializer)} }

// of makes the serializer of values of a type. The encoding is Flink's
// (DataOutputEncoder), not Avro's: numbers and lengths are of fixed size.
func (t avroTypes) of(n *avro.SchemaNode) Serializer {
	switch n.Type {
	case "null":
		null := &scalar{len: -1, read: func(*Input) any { return nil }}
		return null.writes(func(_ *encoding, v any) error {
			if v != nil {
				return unexpected("null", v)
			}
			return nil
		})
	case "boolean":
		return variableLength(boolean())
	case "int":
		return avroInt(n.LogicalType)
	case "long":
		return avroLong(n.LogicalType)
	case "float":
		return variableLength(float())
	case "double":
		return variableLength(double())
	case "string":
		return avroString()
	case "bytes":
		if n.LogicalType == "decimal" {
			return variable(func(in *Input) any { return avroDecimal(in.Bytes32(), n.Scale) }).writes(func(w *encoding, v any) error {
				b, err := avroDecimalBytes(v, n.Scale)
				w.Bytes32(b)
				return err
			})
		}
		return byteArray()
	case "array":
		return &avroBlocks{element: t.of(n.Items)}
	case "map":
		return &avroBlocks{key: avroString(), element: t.of(n.Values)}
	case "union":
		u := new(avroUnion)
		for i := range n.Branches {
			u.branches = append(u.branches, t.of(&n.Branches[i]))
		}
		return u
	case "fixed":
		return t.name(n, avroFixed(n))
	case "enum":
		ids := make([]int32, len(n.Symbols))
		for i := range ids {
			ids[i] = int32(i)
		}
		return t.name(n, variableLength(constants(fullName(n), n.Symbols, ids)))
	case "record", "error":
		r := &avroRecord{class: fullName(n)}
		t.named[r.class] = r
		for i := range n.Fields {
			r.names = append(r.names, n.Fields[i].Name)
			r.fields = append(r.fields, t.of(&n.Fields[i].Type))
		}
		return r
	}
	if s, ok := t.named[n.Type]; ok {
		return s
	}
	return unknown{class: n.Type, reason: "the Avro schema has no such type"}
}

func (t avroTypes) name(n *avro.SchemaNode, s Serializer) Serializer {
	t.named[fullName(n)] = s
	return s
}

// variableLength is s where Flink does not say how long its values are.
func variableLength(s Serializer) Serializer {
	c := *s.(*scalar)
	c.len = -1
	return &c
}

func avroInt(logical string) Serializer {
	switch logical {
	case "date":
		return variable(func(in *Input) any { return dateOfDay(int64(in.I32())) }).text(with(dayOfText, (*Output).I32))
	case "time-millis":
		return variable(func(in *Input) any { return timeOfDay(int64(in.I32()), 1_000_000) }).text(func(out *Output, v any) error {
			n, err := unitsOfDay(v, 1_000_000)
			if err == nil && n != int64(int32(n)) {
				err = unexpected("an int", v)
			}
			out.I32(int32(n))
			return err
		})
	}
	return variableLength(integer())
}

func avroLong(logical string) Serializer {
	instant := func(unit int64) Serializer { // in nanoseconds
		return variable(func(in *Input) any { return instantOf(in.I64(), unit) }).text(unitsText(instantOfText, unit))
	}
	local := func(unit int64) Serializer {
		return variable(func(in *Input) any { return instantOf(in.I64(), unit).utc() }).text(unitsText(localInstantOfText, unit))
	}
	switch logical {
	case "time-micros":
		return variable(func(in *Input) any { return timeOfDay(in.I64(), 1000) }).text(func(out *Output, v any) error {
			n, err := unitsOfDay(v, 1000)
			out.I64(n)
			return err
		})
	case "timestamp-millis":
		return instant(1_000_000)
	case "timestamp-micros":
		return instant(1000)
	case "timestamp-nanos":
		return instant(1)
	case "local-timestamp-millis":
		return local(1_000_000)
	case "local-timestamp-micros":
		return local(1000)
	case "local-timestamp-nanos":
		return local(1)
	}
	return variableLength(long())
}

// instantOf is the instant of n units of so many nanoseconds since 1970.
func instantOf(n, unit int64) Instant {
	sec, rest := floorDiv(n, 1_000_000_000/unit)
	return Instant{Second: sec, Nano: int32(rest * unit)}
}

// timeOfDay is the time of n units of so many nanoseconds since midnight, or
// n itself if that is on another day.
func timeOfDay(n, unit int64) any {
	if day := 86_400_000_000_000 / unit; n < 0 || n >= day {
		return n
	}
	return instantOf(n, unit).utc().Time
}

// unitsText writes points in time in units of so many nanoseconds.
func unitsText(parse func(any) (Instant, error), unit int64) writeText {
	return func(out *Output, v any) error {
		i, err := parse(v)
		if err != nil {
			return err
		}
		n := i.Second*(1_000_000_000/unit) + int64(i.Nano)/unit
		if instantOf(n, unit) != i {
			return unexpected(fmt.Sprintf("a time in units of %d ns within 64 bits", unit), v)
		}
		out.I64(n)
		return nil
	}
}

// unitsOfDay is the inverse of timeOfDay.
func unitsOfDay(v any, unit int64) (int64, error) {
	if _, ok := v.(json.Number); ok {
		return integerOf(v, 64)
	}
	t, err := timeOfText(v)
	if err == nil && t.nanos()%unit != 0 {
		err = unexpected(fmt.Sprintf("a time in units of %d ns", unit), v)
	}
	return t.nanos() / unit, err
}

func avroString() Serializer {
	s := &scalar{
		len: -1, size: -1,
		skip: func(in *Input) { in.Skip(int64(in.Length())) },
		read: func(in *Input) any { return string(in.Bytes32()) },
		json: func(dst []byte, in *Input) []byte {
			return append(appendEscaped(append(dst, '"'), in.Bytes32()), '"')
		},
	}
	return s.text(with(stringOf, func(out *Output, s string) { out.Bytes32([]byte(s)) }))
}

func avroDecimal(b []byte, scale int) Decimal {
	return Decimal{Unscaled: twosComplement(b), Scale: int32(scale)}
}

// avroDecimalBytes are the fewest bytes of a decimal.
func avroDecimalBytes(v any, scale int) ([]byte, error) {
	d, err := decimalTextOf(v)
	if err != nil {
		return nil, err
	}
	if int(d.Scale) != scale {
		return nil, unexpected(fmt.Sprintf("a number with %d decimal places", scale), v)
	}
	return appendTwosComplement(nil, d.Unscaled), nil
}

func avroFixed(n *avro.SchemaNode) Serializer {
	s := &scalar{len: -1, size: n.Size, read: func(in *Input) any {
		b := in.Take(n.Size)
		if n.LogicalType == "decimal" {
			return avroDecimal(b, n.Scale)
		}
		return append([]byte{}, b...)
	}}
	return s.writes(func(w *encoding, v any) error {
		var b []byte
		var err error
		if n.LogicalType == "decimal" {
			b, err = avroDecimalBytes(v, n.Scale)
			if short := n.Size - len(b); err == nil && short > 0 {
				sign := byte(int8(b[0]) >> 7)
				b = append(bytes.Repeat([]byte{sign}, short), b...)
			}
		} else {
			b, err = bytesOf(v)
		}
		if err == nil && len(b) != n.Size {
			err = unexpected(fmt.Sprintf("%d bytes", n.Size), v)
		}
		w.Raw(b)
		return err
	})
}

// avroBlocks is an array or map: blocks of a count of items, ended by an empty one.
type avroBlocks struct{ key, element Serializer }

func (a *avroBlocks) Len() int { return -1 }

// items calls item for each item until one is lost.
func (a *avroBlocks) items(in *Input, item func()) {
	for n := in.Uvarint(); n > 0 && !in.Lost(); n = in.Uvarint() {
		for ; n > 0; n-- {
			start := in.Offset()
			if item(); !in.element(start) {
				return
			}
		}
	}
}

func (a *avroBlocks) Skip(in *Input) {
	a.items(in, func() {
		if a.key != nil {
			a.key.Skip(in)
		}
		a.element.Skip(in)
	})
}

func (a *avroBlocks) Read(in *Input) any {
	if a.key == nil {
		list := []any{}
		a.items(in, func() {
			if v := a.element.Read(in); in.err == nil {
				list = append(list, v)
			}
		})
		return list
	}
	entries := Map{}
	a.items(in, func() {
		e := MapEntry{Key: a.key.Read(in)}
		if e.Value = a.element.Read(in); in.err == nil {
			entries = append(entries, e)
		}
	})
	return entries
}

func (a *avroBlocks) appendJSON(dst []byte, in *Input) []byte {
	if a.key != nil {
		return AppendJSON(dst, a.Read(in))
	}
	dst = append(dst, '[')
	start := len(dst)
	a.items(in, func() {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = AppendRead(dst, a.element, in)
	})
	return append(dst, ']')
}

func (a *avroBlocks) encode(w *encoding, v any) error {
	// One block, as Flink writes it, and the end.
	count := func(n int) {
		if n > 0 {
			w.Uvarint(uint32(n))
		}
	}
	var err error
	if a.key == nil {
		err = w.counted(v, count, func(v any) error { return w.value(a.element, v) })
	} else {
		err = w.entries(v, count, func(key, value any) (end int, err error) {
			err = w.value(a.key, key)
			if end = w.Len(); err == nil {
				err = w.value(a.element, value)
			}
			return end, err
		})
	}
	w.Uvarint(0)
	return err
}

// avroUnion is the index of a branch, and its value.
type avroUnion struct{ branches []Serializer }

func (u *avroUnion) Len() int { return -1 }

func (u *avroUnion) branch(in *Input) Serializer {
	off := in.Offset()
	i := in.Length()
	if i >= len(u.branches) {
		in.FailAt(off, "union", fmt.Errorf("%w: branch %d of %d", ErrCorrupt, i, len(u.branches)))
	}
	if in.err != nil {
		return nil
	}
	return u.branches[i]
}

func (u *avroUnion) Skip(in *Input) {
	if b := u.branch(in); b != nil {
		b.Skip(in)
	}
}

func (u *avroUnion) Read(in *Input) any {
	if b := u.branch(in); b != nil {
		return b.Read(in)
	}
	return nil
}

func (u *avroUnion) appendJSON(dst []byte, in *Input) []byte {
	if b := u.branch(in); b != nil {
		return AppendRead(dst, b, in)
	}
	return append(dst, "null"...)
}

// encode writes the only branch that takes the value. If more do, the JSON does not tell which one it was.
func (u *avroUnion) encode(w *encoding, v any) error {
	start, failed := w.Len(), w.err
	var taken [][]byte
	var refused error
	for i, b := range u.branches {
		if err := w.spend(1); err != nil {
			return err
		}
		w.I32(int32(i))
		err := w.value(b, v)
		if err == nil && failed == nil {
			err = w.err
		}
		if err == nil {
			taken = append(taken, bytes.Clone(w.buf[start:]))
		} else if refused == nil || !errors.Is(refused, ErrUnsupported) {
			refused = err
		}
		w.buf, w.err = w.buf[:start], failed
	}
	if len(taken) > 1 { // some may be read as another value
		taken = slices.DeleteFunc(taken, func(b []byte) bool { return readsAs(u, b, v) != nil })
	}
	switch len(taken) {
	case 0:
		if refused == nil {
			refused = errors.New("there is none")
		}
		return fmt.Errorf("no type of a union takes it: %w", refused)
	case 1:
		w.Raw(taken[0])
		return nil
	}
	return w.opaque("a value of a union", fmt.Sprintf("the JSON stands for values of %d of its types", len(taken)))
}

// avroRecord is a record: its fields one after the other.
type avroRecord struct {
	class  string
	names  []string
	fields []Serializer
}

// maxValueDepth bounds how deep a value may contain others of its type.
const maxValueDepth = 1000

func (r *avroRecord) Len() int { return -1 }

func (r *avroRecord) Skip(in *Input) {
	if !in.deeper(r.class, maxValueDepth) {
		return
	}
	defer in.higher()
	start := in.Offset()
	for _, f := range r.fields {
		if f.Skip(in); in.Lost() {
			return
		}
	}
	in.element(start)
}

func (r *avroRecord) Read(in *Input) any {
	if !in.deeper(r.class, maxValueDepth) {
		return nil
	}
	defer in.higher()
	start := in.Offset()
	v := &Record{Class: r.class, Fields: make([]Field, 0, len(r.fields))}
	for i, f := range r.fields {
		if in.Lost() {
			v.Cut = true
			return v
		}
		value := f.Read(in)
		if in.within(r.names[i]); in.err == nil {
			v.Fields = append(v.Fields, Field{Name: r.names[i], Value: value})
		}
	}
	in.element(start)
	return v
}

func (r *avroRecord) appendJSON(dst []byte, in *Input) []byte {
	if !in.deeper(r.class, maxValueDepth) {
		return append(dst, "null"...)
	}
	defer in.higher()
	start := in.Offset()
	o := objectJSON{dst: append(dst, '{')}
	for i, f := range r.fields {
		if in.Lost() {
			return o.end(true)
		}
		o.name(r.names[i])
		o.dst = AppendRead(o.dst, f, in)
		in.within(r.names[i])
	}
	in.element(start)
	return o.end(false)
}

func (r *avroRecord) encode(w *encoding, v any) error {
	if w.depth++; w.depth > maxValueDepth {
		return fmt.Errorf("%s is nested more than %d deep", r.class, maxValueDepth)
	}
	defer func() { w.depth-- }()
	o, ok := v.(members)
	if !ok {
		return unexpected("an object", v)
	}
	values, err := o.named(r.names)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v == missing {
			return fmt.Errorf("field %q is missing", r.names[i])
		}
		if err := w.value(r.fields[i], v); err != nil {
			return fmt.Errorf("field %q: %w", r.names[i], err)
		}
	}
	return nil
}
