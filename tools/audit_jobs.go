package tools

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// usage counts by area.
type usage map[Area]*AuditTotals

func (u usage) add(area Area, s FileStatus, size int64) {
	t := u[area]
	if t == nil {
		t = new(AuditTotals)
		u[area] = t
	}
	t.add(s, size)
}

// list is the usage in the order of the areas' names.
func (u usage) list() []AuditUsage {
	list := []AuditUsage{}
	for _, area := range slices.Sorted(maps.Keys(u)) {
		list = append(list, AuditUsage{area, *u[area]})
	}
	return list
}

// jobBook knows the jobs by their directories. Entropy injection and the changelog put files of a job
// below directories of the same name at other places.
type jobBook struct {
	byDir map[string]*AuditJob
	order []*AuditJob
	// completed are those that have completed checkpoints, by the name of the directory.
	completed map[string][]*AuditJob
	// named are those of a directory of a job, by its name; nil if there are several.
	named map[string]*AuditJob
	// users are the jobs whose checkpoints use files of a directory that has no completed checkpoint itself.
	users map[string][]*AuditJob
}

func newJobBook() *jobBook {
	return &jobBook{byDir: map[string]*AuditJob{}, completed: map[string][]*AuditJob{}, named: map[string]*AuditJob{}, users: map[string][]*AuditJob{}}
}

// own gives the job of a directory of its own.
func (b *jobBook) own(dir string) *AuditJob {
	if j := b.byDir[dir]; j != nil {
		return j
	}
	j := &AuditJob{Dir: dir, Newest: -1, usage: usage{}}
	b.byDir[dir] = j
	b.order = append(b.order, j)
	return j
}

// enter makes the job of a place unless one is known.
func (b *jobBook) enter(p place) {
	if p.job != "" && b.find(p) == nil {
		b.own(p.job)
	}
}

// find gives the job that a place belongs to, nil if none is known.
func (b *jobBook) find(p place) *AuditJob {
	j := b.byDir[p.job]
	if j != nil && len(j.completed) > 0 {
		return j
	}
	switch others := b.elsewhere(p); {
	case len(others) == 1:
		return others[0]
	case len(others) == 0 && j == nil && tellsJob(p):
		return b.named[storage.Base(p.job)]
	}
	return j
}

// tellsJob says that a place is known to be of the job with the id in its name wherever that is.
func tellsJob(p place) bool {
	return p.area == AreaChangelog && !fixedJobID.MatchString(storage.Base(p.job))
}

// elsewhere are the jobs with completed checkpoints to which a place belongs though it is not below their directories.
func (b *jobBook) elsewhere(p place) []*AuditJob {
	var list []*AuditJob
	for _, j := range b.completed[storage.Base(p.job)] {
		if tellsJob(p) || j.hasEntropyPart(p.job) {
			list = append(list, j)
		}
	}
	return list
}

// decides gives the job whose newest checkpoint tells what in a place is old: of several that of which it is
// the oldest. It is nil if no checkpoint in scope says anything about the place.
func (b *jobBook) decides(p place) *AuditJob {
	if j := b.byDir[p.job]; j != nil && len(j.completed) > 0 {
		return j
	}
	list := b.elsewhere(p)
	if p.area != AreaChangelog || tellsJob(p) {
		list = append(list, b.users[p.job]...)
	}
	return earliest(list)
}

// ofSavepoint gives the jobs that a savepoint's name tells.
func (b *jobBook) ofSavepoint(dir string) []*AuditJob {
	var list []*AuditJob
	for _, j := range b.order {
		if jobOfSavepoint(dir, j.Dir) {
			list = append(list, j)
		}
	}
	return list
}

// earliest is the job whose newest checkpoint is the oldest, so that the least counts as old.
func earliest(list []*AuditJob) *AuditJob {
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *AuditJob) int { return a.NewestTime.Compare(b.NewestTime) })
}

// completes enters a completed checkpoint of a job.
func (b *jobBook) completes(j *AuditJob, s *AuditSnapshot) {
	if j.Checkpoints++; j.Checkpoints == 1 {
		name := storage.Base(j.Dir)
		b.completed[name] = append(b.completed[name], j)
	}
	j.completed = append(j.completed, s)
	if s.CheckpointID > j.Newest {
		j.Newest, j.NewestTime = s.CheckpointID, s.ModTime
	}
}

// between gives the checkpoints before and after a time, -1 for none.
func (j *AuditJob) between(t time.Time) (after, before int64) {
	i, _ := slices.BinarySearchFunc(j.completed, t, func(s *AuditSnapshot, t time.Time) int {
		if s.ModTime.After(t) {
			return 1
		}
		return -1
	})
	after, before = -1, -1
	if i > 0 {
		after = j.completed[i-1].CheckpointID
	}
	if i < len(j.completed) {
		before = j.completed[i].CheckpointID
	}
	return after, before
}

