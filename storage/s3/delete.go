package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drey-state/drey/storage"
)

const (
	deleteBatch   = 1000 // DeleteObjects takes no more
	deleteWorkers = 16   // where each key takes a request
)

// Delete implements storage.FS, with one request for up to 1,000 objects. What the
// answer to that does not name, or all if it names what was not asked for, is deleted with a request for each.
func (f *FS) Delete(ctx context.Context, uris ...string) error {
	var errs []error
	add := func(uri string, err error) {
		if err != nil {
			errs = append(errs, &storage.DeleteError{URI: uri, Err: bare(f.fail(ctx, "delete", uri, err))})
		}
	}
	buckets := map[string]map[string][]string{} // bucket -> key -> URIs
	var order []string
	for _, uri := range uris {
		at, err := locate(uri)
		if err == nil && at.key == "" {
			err = storage.ErrIsDir
		}
		if err != nil {
			add(uri, err)
			continue
		}
		if buckets[at.bucket] == nil {
			buckets[at.bucket] = map[string][]string{}
			order = append(order, at.bucket)
		}
		buckets[at.bucket][at.key] = append(buckets[at.bucket][at.key], uri)
	}
	for _, bucket := range order {
		for key, err := range f.deleteKeys(ctx, bucket, buckets[bucket]) {
			for _, uri := range buckets[bucket][key] {
				add(uri, err)
			}
		}
	}
	return errors.Join(errs...)
}

// bare takes the operation and the URI off an error that gets them from a DeleteError.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// deleteKeys deletes keys of one bucket and gives the errors of those that stay.
func (f *FS) deleteKeys(ctx context.Context, bucket string, uris map[string][]string) map[string]error {
	failed := map[string]error{}
	if err := ctx.Err(); err != nil {
		return failAll(failed, uris, err)
	}
	c, err := f.client(ctx, bucket)
	if err != nil {
		return failAll(failed, uris, err)
	}
	var batch, single []string
	flush := func() {
		if len(batch) == 0 {
			return
		}
		single = append(single, f.deleteBatch(ctx, c, bucket, batch, failed)...)
		batch = batch[:0]
	}
	for key := range uris {
		if f.noBatchDelete.Load() || !xmlText(key) || len(uris) == 1 {
			single = append(single, key)
			continue
		}
		if batch = append(batch, key); len(batch) == deleteBatch {
			flush()
		}
	}
	flush()
	f.deleteSingly(ctx, c, bucket, single, failed)
	return failed
}

func failAll(failed map[string]error, uris map[string][]string, err error) map[string]error {
	for key := range uris {
		failed[key] = err
	}
	return failed
}

// xmlText says that a key can stand in the body of DeleteObjects.
func xmlText(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool {
		return r < 0x20 || r == 0xFFFE || r == 0xFFFF
	})
}

// deleteBatch deletes keys with one request, and gives those of which it is not known what became.
func (f *FS) deleteBatch(ctx context.Context, c *awss3.Client, bucket string, keys []string, failed map[string]error) (unknown []string) {
	objects := make([]types.ObjectIdentifier, len(keys))
	open := make(map[string]bool, len(keys))
	for i, key := range keys {
		objects[i].Key = aws.String(key)
		open[key] = true
	}
	// In a quiet answer, one that was cut off or says nothing looks like success.
	out, err := c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: &bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(false)},
	})
	if err != nil {
		if lacksBatch(err) {
			if !f.noBatchDelete.Swap(true) {
				f.o.Logger.Warn("s3: the server cannot delete in batches; deleting one by one", "bucket", bucket, "error", err)
			}
			return keys
		}
		for _, key := range keys {
			failed[key] = err
		}
		return nil
	}
	errs := map[string]error{}
	for _, e := range out.Errors {
		key := aws.ToString(e.Key)
		if !open[key] {
			return keys
		}
		switch c := aws.ToString(e.Code); c {
		case "NoSuchKey", "NotFound", "NoSuchVersion":
			errs[key] = nil
		default:
			errs[key] = keyError(c, aws.ToString(e.Message))
		}
	}
	for _, d := range out.Deleted {
		delete(open, aws.ToString(d.Key))
	}
	for key, err := range errs {
		delete(open, key)
		if err != nil {
			failed[key] = err
		}
	}
	return slices.Collect(maps.Keys(open))
}

// keyError is what the server says of one key of a batch.
func keyError(code, message string) error {
	e := &serverError{text: code, cause: errors.New(message)}
	if message != "" {
		e.text += ": " + message
	}
	if code == "AccessDenied" || code == "Forbidden" {
		e.is = fs.ErrPermission
	}
	return e
}

// lacksBatch says that DeleteObjects failed for a reason that a DeleteObject would not have.
func lacksBatch(err error) bool {
	switch code(err) {
	case "MissingContentMD5", "InvalidDigest", "BadDigest", "MalformedXML", "InvalidRequest", "XAmzContentChecksumMismatch":
		return true
	}
	return unsupported(err)
}

