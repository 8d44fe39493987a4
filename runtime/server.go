package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/storage"
)

// Version is what a Server tells as the version of Flink whose interface it has.
const Version = "2.3.0"

// Server has the part of Flink's REST interface about jobs, checkpoints and savepoints, for the executions of one process. It is an
// [http.Handler], and may be used concurrently.
type Server struct {
	// FS is where savepoints are that are to be disposed of; nil means that there are none.
	FS storage.FS

	mu       sync.Mutex
	jobs     []*Execution
	triggers map[string]*operation
	order    []string        // of triggers, the oldest first
	ending   map[string]bool // ids of jobs whose end somebody waits for
	told     chan struct{}   // closed when somebody was told something that Linger waits for
	once     sync.Once
	mux      *http.ServeMux
}

// operation is a savepoint, stop or disposal that somebody asked for.
type operation struct {
	job    string // "" for a disposal
	done   bool
	told   bool // somebody has seen the result
	result rest.OperationResult
}

// mostOperations is how many results are kept for whoever asks.
const mostOperations = 1000

// Add shows an execution.
func (s *Server) Add(x *Execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, x)
}

// Linger waits until whoever asked for a savepoint, a stop or a cancellation was told what became of it and that the job has ended, or until ctx
// does. A process that ends with its jobs calls it before it closes the server, as the job manager of an application waits.
func (s *Server) Linger(ctx context.Context) {
	for {
		s.mu.Lock()
		waits := len(s.ending) > 0
		for _, op := range s.triggers {
			waits = waits || !op.told
		}
		if s.told == nil {
			s.told = make(chan struct{})
		}
		told := s.told
		s.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-told:
		case <-ctx.Done():
			return
		}
	}
}

// tell notes that somebody was told something. s.mu is held.
func (s *Server) tell() {
	if s.told != nil {
		close(s.told)
		s.told = nil
	}
}

// endingOf notes that somebody waits for the end of a job, or was told of it.
func (s *Server) endingOf(x *Execution, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waits {
		s.ending[x.id] = true
		return
	}
	delete(s.ending, x.id)
	s.tell()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(func() {
		s.mu.Lock()
		s.triggers, s.ending = map[string]*operation{}, map[string]bool{}
		s.mu.Unlock()
		s.mux = http.NewServeMux()
		for pattern, h := range map[string]func(*http.Request) (int, any, error){
			"GET /config":                              s.dashboard,
			"GET /overview":                            s.overview,
			"GET /jobs/overview":                       s.list,
			"GET /jobmanager/config":                   s.settings,
			"GET /jobs/{job}":                          s.of(s.job),
			"GET /jobs/{job}/checkpoints":              s.of(s.checkpoints),
			"GET /jobs/{job}/checkpoints/config":       s.of(s.checkpointConfig),
			"GET /jobs/{job}/checkpoints/details/{id}": s.of(s.checkpoint),
			"GET /jobs/{job}/checkpoints/details/{id}/subtasks/{vertex}": s.of(s.subtasks),
			"POST /jobs/{job}/savepoints":                                s.of(s.triggerSavepoint),
			"POST /jobs/{job}/stop":                                      s.of(s.triggerStop),
			"GET /jobs/{job}/savepoints/{trigger}":                       s.asked,
			"PATCH /jobs/{job}":                                          s.of(s.cancel),
			"POST /savepoint-disposal":                                   s.dispose,
			"GET /savepoint-disposal/{trigger}":                          s.asked,
		} {
			s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, h) })
		}
		s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, func(*http.Request) (int, any, error) {
				return 0, nil, &refusal{http.StatusNotFound, "Not found: " + r.URL.Path}
			})
		})
	})
	s.mux.ServeHTTP(w, r)
}

// refusal is an error with a status of HTTP.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

