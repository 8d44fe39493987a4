package heap

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// sortedItem is an entry in the arena.
type sortedItem struct {
	prefix   uint64 // the first bytes of the key, for comparing
	at       int
	key, end int // where key and value end
}

// prefix is the first eight bytes as a number.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var first [8]byte
	copy(first[:], key)
	return binary.BigEndian.Uint64(first[:])
}

// fewItems is the number of items below which they are sorted by comparing them.
const fewItems = 256

// sorter sorts items by their keys. Its zero value is ready.
type sorter struct {
	spare []sortedItem
}

func (s *sorter) sort(arena []byte, items []sortedItem) {
	rest := func(a, b sortedItem) int { return bytes.Compare(arena[a.at:a.key], arena[b.at:b.key]) }
	if len(items) < fewItems {
		slices.SortFunc(items, func(a, b sortedItem) int {
			if c := cmp.Compare(a.prefix, b.prefix); c != 0 {
				return c
			}
			return rest(a, b)
		})
		return
	}
	s.byPrefix(items)
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].prefix == items[from].prefix {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(items[from:to], rest)
		}
		from = to
	}
}

// byPrefix sorts by one byte after the other, the last one first, and leaves out those that are the same in all.
func (s *sorter) byPrefix(items []sortedItem) {
	var differ uint64
	for _, i := range items {
		differ |= i.prefix ^ items[0].prefix
	}
	s.spare = slices.Grow(s.spare[:0], len(items))[:len(items)]
	from, to := items, s.spare
	for shift := 0; shift < bits.Len64(differ); shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var next [256]int // where the next item with this byte goes
		for i := range from {
			next[byte(from[i].prefix>>shift)]++
		}
		at := 0
		for b, n := range next {
			next[b], at = at, at+n
		}
		for i := range from {
			b := byte(from[i].prefix >> shift)
			to[next[b]] = from[i]
			next[b]++
		}
		from, to = to, from
	}
	copy(items, from)
}
