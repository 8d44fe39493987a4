package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drey-state/drey/storage"
)

// writerKey is the metadata entry by which a writer knows its object.
const writerKey = "drey-writer"

// Create implements storage.FS. Up to [Options.MultipartThreshold] bytes are
// held in memory and written with one request at Commit; more go up in parts
// while they are written, of which nothing is visible before Commit.
func (f *FS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	c, at, err := f.begin(ctx, uri)
	if err == nil && at.key == "" {
		err = storage.ErrIsDir
	}
	if err == nil && !o.Overwrite {
		err = f.absent(ctx, c, at)
		if status(err) == http.StatusForbidden {
			err = nil // who may only write; the condition at Commit does it
		}
	}
	if err != nil {
		return nil, f.fail(ctx, "create", uri, err)
	}
	w := &writer{
		f: f, c: c, caller: ctx, uri: uri, at: at, overwrite: o.Overwrite,
		id: rand.Text(), part: partSize(f.o.PartSize, o.Size), sem: make(chan struct{}, f.o.Concurrency),
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if o.Size > 0 {
		w.buf = make([]byte, 0, min(o.Size, max(w.part, f.o.MultipartThreshold)))
	}
	return w, nil
}

// absent fails with fs.ErrExist if an object is there.
func (f *FS) absent(ctx context.Context, c *awss3.Client, at location) error {
	out, err := c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &at.bucket, Key: &at.key})
	switch {
	case err == nil && !directoryType(out):
		return fs.ErrExist
	case err == nil, status(err) == http.StatusNotFound:
		return nil
	}
	return err
}

// partSize raises the size of parts until maxParts of them hold size bytes.
func partSize(part, size int64) int64 { return max(part, (size+maxParts-1)/maxParts) }

// writer writes one object.
type writer struct {
	f         *FS
	c         *awss3.Client
	caller    context.Context
	ctx       context.Context // of the parts; ends when one fails
	cancel    context.CancelCauseFunc
	uri       string
	at        location
	overwrite bool
	id        string
	part      int64
	buf       []byte
	err       error // sticky

	upload string        // "" until a multipart upload is begun
	number int32         // of the last part
	sem    chan struct{} // one for each part under way
	wg     sync.WaitGroup
	mu     sync.Mutex
	parts  []types.CompletedPart
	spare  [][]byte // buffers of parts that are done
	failed error    // of a part
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 {
		if err := w.usable(); err != nil {
			return n, w.f.fail(w.caller, "write", w.uri, err)
		}
		limit := w.part
		if w.upload == "" {
			limit = max(limit, w.f.o.MultipartThreshold)
		}
		k := min(int64(len(p)), limit-int64(len(w.buf)))
		if k == 0 {
			if err := w.flush(); err != nil {
				w.stop(err)
				return n, w.f.fail(w.caller, "write", w.uri, err)
			}
			continue
		}
		w.buf = append(w.buf, p[:k]...)
		p = p[k:]
		n += int(k)
	}
	return n, nil
}

// usable gives the error that ended the writer.
func (w *writer) usable() error {
	if w.err == nil {
		w.mu.Lock()
		w.err = w.failed
		w.mu.Unlock()
	}
	if w.err == nil {
		w.err = w.caller.Err()
	}
	if w.err != nil {
		w.stop(w.err)
	}
	return w.err
}

// flush sends what is buffered as parts, beginning the upload if need be.
func (w *writer) flush() error {
	if w.upload == "" {
		out, err := w.c.CreateMultipartUpload(w.ctx, &awss3.CreateMultipartUploadInput{
			Bucket: &w.at.bucket, Key: &w.at.key, Metadata: map[string]string{writerKey: w.id},
		})
		if err != nil {
			return err
		}
		w.upload = aws.ToString(out.UploadId)
	}
	for int64(len(w.buf)) > w.part { // a threshold of more than a part
		if err := w.send(bytes.Clone(w.buf[:w.part])); err != nil {
			return err
		}
		w.buf = append(w.buf[:0], w.buf[w.part:]...)
	}
	if int64(len(w.buf)) < w.part {
		return nil // only the last part may be a small one
	}
	full := w.buf
	w.mu.Lock()
	w.buf = nil
	if n := len(w.spare); n > 0 {
		w.buf, w.spare = w.spare[n-1][:0], w.spare[:n-1]
	}
	w.mu.Unlock()
	if w.buf == nil {
		w.buf = make([]byte, 0, w.part)
	}
	return w.send(full)
}

