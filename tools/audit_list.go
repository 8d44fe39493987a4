package tools

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

const (
	// batch is how many files of a listing are taken up at a time.
	batch = 512
	// mostSiblings is how many directories without a meaning beside each other
	// are listed one by one; more are the work of entropy injection, and
	// cheaper to list from above.
	mostSiblings = 256
	// mostDecoders bounds the metadata files in memory.
	mostDecoders = 4
)

// work is the directories that are to be listed. Those that can hold
// snapshots come first, so that most of what follows is known to be in use when it is seen.
type work struct {
	mu      sync.Mutex
	changed sync.Cond
	first   []string
	later   []string
	active  int
	ended   bool
}

func newWork() *work {
	w := &work{}
	w.changed.L = &w.mu
	return w
}

func (w *work) push(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch storage.Base(dir) {
	case "shared", "taskowned", "dstl":
		w.later = append(w.later, dir)
	default:
		w.first = append(w.first, dir)
	}
	w.changed.Signal()
}

// pop waits for a directory; false if there will be none.
func (w *work) pop() (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.first)+len(w.later) == 0 && w.active > 0 && !w.ended {
		w.changed.Wait()
	}
	list := &w.first
	if len(*list) == 0 {
		list = &w.later
	}
	if len(*list) == 0 || w.ended {
		w.ended = true
		w.changed.Broadcast()
		return "", false
	}
	last := len(*list) - 1
	dir := (*list)[last]
	*list = (*list)[:last]
	w.active++
	return dir, true
}

func (w *work) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	w.changed.Broadcast()
}

func (w *work) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.changed.Broadcast()
}

