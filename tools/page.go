package tools

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/drey-state/drey/storage"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/page.css
var pageCSS string

//go:embed page/page.js
var pageJS string

// Bounds of the page, which must open in a browser however much was found.
const (
	mostPageRows   = 1000 // of a table
	mostPageFiles  = 50   // of each cause
	mostPageLines  = 20   // of an alert
	mostPageFirst  = 5    // of an alert that has a table
	mostTimelines  = 60
	mostTimelineOf = 400  // checkpoints of one job
	mostBars       = 3000 // checkpoints in all timelines
)

// page is what the template shows.
type page struct {
	CSS    template.CSS
	JS     template.JS
	Policy string

	Roots     []string
	Base      string
	Now       string
	Grace     string
	Tiles     []pageTile
	Share     []pageSegment
	Alerts    []pageAlert
	Usage     []pageTable // before the timelines
	Timelines []pageTimeline
	Fewer     string // which timelines are left out
	Tables    []pageTable
	Next      []AuditStep

	root string // where shown paths begin; "" if they are whole
}

// pageAlert is something that the reader must know before trusting the numbers.
type pageAlert struct {
	Title string
	Lines []string
	More  int
	Table string // that has all of them
}

// pageTile is a number at the top.
type pageTile struct {
	Name        string
	Bytes       int64
	Size, Files string
	Note, Class string
}

// pageSegment is a part of a bar; Percent is its width.
type pageSegment struct {
	Class   string
	Percent string
	Title   string
}

// pageTable is a table, or what there is to say instead.
type pageTable struct {
	ID, Title, Note string
	Empty           string
	Columns         []pageColumn
	Rows            [][]pageCell
}

type pageColumn struct {
	Name    string
	Numeric bool
}

// pageCell is a cell of a table.
type pageCell struct {
	Dir, Text string // Dir is a less prominent beginning
	Full      string // what both are short for
	Sort      string // what it is sorted by if that is neither Full nor the text
	Class     string
	Bar       []pageSegment
}

// WritePage writes an audit as one HTML page, which needs no network and no other file. Its
// size is bounded: of long lists it has the largest entries, and says how many there are. It may
// be called concurrently.
func WritePage(w io.Writer, r *AuditReport) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(pageJS))
	p := &page{
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS),
		Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Now:    pageTime(r.Now), Grace: pageAge(time.Duration(r.GraceSeconds) * time.Second),
		root: commonRoot(r.Roots),
	}
	for _, root := range r.Roots {
		p.Roots = append(p.Roots, pageName(root))
	}
	p.Base = pageName(p.root)
	p.totals(r)
	p.alerts(r)
	p.jobs(r)
	p.usage(r)
	p.timelines(r)
	p.tables(r)
	for _, s := range r.Next() {
		p.Next = append(p.Next, AuditStep{pageName(s.Why), pageName(s.Command)})
	}
	return t.Execute(w, p)
}

// commonRoot is the lowest directory that holds all roots, "" if that is not below the top of a store.
func commonRoot(roots []string) string {
	if len(roots) == 0 {
		return ""
	}
	common := roots[0]
	for _, r := range roots[1:] {
		for {
			if _, ok := storage.Rel(common, r); ok {
				break
			}
			up := storage.Dir(common)
			if up == common {
				return ""
			}
			common = up
		}
	}
	return common
}

func (p *page) alerts(r *AuditReport) {
	add := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		a := pageAlert{Title: title, More: max(0, len(lines)-mostPageLines)}
		for _, l := range lines[:min(len(lines), mostPageLines)] {
			a.Lines = append(a.Lines, pageName(l))
		}
		p.Alerts = append(p.Alerts, a)
	}
	failures := func(list []AuditFailure) (lines []string) {
		for _, f := range list {
			lines = append(lines, f.URI+": "+f.Error)
		}
		return lines
	}
	add("Metadata that can't be read: what counts as unreferenced may be in use by it", failures(r.Unreadable))
	add("Directories that could not be listed: not everything was seen", failures(r.Unlisted))
	var links []string
	for _, l := range r.Links {
		if !l.InScope {
			links = append(links, l.URI+": "+l.Target)
		}
	}
	add("Symbolic links to directories that are not in scope: snapshots there may use files that count as unreferenced here", links)
	add("Beside the roots and not in scope: may use files that count as unreferenced here", r.Siblings)
	if n := r.Missing + r.WrongSize + r.Unseen; n > 0 {
		a := pageAlert{Table: "problems", Title: fmt.Sprintf("Files of snapshots: %d missing, %d of the wrong size, %d that could not be looked at", r.Missing, r.WrongSize, r.Unseen)}
		for f := range r.Problems() {
			if a.Lines = append(a.Lines, f.Problem+": "+pageName(f.URI)); len(a.Lines) == mostPageFirst {
				break
			}
		}
		a.More = n - len(a.Lines)
		p.Alerts = append(p.Alerts, a)
	}
}

// The states of files in the order in which bars show them.
var pageStates = [...]struct{ name, class string }{
	{"referenced", "referenced"}, {"unreferenced", "unreferenced"}, {"too young", "young"}, {"undecided", "undecided"},
}

func byState(t *AuditTotals) [4]AuditCount {
	return [...]AuditCount{t.Referenced, t.Unreferenced, t.Young, t.Undecided}
}

func (p *page) totals(r *AuditReport) {
	all := r.Totals.All
	p.Tiles = []pageTile{{"all files", all.Bytes, pageSize(all.Bytes), pageCount(all.Files, "file"), fmt.Sprintf("%s of %s", pageCount(int64(len(r.Snapshots)), "snapshot"), pageCount(int64(len(r.Jobs)), "job")), "all"}}
	free := "what gc can free"
	if !r.settled() {
		free = "not certain: see below"
	}
	for i, c := range byState(&r.Totals) {
		note := [...]string{"used by a snapshot", free, "a checkpoint may need it yet", "kept: no more can be said"}[i]
		files := pageCount(c.Files, "file")
		if all.Bytes > 0 && c.Bytes > 0 {
			files += fmt.Sprintf(", %.1f %%", 100*float64(c.Bytes)/float64(all.Bytes))
		}
		p.Tiles = append(p.Tiles, pageTile{pageStates[i].name, c.Bytes, pageSize(c.Bytes), files, note, pageStates[i].class})
	}
	p.Share = segments(&r.Totals, all.Bytes)
}

// segments is the bar of a total, of a width in proportion to whole.
func segments(t *AuditTotals, whole int64) (list []pageSegment) {
	for i, c := range byState(t) {
		if c.Bytes > 0 && whole > 0 {
			list = append(list, pageSegment{
				Class: pageStates[i].class, Percent: fmt.Sprintf("%.2f", 100*float64(c.Bytes)/float64(whole)), Title: pageStates[i].name + " " + pageSize(c.Bytes),
			})
		}
	}
	return list
}
