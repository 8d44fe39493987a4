package localrecovery

import (
	"bytes"
	"io"
)

// pieces is what a file holds that is in memory. All but the last have pieceSize bytes, so that nothing is moved when it grows.
type pieces [][]byte

const pieceSize = 256 << 10

func (p *pieces) write(b []byte) {
	for len(b) > 0 {
		if n := len(*p); n == 0 || len((*p)[n-1]) == pieceSize {
			var next []byte
			if n > 0 {
				next = make([]byte, 0, pieceSize)
			}
			*p = append(*p, next)
		}
		last := &(*p)[len(*p)-1]
		n := min(len(b), pieceSize-len(*last))
		*last = append(*last, b[:n]...)
		b = b[n:]
	}
}

// trim frees what the last piece has too much.
func (p pieces) trim() {
	if n := len(p); n > 0 && cap(p[n-1])-len(p[n-1]) > len(p[n-1])/8 {
		p[n-1] = bytes.Clone(p[n-1])
	}
}

// ReadAt implements io.ReaderAt.
func (p pieces) ReadAt(b []byte, off int64) (n int, err error) {
	for i := off / pieceSize; n < len(b); i++ {
		if i >= int64(len(p)) {
			return n, io.EOF
		}
		at := off + int64(n) - i*pieceSize
		if at > int64(len(p[i])) {
			return n, io.EOF
		}
		n += copy(b[n:], p[i][at:])
	}
	return n, nil
}

// Close implements io.Closer.
func (p pieces) Close() error { return nil }
