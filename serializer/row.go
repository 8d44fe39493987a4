package serializer

import (
	"errors"
	"fmt"
)

// row is Row: a mask with a bit for each field that is null, which begins
// with two bits of the row kind since Flink 1.11, and the fields that are not.
type row struct {
	fields []Serializer
	kinds  bool
}

var rowKinds = [...]string{"+I", "-U", "+U", "-D"}

func (r *row) Len() int { return -1 }

// offset is the index of the first field in the mask.
func (r *row) offset() int {
	if r.kinds {
		return 2
	}
	return 0
}

// mask reads the bits; it appends to scratch.
func (r *row) mask(in *Input, scratch []byte) []byte {
	return append(scratch, in.Take((r.offset()+len(r.fields)+7)/8)...)
}

// bit is bit i of a mask that begins with the highest bit.
func bit(mask []byte, i int) bool { return mask[i/8]&(0x80>>(i%8)) != 0 }

func (r *row) kind(mask []byte) string {
	kind := 0
	if !r.kinds {
		return ""
	}
	if bit(mask, 0) {
		kind = 1
	}
	if bit(mask, 1) {
		kind += 2
	}
	return rowKinds[kind]
}

func (r *row) Skip(in *Input) {
	var scratch [16]byte
	mask := r.mask(in, scratch[:0])
	for i, f := range r.fields {
		if in.Lost() {
			return
		}
		if !bit(mask, r.offset()+i) {
			f.Skip(in)
		}
	}
}

func (r *row) Read(in *Input) any {
	var scratch [16]byte
	mask := r.mask(in, scratch[:0])
	if in.err != nil {
		return nil
	}
	record := &Record{Kind: r.kind(mask), Fields: make([]Field, 0, len(r.fields))}
	for i, f := range r.fields {
		if in.Lost() {
			record.Cut = true
			break
		}
		var v any
		if !bit(mask, r.offset()+i) {
			v = f.Read(in)
		}
		if in.withinIndex(i); in.err == nil {
			record.Fields = append(record.Fields, Field{Value: v})
		}
	}
	return record
}

func (r *row) appendJSON(dst []byte, in *Input) []byte {
	var scratch [16]byte
	mask := r.mask(in, scratch[:0])
	if in.err != nil {
		return append(dst, "null"...)
	}
	start := len(dst)
	kind := r.kind(mask)
	wrapped := kind != "" && kind != rowKinds[0]
	if wrapped {
		dst = appendRowStart(dst, kind)
	}
	fields := len(dst)
	dst = append(dst, '[')
	cut := false
	for i, f := range r.fields {
		if cut = in.Lost(); cut {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if bit(mask, r.offset()+i) {
			dst = append(dst, "null"...)
		} else {
			dst = AppendRead(dst, f, in)
		}
		in.withinIndex(i)
	}
	dst = append(dst, ']')
	if cut && !wrapped { // rare: now it needs to be wrapped
		array := string(dst[fields:])
		dst = append(appendRowStart(dst[:start], kind), array...)
		wrapped = true
	}
	if wrapped {
		dst = appendRowEnd(dst, cut)
	}
	return dst
}

func (r *row) encode(w *encoding, v any) error {
	kind, v, err := splitKind(v)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok || len(list) != len(r.fields) {
		return unexpected(fmt.Sprintf("an array of %d", len(r.fields)), v)
	}
	if kind != 0 && !r.kinds {
		return errors.New("these rows have no row kind")
	}
	mask := make([]byte, (r.offset()+len(list)+7)/8)
	if r.kinds {
		mask[0] = byte(kind&1<<7 | kind&2<<5)
	}
	for i, f := range list {
		if f == nil {
			at := r.offset() + i
			mask[at/8] |= 0x80 >> (at % 8)
		}
	}
	w.Raw(mask)
	for i, f := range r.fields {
		if list[i] == nil {
			continue
		}
		if err := w.value(f, list[i]); err != nil {
			return fmt.Errorf("field %d: %w", i, err)
		}
	}
	return nil
}

func rowFamily() family {
	return composite(part{
		parts: -1, name: generic("Row"),
		outer: func(in *Input, version int32) Body {
			if version < 4 {
				return nil
			}
			return Flag(in.flag("flag of row kinds"))
		},
		make: func(c *Composite, p []Serializer) Serializer {
			return &row{fields: p, kinds: rowHasKinds(c)}
		},
	})
}

// rowHasKinds says whether rows of a snapshot begin with their kind.
func rowHasKinds(c *Composite) bool {
	if f, ok := c.Outer.(Flag); ok {
		return bool(f)
	}
	return c.OuterVersion == 3
}
