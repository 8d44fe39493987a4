package tools

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// DefaultGrace is how long a file that no snapshot uses counts as one that a
// checkpoint in progress may be about to use.
const DefaultGrace = 24 * time.Hour

// AuditOptions are the options of [Audit]; the zero value is the default.
type AuditOptions struct {
	// Jobs is the number of directories to list at once; 0 means 4 for each CPU, at least 16.
	Jobs int
	// Grace is the grace period; 0 means [DefaultGrace], a negative one none. A
	// file is too young unless it was written longer than this ago, and longer than
	// this before the newest completed checkpoint of its job.
	Grace time.Duration
	// Now is the time from which ages are counted; the zero time means the clock's.
	Now time.Time
	// Aliases say which places are the same under other names; see [incremental.Alias].
	Aliases []Rule
	// CommandOptions are the words, such as --profile and its value, that command lines of drey need to reach
	// the stores; [AuditReport.Next] puts them into those that it suggests.
	CommandOptions []string
	// Progress, if not nil, is told how many files were seen. It is called from
	// several goroutines, one at a time.
	Progress func(objects int64)
}

// FileStatus is whether a file is in use.
type FileStatus uint8

// The states of a file.
const (
	// FileReferenced is one that a snapshot names, its metadata included.
	FileReferenced FileStatus = iota
	// FileUnreferenced is Flink's, not named by any snapshot, and older than the grace period.
	FileUnreferenced
	// FileYoung is one that a checkpoint in progress may be about to use.
	FileYoung
	// FileUndecided is one of which no more can be said, and which is to be kept.
	FileUndecided
)

// String names the state.
func (s FileStatus) String() string {
	return [...]string{"referenced", "unreferenced", "too young", "undecided"}[s]
}

