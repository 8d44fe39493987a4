package s3

import (
	"context"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drey-state/drey/storage"
)

// List implements storage.FS. It holds as many pages of 1,000 keys in memory as Options.Lists says.
func (f *FS) List(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return f.entries(ctx, dir, true)
}

// ReadDir implements storage.FS.
func (f *FS) ReadDir(ctx context.Context, dir string) iter.Seq2[storage.Info, error] {
	return f.entries(ctx, dir, false)
}

func (f *FS) entries(ctx context.Context, dir string, deep bool) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		c, at, err := f.begin(ctx, dir)
		if err != nil {
			yield(storage.Info{}, f.fail(ctx, "list", dir, err))
			return
		}
		base := strings.TrimRight(dir, "/") + "/"
		l := &listing{client: c, bucket: at.bucket, prefix: at.prefix(), deep: deep, most: f.o.Lists}
		for page, err := range l.pages(ctx) {
			if err != nil {
				yield(storage.Info{}, f.fail(ctx, "list", dir, err))
				return
			}
			for _, o := range page.Contents {
				name := aws.ToString(o.Key)[len(l.prefix):]
				if name == "" || strings.HasSuffix(name, "/") {
					continue
				}
				if !yield(storage.Info{URI: base + name, Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
			for _, p := range page.CommonPrefixes {
				name := strings.TrimSuffix(aws.ToString(p.Prefix)[len(l.prefix):], "/")
				if name == "" {
					continue
				}
				if !yield(storage.Info{URI: base + name, Dir: true}, nil) {
					return
				}
			}
		}
	}
}
