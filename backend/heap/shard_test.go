package heap

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A shard is a map, and each of its snapshots stays as the map was, however they overlap.
func TestShard(t *testing.T) {
	type at = id[int, struct{}]
	rapid.Check(t, func(t *rapid.T) {
		var s shard[int, struct{}, int]
		model := map[int]int{}
		type taken struct {
			frozen frozenShard[int, struct{}, int]
			want   map[int]int
		}
		var snapshots []taken
		content := func(f frozenShard[int, struct{}, int]) map[int]int {
			got := map[int]int{}
			for k, v := range f.all() {
				if _, twice := got[k.key]; twice {
					t.Fatalf("key %d comes twice", k.key)
				}
				got[k.key] = v
			}
			if len(got) != f.n {
				t.Fatalf("%d values, counted as %d", len(got), f.n)
			}
			return got
		}
		check := func(what string, got, want map[int]int) {
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s (-want +got):\n%s", what, d)
			}
		}
		key := rapid.IntRange(0, 20)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
				s.put(at{key: k}, v)
				model[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				s.delete(at{key: k})
				delete(model, k)
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				got, ok := s.get(at{key: k})
				want, there := model[k]
				if got != want || ok != there {
					t.Fatalf("key %d: %d, %v; want %d, %v", k, got, ok, want, there)
				}
			},
			"walk and delete": func(t *rapid.T) {
				seen := map[int]int{}
				for k, v := range s.all() {
					seen[k.key] = v
					if rapid.Bool().Draw(t, "delete") {
						s.delete(k)
						delete(model, k.key)
					}
				}
				for k, v := range model {
					if seen[k] != v {
						t.Fatalf("key %d was not seen", k)
					}
				}
			},
			"freeze": func(*rapid.T) {
				snapshots = append(snapshots, taken{s.freeze(), maps.Clone(model)})
			},
			"release": func(t *rapid.T) {
				if len(snapshots) == 0 {
					t.Skip("nothing to release")
				}
				i := rapid.IntRange(0, len(snapshots)-1).Draw(t, "snapshot")
				check("snapshot", content(snapshots[i].frozen), snapshots[i].want)
				snapshots[i].frozen.release()
				snapshots = append(snapshots[:i], snapshots[i+1:]...)
			},
			"": func(*rapid.T) {
				if s.len() != len(model) {
					t.Fatalf("%d values; want %d", s.len(), len(model))
				}
				check("now", content(s.view()), model)
			},
		})
		for i := range snapshots {
			check("snapshot", content(snapshots[i].frozen), snapshots[i].want)
		}
	})
}

// Snapshots that overlap without end don't pile up tables.
func TestShardOverlap(t *testing.T) {
	var s shard[int, struct{}, int]
	before := s.freeze()
	for i := range 1000 {
		s.put(id[int, struct{}]{key: i % 10}, i)
		next := s.freeze()
		before.release()
		before = next
		if len(s.upper) > mostUppers+1 {
			t.Fatalf("%d tables above the base after %d snapshots", len(s.upper), i)
		}
	}
}

// Memory of values that are gone comes back.
func TestShardShrinks(t *testing.T) {
	var s shard[int, struct{}, int]
	for i := range 100_000 {
		s.put(id[int, struct{}]{key: i}, i)
	}
	frozen := s.freeze()
	for i := range 99_000 {
		s.delete(id[int, struct{}]{key: i})
	}
	frozen.release()
	if _, ok := s.get(id[int, struct{}]{key: 99_999}); !ok || s.len() != 1000 {
		t.Fatalf("%d values; want 1000", s.len())
	}
	if room := len(s.base.slots); room > 2048 {
		t.Errorf("room for %d values where there are 1000", room)
	}
}
