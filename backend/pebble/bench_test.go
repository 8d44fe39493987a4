package pebble_test

import (
	"errors"
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

// Keys in use, whose values are replaced and read again and again.
func BenchmarkHotKeys(b *testing.B) {
	keyed := openLong(b).(*pebble.Backend[int64])
	v, err := pebble.OpenValue(keyed, backend.Descriptor[struct{}, int64]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		err := keyed.SetKey(i % 10_000)
		was, _, err2 := v.Get()
		if err = errors.Join(err, err2, v.Set(was+1)); err != nil {
			b.Fatal(err)
		}
	}
}

// Keys that are written once, so that most of the time the write buffer is sorted and flushed.
func BenchmarkNewKeys(b *testing.B) {
	keyed := openLong(b).(*pebble.Backend[int64])
	v, err := pebble.OpenValue(keyed, backend.Descriptor[struct{}, int64]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if err := errors.Join(keyed.SetKey(i*2654435761), v.Set(i)); err != nil {
			b.Fatal(err)
		}
	}
}
