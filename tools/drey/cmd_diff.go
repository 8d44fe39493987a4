package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

func cmdDiff() *command {
	d := &diffFlags{}
	return &command{
		name: "diff", args: "OLD NEW", minArgs: 2, maxArgs: 2,
		short: "how two snapshots differ: operators, parallelism, files; --state: entries",
		long: `
Compares the metadata of two snapshots: operators that came and went, which pairs of them look like
one operator whose uid was changed, what changed in the others, and which files each names. No
state file is opened. Files of the same name and size at another place, as after drey relocate, are
counted and are no difference.

With --state it compares the entries of the state instead: keyed state and timers by operator, state, key, namespace
and user key, whatever the formats of the snapshots are, and operator state over all subtasks: lists
as multisets, union state as a set, broadcast state as a map. It says how many entries
of each state were added, removed and changed, and shows the first of them. --state=NAME
compares the states of that name only. With --json it writes a line for each difference that is shown
("kind":"difference"), then one for each state ("kind":"state") and one for the whole ("kind":"total").
A state or key groups that neither snapshot has are an error. Memory does not depend on the size of the state,
but for the differences that are shown as text.

Exits with 0 if there is no difference and with 3 if there is one, or if state could not be read.

EXAMPLES
  drey diff s3://bucket/ckpt/JOB/chk-41 s3://bucket/ckpt/JOB/chk-42
  drey diff --state --ignore-ttl savepoint-92afa1-ebcfa1b9e372 chk-42
  drey diff --state=total --operator my-uid --limit -1 --json chk-41 chk-42
`,
		flags: func(f *pflag.FlagSet) {
			d.given = f.Changed
			f.StringArrayVar(&d.states, "state", nil, "compare entries of state; with `=NAME` only of states of this name, in which * and ? stand for characters")
			f.Lookup("state").NoOptDefVal = "*"
			f.StringArrayVar(&d.operators, "operator", nil, "with --state: only this `OPERATOR`, by its id, uid or name; may be repeated")
			f.StringArrayVar(&d.groups, "key-group", nil, "with --state: only these key `GROUPS`, such as 0-3,17")
			f.BoolVar(&d.ignoreTTL, "ignore-ttl", false, "with --state: times of last access make no difference")
			f.IntVar(&d.limit, "limit", 20, "with --state: show `N` differences of each state; -1 for all")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			uris, err := targets(args)
			if err != nil {
				return err
			}
			if len(d.states) > 0 {
				return d.runState(ctx, e, uris[0], uris[1])
			}
			if len(d.operators)+len(d.groups) > 0 || d.ignoreTTL || d.given("limit") {
				return usagef("diff: --operator, --key-group, --ignore-ttl and --limit are for --state")
			}
			r, err := tools.Diff(ctx, stores(e), uris[0], uris[1])
			if err != nil {
				return err
			}
			if e.json {
				err = printJSON(e.stdout, r)
			} else {
				err = report(e.stdout, func(w *bufio.Writer) { showDiff(w, r, e.verbose) })
			}
			if err == nil && r.Different {
				err = errNo
			}
			return err
		},
	}
}

func showDiff(w *bufio.Writer, r *tools.DiffReport, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	for _, side := range []struct {
		name string
		*tools.DiffSide
	}{{"old", &r.Old}, {"new", &r.New}} {
		p("%s  %s", side.name, printable(side.Snapshot))
		if side.Chosen != "" {
			p("     %s", printable(side.Chosen))
		}
		p("     %s, metadata version %d, %s", snapshotTitle(side.Kind, side.CheckpointID), side.Version, plural(side.Operators, "operator"))
	}
	if !r.Different {
		p("no difference")
	}
	change := func(indent string, c tools.FieldChange) {
		p("%s%s: %s -> %s", indent, c.Field, value(c.Old), value(c.New))
	}
	for _, c := range r.Fields {
		change("", c)
	}
	list := func(word string, ops []tools.OperatorInfo) {
		shown, more := some(ops, all)
		for i := range shown {
			o := &shown[i]
			p("operator %s: %s%s, parallelism %d of %d, %s", word, o.ID, operatorTitle(o), o.Parallelism, o.MaxParallelism, holds(o))
		}
		if more != "" {
			p("  %s", more)
		}
	}
	list("removed", r.Removed)
	list("added", r.Added)
	showRenames(p, r.Renames, all)
	changed, more := some(r.Changed, all)
	for _, c := range changed {
		name := c.UID
		if name == "" {
			name = c.Name
		}
		p("operator changed: %s%s", c.ID, quoted(name))
		for _, f := range c.Changes {
			change("  ", f)
		}
	}
	if more != "" {
		p("  %s", more)
	}
	p("operators without a difference: %d", r.Same)
	for _, set := range []struct {
		name string
		*tools.FileSet
	}{{"only in old", &r.RemovedFiles}, {"only in new", &r.AddedFiles}, {"in both", &r.CommonFiles}, {"in both, at another place", &r.MovedFiles}} {
		if set.Count == 0 {
			continue
		}
		p("files %s: %d, %s", set.name, set.Count, size(set.Bytes))
		if all && set.FileSet != &r.CommonFiles {
			for _, f := range set.Files {
				p("  %s", printable(f))
			}
		}
	}
}

func showRenames(p func(string, ...any), renames []tools.Rename, all bool) {
	renames, more := some(renames, all)
	for _, c := range renames {
		sure := "looks like"
		if c.Ambiguous {
			sure = "may be"
		}
		p("removed %s%s %s added %s%s: %s", c.Old, quoted(c.OldName), sure, c.New, quoted(c.NewName), printable(c.Why))
	}
	if more != "" {
		p("  %s", more)
	}
}

func value(s string) string {
	if s == "" {
		return "none"
	}
	return printable(s)
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", printable(s))
}

// holds says in short what an operator holds.
func holds(o *tools.OperatorInfo) string {
	switch o.Content {
	case tools.ContentNone:
		return "no state"
	case tools.ContentEmpty:
		return "empty"
	}
	text := size(o.Bytes)
	var names []string
	for _, s := range o.States {
		names = append(names, fmt.Sprintf("%q", printable(s.Name)))
	}
	if list, more := some(names, false); len(list) > 0 {
		text += ", operator state " + strings.Join(list, ", ") + prefixed(" ", more)
	}
	return text
}
