package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// mostAnswer bounds an answer, in bytes. Statistics take about 600 for each checkpoint of the history.
const mostAnswer = 64 << 20

// errNoCheckpoints: a job that takes none, such as a batch job.
var errNoCheckpoints = errors.New("no checkpoints")

// Fields that must be there are pointers, so that an answer without them is
// an error and not a job that holds nothing.

type jobOverview struct {
	ID       string `json:"jid"`
	Name     string `json:"name"`
	State    string `json:"state"`
	Start    *int64 `json:"start-time"` // milliseconds, as all times
	Duration *int64 `json:"duration"`
	Modified *int64 `json:"last-modification"`
}

type checkpointStatistics struct {
	Counts *struct {
		Restored   *int64 `json:"restored"`
		Total      *int64 `json:"total"`
		InProgress *int64 `json:"in_progress"`
	} `json:"counts"`
	Latest *struct {
		Completed *checkpointEntry `json:"completed"`
		Savepoint *checkpointEntry `json:"savepoint"`
		Restored  *struct {
			ID        *int64  `json:"id"`
			Time      *int64  `json:"restore_timestamp"`
			Savepoint *bool   `json:"is_savepoint"`
			Path      *string `json:"external_path"` // null if it has none
		} `json:"restored"`
	} `json:"latest"`
	History []checkpointEntry `json:"history"`
}

type checkpointEntry struct {
	ID        *int64  `json:"id"`
	Status    string  `json:"status"`
	Savepoint *bool   `json:"is_savepoint"`
	Triggered *int64  `json:"trigger_timestamp"`
	Path      *string `json:"external_path"` // of those that are complete, as is discarded
	Discarded *bool   `json:"discarded"`
}

type checkpointConfig struct {
	Backend   string `json:"state_backend"`
	Changelog bool   `json:"state_changelog_enabled"`
}

func (e *checkpointEntry) completed() bool { return e.Status == "COMPLETED" }
func (e *checkpointEntry) failed() bool    { return e.Status == "FAILED" }
func (e *checkpointEntry) path() string    { return externalPath(e.Path) }

// externalPath is "" for what Flink writes where a snapshot is in no file system: a text in angle brackets.
func externalPath(p *string) string {
	if p == nil || strings.HasPrefix(*p, "<") {
		return ""
	}
	return strings.TrimSuffix(*p, "/")
}

func (e *checkpointEntry) valid() bool {
	if e.ID == nil || e.Savepoint == nil || e.Triggered == nil {
		return false
	}
	switch {
	case e.completed():
		return e.Path != nil && e.Discarded != nil
	case e.failed():
		return true
	}
	return e.Status == "IN_PROGRESS"
}

func (s *checkpointStatistics) valid() bool {
	if s.Counts == nil || s.Latest == nil || s.History == nil || s.Counts.Restored == nil || s.Counts.Total == nil || s.Counts.InProgress == nil {
		return false
	}
	for i := range s.History {
		if !s.History[i].valid() {
			return false
		}
	}
	for _, e := range []*checkpointEntry{s.Latest.Completed, s.Latest.Savepoint} {
		if e != nil && !(e.valid() && e.completed()) {
			return false
		}
	}
	r := s.Latest.Restored
	return r == nil || r.ID != nil && r.Time != nil && r.Savepoint != nil
}

// overview lists the jobs.
func (m *JobManager) overview(ctx context.Context) ([]jobOverview, error) {
	var a struct {
		Jobs []jobOverview `json:"jobs"`
	}
	if err := m.get(ctx, "jobs/overview", &a); err != nil {
		return nil, err
	}
	if a.Jobs == nil {
		return nil, errors.New("jobs/overview: not the answer of Flink: no jobs")
	}
	for _, j := range a.Jobs {
		if j.ID == "" || j.State == "" || j.Start == nil || j.Duration == nil || j.Modified == nil {
			return nil, errors.New("jobs/overview: not the answer of Flink: a job without id, state or times")
		}
	}
	return a.Jobs, nil
}

