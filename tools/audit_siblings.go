package tools

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// siblings finds what is not in scope though its snapshots may use files of a root: the rest of the job or
// savepoint that the root is a part of, and what lies beside that.
func (a *audit) siblings(ctx context.Context) error {
	a.beside = map[string][]string{}
	byDir := map[string][]string{} // what lies in a directory
	for _, root := range a.report.Roots {
		for _, place := range a.namesOf(ctx, root) {
			if err := a.siblingsAt(ctx, root, place, byDir); err != nil {
				return err
			}
		}
	}
	a.report.Siblings = a.besideRoots(a.report.Roots)
	return nil
}

// siblingsAt finds the siblings of a root at one of the places that are the root.
func (a *audit) siblingsAt(ctx context.Context, root, place string, byDir map[string][]string) error {
	whole, err := a.whole(ctx, place)
	if err != nil || whole == "" {
		return err
	}
	if !a.inScope(a.registry.Key(whole)) && !a.really(ctx, whole) {
		a.beside[root] = append(a.beside[root], whole)
	}
	up := storage.Dir(whole)
	if up == whole {
		return nil
	}
	list, ok := byDir[up]
	if !ok {
		if list, err = a.flinkIn(ctx, up); err != nil {
			return err
		}
		byDir[up] = list
	}
	real := a.target(ctx, whole)
	for _, dir := range list {
		if a.registry.Key(dir) == a.registry.Key(whole) || real != "" && storage.Key(a.target(ctx, dir)) == storage.Key(real) {
			continue
		}
		a.beside[root] = append(a.beside[root], dir)
	}
	return nil
}

// namesOf gives a root as it was given, where links lead from there, and what it is called before aliases, if that
// is the same place: what lies beside one of them may use its files.
func (a *audit) namesOf(ctx context.Context, root string) []string {
	names := []string{root}
	real := a.target(ctx, root)
	if real == "" {
		return names
	}
	for _, rule := range a.o.Aliases {
		if rest, ok := storage.Rel(storage.Key(rule.To), storage.Key(root)); ok {
			if old := storage.Join(storage.Clean(rule.From), rest); storage.Key(a.target(ctx, old)) == storage.Key(real) {
				names = append(names, old)
			}
		}
	}
	if storage.Key(real) != storage.Key(root) {
		names = append(names, real)
	}
	return names
}

// besideRoots are the siblings that matter if only what is below these roots may be deleted.
func (a *audit) besideRoots(roots []string) []string {
	list := []string{}
	for _, r := range a.report.Roots {
		if slices.ContainsFunc(roots, func(root string) bool {
			return within([]string{a.registry.Key(r)}, a.registry.Key(storage.Clean(root)))
		}) {
			list = append(list, a.beside[r]...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inScope says that a place, in canonical spelling, is one of the roots or below one.
func (a *audit) inScope(key string) bool {
	return slices.ContainsFunc(a.report.Roots, func(r string) bool { return within([]string{a.registry.Key(r)}, key) })
}

// really says that links lead from one of the roots to a place, or above it.
func (a *audit) really(ctx context.Context, uri string) bool {
	real := a.target(ctx, uri)
	return real != "" && slices.ContainsFunc(a.report.Roots, func(r string) bool {
		root := a.target(ctx, r)
		return root != "" && within([]string{a.registry.Key(root)}, a.registry.Key(real))
	})
}

// whole gives the directory of the job or savepoint that a directory is, or is a part of; "" if it is neither.
func (a *audit) whole(ctx context.Context, dir string) (string, error) {
	for at, below := dir, ""; ; {
		name, up := storage.Base(at), storage.Dir(at)
		if name == "" || up == at {
			return a.wholeAtTop(at, dir), nil
		}
		_, checkpoint := incremental.CheckpointNumber(name)
		key := a.registry.Key(at)
		switch {
		case checkpoint:
			return up, nil
		case at == dir && (jobIDPattern.MatchString(name) || a.layouts.jobs[key]), oldSavepoint.MatchString(name), a.layouts.snapshots[key]:
			return at, nil
		case name == "shared", name == "taskowned", name == "dstl":
			if jobIDPattern.MatchString(storage.Base(up)) {
				return up, nil
			}
			if below == "" || mergedPattern.MatchString(below) || workingPattern.MatchString(below) {
				holds, err := a.holds(ctx, up, isCheckpoint)
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
				if err != nil {
					a.unlisted(ctx, up, err)
				}
				if holds || err != nil {
					return up, nil
				}
			}
		}
		at, below = up, name
	}
}

// wholeAtTop is whole for the uppermost directory of a store.
func (a *audit) wholeAtTop(top, dir string) string {
	if key := a.registry.Key(top); top == dir && (a.layouts.jobs[key] || a.layouts.snapshots[key]) {
		return top
	}
	return ""
}

func isCheckpoint(info storage.Info) bool {
	_, ok := incremental.CheckpointNumber(storage.Base(info.URI))
	return ok && info.Dir
}

// isFlinks says that an entry of a directory is of Flink, by its name.
func isFlinks(info storage.Info) bool {
	name := storage.Base(info.URI)
	return info.Dir && hasMeaning(name) || !info.Dir && isMetadataName(name)
}

// holds says that a directory has an entry of some kind.
func (a *audit) holds(ctx context.Context, dir string, kind func(storage.Info) bool) (bool, error) {
	for info, err := range a.fsys.ReadDir(ctx, dir) {
		if err != nil {
			return false, err
		}
		if kind(info) {
			return true, nil
		}
	}
	return false, nil
}

// flinkIn gives the directories in a directory that are not in scope and are of Flink, or hold what is, or
// can't be looked into; not all if there are many.
func (a *audit) flinkIn(ctx context.Context, dir string) ([]string, error) {
	var list, others []string
	for info, err := range a.fsys.ReadDir(ctx, dir) {
		if err != nil {
			a.unlisted(ctx, dir, err)
			break
		}
		switch {
		case !info.Dir, a.inScope(a.registry.Key(info.URI)), a.really(ctx, info.URI):
		case hasMeaning(storage.Base(info.URI)):
			list = append(list, info.URI)
		default:
			others = append(others, info.URI)
		}
		if len(list) > mostSiblings {
			return list, ctx.Err()
		}
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(a.jobs)
	for _, other := range others {
		g.Go(func() error {
			mu.Lock()
			enough := len(list) > mostSiblings
			mu.Unlock()
			if enough {
				return nil
			}
			holds, err := a.holds(ctx, other, isFlinks)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if holds || err != nil && !errors.Is(err, fs.ErrNotExist) {
				mu.Lock()
				defer mu.Unlock()
				list = append(list, other)
			}
			return nil
		})
	}
	err := g.Wait()
	return list, err
}
