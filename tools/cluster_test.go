package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/rest/resttest"
)

// clusterOf starts a recorded cluster, and a client that does not wait between its questions.
func clusterOf(t *testing.T, version string, moments ...string) (*resttest.Server, *Cluster) {
	t.Helper()
	s, err := resttest.New(version, moments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, impatient(t, s.URL)
}

func impatient(t *testing.T, url string) *Cluster {
	t.Helper()
	c, err := NewCluster(url, ClusterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.firstPoll, c.longestPoll = time.Millisecond, time.Millisecond
	return c
}

func TestClusterJobs(t *testing.T) {
	for _, v := range resttest.Versions {
		s, c := clusterOf(t, v, "ended")
		jobs, err := c.Jobs(t.Context())
		if err != nil || len(jobs) != 4 || jobs[0].ID != resttest.DrainedJob || jobs[0].State != "FINISHED" || !jobs[0].Ended || jobs[0].End.Sub(jobs[0].Start) != jobs[0].Duration {
			t.Errorf("%+v, %v", jobs, err)
		}
		// One of those that ended runs again.
		s.Put("GET /jobs/overview", 200, strings.Replace(string(overviewOf(t, v, "ended")), `"state":"CANCELED"`, `"state":"RUNNING"`, 1))
		jobs, err = c.Jobs(t.Context())
		if err != nil || jobs[0].ID != "dd5c8bf515583fcba5007071908e9524" || jobs[0].Ended {
			t.Errorf("%+v, %v", jobs, err)
		}
		for name, want := range map[string]string{
			resttest.Job: resttest.Job, strings.ToUpper(resttest.Job): resttest.Job, "d0": resttest.Job, "c0759f": resttest.DrainedJob,
			"Flink Streaming Job": "dd5c8bf515583fcba5007071908e9524", // the one that runs
			"d":                   "dd5c8bf515583fcba5007071908e9524",
		} {
			if j, err := c.Find(t.Context(), name); err != nil || j.ID != want {
				t.Errorf("%q: %+v, %v", name, j, err)
			}
		}
		for _, name := range []string{"", "x", "Flink", "00000000000000000000000000000000"} {
			if j, err := c.Find(t.Context(), name); !errors.Is(err, ErrNoJob) {
				t.Errorf("%q: %+v, %v", name, j, err)
			}
		}
		s.Play("ended")
		if _, err := c.Find(t.Context(), "Flink Streaming Job"); !errors.Is(err, ErrNoJob) || !strings.Contains(err.Error(), resttest.DrainedJob+" or dd5c8bf515583fcba5007071908e9524 or ") {
			t.Error(err)
		}
	}
}

// overviewOf is the last recorded list of jobs of a moment.
func overviewOf(t *testing.T, version, moment string) []byte {
	t.Helper()
	all, err := resttest.Recorded(version)
	if err != nil {
		t.Fatal(err)
	}
	var found []byte
	for _, x := range all {
		if x.Moment == moment && x.Path == "/jobs/overview" {
			found = x.Answer
		}
	}
	if found == nil {
		t.Fatalf("no overview of %s", moment)
	}
	return found
}

func TestClusterCheckpoints(t *testing.T) {
	for _, v := range resttest.Versions {
		s, c := clusterOf(t, v, "running")
		a, err := c.Checkpoints(t.Context(), "d0dbe9", 3)
		if err != nil {
			t.Fatal(err)
		}
		var retained []int64
		for _, r := range a.Retained {
			retained = append(retained, r.ID)
			if r.Path == nil || !strings.HasPrefix(*r.Path, "file:/flink/") {
				t.Errorf("%+v", r)
			}
		}
		if !slices.Equal(retained, []int64{5, 4, 3, 2, 1}) || a.UnlistedBelow != 0 || a.Config.Backend != "EmbeddedRocksDBStateBackend" || a.Statistics.Counts.Failed != 2 {
			t.Errorf("%s: %+v, retained %d", v, a, retained)
		}
		if len(a.Details) != 1 || len(a.Details[0].Vertices) != 2 || a.Details[0].Vertices[0].Name != "Source: src -> chaos" || a.Details[0].Vertices[1].CheckpointedSize != 9554 {
			t.Errorf("%s: %+v", v, a.Details)
		}
		if _, err := c.Checkpoints(t.Context(), "d0dbe9", 99); !errors.Is(err, rest.ErrNotFound) {
			t.Error(err)
		}
		s.Put("GET /jobs/"+resttest.Job+"/checkpoints", 404, `{"errors":["org.apache.flink.runtime.rest.handler.RestHandlerException: Checkpointing has not been enabled."]}`)
		if a, err = c.Checkpoints(t.Context(), "d0dbe9"); err != nil || a.Statistics != nil || a.Retained == nil {
			t.Errorf("a batch job: %+v, %v", a, err)
		}
		s.Put("GET /jobs/"+resttest.Job+"/checkpoints", 200, `{"counts":{"restored":0,"total":1,"in_progress":0},"latest":{},"history":[{"id":1,"status":"COMPLETED","is_savepoint":false,"trigger_timestamp":5}]}`)
		if a, err = c.Checkpoints(t.Context(), "d0dbe9"); !errors.Is(err, rest.ErrNotFlink) {
			t.Errorf("completed, and nowhere: %+v, %v", a, err)
		}
	}
}

func TestClusterOperations(t *testing.T) {
	dir := SaveOptions{Dir: "file:///flink/sp"}
	native := SaveOptions{Dir: "file:///flink/sp", Format: rest.Native}
	type outcome struct {
		change *ClusterChange
		err    error
	}
	of := func(change *ClusterChange, err error) outcome { return outcome{change, err} }
	for _, v := range resttest.Versions {
		for name, c := range map[string]struct {
			moments   []string
			do        func(ctx context.Context, c *Cluster) outcome
			savepoint string // how it begins
			state     string
			cause     error
			text      string
			asked     string // the request that changes something
		}{
			"savepoint": {moments: []string{"running", "canonical"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Savepoint(ctx, "d0", dir)) },
				savepoint: "file:/flink/sp/savepoint-d0dbe9-", state: "RUNNING",
				asked: `POST /jobs/d0dbe915091d300b98ee7f27f0791303/savepoints {"target-directory":"file:///flink/sp","cancel-job":false,"formatType":"CANONICAL","triggerId":"ID"}`},
			"native": {moments: []string{"running", "native"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Savepoint(ctx, "d0", native)) },
				savepoint: "file:/flink/sp/savepoint-d0dbe9-", state: "RUNNING"},
			"default directory": {moments: []string{"running", "default"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Savepoint(ctx, "d0", SaveOptions{})) },
				savepoint: "file:/flink/sp/savepoint-d0dbe9-", state: "RUNNING",
				asked: `POST /jobs/d0dbe915091d300b98ee7f27f0791303/savepoints {"cancel-job":false,"formatType":"CANONICAL","triggerId":"ID"}`},
			"no directory": {moments: []string{"running", "no-directory"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Savepoint(ctx, "d0", SaveOptions{})) },
				cause: rest.ErrNoDirectory, text: "Config key [execution.checkpointing.savepoint-dir] is not set"},
			"fails": {moments: []string{"running", "fails"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Savepoint(ctx, "d0", dir)) },
				text: "savepoint of job " + resttest.Job + " (Flink Streaming Job) failed: Asynchronous task checkpoint failed: "},
			"stop": {moments: []string{"running", "stop", "ended"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Stop(ctx, "d0", false, native)) },
				savepoint: "file:/flink/sp/savepoint-d0dbe9-", state: "FINISHED",
				asked: `POST /jobs/d0dbe915091d300b98ee7f27f0791303/stop {"targetDirectory":"file:///flink/sp","drain":false,"formatType":"NATIVE","triggerId":"ID"}`},
			"ended meanwhile": {moments: []string{"running", "ended"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Stop(ctx, "d0", false, native)) },
				cause: ErrJobEnded, text: "it became FINISHED meanwhile: Could not find Flink job"},
			"stop interrupted by a cancellation": {moments: []string{"running", "two-stops"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Stop(ctx, "d0", false, SaveOptions{})) },
				cause: rest.ErrInProgress, text: "a stop or a cancellation of the job, which is CANCELED, came in between"},
			"stop of one that ended": {moments: []string{"ended"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Stop(ctx, "d0", false, dir)) },
				cause: ErrJobEnded, text: "it is FINISHED"},
			"cancel": {moments: []string{"running", "two-stops"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Cancel(ctx, "d0", SaveOptions{})) },
				state: "CANCELED", asked: "PATCH /jobs/d0dbe915091d300b98ee7f27f0791303?mode=cancel"},
			"canceled already": {moments: []string{"ended"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Cancel(ctx, "a9f0e6", SaveOptions{})) }, state: "CANCELED"},
			"cancel too late":  {moments: []string{"running", "ended"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Cancel(ctx, "d0", SaveOptions{})) }, cause: ErrJobEnded, text: "terminal state (FINISHED)"},
			"no wait": {moments: []string{"running", "canonical"}, do: func(ctx context.Context, c *Cluster) outcome {
				return of(c.Savepoint(ctx, "d0", SaveOptions{Dir: dir.Dir, NoWait: true}))
			}, state: "RUNNING"},
			"awaited later": {moments: []string{"running", "canonical"}, do: func(ctx context.Context, c *Cluster) outcome {
				return of(c.Await(ctx, "d0", "00000000000000000000000000000003", SaveOptions{}))
			}, savepoint: "file:/flink/sp/savepoint-d0dbe9-", state: "RUNNING"},
			"awaited too late": {moments: []string{"running", "unknown"}, do: func(ctx context.Context, c *Cluster) outcome {
				return of(c.Await(ctx, "d0", "000000000000000000000000000000ff", SaveOptions{}))
			}, cause: rest.ErrNotFound, text: "look among the job's checkpoints"},
			"unknown job": {moments: []string{"running"}, do: func(ctx context.Context, c *Cluster) outcome { return of(c.Cancel(ctx, "ff", SaveOptions{})) }, cause: ErrNoJob},
		} {
			t.Run(v+"/"+name, func(t *testing.T) {
				s, cluster := clusterOf(t, v, c.moments...)
				o := c.do(t.Context(), cluster)
				if c.text != "" || c.cause != nil {
					if o.err == nil || !errors.Is(o.err, c.cause) && c.cause != nil || !strings.Contains(o.err.Error(), c.text) || !strings.Contains(o.err.Error(), "job manager "+s.URL) {
						t.Errorf("%+v, %v", o.change, o.err)
					}
					return
				}
				if o.err != nil {
					t.Fatal(o.err)
				}
				if !strings.HasPrefix(o.change.Savepoint, c.savepoint) || (o.change.Savepoint == "") != (c.savepoint == "") || o.change.Job.State != c.state || o.change.Done == (name == "no wait") {
					t.Errorf("%+v", o.change)
				}
				if c.asked != "" && !slices.Contains(s.Requests(), c.asked) {
					t.Errorf("asked %q", s.Requests())
				}
				if name == "canceled already" && slices.ContainsFunc(s.Requests(), func(r string) bool { return !strings.HasPrefix(r, "GET ") }) {
					t.Errorf("asked %q", s.Requests())
				}
			})
		}
	}
}

