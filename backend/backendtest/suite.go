package backendtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// MaxParallelism is that of all backends of the suite.
const MaxParallelism = 128

// All are the key groups of a subtask that is alone.
var All = keygroup.RangeOf(0, MaxParallelism, 1)

// Opener makes an empty backend of the kind that is tested, for keys that are
// strings. It has t close the backend at last, but it may be closed before. A nil clock is that of the machine.
type Opener func(t testing.TB, groups keygroup.Range, clock backend.Clock) backend.Keyed[string]

// Run tests backends as open makes them. Each snapshot is restored by open and by each of
// others, which are backends of other kinds. If tests are named, only these are run.
func Run(t *testing.T, open Opener, others map[string]Opener, only ...string) {
	restorers := map[string]Opener{"itself": open}
	maps.Copy(restorers, others)
	n := 0
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"Value", func(t *testing.T) { testValue(t, open) }},
		{"List", func(t *testing.T) { testList(t, open) }},
		{"Map", func(t *testing.T) { testMap(t, open) }},
		{"Reducing", func(t *testing.T) { testReducing(t, open) }},
		{"Aggregating", func(t *testing.T) { testAggregating(t, open) }},
		{"Timers", func(t *testing.T) { testTimers(t, open) }},
		{"Namespaces", func(t *testing.T) { testNamespaces(t, open) }},
		{"TTL", func(t *testing.T) { testTTL(t, open) }},
		{"Keys", func(t *testing.T) { testKeys(t, open) }},
		{"Misuse", func(t *testing.T) { testMisuse(t, open) }},
		{"CloseWithin", func(t *testing.T) { testCloseWithin(t, open) }},
		{"Nulls", func(t *testing.T) { testNulls(t, open) }},
		{"Memory", func(t *testing.T) { testMemory(t, open) }},
		{"Snapshots", func(t *testing.T) { testSnapshots(t, open, restorers) }},
		{"SameBytes", func(t *testing.T) { testSameBytes(t, restorers) }},
		{"Rescale", func(t *testing.T) { testRescale(t, restorers) }},
		{"Clipping", func(t *testing.T) { testClipping(t, open) }},
		{"Unopened", func(t *testing.T) { testUnopened(t, open, restorers) }},
		{"Consistency", func(t *testing.T) { testConsistency(t, open) }},
		{"Synchronous", func(t *testing.T) { testSynchronous(t, open) }},
		{"Overlap", func(t *testing.T) { testOverlap(t, open) }},
		{"Release", func(t *testing.T) { testRelease(t, open) }},
		{"RestoreLate", func(t *testing.T) { testRestoreLate(t, open) }},
		{"Incompatible", func(t *testing.T) { testIncompatible(t, open) }},
		{"Migration", func(t *testing.T) { testMigration(t, open, restorers) }},
		{"NoMigration", func(t *testing.T) { testNoMigration(t, open) }},
		{"Foreign", func(t *testing.T) { testForeign(t, open) }},
		{"Faults", func(t *testing.T) { testFaults(t, open) }},
		{"Canceled", func(t *testing.T) { testCanceled(t, open) }},
		{"Damaged", func(t *testing.T) { testDamaged(t, open) }},
		{"Model", func(t *testing.T) { testModel(t, restorers) }},
		{"Incremental", func(t *testing.T) { testIncremental(t, open) }},
	} {
		if len(only) == 0 || slices.Contains(only, test.name) {
			n++
			t.Run(test.name, test.run)
		}
	}
	if len(only) > 0 && n != len(only) {
		t.Errorf("%d tests were run of %q", n, only)
	}
}

// void is the namespace of state without one.
type void = struct{}

func value[V any](name string, c serializer.Codec[V]) backend.Descriptor[void, V] {
	return backend.Descriptor[void, V]{Name: name, Namespace: serializer.ForVoidNamespace(), Value: c}
}