// send uploads one part in the background, once there is room for it.
func (w *writer) send(data []byte) error {
	select {
	case w.sem <- struct{}{}:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	w.number++
	if w.number > maxParts {
		<-w.sem
		return fmt.Errorf("more than %d parts of %d bytes; give the size to Create, or raise the part size", maxParts, w.part)
	}
	n := w.number
	if n%1000 == 0 {
		w.part *= 2 // an object of unknown size that turns out to be huge
	}
	w.wg.Go(func() {
		defer func() { <-w.sem }()
		out, err := w.c.UploadPart(w.ctx, &awss3.UploadPartInput{
			Bucket: &w.at.bucket, Key: &w.at.key, UploadId: &w.upload, PartNumber: &n, Body: bytes.NewReader(data),
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			if w.failed == nil {
				w.failed = err
				w.cancel(err)
			}
			return
		}
		w.parts = append(w.parts, types.CompletedPart{PartNumber: &n, ETag: out.ETag})
		if int64(cap(data)) >= w.f.o.PartSize {
			w.spare = append(w.spare, data)
		}
	})
	return nil
}

// Commit implements storage.Writer.
func (w *writer) Commit() error {
	err := w.usable()
	if err == nil {
		if w.upload == "" {
			err = w.putWhole()
		} else {
			err = w.complete()
		}
	}
	if err == nil {
		w.upload = "" // nothing to abort
		w.stop(fs.ErrClosed)
		return nil
	}
	err = w.f.fail(w.caller, "commit", w.uri, err)
	w.stop(err)
	return err
}

// putWhole writes the object with one request.
func (w *writer) putWhole() error {
	put := func(condition *string) error {
		_, err := w.c.PutObject(w.ctx, &awss3.PutObjectInput{
			Bucket: &w.at.bucket, Key: &w.at.key, Body: bytes.NewReader(w.buf),
			ContentLength: aws.Int64(int64(len(w.buf))),
			Metadata:      map[string]string{writerKey: w.id}, IfNoneMatch: condition,
		})
		return err
	}
	return w.conditionally(put)
}

// complete makes an object of the parts.
func (w *writer) complete() error {
	if len(w.buf) > 0 {
		if err := w.send(w.buf); err != nil {
			return err
		}
		w.buf = nil
	}
	w.wg.Wait()
	if w.failed != nil {
		return w.failed
	}
	slices.SortFunc(w.parts, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	return w.conditionally(func(condition *string) error {
		_, err := w.c.CompleteMultipartUpload(w.ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: &w.at.bucket, Key: &w.at.key, UploadId: &w.upload,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: w.parts}, IfNoneMatch: condition,
		})
		return err
	})
}

// conditionally runs the request that makes the object visible.
func (w *writer) conditionally(do func(condition *string) error) error {
	err := w.f.ifAbsent(w.ctx, w.c, w.at, w.overwrite, w.uri, do)
	if err == nil {
		return nil
	}
	// An attempt may have done its work though its answer was lost, so that the
	// next one met the object that is ours.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
	defer cancel()
	out, herr := w.c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &w.at.bucket, Key: &w.at.key})
	if herr == nil && out.Metadata[writerKey] == w.id {
		return nil
	}
	if status(err) == http.StatusPreconditionFailed && (herr == nil && directoryType(out) || status(herr) == http.StatusNotFound) {
		// Some servers cannot hold an object beside a directory of its name.
		if dir, derr := w.f.isDir(ctx, w.c, w.at); derr == nil && dir {
			return fmt.Errorf("%w on this server, which has no object of the same name beside it", storage.ErrIsDir)
		}
	}
	return err
}

// ifAbsent calls do with the condition that no object is at the location, or,
// if overwrite is set, with none.
func (f *FS) ifAbsent(ctx context.Context, c *awss3.Client, at location, overwrite bool, uri string, do func(condition *string) error) error {
	if overwrite {
		return do(nil)
	}
	if !f.noCondition.Load() {
		err := do(aws.String("*"))
		if err == nil || !unsupported(err) {
			return err
		}
		if !f.noCondition.Swap(true) {
			f.o.Logger.Warn("s3: the server has no conditional writes; looking before each write, which is not atomic", "uri", uri, "error", err)
		}
	}
	if err := f.absent(ctx, c, at); err != nil {
		return err
	}
	return do(nil)
}

// Abort implements storage.Writer.
func (w *writer) Abort() { w.stop(fs.ErrClosed) }

// abortTimeout is for requests that tidy up, also after the caller's context has ended.
const abortTimeout = 30 * time.Second

// stop ends the writer because of why, waits for its parts and forgets them.
func (w *writer) stop(why error) {
	if w.err == nil {
		w.err = why
	}
	w.cancel(why)
	w.wg.Wait()
	w.buf, w.spare = nil, nil
	if w.upload != "" {
		w.f.abort(w.ctx, w.c, w.uri, w.at, w.upload)
		w.upload = ""
	}
}

// abort forgets a multipart upload, also after ctx has ended.
func (f *FS) abort(ctx context.Context, c *awss3.Client, uri string, at location, upload string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_, err := c.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &at.bucket, Key: &at.key, UploadId: &upload})
	if err != nil && code(err) != "NoSuchUpload" && !errors.Is(err, fs.ErrNotExist) {
		f.o.Logger.Warn("s3: an unfinished multipart upload stays behind; Clean removes it when it is old", "uri", uri, "upload", upload, "error", err)
	}
}
