package tools

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// mostLooks bounds how many files that no listing showed are asked for one by one.
const mostLooks = 20000

// look looks for the files of snapshots that the listing did not show: they
// are outside of the roots, came while it ran, or are missing.
func (a *audit) look(ctx context.Context) error {
	a.looked = make([]bool, a.registry.Limit())
	byDir := map[incremental.DirID][]incremental.FileID{}
	for id := range a.registry.Limit() {
		if f := a.registry.File(id); a.found[id] == 0 && f.Uses > 0 && !f.Directory {
			byDir[a.registry.Dir(id)] = append(byDir[a.registry.Dir(id)], id)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(a.jobs)
	looks := 0
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		ids := byDir[dir]
		switch {
		case len(ids) >= listFrom:
			g.Go(func() error { return a.lookIn(ctx, a.registry.DirURI(dir), ids) })
		case looks < mostLooks:
			looks += len(ids)
			g.Go(func() error { return a.lookFor(ctx, ids) })
		case !a.covers(a.registry.DirURI(dir)):
			a.mu.Lock()
			for _, id := range ids {
				a.failed[id] = errTooManyLooks
			}
			a.mu.Unlock()
		}
	}
	return g.Wait()
}

var errTooManyLooks = errors.New("outside of the roots, and too many to look for")

// covers says that a directory was listed.
func (a *audit) covers(dir string) bool {
	for _, r := range a.report.Roots {
		if _, ok := storage.Rel(a.registry.Key(r), dir); ok {
			return a.report.Decided() && len(a.report.Links) == 0
		}
	}
	return false
}

func (a *audit) lookFor(ctx context.Context, ids []incremental.FileID) error {
	for _, id := range ids {
		f := statOne(ctx, a.fsys, a.registry.File(id).URI)
		if err := ctx.Err(); err != nil {
			return err
		}
		a.mu.Lock()
		switch {
		case f.err == nil:
			a.find(id, f.size)
			a.looked[id] = true
		case !errors.Is(f.err, fs.ErrNotExist):
			a.failed[id] = f.err
		}
		a.mu.Unlock()
	}
	return nil
}

// lookIn looks for many files of one directory.
func (a *audit) lookIn(ctx context.Context, dir string, ids []incremental.FileID) error {
	var failed error
	for info, err := range a.fsys.ReadDir(ctx, dir) {
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				failed = err
			}
			break
		}
		if id, ok := a.registry.Find(info.URI); ok && !info.Dir {
			a.mu.Lock()
			if a.found[id] == 0 {
				a.find(id, info.Size)
				a.looked[id] = true
			}
			a.mu.Unlock()
		}
	}
	if err := ctx.Err(); err != nil || failed == nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if a.found[id] == 0 {
			a.failed[id] = failed
		}
	}
	return nil
}

// problem says what is wrong with a file of a snapshot, "" if nothing is.
func (a *audit) problem(f incremental.File) string {
	size := a.found[f.ID] - 1
	switch {
	case f.Directory:
		return ""
	case size < 0 && a.failed[f.ID] != nil:
		return ProblemAccess
	case size < 0:
		return ProblemMissing
	case f.Need >= 0 && (f.Exact && size != f.Need || size < f.Need):
		return ProblemWrongSize
	}
	return ""
}

