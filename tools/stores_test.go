package tools

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
)

// testStore is a store with an empty directory to run a test in.
type testStore struct {
	fsys storage.FS
	base string
	// mkdir makes an empty directory, or the object that stands for one. It is nil where neither exists.
	mkdir func(t testing.TB, uri string)
}

// onStores runs a test in memory, on the local disk and on both S3 servers.
func onStores(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, testStore{fsys: storage.NewMemory(), base: "s3://b"}) })
	t.Run("local", func(t *testing.T) { test(t, localStore(t)) })
	for _, name := range []string{"A", "B"} {
		t.Run("S3 "+name, func(t *testing.T) { test(t, bucketOf(t, name)) })
	}
}

func localStore(t testing.TB) testStore {
	return testStore{storage.NewLocal(storage.LocalOptions{NoSync: true}), "file:" + t.TempDir(), func(t testing.TB, uri string) {
		t.Helper()
		if err := os.MkdirAll(local(uri), 0o777); err != nil {
			t.Fatal(err)
		}
	}}
}

var testBuckets atomic.Int64

// bucketOf makes a bucket on one of the servers that .ci/s3-servers starts. It is removed after the test.
func bucketOf(t testing.TB, name string) testStore {
	t.Helper()
	v := "DREY_S3_" + name
	endpoint, key, secret := os.Getenv(v), os.Getenv(v+"_KEY"), os.Getenv(v+"_SECRET")
	if endpoint == "" {
		if os.Getenv("DREY_INTEROP") == "1" {
			t.Fatalf("DREY_INTEROP=1, but %s is not set: run eval \"$(.ci/s3-servers)\"", v)
		}
		t.Skipf("%s is not set: run eval \"$(.ci/s3-servers)\" to test on real servers", v)
	}
	// Nothing of the AWS configuration of whoever runs the tests.
	for k, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(k, value)
	}
	fsys, err := s3.New(t.Context(), s3.Options{Endpoint: endpoint, PathStyle: true, Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"), config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(key, secret, "")))
	if err != nil {
		t.Fatal(err)
	}
	client := awss3.NewFromConfig(c, func(o *awss3.Options) { o.BaseEndpoint, o.UsePathStyle = &endpoint, true })
	bucket := fmt.Sprintf("drey-tools-%d-%d", time.Now().UnixNano(), testBuckets.Add(1))
	if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeBucket(t, client, bucket) })
	return testStore{fsys, "s3://" + bucket, func(t testing.TB, uri string) {
		t.Helper()
		dir := strings.TrimPrefix(uri, "s3://"+bucket+"/") + "/"
		if _, err := client.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: &dir, Body: bytes.NewReader(nil)}); err != nil {
			t.Fatal(err)
		}
	}}
}

func removeBucket(t testing.TB, client *awss3.Client, bucket string) {
	ctx := context.Background() // the test's has ended
	pages := awss3.NewListObjectsV2Paginator(client, &awss3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		var objects []types.ObjectIdentifier
		for _, o := range page.Contents {
			objects = append(objects, types.ObjectIdentifier{Key: o.Key})
		}
		if len(objects) == 0 {
			continue
		}
		if _, err := client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: &bucket}); err != nil {
		t.Error(err)
	}
}
