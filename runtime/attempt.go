package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
)

// attempt is one run of all tasks of a job, from its start or restart to its end or failure.
type attempt struct {
	x      *Execution
	number int
	plan   *plan
	tasks  []*task
	of     map[*vertex][]*task
	ctx    context.Context
	cancel context.CancelFunc
	memory *pebble.Memory
	dir    string // of databases
	wg     sync.WaitGroup

	// Of the goroutine of the execution:
	started  int
	finished int
	endedN   int
	cleaned  bool // cleanLocal was called
}

// restorePoint is what an attempt restores.
type restorePoint struct {
	snapshot *metadata.Snapshot
	uri, dir string
}

// operators gives what is saved of each operator; nothing if r is nil.
func (r *restorePoint) operators() map[metadata.OperatorID]*metadata.Operator {
	ops := map[metadata.OperatorID]*metadata.Operator{}
	if r != nil {
		for i := range r.snapshot.Operators {
			ops[r.snapshot.Operators[i].ID] = &r.snapshot.Operators[i]
		}
	}
	return ops
}

// planFor gives the plan of the job if it is restored from r, or from nothing.
func (x *Execution) planFor(r *restorePoint) (*plan, error) {
	ops := r.operators()
	return newPlan(x.job, x.o.Parallelism, x.o.MaxParallelism, func(n *node) int {
		if op := ops[n.id]; op != nil {
			return int(op.MaxParallelism)
		}
		return 0
	})
}

// newAttempt makes the tasks of a job.
func (x *Execution) newAttempt(ctx context.Context, number int, r *restorePoint) (*attempt, error) {
	p, err := x.planFor(r)
	if err != nil {
		return nil, err
	}
	a := &attempt{x: x, number: number, plan: p, of: map[*vertex][]*task{}}
	a.ctx, a.cancel = context.WithCancel(ctx)
	if x.o.Backend == BackendPebble {
		if err := a.openMemory(); err != nil {
			a.cancel()
			a.release()
			return nil, fmt.Errorf("memory of Pebble: %w", err)
		}
	}
	for _, v := range p.vertices {
		for i := range v.parallelism {
			t := &task{run: a, v: v, subtask: i, wake: make(chan struct{}, 1), gone: map[int64]bool{}, aligns: map[int64]*alignment{}, cancels: map[int64]context.CancelFunc{}, watermark: minWatermark}
			if !v.head().source {
				t.gate = &gate{t: t}
			}
			a.of[v] = append(a.of[v], t)
			a.tasks = append(a.tasks, t)
		}
	}
	for _, v := range p.vertices {
		for _, t := range a.of[v] {
			for _, e := range v.head().in {
				from := a.of[p.of[e.from]]
				for i, sender := range from {
					if p.ship[e] == shipForward && i != t.subtask {
						continue
					}
					if !e.feedback { // which is the last input
						t.gate.inputs++
					}
					t.gate.channels = append(t.gate.channels, &channel{g: t.gate, input: e.input, from: i, edge: e, sender: sender, watermark: minWatermark})
				}
			}
		}
	}
	for _, t := range a.tasks {
		if err := guarded(func() error { t.build(); return nil }); err != nil {
			a.cancel()
			a.release()
			return nil, fmt.Errorf("%s (%d/%d): %w", t.v.name, t.subtask+1, t.v.parallelism, err)
		}
		x.metrics.of(t)
	}
	return a, nil
}

func (a *attempt) openMemory() (err error) {
	if a.dir, err = os.MkdirTemp(a.x.o.WorkDir, "drey-"); err != nil {
		return err
	}
	o := a.x.o.Pebble.Memory
	slots := 1
	for _, v := range a.plan.vertices {
		slots = max(slots, v.parallelism)
		for _, n := range v.nodes {
			if n.keyed && a.x.o.Pebble.Memory.Backends == 0 {
				o.Backends += v.parallelism
			}
		}
	}
	// The subtasks of the same index share a slot, and all slots are in this process.
	if o.Size == 0 {
		o.Size = pebble.DefaultMemory
	}
	if !a.x.o.Pebble.PerProcess {
		o.Size *= int64(slots)
	}
	a.memory, err = pebble.NewMemory(o)
	return err
}

// scratch is the directory for the database of an operator.
func (a *attempt) scratch(c *operatorContext) string {
	return filepath.Join(a.dir, fmt.Sprintf("%x-%d", c.node.id[:], c.t.subtask))
}

// release lets go of what the attempt has for all tasks.
func (a *attempt) release() {
	if a.memory != nil {
		a.memory.Close()
	}
	if a.dir != "" {
		if err := os.RemoveAll(a.dir); err != nil {
			a.x.log.Warn("local directory was not removed", "error", err)
		}
	}
}

