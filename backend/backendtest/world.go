package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// world is a backend with states of every kind.
type world struct {
	b          backend.Keyed[string]
	value      backend.Value[void, int64]
	bytes      backend.Value[void, []byte]
	list       backend.List[string, string]
	table      backend.Map[serializer.Window, string, *int64]
	sum        backend.Reducing[string, int64]
	mean       backend.Aggregating[string, int64, float64]
	event      backend.Timers[string, string]
	processing backend.Timers[string, serializer.Window]
	agedValue  backend.Value[void, int64]
	agedList   backend.List[void, string]
	agedTable  backend.Map[void, string, int64]
}

// lifetime of values in states with time to live, in milliseconds.
const lifetime = 50

func isNull(v *int64) bool { return v == nil }

func tableDescriptor() backend.MapDescriptor[serializer.Window, string, *int64] {
	return backend.MapDescriptor[serializer.Window, string, *int64]{
		Name: "table", Namespace: serializer.ForTimeWindow(), UserKey: serializer.ForString(),
		Value: serializer.ForPointer(serializer.ForLong()), Null: isNull,
	}
}

func sumDescriptor() backend.ReducingDescriptor[string, int64] {
	return backend.ReducingDescriptor[string, int64]{
		Descriptor: backend.Descriptor[string, int64]{Name: "sum", Namespace: serializer.ForString(), Value: serializer.ForLong()}, Reduce: sum,
	}
}

// inhabit opens the states of a backend.
func inhabit(t tb, b backend.Keyed[string]) *world {
	t.Helper()
	w := &world{b: b}
	ttl := &backend.TTL{After: lifetime * time.Millisecond, CleanUp: 2}
	agedValue, agedList := value("aged value", serializer.ForLong()), value("aged list", serializer.ForString())
	agedValue.TTL, agedList.TTL = ttl, ttl
	var errs [11]error
	w.value, errs[0] = state.OpenValue(b, value("value", serializer.ForLong()))
	w.bytes, errs[1] = state.OpenValue(b, value("bytes", serializer.ForBytes()))
	w.list, errs[2] = state.OpenList(b, backend.Descriptor[string, string]{Name: "list", Namespace: serializer.ForString(), Value: serializer.ForString()})
	w.table, errs[3] = state.OpenMap(b, tableDescriptor())
	w.sum, errs[4] = state.OpenReducing(b, sumDescriptor())
	w.mean, errs[5] = state.OpenAggregating(b, average("mean"))
	w.event, errs[6] = state.OpenTimers(b, backend.TimersDescriptor[string]{Service: "timers", Namespace: serializer.ForString()})
	w.processing, errs[7] = state.OpenTimers(b, backend.TimersDescriptor[serializer.Window]{
		Service: "windows", Domain: backend.ProcessingTime, Namespace: serializer.ForTimeWindow(),
	})
	w.agedValue, errs[8] = state.OpenValue(b, agedValue)
	w.agedList, errs[9] = state.OpenList(b, agedList)
	w.agedTable, errs[10] = state.OpenMap(b, backend.MapDescriptor[void, string, int64]{
		Name: "aged table", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForString(), Value: serializer.ForLong(), TTL: ttl,
	})
	for _, err := range errs {
		must(t, err)
	}
	return w
}

// What the tests choose from.
var (
	someKeys     = strings.Fields("a b c d e f g h i j k l m n o p q r s t ü 漢 🦀 Aa BB")
	someNames    = []string{"", "n", "nn"}
	someWindows  = []serializer.Window{{Start: 0, End: 5}, {Start: 5, End: 10}, {Start: -5, End: 0}}
	someUserKeys = []string{"", "u", "v", "uu", ","}
)

// holds says whether a key belongs to a backend.
func holds(b backend.Keyed[string], key string) bool {
	g := keygroup.ForHash(keygroup.StringHash(key), MaxParallelism)
	return g >= b.KeyGroups().Start && g <= b.KeyGroups().End
}

// read adds what the backend holds to got, whose keys say what is where.
func (w *world) read(t tb, got map[string]any) {
	t.Helper()
	put := func(ok bool, v any, where ...any) {
		at := strings.TrimSuffix(fmt.Sprintln(where...), "\n")
		if _, twice := got[at]; twice {
			t.Fatalf("%s comes twice", at)
		}
		if ok {
			got[at] = v
		}
	}
	for _, k := range someKeys {
		if !holds(w.b, k) {
			continue
		}
		must(t, w.b.SetKey(k))
		v, ok, err := w.value.Get()
		must(t, err)
		put(ok, v, "value", k)
		b, ok, err := w.bytes.Get()
		must(t, err)
		put(ok, string(b), "bytes", k)
		for _, n := range someNames {
			w.list.SetNamespace(n)
			l, err := w.list.Get()
			must(t, err)
			put(len(l) > 0, l, "list", k, n)
			w.sum.SetNamespace(n)
			v, ok, err := w.sum.Get()
			must(t, err)
			put(ok, v, "sum", k, n)
			w.mean.SetNamespace(n)
			f, ok, err := w.mean.Get()
			must(t, err)
			put(ok, f, "mean", k, n)
		}
		for _, n := range someWindows {
			w.table.SetNamespace(n)
			for u, v := range content(t, w.table) {
				put(true, v, "table", k, n, u)
			}
		}
		v, ok, err = w.agedValue.Get()
		must(t, err)
		put(ok, v, "aged value", k)
		l, err := w.agedList.Get()
		must(t, err)
		put(len(l) > 0, l, "aged list", k)
		for u, v := range content(t, w.agedTable) {
			put(true, v, "aged table", k, u)
		}
	}
	for v, err := range w.event.All() {
		must(t, err)
		put(true, v.Timestamp, "event", v.Key, v.Namespace, v.Timestamp)
	}
	for v, err := range w.processing.All() {
		must(t, err)
		put(true, v.Timestamp, "processing", v.Key, v.Namespace, v.Timestamp)
	}
}

// bed is where backends are tried out: those of the subtasks of one
// operator, and what they must hold.
type bed struct {
	clock  int64
	worlds []*world
	// content has the values by the names of [world.read]; those with time to live are aged.
	content map[string]any
}

// aged is a value with the time of its last access.
type aged struct {
	at int64
	v  any
}

// average of values.
type counted struct{ n, sum int64 }

func newBed() *bed { return &bed{clock: 1000, content: map[string]any{}} }

func (b *bed) now() int64 { return b.clock }

// want gives what must be there now.
func (b *bed) want() map[string]any {
	want := map[string]any{}
	dead := func(v aged) bool { return v.at+lifetime <= b.clock }
	for at, v := range b.content {
		switch v := v.(type) {
		case []string:
			want[at] = slices.Clone(v)
		case counted:
			want[at] = float64(v.sum) / float64(v.n)
		case aged:
			if !dead(v) {
				want[at] = v.v
			}
		case []aged:
			var live []string
			for _, e := range v {
				if !dead(e) {
					live = append(live, e.v.(string))
				}
			}
			if live != nil {
				want[at] = live
			}
		default:
			want[at] = v
		}
	}
	return want
}

// check compares what the backends hold with what they must hold.
func (b *bed) check(t tb, what string) {
	t.Helper()
	got := map[string]any{}
	for _, w := range b.worlds {
		w.read(t, got)
	}
	equal(t, what, got, b.want())
}

// settle gives the bed one backend of all key groups.
func (b *bed) settle(t tb, k backend.Keyed[string]) *world {
	t.Helper()
	w := inhabit(t, k)
	b.worlds = []*world{w}
	return w
}
