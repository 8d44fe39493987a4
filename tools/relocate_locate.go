package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// locate finds where the files lie now. A snapshot that was copied or renamed
// by other means still names its old place; where the files went is then
// told by --moved, or by the layout: somewhere around the metadata, at the
// end of a path that ends as the recorded one.
func (r *relocation) locate(ctx context.Context) error {
	p := r.plan
	l := &locator{
		ctx: ctx, fsys: p.source, dir: p.snapshot.Dir, rules: p.options.Moved,
		// Metadata that is corrected in place shall name the files beside it,
		// also while the originals still exist.
		preferNear: p.options.MetadataOnly && r.same,
	}
	for _, f := range r.order {
		if f.first.Kind == metadata.RefRelative {
			f.actual = f.recorded
		}
	}
	if p.options.MetadataOnly && len(p.options.Rewrite) > 0 {
		for _, f := range r.order {
			f.actual = f.recorded
		}
		for _, d := range r.dirs {
			d.actual = d.recorded
		}
		return nil // only the new places count
	}
	// What was beside the metadata shall be so again. If the source is gone
	// already, what is recorded has to do.
	elsewhere := p.options.MetadataOnly && !r.same

	var dirs []string
	byDir := map[string][]*sourceFile{}
	for _, f := range r.order {
		if f.first.Kind != metadata.RefRelative {
			d := storage.Dir(f.recorded)
			if byDir[d] == nil {
				dirs = append(dirs, d)
			}
			byDir[d] = append(byDir[d], f)
		}
	}
	moved := changes{}
	for _, d := range dirs {
		place, err := l.find(d, byDir[d])
		if err != nil && ctx.Err() == nil && elsewhere {
			place, err = d, nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.snapshot.URI, err)
		}
		for _, f := range byDir[d] {
			f.actual = storage.Clean(f.recorded)
			if place != d {
				f.actual = storage.Join(place, storage.Base(f.recorded))
				moved.add(d, place)
			}
		}
	}
	for _, d := range sortedDirectories(r.dirs) {
		place := l.findDirectory(d.recorded)
		d.actual = place
		if place != storage.Clean(d.recorded) {
			moved.add(d.recorded, place)
		}
	}
	p.Moved = moved.list()
	return nil
}

// locator finds directories that are not where the metadata says.
type locator struct {
	ctx        context.Context
	fsys       storage.FS
	dir        string // of the snapshot
	rules      []Rule
	preferNear bool

	learned []Rule // from roots that were found to roots where they are
}

// samples is how many files of a directory are looked for.
const samples = 4

// maxAncestors is how far above the snapshot files are looked for.
const maxAncestors = 6

// find gives the directory that now holds the files recorded in dir.
func (l *locator) find(dir string, files []*sourceFile) (string, error) {
	if to, ok := apply(l.rules, dir); ok {
		return to, nil
	}
	probe := spread(files, samples)
	recorded, cannotLook := l.hits(dir, probe) // a place that can't be looked at may still not be the right one
	if err := l.ctx.Err(); err != nil {
		return "", err
	}
	whole := recorded == len(probe)
	if whole && (!l.preferNear || l.own(dir)) {
		return dir, nil
	}
	for _, rule := range l.learned {
		if to, ok := apply([]Rule{rule}, dir); ok && storage.Key(to) != storage.Key(dir) && recorded == 0 {
			if n, err := l.hits(to, probe); err == nil && n == len(probe) {
				return to, nil
			}
		}
	}

	best, near, candidates := 0, 0, []candidate(nil)
	for _, c := range l.candidates(dir) {
		n, err := l.hits(c.dir, probe)
		switch {
		case l.ctx.Err() != nil:
			return "", l.ctx.Err()
		case errors.Is(err, fs.ErrPermission) && cannotLook == nil:
			cannotLook = err
		case n > best:
			best, candidates = n, []candidate{c}
		case n > 0 && n == best && !slices.ContainsFunc(candidates, func(o candidate) bool { return storage.Key(o.dir) == storage.Key(c.dir) }):
			candidates = append(candidates, c)
		}
	}
	for _, c := range candidates {
		if l.own(c.dir) || namesJob(c.suffix) {
			near++
		}
	}
	// In metadata that is corrected in place, a candidate in the layout of a job
	// wins over a recorded place elsewhere that still exists: it is the copy.
	copied := l.preferNear && near == 1 && len(candidates) == 1 && best == len(probe)
	switch {
	case best == 0 && cannotLook == nil, best == 0 && whole:
		return dir, nil // as recorded, or missing: the check will list the files
	case best == 0:
		return "", fmt.Errorf("the files recorded in %s can't be reached: %w: if they were moved, say where with --moved %s=DIR; to change only the metadata, use --metadata-only with --rewrite: %w", dir, cannotLook, dir, ErrRefused)
	case recorded >= best && !l.preferNear:
		return dir, nil
	case len(candidates) > 1 || recorded > 0 && !copied:
		var names []string
		if recorded > 0 {
			names = append(names, dir+" (as recorded)")
		}
		for _, c := range candidates {
			names = append(names, c.dir)
		}
		return "", fmt.Errorf("the files recorded in %s may be in any of %s; say which with --moved %s=DIR: %w", dir, strings.Join(names, ", "), dir, ErrRefused)
	}
	c := candidates[0]
	l.learned = append(l.learned, c.rule)
	return c.dir, nil
}