// MarshalText gives the name.
func (s FileStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// AuditFile is a file that no snapshot uses.
type AuditFile struct {
	// URI is in the spelling of the root that was listed.
	URI     string     `json:"path"`
	Size    int64      `json:"size"`
	ModTime time.Time  `json:"modified,omitzero"`
	Status  FileStatus `json:"status"`
	// Cause says why it is there, or why it is not decided: one of the constants.
	Cause string `json:"cause"`
	Area  Area   `json:"area"`
	// TaskOwned says that it is in a job's taskowned, where files of write-ahead
	// logs lie that no metadata names.
	TaskOwned bool `json:"taskOwned,omitempty"`
	// Job is the directory of the job that it belongs to, "" for a savepoint's and outside.
	Job string `json:"job,omitempty"`
	// Dir is the directory of the area: chk-N, the savepoint, of file merging, of a working directory.
	Dir string `json:"-"`
	// After and Before are the ids of the job's retained checkpoints between which it was
	// written, by time; -1 for none.
	After  int64 `json:"after"`
	Before int64 `json:"before"`
}

// AuditCount is a number of files and their bytes.
type AuditCount struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (c *AuditCount) add(size int64) { c.Files, c.Bytes = c.Files+1, c.Bytes+max(size, 0) }

// AuditTotals counts files by status.
type AuditTotals struct {
	All          AuditCount `json:"all"`
	Referenced   AuditCount `json:"referenced"`
	Unreferenced AuditCount `json:"unreferenced"`
	Young        AuditCount `json:"tooYoung"`
	Undecided    AuditCount `json:"undecided"`
}

func (t *AuditTotals) add(s FileStatus, size int64) {
	t.All.add(size)
	[...]*AuditCount{&t.Referenced, &t.Unreferenced, &t.Young, &t.Undecided}[s].add(size)
}

// Sum adds what lies elsewhere.
func (t *AuditTotals) Sum(u AuditTotals) {
	for _, c := range []struct{ to, from *AuditCount }{
		{&t.All, &u.All}, {&t.Referenced, &u.Referenced}, {&t.Unreferenced, &u.Unreferenced}, {&t.Young, &u.Young}, {&t.Undecided, &u.Undecided},
	} {
		c.to.Files += c.from.Files
		c.to.Bytes += c.from.Bytes
	}
}

// AuditFailure is something that could not be read.
type AuditFailure struct {
	URI     string    `json:"path"`
	Error   string    `json:"error"`
	ModTime time.Time `json:"modified,omitzero"`

	// Cause is the error itself.
	Cause error `json:"-"`
}

// AuditLink is a symbolic link to a directory below the roots.
type AuditLink struct {
	URI string `json:"path"`
	// Target is the place that it leads to in the end, "" if that can't be told. It need not be there.
	Target string `json:"target"`
	// InScope says that the target is below the roots, so that what is there is listed under its own name.
	InScope bool `json:"inScope"`
}

// AuditSnapshot is a snapshot that was found.
type AuditSnapshot struct {
	// URI is that of its metadata file.
	URI string `json:"snapshot"`
	// ID is its number in the registry.
	ID           incremental.SnapshotID `json:"-"`
	CheckpointID int64                  `json:"checkpointID"`
	Version      metadata.Version       `json:"version"`
	Kind         string                 `json:"kind"`
	// Job is the directory of its job; "" for a savepoint.
	Job     string    `json:"job,omitempty"`
	ModTime time.Time `json:"modified,omitzero"`
	// AgeSeconds is counted from the time of the audit.
	AgeSeconds int64 `json:"ageSeconds"`
	// Own are the files in its directory, Shared those in other places of its
	// job, Foreign those of other jobs and savepoints. A missing file counts as no bytes.
	Own     AuditCount `json:"own"`
	Shared  AuditCount `json:"shared"`
	Foreign AuditCount `json:"foreign"`
	// Exclusive are the files that only it uses: what deleting it would free.
	Exclusive AuditCount `json:"exclusive"`
	// Kept is what it has in common with the checkpoint before it in its job.
	Kept AuditCount `json:"sharedWithPrevious"`
	// Missing, WrongSize and Unseen count files: not there, not as large as
	// the metadata says, could not be looked at.
	Missing   int `json:"missing"`
	WrongSize int `json:"wrongSize"`
	Unseen    int `json:"unseen"`

	key          string
	owner        string
	savepoint    bool
	claimable    bool // see claimable
	metadataSize int64
}

// Complete says that every file is there.
func (s *AuditSnapshot) Complete() bool { return s.Missing+s.WrongSize+s.Unseen == 0 }

// Dir is the directory that holds the metadata.
func (s *AuditSnapshot) Dir() string { return storage.Dir(s.URI) }

// AuditJob is the directory of a job.
type AuditJob struct {
	Dir string `json:"job"`
	// Newest is the id of its newest completed checkpoint, -1 if it has none; NewestTime is when that was completed.
	Newest     int64     `json:"newestCheckpoint"`
	NewestTime time.Time `json:"newestTime,omitzero"`
	// Checkpoints is the number of those that are completed.
	Checkpoints int          `json:"checkpoints"`
	Totals      AuditTotals  `json:"totals"`
	Usage       []AuditUsage `json:"usage"`

	completed []*AuditSnapshot // by time
	entropy   []entropy        // where random characters stand in directories of its files
	usage     usage
}

// AuditUsage is what lies in one area.
type AuditUsage struct {
	Area   Area        `json:"area"`
	Totals AuditTotals `json:"totals"`
}

// States of a directory.
const (
	DirCompleted  = "completed"
	DirInProgress = "in progress"
	DirAborted    = "aborted"
	DirSuperseded = "superseded"
	DirUnreadable = "unreadable metadata"
	DirInUse      = "used by other snapshots"
	DirIncomplete = "without metadata"
	DirWorking    = "working directory"
	DirAttempt    = "working directory of an earlier attempt"
)

// AuditDir is the directory of a checkpoint, a savepoint or an attempt.
type AuditDir struct {
	Dir   string `json:"dir"`
	State string `json:"state"`
	Job   string `json:"job,omitempty"`
	// Used are its files that snapshots use, Unused the others.
	Used   AuditCount `json:"used"`
	Unused AuditCount `json:"unused"`

	newest time.Time // of its unused files
}

// ForeignUse is what a snapshot uses of another job's or a savepoint's directory.
type ForeignUse struct {
	Snapshot string `json:"snapshot"`
	// Owner is the directory of the other job or savepoint; "" for places outside of any layout.
	Owner string `json:"owner"`
	AuditCount
	// OfAll is how many of the owner's files any snapshot uses.
	OfAll int64 `json:"ofAll"`
}

// AuditProblem is a file of a snapshot that is not as the metadata says.
type AuditProblem struct {
	Problem string `json:"problem"`
	URI     string `json:"path"`
	// Need is the size in bytes that the metadata demands, -1 if it demands
	// none; Found is the size of the file, -1 if it is not there.
	Need  int64  `json:"expected"`
	Found int64  `json:"found"`
	Error string `json:"error,omitempty"`
	// Snapshots use it.
	Snapshots []string `json:"snapshots"`
}

// AuditGroup counts files that no snapshot uses, by month and cause.
type AuditGroup struct {
	// Month is that in which they were written, as 2006-01; "" if it is not known.
	Month  string     `json:"month"`
	Status FileStatus `json:"status"`
	Cause  string     `json:"cause"`
	AuditCount
}

// AuditReport is what [Audit] found. The files themselves are not in it but
// come from Files, as there may be millions.
type AuditReport struct {
	Roots []string  `json:"roots"`
	Now   time.Time `json:"now"`
	// GraceSeconds is the grace period.
	GraceSeconds int64       `json:"graceSeconds"`
	Totals       AuditTotals `json:"totals"`
	// Unreadable is metadata that could not be read: what it uses is not known.
	Unreadable []AuditFailure `json:"unreadable"`
	// Unlisted are directories that could not be listed to their end.
	Unlisted []AuditFailure `json:"unlisted"`
	// Links are symbolic links to directories. They are not followed.
	Links []AuditLink `json:"links"`
	// Siblings are directories of jobs and savepoints beside the roots that are not in scope;
	// their snapshots may use files that are.
	Siblings []string `json:"siblings"`
	// Vanished counts metadata that was gone when it was to be read.
	Vanished int        `json:"vanished"`
	Jobs     []AuditJob `json:"jobs"`
	// Elsewhere is what belongs to no job: savepoints, and what is outside of any layout.
	Elsewhere []AuditUsage    `json:"elsewhere"`
	Snapshots []AuditSnapshot `json:"snapshots"`
	Dirs      []AuditDir      `json:"directories"`
	EmptyDirs []string        `json:"emptyDirectories"`
	Foreign   []ForeignUse    `json:"foreign"`
	// Missing and WrongSize count files of all snapshots, Unseen those that could not be looked at.
	Missing   int          `json:"missing"`
	WrongSize int          `json:"wrongSize"`
	Unseen    int          `json:"unseen"`
	Groups    []AuditGroup `json:"groups"`
	// Hints are aliases under which missing files would be found, the ones with most files first.
	Hints []AliasHint `json:"aliasHints"`

	audit *audit
}

// Decided says that everything in scope was listed and read, and that no link leads out of it, so that
// what is unreferenced is so as far as the scope goes.
func (r *AuditReport) Decided() bool {
	return len(r.Unreadable)+len(r.Unlisted) == 0 && !slices.ContainsFunc(r.Links, func(l AuditLink) bool { return !l.InScope })
}

// Registry is which snapshot uses what. The caller may release snapshots; then the
// counts of the report are those from before.
func (r *AuditReport) Registry() *incremental.Registry { return r.audit.registry }

// Files yields every file that no snapshot uses, in the order of their URIs.
func (r *AuditReport) Files() iter.Seq[AuditFile] {
	return func(yield func(AuditFile) bool) {
		a := r.audit
		l := a.layouts.fork()
		for i := range a.held.list {
			if !yield(a.describe(l, &a.held.list[i])) {
				return
			}
		}
	}
}

// Found gives the size in bytes of a file of the registry, false if it was not found.
func (r *AuditReport) Found(id incremental.FileID) (int64, bool) {
	if int(id) >= len(r.audit.found) || r.audit.found[id] == 0 {
		return 0, false
	}
	return r.audit.found[id] - 1, true
}

// listed says that the listing showed a file of the registry. One that was found without that
// is outside of the roots, was written while they were listed, or is listed under another name.
func (a *audit) listed(id incremental.FileID) bool {
	return int(id) < len(a.found) && a.found[id] != 0 && (int(id) >= len(a.looked) || !a.looked[id])
}

// audit is one run.
type audit struct {
	fsys     storage.FS
	o        AuditOptions
	jobs     int
	grace    time.Duration
	now      time.Time
	registry *incremental.Registry
	report   *AuditReport
	decoders chan struct{} // holds one element for each metadata file in memory

	mu         sync.Mutex
	objects    int64
	found      []int64 // size plus 1 of the registry's files; 0 if not found
	looked     []bool  // files of the registry that were found without being listed
	failed     map[incremental.FileID]error
	linked     linkedFiles
	realRoots  []string // in canonical spelling, with links followed; nil until they are needed
	held       *heldFiles
	layouts    *layouts
	dirs       map[string]bool     // of checkpoints, savepoints and attempts, by key
	loose      usage               // of what belongs to no job
	unreadable map[string]bool     // metadata by key
	attempts   map[string]*attempt // by working directory
	newest     map[string]place    // the working directory of each task's last attempt
	beside     map[string][]string // by root: what is not in scope and may use its files
	book       *jobBook
}

// Audit finds every snapshot and every other file below the roots, and says who uses what.
// Snapshots that can't be read, and directories that can't be listed, are in the report; only
// a cancelled context, or no root at all, is an error. It reads no state.
//
// Each directory is listed once, many at a time. What is held in memory is
// the references of all snapshots, and the files that no snapshot uses.
func Audit(ctx context.Context, fsys storage.FS, roots []string, o AuditOptions) (*AuditReport, error) {
	a, err := newAudit(fsys, roots, o)
	if err != nil {
		return nil, err
	}
	if err := a.list(ctx); err != nil {
		return nil, err
	}
	if err := a.siblings(ctx); err != nil {
		return nil, err
	}
	a.settle()
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	a.hint()
	a.sumSnapshots()
	a.judgeFiles()
	a.sumDirs()
	return a.report, nil
}

func newAudit(fsys storage.FS, roots []string, o AuditOptions) (*audit, error) {
	a := &audit{
		fsys: fsys, o: o, jobs: o.Jobs, grace: o.Grace, now: o.Now, held: newHeldFiles(), failed: map[incremental.FileID]error{}, linked: newLinkedFiles(),
		layouts: &layouts{jobs: map[string]bool{}, snapshots: map[string]bool{}, places: map[string]place{}},
		dirs:    map[string]bool{}, loose: usage{}, unreadable: map[string]bool{}, attempts: map[string]*attempt{}, newest: map[string]place{}, book: newJobBook(),
	}
	if a.jobs <= 0 {
		a.jobs = max(16, 4*runtime.GOMAXPROCS(0))
	}
	switch {
	case a.grace == 0:
		a.grace = DefaultGrace
	case a.grace < 0:
		a.grace = 0
	}
	if a.now.IsZero() {
		a.now = time.Now()
	}
	a.now = a.now.UTC()
	aliases := make([]incremental.Alias, len(o.Aliases))
	for i, r := range o.Aliases {
		aliases[i] = incremental.Alias(r)
	}
	if err := contradiction(o.Aliases); err != nil {
		return nil, err
	}
	a.registry = incremental.NewRegistry(incremental.Options{Aliases: aliases})
	a.report = &AuditReport{Roots: a.distinct(roots), Now: a.now, GraceSeconds: int64(a.grace / time.Second), audit: a,
		Unreadable: []AuditFailure{}, Unlisted: []AuditFailure{}, Links: []AuditLink{}, Siblings: []string{}, Snapshots: []AuditSnapshot{}, EmptyDirs: []string{}, Foreign: []ForeignUse{}}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no directory to audit")
	}
	return a, nil
}

// distinct drops roots that are in others.
func (a *audit) distinct(roots []string) []string {
	var kept []string
	for i, r := range roots {
		inside := slices.ContainsFunc(roots[:i], func(o string) bool { return a.registry.Key(o) == a.registry.Key(r) })
		for _, o := range roots {
			rest, ok := storage.Rel(a.registry.Key(o), a.registry.Key(r))
			inside = inside || ok && rest != ""
		}
		if !inside {
			kept = append(kept, storage.Clean(r))
		}
	}
	return kept
}
