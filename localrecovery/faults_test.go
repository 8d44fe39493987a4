package localrecovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

var errDisk = errors.New("a fault of the disk")

// life is what a task does in a while, with a fault on local disk.
type life struct {
	root, db string
	primary  *storage.Memory
	written  map[string]int // what is in the primary store, with sizes

	mu    sync.Mutex
	steps int
	fault func(n int) error // at step n
	log   *logged

	sealedAt, endAt map[int]int // the step before which a copy was sealed, and its removal began
}

func newLife(t *testing.T, fault func(n int) error) *life {
	l := &life{
		root: t.TempDir(), db: t.TempDir(), primary: storage.NewMemory(), written: map[string]int{}, fault: fault, log: &logged{},
		sealedAt: map[int]int{}, endAt: map[int]int{},
	}
	for _, name := range []string{"base", "far", "mine"} {
		write(t, filepath.Join(l.db, name), contentOf("s3://b/shared/"+name, 2*bufferSize+5))
	}
	return l
}

func (l *life) step(op, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	if err := l.fault(l.steps); err != nil {
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	if op == "link" && strings.HasSuffix(name, "chk_2/2") {
		return &os.LinkError{Op: op, Err: syscall.EXDEV} // the file "far"
	}
	return nil
}

func (l *life) put(t *testing.T, f storage.FS, uri string, size int) {
	t.Helper()
	put(t, f, uri, size)
	l.written[uri] = size
}

func (l *life) shared(t *testing.T, f storage.FS, name string, upload bool) {
	uri := "s3://b/shared/" + name
	keep(t, f, uri, filepath.Join(l.db, name))
	if upload {
		l.put(t, f, uri, 2*bufferSize+5)
	}
}

func (l *life) seal(t *testing.T, c *Copy) {
	c.Seal(t.Context())
	l.sealedAt[int(c.checkpoint)] = l.steps
}

func (l *life) run(t *testing.T) {
	s, err := Open(Options{Roots: []string{l.root}, fault: l.step, Logger: l.log.logger(), Checksums: true})
	check(t, err)
	k := task(t, s, me)

	c := k.Begin(1)
	l.put(t, c.FS(l.primary), uri(1, "a"), 10)
	l.shared(t, c.FS(l.primary), "base", true)
	l.seal(t, c)
	k.Confirm(1)

	c = k.Begin(2)
	f := c.FS(l.primary)
	l.shared(t, f, "base", false)
	l.shared(t, f, "far", true)
	l.shared(t, f, "mine", false) // has no checksum before Seal
	l.put(t, f, uri(2, "large"), 3*bufferSize)
	w, err := f.Create(t.Context(), uri(2, "aborted"), storage.CreateOptions{})
	check(t, err)
	w.Write(make([]byte, 100))
	w.Abort()
	l.put(t, f, uri(2, "deleted"), 10)
	check(t, f.Delete(t.Context(), uri(2, "deleted")))
	delete(l.written, uri(2, "deleted"))
	l.seal(t, c)
	l.endAt[1] = l.steps
	k.Confirm(2)

	c = k.Begin(3)
	l.put(t, c.FS(l.primary), uri(3, "a"), 10)
	l.seal(t, c)
	l.endAt[3] = l.steps
	k.Discard(3)

	c = k.Begin(4)
	l.put(t, c.FS(l.primary), uri(4, "a"), 10)
	s.Close()
}

// contents are the objects that a whole copy of checkpoint 1 and 2 has.
func (l *life) contents(n int) map[string]int {
	shared := "s3://b/shared/"
	return []map[string]int{1: {uri(1, "a"): 10, shared + "base": 2*bufferSize + 5},
		2: {shared + "base": 2*bufferSize + 5, shared + "far": 2*bufferSize + 5, shared + "mine": 2*bufferSize + 5, uri(2, "large"): 3 * bufferSize},
		3: {uri(3, "a"): 10}}[n]
}

// after checks what must be true whatever happened: the primary store has everything, nothing is left but complete copies, what these have is
// right, the database's files are as they were, and in the end nothing is left.
func (l *life) after(t *testing.T, what string, must []int) {
	t.Helper()
	for u, size := range l.written {
		reads(t, l.primary, u, size)
	}
	s := mustOpen(t, Options{Roots: []string{l.root}, Checksums: true})
	k := task(t, s, me)
	checkpoints := k.Checkpoints()
	for _, n := range must {
		if !slices.Contains(checkpoints, int64(n)) {
			t.Errorf("%s: the copy of checkpoint %d is lost; there are %v", what, n, checkpoints)
		}
	}
	if got := copies(t, l.root); len(got) != len(checkpoints) {
		t.Errorf("%s: %q, and checkpoints %v", what, got, checkpoints)
	}
	for _, n := range checkpoints {
		c := k.copies[n]
		want := []string{indexName}
		for _, f := range c.files {
			want = append(want, f.name)
			data, err := os.ReadFile(c.root.path(c.dir + "/" + f.name))
			if err != nil || !bytes.Equal(data, contentOf(f.uri, len(data))) || int64(len(data)) != f.size || l.contents(int(n))[f.uri] != len(data) {
				t.Errorf("%s: the copy of %s in checkpoint %d is not right: %v", what, f.uri, n, err)
			}
		}
		slices.Sort(want)
		var got []string
		entries, err := os.ReadDir(c.root.path(c.dir))
		check(t, err)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q in checkpoint %d, want %q", what, got, n, want)
		}
	}
	for _, n := range must {
		if got, want := len(k.copies[int64(n)].files), len(l.contents(n)); got != want {
			t.Errorf("%s: the copy of checkpoint %d has %d files of %d", what, n, got, want)
		}
	}
	for _, name := range []string{"base", "far", "mine"} {
		data, err := os.ReadFile(filepath.Join(l.db, name))
		if err != nil || !bytes.Equal(data, contentOf("s3://b/shared/"+name, len(data))) {
			t.Errorf("%s: %s was touched", what, name)
		}
	}
	k.Confirm(9)
	if left := names(t, l.root); len(left) > 0 {
		t.Errorf("%s: left %q", what, left)
	}
	s.Close()
}

