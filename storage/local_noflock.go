//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package storage

import (
	"errors"
	"os"
	"runtime"
)

// lockTemp would take the writer's lock.
func lockTemp(*os.File) error { return errors.ErrUnsupported }

// keepLock would keep the lock when f is closed.
func keepLock(*os.File) *os.File { return nil }

// lockDead says that locks can't tell whether a writer has a temporary file. On Windows
// they need not: nobody can remove a file that another has opened to write.
func lockDead(string) (*os.File, error) {
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	return nil, errors.ErrUnsupported
}
