package backend

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/drey-state/drey/internal/javaio"
	"github.com/drey-state/drey/serializer"
)

// KeyedVersion is the version of headers of keyed state that Flink 1.20 and 2.x write (KeyedBackendSerializationProxy).
const KeyedVersion = 6

// OperatorVersion is the version of headers of operator state that Flink 1.20 and 2.x write (OperatorBackendSerializationProxy).
const OperatorVersion = 6

// operatorVersionPlain is the version before, without the byte that says whether data is compressed.
const operatorVersionPlain = 5

// proxyVersion is the version that precedes a serializer's snapshot in a
// header (TypeSerializerSnapshotSerializationUtil).
const proxyVersion = 2

// ReadKeyedHeader reads the start of a file of keyed state. After a failure,
// which in.Err tells, the result holds the states that were read until then;
// it is nil if not even the serializer of keys was. A serializer that is not
// known is a failure, because where it ends is not known either.
func ReadKeyedHeader(in *serializer.Input) *KeyedHeader {
	h, _ := newHeaderReader(in).keyed()
	if h != nil && h.Key == nil {
		return nil
	}
	return h
}

// headerReader reads headers.
type headerReader struct {
	in *serializer.Input
	// unread has the ends of snapshots that cannot be read, by their starts.
	unread map[int64]int64
	// failed is where the first other one starts, -1 if there is none.
	failed int64
}

func newHeaderReader(in *serializer.Input) *headerReader {
	return &headerReader{in: in, failed: -1}
}

// keyed also gives the number of states that the header announces, -1 if it
// was not reached.
func (r *headerReader) keyed() (*KeyedHeader, int) {
	in := r.in
	h := &KeyedHeader{Version: in.I32()}
	if in.Err() != nil {
		return nil, -1
	}
	if h.Version != KeyedVersion {
		h = readLegacyKeyedHeader(in, h.Version)
		if h == nil {
			return nil, -1
		}
		return h, len(h.States)
	}
	h.Compressed = readBool(in, "compressed")
	h.Key = r.proxied()
	if in.Err() != nil {
		within(in, "key serializer")
		h.Key = nil
		return h, -1
	}
	n := readCount16(in, "number of states")
	h.States = r.stateMetas(n)
	return h, n
}

// Write writes the header as [ReadKeyedHeader] read it, byte for byte.
func (h *KeyedHeader) Write(out *serializer.Output) {
	if h.legacy != nil {
		out.I32(h.Version)
		out.Raw(h.legacy)
		return
	}
	if h.Version != KeyedVersion {
		out.Fail(fmt.Errorf("a header of version %d: %w", h.Version, serializer.ErrUnsupported))
		return
	}
	out.I32(h.Version)
	out.Bool(h.Compressed)
	writeProxied(out, h.Key)
	writeStateMetas(out, h.States)
}

// ReadOperatorHeader reads the start of a file of operator state. After a
// failure, which in.Err tells, the result holds the states that were read until then.
func ReadOperatorHeader(in *serializer.Input) *OperatorHeader {
	return newHeaderReader(in).operator()
}

func (r *headerReader) operator() *OperatorHeader {
	in := r.in
	h := &OperatorHeader{Version: in.I32()}
	switch {
	case in.Err() != nil:
		return nil
	case h.Version == OperatorVersion:
		h.Compressed = readBool(in, "compressed")
	case h.Version != operatorVersionPlain:
		return readLegacyOperatorHeader(in, h.Version)
	}
	h.Operator = r.stateMetas(readCount16(in, "number of operator states"))
	h.Broadcast = r.stateMetas(readCount16(in, "number of broadcast states"))
	return h
}

// Write writes the header as [ReadOperatorHeader] read it, byte for byte.
func (h *OperatorHeader) Write(out *serializer.Output) {
	if h.legacy != nil {
		out.I32(h.Version)
		out.Raw(h.legacy)
		return
	}
	if h.Version != OperatorVersion && (h.Version != operatorVersionPlain || h.Compressed) {
		out.Fail(fmt.Errorf("a header of version %d: %w", h.Version, serializer.ErrUnsupported))
		return
	}
	out.I32(h.Version)
	if h.Version == OperatorVersion {
		out.Bool(h.Compressed)
	}
	writeStateMetas(out, h.Operator)
	writeStateMetas(out, h.Broadcast)
}

