package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The JSON of a report as somebody else would read it.
type (
	figureCount struct{ Files, Bytes int64 }

	figureTotals struct{ All, Referenced, Unreferenced, TooYoung, Undecided figureCount }

	figureUsage struct {
		Area   string
		Totals figureTotals
	}

	figureReport struct {
		Now    time.Time
		Totals figureTotals
		Jobs   []struct {
			Job              string
			NewestCheckpoint int64
			NewestTime       time.Time
			Checkpoints      int64
			Totals           figureTotals
			Usage            []figureUsage
		}
		Elsewhere []figureUsage
		Snapshots []struct {
			Snapshot, Kind, Job                                 string
			CheckpointID, Version, AgeSeconds                   int64
			Modified                                            time.Time
			Own, Shared, Foreign, Exclusive, SharedWithPrevious figureCount
			Missing, WrongSize, Unseen                          int64
		}
		Directories []struct {
			Dir, State   string
			Used, Unused figureCount
		}
		Foreign []struct {
			Snapshot, Owner     string
			Files, Bytes, OfAll int64
		}
		Groups []struct {
			Month, Status, Cause string
			Files, Bytes         int64
		}
	}

	figureFile struct {
		Path, Status, Cause string
		Size, After, Before int64
		Modified            time.Time
	}

	figureProblem struct {
		Problem, Path   string
		Expected, Found int64
		Snapshots       []string
	}
)

// decoded is v by way of its JSON.
func decoded[T any](t testing.TB, v any) (out T) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// figures makes rows of a table.
type figures map[string][][]string

func (f figures) add(table string, cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	f[table] = append(f[table], row)
}

func (t figureTotals) cells() []any {
	return []any{t.All.Files, t.All.Bytes, t.Referenced.Bytes, t.Unreferenced.Bytes, t.TooYoung.Bytes, t.Undecided.Bytes, t.All.Bytes}
}

func (t *figureTotals) sum(u figureTotals) {
	for _, c := range [][2]*figureCount{{&t.All, &u.All}, {&t.Referenced, &u.Referenced}, {&t.Unreferenced, &u.Unreferenced}, {&t.TooYoung, &u.TooYoung}, {&t.Undecided, &u.Undecided}} {
		c[0].Files, c[0].Bytes = c[0].Files+c[1].Files, c[0].Bytes+c[1].Bytes
	}
}

