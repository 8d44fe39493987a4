package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/drey-state/drey/rest"
)

// externalPath is "" for what Flink writes where a snapshot is in no file system: a text in angle brackets.
func externalPath(p *string) string {
	if p == nil || strings.HasPrefix(*p, "<") {
		return ""
	}
	return strings.TrimSuffix(*p, "/")
}

// validCheckpoint demands of a checkpoint what package rest doesn't, as it depends on its status.
func validCheckpoint(e *rest.Checkpoint) bool {
	switch e.Status {
	case rest.CheckpointCompleted:
		return e.Path != nil && e.Discarded != nil
	case rest.CheckpointFailed, rest.CheckpointInProgress:
		return true
	}
	return false
}

func validCheckpoints(s *rest.Checkpoints) bool {
	for i := range s.History {
		if !validCheckpoint(&s.History[i]) {
			return false
		}
	}
	for _, e := range []*rest.Checkpoint{s.Latest.Completed, s.Latest.Savepoint} {
		if e != nil && !(e.Status == rest.CheckpointCompleted && validCheckpoint(e)) {
			return false
		}
	}
	return true
}

// asLater says of an error whether asking again may help: no leader at the
// moment, a job that has just begun; or a job that is gone, which the next overview will show.
func asLater(err error, ofJob bool) error {
	var e *rest.Error
	if errors.As(err, &e) && (e.Status >= 500 || ofJob && e.Status == http.StatusNotFound) {
		return &laterError{err}
	}
	return err
}

// statistics asks for a job's checkpoints; rest.ErrNoCheckpoints if it takes none.
func (m *JobManager) statistics(ctx context.Context, job string) (*rest.Checkpoints, error) {
	s, err := m.flink.Checkpoints(ctx, job)
	switch {
	case errors.Is(err, rest.ErrNoCheckpoints):
		return nil, err
	case err != nil:
		return nil, asLater(err, true)
	case !validCheckpoints(s):
		return nil, fmt.Errorf("%w: checkpoints of unknown status, or without path", rest.ErrNotFlink)
	}
	return s, nil
}

// configuration asks for what is the same for all jobs.
func (m *JobManager) configuration(ctx context.Context, h *Held) error {
	c, err := m.flink.Dashboard(ctx)
	if err != nil {
		return asLater(err, false)
	}
	h.Flink, h.Stale = c.Version, time.Duration(c.RefreshInterval)*time.Millisecond
	settings, err := m.flink.Settings(ctx)
	if err != nil {
		return asLater(err, false)
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
