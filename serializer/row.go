package serializer

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
