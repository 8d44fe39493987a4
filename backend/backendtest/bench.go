package backendtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// Sizes of the benchmarks, those of Flink's state benchmarks.
const (
	benchKeys   = 500_000
	benchMap    = 10  // entries of a map
	benchList   = 100 // elements that are added at once, and those of long lists
	benchValues = 1_000_000
)

// Benchmark is one of Flink's state benchmarks (ValueStateBenchmark and so on of flink-benchmarks), on a backend
// that was filled for it. It goes on where the lap before ended, so that all are about the same state.
type Benchmark struct {
	Name string
	// Calls is the number of calls of a lap, Operations what each counts for.
	Calls, Operations int

	world   *benchWorld
	prepare func(from int) error
	call    func(i int) error
	at      int
}

// Prepare makes ready for the next lap. It is not to be measured.
func (b *Benchmark) Prepare() error {
	if err := b.world.ready(); err != nil || b.prepare == nil {
		return err
	}
	return b.prepare(b.at)
}

// Lap does a lap's calls, or the first n of them if they are more.
func (b *Benchmark) Lap(n int) error {
	n = min(n, b.Calls)
	for i := b.at; i < b.at+n; i++ {
		if err := b.call(i); err != nil {
			return err
		}
	}
	b.at = (b.at + n) % (benchKeys * benchMap)
	return nil
}

// Benchmarks hands the benchmarks to measure, one after the other. calls is the number of calls of a lap, which is less for
// those of several operations. open gives empty backends for all of [MaxParallelism] key groups, one at a time; Benchmarks closes them.
func Benchmarks(calls int, open func() (backend.Keyed[int64], error), measure func(*Benchmark) error) error {
	w := newBenchWorld(calls, open)
	for _, group := range []func() []*Benchmark{
		w.values,
		func() []*Benchmark { return w.lists("", 1) },
		func() []*Benchmark { return w.lists("/100", benchList) },
		w.maps,
	} {
		if err := w.run(group(), measure); err != nil {
			return err
		}
	}
	return nil
}

// RunBenchmarks runs all of them as benchmarks of package testing, about one operation each.
func RunBenchmarks(b *testing.B, open func(testing.TB) backend.Keyed[int64]) {
	err := Benchmarks(benchKeys, func() (backend.Keyed[int64], error) { return open(b), nil }, func(m *Benchmark) error {
		b.Run(m.Name, func(b *testing.B) {
			b.ReportAllocs()
			for left := (b.N + m.Operations - 1) / m.Operations; left > 0; left -= m.Calls {
				b.StopTimer()
				must(b, m.Prepare())
				b.StartTimer()
				must(b, m.Lap(left))
			}
		})
		return nil
	})
	must(b, err)
}

// benchWorld is a backend with what the benchmarks put into it.
type benchWorld struct {
	calls     int
	empty     func() (backend.Keyed[int64], error)
	random    *rand.Rand
	setUpKeys []int64
	newKeys   []int64
	mapKeys   []int64
	mapValues []float64
	numbers   []int64
	hundred   []int64

	b     backend.Keyed[int64]
	value backend.Value[void, int64]
	list  backend.List[void, int64]
	table backend.Map[void, int64, float64]
	fill  func() error
	sink  int64 // keeps what was read from being optimized away
}

func newBenchWorld(calls int, open func() (backend.Keyed[int64], error)) *benchWorld {
	w := &benchWorld{calls: calls, empty: open, random: rand.New(rand.NewPCG(42, 0))}
	w.setUpKeys, w.newKeys = w.shuffled(0, benchKeys), w.shuffled(benchKeys, benchKeys)
	w.mapKeys, w.numbers = w.shuffled(0, benchMap), w.shuffled(0, benchValues)
	for range benchMap {
		w.mapValues = append(w.mapValues, w.random.Float64())
	}
	for range benchList {
		w.hundred = append(w.hundred, w.random.Int64())
	}
	return w
}

func (w *benchWorld) shuffled(from int64, n int) []int64 {
	a := make([]int64, n)
	for i, v := range w.random.Perm(n) {
		a[i] = from + int64(v)
	}
	return a
}

