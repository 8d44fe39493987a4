package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is an [FS] that holds its objects in memory: for tests, and for
// programs that embed drey. It takes URIs of every scheme and compares them as
// [Key] does. Like S3 it has no directories of its own: a prefix that holds
// objects is one. The zero value is ready for use, and must not be copied.
type Memory struct {
	mu   sync.RWMutex
	root memNode
}

var (
	_ FS     = (*Memory)(nil)
	_ Linker = (*Memory)(nil)
)

// NewMemory makes an empty store.
func NewMemory() *Memory { return new(Memory) }

// memNode is a place in the tree of names: an object, a directory or both.
// The levels below the root are scheme and authority together, then the segments of the path.
type memNode struct {
	children map[string]*memNode
	obj      *memObject // nil if no object has just this name
}

// memObject is an object that never changes.
type memObject struct {
	data  []byte
	mtime time.Time
}

// memPath gives the names of the nodes that lead to uri.
func memPath(uri string) []string {
	scheme, authority, path := Split(Key(uri))
	names := []string{scheme + "://" + authority}
	for s := range strings.SplitSeq(path, "/") {
		if s != "" {
			names = append(names, s)
		}
	}
	return names
}

// find gives the node of uri, or nil. m.mu is held.
func (m *Memory) find(uri string) *memNode {
	n := &m.root
	for _, name := range memPath(uri) {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// object gives the object of uri.
func (m *Memory) object(ctx context.Context, uri string) (*memObject, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch n := m.find(uri); {
	case n == nil:
		return nil, fs.ErrNotExist
	case n.obj == nil:
		return nil, ErrIsDir
	default:
		return n.obj, nil
	}
}

// put makes o the object of uri.
func (m *Memory) put(uri string, o *memObject, overwrite bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.find(uri); n != nil && n.obj != nil && !overwrite {
		return fs.ErrExist
	}
	n := &m.root
	for _, name := range memPath(uri) {
		child := n.children[name]
		if child == nil {
			child = new(memNode)
			if n.children == nil {
				n.children = map[string]*memNode{}
			}
			n.children[name] = child
		}
		n = child
	}
	n.obj = o
	return nil
}

// Open implements FS.
func (m *Memory) Open(ctx context.Context, uri string) (Object, error) {
	o, err := m.object(ctx, uri)
	if err != nil {
		return nil, pathError("open", uri, err)
	}
	return &memOpen{uri: uri, data: o.data}, nil
}

// Stat implements FS.
func (m *Memory) Stat(ctx context.Context, uri string) (Info, error) {
	o, err := m.object(ctx, uri)
	switch {
	case err == ErrIsDir:
		return Info{URI: uri, Dir: true}, nil
	case err != nil:
		return Info{}, pathError("stat", uri, err)
	}
	return Info{URI: uri, Size: int64(len(o.data)), ModTime: o.mtime}, nil
}

// Create implements FS.
func (m *Memory) Create(ctx context.Context, uri string, o CreateOptions) (Writer, error) {
	err := ctx.Err()
	if err == nil && Base(uri) == "" {
		err = ErrIsDir
	}
	if err == nil && !o.Overwrite {
		if _, oerr := m.object(ctx, uri); oerr == nil {
			err = fs.ErrExist
		}
	}
	if err != nil {
		return nil, pathError("create", uri, err)
	}
	return &memWriter{m: m, ctx: ctx, uri: uri, overwrite: o.Overwrite}, nil
}

// Copy implements FS. The two share their bytes.
func (m *Memory) Copy(ctx context.Context, src, dst string) error {
	o, err := m.object(ctx, src)
	if err != nil {
		return pathError("copy", src, err)
	}
	return pathError("copy", dst, m.put(dst, &memObject{data: o.data, mtime: time.Now()}, false))
}

// Link implements Linker.
func (m *Memory) Link(ctx context.Context, src, dst string) error {
	o, err := m.object(ctx, src)
	if err != nil {
		return pathError("link", src, err)
	}
	return pathError("link", dst, m.put(dst, o, false))
}

// Delete implements FS.
func (m *Memory) Delete(ctx context.Context, uris ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, uri := range uris {
		if err := ctx.Err(); err != nil {
			errs = append(errs, &DeleteError{URI: uri, Err: err})
			continue
		}
		if n := m.find(uri); n != nil && n.obj == nil {
			errs = append(errs, &DeleteError{URI: uri, Err: ErrIsDir})
			continue
		}
		m.root.remove(memPath(uri))
	}
	return errors.Join(errs...)
}

// remove takes away the object at names and the nodes that it leaves empty.
func (n *memNode) remove(names []string) {
	if len(names) == 0 {
		n.obj = nil
		return
	}
	child := n.children[names[0]]
	if child == nil {
		return
	}
	child.remove(names[1:])
	if child.obj == nil && len(child.children) == 0 {
		delete(n.children, names[0])
	}
}

// List implements FS. It holds the names of one directory at each level, so
// that objects may be created and deleted while it runs.
func (m *Memory) List(ctx context.Context, dir string) iter.Seq2[Info, error] {
	return m.entries(ctx, dir, true)
}

// ReadDir implements FS.
func (m *Memory) ReadDir(ctx context.Context, dir string) iter.Seq2[Info, error] {
	return m.entries(ctx, dir, false)
}

func (m *Memory) entries(ctx context.Context, dir string, deep bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m.mu.RLock()
		n := m.find(dir)
		m.mu.RUnlock()
		if n == nil {
			if err := ctx.Err(); err != nil {
				yield(Info{}, pathError("list", dir, err))
			}
			return
		}
		m.walk(ctx, n, strings.TrimSuffix(dir, "/"), deep, yield)
	}
}

// memEntry is a child of a node as it was at one moment.
type memEntry struct {
	uri  string
	node *memNode
	obj  *memObject
	dir  bool
}

// walk yields what is below n, whose URI is uri; false to stop.
func (m *Memory) walk(ctx context.Context, n *memNode, uri string, deep bool, yield func(Info, error) bool) bool {
	m.mu.RLock()
	entries := make([]memEntry, 0, len(n.children))
	for name, c := range n.children {
		entries = append(entries, memEntry{uri + "/" + name, c, c.obj, len(c.children) > 0})
	}
	m.mu.RUnlock()
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			yield(Info{}, pathError("list", uri, err))
			return false
		}
		if e.obj != nil && !yield(Info{URI: e.uri, Size: int64(len(e.obj.data)), ModTime: e.obj.mtime}, nil) {
			return false
		}
		if !e.dir {
			continue
		}
		if deep && !m.walk(ctx, e.node, e.uri, deep, yield) {
			return false
		}
		if !deep && !yield(Info{URI: e.uri, Dir: true}, nil) {
			return false
		}
	}
	return true
}

