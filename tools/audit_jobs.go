package tools

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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

// jobBook knows the jobs by their directories, and by their ids: the changelog
// and entropy injection put a job's files below directories of its id at other places.
type jobBook struct {
	byDir map[string]*AuditJob
	byID  map[string][]*AuditJob
	order []*AuditJob
}

func newJobBook() *jobBook {
	return &jobBook{byDir: map[string]*AuditJob{}, byID: map[string][]*AuditJob{}}
}

// own gives the job of a directory of its own.
func (b *jobBook) own(dir string) *AuditJob {
	if j := b.byDir[dir]; j != nil {
		return j
	}
	j := &AuditJob{Dir: dir, Newest: -1, usage: usage{}}
	b.byDir[dir] = j
	b.order = append(b.order, j)
	if id := storage.Base(dir); jobIDPattern.MatchString(id) {
		b.byID[id] = append(b.byID[id], j)
	}
	return j
}

// find gives the job that a directory belongs to, nil if none is known.
func (b *jobBook) find(dir string) *AuditJob {
	if j := b.byDir[dir]; j != nil {
		return j
	}
	return earliest(b.byID[storage.Base(dir)])
}

// of is find, but makes a job where none is known.
func (b *jobBook) of(dir string) *AuditJob {
	if j := b.find(dir); j != nil {
		return j
	}
	return b.own(dir)
}

// ofSavepoint gives the job that a savepoint's name tells, nil if none is known.
func (b *jobBook) ofSavepoint(dir string) *AuditJob {
	var list []*AuditJob
	for _, j := range b.order {
		if jobOfSavepoint(dir, j.Dir) {
			list = append(list, j)
		}
	}
	return earliest(list)
}

// earliest is the job whose newest checkpoint is the oldest, so that the least counts as old.
func earliest(list []*AuditJob) *AuditJob {
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *AuditJob) int { return a.NewestTime.Compare(b.NewestTime) })
}

// completes enters a completed checkpoint.
func (j *AuditJob) completes(s *AuditSnapshot) {
	j.Checkpoints++
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
	for _, dir := range slices.Sorted(maps.Keys(a.layouts.jobs)) {
		a.book.own(dir)
	}
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
				a.book.of(p.job).completes(s)
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
	for dir := range a.dirs {
		if p := a.layouts.of(dir); p.area == AreaWorking {
			a.attempts[p.task] = max(a.attempts[p.task], p.attempt)
		}
	}
}
