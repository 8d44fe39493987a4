package localrecovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/drey-state/drey/storage"
)

// Copy is the local copy of what one task writes in one checkpoint. It must be ended with [Copy.Seal] or
// [Task.Discard]. All methods may be called concurrently.
type Copy struct {
	t          *Task
	checkpoint int64
	root       *root // nil in memory
	dir        string
	dead       atomic.Bool // the state is dropped

	mu    sync.Mutex
	state state
	made  bool   // there is a directory
	names int    // that were given to files
	left  int    // files that were left out
	old   bool   // written by an earlier store
	boot  string // the machine's boot id when an earlier store wrote it
	files map[string]file
}

type state int

const (
	open state = iota
	sealed
	dropped
)

func newCopy(t *Task, checkpoint int64) *Copy {
	return &Copy{
		t: t, checkpoint: checkpoint, root: t.s.rootFor(checkpoint), files: map[string]file{},
		dir: path.Join(t.id.dir(), checkpointPrefix+strconv.FormatInt(checkpoint, 10)),
	}
}

func (c *Copy) is(s state) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == s
}

// FS gives a store that writes to primary, and what it writes also to the local copy. Only primary's failures are told. An object
// that [storage.Keeper.Keep] named before is not written a second time. What is created after Seal or Discard goes to primary only.
func (c *Copy) FS(primary storage.FS) storage.FS { return &copyFS{forwarding{primary}, c} }

// Seal says that the task has written its part of the checkpoint: the copy is complete, and survives the process, once its index
// is written. After Discard it does nothing. What can't be sealed is logged and removed.
func (c *Copy) Seal(ctx context.Context) {
	if c.t.s.o.Checksums && c.root != nil {
		c.sumRest(ctx)
	}
	c.mu.Lock()
	err := c.seal()
	left := c.left
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
	} else if left > 1 { // of the first one it was logged
		c.t.s.log.Warn("local recovery: files were left out of the local copy", "task", c.t.id, "checkpoint", c.checkpoint, "files", left)
	}
}

func (c *Copy) seal() error {
	if c.state != open {
		return nil
	}
	if len(c.files) == 0 {
		return errNoFiles
	}
	if c.root != nil {
		x := &index{boot: c.t.s.boot}
		for _, key := range slices.Sorted(maps.Keys(c.files)) {
			x.files = append(x.files, c.files[key])
		}
		if err := c.writeIndex(x.encode()); err != nil {
			return err
		}
	}
	c.state = sealed
	return nil
}

// sumRest reads the files that have no checksum. One that can't be read goes.
func (c *Copy) sumRest(ctx context.Context) {
	c.mu.Lock()
	var rest []file
	for _, f := range c.files {
		if !f.summed {
			rest = append(rest, f)
		}
	}
	c.mu.Unlock()
	for _, f := range rest {
		sum, err := c.checksum(ctx, f)
		if err != nil && !c.dead.Load() {
			c.forget(f.uri)
			c.leaveOut(f.uri, err)
		}
		if err == nil {
			c.setSum(f.uri, sum)
		}
	}
}

// setSum gives a file of an open copy its checksum.
func (c *Copy) setSum(uri string, sum uint64) {
	key := storage.Key(uri)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.files[key]; ok && c.state == open {
		f.sum, f.summed = sum, true
		c.files[key] = f
	}
}

func (c *Copy) writeIndex(data []byte) error {
	name, temp := path.Join(c.dir, indexName), path.Join(c.dir, indexTemp)
	f, err := c.root.create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.root.step("write", temp, func() error { _, err := f.Write(data); return err }); err != nil {
		return err
	}
	if err := c.root.step("close", temp, f.Close); err != nil {
		return err
	}
	return c.root.step("rename", name, func() error { return c.root.r.Rename(temp, name) })
}

