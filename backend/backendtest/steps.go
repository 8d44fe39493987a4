package backendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/drey-state/drey/serializer"
)

// draw gives a number from 0 to n-1.
type draw func(what string, n int) int

// random draws by a seed.
func random(seed uint64) draw {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(_ string, n int) int { return r.IntN(n) }
}

// steps does some random steps.
func (b *bed) steps(t tb, d draw, n int) {
	t.Helper()
	for range n {
		b.step(t, d)
	}
}

// step does one thing to a backend and to what it must hold.
func (b *bed) step(t tb, d draw) {
	t.Helper()
	k := someKeys[d("key", len(someKeys))]
	w := b.worlds[slices.IndexFunc(b.worlds, func(w *world) bool { return holds(w.b, k) })]
	must(t, w.b.SetKey(k))
	s := stepper{b, w, k, t, d}
	all := []func(){
		s.value, s.bytes, s.list, s.list, s.mergeLists, s.table, s.table, s.clearTable, s.sum, s.mergeSums, s.mean,
		s.timer, s.timer, s.advance, s.agedValue, s.agedList, s.agedTable, s.wait,
	}
	all[d("step", len(all))]()
}

type stepper struct {
	*bed
	w *world
	k string
	t tb
	d draw
}

// is tests what a state gave.
func (s *stepper) is(what string, err error, got, want any) {
	s.t.Helper()
	must(s.t, err)
	equal(s.t, what, got, want)
}

func at(where ...any) string { return strings.TrimSuffix(fmt.Sprintln(where...), "\n") }

func (s *stepper) value() {
	at, n := at("value", s.k), int64(s.d("value", 5))
	if n == 0 {
		must(s.t, s.w.value.Clear())
		delete(s.content, at)
	} else {
		must(s.t, s.w.value.Set(n))
		s.content[at] = n
	}
	_, ok, err := s.w.value.Get()
	s.is(at, err, ok, n != 0)
}

func (s *stepper) bytes() {
	b := strings.Repeat("x", s.d("length", 300))
	must(s.t, s.w.bytes.Set([]byte(b)))
	s.content[at("bytes", s.k)] = b
}

func (s *stepper) name() string { return someNames[s.d("namespace", len(someNames))] }

func (s *stepper) list() {
	n := s.name()
	at := at("list", s.k, n)
	s.w.list.SetNamespace(n)
	var add []string
	for i := range s.d("elements", 4) {
		add = append(add, strings.Repeat(",", i)+s.k)
	}
	old, _ := s.content[at].([]string)
	if s.d("set", 4) == 0 {
		must(s.t, s.w.list.Set(add))
		old = nil
	} else {
		must(s.t, s.w.list.Add(add...))
	}
	s.setList(at, slices.Concat(old, add))
	got, err := s.w.list.Get()
	want, _ := s.content[at].([]string)
	s.is(at, err, got, want)
}

func (s *stepper) setList(at string, list []string) {
	if s.content[at] = list; len(list) == 0 {
		delete(s.content, at)
	}
}

func (s *stepper) mergeLists() {
	target, source, other := s.name(), s.name(), s.name()
	must(s.t, s.w.list.Merge(target, source, other))
	for _, n := range []string{source, other} {
		from, to := at("list", s.k, n), at("list", s.k, target)
		if from == to {
			continue
		}
		old, _ := s.content[to].([]string)
		moved, _ := s.content[from].([]string)
		s.setList(to, slices.Concat(old, moved))
		delete(s.content, from)
	}
}

func (s *stepper) window() serializer.Window { return someWindows[s.d("window", len(someWindows))] }

func (s *stepper) table() {
	n, u, v := s.window(), someUserKeys[s.d("user key", len(someUserKeys))], int64(s.d("value", 6))
	at := at("table", s.k, n, u)
	s.w.table.SetNamespace(n)
	switch v {
	case 0:
		must(s.t, s.w.table.Delete(u))
		delete(s.content, at)
	case 1:
		must(s.t, s.w.table.Put(u, nil))
		s.content[at] = (*int64)(nil)
	default:
		must(s.t, s.w.table.Put(u, &v))
		s.content[at] = &v
	}
	ok, err := s.w.table.Has(u)
	s.is(at, err, ok, v != 0)
	if got, ok, err := s.w.table.Get(u); ok {
		s.is(at, err, any(got), s.content[at])
	}
}

