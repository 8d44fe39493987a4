package incremental

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// ErrKnown is what the error of Add unwraps to if the snapshot is in the registry already.
var ErrKnown = errors.New("in the registry already")

// FileID is the number of a file or directory in a [Registry]. The numbers
// are dense: they are below [Registry.Limit], so that a caller can keep what it
// knows of files in slices. The number of a file that nobody uses any more is given to another.
type FileID uint32

// DirID is the number of a directory in which files of a [Registry] lie, below [Registry.DirLimit].
type DirID uint32

// SnapshotID is the number of a snapshot in a [Registry]. It is never given to another.
type SnapshotID uint32

// Alias says that the places at and below From are those at and below To, as
// of a store that has two names, or a tree that was moved.
type Alias struct{ From, To string }

// Options are the options of [NewRegistry]; the zero value is the default.
type Options struct {
	// Aliases apply after those that [storage.Key] knows: s3a, s3n and s3p for
	// s3, a path without a scheme for a file, default ports. The longest From wins; a result is not mapped again.
	Aliases []Alias
}

// Registry knows for a set of snapshots which files each of them uses. Every
// place that names a file counts as a use of the whole physical file: segments of
// file merging, streams of a changelog at any offset, and files beside _metadata. State held
// inline is no file. The metadata file is one of the snapshot's files. The directories of
// file merging, which Flink deletes with all they hold, are used as directories.
//
// It takes about 70 bytes for a file whose name is a UUID, and 4 for each use of one. All methods may be called concurrently.
type Registry struct {
	aliases []Alias // in canonical spelling, longest From first

	mu        sync.RWMutex
	dirs      *names // directories of files, by their full paths; their uses are the files in them
	files     *names // by directory; their uses are snapshots
	facts     []fact // of files
	snapshots map[SnapshotID]*member
	byURI     map[string]SnapshotID
	next      SnapshotID
}

// fact is what is known of a file.
type fact struct {
	need  int64
	flags flags
}

type flags uint8

const (
	flagExact flags = 1 << iota
	flagDirectory
	flagMetadata
)

// member is a snapshot.
type member struct {
	Snapshot
	files []FileID // sorted
}

// Snapshot describes a snapshot of a registry.
type Snapshot struct {
	ID SnapshotID
	// URI is that of the metadata file as Add was given it.
	URI          string
	CheckpointID int64
	// Files is the number of distinct files that it uses, its metadata and directories included.
	Files int
}

// File describes a file or directory of a registry.
type File struct {
	ID FileID
	// URI is in canonical spelling; see [Registry.Key].
	URI string
	// Need is the size in bytes that the metadata demands, the largest if snapshots disagree; -1 if
	// they demand none. Exact says that it is the size of the whole file, and
	// not how far its segments reach.
	Need  int64
	Exact bool
	// Directory says that it is a directory of file merging.
	Directory bool
	// Metadata says that it is the metadata file of a snapshot.
	Metadata bool
	// Uses is the number of snapshots that use it.
	Uses int
}

// NewRegistry makes an empty registry.
func NewRegistry(o Options) *Registry {
	r := &Registry{dirs: newNames(), files: newNames(), snapshots: map[SnapshotID]*member{}, byURI: map[string]SnapshotID{}}
	for _, a := range o.Aliases {
		r.aliases = append(r.aliases, Alias{storage.Key(a.From), storage.Key(a.To)})
	}
	slices.SortStableFunc(r.aliases, func(a, b Alias) int { return len(b.From) - len(a.From) })
	return r
}

// Key is the spelling in which the registry compares URIs: that of
// [storage.Key], with aliases resolved.
func (r *Registry) Key(uri string) string {
	key := storage.Key(uri)
	for _, a := range r.aliases {
		if rest, ok := strings.CutPrefix(key, a.From); ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(a.From, "/")) {
			if rest == "" {
				return a.To
			}
			return strings.TrimSuffix(a.To, "/") + "/" + strings.TrimPrefix(rest, "/")
		}
	}
	return key
}

// split cuts a key into directory and last segment.
func split(key string) (dir, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(i, 0)], key[i+1:]
}

// keys gives the keys of URIs, taken apart, and does so quickly where one is in the same directory as the one before.
type keys struct {
	r   *Registry
	raw string // directory of the last URI, as it was spelled; "" if another file of it may have a key in another one
	dir string // its key
}

// split gives directory and last segment of a key.
func (k *keys) split(uri string) (dir, name string) {
	i := strings.LastIndexByte(uri, '/') + 1
	_, uuid := pack(uri[i:]) // which no spelling changes
	if uuid && uri[:i] == k.raw && i > 0 {
		return k.dir, uri[i:]
	}
	dir, name = split(k.r.Key(uri))
	k.raw, k.dir = "", dir
	if uuid && name == uri[i:] && len(k.r.aliases) == 0 {
		k.raw = uri[:i]
	}
	return dir, name
}

