package serializer

import "fmt"

// list is List, ArrayList and arrays of which null is an element of its own.
type list struct{ element Serializer }

func (l *list) Len() int { return -1 }

func (l *list) Skip(in *Input) {
	for n := in.Length(); n > 0; n-- {
		start := in.Offset()
		if l.element.Skip(in); !in.element(start) {
			return
		}
	}
}

func (l *list) Read(in *Input) any { return readElements(in, l.element) }

func (l *list) appendJSON(dst []byte, in *Input) []byte { return appendElements(dst, in, l.element) }

func (l *list) encode(w *encoding, v any) error {
	return w.elements(v, func(v any) error { return w.value(l.element, v) })
}

func readElements(in *Input, element Serializer) any {
	n := in.Length()
	if in.err != nil {
		return nil
	}
	list := make([]any, 0, min(n, in.Remaining(), maxPrepared))
	for i := range n {
		start := in.Offset()
		v := element.Read(in)
		if in.withinIndex(i); in.err != nil {
			break
		}
		if list = append(list, v); !in.element(start) {
			break
		}
	}
	return list
}

func appendElements(dst []byte, in *Input, element Serializer) []byte {
	n := in.Length()
	if in.err != nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := 0; i < n; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		start := in.Offset()
		dst = AppendRead(dst, element, in)
		if in.withinIndex(i); !in.element(start) {
			break
		}
	}
	return append(dst, ']')
}

// flagged is a collection with a flag before each element: Set (the flag says
// null) and object arrays (it says that there is an element).
type flagged struct {
	element Serializer
	null    bool // the flag of a null
}

func (f *flagged) Len() int { return -1 }

func (f *flagged) Skip(in *Input) {
	for n := in.Length(); n > 0 && !in.Lost(); n-- {
		if in.Bool() != f.null {
			f.element.Skip(in)
		}
	}
}

func (f *flagged) Read(in *Input) any {
	n := in.Length()
	if in.err != nil {
		return nil
	}
	list := make([]any, 0, min(n, in.Remaining(), maxPrepared))
	for i := 0; i < n && !in.Lost(); i++ {
		v := f.next(in)
		if in.withinIndex(i); in.err == nil {
			list = append(list, v)
		}
	}
	return list
}

func (f *flagged) next(in *Input) any {
	if in.Bool() == f.null {
		return nil
	}
	return f.element.Read(in)
}

func (f *flagged) appendJSON(dst []byte, in *Input) []byte {
	n := in.Length()
	if in.err != nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := 0; i < n && !in.Lost(); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		if in.Bool() == f.null {
			dst = append(dst, "null"...)
		} else {
			dst = AppendRead(dst, f.element, in)
		}
		in.withinIndex(i)
	}
	return append(dst, ']')
}

func (f *flagged) encode(w *encoding, v any) error {
	return w.elements(v, func(v any) error {
		if w.Bool((v == nil) == f.null); v == nil {
			return nil
		}
		return w.value(f.element, v)
	})
}

// mapping is Map: key, flag of a null value, value.
type mapping struct{ key, value Serializer }

func (m *mapping) Len() int { return -1 }

func (m *mapping) Skip(in *Input) {
	for n := in.Length(); n > 0; n-- {
		if m.key.Skip(in); in.Lost() {
			return
		}
		if null := in.Bool(); !null {
			m.value.Skip(in)
		}
		if in.Lost() {
			return
		}
	}
}

func (m *mapping) Read(in *Input) any {
	n := in.Length()
	if in.err != nil {
		return nil
	}
	entries := make(Map, 0, min(n, in.Remaining()/2, maxPrepared))
	for i := 0; i < n && !in.Lost(); i++ {
		key := m.key.Read(in)
		var value any
		if !in.Lost() && !in.Bool() {
			value = m.value.Read(in)
		}
		if in.withinIndex(i); in.err == nil {
			entries = append(entries, MapEntry{Key: key, Value: value})
		}
	}
	return entries
}

func (m *mapping) appendJSON(dst []byte, in *Input) []byte {
	if !in.Framed() { // it could not be read again
		return AppendJSON(dst, m.Read(in))
	}
	start, before := len(dst), *in
	dst, ok := m.appendObject(dst, in)
	if !ok {
		*in = before
		return AppendJSON(dst[:start], m.Read(in))
	}
	return dst
}

// appendObject succeeds if all keys can be keys of a JSON object.
func (m *mapping) appendObject(dst []byte, in *Input) ([]byte, bool) {
	var keys keySet
	dst = append(dst, '{')
	for i, n := 0, in.Length(); i < n; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		from := len(dst)
		dst = AppendRead(dst, m.key, in)
		var ok bool
		if dst, ok = appendedKey(dst, from); !ok || in.Lost() || !keys.add(dst, from) {
			return dst, false
		}
		dst = append(dst, ':')
		if null := in.Bool(); null {
			dst = append(dst, "null"...)
		} else {
			dst = AppendRead(dst, m.value, in)
		}
		if in.Lost() {
			return dst, false
		}
	}
	return append(dst, '}'), in.err == nil
}

func (m *mapping) encode(w *encoding, v any) error {
	return w.entries(v, w.Length, func(key, value any) (end int, err error) {
		err = w.value(m.key, key)
		end = w.Len()
		if w.Bool(value == nil); value != nil && err == nil {
			err = w.value(m.value, value)
		}
		return end, err
	})
}

