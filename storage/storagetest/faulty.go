package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/drey-state/drey/storage"
)

// ErrCrashed is what every call after a crash fails with.
var ErrCrashed = errors.New("crashed")

// Step is one thing that a [Faulty] is about to do: a call of a method of FS,
// Object, Writer or a reader. Delete, Clean and Prune are one step for each URI, List and
// ReadDir one for the beginning and one for each entry.
type Step struct {
	N   int    // counts from 1
	Op  string // "open", "create", "write", "commit", "read", "stat", "list", "copy", "link", "delete", "clean", "prune"
	URI string // of copy and link: the destination
}

// Fault is what happens at a step.
type Fault struct {
	// Err is what the call fails with.
	Err error
	// Done has the call do its work before it fails, as when an answer is
	// lost. Of a write, half of the bytes are written.
	Done bool
}

// FaultOptions are the options of [NewFaulty]; the zero value injects nothing.
type FaultOptions struct {
	// CrashAfter is the number of steps that work; all later ones fail with
	// [ErrCrashed] and do nothing. 0 means no crash; see also [Faulty.Crash].
	CrashAfter int
	// Inject is asked at every step; nil from it means no fault. It is called
	// from many goroutines, one at a time.
	Inject func(Step) *Fault
	// ShortReads has readers give fewer bytes than there is room for.
	ShortReads bool
	// Seed is that of the lengths of short reads.
	Seed uint64
}

// Faulty is a [storage.FS] that passes everything on to another one and fails
// on demand. To try a crash between any two steps of some work, run it once
// without faults, take Steps, and run it again with each smaller CrashAfter;
// what is visible in the FS below is what a new process would find. Writers
// that were open at the crash are never committed or aborted, as those of a
// process that died: Abort then calls the method Abandon of those that have one.
//
// It implements [storage.Linker], [storage.Cleaner], [storage.Pruner] and [storage.Resolver]; where
// the FS below does not, Link says [errors.ErrUnsupported] and the others do nothing.
type Faulty struct {
	inner storage.FS
	o     FaultOptions

	mu      sync.Mutex
	steps   int
	crashed bool
	rand    *rand.Rand
}

var (
	_ storage.FS       = (*Faulty)(nil)
	_ storage.Linker   = (*Faulty)(nil)
	_ storage.Cleaner  = (*Faulty)(nil)
	_ storage.Pruner   = (*Faulty)(nil)
	_ storage.Resolver = (*Faulty)(nil)
)

// NewFaulty puts faults before inner.
func NewFaulty(inner storage.FS, o FaultOptions) *Faulty {
	return &Faulty{inner: inner, o: o, rand: rand.New(rand.NewPCG(o.Seed, 0))}
}

// Steps is how many steps were begun, failed ones included.
func (f *Faulty) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// Crashed says whether a step met the crash.
func (f *Faulty) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

// Crash lets every later step fail with [ErrCrashed].
func (f *Faulty) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
}

// step counts a step and gives its fault.
func (f *Faulty) step(op, uri string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps++
	if f.o.CrashAfter > 0 && f.steps > f.o.CrashAfter {
		f.crashed = true
	}
	if f.crashed {
		return &Fault{Err: fmt.Errorf("%s %s: %w", op, uri, ErrCrashed)}
	}
	if f.o.Inject == nil {
		return nil
	}
	return f.o.Inject(Step{N: f.steps, Op: op, URI: uri})
}

// do runs a step that gives only an error.
func (f *Faulty) do(op, uri string, work func() error) error {
	fault := f.step(op, uri)
	if fault == nil {
		return work()
	}
	if fault.Done {
		if err := work(); err != nil {
			return err
		}
	}
	return fault.Err
}

// Open implements storage.FS.
func (f *Faulty) Open(ctx context.Context, uri string) (storage.Object, error) {
	var o storage.Object
	err := f.do("open", uri, func() (err error) {
		o, err = f.inner.Open(ctx, uri)
		return err
	})
	if err != nil {
		if o != nil {
			o.Close()
		}
		return nil, err
	}
	return &faultyObject{Object: o, f: f, uri: uri}, nil
}

// Create implements storage.FS.
func (f *Faulty) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	var w storage.Writer
	err := f.do("create", uri, func() (err error) {
		w, err = f.inner.Create(ctx, uri, o)
		return err
	})
	if err != nil {
		if w != nil {
			w.Abort()
		}
		return nil, err
	}
	return &faultyWriter{w: w, f: f, uri: uri}, nil
}

// Stat implements storage.FS.
func (f *Faulty) Stat(ctx context.Context, uri string) (info storage.Info, err error) {
	err = f.do("stat", uri, func() (err error) {
		info, err = f.inner.Stat(ctx, uri)
		return err
	})
	if err != nil {
		return storage.Info{}, err
	}
	return info, nil
}

// List implements storage.FS.
func (f *Faulty) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return f.list(dir, f.inner.List(ctx, dir))
}

// ReadDir implements storage.FS.
func (f *Faulty) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return f.list(dir, f.inner.ReadDir(ctx, dir))
}

