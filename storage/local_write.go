package storage

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// A file that is being written is called
//
//	.NAME.drey-XXXXXXXX.tmp
//
// with eight random hexadecimal digits; of a NAME that would make this longer
// than a file's name can be, the beginning and a hash stand for all of it.
const (
	tempMark   = ".drey-"
	tempSuffix = ".tmp"
	tempRandom = 8
	nameMax    = 255 // bytes; NAME_MAX of the usual file systems
	nameKept   = nameMax - len(".") - len(tempMark) - tempRandom - len(tempSuffix)
)

// errLocked says that a writer is at work on a temporary file.
var errLocked = errors.New("locked")

var errTempName = fmt.Errorf("%w: the name is one that temporary files have", fs.ErrInvalid)

// isTemp says that name is that of a temporary file.
func isTemp(name string) bool {
	rest, ok := strings.CutSuffix(name, tempSuffix)
	if !ok || !strings.HasPrefix(rest, ".") || len(rest) < 1+len(tempMark)+tempRandom {
		return false
	}
	digits := rest[len(rest)-tempRandom:]
	if strings.Trim(digits, "0123456789abcdef") != "" {
		return false
	}
	return strings.HasSuffix(rest[:len(rest)-tempRandom], tempMark)
}

// tempPrefix is what stands before the random digits in the temporary names of name.
func tempPrefix(name string) string {
	if len(name) > nameKept {
		sum := sha256.Sum256([]byte(name))
		hash := "~" + hex.EncodeToString(sum[:8])
		cut := nameKept - len(hash)
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + hash
	}
	return "." + name + tempMark
}

// Create implements FS.
func (l *Local) Create(ctx context.Context, uri string, o CreateOptions) (Writer, error) {
	w, err := l.create(ctx, uri, o)
	if err != nil {
		return nil, pathError("create", uri, err)
	}
	return w, nil
}

func (l *Local) create(ctx context.Context, uri string, o CreateOptions) (*localWriter, error) {
	path, err := l.begin(ctx, uri)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Split(path)
	if name == "" {
		return nil, ErrIsDir
	}
	if isTemp(name) {
		return nil, errTempName
	}
	if fi, err := os.Lstat(path); err == nil {
		if !o.Overwrite {
			return nil, fs.ErrExist
		}
		if fi.IsDir() {
			return nil, ErrIsDir
		}
	}
	if err := l.mkdirAll(dir); err != nil {
		return nil, err
	}
	for {
		var r [tempRandom / 2]byte
		rand.Read(r[:])
		tmp := filepath.Join(dir, tempPrefix(name)+hex.EncodeToString(r[:])+tempSuffix)
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !claim(f, tmp) {
			f.Close()
			os.Remove(tmp)
			continue
		}
		return &localWriter{
			l: l, ctx: ctx, uri: uri, path: path, tmp: tmp, overwrite: o.Overwrite,
			f: f, buf: bufio.NewWriterSize(f, 64<<10),
		}, nil
	}
}

// claim locks a temporary file that was just made, so that Clean leaves it
// alone as long as the writer lives; false if Clean was faster. Where there are no
// locks it does nothing.
func claim(f *os.File, tmp string) bool {
	switch err := lockTemp(f); {
	case errors.Is(err, errLocked):
		return false
	case err != nil:
		return true
	}
	_, err := os.Lstat(tmp)
	return !errors.Is(err, fs.ErrNotExist)
}

// Write implements io.Writer. After an error the temporary file is gone.
func (w *localWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return 0, w.fail("write", w.err)
	}
	n, err := w.buf.Write(p)
	if err != nil {
		return n, w.fail("write", err)
	}
	return n, nil
}

// fail ends the writer because of err.
func (w *localWriter) fail(op string, err error) error {
	w.end(err)
	return pathError(op, w.uri, err)
}

// end closes and removes the temporary file. why is what later calls say.
func (w *localWriter) end(why error) {
	if w.err == nil {
		w.err = why
	}
	if w.f != nil {
		w.f.Close()
		os.Remove(w.tmp)
		w.f = nil
	}
}

// Abort implements Writer.
func (w *localWriter) Abort() { w.end(fs.ErrClosed) }

// Abandon leaves everything as the death of the process would: the temporary
// file stays, without its lock. It is for tests of crashes.
func (w *localWriter) Abandon() {
	w.err = fs.ErrClosed
	if w.f != nil {
		w.f.Close()
		w.f = nil
	}
}

// Commit implements Writer.
func (w *localWriter) Commit() error {
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return w.fail("commit", w.err)
	}
	err := w.buf.Flush()
	if err == nil && !w.l.noSync {
		err = w.f.Sync()
	}
	if err == nil {
		// Some network file systems report a full disk only when the file is
		// closed, so that this comes before it gets its name; a second
		// descriptor keeps the lock until then.
		if lock := keepLock(w.f); lock != nil {
			defer lock.Close()
		}
		err = w.f.Close()
	}
	if err == nil {
		err = w.publish()
	}
	if err != nil {
		return w.fail("commit", err)
	}
	w.f, w.err = nil, fs.ErrClosed
	return nil
}

