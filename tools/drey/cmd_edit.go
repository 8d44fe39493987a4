package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

const editHelp = `
Makes a savepoint in the directory DST of the snapshot SRC with changes to its content. SRC is only read; all
that no edit is about is carried over byte for byte. The plan is shown first; -n shows it and writes nothing.

Edits are given by flags, or in a file (--edits FILE, - for standard input), or both; --print-edits
prints the file that the flags stand for, to be reviewed and kept. The file is JSON:
  {"edits": [
    {"operator": "uid", "dropOperator": true},
    {"operator": "uid", "renameOperator": {"uid": "new"}},
    {"operator": "uid", "dropStates": ["tmp-*"]},
    {"operator": "uid", "keepStates": ["counts"]},
    {"operator": "uid", "renameState": {"from": "a", "to": "b"}},
    {"operator": "uid", "dropEntries": {"states": ["counts"], "where": "value.n < 5 && key startsWith 'x'"}},
    {"operator": "uid", "set": {"state": "counts", "key": 17, "value": {"n": 1}}},
    {"operator": "uid", "kafka": {"topic": "orders", "partition": 3, "shift": -100}}
  ]}
An operator is named by its uid, id or name. Values are JSON as drey dump prints them.

dropEntries has states, keys, namespaces, keyGroups ("0-3,17"), where and expiredAfter ("24h"); an entry goes if it fits
all that are given. where is a condition upon the fields of the line that drey dump prints, in the language of
expr-lang: ==, <, &&, ||, not, in, contains, startsWith, matches, len(), a.b, a[0]. expiredAfter is the time to live of
states that have one; of lists it drops elements.
set writes one value, whether the key was there or not: of a map that of one user key ("userKey"), of a list all
elements. In a broadcast map it replaces the value of a key that is there.
kafka has offset (the next one to read), special (earliest, committed; latest for FlinkKafkaConsumer) or shift, of one
partition or of all of a topic; FlinkKafkaConsumer and KafkaSource.

Nothing is written if an edit finds no operator, state or partition. How many entries each edit was about is
told at the end; if one was about none, the exit status is 3.

EXAMPLES
  drey edit -n --drop-operator old-sink SRC DST
  drey edit --rename-operator 'cbc357ccb763df2852fee8c4fc7d55f2=counter' SRC DST
  drey edit --drop-state 'sessions/tmp-*' --rename-state 'sessions/a=b' SRC DST
  drey edit --drop-entries 'sessions/state' --where 'value.user == nil' SRC DST
  drey edit --edit '{"operator":"src","kafka":{"topic":"orders","shift":-1000}}' SRC DST
  drey edit --edits surgery.json --format canonical SRC DST

`

// editFlags are the options of the command.
type editFlags struct {
	rewriteFlags
	format, file                                           string
	edits                                                  []string
	dropOperators, renameOperators, dropStates, keepStates []string
	renameStates, dropEntries, keys, namespaces            []string
	where, keyGroups, expiredAfter                         string
	print                                                  bool
}

func cmdEdit() *command {
	var o editFlags
	return &command{
		name: "edit", args: "SRC DST", short: "drop, keep, rename, set: offline state surgery", long: editHelp,
		minArgs: 0, maxArgs: 2,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&o.file, "edits", "", "`FILE` with edits; - for standard input")
			f.StringArrayVar(&o.edits, "edit", nil, "one edit as `JSON`; may be repeated, as all that follow")
			f.StringArrayVar(&o.dropOperators, "drop-operator", nil, "leave the `OPERATOR` out")
			f.StringArrayVar(&o.renameOperators, "rename-operator", nil, "`OPERATOR=UID`: give it another uid, or with 32 hex digits another id")
			f.StringArrayVar(&o.dropStates, "drop-state", nil, "`OPERATOR/STATE`: leave states out; * and ? are wildcards")
			f.StringArrayVar(&o.keepStates, "keep-state", nil, "`OPERATOR/STATE`: leave all other states of the operator out, also timers and operator state")
			f.StringArrayVar(&o.renameStates, "rename-state", nil, "`OPERATOR/STATE=NEW`: give a state another name")
			f.StringArrayVar(&o.dropEntries, "drop-entries", nil, "`OPERATOR/STATE`: leave out the entries that fit all of:")
			f.StringArrayVar(&o.keys, "key", nil, "with --drop-entries: one of these keys, as `JSON`")
			f.StringArrayVar(&o.namespaces, "namespace", nil, "with --drop-entries: one of these namespaces, as `JSON`")
			f.StringVar(&o.keyGroups, "key-group", "", "with --drop-entries: one of these key groups, such as `0-3,17`")
			f.StringVar(&o.where, "where", "", "with --drop-entries: this `CONDITION` upon the fields that drey dump prints")
			f.StringVar(&o.expiredAfter, "expired-after", "", "with --drop-entries: not accessed for this `TIME`, such as 24h")
			f.BoolVar(&o.print, "print-edits", false, "print the edits as a file of edits, and do nothing")
			f.StringVar(&o.format, "format", "", "canonical, native-heap or native-rocksdb; default: that of each operator's state")
			o.add(f)
		},
		run: func(ctx context.Context, e *env, args []string) error { return edit(ctx, e, &o, args) },
	}
}

