package localrecovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/drey-state/drey/storage"
)

// The names of directories below a root, as Flink's TaskExecutorLocalStateStoresManager and
// LocalRecoveryDirectoryProviderImpl give them, and of the files in one of a checkpoint. FORMAT.md describes them.
const (
	allocationPrefix = "aid_"
	jobPrefix        = "jid_"
	vertexPrefix     = "vtx_"
	subtaskMark      = "_sti_"
	checkpointPrefix = "chk_"

	lockName  = ".lock"
	indexName = "index"
	indexTemp = "index.tmp"
)

// idMax is how many bytes the id of an allocation, job or vertex may have.
const idMax = 100

// validID says that an id can be a part of a directory's name and be told from the rest of it.
func validID(id string) bool {
	if id == "" || len(id) > idMax {
		return false
	}
	for _, c := range []byte(id) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-') {
			return false
		}
	}
	return true
}

// parseNumber reads what strconv writes for a number that is not negative, and nothing else.
func parseNumber(s string, bits int) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, bits)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// parseID gives the id behind a prefix in a directory's name.
func parseID(name, prefix string) (string, bool) {
	id, ok := strings.CutPrefix(name, prefix)
	return id, ok && validID(id)
}

// parseSubtask reads the name vtx_VERTEX_sti_N.
func parseSubtask(name string) (vertex string, subtask int, ok bool) {
	rest, ok := strings.CutPrefix(name, vertexPrefix)
	vertex, number, found := strings.Cut(rest, subtaskMark)
	n, isNumber := parseNumber(number, 32)
	return vertex, int(n), ok && found && isNumber && validID(vertex)
}

// dir is the directory of a task below a root.
func (id TaskID) dir() string {
	d := path.Join(jobPrefix+id.Job, vertexPrefix+id.Vertex+subtaskMark+strconv.Itoa(id.Subtask))
	if id.Allocation != "" {
		d = path.Join(allocationPrefix+id.Allocation, d)
	}
	return d
}

// root is a root directory. Names in it are relative to it, with slashes; none leads out of it.
type root struct {
	dir  string // absolute, without symbolic links
	r    *os.Root
	lock *os.File // held while the store is open; nil where there are no locks

	// dirs is held while directories are made and removed, so that none is removed above one that is being made.
	dirs sync.Mutex
	left map[string]bool // directories that are to go and could not be removed yet; by dirs

	// fault is asked before each step; tests set it.
	fault func(op, name string) error
}

// localPath gives the path of this machine that a configured directory means. A path without a scheme is
// local whatever other stores there are.
func localPath(dir string) (string, error) {
	scheme, authority, p := storage.Split(dir)
	switch {
	case scheme != "" && !strings.EqualFold(scheme, "file"):
		return "", fmt.Errorf("%w: copies are kept on local disk, not in %q; give a local path", storage.ErrScheme, scheme)
	case authority != "" && !strings.EqualFold(authority, "localhost"):
		return "", fmt.Errorf("%w: the directory is on host %q; mount it and give its local path", storage.ErrScheme, authority)
	}
	if scheme == "" {
		p = dir
	}
	if p = filepath.FromSlash(p); !filepath.IsAbs(p) {
		return "", fmt.Errorf("%w: not an absolute path", fs.ErrInvalid)
	}
	return filepath.Clean(p), nil
}