// TestClusterDrainAndCancel has jobs of which no list was recorded while they ran.
func TestClusterDrainAndCancel(t *testing.T) {
	for _, v := range resttest.Versions {
		ended := string(overviewOf(t, v, "ended"))
		for _, c := range []struct {
			moment, job, state string
			do                 func(c *Cluster) (*ClusterChange, error)
		}{
			{"drain", resttest.DrainedJob, "FINISHED", func(c *Cluster) (*ClusterChange, error) {
				return c.Stop(t.Context(), resttest.DrainedJob, true, SaveOptions{Dir: "file:///flink/sp"})
			}},
			{"cancel-savepoint", resttest.CanceledJob, "CANCELED", func(c *Cluster) (*ClusterChange, error) {
				return c.CancelWithSavepoint(t.Context(), resttest.CanceledJob, SaveOptions{Dir: "file:///flink/sp"})
			}},
		} {
			s, cluster := clusterOf(t, v, c.moment)
			running := strings.NewReplacer("FINISHED", "RUNNING", "CANCELED", "RUNNING").Replace(ended)
			s.Put("GET /jobs/overview", 200, running, running, ended)
			change, err := c.do(cluster)
			if err != nil || change.Job.State != c.state || !strings.HasPrefix(change.Savepoint, "file:/flink/sp/savepoint-"+c.job[:6]+"-") {
				t.Errorf("%s: %+v, %v", c.moment, change, err)
			}
		}
	}
}

