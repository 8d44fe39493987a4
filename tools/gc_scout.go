package tools

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// scout looks for metadata that is new or was changed, again and again while files are being deleted. It lists
// only directories that can hold metadata.
type scout struct {
	*audit
	known   map[string]knownMetadata // by canonical URI
	ignored []string                 // canonical URIs of metadata that may be unreadable
	roots   []string                 // whose siblings matter
	began   time.Time                // of the last look; zero if there was none
}

// knownMetadata is a metadata file that was read.
type knownMetadata struct {
	size    int64
	modTime time.Time
	id      incremental.SnapshotID
}

// newScout goes on from the audit of a plan, or begins anew if the plan was read.
func newScout(ctx context.Context, fsys storage.FS, p *GCPlan, jobs int) (*scout, error) {
	s := &scout{audit: p.audit, known: map[string]knownMetadata{}, roots: p.Roots}
	if s.audit == nil {
		roots := append(append([]string{}, p.Roots...), p.References...)
		wanted := make([]Pin, len(p.Pins))
		for i, path := range p.Pins {
			wanted[i] = Pin{Path: path}
		}
		pins, err := findPins(ctx, fsys, roots, wanted, p.Aliases)
		if err != nil {
			return nil, err
		}
		a, err := newAudit(fsys, append(roots, pins...), AuditOptions{Jobs: jobs, Aliases: p.Aliases})
		if err != nil {
			return nil, err
		}
		a.decoders = make(chan struct{}, min(mostDecoders, runtime.GOMAXPROCS(0)))
		s.audit = a
	}
	s.fsys = fsys
	for _, uri := range p.Ignored {
		s.ignored = append(s.ignored, s.registry.Key(storage.Clean(uri)))
	}
	s.learn()
	return s, nil
}

// learn notes the snapshots that were read.
func (s *scout) learn() {
	for i := range s.report.Snapshots {
		info := &s.report.Snapshots[i]
		if k, ok := s.known[info.key]; ok && k.id == info.ID {
			continue
		}
		size := info.metadataSize
		s.known[info.key] = knownMetadata{size, info.ModTime, info.ID}
	}
}

// look finds what came since the last time. The error unwraps to [ErrRefused] if it can't be known what is in use.
func (s *scout) look(ctx context.Context) error {
	s.began = time.Now()
	s.report.Unreadable, s.report.Unlisted, s.report.Siblings, s.report.Links = nil, nil, nil, nil
	w := newWork()
	for _, r := range s.report.Roots {
		w.push(r)
	}
	g, gctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(gctx, w.stop)
	defer stop()
	for range s.jobs {
		g.Go(func() error {
			for {
				dir, ok := w.pop()
				if !ok {
					return gctx.Err()
				}
				err := s.visit(gctx, w, dir)
				w.done()
				if err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	s.learn()
	if err := s.siblings(ctx); err != nil {
		return err
	}
	p := &GCPlan{}
	refuseUndecided(p, s.report, s.ignored, s.registry.Key)
	if siblings := s.besideRoots(s.roots); len(siblings) > 0 {
		p.Refused = append(p.Refused, "directories came beside the roots: "+listSome(siblings))
	}
	if len(p.Refused) > 0 {
		return fmt.Errorf("%s: %w", listSome(p.Refused), ErrRefused)
	}
	return nil
}

// visit looks for metadata in a directory, and for directories that can hold some.
func (s *scout) visit(ctx context.Context, w *work, dir string) error {
	var dirs []string
	others, isJob := 0, jobIDPattern.MatchString(storage.Base(dir))
	empty := true
	for info, err := range s.fsys.ReadDir(ctx, dir) {
		if err != nil {
			s.unlisted(ctx, dir, err)
			return ctx.Err()
		}
		empty = false
		if info.Link {
			if err := s.noteLink(ctx, info); err != nil {
				return err
			}
		}
		switch {
		case info.Dir && info.Link:
			continue
		case !info.Dir:
			if err := s.meet(ctx, info); err != nil {
				return err
			}
			continue
		}
		name := storage.Base(info.URI)
		if _, ok := incremental.CheckpointNumber(name); ok {
			isJob = true
		}
		if dirs = append(dirs, info.URI); !hasMeaning(name) {
			others++
		}
		if others > mostSiblings {
			return s.visitBelow(ctx, dir)
		}
	}
	if empty && s.isRoot(dir) {
		s.unlisted(ctx, dir, errNothing)
	}
	s.noteSeen(dir)
	for _, d := range dirs {
		switch storage.Base(d) {
		case "shared", "taskowned", "dstl":
			if isJob {
				continue
			}
		}
		w.push(d)
	}
	return ctx.Err()
}

func (s *scout) noteSeen(dir string) {
	key := s.registry.Key(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen(key)
}

func (s *scout) visitBelow(ctx context.Context, dir string) error {
	for info, err := range s.fsys.List(ctx, dir) {
		if err != nil {
			s.unlisted(ctx, dir, err)
			return ctx.Err()
		}
		if info.Link {
			if err := s.noteLink(ctx, info); err != nil {
				return err
			}
		}
		if info.Dir {
			continue
		}
		if err := s.meet(ctx, info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// meet reads a file if it is metadata that is new or was changed.
func (s *scout) meet(ctx context.Context, f storage.Info) error {
	if !isMetadataName(storage.Base(f.URI)) {
		return nil
	}
	key := s.registry.Key(f.URI)
	if k, ok := s.known[key]; ok {
		if k.size == f.Size && sameTime(k.modTime, f.ModTime) {
			return nil
		}
		s.mu.Lock()
		s.registry.Release(k.id)
		s.mu.Unlock()
	}
	return s.read(ctx, f)
}

// sameTime compares modification times; stores give them in seconds here, and more finely there.
func sameTime(a, b time.Time) bool {
	d := a.Sub(b)
	return -time.Second < d && d < time.Second
}
