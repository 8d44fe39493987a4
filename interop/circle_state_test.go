package interop

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// Times of Circle.java: timers are due long after the test.
const (
	farEvent      = 4_102_444_800_000
	farProcessing = 4_133_980_800_000
)

// lifetime is that of the states called aged.
const lifetime = 3650 * 24 * time.Hour

// circleOperator is an operator of Circle.java with keyed state: the keys that it may have, and the namespaces.
type circleOperator[K, N comparable] struct {
	uid        string
	keys       int
	key        serializer.Codec[K]
	keyAt      func(i int) K
	hash       func(K) int32 // nil where it follows from the codec
	showKey    func(K) any
	namespace  serializer.Codec[N]
	namespaces []N
	showSpace  func(N) string
}

type pojoKey struct {
	Tenant string
	ID     int32
}

type tupleKey = serializer.Tuple2[string, int64]

func longKey(i int) int64 {
	const golden = 0x9E3779B97F4A7C15
	return int64(uint64(i) * golden)
}

func stringOperator() circleOperator[string, struct{}] {
	prefixes := []string{"k", "é", "日本", "😀", strings.Repeat("x", 300)}
	return circleOperator[string, struct{}]{
		uid: "go-string", keys: 150, key: serializer.ForString(), showKey: func(k string) any { return show(k) },
		keyAt: func(i int) string {
			if i == 0 {
				return ""
			}
			return fmt.Sprint(prefixes[i%5], i)
		},
		namespace: serializer.ForVoidNamespace(), namespaces: make([]struct{}, 1),
	}
}

func longOperator() circleOperator[int64, serializer.Window] {
	return circleOperator[int64, serializer.Window]{
		uid: "go-long", keys: 150, key: serializer.ForLong(), keyAt: longKey, showKey: func(k int64) any { return show(k) },
		namespace: serializer.ForTimeWindow(), namespaces: []serializer.Window{{Start: -5, End: 0}, {Start: 0, End: 5}, {Start: 5, End: 10}},
		showSpace: func(w serializer.Window) string { return fmt.Sprintf("@%d..%d", w.Start, w.End) },
	}
}

func tupleOperator() circleOperator[tupleKey, string] {
	return circleOperator[tupleKey, string]{
		uid: "go-tuple", keys: 150, key: serializer.ForTuple2(serializer.ForString(), serializer.ForLong()),
		keyAt:     func(i int) tupleKey { return tupleKey{F0: fmt.Sprint("t", i%7), F1: int64(i)} },
		showKey:   func(k tupleKey) any { return []any{show(k.F0), show(k.F1)} },
		namespace: serializer.ForString(), namespaces: []string{"", "n", "né"},
		showSpace: func(s string) string { return "@" + s },
	}
}

func pojoOperator() circleOperator[pojoKey, struct{}] {
	return circleOperator[pojoKey, struct{}]{
		uid: "go-pojo", keys: 150,
		key: serializer.ForPojo("lab.Jobs$PojoKey",
			serializer.NewMember("tenant", serializer.ForString(), func(k *pojoKey) *string { return &k.Tenant }),
			serializer.NewMember("id", serializer.ForInt(), func(k *pojoKey) *int32 { return &k.ID })),
		keyAt:     func(i int) pojoKey { return pojoKey{fmt.Sprint("t", i%3), int32(i)} },
		hash:      func(k pojoKey) int32 { return keygroup.ListHash(keygroup.StringHash(k.Tenant), k.ID) },
		showKey:   func(k pojoKey) any { return map[string]any{"tenant": k.Tenant, "id": k.ID} },
		namespace: serializer.ForVoidNamespace(), namespaces: make([]struct{}, 1),
	}
}

// profile is lab.Jobs.Profile.
type profile struct {
	Name    *string
	Age     int32
	Score   *int64
	Address *address
}

type address struct {
	City *string
	Zip  int32
}

func forProfile() serializer.Codec[profile] {
	a := serializer.ForPojo("lab.Jobs$Address",
		serializer.NewNullMember("city", serializer.ForString(), func(a *address) **string { return &a.City }),
		serializer.NewMember("zip", serializer.ForInt(), func(a *address) *int32 { return &a.Zip }))
	return serializer.ForPojo("lab.Jobs$Profile",
		serializer.NewNullMember("name", serializer.ForString(), func(p *profile) **string { return &p.Name }),
		serializer.NewMember("age", serializer.ForInt(), func(p *profile) *int32 { return &p.Age }),
		serializer.NewNullMember("score", serializer.ForLong(), func(p *profile) **int64 { return &p.Score }),
		serializer.NewNullMember("address", a, func(p *profile) **address { return &p.Address }))
}

