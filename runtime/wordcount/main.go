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

The configuration is Flink's: a config.yaml or flink-conf.yaml, and single keys with -D. What changes nothing here is logged.

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
	output, rest, id, endpoint string
	pathStyle                  bool
	rate                       float64
	window                     time.Duration
}

// lingerTime is how long the REST interface stays for those who are yet to be told how the job ended.
const lingerTime = 10 * time.Second

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := flags{}
	var file string
	var keys []string
	set := pflag.NewFlagSet("wordcount", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.SortFlags = false
	set.StringVar(&f.output, "output", "", "`DIR` for the counts")
	set.DurationVar(&f.window, "window", time.Minute, "`SIZE` of windows; 0 for none")
	set.Float64Var(&f.rate, "rate", 0, "read this `NUMBER` of lines of each file in a second; 0 for no limit")
	set.StringVar(&file, "config", "", "`FILE` of Flink's configuration, or the directory that it is in")
	set.StringArrayVarP(&keys, "define", "D", nil, "set a `KEY=VALUE` of Flink's configuration; may be repeated")
	// As of flink run, for keys that change from start to start.
	set.StringP("from", "s", "", "start from this `SAVEPOINT` or checkpoint")
	set.String("claim-mode", "", "`MODE`: whose it is afterwards: NO_CLAIM, CLAIM or LEGACY")
	set.BoolP("allow-non-restored", "n", false, "pass over state of operators that the job does not have")
	set.IntP("parallelism", "p", 1, "`NUMBER` of subtasks")
	set.StringVar(&f.id, "id", "", "`ID` of the job, 32 hexadecimal digits, of one that was started before; without it a random one")
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
	config := map[string]string{}
	if file != "" {
		if config, err = runtime.ReadConfig(file); err != nil {
			return err
		}
	}
	for _, k := range keys {
		key, value, ok := strings.Cut(k, "=")
		if !ok {
			return fmt.Errorf("-D %s: want KEY=VALUE", k)
		}
		config[key] = value
	}
	set.Visit(func(flag *pflag.Flag) {
		if key := flagKeys[flag.Name]; key != "" {
			config[key] = flag.Value.String()
		}
	})
	o, report, err := runtime.FromConfig(config)
	if err != nil {
		return err
	}
	o.ID = f.id
	o.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	report.Log(o.Logger)
	files := set.Args()
	if o.FS, err = f.stores(ctx, slices.Concat([]*string{&f.output, &o.CheckpointDir, &o.SavepointDir, &o.Restore.Path}, pointers(files), pointers(report.LocalRoots))); err != nil {
		return err
	}
	if o.Local, err = report.OpenLocal(o.Logger); err != nil {
		return err
	}
	if o.Local != nil {
		defer func() { err = errors.Join(err, o.Local.Close()) }()
	}
	var lines runtime.Input[string] = runtime.Lines{FS: o.FS, URIs: files}
	if f.rate > 0 {
		lines = paced[string]{lines, f.rate}
	}
	return serve(ctx, build(lines, o.FS, f.output, f.window), o, f.rest, stdout)
}

// flagKeys are the keys of the configuration that flags stand for.
var flagKeys = map[string]string{
	"from": "execution.state-recovery.path", "claim-mode": "execution.state-recovery.claim-mode",
	"allow-non-restored": "execution.state-recovery.ignore-unclaimed-state", "parallelism": "parallelism.default",
}

// serve runs a job to its end, with a REST interface.
func serve(ctx context.Context, job *runtime.Job, o runtime.Options, address string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closes it, too
	x, err := runtime.Start(ctx, job, o)
	if err != nil {
		return err
	}
	server := &runtime.Server{FS: o.FS}
	server.Add(x)
	h := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, "job %s at http://%s\n", x.ID(), listener.Addr()); err != nil {
		o.Logger.Warn("where the job is was not told", "error", err)
	}

	err = x.Wait(context.WithoutCancel(ctx))
	late, cancel := context.WithTimeout(context.Background(), lingerTime)
	defer cancel()
	if x.Status() == runtime.StatusSuspended {
		err = nil // as it was told
	} else {
		defer context.AfterFunc(ctx, cancel)() // nobody is waited for after a signal
		server.Linger(late)
	}
	_ = h.Shutdown(late) // only connections that are slow
	_, werr := fmt.Fprintf(stdout, "job %s is %s\n", x.ID(), x.Status())
	return errors.Join(err, werr)
}

// stores makes the stores that URIs name, and absolute paths of those that are paths.
func (f *flags) stores(ctx context.Context, uris []*string) (storage.FS, error) {
	stores := storage.Mux{"file": storage.NewLocal(storage.LocalOptions{})}
	for _, uri := range uris {
		switch scheme, _, _ := storage.Split(*uri); {
		case *uri == "":
		case scheme == "":
			path, err := filepath.Abs(*uri)
			if err != nil {
				return nil, err
			}
			*uri = path
		case storage.Scheme(*uri) == "s3" && stores["s3"] == nil:
			store, err := s3.New(ctx, s3.Options{Endpoint: f.endpoint, PathStyle: f.pathStyle})
			if err != nil {
				return nil, err
			}
			stores["s3"] = store
		}
	}
	return stores, nil
}

func pointers(s []string) []*string {
	p := make([]*string, len(s))
	for i := range s {
		p[i] = &s[i]
	}
	return p
}
