package backendtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// operation is a call of a method of a backend or of one of its states.
type operation struct {
	name string
	// keyed says that it works on the key that is set.
	keyed bool
	do    func() error
}

// last runs through a sequence and gives its last error.
func last[T any](all iter.Seq2[T, error]) (failed error) {
	for _, err := range all {
		failed = err
	}
	return failed
}

// operations are all calls that can fail; key is one of the backend.
func (w *world) operations(key string) []operation {
	window := someWindows[0]
	b := w.b
	return []operation{
		{"value: Get", true, func() error { _, _, err := w.value.Get(); return err }},
		{"value: Set", true, func() error { return w.value.Set(1) }},
		{"value: Clear", true, func() error { return w.value.Clear() }},
		{"list: Get", true, func() error { _, err := w.list.Get(); return err }},
		{"list: Add", true, func() error { return w.list.Add("x") }},
		{"list: Add of nothing", true, func() error { return w.list.Add() }},
		{"list: Set", true, func() error { return w.list.Set([]string{"x"}) }},
		{"list: Set to nothing", true, func() error { return w.list.Set(nil) }},
		{"list: Clear", true, func() error { return w.list.Clear() }},
		{"list: Merge", true, func() error { return w.list.Merge("a", "b") }},
		{"map: Get", true, func() error { _, _, err := w.table.Get("u"); return err }},
		{"map: Has", true, func() error { _, err := w.table.Has("u"); return err }},
		{"map: Put", true, func() error { return w.table.Put("u", nil) }},
		{"map: Delete", true, func() error { return w.table.Delete("u") }},
		{"map: Empty", true, func() error { _, err := w.table.Empty(); return err }},
		{"map: All", true, func() error { return last(w.table.All()) }},
		{"map: Clear", true, func() error { return w.table.Clear() }},
		{"reducing: Get", true, func() error { _, _, err := w.sum.Get(); return err }},
		{"reducing: Add", true, func() error { return w.sum.Add(1) }},
		{"reducing: Clear", true, func() error { return w.sum.Clear() }},
		{"reducing: Merge", true, func() error { return w.sum.Merge("a", "b") }},
		{"aggregating: Get", true, func() error { _, _, err := w.mean.Get(); return err }},
		{"aggregating: Add", true, func() error { return w.mean.Add(1) }},
		{"aggregating: Clear", true, func() error { return w.mean.Clear() }},
		{"aggregating: Merge", true, func() error { return w.mean.Merge("a", "b") }},
		{"timers: Register", true, func() error { return w.processing.Register(window, 1) }},
		{"timers: Delete", true, func() error { return w.processing.Delete(window, 1) }},
		{"timers: Next", false, func() error { _, _, err := w.event.Next(); return err }},
		{"timers: All", false, func() error { return last(w.event.All()) }},
		{"value with time to live: Get", true, func() error { _, _, err := w.agedValue.Get(); return err }},
		{"value with time to live: Set", true, func() error { return w.agedValue.Set(1) }},
		{"value with time to live: Clear", true, func() error { return w.agedValue.Clear() }},
		{"list with time to live: Get", true, func() error { _, err := w.agedList.Get(); return err }},
		{"list with time to live: Add", true, func() error { return w.agedList.Add("x") }},
		{"list with time to live: Set", true, func() error { return w.agedList.Set([]string{"x"}) }},
		{"list with time to live: Clear", true, func() error { return w.agedList.Clear() }},
		{"map with time to live: Get", true, func() error { _, _, err := w.agedTable.Get("u"); return err }},
		{"map with time to live: Has", true, func() error { _, err := w.agedTable.Has("u"); return err }},
		{"map with time to live: Put", true, func() error { return w.agedTable.Put("u", 1) }},
		{"map with time to live: Delete", true, func() error { return w.agedTable.Delete("u") }},
		{"map with time to live: Empty", true, func() error { _, err := w.agedTable.Empty(); return err }},
		{"map with time to live: All", true, func() error { return last(w.agedTable.All()) }},
		{"map with time to live: Clear", true, func() error { return w.agedTable.Clear() }},
		{"Keys", false, func() error { return last(b.Keys("value")) }},
		{"Entries of a state", false, func() error { return last(b.Entries("value", All)) }},
		{"Entries of all", false, func() error { return last(b.Entries("", All)) }},
		{"Len", false, func() error { _, err := b.Len("value"); return err }},
		{"Snapshot", false, func() error {
			s, err := b.Snapshot(1, backend.SnapshotOptions{})
			if err == nil {
				s.Release()
			}
			return err
		}},
		{"timers: Advance", false, func() error { return last(w.event.Advance(0)) }},
		{"SetKey", false, func() error { return b.SetKey(key) }},
	}
}

