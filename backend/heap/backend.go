package heap

import (
	"errors"
	"fmt"
	"iter"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// Options are the options of [Open].
type Options[K comparable] struct {
	// MaxParallelism is the operator's number of key groups; it must be set.
	MaxParallelism int
	// KeyGroups are those of the subtask, see [keygroup.RangeOf].
	KeyGroups keygroup.Range
	// Hash computes hashCode of the Java objects that keys stand for, where it doesn't follow from
	// the serializer, as for POJOs; otherwise nil.
	Hash func(K) int32
	// Clock is asked for what has to do with time to live; nil means [backend.SystemClock].
	Clock backend.Clock
	// MaxSize is the most bytes of a key, a value and a list in a snapshot, and the most elements of a list; 0 means
	// [backend.MaxSize], and more than that is not possible.
	MaxSize int
}

// Backend is a keyed state backend in memory; it implements [backend.Keyed].
//
// Taking a snapshot costs the same whatever the state's size. What is written while the
// snapshot is being written is held twice, and of a map state the whole map of a key.
type Backend[K comparable] struct {
	key     serializer.Codec[K]
	subtask *backend.Subtask[K]
	o       Options[K]
	groups  keygroup.Range
	now     backend.Clock
	oddKey  func(K) bool // see oddOf

	current K
	group   int // index of the current key's group, -1 if no key is set
	states  []slot[K]
	byName  map[string]int // index in states
	loaded  bool           // Restore was called
	closed  bool
}

// slot is a state: opened, or only restored.
type slot[K comparable] struct {
	table anyTable[K]
	raw   *rawState
}

var _ backend.Keyed[int64] = (*Backend[int64])(nil)

// Open makes an empty backend for keys of the codec. Keys are compared as Go compares them, so that their type must hold no pointers.
func Open[K comparable](key serializer.Codec[K], o Options[K]) (*Backend[K], error) {
	subtask, err := backend.NewSubtask(key, o.KeyGroups, o.MaxParallelism, o.Hash)
	if err != nil {
		return nil, err
	}
	if err := backend.Plain[K]("key"); err != nil {
		return nil, err
	}
	if o.MaxSize, err = backend.CheckMaxSize(o.MaxSize); err != nil {
		return nil, err
	}
	b := &Backend[K]{key: key, subtask: subtask, o: o, groups: o.KeyGroups, now: o.Clock, group: -1, byName: map[string]int{}, oddKey: oddOf[K]()}
	if b.now == nil {
		b.now = backend.SystemClock
	}
	return b, nil
}

// SetKey is that of [backend.Keyed].
func (b *Backend[K]) SetKey(key K) error {
	if b.closed {
		return backend.ErrClosed
	}
	b.group = -1
	if b.oddKey != nil && b.oddKey(key) {
		return oddError("key", key)
	}
	group, err := b.subtask.GroupOf(key)
	if err != nil {
		return err
	}
	b.current, b.group = key, group-b.groups.Start
	return nil
}

// setKey sets a key whose group is known.
func (b *Backend[K]) setKey(key K, group int) { b.current, b.group = key, group }

func (b *Backend[K]) noKey() error {
	if b.closed {
		return backend.ErrClosed
	}
	return backend.ErrNoKey
}

// Key is that of [backend.Keyed].
func (b *Backend[K]) Key() K {
	if b.group < 0 {
		var none K
		return none
	}
	return b.current
}

// KeyGroups is that of [backend.Keyed].
func (b *Backend[K]) KeyGroups() keygroup.Range { return b.groups }

// MaxParallelism is that of [backend.Keyed].
func (b *Backend[K]) MaxParallelism() int { return b.o.MaxParallelism }

// open opens a table, with what was restored of it.
func open[K, N comparable, V any](b *Backend[K], name string, kind backend.Type, ttl *backend.TTL, namespace serializer.Codec[N], value *serializer.Snapshot, f form[V]) (*table[K, N, V], error) {
	t := &table[K, N, V]{b: b, namespace: namespace, odd: oddOf[N](), form: f}
	meta := backend.NewStateMeta(name, kind, namespace.Snapshot(), value)
	t.state, t.ttl = backend.NewState(&meta, b.key.Snapshot()), ttl
	err := errors.Join(backend.Plain[N]("namespace"), ttl.Check())
	if err == nil {
		t.shards = make([]shard[K, N, V], b.groups.Len())
		if ttl != nil && ttl.CleanUp > 0 {
			t.sweep = &sweep[K, N, V]{n: ttl.CleanUp, dead: func(lastAccess int64) bool { return ttl.Expired(lastAccess, b.now()) }}
		}
		err = b.enter(t)
	}
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", name, err)
	}
	return t, nil
}

