package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sort"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// selectFlags are the flags that say which state is meant.
type selectFlags struct {
	operators, states, keys, groups []string
}

func (s *selectFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&s.operators, "operator", nil, "only this `OPERATOR`, by its id, uid or name; may be repeated")
	f.StringArrayVar(&s.states, "state", nil, "only the states of this `NAME`, in which * and ? stand for characters; may be repeated")
	f.StringArrayVar(&s.keys, "key", nil, "only this `KEY`: a string as it is, everything else as in the output; may be repeated")
	f.StringArrayVar(&s.groups, "key-group", nil, "only these key `GROUPS`, such as 0-3,17")
}

func (s *selectFlags) selection() (tools.Selection, error) {
	sel := tools.Selection{Operators: s.operators, States: s.states, Keys: s.keys}
	for _, text := range s.groups {
		list, err := tools.ParseKeyGroups(text)
		if err != nil {
			return sel, usagef("--key-group: %v", err)
		}
		sel.KeyGroups = append(sel.KeyGroups, list...)
	}
	return sel, nil
}

// dumpFlags are the flags of dump.
type dumpFlags struct {
	selectFlags
	raw, count, sizes, kafka bool
	inline                   int
	limit                    int64
	format, output           string
	given                    func(flag string) bool
}

func cmdDump() *command {
	d := &dumpFlags{}
	return &command{
		name: "dump", args: "SNAPSHOT", minArgs: 1, maxArgs: 1,
		short: "the entries of the state as JSON lines",
		long: `
Writes the entries of the state of a snapshot, whatever its format: keyed state, timers and operator
state, each as a JSON object on a line. Neither Java nor the classes of the job are needed: what the
snapshot says of its serializers tells how to decode. A value that cannot be decoded, such as one of
Kryo, is {"@class":...,"@raw":"0x...","@reason":...} and never ends the dump. State that cannot be
read is told on standard error and left out. The namespace is left out where the state has none,
"lastAccess" is there with time to live, "timestamp" and "time" are those of a timer.

The order is that of the operators, subtasks, key groups and then of the file. What is selected is
read, and no more than that as far as the format allows: one key group of 128 takes a 128th.

--format csv and parquet have the columns operator, operator_id, subtask, state, type, key_group, key,
namespace, user_key, value, last_access and timestamp; keys and values are text, which is JSON
where it is no string.

--count and --sizes decode no values, and count the buffers in flight of each exchange of an unaligned checkpoint. --sizes shows how large keys and values are, which key groups are larger than
others and which keys have most.

--kafka lists the offsets of Kafka sources: KafkaSource (its readers, and its enumerator) and
FlinkKafkaConsumer, whose copies in union state are shown once. NEXT is the next offset to read.

--raw writes all that the metadata says as one JSON document, and reads no state: operators, subtasks, handles,
paths, offsets. Inline data is shown by length and SHA-256, with its first bytes in hex. Text is
decoded; where its bytes in the file are not plain UTF-8 they follow in a field named ...RawHex.
Lists that are empty are left out.

Exits with 3 if state is damaged or missing.

EXAMPLES
  drey dump chk-42 --state total --limit 10
  drey dump s3://bucket/sp/savepoint-92afa1-ebcfa1b9e372 --operator my-uid --key user-4711
  drey dump chk-42 --format parquet --output state.parquet
  drey dump chk-42 --sizes
  drey dump chk-42 --kafka
  drey dump --raw savepoint-92afa1-ebcfa1b9e372 | jq '.operators[].id'
`,
		flags: func(f *pflag.FlagSet) {
			d.given = f.Changed
			d.add(f)
			f.Int64Var(&d.limit, "limit", 0, "end after `N` entries")
			f.StringVar(&d.format, "format", "json", "`FORMAT` of entries: json, csv or parquet")
			f.StringVar(&d.output, "output", "", "write to this new `FILE` instead of standard output")
			f.BoolVar(&d.count, "count", false, "count entries by operator and state")
			f.BoolVar(&d.sizes, "sizes", false, "sizes of keys and values, and what is largest")
			f.BoolVar(&d.kafka, "kafka", false, "offsets of Kafka sources")
			f.BoolVar(&d.raw, "raw", false, "the metadata tree")
			f.IntVar(&d.inline, "inline-limit", 256, "with --raw: show `N` bytes of inline data in hex; -1 for all")
		},
		run: func(ctx context.Context, e *env, args []string) error { return d.run(ctx, e, args[0]) },
	}
}

