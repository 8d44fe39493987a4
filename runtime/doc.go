// Package runtime runs streaming jobs in one process: operators with state, checkpoints by barriers, recovery and rescaling, with
// the savepoints of Flink.
package runtime
