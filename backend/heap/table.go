package heap

import (
	"cmp"
	"fmt"
	"iter"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// table holds the values of one state, in a shard for each key group.
type table[K, N comparable, V any] struct {
	b         *Backend[K]
	state     *backend.State
	ttl       *backend.TTL // nil if values don't expire
	namespace serializer.Codec[N]
	form      form[V]
	shards    []shard[K, N, V]
	odd       func(N) bool // see oddOf
	current   N
	epoch     uint64 // counts snapshots
	sweep     *sweep[K, N, V]
}

// form is how the values of a kind of state are written. It has no state of its own.
type form[V any] interface {
	// entries gives the entries of a value as they stand in canonical files: the
	// user key, nil if there is none, and the value in its stored form. The slices are valid until the next.
	entries(out *serializer.Output, v V, yield func(userKey, value []byte) bool) bool
	// native appends a value as it stands in files of the hashmap backend.
	native(out *serializer.Output, v V)
	// trim gives a value without what is dead, and the value itself if nothing is; false if nothing is left.
	trim(v V, dead deadline) (live V, changed, ok bool)
	// adapt prepares to load what other serializers wrote.
	adapt(old backend.Parts, r *restored) error
	// load adds an entry to what was read of the value before.
	load(e *backend.Entry, in *serializer.Input, r *restored, v V, more bool) (V, error)
}

// deadline says that a value has expired that was accessed last at that time; nil if none are to be left out.
type deadline func(lastAccess int64) bool

// loader takes up entries.
type loader interface {
	// adapt prepares to load entries of a state that a file has.
	adapt(old *backend.State, r *restored) error
	// load takes up an entry of the key group with this index.
	load(group int, e *backend.Entry, r *restored) error
}

// anyTable is a table, whatever its types.
type anyTable[K comparable] interface {
	loader
	meta() *backend.State
	len() int64
	keys() iter.Seq[K]
	// freeze takes hold of the table.
	freeze() frozenTable
	// view is the table as it is, for as long as it is not changed.
	view() frozenTable
	close()
}

// frozenTable is a table as it was.
type frozenTable interface {
	meta() *backend.State
	// entries yields what stands in canonical files: the joined key and the stored value, valid until the next.
	entries(group int, yield func(key, value []byte) bool) error
	// native writes the entries of a key group into the block that was begun, of an unknown number of entries.
	native(group int, w *backend.HeapWriter) error
	// parts yields the entries in parts.
	parts(group int, yield func(*backend.Entry) bool) error
	release(group int)
}

func (t *table[K, N, V]) meta() *backend.State { return t.state }

// SetNamespace is that of all states.
func (t *table[K, N, V]) SetNamespace(n N) { t.current = n }

// at gives where the value of the current key is.
func (t *table[K, N, V]) at() (*shard[K, N, V], id[K, N], error) {
	if t.b.group < 0 {
		return nil, id[K, N]{}, t.b.noKey()
	}
	if t.odd != nil && t.odd(t.current) {
		return nil, id[K, N]{}, oddError("namespace", t.current)
	}
	if t.sweep != nil {
		t.sweep.step(t)
	}
	return &t.shards[t.b.group], id[K, N]{key: t.b.current, namespace: t.current}, nil
}

func (t *table[K, N, V]) get() (v V, ok bool, err error) {
	s, at, err := t.at()
	if err != nil {
		return v, false, err
	}
	v, ok = s.get(at)
	return v, ok, nil
}

// find gives where the value of the current key is, which must not be changed, valid until the next write; nil if there is none.
func (t *table[K, N, V]) find() (*V, error) {
	s, at, err := t.at()
	if err != nil {
		return nil, err
	}
	return s.find(at), nil
}

func (t *table[K, N, V]) put(v V) error {
	s, at, err := t.at()
	if err != nil {
		return err
	}
	s.put(at, v)
	return nil
}

// Clear is that of all states.
func (t *table[K, N, V]) Clear() error {
	s, at, err := t.at()
	if err != nil {
		return err
	}
	s.delete(at)
	return nil
}

func (t *table[K, N, V]) len() int64 {
	n := 0
	for i := range t.shards {
		n += t.shards[i].len()
	}
	return int64(n)
}

func (t *table[K, N, V]) keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for i := range t.shards {
			for at := range t.shards[i].all() {
				if !yield(at.key) {
					return
				}
			}
		}
	}
}

func (t *table[K, N, V]) close() {
	if t.sweep != nil {
		t.sweep.stop()
	}
	t.shards = nil
}

func (t *table[K, N, V]) freeze() frozenTable {
	t.epoch++
	f := &frozen[K, N, V]{table: t, shards: make([]frozenShard[K, N, V], len(t.shards)), dead: t.b.deadline(t.ttl)}
	for i := range t.shards {
		f.shards[i] = t.shards[i].freeze()
	}
	return f
}

func (t *table[K, N, V]) view() frozenTable {
	f := &frozen[K, N, V]{table: t, shards: make([]frozenShard[K, N, V], len(t.shards))}
	for i := range t.shards {
		f.shards[i] = t.shards[i].view()
	}
	return f
}

// frozen is a table as it was. It only reads of the table what never changes.
type frozen[K, N comparable, V any] struct {
	table  *table[K, N, V]
	shards []frozenShard[K, N, V]
	dead   deadline
}

func (f *frozen[K, N, V]) meta() *backend.State { return f.table.state }
func (f *frozen[K, N, V]) release(group int)    { f.shards[group].release() }