func (d *dumpFlags) run(ctx context.Context, e *env, arg string) error {
	modes := 0
	for _, on := range []bool{d.raw, d.count, d.sizes, d.kafka} {
		if on {
			modes++
		}
	}
	format := tools.Format(d.format)
	switch {
	case modes > 1:
		return usagef("dump: only one of --raw, --count, --sizes and --kafka")
	case !slices.Contains([]tools.Format{tools.FormatJSON, tools.FormatCSV, tools.FormatParquet}, format):
		return usagef("dump: --format is json, csv or parquet, not %q", d.format)
	case d.given("limit") && d.limit < 1:
		return usagef("dump: --limit is at least 1")
	case d.given("output") && d.output == "":
		return usagef("dump: --output names no file")
	}
	for _, flag := range d.without() {
		if d.given(flag) {
			return usagef("dump: --%s has no meaning here; see `drey help dump`", flag)
		}
	}
	sel, err := d.selection()
	if err != nil {
		return err
	}
	uri, err := target(arg)
	if err != nil {
		return err
	}
	fsys := stores(e)
	if d.output == "" {
		return d.dispatch(ctx, e, fsys, uri, sel, e.stdout)
	}
	to, err := target(d.output)
	if err != nil {
		return err
	}
	w, err := fsys.Create(ctx, to, storage.CreateOptions{})
	if err != nil {
		return err
	}
	defer w.Abort()
	err = d.dispatch(ctx, e, fsys, uri, sel, w)
	if err == nil || errors.Is(err, errNo) || errors.Is(err, errUnread) {
		if e := w.Commit(); e != nil {
			return e
		}
	}
	return err
}

// without lists the flags that are not for what is asked for.
func (d *dumpFlags) without() []string {
	switch {
	case d.raw:
		return []string{"operator", "state", "key", "key-group", "limit", "format"}
	case d.kafka:
		return []string{"state", "key", "key-group", "limit", "format", "inline-limit"}
	case d.count, d.sizes:
		return []string{"limit", "format", "inline-limit"}
	}
	return []string{"inline-limit"}
}

func (d *dumpFlags) dispatch(ctx context.Context, e *env, fsys storage.FS, uri string, sel tools.Selection, w io.Writer) error {
	if d.raw {
		chosen, err := tools.DumpRaw(ctx, fsys, uri, w, tools.DumpOptions{InlineLimit: d.inline})
		if err == nil && chosen != "" {
			e.note("%s", printable(chosen))
		}
		return err
	}
	s, err := tools.Open(ctx, fsys, uri)
	if err != nil {
		return err
	}
	if s.Chosen != "" {
		e.note("%s", printable(s.Chosen))
	}
	bar := newProgress(e, "reading")
	defer bar.stop()
	o := tools.EntryOptions{
		Selection: sel, Limit: d.limit, Jobs: e.jobs,
		Progress: func(done, total int64) { bar.set(0, 0, done, total) },
	}
	switch {
	case d.count || d.sizes:
		r, err := tools.Sizes(ctx, fsys, s, tools.SizeOptions{EntryOptions: o, Details: d.sizes})
		bar.stop()
		if err != nil {
			return err
		}
		if e.json {
			err = printJSON(w, r)
		} else {
			err = report(w, func(w *bufio.Writer) { showSizes(w, r, e.verbose) })
		}
		return problemsError(e, r.Problems, err)
	case d.kafka:
		list, problems, err := tools.KafkaOffsets(ctx, fsys, s, o)
		bar.stop()
		if err != nil {
			return err
		}
		if e.json {
			err = printJSON(w, kafkaReport{s.URI, append([]tools.KafkaOffset{}, list...), problems})
		} else {
			err = report(w, func(w *bufio.Writer) { showKafka(w, list) })
		}
		return problemsError(e, problems, err)
	}
	r, err := tools.DumpState(ctx, fsys, s, w, tools.DumpStateOptions{EntryOptions: o, Format: tools.Format(d.format)})
	bar.stop()
	if err == nil && r.Undecoded > 0 {
		e.note("%d of %d entries have a part that could not be decoded and is shown as bytes:", r.Undecoded, r.Entries)
		for _, reason := range byCount(r.Reasons) {
			e.note("  %d %s", r.Reasons[reason], reason)
		}
	}
	if err == nil && r.Entries == 0 {
		if len(sel.Keys) > 0 {
			e.note("no entries of this key; strings are given as they are, other keys as dump shows them")
		} else {
			e.note("no entries; `drey dump --count` lists the states")
		}
	}
	return problemsError(e, r.Problems, err)
}

// kafkaReport is the document of dump --kafka --json.
type kafkaReport struct {
	Snapshot string                `json:"snapshot"`
	Offsets  []tools.KafkaOffset   `json:"offsets"`
	Problems []*tools.StateProblem `json:"problems,omitempty"`
}

// byCount gives the keys of a map by their numbers, the largest first.
func byCount(m map[string]int64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		if m[keys[i]] != m[keys[j]] {
			return m[keys[i]] > m[keys[j]]
		}
		return keys[i] < keys[j]
	})
	return keys
}

// problemsError tells of state that could not be read, and makes it the outcome if there is no other error.
func problemsError(e *env, problems []*tools.StateProblem, err error) error {
	shown, more := some(problems, e.verbose)
	for _, p := range shown {
		e.note("not read: %s", p)
	}
	if more != "" {
		e.note("%s", more)
	}
	if slices.ContainsFunc(problems, func(p *tools.StateProblem) bool { return errors.Is(p, fs.ErrNotExist) }) {
		e.note("`drey verify` looks for files that are missing; `drey relocate` makes a snapshot that was moved whole")
	}
	if err != nil || len(problems) == 0 {
		return err
	}
	for _, p := range problems {
		if p.Undecided {
			return errUnread
		}
	}
	return errNo
}
