package interop

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
)

// TestStateDiff compares the state of snapshots of one job: a canonical
// savepoint and an incremental RocksDB checkpoint without an event between
// them are equal, and after one event only that one's key differs.
func TestStateDiff(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			dir := t.TempDir()
			out := v.run(t, nil, "gen-random", "1", dir, "one-key")
			if !strings.Contains("\n"+out, "\nOK ") {
				t.Fatalf("Flink wrote nothing:\n%s", tail(out))
			}
			dir = filepath.Join(dir, string(v), "one-key")
			var truth struct {
				AfterOneEvent string
				Snapshots     []struct{ Dir, Command string }
			}
			decode(t, read(t, filepath.Join(dir, "truth.json")), &truth)
			last := len(truth.Snapshots) - 1
			savepoint, checkpoint := truth.Snapshots[last], truth.Snapshots[last-1]
			if !strings.HasPrefix(savepoint.Command, "savepoint --type CANONICAL") || checkpoint.Command != "checkpoint" {
				t.Fatalf("%+v", truth.Snapshots)
			}
			a, b, c := filepath.Join(dir, savepoint.Dir), filepath.Join(dir, checkpoint.Dir), filepath.Join(dir, truth.AfterOneEvent)
			for _, pair := range [][2]string{{a, b}, {b, a}, {a, a}, {c, c}} {
				if out, code := stateDiff(t, pair[0], pair[1]); code != 0 {
					t.Errorf("equal state: exit status %d\n%s", code, tail(out))
				}
			}
			// The event's key in the three operators with keyed state.
			want := map[string]string{"kv-long": `-40000`, "kv-string": `"key-00"`, "kv-pojo": `{"id":0,"tenant":"t0"}`}
			for _, from := range []string{a, b} {
				seen := map[string]int{}
				for _, d := range stateChanges(t, from, c) {
					if d.KeyGroup < 0 {
						continue // operator state: the source's position
					}
					uid := ""
					for u := range want {
						if metadata.UIDHash(u).String() == d.OperatorID {
							uid = u
						}
					}
					if key := canonical(d.Key); key != want[uid] {
						t.Errorf("unexpected difference of operator %q: %+v", uid, d)
					}
					seen[uid]++
				}
				if len(seen) != len(want) {
					t.Errorf("differences in %v, want the operators of %v", seen, want)
				}
			}
		})
	}
}

// stateDiff runs `drey diff --state`, and gives its exit status: 3 says that there are differences.
func stateDiff(t *testing.T, args ...string) (string, int) {
	t.Helper()
	name, err := dreyBinary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(t, nil, name, append([]string{"diff", "--state"}, args...)...)
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return out, 0
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return out, 3
	}
	t.Fatalf("%v\n%s", err, tail(out))
	return "", 0
}

// stateChange is a line of `drey diff --state --json` that tells of a difference.
type stateChange struct {
	Kind, OperatorID, State, Change string
	KeyGroup                        int
	Key                             any
}

func stateChanges(t *testing.T, a, b string) (list []stateChange) {
	t.Helper()
	out, code := stateDiff(t, "--json", "--limit", "-1", a, b)
	if code != 3 {
		t.Errorf("exit status %d", code)
	}
	for line := range strings.Lines(out) {
		var c stateChange
		decode(t, []byte(line), &c)
		if c.Kind == "difference" {
			list = append(list, c)
		}
	}
	return list
}
