package heap_test

import (
	"runtime"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// Reading and replacing values of fixed size allocates nothing.
func TestNoAllocation(t *testing.T) {
	b := openLong(t).(*heap.Backend[int64])
	value, err := heap.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "value", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		t.Fatal(err)
	}
	table, err := heap.OpenMap(b, backend.MapDescriptor[struct{}, int64, float64]{
		Name: "table", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForLong(), Value: serializer.ForDouble(),
	})
	if err != nil {
		t.Fatal(err)
	}
	small, err := heap.OpenMap(b, backend.MapDescriptor[struct{}, int64, float64]{
		Name: "small", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForLong(), Value: serializer.ForDouble(),
	})
	if err != nil {
		t.Fatal(err)
	}
	const keys, users, few = 1000, 100, 10
	put := func(k int64) {
		if err := b.SetKey(k % keys); err != nil {
			t.Fatal(err)
		}
		if err := value.Set(k); err != nil {
			t.Fatal(err)
		}
		if err := table.Put(k/keys%users, 0.5); err != nil {
			t.Fatal(err)
		}
		if err := small.Put(k/keys%few, 0.5); err != nil {
			t.Fatal(err)
		}
	}
	for k := range int64(keys * users) {
		put(k)
	}
	k := int64(0)
	for name, f := range map[string]func(){
		"put": func() { put(k) },
		"get": func() {
			if err := b.SetKey(k % keys); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := value.Get(); err != nil || !ok {
				t.Fatal(ok, err)
			}
			if _, ok, err := table.Get(k / keys % users); err != nil || !ok {
				t.Fatal(ok, err)
			}
			if _, ok, err := small.Get(k / keys % few); err != nil || !ok {
				t.Fatal(ok, err)
			}
			if ok, err := small.Has(few); err != nil || ok {
				t.Fatal(ok, err)
			}
		},
	} {
		if n := testing.AllocsPerRun(1000, func() { k++; f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// To write or restore an entry of fixed size allocates nothing: what is allocated is for key groups and for what entries are kept in.
func TestNoAllocationForEntries(t *testing.T) {
	const keys = 200_000
	const most = keys / 10
	opened := func() (*heap.Backend[int64], backend.Value[struct{}, int64]) {
		b := openLong(t).(*heap.Backend[int64])
		v, err := heap.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "value", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
		if err != nil {
			t.Fatal(err)
		}
		return b, v
	}
	b, v := opened()
	for k := range int64(keys) {
		if err := b.SetKey(k); err != nil {
			t.Fatal(err)
		}
		if err := v.Set(k * 3); err != nil {
			t.Fatal(err)
		}
	}
	allocated := func(f func() error) uint64 {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := f()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return after.Mallocs - before.Mallocs
	}
	for name, o := range map[string]backend.SnapshotOptions{
		"canonical": {}, "canonical, compressed": {Compress: true}, "full": {Format: backend.FormatFull}, "full, compressed": {Format: backend.FormatFull, Compress: true},
	} {
		store := storage.NewMemory()
		var h metadata.Keyed
		if n := allocated(func() error {
			s, err := b.Snapshot(1, o)
			if err != nil {
				return err
			}
			h, err = s.Write(t.Context(), backend.Target{FS: store, Dir: "memory:/chk"})
			return err
		}); n > most {
			t.Errorf("%s: %d allocations to write %d entries", name, n, keys)
		}
		r, v := opened()
		if n := allocated(func() error {
			return r.Restore(t.Context(), backend.Files{FS: store, Dir: "memory:/chk"}, backend.Handles{Managed: []metadata.Keyed{h}})
		}); n > most {
			t.Errorf("%s: %d allocations to restore %d entries", name, n, keys)
		}
		for k := range int64(keys) {
			if err := r.SetKey(k); err != nil {
				t.Fatal(err)
			}
			if got, ok, err := v.Get(); got != k*3 || !ok || err != nil {
				t.Fatalf("%s: key %d: %d, %v, %v", name, k, got, ok, err)
			}
		}
	}
}
