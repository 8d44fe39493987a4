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

// Limits says how a kind of backend minds the sizes of what it holds.
type Limits struct {
	// Open makes an empty backend with this limit. It has t close the backend at last.
	Open func(t testing.TB, maxSize int) backend.Keyed[string]
	// AtOnce says that what is too large is refused when it comes, not only by a snapshot.
	AtOnce bool
	// Key is how many bytes a key may have of a limit, joined with namespace and user key.
	Key func(maxSize int) int
}

// maxSize is the limit of the backends that are tested here.
const maxSize = 100

// bulky is a backend whose states hold what may be of any size.
type bulky struct {
	b     backend.Keyed[string]
	value backend.Value[string, []byte]
	list  backend.List[string, string]
	aged  backend.List[string, string] // with time to live
	table backend.Map[string, string, []byte]
	sum   backend.Reducing[string, []byte]
	mean  backend.Aggregating[string, []byte, int]
	queue backend.Timers[string, string]
}

func concat(a, b []byte) ([]byte, error) { return append(append([]byte{}, a...), b...), nil }

func openBulky(t tb, b backend.Keyed[string]) *bulky {
	t.Helper()
	of := func(name string) backend.Descriptor[string, []byte] {
		return backend.Descriptor[string, []byte]{Name: name, Namespace: serializer.ForString(), Value: serializer.ForBytes()}
	}
	w := &bulky{b: b}
	aged := backend.Descriptor[string, string]{Name: "aged", Namespace: serializer.ForString(), Value: serializer.ForString(), TTL: &backend.TTL{After: time.Hour, CleanUp: 1}}
	var errs [7]error
	w.value, errs[0] = state.OpenValue(b, of("value"))
	w.list, errs[1] = state.OpenList(b, backend.Descriptor[string, string]{Name: "list", Namespace: serializer.ForString(), Value: serializer.ForString()})
	w.table, errs[2] = state.OpenMap(b, backend.MapDescriptor[string, string, []byte]{
		Name: "map", Namespace: serializer.ForString(), UserKey: serializer.ForString(), Value: serializer.ForBytes(),
	})
	w.sum, errs[3] = state.OpenReducing(b, backend.ReducingDescriptor[string, []byte]{Descriptor: of("sum"), Reduce: concat})
	w.mean, errs[4] = state.OpenAggregating(b, backend.AggregatingDescriptor[string, []byte, []byte, int]{
		Descriptor: of("mean"), Create: func() []byte { return nil }, Add: concat, Merge: concat,
		Result: func(acc []byte) (int, error) { return len(acc), nil },
	})
	w.queue, errs[5] = state.OpenTimers(b, backend.TimersDescriptor[string]{Service: "timers", Namespace: serializer.ForString()})
	w.aged, errs[6] = state.OpenList(b, aged)
	for _, err := range errs {
		must(t, err)
	}
	must(t, b.SetKey("k"))
	return w
}

