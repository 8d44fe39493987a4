package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// Restore is that of [backend.Keyed].
func (b *Backend[K]) Restore(ctx context.Context, files backend.Files, h backend.Handles) error {
	if b.closed {
		return backend.ErrClosed
	}
	if b.loaded {
		return errors.New("state was restored before")
	}
	if err := b.isEmpty(); err != nil {
		return err
	}
	if b.live.any() {
		return errors.New("a snapshot was taken before: restore first")
	}
	own, h, err := split(h)
	if err != nil {
		return err
	}
	b.loaded = true
	var in *ingest
	defer func() {
		if in != nil {
			in.abort()
		}
	}()
	begin := func() *ingest {
		if in == nil {
			in = newIngest(b.db, b.tuned, b.o.Dir, b.o.MaxSize)
		}
		return in
	}
	if len(own) > 0 {
		if err := b.restoreTables(ctx, files, own, begin); err != nil {
			return err
		}
	}
	begin()
	take := func(t *target, e *backend.Entry) error {
		if b.onHeap(t.no) {
			return b.takeHeap(t, e)
		}
		return in.take(ctx, t, e)
	}
	err = h.Each(ctx, files, b.o.MaxParallelism, func(r *backend.KeyedReader) error {
		return backend.LoadEntries(ctx, b.subtask, r, b.target, take)
	})
	if err != nil {
		return err
	}
	if err := in.end(ctx); err != nil {
		return err
	}
	b.outdated()
	if err := in.ingest(ctx); err != nil {
		return err
	}
	for i := range b.states {
		if q := b.states[i].queue; q != nil {
			q.forget()
		}
	}
	return nil
}

// isEmpty gives an error if something was written, which restored entries might replace.
func (b *Backend[K]) isEmpty() error {
	if err := b.flushAll(); err != nil {
		return err
	}
	it, err := b.db.NewIter(nil)
	if err != nil {
		return err
	}
	written := it.First() || b.timers.Len() > 0
	if err := it.Close(); err != nil {
		return err
	}
	if written {
		return errors.New("there are entries: restore before anything is written")
	}
	return nil
}

// target is where the entries of a state of a file go.
type target struct {
	no      int
	migrate *migration // nil if entries stay as they are
}

// target finds where a state of a file goes, and checks that it can go there.
func (b *Backend[K]) target(s *backend.State) (*target, error) {
	s, err := s.Managed()
	if err != nil {
		return nil, err
	}
	if err := backend.SameKeys(b.key, s.Parts().Key); err != nil {
		return nil, err
	}
	no, ok := b.byName[s.Meta.Name]
	if !ok {
		no = len(b.states)
		b.byName[s.Meta.Name] = no
		b.states = append(b.states, slot{state: s})
		b.configure(no, s.Meta.Name)
		return &target{no: no}, nil
	}
	slot := &b.states[no]
	if slot.moved {
		slot.state, slot.moved = s, false
	}
	if !slot.opened {
		return &target{no: no}, backend.SameState(slot.state, s)
	}
	m, err := slot.parts.migrate(slot.state, s)
	return &target{no, m}, err
}

// ingestBuffer is how many bytes of entries are sorted at a time at most, and ingestFile how large a file of them gets.
const (
	ingestBuffer = 64 << 20
	ingestFile   = 64 << 20
)

// ingest builds the files of the database from entries that come in the order
// of key groups, so that nothing goes through its write buffer and nothing is compacted. The database takes
// them when all are there; `defer in.abort()` is always right.
type ingest struct {
	db     *pebble.DB
	o      *pebble.Options
	dir    string
	most   int    // bytes of the largest value; keys have half of it
	limit  int    // of bytes that are sorted at a time: not more than write buffers may have
	free   func() // gives their memory back to the cache of blocks
	arena  []byte
	items  []item
	sorted bool // the items are in order
	group  int
	w      *sstable.Writer
	last   []byte     // the key that was written last
	files  [][]string // in parts, whose files don't overlap
	n      int
}

type item struct{ at, key, end int }

const itemSize = int(unsafe.Sizeof(item{}))

