package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

func write(t testing.TB, f FS, uri, data string) {
	t.Helper()
	if err := WriteFile(t.Context(), f, uri, []byte(data), CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func listed(t testing.TB, f FS, dir string) []string {
	t.Helper()
	var uris []string
	for info, err := range f.List(t.Context(), dir) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, info.URI)
	}
	slices.Sort(uris)
	return uris
}

func TestLocalSpellings(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	write(t, l, dir+"/a b/x", "data")
	for _, prefix := range []string{"", "file:", "file://", "FILE:", "file://localhost", "file://LOCALHOST", "file:///"} {
		for _, uri := range []string{prefix + dir + "/a b/x", prefix + dir + "/./a b//y/../x"} {
			data, err := ReadAll(t.Context(), l, uri, 0)
			if err != nil || string(data) != "data" {
				t.Errorf("%s: %q, %v", uri, data, err)
			}
		}
		if got, want := listed(t, l, prefix+dir), []string{prefix + dir + "/a b/x"}; !slices.Equal(got, want) {
			t.Errorf("List gives %q, want %q", got, want)
		}
	}
	for uri, want := range map[string]error{
		"hdfs://nn/x": ErrScheme, "s3://b/x": ErrScheme, "file://host/x": ErrScheme,
		"x": fs.ErrInvalid, "file:x": fs.ErrInvalid, "": fs.ErrInvalid, "/a\x00b": fs.ErrInvalid,
	} {
		if _, err := l.Stat(t.Context(), uri); !errors.Is(err, want) || !strings.Contains(err.Error(), uri) {
			t.Errorf("Stat(%q) gives %v", uri, err)
		}
	}
	if runtime.GOOS != "windows" {
		if _, err := l.Stat(t.Context(), "C:/x"); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "Windows path") {
			t.Error(err)
		}
	}
}

func TestTempNames(t *testing.T) {
	long := strings.Repeat("日", 85) // 255 bytes
	names := []string{"x", strings.Repeat("n", nameKept), strings.Repeat("n", nameKept+1), strings.Repeat("n", 255), long, long[:252] + "abc"}
	seen := map[string]string{}
	for _, name := range names {
		temp := tempPrefix(name) + "0123abcd" + tempSuffix
		if len(temp) > nameMax || !isTemp(temp) || !utf8.ValidString(temp) {
			t.Errorf("temporary name %q of %q", temp, name)
		}
		if seen[temp] != "" {
			t.Errorf("%q and %q have one temporary name", name, seen[temp])
		}
		seen[temp] = name
	}
	for _, name := range []string{"", ".tmp", "x.drey-0123abcd.tmp", ".x.drey-0123abcg.tmp", ".x.drey-0123abcd.tmp2", ".x.drey-123abcd.tmp", "drey-0123abcd.tmp", ".x.dray-0123abcd.tmp"} {
		if isTemp(name) {
			t.Errorf("%q passes for a temporary name", name)
		}
	}
	l, dir := NewLocal(LocalOptions{NoSync: true}), t.TempDir()
	for _, name := range names {
		write(t, l, dir+"/"+name, name)
		w, err := l.Create(t.Context(), dir+"/"+name, CreateOptions{Overwrite: true})
		if err != nil {
			t.Fatal(err)
		}
		w.(*localWriter).Abandon()
	}
	if got := listed(t, l, dir); len(got) != len(names) {
		t.Errorf("%d of %d objects are listed", len(got), len(names))
	}
	for _, name := range names {
		if n, err := l.Clean(t.Context(), dir+"/"+name); n != 1 || err != nil {
			t.Errorf("Clean(%q) = %d, %v", name, n, err)
		}
	}
}

