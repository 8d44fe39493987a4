package heap

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// timers is a queue of timers. The shards say which timers there are; the
// queue only orders them, and may hold some that were deleted.
type timers[K, N comparable] struct {
	b         *Backend[K]
	state     *backend.State
	namespace serializer.Codec[N]
	odd       func(N) bool // see oddOf
	shards    []shard[K, timerID[N], struct{}]
	queue     timerQueue[K, N]
	stale     int // timers of the queue that were deleted
}

// timerID is what tells apart the timers of a key.
type timerID[N comparable] struct {
	namespace N
	timestamp int64
}

type queued[K, N comparable] struct {
	id[K, timerID[N]]
	group int // index of the shard
}

// timerQueue implements heap.Interface.
type timerQueue[K, N comparable] []queued[K, N]

func (q timerQueue[K, N]) Len() int { return len(q) }
func (q timerQueue[K, N]) Less(i, j int) bool {
	return q[i].namespace.timestamp < q[j].namespace.timestamp
}
func (q timerQueue[K, N]) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timerQueue[K, N]) Push(t any)   { *q = append(*q, t.(queued[K, N])) }
func (q *timerQueue[K, N]) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	*q = (*q)[:last]
	return t
}

// OpenTimers opens a queue of timers.
func OpenTimers[K, N comparable](b *Backend[K], d backend.TimersDescriptor[N]) (backend.Timers[K, N], error) {
	meta := backend.NewTimersMeta(d.StateName(), serializer.ForTimer(b.key, d.Namespace).Snapshot())
	t := &timers[K, N]{
		b: b, state: backend.NewState(&meta, b.key.Snapshot()), namespace: d.Namespace, odd: oddOf[N](),
		shards: make([]shard[K, timerID[N], struct{}], b.groups.Len()),
	}
	err := backend.Plain[N]("namespace")
	if err == nil {
		err = b.enter(t)
	}
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", meta.Name, err)
	}
	return t, nil
}

func (t *timers[K, N]) Register(n N, timestamp int64) error {
	if t.b.group < 0 {
		return t.b.noKey()
	}
	if t.odd != nil && t.odd(n) {
		return oddError("namespace", n)
	}
	t.add(t.b.group, id[K, timerID[N]]{key: t.b.current, namespace: timerID[N]{timestamp: timestamp, namespace: n}})
	return nil
}

func (t *timers[K, N]) add(group int, at id[K, timerID[N]]) {
	s := &t.shards[group]
	if _, ok := s.get(at); ok {
		return
	}
	s.put(at, struct{}{})
	heap.Push(&t.queue, queued[K, N]{at, group})
}

func (t *timers[K, N]) Delete(n N, timestamp int64) error {
	if t.b.group < 0 {
		return t.b.noKey()
	}
	at := id[K, timerID[N]]{key: t.b.current, namespace: timerID[N]{timestamp: timestamp, namespace: n}}
	s := &t.shards[t.b.group]
	if _, ok := s.get(at); !ok {
		return nil
	}
	s.delete(at)
	if t.stale++; t.stale > 1024 && t.stale > len(t.queue)/2 {
		t.rebuild()
	}
	return nil
}

// rebuild makes the queue anew of the timers that there are.
func (t *timers[K, N]) rebuild() {
	t.queue, t.stale = t.queue[:0], 0
	for g := range t.shards {
		for at := range t.shards[g].all() {
			t.queue = append(t.queue, queued[K, N]{at, g})
		}
	}
	t.queue = slices.Clip(t.queue)
	heap.Init(&t.queue)
}

// next gives the earliest timer that was not deleted.
func (t *timers[K, N]) next() (queued[K, N], bool) {
	for len(t.queue) > 0 {
		if _, ok := t.shards[t.queue[0].group].get(t.queue[0].id); ok {
			return t.queue[0], true
		}
		heap.Pop(&t.queue)
		t.stale = max(t.stale-1, 0)
	}
	return queued[K, N]{}, false
}

func (t *timers[K, N]) Next() (int64, bool, error) {
	if t.b.closed {
		return 0, false, backend.ErrClosed
	}
	q, ok := t.next()
	return q.namespace.timestamp, ok, nil
}

func (t *timers[K, N]) Advance(timestamp int64) iter.Seq2[serializer.TimerValue[K, N], error] {
	return func(yield func(serializer.TimerValue[K, N], error) bool) {
		for {
			if t.b.closed {
				yield(serializer.TimerValue[K, N]{}, backend.ErrClosed)
				return
			}
			q, ok := t.next()
			if !ok || q.namespace.timestamp > timestamp {
				return
			}
			heap.Pop(&t.queue)
			t.shards[q.group].delete(q.id)
			t.b.setKey(q.key, q.group)
			if !yield(timerValue(q.id), nil) {
				return
			}
		}
	}
}

