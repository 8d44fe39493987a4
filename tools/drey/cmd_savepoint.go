package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// defaultManager is where Flink's own command line looks, too.
const defaultManager = "http://localhost:8081"

// clusterHelp is the part of the help texts about which cluster and which job.
const clusterHelp = `
JOB is the id of a job, the beginning of its id, or its name, if that is one job only; one that runs goes before those that ended.

The cluster is a Flink 1.20 or 2.x (or another runtime with the same REST interface) at --job-manager URL. A user and a
password may stand in the URL.
`

// clusterFlags say which cluster.
type clusterFlags struct{ manager string }

func (o *clusterFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&o.manager, "job-manager", "m", defaultManager, "`URL` of the Flink cluster's REST interface")
}

func (o *clusterFlags) cluster() (*tools.Cluster, error) {
	c, err := tools.NewCluster(o.manager, tools.ClusterOptions{})
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return c, nil
}

// saveFlags are the options of commands that take a savepoint.
type saveFlags struct {
	clusterFlags
	waitFlags
	format string
}

func (o *saveFlags) add(f *pflag.FlagSet) {
	o.clusterFlags.add(f)
	f.StringVar(&o.format, "format", "canonical", "`FORMAT` of the savepoint: canonical, which every backend restores and drey converts, or native, which is faster")
	o.waitFlags.add(f)
}

// waitFlags say how long something is waited for.
type waitFlags struct {
	noWait  bool
	timeout time.Duration
}

func (o *waitFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&o.noWait, "no-wait", false, "return when Flink has accepted the request; what goes wrong later is not told")
	f.DurationVar(&o.timeout, "timeout", 0, "wait for `TIME` at most, such as 10m; what was begun goes on in the cluster. 0 for no limit")
}

// options checks the flags. dir is "" for the cluster's directory.
func (o *saveFlags) options(name, dir string) (tools.SaveOptions, error) {
	s, err := o.waitFlags.options(name)
	if err != nil {
		return s, err
	}
	switch f := rest.Format(strings.ToUpper(o.format)); f {
	case rest.Canonical, rest.Native:
		s.Format = f
	default:
		return s, usagef("%s: no format %q; there are canonical and native", name, o.format)
	}
	if scheme, _, _ := storage.Split(dir); dir != "" && scheme == "" && !strings.HasPrefix(dir, "/") {
		return s, usagef("%s: DIR %s: it is the cluster that writes there: name an absolute path or a URI", name, dir)
	}
	s.Dir = dir
	return s, nil
}

func (o *waitFlags) options(name string) (tools.SaveOptions, error) {
	if o.timeout < 0 || o.noWait && o.timeout > 0 {
		return tools.SaveOptions{}, usagef("%s: --timeout takes a positive time, and does not go with --no-wait", name)
	}
	return tools.SaveOptions{NoWait: o.noWait, Timeout: o.timeout}, nil
}

// change does something to a job, tells how far it is, and what was done.
func change(e *env, what string, o tools.SaveOptions, do func(tools.SaveOptions) (*tools.ClusterChange, error)) error {
	bar := newProgress(e, what)
	defer bar.stop()
	o.Progress = func(p tools.SaveProgress) { bar.say(progressWords(p)) }
	c, err := do(o)
	bar.stop()
	if err != nil {
		return withAdvice(err)
	}
	if e.json {
		return printJSON(e.stdout, c)
	}
	return report(e.stdout, func(w *bufio.Writer) { showChange(w, c) })
}

func progressWords(p tools.SaveProgress) string {
	words := "in progress"
	switch {
	case p.Ending:
		words = "waiting for the job to end"
	case p.Subtasks > 0:
		words = fmt.Sprintf("%d of %s done", p.Acknowledged, plural(p.Subtasks, "subtask"))
	}
	return fmt.Sprintf("%s, %s", words, p.Elapsed.Round(time.Second))
}

// withAdvice says which option or command helps.
func withAdvice(err error) error {
	var pending *tools.PendingError
	switch {
	case errors.Is(err, rest.ErrNoDirectory):
		return fmt.Errorf("%w Name DIR, a directory that the cluster can write to", err)
	case !errors.As(err, &pending):
		return err
	case pending.Savepoint != "" || pending.Trigger == "":
		return fmt.Errorf("%w; `drey list` shows when it has", err)
	}
	return fmt.Errorf("%w; `drey savepoint %s --trigger %s` waits for it", err, pending.Job.ID, pending.Trigger)
}

func showChange(w *bufio.Writer, c *tools.ClusterChange) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("%s", printable(c.Job.String()))
	switch {
	case !c.Done && c.Trigger == "":
		p("is being canceled; it was not waited for")
	case !c.Done:
		p("%s accepted as operation %s; it was not waited for: drey savepoint %s --trigger %s", c.Operation, c.Trigger, c.Job.ID, c.Trigger)
	}
	if c.Savepoint != "" {
		p("savepoint: %s", printable(c.Savepoint))
	}
	switch {
	case c.Gone:
		p("the job manager went away with it")
	case c.Done:
		p("it is %s", printable(c.Job.State))
	}
}

// millis is a duration that Flink gives in milliseconds.
func millis(n int64) string {
	if n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return "-"
	}
	return (time.Duration(n) * time.Millisecond).String()
}

