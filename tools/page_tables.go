package tools

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/drey-state/drey/storage"
)

// limit bounds the rows of a table to those that weigh most, and says so.
func limit[T any](list []T, most int, weight func(T) int64, what string) ([]T, string) {
	if len(list) <= most {
		return list, ""
	}
	kept := slices.Clone(list)
	slices.SortStableFunc(kept, func(a, b T) int { return cmp.Compare(weight(b), weight(a)) })
	return kept[:most], fmt.Sprintf("The %s largest of %s %s; for %s more see --json.", grouped(int64(most)), grouped(int64(len(list))), what, grouped(int64(len(list)-most)))
}

// noted adds sentences to the note of a table.
func (t pageTable) noted(notes ...string) pageTable {
	for _, n := range notes {
		if n != "" && t.Note != "" {
			t.Note += " "
		}
		t.Note += n
	}
	return t
}

func textual(name string) pageColumn { return pageColumn{Name: name} }

func numeric(name string) pageColumn { return pageColumn{Name: name, Numeric: true} }

// stateColumns are those of stateCells.
func stateColumns() []pageColumn {
	return []pageColumn{numeric("files"), numeric("size"), numeric("referenced"), numeric("unreferenced"), numeric("too young"), numeric("undecided"), numeric("share")}
}

// stateCells shows totals, with a bar in proportion to the largest of the table.
func stateCells(t *AuditTotals, largest int64) []pageCell {
	cells := []pageCell{pageNumber(t.All.Files), pageBytes(t.All.Bytes)}
	for _, c := range byState(t) {
		cells = append(cells, pageBytes(c.Bytes))
	}
	return append(cells, pageCell{Bar: segments(t, largest), Sort: fmt.Sprint(t.All.Bytes), Class: "share"})
}

const noJob = "(no job)"

func (p *page) jobs(r *AuditReport) {
	list := slices.Clone(r.Jobs)
	if len(r.Elsewhere) > 0 {
		other := AuditJob{Newest: -1}
		for _, u := range r.Elsewhere {
			other.Totals.Sum(u.Totals)
		}
		list = append(list, other)
	}
	size := func(j AuditJob) int64 { return j.Totals.All.Bytes }
	list, note := limit(list, mostPageRows, size, "jobs")
	slices.SortStableFunc(list, func(a, b AuditJob) int { return cmp.Compare(size(b), size(a)) })
	t := pageTable{ID: "jobs", Title: "Jobs", Empty: "No directory of a job lies below the roots, nor any other file.",
		Columns: append([]pageColumn{textual("job"), numeric("checkpoints"), numeric("newest"), numeric("completed")}, stateColumns()...)}
	for i := range list {
		j := &list[i]
		row := []pageCell{pageText(noJob), pageNone(), pageNone(), pageNone()}
		if j.Dir != "" {
			row = []pageCell{p.path(j.Dir), pageNumber(int64(j.Checkpoints)), pageCheckpoint(j.Newest), pageNone()}
			if j.Newest >= 0 {
				row[3] = pageSince(r.Now, j.NewestTime)
				row[3].Text += " ago"
			}
		}
		t.Rows = append(t.Rows, append(row, stateCells(&j.Totals, size(list[0]))...))
	}
	p.Usage = append(p.Usage, t.noted("Checkpoints are those that are completed and retained; sizes are of what lies in the job's directories, also if another job uses it. Savepoints belong to no job.", note))
}

// usageRow is what lies in one area of one job, or outside of jobs.
type usageRow struct {
	job string
	AuditUsage
}

