package tools

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/storage"
)

// causeCode is an index into causes.
type causeCode uint8

const (
	causeInProgress causeCode = iota
	causeYoung
	causeAborted
	causeSuperseded
	causeStray
	causeNoMetadata
	causeBetween
	causeBefore
	causeAfter
	causeNoCheckpoint
	causeAttempt
	causeWriting
	causeNoTime
	causeFuture
	causeWorking
	causeUnreadable
	causeCopy
	causeMarker
	causeName
	causeOutside
	causeNamed
	causeLink
)

// Why a file that no snapshot uses is there, or why that is not decided.
const (
	CauseInProgress   = "checkpoint in progress"
	CauseYoung        = "not older than the grace period"
	CauseAborted      = "aborted checkpoint"
	CauseSuperseded   = "checkpoint without metadata, superseded by a later one"
	CauseStray        = "beside metadata that does not name it"
	CauseNoMetadata   = "savepoint without metadata"
	CauseBetween      = "written between two retained checkpoints: a checkpoint that failed, or state that they no longer use"
	CauseBefore       = "older than the oldest retained checkpoint"
	CauseAfter        = "newer than the newest completed checkpoint: a checkpoint that failed"
	CauseNoCheckpoint = "of a job without a completed checkpoint in scope"
	CauseAttempt      = "working directory of an earlier attempt"
	CauseWriting      = "interrupted writing of metadata"
	CauseNoTime       = "modification time unknown"
	CauseFuture       = "modification time in the future"
	CauseWorking      = "working directory of the last attempt, which may be running"
	CauseUnreadable   = "beside metadata that can't be read"
	CauseCopy         = "a copy of metadata"
	CauseMarker       = "stands for a directory"
	CauseName         = "not a name that Flink gives"
	CauseOutside      = "outside of Flink's directories"
	CauseNamed        = "a snapshot names a file of this name at another place"
	CauseLink         = "a symbolic link, or what one leads to"
)

var causes = [...]string{CauseInProgress, CauseYoung, CauseAborted, CauseSuperseded, CauseStray, CauseNoMetadata, CauseBetween, CauseBefore, CauseAfter,
	CauseNoCheckpoint, CauseAttempt, CauseWriting, CauseNoTime, CauseFuture, CauseWorking, CauseUnreadable, CauseCopy, CauseMarker, CauseName, CauseOutside, CauseNamed, CauseLink}

// skew is by how much a store's clock may be ahead without a file of it counting as one of the future.
const skew = 5 * time.Minute

// settle sorts out what was taken up before the snapshot that uses it.
func (a *audit) settle() {
	a.held.sort()
	kept := a.held.list[:0]
	for _, f := range a.held.list {
		if id, ok := a.registry.Find(a.held.uri(&f)); ok {
			a.find(id, f.size)
			continue
		}
		if isMetadataName(string(a.held.name(&f))) {
			// Unreadable metadata is listed as such, not as a file that nobody uses.
			if !a.unreadable[a.registry.Key(a.held.uri(&f))] {
				continue
			}
		}
		if key := a.registry.Key(a.held.uri(&f)); a.isCopyAlone(key) {
			a.unreadable[storage.Join(storage.Dir(key), MetadataName)] = true
		}
		kept = append(kept, f)
	}
	a.held.list = kept
	a.grow()
	a.enterJobs()
}

// isCopyAlone says that a file is metadata under another name in a directory without any.
func (a *audit) isCopyAlone(key string) bool {
	rest, ok := strings.CutPrefix(storage.Base(key), MetadataName)
	return ok && rest != "" && !a.layouts.snapshots[storage.Dir(key)]
}

// judgeFiles decides about every file that no snapshot uses, and counts it.
func (a *audit) judgeFiles() {
	type group struct {
		month  string
		status FileStatus
		cause  causeCode
	}
	groups := map[group]*AuditCount{}
	for i := range a.held.list {
		f := &a.held.list[i]
		p := a.layouts.of(a.registry.Key(a.held.dirs[f.dir]))
		f.verdict = a.judge(f, p)
		a.report.Totals.add(f.status, f.size)
		a.count(p, f.status, f.size)
		g := group{status: f.status, cause: f.cause}
		if f.time != 0 {
			g.month = f.modTime().Format("2006-01")
		}
		if groups[g] == nil {
			groups[g] = new(AuditCount)
		}
		groups[g].add(f.size)
	}
	a.report.Groups = []AuditGroup{}
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(x, y group) int {
		if c := strings.Compare(x.month, y.month); c != 0 {
			return c
		}
		return int(x.cause) - int(y.cause)
	}) {
		a.report.Groups = append(a.report.Groups, AuditGroup{g.month, g.status, causes[g.cause], *groups[g]})
	}
}

// count enters a file into the usage of its job.
func (a *audit) count(p place, s FileStatus, size int64) {
	if p.job == "" {
		a.loose.add(p.area, s, size)
		return
	}
	j := a.book.find(p)
	j.Totals.add(s, size)
	j.usage.add(p.area, s, size)
}

