package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/drey-state/drey/storage"
)

// recorder is a testing.TB that keeps a failure to itself.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}
func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.fail() }
func (r *recorder) Errorf(string, ...any) { r.fail() }
func (r *recorder) Skip(...any)           { runtime.Goexit() }
func (r *recorder) Fatal(...any)          { r.fail(); runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.fail(); runtime.Goexit() }
func (r *recorder) Cleanup(func())        {}

// failures gives the names of the guarantees that fs breaks.
func failures(t *testing.T, fs storage.FS, only string) (names []string) {
	for i, g := range guarantees {
		if only != "" && g.name != only {
			continue
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.run(&suite{TB: r, fs: fs, root: fmt.Sprintf("mem://m/%d", i), ctx: t.Context()})
		}()
		if <-done; r.failed {
			names = append(names, g.name)
		}
	}
	return names
}

// broken is Memory with one method replaced.
type broken struct {
	*storage.Memory
	open    func(m *storage.Memory, ctx context.Context, uri string) (storage.Object, error)
	create  func(m *storage.Memory, ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error)
	stat    func(m *storage.Memory, ctx context.Context, uri string) (storage.Info, error)
	list    func(m *storage.Memory, ctx context.Context, dir string) iter.Seq2[storage.Info, error]
	readDir func(m *storage.Memory, ctx context.Context, dir string) iter.Seq2[storage.Info, error]
	copy    func(m *storage.Memory, ctx context.Context, src, dst string) error
	remove  func(m *storage.Memory, ctx context.Context, uris ...string) error
}

func (b broken) Open(ctx context.Context, uri string) (storage.Object, error) {
	if b.open != nil {
		return b.open(b.Memory, ctx, uri)
	}
	return b.Memory.Open(ctx, uri)
}

func (b broken) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	if b.create != nil {
		return b.create(b.Memory, ctx, uri, o)
	}
	return b.Memory.Create(ctx, uri, o)
}

func (b broken) Stat(ctx context.Context, uri string) (storage.Info, error) {
	if b.stat != nil {
		return b.stat(b.Memory, ctx, uri)
	}
	return b.Memory.Stat(ctx, uri)
}

func (b broken) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	if b.list != nil {
		return b.list(b.Memory, ctx, dir)
	}
	return b.Memory.List(ctx, dir)
}

func (b broken) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	if b.readDir != nil {
		return b.readDir(b.Memory, ctx, dir)
	}
	return b.Memory.ReadDir(ctx, dir)
}

func (b broken) Copy(ctx context.Context, src, dst string) error {
	if b.copy != nil {
		return b.copy(b.Memory, ctx, src, dst)
	}
	return b.Memory.Copy(ctx, src, dst)
}

func (b broken) Delete(ctx context.Context, uris ...string) error {
	if b.remove != nil {
		return b.remove(b.Memory, ctx, uris...)
	}
	return b.Memory.Delete(ctx, uris...)
}

type hookedWriter struct {
	storage.Writer
	write func(p []byte) (int, error)
}

func (w hookedWriter) Write(p []byte) (int, error) { return w.write(p) }

type hookedObject struct {
	storage.Object
	reader func(ctx context.Context, off int64) (io.ReadCloser, error)
}

func (o hookedObject) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	return o.reader(ctx, off)
}