func (p *page) usage(r *AuditReport) {
	var rows []usageRow
	kinds := usage{}
	take := func(job string, list []AuditUsage) {
		for _, u := range list {
			rows = append(rows, usageRow{job, u})
			if kinds[u.Area] == nil {
				kinds[u.Area] = new(AuditTotals)
			}
			kinds[u.Area].Sum(u.Totals)
		}
	}
	for i := range r.Jobs {
		take(r.Jobs[i].Dir, r.Jobs[i].Usage)
	}
	take("", r.Elsewhere)
	const empty = "No file lies below the roots."
	size := func(u AuditUsage) int64 { return u.Totals.All.Bytes }

	list := kinds.list()
	slices.SortStableFunc(list, func(a, b AuditUsage) int { return cmp.Compare(size(b), size(a)) })
	t := pageTable{ID: "kinds", Title: "Kinds of files", Empty: empty, Columns: append([]pageColumn{textual("kind")}, stateColumns()...)}
	for i := range list {
		t.Rows = append(t.Rows, append([]pageCell{pageText(string(list[i].Area))}, stateCells(&list[i].Totals, size(list[0]))...))
	}
	p.Usage = append(p.Usage, t)

	rows, note := limit(rows, mostPageRows, func(u usageRow) int64 { return size(u.AuditUsage) }, "jobs and kinds")
	t = pageTable{ID: "usage", Title: "Usage by job and kind", Empty: empty, Columns: append([]pageColumn{textual("job"), textual("kind")}, stateColumns()...)}
	largest := int64(0)
	for i := range rows {
		largest = max(largest, size(rows[i].AuditUsage))
	}
	for i := range rows {
		job := pageText(noJob)
		if rows[i].job != "" {
			job = p.path(rows[i].job)
		}
		t.Rows = append(t.Rows, append([]pageCell{job, pageText(string(rows[i].Area))}, stateCells(&rows[i].Totals, largest)...))
	}
	p.Usage = append(p.Usage, t.noted(note))
}

func (p *page) tables(r *AuditReport) {
	p.snapshots(r)
	p.foreign(r)
	p.problems(r)
	p.unused(r)
	p.files(r)
	p.directories(r)
}

// snapshotName is the directory of a snapshot, or its metadata if that stands in no directory of its own.
func snapshotName(uri string) string {
	if storage.Base(uri) == MetadataName {
		return storage.Dir(uri)
	}
	return uri
}

// snapshotRow is a snapshot with what it shares with the next of its job.
type snapshotRow struct {
	*AuditSnapshot
	next int64 // -1 without one
}

func (p *page) snapshots(r *AuditReport) {
	var rows []snapshotRow
	for i := range r.Snapshots {
		row := snapshotRow{&r.Snapshots[i], -1}
		if i+1 < len(r.Snapshots) && row.Job != "" && r.Snapshots[i+1].Job == row.Job {
			row.next = r.Snapshots[i+1].Kept.Bytes
		}
		rows = append(rows, row)
	}
	// The newest of each job first, savepoints at the end.
	slices.SortStableFunc(rows, func(a, b snapshotRow) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Job)), min(1, len(a.Job))), cmp.Compare(a.Job, b.Job), cmp.Compare(b.CheckpointID, a.CheckpointID))
	})
	t := pageTable{ID: "snapshots", Title: "Snapshots", Empty: "No metadata of a snapshot that can be read lies below the roots.", Columns: []pageColumn{
		textual("snapshot"), numeric("id"), textual("kind"), numeric("written"), numeric("age"), numeric("version"), numeric("size"), numeric("own"), numeric("shared"), numeric("foreign"),
		numeric("frees"), numeric("with previous"), numeric("with next"), textual("state"),
	}}
	rows, note := limit(rows, mostPageRows, func(s snapshotRow) int64 { return wholeOf(s.AuditSnapshot).Bytes }, "snapshots")
	for _, s := range rows {
		state := pageCell{Text: "complete", Class: "good"}
		if !s.Complete() {
			state = pageCell{Text: fmt.Sprintf("%d missing, %d of wrong size, %d not looked at", s.Missing, s.WrongSize, s.Unseen), Class: "bad"}
		}
		next := pageNone()
		if s.next >= 0 {
			next = pageBytes(s.next)
		}
		t.Rows = append(t.Rows, []pageCell{
			p.path(snapshotName(s.URI)), pageNumber(s.CheckpointID), pageText(s.Kind), pageWhen(s.ModTime), pageSince(r.Now, s.ModTime), pageNumber(int64(s.Version)), pageBytes(wholeOf(s.AuditSnapshot).Bytes),
			pageBytes(s.Own.Bytes), pageBytes(s.Shared.Bytes), pageBytes(s.Foreign.Bytes), pageBytes(s.Exclusive.Bytes), pageBytes(s.Kept.Bytes), next, state,
		})
	}
	if len(rows) > 0 {
		t = t.noted("Times are UTC, the version is the metadata's. Size: all that it uses, which is its own (in its directory), shared (elsewhere in its job) and foreign (of other jobs and savepoints). "+
			"Frees: what only it uses, so what deleting it would free. With previous, with next: what it has in common with the checkpoint before it, and after it.", note)
	}
	p.Tables = append(p.Tables, t)
}

