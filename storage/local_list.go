package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// listChunk is how many names of one directory are held at a time.
const listChunk = 256

// readDirChunks yields the entries of a directory, unsorted, a chunk in memory
// at a time. After an error it ends.
func readDirChunks(ctx context.Context, dir string) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		d, err := os.Open(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		defer d.Close()
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			entries, err := d.ReadDir(listChunk)
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// List implements FS. It holds one chunk of names for each level of
// directories. What vanishes while it runs is left out.
func (l *Local) List(ctx context.Context, dir string) iter.Seq2[Info, error] {
	return l.entries(ctx, dir, true)
}

// ReadDir implements FS.
func (l *Local) ReadDir(ctx context.Context, dir string) iter.Seq2[Info, error] {
	return l.entries(ctx, dir, false)
}

func (l *Local) entries(ctx context.Context, dir string, deep bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		path, err := l.begin(ctx, dir)
		if err == nil {
			var fi fs.FileInfo
			// Look first, as opening a pipe would block.
			if fi, err = os.Stat(path); err == nil && !fi.IsDir() {
				err = errNotDir
			}
		}
		if err != nil {
			yield(Info{}, pathError("list", dir, missing(err)))
			return
		}
		w := &walk{ctx: ctx, deep: deep, yield: yield}
		w.dir(path, strings.TrimSuffix(dir, "/"), true)
	}
}

// walk is one run through a tree.
type walk struct {
	ctx   context.Context
	deep  bool
	yield func(Info, error) bool
}

// dir yields what is in path, whose URI is uri; false to stop.
func (w *walk) dir(path, uri string, top bool) bool {
	for e, err := range readDirChunks(w.ctx, path) {
		if err != nil {
			if !top && errors.Is(missing(err), fs.ErrNotExist) {
				return true
			}
			w.yield(Info{}, pathError("list", uri, missing(err)))
			return false
		}
		name := e.Name()
		if isTemp(name) {
			continue
		}
		if !w.entry(filepath.Join(path, name), uri+"/"+name, e) {
			return false
		}
	}
	return true
}

func (w *walk) entry(path, uri string, e fs.DirEntry) bool {
	if e.IsDir() && w.deep {
		return w.dir(path, uri, false)
	}
	fi, err := e.Info()
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		fi, err = os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return true // leads nowhere, or round in a circle
		}
	}
	switch {
	case errors.Is(missing(err), fs.ErrNotExist):
		return true
	case err != nil:
		w.yield(Info{}, pathError("list", uri, err))
		return false
	case fi.IsDir() && w.deep, !fi.IsDir() && !fi.Mode().IsRegular():
		return true
	}
	return w.yield(localInfo(uri, fi), nil)
}
