package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stores are those that faults can be put before.
func stores(t *testing.T) map[string]func() (storage.FS, string) {
	return map[string]func() (storage.FS, string){
		"local":  func() (storage.FS, string) { return storage.NewLocal(storage.LocalOptions{NoSync: true}), t.TempDir() },
		"memory": func() (storage.FS, string) { return storage.NewMemory(), "mem://m/root" },
	}
}

// TestCrashAnywhere crashes some work after each of its steps: what is visible
// then is whole, and running the work again, after Clean, completes it.
func TestCrashAnywhere(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	work := func(ctx context.Context, f storage.FS, root string) error {
		write := func(name string, data []byte) error {
			err := storage.WriteFile(ctx, f, root+name, data, storage.CreateOptions{})
			if errors.Is(err, fs.ErrExist) {
				return nil
			}
			return err
		}
		if err := write("/a", big); err != nil {
			return err
		}
		if err := f.Copy(ctx, root+"/a", root+"/d/b"); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if _, err := storage.Copy(ctx, f, root+"/d/b", storage.Mux{"file": f, "mem": f}, root+"/c", storage.CopyOptions{}); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := storage.WriteFile(ctx, f, root+"/pointer", []byte("new"), storage.CreateOptions{Overwrite: true}); err != nil {
			return err
		}
		return f.Delete(ctx, root+"/old1", root+"/old2")
	}
	want := map[string]string{"/a": string(big), "/d/b": string(big), "/c": string(big)}
	for name, make := range stores(t) {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				f, root := make()
				for _, old := range []string{"/old1", "/old2"} {
					check(t, storage.WriteFile(t.Context(), f, root+old, []byte("x"), storage.CreateOptions{}))
				}
				check(t, storage.WriteFile(t.Context(), f, root+"/pointer", []byte("old"), storage.CreateOptions{}))
				faulty := storagetest.NewFaulty(f, storagetest.FaultOptions{CrashAfter: n})
				err := work(t.Context(), faulty, root)
				if !faulty.Crashed() {
					check(t, err)
					if n < 8 {
						t.Errorf("the work has only %d steps", n)
					}
					return
				}
				if !errors.Is(err, storagetest.ErrCrashed) {
					t.Fatalf("crash after %d: %v", n, err)
				}
				for info, err := range f.List(t.Context(), root) {
					check(t, err)
					name := strings.TrimPrefix(info.URI, root)
					got := string(must(storage.ReadAll(t.Context(), f, info.URI, 0))(t))
					switch {
					case name == "/pointer" && (got == "old" || got == "new"):
					case strings.HasPrefix(name, "/old"):
					case got != want[name] || int64(len(got)) != info.Size:
						t.Errorf("crash after %d: %s has %d bytes", n, name, len(got))
					}
				}
				if c, ok := f.(storage.Cleaner); ok {
					must(c.Clean(t.Context(), root+"/a", root+"/d/b", root+"/c", root+"/pointer"))(t)
					left := must(os.ReadDir(root))(t)
					for _, e := range left {
						if strings.HasSuffix(e.Name(), ".tmp") {
							t.Errorf("crash after %d: %s is left after Clean", n, e.Name())
						}
					}
				}
				check(t, work(t.Context(), f, root))
				for name, data := range want {
					if got := must(storage.ReadAll(t.Context(), f, root+name, 0))(t); string(got) != data {
						t.Errorf("crash after %d, run again: %s has %d bytes", n, name, len(got))
					}
				}
			}
		})
	}
}

