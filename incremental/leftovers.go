package incremental

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// leftovers is what is to be deleted, in the order of its stages.
type leftovers struct {
	// doomed are snapshots of which the metadata is to be deleted first. Their files count as used until it is gone.
	doomed []*doomed
	// late are snapshots whose metadata was not there when it was looked for, though it could be on its way. If it
	// comes to be there it is deleted, as its files are gone.
	late []*doomed
	// held are files that no snapshot uses, and when that came to be: a checkpoint that had begun before may use them yet.
	held map[string]uint64
	// garbage are the URIs of files that nobody can use any more, by key.
	garbage map[string]string
	// dirs are directories that are to be removed once they are empty.
	dirs map[string]bool
}

// doomed is a snapshot that is to be deleted.
type doomed struct {
	snapshot   SnapshotID
	registered bool   // snapshot is valid
	uri, dir   string // of its metadata
	whole      bool   // see retained
	at         uint64 // when it, or a part of it, was last used
	// files are those that were written for it.
	files []string
	// doubtful is what could not be written as its metadata. If something else is there, or nothing, that is not touched.
	doubtful []byte
	looked   time.Time // when it was not there, or no more
}

// lateMetadata is how long metadata is looked for that could not be written; no request takes as long to arrive.
const lateMetadata = 15 * time.Minute

func newLeftovers() leftovers {
	return leftovers{held: map[string]uint64{}, garbage: map[string]string{}, dirs: map[string]bool{}}
}

// discard says that nobody can use a file any more.
func (l *leftovers) discard(uri string) { l.garbage[storage.Key(uri)] = uri }

// leaves says that a file is to be deleted, or may have to be, so that none of its name can be written.
func (c *Checkpoints) leaves(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, garbage := c.garbage[key]
	_, held := c.held[key]
	return garbage || held
}

func (l *leftovers) doom(d *doomed) { l.doomed = append(l.doomed, d) }

// isDoomed says that a metadata file is to be deleted.
func (c *Checkpoints) isDoomed(uri string) bool {
	return slices.ContainsFunc(c.doomed, func(d *doomed) bool { return storage.Key(d.uri) == storage.Key(uri) })
}

// outstanding says that a checkpoint is pending that began before a time. c.mu is held.
func (c *Checkpoints) outstanding(at uint64) bool {
	for _, p := range c.pending {
		if p.began < at {
			return true
		}
	}
	return false
}

// keeps says that a file is kept for a pending checkpoint that names it: it is of a completed checkpoint, or
// was when the pending one began, or is not the job's.
func (c *Checkpoints) keeps(p *Pending, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.registry.Find(key); ok {
		return len(c.unclaimed) == 0 || !c.onlyUnclaimed(id)
	}
	at, ok := c.held[key]
	return ok && p.began < at || !c.owns(key)
}

// onlyUnclaimed says that a file is only of snapshots that the user keeps for themselves, so that a subtask that
// names it has not heard of that. c.mu is held.
func (c *Checkpoints) onlyUnclaimed(id FileID) bool {
	for _, user := range c.registry.Users(id) {
		if !c.unclaimed[user] {
			return false
		}
	}
	return true
}

// sweep deletes what is to be deleted as far as it may and can be, and says what failed. Metadata goes first, so that no snapshot
// looks complete that is not; directories last. The turn is held.
func (c *Checkpoints) sweep(ctx context.Context) error {
	errs := []error{c.sweepMetadata(ctx), c.sweepFiles(ctx), c.sweepDirs(ctx)}
	err := errors.Join(errs...)
	if err != nil {
		c.o.Logger.Warn("files of ended checkpoints could not be deleted; it is tried again when the next checkpoint ends", "dir", c.dir, "error", err)
	}
	return err
}

// sweepMetadata deletes the metadata of doomed snapshots.
func (c *Checkpoints) sweepMetadata(ctx context.Context) error {
	errs := []error{c.sweepLate(ctx)}
	failed := map[*doomed]bool{}
	for {
		d := c.nextDoomed(failed)
		if d == nil {
			return errors.Join(errs...)
		}
		if err := c.unmake(ctx, d); err != nil {
			errs = append(errs, err)
			failed[d] = true
			continue
		}
		c.mu.Lock()
		c.buried(d)
		c.mu.Unlock()
	}
}

// sweepLate deletes metadata that came to be there late. The turn is held.
func (c *Checkpoints) sweepLate(ctx context.Context) error {
	c.mu.Lock()
	late := slices.DeleteFunc(slices.Clone(c.late), func(d *doomed) bool { return time.Since(d.looked) > lateMetadata })
	c.late = late
	c.mu.Unlock()
	var errs []error
	for _, d := range late {
		errs = append(errs, c.unmake(ctx, d))
	}
	return errors.Join(errs...)
}

// unmake deletes the metadata of a doomed snapshot.
func (c *Checkpoints) unmake(ctx context.Context, d *doomed) error {
	if d.doubtful != nil {
		if there, err := c.holds(ctx, d.uri, d.doubtful); err != nil || !there {
			return err
		}
	}
	return c.fs.Delete(ctx, d.uri)
}

// nextDoomed gives a snapshot that may be deleted, which another can have become by the end of the one before; nil if there is none.
func (c *Checkpoints) nextDoomed(failed map[*doomed]bool) *doomed {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.doomed {
		if !failed[d] && !c.inUse(d) {
			return d
		}
	}
	return nil
}

