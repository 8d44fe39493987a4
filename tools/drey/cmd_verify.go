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
	deep := false
	return &command{
		name: "verify", args: "SNAPSHOT...", minArgs: 1, maxArgs: -1,
		short: "every file there, with the right size? --deep: decodable?",
		long: `
Decodes the metadata of each snapshot and looks for every file that it names: that it is there,
and has the size that the metadata says; a merged file must reach as far as its segments do. Of
files of a changelog the metadata has only a logical length, so that they need only be there. All
problems are listed at once, with what the files are to whom, and where files of the same name and
size lie instead. The metadata is also checked for what Flink would accept silently.

A snapshot that was moved is damaged as long as its metadata names the old places.

Without --deep no state file is opened: a file with the right size and the wrong content is not found.

--deep reads every byte of all state: every entry is decoded and must end where it should, every key must be in the key
group that it hashes to, every block of RocksDB's tables must fit its checksum, its index and the order of
its keys, every compressed chunk its checksum, every buffer in flight its handle. It says what could not be checked: values
that are only bytes without the job's classes, and keys whose hash such a class makes. Uncompressed state that is not
in RocksDB's files has no checksums: a changed number is another number. The databases of incremental checkpoints
of drey's backend on Pebble are not looked into: of them only the sizes and the list of states are checked. A
canonical savepoint of the same job can be read.

EXAMPLES
  drey verify --deep s3://bucket/sp/savepoint-92afa1-ebcfa1b9e372
  drey verify s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42
  drey verify /data/savepoints/savepoint-*
`,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&deep, "deep", false, "read and decode all state, and check all checksums")
		},
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
				Deep:     deep, DeepJobs: e.jobs,
				DeepProgress: func(done, total int64) { bar.set(0, 0, done, total) },
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
	switch read := "; contents were not read"; {
	case c.Missing+c.WrongSize+c.Undecided > 0 || c.Verdict != tools.VerdictIntact && c.Deep == nil:
		p("  %d of %s missing, %d of wrong size, %d not readable", c.Missing, plural(c.Files, "file"), c.WrongSize, c.Undecided)
	default:
		if c.Deep != nil {
			read = ""
		}
		p("  every file is there with the size that the metadata says%s", read)
	}
	if c.Deep != nil {
		showDeep(p, c.Deep, all)
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

func showDeep(p func(string, ...any), d *tools.DeepCheck, all bool) {
	p("  read: %s with %d entries; %d keys are in their key group", plural(d.Handles, "handle"), d.Entries, d.KeysChecked)
	if d.Buffers > 0 {
		p("  in flight: %s in %d buffers; the files hold %s", size(d.ChannelBytes), d.Buffers, size(d.ChannelFileBytes))
	}
	for _, l := range []struct {
		word string
		list []*tools.StateProblem
	}{{"damaged", d.Damage}, {"not read", d.Unread}} {
		shown, more := firstOf(l.list, mostProblems, all)
		for _, problem := range shown {
			p("  %s  %s", l.word, printable(problem.Error()))
		}
		if more != "" {
			p("  %s", more)
		}
	}
	for _, l := range []struct {
		text string
		m    map[string]int64
	}{{"keys not checked", d.KeysUnchecked}, {"not decoded", d.Undecoded}} {
		reasons, more := some(byCount(l.m), all)
		for _, reason := range reasons {
			p("  %s: %d, %s", l.text, l.m[reason], printable(reason))
		}
		if more != "" {
			p("  %s", more)
		}
	}
	for _, reason := range byCount(d.NotLookedInto) {
		p("  not looked into: %s, %s", plural(int(d.NotLookedInto[reason]), "handle"), printable(reason))
	}
	for _, n := range d.Notes {
		p("  note: %s", printable(n))
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