// RunLimits tests the largest that each kind of state may hold, and what is a byte larger.
func RunLimits(t *testing.T, l Limits) {
	x := func(n int) string { return strings.Repeat("x", n) }
	key := l.Key(maxSize)
	// In front of a value of n bytes stand four of its length, of a text one, of a timer eight.
	for _, test := range []struct {
		name, state string
		most        int // the largest n
		add         func(w *bulky, n int) error
	}{
		{"value", "value", maxSize - 4, func(w *bulky, n int) error { return w.value.Set(make([]byte, n)) }},
		{"list", "list", maxSize - 1, func(w *bulky, n int) error { return w.list.Set([]string{x(n)}) }},
		{"elements of a list", "list", maxSize - 4, func(w *bulky, n int) error { return w.list.Set([]string{x(n), "x"}) }},
		{"elements added", "list", maxSize - 4, func(w *bulky, n int) error { return w.list.Add(x(n), "x") }},
		{"value in a map", "map", maxSize - 5, func(w *bulky, n int) error { return w.table.Put("u", make([]byte, n)) }},
		{"reduced value", "sum", maxSize - 4, func(w *bulky, n int) error {
			return errors.Join(w.sum.Add(make([]byte, n/2)), w.sum.Add(make([]byte, n-n/2)))
		}},
		{"accumulator", "mean", maxSize - 4, func(w *bulky, n int) error {
			return errors.Join(w.mean.Add(make([]byte, n/2)), w.mean.Add(make([]byte, n-n/2)))
		}},
		{"merged values", "sum", maxSize - 4, func(w *bulky, n int) error {
			w.sum.SetNamespace("other")
			if err := w.sum.Add(make([]byte, n/2)); err != nil {
				return err
			}
			w.sum.SetNamespace("")
			return errors.Join(w.sum.Add(make([]byte, n-n/2)), w.sum.Merge("", "other"))
		}},
		// Key and namespace are one byte longer than their text; where both have no certain length, two bytes tell that of the first.
		{"key", "value", key - 4, func(w *bulky, n int) error { return errors.Join(w.b.SetKey(x(n)), w.value.Set(nil)) }},
		{"namespace", "value", key - 5, func(w *bulky, n int) error { w.value.SetNamespace(x(n)); return w.value.Set(nil) }},
		{"namespace of a list", "list", key - 5, func(w *bulky, n int) error { w.list.SetNamespace(x(n)); return w.list.Add("") }},
		{"namespace that lists go to", "list", key - 5, func(w *bulky, n int) error {
			return errors.Join(w.list.Add("x"), w.list.Merge(x(n), ""))
		}},
		{"user key", "map", key - 6, func(w *bulky, n int) error { return w.table.Put(x(n), nil) }},
		{"timer", "_timer_state/event_timers", key - 11, func(w *bulky, n int) error { return w.queue.Register(x(n), 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := openBulky(t, l.Open(t, maxSize))
			must(t, test.add(w, test.most))
			for _, format := range []backend.Format{backend.FormatCanonical, backend.FormatFull} {
				fs := storage.NewMemory()
				h := save(t, w.b, fs, inFile, backend.SnapshotOptions{Format: format})
				again := l.Open(t, maxSize)
				must(t, restore(again, fs, h))
				equal(t, "restored", canonical(t, again, false), canonical(t, w.b, false))
			}
			w = openBulky(t, l.Open(t, maxSize))
			err := test.add(w, test.most+1)
			if l.AtOnce {
				tooLarge(t, err, test.state)
				return
			}
			must(t, err)
			refused(t, w.b, test.state, backend.FormatCanonical, backend.FormatRocksDB)
		})
	}
	t.Run("appends", func(t *testing.T) { testAppends(t, l) })
	t.Run("merges", func(t *testing.T) { testMergeFails(t, l) })
	t.Run("a key and its value", func(t *testing.T) {
		// Each may be written, but RocksDB has both in one array.
		w := openBulky(t, l.Open(t, maxSize))
		must(t, w.value.Set(make([]byte, maxSize-4)))
		refused(t, w.b, "value", backend.FormatRocksDB)
	})
	t.Run("state", func(t *testing.T) {
		b := l.Open(t, maxSize)
		_, err := state.OpenValue(b, value(x(1<<16-1), serializer.ForLong()))
		must(t, err)
		if _, err = state.OpenValue(b, value(x(1<<16), serializer.ForLong())); err == nil {
			t.Error("a name was taken that is too long for the header of a snapshot")
		}
		canonical(t, b, false)
	})
	t.Run("states", func(t *testing.T) {
		b := l.Open(t, maxSize)
		for i := range 1<<15 - 1 {
			_, err := state.OpenValue(b, value(fmt.Sprint(i), serializer.ForLong()))
			must(t, err)
		}
		if _, err := state.OpenValue(b, value("one more", serializer.ForLong())); !errors.Is(err, backend.ErrTooLarge) {
			t.Errorf("one state more than a header can count: %v", err)
		}
	})
}

// tooLarge checks an error: it must name the state.
func tooLarge(t *testing.T, err error, name string) {
	t.Helper()
	if !errors.Is(err, backend.ErrTooLarge) || !strings.Contains(err.Error(), fmt.Sprintf("state %q", name)) {
		t.Errorf("%v, want that state %q is too large", err, name)
	}
}

// refused checks that a backend can't be written, and that nothing is left of the attempt.
func refused(t *testing.T, b backend.Keyed[string], name string, formats ...backend.Format) {
	t.Helper()
	for _, format := range formats {
		fs := storage.NewMemory()
		s := made[backend.Snapshot](t)(b.Snapshot(1, backend.SnapshotOptions{Format: format, TableSize: 1}))
		h, err := s.Write(t.Context(), backend.Target{FS: fs, Dir: dir, Shared: shared, InlineBelow: inFile})
		tooLarge(t, err, name)
		if n := files(t, fs); h != nil || n != 0 {
			t.Errorf("format %v: handle %v, %d files are left", format, h, n)
		}
	}
}

// testAppends lets lists grow until they are too large, which must be told and leave the rest as it is.
func testAppends(t *testing.T, l Limits) {
	const fit = 9 // elements of ten bytes, with commas between them
	element := strings.Repeat("x", 9)
	w := openBulky(t, l.Open(t, maxSize))
	must(t, w.value.Set([]byte("value")))
	for range fit {
		must(t, w.list.Add(element))
		must(t, w.aged.Add("x")) // 2 bytes, and 8 of the time
	}
	equal(t, "elements", len(made[[]string](t)(w.list.Get())), fit)
	equal(t, "elements with time to live", len(made[[]string](t)(w.aged.Get())), fit)
	canonical(t, w.b, false)
	for range 3 {
		must(t, w.list.Add(element))
		must(t, w.aged.Add("x"))
		if !l.AtOnce {
			continue
		}
		_, err := w.list.Get()
		tooLarge(t, err, "list")
		_, err = w.aged.Get()
		tooLarge(t, err, "aged")
	}
	formats := []backend.Format{backend.FormatCanonical, backend.FormatRocksDB}
	if l.AtOnce {
		formats = append(formats, backend.FormatFull)
		tooLarge(t, w.list.Merge("other", ""), "list")
		w.list.SetNamespace("")
		tooLarge(t, last(w.b.Entries("list", All)), "list")
		tooLarge(t, last(w.b.Keys("list")), "list")
	} else {
		// All is there, as long as the elements can be counted.
		equal(t, "elements", len(made[[]string](t)(w.list.Get())), fit+3)
		for range maxSize - fit - 3 {
			must(t, w.list.Add(element))
		}
		tooLarge(t, w.list.Add(element), "list")
		equal(t, "elements", len(made[[]string](t)(w.list.Get())), maxSize)
		save(t, w.b, storage.NewMemory(), inFile, backend.SnapshotOptions{Format: backend.FormatFull})
	}
	refused(t, w.b, "list", formats...)
	must(t, w.list.Set([]string{"y"}))
	refused(t, w.b, "aged", formats...)
	must(t, w.aged.Clear())

	must(t, w.list.Add("z"))
	equal(t, "a list that was set", made[[]string](t)(w.list.Get()), []string{"y", "z"})
	equal(t, "a list that was cleared", made[[]string](t)(w.aged.Get()), []string(nil))
	v, _, err := w.value.Get()
	must(t, err)
	equal(t, "another state", string(v), "value")
	again := l.Open(t, maxSize)
	fs := storage.NewMemory()
	must(t, restore(again, fs, save(t, w.b, fs, inFile, backend.SnapshotOptions{})))
	equal(t, "restored", canonical(t, again, false), canonical(t, w.b, false))
}
