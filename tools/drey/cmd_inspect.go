package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

func cmdInspect() *command {
	var (
		o        tools.InspectOptions
		uidFiles []string
		check    string
	)
	return &command{
		name: "inspect", args: "SNAPSHOT", minArgs: 1, maxArgs: 1,
		short: "what is in a snapshot (reads _metadata; --states: headers of state files)",
		long: `
Reads the metadata of a savepoint or checkpoint and tells what it is, which releases of Flink
read it, whether its directory can be moved by a plain copy, where its files lie, and what each
operator holds. No state file is opened, so names of keyed states are not shown.

--states opens the state files and reads their headers: the names of all states, with their types and the types of
keys and values, and which releases of Flink cannot read them. How many entries there are is for drey dump --count.

Metadata before version 5 (Flink 2.0) knows operators by the hash of their uid only; give the
uids of the job with --uid or --uids to see which is which. Operators that hold nothing can be
dropped without loss.

EXAMPLES
  drey inspect s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42
  drey inspect --uids uids.txt savepoint-92afa1-ebcfa1b9e372
  drey inspect --states chk-42
  drey inspect --check self-contained savepoint-92afa1-ebcfa1b9e372
`,
		flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&o.UIDs, "uid", nil, "a candidate for the `UID` of an operator; may be repeated")
			f.StringArrayVar(&uidFiles, "uids", nil, "`FILE` of candidate uids, one on each line; - for standard input")
			f.BoolVar(&o.States, "states", false, "read the headers of state files")
			f.IntVar(&o.Top, "top", 0, "list the `N` largest inline handles, and what makes _metadata large")
			f.StringVar(&check, "check", "", "`WHAT` is \"self-contained\": exit with 3, and say why, if the directory can't be moved by a plain copy")
			f.BoolVar(&o.Partial, "partial", false, "show what comes before the damage in a damaged file")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			if check != "" && check != "self-contained" {
				return usagef("inspect: --check %s: only self-contained can be checked", check)
			}
			if o.Top < 0 {
				return usagef("inspect: --top %d is negative", o.Top)
			}
			for _, name := range uidFiles {
				lines, err := readLines(name)
				if err != nil {
					return err
				}
				o.UIDs = append(o.UIDs, lines...)
			}
			uri, err := target(args[0])
			if err != nil {
				return err
			}
			o.Jobs = e.jobs
			r, err := tools.Inspect(ctx, stores(e), uri, o)
			if err != nil {
				return err
			}
			if e.json {
				err = printJSON(e.stdout, r)
			} else {
				err = report(e.stdout, func(w *bufio.Writer) { showInspection(w, r, e.verbose, check != "") })
			}
			if err == nil && (r.Damage != "" || check != "" && !r.SelfContained.Yes) {
				err = errNo
			}
			return problemsError(e, r.Problems, err)
		},
	}
}

// readLines gives the lines of a file that are neither empty nor comments. A
// file "-" is standard input.
func readLines(name string) ([]string, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	var lines []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := strings.TrimSuffix(s.Text(), "\r")
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, s.Err()
}

// report writes a report through a buffer.
func report(w io.Writer, write func(*bufio.Writer)) error {
	b := bufio.NewWriter(w)
	write(b)
	return b.Flush()
}

// most is how many entries of a list a report shows without -v.
const most = 10

// some gives the first entries of a list and, if there are more, a line that says so.
func some[T any](list []T, all bool) (shown []T, more string) {
	return firstOf(list, most, all)
}

// mostOperators is how many operators a report shows without -v.
const mostOperators = 50

func firstOf[T any](list []T, n int, all bool) (shown []T, more string) {
	if all || len(list) <= n {
		return list, ""
	}
	return list[:n], fmt.Sprintf("and %d more; use -v", len(list)-n)
}

