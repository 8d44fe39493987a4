// Command drey works on the savepoints and checkpoints of Apache Flink without a JVM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// Exit codes; they are part of the command's interface.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNo          = 3
	exitPartly      = 4
	exitRefused     = 5
	exitInterrupted = 130
)

// exitStatus is the part of every help text that says what the codes mean.
const exitStatus = `EXIT STATUS
  0    done; nothing wrong
  1    failed: could not read, write or decide
  2    usage
  3    done, and the answer is no: damage found, differences found, cannot restore
  4    partly done: some files were not copied or deleted; running again is safe
  5    refused because it would be unsafe; nothing was changed
  130  interrupted; running again is safe
`

// errNo is returned by a command that worked and whose answer is no. The
// report says why, so that there is no message.
var errNo = errors.New("no")

// usageError is a mistake in the command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// command is one verb.
type command struct {
	name  string
	args  string // as shown in usage
	short string
	long  string // explanation, then examples
	// minArgs and maxArgs bound the number of arguments; maxArgs < 0 means no bound.
	minArgs, maxArgs int
	flags            func(*pflag.FlagSet)
	run              func(ctx context.Context, e *env, args []string) error
}

// commands lists the verbs in the order of the overview.
func commands() []*command {
	return []*command{
		cmdInspect(), cmdVerify(), cmdDump(), cmdDiff(), cmdPreflight(), cmdRelocate(), cmdAudit(), cmdGC(), cmdDispose(), cmdRepair(), cmdConvert(), cmdEdit(),
		cmdList(), cmdCheckpoints(), cmdSavepoint(), cmdStop(), cmdCancel(), cmdCompletion(), cmdVersion(),
	}
}

// env is what a command works with.
type env struct {
	stdout, stderr io.Writer
	json           bool
	quiet          bool
	verbose        bool
	jobs           int // 0 for the default of the operations
	s3Endpoint     string
	s3PathStyle    bool
	profile        string
}

func (e *env) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&e.json, "json", false, "one JSON document on standard output instead of text, also of an error")
	f.BoolVarP(&e.quiet, "quiet", "q", false, "no progress and no remarks on standard error")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "more detail")
	f.IntVarP(&e.jobs, "jobs", "j", 0, "files to work on at once (default 4 for each CPU, at least 16), or parts of state (default one for each CPU)")
	f.StringVar(&e.s3Endpoint, "s3-endpoint", "", "URL of an S3 server other than AWS")
	f.BoolVar(&e.s3PathStyle, "s3-path-style", false, "put the bucket into the path, as most servers other than AWS need")
	f.StringVar(&e.profile, "profile", "", "profile of the AWS configuration files")
}

// storeOptions are the words of the command line that say how to reach the stores.
func (e *env) storeOptions() []string {
	var words []string
	if e.s3Endpoint != "" {
		words = append(words, "--s3-endpoint", e.s3Endpoint)
	}
	if e.s3PathStyle {
		words = append(words, "--s3-path-style")
	}
	if e.profile != "" {
		words = append(words, "--profile", e.profile)
	}
	return words
}

// note tells the user something that is not part of the report.
func (e *env) note(format string, args ...any) {
	if !e.quiet {
		fmt.Fprintf(e.stderr, "drey: %s\n", printableLines(fmt.Sprintf(format, args...)))
	}
}

// target turns a path of the command line into a URI: a path without a
// scheme is a local one, relative to the working directory. Nothing is decoded.
func target(arg string) (string, error) {
	if arg == "" {
		return "", usagef("an empty path")
	}
	if scheme, _, _ := storage.Split(arg); scheme != "" {
		return storage.Clean(arg), nil
	}
	abs, err := filepath.Abs(arg)
	if err != nil {
		return "", err
	}
	return storage.Clean("file:" + filepath.ToSlash(abs)), nil
}

func targets(args []string) ([]string, error) {
	uris := make([]string, len(args))
	for i, a := range args {
		u, err := target(a)
		if err != nil {
			return nil, err
		}
		uris[i] = u
	}
	return uris, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once what does not listen, such as a write to a pipe that nobody reads
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs a command line and gives the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &watched{Writer: stdout}
	e := &env{stdout: out, stderr: stderr}
	err := dispatch(ctx, e, args)
	code, text := outcome(ctx, err)
	if text == "" {
		return code
	}
	fmt.Fprintf(stderr, "drey: %s\n", printableLines(text))
	if e.json && !out.used {
		_ = printJSON(stdout, newFailure(err, text, code)) // that it failed is known already
	}
	return code
}

// outcome gives the exit code for the error of a command, and what to say; ""
// if the report says it.
func outcome(ctx context.Context, err error) (code int, text string) {
	var usage usageError
	var pending *tools.PendingError
	switch {
	case err == nil:
		return exitDone, ""
	case errors.Is(err, errNo):
		return exitNo, ""
	case errors.As(err, &usage):
		return exitUsage, err.Error()
	case ctx.Err() != nil && errors.As(err, &pending):
		return exitInterrupted, "interrupted: " + err.Error() // running it again begins another one
	case ctx.Err() != nil:
		return exitInterrupted, "interrupted; running again is safe"
	case errors.Is(err, tools.ErrRefused):
		return exitRefused, err.Error()
	case errors.Is(err, tools.ErrPartly):
		return exitPartly, err.Error()
	}
	return exitFailed, err.Error()
}

