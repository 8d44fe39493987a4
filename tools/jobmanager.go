package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drey-state/drey/rest"
)

// JobManagerOptions says how to talk to a Flink cluster.
type JobManagerOptions struct {
	// Client makes the requests; its transport holds certificates, if Flink
	// or a proxy before it asks for them. Nil: http.DefaultClient.
	Client *http.Client
	// Token is sent as a bearer token. A user and password may stand in the URL.
	Token string
	// Timeout of Held as a whole, with all its waiting; 0: one minute.
	Timeout time.Duration
}

// JobManager asks Flink's REST interface, of 1.20 and 2.x, what its jobs
// need. Several goroutines may use it.
type JobManager struct {
	flink   *rest.Client
	timeout time.Duration
	pause   time.Duration // before an answer that isn't settled is asked for again
}

// Held is what the jobs of one Flink cluster hold.
//
// What it says was true at a moment between Asked minus Stale and the return
// of JobManager.Held: Flink answers from a cache. It is no lock. What a job
// begins afterwards it doesn't know, so that deletion also needs a grace
// period longer than Stale plus the time that the deletion takes, and with
// files of other clusters in scope the answers of those, too.
type Held struct {
	// URL that was asked, without password.
	URL string `json:"url"`
	// Flink is its version.
	Flink string `json:"flink"`
	// Asked is when, by the clock of this machine.
	Asked time.Time `json:"asked"`
	// ClockAhead is how far the job manager's clock is ahead of this
	// machine's, give or take a request: Triggered, Start and KeepSince are
	// by its clock. Zero if there is no job that runs.
	ClockAhead time.Duration `json:"clockAheadNanos"`
	// Stale is how old the answers may be.
	Stale time.Duration `json:"staleNanos"`
	// CheckpointDirs and SavepointDirs are those of the cluster's
	// configuration. A job may have others, which Flink doesn't tell.
	CheckpointDirs []string `json:"checkpointDirs,omitempty"`
	SavepointDirs  []string `json:"savepointDirs,omitempty"`
	// Jobs in the order of Flink's answer: those that run and, for as long
	// as Flink remembers them (an hour by default), those that ended.
	Jobs []HeldJob `json:"jobs"`
}

// HeldJob is what one job holds. See Holds and KeepSince for what must not be deleted.
type HeldJob struct {
	// ID in hexadecimal, as in the name of its checkpoint directory.
	ID   string `json:"id"`
	Name string `json:"name"`
	// State as Flink calls it: RUNNING, RESTARTING, CANCELED...
	State string `json:"state"`
	// Ended says that it is FINISHED, CANCELED or FAILED. Flink needs
	// nothing of it any more; what Snapshots then has is what was retained
	// for its user.
	Ended bool      `json:"ended,omitempty"`
	Start time.Time `json:"start"`
	// Snapshots that are complete and not discarded, or in progress, newest
	// first: those that Flink still remembers (web.checkpoints.history, 10 by
	// default). See UnlistedBelow for those that it doesn't.
	Snapshots []HeldSnapshot `json:"snapshots,omitempty"`
	// Restored is what it was last restored from, which may be in another
	// job's directory. Listed as long as the job is known, also when a later
	// checkpoint has made it needless. After a failure it is the job's own
	// checkpoint, and what the job was started from isn't told any more: then
	// the metadata of the job's checkpoints say what is still used of that.
	Restored *HeldSnapshot `json:"restored,omitempty"`
	// UnlistedBelow: the job may hold more than Snapshots, with ids below
	// this one. Zero if Flink's answer shows that there are none.
	UnlistedBelow int64 `json:"unlistedBelow,omitempty"`
	// Directories that its complete checkpoints are in: usually one, that ends with the job's id.
	Directories []string `json:"directories,omitempty"`
	// Backend is the class of its state backend, "" if Flink doesn't say. Changelog: it has one.
	Backend   string `json:"backend,omitempty"`
	Changelog bool   `json:"changelog,omitempty"`
	// KeepSince: what was written in the job's directories (and those of its
	// changelog) at or after this time may be referenced by a checkpoint yet
	// to come, though no metadata says so. It is when the newest complete
	// checkpoint was triggered, or the oldest in progress if that was
	// earlier, or the start of a job without any. Working files of ForSt and
	// what a changelog uploads between checkpoints may be older than that:
	// then it is the job's start. Flink doesn't tell whether merged files
	// stay open across checkpoints: whoever sees folders of file merging should
	// take Start for those. The zero time for a job that ended, and writes nothing.
	KeepSince time.Time `json:"keepSince,omitzero"`
	// newest is the highest id that Flink has told of.
	newest int64
}

