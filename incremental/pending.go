package incremental

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// Pending is a checkpoint or savepoint that has begun and not ended; Flink's PendingCheckpoint. Its methods may be called
// concurrently: subtasks write until they are told that it has ended.
type Pending struct {
	c         *Checkpoints
	id        int64
	dir       string
	shared    string // "" for a savepoint
	savepoint bool
	full      bool
	adopts    bool // it names files of a savepoint
	base      int64
	began     uint64

	mu    sync.Mutex
	cause error // why it has ended, nil if it has not
	files map[string]*written
	open  int // writers that neither committed nor aborted
	done  chan struct{}
}

// written is a file that was created through the store of a pending checkpoint.
type written struct {
	uri       string
	open      int // writers of it
	committed bool
	doubtful  bool  // a write of it failed, and it may be there
	size      int64 // in bytes, if committed; -1 if not known
}

// ID is the number of the checkpoint.
func (p *Pending) ID() int64 { return p.id }

// Dir is the directory of the metadata, where files go that belong to this checkpoint alone.
func (p *Pending) Dir() string { return p.dir }

// SharedDir is the directory for files that later checkpoints may use, too; that of a savepoint is Dir.
func (p *Pending) SharedDir() string {
	if p.savepoint {
		return p.dir
	}
	return p.shared
}

// Full says that it may not name files that were not written for it.
func (p *Pending) Full() bool { return p.full }

// Base is the number of the newest checkpoint that had completed, or was restored, when this one began; 0 if there was
// none. All its files are kept until this one has ended. Those of older ones are not, so that a
// subtask that was not told yet that Base has completed must be told so first.
func (p *Pending) Base() int64 { return p.base }

// Done is closed when the checkpoint ends in whatever way; see Err.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Err is nil as long as it has not ended, [ErrCompleted], [ErrSubsumed], [ErrAborted], or what Complete failed with.
func (p *Pending) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// errCompleting is the cause while Complete is at work.
var errCompleting = errors.New("being completed")

// end ends the checkpoint and gives the files that it has; false if it has ended before.
func (p *Pending) end(cause error) (map[string]*written, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return nil, false
	}
	p.cause = cause
	if cause != errCompleting {
		close(p.done)
	}
	files := map[string]*written{}
	for key, f := range p.files {
		if f.committed || f.doubtful {
			files[key] = f // others are not there, or will be deleted by their writer
		}
	}
	return files, true
}

// Complete writes the metadata file, and with that the checkpoint has completed. Older checkpoints that are
// pending are aborted, those beyond the number to retain are deleted with the files that only they used; what can't be deleted is
// tried again later, and is no error. A snapshot of version 4 and later without properties gets those of a checkpoint.
//
// It refuses a snapshot of which a file was not written through FS, and is not of a completed checkpoint and kept for this
// one: the error unwraps to [ErrLost] then. After an error the checkpoint has ended and its files are
// deleted, unless ctx was done before it had its turn, when it may be called again.
func (p *Pending) Complete(ctx context.Context, s *metadata.Snapshot) (Completed, error) {
	c := p.c
	fail := func(err error) (Completed, error) {
		return Completed{}, fmt.Errorf("complete checkpoint %d: %w", p.id, err)
	}
	if err := c.begin(ctx); err != nil {
		return fail(err)
	}
	defer c.end()
	files, ok := p.end(errCompleting)
	if !ok {
		return fail(p.Err())
	}
	done, err := c.complete(ctx, p, files, s)
	p.mu.Lock()
	if p.cause = err; err == nil {
		p.cause = ErrCompleted
	}
	close(p.done)
	p.mu.Unlock()
	_ = c.sweep(ctx) // which logs what failed, to try it again
	if err != nil {
		return fail(err)
	}
	return done, nil
}

// Abort ends the checkpoint and deletes all that was written through FS, then the directory. A writer that commits
// later fails, and what it wrote goes with it. It does nothing if the checkpoint has ended. The error says what
// could not be deleted; that is tried again later.
func (p *Pending) Abort(ctx context.Context) error {
	c := p.c
	c.mu.Lock()
	aborted := c.drop(p, ErrAborted)
	c.mu.Unlock()
	if !aborted {
		return nil
	}
	err := c.begin(ctx)
	if err == nil {
		defer c.end()
		err = c.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("abort checkpoint %d: %w", p.id, err)
	}
	return nil
}