// deleteSingly deletes keys with a request for each.
func (f *FS) deleteSingly(ctx context.Context, c *awss3.Client, bucket string, keys []string, failed map[string]error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	todo := make(chan string)
	for range min(deleteWorkers, len(keys)) {
		wg.Go(func() {
			for key := range todo {
				_, err := c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &bucket, Key: &key})
				if err != nil && (code(err) == "NoSuchKey" || status(err) == http.StatusNotFound && code(err) == "NotFound") {
					err = nil
				}
				if err != nil {
					mu.Lock()
					failed[key] = err
					mu.Unlock()
				}
			}
		})
	}
	for _, key := range keys {
		todo <- key
	}
	close(todo)
	wg.Wait()
}

// Clean implements storage.Cleaner: it aborts the unfinished multipart uploads
// of exactly these keys that were begun longer ago than [Options.AbandonedAfter].
// One whose age the server does not tell is left alone.
func (f *FS) Clean(ctx context.Context, uris ...string) (removed int, err error) {
	type dir struct{ bucket, prefix string }
	keys := map[dir]map[string]string{} // directory -> key -> URI
	var order []dir
	for _, uri := range uris {
		at, err := locate(uri)
		if err == nil && at.key == "" {
			err = storage.ErrIsDir
		}
		if err != nil {
			return 0, f.fail(ctx, "clean", uri, err)
		}
		d := dir{at.bucket, at.key[:strings.LastIndexByte(at.key, '/')+1]}
		if keys[d] == nil {
			keys[d] = map[string]string{}
			order = append(order, d)
		}
		keys[d][at.key] = uri
	}
	var errs []error
	for _, d := range order {
		prefix := d.prefix
		if len(keys[d]) == 1 {
			for key := range keys[d] {
				prefix = key
			}
		}
		n, err := f.cleanPrefix(ctx, d.bucket, prefix, keys[d])
		removed += n
		for _, uri := range keys[d] {
			errs = append(errs, f.fail(ctx, "clean", uri, err))
			break
		}
	}
	return removed, errors.Join(errs...)
}

// cleanPrefix aborts the uploads below a prefix whose keys are in the map.
func (f *FS) cleanPrefix(ctx context.Context, bucket, prefix string, keys map[string]string) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c, err := f.client(ctx, bucket)
	if err != nil {
		return 0, err
	}
	before := time.Now().Add(-f.o.AbandonedAfter)
	in := &awss3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &prefix}
	type upload struct{ key, id string }
	var found []upload
	seen := map[upload]bool{}
	for {
		out, err := c.ListMultipartUploads(ctx, in)
		if err != nil {
			return 0, err
		}
		for _, u := range out.Uploads {
			begun := aws.ToTime(u.Initiated)
			if _, ok := keys[aws.ToString(u.Key)]; ok && !begun.IsZero() && begun.Before(before) {
				found = append(found, upload{aws.ToString(u.Key), aws.ToString(u.UploadId)})
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			break
		}
		next := upload{aws.ToString(out.NextKeyMarker), aws.ToString(out.NextUploadIdMarker)}
		if next.key == "" || seen[next] {
			return 0, fmt.Errorf("the server lists uploads in a circle: it gave the marker %q again", next.key)
		}
		seen[next] = true
		in.KeyMarker, in.UploadIdMarker = &next.key, &next.id
	}
	var errs []error
	for _, u := range found {
		_, err := c.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &bucket, Key: &u.key, UploadId: &u.id})
		switch {
		case err == nil:
			removed++
		case code(err) != "NoSuchUpload":
			errs = append(errs, f.fail(ctx, "clean", keys[u.key], err))
		}
	}
	return removed, errors.Join(errs...)
}

// Prune implements storage.Pruner: it deletes the empty objects whose keys
// are these directories with a slash at the end.
func (f *FS) Prune(ctx context.Context, dirs ...string) (removed int, err error) {
	var errs []error
	for _, uri := range dirs {
		ok, err := f.prune(ctx, uri)
		if err != nil {
			errs = append(errs, f.fail(ctx, "prune", uri, err))
		}
		if ctx.Err() != nil {
			break
		}
		if ok {
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

func (f *FS) prune(ctx context.Context, uri string) (bool, error) {
	c, at, err := f.begin(ctx, uri)
	if err != nil || at.key == "" {
		return false, err
	}
	marker := at.prefix()
	h, err := c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &at.bucket, Key: &marker})
	if status(err) == http.StatusNotFound {
		return false, nil
	}
	if err != nil || aws.ToInt64(h.ContentLength) != 0 {
		return false, err
	}
	out, err := c.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: &at.bucket, Prefix: &marker, MaxKeys: aws.Int32(2)})
	if err != nil {
		return false, err
	}
	for _, o := range out.Contents {
		if aws.ToString(o.Key) != marker {
			return false, nil
		}
	}
	_, err = c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &at.bucket, Key: &marker})
	return err == nil, err
}
