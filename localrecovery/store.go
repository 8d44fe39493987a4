package localrecovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/drey-state/drey/storage"
)

// ErrInUse says that another store, of this process or another, has a root directory.
var ErrInUse = errors.New("another store uses this directory; give each its own")

// Options are the options of [Open].
type Options struct {
	// Roots are the directories of this machine in which copies are kept, in rotation by checkpoint
	// (taskmanager.state.local.root-dirs): absolute paths, or URIs of the scheme file. A path is local whatever the
	// default scheme is. They are made if need be, and are for one store at a time. One that is on the file system of the
	// backends' working directories gets hard links instead of copies.
	Roots []string

	// Memory, if not 0, keeps copies in memory instead, and no more than so many bytes of them. What
	// doesn't fit is left out. They are gone when the process ends.
	Memory int64

	// Checksums has every file of a copy compared with its checksum before it is used, which reads it once more, and
	// a checksum made of each file that has none yet: one that was hard-linked and not written through [Copy.FS].
	// Without it a file is used if it has the right size. If the machine was started since it was
	// written, it is compared in any case, and not used if it has no checksum.
	Checksums bool

	// Logger gets what goes wrong with copies, as nothing else tells it; nil means none.
	Logger *slog.Logger

	fault func(op, name string) error // see root
}

// Store has the local copies of the tasks of one machine or process (TaskExecutorLocalStateStoresManager).
// All methods may be called concurrently.
type Store struct {
	o     Options
	log   *slog.Logger
	roots []*root // empty where copies are in memory
	boot  string

	mu     sync.Mutex
	tasks  map[TaskID]*Task
	told   map[string]bool // what was logged once
	memory int64           // bytes of copies in memory
	closed bool
}

// TaskID says whose state a copy is.
type TaskID struct {
	// Allocation is the id of the slot that the task runs in; it may be empty.
	Allocation string
	// Job and Vertex are the ids of the job and of the task in its graph. Ids have letters, digits and hyphens.
	Job, Vertex string
	// Subtask is the index of the subtask.
	Subtask int
}

// String gives the directory of the task's copies below a root.
func (id TaskID) String() string { return id.dir() }

func (id TaskID) check() error {
	if id.Allocation != "" && !validID(id.Allocation) || !validID(id.Job) || !validID(id.Vertex) || id.Subtask < 0 {
		return fmt.Errorf("task %q: %w: ids are 1 to %d letters, digits and hyphens, the subtask is not negative", id, fs.ErrInvalid, idMax)
	}
	return nil
}

func (id TaskID) compare(o TaskID) int {
	return strings.Compare(id.dir(), o.dir())
}

// Open opens the store of these root directories, with the copies that are in them. What a dead process left
// unfinished there is removed. A root that can't be made or listed is an error, as is one that another store has (ErrInUse); one
// that can't be written is not.
func Open(o Options) (*Store, error) {
	if (len(o.Roots) == 0) == (o.Memory == 0) || o.Memory < 0 {
		return nil, fmt.Errorf("%w: local recovery needs either root directories or a positive limit of memory", fs.ErrInvalid)
	}
	s := &Store{o: o, log: o.Logger, boot: bootID(), tasks: map[TaskID]*Task{}, told: map[string]bool{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, name := range o.Roots {
		r, err := openRoot(name)
		if err == nil {
			r.fault = o.fault
			s.roots = append(s.roots, r)
			err = s.distinct(r)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("root directory %s: %w", name, err), s.Close())
		}
	}
	for _, r := range s.roots {
		if err := s.scan(r); err != nil {
			return nil, errors.Join(fmt.Errorf("root directory %s: %w", r.dir, err), s.Close())
		}
	}
	return s, nil
}

// distinct refuses a root that lies in another one.
func (s *Store) distinct(r *root) error {
	for _, o := range s.roots {
		rel, err := filepath.Rel(o.dir, r.dir)
		back, berr := filepath.Rel(r.dir, o.dir)
		if o != r && (err == nil && filepath.IsLocal(rel) || berr == nil && filepath.IsLocal(back)) {
			return fmt.Errorf("%w: it lies in the root %s, or that in it", fs.ErrInvalid, o.dir)
		}
	}
	return nil
}

// scan takes up the complete copies that are in a root and removes the others.
func (s *Store) scan(r *root) error {
	top, err := r.entries(".")
	if err != nil {
		return err
	}
	for _, e := range top {
		if allocation, ok := parseID(e.Name(), allocationPrefix); ok && e.IsDir() {
			for _, e := range s.list(r, e.Name()) {
				s.scanJob(r, TaskID{Allocation: allocation}, path.Join(allocationPrefix+allocation, e.Name()))
			}
			r.prune(e.Name())
			continue
		}
		s.scanJob(r, TaskID{}, e.Name())
	}
	return nil
}

// list gives the directories in one.
func (s *Store) list(r *root, dir string) []fs.DirEntry {
	entries, err := r.entries(dir)
	if err != nil {
		s.log.Warn("local recovery: a directory can't be listed; what is in it stays", "directory", r.path(dir), "error", err)
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() })
}