// TestSuiteFindsBrokenStores breaks one guarantee at a time: the suite must notice.
func TestSuiteFindsBrokenStores(t *testing.T) {
	ctx := context.Background()
	for guarantee, b := range map[string]broken{
		"Segments": {list: func(m *storage.Memory, ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
			return func(yield func(storage.Info, error) bool) { // compares text
				for info, err := range m.List(ctx, "mem://m") {
					if err != nil || strings.HasPrefix(info.URI, strings.TrimSuffix(dir, "/")) && !yield(info, err) {
						return
					}
				}
			}
		}},
		"Many": {list: func(m *storage.Memory, ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
			return func(yield func(storage.Info, error) bool) { // forgets the second page
				n := 0
				for info, err := range m.List(ctx, dir) {
					if n++; n > 1000 || !yield(info, err) {
						return
					}
				}
			}
		}},
		"Uncommitted": {create: func(m *storage.Memory, ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
			w, err := m.Create(ctx, uri, o)
			return hookedWriter{w, func(p []byte) (int, error) { // shows what is half written
				storage.WriteFile(ctx, m, uri, p, storage.CreateOptions{Overwrite: true})
				return w.Write(p)
			}}, err
		}},
		"CreateExisting": {create: func(m *storage.Memory, ctx context.Context, uri string, _ storage.CreateOptions) (storage.Writer, error) {
			return m.Create(ctx, uri, storage.CreateOptions{Overwrite: true})
		}},
		"CreateRace": {create: func(m *storage.Memory, ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
			if _, err := m.Stat(ctx, uri); err == nil && !o.Overwrite { // looks only here
				return nil, &fs.PathError{Op: "create", Path: uri, Err: fs.ErrExist}
			}
			return m.Create(ctx, uri, storage.CreateOptions{Overwrite: true})
		}},
		"Large": {create: func(m *storage.Memory, ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
			w, err := m.Create(ctx, uri, o)
			n := 0
			return hookedWriter{w, func(p []byte) (int, error) { // loses what is beyond 16 MiB
				if n += len(p); n > 16<<20 {
					return len(p), nil
				}
				return w.Write(p)
			}}, err
		}},
		"Offsets": {open: func(m *storage.Memory, ctx context.Context, uri string) (storage.Object, error) {
			o, err := m.Open(ctx, uri)
			return hookedObject{o, func(ctx context.Context, _ int64) (io.ReadCloser, error) { return o.Reader(ctx, 0) }}, err
		}},
		"Names": {create: func(m *storage.Memory, ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
			return m.Create(ctx, strings.ReplaceAll(uri, "%20", " "), o)
		}},
		"Directories": {open: func(m *storage.Memory, ctx context.Context, uri string) (storage.Object, error) {
			o, err := m.Open(ctx, uri)
			if errors.Is(err, storage.ErrIsDir) {
				return nil, &fs.PathError{Op: "open", Path: uri, Err: fs.ErrNotExist}
			}
			return o, err
		}},
		"Copy": {copy: func(m *storage.Memory, ctx context.Context, src, dst string) error {
			m.Delete(ctx, dst)
			return m.Copy(ctx, src, dst)
		}},
		"Delete": {remove: func(m *storage.Memory, ctx context.Context, uris ...string) error {
			for _, uri := range uris {
				if _, err := m.Stat(ctx, uri); err != nil { // a missing one
					return &storage.DeleteError{URI: uri, Err: err}
				}
				m.Delete(ctx, uri)
			}
			return nil
		}},
		"Cancelled": {stat: func(m *storage.Memory, _ context.Context, uri string) (storage.Info, error) { return m.Stat(ctx, uri) }},
		"Missing": {stat: func(m *storage.Memory, ctx context.Context, uri string) (storage.Info, error) {
			info, err := m.Stat(ctx, uri)
			if err != nil {
				err = errors.Unwrap(err) // names no URI
			}
			return info, err
		}},
		"Spelling": {readDir: func(m *storage.Memory, ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
			return m.ReadDir(ctx, strings.Replace(dir, "mem://m", "mem://M", 1))
		}},
	} {
		b.Memory = storage.NewMemory()
		if len(failures(t, b, guarantee)) == 0 {
			t.Errorf("a store that breaks %s passes", guarantee)
		}
	}
	if names := failures(t, storage.NewMemory(), ""); len(names) > 0 {
		t.Errorf("a good store fails %q", names)
	}
}

// TestTransport has each fault do what its name says, the same in each run.
func TestTransport(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 10_000)
	served := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		io.Copy(io.Discard, r.Body)
		w.Write(body)
	}))
	defer s.Close()
	get := func(rt *Transport, path string) (string, int) {
		served = 0
		resp, err := (&http.Client{Transport: rt}).Post(s.URL+path, "", bytes.NewReader(body))
		if err != nil {
			return "error", served
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil {
			return "cut", served
		}
		return resp.Status, served
	}
	for _, tc := range []struct {
		name, want string
		served     int
		rt         *Transport
	}{
		{"none", "200 OK", 1, &Transport{}},
		{"SlowDown", "503 Slow Down", 0, &Transport{SlowDown: 1}},
		{"Timeout", "error", 0, &Transport{Timeout: 1}},
		{"CutRequest", "error", 0, &Transport{CutRequest: 1}},
		{"LostAnswer", "error", 1, &Transport{LostAnswer: 1}},
		{"CutAnswer", "cut", 1, &Transport{CutAnswer: 1}},
		{"Match", "200 OK", 1, &Transport{SlowDown: 1, Match: func(*http.Request) bool { return false }}},
	} {
		if got, n := get(tc.rt, "/"); got != tc.want || n != tc.served {
			t.Errorf("%s: %s, served %d", tc.name, got, n)
		}
		if n := tc.rt.Injected()[tc.name]; tc.name != "none" && tc.name != "Match" && n != 1 {
			t.Errorf("%s: injected %d", tc.name, n)
		}
	}
	run := func(seed uint64, reverse bool) (out [20]string) {
		rt := &Transport{Seed: seed, SlowDown: .3, Timeout: .3}
		for i := range out {
			if reverse {
				i = len(out) - 1 - i
			}
			out[i], _ = get(rt, fmt.Sprint("/", i))
		}
		return out
	}
	if run(1, false) != run(1, true) {
		t.Error("what is injected depends on the order of the requests")
	}
	if run(1, false) == run(2, false) {
		t.Error("what is injected does not depend on the seed")
	}
}
