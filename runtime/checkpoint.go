package runtime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/storage"
)

// coordinator takes the checkpoints and savepoints of an execution (CheckpointCoordinator). It is of the goroutine of the execution.
type coordinator struct {
	x       *Execution
	attempt *attempt // nil if its tasks don't all run
	pending map[int64]*pendingCheckpoint
	timer   *time.Timer
	due     bool // the time for one came when it could not begin
	ended   time.Time
	failed  int // one after the other
	final   bool
	stopped *savepoint // the savepoint that the job ends with
	history []CheckpointStats
	counts  rest.CheckpointCounts
	// restored is when the job was restored last.
	restored time.Time
	// writes counts the metadata files that are being written, written is called when there is none any more.
	writes  int
	written func()
}

// write has f write a metadata file, and then done called with what it gives.
func (c *coordinator) write(f func() error, done func(error)) {
	c.writes++
	c.x.work.Add(1)
	go func() {
		defer c.x.work.Done()
		err := f()
		c.x.do(func() {
			done(err)
			if c.writes--; c.writes == 0 && c.written != nil {
				f := c.written
				c.written = nil
				f()
			}
		})
	}()
}

// whenWritten calls f when no metadata file is being written. A job goes on from the newest checkpoint: that must be decided.
func (c *coordinator) whenWritten(f func()) {
	if c.writes == 0 {
		f()
		return
	}
	c.written = f
}

// CheckpointStats says what became of a checkpoint or savepoint.
type CheckpointStats struct {
	ID        int64
	Status    CheckpointStatus
	Savepoint bool
	// Format is that of a savepoint, Stop says that the job was stopped with it.
	Format    backend.Format
	Stop      bool
	Unaligned bool
	Trigger   time.Time
	// Ended is when it completed or failed, Duration the time since Trigger.
	Ended    time.Time
	Duration time.Duration
	// CheckpointedSize and FullSize are those of [incremental.Completed]; Channels are the bytes of records in flight.
	CheckpointedSize, FullSize, Channels int64
	Path                                 string
	// Discarded says that a checkpoint was deleted, as enough newer ones have completed.
	Discarded bool
	Failure   string
	Subtasks  []SubtaskStats
}

// CheckpointStatus is that of a checkpoint (CheckpointStatsStatus).
type CheckpointStatus string

// The states of a checkpoint.
const (
	CheckpointInProgress CheckpointStatus = "IN_PROGRESS"
	CheckpointCompleted  CheckpointStatus = "COMPLETED"
	CheckpointFailed     CheckpointStatus = "FAILED"
)

// SubtaskStats says what a checkpoint cost a subtask.
type SubtaskStats struct {
	Vertex  string
	Subtask int
	// StartDelay is the time from the trigger until the first barrier, Alignment from then until the last, or until it began to overtake.
	StartDelay, Alignment time.Duration
	// Sync is the time in which the subtask worked on nothing else, Async that in which state was written.
	Sync, Async time.Duration
	// Acknowledged is when all was written.
	Acknowledged time.Time
	// StateSize is the bytes of the state, in files or in the metadata, with Channels, those of records in flight. CheckpointedSize is those that
	// were written, without what older checkpoints have.
	StateSize, CheckpointedSize, Channels int64
}

type pendingCheckpoint struct {
	b         *barrier
	p         *incremental.Pending
	cancel    context.CancelFunc
	attempt   *attempt
	states    map[metadata.OperatorID]*metadata.Operator
	acked     map[*task]bool
	timers    []*time.Timer
	savepoint *savepoint
	writing   bool
	final     bool // all input had ended when it began
	stats     CheckpointStats
}

// savepoint is one that somebody waits for.
type savepoint struct {
	dir   string
	o     SavepointOptions
	stop  bool
	done  func(Savepoint, error)
	saved Savepoint
}

// Savepoint is one that completed.
type Savepoint struct {
	ID int64
	// Path is its directory.
	Path string
}

