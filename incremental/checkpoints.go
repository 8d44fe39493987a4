package incremental

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// Errors of [Checkpoints] and [Pending].
var (
	// ErrID says that a number can't be that of a new checkpoint; [Checkpoints.NextID] can.
	ErrID = errors.New("not a number for a new checkpoint")
	// ErrLost says that a snapshot names a file that is not there for it: nobody uploaded it, or it was deleted as nobody used it.
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

const (
	sharedName    = "shared"
	taskOwnedName = "taskowned"
	// maxMetadata is the largest metadata file that is read, in bytes; Flink can't hold a larger one.
	maxMetadata = math.MaxInt32
)

// CheckpointsOptions are the options of [OpenCheckpoints]; FS and Dir are required.
type CheckpointsOptions struct {
	// FS is where the checkpoints are.
	FS storage.FS
	// Dir is the job's directory, which holds chk-N, shared and taskowned.
	Dir string
	// Retain is how many completed checkpoints are kept; 0 means 1.
	Retain int
	// RebaseEvery has every so-manieth checkpoint share nothing with older ones; 0 means never. See [Checkpoints.NextFull].
	RebaseEvery int
	// Claimed are the snapshots that were restored with [Claim] before, as [Checkpoints.Claimed] gave them.
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
	since  int // checkpoints since the last one without sharing

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
		others: map[SnapshotID]bool{}, pending: map[int64]*Pending{}, used: map[int64]bool{},
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

// checkpointNumber is the N of a directory chk-N.
func checkpointNumber(name string) (int64, bool) {
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
		n, checkpoint := checkpointNumber(storage.Base(dir))
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
	if _, ok := checkpointNumber(storage.Base(dir)); !ok {
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
		_, checkpoint := checkpointNumber(first)
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
	d.FullSize += f.size
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

// Restore reads the snapshot that a job goes on from, and says whose it is from now on. uri is that of its directory or metadata
// file. A checkpoint of the job itself stays its own, whatever the mode. Pending checkpoints and savepoints are
// aborted. Numbers of new checkpoints must be above that of the snapshot. After an error nothing has changed.
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
	switch mode {
	case Claim:
		c.own(beside.job, f.dir)
		c.claimed = append(c.claimed, f.uri)
	case NoClaim:
		c.rebase = c.clock
	}
	return nil
}

// Claimed gives the snapshots that were claimed, whether they are there still or not. They must be
// named in [CheckpointsOptions.Claimed] when the job's checkpoints are opened again, or else their files are never deleted.
func (c *Checkpoints) Claimed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.claimed)
}

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

// NextID is a number for a new checkpoint or savepoint, above all that are known.
func (c *Checkpoints) NextID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.highest + 1
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
	return c.nextFull()
}

func (c *Checkpoints) nextFull() bool {
	return c.rebase > 0 || c.o.RebaseEvery > 0 && c.since+1 >= c.o.RebaseEvery
}

// Begin begins a checkpoint. The error unwraps to [ErrID] if the number was used before, also by a savepoint or
// a checkpoint that was aborted, or is not above those of completed checkpoints and of what was restored.
func (c *Checkpoints) Begin(id int64) (*Pending, error) {
	return c.start(id, &Pending{dir: storage.Join(c.dir, "chk-"+strconv.FormatInt(id, 10)), shared: storage.Join(c.dir, sharedName)})
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

func (c *Checkpoints) start(id int64, p *Pending) (*Pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, fmt.Errorf("begin checkpoint %d: %w", id, ErrClosed)
	case id < 1 || id <= c.floor || c.used[id]:
		return nil, fmt.Errorf("begin checkpoint %d: %w, which must not have been used and be above %d", id, ErrID, c.floor)
	}
	c.used[id] = true
	c.highest = max(c.highest, id)
	c.clock++
	p.c, p.id, p.began = c, id, c.clock
	p.full = p.savepoint || c.nextFull()
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
		c.garbage[f.uri] = true
	}
	c.dirs[p.dir] = true
}