// TestClusterPending ends the waiting before the operation: what goes on is told.
func TestClusterPending(t *testing.T) {
	const status = "GET /jobs/" + resttest.Job + "/savepoints/"
	for _, v := range resttest.Versions {
		s, c := clusterOf(t, v, "running", "two-stops")
		ctx, cancel := context.WithCancel(t.Context())
		var seen SaveProgress
		// It is in progress, as recorded, until it is interrupted.
		_, err := c.Stop(ctx, "d0", false, SaveOptions{Progress: func(p SaveProgress) { seen = p; cancel() }})
		var pending *PendingError
		if !errors.As(err, &pending) || !errors.Is(err, context.Canceled) || !rest.IsID(pending.Trigger) || pending.Operation != "stop" || pending.Job.ID != resttest.Job || pending.Uncertain || pending.Savepoint != "" || seen.Ending {
			t.Errorf("%+v, %v", pending, err)
		}
		if !slices.ContainsFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, status) }) {
			t.Errorf("asked %q", s.Requests())
		}
		// The job does not end in time.
		s, c = clusterOf(t, v, "running", "stop")
		_, err = c.Stop(t.Context(), "d0", false, SaveOptions{Dir: "file:///flink/sp", Format: rest.Native, Timeout: 50 * time.Millisecond})
		if !errors.As(err, &pending) || !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(pending.Savepoint, "file:/flink/sp/") || !strings.Contains(err.Error(), "it did not end within 50ms") {
			t.Errorf("%v", err)
		}
		_ = s
	}
}

