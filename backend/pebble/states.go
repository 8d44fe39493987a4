package pebble

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

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
		v, err := newValue(b, d.Name, kind, nil, d.Namespace, d.Value)
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	v, err := newValue(b, d.Name, kind, d.TTL, d.Namespace, serializer.ForTTL(d.Value))
	if err != nil {
		return nil, err
	}
	return backend.NewTTLValue(v, d.TTL, b.now), nil
}

func newValue[K, N comparable, V any](b *Backend[K], name string, kind backend.Type, ttl *backend.TTL, namespace serializer.Codec[N], c serializer.Codec[V]) (*value[K, N, V], error) {
	t, err := open(b, name, kind, ttl, namespace, c.Snapshot(), parts{value: valueAdapter(c, b.now)})
	return &value[K, N, V]{t, c}, err
}

type value[K, N comparable, V any] struct {
	*table[K, N]
	codec serializer.Codec[V]
}

func (s *value[K, N, V]) Get() (v V, ok bool, err error) {
	at, err := s.at()
	if err != nil {
		return v, false, err
	}
	ok, err = s.read(at, func(b []byte) error {
		s.in.Reset(b)
		v = s.codec.Read(&s.in)
		return s.in.Finish()
	})
	return v, ok, err
}

func (s *value[K, N, V]) Set(v V) error {
	at, err := s.at()
	if err != nil {
		return err
	}
	s.out.Reset()
	s.codec.Write(&s.out, v)
	return s.set(at)
}

