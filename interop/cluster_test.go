package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/tools"
)

// remote runs commands against a running cluster.
type remote struct {
	*live
	flink *rest.Client
}

// result is how a command ended.
type result struct {
	code        int
	out, errors string
}

func (r *remote) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	name, err := dreyBinary()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), name, append(args, "--job-manager", r.url)...)
	c.Stdout, c.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	return c
}

func ended(t *testing.T, c *exec.Cmd, err error) result {
	t.Helper()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), c.Stdout.(*bytes.Buffer).String(), c.Stderr.(*bytes.Buffer).String()}
}

func (r *remote) run(t *testing.T, args ...string) result {
	t.Helper()
	c := r.command(t, args...)
	return ended(t, c, c.Run())
}

// fails runs a command that must fail and say why.
func (r *remote) fails(t *testing.T, why string, args ...string) {
	t.Helper()
	if got := r.run(t, args...); got.code != 1 || !strings.Contains(got.errors, why) || strings.Contains(got.errors, "Exception:") {
		t.Errorf("drey %s: exit code %d, %q, want %q", strings.Join(args, " "), got.code, got.errors, why)
	}
}

// document runs a command that must succeed, and reads its document.
func document[T any](t *testing.T, r *remote, args ...string) *T {
	t.Helper()
	got := r.run(t, append(args, "--json")...)
	v := new(T)
	if got.code != 0 {
		t.Fatalf("drey %s: exit code %d: %s", strings.Join(args, " "), got.code, got.errors)
	}
	if err := json.Unmarshal([]byte(got.out), v); err != nil {
		t.Fatalf("drey %s: %v: %s", strings.Join(args, " "), err, got.out)
	}
	return v
}

// saved runs a command that takes a savepoint, and compares what it says with the directory that has come.
func (r *remote) saved(t *testing.T, state string, args ...string) string {
	t.Helper()
	before := r.savepoints(t)
	c := document[tools.ClusterChange](t, r, args...)
	after := slices.DeleteFunc(r.savepoints(t), func(d string) bool { return slices.Contains(before, d) })
	if len(after) != 1 || c.Savepoint != "file:"+after[0] || !c.Done || c.Job.State != state || c.Job.ID != r.job {
		t.Fatalf("drey %s: %+v, and %q came", strings.Join(args, " "), c, after)
	}
	s, err := metadata.Decode(read(t, filepath.Join(after[0], "_metadata")))
	if err != nil {
		t.Fatal(err)
	}
	kind := "canonical"
	if slices.Contains(args, "native") {
		kind = "native"
	}
	if out := drey(t, nil, "inspect", after[0]); len(s.Operators) < 3 || !strings.Contains(out, kind) {
		t.Errorf("drey %s: %d operators, not %s:\n%s", strings.Join(args, " "), len(s.Operators), kind, out)
	}
	return after[0]
}