// moment is a time that Flink gives in milliseconds.
func moment(n int64) string {
	if n <= 0 {
		return "-"
	}
	return time.UnixMilli(n).UTC().Format(time.RFC3339)
}

// dirArgument is the second argument, "" if there is none.
func dirArgument(args []string) string {
	if len(args) > 1 {
		return args[1]
	}
	return ""
}

func cmdSavepoint() *command {
	var o saveFlags
	trigger := ""
	return &command{
		name: "savepoint", args: "JOB [DIR]", minArgs: 1, maxArgs: 2,
		short: "take a savepoint of a running job",
		long: clusterHelp + `
Lets Flink take a savepoint, waits until it is complete, and prints its path. The job goes on. It is written in a directory
of its own below DIR, a URI or an absolute path where the cluster's machines have it; without DIR below the directory of the cluster's
configuration (execution.checkpointing.savepoint-dir, formerly state.savepoints.dir).

What was begun goes on in the cluster when this command is interrupted, or --timeout is over: then the message says how
to wait for it again (--trigger). Flink remembers the result for five minutes.

EXAMPLES
  drey savepoint 0f1e2d s3://bucket/savepoints
  drey savepoint --job-manager https://flink.example.org:8081 --format native --timeout 30m clicks
  drey savepoint -q --json clicks | jq -r .savepoint
`,
		flags: func(f *pflag.FlagSet) {
			o.add(f)
			f.StringVar(&trigger, "trigger", "", "take no savepoint, but wait for the operation with this `ID`, which was begun before; also for a stop or a cancellation")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			s, err := o.options("savepoint", dirArgument(args))
			if err != nil {
				return err
			}
			if trigger != "" && (s.Dir != "" || s.NoWait || !rest.IsID(trigger)) {
				return usagef("savepoint: --trigger takes 32 hexadecimal digits, and goes neither with DIR nor with --no-wait")
			}
			c, err := o.cluster()
			if err != nil {
				return err
			}
			return change(e, "savepoint", s, func(s tools.SaveOptions) (*tools.ClusterChange, error) {
				if trigger != "" {
					return c.Await(ctx, args[0], trigger, s)
				}
				return c.Savepoint(ctx, args[0], s)
			})
		},
	}
}

func cmdStop() *command {
	var o saveFlags
	drain := false
	return &command{
		name: "stop", args: "JOB [DIR]", minArgs: 1, maxArgs: 2,
		short: "stop a job with a savepoint",
		long: clusterHelp + `
Lets Flink take a savepoint with which the job finishes: nothing is emitted after it, and sinks commit what they have. If the
savepoint fails the job goes on. DIR is as in drey savepoint.

With --drain windows and timers of event time fire before, as at the end of all input. Use it only to end a job for good: a job that
goes on from such a savepoint has fired them early.

What was begun goes on in the cluster when this command is interrupted, or --timeout is over.

EXAMPLES
  drey stop 0f1e2d s3://bucket/savepoints
  drey stop --format native clicks && drey inspect s3://bucket/savepoints/savepoint-0f1e2d-ebcfa1b9e372
`,
		flags: func(f *pflag.FlagSet) {
			o.add(f)
			f.BoolVar(&drain, "drain", false, "let windows and timers of event time fire before; not for a job that shall go on")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			s, err := o.options("stop", dirArgument(args))
			if err != nil {
				return err
			}
			c, err := o.cluster()
			if err != nil {
				return err
			}
			return change(e, "stop", s, func(s tools.SaveOptions) (*tools.ClusterChange, error) { return c.Stop(ctx, args[0], drain, s) })
		},
	}
}

func cmdCancel() *command {
	var o saveFlags
	var set *pflag.FlagSet
	save := false
	return &command{
		name: "cancel", args: "JOB [DIR]", minArgs: 1, maxArgs: 2,
		short: "cancel a job; -s: with a savepoint",
		long: clusterHelp + `
Cancels a job, and waits until it is canceled. Whether its checkpoints are retained is the job's setting, which drey checkpoints
shows. A job that was canceled before is no failure; one that finished or failed is.

With -s a savepoint is taken before (DIR is as in drey savepoint), and if it fails the job goes on. Between the savepoint and the end the job
may emit more, which it does again when it is restored: drey stop is better where the sources allow it.

EXAMPLES
  drey cancel 0f1e2d
  drey cancel -s clicks s3://bucket/savepoints
`,
		flags: func(f *pflag.FlagSet) {
			set = f
			f.BoolVarP(&save, "savepoint", "s", false, "take a savepoint before, in DIR")
			o.add(f)
		},
		run: func(ctx context.Context, e *env, args []string) error {
			s, err := o.options("cancel", dirArgument(args))
			if err != nil {
				return err
			}
			if !save && (s.Dir != "" || set.Changed("format")) {
				return usagef("cancel: DIR and --format go with --savepoint")
			}
			c, err := o.cluster()
			if err != nil {
				return err
			}
			return change(e, "cancel", s, func(s tools.SaveOptions) (*tools.ClusterChange, error) {
				if save {
					return c.CancelWithSavepoint(ctx, args[0], s)
				}
				return c.Cancel(ctx, args[0], s)
			})
		},
	}
}
