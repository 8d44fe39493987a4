package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/storage"
)

// GCExecuteOptions are the options of [GCPlan.Execute]; the zero value is the default.
type GCExecuteOptions struct {
	// Jobs is the number of files to look at at once; 0 means 4 for each CPU, at least 16.
	Jobs int
	// Batch is the number of files that are checked, and then deleted, together; 0 means 1,000, which S3 takes in one request.
	Batch int
	// Rate is the number of files to delete in a second at most; 0 means no limit.
	Rate float64
	// Recheck is how old the last look for new metadata may be when a batch is
	// deleted; 0 means 30 seconds, a negative one looks before every batch. So
	// it is after each wait of more than a second for the rate.
	Recheck time.Duration
	// Guard, if not nil, asks running clusters what they hold, each time before metadata is looked for.
	// If it fails, nothing more is deleted.
	Guard func(context.Context) ([]*Held, error)
	// Record, if not nil, is written as it goes: a JSON object in a line for the beginning,
	// each file and the end.
	Record io.Writer
	// Progress, if not nil, is told how many files of the plan are dealt with.
	Progress func(done int64)
}

// GCFailure is a file that was not deleted.
type GCFailure struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// GCRun is what one execution of a plan did.
type GCRun struct {
	ID      string     `json:"run"`
	Plan    string     `json:"plan"`
	Started time.Time  `json:"started"`
	Ended   time.Time  `json:"ended,omitzero"`
	Planned AuditCount `json:"planned"`
	Deleted AuditCount `json:"deleted"`
	// Gone are files that were not there any more.
	Gone AuditCount `json:"gone"`
	// Skipped are files that were changed since, or that a snapshot uses now.
	Skipped AuditCount `json:"skipped"`
	// Failed are files that could not be looked at or deleted, and those of
	// dropped snapshots whose metadata is still there.
	Failed AuditCount `json:"failed"`
	// Directories is the number of directories that were removed.
	Directories int `json:"directories"`
	// Skips and Failures are the first of them; the record has all.
	Skips    []GCFailure `json:"skips"`
	Failures []GCFailure `json:"failures"`
	// Stopped says why the run ended before its end, "" if it did not.
	Stopped string `json:"stopped,omitempty"`
}

// mostFailures bounds the lists of a GCRun.
const mostFailures = 10000

// gcRun is a run.
type gcRun struct {
	*GCRun
	fsys    storage.FS
	plan    *GCPlan
	o       GCExecuteOptions
	scout   *scout
	drops   map[string]int // metadata of dropped snapshots by canonical URI
	gone    []bool         // by drop: the metadata is not there
	held    []string       // by drop: why it stays, "" if no running job holds it
	guard   *guard         // nil if no cluster is asked
	ids     map[incremental.SnapshotID]bool
	roots   []string
	refs    []string // below which nothing is deleted
	pins    []string
	enc     *json.Encoder
	dealt   int64
	deletes int64
	start   time.Time
}

// Execute deletes what the plan names and nothing else. Before each batch it looks for metadata that came or
// was changed since the plan was made, and at each file: one that a snapshot in scope uses, or that is not as
// the plan says, stays. The metadata of a dropped snapshot goes before its files, which stay if it can't be
// deleted. A file that is not there is no failure, so that running again is safe.
//
// The run is given also with an error, unless nothing was begun. An error unwraps to [ErrRefused] if nothing was
// changed as it would be unsafe, and to [ErrPartly] if some files were not deleted.
func (p *GCPlan) Execute(ctx context.Context, fsys storage.FS, o GCExecuteOptions) (*GCRun, error) {
	if len(p.Refused) > 0 {
		return nil, fmt.Errorf("%s: %w", listSome(p.Refused), ErrRefused)
	}
	s, err := newScout(ctx, fsys, p, o.Jobs)
	if err != nil {
		return nil, err
	}
	if o.Batch <= 0 {
		o.Batch = 1000
	}
	if o.Recheck == 0 {
		o.Recheck = 30 * time.Second
	}
	r := &gcRun{
		GCRun: &GCRun{ID: newID(), Plan: p.ID, Started: time.Now().UTC(), Planned: p.Delete, Skips: []GCFailure{}, Failures: []GCFailure{}},
		fsys:  fsys, plan: p, o: o, scout: s, drops: map[string]int{}, gone: make([]bool, len(p.Drop)), held: make([]string, len(p.Drop)), ids: map[incremental.SnapshotID]bool{}, start: time.Now(),
	}
	if o.Record != nil {
		r.enc = json.NewEncoder(o.Record)
		r.enc.SetEscapeHTML(false)
	}
	for _, root := range p.Roots {
		r.roots = append(r.roots, s.registry.Key(root))
	}
	for _, ref := range p.References {
		r.refs = append(r.refs, s.registry.Key(storage.Clean(ref)))
	}
	for _, pin := range p.Pins {
		r.pins = append(r.pins, s.registry.Key(storage.Clean(pin)))
	}
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	r.findDrops()
	err = r.run(ctx)
	r.Ended = time.Now().UTC()
	if err != nil {
		r.Stopped = err.Error()
	}
	if e := r.record("end", "", r.GCRun); err == nil {
		err = e
	}
	return r.GCRun, r.outcome(ctx, err)
}

