package heap_test

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestOddKeys: keys that Go compares otherwise than Java are refused on heap, whichever way they come, and held apart on Pebble.
func TestOddKeys(t *testing.T) {
	ctx, store := t.Context(), storage.NewMemory()
	stored, err := pebble.Open(serializer.ForDouble(), pebble.Options[float64]{
		MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Dir: filepath.Join(t.TempDir(), "db"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stored.Close()
	onHeap := func() *heap.Backend[float64] {
		b, err := heap.Open(serializer.ForDouble(), heap.Options[float64]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	table := backend.MapDescriptor[float64, float64, int64]{Name: "table", Namespace: serializer.ForDouble(), UserKey: serializer.ForDouble(), Value: serializer.ForLong()}
	negative := math.Copysign(0, -1)
	for _, key := range []float64{math.NaN(), negative} {
		b := onHeap()
		m, err := heap.OpenMap(b, table)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.SetKey(key); !errors.Is(err, serializer.ErrUnsupported) {
			t.Errorf("key %v: %v", key, err)
		}
		if err := m.Put(1, 1); !errors.Is(err, backend.ErrNoKey) {
			t.Errorf("put without a key: %v", err)
		}
		if err := b.SetKey(0); err != nil {
			t.Fatal(err)
		}
		if err := m.Put(key, 1); !errors.Is(err, serializer.ErrUnsupported) {
			t.Errorf("user key %v: %v", key, err)
		}
		if _, _, err := m.Get(key); !errors.Is(err, serializer.ErrUnsupported) {
			t.Errorf("user key %v: %v", key, err)
		}
		m.SetNamespace(key)
		if err := m.Put(1, 1); !errors.Is(err, serializer.ErrUnsupported) {
			t.Errorf("namespace %v: %v", key, err)
		}
	}
	m, err := pebble.OpenMap(stored, table)
	if err != nil {
		t.Fatal(err)
	}
	if err := stored.SetKey(1); err != nil {
		t.Fatal(err)
	}
	for i, u := range []float64{0, negative, math.NaN()} {
		if err := m.Put(u, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, u := range []float64{0, negative, math.NaN()} {
		if n, ok, err := m.Get(u); n != int64(i) || !ok || err != nil {
			t.Errorf("user key %v on Pebble: %d, %t, %v", u, n, ok, err)
		}
	}
	s, err := stored.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Write(ctx, backend.Target{FS: store, Dir: "memory:/sp"})
	if err != nil {
		t.Fatal(err)
	}
	b := onHeap()
	if _, err := heap.OpenMap(b, table); err != nil {
		t.Fatal(err)
	}
	err = b.Restore(ctx, backend.Files{FS: store, Dir: "memory:/sp"}, backend.Handles{Managed: []metadata.Keyed{h}})
	if !errors.Is(err, serializer.ErrUnsupported) {
		t.Errorf("restored: %v", err)
	}
}
