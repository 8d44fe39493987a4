package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// These tests need what gofakes3 lacks; see realServer.

func onRealServers(t *testing.T, test func(t *testing.T, s server)) {
	for _, name := range []string{"A", "B"} {
		t.Run(name, func(t *testing.T) { test(t, realServer(t, name)) })
	}
}

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

func pattern(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n] }

// uploads gives the keys of the unfinished multipart uploads of a bucket.
func uploads(t testing.TB, f *FS, bucket string) (keys []string) {
	t.Helper()
	out, err := f.clientIn("us-east-1").ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket})
	check(t, err)
	for _, u := range out.Uploads {
		keys = append(keys, *u.Key)
	}
	return keys
}

func TestMultipartCopy(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{SingleCopyLimit: 1 << 20})
		c := f.clientIn("us-east-1")
		data := pattern(12<<20 + 77)
		src, key := "s3a://"+bucket+"/dir é+%20/日本 ?#", "dir é+%20/日本 ?#"
		meta := map[string]string{"one": "1", "two": "second value"}
		_, err := c.PutObject(t.Context(), &awss3.PutObjectInput{
			Bucket: &bucket, Key: &key, Body: bytes.NewReader(data), ContentType: aws.String("application/x-state"), Metadata: meta,
			Tagging: aws.String("team=a%20b"),
		})
		check(t, err)
		dst := "s3://" + bucket + "/to/😀 ü"
		check(t, f.Copy(t.Context(), src, dst))
		if got := must(storage.ReadAll(t.Context(), f, dst, 0))(t); !bytes.Equal(got, data) {
			t.Error("the copy has other bytes")
		}
		h := must(c.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: &bucket, Key: aws.String("to/😀 ü")}))(t)
		if aws.ToString(h.ContentType) != "application/x-state" {
			t.Errorf("content type is %q", aws.ToString(h.ContentType))
		}
		if delete(h.Metadata, writerKey); !maps.Equal(h.Metadata, meta) {
			t.Errorf("metadata is %v", h.Metadata)
		}
		if !strings.HasSuffix(aws.ToString(h.ETag), `-3"`) {
			t.Errorf("etag %s is not that of 3 parts", aws.ToString(h.ETag))
		}
		tags, err := c.GetObjectTagging(t.Context(), &awss3.GetObjectTaggingInput{Bucket: &bucket, Key: aws.String("to/😀 ü")})
		check(t, err)
		t.Logf("tags of the copy: %d, TagCount of the source's HEAD: %d", len(tags.TagSet), aws.ToInt32(must(c.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: &bucket, Key: &key}))(t).TagCount))
		if err := f.Copy(t.Context(), src, dst); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second copy gives %v", err)
		}
		if left := uploads(t, f, bucket); len(left) > 0 {
			t.Errorf("unfinished uploads of %q", left)
		}
	})
}

func TestCredentials(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{})
		uri := "s3://" + bucket + "/x"
		check(t, storage.WriteFile(t.Context(), f, uri, []byte("x"), storage.CreateOptions{}))
		for name, bad := range map[string]server{
			"wrong secret": {s.name, s.endpoint, s.key, "wrongwrong"},
			"unknown key":  {s.name, s.endpoint, "unknownkey", "wrongwrong"},
		} {
			t.Run(name, func(t *testing.T) {
				f := bad.reopen(t, Options{}, nil)
				_, stat := f.Stat(t.Context(), uri)
				_, missing := f.Stat(t.Context(), uri+"missing")
				_, open := f.Open(t.Context(), uri)
				var list error
				for _, err := range f.List(t.Context(), uri) {
					list = err
				}
				_, clean := f.Clean(t.Context(), uri)
				for what, err := range map[string]error{
					"Stat": stat, "Stat of nothing": missing, "Open": open, "List": list,
					"Create":          storage.WriteFile(t.Context(), f, uri+"new", []byte("x"), storage.CreateOptions{}),
					"Copy":            f.Copy(t.Context(), uri, uri+"new"),
					"Delete":          f.Delete(t.Context(), uri),
					"Delete of three": f.Delete(t.Context(), uri, uri+"1", uri+"2"),
					"Clean":           clean,
				} {
					if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s: %v", what, err)
					} else if strings.Contains(err.Error(), "wrongwrong") || !strings.Contains(err.Error(), uri) {
						t.Errorf("%s: %v", what, err)
					}
				}
				t.Log(stat)
				t.Log(list)
			})
		}
		if got := must(storage.ReadAll(t.Context(), f, uri, 0))(t); string(got) != "x" {
			t.Errorf("the object is %q now", got)
		}
	})
}