// outcome is the error of the run as a whole.
func (r *gcRun) outcome(ctx context.Context, err error) error {
	changed := r.deletes > 0 // a deletion that failed may have been done all the same
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && errors.Is(err, ErrRefused) && changed:
		return &worded{fmt.Sprintf("stopped after %d of %d files: %v", r.Deleted.Files, r.Planned.Files, err), ErrPartly}
	case err != nil && changed:
		return fmt.Errorf("stopped after %d of %d files: %w (%w)", r.Deleted.Files, r.Planned.Files, err, ErrPartly)
	case err != nil:
		return err
	case r.Failed.Files > 0 || len(r.Failures) > 0:
		return fmt.Errorf("%d of %d files were not deleted: %w", r.Failed.Files, r.Planned.Files, ErrPartly)
	}
	return nil
}

// look looks for what came since the last time.
func (r *gcRun) look(ctx context.Context) error {
	if r.o.Guard != nil {
		held, err := r.o.Guard(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		g := newGuard(held, r.scout.registry.Key)
		r.guard = g
		for i, d := range r.plan.Drop {
			key := r.scout.registry.Key(d.Snapshot)
			r.held[i] = g.snapshot(key, r.scout.layouts.of(storage.Dir(key)).job, d.CheckpointID)
		}
	}
	return r.scout.look(ctx)
}

// findDrops finds the snapshots to drop in the registry. One that was changed since is not dropped: its files count as used.
func (r *gcRun) findDrops() {
	for i, d := range r.plan.Drop {
		key := r.scout.registry.Key(d.Snapshot)
		r.drops[key] = i
		k, ok := r.scout.known[key]
		if ok && k.size == d.Size && sameTime(k.modTime, d.ModTime) {
			r.ids[k.id] = true
		}
	}
}

func (r *gcRun) run(ctx context.Context) error {
	if err := r.record("begin", "", r.GCRun); err != nil {
		return err
	}
	size := r.o.Batch
	if r.o.Rate > 0 {
		// No more than a second's worth, so that files go evenly.
		size = max(1, min(size, int(r.o.Rate)))
	}
	var batch []GCEntry
	metadata := true
	total := int64(0)
	for e, err := range r.plan.Entries() {
		if err != nil {
			return err
		}
		if total++; total > r.Planned.Files {
			return fmt.Errorf("the plan has more files than the %d that it says: %w", r.Planned.Files, ErrRefused)
		}
		if _, isDrop := r.drops[r.scout.registry.Key(e.Path)]; isDrop != metadata || len(batch) == size {
			if err := r.flush(ctx, batch); err != nil {
				return err
			}
			batch, metadata = batch[:0], isDrop
		}
		batch = append(batch, e)
	}
	if err := r.flush(ctx, batch); err != nil {
		return err
	}
	return r.prune(ctx)
}

// longWait is a wait for the rate after which new metadata is looked for in any case.
const longWait = time.Second

// flush checks and deletes a batch.
func (r *gcRun) flush(ctx context.Context, batch []GCEntry) error {
	if len(batch) == 0 {
		return nil
	}
	// Before the checks, which are to be true when the files are deleted.
	began := time.Now()
	if err := r.wait(ctx, len(batch)); err != nil {
		return err
	}
	if r.o.Recheck < 0 || time.Since(r.scout.began) > r.o.Recheck || time.Since(began) > longWait {
		if err := r.look(ctx); err != nil {
			return err
		}
	}
	found := make([]recheck, len(batch))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.scout.jobs)
	for i := range batch {
		if r.mayBeNeeded(&batch[i]) {
			found[i] = recheck{"skipped", keptRunning}
			continue
		}
		g.Go(func() error {
			found[i] = r.check(gctx, &batch[i])
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var uris []string
	for i := range batch {
		if found[i] == (recheck{}) {
			uris = append(uris, batch[i].Path)
		}
	}
	failed := map[string]error{}
	if len(uris) > 0 {
		r.deletes += int64(len(uris))
		failed = deleteFailures(r.fsys.Delete(ctx, uris...), uris)
		if err := r.checkGone(ctx, uris, failed); err != nil {
			_ = r.settle(ctx, batch, found, failed) // what was deleted is told all the same
			return err
		}
	}
	return r.settle(ctx, batch, found, failed)
}

// mayBeNeeded says that a running job may be about to use a file that no snapshot uses.
func (r *gcRun) mayBeNeeded(e *GCEntry) bool {
	key := r.scout.registry.Key(e.Path)
	if _, isDrop := r.drops[key]; r.guard == nil || isDrop || len(e.Of) > 0 {
		return false
	}
	return r.guard.file(r.scout.layouts.of(storage.Dir(key)), e.ModTime)
}

// checkGone looks whether the metadata among files that were deleted is really gone: its files are deleted next.
func (r *gcRun) checkGone(ctx context.Context, uris []string, failed map[string]error) error {
	found := make([]error, len(uris))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.scout.jobs)
	for i, uri := range uris {
		if _, isDrop := r.drops[r.scout.registry.Key(uri)]; !isDrop || failed[uri] != nil {
			continue
		}
		g.Go(func() error {
			_, err := r.fsys.Stat(ctx, uri)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case ctx.Err() != nil:
				return ctx.Err() // nothing is deleted after this
			case err == nil:
				found[i] = errors.New("it was deleted, and is still there")
			default:
				found[i] = err
			}
			return nil
		})
	}
	err := g.Wait()
	for i, uri := range uris {
		if found[i] != nil {
			failed[uri] = found[i]
		}
	}
	return err
}

// settle counts and records what became of a batch.
func (r *gcRun) settle(ctx context.Context, batch []GCEntry, found []recheck, failed map[string]error) error {
	var failure error
	for i := range batch {
		e, c := &batch[i], found[i]
		if err, ok := failed[e.Path]; ok && c == (recheck{}) {
			c = recheck{what: "failed", why: bareCause(err, e.Path)}
		}
		switch c.what {
		case "":
			c.what = "deleted"
			r.Deleted.add(e.Size)
		case "gone":
			r.Gone.add(e.Size)
		case "skipped":
			r.Skipped.add(e.Size)
			if len(r.Skips) < mostFailures {
				r.Skips = append(r.Skips, GCFailure{e.Path, c.why})
			}
		case "failed":
			r.Failed.add(e.Size)
			if len(r.Failures) < mostFailures {
				r.Failures = append(r.Failures, GCFailure{e.Path, c.why})
			}
		}
		if n, ok := r.drops[r.scout.registry.Key(e.Path)]; ok && (c.what == "deleted" || c.what == "gone") {
			r.gone[n] = true
		}
		if err := r.record(c.what, c.why, e); err != nil && failure == nil {
			failure = err // the rest of the batch counts all the same
		}
	}
	if failure != nil {
		return failure
	}
	r.dealt += int64(len(batch))
	if r.o.Progress != nil {
		r.o.Progress(r.dealt)
	}
	return ctx.Err()
}

// recheck is what the check before the deletion found; the zero value if the file may go.
type recheck struct{ what, why string }

// check looks at a file once more.
func (r *gcRun) check(ctx context.Context, e *GCEntry) recheck {
	key := r.scout.registry.Key(e.Path)
	drop, isDrop := r.drops[key]
	switch {
	case !within(r.roots, key):
		return recheck{"skipped", "not below the roots of the plan"}
	case within(r.refs, key):
		return recheck{"skipped", "below a directory that is only in scope for its snapshots"}
	case within(r.pins, key):
		return recheck{"skipped", "pinned"}
	case isDrop && r.held[drop] != "":
		return recheck{"skipped", r.held[drop]}
	case !isDrop && isMetadataName(storage.Base(e.Path)):
		return recheck{"skipped", "metadata of a snapshot that the plan does not drop"}
	}
	for _, i := range e.Of {
		if i < 0 || i >= len(r.gone) || !r.gone[i] {
			return recheck{"failed", "the metadata of a snapshot that uses it is still there"}
		}
	}
	if user := r.user(key, isDrop); user != "" {
		return recheck{"skipped", "used by " + user}
	}
	if user := r.namesake(e); user != "" {
		return recheck{"skipped", "a file of its name is used at another place: " + user}
	}
	info, err := r.fsys.Stat(ctx, e.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return recheck{what: "gone"}
	case err != nil:
		return recheck{"failed", bareCause(err, e.Path)}
	case info.Dir:
		return recheck{"skipped", "a directory"}
	case info.Size != e.Size || !sameTime(info.ModTime, e.ModTime):
		return recheck{"skipped", fmt.Sprintf("changed: %d bytes of %s, not %d of %s", info.Size, info.ModTime.UTC().Format(time.RFC3339), e.Size, e.ModTime.UTC().Format(time.RFC3339))}
	}
	return recheck{}
}

// user names a snapshot that uses a file and is not dropped, "" if there is none.
func (r *gcRun) user(key string, isDrop bool) string {
	id, ok := r.scout.registry.Find(key)
	if !ok {
		return ""
	}
	for _, s := range r.scout.registry.Users(id) {
		if r.ids[s] {
			continue
		}
		uri := r.scout.registry.URI(s)
		if isDrop && r.scout.registry.Key(uri) == key {
			return "itself: it was changed since"
		}
		return uri
	}
	return ""
}

// namesake gives a file that a snapshot uses, and that has the name of one that was planned as unused.
func (r *gcRun) namesake(e *GCEntry) string {
	if len(e.Of) > 0 {
		return ""
	}
	for _, id := range r.scout.registry.Named(storage.Base(e.Path)) {
		return r.scout.registry.File(id).URI
	}
	return ""
}

// deleteFailures takes the errors of Delete apart.
func deleteFailures(err error, uris []string) map[string]error {
	failed := map[string]error{}
	if err == nil {
		return failed
	}
	var walk func(error)
	other := false
	walk = func(err error) {
		var one *storage.DeleteError
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				walk(e)
			}
		} else if errors.As(err, &one) {
			failed[one.URI] = one.Err
		} else {
			other = true
		}
	}
	walk(err)
	if other {
		for _, u := range uris {
			if failed[u] == nil {
				failed[u] = err
			}
		}
	}
	return failed
}

