package tools

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// GCOptions are the options of [PlanGC]; the zero value is the default: what no
// snapshot uses is deleted, and every snapshot stays.
type GCOptions struct {
	// AuditOptions say how the roots are looked at. The grace period also
	// holds for snapshots that are dropped.
	AuditOptions
	// References are further roots whose snapshots may use files below the
	// roots; nothing below them is deleted, also where they are below a root.
	References []string
	// IgnoreMetadata are metadata files that can't be read and shall count as
	// if they named no file. What lies beside them stays.
	IgnoreMetadata []string
	// Only restricts deletion to these directories; everything in scope still counts as a user.
	Only []string
	// Retire are directories of jobs that ended for good: all their checkpoints are dropped. All that such a
	// job wrote must be older than the grace period, unless Held says that it ended.
	Retire []string
	// KeepLast drops the checkpoints of each job but the newest complete ones; 0 drops none.
	KeepLast int
	// KeepSavepoints does the same with the savepoints of each job; 0 drops
	// none. Then savepoints without metadata whose job is not known are deleted, too.
	KeepSavepoints int
	// TaskOwned deletes unused files in taskowned, too. Connectors keep files there that no metadata names.
	TaskOwned bool
	// EmptyDirs removes directories of checkpoints, savepoints and attempts that are empty, or will be.
	EmptyDirs bool
	// Pins are snapshots, directories and files of which nothing is deleted,
	// nor anything that a snapshot there uses. They may be outside of the roots, but must be there.
	Pins []Pin
	// MaxDelete is the number of files above which deletion is refused; 0 means no limit.
	MaxDelete int64
	// AcceptMismatch goes on although hardly any of what is listed is named by snapshots. It is refused all the
	// same if snapshots name files that are listed elsewhere.
	AcceptMismatch bool
	// Held is what running clusters hold, asked before the call.
	Held []*Held
}

// GCEntry is a file that is to be deleted.
type GCEntry struct {
	Path    string    `json:"path"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modified,omitzero"`
	Reason  string    `json:"reason"`
	// Of are the snapshots, by index in GCPlan.Drop, whose metadata must be gone before.
	Of []int `json:"of,omitempty"`
}

// GCDrop is a snapshot that is to be deleted.
type GCDrop struct {
	// Snapshot is the URI of its metadata file.
	Snapshot     string    `json:"snapshot"`
	CheckpointID int64     `json:"checkpointID"`
	Kind         string    `json:"kind"`
	Size         int64     `json:"size"`
	ModTime      time.Time `json:"modified,omitzero"`
	Reason       string    `json:"reason"`

	id  incremental.SnapshotID
	key string
}

// GCKept counts files or snapshots that could be deleted but for a reason.
type GCKept struct {
	Reason string `json:"reason"`
	AuditCount
}

// GCPlan says what [GCPlan.Execute] deletes, and nothing else. [GCPlan.WriteTo] saves
// it, [ReadGCPlan] reads it. It may not be used concurrently.
type GCPlan struct {
	// Format is that of the saved plan, [GCPlanFormat].
	Format int `json:"format"`
	// Operation is "gc" or "dispose".
	Operation string    `json:"operation"`
	ID        string    `json:"id"`
	Made      time.Time `json:"made"`
	Roots     []string  `json:"roots"`
	// References are roots that are only in scope for what their snapshots use.
	References   []string `json:"references"`
	Aliases      []Rule   `json:"aliases"`
	Ignored      []string `json:"ignoredMetadata"`
	Pins         []string `json:"pins"`
	GraceSeconds int64    `json:"graceSeconds"`
	// Snapshots is the number of snapshots in scope.
	Snapshots int `json:"snapshots"`
	// Refused says why nothing may be deleted; then Execute refuses.
	Refused []string `json:"refused"`
	Notes   []string `json:"notes"`
	Drop    []GCDrop `json:"drop"`
	// Listed are the totals of what lies below the roots; zero for a disposal.
	Listed AuditTotals `json:"listed"`
	Kept   []GCKept    `json:"kept"`
	// OrphanSavepoints are directories of savepoints that have no metadata and no known job.
	OrphanSavepoints []string `json:"orphanSavepoints"`
	// Directories are to be removed if they are empty then, the deepest first.
	Directories []string `json:"directories"`
	// Delete is what all entries add up to.
	Delete AuditCount `json:"planned"`

	audit   *audit // nil if the plan was read
	entries iter.Seq2[GCEntry, error]
}

// Entries yields the files in the order in which they are deleted: metadata
// of dropped snapshots first. Those of a plan that is being read can be had once.
// After an error it ends.
func (p *GCPlan) Entries() iter.Seq2[GCEntry, error] { return p.entries }

// Limit refuses the plan if it deletes more than n files; 0 means no limit.
func (p *GCPlan) Limit(n int64) {
	if n > 0 && p.Delete.Files > n {
		p.Refused = append(p.Refused, fmt.Sprintf("%d files are to be deleted, more than the limit of %d", p.Delete.Files, n))
	}
}