// join is the inverse of split; a key never begins with a slash.
func join(dir, name []byte) string {
	if len(dir) == 0 {
		return string(name)
	}
	return string(dir) + "/" + string(name)
}

// Add takes up the snapshot whose metadata file is uri; it keeps nothing of s. The
// error unwraps to [ErrKnown] if a snapshot of this URI is there, and nothing changes then.
func (r *Registry) Add(uri string, s *metadata.Snapshot) (SnapshotID, error) {
	key := r.Key(uri)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byURI[key]; ok {
		return 0, fmt.Errorf("%s: %w", uri, ErrKnown)
	}
	if r.next == math.MaxUint32 {
		return 0, fmt.Errorf("%s: no number is left for it", uri)
	}
	files := r.collect(key, s)
	for _, f := range files {
		r.files.entries[f].uses++
	}
	id := r.next
	r.next++
	r.snapshots[id] = &member{Snapshot{id, uri, s.CheckpointID, len(files)}, files}
	r.byURI[key] = id
	return id, nil
}

// collect gives the distinct files of a snapshot, sorted.
func (r *Registry) collect(key string, s *metadata.Snapshot) []FileID {
	base, name := split(key)
	c := collector{r: r, keys: keys{r: r}}
	files := []FileID{c.intern(base, name, -1, flagMetadata)}
	for ref := range s.Refs() {
		need, f := ref.Size, flagExact
		switch {
		case ref.Kind == metadata.RefDirectory:
			need, f = -1, flagDirectory
		case ref.Part == metadata.PartChange || ref.Size < 0:
			need, f = -1, 0
		case ref.Kind == metadata.RefSegment:
			if need, f = ref.Start+ref.Size, 0; need < ref.Size {
				need = math.MaxInt64 // no file is as large
			}
		}
		var dir, name string
		if ref.Kind == metadata.RefRelative {
			dir, name = split(storage.Key(storage.Join(base, ref.Path)))
		} else {
			dir, name = c.keys.split(ref.Path)
		}
		if id := c.intern(dir, name, need, f); id != files[len(files)-1] {
			files = append(files, id)
		}
	}
	slices.Sort(files)
	return slices.Clip(slices.Compact(files))
}

// collector collects the files of one snapshot.
type collector struct {
	r    *Registry
	keys keys
	last bool   // there was a file, of which are
	dir  string // the directory,
	d    uint32 // its number
	id   uint32 // and that of the file
}

// intern gives the number of a file, and notes what is said of it.
func (c *collector) intern(dir, name string, need int64, f flags) FileID {
	r := c.r
	if !c.last || dir != c.dir {
		c.last, c.dir = true, dir
		c.d, _ = r.dirs.intern(0, dir, 0)
	}
	id, added := r.files.intern(c.d, name, c.id+1)
	c.id = id
	if added {
		r.dirs.entries[c.d].uses++
		if int(id) == len(r.facts) {
			r.facts = append(r.facts, fact{need: -1})
		} else {
			r.facts[id] = fact{need: -1}
		}
	}
	fact := &r.facts[id]
	fact.need = max(fact.need, need)
	fact.flags |= f
	return FileID(id)
}

// Release takes a snapshot out and gives the files that no snapshot uses any
// more, by number. It is the caller who deletes them: the one with Metadata set first, so that an
// interruption leaves no snapshot that looks complete, and directories last. An unknown snapshot gives none.
func (r *Registry) Release(id SnapshotID) []File {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.snapshots[id]
	if s == nil {
		return nil
	}
	delete(r.snapshots, id)
	delete(r.byURI, r.Key(s.URI))
	var unused []File
	for _, f := range s.files {
		e := &r.files.entries[f]
		e.uses--
		if e.uses > 0 {
			continue
		}
		unused = append(unused, r.file(f))
		d := e.parent
		r.files.remove(uint32(f))
		if r.dirs.entries[d].uses--; r.dirs.entries[d].uses == 0 {
			r.dirs.remove(d)
		}
	}
	return unused
}

// file describes a file. r.mu is held.
func (r *Registry) file(id FileID) File {
	e, f := &r.files.entries[id], r.facts[id]
	return File{
		ID: id, URI: join(r.dirs.name(e.parent), r.files.name(uint32(id))), Need: f.need, Uses: int(e.uses),
		Exact: f.flags&flagExact != 0, Directory: f.flags&flagDirectory != 0, Metadata: f.flags&flagMetadata != 0,
	}
}

// Limit is above the number of every file.
func (r *Registry) Limit() FileID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return FileID(len(r.files.entries))
}

// Find gives the number of a file or directory that a snapshot uses.
func (r *Registry) Find(uri string) (FileID, bool) {
	return r.Finder().Find(uri)
}

// Finder is Registry.Find for many files, faster where they come by directory. It is for one goroutine.
type Finder struct{ keys keys }

// Finder gives a new one, which sees all that the registry has at each call.
func (r *Registry) Finder() *Finder { return &Finder{keys{r: r}} }

