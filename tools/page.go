package tools

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"

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
	mostPageFiles  = 200  // of each status
	mostTimelines  = 30
	mostTimelineOf = 400 // checkpoints of one job
)

// page is what the template shows.
type page struct {
	CSS    template.CSS
	JS     template.JS
	Policy string

	Roots     []string
	Now       string
	Grace     string
	Alerts    []pageAlert
	Tiles     []pageTile
	Share     []pageSegment
	Timelines []pageTimeline
	Fewer     string // which timelines are left out
	Tables    []pageTable

	root string // if there is only one
}

// pageAlert is something that the reader must know before the numbers.
type pageAlert struct {
	Title string
	Lines []string
	More  int
}

type pageTile struct {
	Name, Size, Files, Class string
}

// pageSegment is a part of a bar; Percent is its width.
type pageSegment struct {
	Class   string
	Percent string
	Title   string
}

type pageTable struct {
	ID, Title, Note string
	Columns         []pageColumn
	Rows            [][]pageCell
}

type pageColumn struct {
	Name    string
	Numeric bool
	Help    string
}

// pageCell is a cell of a table. Sort is what it is sorted by if that is not the text.
type pageCell struct {
	Dir, Text string // Dir is a less prominent beginning
	Sort      string
	Class     string
	Title     string
	Bar       []pageSegment
}

// WritePage writes an audit as one HTML page, which needs no network and no other file. Its
// size is bounded: of long lists it has the largest entries, and says how many there are.
func WritePage(w io.Writer, r *AuditReport) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(pageJS))
	p := &page{
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS),
		Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Now:    pageTime(r.Now), Grace: pageAge(time.Duration(r.GraceSeconds) * time.Second),
	}
	for _, root := range r.Roots {
		p.Roots = append(p.Roots, pageName(root))
	}
	if len(r.Roots) == 1 {
		p.root = r.Roots[0]
	}
	p.alerts(r)
	p.totals(r)
	p.timelines(r)
	p.tables(r)
	return t.Execute(w, p)
}

func (p *page) alerts(r *AuditReport) {
	add := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		a := pageAlert{Title: title}
		for _, l := range lines[:min(len(lines), 20)] {
			a.Lines = append(a.Lines, pageName(l))
		}
		a.More = len(lines) - len(a.Lines)
		p.Alerts = append(p.Alerts, a)
	}
	failures := func(list []AuditFailure) (lines []string) {
		for _, f := range list {
			lines = append(lines, f.URI+": "+f.Error)
		}
		return lines
	}
	add("Metadata that can't be read: what counts as unreferenced may be in use by it", failures(r.Unreadable))
	add("Directories that could not be listed", failures(r.Unlisted))
	add("Beside the roots and not in scope: may use files that count as unreferenced here", r.Siblings)
	if r.Missing+r.WrongSize+r.Unseen > 0 {
		p.Alerts = append(p.Alerts, pageAlert{Title: fmt.Sprintf("Files of snapshots: %d missing, %d of the wrong size, %d that could not be looked at; see Problems", r.Missing, r.WrongSize, r.Unseen)})
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
	p.Tiles = []pageTile{{"all files", pageSize(r.Totals.All.Bytes), pageCount(r.Totals.All.Files, "file"), "all"}}
	for i, c := range byState(&r.Totals) {
		p.Tiles = append(p.Tiles, pageTile{pageStates[i].name, pageSize(c.Bytes), pageCount(c.Files, "file"), pageStates[i].class})
	}
	p.Share = segments(&r.Totals, r.Totals.All.Bytes)
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

// pageName keeps a name from changing how the page reads: it has no control characters, and none that turn the direction of text.
func pageName(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// path is the cell of a URI. Where there is one root, what is below it is shown from there on.
func (p *page) path(uri string) pageCell {
	shown := uri
	if rest, ok := storage.Rel(p.root, uri); ok && p.root != "" && rest != "" {
		shown = rest
	}
	base := storage.Base(uri)
	return pageCell{Dir: pageName(strings.TrimSuffix(shown, base)), Text: pageName(base), Sort: pageName(uri), Class: "path", Title: pageName(uri)}
}

func pageText(s string) pageCell { return pageCell{Text: pageName(s)} }

func pageNumber(n int64) pageCell {
	return pageCell{Text: fmt.Sprint(n), Sort: fmt.Sprint(n), Class: "number"}
}

func pageBytes(n int64) pageCell {
	return pageCell{Text: pageSize(n), Sort: fmt.Sprint(n), Class: "number"}
}

func pageWhen(t time.Time) pageCell {
	if t.IsZero() {
		return pageCell{Text: "unknown", Sort: "0"}
	}
	return pageCell{Text: pageTime(t), Sort: fmt.Sprint(t.Unix()), Class: "time"}
}

func pageTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func pageAge(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return pageCount(int64(d/(24*time.Hour)), "day")
	case d >= 2*time.Hour:
		return pageCount(int64(d/time.Hour), "hour")
	case d >= 2*time.Minute:
		return pageCount(int64(d/time.Minute), "minute")
	}
	return pageCount(int64(d/time.Second), "second")
}

func pageCount(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func pageSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if f /= 1024; f < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}