// gc is the making of a plan.
type gc struct {
	*audit
	o        GCOptions
	roots    []string // in which files may be deleted
	rootKeys []string
	refKeys  []string // below which nothing is deleted
	plan     *GCPlan
	dropped  map[incremental.SnapshotID]int // index in plan.Drop
	retired  map[string]bool                // directories of jobs
	pins     []string                       // in canonical spelling
	only     []string
	kept     map[string]*AuditCount
	files    *droppedFiles
	dirs     map[string]bool // to be removed if empty
	disposal bool            // what lies in scope was not listed
	guard    *guard

	checkpoints bool // completed checkpoints are in scope
}

// PlanGC finds what may be deleted below the roots. Reasons to refuse are in the plan, which then
// names no files; errors are those of [Audit], and of options that make no sense. Nothing is changed.
func PlanGC(ctx context.Context, fsys storage.FS, roots []string, o GCOptions) (*GCPlan, error) {
	if len(roots) == 0 {
		return nil, fmt.Errorf("no directory to collect garbage in")
	}
	if o.KeepLast < 0 || o.KeepSavepoints < 0 || o.MaxDelete < 0 {
		return nil, fmt.Errorf("a negative number of snapshots or files to keep")
	}
	if o.Now.IsZero() {
		o.Now = earliestNow(o.Held)
	}
	r, err := auditForGC(ctx, fsys, roots, &o)
	if err != nil {
		return nil, err
	}
	g := &gc{
		audit: r.audit, o: o, plan: newGCPlan("gc", r), dropped: map[incremental.SnapshotID]int{}, retired: map[string]bool{},
		kept: map[string]*AuditCount{}, files: newDroppedFiles(), dirs: map[string]bool{},
	}
	for _, root := range roots {
		g.roots = append(g.roots, storage.Clean(root))
	}
	g.rootKeys = g.keys(roots)
	g.plan.Roots, g.plan.Listed = g.roots, r.Totals
	g.plan.References = append(g.plan.References, o.References...)
	g.plan.Ignored = append(g.plan.Ignored, o.IgnoreMetadata...)
	for _, p := range o.Pins {
		g.plan.Pins = append(g.plan.Pins, p.Path)
	}
	for _, list := range []*[]string{&g.plan.References, &g.plan.Pins} {
		others, err := otherNames(ctx, fsys, g.roots, *list, o.Aliases)
		if err != nil {
			return nil, err
		}
		*list = append(*list, others...)
	}
	g.refKeys, g.pins, g.only = g.keys(g.plan.References), g.keys(g.plan.Pins), g.keys(o.Only)
	if err := g.retire(); err != nil {
		return nil, err
	}
	g.checkpoints = g.hasCheckpoints()
	g.guard = newGuard(o.Held, g.registry.Key)
	g.checkScope()
	g.checkHeld()
	g.checkRetiredAge()
	g.matchNames()
	if len(g.plan.Refused) == 0 {
		g.choose()
		if err := g.takeDropped(ctx); err != nil {
			return nil, err
		}
	}
	g.finish()
	return g.plan, nil
}

// auditForGC audits everything in scope, with pins that lie elsewhere.
func auditForGC(ctx context.Context, fsys storage.FS, roots []string, o *GCOptions) (*AuditReport, error) {
	scope := append(slices.Clone(roots), o.References...)
	for _, root := range scope {
		// A mistake in the path of a reference would protect nothing.
		if _, err := fsys.Stat(ctx, storage.Clean(root)); err != nil {
			return nil, err
		}
	}
	pins, err := findPins(ctx, fsys, scope, o.Pins, o.Aliases)
	if err != nil {
		return nil, err
	}
	return Audit(ctx, fsys, append(scope, pins...), o.AuditOptions)
}

func newGCPlan(operation string, r *AuditReport) *GCPlan {
	return &GCPlan{
		Format: GCPlanFormat, Operation: operation, ID: newID(), Made: r.Now, GraceSeconds: r.GraceSeconds,
		Roots: []string{}, References: []string{}, Ignored: []string{}, Pins: []string{}, Refused: []string{}, Notes: []string{}, Drop: []GCDrop{},
		Kept: []GCKept{}, OrphanSavepoints: []string{}, Directories: []string{}, Aliases: append([]Rule{}, r.audit.o.Aliases...),
		Snapshots: len(r.Snapshots), audit: r.audit, entries: func(func(GCEntry, error) bool) {},
	}
}

func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

func (g *gc) keys(uris []string) []string {
	keys := make([]string, len(uris))
	for i, u := range uris {
		keys[i] = g.registry.Key(storage.Clean(u))
	}
	return keys
}

func (g *gc) refuse(format string, args ...any) {
	g.plan.Refused = append(g.plan.Refused, fmt.Sprintf(format, args...))
}