// Find is [Registry.Find].
func (f *Finder) Find(uri string) (FileID, bool) {
	r := f.keys.r
	dir, name := f.keys.split(uri)
	r.mu.RLock()
	defer r.mu.RUnlock()
	d, ok := r.dirs.find(0, dir)
	if !ok {
		return 0, false
	}
	id, ok := r.files.find(d, name)
	return FileID(id), ok
}

// Named gives the files and directories of a name in whatever directory, in the order of their numbers. The
// name must be a UUID in lower case, which Flink makes up at random: two such files are one file under two names, or
// copies. Others give none. It takes 4 bytes for each file, and the first call after a change as long as sorting them.
func (r *Registry) Named(name string) []FileID {
	bits, ok := pack(name)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var files []FileID
	for _, id := range r.files.named(bits) {
		files = append(files, FileID(id))
	}
	slices.Sort(files)
	return files
}

// File describes a file; the zero value if nobody uses it.
func (r *Registry) File(id FileID) File {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if int(id) >= len(r.files.entries) || !r.files.entries[id].live {
		return File{}
	}
	return r.file(id)
}

// Dir gives the number of the directory that a file lies in, for a file of the registry.
func (r *Registry) Dir(id FileID) DirID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return DirID(r.files.entries[id].parent)
}

// DirLimit is above the number of every directory.
func (r *Registry) DirLimit() DirID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return DirID(len(r.dirs.entries))
}

// DirURI is the canonical spelling of a directory; "" if no file in it is used.
func (r *Registry) DirURI(id DirID) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if int(id) >= len(r.dirs.entries) {
		return ""
	}
	return string(r.dirs.name(uint32(id)))
}

// Uses is the number of snapshots that use a file; 0 if there is no such file.
func (r *Registry) Uses(id FileID) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if int(id) >= len(r.files.entries) {
		return 0
	}
	return int(r.files.entries[id].uses)
}

// Users gives the snapshots that use a file, sorted. It looks into every
// snapshot; see [Registry.Uses] for the number alone.
func (r *Registry) Users(id FileID) []SnapshotID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var users []SnapshotID
	for s, m := range r.snapshots {
		if _, ok := slices.BinarySearch(m.files, id); ok {
			users = append(users, s)
		}
	}
	slices.Sort(users)
	return users
}

// Snapshots describes all snapshots, in the order in which they were added.
func (r *Registry) Snapshots() []Snapshot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Snapshot, 0, len(r.snapshots))
	for _, id := range slices.Sorted(maps.Keys(r.snapshots)) {
		list = append(list, r.snapshots[id].Snapshot)
	}
	return list
}

// URI is that of a snapshot's metadata file as Add was given it; "" if there is no such snapshot.
func (r *Registry) URI(id SnapshotID) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.snapshots[id]; s != nil {
		return s.URI
	}
	return ""
}

// FindSnapshot gives the snapshot whose metadata file is uri.
func (r *Registry) FindSnapshot(uri string) (Snapshot, bool) {
	key := r.Key(uri)
	r.mu.RLock()
	defer r.mu.RUnlock()
	id, ok := r.byURI[key]
	if !ok {
		return Snapshot{}, false
	}
	return r.snapshots[id].Snapshot, true
}

// members gives the files of a snapshot, which never change.
func (r *Registry) members(id SnapshotID) []FileID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.snapshots[id]; m != nil {
		return m.files
	}
	return nil
}

// sum adds what is not negative; more than there can be is the most that there can be.
func sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// size adds up the bytes that the metadata demands of a snapshot's files, and counts them with the metadata.
func (r *Registry) size(id SnapshotID) (size int64, files int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.snapshots[id]; m != nil {
		for _, f := range m.files {
			if fact := r.facts[f]; fact.flags&flagDirectory == 0 {
				files++
				size = sum(size, max(fact.need, 0))
			}
		}
	}
	return size, files
}

// Files yields every file and directory that a snapshot uses, by number. A
// registry may be changed while it runs, but then the number of a released file can be another's.
func (r *Registry) Files(id SnapshotID) iter.Seq[FileID] {
	return slices.Values(r.members(id))
}

// Exclusive yields the files and directories that only this snapshot uses,
// by number: what releasing it would give.
func (r *Registry) Exclusive(id SnapshotID) iter.Seq[FileID] {
	return func(yield func(FileID) bool) {
		for _, f := range r.members(id) {
			if r.Uses(f) == 1 && !yield(f) {
				return
			}
		}
	}
}

// Common yields the files and directories that both snapshots use, by number.
func (r *Registry) Common(a, b SnapshotID) iter.Seq[FileID] {
	return func(yield func(FileID) bool) {
		x, y := r.members(a), r.members(b)
		for len(x) > 0 && len(y) > 0 {
			switch {
			case x[0] < y[0]:
				x = x[1:]
			case x[0] > y[0]:
				y = y[1:]
			default:
				if !yield(x[0]) {
					return
				}
				x, y = x[1:], y[1:]
			}
		}
	}
}
