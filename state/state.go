package state

import (
	"fmt"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
)

// The functions of this package are those of packages heap and pebble, for
// programs that choose the backend when they run; one that knows it calls its
// package and does not link the other.

// OpenValue opens a value state.
func OpenValue[K, N comparable, V any](b backend.Keyed[K], d backend.Descriptor[N, V]) (backend.Value[N, V], error) {
	switch b := b.(type) {
	case *heap.Backend[K]:
		return heap.OpenValue(b, d)
	case *pebble.Backend[K]:
		return pebble.OpenValue(b, d)
	}
	return nil, unknown(b)
}

// OpenList opens a list state.
func OpenList[K, N comparable, V any](b backend.Keyed[K], d backend.Descriptor[N, V]) (backend.List[N, V], error) {
	switch b := b.(type) {
	case *heap.Backend[K]:
		return heap.OpenList(b, d)
	case *pebble.Backend[K]:
		return pebble.OpenList(b, d)
	}
	return nil, unknown(b)
}

// OpenMap opens a map state.
func OpenMap[K, N, U comparable, V any](b backend.Keyed[K], d backend.MapDescriptor[N, U, V]) (backend.Map[N, U, V], error) {
	switch b := b.(type) {
	case *heap.Backend[K]:
		return heap.OpenMap(b, d)
	case *pebble.Backend[K]:
		return pebble.OpenMap(b, d)
	}
	return nil, unknown(b)
}

// OpenReducing opens a reducing state.
func OpenReducing[K, N comparable, V any](b backend.Keyed[K], d backend.ReducingDescriptor[N, V]) (backend.Reducing[N, V], error) {
	switch b := b.(type) {
	case *heap.Backend[K]:
		return heap.OpenReducing(b, d)
	case *pebble.Backend[K]:
		return pebble.OpenReducing(b, d)
	}
	return nil, unknown(b)
}

// OpenAggregating opens an aggregating state.
func OpenAggregating[K, N comparable, In, Acc, Out any](b backend.Keyed[K], d backend.AggregatingDescriptor[N, In, Acc, Out]) (backend.Aggregating[N, In, Out], error) {
	switch b := b.(type) {
	case *heap.Backend[K]:
		return heap.OpenAggregating(b, d)
	case *pebble.Backend[K]:
		return pebble.OpenAggregating(b, d)
	}
	return nil, unknown(b)
}

// OpenTimers opens a queue of timers.
func OpenTimers[K, N comparable](b backend.Keyed[K], d backend.TimersDescriptor[N]) (backend.Timers[K, N], error) {
	switch b := b.(type) {
	case *heap.Backend[K]:
		return heap.OpenTimers(b, d)
	case *pebble.Backend[K]:
		return pebble.OpenTimers(b, d)
	}
	return nil, unknown(b)
}

func unknown(b any) error { return fmt.Errorf("%T: not a backend of this module", b) }