func (r *remote) savepoints(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(r.dir, "sp", "savepoint-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// next starts another job on the cluster.
func (r *remote) next(t *testing.T, options string) {
	t.Helper()
	r.job = r.do(t, "next "+options)
	r.do(t, "submit")
}

// inProgress waits until Flink says that a savepoint is in progress.
func (r *remote) inProgress(t *testing.T) {
	t.Helper()
	until(t, func() string {
		s, err := r.flink.Checkpoints(t.Context(), r.job)
		if err != nil || s.Counts.InProgress != 1 {
			return fmt.Sprintf("no savepoint is in progress: %+v, %v", s, err)
		}
		return ""
	})
}

// TestCluster does to the jobs of a real Flink what its own command line does.
func TestCluster(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			r := &remote{live: v.live(t, t.TempDir())}
			var err error
			if r.flink, err = rest.New(r.url, rest.Options{}); err != nil {
				t.Fatal(err)
			}
			sp := "file://" + filepath.Join(r.dir, "sp")

			l := document[struct {
				Flink string
				Jobs  []tools.ClusterJob
			}](t, r, "list")
			if l.Flink != string(v) || len(l.Jobs) != 1 || l.Jobs[0].ID != r.job || l.Jobs[0].State != "RUNNING" || l.Jobs[0].Running != 4 {
				t.Errorf("list: %+v", l)
			}
			r.fails(t, "is not set. Property [target-directory] must be provided. Name DIR", "savepoint", r.job)
			r.fails(t, "is not set. Property [targetDirectory] must be provided. Name DIR", "stop", r.job)
			r.fails(t, "no such job", "savepoint", "ffff", sp)
			r.fails(t, "is not set", "cancel", "-s", r.job)

			r.do(t, "advance 1")
			r.do(t, "checkpoint") // 1
			first := r.saved(t, "RUNNING", "savepoint", r.job[:8], sp)
			drey(t, nil, "verify", "--deep", first)
			r.saved(t, "RUNNING", "savepoint", "--format", "native", r.job, filepath.Join(r.dir, "sp"))
			r.checkpoints(t)

			// Interrupted, and waited for again.
			r.do(t, "plan 4 hang")
			c := r.command(t, "savepoint", "--json", r.job, sp)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			r.inProgress(t)
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			got := ended(t, c, c.Wait())
			var pending struct{ Pending struct{ Trigger string } }
			if err := json.Unmarshal([]byte(got.out), &pending); err != nil || got.code != 130 || !strings.Contains(got.errors, "it goes on in the cluster") {
				t.Fatalf("interrupted: exit code %d, %v: %s%s", got.code, err, got.out, got.errors)
			}
			before := r.savepoints(t) // its directory is there already
			r.do(t, "release 4")
			if c := document[tools.ClusterChange](t, r, "savepoint", r.job, "--trigger", pending.Pending.Trigger); !slices.Contains(before, strings.TrimPrefix(c.Savepoint, "file:")) {
				t.Errorf("waited for again: %+v", c)
			}

			r.do(t, "plan 5 async")
			r.fails(t, "async failure asked for in checkpoint 5", "savepoint", r.job, sp)
			r.fails(t, "Failed to create savepoint directory at file:/proc/nowhere", "savepoint", r.job, "file:///proc/nowhere")

			// Flink deletes it.
			trigger, err := r.flink.DisposeSavepoint(t.Context(), "file:"+first)
			if err != nil {
				t.Fatal(err)
			}
			until(t, func() string {
				o, err := r.flink.Disposal(t.Context(), trigger)
				if err != nil {
					t.Fatal(err)
				}
				if _, done, err := o.Done(); err != nil || !done {
					return fmt.Sprint("not disposed of: ", err)
				}
				return ""
			})
			if slices.Contains(r.savepoints(t), first) {
				t.Errorf("%s is there after its disposal", first)
			}

			stopped := r.saved(t, "FINISHED", "stop", r.job, sp)
			r.fails(t, "the job has ended: it is FINISHED", "stop", r.job, sp)
			r.fails(t, "the job has ended: it is FINISHED", "cancel", r.job)

			// Another job goes on from there, on a cluster with a directory for savepoints.
			dir := t.TempDir()
			next := &remote{live: v.live(t, dir, "--name", "next", "--restore", "file://"+stopped, "--base", "1", "--conf", "state.savepoints.dir=file://"+filepath.Join(dir, "sp"))}
			a := document[tools.JobCheckpoints](t, next, "checkpoints", next.job)
			if f := a.Statistics.Latest.Restored; f == nil || !f.Savepoint || *f.Path != "file:"+stopped {
				t.Errorf("restored from %+v", f)
			}
			next.saved(t, "RUNNING", "savepoint", next.job)
			next.saved(t, "FINISHED", "stop", "--drain", "--format", "native", next.job)

			r.next(t, "--name third")
			r.saved(t, "CANCELED", "cancel", "--savepoint", r.job, sp)

			// Canceled while a savepoint is in progress.
			r.next(t, "--name fourth")
			r.do(t, "plan 1 hang")
			c = r.command(t, "savepoint", r.job, sp)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			r.inProgress(t)
			if c := document[tools.ClusterChange](t, r, "cancel", r.job); c.Job.State != "CANCELED" || c.Savepoint != "" {
				t.Errorf("cancel: %+v", c)
			}
			if got := ended(t, c, c.Wait()); got.code != 1 || !strings.Contains(got.errors, "came in between") {
				t.Errorf("savepoint of a job that is canceled: exit code %d: %s", got.code, got.errors)
			}
			r.do(t, "release 1")
			if c := document[tools.ClusterChange](t, r, "cancel", r.job); c.Job.State != "CANCELED" || !c.Done {
				t.Errorf("cancel once more: %+v", c)
			}
			if got := r.run(t, "list"); got.code != 0 || strings.Count(got.out, " FINISHED ") != 1 || strings.Count(got.out, " CANCELED ") != 2 {
				t.Errorf("list: %+v", got)
			}
			r.url = "http://127.0.0.1:1"
			r.fails(t, "connection refused", "list")
		})
	}
}

// checkpoints compares what Flink says of the job's checkpoints with the disk.
func (r *remote) checkpoints(t *testing.T) {
	t.Helper()
	until(t, func() string { // Flink's cache may be some seconds old
		a := document[tools.JobCheckpoints](t, r, "checkpoints", r.job)
		var told []string
		for _, e := range a.Retained {
			told = append(told, strings.TrimPrefix(*e.Path, "file:"))
		}
		want := r.savepoints(t)
		for _, id := range onDisk(t, r.live.checkpoints()) {
			want = append(want, filepath.Join(r.live.checkpoints(), fmt.Sprintf("chk-%d", id)))
		}
		slices.Sort(told)
		slices.Sort(want)
		if !slices.Equal(told, want) {
			return fmt.Sprintf("retained %q, on disk %q", told, want)
		}
		if a.Config.Backend != "EmbeddedRocksDBStateBackend" || a.Config.Mode != "exactly_once" || a.Config.Externalization.DeleteOnCancellation {
			t.Errorf("configuration %+v", a.Config)
		}
		return ""
	})
	d := document[tools.JobCheckpoints](t, r, "checkpoints", r.job, "--details", "1").Details[0]
	if len(d.Vertices) != 2 || d.Vertices[1].Name != "kv-long" || len(d.Vertices[1].TaskCheckpointDetails.Subtasks) != 2 {
		t.Fatalf("details %+v", d)
	}
	// What subtasks wrote is what lies in the directories, and what the metadata names.
	s, err := metadata.Decode(read(t, filepath.Join(r.live.checkpoints(), "chk-1", "_metadata")))
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	for ref := range s.Refs() {
		bytes += ref.Size
	}
	if d.Checkpoint.StateSize != bytes {
		t.Errorf("Flink says %d bytes, the metadata names %d", d.Checkpoint.StateSize, bytes)
	}
}
