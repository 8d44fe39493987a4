package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// What errors of this package unwrap to, where a caller may decide by it.
var (
	// ErrNotFound: there is no such job, checkpoint or operation. Flink
	// forgets jobs that ended after an hour, results of operations after five
	// minutes, and both with its job manager.
	ErrNotFound = errors.New("not found")
	// ErrInProgress: a stop or a cancellation with a savepoint is in progress,
	// which ends all other savepoints.
	ErrInProgress = errors.New("another stop or cancellation is in progress")
	// ErrUnsupported: this cluster has no such request.
	ErrUnsupported = errors.New("not supported by this cluster")
	// ErrEnded: the job has ended already, in another way than was asked for.
	ErrEnded = errors.New("the job has ended")
	// ErrNoDirectory: neither the request nor the cluster's configuration says where savepoints go.
	ErrNoDirectory = errors.New("no directory for savepoints")
	// ErrNotReady: not all tasks run, so that there can be no savepoint now.
	ErrNotReady = errors.New("not all tasks are running")
	// ErrNoCheckpoints: the job takes none, such as a batch job.
	ErrNoCheckpoints = errors.New("checkpointing is not enabled")
	// ErrUnavailable: no job manager is the leader at the moment.
	ErrUnavailable = errors.New("no leader")
	// ErrNotFlink: the answer isn't one of Flink's.
	ErrNotFlink = errors.New("not the answer of Flink")
)

// Error is what Flink says is wrong with a request, or why an operation failed.
type Error struct {
	// Method and Path of the request; empty for an operation that failed.
	Method, Path string
	// Status is that of HTTP; 0 for an operation.
	Status int
	// Message has the messages of the exception and of its causes, without names of classes.
	Message string

	kind error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Status == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Status, http.StatusText(e.Status), e.Message)
}

// Unwrap gives one of the sentinels of this package, or nil.
func (e *Error) Unwrap() error { return e.kind }

// newError reads an answer other than that of success.
func newError(method, path string, status int, data []byte) *Error {
	e := &Error{Method: method, Path: path, Status: status, Message: "no message of Flink"}
	var a ErrorAnswer
	trace := ""
	if json.Unmarshal(data, &a) == nil && len(a.Errors) > 0 {
		trace = a.Errors[len(a.Errors)-1]
		if text := traceMessage(trace); text != "" {
			e.Message = text
		}
	}
	e.kind = kindOf(status, trace)
	return e
}

// kindOf finds the sentinel by the status of HTTP, 0 for an operation, and Flink's words.
func kindOf(status int, trace string) error {
	has := func(s string) bool { return strings.Contains(trace, s) }
	switch {
	case has("FlinkJobNotFoundException"):
		return ErrNotFound
	case has("Checkpointing has not been enabled"), has("Checkpointing is not enabled"):
		return ErrNoCheckpoints
	case status == http.StatusMethodNotAllowed, status == http.StatusNotFound && (strings.HasPrefix(trace, "Not found: /") || has("Unable to load requested file")):
		return ErrUnsupported
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusConflict && has("terminal state"):
		return ErrEnded
	case status == http.StatusServiceUnavailable:
		return ErrUnavailable
	case status == http.StatusBadRequest && has("is not set. Property ["):
		return ErrNoDirectory
	case has("Checkpoint Coordinator is suspending"):
		return ErrInProgress
	case has("(tasks not ready)"), has("Not all required tasks are currently running"):
		return ErrNotReady
	}
	return nil
}

// exception is the name of a Java class before a message.
var exception = regexp.MustCompile(`^(?:[A-Za-z_]\w*\.)+[\w$]+(?:: |$)`)

// traceMessage joins the messages of a stack trace of Java: that of the
// exception, then those of its causes which say something new.
func traceMessage(trace string) string {
	var parts []string
	for line := range strings.Lines(trace) {
		text, cause := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "Caused by: ")
		if len(parts) > 0 && !cause {
			continue
		}
		class := ""
		for m := exception.FindString(text); m != ""; m = exception.FindString(text) {
			class, text = strings.TrimSuffix(m, ": "), text[len(m):]
		}
		if text = strings.TrimSpace(text); text == "" && class != "" {
			text = class[strings.LastIndexByte(class, '.')+1:]
		}
		if text == "" {
			continue
		}
		if n := len(parts) - 1; n < 0 || !strings.Contains(parts[n], text) {
			parts = append(parts, text)
		}
	}
	for i := range parts {
		if i < len(parts)-1 {
			parts[i] = strings.TrimSuffix(parts[i], ".")
		}
	}
	return strings.Join(parts, ": ")
}
