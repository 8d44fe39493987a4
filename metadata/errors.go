package metadata

import (
	"errors"
	"fmt"

	"github.com/drey-state/drey/internal/javaio"
)

// Error is a failure to decode or encode, with the byte offset and the path
// of the field; use [errors.As].
type Error = javaio.Error

// TruncatedError says how long the file is and how long it must be at least.
type TruncatedError = javaio.TruncatedError

var (
	// ErrTruncated is what an error unwraps to if the file ends too early.
	ErrTruncated = javaio.ErrTruncated
	// ErrMagic says that the bytes are not a _metadata file at all.
	ErrMagic = errors.New("not a _metadata file")
	// ErrVersion says that the version is not one that can be read.
	ErrVersion = errors.New("unsupported version")
	// ErrTag says that a handle's tag is unknown or not legal in its place.
	ErrTag = errors.New("bad handle tag")
	// ErrInexpressible says that a version has no way to write what a snapshot holds.
	ErrInexpressible = errors.New("cannot be written in this version")
)

// versionError explains a version that is refused.
type versionError struct{ version Version }

func (e *versionError) Error() string {
	switch v := e.version; {
	case v == 0:
		return "version 0 is written by Flink 1.1, and only Flink 1.1 to 1.3 reads it: restore it there and take a new savepoint"
	case v > Version6:
		return fmt.Sprintf("version %d is newer than this drey, which reads versions 1 to 6 (Flink 1.2 to 2.3): nothing after the header was decoded; use a newer drey", v)
	default:
		return fmt.Sprintf("version %d: no Flink release writes it; the file is damaged", v)
	}
}

func (e *versionError) Unwrap() error { return ErrVersion }
