package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// check looks at every file at its source and at its target.
func (r *relocation) check(ctx context.Context) error {
	p := r.plan
	uris := make([]string, len(r.order))
	report := func(offset int) func(int) {
		return func(done int) {
			if f := p.options.Progress; f != nil {
				f(RelocateProgress{Phase: "checking", Files: offset + done, TotalFiles: 2 * len(uris)})
			}
		}
	}
	if p.options.MetadataOnly {
		return r.checkNewPlaces(ctx, uris, report(0))
	}
	for i, f := range r.order {
		uris[i] = f.actual
	}
	sources, err := statAll(ctx, p.source, uris, p.options.jobs(), report(0))
	if err != nil {
		return err
	}
	if err := r.complain(sources, uris, "damaged, nothing was copied:", "`drey verify` tells more; files that lie elsewhere are named with --moved FROM=TO"); err != nil {
		return err
	}
	for i, f := range r.order {
		uris[i] = f.target
	}
	targets := make([]found, len(uris))
	look, err := r.targetMayExist(ctx)
	if err != nil {
		return err
	}
	if look {
		if targets, err = statAll(ctx, p.target, uris, p.options.jobs(), report(len(uris))); err != nil {
			return err
		}
	} else {
		for i := range targets {
			targets[i].err = fs.ErrNotExist
		}
	}
	if err := unseen(targets); err != nil {
		return err
	}
	var conflicts []FileProblem
	oneStore := sameStore(p.source, p.target)
	listed := make(map[string]bool, len(r.order))
	for i, f := range r.order {
		key := storage.Key(f.target)
		if oneStore && storage.Key(f.actual) == key || listed[key] {
			continue // stays where it is, or is the file of another record
		}
		listed[key] = true
		if _, inside := storage.Rel(p.snapshot.Dir, f.target); inside && oneStore {
			conflicts = append(conflicts, problem(f.first, f.target, "inside of the source, which is never changed"))
			continue
		}
		size := sources[i].size
		c := FileCopy{Source: f.actual, Target: f.target, Size: size}
		switch t := targets[i]; {
		case t.err == nil && t.size == size:
			c.Present = true
		case t.err == nil:
			conflicts = append(conflicts, problem(f.first, f.target, fmt.Sprintf("there already with %d bytes, but the source has %d", t.size, size)))
		}
		p.Files = append(p.Files, c)
		p.Bytes += size
		if !c.Present {
			p.BytesToCopy += size
			p.FilesToCopy++
		}
	}
	if len(conflicts) > 0 {
		return &ProblemsError{What: r.dir + ": these places are taken, and nothing is ever replaced:", Problems: conflicts, Refused: true,
			Advice: "choose another destination, or look at what these files are and delete them"}
	}
	return nil
}