func showInspection(w *bufio.Writer, r *tools.Inspection, all, check bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("%s", printable(r.Snapshot))
	if r.Chosen != "" {
		p("  %s", printable(r.Chosen))
	}
	if r.Damage != "" {
		p("  PARTIAL: what follows was read before the error: %s", printable(r.Damage))
	}
	dialect := ""
	if r.Dialect != "" {
		dialect = ", dialect of " + r.Dialect
	}
	p("  metadata       version %d%s, %s; written by Flink %s, read by %s", r.Version, dialect, size(r.MetadataBytes), r.WrittenBy, r.ReadBy)
	p("  kind           %s", kindLine(r))
	p("  checkpoint id  %d", r.CheckpointID)
	f := r.Files
	files := fmt.Sprintf("%s in %s, %s", plural(f.Handles, "handle"), plural(f.Files, "file"), size(f.PhysicalBytes))
	if f.Directories > 0 {
		files += fmt.Sprintf("; %s of merged files", plural(f.Directories, "reference")+" to directories")
	}
	p("  files          %s", files)
	state := fmt.Sprintf("%s, of which %s inline", size(f.LogicalBytes), size(f.InlineBytes))
	if f.UnknownSizes > 0 {
		state += fmt.Sprintf(", and %s of unknown size", plural(f.UnknownSizes, "handle"))
	}
	p("  state          %s", state)
	p("  %s", printable(r.SelfContained.Headline))
	if check && !r.SelfContained.Yes {
		p("  blockers:")
		list, more := some(r.SelfContained.Blockers, all)
		for _, b := range list {
			p("    %s: %s in %s", b.Place, plural(b.Handles, b.Handle), printable(b.Directory))
			p("      such as %s: %s", printable(b.Example), printable(b.Path))
		}
		if more != "" {
			p("    %s", more)
		}
	}
	if len(r.Places) > 0 {
		p("directories")
		list, more := some(r.Places, all)
		for _, d := range list {
			prefixes := ""
			if d.Prefixes > 0 {
				prefixes = fmt.Sprintf(" (%d different random parts)", d.Prefixes)
			}
			p("  %s%s: %s, %s, %s, %s", printable(d.Directory), prefixes, d.Place, plural(d.Handles, "handle"), plural(d.Files, "file"), size(d.Bytes))
		}
		if more != "" {
			p("  %s", more)
		}
	}
	for _, m := range r.MasterStates {
		p("master state %q, version %d, %s", printable(m.Name), m.Version, size(int64(m.Bytes)))
	}
	p("operators: %d", len(r.Operators))
	operators, more := firstOf(r.Operators, mostOperators, all)
	for i := range operators {
		showOperator(p, &operators[i], all)
	}
	if more != "" {
		p("  %s", more)
	}
	if len(r.UnmatchedUIDs) > 0 {
		list, more := some(r.UnmatchedUIDs, all)
		p("uids that no operator has: %s", printable(strings.Join(list, ", "))+prefixed(" ", more))
	}
	if r.Classes != nil {
		showClasses(p, r)
	}
	for _, s := range r.Warnings {
		p("warning: %s", printable(s))
	}
	for _, s := range r.Notes {
		p("note: %s", printable(s))
	}
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func kindLine(r *tools.Inspection) string {
	kind := r.Kind
	if r.KindGuessed && kind != "unknown" {
		kind += ", as name and content suggest"
	}
	if r.Stop != "" {
		kind += ", taken to stop the job (" + r.Stop + ")"
	}
	if r.Retention != "" {
		kind += ", " + r.Retention
	}
	return kind
}

// operatorTitle names an operator by all that is known.
func operatorTitle(o *tools.OperatorInfo) string {
	var names []string
	switch {
	case o.UID != "":
		names = append(names, fmt.Sprintf("uid %q", printable(o.UID)))
	case o.MatchedUID != "":
		names = append(names, fmt.Sprintf("uid %q, by its hash", printable(o.MatchedUID)))
	}
	if o.Name != "" {
		names = append(names, fmt.Sprintf("name %q", printable(o.Name)))
	}
	return prefixed(" ", strings.Join(names, ", "))
}

func showOperator(p func(string, ...any), o *tools.OperatorInfo, all bool) {
	subtasks := fmt.Sprintf("handles of %s", plural(o.Subtasks, "subtask"))
	switch {
	case o.FullyFinished:
		subtasks = "all subtasks finished"
	case o.FinishedSubtasks > 0:
		subtasks += fmt.Sprintf(", %d finished", o.FinishedSubtasks)
	}
	p("  %s%s", o.ID, operatorTitle(o))
	p("    parallelism %d of %d, %s", o.Parallelism, o.MaxParallelism, subtasks)
	switch o.Content {
	case tools.ContentNone:
		p("    no state: a restore skips it")
		return
	case tools.ContentEmpty:
		p("    empty: its handles hold nothing, so that it is safe to drop with --allowNonRestoredState")
		return
	}
	var parts []string
	add := func(name string, n int64) {
		if n > 0 {
			parts = append(parts, name+" "+size(n))
		}
	}
	add("keyed ("+strings.Join(o.Keyed, ", ")+")", o.KeyedBytes)
	add("raw keyed", o.RawKeyedBytes)
	add("operator state", o.OperatorBytes)
	add("raw operator state", o.RawOperatorBytes)
	add("in-flight", o.ChannelBytes)
	add("coordinator", o.CoordinatorBytes)
	if len(parts) == 0 {
		parts = []string{"0 B"}
	}
	p("    %s; %s inline, %s of %s", strings.Join(parts, ", "), size(o.InlineBytes), plural(o.Files, "file"), size(o.FileBytes))
	if n := o.InputChannels + o.OutputChannels; n > 0 {
		p("    in-flight data of %s in, %d out", plural(o.InputChannels, "channel"), o.OutputChannels)
	}
	if len(o.Headers) > 0 {
		showHeaders(p, o.Headers)
		return
	}
	list, more := some(o.States, all)
	for _, s := range list {
		raw := ""
		if s.Raw {
			raw = "raw "
		}
		p("    %soperator state %q, %s, %s", raw, printable(s.Name), s.Mode, plural(s.Elements, "element"))
	}
	if more != "" {
		p("    %s", more)
	}
}

// showHeaders shows what the state files say of their states.
func showHeaders(p func(string, ...any), headers []tools.StateHeader) {
	key := ""
	blockers := map[string]int64{}
	for _, h := range headers {
		if h.Type != "BROADCAST" && h.Key != "" && h.Key != key {
			key = h.Key
			p("    key %s", printable(h.Key))
		}
		text := ""
		if h.Raw {
			text = "raw "
		}
		text += fmt.Sprintf("state %q, %s", printable(h.Name), h.Type)
		if h.Value != "" {
			text += ", " + printable(h.Value)
		}
		if h.Type == "BROADCAST" {
			text += " by " + printable(h.Key)
		}
		if h.Namespace != "" && h.Namespace != "VoidNamespace" {
			text += ", in namespaces of " + printable(h.Namespace)
		}
		p("    %s; in %s", text, plural(h.Subtasks, "subtask"))
		for _, b := range h.Blockers {
			blockers[b]++
		}
	}
	for _, b := range byCount(blockers) {
		p("    %s with %s", plural(int(blockers[b]), "state"), printable(b))
	}
}

// showClasses shows what makes the metadata large.
func showClasses(p func(string, ...any), r *tools.Inspection) {
	p("bytes of _metadata: %s", classes(r.Classes))
	byBytes := slices.Clone(r.Operators)
	slices.SortStableFunc(byBytes, func(a, b tools.OperatorInfo) int {
		return int(min(1, max(-1, b.MetadataBytes-a.MetadataBytes)))
	})
	list, more := some(byBytes, false)
	for i := range list {
		o := &list[i]
		p("  %s%s: %s (%s)", o.ID, operatorTitle(o), size(o.MetadataBytes), classes(o.Classes))
	}
	if more != "" {
		p("  %s", more)
	}
	if len(r.Largest) > 0 {
		p("largest inline handles")
	}
	for _, l := range r.Largest {
		p("  %s  %s", size(l.Bytes), l.Field)
	}
}

// classes lists byte counts by class, largest first.
func classes(m map[string]int64) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return int(min(1, max(-1, m[b]-m[a])))
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = name + " " + size(m[name])
	}
	return strings.Join(names, ", ")
}
