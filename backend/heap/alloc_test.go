package heap_test

import (
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/serializer"
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
	const keys, users = 1000, 100
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
		},
	} {
		if n := testing.AllocsPerRun(1000, func() { k++; f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
