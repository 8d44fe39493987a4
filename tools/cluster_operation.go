package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/drey-state/drey/rest"
)

// SaveOptions says how a savepoint is taken, and for how long it is waited for.
type SaveOptions struct {
	// Dir is the directory in which Flink makes the savepoint's own, as a URI or
	// an absolute path of the cluster; empty for the one of its configuration.
	Dir string
	// Format; empty: canonical.
	Format rest.Format
	// NoWait returns when Flink has accepted the request. What goes wrong later is then not told.
	NoWait bool
	// Timeout of waiting; 0: for ever. What goes on in the cluster is not ended by it.
	Timeout time.Duration
	// Progress is called now and then while waiting. Nil: never.
	Progress func(SaveProgress)
}

// SaveProgress is how far an operation is.
type SaveProgress struct {
	Elapsed time.Duration
	// Acknowledged of Subtasks have written their state; 0 of 0 if that is not known.
	Acknowledged, Subtasks int
	// Ending: it waits for the job to end.
	Ending bool
}

// ClusterChange is what was done to a job.
type ClusterChange struct {
	// Operation is savepoint, stop or cancel.
	Operation string `json:"operation"`
	// Job as it was last seen.
	Job ClusterJob `json:"job"`
	// Trigger is the id of the operation in the cluster; "" for a cancellation without savepoint.
	Trigger string `json:"trigger,omitempty"`
	// Savepoint is the path of the savepoint in Flink's spelling; "" if there is none, or it wasn't waited for.
	Savepoint string `json:"savepoint,omitempty"`
	// Done is false if it wasn't waited for.
	Done bool `json:"done"`
	// Gone: while the job was ending the job manager forgot it or went away, as that of an application does when its job has ended.
	Gone bool `json:"gone,omitempty"`
}

// PendingError says that waiting has ended and the operation has not: it goes
// on in the cluster. It unwraps to the error of the context, or context.DeadlineExceeded.
type PendingError struct {
	Operation string
	Job       ClusterJob
	// Trigger to wait for it by, with Cluster.Await.
	Trigger string
	// Savepoint that was taken; then only the end of the job is pending.
	Savepoint string
	// Uncertain: Flink has not said that it has begun.
	Uncertain bool

	cause error
}

// Error implements error.
func (e *PendingError) Error() string {
	switch {
	case e.Savepoint != "":
		return fmt.Sprintf("%s of %s: the savepoint is complete: %s; the job is ending: %s", e.Operation, &e.Job, e.Savepoint, e.cause)
	case e.Uncertain:
		return fmt.Sprintf("%s of %s: Flink did not say whether it began: %s", e.Operation, &e.Job, e.cause)
	}
	return fmt.Sprintf("%s of %s: it goes on in the cluster: %s", e.Operation, &e.Job, e.cause)
}

// Unwrap gives why it was no longer waited for.
func (e *PendingError) Unwrap() error { return e.cause }

// Savepoint takes a savepoint of a job, which goes on.
func (c *Cluster) Savepoint(ctx context.Context, job string, o SaveOptions) (*ClusterChange, error) {
	return c.save(ctx, "savepoint", job, o, func(ctx context.Context, id, trigger string) error {
		_, err := c.flink.TriggerSavepoint(ctx, id, rest.SavepointRequest{TargetDirectory: o.Dir, Format: o.format(), TriggerID: trigger})
		return err
	})
}

// Stop takes a savepoint of a job, with which it finishes. If the savepoint
// fails the job goes on. With drain timers and windows of event time fire before, as at the end of all
// input, so that no job should go on from the savepoint.
func (c *Cluster) Stop(ctx context.Context, job string, drain bool, o SaveOptions) (*ClusterChange, error) {
	return c.save(ctx, "stop", job, o, func(ctx context.Context, id, trigger string) error {
		_, err := c.flink.Stop(ctx, id, rest.StopRequest{TargetDirectory: o.Dir, Drain: drain, Format: o.format(), TriggerID: trigger})
		return err
	})
}

// CancelWithSavepoint takes a savepoint and then cancels the job, which may emit
// more in between: Stop doesn't let it. If the savepoint fails the job goes on.
func (c *Cluster) CancelWithSavepoint(ctx context.Context, job string, o SaveOptions) (*ClusterChange, error) {
	return c.save(ctx, "cancel", job, o, func(ctx context.Context, id, trigger string) error {
		_, err := c.flink.TriggerSavepoint(ctx, id, rest.SavepointRequest{TargetDirectory: o.Dir, CancelJob: true, Format: o.format(), TriggerID: trigger})
		return err
	})
}

