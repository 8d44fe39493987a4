package incremental

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// ClaimMode says who owns the files of a snapshot after a job was restored from it; Flink's
// RecoveryClaimMode (before 2.0: RestoreMode).
type ClaimMode uint8

// The claim modes.
const (
	// NoClaim leaves the snapshot to the user: the first checkpoint shares nothing with it, and later ones nothing but their own.
	NoClaim ClaimMode = iota
	// Claim makes the snapshot one of the job's checkpoints, which is deleted like these.
	Claim
	// Legacy leaves the snapshot to the user, and its files are used by new checkpoints: it may never be deleted.
	Legacy
)

// String gives the name that Flink has for the mode.
func (m ClaimMode) String() string {
	switch m {
	case NoClaim:
		return "NO_CLAIM"
	case Claim:
		return "CLAIM"
	case Legacy:
		return "LEGACY"
	}
	return fmt.Sprintf("claim mode %d", uint8(m))
}

// Restore reads the snapshot that a job goes on from, and says whose it is from now on. uri is that of its directory or metadata
// file. A checkpoint of the job itself stays its own, whatever the mode. Pending checkpoints and savepoints are
// aborted. Numbers of new checkpoints must be above that of the snapshot. After an error nothing has changed.
//
// A directory that has checkpoints already, as after a crash, goes on with [Checkpoints.Latest], and not once more with the snapshot that the
// job was begun with. If another snapshot is restored all the same, it is the latest one until a checkpoint has completed; those that
// are retained stay until newer ones are too many, and a process that dies before that goes on with the newest of them.
//
// Claim takes a snapshot with all that is in its directory and, if that is chk-N, with what it names of shared and
// taskowned beside it. Other checkpoints there stay, with all files that they name. What is claimed must be named in [CheckpointsOptions.Claimed] later.
func (c *Checkpoints) Restore(ctx context.Context, uri string, mode ClaimMode) (*metadata.Snapshot, error) {
	fail := func(err error) (*metadata.Snapshot, error) { return nil, fmt.Errorf("restore %s: %w", uri, err) }
	if mode > Legacy {
		return fail(fmt.Errorf("unknown %s", mode))
	}
	if err := c.begin(ctx); err != nil {
		return fail(err)
	}
	defer c.end()
	uri = storage.Clean(uri)
	info, err := c.fs.Stat(ctx, uri)
	if err != nil {
		return fail(err)
	}
	if info.Dir {
		uri = storage.Join(uri, metadata.FileName)
	}
	f, err := c.read(ctx, uri)
	if err != nil {
		return fail(err)
	}
	if f.snapshot.CheckpointID > maxID {
		return fail(fmt.Errorf("%w: none is above %d", ErrID, f.snapshot.CheckpointID))
	}
	var beside neighbours
	if mode == Claim {
		f.job, f.claimed = true, true
		if beside, err = c.beside(ctx, f.dir); err != nil {
			return fail(err)
		}
	}
	if err := c.restored(f, beside, mode); err != nil {
		return fail(err)
	}
	_ = c.sweep(ctx) // which logs what failed, to try it again
	return f.snapshot, nil
}

// restored notes what was restored.
func (c *Checkpoints) restored(f *found, beside neighbours, mode ClaimMode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	own := slices.IndexFunc(c.retained, func(r *retained) bool { return c.registry.Key(r.URI) == c.registry.Key(f.uri) })
	if own < 0 && c.isDoomed(f.uri) {
		return fmt.Errorf("it was subsumed: %w", fs.ErrNotExist)
	}
	for _, p := range c.pending {
		c.drop(p, ErrAborted)
	}
	c.clock++
	if own >= 0 {
		c.latest = &c.retained[own].Completed
		return nil
	}
	if err := c.take(f); err != nil {
		return err
	}
	for _, n := range beside.found {
		if err := c.take(n); err != nil {
			return err
		}
	}
	c.floor, c.highest = max(c.floor, f.snapshot.CheckpointID), max(c.highest, f.snapshot.CheckpointID)
	known, _ := c.registry.FindSnapshot(f.uri)
	d := c.describe(f, known.ID)
	c.latest = &d
	delete(c.unclaimed, known.ID)
	switch mode {
	case Claim:
		c.own(beside.job, f.dir)
		c.claimed = append(c.claimed, f.uri)
	case NoClaim:
		c.rebase = c.clock
		if !c.sharesWith(known.ID) {
			c.unclaimed[known.ID] = true
		}
	}
	return nil
}

// sharesWith says that a checkpoint of the job has a file in common with a snapshot. c.mu is held.
func (c *Checkpoints) sharesWith(id SnapshotID) bool {
	for _, s := range c.registry.Snapshots() {
		if s.ID == id || c.others[s.ID] {
			continue
		}
		for range c.registry.Common(id, s.ID) {
			return true
		}
	}
	return false
}

// Claimed gives the snapshots that were claimed, whether they are there still or not. They must be
// named in [CheckpointsOptions.Claimed] when the job's checkpoints are opened again, or else their files are never deleted.
func (c *Checkpoints) Claimed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.claimed)
}

// found is a metadata file that was found.
type found struct {
	uri, dir string
	written  time.Time
	size     int64
	snapshot *metadata.Snapshot
	// job says that it is one of the job's checkpoints, and not only there to be heeded.
	job     bool
	claimed bool
}

