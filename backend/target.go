package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// DefaultInlineBelow is how many bytes of state stand in the metadata at most,
// if nothing else is said (execution.checkpointing.data-inline-threshold, 20 kb).
const DefaultInlineBelow = 20 * 1024

// Target is where the files of a snapshot are written: the directory of one checkpoint or savepoint
// (FsCheckpointStreamFactory). It may be used concurrently.
type Target struct {
	FS storage.FS
	// Dir is the directory of the snapshot's metadata, without a slash at the end.
	Dir string
	// InlineBelow is the size in bytes up to which a stream stands in the metadata instead
	// of in a file; 0 means [DefaultInlineBelow], a negative number none.
	InlineBelow int
	// Absolute writes the whole path of each file into its handle, instead of one relative to Dir.
	// Flink does so with entropy injection. A native savepoint that a job is to claim needs it: Flink 1.20.5 and 2.3.0 take
	// handles of its tables into their own checkpoints as they are, and don't find there what is relative (FLINK-39964).
	Absolute bool
	// Shared is the directory for files that other checkpoints may refer to, which FormatIncremental needs: shared beside the
	// directory of the checkpoint.
	Shared string
}

// CreateShared begins a stream of which other checkpoints may have the handle, too (CheckpointedStateScope.SHARED). t.Shared must be set.
func (t Target) CreateShared(ctx context.Context) *TargetStream {
	t.Dir, t.Absolute = t.Shared, true
	return t.Create(ctx)
}

// TargetStream is a stream of state that is being written; `defer s.Abort()` is always
// right. One goroutine may use it.
type TargetStream struct {
	ctx    context.Context
	target Target
	name   string
	buf    []byte
	inline int
	file   storage.Writer
	size   int64
	err    error
	done   bool
}

// Create begins a stream. A file for it, with a random name, is created as
// soon as it is longer than what is put inline.
func (t Target) Create(ctx context.Context) *TargetStream {
	inline := t.InlineBelow
	switch {
	case inline == 0:
		inline = DefaultInlineBelow
	case inline < 0:
		inline = 0
	}
	return &TargetStream{ctx: ctx, target: t, name: uuid.NewString(), inline: inline}
}

// Write implements io.Writer.
func (s *TargetStream) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.file == nil && len(s.buf)+len(p) <= s.inline {
		s.buf = append(s.buf, p...)
		s.size += int64(len(p))
		return len(p), nil
	}
	if s.file == nil {
		if s.target.FS == nil {
			s.err = errors.New("the target has no file system")
			return 0, s.err
		}
		file, err := s.target.FS.Create(s.ctx, storage.Join(s.target.Dir, s.name), storage.CreateOptions{})
		if err != nil {
			s.err = err
			return 0, err
		}
		s.file = file
		if len(s.buf) > 0 {
			if _, s.err = s.file.Write(s.buf); s.err != nil {
				return 0, s.err
			}
		}
		s.buf = nil
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	s.err = err
	return n, err
}

// URI is that of the file, if one will be made for a stream of so many bytes.
func (s *TargetStream) URI(size int64) (string, bool) {
	return storage.Join(s.target.Dir, s.name), size > int64(s.inline)
}

// Size is the number of bytes that were written.
func (s *TargetStream) Size() int64 { return s.size }

// Commit ends the stream and gives its handle. After an error nothing was left behind.
func (s *TargetStream) Commit() (metadata.Stream, error) {
	if s.err != nil {
		s.Abort()
		return nil, s.err
	}
	if s.file == nil {
		s.done = true
		return &metadata.ByteStream{Name: metadata.Text(s.name), Data: s.buf}, nil
	}
	uri := storage.Join(s.target.Dir, s.name)
	path, err := metadata.NewText(uri)
	if err != nil {
		s.Abort()
		return nil, err
	}
	s.done = true
	if err := s.file.Commit(); err != nil {
		// It may be there all the same, if only the answer was lost.
		_ = s.target.FS.Delete(context.WithoutCancel(s.ctx), uri)
		return nil, err
	}
	if !s.target.Absolute {
		return &metadata.RelativeFile{Path: metadata.Text(s.name), Size: s.size}, nil
	}
	return &metadata.File{Path: path, Size: s.size}, nil
}

// Abort gives the stream up, unless it was committed.
func (s *TargetStream) Abort() {
	if s.file != nil && !s.done {
		s.file.Abort()
	}
	if !s.done && s.err == nil {
		s.err = fmt.Errorf("the stream was given up")
	}
	s.done = true
}

// Discard gives the stream up and removes its file, also if it was committed.
func (s *TargetStream) Discard() {
	s.Abort()
	if s.file != nil {
		_ = s.target.FS.Delete(context.WithoutCancel(s.ctx), storage.Join(s.target.Dir, s.name))
	}
}

// NewHandleID is a random identity of a handle of keyed state (StateHandleID).
func NewHandleID() metadata.Text { return metadata.Text(uuid.NewString()) }
