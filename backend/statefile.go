package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"

	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// StateFiles is the keyed state of a subtask that is being written from entries in their stored form,
// into a canonical file or the files of a RocksDB database. One goroutine may use it; `defer f.Abort()` is always right.
type StateFiles interface {
	// StartKeyGroup begins a key group; they come in ascending order.
	StartKeyGroup(group int) error
	// Entry writes an entry of the state with that number in the header, as [CanonicalWriter.Entry]. Within a key group
	// the entries of a state come one after the other, and for a RocksDB database in the order of their keys.
	Entry(state int, key, value []byte) error
	// Commit ends the files and gives the handle of the state. After an error nothing was left behind.
	Commit() (metadata.Keyed, error)
	// Abort gives the files up, unless they were committed.
	Abort()
}

// StateFilesOptions say what [NewStateFiles] is to write.
type StateFilesOptions struct {
	Header *KeyedHeader
	// KeyGroups are those that are written, of MaxParallelism.
	KeyGroups      keygroup.Range
	MaxParallelism int
	// Checkpoint is the number of the checkpoint.
	Checkpoint int64
	// MaxSize is the most bytes that a key or a value may have; 0 means [MaxSize].
	MaxSize int
	// SnapshotOptions have the format: FormatRocksDB, or any other for a canonical file.
	SnapshotOptions
}

// NewStateFiles begins the files of a snapshot.
func NewStateFiles(ctx context.Context, t Target, o StateFilesOptions) (StateFiles, error) {
	limit, err := CheckMaxSize(o.MaxSize)
	if err != nil {
		return nil, err
	}
	if o.MaxSize = limit; o.Format == FormatRocksDB {
		return newDatabaseFiles(ctx, t, o)
	}
	stream := t.Create(ctx)
	form := metadata.KeyGroupsSavepoint
	if o.Format == FormatFull {
		form = metadata.KeyGroupsV2
	}
	w := NewCanonicalWriter(stream, o.Header, o.KeyGroups, o.MaxParallelism)
	w.limit = limit
	return &canonicalFile{w, stream, form}, nil
}

type canonicalFile struct {
	*CanonicalWriter
	stream *TargetStream
	form   metadata.KeyGroupsForm
}

func (f *canonicalFile) Abort() { f.stream.Abort() }

func (f *canonicalFile) Commit() (metadata.Keyed, error) {
	offsets, _, err := f.Close()
	if err != nil {
		return nil, err
	}
	return CommitKeyGroups(f.stream, offsets, f.form)
}

// CommitKeyGroups commits a stream of keyed state and gives its handle in one of the two forms that Flink 1.20 and 2.x write.
func CommitKeyGroups(s *TargetStream, offsets metadata.KeyGroupOffsets, form metadata.KeyGroupsForm) (metadata.Keyed, error) {
	delegate, err := s.Commit()
	if err != nil {
		return nil, err
	}
	h := &metadata.KeyGroups{Form: form, KeyGroupOffsets: offsets, Delegate: delegate}
	if form == metadata.KeyGroupsV2 {
		h.ID = NewHandleID()
	}
	return h, nil
}

// mergeOperator is what the tables of Flink say, which it does not compare.
const mergeOperator = "StringAppendTESTOperator"

// databaseFiles writes a RocksDB database, with a column family for each state (RocksNativeFullSnapshotStrategy).
type databaseFiles struct {
	ctx      context.Context
	target   Target
	o        StateFilesOptions
	w        *rocksdb.Writer
	families []*rocksdb.FamilyWriter
	files    map[string]*databaseFile
	group    int
	key      []byte
	done     bool
}

func newDatabaseFiles(ctx context.Context, t Target, o StateFilesOptions) (*databaseFiles, error) {
	f := &databaseFiles{ctx: ctx, target: t, o: o, files: map[string]*databaseFile{}}
	w, err := rocksdb.Create(ctx, f.create, rocksdb.WriterOptions{MergeOperator: mergeOperator, TableSize: o.TableSize})
	if err != nil {
		return nil, err
	}
	f.w = w
	for i := range o.Header.States {
		family, err := w.Family(o.Header.States[i].Name)
		if err != nil {
			f.Abort()
			return nil, err
		}
		f.families = append(f.families, family)
	}
	return f, nil
}

// databaseFile is one of the files as a stream of the target.
type databaseFile struct {
	*TargetStream
	handle metadata.Stream
}

// Commit implements storage.Writer.
func (d *databaseFile) Commit() (err error) {
	d.handle, err = d.TargetStream.Commit()
	return err
}

func (f *databaseFiles) create(ctx context.Context, name string) (storage.Writer, error) {
	if f.files[name] != nil {
		return nil, fs.ErrExist
	}
	d := &databaseFile{TargetStream: f.target.Create(ctx)}
	f.files[name] = d
	return d, nil
}

func (f *databaseFiles) StartKeyGroup(group int) error {
	f.group = group
	return f.ctx.Err()
}

func (f *databaseFiles) Entry(state int, key, value []byte) error {
	f.key = append(AppendKeyGroup(f.key[:0], f.group, f.o.MaxParallelism), key...)
	// RocksDB has a key and its value in one array.
	if n := len(f.key) + len(value); n > min(f.o.MaxSize, rocksdb.MaxEntry) {
		return fmt.Errorf("state %q, key group %d: %w", f.o.Header.States[state].Name, f.group, CheckSize("a key and a value", n, min(f.o.MaxSize, rocksdb.MaxEntry)))
	}
	return f.families[state].Add(f.key, value)
}

// Abort gives up what is not complete, and removes what is.
func (f *databaseFiles) Abort() {
	if f.done {
		return
	}
	f.done = true
	f.w.Abort()
	var uris []string
	for _, d := range f.files {
		if d.handle != nil && d.file != nil {
			uris = append(uris, storage.Join(f.target.Dir, d.name))
		}
	}
	if len(uris) > 0 {
		_ = f.target.FS.Delete(context.WithoutCancel(f.ctx), uris...)
	}
}

func (f *databaseFiles) Commit() (metadata.Keyed, error) {
	written, err := f.w.Finish()
	if err != nil {
		f.Abort()
		return nil, err
	}
	h := &metadata.Incremental{
		CheckpointID: f.o.Checkpoint, BackendID: metadata.Text(uuid.NewString()), ID: NewHandleID(),
		KeyGroups: metadata.KeyGroupRange{Start: int32(f.o.KeyGroups.Start), Count: int32(f.o.KeyGroups.Len())},
	}
	for _, file := range written {
		local := metadata.LocalFile{LocalName: metadata.Text(file.Name), Stream: f.files[file.Name].handle}
		if h.CheckpointedSize += file.Size; file.Table {
			h.Shared = append(h.Shared, local)
		} else {
			h.Private = append(h.Private, local)
		}
	}
	meta := &databaseFile{TargetStream: f.target.Create(f.ctx)}
	f.files["meta"] = meta
	defer meta.TargetStream.Abort()
	out := serializer.NewOutput(nil)
	f.o.Header.Write(out)
	_, err = meta.Write(out.Bytes())
	if err = errors.Join(out.Err(), err); err == nil {
		err = meta.Commit()
	}
	if err != nil {
		f.Abort()
		return nil, err
	}
	h.CheckpointedSize += meta.Size()
	h.Meta = meta.handle
	f.done = true
	return h, nil
}
