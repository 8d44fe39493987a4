package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// scripted is a server that answers as h says.
func scripted(t testing.TB, o Options, h http.HandlerFunc) *FS {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return server{"scripted", s.URL, "key", "secret"}.reopen(t, o, nil)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<Error><Code>%s</Code><Message>message of %s</Message></Error>`, code, code)
}

func TestLocate(t *testing.T) {
	for uri, want := range map[string]location{
		"s3://b/k":          {"b", "k"},
		"s3a://b/k/":        {"b", "k"},
		"S3N://b//k":        {"b", "/k"},
		"s3p://b":           {"b", ""},
		"s3://b/":           {"b", ""},
		"s3://b/a%20b+c?#":  {"b", "a%20b+c?#"},
		"s3://b/x/日本":       {"b", "x/日本"},
		"s3://b/.../..x/.y": {"b", ".../..x/.y"},
	} {
		if got, err := locate(uri); err != nil || got != want {
			t.Errorf("locate(%q) = %v, %v", uri, got, err)
		}
	}
	for uri, want := range map[string]error{
		"file:/x": storage.ErrScheme, "/x": storage.ErrScheme, "s3:/x": fs.ErrInvalid, "s3:///x": fs.ErrInvalid,
		"s3://b/a/../b": fs.ErrInvalid, "s3://b/\xff": fs.ErrInvalid,
	} {
		if _, err := locate(uri); !errors.Is(err, want) {
			t.Errorf("locate(%q) gives %v", uri, err)
		}
	}
}

func TestEscape(t *testing.T) {
	const in, want = "a/b c%+ü?#~_-.'", "a/b%20c%25%2B%C3%BC%3F%23~_-.%27"
	if got := escape(in); got != want {
		t.Errorf("escape gives %q, want %q", got, want)
	}
}

func TestOptions(t *testing.T) {
	isolate(t, "k", "s")
	if _, err := New(t.Context(), Options{PartSize: 1000}); err == nil {
		t.Error("parts of 1000 bytes are accepted")
	}
	if got := partSize(8<<20, 5<<40); got*maxParts < 5<<40 {
		t.Errorf("5 TiB do not fit into %d parts of %d bytes", maxParts, got)
	}
	if got := partSize(8<<20, 1); got != 8<<20 {
		t.Errorf("part size is %d", got)
	}
}

// TestNoCredentials must not try for long, and say what to do.
func TestNoCredentials(t *testing.T) {
	f := scripted(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { fail(w, 403, "AccessDenied") })
	isolate(t, "", "")
	f, err := New(t.Context(), Options{Endpoint: f.o.Endpoint, PathStyle: true})
	check(t, err)
	_, err = f.Stat(t.Context(), "s3://b/k")
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
}

// TestRefusedCredentials has the places where credentials come from refuse
// them or not have them: that says nothing of the object.
func TestRefusedCredentials(t *testing.T) {
	for _, status := range []int{403, 404} {
		imds := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer imds.Close()
		isolate(t, "", "")
		t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.URL)
		noCredentials(t, imds.URL)
	}
	isolate(t, "", "")
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/x")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", t.TempDir()+"/missing")
	noCredentials(t, "http://127.0.0.1:1")
}

func noCredentials(t *testing.T, endpoint string) {
	t.Helper()
	f, err := New(t.Context(), Options{Endpoint: endpoint, PathStyle: true})
	check(t, err)
	_, stat := f.Stat(t.Context(), "s3://b/k")
	_, create := f.Create(t.Context(), "s3://b/k", storage.CreateOptions{})
	for _, err := range []error{stat, create} {
		if err == nil || !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no credentials") {
			t.Error(err)
		}
	}
}

// hosts answers for AWS, for buckets in two regions.
type hosts struct {
	mu   sync.Mutex
	seen []string
}

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.seen = append(h.seen, r.Method+" "+r.URL.Host+" "+regexp.MustCompile(`/([a-z0-9-]+)/s3/aws4_request`).FindStringSubmatch(r.Header.Get("Authorization"))[1])
	h.mu.Unlock()
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Etag": {`"e"`}}, Body: io.NopCloser(strings.NewReader("")), Request: r}
	in := map[string]string{"here": "eu-central-1", "there": "us-west-2"}[strings.Split(r.URL.Host, ".")[0]]
	switch {
	case r.Method == "HEAD" && r.URL.Path == "/":
		if resp.Header.Set("X-Amz-Bucket-Region", in); in != "eu-central-1" {
			resp.StatusCode = 301
		}
	case r.Method == "HEAD" && r.URL.Path == "/dst":
		resp.StatusCode = 404
	case r.Header.Get("X-Amz-Copy-Source") != "":
		resp.Body = io.NopCloser(strings.NewReader(`<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`))
	}
	return resp, nil
}

func TestRegions(t *testing.T) {
	isolate(t, "k", "s")
	h := &hosts{}
	f, err := New(t.Context(), Options{Region: "eu-central-1", HTTPClient: &http.Client{Transport: h}})
	check(t, err)
	for range 2 {
		check(t, f.Copy(t.Context(), "s3://here/src", "s3://there/dst"))
	}
	once := []string{"HEAD here.s3.eu-central-1.amazonaws.com eu-central-1", "HEAD there.s3.eu-central-1.amazonaws.com eu-central-1"}
	each := []string{
		"HEAD here.s3.eu-central-1.amazonaws.com eu-central-1", "HEAD there.s3.us-west-2.amazonaws.com us-west-2",
		"PUT there.s3.us-west-2.amazonaws.com us-west-2",
	}
	want := slices.Concat(once, each, each)
	slices.Sort(want)
	slices.Sort(h.seen)
	if !slices.Equal(h.seen, want) {
		t.Errorf("requests were\n%s\nwant\n%s", strings.Join(h.seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestListingInCircles(t *testing.T) {
	n := 0
	f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		n++
		fmt.Fprintf(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t%d</NextContinuationToken>
			<Contents><Key>d/k%d</Key><Size>1</Size></Contents></ListBucketResult>`, n%3, n)
	})
	var last error
	seen := 0
	for _, err := range f.List(t.Context(), "s3://b/d") {
		if last = err; err == nil {
			seen++
		}
	}
	if last == nil || !strings.Contains(last.Error(), "circle") || seen != 4 {
		t.Errorf("%d entries, then %v", seen, last)
	}
}

