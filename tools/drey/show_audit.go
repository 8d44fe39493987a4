package main

import (
	"bufio"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// mostUnused is how many files that nobody uses are shown without -v.
const mostUnused = 10

// auditText writes a report for people.
type auditText struct {
	w   *bufio.Writer
	d   auditDocument
	all bool
}

func showAudit(w *bufio.Writer, d auditDocument, all bool) {
	t := &auditText{w, d, all}
	t.head()
	for i := range d.Jobs {
		t.job(&d.Jobs[i])
	}
	t.elsewhere()
	t.foreign()
	t.problems()
	t.unused()
	for _, n := range d.NeededBy {
		t.need(n)
	}
	t.pointers()
	t.next()
}

func (t *auditText) p(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

// table writes lines whose cells are divided by tabs in columns.
func (t *auditText) table(lines []string) {
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintln(tw, l)
	}
	_ = tw.Flush() // into a bufio.Writer, which keeps its error
}

func counted(c tools.AuditCount) string {
	return fmt.Sprintf("%s (%s)", plural(int(c.Files), "file"), size(c.Bytes))
}

// ageOf is an age for people: its two largest units.
func ageOf(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}

func (t *auditText) ageAt(at time.Time) string {
	if at.IsZero() {
		return "unknown"
	}
	return ageOf(max(0, t.d.Now.Sub(at)))
}

func (t *auditText) head() {
	d := t.d
	for _, r := range d.Roots {
		t.p("audit of %s", printable(r))
	}
	t.p("%s in %s of %s; grace period %s", counted(d.Totals.All), plural(len(d.Snapshots), "snapshot"), plural(len(d.Jobs), "job"), ageOf(time.Duration(d.GraceSeconds)*time.Second))
	t.totals("", d.Totals)
	for _, f := range d.Unreadable {
		t.p("UNREADABLE  %s: %s", printable(f.URI), printable(f.Error))
	}
	if len(d.Unreadable) > 0 {
		t.p("  what these use is not known: files that count as unreferenced may be theirs")
	}
	for _, f := range d.Unlisted {
		t.p("NOT LISTED  %s: %s", printable(f.URI), printable(f.Error))
	}
	for _, l := range d.Links {
		switch {
		case l.InScope:
			t.p("LINK  %s leads to %s, which is listed", printable(l.URI), printable(l.Target))
		case l.Target == "":
			t.p("LINK  %s leads to a place that is not known: its snapshots may use files in scope", printable(l.URI))
		default:
			t.p("LINK  %s leads to %s, which is not in scope: its snapshots may use files that are", printable(l.URI), printable(l.Target))
		}
	}
	if len(d.Siblings) > 0 {
		t.p("NOT IN SCOPE  %s beside the roots, which may use files in them: %s", plural(len(d.Siblings), "directory"), printable(listed(d.Siblings, t.all)))
	}
	if d.Vanished > 0 {
		t.p("%s deleted while the audit ran", plural(d.Vanished, "snapshot"))
	}
}

// listed joins the first of a list.
func listed(list []string, all bool) string {
	shown, more := some(list, all)
	text := strings.Join(shown, ", ")
	if more != "" {
		text += ", " + strings.TrimSpace(more)
	}
	return text
}

func (t *auditText) totals(indent string, s tools.AuditTotals) {
	t.p("%sreferenced %s, unreferenced %s, too young %s, undecided %s", indent, counted(s.Referenced), counted(s.Unreferenced), counted(s.Young), counted(s.Undecided))
}

func (t *auditText) usage(list []tools.AuditUsage) {
	var all tools.AuditTotals
	lines := []string{"  area\treferenced\tunreferenced\ttoo young\tundecided"}
	for _, u := range list {
		all.Sum(u.Totals)
		lines = append(lines, usageLine(string(u.Area), u.Totals))
	}
	if len(list) > 1 {
		lines = append(lines, usageLine("all", all))
	}
	t.table(lines)
}

func usageLine(area string, s tools.AuditTotals) string {
	return fmt.Sprintf("  %s\t%s\t%s\t%s\t%s", area, counted(s.Referenced), counted(s.Unreferenced), counted(s.Young), counted(s.Undecided))
}

func (t *auditText) job(j *tools.AuditJob) {
	t.p("")
	t.p("JOB  %s", printable(j.Dir))
	if j.Newest < 0 {
		t.p("  no completed checkpoint")
	} else {
		t.p("  %s, the newest chk-%d, completed %s ago", plural(j.Checkpoints, "completed checkpoint"), j.Newest, t.ageAt(j.NewestTime))
	}
	t.usage(j.Usage)
	t.snapshots(j.Dir)
	t.dirs(j.Dir)
}

// snapshots shows those of a job, or with "" the others.
func (t *auditText) snapshots(job string) {
	lines := []string{"  snapshot\tid\tkind\tage\tversion\town\tshared\tforeign\tfrees\twith previous\tstate"}
	for i := range t.d.Snapshots {
		s := &t.d.Snapshots[i]
		if s.Job != job {
			continue
		}
		name := storage.Base(s.Dir())
		if job == "" {
			name = s.Dir()
		}
		state := "complete"
		if !s.Complete() {
			state = fmt.Sprintf("%d missing, %d of wrong size, %d not looked at", s.Missing, s.WrongSize, s.Unseen)
		}
		lines = append(lines, fmt.Sprintf("  %s\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s", printable(name), s.CheckpointID, s.Kind, t.ageAt(s.ModTime), s.Version,
			size(s.Own.Bytes), size(s.Shared.Bytes), size(s.Foreign.Bytes), size(s.Exclusive.Bytes), size(s.Kept.Bytes), state))
	}
	if len(lines) > 1 {
		t.table(lines)
	}
}

// dirs shows the directories of a job that are no snapshots.
func (t *auditText) dirs(job string) {
	for i := range t.d.Dirs {
		if d := &t.d.Dirs[i]; d.Job == job && d.State != tools.DirCompleted {
			t.p("  %s: %s; used %s, unused %s", d.State, printable(d.Dir), counted(d.Used), counted(d.Unused))
		}
	}
}

func (t *auditText) elsewhere() {
	if len(t.d.Elsewhere) == 0 {
		return
	}
	t.p("")
	t.p("SAVEPOINTS AND OTHERS")
	t.usage(t.d.Elsewhere)
	t.snapshots("")
	t.dirs("")
}

func (t *auditText) foreign() {
	if len(t.d.Foreign) == 0 {
		return
	}
	t.p("")
	t.p("USES OF OTHER JOBS' AND SAVEPOINTS' FILES")
	for i, f := range t.d.Foreign {
		if i == 0 || f.Owner != t.d.Foreign[i-1].Owner {
			owner := f.Owner
			if owner == "" {
				owner = "places outside of Flink's directories"
			}
			t.p("  of %s, of whose files %d are in use:", printable(owner), f.OfAll)
		}
		t.p("    %s uses %s", printable(strings.TrimSuffix(f.Snapshot, "/"+tools.MetadataName)), counted(f.AuditCount))
	}
}

func (t *auditText) problems() {
	d := t.d
	if d.Missing+d.WrongSize+d.Unseen == 0 {
		return
	}
	t.p("")
	t.p("FILES OF SNAPSHOTS: %d missing, %d of wrong size, %d that could not be looked at", d.Missing, d.WrongSize, d.Unseen)
	for _, h := range d.Hints {
		t.p("  %s of these names that no snapshot is known to use: --alias %s=%s would make them one", plural(h.Files, "file"), printable(h.From), printable(h.To))
	}
	shown, limit := 0, mostProblems
	if len(d.Hints) > 0 {
		limit = mostMoved // all are alike
	}
	for p := range d.Problems() {
		if shown++; shown > limit && !t.all {
			t.p("  and more; use -v")
			return
		}
		what := ""
		if p.Problem == tools.ProblemWrongSize {
			what = fmt.Sprintf(", %d bytes instead of %d", p.Found, p.Need)
		}
		if p.Error != "" {
			what += ": " + p.Error
		}
		t.p("  %s  %s%s; used by %s", p.Problem, printable(p.URI), printable(what), printable(listed(p.Snapshots, t.all)))
	}
}

func (t *auditText) unused() {
	if len(t.d.Groups) == 0 {
		return
	}
	t.p("")
	t.p("FILES THAT NO SNAPSHOT USES")
	lines := []string{"  month\tfiles\tsize\tstatus\twhy"}
	for _, g := range t.d.Groups {
		month := g.Month
		if month == "" {
			month = "unknown"
		}
		lines = append(lines, fmt.Sprintf("  %s\t%d\t%s\t%s\t%s", month, g.Files, size(g.Bytes), g.Status, g.Cause))
	}
	t.table(lines)
	if t.d.Totals.Young.Files > 0 {
		t.p("  too young is what was written less than %s ago, or less than that before the newest completed checkpoint of its job, or later", ageOf(time.Duration(t.d.GraceSeconds)*time.Second))
	}
	if t.all {
		for f := range t.d.Files() {
			t.file(f)
		}
		return
	}
	if top := t.d.LargestFiles(tools.FileUnreferenced, mostUnused); len(top) > 0 {
		t.p("  the largest that are unreferenced (all: -v or --json):")
		for _, f := range top {
			t.file(f)
		}
	}
}

func (t *auditText) file(f tools.AuditFile) {
	when := ""
	switch {
	case f.After >= 0 && f.Before >= 0:
		when = fmt.Sprintf(", between chk-%d and chk-%d", f.After, f.Before)
	case f.After >= 0:
		when = fmt.Sprintf(", after chk-%d", f.After)
	case f.Before >= 0:
		when = fmt.Sprintf(", before chk-%d", f.Before)
	}
	t.p("    %s  %s, age %s%s: %s; %s", printable(f.URI), size(f.Size), t.ageAt(f.ModTime), when, f.Status, f.Cause)
}

func (t *auditText) need(n *tools.Need) {
	t.p("")
	t.p("WHO NEEDS  %s", printable(n.Snapshot))
	if !n.Metadata {
		t.p("  its metadata is not there, as after a claim by another job")
	}
	t.p("  of its %s other snapshots use %s", counted(n.Files), counted(n.Used))
	for _, j := range n.Jobs {
		switch last := len(j.Users) - 1; {
		case last < 0:
			t.p("  no completed checkpoint of job %s references it since chk-%d; the last that did: none", printable(j.Job), j.Since)
		case j.Since >= 0:
			t.p("  no completed checkpoint of job %s references it since chk-%d; the last that did: chk-%d", printable(j.Job), j.Since, j.Users[last].CheckpointID)
		default:
			t.p("  job %s: %s, chk-%d to chk-%d; the newest uses %s of it", printable(j.Job), plural(len(j.Users), "checkpoint"), j.Users[0].CheckpointID, j.Users[last].CheckpointID, counted(j.Users[last].AuditCount))
		}
	}
	for _, u := range n.Others {
		t.p("  %s uses %s of it", printable(u.Snapshot), counted(u.AuditCount))
	}
	if n.Free() {
		t.p("  nobody in scope needs it")
	}
	t.p("  not seen: snapshots outside of the roots, and pointers of high availability or the Kubernetes operator (see --pointers)")
}

func (t *auditText) pointers() {
	if len(t.d.Pointers) == 0 {
		return
	}
	t.p("")
	t.p("POINTERS")
	for _, c := range t.d.Pointers {
		text := c.State
		if c.Missing+c.Unseen > 0 {
			text += fmt.Sprintf(", %d files missing, %d not looked at", c.Missing, c.Unseen)
		}
		if c.Error != "" && c.State == tools.PointerUnreadable {
			text += ": " + c.Error
		}
		t.p("  %s: %s", printable(c.Pointer), printable(text))
		if c.Instead != "" {
			t.p("    the newest complete checkpoint of the same job: %s", printable(c.Instead))
		}
	}
}

// next says what can be done about it.
func (t *auditText) next() {
	steps := t.d.Next()
	if len(steps) == 0 {
		return
	}
	t.p("")
	t.p("WHAT TO DO NEXT")
	for _, s := range steps {
		t.p("  %s", printable(s.Why))
		if s.Command != "" {
			t.p("    %s", printable(s.Command))
		}
	}
}
