package backend

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/drey-state/drey/serializer"
)

// errMerged says that a value is not in the log, but what the job made of several.
var errMerged = fmt.Errorf("merged by the job's own function, which the log does not hold: %w", serializer.ErrUnsupported)

// replay is one state in one key group, to which changes are applied.
type replay struct {
	state *State
	cells map[string]*cell
	order []*cell
	in    *serializer.Input
	err   error // after which the content is unknown
}

// cell is what a state holds for one key and namespace, or one timer.
type cell struct {
	key, namespace []byte
	timestamp      int64
	// set says that there is a value: of VALUE and its like, a list or a timer.
	set   bool
	value []byte
	// lost says that there is a value that is not known.
	lost bool
	// items are the entries of a map, by the bytes of their keys.
	items map[string]*item
	order []*item
}

// item is an entry of a map.
type item struct {
	userKey, value []byte
	set, null      bool
}

func newReplay(s *State) *replay {
	return &replay{state: s, cells: map[string]*cell{}, in: serializer.NewInput(nil)}
}

// cell finds what there is for a key and namespace, or makes it.
func (r *replay) cell(timestamp int64, key, namespace []byte) *cell {
	id := make([]byte, 0, 12+len(key)+len(namespace))
	id = binary.BigEndian.AppendUint64(id, uint64(timestamp))
	id = binary.BigEndian.AppendUint32(id, uint32(len(key)))
	id = append(append(id, key...), namespace...)
	c := r.cells[string(id)]
	if c == nil {
		c = &cell{key: slices.Clone(key), namespace: slices.Clone(namespace), timestamp: timestamp}
		r.cells[string(id)] = c
		r.order = append(r.order, c)
	}
	return c
}

// load takes in a materialized entry.
func (r *replay) load(e *Entry) {
	if e.Unsplit || e.Joined {
		r.err = fmt.Errorf("the serializer of keys or namespaces: %w", serializer.ErrUnsupported)
		return
	}
	c := r.cell(e.Timestamp, e.Key, e.Namespace)
	if r.state.Type == TypeMap {
		c.put(e.UserKey, e.Value, e.Null)
		return
	}
	c.assign(slices.Clone(e.Value))
}

func (c *cell) assign(value []byte) { c.set, c.lost, c.value = true, false, value }

func (c *cell) put(userKey, value []byte, null bool) {
	it := c.items[string(userKey)]
	if it == nil {
		it = &item{userKey: slices.Clone(userKey)}
		if c.items == nil {
			c.items = map[string]*item{}
		}
		c.items[string(userKey)] = it
		c.order = append(c.order, it)
	}
	it.set, it.null, it.value = true, null, slices.Clone(value)
}

func (c *cell) clear() {
	c.set, c.lost, c.value, c.items, c.order = false, false, nil, nil, nil
}

// appendList adds elements that are joined as the lists of entries are.
func (c *cell) appendList(joined []byte) {
	if len(joined) == 0 {
		return
	}
	if c.set {
		c.value = append(c.value, ',')
	}
	c.set = true
	c.value = append(c.value, joined...)
}

// apply applies one change.
func (r *replay) apply(change *stateChange) error {
	in := r.in
	in.ResetAt(change.data, change.offset)
	if r.state.Type == TypeTimers {
		r.applyTimers(change.op, in)
		return finished(in)
	}
	key := r.skip(r.state.Key)
	var namespace []byte
	if !in.Lost() {
		namespace = r.skip(r.state.Namespace)
	}
	if in.Lost() {
		if in.Err() == nil {
			return fmt.Errorf("the serializer of keys or namespaces: %w", serializer.ErrUnsupported)
		}
		return in.Err()
	}
	c := r.cell(0, key, namespace)
	switch {
	case change.op == changeClear:
		c.clear()
	case change.op == changeMerge:
		r.merge(c)
	case r.state.Type == TypeMap:
		r.applyMap(change.op, c)
	case r.state.Type == TypeList:
		r.applyList(change.op, c)
	case change.op == changeSet || change.op == changeSetInternal:
		c.assign(slices.Clone(in.Rest()))
	default:
		in.Fail("operation", fmt.Errorf("%d on a state of type %s: %w", change.op, r.state.Type, serializer.ErrUnsupported))
	}
	return finished(in)
}

// finished says whether a change was read to its end.
func finished(in *serializer.Input) error {
	switch {
	case in.Err() != nil:
		return in.Err()
	case in.Lost():
		return fmt.Errorf("a serializer: %w", serializer.ErrUnsupported)
	case !in.AtEnd():
		in.Failf("change", "%d bytes are left", in.Remaining())
		return in.Err()
	}
	return nil
}

