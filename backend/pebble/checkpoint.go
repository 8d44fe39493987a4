package pebble

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// The local names of what an incremental checkpoint has beside tables, see FORMAT.md. currentFile and manifestFile are those of RocksDB,
// which looks into them first and so tells why it can't open the files.
const (
	descriptorFile = backend.PebbleFile
	manifestFile   = "MANIFEST-000001"
	currentFile    = "CURRENT"
)

// foreign is the name of the order of keys in the manifest of a checkpoint, which RocksDB says if it is to open it.
const foreign = "Pebble files of drey, which are not RocksDB's. Restore a canonical savepoint instead"

// descriptorFormat is the version of what a descriptor says.
const descriptorFormat = 1

// descriptor is what there is to know of the tables of a checkpoint besides the manifest.
type descriptor struct {
	Format int `json:"format"`
	// Pebble is the format of the database (pebble.FormatMajorVersion).
	Pebble pebble.FormatMajorVersion `json:"pebble"`
	// Comparer and Merger are the names of the order of keys and of what merges the elements of lists.
	Comparer string `json:"comparer"`
	Merger   string `json:"merger"`
	// NoFilter are the numbers of states whose keys are not in the filters of all tables.
	NoFilter []int `json:"noFilter,omitempty"`
	// HeapTimers are the numbers of queues of timers that were on the heap: they are in raw keyed state.
	HeapTimers []int `json:"heapTimers,omitempty"`
}

// tableName is the local name of a table.
func tableName(number uint64) string { return fmt.Sprintf("%06d.sst", number) }

// DefaultTransfers is how many files of a checkpoint are written or read at a time if nothing else is said
// (state.backend.rocksdb.checkpoint.transfer.thread.num).
const DefaultTransfers = 4

// tables is the database of a backend as it was, in hard links.
type tables struct {
	dir        string
	descriptor descriptor
	// base has the objects of files that need not be written.
	base map[string]metadata.Stream
}

// freeze writes what is in write buffers to files, and links all files of the database into a directory of their own. It takes
// as long as the buffers are large, and a little for each file.
func (b *Backend[K]) freeze(rebase bool) (_ *tables, err error) {
	b.frozen++
	t := &tables{dir: filepath.Join(b.o.Dir, "checkpoint-"+strconv.Itoa(b.frozen))}
	if err := b.flushTables(); err != nil {
		return nil, err
	}
	if err := b.db.Checkpoint(t.dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	t.descriptor = descriptor{Format: descriptorFormat, Pebble: b.db.FormatMajorVersion(), Comparer: b.tuned.Comparer.Name, Merger: b.tuned.Merger.Name}
	t.descriptor.NoFilter = b.filter.states()
	for no := range b.states {
		if b.onHeap(no) {
			t.descriptor.HeapTimers = append(t.descriptor.HeapTimers, no)
		}
	}
	if !rebase {
		_, t.base = b.tracker.Base()
	}
	return t, nil
}

// flushTables writes what is in write buffers to files. Pebble tries that again for ever if it fails, as on a full disk.
func (b *Backend[K]) flushTables() error {
	select {
	case <-b.trouble: // of before
	default:
	}
	flushed, err := b.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case t := <-b.trouble:
		return fmt.Errorf("%s: the database can't be written: %w", b.o.Dir, t.err)
	}
}

// readVersion reads the manifest that the database wrote.
func (t *tables) readVersion() (*version, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "MANIFEST-") {
			names = append(names, filepath.Join(t.dir, e.Name()))
		}
	}
	if len(names) != 1 {
		return nil, fmt.Errorf("%s: %d manifests", t.dir, len(names))
	}
	f, err := os.Open(names[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	v, err := readVersion(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names[0], err)
	}
	return v, nil
}

// increment writes the files of a database of which no earlier checkpoint has them.
type increment struct {
	ctx     context.Context
	s       *snapshot
	target  backend.Target
	version *version
	tables  []localFile
	done    bool

	mu      sync.Mutex
	written []*backend.TargetStream // what was committed
	bytes   int64
}

// localFile is a table, with its object.
type localFile struct {
	name   string
	stream metadata.Stream
}

func newIncrement(ctx context.Context, s *snapshot, t backend.Target) (*increment, error) {
	if t.Shared == "" {
		return nil, errors.New("an incremental checkpoint needs a directory for shared files: set Shared of the target")
	}
	v, err := s.tables.readVersion()
	if err != nil {
		return nil, err
	}
	return &increment{ctx: ctx, s: s, target: t, version: v}, nil
}

