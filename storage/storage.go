package storage

import (
	"context"
	"io"
	"iter"
	"time"
)

// FS is a place that holds objects by URI. Names are absolute URIs as they
// stand in Flink's metadata (see [Clean]); they are opaque text, so "%20" in a
// name is three characters. All methods may be called concurrently.
//
// An implementation guarantees:
//   - an object that Open, Stat or List shows is whole: a writer that did not
//     commit, or whose process died, leaves nothing visible;
//   - an object that was committed is seen by every later call, in this process and in others;
//   - errors unwrap to [io/fs.ErrNotExist], [io/fs.ErrExist] or
//     [io/fs.ErrPermission] where they mean that, and name the URI;
//   - a call whose context is cancelled returns soon with the context's error.
//
// It guarantees no order of List or ReadDir.
type FS interface {
	// Open opens an object for reading. A directory is an error that
	// unwraps to [ErrIsDir].
	Open(ctx context.Context, uri string) (Object, error)

	// Create starts a new object that becomes visible at Commit, with the
	// directories above it. Without o.Overwrite, an object that is there
	// already makes Create or Commit fail with [io/fs.ErrExist], and stays as it is.
	Create(ctx context.Context, uri string, o CreateOptions) (Writer, error)

	// Stat describes an object. A directory gives Info.Dir on stores that
	// have directories; on S3 a prefix that holds objects is a directory.
	Stat(ctx context.Context, uri string) (Info, error)

	// List yields every object below dir, at any depth, directories not
	// included. Symbolic links to directories are, with Info.Dir and Info.Link, as it does
	// not descend into them. It matches whole path segments: chk-1 does not list chk-10.
	// A dir that is not there yields nothing on S3, and an error that unwraps
	// to [io/fs.ErrNotExist] where directories exist. After an error the
	// sequence ends.
	List(ctx context.Context, dir string) iter.Seq2[Info, error]

	// ReadDir yields the objects and the directories directly in dir,
	// without looking below them.
	ReadDir(ctx context.Context, dir string) iter.Seq2[Info, error]

	// Copy copies an object inside the store, on the store's side where it
	// can. Like Create without Overwrite it never replaces: an object at dst
	// is an error that unwraps to [io/fs.ErrExist] (see [CopyOptions] of the
	// implementations for stores that cannot check it atomically).
	Copy(ctx context.Context, src, dst string) error

	// Delete deletes objects. A missing one is no error. It goes on after a
	// failure and returns the joined errors, each a [*DeleteError]; where ctx
	// ends, one for each object that it did not get to.
	Delete(ctx context.Context, uris ...string) error
}

// Object is an open object of fixed size. ReadAt may be called concurrently.
type Object interface {
	io.ReaderAt
	io.Closer
	// Size is the object's length in bytes.
	Size() int64
	// Reader reads the object from offset off to its end as one stream,
	// which is cheaper than many ReadAt calls on a remote store.
	Reader(ctx context.Context, off int64) (io.ReadCloser, error)
}

// Writer writes one object. `defer w.Abort()` is always right: Abort after a
// successful Commit does nothing. A Writer is for one goroutine.
type Writer interface {
	io.Writer
	// Commit makes the object durable and visible. After an error the object
	// is not visible, unless the error unwraps to [io/fs.ErrExist], when another one is.
	Commit() error
	// Abort forgets what was written.
	Abort()
}

// Info describes an object or a directory.
type Info struct {
	// URI names it, in the spelling of the call that returned it: the URI given
	// to Stat, or the directory given to List or ReadDir with the rest of the name.
	URI string
	// Size in bytes; 0 for a directory.
	Size int64
	// ModTime is when it was written; zero where the store does not say.
	ModTime time.Time
	// Dir says that it is a directory.
	Dir bool
	// Link says that List or ReadDir met a symbolic link, to a directory if Dir is set; the other fields
	// describe what it leads to. Stat does not set it.
	Link bool
}

// CreateOptions are the options of FS.Create; the zero value is the default.
type CreateOptions struct {
	// Overwrite replaces an object that is there, atomically.
	Overwrite bool
	// Size is the length in bytes if known, as a hint; 0 means unknown.
	Size int64
}

// Linker is implemented by a store that can give one object two names
// without copying it. Link fails with [errors.ErrUnsupported] where the two places don't allow it.
type Linker interface {
	Link(ctx context.Context, src, dst string) error
}

// Resolver is implemented by a store that has symbolic links.
type Resolver interface {
	// Resolve gives the place that uri leads to when every link in it is followed. What does not
	// exist is resolved as far as it does.
	Resolve(ctx context.Context, uri string) (string, error)
}

// Cleaner is implemented by a store in which a writer that died leaves
// something invisible behind (a temporary file, an unfinished multipart upload).
type Cleaner interface {
	// Clean removes what dead writers of exactly these URIs left. A writer
	// that is still at work is left alone where the store can tell, and
	// otherwise fails at its Commit.
	Clean(ctx context.Context, uris ...string) (removed int, err error)
}

// Pruner is implemented by a store in which directories stay when the last
// object in them is deleted.
type Pruner interface {
	// Prune removes those of the directories in which nothing is, not even
	// another directory; on S3 a directory is the zero-byte object that some
	// tools put in its place. One that is not empty or not there is left
	// alone and is no error. Name the deeper ones first.
	Prune(ctx context.Context, dirs ...string) (removed int, err error)
}

// Keeper is implemented by a store that keeps copies of objects on local disk
// beside where they are written to.
type Keeper interface {
	// Keep says that the local file path has the bytes of the object uri and
	// will never change, so that the store may make a hard link of it instead
	// of a copy of its own. The file stays the caller's, who may remove it once
	// Keep has returned. Called before the object is created through the store, it saves the
	// store from copying the bytes as they pass. It never fails: what can't be kept is logged and left out.
	Keep(ctx context.Context, uri, path string)
}

// Locator is implemented by a store that has copies of objects on local disk.
type Locator interface {
	// Locate gives the path of a local file with the bytes of the object, found
	// good by what the store knows of it, or false if there is none. The caller
	// may read it or make a hard link of it, and must not change or remove it.
	Locate(ctx context.Context, uri string) (path string, ok bool)
}
