package heap_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

func openTable(t *testing.T, b *heap.Backend[int64]) backend.Map[struct{}, int64, int64] {
	t.Helper()
	m, err := heap.OpenMap(b, backend.MapDescriptor[struct{}, int64, int64]{
		Name: "table", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForLong(), Value: serializer.ForLong(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Maps that grow to many entries and shrink again are maps at every size, and snapshots have them as they were when they were
// taken, whatever is done meanwhile.
func TestMapsOfAllSizes(t *testing.T) {
	const keys = 3
	random := rand.New(rand.NewPCG(1, 2))
	b := openLong(t).(*heap.Backend[int64])
	m := openTable(t, b)
	model := [keys]map[int64]int64{{}, {}, {}}
	check := func(what string, b *heap.Backend[int64], m backend.Map[struct{}, int64, int64], want [keys]map[int64]int64) {
		t.Helper()
		for k := range want {
			if err := b.SetKey(int64(k)); err != nil {
				t.Fatal(err)
			}
			got := map[int64]int64{}
			for e, err := range m.All() {
				if err != nil {
					t.Fatal(err)
				}
				if _, twice := got[e.Key]; twice {
					t.Fatalf("%s: user key %d comes twice", what, e.Key)
				}
				got[e.Key] = e.Value
			}
			if !maps.Equal(got, want[k]) {
				t.Fatalf("%s: key %d: %d entries; want %d\n%s", what, k, len(got), len(want[k]), cmp.Diff(want[k], got))
			}
			for u, v := range want[k] {
				if got, ok, err := m.Get(u); got != v || !ok || err != nil {
					t.Fatalf("%s: user key %d: %d, %v, %v; want %d", what, u, got, ok, err, v)
				}
			}
			for u := int64(-5); u < 0; u++ {
				if ok, err := m.Has(u); ok || err != nil {
					t.Fatalf("%s: user key %d, which is not there: %v, %v", what, u, ok, err)
				}
			}
		}
	}
	put := func(k int, u, v int64) {
		t.Helper()
		if err := b.SetKey(int64(k)); err != nil {
			t.Fatal(err)
		}
		if err := m.Put(u, v); err != nil {
			t.Fatal(err)
		}
		model[k][u] = v
	}
	remove := func(k int, u int64) {
		t.Helper()
		if err := b.SetKey(int64(k)); err != nil {
			t.Fatal(err)
		}
		if err := m.Delete(u); err != nil {
			t.Fatal(err)
		}
		delete(model[k], u)
	}
	var shot backend.Snapshot
	var then [keys]map[int64]int64
	take := func() {
		s, err := b.Snapshot(1, backend.SnapshotOptions{})
		if err != nil {
			t.Fatal(err)
		}
		shot = s
		for k := range model {
			then[k] = maps.Clone(model[k])
		}
	}
	written := func(what string) {
		store := storage.NewMemory()
		h, err := shot.Write(t.Context(), backend.Target{FS: store, Dir: "memory:/sp"})
		if err != nil {
			t.Fatal(err)
		}
		r := openLong(t).(*heap.Backend[int64])
		if err := r.Restore(t.Context(), backend.Files{FS: store, Dir: "memory:/sp"}, backend.Handles{Managed: []metadata.Keyed{h}}); err != nil {
			t.Fatal(err)
		}
		check(what, r, openTable(t, r), then)
	}
	sizes := [keys]int{1, 1, 1}
	for _, size := range []int{1, 2, 8, 9, 16, 17, 18, 40, 1000, 100_000, 3000, 40, 18, 17, 16, 9, 8, 3, 1, 0, 5, 0} {
		take()
		for k := range keys {
			sizes[k] = size
			if k > 0 && size > 1000 {
				sizes[k] = 1000 // one of them is enough
			}
			for u := range int64(sizes[k]) {
				put(k, u, random.Int64())
			}
			switch {
			case k == 0: // removed while they are walked through
				if err := b.SetKey(0); err != nil {
					t.Fatal(err)
				}
				for e, err := range m.All() {
					if err != nil {
						t.Fatal(err)
					}
					if e.Value != model[0][e.Key] {
						t.Fatalf("user key %d: %d; want %d", e.Key, e.Value, model[0][e.Key])
					}
					if e.Key >= int64(size) {
						if err := m.Delete(e.Key); err != nil {
							t.Fatal(err)
						}
						delete(model[0], e.Key)
					}
				}
			default:
				for u := int64(len(model[k])) - 1; u >= int64(sizes[k]); u-- {
					remove(k, u)
				}
			}
		}
		check("now", b, m, model)
		written("as it was")
		check("afterwards", b, m, model)
	}
	if n, err := b.Len("table"); n != 0 || err != nil {
		t.Errorf("%d maps, %v; want none", n, err)
	}
}
