package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

// mostProblems is how many problems of one snapshot are shown without -v.
const mostProblems = 50

// mostMoved is the same for a snapshot that was moved.
const mostMoved = 3

// mostUses is how many handles of one file are shown without -v.
const mostUses = 3

// errUnread ends a run in which something could not be read; the report says what.
var errUnread = errors.New("not everything could be read; see the report")

func cmdVerify() *command {
	return &command{
		name: "verify", args: "SNAPSHOT...", minArgs: 1, maxArgs: -1,
		short: "every file there, with the right size?",
		long: `
Decodes the metadata of each snapshot and looks for every file that it names: that it is there,
and has the size that the metadata says; a merged file must reach as far as its segments do. Of
files of a changelog the metadata has only a logical length, so that they need only be there. All
problems are listed at once, with what the files are to whom, and where files of the same name and
size lie instead. The metadata is also checked for what Flink would accept silently.

A snapshot that was moved is damaged as long as its metadata names the old places.

No state file is opened: a file with the right size and the wrong content is not found.

EXAMPLES
  drey verify s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42
  drey verify /data/savepoints/savepoint-*
`,
		flags: func(*pflag.FlagSet) {},
		run: func(ctx context.Context, e *env, args []string) error {
			uris, err := targets(args)
			if err != nil {
				return err
			}
			bar := newProgress(e, "checking")
			defer bar.stop()
			v, err := tools.Verify(ctx, stores(e), uris, tools.VerifyOptions{
				Jobs:     e.jobs,
				Progress: func(done, total int) { bar.set(done, total, 0, 0) },
			})
			if err != nil {
				return err
			}
			bar.stop()
			if e.json {
				err = printJSON(e.stdout, v)
			} else {
				err = report(e.stdout, func(w *bufio.Writer) { showVerification(w, v, e.verbose) })
			}
			switch {
			case err != nil:
				return err
			case v.Damaged > 0:
				return errNo
			case v.Undecided+v.Unreadable > 0:
				return errUnread
			}
			return nil
		},
	}
}

func showVerification(w *bufio.Writer, v *tools.Verification, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	for i := range v.Snapshots {
		showCheck(p, &v.Snapshots[i], all)
	}
	if len(v.Snapshots) > 1 {
		p("%s: %d intact, %d damaged, %d undecided, %d unreadable; %s looked at, %s", plural(len(v.Snapshots), "snapshot"),
			len(v.Snapshots)-v.Damaged-v.Undecided-v.Unreadable, v.Damaged, v.Undecided, v.Unreadable, plural(v.Files, "file"), size(v.Bytes))
	}
}

func showCheck(p func(string, ...any), c *tools.SnapshotCheck, all bool) {
	if c.Verdict == tools.VerdictUnreadable {
		p("UNREADABLE  %s", printable(c.Argument))
		p("  %s", printable(c.Error))
		return
	}
	words := map[string]string{tools.VerdictIntact: "intact", tools.VerdictDamaged: "DAMAGED", tools.VerdictUndecided: "UNDECIDED"}
	p("%s  %s", words[c.Verdict], printable(c.Snapshot))
	if c.Chosen != "" {
		p("  %s", printable(c.Chosen))
	}
	p("  %s, metadata version %d; %s in %s, %s", snapshotTitle(c.Kind, c.CheckpointID), c.Version, plural(c.Handles, "handle"), plural(c.Files, "file"), size(c.Bytes))
	if c.Verdict == tools.VerdictIntact {
		p("  every file is there with the size that the metadata says; contents were not read")
	} else {
		p("  %d of %s missing, %d of wrong size, %d not readable", c.Missing, plural(c.Files, "file"), c.WrongSize, c.Undecided)
	}
	for _, s := range c.Advice {
		p("  advice: %s", printable(s))
	}
	problems, limit := c.Problems, mostProblems
	if c.Moved {
		limit = mostMoved // all are alike
	}
	if !all && len(problems) > limit {
		problems = problems[:limit]
	}
	for i := range problems {
		showProblem(p, &problems[i], all)
	}
	if n := len(c.Problems) - len(problems); n > 0 {
		p("  and %d more problems; use -v", n)
	}
	if c.Usable != "" && !c.Moved {
		p("  usable: %s", printable(c.Usable))
	}
	warnings, more := some(c.Warnings, all)
	for _, s := range warnings {
		p("  warning: %s", printable(s))
	}
	if more != "" {
		p("  %s", more)
	}
}

func showProblem(p func(string, ...any), c *tools.CheckProblem, all bool) {
	detail := ""
	switch {
	case c.Detail != "":
		detail = ": " + c.Detail
	case c.Expected >= 0:
		detail = ", " + size(c.Expected)
	}
	p("  %s  %s%s", c.Problem, printable(c.File), printable(detail))
	uses := c.Uses
	if !all && len(uses) > mostUses {
		uses = uses[:mostUses]
	}
	for _, u := range uses {
		p("    %s", printable(u.Text))
		if all {
			p("      %s", u.Field)
		}
	}
	if n := len(c.Uses) - len(uses); n > 0 {
		p("    and %d more handles; use -v", n)
	}
	for _, f := range c.Candidates {
		p("    there is a file of this name and size: %s", printable(f))
	}
}
