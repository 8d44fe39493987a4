package tools

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// Place is where a file lies in relation to the snapshot that names it, as
// far as the spelling of the path tells.
type Place string

// The places.
const (
	// PlaceOwn is the directory of the snapshot, also where it was recorded if the snapshot was moved.
	PlaceOwn Place = "own directory"
	// PlaceShared and PlaceTaskOwned are the job's directories of these names.
	PlaceShared    Place = "shared"
	PlaceTaskOwned Place = "taskowned"
	// PlaceChangelog is a directory of changelog files.
	PlaceChangelog Place = "changelog"
	// PlaceOtherCheckpoint is the directory of another checkpoint of the job.
	PlaceOtherCheckpoint Place = "another checkpoint of the job"
	// PlaceOtherJob and PlaceOtherSavepoint belong to something else, which must not be deleted.
	PlaceOtherJob       Place = "another job"
	PlaceOtherSavepoint Place = "another savepoint"
	PlaceElsewhere      Place = "elsewhere"
)

// places tells the places of one snapshot's files.
type places struct {
	dir, job       string // where the snapshot is; job "" if dir is not a checkpoint's
	oldDir, oldJob string // where it was recorded, if elsewhere and known
	known          map[string]placed
}

// placed is what is known of a directory.
type placed struct {
	place Place
	// plain is the directory without the characters of entropy injection,
	// pattern the same with "*" in their place; both the directory itself if it has none.
	plain, pattern string
}

// scattered says that entropy injection put it there.
func (p placed) scattered() bool { return p.plain != p.pattern }

// refDir is the directory that a reference names or that holds its file.
func refDir(r metadata.Ref) string {
	if r.Kind == metadata.RefDirectory {
		return storage.Clean(r.Path)
	}
	return storage.Dir(r.Path)
}

func newPlaces(s *Snapshot) *places {
	p := &places{dir: s.Dir, known: map[string]placed{}}
	if _, ok := incremental.CheckpointNumber(storage.Base(s.Dir)); ok {
		p.job = storage.Dir(s.Dir)
	}
	var dirs []string
	for r := range s.Refs() {
		if r.Kind == metadata.RefRelative {
			continue
		}
		d := refDir(r)
		if _, ok := p.known[d]; !ok {
			p.known[d] = placed{plain: d, pattern: d}
			dirs = append(dirs, d)
		}
	}
	p.findEntropy(dirs)
	p.findOrigin(s, dirs)
	for _, d := range dirs {
		k := p.known[d]
		k.place = p.classify(k.plain)
		p.known[d] = k
	}
	return p
}

// of gives the place of an absolute reference.
func (p *places) of(r metadata.Ref) placed {
	if r.Kind == metadata.RefRelative {
		return placed{place: PlaceOwn, plain: p.dir, pattern: p.dir}
	}
	return p.known[refDir(r)]
}

// entropyLength is how many characters Flink injects if nothing else is set.
const entropyLength = 4

// entropySamples is how many directories are searched for the segment that
// was injected; the others are compared with what was found.
const entropySamples = 2000

// cut is a directory without one segment, and with "*" in its place.
type cut struct{ plain, pattern string }

// cuts yields what a directory is without each segment that may be injected, with the segment.
func cuts(dir string) iter.Seq2[cut, string] {
	return func(yield func(cut, string) bool) {
		scheme, authority, path := storage.Split(dir)
		segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
		for i, seg := range segments[:len(segments)-1] {
			if !looksRandom(seg) {
				continue
			}
			head, tail := segments[:i:i], segments[i+1:]
			c := cut{
				plain:   joinURI(scheme, authority, "/"+strings.Join(append(head, tail...), "/")),
				pattern: joinURI(scheme, authority, "/"+strings.Join(append(append(head, "*"), tail...), "/")),
			}
			if !yield(c, seg) {
				return
			}
		}
	}
}

// findEntropy recognizes directories that differ from the snapshot's, or from
// each other, in one segment of random characters.
func (p *places) findEntropy(dirs []string) {
	type evidence struct {
		segments map[string]bool
		near     bool // leads to the snapshot or its job
	}
	found := map[cut]*evidence{}
	for _, d := range spread(dirs, entropySamples) {
		if p.near(d) {
			continue
		}
		for c, seg := range cuts(d) {
			e := found[c]
			if e == nil {
				e = &evidence{segments: map[string]bool{}, near: p.near(c.plain)}
				found[c] = e
			}
			e.segments[seg] = true
		}
	}
	for c, e := range found {
		enough := len(e.segments) >= 3
		if e.near && !enough {
			enough = len(e.segments) == 2
			for seg := range e.segments {
				enough = enough || len(seg) == entropyLength
			}
		}
		if !enough {
			delete(found, c)
		}
	}
	if len(found) == 0 {
		return
	}
	for _, d := range dirs {
		if p.near(d) {
			continue
		}
		for c := range cuts(d) {
			if _, ok := found[c]; ok {
				k := p.known[d]
				k.plain, k.pattern = c.plain, c.pattern
				p.known[d] = k
				break
			}
		}
	}
}

