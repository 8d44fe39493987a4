package backend

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/drey-state/drey/serializer"
)

// Clock gives the time in milliseconds since 1970. It is asked for what has to do with time to live.
type Clock func() int64

// SystemClock is the time of the machine.
func SystemClock() int64 { return time.Now().UnixMilli() }

// Check says what is wrong with the settings; those of a nil TTL are right.
func (t *TTL) Check() error {
	switch {
	case t == nil:
		return nil
	case t.After < time.Millisecond:
		return fmt.Errorf("time to live: %v: it must be a millisecond at least", t.After)
	case t.CleanUp < 0:
		return fmt.Errorf("time to live: a negative number of entries to clean up")
	}
	return nil
}

// Expired says whether a value that was accessed last at that time had expired
// at now, as TtlUtils of Flink computes it. A sum beyond the last time there is means never.
func (t *TTL) Expired(lastAccess, now int64) bool {
	after := t.After.Milliseconds()
	if lastAccess > 0 {
		after = min(math.MaxInt64-lastAccess, after)
	}
	return lastAccess+after <= now
}

// ttl is what the states with time to live have in common.
type ttl struct {
	*TTL
	now Clock
}

func (t ttl) expired(lastAccess int64) bool { return t.Expired(lastAccess, t.now()) }

// NewTTLValue makes a value state with time to live of one that holds the times, too (TtlValueState).
func NewTTLValue[N comparable, V any](v Value[N, serializer.TTLValue[V]], t *TTL, now Clock) Value[N, V] {
	return &ttlValue[N, V]{v, ttl{t, now}}
}

type ttlValue[N comparable, V any] struct {
	value Value[N, serializer.TTLValue[V]]
	ttl
}

func (s *ttlValue[N, V]) SetNamespace(n N) { s.value.SetNamespace(n) }
func (s *ttlValue[N, V]) Clear() error     { return s.value.Clear() }

func (s *ttlValue[N, V]) Set(v V) error {
	return s.value.Set(serializer.TTLValue[V]{LastAccess: s.now(), Value: v})
}

func (s *ttlValue[N, V]) Get() (v V, ok bool, err error) {
	held, ok, err := s.value.Get()
	switch {
	case err != nil || !ok:
		return v, false, err
	case s.expired(held.LastAccess):
		err = s.value.Clear()
		if err != nil || !s.ReturnExpired {
			return v, false, err
		}
	case s.OnRead:
		held.LastAccess = s.now()
		err = s.value.Set(held)
	}
	return held.Value, err == nil, err
}

// NewTTLList makes a list state with time to live of each element (TtlListState).
func NewTTLList[N comparable, V any](l List[N, serializer.TTLValue[V]], t *TTL, now Clock) List[N, V] {
	return &ttlList[N, V]{l, ttl{t, now}}
}

type ttlList[N comparable, V any] struct {
	list List[N, serializer.TTLValue[V]]
	ttl
}

func (s *ttlList[N, V]) SetNamespace(n N)                   { s.list.SetNamespace(n) }
func (s *ttlList[N, V]) Clear() error                       { return s.list.Clear() }
func (s *ttlList[N, V]) Merge(target N, sources ...N) error { return s.list.Merge(target, sources...) }
func (s *ttlList[N, V]) Add(v ...V) error                   { return s.list.Add(s.stamp(v)...) }
func (s *ttlList[N, V]) Set(v []V) error                    { return s.list.Set(s.stamp(v)) }
func (s *ttlList[N, V]) stamp(v []V) []serializer.TTLValue[V] {
	now := s.now()
	held := make([]serializer.TTLValue[V], len(v))
	for i := range v {
		held[i] = serializer.TTLValue[V]{LastAccess: now, Value: v[i]}
	}
	return held
}

func (s *ttlList[N, V]) Get() ([]V, error) {
	held, err := s.list.Get()
	if err != nil || len(held) == 0 {
		return nil, err
	}
	live := slices.DeleteFunc(slices.Clone(held), func(e serializer.TTLValue[V]) bool { return s.expired(e.LastAccess) })
	switch {
	case len(live) == 0:
		err = s.list.Clear()
	case s.OnRead:
		now := s.now()
		for i := range live {
			live[i].LastAccess = now
		}
		err = s.list.Set(live)
	case len(live) < len(held):
		err = s.list.Set(live)
	}
	if err != nil {
		return nil, err
	}
	if s.ReturnExpired {
		live = held
	}
	var list []V
	for _, e := range live {
		list = append(list, e.Value)
	}
	return list, nil
}

// NewTTLMap makes a map state with time to live of each entry (TtlMapState).
func NewTTLMap[N, U comparable, V any](m Map[N, U, serializer.TTLValue[V]], t *TTL, now Clock) Map[N, U, V] {
	return &ttlMap[N, U, V]{m, ttl{t, now}}
}

type ttlMap[N, U comparable, V any] struct {
	m Map[N, U, serializer.TTLValue[V]]
	ttl
}

func (s *ttlMap[N, U, V]) SetNamespace(n N) { s.m.SetNamespace(n) }
func (s *ttlMap[N, U, V]) Clear() error     { return s.m.Clear() }
func (s *ttlMap[N, U, V]) Delete(u U) error { return s.m.Delete(u) }

func (s *ttlMap[N, U, V]) Put(u U, v V) error {
	return s.m.Put(u, serializer.TTLValue[V]{LastAccess: s.now(), Value: v})
}

func (s *ttlMap[N, U, V]) Get(u U) (v V, ok bool, err error) {
	held, ok, err := s.m.Get(u)
	if err != nil || !ok {
		return v, false, err
	}
	if ok, err = s.look(u, held); err != nil || !ok {
		return v, false, err
	}
	return held.Value, true, nil
}

// look removes or renews an entry that was read, and says whether it is to be seen.
func (s *ttlMap[N, U, V]) look(u U, held serializer.TTLValue[V]) (bool, error) {
	switch {
	case s.expired(held.LastAccess):
		return s.ReturnExpired, s.m.Delete(u)
	case s.OnRead:
		held.LastAccess = s.now()
		return true, s.m.Put(u, held)
	}
	return true, nil
}

func (s *ttlMap[N, U, V]) Has(u U) (bool, error) {
	_, ok, err := s.Get(u)
	return ok, err
}

func (s *ttlMap[N, U, V]) Empty() (bool, error) {
	for e, err := range s.m.All() {
		if err != nil {
			return false, err
		}
		if s.ReturnExpired || !s.expired(e.Value.LastAccess) {
			return false, nil
		}
	}
	return true, nil
}

func (s *ttlMap[N, U, V]) All() iter.Seq2[MapEntry[U, V], error] {
	return func(yield func(MapEntry[U, V], error) bool) {
		var renew []MapEntry[U, serializer.TTLValue[V]]
		stopped := false
		for e, err := range s.m.All() {
			if err != nil {
				yield(MapEntry[U, V]{}, err)
				return
			}
			expired := s.expired(e.Value.LastAccess)
			if expired || s.OnRead {
				renew = append(renew, e)
			}
			if expired && !s.ReturnExpired {
				continue
			}
			if !yield(MapEntry[U, V]{e.Key, e.Value.Value}, nil) {
				stopped = true
				break
			}
		}
		// What was seen is renewed or removed afterwards, as the map must not be changed before.
		for _, e := range renew {
			held, ok, err := s.m.Get(e.Key)
			if err == nil && ok && held.LastAccess == e.Value.LastAccess {
				_, err = s.look(e.Key, held)
			}
			if err != nil {
				if !stopped {
					yield(MapEntry[U, V]{}, err)
				}
				return
			}
		}
	}
}
