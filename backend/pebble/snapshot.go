package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// snapshot is the state of a backend as it was.
type snapshot struct {
	header backend.KeyedHeader
	index  []int // of each state in the header, -1 if it is raw keyed state
	states []slot
	now    int64
	o      backend.StateFilesOptions
	live   *snapshots
	timers *btree.Set[string] // those on the heap
	apart  bool               // they are raw keyed state
	raw    metadata.Keyed     // what was written of them
	db     *pebble.Snapshot   // nil if it is incremental
	hold   *backend.Hold
	// Of an incremental one:
	tables    *tables
	tracker   *incremental.Tracker
	transfers int // how many files are written at a time
}

// snapshots are those of a backend that were not released.
type snapshots struct {
	mu  sync.Mutex
	all map[*snapshot]struct{}
}

func (l *snapshots) add(s *snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*snapshot]struct{}{}
	}
	l.all[s] = struct{}{}
}

func (l *snapshots) remove(s *snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, s)
}

func (l *snapshots) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 0
}

// close has all of them fail, and waits for those that are being written.
func (l *snapshots) close() {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.all))
	l.mu.Unlock()
	for _, s := range all {
		s.hold.Close()
	}
}

// Snapshot is that of [backend.Keyed].
func (b *Backend[K]) Snapshot(checkpoint int64, o backend.SnapshotOptions) (backend.Snapshot, error) {
	switch {
	case b.closed:
		return nil, backend.ErrClosed
	case o.Format > backend.FormatIncremental:
		return nil, fmt.Errorf("format %d: not known", o.Format)
	case o.Format == backend.FormatIncremental && o.Savepoint:
		return nil, errors.New("a savepoint can't be incremental: a canonical one is what every backend restores")
	}
	if err := b.flush(); err != nil {
		return nil, err
	}
	b.outdated() // files that compactions have replaced are not held for longer than to the next snapshot
	s := &snapshot{
		header: backend.KeyedHeader{Version: backend.KeyedVersion, Compressed: o.Compress, Key: b.key.Snapshot()},
		states: slices.Clone(b.states), now: b.now(), live: &b.live, timers: b.timers.Copy(),
		tracker: b.tracker, transfers: or(b.o.Transfers, DefaultTransfers),
	}
	s.apart = o.Format >= backend.FormatRocksDB && b.o.Timers == TimersOnHeap
	for no, meta := range b.States() {
		// The numbers of states in the keys of tables are those in the header, which has all of them then.
		if s.apart && b.onHeap(no) && o.Format != backend.FormatIncremental {
			s.index = append(s.index, -1)
			continue
		}
		s.index = append(s.index, len(s.header.States))
		s.header.States = append(s.header.States, meta)
	}
	s.o = backend.StateFilesOptions{
		Header: &s.header, KeyGroups: b.groups, MaxParallelism: b.o.MaxParallelism, Checkpoint: checkpoint, MaxSize: b.o.MaxSize, SnapshotOptions: o,
	}
	if o.Format == backend.FormatIncremental {
		var err error
		if s.tables, err = b.freeze(o.Rebase); err != nil {
			return nil, err
		}
	} else {
		s.db = b.db.NewSnapshot()
	}
	s.hold = backend.NewHold(func() {
		if s.tables != nil {
			_ = os.RemoveAll(s.tables.dir) // links of the backend's own, which Close removes, too
		} else {
			_ = s.db.Close() // gives files free, no more
		}
		s.live.remove(s)
	})
	b.live.add(s)
	return s, nil
}

// Release is that of [backend.Snapshot].
func (s *snapshot) Release() { s.hold.Release() }

// Raw is that of [backend.Snapshot].
func (s *snapshot) Raw() metadata.Keyed { return s.raw }

// Write is that of [backend.Snapshot].
func (s *snapshot) Write(ctx context.Context, t backend.Target) (metadata.Keyed, error) {
	return s.hold.Write(ctx, func(ctx context.Context) (metadata.Keyed, error) { return s.writeTo(ctx, t) })
}

func (s *snapshot) writeTo(ctx context.Context, t backend.Target) (metadata.Keyed, error) {
	if len(s.states) == 0 {
		return nil, nil
	}
	files, write, err := s.begin(ctx, t)
	if err != nil {
		return nil, err
	}
	defer files.Abort()
	var h metadata.Keyed
	err = write()
	if err == nil && s.apart {
		raw := t.Create(ctx)
		defer func() {
			if err != nil {
				raw.Discard()
				s.raw = nil
			}
		}()
		s.raw, err = s.writeRaw(ctx, raw)
	}
	if err == nil {
		h, err = files.Commit()
	}
	return h, err
}

// committer is what a snapshot is written to.
type committer interface {
	Commit() (metadata.Keyed, error)
	Abort()
}

// begin gives what the snapshot is written to, and what writes it.
func (s *snapshot) begin(ctx context.Context, t backend.Target) (committer, func() error, error) {
	if s.tables != nil {
		n, err := newIncrement(ctx, s, t)
		return n, n.upload, err
	}
	files, err := backend.NewStateFiles(ctx, t, s.o)
	return files, func() error { return s.write(ctx, files) }, err
}

// write writes the database as it is, in one scan.
func (s *snapshot) write(ctx context.Context, w backend.StateFiles) error {
	trim := make([]*trimmer, len(s.states))
	for i := range s.states {
		trim[i] = newTrimmer(&s.states[i], s.now, s.o.MaxSize)
	}
	db, err := s.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return err
	}
	group, n := -1, 0
	timers := s.timers
	if s.apart {
		timers = new(btree.Set[string])
	}
	it := &cursor{db: db, timers: timers.Iter()}
	for ok := it.first(); ok && err == nil; ok = it.next() {
		if n++; n%1024 == 0 {
			if err = ctx.Err(); err != nil {
				break
			}
		}
		key := it.key()
		g, no := int(binary.BigEndian.Uint16(key)), int(binary.BigEndian.Uint16(key[2:]))
		if g != group {
			group = g
			if err = w.StartKeyGroup(g); err != nil {
				break
			}
		}
		var value []byte
		if value, err = it.value(); err != nil {
			break
		}
		if trim[no] != nil {
			var live bool
			if value, live, err = trim[no].live(value); err != nil || !live {
				continue
			}
		}
		err = w.Entry(s.index[no], key[prefixLen:], value)
	}
	if failed := db.Close(); err == nil {
		err = failed
	}
	return err
}

// trimmer leaves out what has expired.
type trimmer struct {
	state *backend.State
	ttl   *backend.TTL
	now   int64
	most  int // the largest value
	in    serializer.Input
	buf   []byte
}

func newTrimmer(s *slot, now int64, most int) *trimmer {
	if s.ttl == nil || s.ttl.KeepInFullSnapshot {
		return nil
	}
	return &trimmer{state: s.state, ttl: s.ttl, now: now, most: most}
}

// live gives what has not expired of a stored value, valid until the next; false if nothing is left.
func (t *trimmer) live(value []byte) ([]byte, bool, error) {
	if len(value) > t.most {
		return value, true, nil // who reads it is told
	}
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
