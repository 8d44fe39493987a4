package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// Collection gathers the records of a stream in memory, each as often as it comes: after a failure some come again. It may be
// used concurrently.
type Collection[T any] struct {
	mu      sync.Mutex
	records []Record[T]
}

// Records gives what came so far.
func (c *Collection[T]) Records() []Record[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// Collect ends a stream in a collection.
func Collect[T any](s Stream[T], o Op, c *Collection[T]) {
	ForEach(s, o, func(r Record[T]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.records = append(c.records, r)
		return nil
	})
}

// ForEach ends a stream in a function, which is called by all subtasks at the same time. After a failure it gets records again.
func ForEach[T any](s Stream[T], o Op, f func(Record[T]) error) {
	if s.from == nil {
		return
	}
	n := s.from.job.add(o, func([]any) operator {
		return &function[T]{f: f, forward: func(int64) error { return nil }}
	})
	connect(s, n, shipForward, nil)
}

// Transactions is one subtask of a sink whose records become visible when the checkpoint that they belong to has completed
// (TwoPhaseCommitSinkFunction). One goroutine uses it.
type Transactions[T any] interface {
	// Recover is called first, with the place of the subtask, and all transactions that are to be committed, those of other subtasks
	// among them. Of transactions that older runs began, and that are not among these, nothing will be heard again, but for those that were prepared for a
	// savepoint: it can be restored at any time.
	Recover(ctx context.Context, subtask, parallelism int, prepared []string) error
	// Write adds a record to the transaction at hand.
	Write(ctx context.Context, r Record[T]) error
	// Prepare ends the transaction at hand so that Commit can't fail but for the store, and gives its name; "" if it is empty. savepoint says that the checkpoint
	// is one. After an error the transaction is still at hand.
	Prepare(ctx context.Context, checkpoint int64, savepoint bool) (string, error)
	// Commit makes a transaction visible. It is called again for one that it may have committed, also by another subtask.
	Commit(ctx context.Context, transaction string) error
	// Close gives up the transaction at hand.
	Close() error
}

// preparedState is the state of a transactional sink: checkpoint and name of transactions that are prepared, which all subtasks get.
const preparedState = "prepared-transactions"

// Commit ends a stream in transactions. transactions makes those of a subtask.
func Commit[T any](s Stream[T], o Op, transactions func() Transactions[T]) {
	if s.from == nil {
		return
	}
	n := s.from.job.add(o, func([]any) operator { return &transactional[T]{t: transactions()} })
	connect(s, n, shipForward, nil)
}

type transactional[T any] struct {
	plain
	t        Transactions[T]
	c        *operatorContext
	state    *backend.OperatorList[serializer.Tuple2[int64, string]]
	prepared []serializer.Tuple2[int64, string]
}

func (s *transactional[T]) receiver(int) any          { return s }
func (s *transactional[T]) receive(r Record[T]) error { return s.t.Write(s.c.t.ctx, r) }
func (s *transactional[T]) advance(int64) error       { return nil }
func (s *transactional[T]) close() error              { return s.t.Close() }

func (s *transactional[T]) open(c *operatorContext) (err error) {
	s.c = c
	s.state, err = backend.OpenOperatorList(c.op, preparedState, serializer.ForTuple2(serializer.ForLong(), serializer.ForString()), true)
	return err
}

func (s *transactional[T]) start(ctx context.Context) error {
	var names []string
	for _, p := range s.state.Get() {
		names = append(names, p.F1)
	}
	if err := s.t.Recover(ctx, s.c.t.subtask, s.c.t.v.parallelism, names); err != nil {
		return err
	}
	// They belong to a checkpoint that has completed.
	for i, name := range names {
		if i%s.c.t.v.parallelism != s.c.t.subtask {
			continue
		}
		if err := s.t.Commit(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *transactional[T]) prepare(ctx context.Context, b *barrier) error {
	name, err := s.t.Prepare(ctx, b.id, b.savepoint)
	if err != nil {
		return err
	}
	if name != "" {
		s.prepared = append(s.prepared, serializer.Tuple2[int64, string]{F0: b.id, F1: name})
	}
	s.state.Set(s.prepared)
	return nil
}

func (s *transactional[T]) completed(ctx context.Context, checkpoint int64) error {
	for len(s.prepared) > 0 && s.prepared[0].F0 <= checkpoint {
		if err := s.t.Commit(ctx, s.prepared[0].F1); err != nil {
			return err
		}
		s.prepared = s.prepared[1:]
	}
	return nil
}

// FileOptions are the options of Files; all are required but Name.
type FileOptions[T any] struct {
	FS storage.FS
	// Dir is for this sink alone: what it finds in .pending there, and no checkpoint knows, it removes.
	Dir string
	// Append appends a record as it stands in a file, with the end of the line.
	Append func(dst []byte, v T) []byte
}

// pendingDir is where files are before they are committed; one beside which there is a file of the same name with savepointMark belongs to a savepoint.
const (
	pendingDir    = ".pending"
	savepointMark = ".savepoint"
)

// Files gives transactions that write files into a directory: part-SUBTASK-ID, whole, once the checkpoint has completed. What
// isn't committed is in a directory .pending, and what is left of a failure there goes at the next start. What a savepoint names stays there for a job
// that is restored from it.
func Files[T any](o FileOptions[T]) func() Transactions[T] {
	return func() Transactions[T] { return &files[T]{o: o} }
}

type files[T any] struct {
	o       FileOptions[T]
	subtask int
	name    string
	file    storage.Writer
	buf     *bufio.Writer
	line    []byte
}

func (f *files[T]) pending(name string) string { return storage.Join(f.o.Dir, pendingDir, name) }

// Recover removes what no checkpoint has of the files that subtasks of this index began, and of those that have no successor of the same index.
func (f *files[T]) Recover(ctx context.Context, subtask, parallelism int, prepared []string) error {
	f.subtask = subtask
	mine := map[string]bool{}
	for info, err := range f.o.FS.List(ctx, storage.Join(f.o.Dir, pendingDir)) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		name := storage.Base(info.URI)
		index, _, _ := strings.Cut(strings.TrimPrefix(name, "part-"), "-")
		// Others may be at work already.
		if i, err := strconv.Atoi(index); err == nil && i%parallelism == subtask {
			mine[name] = true
		}
	}
	var gone []string
	for name := range mine {
		of, mark := strings.CutSuffix(name, savepointMark)
		if mark && mine[of] || mine[name+savepointMark] || slices.Contains(prepared, name) {
			continue
		}
		gone = append(gone, f.pending(name))
	}
	if len(gone) == 0 {
		return nil
	}
	return f.o.FS.Delete(ctx, gone...)
}

func (f *files[T]) Write(ctx context.Context, r Record[T]) error {
	if f.file == nil {
		f.name = fmt.Sprintf("part-%d-%s", f.subtask, uuid.NewString())
		var err error
		if f.file, err = f.o.FS.Create(ctx, f.pending(f.name), storage.CreateOptions{}); err != nil {
			return err
		}
		f.buf = bufio.NewWriterSize(f.file, 64<<10)
	}
	f.line = f.o.Append(f.line[:0], r.Value)
	_, err := f.buf.Write(f.line)
	return err
}

func (f *files[T]) Prepare(ctx context.Context, _ int64, savepoint bool) (string, error) {
	if f.file == nil {
		return "", nil
	}
	err := f.buf.Flush()
	if err == nil && savepoint {
		err = storage.WriteFile(ctx, f.o.FS, f.pending(f.name+savepointMark), nil, storage.CreateOptions{Overwrite: true})
	}
	if err == nil {
		err = f.file.Commit()
	}
	if err != nil {
		return "", err
	}
	f.file = nil
	return f.name, nil
}

func (f *files[T]) Commit(ctx context.Context, name string) error {
	from, to := f.pending(name), storage.Join(f.o.Dir, name)
	err := f.o.FS.Copy(ctx, from, to)
	switch {
	case errors.Is(err, fs.ErrExist): // it was committed, but not all was cleaned up
	case errors.Is(err, fs.ErrNotExist):
		if _, serr := f.o.FS.Stat(ctx, to); serr != nil {
			return fmt.Errorf("transaction %s is neither pending nor committed in %s: is that the directory of the job before? %w", name, f.o.Dir, err)
		}
		return nil
	case err != nil:
		return err
	}
	return f.o.FS.Delete(ctx, from, from+savepointMark)
}

func (f *files[T]) Close() error {
	if f.file != nil {
		f.file.Abort()
		f.file = nil
	}
	return nil
}