// SavepointOptions say how a savepoint is taken.
type SavepointOptions struct {
	// Format is [backend.FormatCanonical], which all backends restore, or [backend.FormatRocksDB] for one in Flink's own format.
	Format backend.Format
	// Drain ends event time before a job is stopped: all windows and timers fire. Such a job is not to go on.
	Drain bool
}

func (c *coordinator) init(x *Execution) {
	c.x = x
	c.pending = map[int64]*pendingCheckpoint{}
}

// enabled says that checkpoints are taken.
func (c *coordinator) enabled() bool { return c.x.o.Checkpoints.Interval > 0 }

// start is told that all tasks of an attempt run.
func (c *coordinator) start(a *attempt) {
	c.attempt, c.final, c.failed = a, false, 0
	if c.enabled() && c.timer == nil {
		c.schedule(c.x.o.Checkpoints.Interval)
	}
	if a.endedN == len(a.tasks) {
		c.inputEnded(a)
	}
}

func (c *coordinator) schedule(d time.Duration) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = c.x.after(d, func() {
		c.timer, c.due = nil, true
		c.next()
	})
}

// next begins a checkpoint if the time for one has come and nothing is in the way.
func (c *coordinator) next() {
	o := c.x.o.Checkpoints
	if !c.due || c.attempt == nil || c.final || c.stopped != nil {
		return
	}
	if len(c.pending) >= o.MaxConcurrent {
		return
	}
	if wait := o.MinPause - time.Since(c.ended); !c.ended.IsZero() && wait > 0 {
		c.schedule(wait)
		return
	}
	c.due = false
	c.trigger(nil)
	if c.attempt != nil {
		c.schedule(o.Interval)
	}
}

// inputEnded is told that no task gets anything any more.
func (c *coordinator) inputEnded(a *attempt) {
	if c.attempt != a || c.stopped != nil {
		return
	}
	if !c.enabled() {
		for _, t := range a.tasks {
			t.post(func() error { return t.commitAll() })
			t.finish()
		}
		return
	}
	c.final = true
	c.last()
}