// tb is what a [testing.TB] and a [rapid.T] have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// made gives the first argument, and fails the test if the second is an error.
func made[T any](t tb) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func equal(t tb, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func testValue(t *testing.T, open Opener) {
	b := open(t, All, nil)
	v := made[backend.Value[void, int64]](t)(state.OpenValue(b, value("value", serializer.ForLong())))
	for i, key := range []string{"a", "b", ""} {
		must(t, b.SetKey(key))
		equal(t, "key", b.Key(), key)
		if n, ok, err := v.Get(); n != 0 || ok || err != nil {
			t.Fatalf("before: %v, %v, %v", n, ok, err)
		}
		must(t, v.Set(int64(i)))
		must(t, v.Set(int64(i+10)))
	}
	for i, key := range []string{"a", "b", ""} {
		must(t, b.SetKey(key))
		if n, ok, err := v.Get(); n != int64(i+10) || !ok || err != nil {
			t.Fatalf("key %q: %v, %v, %v", key, n, ok, err)
		}
	}
	must(t, v.Clear())
	must(t, v.Clear())
	if _, ok, err := v.Get(); ok || err != nil {
		t.Fatalf("after Clear: %v, %v", ok, err)
	}
	equal(t, "number", made[int64](t)(b.Len("value")), int64(2))
}

func testList(t *testing.T, open Opener) {
	b := open(t, All, nil)
	l := made[backend.List[void, string]](t)(state.OpenList(b, value("list", serializer.ForString())))
	must(t, b.SetKey("k"))
	get := func() []string { return made[[]string](t)(l.Get()) }
	equal(t, "before", get(), []string(nil))
	must(t, l.Add("a,", ""))
	must(t, l.Add())
	must(t, l.Add(","))
	equal(t, "added", get(), []string{"a,", "", ","})
	must(t, l.Set([]string{"z"}))
	must(t, l.Add("y"))
	equal(t, "set and added", get(), []string{"z", "y"})
	must(t, l.Set(nil))
	equal(t, "set to nothing", get(), []string(nil))
	for i := range 1000 {
		must(t, l.Add(fmt.Sprint(i)))
	}
	if got := get(); len(got) != 1000 || got[999] != "999" {
		t.Fatalf("%d elements", len(got))
	}
	must(t, l.Clear())
	equal(t, "cleared", get(), []string(nil))
}

func testMap(t *testing.T, open Opener) {
	b := open(t, All, nil)
	d := backend.MapDescriptor[void, string, int64]{Name: "map", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForString(), Value: serializer.ForLong()}
	m := made[backend.Map[void, string, int64]](t)(state.OpenMap(b, d))
	must(t, b.SetKey("other"))
	must(t, m.Put("x", -1))
	must(t, b.SetKey("k"))
	if !made[bool](t)(m.Empty()) {
		t.Fatal("not empty at first")
	}
	want := map[string]int64{}
	for i := range int64(600) { // enough to be cleared as a range
		u := fmt.Sprint(i)
		must(t, m.Put(u, i))
		want[u] = i
	}
	equal(t, "entries", content(t, m), want)
	must(t, m.Delete("7"))
	must(t, m.Delete("not there"))
	delete(want, "7")
	if made[bool](t)(m.Has("7")) || !made[bool](t)(m.Has("8")) {
		t.Fatal("Has")
	}
	if n, ok, err := m.Get("9"); n != 9 || !ok || err != nil {
		t.Fatalf("Get: %v, %v, %v", n, ok, err)
	}
	if _, ok, err := m.Get("7"); ok || err != nil {
		t.Fatalf("Get of what is gone: %v, %v", ok, err)
	}
	equal(t, "entries", content(t, m), want)
	for e, err := range m.All() {
		must(t, err)
		must(t, m.Delete(e.Key))
	}
	if !made[bool](t)(m.Empty()) {
		t.Fatal("not empty when all was deleted")
	}
	must(t, m.Put("a", 1))
	must(t, m.Put("b", 2))
	must(t, m.Clear())
	equal(t, "cleared", content(t, m), map[string]int64{})
	must(t, b.SetKey("other"))
	equal(t, "another key", content(t, m), map[string]int64{"x": -1})
}

func content[N, U comparable, V any](t tb, m backend.Map[N, U, V]) map[U]V {
	t.Helper()
	got := map[U]V{}
	for e, err := range m.All() {
		must(t, err)
		if _, ok := got[e.Key]; ok {
			t.Fatalf("user key %v twice", e.Key)
		}
		got[e.Key] = e.Value
	}
	return got
}

func sum(a, b int64) (int64, error) { return a + b, nil }

var errNegative = errors.New("negative")

// average has an accumulator of count and sum.
func average(name string) backend.AggregatingDescriptor[string, int64, serializer.Tuple2[int64, int64], float64] {
	type acc = serializer.Tuple2[int64, int64]
	return backend.AggregatingDescriptor[string, int64, acc, float64]{
		Descriptor: backend.Descriptor[string, acc]{Name: name, Namespace: serializer.ForString(), Value: serializer.ForTuple2(serializer.ForLong(), serializer.ForLong())},
		Create:     func() acc { return acc{} },
		Add: func(a acc, n int64) (acc, error) {
			if n < 0 {
				return a, errNegative
			}
			return acc{F0: a.F0 + 1, F1: a.F1 + n}, nil
		},
		Merge:  func(a, b acc) (acc, error) { return acc{F0: a.F0 + b.F0, F1: a.F1 + b.F1}, nil },
		Result: func(a acc) (float64, error) { return float64(a.F1) / float64(a.F0), nil },
	}
}

func testReducing(t *testing.T, open Opener) {
	b := open(t, All, nil)
	d := backend.ReducingDescriptor[string, int64]{Descriptor: backend.Descriptor[string, int64]{Name: "sum", Namespace: serializer.ForString(), Value: serializer.ForLong()}, Reduce: sum}
	r := made[backend.Reducing[string, int64]](t)(state.OpenReducing(b, d))
	must(t, b.SetKey("k"))
	for i, n := range []string{"a", "b", "c"} {
		r.SetNamespace(n)
		must(t, r.Add(int64(i)))
		must(t, r.Add(10))
	}
	must(t, r.Merge("a", "b", "a", "none", "c", "b"))
	if n, ok, err := r.Get(); n != 33 || !ok || err != nil {
		t.Fatalf("merged: %v, %v, %v", n, ok, err)
	}
	r.SetNamespace("b")
	if _, ok, err := r.Get(); ok || err != nil {
		t.Fatalf("a source is still there: %v", err)
	}
	must(t, r.Merge("empty", "none"))
	if _, ok, err := r.Get(); ok || err != nil {
		t.Fatalf("merged of nothing: %v", err)
	}
}

func testAggregating(t *testing.T, open Opener) {
	b := open(t, All, nil)
	a := made[backend.Aggregating[string, int64, float64]](t)(state.OpenAggregating(b, average("average")))
	must(t, b.SetKey("k"))
	if _, ok, err := a.Get(); ok || err != nil {
		t.Fatalf("before: %v, %v", ok, err)
	}
	must(t, a.Add(1))
	must(t, a.Add(4))
	if err := a.Add(-1); !errors.Is(err, errNegative) {
		t.Fatalf("a function that fails: %v", err)
	}
	a.SetNamespace("other")
	must(t, a.Add(10))
	must(t, a.Merge("", "other"))
	if v, ok, err := a.Get(); v != 5 || !ok || err != nil {
		t.Fatalf("average %v, %v, %v", v, ok, err)
	}
	must(t, a.Clear())
	if _, ok, err := a.Get(); ok || err != nil {
		t.Fatalf("cleared: %v, %v", ok, err)
	}
}

func testTimers(t *testing.T, open Opener) {
	b := open(t, All, nil)
	q := made[backend.Timers[string, string]](t)(state.OpenTimers(b, backend.TimersDescriptor[string]{Service: "user-timers", Namespace: serializer.ForString()}))
	if _, ok, err := q.Next(); ok || err != nil {
		t.Fatalf("before: %v, %v", ok, err)
	}
	type timer = serializer.TimerValue[string, string]
	var want []timer
	for i := range 1000 {
		key, ts := fmt.Sprint(i%37), int64((i*7919)%1009-500) // also before 1970
		must(t, b.SetKey(key))
		must(t, q.Register("n", ts))
		must(t, q.Register("n", ts)) // no second one
		if i%10 == 0 {
			must(t, q.Delete("n", ts))
			must(t, q.Delete("n", ts))
			continue
		}
		want = append(want, timer{Timestamp: ts, Key: key, Namespace: "n"})
	}
	byTime := func(a, b timer) int { return int(a.Timestamp - b.Timestamp) }
	slices.SortFunc(want, byTime)
	if ts, ok, err := q.Next(); ts != want[0].Timestamp || !ok || err != nil {
		t.Fatalf("next: %v, %v, %v", ts, ok, err)
	}
	var all []timer
	for v, err := range q.All() {
		must(t, err)
		all = append(all, v)
	}
	slices.SortFunc(all, byTime)
	equal(t, "all", len(all), len(want))
	equal(t, "number", made[int64](t)(b.Len("_timer_state/event_user-timers")), int64(len(want)))
	var got []timer
	for v, err := range q.Advance(0) {
		must(t, err)
		equal(t, "the key that is set", b.Key(), v.Key)
		got = append(got, v)
		if v.Timestamp == want[0].Timestamp {
			// One that is registered meanwhile and is due comes, too.
			must(t, q.Register("late", v.Timestamp+1))
		}
	}
	late := timer{Timestamp: want[0].Timestamp + 1, Key: want[0].Key, Namespace: "late"}
	want = append(want, late)
	slices.SortStableFunc(want, byTime)
	due, _ := slices.BinarySearchFunc(want, 1, func(v timer, ts int) int { return int(v.Timestamp) - ts })
	if !slices.IsSortedFunc(got, byTime) {
		t.Fatal("not in order of time")
	}
	count := func(list []timer) map[timer]int {
		m := map[timer]int{}
		for _, v := range list {
			m[v]++
		}
		return m
	}
	equal(t, "due", count(got), count(want[:due]))
	for _, err := range q.Advance(1 << 60) {
		must(t, err)
		break // the rest stays
	}
	rest := 0
	for _, err := range q.Advance(1 << 60) {
		must(t, err)
		rest++
	}
	equal(t, "rest", rest, len(want)-due-1)
	if _, ok, err := q.Next(); ok || err != nil {
		t.Fatalf("after all: %v, %v", ok, err)
	}
}

func testNamespaces(t *testing.T, open Opener) {
	b := open(t, All, nil)
	d := backend.Descriptor[serializer.Window, string]{Name: "windows", Namespace: serializer.ForTimeWindow(), Value: serializer.ForString()}
	l := made[backend.List[serializer.Window, string]](t)(state.OpenList(b, d))
	must(t, b.SetKey("k"))
	at := func(end int64) { l.SetNamespace(serializer.Window{Start: 0, End: end}) }
	for end := range int64(3) {
		at(end)
		must(t, l.Add(fmt.Sprint(end)))
	}
	must(t, l.Merge(serializer.Window{End: 9}, serializer.Window{End: 0}, serializer.Window{End: 9}, serializer.Window{End: 2}))
	equal(t, "merged", made[[]string](t)(l.Get()), []string{"0", "2"})
	at(1)
	equal(t, "left alone", made[[]string](t)(l.Get()), []string{"1"})
	at(0)
	equal(t, "moved", made[[]string](t)(l.Get()), []string(nil))
}

func testTTL(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		ttl  backend.TTL
	}{
		{"on write", backend.TTL{After: 10 * time.Millisecond}},
		{"on read", backend.TTL{After: 10 * time.Millisecond, OnRead: true}},
		{"expired ones given", backend.TTL{After: 10 * time.Millisecond, ReturnExpired: true}},
		{"cleaned up", backend.TTL{After: 10 * time.Millisecond, CleanUp: 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := int64(1000)
			b := open(t, All, func() int64 { return now })
			vd, ld := value("value", serializer.ForLong()), value("list", serializer.ForLong())
			vd.TTL, ld.TTL = &test.ttl, &test.ttl
			v := made[backend.Value[void, int64]](t)(state.OpenValue(b, vd))
			l := made[backend.List[void, int64]](t)(state.OpenList(b, ld))
			m := made[backend.Map[void, string, int64]](t)(state.OpenMap(b, backend.MapDescriptor[void, string, int64]{
				Name: "map", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForString(), Value: serializer.ForLong(), TTL: &test.ttl,
			}))
			must(t, b.SetKey("k"))
			must(t, v.Set(1))
			must(t, l.Add(1))
			must(t, m.Put("a", 1))
			now += 5
			must(t, l.Add(2))
			must(t, m.Put("b", 2))
			if n, ok, err := v.Get(); n != 1 || !ok || err != nil {
				t.Fatalf("before it expires: %v, %v, %v", n, ok, err)
			}
			equal(t, "list", made[[]int64](t)(l.Get()), []int64{1, 2})
			equal(t, "map", content(t, m), map[string]int64{"a": 1, "b": 2})
			now += 5 // the first ones are as old as they may get
			n, ok, err := v.Get()
			must(t, err)
			wantOK := test.ttl.OnRead || test.ttl.ReturnExpired
			equal(t, "value that expired", ok, wantOK)
			if ok && n != 1 {
				t.Fatalf("value %d", n)
			}
			list, entries := []int64{2}, map[string]int64{"b": 2}
			if wantOK {
				list, entries = []int64{1, 2}, map[string]int64{"a": 1, "b": 2}
			}
			equal(t, "list", made[[]int64](t)(l.Get()), list)
			equal(t, "map", content(t, m), entries)
			if test.ttl.ReturnExpired {
				// What was given once was removed.
				equal(t, "list again", made[[]int64](t)(l.Get()), []int64{2})
				equal(t, "map again", content(t, m), map[string]int64{"b": 2})
			}
			now += 100
			if test.ttl.CleanUp > 0 {
				for i := range 200 {
					must(t, b.SetKey(fmt.Sprint("other", i%3)))
					must(t, v.Set(0))
					must(t, l.Set([]int64{0}))
					must(t, m.Put("", 0))
				}
				equal(t, "values that are left", made[int64](t)(b.Len("value")), int64(3))
				equal(t, "lists that are left", made[int64](t)(b.Len("list")), int64(3))
				equal(t, "maps that are left", made[int64](t)(b.Len("map")), int64(3))
			}
			if _, err := state.OpenValue(b, backend.Descriptor[void, int64]{Name: "bad", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong(), TTL: &backend.TTL{}}); err == nil {
				t.Error("a time to live of nothing was taken")
			}
		})
	}
}

