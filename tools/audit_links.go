package tools

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/drey-state/drey/storage"
)

// linkedFiles are symbolic links to files, and the files that they lead to, as hashes of their canonical
// spelling: one that is taken for another is only kept.
type linkedFiles struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

func newLinkedFiles() linkedFiles {
	return linkedFiles{maphash.MakeSeed(), map[uint64]struct{}{}}
}

func (l *linkedFiles) add(key string) { l.hashes[maphash.String(l.seed, key)] = struct{}{} }

func (l *linkedFiles) has(key string) bool {
	if len(l.hashes) == 0 {
		return false
	}
	_, ok := l.hashes[maphash.String(l.seed, key)]
	return ok
}

// noteLink takes up a symbolic link. A file that one leads to is not litter, though no snapshot names it. A
// directory that one leads to is not looked into, as its files would count under two names of
// which one is used and the other not; so it must be in scope itself. Only a cancelled context is an error.
func (a *audit) noteLink(ctx context.Context, info storage.Info) error {
	target := a.target(ctx, info.URI)
	if err := ctx.Err(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !info.Dir {
		a.linked.add(a.registry.Key(info.URI))
		a.linked.add(a.registry.Key(target))
		return nil
	}
	if slices.ContainsFunc(a.report.Links, func(l AuditLink) bool { return l.URI == info.URI }) {
		return nil
	}
	if a.realRoots == nil {
		for _, r := range a.report.Roots {
			if real := a.target(ctx, r); real != "" {
				a.realRoots = append(a.realRoots, a.registry.Key(real))
			}
		}
	}
	a.report.Links = append(a.report.Links, AuditLink{info.URI, target, target != "" && within(a.realRoots, a.registry.Key(target))})
	return nil
}

// target is where a place is that a URI with links leads to, "" if that can't be told.
func (a *audit) target(ctx context.Context, uri string) string {
	r, ok := a.fsys.(storage.Resolver)
	if !ok {
		return ""
	}
	target, err := r.Resolve(ctx, uri)
	if err != nil {
		return ""
	}
	return target
}

// otherNames gives the names that places, to which links may lead, have below the roots, and the roots that are in them.
func otherNames(ctx context.Context, fsys storage.FS, roots, places []string, aliases []Rule) ([]string, error) {
	resolver, ok := fsys.(storage.Resolver)
	if !ok {
		return nil, nil
	}
	resolve := func(uri string) (string, error) {
		if to, ok := apply(aliases, uri); ok {
			uri = to
		}
		real, err := resolver.Resolve(ctx, storage.Clean(uri))
		if errors.Is(err, storage.ErrScheme) {
			return uri, nil // a store that is not seen from here
		}
		return real, err
	}
	var others []string
	add := func(place, name string) {
		if storage.Key(name) != storage.Key(storage.Clean(place)) && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	for _, root := range roots {
		realRoot, err := resolve(root)
		if err != nil {
			return nil, err
		}
		for _, place := range places {
			real, err := resolve(place)
			if err != nil {
				return nil, err
			}
			if rest, ok := storage.Rel(storage.Key(realRoot), storage.Key(real)); ok {
				add(place, storage.Join(root, rest))
			} else if _, ok := storage.Rel(storage.Key(real), storage.Key(realRoot)); ok {
				add(place, root)
			}
		}
	}
	return others, nil
}

// refusal says why nothing can be deleted while a link is there, "" if that does not matter.
func (l *AuditLink) refusal() string {
	switch {
	case l.InScope:
		return ""
	case l.Target == "":
		return l.URI + ": a symbolic link of which it is not known where it leads: snapshots that are there may use any file in scope"
	}
	return l.URI + ": a symbolic link to " + l.Target + ", which is not in scope: snapshots that are there may use any file in scope; name it as root or as reference, or remove the link if nothing is there"
}