func (f *frozen[K, N, V]) entries(group int, yield func(key, value []byte) bool) error {
	var err error
	var stored, value serializer.Output
	ambiguous := backend.Ambiguous(f.table.state.Key, f.table.state.Namespace)
	var both, joined []byte // the key with the namespace; as entries have them
	split := 0              // where in both the namespace begins
	entry := func(userKey, v []byte) bool {
		if !ambiguous && len(userKey) == 0 {
			return yield(both, v)
		}
		joined = backend.AppendComposite(joined[:0], ambiguous, both[:split], both[split:], userKey)
		return yield(joined, v)
	}
	f.each(group, func(b []byte, n int, v V) bool {
		value.Reset()
		both, split = b, n
		more := f.table.form.entries(&value, v, entry)
		if value.Err() != nil {
			err = value.Err()
			return false
		}
		return more
	}, &stored)
	if err == nil {
		err = stored.Err()
	}
	return f.wrap(group, err)
}

// live yields the values without what is dead.
func (f *frozen[K, N, V]) live(group int) iter.Seq2[id[K, N], V] {
	if f.dead == nil {
		return f.shards[group].all()
	}
	return func(yield func(id[K, N], V) bool) {
		for at, v := range f.shards[group].all() {
			if v, _, ok := f.table.form.trim(v, f.dead); ok && !yield(at, v) {
				return
			}
		}
	}
}

// each yields the values with their keys and namespaces as bytes, of which the namespace begins at an index.
func (f *frozen[K, N, V]) each(group int, yield func(both []byte, split int, v V) bool, out *serializer.Output) {
	for at, v := range f.live(group) {
		out.Reset()
		f.table.b.key.Write(out, at.key)
		n := out.Len()
		f.table.namespace.Write(out, at.namespace)
		if out.Err() != nil || !yield(out.Bytes(), n, v) {
			return
		}
	}
}

func (f *frozen[K, N, V]) native(group int, w *backend.HeapWriter) error {
	var failed error
	var parts, value serializer.Output
	f.each(group, func(both []byte, split int, v V) bool {
		value.Reset()
		f.table.form.native(&value, v)
		if failed = value.Err(); failed == nil {
			failed = w.Entry(both[split:], both[:split], value.Bytes())
		}
		return failed == nil
	}, &parts)
	return f.wrap(group, cmp.Or(failed, parts.Err()))
}

func (f *frozen[K, N, V]) parts(group int, yield func(*backend.Entry) bool) error {
	e := &backend.Entry{State: f.table.state, KeyGroup: f.table.b.groups.Start + group}
	var err error
	var parts, value serializer.Output
	part := func(userKey, stored []byte) bool {
		e.UserKey, e.Value, e.Null = userKey, stored, false
		if e.State.Type == backend.TypeMap {
			e.Value, e.Null = stored[1:], stored[0] != 0
		}
		return yield(e)
	}
	f.each(group, func(both []byte, split int, v V) bool {
		value.Reset()
		e.Key, e.Namespace = both[:split:split], both[split:]
		more := f.table.form.entries(&value, v, part)
		err = value.Err()
		return more && err == nil
	}, &parts)
	if err == nil {
		err = parts.Err()
	}
	return f.wrap(group, err)
}

func (f *frozen[K, N, V]) wrap(group int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state %q, key group %d: %w", f.table.state.Meta.Name, f.table.b.groups.Start+group, err)
}

func (t *table[K, N, V]) adapt(old *backend.State, r *restored) error {
	r.now = t.b.now
	if err := adaptState(t.namespace, t.state, old, r); err != nil {
		return err
	}
	return t.form.adapt(old.Parts(), r)
}

func (t *table[K, N, V]) load(group int, e *backend.Entry, r *restored) error {
	if e.State.Type == backend.TypeList && len(e.Value) == 0 {
		return nil // a list of nothing is none
	}
	key, err := t.b.readKey(r, e.Key)
	if err != nil {
		return err
	}
	in := r.input(e.Namespace)
	at := id[K, N]{key: key, namespace: readAs(r.namespace, t.namespace, in)}
	if err := in.Finish(); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if t.odd != nil && t.odd(at.namespace) {
		return oddError("namespace", at.namespace)
	}
	if group != r.group {
		r.expected, r.group = t.shards[r.group].len(), group
	}
	t.shards[group].expect(r.expected)
	v, more := t.shards[group].place(at)
	if *v, err = t.form.load(e, r.input(e.Value), r, *v, more); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	return nil
}

// sweep looks at some entries at each access, to remove those that expired.
type sweep[K, N comparable, V any] struct {
	n     int
	dead  deadline
	shard int
	next  func() (id[K, N], V, bool)
	end   func()
}

func (s *sweep[K, N, V]) step(t *table[K, N, V]) {
	for range s.n {
		if s.next == nil {
			s.shard = (s.shard + 1) % len(t.shards)
			if t.shards[s.shard].len() == 0 {
				continue
			}
			s.next, s.end = iter.Pull2(t.shards[s.shard].view().all())
		}
		at, _, ok := s.next()
		if !ok {
			s.stop()
			continue
		}
		// The walk may be over maps as they were: what counts is what is there now.
		if v, ok := t.shards[s.shard].get(at); ok {
			switch v, changed, ok := t.form.trim(v, s.dead); {
			case !ok:
				t.shards[s.shard].delete(at)
			case changed:
				t.shards[s.shard].put(at, v)
			}
		}
	}
}

func (s *sweep[K, N, V]) stop() {
	if s.next != nil {
		s.end()
		s.next = nil
	}
}