func TestTempIsInvisible(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	temp, user := "/.x.drey-0123abcd.tmp", "/.x.drey-tmp"
	for _, name := range []string{temp, user} {
		if err := os.WriteFile(dir+name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got := listed(t, l, dir); !slices.Equal(got, []string{dir + user}) {
		t.Errorf("List gives %q", got)
	}
	_, stat := l.Stat(t.Context(), dir+temp)
	_, open := l.Open(t.Context(), dir+temp)
	if !errors.Is(stat, fs.ErrNotExist) || !errors.Is(open, fs.ErrNotExist) {
		t.Errorf("Stat and Open give %v, %v", stat, open)
	}
	if _, err := l.Create(t.Context(), dir+temp, CreateOptions{}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Create gives %v", err)
	}
	if err := l.Delete(t.Context(), dir+temp); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + temp); err != nil {
		t.Error("Delete removes a file that is being written")
	}
}

func TestSymlinks(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	write(t, l, dir+"/real/x", "data")
	for name, target := range map[string]string{
		"real/link": "x", "real/dangling": "nowhere", "real/self": "self", "real/loop": "..", "alias": "real", "real/dir": "../other",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	write(t, l, dir+"/other/y", "other")
	entries := func(list iter.Seq2[Info, error]) (entries []string) {
		for info, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(info.URI, dir)
			if info.Dir {
				name += "/"
			}
			if info.Link {
				name += "@"
			}
			entries = append(entries, name)
		}
		slices.Sort(entries)
		return entries
	}
	links := []string{"/dangling/@", "/dir/@", "/link@", "/loop/@", "/self/@", "/x"}
	in := func(dir string) (list []string) {
		for _, l := range links {
			list = append(list, dir+l)
		}
		return list
	}
	if got, want := entries(l.List(t.Context(), dir)), append([]string{"/alias/@", "/other/y"}, in("/real")...); !slices.Equal(got, want) {
		t.Errorf("List gives %q, want %q", got, want)
	}
	if got, want := entries(l.List(t.Context(), dir+"/alias")), in("/alias"); !slices.Equal(got, want) {
		t.Errorf("List of a link gives %q, want %q", got, want)
	}
	if got, want := entries(l.ReadDir(t.Context(), dir+"/real")), in("/real"); !slices.Equal(got, want) {
		t.Errorf("ReadDir gives %q, want %q", got, want)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/alias": "/real", "/alias/link": "/real/x", "/alias/loop/other/none": "/other/none", "/real/dangling": "/real/nowhere",
		"/real/dangling/x": "/real/nowhere/x", "/real/self": "", "/real": "/real",
	} {
		got, err := l.Resolve(t.Context(), "file:"+dir+name)
		if want == "" && err == nil || want != "" && (err != nil || strings.TrimPrefix(got, "file:") != real+want) {
			t.Errorf("%s resolves to %q, %v", name, got, err)
		}
	}
	info, err := l.Stat(t.Context(), dir+"/real/link")
	if err != nil || info.Size != 4 {
		t.Errorf("Stat of a link gives %+v, %v", info, err)
	}
	if err := l.Link(t.Context(), dir+"/real/link", dir+"/hard"); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(dir + "/hard"); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("Link links the symbolic link: %v, %v", fi, err)
	}
	// Overwriting replaces the link and not what it points to.
	if err := WriteFile(t.Context(), l, dir+"/real/link", []byte("new"), CreateOptions{Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadAll(t.Context(), l, dir+"/real/x", 0); string(data) != "data" || err != nil {
		t.Errorf("the link's target is %q, %v", data, err)
	}
	if err := l.Delete(t.Context(), dir+"/real/dangling", dir+"/real/link"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/real/link"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Delete leaves the link")
	}
}

// TestDiskFull has the file behind a writer replaced by one that is full.
// TestBrokenLinkFails: a link of which it is not known where it leads is not left out.
func TestBrokenLinkFails(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	if err := os.Symlink(strings.Repeat("n", 300), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for _, list := range []iter.Seq2[Info, error]{l.List(t.Context(), dir), l.ReadDir(t.Context(), dir)} {
		var last error
		for _, err := range list {
			last = err
		}
		if last == nil || errors.Is(last, fs.ErrNotExist) {
			t.Errorf("got %v", last)
		}
	}
}

// TestUnlessDeleted: a directory that was not found, and is there, was not listed.
func TestUnlessDeleted(t *testing.T) {
	dir := t.TempDir()
	if err := unlessDeleted(dir, syscall.ENOENT); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if err := unlessDeleted(dir+"/none", syscall.ENOENT); err != nil {
		t.Errorf("it was deleted: %v", err)
	}
	if err := unlessDeleted(dir+"/none", syscall.EIO); err != syscall.EIO {
		t.Errorf("another error: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	for _, size := range []int{10, 1 << 20} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		w, err := l.Create(t.Context(), dir+"/x", CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		lw := w.(*localWriter)
		lw.f.Close()
		lw.f, lw.buf = full, bufio.NewWriterSize(full, 1<<10)
		_, err = w.Write(make([]byte, size))
		if err == nil {
			err = w.Commit()
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir+"/x") {
			t.Errorf("error is %v", err)
		}
		if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil {
			t.Errorf("left: %v, %v", entries, err)
		}
		if err := w.Commit(); err == nil {
			t.Error("Commit succeeds after a failed write")
		}
	}
}

// TestPublish tries each way to give a file its name only if it is free.
func TestPublish(t *testing.T) {
	for name, publish := range map[string]func(from, to string) error{
		"link": publishNew, "rename": renameNew, "look and rename": renameChecked,
	} {
		dir := t.TempDir()
		for from, to := range map[string]string{"a": "free", "b": "taken"} {
			for _, n := range []string{from, "taken"} {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			err := publish(filepath.Join(dir, from), filepath.Join(dir, to))
			if errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			if to == "free" && err != nil || to == "taken" && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s to %s: %v", name, to, err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "taken")); string(data) != "taken" || err != nil {
				t.Errorf("%s: taken holds %q, %v", name, data, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "a")); to == "free" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the old name is still there", name)
			}
		}
	}
}

func TestLocalShrinks(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	write(t, l, dir+"/x", "0123456789")
	o, err := l.Open(t.Context(), dir+"/x")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := os.Truncate(dir+"/x", 5); err != nil {
		t.Fatal(err)
	}
	r, err := o.Reader(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); string(data) != "01234" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", data, err)
	}
	if _, err := o.ReadAt(make([]byte, 10), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ReadAt gives %v", err)
	}
}

func TestLocalObjectsAndDirectories(t *testing.T) {
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	write(t, l, dir+"/d/x", "x")
	ctx := t.Context()
	if err := l.Delete(ctx, dir+"/d"); !errors.Is(err, ErrIsDir) {
		t.Errorf("Delete of a directory gives %v", err)
	}
	if err := WriteFile(ctx, l, dir+"/d", nil, CreateOptions{Overwrite: true}); !errors.Is(err, ErrIsDir) {
		t.Errorf("Create over a directory gives %v", err)
	}
	if err := WriteFile(ctx, l, dir+"/d/x/y", nil, CreateOptions{}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Create below an object gives %v", err)
	}
	for _, err := range l.ReadDir(ctx, dir+"/d/x") {
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "/d/x: is a file; name a directory") {
			t.Errorf("ReadDir of an object gives %v", err)
		}
	}
	if n, err := l.Prune(ctx, dir+"/d/x", dir+"/d"); n != 0 || err != nil {
		t.Errorf("Prune gives %d, %v", n, err)
	}
	if err := l.Delete(ctx, dir+"/d/x"); err != nil {
		t.Error(err)
	}
	if n, err := l.Prune(ctx, dir+"/d"); n != 1 || err != nil {
		t.Errorf("Prune gives %d, %v", n, err)
	}
}