func TestMissingBucket(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		f := s.reopen(t, Options{}, nil)
		bucket := fmt.Sprintf("drey-missing-%d", time.Now().UnixNano())
		uri := "s3://" + bucket + "/x"
		_, stat := f.Stat(t.Context(), uri)
		_, open := f.Open(t.Context(), uri)
		var list error
		for _, err := range f.List(t.Context(), uri) {
			list = err
		}
		// No object is created: SeaweedFS would make the bucket for it.
		for what, err := range map[string]error{
			"Stat": stat, "Open": open, "List": list,
			"Copy": f.Copy(t.Context(), uri, uri+"2"),
		} {
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "bucket "+bucket+" does not exist") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestCopyUnderFaults copies 200 objects, some of them in parts, over a network that fails all the time.
func TestCopyUnderFaults(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		plain, bucket := s.open(t, Options{})
		const n = 200
		content := func(i int) []byte {
			if i%67 == 0 {
				return pattern(6<<20 + i)
			}
			return []byte(fmt.Sprint("object ", i))
		}
		parallel(t, n, func(i int) error {
			return storage.WriteFile(t.Context(), plain, fmt.Sprintf("s3://%s/src/%d", bucket, i), content(i), storage.CreateOptions{})
		})
		rt := faults(&storagetest.Transport{Seed: 7, SlowDown: .15, Timeout: .03, LostAnswer: .05, CutAnswer: .05, Match: notBeginsUpload})
		f := s.reopen(t, Options{SingleCopyLimit: 5 << 20, MaxAttempts: 20}, rt)
		parallel(t, n, func(i int) error {
			return f.Copy(t.Context(), fmt.Sprintf("s3://%s/src/%d", bucket, i), fmt.Sprintf("s3://%s/dst/%d", bucket, i))
		})
		t.Logf("injected: %v", rt.Injected())
		parallel(t, n, func(i int) error {
			got, err := storage.ReadAll(t.Context(), f, fmt.Sprintf("s3://%s/dst/%d", bucket, i), 0)
			if err == nil && !bytes.Equal(got, content(i)) {
				err = fmt.Errorf("object %d has other bytes", i)
			}
			return err
		})
		if left := uploads(t, plain, bucket); len(left) > 0 {
			t.Errorf("unfinished uploads of %q", left)
		}
		var all []string
		for info, err := range f.List(t.Context(), "s3://"+bucket) {
			check(t, err)
			all = append(all, info.URI)
		}
		if len(all) != 2*n {
			t.Errorf("%d objects, want %d", len(all), 2*n)
		}
		check(t, f.Delete(t.Context(), all...))
	})
}

func parallel(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for k := range errs {
		wg.Go(func() {
			for i := k; i < n; i += len(errs) {
				errs[k] = errors.Join(errs[k], do(i))
			}
		})
	}
	wg.Wait()
	check(t, errors.Join(errs...))
}

// TestConformanceRealFaults runs the suite against a real server over a bad network: with
// conditions that are honoured, an answer that got lost must not look like somebody else's object.
func TestConformanceRealFaults(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		_, bucket := s.open(t, Options{})
		rt := faults(&storagetest.Transport{Seed: 3, SlowDown: .05, Timeout: .02, CutRequest: .02, LostAnswer: .04, CutAnswer: .04, Match: notBeginsUpload})
		f := s.reopen(t, Options{SingleCopyLimit: 6 << 20, MaxAttempts: 20}, rt)
		storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
			return f, "s3a://" + bucket + "/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
		}, storagetest.LackAtomicLargeCreate)
		t.Logf("injected: %v", rt.Injected())
	})
}

