package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// Window is a span of time: start inclusive, end exclusive (TimeWindow).
type Window = serializer.Window

// Windows says which windows a record is in.
type Windows struct {
	domain              backend.TimeDomain
	size, slide, offset time.Duration
}

// Tumbling are windows of a size, one after the other (TumblingEventTimeWindows).
func Tumbling(size time.Duration) Windows { return Windows{size: size, slide: size} }

// Sliding are windows of a size, one of which begins each slide (SlidingEventTimeWindows).
func Sliding(size, slide time.Duration) Windows { return Windows{size: size, slide: slide} }

// ProcessingTime gives the same windows by the time at which records come.
func (w Windows) ProcessingTime() Windows {
	w.domain = backend.ProcessingTime
	return w
}

// Offset has windows begin so much later; it must be shorter than the slide.
func (w Windows) Offset(offset time.Duration) Windows {
	w.offset = offset
	return w
}

func (w Windows) check() error {
	if w.size < time.Millisecond || w.slide < time.Millisecond {
		return errNoWindow
	}
	if w.offset.Abs() >= w.slide {
		return fmt.Errorf("an offset of %v, which must be shorter than the slide of %v", w.offset, w.slide)
	}
	return nil
}

// of gives the windows of a timestamp to each, the newest first, as Flink does.
func (w Windows) of(timestamp int64, each func(Window) error) error {
	size, slide, offset := w.size.Milliseconds(), w.slide.Milliseconds(), w.offset.Milliseconds()
	remainder := (timestamp - offset) % slide
	if remainder < 0 {
		remainder += slide
	}
	for start := timestamp - remainder; start > timestamp-size; start -= slide {
		if err := each(Window{Start: start, End: start + size}); err != nil {
			return err
		}
	}
	return nil
}

// windowContents is the name that Flink's window operator has for its state.
const windowContents = "window-contents"

// Reduce gives a stream of the result of each window of each key: what reduce makes of its records, as result gives it out. The
// timestamp is the last millisecond of the window. Records that come after their windows have ended are dropped. element is
// the codec of the records in state.
func Reduce[K comparable, T, Out any](s KeyedStream[K, T], o Op, w Windows, element serializer.Codec[T], reduce func(a, b T) (T, error), codec serializer.Codec[Out],
	result func(key K, w Window, v T) (Out, error)) Stream[Out] {
	return window(s, o, w, codec, result, func(b backend.Keyed[K]) (contents[T], error) {
		return state.OpenReducing(b, backend.ReducingDescriptor[Window, T]{
			Descriptor: backend.Descriptor[Window, T]{Name: windowContents, Namespace: serializer.ForTimeWindow(), Value: element}, Reduce: reduce,
		})
	})
}

// Aggregation says how the records of a window become its result (AggregateFunction).
type Aggregation[In, Acc, Out any] struct {
	// Create, Add and Merge are those of [backend.AggregatingDescriptor].
	Create func() Acc
	Add    func(acc Acc, in In) (Acc, error)
	Result func(acc Acc) (Out, error)
}

// Aggregate is [Reduce] with accumulators, which codec acc writes into state.
func Aggregate[K comparable, T, Acc, R, Out any](s KeyedStream[K, T], o Op, w Windows, acc serializer.Codec[Acc], a Aggregation[T, Acc, R], codec serializer.Codec[Out],
	result func(key K, w Window, v R) (Out, error)) Stream[Out] {
	return window(s, o, w, codec, result, func(b backend.Keyed[K]) (contents[R], error) {
		return state.OpenAggregating(b, backend.AggregatingDescriptor[Window, T, Acc, R]{
			Descriptor: backend.Descriptor[Window, Acc]{Name: windowContents, Namespace: serializer.ForTimeWindow(), Value: acc},
			Create:     a.Create, Add: a.Add, Result: a.Result,
			Merge: func(Acc, Acc) (Acc, error) {
				var none Acc
				return none, fmt.Errorf("windows of a fixed size are never merged")
			},
		})
	})
}

// contents is the state of windows, which is a [backend.FirstAdder], too.
type contents[Out any] interface {
	SetNamespace(n Window)
	Get() (Out, bool, error)
	Clear() error
}

