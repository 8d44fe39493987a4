package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The jobs of the recorded answers; see testdata/jobmanager/README.md.
const (
	firstJob  = "d0dbe915091d300b98ee7f27f0791303"
	secondJob = "a9f0e61a137d36aa9db53465e0801612"
)

var recorded = []string{"1.20.5", "2.3.0"}

func recording(t *testing.T, version, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "jobmanager", version, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fakeFlink gives answers by path; a path with several gives one after the other, the last for ever.
type fakeFlink struct {
	answers map[string][]answer
	asked   map[string]int
}

type answer struct {
	code int
	body []byte
}

// replay serves what Flink answered at one moment.
func replay(t *testing.T, version, moment string) *fakeFlink {
	t.Helper()
	f := &fakeFlink{answers: map[string][]answer{}, asked: map[string]int{}}
	f.set("/config", recording(t, version, "config"))
	f.set("/jobmanager/config", recording(t, version, "jobmanager-config"))
	f.set("/jobs/overview", recording(t, version, moment+"-overview"))
	for _, job := range []string{firstJob, secondJob} {
		f.set("/jobs/"+job+"/checkpoints", recording(t, version, moment+"-checkpoints"))
		f.set("/jobs/"+job+"/checkpoints/config", recording(t, version, "checkpoints-config"))
	}
	return f
}

func (f *fakeFlink) set(path string, bodies ...[]byte) {
	f.answers[path] = nil
	for _, b := range bodies {
		f.answers[path] = append(f.answers[path], answer{http.StatusOK, b})
	}
}

func (f *fakeFlink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := f.answers[r.URL.Path]
	if len(list) == 0 {
		http.Error(w, `{"errors":["Unable to load requested file `+r.URL.Path+`."]}`, http.StatusNotFound)
		return
	}
	a := list[min(f.asked[r.URL.Path], len(list)-1)]
	f.asked[r.URL.Path]++
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body)
}

// askAt makes a client of a server that doesn't pause between its tries.
func askAt(t *testing.T, h http.Handler, o JobManagerOptions) *JobManager {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return clientOf(t, s.URL, o)
}

func clientOf(t *testing.T, url string, o JobManagerOptions) *JobManager {
	t.Helper()
	m, err := NewJobManager(url, o)
	if err != nil {
		t.Fatal(err)
	}
	m.pause = time.Millisecond
	return m
}

