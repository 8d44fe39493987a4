package runtime

import (
	"context"
	"errors"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// Processor is one subtask of a process function (KeyedProcessFunction). Its methods are called by one goroutine.
type Processor[K comparable, In, Out any] interface {
	// Open opens the states, with the functions of package state; those of operator state with the functions of
	// package backend. What was restored is there when Process is called first.
	Open(keyed backend.Keyed[K], op *backend.Operator) error
	// Process works on a record. The key of the states is that of the record.
	Process(c *Context[K, Out], v In) error
	// OnTimer is called when a timer is due, with the key for which it was registered.
	OnTimer(c *Context[K, Out], t Timer) error
}

// Timer is one that is due.
type Timer struct {
	Domain backend.TimeDomain
	// Timestamp is what it was registered for, in milliseconds since 1970.
	Timestamp int64
}

// Context is what a process function has of its task, during a call.
type Context[K comparable, Out any] struct {
	out       receiver[Out]
	c         *operatorContext
	keyed     backend.Keyed[K]
	timers    *timerService[K, struct{}]
	timestamp int64
	watermark int64
	failed    error
}

// Key is that of the record or timer.
func (c *Context[K, Out]) Key() K { return c.keyed.Key() }

// Timestamp is that of the record or of the timer; [NoTimestamp] if it has none.
func (c *Context[K, Out]) Timestamp() int64 { return c.timestamp }

// Watermark is the time of event time: what is not above it is late.
func (c *Context[K, Out]) Watermark() int64 { return c.watermark }

// Now is the time of processing time, in milliseconds since 1970.
func (c *Context[K, Out]) Now() int64 { return c.c.t.run.x.now() }

// Emit emits a record. Its timestamp is that of the record or timer at hand.
func (c *Context[K, Out]) Emit(v Out) {
	if c.failed == nil {
		c.failed = c.out.receive(Record[Out]{v, c.timestamp})
	}
}

// Register registers a timer of the key: at most one for each domain and timestamp.
func (c *Context[K, Out]) Register(d backend.TimeDomain, timestamp int64) error {
	return c.timers.register(d, struct{}{}, timestamp)
}

// Unregister removes a timer of the key, if there is one.
func (c *Context[K, Out]) Unregister(d backend.TimeDomain, timestamp int64) error {
	return c.timers.unregister(d, struct{}{}, timestamp)
}

// Process gives a stream of what a process function emits. processor makes one for each subtask.
func Process[K comparable, In, Out any](s KeyedStream[K, In], o Op, codec serializer.Codec[Out], processor func() Processor[K, In, Out]) Stream[Out] {
	if s.stream.from == nil {
		return Stream[Out]{}
	}
	n := s.stream.from.job.add(o, func(outs []any) operator {
		return &process[K, In, Out]{p: processor(), key: s.key, codec: s.codec, hash: s.hash, ctx: Context[K, Out]{out: output[Out](outs), watermark: minWatermark}}
	})
	connectKeyed(s, n)
	return Stream[Out]{from: n, codec: codec}
}

type process[K comparable, In, Out any] struct {
	plain
	p     Processor[K, In, Out]
	key   func(In) K
	codec serializer.Codec[K]
	hash  func(K) int32
	ctx   Context[K, Out]
}

func (p *process[K, In, Out]) receiver(int) any { return p }

func (p *process[K, In, Out]) open(c *operatorContext) error {
	b, err := openKeyed(c, p.codec, p.hash)
	if err != nil {
		return err
	}
	p.ctx.c, p.ctx.keyed = c, b
	p.ctx.timers, err = openTimers(c, b, "user-timers", serializer.ForVoidNamespace())
	if err != nil {
		return err
	}
	return p.p.Open(b, c.op)
}

func (p *process[K, In, Out]) start(context.Context) error { return p.ctx.timers.start() }

func (p *process[K, In, Out]) receive(r Record[In]) error {
	if err := p.ctx.keyed.SetKey(p.key(r.Value)); err != nil {
		return err
	}
	p.ctx.timestamp = r.Timestamp
	if err := p.p.Process(&p.ctx, r.Value); err != nil {
		return err
	}
	return p.ctx.failed
}

func (p *process[K, In, Out]) advance(watermark int64) error {
	p.ctx.watermark = watermark
	if err := p.due(backend.EventTime, watermark); err != nil {
		return err
	}
	return p.ctx.out.advance(watermark)
}

func (p *process[K, In, Out]) fire(now int64) error {
	if err := p.due(backend.ProcessingTime, now); err != nil {
		return err
	}
	return p.ctx.timers.start()
}

func (p *process[K, In, Out]) due(d backend.TimeDomain, until int64) error {
	return p.ctx.timers.due(d, until, func(t serializer.TimerValue[K, struct{}]) error {
		p.ctx.timestamp = t.Timestamp
		if d == backend.ProcessingTime {
			p.ctx.timestamp = NoTimestamp
		}
		if err := p.p.OnTimer(&p.ctx, Timer{d, t.Timestamp}); err != nil {
			return err
		}
		return p.ctx.failed
	})
}

func (p *process[K, In, Out]) completed(_ context.Context, id int64) error {
	return notify(p.p, func(l CheckpointNotified) error { return l.CheckpointCompleted(id) })
}

func (p *process[K, In, Out]) aborted(_ context.Context, id int64) error {
	return notify(p.p, func(l CheckpointNotified) error { return l.CheckpointAborted(id) })
}

// notify tells a function of the user, if it wants to know.
func notify(function any, f func(CheckpointNotified) error) error {
	if l, ok := function.(CheckpointNotified); ok {
		return f(l)
	}
	return nil
}

// CheckpointNotified is implemented by a [Processor] or [BroadcastProcessor] that wants to know what became of checkpoints (CheckpointListener). Its
// methods are called between two records. An error of them fails the job.
type CheckpointNotified interface {
	CheckpointCompleted(checkpoint int64) error
	// CheckpointAborted is told of checkpoints and savepoints that failed.
	CheckpointAborted(checkpoint int64) error
}

// timerService has the timers of an operator (InternalTimerServiceImpl).
type timerService[K, N comparable] struct {
	c      *operatorContext
	queues [2]backend.Timers[K, N] // by domain
}

func openTimers[K, N comparable](c *operatorContext, b backend.Keyed[K], service string, namespace serializer.Codec[N]) (*timerService[K, N], error) {
	s := &timerService[K, N]{c: c}
	for d := range s.queues {
		q, err := state.OpenTimers(b, backend.TimersDescriptor[N]{Service: service, Domain: backend.TimeDomain(d), Namespace: namespace})
		if err != nil {
			return nil, err
		}
		s.queues[d] = q
	}
	return s, nil
}

func (s *timerService[K, N]) register(d backend.TimeDomain, n N, timestamp int64) error {
	if err := s.queues[d].Register(n, timestamp); err != nil {
		return err
	}
	if d == backend.ProcessingTime {
		s.c.t.timerDue(timestamp)
	}
	return nil
}

func (s *timerService[K, N]) unregister(d backend.TimeDomain, n N, timestamp int64) error {
	return s.queues[d].Delete(n, timestamp)
}

// start waits for the next timer of processing time.
func (s *timerService[K, N]) start() error {
	next, ok, err := s.queues[backend.ProcessingTime].Next()
	if err == nil && ok {
		s.c.t.timerDue(next)
	}
	return err
}

func (s *timerService[K, N]) due(d backend.TimeDomain, until int64, each func(serializer.TimerValue[K, N]) error) error {
	for t, err := range s.queues[d].Advance(until) {
		if err == nil {
			err = each(t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errNoWindow = errors.New("a window needs a positive size and slide")