// enterJobs makes the jobs that have snapshots or directories of checkpoints.
func (a *audit) enterJobs() {
	list := a.report.Snapshots
	slices.SortFunc(list, func(x, y AuditSnapshot) int {
		return cmp.Or(strings.Compare(storage.Dir(storage.Dir(x.key)), storage.Dir(storage.Dir(y.key))), cmp.Compare(x.CheckpointID, y.CheckpointID), strings.Compare(x.key, y.key))
	})
	jobs := map[incremental.SnapshotID]*AuditJob{}
	for i := range list {
		s := &list[i]
		s.AgeSeconds = int64(age(a.now, s.ModTime) / time.Second)
		dir := storage.Dir(s.key)
		p := a.layouts.of(dir)
		if s.owner = p.owner(); s.owner == "" {
			s.owner = dir
		}
		if p.area == AreaCheckpoint {
			s.Job = p.job
			if s.Kind == metadata.KindUnknown.String() {
				s.Kind = metadata.KindCheckpoint.String()
			}
			if !s.savepoint {
				jobs[s.ID] = a.book.own(p.job)
				a.book.completes(jobs[s.ID], s)
			}
		} else if s.Kind == metadata.KindUnknown.String() && (oldSavepoint.MatchString(storage.Base(s.key)) || oldSavepoint.MatchString(storage.Base(dir))) {
			s.Kind = "savepoint"
		}
	}
	for _, j := range a.book.order {
		slices.SortFunc(j.completed, func(x, y *AuditSnapshot) int {
			return cmp.Or(x.ModTime.Compare(y.ModTime), cmp.Compare(x.CheckpointID, y.CheckpointID))
		})
	}
	a.enterUsers(jobs)
	for _, dir := range slices.Sorted(maps.Keys(a.layouts.jobs)) {
		a.book.enter(place{area: AreaCheckpoint, job: dir})
	}
	var changelogs []place
	enter := func(key string) {
		if p := a.layouts.of(key); p.area == AreaChangelog {
			changelogs = append(changelogs, p)
		} else {
			a.book.enter(p)
		}
	}
	for d := range a.registry.DirLimit() {
		enter(a.registry.DirURI(d))
	}
	for _, dir := range a.held.dirs {
		enter(a.registry.Key(dir))
	}
	for _, j := range a.book.order {
		name := storage.Base(j.Dir)
		if _, several := a.book.named[name]; several {
			a.book.named[name] = nil
		} else {
			a.book.named[name] = j
		}
	}
	for _, p := range changelogs {
		a.book.enter(p)
	}
	for dir := range a.dirs {
		if p := a.layouts.of(dir); p.area == AreaWorking && p.attempt >= a.newest[p.task].attempt {
			a.newest[p.task] = p
		}
	}
}

// enterUsers notes whose checkpoints use files of directories of jobs without a completed checkpoint.
func (a *audit) enterUsers(jobs map[incremental.SnapshotID]*AuditJob) {
	r := a.registry
	lacking := map[incremental.DirID]place{}
	for d := range r.DirLimit() {
		p := a.layouts.of(r.DirURI(d))
		if j := a.book.byDir[p.job]; p.job != "" && (j == nil || len(j.completed) == 0) {
			lacking[d] = p
		}
	}
	if len(lacking) == 0 {
		return
	}
	for _, s := range slices.Sorted(maps.Keys(jobs)) {
		for id := range r.Files(s) {
			p, ok := lacking[r.Dir(id)]
			if !ok || jobs[s].learnEntropy(p.job) {
				continue
			}
			if users := a.book.users[p.job]; !slices.Contains(users, jobs[s]) {
				a.book.users[p.job] = append(users, jobs[s])
			}
		}
	}
}

// attempt is when the files in the working directory of an attempt were written.
type attempt struct {
	first, last time.Time
	unknown     bool // of some file
}

// attend takes note of files in working directories, used or not. a.mu is held.
func (a *audit) attend(files []storage.Info) {
	last := ""
	var at *attempt
	for _, f := range files {
		if f.Dir {
			continue
		}
		if dir := f.URI[:max(0, strings.LastIndexByte(f.URI, '/'))]; dir != last {
			at, last = a.attemptIn(dir), dir
		}
		switch t := f.ModTime; {
		case at == nil:
		case t.IsZero():
			at.unknown = true
		default:
			if at.first.IsZero() || t.Before(at.first) {
				at.first = t
			}
			if t.After(at.last) {
				at.last = t
			}
		}
	}
}

// attemptIn gives the attempt in whose working directory a directory is, nil if it is in none.
func (a *audit) attemptIn(dir string) *attempt {
	if !strings.Contains(dir, "__attempt_") {
		return nil
	}
	for key := a.registry.Key(dir); ; key = storage.Dir(key) {
		switch {
		case workingPattern.MatchString(storage.Base(key)):
			if a.attempts[key] == nil {
				a.attempts[key] = new(attempt)
			}
			return a.attempts[key]
		case storage.Dir(key) == key:
			return nil
		}
	}
}

// ended says that an attempt's working directory is not used any more: there is one of a later attempt, and everything
// in it was written before that began. The number alone says nothing, as they begin again when the JobManager recovers.
func (a *audit) ended(p place) bool {
	newest := a.newest[p.task]
	mine, later := a.attempts[p.dir], a.attempts[newest.dir]
	return p.attempt < newest.attempt && mine != nil && later != nil && !mine.unknown && !later.unknown && mine.last.Before(later.first)
}
