package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// task is one subtask of a vertex: a goroutine. What others have for it comes as mail, or through its gate.
type task struct {
	run     *attempt
	v       *vertex
	subtask int
	gate    *gate // nil for a source
	source  sourceOperator
	local   *localrecovery.Task
	// restored is where the state came from, if there are local copies.
	restored *localrecovery.Restored

	contexts []*operatorContext // of the operators, in the order of v.nodes
	ops      []operator
	senders  []sender

	wake chan struct{}
	// attention says that there is mail, or a barrier that has overtaken; blocked is how many channels are full to which it sends.
	attention atomic.Bool
	blocked   atomic.Int32

	// backpressured and idle count how long it has waited, in seconds; nil if nobody asks.
	backpressured, idle prometheus.Counter

	mu   sync.Mutex
	mail []func() error

	// Of the goroutine alone:
	ctx       context.Context
	current   *channel // of the batch
	data      buffer
	at        int
	aligns    map[int64]*alignment // by checkpoint
	last      int64                // the newest checkpoint that it took part in
	gone      map[int64]bool       // checkpoints after it that were aborted
	told      int64                // the newest checkpoint that backends know to be complete
	watermark int64
	ended     bool
	suspended bool
	finished  bool
	timer     *time.Timer
	timerAt   int64
	fed       time.Time // when something was fed back last
	loopTimer *time.Timer
	async     sync.WaitGroup
	cancels   map[int64]context.CancelFunc // of checkpoints that are being written
}

// wakeUp has the task look around.
func (t *task) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *task) attend() { t.attention.Store(true) }

// post has the task call a function between two records.
func (t *task) post(f func() error) {
	t.mu.Lock()
	t.mail = append(t.mail, f)
	t.mu.Unlock()
	t.attend()
	t.wakeUp()
}

// interrupted says that the task has something to do before the next record, or can't emit anything.
func (t *task) interrupted() bool { return t.attention.Load() || t.blocked.Load() > 0 }

// interruption is the end of a task because the attempt ends.
var errCanceled = errors.New("canceled")

// guarded makes an error of a panic of what the user of the package wrote.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// main runs the task to its end.
func (t *task) main(ctx context.Context) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, errCanceled) {
			err = fmt.Errorf("%s (%d/%d): %w", t.v.name, t.subtask+1, t.v.parallelism, err)
		}
		t.stop()
	}()
	t.ctx = ctx
	return guarded(t.loop)
}

func (t *task) loop() error {
	ctx := t.ctx
	for _, op := range t.ops {
		if err := op.start(ctx); err != nil {
			return err
		}
	}
	t.run.running(t)
	for !t.finished {
		if err := ctx.Err(); err != nil {
			return errCanceled
		}
		if t.attention.Load() {
			if err := t.attendNow(); err != nil {
				return err
			}
			continue
		}
		if t.blocked.Load() > 0 {
			t.wait(t.backpressured)
			continue
		}
		busy, err := t.step()
		if err != nil {
			return err
		}
		if !busy {
			t.wait(t.idle)
		}
	}
	return nil
}

// wait waits until someone wakes the task, which is counted if there is a counter.
func (t *task) wait(seconds prometheus.Counter) {
	if seconds != nil {
		began := time.Now()
		defer func() { seconds.Add(time.Since(began).Seconds()) }()
	}
	select {
	case <-t.wake:
	case <-t.ctx.Done():
	}
}

// attendNow reads the mail, and looks for a barrier that has overtaken.
func (t *task) attendNow() error {
	t.attention.Store(false)
	t.mu.Lock()
	mail := t.mail
	t.mail = nil
	t.mu.Unlock()
	for _, f := range mail {
		if err := f(); err != nil {
			return err
		}
	}
	if t.gate != nil {
		if b := t.gate.announcement(); b != nil {
			return t.overtaken(b)
		}
	}
	return nil
}

