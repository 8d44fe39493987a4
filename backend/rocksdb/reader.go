package rocksdb

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/drey-state/drey/storage"
)

// reader reads the blocks of one table and verifies their checksums.
type reader struct {
	ctx    context.Context
	file   string
	obj    storage.Object
	footer *footer
	ahead  int // the most to read at once

	// The window is what was read ahead.
	window []byte
	off    int64 // of the window in the file
	stop   int64 // nothing is read ahead from here on
	grow   int   // how much to read next
}

func (r *reader) fail(h handle, field string, err error) error {
	return &Error{File: r.file, Offset: int64(h.offset), Inner: -1, Field: field, Err: err}
}

// check says whether a block lies before the footer, and gives its length with the trailer.
func (r *reader) check(h handle, field string) (int, error) {
	end := uint64(r.footer.start)
	if end < blockTrailer || h.size > end-blockTrailer || h.offset > end-blockTrailer-h.size {
		return 0, &Error{File: r.file, Offset: -1, Inner: -1, Field: field,
			Err: corrupt("%d bytes at %d do not lie before the footer at %d", h.size, h.offset, end)}
	}
	return int(h.size) + blockTrailer, nil
}

// verify checks a block with its trailer.
func (r *reader) verify(h handle, b []byte) error {
	if r.footer.checksum == checksumNone {
		return nil
	}
	n := len(b) - 4
	stored := binary.LittleEndian.Uint32(b[n:])
	if got := checksum(r.footer.checksum, b[:n]) + modifier(r.footer.base, int64(h.offset)); got != stored {
		return fmt.Errorf("%w: %08x instead of %08x", ErrChecksum, got, stored)
	}
	return nil
}

// read reads a block that is needed once, into new memory. Its type is the
// byte behind it.
func (r *reader) read(h handle, field string) (data []byte, kind byte, err error) {
	n, err := r.check(h, field)
	if err != nil {
		return nil, 0, err
	}
	b := make([]byte, n)
	if err := readAt(r.obj, b, int64(h.offset)); err != nil {
		return nil, 0, r.fail(h, field, err)
	}
	if err := r.verify(h, b); err != nil {
		if field != metaProperties || b[h.size] != compressNone || !r.patched(h, b) {
			return nil, 0, r.fail(h, field, err)
		}
	}
	return b[:h.size:h.size], b[h.size], nil
}

// patched says whether the checksum of a properties block is right for the
// time before a global sequence number was written into it.
func (r *reader) patched(h handle, b []byte) bool {
	at, ok := globalSequencePlace(b[:h.size])
	if !ok {
		return false
	}
	var kept [8]byte
	copy(kept[:], b[at:])
	clear(b[at : at+8])
	err := r.verify(h, b)
	copy(b[at:], kept[:])
	return err == nil
}

// scan reads a block of a sequence. The block is valid until the next call.
func (r *reader) scan(h handle, field string) (data []byte, kind byte, err error) {
	n, err := r.check(h, field)
	if err != nil {
		return nil, 0, err
	}
	at := int64(h.offset)
	if at < r.off || at+int64(n) > r.off+int64(len(r.window)) {
		if err := r.advance(at, n); err != nil {
			return nil, 0, r.fail(h, field, err)
		}
	}
	b := r.window[at-r.off:][:n]
	if err := r.verify(h, b); err != nil {
		return nil, 0, r.fail(h, field, err)
	}
	return b[:h.size:h.size], b[h.size], nil
}

// advance moves the window so that it begins at off and holds n bytes. While
// the reads follow each other more is read each time.
func (r *reader) advance(off int64, n int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	end := r.off + int64(len(r.window))
	kept := 0
	if len(r.window) > 0 && off >= r.off && off <= end {
		kept = copy(r.window, r.window[off-r.off:])
		r.grow = min(max(4*n, 4*r.grow), r.ahead)
	} else {
		r.grow = 0
	}
	want := max(int64(n), min(int64(r.grow), r.stop-off))
	if int64(cap(r.window)) < want {
		w := make([]byte, want)
		copy(w, r.window[:kept])
		r.window = w
	}
	r.window = r.window[:want]
	r.off = off
	if err := readAt(r.obj, r.window[kept:], off+int64(kept)); err != nil {
		r.window = r.window[:0]
		return err
	}
	return nil
}
