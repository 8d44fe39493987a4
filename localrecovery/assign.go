package localrecovery

import (
	"cmp"
	"slices"

	"github.com/drey-state/drey/keygroup"
)

// Subtask is a subtask that is to be placed in a slot, or was in one.
type Subtask struct {
	Index int
	// KeyGroups are those of its keyed state; an empty range if it has none.
	KeyGroups keygroup.Range
}

// Held says that the local copy of a subtask's state is in a slot. A slot may have several.
type Held struct {
	Slot    string
	Subtask Subtask
}

// Assign gives each subtask that is to be restored one of the free slots, so that as much state as possible is where it is needed: the
// slot's place in slots for each of the subtasks, or -1 for those that are left when there are no slots left (StateLocalitySlotAssigner, and the
// previous allocations of the default scheduler). In this order:
//
//   - as many subtasks as possible get a slot that has just their state: of the same index and key groups;
//   - of the others that pair comes first that has most key groups in common, as after a change of the
//     parallelism, so that no subtask takes a slot in which another one would find more;
//   - the rest gets what is left, in order.
//
// The result depends on nothing but the arguments, and not on the order of held.
func Assign(slots []string, held []Held, subtasks []Subtask) []int {
	a := assignment{ofSubtask: make([]int, len(subtasks)), ofSlot: make([]int, len(slots))}
	for i := range a.ofSubtask {
		a.ofSubtask[i] = -1
	}
	for i := range a.ofSlot {
		a.ofSlot[i] = -1
	}
	places := map[string]int{}
	for i, s := range slots {
		places[s] = i
	}
	bySlot := make([][]Subtask, len(slots))
	for _, h := range held {
		if i, ok := places[h.Slot]; ok {
			bySlot[i] = append(bySlot[i], h.Subtask)
		}
	}

	a.own = make([][]int, len(subtasks))
	for t, s := range subtasks {
		for i, list := range bySlot {
			if slices.Contains(list, s) {
				a.own[t] = append(a.own[t], i)
			}
		}
	}
	for t := range subtasks {
		a.augment(t, make([]bool, len(slots)))
	}

	type pair struct{ common, subtask, slot int }
	var pairs []pair
	for t, s := range subtasks {
		if a.ofSubtask[t] >= 0 {
			continue
		}
		for i, list := range bySlot {
			if n := common(s.KeyGroups, list); n > 0 && a.ofSlot[i] < 0 {
				pairs = append(pairs, pair{n, t, i})
			}
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int {
		return cmp.Or(y.common-x.common, x.subtask-y.subtask, x.slot-y.slot)
	})
	for _, p := range pairs {
		if a.ofSubtask[p.subtask] < 0 && a.ofSlot[p.slot] < 0 {
			a.put(p.subtask, p.slot)
		}
	}

	next := 0
	for t := range subtasks {
		for next < len(slots) && a.ofSlot[next] >= 0 {
			next++
		}
		if a.ofSubtask[t] < 0 && next < len(slots) {
			a.put(t, next)
		}
	}
	return a.ofSubtask
}

// common is how many of the key groups of r are in the state of at least one of the subtasks.
func common(r keygroup.Range, held []Subtask) int {
	var parts []keygroup.Range
	for _, h := range held {
		if part := r.Intersect(h.KeyGroups); !part.Empty() {
			parts = append(parts, part)
		}
	}
	slices.SortFunc(parts, func(a, b keygroup.Range) int { return a.Start - b.Start })
	n, next := 0, r.Start
	for _, p := range parts {
		p.Start = max(p.Start, next)
		n += p.Len()
		next = max(next, p.End+1)
	}
	return n
}

type assignment struct {
	ofSubtask, ofSlot []int
	own               [][]int // the slots that have just a subtask's state
}

func (a *assignment) put(subtask, slot int) { a.ofSubtask[subtask], a.ofSlot[slot] = slot, subtask }

// augment finds a slot of its own for a subtask, moving others to other ones of theirs if need be, so that
// in the end there are as many pairs as can be. No slot is looked at twice.
func (a *assignment) augment(subtask int, seen []bool) bool {
	for _, slot := range a.own[subtask] {
		if seen[slot] {
			continue
		}
		seen[slot] = true
		if a.ofSlot[slot] < 0 || a.augment(a.ofSlot[slot], seen) {
			a.put(subtask, slot)
			return true
		}
	}
	return false
}
