package rest

import "fmt"

// Format is the format of a savepoint.
type Format string

// The formats of org.apache.flink.core.execution.SavepointFormatType. Empty is Flink's default, CANONICAL.
const (
	Canonical Format = "CANONICAL"
	Native    Format = "NATIVE"
)

// SavepointRequest is the body of POST /jobs/:id/savepoints (SavepointTriggerRequestBody).
type SavepointRequest struct {
	// TargetDirectory is that in which the savepoint's own is made; empty for the cluster's.
	TargetDirectory string `json:"target-directory,omitempty"`
	// CancelJob cancels the job once the savepoint is complete, and not at all if it fails.
	CancelJob bool   `json:"cancel-job"`
	Format    Format `json:"formatType,omitempty"`
	// TriggerID is 32 hexadecimal digits that the caller chose, empty for
	// Flink's choice. A request that comes again with the same one starts nothing.
	TriggerID string `json:"triggerId,omitempty"`
}

// StopRequest is the body of POST /jobs/:id/stop (StopWithSavepointRequestBody).
type StopRequest struct {
	TargetDirectory string `json:"targetDirectory,omitempty"`
	// Drain lets all timers and windows of event time fire before, as at the end of the input: no job goes on from there.
	Drain     bool   `json:"drain"`
	Format    Format `json:"formatType,omitempty"`
	TriggerID string `json:"triggerId,omitempty"`
}

// DisposalRequest is the body of POST /savepoint-disposal.
type DisposalRequest struct {
	Path string `json:"savepoint-path"`
}

// Trigger answers a request that started an operation (TriggerResponse).
type Trigger struct {
	// ID to ask by how far it is.
	ID string `json:"request-id" flink:"always"`
}

// OperationStatus is whether an operation has ended, in whatever way.
type OperationStatus string

// The states of org.apache.flink.runtime.rest.messages.queue.QueueStatus.
const (
	OperationInProgress OperationStatus = "IN_PROGRESS"
	OperationCompleted  OperationStatus = "COMPLETED"
)

// Operation answers GET /jobs/:id/savepoints/:trigger and
// GET /savepoint-disposal/:trigger (AsynchronousOperationResult).
type Operation struct {
	Status Status `json:"status" flink:"always"`
	// Result is nil while it is in progress.
	Result *OperationResult `json:"operation"`
}

// Status has the state of an operation (QueueStatus).
type Status struct {
	ID OperationStatus `json:"id" flink:"always"`
}

// OperationResult is how an operation ended (SavepointInfo). A disposal that succeeded has an empty one.
type OperationResult struct {
	// Location of the savepoint.
	Location string   `json:"location,omitempty"`
	Failure  *Failure `json:"failure-cause,omitempty"`
}

// Failure is why an operation failed (SerializedThrowable).
type Failure struct {
	Class      string `json:"class"`
	StackTrace string `json:"stack-trace"`
	Serialized string `json:"serialized-throwable"`
}

// Done says whether the operation has ended; then either the error is nil and
// the location, of a savepoint, is where it is, or the error says why it failed.
func (o *Operation) Done() (location string, done bool, err error) {
	switch {
	case o.Status.ID == OperationInProgress:
		return "", false, nil
	case o.Status.ID != OperationCompleted || o.Result == nil:
		return "", false, fmt.Errorf("%w: an operation in state %q without a result", ErrNotFlink, o.Status.ID)
	case o.Result.Failure != nil:
		return "", true, o.Result.Failure.asError()
	}
	return o.Result.Location, true, nil
}

// asError gives the failure as an error.
func (f *Failure) asError() error {
	text := traceMessage(f.StackTrace)
	if text == "" {
		text = f.Class
	}
	return &Error{Message: text, kind: kindOf(0, f.Class+"\n"+f.StackTrace)}
}

// ErrorAnswer is the body of an answer that says what is wrong (ErrorResponseBody).
type ErrorAnswer struct {
	Errors []string `json:"errors"`
}