// TestBetweenServers streams between two servers with different credentials
// while connections break.
func TestBetweenServers(t *testing.T) {
	a, b := realServer(t, "A"), realServer(t, "B")
	data := pattern(23<<20 + 5)
	for _, way := range [][2]server{{a, b}, {b, a}} {
		t.Run(way[0].name+way[1].name, func(t *testing.T) {
			from, src := way[0].open(t, Options{})
			check(t, storage.WriteFile(t.Context(), from, "s3://"+src+"/x", data, storage.CreateOptions{}))
			down := faults(&storagetest.Transport{Seed: 1, CutAnswer: .9, Match: func(r *http.Request) bool { return r.Method == "GET" && r.URL.RawQuery == "x-id=GetObject" }})
			up := faults(&storagetest.Transport{Seed: 2, CutRequest: .3, LostAnswer: .1, SlowDown: .1, Match: notBeginsUpload})
			from = way[0].reopen(t, Options{}, down)
			_, dst := way[1].open(t, Options{})
			to := way[1].reopen(t, Options{}, up)
			var progress int64
			n, err := storage.Copy(t.Context(), from, "s3://"+src+"/x", to, "s3://"+dst+"/y", storage.CopyOptions{
				Progress: func(n int64) { progress += n },
			})
			check(t, err)
			if n != int64(len(data)) || progress != n {
				t.Errorf("copied %d, progress %d of %d", n, progress, len(data))
			}
			if got := must(storage.ReadAll(t.Context(), to, "s3://"+dst+"/y", 0))(t); !bytes.Equal(got, data) {
				t.Error("other bytes arrive")
			}
			t.Logf("injected: %v, %v", down.Injected(), up.Injected())
			if down.Injected()["CutAnswer"] == 0 {
				t.Error("nothing was cut; choose another seed")
			}
			if left := uploads(t, to, dst); len(left) > 0 {
				t.Errorf("unfinished uploads of %q", left)
			}
		})
	}
}

func TestNoUploadsLeft(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{AbandonedAfter: 1})
		begin := func(ctx context.Context, key string) storage.Writer {
			w := must(f.Create(ctx, "s3://"+bucket+"/"+key, storage.CreateOptions{}))(t)
			must(w.Write(pattern(11 << 20)))(t)
			return w
		}
		begin(t.Context(), "aborted").Abort()
		ctx, cancel := context.WithCancel(t.Context())
		w := begin(ctx, "cancelled")
		cancel()
		if err := w.Commit(); !errors.Is(err, context.Canceled) {
			t.Errorf("Commit gives %v", err)
		}
		w = begin(t.Context(), "taken")
		check(t, storage.WriteFile(t.Context(), f, "s3://"+bucket+"/taken", []byte("x"), storage.CreateOptions{}))
		if err := w.Commit(); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Commit gives %v", err)
		}
		if left := uploads(t, f, bucket); len(left) > 0 {
			t.Errorf("unfinished uploads of %q", left)
		}
		// What a killed process leaves.
		for _, key := range []string{"d/dead", "d/dead2", "d/e/dead", "d/dead"} {
			must(f.clientIn("us-east-1").CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key}))(t)
		}
		n, err := f.Clean(t.Context(), "s3://"+bucket+"/d/dead", "s3p://"+bucket+"/d/other")
		if check(t, err); n != 2 {
			t.Errorf("Clean removed %d uploads, want 2", n)
		}
		left := uploads(t, f, bucket)
		if slices.Sort(left); !slices.Equal(left, []string{"d/dead2", "d/e/dead"}) {
			t.Errorf("left are %q", left)
		}
	})
}

