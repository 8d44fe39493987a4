package interop

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/tools"
)

// TestGuard asks a running Flink what it holds, and compares that with the
// snapshots on disk at every stage of a job's life.
func TestGuard(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			dir := t.TempDir()
			l := v.live(t, dir)
			m := jobManager(t, l.url)

			heldIs(t, m, l)
			for i := 1; i <= 5; i++ {
				l.do(t, fmt.Sprintf("advance %d", i))
				l.do(t, "checkpoint")
				if i == 2 {
					l.do(t, "savepoint CANONICAL") // 3
				}
			}
			if j := heldIs(t, m, l); len(j.Snapshots) != 4 || j.UnlistedBelow != 0 || j.Holds(2) != "" || !slices.Equal(j.Directories, []string{"file:" + l.checkpoints()}) {
				t.Errorf("three checkpoints and a savepoint: %+v", j)
			}

			l.do(t, "plan 7 hang")
			l.do(t, "begin")
			l.do(t, "plan 8 hang")
			l.do(t, "begin-savepoint NATIVE")
			j := heldIs(t, m, l, 7, 8)
			if oldest := j.Snapshots[len(j.Snapshots)-1]; j.KeepSince.Before(oldest.Triggered) || !j.KeepSince.Before(j.Snapshots[1].Triggered) {
				t.Errorf("KeepSince %s of %+v", j.KeepSince, j.Snapshots)
			}
			l.do(t, "release 7")
			l.do(t, "release 8")

			l.do(t, "advance 6")
			l.do(t, "fail")
			j = heldIs(t, m, l)
			if j.Restored == nil || j.Restored.InProgress || j.Restored.Savepoint || j.Holds(j.Restored.ID) == "" {
				t.Errorf("after a failure: %+v", j)
			}
			from := l.do(t, "stop NATIVE")
			if j = heldIs(t, m, l); !j.Ended || !j.KeepSince.IsZero() || !slices.ContainsFunc(j.Snapshots, func(s tools.HeldSnapshot) bool { return s.Path == "file:"+from }) {
				t.Errorf("after the end, with savepoint %s: %+v", from, j)
			}

			// A second job, whose history is shorter than what it retains.
			next := v.live(t, t.TempDir(), "--name", "next", "--restore", "file://"+from, "--base", "7", "--conf", "web.checkpoints.history=1")
			m = jobManager(t, next.url)
			if j = heldIs(t, m, next); j.Restored == nil || j.Restored.Path != "file:"+from || !j.Restored.Savepoint {
				t.Errorf("restored from %s: %+v", from, j.Restored)
			}
			for i := 8; i <= 11; i++ {
				next.do(t, fmt.Sprintf("advance %d", i))
				next.do(t, "checkpoint")
			}
			until(t, func() string {
				h := held(t, m)
				ids := onDisk(t, next.checkpoints())
				if j := h.Jobs[0]; len(ids) != 3 || len(j.Snapshots) != 1 || j.UnlistedBelow != ids[2] || j.Holds(ids[0]) == "" || j.Holds(ids[1]) == "" || j.Holds(ids[2]) == "" {
					return fmt.Sprintf("on disk %d, held %+v", ids, j)
				}
				return ""
			})
		})
	}
}