func heldOf(t *testing.T, f *fakeFlink) *Held {
	t.Helper()
	h, err := askAt(t, f, JobManagerOptions{}).Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHeld compares with what lay in the directories when the answers were recorded.
func TestHeld(t *testing.T) {
	type want struct {
		moment    string
		snapshots []string // ids, "s" savepoint, "?" in progress
		restored  int64
		unlisted  int64
		since     int64 // the checkpoint whose begin is KeepSince, 0: the job's start, -1: none
		ended     bool
		held      []int64 // chk-N that lay there with metadata or in progress
		free      []int64 // those that once were
	}
	for _, v := range recorded {
		for _, w := range []want{
			{moment: "fresh", held: []int64{1}},
			{moment: "savepoint", snapshots: []string{"3s", "2", "1"}, since: 2, held: []int64{1, 2, 4}},
			// The history of 5 is full: 4 and 1 are gone, which nothing shows.
			{moment: "busy", snapshots: []string{"9s?", "8?", "7", "6", "5", "3s"}, unlisted: 5, since: 7, held: []int64{5, 6, 7, 8, 10}},
			{moment: "restarted", snapshots: []string{"9s", "8", "7", "6"}, restored: 8, since: 8, held: []int64{6, 7, 8, 10}, free: []int64{1, 2, 4, 5}},
			{moment: "canceled", snapshots: []string{"9s", "8", "7", "6"}, restored: 8, since: -1, ended: true, held: []int64{6, 7, 8}, free: []int64{1, 2, 4, 5, 10}},
			{moment: "restored", restored: 9, unlisted: 9, held: []int64{10}},
			// Three are retained, and the history has 2, one of which failed.
			{moment: "failed", snapshots: []string{"12"}, restored: 9, unlisted: 12, since: 12, held: []int64{10, 11, 12, 14}, free: []int64{13}},
		} {
			t.Run(v+"/"+w.moment, func(t *testing.T) {
				before := time.Now()
				h := heldOf(t, replay(t, v, w.moment))
				after := time.Now()
				if h.Flink != v || h.Stale != 3*time.Second || !slices.Equal(h.CheckpointDirs, []string{"file:///flink/ckpt"}) || len(h.Jobs) != 1 {
					t.Fatalf("%+v", h)
				}
				j := h.Jobs[0]
				var o struct {
					Jobs []struct {
						Start    int64 `json:"start-time"`
						Duration int64
					}
				}
				if err := json.Unmarshal(recording(t, v, w.moment+"-overview"), &o); err != nil {
					t.Fatal(err)
				}
				clock := time.UnixMilli(o.Jobs[0].Start + o.Jobs[0].Duration)
				if w.ended && h.ClockAhead != 0 || !w.ended && (h.ClockAhead > clock.Sub(before) || h.ClockAhead < clock.Sub(after)) {
					t.Errorf("clock ahead by %s", h.ClockAhead)
				}
				var got []string
				for _, s := range j.Snapshots {
					text := fmt.Sprint(s.ID)
					wantPath := fmt.Sprintf("file:/flink/ckpt/%s/chk-%d", j.ID, s.ID)
					if s.Savepoint {
						text += "s"
						wantPath = "file:/flink/sp/savepoint-" + j.ID[:6] + "-"
					}
					if s.InProgress {
						text += "?"
						if s.Savepoint {
							wantPath = ""
						}
					}
					if !strings.HasPrefix(s.Path, wantPath) || s.Path != "" && wantPath == "" {
						t.Errorf("path of %d: %q", s.ID, s.Path)
					}
					if s.Path != "" && !slices.Contains(h.Paths(), s.Path) {
						t.Errorf("%s is not in %q", s.Path, h.Paths())
					}
					got = append(got, text)
					if s.ID == w.since && !j.KeepSince.Equal(s.Triggered) {
						t.Errorf("KeepSince %s, want that of %d: %s", j.KeepSince, s.ID, s.Triggered)
					}
				}
				if !slices.Equal(got, w.snapshots) {
					t.Errorf("snapshots %q, want %q", got, w.snapshots)
				}
				if w.since == 0 && !j.KeepSince.Equal(j.Start) || w.since < 0 && !j.KeepSince.IsZero() {
					t.Errorf("KeepSince %s, start %s", j.KeepSince, j.Start)
				}
				if (j.Restored == nil) != (w.restored == 0) || j.Restored != nil && (j.Restored.ID != w.restored || !slices.Contains(h.Paths(), j.Restored.Path)) {
					t.Errorf("restored %+v, want %d", j.Restored, w.restored)
				}
				if j.UnlistedBelow != w.unlisted || j.Ended != w.ended {
					t.Errorf("unlisted below %d, ended %v", j.UnlistedBelow, j.Ended)
				}
				for _, id := range w.held {
					if j.Holds(id) == "" {
						t.Errorf("chk-%d is not held", id)
					}
				}
				for _, id := range w.free {
					if why := j.Holds(id); why != "" {
						t.Errorf("chk-%d is held: %s", id, why)
					}
				}
			})
		}
	}
}

// edit changes a JSON answer.
func edit(t *testing.T, data []byte, change func(m map[string]any)) []byte {
	t.Helper()
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	change(m)
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func object(m map[string]any, path ...string) map[string]any {
	for _, p := range path {
		m = m[p].(map[string]any)
	}
	return m
}

func element(m map[string]any, list string, i int) map[string]any {
	return m[list].([]any)[i].(map[string]any)
}

// TestHeldNotFlink lets fields be missing or unknown: never may that look like a job that holds nothing.
func TestHeldNotFlink(t *testing.T) {
	checkpoints := "/jobs/" + firstJob + "/checkpoints"
	remove := func(key string, path ...string) func(map[string]any) {
		return func(m map[string]any) { delete(object(m, path...), key) }
	}
	inList := func(list string, i int, key string) func(map[string]any) {
		return func(m map[string]any) { delete(element(m, list, i), key) }
	}
	for name, c := range map[string]struct {
		path   string
		change func(map[string]any)
	}{
		"jobs":         {"/jobs/overview", remove("jobs")},
		"job id":       {"/jobs/overview", inList("jobs", 0, "jid")},
		"job state":    {"/jobs/overview", inList("jobs", 0, "state")},
		"job start":    {"/jobs/overview", inList("jobs", 0, "start-time")},
		"job duration": {"/jobs/overview", inList("jobs", 0, "duration")},
		"job modified": {"/jobs/overview", inList("jobs", 0, "last-modification")},
		"counts":       {checkpoints, remove("counts")},
		"restored":     {checkpoints, remove("restored", "counts")},
		"total":        {checkpoints, remove("total", "counts")},
		"in progress":  {checkpoints, remove("in_progress", "counts")},
		"latest":       {checkpoints, remove("latest")},
		"latest id":    {checkpoints, remove("id", "latest", "completed")},
		"restored id":  {checkpoints, remove("id", "latest", "restored")},
		"history":      {checkpoints, remove("history")},
		"id":           {checkpoints, inList("history", 1, "id")},
		"status":       {checkpoints, inList("history", 1, "status")},
		"unknown":      {checkpoints, func(m map[string]any) { element(m, "history", 1)["status"] = "PARKED" }},
		"is_savepoint": {checkpoints, inList("history", 1, "is_savepoint")},
		"triggered":    {checkpoints, inList("history", 1, "trigger_timestamp")},
		"path":         {checkpoints, inList("history", 1, "external_path")},
		"discarded":    {checkpoints, inList("history", 1, "discarded")},
		"type":         {checkpoints, func(m map[string]any) { m["history"] = "none" }},
		"refresh":      {"/config", remove("refresh-interval")},
		"version":      {"/config", remove("flink-version")},
	} {
		t.Run(name, func(t *testing.T) {
			f := replay(t, "2.3.0", "restarted")
			f.set(c.path, edit(t, f.answers[c.path][0].body, c.change))
			if h, err := askAt(t, f, JobManagerOptions{}).Held(t.Context()); err == nil || !strings.Contains(err.Error(), "not the answer of Flink") {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
	for _, path := range []string{"/config", "/jobmanager/config", "/jobs/overview", checkpoints, checkpoints + "/config"} {
		for name, a := range map[string]answer{
			"login page": {http.StatusOK, []byte("<html>Please log in</html>")},
			"cut":        {http.StatusOK, []byte(`{"jobs":[`)},
			"denied":     {http.StatusUnauthorized, nil},
			"forbidden":  {http.StatusForbidden, []byte(`{"errors":["no"]}`)},
		} {
			t.Run(name+path, func(t *testing.T) {
				f := replay(t, "1.20.5", "restarted")
				f.answers[path] = []answer{a}
				if h, err := askAt(t, f, JobManagerOptions{}).Held(t.Context()); err == nil {
					t.Errorf("%+v", h)
				}
			})
		}
	}
}

// TestHeldSettles has answers that are not final: they are asked for again.
func TestHeldSettles(t *testing.T) {
	checkpoints := "/jobs/" + firstJob + "/checkpoints"
	state := func(t *testing.T, data []byte, s string) []byte {
		return edit(t, data, func(m map[string]any) { element(m, "jobs", 0)["state"] = s })
	}
	for _, v := range recorded {
		fresh, restored := recording(t, v, "fresh-checkpoints"), recording(t, v, "restarted-checkpoints")
		overview, canceled := recording(t, v, "restarted-overview"), recording(t, v, "canceled-overview")
		young := edit(t, overview, func(m map[string]any) { // it began to run half a second ago
			j := element(m, "jobs", 0)
			start, _ := j["start-time"].(json.Number).Int64()
			duration, _ := j["duration"].(json.Number).Int64()
			j["last-modification"] = start + duration - 500
		})
		none := []byte(`{"jobs":[]}`)
		unavailable := answer{http.StatusServiceUnavailable, []byte(`{"errors":["Service temporarily unavailable due to an ongoing leader election. Please refresh."]}`)}
		for name, c := range map[string]struct {
			overview, checkpoints []answer
			jobs                  int
			state                 string
		}{
			"leader election":    {overview: []answer{unavailable, unavailable, {200, overview}}, checkpoints: []answer{{200, restored}}, jobs: 1, state: "RUNNING"},
			"being initialized":  {overview: []answer{{200, state(t, overview, "INITIALIZING")}, {200, state(t, overview, "INITIALIZING")}, {200, overview}}, checkpoints: []answer{{200, fresh}, {200, restored}}, jobs: 1, state: "RUNNING"},
			"cached from before": {overview: []answer{{200, young}, {200, young}, {200, overview}}, checkpoints: []answer{{200, fresh}, {200, restored}}, jobs: 1, state: "RUNNING"},
			"ends meanwhile":     {overview: []answer{{200, overview}, {200, canceled}}, checkpoints: []answer{{200, restored}}, jobs: 1, state: "CANCELED"},
			"begins meanwhile":   {overview: []answer{{200, none}, {200, overview}}, checkpoints: []answer{{200, restored}}, jobs: 1, state: "RUNNING"},
			"is forgotten":       {overview: []answer{{200, overview}, {200, none}}, checkpoints: []answer{{404, recording(t, v, "unknown-job")}}},
			"fails inside":       {overview: []answer{{200, overview}}, checkpoints: []answer{{500, nil}, {200, restored}}, jobs: 1, state: "RUNNING"},
		} {
			t.Run(v+"/"+name, func(t *testing.T) {
				f := replay(t, v, "restarted")
				f.answers["/jobs/overview"], f.answers[checkpoints] = c.overview, c.checkpoints
				h := heldOf(t, f)
				if len(h.Jobs) != c.jobs || c.jobs == 1 && (h.Jobs[0].State != c.state || len(h.Jobs[0].Snapshots) != 4) {
					t.Errorf("%+v", h.Jobs)
				}
			})
		}
		for name, f := range map[string]func(*fakeFlink){
			"no leader":        func(f *fakeFlink) { f.answers["/jobs/overview"] = []answer{unavailable} },
			"job unknown":      func(f *fakeFlink) { f.answers[checkpoints] = []answer{{404, recording(t, v, "unknown-job")}} },
			"never tells":      func(f *fakeFlink) { f.set("/jobs/overview", state(t, overview, "CREATED")); f.set(checkpoints, fresh) },
			"no configuration": func(f *fakeFlink) { delete(f.answers, checkpoints+"/config") },
		} {
			t.Run(v+"/"+name, func(t *testing.T) {
				flink := replay(t, v, "restarted")
				f(flink)
				h, err := askAt(t, flink, JobManagerOptions{Timeout: 50 * time.Millisecond}).Held(t.Context())
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%+v, %v", h, err)
				}
			})
		}
	}
}

// TestHeldUnknowns has what Flink can't tell: everything since the job's start is kept, or every older checkpoint.
func TestHeldUnknowns(t *testing.T) {
	checkpoints := "/jobs/" + firstJob + "/checkpoints"
	for name, c := range map[string]struct {
		statistics, config func(map[string]any)
		since              bool // KeepSince is the start
		unlisted           int64
	}{
		"as recorded": {},
		"changelog":   {config: func(m map[string]any) { m["state_changelog_enabled"] = true }, since: true},
		"ForSt":       {config: func(m map[string]any) { m["state_backend"] = "ForStStateBackend" }, since: true},
		"no backend":  {config: func(m map[string]any) { m["state_backend"] = "Unknown" }, since: true},
		// The history drops the oldest also if it is still in progress.
		"hidden savepoint": {statistics: func(m map[string]any) { object(m, "counts")["in_progress"] = 1 }, since: true},
		"no history":       {statistics: func(m map[string]any) { m["history"] = []any{} }, unlisted: math.MaxInt64},
		"older in progress": {statistics: func(m map[string]any) {
			e := maps.Clone(element(m, "history", 0))
			maps.Copy(e, map[string]any{"id": 4, "status": "IN_PROGRESS", "trigger_timestamp": 1000})
			m["history"] = append(m["history"].([]any), e)
		}},
		"only savepoints discarded": {statistics: func(m map[string]any) { element(m, "history", 4)["is_savepoint"] = true }, unlisted: 5},
	} {
		t.Run(name, func(t *testing.T) {
			f := replay(t, "2.3.0", "restarted")
			for path, change := range map[string]func(map[string]any){checkpoints: c.statistics, checkpoints + "/config": c.config} {
				if change != nil {
					f.set(path, edit(t, f.answers[path][0].body, change))
				}
			}
			j := heldOf(t, f).Jobs[0]
			if j.KeepSince.Equal(j.Start) != c.since || j.UnlistedBelow != c.unlisted {
				t.Errorf("%+v", j)
			}
			if name == "older in progress" && !j.KeepSince.Equal(time.UnixMilli(1000)) {
				t.Errorf("KeepSince %s", j.KeepSince)
			}
			if name == "no history" && (j.Holds(8) == "" || j.Holds(7) == "" || j.Holds(9) == "" || len(j.Snapshots) != 2) {
				t.Errorf("%+v", j)
			}
		})
	}
	t.Run("batch job", func(t *testing.T) {
		f := replay(t, "2.3.0", "restarted")
		f.answers[checkpoints] = []answer{{404, []byte(`{"errors":["org.apache.flink.runtime.rest.handler.RestHandlerException: Checkpointing has not been enabled."]}`)}}
		j := heldOf(t, f).Jobs[0]
		if len(j.Snapshots) != 0 || j.Restored != nil || !j.KeepSince.Equal(j.Start) {
			t.Errorf("%+v", j)
		}
	})
	t.Run("no file system", func(t *testing.T) {
		f := replay(t, "2.3.0", "restarted")
		f.set(checkpoints, edit(t, f.answers[checkpoints][0].body, func(m map[string]any) {
			element(m, "history", 1)["external_path"] = "<checkpoint-not-externally-addressable>"
		}))
		h := heldOf(t, f)
		if h.Jobs[0].Holds(8) == "" || h.Jobs[0].Snapshots[1].Path != "" || slices.ContainsFunc(h.Paths(), func(p string) bool { return strings.Contains(p, "<") }) {
			t.Errorf("%+v", h.Jobs[0])
		}
	})
}

func TestJobManagerAccess(t *testing.T) {
	flink := replay(t, "2.3.0", "restarted")
	var authorization string
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != authorization {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.StripPrefix("/proxied", flink).ServeHTTP(w, r)
	})
	s := httptest.NewUnstartedServer(guarded)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a client that doesn't trust it
	s.StartTLS()
	defer s.Close()
	url := s.URL + "/proxied/"
	withPassword := strings.Replace(url, "https://", "https://me:secret@", 1)

	authorization = "Bearer abc"
	if _, err := clientOf(t, url, JobManagerOptions{Client: s.Client(), Token: "abc"}).Held(t.Context()); err != nil {
		t.Error("token:", err)
	}
	authorization = "Basic bWU6c2VjcmV0"
	if h, err := clientOf(t, withPassword, JobManagerOptions{Client: s.Client()}).Held(t.Context()); err != nil || strings.Contains(h.URL, "secret") {
		t.Error("password:", h, err)
	}
	if _, err := clientOf(t, url, JobManagerOptions{Client: s.Client()}).Held(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Error("without password:", err)
	}
	if _, err := clientOf(t, withPassword, JobManagerOptions{}).Held(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error("unknown certificate:", err)
	}

	leader := httptest.NewServer(replay(t, "1.20.5", "busy"))
	defer leader.Close()
	redirect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, leader.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer redirect.Close()
	if h, err := clientOf(t, redirect.URL, JobManagerOptions{}).Held(t.Context()); err != nil || len(h.Jobs) != 1 {
		t.Error("redirected to the leader:", h, err)
	}

	leader.Close()
	if _, err := clientOf(t, leader.URL, JobManagerOptions{}).Held(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error("unreachable:", err)
	}

	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	if _, err := clientOf(t, hangs.URL, JobManagerOptions{Timeout: 20 * time.Millisecond}).Held(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("hangs:", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := clientOf(t, hangs.URL, JobManagerOptions{}).Held(ctx); !errors.Is(err, context.Canceled) {
		t.Error("canceled:", err)
	}
}

func TestNewJobManagerRefuses(t *testing.T) {
	for _, u := range []string{"", "localhost:8081", "ftp://host", "http://", "http://host?x=secret", "http://host#x", "http://me:secret@ho st", "file:///tmp"} {
		if _, err := NewJobManager(u, JobManagerOptions{}); err == nil || strings.Contains(err.Error(), "me:secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

func TestFlinkDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3 s": 3 * time.Second, "500": 500 * time.Millisecond, "250ms": 250 * time.Millisecond, "2 min": 2 * time.Minute,
		"1 Hour": time.Hour, "PT1M3.5S": 63500 * time.Millisecond, "0": 0,
	} {
		if got, err := parseFlinkDuration(text); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "s", "3 fortnights", "x5s", "PT", "1 d", "P1D"} {
		if got, err := parseFlinkDuration(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
	f := replay(t, "2.3.0", "restarted")
	f.set("/jobmanager/config", []byte(`[{"key":"rest.cache.checkpoint-statistics.timeout","value":"20 s"},{"key":"state.savepoints.dir","value":"s3://b/sp"}]`))
	if h := heldOf(t, f); h.Stale != 20*time.Second || !slices.Equal(h.SavepointDirs, []string{"s3://b/sp"}) {
		t.Errorf("%+v", h)
	}
}
