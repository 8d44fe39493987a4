package rest

import (
	"encoding/json"
	"math"
	"strings"
)

// CheckpointStatus is the state of a checkpoint or savepoint.
type CheckpointStatus string

// The states of org.apache.flink.runtime.checkpoint.CheckpointStatsStatus.
const (
	CheckpointInProgress CheckpointStatus = "IN_PROGRESS"
	CheckpointCompleted  CheckpointStatus = "COMPLETED"
	CheckpointFailed     CheckpointStatus = "FAILED"
)

// Checkpoints answers GET /jobs/:id/checkpoints (CheckpointingStatistics).
type Checkpoints struct {
	Counts  *CheckpointCounts  `json:"counts" flink:"always"`
	Summary *CheckpointSummary `json:"summary"`
	Latest  *LatestCheckpoints `json:"latest" flink:"always"`
	// History has the newest first: as many as web.checkpoints.history says, 10 by default.
	History []Checkpoint `json:"history" flink:"always"`
}

// CheckpointCounts counts checkpoints and savepoints since the job began.
type CheckpointCounts struct {
	Restored   int64 `json:"restored" flink:"always"`
	Total      int64 `json:"total" flink:"always"`
	InProgress int64 `json:"in_progress" flink:"always"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
}

// CheckpointSummary sums up the completed ones.
type CheckpointSummary struct {
	CheckpointedSize  Summary `json:"checkpointed_size"`
	StateSize         Summary `json:"state_size"`
	Duration          Summary `json:"end_to_end_duration"`
	AlignmentBuffered Summary `json:"alignment_buffered"` // always 0
	ProcessedData     Summary `json:"processed_data"`
	PersistedData     Summary `json:"persisted_data"`
}

// Summary is a distribution (StatsSummaryDto).
type Summary struct {
	Min  int64 `json:"min"`
	Max  int64 `json:"max"`
	Avg  int64 `json:"avg"`
	P50  Float `json:"p50"`
	P90  Float `json:"p90"`
	P95  Float `json:"p95"`
	P99  Float `json:"p99"`
	P999 Float `json:"p999"`
}

// Float is a number that may be NaN, which Flink sends as a string.
type Float float64

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	switch v := float64(f); {
	case math.IsNaN(v):
		return []byte(`"NaN"`), nil
	case math.IsInf(v, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-Infinity"`), nil
	}
	data, err := json.Marshal(float64(f))
	if err == nil && !strings.ContainsAny(string(data), ".e") {
		data = append(data, ".0"...) // as Java writes a double
	}
	return data, err
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Float) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"NaN"`:
		*f = Float(math.NaN())
	case `"Infinity"`:
		*f = Float(math.Inf(1))
	case `"-Infinity"`:
		*f = Float(math.Inf(-1))
	default:
		return json.Unmarshal(data, (*float64)(f))
	}
	return nil
}

// LatestCheckpoints are the newest of each kind, nil where there is none.
type LatestCheckpoints struct {
	Completed *Checkpoint         `json:"completed"`
	Savepoint *Checkpoint         `json:"savepoint"`
	Failed    *Checkpoint         `json:"failed"`
	Restored  *RestoredCheckpoint `json:"restored"`
}

// RestoredCheckpoint is what a job was last restored from.
type RestoredCheckpoint struct {
	ID        int64 `json:"id" flink:"always"`
	Time      int64 `json:"restore_timestamp" flink:"always"`
	Savepoint bool  `json:"is_savepoint" flink:"always"`
	// Path is nil if it has none.
	Path *string `json:"external_path"`
}

// Checkpoint is a checkpoint or savepoint: an entry of the history, or the
// answer to GET /jobs/:id/checkpoints/details/:n (CheckpointStatistics).
type Checkpoint struct {
	// Class is Status in lower case.
	Class     string           `json:"className"`
	ID        int64            `json:"id" flink:"always"`
	Status    CheckpointStatus `json:"status" flink:"always"`
	Savepoint bool             `json:"is_savepoint" flink:"always"`
	// Format of a savepoint, CANONICAL or NATIVE; nil of a checkpoint.
	Format    *string `json:"savepointFormat"`
	Triggered int64   `json:"trigger_timestamp" flink:"always"`
	LatestAck int64   `json:"latest_ack_timestamp"`
	// CheckpointedSize is what was written for it, StateSize what it holds with what it shares.
	CheckpointedSize  int64 `json:"checkpointed_size"`
	StateSize         int64 `json:"state_size"`
	Duration          int64 `json:"end_to_end_duration"`
	AlignmentBuffered int64 `json:"alignment_buffered"`
	ProcessedData     int64 `json:"processed_data"`
	PersistedData     int64 `json:"persisted_data"`
	Subtasks          int   `json:"num_subtasks"`
	Acknowledged      int   `json:"num_acknowledged_subtasks"`
	// Type is CHECKPOINT, UNALIGNED_CHECKPOINT, SAVEPOINT or SYNC_SAVEPOINT, that of a stop.
	Type string `json:"checkpoint_type"`
	// Tasks by vertex: empty in the history.
	Tasks map[string]TaskCheckpoint `json:"tasks"`
	// Path and Discarded are of completed ones. A path in angle brackets says that there is none.
	Path      *string `json:"external_path,omitempty"`
	Discarded *bool   `json:"discarded,omitempty"`
	// FailureTime and FailureMessage are of failed ones.
	FailureTime    *int64  `json:"failure_timestamp,omitempty"`
	FailureMessage *string `json:"failure_message,omitempty"`
}

// TaskCheckpoint is what the subtasks of a vertex did for a checkpoint (TaskCheckpointStatistics).
type TaskCheckpoint struct {
	ID                int64            `json:"id" flink:"always"`
	Status            CheckpointStatus `json:"status" flink:"always"`
	LatestAck         int64            `json:"latest_ack_timestamp"`
	CheckpointedSize  int64            `json:"checkpointed_size"`
	StateSize         int64            `json:"state_size"`
	Duration          int64            `json:"end_to_end_duration"`
	AlignmentBuffered int64            `json:"alignment_buffered"`
	ProcessedData     int64            `json:"processed_data"`
	PersistedData     int64            `json:"persisted_data"`
	Subtasks          int              `json:"num_subtasks"`
	Acknowledged      int              `json:"num_acknowledged_subtasks"`
}

// TaskCheckpointDetails answers GET /jobs/:id/checkpoints/details/:n/subtasks/:vertex
// (TaskCheckpointStatisticsWithSubtaskDetails).
type TaskCheckpointDetails struct {
	TaskCheckpoint
	Summary  *TaskCheckpointSummary `json:"summary"`
	Subtasks []SubtaskCheckpoint    `json:"subtasks" flink:"always"`
}

// TaskCheckpointSummary sums up subtasks.
type TaskCheckpointSummary struct {
	CheckpointedSize   Summary `json:"checkpointed_size"`
	StateSize          Summary `json:"state_size"`
	Duration           Summary `json:"end_to_end_duration"`
	CheckpointDuration struct {
		Sync  Summary `json:"sync"`
		Async Summary `json:"async"`
	} `json:"checkpoint_duration"`
	Alignment struct {
		Buffered  Summary `json:"buffered"` // always 0
		Processed Summary `json:"processed"`
		Persisted Summary `json:"persisted"`
		Duration  Summary `json:"duration"`
	} `json:"alignment"`
	StartDelay Summary `json:"start_delay"`
}

// SubtaskCheckpoint is what one subtask did (SubtaskCheckpointStatistics).
// Of one that has not acknowledged there are only Class, Index and Status.
type SubtaskCheckpoint struct {
	// Class is completed or pending, Status completed or pending_or_failed.
	Class            string              `json:"className"`
	Index            int                 `json:"index" flink:"always"`
	Ack              *int64              `json:"ack_timestamp,omitempty"`
	Duration         *int64              `json:"end_to_end_duration,omitempty"`
	CheckpointedSize *int64              `json:"checkpointed_size,omitempty"`
	StateSize        *int64              `json:"state_size,omitempty"`
	Checkpoint       *CheckpointDuration `json:"checkpoint,omitempty"`
	Alignment        *Alignment          `json:"alignment,omitempty"`
	StartDelay       *int64              `json:"start_delay,omitempty"`
	Unaligned        *bool               `json:"unaligned_checkpoint,omitempty"`
	Aborted          *bool               `json:"aborted,omitempty"`
	Status           string              `json:"status" flink:"always"`
}

// CheckpointDuration has the two parts of a subtask's work.
type CheckpointDuration struct {
	Sync  int64 `json:"sync"`
	Async int64 `json:"async"`
}

// Alignment is what a subtask did between the first and the last barrier.
type Alignment struct {
	Buffered  int64 `json:"buffered"` // always 0
	Processed int64 `json:"processed"`
	Persisted int64 `json:"persisted"`
	Duration  int64 `json:"duration"`
}

// CheckpointConfig answers GET /jobs/:id/checkpoints/config (CheckpointConfigInfo).
type CheckpointConfig struct {
	// Mode is exactly_once or at_least_once.
	Mode string `json:"mode"`
	// Interval is a huge number where checkpoints are only taken on request.
	Interval        int64           `json:"interval"`
	Timeout         int64           `json:"timeout"`
	MinPause        int64           `json:"min_pause"`
	MaxConcurrent   int64           `json:"max_concurrent"`
	Externalization Externalization `json:"externalization"`
	// Backend and Storage are names of classes without their package.
	Backend               string `json:"state_backend"`
	Storage               string `json:"checkpoint_storage"`
	Unaligned             bool   `json:"unaligned_checkpoints"`
	TolerableFailed       int    `json:"tolerable_failed_checkpoints"`
	AlignedTimeout        int64  `json:"aligned_checkpoint_timeout"`
	AfterTasksFinish      bool   `json:"checkpoints_after_tasks_finish"`
	Changelog             bool   `json:"state_changelog_enabled"`
	MaterializationPeriod int64  `json:"changelog_periodic_materialization_interval"`
	ChangelogStorage      string `json:"changelog_storage"`
}

// Externalization says whether checkpoints are retained when a job ends.
type Externalization struct {
	Enabled              bool `json:"enabled"`
	DeleteOnCancellation bool `json:"delete_on_cancellation"`
}