// answer writes what a handler gives.
func answer(w http.ResponseWriter, r *http.Request, h func(*http.Request) (int, any, error)) {
	status, body, err := h(r)
	if err != nil {
		status = http.StatusInternalServerError
		var e *refusal
		if errors.As(err, &e) {
			status = e.status
		}
		body = rest.ErrorAnswer{Errors: []string{err.Error()}}
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// of gives a handler the job that it is about.
func (s *Server) of(h func(*Execution, *http.Request) (int, any, error)) func(*http.Request) (int, any, error) {
	return func(r *http.Request) (int, any, error) {
		id := r.PathValue("job")
		s.mu.Lock()
		i := slices.IndexFunc(s.jobs, func(x *Execution) bool { return x.id == id })
		var x *Execution
		if i >= 0 {
			x = s.jobs[i]
		}
		s.mu.Unlock()
		if x == nil {
			return 0, nil, &refusal{http.StatusNotFound, fmt.Sprintf("org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job (%s)", id)}
		}
		return h(x, r)
	}
}

func (s *Server) executions() []*Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobs)
}

func (s *Server) dashboard(*http.Request) (int, any, error) {
	return http.StatusOK, rest.Dashboard{RefreshInterval: 3000, TimezoneName: "UTC", Version: Version, Features: rest.Features{Cancel: true}}, nil
}

func (s *Server) settings(*http.Request) (int, any, error) {
	return http.StatusOK, []rest.Setting{}, nil
}

func (s *Server) overview(*http.Request) (int, any, error) {
	o := rest.Overview{TaskManagers: 1, Version: Version}
	for _, x := range s.executions() {
		switch x.Status() {
		case StatusFinished:
			o.JobsFinished++
		case StatusCanceled:
			o.JobsCancelled++
		case StatusFailed:
			o.JobsFailed++
		default:
			o.JobsRunning++
		}
	}
	return http.StatusOK, o, nil
}

// times gives what a job does, when it began and ended, and how long it has run, in milliseconds; it ended at -1 if it runs.
func (x *Execution) times() (state rest.JobState, start, end, duration int64) {
	x.inbox.Lock()
	defer x.inbox.Unlock()
	state, start, end, duration = rest.JobState(x.status), x.started.UnixMilli(), -1, time.Since(x.started).Milliseconds()
	if x.status.Ended() {
		end, duration = x.changed.UnixMilli(), x.changed.Sub(x.started).Milliseconds()
	}
	return state, start, end, duration
}

func (s *Server) list(*http.Request) (int, any, error) {
	o := rest.JobsOverview{Jobs: []rest.JobOverview{}}
	for _, x := range s.executions() {
		state, start, end, duration := x.times()
		tasks := x.tasks()
		o.Jobs = append(o.Jobs, rest.JobOverview{
			ID: x.id, Name: x.job.name, JobType: "STREAMING", Start: start, End: end, Duration: duration, State: state, Modified: x.modified(), Tasks: tasks,
		})
		if end >= 0 {
			s.endingOf(x, false)
		}
	}
	return http.StatusOK, o, nil
}

func (x *Execution) modified() int64 {
	x.inbox.Lock()
	defer x.inbox.Unlock()
	return x.changed.UnixMilli()
}

// tasks counts the tasks by what they do, which follows from what the job does.
func (x *Execution) tasks() rest.TaskCounts {
	n := 0
	for _, v := range x.vertices {
		n += v.parallelism
	}
	x.inbox.Lock()
	status, up := x.status, x.up
	x.inbox.Unlock()
	c := rest.TaskCounts{Total: n}
	running := &c.Initializing
	if up {
		running = &c.Running
	}
	*map[Status]*int{
		StatusCreated: &c.Deploying, StatusRunning: running, StatusFailing: &c.Canceling, StatusRestarting: &c.Scheduled, StatusCanceling: &c.Canceling,
		StatusCanceled: &c.Canceled, StatusFailed: &c.Failed, StatusFinished: &c.Finished, StatusSuspended: &c.Canceled,
	}[status] = n
	return c
}