func (s *Store) scanJob(r *root, id TaskID, dir string) {
	var ok bool
	if id.Job, ok = parseID(path.Base(dir), jobPrefix); !ok {
		return
	}
	fi, err := r.r.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return
	}
	for _, e := range s.list(r, dir) {
		if id.Vertex, id.Subtask, ok = parseSubtask(e.Name()); !ok {
			continue
		}
		for _, e := range s.list(r, id.dir()) {
			number, found := strings.CutPrefix(e.Name(), checkpointPrefix)
			if n, ok := parseNumber(number, 64); found && ok {
				s.scanCopy(r, id, n)
			}
		}
		r.prune(id.dir())
	}
	r.prune(dir)
}

// scanCopy takes up a copy if it is complete, and removes what doesn't belong to it.
func (s *Store) scanCopy(r *root, id TaskID, checkpoint int64) {
	t := s.taskLocked(id) // nobody else has the store yet
	c := newCopy(t, checkpoint)
	c.root = r
	entries, err := r.entries(c.dir)
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !ownFile(e) }) {
		s.log.Warn("local recovery: a directory holds what no local copy has; it stays as it is", "directory", r.path(c.dir), "error", err)
		return
	}
	x, err := readIndex(r, c.dir)
	if err == nil && t.copies[checkpoint] != nil {
		err = fmt.Errorf("%w: there is one in another root, too", fs.ErrExist)
	}
	if err != nil {
		s.log.Info("local recovery: what is not a complete copy is removed", "directory", r.path(c.dir), "error", err)
		c.made = true
		c.drop()
		return
	}
	c.state, c.made, c.old, c.boot = sealed, true, true, x.boot
	names := map[string]bool{indexName: true}
	for _, f := range x.files {
		c.files[storage.Key(f.uri)] = f
		names[f.name] = true
	}
	if err := r.removeFiles(c.dir, func(name string) bool { return !names[name] }); err != nil {
		s.log.Warn("local recovery: leftovers can't be removed", "directory", r.path(c.dir), "error", err)
	}
	t.copies[checkpoint] = c
}

func readIndex(r *root, dir string) (*index, error) {
	name := path.Join(dir, indexName)
	fi, err := r.r.Lstat(name)
	if err != nil {
		return nil, err
	}
	if fi.Size() > indexLimit {
		return nil, fmt.Errorf("%w: an index of %d bytes", errDamaged, fi.Size())
	}
	f, err := r.open(name, fi.Size())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, indexLimit))
	if err != nil {
		return nil, err
	}
	return decodeIndex(data)
}

// Close ends the store. Complete copies stay on disk for the next one; what tasks still write goes to
// their primary store only.
func (s *Store) Close() error {
	s.mu.Lock()
	tasks := s.tasks
	s.tasks, s.closed = map[TaskID]*Task{}, true
	s.mu.Unlock()
	for _, t := range tasks {
		t.end(len(s.roots) > 0)
	}
	var errs []error
	for _, r := range s.roots {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// Task gives the copies of a task; the same ones each time. After Close it is an error that unwraps to
// [fs.ErrClosed].
func (s *Store) Task(id TaskID) (*Task, error) {
	if err := id.check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("task %s: the store of local copies: %w", id, fs.ErrClosed)
	}
	return s.taskLocked(id), nil
}

func (s *Store) taskLocked(id TaskID) *Task {
	t := s.tasks[id]
	if t == nil {
		t = &Task{s: s, id: id, copies: map[int64]*Copy{}, confirmed: -1}
		s.tasks[id] = t
	}
	return t
}

// Tasks lists the tasks of which there is a complete copy, in a fixed order: after a restart, which state each
// slot of this machine has (see [Assign]).
func (s *Store) Tasks() []TaskID {
	var ids []TaskID
	for _, t := range s.all() {
		if len(t.Checkpoints()) > 0 {
			ids = append(ids, t.id)
		}
	}
	return ids
}

func (s *Store) all() []*Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Task
	for _, t := range s.tasks {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Task) int { return a.id.compare(b.id) })
	return list
}

