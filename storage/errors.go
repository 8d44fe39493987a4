package storage

import (
	"errors"
	"io/fs"
)

// ErrIsDir is what opening a directory as an object unwraps to.
var ErrIsDir = errors.New("is a directory")

// ErrScheme says that no store is configured for a URI's scheme.
var ErrScheme = errors.New("no storage for this scheme")

// DeleteError is the failure to delete one object.
type DeleteError struct {
	URI string
	Err error
}

// Error implements error.
func (e *DeleteError) Error() string { return "delete " + e.URI + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *DeleteError) Unwrap() error { return e.Err }

// errNotDir is what listing an object as a directory gives.
var errNotDir error = notDirError{}

// notDirError unwraps to [fs.ErrNotExist], as there is no such directory, and does not say so, as there is something.
type notDirError struct{}

// Error implements error.
func (notDirError) Error() string { return "is a file; name a directory" }

// Unwrap gives [fs.ErrNotExist].
func (notDirError) Unwrap() error { return fs.ErrNotExist }

// ErrChanged says that an object was replaced while it was read or copied.
var ErrChanged = errors.New("the object changed meanwhile")