// taskState is the state of the tasks in the answer about a job.
func (c taskCounts) state() (string, map[string]int) {
	all := map[string]int{
		"CREATED": c.Created, "SCHEDULED": c.Scheduled, "DEPLOYING": c.Deploying, "INITIALIZING": c.Initializing, "RUNNING": c.Running, "FINISHED": c.Finished,
		"CANCELING": c.Canceling, "CANCELED": c.Canceled, "FAILED": c.Failed, "RECONCILING": c.Reconciling,
	}
	for state, n := range all {
		if n > 0 {
			return state, all
		}
	}
	return "CREATED", all
}

type taskCounts rest.TaskCounts

func (s *Server) job(x *Execution, _ *http.Request) (int, any, error) {
	status, start, end, duration := x.times()
	state, counts := taskCounts(x.tasks()).state()
	j := rest.Job{
		ID: x.id, Name: x.job.name, Stoppable: false, State: status, JobType: "STREAMING", Start: start, End: end, Duration: duration, MaxParallelism: -1, Now: time.Now().UnixMilli(),
		Timestamps: map[rest.JobState]int64{}, Vertices: []rest.Vertex{}, StatusCounts: map[string]int{}, Plan: json.RawMessage("{}"),
	}
	x.inbox.Lock()
	for status, at := range x.since {
		j.Timestamps[rest.JobState(status)] = at.UnixMilli()
	}
	x.inbox.Unlock()
	for _, st := range []rest.JobState{
		rest.JobInitializing, rest.JobCreated, rest.JobRunning, rest.JobFailing, rest.JobFailed, rest.JobCancelling, rest.JobCanceled, rest.JobFinished, rest.JobRestarting,
		rest.JobSuspended, rest.JobReconciling,
	} {
		if _, ok := j.Timestamps[st]; !ok {
			j.Timestamps[st] = 0
		}
	}
	for st := range counts {
		j.StatusCounts[st] = 0
	}
	for _, v := range x.vertices {
		tasks := map[string]int{}
		for st := range counts {
			tasks[st] = 0
		}
		tasks[state] = v.parallelism
		j.StatusCounts[state]++
		j.Vertices = append(j.Vertices, rest.Vertex{
			ID: v.id(), Name: v.name, MaxParallelism: v.max, Parallelism: v.parallelism, Status: state, Start: start, End: end, Duration: duration, Tasks: tasks,
			Metrics: json.RawMessage("{}"),
		})
	}
	if end >= 0 {
		s.endingOf(x, false)
	}
	return http.StatusOK, j, nil
}

func (s *Server) cancel(x *Execution, r *http.Request) (int, any, error) {
	if mode := r.URL.Query().Get("mode"); mode != "" && mode != "cancel" {
		return 0, nil, &refusal{http.StatusBadRequest, fmt.Sprintf("mode %q: only cancel is possible; POST to /jobs/%s/stop stops with a savepoint", mode, x.id)}
	}
	if !x.do(func() { x.finish(StatusCanceled, nil) }) && x.Status() != StatusCanceled {
		return 0, nil, &refusal{http.StatusConflict, fmt.Sprintf("Job cancellation failed because the job has already reached another terminal state (%s).", x.Status())}
	}
	s.endingOf(x, true)
	return http.StatusAccepted, struct{}{}, nil
}

func (s *Server) checkpointConfig(x *Execution, _ *http.Request) (int, any, error) {
	o := x.o.Checkpoints
	if o.Interval == 0 {
		return 0, nil, &refusal{http.StatusNotFound, "Checkpointing is not enabled for this job (" + x.id + ")."}
	}
	return http.StatusOK, rest.CheckpointConfig{
		Mode: [...]string{"exactly_once", "at_least_once"}[o.Mode], Interval: o.Interval.Milliseconds(), Timeout: o.Timeout.Milliseconds(), MinPause: o.MinPause.Milliseconds(),
		MaxConcurrent: int64(o.MaxConcurrent), Externalization: rest.Externalization{Enabled: o.Retention != NoExternalizedCheckpoints, DeleteOnCancellation: o.Retention != RetainOnCancellation},
		Backend: [...]string{"HashMapStateBackend", "EmbeddedRocksDBStateBackend"}[x.o.Backend], Storage: map[bool]string{false: "FileSystemCheckpointStorage", true: "JobManagerCheckpointStorage"}[o.InlineOnly], Unaligned: o.Unaligned,
		TolerableFailed: o.Tolerable, AlignedTimeout: o.AlignedTimeout.Milliseconds(), AfterTasksFinish: true, ChangelogStorage: "memory",
		MaterializationPeriod: (10 * time.Minute).Milliseconds(),
	}, nil
}