func TestDeleteErrors(t *testing.T) {
	f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" {
			fail(w, 500, "Unexpected")
			return
		}
		fmt.Fprint(w, `<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error>
			<Error><Key>gone</Key><Code>NoSuchKey</Code></Error><Error><Key>c</Key><Code>InternalError</Code></Error>
			<Deleted><Key>b</Key></Deleted></DeleteResult>`)
	})
	err := f.Delete(t.Context(), "s3a://b/a", "s3a://b/b", "s3a://b/c", "s3a://b/gone", "file:/x")
	var failed []string
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		de, ok := err.(*storage.DeleteError)
		if !ok {
			t.Fatalf("%T", err)
		}
		failed = append(failed, de.URI)
	}
	if slices.Sort(failed); !slices.Equal(failed, []string{"file:/x", "s3a://b/a", "s3a://b/c"}) || !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// TestDeleteAnswers: only what the answer to a batch names is deleted or not; the rest is asked for one by one.
func TestDeleteAnswers(t *testing.T) {
	const both = `<Deleted><Key>a</Key></Deleted><Deleted><Key>b</Key></Deleted>`
	for name, c := range map[string]struct {
		answer string
		single int32 // requests for one object, all of which fail
		failed int
	}{
		"all deleted":          {`<DeleteResult>` + both + `</DeleteResult>`, 0, 0},
		"not there":            {`<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>NoSuchKey</Code></Error></DeleteResult>`, 0, 0},
		"an error without key": {`<DeleteResult>` + both + `<Error><Code>AccessDenied</Code></Error></DeleteResult>`, 2, 2},
		"an error of another":  {`<DeleteResult>` + both + `<Error><Key>B</Key><Code>AccessDenied</Code></Error></DeleteResult>`, 2, 2},
		"one is not named":     {`<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>`, 1, 1},
		"quiet":                {`<DeleteResult></DeleteResult>`, 2, 2},
		"empty":                {``, 2, 2},
		"another document":     {`<Error><Code>InternalError</Code></Error>`, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var single atomic.Int32
			f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "POST" {
					fmt.Fprint(w, c.answer)
					return
				}
				single.Add(1)
				fail(w, 403, "AccessDenied")
			})
			err := f.Delete(t.Context(), "s3://b/a", "s3://b/b")
			failed := 0
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				failed = len(joined.Unwrap())
			}
			if single.Load() != c.single || failed != c.failed {
				t.Errorf("%d were asked for one by one, %d failed: %v", single.Load(), failed, err)
			}
		})
	}
}