// cell is what the states hold of one key in one namespace: nil and empty is nothing. It is the model, and what was read.
type cell struct {
	value     *string
	list      []string
	table     map[int64]*string
	agedValue *int64
	agedList  []int64
	agedTable map[string]int64
	sum       *int64
	agedSum   *int64
	mean      *mean
	agedMean  *mean
	profile   *profile
	decimals  []serializer.Decimal
	event     []int64 // sorted
	process   []int64
}

// mean is the accumulator of Circle's Mean: sum and number.
type mean = serializer.Tuple2[int64, int64]

// shown gives what Circle.java shows, by state; a timer's state says when it is due, too.
func (c *cell) shown() map[string]any {
	m := map[string]any{}
	if c.value != nil {
		m["value"] = show(*c.value)
	}
	if len(c.list) > 0 {
		m["list"] = shownList(c.list)
	}
	if len(c.table) > 0 {
		var pairs []any
		for k, v := range c.table {
			if v == nil {
				pairs = append(pairs, []any{show(k), nil})
				continue
			}
			pairs = append(pairs, []any{show(k), show(*v)})
		}
		m["map"] = map[string]any{"map": pairs}
	}
	if c.agedValue != nil {
		m["aged value"] = show(*c.agedValue)
	}
	if len(c.agedList) > 0 {
		m["aged list"] = shownList(c.agedList)
	}
	if len(c.agedTable) > 0 {
		var pairs []any
		for k, v := range c.agedTable {
			pairs = append(pairs, []any{show(k), show(v)})
		}
		m["aged map"] = map[string]any{"map": pairs}
	}
	for name, v := range map[string]*int64{"sum": c.sum, "aged sum": c.agedSum} {
		if v != nil {
			m[name] = show(*v)
		}
	}
	for name, v := range map[string]*mean{"mean": c.mean, "aged mean": c.agedMean} {
		if v != nil {
			m[name] = []any{show(v.F0), show(v.F1)}
		}
	}
	if c.profile != nil {
		m["profile"] = c.profile.shown()
	}
	if len(c.decimals) > 0 {
		m["decimals"] = shownList(c.decimals)
	}
	for _, t := range c.event {
		m[fmt.Sprint("event!", t)] = show(t)
	}
	for _, t := range c.process {
		m[fmt.Sprint("processing!", t)] = show(t)
	}
	return m
}

func shownList[V any](list []V) any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = show(v)
	}
	return all
}

func (p *profile) shown() any {
	orNil := func(s *string) any {
		if s == nil {
			return nil
		}
		return show(*s)
	}
	m := map[string]any{"name": orNil(p.Name), "age": show(p.Age), "score": nil, "address": nil}
	if p.Score != nil {
		m["score"] = show(*p.Score)
	}
	if p.Address != nil {
		m["address"] = map[string]any{"city": orNil(p.Address.City), "zip": show(p.Address.Zip)}
	}
	return m
}

// changed does what CircleOperator.change does.
func (c *cell) changed(i, j int) {
	switch (i + j) % 4 {
	case 0:
		c.value = new(fmt.Sprintf("flink %d %d", i, j))
		c.list = append(c.list, fmt.Sprint("flink ", i))
		if c.table == nil {
			c.table = map[int64]*string{}
		}
		c.table[int64(i)] = new("flink")
		c.table[-1] = nil
		c.agedValue = new(int64(i))
		c.agedList = append(c.agedList, 1, int64(i))
		if c.agedTable == nil {
			c.agedTable = map[string]int64{}
		}
		c.agedTable["flink"] = int64(i)
		c.sum, c.agedSum = added(c.sum, int64(i)), added(c.agedSum, int64(i))
		c.mean, c.agedMean = counted(c.mean, int64(i)), counted(c.agedMean, int64(i))
		c.profile = &profile{
			Name: new(fmt.Sprint("name-", i)), Age: int32(j),
			Address: &address{City: new(fmt.Sprint("city-é-", i%2)), Zip: int32(1000 + i)},
		}
		if i%3 != 0 {
			c.profile.Score = new(int64(j) * 10)
		}
		c.decimals = append(c.decimals, serializer.Decimal{Unscaled: big.NewInt(int64(i - 75)), Scale: int32(j)})
		c.event, c.process = withTimer(c.event, farEvent+int64(i)), withTimer(c.process, farProcessing+int64(i))
	case 1:
		event, process := c.event, c.process
		*c = cell{}
		c.event = slices.DeleteFunc(event, func(t int64) bool { return t < farEvent+3 })
		c.process = slices.DeleteFunc(process, func(t int64) bool { return t < farProcessing+3 })
	case 2:
		c.list = []string{"x", "y"}
		delete(c.table, 1)
		delete(c.agedTable, "u")
	}
}

