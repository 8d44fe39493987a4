package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/tools"
)

// TestErrorsDontDriveTheTerminal has recorded paths with control characters.
func TestErrorsDontDriveTheTerminal(t *testing.T) {
	src := checkpoint(t, filepath.Join(t.TempDir(), "a\x1b[31m\u009b2J\rb"), 10, 20)
	if err := os.RemoveAll(filepath.Join(filepath.Dir(src), "shared")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"relocate", src, filepath.Join(t.TempDir(), "to")},
		{"inspect", src + "\x1b]0;title\a"},
		{"inspect", "--check", "\x1b[2J", src},
		{"dump", "--raw", filepath.Dir(src)},
		{"\x1b[2J"},
	} {
		_, _, errs := drey(t, args...)
		if strings.ContainsAny(errs, "\x1b\a\r\u009b") || !strings.HasPrefix(errs, "drey: ") {
			t.Errorf("%q: %q", args, errs)
		}
	}
	_, _, errs := drey(t, "relocate", src, filepath.Join(t.TempDir(), "to"))
	if strings.Count(errs, "\n") < 3 {
		t.Errorf("the lines became one: %q", errs)
	}
}

// TestJSONOfFailedCopies: the files that were not copied are in the document.
func TestJSONOfFailedCopies(t *testing.T) {
	cause := &tools.RelocateError{Copied: 1, Total: 2, Failed: []*tools.CopyError{
		{FileCopy: tools.FileCopy{Source: "s3://a/x", Target: "s3://b/x", Size: 7}, Err: os.ErrPermission},
	}}
	code, text := outcome(t.Context(), cause)
	data, err := json.Marshal(newFailure(cause, text, code))
	if err != nil {
		t.Fatal(err)
	}
	const want = `"exitCode":4,"failed":[{"source":"s3://a/x","target":"s3://b/x","size":7,"error":"permission denied"}]}`
	if !strings.HasSuffix(string(data), want) {
		t.Errorf("got %s", data)
	}
}

func TestSnapshotTitle(t *testing.T) {
	for kind, want := range map[string]string{"unknown": "snapshot 7 of unknown kind", "checkpoint": "checkpoint 7"} {
		if got := snapshotTitle(kind, 7); got != want {
			t.Errorf("got %q", got)
		}
	}
}

// TestCompletionBash asks the script in a real bash.
func TestCompletionBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script := mustDrey(t, "completion", "bash")
	parse := exec.Command(bash, "-n")
	parse.Stdin = strings.NewReader(script)
	if out, err := parse.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	complete := func(words ...string) []string {
		t.Helper()
		cmd := exec.Command(bash, append([]string{"--norc", "-c", script + `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_drey
printf '%s\n' "${COMPREPLY[@]}"
complete -p drey >&2`, "bash"}, words...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		// The option lets readline complete files where the script gives nothing.
		if err != nil || strings.TrimSpace(errs.String()) != "complete -o default -F _drey drey" {
			t.Fatalf("%v: %s", err, &errs)
		}
		return strings.Fields(string(out))
	}
	for _, c := range []struct{ words, want string }{
		{"drey ins", "inspect"},
		{"drey re", "relocate repair"},
		{"drey he", "help"},
		{"drey inspect --chec", "--check"},
		{"drey relocate --target-s", "--target-s3-endpoint --target-s3-path-style"},
		{"drey verify --js", "--json"},
		{"drey verify /data/sp -q", "-q"},
		{"drey verify --rewrite", ""},
		{"drey inspect s", ""},
		{"drey help diff", "diff"},
		{"drey completion b", "bash"},
		{"drey nothing x", ""},
	} {
		if got := complete(strings.Split(c.words, " ")...); strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.words, got, c.want)
		}
	}
	all := complete("drey", "")
	for _, c := range commands() {
		if !slices.Contains(all, c.name) {
			t.Errorf("%s is not completed", c.name)
		}
	}
}

// TestCompletionOfOtherShells parses the scripts where the shells are installed.
func TestCompletionOfOtherShells(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		script := mustDrey(t, "completion", shell)
		for _, c := range commands() {
			if !strings.Contains(script, c.name) {
				t.Errorf("%s: no %s", shell, c.name)
			}
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(script), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}
