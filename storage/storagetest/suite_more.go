package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"testing/iotest"

	"github.com/drey-state/drey/storage"
)

func (s *suite) empty() {
	s.put("x", "")
	s.check(s.write("y", nil, storage.CreateOptions{Overwrite: true}))
	s.check(s.fs.Copy(s.ctx, s.uri("x"), s.uri("z")))
	for _, n := range []string{"x", "y", "z"} {
		s.holds(n, "")
		info, err := s.fs.Stat(s.ctx, s.uri(n))
		s.check(err)
		if info.Size != 0 || info.Dir {
			s.Errorf("Stat gives %+v", info)
		}
		o, err := s.fs.Open(s.ctx, s.uri(n))
		s.check(err)
		if n, err := o.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
			s.Errorf("ReadAt of nothing gives %d, %v", n, err)
		}
		s.check(o.Close())
	}
	s.lists("", "x", "y", "z")
}

func (s *suite) large() {
	data := random(17<<20+12345, 4)
	for _, hint := range []int64{0, int64(len(data)), 1} {
		name := fmt.Sprint("large-", hint)
		s.check(s.write(name, data, storage.CreateOptions{Size: hint}))
		got, err := storage.ReadAll(s.ctx, s.fs, s.uri(name), 0)
		s.check(err)
		if !bytes.Equal(got, data) {
			s.Errorf("%s: %d bytes come back changed (%d were written)", name, len(got), len(data))
		}
	}
	o, err := s.fs.Open(s.ctx, s.uri("large-0"))
	s.check(err)
	defer o.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			p := make([]byte, 700_000)
			off := int64(i) * 2_000_003
			if n, err := o.ReadAt(p, off); n != len(p) || err != nil || !bytes.Equal(p, data[off:off+int64(n)]) {
				s.Errorf("ReadAt(%d) gives %d bytes, %v", off, n, err)
			}
		})
	}
	wg.Wait()
}

func (s *suite) offsets() {
	data := random(100_000, 5)
	s.check(s.write("x", data, storage.CreateOptions{}))
	o, err := s.fs.Open(s.ctx, s.uri("x"))
	s.check(err)
	defer o.Close()
	size := int64(len(data))
	for _, off := range []int64{0, 1, 4095, 65536, size - 1, size} {
		r, err := o.Reader(s.ctx, off)
		s.check(err)
		s.check(iotest.TestReader(r, data[off:]))
		s.check(r.Close())
	}
	for _, off := range []int64{-1, size + 1} {
		if r, err := o.Reader(s.ctx, off); err == nil {
			s.Errorf("Reader at %d of %d succeeds", off, size)
			r.Close()
		}
	}
	for _, tc := range []struct {
		off  int64
		n    int
		want int
		err  error
	}{
		{0, 10, 10, nil}, {99, 1000, 1000, nil}, {size - 10, 11, 10, io.EOF}, {size, 1, 0, io.EOF}, {size + 5, 1, 0, io.EOF}, {5, 0, 0, nil},
	} {
		p := make([]byte, tc.n)
		n, err := o.ReadAt(p, tc.off)
		if n != tc.want || err != tc.err {
			s.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d, %v", tc.n, tc.off, n, err, tc.want, tc.err)
		} else if !bytes.Equal(p[:n], data[min(tc.off, size):min(tc.off, size)+int64(n)]) {
			s.Errorf("ReadAt(%d) gives other bytes", tc.off)
		}
	}
	if _, err := o.ReadAt(make([]byte, 1), -1); err == nil {
		s.Error("ReadAt at -1 succeeds")
	}
	r, err := o.Reader(s.ctx, 0)
	s.check(err)
	_, err = io.ReadFull(r, make([]byte, 10))
	s.check(err)
	s.check(r.Close()) // before the end
	if _, err := r.Read(make([]byte, 1)); err == nil {
		s.Error("Read after Close succeeds")
	}
}

func (s *suite) copy() {
	s.put("a/x", "source")
	s.put("a/y", "other")
	s.check(s.fs.Copy(s.ctx, s.uri("a/x"), s.uri("b/c/x")))
	s.holds("b/c/x", "source")
	err := s.fs.Copy(s.ctx, s.uri("a/x"), s.uri("a/y"))
	s.is(err, fs.ErrExist, s.uri("a/y"))
	err = s.fs.Copy(s.ctx, s.uri("a/x"), s.uri("a/x"))
	s.is(err, fs.ErrExist, s.uri("a/x"))
	s.holds("a/y", "other")
	s.check(s.write("a/x", []byte("changed"), storage.CreateOptions{Overwrite: true}))
	s.holds("b/c/x", "source")
	s.check(s.fs.Copy(s.ctx, s.uri("a/x"), s.uri("b/d")))
	s.holds("b/d", "changed")
	s.check(s.fs.Delete(s.ctx, s.uri("a/x")))
	err = s.fs.Copy(s.ctx, s.uri("a/x"), s.uri("b/e"))
	s.is(err, fs.ErrNotExist, s.uri("a/x"))
	s.holds("b/d", "changed")
	s.absent("b/e")
	n, err := storage.Copy(s.ctx, storage.Mux{storage.Scheme(s.root): s.fs}, s.uri("b/d"), s.fs, s.uri("b/f"), storage.CopyOptions{})
	if s.check(err); n != 7 {
		s.Errorf("Copy gives %d bytes", n)
	}
	s.holds("b/f", "changed")
}

