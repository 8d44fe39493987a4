package runtime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// Status is what a job does (JobStatus).
type Status string

// The states of a job.
const (
	StatusCreated    Status = "CREATED"
	StatusRunning    Status = "RUNNING"
	StatusFailing    Status = "FAILING"
	StatusRestarting Status = "RESTARTING"
	StatusCanceling  Status = "CANCELLING"
	StatusCanceled   Status = "CANCELED"
	StatusFailed     Status = "FAILED"
	StatusFinished   Status = "FINISHED"
	// StatusSuspended is that of a job whose process was told to end: it goes on from its newest checkpoint when it is started again.
	StatusSuspended Status = "SUSPENDED"
)

// Ended says that the status is final.
func (s Status) Ended() bool {
	return s == StatusCanceled || s == StatusFailed || s == StatusFinished || s == StatusSuspended
}

// ErrEnded says that a job has ended, so that nothing can be asked of it.
var ErrEnded = errors.New("the job has ended")

// Execution is a job that runs (JobMaster). All methods may be called concurrently.
type Execution struct {
	job             *Job
	o               Options
	id              string
	log             *slog.Logger
	ctx             context.Context
	stop            context.CancelFunc
	late, completed atomic.Int64
	metrics         *metrics

	inbox struct {
		sync.Mutex
		calls  []func()
		closed bool
		wake   chan struct{}
	}
	done chan struct{}
	err  error // set before done is closed

	// These are written by the goroutine of the execution under the lock of inbox.
	status           Status
	started, changed time.Time
	since            map[Status]time.Time
	up               bool      // all tasks of the attempt run
	vertices         []*vertex // of the plan

	// Of the goroutine of the execution:
	checkpoints *incremental.Checkpoints
	point       *restorePoint
	attempt     *attempt
	attempts    int
	deploying   bool
	strategy    RestartStrategy
	restart     *time.Timer
	end         func() // what is to happen when all tasks of the attempt have ended
	work        sync.WaitGroup
	c           coordinator
}

// Start runs a job until it ends or ctx does. It returns when the job's checkpoints were found and its graph was checked; an error says why
// it can't run.
func Start(ctx context.Context, j *Job, o Options) (*Execution, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := j.Err(); err != nil {
		return nil, fmt.Errorf("job %q: %w", j.name, err)
	}
	if o.Checkpoints.Interval > 0 && j.iterative() && !o.Checkpoints.ForceIterations {
		return nil, fmt.Errorf("job %q: %w", j.name, ErrIterations)
	}
	if o.ID == "" {
		var id [16]byte
		if _, err := rand.Read(id[:]); err != nil {
			return nil, err
		}
		o.ID = hex.EncodeToString(id[:])
	}
	if b, err := hex.DecodeString(o.ID); err != nil || len(b) != 16 {
		return nil, fmt.Errorf("job id %q: it must be 32 hexadecimal digits", o.ID)
	}
	x := &Execution{job: j, o: o, id: o.ID, log: o.Logger.With("job", o.ID), done: make(chan struct{}), status: StatusCreated, started: time.Now(), changed: time.Now()}
	x.since = map[Status]time.Time{StatusCreated: x.started}
	x.inbox.wake = make(chan struct{}, 1)
	x.strategy = o.Restart.fresh()
	x.ctx, x.stop = context.WithCancel(ctx)
	if err := x.recover(ctx); err != nil {
		x.stop()
		return nil, err
	}
	// What is wrong with the plan is no failure of the job.
	p, err := x.planFor(x.point)
	if err == nil && x.point != nil {
		err = x.fits(x.point, p)
	}
	if err != nil {
		x.stop()
		return nil, x.closed(err)
	}
	x.vertices = p.vertices
	if x.metrics, err = newMetrics(x); err != nil {
		x.stop()
		return nil, x.closed(err)
	}
	if o.Backend == BackendPebble {
		x.log.Info("keyed state is in Pebble, which has the place of Flink's backend rocksdb")
	}
	x.c.init(x)
	x.deploy()
	go x.loop()
	return x, nil
}

func (x *Execution) closed(err error) error {
	if x.checkpoints != nil {
		err = errors.Join(err, x.checkpoints.Close(context.WithoutCancel(x.ctx)))
	}
	return err
}

