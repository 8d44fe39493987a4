package pebble_test

import (
	"path/filepath"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/serializer"
)

func openLong(t testing.TB) backend.Keyed[int64] {
	b, err := pebble.Open(serializer.ForLong(), pebble.Options[int64]{
		MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Dir: filepath.Join(t.TempDir(), "db"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Names and sizes of Flink's state benchmarks.
func BenchmarkState(b *testing.B) { backendtest.RunBenchmarks(b, openLong) }
