package tools

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// Area is the part of Flink's storage that a file lies in.
type Area string

// The areas.
const (
	// AreaOther is outside of everything that Flink lays out.
	AreaOther Area = "other"
	// AreaCheckpoint is a directory chk-N.
	AreaCheckpoint Area = "checkpoint"
	// AreaSavepoint is the directory of a savepoint, or of a snapshot that was moved to a place of its own.
	AreaSavepoint Area = "savepoint"
	// AreaShared and AreaTaskOwned are a job's directories of these names.
	AreaShared    Area = "shared"
	AreaTaskOwned Area = "taskowned"
	// AreaMerged is a directory of file merging, in shared or taskowned.
	AreaMerged Area = "file merging"
	// AreaChangelog is a job's directory dstl.
	AreaChangelog Area = "changelog"
	// AreaWorking is the working directory of an attempt of a task, which ForSt has in shared.
	AreaWorking Area = "working directory"
)

// place says whose a directory is. All its URIs are in canonical spelling.
type place struct {
	area Area
	// job is the directory of the job, "" for a savepoint and outside.
	job string
	// dir is that of the area: chk-N, the savepoint, the directory of file merging or of the attempt.
	dir        string
	checkpoint int64 // N of chk-N
	taskOwned  bool  // in taskowned, at any depth
	attempt    int   // of a working directory
	task       string
}

var (
	mergedPattern  = regexp.MustCompile(`^job_.+_(op_.+_\d+_\d+|tm_.+)$`)
	workingPattern = regexp.MustCompile(`^(op_.+__\d+_\d+__attempt_)(\d+)$`)
	uuidPattern    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	// oldMetadataPattern is metadata that stands in no directory of its own: a
	// savepoint of Flink 1.2, an externalized checkpoint of Flink 1.2 to 1.4.
	oldMetadataPattern = regexp.MustCompile(`^(savepoint|checkpoint_metadata)-[0-9a-f]{12}$`)
	oldSavepoint       = regexp.MustCompile(`^savepoint-([0-9a-f]{6}-)?[0-9a-f]{12}$`)
)

// isMetadataName says that a file of this name is the metadata of a snapshot.
func isMetadataName(name string) bool {
	return name == MetadataName || oldMetadataPattern.MatchString(name)
}

// layouts finds the places of directories. It is not safe for concurrent use.
type layouts struct {
	jobs      map[string]bool // directories that hold a chk-N
	snapshots map[string]bool // directories that hold _metadata
	places    map[string]place
}

// fork gives another that may be used beside l, as long as neither learns.
func (l *layouts) fork() *layouts {
	return &layouts{jobs: l.jobs, snapshots: l.snapshots, places: map[string]place{}}
}

// of gives the place of a directory by its canonical URI. The last segment
// that means something decides, as a directory far above can have any name.
func (l *layouts) of(dir string) place {
	if p, ok := l.places[dir]; ok {
		return p
	}
	if len(l.places) >= 1<<14 {
		clear(l.places) // entropy injection gives each file a directory of its own
	}
	p := l.find(dir)
	l.places[dir] = p
	return p
}

func (l *layouts) find(dir string) place {
	below := "" // the segment below the one that is looked at
	for at := dir; ; {
		name := storage.Base(at)
		up := storage.Dir(at)
		if name == "" || up == at {
			return place{area: AreaOther}
		}
		if p, ok := l.segment(at, up, name, below); ok {
			return p
		}
		at, below = up, name
	}
}

// segment says what a directory named name is, in which the directory below lies.
func (l *layouts) segment(at, up, name, below string) (place, bool) {
	if n, ok := incremental.CheckpointNumber(name); ok {
		return place{area: AreaCheckpoint, job: up, dir: at, checkpoint: n}, true
	}
	if oldSavepoint.MatchString(name) || l.snapshots[at] {
		return place{area: AreaSavepoint, dir: at}, true
	}
	p := place{job: up, dir: at}
	isJob := jobIDPattern.MatchString(storage.Base(up))
	switch {
	case name == "dstl" && isJob:
		p.area = AreaChangelog
		return p, true
	case !isJob && !l.jobs[up]:
		return place{}, false
	case name == "shared":
		p.area = AreaShared
	case name == "taskowned":
		p.area, p.taskOwned = AreaTaskOwned, true
	default:
		return place{}, false
	}
	if m := workingPattern.FindStringSubmatch(below); m != nil && !p.taskOwned {
		p.area, p.dir, p.task = AreaWorking, storage.Join(at, below), storage.Join(at, m[1])
		p.attempt, _ = strconv.Atoi(m[2])
	} else if mergedPattern.MatchString(below) {
		p.area, p.dir = AreaMerged, storage.Join(at, below)
	}
	return p, true
}

// owner is whose a file at the place is: the directory of a job or of a savepoint, or "".
func (p place) owner() string {
	if p.job != "" {
		return p.job
	}
	return p.dir
}

// sameOwner says that two owners are one: entropy injection and the changelog
// put a job's files below directories of the job's id at other places, and
// a savepoint's below one of its name. holds says which have snapshots of their own, and so are others.
func sameOwner(a, b string, holds map[string]bool) bool {
	if a == b {
		return true
	}
	name := storage.Base(a)
	return name == storage.Base(b) && (jobIDPattern.MatchString(name) || oldSavepoint.MatchString(name)) && (!holds[a] || !holds[b])
}

// jobOfSavepoint says that a savepoint's name begins with the id of the job.
func jobOfSavepoint(savepoint, job string) bool {
	rest, ok := strings.CutPrefix(storage.Base(savepoint), "savepoint-")
	id := storage.Base(job)
	return ok && len(rest) > 6 && rest[6] == '-' && jobIDPattern.MatchString(id) && strings.HasPrefix(id, rest[:6])
}