func (o *SaveOptions) format() rest.Format {
	if o.Format == "" {
		return rest.Canonical
	}
	return o.Format
}

// Cancel cancels a job. One that was canceled before is no error. Of the
// options those about waiting count.
func (c *Cluster) Cancel(ctx context.Context, job string, o SaveOptions) (*ClusterChange, error) {
	j, err := c.Find(ctx, job)
	if err != nil {
		return nil, err
	}
	change := &ClusterChange{Operation: "cancel", Job: *j}
	if j.State == string(rest.JobCanceled) {
		change.Done = true
		return change, nil
	}
	if j.Ended {
		return nil, c.failed(fmt.Errorf("%s: %w: it is %s", j, ErrJobEnded, j.State))
	}
	switch err = c.flink.Cancel(ctx, j.ID); {
	case errors.Is(err, rest.ErrEnded):
		return nil, c.failed(fmt.Errorf("%s: %w: %w", j, ErrJobEnded, err))
	case ctx.Err() != nil:
		return nil, &PendingError{Operation: "cancel", Job: *j, Uncertain: true, cause: ctx.Err()}
	case err != nil:
		return nil, c.failed(fmt.Errorf("%s: %w", j, err))
	case o.NoWait:
		return change, nil
	}
	return c.awaitEnd(ctx, change, o, time.Now())
}

// Await waits for an operation that was begun before, and was not waited for.
func (c *Cluster) Await(ctx context.Context, job, trigger string, o SaveOptions) (*ClusterChange, error) {
	j, err := c.Find(ctx, job)
	if err != nil {
		return nil, err
	}
	return c.await(ctx, &ClusterChange{Operation: "savepoint", Job: *j, Trigger: trigger}, o, time.Now())
}

// save begins an operation, and waits for it.
func (c *Cluster) save(ctx context.Context, operation, job string, o SaveOptions, begin func(ctx context.Context, id, trigger string) error) (*ClusterChange, error) {
	j, err := c.Find(ctx, job)
	if err != nil {
		return nil, err
	}
	if j.Ended { // Flink would accept it, and then say that there is no such job
		return nil, c.failed(fmt.Errorf("%s: %w: it is %s", j, ErrJobEnded, j.State))
	}
	start := time.Now()
	// The id is chosen here, so that a request whose answer was lost can be made again, and starts nothing twice.
	change := &ClusterChange{Operation: operation, Job: *j, Trigger: rest.NewTriggerID()}
	sent := false
	err = c.persist(ctx, func() error {
		err := begin(ctx, j.ID, change.Trigger)
		if !sent && unreachable(err) {
			return &finalError{err}
		}
		sent = true
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil && sent:
		return nil, &PendingError{Operation: operation, Job: *j, Trigger: change.Trigger, Uncertain: true, cause: ctx.Err()}
	case err != nil:
		return nil, c.failed(fmt.Errorf("%s of %s: %w", operation, j, err))
	case o.NoWait:
		return change, nil
	}
	return c.await(ctx, change, o, start)
}

// await waits until an operation has ended, and the job too if that is what it is for.
func (c *Cluster) await(ctx context.Context, change *ClusterChange, o SaveOptions, start time.Time) (*ClusterChange, error) {
	whole := ctx
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, start.Add(o.Timeout), fmt.Errorf("it did not end within %s: %w", o.Timeout, context.DeadlineExceeded))
		defer cancel()
	}
	pending := func() error {
		return &PendingError{Operation: change.Operation, Job: change.Job, Trigger: change.Trigger, Savepoint: change.Savepoint, cause: context.Cause(ctx)}
	}
	asked := start // when the statistics were looked at
	var p SaveProgress
	for pause := c.firstPoll; ; pause = min(pause*3/2, c.longestPoll) {
		var op *rest.Operation
		err := c.persist(ctx, func() (err error) {
			op, err = c.flink.Savepoint(ctx, change.Job.ID, change.Trigger)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil, pending()
		case errors.Is(err, rest.ErrNotFound):
			return nil, c.failed(fmt.Errorf("%s of %s: the job manager does not know the operation %s: it was started anew meanwhile, or the operation ended some minutes ago; look among the job's checkpoints: %w",
				change.Operation, &change.Job, change.Trigger, err))
		case err != nil:
			return nil, c.failed(fmt.Errorf("%s of %s: %w", change.Operation, &change.Job, err))
		}
		location, ended, err := op.Done()
		if err != nil {
			return nil, c.unsaved(whole, change, err)
		}
		if ended {
			change.Savepoint = location
			if change.Operation == "savepoint" {
				return c.seen(ctx, change), nil
			}
			o.Timeout = 0 // it is in ctx
			return c.awaitEnd(ctx, change, o, start)
		}
		if o.Progress != nil {
			p.Elapsed = time.Since(start)
			if time.Since(asked) > 5*time.Second {
				asked = time.Now()
				p.Acknowledged, p.Subtasks = c.acknowledged(ctx, change.Job.ID)
			}
			o.Progress(p)
		}
		select {
		case <-ctx.Done():
			return nil, pending()
		case <-time.After(pause):
		}
	}
}

