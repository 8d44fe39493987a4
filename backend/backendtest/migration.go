package backendtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// visit is a class in its first version, visitNow in its second: cost has gone, note has come.
type (
	visit struct {
		ID   int64
		Kind string
		Cost float64
	}
	visitNow struct {
		ID   int64
		Kind string
		Note *string
	}
)

const visitClass = "com.example.Visit"

// kindsThen and kindsNow are the constants of an enum, which stand in another order in its second version.
var (
	kindsThen = serializer.ForEnum("com.example.Kind", "A", "B")
	kindsNow  = serializer.ForEnum("com.example.Kind", "B", "C", "A")
)

func visitCodec() serializer.Codec[visit] {
	return serializer.ForPojo(visitClass,
		serializer.NewMember("cost", serializer.ForDouble(), func(v *visit) *float64 { return &v.Cost }),
		serializer.NewMember("id", serializer.ForLong(), func(v *visit) *int64 { return &v.ID }),
		serializer.NewMember("kind", kindsThen, func(v *visit) *string { return &v.Kind }))
}

func visitNowCodec() serializer.Codec[visitNow] {
	return serializer.ForPojo(visitClass,
		serializer.NewMember("id", serializer.ForLong(), func(v *visitNow) *int64 { return &v.ID }),
		serializer.NewMember("kind", kindsNow, func(v *visitNow) *string { return &v.Kind }),
		serializer.NewNullMember("note", serializer.ForString(), func(v *visitNow) **string { return &v.Note }))
}

// evolved are states whose values are of one version of the class, in namespaces that are of the enum.
type evolved[V any] struct {
	value  backend.Value[string, V]
	list   backend.List[string, V]
	table  backend.Map[string, string, V]
	last   backend.Reducing[string, V]
	timers backend.Timers[string, string]
	ttl    backend.Value[string, V]
}

func openEvolved[V any](t tb, b backend.Keyed[string], c serializer.Codec[V], kinds serializer.Codec[string], ttl *backend.TTL) *evolved[V] {
	t.Helper()
	d := func(name string) backend.Descriptor[string, V] {
		return backend.Descriptor[string, V]{Name: name, Namespace: kinds, Value: c}
	}
	aged := d("aged")
	aged.TTL = ttl
	e := new(evolved[V])
	var errs [6]error
	e.value, errs[0] = state.OpenValue(b, d("value"))
	e.list, errs[1] = state.OpenList(b, d("list"))
	e.table, errs[2] = state.OpenMap(b, backend.MapDescriptor[string, string, V]{Name: "table", Namespace: kinds, UserKey: serializer.ForString(), Value: c})
	e.last, errs[3] = state.OpenReducing(b, backend.ReducingDescriptor[string, V]{Descriptor: d("last"), Reduce: func(_, v V) (V, error) { return v, nil }})
	e.timers, errs[4] = state.OpenTimers(b, backend.TimersDescriptor[string]{Service: "timers", Namespace: kinds})
	e.ttl, errs[5] = state.OpenValue(b, aged)
	must(t, errors.Join(errs[:]...))
	return e
}

// fill puts values into all states; of gives the value with a number.
func (e *evolved[V]) fill(t tb, b backend.Keyed[string], of func(i int) V) {
	t.Helper()
	for i, k := range someKeys {
		must(t, b.SetKey(k))
		for _, n := range []string{"A", "B"} {
			e.value.SetNamespace(n)
			e.list.SetNamespace(n)
			e.table.SetNamespace(n)
			e.last.SetNamespace(n)
			e.ttl.SetNamespace(n)
			must(t, e.value.Set(of(i)))
			must(t, e.list.Add(of(i), of(i+1)))
			must(t, e.list.Add(of(i+2)))
			must(t, e.table.Put("x", of(i)))
			must(t, e.table.Put("y", of(i+1)))
			must(t, e.last.Add(of(i)))
			must(t, e.timers.Register(n, int64(i)))
			must(t, e.ttl.Set(of(i)))
		}
	}
}

func (e *evolved[V]) check(t tb, what string, b backend.Keyed[string], of func(i int) V) {
	t.Helper()
	for i, k := range someKeys {
		must(t, b.SetKey(k))
		for _, n := range []string{"A", "B"} {
			at := fmt.Sprintf("%s: key %q, namespace %s", what, k, n)
			e.value.SetNamespace(n)
			e.list.SetNamespace(n)
			e.table.SetNamespace(n)
			e.last.SetNamespace(n)
			e.ttl.SetNamespace(n)
			for name, get := range map[string]func() (V, bool, error){"value": e.value.Get, "last": e.last.Get, "aged": e.ttl.Get} {
				v, ok, err := get()
				if must(t, err); !ok {
					t.Fatalf("%s: no %s", at, name)
				}
				equal(t, at+": "+name, v, of(i))
			}
			equal(t, at+": list", made[[]V](t)(e.list.Get()), []V{of(i), of(i + 1), of(i + 2)})
			equal(t, at+": table", content(t, e.table), map[string]V{"x": of(i), "y": of(i + 1)})
		}
	}
	got := map[string]int64{}
	for v, err := range e.timers.All() {
		must(t, err)
		got[v.Key+" "+v.Namespace] = v.Timestamp
	}
	want := map[string]int64{}
	for i, k := range someKeys {
		want[k+" A"], want[k+" B"] = int64(i), int64(i)
	}
	equal(t, what+": timers", got, want)
}

