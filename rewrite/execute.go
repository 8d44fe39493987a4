package rewrite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// Result is what [Plan.Execute] did.
type Result struct {
	// Entries of keyed state and timers that were read and written one by one, and those that were dropped and put; copied state is not counted.
	Entries int64 `json:"entries"`
	Dropped int64 `json:"entriesDropped"`
	Put     int64 `json:"entriesPut"`
	// Files and Bytes that were written, the metadata among them.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Spilled is how many bytes went through temporary files for sorting.
	Spilled int64 `json:"bytesSorted"`
}

// execution is an [Plan.Execute] on its way.
type execution struct {
	*Plan
	target   backend.Target
	progress func(int64)
	result   struct{ entries, dropped, put, spilled atomic.Int64 }
	written  *recorder
	copiesMu sync.Mutex
	copies   map[string]metadata.Stream // of channel state, by what identifies the source

	workersMu sync.Mutex
	workers   []*worker // that nobody has
}

// Execute writes the snapshot into the target's directory, in which nothing may be; the metadata comes last. Progress, if not nil, is
// told of bytes of state that were read, from several goroutines. After an error nothing is left behind, unless deleting fails as well, which
// the error says. The source is only read.
func (p *Plan) Execute(ctx context.Context, t backend.Target, progress func(bytes int64)) (*Result, error) {
	if len(p.Problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrCannotCarry, p.Problems[0])
	}
	if err := CheckEmpty(ctx, t); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(int64) {}
	}
	x := &execution{Plan: p, progress: progress, written: &recorder{FS: t.FS}, copies: map[string]metadata.Stream{}}
	t.FS = x.written
	x.target = t
	s, err := x.run(ctx)
	if err == nil {
		err = t.WriteMetadata(ctx, s)
	}
	if err != nil {
		if e := x.written.undo(context.WithoutCancel(ctx)); e != nil {
			err = fmt.Errorf("%w; what was written in %s could not be deleted: %w", err, t.Dir, e)
		}
		return nil, err
	}
	return &Result{
		Entries: x.result.entries.Load(), Dropped: x.result.dropped.Load(), Put: x.result.put.Load(), Spilled: x.result.spilled.Load(),
		Files: int64(len(x.written.uris)), Bytes: x.written.bytes.Load(),
	}, nil
}

// CheckEmpty gives an error that unwraps to ErrNotEmpty if there is something in the target's directory. [Plan.Execute] begins with it.
func CheckEmpty(ctx context.Context, t backend.Target) error {
	for info, err := range t.FS.ReadDir(ctx, t.Dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if storage.Base(info.URI) == metadata.FileName {
			return fmt.Errorf("%s: %w: there is a snapshot already", t.Dir, ErrNotEmpty)
		}
		return fmt.Errorf("%s: %w: there is %s, perhaps of a run that was interrupted; delete it, or take another directory", t.Dir, ErrNotEmpty, storage.Base(info.URI))
	}
	return nil
}

// recorder remembers which files were written.
type recorder struct {
	storage.FS
	mu    sync.Mutex
	uris  []string
	bytes atomic.Int64
}

// Create implements storage.FS.
func (r *recorder) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	w, err := r.FS.Create(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return &recorded{w, r, uri}, nil
}

type recorded struct {
	storage.Writer
	r   *recorder
	uri string
}

func (w *recorded) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.r.bytes.Add(int64(n))
	return n, err
}

// Commit remembers the file, also where only the answer may have been lost, but not one of this name that somebody else has.
func (w *recorded) Commit() error {
	err := w.Writer.Commit()
	if !errors.Is(err, fs.ErrExist) {
		w.r.mu.Lock()
		defer w.r.mu.Unlock()
		w.r.uris = append(w.r.uris, w.uri)
	}
	return err
}

// undo deletes what was written, the metadata first.
func (r *recorder) undo(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := func(uri string) int {
		if strings.HasSuffix(uri, "/"+metadata.FileName) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(r.uris, func(a, b string) int { return first(a) - first(b) })
	var errs []error
	for chunk := range slices.Chunk(r.uris, 1000) {
		errs = append(errs, r.FS.Delete(ctx, chunk...))
	}
	return errors.Join(errs...)
}

// task is a piece of work; readers is how many goroutines it may have to read.
type task func(ctx context.Context, readers int) error

// run writes all state and gives the metadata.
func (x *execution) run(ctx context.Context) (*metadata.Snapshot, error) {
	s := &metadata.Snapshot{Version: x.src.Metadata.Version, CheckpointID: x.src.Metadata.CheckpointID, MasterStates: x.src.Metadata.MasterStates}
	for _, op := range x.Operators {
		if !op.Dropped {
			s.Operators = append(s.Operators, newOperator(op))
		}
	}
	var tasks []task
	at := 0
	for _, op := range x.Operators {
		if op.Dropped {
			continue
		}
		t := &s.Operators[at]
		at++
		for _, task := range slices.Concat(x.keyedTasks(op, t), x.rawTasks(op, t), x.operatorTasks(op, t), x.channelTasks(op, t), x.coordinatorTasks(op, t)) {
			tasks = append(tasks, func(ctx context.Context, readers int) error {
				if err := task(ctx, readers); err != nil {
					return fmt.Errorf("%s: %w", Label(op.Source), err)
				}
				return nil
			})
		}
	}
	defer x.closeWorkers()
	if err := x.each(ctx, tasks); err != nil {
		return nil, err
	}
	x.closeWorkers() // what they hold is not to be there besides what moves
	at = 0
	for _, op := range x.Operators {
		if op.Dropped {
			continue
		}
		if op.Work == Moved {
			if err := x.move(ctx, op, &s.Operators[at]); err != nil {
				return nil, fmt.Errorf("%s: %w", Label(op.Source), err)
			}
		}
		at++
	}
	s, err := s.As(x.Version)
	if err == nil && x.Version >= metadata.Version4 {
		s.Properties = metadata.PropertiesOf(x.Kind)
	}
	return s, err
}

// newOperator is the operator as it is written, whose subtasks have no state yet. Those that had finished stay so.
func newOperator(op *OperatorPlan) metadata.Operator {
	t := op.Target
	if t.FullyFinished {
		return t
	}
	for i := range t.Parallelism {
		t.Subtasks = append(t.Subtasks, metadata.Subtask{Index: i, State: &metadata.SubtaskState{}})
	}
	for _, sub := range op.Source.Subtasks {
		if sub.State == nil && sub.Index >= 0 && sub.Index < t.Parallelism {
			t.Subtasks[sub.Index].State = nil
		}
	}
	return t
}

// each runs tasks, as many at once as there are jobs.
func (x *execution) each(ctx context.Context, tasks []task) error {
	jobs := x.o.jobs()
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(jobs)
	for _, t := range tasks {
		eg.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return t(ctx, max(1, jobs/len(tasks)))
		})
	}
	return eg.Wait()
}

// rangeOf gives the key groups of a subtask.
func rangeOf(t *metadata.Operator, subtask int) keygroup.Range {
	return keygroup.RangeOf(subtask, int(t.MaxParallelism), int(t.Parallelism))
}
