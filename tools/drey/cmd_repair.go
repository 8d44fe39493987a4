package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

const repairHelp = `
Finds the files of a snapshot that are not where its metadata says, while they lie elsewhere, and makes
metadata that names them where they are. Nothing but the metadata is written, and that only with --write: the old one
is kept beside it as _metadata.before-repair, which Flink does not look at.

That happens to a checkpoint of a job that claimed a native savepoint with RocksDB (FLINK-39964: Flink up to 1.20.5 and 2.3.0
forgets that files lie in the savepoint's directory), to a copy that ended half-way, and to a directory that was renamed.

A file fits if it has the name and the size, and if its content is what the state needs in its place: the header of
a state file, and for RocksDB every block of the table with its checksum, within what the MANIFEST says of it. Files are looked for
in the directories of the snapshot and of its job, in savepoints nearby, and where they would be if the tree had been moved
as a whole; with --in, in the directories that it names and nowhere else. If a file is not found, or several fit, nothing is
written; --in also chooses between several.

The snapshot then uses files in other directories: what holds them must not be deleted. To get a copy that depends on
nothing, use drey relocate after the repair.

EXAMPLES
  drey repair s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42
  drey repair --write --in s3://bucket/savepoints s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42
  drey repair --output /tmp/_metadata.new /data/ckpt/chk-7 --write

EXIT STATUS of a plan: 0 if nothing is wrong or all of it can be repaired, 3 if not; with --write 5 if not.

`

// repairResult is the JSON document.
type repairResult struct {
	*tools.RepairPlan
	Done       bool `json:"done"`
	Repairable bool `json:"repairable"`
	// Executed is false for a plan, and if there was nothing to do.
	Executed bool `json:"executed"`

	failed bool // to be executed
}

func cmdRepair() *command {
	var in []string
	var output string
	var unchecked, write bool
	return &command{
		name: "repair", args: "SNAPSHOT", minArgs: 1, maxArgs: 1,
		short: "metadata that names files where they are", long: repairHelp,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&write, "write", false, "write the metadata; without it, show the plan")
			f.StringArrayVar(&in, "in", nil, "look for files in `DIR` and below only; may be repeated")
			f.StringVarP(&output, "output", "o", "", "write the metadata to `FILE`, and leave the old one in its place")
			f.BoolVar(&unchecked, "unchecked", false, "take a file by name and size, without reading it")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			o := tools.RepairOptions{Unchecked: unchecked, Jobs: e.jobs}
			src, err := target(args[0])
			if err != nil {
				return err
			}
			if o.Roots, err = targets(in); err != nil {
				return err
			}
			if output != "" {
				if o.Output, err = target(output); err != nil {
					return err
				}
			}
			return repair(ctx, e, src, o, write)
		},
	}
}

func repair(ctx context.Context, e *env, src string, o tools.RepairOptions, write bool) error {
	plan, err := tools.PlanRepair(ctx, stores(e), src, o)
	if err != nil {
		return err
	}
	r := repairResult{RepairPlan: plan, Done: plan.Done(), Repairable: plan.Repairable()}
	var failed error
	if write {
		failed = plan.Execute(ctx)
		r.Executed, r.failed = failed == nil && !r.Done, failed != nil
	}
	switch {
	case e.json && failed == nil:
		err = printJSON(e.stdout, r)
	case !e.json:
		err = report(e.stdout, func(w *bufio.Writer) { showRepair(w, r, e.verbose) })
	}
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case plan.Undecided():
		return errUnread
	case !r.Repairable:
		return errNo
	}
	return nil
}

func showRepair(w *bufio.Writer, r repairResult, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("repair of %s", printable(r.Source))
	if r.Chosen != "" {
		p("  %s", printable(r.Chosen))
	}
	for _, u := range r.Unseen {
		p("  NOT LOOKED AT  %s", printable(u))
	}
	for _, t := range r.Warnings {
		p("  warning: %s", printable(t))
	}
	if r.Done {
		p("  nothing to do: each of %s is where the metadata says, with the right size", plural(r.Total, "file"))
		return
	}
	p("  %d of %s not where the metadata says, or not of the right size", len(r.Files), plural(r.Total, "file"))
	// What stands in the way comes first.
	shown := 0
	for _, found := range []bool{false, true} {
		for i := range r.Files {
			f := &r.Files[i]
			if (f.State == tools.RepairFound) != found {
				continue
			}
			if shown++; all || shown <= mostLines {
				showRepairFile(p, f, all)
			}
		}
	}
	if more := len(r.Files) - mostLines; more > 0 && !all {
		p("  and %d more; use -v", more)
	}
	if !r.Repairable {
		p("  nothing to write: every file must be found, and only once; with --in DIR you say where to look")
		return
	}
	for _, u := range r.Uses {
		p("  %s: %s -> %s", plural(u.Handles, "handle"), printable(u.From), printable(u.To))
	}
	if r.ToAbsolute > 0 {
		p("  %s to absolute: the files are not beside the metadata", plural(r.ToAbsolute, "relative handle"))
	}
	verb := "to be written"
	if r.Executed {
		verb = "written"
	}
	p("  %s: %s", verb, printable(r.Target))
	if r.Backup != "" {
		p("  the old metadata, kept: %s", printable(r.Backup))
	}
	switch {
	case r.failed:
		p("  FAILED: see the error; running again is safe")
	case !r.Executed:
		p("  this is a plan; --write does it")
	}
}

func showRepairFile(p func(string, ...any), f *tools.RepairFile, all bool) {
	detail := ""
	switch {
	case f.Detail != "":
		detail = ": " + f.Detail
	case f.Expected >= 0:
		detail = ", " + size(f.Expected)
	}
	p("  %s  %s%s", f.Problem, printable(f.Path), printable(detail))
	if all || f.State != tools.RepairFound {
		uses := f.Uses
		if !all && len(uses) > mostUses {
			uses = uses[:mostUses]
		}
		for _, u := range uses {
			p("    %s", printable(u.Text))
		}
		if n := len(f.Uses) - len(uses); n > 0 {
			p("    and %s more; use -v", plural(n, "handle"))
		}
	}
	for _, c := range f.Candidates {
		how := "fits by name and size"
		switch {
		case c.Rejected != "":
			how = "another file: " + c.Rejected
		case c.Checked:
			how = "fits by name, size and content"
		case c.Unchecked != "":
			how += "; content not checked: " + c.Unchecked
		}
		p("    %s: %s", printable(c.Path), printable(how))
	}
	if f.State != tools.RepairFound {
		p("    %s", f.State)
	}
}
