//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock tries a lock on an open file. The system drops it when the last
// descriptor of that opening is closed, also by the death of the process.
func flock(f *os.File, how int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lerr error
	err = c.Control(func(fd uintptr) {
		for {
			if lerr = unix.Flock(int(fd), how|unix.LOCK_NB); !errors.Is(lerr, unix.EINTR) {
				return
			}
		}
	})
	if errors.Is(lerr, unix.EWOULDBLOCK) {
		return errLocked
	}
	return errors.Join(err, lerr)
}

// lockTemp takes the writer's lock; [errLocked] if Clean has the file.
func lockTemp(f *os.File) error { return flock(f, unix.LOCK_EX) }

// keepLock gives a second descriptor that keeps the lock when f is closed, or nil.
func keepLock(f *os.File) *os.File {
	c, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	dup := -1
	err = c.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			dup = n
		}
	})
	if err != nil || dup < 0 {
		return nil
	}
	return os.NewFile(uintptr(dup), f.Name())
}

// lockDead locks a temporary file that no writer has, else it fails with
// [errLocked]; any other error means that locks can't tell. A shared lock does: it
// excludes the writer's and, unlike that, is allowed on a network file system for a file opened to read.
func lockDead(tmp string) (*os.File, error) {
	f, err := os.OpenFile(tmp, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_SH); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
