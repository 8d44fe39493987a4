package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

const relocateHelp = `
Copies the snapshot SRC with every file that it uses, wherever that lies, into
the directory DST, and writes there a _metadata in which every path points to
the copies. The source is never changed, nothing at the target is ever replaced, and
_metadata comes last: a target that has one is complete (unless --unchecked wrote it). Run it again after
a failure and it goes on where it stopped.

In DST, the files that were beside _metadata are beside it again, those of
shared/, taskowned/ and dstl/ (the changelog) are in directories of these names,
and files that entropy injection scattered come beside _metadata. To keep
another layout, say with --rewrite where recorded paths shall point, e.g. to
move a job's directory with shared/ outside of the checkpoint:
  drey relocate --rewrite s3://a/ck/JOB=s3://b/ck/JOB s3://a/ck/JOB/chk-7 s3://b/ck/JOB/chk-7
Every absolute path must match a rule then.

If the files no longer lie where the metadata says, because the snapshot was
copied or renamed by other means, they are looked for around SRC by the layout of
their recorded paths, and the report says what was found; or say it with --moved.

With --metadata-only nothing is copied. Without DST, _metadata is rewritten in place
so that it names the files where they are now, or where --rewrite says, and the old one is
kept as _metadata.before-relocate. With DST, to which the files were copied by
other means, it is written there; --output writes it to any other file.

A file that is at the target already, with the right size, counts as copied:
Flink never changes a file, and its names are random. Two runs at once with one target
are safe, but one of them may fail; run it again.

Paths are opaque text: %20 means these three characters. State is copied as it is;
paths inside state (of file sinks, say) are reported, never rewritten.

EXAMPLES
  drey relocate /data/savepoint-ab12cd-0123456789ab /backup/sp1
  drey relocate s3://prod/ck/JOB/chk-42 s3://dr/restore/chk-42
  drey relocate --make-relative s3://prod/savepoints/savepoint-ab12cd-0123456789ab /usb/sp
  mv /data/ck /archive/ck && drey relocate --metadata-only /archive/ck/JOB/chk-42
  drey relocate -n --json SRC DST | jq .bytesToCopy

`

// relocateFlags are the options of the command.
type relocateFlags struct {
	rewrite, moved []string
	metadataOnly   bool
	unchecked      bool
	makeRelative   bool
	service        string
	output         string
	dryRun         bool
	manifest       string
	manifestFormat string
	target         targetStore
}

func cmdRelocate() *command {
	var o relocateFlags
	return &command{
		name: "relocate", args: "SRC [DST]", short: "copy a snapshot and rewrite its paths", long: relocateHelp,
		minArgs: 1, maxArgs: 2,
		flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&o.rewrite, "rewrite", nil, "`FROM=TO`: recorded paths at and below FROM shall point to TO; may be repeated")
			f.StringArrayVar(&o.moved, "moved", nil, "`FROM=TO`: files recorded at and below FROM now lie at TO; may be repeated")
			f.BoolVar(&o.metadataOnly, "metadata-only", false, "rewrite only the metadata; the files are in place already")
			f.StringVarP(&o.output, "output", "o", "", "with --metadata-only: write the metadata to `FILE`, in place of _metadata in DST or SRC")
			f.BoolVar(&o.unchecked, "unchecked", false, "with --metadata-only: don't check that the files are there")
			f.BoolVar(&o.makeRelative, "make-relative", false, "put all files beside _metadata under relative paths, so that the directory can be moved by plain copy (in place: files stay where they are in it)")
			f.StringVar(&o.service, "import-to", "", "warn of what the managed `SERVICE` would not import: aws-msf")
			f.BoolVarP(&o.dryRun, "dry-run", "n", false, "show what would be done")
			f.StringVar(&o.manifest, "manifest", "", "copy nothing, but list what to copy in `FILE`, for another tool; finish with --metadata-only")
			f.StringVar(&o.manifestFormat, "manifest-format", string(tools.ManifestS3Batch), "s3-batch (bucket,key as S3 Batch Operations reads it) or pairs (source,target)")
			o.target.add(f)
		},
		run: func(ctx context.Context, e *env, args []string) error { return relocate(ctx, e, &o, args) },
	}
}

