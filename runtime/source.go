package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// Input is where a source reads: partitions that can be read again from any offset. Its methods are called concurrently.
type Input[T any] interface {
	// Partitions are the names of all partitions. Each goes to one subtask.
	Partitions(ctx context.Context) ([]string, error)
	// Open opens a partition at an offset that its Reader gave before; 0 is the start.
	Open(ctx context.Context, partition string, offset int64) (Reader[T], error)
}

// Reader reads a partition. One goroutine uses it.
type Reader[T any] interface {
	// Next gives the next record; false if there is none now; [io.EOF] if there will never be one. It doesn't wait.
	Next() (Record[T], bool, error)
	// Offset is behind the record that Next gave last.
	Offset() int64
	io.Closer
}

// SourceOptions are those of [From]; the zero value has the timestamps of the records and no watermarks before the end.
type SourceOptions[T any] struct {
	// Timestamp gives the event time of a record, in milliseconds since 1970; nil leaves that of the Reader.
	Timestamp func(T) int64
	// Watermarks has the source send watermarks. Each is OutOfOrderness behind the newest timestamp of the partition that is behind most
	// (WatermarkStrategy.forBoundedOutOfOrderness).
	Watermarks     bool
	OutOfOrderness time.Duration
}

// offsetsState is the state of a source: partition and offset of each, which all subtasks get.
const offsetsState = "partition-offsets"

// From gives a stream of the records of an input. A subtask without partitions ends at once, and so does one whose partitions have all ended. Its state is a union list of (partition, offset), Tuple2<String, Long> of Flink.
func From[T any](j *Job, o Op, in Input[T], codec serializer.Codec[T], so SourceOptions[T]) Stream[T] {
	n := j.add(o, func(outs []any) operator {
		return &source[T]{in: in, o: so, out: output[T](outs)}
	})
	n.source = true
	return Stream[T]{from: n, codec: codec}
}

// sourceOperator is the operator of a task without gate.
type sourceOperator interface {
	operator
	// produce gives out some records; false if there are none now.
	produce(t *task) (bool, error)
	// drain ends the stream for event time: the watermark is at its end.
	drain() error
}

type source[T any] struct {
	plain
	in  Input[T]
	o   SourceOptions[T]
	out receiver[T]
	c   *operatorContext

	offsets *backend.OperatorList[serializer.Tuple2[string, int64]]
	parts   []*partition[T]
	next    int
	sent    int64 // the last watermark
	since   time.Time
	poll    *time.Timer
}

// partition is one that the subtask reads.
type partition[T any] struct {
	name   string
	reader Reader[T]
	offset int64
	newest int64
	ended  bool
}

func (s *source[T]) receiver(int) any { return nil }

func (s *source[T]) open(c *operatorContext) (err error) {
	s.c = c
	s.offsets, err = backend.OpenOperatorList(c.op, offsetsState, serializer.ForTuple2(serializer.ForString(), serializer.ForLong()), true)
	return err
}

func (s *source[T]) start(ctx context.Context) error {
	names, err := s.in.Partitions(ctx)
	if err != nil {
		return err
	}
	at := map[string]int64{}
	for _, o := range s.offsets.Get() {
		at[o.F0] = o.F1
	}
	s.sent = minWatermark
	for i, name := range names {
		if i%s.c.t.v.parallelism != s.c.t.subtask {
			continue
		}
		r, err := s.in.Open(ctx, name, at[name])
		if err != nil {
			return fmt.Errorf("partition %s at offset %d: %w", name, at[name], err)
		}
		s.parts = append(s.parts, &partition[T]{name: name, reader: r, offset: at[name], newest: minWatermark})
	}
	return nil
}

// sourceBatch is how many records of a partition are read before those of the next.
const sourceBatch = batchSize

// watermarkInterval is the time between watermarks (pipeline.auto-watermark-interval).
const watermarkInterval = 200 * time.Millisecond

// pollInterval is the time after which a partition without records is asked again.
const pollInterval = 5 * time.Millisecond

func (s *source[T]) produce(t *task) (bool, error) {
	open, read := false, false
	for range s.parts {
		p := s.parts[s.next]
		if s.next++; s.next == len(s.parts) {
			s.next = 0
		}
		if p.ended {
			continue
		}
		open = true
		n, err := s.read(t, p)
		if err != nil {
			return false, fmt.Errorf("partition %s behind offset %d: %w", p.name, p.offset, err)
		}
		if n > 0 {
			read = true
			break
		}
		if t.interrupted() {
			return true, nil
		}
	}
	if !open {
		if err := s.drain(); err != nil {
			return false, err
		}
		return true, t.end()
	}
	if now := time.Now(); s.o.Watermarks && now.Sub(s.since) >= watermarkInterval {
		s.since = now
		if err := s.watermark(); err != nil {
			return false, err
		}
	}
	for _, w := range t.senders {
		w.flush()
	}
	if !read {
		if s.poll == nil {
			s.poll = time.AfterFunc(pollInterval, t.wakeUp)
		} else {
			s.poll.Reset(pollInterval)
		}
	}
	return read, nil
}

func (s *source[T]) read(t *task, p *partition[T]) (int, error) {
	for n := range sourceBatch {
		if t.interrupted() {
			return n, nil
		}
		r, ok, err := p.reader.Next()
		if errors.Is(err, io.EOF) {
			p.ended = true
			return n, nil
		}
		if err != nil || !ok {
			return n, err
		}
		if s.o.Timestamp != nil {
			r.Timestamp = s.o.Timestamp(r.Value)
		}
		p.newest = max(p.newest, r.Timestamp)
		// The record counts as read before it is sent: nothing can come in between.
		p.offset = p.reader.Offset()
		if err := s.out.receive(r); err != nil {
			return n, err
		}
	}
	return sourceBatch, nil
}

func (s *source[T]) watermark() error {
	w := int64(maxWatermark)
	for _, p := range s.parts {
		if !p.ended {
			w = min(w, p.newest)
		}
	}
	if w == minWatermark || w == maxWatermark {
		return nil
	}
	w -= s.o.OutOfOrderness.Milliseconds() + 1
	if w <= s.sent {
		return nil
	}
	s.sent = w
	return s.out.advance(w)
}

func (s *source[T]) drain() error {
	if s.sent == maxWatermark {
		return nil
	}
	s.sent = maxWatermark
	return s.out.advance(maxWatermark)
}

func (s *source[T]) prepare(context.Context, *barrier) error {
	list := make([]serializer.Tuple2[string, int64], 0, len(s.parts))
	for _, p := range s.parts {
		list = append(list, serializer.Tuple2[string, int64]{F0: p.name, F1: p.offset})
	}
	s.offsets.Set(list)
	return nil
}

func (s *source[T]) close() error {
	if s.poll != nil {
		s.poll.Stop()
	}
	var err error
	for _, p := range s.parts {
		err = errors.Join(err, p.reader.Close())
	}
	return err
}
