package runtime

import (
	"context"
	"fmt"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// operator is one subtask of an operator. All methods are called by the goroutine of its task.
type operator interface {
	// receiver gives the receiver of an input.
	receiver(input int) any
	// open opens the states, before anything was restored; what it opens is filled then.
	open(c *operatorContext) error
	// start is called when the state is there, before any record.
	start(ctx context.Context) error
	// prepare brings what is not in states yet into states: a snapshot is to be taken.
	prepare(ctx context.Context, b *barrier) error
	// completed and aborted say what became of a checkpoint.
	completed(ctx context.Context, checkpoint int64) error
	aborted(ctx context.Context, checkpoint int64) error
	// fire works on timers of processing time, if there are any that are due.
	fire(now int64) error
	close() error
}

// plain is what most operators don't need of operator.
type plain struct{}

func (plain) open(*operatorContext) error             { return nil }
func (plain) start(context.Context) error             { return nil }
func (plain) prepare(context.Context, *barrier) error { return nil }
func (plain) completed(context.Context, int64) error  { return nil }
func (plain) aborted(context.Context, int64) error    { return nil }
func (plain) fire(int64) error                        { return nil }
func (plain) close() error                            { return nil }

// operatorContext is what an operator gets from its task.
type operatorContext struct {
	t    *task
	node *node
	// op is the operator's state; keyed is nil if it opened none.
	op    *backend.Operator
	keyed keyedState
}

// keyedState is a backend.Keyed, whatever its keys.
type keyedState interface {
	Restore(ctx context.Context, files backend.Files, h backend.Handles) error
	Snapshot(checkpoint int64, o backend.SnapshotOptions) (backend.Snapshot, error)
	Close() error
}

// groups are the key groups of the subtask.
func (c *operatorContext) groups() keygroup.Range {
	return keygroup.RangeOf(c.t.subtask, c.t.v.max, c.t.v.parallelism)
}

// openKeyed opens the backend of an operator: the one place where it is chosen.
func openKeyed[K comparable](c *operatorContext, codec serializer.Codec[K], hash func(K) int32) (backend.Keyed[K], error) {
	o := &c.t.run.x.o
	var b backend.Keyed[K]
	var err error
	switch o.Backend {
	case BackendPebble:
		b, err = pebble.Open(codec, pebble.Options[K]{
			MaxParallelism: c.t.v.max, KeyGroups: c.groups(), Hash: hash, Clock: o.Clock, Dir: c.t.run.scratch(c), Memory: c.t.run.memory,
			Timers: o.Pebble.Timers, Transfers: o.Pebble.Transfers, Tuning: o.Pebble.Tuning, Logger: o.Logger,
			Metrics: pebble.MetricsOptions{Registerer: o.Registerer, Names: o.Pebble.Metrics, Operator: c.node.UID, Subtask: c.t.subtask, Backend: c.t.run.x.id},
		})
	default:
		b, err = heap.Open(codec, heap.Options[K]{MaxParallelism: c.t.v.max, KeyGroups: c.groups(), Hash: hash, Clock: o.Clock})
	}
	if err != nil {
		return nil, fmt.Errorf("operator %q: %w", c.node.UID, err)
	}
	c.keyed = b
	return b, nil
}

// function is an operator that is a function of a record.
type function[T any] struct {
	plain
	f       func(r Record[T]) error
	forward func(watermark int64) error
}

func (f *function[T]) receiver(int) any              { return f }
func (f *function[T]) receive(r Record[T]) error     { return f.f(r) }
func (f *function[T]) advance(watermark int64) error { return f.forward(watermark) }

// Map gives a stream of what a function makes of each record. The codec is that of the results, as they stand in the channels of an
// unaligned checkpoint.
func Map[T, U any](s Stream[T], o Op, codec serializer.Codec[U], f func(T) (U, error)) Stream[U] {
	return apply(s, o, codec, func(out receiver[U]) func(Record[T]) error {
		return func(r Record[T]) error {
			u, err := f(r.Value)
			if err != nil {
				return err
			}
			return out.receive(Record[U]{u, r.Timestamp})
		}
	})
}

// FlatMap gives a stream of all that a function emits for each record. It must not emit after it has returned.
func FlatMap[T, U any](s Stream[T], o Op, codec serializer.Codec[U], f func(v T, emit func(U)) error) Stream[U] {
	return apply(s, o, codec, func(out receiver[U]) func(Record[T]) error {
		var timestamp int64
		var failed error
		emit := func(u U) {
			if failed == nil {
				failed = out.receive(Record[U]{u, timestamp})
			}
		}
		return func(r Record[T]) error {
			timestamp = r.Timestamp
			if err := f(r.Value, emit); err != nil {
				return err
			}
			return failed
		}
	})
}

// Filter gives a stream of the records that a function says true of.
func Filter[T any](s Stream[T], o Op, f func(T) (bool, error)) Stream[T] {
	return apply(s, o, s.codec, func(out receiver[T]) func(Record[T]) error {
		return func(r Record[T]) error {
			ok, err := f(r.Value)
			if err != nil || !ok {
				return err
			}
			return out.receive(r)
		}
	})
}

// Union gives a stream of the records of several.
func Union[T any](o Op, s ...Stream[T]) Stream[T] {
	i := slices.IndexFunc(s, func(s Stream[T]) bool { return s.from != nil })
	if i < 0 {
		return Stream[T]{}
	}
	n := s[i].from.job.add(o, func(outs []any) operator {
		out := output[T](outs)
		return &function[T]{f: out.receive, forward: out.advance}
	})
	for _, in := range s {
		connect(in, n, shipForward, nil)
	}
	return Stream[T]{from: n, codec: s[i].codec}
}

// Rebalance has the records of a stream go round robin to all subtasks of the operator that it gives.
func Rebalance[T any](s Stream[T], o Op) Stream[T] {
	if s.from == nil {
		return Stream[T]{}
	}
	n := s.from.job.add(o, func(outs []any) operator {
		out := output[T](outs)
		return &function[T]{f: out.receive, forward: out.advance}
	})
	connect(s, n, shipRebalance, nil)
	return Stream[T]{from: n, codec: s.codec}
}

// apply adds an operator that has no state.
func apply[T, U any](s Stream[T], o Op, codec serializer.Codec[U], make func(out receiver[U]) func(Record[T]) error) Stream[U] {
	if s.from == nil {
		return Stream[U]{}
	}
	n := s.from.job.add(o, func(outs []any) operator {
		out := output[U](outs)
		return &function[T]{f: make(out), forward: out.advance}
	})
	connect(s, n, shipForward, nil)
	return Stream[U]{from: n, codec: codec}
}

// result is what an operator's subtask wrote for a checkpoint.
type result struct {
	id    metadata.OperatorID
	state *metadata.SubtaskState
}