// stats gives the history, the newest first.
func (x *Execution) stats(ctx context.Context) (counts rest.CheckpointCounts, restored *rest.RestoredCheckpoint, history []CheckpointStats, err error) {
	read := func() {
		counts = x.c.counts
		counts.InProgress = int64(len(x.c.pending))
		history = x.c.all()
		if p := x.point; p != nil && counts.Restored > 0 {
			path := storage.Dir(p.uri)
			restored = &rest.RestoredCheckpoint{ID: p.snapshot.CheckpointID, Time: x.c.restored.UnixMilli(), Savepoint: p.snapshot.Kind().Savepoint(), Path: &path}
		}
	}
	if err = x.ask(ctx, read); errors.Is(err, ErrEnded) {
		<-x.done // nothing changes any more
		read()
		err = nil
	}
	slices.Reverse(history)
	return counts, restored, history, err
}

func (s *Server) checkpoints(x *Execution, r *http.Request) (int, any, error) {
	if x.o.Checkpoints.Interval == 0 {
		return 0, nil, &refusal{http.StatusNotFound, "Checkpointing has not been enabled."}
	}
	counts, restored, history, err := x.stats(r.Context())
	if err != nil {
		return 0, nil, err
	}
	a := rest.Checkpoints{Counts: &counts, Latest: &rest.LatestCheckpoints{Restored: restored}, History: []rest.Checkpoint{}}
	var done []CheckpointStats
	for _, c := range history {
		h := checkpointOf(x, c, false)
		a.History = append(a.History, h)
		switch {
		case c.Status == CheckpointCompleted:
			done = append(done, c)
			at := &a.Latest.Completed
			if c.Savepoint {
				at = &a.Latest.Savepoint
			}
			if *at == nil {
				*at = &h
			}
		case c.Status == CheckpointFailed && a.Latest.Failed == nil:
			a.Latest.Failed = &h
		}
	}
	of := func(f func(CheckpointStats) int64) rest.Summary { return summary(done, f) }
	a.Summary = &rest.CheckpointSummary{
		CheckpointedSize:  of(func(c CheckpointStats) int64 { return c.CheckpointedSize }),
		StateSize:         of(func(c CheckpointStats) int64 { return c.FullSize }),
		Duration:          of(func(c CheckpointStats) int64 { return c.Duration.Milliseconds() }),
		AlignmentBuffered: of(func(CheckpointStats) int64 { return 0 }),
		ProcessedData:     of(func(CheckpointStats) int64 { return 0 }),
		PersistedData:     of(func(c CheckpointStats) int64 { return c.Channels }),
	}
	return http.StatusOK, a, nil
}

// summary is the distribution of a number.
func summary[T any](all []T, of func(T) int64) rest.Summary {
	nan := rest.Float(math.NaN())
	if len(all) == 0 {
		return rest.Summary{P50: nan, P90: nan, P95: nan, P99: nan, P999: nan}
	}
	var values []int64
	sum := int64(0)
	for _, v := range all {
		values = append(values, of(v))
		sum += of(v)
	}
	slices.Sort(values)
	at := func(p float64) rest.Float {
		i := min(int(math.Ceil(p*float64(len(values)))), len(values)) - 1
		return rest.Float(values[max(i, 0)])
	}
	return rest.Summary{Min: values[0], Max: values[len(values)-1], Avg: sum / int64(len(values)), P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999)}
}

