package interop

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// s3Kinds are the cases on S3; each has a bucket of its own.
var s3Kinds = []string{
	"sp-s3", // a canonical and a native savepoint
	"ck-s3-incr",
	"ck-s3-entropy", // data scattered over random prefixes
	"ck-s3-unicode", // spaces, %20, + and more in the keys
}

// TestRelocateS3 lets Flink write to buckets, moves the snapshots to another
// bucket, to another server and to local disk, removes what Flink wrote, and
// lets Flink restore them.
func TestRelocateS3(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Parallel()
			testRelocateS3(t, v, newServer(t, "A"), newServer(t, "B"))
		})
	}
}

func testRelocateS3(t *testing.T, v flink, a, b server) {
	prefix := "interop-" + strings.ReplaceAll(string(v), ".", "-") + "-" + strings.ToLower(rand.Text()[:8]) + "-"
	for _, c := range s3Kinds {
		a.makeBucket(t, prefix+c)
	}
	target := prefix + "target"
	a.makeBucket(t, target)
	b.makeBucket(t, target)

	written := v.generate(t, append(a.flinkEnv(), "S3_BUCKET_PREFIX="+prefix), s3Kinds...)
	dir := t.TempDir()
	all := snapshots(t, written, filepath.Join(dir, "truth"))

	// The credentials of the servers differ, so they are in two profiles.
	credentials := filepath.Join(dir, "credentials")
	write(t, credentials, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n[other]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
		a.key, a.secret, b.key, b.secret))
	env := []string{"AWS_SHARED_CREDENTIALS_FILE=" + credentials, "AWS_CONFIG_FILE=" + filepath.Join(dir, "none"), "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_PROFILE="}
	from := []string{"--s3-endpoint", a.endpoint, "--s3-path-style"}

	var bucket, other, local []relocation
	for i, s := range all {
		key := s.Case + "/" + path.Base(s.Dir)
		at := "s3://" + target + "/bucket to bucket/" + key
		drey(t, env, append([]string{"relocate", s.URI, at}, from...)...)
		drey(t, env, append([]string{"verify", at}, from...)...)
		bucket = append(bucket, relocation{s, "to another bucket", at, nil})
		if i+1 < len(all) && all[i+1].Case == s.Case {
			continue
		}

		at = "s3://" + target + "/server to server/" + key
		drey(t, env, append([]string{"relocate", s.URI, at, "--target-s3-endpoint", b.endpoint, "--target-s3-path-style", "--target-profile", "other"}, from...)...)
		other = append(other, relocation{s, "to another server", at, nil})

		at = filepath.Join(dir, "from S3", key)
		drey(t, env, append([]string{"relocate", s.URI, at}, from...)...)
		local = append(local, relocation{s, "to local disk", at, nil})
	}
	for _, c := range s3Kinds {
		a.empty(t, prefix+c)
	}
	if err := os.RemoveAll(written); err != nil {
		t.Fatal(err)
	}

	for _, p := range []struct {
		server server
		done   []relocation
	}{{a, append(bucket, local...)}, {b, other}} {
		var lines [][]string
		for _, r := range p.done {
			lines = append(lines, []string{r.at, r.Truth, "--entry", r.Dir})
		}
		report(t, v, p.done, v.verify(t, p.server.flinkEnv(), lines))
	}
}

// server is an S3 server, and a client that does just what this test needs and
// shares nothing with the one under test.
type server struct{ endpoint, key, secret string }

// newServer takes the server from the environment, as .ci/s3-servers prints it.
func newServer(t *testing.T, name string) server {
	t.Helper()
	v := "DREY_S3_" + name
	s := server{os.Getenv(v), os.Getenv(v + "_KEY"), os.Getenv(v + "_SECRET")}
	if s.endpoint == "" || s.key == "" || s.secret == "" {
		t.Fatalf(`%s, %[1]s_KEY and %[1]s_SECRET must name an S3 server: eval "$(.ci/s3-servers)"`, v)
	}
	return s
}

// flinkEnv is for the Java program.
func (s server) flinkEnv() []string {
	return []string{"S3_ENDPOINT=" + s.endpoint, "AWS_ACCESS_KEY_ID=" + s.key, "AWS_SECRET_ACCESS_KEY=" + s.secret}
}

func (s server) makeBucket(t *testing.T, bucket string) {
	t.Helper()
	s.do(t, http.MethodPut, bucket, "", nil)
	t.Cleanup(func() {
		s.empty(t, bucket)
		s.do(t, http.MethodDelete, bucket, "", nil)
	})
}

// empty deletes all objects of the bucket.
func (s server) empty(t *testing.T, bucket string) {
	t.Helper()
	for {
		var page struct {
			Contents []struct{ Key string }
		}
		if err := xml.Unmarshal(s.do(t, http.MethodGet, bucket, "", url.Values{"list-type": {"2"}}), &page); err != nil {
			t.Fatalf("list bucket %s: %v", bucket, err)
		}
		if len(page.Contents) == 0 {
			return
		}
		for _, o := range page.Contents {
			s.do(t, http.MethodDelete, bucket, o.Key, nil)
		}
	}
}

// do sends a request signed with version 4 of AWS' signature, and gives the body of the answer.
func (s server) do(t *testing.T, method, bucket, key string, query url.Values) []byte {
	t.Helper()
	req, err := http.NewRequest(method, s.endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Path = "/" + bucket
	if key != "" {
		req.URL.Path += "/" + key
	}
	req.URL.RawPath = escapePath(req.URL.Path)
	req.URL.RawQuery = query.Encode()

	now := time.Now().UTC()
	stamp, day := now.Format("20060102T150405Z"), now.Format("20060102")
	scope := day + "/us-east-1/s3/aws4_request"
	body := fmt.Sprintf("%x", sha256.Sum256(nil))
	const signed = "host;x-amz-content-sha256;x-amz-date"
	canonical := strings.Join([]string{method, req.URL.RawPath, req.URL.RawQuery,
		"host:" + req.URL.Host, "x-amz-content-sha256:" + body, "x-amz-date:" + stamp, "", signed, body}, "\n")
	secret := []byte("AWS4" + s.secret)
	for _, part := range []string{day, "us-east-1", "s3", "aws4_request"} {
		secret = mac(secret, part)
	}
	signature := mac(secret, fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", stamp, scope, sha256.Sum256([]byte(canonical))))
	req.Header.Set("X-Amz-Date", stamp)
	req.Header.Set("X-Amz-Content-Sha256", body)
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", s.key, scope, signed, hex.EncodeToString(signature)))

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s/%s: %s %v\n%s", method, bucket, key, resp.Status, err, answer)
	}
	return answer
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escapePath escapes what the signature wants escaped, which is more than url.URL does.
func escapePath(p string) string {
	var b strings.Builder
	for _, c := range []byte(p) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("/-_.~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
