package heap

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// OpenValue opens a value state.
func OpenValue[K, N comparable, V any](b *Backend[K], d backend.Descriptor[N, V]) (backend.Value[N, V], error) {
	return openValue(b, d, backend.TypeValue)
}

// OpenReducing opens a reducing state.
func OpenReducing[K, N comparable, V any](b *Backend[K], d backend.ReducingDescriptor[N, V]) (backend.Reducing[N, V], error) {
	v, err := openValue(b, d.Descriptor, backend.TypeReducing)
	if err != nil {
		return nil, err
	}
	return backend.NewReducing(v, d.Reduce), nil
}

// OpenAggregating opens an aggregating state.
func OpenAggregating[K, N comparable, In, Acc, Out any](b *Backend[K], d backend.AggregatingDescriptor[N, In, Acc, Out]) (backend.Aggregating[N, In, Out], error) {
	v, err := openValue(b, d.Descriptor, backend.TypeAggregating)
	if err != nil {
		return nil, err
	}
	return backend.NewAggregating(v, d), nil
}

func openValue[K, N comparable, V any](b *Backend[K], d backend.Descriptor[N, V], kind backend.Type) (backend.Value[N, V], error) {
	if d.TTL == nil {
		t, err := open(b, d.Name, kind, nil, d.Namespace, d.Value.Snapshot(), form[V](valueForm[V]{codec: d.Value}))
		if err != nil {
			return nil, err
		}
		return value[K, N, V]{t}, nil
	}
	c := serializer.ForTTL(d.Value)
	t, err := open(b, d.Name, kind, d.TTL, d.Namespace, c.Snapshot(), form[serializer.TTLValue[V]](valueForm[serializer.TTLValue[V]]{c, lastAccess[V]}))
	if err != nil {
		return nil, err
	}
	return backend.NewTTLValue(value[K, N, serializer.TTLValue[V]]{t}, d.TTL, b.now), nil
}

func lastAccess[V any](v serializer.TTLValue[V]) int64 { return v.LastAccess }

type value[K, N comparable, V any] struct{ *table[K, N, V] }

func (s value[K, N, V]) Get() (V, bool, error) { return s.get() }
func (s value[K, N, V]) Set(v V) error         { return s.put(v) }

// OpenList opens a list state.
func OpenList[K, N comparable, V any](b *Backend[K], d backend.Descriptor[N, V]) (backend.List[N, V], error) {
	if d.TTL == nil {
		t, err := open(b, d.Name, backend.TypeList, nil, d.Namespace, serializer.ForList(d.Value).Snapshot(), form[[]V](listForm[V]{codec: d.Value}))
		if err != nil {
			return nil, err
		}
		return list[K, N, V]{t}, nil
	}
	c := serializer.ForTTL(d.Value)
	t, err := open(b, d.Name, backend.TypeList, d.TTL, d.Namespace, serializer.ForList(c).Snapshot(),
		form[[]serializer.TTLValue[V]](listForm[serializer.TTLValue[V]]{c, lastAccess[V]}))
	if err != nil {
		return nil, err
	}
	return backend.NewTTLList(list[K, N, serializer.TTLValue[V]]{t}, d.TTL, b.now), nil
}

type list[K, N comparable, V any] struct{ *table[K, N, []V] }

func (s list[K, N, V]) Get() ([]V, error) {
	v, _, err := s.get()
	return slices.Clip(v), err
}

// Add appends in place: snapshots don't read beyond the length that they know of.
func (s list[K, N, V]) Add(v ...V) error {
	shard, at, err := s.at()
	if err != nil || len(v) == 0 {
		return err
	}
	list, found := shard.place(at)
	if n := len(*list) + len(v); n > s.b.o.MaxSize {
		if !found {
			shard.delete(at)
		}
		return fmt.Errorf("state %q: a list of %d elements, the limit is %d: %w", s.state.Meta.Name, n, s.b.o.MaxSize, backend.ErrTooLarge)
	}
	*list = append(*list, v...)
	return nil
}

func (s list[K, N, V]) Set(v []V) error {
	if len(v) == 0 {
		return s.Clear()
	}
	return s.put(slices.Clone(v))
}

func (s list[K, N, V]) Merge(target N, sources ...N) error {
	defer s.SetNamespace(target)
	var all []V
	for i, n := range sources {
		if n == target || slices.Contains(sources[:i], n) {
			continue
		}
		s.SetNamespace(n)
		v, _, err := s.get()
		if err != nil {
			return err
		}
		all = append(all, v...)
	}
	s.SetNamespace(target)
	if err := s.Add(all...); err != nil {
		return err
	}
	// Nothing is removed before it is there.
	for _, n := range sources {
		if n == target {
			continue
		}
		s.SetNamespace(n)
		if err := s.Clear(); err != nil {
			return err
		}
	}
	return nil
}

