package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// VerifyOptions are the options of [Verify]; the zero value is the default.
type VerifyOptions struct {
	// Jobs is the number of files to look at at once; 0 means 4 for each CPU, at least 16.
	Jobs int
	// Progress, if not nil, is told how many of the files were looked at. It
	// is called from several goroutines.
	Progress func(done, total int)
	// Deep also reads and decodes all state, see [VerifyDeep].
	Deep bool
	// DeepJobs is the number of goroutines that decode; 0 means one for each CPU.
	DeepJobs int
	// DeepProgress, if not nil, is told how many bytes of state of one snapshot were
	// read and how many there are. It is called from several goroutines.
	DeepProgress func(done, total int64)
}

// Verdicts on a snapshot.
const (
	VerdictIntact     = "intact"
	VerdictDamaged    = "damaged"
	VerdictUndecided  = "undecided"
	VerdictUnreadable = "unreadable"
)

// Kinds of problems.
const (
	ProblemMissing   = "missing"
	ProblemWrongSize = "wrong size"
	ProblemAccess    = "not readable"
	ProblemOffset    = "bad offset"
)

// Verification is what [Verify] found. If not deep, it looks at existence and
// size only: neither _metadata nor the files as a whole have checksums.
type Verification struct {
	Snapshots []SnapshotCheck `json:"snapshots"`
	// Files were looked at, each once also if several snapshots name it; Bytes is the size of those that are there.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Damaged, Undecided and Unreadable count snapshots by verdict.
	Damaged    int `json:"damaged"`
	Undecided  int `json:"undecided"`
	Unreadable int `json:"unreadable"`
}

// SnapshotCheck is what was found of one snapshot.
type SnapshotCheck struct {
	Argument string `json:"argument"`
	Snapshot string `json:"snapshot,omitempty"`
	Chosen   string `json:"chosen,omitempty"`
	Verdict  string `json:"verdict"`
	// Error says why the metadata could not be read.
	Error        string           `json:"error,omitempty"`
	Version      metadata.Version `json:"version,omitempty"`
	CheckpointID int64            `json:"checkpointID"`
	Kind         string           `json:"kind,omitempty"`
	// Handles name files, Files are the distinct ones, Bytes what they must have at least.
	Handles int   `json:"handles"`
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	// Missing, WrongSize and Undecided count files.
	Missing   int            `json:"missing"`
	WrongSize int            `json:"wrongSize"`
	Undecided int            `json:"undecided"`
	Problems  []CheckProblem `json:"problems"`
	// Usable says what the problems leave untouched.
	Usable string `json:"usable,omitempty"`
	// Moved says that all files that are missing were found elsewhere, as they
	// are when the snapshot as a whole was moved.
	Moved bool `json:"moved,omitempty"`
	// Unseen are places around the snapshot, with the cause, that could not be
	// looked at when files that are missing were looked for.
	Unseen []string `json:"unseen,omitempty"`
	// Advice is what to do about the problems.
	Advice   []string `json:"advice,omitempty"`
	Warnings []string `json:"warnings"`
	// Deep is what was found in the files; nil if they were not read.
	Deep *DeepCheck `json:"deep,omitempty"`

	snapshot *Snapshot
	files    []*checkedFile
}

