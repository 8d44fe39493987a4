package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// Options are the options of [Open].
type Options[K comparable] struct {
	// MaxParallelism is the operator's number of key groups; it must be set.
	MaxParallelism int
	// KeyGroups are those of the subtask, see [keygroup.RangeOf].
	KeyGroups keygroup.Range
	// Hash computes hashCode of the Java objects that keys stand for, where it doesn't follow from
	// the serializer, as for POJOs; otherwise nil.
	Hash func(K) int32
	// Clock is asked for what has to do with time to live; nil means [backend.SystemClock].
	Clock backend.Clock
	// MaxSize is the most bytes of a value and of a list; key, namespace and user key together may have half of it. 0
	// means [backend.MaxSize], and more than that is not possible.
	MaxSize int
	// Dir is the local directory of the database; it must be set. It is made, must be empty, and is removed by Close. A
	// process that is killed leaves it. Nothing in it is of any use then: remove it, or put all such directories into one that is emptied before
	// the first backend is opened.
	Dir string
	// Memory is what the backends of a slot share; nil means one of [DefaultMemory] for this backend alone.
	Memory *Memory
	// Timers says where timers are held.
	Timers TimerStore
	// Transfers is how many files of an incremental checkpoint are written or read at a time; 0 means [DefaultTransfers].
	Transfers int
	// Tuning are the options of the database.
	Tuning Tuning
	// Configure, if not nil, may change the options of the database last. It must leave its caches
	// and its merger; with write buffers larger than they were the backend is beyond its part of the memory.
	Configure func(*pebble.Options)
	// ConfigureState, if not nil, is called for each state, by name, when it is first opened or restored; once more if a restore gives the
	// state another number. It must say the same of a name each time.
	ConfigureState func(name string, o *StateOptions)
	// Metrics are which metrics of the database are shown, and where.
	Metrics MetricsOptions
	// Logger is told what the database has to say; nil means nobody is.
	Logger *slog.Logger
}

// Backend is a keyed state backend on Pebble; it implements [backend.Keyed]. It writes no log:
// what is not in a snapshot is lost with the process. If the database can't go on, as when it can't write its list of
// files, it ends the process by a panic, after a last message to the logger: Pebble knows no other way.
type Backend[K comparable] struct {
	key     serializer.Codec[K]
	subtask *backend.Subtask[K]
	o       Options[K]
	groups  keygroup.Range
	now     backend.Clock
	*store
	tuned   *pebble.Options // what the database was opened with
	filter  *stateFilter
	share   *share
	metrics *collector // nil if none are shown
	memory  *Memory    // to be closed with the backend; nil if it is the slot's

	current  K
	keyBytes []byte
	keyOut   serializer.Output
	group    int    // the current key's group, -1 if no key is set
	version  uint64 // counts keys that were set

	states []slot
	byName map[string]int
	timers heapTimers
	loaded bool
	closed bool
	live   snapshots
	// tracker knows which files of the database are in checkpoints; frozen counts those that were taken.
	tracker *incremental.Tracker
	frozen  int
	trouble chan trouble
	// walks are the iterators of callers that are in the midst of a loop, who may call Close there.
	walks []walk
}

// walk is an iterator with the number of changes of the store when it began.
type walk struct {
	it      *pebble.Iterator
	changes uint64
}

// trouble is what the database could not do in the background.
type trouble struct{ err error }

// slot is a state of the database.
type slot struct {
	state  *backend.State
	ttl    *backend.TTL
	parts  parts
	queue  cachedQueue // of timers
	sweep  *sweep      // nil if nothing is cleaned up
	number *int        // where the open state has its number; nil if it was not opened
	opened bool
	// moved says that the entries are in raw keyed state, which describes the state once more.
	moved bool
}

// cachedQueue is a queue of timers that holds some of them in memory.
type cachedQueue interface {
	// forget has it read again what the database has.
	forget()
}

var _ backend.Keyed[int64] = (*Backend[int64])(nil)

// Open makes an empty backend for keys of the codec. Keys are compared by their bytes.
func Open[K comparable](key serializer.Codec[K], o Options[K]) (*Backend[K], error) {
	subtask, err := backend.NewSubtask(key, o.KeyGroups, o.MaxParallelism, o.Hash)
	if err != nil {
		return nil, err
	}
	if o.MaxSize, err = backend.CheckMaxSize(o.MaxSize); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("directory %q: it must be an absolute path", o.Dir)
	}
	b := &Backend[K]{key: key, subtask: subtask, o: o, groups: o.KeyGroups, now: o.Clock, group: -1, byName: map[string]int{}, tracker: incremental.NewTracker(), trouble: make(chan trouble, 1)}
	if b.now == nil {
		b.now = backend.SystemClock
	}
	if err := b.openDB(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Backend[K]) openDB() error {
	entries, err := os.ReadDir(b.o.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: not empty: the database of a backend is made anew; give each its own directory", b.o.Dir)
	}
	memory := b.o.Memory
	if memory == nil {
		if memory, err = NewMemory(MemoryOptions{Backends: 1}); err != nil {
			return err
		}
		b.memory = memory
	}
	if b.share, err = memory.join(); err == nil {
		err = b.openShared()
	}
	if err != nil {
		b.share.leave()
		b.memory.Close()
	}
	return err
}

