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
		return &localWriter{
			l: l, ctx: ctx, uri: uri, path: path, tmp: tmp, overwrite: o.Overwrite,
			f: f, buf: bufio.NewWriterSize(f, 64<<10),
		}, nil
	}
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
		err = w.f.Close() // some network file systems report a full disk only here
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

// Clean implements Cleaner: it removes the files .NAME.drey-XXXXXXXX.tmp of
// exactly the names given.
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
	for e, err := range readDirChunks(ctx, dir) {
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
		switch err := os.Remove(filepath.Join(dir, e.Name())); {
		case err == nil:
			removed++
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, pathError("clean", uri, err))
		}
	}
	return removed, errors.Join(errs...)
}