// recover finds what the job goes on from.
func (x *Execution) recover(ctx context.Context) error {
	r := x.o.Restore
	if x.o.CheckpointDir == "" && x.o.SavepointDir == "" && r.Path == "" {
		return nil
	}
	dir := storage.Join(x.o.CheckpointDir, x.id)
	if x.o.CheckpointDir == "" {
		// Savepoints are numbered, too; nothing is written here.
		dir = storage.Join(x.savepointRoot(), ".job-"+x.id)
	}
	var claimed []string
	if r.Path != "" && r.ClaimMode == incremental.Claim {
		if x.o.CheckpointDir == "" {
			return errors.New("a snapshot can only be claimed by a job with checkpoints: set execution.checkpointing.dir (CheckpointDir)")
		}
		claimed = []string{r.Path}
	}
	var err error
	if x.checkpoints, err = x.openCheckpoints(ctx, dir, nil); err != nil {
		return err
	}
	if latest, ok := x.checkpoints.Latest(); ok {
		if claimed != nil {
			if err := x.checkpoints.Close(ctx); err != nil {
				return err
			}
			if x.checkpoints, err = x.openCheckpoints(ctx, dir, claimed); err != nil {
				return err
			}
		}
		x.log.Info("the job goes on from its newest checkpoint", "checkpoint", latest.ID)
		x.point, err = x.latest(ctx)
		return err
	}
	if r.Path == "" {
		return nil
	}
	s, err := x.checkpoints.Restore(ctx, r.Path, r.ClaimMode)
	if err != nil {
		return fmt.Errorf("restore %s: %w", r.Path, err)
	}
	latest, _ := x.checkpoints.Latest()
	x.point = &restorePoint{snapshot: s, uri: latest.URI, dir: latest.Dir}
	return nil
}

// openCheckpoints opens the directory of the job, which need not be there if it takes no checkpoints.
func (x *Execution) openCheckpoints(ctx context.Context, dir string, claimed []string) (*incremental.Checkpoints, error) {
	return incremental.OpenCheckpoints(ctx, incremental.CheckpointsOptions{
		FS: x.o.FS, Dir: dir, Retain: x.o.Checkpoints.Retain, RebaseEvery: x.o.Checkpoints.RebaseEvery, Claimed: claimed, Logger: x.log,
	})
}

func (x *Execution) savepointRoot() string {
	if x.o.SavepointDir != "" {
		return x.o.SavepointDir
	}
	return storage.Dir(storage.Clean(x.o.Restore.Path))
}

// latest reads the newest checkpoint of the job, or what it was restored from; nil if there is neither.
func (x *Execution) latest(ctx context.Context) (*restorePoint, error) {
	latest, ok := x.checkpoints.Latest()
	if !ok {
		return nil, nil
	}
	s, err := readMetadata(ctx, x.o.FS, latest.URI)
	if err != nil {
		return nil, err
	}
	return &restorePoint{snapshot: s, uri: latest.URI, dir: latest.Dir}, nil
}

// maxMetadata is the largest metadata file that is read, in bytes.
const maxMetadata = 2 << 30

func readMetadata(ctx context.Context, fs storage.FS, uri string) (*metadata.Snapshot, error) {
	data, err := storage.ReadAll(ctx, fs, uri, maxMetadata)
	if err != nil {
		return nil, err
	}
	s, err := metadata.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	return s, nil
}

// do has the goroutine of the execution call a function.
func (x *Execution) do(f func()) bool {
	x.inbox.Lock()
	defer x.inbox.Unlock()
	if x.inbox.closed {
		return false
	}
	x.inbox.calls = append(x.inbox.calls, f)
	select {
	case x.inbox.wake <- struct{}{}:
	default:
	}
	return true
}

// ask is do, and waits until it was done.
func (x *Execution) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	if !x.do(func() { f(); close(done) }) {
		return ErrEnded
	}
	select {
	case <-done:
		return nil
	case <-x.done:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// after is do after a time.
func (x *Execution) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { x.do(f) })
}

// now is the time of the clock.
func (x *Execution) now() int64 { return x.o.Clock() }

