package pebble

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// sortItem is an entry of a buffer with the bytes of its key that follow the key group, for comparing.
type sortItem struct {
	first  uint64
	second uint32
	place  uint32
}

// sortedBytes is how many bytes of a key come before those that a sortItem doesn't have.
const sortedBytes = 2 + 8 + 4

func newSortItem(key []byte, place uint32) sortItem {
	if len(key) < sortedBytes {
		var all [sortedBytes]byte
		copy(all[:], key)
		key = all[:]
	}
	return sortItem{binary.BigEndian.Uint64(key[2:]), binary.BigEndian.Uint32(key[10:]), place}
}

// lacking gives the entries that the database lacks, in order of keys, and the bytes of their keys and values. It
// distributes them to their key groups, and sorts each of these by itself, so that it works in the processor's caches.
func (b *buffer) lacking() ([]sortItem, int) {
	if len(b.dirty) < fewItems {
		return b.fewLacking()
	}
	size, n := 0, 0
	lowest, highest := math.MaxUint16, 0 // key groups, which may be a few high ones
	for _, place := range b.dirty {
		group := groupOf(b.at(place).key())
		lowest, highest = min(lowest, group), max(highest, group)
	}
	next := make([]int, highest-lowest+1) // by key group: where its next item goes
	for _, place := range b.dirty {
		e := b.at(place)
		if !e.dirty() {
			continue // it has moved or was forgotten
		}
		next[groupOf(e.key())-lowest]++
		size += len(e.key()) + len(e.value())
		n++
	}
	at := 0
	for group, n := range next {
		next[group], at = at, at+n
	}
	items := make([]sortItem, n)
	for _, place := range b.dirty {
		if e := b.at(place); e.dirty() {
			group := groupOf(e.key()) - lowest
			items[next[group]] = newSortItem(e.key(), place)
			next[group]++
		}
	}
	from := 0
	var spare []sortItem
	for _, end := range next {
		spare = b.sort(items[from:end], spare)
		from = end
	}
	return unique(items), size
}

func groupOf(key []byte) int { return int(binary.BigEndian.Uint16(key)) }

// fewLacking is lacking for a few entries, whose key groups are not worth a table.
func (b *buffer) fewLacking() (items []sortItem, size int) {
	for _, place := range b.dirty {
		if e := b.at(place); e.dirty() {
			items = append(items, sortItem{place: place})
			size += len(e.key()) + len(e.value())
		}
	}
	slices.SortFunc(items, b.compare)
	return unique(items), size
}

// unique leaves out items that are there again, as of an entry that was forgotten and written again.
func unique(items []sortItem) []sortItem {
	return slices.CompactFunc(items, func(x, y sortItem) bool { return x.place == y.place })
}

// compare compares whole keys.
func (b *buffer) compare(x, y sortItem) int {
	return bytes.Compare(b.at(x.place).key(), b.at(y.place).key())
}

// fewItems is the number of items below which they are sorted by comparing them.
const fewItems = 64

// sort sorts items of a key group. It gives the memory that it used beside them.
func (b *buffer) sort(items, spare []sortItem) []sortItem {
	if len(items) < fewItems {
		slices.SortFunc(items, func(x, y sortItem) int {
			if c := cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.second, y.second)); c != 0 {
				return c
			}
			return b.compare(x, y)
		})
		return spare
	}
	spare = slices.Grow(spare[:0], len(items))[:len(items)]
	var first uint64 // bits that differ
	var second uint32
	for i := range items {
		first |= items[i].first ^ items[0].first
		second |= items[i].second ^ items[0].second
	}
	from, to := items, spare
	// By one byte after the other, the last one first, without those that are the same in all.
	for shift := 0; shift < bits.Len32(second); shift += 8 {
		if second>>shift&0xff != 0 {
			distribute(from, to, func(i *sortItem) byte { return byte(i.second >> shift) })
			from, to = to, from
		}
	}
	for shift := 0; shift < bits.Len64(first); shift += 8 {
		if first>>shift&0xff != 0 {
			distribute(from, to, func(i *sortItem) byte { return byte(i.first >> shift) })
			from, to = to, from
		}
	}
	copy(items, from)
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].first == items[from].first && items[to].second == items[from].second {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(items[from:to], b.compare)
		}
		from = to
	}
	return spare
}

// distribute sorts by one byte.
func distribute(from, to []sortItem, of func(*sortItem) byte) {
	var next [256]int // where the next item with this byte goes
	for i := range from {
		next[of(&from[i])]++
	}
	at := 0
	for b, n := range next {
		next[b], at = at, at+n
	}
	for i := range from {
		b := of(&from[i])
		to[next[b]] = from[i]
		next[b]++
	}
}
