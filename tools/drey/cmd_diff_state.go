package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/drey-state/drey/tools"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	selectFlags
	ignoreTTL bool
	limit     int
	given     func(flag string) bool
}

// changeLine is a difference as a line of JSON.
type changeLine struct {
	Kind string `json:"kind"`
	*tools.Difference
}

// stateLine sums up one state as a line of JSON, totalLine all of them.
type stateLine struct {
	Kind string `json:"kind"`
	*tools.StateChange
}

type totalLine struct {
	Kind string `json:"kind"`
	*tools.StateDiff
	// States are lines of their own.
	States  any            `json:"states,omitempty"`
	Renames []tools.Rename `json:"renames,omitempty"`
}

// runState compares the state of two snapshots.
func (d *diffFlags) runState(ctx context.Context, e *env, old, new string) error {
	sel, err := d.selection()
	if err != nil {
		return err
	}
	fsys := stores(e)
	var snapshots [2]*tools.Snapshot
	for i, uri := range []string{old, new} {
		if snapshots[i], err = tools.Open(ctx, fsys, uri); err != nil {
			return err
		}
		if c := snapshots[i].Chosen; c != "" {
			e.note("%s", printable(c))
		}
	}
	renames, err := tools.Renames(ctx, fsys, snapshots[0], snapshots[1], e.jobs)
	if err != nil {
		return err
	}
	bar := newProgress(e, "comparing")
	defer bar.stop()
	var shown []*tools.Difference // for the report in text, which has them by state
	show := func(x *tools.Difference) error {
		if e.json {
			return printLine(e.stdout, changeLine{"difference", x})
		}
		shown = append(shown, x)
		return nil
	}
	r, err := tools.DiffState(ctx, fsys, snapshots[0], snapshots[1], tools.DiffStateOptions{
		Selection: sel, IgnoreTTL: d.ignoreTTL, Limit: d.limit, Jobs: e.jobs,
		Progress: func(done, total int64) { bar.set(0, 0, done, total) },
	}, show)
	if err != nil {
		return err
	}
	bar.stop()
	if e.json {
		err = printStateDiff(e.stdout, r, renames)
	} else {
		err = report(e.stdout, func(w *bufio.Writer) { showStateDiff(w, r, shown, renames, e.verbose) })
	}
	if err := problemsError(e, r.OldProblems, err); err != nil && !errors.Is(err, errNo) {
		return err
	}
	err = problemsError(e, r.NewProblems, err)
	if err == nil && (r.Different || len(r.OldProblems) > 0) {
		err = errNo
	}
	return err
}

func printStateDiff(w io.Writer, r *tools.StateDiff, renames []tools.Rename) error {
	for i := range r.States {
		if err := printLine(w, stateLine{"state", &r.States[i]}); err != nil {
			return err
		}
	}
	return printLine(w, totalLine{Kind: "total", StateDiff: r, Renames: renames})
}

func showStateDiff(w *bufio.Writer, r *tools.StateDiff, shown []*tools.Difference, renames []tools.Rename, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("old  %s", printable(r.Old))
	p("new  %s", printable(r.New))
	showRenames(p, renames, all)
	byState := map[[2]string][]*tools.Difference{}
	for _, x := range shown {
		k := [2]string{x.Operator.String(), x.State}
		byState[k] = append(byState[k], x)
	}
	same, entries := 0, int64(0)
	for i := range r.States {
		s := &r.States[i]
		if !s.Different() && !all && s.Note == "" {
			same++
			entries += s.Old
			continue
		}
		p("%s, %s (%s): %d -> %d entries: %d added, %d removed, %d changed", printable(label(s.Operator, s.Name, s.UID)), printable(s.State), s.Type,
			s.Old, s.New, s.Added, s.Removed, s.Changed)
		if s.Note != "" {
			p("  %s", s.Note)
		}
		list := byState[[2]string{s.Operator.String(), s.State}]
		for _, x := range list {
			p("  %s", printable(differenceText(x)))
		}
		if more := s.Added + s.Removed + s.Changed - int64(len(list)); more > 0 {
			p("  and %d more differences; use --limit", more)
		}
	}
	if same > 0 {
		p("equal: %s with %d entries", plural(same, "state"), entries)
	}
	switch {
	case r.Different:
		p("different")
	case len(r.OldProblems)+len(r.NewProblems) > 0:
		p("no difference in what could be read")
	default:
		p("no difference")
	}
}

// differenceText is a difference as a line.
func differenceText(x *tools.Difference) string {
	text := x.Change
	if x.KeyGroup >= 0 || x.Key != "" {
		text += " " + string(x.Key)
	}
	if x.Namespace != "" {
		text += " in " + string(x.Namespace)
	}
	if x.UserKey != "" {
		text += " [" + string(x.UserKey) + "]"
	}
	if x.Timestamp != nil {
		text += fmt.Sprintf(" at %d", *x.Timestamp)
	}
	switch {
	case x.Old != "" && x.New != "":
		return text + ": " + shorten(string(x.Old)) + " -> " + shorten(string(x.New))
	case x.Old != "" || x.New != "":
		return text + ": " + shorten(string(x.Old)+string(x.New))
	}
	return text
}