// TestDeleteSpellings: two names of one object fail both.
func TestDeleteSpellings(t *testing.T) {
	f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) { fail(w, 403, "AccessDenied") })
	err := f.Delete(t.Context(), "s3://b/a", "s3a://b/a")
	if err == nil || !strings.Contains(err.Error(), "s3://b/a") || !strings.Contains(err.Error(), "s3a://b/a") {
		t.Error(err)
	}
}

func TestNoBatchDelete(t *testing.T) {
	for _, code := range []string{"NotImplemented", "MissingContentMD5"} {
		var posts, deletes atomic.Int32
		var log bytes.Buffer
		f := scripted(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(w http.ResponseWriter, r *http.Request) {
			switch r.Method {
			case "POST":
				posts.Add(1)
				fail(w, 400, code)
			case "DELETE":
				deletes.Add(1)
				if strings.HasSuffix(r.URL.Path, "/7") {
					fail(w, 403, "AccessDenied")
					return
				}
				w.WriteHeader(204)
			}
		})
		for range 2 {
			var uris []string
			for i := range 30 {
				uris = append(uris, fmt.Sprintf("s3://b/%d", i))
			}
			err := f.Delete(t.Context(), uris...)
			if !errors.Is(err, fs.ErrPermission) || strings.Count(err.Error(), "s3://") != 1 {
				t.Error(err)
			}
		}
		if posts.Load() != 1 || deletes.Load() != 60 || strings.Count(log.String(), "one by one") != 1 {
			t.Errorf("%d batches, %d deletes, log %s", posts.Load(), deletes.Load(), &log)
		}
	}
}

func TestNoConditions(t *testing.T) {
	there := map[string]bool{}
	f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("If-None-Match") != "":
			fail(w, 501, "NotImplemented")
		case r.Method == "PUT":
			there[r.URL.Path] = true
		case r.Method == "HEAD" && !there[r.URL.Path]:
			w.WriteHeader(404)
		}
	})
	f.o.MaxAttempts = 2
	for _, want := range []error{nil, fs.ErrExist} {
		err := storage.WriteFile(t.Context(), f, "s3://b/k", []byte("x"), storage.CreateOptions{})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	check(t, storage.WriteFile(t.Context(), f, "s3://b/k", []byte("y"), storage.CreateOptions{Overwrite: true}))
}

// rangeServer serves data at every path; cut says after how many bytes to
// break the connection, or -1.
func rangeServer(data []byte, etag func() string, cut func(r *http.Request) int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag())
		if n := cut(r); r.Method == "GET" && n >= 0 {
			w = &cutWriter{w, n}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		w.ResponseWriter.Write(p[:w.left])
		w.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	w.left -= len(p)
	return w.ResponseWriter.Write(p)
}