// commitAll commits what no checkpoint will.
func (t *task) commitAll() error {
	for _, op := range t.ops {
		if err := op.prepare(t.ctx, &barrier{id: math.MaxInt64}); err != nil {
			return err
		}
		if err := op.completed(t.ctx, math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// last begins the checkpoint after which the job has finished, unless one that began before is under way.
func (c *coordinator) last() {
	if c.final && c.attempt != nil && len(c.pending) == 0 {
		c.trigger(nil)
	}
}

// trigger begins a checkpoint, or a savepoint.
func (c *coordinator) trigger(s *savepoint) {
	x, o := c.x, c.x.o.Checkpoints
	id := x.checkpoints.NextID()
	var p *incremental.Pending
	var err error
	if s != nil {
		p, err = x.checkpoints.BeginSavepoint(id, s.dir)
	} else {
		p, err = x.checkpoints.Begin(id)
	}
	if err != nil {
		c.couldNot(s, err)
		return
	}
	b := &barrier{
		id: id, base: p.Base(), trigger: time.Now(), savepoint: s != nil, rebase: p.Full(), atLeastOnce: o.Mode == AtLeastOnce && s == nil,
		pending: p, inlineBelow: o.InlineBelow,
	}
	switch {
	case s != nil:
		b.format = backend.SnapshotOptions{Format: s.o.Format, Compress: o.Compress, Savepoint: true}
		b.stop, b.drain = s.stop, s.stop && s.o.Drain
	case o.Incremental:
		b.format = backend.SnapshotOptions{Format: backend.FormatIncremental, Compress: o.Compress}
	default:
		b.format = backend.SnapshotOptions{Format: backend.FormatFull, Compress: o.Compress}
	}
	pc := &pendingCheckpoint{b: b, p: p, attempt: c.attempt, states: map[metadata.OperatorID]*metadata.Operator{}, acked: map[*task]bool{}, savepoint: s, final: c.final && s == nil}
	b.ctx, pc.cancel = context.WithCancel(c.attempt.ctx)
	pc.stats = CheckpointStats{ID: id, Status: CheckpointInProgress, Savepoint: s != nil, Trigger: b.trigger}
	if s != nil {
		pc.stats.Format, pc.stats.Stop = s.o.Format, s.stop
	}
	c.counts.Total++
	if o.Unaligned && s == nil && !c.final {
		if o.AlignedTimeout == 0 {
			b.unaligned.Store(true)
		} else {
			pc.timers = append(pc.timers, x.after(o.AlignedTimeout, func() { c.overtake(pc) }))
		}
	}
	pc.timers = append(pc.timers, x.after(o.Timeout, func() { c.expire(pc) }))
	c.pending[id] = pc
	x.metrics.inProgress.Set(float64(len(c.pending)))
	for _, t := range c.attempt.tasks {
		if t.source != nil {
			t.post(func() error { return t.trigger(b) })
		}
	}
}

// trigger begins a checkpoint at a source.
func (t *task) trigger(b *barrier) error {
	if b.drain {
		if err := t.source.drain(); err != nil {
			return err
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	return t.checkpoint(b)
}

// couldNot is told that a checkpoint could not even begin.
func (c *coordinator) couldNot(s *savepoint, err error) {
	if s == nil {
		c.count(err)
		c.lastLater()
		return
	}
	if c.stopped == s {
		c.stopped = nil
	}
	s.done(Savepoint{}, err)
	c.goOn()
}

// goOn does what had to wait for a stop that failed.
func (c *coordinator) goOn() {
	if a := c.attempt; a != nil && a.endedN == len(a.tasks) {
		c.inputEnded(a)
	}
	c.next()
	c.last()
}

// overtake has a barrier overtake records from now on.
func (c *coordinator) overtake(pc *pendingCheckpoint) {
	if c.pending[pc.b.id] != pc || pc.writing {
		return
	}
	pc.b.unaligned.Store(true)
	for _, t := range pc.attempt.tasks {
		t.post(func() error { return t.switched(pc.b) })
	}
}

func (c *coordinator) expire(pc *pendingCheckpoint) {
	if c.pending[pc.b.id] == pc && !pc.writing {
		c.abort(pc, ErrTimeout, true)
	}
}

// Errors of checkpoints and savepoints.
var (
	// ErrTimeout says that a checkpoint took too long.
	ErrTimeout = errors.New("the checkpoint took longer than its timeout")
	// ErrNotRunning says that not all tasks of the job run.
	ErrNotRunning = errors.New("not all tasks of the job are running")
	// ErrStopping says that the job is being stopped with a savepoint, so that there is no other one.
	ErrStopping = errors.New("the job is being stopped with a savepoint")
	// ErrNoDirectory says that a savepoint has nowhere to go.
	ErrNoDirectory = errors.New("no directory for the savepoint: name one, or set execution.checkpointing.savepoint-dir (SavepointDir)")
)

// acknowledge is told by a task that its part is written.
func (x *Execution) acknowledge(t *task, b *barrier, parts []*part, s taskStats) {
	x.do(func() { x.c.acknowledged(t, b, parts, s) })
}

// decline is told by a task that it could not take part.
func (x *Execution) decline(_ *task, b *barrier, err error) {
	x.do(func() {
		if pc := x.c.pending[b.id]; pc != nil && pc.b == b && !pc.writing {
			x.c.abort(pc, err, true)
		}
	})
}

func (c *coordinator) acknowledged(t *task, b *barrier, parts []*part, s taskStats) {
	pc := c.pending[b.id]
	if pc == nil || pc.b != b || pc.acked[t] {
		return
	}
	pc.acked[t] = true
	for _, p := range parts {
		op := pc.states[p.id]
		if op == nil {
			op = &metadata.Operator{ID: p.id, Parallelism: int32(t.v.parallelism), MaxParallelism: int32(t.v.max)}
			pc.states[p.id] = op
		}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(t.subtask), State: p.state})
	}
	pc.stats.Channels += s.channels
	pc.stats.Subtasks = append(pc.stats.Subtasks, SubtaskStats{
		Vertex: t.v.id(), Subtask: t.subtask, StartDelay: s.delay, Alignment: s.alignment, Sync: s.sync, Async: s.async, Acknowledged: time.Now(), StateSize: s.state, CheckpointedSize: s.written,
		Channels: s.channels,
	})
	if len(pc.acked) == len(pc.attempt.tasks) {
		c.complete(pc)
	}
}

// complete writes the metadata of a checkpoint that all tasks have taken part in.
func (c *coordinator) complete(pc *pendingCheckpoint) {
	pc.writing = true
	s := &metadata.Snapshot{Version: metadata.Version4, CheckpointID: pc.b.id}
	switch {
	case pc.savepoint == nil: // Complete gives it those of a checkpoint
	case pc.savepoint.o.Format == backend.FormatRocksDB:
		s.Properties = metadata.PropertiesOf(metadata.KindNativeSavepoint)
	default:
		s.Properties = metadata.PropertiesOf(metadata.KindCanonicalSavepoint)
	}
	for _, v := range pc.attempt.plan.vertices {
		for _, n := range v.nodes {
			op := pc.states[n.id]
			slices.SortFunc(op.Subtasks, func(a, b metadata.Subtask) int { return int(a.Index - b.Index) })
			s.Operators = append(s.Operators, *op)
		}
	}
	var d incremental.Completed
	c.write(func() (err error) {
		d, err = pc.p.Complete(context.WithoutCancel(c.x.ctx), s)
		return err
	}, func(err error) { c.completed(pc, s, d, err) })
}

// completed is told that the metadata of a checkpoint is written, or why not.
func (c *coordinator) completed(pc *pendingCheckpoint, s *metadata.Snapshot, d incremental.Completed, err error) {
	if err != nil {
		c.abort(pc, err, true)
		return
	}
	c.remove(pc)
	pc.stats.Status, pc.stats.Path = CheckpointCompleted, storage.Dir(d.URI)
	pc.stats.CheckpointedSize, pc.stats.FullSize = d.CheckpointedSize, d.FullSize
	c.remember(pc)
	c.x.log.Info("checkpoint completed", "checkpoint", d.ID, "savepoint", pc.savepoint != nil, "bytes", d.CheckpointedSize, "duration", pc.stats.Duration)
	if pc.savepoint != nil {
		c.savepointCompleted(pc, s, d)
		c.next()
		c.last()
		return
	}
	c.x.completed.Add(1)
	c.failed = 0
	c.ended = time.Now()
	c.discarded()
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		if older := c.pending[id]; id < d.ID && older.savepoint == nil {
			c.abort(older, incremental.ErrSubsumed, false)
		}
	}
	if c.attempt == pc.attempt && c.attempt != nil {
		if a := c.attempt; c.x.o.Local != nil && !a.cleaned {
			a.cleaned = true
			c.x.work.Go(a.cleanLocal)
		}
		for _, t := range pc.attempt.tasks {
			t.post(func() error { return t.complete(d.ID, false) })
			if pc.final {
				t.finish()
			}
		}
	}
	c.next()
	if !pc.final {
		c.last()
	}
}

// discarded notes which checkpoints of the history are not retained any more.
func (c *coordinator) discarded() {
	retained := c.x.checkpoints.Retained()
	for i := range c.history {
		s := &c.history[i]
		if s.Status == CheckpointCompleted && !s.Savepoint {
			s.Discarded = !slices.ContainsFunc(retained, func(r incremental.Completed) bool { return r.ID == s.ID })
		}
	}
}

func (c *coordinator) savepointCompleted(pc *pendingCheckpoint, s *metadata.Snapshot, d incremental.Completed) {
	w := pc.savepoint
	w.saved = Savepoint{d.ID, storage.Dir(d.URI)}
	if !w.stop {
		w.done(w.saved, nil)
		return
	}
	// What the job has done by then is committed next. Should it fail now, or its process, it must go on from the savepoint and from
	// nothing older: so that becomes its newest checkpoint.
	c.write(func() error { return c.x.adopt(context.WithoutCancel(c.x.ctx), s, d) }, func(err error) {
		switch {
		case pc.attempt != c.attempt || c.attempt == nil:
			cause := errors.New("the job failed meanwhile, and goes on from it")
			if err != nil {
				cause = fmt.Errorf("the job failed meanwhile: %w", err)
			}
			w.done(w.saved, fmt.Errorf("the savepoint %s is complete, but the job did not end: %w", w.saved.Path, cause))
		case err != nil:
			w.saved = Savepoint{}
			c.resume(pc, fmt.Errorf("savepoint %s is complete, but the job can't be told to go on from it: %w", storage.Dir(d.URI), err))
		default:
			for _, t := range pc.attempt.tasks {
				t.post(func() error { return t.complete(d.ID, true) })
				t.finish()
			}
		}
	})
}

// adopt makes a savepoint what the job goes on from after a failure: a checkpoint that names the savepoint's files, which stay those of the savepoint.
func (x *Execution) adopt(ctx context.Context, s *metadata.Snapshot, d incremental.Completed) error {
	if x.o.CheckpointDir == "" {
		_, err := x.checkpoints.Restore(ctx, d.URI, incremental.NoClaim)
		return err
	}
	absolute, err := s.Rewrite(func(r metadata.Ref) (metadata.Location, error) {
		if r.Kind == metadata.RefRelative {
			return metadata.Location{Path: storage.Join(d.Dir, r.Path)}, nil
		}
		return metadata.Location{Path: r.Path}, nil
	})
	if err != nil {
		return err
	}
	p, err := x.checkpoints.BeginAdoption(x.checkpoints.NextID())
	if err != nil {
		return err
	}
	absolute.CheckpointID, absolute.Properties = p.ID(), nil
	if _, err = p.Complete(ctx, absolute); err != nil {
		return errors.Join(err, p.Abort(ctx))
	}
	return nil
}

// resume has the job go on that could not be stopped.
func (c *coordinator) resume(pc *pendingCheckpoint, cause error) {
	w := c.stopped
	c.stopped = nil
	w.done(w.saved, cause)
	if w.o.Drain {
		c.x.fail(fmt.Errorf("stop with a savepoint, which was to drain the job: %w", cause))
		return
	}
	for _, t := range pc.attempt.tasks {
		t.post(t.resume)
	}
	c.goOn()
}

// remove forgets a checkpoint that has ended.
func (c *coordinator) remove(pc *pendingCheckpoint) {
	delete(c.pending, pc.b.id)
	pc.cancel()
	for _, t := range pc.timers {
		t.Stop()
	}
	pc.stats.Ended = time.Now()
	pc.stats.Duration = pc.stats.Ended.Sub(pc.stats.Trigger)
	pc.stats.Unaligned = pc.b.unaligned.Load()
}

func (c *coordinator) remember(pc *pendingCheckpoint) {
	if pc.stats.Status == CheckpointCompleted {
		c.counts.Completed++
	} else {
		c.counts.Failed++
	}
	c.x.metrics.ended(pc.stats)
	c.x.metrics.inProgress.Set(float64(len(c.pending)))
	c.history = append(c.history, pc.stats)
	if len(c.history) > max(c.x.o.Checkpoints.History, 0) {
		c.history = c.history[1:]
	}
}

// all gives the history with what is under way, the oldest first.
func (c *coordinator) all() []CheckpointStats {
	all := slices.Clone(c.history)
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		s := c.pending[id].stats
		s.Subtasks = slices.Clone(s.Subtasks)
		all = append(all, s)
	}
	return all
}

// abort ends a checkpoint that can't complete.
func (c *coordinator) abort(pc *pendingCheckpoint, cause error, counts bool) {
	if c.pending[pc.b.id] != pc {
		return
	}
	c.remove(pc)
	pc.stats.Status, pc.stats.Failure = CheckpointFailed, cause.Error()
	c.remember(pc)
	c.x.log.Warn("checkpoint failed", "checkpoint", pc.b.id, "error", cause)
	c.x.work.Add(1)
	go func() {
		defer c.x.work.Done()
		if err := pc.p.Abort(context.WithoutCancel(c.x.ctx)); err != nil {
			c.x.log.Warn("files of a checkpoint were not deleted", "checkpoint", pc.b.id, "error", err)
		}
	}()
	if pc.attempt == c.attempt && c.attempt != nil {
		for _, t := range pc.attempt.tasks {
			t.post(func() error { return t.abort(pc.b.id) })
		}
	}
	kind := "checkpoint"
	if pc.savepoint != nil {
		kind = "savepoint"
	}
	cause = fmt.Errorf("%s %d: %w", kind, pc.b.id, cause)
	switch w := pc.savepoint; {
	case w != nil && w.stop && c.attempt == pc.attempt && c.attempt != nil:
		c.resume(pc, cause)
	case w != nil:
		w.done(Savepoint{}, cause)
	case counts:
		c.count(cause)
	}
	c.next()
	if pc.final {
		c.lastLater()
	} else {
		c.last()
	}
}

// lastLater is last after the time between checkpoints, as one has just failed.
func (c *coordinator) lastLater() {
	if c.final {
		c.x.after(c.x.o.Checkpoints.Interval, c.last)
	}
}

// count counts a checkpoint that failed.
func (c *coordinator) count(err error) {
	if c.failed++; c.failed > c.x.o.Checkpoints.Tolerable {
		c.x.fail(fmt.Errorf("%d checkpoints failed, and %d are tolerable (execution.checkpointing.tolerable-failed-checkpoints): %w", c.failed, c.x.o.Checkpoints.Tolerable, err))
	}
}

// stopAttempt aborts what is under way.
func (c *coordinator) stopAttempt(cause error) {
	c.attempt = nil
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.due, c.final = false, false
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		if pc := c.pending[id]; !pc.writing {
			c.abort(pc, cause, false)
		}
	}
	if w := c.stopped; w != nil && w.saved.Path != "" {
		w.done(w.saved, fmt.Errorf("the savepoint %s is complete, but the job did not end: %w", w.saved.Path, cause))
	}
	c.stopped = nil
}

