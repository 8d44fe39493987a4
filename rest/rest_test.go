package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/rest/resttest"
)

const unknown = "00000000000000000000000000000000"

// serve starts a recorded cluster and a client of it.
func serve(t *testing.T, version string, moments ...string) (*resttest.Server, *rest.Client) {
	t.Helper()
	s, err := resttest.New(version, moments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, client(t, s.URL, rest.Options{})
}

func client(t *testing.T, url string, o rest.Options) *rest.Client {
	t.Helper()
	c, err := rest.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// types says which type is for which request.
var types = []struct {
	request string
	body    any
	answer  any
}{
	{`GET /config`, nil, rest.Dashboard{}},
	{`GET /overview`, nil, rest.Overview{}},
	{`GET /jobs/overview`, nil, rest.JobsOverview{}},
	{`GET /jobs/\w{32}`, nil, rest.Job{}},
	{`GET /jobs/\w+/checkpoints`, nil, rest.Checkpoints{}},
	{`GET /jobs/\w+/checkpoints/config`, nil, rest.CheckpointConfig{}},
	{`GET /jobs/\w+/checkpoints/details/\d+`, nil, rest.Checkpoint{}},
	{`GET /jobs/\w+/checkpoints/details/\d+/subtasks/\w+`, nil, rest.TaskCheckpointDetails{}},
	{`POST /jobs/\w+/savepoints`, rest.SavepointRequest{}, rest.Trigger{}},
	{`POST /jobs/\w+/stop`, rest.StopRequest{}, rest.Trigger{}},
	{`GET /jobs/\w+/savepoints/\w+`, nil, rest.Operation{}},
	{`PATCH /jobs/\w+\?mode=\w+`, nil, struct{}{}},
	{`POST /savepoint-disposal`, rest.DisposalRequest{}, rest.Trigger{}},
	{`GET /savepoint-disposal/\w+`, nil, rest.Operation{}},
	{`GET /nothing`, nil, nil},
}

// TestTypes decodes and encodes all that was recorded: not a field is lost, added or another.
func TestTypes(t *testing.T) {
	same := func(t *testing.T, what string, data []byte, as any) {
		t.Helper()
		v := reflect.New(reflect.TypeOf(as)).Interface()
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := errors.Join(json.Unmarshal(data, &want), json.Unmarshal(again, &got)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", what, again, data)
		}
	}
	for _, v := range resttest.Versions {
		all, err := resttest.Recorded(v)
		if err != nil {
			t.Fatal(err)
		}
		met := map[string]bool{}
		for _, x := range all {
			request := x.Method + " " + x.Path
			i := slices.IndexFunc(types, func(c struct {
				request      string
				body, answer any
			}) bool {
				return regexp.MustCompile("^" + c.request + "$").MatchString(request)
			})
			if i < 0 {
				t.Fatalf("no type for %s", request)
			}
			met[types[i].request] = true
			what := fmt.Sprintf("%s, %s, %s", v, x.Moment, request)
			if x.Body != nil {
				same(t, what+", body", x.Body, types[i].body)
			}
			if x.Status > 299 {
				same(t, what, x.Answer, rest.ErrorAnswer{})
			} else {
				same(t, what, x.Answer, types[i].answer)
			}
		}
		if len(met) != len(types) {
			t.Errorf("%s: %d of %d requests were recorded", v, len(met), len(types))
		}
	}
}

func TestReads(t *testing.T) {
	for _, v := range resttest.Versions {
		t.Run(v, func(t *testing.T) {
			_, c := serve(t, v, "running")
			jobs, err := c.Jobs(t.Context())
			if err != nil || len(jobs) != 1 || jobs[0].ID != resttest.Job || jobs[0].State != rest.JobRunning || jobs[0].End != -1 || jobs[0].Tasks.Running != 4 {
				t.Errorf("%+v, %v", jobs, err)
			}
			d, err := c.Dashboard(t.Context())
			if err != nil || d.Version != v || d.RefreshInterval != 3000 {
				t.Errorf("%+v, %v", d, err)
			}
			o, err := c.Overview(t.Context())
			if err != nil || o.Version != v || o.SlotsTotal != 4 || o.JobsRunning != 1 {
				t.Errorf("%+v, %v", o, err)
			}
			j, err := c.Job(t.Context(), resttest.Job)
			if err != nil || len(j.Vertices) != 2 || j.Vertices[1].Name != "kv-long" || j.Vertices[1].MaxParallelism != 128 {
				t.Errorf("%+v, %v", j, err)
			}
			s, err := c.Checkpoints(t.Context(), resttest.Job)
			if err != nil || *s.Counts != (rest.CheckpointCounts{Total: 7, Completed: 5, Failed: 2}) || len(s.History) != 7 || s.Latest.Completed.ID != 2 || s.Latest.Savepoint.ID != 5 || *s.Latest.Savepoint.Format != "NATIVE" || s.Latest.Restored != nil {
				t.Errorf("%+v, %v", s, err)
			}
			k, err := c.CheckpointConfig(t.Context(), resttest.Job)
			if err != nil || k.Mode != "exactly_once" || k.Timeout != 120000 || k.Externalization.DeleteOnCancellation {
				t.Errorf("%+v, %v", k, err)
			}
			one, err := c.Checkpoint(t.Context(), resttest.Job, 3)
			if err != nil || one.ID != 3 || len(one.Tasks) != 2 || one.Tasks[j.Vertices[1].ID].Acknowledged != 2 {
				t.Errorf("%+v, %v", one, err)
			}
			task, err := c.TaskCheckpoint(t.Context(), resttest.Job, 3, j.Vertices[1].ID)
			if err != nil || len(task.Subtasks) != 2 || task.Subtasks[1].Checkpoint == nil || !math.IsNaN(float64(task.Summary.StartDelay.P99)) {
				t.Errorf("%+v, %v", task, err)
			}
			if _, err := c.Checkpoint(t.Context(), resttest.Job, 99); !errors.Is(err, rest.ErrNotFound) || !strings.HasSuffix(err.Error(), ": 404 Not Found: Could not find checkpointing statistics for checkpoint 99.") {
				t.Error(err)
			}
		})
	}
}

// done asks until the operation has ended.
func done(t *testing.T, ask func() (*rest.Operation, error)) (string, error) {
	t.Helper()
	for range 100 {
		o, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if location, ended, err := o.Done(); ended || err != nil {
			return location, err
		}
	}
	t.Fatal("it never ends")
	return "", nil
}

func TestOperations(t *testing.T) {
	const dir = "file:///flink/sp"
	for _, v := range resttest.Versions {
		for _, c := range []struct {
			moment    string
			savepoint rest.SavepointRequest
			stop      *rest.StopRequest
			job       string
			location  string
			cause     error
			text      string
		}{
			{moment: "canonical", savepoint: rest.SavepointRequest{TargetDirectory: dir, Format: rest.Canonical}, location: "file:/flink/sp/savepoint-d0dbe9-"},
			{moment: "native", savepoint: rest.SavepointRequest{TargetDirectory: dir, Format: rest.Native}, location: "file:/flink/sp/savepoint-d0dbe9-"},
			{moment: "default", savepoint: rest.SavepointRequest{Format: rest.Canonical}, location: "file:/flink/sp/savepoint-d0dbe9-"},
			{moment: "cancel-savepoint", savepoint: rest.SavepointRequest{TargetDirectory: dir, Format: rest.Canonical, CancelJob: true}, job: resttest.CanceledJob, location: "file:/flink/sp/savepoint-a9f0e6-"},
			{moment: "stop", stop: &rest.StopRequest{TargetDirectory: dir, Format: rest.Native}, location: "file:/flink/sp/savepoint-d0dbe9-"},
			{moment: "drain", stop: &rest.StopRequest{TargetDirectory: dir, Format: rest.Canonical, Drain: true}, job: resttest.DrainedJob, location: "file:/flink/sp/savepoint-c0759f-"},
			{moment: "fails", savepoint: rest.SavepointRequest{TargetDirectory: dir, Format: rest.Canonical},
				text: "Asynchronous task checkpoint failed: Could not materialize checkpoint 6 for operator Source: src -> chaos (2/2)#0: async failure asked for in checkpoint 6"},
			{moment: "bad-directory", savepoint: rest.SavepointRequest{TargetDirectory: "file:///proc/nowhere", Format: rest.Canonical},
				text: "An Exception occurred while triggering the checkpoint. IO-problem detected: Failed to create savepoint directory at file:/proc/nowhere"},
			{moment: "unknown", savepoint: rest.SavepointRequest{TargetDirectory: "file:///proc/nowhere", Format: rest.Canonical}, job: unknown,
				cause: rest.ErrNotFound, text: "Could not find Flink job (" + unknown + ")"},
			{moment: "unknown", stop: &rest.StopRequest{TargetDirectory: dir, Format: rest.Canonical}, job: unknown, cause: rest.ErrNotFound, text: "Could not find Flink job (" + unknown + ")"},
			{moment: "ended", stop: &rest.StopRequest{TargetDirectory: dir, Format: rest.Native}, cause: rest.ErrNotFound, text: "Could not find Flink job (" + resttest.Job + ")"},
		} {
			t.Run(v+"/"+c.moment, func(t *testing.T) {
				_, flink := serve(t, v, c.moment)
				job := c.job
				if job == "" {
					job = resttest.Job
				}
				var id string
				var err error
				if c.stop != nil {
					id, err = flink.Stop(t.Context(), job, *c.stop)
				} else {
					id, err = flink.TriggerSavepoint(t.Context(), job, c.savepoint)
				}
				if err != nil || !rest.IsID(id) {
					t.Fatal(id, err)
				}
				location, err := done(t, func() (*rest.Operation, error) { return flink.Savepoint(t.Context(), job, id) })
				if !strings.HasPrefix(location, c.location) || (location == "") != (c.location == "") {
					t.Errorf("it is at %q, want %q", location, c.location)
				}
				if c.text == "" && err != nil || c.text != "" && (err == nil || err.Error() != c.text) || c.cause != nil && !errors.Is(err, c.cause) {
					t.Errorf("%v, want %q", err, c.text)
				}
			})
		}
		t.Run(v+"/two stops", func(t *testing.T) {
			_, flink := serve(t, v, "two-stops")
			id, err := flink.Stop(t.Context(), resttest.Job, rest.StopRequest{Format: rest.Canonical, TriggerID: "00000000000000000000000000000012"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = done(t, func() (*rest.Operation, error) { return flink.Savepoint(t.Context(), resttest.Job, id) })
			if !errors.Is(err, rest.ErrInProgress) || err.Error() != "Checkpoint Coordinator is suspending." {
				t.Error(err)
			}
		})
		t.Run(v+"/disposal", func(t *testing.T) {
			s, flink := serve(t, v, "dispose")
			all, err := resttest.Recorded(v)
			if err != nil {
				t.Fatal(err)
			}
			var body rest.DisposalRequest
			for _, x := range all {
				if x.Moment == "dispose" && x.Method == http.MethodPost {
					err = json.Unmarshal(x.Body, &body)
				}
			}
			if err != nil || body.Path == "" {
				t.Fatal("no disposal was recorded", err)
			}
			for moment, text := range map[string]string{
				"dispose":         "",
				"dispose-nothing": "Could not dispose savepoint " + body.Path + ": Cannot find checkpoint or savepoint file/directory '" + body.Path + "' on file system 'file'.",
			} {
				s.Play(moment)
				id, err := flink.DisposeSavepoint(t.Context(), body.Path)
				if err != nil {
					t.Fatal(err)
				}
				_, err = done(t, func() (*rest.Operation, error) { return flink.Disposal(t.Context(), id) })
				if text == "" && err != nil || text != "" && (err == nil || err.Error() != text) {
					t.Errorf("%s: %v", moment, err)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, v := range resttest.Versions {
		_, c := serve(t, v, "unknown", "no-directory", "bad-format", "ended")
		for name, w := range map[string]struct {
			err   error
			cause error
			text  string
		}{
			"unknown job":       {second(c.Checkpoints(t.Context(), unknown)), rest.ErrNotFound, "404 Not Found: Job " + unknown + " not found: Could not find Flink job (" + unknown + ")"},
			"unknown to config": {second(c.CheckpointConfig(t.Context(), unknown)), rest.ErrNotFound, "not found"},
			"unknown to job":    {second(c.Job(t.Context(), unknown)), rest.ErrNotFound, "not found"},
			"unknown to cancel": {c.Cancel(t.Context(), unknown), rest.ErrNotFound, "Job could not be found: Could not find Flink job"},
			"unknown operation": {second(c.Savepoint(t.Context(), resttest.Job, "000000000000000000000000000000ff")), rest.ErrNotFound, "There is no savepoint operation with triggerId=000000000000000000000000000000ff"},
			"unknown disposal":  {second(c.Disposal(t.Context(), "000000000000000000000000000000ff")), rest.ErrNotFound, "Operation not found"},
			"ended":             {c.Cancel(t.Context(), resttest.Job), rest.ErrEnded, "409 Conflict: Job cancellation failed because the job has already reached another terminal state (FINISHED)."},
			"no directory": {second(c.TriggerSavepoint(t.Context(), resttest.Job, rest.SavepointRequest{Format: rest.Canonical})), rest.ErrNoDirectory,
				"400 Bad Request: Config key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must be provided."},
			"no directory to stop": {second(c.Stop(t.Context(), resttest.Job, rest.StopRequest{Format: rest.Canonical})), rest.ErrNoDirectory, "Property [targetDirectory] must be provided."},
			"no such request":      {second(c.Settings(t.Context())), rest.ErrUnsupported, "404 Not Found: Not found: /jobmanager/config"},
			"no format": {second(c.TriggerSavepoint(t.Context(), resttest.Job, rest.SavepointRequest{TargetDirectory: "file:///flink/sp", Format: "OTHER"})), nil,
				"400 Bad Request: Request did not match expected format SavepointTriggerRequestBody: Cannot deserialize value"},
			"no id": {c.Cancel(t.Context(), "../config"), nil, `"../config" is not the id of a job`},
		} {
			if w.err == nil || !strings.Contains(w.err.Error(), w.text) || w.cause != nil && !errors.Is(w.err, w.cause) {
				t.Errorf("%s, %s: %v", v, name, w.err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestNoLeader answers as LeaderRetrievalHandler does while there is none.
func TestNoLeader(t *testing.T) {
	const election = `{"errors":["Service temporarily unavailable due to an ongoing leader election. Please refresh."]}`
	for name, c := range map[string]struct {
		unavailable int
		text        string
		post        bool
		retryFor    time.Duration
		tries       int
		cause       error
	}{
		"comes back":                      {unavailable: 2, text: election, tries: 3},
		"a savepoint waits, too":          {unavailable: 2, text: election, post: true, tries: 3},
		"never":                           {unavailable: 1000, text: election, retryFor: time.Millisecond, tries: 1, cause: rest.ErrUnavailable},
		"not tried again":                 {unavailable: 1000, text: election, retryFor: -1, tries: 1, cause: rest.ErrUnavailable},
		"a proxy's":                       {unavailable: 1, text: "busy", tries: 2},
		"what a proxy may have passed on": {unavailable: 1000, text: "busy", post: true, tries: 1, cause: rest.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if c.post && !strings.Contains(string(body), "triggerId") {
					t.Errorf("try %d: %q", tries, body)
				}
				if tries++; tries <= c.unavailable {
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, c.text)
					return
				}
				_, _ = io.WriteString(w, `{"jobs":[],"request-id":"`+unknown+`"}`)
			}))
			defer s.Close()
			var log bytes.Buffer
			flink := client(t, s.URL, rest.Options{RetryFor: c.retryFor, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			var err error
			if c.post {
				_, err = flink.TriggerSavepoint(t.Context(), unknown, rest.SavepointRequest{})
			} else {
				_, err = flink.Jobs(t.Context())
			}
			if !errors.Is(err, c.cause) || tries != c.tries || strings.Count(log.String(), "level=WARN") != c.tries-1 {
				t.Errorf("%d tries, %v\n%s", tries, err, &log)
			}
		})
	}
}

func TestNotFlink(t *testing.T) {
	for body, text := range map[string]string{
		`<html>Please log in</html>`:    "not the answer of Flink",
		`{"jobs":[`:                     "not the answer of Flink",
		`{}`:                            "no field jobs",
		`{"jobs":null}`:                 "no field jobs",
		`[]`:                            "not the answer of Flink",
		`{"jobs":[{"jid":""}]}`:         "no field jobs[0].jid",
		`{"jobs":[{"jid":"a"},null]}`:   "no field jobs[0].start-time",
		`{"jobs":[null]}`:               "no field jobs[0]",
		`{"jobs":[{"jid":1}]}`:          "not the answer of Flink",
		strings.Repeat("[", 20000):      "not the answer of Flink",
		`{"jobs":"` + "\xff" + `none"}`: "not the answer of Flink",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		_, err := client(t, s.URL, rest.Options{}).Jobs(t.Context())
		s.Close()
		if !errors.Is(err, rest.ErrNotFlink) || !strings.Contains(err.Error(), text) {
			t.Errorf("%.40q: %v", body, err)
		}
	}
	for answer, want := range map[string]bool{
		`{"status":{"id":"IN_PROGRESS"},"operation":null}`: true,
		`{"status":{"id":"COMPLETED"},"operation":null}`:   false,
		`{"status":{"id":"PARKED"},"operation":{}}`:        false,
	} {
		var o rest.Operation
		if err := json.Unmarshal([]byte(answer), &o); err != nil {
			t.Fatal(err)
		}
		if _, ended, err := o.Done(); ended || (err == nil) != want || err != nil && !errors.Is(err, rest.ErrNotFlink) {
			t.Errorf("%s: %v, %v", answer, ended, err)
		}
	}
}

func TestTimeouts(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	if _, err := client(t, hangs.URL, rest.Options{Timeout: time.Millisecond}).Jobs(t.Context()); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "GET jobs/overview: no answer within 1ms: context deadline exceeded" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, hangs.URL, rest.Options{}).Jobs(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	hangs.CloseClientConnections()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, err := client(t, gone.URL, rest.Options{}).Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 65 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}))
	defer long.Close()
	if _, err := client(t, long.URL, rest.Options{}).Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 67108864 bytes") {
		t.Error(err)
	}
}

// TestPasswords: a password never stands in an error.
func TestPasswords(t *testing.T) {
	for _, u := range []string{"", "localhost:8081", "ftp://host", "http://", "http://host?x=secret", "http://host#x", "http://me:secret@ho st"} {
		if _, err := rest.New(u, rest.Options{}); err == nil || strings.Contains(err.Error(), "me:secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	c := client(t, strings.Replace(s.URL, "://", "://me:secret@", 1), rest.Options{})
	_, err := c.Jobs(t.Context())
	_, err2 := client(t, s.URL, rest.Options{Token: "abc"}).Jobs(t.Context())
	s.Close()
	_, err3 := c.Jobs(t.Context())
	if !slices.Equal(got, []string{"Basic bWU6c2VjcmV0", "Bearer abc"}) {
		t.Errorf("%q", got)
	}
	for _, err := range []error{err, err2, err3} {
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	if strings.Contains(c.URL(), "secret") {
		t.Error(c.URL())
	}
}

// TestRedirects: a job manager that is not the leader may send to the one that is.
func TestRedirects(t *testing.T) {
	leader, _ := serve(t, "1.20.5", "canonical")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, leader.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer other.Close()
	id, err := client(t, other.URL, rest.Options{}).TriggerSavepoint(t.Context(), resttest.Job, rest.SavepointRequest{TargetDirectory: "file:///flink/sp", Format: rest.Canonical})
	if err != nil || !rest.IsID(id) {
		t.Error(id, err)
	}
}