// list goes through the roots and takes up all files and snapshots.
func (a *audit) list(ctx context.Context) error {
	w := newWork()
	for _, r := range a.report.Roots {
		w.push(r)
	}
	a.decoders = make(chan struct{}, min(mostDecoders, runtime.GOMAXPROCS(0)))
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, w.stop)
	defer stop()
	for range a.jobs {
		g.Go(func() error {
			for {
				dir, ok := w.pop()
				if !ok {
					return ctx.Err()
				}
				err := a.visit(ctx, w, dir)
				w.done()
				if err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// visit lists one directory. Only a cancelled context ends it with an error.
func (a *audit) visit(ctx context.Context, w *work, dir string) error {
	var files []storage.Info
	var dirs []string
	entries, others := 0, 0
	complete := true
	for info, err := range a.fsys.ReadDir(ctx, dir) {
		if err != nil {
			complete = false
			a.unlisted(ctx, dir, err)
			break
		}
		entries++
		if info.Link {
			if err := a.noteLink(ctx, info); err != nil {
				return err
			}
		}
		switch {
		case info.Dir && info.Link:
			continue
		case info.Dir:
			dirs = append(dirs, info.URI)
			if !hasMeaning(storage.Base(info.URI)) {
				others++
			}
			if others > mostSiblings {
				return a.listBelow(ctx, dir, files)
			}
			continue
		}
		if files = append(files, info); len(files) == batch {
			if err := a.take(ctx, files); err != nil {
				return err
			}
			files = files[:0]
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if complete && entries == 0 && a.isRoot(dir) {
		a.unlisted(ctx, dir, errNothing)
	}
	a.noteDir(dir, complete && entries == 0)
	for _, d := range dirs {
		w.push(d)
	}
	return a.take(ctx, files)
}

// hasMeaning says that a directory of this name is Flink's.
func hasMeaning(name string) bool {
	_, checkpoint := incremental.CheckpointNumber(name)
	return checkpoint || jobIDPattern.MatchString(name) || oldSavepoint.MatchString(name) || mergedPattern.MatchString(name) || workingPattern.MatchString(name)
}

// listBelow lists everything below a directory at once. What was seen of it
// already may be taken up twice.
func (a *audit) listBelow(ctx context.Context, dir string, files []storage.Info) error {
	for info, err := range a.fsys.List(ctx, dir) {
		if err != nil {
			a.unlisted(ctx, dir, err)
			break
		}
		if info.Link {
			if err := a.noteLink(ctx, info); err != nil {
				return err
			}
		}
		if files = append(files, info); len(files) == batch {
			if err := a.take(ctx, files); err != nil {
				return err
			}
			files = files[:0]
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.take(ctx, files)
}

// errNothing is what is wrong with a root in which nothing is. On S3, a mistake in its path looks like that,
// and so does a file system that is not mounted.
var errNothing = errors.New("nothing is there")

// unlisted notes that a directory could not be listed, unless it is gone since its parent was read.
func (a *audit) unlisted(ctx context.Context, dir string, err error) {
	if errors.Is(err, fs.ErrNotExist) && !a.isRoot(dir) && a.gone(ctx, dir) {
		return
	}
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Unlisted = append(a.report.Unlisted, AuditFailure{URI: dir, Error: bareCause(err, dir), Cause: err})
}

// gone looks once more whether something that was not found is there.
func (a *audit) gone(ctx context.Context, uri string) bool {
	_, err := a.fsys.Stat(ctx, uri)
	return errors.Is(err, fs.ErrNotExist)
}

func (a *audit) isRoot(dir string) bool {
	for _, r := range a.report.Roots {
		if r == dir {
			return true
		}
	}
	return false
}

// noteDir remembers directories that mean something even if no file is in them.
func (a *audit) noteDir(dir string, empty bool) {
	key := a.registry.Key(dir)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen(key)
	if empty {
		a.report.EmptyDirs = append(a.report.EmptyDirs, dir)
	}
}

// seen learns from the name of a directory. a.mu is held.
func (a *audit) seen(key string) {
	name := storage.Base(key)
	if _, ok := incremental.CheckpointNumber(name); ok {
		a.layouts.jobs[storage.Dir(key)] = true
		a.dirs[key] = true
	} else if oldSavepoint.MatchString(name) || workingPattern.MatchString(name) {
		a.dirs[key] = true
	}
}

// take takes up files of a listing, and reads the metadata among them.
func (a *audit) take(ctx context.Context, files []storage.Info) error {
	var meta []storage.Info
	for _, f := range files {
		if !f.Dir && isMetadataName(storage.Base(f.URI)) {
			meta = append(meta, f)
		}
	}
	for _, m := range meta {
		if err := a.read(ctx, m); err != nil {
			return err
		}
	}
	ids := make([]incremental.FileID, len(files))
	known := make([]bool, len(files))
	finder := a.registry.Finder()
	for i, f := range files {
		ids[i], known[i] = finder.Find(f.URI)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, f := range files {
		switch {
		case f.Dir:
		case known[i]:
			a.find(ids[i], f.Size)
		default:
			a.hold(f)
		}
	}
	a.attend(files)
	a.objects += int64(len(files))
	if a.o.Progress != nil {
		a.o.Progress(a.objects)
	}
	return nil
}

// find notes that a file of a snapshot is there. a.mu is held.
func (a *audit) find(id incremental.FileID, size int64) {
	if int(id) >= len(a.found) {
		a.grow()
	}
	a.found[id] = size + 1
}

// grow makes room for what is found of all files of the registry. a.mu is held.
func (a *audit) grow() {
	if n := int(a.registry.Limit()); n > len(a.found) {
		grown := make([]int64, max(n, len(a.found)*5/4))
		copy(grown, a.found)
		a.found = grown
	}
}

// hold keeps a file of which no snapshot is known yet. a.mu is held.
func (a *audit) hold(f storage.Info) {
	if dir := a.held.add(f); dir != "" {
		for key := a.registry.Key(dir); ; {
			a.seen(key)
			up := storage.Dir(key)
			if up == key {
				break
			}
			key = up
		}
	}
}

// read decodes the metadata of a snapshot.
func (a *audit) read(ctx context.Context, f storage.Info) error {
	select {
	case a.decoders <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.decoders }()
	if _, ok := a.registry.FindSnapshot(f.URI); ok {
		return nil
	}
	data, err := storage.ReadAll(ctx, a.fsys, f.URI, maxMetadata)
	var s *metadata.Snapshot
	if err == nil {
		if s, err = metadata.Decode(data); err != nil {
			err = explain(data, err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist) && a.gone(ctx, f.URI):
		a.mu.Lock()
		a.report.Vanished++
		a.mu.Unlock()
		return nil
	}
	key := a.registry.Key(f.URI)
	var id incremental.SnapshotID
	if err == nil {
		if id, err = a.registry.Add(f.URI, s); errors.Is(err, incremental.ErrKnown) {
			return nil
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if storage.Base(key) == MetadataName {
		a.layouts.snapshots[storage.Dir(key)] = true
	}
	a.seen(storage.Dir(key))
	if err != nil {
		a.unreadable[key] = true
		a.report.Unreadable = append(a.report.Unreadable, AuditFailure{URI: f.URI, Error: bareCause(err, f.URI), ModTime: f.ModTime, Cause: err})
		return nil
	}
	info := AuditSnapshot{URI: f.URI, ID: id, CheckpointID: s.CheckpointID, Version: s.Version, Kind: s.Kind().String(), ModTime: f.ModTime, key: key, savepoint: s.Kind().Savepoint(), claimable: claimable(s), metadataSize: f.Size}
	a.report.Snapshots = append(a.report.Snapshots, info)
	return nil
}

// age of a file, never negative.
func age(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, now.Sub(t))
}
