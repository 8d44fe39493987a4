package main

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/tools"
)

func cmdPreflight() *command {
	var (
		o            tools.PreflightOptions
		uids, files  []string
		key, keyType string
		set          *pflag.FlagSet
	)
	return &command{
		name: "preflight", args: "SNAPSHOT", minArgs: 1, maxArgs: 1,
		short: "can a job with this parallelism and these uids restore it?",
		long: `
Applies the rules by which Flink accepts or refuses a snapshot: parallelism and max parallelism
against what is stored, state against the uids of the job. Each operator is shown with its verdict
and the parallelism that it allows. Only the metadata is read; whether the files are there is what
drey verify tells.

The job's operators are given by uid, with --uid or in a file with one on each line. A line may end
in =P or =P/M, for an operator with a parallelism or max parallelism of its own. The parts of a sink
(writer, committer, global committer, and others if the snapshot has uids) follow from the sink's
uid. Ids of operators without uid come from the job graph and can't be computed.

With --key, tells the key group of a key and the subtask that has it, before and after.

EXAMPLES
  drey preflight --parallelism 96 s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0
  drey preflight --uids uids.txt --allow-non-restored savepoint-92afa1-ebcfa1b9e372
  drey preflight --key user-4711 --parallelism 8 savepoint-92afa1-ebcfa1b9e372
`,
		flags: func(f *pflag.FlagSet) {
			set = f
			f.IntVar(&o.Parallelism, "parallelism", 0, "parallelism of the job (default: as stored)")
			f.IntVar(&o.MaxParallelism, "max-parallelism", 0, "max parallelism, if the job sets it explicitly")
			f.StringArrayVar(&uids, "uid", nil, "`UID` of an operator of the job, or UID=P, or UID=P/M; may be repeated")
			f.StringArrayVar(&files, "uids", nil, "`FILE` of uids, one on each line; - for standard input")
			f.BoolVar(&o.AllowNonRestored, "allow-non-restored", false, "drop state that no operator takes, as Flink's --allowNonRestoredState")
			f.StringVar(&key, "key", "", "a key to find the key group and subtask of")
			f.StringVar(&keyType, "key-type", "string", "Java `TYPE` of the key: string, long or int")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			for name, n := range map[string]int{"parallelism": o.Parallelism, "max-parallelism": o.MaxParallelism} {
				if set.Changed(name) && n <= 0 {
					return usagef("preflight: --%s %d is not positive", name, n)
				}
			}
			for _, name := range files {
				lines, err := readLines(name)
				if err != nil {
					return err
				}
				uids = append(uids, lines...)
				if o.Operators == nil {
					o.Operators = []tools.JobOperator{} // a file with nothing in it is a job without uids
				}
			}
			for _, line := range uids {
				o.Operators = append(o.Operators, jobOperator(line))
			}
			if key != "" {
				k, err := parseKey(key, keyType)
				if err != nil {
					return err
				}
				o.Key = &k
			}
			uri, err := target(args[0])
			if err != nil {
				return err
			}
			r, err := tools.Preflight(ctx, stores(e), uri, o)
			if err != nil {
				return err
			}
			if e.json {
				err = printJSON(e.stdout, r)
			} else {
				err = report(e.stdout, func(w *bufio.Writer) { showPreflight(w, r, e.verbose) })
			}
			if err == nil && !r.OK {
				err = errNo
			}
			return err
		},
	}
}

var uidOverride = regexp.MustCompile(`^(.*)=(\d{1,6})(?:/(\d{1,6}))?$`)

// jobOperator reads UID, UID=P or UID=P/M.
func jobOperator(line string) tools.JobOperator {
	m := uidOverride.FindStringSubmatch(line)
	if m == nil {
		return tools.JobOperator{UID: line}
	}
	j := tools.JobOperator{UID: m[1]}
	j.Parallelism, _ = strconv.Atoi(m[2])
	j.MaxParallelism, _ = strconv.Atoi(m[3])
	return j
}