// TestCleanLeavesFreshUploads: an upload that was just begun may be a live writer's.
func TestCleanLeavesFreshUploads(t *testing.T) {
	try := func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{})
		uri := "s3://" + bucket + "/x"
		w := must(f.Create(t.Context(), uri, storage.CreateOptions{}))(t)
		defer w.Abort()
		must(w.Write(pattern(11 << 20)))(t)
		if n, err := f.Clean(t.Context(), uri); n != 0 || err != nil {
			t.Errorf("Clean = %d, %v", n, err)
		}
		check(t, w.Commit())
		// One that is old enough is aborted.
		must(f.clientIn("us-east-1").CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: aws.String("y")}))(t)
		hasty := s.reopen(t, Options{AbandonedAfter: 1}, nil)
		if n, err := hasty.Clean(t.Context(), "s3://"+bucket+"/y"); n != 1 || err != nil {
			t.Errorf("Clean of an old upload = %d, %v", n, err)
		}
	}
	t.Run("gofakes3", func(t *testing.T) { try(t, fakeServer(t)) })
	onRealServers(t, try)
}

// TestLostUpload loses the answer to CreateMultipartUpload: the upload of the
// first attempt stays behind, invisible, until Clean comes.
func TestLostUpload(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		plain, bucket := s.open(t, Options{AbandonedAfter: 1})
		uri := "s3://" + bucket + "/x"
		f := s.reopen(t, Options{}, &lose{match: beginsUpload})
		check(t, storage.WriteFile(t.Context(), f, uri, pattern(6<<20), storage.CreateOptions{}))
		if left := uploads(t, plain, bucket); len(left) != 1 {
			t.Errorf("unfinished uploads of %q, want one", left)
		}
		n, err := plain.Clean(t.Context(), uri)
		if check(t, err); n != 1 || len(uploads(t, plain, bucket)) != 0 {
			t.Errorf("Clean removed %d", n)
		}
		must(plain.Stat(t.Context(), uri))(t)
	})
}

// before runs hook before the first request for which match says so.
type before struct {
	match func(*http.Request) bool
	hook  func()
	done  atomic.Bool
}

func (b *before) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.match(r) && b.done.CompareAndSwap(false, true) {
		b.hook()
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestSourceChanges(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		plain, bucket := s.open(t, Options{})
		for _, limit := range []int64{0, 1 << 20} {
			src, dst := fmt.Sprintf("s3://%s/src%d", bucket, limit), fmt.Sprintf("s3://%s/dst%d", bucket, limit)
			check(t, storage.WriteFile(t.Context(), plain, src, pattern(6<<20), storage.CreateOptions{}))
			hook := &before{
				match: func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" },
				hook: func() {
					check(t, storage.WriteFile(t.Context(), plain, src, pattern(6<<20+1), storage.CreateOptions{Overwrite: true}))
				},
			}
			f := s.reopen(t, Options{SingleCopyLimit: limit}, hook)
			if err := f.Copy(t.Context(), src, dst); !errors.Is(err, storage.ErrChanged) || errors.Is(err, fs.ErrExist) {
				t.Errorf("limit %d: %v", limit, err)
			}
			if _, err := plain.Stat(t.Context(), dst); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("limit %d: Stat of the copy gives %v", limit, err)
			}
		}
		if left := uploads(t, plain, bucket); len(left) > 0 {
			t.Errorf("unfinished uploads of %q", left)
		}
	})
}

// TestCopyRace has an object come to the destination after Copy has looked.
func TestCopyRace(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		plain, bucket := s.open(t, Options{})
		src := "s3://" + bucket + "/src"
		check(t, storage.WriteFile(t.Context(), plain, src, pattern(6<<20), storage.CreateOptions{}))
		for _, limit := range []int64{0, 1 << 20} {
			dst := fmt.Sprintf("s3://%s/dst%d", bucket, limit)
			hook := &before{
				match: func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" },
				hook: func() {
					check(t, storage.WriteFile(t.Context(), plain, dst, []byte("first"), storage.CreateOptions{}))
				},
			}
			f := s.reopen(t, Options{SingleCopyLimit: limit}, hook)
			err := f.Copy(t.Context(), src, dst)
			got := must(storage.ReadAll(t.Context(), plain, dst, 0))(t)
			switch {
			case errors.Is(err, fs.ErrExist) && string(got) == "first":
			case limit == 0 && err == nil && len(got) == 6<<20:
				t.Log("this server ignores If-None-Match for CopyObject: the window that FS documents")
			default:
				t.Errorf("limit %d: %v, and %d bytes are there", limit, err, len(got))
			}
		}
	})
}