// end is called when the job has ended.
func (c *coordinator) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
	if w := c.stopped; w != nil && w.saved.Path != "" {
		w.done(w.saved, nil)
	}
	for _, pc := range c.pending {
		if pc.savepoint != nil {
			pc.savepoint.done(Savepoint{}, ErrEnded)
		}
	}
}

// savepointDir names a new directory as Flink does.
func (x *Execution) savepointDir(root string) (string, error) {
	if root == "" {
		root = x.o.SavepointDir
	}
	if root == "" {
		return "", ErrNoDirectory
	}
	var r [6]byte
	if _, err := rand.Read(r[:]); err != nil {
		return "", err
	}
	return storage.Join(root, "savepoint-"+x.id[:6]+"-"+hex.EncodeToString(r[:])), nil
}

// openForSavepoints makes a job that has no directory of its own, and was restored from nothing, able to take savepoints.
func (x *Execution) openForSavepoints(ctx context.Context, root string) error {
	open := false
	if err := x.ask(ctx, func() { open = x.checkpoints != nil }); err != nil || open {
		return err
	}
	if x.o.FS == nil {
		return errors.New("no storage (FS) for savepoints")
	}
	c, err := x.openCheckpoints(ctx, storage.Join(root, ".job-"+x.id), nil)
	if err != nil {
		return err
	}
	return x.ask(ctx, func() {
		if x.checkpoints == nil {
			x.checkpoints = c
		}
	})
}

