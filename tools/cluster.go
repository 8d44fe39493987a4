package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/rest"
)

// What errors of Cluster unwrap to, besides the sentinels of package rest.
var (
	// ErrNoJob: no job of the cluster, or more than one, is what was named.
	ErrNoJob = errors.New("no such job")
	// ErrJobEnded: the job has ended, so that there is nothing to save or stop.
	ErrJobEnded = errors.New("the job has ended")
)

// ClusterOptions says how to talk to a cluster.
type ClusterOptions struct {
	// Client makes the requests; nil: http.DefaultClient.
	Client *http.Client
	// Token is sent as a bearer token. A user and password may stand in the URL.
	Token string
	// Logger is told of each request. Nil: nobody.
	Logger *slog.Logger
}

// Cluster does to the jobs of a Flink cluster what Flink's command line does,
// over the REST interface of 1.20 and 2.x. Several goroutines may use it.
type Cluster struct {
	flink *rest.Client
	// firstPoll, longestPoll are between two questions how far something is;
	// patience is for how long no answer is borne there.
	firstPoll, longestPoll, patience time.Duration
}

// NewCluster prepares to ask the cluster at a URL, as NewJobManager does. It makes no request.
func NewCluster(rawURL string, o ClusterOptions) (*Cluster, error) {
	flink, err := rest.New(rawURL, rest.Options{HTTP: o.Client, Token: o.Token, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Cluster{flink: flink, firstPoll: 100 * time.Millisecond, longestPoll: 2 * time.Second, patience: time.Minute}, nil
}

// URL of the cluster, without a password.
func (c *Cluster) URL() string { return c.flink.URL() }

// ClusterJob is a job that runs, or one that ended and that Flink remembers.
type ClusterJob struct {
	// ID in hexadecimal, as in the name of its checkpoint directory.
	ID   string `json:"id"`
	Name string `json:"name"`
	// State as Flink calls it: RUNNING, RESTARTING, CANCELED...
	State string `json:"state"`
	// Ended says that it doesn't leave this state.
	Ended bool      `json:"ended,omitempty"`
	Start time.Time `json:"start"`
	// End is zero as long as it runs.
	End time.Time `json:"end,omitzero"`
	// Duration until now, or the end.
	Duration time.Duration `json:"durationNanos"`
	// Tasks is how many subtasks it has, Running how many of these run.
	Tasks   int `json:"tasks"`
	Running int `json:"runningTasks"`
}

// String names the job for messages.
func (j *ClusterJob) String() string {
	if j.Name == "" {
		return "job " + j.ID
	}
	return fmt.Sprintf("job %s (%s)", j.ID, j.Name)
}

// Jobs lists the jobs that run, then those that ended, the newest of each first.
func (c *Cluster) Jobs(ctx context.Context) ([]ClusterJob, error) {
	all, err := c.flink.Jobs(ctx)
	if err != nil {
		return nil, c.failed(err)
	}
	jobs := make([]ClusterJob, 0, len(all))
	for i := range all {
		o := &all[i]
		j := ClusterJob{
			ID: o.ID, Name: o.Name, State: string(o.State), Ended: o.State.Ended(), Start: time.UnixMilli(o.Start).UTC(),
			Duration: time.Duration(o.Duration) * time.Millisecond, Tasks: o.Tasks.Total, Running: o.Tasks.Running,
		}
		if o.End > 0 {
			j.End = time.UnixMilli(o.End).UTC()
		}
		jobs = append(jobs, j)
	}
	slices.SortStableFunc(jobs, func(a, b ClusterJob) int {
		if a.Ended != b.Ended {
			if b.Ended {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Start.Compare(a.Start), strings.Compare(a.ID, b.ID))
	})
	return jobs, nil
}

// Flink asks for the version of the cluster.
func (c *Cluster) Flink(ctx context.Context) (string, error) {
	d, err := c.flink.Dashboard(ctx)
	if err != nil {
		return "", c.failed(err)
	}
	return d.Version, nil
}

// Find gives the one job with this id, whose id begins so, or with this name.
// Where there are several, and one of them runs, it is that.
func (c *Cluster) Find(ctx context.Context, name string) (*ClusterJob, error) {
	jobs, err := c.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(jobs, func(j ClusterJob) bool { return j.ID == strings.ToLower(name) }); i >= 0 {
		return &jobs[i], nil
	}
	var found []ClusterJob
	for _, j := range jobs {
		if name != "" && (j.Name == name || strings.HasPrefix(j.ID, strings.ToLower(name))) {
			found = append(found, j)
		}
	}
	if running := slices.DeleteFunc(slices.Clone(found), func(j ClusterJob) bool { return j.Ended }); len(running) > 0 {
		found = running
	}
	switch len(found) {
	case 1:
		return &found[0], nil
	case 0:
		return nil, fmt.Errorf("job manager %s: %w: %q is neither the id of one, nor the beginning of an id, nor a name; Flink forgets those that ended after an hour",
			c.URL(), ErrNoJob, name)
	}
	ids := make([]string, len(found))
	for i, j := range found {
		ids[i] = j.ID
	}
	return nil, fmt.Errorf("job manager %s: %w: %q may be %s; name one by its id", c.URL(), ErrNoJob, name, strings.Join(ids, " or "))
}

// failed names the cluster in an error.
func (c *Cluster) failed(err error) error { return fmt.Errorf("job manager %s: %w", c.URL(), err) }

// JobCheckpoints is what Flink says of a job's checkpoints and savepoints.
type JobCheckpoints struct {
	Job ClusterJob `json:"job"`
	// Config and Statistics are as Flink sends them; nil for a job that takes no checkpoints.
	Config     *rest.CheckpointConfig `json:"config"`
	Statistics *rest.Checkpoints      `json:"statistics"`
	// Retained are those that are complete and not discarded, newest first, as
	// far as Flink remembers them (web.checkpoints.history); those of
	// an earlier run of the job manager aren't among them. Savepoints may be deleted meanwhile.
	Retained []rest.Checkpoint `json:"retained"`
	// UnlistedBelow: the job may retain others with ids below this one; 0: it doesn't.
	UnlistedBelow int64 `json:"unlistedBelow,omitempty"`
	// Details of those that were asked for.
	Details []CheckpointDetails `json:"details,omitempty"`
}

// CheckpointDetails is a checkpoint with what each vertex and subtask did for it.
type CheckpointDetails struct {
	Checkpoint rest.Checkpoint    `json:"checkpoint"`
	Vertices   []VertexCheckpoint `json:"vertices"`
}

// VertexCheckpoint is what a vertex of the job did.
type VertexCheckpoint struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	rest.TaskCheckpointDetails
}

// Checkpoints asks for the checkpoints of a job, and for details of those with these ids.
func (c *Cluster) Checkpoints(ctx context.Context, job string, details ...int64) (*JobCheckpoints, error) {
	j, err := c.Find(ctx, job)
	if err != nil {
		return nil, err
	}
	a := &JobCheckpoints{Job: *j, Retained: []rest.Checkpoint{}}
	a.Statistics, err = c.flink.Checkpoints(ctx, j.ID)
	if errors.Is(err, rest.ErrNoCheckpoints) && len(details) == 0 {
		return a, nil
	}
	if err != nil {
		return nil, c.failed(fmt.Errorf("%s: %w", j, err))
	}
	if !validCheckpoints(a.Statistics) {
		return nil, c.failed(fmt.Errorf("%s: %w: checkpoints of unknown status, or without path", j, rest.ErrNotFlink))
	}
	if a.Config, err = c.flink.CheckpointConfig(ctx, j.ID); err != nil {
		return nil, c.failed(fmt.Errorf("%s: %w", j, err))
	}
	a.Retained = slices.DeleteFunc(remembered(a.Statistics), func(e rest.Checkpoint) bool {
		return e.Status != rest.CheckpointCompleted || *e.Discarded
	})
	a.UnlistedBelow = unlistedBelow(a.Statistics)
	if len(details) == 0 {
		return a, nil
	}
	graph, err := c.flink.Job(ctx, j.ID)
	if err != nil {
		return nil, c.failed(fmt.Errorf("%s: %w", j, err))
	}
	for _, id := range details {
		d, err := c.details(ctx, j.ID, id, graph.Vertices)
		if err != nil {
			return nil, c.failed(fmt.Errorf("%s, checkpoint %d: %w", j, id, err))
		}
		a.Details = append(a.Details, *d)
	}
	return a, nil
}

func (c *Cluster) details(ctx context.Context, job string, id int64, vertices []rest.Vertex) (*CheckpointDetails, error) {
	one, err := c.flink.Checkpoint(ctx, job, id)
	if err != nil {
		return nil, err
	}
	d := &CheckpointDetails{Checkpoint: *one, Vertices: []VertexCheckpoint{}}
	for _, v := range vertices { // from the sources to the sinks
		if _, ok := one.Tasks[v.ID]; !ok {
			continue // it had finished
		}
		t, err := c.flink.TaskCheckpoint(ctx, job, id, v.ID)
		if err != nil {
			return nil, err
		}
		d.Vertices = append(d.Vertices, VertexCheckpoint{ID: v.ID, Name: v.Name, TaskCheckpointDetails: *t})
	}
	return d, nil
}

// remembered gives all that the statistics know, newest first.
func remembered(s *rest.Checkpoints) []rest.Checkpoint {
	all := slices.Clone(s.History)
	for _, e := range []*rest.Checkpoint{s.Latest.Completed, s.Latest.Savepoint} {
		if e != nil && !slices.ContainsFunc(all, func(o rest.Checkpoint) bool { return o.ID == e.ID }) {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b rest.Checkpoint) int { return cmp.Compare(b.ID, a.ID) })
	return all
}
