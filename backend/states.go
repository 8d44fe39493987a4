package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Errors of a keyed backend that a caller may want to tell apart.
var (
	// ErrClosed is given by every call to a backend, or to a state of one, that was closed.
	ErrClosed = errors.New("the backend is closed")
	// ErrNoKey is given if no key was set.
	ErrNoKey = errors.New("no key was set")
	// ErrKeyGroup is given if a key is not in the key groups of the backend.
	ErrKeyGroup = errors.New("the key is in none of the key groups of this subtask")
	// ErrTooLarge is given for a key, a value or a list that Flink could not read, see [MaxSize].
	ErrTooLarge = serializer.ErrTooLarge
	// ErrIncompatible is given if state was written by a serializer whose values the new one can't read.
	ErrIncompatible = serializer.ErrIncompatible
	// ErrState is given if a state is opened as another kind than it was opened or restored as.
	ErrState = errors.New("a state of this name is of another kind")
)

// Keyed is the keyed state of one subtask (AbstractKeyedStateBackend), whichever backend holds it. States are
// opened by the functions of the backend's package, or by those of package
// state for a backend that is chosen by configuration.
//
// One goroutine at a time may use a backend with its states, that of the subtask; what
// [Keyed.Snapshot] returns may be used by another one meanwhile.
type Keyed[K comparable] interface {
	// SetKey chooses the key that all states of the backend work on. It gives ErrKeyGroup for a
	// key that is in none of the backend's key groups; then no key is set.
	SetKey(key K) error
	// Key is the one that was set last, the zero value if none is set.
	Key() K
	// KeyGroups and MaxParallelism are as the backend was opened.
	KeyGroups() keygroup.Range
	MaxParallelism() int
	// Restore takes up the state of handles, as far as it is in the backend's key groups. It is called
	// once, before anything is written; states may be opened before it or after it. State that is never
	// opened stays as it was and is in every snapshot. Handles of Flink, of any format that [OpenKeyed]
	// reads, may stand beside those of either backend. After an error the backend can only be closed.
	Restore(ctx context.Context, files Files, h Handles) error
	// Snapshot takes hold of the state as it is now: the synchronous part, which
	// does not grow with the state; a backend with a write buffer empties it, which takes as long as that is large. The rest is done by the
	// Snapshot that it returns.
	Snapshot(checkpoint int64, o SnapshotOptions) (Snapshot, error)
	// States are what the backend holds, opened or only restored, in the order of snapshots.
	States() []StateMeta
	// Keys yields the key of each value of a state, which is opened, in no certain order and without a key
	// being set: a key comes once for each namespace in which it has a value. The state must not be changed until it ends.
	Keys(state string) iter.Seq2[K, error]
	// Entries yields the entries of a state, or of all if it is "", in the form in which they stand
	// in a snapshot, of the given key groups only. The state must not be changed until it ends.
	Entries(state string, groups keygroup.Range) iter.Seq2[*Entry, error]
	// Len is the number of entries of a state as the backend counts them; those that expired may be among them.
	Len(state string) (int64, error)
	// Close releases everything. It is safe to call it again. Snapshots that were taken before
	// stay usable on heap; on Pebble they fail with ErrClosed, also those that are being written, whose end Close waits for.
	Close() error
}

// Handles are the handles of keyed state that a subtask is given to restore: all
// that have key groups of it. None may have key groups in common with another.
type Handles struct {
	Managed []metadata.Keyed
	// Raw is raw keyed state, in which a RocksDB backend of Flink with timers
	// on the heap has its timers.
	Raw []metadata.Keyed
}

// Each opens the handles for an operator of maxParallelism key groups, one after the other, and gives each reader
// to f. It fails if a header can't be read, or if handles have key groups in common.
func (h Handles) Each(ctx context.Context, files Files, maxParallelism int, f func(*KeyedReader) error) error {
	if err := each(ctx, files, h.Managed, Options{MaxParallelism: maxParallelism}, f); err != nil {
		return err
	}
	return each(ctx, files, h.Raw, Options{MaxParallelism: maxParallelism, Raw: true}, f)
}