// sumSnapshots counts what the snapshots use.
func (a *audit) sumSnapshots() {
	r := a.registry
	problems := make([]uint8, r.Limit())
	directory := make([]bool, r.Limit())
	const missing, wrong, unseen = 1, 2, 3
	for id := range r.Limit() {
		f := r.File(id)
		if f.Uses == 0 {
			continue
		}
		directory[id] = f.Directory && f.Need < 0
		switch a.problem(f) {
		case ProblemMissing:
			problems[id] = missing
			a.report.Missing++
		case ProblemWrongSize:
			problems[id] = wrong
			a.report.WrongSize++
		case ProblemAccess:
			problems[id] = unseen
			a.report.Unseen++
		}
		if size := a.found[id] - 1; size >= 0 && !directory[id] {
			p := a.layouts.of(storage.Dir(f.URI))
			a.report.Totals.add(FileReferenced, size)
			a.count(p, FileReferenced, size)
		}
	}
	o := a.owners()
	size := func(id incremental.FileID) int64 { return max(a.found[id]-1, 0) }
	var last *AuditSnapshot
	for i := range a.report.Snapshots {
		s := &a.report.Snapshots[i]
		foreign := map[uint32]*AuditCount{}
		own := storage.Dir(s.key)
		for id := range r.Files(s.ID) {
			if directory[id] {
				continue
			}
			switch problems[id] {
			case missing:
				s.Missing++
			case wrong:
				s.WrongSize++
			case unseen:
				s.Unseen++
			}
			n := size(id)
			if r.Uses(id) == 1 {
				s.Exclusive.add(n)
			}
			d := r.Dir(id)
			switch of := o.of[d]; {
			case o.uri(d) == own:
				s.Own.add(n)
			case o.same(of, s.owner):
				s.Shared.add(n)
			default:
				s.Foreign.add(n)
				if foreign[of] == nil {
					foreign[of] = new(AuditCount)
				}
				foreign[of].add(n)
			}
		}
		for of, c := range foreign {
			a.report.Foreign = append(a.report.Foreign, ForeignUse{Snapshot: s.URI, Owner: o.names[of], AuditCount: *c, OfAll: o.files[of]})
		}
		if last != nil && s.Job != "" && last.Job == s.Job {
			for id := range r.Common(last.ID, s.ID) {
				if !directory[id] {
					s.Kept.add(size(id))
				}
			}
		}
		last = s
	}
	slices.SortFunc(a.report.Foreign, func(x, y ForeignUse) int {
		return cmp.Or(strings.Compare(x.Owner, y.Owner), strings.Compare(x.Snapshot, y.Snapshot))
	})
}

// owners says to which job or savepoint the directories of the registry belong.
type owners struct {
	registry *incremental.Registry
	of       []uint32 // by directory: index in names
	names    []string
	files    []int64 // by owner: files that snapshots use
	holds    map[string]bool
	last     incremental.DirID // whose URI is lastURI
	lastURI  string
	known    map[[2]string]bool
}

func (a *audit) owners() *owners {
	r := a.registry
	o := &owners{registry: r, of: make([]uint32, r.DirLimit()), holds: map[string]bool{}, known: map[[2]string]bool{}, last: r.DirLimit()}
	for i := range a.report.Snapshots {
		o.holds[a.report.Snapshots[i].owner] = true
	}
	index := map[string]uint32{}
	for d := range r.DirLimit() {
		p := a.layouts.of(r.DirURI(d))
		owner := p.owner()
		if j := a.book.find(p); p.job != "" && j != nil {
			owner = j.Dir
		}
		i, ok := index[owner]
		if !ok {
			i = uint32(len(o.names))
			index[owner] = i
			o.names = append(o.names, owner)
		}
		o.of[d] = i
	}
	o.files = make([]int64, len(o.names))
	for id := range r.Limit() {
		if r.Uses(id) > 0 {
			o.files[o.of[r.Dir(id)]]++
		}
	}
	return o
}

// uri is the URI of a directory; files of one directory mostly come together.
func (o *owners) uri(d incremental.DirID) string {
	if d != o.last {
		o.last, o.lastURI = d, o.registry.DirURI(d)
	}
	return o.lastURI
}

func (o *owners) same(of uint32, owner string) bool {
	k := [2]string{o.names[of], owner}
	same, ok := o.known[k]
	if !ok {
		same = sameOwner(k[0], k[1], o.holds)
		o.known[k] = same
	}
	return same
}