// checkpointOf describes a checkpoint as the history has it.
func checkpointOf(x *Execution, c CheckpointStats, details bool) rest.Checkpoint {
	total := 0
	for _, v := range x.vertices {
		total += v.parallelism
	}
	h := rest.Checkpoint{
		Class: map[CheckpointStatus]string{CheckpointInProgress: "in_progress", CheckpointCompleted: "completed", CheckpointFailed: "failed"}[c.Status],
		ID:    c.ID, Status: rest.CheckpointStatus(c.Status), Savepoint: c.Savepoint, Triggered: c.Trigger.UnixMilli(), LatestAck: -1, CheckpointedSize: c.CheckpointedSize,
		StateSize: c.FullSize, Duration: c.Duration.Milliseconds(), PersistedData: c.Channels, Subtasks: total, Acknowledged: len(c.Subtasks), Type: "CHECKPOINT",
		Tasks: map[string]rest.TaskCheckpoint{},
	}
	switch {
	case c.Savepoint && c.Stop:
		h.Type = "SYNC_SAVEPOINT"
	case c.Savepoint:
		h.Type = "SAVEPOINT"
	case c.Unaligned:
		h.Type = "UNALIGNED_CHECKPOINT"
	}
	if c.Savepoint {
		format := string(rest.Canonical)
		if c.Format == backend.FormatRocksDB {
			format = string(rest.Native)
		}
		h.Format = &format
	}
	if n := len(c.Subtasks); n > 0 {
		h.LatestAck = c.Subtasks[n-1].Acknowledged.UnixMilli()
	}
	switch c.Status {
	case CheckpointCompleted:
		h.Path, h.Discarded = &c.Path, &c.Discarded
	case CheckpointFailed:
		at := c.Ended.UnixMilli()
		h.FailureTime, h.FailureMessage = &at, &c.Failure
	default:
		h.Duration = time.Since(c.Trigger).Milliseconds()
	}
	if !details {
		return h
	}
	for _, v := range x.vertices {
		t := rest.TaskCheckpoint{ID: c.ID, Status: rest.CheckpointInProgress, LatestAck: -1, Subtasks: v.parallelism}
		for _, s := range c.Subtasks {
			if s.Vertex != v.id() {
				continue
			}
			t.Acknowledged++
			t.LatestAck = s.Acknowledged.UnixMilli()
			t.Duration = max(t.Duration, s.Acknowledged.Sub(c.Trigger).Milliseconds())
			t.StateSize += s.StateSize
			t.CheckpointedSize += s.CheckpointedSize
			t.PersistedData += s.Channels
		}
		switch {
		case t.Acknowledged == v.parallelism:
			t.Status = rest.CheckpointCompleted
		case c.Status == CheckpointFailed:
			t.Status = rest.CheckpointFailed
		}
		h.Tasks[v.id()] = t
	}
	return h
}

// find gives the checkpoint of a request.
func (s *Server) find(x *Execution, r *http.Request) (CheckpointStats, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return CheckpointStats{}, &refusal{http.StatusBadRequest, fmt.Sprintf("checkpoint %q: not a number", r.PathValue("id"))}
	}
	_, _, history, err := x.stats(r.Context())
	if err != nil {
		return CheckpointStats{}, err
	}
	i := slices.IndexFunc(history, func(c CheckpointStats) bool { return c.ID == id })
	if i < 0 {
		return CheckpointStats{}, &refusal{http.StatusNotFound, fmt.Sprintf("Could not find checkpointing statistics for checkpoint %d.", id)}
	}
	return history[i], nil
}