// step works on some records, or one event. It says whether there was anything.
func (t *task) step() (bool, error) {
	if t.source != nil {
		if t.ended || t.suspended {
			return false, nil
		}
		return t.source.produce(t)
	}
	if t.data != nil {
		return true, t.work()
	}
	c, it, ok := t.gate.take()
	if !ok {
		return false, nil
	}
	switch it.event {
	case noEvent:
		if c.edge.feedback {
			if err := t.fedBack(); err != nil {
				return false, err
			}
		}
		t.current, t.data, t.at = c, it.data, 0
		return true, t.work()
	case eventWatermark:
		c.watermark = max(c.watermark, it.watermark)
		return true, t.advance()
	case eventBarrier:
		return true, t.barrier(c, it.barrier)
	case eventEnd:
		c.ended = true
		for _, c := range t.gate.channels[:t.gate.inputs] {
			if !c.ended {
				return true, nil
			}
		}
		if head := t.v.head(); head.loop {
			t.awaitLoop(head.wait)
			return true, nil
		}
		return true, t.end()
	}
	return true, nil
}

// work works on the batch at hand.
func (t *task) work() error {
	n, err := t.current.port.run(t, t.data, t.at)
	if err != nil {
		return err
	}
	t.at = n
	if n == t.data.len() {
		t.data.release()
		t.data, t.current = nil, nil
		for _, s := range t.senders {
			s.flush()
		}
	}
	return nil
}

// advance computes the watermark of all inputs.
func (t *task) advance() error {
	least := int64(maxWatermark)
	for _, c := range t.gate.channels[:t.gate.inputs] {
		least = min(least, c.watermark)
	}
	if least <= t.watermark {
		return nil
	}
	t.watermark = least
	head := t.ops[0].(advancer)
	return head.advance(least)
}

// advancer is the head operator of a task with inputs.
type advancer interface{ advance(watermark int64) error }

// end says that no record follows.
func (t *task) end() error {
	if t.ended {
		return nil
	}
	t.ended = true
	for _, s := range t.senders {
		s.flush()
		s.send(item{event: eventEnd})
	}
	t.run.ended(t)
	return nil
}

// timerDue has operators called at a time of their clock.
func (t *task) timerDue(at int64) {
	if t.timer != nil && t.timerAt <= at {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	// The clock may jump: it is looked at each second at least.
	wait := time.Duration(0)
	if now := t.run.x.now(); at > now {
		wait = time.Second
		if ms := at - now; ms > 0 && ms < 1000 {
			wait = time.Duration(ms) * time.Millisecond
		}
	}
	t.timerAt = at
	var self *time.Timer
	self = time.AfterFunc(wait, func() {
		t.post(func() error {
			if t.timer == self {
				t.timer = nil
			}
			return t.fire()
		})
	})
	t.timer = self
}

// fire calls the timers of processing time that are due. After the barrier of a stop nothing may be given out any more.
func (t *task) fire() error {
	if t.suspended {
		return nil
	}
	now := t.run.x.now()
	for _, op := range t.ops {
		if err := op.fire(now); err != nil {
			return err
		}
	}
	for _, s := range t.senders {
		s.flush()
	}
	return nil
}

// resume goes on after a stop that failed.
func (t *task) resume() error {
	t.suspended = false
	return t.fire()
}

// finish ends the task without error.
func (t *task) finish() {
	t.post(func() error {
		t.finished = true
		return nil
	})
}

// stop lets go of all that the task has.
func (t *task) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.loopTimer != nil {
		t.loopTimer.Stop()
	}
	for _, cancel := range t.cancels {
		cancel()
	}
	for i, op := range t.ops {
		if err := guarded(op.close); err != nil {
			t.run.x.log.Warn("operator was not closed", "operator", t.v.nodes[i].UID, "error", err)
		}
	}
	for _, c := range t.contexts {
		if c.keyed != nil {
			if err := c.keyed.Close(); err != nil {
				t.run.x.log.Warn("backend was not closed", "operator", c.node.UID, "error", err)
			}
		}
	}
	t.async.Wait()
}

// barrier is that of one checkpoint: all tasks have the same one.
type barrier struct {
	id int64
	// base is the newest checkpoint that had completed when it began.
	base    int64
	trigger time.Time
	// unaligned says that it overtakes records; it may become so while it is under way.
	unaligned atomic.Bool
	savepoint bool
	format    backend.SnapshotOptions
	rebase    bool
	// stop has sources give nothing after it; drain has them end before it.
	stop, drain bool
	// atLeastOnce has no channel wait for others.
	atLeastOnce bool
	pending     *incremental.Pending
	inlineBelow int
	// ctx ends with the checkpoint.
	ctx context.Context
}

// alignment is the checkpoint whose barrier has come in some channels.
type alignment struct {
	barrier *barrier
	arrived map[*channel]bool
	since   time.Time
}

