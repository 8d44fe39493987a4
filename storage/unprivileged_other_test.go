//go:build !unix

package storage

import "testing"

// unprivileged has no other user to turn to here.
func unprivileged(*testing.T) bool { return true }
