package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// RelocateOptions are the options of [PlanRelocate]; the zero value copies
// the snapshot into one directory that holds all of it.
type RelocateOptions struct {
	// Target is the store of the destination if it is another than the
	// source's, for example because it needs other credentials. nil means the same.
	Target storage.FS
	// Rewrite says where recorded paths shall point afterwards, and so where
	// the files go. If there is a rule, every absolute path must match one.
	Rewrite []Rule
	// Moved says where files lie whose recorded place is out of date. Paths
	// that no rule matches are looked for at their recorded place, and then
	// where the layout of the snapshot suggests.
	Moved []Rule
	// MetadataOnly writes the metadata and copies nothing: the files are at
	// their new places already.
	MetadataOnly bool
	// Output is, with MetadataOnly, the metadata file to write, for example
	// on another disk; "" means _metadata in the destination.
	Output string
	// Unchecked leaves out, with MetadataOnly, the check that they are.
	Unchecked bool
	// MakeRelative turns the handles of files into relative ones and puts
	// the files beside the metadata, so that the directory can be moved by plain copy.
	MakeRelative bool
	// Service names the service that shall import the target, whose limits
	// are then checked: [ServiceAWS] or "".
	Service string
	// Jobs is the number of files to work on at once; 0 means 4 for each CPU, at least 16.
	Jobs int
	// Progress, if not nil, is called from several goroutines.
	Progress func(RelocateProgress)
}

// ServiceAWS is Amazon's managed service for Apache Flink, which imports a
// snapshot from a prefix of a bucket.
const ServiceAWS = "aws-msf"

// maxServicePrefix is the longest prefix, in characters, that ServiceAWS takes.
const maxServicePrefix = 200

func (o *RelocateOptions) jobs() int { return defaultJobs(o.Jobs) }

// RelocateProgress is how far a relocation is.
type RelocateProgress struct {
	// Phase is "checking" or "copying".
	Phase             string
	Files, TotalFiles int
	Bytes, TotalBytes int64
}

// RelocatePlan is what a relocation will do. Show it, then call [RelocatePlan.Execute].
type RelocatePlan struct {
	// Source and Target are the metadata files.
	Source string `json:"source"`
	Target string `json:"target"`
	// Chosen says which checkpoint was taken if a job's directory was named.
	Chosen string `json:"chosen,omitempty"`
	// Version of the metadata, which a relocation does not change.
	Version metadata.Version `json:"version"`
	// Absolute and Relative count the handles of files in the source; a file may have several.
	Absolute int `json:"absoluteHandles"`
	Relative int `json:"relativeHandles"`
	// SameMetadata says that the metadata stays byte for byte, and Why.
	SameMetadata bool   `json:"sameMetadata"`
	Why          string `json:"why,omitempty"`
	// Moved says where files were found that are not where the metadata says.
	Moved []PathChange `json:"moved"`
	// Rewritten says where recorded directories point afterwards.
	Rewritten []PathChange `json:"rewritten"`
	// Files are the files to copy or already there, without the metadata; in no order.
	Files []FileCopy `json:"files"`
	// Bytes of all files, and of those that are not there yet.
	Bytes       int64 `json:"bytes"`
	BytesToCopy int64 `json:"bytesToCopy"`
	FilesToCopy int   `json:"filesToCopy"`
	// Done says that nothing is left to do: target and source are the same, or an
	// earlier run had completed.
	Done bool `json:"done"`
	// Backup is where the old metadata is kept if it is rewritten in place.
	Backup string `json:"backup,omitempty"`
	// Payload is what looks like a path under the old places inside state, which is never rewritten.
	Payload []PayloadURI `json:"payloadURIs"`
	// Warnings are other things that the user should know.
	Warnings []string `json:"warnings"`

	snapshot *Snapshot
	out      []byte // the new metadata
	options  RelocateOptions
	source   storage.FS
	target   storage.FS
}

// PathChange is a directory in metadata and where it is or will be.
type PathChange struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Handles int    `json:"handles"`
}

// FileCopy is one file of a plan.
type FileCopy struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Size   int64  `json:"size"`
	// Present says that the target is there with this size.
	Present bool `json:"present"`
}