func timerValue[K, N comparable](at id[K, timerID[N]]) serializer.TimerValue[K, N] {
	return serializer.TimerValue[K, N]{Timestamp: at.namespace.timestamp, Key: at.key, Namespace: at.namespace.namespace}
}

func (t *timers[K, N]) All() iter.Seq2[serializer.TimerValue[K, N], error] {
	return func(yield func(serializer.TimerValue[K, N], error) bool) {
		if t.b.closed {
			yield(serializer.TimerValue[K, N]{}, backend.ErrClosed)
			return
		}
		for g := range t.shards {
			for at := range t.shards[g].all() {
				if !yield(timerValue(at), nil) {
					return
				}
				if t.b.closed {
					yield(serializer.TimerValue[K, N]{}, backend.ErrClosed)
					return
				}
			}
		}
	}
}

func (t *timers[K, N]) meta() *backend.State { return t.state }
func (t *timers[K, N]) close()               { t.shards, t.queue = nil, nil }

func (t *timers[K, N]) len() int64 {
	n := 0
	for g := range t.shards {
		n += t.shards[g].len()
	}
	return int64(n)
}

func (t *timers[K, N]) keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for g := range t.shards {
			for at := range t.shards[g].all() {
				if !yield(at.key) {
					return
				}
			}
		}
	}
}

func (t *timers[K, N]) load(group int, e *backend.Entry, r *restored) error {
	key, err := t.b.readKey(r, e.Key)
	if err != nil {
		return err
	}
	in := r.input(e.Namespace)
	n := readAs(r.namespace, t.namespace, in)
	if err := in.Finish(); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if t.odd != nil && t.odd(n) {
		return oddError("namespace", n)
	}
	t.add(group, id[K, timerID[N]]{key: key, namespace: timerID[N]{timestamp: e.Timestamp, namespace: n}})
	return nil
}

func (t *timers[K, N]) adapt(old *backend.State, r *restored) error {
	return adaptState(t.namespace, t.state, old, r)
}

func (t *timers[K, N]) freeze() frozenTable {
	f := &frozenTimers[K, N]{timers: t, shards: make([]frozenShard[K, timerID[N], struct{}], len(t.shards))}
	for g := range t.shards {
		f.shards[g] = t.shards[g].freeze()
	}
	return f
}

func (t *timers[K, N]) view() frozenTable {
	f := &frozenTimers[K, N]{timers: t, shards: make([]frozenShard[K, timerID[N], struct{}], len(t.shards))}
	for g := range t.shards {
		f.shards[g] = t.shards[g].view()
	}
	return f
}

// frozenTimers is a queue of timers as it was.
type frozenTimers[K, N comparable] struct {
	timers *timers[K, N]
	shards []frozenShard[K, timerID[N], struct{}]
}

func (f *frozenTimers[K, N]) meta() *backend.State { return f.timers.state }
func (f *frozenTimers[K, N]) release(group int)    { f.shards[group].release() }

func (f *frozenTimers[K, N]) each(group int, yield func(timestamp int64, key, namespace []byte) bool) error {
	var out serializer.Output
	for at := range f.shards[group].all() {
		out.Reset()
		f.timers.b.key.Write(&out, at.key)
		n := out.Len()
		f.timers.namespace.Write(&out, at.namespace.namespace)
		if out.Err() != nil {
			return fmt.Errorf("state %q, key group %d: %w", f.timers.state.Meta.Name, f.timers.b.groups.Start+group, out.Err())
		}
		if !yield(at.namespace.timestamp, out.Bytes()[:n:n], out.Bytes()[n:]) {
			break
		}
	}
	return nil
}

func (f *frozenTimers[K, N]) entries(group int, yield func(key, value []byte) bool) error {
	var joined []byte
	return f.each(group, func(timestamp int64, key, namespace []byte) bool {
		joined = backend.AppendTimer(joined[:0], timestamp, key, namespace)
		return yield(joined, nil)
	})
}

func (f *frozenTimers[K, N]) native(group int, w *backend.HeapWriter) error {
	var failed error
	err := f.each(group, func(timestamp int64, key, namespace []byte) bool {
		failed = w.Timer(timestamp, key, namespace)
		return failed == nil
	})
	return cmp.Or(err, failed)
}

func (f *frozenTimers[K, N]) parts(group int, yield func(*backend.Entry) bool) error {
	e := &backend.Entry{State: f.timers.state, KeyGroup: f.timers.b.groups.Start + group}
	return f.each(group, func(timestamp int64, key, namespace []byte) bool {
		e.Timestamp, e.Key, e.Namespace = timestamp, key, namespace
		return yield(e)
	})
}
