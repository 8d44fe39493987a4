package heap

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
)

// A user map is a map, however many entries it has and whichever of them have the same tag, and its clones stay as it was.
func TestUserMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Tags that differ in the lowest bit are those that the search may take one for the other.
		tags := rapid.SampledFrom([]uint64{1, 2, 255}).Draw(t, "tags")
		tag := func(u int) uint64 { return 1 + uint64(u)%tags }
		few := func(m *userMap[int, int]) bool { return m.index == nil }
		find := func(m *userMap[int, int], u int) int {
			if few(m) {
				return m.search(u, tag(u))
			}
			return m.find(u)
		}
		content := func(m *userMap[int, int]) map[int]int {
			got := map[int]int{}
			for i, e := range m.entries {
				if _, twice := got[e.Key]; twice || find(m, e.Key) != i {
					t.Fatalf("key %d: twice %v, found at %d; want %d", e.Key, twice, find(m, e.Key), i)
				}
				got[e.Key] = e.Value
			}
			return got
		}
		var m userMap[int, int]
		model := map[int]int{}
		key := rapid.IntRange(0, rapid.SampledFrom([]int{3, 10, mostTagged, mostTagged + 1, 10 * mostTagged}).Draw(t, "keys"))
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				u, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
				if i := find(&m, u); i >= 0 {
					m.entries[i].Value = v
				} else {
					m.add(u, v, tag(u))
				}
				model[u] = v
			},
			"remove": func(t *rapid.T) {
				u := key.Draw(t, "key")
				_, want := model[u]
				i := find(&m, u)
				if i >= 0 != want {
					t.Fatalf("key %d found at %d; want it there %v", u, i, want)
				}
				// To be made smaller gives the tags of the hash, which this test doesn't have.
				if i >= 0 && (len(m.entries)-1)*shrink >= cap(m.entries) {
					m.remove(i)
					delete(model, u)
				}
			},
			"": func(*rapid.T) {
				if d := cmp.Diff(model, content(&m)); d != "" {
					t.Fatalf("(-want +got):\n%s", d)
				}
			},
		})
	})
}

// The same by the keys' own tags, with what copies maps.
func TestUserMapCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m userMap[int64, int]
		model := map[int64]int{}
		type copied struct {
			is   userMap[int64, int]
			want map[int64]int
		}
		var copies []copied
		check := func(m *userMap[int64, int], want map[int64]int) {
			if len(m.entries) != len(want) {
				t.Fatalf("%d entries; want %d", len(m.entries), len(want))
			}
			for u, v := range want {
				if i := m.find(u); i < 0 || m.entries[i] != (backend.MapEntry[int64, int]{Key: u, Value: v}) {
					t.Fatalf("key %d at %d; want its value to be %d", u, i, v)
				}
			}
			if i := m.find(-1); i >= 0 {
				t.Fatalf("a key that is not there was found at %d", i)
			}
		}
		key := rapid.Int64Range(0, 5*mostTagged)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					u, v := key.Draw(t, "key"), rapid.IntRange(0, 9).Draw(t, "value")
					m.put(u, v)
					model[u] = v
				}
			},
			"remove": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					u := key.Draw(t, "key")
					if i := m.find(u); i >= 0 {
						m.remove(i)
						delete(model, u)
					}
				}
			},
			"clone": func(*rapid.T) {
				copies = append(copies, copied{m, maps.Clone(model)})
				m = m.clone(m.epoch + 1)
			},
			"where": func(t *rapid.T) {
				most := rapid.IntRange(0, 9).Draw(t, "most")
				copies = append(copies, copied{m, maps.Clone(model)})
				m = m.where(m.epoch+1, func(v int) bool { return v > most })
				maps.DeleteFunc(model, func(_ int64, v int) bool { return v > most })
			},
			"": func(*rapid.T) {
				check(&m, model)
				for i := range copies {
					check(&copies[i].is, copies[i].want)
				}
			},
		})
	})
}