func (f *Faulty) list(dir string, seq iter.Seq2[storage.Info, error]) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		if fault := f.step("list", dir); fault != nil {
			yield(storage.Info{}, fault.Err)
			return
		}
		for info, err := range seq {
			if fault := f.step("list", dir); fault != nil {
				yield(storage.Info{}, fault.Err)
				return
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Copy implements storage.FS.
func (f *Faulty) Copy(ctx context.Context, src, dst string) error {
	return f.do("copy", dst, func() error { return f.inner.Copy(ctx, src, dst) })
}

// Link implements storage.Linker.
func (f *Faulty) Link(ctx context.Context, src, dst string) error {
	return f.do("link", dst, func() error {
		if l, ok := f.inner.(storage.Linker); ok {
			return l.Link(ctx, src, dst)
		}
		return fmt.Errorf("link %s: %w", dst, errors.ErrUnsupported)
	})
}

// Resolve implements storage.Resolver; it is no step.
func (f *Faulty) Resolve(ctx context.Context, uri string) (string, error) {
	if r, ok := f.inner.(storage.Resolver); ok {
		return r.Resolve(ctx, uri)
	}
	return uri, nil
}

// Delete implements storage.FS.
func (f *Faulty) Delete(ctx context.Context, uris ...string) error {
	var errs []error
	for _, uri := range uris {
		err := f.do("delete", uri, func() error { return f.inner.Delete(ctx, uri) })
		var de *storage.DeleteError
		if err != nil && !errors.As(err, &de) {
			err = &storage.DeleteError{URI: uri, Err: err}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Clean implements storage.Cleaner.
func (f *Faulty) Clean(ctx context.Context, uris ...string) (removed int, err error) {
	c, ok := f.inner.(storage.Cleaner)
	return f.each("clean", uris, func(uri string) (int, error) {
		if !ok {
			return 0, nil
		}
		return c.Clean(ctx, uri)
	})
}

// Prune implements storage.Pruner.
func (f *Faulty) Prune(ctx context.Context, dirs ...string) (removed int, err error) {
	p, ok := f.inner.(storage.Pruner)
	return f.each("prune", dirs, func(uri string) (int, error) {
		if !ok {
			return 0, nil
		}
		return p.Prune(ctx, uri)
	})
}

func (f *Faulty) each(op string, uris []string, work func(string) (int, error)) (total int, err error) {
	var errs []error
	for _, uri := range uris {
		errs = append(errs, f.do(op, uri, func() error {
			n, err := work(uri)
			total += n
			return err
		}))
	}
	return total, errors.Join(errs...)
}

type faultyObject struct {
	storage.Object
	f   *Faulty
	uri string
}

func (o *faultyObject) ReadAt(p []byte, off int64) (n int, err error) {
	err = o.f.do("read", o.uri, func() (err error) {
		n, err = o.Object.ReadAt(p, off)
		return err
	})
	return n, err
}

func (o *faultyObject) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	r, err := o.Object.Reader(ctx, off)
	if err != nil {
		return nil, err
	}
	return &faultyReader{r: r, f: o.f, uri: o.uri}, nil
}

type faultyReader struct {
	r   io.ReadCloser
	f   *Faulty
	uri string
}

func (r *faultyReader) Read(p []byte) (n int, err error) {
	if r.f.o.ShortReads && len(p) > 1 {
		r.f.mu.Lock()
		p = p[:1+r.f.rand.IntN(len(p)-1)]
		r.f.mu.Unlock()
	}
	err = r.f.do("read", r.uri, func() (err error) {
		n, err = r.r.Read(p)
		return err
	})
	return n, err
}

func (r *faultyReader) Close() error { return r.r.Close() }

type faultyWriter struct {
	w   storage.Writer
	f   *Faulty
	uri string
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	fault := w.f.step("write", w.uri)
	if fault == nil {
		return w.w.Write(p)
	}
	n := 0
	if fault.Done {
		var err error
		if n, err = w.w.Write(p[:len(p)/2]); err != nil {
			return n, err
		}
	}
	return n, fault.Err
}

func (w *faultyWriter) Commit() error { return w.f.do("commit", w.uri, w.w.Commit) }

func (w *faultyWriter) Abort() {
	if !w.f.Crashed() {
		w.w.Abort()
	} else if a, ok := w.w.(interface{ Abandon() }); ok {
		a.Abandon() // a lock does not outlive its process
	}
}

// Shuffled is fs with the entries of List and ReadDir in an order that depends
// on seed and changes from call to call. It holds a whole listing in memory.
func Shuffled(fs storage.FS, seed uint64) storage.FS {
	return &shuffled{FS: fs, rand: rand.New(rand.NewPCG(seed, 1))}
}

type shuffled struct {
	storage.FS
	mu   sync.Mutex
	rand *rand.Rand
}

func (s *shuffled) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return s.shuffle(s.FS.List(ctx, dir))
}

func (s *shuffled) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return s.shuffle(s.FS.ReadDir(ctx, dir))
}

func (s *shuffled) shuffle(seq iter.Seq2[storage.Info, error]) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		var infos []storage.Info
		var last error
		for info, err := range seq {
			if last = err; err != nil {
				break
			}
			infos = append(infos, info)
		}
		s.mu.Lock()
		s.rand.Shuffle(len(infos), func(i, j int) { infos[i], infos[j] = infos[j], infos[i] })
		s.mu.Unlock()
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
		if last != nil {
			yield(storage.Info{}, last)
		}
	}
}
