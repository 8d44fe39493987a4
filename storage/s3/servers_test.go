package s3

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/drey-state/drey/storage/storagetest"
)

// server is an S3 server to test against.
type server struct{ name, endpoint, key, secret string }

// fakeServer starts one in this process. It takes any credentials, ignores
// If-None-Match and cannot copy a range.
func fakeServer(t testing.TB) server {
	s := httptest.NewUnstartedServer(gofakes3.New(s3mem.New()).Server())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it answers broken requests twice
	s.Start()
	t.Cleanup(s.Close)
	return server{"gofakes3", s.URL, "any", "thing"}
}

// realServer is one of those that .ci/s3-servers starts.
func realServer(t testing.TB, name string) server {
	t.Helper()
	v := "DREY_S3_" + name
	s := server{name, os.Getenv(v), os.Getenv(v + "_KEY"), os.Getenv(v + "_SECRET")}
	if s.endpoint == "" {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatalf("DREY_INTEROP=1, but %s is not set: run eval \"$(.ci/s3-servers)\"", v)
		}
		t.Skipf("%s is not set: run eval \"$(.ci/s3-servers)\" to test against real servers", v)
	}
	return s
}

var buckets atomic.Int64

// open makes an FS for the server, and a new bucket.
func (s server) open(t testing.TB, o Options) (*FS, string) {
	t.Helper()
	f := s.reopen(t, o, nil)
	bucket := fmt.Sprintf("drey-%d-%d", time.Now().UnixNano(), buckets.Add(1))
	if _, err := f.clientIn("us-east-1").CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	return f, bucket
}

// reopen makes an FS for the server that sends its requests through rt, if that is not nil.
func (s server) reopen(t testing.TB, o Options, rt http.RoundTripper) *FS {
	t.Helper()
	isolate(t, s.key, s.secret)
	o.Endpoint, o.PathStyle, o.Region = s.endpoint, true, "us-east-1"
	if rt != nil {
		o.HTTPClient = &http.Client{Transport: rt}
	}
	if o.PartSize == 0 {
		o.PartSize = minPart
	}
	if o.minBackoff == 0 {
		o.minBackoff = time.Millisecond
	}
	f, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// isolate hides the AWS configuration of whoever runs the tests.
func isolate(t testing.TB, key, secret string) {
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_ENDPOINT_URL", "")
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// faults makes a transport that hits the same requests in every run.
func faults(t *storagetest.Transport) *storagetest.Transport {
	t.Name = func(r *http.Request) string {
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // each run has its own bucket
		q := r.URL.Query()
		return fmt.Sprint(r.Method, key, q.Has("uploads"), q.Has("uploadId"), q.Get("partNumber"), q.Get("prefix"), r.Header.Get("Range"))
	}
	return t
}

// beginsUpload matches CreateMultipartUpload. If its answer is lost, an upload
// stays behind that only Clean finds; see TestLostUpload.
func beginsUpload(r *http.Request) bool { return r.Method == "POST" && r.URL.Query().Has("uploads") }

func notBeginsUpload(r *http.Request) bool { return !beginsUpload(r) }