// near says that a directory is in the snapshot's or its job's.
func (p *places) near(dir string) bool {
	if _, ok := storage.Rel(p.dir, dir); ok {
		return true
	}
	if p.job == "" {
		return false
	}
	_, ok := storage.Rel(p.job, dir)
	return ok
}

// looksRandom says that a segment of a path may be injected entropy: letters
// and digits, and no name that means something to Flink.
func looksRandom(seg string) bool {
	if len(seg) < 2 || len(seg) > 31 || slices.Contains(stateDirectories, seg) {
		return false
	}
	for _, c := range []byte(seg) {
		if !isAlphanumeric(c) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// owner gives the directory of the job or savepoint that a directory
// belongs to by its name, and the segment that tells, "" if none does.
func owner(dir string) (root, kind string) {
	for d := storage.Clean(dir); ; {
		name, up := storage.Base(d), storage.Dir(d)
		if savepointPattern.MatchString(name) {
			return d, "savepoint"
		}
		if _, ok := incremental.CheckpointNumber(name); ok {
			return up, name
		}
		if slices.Contains(stateDirectories, name) {
			return up, name
		}
		if up == d || name == "" {
			return "", ""
		}
		d = up
	}
}

// findOrigin finds where the snapshot was recorded, if it was moved since.
func (p *places) findOrigin(s *Snapshot, dirs []string) {
	jobs := map[string]bool{} // to whether it has the directory of this checkpoint
	chk := fmt.Sprintf("chk-%d", s.CheckpointID)
	var own []string
	single := ""
	for _, d := range dirs {
		plain := p.known[d].plain
		if p.near(plain) {
			return // it names its own place, so it was not moved
		}
		if storage.Base(plain) == storage.Base(p.dir) && p.job == "" && !slices.Contains(own, plain) {
			own = append(own, plain)
		}
		if root, kind := owner(plain); kind != "" && kind != "savepoint" && kind != "dstl" {
			jobs[root] = jobs[root] || kind == chk
		}
		if single == "" || single == plain {
			single = plain
		} else {
			single = "-"
		}
	}
	if len(own) == 1 {
		p.oldDir = own[0]
		return
	}
	if p.oldJob = originalJob(jobs, p.job); p.oldJob != "" {
		p.oldDir = storage.Join(p.oldJob, chk)
		return
	}
	// A savepoint under another name than it had.
	var savepoints []string
	for _, d := range dirs {
		if root, kind := owner(p.known[d].plain); kind == "savepoint" && !slices.Contains(savepoints, root) {
			savepoints = append(savepoints, root)
		}
	}
	switch {
	case p.job != "":
	case len(savepoints) == 1 && len(jobs) == 0 && !hasRelative(s):
		p.oldDir = savepoints[0]
	case len(savepoints) == 0 && len(jobs) == 0 && single != "" && single != "-" && !hasRelative(s):
		p.oldDir = single
	}
}

// originalJob picks the job whose checkpoint this was from those that are named.
func originalJob(jobs map[string]bool, now string) string {
	var byName, byCheckpoint, all []string
	for j, has := range jobs {
		all = append(all, j)
		if has {
			byCheckpoint = append(byCheckpoint, j)
		}
		if now != "" && storage.Base(j) == storage.Base(now) {
			byName = append(byName, j)
		}
	}
	for _, list := range [][]string{byName, byCheckpoint, all} {
		if len(list) == 1 {
			return list[0]
		}
	}
	return ""
}

func hasRelative(s *Snapshot) bool {
	for r := range s.Refs() {
		if r.Kind == metadata.RefRelative {
			return true
		}
	}
	return false
}

func (p *places) classify(dir string) Place {
	for _, own := range []string{p.dir, p.oldDir} {
		if own != "" {
			if _, ok := storage.Rel(own, dir); ok {
				return PlaceOwn
			}
		}
	}
	root, kind := owner(dir)
	ours := p.job != "" && storage.Key(root) == storage.Key(p.job) || p.oldJob != "" && storage.Key(root) == storage.Key(p.oldJob)
	switch {
	case kind == "":
		return PlaceElsewhere
	case kind == "savepoint":
		return PlaceOtherSavepoint
	case kind == "dstl":
		return PlaceChangelog
	case !ours:
		return PlaceOtherJob
	case kind == "shared":
		return PlaceShared
	case kind == "taskowned":
		return PlaceTaskOwned
	}
	return PlaceOtherCheckpoint
}