func (s *stepper) clearTable() {
	n := s.window()
	s.w.table.SetNamespace(n)
	must(s.t, s.w.table.Clear())
	for _, u := range someUserKeys {
		delete(s.content, at("table", s.k, n, u))
	}
	empty, err := s.w.table.Empty()
	s.is("empty", err, empty, true)
}

func (s *stepper) sum() {
	n, v := s.name(), int64(s.d("value", 5))
	at := at("sum", s.k, n)
	s.w.sum.SetNamespace(n)
	must(s.t, s.w.sum.Add(v))
	old, _ := s.content[at].(int64)
	s.content[at] = old + v
}

func (s *stepper) mergeSums() {
	target, source := s.name(), s.name()
	must(s.t, s.w.sum.Merge(target, source, source))
	from, to := at("sum", s.k, source), at("sum", s.k, target)
	if moved, ok := s.content[from].(int64); ok && from != to {
		old, _ := s.content[to].(int64)
		s.content[to] = old + moved
		delete(s.content, from)
	}
}

func (s *stepper) mean() {
	n, v := s.name(), int64(s.d("value", 5))
	at := at("mean", s.k, n)
	s.w.mean.SetNamespace(n)
	if v == 0 {
		must(s.t, s.w.mean.Clear())
		delete(s.content, at)
		return
	}
	must(s.t, s.w.mean.Add(v))
	old, _ := s.content[at].(counted)
	s.content[at] = counted{old.n + 1, old.sum + v}
}

func (s *stepper) timer() {
	n, w, ts := s.name(), s.window(), int64(s.d("timestamp", 200)-20)
	event, processing := at("event", s.k, n, ts), at("processing", s.k, w, ts)
	if s.d("delete", 3) == 0 {
		must(s.t, s.w.event.Delete(n, ts))
		must(s.t, s.w.processing.Delete(w, ts))
		delete(s.content, event)
		delete(s.content, processing)
		return
	}
	must(s.t, s.w.event.Register(n, ts))
	must(s.t, s.w.processing.Register(w, ts))
	s.content[event], s.content[processing] = ts, ts
}

func (s *stepper) advance() {
	to := int64(s.d("timestamp", 200) - 20)
	last := int64(-100)
	for v, err := range s.w.event.Advance(to) {
		must(s.t, err)
		at := at("event", v.Key, v.Namespace, v.Timestamp)
		if _, ok := s.content[at]; !ok || v.Timestamp < last || v.Timestamp > to {
			s.t.Fatalf("%s is not there or not due", at)
		}
		delete(s.content, at)
		last = v.Timestamp
	}
	next, ok, err := s.w.event.Next()
	must(s.t, err)
	if ok && next <= to {
		s.t.Fatalf("a timer of %d is left after %d", next, to)
	}
}

func (s *stepper) agedValue() {
	v := int64(s.d("value", 5))
	must(s.t, s.w.agedValue.Set(v))
	s.content[at("aged value", s.k)] = aged{s.clock, v}
}

func (s *stepper) agedList() {
	at := at("aged list", s.k)
	must(s.t, s.w.agedList.Add(s.k, ","))
	old, _ := s.content[at].([]aged)
	s.content[at] = append(slices.Clone(old), aged{s.clock, s.k}, aged{s.clock, ","})
}

func (s *stepper) agedTable() {
	u, v := someUserKeys[s.d("user key", len(someUserKeys))], int64(s.d("value", 5))
	must(s.t, s.w.agedTable.Put(u, v))
	s.content[at("aged table", s.k, u)] = aged{s.clock, v}
}

// wait lets time go by.
func (s *stepper) wait() { s.clock += int64(s.d("milliseconds", lifetime)) }