func added(to *int64, v int64) *int64 {
	if to == nil {
		return &v
	}
	return new(*to + v)
}

func counted(to *mean, v int64) *mean {
	if to == nil {
		return &mean{F0: v, F1: 1}
	}
	return &mean{F0: to.F0 + v, F1: to.F1 + 1}
}

func withTimer(list []int64, t int64) []int64 {
	if i, ok := slices.BinarySearch(list, t); !ok {
		return slices.Insert(list, i, t)
	}
	return list
}

// circleStates are the states of an operator in a backend of Go.
type circleStates[K, N comparable] struct {
	op        *circleOperator[K, N]
	b         backend.Keyed[K]
	value     backend.Value[N, string]
	list      backend.List[N, string]
	table     backend.Map[N, int64, *string]
	agedValue backend.Value[N, int64]
	agedList  backend.List[N, int64]
	agedTable backend.Map[N, string, int64]
	sum       backend.Reducing[N, int64]
	agedSum   backend.Reducing[N, int64]
	mean      backend.Aggregating[N, int64, mean]
	agedMean  backend.Aggregating[N, int64, mean]
	profile   backend.Value[N, profile]
	decimals  backend.List[N, serializer.Decimal]
	event     backend.Timers[K, N]
	process   backend.Timers[K, N]
}

// open opens the states.
func (op *circleOperator[K, N]) open(b backend.Keyed[K]) (*circleStates[K, N], error) {
	s := &circleStates[K, N]{op: op, b: b}
	aged := &backend.TTL{After: lifetime, KeepInFullSnapshot: true}
	sum := func(name string, ttl *backend.TTL) (backend.Reducing[N, int64], error) {
		return state.OpenReducing(b, backend.ReducingDescriptor[N, int64]{
			Descriptor: backend.Descriptor[N, int64]{Name: name, Namespace: op.namespace, Value: serializer.ForLong(), TTL: ttl},
			Reduce:     func(a, b int64) (int64, error) { return a + b, nil },
		})
	}
	average := func(name string, ttl *backend.TTL) (backend.Aggregating[N, int64, mean], error) {
		return state.OpenAggregating(b, backend.AggregatingDescriptor[N, int64, mean, mean]{
			Descriptor: backend.Descriptor[N, mean]{
				Name: name, Namespace: op.namespace, Value: serializer.ForTuple2(serializer.ForLong(), serializer.ForLong()), TTL: ttl,
			},
			Create: func() mean { return mean{} },
			Add:    func(acc mean, v int64) (mean, error) { return mean{F0: acc.F0 + v, F1: acc.F1 + 1}, nil },
			Merge:  func(a, b mean) (mean, error) { return mean{F0: a.F0 + b.F0, F1: a.F1 + b.F1}, nil },
			Result: func(acc mean) (mean, error) { return acc, nil },
		})
	}
	var errs [14]error
	s.value, errs[0] = state.OpenValue(b, backend.Descriptor[N, string]{Name: "value", Namespace: op.namespace, Value: serializer.ForString()})
	s.list, errs[1] = state.OpenList(b, backend.Descriptor[N, string]{Name: "list", Namespace: op.namespace, Value: serializer.ForString()})
	s.table, errs[2] = state.OpenMap(b, backend.MapDescriptor[N, int64, *string]{
		Name: "map", Namespace: op.namespace, UserKey: serializer.ForLong(), Value: serializer.ForPointer(serializer.ForString()),
		Null: func(v *string) bool { return v == nil },
	})
	s.agedValue, errs[3] = state.OpenValue(b, backend.Descriptor[N, int64]{Name: "aged value", Namespace: op.namespace, Value: serializer.ForLong(), TTL: aged})
	s.agedList, errs[4] = state.OpenList(b, backend.Descriptor[N, int64]{Name: "aged list", Namespace: op.namespace, Value: serializer.ForLong(), TTL: aged})
	s.agedTable, errs[5] = state.OpenMap(b, backend.MapDescriptor[N, string, int64]{
		Name: "aged map", Namespace: op.namespace, UserKey: serializer.ForString(), Value: serializer.ForLong(), TTL: aged,
	})
	s.sum, errs[6] = sum("sum", nil)
	s.agedSum, errs[7] = sum("aged sum", aged)
	s.mean, errs[8] = average("mean", nil)
	s.agedMean, errs[9] = average("aged mean", aged)
	s.profile, errs[10] = state.OpenValue(b, backend.Descriptor[N, profile]{Name: "profile", Namespace: op.namespace, Value: forProfile()})
	s.decimals, errs[11] = state.OpenList(b, backend.Descriptor[N, serializer.Decimal]{Name: "decimals", Namespace: op.namespace, Value: serializer.ForBigDecimal()})
	s.event, errs[12] = state.OpenTimers(b, backend.TimersDescriptor[N]{Service: "circle", Namespace: op.namespace})
	s.process, errs[13] = state.OpenTimers(b, backend.TimersDescriptor[N]{Service: "circle", Domain: backend.ProcessingTime, Namespace: op.namespace})
	return s, errors.Join(errs[:]...)
}

