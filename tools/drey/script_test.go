package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drey-state/drey/rest/resttest"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"drey": main})
}

// TestScript runs the transcripts in testdata/script against the program.
// $FIXTURES is the directory of snapshots by real Flink. Besides the commands of testscript there are
//
//	status CODE PROGRAM ARGS...   run and demand an exit code
//	tidy stdout|stderr FILE       write the last output to FILE with $WORK, $FIXTURES and $FLINK in the place of their values
//	flink VERSION MOMENT...       start a cluster at $FLINK that answers as real Flink did; see rest/resttest
//	cut FILE N                    cut FILE to N bytes
//	flip FILE N                   change the lowest bit of byte N of FILE
func TestScript(t *testing.T) {
	fixtures, err := filepath.Abs("testdata/snapshots")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			// No credentials or settings of the machine get into a test.
			e.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": scriptStatus, "tidy": scriptTidy, "cut": scriptCut, "flip": scriptFlip, "flink": scriptFlink,
		},
	})
}

func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
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
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptTidy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tidy stdout|stderr FILE")
	}
	text := ts.ReadFile(args[0])
	for _, name := range []string{"WORK", "FIXTURES", "FLINK"} {
		if value := ts.Getenv(name); value != "" {
			text = strings.ReplaceAll(text, value, "$"+name)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o666))
}

func scriptFlink(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: flink VERSION MOMENT...")
	}
	s, err := resttest.New(args[0], args[1:]...)
	ts.Check(err)
	ts.Defer(s.Close)
	ts.Setenv("FLINK", s.URL)
}

func scriptCut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut FILE N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	data[n] ^= 1
	ts.Check(os.WriteFile(name, data, 0o666))
}