// loop runs until the job has ended.
func (x *Execution) loop() {
	ended := x.ctx.Done()
	for !x.Status().Ended() {
		select {
		case <-x.inbox.wake:
		case <-ended:
			ended = nil
			x.finish(StatusSuspended, context.Cause(x.ctx))
		}
		x.inbox.Lock()
		calls := x.inbox.calls
		x.inbox.calls = nil
		x.inbox.Unlock()
		for _, f := range calls {
			f()
		}
	}
	x.inbox.Lock()
	x.inbox.closed = true
	x.inbox.calls = nil
	x.inbox.Unlock()
	x.stop()
	x.c.end()
	x.work.Wait()
	x.cleanUp()
	x.metrics.unregister()
	close(x.done)
}

// cleanUp closes or deletes the checkpoints of a job that has ended.
func (x *Execution) cleanUp() {
	status := x.Status()
	if x.o.Local != nil && status != StatusSuspended {
		x.o.Local.Clean(func(id localrecovery.TaskID) bool { return id.Job != x.id })
	}
	if x.checkpoints == nil {
		return
	}
	ctx := context.Background()
	if !x.o.Checkpoints.Retention.keeps(status) {
		if err := x.checkpoints.Discard(ctx); err != nil {
			x.log.Warn("checkpoints were not deleted", "error", err)
		}
	}
	if err := x.checkpoints.Close(ctx); err != nil {
		x.log.Warn("files of checkpoints were not deleted", "error", err)
	}
}

func (x *Execution) setStatus(s Status) {
	x.inbox.Lock()
	x.status, x.changed, x.up = s, time.Now(), false
	x.since[s] = x.changed
	x.inbox.Unlock()
	x.log.Info("job", "status", s)
}

// Status says what the job does.
func (x *Execution) Status() Status {
	x.inbox.Lock()
	defer x.inbox.Unlock()
	return x.status
}

// ID is that of the job.
func (x *Execution) ID() string { return x.id }

// Name is that of the job.
func (x *Execution) Name() string { return x.job.name }

// Completed is how many checkpoints have completed, without savepoints.
func (x *Execution) Completed() int64 { return x.completed.Load() }

// Done is closed when the job has ended and all is cleaned up.
func (x *Execution) Done() <-chan struct{} { return x.done }

