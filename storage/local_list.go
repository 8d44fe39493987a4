package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// listChunk is how many names of one directory are held at a time.
const listChunk = 512

// lookChunk is how many of them one goroutine looks at.
const lookChunk = 32

// seenEntry is an entry that was looked at.
type seenEntry struct {
	fs.DirEntry
	info fs.FileInfo
	err  error
}

// Info implements fs.DirEntry.
func (e seenEntry) Info() (fs.FileInfo, error) { return e.info, e.err }

// look looks at the files of a chunk, many at a time: one after the other is slow on a
// network file system, and leaves all processors but one idle on a disk.
func look(entries []fs.DirEntry) {
	var wg sync.WaitGroup
	for part := range slices.Chunk(entries, lookChunk) {
		wg.Go(func() {
			for i, e := range part {
				if !e.IsDir() {
					info, err := e.Info()
					part[i] = seenEntry{e, info, err}
				}
			}
		})
	}
	wg.Wait()
}

// readDirChunks yields the entries of a directory, unsorted, a chunk in memory
// at a time. With infos the files were looked at. After an error it ends.
func readDirChunks(ctx context.Context, dir string, infos bool) iter.Seq2[fs.DirEntry, error] {
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
			if infos {
				look(entries)
			}
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
// directories. What is deleted while it runs is left out.
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
	for e, err := range readDirChunks(w.ctx, path, true) {
		if err != nil {
			err = missing(err)
			if !top {
				if err = unlessDeleted(path, err); err == nil {
					return true
				}
			}
			w.yield(Info{}, pathError("list", uri, err))
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

// unlessDeleted is nil if a directory could not be listed as it was deleted. What is still there
// on a second look, as on a network file system that lost it for a moment, was not listed.
func unlessDeleted(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, again := os.Lstat(path); !errors.Is(again, fs.ErrNotExist) {
		return errors.New("was not found, and is there: " + bareError(err).Error())
	}
	return nil
}

func (w *walk) entry(path, uri string, e fs.DirEntry) bool {
	if e.IsDir() && w.deep {
		return w.dir(path, uri, false)
	}
	fi, err := e.Info()
	if errors.Is(missing(err), fs.ErrNotExist) {
		return true
	}
	link := err == nil && fi.Mode()&fs.ModeSymlink != 0
	if link {
		fi, err = os.Stat(path)
		if errors.Is(missing(err), fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
			return w.yield(Info{URI: uri, Dir: true, Link: true}, nil)
		}
	}
	switch {
	case err != nil:
		w.yield(Info{}, pathError("list", uri, err))
		return false
	case fi.IsDir() && w.deep && !link, !fi.IsDir() && !fi.Mode().IsRegular():
		return true
	}
	info := localInfo(uri, fi)
	info.Link = link
	return w.yield(info, nil)
}

// Resolve implements Resolver.
func (l *Local) Resolve(ctx context.Context, uri string) (string, error) {
	path, err := l.begin(ctx, uri)
	var real string
	if err == nil {
		real, err = resolve(path, mostLinks)
	}
	switch {
	case err != nil:
		return "", pathError("resolve", uri, err)
	case real == path:
		return uri, nil
	}
	slashed := filepath.ToSlash(real)
	if hasDrive(slashed) {
		slashed = "/" + slashed
	}
	if Scheme(uri) == "" {
		return slashed, nil
	}
	return "file:" + slashed, nil
}

// mostLinks is how many links that lead nowhere may lead to each other.
const mostLinks = 40

// resolve follows the links in a path as far as it exists.
func resolve(path string, links int) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(missing(err), fs.ErrNotExist) || links == 0 {
		return real, err
	}
	up := filepath.Dir(path)
	if up == path {
		return "", err
	}
	if up, err = resolve(up, links); err != nil {
		return "", err
	}
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return filepath.Join(up, filepath.Base(path)), nil
	case filepath.IsAbs(target):
		return resolve(filepath.Clean(target), links-1)
	}
	return resolve(filepath.Join(up, target), links-1)
}