// savepoint takes a savepoint and waits for it.
func (x *Execution) savepoint(ctx context.Context, root string, o SavepointOptions, stop bool) (Savepoint, error) {
	if o.Format != backend.FormatCanonical && o.Format != backend.FormatRocksDB {
		return Savepoint{}, fmt.Errorf("a savepoint is canonical or native")
	}
	if x.job.iterative() && !x.o.Checkpoints.ForceIterations {
		return Savepoint{}, ErrIterations
	}
	dir, err := x.savepointDir(root)
	if err != nil {
		return Savepoint{}, err
	}
	if err := x.openForSavepoints(ctx, storage.Dir(dir)); err != nil {
		return Savepoint{}, err
	}
	type answer struct {
		s   Savepoint
		err error
	}
	answers := make(chan answer, 1)
	s := &savepoint{dir: dir, o: o, stop: stop, done: func(s Savepoint, err error) {
		select {
		case answers <- answer{s, err}:
		default:
		}
	}}
	err = x.ask(ctx, func() {
		switch {
		case x.c.attempt == nil:
			s.done(Savepoint{}, ErrNotRunning)
		case x.c.stopped != nil:
			s.done(Savepoint{}, ErrStopping)
		case x.c.final:
			s.done(Savepoint{}, errors.New("the job is about to finish"))
		default:
			if stop {
				x.c.stopped = s
				// Checkpoints that end after it would be of no use.
				for _, id := range slices.Sorted(maps.Keys(x.c.pending)) {
					if pc := x.c.pending[id]; pc.savepoint == nil && !pc.writing {
						x.c.abort(pc, ErrStopping, false)
					}
				}
			}
			x.c.trigger(s)
		}
	})
	if err != nil {
		return Savepoint{}, err
	}
	select {
	case a := <-answers:
		return a.s, a.err
	case <-ctx.Done():
		return Savepoint{}, ctx.Err()
	case <-x.done:
		select {
		case a := <-answers:
			return a.s, a.err
		default:
			return Savepoint{}, ErrEnded
		}
	}
}

