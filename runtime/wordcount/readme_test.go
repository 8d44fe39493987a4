package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// prelude has the job of a session listen at any port, and drey ask it there when it runs.
const prelude = `
set -u
wordcount() { command wordcount --rest-address 127.0.0.1:0 "$@"; }
drey() {
	local verb=$1
	case $verb in
	list|checkpoints|savepoint|stop|cancel)
		local url=
		until [ -n "$url" ]; do sleep 0.05; url=$(sed -n 's/^job [0-9a-f]* at //p' job.log); done
		until command drey list -m "$url" | grep -q ' RUNNING .* 6 of 6 '; do sleep 0.05; done
		shift
		command drey "$verb" -m "$url" "$@" ;;
	*) command drey "$@" ;;
	esac
}
`

// step is a command of a session and what it prints.
type step struct {
	command string
	want    []string
}

// sessions reads the blocks "console" of a section of a text.
func sessions(t *testing.T, file, section string) []step {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", file, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var steps []step
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			in = line == "```console"
		case in && ok:
			steps = append(steps, step{command: command})
		case in:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// vary are what differs from run to run, with what is compared in its place.
var vary = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "ID"},
	{regexp.MustCompile(`savepoint-[0-9a-f]{6}-[0-9a-f]{12}`), "savepoint-ID"},
	{regexp.MustCompile(`http://(localhost|127\.0\.0\.1):[0-9]+`), "URL"},
	{regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z {2}`), "TIME "},
	{regexp.MustCompile(`RUNNING +TIME +[0-9]+ (s|min)`), "RUNNING TIME AGE"},
	{regexp.MustCompile(`[0-9.]+ (B|KiB)\b`), "SIZE"},
	{regexp.MustCompile(`"value":[0-9]+`), `"value":N`},
	{regexp.MustCompile(` +`), " "},
}

func plain(line, dir string) string {
	line = strings.ReplaceAll(line, dir, "/tmp/demo")
	for _, v := range vary {
		line = v.what.ReplaceAllString(line, v.with)
	}
	return line
}

// agrees says whether lines are what is wanted, where "…" stands for any number of lines.
func agrees(got, want []string) bool {
	for i, w := range want {
		if w == "…" {
			for skip := range len(got) - i + 1 {
				if agrees(got[i+skip:], want[i+1:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || got[i] != w {
			return false
		}
	}
	return len(got) == len(want)
}

// TestReadme runs the session of the README, and compares what is printed with what stands there.
func TestReadme(t *testing.T) {
	bin, err := drey()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	steps := sessions(t, "../../README.md", "A streaming job in Go")
	if len(steps) < 10 {
		t.Fatalf("%d commands", len(steps))
	}
	const mark = "-- next --"
	script := prelude
	for _, s := range steps {
		script += s.command + "\necho '" + mark + "' $?\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script+"kill $(jobs -p) 2>/dev/null; true")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "AWS_EC2_METADATA_DISABLED=true", "HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	parts := strings.Split(string(out), mark)
	if len(parts) != len(steps)+1 {
		t.Fatalf("%d of %d commands ran\n%s", len(parts)-1, len(steps), out)
	}
	for i, s := range steps {
		code, rest, _ := strings.Cut(parts[i+1], "\n")
		if code != " 0" {
			t.Errorf("$ %s: exit code%s", s.command, code)
		}
		parts[i+1] = rest
		var got, want []string
		for line := range strings.Lines(parts[i]) {
			got = append(got, plain(strings.TrimSuffix(line, "\n"), dir))
		}
		for _, line := range s.want {
			want = append(want, plain(line, dir))
		}
		if !agrees(got, want) {
			t.Errorf("$ %s\n%s\n-- the README has\n%s", s.command, parts[i], strings.Join(s.want, "\n"))
		}
	}
}

func TestAgrees(t *testing.T) {
	for i, c := range []struct {
		got, want string
		ok        bool
	}{
		{"a b c", "a b c", true},
		{"a b c", "a … c", true},
		{"a b c", "… c", true},
		{"a b c", "a b c …", true},
		{"a b c", "a … b", false},
		{"a b c", "a b", false},
		{"a b", "a b c", false},
		{"", "…", true},
		{"", "a", false},
	} {
		if got := agrees(strings.Fields(c.got), strings.Fields(c.want)); got != c.ok {
			t.Errorf("%d: %v", i, got)
		}
	}
	if got := plain("at http://localhost:8081 /w/x 11.7 KiB", "/w"); got != "at URL /tmp/demo/x SIZE" {
		t.Error(got)
	}
}