// Abort removes what was written, unless it was committed.
func (n *increment) Abort() {
	if n.done {
		return
	}
	n.done = true
	for _, s := range n.written {
		s.Discard()
	}
}

// commit commits a stream.
func (n *increment) commit(s *backend.TargetStream, err error) (metadata.Stream, error) {
	if err != nil {
		s.Abort()
		return nil, err
	}
	h, err := s.Commit()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.written = append(n.written, s)
	n.bytes += s.Size()
	return h, nil
}

// upload writes the tables that no earlier checkpoint has.
func (n *increment) upload() error {
	numbers := slices.Sorted(maps.Keys(n.version.files()))
	n.tables = make([]localFile, len(numbers))
	group, ctx := errgroup.WithContext(n.ctx)
	group.SetLimit(n.s.transfers)
	for i, number := range numbers {
		name := tableName(number)
		n.tables[i] = localFile{name, n.s.tables.base[name]}
		path := filepath.Join(n.s.tables.dir, name)
		if f, ok := n.tables[i].stream.(*metadata.File); ok {
			keep(ctx, n.target, f.Path.String(), path)
		}
		if n.tables[i].stream != nil {
			continue
		}
		group.Go(func() error {
			stream := n.target.CreateShared(ctx)
			h, err := n.commit(stream, uploadFile(ctx, n.target, stream, path))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			n.tables[i].stream = h
			return nil
		})
	}
	return group.Wait()
}

// keep tells a store that keeps local copies which file an object is.
func keep(ctx context.Context, t backend.Target, uri, path string) {
	if k, ok := t.FS.(storage.Keeper); ok {
		k.Keep(ctx, uri, path)
	}
}

// uploadFile writes a local file to a stream.
func uploadFile(ctx context.Context, t backend.Target, to *backend.TargetStream, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if uri, ok := to.URI(info.Size()); ok {
		keep(ctx, t, uri, path)
	}
	_, err = io.CopyBuffer(to, contextReader{ctx, f}, make([]byte, 256<<10))
	return err
}

// contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Commit writes what describes the tables, and gives the handle.
func (n *increment) Commit() (metadata.Keyed, error) {
	h, err := n.handle()
	if err != nil {
		n.Abort()
		return nil, err
	}
	n.done = true
	return h, nil
}

func (n *increment) handle() (*metadata.Incremental, error) {
	s := n.s
	h := &metadata.Incremental{
		CheckpointID: s.o.Checkpoint, BackendID: metadata.Text(s.tracker.BackendID()), ID: backend.NewHandleID(),
		KeyGroups: metadata.KeyGroupRange{Start: int32(s.o.KeyGroups.Start), Count: int32(s.o.KeyGroups.Len())},
	}
	files := map[string]metadata.Stream{}
	for _, t := range n.tables {
		h.Shared = append(h.Shared, metadata.LocalFile{LocalName: metadata.Text(t.name), Stream: t.stream})
		files[t.name] = t.stream
	}
	var manifest bytes.Buffer
	v := *n.version
	v.comparer = foreign
	if err := v.write(&manifest); err != nil {
		return nil, err
	}
	described, err := json.Marshal(s.tables.descriptor)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{currentFile, []byte(manifestFile + "\n")}, {descriptorFile, described}, {manifestFile, manifest.Bytes()}} {
		stream, err := n.write(n.target.CreateShared(n.ctx), f.content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		h.Private = append(h.Private, metadata.LocalFile{LocalName: metadata.Text(f.name), Stream: stream})
	}
	out := serializer.NewOutput(nil)
	s.header.Write(out)
	if err := out.Err(); err != nil {
		return nil, err
	}
	if h.Meta, err = n.write(n.target.Create(n.ctx), out.Bytes()); err != nil {
		return nil, err
	}
	h.CheckpointedSize = n.bytes
	s.tracker.Written(s.o.Checkpoint, files)
	return h, nil
}

func (n *increment) write(to *backend.TargetStream, content []byte) (metadata.Stream, error) {
	_, err := to.Write(content)
	return n.commit(to, err)
}

var _ backend.CheckpointListener = (*Backend[int64])(nil)

// CheckpointCompleted is that of [backend.CheckpointListener]. The next incremental checkpoints refer to files of this one.
func (b *Backend[K]) CheckpointCompleted(checkpoint int64) { b.tracker.Completed(checkpoint) }

// CheckpointAborted is that of [backend.CheckpointListener].
func (b *Backend[K]) CheckpointAborted(checkpoint int64) { b.tracker.Aborted(checkpoint) }