// run runs benchmarks that share a backend.
func (w *benchWorld) run(all []*Benchmark, measure func(*Benchmark) error) error {
	for _, m := range all {
		m.world = w
		if err := measure(m); err != nil {
			return err
		}
	}
	if w.b == nil {
		return nil
	}
	err := w.b.Close()
	w.b = nil
	return err
}

// ready opens and fills the backend, if it is not yet.
func (w *benchWorld) ready() (err error) {
	if w.b != nil {
		return nil
	}
	if w.b, err = w.empty(); err != nil {
		return err
	}
	long, none := serializer.ForLong(), serializer.ForVoidNamespace()
	if w.value, err = state.OpenValue(w.b, backend.Descriptor[void, int64]{Name: "kvState", Namespace: none, Value: long}); err != nil {
		return err
	}
	if w.list, err = state.OpenList(w.b, backend.Descriptor[void, int64]{Name: "listState", Namespace: none, Value: long}); err != nil {
		return err
	}
	w.table, err = state.OpenMap(w.b, backend.MapDescriptor[void, int64, float64]{
		Name: "mapState", Namespace: none, UserKey: long, Value: serializer.ForDouble(),
	})
	if err != nil {
		return err
	}
	return w.fill()
}

// old and young make calls with a key that was there from the beginning, and with one that wasn't.
func (w *benchWorld) old(call func(i int) error) func(i int) error {
	return w.with(w.setUpKeys, call)
}

func (w *benchWorld) young(call func(i int) error) func(i int) error {
	return w.with(w.newKeys, call)
}

func (w *benchWorld) with(keys []int64, call func(i int) error) func(i int) error {
	return func(i int) error {
		if err := w.b.SetKey(keys[i%benchKeys]); err != nil {
			return err
		}
		return call(i)
	}
}