func (p *page) foreign(r *AuditReport) {
	t := pageTable{ID: "foreign", Title: "Who uses whose files", Empty: "No snapshot uses files of another job or savepoint.", Columns: []pageColumn{
		textual("snapshot"), textual("uses files of"), numeric("files"), numeric("in use there"), numeric("size"),
	}}
	rows, note := limit(r.Foreign, mostPageRows, func(f ForeignUse) int64 { return f.Bytes }, "uses")
	for _, f := range rows {
		owner := pageText("places outside of Flink's directories")
		if f.Owner != "" {
			owner = p.path(f.Owner)
		}
		t.Rows = append(t.Rows, []pageCell{p.path(snapshotName(f.Snapshot)), owner, pageNumber(f.Files), pageNumber(f.OfAll), pageBytes(f.Bytes)})
	}
	if len(rows) > 0 {
		t = t.noted("As long as these snapshots are to be restored, the files that they use must stay.", note)
	}
	p.Tables = append(p.Tables, t)
}

func (p *page) problems(r *AuditReport) {
	t := pageTable{ID: "problems", Title: "Problems", Empty: "Every file that a snapshot names is there, and has the right size.", Columns: []pageColumn{
		textual("problem"), textual("file"), numeric("expected"), numeric("found"), numeric("snapshots"), textual("one of them"),
	}}
	size := func(n int64) pageCell {
		if n < 0 {
			return pageNone()
		}
		return pageBytes(n)
	}
	for f := range r.Problems() {
		if len(t.Rows) == mostPageRows {
			n := int64(r.Missing + r.WrongSize + r.Unseen)
			t = t.noted(fmt.Sprintf("The first %s of %s; for %s more see --json.", grouped(mostPageRows), grouped(n), grouped(n-mostPageRows)))
			break
		}
		user := pageCell{}
		if len(f.Snapshots) > 0 {
			user = p.path(snapshotName(f.Snapshots[0]))
		}
		t.Rows = append(t.Rows, []pageCell{{Text: f.Problem, Class: "bad"}, p.path(f.URI), size(f.Need), size(f.Found), pageNumber(int64(len(f.Snapshots))), user})
	}
	p.Tables = append(p.Tables, t)
}

func (p *page) unused(r *AuditReport) {
	t := pageTable{ID: "groups", Title: "Files that no snapshot uses, by month and cause", Empty: "Every file is used by a snapshot.", Columns: []pageColumn{
		textual("month"), textual("status"), textual("likely cause"), numeric("files"), numeric("size"),
	}}
	groups, note := limit(r.Groups, mostPageRows, func(g AuditGroup) int64 { return g.Bytes }, "groups")
	for _, g := range groups {
		month := g.Month
		if month == "" {
			month = "unknown"
		}
		t.Rows = append(t.Rows, []pageCell{{Text: month, Class: "when"}, {Text: g.Status.String(), Class: "status " + pageStates[g.Status].class}, pageCause(g.Cause), pageNumber(g.Files), pageBytes(g.Bytes)})
	}
	if r.Totals.Young.Files > 0 {
		note += " The grace period counts from now, and from the newest completed checkpoint of the job: what is too young stays so until a later one is completed."
	}
	p.Tables = append(p.Tables, t.noted(note))
}

