package heap

import "testing"

// Numbers are spread over a table, whatever they have in common.
func TestHashSpread(t *testing.T) {
	const n = 12_000 // of 16,384 slots
	for name, number := range map[string]func(i int64) int64{
		"one after the other": func(i int64) int64 { return i },
		"negative":            func(i int64) int64 { return -i },
		"even":                func(i int64) int64 { return i << 1 },
		"multiples":           func(i int64) int64 { return i << 20 },
		"highest bits":        func(i int64) int64 { return i << 50 },
		"two halves":          func(i int64) int64 { return i<<32 | i },
	} {
		var h hash[int64, struct{}, int]
		for i := range int64(n) {
			v, found := h.place(id[int64, struct{}]{key: number(i)})
			if found {
				t.Fatalf("%s: %d came twice", name, number(i))
			}
			*v = int(i)
		}
		// The slots that are looked at to find each of them: by chance about 2.4 each at this load.
		looks, mask := 0, uint64(len(h.tags)-1)
		for i := range int64(n) {
			at := id[int64, struct{}]{key: number(i)}
			if v := h.find(at); v == nil || *v != int(i) {
				t.Fatalf("%s: %d was not found", name, at.key)
			}
			for j := sumAt(&h.seed, at) & mask; h.slots[j].at != at; j = (j + 1) & mask {
				looks++
			}
			looks++
		}
		if looks > 6*n {
			t.Errorf("%s: %d slots are looked at for %d numbers", name, looks, n)
		}
	}
}

// A table is not made larger by more than what is there already answers for, whatever it is told to expect.
func TestExpect(t *testing.T) {
	var s shard[int64, struct{}, int]
	s.expect(1 << 40)
	if len(s.base.slots) != 0 {
		t.Fatalf("%d slots for nothing", len(s.base.slots))
	}
	for i := range int64(10_000) {
		s.expect(1 << 40)
		if most := max(16*int(i)*2, leastSlots); len(s.base.slots) > most {
			t.Fatalf("%d slots for %d values", len(s.base.slots), i)
		}
		s.put(id[int64, struct{}]{key: i}, int(i))
	}
	for i := range int64(10_000) {
		if v, ok := s.get(id[int64, struct{}]{key: i}); !ok || v != int(i) {
			t.Fatalf("%d: %d, %v", i, v, ok)
		}
	}
	s = shard[int64, struct{}, int]{}
	for i := range int64(1000) {
		s.expect(1000)
		s.put(id[int64, struct{}]{key: i}, int(i))
	}
	if got, want := len(s.base.slots), slotsFor(1000); got != want {
		t.Errorf("%d slots for 1000 values that were expected; want %d", got, want)
	}
}
