package backend

import (
	"context"
	"errors"
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

// NewStateFiles begins the files of a snapshot of the key groups r. The format is FormatRocksDB, or any
// other for a canonical file.
func NewStateFiles(ctx context.Context, t Target, h *KeyedHeader, r keygroup.Range, maxParallelism int, checkpoint int64, o SnapshotOptions) (StateFiles, error) {
	if o.Format == FormatRocksDB {
		return newDatabaseFiles(ctx, t, h, r, maxParallelism, checkpoint)
	}
	stream := t.Create(ctx)
	form := metadata.KeyGroupsSavepoint
	if o.Format == FormatFull {
		form = metadata.KeyGroupsV2
	}
	return &canonicalFile{NewCanonicalWriter(stream, h, r, maxParallelism), stream, form}, nil
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
	ctx        context.Context
	target     Target
	header     *KeyedHeader
	groups     keygroup.Range
	max        int
	checkpoint int64
	w          *rocksdb.Writer
	families   []*rocksdb.FamilyWriter
	files      map[string]*databaseFile
	group      int
	key        []byte
	done       bool
}

func newDatabaseFiles(ctx context.Context, t Target, h *KeyedHeader, r keygroup.Range, maxParallelism int, checkpoint int64) (*databaseFiles, error) {
	f := &databaseFiles{ctx: ctx, target: t, header: h, groups: r, max: maxParallelism, checkpoint: checkpoint, files: map[string]*databaseFile{}}
	w, err := rocksdb.Create(ctx, f.create, rocksdb.WriterOptions{MergeOperator: mergeOperator})
	if err != nil {
		return nil, err
	}
	f.w = w
	for i := range h.States {
		family, err := w.Family(h.States[i].Name)
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
	f.key = append(AppendKeyGroup(f.key[:0], f.group, f.max), key...)
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
		CheckpointID: f.checkpoint, BackendID: metadata.Text(uuid.NewString()), ID: NewHandleID(),
		KeyGroups: metadata.KeyGroupRange{Start: int32(f.groups.Start), Count: int32(f.groups.Len())},
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
	f.header.Write(out)
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
