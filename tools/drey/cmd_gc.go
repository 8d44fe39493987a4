package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

const gcHelp = `
Lists everything below the roots as drey audit does, and deletes with --delete what no snapshot uses and is older than the grace
period. Without --delete it only says what it would delete.

Name as roots all directories that hold snapshots which may use each other's files. With --reference a directory is in scope for
what its snapshots use, and nothing in it is deleted, also where it is below a root. To delete only in a part of what is in scope use --only.

WHAT IS REFUSED (exit code 5)
  - Metadata in scope can't be read, or its name only begins with _metadata, or a directory can't be listed. --ignore-metadata leaves out what
    is damaged, on purpose; what lies beside it stays.
  - A root is a job or a savepoint, or a part of one, and the rest of it, or what lies beside it, is not in scope.
  - Snapshots name files that are listed elsewhere: another spelling of one place, which --alias tells.
  - Hardly anything of what is listed is named by a snapshot, so that snapshots may be missing (--accept-mismatch).
  - A pin names nothing, or what is no snapshot outside of the roots.
  - More files than --max-delete would go.
  - --job: others use files of the job, or it wrote something within the grace period, or Flink says that it runs. If the job manager
    that ran it says that it ended, that is enough. What was restored from the job and has no checkpoint yet can't be seen: wait for that.
  - A job manager does not answer, or holds checkpoints that are not found although their job is in scope.

WHAT STAYS
  - Files that are not older than the grace period: by the clock, and by the newest completed checkpoint of their job.
  - Files of a job of which no completed checkpoint is in scope, unless others use some of them: --job deletes those of a job that ended.
  - Files of which a snapshot names one of the same name at another place, as behind symbolic links, or where a disk knows one
    place in several spellings.
  - Files with an unknown or a future time, with names that Flink does not give, or outside of Flink's directories.
  - Files of directories of tasks that may run, and without --taskowned those in taskowned.
  - Pins, and what snapshots there use; and with --job-manager all that running jobs hold or may be about to use.
  - Snapshots, unless --keep-last, --savepoints or --job say otherwise: never the newest complete ones, by number and by time,
    none in whose directory another one uses files, and no savepoint whose name does not tell its job. Names that
    begin with savepoint-000000 or savepoint-ffffff don't: such ids are not random, and many jobs have them.

A file of pins holds absolute paths or URIs, one in a line, or a JSON list of them. As from
  kubectl get flinkstatesnapshots -o jsonpath='{range .items[*]}{.status.path}{"\n"}{end}'

HOW IT DELETES
  - Just before a file is deleted it is looked at again: one that was changed, or that a snapshot uses which came since, stays. So it is
    with a plan that was saved (--plan-out), read or edited (its member "delete" is a list of files), and executed (--plan).
  - Of a dropped snapshot the metadata goes first, and the files only when it is gone.
  - Files are deleted one by one, never a directory with what is in it. Running again after an interruption or a failure is safe.

EXAMPLES
  drey gc s3://bucket/ckpt s3://bucket/savepoints
  drey gc --plan-out plan.json s3://bucket/ckpt && drey gc --plan plan.json --delete --record run.jsonl
  drey gc --delete --job-manager http://localhost:8081 --max-delete 10000 s3://bucket/ckpt s3://bucket/savepoints
  drey gc --delete --keep-last 3 --savepoints --keep 5 --pin s3://bucket/savepoints/savepoint-92afa1-ebcfa1b9e372 s3://bucket
  drey gc --delete --job s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0 --only s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0 s3://bucket/ckpt
`

// runFlags are the options of commands that delete.
type runFlags struct {
	remove    bool
	maxDelete int64
	rate      float64
	batch     int
	record    string
	planOut   string
	managers  []string
}

func (o *runFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&o.remove, "delete", false, "delete; without it nothing is changed")
	f.Int64Var(&o.maxDelete, "max-delete", 0, "refuse if more than `N` files would be deleted; 0 for no limit")
	f.Float64Var(&o.rate, "rate", 0, "delete at most `N` files in a second; 0 for no limit")
	f.IntVar(&o.batch, "batch", 1000, "check, then delete, `N` files together")
	f.StringVar(&o.record, "record", "", "append what is done to `FILE`, a JSON object in a line")
	f.StringArrayVar(&o.managers, "job-manager", nil, "`URL` of a Flink cluster's REST interface: what its jobs hold stays, and nothing is deleted if it does not answer; may be repeated")
	f.StringVar(&o.planOut, "plan-out", "", "save the plan as `FILE`")
}

func (o *runFlags) check() error {
	switch {
	case o.maxDelete < 0 || o.rate < 0:
		return usagef("--max-delete and --rate take no negative numbers")
	case o.batch < 1:
		return usagef("--batch takes a positive number")
	case o.record != "" && !o.remove:
		return usagef("--record goes with --delete")
	}
	return nil
}