// inUse says that a snapshot must stay as a whole because a part of it is used. c.mu is held.
func (c *Checkpoints) inUse(d *doomed) bool {
	if !d.whole {
		return false
	}
	for f := range c.registry.Files(d.snapshot) {
		if c.registry.Uses(f) > 1 {
			c.clock++
			d.at = c.clock // what has begun by now can go on with it when its last user is gone, which comes later in the list
			return true
		}
	}
	return c.outstanding(d.at)
}

// buried lets go of the files of a snapshot whose metadata is gone. c.mu is held.
func (c *Checkpoints) buried(d *doomed) {
	c.doomed = slices.DeleteFunc(c.doomed, func(other *doomed) bool { return other == d })
	c.dirs[d.dir] = true
	if d.doubtful != nil {
		d.looked = time.Now()
		c.late = append(c.late, d)
	}
	if !d.registered {
		for _, uri := range d.files {
			c.discard(uri)
		}
		return
	}
	c.clock++
	for _, f := range c.registry.Release(d.snapshot) {
		switch {
		case !c.owns(f.URI) || f.Metadata:
		case f.Directory:
			c.dirs[c.spell(f.URI)] = true
		default:
			c.held[f.URI] = c.clock
		}
	}
}

// spell gives a place below the job's directory in its spelling.
func (c *Checkpoints) spell(key string) string {
	if rest, ok := storage.Rel(c.dir, key); ok && rest != "" {
		return storage.Join(c.dir, rest)
	}
	return key
}

// sweepFiles deletes files that nobody can use any more.
func (c *Checkpoints) sweepFiles(ctx context.Context) error {
	c.mu.Lock()
	for key, at := range c.held {
		if c.outstanding(at) {
			continue
		}
		delete(c.held, key)
		if _, used := c.registry.Find(key); !used {
			c.discard(c.spell(key))
		}
	}
	list := slices.Collect(maps.Values(c.garbage))
	c.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list) // chk-N comes before shared
	err := c.fs.Delete(ctx, list...)
	failed := map[string]error{}
	if !undeleted(err, failed) {
		return err // and all are tried again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var first error // which says enough; there may be thousands
	for _, uri := range list {
		switch err := failed[storage.Key(uri)]; {
		case err == nil:
			delete(c.garbage, storage.Key(uri))
		case first == nil:
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d files, the first: %w", len(failed), len(list), first)
	}
	return nil
}

// undeleted finds out which objects an error of Delete is about, by key; false if it does not say.
func undeleted(err error, failed map[string]error) bool {
	switch e := err.(type) {
	case nil:
		return true
	case *storage.DeleteError:
		failed[storage.Key(e.URI)] = e
		return true
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !undeleted(one, failed) {
				return false
			}
		}
		return true
	}
	return false
}

// sweepDirs removes directories that are empty.
func (c *Checkpoints) sweepDirs(ctx context.Context) error {
	c.mu.Lock()
	wait := map[string]bool{}
	for key := range c.held {
		wait[storage.Dir(key)] = true
	}
	for _, uri := range c.garbage {
		wait[storage.Key(storage.Dir(uri))] = true
	}
	var list []string
	for dir := range c.dirs {
		if !wait[storage.Key(dir)] {
			list = append(list, dir)
		}
	}
	c.mu.Unlock()
	p, ok := c.fs.(storage.Pruner)
	if ok && len(list) > 0 {
		slices.Sort(list)
		slices.Reverse(list) // the deeper ones first
		if _, err := p.Prune(ctx, list...); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, dir := range list {
		delete(c.dirs, dir)
	}
	return nil
}

// Close aborts what is pending and tries once more to delete what is left to delete; the error says what
// could not be. Completed checkpoints stay. Nothing can be begun, completed or restored afterwards.
func (c *Checkpoints) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	for _, p := range c.pending {
		c.drop(p, ErrAborted)
	}
	c.mu.Unlock()
	err := c.begin(ctx)
	if err == nil {
		defer c.end()
		err = c.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("close checkpoints of %s: %w", c.dir, err)
	}
	return nil
}

// Settle makes sure that no checkpoint is there, or may be there, that failed: one whose metadata could not be written, or so it seemed, and
// that a later process would take for complete. A job must not go on from an older one before: what only the failed one knows, such as
// transactions that were prepared for it, would be given up.
func (c *Checkpoints) Settle(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("settle checkpoints of %s: %w", c.dir, err)
	}
	defer c.end()
	err := c.sweepMetadata(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.doomed, func(d *doomed) bool { return d.doubtful != nil }); i >= 0 {
		return fmt.Errorf("settle checkpoints of %s: %s may be complete: %w", c.dir, c.doomed[i].uri, err)
	}
	return nil
}

// Discard is Close, but that it deletes the completed checkpoints, too, with those that were claimed: the job will never go on from
// them (CompletedCheckpointStore.shutdown). Savepoints stay, and what was restored without a claim.
func (c *Checkpoints) Discard(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("discard checkpoints of %s: %w", c.dir, err)
	}
	c.mu.Lock()
	c.closed = true
	c.clock++
	for _, r := range c.retained {
		c.doom(&doomed{snapshot: r.snapshot, registered: true, uri: r.URI, dir: r.Dir, whole: r.whole, at: c.clock})
	}
	c.retained, c.latest = nil, nil
	c.mu.Unlock()
	c.end()
	return c.Close(ctx)
}

// fits says that a file of a size has what a reference means.
func fits(ref metadata.Ref, size int64) bool {
	switch {
	case ref.Part == metadata.PartChange || ref.Size < 0:
		return true
	case ref.Kind == metadata.RefSegment:
		return ref.Start <= size && ref.Size <= size-ref.Start
	}
	return ref.Size == size
}
