package serializer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/drey-state/drey/internal/javaio"
)

var (
	// ErrTruncated says that the input ends too early.
	ErrTruncated = javaio.ErrTruncated
	// ErrCorrupt says that bytes contradict the format or each other.
	ErrCorrupt = javaio.ErrCorrupt
	// ErrUnsupported says that what was read is not understood here.
	ErrUnsupported = javaio.ErrUnsupported
)

// Error is a failure to decode, with the byte offset and what was read there.
type Error = javaio.Error

// Input reads the primitives of Flink's DataInputView from a slice or from a
// stream. It has a sticky error: after a failure every method returns zero
// values, so that a record can be read straight through and checked once.
// Memory follows the bytes that arrive, never a length in them. One goroutine
// may use it at a time.
type Input struct {
	buf  []byte
	pos  int
	keep int   // where marked bytes begin in buf; -1 if none are
	base int64 // offset of buf[0] in the whole
	from int64 // where reading began
	src  io.Reader
	err  error
	lost bool

	depth int   // of nested snapshots or recursive values, see deeper
	empty int64 // elements of no bytes, see element
}

// inputChunk is how much is read of a stream at least, in bytes.
const inputChunk = 64 << 10

// NewInput reads a slice, which is not changed. Values of unknown length reach
// to its end, see [Opaque].
func NewInput(data []byte) *Input {
	in := new(Input)
	in.Reset(data)
	return in
}

// NewStreamInput reads a stream whose first byte is at offset, which only
// serves messages and [Input.Offset].
func NewStreamInput(r io.Reader, offset int64) *Input {
	in := new(Input)
	in.ResetStream(r, offset)
	return in
}

// Reset makes the input read a slice from its start.
func (in *Input) Reset(data []byte) {
	*in = Input{buf: data, keep: -1}
}

// ResetAt is Reset for a slice that stands at offset of a file.
func (in *Input) ResetAt(data []byte, offset int64) {
	*in = Input{buf: data, keep: -1, base: offset, from: offset}
}

// ResetStream makes the input read a stream. It keeps its buffer.
func (in *Input) ResetStream(r io.Reader, offset int64) {
	buf := in.buf[:0]
	if in.src == nil {
		buf = nil // it was the caller's
	}
	*in = Input{buf: buf, keep: -1, base: offset, from: offset, src: r}
}

// Framed says that the end of the input is the end of the record, so that
// what has no length of its own reaches to there.
func (in *Input) Framed() bool { return in.src == nil }

// Err is the first failure, nil if there was none.
func (in *Input) Err() error { return in.err }

// Offset of the next byte.
func (in *Input) Offset() int64 { return in.base + int64(in.pos) }

// Fail makes err the input's error, if it has none yet. An error that is not
// yet an [Error] gets the offset of the next byte.
func (in *Input) Fail(field string, err error) { in.FailAt(in.Offset(), field, err) }

// FailAt is Fail for a field that begins at offset.
func (in *Input) FailAt(offset int64, field string, err error) {
	if in.err == nil {
		in.err = &Error{Offset: offset, Field: field, Err: err}
	}
}

// Failf is Fail with a text; the error unwraps to [ErrCorrupt].
func (in *Input) Failf(field, format string, args ...any) {
	in.Fail(field, fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...))
}

// Lose says that the rest of the frame was taken by a value of unknown length:
// what would follow cannot be read. Readers of composites ask [Input.Lost]
// after each part and stop.
func (in *Input) Lose() { in.lost = true }

// Lost says that Lose was called, or that the input failed.
func (in *Input) Lost() bool { return in.lost || in.err != nil }

// need makes n bytes available at pos, or fails.
func (in *Input) need(n int) bool {
	return len(in.buf)-in.pos >= n && in.err == nil || in.fill(n)
}

func (in *Input) fill(n int) bool {
	if in.err != nil {
		return false
	}
	for len(in.buf)-in.pos < n {
		if in.src == nil || !in.more() {
			in.Fail("bytes", &javaio.TruncatedError{Have: in.base + int64(len(in.buf)), Need: in.Offset() + int64(n)})
			return false
		}
	}
	return in.err == nil
}