// pageGroup is of a table of files what has one cause.
type pageGroup struct {
	status FileStatus
	cause  string
}

// files shows the largest files of each cause.
func (p *page) files(r *AuditReport) {
	groups := map[pageGroup]*topFiles{}
	for f := range r.Files() {
		g := pageGroup{f.Status, f.Cause}
		if groups[g] == nil {
			groups[g] = new(topFiles)
		}
		groups[g].add(f)
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b pageGroup) int { return cmp.Compare(a.cause, b.cause) })
	for _, s := range []FileStatus{FileUnreferenced, FileUndecided, FileYoung} {
		t := pageTable{ID: pageStates[s].class, Title: "Largest files: " + pageStates[s].name, Empty: "No file is " + pageStates[s].name + ".", Columns: []pageColumn{
			textual("file"), numeric("size"), numeric("written"), numeric("age"), textual("likely cause"), numeric("after"), numeric("before"),
		}}
		var shown []AuditFile
		more := AuditCount{}
		for _, g := range keys {
			if g.status == s {
				shown = append(shown, groups[g].list...)
				more.Files += groups[g].more.Files
				more.Bytes += groups[g].more.Bytes
			}
		}
		slices.SortStableFunc(shown, func(a, b AuditFile) int { return cmp.Compare(b.Size, a.Size) })
		for _, f := range shown {
			t.Rows = append(t.Rows, []pageCell{p.path(f.URI), pageBytes(f.Size), pageWhen(f.ModTime), pageSince(r.Now, f.ModTime), pageCause(f.Cause), pageCheckpoint(f.After), pageCheckpoint(f.Before)})
		}
		if len(shown) > 0 {
			t = t.noted("After, before: the retained checkpoints of the job between which it was written.")
		}
		if more.Files > 0 {
			t = t.noted(fmt.Sprintf("Of each cause the %d largest; for %s files more (%s) see --json.", mostPageFiles, grouped(more.Files), pageSize(more.Bytes)))
		}
		p.Tables = append(p.Tables, t)
	}
}

// topFiles are the largest of many files.
type topFiles struct {
	list []AuditFile
	more AuditCount // what is not in the list
}

func (t *topFiles) add(f AuditFile) {
	if len(t.list) == mostPageFiles {
		last := t.list[mostPageFiles-1].Size
		if f.Size <= last {
			t.more.add(f.Size)
			return
		}
		t.more.add(last)
		t.list = t.list[:mostPageFiles-1]
	}
	i, _ := slices.BinarySearchFunc(t.list, f, func(x, y AuditFile) int {
		if x.Size >= y.Size {
			return -1
		}
		return 1
	})
	t.list = slices.Insert(t.list, i, f)
}

func (p *page) directories(r *AuditReport) {
	var rows []AuditDir
	for _, d := range r.Dirs {
		if d.State != DirCompleted {
			rows = append(rows, d)
		}
	}
	t := pageTable{ID: "directories", Title: "Directories that are not a completed snapshot", Empty: "Every directory of a checkpoint or savepoint has metadata that can be read.", Columns: []pageColumn{
		textual("directory"), textual("state"), numeric("used files"), numeric("used"), numeric("unused files"), numeric("unused"),
	}}
	rows, note := limit(rows, mostPageRows, func(d AuditDir) int64 { return d.Used.Bytes + d.Unused.Bytes }, "directories")
	for _, d := range rows {
		t.Rows = append(t.Rows, []pageCell{p.path(d.Dir), pageText(d.State), pageNumber(d.Used.Files), pageBytes(d.Used.Bytes), pageNumber(d.Unused.Files), pageBytes(d.Unused.Bytes)})
	}
	p.Tables = append(p.Tables, t.noted(note))
}