// publish gives the finished temporary file its name.
func (w *localWriter) publish() error {
	if _, err := os.Lstat(w.tmp); errors.Is(err, fs.ErrNotExist) {
		return errors.New("the temporary file is gone: somebody cleaned up after this writer")
	}
	var err error
	if w.overwrite {
		err = os.Rename(w.tmp, w.path)
		if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EEXIST) {
			err = ErrIsDir
		}
	} else {
		err = publishNew(w.tmp, w.path)
	}
	if err != nil {
		return err
	}
	if err := w.l.syncDir(filepath.Dir(w.path)); err != nil {
		if !w.overwrite {
			os.Remove(w.path)
		}
		return fmt.Errorf("sync directory: %w", bareError(err))
	}
	return nil
}

// publishNew moves tmp to path unless something is there.
func publishNew(tmp, path string) error {
	err := os.Link(tmp, path)
	if err == nil {
		// A temporary name that stays behind is invisible and Clean finds it.
		os.Remove(tmp)
		return nil
	}
	if !noHardLinks(err) {
		return err
	}
	if err := renameNew(tmp, path); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return renameChecked(tmp, path)
}

// renameChecked is the last resort: look, then rename.
func renameChecked(tmp, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(tmp, path)
}

// mkdirAll makes dir and what is missing above it, durably.
func (l *Local) mkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	l.dirs.Lock()
	defer l.dirs.Unlock()
	var todo []string
	for d := dir; ; d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err == nil {
			if !fi.IsDir() {
				return &fs.PathError{Op: "mkdir", Path: d, Err: syscall.ENOTDIR}
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			return err
		}
		todo = append(todo, d)
	}
	for i := len(todo) - 1; i >= 0; i-- {
		err := os.Mkdir(todo[i], 0o777)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := l.syncDir(filepath.Dir(todo[i])); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in dir durable.
func (l *Local) syncDir(dir string) error {
	if l.noSync || runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system whose directories cannot be synced
	}
	return errors.Join(err, d.Close())
}

// tempAge is how long ago a temporary file must have been written to last to be a dead
// writer's where locks can't tell.
const tempAge = 24 * time.Hour

// Clean implements Cleaner: it removes the files .NAME.drey-XXXXXXXX.tmp of
// exactly the names given on which no writer holds its lock, which the system
// drops when the writer's process dies. Where the file system has no locks
// (flock), it removes those to which nothing was written for 24 hours. Where it has them for
// each machine on its own, the writer of another machine fails at its Commit.
func (l *Local) Clean(ctx context.Context, uris ...string) (removed int, err error) {
	names := map[string]map[string]string{} // directory -> name -> URI
	var order []string
	for _, uri := range uris {
		path, err := l.begin(ctx, uri)
		if err != nil {
			return 0, pathError("clean", uri, err)
		}
		dir, name := filepath.Split(path)
		if names[dir] == nil {
			names[dir] = map[string]string{}
			order = append(order, dir)
		}
		names[dir][tempPrefix(name)] = uri
	}
	var errs []error
	for _, dir := range order {
		n, err := cleanDir(ctx, dir, names[dir])
		removed += n
		if err != nil {
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

func cleanDir(ctx context.Context, dir string, prefixes map[string]string) (removed int, err error) {
	var errs []error
	for e, err := range readDirChunks(ctx, dir, false) {
		if err != nil {
			if !errors.Is(missing(err), fs.ErrNotExist) {
				for _, uri := range prefixes {
					return removed, pathError("clean", uri, err)
				}
			}
			break
		}
		if !isTemp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		uri, ok := prefixes[e.Name()[:len(e.Name())-tempRandom-len(tempSuffix)]]
		if !ok {
			continue
		}
		switch ok, err := cleanTemp(filepath.Join(dir, e.Name())); {
		case err == nil && ok:
			removed++
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, pathError("clean", uri, err))
		}
	}
	return removed, errors.Join(errs...)
}

// cleanTemp removes a temporary file unless its writer is at work.
func cleanTemp(tmp string) (removed bool, err error) {
	// The lock is held until the file is gone: a writer that has just made
	// the file and not yet locked it then takes another name.
	lock, err := lockDead(tmp)
	if lock != nil {
		defer lock.Close()
	}
	switch {
	case errors.Is(err, errLocked):
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, err
	case err != nil:
		fi, err := os.Lstat(tmp)
		if err != nil || time.Since(fi.ModTime()) < tempAge {
			return false, err
		}
	}
	err = os.Remove(tmp)
	if runtime.GOOS == "windows" && errors.Is(err, syscall.Errno(32)) { // ERROR_SHARING_VIOLATION
		return false, nil
	}
	return err == nil, err
}
