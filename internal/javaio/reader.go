package javaio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Error is a failure to read or write a field at a byte offset.
type Error struct {
	// Offset is where the field begins, in bytes from the start of the input;
	// -1 where there is no input, but a value.
	Offset int64
	// Field is the path of the field, such as "operators[2].id".
	Field string
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %v", e.Field, e.Err)
	}
	if e.Field == "" {
		return fmt.Sprintf("offset %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("offset %d: %s: %v", e.Offset, e.Field, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrTruncated says that the input ends inside a field.
var ErrTruncated = errors.New("file ends too early")

// TruncatedError is ErrTruncated with the figures.
type TruncatedError struct {
	// Have is the length of the input in bytes, Need the least that it must be.
	Have, Need int64
}

// Error implements error.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("file ends at byte %d of at least %d", e.Have, e.Need)
}

// Is makes the error an ErrTruncated.
func (e *TruncatedError) Is(target error) bool { return target == ErrTruncated }

// Reader is a cursor over a byte slice with a sticky error: after the first
// error every method returns zero, so that a record is read straight through
// and checked once. What it returns shares the slice's memory.
type Reader struct {
	buf []byte
	off int
	err *Error

	believe int  // see BelieveCounts
	tooMany bool // see TooMany
}

// NewReader reads data, which must not change while anything read is in use.
func NewReader(data []byte) *Reader { return &Reader{buf: data} }

// Err is the first error, or nil.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// Failed says that there was an error.
func (r *Reader) Failed() bool { return r.err != nil }

// Offset is the number of bytes consumed.
func (r *Reader) Offset() int { return r.off }

// Remaining is the number of bytes left.
func (r *Reader) Remaining() int { return len(r.buf) - r.off }

// Fail records err for a field that begins at offset off, unless there is an error already.
func (r *Reader) Fail(off int, field string, err error) {
	if r.err == nil {
		r.err = &Error{Offset: int64(off), Field: field, Err: err}
	}
}

// Within puts an outer name before the field of the error; a caller does so
// for each level while the error travels outwards.
func (r *Reader) Within(outer string) {
	if r.err != nil {
		r.err.Field = joinField(outer, r.err.Field)
	}
}

// WithinIndex is Within for an element of a list.
func (r *Reader) WithinIndex(outer string, i int) {
	if r.err != nil {
		r.Within(fmt.Sprintf("%s[%d]", outer, i))
	}
}

func joinField(outer, inner string) string {
	switch {
	case outer == "":
		return inner
	case inner == "" || inner[0] == '[':
		return outer + inner
	}
	return outer + "." + inner
}

// take gives the next n bytes, or nil after recording the error.
func (r *Reader) take(n int, field string) []byte { return r.takeOf(r.off, n, field) }

// takeOf is take for a part of a field that begins at offset off.
func (r *Reader) takeOf(off, n int, field string) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.buf)-r.off {
		r.Fail(off, field, &TruncatedError{Have: int64(len(r.buf)), Need: int64(r.off) + int64(n)})
		return nil
	}
	b := r.buf[r.off : r.off+n : r.off+n]
	r.off += n
	return b
}

// U8 reads an unsigned byte.
func (r *Reader) U8(field string) byte {
	if b := r.take(1, field); b != nil {
		return b[0]
	}
	return 0
}

// I32 reads a big-endian int.
func (r *Reader) I32(field string) int32 {
	if b := r.take(4, field); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Peek32 is the int that I32 would read, or 0; nothing is consumed.
func (r *Reader) Peek32() int32 {
	if r.err != nil || r.Remaining() < 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(r.buf[r.off:]))
}

// I64 reads a big-endian long.
func (r *Reader) I64(field string) int64 {
	if b := r.take(8, field); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Raw reads n bytes.
func (r *Reader) Raw(n int, field string) []byte {
	if n < 0 {
		r.Fail(r.off, field, fmt.Errorf("negative length %d", n))
		return nil
	}
	return r.take(n, field)
}

// Bytes reads an int length and that many bytes.
func (r *Reader) Bytes(field string) []byte {
	off := r.off
	n := r.I32(field)
	if n < 0 {
		r.Fail(off, field, fmt.Errorf("negative length %d", n))
		return nil
	}
	return r.takeOf(off, int(n), field)
}

// UTF reads what writeUTF wrote and gives the raw modified UTF-8, checked.
func (r *Reader) UTF(field string) string {
	off := r.off
	h := r.take(2, field)
	if h == nil {
		return ""
	}
	b := r.takeOf(off, int(binary.BigEndian.Uint16(h)), field)
	if len(b) == 0 {
		return ""
	}
	s := unsafe.String(&b[0], len(b)) // shares the input, which the caller keeps unchanged
	if !ValidUTF(s) {
		r.Fail(off, field, ErrInvalidUTF)
		return ""
	}
	return s
}

// Count reads an int count of elements that take at least size bytes each,
// and refuses one that the bytes left can't hold, so that nothing is ever
// allocated for elements that aren't there.
func (r *Reader) Count(size int, field string) int {
	off := r.off
	n := int(r.I32(field))
	if n < 0 {
		r.Fail(off, field, fmt.Errorf("negative count %d", n))
		return 0
	}
	if n > r.Remaining()/size {
		r.tooMany = true
		if n > r.believe {
			r.Fail(off, field, &TruncatedError{Have: int64(len(r.buf)), Need: int64(r.off) + int64(n)*int64(size)})
			return 0
		}
	}
	return n
}

// BelieveCounts makes Count give counts that the bytes left can't hold, if
// they are not more than most, so that a file that was cut is read to where it
// ends. Who calls Count must then not allocate by what it says.
func (r *Reader) BelieveCounts(most int) { r.believe = most }

// TooMany says that there was a count that the bytes left can't hold.
func (r *Reader) TooMany() bool { return r.tooMany }

// I64s reads an int count and that many longs; nil for none.
func (r *Reader) I64s(field string) []int64 {
	off := r.off
	n := r.Count(8, field)
	b := r.takeOf(off, 8*n, field)
	if len(b) == 0 {
		return nil
	}
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	return v
}