// drop makes the copy one that keeps nothing, and removes what is there. The task's lock is held, so
// that nobody begins another copy in the same place meanwhile.
func (c *Copy) drop() {
	c.mu.Lock()
	made, files := c.made && c.state != dropped, c.files
	c.state, c.files = dropped, nil
	c.dead.Store(true)
	c.mu.Unlock()
	for _, f := range files {
		c.release(f)
	}
	if !made || c.root == nil {
		return
	}
	if err := c.root.remove(c.dir); err != nil {
		c.t.s.log.Warn("local recovery: a copy can't be removed; the next removal tries again", "directory", c.root.path(c.dir), "error", err)
	}
}

// fail gives up the copy because of a failure.
func (c *Copy) fail(err error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if c.t.copies[c.checkpoint] != c {
		return // dropped already, which is what the failure comes from
	}
	delete(c.t.copies, c.checkpoint)
	level := slog.LevelWarn
	if errors.Is(err, errNoFiles) {
		level = slog.LevelDebug
	}
	c.t.s.log.Log(context.Background(), level, "local recovery: the local copy of a checkpoint is given up",
		"task", c.t.id, "checkpoint", c.checkpoint, "error", err)
	c.drop()
}

// leaveOut says that a file is not in the copy because of a failure.
func (c *Copy) leaveOut(uri string, err error) {
	c.mu.Lock()
	c.left++
	first := c.left == 1
	c.mu.Unlock()
	if first {
		c.t.s.log.Warn("local recovery: a file is left out of the local copy", "task", c.t.id, "checkpoint", c.checkpoint, "uri", uri, "error", err)
	}
}

// errNoFiles says that there is nothing in a copy.
var errNoFiles = errors.New("it has no files")

// errNotOpen says that a copy takes nothing any more.
var errNotOpen = errors.New("the copy is not open")

// errNoMemory says that a copy would need more memory than there is for copies.
var errNoMemory = errors.New("more than the limit of memory for copies")

// place gives the name of a new file, in a directory that is there. c.mu is held.
func (c *Copy) place() (name string, err error) {
	if c.state != open {
		return "", errNotOpen
	}
	if !c.made {
		if err := c.root.makeDir(c.dir); err != nil {
			return "", err
		}
		c.made = true
	}
	c.names++
	return strconv.Itoa(c.names), nil
}

// add puts a finished file into the copy, or removes it if the copy takes nothing any more or has the object.
func (c *Copy) add(f file) {
	key := storage.Key(f.uri)
	c.mu.Lock()
	_, has := c.files[key]
	if c.state == open && !has {
		c.files[key] = f
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.discard(f)
}

// forget takes an object out of a copy that is not sealed.
func (c *Copy) forget(uri string) {
	key := storage.Key(uri)
	c.mu.Lock()
	f, has := c.files[key]
	has = has && c.state == open
	if has {
		delete(c.files, key)
	}
	c.mu.Unlock()
	if has {
		c.discard(f)
	}
}

// release gives back the memory of a file.
func (c *Copy) release(f file) {
	if c.root == nil {
		c.t.s.release(f.size)
	}
}

// discard removes a file that is not in the copy.
func (c *Copy) discard(f file) {
	c.release(f)
	if c.root == nil || c.dead.Load() {
		return // or gone with its directory
	}
	name := path.Join(c.dir, f.name)
	if err := c.root.removeFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.s.log.Warn("local recovery: a file can't be removed yet", "file", c.root.path(name), "error", err)
	}
}

// sizeOf gives the size of an object that is in a copy that is not sealed.
func (c *Copy) sizeOf(uri string) (size int64, ok bool) {
	key := storage.Key(uri)
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[key]
	return f.size, ok && c.state == open
}

func (c *Copy) has(uri string) bool {
	_, ok := c.sizeOf(uri)
	return ok
}

// keep puts the local file from, which has the bytes of an object, into the copy.
func (c *Copy) keep(ctx context.Context, uri, from string) {
	if c.dead.Load() || c.has(uri) {
		return
	}
	err := c.link(ctx, uri, from)
	if err != nil && !errors.Is(err, errNotOpen) {
		c.leaveOut(uri, err)
	}
}