func TestInjectedFaults(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []string{"open", "create", "write", "commit", "read", "stat", "list", "copy", "link", "delete", "clean", "prune"} {
		for _, done := range []bool{false, true} {
			m := storage.NewMemory()
			check(t, storage.WriteFile(t.Context(), m, "mem:/x", []byte("data"), storage.CreateOptions{}))
			var steps []storagetest.Step
			f := storagetest.NewFaulty(m, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if steps = append(steps, s); s.Op == op {
					return &storagetest.Fault{Err: boom, Done: done}
				}
				return nil
			}})
			ctx := t.Context()
			_, read := storage.ReadAll(ctx, f, "mem:/x", 0)
			_, stat := f.Stat(ctx, "mem:/x")
			_, clean := f.Clean(ctx, "mem:/x")
			_, prune := f.Prune(ctx, "mem:/x")
			errs := []error{
				read, stat, clean, prune, f.Copy(ctx, "mem:/x", "mem:/copy"), f.Link(ctx, "mem:/x", "mem:/link"),
				storage.WriteFile(ctx, f, "mem:/new", []byte("new data"), storage.CreateOptions{}),
			}
			for _, err := range f.List(ctx, "mem:/") {
				errs = append(errs, err)
			}
			_, before := m.Stat(ctx, "mem:/x")
			errs = append(errs, f.Delete(ctx, "mem:/x", "mem:/y"))
			n := 0
			for _, err := range errs {
				if errors.Is(err, boom) {
					n++
				} else if err != nil {
					t.Errorf("%s: %v", op, err)
				}
			}
			if op == "read" && done {
				continue // all bytes came, with an error behind that nobody needs
			}
			if n != 1 || before != nil {
				t.Errorf("%s: %d calls fail", op, n)
			}
			_, err := m.Stat(ctx, "mem:/new")
			if visible := err == nil; visible != (op != "create" && op != "write" && (op != "commit" || done)) {
				t.Errorf("%s, done %v: the new object is visible: %v", op, done, visible)
			}
			if got := f.Steps(); got != len(steps) || steps[got-1].N != got {
				t.Errorf("%d steps, %v", got, steps)
			}
		}
	}
}

// lying is a store whose objects end before their size, or after it.
type lying struct {
	storage.FS
	by int64
}

func (l lying) Open(ctx context.Context, uri string) (storage.Object, error) {
	o, err := l.FS.Open(ctx, uri)
	return lyingObject{o, l.by}, err
}

type lyingObject struct {
	storage.Object
	by int64
}

func (o lyingObject) Size() int64 { return o.Object.Size() + o.by }

func (o lyingObject) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	return o.Object.Reader(ctx, off)
}

func TestCopyCounts(t *testing.T) {
	src, dst := storage.NewMemory(), storage.NewMemory()
	check(t, storage.WriteFile(t.Context(), src, "mem:/x", []byte("data"), storage.CreateOptions{}))
	for _, by := range []int64{-1, 1} {
		n, err := storage.Copy(t.Context(), lying{src, by}, "mem:/x", dst, "mem:/y", storage.CopyOptions{})
		if n != 0 || err == nil || !strings.Contains(err.Error(), "mem:/x") {
			t.Errorf("Copy gives %d, %v", n, err)
		}
		if _, err := dst.Stat(t.Context(), "mem:/y"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the copy is visible: %v", err)
		}
	}
}

func TestCopyFaults(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []string{"read", "write", "commit", "open", "create"} {
		src, dst := storage.NewMemory(), storage.NewLocal(storage.LocalOptions{NoSync: true})
		to := t.TempDir() + "/y"
		check(t, storage.WriteFile(t.Context(), src, "mem:/x", bytes.Repeat([]byte("x"), 1<<20), storage.CreateOptions{}))
		n := 0
		o := storagetest.FaultOptions{ShortReads: true, Seed: 1, Inject: func(s storagetest.Step) *storagetest.Fault {
			if s.Op == op {
				if n++; n == 3 || op != "read" && op != "write" {
					return &storagetest.Fault{Err: boom, Done: op != "commit"}
				}
			}
			return nil
		}}
		_, err := storage.Copy(t.Context(), storagetest.NewFaulty(src, o), "mem:/x", storagetest.NewFaulty(dst, o), to, storage.CopyOptions{})
		if !errors.Is(err, boom) {
			t.Errorf("%s: %v", op, err)
		}
		if left := must(os.ReadDir(storage.Dir(to)))(t); len(left) > 0 {
			t.Errorf("%s: left %v", op, left)
		}
	}
}

