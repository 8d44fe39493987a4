package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
)

// program runs drey as a process of its own; see TestMain.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: self, Args: append([]string{"drey"}, args...), Env: append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true")}
}

// checkpoint makes an incremental checkpoint with files of these sizes in shared/.
func checkpoint(t *testing.T, root string, sizes ...int) string {
	t.Helper()
	job := filepath.Join(root, "ck", "0123456789abcdef0123456789abcdef")
	chk := filepath.Join(job, "chk-1")
	for _, d := range []string{chk, filepath.Join(job, "shared")} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	h := &metadata.Incremental{BackendID: "b", KeyGroups: metadata.KeyGroupRange{Count: 128}, Meta: &metadata.ByteStream{Name: "m"}, ID: "i"}
	for i, size := range sizes {
		name := filepath.Join(job, "shared", fmt.Sprintf("%08d", i))
		if err := os.WriteFile(name, bytes.Repeat([]byte{byte(i)}, size), 0o666); err != nil {
			t.Fatal(err)
		}
		h.Shared = append(h.Shared, metadata.LocalFile{LocalName: metadata.Text(fmt.Sprintf("%06d.sst", i)), Stream: &metadata.File{Path: metadata.Text("file:" + name), Size: int64(size)}})
	}
	data, err := metadata.Encode(&metadata.Snapshot{Version: metadata.Version4, Properties: metadata.NullProperties, Operators: []metadata.Operator{
		{ID: metadata.UIDHash("op"), Parallelism: 1, MaxParallelism: 128, Subtasks: []metadata.Subtask{{State: &metadata.SubtaskState{ManagedKeyed: h}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(chk, "_metadata"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	return chk
}

// litter lists what is in dir and is neither metadata nor named like the state of checkpoint.
func litter(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "_metadata" && (len(d.Name()) != 8 || strings.Trim(d.Name(), "0123456789") != "") {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

// TestLitterOfKilledRun has a run die when a file and the metadata were visible and
// their temporary names not yet gone.
func TestLitterOfKilledRun(t *testing.T) {
	src, dst := checkpoint(t, t.TempDir(), 10, 20), filepath.Join(t.TempDir(), "to")
	mustDrey(t, "relocate", src, dst)
	for _, name := range []string{"shared/.00000001.drey-0a1b2c3d.tmp", "._metadata.drey-0a1b2c3d.tmp"} {
		if err := os.WriteFile(filepath.Join(dst, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	mustDrey(t, "relocate", src, dst)
	if names := litter(t, dst); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// TestKill kills relocate at random points: the target never holds a
// _metadata that names a missing file, and a rerun completes and leaves no litter.
func TestKill(t *testing.T) {
	const kills, files = 50, 120
	src := checkpoint(t, t.TempDir(), slices.Repeat([]int{20_000}, files)...)
	target := func(i int) string { return filepath.Join(t.TempDir(), fmt.Sprint(i)) }

	start := time.Now()
	if out, err := program(t, "relocate", "-j", "2", src, target(0)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(start)

	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	killed, withMetadata := 0, 0
	for i := 1; killed < kills; i++ {
		if i > 10*kills {
			t.Fatalf("only %d of %d runs were killed", killed, i)
		}
		dst := target(i)
		cmd := program(t, "relocate", "-j", "2", src, dst)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rnd.Int64N(int64(whole))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			continue // it was faster
		}
		killed++
		if _, err := os.Stat(filepath.Join(dst, "_metadata")); err == nil {
			withMetadata++
			if out, err := program(t, "verify", dst).CombinedOutput(); err != nil {
				t.Fatalf("seed %d, run %d: metadata of an incomplete copy: %v: %s", seed, i, err, out)
			}
		}
		if out, err := program(t, "relocate", src, dst).CombinedOutput(); err != nil {
			t.Fatalf("seed %d, run %d: rerun: %v: %s", seed, i, err, out)
		}
		if out, err := program(t, "verify", dst).CombinedOutput(); err != nil {
			t.Fatalf("seed %d, run %d: after the rerun: %v: %s", seed, i, err, out)
		}
		if names := litter(t, dst); len(names) > 0 {
			t.Fatalf("seed %d, run %d: left behind: %v", seed, i, names)
		}
	}
	t.Logf("%d runs were killed, %d of them after the metadata was written", killed, withMetadata)
}

// TestInterruptBlockedOutput interrupts a dump into a pipe that nobody reads on.
func TestInterruptBlockedOutput(t *testing.T) {
	cmd := program(t, "dump", "testdata/snapshots/1.20.5/sp-canonical-hashmap-files/savepoint-508158-bcdaedc881d5")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // until the pipe is full; a signal before that ends it anyway
	ended := make(chan error, 1)
	go func() {
		_, err := cmd.Process.Wait()
		ended <- err
	}()
	for range 100 {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	t.Fatal("runs on after 100 signals")
}