func TestFaultsOfTheDisk(t *testing.T) {
	whole := newLife(t, func(int) error { return nil })
	whole.run(t)
	if n := whole.log.count("WARN"); n != 1 || whole.log.count("can't be hard-linked") != 1 {
		t.Errorf("%d warnings: %s", n, whole.log.lines)
	}
	whole.after(t, "without faults", []int{2})
	steps := whole.steps
	t.Logf("%d steps", steps)
	for k := 1; k <= steps; k++ {
		what := fmt.Sprintf("fault at step %d", k)
		l := newLife(t, func(n int) error {
			if n == k {
				return errDisk
			}
			return nil
		})
		l.run(t)
		l.after(t, what, nil)

		// A disk that fails from some time on.
		l = newLife(t, func(n int) error {
			if n >= k {
				return errDisk
			}
			return nil
		})
		l.run(t)
		l.after(t, what+" and all later ones", nil)
	}
}

func TestCrashAnywhere(t *testing.T) {
	whole := newLife(t, func(int) error { return nil })
	whole.run(t)
	for k := 1; k <= whole.steps; k++ {
		l := newLife(t, func(n int) error {
			if n >= k {
				return errCrash
			}
			return nil
		})
		l.run(t)
		var must []int
		for n, at := range whole.sealedAt {
			if end, ok := whole.endAt[n]; k > at && (!ok || k <= end+1) && n != 4 {
				must = append(must, n)
			}
		}
		l.after(t, fmt.Sprintf("crash at step %d", k), must)
	}
}

// TestFaultsOfThePrimary has every step of the primary store fail, with its work done or not: the copy has nothing that is
// not in the primary store.
func TestFaultsOfThePrimary(t *testing.T) {
	for _, done := range []bool{false, true} {
		for k := 1; ; k++ {
			primary := storage.NewMemory()
			faulty := storagetest.NewFaulty(primary, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.N == k {
					return &storagetest.Fault{Err: errFailing, Done: done}
				}
				return nil
			}})
			root, db := t.TempDir(), t.TempDir()
			s := mustOpen(t, Options{Roots: []string{root}})
			kt := task(t, s, me)
			c := kt.Begin(1)
			f := c.FS(faulty)
			wrong := 0
			for _, name := range []string{"a", "b", "kept", "a"} {
				u, o, data := uri(1, name), storage.CreateOptions{}, contentOf(uri(1, name), 100000)
				if name == "kept" {
					keep(t, f, u, write(t, db+"/kept", data))
				}
				if has, _ := primary.Stat(t.Context(), u); has.Size > 0 {
					o.Overwrite, data = true, []byte("replaced")
				}
				if err := storage.WriteFile(t.Context(), f, u, data, o); errors.Is(err, errFailing) {
					wrong++
				} else {
					check(t, err)
				}
			}
			c.Seal(t.Context())
			if wrong == 0 {
				if k != faulty.Steps()+1 || k != 13 {
					t.Errorf("the fault at step %d of %d is not told", k, faulty.Steps())
				}
				break
			}
			// Each object is created, written and committed.
			missing := []string{"", "", "", "b", "b", "b", "kept", "kept", "kept", "", "", "a"}[k-1]
			var got, want []string
			for _, name := range []string{"a", "b", "kept"} {
				u := uri(1, name)
				if name != missing {
					want = append(want, u)
				}
				local, ok := kt.copies[1].files[u]
				if !ok {
					continue
				}
				got = append(got, u)
				data, err := os.ReadFile(filepath.Join(root, dirOf(me, 1), local.name))
				check(t, err)
				there, err := storage.ReadAll(t.Context(), primary, u, 0)
				check(t, err)
				if !bytes.Equal(data, there) {
					t.Errorf("step %d, done %v: the copy of %s is not what the primary store has", k, done, u)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("step %d, done %v: the copy has %q, want %q", k, done, got, want)
			}
		}
	}
}