// at sets the key and the namespace.
func (s *circleStates[K, N]) at(i, j int) error {
	n := s.op.namespaces[j]
	for _, set := range []func(N){
		s.value.SetNamespace, s.list.SetNamespace, s.table.SetNamespace, s.agedValue.SetNamespace, s.agedList.SetNamespace, s.agedTable.SetNamespace,
		s.sum.SetNamespace, s.agedSum.SetNamespace, s.mean.SetNamespace, s.agedMean.SetNamespace, s.profile.SetNamespace, s.decimals.SetNamespace,
	} {
		set(n)
	}
	return s.b.SetKey(s.op.keyAt(i))
}

// randomStep does something random to the state of a key in a namespace, and to the model. An old
// step is one whose values in the aged states have expired when the state is looked at.
func (s *circleStates[K, N]) randomStep(r *rand.Rand, old bool, c *cell, j int) error {
	v := int64(r.IntN(1000)) - 500
	text := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(20)) + []string{"", "é", ",", ",,", "🦀"}[r.IntN(5)]
	kept := func(f func()) {
		if !old {
			f()
		}
	}
	switch r.IntN(18) {
	case 0, 1:
		c.value = &text
		return s.value.Set(text)
	case 2, 3:
		c.list = append(c.list, text, "2")
		return errors.Join(s.list.Add(text), s.list.Add("2"))
	case 4:
		c.list = []string{text}
		return s.list.Set([]string{text})
	case 5, 6:
		if c.table == nil {
			c.table = map[int64]*string{}
		}
		c.table[v%4] = &text
		if v%3 == 0 {
			c.table[v%4] = nil
		}
		return s.table.Put(v%4, c.table[v%4])
	case 7:
		delete(c.table, v%4)
		return s.table.Delete(v % 4)
	case 8:
		kept(func() { c.agedValue = &v })
		return s.agedValue.Set(v)
	case 9:
		kept(func() { c.agedList = append(c.agedList, v, 1) })
		return s.agedList.Add(v, 1)
	case 10:
		kept(func() {
			if c.agedTable == nil {
				c.agedTable = map[string]int64{}
			}
			c.agedTable[[]string{"u", "", "v"}[v&1]] = v
		})
		return s.agedTable.Put([]string{"u", "", "v"}[v&1], v)
	case 11:
		c.sum = added(c.sum, v)
		kept(func() { c.agedSum = added(c.agedSum, v) })
		return errors.Join(s.sum.Add(v), s.agedSum.Add(v))
	case 12:
		c.mean = counted(c.mean, v)
		kept(func() { c.agedMean = counted(c.agedMean, v) })
		return errors.Join(s.mean.Add(v), s.agedMean.Add(v))
	case 13:
		c.profile = &profile{Name: &text, Age: int32(v), Address: &address{Zip: int32(v)}}
		if v%2 == 0 {
			c.profile = &profile{Score: &v}
		}
		return s.profile.Set(*c.profile)
	case 14:
		d := serializer.Decimal{Unscaled: new(big.Int).Lsh(big.NewInt(v), uint(r.IntN(80))), Scale: int32(v % 7)}
		c.decimals = append(c.decimals, d)
		return s.decimals.Add(d)
	case 15, 16:
		c.event, c.process = withTimer(c.event, farEvent+v&7), withTimer(c.process, farProcessing+v&3)
		n := s.op.namespaces[j]
		return errors.Join(s.event.Register(n, farEvent+v&7), s.process.Register(n, farProcessing+v&3), s.event.Register(n, farEvent+v&7))
	default:
		c.value, c.table, c.sum = nil, nil, nil
		c.event = slices.DeleteFunc(c.event, func(t int64) bool { return t == farEvent+1 })
		return errors.Join(s.value.Clear(), s.table.Clear(), s.sum.Clear(), s.event.Delete(s.op.namespaces[j], farEvent+1))
	}
}

