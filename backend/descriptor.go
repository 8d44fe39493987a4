package backend

import (
	"errors"
	"time"

	"github.com/drey-state/drey/serializer"
)

// Descriptor describes a value state or a list state: its name, and the codecs of what it
// holds (Flink's ValueStateDescriptor, ListStateDescriptor). The codecs decide which bytes stand in a snapshot,
// and so which Flink job can restore it. N is the type of the namespace: struct{} with
// [serializer.ForVoidNamespace] for state that has none, which is what a KeyedProcessFunction of Flink has.
type Descriptor[N comparable, V any] struct {
	// Name is unique among the states of an operator.
	Name      string
	Namespace serializer.Codec[N]
	// Value is for a value, or for one element of a list.
	Value serializer.Codec[V]
	// TTL makes values expire; nil means that they don't.
	TTL *TTL
}

// MapDescriptor describes a map state (MapStateDescriptor). TTL is that of each entry.
type MapDescriptor[N, U comparable, V any] struct {
	Name      string
	Namespace serializer.Codec[N]
	UserKey   serializer.Codec[U]
	Value     serializer.Codec[V]
	// Null says which values stand for null, which maps of Flink may hold, and of which Value is not asked
	// to write anything; nil means none. The zero value must be one of them, as it is what a null is read as. For values of
	// type *T, [serializer.ForPointer] makes the codec. With TTL, Flink knows no null, and Null must be nil.
	Null func(V) bool
	TTL  *TTL
}

// Check says what is wrong with the description of nulls.
func (d *MapDescriptor[N, U, V]) Check() error {
	var zero V
	switch {
	case d.Null == nil:
		return nil
	case d.TTL != nil:
		return errors.New("null values with time to live, which Flink can't read")
	case !d.Null(zero):
		return errors.New("the zero value must stand for null")
	}
	return nil
}

// ReducingDescriptor describes a reducing state (ReducingStateDescriptor).
type ReducingDescriptor[N comparable, V any] struct {
	Descriptor[N, V]
	// Reduce combines what is there with what is added. It must not change its arguments, of which a snapshot may hold one.
	Reduce func(old, added V) (V, error)
}

// AggregatingDescriptor describes an aggregating state (AggregatingStateDescriptor); the value of the
// embedded Descriptor is the accumulator.
type AggregatingDescriptor[N comparable, In, Acc, Out any] struct {
	Descriptor[N, Acc]
	// Create gives the accumulator of nothing.
	Create func() Acc
	// Add and Merge give a new accumulator. They must not change their arguments, of which a snapshot may hold one.
	Add    func(acc Acc, in In) (Acc, error)
	Merge  func(a, b Acc) (Acc, error)
	Result func(acc Acc) (Out, error)
}

// TimersDescriptor describes a queue of timers.
type TimersDescriptor[N comparable] struct {
	// Service is the name of the timer service; Flink's window operator has
	// "window-timers", a process function "user-timers".
	Service   string
	Domain    TimeDomain
	Namespace serializer.Codec[N]
}

// TimeDomain says what time a timer waits for.
type TimeDomain uint8

// The domains.
const (
	EventTime TimeDomain = iota
	ProcessingTime
)

// StateName is the name of the state in a snapshot (InternalTimeServiceManagerImpl).
func (d TimersDescriptor[N]) StateName() string {
	if d.Domain == ProcessingTime {
		return timerStatePrefix + "/processing_" + d.Service
	}
	return timerStatePrefix + "/event_" + d.Service
}

const timerStatePrefix = "_timer_state"

// TTL is the time to live of values (StateTtlConfig). It goes by processing time. A state with
// TTL holds the last access time beside each value, so that its snapshots differ
// from those of a state without.
type TTL struct {
	// After is how long a value lives since it was last accessed; it must be positive, and counts in milliseconds.
	After time.Duration
	// OnRead makes reading an access, too, not only writing.
	OnRead bool
	// ReturnExpired gives expired values for as long as they are not cleaned up.
	ReturnExpired bool
	// KeepInFullSnapshot writes expired values into full snapshots and savepoints too, instead of leaving them out.
	KeepInFullSnapshot bool
	// CleanUp is the number of entries that each access looks at, in turn, to
	// remove those that are expired; 0 means none: then a value that expired takes up room until it is read.
	CleanUp int
}
