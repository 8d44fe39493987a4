package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/serializer"
)

// defaultReadAhead is how much is read at once of a file, in bytes.
const defaultReadAhead = 512 << 10

// source reads an object for one sequence of entries: in pieces of the
// read-ahead, and never what lies behind limit.
type source struct {
	ctx   context.Context
	obj   *object
	o     *Options
	limit int64
	buf   []byte // bytes of the object from off on
	off   int64
	err   error   // the first failure that is not the end of the object
	own   *[]byte // memory of buf, unless that is part of an inline object
}

// readBuffers are those of sources that ended, because small parts of files are read by a sequence each.
var readBuffers sync.Pool

func newSource(ctx context.Context, obj *object, o *Options) *source {
	return &source{ctx: ctx, obj: obj, o: o, limit: obj.Size()}
}

// end gives up the memory, which must not be read from any more.
func (s *source) end() {
	if s.own != nil {
		readBuffers.Put(s.own)
	}
	s.own, s.buf = nil, nil
}

// readAt gives at least one byte, or an error.
func (s *source) readAt(p []byte, pos int64) (int, error) {
	if pos < s.off || pos >= s.off+int64(len(s.buf)) {
		if err := s.fill(pos); err != nil {
			return 0, err
		}
	}
	return copy(p, s.buf[pos-s.off:]), nil
}

func (s *source) fill(pos int64) error {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return err
	}
	if pos >= s.limit || pos < 0 {
		return io.EOF
	}
	ahead := int64(s.o.ReadAhead)
	if ahead <= 0 {
		ahead = defaultReadAhead
	}
	n := min(ahead, s.limit-pos)
	s.off = pos
	if data, ok := s.obj.Object.(inline); ok {
		s.buf = data[pos : pos+n]
	} else {
		if s.own == nil {
			s.own, _ = readBuffers.Get().(*[]byte)
		}
		if s.own == nil || int64(cap(*s.own)) < n {
			b := make([]byte, n)
			s.own = &b
		}
		got, err := s.obj.ReadAt((*s.own)[:n], pos)
		s.buf = (*s.own)[:got]
		if got == 0 {
			if err == nil {
				err = io.ErrNoProgress
			}
			if err != io.EOF {
				s.err = err
			}
			return err
		}
	}
	if s.o.Progress != nil {
		s.o.Progress(int64(len(s.buf)))
	}
	return nil
}

// span is a part of a source as a stream.
type span struct {
	src      *source
	pos, end int64
}

func (r *span) Read(p []byte) (int, error) {
	if r.pos >= r.end {
		return 0, io.EOF
	}
	n, err := r.src.readAt(p[:min(int64(len(p)), r.end-r.pos)], r.pos)
	r.pos += int64(n)
	return n, err
}

// identifier is the chunk that begins a framed snappy stream.
const identifier = "\xff\x06\x00\x00sNaPpY"

// chunks hands the chunks of a span to a decoder, but ends before an
// identifier that is not the first: another stream begins there.
type chunks struct {
	span
	started bool
	head    []byte // header that is not handed out yet
	body    int64  // bytes of the chunk that are not handed out yet
	start   int64  // where the chunk begins
	next    bool   // head is that of another stream
	padding bool   // the chunk holds no data
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.head) == 0 && c.body == 0 {
		if err := c.chunk(); err != nil {
			return 0, err
		}
	}
	if c.next {
		return 0, io.EOF
	}
	if c.padding {
		// A decoder would pass over it, and so over what damage made of a chunk.
		return 0, fmt.Errorf("%w: snappy chunk of a type that Flink does not write at offset %d of the file", serializer.ErrCorrupt, c.start)
	}
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.span.Read(p[:min(int64(len(p)), c.body)])
	c.body -= int64(n)
	return n, err
}

// chunk reads the header of the next chunk.
func (c *chunks) chunk() error {
	head := make([]byte, 4)
	c.start = c.pos
	if _, err := io.ReadFull(&c.span, head); err != nil {
		return err
	}
	c.head = head
	c.body = int64(head[1]) | int64(head[2])<<8 | int64(head[3])<<16
	c.next = head[0] == identifier[0] && c.started
	c.padding = head[0] > 1 && head[0] != identifier[0]
	c.started = true
	return nil
}

// skip moves to the next stream, and says whether there is one.
func (c *chunks) skip() bool {
	for !c.next {
		c.pos += c.body
		c.head, c.body = nil, 0
		if c.chunk() != nil {
			return false
		}
	}
	c.next = false
	return true
}

// unsnappy decompresses the framed snappy streams of a span, of which one or
// more stand behind each other. It is at its end where one of them ends.
type unsnappy struct {
	chunks  chunks
	decoder *snappy.Reader
}

func (z *unsnappy) reset(src *source, start, end int64) {
	z.chunks = chunks{span: span{src, start, end}}
	z.rewind()
}

// resetInside is reset for a span that begins within a stream.
func (z *unsnappy) resetInside(src *source, start, end int64) {
	z.reset(src, start, end)
	if z.chunks.chunk() == nil && z.chunks.head[0] == identifier[0] {
		return
	}
	z.chunks.head = append([]byte(identifier), z.chunks.head...)
}

// next begins the next stream, and says whether there is one.
func (z *unsnappy) next() bool {
	if !z.chunks.skip() {
		return false
	}
	z.rewind()
	return true
}

func (z *unsnappy) rewind() {
	if z.decoder == nil {
		z.decoder = snappy.NewReader(&z.chunks)
	} else {
		z.decoder.Reset(&z.chunks)
	}
}

// drained says that no stream follows the one that was read to its end.
func (z *unsnappy) drained() bool { return !z.chunks.next && z.chunks.pos >= z.chunks.end }

func (z *unsnappy) Read(p []byte) (int, error) {
	n, err := z.decoder.Read(p)
	if errors.Is(err, snappy.ErrCorrupt) || errors.Is(err, snappy.ErrUnsupported) {
		err = fmt.Errorf("%w: bad snappy chunk at offset %d of the file", serializer.ErrCorrupt, z.chunks.start)
	}
	return n, err
}
