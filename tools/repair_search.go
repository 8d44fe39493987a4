package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// search finds the files in scope that have the names and sizes of lost ones. It goes on after the
// first that fits, as a second one is a reason not to take either.
func (p *RepairPlan) search(ctx context.Context, o RepairOptions) error {
	var lost []*lostFile
	for _, l := range p.lost {
		if l.problem != ProblemAccess {
			lost = append(lost, &l.lostFile)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	f := &lostSearch{ctx: ctx, fsys: p.fsys}
	roots := o.Roots
	if len(roots) == 0 {
		if err := f.findMoved(p.snapshot, lost, defaultJobs(o.Jobs)); err != nil {
			return err
		}
		dir := p.snapshot.Dir
		roots = append(roots, dir)
		if _, ok := incremental.CheckpointNumber(storage.Base(dir)); ok {
			roots = append(roots, storage.Dir(dir))
		}
		roots = append(roots, f.savepointsAround(dir)...)
	}
	if err := p.list(f, outermost(roots), lost, len(o.Roots) > 0); err != nil {
		return err
	}
	p.Unseen = f.unseen
	for _, l := range p.lost {
		for _, uri := range l.candidates {
			info, err := p.fsys.Stat(ctx, uri)
			if err != nil {
				return err
			}
			l.list = append(l.list, RepairCandidate{Path: uri, Size: info.Size})
		}
	}
	return nil
}

// list goes through everything below the roots. Where they are the user's choice, all must be there.
func (p *RepairPlan) list(f *lostSearch, roots []string, lost []*lostFile, chosen bool) error {
	wanted := map[string][]*lostFile{}
	for _, l := range lost {
		// A name without a size is enough only if Flink made it up at random.
		if name := storage.Base(l.uri); l.want() >= 0 || uuidPattern.MatchString(name) {
			wanted[name] = append(wanted[name], l)
		}
	}
	for _, root := range roots {
		if chosen {
			// A list of what is not there is empty on S3.
			if _, err := f.fsys.Stat(f.ctx, root); err != nil {
				return fmt.Errorf("looking for files in %s: %w", root, err)
			}
		}
		for info, err := range f.fsys.List(f.ctx, root) {
			if err != nil {
				if chosen && f.ctx.Err() == nil {
					return fmt.Errorf("looking for files in %s: %w", root, err)
				}
				f.failed(root, root, err)
				break
			}
			for _, l := range wanted[storage.Base(info.URI)] {
				if !info.Dir && l.fits(info.Size) && !slices.ContainsFunc(l.candidates, func(c string) bool { return storage.Key(c) == storage.Key(info.URI) }) {
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

// outermost drops directories that are in others.
func outermost(dirs []string) []string {
	var kept []string
	for i, d := range dirs {
		inside := false
		for j, o := range dirs {
			rest, ok := storage.Rel(o, d)
			inside = inside || ok && (rest != "" || j < i)
		}
		if !inside {
			kept = append(kept, d)
		}
	}
	return kept
}

// check reads the candidates as the handles would: in each round one of every file, so that a
// wrong one among several is told from the right one.
func (p *RepairPlan) check(ctx context.Context, jobs int) error {
	rounds := 0
	for _, l := range p.lost {
		rounds = max(rounds, len(l.list))
	}
	for round := range rounds {
		pick := map[string]*repairFile{} // by key of the recorded place
		at := map[string]int{}
		for _, l := range p.lost {
			if len(l.list) > 0 {
				key := storage.Key(l.uri)
				pick[key], at[key] = l, min(round, len(l.list)-1)
			}
		}
		trial, err := p.snapshot.Rewrite(func(r metadata.Ref) (metadata.Location, error) {
			key := storage.Key(actual(p.snapshot.Dir, r))
			if l := pick[key]; l != nil && r.Kind != metadata.RefDirectory {
				return metadata.Location{Path: l.list[at[key]].Path}, nil
			}
			return metadata.Location{Path: r.Path, Relative: r.Kind == metadata.RefRelative}, nil
		})
		if err != nil {
			return err
		}
		using := map[string][]*candidateCheck{} // by key of the candidate
		for key, l := range pick {
			c := &l.list[at[key]]
			if round < len(l.list) {
				ck := storage.Key(c.Path)
				using[ck] = append(using[ck], &candidateCheck{file: l, candidate: c})
			}
		}
		if err := p.checkRound(ctx, &Snapshot{Snapshot: trial, URI: p.snapshot.URI, Dir: p.snapshot.Dir}, using, jobs); err != nil {
			return err
		}
	}
	return nil
}

// candidateCheck gathers what the handles that use a candidate say of it.
type candidateCheck struct {
	file      *repairFile
	candidate *RepairCandidate

	mu       sync.Mutex
	read     bool
	rejected string
	unknown  string
}

// checkRound opens all handles that use one of the candidates.
func (p *RepairPlan) checkRound(ctx context.Context, trial *Snapshot, using map[string][]*candidateCheck, jobs int) error {
	files := backend.Files{FS: p.fsys, Dir: trial.Dir}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(jobs, stateJobs(0)))
	for i := range trial.Operators {
		for _, u := range unitsOf(trial.Dir, &trial.Operators[i], false) {
			var mine []*candidateCheck
			for s := range unitStreams(u) {
				for _, c := range using[storage.Key(streamFile(trial.Dir, s))] {
					if !slices.Contains(mine, c) {
						mine = append(mine, c)
					}
				}
			}
			if len(mine) > 0 {
				group.Go(func() error { return checkUnit(ctx, files, u, mine) })
			}
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, list := range using {
		for _, c := range list {
			c.settle()
		}
	}
	return nil
}

// settle enters what was found into the candidate.
func (c *candidateCheck) settle() {
	switch {
	case c.rejected != "":
		c.candidate.Rejected = c.rejected
	case c.unknown != "":
		c.candidate.Unchecked = c.unknown
	case !c.read:
		c.candidate.Unchecked = "in-flight data and state of coordinators have no header"
	default:
		c.candidate.Checked = true
	}
}

// unitStreams yields the streams of a handle.
func unitStreams(u *unit) func(yield func(metadata.Stream) bool) {
	switch {
	case u.keyed != nil:
		return keyedStreams(u.keyed)
	case u.list != nil:
		return func(yield func(metadata.Stream) bool) { yield(u.list.Delegate) }
	}
	return func(yield func(metadata.Stream) bool) { yield(u.legacy) }
}

// checkUnit reads the header of a handle, and verifies RocksDB's tables.
func checkUnit(ctx context.Context, files backend.Files, u *unit, mine []*candidateCheck) error {
	u.parts.Store(1)
	defer u.release()
	err := u.open(ctx, files, nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		// What could not be opened tells of the file that it names, and leaves the others open.
		for _, c := range mine {
			c.blame(err, true)
		}
		return nil
	}
	var found []error
	if u.keys != nil {
		if err := u.keys.Verify(ctx, func(e error) { found = append(found, e) }); err != nil {
			return err
		}
	}
	for _, c := range mine {
		c.pass()
		for _, e := range found {
			c.blame(e, false)
		}
	}
	return nil
}

// pass notes that a handle could be read with the candidate.
func (c *candidateCheck) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = true
}

// blame takes an error as one of this candidate if it names it; if all failed, it leaves the others unknown.
func (c *candidateCheck) blame(err error, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	named := strings.Contains(err.Error(), c.candidate.Path)
	var table *rocksdb.Error
	if errors.As(err, &table) {
		named = slices.ContainsFunc(c.file.refs, func(r metadata.Ref) bool { return r.LocalName == table.File })
	}
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case named && !undecided(err) && !missing:
		if c.rejected == "" {
			c.rejected = err.Error()
		}
	case named || all:
		if c.unknown == "" {
			c.unknown = "the state it is part of can't be read: " + err.Error()
		}
	}
}
