package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Operations of a change (StateChangeOperation).
const (
	changeClear         = 0
	changeSet           = 1
	changeSetInternal   = 2
	changeAdd           = 3
	changeMerge         = 4
	changeAddElement    = 5
	changeUpdateElement = 6
	changeRemoveElement = 7
	changeMetadata      = 8
)

// commonKeyGroup is the key group under which descriptions of states are logged.
const commonKeyGroup = -1

// changeMetaVersion is the version of the descriptions: as in keyed headers of version 6.
const changeMetaVersion = 7

// oldChangeMetaVersion is that of Flink 1.16, which differs in no way that matters here.
const oldChangeMetaVersion = 6

// changelog is the state of a changelog backend: what was materialized, as in
// any other handle, and the changes since then. It holds all changes in memory,
// and of the materialized state those states of one key group that changed.
type changelog struct {
	base    []*KeyedReader
	states  []*State
	numbers map[stateID]int       // index in states
	changes map[int][]stateChange // by key group, in the order of the log
}

// stateID is what a backend knows a state by.
type stateID struct {
	name   string
	timers bool
}

func idOf(m *StateMeta) stateID { return stateID{m.Name, m.Kind == KindPriorityQueue} }

// stateChange is one operation.
type stateChange struct {
	id stateID
	op byte
	// data is the scope (key and namespace; nothing for timers) and the operand.
	data []byte
	// file and offset say where data stands: in a file, after decompression.
	file   string
	offset int64
}

