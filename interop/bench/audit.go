//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
)

// depotFlags are the options of `bench depot` and `bench audit`.
func depotFlags(name string, d *depot, endpoint *string) *flag.FlagSet {
	f := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	f.IntVar(&d.objects, "objects", 1_000_000, "`number` of files")
	f.IntVar(&d.jobs, "jobs", 4, "`number` of jobs")
	f.IntVar(&d.snapshots, "snapshots", 200, "`number` of checkpoints")
	f.IntVar(&d.references, "references", 50_000, "`number` of files that each checkpoint uses")
	f.StringVar(endpoint, "endpoint", "", "`URL` of the S3 server, with the credentials of the AWS variables; ROOT is s3://bucket/prefix then")
	return f
}

// makeDepot makes a tree.
func makeDepot(ctx context.Context, args []string) error {
	d, endpoint := depot{}, ""
	f := depotFlags("depot", &d, &endpoint)
	f.IntVar(&d.writers, "writers", 16, "`number` of files to write at once")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New(usage)
	}
	root, put := f.Arg(0), putLocal
	if endpoint != "" {
		fsys, err := s3.New(ctx, s3.Options{Endpoint: endpoint, PathStyle: true})
		if err != nil {
			return err
		}
		put = func(ctx context.Context, uri string, data []byte) error {
			return storage.WriteFile(ctx, fsys, uri, data, storage.CreateOptions{Overwrite: true})
		}
	} else if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	start := time.Now()
	if err := d.make(ctx, put, root); err != nil {
		return err
	}
	seconds, n := time.Since(start).Seconds(), d.count().all
	fmt.Fprintf(os.Stderr, "bench: made %d files in %.0f s, %.0f/s\n", n, seconds, float64(n)/seconds)
	return nil
}

// benchAudit measures drey on a tree that makeDepot made with the same options, beside tools that only list it.
func benchAudit(args []string) error {
	b := auditBench{}
	f := depotFlags("audit", &b.depot, &b.endpoint)
	rounds := f.Int("rounds", 3, "`number` of rounds")
	remove := f.Bool("delete", false, "let drey gc delete what no checkpoint uses in the end")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 2 {
		return errors.New(usage)
	}
	b.drey, b.root = f.Arg(0), f.Arg(1)
	return b.run(os.Stdout, *rounds, *remove)
}

type auditBench struct {
	depot
	drey     string
	root     string
	endpoint string // of S3; "" for local files
}

// candidate is one process to be measured.
type candidate struct {
	name string
	n    int64 // of files that it goes through
	args []string
	runs []procRun
}

type procRun struct{ wall, cpu, peakMB float64 }

// run measures all by turns, then what changes the tree, and prints a Markdown table.
func (b *auditBench) run(w io.Writer, rounds int, remove bool) error {
	plan, err := os.CreateTemp("", "drey-bench-plan")
	if err != nil {
		return err
	}
	defer os.Remove(plan.Name())
	plan.Close()
	c := b.count()
	byTurns := append(b.listings(), b.command("drey audit", c.all, "audit", "--grace", "0", b.root), b.command("drey gc --plan-out", c.all, "gc", "--grace", "0", "--plan-out", plan.Name(), b.root))
	if _, err := b.measure(byTurns[0]); err != nil { // warms the caches of all
		return err
	}
	for range rounds {
		for _, x := range byTurns {
			r, err := b.measure(x)
			if err != nil {
				return err
			}
			x.runs = append(x.runs, r)
		}
	}
	if remove {
		x := b.command("drey gc --plan --delete", c.unreferenced, "gc", "--plan", plan.Name(), "--delete")
		r, err := b.measure(x)
		if err != nil {
			return err
		}
		x.runs = append(x.runs, r)
		byTurns = append(byTurns, x)
	}
	fmt.Fprintf(w, "%d files, of which %d are used; %d checkpoints of %d files each; medians of %d rounds\n\n", c.all, c.referenced, b.snapshots, b.references, rounds)
	fmt.Fprintf(w, "| | files/s | seconds | CPU seconds | peak memory, MiB |\n|---|---:|---:|---:|---:|\n")
	for _, x := range byTurns {
		wall := median(x.runs, func(r procRun) float64 { return r.wall })
		fmt.Fprintf(w, "| `%s` | %.0f | %.2f | %.2f | %.0f |\n", x.name, float64(x.n)/wall, wall,
			median(x.runs, func(r procRun) float64 { return r.cpu }), median(x.runs, func(r procRun) float64 { return r.peakMB }))
	}
	return nil
}

// listings are well-known tools that list all files with their sizes.
func (b *auditBench) listings() []*candidate {
	n := b.count().all
	if b.endpoint == "" {
		return []*candidate{
			{name: `find -type f -printf '%s\n'`, n: n, args: []string{"find", b.root, "-type", "f", "-printf", `%s\n`}},
			{name: "rclone size", n: n, args: []string{"rclone", "size", b.root}},
		}
	}
	path := "bench:" + // run-audit.sh says what that is
		strings.TrimPrefix(b.root, "s3://")
	return []*candidate{
		{name: "rclone size", n: n, args: []string{"rclone", "size", path}},
		{name: "rclone size --fast-list", n: n, args: []string{"rclone", "size", "--fast-list", path}},
	}
}

// command is a run of drey.
func (b *auditBench) command(name string, n int64, args ...string) *candidate {
	if b.endpoint != "" {
		args = append(args, "--s3-endpoint", b.endpoint, "--s3-path-style")
	}
	return &candidate{name: name, n: n, args: append([]string{b.drey}, args...)}
}

// measure runs a process whose output nobody keeps.
func (b *auditBench) measure(x *candidate) (procRun, error) {
	c := exec.Command(x.args[0], x.args[1:]...)
	c.Stderr = os.Stderr
	start := time.Now()
	if err := c.Run(); err != nil {
		return procRun{}, fmt.Errorf("%s: %w", strings.Join(x.args, " "), err)
	}
	u := c.ProcessState.SysUsage().(*syscall.Rusage)
	return procRun{time.Since(start).Seconds(), float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, float64(u.Maxrss) / 1024}, nil
}