// barrier meets a barrier in a channel.
func (t *task) barrier(c *channel, b *barrier) error {
	if t.skips(b) {
		return nil // it has overtaken the records before, or was aborted
	}
	a := t.aligns[b.id]
	if a == nil {
		if !b.atLeastOnce {
			// Those before have not come in this channel: they were given up.
			for id, a := range t.aligns {
				if id < b.id && !a.barrier.atLeastOnce {
					delete(t.aligns, id)
					t.gate.unblock()
				}
			}
		}
		a = &alignment{barrier: b, arrived: map[*channel]bool{}, since: time.Now()}
		t.aligns[b.id] = a
	}
	a.arrived[c] = true
	if len(a.arrived) < t.gate.inputs {
		if !b.atLeastOnce {
			t.gate.block(c, true)
		}
		if b.unaligned.Load() {
			return t.overtaken(b)
		}
		return nil
	}
	return t.checkpoint(b)
}

// overtaken takes part in a checkpoint whose barrier has not come in all channels.
func (t *task) overtaken(b *barrier) error {
	if t.skips(b) || !b.unaligned.Load() {
		return nil
	}
	return t.checkpoint(b)
}

// switched is told that an aligned barrier takes too long.
func (t *task) switched(b *barrier) error {
	if t.gate == nil || t.aligns[b.id] == nil && !t.gate.has(b) {
		return nil
	}
	return t.overtaken(b)
}

// skips says that the task has nothing to do with a checkpoint any more.
func (t *task) skips(b *barrier) bool { return b.id <= t.last || t.gone[b.id] }

// endAlignments forgets the alignments of checkpoints below a number.
func (t *task) endAlignments(below int64) {
	for id, a := range t.aligns {
		if id < below {
			delete(t.aligns, id)
			if !a.barrier.atLeastOnce {
				t.gate.unblock()
			}
		}
	}
}

// abort is told that a checkpoint will not complete.
func (t *task) abort(id int64) error {
	if cancel := t.cancels[id]; cancel != nil {
		cancel()
	}
	if a := t.aligns[id]; a != nil {
		delete(t.aligns, id)
		if !a.barrier.atLeastOnce {
			t.gate.unblock()
		}
	}
	if id > t.last {
		t.gone[id] = true
	}
	for i, op := range t.ops {
		if l, ok := t.contexts[i].keyed.(backend.CheckpointListener); ok {
			l.CheckpointAborted(id)
		}
		if err := op.aborted(t.ctx, id); err != nil {
			return err
		}
	}
	if t.local != nil {
		t.local.Discard(id)
	}
	return nil
}

// complete is told that a checkpoint has completed.
func (t *task) complete(id int64, savepoint bool) error {
	if !savepoint {
		t.tell(id)
	}
	for _, op := range t.ops {
		if err := op.completed(t.ctx, id); err != nil {
			return fmt.Errorf("after checkpoint %d has completed: %w", id, err)
		}
	}
	if t.local != nil && !savepoint {
		t.local.Confirm(id)
	}
	return nil
}

// tell tells the backends of a checkpoint that has completed.
func (t *task) tell(id int64) {
	if id <= t.told {
		return
	}
	t.told = id
	for _, c := range t.contexts {
		if l, ok := c.keyed.(backend.CheckpointListener); ok {
			l.CheckpointCompleted(id)
		}
	}
}

// taskStats is what a checkpoint cost a subtask.
type taskStats struct {
	delay, alignment, sync, async time.Duration
	state, written, channels      int64 // bytes of all, of what is new of it, and of records that were overtaken
}

