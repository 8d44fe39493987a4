package s3

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drey-state/drey/storage"
)

// List implements storage.FS. It holds one page of 1,000 keys.
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
		prefix, base := at.prefix(), strings.TrimRight(dir, "/")+"/"
		for page, err := range f.pages(ctx, c, at.bucket, prefix, deep) {
			if err != nil {
				yield(storage.Info{}, f.fail(ctx, "list", dir, err))
				return
			}
			for _, o := range page.Contents {
				rest, ok := strings.CutPrefix(aws.ToString(o.Key), prefix)
				if !ok || rest == "" || strings.HasSuffix(rest, "/") {
					continue
				}
				if !yield(storage.Info{URI: base + rest, Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
			for _, p := range page.CommonPrefixes {
				rest, ok := strings.CutPrefix(aws.ToString(p.Prefix), prefix)
				rest = strings.TrimSuffix(rest, "/")
				if !ok || rest == "" {
					continue
				}
				if !yield(storage.Info{URI: base + rest, Dir: true}, nil) {
					return
				}
			}
		}
	}
}

// pages yields the pages of a listing. A server that gives a token twice would
// keep it going for ever; that is an error.
func (f *FS) pages(ctx context.Context, c *awss3.Client, bucket, prefix string, deep bool) iter.Seq2[*awss3.ListObjectsV2Output, error] {
	return func(yield func(*awss3.ListObjectsV2Output, error) bool) {
		in := &awss3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix}
		if !deep {
			in.Delimiter = aws.String("/")
		}
		seen := map[string]bool{}
		for {
			out, err := c.ListObjectsV2(ctx, in)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(out, nil) || !aws.ToBool(out.IsTruncated) {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			token := aws.ToString(out.NextContinuationToken)
			if token == "" || seen[token] {
				yield(nil, fmt.Errorf("the server lists in a circle: it gave the continuation token %q again", token))
				return
			}
			seen[token] = true
			in.ContinuationToken = &token
		}
	}
}
