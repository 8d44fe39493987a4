package localrecovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"

	"github.com/drey-state/drey/storage"
)

// Restored is a [storage.FS] for the restore of one checkpoint by one task; see [Task.Restore]. A file of which there is no
// local copy, or whose copy is missing, of another size, damaged or can't be read, also in the middle, comes from the primary store; all else
// goes there, too. It implements [storage.Locator]. All methods may be called concurrently.
type Restored struct {
	forwarding
	s      *Store
	places []place

	mu       sync.Mutex
	verdicts map[verdictKey]error // of files that were compared with their checksums or found bad; nil is good
	told     bool                 // of a bad file; the log has the others at the level of debugging

	localFiles, remoteFiles, localBytes, remoteBytes atomic.Int64
}

// place is a complete copy that objects are looked for in.
type place struct {
	root    *root // nil in memory
	dir     string
	files   map[string]file // not changed any more
	compare bool            // with checksums
}

type verdictKey struct {
	place int
	name  string // or the URI, in memory
}

// Stats says where the objects came from.
type Stats struct {
	// LocalFiles and RemoteFiles count the objects that were opened or located locally, and those opened in the primary
	// store. One that was given up in the middle is counted as both.
	LocalFiles, RemoteFiles int64
	// LocalBytes and RemoteBytes are what was read; of an object that was located, all of its size.
	LocalBytes, RemoteBytes int64
}

// Stats says what was read so far.
func (r *Restored) Stats() Stats {
	return Stats{r.localFiles.Load(), r.remoteFiles.Load(), r.localBytes.Load(), r.remoteBytes.Load()}
}

// add adds the copy that a task has of a checkpoint.
func (r *Restored) add(t *Task, checkpoint int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.copies[checkpoint]
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == sealed && len(c.files) > 0 {
		rebooted := c.old && (c.boot == "" || c.boot != r.s.boot) // or it isn't known
		r.places = append(r.places, place{c.root, c.dir, c.files, c.root != nil && (r.s.o.Checksums || rebooted)})
	}
}

// local is a file of a copy.
type local struct {
	key  verdictKey
	root *root
	path string // below the root
	file
}

// open opens the file if it is there as it should be.
func (l *local) open() (content, error) {
	if l.root == nil {
		return l.data, nil
	}
	f, err := l.root.open(l.path, l.size)
	if err != nil {
		return nil, err
	}
	return &onDisk{f, l}, nil
}

// content is an open file of a copy.
type content interface {
	io.ReaderAt
	io.Closer
}

// onDisk is an *os.File with its step for faults.
type onDisk struct {
	content
	l *local
}

func (d *onDisk) ReadAt(p []byte, off int64) (n int, err error) {
	err = d.l.root.step("read", d.l.path, func() error {
		n, err = d.content.ReadAt(p, off)
		return err
	})
	return n, err
}

// find gives an open local file with the bytes of an object, or nil.
func (r *Restored) find(ctx context.Context, uri string) (*local, content) {
	key := storage.Key(uri)
	for i, p := range r.places {
		f, ok := p.files[key]
		if !ok {
			continue
		}
		l := &local{key: verdictKey{i, f.name}, root: p.root, path: path.Join(p.dir, f.name), file: f}
		if p.root == nil {
			l.key.name = key
		}
		verdict, judged := r.verdict(l)
		if verdict != nil {
			continue
		}
		in, err := l.open()
		if err == nil && p.compare && !judged {
			if err = l.compare(ctx, in); err == nil {
				r.judge(l, nil)
			}
		}
		if err == nil {
			return l, in
		}
		if in != nil {
			in.Close()
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		r.judge(l, err)
	}
	return nil, nil
}

// compare compares the file with its checksum.
func (l *local) compare(ctx context.Context, in io.ReaderAt) error {
	if !l.summed {
		return fmt.Errorf("%w: the machine was started since the file was written, and it has no checksum", errDamaged)
	}
	sum, err := sumOf(ctx, io.NewSectionReader(in, 0, l.size))
	if err == nil && sum != l.sum {
		err = fmt.Errorf("%w: its checksum is %016x and should be %016x", errDamaged, sum, l.sum)
	}
	return err
}

func (r *Restored) verdict(l *local) (err error, judged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err, judged = r.verdicts[l.key]
	return err, judged
}

// judge remembers whether a file is good; from then on one that isn't comes from the primary store.
func (r *Restored) judge(l *local, err error) {
	r.mu.Lock()
	known := r.verdicts[l.key] != nil
	r.verdicts[l.key] = err
	level := slog.LevelDebug
	if err != nil && !known && !r.told {
		r.told, level = true, slog.LevelWarn
	}
	r.mu.Unlock()
	if err != nil && !known {
		r.s.log.Log(context.Background(), level, "local recovery: a local file is not used; the primary store has it", "uri", l.uri, "error", err)
	}
}

// Locate implements storage.Locator. The file may go once a later checkpoint is confirmed, and with it the chance of a
// link: open the object then. Copies in memory are not located.
func (r *Restored) Locate(ctx context.Context, uri string) (string, bool) {
	if l, in := r.find(ctx, uri); in != nil {
		in.Close()
		if l.root != nil {
			r.localFiles.Add(1)
			r.localBytes.Add(l.size)
			return l.root.path(l.path), true
		}
	}
	return r.forwarding.Locate(ctx, uri)
}

// Open implements storage.FS.
func (r *Restored) Open(ctx context.Context, uri string) (storage.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: uri, Err: err}
	}
	l, in := r.find(ctx, uri)
	if in == nil {
		return r.openRemote(ctx, uri)
	}
	r.localFiles.Add(1)
	return &object{r: r, ctx: ctx, uri: uri, l: l, in: in}, nil
}

