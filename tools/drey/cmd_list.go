package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/tools"
)

// clusterDocument is the JSON document of drey list.
type clusterDocument struct {
	URL   string             `json:"url"`
	Flink string             `json:"flink"`
	Jobs  []tools.ClusterJob `json:"jobs"`
}

func cmdList() *command {
	var o clusterFlags
	return &command{
		name: "list", args: "", minArgs: 0, maxArgs: 0,
		short: "the jobs of a Flink cluster",
		long: `
Lists the jobs of a cluster that run and then those that ended, as long as Flink remembers them (an hour by default). It asks
the REST interface of Flink 1.20 or 2.x at --job-manager URL. A user and a password may stand in the URL.

EXAMPLES
  drey list
  drey list --job-manager https://flink.example.org:8081 --json | jq -r '.jobs[] | select(.ended | not).id'
`,
		flags: o.add,
		run: func(ctx context.Context, e *env, _ []string) error {
			c, err := o.cluster()
			if err != nil {
				return err
			}
			d := clusterDocument{URL: c.URL()}
			if d.Flink, err = c.Flink(ctx); err != nil {
				return err
			}
			if d.Jobs, err = c.Jobs(ctx); err != nil {
				return err
			}
			if e.json {
				return printJSON(e.stdout, d)
			}
			return report(e.stdout, func(w *bufio.Writer) {
				fmt.Fprintf(w, "%s, Flink %s: %s\n", printable(d.URL), printable(d.Flink), plural(len(d.Jobs), "job"))
				if len(d.Jobs) == 0 {
					return
				}
				rows := [][]string{{"ID", "STATE", "STARTED", "FOR", "TASKS", "NAME"}}
				for i := range d.Jobs {
					j := &d.Jobs[i]
					tasks := fmt.Sprintf("%d of %d", j.Running, j.Tasks)
					if j.Ended {
						tasks = fmt.Sprint(j.Tasks)
					}
					rows = append(rows, []string{j.ID, j.State, j.Start.Format(time.RFC3339), ageOf(j.Duration), tasks, j.Name})
				}
				table(w, rows)
			})
		},
	}
}

func cmdCheckpoints() *command {
	var o clusterFlags
	var details []int64
	return &command{
		name: "checkpoints", args: "JOB", minArgs: 1, maxArgs: 1,
		short: "checkpoints and savepoints of a running job",
		long: clusterHelp + `
Shows how the job takes checkpoints, how many there were, how long they took, what it was restored from, and which of its
checkpoints and savepoints are complete and not discarded, as Flink says: drey inspect and drey verify look at the files.

Flink remembers the last ten (web.checkpoints.history), and none of those that another job manager took before it.

--details N shows what each vertex did for a checkpoint, and with -v what each subtask did: where time goes in the synchronous
or asynchronous part, in the alignment of barriers, or before the first barrier came (start delay).

EXAMPLES
  drey checkpoints 0f1e2d
  drey checkpoints --details 42 -v clicks
  drey checkpoints --json clicks | jq -r '.retained[0].external_path'
`,
		flags: func(f *pflag.FlagSet) {
			o.add(f)
			f.Int64SliceVar(&details, "details", nil, "show what each vertex did for checkpoint `N`; may be repeated")
		},
		run: func(ctx context.Context, e *env, args []string) error {
			c, err := o.cluster()
			if err != nil {
				return err
			}
			a, err := c.Checkpoints(ctx, args[0], details...)
			if err != nil {
				return err
			}
			if e.json {
				return printJSON(e.stdout, a)
			}
			return report(e.stdout, func(w *bufio.Writer) { showCheckpoints(w, a, e.verbose) })
		},
	}
}

func showCheckpoints(w *bufio.Writer, a *tools.JobCheckpoints, all bool) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("%s is %s", printable(a.Job.String()), printable(a.Job.State))
	if a.Statistics == nil {
		p("it takes no checkpoints")
		return
	}
	showCheckpointConfig(p, a.Config)
	n := a.Statistics.Counts
	p("%d triggered: %d completed, %d failed, %d in progress; restored %d times", n.Total, n.Completed, n.Failed, n.InProgress, n.Restored)
	if s := a.Statistics.Summary; s != nil && n.Completed > 0 {
		p("completed: took %s to %s, %s on average; wrote %s to %s, %s on average; state of %s to %s", millis(s.Duration.Min), millis(s.Duration.Max), millis(s.Duration.Avg),
			size(s.CheckpointedSize.Min), size(s.CheckpointedSize.Max), size(s.CheckpointedSize.Avg), size(s.StateSize.Min), size(s.StateSize.Max))
	}
	if r := a.Statistics.Latest.Restored; r != nil {
		p("restored from %s at %s: %s", snapshotTitle(kindOf(r.Savepoint), r.ID), moment(r.Time), printable(pathOf(r.Path)))
	}
	if f := a.Statistics.Latest.Failed; f != nil {
		message := ""
		if f.FailureMessage != nil {
			message = ": " + *f.FailureMessage
		}
		p("failed last: %s, triggered at %s%s", snapshotTitle(kindOf(f.Savepoint), f.ID), moment(f.Triggered), printable(message))
	}
	for i := range a.Statistics.History {
		if e := &a.Statistics.History[i]; e.Status == rest.CheckpointInProgress {
			p("in progress: %s, since %s, %d of %s done", snapshotTitle(kindOf(e.Savepoint), e.ID), moment(e.Triggered), e.Acknowledged, plural(e.Subtasks, "subtask"))
		}
	}
	if len(a.Retained) > 0 {
		p("complete, and not discarded:")
		rows := [][]string{{"ID", "KIND", "TRIGGERED", "TOOK", "WROTE", "STATE", "PATH"}}
		for i := range a.Retained {
			e := &a.Retained[i]
			kind := kindOf(e.Savepoint)
			if e.Format != nil {
				kind = strings.ToLower(*e.Format) + " " + kind
			}
			rows = append(rows, []string{fmt.Sprint(e.ID), kind, moment(e.Triggered), millis(e.Duration), size(e.CheckpointedSize), size(e.StateSize), pathOf(e.Path)})
		}
		table(w, rows)
	}
	if a.UnlistedBelow > 0 {
		p("others may be retained: Flink remembers none older than %d", a.UnlistedBelow)
	}
	for i := range a.Details {
		showDetails(w, &a.Details[i], all)
	}
}

