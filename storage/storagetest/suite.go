package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drey-state/drey/storage"
)

// Lack is a guarantee that a server behind an implementation cannot give, so
// that [Run] leaves out what depends on it.
type Lack string

// LackAtomicCreate says that two creators of one object may both succeed.
const LackAtomicCreate Lack = "create only if absent, atomically"

// LackAtomicLargeCreate says the same of objects of more than 6 MiB.
const LackAtomicLargeCreate Lack = "create a large object only if absent, atomically"

// Names are segments of names that have given trouble to one store or another.
var Names = []string{
	"plain", "with space", "a%20b", "100%", "a+b", "ü", "日本", "😀", "x?y#z", "{1}[2]", "a&b=c", "it's", "a;b,c", "~x", "$HOME", "@", "*",
	strings.Repeat("n", 200),
}

// Run checks that an implementation gives every guarantee of [storage.FS].
// place gives an empty place for each test: an FS, and the URI of a directory
// in it that need not exist. The FS should write objects of more than 6 MiB in
// the way that it writes large ones.
func Run(t *testing.T, place func(t *testing.T) (fs storage.FS, root string), lacks ...Lack) {
	for _, tc := range guarantees {
		t.Run(tc.name, func(t *testing.T) {
			if tc.need != "" && slices.Contains(lacks, tc.need) {
				t.Skipf("this server lacks: %s", tc.need)
			}
			f, root := place(t)
			tc.run(&suite{TB: t, fs: f, root: strings.TrimSuffix(root, "/"), ctx: t.Context(), lacks: lacks})
		})
	}
}

// guarantees are the tests that Run runs.
var guarantees = []struct {
	name string
	run  func(*suite)
	need Lack
}{
	{name: "WriteRead", run: (*suite).writeRead},
	{name: "Names", run: (*suite).names},
	{name: "Segments", run: (*suite).segments},
	{name: "Directories", run: (*suite).directories},
	{name: "Spelling", run: (*suite).spelling},
	{name: "Missing", run: (*suite).missing},
	{name: "CreateExisting", run: (*suite).createExisting},
	{name: "CreateRace", run: (*suite).createRace, need: LackAtomicCreate},
	{name: "ConcurrentCreators", run: (*suite).concurrentCreators, need: LackAtomicCreate},
	{name: "Overwrite", run: (*suite).overwrite},
	{name: "OverwriteIsAtomic", run: (*suite).overwriteAtomic},
	{name: "OpenObjectIsFixed", run: (*suite).openFixed},
	{name: "Uncommitted", run: (*suite).uncommitted},
	{name: "AfterTheEnd", run: (*suite).afterTheEnd},
	{name: "Empty", run: (*suite).empty},
	{name: "Large", run: (*suite).large},
	{name: "Offsets", run: (*suite).offsets},
	{name: "Copy", run: (*suite).copy},
	{name: "CopyLarge", run: (*suite).copyLarge},
	{name: "Delete", run: (*suite).delete},
	{name: "Many", run: (*suite).many},
	{name: "ListMeanwhile", run: (*suite).listMeanwhile},
	{name: "Cancelled", run: (*suite).cancelled},
	{name: "Link", run: (*suite).link},
	{name: "Clean", run: (*suite).clean},
	{name: "Prune", run: (*suite).prune},
}

// suite is one test's place.
type suite struct {
	testing.TB
	fs    storage.FS
	root  string
	ctx   context.Context
	lacks []Lack
}

// uri is that of a name below the root.
func (s *suite) uri(name string) string { return s.root + "/" + name }

func (s *suite) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// is checks that err means want and names uri.
func (s *suite) is(err, want error, uri string) {
	s.Helper()
	switch {
	case !errors.Is(err, want):
		s.Errorf("error is %v, want one that unwraps to %q", err, want)
	case !strings.Contains(err.Error(), uri):
		s.Errorf("error %q does not name %s", err, uri)
	}
}

func (s *suite) put(name, data string) {
	s.Helper()
	s.check(storage.WriteFile(s.ctx, s.fs, s.uri(name), []byte(data), storage.CreateOptions{}))
}

func (s *suite) get(name string) string {
	s.Helper()
	data, err := storage.ReadAll(s.ctx, s.fs, s.uri(name), 0)
	s.check(err)
	return string(data)
}

func (s *suite) holds(name, want string) {
	s.Helper()
	if got := s.get(name); got != want {
		s.Errorf("%s holds %.100q (%d bytes), want %.100q (%d bytes)", name, got, len(got), want, len(want))
	}
}

