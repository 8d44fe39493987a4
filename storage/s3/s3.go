package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/drey-state/drey/storage"
)

// Options are the options of [New]; the zero value means AWS with the
// credentials and region of its environment variables and files.
type Options struct {
	// Endpoint is the URL of a server other than AWS, such as
	// http://127.0.0.1:9000. With one, all buckets are in one region.
	Endpoint string
	// PathStyle puts the bucket into the path of requests and not into the
	// host name, as most servers other than AWS need it.
	PathStyle bool
	// Profile names a profile of the AWS configuration files, in place of AWS_PROFILE.
	Profile string
	// Region is the region to start from, in place of AWS_REGION. On AWS each
	// bucket's own region is found out and used.
	Region string

	// SingleCopyLimit is the size in bytes up to which an object is copied
	// with one request; larger ones are copied in parts. Default and maximum: 5 GiB.
	SingleCopyLimit int64
	// PartSize is the size in bytes of the parts of a multipart upload, raised
	// for objects that would have more than 10,000 parts. Default 8 MiB, at least 5 MiB.
	PartSize int64
	// MultipartThreshold is the size in bytes up to which an object is
	// written with one request. Default, and at least: PartSize.
	MultipartThreshold int64
	// Concurrency is how many parts of one object are under way at a time.
	// A writer holds up to Concurrency+1 parts in memory. Default 4.
	Concurrency int
	// Lists is how many pages of one listing are asked for at a time, once the
	// first page of 1,000 names shows that there are more; 1 means that one follows the other. Default 8.
	Lists int
	// MaxAttempts is how often a request is tried before its error counts,
	// and how often in a row a broken download is resumed without getting a
	// byte further. Default 10.
	MaxAttempts int
	// StallTimeout is how long a download may give no byte before it is
	// broken off and resumed. Default 1 minute.
	StallTimeout time.Duration
	// AbandonedAfter is how long ago a multipart upload must have been begun
	// for Clean to take it for a dead writer's and abort it, as nobody can tell
	// whether a younger one is still being written. What dies younger is billed until a
	// later Clean, or a lifecycle rule AbortIncompleteMultipartUpload of the
	// bucket, aborts it. Default 24 hours.
	AbandonedAfter time.Duration

	// HTTPClient sends the requests to S3, without following redirects; nil
	// means one that keeps many connections open and obeys AWS_CA_BUNDLE. It
	// should have no Timeout, which would cut large bodies.
	HTTPClient *http.Client
	// Logger is told of retries and of what a server lacks; nil means silence.
	Logger *slog.Logger

	// minBackoff is the first delay between attempts.
	minBackoff time.Duration
}

const (
	maxSingleCopy = 5 << 30 // CopyObject's limit
	minPart       = 5 << 20 // of every part but the last
	maxParts      = 10_000
	defaultPart   = 8 << 20
	copyPart      = 128 << 20 // parts that are copied pass through nobody's memory
	maxBackoff    = 20 * time.Second
)

// fill puts the defaults in.
func (o *Options) fill() error {
	if o.SingleCopyLimit <= 0 || o.SingleCopyLimit > maxSingleCopy {
		o.SingleCopyLimit = maxSingleCopy
	}
	if o.PartSize <= 0 {
		o.PartSize = defaultPart
	}
	if o.PartSize < minPart {
		return fmt.Errorf("s3: part size %d: at least %d bytes are needed", o.PartSize, minPart)
	}
	if o.MultipartThreshold <= 0 {
		o.MultipartThreshold = o.PartSize
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	if o.Lists <= 0 {
		o.Lists = 8
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 10
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = time.Minute
	}
	if o.AbandonedAfter <= 0 {
		o.AbandonedAfter = 24 * time.Hour
	}
	if o.minBackoff <= 0 {
		o.minBackoff = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// newClient makes a client for many requests at a time to one host.
func newClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns = 0
		t.MaxIdleConnsPerHost = 256
		// A server that took a request and never answers. Copies on the
		// server's side may be slow.
		t.ResponseHeaderTimeout = 5 * time.Minute
	})
}

