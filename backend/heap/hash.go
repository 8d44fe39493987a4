package heap

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// hash is a hash table with open addressing. Ids and values lie beside each other, and the bits of
// hashes that say where to look in an array of bytes that stays in the processor's caches, so that to
// find a value costs one access to memory. Unlike with a map of Go, values can be changed where they are.
type hash[K, N comparable, V any] struct {
	// seed is of each table its own: if two had the same, what comes out of one in
	// its order would heap up in the other.
	seed  seed
	tags  []uint8 // of the slots, a power of two of them
	slots []entry[K, N, V]
	n     int // number of values
	room  int // number of empty slots that may be filled before the table is made anew
}

// entry has the value first, as a struct that ends in nothing is longer.
type entry[K, N comparable, V any] struct {
	v  V
	at id[K, N]
}

// Tags of slots: that it is empty, that it was emptied while others behind it were not, and, with
// the highest bit set, seven bits of the hash.
const (
	tagEmpty = 0
	tagGone  = 1
	tagFull  = 0x80
)

const leastSlots = 8

// roomOf is how many slots of a table may be filled: three quarters.
func roomOf(slots int) int { return slots - slots/4 }

// slotsFor is how many slots a table of n values has.
func slotsFor(n int) int {
	slots := leastSlots
	for roomOf(slots) < n {
		slots *= 2
	}
	return slots
}

func newHash[K, N comparable, V any](n int) hash[K, N, V] {
	slots := slotsFor(n)
	return hash[K, N, V]{
		seed: newSeed(), tags: make([]uint8, slots), slots: make([]entry[K, N, V], slots), room: roomOf(slots),
	}
}

// find gives where a value is, nil if it is not there; valid until the table is written.
func (h *hash[K, N, V]) find(at id[K, N]) *V {
	if h.n == 0 {
		return nil
	}
	sum := sumAt(&h.seed, at)
	tag, mask := uint8(sum>>57)|tagFull, uint64(len(h.tags)-1)
	for i := sum & mask; ; i = (i + 1) & mask {
		switch h.tags[i] {
		case tag:
			if e := &h.slots[i]; e.at == at {
				return &e.v
			}
		case tagEmpty:
			return nil
		}
	}
}

// place gives where a value is or is to be put, in the latter case the zero value; valid until the table is written.
func (h *hash[K, N, V]) place(at id[K, N]) (v *V, found bool) {
	if h.tags == nil {
		*h = newHash[K, N, V](0)
	}
	sum := sumAt(&h.seed, at)
	tag, mask, gone := uint8(sum>>57)|tagFull, uint64(len(h.tags)-1), -1
	i := sum & mask
probe:
	for ; ; i = (i + 1) & mask {
		switch h.tags[i] {
		case tag:
			if e := &h.slots[i]; e.at == at {
				return &e.v, true
			}
		case tagGone:
			if gone < 0 {
				gone = int(i)
			}
		case tagEmpty:
			break probe
		}
	}
	switch {
	case gone >= 0:
		i = uint64(gone)
	case h.room == 0:
		// Twice as large unless most of the slots are only emptied ones: else it would be made anew again soon.
		h.rehash(h.n + h.n/2)
		return h.place(at)
	default:
		h.room--
	}
	h.n++
	h.tags[i], h.slots[i].at = tag, at
	return &h.slots[i].v, false
}

// rehash makes the table anew, for so many values, at least those that there are.
func (h *hash[K, N, V]) rehash(values int) {
	to := newHash[K, N, V](values)
	to.seed = h.seed // the slots of each part of the old table are spread over the new one
	mask := uint64(len(to.tags) - 1)
	for i, tag := range h.tags {
		if tag < tagFull {
			continue
		}
		j := sumAt(&to.seed, h.slots[i].at) & mask
		for to.tags[j] != tagEmpty {
			j = (j + 1) & mask
		}
		to.tags[j], to.slots[j] = tag, h.slots[i]
	}
	to.n, to.room = h.n, to.room-h.n
	*h = to
}

// remove removes a value, and says whether it was there.
func (h *hash[K, N, V]) remove(at id[K, N]) bool {
	if h.n == 0 {
		return false
	}
	sum := sumAt(&h.seed, at)
	tag, mask := uint8(sum>>57)|tagFull, uint64(len(h.tags)-1)
	i := sum & mask
	for ; h.tags[i] != tag || h.slots[i].at != at; i = (i + 1) & mask {
		if h.tags[i] == tagEmpty {
			return false
		}
	}
	h.slots[i] = entry[K, N, V]{}
	h.tags[i] = tagGone
	h.n--
	if h.tags[(i+1)&mask] == tagEmpty {
		for ; h.tags[i] == tagGone; i = (i - 1) & mask {
			h.tags[i] = tagEmpty
			h.room++
		}
	}
	return true
}

// all yields ids and values. A value that was yielded may be removed meanwhile.
func (h *hash[K, N, V]) all() iter.Seq2[id[K, N], *V] {
	tags, slots := h.tags, h.slots
	return func(yield func(id[K, N], *V) bool) {
		for i := range tags {
			if tags[i] >= tagFull && !yield(slots[i].at, &slots[i].v) {
				return
			}
		}
	}
}

// seed makes what hashes it is used for differ from all others.
type seed struct {
	of           maphash.Seed
	flip, factor uint64
}

func newSeed() seed {
	of := maphash.MakeSeed()
	return seed{of, maphash.Comparable(of, 0), maphash.Comparable(of, 1) | 1}
}

// sumOf hashes a value. For numbers it takes a few instructions, so that the processor gets further ahead while it waits for memory.
func sumOf[T comparable](s *seed, v T) uint64 {
	if p, ok := any(&v).(*int64); ok {
		return s.number(uint64(*p))
	}
	return sumOther(s, v)
}

func sumOther[T comparable](s *seed, v T) uint64 {
	switch p := any(&v).(type) {
	case *int32:
		return s.number(uint64(*p))
	case *string:
		return maphash.String(s.of, *p)
	}
	return maphash.Comparable(s.of, v)
}

func (s *seed) number(n uint64) uint64 {
	high, low := bits.Mul64(n^s.flip, s.factor)
	n = (high ^ low) * s.factor // alone, the first one leaves multiples of large powers of two close to each other
	return n ^ n>>32
}

// sumAt hashes an id.
func sumAt[K, N comparable](s *seed, at id[K, N]) uint64 {
	if _, ok := any(&at.namespace).(*struct{}); ok {
		return sumOf(s, at.key)
	}
	return maphash.Comparable(s.of, at)
}
