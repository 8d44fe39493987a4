package rewrite

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/drey-state/drey/keygroup"
)

// sorter sorts entries by key group, state and key. It keeps them by key groups, each of which is brought into order when it is merged, or
// written to a temporary file if it doesn't fit into memory. Entries are added by one goroutine; then any number may merge key groups, each a different one.
type sorter struct {
	limit   int64 // bytes of memory
	dir     string
	readers int // how many key groups are merged at once

	first   int // key group
	buckets []bucket
	chunk   int      // bytes of a chunk
	free    [][]byte // chunks
	used    int64    // bytes of the chunks in the buckets
	most    int      // entries of the largest bucket
	order   order    // for spilling

	file *os.File
	size int64 // of the file
	runs []run
	// spilled is how many bytes were written to the file, all in all.
	spilled int64
}

// bucket is the entries of a key group, as records in chunks: the lengths of key and value, key, value. In front of the key is its state.
type bucket struct {
	chunks  [][]byte
	entries int
}

// run is sorted entries in the file.
type run struct {
	end    int64
	groups []groupStart // in order
}

type groupStart struct {
	group int
	at    int64
}

const (
	// A chunk has a sixteenth of a key group's share of the memory, within these bounds in bytes.
	leastChunk, mostChunk = 512, 64 << 10
	stateLen              = 2
	maxHead               = 2 * binary.MaxVarintLen64
)

func newSorter(limit int64, dir string, readers int) *sorter {
	return &sorter{limit: limit, dir: dir, readers: readers}
}

// reset forgets all entries, and begins with those of some key groups. It keeps memory and file.
func (s *sorter) reset(groups keygroup.Range) {
	s.release()
	chunk := int(max(leastChunk, min(mostChunk, s.limit/16/int64(groups.Len()))))
	if chunk != s.chunk {
		s.chunk, s.free = chunk, nil
	}
	s.first = groups.Start
	s.buckets = slices.Grow(s.buckets[:0], groups.Len())[:groups.Len()]
	s.runs, s.size = nil, 0
}

// release empties the buckets.
func (s *sorter) release() {
	for i := range s.buckets {
		b := &s.buckets[i]
		for _, c := range b.chunks {
			if cap(c) == s.chunk {
				s.free = append(s.free, c[:0])
			}
		}
		clear(b.chunks)
		b.chunks, b.entries = b.chunks[:0], 0
	}
	s.used, s.most = 0, 0
}

// add takes an entry, which is copied.
func (s *sorter) add(group, state int, key, value []byte) error {
	b := &s.buckets[group-s.first]
	n := maxHead + stateLen + len(key) + len(value)
	last := len(b.chunks) - 1
	if last < 0 || cap(b.chunks[last])-len(b.chunks[last]) < n {
		if err := s.grow(b, n); err != nil {
			return err
		}
		last = len(b.chunks) - 1
	}
	c := b.chunks[last]
	c = binary.AppendUvarint(c, uint64(stateLen+len(key)))
	c = binary.AppendUvarint(c, uint64(len(value)))
	c = binary.BigEndian.AppendUint16(c, uint16(state))
	c = append(c, key...)
	b.chunks[last] = append(c, value...)
	b.entries++
	s.most = max(s.most, b.entries)
	return nil
}

// grow gives a bucket a chunk for so many bytes, for which everything is spilled if it has no room.
func (s *sorter) grow(b *bucket, n int) error {
	size := max(n, s.chunk)
	order := func() int64 { return int64(s.most+1) * orderBytes * int64(s.readers) }
	if s.most > 0 && s.used+int64(size)+order() > s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.used += int64(size)
	var c []byte
	if last := len(s.free) - 1; size == s.chunk && last >= 0 {
		c, s.free = s.free[last], s.free[:last]
	}
	for len(s.free) > 0 && s.used+int64(len(s.free)*s.chunk)+order() > s.limit {
		last := len(s.free) - 1
		s.free[last] = nil
		s.free = s.free[:last]
	}
	if c == nil {
		c = make([]byte, 0, size)
	}
	b.chunks = append(b.chunks, c)
	return nil
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
	r := run{end: s.size}
	buf := make([]byte, 0, spillBuffer)
	write := func() error {
		if _, err := s.file.WriteAt(buf, r.end-int64(len(buf))); err != nil {
			return fmt.Errorf("temporary file for sorting: %w", err)
		}
		buf = buf[:0]
		return nil
	}
	for i := range s.buckets {
		b := &s.buckets[i]
		if b.entries == 0 {
			continue
		}
		r.groups = append(r.groups, groupStart{s.first + i, r.end})
		for _, item := range s.order.of(b) {
			record := b.record(item.at)
			if len(buf) > 0 && len(buf)+len(record) > cap(buf) {
				if err := write(); err != nil {
					return err
				}
			}
			buf = append(buf, record...)
			r.end += int64(len(record))
		}
	}
	if err := write(); err != nil {
		return err
	}
	s.spilled += r.end - s.size
	s.size = r.end
	s.runs = append(s.runs, r)
	s.release()
	return nil
}

