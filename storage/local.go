package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// LocalOptions are the options of [NewLocal]; the zero value is the default.
type LocalOptions struct {
	// NoSync leaves out every fsync: much faster on small files, but an
	// object that was committed may be lost or empty after a power failure.
	NoSync bool
}

// Local is the [FS] of the files of this machine. It reads the URIs file:/a,
// file:///a, file://localhost/a and plain absolute paths. It also implements
// [Linker], [Cleaner], [Pruner] and [Resolver].
//
// A symbolic link to a regular file is an object. A symbolic link to a
// directory can be named in a URI. List and ReadDir show one that they meet, but
// List does not descend into it, so that it ends and shows no file twice. They show
// one that leads nowhere, or in a circle, as one to a directory: it may be on a file system that is not mounted.
// Devices, pipes and sockets are never shown.
//
// An object that is being written lies beside its place under a hidden name
// (see [Local.Clean]), which no method shows. Where neither hard links nor an
// exclusive rename exist (some network and FUSE file systems), two processes
// that create one object at the same moment may both succeed; the object is
// whole all the same.
type Local struct {
	noSync bool
	dirs   sync.Mutex // held while directories are made, so that nobody uses one that is not durable yet
}

var (
	_ FS       = (*Local)(nil)
	_ Linker   = (*Local)(nil)
	_ Cleaner  = (*Local)(nil)
	_ Pruner   = (*Local)(nil)
	_ Resolver = (*Local)(nil)
)

// NewLocal makes the FS of local files.
func NewLocal(o LocalOptions) *Local { return &Local{noSync: o.NoSync} }

// path gives the path that uri names on this system.
func (l *Local) path(uri string) (string, error) {
	scheme, authority, path := Split(uri)
	switch {
	case scheme != "" && !strings.EqualFold(scheme, "file"):
		return "", fmt.Errorf("%w: %q is not a local file", ErrScheme, scheme)
	case authority != "" && !strings.EqualFold(authority, "localhost"):
		return "", fmt.Errorf("%w: the file is on host %q; mount it and give its local path", ErrScheme, authority)
	case strings.IndexByte(path, 0) >= 0:
		return "", fmt.Errorf("%w: a zero byte in the name", fs.ErrInvalid)
	}
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
		if !hasDrive(path) {
			return "", fmt.Errorf("%w: not an absolute path with a drive", fs.ErrInvalid)
		}
	} else if hasDrive(path) {
		return "", fmt.Errorf("%w: a Windows path; map it to a directory of this machine", fs.ErrInvalid)
	} else if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%w: not an absolute path", fs.ErrInvalid)
	}
	return filepath.Clean(filepath.FromSlash(path)), nil
}

// begin is what every method starts with.
func (l *Local) begin(ctx context.Context, uri string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return l.path(uri)
}

// pathError names op and uri in err in place of whatever names the system put there.
func pathError(op, uri string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: uri, Err: bareError(err)}
}

// bareError takes off err the names that the os package put there.
func bareError(err error) error {
	for {
		switch e := err.(type) {
		case *fs.PathError:
			err = e.Err
		case *os.LinkError:
			err = e.Err
		case *os.SyscallError:
			err = e.Err
		default:
			return err
		}
	}
}

// missing adds fs.ErrNotExist to the error for a path that goes through a
// file, as the object or directory is certainly not there.
func missing(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w (%w)", fs.ErrNotExist, syscall.ENOTDIR)
	}
	return err
}

// Open implements FS.
func (l *Local) Open(ctx context.Context, uri string) (Object, error) {
	o, err := l.open(ctx, uri)
	if err != nil {
		return nil, pathError("open", uri, missing(err))
	}
	return o, nil
}

func (l *Local) open(ctx context.Context, uri string) (*localObject, error) {
	path, err := l.begin(ctx, uri)
	if err != nil {
		return nil, err
	}
	if isTemp(filepath.Base(path)) {
		return nil, fs.ErrNotExist
	}
	// Look before opening: to open a pipe would block.
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(fi); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	fi, err = f.Stat()
	if err == nil {
		err = regular(fi)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &localObject{uri: uri, f: f, size: fi.Size()}, nil
}

func regular(fi fs.FileInfo) error {
	switch {
	case fi.IsDir():
		return ErrIsDir
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file (%s)", fs.ErrInvalid, fi.Mode().Type())
	}
	return nil
}

// Stat implements FS.
func (l *Local) Stat(ctx context.Context, uri string) (Info, error) {
	path, err := l.begin(ctx, uri)
	if err == nil && isTemp(filepath.Base(path)) {
		err = fs.ErrNotExist
	}
	var fi fs.FileInfo
	if err == nil {
		fi, err = os.Stat(path)
	}
	if err == nil && !fi.IsDir() {
		err = regular(fi)
	}
	if err != nil {
		return Info{}, pathError("stat", uri, missing(err))
	}
	return localInfo(uri, fi), nil
}

func localInfo(uri string, fi fs.FileInfo) Info {
	if fi.IsDir() {
		return Info{URI: uri, ModTime: fi.ModTime(), Dir: true}
	}
	return Info{URI: uri, Size: fi.Size(), ModTime: fi.ModTime()}
}

// Copy implements FS. Where the file system can, the copy shares the blocks of
// its source.
func (l *Local) Copy(ctx context.Context, src, dst string) error {
	in, err := l.open(ctx, src)
	if err != nil {
		return pathError("copy", src, missing(err))
	}
	defer in.Close()
	w, err := l.Create(ctx, dst, CreateOptions{Size: in.size})
	if err != nil {
		return err
	}
	defer w.Abort()
	out := w.(*localWriter)
	if err := out.fill(in); err != nil {
		return pathError("copy", src, fmt.Errorf("to %s: %w", dst, bareError(err)))
	}
	return w.Commit()
}

// Link implements Linker by hard links.
func (l *Local) Link(ctx context.Context, src, dst string) error {
	from, err := l.begin(ctx, src)
	if err != nil {
		return pathError("link", src, err)
	}
	to, err := l.begin(ctx, dst)
	if err == nil && isTemp(filepath.Base(to)) {
		err = errTempName
	}
	if err != nil {
		return pathError("link", dst, err)
	}
	// The file is linked, not a symbolic link to it.
	from, err = filepath.EvalSymlinks(from)
	var fi fs.FileInfo
	if err == nil {
		fi, err = os.Stat(from)
	}
	if err == nil {
		err = regular(fi)
	}
	if err != nil {
		return pathError("link", src, missing(err))
	}
	if err := l.mkdirAll(filepath.Dir(to)); err != nil {
		return pathError("link", dst, err)
	}
	err = os.Link(from, to)
	if err == nil {
		return pathError("link", dst, l.syncDir(filepath.Dir(to)))
	}
	if noHardLinks(err) || errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EMLINK) {
		err = fmt.Errorf("%w (%w)", errors.ErrUnsupported, bareError(err))
	}
	return pathError("link", dst, err)
}

