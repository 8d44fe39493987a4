// Package interop proves with real Flink that the snapshots drey writes are the snapshots Flink reads.
package interop