// testMigration restores states whose serializers have changed since, in the ways that Flink allows.
func testMigration(t *testing.T, open Opener, restorers map[string]Opener) {
	then := func(i int) visit { return visit{ID: int64(i), Kind: "AB"[i%2 : i%2+1], Cost: 1.5} }
	now := func(i int) visitNow { return visitNow{ID: int64(i), Kind: "AB"[i%2 : i%2+1]} }
	clock := int64(5000)
	tick := func() int64 { return clock }
	ttl := &backend.TTL{After: lifetime * time.Millisecond, CleanUp: 1}
	for _, was := range []*backend.TTL{nil, ttl} {
		clock = 5000
		source := open(t, All, tick)
		openEvolved(t, source, visitCodec(), kindsThen, was).fill(t, source, then)
		for _, format := range formats {
			clock = 5000
			fs := storage.NewMemory()
			h := save(t, source, fs, inline, backend.SnapshotOptions{Format: format})
			eachKind(restorers, func(name string, other Opener) {
				if foreign(t, other, fs, h) {
					return
				}
				for _, is := range []*backend.TTL{nil, ttl} {
					for _, before := range []bool{false, true} {
						what := fmt.Sprintf("format %v, restored by %s, opened before %v, time to live %v, and before %v", format, name, before, is != nil, was != nil)
						clock = 5000
						b := other(t, All, tick)
						var e *evolved[visitNow]
						if before {
							e = openEvolved(t, b, visitNowCodec(), kindsNow, is)
						}
						if was == nil {
							clock = 9000 // which is when the time to live begins
						}
						must(t, restore(b, fs, h))
						if !before {
							e = openEvolved(t, b, visitNowCodec(), kindsNow, is)
						}
						clock += lifetime - 1
						e.check(t, what, b, now)
						// What is written from now on is of the new version, as if there had been no other.
						second := storage.NewMemory()
						g := save(t, b, second, inline, backend.SnapshotOptions{Format: format})
						must(t, b.Close())
						reopen := open
						if foreign(t, open, second, g) {
							reopen = other
						}
						again := reopen(t, All, tick)
						must(t, restore(again, second, g))
						f := openEvolved(t, again, visitNowCodec(), kindsNow, is)
						f.check(t, what+", and again", again, now)
						if clock++; is != nil {
							must(t, again.SetKey(someKeys[0]))
							if _, ok, err := f.ttl.Get(); ok || err != nil {
								t.Fatalf("%s: when the time has come: %v, %v", what, ok, err)
							}
						}
						must(t, again.Close())
					}
				}
			})
		}
		must(t, source.Close())
	}
}

// testNoMigration opens states with serializers that they can't be migrated to.
func testNoMigration(t *testing.T, open Opener) {
	source := open(t, All, nil)
	void := serializer.ForVoidNamespace()
	table := func(c serializer.Codec[serializer.Tuple1[string]]) backend.MapDescriptor[struct{}, serializer.Tuple1[string], int64] {
		return backend.MapDescriptor[struct{}, serializer.Tuple1[string], int64]{Name: "table", Namespace: void, UserKey: c, Value: serializer.ForLong()}
	}
	m := made[backend.Map[struct{}, serializer.Tuple1[string], int64]](t)(state.OpenMap(source, table(serializer.ForTuple1(kindsThen))))
	v := made[backend.Value[visit, int64]](t)(state.OpenValue(source, backend.Descriptor[visit, int64]{Name: "value", Namespace: visitCodec(), Value: serializer.ForLong()}))
	must(t, source.SetKey("k"))
	must(t, m.Put(serializer.Tuple1[string]{F0: "B"}, 6))
	v.SetNamespace(visit{ID: 1, Kind: "B"})
	must(t, v.Set(7))
	fs := storage.NewMemory()
	h := save(t, source, fs, inline, backend.SnapshotOptions{})
	type bare struct {
		ID   int64
		Kind string
	}
	bareCodec := serializer.ForPojo(visitClass,
		serializer.NewMember("id", serializer.ForLong(), func(v *bare) *int64 { return &v.ID }),
		serializer.NewMember("kind", kindsThen, func(v *bare) *string { return &v.Kind }))
	for why, open2 := range map[string]func(b backend.Keyed[string]) error{
		`state "table": user key: `: func(b backend.Keyed[string]) error {
			_, err := state.OpenMap(b, table(serializer.ForTuple1(kindsNow)))
			return err
		},
		`state "value": namespace: `: func(b backend.Keyed[string]) error {
			_, err := state.OpenValue(b, backend.Descriptor[bare, int64]{Name: "value", Namespace: bareCodec, Value: serializer.ForLong()})
			return err
		},
		`state "value": value: `: func(b backend.Keyed[string]) error {
			_, err := state.OpenValue(b, backend.Descriptor[visit, string]{Name: "value", Namespace: visitCodec(), Value: serializer.ForString()})
			return err
		},
	} {
		b := open(t, All, nil)
		must(t, restore(b, fs, h))
		if err := open2(b); !errors.Is(err, backend.ErrIncompatible) || !strings.HasPrefix(err.Error(), why) {
			t.Errorf("%q, opened after: %v", why, err)
		}
		// What was restored is still there.
		v := made[backend.Value[visit, int64]](t)(state.OpenValue(b, backend.Descriptor[visit, int64]{Name: "value", Namespace: visitCodec(), Value: serializer.ForLong()}))
		must(t, b.SetKey("k"))
		v.SetNamespace(visit{ID: 1, Kind: "B"})
		if n, ok, err := v.Get(); n != 7 || !ok || err != nil {
			t.Errorf("%q: then %v, %v, %v", why, n, ok, err)
		}
		b = open(t, All, nil)
		must(t, open2(b))
		if err := restore(b, fs, h); !errors.Is(err, backend.ErrIncompatible) || !strings.HasPrefix(err.Error(), why) {
			t.Errorf("%q, opened before: %v", why, err)
		}
		must(t, b.Close())
	}
}