func TestResume(t *testing.T) {
	data := pattern(300_000)
	var gets atomic.Int32
	f := scripted(t, Options{}, rangeServer(data, func() string { return `"e"` }, func(r *http.Request) int {
		if r.Method == "GET" && r.Header.Get("If-Match") != `"e"` {
			t.Errorf("If-Match is %q", r.Header.Get("If-Match"))
		}
		if gets.Add(1)%4 == 0 {
			return 0 // an answer without a byte
		}
		return 40_000
	}))
	got, err := storage.ReadAll(t.Context(), f, "s3://b/k", 0)
	if check(t, err); !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
	o, err := f.Open(t.Context(), "s3://b/k")
	check(t, err)
	p := make([]byte, 100_000)
	if n, err := o.ReadAt(p, 150_000); n != len(p) || err != nil || !bytes.Equal(p, data[150_000:250_000]) {
		t.Errorf("ReadAt gives %d, %v", n, err)
	}
}

func TestResumeGivesUp(t *testing.T) {
	var gets atomic.Int32
	f := scripted(t, Options{MaxAttempts: 3}, rangeServer(pattern(1000), func() string { return `"e"` }, func(r *http.Request) int {
		if r.Method == "GET" {
			gets.Add(1)
		}
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=100-") {
			return 0
		}
		return 100
	}))
	_, err := storage.ReadAll(t.Context(), f, "s3://b/k", 0)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "at byte 100 of 1000, after 3 attempts") || gets.Load() > 4 {
		t.Errorf("%d requests, %v", gets.Load(), err)
	}
}

// TestChangedWhileRead also holds for servers that ignore If-Match.
func TestChangedWhileRead(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		var etag atomic.Value
		etag.Store(`"one"`)
		h := rangeServer(pattern(1000), func() string { return etag.Load().(string) }, func(*http.Request) int { return 100 })
		f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if !obeys {
				r.Header.Del("If-Match")
			}
			h(w, r)
		})
		o, err := f.Open(t.Context(), "s3://b/k")
		check(t, err)
		r, err := o.Reader(t.Context(), 0)
		check(t, err)
		_, err = io.ReadFull(r, make([]byte, 50))
		check(t, err)
		etag.Store(`"two"`)
		_, err = io.ReadAll(r)
		if !errors.Is(err, storage.ErrChanged) {
			t.Error(err)
		}
		check(t, r.Close())
	}
}

func TestStalledDownload(t *testing.T) {
	data := pattern(1000)
	var gets atomic.Int32
	h := rangeServer(data, func() string { return `"e"` }, func(*http.Request) int { return -1 })
	f := scripted(t, Options{StallTimeout: 20 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" && gets.Add(1) == 1 {
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Content-Length", "1000")
			w.Write(data[:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		h(w, r)
	})
	got, err := storage.ReadAll(t.Context(), f, "s3://b/k", 0)
	if check(t, err); !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
}

// TestRangeIgnored: a server that gives the whole object must not pass for one that gave a part.
func TestRangeIgnored(t *testing.T) {
	h := rangeServer(pattern(1000), func() string { return `"e"` }, func(*http.Request) int { return -1 })
	f := scripted(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		h(w, r)
	})
	o, err := f.Open(t.Context(), "s3://b/k")
	check(t, err)
	if _, err := o.ReadAt(make([]byte, 10), 10); err == nil {
		t.Error("ReadAt succeeds")
	}
}

// TestMaxRetries has a server that is always busy.
func TestMaxRetries(t *testing.T) {
	var n atomic.Int32
	f := scripted(t, Options{MaxAttempts: 4}, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		fail(w, 503, "SlowDown")
	})
	for i := range 50 { // a shared quota would be used up
		n.Store(0)
		if _, err := f.Stat(t.Context(), "s3://b/k"); err == nil || n.Load() != 4 {
			t.Fatalf("call %d: %d attempts, %v", i, n.Load(), err)
		}
	}
}