// noHardLinks says that link(2) failed because the file system has no hard links.
func noHardLinks(err error) bool {
	for _, e := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EMLINK} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Delete implements FS. Directories are never deleted; see [Local.Prune].
func (l *Local) Delete(ctx context.Context, uris ...string) error {
	var errs []error
	changed := map[string]string{} // directory -> a URI in it
	for _, uri := range uris {
		if err := ctx.Err(); err != nil {
			errs = append(errs, &DeleteError{URI: uri, Err: err})
			continue
		}
		path, err := l.path(uri)
		if err == nil {
			err = deleteFile(path)
		}
		switch {
		case err == nil:
			changed[filepath.Dir(path)] = uri
		case !errors.Is(missing(err), fs.ErrNotExist):
			errs = append(errs, &DeleteError{URI: uri, Err: bareError(err)})
		}
	}
	for dir, uri := range changed {
		if err := l.syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, &DeleteError{URI: uri, Err: fmt.Errorf("sync directory: %w", bareError(err))})
		}
	}
	return errors.Join(errs...)
}

func deleteFile(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return ErrIsDir
	case isTemp(filepath.Base(path)):
		return fs.ErrNotExist
	}
	return os.Remove(path)
}

// Prune implements Pruner. What Clean would remove keeps a directory.
func (l *Local) Prune(ctx context.Context, dirs ...string) (removed int, err error) {
	var errs []error
	for _, dir := range dirs {
		path, err := l.begin(ctx, dir)
		if err == nil {
			err = pruneDir(path)
		}
		switch {
		case err == nil:
			removed++
		case ctx.Err() != nil:
			return removed, errors.Join(append(errs, pathError("prune", dir, err))...)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
		default:
			errs = append(errs, pathError("prune", dir, err))
		}
	}
	return removed, errors.Join(errs...)
}

func pruneDir(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return missing(err)
	}
	if !fi.IsDir() {
		return fs.ErrNotExist
	}
	return os.Remove(path)
}

// localObject is an open file.
type localObject struct {
	uri  string
	f    *os.File
	size int64
}

func (o *localObject) Size() int64 { return o.size }

func (o *localObject) Close() error { return pathError("close", o.uri, o.f.Close()) }

func (o *localObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := io.NewSectionReader(o.f, 0, o.size).ReadAt(p, off)
	if err == io.EOF && off+int64(n) < o.size {
		err = fmt.Errorf("%w: the file became shorter", io.ErrUnexpectedEOF)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, pathError("read", o.uri, err)
}

func (o *localObject) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	return newAtReader(ctx, o, o.uri, off)
}

// atReader streams an object whose ReadAt is cheap.
type atReader struct {
	ctx context.Context
	o   Object
	uri string
	off int64
}

func newAtReader(ctx context.Context, o Object, uri string, off int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, pathError("read", uri, err)
	}
	if off < 0 || off > o.Size() {
		return nil, pathError("read", uri, fmt.Errorf("%w: offset %d of %d", fs.ErrInvalid, off, o.Size()))
	}
	return &atReader{ctx: ctx, o: o, uri: uri, off: off}, nil
}

func (r *atReader) Read(p []byte) (int, error) {
	if r.o == nil {
		return 0, pathError("read", r.uri, fs.ErrClosed)
	}
	if err := r.ctx.Err(); err != nil {
		return 0, pathError("read", r.uri, err)
	}
	left := r.o.Size() - r.off
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := r.o.ReadAt(p[:min(int64(len(p)), left)], r.off)
	r.off += int64(n)
	if err == io.EOF && n > 0 {
		err = nil
	}
	return n, err
}

func (r *atReader) Close() error {
	r.o = nil
	return nil
}

// copyChunk is how much is copied between two looks at the context.
const copyChunk = 16 << 20

// fill copies all of in to w, in the kernel where it can.
func (w *localWriter) fill(in *localObject) error {
	if _, err := in.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var done int64
	for done < in.size {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		// io.CopyN of one *os.File to another uses copy_file_range.
		n, err := io.CopyN(w.f, in.f, min(copyChunk, in.size-done))
		done += n
		if err == io.EOF {
			return fmt.Errorf("%w: the file became shorter", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// localWriter writes a temporary file that Commit gives its name.
type localWriter struct {
	l         *Local
	ctx       context.Context
	uri       string
	path, tmp string
	overwrite bool
	f         *os.File
	buf       *bufio.Writer
	err       error // why it is of no use any more
}
