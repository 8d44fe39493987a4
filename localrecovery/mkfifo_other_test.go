//go:build !unix

package localrecovery

import "os"

// mkfifo makes a directory where there are no pipes.
func mkfifo(name string) error { return os.Mkdir(name, 0o777) }