func TestCopyInsideIsTheStores(t *testing.T) {
	m := storage.NewMemory()
	var ops []string
	f := storagetest.NewFaulty(m, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
		ops = append(ops, s.Op)
		return nil
	}})
	check(t, storage.WriteFile(t.Context(), m, "s3://b/x", []byte("data"), storage.CreateOptions{}))
	var progress int64
	mux := storage.Mux{"s3": f}
	n, err := storage.Copy(t.Context(), mux, "s3://b/x", storage.Mux{"s3": mux}, "s3a://b/y", storage.CopyOptions{Progress: func(n int64) { progress += n }})
	if check(t, err); n != 4 || progress != 4 || !slices.Equal(ops, []string{"stat", "copy"}) {
		t.Errorf("%d bytes, progress %d, steps %v", n, progress, ops)
	}
	if _, err := storage.Copy(t.Context(), m, "s3://b/", m, "s3://b/z", storage.CopyOptions{}); !errors.Is(err, storage.ErrIsDir) {
		t.Errorf("Copy of a directory: %v", err)
	}
}

func TestReadAllLimit(t *testing.T) {
	m := storage.NewMemory()
	check(t, storage.WriteFile(t.Context(), m, "mem:/x", []byte("data"), storage.CreateOptions{}))
	for limit, want := range map[int64]error{0: nil, 4: nil, 5: nil, 3: storage.ErrTooLarge} {
		if _, err := storage.ReadAll(t.Context(), m, "mem:/x", limit); !errors.Is(err, want) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func TestMux(t *testing.T) {
	ctx := t.Context()
	local, s3 := storage.NewMemory(), storage.NewMemory()
	mux := storage.Mux{"file": local, "s3": s3}
	for _, uri := range []string{"/x", "file:///x2", "s3a://b/x", "s3p://b/x2"} {
		check(t, storage.WriteFile(ctx, mux, uri, []byte(uri), storage.CreateOptions{}))
	}
	must(local.Stat(ctx, "file:/x"))(t)
	must(s3.Stat(ctx, "s3://b/x"))(t)
	check(t, mux.Copy(ctx, "/x", "s3://b/from-local"))
	check(t, mux.Copy(ctx, "s3n://b/x", "s3a://b/inside"))
	must(s3.Stat(ctx, "s3://b/from-local"))(t)
	check(t, mux.Link(ctx, "s3://b/x", "s3://b/linked"))
	if err := mux.Link(ctx, "/x", "s3://b/l"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Link between stores: %v", err)
	}
	err := mux.Delete(ctx, "/x", "s3://b/x", "gs://b/1", "gs://b/2", "file:/x2")
	var de *storage.DeleteError
	if !errors.As(err, &de) || de.URI != "gs://b/1" || !errors.Is(err, storage.ErrScheme) || !strings.Contains(err.Error(), "gs://b/2") {
		t.Errorf("Delete gives %v", err)
	}
	for _, uri := range []string{"/x", "s3://b/x", "file:/x2"} {
		if _, err := mux.Stat(ctx, uri); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not deleted: %v", uri, err)
		}
	}
	_, open := mux.Open(ctx, "gs://b/x")
	_, create := mux.Create(ctx, "gs://b/x", storage.CreateOptions{})
	_, stat := mux.Stat(ctx, "gs://b/x")
	_, clean := mux.Clean(ctx, "gs://b/x")
	_, prune := mux.Prune(ctx, "gs://b/x")
	var list, dir error
	for _, err := range mux.List(ctx, "gs://b/x") {
		list = err
	}
	for _, err := range mux.ReadDir(ctx, "gs://b/x") {
		dir = err
	}
	for i, err := range []error{open, create, stat, clean, prune, list, dir, mux.Copy(ctx, "gs://b/x", "/y"), mux.Copy(ctx, "s3a://b/x2", "gs://b/x"), mux.Link(ctx, "gs://b/x", "/y")} {
		if !errors.Is(err, storage.ErrScheme) || !strings.Contains(err.Error(), "gs://b/x") || !strings.Contains(err.Error(), "configured: file, s3") {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := (storage.Mux{}).FS("/x"); !errors.Is(err, storage.ErrScheme) || !strings.Contains(err.Error(), "none is configured") {
		t.Error(err)
	}
	if n, err := mux.Clean(ctx, "/x", "s3://b/x"); n != 0 || err != nil {
		t.Errorf("Clean gives %d, %v", n, err)
	}
}

// keeping is a store that remembers what it was told to keep.
type keeping struct {
	storage.FS
	kept map[string]string
}

func (k keeping) Keep(_ context.Context, uri, path string) { k.kept[uri] = path }

func (k keeping) Locate(_ context.Context, uri string) (string, bool) {
	path, ok := k.kept[uri]
	return path, ok
}

func TestMuxKeepsAndLocates(t *testing.T) {
	ctx := t.Context()
	kept := map[string]string{}
	mux := storage.Mux{"s3": keeping{storage.NewMemory(), kept}, "file": storage.NewMemory()}
	for _, uri := range []string{"s3a://b/x", "file:/x", "gs://b/x"} {
		mux.Keep(ctx, uri, "/local/copy")
	}
	if len(kept) != 1 || kept["s3a://b/x"] != "/local/copy" {
		t.Errorf("kept %v", kept)
	}
	for uri, want := range map[string]string{"s3a://b/x": "/local/copy", "s3a://b/y": "", "file:/x": "", "gs://b/x": ""} {
		if path, ok := mux.Locate(ctx, uri); path != want || ok != (want != "") {
			t.Errorf("%s is located at %q, %v", uri, path, ok)
		}
	}
}

func TestShuffled(t *testing.T) {
	m := storage.NewMemory()
	var want []string
	for i := range 50 {
		uri := fmt.Sprintf("mem:/d/%02d", i)
		check(t, storage.WriteFile(t.Context(), m, uri, nil, storage.CreateOptions{}))
		want = append(want, uri)
	}
	orders := map[string]bool{}
	f := storagetest.Shuffled(m, 1)
	for range 3 {
		var got []string
		for info, err := range f.List(t.Context(), "mem:/d") {
			check(t, err)
			got = append(got, info.URI)
		}
		orders[strings.Join(got, " ")] = true
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("listing gives %q", got)
		}
	}
	if len(orders) != 3 {
		t.Errorf("%d orders in 3 listings", len(orders))
	}
}

// ends is a context that ends when it was asked n times.
type ends struct {
	context.Context
	n int
}

func (c *ends) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestDeleteEnds: of each object that is still there when the context ends, Delete says so, and of no other.
func TestDeleteEnds(t *testing.T) {
	for name, c := range map[string]struct {
		fsys storage.FS
		root string
	}{
		"local":  {storage.NewLocal(storage.LocalOptions{NoSync: true}), "file:" + t.TempDir()},
		"memory": {storage.NewMemory(), "mem:/x"},
	} {
		t.Run(name, func(t *testing.T) {
			var uris []string
			for _, n := range []string{"a", "b", "c", "d"} {
				uris = append(uris, c.root+"/"+n)
				if err := storage.WriteFile(t.Context(), c.fsys, c.root+"/"+n, []byte("x"), storage.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			err := c.fsys.Delete(&ends{t.Context(), 2}, uris...)
			told := map[string]bool{}
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				var de *storage.DeleteError
				if !errors.As(e, &de) || !errors.Is(e, context.Canceled) {
					t.Fatalf("got %v", e)
				}
				told[de.URI] = true
			}
			for _, uri := range uris {
				if _, err := c.fsys.Stat(t.Context(), uri); (err == nil) != told[uri] {
					t.Errorf("%s: %v, but told %v", uri, err, told[uri])
				}
			}
			if len(told) != 2 {
				t.Errorf("told of %d", len(told))
			}
		})
	}
}
