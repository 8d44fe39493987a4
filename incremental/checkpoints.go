package incremental

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// Errors of [Checkpoints] and [Pending].
var (
	// ErrID says that a number can't be that of a new checkpoint; [Checkpoints.NextID] can.
	ErrID = errors.New("not a number for a new checkpoint")
	// ErrLost says that a snapshot names a file that is not there for it: nobody uploaded it, or it was deleted as nobody used it, and
	// a subtask was not told so, see [Pending.Base]. A full checkpoint, for which [Checkpoints.Rebase] asks, can't fail so.
	ErrLost = errors.New("the snapshot names a file that is not kept for it")
	// ErrSubsumed says that a newer checkpoint completed first.
	ErrSubsumed = errors.New("subsumed by a newer checkpoint")
	// ErrAborted says that the checkpoint was aborted.
	ErrAborted = errors.New("aborted")
	// ErrCompleted says that the checkpoint has completed, so that nothing can be added to it.
	ErrCompleted = errors.New("completed already")
	// ErrClosed says that Checkpoints was closed.
	ErrClosed = errors.New("checkpoints: closed")
)

const (
	sharedName    = "shared"
	taskOwnedName = "taskowned"
	// maxMetadata is the largest metadata file that is read, in bytes; Flink can't hold a larger one.
	maxMetadata = math.MaxInt32
	// maxID is the highest number of a checkpoint, so that there is always one above.
	maxID = math.MaxInt64 - 1
)

// CheckpointsOptions are the options of [OpenCheckpoints]; FS and Dir are required.
type CheckpointsOptions struct {
	// FS is where the checkpoints are.
	FS storage.FS
	// Dir is the job's directory, which holds chk-N, shared and taskowned.
	Dir string
	// Retain is how many completed checkpoints are kept; 0 means 1.
	Retain int
	// RebaseEvery, if not 0, has checkpoints share nothing with older ones from each number on that is a multiple of it, until one has
	// completed. As it goes by numbers, a restart changes nothing. See [Checkpoints.NextFull].
	RebaseEvery int
	// Claimed are the snapshots that were restored with [Claim] before, as [Checkpoints.Claimed] gave them. To a job that is to claim a
	// checkpoint of another job, what that one has claimed must be handed on here, or else the files that the checkpoint
	// has of there belong to nobody: garbage collection finds them.
	Claimed []string
	// Logger is told what could not be deleted; nil means silence.
	Logger *slog.Logger
}

// Completed describes a completed checkpoint or savepoint; Flink's CompletedCheckpoint.
type Completed struct {
	ID int64
	// URI is that of the metadata file, Dir the directory that handles of files beside it are relative to.
	URI, Dir string
	// Time is when the metadata was written.
	Time time.Time
	// Full says that all files that it names were written for it; not known, and false, if it was found by OpenCheckpoints or restored.
	Full bool
	// CheckpointedSize is the number of bytes that were written for it, FullSize that of all it needs. Both have
	// the metadata with all that is inline. CheckpointedSize is -1 if it was found by OpenCheckpoints or restored.
	CheckpointedSize, FullSize int64
	// Files is the number of distinct files that it needs, with the metadata.
	Files int
}

