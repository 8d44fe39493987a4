package rewrite

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
)

// itemBytes is what an item takes besides its bytes.
const itemBytes = 40

// prefixLen is how many bytes stand in front of a key that is sorted: its key group and its state.
const prefixLen = 4

// item is an entry in the arena of a batch or a run: what it is sorted by, and its value.
type item struct {
	prefix       uint64 // the first bytes of the key
	at, key, end int    // the key is arena[at:key], the value arena[key:end]
}

// sorter sorts entries by key group, state and key. What doesn't fit into memory is written to a temporary file in
// sorted runs. Entries are added by one goroutine; after sort any number may read.
type sorter struct {
	limit int64 // bytes of memory
	dir   string
	arena []byte
	items []item
	file  *os.File
	size  int64 // of the file
	runs  []run
	// spilled is how many bytes were written to the file, all in all.
	spilled int64
}

// run is sorted entries in the file.
type run struct {
	start, end int64
	groups     []groupStart // in order
}

type groupStart struct {
	group int
	at    int64
}

func newSorter(limit int64, dir string) *sorter { return &sorter{limit: limit, dir: dir} }

// add takes an entry, which is copied.
func (s *sorter) add(group, state int, key, value []byte) error {
	if need := int64(len(s.arena)+prefixLen+len(key)+len(value)) + int64(len(s.items)+1)*itemBytes; need > s.limit && len(s.items) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	at := len(s.arena)
	s.arena = binary.BigEndian.AppendUint16(s.arena, uint16(group))
	s.arena = binary.BigEndian.AppendUint16(s.arena, uint16(state))
	s.arena = append(s.arena, key...)
	end := len(s.arena)
	s.arena = append(s.arena, value...)
	s.items = append(s.items, item{prefixOf(s.arena[at:end]), at, end, len(s.arena)})
	return nil
}

// prefixOf gives the first bytes of a key as a number of the same order.
func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// sort sorts what is in memory, the last thing before reading. Entries of the same key stay in the order in which they came.
func (s *sorter) sort() {
	slices.SortFunc(s.items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), bytes.Compare(s.arena[a.at:a.key], s.arena[b.at:b.key]), a.at-b.at)
	})
}

// spill writes what is in memory to the file.
func (s *sorter) spill() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "drey-sort-")
		if err != nil {
			return fmt.Errorf("temporary file for sorting: %w", err)
		}
		s.file = f
		_ = os.Remove(f.Name()) // nobody else is to see it; where an open file can't be removed, close does it
	}
	s.sort()
	r := run{start: s.size, end: s.size}
	w := bufio.NewWriterSize(&fileTail{s.file, s.size}, 1<<20)
	var head [2 * binary.MaxVarintLen64]byte
	last := -1
	for _, i := range s.items {
		key, value := s.arena[i.at:i.key], s.arena[i.key:i.end]
		if g := int(binary.BigEndian.Uint16(key)); g != last {
			last = g
			r.groups = append(r.groups, groupStart{g, r.end})
		}
		n := binary.PutUvarint(head[:], uint64(len(key)))
		n += binary.PutUvarint(head[n:], uint64(len(value)))
		for _, p := range [][]byte{head[:n], key, value} {
			_, _ = w.Write(p) // Flush gives the error
			r.end += int64(len(p))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("temporary file for sorting: %w", err)
	}
	s.spilled += r.end - r.start
	s.size = r.end
	s.runs = append(s.runs, r)
	s.arena, s.items = s.arena[:0], s.items[:0]
	return nil
}

type fileTail struct {
	file *os.File
	at   int64
}

func (t *fileTail) Write(p []byte) (int, error) {
	n, err := t.file.WriteAt(p, t.at)
	t.at += int64(n)
	return n, err
}

// reset forgets all entries, but keeps the memory.
func (s *sorter) reset() {
	s.arena, s.items, s.runs, s.size = s.arena[:0], s.items[:0], nil, 0
}

// close removes the temporary file.
func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
	*s = sorter{limit: s.limit, dir: s.dir}
}

// cursor reads the entries that one run has of a key group.
type cursor struct {
	key, value []byte
	order      int // among equal keys

	s     *sorter
	items []item // in memory; nil if the run is in the file
	in    *bufio.Reader
	buf   []byte
}

// next moves to the next entry, the first one to begin with; false at the end.
func (c *cursor) next() (bool, error) {
	if c.in == nil {
		if len(c.items) == 0 {
			return false, nil
		}
		i := c.items[0]
		c.items = c.items[1:]
		c.key, c.value = c.s.arena[i.at:i.key], c.s.arena[i.key:i.end]
		return true, nil
	}
	key, err := binary.ReadUvarint(c.in)
	if err == io.EOF {
		return false, nil
	}
	value, err2 := binary.ReadUvarint(c.in)
	if err = errors.Join(err, err2); err == nil {
		c.buf = slices.Grow(c.buf[:0], int(key+value))[:key+value]
		_, err = io.ReadFull(c.in, c.buf)
	}
	if err != nil {
		return false, fmt.Errorf("temporary file for sorting: %w", err)
	}
	c.key, c.value = c.buf[:key], c.buf[key:]
	return true, nil
}

// cursors gives what reads the entries of a key group. Buffer is how much is read at once of each run in the file, in bytes.
func (s *sorter) cursors(group, buffer int) []*cursor {
	var list []*cursor
	for _, r := range s.runs {
		i, ok := slices.BinarySearchFunc(r.groups, group, func(g groupStart, group int) int { return g.group - group })
		if !ok {
			continue
		}
		at, end := r.groups[i].at, r.end
		if i+1 < len(r.groups) {
			end = r.groups[i+1].at
		}
		list = append(list, &cursor{s: s, in: bufio.NewReaderSize(io.NewSectionReader(s.file, at, end-at), int(min(int64(buffer), end-at)))})
	}
	first := sort.Search(len(s.items), func(i int) bool { return int(s.items[i].prefix>>48) >= group })
	last := sort.Search(len(s.items), func(i int) bool { return int(s.items[i].prefix>>48) > group })
	if first < last {
		list = append(list, &cursor{s: s, items: s.items[first:last]})
	}
	return list
}

// cursors are a heap by the entry at which each is.
type cursors []*cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	return cmp.Or(bytes.Compare(h[i].key, h[j].key), h[i].order-h[j].order) < 0
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(c any)   { *h = append(*h, c.(*cursor)) }
func (h *cursors) Pop() any {
	c := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return c
}

// mergeBuffer is how much is read at once of a run, in bytes, if there are not too many of them for it.
const mergeBuffer = 256 << 10

// merge hands the entries that sorters have of a key group to take, in order. The slices are valid until it returns.
func merge(sorters []*sorter, group int, memory int64, take func(state int, key, value []byte) error) error {
	runs := 1
	for _, s := range sorters {
		runs += len(s.runs)
	}
	buffer := int(max(4<<10, min(mergeBuffer, memory/int64(runs))))
	var h cursors
	for _, s := range sorters {
		h = append(h, s.cursors(group, buffer)...)
	}
	open := h[:0]
	for i, c := range h {
		c.order = i
		more, err := c.next()
		if err != nil {
			return err
		}
		if more {
			open = append(open, c)
		}
	}
	h = open
	heap.Init(&h)
	for len(h) > 0 {
		c := h[0]
		if err := take(int(binary.BigEndian.Uint16(c.key[2:])), c.key[prefixLen:], c.value); err != nil {
			return err
		}
		switch more, err := c.next(); {
		case err != nil:
			return err
		case more:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return nil
}