func TestHardLinks(t *testing.T) {
	root, db, primary := t.TempDir(), t.TempDir(), storage.NewMemory()
	log := &logged{}
	s := mustOpen(t, Options{Roots: []string{root}, Logger: log.logger()})
	k := task(t, s, me)
	c := k.Begin(1)
	f := c.FS(primary)
	name := write(t, db+"/1.sst", contentOf(uri(1, "x"), 1000))
	check(t, os.Chmod(name, 0o400))
	check(t, os.Symlink(name, db+"/link"))
	keep(t, f, uri(1, "x"), name)
	keep(t, f, uri(1, "y"), db+"/link")
	keep(t, f, uri(1, "x"), db+"/other") // it has this one already
	put(t, f, uri(1, "x"), 1000)
	w, err := f.Create(t.Context(), uri(1, "z"), storage.CreateOptions{})
	check(t, err)
	w.Write(contentOf(uri(1, "z"), 1000))
	keep(t, f, uri(1, "z"), name+".missing") // left out
	keep(t, f, uri(1, "z"), write(t, db+"/z", contentOf(uri(1, "z"), 1000)))
	check(t, w.Commit()) // it is there once
	keep(t, f, uri(1, "z"), name)
	if log.count("") != 1 || log.count("is left out", "missing") != 1 {
		t.Errorf("logged: %s", log.lines)
	}

	// What can't be kept is left out.
	for _, bad := range []string{db + "/missing", db, "relative", "", "s3://bucket/x", "/dev/null"} {
		keep(t, f, uri(1, "bad "+bad), bad)
	}
	// It is not the file that is written.
	keep(t, f, uri(1, "short"), write(t, db+"/short", contentOf(uri(1, "short"), 99)))
	put(t, f, uri(1, "short"), 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.(storage.Keeper).Keep(ctx, uri(1, "canceled"), name)
	c.Seal(t.Context())
	if log.count("WARN", "is left out") != 1 || log.count("WARN", "files=9") != 1 {
		t.Errorf("logged: %s", log.lines)
	}
	if got := len(k.copies[1].files); got != 3 {
		t.Errorf("%d files", got)
	}
	r := k.Restore(t.Context(), 1, failing{})
	for _, u := range []string{uri(1, "x"), uri(1, "y")} {
		path, ok := r.Locate(t.Context(), u)
		if !ok || !os.SameFile(stat(t, path), stat(t, name)) {
			t.Errorf("%s is no link of the backend's file", path)
		}
	}
	reads(t, r, uri(1, "z"), 1000)
	entries, err := os.ReadDir(filepath.Join(root, dirOf(me, 1)))
	check(t, err)
	if len(entries) != 4 {
		t.Errorf("%d files of three objects and an index", len(entries))
	}
	s.Clean(func(TaskID) bool { return false })
	if fi := stat(t, name); fi.Mode().Perm() != 0o400 || fi.Size() != 1000 {
		t.Errorf("the source is %v", fi)
	}
}

// TestCopiesWhereLinksFail gives link(2)'s errors; mounts_linux_test.go has the real ones.
func TestCopiesWhereLinksFail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("errors of link(2)")
	}
	for _, code := range []syscall.Errno{syscall.EXDEV, syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.EMLINK, syscall.ENOSYS} {
		root, db, log := t.TempDir(), t.TempDir(), &logged{}
		s := mustOpen(t, Options{Roots: []string{root}, Logger: log.logger(), fault: func(op, _ string) error {
			if op == "link" {
				return &os.LinkError{Op: op, Err: code}
			}
			return nil
		}})
		k := task(t, s, me)
		for n := range 3 {
			c := k.Begin(int64(n))
			for _, name := range []string{"a", "b", "empty"} {
				u := "s3://b/shared/" + name
				size := 100000 * (len(name) % 5)
				keep(t, c.FS(storage.NewMemory()), u, write(t, filepath.Join(db, name), contentOf(u, size)))
			}
			c.Seal(t.Context())
			k.Confirm(int64(n))
		}
		if log.count("") != 1 || log.count("can't be hard-linked", code.Error(), db, root) != 1 {
			t.Errorf("%v: logged %s", code, log.lines)
		}
		r := k.Restore(t.Context(), 2, failing{})
		for _, name := range []string{"a", "b", "empty"} {
			u := "s3://b/shared/" + name
			reads(t, r, u, 100000*(len(name)%5))
			path, ok := r.Locate(t.Context(), u)
			if !ok || os.SameFile(stat(t, path), stat(t, filepath.Join(db, name))) {
				t.Errorf("%s is a link", name)
			}
		}
	}
	// Another failure is that of the one file.
	log := &logged{}
	s := mustOpen(t, Options{Roots: []string{t.TempDir()}, Logger: log.logger(), fault: func(op, _ string) error {
		if op == "link" {
			return &os.LinkError{Op: op, Err: syscall.EIO}
		}
		return nil
	}})
	k := task(t, s, me)
	c := k.Begin(1)
	keep(t, c.FS(storage.NewMemory()), uri(1, "a"), write(t, t.TempDir()+"/a", nil))
	put(t, c.FS(storage.NewMemory()), uri(1, "b"), 1)
	c.Seal(t.Context())
	if got := len(k.copies[1].files); got != 1 || log.count("is left out") != 1 {
		t.Errorf("%d files, logged %s", got, log.lines)
	}
}

