package backend

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/serializer"
)

const (
	// snappyBlock is the most bytes that a chunk of snappy holds, before compression.
	snappyBlock = 64 << 10
	// flushSize is how many bytes a writer collects before it hands them on, in whole blocks.
	flushSize = 4 * snappyBlock

	// Types of chunks, and the bytes in front of a chunk's data: type, length, checksum.
	chunkCompressed, chunkPlain = 0, 1
	chunkHead                   = 8
)

var errWriterClosed = errors.New("the writer is closed")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileWriter is what the writers of all layouts have in common: it collects
// bytes, compresses them where the layout wants it, and counts what reaches
// the file. Its first failure stays.
type fileWriter struct {
	out  *bufio.Writer
	size int64 // bytes given to out
	buf  []byte
	// zipping says that buf holds the data of chunks of snappy; chunk is room for one.
	zipping bool
	chunk   []byte
	// limit is the largest length or count that the layout can express.
	limit int
	err   error
}

// wholeWriter makes a failure of a write that took less than it was given and said nothing, on which bufio loops.
type wholeWriter struct{ io.Writer }

func (w wholeWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// begin starts the file with its header.
func (f *fileWriter) begin(out io.Writer, h interface{ Write(*serializer.Output) }) {
	f.out = bufio.NewWriterSize(wholeWriter{out}, snappyBlock)
	f.limit = math.MaxInt32
	head := serializer.NewOutput(nil)
	h.Write(head)
	f.buf = head.Bytes()
	if err := head.Err(); err != nil {
		f.fail(fmt.Errorf("header: %w", err))
	}
}

// fail makes err the failure, if there is none yet.
func (f *fileWriter) fail(err error) {
	if f.err == nil && err != nil {
		f.err = err
	}
}

// refuse makes an error of what the caller did the failure, and gives it.
func (f *fileWriter) refuse(format string, args ...any) error {
	f.fail(fmt.Errorf(format, args...))
	return f.err
}

// offset is where in the file the next byte goes if it is not compressed, or
// the next chunk if all that was collected is flushed.
func (f *fileWriter) offset() int64 { return f.size + int64(len(f.buf)) }

// room flushes whole blocks if enough was collected. It must not be called
// while something that was collected may still change.
func (f *fileWriter) room() {
	if len(f.buf) >= flushSize {
		f.flush(len(f.buf) &^ (snappyBlock - 1))
	}
}

// flush hands on the first n bytes that were collected.
func (f *fileWriter) flush(n int) {
	b := f.buf[:n]
	if !f.zipping {
		f.write(b)
	} else {
		for len(b) > 0 {
			block := b[:min(len(b), snappyBlock)]
			f.writeChunk(block)
			b = b[len(block):]
		}
	}
	f.buf = f.buf[:copy(f.buf, f.buf[n:])]
}

// write writes bytes to the file.
func (f *fileWriter) write(b []byte) {
	if f.err != nil {
		return
	}
	n, err := f.out.Write(b)
	f.size += int64(n)
	f.fail(err)
}

// beginSnappy begins a snappy stream (SnappyFramedOutputStream).
func (f *fileWriter) beginSnappy() {
	f.buf = append(f.buf, identifier...)
	f.flush(len(f.buf))
	f.zipping = true
}

// endSnappy ends the snappy stream.
func (f *fileWriter) endSnappy() {
	f.flush(len(f.buf))
	f.zipping = false
}

// writeChunk writes a chunk of snappy, compressed if that saves enough by Flink's measure.
func (f *fileWriter) writeChunk(data []byte) {
	if f.err != nil {
		return
	}
	if f.chunk == nil {
		f.chunk = make([]byte, chunkHead+snappy.MaxEncodedLen(snappyBlock))
	}
	kind, body := byte(chunkCompressed), snappy.Encode(f.chunk[chunkHead:], data)
	if len(body)*100 > len(data)*85 {
		kind, body = chunkPlain, data
	}
	c := crc32.Checksum(data, castagnoli)
	binary.LittleEndian.PutUint32(f.chunk, uint32(len(body)+4)<<8|uint32(kind))
	binary.LittleEndian.PutUint32(f.chunk[4:], (c>>15|c<<17)+0xa282ead8)
	f.write(f.chunk[:chunkHead])
	f.write(body)
}

// end ends the file, and gives its size in bytes.
func (f *fileWriter) end() (int64, error) {
	f.flush(len(f.buf))
	if f.err == nil {
		f.fail(f.out.Flush())
	}
	if f.err != nil {
		return 0, f.err
	}
	f.err = errWriterClosed
	return f.size, nil
}