// more reads once from the stream; false means that there is no more.
func (in *Input) more() bool {
	if start := in.start(); start > 0 {
		in.buf = in.buf[:copy(in.buf, in.buf[start:])]
		in.pos -= start
		in.base += int64(start)
		if in.keep >= 0 {
			in.keep -= start
		}
	}
	if cap(in.buf)-len(in.buf) < inputChunk {
		grown := make([]byte, len(in.buf), max(2*cap(in.buf), len(in.buf)+inputChunk))
		copy(grown, in.buf)
		in.buf = grown
	}
	for range 100 {
		n, err := in.src.Read(in.buf[len(in.buf):cap(in.buf)])
		in.buf = in.buf[:len(in.buf)+n]
		switch {
		case err != nil && err != io.EOF:
			in.Fail("bytes", err)
			return n > 0
		case n > 0:
			return true
		case err != nil:
			return false
		}
	}
	in.Fail("bytes", io.ErrNoProgress)
	return false
}

// start is the first byte that must stay in the buffer.
func (in *Input) start() int {
	if in.keep >= 0 {
		return in.keep
	}
	return in.pos
}

// AtEnd says whether no byte is left; a failed input is at its end.
func (in *Input) AtEnd() bool {
	if in.err != nil {
		return true
	}
	for in.pos == len(in.buf) {
		if in.src == nil || !in.more() {
			return true
		}
	}
	return false
}

// Finish gives the error of the input, or one if bytes of its slice are left.
func (in *Input) Finish() error {
	if in.err == nil && !in.AtEnd() {
		in.Failf("end", "%d bytes follow", in.Remaining())
	}
	return in.err
}

// Remaining is how many bytes are left of a slice; of a stream, how many are buffered.
func (in *Input) Remaining() int { return len(in.buf) - in.pos }

// Mark keeps all bytes from here on, for [Input.Marked].
func (in *Input) Mark() { in.keep = in.pos }

// Marked gives the bytes read since [Input.Mark] and ends the marking. They
// are valid until the next call of a method.
func (in *Input) Marked() []byte {
	if in.keep < 0 {
		return nil
	}
	b := in.buf[in.keep:in.pos:in.pos]
	in.keep = -1
	return b
}

// Take reads n bytes, which are valid until the next call of a method. It
// returns nil after a failure.
func (in *Input) Take(n int) []byte {
	if n < 0 {
		in.Failf("length", "%d bytes", n)
		return nil
	}
	if !in.need(n) {
		return nil
	}
	b := in.buf[in.pos : in.pos+n : in.pos+n]
	in.pos += n
	return b
}

// Rest takes all that is left of a frame. A stream fails.
func (in *Input) Rest() []byte {
	if in.src != nil {
		in.Fail("bytes", errors.New("a value of unknown length in a stream"))
		return nil
	}
	return in.Take(len(in.buf) - in.pos)
}

// Skip moves past n bytes without holding them.
func (in *Input) Skip(n int64) {
	if n >= 0 && n <= int64(len(in.buf)-in.pos) && in.err == nil {
		in.pos += int(n)
		return
	}
	for n > 0 && in.err == nil {
		if in.pos == len(in.buf) && !in.need(1) {
			return
		}
		step := min(n, int64(len(in.buf)-in.pos))
		in.pos += int(step)
		n -= step
	}
	if n < 0 {
		in.Failf("length", "%d bytes", n)
	}
}

// U8 reads a byte.
func (in *Input) U8() byte {
	if !in.need(1) {
		return 0
	}
	b := in.buf[in.pos]
	in.pos++
	return b
}

// Bool reads a byte; anything but 0 is true.
func (in *Input) Bool() bool { return in.U8() != 0 }

// U16 reads two bytes.
func (in *Input) U16() uint16 {
	if !in.need(2) {
		return 0
	}
	b := in.buf[in.pos:]
	in.pos += 2
	return uint16(b[0])<<8 | uint16(b[1])
}

// I32 reads four bytes.
func (in *Input) I32() int32 {
	if !in.need(4) {
		return 0
	}
	b := in.buf[in.pos:]
	in.pos += 4
	return int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
}

// I64 reads eight bytes.
func (in *Input) I64() int64 {
	if !in.need(8) {
		return 0
	}
	b := in.buf[in.pos:]
	in.pos += 8
	return int64(uint64(b[0])<<56 | uint64(b[1])<<48 | uint64(b[2])<<40 | uint64(b[3])<<32 |
		uint64(b[4])<<24 | uint64(b[5])<<16 | uint64(b[6])<<8 | uint64(b[7]))
}

// F32 reads a float.
func (in *Input) F32() float32 { return math.Float32frombits(uint32(in.I32())) }

// F64 reads a double.
func (in *Input) F64() float64 { return math.Float64frombits(uint64(in.I64())) }

