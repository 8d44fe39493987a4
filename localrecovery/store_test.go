package localrecovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/drey-state/drey/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// me is the task of most tests.
var me = TaskID{Job: "0a", Vertex: "0b", Subtask: 3}

const chk = "s3://bucket/job/chk-%d/%s"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logged collects what is logged.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count is the number of lines with these words.
func (l *logged) count(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
lines:
	for _, line := range l.lines {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func task(t testing.TB, s *Store, id TaskID) *Task {
	t.Helper()
	k, err := s.Task(id)
	check(t, err)
	return k
}

// content is the bytes of an object, told by its name.
func contentOf(uri string, size int) []byte {
	var seed [32]byte
	key := storage.Key(uri)
	copy(seed[:], fmt.Sprint(len(key), key[max(0, len(key)-24):]))
	data := make([]byte, size)
	rand.NewChaCha8(seed).Read(data)
	return data
}

func put(t testing.TB, f storage.FS, uri string, size int) {
	t.Helper()
	check(t, storage.WriteFile(t.Context(), f, uri, contentOf(uri, size), storage.CreateOptions{}))
}

// names are the files and directories below a root, without its lock.
func names(t testing.TB, root string) []string {
	t.Helper()
	var list []string
	check(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, name); err == nil && rel != "." && rel != lockName {
			if d.IsDir() {
				rel += "/"
			}
			list = append(list, rel)
		}
		return err
	}))
	return list
}

// copies are the directories of copies below a root.
func copies(t testing.TB, root string) []string {
	t.Helper()
	list := names(t, root)
	return slices.DeleteFunc(list, func(n string) bool {
		return !strings.HasSuffix(n, "/") || !strings.HasPrefix(filepath.Base(n), checkpointPrefix)
	})
}

func dirOf(id TaskID, n int) string { return fmt.Sprintf("%s/chk_%d/", id.dir(), n) }

// reads reads all of an object and compares it.
func reads(t testing.TB, f storage.FS, uri string, size int) {
	t.Helper()
	data, err := storage.ReadAll(t.Context(), f, uri, 0)
	check(t, err)
	if !bytes.Equal(data, contentOf(uri, size)) {
		t.Errorf("%s has other bytes", uri)
	}
}

// write makes a file as a backend has it.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o777))
	check(t, os.WriteFile(name, data, 0o666))
	return name
}

func keep(t testing.TB, f storage.FS, uri, name string) {
	t.Helper()
	f.(storage.Keeper).Keep(t.Context(), uri, name)
}

func uri(n int, name string) string { return fmt.Sprintf(chk, n, name) }

func sealedCopy(t testing.TB, k *Task, primary storage.FS, n int, sizes map[string]int) {
	t.Helper()
	c := k.Begin(int64(n))
	for name, size := range sizes {
		put(t, c.FS(primary), uri(n, name), size)
	}
	c.Seal(t.Context())
}