// wait waits until n more files may be deleted at the rate.
func (r *gcRun) wait(ctx context.Context, n int) error {
	if r.o.Rate <= 0 {
		return ctx.Err()
	}
	due := r.start.Add(time.Duration(float64(r.deletes+int64(n)) / r.o.Rate * float64(time.Second)))
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prune removes directories that are empty, the deeper ones first.
func (r *gcRun) prune(ctx context.Context) error {
	p, ok := r.fsys.(storage.Pruner)
	if !ok || len(r.plan.Directories) == 0 {
		return nil
	}
	var dirs []string
	for _, d := range r.plan.Directories {
		if key := r.scout.registry.Key(d); within(r.roots, key) && !within(r.refs, key) && !within(r.pins, key) {
			dirs = append(dirs, d)
		}
	}
	deepestFirst(dirs)
	for part := range slices.Chunk(dirs, r.o.Batch) {
		if err := r.wait(ctx, len(part)); err != nil {
			return err
		}
		n, err := p.Prune(ctx, part...)
		r.Directories += n
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Failures = append(r.Failures, GCFailure{strings.Join(part[:1], ""), err.Error()})
		}
	}
	return nil
}

// record writes a line of the record.
func (r *gcRun) record(what, why string, v any) error {
	if r.enc == nil {
		return nil
	}
	line := struct {
		Time  time.Time `json:"time"`
		Run   string    `json:"run"`
		What  string    `json:"what"`
		Error string    `json:"error,omitempty"`
		File  *GCEntry  `json:"file,omitempty"`
		Total *GCRun    `json:"totals,omitempty"`
	}{Time: time.Now().UTC(), Run: r.ID, What: what, Error: why}
	switch v := v.(type) {
	case *GCEntry:
		line.File = v
	case *GCRun:
		line.Total = v
	}
	if err := r.enc.Encode(line); err != nil {
		return fmt.Errorf("the record of the run: %w", err)
	}
	return nil
}
