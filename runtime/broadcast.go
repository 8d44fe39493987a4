package runtime

import (
	"context"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// BroadcastProcessor is one subtask of a function of a stream and of another one that all subtasks get (BroadcastProcessFunction).
type BroadcastProcessor[In, B, Out any] interface {
	// Open opens operator state, as with [backend.OpenBroadcast].
	Open(op *backend.Operator) error
	// Process works on a record of the stream. It must not change broadcast state.
	Process(v In, emit func(Out)) error
	// ProcessBroadcast works on a record that all subtasks get; all must do the same to their broadcast state.
	ProcessBroadcast(b B, emit func(Out)) error
}

// ConnectBroadcast gives a stream of what a function makes of a stream and of one of which every subtask gets all records.
func ConnectBroadcast[In, B, Out any](s Stream[In], b Stream[B], o Op, codec serializer.Codec[Out], processor func() BroadcastProcessor[In, B, Out]) Stream[Out] {
	if s.from == nil || b.from == nil {
		return Stream[Out]{}
	}
	n := s.from.job.add(o, func(outs []any) operator {
		return &broadcast[In, B, Out]{p: processor(), out: output[Out](outs)}
	})
	connect(s, n, shipForward, nil)
	connect(b, n, shipBroadcast, nil)
	return Stream[Out]{from: n, codec: codec}
}

type broadcast[In, B, Out any] struct {
	plain
	p         BroadcastProcessor[In, B, Out]
	out       receiver[Out]
	timestamp int64
	failed    error
}

func (b *broadcast[In, B, Out]) open(c *operatorContext) error { return b.p.Open(c.op) }

func (b *broadcast[In, B, Out]) completed(_ context.Context, id int64) error {
	return notify(b.p, func(l CheckpointNotified) error { return l.CheckpointCompleted(id) })
}

func (b *broadcast[In, B, Out]) aborted(_ context.Context, id int64) error {
	return notify(b.p, func(l CheckpointNotified) error { return l.CheckpointAborted(id) })
}

func (b *broadcast[In, B, Out]) emit(v Out) {
	if b.failed == nil {
		b.failed = b.out.receive(Record[Out]{v, b.timestamp})
	}
}

func (b *broadcast[In, B, Out]) advance(watermark int64) error { return b.out.advance(watermark) }

func (b *broadcast[In, B, Out]) receiver(input int) any {
	if input == 0 {
		return &function[In]{f: func(r Record[In]) error {
			b.timestamp = r.Timestamp
			if err := b.p.Process(r.Value, b.emit); err != nil {
				return err
			}
			return b.failed
		}, forward: b.advance}
	}
	return &function[B]{f: func(r Record[B]) error {
		b.timestamp = r.Timestamp
		if err := b.p.ProcessBroadcast(r.Value, b.emit); err != nil {
			return err
		}
		return b.failed
	}, forward: b.advance}
}
