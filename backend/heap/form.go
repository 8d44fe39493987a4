package heap

import (
	"fmt"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// valueForm is that of value, reducing and aggregating state.
type valueForm[V any] struct {
	codec serializer.Codec[V]
	// used gives the last access of a value with time to live.
	used func(V) int64
}

func (f valueForm[V]) entries(out *serializer.Output, v V, yield func(userKey, value []byte) bool) bool {
	f.codec.Write(out, v)
	return out.Err() == nil && yield(nil, out.Bytes())
}

func (f valueForm[V]) native(out *serializer.Output, v V) { f.codec.Write(out, v) }

func (f valueForm[V]) trim(v V, dead deadline) (live V, changed, ok bool) {
	return v, false, !dead(f.used(v))
}

func (f valueForm[V]) adapt(old backend.Parts, r *restored) error {
	return adaptValue(f.codec, old.Value, r)
}

func (f valueForm[V]) load(_ *backend.Entry, in *serializer.Input, r *restored, v V, more bool) (V, error) {
	if more {
		return v, fmt.Errorf("%w: a second one of the same key and namespace", serializer.ErrCorrupt)
	}
	v = readWith(r, f.codec, in)
	return v, in.Finish()
}

// listForm is that of list state.
type listForm[E any] struct {
	codec serializer.Codec[E]
	used  func(E) int64
}

func (f listForm[E]) entries(out *serializer.Output, v []E, yield func(userKey, value []byte) bool) bool {
	for i, e := range v {
		if i > 0 {
			out.U8(',')
		}
		f.codec.Write(out, e)
	}
	return out.Err() == nil && yield(nil, out.Bytes())
}

func (f listForm[E]) native(out *serializer.Output, v []E) {
	out.Length(len(v))
	for _, e := range v {
		f.codec.Write(out, e)
	}
}

func (f listForm[E]) trim(v []E, dead deadline) (live []E, changed, ok bool) {
	expired := func(e E) bool { return dead(f.used(e)) }
	if !slices.ContainsFunc(v, expired) {
		return v, false, true
	}
	live = slices.DeleteFunc(slices.Clone(v), expired)
	return live, true, len(live) > 0
}

func (f listForm[E]) adapt(old backend.Parts, r *restored) error {
	return adaptValue(f.codec, old.Value, r)
}

func (f listForm[E]) load(_ *backend.Entry, in *serializer.Input, r *restored, v []E, more bool) ([]E, error) {
	if more {
		return v, fmt.Errorf("%w: a second list of the same key and namespace", serializer.ErrCorrupt)
	}
	for i := 0; !in.AtEnd() && in.Err() == nil; i++ {
		if i > 0 {
			if c := in.U8(); c != ',' {
				in.Failf("list", "byte %#02x between elements", c)
				break
			}
		}
		v = append(v, readWith(r, f.codec, in))
	}
	return v, in.Finish()
}

// mapForm is that of map state.
type mapForm[U comparable, V any] struct {
	userKey serializer.Codec[U]
	odd     func(U) bool // see oddOf
	value   serializer.Codec[V]
	used    func(V) int64
	null    func(V) bool // nil if values are never null
}

func (f mapForm[U, V]) isNull(v V) bool { return f.null != nil && f.null(v) }

func (f mapForm[U, V]) entries(out *serializer.Output, v userMap[U, V], yield func(userKey, value []byte) bool) bool {
	for _, e := range v.entries {
		out.Reset()
		f.userKey.Write(out, e.Key)
		n := out.Len()
		if f.isNull(e.Value) {
			out.Bool(true)
		} else {
			out.Bool(false)
			f.value.Write(out, e.Value)
		}
		if out.Err() != nil || !yield(out.Bytes()[:n:n], out.Bytes()[n:]) {
			return false
		}
	}
	return true
}

func (f mapForm[U, V]) native(out *serializer.Output, v userMap[U, V]) {
	out.Length(len(v.entries))
	for _, e := range v.entries {
		f.userKey.Write(out, e.Key)
		if f.isNull(e.Value) {
			out.Bool(true)
			continue
		}
		out.Bool(false)
		f.value.Write(out, e.Value)
	}
}

func (f mapForm[U, V]) trim(v userMap[U, V], dead deadline) (live userMap[U, V], changed, ok bool) {
	expired := func(w V) bool { return dead(f.used(w)) }
	if !v.any(expired) {
		return v, false, true
	}
	live = v.where(v.epoch, expired)
	return live, true, len(live.entries) > 0
}

func (f mapForm[U, V]) adapt(old backend.Parts, r *restored) error {
	if err := backend.SameUserKeys(f.userKey, old.UserKey); err != nil {
		return err
	}
	return adaptValue(f.value, old.Value, r)
}

func (f mapForm[U, V]) load(e *backend.Entry, in *serializer.Input, r *restored, v userMap[U, V], _ bool) (userMap[U, V], error) {
	var w V
	switch {
	case !e.Null:
		w = readWith(r, f.value, in)
		if err := in.Finish(); err != nil {
			return v, err
		}
	case f.null == nil:
		return v, fmt.Errorf("null in a map: %w: the descriptor's Null must say what stands for it", serializer.ErrNull)
	}
	in = r.input(e.UserKey)
	u := f.userKey.Read(in)
	if err := in.Finish(); err != nil {
		return v, fmt.Errorf("user key: %w", err)
	}
	if f.odd != nil && f.odd(u) {
		return v, oddError("user key", u)
	}
	if v.find(u) >= 0 {
		return v, fmt.Errorf("%w: a user key that comes twice", serializer.ErrCorrupt)
	}
	v.add(u, w, userTag(u))
	return v, nil
}
