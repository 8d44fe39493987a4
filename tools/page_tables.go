package tools

import (
	"cmp"
	"fmt"
	"slices"
)

// limit bounds the rows of a table to those that weigh most, and says so.
func limit[T any](list []T, most int, weight func(T) int64, what string) ([]T, string) {
	if len(list) <= most {
		return list, ""
	}
	kept := slices.Clone(list)
	slices.SortStableFunc(kept, func(a, b T) int { return cmp.Compare(weight(b), weight(a)) })
	return kept[:most], fmt.Sprintf("The %d largest of %d %s.", most, len(list), what)
}

// add takes a table up unless it is empty.
func (p *page) add(t pageTable, notes ...string) {
	if len(t.Rows) == 0 {
		return
	}
	for _, n := range notes {
		if n != "" && t.Note != "" {
			t.Note += " "
		}
		t.Note += n
	}
	p.Tables = append(p.Tables, t)
}

func (p *page) tables(r *AuditReport) {
	p.usage(r)
	p.snapshots(r)
	p.foreign(r)
	p.problems(r)
	p.unused(r)
	p.directories(r)
}

func numeric(name, help string) pageColumn { return pageColumn{Name: name, Numeric: true, Help: help} }

// usageRow is what lies in one area of one job, or outside of jobs.
type usageRow struct {
	job string
	AuditUsage
}

func (p *page) usage(r *AuditReport) {
	var rows []usageRow
	for i := range r.Jobs {
		for _, u := range r.Jobs[i].Usage {
			rows = append(rows, usageRow{r.Jobs[i].Dir, u})
		}
	}
	for _, u := range r.Elsewhere {
		rows = append(rows, usageRow{"", u})
	}
	t := pageTable{ID: "usage", Title: "Usage by job and kind", Columns: []pageColumn{
		{Name: "job"}, {Name: "kind"}, numeric("files", ""), numeric("size", ""),
		numeric("referenced", ""), numeric("unreferenced", ""), numeric("too young", ""), numeric("undecided", ""), numeric("share", "in proportion to the largest"),
	}}
	rows, note := limit(rows, mostPageRows, func(u usageRow) int64 { return u.Totals.All.Bytes }, "jobs and kinds")
	largest := int64(0)
	for _, u := range rows {
		largest = max(largest, u.Totals.All.Bytes)
	}
	for _, u := range rows {
		job := pageText("(no job)")
		if u.job != "" {
			job = p.path(u.job)
		}
		row := []pageCell{job, pageText(string(u.Area)), pageNumber(u.Totals.All.Files), pageBytes(u.Totals.All.Bytes)}
		for _, c := range byState(&u.Totals) {
			row = append(row, pageBytes(c.Bytes))
		}
		t.Rows = append(t.Rows, append(row, pageCell{Bar: segments(&u.Totals, largest), Sort: fmt.Sprint(u.Totals.All.Bytes), Class: "share"}))
	}
	p.add(t, note)
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
	t := pageTable{ID: "snapshots", Title: "Snapshots", Columns: []pageColumn{
		{Name: "snapshot"}, {Name: "kind"}, numeric("written", "UTC"), numeric("version", "of the metadata"), numeric("size", "all that it uses"),
		numeric("own", "in its directory"), numeric("shared", "in other places of its job"), numeric("foreign", "in directories of other jobs and savepoints"),
		numeric("only its", "what deleting it would free"), numeric("as before", "shared with the checkpoint before it"), numeric("as next", "shared with the next"), {Name: "state"},
	}}
	rows, note := limit(rows, mostPageRows, func(s snapshotRow) int64 { return wholeOf(s.AuditSnapshot).Bytes }, "snapshots")
	for _, s := range rows {
		state := pageCell{Text: "complete", Class: "good"}
		if !s.Complete() {
			state = pageCell{Text: fmt.Sprintf("%d missing, %d of wrong size, %d not looked at", s.Missing, s.WrongSize, s.Unseen), Class: "bad"}
		}
		next := pageCell{Text: "–", Sort: "-1", Class: "number"}
		if s.next >= 0 {
			next = pageBytes(s.next)
		}
		t.Rows = append(t.Rows, []pageCell{
			p.path(s.Dir()), pageText(s.Kind), pageWhen(s.ModTime), pageNumber(int64(s.Version)), pageBytes(wholeOf(s.AuditSnapshot).Bytes),
			pageBytes(s.Own.Bytes), pageBytes(s.Shared.Bytes), pageBytes(s.Foreign.Bytes), pageBytes(s.Exclusive.Bytes), pageBytes(s.Kept.Bytes), next, state,
		})
	}
	p.add(t, note)
}

