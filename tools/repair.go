package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// RepairOptions are the options of [PlanRepair]; the zero value is the default.
type RepairOptions struct {
	// Roots are the directories in which files are looked for. None means the
	// directory of the snapshot, that of its job, savepoints nearby, and the
	// places where the files would be if the tree had been moved as a whole.
	Roots []string
	// Unchecked takes a file by its name and size alone, without reading it.
	Unchecked bool
	// Output is the file to write the metadata to; "" means in the place of the old one, which is kept.
	Output string
	// Jobs is the number of files to look at at once; 0 means 4 for each CPU, at least 16.
	Jobs int
}

// States of a file that is not where the metadata says.
const (
	// RepairFound is one that exactly one other file fits.
	RepairFound = "found"
	// RepairNotFound is one that no file in scope fits.
	RepairNotFound = "not found"
	// RepairAmbiguous is one that several files fit.
	RepairAmbiguous = "several fit"
	// RepairAccess is one of which the store does not tell whether it is there.
	RepairAccess = "not readable"
)

// RepairPlan is what a repair will do. Show it, then call [RepairPlan.Execute].
type RepairPlan struct {
	// Source is the metadata file, Target the one that is written.
	Source string `json:"source"`
	Target string `json:"target"`
	// Chosen says which checkpoint was taken if a job's directory was named.
	Chosen  string           `json:"chosen,omitempty"`
	Version metadata.Version `json:"version"`
	// Files are those that are not where the metadata says, out of Total.
	Files []RepairFile `json:"files"`
	Total int          `json:"total"`
	// Handles is how many handles are changed, ToAbsolute how many of them were relative and are not any more.
	Handles    int `json:"handles"`
	ToAbsolute int `json:"toAbsolute"`
	// Uses says in which other directories the snapshot has files afterwards.
	Uses []PathChange `json:"uses"`
	// Backup is where the old metadata is kept; "" if it is not replaced.
	Backup string `json:"backup,omitempty"`
	// Unseen are places, with the cause, that could not be looked at.
	Unseen   []string `json:"unseen,omitempty"`
	Warnings []string `json:"warnings"`

	snapshot *Snapshot
	fsys     storage.FS
	out      []byte
	lost     []*repairFile
}

// RepairFile is a file that is not where the metadata says.
type RepairFile struct {
	// Path is where the metadata says that it is; absolute also for a relative handle.
	Path     string `json:"path"`
	Relative bool   `json:"relative,omitempty"`
	// Problem is [ProblemMissing], [ProblemWrongSize] or [ProblemAccess].
	Problem string `json:"problem"`
	Detail  string `json:"detail,omitempty"`
	// Expected is the size in bytes that the metadata demands, -1 if it demands none.
	Expected int64  `json:"expected"`
	Uses     []Use  `json:"uses"`
	State    string `json:"state"`
	// New is the file that the new metadata names, "" if State is not [RepairFound].
	New        string            `json:"new,omitempty"`
	Candidates []RepairCandidate `json:"candidates"`
}

// RepairCandidate is a file of the right name and size.
type RepairCandidate struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Checked says that its content was read and is what the state needs there: the header of a
	// state file, every block of a table of RocksDB and its place in the MANIFEST.
	Checked bool `json:"checked"`
	// Rejected says why it is another file after all, Unchecked why its content says nothing; "" if not so.
	Rejected  string `json:"rejected,omitempty"`
	Unchecked string `json:"unchecked,omitempty"`
}

// Done says that every file is where the metadata says.
func (p *RepairPlan) Done() bool { return len(p.Files) == 0 }

// Repairable says that for each file exactly one was found that fits.
func (p *RepairPlan) Repairable() bool {
	return !slices.ContainsFunc(p.Files, func(f RepairFile) bool { return f.State != RepairFound })
}

// Undecided says that for some file the store did not tell whether it is there.
func (p *RepairPlan) Undecided() bool {
	return slices.ContainsFunc(p.Files, func(f RepairFile) bool { return f.State == RepairAccess })
}

// repairFile is a lost file with what is known of its candidates.
type repairFile struct {
	lostFile
	problem string
	detail  string
	list    []RepairCandidate
	chosen  int // index in list of the only one that fits, -1
}