func TestWriteAndRestore(t *testing.T) {
	sizes := map[string]int{"empty": 0, "one": 1, "buffer": bufferSize, "piece": pieceSize, "more": 2*pieceSize + 7}
	for _, memory := range []bool{false, true} {
		o := Options{Roots: []string{t.TempDir()}}
		if memory {
			o = Options{Memory: 1 << 20}
		}
		s := mustOpen(t, o)
		primary := storage.NewMemory()
		k := task(t, s, me)
		c := k.Begin(7)
		for name, size := range sizes {
			w, err := c.FS(primary).Create(t.Context(), uri(7, name), storage.CreateOptions{})
			check(t, err)
			data := contentOf(uri(7, name), size)
			for _, piece := range [][]byte{data[:len(data)/3], data[len(data)/3 : len(data)/2], data[len(data)/2:]} {
				n, err := w.Write(piece)
				check(t, err)
				if n != len(piece) {
					t.Errorf("Write gives %d of %d", n, len(piece))
				}
			}
			check(t, w.Commit())
			w.Abort() // does nothing
			reads(t, primary, uri(7, name), size)
		}
		c.Seal(t.Context())
		k.Confirm(7)
		if !memory {
			check(t, s.Close())
			s = mustOpen(t, o)
			k = task(t, s, me)
		}
		if got := k.Checkpoints(); !slices.Equal(got, []int64{7}) {
			t.Fatalf("there are copies of %v", got)
		}
		r := k.Restore(t.Context(), 7, failing{}) // the primary store is not asked
		total := 0
		for name, size := range sizes {
			reads(t, r, strings.Replace(uri(7, name), "s3:", "s3a:", 1), size)
			total += size
			path, ok := r.Locate(t.Context(), uri(7, name))
			if ok != !memory {
				t.Errorf("Locate says %v", ok)
			}
			if ok {
				data, err := os.ReadFile(path)
				check(t, err)
				if !bytes.Equal(data, contentOf(uri(7, name), size)) {
					t.Errorf("the local file of %s has other bytes", name)
				}
				total += size
			}
		}
		want := Stats{LocalFiles: 10, LocalBytes: int64(total)}
		if memory {
			want.LocalFiles = 5
		}
		if got := r.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// failing is a store that fails.
type failing struct{ storage.FS }

var errFailing = errors.New("the primary store failed")

func (failing) Open(context.Context, string) (storage.Object, error) { return nil, errFailing }

func TestOnlyTheNewestConfirmedStays(t *testing.T) {
	root, primary := t.TempDir(), storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{root}})
	k := task(t, s, me)
	want := func(numbers ...int) {
		t.Helper()
		var dirs []string
		for _, n := range numbers {
			dirs = append(dirs, dirOf(me, n))
		}
		slices.Sort(dirs)
		if got := copies(t, root); !slices.Equal(got, dirs) {
			t.Errorf("copies %v, want %v", got, dirs)
		}
	}
	for n := 1; n <= 3; n++ {
		sealedCopy(t, k, primary, n, map[string]int{"a": 10})
	}
	want(1, 2, 3)
	k.Confirm(2)
	want(2, 3)
	k.Confirm(1) // late
	want(2, 3)
	k.Discard(2) // it was completed
	want(2, 3)
	k.Discard(3)
	want(2)
	k.Discard(3)

	// Begun before, and written after something later was confirmed.
	c := k.Begin(4)
	put(t, c.FS(primary), uri(4, "a"), 10)
	sealedCopy(t, k, primary, 5, map[string]int{"a": 10})
	want(2, 4, 5)
	k.Confirm(5)
	want(5)
	put(t, c.FS(primary), uri(4, "b"), 10)
	keep(t, c.FS(primary), uri(4, "c"), write(t, t.TempDir()+"/c", nil))
	c.Seal(t.Context())
	want(5)
	reads(t, primary, uri(4, "b"), 10)

	// An abort while a file is written.
	c = k.Begin(6)
	w, err := c.FS(primary).Create(t.Context(), uri(6, "a"), storage.CreateOptions{})
	check(t, err)
	w.Write(contentOf(uri(6, "a"), 100000))
	want(5, 6)
	k.Discard(6)
	want(5)
	w.Write(nil)
	check(t, w.Commit())
	c.Seal(t.Context())
	want(5)
	reads(t, primary, uri(6, "a"), 100000)

	// What was confirmed is not begun again, but what was not.
	put(t, k.Begin(5).FS(primary), uri(5, "x"), 10)
	want(5)
	sealedCopy(t, k, primary, 7, map[string]int{"a": 10})
	c = k.Begin(7)
	want(5)
	put(t, c.FS(primary), uri(7, "b"), 10)
	want(5, 7)
	// Confirmed without a copy of it.
	k.Confirm(8)
	want()
	if left := names(t, root); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	put(t, k.Begin(-1).FS(primary), uri(0, "negative"), 10)
	want()
}