func each(ctx context.Context, files Files, handles []metadata.Keyed, o Options, f func(*KeyedReader) error) error {
	var seen []keygroup.Range
	for _, h := range handles {
		err := func() error {
			r, err := OpenKeyed(ctx, files, h, o)
			if err != nil {
				return err
			}
			defer func() { _ = r.Close() }()
			if err := r.HeaderErr(); err != nil {
				return err
			}
			for _, other := range seen {
				if common := r.KeyGroups().Intersect(other); !common.Empty() {
					return fmt.Errorf("key groups %v are in two handles: %w", common, serializer.ErrCorrupt)
				}
			}
			seen = append(seen, r.KeyGroups())
			return f(r)
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// Snapshot is the state of a backend as it was at one point in time. Either Write or Release is to be called.
type Snapshot interface {
	// Write writes the state, the asynchronous part, and gives the handle; nil if
	// the backend has no states. Files that were written are deleted if it
	// fails. It releases the snapshot.
	Write(ctx context.Context, t Target) (metadata.Keyed, error)
	// Raw is raw keyed state that Write wrote besides: the timers, in FormatRocksDB and FormatIncremental, of a backend on Pebble that has them on
	// the heap; nil if there is none.
	Raw() metadata.Keyed
	// Release gives the snapshot up. It is safe to call it again, and after Write; also while another goroutine writes, which
	// then fails, unless it is about to end.
	Release()
}

// Format is how a snapshot is written.
type Format uint8

// The formats.
const (
	// FormatCanonical is that of a canonical savepoint, which every backend of Flink restores.
	FormatCanonical Format = iota
	// FormatFull is a full checkpoint in the backend's own format: on heap that of Flink's hashmap
	// backend; on Pebble the entries as Flink's RocksDB backend writes them into a full checkpoint.
	FormatFull
	// FormatRocksDB is the files of a RocksDB database, as a native savepoint of Flink's RocksDB backend has them, which
	// it opens instead of reading them entry by entry.
	FormatRocksDB
	// FormatIncremental is the files of the backend's own database, of which only those that no completed checkpoint has are
	// written (an incremental checkpoint of Flink's RocksDB backend): on Pebble. It is not for savepoints, and Flink can't restore it,
	// as its RocksDB can't read the files. On heap it is FormatFull, as in Flink.
	FormatIncremental
)

// SnapshotOptions are the options of [Keyed.Snapshot]; the zero value is a canonical savepoint, uncompressed.
type SnapshotOptions struct {
	Format Format
	// Compress compresses each key group with snappy (execution.checkpointing.snapshot-compression).
	// It has no effect on FormatRocksDB and FormatIncremental, whose tables are always compressed.
	Compress bool
	// Savepoint makes handles those of a savepoint, with paths relative to its
	// metadata; always so for FormatCanonical.
	Savepoint bool
	// TableSize is from which size in bytes on a table of FormatRocksDB ends; 0 means 64 MiB, as Flink's options have it
	// (state.backend.rocksdb.compaction.level.target-file-size-base). At most 1 GiB.
	TableSize int64
	// Rebase has FormatIncremental write all files anew, and refer to none of another checkpoint: what the first
	// checkpoint after a restore has to do if the job did not claim the snapshot (SnapshotType.SharingFilesStrategy.FORWARD).
	Rebase bool
}

// CheckpointListener is implemented by a backend that wants to know what became of its checkpoints (CheckpointListener of Flink).
// Its methods are called by the goroutine that uses the backend, in any order; those for a checkpoint in which the backend had no part do
// nothing. Before it takes a snapshot, a backend must have been told of the newest checkpoint that had completed when this
// one began, as the files of older ones may be gone (Pending.Base of package incremental).
type CheckpointListener interface {
	// CheckpointCompleted says that a checkpoint is complete, and will not be deleted before one that
	// begins after this call has completed, or failed.
	CheckpointCompleted(checkpoint int64)
	// CheckpointAborted says that a checkpoint will never be complete: its files may be gone.
	CheckpointAborted(checkpoint int64)
}

// Value is a state of one value for each key and namespace (ValueState).
//
// Of this and all other states: the namespace is the zero value of N until one is set. Values are not
// copied: what was given to a state or got from it must not be changed.
type Value[N comparable, V any] interface {
	SetNamespace(n N)
	// Get gives the value; false if there is none.
	Get() (V, bool, error)
	Set(v V) error
	Clear() error
}

// List is a state of a list for each key and namespace (ListState).
type List[N comparable, V any] interface {
	SetNamespace(n N)
	// Get gives the elements in the order in which they were added, nil if there are none.
	Get() ([]V, error)
	// Add appends elements. It does not read what is there.
	Add(v ...V) error
	// Set replaces the list; by nothing, it clears it.
	Set(list []V) error
	Clear() error
	// Merge moves the lists of other namespaces of the key behind that of target.
	Merge(target N, sources ...N) error
}

// Map is a state of a map for each key and namespace (MapState).
type Map[N, U comparable, V any] interface {
	SetNamespace(n N)
	Get(u U) (V, bool, error)
	Has(u U) (bool, error)
	Put(u U, v V) error
	Delete(u U) error
	// Empty says that the map has no entry.
	Empty() (bool, error)
	// All yields the entries, in no certain order. The map must not be changed until it ends, but
	// that the entry that was yielded last may be deleted; the key and the namespace stay set meanwhile.
	// An error is the last thing that it yields.
	All() iter.Seq2[MapEntry[U, V], error]
	Clear() error
}

// MapEntry is an entry of a map state.
type MapEntry[U, V any] struct {
	Key   U
	Value V
}

// Reducing is a state that combines what is added into one value (ReducingState).
type Reducing[N comparable, V any] interface {
	SetNamespace(n N)
	Get() (V, bool, error)
	Add(v V) error
	Clear() error
	// Merge combines the values of other namespaces of the key into that of target, and removes them.
	Merge(target N, sources ...N) error
}

// Aggregating is a state that adds to an accumulator (AggregatingState).
type Aggregating[N comparable, In, Out any] interface {
	SetNamespace(n N)
	// Get gives the result; false if nothing was added.
	Get() (Out, bool, error)
	Add(in In) error
	Clear() error
	// Merge combines the accumulators of other namespaces of the key into that of target, and removes them.
	Merge(target N, sources ...N) error
}

// Timers is a queue of timers, at most one for each key, namespace and timestamp (InternalTimerService).
type Timers[K, N comparable] interface {
	// Register adds a timer of the current key, if it is not there yet. Timestamps are milliseconds since 1970.
	Register(n N, timestamp int64) error
	// Delete removes a timer of the current key, if it is there.
	Delete(n N, timestamp int64) error
	// Next gives the earliest timestamp, false if there is no timer.
	Next() (int64, bool, error)
	// Advance removes and yields the timers with timestamps up to that, in order of time, also
	// those that are registered meanwhile. The key of each is set while it is
	// yielded. What it did not yield when the caller stops stays. An error is the last thing that it yields.
	Advance(timestamp int64) iter.Seq2[serializer.TimerValue[K, N], error]
	// All yields the timers in no certain order.
	All() iter.Seq2[serializer.TimerValue[K, N], error]
}