// openShared opens the database with the share of the memory.
func (b *Backend[K]) openShared() (err error) {
	b.filter = &stateFilter{}
	var buffer int
	if b.tuned, buffer, err = b.o.Tuning.options(b.share, b.filter, b.o.Logger); err != nil {
		return err
	}
	b.tuned.Merger = listMerger(b.o.MaxSize)
	b.tuned.FS = scratchFS{vfs.Default}
	b.tuned.AddEventListener(pebble.EventListener{BackgroundError: func(err error) {
		select {
		case b.trouble <- trouble{err}:
		default: // there is one already
		}
	}})
	if b.o.Configure != nil {
		b.o.Configure(b.tuned)
	}
	if b.metrics, err = newCollector(b.o.Metrics, b.share); err != nil {
		return err
	}
	if b.metrics != nil {
		b.metrics.events.listen(b.tuned)
	}
	db, err := pebble.Open(b.o.Dir, b.tuned)
	if err != nil {
		return fmt.Errorf("%s: %w", b.o.Dir, err)
	}
	if b.metrics != nil {
		if err := b.metrics.open(db); err != nil {
			return errors.Join(err, db.Close(), os.RemoveAll(b.o.Dir))
		}
	}
	b.share.opened(db)
	b.store = newStore(db, buffer, b.o.MaxSize, b.share.reserve)
	return nil
}

// configure applies the options of a state that is new.
func (b *Backend[K]) configure(no int, name string) {
	if b.o.ConfigureState == nil {
		return
	}
	var o StateOptions
	b.o.ConfigureState(name, &o)
	if o.NoFilter {
		b.filter.leaveOut(no)
	}
}

// SetKey is that of [backend.Keyed].
func (b *Backend[K]) SetKey(key K) error {
	if b.closed {
		return backend.ErrClosed
	}
	b.group = -1
	b.version++
	group, err := b.subtask.GroupOf(key)
	if err != nil {
		return err
	}
	return b.setKey(key, group)
}

// setKey sets a key whose group is known.
func (b *Backend[K]) setKey(key K, group int) error {
	b.group = -1
	b.version++
	b.keyOut.Reset()
	b.key.Write(&b.keyOut, key)
	if err := b.keyOut.Err(); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := b.checkKey("a key", b.keyOut.Len()); err != nil {
		return err
	}
	b.keyBytes = b.keyOut.Bytes()
	b.current, b.group = key, group
	return nil
}

// checkKey checks the size of what goes into the database's keys. They have half of what values have, because
// the database fails where both together have nearly 4 GiB.
func (b *Backend[K]) checkKey(what string, size int) error {
	return backend.CheckSize(what, size, b.o.MaxSize/2)
}

func (b *Backend[K]) noKey() error {
	if b.closed {
		return backend.ErrClosed
	}
	return backend.ErrNoKey
}

// Key is that of [backend.Keyed].
func (b *Backend[K]) Key() K {
	if b.group < 0 {
		var none K
		return none
	}
	return b.current
}

// KeyGroups is that of [backend.Keyed].
func (b *Backend[K]) KeyGroups() keygroup.Range { return b.groups }

// MaxParallelism is that of [backend.Keyed].
func (b *Backend[K]) MaxParallelism() int { return b.o.MaxParallelism }

// open opens a state, with what was restored of it.
func open[K, N comparable](b *Backend[K], name string, kind backend.Type, ttl *backend.TTL, namespace serializer.Codec[N], value *serializer.Snapshot, p parts) (*table[K, N], error) {
	meta := backend.NewStateMeta(name, kind, namespace.Snapshot(), value)
	return enter(b, &meta, ttl, namespace, p)
}

