package rocksdb

import (
	"bytes"
	"container/heap"
)

// tombstone deletes what is older than its sequence in an interval of internal keys.
type tombstone struct {
	lo, hi   ikey // hi is not in it
	sequence uint64
}

// decodeTombstones reads a block of range deletions. They count only within
// the boundaries of the file: an entry of a lower level may be newer than its
// sequence says, as compaction makes it zero where nothing older is left.
func (t *table) decodeTombstones(b block) ([]tombstone, error) {
	small, large := t.meta.smallest, t.meta.largest
	floor := ikey{small.user, small.trailer | 0xff}
	var roof ikey
	switch {
	case large.trailer == maxSequence<<8|typeRangeDeletion:
		roof = ikey{large.user, maxTrailer} // itself the end of a range deletion
	case large.sequence() == 0:
		roof = ikey{large.user, 0}
	default:
		roof = ikey{large.user, (large.sequence()-1)<<8 | 0xff}
	}
	var list []tombstone
	var it blockIter
	it.reset(b)
	for {
		ok, err := it.next()
		if err != nil || !ok {
			return list, err
		}
		k, err := t.entry(it.key)
		if err != nil {
			return nil, err
		}
		if kind := byte(k.trailer); kind != typeRangeDeletion {
			return nil, corrupt("entry of type %#x among range deletions", kind)
		}
		d := tombstone{
			lo:       ikey{bytes.Clone(k.user), maxTrailer},
			hi:       ikey{it.value, maxTrailer},
			sequence: k.sequence(),
		}
		if d.lo.compare(floor) < 0 {
			d.lo = floor
		}
		if d.hi.compare(roof) > 0 {
			d.hi = roof
		}
		if d.lo.compare(d.hi) < 0 {
			list = append(list, d)
		}
	}
}

// byStart is a heap of tombstones that begin later, the nearest on top.
type byStart []tombstone

func (h byStart) Len() int           { return len(h) }
func (h byStart) Less(i, j int) bool { return h[i].lo.compare(h[j].lo) < 0 }
func (h byStart) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byStart) Push(x any)        { *h = append(*h, x.(tombstone)) }
func (h *byStart) Pop() any          { return pop((*[]tombstone)(h)) }

// bySequence is a heap of tombstones that have begun, the newest on top.
type bySequence []tombstone

func (h bySequence) Len() int           { return len(h) }
func (h bySequence) Less(i, j int) bool { return h[i].sequence > h[j].sequence }
func (h bySequence) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bySequence) Push(x any)        { *h = append(*h, x.(tombstone)) }
func (h *bySequence) Pop() any          { return pop((*[]tombstone)(h)) }

func pop(list *[]tombstone) tombstone {
	n := len(*list) - 1
	d := (*list)[n]
	(*list)[n] = tombstone{}
	*list = (*list)[:n]
	return d
}

// tombstones are those of all tables that a scan has reached.
type tombstones struct {
	later  byStart
	active bySequence
}

func (t *tombstones) add(d tombstone) { heap.Push(&t.later, d) }

// cover says whether a tombstone deletes an entry. Entries must come in order.
func (t *tombstones) cover(k ikey) bool {
	for len(t.later) > 0 && t.later[0].lo.compare(k) <= 0 {
		heap.Push(&t.active, heap.Pop(&t.later))
	}
	for len(t.active) > 0 && t.active[0].hi.compare(k) <= 0 {
		heap.Pop(&t.active)
	}
	return len(t.active) > 0 && t.active[0].sequence > k.sequence()
}
