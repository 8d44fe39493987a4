package main

import (
	"context"
	"iter"
	"log/slog"
	"sync"

	"github.com/spf13/pflag"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
)

// stores makes the stores that URIs of the command line can name.
func stores(e *env) storage.FS {
	return storesWith(e, storage.NewLocal(storage.LocalOptions{}), e.s3Endpoint, e.s3PathStyle, e.profile)
}

func storesWith(e *env, local storage.FS, endpoint string, pathStyle bool, profile string) storage.FS {
	o := s3.Options{Endpoint: endpoint, PathStyle: pathStyle, Profile: profile}
	if e.verbose {
		o.Logger = slog.New(slog.NewTextHandler(e.stderr, nil))
	}
	return storage.Mux{"file": local, "s3": &lazyS3{options: o}}
}

// lazyS3 is the store of S3, made when it is first used: it reads the AWS
// configuration, and what is wrong there shall not stop work on local files.
type lazyS3 struct {
	options s3.Options
	once    sync.Once
	fs      *s3.FS
	err     error
}

func (l *lazyS3) get(ctx context.Context) (*s3.FS, error) {
	l.once.Do(func() { l.fs, l.err = s3.New(context.WithoutCancel(ctx), l.options) })
	return l.fs, l.err
}

func (l *lazyS3) Open(ctx context.Context, uri string) (storage.Object, error) {
	f, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return f.Open(ctx, uri)
}

func (l *lazyS3) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	f, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return f.Create(ctx, uri, o)
}

func (l *lazyS3) Stat(ctx context.Context, uri string) (storage.Info, error) {
	f, err := l.get(ctx)
	if err != nil {
		return storage.Info{}, err
	}
	return f.Stat(ctx, uri)
}

func (l *lazyS3) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	f, err := l.get(ctx)
	if err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, err) }
	}
	return f.List(ctx, dir)
}

func (l *lazyS3) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	f, err := l.get(ctx)
	if err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, err) }
	}
	return f.ReadDir(ctx, dir)
}

func (l *lazyS3) Copy(ctx context.Context, src, dst string) error {
	f, err := l.get(ctx)
	if err != nil {
		return err
	}
	return f.Copy(ctx, src, dst)
}

func (l *lazyS3) Delete(ctx context.Context, uris ...string) error {
	f, err := l.get(ctx)
	if err != nil {
		return err
	}
	return f.Delete(ctx, uris...)
}

func (l *lazyS3) Clean(ctx context.Context, uris ...string) (int, error) {
	f, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return f.Clean(ctx, uris...)
}

func (l *lazyS3) Prune(ctx context.Context, dirs ...string) (int, error) {
	f, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return f.Prune(ctx, dirs...)
}

// targetStore is the options of commands that write to another store than they read from.
type targetStore struct {
	endpoint, profile string
	pathStyle         bool
	flags             *pflag.FlagSet
}

func (t *targetStore) add(f *pflag.FlagSet) {
	f.StringVar(&t.endpoint, "target-s3-endpoint", "", "URL of the S3 server of DST, if it is another")
	f.BoolVar(&t.pathStyle, "target-s3-path-style", false, "as --s3-path-style, for --target-s3-endpoint")
	f.StringVar(&t.profile, "target-profile", "", "AWS profile for DST, if it needs other credentials")
	t.flags = f
}

// store gives the store of the destination, or nil if it is the source's.
func (t *targetStore) store(e *env, local storage.FS) storage.FS {
	if !t.flags.Changed("target-s3-endpoint") && !t.flags.Changed("target-profile") {
		return nil
	}
	endpoint, pathStyle, profile := e.s3Endpoint, e.s3PathStyle, e.profile
	if t.flags.Changed("target-s3-endpoint") {
		endpoint, pathStyle = t.endpoint, t.pathStyle
	}
	if t.flags.Changed("target-profile") {
		profile = t.profile
	}
	return storesWith(e, local, endpoint, pathStyle, profile)
}