func TestLocalPermission(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	write(t, l, dir+"/d/x", "x")
	if err := os.Chmod(dir+"/d", 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir+"/d", 0o777)
	err := WriteFile(t.Context(), l, dir+"/d/y", nil, CreateOptions{})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Create gives %v", err)
	}
	if err := l.Delete(t.Context(), dir+"/d/x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Delete gives %v", err)
	}
}

func BenchmarkLocalCopy(b *testing.B) {
	l, dir := NewLocal(LocalOptions{NoSync: true}), b.TempDir()
	data := make([]byte, 16<<20)
	if err := WriteFile(b.Context(), l, dir+"/src", data, CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := l.Copy(b.Context(), dir+"/src", dir+"/dst"); err != nil {
			b.Fatal(err)
		}
		if err := l.Delete(b.Context(), dir+"/dst"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryList(b *testing.B) {
	m := NewMemory()
	for i := range 10_000 {
		uri := "mem:/" + string(rune('a'+i%20)) + "/" + strings.Repeat("x", i%7+1) + "/" + string(rune('A'+i%50)) + string(rune('a'+i%26))
		if err := WriteFile(b.Context(), m, uri, nil, CreateOptions{Overwrite: true}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range m.List(b.Context(), "mem:/") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestCleanLeavesWriters cleans all the time while objects are written.
func TestCleanLeavesWriters(t *testing.T) {
	l, other, dir := NewLocal(LocalOptions{NoSync: true}), NewLocal(LocalOptions{}), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	const writers, rounds = 4, 200
	var uris []string
	for i := range writers {
		for j := range rounds {
			uris = append(uris, fmt.Sprintf("%s/%d-%d", dir, i, j))
		}
	}
	var cleaners, wg sync.WaitGroup
	for range 2 {
		cleaners.Go(func() {
			for ctx.Err() == nil {
				// What it may remove is a file that was made and not yet locked.
				if _, err := other.Clean(ctx, uris...); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range writers {
		wg.Go(func() {
			for j := range rounds {
				uri := uris[i*rounds+j]
				if err := WriteFile(t.Context(), l, uri, []byte(uri), CreateOptions{Overwrite: j%2 == 0}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	cleaners.Wait()
	if got := listed(t, l, dir); len(got) != len(uris) {
		t.Errorf("%d of %d objects are there", len(got), len(uris))
	}
}

// TestCleanTwoWriters cleans beside a writer that lives and one that does not.
func TestCleanTwoWriters(t *testing.T) {
	l, uri := NewLocal(LocalOptions{}), t.TempDir()+"/x"
	var ws []*localWriter
	for i := range 2 {
		w, err := l.Create(t.Context(), uri, CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		if _, err := fmt.Fprint(w, i); err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w.(*localWriter))
	}
	if n, err := l.Clean(t.Context(), uri); n != 0 || err != nil {
		t.Errorf("Clean beside two writers = %d, %v", n, err)
	}
	ws[0].Abandon()
	if n, err := l.Clean(t.Context(), uri); n != 1 || err != nil {
		t.Errorf("Clean beside one writer = %d, %v", n, err)
	}
	if err := ws[1].Commit(); err != nil {
		t.Error(err)
	}
	if data, err := ReadAll(t.Context(), l, uri, 0); string(data) != "1" || err != nil {
		t.Errorf("holds %q, %v", data, err)
	}
}

// TestKilledWriter is a process that writes and waits, if the variable is set, and else kills such a one.
func TestKilledWriter(t *testing.T) {
	const variable = "DREY_TEST_KILLED_WRITER"
	l := NewLocal(LocalOptions{})
	if uri := os.Getenv(variable); uri != "" {
		w, err := l.Create(t.Context(), uri, CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		fmt.Println("writing")
		time.Sleep(time.Minute)
		return
	}
	uri := t.TempDir() + "/x"
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledWriter$")
	cmd.Env = append(os.Environ(), variable+"="+uri)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "writing\n" {
		t.Errorf("the child says %q, %v", line, err)
	}
	if n, err := l.Clean(t.Context(), uri); n != 0 || err != nil {
		t.Errorf("Clean beside a process that writes = %d, %v", n, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if n, err := l.Clean(t.Context(), uri); n != 1 || err != nil {
		t.Errorf("Clean after a process that was killed = %d, %v", n, err)
	}
}

// TestCleanWithoutLocks goes by age where a lock can't be tried: here, as the file may not be read.
func TestCleanWithoutLocks(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	l, dir := NewLocal(LocalOptions{}), t.TempDir()
	tmp := dir + "/.x.drey-0123abcd.tmp"
	if err := os.WriteFile(tmp, nil, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Clean(t.Context(), dir+"/x"); n != 0 || err != nil {
		t.Errorf("Clean of a young file = %d, %v", n, err)
	}
	old := time.Now().Add(-tempAge - time.Minute)
	if err := os.Chtimes(tmp, old, old); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Clean(t.Context(), dir+"/x"); n != 1 || err != nil {
		t.Errorf("Clean of an old file = %d, %v", n, err)
	}
}