// UTF reads modified UTF-8 with its two-byte length (DataInput.readUTF) as
// UTF-8, in which a lone surrogate stays as three bytes.
func (in *Input) UTF() string {
	off := in.Offset()
	raw := string(in.Take(int(in.U16())))
	if in.err == nil && !javaio.ValidUTF(raw) {
		in.FailAt(off, "text", javaio.ErrInvalidUTF)
	}
	if in.err != nil {
		return ""
	}
	return javaio.DecodeUTF(raw)
}

// Bytes32 reads bytes after their four-byte length, valid until the next call.
func (in *Input) Bytes32() []byte {
	n := in.Length()
	return in.Take(n)
}

// Length reads a four-byte length or count, which must not be negative.
func (in *Input) Length() int {
	off := in.Offset()
	n := in.I32()
	if n < 0 {
		in.FailAt(off, "length", fmt.Errorf("%w: %d", ErrCorrupt, n))
		return 0
	}
	return int(n)
}

// Uvarint reads unsigned LEB128 of at most 32 bits (variable-length lengths
// and UTF-16 code units). Longer forms than needed, which no writer has, fail.
func (in *Input) Uvarint() uint32 {
	off := in.Offset()
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := in.U8()
		v |= uint32(b&0x7F) << shift
		switch {
		case b >= 0x80:
			continue
		case b == 0 && shift > 0 && in.err == nil, shift == 28 && b > 0xF:
			in.FailAt(off, "variable-length number", fmt.Errorf("%w: not its shortest form", ErrCorrupt))
			return 0
		}
		return v
	}
	in.FailAt(off, "variable-length number", fmt.Errorf("%w: more than five bytes", ErrCorrupt))
	return 0
}

// maxDepth bounds how deep snapshots may be nested.
const maxDepth = 64

// deeper goes one level down, if it may; then the caller goes up again by higher.
func (in *Input) deeper(field string, most int) bool {
	if in.depth >= most {
		in.Failf(field, "nested more than %d deep", most)
	}
	if in.err != nil {
		return false
	}
	in.depth++
	return true
}

func (in *Input) higher() { in.depth-- }

// maxEmpty bounds how many elements without a byte there may be more than
// bytes: a hostile count costs nothing else.
const maxEmpty = 1 << 16

// element says whether to go on after an element of a collection that began
// at offset start.
func (in *Input) element(start int64) bool {
	if in.Offset() == start {
		if in.empty++; in.empty > maxEmpty+in.Offset()-in.from {
			in.Failf("count", "%d elements without a byte", in.empty)
		}
	}
	return !in.Lost()
}

// flag reads a byte that must be 0 or 1, so that it is written as it was read.
func (in *Input) flag(field string) bool {
	off := in.Offset()
	b := in.U8()
	if b > 1 {
		in.FailAt(off, field, fmt.Errorf("%w: flag is %d", ErrCorrupt, b))
	}
	return b == 1
}

// magic reads four bytes that must be want.
func (in *Input) magic(field string, want int32) {
	off := in.Offset()
	if got := in.I32(); got != want && in.err == nil {
		in.FailAt(off, field, fmt.Errorf("%w: %d instead of %d", ErrCorrupt, got, want))
	}
}

// name reads text that a snapshot must give back byte for byte: over-long
// forms of modified UTF-8, which no writer has, fail.
func (in *Input) name() string {
	off := in.Offset()
	raw := string(in.Take(int(in.U16())))
	if in.err != nil {
		return ""
	}
	if !javaio.ValidUTF(raw) {
		in.FailAt(off, "text", javaio.ErrInvalidUTF)
		return ""
	}
	s := javaio.DecodeUTF(raw)
	if back, err := javaio.EncodeUTF(s); err != nil || back != raw {
		in.FailAt(off, "text", fmt.Errorf("%w: not the shortest form", javaio.ErrInvalidUTF))
		return ""
	}
	return s
}

// within puts an outer name before the field of the error, if there is one.
func (in *Input) within(outer string) {
	if in.err == nil {
		return
	}
	if e, ok := in.err.(*Error); ok {
		if e.Field != "" && e.Field[0] != '[' {
			outer += "."
		}
		e.Field = outer + e.Field
	}
}

// withinIndex is within for part i of a list.
func (in *Input) withinIndex(i int) {
	if in.err != nil {
		in.within("[" + strconv.Itoa(i) + "]")
	}
}