// absent checks that nothing shows that there is such an object.
func (s *suite) absent(name string) {
	s.Helper()
	_, err := s.fs.Stat(s.ctx, s.uri(name))
	s.is(err, fs.ErrNotExist, s.uri(name))
	o, err := s.fs.Open(s.ctx, s.uri(name))
	s.is(err, fs.ErrNotExist, s.uri(name))
	if err == nil {
		o.Close()
	}
	for _, list := range []iter.Seq2[storage.Info, error]{s.fs.List(s.ctx, s.root), s.fs.ReadDir(s.ctx, storage.Dir(s.uri(name)))} {
		for info, err := range list {
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			s.check(err)
			// A half-written object may lie there under some other name.
			if base := storage.Base(name); info.URI == s.uri(name) || len(base) > 1 && strings.Contains(info.URI, "."+base) {
				s.Errorf("listing shows %s", info.URI)
			}
		}
	}
}

// collect gives the names below base of what seq yields, sorted; of directories with a slash behind.
func (s *suite) collect(base string, seq iter.Seq2[storage.Info, error]) []string {
	s.Helper()
	var names []string
	for info, err := range seq {
		s.check(err)
		name, ok := strings.CutPrefix(info.URI, strings.TrimSuffix(base, "/")+"/")
		if !ok {
			s.Errorf("listing of %s yields %s, in another spelling", base, info.URI)
		}
		if info.Dir {
			name += "/"
			if info.Size != 0 {
				s.Errorf("directory %s has size %d", info.URI, info.Size)
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *suite) lists(dir string, want ...string) {
	s.Helper()
	want = slices.Sorted(slices.Values(want))
	if got := s.collect(s.uri(dir), s.fs.List(s.ctx, s.uri(dir))); !slices.Equal(got, want) {
		s.Errorf("List(%s) = %q, want %q", dir, got, want)
	}
}

func (s *suite) writeRead() {
	uri := s.uri("a/b/c")
	w, err := s.fs.Create(s.ctx, uri, storage.CreateOptions{})
	s.check(err)
	defer w.Abort()
	for _, part := range []string{"one ", "", "two ", "three"} {
		n, err := io.WriteString(w, part)
		if s.check(err); n != len(part) {
			s.Errorf("Write gave %d of %d", n, len(part))
		}
	}
	s.check(w.Commit())
	s.holds("a/b/c", "one two three")
	info, err := s.fs.Stat(s.ctx, uri)
	s.check(err)
	if info.URI != uri || info.Size != 13 || info.Dir {
		s.Errorf("Stat gives %+v", info)
	}
	for info, err := range s.fs.List(s.ctx, s.uri("a")) {
		if s.check(err); info.URI != uri || info.Size != 13 || info.Dir {
			s.Errorf("List gives %+v", info)
		}
	}
	o, err := s.fs.Open(s.ctx, uri)
	s.check(err)
	if o.Size() != 13 {
		s.Errorf("Size gives %d", o.Size())
	}
	s.check(o.Close())
}

func (s *suite) names() {
	var want []string
	for i, n := range Names {
		name := "in " + n + "/" + n
		s.put(name, fmt.Sprint("content ", i))
		want = append(want, name)
	}
	s.lists("", want...)
	for i, name := range want {
		s.holds(name, fmt.Sprint("content ", i))
		if got := s.collect(s.uri("in "+Names[i]), s.fs.ReadDir(s.ctx, s.uri("in "+Names[i]))); !slices.Equal(got, []string{Names[i]}) {
			s.Errorf("ReadDir of %q = %q", "in "+Names[i], got)
		}
		to := "to " + Names[i] + "/" + Names[len(Names)-1-i]
		s.check(s.fs.Copy(s.ctx, s.uri(name), s.uri(to)))
		s.holds(to, fmt.Sprint("content ", i))
		s.check(s.fs.Delete(s.ctx, s.uri(to)))
		s.absent(to)
	}
	uris := make([]string, len(want))
	for i := range want {
		uris[i] = s.uri(want[i])
	}
	s.check(s.fs.Delete(s.ctx, uris...))
	for _, info := range s.collect(s.root, s.fs.List(s.ctx, s.root)) {
		s.Errorf("%s is left", info)
	}
}

func (s *suite) segments() {
	for _, n := range []string{"chk-1/a", "chk-1/b/c", "chk-10/a", "chk-1.x/a", "chk-1-/a", "chk-1x"} {
		s.put(n, "x")
	}
	s.lists("chk-1", "a", "b/c")
	if got := s.collect(s.uri("chk-1"), s.fs.ReadDir(s.ctx, s.uri("chk-1"))); !slices.Equal(got, []string{"a", "b/"}) {
		s.Errorf("ReadDir gives %q", got)
	}
	_, err := s.fs.Stat(s.ctx, s.uri("chk"))
	s.is(err, fs.ErrNotExist, s.uri("chk"))
}

func (s *suite) directories() {
	s.put("d/e/f", "x")
	s.put("d/g", "xy")
	for _, d := range []string{"d", "d/e"} {
		info, err := s.fs.Stat(s.ctx, s.uri(d))
		s.check(err)
		if !info.Dir || info.Size != 0 || info.URI != s.uri(d) {
			s.Errorf("Stat of a directory gives %+v", info)
		}
		o, err := s.fs.Open(s.ctx, s.uri(d))
		s.is(err, storage.ErrIsDir, s.uri(d))
		if err == nil {
			o.Close()
		}
		if err := s.fs.Copy(s.ctx, s.uri(d), s.uri("copy")); !errors.Is(err, storage.ErrIsDir) {
			s.Errorf("Copy of a directory gives %v", err)
		}
		// Deleting is for objects: what is in a directory of this name stays.
		_ = s.fs.Delete(s.ctx, s.uri(d))
	}
	if got := s.collect(s.root, s.fs.ReadDir(s.ctx, s.root)); !slices.Equal(got, []string{"d/"}) {
		s.Errorf("ReadDir of the root gives %q", got)
	}
	for info, err := range s.fs.ReadDir(s.ctx, s.uri("d")) {
		if s.check(err); !info.Dir && info.Size != 2 {
			s.Errorf("ReadDir gives %+v", info)
		}
	}
	s.lists("d", "e/f", "g")
}

func (s *suite) spelling() {
	s.put("d/x", "1")
	for _, dir := range []string{s.uri("d"), s.uri("d") + "/"} {
		for _, list := range []iter.Seq2[storage.Info, error]{s.fs.List(s.ctx, dir), s.fs.ReadDir(s.ctx, dir)} {
			n := 0
			for info, err := range list {
				s.check(err)
				n++
				if info.URI != s.uri("d/x") {
					s.Errorf("listing of %s gives %s", dir, info.URI)
				}
			}
			if n != 1 {
				s.Errorf("listing of %s gives %d entries", dir, n)
			}
		}
	}
}

func (s *suite) missing() {
	s.put("there/x", "1")
	for _, n := range []string{"no", "there/no", "no/no", "there/x/no"} {
		s.absentUnlisted(n)
		err := s.fs.Copy(s.ctx, s.uri(n), s.uri("copy"))
		s.is(err, fs.ErrNotExist, s.uri(n))
		s.check(s.fs.Delete(s.ctx, s.uri(n)))
		for _, list := range []iter.Seq2[storage.Info, error]{s.fs.List(s.ctx, s.uri(n)), s.fs.ReadDir(s.ctx, s.uri(n))} {
			for info, err := range list {
				if err == nil {
					s.Errorf("listing of what is not there yields %+v", info)
					continue
				}
				s.is(err, fs.ErrNotExist, s.uri(n))
			}
		}
	}
	s.absent("copy")
}

func (s *suite) absentUnlisted(name string) {
	s.Helper()
	_, err := s.fs.Stat(s.ctx, s.uri(name))
	s.is(err, fs.ErrNotExist, s.uri(name))
	_, err = s.fs.Open(s.ctx, s.uri(name))
	s.is(err, fs.ErrNotExist, s.uri(name))
}

// write writes an object in pieces and gives the error of whatever fails first.
func (s *suite) write(name string, data []byte, o storage.CreateOptions) error {
	w, err := s.fs.Create(s.ctx, s.uri(name), o)
	if err != nil {
		return err
	}
	defer w.Abort()
	for piece := range slices.Chunk(data, 100_000) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Commit()
}

func (s *suite) createExisting() {
	s.put("x", "first")
	err := s.write("x", []byte("second"), storage.CreateOptions{})
	s.is(err, fs.ErrExist, s.uri("x"))
	err = s.write("x", random(7<<20, 1), storage.CreateOptions{})
	s.is(err, fs.ErrExist, s.uri("x"))
	s.holds("x", "first")
	s.lists("", "x")
}

// createRace has another object come between Create and Commit.
func (s *suite) createRace() {
	for _, size := range []int{5, 7 << 20} {
		name := fmt.Sprint("x", size)
		w, err := s.fs.Create(s.ctx, s.uri(name), storage.CreateOptions{})
		s.check(err)
		defer w.Abort()
		_, err = w.Write(random(size, 1))
		s.check(err)
		s.put(name, "first")
		s.is(w.Commit(), fs.ErrExist, s.uri(name))
		s.holds(name, "first")
	}
}

func (s *suite) concurrentCreators() {
	sizes := []int{1000, 6<<20 + 1}
	if slices.Contains(s.lacks, LackAtomicLargeCreate) {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		name := fmt.Sprint("contested-", size)
		const creators = 8
		errs := make([]error, creators)
		var wg sync.WaitGroup
		for i := range creators {
			wg.Go(func() { errs[i] = s.write(name, bytes.Repeat([]byte{'a' + byte(i)}, size), storage.CreateOptions{}) })
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				s.Errorf("creators %d and %d both succeeded", winner, i)
			default:
				s.is(err, fs.ErrExist, s.uri(name))
			}
		}
		if winner < 0 {
			s.Fatal("no creator succeeded")
		}
		s.holds(name, strings.Repeat(string(rune('a'+winner)), size))
	}
}

func (s *suite) overwrite() {
	s.put("x", "first")
	s.check(s.write("x", []byte("second, longer"), storage.CreateOptions{Overwrite: true}))
	s.holds("x", "second, longer")
	s.check(s.write("x", []byte("3"), storage.CreateOptions{Overwrite: true}))
	s.holds("x", "3")
	s.check(s.write("new/y", []byte("made"), storage.CreateOptions{Overwrite: true}))
	s.holds("new/y", "made")
	w, err := s.fs.Create(s.ctx, s.uri("x"), storage.CreateOptions{Overwrite: true})
	s.check(err)
	_, err = io.WriteString(w, "never")
	s.check(err)
	w.Abort()
	s.holds("x", "3")
	s.lists("", "x", "new/y")
}

func (s *suite) overwriteAtomic() {
	const size = 200_000
	value := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, size+i) }
	s.check(s.write("x", value(0), storage.CreateOptions{}))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				data, err := storage.ReadAll(s.ctx, s.fs, s.uri("x"), 0)
				if errors.Is(err, storage.ErrChanged) {
					continue
				}
				if err != nil || !bytes.Equal(data, value(len(data)-size)) {
					s.Errorf("read %d bytes that nobody wrote, error %v", len(data), err)
					return
				}
			}
		})
	}
	for i := 1; i <= 20; i++ {
		s.check(s.write("x", value(i), storage.CreateOptions{Overwrite: true}))
	}
	close(done)
	wg.Wait()
}

