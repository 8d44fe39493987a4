package backend

import (
	"context"
	"fmt"
	"slices"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// legacyTypes are the types of keyed states by their number in headers before version 5.
var legacyTypes = [...]Type{TypeUnknown, TypeValue, TypeList, TypeReducing, TypeFolding, TypeAggregating, TypeMap}

// legacyModes are the ways in which operator state is spread, by their number.
var legacyModes = [...]string{"SPLIT_DISTRIBUTE", "UNION", "BROADCAST"}

// readLegacyKeyedHeader reads a header of keyed state of versions 1 to 5
// (Flink 1.2 to 1.6), of which only the version was read. It is kept as it is
// and not made again. After a failure the result holds what was read until then, nil if that is nothing.
func readLegacyKeyedHeader(in *serializer.Input, version int32) *KeyedHeader {
	if version < 1 || version >= KeyedVersion {
		in.Fail("version", fmt.Errorf("header of version %d: %w", version, serializer.ErrUnsupported))
		return nil
	}
	h := &KeyedHeader{Version: version}
	in.Mark()
	if version >= 4 {
		h.Compressed = readBool(in, "compressed")
	}
	key := legacyPair
	if version >= 3 {
		key = legacyPairs(1)
	}
	if keys := key(in); keys != nil {
		h.Key = keys[0]
	}
	within(in, "key serializer")
	for n := readCount16(in, "number of states"); n > 0 && in.Err() == nil; n-- {
		var m StateMeta
		switch {
		case version >= 5:
			m = readListedMeta(in)
		case version >= 3:
			m = readLegacyKeyedMeta(in, legacyPairs(2))
		default:
			m = readLegacyKeyedMeta(in, legacyTwo)
		}
		if in.Err() == nil {
			h.States = append(h.States, m)
		} else {
			within(in, fmt.Sprintf("state %q", m.Name))
		}
	}
	h.legacy = slices.Clone(in.Marked())
	return h
}

// readLegacyOperatorHeader is readLegacyKeyedHeader for operator state,
// versions 1 to 4.
func readLegacyOperatorHeader(in *serializer.Input, version int32) *OperatorHeader {
	if version < 1 || version >= operatorVersionPlain {
		in.Fail("version", fmt.Errorf("header of version %d: %w", version, serializer.ErrUnsupported))
		return nil
	}
	h := &OperatorHeader{Version: version}
	in.Mark()
	meta := readListedMeta
	if version < 4 {
		meta = func(in *serializer.Input) StateMeta { return readLegacyOperatorMeta(in, version) }
	}
	h.Operator = readLegacyMetas(in, "number of operator states", meta)
	if version >= 3 {
		h.Broadcast = readLegacyMetas(in, "number of broadcast states", meta)
	}
	if version <= 2 { // the number of states, once more
		off := in.Offset()
		if n := in.I32(); in.Err() == nil && int(n) != len(h.Operator) {
			in.FailAt(off, "number of states", fmt.Errorf("%w: %d, not %d", serializer.ErrCorrupt, n, len(h.Operator)))
		}
	}
	h.legacy = slices.Clone(in.Marked())
	return h
}

// LegacyState is the name of the only state of [OpenLegacy].
const LegacyState = "checkpointed"

// OpenLegacy opens what a function of the Checkpointed interface of Flink 1.1
// to 1.3 saved, a handle of [metadata.SubtaskState.Legacy]: a state of one element. The caller
// closes it.
func OpenLegacy(ctx context.Context, files Files, s metadata.Stream, o Options) (*OperatorReader, error) {
	obj, err := files.open(ctx, s)
	if err != nil {
		return nil, err
	}
	state := &OperatorState{Name: LegacyState, Value: serializer.Checkpointed(), offsets: []int64{0}}
	return &OperatorReader{obj: obj, o: o, states: []*OperatorState{state}, offsets: state.offsets}, nil
}

func readLegacyMetas(in *serializer.Input, field string, read func(*serializer.Input) StateMeta) []StateMeta {
	var states []StateMeta
	for n := readCount16(in, field); n > 0 && in.Err() == nil; n-- {
		m := read(in)
		if in.Err() != nil {
			within(in, fmt.Sprintf("state %q", m.Name))
			break
		}
		states = append(states, m)
	}
	return states
}

// legacyPair, legacyTwo and legacyPairs read serializers; nil after a failure.
func legacyPair(in *serializer.Input) []*serializer.Snapshot {
	s := serializer.ReadLegacyObject(in)
	if s == nil {
		return nil
	}
	return []*serializer.Snapshot{s}
}

func legacyTwo(in *serializer.Input) []*serializer.Snapshot {
	a, b := serializer.ReadLegacyObject(in), serializer.ReadLegacyObject(in)
	if a == nil || b == nil {
		return nil
	}
	return []*serializer.Snapshot{a, b}
}

func legacyPairs(want int) func(in *serializer.Input) []*serializer.Snapshot {
	return func(in *serializer.Input) []*serializer.Snapshot {
		pairs := serializer.ReadLegacyPairs(in)
		if in.Err() == nil && len(pairs) != want {
			in.Failf("serializers", "%d instead of %d", len(pairs), want)
			return nil
		}
		return pairs
	}
}

// readLegacyKeyedMeta reads a state of versions 1 to 4.
func readLegacyKeyedMeta(in *serializer.Input, serializers func(*serializer.Input) []*serializer.Snapshot) StateMeta {
	off := in.Offset()
	kind := in.I32()
	m := StateMeta{Name: in.UTF(), Kind: KindKeyValue}
	if in.Err() == nil && (kind < 0 || int(kind) >= len(legacyTypes)) {
		in.FailAt(off, "type", fmt.Errorf("%w: %d", serializer.ErrCorrupt, kind))
	}
	both := serializers(in)
	if in.Err() != nil || both == nil {
		return m
	}
	m.Options = []Option{{OptionStateType, string(legacyTypes[kind])}}
	m.Serializers = []NamedSnapshot{{SerializerNamespace, both[0]}, {SerializerValue, both[1]}}
	return m
}

// readLegacyOperatorMeta reads a state of versions 1 to 3. A broadcast state,
// which has two serializers, has that of its keys first; Flink 1.6.0 to 1.7.0
// took it for that of the values (FLINK-11087).
func readLegacyOperatorMeta(in *serializer.Input, version int32) StateMeta {
	m := StateMeta{Name: in.UTF(), Kind: KindOperator}
	off := in.Offset()
	mode := in.U8()
	if in.Err() == nil && int(mode) >= len(legacyModes) {
		in.FailAt(off, "mode", fmt.Errorf("%w: %d", serializer.ErrCorrupt, mode))
	}
	var all []*serializer.Snapshot
	if version == 1 {
		all = []*serializer.Snapshot{serializer.ReadLegacyStream(in)}
	} else {
		all = serializer.ReadLegacyPairs(in)
	}
	if in.Err() != nil {
		return m
	}
	m.Options = []Option{{OptionDistributionMode, legacyModes[mode]}}
	switch len(all) {
	case 1:
		m.Serializers = []NamedSnapshot{{SerializerValue, all[0]}}
	case 2:
		m.Kind = KindBroadcast
		m.Serializers = []NamedSnapshot{{SerializerKey, all[0]}, {SerializerValue, all[1]}}
	default:
		in.FailAt(off, "serializers", fmt.Errorf("%w: %d of a state", serializer.ErrCorrupt, len(all)))
	}
	return m
}

// readListedMeta reads a state of Flink 1.6: as in later releases, but for the
// serializers, which stand together behind the list of their names.
func readListedMeta(in *serializer.Input) StateMeta {
	m := StateMeta{Name: in.UTF()}
	off := in.Offset()
	m.Kind = Kind(in.I32())
	if in.Err() == nil && (m.Kind < KindKeyValue || m.Kind > KindPriorityQueue) {
		in.FailAt(off, "kind", fmt.Errorf("%w: %d", serializer.ErrCorrupt, m.Kind))
	}
	for n := in.Length(); n > 0 && in.Err() == nil; n-- {
		m.Options = append(m.Options, Option{in.UTF(), in.UTF()})
	}
	for n := in.Length(); n > 0 && in.Err() == nil; n-- {
		m.Serializers = append(m.Serializers, NamedSnapshot{Key: in.UTF()})
	}
	all := legacyPairs(len(m.Serializers))(in)
	if in.Err() != nil {
		return m
	}
	for i := range m.Serializers {
		m.Serializers[i].Snapshot = all[i]
	}
	return m
}

// heapNested reads the entries of a state in a key group of Flink 1.2, whose
// heap backend wrote each namespace once: a byte that says whether there are
// any, and for each namespace its keys with their values.
func (g *groupReader) heapNested(state *State) {
	in := g.in
	wanted := g.wants(state)
	if !readBool(in, "whether a state has entries") {
		return
	}
	for n := in.Length(); n > 0 && in.Err() == nil && !g.out.done; n-- {
		off := in.Offset()
		in.Mark()
		skipValue(in, state.Namespace, "namespace")
		namespace := slices.Clone(in.Marked())
		for k := in.Length(); k > 0 && in.Err() == nil && !g.out.done; k-- {
			off := in.Offset()
			in.Mark()
			skipValue(in, state.Key, "key")
			g.copied = append(g.copied[:0], in.Marked()...)
			e := g.entry(state)
			e.Namespace, e.Key = namespace, g.copied
			g.heapValue(e, wanted)
			if in.Offset() == off {
				in.Failf("entries", "of no bytes")
			}
		}
		if in.Offset() == off {
			in.Failf("namespaces", "of no bytes")
		}
	}
	if in.Err() != nil && !g.out.done {
		g.lost(state.Meta.Name, -1, in.Err())
	}
}

// readTimerSerializers reads the serializers of a timer service's keys and
// namespaces. Flink up to 1.4.0 wrote no version, which is 0 here.
func readTimerSerializers(in *serializer.Input, version int32) (key, namespace *serializer.Snapshot) {
	switch version {
	case 0:
		key = serializer.ReadLegacyStream(in)
		namespace = serializer.ReadLegacyStream(in)
	case 1:
		if pair := legacyPairs(2)(in); pair != nil {
			key, namespace = pair[0], pair[1]
		}
	default:
		key, namespace = serializer.ReadSnapshot(in), serializer.ReadSnapshot(in)
	}
	if in.Err() != nil {
		return nil, nil
	}
	return key, namespace
}

// skipCallbacks passes over the keys that waited for a watermark, which builds
// between Flink 1.2 and 1.3 wrote behind the timers: a flag, a number, the keys'
// serializer, which is null if there are none, and the keys.
func skipCallbacks(in *serializer.Input) {
	readBool(in, "whether keys wait for a watermark")
	n := in.Length()
	s := serializer.Of(serializer.ReadLegacyStream(in))
	for ; n > 0 && in.Err() == nil; n-- {
		off := in.Offset()
		if skipValue(in, s, "key that waits for a watermark"); in.Offset() == off {
			in.Failf("keys", "of no bytes")
		}
	}
}