func TestNothingWrittenIsNoCopy(t *testing.T) {
	root := t.TempDir()
	s := mustOpen(t, Options{Roots: []string{root}})
	k := task(t, s, me)
	k.Begin(1).Seal(t.Context())
	c := k.Begin(2)
	w, err := c.FS(storage.NewMemory()).Create(t.Context(), uri(2, "a"), storage.CreateOptions{})
	check(t, err)
	w.Write([]byte("x"))
	w.Abort()
	c.Seal(t.Context())
	if got := k.Checkpoints(); len(got) > 0 || len(s.Tasks()) > 0 {
		t.Errorf("copies of %v", got)
	}
	if left := names(t, root); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestSealedTakesNoMore(t *testing.T) {
	root, primary := t.TempDir(), storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{root}})
	k := task(t, s, me)
	c := k.Begin(1)
	f := c.FS(primary)
	put(t, f, uri(1, "a"), 10)
	w, err := f.Create(t.Context(), uri(1, "late"), storage.CreateOptions{})
	check(t, err)
	w.Write([]byte("late"))
	c.Seal(t.Context())
	c.Seal(t.Context())
	check(t, w.Commit())
	put(t, f, uri(1, "later"), 10)
	check(t, f.Delete(t.Context(), uri(1, "a"))) // the copy stays as its index says
	dir := dirOf(me, 1)
	want := []string{dir + "1", dir + "index"}
	if got := slices.DeleteFunc(names(t, root), func(n string) bool { return strings.HasSuffix(n, "/") }); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	s := mustOpen(t, Options{Roots: []string{root}})
	other := TaskID{Allocation: "ff", Job: "0a", Vertex: "0c", Subtask: 0}
	for _, id := range []TaskID{me, other} {
		sealedCopy(t, task(t, s, id), storage.NewMemory(), 3, map[string]int{"a": 10, "b": 20})
		put(t, task(t, s, id).Begin(4).FS(storage.NewMemory()), uri(4, "a"), 10)
	}
	whole := names(t, root)
	whole = slices.DeleteFunc(whole, func(n string) bool { return strings.Contains(n, "chk_4") })

	// A process died here: what it left, and what a damaged disk or another program may leave.
	crash(s)
	check(t, os.MkdirAll(root+"/jid_0d/vtx_0e_sti_0/chk_1", 0o777))
	write(t, root+"/jid_0d/vtx_0e_sti_0/chk_2/index.tmp", []byte("half"))
	write(t, root+"/jid_0d/vtx_0e_sti_0/chk_2/1", nil)
	write(t, root+"/jid_0d/vtx_0e_sti_0/chk_3/index", nil)
	write(t, root+"/aid_ee/jid_0d/vtx_0e_sti_1/chk_0/7", nil)
	write(t, root+"/"+dirOf(me, 3)+"77", []byte("not in the index"))
	foreign := []string{
		"jid_0d/vtx_0e_sti_0/chk_9/0b6f6a2e-9a3c-4a09-8a4b-2f3a6b0e9f11", "jid_0d/vtx_0e_sti_0/chk_10/_task_state_snapshot", "jid_0d/vtx_0e_sti_0/chk_10/7",
		"jid_0d/vtx_0e_sti_0/chk_11/1/db", "jid_0d/vtx_0e_sti_0/chk_01/1", "jid_0d/vtx_0e_sti_x/chk_1/1", "jid_0d/vtx_0e_sti_0/chk_-1/1",
		"jid_0d/vtx_a_b_sti_0/chk_1/1", "jid_../x", "jid_/x", "data", "dir/chk_1/1", "aid_/x", "jid_0f", "jid_0d/vtx_0e_sti_1", "jid_0d/vtx_0e_sti_2/chk_1",
	}
	for _, name := range foreign {
		write(t, root+"/"+name, []byte("foreign"))
	}
	outside := write(t, t.TempDir()+"/vtx_0e_sti_0/chk_1/1", []byte("outside"))
	check(t, os.Symlink(filepath.Dir(filepath.Dir(filepath.Dir(outside))), root+"/jid_aa"))
	check(t, os.Symlink(filepath.Dir(filepath.Dir(outside)), root+"/jid_0d/vtx_bb_sti_0"))
	check(t, os.Symlink(filepath.Dir(outside), root+"/jid_0d/vtx_0e_sti_0/chk_12"))

	s = mustOpen(t, Options{Roots: []string{root}})
	for _, name := range foreign {
		if data, err := os.ReadFile(root + "/" + name); err != nil || string(data) != "foreign" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"jid_aa", "jid_0d/vtx_bb_sti_0", "jid_0d/vtx_0e_sti_0/chk_12"} {
		check(t, os.Remove(root+"/"+name))
	}
	for _, name := range foreign {
		check(t, os.Remove(root+"/"+name))
	}
	for range 5 {
		for _, name := range names(t, root) {
			if strings.HasPrefix(name, "jid_0d") || strings.HasPrefix(name, "jid_.") || strings.HasPrefix(name, "jid_/") || strings.HasPrefix(name, "dir") || strings.HasPrefix(name, "aid_/") {
				os.Remove(root + "/" + name) // the empty directories above what is foreign
			}
		}
	}
	if got := names(t, root); !slices.Equal(got, whole) {
		t.Errorf("left:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(whole, "\n"))
	}
	if got := s.Tasks(); !slices.Equal(got, []TaskID{other, me}) {
		t.Errorf("tasks %v", got)
	}
	for _, id := range []TaskID{me, other} {
		r := task(t, s, id).Restore(t.Context(), 3, failing{})
		reads(t, r, uri(3, "a"), 10)
		reads(t, r, uri(3, "b"), 20)
	}
}

