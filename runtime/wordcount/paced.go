package main

import (
	"context"
	"time"

	"github.com/drey-state/drey/runtime"
)

// paced is an input that gives so many records of each partition in a second.
type paced[T any] struct {
	runtime.Input[T]
	rate float64
}

// Open opens a partition.
func (p paced[T]) Open(ctx context.Context, partition string, offset int64) (runtime.Reader[T], error) {
	r, err := p.Input.Open(ctx, partition, offset)
	if err != nil {
		return nil, err
	}
	return &pacedReader[T]{Reader: r, start: time.Now(), rate: p.rate}, nil
}

type pacedReader[T any] struct {
	runtime.Reader[T]
	start time.Time
	rate  float64
	given int64
}

// Next gives a record when it is its turn.
func (r *pacedReader[T]) Next() (runtime.Record[T], bool, error) {
	if float64(r.given) > time.Since(r.start).Seconds()*r.rate {
		return runtime.Record[T]{}, false, nil
	}
	rec, ok, err := r.Reader.Next()
	if ok && err == nil {
		r.given++
	}
	return rec, ok, err
}