func rules(flag string, texts []string) ([]tools.Rule, error) {
	var list []tools.Rule
	for _, t := range texts {
		r, err := tools.ParseRule(t)
		if err != nil {
			return nil, usagef("--%s: %v", flag, err)
		}
		// What is written into metadata has a scheme, as Flink's own paths have:
		// without one, it would be looked for in the cluster's default file system.
		if r.To, err = target(r.To); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func (o *relocateFlags) options(e *env, local storage.FS) (tools.RelocateOptions, error) {
	opts := tools.RelocateOptions{
		Target: o.target.store(e, local), MetadataOnly: o.metadataOnly, Unchecked: o.unchecked, MakeRelative: o.makeRelative, Service: o.service, Jobs: e.jobs,
	}
	var err error
	if opts.Rewrite, err = rules("rewrite", o.rewrite); err != nil {
		return opts, err
	}
	if o.output != "" {
		if opts.Output, err = target(o.output); err != nil {
			return opts, err
		}
	}
	opts.Moved, err = rules("moved", o.moved)
	return opts, err
}

// check refuses combinations that mean nothing.
func (o *relocateFlags) check(args []string) error {
	switch {
	case len(args) == 1 && !o.metadataOnly:
		return usagef("name the destination; only --metadata-only works in place")
	case o.output != "" && !o.metadataOnly:
		return usagef("--output is for --metadata-only")
	case o.unchecked && !o.metadataOnly:
		return usagef("--unchecked is for --metadata-only")
	case o.makeRelative && len(o.rewrite) > 0:
		return usagef("--make-relative leaves no absolute paths, so that --rewrite would have no effect")
	case o.manifest != "" && o.dryRun:
		return usagef("--manifest copies nothing anyway; without --dry-run it writes the list")
	case o.service != "" && o.service != tools.ServiceAWS:
		return usagef("--import-to knows %s only", tools.ServiceAWS)
	case o.manifest != "" && o.metadataOnly:
		return usagef("--manifest lists what to copy, --metadata-only copies nothing; use one after the other")
	case o.manifestFormat != string(tools.ManifestS3Batch) && o.manifestFormat != string(tools.ManifestPairs):
		return usagef("--manifest-format is %s or %s", tools.ManifestS3Batch, tools.ManifestPairs)
	}
	return nil
}

func relocate(ctx context.Context, e *env, o *relocateFlags, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	uris, err := targets(args)
	if err != nil {
		return err
	}
	local := storage.NewLocal(storage.LocalOptions{})
	source := storesWith(e, local, e.s3Endpoint, e.s3PathStyle, e.profile)
	opts, err := o.options(e, local)
	if err != nil {
		return err
	}
	dst := ""
	if len(uris) == 2 {
		dst = uris[1]
	}

	bar := newProgress(e, "checking")
	opts.Progress = func(p tools.RelocateProgress) { bar.set(p.Files, p.TotalFiles, p.Bytes, p.TotalBytes) }
	plan, err := tools.PlanRelocate(ctx, source, uris[0], dst, opts)
	bar.stop()
	if err != nil {
		return err
	}
	if plan.Chosen != "" {
		e.note("%s", plan.Chosen)
	}
	result := relocateResult{RelocatePlan: plan}
	switch {
	case o.manifest != "":
		list := func(w io.Writer) error {
			m, err := plan.WriteManifest(w, tools.ManifestFormat(o.manifestFormat))
			result.Manifest = &m
			return err
		}
		if err := writeOut(ctx, e, o.manifest, list); err != nil {
			return err
		}
	case !o.dryRun:
		if !e.json && !plan.Done {
			printPlan(e, plan)
		}
		bar := newProgress(e, "copying")
		plan.OnProgress(func(p tools.RelocateProgress) { bar.set(p.Files, p.TotalFiles, p.Bytes, p.TotalBytes) })
		err := plan.Execute(ctx)
		bar.stop()
		if err != nil {
			return err
		}
		result.Executed = !plan.Done
	}
	if e.json {
		return printJSON(e.stdout, result)
	}
	printRelocated(e, o, &result)
	return nil
}

// relocateResult is the JSON document of the command.
type relocateResult struct {
	*tools.RelocatePlan
	// Executed is false for a dry run, a manifest, and if there was nothing to do.
	Executed bool            `json:"executed"`
	Manifest *tools.Manifest `json:"manifest,omitempty"`
}

// mostLines is how many lines of a list are shown without --verbose.
const mostLines = 10

func printChanges(e *env, title string, list []tools.PathChange) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(e.stdout, "%s\n", title)
	for i, c := range list {
		if i == mostLines && !e.verbose {
			fmt.Fprintf(e.stdout, "  and %d more directories (-v shows them)\n", len(list)-i)
			break
		}
		fmt.Fprintf(e.stdout, "  %s -> %s  (%s)\n", printable(c.From), printable(c.To), plural(c.Handles, "handle"))
	}
}

// printPlan shows what is going to happen.
func printPlan(e *env, p *tools.RelocatePlan) {
	w := e.stdout
	fmt.Fprintf(w, "%s\n-> %s\n", printable(p.Source), printable(p.Target))
	fmt.Fprintf(w, "version %d, %s relative, %d absolute\n", p.Version, plural(p.Relative, "handle"), p.Absolute)
	printChanges(e, "found elsewhere than recorded:", p.Moved)
	printChanges(e, "paths to rewrite:", p.Rewritten)
	if p.SameMetadata {
		fmt.Fprintf(w, "metadata stays byte for byte: %s\n", p.Why)
	}
	if len(p.Files) > 0 {
		fmt.Fprintf(w, "%s (%s), of which %d (%s) are to be copied\n", plural(len(p.Files), "file"), size(p.Bytes), p.FilesToCopy, size(p.BytesToCopy))
	}
	if e.verbose {
		for _, f := range p.Files {
			state := "copy"
			if f.Present {
				state = "there"
			}
			fmt.Fprintf(w, "  %-5s %s -> %s  (%s)\n", state, printable(f.Source), printable(f.Target), size(f.Size))
		}
	}
	if p.Backup != "" {
		fmt.Fprintf(w, "the old metadata is kept as %s\n", printable(p.Backup))
	}
}

func printRelocated(e *env, o *relocateFlags, r *relocateResult) {
	p := r.RelocatePlan
	w := e.stdout
	if !r.Executed {
		printPlan(e, p)
	}
	for _, u := range p.Payload {
		fmt.Fprintf(w, "warning: operator %s, state %q holds %s under %s that were not rewritten, such as %s\n",
			printable(u.Operator), printable(u.State), plural(u.Count, "path"), printable(u.Prefix), printable(u.Sample))
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "warning: %s\n", printable(text))
	}
	switch {
	case r.Manifest != nil:
		source := p.Source
		if storage.Base(source) == tools.MetadataName {
			source = storage.Dir(source)
		}
		fmt.Fprintf(w, "%s lists %s (%s); when they are copied, finish with\n  drey relocate --metadata-only%s %s %s\n",
			shellQuote(o.manifest), plural(r.Manifest.Files, "file"), size(r.Manifest.Bytes), repeated(e, o), shellQuote(source), shellQuote(storage.Dir(p.Target)))
		if r.Manifest.Bucket != "" {
			fmt.Fprintf(w, "S3 Batch Operations: destination bucket %s, key prefix %q\n", r.Manifest.Bucket, r.Manifest.Prefix)
		}
	case o.dryRun && !p.Done:
		fmt.Fprintln(w, "dry run: nothing was written")
	case p.Done:
		fmt.Fprintln(w, "nothing to do: the target is complete")
	case o.metadataOnly:
		fmt.Fprintf(w, "done: wrote %s\n", printable(p.Target))
	default:
		fmt.Fprintf(w, "done: restore from %s\n", printable(storage.Dir(p.Target)))
	}
}

// repeated gives the options that the second half of a copy by other means needs too.
func repeated(e *env, o *relocateFlags) string {
	var b strings.Builder
	add := func(flag, value string) {
		if value != "" {
			b.WriteString(" " + flag + " " + shellQuote(value))
		}
	}
	for _, r := range o.rewrite {
		add("--rewrite", r)
	}
	for _, r := range o.moved {
		add("--moved", r)
	}
	if o.makeRelative {
		b.WriteString(" --make-relative")
	}
	for _, word := range e.storeOptions() {
		b.WriteString(" " + shellQuote(word))
	}
	add("--target-s3-endpoint", o.target.endpoint)
	add("--target-profile", o.target.profile)
	if o.target.pathStyle {
		b.WriteString(" --target-s3-path-style")
	}
	return b.String()
}

// shellQuote makes s one word for a shell.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:=._-+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