// lose breaks the connection before the answer to the first request for which match says so.
type lose struct {
	match func(*http.Request) bool
	done  atomic.Bool
}

func (l *lose) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && l.match(r) && l.done.CompareAndSwap(false, true) {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("lost: %w", syscall.ECONNRESET)
	}
	return resp, err
}

// TestLostAnswers loses the answer to the very request that makes an object visible.
func TestLostAnswers(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		plain, bucket := s.open(t, Options{})
		check(t, storage.WriteFile(t.Context(), plain, "s3://"+bucket+"/src", pattern(6<<20), storage.CreateOptions{}))
		write := func(size int) func(f *FS, uri string) error {
			return func(f *FS, uri string) error {
				return storage.WriteFile(t.Context(), f, uri, pattern(size), storage.CreateOptions{})
			}
		}
		doCopy := func(f *FS, uri string) error { return f.Copy(t.Context(), "s3://"+bucket+"/src", uri) }
		for _, tc := range []struct {
			name  string
			limit int64
			match func(*http.Request) bool
			do    func(f *FS, uri string) error
			size  int64
		}{
			{"PutObject", 0, func(r *http.Request) bool { return r.Method == "PUT" }, write(100), 100},
			{"CompleteMultipartUpload", 0, func(r *http.Request) bool { return r.Method == "POST" && r.URL.Query().Has("uploadId") }, write(6 << 20), 6 << 20},
			{"CopyObject", 0, func(r *http.Request) bool { return r.Method == "PUT" }, doCopy, 6 << 20},
			{"copy in parts", 1 << 20, func(r *http.Request) bool { return r.Method == "POST" && r.URL.Query().Has("uploadId") }, doCopy, 6 << 20},
		} {
			uri := "s3://" + bucket + "/" + tc.name
			rt := &lose{match: tc.match}
			if err := tc.do(s.reopen(t, Options{SingleCopyLimit: tc.limit}, rt), uri); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			if !rt.done.Load() {
				t.Errorf("%s: no answer was lost", tc.name)
			}
			info, err := plain.Stat(t.Context(), uri)
			if err != nil || info.Size != tc.size {
				t.Errorf("%s: %+v, %v", tc.name, info, err)
			}
			if err := tc.do(plain, uri); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s again: %v", tc.name, err)
			}
		}
	})
}

// TestMarkers has the zero-byte objects that some tools make in place of directories.
func TestMarkers(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{})
		c := f.clientIn("us-east-1")
		for _, key := range []string{"d/", "d/sub/", "full/"} {
			must(c.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(nil)}))(t)
		}
		root := "s3://" + bucket
		check(t, storage.WriteFile(t.Context(), f, root+"/full/x", []byte("x"), storage.CreateOptions{}))
		for info, err := range f.List(t.Context(), root) {
			check(t, err)
			if info.URI != root+"/full/x" {
				t.Errorf("List shows %+v", info)
			}
		}
		if info, err := f.Stat(t.Context(), root+"/d"); err != nil || !info.Dir {
			t.Errorf("Stat of a marker: %+v, %v", info, err)
		}
		if _, err := f.Open(t.Context(), root+"/d"); !errors.Is(err, storage.ErrIsDir) {
			t.Errorf("Open of a marker: %v", err)
		}
		for info, err := range f.ReadDir(t.Context(), root+"/d") {
			if check(t, err); info.URI != root+"/d/sub" || !info.Dir {
				t.Errorf("ReadDir shows %+v", info)
			}
		}
		n, err := f.Prune(t.Context(), root+"/full", root+"/d/sub", root+"/d", root+"/none")
		if check(t, err); n != 2 {
			t.Errorf("Prune removed %d, want 2", n)
		}
		if _, err := f.Stat(t.Context(), root+"/d"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat after Prune: %v", err)
		}
		must(f.Stat(t.Context(), root+"/full/x"))(t)
	})
}