const spillBuffer = 256 << 10

// close removes the temporary file and gives up the memory.
func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
	*s = sorter{limit: s.limit, dir: s.dir, readers: s.readers}
}

// parse takes the first of the records apart. It gives a record of no bytes if one is not whole.
func parse(b []byte) (key, value, record []byte) {
	k, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, nil, nil
	}
	v, m := binary.Uvarint(b[n:])
	if m <= 0 || k > uint64(len(b)) || v > uint64(len(b)) || n+m+int(k)+int(v) > len(b) {
		return nil, nil, nil
	}
	at := n + m + int(k)
	return b[n+m : at : at], b[at : at+int(v) : at+int(v)], b[:at+int(v)]
}

func (b *bucket) record(at uint64) []byte {
	_, _, record := parse(b.chunks[at>>32][uint32(at):])
	return record
}

func (b *bucket) key(at uint64) []byte {
	key, _, _ := parse(b.chunks[at>>32][uint32(at):])
	return key
}

// item is an entry of a bucket.
type item struct {
	prefix uint64 // bytes of the key
	at     uint64 // the number of the chunk and where in it the record begins, in 32 bits each
}

// order brings entries into order, in memory that is used again. Its zero value is ready.
type order struct{ items, spare []item }

// orderBytes is what an entry takes in it: two items, and a quarter more so that memory fits the next bucket, too.
const orderBytes = 2*16 + 2*16/4

// fewItems is the number of entries below which they are sorted by comparing them.
const fewItems = 64

// of gives the entries of a bucket by state and key. Those of the same key stay in the order in which they came.
func (o *order) of(b *bucket) []item {
	if cap(o.items) < b.entries {
		o.items, o.spare = make([]item, b.entries+b.entries/4), make([]item, b.entries+b.entries/4)
	}
	items := o.items[:0]
	for i, c := range b.chunks {
		for at := 0; at < len(c); {
			_, _, record := parse(c[at:])
			items = append(items, item{at: uint64(i)<<32 | uint64(at)})
			at += len(record)
		}
	}
	o.sort(b, items, 0)
	return items
}

// sort sorts entries whose keys are the same up to a place.
func (o *order) sort(b *bucket, items []item, same int) {
	if len(items) < 2 {
		return
	}
	first := b.key(items[0].at)
	common := len(first)
	for _, i := range items[1:] {
		key := b.key(i.at)
		if len(key) >= common && bytes.Equal(key[same:common], first[same:common]) {
			continue
		}
		for common = same; common < min(len(key), len(first)) && key[common] == first[common]; {
			common++
		}
	}
	sorted, whole := true, true
	for i := range items {
		key := b.key(items[i].at)[common:]
		items[i].prefix = prefixOf(key)
		whole = whole && len(key) > 8
		sorted = sorted && (i == 0 || items[i-1].prefix < items[i].prefix)
	}
	switch {
	case sorted:
		return
	case len(items) < fewItems:
		o.compare(b, items, common)
		return
	}
	o.radix(items)
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].prefix == items[from].prefix {
			to++
		}
		switch {
		case to-from == 1:
		case whole:
			o.sort(b, items[from:to], common+8)
		default:
			o.compare(b, items[from:to], common)
		}
		from = to
	}
}

// compare sorts entries whose prefixes are what follows a place of their keys.
func (o *order) compare(b *bucket, items []item, common int) {
	slices.SortFunc(items, func(x, y item) int {
		if x.prefix != y.prefix {
			return cmp.Compare(x.prefix, y.prefix)
		}
		return cmp.Or(bytes.Compare(b.key(x.at)[common:], b.key(y.at)[common:]), cmp.Compare(x.at, y.at))
	})
}

