package tools

import (
	"context"
	"slices"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// lostFile is a file that is not where the metadata says.
type lostFile struct {
	*checkedFile
	index      int // of the problem
	candidates []string
}

// findLost looks for the lost files of a snapshot elsewhere: around the
// snapshot, as if the whole tree was moved; then by name and size in its
// directory and in the job's shared and taskowned; and for relative handles among
// the shared files of a checkpoint in savepoints nearby (FLINK-39964). What
// can't be read is left out: this is only about proposals.
func findLost(ctx context.Context, fsys storage.FS, s *Snapshot, lost []*lostFile, jobs int) error {
	if err := findMoved(ctx, fsys, s, lost, jobs); err != nil {
		return err
	}
	dirs := []string{s.Dir}
	if _, ok := checkpointNumber(storage.Base(s.Dir)); ok {
		job := storage.Dir(s.Dir)
		dirs = append(dirs, storage.Join(job, "shared"), storage.Join(job, "taskowned"))
	}
	if err := findByName(ctx, fsys, dirs, lost); err != nil {
		return err
	}
	claimed := slices.DeleteFunc(slices.Clone(lost), func(l *lostFile) bool {
		return l.refs[0].Kind != metadata.RefRelative || l.refs[0].Part != metadata.PartShared || len(l.candidates) > 0
	})
	if len(claimed) == 0 {
		return nil
	}
	return findByName(ctx, fsys, savepointsAround(ctx, fsys, s.Dir), claimed)
}

// findMoved looks where the directories of the files would be if the tree
// that holds the snapshot had been moved as a whole.
func findMoved(ctx context.Context, fsys storage.FS, s *Snapshot, lost []*lostFile, jobs int) error {
	byDir := map[string][]*lostFile{}
	p := newPlaces(s)
	for _, l := range lost {
		if r := l.refs[0]; r.Kind != metadata.RefRelative {
			// Files that entropy injection scattered are looked for as they lie.
			byDir[p.of(r).pattern] = append(byDir[p.of(r).pattern], l)
		}
	}
	near := &locator{dir: s.Dir}
	for _, pattern := range sortedKeys(byDir) {
		files := byDir[pattern]
		probe := spread(files, samples)
		best, bestRule := 0, Rule{}
		for _, c := range near.candidates(refDir(files[0].refs[0])) {
			n := 0
			for _, f := range probe {
				to, ok := apply([]Rule{c.rule}, f.uri)
				if !ok {
					to = storage.Join(c.dir, storage.Base(f.uri))
				}
				if info, err := fsys.Stat(ctx, to); err == nil && !info.Dir && f.fits(info.Size) {
					n++
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if n > best {
				best, bestRule = n, c.rule
			}
			if n == len(probe) {
				break
			}
		}
		if best == 0 {
			continue
		}
		var uris []string
		var moved []*lostFile
		for _, f := range files {
			if to, ok := apply([]Rule{bestRule}, f.uri); ok {
				uris = append(uris, to)
				moved = append(moved, f)
			}
		}
		answers, err := statAll(ctx, fsys, uris, jobs, nil)
		if err != nil {
			return err
		}
		for i, a := range answers {
			if a.err == nil && moved[i].fits(a.size) {
				moved[i].propose(uris[i])
			}
		}
	}
	return nil
}

// mostCandidates is how many places are proposed for one file.
const mostCandidates = 3

func (l *lostFile) propose(uri string) {
	if len(l.candidates) < mostCandidates && storage.Key(uri) != storage.Key(l.uri) && !slices.Contains(l.candidates, uri) {
		l.candidates = append(l.candidates, uri)
	}
}

// findByName lists directories and proposes files of the same name and size.
// A name can be another file's unless Flink made it up at random, so that the size must be known.
func findByName(ctx context.Context, fsys storage.FS, dirs []string, lost []*lostFile) error {
	wanted := map[string][]*lostFile{}
	for _, l := range lost {
		if len(l.candidates) == 0 && l.want() >= 0 {
			name := storage.Base(l.uri)
			wanted[name] = append(wanted[name], l)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for _, dir := range dirs {
		for info, err := range fsys.List(ctx, dir) {
			if err != nil {
				break
			}
			for _, l := range wanted[storage.Base(info.URI)] {
				if l.fits(info.Size) {
					l.propose(info.URI)
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// mostSavepoints bounds the directories that are looked through.
const mostSavepoints = 200

// savepointsAround finds the directories of savepoints in the directories above dir, and in their children.
func savepointsAround(ctx context.Context, fsys storage.FS, dir string) []string {
	var found []string
	for range 4 {
		up := storage.Dir(dir)
		if up == dir {
			break
		}
		var others []string
		for info, err := range fsys.ReadDir(ctx, up) {
			if err != nil || len(found) >= mostSavepoints {
				break
			}
			switch name := storage.Base(info.URI); {
			case !info.Dir || storage.Key(info.URI) == storage.Key(dir):
			case savepointPattern.MatchString(name):
				found = append(found, info.URI)
			case !jobIDPattern.MatchString(name) && len(others) < mostSavepoints:
				others = append(others, info.URI)
			}
		}
		for _, o := range others {
			if c, err := readChildren(ctx, fsys, o); err == nil {
				found = append(found, c.savepoints...)
			}
		}
		dir = up
	}
	return found[:min(len(found), mostSavepoints)]
}
