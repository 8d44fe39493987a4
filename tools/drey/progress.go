package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// progressLine is how often a line is written where there is no terminal.
	progressLine = 10 * time.Second
	// progressBar is how often the bar of a terminal is drawn.
	progressBar = 200 * time.Millisecond
)

// progress tells the user how far long work is: a bar on a terminal, else a
// line every 10 seconds, and nothing with --quiet. Work that ends sooner
// leaves no trace. Its methods may be called concurrently.
type progress struct {
	w    io.Writer // nil for silent
	bar  bool
	what string

	mu          sync.Mutex
	done, total int
	bytes       int64
	totalBytes  int64
	words       string // in the place of figures
	known       bool   // set or say was called
	started     time.Time
	width       int // of what the bar has drawn
	quit        chan struct{}
	ended       sync.WaitGroup
}

// newProgress starts telling about what, e.g. "checking". Call stop at the end.
func newProgress(e *env, what string) *progress {
	p := &progress{what: what, started: time.Now(), quit: make(chan struct{})}
	if e.quiet {
		return p
	}
	p.w, p.bar = e.stderr, isTerminal(e.stderr)
	every := progressLine
	if p.bar {
		every = progressBar
	}
	p.ended.Go(func() { p.run(every) })
	return p
}

func (p *progress) run(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.mu.Lock()
			if p.known {
				p.draw(time.Since(p.started))
			}
			p.mu.Unlock()
		case <-p.quit:
			return
		}
	}
}

// set says how much of the work is done. A total that is not known is 0.
func (p *progress) set(done, total int, bytes, totalBytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = true
	p.done, p.total, p.bytes, p.totalBytes = done, total, bytes, totalBytes
}

// say tells how far it is in words, where there are no figures.
func (p *progress) say(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = true
	p.words = words
}

// stop ends it and removes the bar. It may be called more than once.
func (p *progress) stop() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	select {
	case <-p.quit:
		p.mu.Unlock()
		return
	default:
		close(p.quit)
	}
	p.mu.Unlock()
	p.ended.Wait()
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
	}
}

// draw writes the present figures. p.mu is held.
func (p *progress) draw(elapsed time.Duration) {
	text := p.text(elapsed)
	if !p.bar {
		fmt.Fprintf(p.w, "drey: %s\n", text)
		return
	}
	n := len(text)
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, p.width-n)))
	p.width = n
}

// text is the line about the present figures.
func (p *progress) text(elapsed time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", p.what)
	if p.words != "" {
		return b.String() + p.words
	}
	if share, ok := p.share(); ok && p.bar {
		const cells = 24
		full := int(share * cells)
		fmt.Fprintf(&b, "[%s%s] %3.0f %%, ", strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*share)
	}
	var parts []string
	switch {
	case p.total > 0:
		parts = append(parts, fmt.Sprintf("%d of %s", p.done, plural(p.total, "file")))
	case p.done > 0 || p.bytes+p.totalBytes == 0:
		parts = append(parts, plural(p.done, "file"))
	}
	switch {
	case p.totalBytes > 0 && p.bytes <= p.totalBytes:
		parts = append(parts, fmt.Sprintf("%s of %s", size(p.bytes), size(p.totalBytes)))
	case p.bytes > 0:
		parts = append(parts, size(p.bytes))
	}
	b.WriteString(strings.Join(parts, ", "))
	if s := elapsed.Seconds(); p.bytes > 0 && s >= 1 {
		fmt.Fprintf(&b, ", %s/s", size(int64(float64(p.bytes)/s)))
	}
	return b.String()
}

// share is the part of the work that is done, from 0 to 1, if it is known. It
// is not if more was read than there is: blocks of several key groups are read again for each.
func (p *progress) share() (float64, bool) {
	switch {
	case p.totalBytes > 0 && p.bytes > p.totalBytes:
		return 0, false
	case p.totalBytes > 0:
		return min(1, max(0, float64(p.bytes)/float64(p.totalBytes))), true
	case p.total > 0:
		return min(1, max(0, float64(p.done)/float64(p.total))), true
	}
	return 0, false
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