// jobOf gives the job that wrote into a place, nil if none is known.
func (a *audit) jobOf(p place) *AuditJob {
	if p.job != "" {
		return a.book.find(p)
	}
	if p.area == AreaSavepoint {
		return earliest(a.book.ofSavepoint(p.dir))
	}
	return nil
}

// since gives the time before which a file must have been written, by the grace period, to be old: that of the
// newest checkpoint of the job that may use it. It is false if there may be a job of which no checkpoint is
// known: a job that runs needs files of its changelog, and working directories, that no metadata names yet.
func (a *audit) since(p place) (time.Time, bool) {
	var list []*AuditJob
	switch {
	case p.job != "":
		list = append(list, a.book.decides(p))
	case p.area == AreaSavepoint:
		for _, j := range a.book.ofSavepoint(p.dir) {
			list = append(list, a.book.decides(place{area: AreaShared, job: j.Dir}))
		}
	}
	limit := a.now
	for _, j := range list {
		if j == nil {
			return a.now, false
		}
		if j.NewestTime.Before(limit) {
			limit = j.NewestTime
		}
	}
	return limit, true
}

// judge decides about a file that no snapshot uses.
func (a *audit) judge(f *heldFile, p place) verdict {
	undecided := func(c causeCode) verdict { return verdict{FileUndecided, c} }
	name := string(a.held.name(f))
	writing := strings.HasPrefix(name, "._metadata")
	switch {
	case isMetadataName(name):
		return undecided(causeUnreadable)
	case strings.HasPrefix(name, MetadataName), oldMetadataPattern.MatchString(name):
		return undecided(causeCopy)
	case name == "", strings.HasSuffix(name, "_$folder$"):
		return undecided(causeMarker)
	case p.area == AreaOther:
		return undecided(causeOutside)
	case !uuidPattern.MatchString(name) && !writing:
		return undecided(causeName)
	case (p.area == AreaCheckpoint || p.area == AreaSavepoint) && a.unreadable[storage.Join(p.dir, MetadataName)]:
		return undecided(causeUnreadable)
	case p.area == AreaWorking && !a.ended(p):
		return undecided(causeWorking)
	}
	j := a.jobOf(p)
	t := f.modTime()
	if p.area == AreaWorking {
		t = a.attempts[p.dir].last // as the attempt may use them all
	}
	limit, known := a.since(p)
	newest := int64(-1)
	if j != nil {
		newest = j.Newest
	}
	switch {
	case t.IsZero(), limit.IsZero():
		return undecided(causeNoTime)
	case t.After(a.now.Add(skew)):
		return undecided(causeFuture)
	}
	running := p.area == AreaCheckpoint && !a.layouts.snapshots[p.dir] && p.checkpoint > newest
	if t.After(limit.Add(-a.grace)) {
		if running && t.After(a.now.Add(-a.grace)) {
			return verdict{FileYoung, causeInProgress}
		}
		return verdict{FileYoung, causeYoung}
	}
	if why, ok := a.spare(a.registry.Key(a.held.uri(f))); ok {
		return undecided(why)
	}
	if !known {
		return undecided(causeNoCheckpoint)
	}
	return verdict{FileUnreferenced, a.cause(p, j, t, running, writing)}
}

// spare says why a file, in canonical spelling, that no snapshot names by its path may be one that a snapshot
// uses by another. Flink makes names of files up at random, so that those of one name are one file, or copies.
func (a *audit) spare(key string) (why causeCode, ok bool) {
	switch {
	case a.linked.has(key):
		return causeLink, true
	case len(a.registry.Named(storage.Base(key))) > 0:
		return causeNamed, true
	}
	return 0, false
}

// cause says why an old file is there.
func (a *audit) cause(p place, j *AuditJob, t time.Time, running, writing bool) causeCode {
	switch {
	case writing:
		return causeWriting
	case (p.area == AreaCheckpoint || p.area == AreaSavepoint) && a.layouts.snapshots[p.dir]:
		return causeStray
	case running:
		return causeAborted
	case p.area == AreaCheckpoint:
		return causeSuperseded
	case p.area == AreaSavepoint:
		return causeNoMetadata
	case p.area == AreaWorking:
		return causeAttempt
	case j == nil || len(j.completed) == 0:
		return causeNoCheckpoint
	}
	switch after, before := j.between(t); {
	case after < 0:
		return causeBefore
	case before < 0:
		return causeAfter
	}
	return causeBetween
}

// describe gives a file that no snapshot uses. It may run concurrently if each has its own l.
func (a *audit) describe(l *layouts, f *heldFile) AuditFile {
	p := l.of(a.registry.Key(a.held.dirs[f.dir]))
	file := AuditFile{
		URI: a.held.uri(f), Size: f.size, ModTime: f.modTime(), Status: f.status, Cause: causes[f.cause],
		Area: p.area, TaskOwned: p.taskOwned, Dir: p.dir, After: -1, Before: -1,
	}
	if p.job != "" {
		file.Job = a.book.find(p).Dir
	}
	if j := a.jobOf(p); j != nil && f.time != 0 {
		file.After, file.Before = j.between(f.modTime())
	}
	return file
}