// FS is the storage of all buckets that one set of credentials reaches. It
// takes URIs of the schemes s3, s3a, s3n and s3p; the path without its first
// slash is the key, as it stands. All methods may be called concurrently.
//
// A key that ends in "/" is a directory marker and never an object. S3 has no
// directories: a prefix that holds objects is one.
//
// An object is created under the condition that none is there ("If-None-Match:
// *"), which AWS and most servers check atomically. Where a server does not
// know the condition, or ignores it for CopyObject, or checks it for the last
// request of a multipart upload but not atomically, a look before the request
// has to do, and of two writers that create one object in the same moment the
// later one wins. All objects are whole in any case.
//
// Objects that FS writes carry the metadata entry "drey-writer", a random
// number by which a writer knows its own object when the answer to its request was lost.
type FS struct {
	o   Options
	cfg aws.Config

	noBatchDelete atomic.Bool // the server lacks DeleteObjects
	noCondition   atomic.Bool // the server says that it lacks If-None-Match

	mu      sync.Mutex
	regions map[string]string        // bucket -> region
	clients map[string]*awss3.Client // region -> client
}

var (
	_ storage.FS      = (*FS)(nil)
	_ storage.Cleaner = (*FS)(nil)
	_ storage.Pruner  = (*FS)(nil)
)

// New makes an FS. It reads AWS's configuration and sends no request. Two
// sets of credentials are two FS values with different profiles.
func New(ctx context.Context, o Options) (*FS, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newClient()),
		config.WithLogger(sdkLogger{o.Logger}),
		config.WithRetryer(func() aws.Retryer { return newRetryer(o) }),
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("s3: read the AWS configuration: %w", err)
	}
	if o.HTTPClient != nil {
		c := *o.HTTPClient
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cfg.HTTPClient = &c
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	// Bodies are signed with their SHA-256, which every server checks. Many
	// know no other checksum.
	cfg.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	return &FS{o: o, cfg: cfg, regions: map[string]string{}, clients: map[string]*awss3.Client{}}, nil
}

// sdkLogger keeps the SDK from writing to standard error.
type sdkLogger struct{ *slog.Logger }

// Logf implements logging.Logger.
func (l sdkLogger) Logf(_ logging.Classification, format string, v ...any) {
	l.Debug("s3: " + fmt.Sprintf(format, v...))
}

// newRetryer makes a retryer without the quota that all requests of a client
// would share: one bad minute must not fail what comes after it.
func newRetryer(o Options) aws.Retryer {
	return retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = o.MaxAttempts
		s.MaxBackoff = maxBackoff
		s.RateLimiter = ratelimit.None
		s.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			d := backoff(o.minBackoff, attempt)
			o.Logger.Debug("s3: trying again", "attempt", attempt+1, "after", d, "error", err)
			return d, nil
		})
		noCredentials := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if withoutCredentials(err) {
				return aws.FalseTernary // looking for them has its own attempts
			}
			return aws.UnknownTernary
		})
		more := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(brokenBody(err) || code(err) == "ConditionalRequestConflict" || code(err) == "OperationAborted")
		})
		s.Retryables = append(append([]retry.IsErrorRetryable{noCredentials}, s.Retryables...), more)
	})
}

// backoff is the delay after the attempt of that number, with jitter.
func backoff(first time.Duration, attempt int) time.Duration {
	d := min(first<<min(max(attempt-1, 0), 20), maxBackoff)
	return d/2 + rand.N(d/2+1)
}

// location is a bucket and a key or, for a directory, a key without the slash at its end.
type location struct{ bucket, key string }

func (l location) prefix() string {
	if l.key == "" {
		return ""
	}
	return l.key + "/"
}

// locate takes a URI apart.
func locate(uri string) (location, error) {
	_, bucket, path := storage.Split(uri)
	if storage.Scheme(uri) != "s3" {
		return location{}, fmt.Errorf("%w: not an S3 URI, which looks like s3://bucket/key", storage.ErrScheme)
	}
	if bucket == "" {
		return location{}, fmt.Errorf("%w: no bucket; an S3 URI looks like s3://bucket/key", fs.ErrInvalid)
	}
	if !utf8.ValidString(path) {
		return location{}, fmt.Errorf("%w: not UTF-8, which S3 keys are", fs.ErrInvalid)
	}
	key := strings.TrimRight(strings.TrimPrefix(path, "/"), "/")
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "." || seg == ".." {
			return location{}, fmt.Errorf("%w: a segment %q in the key", fs.ErrInvalid, seg)
		}
	}
	return location{bucket, key}, nil
}

// begin is what every method starts with.
func (f *FS) begin(ctx context.Context, uri string) (*awss3.Client, location, error) {
	if err := ctx.Err(); err != nil {
		return nil, location{}, err
	}
	at, err := locate(uri)
	if err != nil {
		return nil, location{}, err
	}
	c, err := f.client(ctx, at.bucket)
	return c, at, err
}