// openRoot makes a root directory if need be, and takes its lock.
func openRoot(name string) (*root, error) {
	dir, err := localPath(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockRoot(r)
	if errors.Is(err, ErrInUse) {
		return nil, errors.Join(err, r.Close())
	}
	// Without a lock, as on a read-only file system, the store does its work all the same.
	return &root{dir: dir, r: r, lock: lock, left: map[string]bool{}}, nil
}

func (r *root) close() error {
	err := r.r.Close()
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

// step does one thing on disk.
func (r *root) step(op, name string, work func() error) error {
	if r.fault != nil {
		if err := r.fault(op, name); err != nil {
			return err
		}
	}
	return work()
}

// path is the absolute path of a name.
func (r *root) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// makeDir makes a directory with those above it, or nothing. What was left in its place goes.
func (r *root) makeDir(dir string) error {
	r.dirs.Lock()
	defer r.dirs.Unlock()
	return r.step("mkdir", dir, func() error {
		err := r.r.MkdirAll(path.Dir(dir), 0o777)
		if err == nil {
			err = r.r.Mkdir(dir, 0o777)
		}
		if errors.Is(err, fs.ErrExist) {
			if err = r.removeTree(dir); err == nil {
				err = r.r.Mkdir(dir, 0o777)
			}
		}
		if err != nil {
			r.pruneLocked(path.Dir(dir))
			return err
		}
		delete(r.left, dir)
		return nil
	})
}

func (r *root) create(name string) (f *os.File, err error) {
	err = r.step("create", name, func() error {
		f, err = r.r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	return f, err
}

// link gives the file from, an absolute path anywhere on this machine, one more name.
func (r *root) link(from, name string) error {
	return r.step("link", name, func() error { return os.Link(from, r.path(name)) })
}

func (r *root) removeFile(name string) error {
	return r.step("remove", name, func() error { return r.r.Remove(name) })
}

// check says what is wrong with a file that should be a regular one of this size.
func (r *root) check(name string, size int64) error {
	fi, err := r.r.Lstat(name)
	switch {
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file (%s)", errDamaged, fi.Mode().Type())
	case fi.Size() != size:
		return fmt.Errorf("%w: it has %d bytes and should have %d", errDamaged, fi.Size(), size)
	}
	return nil
}

// open opens a file to read if it is a regular one of this size.
func (r *root) open(name string, size int64) (f *os.File, err error) {
	err = r.step("open", name, func() error {
		// Look before opening: to open a pipe would block.
		if err := r.check(name, size); err != nil {
			return err
		}
		f, err = r.r.Open(name)
		return err
	})
	return f, err
}

// entries gives what is directly in a directory.
func (r *root) entries(dir string) ([]fs.DirEntry, error) {
	f, err := r.r.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// remove removes a directory and those above it that it leaves empty. What could not be
// removed is tried again at the next call.
func (r *root) remove(dir string) error {
	r.dirs.Lock()
	defer r.dirs.Unlock()
	r.left[dir] = true
	var errs []error
	for d := range r.left {
		if err := r.removeTree(d); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(r.left, d)
		r.pruneLocked(path.Dir(d))
	}
	return errors.Join(errs...)
}

// removeTree removes a directory, its index first: it is no copy any more, whatever happens to the rest.
func (r *root) removeTree(dir string) error {
	fi, err := r.r.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s: %w: not a directory (%s)", r.path(dir), fs.ErrInvalid, fi.Mode().Type())
	}
	if err != nil {
		return err
	}
	if err := r.removeFile(path.Join(dir, indexName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.removeFiles(dir, func(string) bool { return true }); err != nil {
		return err
	}
	return r.removeFile(dir)
}

// removeFiles removes those of the files that a copy has in its directory, and nothing else.
func (r *root) removeFiles(dir string, which func(name string) bool) error {
	entries, err := r.entries(dir)
	for _, e := range entries {
		if ownFile(e) && which(e.Name()) {
			err = errors.Join(err, r.removeFile(path.Join(dir, e.Name())))
		}
	}
	return err
}

// ownFile says that an entry of a copy's directory is named as a copy names its files.
func ownFile(e fs.DirEntry) bool {
	_, number := parseNumber(e.Name(), 32)
	return !e.IsDir() && (number || e.Name() == indexName || e.Name() == indexTemp)
}

// prune removes a directory and those above it, below the root, as far as they are empty.
func (r *root) prune(dir string) {
	r.dirs.Lock()
	defer r.dirs.Unlock()
	r.pruneLocked(dir)
}

// pruneLocked is prune; r.dirs is held.
func (r *root) pruneLocked(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if err := r.removeFile(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}
