package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Mux is an [FS] that passes each call on to the FS of the URI's scheme. Its
// keys are schemes as [Scheme] gives them: "file" also serves plain paths, "s3"
// also s3a, s3n and s3p. It must not be changed while it is in use. It
// implements [Linker], [Resolver], [Cleaner], [Pruner], [Keeper] and [Locator] as far as its members do.
type Mux map[string]FS

var (
	_ FS       = Mux(nil)
	_ Linker   = Mux(nil)
	_ Resolver = Mux(nil)
	_ Cleaner  = Mux(nil)
	_ Pruner   = Mux(nil)
	_ Keeper   = Mux(nil)
	_ Locator  = Mux(nil)
)

// FS gives the FS that serves uri, or an error that unwraps to [ErrScheme].
func (m Mux) FS(uri string) (FS, error) {
	scheme := Scheme(uri)
	if f, ok := m[scheme]; ok && f != nil {
		return f, nil
	}
	known := "none is configured"
	if len(m) > 0 {
		known = "configured: " + strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	}
	return nil, fmt.Errorf("%w: %q (%s); copy the files to one of these first, or map the URI to a place that is reachable", ErrScheme, scheme, known)
}

func (m Mux) fs(op, uri string) (FS, error) {
	f, err := m.FS(uri)
	return f, pathError(op, uri, err)
}

// Open implements FS.
func (m Mux) Open(ctx context.Context, uri string) (Object, error) {
	f, err := m.fs("open", uri)
	if err != nil {
		return nil, err
	}
	return f.Open(ctx, uri)
}

// Create implements FS.
func (m Mux) Create(ctx context.Context, uri string, o CreateOptions) (Writer, error) {
	f, err := m.fs("create", uri)
	if err != nil {
		return nil, err
	}
	return f.Create(ctx, uri, o)
}

// Stat implements FS.
func (m Mux) Stat(ctx context.Context, uri string) (Info, error) {
	f, err := m.fs("stat", uri)
	if err != nil {
		return Info{}, err
	}
	return f.Stat(ctx, uri)
}

// List implements FS.
func (m Mux) List(ctx context.Context, dir string) iter.Seq2[Info, error] {
	f, err := m.fs("list", dir)
	if err != nil {
		return failedList(err)
	}
	return f.List(ctx, dir)
}

// ReadDir implements FS.
func (m Mux) ReadDir(ctx context.Context, dir string) iter.Seq2[Info, error] {
	f, err := m.fs("list", dir)
	if err != nil {
		return failedList(err)
	}
	return f.ReadDir(ctx, dir)
}

func failedList(err error) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) { yield(Info{}, err) }
}

// Copy implements FS. Between two different stores the bytes pass through
// this process; see [Copy].
func (m Mux) Copy(ctx context.Context, src, dst string) error {
	_, err := Copy(ctx, m, src, m, dst, CopyOptions{})
	return err
}

// Link implements Linker.
func (m Mux) Link(ctx context.Context, src, dst string) error {
	from, err := m.fs("link", src)
	if err != nil {
		return err
	}
	to, err := m.fs("link", dst)
	if err != nil {
		return err
	}
	l, ok := from.(Linker)
	if !ok || !sameFS(from, to) {
		return pathError("link", src, fmt.Errorf("%w: to %s", errors.ErrUnsupported, dst))
	}
	return l.Link(ctx, src, dst)
}

// Resolve implements Resolver. What is in a store without links stays as it is.
func (m Mux) Resolve(ctx context.Context, uri string) (string, error) {
	f, err := m.fs("resolve", uri)
	if err != nil {
		return "", err
	}
	if r, ok := f.(Resolver); ok {
		return r.Resolve(ctx, uri)
	}
	return uri, nil
}

// Keep implements Keeper.
func (m Mux) Keep(ctx context.Context, uri, path string) {
	if k, ok := m[Scheme(uri)].(Keeper); ok {
		k.Keep(ctx, uri, path)
	}
}

// Locate implements Locator.
func (m Mux) Locate(ctx context.Context, uri string) (path string, ok bool) {
	if l, ok := m[Scheme(uri)].(Locator); ok {
		return l.Locate(ctx, uri)
	}
	return "", false
}

// Delete implements FS.
func (m Mux) Delete(ctx context.Context, uris ...string) error {
	var errs []error
	for run := range schemeRuns(uris) {
		f, err := m.FS(run[0])
		if err == nil {
			errs = append(errs, f.Delete(ctx, run...))
			continue
		}
		for _, uri := range run {
			errs = append(errs, &DeleteError{URI: uri, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Clean implements Cleaner.
func (m Mux) Clean(ctx context.Context, uris ...string) (removed int, err error) {
	return m.each("clean", uris, func(f FS, run []string) (int, error) {
		if c, ok := f.(Cleaner); ok {
			return c.Clean(ctx, run...)
		}
		return 0, nil
	})
}

// Prune implements Pruner.
func (m Mux) Prune(ctx context.Context, dirs ...string) (removed int, err error) {
	return m.each("prune", dirs, func(f FS, run []string) (int, error) {
		if p, ok := f.(Pruner); ok {
			return p.Prune(ctx, run...)
		}
		return 0, nil
	})
}

func (m Mux) each(op string, uris []string, do func(FS, []string) (int, error)) (total int, err error) {
	var errs []error
	for run := range schemeRuns(uris) {
		f, err := m.fs(op, run[0])
		n := 0
		if err == nil {
			n, err = do(f, run)
		}
		total += n
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

// schemeRuns cuts uris, keeping their order, where the scheme changes.
func schemeRuns(uris []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for len(uris) > 0 {
			n := 1
			for n < len(uris) && Scheme(uris[n]) == Scheme(uris[0]) {
				n++
			}
			if !yield(uris[:n]) {
				return
			}
			uris = uris[n:]
		}
	}
}