// tuple is TupleN and other values that are their fields one after the other.
type tuple struct {
	fields []Serializer
	len    int
}

// newTuple makes a tuple; its length is known if that of each field is and
// none is 0.
func newTuple(fields []Serializer) *tuple {
	t := &tuple{fields: fields}
	for _, f := range fields {
		if f.Len() <= 0 {
			return &tuple{fields: fields, len: -1}
		}
		t.len += f.Len()
	}
	return t
}

func (t *tuple) Len() int { return t.len }

func (t *tuple) Skip(in *Input) {
	for _, f := range t.fields {
		if f.Skip(in); in.Lost() {
			return
		}
	}
}

func (t *tuple) Read(in *Input) any {
	values := make([]any, 0, len(t.fields))
	for i, f := range t.fields {
		v := f.Read(in)
		if in.withinIndex(i); in.err != nil {
			break
		}
		if values = append(values, v); in.Lost() {
			break
		}
	}
	return values
}

func (t *tuple) appendJSON(dst []byte, in *Input) []byte {
	dst = append(dst, '[')
	for i, f := range t.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendRead(dst, f, in)
		if in.withinIndex(i); in.Lost() {
			break
		}
	}
	return append(dst, ']')
}

func (t *tuple) encode(w *encoding, v any) error {
	list, ok := v.([]any)
	if !ok || len(list) != len(t.fields) {
		return unexpected(fmt.Sprintf("an array of %d", len(t.fields)), v)
	}
	for i, f := range t.fields {
		if err := w.value(f, list[i]); err != nil {
			return fmt.Errorf("field %d: %w", i, err)
		}
	}
	return nil
}

// tupleOfNone is Tuple0, which writes a byte 42 that nobody checks.
func tupleOfNone() Serializer {
	return fixed(1, func(in *Input) any {
		in.U8()
		return []any{}
	}).writes(func(w *encoding, v any) error {
		w.U8(42)
		return (&tuple{}).encode(w, v)
	}).as(formArray)
}

// nullable has a flag before its value; a null is padded to the length of a
// value if that is fixed.
type nullable struct {
	value   Serializer
	padding int
}

func (n *nullable) Len() int {
	if n.padding == 0 {
		return -1
	}
	return 1 + n.padding
}

func (n *nullable) null(in *Input) bool {
	if !in.Bool() {
		return in.err != nil
	}
	in.Skip(int64(n.padding))
	return true
}

func (n *nullable) Skip(in *Input) {
	if !n.null(in) {
		n.value.Skip(in)
	}
}

func (n *nullable) Read(in *Input) any {
	if n.null(in) {
		return nil
	}
	return n.value.Read(in)
}

func (n *nullable) appendJSON(dst []byte, in *Input) []byte {
	if n.null(in) {
		return append(dst, "null"...)
	}
	return AppendRead(dst, n.value, in)
}

func (n *nullable) encode(w *encoding, v any) error {
	if w.Bool(v == nil); v != nil {
		return w.value(n.value, v)
	}
	if err := w.spend(n.padding); err != nil {
		return err
	}
	w.Raw(make([]byte, n.padding))
	return nil
}

// compositeFamily knows collections, tuples and wrappers.
func compositeFamily(class string) (family, bool) {
	switch class {
	case base + "ListSerializerSnapshot", runtimeState + "ArrayListSerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("List"),
			make: func(_ *Composite, p []Serializer) Serializer { return &list{p[0]} },
		}), true
	case base + "SetSerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("Set"),
			make: func(_ *Composite, p []Serializer) Serializer { return &flagged{element: p[0], null: true} },
		}), true
	case base + "MapSerializerSnapshot":
		return composite(part{
			parts: 2, name: generic("Map"),
			make: func(_ *Composite, p []Serializer) Serializer { return &mapping{p[0], p[1]} },
		}), true
	case base + "GenericArraySerializerSnapshot":
		return composite(part{
			parts: 1, outer: readClassName,
			name: func(c *Composite) string { return c.Nested[0].String() + "[]" },
			make: func(_ *Composite, p []Serializer) Serializer { return &flagged{element: p[0]} },
		}), true
	case javaRuntime + "TupleSerializerSnapshot":
		return composite(part{
			parts: -1, outer: readClassName,
			name: func(c *Composite) string {
				name, _ := c.Outer.(ClassName)
				return shortName(string(name)) + arguments(c.Nested)
			},
			make: func(_ *Composite, p []Serializer) Serializer { return newTuple(p) },
		}), true
	case javaRuntime + "NullableSerializer$NullableSerializerSnapshot":
		return composite(part{
			parts: 1,
			outer: func(in *Input, _ int32) Body { return Number(in.I32()) },
			name:  func(c *Composite) string { return c.Nested[0].String() },
			make: func(c *Composite, p []Serializer) Serializer {
				padding, _ := c.Outer.(Number)
				if n := p[0].Len(); padding < 0 || padding > 0 && n >= 0 && int(padding) != n {
					return nil
				}
				return &nullable{value: p[0], padding: int(padding)}
			},
		}), true
	}
	return family{}, false
}
