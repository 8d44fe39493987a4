//go:build !linux

package storage

import "errors"

// renameNew would rename only where nothing is.
func renameNew(_, _ string) error { return errors.ErrUnsupported }
