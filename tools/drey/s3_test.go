package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
	"github.com/drey-state/drey/storage/storagetest"
	"github.com/drey-state/drey/tools"
)

// s3Server is one of the servers that .ci/s3-servers starts.
type s3Server struct{ name, endpoint, key, secret string }

// s3Servers gives both servers, and makes their credentials the profiles "a"
// and "b" of an AWS configuration of the test's own.
func s3Servers(t *testing.T) (a, b s3Server) {
	t.Helper()
	get := func(name string) s3Server {
		v := "DREY_S3_" + strings.ToUpper(name)
		return s3Server{name, os.Getenv(v), os.Getenv(v + "_KEY"), os.Getenv(v + "_SECRET")}
	}
	a, b = get("a"), get("b")
	if a.endpoint == "" || b.endpoint == "" {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatal(`DREY_INTEROP=1, but there are no S3 servers: run eval "$(.ci/s3-servers)"`)
		}
		t.Skip(`needs S3 servers: run eval "$(.ci/s3-servers)"`)
	}
	dir := t.TempDir()
	var creds, config strings.Builder
	for _, s := range []s3Server{a, b, {name: "wrong", key: a.key, secret: "not-the-secret"}} {
		fmt.Fprintf(&creds, "[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s.name, s.key, s.secret)
		fmt.Fprintf(&config, "[profile %s]\nregion = us-east-1\n", s.name)
	}
	for name, text := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": creds.String(), "AWS_CONFIG_FILE": config.String()} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, file)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return a, b
}

// bucket makes a new bucket.
func (s s3Server) bucket(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("drey-cli-%d", time.Now().UnixNano())
	c, err := config.LoadDefaultConfig(t.Context(), config.WithSharedConfigProfile(s.name))
	if err != nil {
		t.Fatal(err)
	}
	client := awss3.NewFromConfig(c, func(o *awss3.Options) { o.BaseEndpoint, o.UsePathStyle = &s.endpoint, true })
	if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return name
}