// statistics asks for a job's checkpoints; errNoCheckpoints if it takes none.
func (m *JobManager) statistics(ctx context.Context, job string) (*checkpointStatistics, error) {
	path := "jobs/" + job + "/checkpoints"
	var s checkpointStatistics
	err := m.get(ctx, path, &s)
	if a := (*answerError)(nil); errors.As(err, &a) && a.code == http.StatusNotFound {
		if strings.Contains(a.text, "not been enabled") {
			return nil, errNoCheckpoints
		}
		return nil, &laterError{err} // it is gone, which the next overview will show
	}
	if err != nil {
		return nil, err
	}
	if !s.valid() {
		return nil, fmt.Errorf("%s: not the answer of Flink: a field is missing or unknown", path)
	}
	return &s, nil
}

func (m *JobManager) checkpointConfig(ctx context.Context, job string) (*checkpointConfig, error) {
	var c checkpointConfig
	err := m.get(ctx, "jobs/"+job+"/checkpoints/config", &c)
	if a := (*answerError)(nil); errors.As(err, &a) && a.code == http.StatusNotFound {
		return nil, &laterError{err}
	}
	return &c, err
}

// configuration asks for what is the same for all jobs.
func (m *JobManager) configuration(ctx context.Context, h *Held) error {
	var c struct {
		Refresh *int64 `json:"refresh-interval"`
		Version string `json:"flink-version"`
	}
	if err := m.get(ctx, "config", &c); err != nil {
		return err
	}
	if c.Refresh == nil || c.Version == "" {
		return errors.New("config: not the answer of Flink: no version or refresh interval")
	}
	h.Flink, h.Stale = c.Version, time.Duration(*c.Refresh)*time.Millisecond
	var settings []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	if err := m.get(ctx, "jobmanager/config", &settings); err != nil {
		return err
	}
	for _, s := range settings {
		switch s.Key {
		case "execution.checkpointing.dir", "state.checkpoints.dir":
			h.CheckpointDirs = append(h.CheckpointDirs, s.Value)
		case "execution.checkpointing.savepoint-dir", "state.savepoints.dir":
			h.SavepointDirs = append(h.SavepointDirs, s.Value)
		case "rest.cache.checkpoint-statistics.timeout":
			d, err := parseFlinkDuration(s.Value)
			if err != nil {
				return fmt.Errorf("setting %s: %w", s.Key, err)
			}
			h.Stale = max(h.Stale, d)
		}
	}
	return nil
}

// parseFlinkDuration reads a duration as Flink's settings have them: "3 s",
// "500ms", "2 minutes", a number of milliseconds, or ISO 8601 without days.
func parseFlinkDuration(s string) (time.Duration, error) {
	text := strings.ToLower(strings.ReplaceAll(s, " ", ""))
	if iso, ok := strings.CutPrefix(text, "pt"); ok {
		text = iso
	} else {
		number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzµ")
		unit := map[string]string{"": "ms", "ms": "ms", "milli": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
			"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "m": "m", "min": "m", "minute": "m", "minutes": "m",
			"h": "h", "hour": "h", "hours": "h"}[text[len(number):]]
		text = number + unit // without a unit it isn't one of Go's
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	return d, nil
}

// answerError is an answer other than 200.
type answerError struct {
	code int
	path string
	text string // what Flink says about it
}

func (e *answerError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.path, e.code, http.StatusText(e.code), e.text)
}

// get asks for a path below the base and decodes the answer. Redirects, as
// to the leader, are followed; credentials don't go to another host with them.
func (m *JobManager) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.JoinPath(path).String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if m.token != "" {
		r.Header.Set("Authorization", "Bearer "+m.token)
	}
	resp, err := m.client.Do(r)
	if err != nil {
		return err // names method and URL, without password
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case len(data) > mostAnswer:
		return fmt.Errorf("%s: the answer is longer than %d bytes", path, mostAnswer)
	case resp.StatusCode >= 500: // no leader at the moment; a job that has just begun
		return &laterError{&answerError{resp.StatusCode, path, flinkMessage(data)}}
	case resp.StatusCode != http.StatusOK:
		return &answerError{resp.StatusCode, path, flinkMessage(data)}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: not the answer of Flink: %w", path, err)
	}
	return nil
}

// flinkMessage is the first line of an error that Flink describes.
func flinkMessage(data []byte) string {
	var a struct {
		Errors []string `json:"errors"`
	}
	text := "no message of Flink"
	if json.Unmarshal(data, &a) == nil && len(a.Errors) > 0 {
		text, _, _ = strings.Cut(strings.TrimSpace(a.Errors[len(a.Errors)-1]), "\n")
	}
	return text
}