// skip gives the bytes of one value, as a copy.
func (r *replay) skip(s serializer.Serializer) []byte {
	r.in.Mark()
	s.Skip(r.in)
	return slices.Clone(r.in.Marked())
}

func (r *replay) applyTimers(op byte, in *serializer.Input) {
	n := 1
	switch op {
	case changeAddElement:
		n = in.Length()
	case changeRemoveElement:
	default:
		in.Fail("operation", fmt.Errorf("%d on timers: %w", op, serializer.ErrUnsupported))
	}
	for ; n > 0 && !in.Lost(); n-- {
		timestamp := int64(uint64(in.I64()) ^ 1<<63)
		key := r.skip(r.state.Key)
		namespace := r.skip(r.state.Namespace)
		if in.Lost() {
			return
		}
		c := r.cell(timestamp, key, namespace)
		c.set = op == changeAddElement
	}
}

func (r *replay) applyMap(op byte, c *cell) {
	in := r.in
	switch op {
	case changeAdd: // a map
		for n := in.Length(); n > 0 && !in.Lost(); n-- {
			key := r.skip(r.state.UserKey)
			null := in.Bool()
			var value []byte
			if !null && !in.Lost() {
				value = r.skip(r.state.Value)
			}
			if in.Err() == nil {
				c.put(key, value, null)
			}
		}
	case changeAddElement, changeUpdateElement:
		key := r.skip(r.state.UserKey)
		if value := in.Rest(); in.Err() == nil {
			c.put(key, value, false)
		}
	case changeRemoveElement:
		key := r.skip(r.state.UserKey)
		if it := c.items[string(key)]; it != nil {
			it.set = false
		}
	default:
		in.Fail("operation", fmt.Errorf("%d on a map: %w", op, serializer.ErrUnsupported))
	}
}

func (r *replay) applyList(op byte, c *cell) {
	in := r.in
	switch op {
	case changeSet, changeSetInternal:
		c.clear()
		c.appendList(r.list())
	case changeAdd:
		c.appendList(r.list())
	case changeAddElement:
		c.appendList(in.Rest())
	default:
		in.Fail("operation", fmt.Errorf("%d on a list: %w", op, serializer.ErrUnsupported))
	}
}

// list reads a list with its count and gives its elements joined.
func (r *replay) list() []byte {
	var joined []byte
	for n := r.in.Length(); n > 0 && !r.in.Lost(); n-- {
		element := r.skip(r.state.Value)
		if len(element) == 0 {
			r.in.Failf("elements of a list", "of no bytes")
		}
		if joined != nil {
			joined = append(joined, ',')
		}
		joined = append(joined, element...)
	}
	return joined
}

// merge moves what there is for other namespaces of the key to the one of c.
func (r *replay) merge(c *cell) {
	in := r.in
	r.skip(r.state.Namespace) // that of c again
	lists := r.state.Type == TypeList
	var values int
	if c.set || c.lost {
		values++
	}
	for n := in.Length(); n > 0 && !in.Lost(); n-- {
		namespace := r.skip(r.state.Namespace)
		if in.Err() != nil {
			return
		}
		from := r.cell(0, c.key, namespace)
		if from == c || !from.set && !from.lost {
			continue
		}
		values++
		switch {
		case lists:
			c.appendList(from.value)
		case values == 1:
			c.set, c.lost, c.value = from.set, from.lost, from.value
		default:
			c.set, c.lost, c.value = false, true, nil
		}
		from.clear()
	}
}

// emit hands out what there is in the end.
func (r *replay) emit(group int, out *sink) {
	if r.err != nil {
		out.lost(&LostError{State: r.state.Meta.Name, KeyGroup: group, Entries: -1, Err: r.err})
		return
	}
	var lost int64
	for _, c := range r.order {
		scratch := out.entry.in
		out.entry = Entry{State: r.state, KeyGroup: group, Key: c.key, Namespace: c.namespace, Timestamp: c.timestamp, in: scratch}
		e := &out.entry
		switch {
		case c.lost:
			lost++
		case c.set:
			e.Value = c.value
			out.emit()
		}
		for _, it := range c.order {
			if it.set && !out.done {
				e.UserKey, e.Value, e.Null = it.userKey, it.value, it.null
				out.emit()
			}
		}
		if out.done {
			return
		}
	}
	if lost > 0 {
		out.lost(&LostError{State: r.state.Meta.Name, KeyGroup: group, Entries: lost, Err: errMerged})
	}
}
