package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drey-state/drey/storage"
)

// Copy implements storage.FS, on the server's side: with one request up to
// [Options.SingleCopyLimit], in parts above. Content type and metadata go
// along. If the source changes meanwhile, the error unwraps to
// [storage.ErrChanged]. See [FS] for the servers on which two copies to one
// place at the same moment may both succeed.
func (f *FS) Copy(ctx context.Context, src, dst string) error {
	from, at, err := f.begin(ctx, src)
	if err != nil {
		return f.fail(ctx, "copy", src, err)
	}
	h, err := f.head(ctx, from, at)
	if err != nil {
		return f.fail(ctx, "copy", src, err)
	}
	to, dat, err := f.begin(ctx, dst) // the destination's region does the work
	if err == nil && dat.key == "" {
		err = storage.ErrIsDir
	}
	if err == nil {
		err = f.absent(ctx, to, dat)
	}
	if err != nil {
		return f.fail(ctx, "copy", dst, err)
	}
	c := &copier{f: f, c: to, src: at, dst: dat, h: h, uri: dst, source: copySource(at)}
	if h.size <= f.o.SingleCopyLimit {
		err = c.single(ctx)
	} else {
		err = c.parts(ctx)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrChanged), code(err) == "NoSuchKey":
		return f.fail(ctx, "copy", src, err)
	}
	return f.fail(ctx, "copy", dst, err)
}

// copySource is a location as the x-amz-copy-source header names it.
func copySource(l location) string { return escape(l.bucket) + "/" + escape(l.key) }

// escape percent-encodes all but what no server could misread.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', strings.IndexByte("/-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// copier copies one object.
type copier struct {
	f        *FS
	c        *awss3.Client
	src, dst location
	h        head
	uri      string // of the destination
	source   string
}

// etag is the condition that the source is still the one that was looked at.
func (c *copier) etag() *string {
	if c.h.etag == "" {
		return nil
	}
	return &c.h.etag
}

// single copies with one request. It carries metadata, tags and all else by itself.
func (c *copier) single(ctx context.Context) error {
	err := c.f.ifAbsent(ctx, c.c, c.dst, false, c.uri, func(condition *string) error {
		_, err := c.c.CopyObject(ctx, &awss3.CopyObjectInput{
			Bucket: &c.dst.bucket, Key: &c.dst.key, CopySource: &c.source,
			CopySourceIfMatch: c.etag(), IfNoneMatch: condition,
		})
		return err
	})
	if err == nil || status(err) != http.StatusPreconditionFailed {
		return err
	}
	// Either condition may have failed; or the first attempt did its work and its answer was lost.
	out, herr := c.c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &c.dst.bucket, Key: &c.dst.key})
	switch {
	case herr != nil && status(herr) == http.StatusNotFound:
		return fmt.Errorf("%w while it was copied", storage.ErrChanged)
	case herr == nil && c.h.etag != "" && aws.ToString(out.ETag) == c.h.etag && aws.ToInt64(out.ContentLength) == c.h.size:
		return nil // the same bytes
	}
	return err
}

// parts copies by ranges.
func (c *copier) parts(ctx context.Context) error {
	id := rand.Text()
	in, err := c.create(ctx, id)
	if err != nil {
		return err
	}
	created, err := c.c.CreateMultipartUpload(ctx, in)
	if err != nil {
		return err
	}
	upload := aws.ToString(created.UploadId)
	done := false
	defer func() {
		if !done {
			c.f.abort(ctx, c.c, c.uri, c.dst, upload)
		}
	}()
	parts, err := c.copyParts(ctx, upload)
	if err != nil {
		if status(err) == http.StatusPreconditionFailed {
			return fmt.Errorf("%w while it was copied", storage.ErrChanged)
		}
		return err
	}
	err = c.f.ifAbsent(ctx, c.c, c.dst, false, c.uri, func(condition *string) error {
		_, err := c.c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: &c.dst.bucket, Key: &c.dst.key, UploadId: &upload,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}, IfNoneMatch: condition,
		})
		return err
	})
	done = err == nil
	if !done {
		done = c.ours(ctx, id)
	}
	if done {
		return nil
	}
	return err
}

// ours says that the object at the destination is the one of this id.
func (c *copier) ours(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	out, err := c.c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &c.dst.bucket, Key: &c.dst.key})
	return err == nil && out.Metadata[writerKey] == id
}

// create is the request that begins the upload, with what CopyObject would carry along.
func (c *copier) create(ctx context.Context, id string) (*awss3.CreateMultipartUploadInput, error) {
	h := c.h.out
	in := &awss3.CreateMultipartUploadInput{
		Bucket: &c.dst.bucket, Key: &c.dst.key,
		ContentType: h.ContentType, ContentEncoding: h.ContentEncoding, ContentLanguage: h.ContentLanguage,
		ContentDisposition: h.ContentDisposition, CacheControl: h.CacheControl,
		WebsiteRedirectLocation: h.WebsiteRedirectLocation,
	}
	in.Metadata = maps.Clone(h.Metadata)
	if in.Metadata == nil {
		in.Metadata = map[string]string{}
	}
	in.Metadata[writerKey] = id
	if aws.ToInt32(h.TagCount) == 0 {
		return in, nil
	}
	from, err := c.f.client(ctx, c.src.bucket)
	if err != nil {
		return nil, err
	}
	out, err := from.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: &c.src.bucket, Key: &c.src.key})
	if err != nil {
		return nil, fmt.Errorf("read the tags of the source: %w", err)
	}
	var tags []string
	for _, t := range out.TagSet {
		tags = append(tags, escape(aws.ToString(t.Key))+"="+escape(aws.ToString(t.Value)))
	}
	in.Tagging = aws.String(strings.ReplaceAll(strings.Join(tags, "&"), "/", "%2F"))
	return in, nil
}

// copyParts copies all ranges, some at a time.
func (c *copier) copyParts(ctx context.Context, upload string) ([]types.CompletedPart, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	size := partSize(max(c.f.o.PartSize, min(copyPart, c.f.o.SingleCopyLimit)), c.h.size)
	parts := make([]types.CompletedPart, (c.h.size+size-1)/size)
	sem := make(chan struct{}, c.f.o.Concurrency)
	var wg sync.WaitGroup
	for i := range parts {
		select {
		case sem <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return nil, context.Cause(ctx)
		}
		wg.Go(func() {
			defer func() { <-sem }()
			first := int64(i) * size
			last := min(first+size, c.h.size) - 1
			n := int32(i + 1)
			out, err := c.c.UploadPartCopy(ctx, &awss3.UploadPartCopyInput{
				Bucket: &c.dst.bucket, Key: &c.dst.key, UploadId: &upload, PartNumber: &n,
				CopySource: &c.source, CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", first, last)),
				CopySourceIfMatch: c.etag(),
			})
			if err == nil && (out.CopyPartResult == nil || out.CopyPartResult.ETag == nil) {
				err = errors.New("the server copied a part and gave no etag")
			}
			if err != nil {
				cancel(err)
				return
			}
			parts[i] = types.CompletedPart{PartNumber: &n, ETag: out.CopyPartResult.ETag}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return parts, nil
}
