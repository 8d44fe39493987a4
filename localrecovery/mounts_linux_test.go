package localrecovery

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drey-state/drey/storage"
)

// tmpfs mounts a file system of its own, for which the test must run as root.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatalf("DREY_INTEROP=1, but a tmpfs can't be mounted: %v", err)
		}
		t.Skipf("a tmpfs can't be mounted, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// TestOtherDevice keeps the files of a database that is on another file system than the copies: they are copied, with
// one line in the log for the two file systems, whatever directories there are.
func TestOtherDevice(t *testing.T) {
	local, one, two, log := tmpfs(t, "size=8m"), tmpfs(t, "size=8m"), tmpfs(t, "size=8m"), &logged{}
	s := mustOpen(t, Options{Roots: []string{local + "/root"}, Logger: log.logger()})
	k := task(t, s, me)
	shared := func(name string) string { return "s3://b/shared/" + name }
	for n := range 3 {
		c := k.Begin(int64(n))
		f := c.FS(storage.NewMemory())
		for _, dir := range []string{one + "/db1", one + "/db2", two + "/db3", local + "/db4"} {
			u := shared(filepath.Base(dir))
			keep(t, f, u, write(t, dir+"/x", contentOf(u, 100000)))
		}
		c.Seal(t.Context())
		k.Confirm(int64(n))
	}
	if log.count("") != 2 || log.count("can't be hard-linked", one) != 1 || log.count("can't be hard-linked", two) != 1 {
		t.Errorf("logged %s", log.lines)
	}
	r := k.Restore(t.Context(), 2, failing{})
	for _, name := range []string{"db1", "db2", "db3", "db4"} {
		reads(t, r, shared(name), 100000)
	}
	if path, ok := r.Locate(t.Context(), shared("db4")); !ok || !os.SameFile(stat(t, path), stat(t, local+"/db4/x")) {
		t.Error("what is on the same file system is not linked")
	}
}

// TestReadOnlyDisk has the roots on a file system that was made read-only: checkpoints go on, restores use what is there, and a store is opened.
func TestReadOnlyDisk(t *testing.T) {
	dir, log, primary := tmpfs(t, "size=8m"), &logged{}, storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{dir}})
	k := task(t, s, me)
	sealedCopy(t, k, primary, 1, map[string]int{"a": 1000})
	put(t, k.Begin(2).FS(primary), uri(2, "unfinished"), 10)
	crash(s)
	check(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	s = mustOpen(t, Options{Roots: []string{dir}, Logger: log.logger()})
	k = task(t, s, me)
	r := k.Restore(t.Context(), 1, failing{})
	reads(t, r, uri(1, "a"), 1000)
	before := log.count("")
	c := k.Begin(3)
	f := c.FS(primary)
	put(t, f, uri(3, "a"), 100000)
	put(t, f, uri(3, "b"), 100000)
	keep(t, f, uri(3, "c"), write(t, t.TempDir()+"/c", nil))
	c.Seal(t.Context())
	reads(t, primary, uri(3, "a"), 100000)
	if got := log.count("") - before; got != 1 || log.count("is given up", "read-only") != 1 {
		t.Errorf("%d lines for a checkpoint: %s", got, log.lines)
	}
	k.Confirm(3)
	if got := copies(t, dir); len(got) != 2 {
		t.Errorf("%q on a read-only file system", got)
	}

	// It can be written again: what could not be removed goes with the next one.
	check(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=8m"))
	sealedCopy(t, k, primary, 4, map[string]int{"a": 1000})
	k.Confirm(5)
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestFullDisk writes a copy that doesn't fit: it goes, and makes room for what else is on the disk.
func TestFullDisk(t *testing.T) {
	dir, log, primary := tmpfs(t, "size=1m"), &logged{}, storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{dir}, Logger: log.logger()})
	k := task(t, s, me)
	sealedCopy(t, k, primary, 1, map[string]int{"a": 300 << 10})
	c := k.Begin(2)
	f := c.FS(primary)
	put(t, f, uri(2, "fits"), 300<<10)
	put(t, f, uri(2, "too large"), 1<<20)
	put(t, f, uri(2, "small"), 10)
	keep(t, f, uri(2, "copied"), write(t, t.TempDir()+"/copied", contentOf(uri(2, "copied"), 10)))
	c.Seal(t.Context())
	k.Confirm(2)
	for name, size := range map[string]int{"fits": 300 << 10, "too large": 1 << 20, "small": 10} {
		reads(t, primary, uri(2, name), size)
	}
	if log.count("") != 1 || log.count("is given up", "no space left") != 1 {
		t.Errorf("logged %s", log.lines)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	// The disk is full before the first byte: of inodes, at any of the directories and files that there are to be.
	for inodes := 2; inodes <= 7; inodes++ {
		full, log := tmpfs(t, fmt.Sprintf("size=1m,nr_inodes=%d", inodes)), &logged{}
		s = mustOpen(t, Options{Roots: []string{full}, Logger: log.logger()})
		k = task(t, s, me)
		sealedCopy(t, k, storage.NewMemory(), 3, map[string]int{"a": 10})
		// The root, its lock, three directories, the file and the index.
		if got := k.Checkpoints(); (len(got) == 1) != (inodes == 7) || inodes < 7 && log.count("is given up", "no space left") != 1 {
			t.Errorf("%d inodes: checkpoints %v, logged %s", inodes, got, log.lines)
		}
		s.Clean(func(TaskID) bool { return false })
		if left := names(t, full); len(left) > 0 {
			t.Errorf("%d inodes: left %q", inodes, left)
		}
		check(t, s.Close())
	}
}
