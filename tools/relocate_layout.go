package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// choose gives every file and directory its new place.
func (r *relocation) choose() error {
	o := &r.plan.options
	var problems []FileProblem
	l := &layout{dir: r.dir, source: r.plan.snapshot.Dir, flat: o.MakeRelative, taken: map[string]string{}, merged: map[string]*directory{}}

	// Names that must stay come first, so that others give way.
	for _, f := range r.order {
		if f.first.Kind == metadata.RefRelative {
			f.relative = true
			f.target = storage.Join(r.dir, f.first.Path)
			l.taken[storage.Key(f.target)] = storage.Key(f.actual)
		}
	}
	for _, d := range sortedDirectories(r.dirs) {
		if o.MakeRelative {
			problems = append(problems, problem(d.first, d.recorded, "a directory of file merging has no relative form"))
			continue
		}
		if to, ok := r.place(d.recorded, d.actual, func() string { return l.directory(d) }); ok {
			d.target = to
		} else {
			problems = append(problems, problem(d.first, d.recorded, "no --rewrite rule matches"))
		}
	}
	for _, f := range r.order {
		if f.first.Kind == metadata.RefRelative {
			continue
		}
		if o.MakeRelative && f.first.Kind == metadata.RefSegment {
			problems = append(problems, problem(f.first, f.recorded, "a segment of a merged file has no relative form"))
			continue
		}
		f.relative = o.MakeRelative
		if to, ok := r.place(f.recorded, f.actual, func() string { return l.file(f) }); ok {
			f.target = to
		} else {
			problems = append(problems, problem(f.first, f.recorded, "no --rewrite rule matches"))
		}
	}
	if len(problems) == 0 {
		if err := r.keepApart(); err != nil {
			return err
		}
		return r.relativeInPlace()
	}
	e := &ProblemsError{Problems: problems, Refused: true}
	if o.MakeRelative {
		e.What = fmt.Sprintf("%s: %d places can't be made relative; nothing was written:", r.plan.snapshot.URI, len(problems))
		e.Advice = "relocate without --make-relative, or take a savepoint, which does not merge files"
		return e
	}
	missing := map[string]bool{}
	for _, p := range problems {
		missing[storage.Dir(p.Path)] = true
	}
	e.What = fmt.Sprintf("%s: %s no --rewrite rule; nothing was written:", r.plan.snapshot.URI, matchNo(len(problems)))
	e.Advice = "add a rule for each of: " + listSome(sortedKeys(missing)) + " (such as --rewrite FROM=TO)"
	return e
}

func matchNo(n int) string {
	if n == 1 {
		return "1 path matches"
	}
	return fmt.Sprintf("%d paths match", n)
}

// keepApart refuses rules that would make two files one, or the snapshot's
// directory one that Flink may delete.
func (r *relocation) keepApart() error {
	var problems []FileProblem
	for _, d := range sortedDirectories(r.dirs) {
		if _, inside := storage.Rel(d.target, r.dir); inside {
			problems = append(problems, problem(d.first, d.recorded, fmt.Sprintf("would become %s, which holds the new snapshot: Flink deletes this directory with all it holds", d.target)))
		}
	}
	at := make(map[string]*sourceFile, len(r.order))
	for _, f := range r.order {
		key := storage.Key(f.target)
		if other := at[key]; other != nil && storage.Key(other.actual) != storage.Key(f.actual) {
			problems = append(problems, problem(f.first, f.recorded, fmt.Sprintf("would become %s, as would %s", f.target, other.recorded)))
			continue
		}
		if storage.Base(f.target) == MetadataName && key == storage.Key(r.plan.Target) {
			problems = append(problems, problem(f.first, f.recorded, "would become the metadata file"))
			continue
		}
		at[key] = f
	}
	if len(problems) == 0 {
		return nil
	}
	return &ProblemsError{What: r.plan.snapshot.URI + ": places that must differ would be the same; nothing was written:", Problems: problems, Refused: true,
		Advice: "use rules that keep them apart, or none: files are then given names of their own"}
}

