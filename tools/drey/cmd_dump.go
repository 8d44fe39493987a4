package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

func cmdDump() *command {
	var (
		raw   bool
		limit int
	)
	return &command{
		name: "dump", args: "--raw SNAPSHOT", minArgs: 1, maxArgs: 1,
		short: "the metadata tree of a snapshot as JSON",
		long: `
Writes all that the metadata of a snapshot says as one JSON document: operators, subtasks, handles,
paths, offsets. Inline data is shown by length and SHA-256, with its first bytes in hex. Text is
decoded; where its bytes in the file are not plain UTF-8 they follow in a field named ...RawHex.
Lists that are empty are left out.

Only the metadata is read, so --raw must be given.

EXAMPLE
  drey dump --raw savepoint-92afa1-ebcfa1b9e372 | jq '.operators[].id'
`,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&raw, "raw", false, "the metadata tree")
			f.IntVar(&limit, "inline-limit", 256, "bytes of inline data to show in hex; -1 for all")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			if !raw {
				return usagef("dump: only --raw, the metadata tree, is supported")
			}
			uri, err := target(args[0])
			if err != nil {
				return err
			}
			chosen, err := tools.DumpRaw(ctx, stores(e), uri, e.stdout, tools.DumpOptions{InlineLimit: limit})
			if err != nil {
				return err
			}
			if chosen != "" {
				e.note("%s", printable(chosen))
			}
			return nil
		},
	}
}
