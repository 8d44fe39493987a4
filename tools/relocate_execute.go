package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/storage"
)

// maxFailures is how many files may fail before a relocation gives up, as
// something is wrong with all of them then.
const maxFailures = 100

// CopyError is a file that was not copied.
type CopyError struct {
	FileCopy
	Err error
}

// Error implements error.
func (e *CopyError) Error() string {
	return fmt.Sprintf("%s -> %s: %v", e.Source, e.Target, e.Err)
}

// Unwrap gives the cause.
func (e *CopyError) Unwrap() error { return e.Err }

// RelocateError is a relocation that did not come to its end: the metadata
// was not written, and running again goes on where this one stopped. It is an
// [ErrPartly] if there are files at the target.
type RelocateError struct {
	// Copied counts the files that are at the target now.
	Copied, Total int
	Failed        []*CopyError
}

// Error implements error.
func (e *RelocateError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d files are copied, %d failed; %s was not written, so nothing can restore from the target by accident; running again is safe and goes on from here",
		e.Copied, e.Total, len(e.Failed), MetadataName)
	for i, f := range e.Failed {
		if i == mostProblems {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Failed)-i)
			break
		}
		text := f.Err.Error()
		if !strings.Contains(text, f.Target) {
			text = f.Error()
		}
		b.WriteString("\n  " + text)
	}
	return b.String()
}

// Is makes the error an ErrPartly if some of the work was done.
func (e *RelocateError) Is(target error) bool { return target == ErrPartly && e.Copied > 0 }

// Unwrap gives the failures.
func (e *RelocateError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f
	}
	return errs
}

// OnProgress sets who is told how far [RelocatePlan.Execute] is, in place of
// the Progress of the options.
func (p *RelocatePlan) OnProgress(fn func(RelocateProgress)) { p.options.Progress = fn }

// Execute does what the plan says: it copies the files that are not there,
// checks the size of each, and writes the metadata last. It never changes the
// source nor replaces a file. A file that failed does not stop the others; the
// result is then a [*RelocateError].
func (p *RelocatePlan) Execute(ctx context.Context) error {
	// Also where nothing is left to do: a run that was killed after the last
	// file became visible may have left its temporary name.
	if err := p.clean(ctx); err != nil || p.Done {
		return err
	}
	if err := p.copyFiles(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.writeMetadata(ctx)
}

func (p *RelocatePlan) copyFiles(ctx context.Context) error {
	var todo []FileCopy
	for _, f := range p.Files {
		if !f.Present {
			todo = append(todo, f)
		}
	}
	// The largest first, so that the end is not one worker with one long file.
	slices.SortStableFunc(todo, func(a, b FileCopy) int { return int(min(max(b.Size-a.Size, -1), 1)) })

	var mu sync.Mutex
	done := RelocateProgress{Phase: "copying", TotalFiles: len(todo), TotalBytes: p.BytesToCopy}
	tell := func(files int, bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		done.Files += files
		done.Bytes += bytes
		if report := p.options.Progress; report != nil {
			report(done)
		}
	}
	var failed []*CopyError
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(p.options.jobs())
	for _, f := range todo {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			passed := int64(0)
			err := p.copyFile(gctx, f, func(n int64) {
				passed += n
				tell(0, n)
			})
			if err == nil {
				tell(1, f.Size-passed)
				return nil
			}
			tell(0, -passed)
			mu.Lock()
			defer mu.Unlock()
			if gctx.Err() == nil {
				failed = append(failed, &CopyError{f, err})
			}
			if len(failed) >= maxFailures {
				return errTooMany
			}
			return nil
		})
	}
	_ = g.Wait() // its only error is errTooMany
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(failed) > 0 {
		return &RelocateError{Copied: len(p.Files) - len(todo) + done.Files, Total: len(p.Files), Failed: failed}
	}
	return nil
}

var errTooMany = errors.New("too many failures")

// clean removes what an earlier run that was killed left half-written.
func (p *RelocatePlan) clean(ctx context.Context) error {
	c, ok := p.target.(storage.Cleaner)
	if !ok || storage.Key(p.Source) == storage.Key(p.Target) && p.Backup == "" {
		return nil
	}
	uris := make([]string, 0, len(p.Files)+1)
	for _, f := range p.Files {
		uris = append(uris, f.Target)
	}
	uris = append(uris, p.Target)
	if p.Backup != "" {
		uris = append(uris, p.Backup)
	}
	if _, err := c.Clean(ctx, uris...); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// It only costs space: a store may allow writing but not listing.
		p.Warnings = append(p.Warnings, fmt.Sprintf("what an interrupted run may have left was not removed: %v", err))
	}
	return nil
}

func (p *RelocatePlan) copyFile(ctx context.Context, f FileCopy, progress func(int64)) error {
	n, err := storage.Copy(ctx, p.source, f.Source, p.target, f.Target, storage.CopyOptions{Progress: progress, Size: f.Size})
	if errors.Is(err, fs.ErrExist) {
		n, err = f.Size, nil // somebody was faster; the check tells
	}
	if err != nil {
		return err
	}
	info, err := p.target.Stat(ctx, f.Target)
	if err != nil {
		return fmt.Errorf("after the copy: %w", err)
	}
	if n != f.Size || info.Size != f.Size {
		return fmt.Errorf("copied %d of %d bytes, and the target has %d: was the source changed?", n, f.Size, info.Size)
	}
	return nil
}

func (p *RelocatePlan) writeMetadata(ctx context.Context) error {
	if p.Backup != "" {
		return replaceMetadata(ctx, p.target, p.Target, p.Backup, p.snapshot.Data, p.out)
	}
	err := storage.WriteFile(ctx, p.target, p.Target, p.out, storage.CreateOptions{})
	if errors.Is(err, fs.ErrExist) {
		there, rerr := storage.ReadAll(ctx, p.target, p.Target, maxMetadata)
		if rerr == nil && bytes.Equal(there, p.out) {
			return nil
		}
		return fmt.Errorf("%s: somebody else wrote other metadata there meanwhile: %w", p.Target, err)
	}
	return err
}
