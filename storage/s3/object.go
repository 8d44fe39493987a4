package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drey-state/drey/storage"
)

// Open implements storage.FS. The object that was opened is the one that is
// read: if another takes its place, reading fails with [storage.ErrChanged].
// ReadAt uses ctx.
func (f *FS) Open(ctx context.Context, uri string) (storage.Object, error) {
	c, at, err := f.begin(ctx, uri)
	if err != nil {
		return nil, f.fail(ctx, "open", uri, err)
	}
	h, err := f.head(ctx, c, at)
	if err != nil {
		return nil, f.fail(ctx, "open", uri, err)
	}
	return &object{f: f, c: c, ctx: ctx, uri: uri, at: at, size: h.size, etag: h.etag}, nil
}

// object is an object of which only size and etag are held.
type object struct {
	f    *FS
	c    *awss3.Client
	ctx  context.Context // of ReadAt
	uri  string
	at   location
	size int64
	etag string
}

func (o *object) Size() int64 { return o.size }

func (o *object) Close() error { return nil }

// ReadAt implements io.ReaderAt with one request.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, o.f.fail(o.ctx, "read", o.uri, fmt.Errorf("%w: offset %d", fs.ErrInvalid, off))
	}
	if off >= o.size {
		return 0, io.EOF
	}
	want := min(int64(len(p)), o.size-off)
	r := &reader{o: o, ctx: o.ctx, off: off, end: off + want}
	defer r.Close()
	n, err := io.ReadFull(r, p[:want])
	if err == nil && want < int64(len(p)) {
		err = io.EOF
	}
	return n, err
}

// Reader implements storage.Object. A download that breaks is resumed where it was.
func (o *object) Reader(ctx context.Context, off int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, o.f.fail(ctx, "read", o.uri, err)
	}
	if off < 0 || off > o.size {
		return nil, o.f.fail(ctx, "read", o.uri, fmt.Errorf("%w: offset %d of %d", fs.ErrInvalid, off, o.size))
	}
	return &reader{o: o, ctx: ctx, off: off, end: o.size}, nil
}

// reader streams the bytes from off to end.
type reader struct {
	o        *object
	ctx      context.Context
	off, end int64

	body   io.ReadCloser      // nil between requests
	cancel context.CancelFunc // ends the request of body
	stall  *time.Timer        // calls cancel
	failed int                // attempts since the last byte
	err    error              // sticky
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	for {
		switch {
		case r.off == r.end:
			r.closeBody()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		n, err := r.try(p[:min(int64(len(p)), r.end-r.off)])
		r.off += int64(n)
		if n > 0 {
			r.failed = 0
			if err != nil {
				r.closeBody()
			}
			return n, nil
		}
		if err == nil {
			continue
		}
		r.closeBody()
		if err := r.again(err); err != nil {
			r.err = r.o.f.fail(r.ctx, "read", r.o.uri, err)
			return 0, r.err
		}
	}
}

// try reads once, from a new request if there is none.
func (r *reader) try(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.body == nil {
		if err := r.request(); err != nil {
			return 0, err
		}
	}
	r.stall.Reset(r.o.f.o.StallTimeout)
	n, err := r.body.Read(p)
	r.stall.Stop()
	switch {
	case err == io.EOF:
		err = io.ErrUnexpectedEOF // there should be more, or Read would not have asked
	case errors.Is(err, context.Canceled) && r.ctx.Err() == nil:
		err = fmt.Errorf("no byte came for %s", r.o.f.o.StallTimeout)
	}
	return n, err
}

// finalError is one that another attempt would not change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// again waits before the next attempt, or gives the error that ends the download.
func (r *reader) again(err error) error {
	var final finalError
	if errors.As(err, &final) {
		return final.error
	}
	if cerr := r.ctx.Err(); cerr != nil {
		return cerr
	}
	r.failed++
	if r.failed >= r.o.f.o.MaxAttempts {
		return fmt.Errorf("at byte %d of %d, after %d attempts: %w", r.off, r.o.size, r.failed, err)
	}
	d := backoff(r.o.f.o.minBackoff, r.failed)
	r.o.f.o.Logger.Debug("s3: resuming a download", "uri", r.o.uri, "offset", r.off, "after", d, "error", err)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// request asks for the bytes that are left. Its own attempts are the SDK's, so
// that its errors are final.
func (r *reader) request() error {
	o := r.o
	in := &awss3.GetObjectInput{Bucket: &o.at.bucket, Key: &o.at.key}
	if o.etag != "" {
		in.IfMatch = &o.etag
	}
	part := r.off > 0 || r.end < o.size
	if part {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", r.off, r.end-1))
	}
	ctx, cancel := context.WithCancel(r.ctx)
	out, err := o.c.GetObject(ctx, in)
	if err != nil {
		cancel()
		switch s := status(err); {
		case s == http.StatusPreconditionFailed, s == http.StatusRequestedRangeNotSatisfiable:
			return finalError{fmt.Errorf("%w (%s)", storage.ErrChanged, answer(err, nil))}
		case brokenBody(err):
			return err
		}
		return finalError{err}
	}
	r.body, r.cancel = out.Body, cancel
	r.stall = time.AfterFunc(o.f.o.StallTimeout, cancel)
	if err := o.check(out, part, r.off); err != nil {
		r.closeBody()
		return finalError{err}
	}
	return nil
}

// check compares an answer with the object that was opened, for servers that
// ignore conditions or ranges.
func (o *object) check(out *awss3.GetObjectOutput, part bool, off int64) error {
	if etag := aws.ToString(out.ETag); etag != "" && o.etag != "" && etag != o.etag {
		return fmt.Errorf("%w: its etag was %s and is %s", storage.ErrChanged, o.etag, etag)
	}
	if !part {
		if out.ContentLength != nil && *out.ContentLength != o.size {
			return fmt.Errorf("%w: its size was %d and is %d", storage.ErrChanged, o.size, *out.ContentLength)
		}
		return nil
	}
	start, total, ok := contentRange(aws.ToString(out.ContentRange))
	switch {
	case !ok || start != off:
		return fmt.Errorf("asked for the bytes from %d on, the server answered with the range %q", off, aws.ToString(out.ContentRange))
	case total >= 0 && total != o.size:
		return fmt.Errorf("%w: its size was %d and is %d", storage.ErrChanged, o.size, total)
	}
	return nil
}

// contentRange reads "bytes 5-9/10"; total is -1 if it is "*".
func contentRange(s string) (start, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, ok2 := strings.Cut(s, "/")
	first, _, ok3 := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	total = -1
	if size != "*" {
		var err2 error
		total, err2 = strconv.ParseInt(size, 10, 64)
		err = errors.Join(err, err2)
	}
	return start, total, ok && ok2 && ok3 && err == nil
}

func (r *reader) closeBody() {
	if r.body == nil {
		return
	}
	r.stall.Stop()
	r.cancel()
	r.body.Close()
	r.body = nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.closeBody()
	if r.err == nil {
		r.err = &fs.PathError{Op: "read", Path: r.o.uri, Err: fs.ErrClosed}
	}
	return nil
}
