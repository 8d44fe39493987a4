package rocksdb

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrTruncated says that a file ends too early.
	ErrTruncated = errors.New("file ends too early")
	// ErrChecksum says that stored bytes are not those that were written.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrCorrupt says that bytes contradict the format or each other.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsupported says that the files use a feature that is not read here.
	ErrUnsupported = errors.New("not supported")
	// ErrNoMerge says that a row holds merge operands and no MergeFunc was given.
	ErrNoMerge = errors.New("merge operands without a merge function")
)

// Error is a failure to read a file of a checkpoint; use [errors.As].
type Error struct {
	// File is the name in RocksDB's directory, such as "000012.sst".
	File string
	// Offset is where the record, block or field begins in the file; -1 if it is no matter of a place.
	Offset int64
	// Inner is the position in the record, or in the block after
	// decompression, where it is known; else -1.
	Inner int64
	// Field is the path of what was read, such as "edit[3].new file.level".
	Field string
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, ": offset %d", e.Offset)
		if e.Inner >= 0 {
			fmt.Fprintf(&b, "+%d", e.Inner)
		}
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String() + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// corrupt makes an ErrCorrupt with an explanation.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// unsupported makes an ErrUnsupported with an explanation.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnsupported}, args...)...)
}
