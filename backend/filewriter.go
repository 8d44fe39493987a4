package backend

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/serializer"
)

const (
	// snappyBlock is the number of bytes of a snappy chunk before compression.
	snappyBlock = 64 << 10
	// flushSize is how many bytes a writer collects before it hands them on, in whole blocks.
	flushSize = 4 * snappyBlock
)

var errWriterClosed = errors.New("the writer is closed")

// fileWriter is what the writers of all layouts have in common: it collects
// bytes, compresses them where the layout wants it, and counts what reaches
// the file. Its first failure stays.
type fileWriter struct {
	file counter
	buf  []byte
	zip  *snappy.Writer // nil until something is compressed
	// zipping says that buf goes through zip.
	zipping bool
	// limit is the largest length or count that the layout can express.
	limit int
	err   error
}

// counter counts the bytes of a file.
type counter struct {
	out *bufio.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

// begin starts the file with its header.
func (f *fileWriter) begin(out io.Writer, h interface{ Write(*serializer.Output) }) {
	f.file.out = bufio.NewWriterSize(out, snappyBlock)
	f.limit = math.MaxInt32
	head := serializer.NewOutput(nil)
	h.Write(head)
	if err := head.Err(); err != nil {
		f.fail(fmt.Errorf("header: %w", err))
		return
	}
	f.buf = head.Bytes()
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

// offset is where in the file the next byte goes that is not compressed.
func (f *fileWriter) offset() int64 { return f.file.n + int64(len(f.buf)) }

// room hands on what was collected if it is enough. The caller has no more changes to make in it.
func (f *fileWriter) room() {
	if len(f.buf) >= flushSize {
		f.flush(len(f.buf) &^ (snappyBlock - 1))
	}
}

// flush hands on the first n bytes that were collected.
func (f *fileWriter) flush(n int) {
	if f.err != nil || n == 0 {
		return
	}
	var err error
	if f.zipping {
		_, err = f.zip.Write(f.buf[:n])
	} else {
		_, err = f.file.Write(f.buf[:n])
	}
	f.buf = f.buf[:copy(f.buf, f.buf[n:])]
	f.fail(err)
}

// beginSnappy starts a snappy stream.
func (f *fileWriter) beginSnappy() {
	f.flush(len(f.buf))
	if f.zip == nil {
		f.zip = snappy.NewBufferedWriter(&f.file)
	} else {
		f.zip.Reset(&f.file)
	}
	f.zipping = true
}

// endSnappy ends the snappy stream.
func (f *fileWriter) endSnappy() {
	f.flush(len(f.buf))
	if f.err == nil {
		f.fail(f.zip.Close())
	}
	f.zipping = false
}

// end ends the file, and gives its size.
func (f *fileWriter) end() (int64, error) {
	f.flush(len(f.buf))
	if f.err == nil {
		f.fail(f.file.out.Flush())
	}
	if f.err != nil {
		return 0, f.err
	}
	f.err = errWriterClosed
	return f.file.n, nil
}