// HeldSnapshot is a checkpoint or savepoint that is held.
type HeldSnapshot struct {
	ID        int64 `json:"id"`
	Savepoint bool  `json:"savepoint,omitempty"`
	// InProgress: not complete; its files lie there and no metadata names them.
	InProgress bool `json:"inProgress,omitempty"`
	// Path of the snapshot's directory in Flink's spelling. Of a checkpoint in
	// progress it is where its metadata will be, if another checkpoint
	// shows that. Flink doesn't tell where a savepoint in progress
	// goes: its directory is named savepoint-SSSSSS-XXXXXXXXXXXX, where
	// SSSSSS begins the job's id. Empty if unknown or not on a file system.
	Path string `json:"path,omitempty"`
	// Triggered is when it began; for Restored, when it was restored.
	Triggered time.Time `json:"triggered"`
}

// Holds says why chk-ID in one of the job's directories must be kept, "" if
// this job doesn't need it as a whole. Its files may be used by
// others, which their metadata say; and KeepSince applies. A checkpoint that is
// newer than all that Flink told of is held.
func (j *HeldJob) Holds(id int64) string {
	for _, s := range j.Snapshots {
		if s.ID == id && s.InProgress {
			return "in progress"
		}
		if s.ID == id {
			return "retained by job " + j.ID
		}
	}
	switch {
	case j.Restored != nil && j.Restored.ID == id:
		return "restored by job " + j.ID
	case id < j.UnlistedBelow:
		return "job " + j.ID + " may retain it: Flink remembers no checkpoints so old"
	case id > j.newest && !j.Ended:
		return "newer than what job " + j.ID + " told of"
	}
	return ""
}

