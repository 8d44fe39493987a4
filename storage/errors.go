package storage

import (
	"errors"
	"fmt"
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

// errNotDir is what listing an object as a directory unwraps to, besides fs.ErrNotExist.
var errNotDir = fmt.Errorf("%w: an object, not a directory", fs.ErrNotExist)

// ErrChanged says that an object was replaced while it was read or copied.
var ErrChanged = errors.New("the object changed meanwhile")
