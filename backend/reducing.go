package backend

import "slices"

// FirstAdder is implemented by the reducing and aggregating states that this package makes: AddFirst is Add, and says whether nothing
// was there. It saves those who must do something once for each value a look of their own.
type FirstAdder[In any] interface {
	AddFirst(v In) (first bool, err error)
}

// NewReducing makes a reducing state of a value state, as every backend of Flink does. It is a [FirstAdder].
func NewReducing[N comparable, V any](v Value[N, V], reduce func(old, added V) (V, error)) Reducing[N, V] {
	return &reducing[N, V]{v, reduce}
}

type reducing[N comparable, V any] struct {
	Value[N, V]
	reduce func(old, added V) (V, error)
}

func (r *reducing[N, V]) Add(v V) error {
	_, err := r.AddFirst(v)
	return err
}

// AddFirst is Add, and says whether nothing was there.
func (r *reducing[N, V]) AddFirst(v V) (first bool, err error) {
	old, ok, err := r.Get()
	if err == nil && ok {
		v, err = r.reduce(old, v)
	}
	if err != nil {
		return false, err
	}
	return !ok, r.Set(v)
}

func (r *reducing[N, V]) Merge(target N, sources ...N) error {
	return mergeValues(r.Value, r.reduce, target, sources)
}

// NewAggregating makes an aggregating state of a value state of its accumulators. It is a [FirstAdder].
func NewAggregating[N comparable, In, Acc, Out any](v Value[N, Acc], d AggregatingDescriptor[N, In, Acc, Out]) Aggregating[N, In, Out] {
	return &aggregating[N, In, Acc, Out]{v, d}
}

type aggregating[N comparable, In, Acc, Out any] struct {
	value Value[N, Acc]
	d     AggregatingDescriptor[N, In, Acc, Out]
}

func (a *aggregating[N, In, Acc, Out]) SetNamespace(n N) { a.value.SetNamespace(n) }
func (a *aggregating[N, In, Acc, Out]) Clear() error     { return a.value.Clear() }

func (a *aggregating[N, In, Acc, Out]) Get() (out Out, ok bool, err error) {
	acc, ok, err := a.value.Get()
	if err != nil || !ok {
		return out, false, err
	}
	out, err = a.d.Result(acc)
	return out, err == nil, err
}

func (a *aggregating[N, In, Acc, Out]) Add(in In) error {
	_, err := a.AddFirst(in)
	return err
}

// AddFirst is Add, and says whether nothing was there.
func (a *aggregating[N, In, Acc, Out]) AddFirst(in In) (first bool, err error) {
	acc, ok, err := a.value.Get()
	if err != nil {
		return false, err
	}
	if !ok {
		acc = a.d.Create()
	}
	if acc, err = a.d.Add(acc, in); err != nil {
		return false, err
	}
	return !ok, a.value.Set(acc)
}

func (a *aggregating[N, In, Acc, Out]) Merge(target N, sources ...N) error {
	return mergeValues(a.value, a.d.Merge, target, sources)
}

// mergeValues combines what namespaces hold into one of them. Those that hold nothing have no part in it.
func mergeValues[N comparable, V any](v Value[N, V], merge func(a, b V) (V, error), target N, sources []N) error {
	defer v.SetNamespace(target)
	var all V
	found := false
	take := func(n N) error {
		v.SetNamespace(n)
		one, ok, err := v.Get()
		switch {
		case err != nil || !ok:
			return err
		case !found:
			all, found = one, true
			return nil
		}
		all, err = merge(all, one)
		return err
	}
	if err := take(target); err != nil {
		return err
	}
	for i, n := range sources {
		if n == target || slices.Contains(sources[:i], n) {
			continue
		}
		if err := take(n); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	v.SetNamespace(target)
	if err := v.Set(all); err != nil {
		return err
	}
	// Nothing is removed before the merge has succeeded.
	for _, n := range sources {
		if n == target {
			continue
		}
		v.SetNamespace(n)
		if err := v.Clear(); err != nil {
			return err
		}
	}
	return nil
}
