package tools

import (
	"cmp"
	"slices"
)

// sortedBy gives a sorted copy of a list; equal elements keep their order.
func sortedBy[T any, K cmp.Ordered](list []T, key func(T) K) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return list
}