// openings are the calls that open states.
func openings(b backend.Keyed[string]) []operation {
	return []operation{
		{"OpenValue", false, func() error { _, err := state.OpenValue(b, value("v", serializer.ForLong())); return err }},
		{"OpenList", false, func() error { _, err := state.OpenList(b, value("l", serializer.ForLong())); return err }},
		{"OpenMap", false, func() error {
			d := tableDescriptor()
			d.Name = "m"
			_, err := state.OpenMap(b, d)
			return err
		}},
		{"OpenReducing", false, func() error {
			d := sumDescriptor()
			d.Name = "r"
			_, err := state.OpenReducing(b, d)
			return err
		}},
		{"OpenAggregating", false, func() error { _, err := state.OpenAggregating(b, average("a")); return err }},
		{"OpenTimers", false, func() error {
			_, err := state.OpenTimers(b, backend.TimersDescriptor[string]{Service: "t", Namespace: serializer.ForString()})
			return err
		}},
		{"Restore", false, func() error { return b.Restore(context.Background(), backend.Files{}, backend.Handles{}) }},
	}
}

// apart gives a key that is in key groups, and one that is not.
func apart(groups keygroup.Range) (inside, outside string) {
	for i := range 1000 {
		k := fmt.Sprint(i)
		if g := keygroup.ForHash(keygroup.StringHash(k), MaxParallelism); g >= groups.Start && g <= groups.End {
			inside = k
		} else {
			outside = k
		}
	}
	return inside, outside
}

// testMisuse calls everything without a key, with one of another subtask, and after Close.
func testMisuse(t *testing.T, open Opener) {
	half := keygroup.RangeOf(0, MaxParallelism, 2)
	b := open(t, half, nil)
	w := inhabit(t, b)
	inside, outside := apart(half)
	operations := w.operations(inside)
	without := func(when string) {
		t.Helper()
		for _, o := range operations {
			var want error
			if o.keyed {
				want = backend.ErrNoKey
			}
			if err := o.do(); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s, %s: %v, want %v", when, o.name, err, want)
			}
		}
		equal(t, "the key that the last operation set", b.Key(), inside)
	}
	without("no key")
	must(t, w.value.Set(1))
	err := b.SetKey(outside)
	if !errors.Is(err, backend.ErrKeyGroup) {
		t.Errorf("a key of another subtask: %v", err)
	}
	equal(t, "then the key", b.Key(), "")
	without("a key of another subtask")
	if n, ok, err := w.value.Get(); n != 1 || !ok || err != nil {
		t.Errorf("the value of the key before: %v, %v, %v", n, ok, err)
	}
	if _, err := state.OpenValue(b, value("value", serializer.ForLong())); !errors.Is(err, backend.ErrState) {
		t.Errorf("opened twice: %v", err)
	}
	for _, name := range []string{"no such state", ""} {
		if _, err := b.Len(name); err == nil {
			t.Errorf("Len of %q", name)
		}
	}
	if _, err := b.Snapshot(1, backend.SnapshotOptions{Format: backend.FormatIncremental + 1}); err == nil {
		t.Error("a format that is not known was taken")
	}
	s := made[backend.Snapshot](t)(b.Snapshot(1, backend.SnapshotOptions{}))
	s.Release()
	s.Release()
	if _, err := s.Write(t.Context(), backend.Target{FS: storage.NewMemory(), Dir: dir, Shared: shared}); err == nil {
		t.Error("written after Release")
	}

	must(t, b.SetKey(inside))
	must(t, b.Close())
	must(t, b.Close())
	for _, o := range append(operations, openings(b)...) {
		if err := o.do(); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("%s after Close: %v", o.name, err)
		}
	}
	equal(t, "the key after Close", b.Key(), "")
	equal(t, "key groups after Close", b.KeyGroups(), half)
	b.States()
}

// testCloseWithin closes backends in the midst of what they yield: that is the end, and the last is ErrClosed.
func testCloseWithin(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		run  func(w *world, closed func() error) error
	}{
		{"map: All", func(w *world, close func() error) error { return closeWithin(w.table.All(), close) }},
		{"map with time to live: All", func(w *world, close func() error) error { return closeWithin(w.agedTable.All(), close) }},
		{"timers: All", func(w *world, close func() error) error { return closeWithin(w.event.All(), close) }},
		{"timers: Advance", func(w *world, close func() error) error { return closeWithin(w.event.Advance(1<<60), close) }},
		{"Keys", func(w *world, close func() error) error { return closeWithin(w.b.Keys("value"), close) }},
		{"Entries", func(w *world, close func() error) error { return closeWithin(w.b.Entries("", All), close) }},
	} {
		b := open(t, All, nil)
		w := inhabit(t, b)
		for i := range 20 {
			must(t, b.SetKey(fmt.Sprint(i)))
			must(t, w.value.Set(1))
			must(t, w.event.Register("", int64(i)))
		}
		w.table.SetNamespace(someWindows[0])
		for _, u := range someUserKeys {
			must(t, w.table.Put(u, nil))
			must(t, w.agedTable.Put(u, 1))
		}
		if err := test.run(w, b.Close); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// closeWithin calls close when the first is yielded, and gives the error that comes then.
func closeWithin[T any](all iter.Seq2[T, error], close func() error) error {
	n := 0
	for _, err := range all {
		switch n++; {
		case err != nil:
			return err
		case n == 1:
			if err := close(); err != nil {
				return fmt.Errorf("close: %w", err)
			}
		default:
			return errors.New("it went on")
		}
	}
	return errors.New("it ended without an error")
}
