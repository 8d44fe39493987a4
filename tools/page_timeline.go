package tools

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drey-state/drey/storage"
)

// pageTimeline is the retained checkpoints of a job as bars in a box of Width by 100. The lower part of a
// bar is what it shares with the one before; a band leads to it from there.
type pageTimeline struct {
	Job       pageCell
	Title     string
	Largest   string
	Width     float64
	MaxPixels int
	Bars      []pageBar
	Bands     []string // points of polygons
	Ticks     []string
	Fewer     string
}

type pageBar struct {
	X, Width          float64
	NewY, NewHeight   float64
	KeptY, KeptHeight float64
	Broken            bool
	Title             string
}

// In units of the box.
const (
	barStep  = 10.0
	barWidth = 7.0
)

func (p *page) timelines(r *AuditReport) {
	byJob := map[string][]*AuditSnapshot{}
	var jobs []string
	for i := range r.Snapshots {
		s := &r.Snapshots[i]
		if s.Job == "" || s.savepoint {
			continue
		}
		if byJob[s.Job] == nil {
			jobs = append(jobs, s.Job)
		}
		byJob[s.Job] = append(byJob[s.Job], s)
	}
	size := map[string]int64{}
	for i := range r.Jobs {
		size[r.Jobs[i].Dir] = r.Jobs[i].Totals.All.Bytes
	}
	slices.SortStableFunc(jobs, func(a, b string) int { return cmp.Compare(size[b], size[a]) })
	if len(jobs) > mostTimelines {
		p.Fewer = fmt.Sprintf("The %d largest of %d jobs with retained checkpoints.", mostTimelines, len(jobs))
		jobs = jobs[:mostTimelines]
	}
	for _, j := range jobs {
		p.Timelines = append(p.Timelines, newTimeline(p.path(j), byJob[j]))
	}
}

// wholeOf is everything that a snapshot uses.
func wholeOf(s *AuditSnapshot) AuditCount {
	return AuditCount{s.Own.Files + s.Shared.Files + s.Foreign.Files, s.Own.Bytes + s.Shared.Bytes + s.Foreign.Bytes}
}

func newTimeline(job pageCell, list []*AuditSnapshot) pageTimeline {
	t := pageTimeline{Job: job}
	if n := len(list); n > mostTimelineOf {
		t.Fewer = fmt.Sprintf("the newest %d of %d", mostTimelineOf, n)
		list = list[n-mostTimelineOf:]
	}
	largest := int64(1)
	for _, s := range list {
		largest = max(largest, wholeOf(s).Bytes)
	}
	scale := func(n int64) float64 { return 100 * float64(n) / float64(largest) }
	t.Largest = pageSize(largest)
	t.Width = barStep*float64(len(list)) - (barStep - barWidth)
	t.MaxPixels = 72 * len(list)
	for i, s := range list {
		whole := wholeOf(s).Bytes
		kept := s.Kept.Bytes
		if i == 0 {
			kept = 0 // what it shares with one that is not shown leads nowhere
		}
		b := pageBar{X: barStep * float64(i), Width: barWidth, KeptHeight: scale(kept), NewHeight: scale(whole - kept), Broken: !s.Complete()}
		b.KeptY, b.NewY = 100-b.KeptHeight, 100-scale(whole)
		b.Title = fmt.Sprintf("%s, %s: %s, of which %s shared with the one before", pageName(storage.Base(s.Dir())), pageTime(s.ModTime), pageSize(whole), pageSize(s.Kept.Bytes))
		if i+1 < len(list) {
			b.Title += fmt.Sprintf(", %s with the next", pageSize(list[i+1].Kept.Bytes))
		}
		if b.Broken {
			b.Title += fmt.Sprintf("; %d files missing, %d of wrong size, %d not looked at", s.Missing, s.WrongSize, s.Unseen)
		}
		if kept > 0 {
			left, right := b.X-(barStep-barWidth), b.X
			t.Bands = append(t.Bands, fmt.Sprintf("%.1f,100 %.1f,%.2f %.1f,%.2f %.1f,100", left, left, b.KeptY, right, b.KeptY, right))
		}
		t.Bars = append(t.Bars, b)
	}
	first, last := list[0], list[len(list)-1]
	t.Title = pageCount(int64(len(list)), "retained checkpoint")
	tick := func(s *AuditSnapshot) {
		t.Ticks = append(t.Ticks, pageName(storage.Base(s.Dir()))+" "+pageTime(s.ModTime))
	}
	tick(first)
	if len(list) > 1 {
		tick(last)
	}
	return t
}
