package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// current are the Flink versions of the full program, old those of old/.
var (
	current = []flink{"1.20.5", "2.3.0"}
	old     = []flink{"1.8.3", "1.12.7", "1.15.4", "1.17.2"}
)

// limit for one run of a program. A run is many snapshots on a machine that
// does other things too; what hangs inside Flink gives up much earlier.
const limit = 15 * time.Minute

// flink is a Flink version that the Java program was built for.
type flink string

// needFlink skips the test unless real Flink is asked for; then whatever is
// missing is a failure.
func needFlink(t *testing.T, v flink) {
	t.Helper()
	if os.Getenv("DREY_INTEROP") != "1" {
		t.Skip("needs real Flink: run `make interop`")
	}
	out, err := command(t, nil, "./build.sh", string(v))
	if err != nil {
		t.Fatalf("cannot build for Flink %s: %v\n%s", v, err, out)
	}
}

// seedOf gives the seed of a test that makes things up: DREY_SEED, or another one each time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("DREY_SEED"), strconv.FormatInt(time.Now().UnixNano()%1_000_000, 10)), 10, 64)
	if err != nil {
		t.Fatalf("DREY_SEED: %v", err)
	}
	return seed
}

// command runs a program in this directory; the output is both streams.
func command(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(append(os.Environ(), "TMPDIR="+scratch), env...) // Flink leaves things there when it is stopped
	c.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out.String(), nil
}

// run runs the Java program. Its exit code is 1 when one of many answers is
// bad: the answers are in the output, so that is no error here.
func (v flink) run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	script := "./run.sh"
	if v.old() {
		script = "./old/run.sh"
	}
	start := time.Now()
	out, err := command(t, env, script, append([]string{string(v)}, args...)...)
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("%v\n%s", err, tail(out))
	}
	t.Logf("Flink %s: %s took %s", v, args[0], time.Since(start).Round(time.Second))
	return out
}

func (v flink) old() bool {
	for _, o := range old {
		if v == o {
			return true
		}
	}
	return false
}

// generate lets Flink write the cases to a new directory and gives the cases' directory.
func (v flink) generate(t *testing.T, env []string, cases ...string) string {
	t.Helper()
	dir := t.TempDir()
	out := v.run(t, env, append([]string{"gen", dir}, cases...)...)
	if n := strings.Count("\n"+out, "\nOK "); n != len(cases) {
		t.Fatalf("Flink wrote %d of %d cases:\n%s", n, len(cases), tail(out))
	}
	return filepath.Join(dir, string(v))
}

// list writes a list file for the "many" forms of the Java program.
func list(t *testing.T, lines [][]string) string {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.Join(l, "\t") + "\n")
	}
	name := filepath.Join(t.TempDir(), "list")
	write(t, name, []byte(b.String()))
	return name
}

// many runs a "many" form, and demands an OK for every line.
func (v flink) many(t *testing.T, form string, lines [][]string) {
	t.Helper()
	out := v.run(t, nil, form, list(t, lines))
	ok := map[string]bool{}
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		if name, found := strings.CutPrefix(s.Text(), "OK "); found {
			ok[name] = true
		} else if strings.HasPrefix(s.Text(), "FAIL ") {
			t.Errorf("Flink %s, %s: %s", v, form, s.Text())
		}
	}
	for _, l := range lines {
		if !ok[l[0]] {
			t.Errorf("Flink %s, %s: no OK for %s", v, form, l[0])
		}
	}
}

// verify restores snapshots in one JVM; each line holds the arguments of one
// verification. It gives what is wrong by snapshot ("" = restored, and every
// state is as the truth says).
func (v flink) verify(t *testing.T, env []string, lines [][]string) map[string]string {
	t.Helper()
	out := v.run(t, env, "verify-many", list(t, lines))
	wrong := map[string]string{}
	for _, l := range lines {
		name := l[0]
		var answer string
		for _, line := range strings.Split(out, "\n") {
			for _, p := range []string{"SUMMARY ", "VERIFY-"} {
				if a, found := strings.CutPrefix(line, p); found {
					if _, rest, _ := strings.Cut(a, " "); rest == name || strings.HasPrefix(rest, name+": ") {
						answer = a
					}
				}
			}
		}
		switch {
		case answer == "PASS "+name || answer == "OK "+name:
			wrong[name] = ""
		case answer == "":
			wrong[name] = "no answer:\n" + tail(out)
		default:
			_, details, _ := strings.Cut(out, "== "+name+"\n")
			details, _, _ = strings.Cut(details, "\n== ")
			wrong[name] = answer + "\n" + tail(details)
		}
	}
	return wrong
}

// tail keeps the end of a long output.
func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "...\n" + s[len(s)-most:]
	}
	return s
}

// dreyBinary builds the command once.
var dreyBinary = sync.OnceValues(func() (string, error) {
	name := filepath.Join(scratch, "drey")
	out, err := exec.Command("go", "build", "-o", name, "../tools/drey").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build drey: %w\n%s", err, out)
	}
	return name, nil
})

// scratch is a directory that lives as long as all tests.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "drey-interop")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		scratch = dir
		return m.Run()
	}())
}

// drey runs the command as a user would; it must succeed.
func drey(t *testing.T, env []string, args ...string) string {
	t.Helper()
	name, err := dreyBinary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(t, env, name, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(out))
	}
	return out
}

// refused runs the command, which must refuse because it would be unsafe.
func refused(t *testing.T, args ...string) {
	t.Helper()
	name, err := dreyBinary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(t, nil, name, args...)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("drey %s: want exit status 5, got %v\n%s", strings.Join(args, " "), err, tail(out))
	}
}

// snapshot is one that Flink wrote.
type snapshot struct {
	Case  string // name of the case
	Dir   string // relative to the directory of the case
	URI   string // of a snapshot that is not on local disk
	Truth string // path of the truth file
}

func (s snapshot) name() string { return s.Case + "/" + filepath.Base(s.Dir) }

// snapshots reads the truth files below dir, and copies them to keep, because dir will be removed.
func snapshots(t *testing.T, dir, keep string) []snapshot {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []snapshot
	for _, name := range names {
		data := read(t, name)
		var truth struct {
			Snapshots []struct{ Dir, URI string }
		}
		if err := json.Unmarshal(data, &truth); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := filepath.Base(filepath.Dir(name))
		kept := filepath.Join(keep, c+".json")
		write(t, kept, data)
		for _, s := range truth.Snapshots {
			all = append(all, snapshot{Case: c, Dir: s.Dir, URI: s.URI, Truth: kept})
		}
	}
	if len(all) == 0 {
		t.Fatalf("no snapshots below %s", dir)
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
