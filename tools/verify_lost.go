package tools

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/drey-state/drey/incremental"
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
// the shared files of a checkpoint in savepoints nearby (FLINK-39964). It
// gives the places that could not be looked at, where files may be after all.
func findLost(ctx context.Context, fsys storage.FS, s *Snapshot, lost []*lostFile, jobs int) (unseen []string, err error) {
	f := &lostSearch{ctx: ctx, fsys: fsys}
	if err := f.findMoved(s, lost, jobs); err != nil {
		return nil, err
	}
	dirs := []string{s.Dir}
	if _, ok := incremental.CheckpointNumber(storage.Base(s.Dir)); ok {
		job := storage.Dir(s.Dir)
		dirs = append(dirs, storage.Join(job, "shared"), storage.Join(job, "taskowned"))
	}
	if err := f.findByName(dirs, lost); err != nil {
		return nil, err
	}
	claimed := slices.DeleteFunc(slices.Clone(lost), func(l *lostFile) bool {
		return l.refs[0].Kind != metadata.RefRelative || l.refs[0].Part != metadata.PartShared || len(l.candidates) > 0
	})
	if len(claimed) > 0 {
		if err := f.findByName(f.savepointsAround(s.Dir), claimed); err != nil {
			return nil, err
		}
	}
	return f.unseen, nil
}

// lostSearch is one run of looking for lost files.
type lostSearch struct {
	ctx    context.Context
	fsys   storage.FS
	places []string // directories that could not be looked at
	unseen []string // the same with the causes
}

// failed notes that looking at what is at or in a directory failed, unless that
// tells that nothing is there.
func (f *lostSearch) failed(dir, uri string, err error) {
	if err == nil || f.ctx.Err() != nil {
		return
	}
	for _, nothing := range []error{fs.ErrNotExist, fs.ErrInvalid, storage.ErrIsDir, storage.ErrScheme} {
		if errors.Is(err, nothing) {
			return
		}
	}
	for _, p := range f.places {
		if _, ok := storage.Rel(p, dir); ok {
			return
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		// All that is below a closed directory fails: name that one.
		for up := storage.Dir(dir); up != dir; up = storage.Dir(dir) {
			if _, err := f.fsys.Stat(f.ctx, dir); !errors.Is(err, fs.ErrPermission) {
				break
			}
			dir = up
		}
	}
	f.places = append(f.places, dir)
	f.unseen = append(f.unseen, dir+": "+bareCause(err, uri))
}

// findMoved looks where the directories of the files would be if the tree
// that holds the snapshot had been moved as a whole.
func (f *lostSearch) findMoved(s *Snapshot, lost []*lostFile, jobs int) error {
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
			for _, l := range probe {
				to, ok := apply([]Rule{c.rule}, l.uri)
				if !ok {
					to = storage.Join(c.dir, storage.Base(l.uri))
				}
				info, err := f.fsys.Stat(f.ctx, to)
				if err == nil && !info.Dir && l.fits(info.Size) {
					n++
				}
				f.failed(storage.Dir(to), to, err)
			}
			if err := f.ctx.Err(); err != nil {
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
		for _, l := range files {
			if to, ok := apply([]Rule{bestRule}, l.uri); ok {
				uris = append(uris, to)
				moved = append(moved, l)
			}
		}
		answers, err := statAll(f.ctx, f.fsys, uris, jobs, nil)
		if err != nil {
			return err
		}
		for i, a := range answers {
			if a.err == nil && moved[i].fits(a.size) {
				moved[i].propose(uris[i])
			}
			f.failed(storage.Dir(uris[i]), uris[i], a.err)
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
func (f *lostSearch) findByName(dirs []string, lost []*lostFile) error {
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
		for info, err := range f.fsys.List(f.ctx, dir) {
			if err != nil {
				f.failed(dir, dir, err)
				break
			}
			for _, l := range wanted[storage.Base(info.URI)] {
				if !info.Dir && l.fits(info.Size) {
					l.propose(info.URI)
				}
			}
		}
		if err := f.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// mostSavepoints bounds the directories that are looked through.
const mostSavepoints = 200

// savepointsAround finds the directories of savepoints in the directories above dir, and in their children.
func (f *lostSearch) savepointsAround(dir string) []string {
	var found []string
	for range 4 {
		up := storage.Dir(dir)
		if up == dir {
			break
		}
		var others []string
		for info, err := range f.fsys.ReadDir(f.ctx, up) {
			if err != nil {
				f.failed(up, up, err)
				break
			}
			if len(found) >= mostSavepoints {
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
			c, err := readChildren(f.ctx, f.fsys, o)
			if err == nil {
				found = append(found, c.savepoints...)
			}
			f.failed(o, o, err)
		}
		dir = up
	}
	return found[:min(len(found), mostSavepoints)]
}
