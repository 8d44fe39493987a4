package rocksdb

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// The framing of MANIFEST (and of write-ahead logs).
const (
	logBlock  = 32768
	logHeader = 7 // crc u32, length u16, type u8

	logZero   = 0 // preallocated
	logFull   = 1
	logFirst  = 2
	logMiddle = 3
	logLast   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mask is how RocksDB stores a CRC, so that a CRC over it is no weak one.
func mask(c uint32) uint32 { return c>>15 | c<<17 + 0xa282ead8 }

// logReader reads the records of a log. A record that is not whole is an
// error, as a checkpoint cuts its MANIFEST at the end of a record.
type logReader struct {
	file string
	r    io.Reader
	size int64

	block []byte // what is left of the block
	buf   []byte // the block's memory
	off   int64  // in the file, of block
	read  int64  // from r
	rec   []byte
}

func (l *logReader) fail(off int64, field string, err error) error {
	return &Error{File: l.file, Offset: off, Inner: -1, Field: field, Err: err}
}

// fill reads the next block; false at the end.
func (l *logReader) fill() (bool, error) {
	n := min(logBlock, l.size-l.read)
	if n <= 0 {
		return false, nil
	}
	if l.buf == nil {
		l.buf = make([]byte, min(logBlock, l.size))
	}
	l.off = l.read
	got, err := io.ReadFull(l.r, l.buf[:n])
	if err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%w: at byte %d of %d", ErrTruncated, l.read+int64(got), l.size)
		}
		return false, l.fail(l.read, "log block", err)
	}
	l.read += n
	l.block = l.buf[:n]
	return true, nil
}

// fragment gives the next piece of a record, its type and where it begins;
// type logZero at the end.
func (l *logReader) fragment() (data []byte, typ byte, off int64, err error) {
	for {
		if len(l.block) < logHeader {
			for _, b := range l.block {
				if b != 0 {
					return nil, 0, l.off, l.fail(l.off, "record header", fmt.Errorf("%w: %d bytes", ErrTruncated, len(l.block)))
				}
			}
			ok, err := l.fill()
			if err != nil || !ok {
				return nil, logZero, l.read, err
			}
			continue
		}
		h := l.block
		off = l.off
		crc, n, typ := binary.LittleEndian.Uint32(h), int(binary.LittleEndian.Uint16(h[4:])), h[6]
		if typ == logZero && n == 0 && crc == 0 {
			for _, b := range h {
				if b != 0 {
					return nil, 0, off, l.fail(off, "record type", corrupt("type 0 before other bytes"))
				}
			}
			l.off += int64(len(l.block))
			l.block = nil
			continue
		}
		if n > len(h)-logHeader {
			err := corrupt("a record of %d bytes does not fit in its block", n)
			if l.read == l.size {
				err = fmt.Errorf("%w: %d bytes of a record of %d", ErrTruncated, len(h)-logHeader, n)
			}
			return nil, 0, off, l.fail(off, "record length", err)
		}
		if got := mask(crc32.Checksum(h[6:logHeader+n], castagnoli)); got != crc {
			return nil, 0, off, l.fail(off, "record", fmt.Errorf("%w: %08x instead of %08x", ErrChecksum, got, crc))
		}
		if typ < logFull || typ > logLast {
			return nil, 0, off, l.fail(off, "record type", unsupported("type %d", typ))
		}
		l.block = h[logHeader+n:]
		l.off += int64(logHeader + n)
		return h[logHeader : logHeader+n], typ, off, nil
	}
}

// next gives the next record, which is valid until the next call, and where it
// begins; false at the end.
func (l *logReader) next() (rec []byte, off int64, ok bool, err error) {
	data, typ, off, err := l.fragment()
	switch {
	case err != nil || typ == logZero:
		return nil, 0, false, err
	case typ == logFull:
		return data, off, true, nil
	case typ != logFirst:
		return nil, 0, false, l.fail(off, "record type", corrupt("type %d without a beginning", typ))
	}
	l.rec = append(l.rec[:0], data...)
	for {
		data, typ, at, err := l.fragment()
		switch {
		case err != nil:
			return nil, 0, false, err
		case typ == logZero:
			return nil, 0, false, l.fail(off, "record", fmt.Errorf("%w: the rest of a record is missing", ErrTruncated))
		case typ != logMiddle && typ != logLast:
			return nil, 0, false, l.fail(at, "record type", corrupt("type %d inside a record", typ))
		}
		l.rec = append(l.rec, data...)
		if typ == logLast {
			return l.rec, off, true, nil
		}
	}
}
