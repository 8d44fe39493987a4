package heap

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Items are sorted by their whole keys, few and many of them, whatever their first bytes have in common.
func TestSort(t *testing.T) {
	var s sorter
	rapid.Check(t, func(t *rapid.T) {
		lead := rapid.SampledFrom([]string{"", "\x00\x00", "abcdefg", "abcdefgh", "\xff\xff\xff\xff\xff\xff\xff\xff\xff"}).Draw(t, "lead")
		n := rapid.SampledFrom([]int{0, 1, 10, fewItems - 1, fewItems, 3 * fewItems}).Draw(t, "items")
		key := rapid.SliceOfN(rapid.Byte(), 0, 10)
		var arena []byte
		var items []sortedItem
		var want [][]byte
		for range n {
			k := append([]byte(lead), key.Draw(t, "key")...)
			at := len(arena)
			arena = append(arena, k...)
			items = append(items, sortedItem{prefix(k), at, len(arena), len(arena)})
			want = append(want, k)
		}
		s.sort(arena, items)
		slices.SortFunc(want, bytes.Compare)
		for i, item := range items {
			if !bytes.Equal(arena[item.at:item.key], want[i]) {
				t.Fatalf("item %d: %x; want %x", i, arena[item.at:item.key], want[i])
			}
		}
	})
}