func showCheckpointConfig(p func(string, ...any), c *rest.CheckpointConfig) {
	every, how, retained := "on request only", "aligned", "retained when the job is canceled"
	if text := millis(c.Interval); text != "-" {
		every = "every " + text
	}
	if c.Unaligned {
		how = "unaligned"
		if c.AlignedTimeout > 0 {
			how += " after " + millis(c.AlignedTimeout)
		}
	}
	switch {
	case !c.Externalization.Enabled:
		retained = "deleted when the job ends"
	case c.Externalization.DeleteOnCancellation:
		retained = "deleted when the job is canceled"
	}
	p("%s, %s, %s; timeout %s, pause %s, %d at a time; %s", strings.ReplaceAll(printable(c.Mode), "_", " "), every, how, millis(c.Timeout), millis(c.MinPause), c.MaxConcurrent, retained)
	changelog := ""
	if c.Changelog {
		changelog = ", with a changelog"
	}
	p("%s%s, %s", printable(c.Backend), changelog, printable(c.Storage))
}

func kindOf(savepoint bool) string {
	if savepoint {
		return "savepoint"
	}
	return "checkpoint"
}

func pathOf(p *string) string {
	if p == nil {
		return "nowhere"
	}
	return *p
}

func showDetails(w *bufio.Writer, d *tools.CheckpointDetails, all bool) {
	e := &d.Checkpoint
	fmt.Fprintf(w, "%s: %s, %s, took %s, %d of %s\n", snapshotTitle(kindOf(e.Savepoint), e.ID), printable(string(e.Status)), printable(strings.ToLower(strings.ReplaceAll(e.Type, "_", " "))),
		millis(e.Duration), e.Acknowledged, plural(e.Subtasks, "subtask"))
	rows := [][]string{{"VERTEX", "DONE", "TOOK", "SYNC", "ASYNC", "ALIGNMENT", "START DELAY", "WROTE", "STATE", "IN FLIGHT"}}
	for i := range d.Vertices {
		v := &d.Vertices[i]
		row := []string{v.Name, fmt.Sprintf("%d of %d", v.Acknowledged, v.TaskCheckpoint.Subtasks), millis(v.Duration), "-", "-", "-", "-",
			size(v.CheckpointedSize), size(v.StateSize), size(v.PersistedData)}
		if s := v.Summary; s != nil && v.Acknowledged > 0 { // the longest of its subtasks
			row[3], row[4] = millis(s.CheckpointDuration.Sync.Max), millis(s.CheckpointDuration.Async.Max)
			row[5], row[6] = millis(s.Alignment.Duration.Max), millis(s.StartDelay.Max)
		}
		rows = append(rows, row)
		if all {
			for i := range v.TaskCheckpointDetails.Subtasks {
				rows = append(rows, subtaskRow(&v.TaskCheckpointDetails.Subtasks[i]))
			}
		}
	}
	table(w, rows)
}

func subtaskRow(s *rest.SubtaskCheckpoint) []string {
	row := []string{fmt.Sprintf("  subtask %d", s.Index), s.Status, "-", "-", "-", "-", "-", "-", "-", "-"}
	for i, n := range []*int64{s.Duration, nil, nil, nil, s.StartDelay} {
		if n != nil {
			row[2+i] = millis(*n)
		}
	}
	if s.Checkpoint != nil {
		row[3], row[4] = millis(s.Checkpoint.Sync), millis(s.Checkpoint.Async)
	}
	if s.Alignment != nil {
		row[5], row[9] = millis(s.Alignment.Duration), size(s.Alignment.Persisted)
	}
	if s.CheckpointedSize != nil {
		row[7] = size(*s.CheckpointedSize)
	}
	if s.StateSize != nil {
		row[8] = size(*s.StateSize)
	}
	return row
}
