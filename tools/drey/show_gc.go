package main

import (
	"bufio"
	"fmt"
	"time"

	"github.com/drey-state/drey/tools"
)

// mostDeleted is how many files to delete are shown without -v.
const mostDeleted = 20

// showPlan prints a plan as a report or as JSON.
func showPlan(e *env, p *tools.GCPlan) error {
	if e.json {
		_, err := p.WriteTo(e.stdout)
		return err
	}
	var failed error
	err := report(e.stdout, func(w *bufio.Writer) {
		showPlanHead(w, p)
		n := 0
		for f, err := range p.Entries() {
			if err != nil {
				failed = err
				return
			}
			if n++; n <= mostDeleted || e.verbose {
				fmt.Fprintf(w, "  %s  %s, %s: %s\n", printable(f.Path), size(f.Size), f.ModTime.UTC().Format(time.DateOnly), printable(f.Reason))
			}
		}
		if n > mostDeleted && !e.verbose {
			fmt.Fprintf(w, "  and %d more; use -v, --json or --plan-out\n", n-mostDeleted)
		}
		if len(p.Refused) == 0 && n > 0 {
			fmt.Fprintln(w, "nothing was changed; --delete deletes")
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

func showPlanHead(w *bufio.Writer, p *tools.GCPlan) {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	for _, r := range p.Roots {
		line("%s", printable(r))
	}
	for _, r := range p.References {
		line("%s (only for what its snapshots use)", printable(r))
	}
	line("%s in scope", plural(p.Snapshots, "snapshot"))
	if t := p.Listed; t.All.Files > 0 {
		line("referenced %s, unreferenced %s, too young %s, undecided %s", counted(t.Referenced), counted(t.Unreferenced), counted(t.Young), counted(t.Undecided))
	}
	for _, k := range p.Kept {
		line("kept %s: %s", counted(k.AuditCount), printable(k.Reason))
	}
	for _, d := range p.OrphanSavepoints {
		line("savepoint without metadata, of no known job: %s", printable(d))
	}
	for _, n := range p.Notes {
		line("note: %s", printable(n))
	}
	for _, r := range p.Refused {
		line("REFUSED: %s", printable(r))
	}
	if help := whatHelps(p); len(help) > 0 {
		line("WHAT TO DO NEXT")
		for _, h := range help {
			line("  %s", printable(h))
		}
	}
	for _, d := range p.Drop {
		line("drop %s, %s", printable(d.Snapshot), printable(d.Reason))
	}
	if n := len(p.Directories); n > 0 {
		line("%s to remove if empty", plural(n, "directory"))
	}
	if len(p.Refused) == 0 || p.Delete.Files > 0 {
		line("to delete: %s", counted(p.Delete))
	}
}

func showRun(w *bufio.Writer, r *tools.GCRun, all bool) {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("run %s of plan %s: %s deleted, %d gone already, %d skipped, %d failed", r.ID, r.Plan, counted(r.Deleted), r.Gone.Files, r.Skipped.Files, r.Failed.Files)
	if r.Directories > 0 {
		line("%s removed", plural(r.Directories, "directory"))
	}
	list := func(what string, files []tools.GCFailure, total int64) {
		for i, f := range files {
			if i == mostDeleted && !all {
				break
			}
			line("  %s: %s: %s", what, printable(f.Path), printable(f.Error))
		}
		if n := total - int64(mostDeleted); n > 0 && !all {
			line("  and %d more; use -v or --record", n)
		}
	}
	list("skipped", r.Skips, r.Skipped.Files)
	list("FAILED", r.Failures, r.Failed.Files)
	if r.Stopped != "" {
		line("stopped: %s", printable(r.Stopped))
	}
}
