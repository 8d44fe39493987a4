package rest

import "encoding/json"

// The types of this package encode to the answers of Flink, field by field: a
// program that serves the same interface can use them. Times are milliseconds
// since 1970 by the job manager's clock, durations milliseconds, sizes bytes,
// all -1 where Flink does not know them. Fields that only some releases send
// are pointers or left out when empty. A field with the tag flink:"always" is
// demanded by the client: an answer without it is not Flink's.

// JobState is what Flink calls the state of a job.
type JobState string

// The states of org.apache.flink.api.common.JobStatus.
const (
	JobInitializing JobState = "INITIALIZING"
	JobCreated      JobState = "CREATED"
	JobRunning      JobState = "RUNNING"
	JobFailing      JobState = "FAILING"
	JobFailed       JobState = "FAILED"
	JobCancelling   JobState = "CANCELLING"
	JobCanceled     JobState = "CANCELED"
	JobFinished     JobState = "FINISHED"
	JobRestarting   JobState = "RESTARTING"
	JobSuspended    JobState = "SUSPENDED"
	JobReconciling  JobState = "RECONCILING"
)

// Ended says that a job does not leave this state. SUSPENDED isn't such a
// one: another job manager goes on.
func (s JobState) Ended() bool { return s == JobFinished || s == JobCanceled || s == JobFailed }

// JobsOverview answers GET /jobs/overview (MultipleJobsDetails).
type JobsOverview struct {
	// Jobs that run and, for as long as Flink remembers them, those that ended.
	Jobs []JobOverview `json:"jobs" flink:"always"`
}

// JobOverview is a job in the list of all (JobDetails).
type JobOverview struct {
	// ID is 32 hexadecimal digits.
	ID   string `json:"jid" flink:"always"`
	Name string `json:"name"`
	// JobType, SchedulerType and PendingOperators come from Flink 2.1 and later.
	JobType       string   `json:"jobType,omitempty"`
	SchedulerType string   `json:"schedulerType,omitempty"`
	Start         int64    `json:"start-time" flink:"always"`
	End           int64    `json:"end-time"` // -1: not yet
	Duration      int64    `json:"duration" flink:"always"`
	State         JobState `json:"state" flink:"always"`
	// Modified is when the job or a task came into its present state.
	Modified         int64      `json:"last-modification" flink:"always"`
	Tasks            TaskCounts `json:"tasks"`
	PendingOperators *int       `json:"pending-operators,omitempty"`
}

// TaskCounts says how many subtasks are in which state.
type TaskCounts struct {
	Running      int `json:"running"`
	Canceling    int `json:"canceling"`
	Canceled     int `json:"canceled"`
	Total        int `json:"total"`
	Created      int `json:"created"`
	Scheduled    int `json:"scheduled"`
	Deploying    int `json:"deploying"`
	Reconciling  int `json:"reconciling"`
	Finished     int `json:"finished"`
	Initializing int `json:"initializing"`
	Failed       int `json:"failed"`
}

// Job answers GET /jobs/:id (JobDetailsInfo).
type Job struct {
	ID string `json:"jid" flink:"always"`
	// ApplicationID comes from Flink 2.3 and later.
	ApplicationID  string             `json:"application-id,omitempty"`
	Name           string             `json:"name"`
	Stoppable      bool               `json:"isStoppable"`
	State          JobState           `json:"state" flink:"always"`
	JobType        string             `json:"job-type,omitempty"`
	SchedulerType  string             `json:"schedulerType,omitempty"` // from Flink 2.1
	Start          int64              `json:"start-time"`
	End            int64              `json:"end-time"`
	Duration       int64              `json:"duration"`
	MaxParallelism int                `json:"maxParallelism"`
	Now            int64              `json:"now"`
	Timestamps     map[JobState]int64 `json:"timestamps"` // when the job came into a state, 0: never
	Vertices       []Vertex           `json:"vertices" flink:"always"`
	StatusCounts   map[string]int     `json:"status-counts"`
	// Plan is the graph, as Flink's web interface draws it.
	Plan json.RawMessage `json:"plan"`
	// StreamGraph and PendingOperators come from Flink 2.1 and later.
	StreamGraph      json.RawMessage `json:"stream-graph,omitempty"`
	PendingOperators *int            `json:"pending-operators,omitempty"`
}

// Vertex is a vertex of a job's graph: operators that run in one task.
type Vertex struct {
	// ID is 32 hexadecimal digits: that of the first operator.
	ID               string         `json:"id" flink:"always"`
	SlotSharingGroup string         `json:"slotSharingGroupId,omitempty"`
	Name             string         `json:"name"`
	MaxParallelism   int            `json:"maxParallelism"`
	Parallelism      int            `json:"parallelism"`
	Status           string         `json:"status"`
	Start            int64          `json:"start-time"`
	End              int64          `json:"end-time"`
	Duration         int64          `json:"duration"`
	Tasks            map[string]int `json:"tasks"`
	// Metrics of its input and output.
	Metrics json.RawMessage `json:"metrics"`
}

// Dashboard answers GET /config (DashboardConfiguration).
type Dashboard struct {
	// RefreshInterval is how old answers about a job may be, in milliseconds.
	RefreshInterval int64    `json:"refresh-interval" flink:"always"`
	TimezoneName    string   `json:"timezone-name"`
	TimezoneOffset  int64    `json:"timezone-offset"` // milliseconds
	Version         string   `json:"flink-version" flink:"always"`
	Revision        string   `json:"flink-revision"`
	Features        Features `json:"features"`
}

// Features says what Flink's web interface offers.
type Features struct {
	Submit  bool `json:"web-submit"`
	Cancel  bool `json:"web-cancel"`
	Rescale bool `json:"web-rescale"`
	History bool `json:"web-history"`
}

// Overview answers GET /overview (ClusterOverviewWithVersion).
type Overview struct {
	TaskManagers   int    `json:"taskmanagers"`
	SlotsTotal     int    `json:"slots-total"`
	SlotsAvailable int    `json:"slots-available"`
	JobsRunning    int    `json:"jobs-running"`
	JobsFinished   int    `json:"jobs-finished"`
	JobsCancelled  int    `json:"jobs-cancelled"`
	JobsFailed     int    `json:"jobs-failed"`
	Version        string `json:"flink-version" flink:"always"`
	Commit         string `json:"flink-commit"`
}

// Setting is one of the answer to GET /jobmanager/config (ConfigurationInfoEntry).
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}