// checkpoint takes part in a checkpoint: the barrier goes on, the state is taken hold of, and written by another goroutine.
func (t *task) checkpoint(b *barrier) error {
	if t.skips(b) {
		return nil
	}
	started := time.Now()
	stats := taskStats{delay: started.Sub(b.trigger)}
	var k *capture
	if t.gate != nil {
		a := t.aligns[b.id]
		arrived := func(c *channel) bool { return a != nil && a.arrived[c] }
		if a != nil {
			stats.delay, stats.alignment = a.since.Sub(b.trigger), started.Sub(a.since)
		}
		if b.unaligned.Load() {
			k = t.gate.start(b, arrived, t.current, t.data, t.at)
		}
		t.endAlignments(b.id + 1)
	}
	t.last = b.id
	maps.DeleteFunc(t.gone, func(id int64, _ bool) bool { return id <= t.last })
	for _, s := range t.senders {
		s.flush()
		s.send(item{event: eventBarrier, barrier: b})
	}
	t.tell(b.base)

	parts, err := t.hold(b)
	stats.sync = time.Since(started)
	ctx, cancel := context.WithCancel(b.ctx)
	t.cancels[b.id] = cancel
	files := t.begin(b)
	t.async.Add(1)
	go func() {
		defer t.async.Done()
		defer cancel()
		began := time.Now()
		werr := err
		if werr == nil {
			werr = t.write(ctx, files, b.pending, parts, k, &stats)
		}
		for _, p := range parts {
			p.release()
		}
		if k != nil && werr != nil {
			t.gate.drop(k)
		}
		stats.async = time.Since(began)
		files.end(ctx, werr)
		t.post(func() error { delete(t.cancels, b.id); return nil })
		if werr != nil {
			t.run.x.decline(t, b, fmt.Errorf("%s (%d/%d): %w", t.v.name, t.subtask+1, t.v.parallelism, werr))
			return
		}
		t.run.x.acknowledge(t, b, parts, stats)
	}()
	t.suspended = t.suspended || b.stop

	return nil
}

// part is what is held of one operator for a checkpoint.
type part struct {
	result
	operator *backend.OperatorSnapshot
	keyed    backend.Snapshot
}

func (p *part) release() {
	if p.keyed != nil {
		p.keyed.Release()
	}
}

// hold takes hold of the state of all operators.
func (t *task) hold(b *barrier) ([]*part, error) {
	var parts []*part
	for i, op := range t.ops {
		c := t.contexts[i]
		p := &part{result: result{id: c.node.id, state: &metadata.SubtaskState{}}}
		parts = append(parts, p)
		err := op.prepare(t.ctx, b)
		if err == nil {
			p.operator, err = c.op.Snapshot(b.format.Compress)
		}
		if err == nil && c.keyed != nil {
			o := b.format
			o.Rebase = b.rebase
			p.keyed, err = c.keyed.Snapshot(b.id, o)
		}
		if err != nil {
			for _, p := range parts {
				p.release()
			}
			return nil, fmt.Errorf("operator %q: %w", c.node.UID, err)
		}
	}
	return parts, nil
}

// write writes what is held.
func (t *task) write(ctx context.Context, files *checkpointFiles, pending *incremental.Pending, parts []*part, k *capture, stats *taskStats) error {
	target := files.target
	for _, p := range parts {
		h, err := p.operator.Write(ctx, target)
		if err != nil {
			return err
		}
		if h != nil {
			p.state.ManagedOperator = []*metadata.OperatorState{h}
		}
		if p.keyed == nil {
			continue
		}
		if p.state.ManagedKeyed, err = p.keyed.Write(ctx, target); err != nil {
			return err
		}
		p.state.RawKeyed = p.keyed.Raw()
	}
	if k != nil {
		select {
		case <-k.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		var err error
		if parts[0].state.InputChannels, stats.channels, err = k.write(ctx, t.subtask, target); err != nil {
			return err
		}
	}
	for _, p := range parts {
		full, written, err := stateSize(p, target.Dir, pending)
		if err != nil {
			return err
		}
		stats.state += full
		stats.written += written
	}
	return nil
}

// stateSize is the size of the state of an operator in a checkpoint, in files or inline with its handles, and that of what was written for it.
func stateSize(p *part, dir string, pending *incremental.Pending) (full, written int64, err error) {
	s := &metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{{
		ID: p.id, Parallelism: 1, MaxParallelism: 1, Subtasks: []metadata.Subtask{{State: p.state}},
	}}}
	data, err := metadata.Encode(s)
	full, written = int64(len(data)), int64(len(data))
	seen := map[string]bool{}
	for ref := range s.Refs() {
		uri := ref.Path
		if ref.Kind == metadata.RefRelative {
			uri = storage.Join(dir, uri)
		}
		if seen[uri] { // handles of channels share a file
			continue
		}
		seen[uri] = true
		full += max(ref.Size, 0)
		if pending.Wrote(uri) {
			written += max(ref.Size, 0)
		}
	}
	return full, written, err
}