// Checkpoints are the retained checkpoints of one job, and who owns which file. It does the work of
// Flink's CompletedCheckpointStore, SharedStateRegistry and CheckpointsCleaner. What is on storage is the only
// truth: a checkpoint is complete as soon as chk-N/_metadata is there, and as long as it is, all files that it names are kept.
//
// A file belongs to the job if it is in chk-N, shared or taskowned below its directory or beside a claimed
// checkpoint, or in the directory of a claimed snapshot. No other file is ever deleted, and of these only such as a
// completed checkpoint named, or were written through [Pending.FS].
//
// All methods may be called concurrently. At any time only one Checkpoints may be open for a directory.
type Checkpoints struct {
	o        CheckpointsOptions
	fs       storage.FS
	dir      string
	registry *Registry

	// turn is held by the one that completes or deletes.
	turn chan struct{}

	mu       sync.Mutex
	closed   bool
	latest   *Completed
	retained []*retained // the next to be deleted first
	others   map[SnapshotID]bool
	claimed  []string
	owned    []string // directories, in canonical spelling
	pending  map[int64]*Pending
	used     map[int64]bool // numbers above floor that can't be taken again
	floor    int64          // numbers must be above
	highest  int64          // number ever seen

	// clock counts what happens, so that it is known what was before what.
	clock uint64
	// rebase is when a checkpoint without sharing was asked for that has not completed yet; 0 if none was.
	rebase uint64
	// unclaimed are snapshots that were restored with NoClaim and with which no checkpoint of the job shares a file.
	unclaimed map[SnapshotID]bool

	leftovers
}

// retained is a checkpoint that is kept.
type retained struct {
	Completed
	snapshot SnapshotID
	// whole says that Flink keeps all of the snapshot until nothing of it is used: one that was claimed, and whose
	// files were not to be shared.
	whole bool
}

// OpenCheckpoints finds the completed checkpoints of a job, and who uses which file, from the metadata
// files in its directory and those of Claimed, and beside these. One that can't be read is an error that
// names it. Nothing is changed. A directory that does not exist has no checkpoints.
//
// Files of checkpoints that never completed are not looked for; garbage collection finds them.
func OpenCheckpoints(ctx context.Context, o CheckpointsOptions) (*Checkpoints, error) {
	switch {
	case o.FS == nil || o.Dir == "":
		return nil, errors.New("open checkpoints: no FS or no directory")
	case o.Retain < 0 || o.RebaseEvery < 0:
		return nil, errors.New("open checkpoints: a negative number")
	case o.Retain == 0:
		o.Retain = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Checkpoints{
		o: o, fs: o.FS, dir: storage.Clean(o.Dir), registry: NewRegistry(Options{}), turn: make(chan struct{}, 1),
		others: map[SnapshotID]bool{}, unclaimed: map[SnapshotID]bool{}, pending: map[int64]*Pending{}, used: map[int64]bool{},
		leftovers: newLeftovers(),
	}
	c.own(c.dir, "")
	fail := func(err error) (*Checkpoints, error) {
		return nil, fmt.Errorf("open checkpoints of %s: %w", c.dir, err)
	}
	found, err := c.scan(ctx, c.dir)
	if err != nil {
		return fail(err)
	}
	for _, uri := range o.Claimed {
		more, err := c.scanClaimed(ctx, storage.Clean(uri))
		if err != nil {
			return fail(err)
		}
		found = append(found, more...)
	}
	for _, f := range found {
		if err := c.take(f); err != nil {
			return fail(err)
		}
	}
	slices.SortStableFunc(c.retained, func(a, b *retained) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range c.retained {
		c.latest = &r.Completed
	}
	return c, nil
}

// begin waits for the turn.
func (c *Checkpoints) begin(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Checkpoints) end() { <-c.turn }

// Latest is the checkpoint to go on from after a failure: what completed or was restored last; of those
// that OpenCheckpoints found the one with the highest number. ok is false if there is none.
func (c *Checkpoints) Latest() (latest Completed, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		return Completed{}, false
	}
	return *c.latest, true
}

// Retained gives the checkpoints that are kept, with claimed ones: those that OpenCheckpoints found by number, then as they
// completed or were claimed. The first is the next to be deleted.
func (c *Checkpoints) Retained() []Completed {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Completed, len(c.retained))
	for i, r := range c.retained {
		list[i] = r.Completed
	}
	return list
}

// NextID is a number for a new checkpoint or savepoint: above all that are known, or, if these go as far as numbers do, the lowest that is free.
func (c *Checkpoints) NextID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextID()
}

