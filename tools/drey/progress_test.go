package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/drey-state/drey/tools"
)

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		name              string
		bar               bool
		done, total       int
		bytes, totalBytes int64
		elapsed           time.Duration
		want              string
	}{
		{"files only", false, 3, 12, 0, 0, time.Second, "checking: 3 of 12 files"},
		{"no totals", false, 3, 0, 2048, 0, 2 * time.Second, "checking: 3 files, 2.0 KiB, 1.0 KiB/s"},
		{"bytes only", false, 0, 0, 1 << 20, 4 << 20, 4 * time.Second, "checking: 1.0 MiB of 4.0 MiB, 256.0 KiB/s"},
		{"line", false, 3, 12, 1 << 20, 4 << 20, 4 * time.Second, "checking: 3 of 12 files, 1.0 MiB of 4.0 MiB, 256.0 KiB/s"},
		{"bar", true, 3, 12, 1 << 20, 4 << 20, 4 * time.Second, "checking: [######..................]  25 %, 3 of 12 files, 1.0 MiB of 4.0 MiB, 256.0 KiB/s"},
		{"blocks read again", true, 0, 0, 5 << 20, 4 << 20, 5 * time.Second, "checking: 5.0 MiB, 1.0 MiB/s"},
		{"more than there is", true, 13, 12, 0, 0, time.Second, "checking: [########################] 100 %, 13 of 12 files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &progress{what: "checking", bar: c.bar, done: c.done, total: c.total, bytes: c.bytes, totalBytes: c.totalBytes}
			if got := p.text(c.elapsed); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestProgressWords(t *testing.T) {
	p := &progress{what: "savepoint"}
	for want, w := range map[string]tools.SaveProgress{
		"savepoint: in progress, 12s":                {Elapsed: 12*time.Second + time.Millisecond},
		"savepoint: 3 of 4 subtasks done, 20s":       {Elapsed: 20 * time.Second, Acknowledged: 3, Subtasks: 4},
		"savepoint: waiting for the job to end, 30s": {Elapsed: 30 * time.Second, Ending: true},
	} {
		p.say(progressWords(w))
		if got := p.text(time.Minute); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProgressBarLeavesNoTrace(t *testing.T) {
	var out bytes.Buffer
	p := &progress{w: &out, bar: true, what: "checking", quit: make(chan struct{})}
	p.set(1, 2, 0, 0)
	p.draw(0)
	p.set(2, 2, 0, 0)
	p.draw(0)
	p.stop()
	p.stop()
	if got := out.Bytes(); got[len(got)-1] != '\r' {
		t.Errorf("the bar is still there: %q", got)
	}
}

func TestProgressQuiet(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&env{stderr: &out, quiet: true}, "checking")
	p.set(1, 2, 3, 4)
	p.stop()
	if out.Len() > 0 {
		t.Errorf("wrote %q", out.String())
	}
}
