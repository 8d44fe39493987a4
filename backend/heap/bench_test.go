package heap_test

import (
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/serializer"
)

func openLong(t testing.TB) backend.Keyed[int64] {
	b, err := heap.Open(serializer.ForLong(), heap.Options[int64]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Names and sizes of Flink's state benchmarks.
func BenchmarkState(b *testing.B) { backendtest.RunBenchmarks(b, openLong) }