func (r *headerReader) stateMetas(n int) []StateMeta {
	in := r.in
	var states []StateMeta
	for i := 0; i < n && in.Err() == nil; i++ {
		m := r.stateMeta()
		if in.Err() == nil {
			states = append(states, m)
			continue
		}
		if m.Name != "" {
			within(in, fmt.Sprintf("state %q", m.Name))
		} else {
			within(in, fmt.Sprintf("state#%d", i))
		}
	}
	return states
}

func writeStateMetas(out *serializer.Output, states []StateMeta) {
	if len(states) > mostStates {
		out.Fail(fmt.Errorf("%d states: %w", len(states), serializer.ErrUnsupported))
		return
	}
	out.U16(uint16(len(states)))
	for i := range states {
		states[i].write(out)
	}
}

func (r *headerReader) stateMeta() StateMeta {
	in := r.in
	m := StateMeta{Name: readUTF(in, "name"), Kind: Kind(in.I32())}
	if in.Err() == nil && (m.Kind < KindKeyValue || m.Kind > KindKeyValueV2) {
		in.Failf("kind", "%d", m.Kind)
	}
	for n := in.Length(); n > 0 && in.Err() == nil; n-- {
		m.Options = append(m.Options, Option{readUTF(in, "option"), readUTF(in, "option")})
	}
	for n := in.Length(); n > 0 && in.Err() == nil; n-- {
		key := readUTF(in, "serializer's name")
		s := r.proxied()
		if in.Err() != nil {
			within(in, key)
			break
		}
		m.Serializers = append(m.Serializers, NamedSnapshot{key, s})
	}
	return m
}

func (m *StateMeta) write(out *serializer.Output) {
	out.UTF(m.Name)
	out.I32(int32(m.Kind))
	out.I32(int32(len(m.Options)))
	for _, o := range m.Options {
		out.UTF(o.Key)
		out.UTF(o.Value)
	}
	out.I32(int32(len(m.Serializers)))
	for _, s := range m.Serializers {
		out.UTF(s.Key)
		writeProxied(out, s.Snapshot)
	}
}

// proxied reads a snapshot with the version that precedes it.
func (r *headerReader) proxied() *serializer.Snapshot {
	in := r.in
	off := in.Offset()
	if v := in.I32(); in.Err() == nil && v != proxyVersion {
		in.FailAt(off, "version of a serializer snapshot", fmt.Errorf("%d: %w", v, serializer.ErrUnsupported))
	}
	if in.Err() != nil {
		return nil
	}
	off = in.Offset()
	if end, ok := r.unread[off]; ok {
		s := &serializer.Snapshot{Class: readUTF(in, "class"), Version: in.I32()}
		s.Body = serializer.Unread(bytes.Clone(in.Take(int(end - in.Offset()))))
		return s
	}
	s := serializer.ReadSnapshot(in)
	if errors.Is(in.Err(), serializer.ErrUnsupported) {
		r.failed = off
	}
	return s
}

func writeProxied(out *serializer.Output, s *serializer.Snapshot) {
	out.I32(proxyVersion)
	s.Write(out)
}

// readBool reads a byte that is 0 or 1, as Flink writes it.
func readBool(in *serializer.Input, field string) bool {
	off := in.Offset()
	b := in.U8()
	if b > 1 {
		in.FailAt(off, field, fmt.Errorf("%w: byte %d", serializer.ErrCorrupt, b))
	}
	return b == 1
}

// readCount16 reads a two-byte count, which Java has as signed.
func readCount16(in *serializer.Input, field string) int {
	off := in.Offset()
	n := in.U16()
	if n > 1<<15-1 {
		in.FailAt(off, field, fmt.Errorf("%w: %d", serializer.ErrCorrupt, int16(n)))
		return 0
	}
	return int(n)
}

// readUTF reads text that encodes back to the same bytes.
func readUTF(in *serializer.Input, field string) string {
	off := in.Offset()
	in.Mark()
	s := in.UTF()
	raw := in.Marked()
	if in.Err() != nil {
		return s
	}
	if again, err := javaio.EncodeUTF(s); err != nil || again != string(raw[2:]) {
		in.FailAt(off, field, javaio.ErrInvalidUTF)
	}
	return s
}

// within puts what was read in front of the field of the input's error.
func within(in *serializer.Input, outer string) {
	var e *serializer.Error
	if !errors.As(in.Err(), &e) {
		return
	}
	if e.Field == "" {
		e.Field = outer
	} else {
		e.Field = outer + "." + e.Field
	}
}