// CheckpointNumber is the N of a directory whose name is chk-N; false for other names.
func CheckpointNumber(name string) (int64, bool) {
	digits, ok := strings.CutPrefix(name, "chk-")
	if !ok || digits == "" || digits[0] < '0' || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// scan reads the metadata in the directories of a job's directory.
func (c *Checkpoints) scan(ctx context.Context, job string) ([]*found, error) {
	var dirs []string
	for info, err := range c.fs.ReadDir(ctx, job) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		if name := storage.Base(info.URI); info.Dir && name != sharedName && name != taskOwnedName {
			dirs = append(dirs, storage.Join(job, name))
		}
	}
	slices.Sort(dirs)
	var list []*found
	for _, dir := range dirs {
		n, checkpoint := CheckpointNumber(storage.Base(dir))
		own := job == c.dir && checkpoint
		if own {
			c.used[n] = true
			c.highest = max(c.highest, n)
		}
		f, err := c.read(ctx, storage.Join(dir, metadata.FileName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f.job = own && n == f.snapshot.CheckpointID // or it is a copy that somebody made
		list = append(list, f)
	}
	return list, nil
}

// scanClaimed reads what is left of a claimed snapshot, and what may share files with it.
func (c *Checkpoints) scanClaimed(ctx context.Context, uri string) ([]*found, error) {
	dir := uri
	f, err := c.read(ctx, storage.Join(uri, metadata.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		if storage.Base(uri) == metadata.FileName {
			dir = storage.Dir(uri)
		}
		f, err = c.read(ctx, uri)
	}
	var list []*found
	switch {
	case err == nil:
		f.job, f.claimed = true, true
		list, dir = append(list, f), f.dir
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, storage.ErrIsDir):
		return nil, err
	}
	c.claimed = append(c.claimed, uri)
	beside, err := c.beside(ctx, dir)
	if err != nil {
		return nil, err
	}
	c.own(beside.job, dir)
	return append(list, beside.found...), nil
}

// neighbours are the snapshots beside another.
type neighbours struct {
	job   string // directory, "" if the snapshot is not a checkpoint in one, or it is this job's
	found []*found
}

// beside finds what may share files with a snapshot that is claimed: the other checkpoints in its job's directory.
func (c *Checkpoints) beside(ctx context.Context, dir string) (neighbours, error) {
	if _, ok := CheckpointNumber(storage.Base(dir)); !ok {
		return neighbours{}, nil
	}
	job := storage.Dir(dir)
	if storage.Key(job) == storage.Key(c.dir) {
		return neighbours{}, nil
	}
	list, err := c.scan(ctx, job)
	return neighbours{job, list}, err
}

// own notes which directories belong to the job: those of a job's directory, and that of a snapshot.
func (c *Checkpoints) own(job, dir string) {
	if job != "" {
		c.owned = append(c.owned, c.registry.Key(storage.Join(job, sharedName)), c.registry.Key(storage.Join(job, taskOwnedName)))
	}
	if dir != "" {
		c.owned = append(c.owned, c.registry.Key(dir))
	}
}

// owns says that a file belongs to the job.
func (c *Checkpoints) owns(key string) bool {
	for _, dir := range c.owned {
		if rest, ok := strings.CutPrefix(key, dir); ok && rest != "" && rest[0] == '/' {
			return true
		}
	}
	if rest, ok := storage.Rel(c.dir, key); ok {
		first, _, below := strings.Cut(rest, "/")
		_, checkpoint := CheckpointNumber(first)
		return below && checkpoint
	}
	return false
}

// read reads a metadata file.
func (c *Checkpoints) read(ctx context.Context, uri string) (*found, error) {
	info, err := c.fs.Stat(ctx, uri)
	if err != nil {
		return nil, err
	}
	data, err := storage.ReadAll(ctx, c.fs, uri, maxMetadata)
	if err != nil {
		return nil, err
	}
	s, err := metadata.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s can't be read, so that it is not known which files it uses; move it away with its directory if it is of no use: %w", uri, err)
	}
	return &found{uri: uri, dir: storage.Dir(uri), written: info.ModTime, size: int64(len(data)), snapshot: s}, nil
}

// take puts what was found into the registry.
func (c *Checkpoints) take(f *found) error {
	if f.job {
		if f.snapshot.CheckpointID > maxID {
			return fmt.Errorf("%s: %w: none is above %d", f.uri, ErrID, f.snapshot.CheckpointID)
		}
		c.highest = max(c.highest, f.snapshot.CheckpointID)
		c.floor = max(c.floor, f.snapshot.CheckpointID)
	}
	if known, ok := c.registry.FindSnapshot(f.uri); ok {
		if f.job && c.others[known.ID] {
			delete(c.others, known.ID)
			c.keep(f, known.ID)
		}
		return nil
	}
	id, err := c.registry.Add(f.uri, f.snapshot)
	if err != nil {
		return err
	}
	if f.job {
		c.keep(f, id)
	} else {
		c.others[id] = true
	}
	return nil
}

// keep makes a snapshot one of the retained checkpoints.
func (c *Checkpoints) keep(f *found, id SnapshotID) {
	c.retained = append(c.retained, &retained{Completed: c.describe(f, id), snapshot: id, whole: f.claimed && unshared(f.snapshot)})
}

func (c *Checkpoints) describe(f *found, id SnapshotID) Completed {
	d := Completed{ID: f.snapshot.CheckpointID, URI: f.uri, Dir: f.dir, Time: f.written, CheckpointedSize: -1}
	d.FullSize, d.Files = c.registry.size(id)
	d.FullSize = sum(d.FullSize, f.size)
	return d
}

// unshared says that no checkpoint was meant to use the files of a snapshot, as of a savepoint: they are in its own directory.
func unshared(s *metadata.Snapshot) bool {
	if s.Properties.Info().Kind.Savepoint() {
		return true
	}
	for ref := range s.Refs() {
		if ref.Part == metadata.PartShared && ref.Kind == metadata.RefRelative {
			return true
		}
	}
	return false
}