// FileProblem is something wrong with a file of a snapshot.
type FileProblem struct {
	Path    string `json:"path"`
	Used    string `json:"usedBy"`
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// ProblemsError is a list of problems, all that were found.
type ProblemsError struct {
	What     string
	Problems []FileProblem
	// Advice is what to do next.
	Advice string
	// Refused makes the error an ErrRefused.
	Refused bool
}

// mostProblems is how many problems an error's text shows.
const mostProblems = 20

// Error implements error.
func (e *ProblemsError) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	for i, p := range e.Problems {
		if i == mostProblems {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s (%s; %s)", p.Path, p.Problem, p.Used, p.Field)
	}
	if e.Advice != "" {
		b.WriteString("\n" + e.Advice)
	}
	return b.String()
}

// Is makes the error an ErrRefused where it is one.
func (e *ProblemsError) Is(target error) bool { return e.Refused && target == ErrRefused }

// sourceFile is a file of the snapshot, however often it is named.
type sourceFile struct {
	first    metadata.Ref // the first place that names it
	recorded string       // as recorded, for a relative one absolute
	actual   string
	target   string
	relative bool // the new handle is relative
	demand
}

// PlanRelocate finds out what it takes to move the snapshot src to the
// directory dst, or with the metadata file dst if it is named _metadata. With
// o.MetadataOnly dst may be empty, which means in place. Nothing is changed.
func PlanRelocate(ctx context.Context, fsys storage.FS, src, dst string, o RelocateOptions) (*RelocatePlan, error) {
	s, err := Open(ctx, fsys, src)
	if err != nil {
		return nil, err
	}
	p := &RelocatePlan{
		Source: s.URI, Chosen: s.Chosen, Version: s.Version, snapshot: s, options: o, source: fsys, target: o.Target,
		Moved: []PathChange{}, Rewritten: []PathChange{}, Files: []FileCopy{}, Payload: []PayloadURI{}, Warnings: []string{},
	}
	if p.target == nil {
		p.target = fsys
	}
	if err := mustRoundTrip(s); err != nil {
		return nil, err
	}
	if err := errors.Join(contradiction(o.Rewrite), contradiction(o.Moved)); err != nil {
		return nil, err
	}
	dir, uri, err := p.destination(ctx, dst)
	if err != nil {
		return nil, err
	}
	p.Target = uri
	r := &relocation{plan: p, dir: dir, files: map[string]*sourceFile{}, dirs: map[string]*directory{}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// mustRoundTrip refuses metadata that would not come out as it went in, as it
// was not understood then. No such file is known.
func mustRoundTrip(s *Snapshot) error {
	out, err := metadata.Encode(s.Snapshot)
	if err == nil && !bytes.Equal(out, s.Data) {
		err = errors.New("encoding it again gives other bytes")
	}
	if err != nil {
		return fmt.Errorf("%s: not understood well enough to rewrite it: %w: %w", s.URI, err, ErrRefused)
	}
	return nil
}

// destination gives the directory of the new snapshot and its metadata file.
func (p *RelocatePlan) destination(ctx context.Context, dst string) (dir, uri string, err error) {
	o := &p.options
	switch {
	case o.Output != "" && !o.MetadataOnly:
		return "", "", errors.New("only with MetadataOnly the metadata is written elsewhere")
	case dst == "" && !o.MetadataOnly:
		return "", "", errors.New("no destination")
	case dst == "":
		dir, uri = p.snapshot.Dir, p.snapshot.URI
	case storage.Base(dst) == MetadataName:
		uri = storage.Clean(dst)
		dir = storage.Dir(uri)
	default:
		dir = storage.Clean(dst)
		uri = storage.Join(dir, MetadataName)
		info, err := p.target.Stat(ctx, dir)
		if err == nil && !info.Dir {
			return "", "", fmt.Errorf("%s: a file, not a directory: %w", dir, ErrRefused)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
	}
	if o.Output != "" {
		uri = storage.Clean(o.Output)
	}
	return dir, uri, nil
}

// relocation is the work of planning.
type relocation struct {
	plan  *RelocatePlan
	dir   string                 // the target directory
	files map[string]*sourceFile // by key of the recorded path
	order []*sourceFile
	named []*sourceFile         // by each reference to a file, in the order of the metadata
	dirs  map[string]*directory // directories of file merging by key
	same  bool                  // source and target are one place
}

// directory is a directory that file merging registers.
type directory struct {
	recorded, actual, target string
	first                    metadata.Ref
}

func (r *relocation) run(ctx context.Context) error {
	p := r.plan
	s := p.snapshot
	r.same = storage.Key(r.dir) == storage.Key(s.Dir) && sameStore(p.source, p.target)
	if r.same && !p.options.MetadataOnly && len(p.options.Rewrite) == 0 && !p.options.MakeRelative {
		return r.ontoItself(ctx)
	}
	if r.same && !p.options.MetadataOnly {
		return fmt.Errorf("%s: source and target are the same directory; to change the metadata in place use --metadata-only: %w", s.Dir, ErrRefused)
	}
	if p.options.MakeRelative && s.Version == metadata.Version1 {
		return fmt.Errorf("%s: version 1, which only Flink %s reads, and these know no relative handles: %w", s.URI, s.Version.Readers(), ErrRefused)
	}
	if p.options.MakeRelative && s.Version == metadata.Version2 {
		p.Warnings = append(p.Warnings, "relative handles in metadata of version 2: Flink 1.11 and later reads it, 1.10 and earlier does not")
	}
	if !r.same && sameStore(p.source, p.target) {
		if _, below := storage.Rel(s.Dir, r.dir); below {
			return fmt.Errorf("%s lies inside of the source %s, which is never changed; choose another destination: %w", r.dir, s.Dir, ErrRefused)
		}
		if _, above := storage.Rel(r.dir, s.Dir); above {
			return fmt.Errorf("%s holds the source %s, so that the two would mix; choose another destination: %w", r.dir, s.Dir, ErrRefused)
		}
	}
	if err := r.collect(); err != nil {
		return err
	}
	if err := r.locate(ctx); err != nil {
		return err
	}
	if err := r.choose(); err != nil {
		return err
	}
	if err := r.encode(); err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	if err := r.searchPayload(ctx); err != nil {
		return err
	}
	r.checkService()
	if err := r.checkOutput(); err != nil {
		return err
	}
	return r.checkTarget(ctx)
}

// ontoItself is the relocation of a snapshot to where it is: nothing is to
// be done, if everything is there.
func (r *relocation) ontoItself(ctx context.Context) error {
	p := r.plan
	if err := r.collect(); err != nil {
		return err
	}
	uris := make([]string, len(r.order))
	for i, f := range r.order {
		f.actual, f.target = f.recorded, f.recorded
		uris[i] = f.recorded
	}
	places, err := statAll(ctx, p.source, uris, p.options.jobs(), nil)
	if err != nil {
		return err
	}
	if err := r.complain(places, uris, "not where the metadata says, and source and target are the same directory, so that nothing would be copied:",
		"if the snapshot was moved as a whole, `drey relocate --metadata-only` corrects its metadata in place"); err != nil {
		return err
	}
	p.Done, p.SameMetadata, p.Why = true, true, "source and target are the same directory"
	p.out = p.snapshot.Data
	return nil
}

// checkService warns where the target is not what a service imports.
func (r *relocation) checkService() {
	p := r.plan
	if p.options.Service != ServiceAWS {
		return
	}
	_, _, path := storage.Split(r.dir)
	if n := utf8.RuneCountInString(strings.TrimPrefix(path, "/")); storage.Scheme(r.dir) != "s3" || n > maxServicePrefix {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s imports from a prefix of an S3 bucket of at most %d characters; %s has %d", ServiceAWS, maxServicePrefix, r.dir, n))
	}
	if p.Absolute > 0 && !p.options.MakeRelative {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s copies the directory to a place of its own, where %s would still point here; use --make-relative", ServiceAWS, count(p.Absolute, "absolute handle")))
	}
}

// collect gathers the distinct files and directories that the snapshot names.
func (r *relocation) collect() error {
	var problems []FileProblem
	s := r.plan.snapshot
	for ref := range s.Refs() {
		if ref.Kind == metadata.RefDirectory {
			key := storage.Key(ref.Path)
			if r.dirs[key] == nil {
				r.dirs[key] = &directory{recorded: ref.Path, first: ref}
			}
			continue
		}
		recorded := ref.Path
		if ref.Kind == metadata.RefRelative {
			r.plan.Relative++
			if why := escapes(ref.Path); why != "" {
				problems = append(problems, problem(ref, ref.Path, why))
				continue
			}
			recorded = storage.Join(s.Dir, ref.Path)
		} else {
			r.plan.Absolute++
		}
		key := fileKey(ref, recorded)
		f := r.files[key]
		if f == nil {
			f = &sourceFile{first: ref, recorded: recorded, demand: newDemand()}
			r.files[key] = f
			r.order = append(r.order, f)
		}
		r.named = append(r.named, f)
		if err := f.add(ref); err != "" {
			problems = append(problems, problem(ref, ref.Path, err))
		}
	}
	if len(problems) > 0 {
		return &ProblemsError{What: s.URI + ": the metadata names files in ways that can't be relocated:", Problems: problems, Refused: true}
	}
	return nil
}

// fileKey tells the files apart. A relative one lies beside the metadata,
// wherever that is, and is not one that an absolute path names even if that happens to be equal.
func fileKey(ref metadata.Ref, recorded string) string {
	if ref.Kind == metadata.RefRelative {
		return "./" + ref.Path
	}
	return storage.Key(recorded)
}

// escapes says why a relative path is not one beside the metadata. Flink
// writes a single name only.
func escapes(path string) string {
	scheme, _, _ := storage.Split(path)
	switch {
	case path == "":
		return "an empty relative path"
	case scheme != "" || strings.HasPrefix(path, "/"):
		return "a relative handle with an absolute path"
	case slices.Contains(strings.Split(strings.ReplaceAll(path, `\`, "/"), "/"), ".."):
		return "a relative path that leaves the snapshot's directory"
	}
	return ""
}

func problem(ref metadata.Ref, path, what string) FileProblem {
	return FileProblem{Path: path, Used: describe(ref), Field: ref.Field(), Problem: what}
}

// encode makes the new metadata and sums up what changes.
func (r *relocation) encode() error {
	p := r.plan
	old := p.snapshot
	rewritten := changes{}
	next := 0
	mapped, err := old.Rewrite(func(ref metadata.Ref) (metadata.Location, error) {
		if ref.Kind == metadata.RefDirectory {
			to := r.dirs[storage.Key(ref.Path)].target
			if to != ref.Path {
				rewritten.add(ref.Path, to)
			}
			return metadata.Location{Path: to}, nil
		}
		f := r.named[next]
		next++
		if f.relative {
			rel, ok := storage.Rel(r.dir, f.target)
			if !ok {
				return metadata.Location{}, fmt.Errorf("%s is not below %s", f.target, r.dir)
			}
			if ref.Kind != metadata.RefRelative {
				rewritten.add(storage.Dir(ref.Path), besideMetadata)
			}
			return metadata.Location{Path: rel, Relative: true}, nil
		}
		if storage.Clean(ref.Path) == f.target {
			return metadata.Location{Path: ref.Path}, nil
		}
		rewritten.add(storage.Dir(ref.Path), storage.Dir(f.target))
		return metadata.Location{Path: f.target}, nil
	})
	if err != nil {
		return fmt.Errorf("%s: rewriting it: %w", old.URI, err)
	}
	p.Rewritten = rewritten.list()
	if mapped == old.Snapshot {
		p.out, p.SameMetadata = old.Data, true
		p.Why = fmt.Sprintf("no path changes: %s relative, %d absolute", count(p.Relative, "handle"), p.Absolute)
		if p.Absolute == 0 && len(r.dirs) == 0 {
			p.Why = fmt.Sprintf("the snapshot is self-contained: %s relative, none absolute; a plain copy of the directory would do", count(p.Relative, "handle"))
		}
		return nil
	}
	p.out, err = metadata.Encode(mapped)
	if err != nil {
		return fmt.Errorf("%s: rewriting it: %w", old.URI, err)
	}
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// changes counts pairs of directories, each cut to where the two differ, so
// that a tree that moved as a whole is one pair.
type changes map[[2]string]int

func (c changes) add(from, to string) {
	if pair := [2]string{from, to}; c[pair] > 0 {
		c[pair]++ // nothing to cut
		return
	}
	for storage.Base(from) == storage.Base(to) && storage.Base(from) != "" {
		from, to = storage.Dir(from), storage.Dir(to)
	}
	c[[2]string{from, to}]++
}

// besideMetadata stands for the place of files with relative handles.
const besideMetadata = "(relative)"

func (c changes) list() []PathChange {
	list := make([]PathChange, 0, len(c))
	for pair, n := range c {
		list = append(list, PathChange{pair[0], pair[1], n})
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].From != list[j].From {
			return list[i].From < list[j].From
		}
		return list[i].To < list[j].To
	})
	return list
}

// sameStore says that a and b are one store.
func sameStore(a, b storage.FS) bool {
	if m, ok := a.(storage.Mux); ok {
		n, ok := b.(storage.Mux)
		if !ok || len(m) != len(n) {
			return false
		}
		for scheme, f := range m {
			if n[scheme] != f {
				return false
			}
		}
		return true
	}
	if _, ok := b.(storage.Mux); ok {
		return false
	}
	return a == b
}