// channelsOf are those of an edge that a subtask sends to.
func (a *attempt) channelsOf(e *edge, subtask int) []*channel {
	var channels []*channel
	for _, t := range a.of[a.plan.of[e.to]] {
		for _, c := range t.gate.channels {
			if c.edge == e && c.from == subtask {
				channels = append(channels, c)
			}
		}
	}
	return channels
}

// build makes the operators of a task, the last ones first.
func (t *task) build() {
	a := t.run
	t.ops = make([]operator, len(t.v.nodes))
	t.contexts = make([]*operatorContext, len(t.v.nodes))
	for i, n := range slices.Backward(t.v.nodes) {
		var outs []any
		for _, e := range n.out {
			if a.plan.chained[e] {
				outs = append(outs, t.ops[t.v.position(e.to)].receiver(e.input))
			} else {
				outs = append(outs, e.writer(t, a.plan.ship[e], a.plan.of[e.to].max, a.channelsOf(e, t.subtask)))
			}
		}
		t.ops[i] = n.make(outs)
		t.contexts[i] = &operatorContext{t: t, node: n, op: backend.NewOperator()}
	}
	if t.gate == nil {
		t.source = t.ops[0].(sourceOperator)
		return
	}
	for _, c := range t.gate.channels {
		c.port = c.edge.port(t.ops[0].receiver(c.input))
	}
}

// fits refuses what the job can't go on from.
func (x *Execution) fits(r *restorePoint, p *plan) error {
	nodes := map[metadata.OperatorID]*node{}
	for n := range p.of {
		nodes[n.id] = n
	}
	seen := map[metadata.OperatorID]bool{}
	for i := range r.snapshot.Operators {
		op := &r.snapshot.Operators[i]
		if seen[op.ID] {
			return fmt.Errorf("%s: operator %x is there twice: %w", r.uri, op.ID[:], ErrForeign)
		}
		seen[op.ID] = true
		n := nodes[op.ID]
		if n == nil {
			continue
		}
		refuse := func(what string) error { return fmt.Errorf("%s: operator %q: %w: %s", r.uri, n.UID, ErrForeign, what) }
		switch {
		case op.FullyFinished:
			return refuse("it had finished, and would begin anew")
		case op.Coordinator != nil:
			return refuse("state of a coordinator, as Flink's sources of FLIP-27 have it")
		case op.Parallelism < 1 || op.MaxParallelism < 1 || op.MaxParallelism > keygroup.UpperBound:
			return refuse(fmt.Sprintf("parallelism %d of %d", op.Parallelism, op.MaxParallelism))
		}
		head := p.of[n].head() == n
		for _, s := range op.Subtasks {
			switch st := s.State; {
			case st == nil:
				return refuse(fmt.Sprintf("subtask %d had finished, and would begin anew", s.Index))
			case s.Index < 0 || s.Index >= op.Parallelism:
				return refuse(fmt.Sprintf("subtask %d of %d", s.Index, op.Parallelism))
			case len(st.Legacy) > 0 || slices.ContainsFunc(st.RawOperator, func(h *metadata.OperatorState) bool { return h != nil }):
				return refuse("raw operator state, or state of Flink before 1.2")
			case len(st.OutputChannels) > 0:
				return fmt.Errorf("%s: operator %q: %w: they are on their way out, which only Flink's network has; restore from a savepoint or an aligned checkpoint",
					r.uri, n.UID, ErrInFlight)
			case len(st.InputChannels) > 0 && (!head || n.source):
				return fmt.Errorf("%s: operator %q: %w: it runs in the task of the operator before it now and has no channel; set NewChain, or restore with the same parallelism, or from a savepoint or an aligned checkpoint",
					r.uri, n.UID, ErrInFlight)
			}
		}
	}
	return x.unclaimed(r, p)
}

// ErrForeign says that a snapshot has what no job of this package can go on from.
var ErrForeign = errors.New("a snapshot that can't be restored here")

// unclaimed refuses state of operators that the job does not have.
func (x *Execution) unclaimed(r *restorePoint, p *plan) error {
	known := map[metadata.OperatorID]bool{}
	for n := range p.of {
		known[n.id] = true
	}
	var lost []string
	for i := range r.snapshot.Operators {
		op := &r.snapshot.Operators[i]
		if known[op.ID] || !hasState(op) {
			continue
		}
		name := fmt.Sprintf("%x", op.ID[:])
		if op.UID != "" {
			name += fmt.Sprintf(" (uid %q)", op.UID.String())
		}
		lost = append(lost, name)
	}
	switch {
	case len(lost) == 0:
		return nil
	case x.o.Restore.AllowNonRestored:
		x.log.Warn("state of operators that the job does not have is passed over", "snapshot", r.uri, "operators", lost)
		return nil
	}
	return fmt.Errorf("%s: %w: %s; give the operators their old uids, or allow non-restored state (execution.state-recovery.ignore-unclaimed-state)", r.uri, ErrUnclaimed, strings.Join(lost, ", "))
}