func (c *Copy) link(ctx context.Context, uri, from string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !filepath.IsAbs(from) {
		return fmt.Errorf("%q: %w: not an absolute path", from, fs.ErrInvalid)
	}
	fi, err := os.Lstat(from)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		// The file is linked, not a symbolic link to it.
		if from, err = filepath.EvalSymlinks(from); err == nil {
			fi, err = os.Lstat(from)
		}
	}
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: not a regular file", from, fs.ErrInvalid)
	}
	if c.root == nil {
		return c.copyFile(ctx, uri, from, fi.Size())
	}
	f := file{uri: uri, size: fi.Size()}
	c.mu.Lock()
	if f.name, err = c.place(); err != nil {
		c.mu.Unlock()
		if !errors.Is(err, errNotOpen) {
			c.fail(err)
			return errNotOpen
		}
		return err
	}
	err = c.root.link(from, path.Join(c.dir, f.name))
	c.mu.Unlock()
	switch {
	case err == nil:
	case cannotLink(err):
		c.tellCopies(fi, from, err)
		return c.copyFile(ctx, uri, from, f.size)
	default:
		return err
	}
	f.sum, f.summed = c.t.known(uri, f.size)
	c.add(f)
	return nil
}

// tellCopies logs once for two file systems that files are copied from one to the other.
func (c *Copy) tellCopies(fi fs.FileInfo, from string, err error) {
	var to uint64
	if ti, err := c.root.r.Stat("."); err == nil {
		to = device(ti)
	}
	if c.t.s.once(fmt.Sprintf("link %d %d", device(fi), to)) {
		c.t.s.log.Warn("local recovery: files are copied, as they can't be hard-linked; local copies take time and space",
			"from", filepath.Dir(from), "to", c.root.dir, "error", err)
	}
}

// copyFile puts the bytes of a local file into the copy.
func (c *Copy) copyFile(ctx context.Context, uri, from string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.newSink(uri)
	if err != nil {
		return err
	}
	defer out.abandon()
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for left := size; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := in.Read(buf[:min(left, int64(len(buf)))])
		if err := out.write(buf[:n]); err != nil {
			return out.failed(err)
		}
		if left -= int64(n); err != nil && left > 0 {
			if err == io.EOF {
				err = fmt.Errorf("%s: %w: the file became shorter", from, io.ErrUnexpectedEOF)
			}
			return err
		}
	}
	if err := out.finish(); err != nil {
		return out.failed(err)
	}
	return nil
}

// checksum reads a file of the copy.
func (c *Copy) checksum(ctx context.Context, f file) (uint64, error) {
	in, err := c.root.open(path.Join(c.dir, f.name), f.size)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return sumOf(ctx, in)
}