func (s s3Server) fs(t *testing.T, o s3.Options) storage.FS {
	t.Helper()
	o.Endpoint, o.PathStyle, o.Profile = s.endpoint, true, s.name
	f, err := s3.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// drey runs a command line in this process.
func drey(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func mustDrey(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := drey(t, args...)
	if code != 0 {
		t.Fatalf("drey %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// TestD10BetweenStores takes snapshots that Flink wrote from local disk to
// one server, to another bucket of it, to the other server with other
// credentials, and back to disk.
func TestD10BetweenStores(t *testing.T) {
	a, b := s3Servers(t)
	onA := []string{"--s3-endpoint", a.endpoint, "--s3-path-style", "--profile", a.name}
	onB := []string{"--s3-endpoint", b.endpoint, "--s3-path-style", "--profile", b.name}
	aToB := append([]string{"--target-s3-endpoint", b.endpoint, "--target-s3-path-style", "--target-profile", b.name}, onA...)
	with := func(command string, flags []string, args ...string) []string {
		return append(append([]string{command}, flags...), args...)
	}
	a1, a2, b1 := a.bucket(t), a.bucket(t), b.bucket(t)
	for i, src := range snapshots(t) {
		name := fmt.Sprintf("Team Log %%20+ü日本😀 {%d}", i)
		hops := []string{src, "s3://" + a1 + "/" + name, "s3a://" + a2 + "/x/" + name, "s3://" + b1 + "/" + name, filepath.Join(t.TempDir(), name)}
		flags := [][]string{onA, onA, aToB, onB}
		verify := [][]string{onA, onA, onB, nil}
		for h := range flags {
			mustDrey(t, with("relocate", flags[h], hops[h], hops[h+1])...)
			mustDrey(t, with("verify", verify[h], hops[h+1])...)
		}
		back := filepath.Join(t.TempDir(), "direct")
		mustDrey(t, "relocate", src, back)
		sameFiles(t, back, hops[4])
	}
}

// snapshots are some of the snapshots in testdata, one of each layout.
func snapshots(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"ck-rocksdb-incr/ckpt/*/chk-5", "ck-filemerging-*/ckpt/*/chk-*", "ck-changelog-*/ckpt/*/chk-3", "sp-native-rocksdb-files/savepoint-*"} {
		found, err := filepath.Glob(filepath.Join("testdata", "snapshots", "*", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d, %v", pattern, len(found), err)
		}
		list = append(list, found[len(found)-1])
	}
	return list
}

// sameFiles compares all files but the metadata.
func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(want, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "_metadata" {
			return err
		}
		n++
		rest, _ := filepath.Rel(want, path)
		x, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		y, err := os.ReadFile(filepath.Join(got, rest))
		if err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			t.Errorf("%s differs", rest)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Errorf("%s holds no files", want)
	}
}

func TestWrongCredentials(t *testing.T) {
	a, _ := s3Servers(t)
	bucket := a.bucket(t)
	src := snapshots(t)[0]
	for _, profile := range []string{"wrong", "no-such-profile"} {
		code, out, errs := drey(t, "relocate", "--s3-endpoint", a.endpoint, "--s3-path-style", "--profile", profile, src, "s3://"+bucket+"/x")
		if code != exitFailed || !strings.Contains(errs, profile) && !strings.Contains(errs, "credentials") {
			t.Errorf("profile %s: exit %d\n%s%s", profile, code, out, errs)
		}
	}
	code, _, errs := drey(t, "relocate", "--s3-endpoint", a.endpoint, "--s3-path-style", "--profile", "a", "s3://no-such-bucket-here/x", t.TempDir()+"/x")
	if code != exitFailed || !strings.Contains(errs, "bucket no-such-bucket-here does not exist") {
		t.Errorf("missing bucket: exit %d\n%s", code, errs)
	}
}

// TestD09ServerCopyUnderFaults relocates 200 files inside each server and
// between them, three above the limit of a single copy, while requests
// fail with 503 and connections are cut.
func TestD09ServerCopyUnderFaults(t *testing.T) {
	a, b := s3Servers(t)
	const limit = 6 << 20
	local := storage.NewLocal(storage.LocalOptions{NoSync: true})
	sizes := slices.Repeat([]int{2000}, 197)
	src := checkpoint(t, t.TempDir(), append(sizes, limit+1, limit+1<<20, 2*limit)...)
	for _, s := range []s3Server{a, b} {
		for _, target := range []s3Server{a, b} {
			t.Run(s.name+" to "+target.name, func(t *testing.T) {
				from, to := "s3://"+s.bucket(t)+"/from", "s3://"+target.bucket(t)+"/to"
				plain := storage.Mux{"file": local, "s3": s.fs(t, s3.Options{})}
				relocatePlain(t, plain, nil, "file:"+src, from)

				faults := &storagetest.Transport{Seed: 7, SlowDown: 0.1, CutRequest: 0.03, CutAnswer: 0.05, LostAnswer: 0.02}
				o := s3.Options{SingleCopyLimit: limit, PartSize: 5 << 20, HTTPClient: &http.Client{Transport: faults}}
				source := s.fs(t, o)
				dest := source
				if target != s {
					dest = target.fs(t, o)
				}
				relocatePlain(t, source, dest, from, to)
				if n := faults.Injected(); n["SlowDown"] < 10 {
					t.Errorf("only %v were injected", n)
				}
				code, out, errs := drey(t, "verify", "--s3-endpoint", target.endpoint, "--s3-path-style", "--profile", target.name, to)
				if code != 0 {
					t.Errorf("exit %d\n%s%s", code, out, errs)
				}
			})
		}
	}
}

func relocatePlain(t *testing.T, source, target storage.FS, src, dst string) {
	t.Helper()
	p, err := tools.PlanRelocate(t.Context(), source, src, dst, tools.RelocateOptions{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Execute(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestManifestRecipe does what the documentation tells who wants another
// engine to copy: a manifest, the copy, the metadata.
func TestManifestRecipe(t *testing.T) {
	a, _ := s3Servers(t)
	from, to := a.bucket(t), a.bucket(t)
	flags := []string{"--s3-endpoint", a.endpoint, "--s3-path-style", "--profile", "a"}
	src := "s3://" + from + "/ck/0123456789abcdef0123456789abcdef/chk-1"
	dst := "s3://" + to + "/moved/ck/0123456789abcdef0123456789abcdef/chk-1"
	rewrite := []string{"--rewrite", "s3://" + from + "=s3://" + to + "/moved"}
	local := checkpoint(t, t.TempDir(), slices.Repeat([]int{100}, 20)...)
	root := strings.TrimSuffix(local, "/ck/0123456789abcdef0123456789abcdef/chk-1")
	mustDrey(t, append([]string{"relocate", "--rewrite", "file:" + root + "=s3://" + from}, append(flags, local, src)...)...)

	list := filepath.Join(t.TempDir(), "manifest.csv")
	mustDrey(t, append(append([]string{"relocate", "--manifest", list}, rewrite...), append(flags, src, dst)...)...)
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	store := a.fs(t, s3.Options{})
	finish := append(append([]string{"relocate", "--metadata-only"}, rewrite...), append(flags, src, dst)...)
	if code, _, errs := drey(t, finish...); code != exitRefused || !strings.Contains(errs, "20 of 20 files") {
		t.Errorf("metadata before the files: exit %d, %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 20 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		bucket, key, _ := strings.Cut(line, ",")
		if err := store.Copy(t.Context(), "s3://"+bucket+"/"+key, "s3://"+to+"/moved/"+key); err != nil {
			t.Fatal(err)
		}
	}
	mustDrey(t, finish...)
	var v struct{ Problems []any }
	if err := json.Unmarshal([]byte(mustDrey(t, append([]string{"verify", "--json"}, append(flags, dst)...)...)), &v); err != nil {
		t.Fatal(err)
	}
}
