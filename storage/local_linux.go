package storage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// renameNew renames from to to unless to is there, or says errors.ErrUnsupported.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("%w (%w)", errors.ErrUnsupported, err)
	}
	return err
}
