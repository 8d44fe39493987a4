// Package incremental knows which files which snapshots share: the one engine of reachability.
package incremental
