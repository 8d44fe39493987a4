package serializer

import (
	"fmt"
	"slices"
)

// Row is Flink's Row: fields by position, nil for null. Kind is 0 for +I, 1 -U, 2 +U, 3 -D.
type Row struct {
	Kind   uint8
	Fields []any
}

// AnyCodec is a codec of fields of a [Row].
type AnyCodec = Codec[any]

// ForAny is a codec without its type, for a field of a [Row]. Writing a value of another type fails.
func ForAny[T any](c Codec[T]) AnyCodec {
	return &codec[any]{
		snapshot: c.Snapshot(),
		len:      c.Len(),
		write: func(out *Output, v any) {
			t, ok := v.(T)
			if !ok {
				out.Fail(fmt.Errorf("a %T where %T is expected", v, t))
				return
			}
			c.Write(out, t)
		},
		read:  func(in *Input) any { return c.Read(in) },
		wraps: true,
		adapt: func(r *resolution, old *Snapshot) func(*Input) any {
			read := adapted(r, "", c, old)
			return func(in *Input) any { return read(in) }
		},
	}
}

// ForRow is RowSerializer of rows with row kind (since Flink 1.11). A row with another number of fields fails.
func ForRow(fields ...AnyCodec) Codec[Row] {
	fields = slices.Clone(fields)
	nested := make([]*Snapshot, len(fields))
	reads := make([]func(*Input) any, len(fields))
	for i, f := range fields {
		nested[i], reads[i] = f.Snapshot(), f.Read
	}
	return &codec[Row]{
		snapshot: compositeSnapshot(javaRuntime+"RowSerializer$RowSerializerSnapshot", 4, Flag(true), nested...),
		len:      -1,
		write:    func(out *Output, r Row) { writeRow(out, r, fields) },
		read:     func(in *Input) Row { return readRow(in, reads, true) },
		adapt: byParts(len(fields), func(r *resolution, old *Composite) func(*Input) Row {
			kinds := rowHasKinds(old)
			if !kinds {
				r.differs, r.migrates = true, true
			}
			reads := make([]func(*Input) any, len(fields))
			for i, f := range fields {
				reads[i] = adapted(r, fmt.Sprintf("field %d", i), f, old.Nested[i])
			}
			return func(in *Input) Row { return readRow(in, reads, kinds) }
		}),
	}
}

func writeRow(out *Output, r Row, fields []AnyCodec) {
	switch {
	case len(r.Fields) != len(fields):
		out.Fail(fmt.Errorf("a row of %d fields, not %d", len(r.Fields), len(fields)))
		return
	case r.Kind > 3:
		out.Fail(fmt.Errorf("no row kind: %d", r.Kind))
		return
	}
	mask := make([]byte, (2+len(fields)+7)/8)
	mask[0] = r.Kind&1<<7 | r.Kind&2<<5
	for i, v := range r.Fields {
		if v == nil {
			mask[(i+2)/8] |= 0x80 >> ((i + 2) % 8)
		}
	}
	out.Raw(mask)
	for i, v := range r.Fields {
		if v != nil {
			fields[i].Write(out, v)
		}
	}
}

// readRow reads a row; those without kinds are all +I.
func readRow(in *Input, fields []func(*Input) any, kinds bool) Row {
	var scratch [16]byte
	first := 0 // bit of the first field
	if kinds {
		first = 2
	}
	mask := append(scratch[:0], in.Take((first+len(fields)+7)/8)...)
	if in.err != nil {
		return Row{}
	}
	r := Row{Fields: make([]any, len(fields))}
	if kinds {
		r.Kind = mask[0]>>7 | mask[0]>>5&2
	}
	for i, read := range fields {
		if !bit(mask, i+first) {
			r.Fields[i] = read(in)
		}
	}
	return r
}
