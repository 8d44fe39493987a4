package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
	"github.com/drey-state/drey/storage/storagetest"
	"github.com/drey-state/drey/tools"
)

const gcJob = "0123456789abcdef0123456789abcdef"

// marker makes the empty object that stands for a directory.
func (s s3Server) marker(t *testing.T, bucket, key string) {
	t.Helper()
	c, err := config.LoadDefaultConfig(t.Context(), config.WithSharedConfigProfile(s.name))
	if err != nil {
		t.Fatal(err)
	}
	client := awss3.NewFromConfig(c, func(o *awss3.Options) { o.BaseEndpoint, o.UsePathStyle = &s.endpoint, true })
	if _, err := client.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(nil)}); err != nil {
		t.Fatal(err)
	}
}

func litterOf(t *testing.T, store storage.FS, dir string, n int) (uris []string) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		uri := storage.Join(dir, fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i))
		uris = append(uris, uri)
		g.Go(func() error {
			return storage.WriteFile(t.Context(), store, uri, []byte("litter"), storage.CreateOptions{})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return uris
}

// TestD14ToD22OnS3 collects the litter of a job on both servers: more than one
// request takes, a key that may not be deleted, keys that are gone, a marker of
// a directory; D16: another job uses some of it; D17: metadata that can't be read.
func TestD14ToD22OnS3(t *testing.T) {
	a, b := s3Servers(t)
	for _, server := range []s3Server{a, b} {
		t.Run(server.name, func(t *testing.T) {
			bucket := server.bucket(t)
			flags := []string{"--s3-endpoint", server.endpoint, "--s3-path-style", "--profile", server.name}
			gc := func(args ...string) []string {
				return append(append([]string{"gc", "--grace", "0"}, flags...), args...)
			}
			root := "s3://" + bucket + "/ck"
			job := root + "/" + gcJob
			store := server.fs(t, s3.Options{})
			litter := litterOf(t, store, job+"/shared", 1100)
			aborted := litterOf(t, store, job+"/chk-0", 2)
			server.marker(t, bucket, "ck/"+gcJob+"/chk-0/")
			local := checkpoint(t, t.TempDir(), slices.Repeat([]int{100}, 20)...)
			mustDrey(t, append(append([]string{"relocate", "--rewrite", "file:" + strings.TrimSuffix(local, "/ck/"+gcJob+"/chk-1") + "=s3://" + bucket}, flags...), local, job+"/chk-1")...)
			// The marker is of checkpoint 0, which is older than the newest.
			plan, record := filepath.Join(t.TempDir(), "plan.json"), filepath.Join(t.TempDir(), "run.jsonl")
			mustDrey(t, gc("--empty-dirs", "--plan-out", plan, root)...)

			// Spelled s3a it is the same place.
			var doc struct{ Delete []struct{ Path string } }
			if err := json.Unmarshal([]byte(mustDrey(t, gc("--json", "s3a://"+strings.TrimPrefix(root, "s3://"))...)), &doc); err != nil || len(doc.Delete) != 1102 {
				t.Fatalf("%d files: %v", len(doc.Delete), err)
			}
			if err := store.Delete(t.Context(), litter[1], litter[500], litter[1099]); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(plan)
			if err != nil {
				t.Fatal(err)
			}
			p, err := tools.ReadGCPlan(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			denied := storagetest.NewFaulty(store, storagetest.FaultOptions{Inject: func(s storagetest.Step) *storagetest.Fault {
				if s.Op == "delete" && s.URI == litter[7] {
					return &storagetest.Fault{Err: fs.ErrPermission}
				}
				return nil
			}})
			r, err := p.Execute(t.Context(), denied, tools.GCExecuteOptions{Batch: 200})
			if !errors.Is(err, tools.ErrPartly) || r.Failed.Files != 1 || r.Gone.Files != 3 || r.Deleted.Files != 1098 || r.Directories != 1 {
				t.Fatalf("%v: %+v", err, r)
			}
			mustDrey(t, append([]string{"gc", "--plan", plan, "--delete", "--record", record}, flags...)...)
			mustDrey(t, append(append([]string{"verify"}, flags...), job+"/chk-1")...)
			for _, uri := range append(litter, append(aborted, job+"/chk-0")...) {
				if _, err := store.Stat(t.Context(), uri); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s: %v", uri, err)
				}
			}
			if data, err := os.ReadFile(record); err != nil || strings.Count(string(data), `"what":"gone"`) != 1101 {
				t.Errorf("%v: %.300s", err, data)
			}

			// All in one request, and in the presence of metadata that is damaged.
			litter = litterOf(t, store, job+"/chk-0", 1050)
			bad := root + "/" + strings.Repeat("b", 32) + "/chk-1/_metadata"
			if err := storage.WriteFile(t.Context(), store, bad, []byte("damaged"), storage.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if code, out, _ := drey(t, gc("--delete", root)...); code != exitRefused || !strings.Contains(out, bad) {
				t.Errorf("damaged metadata: exit %d, %s", code, out)
			}
			if code, out, _ := drey(t, gc("--delete", job)...); code != exitRefused || !strings.Contains(out, "not in scope") {
				t.Errorf("a sibling out of scope: exit %d, %s", code, out)
			}
			if err := storage.WriteFile(t.Context(), store, job+"/chk-2/._metadata", nil, storage.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			code, _, errs := drey(t, append(append([]string{"dispose", "--ignore-metadata", bad, "--delete"}, flags...), job+"/chk-1")...)
			if code != exitRefused {
				t.Errorf("dispose of a checkpoint of a job that may run: exit %d, %s", code, errs)
			}
			mustDrey(t, append(append([]string{"dispose", "--stopped", "--ignore-metadata", bad, "--delete"}, flags...), job+"/chk-1")...)
			left := 0
			for info, err := range store.List(t.Context(), job) {
				if err != nil {
					t.Fatal(err)
				}
				if storage.Base(storage.Dir(info.URI)) == "shared" || strings.Contains(info.URI, "chk-1/") {
					t.Errorf("%s is left", info.URI)
				}
				left++
			}
			if left != len(litter)+1 {
				t.Errorf("%d files are left", left)
			}
		})
	}
}
