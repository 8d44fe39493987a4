package tools

import (
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/storage"
)

// guard knows what running jobs hold.
type guard struct {
	key  func(string) string
	jobs []*HeldJob // that did not end
	dirs [][]string // of jobs, in canonical spelling
	// ahead is by how much the clock that a job's times are of may be ahead of the store's.
	ahead []time.Duration
	over  []string // directories of jobs that ended
}

// earliestNow is the time by the clock that says the least: no file is older than by that one.
func earliestNow(held []*Held) time.Time {
	behind := time.Duration(0)
	for _, h := range held {
		behind = min(behind, h.ClockAhead)
	}
	return time.Now().Add(behind)
}

func newGuard(held []*Held, key func(string) string) *guard {
	g := &guard{key: key}
	for _, h := range held {
		for i := range h.Jobs {
			j := &h.Jobs[i]
			var dirs []string
			for _, d := range j.Directories {
				dirs = append(dirs, key(storage.Clean(d)))
			}
			if j.Ended {
				g.over = append(g.over, dirs...)
				continue
			}
			g.jobs, g.dirs, g.ahead = append(g.jobs, j), append(g.dirs, dirs), append(g.ahead, max(0, h.ClockAhead))
		}
	}
	return g
}

// of says that a directory, in canonical spelling, is that of the i-th job.
func (g *guard) of(i int, dir string) bool {
	return dir != "" && (storage.Base(dir) == g.jobs[i].ID || slices.Contains(g.dirs[i], dir))
}

// told says of the directory of a job that Flink told of a job with completed checkpoints there, and whether that job ended.
// An id alone tells nothing here, as jobs in several clusters can have the same.
func (g *guard) told(dir string) (known, ended bool) {
	for i := range g.jobs {
		if g.of(i, dir) {
			return slices.Contains(g.dirs[i], dir), false
		}
	}
	ended = slices.Contains(g.over, dir)
	return ended, ended
}

// snapshot says why the snapshot with this metadata must stay, "" if no job holds it. job is the
// directory of its job, "" for a savepoint.
func (g *guard) snapshot(metadata, job string, id int64) string {
	dir := storage.Dir(metadata)
	for i, j := range g.jobs {
		held := slices.Clone(j.Snapshots)
		if j.Restored != nil {
			held = append(held, *j.Restored)
		}
		for _, s := range held {
			if s.Path == "" {
				continue
			}
			if k := g.key(storage.Clean(s.Path)); k == dir || k == metadata {
				return "held by job " + j.ID
			}
		}
		if why := j.Holds(id); why != "" && g.of(i, job) {
			return why
		}
	}
	return ""
}

// file says that a job may be about to use a file, as it was written since its newest checkpoint began.
func (g *guard) file(p place, modTime time.Time) bool {
	for i, j := range g.jobs {
		since := j.KeepSince
		if p.area == AreaMerged {
			since = j.Start
		}
		mine := g.of(i, p.job) || p.area == AreaSavepoint && jobOfSavepoint(p.dir, j.ID)
		if mine && !modTime.Before(since.Add(-skew-g.ahead[i])) {
			return true
		}
	}
	return false
}

// checkHeld refuses where Flink's checkpoints are not among those that were found.
func (g *gc) checkHeld() {
	for i, j := range g.guard.jobs {
		for dir := range g.retired {
			if g.guard.of(i, dir) {
				g.refuse("job %s can't be retired: Flink says that it is %s", dir, j.State)
			}
		}
		var paths []string
		found := false
		for _, s := range j.Snapshots {
			if s.Path == "" || s.InProgress || s.Savepoint {
				continue
			}
			paths = append(paths, s.Path)
			_, ok := g.registry.FindSnapshot(storage.Join(storage.Clean(s.Path), MetadataName))
			found = found || ok
		}
		inScope := slices.ContainsFunc(g.book.order, func(b *AuditJob) bool { return g.guard.of(i, b.Dir) }) ||
			slices.ContainsFunc(paths, func(p string) bool { return g.inScope(g.registry.Key(storage.Clean(p))) })
		switch {
		case len(paths) == 0 || found:
		case inScope:
			g.refuse("job %s holds %s, none of which was found: the roots may be spelled in another way, or the job went on meanwhile", j.ID, listSome(paths))
		default:
			g.note("job %s holds snapshots that are not in scope: %s", j.ID, strings.Join(paths[:1], ""))
		}
	}
}