// Paths gives the paths of the snapshots that the jobs hold, in Flink's spelling, each once.
func (h *Held) Paths() []string {
	var all []string
	for _, j := range h.Jobs {
		for _, s := range j.Snapshots {
			all = append(all, s.Path)
		}
		if j.Restored != nil {
			all = append(all, j.Restored.Path)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(p string) bool { return p == "" })
}

// NewJobManager prepares to ask the cluster at a URL such as
// https://user:password@host:8081/path. It makes no request.
func NewJobManager(rawURL string, o JobManagerOptions) (*JobManager, error) {
	m := &JobManager{timeout: o.Timeout, pause: 500 * time.Millisecond}
	if m.timeout == 0 {
		m.timeout = time.Minute
	}
	var err error
	// Held tries again itself, from the beginning.
	m.flink, err = rest.New(rawURL, rest.Options{HTTP: o.Client, Token: o.Token, Timeout: m.timeout, RetryFor: -1})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Held asks what the jobs hold. It fails, and then nothing may be deleted, if
// Flink can't be reached, answers with something that isn't understood in
// whole, or if until the timeout a job is about to start and doesn't yet
// tell what it restores. A job that disappears meanwhile is left out.
func (m *JobManager) Held(ctx context.Context) (*Held, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	var waited error // for what
	for {
		h, err := m.ask(ctx)
		if err == nil {
			return h, nil
		}
		if l := (*laterError)(nil); errors.As(err, &l) {
			waited = err
			select {
			case <-ctx.Done():
			case <-time.After(m.pause):
				continue
			}
		}
		if ctx.Err() != nil && waited != nil {
			return nil, fmt.Errorf("job manager %s: %w (%w)", m.flink.URL(), waited, ctx.Err())
		}
		return nil, fmt.Errorf("job manager %s: %w", m.flink.URL(), err)
	}
}

// laterError says that asking again may help.
type laterError struct{ cause error }

func (e *laterError) Error() string { return e.cause.Error() }
func (e *laterError) Unwrap() error { return e.cause }

func later(format string, a ...any) error { return &laterError{fmt.Errorf(format, a...)} }

// ask collects all answers once.
func (m *JobManager) ask(ctx context.Context) (*Held, error) {
	h := &Held{URL: m.flink.URL(), Asked: time.Now(), Jobs: []HeldJob{}}
	if err := m.configuration(ctx, h); err != nil {
		return nil, err
	}
	before, err := m.flink.Jobs(ctx)
	if err != nil {
		return nil, asLater(err, false)
	}
	received := time.Now()
	for _, o := range before {
		if !o.State.Ended() {
			h.ClockAhead = clockOf(o).Sub(received)
		}
		j, err := m.job(ctx, o, h.Stale)
		if err != nil {
			return nil, fmt.Errorf("job %s (%s): %w", o.ID, o.Name, err)
		}
		h.Jobs = append(h.Jobs, *j)
	}
	after, err := m.flink.Jobs(ctx)
	if err != nil {
		return nil, asLater(err, false)
	}
	same := func(a, b rest.JobOverview) bool { return a.ID == b.ID && a.State == b.State }
	byID := func(a, b rest.JobOverview) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(before, byID)
	slices.SortFunc(after, byID)
	if !slices.EqualFunc(before, after, same) {
		return nil, later("jobs start, restart or end all the time")
	}
	return h, nil
}

// clockOf is the job manager's clock, told by a job that runs.
func clockOf(o rest.JobOverview) time.Time { return time.UnixMilli(o.Start + o.Duration) }

// job asks about one job.
func (m *JobManager) job(ctx context.Context, o rest.JobOverview, stale time.Duration) (*HeldJob, error) {
	j := &HeldJob{ID: o.ID, Name: o.Name, State: string(o.State), Ended: o.State.Ended(), Start: time.UnixMilli(o.Start)}
	s, err := m.statistics(ctx, o.ID)
	if errors.Is(err, rest.ErrNoCheckpoints) {
		if !j.Ended {
			j.KeepSince = j.Start
		}
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	// Before a job has looked for what to restore its statistics are empty, and
	// the cache may show them so for a while after.
	if s.Counts.Total == 0 && s.Counts.Restored == 0 && !j.Ended {
		if settled := time.UnixMilli(o.Modified).Add(stale); o.State != rest.JobRunning || !clockOf(o).After(settled) {
			return nil, later("is %s and does not tell yet whether it restores a snapshot", o.State)
		}
	}
	j.list(s)
	c, err := m.flink.CheckpointConfig(ctx, o.ID)
	if err != nil {
		return nil, asLater(err, true)
	}
	j.Backend, j.Changelog = c.Backend, c.Changelog
	if !j.Ended {
		j.keepSince(s, c)
	}
	return j, nil
}

// list takes over what the statistics say of snapshots.
func (j *HeldJob) list(s *rest.Checkpoints) {
	all := remembered(s)
	if len(all) > 0 {
		j.newest = all[0].ID
	}
	for _, e := range all {
		if e.Status == rest.CheckpointCompleted && !e.Savepoint {
			if dir, ok := strings.CutSuffix(externalPath(e.Path), "/chk-"+strconv.FormatInt(e.ID, 10)); ok && !slices.Contains(j.Directories, dir) {
				j.Directories = append(j.Directories, dir)
			}
		}
	}
	for _, e := range all {
		if e.Status == rest.CheckpointFailed || e.Status == rest.CheckpointCompleted && *e.Discarded {
			continue
		}
		h := HeldSnapshot{ID: e.ID, Savepoint: e.Savepoint, InProgress: e.Status == rest.CheckpointInProgress, Path: externalPath(e.Path), Triggered: time.UnixMilli(e.Triggered)}
		if h.InProgress && !h.Savepoint && len(j.Directories) > 0 {
			h.Path = j.Directories[0] + "/chk-" + strconv.FormatInt(h.ID, 10)
		}
		j.Snapshots = append(j.Snapshots, h)
	}
	if r := s.Latest.Restored; r != nil {
		j.Restored = &HeldSnapshot{ID: r.ID, Savepoint: r.Savepoint, Path: externalPath(r.Path), Triggered: time.UnixMilli(r.Time)}
		j.newest = max(j.newest, r.ID)
	}
	j.UnlistedBelow = unlistedBelow(s)
}

// unlistedBelow gives the id below which a job may hold checkpoints that the
// history has dropped, or that an earlier job manager took.
//
// Flink discards a job's checkpoints oldest first, so that one which is known
// to be discarded shows that nothing older is held. Savepoints don't: they are never discarded.
func unlistedBelow(s *rest.Checkpoints) int64 {
	least := int64(math.MaxInt64)
	for _, e := range s.History {
		if e.Status == rest.CheckpointCompleted && !e.Savepoint && *e.Discarded {
			return 0
		}
		least = min(least, e.ID)
	}
	switch {
	case len(s.History) > 0:
	case s.Counts.Total > 0: // a history of length 0
	case s.Latest.Restored != nil:
		least = s.Latest.Restored.ID
	default:
		least = 0
	}
	if least == 1 { // the first of all
		return 0
	}
	return least
}

// keepSince computes KeepSince.
func (j *HeldJob) keepSince(s *rest.Checkpoints, c *rest.CheckpointConfig) {
	j.KeepSince = j.Start
	// A name that isn't known may be anything.
	workingFiles := c.Changelog || c.Backend == "" || c.Backend == "Unknown" || strings.Contains(strings.ToLower(c.Backend), "forst")
	listed := int64(0)
	for _, e := range j.Snapshots {
		if e.InProgress {
			listed++
		}
	}
	if s.Latest.Completed == nil || workingFiles || listed < s.Counts.InProgress { // the history drops those in progress, too
		return
	}
	j.KeepSince = time.UnixMilli(s.Latest.Completed.Triggered)
	for _, e := range j.Snapshots {
		if e.InProgress && e.Triggered.Before(j.KeepSince) {
			j.KeepSince = e.Triggered
		}
	}
}