// TestFallback has a task restore of which some local files are not as they were: each of them, and no other, comes from the primary store.
func TestFallback(t *testing.T) {
	const size = 3*bufferSize + 1
	flip := func(name string) error {
		data, err := os.ReadFile(name)
		data[len(data)/2] ^= 1
		return errors.Join(err, os.WriteFile(name, data, 0o666))
	}
	for name, tc := range map[string]struct {
		damage    func(name string) error
		checksums bool
		otherBoot bool
		local     bool
	}{
		"untouched":                    {damage: func(string) error { return nil }, local: true},
		"untouched, checksums":         {damage: func(string) error { return nil }, checksums: true, local: true},
		"untouched, machine restarted": {damage: func(string) error { return nil }, otherBoot: true, local: true},
		"missing":                      {damage: os.Remove},
		"shorter":                      {damage: func(name string) error { return os.Truncate(name, size-1) }},
		"empty":                        {damage: func(name string) error { return os.Truncate(name, 0) }},
		"longer":                       {damage: func(name string) error { return os.Truncate(name, size+1) }},
		"other bytes, checksums":       {damage: flip, checksums: true},
		"other bytes, restarted":       {damage: flip, otherBoot: true},
		"a directory": {damage: func(name string) error {
			return errors.Join(os.Remove(name), os.Mkdir(name, 0o777))
		}},
		"a link": {damage: func(name string) error {
			return errors.Join(os.Rename(name, name+"00"), os.Symlink(name+"00", name))
		}},
		"a pipe": {damage: func(name string) error { return errors.Join(os.Remove(name), mkfifo(name)) }},
	} {
		t.Run(name, func(t *testing.T) {
			root, primary, log := t.TempDir(), storage.NewMemory(), &logged{}
			s := mustOpen(t, Options{Roots: []string{root}})
			k := task(t, s, me)
			c := k.Begin(1)
			put(t, c.FS(primary), uri(1, "a"), size)
			put(t, c.FS(primary), uri(1, "b"), size)
			c.Seal(t.Context())
			check(t, s.Close())
			if !tc.otherBoot {
				index := filepath.Join(root, dirOf(me, 1), indexName)
				data, err := os.ReadFile(index)
				check(t, err)
				x, err := decodeIndex(data)
				check(t, err)
				x.boot = "this-one"
				check(t, os.WriteFile(index, x.encode(), 0o666))
			}
			s = mustOpen(t, Options{Roots: []string{root}, Checksums: tc.checksums, Logger: log.logger()})
			s.boot = "this-one"
			r := task(t, s, me).Restore(t.Context(), 1, primary)
			damaged, ok := r.Locate(t.Context(), uri(1, "a")) // good until now
			if !ok {
				t.Fatal("there is no local file")
			}
			check(t, tc.damage(damaged))
			r = task(t, s, me).Restore(t.Context(), 1, primary)
			for range 2 {
				reads(t, r, uri(1, "a"), size)
				reads(t, r, uri(1, "b"), size)
				if _, ok := r.Locate(t.Context(), uri(1, "a")); ok != tc.local {
					t.Errorf("Locate says %v", ok)
				}
				if _, ok := r.Locate(t.Context(), uri(1, "b")); !ok {
					t.Error("the other file is not found")
				}
			}
			want := Stats{LocalFiles: 4, RemoteFiles: 2, LocalBytes: 4 * size, RemoteBytes: 2 * size}
			if tc.local {
				want = Stats{LocalFiles: 8, LocalBytes: 8 * size}
			}
			if got := r.Stats(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			lines := 1
			if tc.local {
				lines = 0
			}
			if got := log.count("is not used"); got != lines {
				t.Errorf("logged %s", log.lines)
			}
			// Where neither has it, the error is that of the primary store.
			check(t, primary.Delete(t.Context(), uri(1, "a")))
			if _, err := r.Open(t.Context(), uri(1, "a")); !tc.local && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// TestLinkedWithoutChecksum restores after the machine was started anew: a file of which nobody made a checksum is not trusted.
func TestLinkedWithoutChecksum(t *testing.T) {
	for _, checksums := range []bool{false, true} {
		root, db, primary := t.TempDir(), t.TempDir(), storage.NewMemory()
		s := mustOpen(t, Options{Roots: []string{root}, Checksums: checksums})
		s.boot = "before"
		k := task(t, s, me)
		for n := range 2 {
			c := k.Begin(int64(n))
			f := c.FS(primary)
			for _, name := range []string{"mine", "old"} {
				u := "s3://b/shared/" + name
				keep(t, f, u, write(t, filepath.Join(db, name), contentOf(u, 1000)))
				if n == 0 && name == "mine" {
					put(t, f, u, 1000)
				}
			}
			c.Seal(t.Context())
			k.Confirm(int64(n))
		}
		put(t, primary, "s3://b/shared/old", 1000) // by another task, long ago
		check(t, s.Close())
		s = mustOpen(t, Options{Roots: []string{root}})
		s.boot = "after"
		k = task(t, s, me)
		r := k.Restore(t.Context(), 1, primary)
		reads(t, r, "s3://b/shared/mine", 1000)
		reads(t, r, "s3://b/shared/old", 1000)
		want := Stats{LocalFiles: 1, LocalBytes: 1000, RemoteFiles: 1, RemoteBytes: 1000}
		if checksums {
			want = Stats{LocalFiles: 2, LocalBytes: 2000}
		}
		if got := r.Stats(); got != want {
			t.Errorf("checksums %v: %+v, want %+v", checksums, got, want)
		}
	}
}

// TestReadErrors has a local file fail in the middle of being read.
func TestReadErrors(t *testing.T) {
	const size = 10 * 1000
	for k := 1; k <= 4; k++ {
		primary, n := storage.NewMemory(), 0
		s := mustOpen(t, Options{Roots: []string{t.TempDir()}, fault: func(op, name string) error {
			if op != "read" {
				return nil
			}
			if n++; n >= k && strings.HasSuffix(name, "/1") {
				return errDisk
			}
			return nil
		}})
		kt := task(t, s, me)
		sealedCopy(t, kt, primary, 1, map[string]int{"a": size})
		faulty := storagetest.NewFaulty(primary, storagetest.FaultOptions{ShortReads: true})
		want := contentOf(uri(1, "a"), size)

		n = 0
		r := kt.Restore(t.Context(), 1, faulty)
		o, err := r.Open(t.Context(), uri(1, "a"))
		check(t, err)
		rc, err := o.Reader(t.Context(), 5)
		check(t, err)
		var got []byte
		for buf := make([]byte, 3000); ; {
			m, err := rc.Read(buf)
			got = append(got, buf[:m]...)
			if err == io.EOF {
				break
			}
			check(t, err)
		}
		if !bytes.Equal(got, want[5:]) {
			t.Errorf("k=%d: other bytes are streamed", k)
		}
		stats := r.Stats()
		if stats.LocalBytes != int64(3000*(k-1)) || stats.LocalBytes+stats.RemoteBytes != size-5 || stats.LocalFiles != 1 || stats.RemoteFiles != 1 {
			t.Errorf("k=%d: %+v", k, stats)
		}
		check(t, rc.Close())
		if _, err := rc.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		// So does who opens it after that.
		again, err := r.Open(t.Context(), uri(1, "a"))
		check(t, err)
		if got := r.Stats(); got.LocalFiles != 1 || got.RemoteFiles != 2 {
			t.Errorf("k=%d: opened again: %+v", k, got)
		}
		check(t, again.Close())
		// Another stream of the same object, and random access, go on in the primary store.
		rc, err = o.Reader(t.Context(), size-1)
		check(t, err)
		last, err := io.ReadAll(rc)
		check(t, err)
		part := make([]byte, 100)
		if _, err := o.ReadAt(part, 77); err != nil || !bytes.Equal(part, want[77:177]) || !bytes.Equal(last, want[size-1:]) {
			t.Errorf("k=%d: after the failure: %v", k, err)
		}
		check(t, rc.Close())
		check(t, o.Close())

		n = 0
		r = kt.Restore(t.Context(), 1, faulty)
		o, err = r.Open(t.Context(), uri(1, "a"))
		check(t, err)
		for off := 0; off < size; off += 1000 {
			part := make([]byte, 1000)
			if m, err := o.ReadAt(part, int64(off)); m != 1000 || err != nil && err != io.EOF || !bytes.Equal(part, want[off:off+1000]) {
				t.Errorf("k=%d: ReadAt at %d gives %d, %v", k, off, m, err)
			}
		}
		if got, want := r.Stats(), (Stats{1, 1, int64(1000 * (k - 1)), int64(size - 1000*(k-1))}); got != want {
			t.Errorf("k=%d: %+v, want %+v", k, got, want)
		}
		check(t, o.Close())
		if err := o.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}

		// Both fail.
		n = 0
		r = kt.Restore(t.Context(), 1, failing{})
		o, err = r.Open(t.Context(), uri(1, "a"))
		check(t, err)
		for range k {
			_, err = o.ReadAt(part, 0)
		}
		if !errors.Is(err, errFailing) || !errors.Is(err, errDisk) {
			t.Errorf("k=%d: %v", k, err)
		}
		check(t, o.Close())

		// The primary store has something else under this name, which must never happen.
		n = 0
		changed := storage.NewMemory()
		check(t, storage.WriteFile(t.Context(), changed, uri(1, "a"), []byte("other"), storage.CreateOptions{}))
		r = kt.Restore(t.Context(), 1, changed)
		o, err = r.Open(t.Context(), uri(1, "a"))
		check(t, err)
		for range k {
			_, err = o.ReadAt(part, 0)
		}
		if !errors.Is(err, storage.ErrChanged) {
			t.Errorf("k=%d: %v", k, err)
		}
		check(t, o.Close())
	}
}

// TestCutWhileOpen has a local file cut off by somebody after it was opened, and an empty one replaced by a pipe, which nobody may wait for.
func TestCutWhileOpen(t *testing.T) {
	primary, root := storage.NewMemory(), t.TempDir()
	s := mustOpen(t, Options{Roots: []string{root}})
	k := task(t, s, me)
	sealedCopy(t, k, primary, 1, map[string]int{"a": 1000, "empty": 0})
	r := k.Restore(t.Context(), 1, primary)
	o, err := r.Open(t.Context(), uri(1, "a"))
	check(t, err)
	defer o.Close()
	rc, err := o.Reader(t.Context(), 0)
	check(t, err)
	defer rc.Close()
	got := make([]byte, 1000)
	_, err = io.ReadFull(rc, got[:500])
	check(t, err)
	path, ok := r.Locate(t.Context(), uri(1, "a"))
	empty, okEmpty := r.Locate(t.Context(), uri(1, "empty"))
	if !ok || !okEmpty {
		t.Fatal("there are no local files")
	}
	check(t, os.Truncate(path, 600))
	_, err = io.ReadFull(rc, got[500:])
	check(t, err)
	if !bytes.Equal(got, contentOf(uri(1, "a"), 1000)) {
		t.Error("other bytes are streamed")
	}
	clear(got)
	if _, err := o.ReadAt(got, 0); err != nil && err != io.EOF || !bytes.Equal(got, contentOf(uri(1, "a"), 1000)) {
		t.Errorf("other bytes are read: %v", err)
	}
	check(t, os.Remove(empty))
	check(t, mkfifo(empty))
	reads(t, r, uri(1, "empty"), 0)
	if _, ok := r.Locate(t.Context(), uri(1, "empty")); ok {
		t.Error("a pipe is located")
	}
}

// TestRemovedLater has the removal of an aborted copy fail, and another copy made in its place: that one stays.
func TestRemovedLater(t *testing.T) {
	root, broken := t.TempDir(), true
	s := mustOpen(t, Options{Roots: []string{root}, fault: func(op, name string) error {
		if broken && op == "remove" && strings.HasPrefix(name, dirOf(me, 2)) {
			return errDisk
		}
		return nil
	}})
	k := task(t, s, me)
	sealedCopy(t, k, storage.NewMemory(), 1, map[string]int{"a": 10})
	sealedCopy(t, k, storage.NewMemory(), 2, map[string]int{"a": 10})
	k.Discard(2)
	if got := copies(t, root); len(got) != 2 {
		t.Fatalf("%q after a removal that failed", got)
	}
	broken = false
	sealedCopy(t, k, storage.NewMemory(), 2, map[string]int{"b": 20})
	k.Confirm(2)
	if got := copies(t, root); !slices.Equal(got, []string{dirOf(me, 2)}) {
		t.Errorf("%q", got)
	}
	reads(t, k.Restore(t.Context(), 2, failing{}), uri(2, "b"), 20)
}

func TestCanceledRestore(t *testing.T) {
	primary := storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{t.TempDir()}, Checksums: true})
	k := task(t, s, me)
	sealedCopy(t, k, primary, 1, map[string]int{"a": 100})
	r := k.Restore(t.Context(), 1, primary)
	ctx, cancel := context.WithCancel(t.Context())
	o, err := r.Open(ctx, uri(1, "a"))
	check(t, err)
	defer o.Close()
	rc, err := o.Reader(ctx, 0)
	check(t, err)
	defer rc.Close()
	cancel()
	if _, err := rc.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: %v", err)
	}
	if _, err := o.Reader(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Reader: %v", err)
	}
	if _, err := r.Open(ctx, uri(1, "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	r = k.Restore(t.Context(), 1, primary)
	if _, ok := r.Locate(ctx, uri(1, "a")); ok {
		t.Error("a file is located that was not compared")
	}
	if _, ok := r.Locate(t.Context(), uri(1, "a")); !ok {
		t.Error("a file is bad because somebody canceled")
	}
}

func TestMemory(t *testing.T) {
	log, primary := &logged{}, storage.NewMemory()
	s := mustOpen(t, Options{Memory: 1000, Logger: log.logger()})
	k := task(t, s, me)
	c := k.Begin(1)
	f := c.FS(primary)
	put(t, f, uri(1, "a"), 400)
	put(t, f, uri(1, "too large"), 700)
	db := t.TempDir()
	keep(t, f, uri(1, "b"), write(t, db+"/b", contentOf(uri(1, "b"), 500)))
	keep(t, f, uri(1, "c"), write(t, db+"/c", contentOf(uri(1, "c"), 101)))
	put(t, f, uri(1, "d"), 100)
	c.Seal(t.Context())
	if s.memory != 1000 || log.count("") != 2 || log.count("is left out", "too%20large") != 0 || log.count("is left out", "too large") != 1 || log.count("files=2") != 1 {
		t.Errorf("%d bytes, logged %s", s.memory, log.lines)
	}
	k.Confirm(1)
	c = k.Begin(2)
	w, err := c.FS(primary).Create(t.Context(), uri(2, "a"), storage.CreateOptions{})
	check(t, err)
	w.Write(make([]byte, 10))
	k.Discard(2)
	w.Write(make([]byte, 10))
	check(t, w.Commit())
	w, err = k.Begin(3).FS(primary).Create(t.Context(), uri(3, "a"), storage.CreateOptions{})
	check(t, err)
	w.Abort()
	if s.memory != 1000 {
		t.Errorf("%d bytes are held", s.memory)
	}
	put(t, primary, uri(1, "c"), 101)
	r := k.Restore(t.Context(), 1, primary)
	for name, size := range map[string]int{"a": 400, "too large": 700, "b": 500, "c": 101, "d": 100} {
		reads(t, r, uri(1, name), size)
	}
	if got, want := r.Stats(), (Stats{3, 2, 1000, 801}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	k.Confirm(4)
	if s.memory != 0 {
		t.Errorf("%d bytes are held", s.memory)
	}
	put(t, k.Begin(5).FS(primary), uri(5, "a"), 1000)
	check(t, s.Close())
	if s.memory != 0 {
		t.Errorf("%d bytes are held after Close", s.memory)
	}
}

// TestConformance runs the suite of all stores over what passes calls on.
func TestConformance(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		s := mustOpen(t, Options{Roots: []string{t.TempDir()}})
		local := storage.NewLocal(storage.LocalOptions{NoSync: true})
		return task(t, s, me).Begin(1).FS(local), "file:" + t.TempDir()
	})
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		s := mustOpen(t, Options{Memory: 1 << 30})
		return task(t, s, me).Restore(t.Context(), 1, task(t, s, me).Begin(2).FS(storage.NewMemory())), "mem://x/y"
	})
	// Everything that is read is read locally.
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		s := mustOpen(t, Options{Roots: []string{t.TempDir()}})
		return &cached{forwarding{storage.NewMemory()}, task(t, s, me), 0}, "mem://x/y"
	})
}