// complete makes a pending checkpoint that has ended a completed one. The turn is held.
func (c *Checkpoints) complete(ctx context.Context, p *Pending, files map[string]*written, s *metadata.Snapshot) (Completed, error) {
	v, err := c.validate(p, files, s)
	if err != nil {
		return Completed{}, c.failed(p, files, err)
	}
	uri := storage.Join(p.dir, metadata.FileName)
	registry := c.registry
	if p.savepoint {
		registry = NewRegistry(Options{})
	}
	id, err := registry.Add(uri, v.snapshot)
	if err != nil {
		return Completed{}, c.failed(p, files, err)
	}
	size, count := registry.size(id)
	if err := c.writeMetadata(ctx, uri, v.data); err != nil {
		return Completed{}, c.unwritten(p, files, v, uri, id, err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	d := Completed{
		ID: p.id, URI: uri, Dir: p.dir, Time: time.Now(), Full: !v.shares, CheckpointedSize: v.written + int64(len(v.data)),
		FullSize: size + int64(len(v.data)), Files: count,
	}
	delete(c.pending, p.id)
	for key, f := range files {
		if !v.named[key] {
			c.garbage[f.uri] = true // a part of the job wrote it in vain
		}
	}
	if p.savepoint {
		return d, nil
	}
	c.registered(p, &retained{Completed: d, snapshot: id}, v.shares)
	return d, nil
}

// registered notes a checkpoint that completed, and what that is the end of. c.mu is held.
func (c *Checkpoints) registered(p *Pending, r *retained, shares bool) {
	c.retained = append(c.retained, r)
	c.latest, c.floor = &r.Completed, r.ID
	for n := range c.used {
		if n <= c.floor {
			delete(c.used, n)
		}
	}
	for _, older := range c.pending {
		if older.id < p.id {
			if older.savepoint {
				continue
			}
			c.drop(older, ErrSubsumed)
		}
	}
	if c.since++; !shares {
		c.since = 0
		if c.rebase < p.began {
			c.rebase = 0
		}
	}
	c.clock++
	for len(c.retained) > c.o.Retain {
		c.doom(&doomed{snapshot: c.retained[0].snapshot, registered: true, uri: c.retained[0].URI, dir: c.retained[0].Dir, whole: c.retained[0].whole, at: c.clock})
		c.retained = c.retained[1:]
	}
}

// failed marks the files of a checkpoint that can't complete for deletion, and gives err with its number.
func (c *Checkpoints) failed(p *Pending, files map[string]*written, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(p, files)
	return err
}

// unwritten is failed for a checkpoint whose metadata may be there though it could not be written. As long as that
// is not sure, it counts as a checkpoint, so that it has all its files if a later process finds it.
func (c *Checkpoints) unwritten(p *Pending, files map[string]*written, v *validated, uri string, id SnapshotID, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, fs.ErrExist) {
		if !p.savepoint {
			c.registry.Release(id) // whose files are those of p, or of others
		}
		c.forget(p, files)
		return fmt.Errorf("another process uses the same directory: %w", err)
	}
	d := &doomed{snapshot: id, registered: !p.savepoint, uri: uri, dir: p.dir, at: c.clock}
	for key, f := range files {
		if v.named[key] {
			d.files = append(d.files, f.uri)
			delete(files, key)
		}
	}
	c.forget(p, files)
	c.doom(d)
	return err
}

// writeMetadata writes a metadata file. One with the same content that is there already is the one that was to be written, by
// an attempt whose answer was lost.
func (c *Checkpoints) writeMetadata(ctx context.Context, uri string, data []byte) error {
	err := storage.WriteFile(ctx, c.fs, uri, data, storage.CreateOptions{})
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if there, rerr := storage.ReadAll(ctx, c.fs, uri, int64(len(data))); rerr == nil && bytes.Equal(there, data) {
		return nil
	}
	return err
}

// validated is a snapshot that may be written.
type validated struct {
	snapshot *metadata.Snapshot
	data     []byte
	named    map[string]bool // files that were written for it, by key
	written  int64           // their bytes
	shares   bool
}

// validate checks that a snapshot has all the files that it names, and that they will stay.
func (c *Checkpoints) validate(p *Pending, files map[string]*written, s *metadata.Snapshot) (*validated, error) {
	if s.CheckpointID != p.id {
		return nil, fmt.Errorf("the snapshot is that of checkpoint %d", s.CheckpointID)
	}
	if s.Version >= metadata.Version4 && len(s.Properties) == 0 && !p.savepoint {
		with := *s
		with.Properties = metadata.PropertiesOf(metadata.KindCheckpoint)
		s = &with
	}
	if kind := s.Properties.Info().Kind; kind != metadata.KindUnknown && kind.Savepoint() != p.savepoint {
		return nil, fmt.Errorf("the snapshot's properties are those of a %s", kind)
	}
	v := &validated{snapshot: s, named: map[string]bool{}}
	taskOwned := c.registry.Key(storage.Join(c.dir, taskOwnedName))
	for ref := range s.Refs() {
		if ref.Kind == metadata.RefDirectory {
			continue
		}
		uri := ref.Path
		if ref.Kind == metadata.RefRelative {
			uri = storage.Join(p.dir, uri)
		}
		key := c.registry.Key(uri)
		if f := files[key]; f != nil && f.committed {
			if f.size >= 0 && !fits(ref, f.size) {
				return nil, fmt.Errorf("%s: %s has %d bytes, not %d", ref.Field(), uri, f.size, ref.Start+ref.Size)
			}
			if !v.named[key] {
				v.named[key] = true
				v.written += max(f.size, 0)
			}
			continue
		}
		v.shares = true
		if p.full {
			return nil, fmt.Errorf("%s: %s was not written for it, and it may share nothing", ref.Field(), uri)
		}
		if _, ok := storage.Rel(taskOwned, key); ok {
			continue // a task owns it, and keeps it as long as it wants
		}
		if !c.keeps(p, key) {
			return nil, fmt.Errorf("%s: %s: %w", ref.Field(), uri, ErrLost)
		}
	}
	var err error
	v.data, err = metadata.Encode(s)
	return v, err
}