func sumOf(ctx context.Context, in io.Reader) (uint64, error) {
	h := xxh3.New()
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := in.Read(buf[:])
		_, _ = h.Write(buf[:n])
		if err == io.EOF {
			return h.Sum64(), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// known gives the checksum of an object that another copy of the task has, as objects never change.
func (t *Task) known(uri string, size int64) (sum uint64, ok bool) {
	key := storage.Key(uri)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.copies {
		c.mu.Lock()
		f := c.files[key]
		c.mu.Unlock()
		if f.summed && f.size == size {
			return f.sum, true
		}
	}
	return 0, false
}

const bufferSize = 64 << 10

type buffer [bufferSize]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// sink is a file of a copy that is being written, by one goroutine.
type sink struct {
	c    *Copy
	file file
	f    *os.File
	hash *xxh3.Hasher
	buf  *buffer // nil in memory, and when it has ended
	n    int     // bytes in it
	done bool
}

func (c *Copy) newSink(uri string) (*sink, error) {
	s := &sink{c: c, file: file{uri: uri}}
	if c.root == nil {
		if c.dead.Load() {
			return nil, errNotOpen
		}
		return s, nil
	}
	c.mu.Lock()
	name, err := c.place()
	if err == nil {
		s.f, err = c.root.create(path.Join(c.dir, name))
	}
	c.mu.Unlock()
	if err != nil {
		return nil, s.failed(err)
	}
	s.file.name, s.hash, s.buf = name, xxh3.New(), buffers.Get().(*buffer)
	return s, nil
}

// failed gives up the copy, if it was its failure.
func (s *sink) failed(err error) error {
	if errors.Is(err, errNotOpen) || errors.Is(err, errNoMemory) {
		return err
	}
	s.c.fail(err)
	return errNotOpen
}

func (s *sink) write(p []byte) error {
	if s.c.dead.Load() {
		return errNotOpen
	}
	if s.c.root == nil {
		if !s.c.t.s.reserve(int64(len(p))) {
			return errNoMemory
		}
		s.file.data.write(p)
	}
	s.file.size += int64(len(p))
	if s.c.root == nil {
		return nil
	}
	if s.n+len(p) > bufferSize {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if len(p) >= bufferSize {
		return s.out(p)
	}
	s.n += copy(s.buf[s.n:], p)
	return nil
}

func (s *sink) flush() error {
	p := s.buf[:s.n]
	s.n = 0
	if len(p) == 0 {
		return nil
	}
	return s.out(p)
}

func (s *sink) out(p []byte) error {
	_, _ = s.hash.Write(p)
	return s.c.root.step("write", path.Join(s.c.dir, s.file.name), func() error { _, err := s.f.Write(p); return err })
}

// finish ends the file and puts it into the copy.
func (s *sink) finish() error {
	if s.c.dead.Load() {
		return errNotOpen
	}
	if s.c.root == nil {
		s.file.data.trim()
		s.done = true
		s.c.add(s.file)
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.c.root.step("close", path.Join(s.c.dir, s.file.name), s.f.Close); err != nil {
		return err
	}
	s.file.sum, s.file.summed = s.hash.Sum64(), true
	s.end()
	s.c.add(s.file)
	return nil
}

// abandon removes the file unless it was finished.
func (s *sink) abandon() {
	if !s.done {
		s.end()
		s.c.discard(s.file)
	}
}

func (s *sink) end() {
	s.done = true
	if s.f != nil {
		s.f.Close()
		buffers.Put(s.buf)
		s.buf = nil
	}
}

// copyFS writes to a primary store and to a local copy.
type copyFS struct {
	forwarding
	c *Copy
}

var (
	_ storage.FS       = (*copyFS)(nil)
	_ storage.Linker   = (*copyFS)(nil)
	_ storage.Resolver = (*copyFS)(nil)
	_ storage.Cleaner  = (*copyFS)(nil)
	_ storage.Pruner   = (*copyFS)(nil)
	_ storage.Keeper   = (*copyFS)(nil)
	_ storage.Locator  = (*copyFS)(nil)
)

// Keep implements storage.Keeper.
func (f *copyFS) Keep(ctx context.Context, uri, path string) {
	f.c.keep(ctx, uri, path)
	f.forwarding.Keep(ctx, uri, path)
}

// Create implements storage.FS.
func (f *copyFS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	kept := !o.Overwrite && f.c.has(uri)
	w, err := f.FS.Create(ctx, uri, o)
	if err != nil {
		if kept {
			f.c.forget(uri)
		}
		return nil, err
	}
	out := &writer{w: w, c: f.c, uri: uri, overwrite: o.Overwrite}
	if kept {
		out.kept = xxh3.New()
	} else {
		out.local, _ = f.c.newSink(uri) // none after an error, which was logged
	}
	return out, nil
}

// Delete implements storage.FS.
func (f *copyFS) Delete(ctx context.Context, uris ...string) error {
	for _, uri := range uris {
		f.c.forget(uri)
	}
	return f.FS.Delete(ctx, uris...)
}

// writer writes to both. All that goes wrong with the copy ends only that.
type writer struct {
	w         storage.Writer
	c         *Copy
	uri       string
	overwrite bool
	local     *sink        // nil if there is none, or none any more
	kept      *xxh3.Hasher // of what is written of an object that Keep named
	size      int64
	done      bool
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.drop()
		return n, err
	}
	w.size += int64(len(p))
	if w.kept != nil {
		_, _ = w.kept.Write(p)
	}
	if w.local != nil {
		w.try(w.local.write(p))
	}
	return n, nil
}

// try gives up the local file if there is an error.
func (w *writer) try(err error) {
	if err == nil {
		return
	}
	if err = w.local.failed(err); errors.Is(err, errNoMemory) {
		w.c.leaveOut(w.uri, err)
	}
	w.drop()
}

func (w *writer) drop() {
	if w.local != nil {
		w.local.abandon()
		w.local = nil
	}
}

// Commit implements storage.Writer.
func (w *writer) Commit() error {
	if w.overwrite {
		w.c.forget(w.uri) // the bytes of what is replaced
	}
	if err := w.w.Commit(); err != nil {
		w.end()
		return err
	}
	w.done = true
	if w.kept != nil {
		w.checkKept()
	}
	if w.local != nil {
		w.try(w.local.finish())
		w.drop()
	}
	return nil
}

// checkKept compares what was written with the file that Keep named.
func (w *writer) checkKept() {
	if size, ok := w.c.sizeOf(w.uri); ok && size != w.size {
		w.c.forget(w.uri)
		w.c.leaveOut(w.uri, fmt.Errorf("%w: the file to keep has %d bytes, the object %d", errDamaged, size, w.size))
		return
	}
	w.c.setSum(w.uri, w.kept.Sum64())
}

// Abort implements storage.Writer.
func (w *writer) Abort() {
	w.w.Abort()
	w.end()
}

// end forgets an object that was not written, also if Keep named it.
func (w *writer) end() {
	if w.done {
		return
	}
	w.done = true
	w.drop()
	if !w.overwrite {
		w.c.forget(w.uri)
	}
}

// forwarding passes everything on to a store, with what it can do beyond storage.FS.
type forwarding struct{ storage.FS }

// Link implements storage.Linker.
func (f forwarding) Link(ctx context.Context, src, dst string) error {
	if l, ok := f.FS.(storage.Linker); ok {
		return l.Link(ctx, src, dst)
	}
	return fmt.Errorf("link %s to %s: %w", src, dst, errors.ErrUnsupported)
}

// Resolve implements storage.Resolver.
func (f forwarding) Resolve(ctx context.Context, uri string) (string, error) {
	if r, ok := f.FS.(storage.Resolver); ok {
		return r.Resolve(ctx, uri)
	}
	return uri, nil
}

// Clean implements storage.Cleaner.
func (f forwarding) Clean(ctx context.Context, uris ...string) (removed int, err error) {
	if c, ok := f.FS.(storage.Cleaner); ok {
		return c.Clean(ctx, uris...)
	}
	return 0, nil
}

// Prune implements storage.Pruner.
func (f forwarding) Prune(ctx context.Context, dirs ...string) (removed int, err error) {
	if p, ok := f.FS.(storage.Pruner); ok {
		return p.Prune(ctx, dirs...)
	}
	return 0, nil
}

// Keep implements storage.Keeper.
func (f forwarding) Keep(ctx context.Context, uri, path string) {
	if k, ok := f.FS.(storage.Keeper); ok {
		k.Keep(ctx, uri, path)
	}
}

// Locate implements storage.Locator.
func (f forwarding) Locate(ctx context.Context, uri string) (path string, ok bool) {
	if l, ok := f.FS.(storage.Locator); ok {
		return l.Locate(ctx, uri)
	}
	return "", false
}
