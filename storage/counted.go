package storage

import (
	"context"
	"io"
)

// Counted gives an object that is read like o, where count is told how many bytes each read gave. It is called by whoever reads.
func Counted(o Object, count func(bytes int64)) Object { return counted{o, count} }

type counted struct {
	Object
	count func(bytes int64)
}

// ReadAt implements io.ReaderAt.
func (c counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Object.ReadAt(p, off)
	c.count(int64(n))
	return n, err
}

// Reader implements Object.
func (c counted) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	r, err := c.Object.Reader(ctx, off)
	if err != nil {
		return nil, err
	}
	return countedReader{r, c.count}, nil
}

type countedReader struct {
	io.ReadCloser
	count func(bytes int64)
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.count(int64(n))
	return n, err
}