func window[K comparable, T, R, Out any](s KeyedStream[K, T], o Op, w Windows, codec serializer.Codec[Out], result func(K, Window, R) (Out, error),
	open func(backend.Keyed[K]) (contents[R], error)) Stream[Out] {
	if s.stream.from == nil {
		return Stream[Out]{}
	}
	job := s.stream.from.job
	if err := w.check(); err != nil {
		job.fail("operator %q: %w", o.UID, err)
	}
	n := job.add(o, func(outs []any) operator {
		return &windowOperator[K, T, R, Out]{w: w, s: s, result: result, openState: open, out: output[Out](outs), watermark: minWatermark}
	})
	connectKeyed(s, n)
	return Stream[Out]{from: n, codec: codec}
}

// windowOperator is Flink's WindowOperator with the triggers of time and no lateness.
type windowOperator[K comparable, T, R, Out any] struct {
	plain
	w         Windows
	s         KeyedStream[K, T]
	result    func(K, Window, R) (Out, error)
	openState func(backend.Keyed[K]) (contents[R], error)
	out       receiver[Out]

	c         *operatorContext
	keyed     backend.Keyed[K]
	state     contents[R]
	adder     backend.FirstAdder[T]
	timers    *timerService[K, Window]
	watermark int64
}

func (o *windowOperator[K, T, R, Out]) receiver(int) any { return o }

func (o *windowOperator[K, T, R, Out]) open(c *operatorContext) (err error) {
	o.c = c
	if o.keyed, err = openKeyed(c, o.s.codec, o.s.hash); err != nil {
		return err
	}
	if o.timers, err = openTimers(c, o.keyed, "window-timers", serializer.ForTimeWindow()); err != nil {
		return err
	}
	if o.state, err = o.openState(o.keyed); err != nil {
		return err
	}
	adder, ok := o.state.(backend.FirstAdder[T])
	if !ok {
		return fmt.Errorf("state of type %T does not say whether it was empty", o.state)
	}
	o.adder = adder
	return nil
}

func (o *windowOperator[K, T, R, Out]) start(context.Context) error { return o.timers.start() }

// last is the last millisecond of a window, when it is complete.
func last(w Window) int64 { return w.End - 1 }

func (o *windowOperator[K, T, R, Out]) receive(r Record[T]) error {
	timestamp, now := r.Timestamp, o.watermark
	if o.w.domain == backend.ProcessingTime {
		timestamp = o.c.t.run.x.now()
		now = minWatermark // a window of processing time is never late
	} else if timestamp == NoTimestamp {
		return fmt.Errorf("a record without timestamp: windows of event time need SourceOptions.Timestamp")
	}
	if err := o.keyed.SetKey(o.s.key(r.Value)); err != nil {
		return err
	}
	late := false
	err := o.w.of(timestamp, func(w Window) error {
		if last(w) <= now {
			late = true
			return nil
		}
		o.state.SetNamespace(w)
		first, err := o.adder.AddFirst(r.Value)
		if err != nil || !first {
			return err // who has contents has a timer
		}
		return o.timers.register(o.w.domain, w, last(w))
	})
	if late {
		o.c.t.run.x.late.Add(1)
	}
	return err
}

func (o *windowOperator[K, T, R, Out]) advance(watermark int64) error {
	o.watermark = watermark
	if err := o.due(backend.EventTime, watermark); err != nil {
		return err
	}
	return o.out.advance(watermark)
}

func (o *windowOperator[K, T, R, Out]) fire(now int64) error {
	if err := o.due(backend.ProcessingTime, now); err != nil {
		return err
	}
	return o.timers.start()
}

func (o *windowOperator[K, T, R, Out]) due(d backend.TimeDomain, until int64) error {
	return o.timers.due(d, until, func(t serializer.TimerValue[K, Window]) error {
		o.state.SetNamespace(t.Namespace)
		v, ok, err := o.state.Get()
		if err != nil || !ok {
			return err
		}
		out, err := o.result(t.Key, t.Namespace, v)
		if err != nil {
			return err
		}
		if err := o.out.receive(Record[Out]{out, last(t.Namespace)}); err != nil {
			return err
		}
		return o.state.Clear()
	})
}
