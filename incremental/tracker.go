package incremental

import (
	"maps"
	"sync"

	"github.com/google/uuid"

	"github.com/drey-state/drey/metadata"
)

// Tracker knows as which objects the files of one backend's database were uploaded, so that a checkpoint uploads only those
// that no completed one has (the uploadedSstFiles of RocksIncrementalSnapshotStrategy). A file of the database never changes,
// and a name is never used again. Checkpoints may overlap: each refers to the objects of the newest one that had
// completed when it began, as those of one that is on its way may be deleted. A Tracker may be used concurrently.
type Tracker struct {
	id string

	mu      sync.Mutex
	base    int64 // the newest checkpoint that completed; files are its
	files   map[string]metadata.Stream
	written map[int64]map[string]metadata.Stream // of checkpoints that are not decided yet
}

// NewTracker makes a tracker for a database none of whose files was uploaded.
func NewTracker() *Tracker {
	return &Tracker{id: uuid.NewString(), base: -1, written: map[int64]map[string]metadata.Stream{}}
}

// BackendID is the identity of the database in handles (backendIdentifier): a random UUID.
func (t *Tracker) BackendID() string { return t.id }

// Base gives the number of the newest completed checkpoint, and the objects of its files by the names of those in the database;
// -1 and none if there is no such checkpoint. The map must not be changed.
func (t *Tracker) Base() (checkpoint int64, files map[string]metadata.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.base, t.files
}

// Restored says that the database was made of files that a snapshot has, which the next checkpoints may refer to. What was
// written before was of another database.
func (t *Tracker) Restored(checkpoint int64, files map[string]metadata.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base, t.files = checkpoint, maps.Clone(files)
	clear(t.written) // they are of another database
}

// Written says which objects a checkpoint has, those that it shares with another included. It is for the checkpoint to complete, or not.
func (t *Tracker) Written(checkpoint int64, files map[string]metadata.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if checkpoint > t.base {
		t.written[checkpoint] = maps.Clone(files)
	}
}

// Completed says that a checkpoint is complete: the next ones refer to its objects. It does nothing if a newer one is complete,
// or if the database has no part in the checkpoint.
func (t *Tracker) Completed(checkpoint int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	files, ok := t.written[checkpoint]
	if !ok || checkpoint <= t.base {
		return // a savepoint says nothing of older checkpoints, which may complete yet
	}
	t.base, t.files = checkpoint, files
	maps.DeleteFunc(t.written, func(n int64, _ map[string]metadata.Stream) bool { return n <= checkpoint })
}

// Aborted says that a checkpoint will never complete: no other refers to what it uploaded.
func (t *Tracker) Aborted(checkpoint int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.written, checkpoint)
}