// OpenList opens a list state.
func OpenList[K, N comparable, V any](b *Backend[K], d backend.Descriptor[N, V]) (backend.List[N, V], error) {
	if d.TTL == nil {
		l, err := newList(b, d.Name, nil, d.Namespace, d.Value)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	l, err := newList(b, d.Name, d.TTL, d.Namespace, serializer.ForTTL(d.Value))
	if err != nil {
		return nil, err
	}
	return backend.NewTTLList(l, d.TTL, b.now), nil
}

func newList[K, N comparable, V any](b *Backend[K], name string, ttl *backend.TTL, namespace serializer.Codec[N], c serializer.Codec[V]) (*list[K, N, V], error) {
	t, err := open(b, name, backend.TypeList, ttl, namespace, serializer.ForList(c).Snapshot(), parts{value: valueAdapter(c, b.now)})
	return &list[K, N, V]{t, c}, err
}

type list[K, N comparable, V any] struct {
	*table[K, N]
	codec serializer.Codec[V]
}

func (s *list[K, N, V]) Get() (v []V, err error) {
	at, err := s.at()
	if err != nil {
		return nil, err
	}
	_, err = s.read(at, func(b []byte) error {
		v, err = readList(&s.in, b, s.codec)
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

func readList[V any](in *serializer.Input, b []byte, c serializer.Codec[V]) ([]V, error) {
	var v []V
	if n := c.Len(); n > 0 && len(b) > 0 {
		v = make([]V, 0, (len(b)+1)/(n+1))
	}
	in.Reset(b)
	for i := 0; !in.AtEnd() && in.Err() == nil; i++ {
		if i > 0 {
			if d := in.U8(); d != ',' {
				in.Failf("list", "byte %#02x between elements", d)
				break
			}
		}
		v = append(v, c.Read(in))
	}
	return v, in.Err()
}

func (s *list[K, N, V]) write(v []V) {
	s.out.Reset()
	for i, e := range v {
		if i > 0 {
			s.out.U8(',')
		}
		s.codec.Write(&s.out, e)
	}
}

func (s *list[K, N, V]) Add(v ...V) error {
	at, err := s.at()
	if err != nil || len(v) == 0 {
		return err
	}
	s.write(v)
	if err := s.out.Err(); err != nil {
		return s.wrap(err)
	}
	if err := backend.CheckSize("elements", s.out.Len(), s.b.o.MaxSize); err != nil {
		return s.wrap(err)
	}
	return s.wrap(s.table.write(at, s.b.merge))
}

func (s *list[K, N, V]) Set(v []V) error {
	if len(v) == 0 {
		return s.Clear()
	}
	at, err := s.at()
	if err != nil {
		return err
	}
	s.write(v)
	return s.set(at)
}

func (s *list[K, N, V]) Merge(target N, sources ...N) error {
	defer s.SetNamespace(target)
	for _, n := range sources {
		if n == target {
			continue
		}
		s.SetNamespace(n)
		at, err := s.at()
		if err != nil {
			return err
		}
		var list []byte // a copy, as what is read is valid until the next write
		ok, err := s.read(at, func(b []byte) error {
			list = bytes.Clone(b)
			return nil
		})
		if err == nil && ok {
			err = s.addTo(target, list)
		}
		if err == nil && ok {
			err = s.Clear()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addTo adds to the list of another namespace.
func (s *list[K, N, V]) addTo(target N, list []byte) error {
	to := s.appendAt(nil, target)
	if err := s.out.Err(); err != nil {
		return s.wrap(err)
	}
	if err := s.b.checkKey("key and namespace", len(to)-prefixLen); err != nil {
		return s.wrap(err)
	}
	return s.wrap(s.b.merge(to, list))
}

// OpenMap opens a map state.
func OpenMap[K, N, U comparable, V any](b *Backend[K], d backend.MapDescriptor[N, U, V]) (backend.Map[N, U, V], error) {
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("state %q: %w", d.Name, err)
	}
	if d.TTL == nil {
		m, err := newMap(b, d.Name, nil, d.Namespace, d.UserKey, d.Value)
		if err != nil {
			return nil, err
		}
		m.null = d.Null
		return m, nil
	}
	m, err := newMap(b, d.Name, d.TTL, d.Namespace, d.UserKey, serializer.ForTTL(d.Value))
	if err != nil {
		return nil, err
	}
	return backend.NewTTLMap(m, d.TTL, b.now), nil
}

func newMap[K, N, U comparable, V any](b *Backend[K], name string, ttl *backend.TTL, namespace serializer.Codec[N], userKey serializer.Codec[U], c serializer.Codec[V]) (*mapState[K, N, U, V], error) {
	t, err := open(b, name, backend.TypeMap, ttl, namespace, serializer.ForMap(userKey, c).Snapshot(), parts{userKey: userKeyCheck(userKey), value: valueAdapter(c, b.now)})
	return &mapState[K, N, U, V]{table: t, userKey: userKey, codec: c}, err
}

type mapState[K, N, U comparable, V any] struct {
	*table[K, N]
	userKey serializer.Codec[U]
	codec   serializer.Codec[V]
	null    func(V) bool // nil if values are never null
	buf     []byte       // scratch for the keys of entries
	end     []byte       // and for the end of a map's
}

// entryAt gives the database's key of an entry.
func (s *mapState[K, N, U, V]) entryAt(u U) ([]byte, error) {
	at, err := s.at()
	if err != nil {
		return nil, err
	}
	s.out.Reset()
	s.userKey.Write(&s.out, u)
	if err := s.out.Err(); err != nil {
		return nil, s.wrap(fmt.Errorf("user key: %w", err))
	}
	if err := s.b.checkKey("key, namespace and user key", len(at)+s.out.Len()-prefixLen); err != nil {
		return nil, s.wrap(err)
	}
	s.buf = append(append(s.buf[:0], at...), s.out.Bytes()...)
	return s.buf, nil
}

func (s *mapState[K, N, U, V]) Get(u U) (v V, ok bool, err error) {
	at, err := s.entryAt(u)
	if err != nil {
		return v, false, err
	}
	ok, err = s.read(at, func(b []byte) error {
		v, err = s.readValue(b)
		return err
	})
	return v, ok, err
}

func (s *mapState[K, N, U, V]) readValue(b []byte) (v V, err error) {
	s.in.Reset(b)
	switch null := s.in.Bool(); {
	case !null:
		v = s.codec.Read(&s.in)
	case s.null == nil:
		return v, fmt.Errorf("null in a map: %w: the descriptor's Null must say what stands for it", serializer.ErrNull)
	}
	return v, s.in.Finish()
}

func (s *mapState[K, N, U, V]) Has(u U) (bool, error) {
	at, err := s.entryAt(u)
	if err != nil {
		return false, err
	}
	return s.read(at, func([]byte) error { return nil })
}

func (s *mapState[K, N, U, V]) Put(u U, v V) error {
	at, err := s.entryAt(u)
	if err != nil {
		return err
	}
	s.out.Reset()
	null := s.null != nil && s.null(v)
	s.out.Bool(null)
	if !null {
		s.codec.Write(&s.out, v)
	}
	return s.set(at)
}

func (s *mapState[K, N, U, V]) Delete(u U) error {
	at, err := s.entryAt(u)
	if err != nil {
		return err
	}
	return s.wrap(s.b.delete(at))
}

func (s *mapState[K, N, U, V]) iterate() (*pebble.Iterator, int, error) {
	at, err := s.at()
	if err != nil {
		return nil, 0, err
	}
	if err := s.b.flushState(s.no); err != nil {
		return nil, 0, s.wrap(err)
	}
	s.end = appendAfter(s.end[:0], at)
	it, err := s.b.walk(at, s.end)
	return it, len(at), s.wrap(err)
}

func (s *mapState[K, N, U, V]) Empty() (bool, error) {
	it, _, err := s.iterate()
	if err != nil {
		return false, err
	}
	empty := !it.First()
	return empty, s.wrap(s.b.end(it))
}

func (s *mapState[K, N, U, V]) All() iter.Seq2[backend.MapEntry[U, V], error] {
	return func(yield func(backend.MapEntry[U, V], error) bool) {
		it, prefix, err := s.iterate()
		if err != nil {
			yield(backend.MapEntry[U, V]{}, err)
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			var e backend.MapEntry[U, V]
			s.in.Reset(it.Key()[prefix:])
			e.Key = s.userKey.Read(&s.in)
			if err = s.in.Finish(); err != nil {
				err = fmt.Errorf("user key: %w", err)
				break
			}
			value, failed := it.ValueAndErr()
			if err = failed; err != nil {
				break
			}
			if e.Value, err = s.readValue(value); err != nil {
				break
			}
			if !yield(e, nil) {
				_ = s.b.end(it)
				return
			}
			if s.b.closed {
				err = backend.ErrClosed
				break
			}
		}
		if failed := s.b.end(it); err == nil {
			err = failed
		}
		if err != nil {
			yield(backend.MapEntry[U, V]{}, s.wrap(err))
		}
	}
}

// clearByRange is the number of entries from which on a map is cleared by one
// deletion of their range, which costs later reads more than single ones do.
// What the write buffer knows of its entries is forgotten one by one, if they are not more than all that the buffer has.
const clearByRange = 256

func (s *mapState[K, N, U, V]) Clear() error {
	it, _, err := s.iterate()
	if err != nil {
		return err
	}
	n := 0
	few := max(clearByRange, s.b.buffer.n)
	for ok := it.First(); ok && n < few; ok = it.Next() {
		if n < clearByRange {
			err = s.b.delete(it.Key())
		} else {
			s.b.buffer.forget(it.Key())
		}
		if err != nil {
			_ = s.b.end(it)
			return s.wrap(err)
		}
		n++
	}
	if err := s.b.end(it); err != nil || n < clearByRange {
		return s.wrap(err)
	}
	if n == few {
		if err := s.b.flushAll(); err != nil {
			return s.wrap(err)
		}
	}
	return s.wrap(s.b.deleteRange(s.joined))
}