func (s *Server) checkpoint(x *Execution, r *http.Request) (int, any, error) {
	c, err := s.find(x, r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, checkpointOf(x, c, true), nil
}

func (s *Server) subtasks(x *Execution, r *http.Request) (int, any, error) {
	c, err := s.find(x, r)
	if err != nil {
		return 0, nil, err
	}
	id := r.PathValue("vertex")
	i := slices.IndexFunc(x.vertices, func(v *vertex) bool { return v.id() == id })
	if i < 0 {
		return 0, nil, &refusal{http.StatusNotFound, "There is no checkpoint statistics for task " + id + "."}
	}
	task := checkpointOf(x, c, true).Tasks[id]
	d := rest.TaskCheckpointDetails{TaskCheckpoint: task, Subtasks: []rest.SubtaskCheckpoint{}}
	var done []SubtaskStats
	for index := range x.vertices[i].parallelism {
		at := slices.IndexFunc(c.Subtasks, func(s SubtaskStats) bool { return s.Vertex == id && s.Subtask == index })
		if at < 0 {
			d.Subtasks = append(d.Subtasks, rest.SubtaskCheckpoint{Class: "pending", Index: index, Status: "pending_or_failed"})
			continue
		}
		st := c.Subtasks[at]
		done = append(done, st)
		ack, duration, delay := st.Acknowledged.UnixMilli(), st.Acknowledged.Sub(c.Trigger).Milliseconds(), st.StartDelay.Milliseconds()
		unaligned, aborted := c.Unaligned, false
		d.Subtasks = append(d.Subtasks, rest.SubtaskCheckpoint{
			Class: "completed", Index: index, Status: "completed", Ack: &ack, Duration: &duration, CheckpointedSize: &st.CheckpointedSize, StateSize: &st.StateSize,
			Checkpoint: &rest.CheckpointDuration{Sync: st.Sync.Milliseconds(), Async: st.Async.Milliseconds()},
			Alignment:  &rest.Alignment{Persisted: st.Channels, Duration: st.Alignment.Milliseconds()}, StartDelay: &delay, Unaligned: &unaligned, Aborted: &aborted,
		})
	}
	of := func(f func(SubtaskStats) int64) rest.Summary { return summary(done, f) }
	sum := &rest.TaskCheckpointSummary{
		CheckpointedSize: of(func(s SubtaskStats) int64 { return s.CheckpointedSize }), StateSize: of(func(s SubtaskStats) int64 { return s.StateSize }),
		Duration:   of(func(s SubtaskStats) int64 { return s.Acknowledged.Sub(c.Trigger).Milliseconds() }),
		StartDelay: of(func(s SubtaskStats) int64 { return s.StartDelay.Milliseconds() }),
	}
	sum.CheckpointDuration.Sync = of(func(s SubtaskStats) int64 { return s.Sync.Milliseconds() })
	sum.CheckpointDuration.Async = of(func(s SubtaskStats) int64 { return s.Async.Milliseconds() })
	sum.Alignment.Buffered = of(func(SubtaskStats) int64 { return 0 })
	sum.Alignment.Processed = of(func(SubtaskStats) int64 { return 0 })
	sum.Alignment.Persisted = of(func(s SubtaskStats) int64 { return s.Channels })
	sum.Alignment.Duration = of(func(s SubtaskStats) int64 { return s.Alignment.Milliseconds() })
	d.Summary = sum
	return http.StatusOK, d, nil
}

// begin notes an operation, and has f do it. The same trigger begins nothing twice.
func (s *Server) begin(job, trigger string, f func(ctx context.Context) (string, error)) (int, any, error) {
	if trigger == "" {
		trigger = rest.NewTriggerID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.triggers[trigger] == nil {
		op := &operation{job: job}
		s.triggers[trigger] = op
		if s.order = append(s.order, trigger); len(s.order) > mostOperations {
			delete(s.triggers, s.order[0])
			s.order = s.order[1:]
		}
		go func() {
			// It goes on when the client is gone, as in Flink.
			location, err := f(context.Background())
			s.mu.Lock()
			defer s.mu.Unlock()
			op.done, op.result.Location = true, location
			if err != nil {
				op.result = rest.OperationResult{Failure: failure(err)}
			}
		}()
	}
	return http.StatusAccepted, rest.Trigger{ID: trigger}, nil
}

// failure tells an error with the words by which clients of Flink know what to do.
func failure(err error) *rest.Failure {
	class, text := "org.apache.flink.util.FlinkException", err.Error()
	switch {
	case errors.Is(err, ErrNotRunning):
		class, text = "org.apache.flink.runtime.checkpoint.CheckpointException", "Not all required tasks are currently running."
	case errors.Is(err, ErrStopping):
		class, text = "org.apache.flink.runtime.checkpoint.CheckpointException", "Checkpoint Coordinator is suspending."
	}
	return &rest.Failure{Class: class, StackTrace: class + ": " + text}
}

// asked tells of an operation.
func (s *Server) asked(r *http.Request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.triggers[r.PathValue("trigger")]
	if op == nil || op.job != r.PathValue("job") {
		return 0, nil, &refusal{http.StatusNotFound, "Operation not found under key: " + r.PathValue("trigger")}
	}
	if !op.done {
		return http.StatusOK, rest.Operation{Status: rest.Status{ID: rest.OperationInProgress}}, nil
	}
	op.told = true
	s.tell()
	result := op.result
	return http.StatusOK, rest.Operation{Status: rest.Status{ID: rest.OperationCompleted}, Result: &result}, nil
}

// mostBody bounds a request, in bytes.
const mostBody = 1 << 20

func read(r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, mostBody))
	if err := d.Decode(into); err != nil {
		return &refusal{http.StatusBadRequest, "Bad request received. " + err.Error()}
	}
	return nil
}