// Wait waits until the job has ended. It gives nil if it finished, or was canceled or stopped; else what it failed with, or why ctx ended.
func (x *Execution) Wait(ctx context.Context) error {
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deploy makes the tasks of the next attempt and starts them.
func (x *Execution) deploy() {
	x.attempts++
	a, err := x.newAttempt(x.ctx, x.attempts, x.point)
	if err != nil {
		x.fail(err)
		return
	}
	x.attempt, x.deploying = a, true
	point := x.point
	x.work.Add(1)
	go func() {
		defer x.work.Done()
		err := a.restore(point)
		if !x.do(func() { x.deployed(a, err) }) {
			a.drop()
		}
	}()
}

func (x *Execution) deployed(a *attempt, err error) {
	x.deploying = false
	switch {
	case x.end != nil: // it is to end before it began
		a.drop()
		x.attemptEnded()
	case err != nil:
		a.drop()
		x.attempt = nil
		var r *errRestore
		if errors.As(err, &r) && x.older(err) {
			return
		}
		x.fail(err)
	default:
		if x.point != nil {
			x.c.counts.Restored++
			x.c.restored = time.Now()
		}
		x.setStatus(StatusRunning)
		a.start()
	}
}

// older has the job go on from an older checkpoint if the newest is damaged.
func (x *Execution) older(cause error) bool {
	latest, ok := x.checkpoints.Latest()
	if !ok || !slices.ContainsFunc([]error{fs.ErrNotExist, serializer.ErrCorrupt, serializer.ErrUnsupported, metadata.ErrTruncated}, func(e error) bool { return errors.Is(cause, e) }) {
		return false
	}
	retained := x.checkpoints.Retained()
	for i := len(retained) - 1; i > 0; i-- {
		if retained[i].URI != latest.URI {
			continue
		}
		x.log.Error("a checkpoint can't be restored: the job goes on from the one before", "checkpoint", retained[i].ID, "older", retained[i-1].ID, "error", cause)
		s, err := x.checkpoints.Restore(x.ctx, retained[i-1].URI, incremental.Claim)
		if err != nil {
			x.log.Error("nor can the older one be read", "error", err)
			return false
		}
		x.point = &restorePoint{snapshot: s, uri: retained[i-1].URI, dir: retained[i-1].Dir}
		x.deploy()
		return true
	}
	return false
}

// taskRunning is told that a task begins.
func (x *Execution) taskRunning(a *attempt) {
	if a.started++; a == x.attempt && a.started == len(a.tasks) && x.end == nil {
		x.inbox.Lock()
		x.up = true
		x.inbox.Unlock()
		x.c.start(a)
	}
}

// taskInputEnded is told that the input of a task has ended.
func (x *Execution) taskInputEnded(a *attempt) {
	if a.endedN++; a == x.attempt && a.endedN == len(a.tasks) && x.end == nil {
		x.c.inputEnded(a)
	}
}

// taskEnded is told that a task has returned.
func (x *Execution) taskEnded(t *task, err error) {
	a := t.run
	if a != x.attempt {
		return
	}
	switch {
	case err == nil || x.end != nil:
	case errors.Is(err, errCanceled): // as the context of the execution is done
		x.finish(StatusSuspended, context.Cause(x.ctx))
	default:
		x.fail(err)
	}
	if a.finished++; a.finished == len(a.tasks) {
		a.wg.Wait()
		a.release()
		if x.end == nil {
			x.end = func() { x.finished(StatusFinished, nil) }
		}
		x.attemptEnded()
	}
}

func (x *Execution) attemptEnded() {
	x.attempt = nil
	end := x.end
	x.end = nil
	end()
}

// fail is told why the attempt can't go on.
func (x *Execution) fail(err error) {
	if x.end != nil || x.Status().Ended() {
		return
	}
	if x.ctx.Err() != nil { // it may be what the end of the context made of a call
		x.finish(StatusSuspended, context.Cause(x.ctx))
		return
	}
	x.log.Error("job failed", "error", err)
	delay, again := x.strategy.next(time.Now())
	again = again && !permanent(err)
	x.setStatus(StatusFailing)
	x.c.stopAttempt(fmt.Errorf("the job failed: %w", err))
	x.whenEnded(func() {
		if !again {
			x.finished(StatusFailed, err)
			return
		}
		x.setStatus(StatusRestarting)
		x.restart = x.after(delay, func() {
			x.restart = nil
			x.c.whenWritten(x.restore)
		})
	})
}

// restore starts the job again.
func (x *Execution) restore() {
	if x.Status() != StatusRestarting {
		return
	}
	x.work.Add(1)
	checkpoints, point := x.checkpoints, x.point
	go func() {
		defer x.work.Done()
		var err error
		if checkpoints != nil {
			if err = checkpoints.Settle(x.ctx); err == nil {
				point, err = x.latest(x.ctx)
			}
		}
		x.do(func() {
			switch {
			case x.Status() != StatusRestarting:
			case err != nil && x.older(err):
			case err != nil:
				x.fail(err)
			default:
				x.metrics.restarts.Inc()
				x.point = point
				x.deploy()
			}
		})
	}()
}

// permanent says that an error comes again each time.
func permanent(err error) bool {
	for _, e := range []error{ErrInFlight, ErrUnclaimed, ErrMaxParallelism, ErrForeign, backend.ErrIncompatible, backend.ErrState} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// whenEnded ends the attempt and calls f when all its tasks have ended.
func (x *Execution) whenEnded(f func()) {
	x.end = f
	if x.attempt == nil {
		x.attemptEnded()
		return
	}
	x.attempt.end()
}

// finish ends the job.
func (x *Execution) finish(s Status, err error) {
	if status := x.Status(); status.Ended() || status == StatusCanceling {
		return
	}
	if x.restart != nil {
		x.restart.Stop()
	}
	if s != StatusSuspended {
		x.setStatus(StatusCanceling)
	}
	x.c.stopAttempt(errors.New("the job ends"))
	x.whenEnded(func() { x.finished(s, err) })
}

func (x *Execution) finished(s Status, err error) {
	x.err = err
	x.setStatus(s)
}

// Cancel ends the job as it is, and waits until it has ended.
func (x *Execution) Cancel(ctx context.Context) error {
	if err := x.ask(ctx, func() { x.finish(StatusCanceled, nil) }); err != nil {
		return err
	}
	select {
	case <-x.done:
		if s := x.Status(); s != StatusCanceled {
			return fmt.Errorf("%w: %s", ErrEnded, s)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