// crash ends a store as the death of its process would.
func crash(s *Store) {
	for _, r := range s.roots {
		r.fault = func(string, string) error { return errCrash }
	}
	s.Close()
}

var errCrash = errors.New("the process is dead")

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]error{
		"hdfs://nn/local": storage.ErrScheme, "s3://b/local": storage.ErrScheme, "file://host/local": storage.ErrScheme,
		"local": fs.ErrInvalid, "": fs.ErrInvalid, "file:local": fs.ErrInvalid,
	} {
		if _, err := Open(Options{Roots: []string{name}}); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, roots := range [][]string{{dir, dir}, {dir, dir + "/in"}, {dir + "/in/a", dir + "/in"}} {
		if _, err := Open(Options{Roots: roots}); err == nil {
			t.Errorf("%q is opened", roots)
		}
	}
	for _, o := range []Options{{}, {Roots: []string{dir}, Memory: 1}, {Memory: -1}} {
		if _, err := Open(o); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Open(Options{Roots: []string{write(t, dir+"/file", nil)}}); err == nil {
		t.Error("a file is opened as a root")
	}
	for _, prefix := range []string{"", "file:", "file://", "FILE://localhost"} {
		s := mustOpen(t, Options{Roots: []string{prefix + dir + "/new root%20"}})
		if _, err := Open(Options{Roots: []string{dir + "/new root%20"}}); !errors.Is(err, ErrInUse) {
			t.Errorf("opened a second time: %v", err)
		}
		sealedCopy(t, task(t, s, me), storage.NewMemory(), 1, map[string]int{"a": 1})
		if got := copies(t, dir+"/new root%20"); len(got) != 1 {
			t.Errorf("copies %q", got)
		}
		check(t, s.Close())
	}
}

func TestRotation(t *testing.T) {
	roots := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	s := mustOpen(t, Options{Roots: roots})
	k := task(t, s, me)
	// Java: (((int) checkpointId) & Integer.MAX_VALUE) % 3
	places := map[int]int{4: 1, 5: 2, 6: 0, 1<<31 + 1: 1, 1<<32 + 2: 2, 1<<40 - 1: 1}
	for n := range places {
		sealedCopy(t, k, storage.NewMemory(), n, map[string]int{"a": 1})
	}
	for n, i := range places {
		if got := copies(t, roots[i]); !slices.Contains(got, dirOf(me, n)) {
			t.Errorf("checkpoint %d is not in root %d: %q", n, i, got)
		}
	}
	check(t, s.Close())
	// In another order, they are found all the same.
	s = mustOpen(t, Options{Roots: []string{roots[2], roots[0], roots[1]}})
	if got := task(t, s, me).Checkpoints(); len(got) != len(places) {
		t.Errorf("checkpoints %v", got)
	}
	reads(t, task(t, s, me).Restore(t.Context(), 5, failing{}), uri(5, "a"), 1)
	for _, root := range roots {
		if got := copies(t, root); root != roots[2] && len(got) > 0 || root == roots[2] && len(got) != 1 {
			t.Errorf("after the restore: %q", got)
		}
	}
}

func TestTwoRootsWithOneCheckpoint(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, root := range []string{a, b} {
		s := mustOpen(t, Options{Roots: []string{root}})
		sealedCopy(t, task(t, s, me), storage.NewMemory(), 1, map[string]int{"a": 1})
		check(t, s.Close())
	}
	s := mustOpen(t, Options{Roots: []string{a, b}})
	reads(t, task(t, s, me).Restore(t.Context(), 1, failing{}), uri(1, "a"), 1)
	if len(copies(t, a)) != 1 || len(copies(t, b)) != 0 {
		t.Errorf("%q and %q", copies(t, a), copies(t, b))
	}
}

func TestTaskIDs(t *testing.T) {
	s := mustOpen(t, Options{Roots: []string{t.TempDir()}})
	good := TaskID{Allocation: "Ab-9", Job: strings.Repeat("f", 100), Vertex: "0"}
	for _, id := range []TaskID{
		{}, {Job: "a"}, {Vertex: "a"}, {Job: "..", Vertex: "a"}, {Job: "a/b", Vertex: "a"}, {Job: "a", Vertex: "a_sti_1"}, {Job: "a", Vertex: "a", Subtask: -1},
		{Job: "a", Vertex: "a", Allocation: "x\x00"}, {Job: "ü", Vertex: "a"}, {Job: strings.Repeat("f", 101), Vertex: "a"},
	} {
		if _, err := s.Task(id); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", id, err)
		}
	}
	if a, b := task(t, s, good), task(t, s, good); a != b || a.ID() != good {
		t.Error("a task is not the same each time")
	}
	check(t, s.Close())
	if _, err := s.Task(good); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

func TestCleanAndClose(t *testing.T) {
	root, primary := t.TempDir(), storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{root}})
	gone := TaskID{Allocation: "0c", Job: "0a", Vertex: "0b", Subtask: 3}
	sealedCopy(t, task(t, s, me), primary, 1, map[string]int{"a": 10})
	sealedCopy(t, task(t, s, gone), primary, 1, map[string]int{"b": 10})
	old := task(t, s, gone)
	running := old.Begin(2)
	put(t, running.FS(primary), uri(2, "x"), 10)
	s.Clean(func(id TaskID) bool { return id != gone })
	put(t, running.FS(primary), uri(2, "y"), 10)
	running.Seal(t.Context())
	put(t, old.Begin(3).FS(primary), uri(3, "z"), 10)
	if got, want := copies(t, root), []string{dirOf(me, 1)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	sealedCopy(t, task(t, s, gone), primary, 4, map[string]int{"a": 10})
	if got, want := s.Tasks(), []TaskID{gone, me}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}

	r := task(t, s, me).Restore(t.Context(), 1, primary)
	o, err := r.Open(t.Context(), uri(1, "a"))
	check(t, err)
	defer o.Close()
	running = task(t, s, me).Begin(9)
	put(t, running.FS(primary), uri(9, "a"), 10)
	check(t, s.Close())
	put(t, running.FS(primary), uri(9, "b"), 10)
	running.Seal(t.Context())
	if got, want := copies(t, root), []string{dirOf(gone, 4), dirOf(me, 1)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	reads(t, r, uri(1, "a"), 10) // from the primary store
	if got := r.Stats(); got.RemoteFiles != 1 || got.LocalFiles != 1 {
		t.Errorf("%+v", got)
	}
	data := make([]byte, 10)
	if _, err := o.ReadAt(data, 0); err != nil && err != io.EOF || !bytes.Equal(data, contentOf(uri(1, "a"), 10)) {
		t.Errorf("an open object: %v", err)
	}
}

