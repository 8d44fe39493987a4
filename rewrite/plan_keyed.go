package rewrite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// keyed plans what becomes of the keyed state.
func (p *Plan) keyed(ctx context.Context, op *OperatorPlan) error {
	if len(op.handles) == 0 {
		return nil
	}
	if m := op.Source.MaxParallelism; m <= 0 || m > keygroup.UpperBound {
		p.problem(op, "", "keyed state of %d key groups", m)
		return nil
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(p.o.jobs())
	for _, h := range op.handles {
		eg.Go(func() error {
			err := h.look(ctx, p.src.Files, int(op.Source.MaxParallelism))
			if err != nil {
				return fmt.Errorf("%s: subtask %d: %w", Label(op.Source), h.subtask, err)
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	if !p.disjoint(op) {
		return nil
	}
	formats := map[string]bool{}
	managed := op.handles[:0:0]
	for _, h := range op.handles {
		p.Bytes += h.bytes
		formats[h.format] = true
		if h.format == "raw" {
			if nothing(h.keyed) {
				continue
			}
			op.raw = append(op.raw, h)
			if op.Target.MaxParallelism != op.Source.MaxParallelism {
				p.problem(op, "", "subtask %d has raw keyed state that is no timers: only its operator can move it to other key groups", h.subtask)
			}
			continue
		}
		managed = append(managed, h)
	}
	op.handles = managed
	op.From = slices.Sorted(maps.Keys(formats))
	p.format(op)
	if p.copies(op) {
		op.Work = Copied
		p.listCopied(op)
		return nil
	}
	if len(op.handles) == 0 {
		op.Work = Rewritten
		return nil
	}
	if !p.merge(op) {
		op.Work = Rewritten
		return nil
	}
	p.checkStates(op)
	p.splitTimers(op)
	op.Work = Rewritten
	switch {
	case op.Target.MaxParallelism != op.Source.MaxParallelism:
		op.Work = Moved
		p.hash(op)
	case op.Format == NativeRocksDB && (!slices.Equal(op.From, []string{"rocksdb"}) || op.t.Put != nil):
		op.Work = Sorted
	}
	return p.putAll(op)
}

// disjoint checks that no key group is in two handles of a kind.
func (p *Plan) disjoint(op *OperatorPlan) bool {
	for _, raw := range []bool{false, true} {
		end := -1
		for _, h := range op.handles {
			if h.isRaw != raw || h.groups.Empty() {
				continue
			}
			if h.groups.Start <= end {
				p.problem(op, "", "key group %d is in two handles", h.groups.Start)
				return false
			}
			if h.groups.End >= int(op.Source.MaxParallelism) {
				p.problem(op, "", "subtask %d has key group %d of %d", h.subtask, h.groups.End, op.Source.MaxParallelism)
				return false
			}
			end = h.groups.End
		}
	}
	return true
}

// layoutOf gives the format in which a layout stays as it is.
func layoutOf(layout string) Format {
	switch layout {
	case "heap":
		return NativeHeap
	case "rocksdb":
		return NativeRocksDB
	}
	return Canonical
}

// format decides on the layout in which an operator's state is written.
func (p *Plan) format(op *OperatorPlan) {
	if op.Format = p.o.Format; op.Format != AsIs {
		return
	}
	op.Format = Canonical
	for i, h := range op.handles {
		f := layoutOf(h.format)
		if h.isRaw && len(op.handles) > 1 {
			continue // the managed state says which backend it was
		}
		if i > 0 && f != op.Format {
			op.Format = Canonical
			return
		}
		op.Format = f
	}
}

// copies says whether the operator's keyed state can stay as it is, byte for byte.
func (p *Plan) copies(op *OperatorPlan) bool {
	t := op.t
	// The RocksDB of Flink 2 has check sums in its tables that the one of Flink 1 doesn't know.
	if slices.Contains(op.From, "rocksdb") && p.src.Metadata.Version >= metadata.Version5 && p.Version < metadata.Version5 {
		return false
	}
	if op.rescaled() || t.State != nil || t.Keyed != nil || t.Put != nil {
		return false
	}
	for _, h := range op.handles {
		switch {
		case h.isRaw && op.Format == NativeRocksDB:
			continue
		case h.format == "changelog" || layoutOf(h.format) != op.Format || h.isRaw:
			return false
		case h.header == nil && h.headerErr == nil:
			return false
		case h.header != nil && h.header.Version != backend.KeyedVersion || h.header != nil && outdated(h.header):
			return false
		}
		if _, ok := h.keyed.(*metadata.KeyGroups); ok && h.header != nil {
			if c := p.o.Compression; c != CompressionAsIs && (c == CompressionSnappy) != h.header.Compressed {
				return false
			}
		}
	}
	return true
}

// outdated says that a header has snapshots of serializers in the form of Flink 1.7 or before.
func outdated(h *backend.KeyedHeader) bool {
	if h.Key.Modern() != h.Key {
		return true
	}
	for i := range h.States {
		for _, s := range h.States[i].Serializers {
			if s.Snapshot.Modern() != s.Snapshot {
				return true
			}
		}
	}
	return false
}

// listCopied lists the states that are copied as they are.
func (p *Plan) listCopied(op *OperatorPlan) {
	seen := map[stateID]bool{}
	for _, h := range op.handles {
		for _, s := range h.states {
			if id := idOf(s); !seen[id] {
				seen[id] = true
				op.States = append(op.States, StatePlan{Name: s.Meta.Name, To: s.Meta.Name, Type: string(s.Type)})
			}
		}
	}
}

// merge makes the header of what is written, with the states of all handles. False means that it can't be made.
func (p *Plan) merge(op *OperatorPlan) bool {
	ok := true
	fail := func(state, format string, args ...any) {
		p.problem(op, state, format, args...)
		ok = false
	}
	op.header.Version = backend.KeyedVersion
	op.header.Compressed = p.o.Compression == CompressionSnappy
	for _, h := range op.handles {
		if h.headerErr != nil {
			fail("", "the header of subtask %d's state can't be read to its end, so that it can't be written: %v", h.subtask, h.headerErr)
			return false
		}
		if h.header != nil && p.o.Compression == CompressionAsIs && h.header.Compressed {
			op.header.Compressed = true
		}
		for _, s := range h.states {
			key := s.Parts().Key.Modern()
			switch {
			case op.header.Key == nil:
				op.header.Key = key
			case key == nil || !equal(op.header.Key, key):
				fail(s.Meta.Name, "its keys are of another type than those of other states: %s, not %s", key, op.header.Key)
				return false
			}
		}
		if h.header != nil && op.header.Key == nil {
			op.header.Key = h.header.Key.Modern()
		}
	}
	for _, h := range op.handles {
		for _, s := range h.states {
			m, err := s.Managed()
			if err != nil {
				fail(s.Meta.Name, "%v", err)
				continue
			}
			meta := modern(m.Meta)
			target := backend.NewState(&meta, op.header.Key)
			id := idOf(s)
			if n, seen := op.numbers[id]; seen {
				if n >= 0 && backend.SameState(op.was[n], target) != nil {
					fail(s.Meta.Name, "subtask %d describes it otherwise than another one", h.subtask)
				}
				continue
			}
			to := s.Meta.Name
			if op.t.State != nil {
				to = op.t.State(to, true)
			}
			op.States = append(op.States, StatePlan{Name: s.Meta.Name, To: to, Type: string(target.Type)})
			if to == "" {
				op.numbers[id] = -1
				continue
			}
			op.numbers[id] = len(op.header.States)
			op.was = append(op.was, target)
			renamed := meta
			renamed.Name = to
			if slices.ContainsFunc(op.header.States, func(o backend.StateMeta) bool {
				return o.Name == to && (op.Format != NativeHeap || o.Kind == renamed.Kind)
			}) {
				fail(s.Meta.Name, "there is another state of the name %q", to)
			}
			op.header.States = append(op.header.States, renamed)
		}
	}
	for i := range op.header.States {
		op.states = append(op.states, backend.NewState(&op.header.States[i], op.header.Key))
	}
	if len(op.states) == 0 || !ok {
		return ok
	}
	if op.header.Key == nil {
		fail("", "nothing says what serializer its keys have")
		return false
	}
	out := serializer.NewOutput(nil)
	op.header.Write(out)
	if err := out.Err(); err != nil {
		fail("", "its states can't be described as Flink does today: %v", err)
	}
	return ok
}

// equal says that two snapshots of serializers, or two headers, are written alike.
func equal(a, b interface{ Write(*serializer.Output) }) bool {
	x, y := serializer.NewOutput(nil), serializer.NewOutput(nil)
	a.Write(x)
	b.Write(y)
	return x.Err() == nil && y.Err() == nil && string(x.Bytes()) == string(y.Bytes())
}

// modern describes a state as Flink does since 1.8.
func modern(s *backend.StateMeta) backend.StateMeta {
	m := *s
	m.Serializers = slices.Clone(m.Serializers)
	for i := range m.Serializers {
		m.Serializers[i].Snapshot = m.Serializers[i].Snapshot.Modern()
	}
	return m
}

// checkStates finds states that the target can't hold.
func (p *Plan) checkStates(op *OperatorPlan) {
	heap := slices.Contains(op.From, "heap") || slices.Contains(op.From, "changelog")
	for i, s := range op.states {
		name := op.header.States[i].Name
		if s.Meta.Kind == backend.KindKeyValueV2 {
			if op.Format != Canonical || slices.ContainsFunc(op.From, func(f string) bool { return f != "canonical" }) {
				p.problem(op, name, "it is state of Flink 2's asynchronous API, which is carried from one canonical savepoint into another only")
			}
			if p.Version < metadata.Version5 {
				p.problem(op, name, "it is state of Flink 2's asynchronous API, which Flink 1 doesn't have")
			}
		}
		if s.Type == backend.TypeFolding {
			p.warn(op, name, "it is folding state, which Flink has no more since 1.9: no job can open it")
		}
		parts := s.Parts()
		for _, part := range []struct {
			what     string
			snapshot *serializer.Snapshot
		}{{"key", parts.Key}, {"namespace", parts.Namespace}, {"user key", parts.UserKey}, {"value", parts.Value}} {
			what, opaque := part.what, ""
			if part.snapshot != nil {
				opaque = part.snapshot.OpaquePart()
			}
			if opaque == "" {
				continue
			}
			split := what != "value" || s.Type == backend.TypeList
			switch {
			case op.Format == NativeHeap && split || heap:
				p.warn(op, name, "its %s is of %s, whose end in a file only Java knows: should there be one that needs to be told apart, nothing will be written", what, opaque)
			case op.Format == NativeHeap:
				p.warn(op, name, "its %s is of %s, whose end in a file only Java knows: Flink will read it from the hashmap backend's format, nothing else can", what, opaque)
			}
		}
		p.kryo(op, name, s)
	}
}

// kryo warns of values that another release of Kryo reads otherwise.
func (p *Plan) kryo(op *OperatorPlan, name string, s *backend.State) {
	old, target := p.src.Metadata.Version < metadata.Version5, p.Version < metadata.Version5
	if old == target {
		return
	}
	parts := s.Parts()
	for _, snapshot := range []*serializer.Snapshot{parts.Key, parts.Namespace, parts.UserKey, parts.Value} {
		if class := snapshot.KryoPart(); class != "" {
			p.warn(op, name, "it holds %s, written by Kryo, whose form is another in Flink 1 and in Flink 2: the bytes are carried as they are", class)
			return
		}
	}
}

// hasher makes what computes the hashes of the operator's keys. One goroutine may use it.
func (p *Plan) hasher(op *OperatorPlan) *serializer.Hasher {
	if p.o.Hasher != nil {
		return p.o.Hasher(op.Source, op.header.Key)
	}
	return serializer.NewHasher(op.header.Key)
}

// hash finds out whether the hashes of the operator's keys can be computed.
func (p *Plan) hash(op *OperatorPlan) {
	h := p.hasher(op)
	if err := h.Err(); err != nil {
		p.problem(op, "", "keys of type %s can't be moved to other key groups: %v; a rule for the class may say what that computes", op.header.Key, err)
		return
	}
	if a := h.Assumes(); a != "" {
		p.warn(op, "", "the key groups of keys of type %s are computed assuming %s", op.header.Key, a)
	}
}

// putAll resolves the entries that are put.
func (p *Plan) putAll(op *OperatorPlan) error {
	if op.t.Put == nil {
		return nil
	}
	hasher := p.hasher(op)
	for n, state := range op.was {
		puts, err := op.t.Put(state)
		if err != nil {
			return fmt.Errorf("%s: %w", Label(op.Source), err)
		}
		for _, put := range puts {
			hash, err := hasher.Hash(put.Key)
			if err != nil {
				p.problem(op, state.Meta.Name, "the key group of a key that is to be set can't be known: %v", err)
				continue
			}
			e := backend.Entry{State: state, Key: put.Key, Namespace: put.Namespace, UserKey: put.UserKey, Value: put.Value, Null: put.Null}
			op.puts = append(op.puts, statePut{
				state: n, group: keygroup.ForHash(hash, int(op.Target.MaxParallelism)), key: e.AppendStoredKey(nil), value: e.AppendStoredValue(nil),
			})
		}
	}
	slices.SortStableFunc(op.puts, statePut.compare)
	for i := 1; i < len(op.puts); i++ {
		if a := op.puts[i]; a.compare(op.puts[i-1]) == 0 {
			p.problem(op, op.was[a.state].Meta.Name, "two values are to be set for the same key")
		}
	}
	return nil
}

// look opens the handle to see what is in it.
func (h *handle) look(ctx context.Context, files backend.Files, maxParallelism int) (err error) {
	r, err := backend.OpenKeyed(ctx, files, h.keyed, backend.Options{MaxParallelism: maxParallelism, Raw: h.isRaw})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h.format, h.header, h.headerErr, h.states = r.Format(), r.Header(), r.HeaderErr(), r.States()
	return nil
}

// nothing says that no key group has any bytes in raw keyed state.
func nothing(k metadata.Keyed) bool {
	h, ok := k.(*metadata.KeyGroups)
	return ok && !slices.ContainsFunc(h.Offsets, func(o int64) bool { return o >= 0 })
}

// keyedBytes is how many bytes a handle of keyed state stands for, in files and inline.
func keyedBytes(k metadata.Keyed) int64 { return bytesOf(&metadata.SubtaskState{ManagedKeyed: k}) }

// bytesOf is how many bytes a subtask's state has in files, and its handles with what is inline.
func bytesOf(state *metadata.SubtaskState) (n int64) {
	one := &metadata.Snapshot{Version: metadata.Version6, Properties: metadata.NullProperties, Operators: []metadata.Operator{{
		Parallelism: 1, MaxParallelism: 1, Subtasks: []metadata.Subtask{{State: state}},
	}}}
	if data, err := metadata.Encode(one); err == nil {
		n = int64(len(data))
	}
	for ref := range one.Refs() {
		n += max(ref.Size, 0)
	}
	return n
}