// Savepoint takes a savepoint below a directory, that of the options if it is "", and waits until it has completed. If ctx ends, it goes on.
func (x *Execution) Savepoint(ctx context.Context, dir string, o SavepointOptions) (Savepoint, error) {
	return x.savepoint(ctx, dir, o, false)
}

// Stop takes a savepoint after which the job gives out nothing more, and ends the job. An error with a path in the Savepoint says that it
// is complete, but that the job went on from there.
func (x *Execution) Stop(ctx context.Context, dir string, o SavepointOptions) (Savepoint, error) {
	s, err := x.savepoint(ctx, dir, o, true)
	if err != nil {
		return s, err
	}
	select {
	case <-x.done:
		return s, nil
	case <-ctx.Done():
		return s, ctx.Err()
	}
}

// CancelWithSavepoint takes a savepoint and then cancels the job, which may give out more meanwhile; Flink advises Stop instead.
func (x *Execution) CancelWithSavepoint(ctx context.Context, dir string, o SavepointOptions) (Savepoint, error) {
	s, err := x.savepoint(ctx, dir, o, false)
	if err != nil {
		return s, err
	}
	return s, x.Cancel(ctx)
}

// Checkpoints gives the last checkpoints and savepoints, the oldest first, with those that are under way.
func (x *Execution) Checkpoints(ctx context.Context) ([]CheckpointStats, error) {
	var stats []CheckpointStats
	err := x.ask(ctx, func() {
		stats = x.c.all()
	})
	if err != nil {
		return nil, err // the call may come yet
	}
	return stats, nil
}