// targetMayExist says whether looking for files at the target is worth it:
// not if the target is a directory that does not exist yet.
func (r *relocation) targetMayExist(ctx context.Context) (bool, error) {
	_, err := r.plan.target.Stat(ctx, r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return err == nil || len(r.plan.options.Rewrite) > 0, nil
}

// unseen is the error of objects that could not be looked at, if there are
// any: about those nothing can be said, not even that they are missing.
func unseen(places []found) error {
	var first error
	n := 0
	for _, p := range places {
		if p.err != nil && !errors.Is(p.err, fs.ErrNotExist) {
			if n++; first == nil {
				first = p.err
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return first
	}
	return fmt.Errorf("%d files can't be looked at, of which the first: %w", n, first)
}

// checkNewPlaces looks at the files where the new metadata will say they are.
func (r *relocation) checkNewPlaces(ctx context.Context, uris []string, report func(int)) error {
	p := r.plan
	if p.options.Unchecked {
		return nil
	}
	for i, f := range r.order {
		uris[i] = f.target
	}
	places, err := statAll(ctx, p.target, uris, p.options.jobs(), report)
	if err != nil {
		return err
	}
	return r.complain(places, uris, "would name files that are not there, so it was not written:",
		"copy them first, or say with --rewrite FROM=TO where they are; --unchecked leaves out this check, for places that this machine can't reach")
}

// complain lists all files that are missing or have the wrong size.
func (r *relocation) complain(places []found, uris []string, what, advice string) error {
	if err := unseen(places); err != nil {
		return err
	}
	var problems []FileProblem
	for i, f := range r.order {
		switch e := places[i]; {
		case e.err != nil:
			problems = append(problems, problem(f.first, uris[i], missing(f, r.plan.snapshot)))
		default:
			if wrong := f.wrong(e.size); wrong != "" {
				problems = append(problems, problem(f.first, uris[i], wrong))
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &ProblemsError{
		What:     fmt.Sprintf("%s: %d of %d files: %s", r.plan.snapshot.URI, len(problems), len(uris), what),
		Problems: problems, Advice: advice, Refused: true,
	}
}

// missing words that a file is not there.
func missing(f *sourceFile, s *Snapshot) string {
	if f.first.Kind == metadata.RefRelative && f.first.Part == metadata.PartShared && !s.Properties.Info().Kind.Savepoint() {
		return "missing; a relative handle of a shared file in a checkpoint: it may lie in the savepoint that the job was started from (FLINK-39964)"
	}
	return "missing"
}

// checkOutput refuses metadata in another directory than the one that its
// relative handles mean, unless it has another name and so restores from nowhere.
func (r *relocation) checkOutput() error {
	p := r.plan
	at := storage.Dir(p.Target)
	relative := slices.ContainsFunc(r.order, func(f *sourceFile) bool { return f.relative })
	if !relative || storage.Key(at) == storage.Key(r.dir) {
		return nil
	}
	if storage.Base(p.Target) == MetadataName && !p.options.Unchecked {
		return fmt.Errorf("%s: relative handles in it mean files in %s, which are not there; write it under another name, or into that directory: %w", p.Target, r.dir, ErrRefused)
	}
	p.Warnings = append(p.Warnings, fmt.Sprintf("%s has relative handles: it restores only from %s, so put it there as %s", p.Target, r.dir, MetadataName))
	return nil
}

// checkTarget looks whether the metadata is there already.
func (r *relocation) checkTarget(ctx context.Context) error {
	p := r.plan
	if p.options.MetadataOnly && storage.Key(p.Target) == storage.Key(p.Source) && sameStore(p.source, p.target) {
		p.Done = p.SameMetadata
		if !p.Done {
			backup, err := backupName(ctx, p.target, p.Target, ".before-relocate", p.snapshot.Data)
			if err != nil {
				return err
			}
			p.Backup = backup
		}
		return nil
	}
	there, err := storage.ReadAll(ctx, p.target, p.Target, maxMetadata)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.Equal(there, p.out):
		advice := "choose another directory"
		if bytes.Equal(there, p.snapshot.Data) {
			advice = "it is a copy of the source's; if the files were copied too, `drey relocate --metadata-only` rewrites it in place"
		}
		return fmt.Errorf("%s: there already, with other content, and never replaced: %s: %w", p.Target, advice, ErrRefused)
	}
	p.Done = p.FilesToCopy == 0
	if !p.Done {
		// The promise that metadata names only files that are there was broken by somebody.
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s is there already although %d files are not; they will be copied", p.Target, p.FilesToCopy))
	}
	return nil
}

// backupName finds a free name for the old metadata, or one that holds it already.
func backupName(ctx context.Context, fsys storage.FS, uri, suffix string, data []byte) (string, error) {
	for i := 1; ; i++ {
		name := uri + suffix
		if i > 1 {
			name += fmt.Sprintf("-%d", i)
		}
		there, err := storage.ReadAll(ctx, fsys, name, maxMetadata)
		if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(there, data) {
			return name, nil
		}
		if err != nil && !errors.Is(err, storage.ErrTooLarge) {
			return "", err
		}
	}
}