// sumDirs says what the directories of checkpoints, savepoints and attempts are.
func (a *audit) sumDirs() {
	dirs := map[string]*AuditDir{}
	for dir := range a.dirs {
		dirs[dir] = &AuditDir{Dir: dir}
	}
	for id := range a.registry.Limit() {
		if size := a.found[id] - 1; size >= 0 && a.registry.Uses(id) > 0 {
			p := a.layouts.of(a.registry.DirURI(a.registry.Dir(id)))
			if d := dirs[p.dir]; d != nil {
				d.Used.add(size)
			}
		}
	}
	for i := range a.held.list {
		f := &a.held.list[i]
		if d := dirs[a.layouts.of(a.registry.Key(a.held.dirs[f.dir])).dir]; d != nil {
			d.Unused.add(f.size)
			if t := f.modTime(); t.After(d.newest) {
				d.newest = t
			}
		}
	}
	a.report.Dirs = []AuditDir{}
	for _, key := range slices.Sorted(maps.Keys(dirs)) {
		d := dirs[key]
		p := a.layouts.of(key)
		if j := a.jobOf(p); j != nil {
			d.Job = j.Dir
		}
		d.State = a.dirState(d, p)
		a.report.Dirs = append(a.report.Dirs, *d)
	}
	for _, j := range a.book.order {
		j.Usage = j.usage.list()
	}
	a.report.Jobs = []AuditJob{}
	for _, j := range a.book.order {
		a.report.Jobs = append(a.report.Jobs, *j)
	}
	slices.SortFunc(a.report.Jobs, func(x, y AuditJob) int { return strings.Compare(x.Dir, y.Dir) })
	a.report.Elsewhere = a.loose.list()
	slices.Sort(a.report.EmptyDirs)
	byURI := func(x, y AuditFailure) int { return strings.Compare(x.URI, y.URI) }
	slices.SortFunc(a.report.Unreadable, byURI)
	slices.SortFunc(a.report.Unlisted, byURI)
	slices.SortFunc(a.report.Links, func(x, y AuditLink) int { return strings.Compare(x.URI, y.URI) })
}

func (a *audit) dirState(d *AuditDir, p place) string {
	switch {
	case p.area == AreaWorking && a.ended(p):
		return DirAttempt
	case p.area == AreaWorking:
		return DirWorking
	case a.unreadable[storage.Join(p.dir, MetadataName)]:
		return DirUnreadable
	case a.layouts.snapshots[p.dir]:
		return DirCompleted
	case d.Used.Files > 0:
		return DirInUse
	case p.area == AreaSavepoint:
		return DirIncomplete
	}
	j := a.book.find(p)
	switch {
	case j != nil && p.checkpoint <= j.Newest:
		return DirSuperseded
	case d.Unused.Files == 0, d.newest.IsZero(), age(a.now, d.newest) < max(a.grace, time.Minute):
		return DirInProgress
	}
	return DirAborted
}

// Problems yields the files of snapshots that are not as the metadata says, in the order of their URIs.
func (r *AuditReport) Problems() iter.Seq[AuditProblem] {
	return func(yield func(AuditProblem) bool) {
		a := r.audit
		type at struct {
			uri string
			id  incremental.FileID
		}
		var list []at
		for id := range incremental.FileID(min(int(a.registry.Limit()), len(a.found))) {
			if f := a.registry.File(id); f.Uses > 0 && a.problem(f) != "" {
				list = append(list, at{f.URI, id})
			}
		}
		slices.SortFunc(list, func(x, y at) int { return strings.Compare(x.uri, y.uri) })
		uris := map[incremental.SnapshotID]string{}
		for _, s := range a.registry.Snapshots() {
			uris[s.ID] = s.URI
		}
		for _, l := range list {
			f := a.registry.File(l.id)
			p := AuditProblem{Problem: a.problem(f), URI: l.uri, Need: f.Need, Found: a.found[l.id] - 1}
			if err := a.failed[l.id]; err != nil && p.Found < 0 {
				p.Error = bareCause(err, l.uri)
			}
			for _, s := range a.registry.Users(l.id) {
				p.Snapshots = append(p.Snapshots, uris[s])
			}
			slices.Sort(p.Snapshots)
			if !yield(p) {
				return
			}
		}
	}
}