// own says that dir is the snapshot's directory or in that of its job.
func (l *locator) own(dir string) bool {
	job := l.dir
	if _, ok := incremental.CheckpointNumber(storage.Base(job)); ok {
		job = storage.Dir(job)
	}
	_, ok := storage.Rel(job, dir)
	return ok
}

// namesJob says that a job's id is among the segments.
func namesJob(segments []string) bool { return slices.ContainsFunc(segments, jobIDPattern.MatchString) }

// findDirectory gives the place of a directory of file merging, which need
// not hold a file and, on a store without directories or after a copy that
// left out empty ones, need not exist. It must never be a directory that holds
// anything else: Flink deletes it with all that is in it.
func (l *locator) findDirectory(dir string) string {
	dir = storage.Clean(dir)
	if to, ok := apply(l.rules, dir); ok {
		return to
	}
	if l.own(dir) {
		return dir // in the layout that the snapshot is in, also if it is not there
	}
	for _, rule := range l.learned {
		if to, ok := apply([]Rule{rule}, dir); ok {
			return to
		}
	}
	if !l.preferNear {
		if _, err := l.fsys.Stat(l.ctx, dir); err == nil {
			return dir
		}
	}
	for _, c := range l.candidates(dir) {
		if !namesMerged(c.suffix) {
			continue // the snapshot's own directory, or another that only has its name
		}
		if info, err := l.fsys.Stat(l.ctx, c.dir); err == nil && info.Dir {
			l.learned = append(l.learned, c.rule)
			return c.dir
		}
	}
	// The job's directory has the job's name before and after.
	job := storage.Dir(l.dir)
	if name := storage.Base(job); jobIDPattern.MatchString(name) {
		_, _, path := storage.Split(dir)
		if _, rest, ok := strings.Cut(path, "/"+name+"/"); ok {
			return storage.Join(job, rest)
		}
	}
	return dir
}

// namesMerged says that segments end as the path of a directory of file
// merging: shared or taskowned, and a name below.
func namesMerged(segments []string) bool {
	n := len(segments)
	return n >= 2 && (segments[n-2] == "shared" || segments[n-2] == "taskowned")
}

// spread picks up to n elements evenly.
func spread[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	out := make([]T, 0, n)
	for i := range n {
		out = append(out, list[i*(len(list)-1)/(n-1)])
	}
	return out
}

// hits counts the files that are in dir with a fitting size.
func (l *locator) hits(dir string, files []*sourceFile) (int, error) {
	n := 0
	for _, f := range files {
		info, err := l.fsys.Stat(l.ctx, storage.Join(dir, storage.Base(f.recorded)))
		switch {
		case err == nil && !info.Dir && f.fits(info.Size):
			n++
		case err == nil || errors.Is(err, fs.ErrNotExist):
		default:
			return n, err
		}
	}
	return n, nil
}

// candidate is a directory that may be where another one went.
type candidate struct {
	dir    string
	rule   Rule     // of the roots that make the difference
	suffix []string // of the recorded path, that stayed
}

// candidates lists the directories near the snapshot that end as the recorded
// one: the snapshot's directory itself, and below it and each of its
// ancestors every suffix of the recorded path, longest first.
func (l *locator) candidates(recorded string) []candidate {
	scheme, authority, path := storage.Split(storage.Clean(recorded))
	segments := strings.Split(strings.Trim(path, "/"), "/")
	root := func(n int) string { // recorded without its last n segments
		return storage.Clean(joinURI(scheme, authority, "/"+strings.Join(segments[:len(segments)-n], "/")))
	}
	var list []candidate
	add := func(at string, suffix int) {
		dir := storage.Join(at, segments[len(segments)-suffix:]...)
		if storage.Key(dir) != storage.Key(recorded) {
			list = append(list, candidate{dir, Rule{From: root(suffix), To: at}, segments[len(segments)-suffix:]})
		}
	}
	add(l.dir, 0)
	at := l.dir
	for range maxAncestors {
		for k := len(segments); k >= 1; k-- {
			add(at, k)
		}
		up := storage.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	return list
}

// joinURI puts the parts that storage.Split gives together again.
func joinURI(scheme, authority, path string) string {
	switch {
	case scheme == "":
		return path
	case authority == "":
		return scheme + ":" + path
	}
	return scheme + "://" + authority + path
}
