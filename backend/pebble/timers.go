package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// timersCached is how many timers of each key group are held in memory at most
// (state.backend.rocksdb.timer-service.cache-size).
const timersCached = 128

// timers is a queue of timers in the database, where those of a key group stand in order of time.
type timers[K, N comparable] struct {
	*table[K, N]
	groups []timerGroup // by index of key group
	order  []int        // heap of indexes of groups by their first timer; those without one are last
	place  []int        // by group: where it is in order
	heap   bool         // the timers are in memory
	buf    []byte
}

// timerGroup holds the first timers of a key group.
type timerGroup struct {
	// first are the keys in the database of the earliest timers, in order.
	first [][]byte
	// more says that the database may have timers behind them, at or behind from.
	more bool
	from []byte
}

// OpenTimers opens a queue of timers.
func OpenTimers[K, N comparable](b *Backend[K], d backend.TimersDescriptor[N]) (backend.Timers[K, N], error) {
	meta := backend.NewTimersMeta(d.StateName(), serializer.ForTimer(b.key, d.Namespace).Snapshot())
	t, err := enter(b, &meta, nil, d.Namespace, parts{})
	if err != nil {
		return nil, err
	}
	n := b.groups.Len()
	q := &timers[K, N]{table: t, groups: make([]timerGroup, n), order: make([]int, n), place: make([]int, n), heap: b.o.Timers == TimersOnHeap}
	q.forget()
	b.states[t.no].queue = q
	return q, nil
}

// forget has the queue read what the database has.
func (t *timers[K, N]) forget() {
	for g := range t.groups {
		t.groups[g] = timerGroup{more: true, from: appendPrefix(nil, t.b.groups.Start+g, t.no)}
		t.order[g], t.place[g] = g, g
	}
	// An empty group that may have more is filled when it is asked for, see next.
}

// stored is the database's key of a timer of the current key, valid until the next.
func (t *timers[K, N]) stored(n N, timestamp int64) ([]byte, error) {
	if t.b.group < 0 {
		return nil, t.b.noKey()
	}
	t.out.Reset()
	t.namespace.Write(&t.out, n)
	if err := t.out.Err(); err != nil {
		return nil, t.wrap(fmt.Errorf("namespace: %w", err))
	}
	t.buf = appendPrefix(t.buf[:0], t.b.group, t.no)
	t.buf = backend.AppendTimer(t.buf, timestamp, t.b.keyBytes, t.out.Bytes())
	if err := t.b.checkKey("a timer", len(t.buf)-prefixLen); err != nil {
		return nil, t.wrap(err)
	}
	return t.buf, nil
}

func (t *timers[K, N]) Register(n N, timestamp int64) error {
	key, err := t.stored(n, timestamp)
	if err != nil {
		return err
	}
	if err := t.put(key); err != nil {
		return t.wrap(err)
	}
	index := t.b.group - t.b.groups.Start
	t.groups[index].add(key)
	t.fix(index)
	return nil
}

// add takes up a timer, if it is among the first ones.
func (g *timerGroup) add(key []byte) {
	i, ok := slices.BinarySearchFunc(g.first, key, bytes.Compare)
	switch {
	case ok:
		return
	case i == len(g.first) && g.more && bytes.Compare(key, g.from) >= 0:
		return // the database has it
	}
	g.first = slices.Insert(g.first, i, bytes.Clone(key))
	if last := len(g.first) - 1; last == timersCached {
		g.more, g.from = true, g.first[last]
		g.first = g.first[:last]
	}
}

func (t *timers[K, N]) Delete(n N, timestamp int64) error {
	key, err := t.stored(n, timestamp)
	if err != nil {
		return err
	}
	if err := t.remove(key); err != nil {
		return t.wrap(err)
	}
	index := t.b.group - t.b.groups.Start
	g := &t.groups[index]
	if i, ok := slices.BinarySearchFunc(g.first, key, bytes.Compare); ok {
		g.first = slices.Delete(g.first, i, i+1)
		t.fix(index)
	}
	return nil
}

// fill reads the first timers of a group, if none is in memory.
func (t *timers[K, N]) fill(index int) error {
	g := &t.groups[index]
	if len(g.first) > 0 || !g.more {
		return nil
	}
	g.more = false
	err := t.from(index, g.from, func(key []byte) bool {
		key = bytes.Clone(key)
		if len(g.first) == timersCached {
			g.more, g.from = true, key
			return false
		}
		g.first = append(g.first, key)
		return true
	})
	if err != nil {
		// What was read may not be all.
		g.first, g.more = nil, true
		return err
	}
	return nil
}