// enter takes a state into the backend.
func enter[K, N comparable](b *Backend[K], meta *backend.StateMeta, ttl *backend.TTL, namespace serializer.Codec[N], p parts) (*table[K, N], error) {
	t := &table[K, N]{b: b, state: backend.NewState(meta, b.key.Snapshot()), namespace: namespace}
	t.ambiguous = backend.Ambiguous(t.state.Key, t.state.Namespace)
	p.namespace = namespaceAdapter(namespace)
	fail := func(err error) (*table[K, N], error) { return nil, fmt.Errorf("state %q: %w", meta.Name, err) }
	if b.closed {
		return fail(backend.ErrClosed)
	}
	if err := errors.Join(backend.Plain[N]("namespace"), ttl.Check()); err != nil {
		return fail(err)
	}
	no, ok := b.byName[meta.Name]
	if !ok {
		no = len(b.states)
		if err := backend.CheckState(meta, no); err != nil {
			return fail(err)
		}
		b.byName[meta.Name] = no
		b.states = append(b.states, slot{})
		b.configure(no, meta.Name)
	} else {
		if b.states[no].opened {
			return fail(fmt.Errorf("it was opened before: %w", backend.ErrState))
		}
		m, err := p.migrate(t.state, b.states[no].state)
		switch {
		case err != nil || m == nil:
		case b.onHeap(no):
			err = b.rewriteHeap(no, m)
		default:
			err = b.rewrite(no, m)
		}
		if err != nil {
			return fail(err)
		}
	}
	t.no = no
	b.states[no] = slot{state: t.state, ttl: ttl, parts: p, number: &t.no, opened: true}
	if ttl != nil && ttl.CleanUp > 0 {
		t.sweep = newSweep(no, b.groups, ttl, &b.states[no], b.o.MaxSize)
		b.states[no].sweep = t.sweep
	}
	return t, nil
}

// rewrite rewrites the entries of a state. Nothing is changed until all were rewritten, and so not if one of them
// can't be. If the database can't take them then, the backend is closed, so that no snapshot lacks them.
func (b *Backend[K]) rewrite(no int, m *migration) error {
	if err := b.flushAll(); err != nil {
		return err
	}
	in := newIngest(b.db, b.tuned, b.o.Dir, b.o.MaxSize)
	defer in.abort()
	ctx, to := context.Background(), &target{no, m}
	for g := b.groups.Start; g <= b.groups.End; g++ {
		err := b.scan(no, g, func(e *backend.Entry, _ []byte) error { return in.take(ctx, to, e) })
		if err != nil {
			return fmt.Errorf("key group %d: %w", g, err)
		}
	}
	if err := in.end(ctx); err != nil {
		return err
	}
	if err := b.replace(ctx, no, in); err != nil {
		return fmt.Errorf("the backend was closed, as it may have lost the entries of the state: %w", errors.Join(err, b.Close()))
	}
	return nil
}

// replace puts new entries of a state into the place of those that are there.
func (b *Backend[K]) replace(ctx context.Context, no int, in *ingest) error {
	for g := b.groups.Start; g <= b.groups.End; g++ {
		prefix := appendPrefix(nil, g, no)
		if err := b.deleteRange(prefix); err != nil {
			return err
		}
	}
	return in.ingest(ctx)
}

// walk begins an iteration in which a caller may call Close; then it ends by itself. It is ended by end.
func (b *Backend[K]) walk(lower, upper []byte) (*pebble.Iterator, error) {
	it, err := b.take(lower, upper)
	if err == nil {
		b.walks = append(b.walks, walk{it, b.changes})
	}
	return it, err
}

func (b *Backend[K]) end(it *pebble.Iterator) error {
	i := slices.IndexFunc(b.walks, func(w walk) bool { return w.it == it })
	if i < 0 {
		return nil // Close did it
	}
	changes := b.walks[i].changes
	b.walks = slices.Delete(b.walks, i, i+1)
	return b.give(it, changes)
}

// scan calls f for the entries of a state in a key group, with the database's key. An error of f ends it.
func (b *Backend[K]) scan(no, group int, f func(e *backend.Entry, at []byte) error) error {
	if b.onHeap(no) {
		return b.scanHeap(no, group, f)
	}
	if err := b.flushState(no); err != nil {
		return err
	}
	if b.states[no].state.Type == backend.TypeTimers {
		b.outdated() // timers are written past it
	}
	prefix := appendPrefix(nil, group, no)
	it, err := b.walk(prefix, after(prefix))
	if err != nil {
		return err
	}
	e := &backend.Entry{State: b.states[no].state, KeyGroup: group}
	for ok := it.First(); ok; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		if err = backend.CheckSize("a value", len(value), b.o.MaxSize); err != nil {
			break
		}
		if err = e.SetStored(it.Key()[prefixLen:], value); err != nil {
			break
		}
		if err = f(e, it.Key()); err != nil {
			break
		}
		if b.closed {
			err = backend.ErrClosed
			break
		}
	}
	if failed := b.end(it); err == nil {
		err = failed
	}
	return err
}

// States is that of [backend.Keyed].
func (b *Backend[K]) States() []backend.StateMeta {
	metas := make([]backend.StateMeta, len(b.states))
	for i := range b.states {
		metas[i] = *b.states[i].state.Meta
	}
	return metas
}

