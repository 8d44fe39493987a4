package runtime

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Iteration is a loop: the records of its stream, and what is fed back (IterativeStream).
//
// What is fed back has no watermarks and passes no barriers. So records in the loop are late for windows that have ended, and they are not part of checkpoints and savepoints: a job
// that goes on from one has lost them. Jobs with loops are refused checkpoints and savepoints for that, unless [CheckpointOptions].ForceIterations is set.
type Iteration[T any] struct {
	stream Stream[T]
}

// Iterate begins a loop of the records of a stream and of those that [Iteration.CloseWith] feeds back. It ends in a subtask when its input has ended and nothing was fed back to it for a
// time; 0 means never, so that the job has to be stopped. A record that comes back later fails the job with [ErrLoopEnded]: the wait must be longer than a
// round takes.
func Iterate[T any](s Stream[T], o Op, wait time.Duration) *Iteration[T] {
	if s.from == nil {
		return &Iteration[T]{}
	}
	job := s.from.job
	n := job.add(o, func(outs []any) operator {
		out := output[T](outs)
		return &function[T]{f: out.receive, forward: out.advance}
	})
	n.loop, n.wait = true, wait
	if wait < 0 {
		job.fail("loop %q: a wait of %s", n.UID, wait)
	}
	connect(s, n, shipForward, nil)
	return &Iteration[T]{stream: Stream[T]{from: n, codec: s.codec}}
}

// Stream gives the records that go through the loop, each round anew.
func (it *Iteration[T]) Stream() Stream[T] { return it.stream }

// CloseWith feeds a stream back that comes from that of the loop. It must be called once.
func (it *Iteration[T]) CloseWith(s Stream[T]) {
	n := it.stream.from
	if n == nil || s.from == nil {
		return
	}
	switch {
	case n.closed():
		n.job.fail("loop %q is closed twice", n.UID)
	case !s.from.follows(n, map[*node]bool{}):
		n.job.fail("loop %q: what is fed back does not come from its stream", n.UID)
	default:
		if e := connect(s, n, shipForward, nil); e != nil {
			e.feedback = true
		}
	}
}

// ErrIterations says that a job with loops can have no checkpoints and savepoints.
var ErrIterations = errors.New("records in a loop are not part of checkpoints and savepoints, and lost after a failure: " +
	"set ForceIterations (execution.checkpointing.force) to take them all the same")

// ErrLoopEnded says that a record came back to a loop that had ended.
var ErrLoopEnded = errors.New("a record was fed back after the loop had ended: give Iterate a longer wait")

// closed says whether something is fed back to the head of a loop.
func (n *node) closed() bool {
	return slices.ContainsFunc(n.in, func(e *edge) bool { return e.feedback })
}

// follows says whether records of another operator come to this one.
func (n *node) follows(other *node, seen map[*node]bool) bool {
	if n == other {
		return true
	}
	seen[n] = true
	return slices.ContainsFunc(n.in, func(e *edge) bool { return !seen[e.from] && e.from.follows(other, seen) })
}

// iterative says whether the job has loops.
func (j *Job) iterative() bool {
	return slices.ContainsFunc(j.nodes, func(n *node) bool { return n.loop })
}

// awaitLoop ends the task when nothing was fed back for a time.
func (t *task) awaitLoop(after time.Duration) {
	wait := t.v.head().wait
	if wait == 0 {
		return
	}
	t.loopTimer = time.AfterFunc(after, func() {
		t.post(func() error {
			idle := time.Since(t.fed)
			if t.data != nil || t.gate.fedBack() > 0 {
				idle = 0
			}
			if idle >= wait {
				return t.end()
			}
			t.awaitLoop(wait - idle)
			return nil
		})
	})
}

// fedBack is called with each batch that comes back.
func (t *task) fedBack() error {
	if t.ended {
		return fmt.Errorf("loop %q: %w", t.v.head().UID, ErrLoopEnded)
	}
	t.fed = time.Now()
	return nil
}
