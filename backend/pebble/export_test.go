package pebble

import (
	"errors"
	"weak"

	"github.com/cockroachdb/pebble/v2"
)

// DB is the database, which tests compare with what is said about it.
func (b *Backend[K]) DB() *pebble.DB { return b.db }

// Flush has all in files, and nothing in the write buffer.
func (b *Backend[K]) Flush() error { return errors.Join(b.flushAll(), b.db.Flush()) }

// LimitBuffer lets the write buffer have so few bytes that it is full after some writes.
func (b *Backend[K]) LimitBuffer(bytes int) {
	b.buffer = newBuffer(bytes, b.o.MaxSize, b.share.reserve)
}

// Kept is how many entries the write buffer knows of.
func (b *Backend[K]) Kept() int { return b.buffer.n }

// HasView says whether an iterator is kept for the next read.
func (b *Backend[K]) HasView() bool { return b.view != nil }

// HasBuffer gives what says whether the memory of the write buffer is still held.
func (b *Backend[K]) HasBuffer() func() bool {
	p := weak.Make(b.buffer)
	return func() bool { return p.Value() != nil }
}

// WriteBuffer is how many bytes the write buffer may have.
func (b *Backend[K]) WriteBuffer() int { return b.buffer.limit }

// Buffered is how many bytes it has.
func (b *Backend[K]) Buffered() int64 { return b.share.buffered() }