func (r *Restored) openRemote(ctx context.Context, uri string) (storage.Object, error) {
	o, err := r.FS.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	r.remoteFiles.Add(1)
	return storage.Counted(o, func(n int64) { r.remoteBytes.Add(n) }), nil
}

// object is read from a local file, and from the primary store after a failure.
type object struct {
	r   *Restored
	ctx context.Context // of ReadAt
	uri string
	l   *local
	in  content

	mu     sync.Mutex
	remote storage.Object // after a failure
	closed bool
}

func (o *object) Size() int64 { return o.l.size }

func (o *object) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("close %s: %w", o.uri, fs.ErrClosed)
	}
	o.closed = true
	err := o.in.Close()
	if o.remote != nil {
		err = errors.Join(err, o.remote.Close())
	}
	return err
}

// fallen gives the object of the primary store if the local file failed.
func (o *object) fallen() storage.Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.remote
}

// fall goes over to the primary store because of err.
func (o *object) fall(ctx context.Context, err error) (storage.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, fmt.Errorf("read %s: %w", o.uri, fs.ErrClosed)
	}
	if o.remote != nil {
		return o.remote, nil
	}
	o.r.judge(o.l, err)
	remote, rerr := o.r.openRemote(ctx, o.uri)
	if rerr != nil {
		return nil, fmt.Errorf("the local copy failed (%w), and so did the primary store: %w", err, rerr)
	}
	if remote.Size() != o.l.size {
		return nil, errors.Join(fmt.Errorf("read %s: %w: the local copy had %d bytes, the primary store has %d", o.uri, storage.ErrChanged, o.l.size, remote.Size()), remote.Close())
	}
	o.remote = remote
	return remote, nil
}

// readLocal reads what is there at off, io.EOF only at the end.
func (o *object) readLocal(p []byte, off int64) (int, error) {
	n, err := io.NewSectionReader(o.in, 0, o.l.size).ReadAt(p, off)
	if err == io.EOF && off+int64(n) < o.l.size {
		err = fmt.Errorf("%w: the file became shorter", io.ErrUnexpectedEOF)
	}
	if err == nil || err == io.EOF {
		o.r.localBytes.Add(int64(n))
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: o.uri, Err: fmt.Errorf("%w: offset %d", fs.ErrInvalid, off)}
	}
	remote := o.fallen()
	if remote == nil {
		n, err := o.readLocal(p, off)
		if err == nil || err == io.EOF {
			return n, err
		}
		if remote, err = o.fall(o.ctx, err); err != nil {
			return 0, err
		}
	}
	return remote.ReadAt(p, off)
}

// Reader implements storage.Object.
func (o *object) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	err := ctx.Err()
	if err == nil && (off < 0 || off > o.l.size) {
		err = fmt.Errorf("%w: offset %d of %d", fs.ErrInvalid, off, o.l.size)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: o.uri, Err: err}
	}
	return &reader{ctx: ctx, o: o, off: off}, nil
}

// reader streams an object.
type reader struct {
	ctx    context.Context
	o      *object
	off    int64
	remote io.ReadCloser
	closed bool
}

func (r *reader) Read(p []byte) (int, error) {
	err := r.ctx.Err()
	if r.closed {
		err = fs.ErrClosed
	}
	if err != nil {
		return 0, &fs.PathError{Op: "read", Path: r.o.uri, Err: err}
	}
	if r.remote == nil {
		remote := r.o.fallen()
		if remote == nil {
			if r.off == r.o.l.size {
				return 0, io.EOF
			}
			n, err := r.o.readLocal(p[:min(int64(len(p)), r.o.l.size-r.off)], r.off)
			if err == nil || err == io.EOF {
				r.off += int64(n)
				return n, nil
			}
			if remote, err = r.o.fall(r.ctx, err); err != nil {
				return 0, err
			}
		}
		if r.remote, err = remote.Reader(r.ctx, r.off); err != nil {
			r.remote = nil
			return 0, err
		}
	}
	n, err := r.remote.Read(p)
	r.off += int64(n)
	return n, err
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.closed = true
	if r.remote == nil {
		return nil
	}
	return r.remote.Close()
}