func (s *suite) copyLarge() {
	data := random(9<<20+1, 6)
	s.check(s.write("x", data, storage.CreateOptions{}))
	s.check(s.fs.Copy(s.ctx, s.uri("x"), s.uri("y")))
	s.holds("y", string(data))
	// To another store and back the bytes pass through this process.
	mem := storage.NewMemory()
	n, err := storage.Copy(s.ctx, s.fs, s.uri("y"), mem, "mem:/y", storage.CopyOptions{})
	if s.check(err); n != int64(len(data)) {
		s.Errorf("Copy gives %d bytes of %d", n, len(data))
	}
	_, err = storage.Copy(s.ctx, mem, "mem:/y", s.fs, s.uri("z"), storage.CopyOptions{})
	s.check(err)
	s.holds("z", string(data))
	_, err = storage.Copy(s.ctx, mem, "mem:/y", s.fs, s.uri("z"), storage.CopyOptions{})
	s.is(err, fs.ErrExist, s.uri("z"))
}

func (s *suite) delete() {
	for _, n := range []string{"a", "b", "d/c", "keep", "keep-too/x"} {
		s.put(n, n)
	}
	s.check(s.fs.Delete(s.ctx))
	s.check(s.fs.Delete(s.ctx, s.uri("a"), s.uri("missing"), s.uri("b"), s.uri("d/missing"), s.uri("d/c"), s.uri("a")))
	s.check(s.fs.Delete(s.ctx, s.uri("a")))
	s.lists("", "keep", "keep-too/x")
	s.put("a", "again")
	s.holds("a", "again")
}

// forEach runs do for 0..n-1 with some workers.
func (s *suite) forEach(n int, do func(i int) error) {
	s.Helper()
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for k := range errs {
		wg.Go(func() {
			for i := k; i < n && errs[k] == nil; i += len(errs) {
				errs[k] = do(i)
			}
		})
	}
	wg.Wait()
	s.check(errors.Join(errs...))
}

// many makes more objects than a page of a listing, or a batch, can hold.
func (s *suite) many() {
	const n = 1100
	names, uris := make([]string, n), make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("o-%d", i)
		uris[i] = s.uri("many/" + names[i])
	}
	s.forEach(n, func(i int) error {
		return storage.WriteFile(s.ctx, s.fs, uris[i], []byte(names[i]), storage.CreateOptions{})
	})
	s.put("many-not/x", "x")
	s.lists("many", names...)
	sorted := slices.Sorted(slices.Values(names))
	if got := s.collect(s.uri("many"), s.fs.ReadDir(s.ctx, s.uri("many"))); !slices.Equal(got, sorted) {
		s.Errorf("ReadDir gives %d names, want %d", len(got), n)
	}
	s.check(s.fs.Delete(s.ctx, append(uris[:n-1:n-1], s.uri("many/missing"))...))
	s.lists("many", names[n-1])
	s.lists("", "many/"+names[n-1], "many-not/x")
}

// listMeanwhile deletes what a listing yields, and breaks one off.
func (s *suite) listMeanwhile() {
	for i := range 20 {
		s.put(fmt.Sprintf("d%d/x%d", i%3, i), "x")
	}
	for _, err := range s.fs.List(s.ctx, s.root) {
		s.check(err)
		break
	}
	seen := 0
	for info, err := range s.fs.List(s.ctx, s.root) {
		s.check(err)
		s.check(s.fs.Delete(s.ctx, info.URI))
		seen++
	}
	if seen != 20 {
		s.Errorf("the listing yields %d of 20 objects", seen)
	}
	for _, n := range s.collect(s.root, s.fs.List(s.ctx, s.root)) {
		s.Errorf("%s is left", n)
	}
}

