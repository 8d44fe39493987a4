// Package metadata holds a snapshot's _metadata file: its bytes as a [Snapshot], the files that it names, and the rewriting of their paths; it does no I/O.
package metadata
