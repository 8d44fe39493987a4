package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// DisposeOptions are the options of [PlanDispose]; the zero value is the default.
type DisposeOptions struct {
	// Jobs is the number of directories and files to look at at once; 0 means 4 for each CPU, at least 16.
	Jobs int
	// Aliases say which places are the same under other names.
	Aliases []Rule
	// Scope are the directories in which snapshots are looked for that may use the same files; nothing
	// outside of them is deleted. Without any it is, for a checkpoint, the directory that holds the
	// directories of jobs, and for a canonical savepoint the one that its directory lies in. Files of other savepoints
	// may be used by jobs that claimed them, so that there is no scope that will do for all.
	Scope []string
	// IgnoreMetadata are metadata files in scope that can't be read and shall count as if they named no file.
	IgnoreMetadata []string
	// KeepUsed deletes a snapshot although others use files in its directory; those files stay.
	KeepUsed bool
	// Stopped says that the jobs of the checkpoints do not run, so that their newest checkpoints are not
	// needed, and a directory of a later checkpoint without metadata is no checkpoint in progress.
	Stopped bool
	// Held is what running clusters hold, asked before the call.
	Held []*Held
}

// PlanDispose plans the deletion of snapshots as `flink savepoint -d` does it: metadata, every file that it names, and
// then the directory if nothing else is in it; but no file that another snapshot in scope uses. Only
// metadata in scope is looked at. Reasons to refuse are in the plan. Nothing is changed.
func PlanDispose(ctx context.Context, fsys storage.FS, snapshots []string, o DisposeOptions) (*GCPlan, error) {
	var metadata []string
	for _, arg := range snapshots {
		uri, chosen, err := Locate(ctx, fsys, arg)
		if err != nil {
			return nil, err
		}
		if chosen != "" {
			return nil, fmt.Errorf("%s: not a snapshot but a job's directory: name the checkpoint: %w", arg, ErrRefused)
		}
		if !slices.Contains(metadata, uri) {
			metadata = append(metadata, uri)
		}
	}
	if len(metadata) == 0 {
		return nil, errors.New("no snapshot to dispose of")
	}
	scope := o.Scope
	if len(scope) == 0 {
		scope = defaultScope(metadata)
	}
	if err := contradiction(o.Aliases); err != nil {
		return nil, err
	}
	p := &GCPlan{Roots: scope, Aliases: o.Aliases, Ignored: o.IgnoreMetadata}
	s, err := newScout(ctx, fsys, p, o.Jobs)
	if err != nil {
		return nil, err
	}
	refusal := s.look(ctx)
	if refusal != nil && !errors.Is(refusal, ErrRefused) {
		return nil, refusal
	}
	g := &gc{
		audit: s.audit, o: GCOptions{TaskOwned: true}, plan: newGCPlan("dispose", s.report), dropped: map[incremental.SnapshotID]int{},
		kept: map[string]*AuditCount{}, files: newDroppedFiles(), disposal: true, guard: newGuard(o.Held, s.registry.Key),
	}
	for _, root := range scope {
		g.roots = append(g.roots, storage.Clean(root))
	}
	g.rootKeys = g.keys(g.roots)
	g.plan.Roots, g.plan.GraceSeconds = g.roots, 0
	g.plan.Ignored = append(g.plan.Ignored, o.IgnoreMetadata...)
	if refusal != nil {
		g.refuse("%s", refusal)
	} else if err := g.dispose(ctx, s, metadata, o); err != nil {
		return nil, err
	}
	if len(o.Scope) == 0 {
		g.note("users of the files were looked for below %s; a job that was restored from a snapshot here in claim mode, and has its checkpoints elsewhere, is not seen: name their directory as scope, too (--scope)", listSome(g.roots))
	}
	g.sumKept()
	return g.plan, nil
}

// defaultScope gives the directories in which others that use the same files would lie.
func defaultScope(metadata []string) []string {
	var scope []string
	for _, uri := range metadata {
		dir := storage.Dir(uri)
		up := storage.Dir(dir)
		if _, ok := incremental.CheckpointNumber(storage.Base(dir)); ok {
			up = storage.Dir(up)
		}
		if !slices.Contains(scope, up) {
			scope = append(scope, up)
		}
	}
	return scope
}

