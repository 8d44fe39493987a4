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
	Wide      bool
	Bars      []pageBar
	Bands     []string    // points of polygons
	Labels    []pageLabel // of each bar if they are few
	Ticks     []string
	Fewer     string
}

type pageLabel struct{ Name, Size, Shared string }

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

	barPixels  = 84  // the width of barStep at most
	sidePixels = 500 // of those that stand side by side, at most
	mostLabels = 4
	mostTicks  = 5
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
	bars := 0
	for i, j := range jobs {
		t := newTimeline(p.wholePath(j), byJob[j])
		if bars += len(t.Bars); bars > mostBars || i == mostTimelines {
			p.Fewer = fmt.Sprintf("The %d largest of %s jobs with retained checkpoints; for the others see the table of snapshots.", i, grouped(int64(len(jobs))))
			break
		}
		p.Timelines = append(p.Timelines, t)
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
	if len(list) > 1 {
		t.Largest = pageSize(largest)
	}
	t.Width = barStep * float64(len(list))
	t.MaxPixels = barPixels * len(list)
	t.Wide = t.MaxPixels > sidePixels
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
	t.Title = pageCount(int64(len(list)), "retained checkpoint")
	t.label(list)
	return t
}

// label says of few bars each what it is, and of many where some are.
func (t *pageTimeline) label(list []*AuditSnapshot) {
	name := func(s *AuditSnapshot) string { return shortened(pageName(storage.Base(s.Dir())), longSegment) }
	if len(list) <= mostLabels {
		for i, s := range list {
			l := pageLabel{Name: name(s), Size: pageSize(wholeOf(s).Bytes)}
			if i+1 < len(list) {
				l.Shared = pageSize(list[i+1].Kept.Bytes) + " with next"
			}
			t.Labels = append(t.Labels, l)
		}
		return
	}
	n := min(len(list), mostTicks)
	for i := range n {
		s := list[i*(len(list)-1)/(n-1)]
		t.Ticks = append(t.Ticks, name(s)+" "+pageTime(s.ModTime))
	}
}