// watched notes whether something was written: a report.
type watched struct {
	io.Writer
	used bool
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	w.used = w.used || len(p) > 0
	return w.Writer.Write(p)
}

// failure is the JSON document of a command that failed before it had a report.
type failure struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exitCode"`
	// Problems are all that the error's text stands for.
	Problems []tools.FileProblem `json:"problems,omitempty"`
	// Failed are the files that were not copied.
	Failed []failedCopy `json:"failed,omitempty"`
	// Pending is what goes on in a cluster.
	Pending *pendingOperation `json:"pending,omitempty"`
}

// pendingOperation is what was begun in a cluster and not waited for to its end.
type pendingOperation struct {
	Operation string           `json:"operation"`
	Job       tools.ClusterJob `json:"job"`
	Trigger   string           `json:"trigger,omitempty"`
	Savepoint string           `json:"savepoint,omitempty"`
}

// failedCopy is a file that was not copied.
type failedCopy struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Size   int64  `json:"size"`
	Error  string `json:"error"`
}

func newFailure(err error, text string, code int) failure {
	f := failure{Error: text, ExitCode: code}
	var problems *tools.ProblemsError
	if errors.As(err, &problems) {
		f.Problems = problems.Problems
	}
	var pending *tools.PendingError
	if errors.As(err, &pending) {
		f.Pending = &pendingOperation{pending.Operation, pending.Job, pending.Trigger, pending.Savepoint}
	}
	var partly *tools.RelocateError
	if errors.As(err, &partly) {
		for _, c := range partly.Failed {
			f.Failed = append(f.Failed, failedCopy{c.Source, c.Target, c.Size, c.Err.Error()})
		}
	}
	return f
}

func dispatch(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		overview(e.stderr)
		return usagef("name a command")
	}
	name, args := args[0], args[1:]
	switch name {
	case "help", "-h", "--help":
		return help(e.stdout, args)
	case "--version":
		name = "version"
	}
	cmd := find(name)
	if cmd == nil {
		return usagef("no command %q; `drey help` lists them", name)
	}
	f := flagSet(cmd, e)
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		commandHelp(e.stdout, cmd)
		return nil
	case err != nil:
		e.json = e.json || slices.Contains(args, "--json") // it may stand behind the mistake
		return usagef("%s: %v; see `drey help %s`", name, err, name)
	}
	if n := f.NArg(); n < cmd.minArgs || cmd.maxArgs >= 0 && n > cmd.maxArgs {
		return usagef("usage: drey %s %s; see `drey help %s`", name, cmd.args, name)
	}
	return cmd.run(ctx, e, f.Args())
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return c
		}
	}
	return nil
}

func flagSet(cmd *command, e *env) *pflag.FlagSet {
	f := pflag.NewFlagSet(cmd.name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.SortFlags = false
	if cmd.flags != nil {
		cmd.flags(f)
	}
	e.addFlags(f)
	return f
}

func overview(w io.Writer) {
	fmt.Fprint(w, "drey works on the savepoints and checkpoints of Apache Flink without a JVM.\n\nUSAGE\n  drey COMMAND [OPTIONS] ARGUMENTS\n\nCOMMANDS\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %-21s %s\n", c.name, c.args, c.short)
	}
	fmt.Fprint(w, `  help        [COMMAND]             what a command does, its options and examples

A SNAPSHOT is a directory that holds _metadata, or the metadata file itself, as
a path or URI (/a/chk-7, s3://bucket/job/chk-7); the directory of a job means its newest
complete checkpoint. Credentials and region come from the usual AWS environment variables and files.

`)
	fmt.Fprint(w, exitStatus)
}

func help(w io.Writer, args []string) error {
	if len(args) == 0 {
		overview(w)
		return nil
	}
	cmd := find(args[0])
	if cmd == nil {
		return usagef("no command %q; `drey help` lists them", args[0])
	}
	commandHelp(w, cmd)
	return nil
}

func commandHelp(w io.Writer, cmd *command) {
	f := flagSet(cmd, &env{})
	// pflag shows the values of switches, which nobody gives.
	usages := strings.ReplaceAll(f.FlagUsagesWrapped(100), "[=true|false]", strings.Repeat(" ", len("[=true|false]")))
	fmt.Fprintf(w, "drey %s: %s\n\nUSAGE\n  drey %s [OPTIONS] %s\n\n%s\nOPTIONS\n%s\n%s",
		cmd.name, cmd.short, cmd.name, cmd.args, strings.TrimLeft(cmd.long, "\n"), usages, exitStatus)
}

func cmdVersion() *command {
	return &command{
		name: "version", short: "the version of drey, and of what it reads",
		long: "Prints the version of drey and the versions of _metadata that it reads and writes.\n",
		run: func(_ context.Context, e *env, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Metadata string `json:"metadataVersions"`
				Flink    string `json:"flink"`
			}{"devel", runtime.Version(), "1-6", "1.2 to 2.3"}
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
				v.Version = info.Main.Version
			}
			if e.json {
				return printJSON(e.stdout, v)
			}
			_, err := fmt.Fprintf(e.stdout, "drey %s (%s); reads and writes _metadata of versions %s, Flink %s\n", v.Version, v.Go, v.Metadata, v.Flink)
			return err
		},
	}
}
