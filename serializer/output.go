package serializer

import (
	"errors"
	"fmt"
	"math"

	"github.com/drey-state/drey/internal/javaio"
)

// Output appends what Flink's DataOutputView writes to a slice. It has a
// sticky error, for text that is too long. The zero value is ready. One
// goroutine may use it at a time.
type Output struct {
	buf []byte
	err error
}

// NewOutput appends to buf.
func NewOutput(buf []byte) *Output { return &Output{buf: buf} }

// Bytes is all that was written, and the buffer itself.
func (o *Output) Bytes() []byte { return o.buf }

// Len is the number of bytes.
func (o *Output) Len() int { return len(o.buf) }

// Reset forgets what was written and keeps the buffer.
func (o *Output) Reset() { o.buf, o.err = o.buf[:0], nil }

// Err is the first failure, nil if there was none.
func (o *Output) Err() error { return o.err }

// Fail makes err the output's error, if it has none yet.
func (o *Output) Fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// Raw appends b.
func (o *Output) Raw(b []byte) { o.buf = append(o.buf, b...) }

// U8 appends a byte.
func (o *Output) U8(v byte) { o.buf = append(o.buf, v) }

// Bool appends 1 or 0.
func (o *Output) Bool(v bool) {
	if v {
		o.U8(1)
	} else {
		o.U8(0)
	}
}

// U16 appends two bytes.
func (o *Output) U16(v uint16) { o.buf = append(o.buf, byte(v>>8), byte(v)) }

// I32 appends four bytes.
func (o *Output) I32(v int32) {
	o.buf = append(o.buf, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// I64 appends eight bytes.
func (o *Output) I64(v int64) {
	o.I32(int32(v >> 32))
	o.I32(int32(v))
}

// F32 appends a float; every NaN becomes Java's one.
func (o *Output) F32(v float32) { o.I32(int32(floatBits(v))) }

func floatBits(v float32) uint32 {
	if v != v {
		return 0x7fc00000
	}
	return math.Float32bits(v)
}

// F64 appends a double; every NaN becomes Java's one.
func (o *Output) F64(v float64) { o.I64(int64(doubleBits(v))) }

func doubleBits(v float64) uint64 {
	if v != v {
		return 0x7ff8000000000000
	}
	return math.Float64bits(v)
}

// UTF appends modified UTF-8 with its two-byte length (DataOutput.writeUTF).
func (o *Output) UTF(s string) {
	raw, err := javaio.EncodeUTF(s)
	if err == nil && len(raw) > javaio.MaxUTF {
		err = &javaio.UTFTooLongError{Bytes: len(raw)}
	}
	if err != nil {
		o.Fail(err)
		return
	}
	o.U16(uint16(len(raw)))
	o.buf = append(o.buf, raw...)
}

// ErrTooLarge says that something has more bytes or elements than its four-byte length can tell.
var ErrTooLarge = errors.New("too large")

// Length appends a length or count of four bytes. One above 2^31-1 is an error that unwraps to [ErrTooLarge].
func (o *Output) Length(n int) {
	if n > math.MaxInt32 {
		o.Fail(fmt.Errorf("a length of %d, the limit is %d: %w", n, math.MaxInt32, ErrTooLarge))
		return
	}
	o.I32(int32(n))
}

// Bytes32 appends b after its four-byte length.
func (o *Output) Bytes32(b []byte) {
	o.Length(len(b))
	if o.err == nil {
		o.Raw(b)
	}
}

// Uvarint appends unsigned LEB128.
func (o *Output) Uvarint(v uint32) {
	for v >= 0x80 {
		o.U8(byte(v) | 0x80)
		v >>= 7
	}
	o.U8(byte(v))
}
