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
		read: func(in *Input) any { return c.Read(in) },
	}
}

// ForRow is RowSerializer of rows with row kind (since Flink 1.11). A row with another number of fields fails.
func ForRow(fields ...AnyCodec) Codec[Row] {
	fields = slices.Clone(fields)
	nested := make([]*Snapshot, len(fields))
	for i, f := range fields {
		nested[i] = f.Snapshot()
	}
	return &codec[Row]{
		snapshot: compositeSnapshot(javaRuntime+"RowSerializer$RowSerializerSnapshot", 4, Flag(true), nested...),
		len:      -1,
		write:    func(out *Output, r Row) { writeRow(out, r, fields) },
		read:     func(in *Input) Row { return readRow(in, fields) },
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

func readRow(in *Input, fields []AnyCodec) Row {
	var scratch [16]byte
	mask := append(scratch[:0], in.Take((2+len(fields)+7)/8)...)
	if in.err != nil {
		return Row{}
	}
	r := Row{Kind: mask[0]>>7 | mask[0]>>5&2, Fields: make([]any, len(fields))}
	for i := range fields {
		if !bit(mask, i+2) {
			r.Fields[i] = fields[i].Read(in)
		}
	}
	return r
}
