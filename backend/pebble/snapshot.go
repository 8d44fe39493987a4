package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// keyedVersion is the version of headers that Flink 1.20 and 2.x write.
const keyedVersion = 6

// snapshot is the state of a backend as it was.
type snapshot struct {
	db     *pebble.Snapshot // nil after Release
	done   func()
	header backend.KeyedHeader
	states []slot
	groups keygroup.Range
	max    int
	now    int64
	o      backend.SnapshotOptions
}

// Snapshot is that of [backend.Keyed].
func (b *Backend[K]) Snapshot(_ int64, o backend.SnapshotOptions) (backend.Snapshot, error) {
	switch {
	case b.closed:
		return nil, backend.ErrClosed
	case o.Format != backend.FormatCanonical && o.Format != backend.FormatFull:
		return nil, fmt.Errorf("format %v: not known", o.Format)
	}
	b.snapshots.Add(1)
	return &snapshot{
		db: b.db.NewSnapshot(), done: b.snapshots.Done,
		header: backend.KeyedHeader{Version: keyedVersion, Compressed: o.Compress, Key: b.key.Snapshot(), States: b.States()},
		states: slices.Clone(b.states), groups: b.groups, max: b.o.MaxParallelism, now: b.now(), o: o,
	}, nil
}

// Release is that of [backend.Snapshot].
func (s *snapshot) Release() {
	if s.db != nil {
		_ = s.db.Close()
		s.db = nil
		s.done()
	}
}

// Write is that of [backend.Snapshot].
func (s *snapshot) Write(ctx context.Context, t backend.Target) (metadata.Keyed, error) {
	defer s.Release()
	if s.db == nil {
		return nil, fmt.Errorf("the snapshot was given up")
	}
	if len(s.states) == 0 {
		return nil, nil
	}
	stream := t.Create(ctx)
	defer stream.Abort()
	offsets, err := s.write(ctx, stream)
	if err != nil {
		return nil, err
	}
	delegate, err := stream.Commit()
	if err != nil {
		return nil, err
	}
	h := &metadata.KeyGroups{Form: metadata.KeyGroupsSavepoint, KeyGroupOffsets: offsets, Delegate: delegate}
	if s.o.Format == backend.FormatFull {
		h.Form, h.ID = metadata.KeyGroupsV2, backend.NewHandleID()
	}
	return h, nil
}

// write writes the database as it is, in one scan.
func (s *snapshot) write(ctx context.Context, stream *backend.TargetStream) (offsets metadata.KeyGroupOffsets, err error) {
	w := backend.NewCanonicalWriter(stream, &s.header, s.groups, s.max)
	trim := make([]*trimmer, len(s.states))
	for i := range s.states {
		trim[i] = newTrimmer(&s.states[i], s.now)
	}
	it, err := s.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return offsets, err
	}
	group := -1
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		key := it.Key()
		g, no := int(binary.BigEndian.Uint16(key)), int(binary.BigEndian.Uint16(key[2:]))
		if g != group {
			group = g
			if err = ctx.Err(); err != nil {
				break
			}
			if err = w.StartKeyGroup(g); err != nil {
				break
			}
		}
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		if trim[no] != nil {
			if value, ok, err = trim[no].live(value); err != nil || !ok {
				ok = true
				continue
			}
		}
		err = w.Entry(no, key[prefixLen:], value)
	}
	if failed := it.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return offsets, err
	}
	offsets, _, err = w.Close()
	return offsets, err
}

// trimmer leaves out what has expired.
type trimmer struct {
	state *backend.State
	ttl   *backend.TTL
	now   int64
	in    serializer.Input
	buf   []byte
}

func newTrimmer(s *slot, now int64) *trimmer {
	if s.ttl == nil || s.ttl.KeepInFullSnapshot {
		return nil
	}
	return &trimmer{state: s.state, ttl: s.ttl, now: now}
}

// live gives what has not expired of a stored value, valid until the next; false if nothing is left.
func (t *trimmer) live(value []byte) ([]byte, bool, error) {
	at := 0
	switch t.state.Type {
	case backend.TypeList:
		return t.list(value)
	case backend.TypeMap:
		if len(value) > 0 && value[0] != 0 {
			return value, true, nil // a null, which has no time
		}
		at = 1
	}
	if len(value) < at+8 {
		return nil, false, fmt.Errorf("state %q: a value of %d bytes without its time: %w", t.state.Meta.Name, len(value), serializer.ErrCorrupt)
	}
	return value, !t.ttl.Expired(int64(binary.BigEndian.Uint64(value[at:])), t.now), nil
}

func (t *trimmer) list(value []byte) ([]byte, bool, error) {
	t.buf = t.buf[:0]
	t.in.Reset(value)
	for i := 0; !t.in.AtEnd() && t.in.Err() == nil; i++ {
		if i > 0 {
			t.in.U8() // the comma
		}
		start := t.in.Offset()
		lastAccess := t.in.I64()
		t.in.Reset(value)
		t.in.Take(int(start))
		t.state.Value.Skip(&t.in)
		if t.in.Err() != nil || t.ttl.Expired(lastAccess, t.now) {
			continue
		}
		if len(t.buf) > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = append(t.buf, value[start:t.in.Offset()]...)
	}
	if err := t.in.Err(); err != nil {
		return nil, false, fmt.Errorf("state %q: %w", t.state.Meta.Name, err)
	}
	return t.buf, len(t.buf) > 0, nil
}