func (s *suite) cancelled() {
	s.put("x", "data")
	o, err := s.fs.Open(s.ctx, s.uri("x"))
	s.check(err)
	defer o.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	w, err := s.fs.Create(ctx, s.uri("y"), storage.CreateOptions{})
	s.check(err)
	defer w.Abort()
	r, err := o.Reader(ctx, 0)
	s.check(err)
	defer r.Close()
	cancel()
	_, open := s.fs.Open(ctx, s.uri("x"))
	_, create := s.fs.Create(ctx, s.uri("z"), storage.CreateOptions{})
	_, stat := s.fs.Stat(ctx, s.uri("x"))
	_, read := r.Read(make([]byte, 4))
	_, write := w.Write([]byte("x"))
	first := func(seq iter.Seq2[storage.Info, error]) error {
		for _, err := range seq {
			return err
		}
		return nil
	}
	for what, err := range map[string]error{
		"Open": open, "Create": create, "Stat": stat, "Read": read, "Write": write, "Commit": w.Commit(),
		"List":    first(s.fs.List(ctx, s.root)),
		"ReadDir": first(s.fs.ReadDir(ctx, s.root)),
		"Copy":    s.fs.Copy(ctx, s.uri("x"), s.uri("z")),
		"Delete":  s.fs.Delete(ctx, s.uri("x"), s.uri("w")),
	} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s gives %v", what, err)
		}
	}
	s.absent("y")
	s.absent("z")
	s.holds("x", "data")
}

func (s *suite) link() {
	l, ok := s.fs.(storage.Linker)
	if !ok {
		s.Skip("no Linker")
	}
	s.put("x", "linked")
	err := l.Link(s.ctx, s.uri("x"), s.uri("d/y"))
	if errors.Is(err, errors.ErrUnsupported) {
		s.Skip(err)
	}
	s.check(err)
	s.holds("d/y", "linked")
	s.put("z", "other")
	s.is(l.Link(s.ctx, s.uri("x"), s.uri("z")), fs.ErrExist, s.uri("z"))
	s.is(l.Link(s.ctx, s.uri("no"), s.uri("w")), fs.ErrNotExist, s.uri("no"))
	s.is(l.Link(s.ctx, s.uri("d"), s.uri("w")), storage.ErrIsDir, s.uri("d"))
	s.check(s.write("x", []byte("replaced"), storage.CreateOptions{Overwrite: true}))
	s.holds("d/y", "linked")
	s.check(s.fs.Delete(s.ctx, s.uri("x")))
	s.holds("d/y", "linked")
	s.holds("z", "other")
}

// clean cleans up beside writers that are at work: what is a dead writer's a
// suite cannot make. A store that can tell leaves the writer alone, another one lets it fail.
func (s *suite) clean() {
	c, ok := s.fs.(storage.Cleaner)
	if !ok {
		s.Skip("no Cleaner")
	}
	data := random(12<<20, 7)
	begin := func(name string) storage.Writer {
		w, err := s.fs.Create(s.ctx, s.uri(name), storage.CreateOptions{})
		s.check(err)
		s.Cleanup(w.Abort)
		_, err = w.Write(data)
		s.check(err)
		return w
	}
	s.put("d/done", "kept")
	named, other, deeper := begin("d/x"), begin("d/x1"), begin("d/e/x")
	n, err := c.Clean(s.ctx, s.uri("d/x"), s.uri("d/done"), s.uri("d/never"), s.uri("nowhere/y"))
	s.check(err)
	switch n {
	case 0:
		s.check(named.Commit())
		s.holds("d/x", string(data))
		s.check(s.fs.Delete(s.ctx, s.uri("d/x")))
	case 1:
		if err := named.Commit(); err == nil {
			s.Error("a writer whose traces were removed commits")
		}
		s.absentUnlisted("d/x")
	default:
		s.Errorf("Clean removed %d, want at most 1", n)
	}
	s.check(other.Commit())
	deeper.Abort()
	s.holds("d/x1", string(data))
	s.holds("d/done", "kept")
	n, err = c.Clean(s.ctx, s.uri("d/x"))
	if s.check(err); n != 0 {
		s.Errorf("Clean removed %d more", n)
	}
	s.check(s.write("d/x", []byte("anew"), storage.CreateOptions{}))
	s.lists("", "d/done", "d/x", "d/x1")
}

func (s *suite) prune() {
	p, ok := s.fs.(storage.Pruner)
	if !ok {
		s.Skip("no Pruner")
	}
	s.put("d/e/x", "x")
	s.put("d/y", "y")
	dirs := []string{s.uri("d/e"), s.uri("d"), s.uri("missing"), s.uri("d/y")}
	n, err := p.Prune(s.ctx, dirs...)
	if s.check(err); n != 0 {
		s.Errorf("Prune removed %d directories that are not empty", n)
	}
	s.lists("", "d/e/x", "d/y")
	s.check(s.fs.Delete(s.ctx, s.uri("d/e/x"), s.uri("d/y")))
	_, err = p.Prune(s.ctx, dirs...)
	s.check(err)
	_, err = s.fs.Stat(s.ctx, s.uri("d"))
	s.is(err, fs.ErrNotExist, s.uri("d"))
}
