package heap

import (
	"iter"
	"sync/atomic"
)

// id is what a table finds a value by, within a key group.
type id[K, N comparable] struct {
	namespace N // is often of no size, which at the end would take up room
	key       K
}

// shard holds the values of one key group. Snapshots read it while it is
// written: taking one freezes the tables that are there and puts an empty one on
// top, which takes the writes. When the last snapshot that needs them is gone, the tables become one again,
// at the next access. So taking a snapshot costs the same whatever the size, and only what is written meanwhile
// is held twice.
type shard[K, N comparable, V any] struct {
	base  hash[K, N, V]
	upper []*hash[K, N, cell[V]] // the last one takes the writes
	n     int                    // number of values, if there are uppers
	pins  *atomic.Int32          // readers of the tables that are frozen; nil if there were none yet
}

// cell is a value that was written since a snapshot, or its removal.
type cell[V any] struct {
	v    V
	gone bool
}

// mostUppers is how many tables lie above the base at most. Beyond it, as when
// snapshots overlap without end, they are copied into one, which takes as long as there is much that was written since.
const mostUppers = 4

// shrink is by how many times fewer the values must have become for their table to be made anew.
const shrink = 4

func (s *shard[K, N, V]) len() int {
	if len(s.upper) == 0 {
		return s.base.n
	}
	return s.n
}

func (s *shard[K, N, V]) get(at id[K, N]) (v V, ok bool) {
	p := s.find(at)
	if p == nil {
		return v, false
	}
	return *p, true
}

// find gives where a value is, which must not be changed, valid until the next write; nil if there is none.
func (s *shard[K, N, V]) find(at id[K, N]) *V {
	if len(s.upper) > 0 && !s.settled() {
		return s.lookUp(at)
	}
	return s.base.find(at)
}

// lookUp gives where a value is, which must not be changed; nil if there is none.
func (s *shard[K, N, V]) lookUp(at id[K, N]) *V {
	for i := len(s.upper) - 1; i >= 0; i-- {
		if c := s.upper[i].find(at); c != nil {
			if c.gone {
				return nil
			}
			return &c.v
		}
	}
	return s.base.find(at)
}

// place gives where the value is to be put, and what is there now; the zero value if nothing was found. It is
// valid until the next access. Snapshots keep what they have.
func (s *shard[K, N, V]) place(at id[K, N]) (v *V, found bool) {
	if len(s.upper) == 0 || s.settled() {
		return s.base.place(at)
	}
	old := s.lookUp(at)
	c, onTop := s.top().place(at)
	switch {
	case old == nil:
		s.n++
	case !onTop:
		c.v = *old
	}
	c.gone = false
	return &c.v, old != nil
}

// change gives where a value is that may be changed, as place does; nil if there is none.
func (s *shard[K, N, V]) change(at id[K, N]) *V {
	switch {
	case len(s.upper) == 0 || s.settled():
		return s.base.find(at)
	case s.lookUp(at) == nil:
		return nil
	}
	v, _ := s.place(at)
	return v
}

// expect makes room for so many values, if there is no more. It trusts the number only as far as there are values already.
func (s *shard[K, N, V]) expect(n int) {
	if len(s.upper) == 0 && s.base.room == 0 && s.base.n > 0 && n > s.base.n {
		s.base.rehash(min(n, 8*s.base.n))
	}
}

func (s *shard[K, N, V]) put(at id[K, N], v V) {
	p, _ := s.place(at)
	*p = v
}

func (s *shard[K, N, V]) delete(at id[K, N]) {
	if len(s.upper) > 0 && !s.settled() {
		if s.lookUp(at) != nil {
			s.n--
			c, _ := s.top().place(at)
			*c = cell[V]{gone: true}
		}
		return
	}
	if s.base.remove(at) && s.base.n == 0 && len(s.base.slots) > 1024 {
		s.base = hash[K, N, V]{}
	}
}

func (s *shard[K, N, V]) top() *hash[K, N, cell[V]] { return s.upper[len(s.upper)-1] }

// settled makes one table of all if no snapshot needs them, and says whether there is only one.
func (s *shard[K, N, V]) settled() bool {
	if s.pins.Load() > 0 {
		return false
	}
	if most := max(len(s.base.slots), s.n); s.n*shrink < most && most > 1024 {
		s.flatten()
		return true
	}
	for _, h := range s.upper {
		for at, c := range h.all() {
			if c.gone {
				s.base.remove(at)
				continue
			}
			v, _ := s.base.place(at)
			*v = c.v
		}
	}
	s.upper = nil
	return true
}

// fold copies the tables above the base into one.
func (s *shard[K, N, V]) fold() {
	one := new(hash[K, N, cell[V]])
	for _, h := range s.upper {
		for at, c := range h.all() {
			to, _ := one.place(at)
			*to = *c
		}
	}
	s.upper = []*hash[K, N, cell[V]]{one}
}

// flatten copies all tables into a new one, which has no more room than it needs.
func (s *shard[K, N, V]) flatten() {
	base := newHash[K, N, V](s.n)
	for at, v := range s.view().all() {
		to, _ := base.place(at)
		*to = v
	}
	s.base, s.upper = base, nil
}

// view is the shard as it is now, for as long as it is not written.
func (s *shard[K, N, V]) view() frozenShard[K, N, V] {
	return frozenShard[K, N, V]{base: s.base, upper: s.upper, n: s.len()}
}

// all yields the values as they are now. Values may be read meanwhile, and the one that was yielded last may be removed.
func (s *shard[K, N, V]) all() iter.Seq2[id[K, N], V] {
	return func(yield func(id[K, N], V) bool) {
		if len(s.upper) > 0 && !s.settled() {
			// The tables must not become one while they are walked through.
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
		s.fold()
	}
	n := s.len()
	if last := len(s.upper) - 1; last < 0 || s.upper[last].n > 0 {
		s.upper = append(s.upper, new(hash[K, N, cell[V]]))
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
	base  hash[K, N, V]
	upper []*hash[K, N, cell[V]]
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
	return func(yield func(id[K, N], V) bool) {
		// above says that a table above the first n ones has something to say of an id.
		above := func(at id[K, N], n int) bool {
			for _, h := range f.upper[n:] {
				if h.find(at) != nil {
					return true
				}
			}
			return false
		}
		for at, v := range f.base.all() {
			if !above(at, 0) && !yield(at, *v) {
				return
			}
		}
		for i, h := range f.upper {
			for at, c := range h.all() {
				if !c.gone && !above(at, i+1) && !yield(at, c.v) {
					return
				}
			}
		}
	}
}