// all calls f for each key that is there from the beginning.
func (w *benchWorld) all(f func() error) error {
	for k := range int64(benchKeys) {
		if err := w.b.SetKey(k); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// without has the keys that a lap adds cleared before.
func (w *benchWorld) without(clear func() error) func(from int) error {
	return func(from int) error {
		for i := from; i < from+min(w.calls, benchKeys); i++ {
			if err := w.b.SetKey(w.newKeys[i%benchKeys]); err != nil {
				return err
			}
			if err := clear(); err != nil {
				return err
			}
		}
		return nil
	}
}

// refill fills again after ten passes over the keys.
func (w *benchWorld) refill(from int) error {
	if from > 0 {
		return nil
	}
	return w.fill()
}

// compact compacts a backend that can, as Flink's benchmarks do after they have filled it.
func (w *benchWorld) compact() error {
	b, ok := w.b.(interface{ Compact(context.Context) error })
	if !ok {
		return nil
	}
	return b.Compact(context.Background())
}

func (w *benchWorld) number(i int) int64 { return w.numbers[i%benchValues] }

func (w *benchWorld) values() []*Benchmark {
	w.fill = func() error { return w.all(func() error { return w.value.Set(w.random.Int64()) }) }
	set := func(i int) error { return w.value.Set(w.number(i)) }
	return []*Benchmark{
		{Name: "valueUpdate", Calls: w.calls, Operations: 1, call: w.old(set)},
		{Name: "valueGet", Calls: w.calls, Operations: 1, call: w.old(func(int) error {
			v, _, err := w.value.Get()
			w.sink += v
			return err
		})},
		{
			Name: "valueAdd", Calls: min(w.calls, benchKeys), Operations: 1, call: w.young(set),
			prepare: w.without(func() error { return w.value.Clear() }),
		},
	}
}

// lists are benchmarks of lists that begin with size elements.
func (w *benchWorld) lists(suffix string, size int) []*Benchmark {
	first, calls := make([]int64, size), w.calls
	w.fill = func() error {
		err := w.all(func() error {
			for i := range first {
				first[i] = w.random.Int64()
			}
			return w.list.Set(first)
		})
		return errors.Join(err, w.compact())
	}
	if size > 1 {
		calls /= 5
	}
	one := make([]int64, 1)
	set := func(i int) error {
		one[0] = w.number(i)
		return w.list.Set(one)
	}
	all := []*Benchmark{
		{Name: "listGet", Calls: calls, call: w.old(func(int) error {
			l, err := w.list.Get()
			if l != nil {
				w.sink++
			}
			return err
		})},
		{Name: "listGetAndIterate", Calls: calls, call: w.old(func(int) error {
			l, err := w.list.Get()
			for _, v := range l {
				w.sink += v
			}
			return err
		})},
		{Name: "listAppend", Calls: calls, prepare: w.refill, call: w.old(func(i int) error { return w.list.Add(w.number(i)) })},
		{Name: "listUpdate", Calls: calls, prepare: w.refill, call: w.old(set)},
	}
	if size == 1 {
		all = append(all,
			&Benchmark{Name: "listAdd", Calls: min(calls, benchKeys), prepare: w.without(func() error { return w.list.Clear() }), call: w.young(set)},
			&Benchmark{Name: "listAddAll", Calls: calls / 5, prepare: w.refill, call: w.old(func(int) error { return w.list.Add(w.hundred...) })})
	}
	for _, m := range all {
		m.Name += suffix
		m.Operations = 1
	}
	return all
}

// maps are benchmarks of maps. Each pass over the keys takes the next user key, so that mapRemove always finds its entry.
func (w *benchWorld) maps() []*Benchmark {
	user := func(i int) int64 { return w.mapKeys[(i+i/benchKeys)%benchMap] }
	w.fill = func() error {
		err := w.all(func() error {
			for _, u := range w.mapKeys {
				if err := w.table.Put(u, w.random.Float64()); err != nil {
					return err
				}
			}
			return nil
		})
		return errors.Join(err, w.compact())
	}
	put := func(i int) error { return w.table.Put(user(i), w.mapValues[i%benchMap]) }
	found := func(is bool, err error) error {
		if is {
			w.sink++
		}
		return err
	}
	iterate := func(of func(backend.MapEntry[int64, float64]) int64) func(int) error {
		return func(int) error {
			for e, err := range w.table.All() {
				if err != nil {
					return err
				}
				w.sink += of(e)
			}
			return nil
		}
	}
	both := func(e backend.MapEntry[int64, float64]) int64 { return e.Key + int64(e.Value) }
	one := func(name string, call func(int) error) *Benchmark {
		return &Benchmark{Name: name, Calls: w.calls, Operations: 1, call: w.old(call)}
	}
	ten := func(name string, call func(int) error) *Benchmark {
		return &Benchmark{Name: name, Calls: w.calls / 5, Operations: benchMap, call: w.old(call)}
	}
	add := one("mapAdd", nil)
	add.Calls, add.prepare, add.call = min(w.calls, benchKeys), w.without(func() error { return w.table.Clear() }), w.young(put)
	remove := one("mapRemove", func(i int) error { return w.table.Delete(user(i)) })
	remove.prepare = w.refill
	return []*Benchmark{
		one("mapGet", func(i int) error {
			_, ok, err := w.table.Get(user(i))
			return found(ok, err)
		}),
		one("mapContains", func(i int) error { return found(w.table.Has(user(i) << 1)) }),
		one("mapIsEmpty", func(int) error { return found(w.table.Empty()) }),
		ten("mapKeys", iterate(func(e backend.MapEntry[int64, float64]) int64 { return e.Key })),
		ten("mapValues", iterate(func(e backend.MapEntry[int64, float64]) int64 { return int64(e.Value) })),
		ten("mapEntries", iterate(both)),
		ten("mapIterator", iterate(both)),
		one("mapUpdate", put),
		ten("mapPutAll", func(int) error {
			for i, u := range w.mapKeys {
				if err := w.table.Put(u, w.mapValues[i]); err != nil {
					return err
				}
			}
			return nil
		}),
		add,
		remove,
	}
}