// CheckProblem is something wrong with one file.
type CheckProblem struct {
	Problem string `json:"problem"`
	// File is where the metadata says that it is.
	File   string `json:"file,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Expected is the size in bytes that the metadata demands, of a merged
	// file at least; -1 if it demands none. Found is the file's size.
	Expected int64  `json:"expected"`
	Found    *int64 `json:"found,omitempty"`
	// Uses are the handles that name it.
	Uses []Use `json:"uses"`
	// Candidates are files of the same name and size at other places.
	Candidates []string `json:"candidates,omitempty"`
}

// Use is a handle that names a file.
type Use struct {
	Operator  metadata.OperatorID `json:"operator"`
	Name      string              `json:"name,omitempty"`
	UID       string              `json:"uid,omitempty"`
	Subtask   int32               `json:"subtask"`
	Role      string              `json:"role"`
	Part      string              `json:"part"`
	KeyGroups string              `json:"keyGroups,omitempty"`
	LocalName string              `json:"localName,omitempty"`
	Field     string              `json:"field"`
	Start     int64               `json:"start,omitempty"`
	Size      int64               `json:"size"`
	// Text says all this in a sentence.
	Text string `json:"text"`
}

func newUse(r metadata.Ref) Use {
	u := Use{
		Operator: r.Operator.ID, Name: r.Operator.Name.String(), UID: r.Operator.UID.String(), Subtask: r.Subtask,
		Role: r.Role.String(), Part: r.Part.String(), LocalName: r.LocalName, Field: r.Field(), Start: r.Start, Size: r.Size, Text: describe(r),
	}
	if !r.KeyGroups.Empty() {
		u.KeyGroups = r.KeyGroups.String()
	}
	return u
}

// checkedFile is a file of one snapshot.
type checkedFile struct {
	uri  string // as recorded, for a relative one absolute
	stat int    // index of the answer
	refs []metadata.Ref
	demand
}

// Verify checks snapshots: that their metadata can be decoded and makes
// sense, and that every file that they name is there and has the right size.
// All problems are reported. The error is of the context only.
func Verify(ctx context.Context, fsys storage.FS, args []string, o VerifyOptions) (*Verification, error) {
	o.Jobs = defaultJobs(o.Jobs)
	v := &Verification{Snapshots: make([]SnapshotCheck, len(args))}
	var uris []string
	index := map[string]int{} // key to index in uris
	for i, arg := range args {
		c := &v.Snapshots[i]
		*c = SnapshotCheck{Argument: arg, Problems: []CheckProblem{}, Warnings: []string{}}
		s, err := Open(ctx, fsys, arg)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			c.Verdict, c.Error = VerdictUnreadable, err.Error()
			continue
		}
		c.collect(s, func(key, uri string) int {
			n, ok := index[key]
			if !ok {
				n = len(uris)
				index[key] = n
				uris = append(uris, uri)
			}
			return n
		})
	}
	var report func(int)
	if o.Progress != nil {
		report = func(done int) { o.Progress(done, len(uris)) }
	}
	answers, err := statAll(ctx, fsys, uris, o.Jobs, report)
	if err != nil {
		return nil, err
	}
	v.Files = len(uris)
	for _, a := range answers {
		if a.err == nil {
			v.Bytes += a.size
		}
	}
	for i := range v.Snapshots {
		c := &v.Snapshots[i]
		if c.snapshot == nil {
			v.Unreadable++
			continue
		}
		if err := c.decide(ctx, fsys, answers, o.Jobs); err != nil {
			return nil, err
		}
		if o.Deep {
			if err := c.deepen(ctx, fsys, o); err != nil {
				return nil, err
			}
		}
		switch c.Verdict {
		case VerdictDamaged:
			v.Damaged++
		case VerdictUndecided:
			v.Undecided++
		}
	}
	return v, nil
}

// collect gathers the files of a snapshot; ask gives each its number.
func (c *SnapshotCheck) collect(s *Snapshot, ask func(key, uri string) int) {
	c.snapshot = s
	c.Snapshot, c.Chosen, c.Version, c.CheckpointID = s.URI, s.Chosen, s.Version, s.CheckpointID
	byKey := map[string]*checkedFile{}
	for r := range s.Refs() {
		if r.Kind == metadata.RefDirectory {
			continue // empty ones exist on some stores only
		}
		c.Handles++
		uri := actual(s.Dir, r)
		if r.Kind == metadata.RefRelative {
			if why := escapes(r.Path); why != "" {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %s (%q); Flink follows it to %s", describe(r), why, r.Path, uri))
			}
		}
		key := storage.Key(uri)
		f := byKey[key]
		if f == nil {
			f = &checkedFile{uri: uri, stat: ask(key, uri), demand: newDemand()}
			byKey[key] = f
			c.files = append(c.files, f)
		}
		f.refs = append(f.refs, r)
		if why := f.add(r); why != "" {
			c.Problems = append(c.Problems, CheckProblem{Problem: ProblemOffset, File: uri, Detail: why, Expected: -1, Uses: []Use{newUse(r)}})
		}
	}
	c.Files = len(c.files)
	for _, f := range c.files {
		c.Bytes += max(0, f.want())
	}
}

// decide makes the answers of the store into a verdict.
func (c *SnapshotCheck) decide(ctx context.Context, fsys storage.FS, answers []found, jobs int) error {
	s := c.snapshot
	p := newPlaces(s)
	c.Kind, _ = kindOf(s, p)
	damage, warnings := semantics(s)
	c.Problems = append(c.Problems, damage...)
	c.Warnings = append(c.Warnings, warnings...)
	var lost []*lostFile
	there := 0 // absolute files at their place
	for _, f := range c.files {
		a := answers[f.stat]
		if a.err == nil && f.refs[0].Kind != metadata.RefRelative {
			there++
		}
		problem := CheckProblem{File: f.uri, Expected: f.want()}
		why := ""
		if a.err == nil {
			why = f.wrong(a.size)
		}
		switch {
		case a.err == nil && why == "":
			continue
		case a.err == nil:
			problem.Problem, problem.Detail, problem.Found = ProblemWrongSize, why, &a.size
			c.WrongSize++
		case errors.Is(a.err, fs.ErrNotExist):
			problem.Problem = ProblemMissing
			c.Missing++
		default:
			problem.Problem, problem.Detail = ProblemAccess, bareCause(a.err, f.uri)
			c.Undecided++
		}
		for _, r := range f.refs {
			problem.Uses = append(problem.Uses, newUse(r))
		}
		c.Problems = append(c.Problems, problem)
		lost = append(lost, &lostFile{checkedFile: f, index: len(c.Problems) - 1})
	}
	c.Verdict = VerdictIntact
	switch {
	case c.Missing+c.WrongSize > 0 || len(c.Problems) > len(lost):
		c.Verdict = VerdictDamaged
	case c.Undecided > 0:
		c.Verdict = VerdictUndecided
	}
	if len(c.Problems) > 0 {
		c.Usable = c.usable()
	}
	if len(lost) == 0 {
		return nil
	}
	unseen, err := findLost(ctx, fsys, s, lost, jobs)
	if err != nil {
		return err
	}
	c.Unseen = unseen
	for _, l := range lost {
		c.Problems[l.index].Candidates = l.candidates
	}
	c.advise(lost, there)
	return nil
}

// deepen reads the files. Those that are missing are among the problems already.
func (c *SnapshotCheck) deepen(ctx context.Context, fsys storage.FS, o VerifyOptions) error {
	d, err := VerifyDeep(ctx, fsys, c.snapshot, o.DeepJobs, o.DeepProgress)
	if err != nil {
		return err
	}
	d.Damage = slices.DeleteFunc(d.Damage, func(p *StateProblem) bool {
		var path *fs.PathError // the store's; without it a file of RocksDB names one that no handle has
		return errors.Is(p, fs.ErrNotExist) && errors.As(p, &path)
	})
	c.Deep = d
	switch {
	case len(d.Damage) > 0:
		c.Verdict = VerdictDamaged
	case len(d.Unread) > 0 && c.Verdict == VerdictIntact:
		c.Verdict = VerdictUndecided
	}
	return nil
}

// bareCause is an error without the file's name, where it begins with it.
func bareCause(err error, uri string) string {
	var e *fs.PathError
	if errors.As(err, &e) && e.Path == uri {
		return e.Err.Error()
	}
	return err.Error()
}

// usable says which operators and subtasks have no problem.
func (c *SnapshotCheck) usable() string {
	bad := map[metadata.OperatorID]map[int32]bool{}
	for _, p := range c.Problems {
		for _, u := range p.Uses {
			if bad[u.Operator] == nil {
				bad[u.Operator] = map[int32]bool{}
			}
			bad[u.Operator][u.Subtask] = true
		}
	}
	var whole int
	var parts []string
	for i := range c.snapshot.Operators {
		o := &c.snapshot.Operators[i]
		hurt := bad[o.ID]
		if hurt == nil {
			whole++
			continue
		}
		n := 0
		for _, t := range o.Subtasks {
			if hurt[t.Index] {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf("of operator %s %d of %d subtasks are affected", operatorName(o), n, len(o.Subtasks)))
	}
	text := fmt.Sprintf("%d of %d operators are not affected", whole, len(c.snapshot.Operators))
	if len(parts) > 0 {
		text += "; " + listSome(parts)
	}
	return text
}

// advise says what to do about files that are not where they should be.
func (c *SnapshotCheck) advise(lost []*lostFile, there int) {
	found, dangling := 0, 0
	dirs := map[string]bool{}
	absolute := 0
	for _, l := range lost {
		r := l.refs[0]
		if len(l.candidates) > 0 {
			found++
			dirs[storage.Dir(l.candidates[0])] = true
		}
		if r.Kind != metadata.RefRelative {
			absolute++
		} else if r.Part == metadata.PartShared && !strings.HasPrefix(c.Kind, "savepoint") {
			dangling++
		}
	}
	add := func(format string, args ...any) { c.Advice = append(c.Advice, fmt.Sprintf(format, args...)) }
	switch {
	case dangling > 0:
		add("%s among the shared files of a checkpoint name no file beside _metadata: releases of Flink without the fix of FLINK-39964 write them "+
			"after a CLAIM restore from a native savepoint; the files are in the savepoint's directory, and the checkpoint can't be restored as it is",
			count(dangling, "relative handle"))
		if found > 0 {
			add("files of their names and sizes are in %s; `drey repair` writes metadata that names them there", listSome(sortedKeys(dirs)))
		}
	case absolute == len(lost) && there == 0 && found == len(lost):
		c.Moved = true
		add("the snapshot was moved: its files lie in %s; `drey relocate` rewrites the paths", listSome(sortedKeys(dirs)))
	case found > 0:
		add("%d of %s are at other places with the same name and size, in %s; `drey repair` writes metadata that names them there, `drey relocate --moved FROM=TO` makes a copy with them", found, count(len(lost), "file"), listSome(sortedKeys(dirs)))
	}
	if len(c.Unseen) > 0 && found < len(lost) {
		add("not all places could be looked at: %s; files that were not found may be there: make them readable, or say where the files are with `drey relocate --moved FROM=TO`", listSome(c.Unseen))
	} else if n := c.Missing - found; n > 0 && found == 0 && dangling == 0 {
		add("no file of these names and sizes is in the snapshot's directory or its job's; if they were moved further, bring them back or use `drey relocate --moved FROM=TO`; else the state in them is lost")
	}
	for _, l := range lost {
		if _, _, path := storage.Split(l.uri); drivePath(strings.TrimPrefix(path, "/")) {
			add("the metadata names paths of Windows, such as %s; `drey relocate --moved FROM=TO` takes the files from where they are mounted here", l.uri)
			break
		}
	}
	if c.Undecided > 0 {
		add("%s could not be looked at, so that this is not the whole picture; run again when the store answers", count(c.Undecided, "file"))
	}
}