// TestGuardMoving asks while checkpoints complete, fail and are discarded all
// the time and tasks fail. Flink's answers come from its cache, as usual. What
// the guard lets go must not be part of any checkpoint that is there later.
func TestGuardMoving(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			l := v.live(t, t.TempDir(), "--conf", "execution.checkpointing.interval=250 ms", "--conf", "execution.checkpointing.min-pause=0 s")
			m := jobManager(t, l.url)
			for id := 4; id < 400; id += 6 {
				l.do(t, fmt.Sprintf("plan %d async", id))
			}
			// Whether Flink leaves litter is by chance; this must be let go in the end.
			planted := filepath.Join(l.checkpoints(), "shared", "planted")
			write(t, planted, []byte("litter"))
			const enough = 25                // the id of the checkpoint that ends the test
			free := map[string]string{}      // file -> when and why it could have been deleted
			end := time.Now().Add(limit / 3) // the machine may do other things
			answers, newest := 0, int64(0)
			for ; newest < enough; answers++ {
				if time.Now().After(end) {
					t.Fatalf("only %d checkpoints", newest)
				}
				l.do(t, fmt.Sprintf("advance %d", answers*3))
				if answers%20 == 19 {
					l.do(t, "fail")
				}
				j := held(t, m).Jobs[0]
				files := filesBelow(t, l.checkpoints()) // those older than KeepSince were there when it was asked
				used := map[string]bool{}
				for _, id := range onDisk(t, l.checkpoints()) {
					newest = max(newest, id)
					for _, f := range references(t, l.checkpoints(), id) {
						used[f] = true
						if why, ok := free[f]; ok {
							t.Errorf("chk-%d needs %s, which was free: %s", id, f, why)
						}
					}
				}
				for f, written := range files {
					if !used[f] && written.Before(j.KeepSince) && !heldDirectory(j, f) {
						free[f] = fmt.Sprintf("answer %d, written %s, KeepSince %s", answers, written, j.KeepSince)
					}
				}
				time.Sleep(200 * time.Millisecond)
			}
			if free[planted] == "" {
				t.Errorf("litter from before the first checkpoint is not free after %d", newest)
			}
			t.Logf("Flink %s: %d checkpoints, %d answers, %d files free", v, newest, answers, len(free))
		})
	}
}

func jobManager(t *testing.T, url string) *tools.JobManager {
	t.Helper()
	m, err := tools.NewJobManager(url, tools.JobManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func held(t *testing.T, m *tools.JobManager) *tools.Held {
	t.Helper()
	h, err := m.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Jobs) != 1 {
		t.Fatalf("%d jobs: %+v", len(h.Jobs), h)
	}
	return h
}

func (l *live) checkpoints() string { return filepath.Join(l.dir, "ckpt", l.job) }

// heldIs waits until the complete snapshots that Flink holds are those on
// disk, and those in progress are these; its cache may be some seconds old.
func heldIs(t *testing.T, m *tools.JobManager, l *live, inProgress ...int64) tools.HeldJob {
	t.Helper()
	var j tools.HeldJob
	until(t, func() string {
		j = held(t, m).Jobs[0]
		var complete []string
		var moving []int64
		for _, s := range j.Snapshots {
			if s.InProgress {
				moving = append(moving, s.ID)
			} else {
				complete = append(complete, strings.TrimPrefix(s.Path, "file:"))
			}
		}
		slices.Sort(complete)
		slices.Sort(moving)
		var want []string
		for _, pattern := range []string{filepath.Join(l.checkpoints(), "chk-*"), filepath.Join(l.dir, "sp", "savepoint-*")} {
			names, err := filepath.Glob(filepath.Join(pattern, "_metadata"))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				want = append(want, filepath.Dir(n))
			}
		}
		slices.Sort(want)
		if !slices.Equal(complete, want) || !slices.Equal(moving, inProgress) {
			return fmt.Sprintf("held %q and in progress %d; on disk %q, and in progress %d", complete, moving, want, inProgress)
		}
		return ""
	})
	return j
}

// until asks again until nothing is wrong.
func until(t *testing.T, wrong func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		w := wrong()
		if w == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(w)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// onDisk gives the ids of the complete checkpoints.
func onDisk(t *testing.T, dir string) []int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "chk-*", "_metadata"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, n := range names {
		id, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(filepath.Dir(n)), "chk-"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// references gives the files of a checkpoint; none if Flink has just discarded it.
func references(t *testing.T, dir string, id int64) []string {
	t.Helper()
	chk := filepath.Join(dir, fmt.Sprintf("chk-%d", id))
	data, err := os.ReadFile(filepath.Join(chk, "_metadata"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(chk, "_metadata")}
	for r := range s.Refs() {
		if r.Kind == metadata.RefRelative {
			files = append(files, filepath.Join(chk, r.Path))
		} else {
			files = append(files, filepath.Clean(strings.TrimPrefix(r.Path, "file:")))
		}
	}
	return files
}

// filesBelow gives all files and when they were written; Flink deletes some meanwhile.
func filesBelow(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	files := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				files[name] = info.ModTime()
			}
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// heldDirectory says whether a file is in the directory of a checkpoint that the job holds.
func heldDirectory(j tools.HeldJob, file string) bool {
	name, ok := strings.CutPrefix(filepath.Base(filepath.Dir(file)), "chk-")
	id, err := strconv.ParseInt(name, 10, 64)
	return ok && err == nil && j.Holds(id) != ""
}