// relativeInPlace refuses to make handles relative in place whose files lie elsewhere.
func (r *relocation) relativeInPlace() error {
	if !r.plan.options.MakeRelative || !r.plan.options.MetadataOnly {
		return nil
	}
	var problems []FileProblem
	for _, f := range r.order {
		if _, below := storage.Rel(r.dir, f.actual); r.same && !below {
			problems = append(problems, problem(f.first, f.actual, "not in the directory of "+MetadataName))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &ProblemsError{What: r.plan.snapshot.URI + ": these files don't lie in the directory of the metadata, so their handles can't be made relative in place:", Problems: problems, Refused: true,
		Advice: "relocate to another directory with --make-relative, which gathers them"}
}

// place says where a recorded path shall be; gather is for the case that no rule is given.
func (r *relocation) place(recorded, actual string, gather func() string) (string, bool) {
	o := &r.plan.options
	switch {
	case o.MetadataOnly && r.same && len(o.Rewrite) == 0:
		return actual, true
	case len(o.Rewrite) > 0 && !o.MakeRelative:
		return apply(o.Rewrite, recorded)
	}
	return gather(), true
}

// layout arranges files in one directory: what was beside the metadata stays
// there, what was in shared/, taskowned/ or dstl/ goes into a directory of that
// name, and what was scattered elsewhere comes beside the metadata.
type layout struct {
	dir    string // the new directory
	source string // the snapshot's directory now
	flat   bool
	taken  map[string]string     // key of a place to key of what goes there
	merged map[string]*directory // that have a place, by key
}

// stateDirectories are the directories of a job, and of the changelog, that hold state.
var stateDirectories = []string{"shared", "taskowned", "dstl"}

func (l *layout) directory(d *directory) string {
	to := l.claim(l.rest(d.recorded, d.actual), d.actual)
	d.target = to
	l.merged[storage.Key(d.recorded)] = d
	return to
}

func (l *layout) file(f *sourceFile) string {
	if l.flat {
		return l.claim([]string{storage.Base(f.recorded)}, f.actual)
	}
	// A file of a directory that file merging registers goes where that goes.
	for up, last := storage.Dir(f.recorded), f.recorded; up != last && len(l.merged) > 0; up, last = storage.Dir(up), up {
		if d := l.merged[storage.Key(up)]; d != nil {
			rest, _ := storage.Rel(up, f.recorded)
			return storage.Join(d.target, rest)
		}
	}
	return l.claim(l.rest(f.recorded, f.actual), f.actual)
}

// rest is the place of a path in the new directory, as segments.
func (l *layout) rest(recorded, actual string) []string {
	if rest, ok := storage.Rel(l.source, actual); ok && rest != "" {
		return strings.Split(rest, "/")
	}
	_, _, path := storage.Split(storage.Clean(recorded))
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i := len(segments) - 2; i > 0; i-- {
		if slices.Contains(stateDirectories, segments[i]) && jobIDPattern.MatchString(segments[i-1]) {
			return segments[i:]
		}
	}
	if rest, ok := storage.Rel(storage.Dir(l.source), actual); ok {
		if first, _, _ := strings.Cut(rest, "/"); slices.Contains(stateDirectories, first) {
			return strings.Split(rest, "/")
		}
	}
	return segments[len(segments)-1:]
}

// claim gives what is at a place now one of its own: files of one name from
// several places get names that tell them apart, the same ones on every run.
func (l *layout) claim(rest []string, actual string) string {
	what := storage.Key(actual)
	to := storage.Join(l.dir, rest...)
	for n := 8; ; n += 8 {
		key := storage.Key(to)
		if is, ok := l.taken[key]; (!ok || is == what) && storage.Base(to) != MetadataName {
			l.taken[key] = what
			return to
		}
		sum := sha256.Sum256([]byte(what))
		to = storage.Join(l.dir, rest...) + "-" + hex.EncodeToString(sum[:])[:n]
	}
}

func sortedDirectories(dirs map[string]*directory) []*directory {
	keys := sortedKeys(dirs)
	list := make([]*directory, len(keys))
	for i, k := range keys {
		list[i] = dirs[k]
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
