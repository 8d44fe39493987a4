package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/tools"
)

const auditHelp = `
Lists everything below the roots, reads the metadata of every snapshot that is there, and says who uses what: of
each job its checkpoints, completed, in progress, aborted and superseded; of each snapshot what is its own, what it
shares, and what deleting it would free; what it uses of other jobs' directories; which files of snapshots are missing
or of the wrong size; and which files no snapshot uses, how old they are, and why they may be there. Nothing is changed.

Of a snapshot it shows the version of the metadata, how many bytes are its own (in its directory), shared (elsewhere in its job) and
foreign (in directories of other jobs and savepoints), how many deleting it frees as only it uses them, and how many it has in common
with the checkpoint before it. At the end stands what to do next, with command lines that change nothing.

Name as roots all directories that hold snapshots which may use each other's files: of all jobs that were restored
from one another, with their savepoints, and of the changelog. A snapshot that is not in scope is not seen to use anything.

A file that no snapshot uses is too young if it was written less than the grace period ago, or less than that before the newest
completed checkpoint of its job, or later: a checkpoint in progress may be about to use it. Undecided are files that are to be kept
as no more can be said: with an unknown or future time, with names that Flink does not give, outside of Flink's directories, in the
working directory of a task that may be running, of a job of which no completed checkpoint is in scope, beside metadata that can't be read.

--needed-by says for a snapshot, also one whose metadata is gone, who uses its files yet, and from which checkpoint of which job on nobody
does; if somebody does, the exit code is 3. --pointers reads paths of snapshots from a file, one in a line, as high availability or
the Kubernetes operator holds them, and says whether each can be restored, and what can be instead.

--html writes a page for a browser as well: usage by job and kind, the retained checkpoints with what they share, tables that can be
sorted. It is one file that needs no network, and of long lists it has the largest entries; --json has all.

EXAMPLES
  drey audit s3://bucket/ckpt s3://bucket/savepoints
  drey audit --needed-by s3://bucket/ckpt/0f1e2d3c4b5a69788796a5b4c3d2e1f0/chk-42 s3://bucket/ckpt
  drey audit --html audit.html s3://bucket/ckpt
  drey audit --alias hdfs://nn1:8020=file:///mnt/hdfs /mnt/hdfs/flink
`

// auditOptions are the options of the command line.
type auditOptions struct {
	grace    time.Duration
	aliases  []string
	neededBy []string
	pointers string
	html     string
}

// auditDocument is the JSON document, but for the lists that are streamed.
type auditDocument struct {
	*tools.AuditReport
	NeededBy []*tools.Need        `json:"neededBy,omitempty"`
	Pointers []tools.PointerCheck `json:"pointers,omitempty"`
}

func cmdAudit() *command {
	var o auditOptions
	return &command{
		name: "audit", args: "ROOT...", minArgs: 1, maxArgs: -1,
		short: "checkpoints, who uses which file, what nobody uses, what is missing", long: auditHelp,
		flags: func(f *pflag.FlagSet) {
			f.DurationVar(&o.grace, "grace", tools.DefaultGrace, "grace `PERIOD`, such as 36h; 0 for none")
			f.StringArrayVar(&o.aliases, "alias", nil, "`OLD=NEW`: recorded paths at and below OLD are those at and below NEW; may be repeated")
			f.StringArrayVar(&o.neededBy, "needed-by", nil, "say who uses files of this `SNAPSHOT`; may be repeated")
			f.StringVar(&o.pointers, "pointers", "", "say whether the snapshots that `FILE` names, one in a line, can be restored; - for standard input")
			f.StringVar(&o.html, "html", "", "also write the audit as one page for a browser to `FILE`")
		},
		run: func(ctx context.Context, e *env, args []string) error { return runAudit(ctx, e, &o, args) },
	}
}

func runAudit(ctx context.Context, e *env, o *auditOptions, args []string) error {
	roots, err := targets(args)
	if err != nil {
		return err
	}
	options := tools.AuditOptions{Jobs: e.jobs, Grace: o.grace, CommandOptions: e.storeOptions()}
	if o.grace <= 0 {
		options.Grace = -1
	}
	if options.Aliases, err = rules("alias", o.aliases); err != nil {
		return err
	}
	needed, err := targets(o.neededBy)
	if err != nil {
		return err
	}
	pointers, err := readPointers(o.pointers)
	if err != nil {
		return err
	}
	bar := newProgress(e, "listing")
	defer bar.stop()
	options.Progress = func(n int64) { bar.set(int(n), 0, 0, 0) }
	d := auditDocument{}
	if d.AuditReport, err = tools.Audit(ctx, stores(e), roots, options); err != nil {
		return err
	}
	for _, uri := range needed {
		n, err := d.AuditReport.NeededBy(uri)
		if err != nil {
			return err
		}
		d.NeededBy = append(d.NeededBy, n)
	}
	if d.Pointers, err = d.AuditReport.Pointers(ctx, pointers); err != nil {
		return err
	}
	bar.stop()
	if o.html != "" {
		page := func(w io.Writer) error { return tools.WritePage(w, d.AuditReport) }
		if err := writeOut(ctx, e, o.html, page); err != nil {
			return err
		}
	}
	if e.json {
		err = report(e.stdout, func(w *bufio.Writer) { err = streamAudit(w, d) })
	} else {
		err = report(e.stdout, func(w *bufio.Writer) { showAudit(w, d, e.verbose) })
	}
	if err != nil {
		return err
	}
	return auditOutcome(d)
}

// auditOutcome is the error that gives the exit code.
func auditOutcome(d auditDocument) error {
	if !d.Decided() || d.Unseen > 0 {
		return errUnread
	}
	no := d.Missing+d.WrongSize > 0
	for _, n := range d.NeededBy {
		no = no || !n.Free()
	}
	for _, p := range d.Pointers {
		no = no || p.State != tools.PointerComplete
	}
	if no {
		return errNo
	}
	return nil
}

func readPointers(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	list, err := readLines(name)
	if err != nil {
		return nil, err
	}
	return targets(list)
}

// streamAudit writes the document with its long lists one element at a time.
func streamAudit(w *bufio.Writer, d auditDocument) error {
	var head bytes.Buffer
	if err := printJSON(&head, d); err != nil {
		return err
	}
	w.Write(bytes.TrimSuffix(head.Bytes(), []byte("\n}\n")))
	if err := streamList(w, "problems", d.Problems()); err != nil {
		return err
	}
	if err := streamList(w, "files", d.Files()); err != nil {
		return err
	}
	_, err := w.WriteString("\n}\n")
	return err
}

// streamList writes a member of an object that is a list, an element in a line.
func streamList[T any](w *bufio.Writer, name string, list iter.Seq[T]) error {
	fmt.Fprintf(w, ",\n  %q: [", name)
	separator, end := "\n    ", "]"
	enc := json.NewEncoder(&trimmed{w})
	enc.SetEscapeHTML(false)
	for v := range list {
		w.WriteString(separator)
		if err := enc.Encode(v); err != nil {
			return err
		}
		separator, end = ",\n    ", "\n  ]"
	}
	_, err := w.WriteString(end)
	return err
}

// trimmed drops the newline at the end of each write.
type trimmed struct{ w io.Writer }

// Write implements io.Writer.
func (t *trimmed) Write(p []byte) (int, error) {
	_, err := t.w.Write(bytes.TrimSuffix(p, []byte("\n")))
	return len(p), err
}