// Clean removes the copies of all tasks for which live says false: of jobs that have ended, slots that were
// released, subtasks that run elsewhere now (retainLocalStateForAllocations). Such a task keeps nothing more; ask
// for it again if it comes back.
func (s *Store) Clean(live func(TaskID) bool) {
	for _, t := range s.all() {
		if live(t.id) {
			continue
		}
		t.end(false)
		s.mu.Lock()
		if s.tasks[t.id] == t {
			delete(s.tasks, t.id)
		}
		s.mu.Unlock()
	}
}

// once says whether it is the first time that this is to be logged.
func (s *Store) once(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.told[what]
	s.told[what] = true
	return first
}

// reserve takes n bytes of the memory for copies, or says false.
func (s *Store) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.o.Memory-s.memory {
		return false
	}
	s.memory += n
	return true
}

func (s *Store) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory -= n
}

// rootFor gives the root of a checkpoint, as LocalRecoveryDirectoryProviderImpl chooses it; nil in memory.
func (s *Store) rootFor(checkpoint int64) *root {
	if len(s.roots) == 0 {
		return nil
	}
	return s.roots[int(uint32(checkpoint)&(1<<31-1))%len(s.roots)]
}

// Task has the local copies of one subtask (TaskLocalStateStoreImpl). All methods may be called
// concurrently; those that remove copies return when these are gone.
type Task struct {
	s  *Store
	id TaskID

	mu        sync.Mutex // taken before that of a Copy, and while one is removed
	copies    map[int64]*Copy
	confirmed int64
	ended     bool
}

// ID says whose copies they are.
func (t *Task) ID() TaskID { return t.id }

// Checkpoints lists the checkpoints of which there is a complete copy, in ascending order.
func (t *Task) Checkpoints() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []int64
	for id, c := range t.copies {
		if c.is(sealed) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Begin begins the copy of a checkpoint that the task takes part in; several may be under way. It never fails: a copy that is not wanted
// any more, as a later checkpoint was confirmed, keeps nothing. Another copy of the same checkpoint goes.
func (t *Task) Begin(checkpoint int64) *Copy {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := newCopy(t, checkpoint)
	if t.ended || checkpoint < 0 || checkpoint <= t.confirmed {
		c.state = dropped
		t.s.log.Info("local recovery: no copy is kept of a checkpoint that is not expected", "task", t.id, "checkpoint", checkpoint, "confirmed", t.confirmed)
		return c
	}
	t.remove(func(id int64) bool { return id == checkpoint })
	t.copies[checkpoint] = c
	return c
}

// Confirm says that a checkpoint was completed by all tasks: the copies of earlier ones go, finished or not, also if there is none of
// this one (confirmCheckpoint). A confirmation that comes after that of a later checkpoint does nothing. It is not for the number of a
// savepoint, from which no failure goes on: the copies of the checkpoint before it would go, and there are none in their place.
func (t *Task) Confirm(checkpoint int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.confirmed = max(t.confirmed, checkpoint)
	t.remove(func(id int64) bool { return id < t.confirmed })
}

// Discard says that a checkpoint was aborted: its copy goes, also if it is being written (abortCheckpoint). That of
// the last checkpoint that was confirmed stays.
func (t *Task) Discard(checkpoint int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(func(id int64) bool { return id == checkpoint && id != t.confirmed })
}

// remove removes copies. t.mu is held.
func (t *Task) remove(which func(checkpoint int64) bool) {
	for id, c := range t.copies {
		if which(id) {
			delete(t.copies, id)
			c.drop()
		}
	}
}

// end removes the task's copies, or only those that are not complete, and keeps nothing more.
func (t *Task) end(keepSealed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.remove(func(id int64) bool { return !keepSealed || !t.copies[id].is(sealed) })
}

// Restore gives a store that reads the objects of a checkpoint from local copies where it can, and from primary
// where it can't (retrieveLocalState). The copies of all other checkpoints of this task go. The copies that other subtasks of the same
// job and vertex have of this checkpoint are read, too, so that a task finds what is
// local after a change of the parallelism; [Store.Clean] removes those that are not needed any more once all tasks are restored.
func (t *Task) Restore(ctx context.Context, checkpoint int64, primary storage.FS) *Restored {
	t.mu.Lock()
	t.remove(func(id int64) bool { return id != checkpoint || !t.copies[id].is(sealed) })
	t.confirmed = checkpoint
	t.mu.Unlock()

	r := &Restored{forwarding: forwarding{primary}, s: t.s, verdicts: map[verdictKey]error{}}
	r.add(t, checkpoint)
	for _, o := range t.s.all() {
		if o != t && o.id.Job == t.id.Job && o.id.Vertex == t.id.Vertex {
			r.add(o, checkpoint)
		}
	}
	return r
}