func TestCancelDuringBackoff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := scripted(t, Options{minBackoff: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
		fail(w, 503, "SlowDown")
		cancel()
	})
	if _, err := f.Stat(ctx, "s3://b/k"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	s := server{"closed", "http://127.0.0.1:1", "k", "s"}
	f := s.reopen(t, Options{MaxAttempts: 2}, nil)
	_, err := f.Stat(t.Context(), "s3://b/k")
	if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1 cannot be reached") || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestThreshold has a threshold that is no multiple of the part size: only the last part may be small.
func TestThreshold(t *testing.T) {
	var mu sync.Mutex
	sizes := map[string]int64{}
	f, bucket := fakeServer(t).open(t, Options{})
	f = server{"gofakes3", f.o.Endpoint, "k", "s"}.reopen(t, Options{MultipartThreshold: 7 << 20}, roundTripper(func(r *http.Request) (*http.Response, error) {
		if n := r.URL.Query().Get("partNumber"); n != "" {
			mu.Lock()
			sizes[n] = r.ContentLength
			mu.Unlock()
		}
		return http.DefaultTransport.RoundTrip(r)
	}))
	for _, size := range []int{7 << 20, 12<<20 + 3} {
		uri := fmt.Sprintf("s3://%s/%d", bucket, size)
		check(t, storage.WriteFile(t.Context(), f, uri, pattern(size), storage.CreateOptions{}))
		if got := must(storage.ReadAll(t.Context(), f, uri, 0))(t); !bytes.Equal(got, pattern(size)) {
			t.Errorf("%d: other bytes", size)
		}
		if size == 7<<20 && len(sizes) != 0 {
			t.Errorf("an object of the threshold's size goes up in parts: %v", sizes)
		}
	}
	if want := map[string]int64{"1": 5 << 20, "2": 5 << 20, "3": 2<<20 + 3}; fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("parts are %v, want %v", sizes, want)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoLeaks checks that readers and writers that end badly leave no goroutine.
func TestNoLeaks(t *testing.T) {
	rt := &http.Transport{}
	s := fakeServer(t)
	_, bucket := s.open(t, Options{})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	ignore := goleak.IgnoreCurrent()
	faults := &storagetest.Transport{Base: rt, Seed: 5, CutRequest: .5, CutAnswer: .5}
	f := s.reopen(t, Options{MaxAttempts: 2}, faults)
	for i := range 5 {
		uri := fmt.Sprintf("s3://%s/%d", bucket, i)
		w, err := f.Create(t.Context(), uri, storage.CreateOptions{})
		if err != nil {
			continue
		}
		w.Write(pattern(11 << 20))
		if i%2 == 0 {
			w.Commit()
		}
		w.Abort()
		if o, err := f.Open(t.Context(), uri); err == nil {
			if r, err := o.Reader(t.Context(), 0); err == nil {
				io.CopyN(io.Discard, r, 1000)
				r.Close()
			}
			o.Close()
		}
	}
	rt.CloseIdleConnections()
	goleak.VerifyNone(t, ignore,
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), // the server's side
		goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

func BenchmarkCopyFake(b *testing.B) {
	f, bucket := fakeServer(b).open(b, Options{})
	check(b, storage.WriteFile(b.Context(), f, "s3://"+bucket+"/src", pattern(1<<20), storage.CreateOptions{}))
	b.SetBytes(1 << 20)
	n := 0
	for b.Loop() {
		n++
		check(b, f.Copy(b.Context(), "s3://"+bucket+"/src", fmt.Sprintf("s3://%s/dst/%d", bucket, n)))
	}
}

func BenchmarkListFake(b *testing.B) {
	f, bucket := fakeServer(b).open(b, Options{})
	for i := range 2000 {
		check(b, storage.WriteFile(b.Context(), f, fmt.Sprintf("s3://%s/%d", bucket, i), nil, storage.CreateOptions{}))
	}
	for b.Loop() {
		n := 0
		for _, err := range f.List(b.Context(), "s3://"+bucket) {
			check(b, err)
			n++
		}
		if n != 2000 {
			b.Fatal(n)
		}
	}
}