// Wrote says that a file was written for this checkpoint, and is not of an older one. Once the checkpoint has ended it may say false.
func (p *Pending) Wrote(uri string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[storage.Key(uri)]
	return f != nil && f.committed
}

// FS is the store through which all files of the checkpoint must be written, below Dir or SharedDir. It is that of the
// options, but that nothing is overwritten, only what was written through it can be deleted, and all that creates fails once
// the checkpoint has ended. It passes on [storage.Linker], [storage.Keeper] and [storage.Locator].
func (p *Pending) FS() storage.FS { return &pendingFS{p} }

// pendingFS is the store of a pending checkpoint.
type pendingFS struct{ p *Pending }

var (
	_ storage.Linker  = (*pendingFS)(nil)
	_ storage.Keeper  = (*pendingFS)(nil)
	_ storage.Locator = (*pendingFS)(nil)
)

// begin notes that a file is about to be written.
func (p *Pending) begin(uri string) (key string, err error) {
	in := func(dir string) bool {
		rest, ok := storage.Rel(dir, uri)
		return ok && rest != "" && (dir != p.dir || rest != metadata.FileName)
	}
	if !in(p.dir) && (p.savepoint || !in(p.shared)) {
		return "", fmt.Errorf("not a place for files of checkpoint %d; write below %s", p.id, p.dir)
	}
	if key = storage.Key(uri); p.c.leaves(key) {
		return "", errors.New("a file of this name is to be deleted; take another name")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return "", p.ended()
	}
	f := p.files[key]
	if f == nil {
		f = &written{uri: uri}
		p.files[key] = f
	}
	f.open++
	p.open++
	return key, nil
}

// ended is the error of those who come late. p.mu is held.
func (p *Pending) ended() error { return fmt.Errorf("checkpoint %d has ended: %w", p.id, p.cause) }

// over is nil as long as the checkpoint has not ended.
func (p *Pending) over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return p.ended()
	}
	return nil
}

// finish notes what became of a file that begin announced. tried says that it may be there, whatever err is.
func (p *Pending) finish(ctx context.Context, key string, size int64, tried bool, err error) error {
	p.mu.Lock()
	f := p.files[key]
	f.open--
	p.open--
	late := false
	switch {
	case !tried || errors.Is(err, fs.ErrExist):
		if f.open == 0 && !f.committed && !f.doubtful {
			delete(p.files, key) // it is not there, or is another's
		}
	case p.cause != nil:
		late = !f.committed
		if err == nil {
			err = p.ended()
		}
	case err == nil:
		f.committed, f.size = true, size
	default:
		f.doubtful = !f.committed
	}
	last := p.cause != nil && p.open == 0
	p.mu.Unlock()
	if late {
		p.c.remove(ctx, f.uri)
	}
	if last {
		p.c.prune(ctx, p.dir)
	}
	return err
}

// Open implements storage.FS.
func (s *pendingFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	return s.p.c.fs.Open(ctx, uri)
}

// Stat implements storage.FS.
func (s *pendingFS) Stat(ctx context.Context, uri string) (storage.Info, error) {
	return s.p.c.fs.Stat(ctx, uri)
}

// List implements storage.FS.
func (s *pendingFS) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return s.p.c.fs.List(ctx, dir)
}

// ReadDir implements storage.FS.
func (s *pendingFS) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return s.p.c.fs.ReadDir(ctx, dir)
}

// Keep implements storage.Keeper.
func (s *pendingFS) Keep(ctx context.Context, uri, path string) {
	if k, ok := s.p.c.fs.(storage.Keeper); ok {
		k.Keep(ctx, uri, path)
	}
}

// Locate implements storage.Locator.
func (s *pendingFS) Locate(ctx context.Context, uri string) (path string, ok bool) {
	if l, ok := s.p.c.fs.(storage.Locator); ok {
		return l.Locate(ctx, uri)
	}
	return "", false
}

