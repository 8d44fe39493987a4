package rocksdb

import (
	"encoding/binary"
	"fmt"
	"math"
)

// cursor reads a record or a block straight through with a sticky error:
// after the first error every method returns zero. What it returns shares the
// slice's memory.
type cursor struct {
	file string
	base int64 // where buf begins in the file
	buf  []byte
	off  int
	err  *Error
}

// failed gives the error as an error, nil if there was none.
func (c *cursor) failed() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

func (c *cursor) fail(off int, field string, err error) {
	if c.err == nil {
		c.err = &Error{File: c.file, Offset: c.base, Inner: int64(off), Field: field, Err: err}
	}
}

// within puts an outer name before the field of the error.
func (c *cursor) within(outer string) {
	if c.err != nil {
		c.err.Field = outer + "." + c.err.Field
	}
}

func (c *cursor) remaining() int { return len(c.buf) - c.off }

func (c *cursor) raw(n int, field string) []byte {
	if c.err == nil && (n < 0 || n > c.remaining()) {
		c.fail(c.off, field, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, c.remaining(), n))
	}
	if c.err != nil {
		return nil
	}
	p := c.buf[c.off : c.off+n : c.off+n]
	c.off += n
	return p
}

// varint reads an unsigned LEB128 number of 64 bits.
func (c *cursor) varint(field string) uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.buf[c.off:])
	switch {
	case n == 0:
		c.fail(c.off, field, fmt.Errorf("%w: in a varint", ErrTruncated))
	case n < 0:
		c.fail(c.off, field, corrupt("varint of more than 64 bits"))
	default:
		c.off += n
		return v
	}
	return 0
}

// varint32 is varint for a number of 32 bits.
func (c *cursor) varint32(field string) uint32 {
	off := c.off
	v := c.varint(field)
	if v > math.MaxUint32 {
		c.fail(off, field, corrupt("varint of more than 32 bits"))
		return 0
	}
	return uint32(v)
}

// lp reads bytes with a varint length before them.
func (c *cursor) lp(field string) []byte {
	off := c.off
	n := c.varint32(field)
	if c.err == nil && int64(n) > int64(c.remaining()) {
		c.fail(off, field, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, c.remaining(), n))
	}
	return c.raw(int(n), field)
}
