package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
)

func TestMain(m *testing.M) {
	testscript.Main(scratchM{m}, map[string]func(){"wordcount": main})
}

// scratch is a directory that lives as long as all tests.
var scratch string

type scratchM struct{ m *testing.M }

func (s scratchM) Run() int {
	var err error
	if scratch, err = os.MkdirTemp("", "wordcount-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	return s.m.Run()
}

// drey builds the command once, and gives its directory.
var drey = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-o", filepath.Join(scratch, "bin", "drey"), "../../tools/drey").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build drey: %w\n%s", err, out)
	}
	return filepath.Join(scratch, "bin"), nil
})

// TestScript runs the transcripts in testdata/script against jobs that run. Besides the commands of testscript there are
//
//	s3                          start a store with a bucket "bucket" at $S3
//	fetch URI DIR               copy the files below a directory of that bucket
//	text FILE FROM N            write N lines, a second apart
//	start ARGS...               start the job, and wait until $URL answers; $JOB is its id
//	fails ARGS...               start the job, which must fail
//	end STATUS                  wait until it has ended, in that status
//	crash, term                 kill the process, or tell it to end
//	status CODE PROGRAM ARGS... run and demand an exit code
//	running                     wait until all its tasks run
//	until PROGRAM ARGS... REGEX run until the output matches
//	savepoint NAME              $NAME is the path that drey has told
//	newest NAME PATTERN         $NAME is the path of the file that was written last
//	log REGEX                   the log of the job, or of those before it, matches
//	counted OUT FILE...         OUT has each count of the words of the files once
//	partly OUT FILE...          OUT has some of these counts, and none twice
func TestScript(t *testing.T) {
	bin, err := drey()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range environment {
		t.Setenv(name, value)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			for name, value := range environment {
				e.Setenv(name, value)
			}
			e.Setenv("HOME", e.WorkDir)
			e.Values[jobKey{}] = &process{}
			e.Defer(func() { e.Values[jobKey{}].(*process).kill() })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"s3": scriptS3, "fetch": scriptFetch, "text": scriptText, "start": scriptStart, "fails": scriptFails, "end": scriptEnd, "crash": scriptCrash, "term": scriptTerm, "status": scriptStatus,
			"until": scriptUntil, "running": scriptRunning, "savepoint": scriptSavepoint, "newest": scriptNewest, "log": scriptLog, "counted": scriptCounted, "partly": scriptPartly,
		},
	})
}

// environment has no credentials of the machine.
var environment = map[string]string{"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "thing", "AWS_REGION": "us-east-1", "AWS_PROFILE": ""}

func scriptS3(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "s3")
	store := s3mem.New()
	ts.Check(store.CreateBucket("bucket"))
	server := httptest.NewServer(gofakes3.New(store).Server())
	ts.Defer(server.Close)
	ts.Setenv("S3", server.URL)
}

func scriptFetch(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "fetch URI DIR")
	ctx := context.Background()
	store, err := s3.New(ctx, s3.Options{Endpoint: ts.Getenv("S3"), PathStyle: true})
	ts.Check(err)
	for info, err := range store.List(ctx, args[0]) {
		ts.Check(err)
		data, err := storage.ReadAll(ctx, store, info.URI, 1<<20)
		ts.Check(err)
		name := filepath.Join(ts.MkAbs(args[1]), strings.TrimPrefix(info.URI, args[0]))
		ts.Check(os.MkdirAll(filepath.Dir(name), 0o777))
		ts.Check(os.WriteFile(name, data, 0o666))
	}
}

type jobKey struct{}

// process is a job that runs.
type process struct {
	cmd    *exec.Cmd
	log    bytes.Buffer // to be read when it has ended
	stdout *bufio.Reader
}

func job(ts *testscript.TestScript) *process { return ts.Value(jobKey{}).(*process) }

func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func want(ts *testscript.TestScript, neg, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func scriptText(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "text FILE FROM N")
	from, err := strconv.Atoi(args[1])
	ts.Check(err)
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, "%d The squirrel buried nut %d, and forgot nut %d\n", (from+i)*1000, i%7, i%5)
	}
	fmt.Fprintln(&text, "A line without time")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o666))
}

func (p *process) command(ts *testscript.TestScript, args []string) {
	if p.cmd != nil {
		ts.Fatalf("a job runs already")
	}
	p.cmd = exec.Command("wordcount", append([]string{"--rest-address", "127.0.0.1:0"}, args...)...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = ts.Getenv("WORK"), append(os.Environ(), "HOME="+ts.Getenv("HOME"), "TMPDIR="+ts.Getenv("TMPDIR")), &p.log
}

func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 0, "start ARGS...")
	p := job(ts)
	p.command(ts, args)
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	p.stdout = bufio.NewReader(out)
	line, err := p.stdout.ReadString('\n')
	id, url, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "job "), " at ")
	if err != nil || !ok {
		p.kill()
		ts.Fatalf("%q, %v\n%s", line, err, p.log.String())
	}
	ts.Setenv("JOB", id)
	ts.Setenv("URL", url)
}

func scriptFails(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 0, "fails ARGS...")
	p := job(ts)
	p.command(ts, args)
	out, err := p.cmd.Output()
	p.cmd = nil
	ts.Logf("%s%s", out, p.log.String())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		ts.Fatalf("%v", err)
	}
}

func scriptEnd(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "end STATUS")
	p := job(ts)
	rest, err := io.ReadAll(p.stdout)
	ts.Check(err)
	err = p.cmd.Wait()
	p.cmd = nil
	ts.Logf("%s%s", rest, p.log.String())
	if want := fmt.Sprintf("job %s is %s\n", ts.Getenv("JOB"), args[0]); string(rest) != want || err != nil {
		ts.Fatalf("%q, %v; want %q", rest, err, want)
	}
}