// guard gives a function that asks the clusters, nil if there are none.
func (o *runFlags) guard() (func(context.Context) ([]*tools.Held, error), error) {
	var managers []*tools.JobManager
	for _, url := range o.managers {
		m, err := tools.NewJobManager(url, tools.JobManagerOptions{})
		if err != nil {
			return nil, usageError{err.Error()}
		}
		managers = append(managers, m)
	}
	if len(managers) == 0 {
		return nil, nil
	}
	return func(ctx context.Context) ([]*tools.Held, error) {
		var all []*tools.Held
		for _, m := range managers {
			h, err := m.Held(ctx)
			if err != nil {
				return nil, err
			}
			all = append(all, h)
		}
		return all, nil
	}, nil
}

// held asks the clusters; a failure is a refusal.
func (o *runFlags) held(ctx context.Context) ([]*tools.Held, error) {
	ask, err := o.guard()
	if err != nil || ask == nil {
		return nil, err
	}
	held, err := ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tools.ErrRefused, err)
	}
	return held, nil
}

// gcFlags are the options of gc.
type gcFlags struct {
	runFlags
	grace          time.Duration
	aliases        []string
	references     []string
	ignore         []string
	only           []string
	retire         []string
	taskOwned      bool
	keepLast       int
	savepoints     bool
	keep           int
	pins           []string
	pinFile        string
	emptyDirs      bool
	acceptMismatch bool
	plan           string
}

func cmdGC() *command {
	var o gcFlags
	var set *pflag.FlagSet
	return &command{
		name: "gc", args: "ROOT...", minArgs: 0, maxArgs: -1,
		short: "list files that no snapshot uses; --delete removes them", long: gcHelp,
		flags: func(f *pflag.FlagSet) {
			set = f
			o.add(f)
			f.StringVar(&o.plan, "plan", "", "execute the plan saved as `FILE`, and nothing else")
			f.DurationVar(&o.grace, "grace", tools.DefaultGrace, "grace `PERIOD`, such as 36h; 0 for none")
			f.StringArrayVar(&o.aliases, "alias", nil, "`OLD=NEW`: recorded paths at and below OLD are those at and below NEW; may be repeated")
			f.StringArrayVar(&o.references, "reference", nil, "`ROOT` whose snapshots may use files below the others; nothing in it is deleted, also below another root; may be repeated")
			f.StringArrayVar(&o.ignore, "ignore-metadata", nil, "metadata `FILE` that can't be read and shall count as naming no file; may be repeated")
			f.StringArrayVar(&o.only, "only", nil, "delete only in `DIR`; may be repeated")
			f.StringArrayVar(&o.retire, "job", nil, "delete everything of the job with this `DIR`, which ended for good, unless others use it or it wrote something within the grace period; may be repeated")
			f.BoolVar(&o.taskOwned, "taskowned", false, "delete in taskowned, too, where connectors may keep files that no metadata names")
			f.IntVar(&o.keepLast, "keep-last", 0, "delete the checkpoints of each job but the newest `N` complete ones; 0 deletes none")
			f.BoolVar(&o.savepoints, "savepoints", false, "delete savepoints of each job but the newest (see --keep), and those without metadata whose job is not known")
			f.IntVar(&o.keep, "keep", 0, "with --savepoints: how many complete savepoints of each job to keep (`N`)")
			f.StringArrayVar(&o.pins, "pin", nil, "`PATH` of a snapshot, directory or file to keep, with all that snapshots there use; it must exist; may be repeated")
			f.StringVar(&o.pinFile, "pin-file", "", "`FILE` with such paths, absolute and one in a line, or as a JSON list; - for standard input")
			f.BoolVar(&o.emptyDirs, "empty-dirs", false, "remove directories and markers of directories of checkpoints, savepoints and old attempts that are or get empty")
			f.BoolVar(&o.acceptMismatch, "accept-mismatch", false, "go on although hardly anything of what is listed is named by a snapshot")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.plan != "" {
				return runSavedPlan(ctx, e, &o, set, args)
			}
			if len(args) == 0 {
				return usagef("gc: name the directories to look at; see `drey help gc`")
			}
			p, err := o.makePlan(ctx, e, args)
			if err != nil {
				return err
			}
			return finishPlan(ctx, e, p, &o.runFlags)
		},
	}
}