// openFixed has an open object replaced: it gives its own bytes or an error, never others.
func (s *suite) openFixed() {
	old, young := random(300_000, 1), random(300_000, 2)
	s.check(s.write("x", old, storage.CreateOptions{}))
	o, err := s.fs.Open(s.ctx, s.uri("x"))
	s.check(err)
	defer o.Close()
	s.check(s.write("x", young, storage.CreateOptions{Overwrite: true}))
	p := make([]byte, 1000)
	if _, err := o.ReadAt(p, 5000); err == nil && !bytes.Equal(p, old[5000:6000]) {
		s.Error("ReadAt gives bytes of another object")
	} else if err != nil {
		s.is(err, storage.ErrChanged, s.uri("x"))
	}
	r, err := o.Reader(s.ctx, 0)
	if err == nil {
		defer r.Close()
		var data []byte
		if data, err = io.ReadAll(r); err == nil && !bytes.Equal(data, old) {
			s.Error("Reader gives bytes of another object")
		}
	}
	if err != nil {
		s.is(err, storage.ErrChanged, s.uri("x"))
	}
}

func (s *suite) uncommitted() {
	for _, size := range []int{10, 12 << 20} {
		name := fmt.Sprint("half-", size)
		w, err := s.fs.Create(s.ctx, s.uri(name), storage.CreateOptions{Size: int64(size)})
		s.check(err)
		defer w.Abort()
		data := random(size, 3)
		for piece := range slices.Chunk(data, 1<<20) {
			_, err := w.Write(piece)
			s.check(err)
		}
		s.absent(name)
		w.Abort()
		s.absent(name)
	}
	s.put("y", "other")
	s.lists("", "y")
}

func (s *suite) afterTheEnd() {
	w, err := s.fs.Create(s.ctx, s.uri("x"), storage.CreateOptions{})
	s.check(err)
	w.Abort()
	w.Abort()
	if _, err := w.Write([]byte("x")); err == nil {
		s.Error("Write after Abort succeeds")
	}
	if w.Commit() == nil {
		s.Error("Commit after Abort succeeds")
	}
	s.absent("x")
	w, err = s.fs.Create(s.ctx, s.uri("x"), storage.CreateOptions{})
	s.check(err)
	_, err = io.WriteString(w, "kept")
	s.check(err)
	s.check(w.Commit())
	w.Abort()
	if w.Commit() == nil {
		s.Error("a second Commit succeeds")
	}
	if _, err := w.Write([]byte("x")); err == nil {
		s.Error("Write after Commit succeeds")
	}
	s.holds("x", "kept")
}

// random gives bytes that depend on seed.
func random(n int, seed uint64) []byte {
	p := make([]byte, n)
	var key [32]byte
	key[0] = byte(seed)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}