// less orders groups by their first timer. One that has to be filled comes first.
func (t *timers[K, N]) less(a, b int) bool {
	x, y := &t.groups[a], &t.groups[b]
	switch {
	case len(x.first) == 0:
		return x.more && (len(y.first) > 0 || !y.more)
	case len(y.first) == 0:
		return !y.more
	}
	return bytes.Compare(x.first[0][prefixLen:], y.first[0][prefixLen:]) < 0
}

// fix puts a group in its place.
func (t *timers[K, N]) fix(index int) {
	i := t.place[index]
	for i > 0 && t.less(t.order[i], t.order[(i-1)/2]) {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		first := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(t.order) && t.less(t.order[child], t.order[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		t.swap(i, first)
		i = first
	}
}

func (t *timers[K, N]) swap(i, j int) {
	t.order[i], t.order[j] = t.order[j], t.order[i]
	t.place[t.order[i]], t.place[t.order[j]] = i, j
}

// next gives the group of the earliest timer, false if there is none.
func (t *timers[K, N]) next() (int, bool, error) {
	for {
		index := t.order[0]
		g := &t.groups[index]
		if len(g.first) > 0 {
			return index, true, nil
		}
		if !g.more {
			return 0, false, nil
		}
		if err := t.fill(index); err != nil {
			return 0, false, t.wrap(err)
		}
		t.fix(index)
	}
}

// timestampOf is the time of a timer by its key in the database.
func timestampOf(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[prefixLen:])) ^ math.MinInt64
}

func (t *timers[K, N]) Next() (int64, bool, error) {
	if t.b.closed {
		return 0, false, backend.ErrClosed
	}
	index, ok, err := t.next()
	if err != nil || !ok {
		return 0, false, err
	}
	return timestampOf(t.groups[index].first[0]), true, nil
}

func (t *timers[K, N]) Advance(timestamp int64) iter.Seq2[serializer.TimerValue[K, N], error] {
	return func(yield func(serializer.TimerValue[K, N], error) bool) {
		for {
			if t.b.closed {
				yield(serializer.TimerValue[K, N]{}, backend.ErrClosed)
				return
			}
			v, ok, err := t.pop(timestamp)
			if err != nil {
				yield(serializer.TimerValue[K, N]{}, err)
				return
			}
			if !ok || !yield(v, nil) {
				return
			}
		}
	}
}

// pop removes the earliest timer up to a time and sets its key.
func (t *timers[K, N]) pop(timestamp int64) (v serializer.TimerValue[K, N], ok bool, err error) {
	index, ok, err := t.next()
	if err != nil || !ok {
		return v, false, err
	}
	g := &t.groups[index]
	key := g.first[0]
	if timestampOf(key) > timestamp {
		return v, false, nil
	}
	if v, err = t.decode(key); err != nil {
		return v, false, t.wrap(err)
	}
	if err := t.remove(key); err != nil {
		return v, false, t.wrap(err)
	}
	g.first = g.first[1:]
	t.fix(index)
	return v, true, t.b.setKey(v.Key, t.b.groups.Start+index)
}

func (t *timers[K, N]) decode(key []byte) (v serializer.TimerValue[K, N], err error) {
	v.Timestamp = timestampOf(key)
	t.in.Reset(key[prefixLen+8:])
	v.Key = t.b.key.Read(&t.in)
	v.Namespace = t.namespace.Read(&t.in)
	return v, t.in.Finish()
}

func (t *timers[K, N]) All() iter.Seq2[serializer.TimerValue[K, N], error] {
	return func(yield func(serializer.TimerValue[K, N], error) bool) {
		if t.b.closed {
			yield(serializer.TimerValue[K, N]{}, backend.ErrClosed)
			return
		}
		for g := t.b.groups.Start; g <= t.b.groups.End; g++ {
			stopped := false
			err := t.b.scan(t.no, g, func(_ *backend.Entry, at []byte) error {
				v, err := t.decode(at)
				if err == nil && !yield(v, nil) {
					stopped, err = true, errStop
				}
				return err
			})
			if stopped {
				return
			}
			if err != nil {
				yield(serializer.TimerValue[K, N]{}, t.wrap(err))
				return
			}
		}
	}
}
