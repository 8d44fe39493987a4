package localrecovery

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/keygroup"
)

func subtasks(parallelism int) []Subtask {
	var list []Subtask
	for i := range parallelism {
		list = append(list, Subtask{i, keygroup.RangeOf(i, 128, parallelism)})
	}
	return list
}

func TestAssign(t *testing.T) {
	two, three := subtasks(2), subtasks(3)
	held := func(list []Subtask, slots ...string) []Held {
		var hs []Held
		for i, s := range slots {
			if s != "" {
				hs = append(hs, Held{s, list[i]})
			}
		}
		return hs
	}
	for name, tc := range map[string]struct {
		slots    []string
		held     []Held
		subtasks []Subtask
		want     []int
	}{
		"nothing":             {nil, nil, two, []int{-1, -1}},
		"nothing held":        {[]string{"a", "b", "c"}, nil, two, []int{0, 1}},
		"all stay":            {[]string{"c", "b", "a"}, held(three, "a", "b", "c"), three, []int{2, 1, 0}},
		"one slot is lost":    {[]string{"new", "a", "c"}, held(three, "a", "b", "c"), three, []int{1, 0, 2}},
		"no slot is left":     {[]string{"c", "a"}, held(three, "a", "b", "c"), three, []int{1, -1, 0}},
		"a chain of copies":   {[]string{"a", "b"}, []Held{{"a", two[0]}, {"a", two[1]}, {"b", two[0]}}, two, []int{1, 0}},
		"unknown slots":       {[]string{"x", "y"}, held(two, "a", "b"), two, []int{0, 1}},
		"2 to 3":              {[]string{"n", "a", "b"}, held(two, "a", "b"), three, []int{1, 0, 2}}, // 43, 22 and 21, 42 groups in common
		"3 to 2":              {[]string{"a", "b", "c"}, held(three, "a", "b", "c"), two, []int{0, 2}},
		"3 to 2, slots moved": {[]string{"c", "b", "a"}, held(three, "b", "c", "a"), two, []int{1, 2}},
		"without keyed state": {[]string{"a", "b"}, []Held{{"b", Subtask{0, keygroup.Range{Start: 0, End: -1}}}}, []Subtask{{0, keygroup.Range{Start: 0, End: -1}}}, []int{1}},
		"the sum of two copies counts": {
			[]string{"a", "b"}, []Held{{"a", Subtask{0, keygroup.Range{Start: 0, End: 9}}}, {"b", Subtask{1, keygroup.Range{Start: 0, End: 7}}}, {"b", Subtask{2, keygroup.Range{Start: 6, End: 12}}}},
			[]Subtask{{0, keygroup.Range{Start: 0, End: 12}}}, []int{1},
		},
	} {
		if got := Assign(tc.slots, tc.held, tc.subtasks); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// mostPreserved tries all assignments of subtasks from t on and gives the largest number that get a slot with just their state.
func mostPreserved(t int, list []Subtask, slots []string, has map[Held]bool, taken []bool) int {
	if t == len(list) {
		return 0
	}
	best := mostPreserved(t+1, list, slots, has, taken)
	for i, s := range slots {
		if !taken[i] && has[Held{s, list[t]}] {
			taken[i] = true
			best = max(best, 1+mostPreserved(t+1, list, slots, has, taken))
			taken[i] = false
		}
	}
	return best
}

func TestAssignProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := rapid.IntRange(1, 6).Draw(t, "old"), rapid.IntRange(1, 6).Draw(t, "new")
		if rapid.Bool().Draw(t, "same") {
			now = old
		}
		var slots []string
		for i := range rapid.IntRange(0, 7).Draw(t, "slots") {
			slots = append(slots, fmt.Sprint("slot", i))
		}
		var held []Held
		has := map[Held]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "copies") {
			h := Held{fmt.Sprint("slot", rapid.IntRange(0, 8).Draw(t, "slot")), subtasks(old)[rapid.IntRange(0, old-1).Draw(t, "of")]}
			held = append(held, h)
			has[h] = true
		}
		list := subtasks(now)
		got := Assign(slots, held, list)

		of := make([]int, len(slots)) // subtask of each slot
		for i := range of {
			of[i] = -1
		}
		placed, preserved := 0, 0
		for s, i := range got {
			if i < 0 {
				continue
			}
			if of[i] >= 0 {
				t.Fatalf("slot %d is given to subtasks %d and %d", i, of[i], s)
			}
			of[i] = s
			placed++
			if has[Held{slots[i], list[s]}] {
				preserved++
			}
		}
		if placed != min(len(slots), len(list)) {
			t.Fatalf("%d of %d subtasks are placed in %d slots", placed, len(list), len(slots))
		}
		if want := mostPreserved(0, list, slots, has, make([]bool, len(slots))); preserved != want {
			t.Fatalf("%d subtasks stay where they were, %d could", preserved, want)
		}
		// No subtask and slot would both do better with each other, own slots aside.
		overlap := func(s, i int) int {
			n := 0
			for g := range 128 {
				for _, h := range held {
					if i >= 0 && h.Slot == slots[i] && g >= list[s].KeyGroups.Start && g <= list[s].KeyGroups.End && g >= h.Subtask.KeyGroups.Start && g <= h.Subtask.KeyGroups.End {
						n++
						break
					}
				}
			}
			return n
		}
		own := func(s, i int) bool { return s >= 0 && i >= 0 && has[Held{slots[i], list[s]}] }
		for s := range list {
			for i := range slots {
				if own(s, got[s]) || own(of[i], i) || got[s] == i {
					continue
				}
				theirs := -1
				if of[i] >= 0 {
					theirs = overlap(of[i], i)
				}
				if n := overlap(s, i); n > overlap(s, got[s]) && n > theirs {
					t.Fatalf("subtask %d has %d groups in slot %d and was given %d; subtask %d there has %d", s, n, i, got[s], of[i], theirs)
				}
			}
		}
		slices.Reverse(held)
		if again := Assign(slots, held, list); !slices.Equal(got, again) {
			t.Fatalf("%v, and %v with the copies in another order", got, again)
		}
	})
}