// TestRescaled restores subtasks at another parallelism than they had: what any subtask of this machine has is local.
func TestRescaled(t *testing.T) {
	root, primary := t.TempDir(), storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{root}})
	id := func(i int) TaskID {
		return TaskID{Allocation: fmt.Sprintf("a%d", i), Job: "0a", Vertex: "0b", Subtask: i}
	}
	for i := range 2 {
		c := task(t, s, id(i)).Begin(5)
		put(t, c.FS(primary), uri(5, fmt.Sprint(i)), 100)
		c.Seal(t.Context())
	}
	c := task(t, s, TaskID{Job: "0a", Vertex: "0c", Subtask: 0}).Begin(5)
	put(t, c.FS(primary), uri(5, "of another vertex"), 100)
	c.Seal(t.Context())
	var rs []*Restored
	for i := range 3 {
		rs = append(rs, task(t, s, id(i)).Restore(t.Context(), 5, primary))
	}
	for _, r := range rs {
		reads(t, r, uri(5, "0"), 100)
		reads(t, r, uri(5, "1"), 100)
		reads(t, r, uri(5, "of another vertex"), 100)
		if got, want := r.Stats(), (Stats{LocalFiles: 2, RemoteFiles: 1, LocalBytes: 200, RemoteBytes: 100}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestRecipe is that of D35: ten checkpoints of a database whose files stay the same for a while, the fifth aborted half way, a
// restart; then there are just the inodes that there should be, and the database's files are as they were.
func TestRecipe(t *testing.T) {
	root, db, primary := t.TempDir(), t.TempDir(), storage.NewMemory()
	s := mustOpen(t, Options{Roots: []string{root + "/local"}})
	k := task(t, s, me)
	live := map[string]string{} // URI -> file
	for n := 1; n <= 10; n++ {
		c := k.Begin(int64(n))
		f := c.FS(primary)
		for i := range 3 {
			name := fmt.Sprintf("%06d.sst", n*10+i)
			u := "s3://bucket/job/shared/" + name
			live[u] = write(t, filepath.Join(db, name), contentOf(u, 1000+n))
			keep(t, f, u, live[u])
			put(t, f, u, 1000+n)
			if n == 5 && i == 1 {
				break
			}
		}
		if n == 5 {
			k.Discard(5)
			continue
		}
		for u, name := range live {
			keep(t, f, u, name)
		}
		c.Seal(t.Context())
		k.Confirm(int64(n))
	}
	crash(s)
	s = mustOpen(t, Options{Roots: []string{root + "/local"}})
	if got, want := copies(t, root+"/local"), []string{dirOf(me, 10)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(live) != 29 {
		t.Fatalf("%d files", len(live))
	}
	// jid, vtx and chk, the index, the lock and the root itself; all else are links.
	if got := inodes(t, root+"/local", db); got != 29+6 {
		t.Errorf("%d inodes besides the database's directory, want 35", got)
	}
	r := task(t, s, me).Restore(t.Context(), 10, failing{})
	for u, name := range live {
		size := 1000 + int(u[len(u)-6]-'0') + 10*int(u[len(u)-7]-'0')
		reads(t, r, u, size)
		local, ok := r.Locate(t.Context(), u)
		if a, err := os.Stat(local); !ok || err != nil || !os.SameFile(a, stat(t, name)) {
			t.Errorf("%s is not a link of %s", local, name)
		}
	}
	s.Clean(func(TaskID) bool { return false })
	if left := names(t, root+"/local"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for u, name := range live {
		data, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(data, contentOf(u, len(data))) {
			t.Errorf("%s was touched: %v", name, err)
		}
	}
}

func stat(t testing.TB, name string) fs.FileInfo {
	t.Helper()
	fi, err := os.Lstat(name)
	check(t, err)
	return fi
}

// inodes counts the distinct files at and below two directories, but for the second itself.
func inodes(t testing.TB, dir, db string) int {
	t.Helper()
	var distinct []fs.FileInfo
	for _, root := range []string{dir, db} {
		check(t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || name == db {
				return err
			}
			fi := stat(t, name)
			if !slices.ContainsFunc(distinct, func(o fs.FileInfo) bool { return os.SameFile(fi, o) }) {
				distinct = append(distinct, fi)
			}
			return nil
		}))
	}
	return len(distinct)
}
