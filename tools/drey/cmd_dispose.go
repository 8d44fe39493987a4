package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

const disposeHelp = `
Deletes savepoints and retained checkpoints as "flink savepoint -d" does: the metadata first, then every file that it names, then
the directory if nothing else is in it. A file that another snapshot in scope uses stays. Without --delete it only says what it would delete.

In scope are, for a checkpoint, the directory that holds the directories of the jobs, and for a canonical savepoint the directory that
it lies in; --scope names others instead. Only metadata is read there. Nothing outside of the scope is deleted.

What is not in scope is not seen, such as the checkpoints, in a directory of another application, of a job that was restored from the
snapshot in claim mode. Before you dispose of a savepoint with the default scope, make sure that it has no
shallow copy elsewhere (the State Processor API wrote such until Flink 1.12), and that no job with a changelog was
restored from it in claim mode that has not materialized its state since.

It refuses, with exit code 5,
  - if metadata in scope can't be read, or a directory can't be listed;
  - if another snapshot uses files in the snapshot's own directory (--keep-used deletes the rest);
  - the newest checkpoint of a job, as the job may be running: --stopped says that it does not, and --job-manager
    asks Flink whether the job ended, or runs and does not hold the checkpoint;
  - if a later directory of a checkpoint has no metadata, and so may be a checkpoint in progress (--stopped, or
    --job-manager if the job ended);
  - a native savepoint, or another that is not canonical, without --scope: a job that was restored from it in claim mode goes on using its files,
    and the job's checkpoints may lie anywhere. Name their directories, and that of the savepoint;
  - what a running job holds or was restored from, with --job-manager; or if a job manager does not answer.

If it is interrupted after the metadata went, the snapshot is none any more, and its other files are unreferenced: drey gc deletes them.

EXAMPLES
  drey dispose s3://bucket/savepoints/savepoint-92afa1-ebcfa1b9e372
  drey dispose --delete s3://bucket/savepoints/savepoint-92afa1-ebcfa1b9e372
  drey dispose --delete --scope s3://bucket/ckpt --scope s3://bucket/savepoints s3://bucket/savepoints/savepoint-92afa1-ebcfa1b9e372
  drey dispose --delete --job-manager http://localhost:8081 /data/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-41
  drey dispose --delete --stopped /data/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42
`

func cmdDispose() *command {
	var o struct {
		runFlags
		aliases, scope, ignore []string
		keepUsed, stopped      bool
	}
	return &command{
		name: "dispose", args: "SNAPSHOT...", minArgs: 1, maxArgs: -1,
		short: "delete snapshots with what only they use", long: disposeHelp,
		flags: func(f *pflag.FlagSet) {
			o.add(f)
			f.StringArrayVar(&o.scope, "scope", nil, "`ROOT` whose snapshots may use the same files, in the place of the default; may be repeated")
			f.StringArrayVar(&o.aliases, "alias", nil, "`OLD=NEW`: recorded paths at and below OLD are those at and below NEW; may be repeated")
			f.StringArrayVar(&o.ignore, "ignore-metadata", nil, "metadata `FILE` in scope that can't be read and shall count as naming no file; may be repeated")
			f.BoolVar(&o.keepUsed, "keep-used", false, "go on although others use files in the snapshot's directory, which stay")
			f.BoolVar(&o.stopped, "stopped", false, "the jobs of the checkpoints do not run")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			uris, err := targets(args)
			if err != nil {
				return err
			}
			d := tools.DisposeOptions{Jobs: e.jobs, KeepUsed: o.keepUsed, Stopped: o.stopped}
			if d.Aliases, err = rules("alias", o.aliases); err != nil {
				return err
			}
			if d.Scope, err = targets(o.scope); err != nil {
				return err
			}
			if d.IgnoreMetadata, err = targets(o.ignore); err != nil {
				return err
			}
			if d.Held, err = o.held(ctx); err != nil {
				return err
			}
			p, err := tools.PlanDispose(ctx, stores(e), uris, d)
			if errors.Is(err, tools.ErrNoSnapshot) {
				return fmt.Errorf("%w; if it was disposed of before, and that was interrupted, its files are now for `drey gc`", err)
			}
			if err != nil {
				return err
			}
			p.Limit(o.maxDelete)
			return finishPlan(ctx, e, p, &o.runFlags)
		},
	}
}
