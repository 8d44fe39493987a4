package javaio

import "fmt"

// Writer appends to a byte slice with a sticky error. With Measure it only
// counts, so that one encoder both sizes and fills its buffer.
type Writer struct {
	buf     []byte
	n       int
	measure bool
	err     *Error
}

// NewWriter appends to buf, of which only the capacity matters.
func NewWriter(buf []byte) *Writer { return &Writer{buf: buf[:0]} }

// NewMeasure counts the bytes and keeps none.
func NewMeasure() *Writer { return &Writer{measure: true} }

// Err is the first error, or nil.
func (w *Writer) Err() error {
	if w.err == nil {
		return nil
	}
	return w.err
}

// Failed says that there was an error.
func (w *Writer) Failed() bool { return w.err != nil }

// Len is the number of bytes written or counted.
func (w *Writer) Len() int { return w.n }

// Written is the bytes written.
func (w *Writer) Written() []byte { return w.buf }

// Fail records err for a field at the present offset, unless there is an error already.
func (w *Writer) Fail(field string, err error) {
	if w.err == nil {
		w.err = &Error{Offset: int64(w.n), Field: field, Err: err}
	}
}

// Within puts an outer name before the field of the error.
func (w *Writer) Within(outer string) {
	if w.err != nil {
		w.err.Field = joinField(outer, w.err.Field)
	}
}

// WithinIndex is Within for an element of a list.
func (w *Writer) WithinIndex(outer string, i int) {
	if w.err != nil {
		w.Within(fmt.Sprintf("%s[%d]", outer, i))
	}
}

// U8 writes a byte.
func (w *Writer) U8(v byte) {
	w.n++
	if !w.measure {
		w.buf = append(w.buf, v)
	}
}

// I32 writes a big-endian int. Like the others it appends to w.buf in place:
// through binary.BigEndian the slice would be stored anew each time, at the
// cost of a write barrier.
func (w *Writer) I32(v int32) {
	w.n += 4
	if !w.measure {
		w.buf = append(w.buf, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
}

// I64 writes a big-endian long.
func (w *Writer) I64(v int64) {
	w.n += 8
	if !w.measure {
		w.buf = append(w.buf, byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
}

// Raw writes bytes as they are.
func (w *Writer) Raw(b []byte) {
	w.n += len(b)
	if !w.measure {
		w.buf = append(w.buf, b...)
	}
}

// Count writes the length of a list as an int.
func (w *Writer) Count(n int, field string) {
	if int(int32(n)) != n {
		w.Fail(field, fmt.Errorf("%d elements do not fit an int", n))
	}
	w.I32(int32(n))
}

// Bytes writes an int length and the bytes.
func (w *Writer) Bytes(b []byte, field string) {
	w.Count(len(b), field)
	w.Raw(b)
}

// UTF writes raw modified UTF-8 as writeUTF does.
func (w *Writer) UTF(raw, field string) {
	if len(raw) > MaxUTF {
		w.Fail(field, &UTFTooLongError{Bytes: len(raw)})
		return
	}
	w.n += 2 + len(raw)
	if !w.measure {
		w.buf = append(w.buf, byte(len(raw)>>8), byte(len(raw)))
		w.buf = append(w.buf, raw...)
	}
}

// I64s writes an int count and the longs.
func (w *Writer) I64s(v []int64, field string) {
	w.Count(len(v), field)
	if w.measure {
		w.n += 8 * len(v)
		return
	}
	for _, x := range v {
		w.I64(x)
	}
}