func (c *Checkpoints) nextID() int64 {
	if c.highest < maxID {
		return c.highest + 1
	}
	id := c.floor + 1
	for c.used[id] {
		id++
	}
	return id
}

// Rebase has new checkpoints share nothing with older ones until one that began after it has completed.
func (c *Checkpoints) Rebase() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	c.rebase = c.clock
}

// NextFull says that the next checkpoint may not share files with older ones: after a restore
// with [NoClaim], after [Checkpoints.Rebase], or as RebaseEvery says.
func (c *Checkpoints) NextFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mustBeFull(c.nextID())
}

func (c *Checkpoints) mustBeFull(id int64) bool {
	every := int64(c.o.RebaseEvery)
	return c.rebase > 0 || every > 0 && c.latest != nil && id/every != c.latest.ID/every
}

// Begin begins a checkpoint. The error unwraps to [ErrID] if the number was used before, also by a savepoint or
// a checkpoint that was aborted, or is not above those of completed checkpoints and of what was restored.
func (c *Checkpoints) Begin(id int64) (*Pending, error) {
	return c.start(id, c.checkpoint(id))
}

// checkpoint gives a checkpoint that has not begun yet.
func (c *Checkpoints) checkpoint(id int64) *Pending {
	return &Pending{dir: storage.Join(c.dir, "chk-"+strconv.FormatInt(id, 10)), shared: storage.Join(c.dir, sharedName)}
}

// BeginSavepoint begins a savepoint in a directory, which must not be one of those where the job has its
// checkpoints. It may name only files that are written for it, all in that directory. A savepoint that completed is the user's: it is
// neither counted nor deleted. Its number is one of the job's checkpoints.
func (c *Checkpoints) BeginSavepoint(id int64, dir string) (*Pending, error) {
	dir = storage.Clean(dir)
	_, above := storage.Rel(dir, c.dir)
	c.mu.Lock()
	owned := c.owns(c.registry.Key(storage.Join(dir, metadata.FileName)))
	c.mu.Unlock()
	if above || owned {
		return nil, fmt.Errorf("savepoint %d: %s is a directory of checkpoints; name one apart from them", id, dir)
	}
	return c.start(id, &Pending{dir: dir, savepoint: true})
}

// BeginAdoption begins a checkpoint that names the files of a savepoint, which stay those of the savepoint: what a job is to go on from
// that was stopped with it, should it fail on its way out. It may name only files that are not the job's, and does so also where [Pending.Full] forbids to share any.
func (c *Checkpoints) BeginAdoption(id int64) (*Pending, error) {
	p := c.checkpoint(id)
	p.adopts = true
	return c.start(id, p)
}

func (c *Checkpoints) start(id int64, p *Pending) (*Pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, fmt.Errorf("begin checkpoint %d: %w", id, ErrClosed)
	case id < 1 || id > maxID || id <= c.floor || c.used[id]:
		return nil, fmt.Errorf("begin checkpoint %d: %w, which must not have been used and be above %d", id, ErrID, c.floor)
	}
	c.used[id] = true
	c.highest = max(c.highest, id)
	c.clock++
	p.c, p.id, p.began = c, id, c.clock
	p.full = p.savepoint || c.mustBeFull(id)
	if c.latest != nil {
		p.base = c.latest.ID
	}
	p.files, p.done = map[string]*written{}, make(chan struct{})
	c.pending[id] = p
	return p, nil
}

// drop ends a pending checkpoint, whose files are to be deleted; false if it has ended. c.mu is held.
func (c *Checkpoints) drop(p *Pending, cause error) bool {
	files, ok := p.end(cause)
	if !ok {
		return false
	}
	c.forget(p, files)
	return true
}

// forget takes out a pending checkpoint that failed, and marks its files for deletion. c.mu is held.
func (c *Checkpoints) forget(p *Pending, files map[string]*written) {
	delete(c.pending, p.id)
	for _, f := range files {
		c.discard(f.uri)
	}
	c.dirs[p.dir] = true
}