// memOpen is an open object.
type memOpen struct {
	uri  string
	data []byte
}

func (o *memOpen) Size() int64  { return int64(len(o.data)) }
func (o *memOpen) Close() error { return nil }

func (o *memOpen) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("read", o.uri, fmt.Errorf("%w: offset %d", fs.ErrInvalid, off))
	}
	if off >= o.Size() {
		return 0, io.EOF
	}
	n := copy(p, o.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *memOpen) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	return newAtReader(ctx, o, o.uri, off)
}

// memWriter collects what becomes an object at Commit.
type memWriter struct {
	m         *Memory
	ctx       context.Context
	uri       string
	overwrite bool
	data      []byte
	closed    bool
}

func (w *memWriter) usable(op string) error {
	if w.closed {
		return pathError(op, w.uri, fs.ErrClosed)
	}
	return pathError(op, w.uri, w.ctx.Err())
}

func (w *memWriter) Write(p []byte) (int, error) {
	if err := w.usable("write"); err != nil {
		return 0, err
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

func (w *memWriter) Commit() error {
	if err := w.usable("commit"); err != nil {
		return err
	}
	data := slices.Clip(w.data)
	w.Abort()
	return pathError("commit", w.uri, w.m.put(w.uri, &memObject{data: data, mtime: time.Now()}, w.overwrite))
}

func (w *memWriter) Abort() { w.data, w.closed = nil, true }