// parseKey gives the Java hash code of a key.
func parseKey(text, keyType string) (tools.Key, error) {
	k := tools.Key{Text: text, Type: keyType}
	switch keyType {
	case "string":
		k.Hash = keygroup.StringHash(text)
	case "long":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return k, usagef("preflight: --key %q is not a long", text)
		}
		k.Hash = keygroup.LongHash(n)
	case "int":
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return k, usagef("preflight: --key %q is not an int", text)
		}
		k.Hash = int32(n)
	default:
		return k, usagef("preflight: --key-type %q is not one of string, long, int", keyType)
	}
	return k, nil
}

func showPreflight(w *bufio.Writer, r *tools.PreflightReport, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	answer := "can be restored"
	if !r.OK {
		answer = "CAN'T be restored"
	}
	p("%s  %s", answer, printable(r.Snapshot))
	if r.Chosen != "" {
		p("  %s", printable(r.Chosen))
	}
	p("  %s, metadata version %d, read by Flink %s", snapshotTitle(r.Kind, r.CheckpointID), r.Version, r.ReadBy)
	p("  every operator with state can have a parallelism from 1 to %d", r.AllowedMax)
	problems, more := firstOf(r.Problems, mostOperators, all)
	for _, s := range problems {
		p("  problem: %s", printable(s))
	}
	if more != "" {
		p("  %s", more)
	}
	p("operators: %d", len(r.Operators))
	operators, more := firstOf(r.Operators, mostOperators, all)
	for i := range operators {
		showVerdict(p, &operators[i], all)
	}
	if more != "" {
		p("  %s", more)
	}
	if len(r.WithoutState) > 0 {
		list, more := some(r.WithoutState, all)
		p("uids without state in the snapshot, which start empty: %s", printable(strings.Join(list, ", "))+prefixed(" ", more))
	}
	if k := r.Key; k != nil {
		p("key %q (%s) has hash %d", printable(k.Key), k.Type, k.Hash)
		for _, s := range k.Places {
			p("  max parallelism %d: key group %d, with parallelism %d in subtask %d", s.MaxParallelism, s.KeyGroup, s.Parallelism, s.Subtask)
		}
		if len(k.Places) == 0 {
			p("  no operator has keyed state")
		}
	}
	for _, s := range r.Warnings {
		p("warning: %s", printable(s))
	}
	for _, s := range r.Notes {
		p("note: %s", printable(s))
	}
}

func showVerdict(p func(string, ...any), o *tools.PreflightOperator, all bool) {
	reason := prefixed(": ", o.Reason)
	if o.Verdict == tools.RestoreFails {
		reason = "" // it is among the problems
	}
	title := operatorTitle(&o.OperatorInfo)
	if o.JobUID != "" && o.UID != o.JobUID {
		title += fmt.Sprintf(" is %q", printable(o.JobUID))
	}
	p("  %-7s  %s%s%s", o.Verdict, o.ID, title, printable(reason))
	keyed := "no keyed state"
	if o.HasKeyedState {
		keyed = "keyed state"
	}
	now := ""
	if o.NewParallelism > 0 {
		now = fmt.Sprintf(" -> %d of %d", o.NewParallelism, o.NewMaxParallelism)
	}
	p("           parallelism %d of %d%s, allowed %s; %s", o.Parallelism, o.MaxParallelism, now, o.Allowed, keyed)
	if (o.Verdict == tools.RestoreDropped || o.Verdict == tools.RestoreFails) && o.NewParallelism == 0 {
		p("           would be lost: %s", lostState(o))
	}
	if all && len(o.KeyGroups) > 0 {
		p("           key groups of the subtasks: %s", strings.Join(o.KeyGroups, ", "))
	}
}

// lostState says what an operator holds.
func lostState(o *tools.PreflightOperator) string {
	if o.Content == tools.ContentEmpty {
		return "nothing, its handles are empty"
	}
	text := size(o.Bytes)
	var names []string
	for _, s := range o.States {
		names = append(names, fmt.Sprintf("%q", printable(s.Name)))
	}
	list, more := some(names, false)
	if len(list) > 0 {
		text += ", operator state " + strings.Join(list, ", ") + prefixed(" ", more)
	}
	if o.HasKeyedState {
		text += ", keyed state " + size(o.KeyedBytes+o.RawKeyedBytes) + " (the names of its states are in its files)"
	}
	return text
}