// enter takes a table into the backend.
func (b *Backend[K]) enter(t anyTable[K]) error {
	if b.closed {
		return backend.ErrClosed
	}
	name := t.meta().Meta.Name
	i, ok := b.byName[name]
	if !ok {
		if err := backend.CheckState(t.meta().Meta, len(b.states)); err != nil {
			return err
		}
		b.byName[name] = len(b.states)
		b.states = append(b.states, slot[K]{table: t})
		return nil
	}
	if b.states[i].table != nil {
		return fmt.Errorf("it was opened before: %w", backend.ErrState)
	}
	if err := b.states[i].raw.into(t); err != nil {
		return err
	}
	b.states[i] = slot[K]{table: t}
	return nil
}

// States is that of [backend.Keyed].
func (b *Backend[K]) States() []backend.StateMeta {
	metas := make([]backend.StateMeta, len(b.states))
	for i := range b.states {
		metas[i] = *b.states[i].view().meta().Meta
	}
	return metas
}

func (s *slot[K]) view() frozenTable {
	if s.table != nil {
		return s.table.view()
	}
	return s.raw
}

// Len is that of [backend.Keyed].
func (b *Backend[K]) Len(state string) (int64, error) {
	s, err := b.find(state)
	if err != nil {
		return 0, err
	}
	if s.table == nil {
		return s.raw.len(), nil
	}
	return s.table.len(), nil
}

func (b *Backend[K]) find(state string) (*slot[K], error) {
	if b.closed {
		return nil, backend.ErrClosed
	}
	i, ok := b.byName[state]
	if !ok {
		return nil, fmt.Errorf("state %q: there is none of this name", state)
	}
	return &b.states[i], nil
}

// Keys is that of [backend.Keyed].
func (b *Backend[K]) Keys(state string) iter.Seq2[K, error] {
	return func(yield func(K, error) bool) {
		s, err := b.find(state)
		if err == nil && s.table == nil {
			err = fmt.Errorf("state %q: it was restored but not opened", state)
		}
		if err != nil {
			var none K
			yield(none, err)
			return
		}
		for k := range s.table.keys() {
			if !yield(k, nil) {
				return
			}
			if b.closed {
				var none K
				yield(none, backend.ErrClosed)
				return
			}
		}
	}
}

// Entries is that of [backend.Keyed].
func (b *Backend[K]) Entries(state string, groups keygroup.Range) iter.Seq2[*backend.Entry, error] {
	return func(yield func(*backend.Entry, error) bool) {
		views, err := b.views(state)
		if err != nil {
			yield(nil, err)
			return
		}
		groups := groups.Intersect(b.groups)
		for g := groups.Start; g <= groups.End; g++ {
			for _, v := range views {
				stopped := false
				err := v.parts(g-b.groups.Start, func(e *backend.Entry) bool {
					stopped = !yield(e, nil)
					return !stopped && !b.closed
				})
				if stopped {
					return
				}
				if b.closed {
					err = backend.ErrClosed
				}
				if err != nil {
					yield(nil, err)
					return
				}
			}
		}
	}
}

func (b *Backend[K]) views(state string) ([]frozenTable, error) {
	if b.closed {
		return nil, backend.ErrClosed
	}
	if state != "" {
		s, err := b.find(state)
		if err != nil {
			return nil, err
		}
		return []frozenTable{s.view()}, nil
	}
	views := make([]frozenTable, len(b.states))
	for i := range b.states {
		views[i] = b.states[i].view()
	}
	return views, nil
}

// Close is that of [backend.Keyed].
func (b *Backend[K]) Close() error {
	b.closed, b.group = true, -1
	for i := range b.states {
		if b.states[i].table != nil {
			b.states[i].table.close()
		}
	}
	b.states, b.byName = nil, nil
	return nil
}

// deadline gives what is left out of a snapshot that is taken now.
func (b *Backend[K]) deadline(t *backend.TTL) deadline {
	if t == nil || t.KeepInFullSnapshot {
		return nil
	}
	now := b.now()
	return func(lastAccess int64) bool { return t.Expired(lastAccess, now) }
}