// read reads what the states hold of a key in a namespace, but for timers.
func (s *circleStates[K, N]) read(i, j int) (*cell, error) {
	if err := s.at(i, j); err != nil {
		return nil, err
	}
	c := &cell{table: map[int64]*string{}, agedTable: map[string]int64{}}
	var errs [12]error
	c.value, errs[0] = ifThere(s.value.Get())
	c.list, errs[1] = s.list.Get()
	for e, err := range s.table.All() {
		errs[2] = errors.Join(errs[2], err)
		c.table[e.Key] = e.Value
	}
	c.agedValue, errs[3] = ifThere(s.agedValue.Get())
	c.agedList, errs[4] = s.agedList.Get()
	for e, err := range s.agedTable.All() {
		errs[5] = errors.Join(errs[5], err)
		c.agedTable[e.Key] = e.Value
	}
	c.sum, errs[6] = ifThere(s.sum.Get())
	c.agedSum, errs[7] = ifThere(s.agedSum.Get())
	c.mean, errs[8] = ifThere(s.mean.Get())
	c.agedMean, errs[9] = ifThere(s.agedMean.Get())
	c.profile, errs[10] = ifThere(s.profile.Get())
	c.decimals, errs[11] = s.decimals.Get()
	return c, errors.Join(errs[:]...)
}

func ifThere[V any](v V, ok bool, err error) (*V, error) {
	if !ok {
		return nil, err
	}
	return &v, err
}

// circleModel is what an operator holds, by number of key and namespace.
type circleModel map[[2]int]*cell

func (m circleModel) at(i, j int) *cell {
	c := m[[2]int{i, j}]
	if c == nil {
		c = &cell{}
		m[[2]int{i, j}] = c
	}
	return c
}

// entry is how Circle.java calls a key in a namespace.
func (op *circleOperator[K, N]) entry(i, j int) string {
	at := name(op.showKey(op.keyAt(i)))
	if op.showSpace != nil {
		at += op.showSpace(op.namespaces[j])
	}
	return at
}

// shown gives what Circle.java shows of an operator that holds that: by state and entry.
func (op *circleOperator[K, N]) shown(m circleModel) map[string]map[string]any {
	all := map[string]map[string]any{}
	for at, c := range m {
		op.put(all, at[0], at[1], c)
	}
	return all
}

func (op *circleOperator[K, N]) put(all map[string]map[string]any, i, j int, c *cell) {
	for s, v := range c.shown() {
		s, due, timer := strings.Cut(s, "!")
		if all[s] == nil {
			all[s] = map[string]any{}
		}
		entry := op.entry(i, j)
		if timer {
			entry += "!" + due
		}
		all[s][entry] = v
	}
}

// compareShown compares states by their entries, and gives how many entries of each are as they must be.
func compareShown(t *testing.T, where string, got, want map[string]map[string]any) map[string]int {
	t.Helper()
	same := map[string]int{}
	bad := 0
	report := func(format string, args ...any) {
		if bad++; bad <= 5 {
			t.Errorf(where+": "+format, args...)
		}
	}
	for s, entries := range want {
		for entry, w := range entries {
			g, ok := got[s][entry]
			if g, w := canonical(g), canonical(w); !ok || g != w {
				report("%s of %.100q: %.300s (there: %v); want %.300s", s, entry, g, ok, w)
				continue
			}
			same[s]++
		}
	}
	for s, entries := range got {
		for entry, g := range entries {
			if _, ok := want[s][entry]; !ok {
				report("%s of %.100q: not expected: %.300s", s, entry, canonical(g))
			}
		}
	}
	if bad > 5 {
		t.Errorf("%s: %d entries differ", where, bad)
	}
	return same
}