func (b *Backend[K]) find(state string) (int, error) {
	if b.closed {
		return 0, backend.ErrClosed
	}
	no, ok := b.byName[state]
	if !ok {
		return 0, fmt.Errorf("state %q: there is none of this name", state)
	}
	return no, nil
}

// errStop ends a scan whose caller has enough.
var errStop = errors.New("stop")

// Len is that of [backend.Keyed]; it reads all keys of the state. Each entry of a map counts.
func (b *Backend[K]) Len(state string) (int64, error) {
	no, err := b.find(state)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	if b.onHeap(no) {
		for g := b.groups.Start; g <= b.groups.End; g++ {
			_ = b.scanHeap(no, g, func(*backend.Entry, []byte) error { n++; return nil })
		}
		return n, nil
	}
	if err := b.flushState(no); err != nil {
		return 0, err
	}
	for g := b.groups.Start; g <= b.groups.End; g++ {
		prefix := appendPrefix(nil, g, no)
		it, err := b.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			return 0, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Keys is that of [backend.Keyed].
func (b *Backend[K]) Keys(state string) iter.Seq2[K, error] {
	return func(yield func(K, error) bool) {
		var none K
		no, err := b.find(state)
		if err == nil && !b.states[no].opened {
			err = fmt.Errorf("state %q: it was restored but not opened", state)
		}
		if err != nil {
			yield(none, err)
			return
		}
		var in serializer.Input
		var last []byte // key and namespace of the entry before
		for g := b.groups.Start; g <= b.groups.End; g++ {
			err := b.scan(no, g, func(e *backend.Entry, _ []byte) error {
				if e.State.Type == backend.TypeMap {
					at := binary.BigEndian.AppendUint32(nil, uint32(len(e.Key)))
					at = append(append(at, e.Key...), e.Namespace...)
					if string(at) == string(last) {
						return nil
					}
					last = at
				}
				in.Reset(e.Key)
				k := b.key.Read(&in)
				if err := in.Finish(); err != nil {
					return fmt.Errorf("key: %w", err)
				}
				if !yield(k, nil) {
					return errStop
				}
				return nil
			})
			if err != nil {
				if !errors.Is(err, errStop) {
					yield(none, fmt.Errorf("state %q, key group %d: %w", state, g, err))
				}
				return
			}
		}
	}
}

// Entries is that of [backend.Keyed].
func (b *Backend[K]) Entries(state string, groups keygroup.Range) iter.Seq2[*backend.Entry, error] {
	return func(yield func(*backend.Entry, error) bool) {
		from, to := 0, len(b.states)-1
		if b.closed {
			yield(nil, backend.ErrClosed)
			return
		}
		if state != "" {
			no, err := b.find(state)
			if err != nil {
				yield(nil, err)
				return
			}
			from, to = no, no
		}
		groups := groups.Intersect(b.groups)
		for g := groups.Start; g <= groups.End; g++ {
			for no := from; no <= to; no++ {
				err := b.scan(no, g, func(e *backend.Entry, _ []byte) error {
					if !yield(e, nil) {
						return errStop
					}
					return nil
				})
				if err != nil {
					if !errors.Is(err, errStop) {
						yield(nil, fmt.Errorf("state %q, key group %d: %w", b.states[no].state.Meta.Name, g, err))
					}
					return
				}
			}
		}
	}
}

// Compact rewrites the database so that each entry is in one file only (compactState of Flink's RocksDB backend). The database
// compacts itself while it is written; this is for state that was filled once and is read for long.
func (b *Backend[K]) Compact(ctx context.Context) error {
	if b.closed {
		return backend.ErrClosed
	}
	// What is in the buffer goes into files, too.
	if err := b.flushAll(); err != nil {
		return err
	}
	b.outdated()
	return b.db.Compact(ctx, appendPrefix(nil, b.groups.Start, 0), appendPrefix(nil, b.groups.End+1, 0), false)
}

// Close is that of [backend.Keyed]. It removes the directory.
func (b *Backend[K]) Close() error {
	if b.closed {
		return nil
	}
	b.closed, b.group = true, -1
	b.version++
	b.live.close()
	for i := range b.states {
		if s := b.states[i].sweep; s != nil {
			s.stop()
		}
	}
	for _, w := range b.walks {
		_ = w.it.Close() // what went wrong in it is of no use any more
	}
	b.walks = nil
	b.metrics.close()
	b.share.opened(nil)
	var err error
	b.outdated()
	b.buffer = nil
	if b.db != nil { // a restore may have failed between two
		err = b.db.Close()
	}
	b.share.leave()
	b.memory.Close()
	return errors.Join(err, os.RemoveAll(b.o.Dir))
}
