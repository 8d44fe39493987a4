//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localrecovery

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockRoot takes the lock of a root, which the system drops when the process dies: ErrInUse if another store has it.
func lockRoot(r *os.Root) (*os.File, error) {
	f, err := r.OpenFile(lockName, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, err
	}
	c, err := f.SyscallConn()
	if err == nil {
		var lerr error
		err = c.Control(func(fd uintptr) {
			for {
				if lerr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(lerr, unix.EINTR) {
					return
				}
			}
		})
		if errors.Is(lerr, unix.EWOULDBLOCK) {
			lerr = ErrInUse
		}
		err = errors.Join(err, lerr)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// device is the number of the file system that a file is on.
func device(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev) //nolint:unconvert // it has another type on other systems
	}
	return 0
}

// cannotLink says that link(2) failed because these two places, or this file, don't have hard links, so
// that a copy is the answer.
func cannotLink(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.EPERM, unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.EMLINK} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// bootID names the time since the machine was started; "" where that isn't known.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if id := strings.TrimSpace(string(data)); err == nil && validID(id) {
		return id
	}
	return ""
}