// cached writes each object as a checkpoint of its own, and reads from the local copy.
type cached struct {
	forwarding
	k *Task
	n int64
}

func (c *cached) Open(ctx context.Context, uri string) (storage.Object, error) {
	primary, err := c.FS.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	defer primary.Close()
	// A copy of this one object, sealed, with a number of its own.
	c.k.mu.Lock()
	c.n++
	n := c.n
	c.k.mu.Unlock()
	k, err := c.k.s.Task(TaskID{Job: "0a", Vertex: fmt.Sprintf("%x", n)})
	if err != nil {
		return nil, err
	}
	copied := k.Begin(1)
	if err := copyTo(ctx, primary, copied, uri); err != nil {
		return nil, err
	}
	copied.Seal(ctx)
	return k.Restore(ctx, 1, failing{}).Open(ctx, uri)
}

func copyTo(ctx context.Context, o storage.Object, c *Copy, uri string) error {
	r, err := o.Reader(ctx, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := c.FS(storage.NewMemory()).Create(ctx, uri, storage.CreateOptions{})
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := io.Copy(w, r); err != nil {
		return err
	}
	return w.Commit()
}

// TestConcurrently has everything happen at once: files written and kept, seals, confirmations, aborts, restores.
func TestConcurrently(t *testing.T) {
	for _, memory := range []bool{false, true} {
		root, db := t.TempDir(), t.TempDir()
		o := Options{Roots: []string{root}, Checksums: true}
		if memory {
			o = Options{Memory: 300000}
		}
		s := mustOpen(t, o)
		primary := storage.NewMemory()
		for i := range 8 {
			u := fmt.Sprintf("s3://b/shared/%d", i)
			write(t, fmt.Sprintf("%s/%d", db, i), contentOf(u, 10000))
			put(t, primary, u, 10000)
		}
		var all sync.WaitGroup
		for sub := range 3 {
			k := task(t, s, TaskID{Job: "0a", Vertex: "0b", Subtask: sub})
			all.Go(func() {
				for n := int64(1); n <= 20; n++ {
					c := k.Begin(n)
					f := c.FS(primary)
					var parts sync.WaitGroup
					for i := range 8 {
						parts.Go(func() {
							keep(t, f, fmt.Sprintf("s3://b/shared/%d", i), fmt.Sprintf("%s/%d", db, i))
							put(t, f, fmt.Sprintf("s3://b/%d/%d/%d", sub, n, i), 10000)
						})
					}
					switch {
					case n%5 == 0: // aborted while it is written
						k.Discard(n)
					case n%7 == 0:
						k.Confirm(n)
					}
					parts.Wait()
					c.Seal(t.Context())
					if n%3 == 0 {
						k.Confirm(n)
					}
					if n%6 == 0 {
						r := k.Restore(t.Context(), n, primary)
						for i := range 8 {
							parts.Go(func() {
								reads(t, r, fmt.Sprintf("s3://b/%d/%d/%d", sub, n, i), 10000)
								reads(t, r, fmt.Sprintf("s3://b/shared/%d", i), 10000)
							})
						}
						parts.Wait()
					}
				}
			})
		}
		all.Go(func() {
			for range 20 {
				s.Clean(func(id TaskID) bool { return id.Subtask < 3 })
				s.Tasks()
				time.Sleep(time.Millisecond)
			}
		})
		all.Wait()
		s.Clean(func(TaskID) bool { return false })
		if left := names(t, root); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		if s.memory != 0 {
			t.Errorf("%d bytes are held", s.memory)
		}
	}
}