func (p *page) foreign(r *AuditReport) {
	t := pageTable{ID: "foreign", Title: "Who uses whose files", Columns: []pageColumn{
		{Name: "snapshot"}, {Name: "uses files of"}, numeric("files", ""), numeric("of", "how many of the owner's files any snapshot uses"), numeric("size", ""),
	}}
	rows, note := limit(r.Foreign, mostPageRows, func(f ForeignUse) int64 { return f.Bytes }, "uses")
	for _, f := range rows {
		owner := pageText("places outside of Flink's directories")
		if f.Owner != "" {
			owner = p.path(f.Owner)
		}
		t.Rows = append(t.Rows, []pageCell{p.path(f.Snapshot), owner, pageNumber(f.Files), pageNumber(f.OfAll), pageBytes(f.Bytes)})
	}
	p.add(t, note)
}

func (p *page) problems(r *AuditReport) {
	t := pageTable{ID: "problems", Title: "Problems", Columns: []pageColumn{
		{Name: "problem"}, {Name: "file"}, numeric("expected", "size by the metadata"), numeric("found", ""), numeric("snapshots", "that use it"), {Name: "one of them"},
	}}
	note := ""
	for f := range r.Problems() {
		if len(t.Rows) == mostPageFiles {
			note = fmt.Sprintf("The first %d of %d.", mostPageFiles, r.Missing+r.WrongSize+r.Unseen)
			break
		}
		size := func(n int64) pageCell {
			if n < 0 {
				return pageCell{Text: "–", Sort: "-1", Class: "number"}
			}
			return pageBytes(n)
		}
		user := pageCell{}
		if len(f.Snapshots) > 0 {
			user = p.path(f.Snapshots[0])
		}
		t.Rows = append(t.Rows, []pageCell{{Text: f.Problem, Class: "bad"}, p.path(f.URI), size(f.Need), size(f.Found), pageNumber(int64(len(f.Snapshots))), user})
	}
	p.add(t, note)
}

func (p *page) unused(r *AuditReport) {
	t := pageTable{ID: "groups", Title: "Files that no snapshot uses, by month and cause", Columns: []pageColumn{
		{Name: "month"}, {Name: "status"}, {Name: "likely cause"}, numeric("files", ""), numeric("size", ""),
	}}
	groups, note := limit(r.Groups, mostPageRows, func(g AuditGroup) int64 { return g.Bytes }, "groups")
	for _, g := range groups {
		month := g.Month
		if month == "" {
			month = "unknown"
		}
		t.Rows = append(t.Rows, []pageCell{pageText(month), {Text: g.Status.String(), Class: "status " + pageStates[g.Status].class}, pageText(g.Cause), pageNumber(g.Files), pageBytes(g.Bytes)})
	}
	p.add(t, note)

	for _, s := range []FileStatus{FileUnreferenced, FileUndecided, FileYoung} {
		t := pageTable{ID: pageStates[s].class, Title: "Largest files: " + pageStates[s].name, Columns: []pageColumn{
			{Name: "file"}, numeric("size", ""), numeric("written", "UTC"), {Name: "likely cause"}, numeric("after", "the retained checkpoint before it was written"), numeric("before", "the retained checkpoint after it was written"),
		}}
		note, shown := "", int64(0)
		checkpoint := func(n int64) pageCell {
			if n < 0 {
				return pageCell{Text: "–", Sort: "-1", Class: "number"}
			}
			return pageCell{Text: fmt.Sprintf("chk-%d", n), Sort: fmt.Sprint(n), Class: "number"}
		}
		for _, f := range r.LargestFiles(s, mostPageFiles) {
			shown += f.Size
			t.Rows = append(t.Rows, []pageCell{p.path(f.URI), pageBytes(f.Size), pageWhen(f.ModTime), pageText(f.Cause), checkpoint(f.After), checkpoint(f.Before)})
		}
		if all := byState(&r.Totals)[s]; all.Files > int64(len(t.Rows)) {
			note = fmt.Sprintf("The %d largest of %d: %s of %s. All are in the output of --json.", len(t.Rows), all.Files, pageSize(shown), pageSize(all.Bytes))
		}
		p.add(t, note)
	}
}

func (p *page) directories(r *AuditReport) {
	var rows []AuditDir
	for _, d := range r.Dirs {
		if d.State != DirCompleted {
			rows = append(rows, d)
		}
	}
	t := pageTable{ID: "directories", Title: "Directories that are not a completed snapshot", Columns: []pageColumn{
		{Name: "directory"}, {Name: "state"}, numeric("used files", ""), numeric("used", ""), numeric("unused files", ""), numeric("unused", ""),
	}}
	rows, note := limit(rows, mostPageRows, func(d AuditDir) int64 { return d.Used.Bytes + d.Unused.Bytes }, "directories")
	for _, d := range rows {
		t.Rows = append(t.Rows, []pageCell{p.path(d.Dir), pageText(d.State), pageNumber(d.Used.Files), pageBytes(d.Used.Bytes), pageNumber(d.Unused.Files), pageBytes(d.Unused.Bytes)})
	}
	p.add(t, note)
}