func edit(ctx context.Context, e *env, o *editFlags, args []string) error {
	edits, err := o.list()
	if err != nil {
		return err
	}
	switch {
	case len(edits) == 0:
		return usagef("no edit; see `drey help edit`")
	case o.print:
		return printJSON(e.stdout, tools.EditsFile{Edits: edits})
	case len(args) != 2:
		return usagef("usage: drey edit SRC DST; see `drey help edit`")
	}
	local := storage.NewLocal(storage.LocalOptions{})
	opts, err := o.options(e, local)
	if err != nil {
		return err
	}
	if opts.Format, err = formatOf(o.format); err != nil {
		return err
	}
	opts.Edits = edits
	return rewriteSnapshot(ctx, e, local, &o.rewriteFlags, opts, args)
}

// list gives the edits of the file, and then those of the flags.
func (o *editFlags) list() (list []tools.Edit, err error) {
	if o.file != "" {
		if list, err = readEdits(o.file); err != nil {
			return nil, err
		}
	}
	for _, text := range o.edits {
		one, err := tools.ParseEdit(text)
		if err != nil {
			return nil, usagef("--edit: %v", err)
		}
		list = append(list, one)
	}
	for _, op := range o.dropOperators {
		list = append(list, tools.Edit{Operator: op, DropOperator: true})
	}
	for _, text := range o.renameOperators {
		op, to, ok := cutLast(text, "=")
		if !ok {
			return nil, usagef("--rename-operator %s: OPERATOR=UID is expected", text)
		}
		rename := &tools.OperatorRename{UID: to}
		if isHash(to) {
			rename = &tools.OperatorRename{ID: to}
		}
		list = append(list, tools.Edit{Operator: op, RenameOperator: rename})
	}
	var kept []tools.Edit
	for _, text := range o.keepStates {
		op, state, err := operatorAndState("keep-state", text)
		if err != nil {
			return nil, err
		}
		found := false
		for i := range kept {
			if kept[i].Operator == op {
				kept[i].KeepStates = append(kept[i].KeepStates, state)
				found = true
			}
		}
		if !found {
			kept = append(kept, tools.Edit{Operator: op, KeepStates: []string{state}})
		}
	}
	list = append(list, kept...)
	for _, text := range o.dropStates {
		op, state, err := operatorAndState("drop-state", text)
		if err != nil {
			return nil, err
		}
		list = append(list, tools.Edit{Operator: op, DropStates: []string{state}})
	}
	for _, text := range o.renameStates {
		was, to, ok := cutLast(text, "=")
		if !ok {
			return nil, usagef("--rename-state %s: OPERATOR/STATE=NEW is expected", text)
		}
		op, state, err := operatorAndState("rename-state", was)
		if err != nil {
			return nil, err
		}
		list = append(list, tools.Edit{Operator: op, RenameState: &tools.StateRename{From: state, To: to}})
	}
	filter := tools.EntryFilter{Keys: rawList(o.keys), Namespaces: rawList(o.namespaces), KeyGroups: o.keyGroups, Where: o.where, ExpiredAfter: o.expiredAfter}
	if len(o.dropEntries) == 0 && (len(o.keys)+len(o.namespaces) > 0 || o.keyGroups != "" || o.where != "" || o.expiredAfter != "") {
		return nil, usagef("--key, --namespace, --key-group, --where and --expired-after are for --drop-entries OPERATOR/STATE")
	}
	for _, text := range o.dropEntries {
		op, state, err := operatorAndState("drop-entries", text)
		if err != nil {
			return nil, err
		}
		one := filter
		one.States = []string{state}
		list = append(list, tools.Edit{Operator: op, DropEntries: &one})
	}
	for i := range list {
		if err := list[i].Check(); err != nil {
			return nil, usagef("%v", err)
		}
	}
	return list, nil
}

func readEdits(file string) ([]tools.Edit, error) {
	var in io.Reader = os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	list, err := tools.ReadEdits(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// operatorAndState takes apart OPERATOR/STATE; names of states may hold slashes.
func operatorAndState(flag, text string) (op, state string, err error) {
	op, state, ok := strings.Cut(text, "/")
	if !ok || op == "" || state == "" {
		return "", "", usagef("--%s %s: OPERATOR/STATE is expected", flag, text)
	}
	return op, state, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i <= 0 || i == len(s)-1 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func isHash(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

func rawList(texts []string) []json.RawMessage {
	var list []json.RawMessage
	for _, t := range texts {
		list = append(list, json.RawMessage(t))
	}
	return list
}