// client gives the client for a bucket's region.
func (f *FS) client(ctx context.Context, bucket string) (*awss3.Client, error) {
	region := f.cfg.Region
	if f.o.Endpoint == "" && f.cfg.BaseEndpoint == nil {
		var err error
		if region, err = f.region(ctx, bucket); err != nil {
			return nil, err
		}
	}
	return f.clientIn(region), nil
}

func (f *FS) clientIn(region string) *awss3.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clients[region]
	if c == nil {
		c = awss3.NewFromConfig(f.cfg, func(o *awss3.Options) {
			o.Region = region
			o.UsePathStyle = f.o.PathStyle
			o.DisableLogOutputChecksumValidationSkipped = true
			if f.o.Endpoint != "" {
				o.BaseEndpoint = aws.String(f.o.Endpoint)
			}
		})
		f.clients[region] = c
	}
	return c
}

// region asks in which region a bucket is, once.
func (f *FS) region(ctx context.Context, bucket string) (string, error) {
	f.mu.Lock()
	region := f.regions[bucket]
	f.mu.Unlock()
	if region != "" {
		return region, nil
	}
	out, err := f.clientIn(f.cfg.Region).HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &bucket})
	switch {
	case err == nil:
		region = aws.ToString(out.BucketRegion)
	case ctx.Err() != nil:
		return "", ctx.Err()
	default:
		// A redirect, and a refusal too, name the region.
		region = responseHeader(err, "X-Amz-Bucket-Region")
		if region == "" && status(err) == 0 {
			return "", fmt.Errorf("ask for the region of bucket %s: %w", bucket, err)
		}
	}
	if region == "" {
		// The request itself will say what is wrong.
		return f.cfg.Region, nil
	}
	f.mu.Lock()
	f.regions[bucket] = region
	f.mu.Unlock()
	f.o.Logger.Debug("s3: bucket region", "bucket", bucket, "region", region)
	return region, nil
}

// Stat implements storage.FS.
func (f *FS) Stat(ctx context.Context, uri string) (storage.Info, error) {
	c, at, err := f.begin(ctx, uri)
	if err != nil {
		return storage.Info{}, f.fail(ctx, "stat", uri, err)
	}
	h, err := f.head(ctx, c, at)
	switch {
	case err == nil:
		return storage.Info{URI: uri, Size: h.size, ModTime: h.mtime}, nil
	case errors.Is(err, storage.ErrIsDir):
		return storage.Info{URI: uri, Dir: true}, nil
	}
	return storage.Info{}, f.fail(ctx, "stat", uri, err)
}

// head is what is known of an object without its bytes.
type head struct {
	size  int64
	etag  string
	mtime time.Time
	out   *awss3.HeadObjectOutput
}

// head describes the object at a location. A prefix that holds objects is an
// error that unwraps to storage.ErrIsDir; if nothing at all is there, the
// error comes from a listing, which unlike a HEAD says when it is the bucket
// that is missing or the credentials that are unknown.
func (f *FS) head(ctx context.Context, c *awss3.Client, at location) (head, error) {
	if at.key != "" {
		out, err := c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &at.bucket, Key: &at.key})
		if err == nil && !directoryType(out) {
			return head{
				size: aws.ToInt64(out.ContentLength), etag: aws.ToString(out.ETag),
				mtime: aws.ToTime(out.LastModified), out: out,
			}, nil
		}
		if err != nil && status(err) != http.StatusNotFound {
			return head{}, err
		}
	}
	dir, err := f.isDir(ctx, c, at)
	switch {
	case err != nil:
		return head{}, err
	case dir:
		return head{}, storage.ErrIsDir
	}
	return head{}, fs.ErrNotExist
}

// directoryType says that a server presents a prefix as an empty object.
func directoryType(out *awss3.HeadObjectOutput) bool {
	if aws.ToInt64(out.ContentLength) != 0 {
		return false
	}
	t := aws.ToString(out.ContentType)
	return strings.HasPrefix(t, "application/x-directory") || strings.HasPrefix(t, "httpd/unix-directory")
}

// isDir says whether keys begin with the location as a directory.
func (f *FS) isDir(ctx context.Context, c *awss3.Client, at location) (bool, error) {
	out, err := c.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{
		Bucket: &at.bucket, Prefix: aws.String(at.prefix()), MaxKeys: aws.Int32(1),
	})
	if err != nil {
		return false, err
	}
	return at.key == "" || len(out.Contents) > 0, nil
}