// Create implements storage.FS.
func (s *pendingFS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	fail := func(err error) (storage.Writer, error) { return nil, &fs.PathError{Op: "create", Path: uri, Err: err} }
	if o.Overwrite {
		return fail(errors.New("a file of a checkpoint is never overwritten"))
	}
	key, err := s.p.begin(uri)
	if err != nil {
		return fail(err)
	}
	w, err := s.p.c.fs.Create(ctx, uri, o)
	if err != nil {
		return nil, s.p.finish(ctx, key, 0, false, err)
	}
	return &pendingWriter{ctx: ctx, p: s.p, w: w, key: key}, nil
}

// Copy implements storage.FS.
func (s *pendingFS) Copy(ctx context.Context, src, dst string) error {
	return s.put(ctx, "copy", dst, func() error { return s.p.c.fs.Copy(ctx, src, dst) })
}

// Link implements storage.Linker.
func (s *pendingFS) Link(ctx context.Context, src, dst string) error {
	l, ok := s.p.c.fs.(storage.Linker)
	if !ok {
		return &fs.PathError{Op: "link", Path: dst, Err: errors.ErrUnsupported}
	}
	return s.put(ctx, "link", dst, func() error { return l.Link(ctx, src, dst) })
}

func (s *pendingFS) put(ctx context.Context, op, dst string, do func() error) error {
	key, err := s.p.begin(dst)
	if err != nil {
		return &fs.PathError{Op: op, Path: dst, Err: err}
	}
	return s.p.finish(ctx, key, -1, true, do())
}

// Delete implements storage.FS.
func (s *pendingFS) Delete(ctx context.Context, uris ...string) error {
	var mine []string
	var errs []error
	for _, uri := range uris {
		if err := s.p.release(uri); err != nil {
			errs = append(errs, &storage.DeleteError{URI: uri, Err: err})
		} else {
			mine = append(mine, uri)
		}
	}
	if len(mine) > 0 {
		errs = append(errs, s.p.c.fs.Delete(ctx, mine...))
	}
	return errors.Join(errs...)
}

// release lets a file that was written be deleted: it can't be named any more.
func (p *Pending) release(uri string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[storage.Key(uri)]
	switch {
	case p.cause != nil:
		return p.ended()
	case f == nil || !f.committed && !f.doubtful:
		return fmt.Errorf("not written for checkpoint %d", p.id)
	}
	f.committed, f.doubtful = false, true
	return nil
}

// pendingWriter writes a file of a pending checkpoint.
type pendingWriter struct {
	ctx   context.Context
	p     *Pending
	w     storage.Writer
	key   string
	size  int64
	ended bool
}

// Write implements io.Writer.
func (w *pendingWriter) Write(b []byte) (int, error) {
	if err := w.p.over(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(b)
	w.size += int64(n)
	return n, err
}

// Commit implements storage.Writer.
func (w *pendingWriter) Commit() error {
	if w.ended {
		return w.w.Commit() // which says that it is closed
	}
	if err := w.p.over(); err != nil {
		w.Abort()
		return err
	}
	w.ended = true
	return w.p.finish(w.ctx, w.key, w.size, true, w.w.Commit())
}

// Abort implements storage.Writer.
func (w *pendingWriter) Abort() {
	w.w.Abort()
	if !w.ended {
		w.ended = true
		_ = w.p.finish(w.ctx, w.key, 0, false, nil)
	}
}

// lateTimeout bounds the time that is taken to delete what came late.
const lateTimeout = time.Minute

// remove deletes a file that was written too late, also where the one who wrote it was canceled; if it can't, it is tried again later.
func (c *Checkpoints) remove(ctx context.Context, uri string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTimeout)
	defer cancel()
	c.mu.Lock()
	c.discard(uri)
	c.mu.Unlock()
	if c.fs.Delete(ctx, uri) == nil {
		c.mu.Lock()
		delete(c.garbage, storage.Key(uri))
		c.mu.Unlock()
	}
}

// prune removes the directory of an aborted checkpoint in which its last writer may have left nothing but the directory.
func (c *Checkpoints) prune(ctx context.Context, dir string) {
	if p, ok := c.fs.(storage.Pruner); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTimeout)
		defer cancel()
		_, _ = p.Prune(ctx, dir) // an empty directory does no harm
	}
}
