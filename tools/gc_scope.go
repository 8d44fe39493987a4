package tools

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// checkScope refuses where it can't be known what is in use.
func (g *gc) checkScope() {
	refuseUndecided(g.plan, g.report, g.keys(g.o.IgnoreMetadata), g.registry.Key)
	if siblings := g.besideRoots(g.roots); len(siblings) > 0 {
		g.refuse("snapshots beside the roots, or in the same job, may use their files, and are not in scope: %s; name the directory that holds them all as root, or them as references", listSome(siblings))
	}
	g.checkCopies()
	for i, key := range g.rootKeys {
		if within(g.refKeys, key) {
			g.refuse("%s is below the reference %s, where nothing is deleted; to delete only in a part of what is in scope, name all of it as root and restrict deletion to the part", g.roots[i], listSome(g.o.References))
		}
	}
	if len(g.report.Snapshots) == 0 {
		g.refuse("there is no snapshot below %s: nothing says what is in use", strings.Join(g.report.Roots, ", "))
	}
}

// asidePrefix begins the names that repair and relocate give old metadata.
const asidePrefix = MetadataName + ".before-"

// checkCopies refuses where metadata was given another name: what it uses is not known. Old metadata that
// drey put aside is told, as it may be left of a snapshot that was dropped.
func (g *gc) checkCopies() {
	for f := range g.report.Files() {
		if f.Cause != CauseCopy || !g.isCopyAlone(g.registry.Key(f.URI)) {
			continue
		}
		if strings.HasPrefix(storage.Base(f.URI), asidePrefix) {
			g.note("%s is old metadata, and there is no other: the files beside it stay", f.URI)
		} else if !slices.Contains(g.keys(g.o.IgnoreMetadata), g.registry.Key(f.URI)) {
			g.refuse("%s is metadata under another name, and there is no other beside it: it may use any file in scope; give it its name back or, to delete nevertheless, as if it named no file, ignore this metadata by its path", f.URI)
		}
	}
}

// refuseUndecided refuses where metadata or directories could not be read.
func refuseUndecided(p *GCPlan, r *AuditReport, ignored []string, key func(string) string) {
	refuse := func(text string) { p.Refused = append(p.Refused, text) }
	for _, f := range r.Unreadable {
		if !slices.Contains(ignored, key(f.URI)) {
			refuse(f.URI + ": " + f.Error + ": it may use any file in scope; to delete nevertheless, as if it named no file, ignore this metadata by its path")
		}
	}
	for _, s := range r.Snapshots {
		if slices.Contains(ignored, s.key) {
			refuse(s.URI + ": can be read, and so is not ignored; dispose of the snapshot if it is not needed")
		}
	}
	for _, f := range r.Unlisted {
		refuse(f.URI + ": not listed to its end: " + f.Error)
	}
	for i := range r.Links {
		if why := r.Links[i].refusal(); why != "" {
			refuse(why)
		}
	}
}

// Below this share of files in use, in a hundred, a listing of at least that many unused files is suspicious.
const (
	suspiciousShare = 1
	suspiciousFiles = 100
)

// matchNames finds what is only unused because a snapshot spells its path in another way. Flink's names of
// files are random, so that a file and a reference of one name mean the same, or copies. The audit leaves them undecided.
func (g *gc) matchNames() {
	used := make([]int64, len(g.rootKeys))
	named := false // snapshots name files at all; where all state is in metadata, none do
	rootOf := map[incremental.DirID]int{}
	for id := range g.registry.Limit() {
		if g.registry.Uses(id) == 0 {
			continue
		}
		if f := g.registry.File(id); !f.Directory && !f.Metadata {
			named = true
		}
		if !g.listed(id) {
			continue
		}
		dir := g.registry.Dir(id)
		root, ok := rootOf[dir]
		if !ok {
			root = g.rootOf(g.registry.DirURI(dir))
			rootOf[dir] = root
		}
		if f := g.registry.File(id); root >= 0 && !f.Directory && !f.Metadata {
			used[root]++
		}
	}
	unused := make([]int64, len(g.rootKeys))
	rules := map[Rule]int{}
	for f := range g.report.Files() {
		root := g.rootOf(g.registry.Key(f.URI))
		switch {
		case root < 0:
		case f.Status == FileUnreferenced:
			unused[root]++
		case f.Cause == CauseNamed:
			for _, id := range g.registry.Named(storage.Base(f.URI)) {
				// A snapshot that looks for a file in its own directory, and doesn't find it, is a
				// known mistake of Flink: the file lies in the savepoint that was claimed.
				if dir := g.registry.DirURI(g.registry.Dir(id)); !g.listed(id) && !g.layouts.snapshots[dir] {
					rules[differing(dir, g.registry.Key(storage.Dir(f.URI)))]++
				}
			}
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(rules), func(a, b Rule) int {
		return cmp.Or(rules[b]-rules[a], strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	}) {
		g.refuse("%d files that seem unused have the names of files that snapshots name elsewhere: %s in metadata, %s in the listing; if that is one place, give the first the second as alias", rules[r], r.From, r.To)
	}
	for i, root := range g.roots {
		switch {
		case unused[i] == 0 || len(rules) > 0 || g.o.AcceptMismatch || !named && unused[i] < suspiciousFiles:
		case used[i] == 0:
			g.refuse("none of the files below %s is used by a snapshot in scope, not even one of %d old ones: the snapshots that use them, or the spelling of their paths, may be missing%s", root, unused[i], g.elsewhere())
		case unused[i] >= suspiciousFiles && used[i]*100 < unused[i]*suspiciousShare:
			g.refuse("only %d files below %s are used by snapshots in scope, and %d old ones are not: snapshots, or the spelling of their paths, may be missing%s", used[i], root, unused[i], g.elsewhere())
		}
	}
}

// elsewhere says where snapshots name files that are not there.
func (g *gc) elsewhere() string {
	dirs := map[string]int{}
	for id := range g.registry.Limit() {
		if f := g.registry.File(id); f.Uses > 0 && !f.Directory && !g.inScope(f.URI) {
			dirs[g.registry.DirURI(g.registry.Dir(id))]++
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	list := slices.SortedFunc(maps.Keys(dirs), func(a, b string) int { return cmp.Or(dirs[b]-dirs[a], strings.Compare(a, b)) })
	return "; the snapshots name files in " + listSome(list)
}

// rootOf gives the index of the root that a place is below, -1 if it is below none.
func (g *gc) rootOf(key string) int {
	return slices.IndexFunc(g.rootKeys, func(r string) bool { return within([]string{r}, key) })
}