// sameFigures compares what the page shows with the JSON of the report.
func sameFigures(l look, shown map[string]pageContent, report *AuditReport) {
	l.Helper()
	r := decoded[figureReport](l, report)
	var tiles []int64
	l.do(chromedp.Evaluate(`Array.from(document.querySelectorAll(".tile data")).map(function (d) { return Number(d.value); })`, &tiles))
	if want := []int64{r.Totals.All.Bytes, r.Totals.Referenced.Bytes, r.Totals.Unreferenced.Bytes, r.Totals.TooYoung.Bytes, r.Totals.Undecided.Bytes}; !slices.Equal(tiles, want) {
		l.Errorf("the tiles show %d, want %d", tiles, want)
	}
	f := figures{}
	kinds := map[string]*figureTotals{}
	usage := func(job string, list []figureUsage) (sum figureTotals) {
		for _, u := range list {
			f.add("usage", append([]any{job, u.Area}, u.Totals.cells()...)...)
			if kinds[u.Area] == nil {
				kinds[u.Area] = new(figureTotals)
			}
			kinds[u.Area].sum(u.Totals)
			sum.sum(u.Totals)
		}
		return sum
	}
	for _, j := range r.Jobs {
		name := pageName(j.Job)
		f.add("jobs", append([]any{name, j.Checkpoints, j.NewestCheckpoint, int64(r.Now.Sub(j.NewestTime) / time.Second)}, j.Totals.cells()...)...)
		if sum := usage(name, j.Usage); sum != j.Totals {
			l.Errorf("%s: %+v by kind, %+v in all", name, sum, j.Totals)
		}
	}
	other := usage("(no job)", r.Elsewhere)
	f.add("jobs", append([]any{"(no job)", -1, -1, -1}, other.cells()...)...)
	for area, t := range kinds {
		f.add("kinds", append([]any{area}, t.cells()...)...)
	}
	for i, s := range r.Snapshots {
		next := int64(-1)
		if i+1 < len(r.Snapshots) && s.Job != "" && r.Snapshots[i+1].Job == s.Job {
			next = r.Snapshots[i+1].SharedWithPrevious.Bytes
		}
		state := "complete"
		if s.Missing+s.WrongSize+s.Unseen > 0 {
			state = fmt.Sprintf("%d missing, %d of wrong size, %d not looked at", s.Missing, s.WrongSize, s.Unseen)
		}
		f.add("snapshots", pageName(strings.TrimSuffix(s.Snapshot, "/_metadata")), s.CheckpointID, s.Kind, s.Modified.Unix(), s.AgeSeconds, s.Version, s.Own.Bytes+s.Shared.Bytes+s.Foreign.Bytes,
			s.Own.Bytes, s.Shared.Bytes, s.Foreign.Bytes, s.Exclusive.Bytes, s.SharedWithPrevious.Bytes, next, state)
	}
	for _, u := range r.Foreign {
		f.add("foreign", pageName(strings.TrimSuffix(u.Snapshot, "/_metadata")), pageName(u.Owner), u.Files, u.OfAll, u.Bytes)
	}
	for _, g := range r.Groups {
		f.add("groups", g.Month, g.Status, g.Cause, g.Files, g.Bytes)
	}
	for _, d := range r.Directories {
		if d.State != "completed" {
			f.add("directories", pageName(d.Dir), d.State, d.Used.Files, d.Used.Bytes, d.Unused.Files, d.Unused.Bytes)
		}
	}
	for p := range report.Problems() {
		p := decoded[figureProblem](l, p)
		f.add("problems", p.Problem, pageName(p.Path), p.Expected, p.Found, len(p.Snapshots), pageName(strings.TrimSuffix(p.Snapshots[0], "/_metadata")))
	}
	for id, rows := range f {
		if got, want := joined(shown[id].Rows), joined(rows); !slices.Equal(got, want) {
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					l.Errorf("%s: %d rows, want %d; they differ at %d: %q, want %q", id, len(got), len(want), i, at(got, i), at(want, i))
					break
				}
			}
		}
	}
	sameFiles(l, shown, report)
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// sameFiles compares the tables of files, which have the largest of each cause.
func sameFiles(l look, shown map[string]pageContent, report *AuditReport) {
	l.Helper()
	rows, sizes, table := map[string]bool{}, map[[2]string][]int64{}, map[string]string{"unreferenced": "unreferenced", "too young": "young", "undecided": "undecided"}
	for file := range report.Files() {
		f := decoded[figureFile](l, file)
		rows[strings.Join([]string{table[f.Status], pageName(f.Path), fmt.Sprint(f.Size), fmt.Sprint(f.Modified.Unix()), fmt.Sprint(int64(report.Now.Sub(f.Modified) / time.Second)), f.Cause, fmt.Sprint(f.After), fmt.Sprint(f.Before)}, " | ")] = true
		k := [2]string{table[f.Status], f.Cause}
		sizes[k] = append(sizes[k], f.Size)
	}
	got := map[[2]string][]int64{}
	for _, id := range table {
		for _, r := range shown[id].Rows {
			if !rows[id+" | "+strings.Join(r, " | ")] {
				l.Errorf("%s shows %q", id, r)
			}
			k := [2]string{id, r[4]}
			got[k] = append(got[k], number(l, r[1]))
		}
	}
	for k, want := range sizes {
		slices.SortFunc(want, func(a, b int64) int { return cmp.Compare(b, a) })
		if want = want[:min(len(want), mostPageFiles)]; !slices.Equal(got[k], want) {
			l.Errorf("%s: sizes %d, want %d", k, got[k], want)
		}
	}
}