// acknowledged says how far the only savepoint in progress is.
func (c *Cluster) acknowledged(ctx context.Context, job string) (acknowledged, subtasks int) {
	s, err := c.flink.Checkpoints(ctx, job)
	if err != nil {
		return 0, 0
	}
	n := 0
	for i := range s.History {
		if e := &s.History[i]; e.Savepoint && e.Status == rest.CheckpointInProgress {
			n++
			acknowledged, subtasks = e.Acknowledged, e.Subtasks
		}
	}
	if n != 1 {
		return 0, 0
	}
	return acknowledged, subtasks
}

// unsaved is the error of an operation that failed, with what became of the job if it's that.
func (c *Cluster) unsaved(ctx context.Context, change *ClusterChange, err error) error {
	change = c.seen(ctx, change)
	switch {
	case errors.Is(err, rest.ErrNotFound) && change.Job.Ended:
		err = fmt.Errorf("%w: it became %s meanwhile: %w", ErrJobEnded, change.Job.State, err)
	case errors.Is(err, rest.ErrInProgress):
		err = fmt.Errorf("a stop or a cancellation of the job, which is %s, came in between: %w", change.Job.State, err)
	case errors.Is(err, rest.ErrNotReady):
		err = fmt.Errorf("not all tasks of the job were running; try again when they are: %w", err)
	}
	return c.failed(fmt.Errorf("%s of %s failed: %w", change.Operation, &change.Job, err))
}

// seen looks once more at the job; as it was before if Flink does not say.
func (c *Cluster) seen(ctx context.Context, change *ClusterChange) *ClusterChange {
	change.Done = true
	if j, err := c.Find(ctx, change.Job.ID); err == nil {
		change.Job = *j
	}
	return change
}

// awaitEnd waits for the job to end.
func (c *Cluster) awaitEnd(ctx context.Context, change *ClusterChange, o SaveOptions, start time.Time) (*ClusterChange, error) {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, start.Add(o.Timeout), fmt.Errorf("it did not end within %s: %w", o.Timeout, context.DeadlineExceeded))
		defer cancel()
	}
	for pause := c.firstPoll; ; pause = min(pause*3/2, c.longestPoll) {
		var j *ClusterJob
		err := c.persist(ctx, func() (err error) {
			j, err = c.Find(ctx, change.Job.ID)
			return err
		})
		switch {
		case err == nil && j.Ended:
			change.Job, change.Done = *j, true
			if change.Operation == "cancel" && j.State != string(rest.JobCanceled) && change.Savepoint == "" {
				return nil, c.failed(fmt.Errorf("cancel of %s: %w: it became %s meanwhile", j, ErrJobEnded, j.State))
			}
			return change, nil
		case err == nil:
			change.Job = *j
		case ctx.Err() == nil && (errors.Is(err, ErrNoJob) || unreachable(err)):
			change.Done, change.Gone = true, true
			return change, nil
		case ctx.Err() == nil:
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(SaveProgress{Elapsed: time.Since(start), Ending: true})
		}
		select {
		case <-ctx.Done():
			return nil, &PendingError{Operation: change.Operation, Job: change.Job, Trigger: change.Trigger, Savepoint: change.Savepoint, cause: context.Cause(ctx)}
		case <-time.After(pause):
		}
	}
}

// finalError says that trying again is of no use.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// persist asks again, while the job manager can't be reached, as long as patience lasts.
func (c *Cluster) persist(ctx context.Context, ask func() error) error {
	end := time.Now().Add(c.patience)
	for pause := c.firstPoll; ; pause = min(2*pause, c.longestPoll) {
		err := ask()
		if err == nil || ctx.Err() != nil || !transient(err) || time.Now().Add(pause).After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// unreachable says that nobody listens there.
func unreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// transient says of an error that the next answer may be another.
func transient(err error) bool {
	var final *finalError
	var answer *rest.Error
	switch {
	case errors.As(err, &final), errors.Is(err, rest.ErrNotFlink), errors.Is(err, ErrNoJob):
		return false
	case errors.As(err, &answer):
		return answer.Status >= 500
	}
	return true
}