func testKeys(t *testing.T, open Opener) {
	b := open(t, All, nil)
	m := made[backend.Map[string, string, int64]](t)(state.OpenMap(b, backend.MapDescriptor[string, string, int64]{
		Name: "map", Namespace: serializer.ForString(), UserKey: serializer.ForString(), Value: serializer.ForLong(),
	}))
	want := map[string]int{}
	groups := map[int]int{}
	for i := range 100 {
		key := fmt.Sprint(i)
		must(t, b.SetKey(key))
		for _, n := range []string{"a", "b"} {
			m.SetNamespace(n)
			must(t, m.Put("x", 1))
			must(t, m.Put("y", 2))
			want[key]++
			groups[keygroup.ForHash(keygroup.StringHash(key), MaxParallelism)] += 2
		}
	}
	got := map[string]int{}
	for k, err := range b.Keys("map") {
		must(t, err)
		got[k]++
	}
	equal(t, "keys", got, want)
	for _, r := range []keygroup.Range{All, {Start: 3, End: 40}, {Start: 5, End: 4}} {
		n, wantN := 0, 0
		for e, err := range b.Entries("map", r) {
			must(t, err)
			if e.KeyGroup < r.Start || e.KeyGroup > r.End || e.State.Type != backend.TypeMap {
				t.Fatalf("an entry of key group %d", e.KeyGroup)
			}
			n++
		}
		for g, c := range groups {
			if g >= r.Start && g <= r.End {
				wantN += c
			}
		}
		equal(t, "entries of "+r.String(), n, wantN)
	}
	for _, err := range b.Keys("no such state") {
		if err == nil {
			t.Fatal("keys of a state that is not there")
		}
	}
}