func scriptCrash(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "crash")
	job(ts).kill()
}

func scriptTerm(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "term")
	ts.Check(job(ts).cmd.Process.Signal(syscall.SIGTERM))
}

func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 1, "status CODE PROGRAM ARGS...")
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	ts.Logf("%s%s", ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	if got != code {
		ts.Fatalf("exit code %d, want %d", got, code)
	}
}

// patience is after how long a test that waits has failed.
const patience = 2 * time.Minute

func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 1, "until PROGRAM ARGS... REGEX")
	last := len(args) - 1
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ts.Check(ts.Exec(args[0], args[1:last]...))
		if ok, err := matches(args[last], ts.ReadFile("stdout")); ok || err != nil {
			ts.Check(err)
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s never came in\n%s", args[last], ts.ReadFile("stdout"))
		}
	}
}

func scriptRunning(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "running")
	scriptUntil(ts, false, []string{"drey", "list", "-m", ts.Getenv("URL"), " RUNNING .* [1-9][0-9]* of "})
}

func scriptSavepoint(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "savepoint NAME")
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if path, ok := strings.CutPrefix(line, "savepoint: "); ok {
			ts.Setenv(args[0], strings.TrimSpace(path))
			return
		}
	}
	ts.Fatalf("no savepoint was told")
}

func scriptNewest(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "newest NAME PATTERN")
	names, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	var last time.Time
	for _, name := range names {
		info, err := os.Stat(name)
		ts.Check(err)
		if info.ModTime().After(last) {
			last = info.ModTime()
			ts.Setenv(args[0], name)
		}
	}
	if last.IsZero() {
		ts.Fatalf("there is no %s", args[1])
	}
}

func scriptLog(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, len(args) == 1, "log REGEX")
	p := job(ts)
	if p.cmd != nil {
		ts.Fatalf("the job runs")
	}
	ok, err := matches(args[0], p.log.String())
	ts.Check(err)
	if ok == neg {
		ts.Fatalf("the log matches %s: %v\n%s", args[0], ok, p.log.String())
	}
}

func scriptCounted(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 1, "counted OUT FILE...")
	wanted, got := expected(ts, args[1:]), written(ts, args[0])
	if len(wanted) != len(got) {
		ts.Logf("%d lines, want %d", len(got), len(wanted))
	}
	if d := difference(got, wanted); len(d) > 0 {
		ts.Fatalf("%v", d)
	}
}

func scriptPartly(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 1, "partly OUT FILE...")
	wanted, got := expected(ts, args[1:]), written(ts, args[0])
	if len(got) == 0 || len(got) >= len(wanted) {
		ts.Fatalf("%d lines of %d", len(got), len(wanted))
	}
	for _, d := range difference(got, wanted) {
		if d[0] == '+' {
			ts.Fatalf("%s", d)
		}
	}
}

// expected gives what a job makes of the words of some files, by another way than the job's.
func expected(ts *testscript.TestScript, files []string) []string {
	var lines []string
	totals, windows := map[string]int{}, map[string]int{}
	for _, name := range files {
		for line := range strings.Lines(ts.ReadFile(name)) {
			fields := strings.Fields(strings.ToLower(strings.NewReplacer(",", "", "\n", "").Replace(line)))
			seconds, err := strconv.Atoi(fields[0])
			timed := err == nil
			if timed {
				fields = fields[1:]
			}
			for _, w := range fields {
				totals[w]++
				lines = append(lines, fmt.Sprintf("totals: %s %d", w, totals[w]))
				if timed {
					windows[fmt.Sprintf("windows: %s %s", time.Unix(int64(seconds/1000/60*60), 0).UTC().Format("2006-01-02T15:04:05Z"), w)]++
				}
			}
		}
	}
	for w, n := range windows {
		lines = append(lines, fmt.Sprintf("%s %d", w, n))
	}
	return lines
}

// written gives the lines of the output.
func written(ts *testscript.TestScript, out string) []string {
	var lines []string
	for _, dir := range []string{"totals", "windows"} {
		entries, err := os.ReadDir(filepath.Join(ts.MkAbs(out), dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			ts.Check(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				for line := range strings.Lines(ts.ReadFile(filepath.Join(out, dir, e.Name()))) {
					lines = append(lines, dir+": "+strings.TrimSuffix(line, "\n"))
				}
			}
		}
	}
	return lines
}

// difference gives what is there too often (+) or not often enough (-).
func difference(got, want []string) []string {
	n := map[string]int{}
	for _, l := range got {
		n[l]++
	}
	for _, l := range want {
		n[l]--
	}
	var lines []string
	for l, c := range n {
		if c != 0 {
			lines = append(lines, fmt.Sprintf("%+d times %q", c, l))
		}
	}
	slices.Sort(lines)
	return lines
}

func matches(pattern, text string) (bool, error) {
	re, err := regexp.Compile("(?m)" + pattern)
	return err == nil && re.MatchString(text), err
}

func TestCut(t *testing.T) {
	for line, want := range map[string]struct {
		at   int64
		text string
	}{
		"1700000000000 a nut":      {1700000000000, "a nut"},
		"a nut":                    {runtime.NoTimestamp, "a nut"},
		"-1 a nut":                 {runtime.NoTimestamp, "-1 a nut"},
		"9223372036854775807 nuts": {runtime.NoTimestamp, "9223372036854775807 nuts"},
		"17":                       {17, ""},
		"":                         {runtime.NoTimestamp, ""},
	} {
		if at, text := cut(line); at != want.at || text != want.text {
			t.Errorf("%q: %d, %q", line, at, text)
		}
	}
}