// openChangelog opens a handle of the changelog backend (ChangelogStateBackendHandle).
func openChangelog(ctx context.Context, files Files, h *metadata.Changelog, o Options) (_ *KeyedReader, err error) {
	c := &changelog{numbers: map[stateID]int{}, changes: map[int][]stateChange{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	log := changeReader{changelog: c, ids: map[int16]stateID{}, header: &KeyedHeader{Version: KeyedVersion}}
	r := &KeyedReader{layout: c, format: "changelog", header: log.header, keyGroups: h.KeyGroups.Range()}
	cut := o
	cut.partial = true // a restore with another parallelism cuts handles, not files
	for _, b := range h.Base {
		base, err := OpenKeyed(ctx, files, b, cut)
		if err != nil {
			return nil, fmt.Errorf("materialized state: %w", err)
		}
		c.base = append(c.base, base)
		if r.headerErr == nil {
			r.headerErr = base.HeaderErr()
		}
		if head := base.Header(); head != nil {
			log.header.Key = head.Key
			for _, m := range head.States {
				log.describe(m)
			}
		}
	}
	for _, d := range h.Delta {
		if err := log.read(ctx, files, d, &o); err != nil {
			return nil, err
		}
	}
	if log.header.Key == nil {
		log.header.Key = keyOfTimers(log.header.States)
	}
	for i := range log.header.States {
		m := &log.header.States[i]
		c.numbers[idOf(m)] = len(c.states)
		c.states = append(c.states, NewState(m, log.header.Key))
	}
	for _, b := range c.base {
		for _, s := range b.states { // those behind a header that could not be read
			if id := idOf(s.Meta); !s.known {
				c.numbers[id] = len(c.states)
				c.states = append(c.states, s)
			}
		}
	}
	r.states = c.states
	return r, nil
}

// keyOfTimers takes the serializer of keys from that of a timer: a log alone
// has no other place for it. It gives nil if no state is a queue of timers.
func keyOfTimers(metas []StateMeta) *serializer.Snapshot {
	for i := range metas {
		if m := &metas[i]; m.Kind == KindPriorityQueue {
			return part(m.Serializer(SerializerValue), 0, 2)
		}
	}
	return nil
}

// changeReader reads the changes of one handle. The numbers of states hold for all of its files.
type changeReader struct {
	*changelog
	ids    map[int16]stateID
	header *KeyedHeader
}

// describe adds a state, or replaces its description by a later one.
func (l *changeReader) describe(m StateMeta) {
	id := idOf(&m)
	h := l.header
	if i := slices.IndexFunc(h.States, func(o StateMeta) bool { return idOf(&o) == id }); i >= 0 {
		h.States[i] = m
		return
	}
	h.States = append(h.States, m)
}

// read reads the changes of a handle inside the changelog's.
func (l *changeReader) read(ctx context.Context, files Files, h metadata.Keyed, o *Options) error {
	switch h := h.(type) {
	case *metadata.ChangelogMemory:
		for i, c := range h.Changes {
			at := stateChange{data: c.Change, file: fmt.Sprintf("inline change %d", i)}
			if err := l.change(int(c.KeyGroup), at); err != nil {
				return err
			}
		}
		return nil
	case *metadata.ChangelogFile:
		for _, s := range h.Streams {
			if err := l.readFile(ctx, files, s, o); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("changes in a handle of type %T: %w", h, serializer.ErrUnsupported)
}

// readFile reads one set of changes (StateChangeFormat) from a file, which may hold others.
func (l *changeReader) readFile(ctx context.Context, files Files, s metadata.ChangelogStream, o *Options) error {
	obj, err := files.open(ctx, s.Stream)
	if err != nil {
		return err
	}
	defer obj.Close()
	src := newSource(ctx, obj, o)
	in := serializer.NewStreamInput(&span{src, 0, src.limit}, 0)
	switch flag := in.U8(); flag {
	case 0:
	case 1:
		z := new(unsnappy)
		z.reset(src, 1, src.limit)
		in = serializer.NewStreamInput(z, 0)
	default:
		in.Failf("compressed", "%d", flag)
	}
	in.Skip(s.Offset)
	for groups := in.Length(); groups > 0 && in.Err() == nil; groups-- {
		n, group := in.Length(), in.I32()
		for ; n > 0 && in.Err() == nil; n-- {
			size := in.Length()
			at := stateChange{file: obj.name, offset: in.Offset()}
			at.data = slices.Clone(in.Take(size))
			if in.Err() != nil {
				break
			}
			if err := l.change(int(group), at); err != nil {
				return err
			}
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: changes at %d: %w", obj.name, s.Offset, errors.Join(err, src.err))
	}
	return nil
}

// change takes in one change, of which data is the whole.
func (l *changeReader) change(group int, c stateChange) error {
	in := serializer.NewInput(nil)
	in.ResetAt(c.data, c.offset)
	c.op = in.U8()
	if group == commonKeyGroup {
		l.readDescription(in, c.op)
		return c.wrap(in.Err())
	}
	number := int16(in.U16())
	id, ok := l.ids[number]
	if !ok {
		in.Failf("state", "number %d was not described", number)
	}
	if group < 0 {
		in.Failf("key group", "%d", group)
	}
	if in.Err() != nil {
		return c.wrap(in.Err())
	}
	c.id = id
	c.offset = in.Offset()
	c.data = in.Rest()
	l.changes[group] = append(l.changes[group], c)
	return nil
}

// wrap says where an error occurred.
func (c *stateChange) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: change: %w", c.file, err)
}

// readDescription reads the description of a state, with which it gets its number in the log.
func (l *changeReader) readDescription(in *serializer.Input, op byte) {
	if op != changeMetadata {
		in.Fail("operation", fmt.Errorf("%d in the key group of descriptions: %w", op, serializer.ErrUnsupported))
	}
	if v := in.I32(); v != changeMetaVersion && v != oldChangeMetaVersion && in.Err() == nil {
		in.Fail("version", fmt.Errorf("description of a state of version %d: %w", v, serializer.ErrUnsupported))
	}
	m := newHeaderReader(in).stateMeta()
	// A time to live and a default value follow, the first as a Java object;
	// the number and the kind are the last three bytes.
	rest := in.Rest()
	if len(rest) < 3 {
		in.Failf("number", "%d bytes left", len(rest))
	}
	if in.Err() != nil {
		return
	}
	l.describe(m)
	l.ids[int16(uint16(rest[len(rest)-3])<<8|uint16(rest[len(rest)-2]))] = idOf(&m)
}

func (c *changelog) verify(ctx context.Context, found func(error)) error {
	for _, b := range c.base {
		if err := b.Verify(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

func (c *changelog) close() error {
	var errs []error
	for _, b := range c.base {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

func (c *changelog) entries(ctx context.Context, out *sink) {
	for _, run := range out.runs {
		for g := run.Start; g <= run.End && !out.done; g++ {
			if err := ctx.Err(); err != nil {
				out.fail(err)
				return
			}
			c.group(ctx, g, out)
		}
	}
}

// group hands out one key group: what did not change as it was materialized,
// then the states that changed.
func (c *changelog) group(ctx context.Context, group int, out *sink) {
	changed := make([]*replay, len(c.states))
	for _, change := range c.changes[group] {
		i := c.numbers[change.id]
		if changed[i] == nil && out.filter.wants(c.states[i]) {
			changed[i] = newReplay(c.states[i])
		}
	}
	f := Filter{
		KeyGroups: []keygroup.Range{{Start: group, End: group}},
		State: func(s *State) bool {
			i, ok := c.numbers[idOf(s.Meta)]
			return ok && out.filter.wants(c.states[i])
		},
	}
	for _, b := range c.base {
		for e, err := range b.Entries(ctx, f) {
			var lost *LostError
			switch {
			case errors.As(err, &lost):
				out.lost(lost)
			case err != nil:
				out.fail(err)
			default:
				i := c.numbers[idOf(e.State.Meta)]
				if changed[i] != nil {
					changed[i].load(e)
					continue
				}
				scratch := out.entry.in
				out.entry = *e
				out.entry.in, out.entry.State = scratch, c.states[i]
				out.emit()
			}
			if out.done {
				return
			}
		}
	}
	for _, change := range c.changes[group] {
		if r := changed[c.numbers[change.id]]; r != nil && r.err == nil {
			r.err = change.wrap(r.apply(&change))
		}
	}
	for _, r := range changed {
		if r != nil && !out.done {
			r.emit(group, out)
		}
	}
}