// fitting counts the candidates that were not rejected, and gives one.
func (f *repairFile) fitting() (n, last int) {
	last = -1
	for i := range f.list {
		if f.list[i].Rejected == "" {
			n, last = n+1, i
		}
	}
	return n, last
}

// PlanRepair finds for every file of a snapshot that is not where the metadata says, or not of the
// size, the one that fits: by name and size, and by content where a handle tells what that must be.
// Nothing is changed. That a file is not found is no error, but in the plan.
func PlanRepair(ctx context.Context, fsys storage.FS, src string, o RepairOptions) (*RepairPlan, error) {
	s, err := Open(ctx, fsys, src)
	if err != nil {
		return nil, err
	}
	if err := mustRoundTrip(s); err != nil {
		return nil, err
	}
	p := &RepairPlan{
		Source: s.URI, Target: s.URI, Chosen: s.Chosen, Version: s.Version, Files: []RepairFile{}, Uses: []PathChange{}, Warnings: []string{}, snapshot: s, fsys: fsys,
	}
	if err := p.findProblems(ctx, defaultJobs(o.Jobs)); err != nil {
		return nil, err
	}
	if err := p.search(ctx, o); err != nil {
		return nil, err
	}
	if !o.Unchecked {
		if err := p.check(ctx, defaultJobs(o.Jobs)); err != nil {
			return nil, err
		}
	}
	p.decide()
	if p.Done() || !p.Repairable() {
		return p, nil
	}
	if err := p.encode(); err != nil {
		return nil, err
	}
	return p, p.destination(ctx, o.Output)
}

// findProblems looks which files are not as the metadata says.
func (p *RepairPlan) findProblems(ctx context.Context, jobs int) error {
	c := SnapshotCheck{}
	var uris []string
	c.collect(p.snapshot, func(_, uri string) int {
		uris = append(uris, uri)
		return len(uris) - 1
	})
	p.Total = len(c.files)
	p.Warnings = append(p.Warnings, c.Warnings...)
	answers, err := statAll(ctx, p.fsys, uris, jobs, nil)
	if err != nil {
		return err
	}
	for _, f := range c.files {
		l := &repairFile{lostFile: lostFile{checkedFile: f}, chosen: -1}
		switch a := answers[f.stat]; {
		case a.err == nil && f.fits(a.size):
			continue
		case a.err == nil:
			l.problem, l.detail = ProblemWrongSize, f.wrong(a.size)
		case errors.Is(a.err, fs.ErrNotExist):
			l.problem = ProblemMissing
		default:
			l.problem, l.detail = ProblemAccess, bareCause(a.err, f.uri)
		}
		p.lost = append(p.lost, l)
	}
	return nil
}

// decide says of each file what became of it.
func (p *RepairPlan) decide() {
	for _, l := range p.lost {
		f := RepairFile{
			Path: l.uri, Relative: l.refs[0].Kind == metadata.RefRelative, Problem: l.problem, Detail: l.detail, Expected: l.want(), Candidates: l.list,
		}
		if f.Candidates == nil {
			f.Candidates = []RepairCandidate{}
		}
		for _, r := range l.refs {
			f.Uses = append(f.Uses, newUse(r))
		}
		switch n, last := l.fitting(); {
		case l.problem == ProblemAccess:
			f.State = RepairAccess
		case n == 0:
			f.State = RepairNotFound
		case n > 1:
			f.State = RepairAmbiguous
		default:
			f.State, f.New, l.chosen = RepairFound, l.list[last].Path, last
		}
		p.Files = append(p.Files, f)
	}
}

// refused is the error of a plan that cannot be executed.
func (p *RepairPlan) refused() error {
	counts := map[string]int{}
	for _, f := range p.Files {
		counts[f.State]++
	}
	return fmt.Errorf("%s: of %d files that are not where the metadata says, %d were found, %d were not, for %d several fit, %d are not readable; nothing was written: %w",
		p.Source, len(p.Files), counts[RepairFound], counts[RepairNotFound], counts[RepairAmbiguous], counts[RepairAccess], ErrRefused)
}
