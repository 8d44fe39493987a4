package tools

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// retire checks that the jobs to retire are there.
func (g *gc) retire() error {
	for _, dir := range g.o.Retire {
		key := g.registry.Key(storage.Clean(dir))
		if g.book.byDir[key] == nil {
			return fmt.Errorf("%s: not the directory of a job in scope", dir)
		}
		switch {
		case !within(g.rootKeys, key):
			return fmt.Errorf("%s: not below the roots", dir)
		case !g.mayDelete(key):
			return fmt.Errorf("%s: below a reference, where nothing is deleted", dir)
		}
		g.retired[key] = true
	}
	return nil
}

// choose finds the snapshots to drop.
func (g *gc) choose() {
	byJob := map[string][]*AuditSnapshot{}
	savepoints := map[string][]*AuditSnapshot{}
	for i := range g.report.Snapshots {
		s := &g.report.Snapshots[i]
		switch {
		case s.Job != "" && !s.savepoint:
			byJob[s.Job] = append(byJob[s.Job], s)
		case s.Job == "" && g.o.KeepSavepoints > 0 && s.Kind == metadata.KindNativeSavepoint.String() && !g.checkpoints:
			g.stay("native savepoint, which a job may have claimed, and no checkpoint is in scope that would show it", s.Exclusive.Bytes)
		case s.Job == "" && g.o.KeepSavepoints > 0:
			if lineage := g.lineage(s); lineage != "" {
				savepoints[lineage] = append(savepoints[lineage], s)
			} else {
				g.stay("savepoint whose job is not known", s.Exclusive.Bytes)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(byJob)) {
		switch list := byJob[dir]; {
		case g.retired[dir]:
			for _, s := range list {
				g.drop(s, "its job was retired")
			}
		case g.o.KeepLast > 0:
			g.dropOlder(list, g.o.KeepLast, g.book.byDir[dir].NewestTime, "checkpoints of its job")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(savepoints)) {
		list := savepoints[name]
		newest := time.Time{}
		for _, s := range list {
			if s.ModTime.After(newest) {
				newest = s.ModTime
			}
		}
		g.dropOlder(list, g.o.KeepSavepoints, newest, "savepoints of its job")
	}
	g.keepLenders()
	g.plan.Drop = slices.DeleteFunc(g.plan.Drop, func(d GCDrop) bool { _, ok := g.dropped[d.id]; return !ok })
	clear(g.dropped)
	for i := range g.plan.Drop {
		g.dropped[g.plan.Drop[i].id] = i
	}
	g.checkRetired()
}

// fixedIDs are beginnings of ids that are not random. Writers that know no job have the id 0, as does, until Flink
// 1.15, each job of application mode with high availability; since then such an id begins with an int that is extended to 64 bits.
var fixedIDs = []string{"000000", "ffffff"}

// hasCheckpoints says that completed checkpoints are in scope, and so users of savepoints that jobs claimed.
func (g *gc) hasCheckpoints() bool {
	return slices.ContainsFunc(g.report.Snapshots, func(s AuditSnapshot) bool { return s.Job != "" && !s.savepoint })
}

// lineage names the job of a savepoint: the directory that it lies in, and the
// beginning of the job's id; "" if its name does not tell.
func (g *gc) lineage(s *AuditSnapshot) string {
	dir := storage.Dir(s.key)
	name := storage.Base(dir)
	if !savepointPattern.MatchString(name) {
		return ""
	}
	id := name[len("savepoint-"):][:6]
	if slices.Contains(fixedIDs, id) {
		return ""
	}
	jobs := map[string]bool{}
	for _, j := range g.book.order {
		switch {
		case !jobOfSavepoint(dir, j.Dir):
		case j.Checkpoints > 0:
			jobs[j.Dir] = true
		default: // it may be files of a job elsewhere that lie below its id here
			jobs[storage.Base(j.Dir)] = true
		}
	}
	for dir := range jobs {
		if base := storage.Base(dir); base != dir {
			delete(jobs, base)
		}
	}
	if len(jobs) > 1 {
		return ""
	}
	return storage.Join(storage.Dir(dir), "savepoint-"+id)
}

// dropOlder drops those that are older than the newest complete ones, and older than the grace
// period. What is newest is asked of the numbers and of the times, as the numbers
// begin again with a job that was started without state, and a copy has the time of copying.
func (g *gc) dropOlder(list []*AuditSnapshot, keep int, newest time.Time, of string) {
	kept := map[*AuditSnapshot]bool{}
	for _, compare := range []func(a, b *AuditSnapshot) int{
		func(a, b *AuditSnapshot) int { return cmp.Compare(b.CheckpointID, a.CheckpointID) },
		func(a, b *AuditSnapshot) int { return b.ModTime.Compare(a.ModTime) },
	} {
		slices.SortStableFunc(list, compare)
		complete := 0
		for _, s := range list {
			if complete == keep {
				break
			}
			if kept[s] = true; s.Complete() {
				complete++
			}
		}
	}
	limit := g.now
	if newest.Before(limit) {
		limit = newest
	}
	for _, s := range list {
		if kept[s] {
			continue
		}
		if s.ModTime.IsZero() || s.ModTime.After(limit.Add(-g.grace)) {
			g.stay("snapshot not older than the grace period", s.Exclusive.Bytes)
			continue
		}
		g.drop(s, fmt.Sprintf("not among the newest %d complete %s", keep, of))
	}
}

// drop marks a snapshot, unless it is protected.
func (g *gc) drop(s *AuditSnapshot, reason string) {
	uri, inside := g.spell(s.key)
	stays := ""
	switch {
	case !inside || !g.mayDelete(s.key):
		stays = "snapshot below a directory that is only in scope for its snapshots"
	case len(g.only) > 0 && !within(g.only, s.key):
		stays = "snapshot not in the directories to which deletion is restricted"
	case within(g.pins, s.key), slices.ContainsFunc(g.pins, func(p string) bool { return within([]string{storage.Dir(s.key)}, p) }):
		stays = "snapshot pinned"
	default:
		if stays = g.guard.snapshot(s.key, s.Job, s.CheckpointID); stays != "" {
			stays = "snapshot " + stays
		}
	}
	if stays != "" {
		g.stay(stays, s.Exclusive.Bytes)
		return
	}
	size, _ := g.sizeOf(s.key)
	g.dropped[s.ID] = len(g.plan.Drop)
	g.plan.Drop = append(g.plan.Drop, GCDrop{Snapshot: uri, CheckpointID: s.CheckpointID, Kind: s.Kind, Size: size, ModTime: s.ModTime, Reason: reason, id: s.ID, key: s.key})
}

func (g *gc) sizeOf(key string) (int64, bool) {
	id, ok := g.registry.Find(key)
	if !ok {
		return 0, false
	}
	return g.report.Found(id)
}

// keepLenders takes snapshots back of whose own directories others use files, that stay.
func (g *gc) keepLenders() {
	for changed := true; changed; {
		changed = false
		for i := range g.plan.Drop {
			d := &g.plan.Drop[i]
			if _, ok := g.dropped[d.id]; !ok {
				continue
			}
			users := g.borrowers(d.id, d.key)
			if len(users) == 0 {
				continue
			}
			delete(g.dropped, d.id)
			changed = true
			g.note("%s stays: %s", d.Snapshot, lent(users))
		}
	}
}

// borrowers counts, by snapshot that stays, the files in the directory of a snapshot that it uses.
func (g *gc) borrowers(id incremental.SnapshotID, key string) map[string]int {
	own := storage.Dir(key)
	users := map[string]int{}
	for f := range g.registry.Files(id) {
		if g.registry.Uses(f) < 2 || !within([]string{own}, g.registry.DirURI(g.registry.Dir(f))) {
			continue
		}
		for _, user := range g.registry.Users(f) {
			if _, ok := g.dropped[user]; !ok && user != id {
				users[g.registry.URI(user)]++
			}
		}
	}
	return users
}

func lent(users map[string]int) string {
	var list []string
	for _, u := range slices.Sorted(maps.Keys(users)) {
		list = append(list, fmt.Sprintf("%s uses %d files in its directory", storage.Dir(u), users[u]))
	}
	return listSome(list)
}

// checkRetiredAge refuses to retire a job that may be running, as it wrote something lately. Data that a checkpoint uses
// is not newer than its metadata.
func (g *gc) checkRetiredAge() {
	newest := map[string]time.Time{}
	unknown := map[string]bool{}
	note := func(dir string, t time.Time) {
		switch {
		case !g.retired[dir]:
		case t.IsZero():
			unknown[dir] = true
		case t.After(newest[dir]):
			newest[dir] = t
		}
	}
	for i := range g.report.Snapshots {
		note(g.report.Snapshots[i].Job, g.report.Snapshots[i].ModTime)
	}
	if len(g.retired) > 0 {
		for f := range g.report.Files() {
			note(f.Job, f.ModTime)
			for dir := range g.retired {
				// It is not known whose the changelog of an id is that several jobs can have.
				if f.Area == AreaChangelog && storage.Base(f.Job) == storage.Base(dir) {
					note(dir, f.ModTime)
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(g.retired)) {
		switch _, ended := g.guard.told(dir); {
		case ended:
		case unknown[dir]:
			g.refuse("job %s can't be retired: of some of its files it is not known when they were written, so that it may be running", dir)
		case newest[dir].After(g.now.Add(-g.grace)):
			g.refuse("job %s can't be retired: it wrote a file at %s, which is not older than the grace period, so that it may be running; wait, or ask the job manager that ran it whether it ended", dir, newest[dir].UTC().Format(time.RFC3339))
		}
	}
}

// checkRetired refuses where others use files of a job that is to go.
func (g *gc) checkRetired() {
	for _, dir := range slices.Sorted(maps.Keys(g.retired)) {
		users := map[string]int64{}
		for _, f := range g.report.Foreign {
			s, ok := g.registry.FindSnapshot(f.Snapshot)
			if _, goes := g.dropped[s.ID]; ok && !goes && f.Owner == dir {
				users[f.Snapshot] += f.Files
			}
		}
		var list []string
		for _, u := range slices.Sorted(maps.Keys(users)) {
			list = append(list, fmt.Sprintf("%s uses %d files of it", storage.Dir(u), users[u]))
		}
		if len(list) > 0 {
			g.refuse("job %s can't be retired: %s", dir, strings.Join(list[:min(len(list), 10)], "; "))
		}
	}
}