func (o *gcFlags) makePlan(ctx context.Context, e *env, args []string) (*tools.GCPlan, error) {
	switch {
	case o.savepoints != (o.keep > 0):
		return nil, usagef("--savepoints and --keep N, at least 1, go together")
	case o.keepLast < 0:
		return nil, usagef("--keep-last takes no negative number")
	}
	g := tools.GCOptions{
		AuditOptions: tools.AuditOptions{Jobs: e.jobs, Grace: o.grace}, KeepLast: o.keepLast, KeepSavepoints: o.keep, TaskOwned: o.taskOwned,
		EmptyDirs: o.emptyDirs, MaxDelete: o.maxDelete, AcceptMismatch: o.acceptMismatch,
	}
	if o.grace <= 0 {
		g.Grace = -1
	}
	roots, err := targets(args)
	if err != nil {
		return nil, err
	}
	if g.Aliases, err = rules("alias", o.aliases); err != nil {
		return nil, err
	}
	if g.Pins, err = o.allPins(); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		from []string
		to   *[]string
	}{{o.references, &g.References}, {o.ignore, &g.IgnoreMetadata}, {o.only, &g.Only}, {o.retire, &g.Retire}} {
		if *list.to, err = targets(list.from); err != nil {
			return nil, err
		}
	}
	if g.Held, err = o.held(ctx); err != nil {
		return nil, err
	}
	bar := newProgress(e, "listing")
	defer bar.stop()
	g.Progress = func(n int64) { bar.set(int(n), 0, 0, 0) }
	p, err := tools.PlanGC(ctx, stores(e), roots, g)
	if len(g.Pins) > 0 && errors.Is(err, tools.ErrRefused) {
		return nil, fmt.Errorf("%w; correct the path after --pin or in the file of --pin-file, or take it out; what holds the snapshots that use a file can be named with --reference", err)
	}
	return p, err
}

// allPins are those of the command line and of the file.
func (o *gcFlags) allPins() ([]tools.Pin, error) {
	var pins []tools.Pin
	for _, path := range o.pins {
		pins = append(pins, tools.Pin{Path: path, From: "--pin"})
	}
	if o.pinFile != "" {
		f, name := io.Reader(os.Stdin), "standard input"
		if o.pinFile != "-" {
			file, err := os.Open(o.pinFile)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			f, name = file, o.pinFile
		}
		more, err := tools.ReadPins(f, name)
		if err != nil {
			return nil, err
		}
		pins = append(pins, more...)
	}
	for i := range pins {
		var err error
		if pins[i].Path, err = target(pins[i].Path); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// runSavedPlan shows or executes a plan from a file.
func runSavedPlan(ctx context.Context, e *env, o *gcFlags, set *pflag.FlagSet, args []string) error {
	if len(args) > 0 {
		return usagef("gc: a saved plan has its own roots")
	}
	allowed := map[string]bool{"plan": true, "delete": true, "max-delete": true, "rate": true, "batch": true, "record": true, "job-manager": true}
	global := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&env{}).addFlags(global)
	var wrong error
	set.Visit(func(f *pflag.Flag) {
		if !allowed[f.Name] && global.Lookup(f.Name) == nil {
			wrong = usagef("gc: --%s does not go with --plan, as the plan is executed as it is", f.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	file, err := os.Open(o.plan)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := tools.ReadGCPlan(file)
	if err != nil {
		return fmt.Errorf("%s: %w", o.plan, err)
	}
	p.Limit(o.maxDelete)
	return finishPlan(ctx, e, p, &o.runFlags)
}

// finishPlan saves, shows and executes a plan, as the options say.
func finishPlan(ctx context.Context, e *env, p *tools.GCPlan, o *runFlags) error {
	if o.planOut != "" {
		save := func(w io.Writer) error {
			_, err := p.WriteTo(w)
			return err
		}
		if err := writeOut(ctx, e, o.planOut, save); err != nil {
			return err
		}
	}
	refused := error(nil)
	if len(p.Refused) > 0 {
		refused = fmt.Errorf("%w; see the report", tools.ErrRefused)
	}
	if !o.remove || refused != nil {
		if err := showPlan(e, p); err != nil {
			return err
		}
		return refused
	}
	return execute(ctx, e, p, o)
}

// execute deletes, and reports what was done.
func execute(ctx context.Context, e *env, p *tools.GCPlan, o *runFlags) error {
	bar := newProgress(e, "deleting")
	defer bar.stop()
	x := tools.GCExecuteOptions{
		Jobs: e.jobs, Batch: o.batch, Rate: o.rate,
		Progress: func(done int64) { bar.set(int(done), int(p.Delete.Files), 0, 0) },
	}
	var err error
	if x.Guard, err = o.guard(); err != nil {
		return err
	}
	if o.record != "" {
		f, err := os.OpenFile(o.record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		x.Record = f
	}
	run, err := p.Execute(ctx, stores(e), x)
	bar.stop()
	if run == nil {
		return err
	}
	shown := error(nil)
	if e.json {
		shown = printJSON(e.stdout, struct {
			Plan *tools.GCPlan `json:"plan"`
			*tools.GCRun
		}{p, run})
	} else {
		shown = report(e.stdout, func(w *bufio.Writer) { showPlanHead(w, p); showRun(w, run, e.verbose) })
	}
	return errors.Join(err, shown)
}