// OpenMap opens a map state.
func OpenMap[K, N, U comparable, V any](b *Backend[K], d backend.MapDescriptor[N, U, V]) (backend.Map[N, U, V], error) {
	if err := errors.Join(d.Check(), backend.Plain[U]("user key")); err != nil {
		return nil, fmt.Errorf("state %q: %w", d.Name, err)
	}
	odd := oddOf[U]()
	if d.TTL == nil {
		t, err := open(b, d.Name, backend.TypeMap, nil, d.Namespace, serializer.ForMap(d.UserKey, d.Value).Snapshot(),
			form[userMap[U, V]](mapForm[U, V]{userKey: d.UserKey, odd: odd, value: d.Value, null: d.Null}))
		if err != nil {
			return nil, err
		}
		return mapState[K, N, U, V]{t, odd}, nil
	}
	c := serializer.ForTTL(d.Value)
	t, err := open(b, d.Name, backend.TypeMap, d.TTL, d.Namespace, serializer.ForMap(d.UserKey, c).Snapshot(),
		form[userMap[U, serializer.TTLValue[V]]](mapForm[U, serializer.TTLValue[V]]{userKey: d.UserKey, odd: odd, value: c, used: lastAccess[V]}))
	if err != nil {
		return nil, err
	}
	return backend.NewTTLMap(mapState[K, N, U, serializer.TTLValue[V]]{t, odd}, d.TTL, b.now), nil
}

type mapState[K, N, U comparable, V any] struct {
	*table[K, N, userMap[U, V]]
	odd func(U) bool
}

// check refuses user keys that can't be told apart.
func (s mapState[K, N, U, V]) check(u U) error {
	if s.odd != nil && s.odd(u) {
		return oddError("user key", u)
	}
	return nil
}

func (s mapState[K, N, U, V]) Get(u U) (v V, ok bool, err error) {
	if err := s.check(u); err != nil {
		return v, false, err
	}
	m, err := s.table.find()
	if m == nil {
		return v, false, err
	}
	i := m.find(u)
	if i < 0 {
		return v, false, nil
	}
	return m.entries[i].Value, true, nil
}

func (s mapState[K, N, U, V]) Has(u U) (bool, error) {
	if err := s.check(u); err != nil {
		return false, err
	}
	m, err := s.table.find()
	if m == nil {
		return false, err
	}
	return m.find(u) >= 0, nil
}

func (s mapState[K, N, U, V]) Empty() (bool, error) {
	m, err := s.table.find()
	return m == nil, err
}

func (s mapState[K, N, U, V]) Put(u U, v V) error {
	shard, at, err := s.at()
	if err != nil {
		return err
	}
	if err := s.check(u); err != nil {
		return err
	}
	m, found := shard.place(at)
	if !found {
		// What is there, zero, is not read, as it would have to be waited for.
		*m = userMap[U, V]{epoch: s.epoch, entries: []backend.MapEntry[U, V]{{Key: u, Value: v}}, tags: [2]uint64{userTag(u)}}
		return nil
	}
	s.own(shard, m)
	m.put(u, v)
	return nil
}

// own makes a copy of a map if a snapshot reads it.
func (s mapState[K, N, U, V]) own(shard *shard[K, N, userMap[U, V]], m *userMap[U, V]) {
	if m.epoch != s.epoch && len(shard.upper) > 0 {
		*m = m.clone(s.epoch)
	}
}

func (s mapState[K, N, U, V]) Delete(u U) error {
	shard, at, err := s.at()
	if err != nil {
		return err
	}
	if err := s.check(u); err != nil {
		return err
	}
	m := shard.change(at)
	if m == nil {
		return nil
	}
	i := m.find(u)
	switch {
	case i < 0:
	case len(m.entries) == 1:
		shard.delete(at)
	default:
		s.own(shard, m)
		m.remove(i)
	}
	return nil
}

// All goes backwards, as removing an entry puts the last one into its place.
func (s mapState[K, N, U, V]) All() iter.Seq2[backend.MapEntry[U, V], error] {
	return func(yield func(backend.MapEntry[U, V], error) bool) {
		m, err := s.table.find()
		if err != nil {
			yield(backend.MapEntry[U, V]{}, err)
			return
		}
		if m == nil {
			return
		}
		entries := m.entries
		for i := len(entries) - 1; i >= 0; i-- {
			if !yield(entries[i], nil) {
				return
			}
			if s.b.closed {
				yield(backend.MapEntry[U, V]{}, backend.ErrClosed)
				return
			}
		}
	}
}