func newIngest(db *pebble.DB, o *pebble.Options, dir string, most int) *ingest {
	limit := min(ingestBuffer, int(o.MemTableSize)*o.MemTableStopWritesThreshold)
	return &ingest{db: db, o: o, dir: dir, most: most, limit: limit, free: o.Cache.Reserve(limit), group: -1, sorted: true}
}

// take takes up an entry.
func (in *ingest) take(ctx context.Context, t *target, e *backend.Entry) error {
	if e.KeyGroup != in.group || len(in.arena)+len(in.items)*itemSize >= in.limit {
		if err := in.flush(ctx); err != nil {
			return err
		}
		in.group = e.KeyGroup
	}
	at := len(in.arena)
	in.arena = appendPrefix(in.arena, e.KeyGroup, t.no)
	var key int
	if t.migrate == nil {
		in.arena = e.AppendStoredKey(in.arena)
		key = len(in.arena)
		in.arena = e.AppendStoredValue(in.arena)
	} else {
		k, v, err := t.migrate.apply(e)
		if err != nil {
			return err
		}
		in.arena = append(in.arena, k...)
		key = len(in.arena)
		in.arena = append(in.arena, v...)
	}
	it := item{at, key, len(in.arena)}
	if err := cmp.Or(backend.CheckSize("a key", key-at-prefixLen, in.most/2), backend.CheckSize("a value", it.end-key, in.most)); err != nil {
		return err
	}
	if n := len(in.items); n > 0 && in.sorted {
		in.sorted = bytes.Compare(in.key(in.items[n-1]), in.key(it)) < 0
	}
	in.items = append(in.items, it)
	return nil
}

func (in *ingest) key(i item) []byte { return in.arena[i.at:i.key] }

// flush writes what was taken up to a file.
func (in *ingest) flush(ctx context.Context) error {
	if len(in.items) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !in.sorted {
		slices.SortFunc(in.items, func(a, b item) int { return bytes.Compare(in.key(a), in.key(b)) })
	}
	if bytes.Compare(in.key(in.items[0]), in.last) <= 0 {
		if err := in.close(); err != nil {
			return err
		}
		in.last = in.last[:0]
	}
	if len(in.last) == 0 {
		in.files = append(in.files, nil)
	}
	for _, i := range in.items {
		if in.w == nil {
			if err := in.create(); err != nil {
				return err
			}
		}
		if bytes.Equal(in.key(i), in.last) {
			return fmt.Errorf("key %x comes twice: %w", in.key(i), serializer.ErrCorrupt)
		}
		if err := in.w.Set(in.key(i), in.arena[i.key:i.end]); err != nil {
			return err
		}
		in.last = append(in.last[:0], in.key(i)...)
		if in.w.Raw().EstimatedSize() >= ingestFile {
			if err := in.close(); err != nil {
				return err
			}
		}
	}
	in.arena, in.items, in.sorted = in.arena[:0], in.items[:0], true
	return nil
}

func (in *ingest) create() error {
	path := filepath.Join(in.dir, "restore-"+strconv.Itoa(in.n)+".sst")
	in.n++
	f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	in.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), in.o.MakeWriterOptions(len(in.o.Levels)-1, in.db.TableFormat()))
	part := &in.files[len(in.files)-1]
	*part = append(*part, path)
	return nil
}

func (in *ingest) close() error {
	if in.w == nil {
		return nil
	}
	err := in.w.Close()
	in.w = nil
	return err
}

// end writes the rest of the files.
func (in *ingest) end(ctx context.Context) error {
	if err := in.flush(ctx); err != nil {
		return err
	}
	return in.close()
}

// ingest hands the files to the database.
func (in *ingest) ingest(ctx context.Context) error {
	for len(in.files) > 0 {
		if err := in.db.Ingest(ctx, in.files[0]); err != nil {
			return err
		}
		in.files = in.files[1:]
	}
	return nil
}

// abort removes the files that the database did not take, and gives the memory back.
func (in *ingest) abort() {
	in.free()
	_ = in.close()
	for _, part := range in.files {
		for _, path := range part {
			_ = os.Remove(path)
		}
	}
}
