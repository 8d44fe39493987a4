//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package localrecovery

import (
	"io/fs"
	"os"
)

func lockRoot(*os.Root) (*os.File, error) { return nil, nil }

func device(fs.FileInfo) uint64 { return 0 }

// cannotLink lets every failure be answered by a copy.
func cannotLink(error) bool { return true }

func bootID() string { return "" }