// dispose drops the snapshots, or refuses to.
func (g *gc) dispose(ctx context.Context, s *scout, metadata []string, o DisposeOptions) error {
	for _, uri := range metadata {
		key := g.registry.Key(uri)
		known, ok := s.known[key]
		if !ok {
			g.refuse("%s is not in scope: name a directory above it, in the spelling in which it is listed", uri)
			continue
		}
		i := slices.IndexFunc(g.report.Snapshots, func(s AuditSnapshot) bool { return s.ID == known.id })
		info := &g.report.Snapshots[i]
		listed, _ := g.spell(key)
		if len(o.Scope) == 0 && info.claimable && g.layouts.of(storage.Dir(key)).area != AreaCheckpoint {
			g.refuse("%s is not of the canonical format: as in a native savepoint, its files may be used by checkpoints of a job that was restored from it in claim mode; name as scope the directories of such checkpoints, and %s", uri, listSome(g.roots))
		}
		g.dropped[known.id] = len(g.plan.Drop)
		g.plan.Drop = append(g.plan.Drop, GCDrop{
			Snapshot: listed, CheckpointID: info.CheckpointID, Kind: info.Kind, Size: known.size, ModTime: known.modTime,
			Reason: "to be disposed of", id: known.id, key: key,
		})
	}
	for i := range g.plan.Drop {
		d := &g.plan.Drop[i]
		if held := g.guard.snapshot(d.key, g.layouts.of(storage.Dir(d.key)).job, d.CheckpointID); held != "" {
			g.refuse("%s: %s", d.Snapshot, held)
		}
		if users := g.borrowers(d.id, d.key); len(users) > 0 && !o.KeepUsed {
			g.refuse("%s: %s", d.Snapshot, lent(users))
		}
		p := g.layouts.of(storage.Dir(d.key))
		if p.area != AreaCheckpoint || o.Stopped {
			continue
		}
		known, ended := g.guard.told(p.job)
		if !known && g.newest(p.job, d.id) {
			g.refuse("%s: the newest checkpoint of its job, which may be running and would go on from it after a failure; say that the job does not run, or name a job manager that knows the job", d.Snapshot)
		}
		if later := g.inProgress(storage.Dir(d.key)); later != "" && !ended {
			g.refuse("%s: %s has no metadata, and may be a checkpoint in progress that uses the same files; say that the job does not run if that is so", d.Snapshot, later)
		}
	}
	if len(g.plan.Refused) > 0 {
		g.plan.Drop = []GCDrop{}
		return nil
	}
	if err := g.takeDropped(ctx); err != nil {
		return err
	}
	if elsewhere := g.kept[keptElsewhere]; elsewhere != nil {
		g.note("%d files that nothing else in scope uses are named at places outside of it, and stay; if such a place is one in scope under another name, tell it as alias (--alias OLD=NEW)", elsewhere.Files)
	}
	g.files.each(func(e GCEntry) bool { g.plan.Delete.add(e.Size); return true })
	g.plan.entries = func(yield func(GCEntry, error) bool) {
		g.files.each(func(e GCEntry) bool { return yield(e, nil) })
	}
	for _, d := range g.plan.Drop {
		if p := g.layouts.of(storage.Dir(d.key)); p.area == AreaCheckpoint || p.area == AreaSavepoint {
			g.plan.Directories = append(g.plan.Directories, storage.Dir(d.Snapshot))
		}
	}
	deepestFirst(g.plan.Directories)
	g.plan.Directories = slices.Compact(g.plan.Directories)
	return nil
}

// claimable says that a job that is restored from a snapshot in claim mode may go on using its files, which are then Flink's: all
// but canonical savepoints, up to Flink 1.12 told by the form of their state.
func claimable(s *metadata.Snapshot) bool {
	switch s.Kind() {
	case metadata.KindCanonicalSavepoint:
		return false
	case metadata.KindUnknown:
		for i := range s.Operators {
			for _, t := range s.Operators[i].Subtasks {
				if t.State == nil || t.State.ManagedKeyed == nil {
					continue
				}
				if h, ok := t.State.ManagedKeyed.(*metadata.KeyGroups); !ok || h.Form == metadata.KeyGroupsV2 {
					return true
				}
			}
		}
		return false
	}
	return true
}

// newest says that of the checkpoints of a job, but for others that go, none is newer than one: by the numbers, or by the
// times, as the numbers begin again with a job that was started without state.
func (g *gc) newest(job string, id incremental.SnapshotID) bool {
	i := slices.IndexFunc(g.report.Snapshots, func(s AuditSnapshot) bool { return s.ID == id })
	d := &g.report.Snapshots[i]
	byNumber, byTime := true, true
	for i := range g.report.Snapshots {
		s := &g.report.Snapshots[i]
		p := g.layouts.of(storage.Dir(s.key))
		if _, goes := g.dropped[s.ID]; goes || s.savepoint || p.area != AreaCheckpoint || p.job != job {
			continue
		}
		if s.CheckpointID > d.CheckpointID {
			byNumber = false
		}
		if order := s.ModTime.Compare(d.ModTime); order > 0 || order == 0 && s.CheckpointID > d.CheckpointID {
			byTime = false
		}
	}
	return byNumber || byTime
}

// inProgress gives the directory of a later checkpoint of the job that has no metadata.
func (g *gc) inProgress(dir string) string {
	p := g.layouts.of(dir)
	if p.area != AreaCheckpoint {
		return ""
	}
	for other := range g.audit.dirs {
		if q := g.layouts.of(other); q.area == AreaCheckpoint && q.job == p.job && q.checkpoint > p.checkpoint && !g.layouts.snapshots[other] {
			return other
		}
	}
	return ""
}