// TestClusterPersists loses answers on the way: the request is made again, with the same id.
func TestClusterPersists(t *testing.T) {
	recorded, err := resttest.New("2.3.0", "running", "canonical")
	if err != nil {
		t.Fatal(err)
	}
	defer recorded.Close()
	lost := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.Method
		if strings.Contains(r.URL.Path, "/savepoints") {
			if lost[kind]++; lost[kind] <= 2 {
				if kind == http.MethodPost {
					recorded.ServeHTTP(httptest.NewRecorder(), r) // it came, and the answer doesn't come back
				}
				panic(http.ErrAbortHandler)
			}
		}
		recorded.ServeHTTP(w, r)
	}))
	defer s.Close()
	change, err := impatient(t, s.URL).Savepoint(t.Context(), "d0", SaveOptions{Dir: "file:///flink/sp"})
	if err != nil || change.Savepoint == "" {
		t.Fatal(change, err)
	}
	posts := slices.DeleteFunc(recorded.Requests(), func(r string) bool { return !strings.HasPrefix(r, "POST ") })
	if len(posts) != 3 || posts[0] != posts[1] || posts[1] != posts[2] {
		t.Errorf("posted %q", posts)
	}

	c := impatient(t, s.URL)
	c.patience = 20 * time.Millisecond
	s.Close()
	if _, err := c.Savepoint(t.Context(), "d0", SaveOptions{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

// TestClusterGone: the job manager of an application goes away with its job.
func TestClusterGone(t *testing.T) {
	recorded, err := resttest.New("1.20.5", "running", "cancel", "two-stops")
	if err != nil {
		t.Fatal(err)
	}
	defer recorded.Close()
	recorded.Put("GET /jobs/overview", 200, string(overviewOf(t, "1.20.5", "running")), `{"jobs":[]}`)
	change, err := impatient(t, recorded.URL).Cancel(t.Context(), "d0", SaveOptions{})
	if err != nil || !change.Done || !change.Gone {
		t.Errorf("%+v, %v", change, err)
	}

	recorded.Play("two-stops")
	recorded.Put("GET /jobs/overview", 200, string(overviewOf(t, "1.20.5", "running")))
	c := impatient(t, recorded.URL)
	c.patience = 20 * time.Millisecond
	change, err = c.Cancel(t.Context(), "d0", SaveOptions{Progress: func(SaveProgress) { recorded.CloseClientConnections(); _ = recorded.Listener.Close() }})
	if err != nil || !change.Done || !change.Gone {
		t.Errorf("%+v, %v", change, err)
	}
}

// TestClusterJSON: the documents of the commands.
func TestClusterJSON(t *testing.T) {
	_, c := clusterOf(t, "2.3.0", "running", "canonical")
	change, err := c.Savepoint(t.Context(), "d0", SaveOptions{Dir: "file:///flink/sp"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(change)
	if err != nil || !bytes.HasPrefix(data, []byte(`{"operation":"savepoint","job":{"id":"d0dbe915091d300b98ee7f27f0791303","name":"Flink Streaming Job","state":"RUNNING","start":"2026-11-30T`)) ||
		!bytes.Contains(data, []byte(`"savepoint":"file:/flink/sp/savepoint-d0dbe9-`)) || !bytes.HasSuffix(data, []byte(`,"done":true}`)) {
		t.Errorf("%s, %v", data, err)
	}
}
