package tools

import "errors"

// ErrRefused is what an error unwraps to where going on would be unsafe;
// nothing was changed.
var ErrRefused = errors.New("refused")

// ErrPartly is what an error unwraps to where some of the work was done and
// running again is safe.
var ErrPartly = errors.New("partly done")

// worded is an error in better words than its cause's.
type worded struct {
	text  string
	cause error
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.cause }

// ErrNoSnapshot is unwrapped to by errors about a directory that is there, and neither is a snapshot nor tells which one is meant.
var ErrNoSnapshot = errors.New("not a snapshot")
