package pebble

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
)

// TimerStore says where timers are held (state.backend.rocksdb.timer-service.factory).
type TimerStore uint8

// The places.
const (
	// TimersInDatabase holds them like all other state, at most 128 of each key group in memory.
	TimersInDatabase TimerStore = iota
	// TimersOnHeap holds them all in memory, which is faster if they are not many. A snapshot
	// in FormatRocksDB has them as raw keyed state then, as one of Flink.
	TimersOnHeap
)

// heapTimers are the timers that are held in memory, by what would be their keys in the database. A
// copy costs the same however many there are.
type heapTimers struct{ btree.Set[string] }

// onHeap says whether the entries of a state are in b.timers instead of the database.
func (b *Backend[K]) onHeap(no int) bool {
	return b.o.Timers == TimersOnHeap && b.states[no].state.Type == backend.TypeTimers
}

func (t *timers[K, N]) put(key []byte) error {
	if t.heap {
		t.b.timers.Insert(string(key))
		return nil
	}
	t.b.timersWritten(len(key))
	return t.b.db.Set(key, nil, pebble.NoSync)
}

func (t *timers[K, N]) remove(key []byte) error {
	if t.heap {
		t.b.timers.Delete(string(key))
		return nil
	}
	t.b.timersWritten(len(key))
	return t.b.db.Delete(key, pebble.NoSync)
}

// from yields the keys of timers of a key group from one on, valid until the next.
func (t *timers[K, N]) from(index int, key []byte, yield func(key []byte) bool) error {
	prefix := appendPrefix(nil, t.b.groups.Start+index, t.no)
	if t.heap {
		t.b.timers.Ascend(string(key), func(at string) bool {
			return at[:prefixLen] == string(prefix) && yield([]byte(at))
		})
		return nil
	}
	it, err := t.b.db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && yield(it.Key()); ok = it.Next() {
	}
	return it.Close()
}

// scanHeap is scan for timers on the heap, as they are when it begins.
func (b *Backend[K]) scanHeap(no, group int, f func(e *backend.Entry, at []byte) error) error {
	var err error
	prefix := string(appendPrefix(nil, group, no))
	e := &backend.Entry{State: b.states[no].state, KeyGroup: group}
	b.timers.Copy().Ascend(prefix, func(at string) bool {
		if at[:prefixLen] != prefix {
			return false
		}
		key := []byte(at)
		if err = e.SetStored(key[prefixLen:], nil); err == nil {
			err = f(e, key)
		}
		if err == nil && b.closed {
			err = backend.ErrClosed
		}
		return err == nil
	})
	return err
}

// rewriteHeap is rewrite for timers on the heap.
func (b *Backend[K]) rewriteHeap(no int, m *migration) error {
	var old, keys []string
	for g := b.groups.Start; g <= b.groups.End; g++ {
		err := b.scanHeap(no, g, func(e *backend.Entry, at []byte) error {
			key, _, err := m.apply(e)
			old, keys = append(old, string(at)), append(keys, string(at[:prefixLen])+string(key))
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, key := range old {
		b.timers.Delete(key)
	}
	for _, key := range keys {
		b.timers.Insert(key)
	}
	return nil
}

// takeHeap takes up a timer that is restored.
func (b *Backend[K]) takeHeap(t *target, e *backend.Entry) error {
	key := appendPrefix(nil, e.KeyGroup, t.no)
	if t.migrate == nil {
		key = e.AppendStoredKey(key)
	} else {
		joined, _, err := t.migrate.apply(e)
		if err != nil {
			return err
		}
		key = append(key, joined...)
	}
	b.timers.Insert(string(key))
	return nil
}

// cursor goes through the entries of a snapshot in the order of their keys: those of the database and the timers that
// are on the heap.
type cursor struct {
	db     *pebble.Iterator
	timers btree.SetIter[string]
	inDB   bool // the database has one
	onHeap bool // there is a timer
	timer  []byte
	atHeap bool // the timer is the next
}

func (c *cursor) first() bool {
	c.inDB = c.db.First()
	c.onHeap = c.timers.First()
	return c.look()
}

func (c *cursor) next() bool {
	if c.atHeap {
		c.onHeap = c.timers.Next()
	} else {
		c.inDB = c.db.Next()
	}
	return c.look()
}

// look chooses what comes next.
func (c *cursor) look() bool {
	if c.onHeap {
		c.timer = append(c.timer[:0], c.timers.Key()...)
	}
	c.atHeap = c.onHeap && (!c.inDB || bytes.Compare(c.timer, c.db.Key()) < 0)
	return c.inDB || c.onHeap
}

func (c *cursor) key() []byte {
	if c.atHeap {
		return c.timer
	}
	return c.db.Key()
}

func (c *cursor) value() ([]byte, error) {
	if c.atHeap {
		return nil, nil
	}
	return c.db.ValueAndErr()
}

// hasTimers says whether there is a timer of a state on the heap.
func (s *snapshot) hasTimers(no int) bool {
	has := false
	for g := s.o.KeyGroups.Start; g <= s.o.KeyGroups.End && !has; g++ {
		prefix := string(appendPrefix(nil, g, no))
		s.timers.Ascend(prefix, func(at string) bool {
			has = at[:prefixLen] == prefix
			return false
		})
	}
	return has
}

// writeRaw writes the timers as raw keyed state.
func (s *snapshot) writeRaw(ctx context.Context, stream *backend.TargetStream) (metadata.Keyed, error) {
	var queues []*backend.State
	index := make([]int, len(s.states))
	for i := range s.states {
		// The queue of the other domain, which files always have, is made again by who reads this one. It
		// may have the serializers of long ago.
		if slot := &s.states[i]; slot.state.Type == backend.TypeTimers && (slot.opened || s.hasTimers(i)) {
			index[i] = len(queues)
			queues = append(queues, slot.state)
		}
	}
	if len(queues) == 0 {
		return nil, nil
	}
	w := backend.NewTimersWriter(stream, queues, s.o.KeyGroups)
	it := s.timers.Iter()
	ok := it.First()
	for g := s.o.KeyGroups.Start; g <= s.o.KeyGroups.End; g++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		timers := make([][][]byte, len(queues))
		for ; ok; ok = it.Next() {
			key := []byte(it.Key())
			if int(binary.BigEndian.Uint16(key)) != g {
				break
			}
			i := index[binary.BigEndian.Uint16(key[2:])]
			timers[i] = append(timers[i], key[prefixLen:])
		}
		if err := w.KeyGroup(timers); err != nil {
			return nil, err
		}
	}
	offsets, _, err := w.Close()
	if err != nil {
		return nil, err
	}
	return backend.CommitKeyGroups(stream, offsets, metadata.KeyGroupsV2)
}
