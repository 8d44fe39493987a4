// Package incremental knows which files which snapshots share, and with that keeps the checkpoints of a job and deletes what none of them uses.
package incremental
