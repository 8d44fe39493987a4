package runtime

import (
	"fmt"
	"math"
	"sync"

	"github.com/drey-state/drey/serializer"
)

// NoTimestamp is the timestamp of a record that has none.
const NoTimestamp = math.MinInt64

// Watermarks beyond all timestamps: the one before anything is known, and the one at the end of the input.
const (
	minWatermark = math.MinInt64
	maxWatermark = math.MaxInt64
)

// Record is an element of a stream (StreamRecord).
type Record[T any] struct {
	// Value must not be changed by who gets it: others may have it, too.
	Value T
	// Timestamp is the event time in milliseconds since 1970, or [NoTimestamp].
	Timestamp int64
}

// event is what goes through a channel between records.
type event uint8

const (
	noEvent event = iota
	// eventWatermark says that no record with a timestamp up to it follows.
	eventWatermark
	// eventBarrier parts the records of a checkpoint from those after it.
	eventBarrier
	// eventEnd says that no record follows; barriers may.
	eventEnd
)

// item is what a channel holds: a batch of records, or an event.
type item struct {
	data      buffer // nil for an event
	event     event
	watermark int64
	barrier   *barrier
}

// buffer is a batch, whatever the type of its records.
type buffer interface {
	len() int
	// encode appends the records from an index on as channels of Flink have them (StreamElementSerializer).
	encode(out *serializer.Output, from int)
	// hold keeps the batch from being used again.
	hold()
	// release gives the batch back to where it came from.
	release()
}

// batch is records that go from one subtask to another at once. It is filled by its sender; once
// sent, it is not changed before it is released.
type batch[T any] struct {
	records []Record[T]
	x       *exchange[T]
	held    bool
}

func (b *batch[T]) len() int { return len(b.records) }
func (b *batch[T]) hold()    { b.held = true }

func (b *batch[T]) release() {
	if b.held {
		return // a checkpoint still writes it
	}
	clear(b.records)
	b.records = b.records[:0]
	b.x.pool.Put(b)
}

// Tags of elements in a channel (StreamElementSerializer).
const (
	tagTimestamped = 0
	tagPlain       = 1
	tagWatermark   = 2
)

func (b *batch[T]) encode(out *serializer.Output, from int) {
	for _, r := range b.records[from:] {
		framed(out, func() {
			if r.Timestamp == NoTimestamp {
				out.U8(tagPlain)
			} else {
				out.U8(tagTimestamped)
				out.I64(r.Timestamp)
			}
			b.x.codec.Write(out, r.Value)
		})
	}
}

// framed writes what f writes with its length before it.
func framed(out *serializer.Output, f func()) {
	at := out.Len()
	out.I32(0)
	f()
	size := out.Len() - at - 4
	if b := out.Bytes(); len(b) >= at+4 {
		b[at], b[at+1], b[at+2], b[at+3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	}
}

// encodeEvent appends a watermark; other events are no content of a channel.
func encodeEvent(out *serializer.Output, it item) {
	if it.event == eventWatermark {
		framed(out, func() { out.U8(tagWatermark); out.I64(it.watermark) })
	}
}

// exchange is what the two ends of an edge have in common.
type exchange[T any] struct {
	codec serializer.Codec[T]
	size  int // records in a batch
	pool  sync.Pool
}

func newExchange[T any](codec serializer.Codec[T], size int) *exchange[T] {
	x := &exchange[T]{codec: codec, size: size}
	x.pool.New = func() any { return &batch[T]{records: make([]Record[T], 0, size), x: x} }
	return x
}

func (x *exchange[T]) get() *batch[T] { return x.pool.Get().(*batch[T]) }

// decode reads what batch.encode and encodeEvent wrote, and gives each element to the functions.
func (x *exchange[T]) decode(data []byte, record func(Record[T]), other func(item)) error {
	in := serializer.NewInput(data)
	for in.Remaining() > 0 {
		frame := in.Bytes32()
		if err := in.Err(); err != nil {
			return err
		}
		e := serializer.NewInput(frame)
		switch tag := e.U8(); tag {
		case tagTimestamped, tagPlain:
			r := Record[T]{Timestamp: NoTimestamp}
			if tag == tagTimestamped {
				r.Timestamp = e.I64()
			}
			r.Value = x.codec.Read(e)
			if err := e.Finish(); err != nil {
				return err
			}
			record(r)
			continue
		case tagWatermark:
			other(item{event: eventWatermark, watermark: e.I64()})
		default:
			return fmt.Errorf("element with tag %d in a channel: %w", tag, serializer.ErrUnsupported)
		}
		if err := e.Finish(); err != nil {
			return err
		}
	}
	return nil
}
