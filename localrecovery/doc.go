// Package localrecovery keeps a second copy of a task's checkpoints on local disk or in memory, so that a restart need not download them.
package localrecovery
