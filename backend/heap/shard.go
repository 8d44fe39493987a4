package heap

import (
	"iter"
	"maps"
	"sync/atomic"
)

// id is what a table finds a value by, within a key group.
type id[K, N comparable] struct {
	key       K
	namespace N
}

// shard holds the values of one key group. Snapshots read it while it is
// written: taking one freezes the maps that are there and puts an empty one on
// top, which takes the writes. When the last snapshot that needs them is gone, the maps become one again,
// at the next access. So taking a snapshot costs the same whatever the size, and only what is written meanwhile
// is held twice.
type shard[K, N comparable, V any] struct {
	base  map[id[K, N]]V
	upper []map[id[K, N]]cell[V] // the last one takes the writes, and may be nil
	n     int                    // number of values, if there are uppers
	most  int                    // number of values that base has room for
	pins  *atomic.Int32          // readers of the maps that are frozen; nil if there were none yet
}

// cell is a value that was written since a snapshot, or its removal.
type cell[V any] struct {
	v    V
	gone bool
}

// mostUppers is how many maps lie above each other at most. Beyond it, as when
// snapshots overlap without end, they are copied into one.
const mostUppers = 4

// shrink is by how many times fewer the values must have become for their map to be made anew, as maps of Go don't shrink.
const shrink = 4

func (s *shard[K, N, V]) len() int {
	if len(s.upper) == 0 {
		return len(s.base)
	}
	return s.n
}

func (s *shard[K, N, V]) get(at id[K, N]) (v V, ok bool) {
	if len(s.upper) > 0 && !s.settled() {
		return s.lookUp(at)
	}
	v, ok = s.base[at]
	return v, ok
}

func (s *shard[K, N, V]) lookUp(at id[K, N]) (v V, ok bool) {
	for i := len(s.upper) - 1; i >= 0; i-- {
		if c, found := s.upper[i][at]; found {
			return c.v, !c.gone
		}
	}
	v, ok = s.base[at]
	return v, ok
}

func (s *shard[K, N, V]) put(at id[K, N], v V) {
	if len(s.upper) > 0 && !s.settled() {
		if _, ok := s.lookUp(at); !ok {
			s.n++
		}
		s.top()[at] = cell[V]{v: v}
		return
	}
	if s.base == nil {
		s.base = map[id[K, N]]V{}
	}
	s.base[at] = v
}

func (s *shard[K, N, V]) delete(at id[K, N]) {
	if len(s.upper) > 0 && !s.settled() {
		if _, ok := s.lookUp(at); ok {
			s.n--
			s.top()[at] = cell[V]{gone: true}
		}
		return
	}
	s.most = max(s.most, len(s.base))
	delete(s.base, at)
	if len(s.base) == 0 && s.most > 1024 {
		s.base, s.most = nil, 0
	}
}

func (s *shard[K, N, V]) top() map[id[K, N]]cell[V] {
	last := len(s.upper) - 1
	if s.upper[last] == nil {
		s.upper[last] = map[id[K, N]]cell[V]{}
	}
	return s.upper[last]
}

// settled makes one map of all if no snapshot needs them, and says whether there is only one.
func (s *shard[K, N, V]) settled() bool {
	if s.pins.Load() > 0 {
		return false
	}
	s.most = max(s.most, len(s.base), s.n)
	if s.n*shrink < s.most && s.most > 1024 {
		s.flatten()
		return true
	}
	for _, m := range s.upper {
		for at, c := range m {
			if c.gone {
				delete(s.base, at)
				continue
			}
			if s.base == nil {
				s.base = map[id[K, N]]V{}
			}
			s.base[at] = c.v
		}
	}
	s.upper = nil
	return true
}

// flatten copies all maps into a new one.
func (s *shard[K, N, V]) flatten() {
	base := make(map[id[K, N]]V, s.n)
	for at, v := range s.view().all() {
		base[at] = v
	}
	// The readers of the maps as they were still count: they share with the new one what values point to.
	s.base, s.upper, s.most = base, nil, len(base)
}

// view is the shard as it is now, for as long as it is not written.
func (s *shard[K, N, V]) view() frozenShard[K, N, V] {
	return frozenShard[K, N, V]{base: s.base, upper: s.upper, n: s.len()}
}

// all yields the values as they are now. Values may be read meanwhile, and the one that was yielded last may be removed.
func (s *shard[K, N, V]) all() iter.Seq2[id[K, N], V] {
	return func(yield func(id[K, N], V) bool) {
		if len(s.upper) > 0 && !s.settled() {
			// The maps must not become one while they are walked through.
			pins := s.pins
			pins.Add(1)
			defer pins.Add(-1)
		}
		s.view().all()(yield)
	}
}

// freeze gives the shard as it is now. The caller releases it.
func (s *shard[K, N, V]) freeze() frozenShard[K, N, V] {
	if s.len() == 0 {
		return frozenShard[K, N, V]{}
	}
	if len(s.upper) > 0 && !s.settled() && len(s.upper) > mostUppers {
		s.flatten()
	}
	n := s.len()
	if last := len(s.upper) - 1; last < 0 || s.upper[last] != nil {
		s.upper = append(s.upper, nil)
	}
	s.n = n
	if s.pins == nil {
		s.pins = new(atomic.Int32)
	}
	s.pins.Add(1)
	frozen := len(s.upper) - 1
	return frozenShard[K, N, V]{s.base, s.upper[:frozen:frozen], n, s.pins}
}

// frozenShard is a shard as it was.
type frozenShard[K, N comparable, V any] struct {
	base  map[id[K, N]]V
	upper []map[id[K, N]]cell[V]
	n     int
	pins  *atomic.Int32
}

// release lets go of the shard.
func (f *frozenShard[K, N, V]) release() {
	if f.pins != nil {
		f.pins.Add(-1)
	}
	*f = frozenShard[K, N, V]{}
}

// all yields the values in no certain order.
func (f frozenShard[K, N, V]) all() iter.Seq2[id[K, N], V] {
	if len(f.upper) == 0 {
		return maps.All(f.base)
	}
	return func(yield func(id[K, N], V) bool) {
		// above says that a map above the first n ones has something to say of an id.
		above := func(at id[K, N], n int) bool {
			for _, m := range f.upper[n:] {
				if _, ok := m[at]; ok {
					return true
				}
			}
			return false
		}
		for at, v := range f.base {
			if !above(at, 0) && !yield(at, v) {
				return
			}
		}
		for i, m := range f.upper {
			for at, c := range m {
				if !c.gone && !above(at, i+1) && !yield(at, c.v) {
					return
				}
			}
		}
	}
}