func (g *gc) note(format string, args ...any) {
	g.plan.Notes = append(g.plan.Notes, fmt.Sprintf(format, args...))
}

// within says that a place, in canonical spelling, is one of the directories or in one.
func within(dirs []string, key string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		rest, ok := strings.CutPrefix(key, d)
		return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(d, "/"))
	})
}

// spell gives a file below the roots in their spelling, false for others.
func (g *gc) spell(key string) (string, bool) {
	for _, root := range g.roots {
		k := g.registry.Key(root)
		if within([]string{k}, key) {
			return storage.Join(root, strings.TrimPrefix(key, k)), true
		}
	}
	return "", false
}

// mayDelete says that a place is below a root, and below no reference.
func (g *gc) mayDelete(key string) bool { return within(g.rootKeys, key) && !within(g.refKeys, key) }

// verdictOf says why a file that no snapshot uses stays, "" if it is to be deleted, and what to call the file if it is.
func (g *gc) verdictOf(f *AuditFile) (stays, reason string) {
	key := g.registry.Key(f.URI)
	unused := f.Status == FileUnreferenced
	if g.retired[g.registry.Key(f.Job)] && f.Job != "" {
		// The newest checkpoint of a job that ended stays the newest one forever.
		old := !f.ModTime.IsZero() && age(g.now, f.ModTime) >= g.grace && !f.ModTime.After(g.now)
		_, spared := g.spare(key)
		if old && !spared && (f.Status == FileYoung || f.Cause == CauseWorking || f.Cause == CauseNoCheckpoint) {
			unused = true
		}
	}
	switch {
	case !unused:
		return f.Status.String() + ": " + f.Cause, ""
	case !g.mayDelete(key):
		return "below a directory that is only in scope for its snapshots", ""
	case len(g.only) > 0 && !within(g.only, key):
		return "not in the directories to which deletion is restricted", ""
	case within(g.pins, key):
		return "pinned", ""
	case f.TaskOwned && !g.o.TaskOwned:
		return keptTaskOwned, ""
	case g.orphanSavepoint(f) && g.o.KeepSavepoints == 0:
		return "of a savepoint without metadata whose job is not known", ""
	case f.Area == AreaSavepoint && !g.layouts.snapshots[f.Dir] && !g.checkpoints:
		return "of a savepoint without metadata, as one is that a job claimed, and no checkpoint is in scope that would show it", ""
	case g.guard.file(g.layouts.of(storage.Dir(key)), f.ModTime):
		return keptRunning, ""
	}
	return "", f.Cause
}

const (
	keptTaskOwned = "in taskowned, where connectors keep files that no metadata names"
	keptRunning   = "written since the newest checkpoint of a running job"
)

// orphanSavepoint says that a file is of a savepoint without metadata, of no known job.
func (g *gc) orphanSavepoint(f *AuditFile) bool {
	return f.Area == AreaSavepoint && !g.layouts.snapshots[f.Dir] && len(g.book.ofSavepoint(f.Dir)) == 0
}

// unused yields the files to delete that no snapshot uses.
func (g *gc) unused(yield func(GCEntry, *AuditFile, string) bool) {
	for f := range g.report.Files() {
		stays, reason := g.verdictOf(&f)
		if !yield(GCEntry{Path: f.URI, Size: f.Size, ModTime: f.ModTime, Reason: reason}, &f, stays) {
			return
		}
	}
}

// finish counts what the plan deletes, and what not.
func (g *gc) finish() {
	p := g.plan
	if len(p.Refused) == 0 {
		orphans := map[string]bool{}
		g.unused(func(e GCEntry, f *AuditFile, stays string) bool {
			if g.orphanSavepoint(f) {
				orphans[f.Dir] = true
			}
			if stays != "" {
				if f.Status == FileUnreferenced {
					g.stay(stays, e.Size)
				}
				return true
			}
			p.Delete.add(e.Size)
			g.willEmpty(e.Path, f.Dir)
			return true
		})
		g.files.each(func(e GCEntry) bool { p.Delete.add(e.Size); return true })
		p.OrphanSavepoints = append(p.OrphanSavepoints, slices.Sorted(maps.Keys(orphans))...)
		p.entries = func(yield func(GCEntry, error) bool) {
			if !g.files.each(func(e GCEntry) bool { return yield(e, nil) }) {
				return
			}
			g.unused(func(e GCEntry, _ *AuditFile, stays string) bool { return stays != "" || yield(e, nil) })
		}
		g.chooseDirs()
		p.Limit(g.o.MaxDelete)
	}
	g.sumKept()
}

func (g *gc) sumKept() {
	for _, reason := range slices.Sorted(maps.Keys(g.kept)) {
		g.plan.Kept = append(g.plan.Kept, GCKept{reason, *g.kept[reason]})
	}
}

func (g *gc) stay(reason string, size int64) {
	if g.kept[reason] == nil {
		g.kept[reason] = new(AuditCount)
	}
	g.kept[reason].add(size)
}