// savepointOptions reads what a request wants.
func (x *Execution) savepointOptions(dir string, f rest.Format) (SavepointOptions, error) {
	o := SavepointOptions{}
	switch f {
	case "", rest.Canonical:
	case rest.Native:
		o.Format = backend.FormatRocksDB
	default:
		return o, &refusal{http.StatusBadRequest, fmt.Sprintf("format %q: CANONICAL or NATIVE", f)}
	}
	if dir == "" && x.o.SavepointDir == "" {
		return o, &refusal{http.StatusBadRequest, "Config key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must be provided."}
	}
	return o, nil
}

func (s *Server) triggerSavepoint(x *Execution, r *http.Request) (int, any, error) {
	var q rest.SavepointRequest
	if err := read(r, &q); err != nil {
		return 0, nil, err
	}
	o, err := x.savepointOptions(q.TargetDirectory, q.Format)
	if err != nil {
		return 0, nil, err
	}
	return s.begin(x.id, q.TriggerID, func(ctx context.Context) (string, error) {
		if q.CancelJob {
			return s.end(x, func() (Savepoint, error) { return x.CancelWithSavepoint(ctx, q.TargetDirectory, o) })
		}
		sp, err := x.Savepoint(ctx, q.TargetDirectory, o)
		return sp.Path, err
	})
}

func (s *Server) triggerStop(x *Execution, r *http.Request) (int, any, error) {
	var q rest.StopRequest
	if err := read(r, &q); err != nil {
		return 0, nil, err
	}
	o, err := x.savepointOptions(q.TargetDirectory, q.Format)
	if err != nil {
		return 0, nil, err
	}
	o.Drain = q.Drain
	return s.begin(x.id, q.TriggerID, func(ctx context.Context) (string, error) {
		return s.end(x, func() (Savepoint, error) { return x.Stop(ctx, q.TargetDirectory, o) })
	})
}

// end ends a job with a savepoint.
func (s *Server) end(x *Execution, f func() (Savepoint, error)) (string, error) {
	s.endingOf(x, true)
	sp, err := f()
	if err != nil {
		s.endingOf(x, false)
	}
	return sp.Path, err
}

func (s *Server) dispose(r *http.Request) (int, any, error) {
	var q rest.DisposalRequest
	if err := read(r, &q); err != nil {
		return 0, nil, err
	}
	return s.begin("", "", func(ctx context.Context) (string, error) { return "", Dispose(ctx, s.FS, q.Path) })
}