// radix sorts by one byte of the prefixes after the other, the last one first, and leaves out those that are the same in all.
func (o *order) radix(items []item) {
	var differ uint64
	for _, i := range items {
		differ |= i.prefix ^ items[0].prefix
	}
	from, to := items, o.spare[:len(items)]
	for shift := 0; shift < 64; shift += 8 {
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
	if &from[0] != &items[0] {
		copy(items, from)
	}
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

// cursor reads the entries that one run has of a key group.
type cursor struct {
	key, value []byte
	rank       int // among equal keys

	// In memory.
	bucket *bucket
	items  []item
	order  order
	// In the file, if there is no bucket: what is read of it, and what is not yet.
	buf     []byte
	from    int // in buf
	file    io.ReaderAt
	at, end int64
}

// next moves to the next entry, the first one to begin with; false at the end.
func (c *cursor) next() (bool, error) {
	if c.bucket != nil {
		if len(c.items) == 0 {
			return false, nil
		}
		at := c.items[0].at
		c.items = c.items[1:]
		c.key, c.value, _ = parse(c.bucket.chunks[at>>32][uint32(at):])
		return true, nil
	}
	for {
		var record []byte
		if c.key, c.value, record = parse(c.buf[c.from:]); record != nil {
			c.from += len(record)
			return true, nil
		}
		if c.from == len(c.buf) && c.at == c.end {
			return false, nil
		}
		if err := c.fill(); err != nil {
			return false, fmt.Errorf("temporary file for sorting: %w", err)
		}
	}
}

// fill reads on.
func (c *cursor) fill() error {
	if c.at == c.end {
		return io.ErrUnexpectedEOF
	}
	n := copy(c.buf, c.buf[c.from:])
	c.buf, c.from = c.buf[:n], 0
	if n == cap(c.buf) {
		c.buf = slices.Grow(c.buf, n+1)
	}
	step := int(min(c.end-c.at, int64(cap(c.buf)-n)))
	got, err := c.file.ReadAt(c.buf[n:n+step], c.at)
	c.buf, c.at = c.buf[:n+got], c.at+int64(got)
	if got == step {
		return nil
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}

// merger merges what sorters have of key groups, one after the other, in memory that is used again.
type merger struct {
	cursors []*cursor
	heap    []*cursor // by the entry at which each is
}

// mergeBuffer is how much is read at once of a run, in bytes, if there are not too many of them for it.
const mergeBuffer = 256 << 10

// merge hands the entries that sorters have of a key group to take, in order. Memory is how many bytes of files it may hold. The slices are valid until take returns.
func (m *merger) merge(sorters []*sorter, group int, memory int64, take func(state int, key, value []byte) error) error {
	runs := 0
	for _, s := range sorters {
		runs += len(s.runs)
	}
	buffer := int(max(4<<10, min(mergeBuffer, memory/int64(max(1, runs)))))
	used := 0
	open := func() *cursor {
		if used == len(m.cursors) {
			m.cursors = append(m.cursors, &cursor{})
		}
		c := m.cursors[used]
		*c = cursor{rank: used, order: c.order, buf: c.buf[:0]}
		used++
		return c
	}
	for _, s := range sorters {
		for _, r := range s.runs {
			i, ok := slices.BinarySearchFunc(r.groups, group, func(g groupStart, group int) int { return g.group - group })
			if !ok {
				continue
			}
			c := open()
			c.file, c.at, c.end = s.file, r.groups[i].at, r.end
			if i+1 < len(r.groups) {
				c.end = r.groups[i+1].at
			}
			if n := int(min(int64(buffer), c.end-c.at)); cap(c.buf) < n {
				c.buf = make([]byte, 0, n)
			}
		}
		if b := &s.buckets[group-s.first]; b.entries > 0 {
			c := open()
			c.bucket, c.items = b, c.order.of(b)
		}
	}
	m.heap = m.heap[:0]
	for _, c := range m.cursors[:used] {
		more, err := c.next()
		if err != nil {
			return err
		}
		if more {
			m.heap = append(m.heap, c)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		c := m.heap[0]
		if err := take(int(binary.BigEndian.Uint16(c.key)), c.key[stateLen:], c.value); err != nil {
			return err
		}
		more, err := c.next()
		if err != nil {
			return err
		}
		if !more {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
		m.down(0)
	}
	return nil
}

// down moves a cursor of the heap down to its place.
func (m *merger) down(i int) {
	h := m.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

func (c *cursor) before(d *cursor) bool {
	if n := bytes.Compare(c.key, d.key); n != 0 {
		return n < 0
	}
	return c.rank < d.rank
}