// ErrUnclaimed says that a snapshot has state of operators that the job does not have.
var ErrUnclaimed = errors.New("the snapshot has state of operators that the job does not have")

func hasState(op *metadata.Operator) bool {
	if op.Coordinator != nil {
		return true
	}
	for _, s := range op.Subtasks {
		if st := s.State; st != nil && (st.ManagedKeyed != nil || st.RawKeyed != nil || len(st.ManagedOperator)+len(st.RawOperator)+len(st.InputChannels)+len(st.OutputChannels)+len(st.Legacy) > 0) {
			return true
		}
	}
	return false
}

// errRestore is what a state that can't be restored gives.
type errRestore struct{ err error }

func (e *errRestore) Error() string { return e.err.Error() }
func (e *errRestore) Unwrap() error { return e.err }

// restorers is how many tasks are restored at a time.
const restorers = 8

// restore opens the states of all tasks and fills them.
func (a *attempt) restore(r *restorePoint) error {
	ops := r.operators()
	if local := a.x.o.Local; local != nil && r == nil {
		// No checkpoint has completed, of which older attempts may have left copies.
		local.Clean(func(id localrecovery.TaskID) bool { return id.Job != a.x.id })
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	limit := make(chan struct{}, restorers)
	var wg sync.WaitGroup
	for _, t := range a.tasks {
		limit <- struct{}{}
		wg.Add(1)
		go func() {
			defer func() { <-limit; wg.Done() }()
			if err := guarded(func() error { return t.restore(ctx, r, ops) }); err != nil {
				cancel(fmt.Errorf("%s (%d/%d): %w", t.v.name, t.subtask+1, t.v.parallelism, err))
			}
		}()
	}
	wg.Wait()
	if ctx.Err() == nil && r != nil {
		if err := a.restoreChannels(ctx, r, ops); err != nil {
			cancel(err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	a.tellLocal(r)
	return nil
}

// tellLocal says what was restored from local copies.
func (a *attempt) tellLocal(r *restorePoint) {
	if a.x.o.Local != nil && r != nil {
		s := a.localStats()
		a.x.log.Info("state restored", "checkpoint", r.snapshot.CheckpointID, "localFiles", s.LocalFiles, "localBytes", s.LocalBytes, "remoteFiles", s.RemoteFiles, "remoteBytes", s.RemoteBytes)
	}
}

// cleanLocal removes the copies of subtasks that there were at another parallelism. Until a checkpoint has completed a restart needs them.
func (a *attempt) cleanLocal() {
	live := map[localrecovery.TaskID]bool{}
	for _, t := range a.tasks {
		live[t.local.ID()] = true
	}
	a.x.o.Local.Clean(func(id localrecovery.TaskID) bool { return id.Job != a.x.id || live[id] })
}

// localStats says where the state of all tasks came from.
func (a *attempt) localStats() localrecovery.Stats {
	var sum localrecovery.Stats
	for _, t := range a.tasks {
		if t.restored != nil {
			s := t.restored.Stats()
			sum.LocalFiles += s.LocalFiles
			sum.LocalBytes += s.LocalBytes
			sum.RemoteFiles += s.RemoteFiles
			sum.RemoteBytes += s.RemoteBytes
		}
	}
	return sum
}

func (t *task) restore(ctx context.Context, r *restorePoint, ops map[metadata.OperatorID]*metadata.Operator) error {
	x := t.run.x
	fs := x.o.FS
	if x.o.Local != nil {
		// All slots are of this process, so that it makes no difference in which one a copy is: localrecovery.Assign is for several.
		var err error
		t.local, err = x.o.Local.Task(localrecovery.TaskID{Allocation: fmt.Sprintf("slot-%d", t.subtask), Job: x.id, Vertex: t.v.id(), Subtask: t.subtask})
		if err != nil {
			return err
		}
		if r != nil {
			t.restored = t.local.Restore(ctx, r.snapshot.CheckpointID, fs)
			fs = t.restored
		}
	}
	for i, op := range t.ops {
		c := t.contexts[i]
		if err := op.open(c); err != nil {
			return fmt.Errorf("operator %q: %w", c.node.UID, err)
		}
		saved := ops[c.node.id]
		if saved == nil {
			continue
		}
		files := backend.Files{FS: fs, Dir: r.dir}
		shares := backend.RepartitionOperator(backend.OperatorHandlesOf(saved), t.v.parallelism)
		err := c.op.Restore(ctx, files, shares[t.subtask])
		if err == nil && c.keyed != nil {
			var h backend.Handles
			if h, err = backend.HandlesOf(saved, c.groups()); err == nil {
				err = c.keyed.Restore(ctx, files, h)
			}
		}
		if err != nil {
			return &errRestore{fmt.Errorf("%s: operator %q: %w", r.uri, c.node.UID, err)}
		}
	}
	return nil
}

// restoreChannels puts the records that were overtaken back into the channels.
func (a *attempt) restoreChannels(ctx context.Context, r *restorePoint, ops map[metadata.OperatorID]*metadata.Operator) error {
	for _, v := range a.plan.vertices {
		saved := ops[v.head().id]
		if saved == nil {
			continue
		}
		files := backend.Files{FS: a.x.o.FS, Dir: r.dir}
		if local := a.of[v][0].restored; local != nil {
			files.FS = local // it has the copies of all subtasks
		}
		for _, s := range saved.Subtasks {
			if s.State == nil {
				continue
			}
			for i := range s.State.InputChannels {
				err := readChannel(ctx, files, &s.State.InputChannels[i], func(c *backend.Channel, data []byte) error {
					return a.restoreChannel(v, int(s.Index), int(saved.Parallelism), c, data)
				})
				if err != nil {
					return &errRestore{fmt.Errorf("%s: operator %q: %w", r.uri, v.head().UID, err)}
				}
			}
		}
	}
	return nil
}

// restoreChannel puts the records of one channel of an old subtask into those that have them now.
func (a *attempt) restoreChannel(v *vertex, subtask, parallelism int, c *backend.Channel, data []byte) error {
	if int(c.Group) >= len(v.head().in) || c.Group < 0 || c.Channel < 0 {
		return fmt.Errorf("records in %s, but the operator has %d inputs: %w", c, len(v.head().in), ErrInFlight)
	}
	e := v.head().in[c.Group]
	senders := a.plan.of[e.from].parallelism
	same := parallelism == v.parallelism && int(c.Channel) < senders
	if !same && a.plan.ship[e] == shipBroadcast {
		// Each old subtask has met another part of what all get.
		return fmt.Errorf("%s: %w: they are for all subtasks, of which there are %d now and were %d; restore with the same parallelism, or from a savepoint or an aligned checkpoint",
			e, ErrInFlight, v.parallelism, parallelism)
	}
	of := func(target int) *channel {
		from := int(c.Channel) % senders
		for _, ch := range a.of[v][target].gate.channels {
			if ch.edge == e && (ch.from == from || a.plan.ship[e] == shipForward) {
				return ch
			}
		}
		return nil
	}
	return e.decode(data, v.max, v.parallelism, func(target int, it item) {
		switch {
		case it.data == nil:
			// A watermark is that of its channel; after a rescale the next one does.
			if same {
				of(subtask).restored(it)
			}
		case a.plan.ship[e] == shipHash:
			of(target).restored(it)
		default:
			of(subtask % v.parallelism).restored(it)
		}
	})
}

// restored appends an item before the tasks run.
func (c *channel) restored(it item) {
	c.queue = append(c.queue, it)
	if it.data != nil {
		c.batches++
	}
}

// ErrInFlight says that the records in flight in an unaligned checkpoint can't be restored into this job.
var ErrInFlight = errors.New("records in flight can't be restored")

// start runs the tasks.
func (a *attempt) start() {
	for _, t := range a.tasks {
		a.wg.Add(1)
		go func() {
			defer a.wg.Done()
			err := t.main(a.ctx)
			a.x.do(func() { a.x.taskEnded(t, err) })
		}()
	}
}

// end has all tasks end after the record at hand.
func (a *attempt) end() {
	a.cancel()
	for _, t := range a.tasks {
		t.attend()
	}
}

// drop closes tasks that were never run.
func (a *attempt) drop() {
	a.cancel()
	for _, t := range a.tasks {
		t.stop()
	}
	a.release()
}

// running is told by a task that it runs.
func (a *attempt) running(*task) { a.x.do(func() { a.x.taskRunning(a) }) }

// ended is told by a task that its input has ended.
func (a *attempt) ended(*task) { a.x.do(func() { a.x.taskInputEnded(a) }) }
