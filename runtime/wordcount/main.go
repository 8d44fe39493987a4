// Command wordcount is the example of package runtime: it counts the words of files, with checkpoints, savepoints and a REST interface.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
)

const help = `usage: wordcount [flags] --output DIR FILE...

Counts the words of files. DIR/totals gets a line for each word that was read, with how often it came until then, DIR/windows one for each
window of time and word. A line of a file may begin with its time, in milliseconds since 1970; those without are only
counted in total. Files of the output become visible when the checkpoint or savepoint that they belong to has completed, so that each
count is there once, whatever happens to the job.

Files and directories are paths or URIs (s3://bucket/text). The job can be asked for savepoints with drey or flink at the REST
interface. After SIGTERM and SIGINT it goes on from its newest checkpoint when it is started again with the same --id.

FLAGS
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "wordcount: %v\n", err)
		os.Exit(1)
	}
}

// flags are the options of the command.
type flags struct {
	output, rest, backend, claim, endpoint string
	pathStyle                              bool
	rate                                   float64
	window                                 time.Duration
	local                                  []string
	o                                      runtime.Options
}

// lingerTime is how long the REST interface stays for those who are yet to be told how the job ended.
const lingerTime = 10 * time.Second

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := flags{}
	set := pflag.NewFlagSet("wordcount", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.SortFlags = false
	set.StringVar(&f.output, "output", "", "`DIR` for the counts")
	set.StringVar(&f.o.CheckpointDir, "checkpoints", "", "`DIR` of checkpoints; without it none are taken")
	set.DurationVar(&f.o.Checkpoints.Interval, "interval", 10*time.Second, "`TIME` between checkpoints")
	set.StringVar(&f.o.SavepointDir, "savepoints", "", "`DIR` of savepoints that are asked for without one")
	set.StringVar(&f.o.Restore.Path, "from", "", "start from this `SAVEPOINT` or checkpoint")
	set.StringVar(&f.claim, "claim-mode", "NO_CLAIM", "whose it is afterwards: NO_CLAIM, CLAIM or LEGACY")
	set.BoolVar(&f.o.Restore.AllowNonRestored, "allow-non-restored", false, "pass over state of operators that the job does not have")
	set.IntVar(&f.o.Parallelism, "parallelism", 1, "`NUMBER` of subtasks")
	set.IntVar(&f.o.MaxParallelism, "max-parallelism", 0, "`NUMBER` of key groups; 0 for Flink's default")
	set.StringVar(&f.backend, "backend", "heap", "where state is held: heap or pebble")
	set.BoolVar(&f.o.Checkpoints.Incremental, "incremental", false, "checkpoints have only what is new")
	set.BoolVar(&f.o.Checkpoints.Unaligned, "unaligned", false, "barriers overtake records")
	set.IntVar(&f.o.Checkpoints.Retain, "retain", 1, "`NUMBER` of checkpoints that are kept")
	set.BoolVar(&f.o.Checkpoints.KeepOnCancel, "keep", false, "keep them when the job is canceled or fails")
	set.StringSliceVar(&f.local, "local", nil, "`DIR` for copies of checkpoints on this machine, to recover from")
	set.StringVar(&f.o.ID, "id", "", "`ID` of the job, 32 hexadecimal digits, of one that was started before; without it a random one")
	set.DurationVar(&f.window, "window", time.Minute, "`SIZE` of windows; 0 for none")
	set.Float64Var(&f.rate, "rate", 0, "read this `NUMBER` of lines of each file in a second; 0 for no limit")
	set.StringVar(&f.rest, "rest-address", "localhost:8081", "`HOST:PORT` of the REST interface")
	set.StringVar(&f.endpoint, "s3-endpoint", "", "`URL` of an S3 server other than AWS")
	set.BoolVar(&f.pathStyle, "s3-path-style", false, "put the bucket into the path, as most servers other than AWS need")
	if err := set.Parse(args); errors.Is(err, pflag.ErrHelp) {
		_, err := fmt.Fprint(stdout, help, set.FlagUsages())
		return err
	} else if err != nil {
		return err
	}
	if set.NArg() == 0 || f.output == "" {
		return errors.New("--output DIR and at least one FILE are needed; --help says more")
	}
	f.o.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	job, err := f.options(ctx, set.Args())
	if err != nil {
		return err
	}
	if len(f.local) > 0 {
		if f.o.Local, err = localrecovery.Open(localrecovery.Options{Roots: f.local, Logger: f.o.Logger}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.o.Local.Close()) }()
	}

	listener, err := net.Listen("tcp", f.rest)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closes it, too
	x, err := runtime.Start(ctx, job, f.o)
	if err != nil {
		return err
	}
	server := &runtime.Server{FS: f.o.FS}
	server.Add(x)
	h := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, "job %s at http://%s\n", x.ID(), listener.Addr()); err != nil {
		f.o.Logger.Warn("where the job is was not told", "error", err)
	}

	err = x.Wait(context.WithoutCancel(ctx))
	if x.Status() == runtime.StatusSuspended {
		err = nil // as it was told
	}
	// A second signal ends this.
	late, cancel := context.WithTimeout(context.Background(), lingerTime)
	defer cancel()
	if x.Status() != runtime.StatusSuspended {
		go func() {
			select {
			case <-ctx.Done():
				cancel()
			case <-late.Done():
			}
		}()
		server.Linger(late)
	}
	_ = h.Shutdown(late) // only connections that are slow
	_, werr := fmt.Fprintf(stdout, "job %s is %s\n", x.ID(), x.Status())
	return errors.Join(err, werr)
}

// options completes the options of the job, and gives it.
func (f *flags) options(ctx context.Context, files []string) (*runtime.Job, error) {
	switch f.backend {
	case "heap":
	case "pebble":
		f.o.Backend = runtime.BackendPebble
	default:
		return nil, fmt.Errorf("backend %q: heap or pebble", f.backend)
	}
	modes := map[string]incremental.ClaimMode{"NO_CLAIM": incremental.NoClaim, "CLAIM": incremental.Claim, "LEGACY": incremental.Legacy}
	mode, ok := modes[strings.ToUpper(f.claim)]
	if !ok {
		return nil, fmt.Errorf("claim mode %q: NO_CLAIM, CLAIM or LEGACY", f.claim)
	}
	f.o.Restore.ClaimMode = mode
	if f.o.CheckpointDir == "" {
		f.o.Checkpoints.Interval = 0
	}
	stores := storage.Mux{"file": storage.NewLocal(storage.LocalOptions{})}
	for _, uri := range slices.Concat([]*string{&f.output, &f.o.CheckpointDir, &f.o.SavepointDir, &f.o.Restore.Path}, pointers(files), pointers(f.local)) {
		switch storage.Scheme(*uri) {
		case "s3":
			if stores["s3"] != nil {
				continue
			}
			store, err := s3.New(ctx, s3.Options{Endpoint: f.endpoint, PathStyle: f.pathStyle})
			if err != nil {
				return nil, err
			}
			stores["s3"] = store
		case "file":
			if scheme, _, _ := storage.Split(*uri); scheme != "" || *uri == "" {
				continue
			}
			path, err := filepath.Abs(*uri)
			if err != nil {
				return nil, err
			}
			*uri = path
		}
	}
	f.o.FS = stores
	var lines runtime.Input[string] = runtime.Lines{FS: stores, URIs: files}
	if f.rate > 0 {
		lines = paced[string]{lines, f.rate}
	}
	return build(lines, stores, f.output, f.window), nil
}

func pointers(s []string) []*string {
	p := make([]*string, len(s))
	for i := range s {
		p[i] = &s[i]
	}
	return p
}