// TestBatchAnswers: the servers name all that they deleted in a batch, odd names and missing objects included,
// so that nothing is asked for a second time.
func TestBatchAnswers(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		open, bucket := s.open(t, Options{})
		root := "s3://" + bucket + "/d/"
		uris := []string{root + "not there"}
		for i, name := range []string{"a b", "a+b", "a%2Fb", "ü", "<&>\"'"} {
			check(t, storage.WriteFile(t.Context(), open, root+name, pattern(i), storage.CreateOptions{}))
			uris = append(uris, root+name)
		}
		var batches, single atomic.Int32
		f := s.reopen(t, Options{}, &storagetest.Transport{Match: func(r *http.Request) bool {
			switch r.Method {
			case "POST":
				batches.Add(1)
			case "DELETE":
				single.Add(1)
			}
			return false
		}})
		check(t, f.Delete(t.Context(), uris...))
		for info, err := range f.List(t.Context(), root) {
			t.Errorf("left: %+v, %v", info, err)
		}
		if batches.Load() != 1 || single.Load() != 0 {
			t.Errorf("%d batches, %d single requests", batches.Load(), single.Load())
		}
	})
}

// TestKeyBesideDirectory: some servers keep objects in a file system.
func TestKeyBesideDirectory(t *testing.T) {
	onRealServers(t, func(t *testing.T, s server) {
		f, bucket := s.open(t, Options{})
		root := "s3://" + bucket
		check(t, storage.WriteFile(t.Context(), f, root+"/x/y", []byte("deep"), storage.CreateOptions{}))
		err := storage.WriteFile(t.Context(), f, root+"/x", []byte("flat"), storage.CreateOptions{})
		t.Log(err)
		if err != nil && errors.Is(err, fs.ErrExist) {
			t.Errorf("no object is there, and Create says %v", err)
		}
		if got := must(storage.ReadAll(t.Context(), f, root+"/x/y", 0))(t); string(got) != "deep" {
			t.Errorf("x/y is %q", got)
		}
	})
}

// TestProfiles has two profiles of one credentials file, beside keys in the environment that fit neither server.
func TestProfiles(t *testing.T) {
	a, b := realServer(t, "A"), realServer(t, "B")
	_, src := a.open(t, Options{})
	_, dst := b.open(t, Options{})
	isolate(t, "neither", "nor")
	file := filepath.Join(t.TempDir(), "credentials")
	check(t, os.WriteFile(file, fmt.Appendf(nil, "[from]\naws_access_key_id=%s\naws_secret_access_key=%s\n[to]\naws_access_key_id=%s\naws_secret_access_key=%s\n",
		a.key, a.secret, b.key, b.secret), 0o600))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	from := must(New(t.Context(), Options{Endpoint: a.endpoint, PathStyle: true, Profile: "from"}))(t)
	to := must(New(t.Context(), Options{Endpoint: b.endpoint, PathStyle: true, Profile: "to"}))(t)
	check(t, storage.WriteFile(t.Context(), from, "s3://"+src+"/x", []byte("data"), storage.CreateOptions{}))
	n, err := storage.Copy(t.Context(), from, "s3://"+src+"/x", to, "s3://"+dst+"/x", storage.CopyOptions{})
	if check(t, err); n != 4 {
		t.Errorf("copied %d bytes", n)
	}
	_, err = from.Stat(t.Context(), "s3://"+src+"/missing")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	wrong := must(New(t.Context(), Options{Endpoint: b.endpoint, PathStyle: true, Profile: "from"}))(t)
	if _, err := wrong.Stat(t.Context(), "s3://"+dst+"/x"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), `profile "from"`) {
		t.Error(err)
	}
	if _, err := New(t.Context(), Options{Profile: "missing"}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a profile that is not there: %v", err)
	}
}
