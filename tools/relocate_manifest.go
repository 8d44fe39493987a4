package tools

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/drey-state/drey/storage"
)

// ManifestFormat is a list of files for a tool that copies them.
type ManifestFormat string

// The formats.
const (
	// ManifestS3Batch is CSV of bucket and URL-encoded key, as S3 Batch
	// Operations reads it. Its copy keeps the key, after a prefix that the job is given.
	ManifestS3Batch ManifestFormat = "s3-batch"
	// ManifestPairs is CSV of source and target URI, for any other tool.
	ManifestPairs ManifestFormat = "pairs"
)

// Manifest is where the list leads.
type Manifest struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Bucket and Prefix are the destination that a job of S3 Batch Operations
	// must be told; SourceBucket is where all objects are.
	SourceBucket string `json:"sourceBucket,omitempty"`
	Bucket       string `json:"bucket,omitempty"`
	Prefix       string `json:"prefix,omitempty"`
}

// WriteManifest lists the files that the plan copies, without the metadata,
// which is written by a relocation with MetadataOnly when they have arrived.
func (p *RelocatePlan) WriteManifest(w io.Writer, format ManifestFormat) (Manifest, error) {
	var m Manifest
	out := csv.NewWriter(w)
	for _, f := range p.Files {
		if f.Present {
			continue
		}
		row := []string{f.Source, f.Target}
		if format == ManifestS3Batch {
			bucket, key, err := m.batch(f)
			if err != nil {
				return m, err
			}
			row = []string{bucket, escapeKey(key)}
		}
		if err := out.Write(row); err != nil {
			return m, err
		}
		m.Files++
		m.Bytes += f.Size
	}
	out.Flush()
	return m, out.Error()
}

// maxBatchCopy is the largest object that S3 Batch Operations copies, in bytes.
const maxBatchCopy = 5 << 30

// batch gives the row of a file for S3 Batch Operations, whose jobs copy from
// one bucket to one bucket and put one prefix before every key.
func (m *Manifest) batch(f FileCopy) (bucket, key string, err error) {
	bucket, key = bucketKey(f.Source)
	to, toKey := bucketKey(f.Target)
	prefix, ok := strings.CutSuffix(toKey, key)
	fail := func(format string, args ...any) (string, string, error) {
		return "", "", fmt.Errorf("%s -> %s: S3 Batch Operations %s: %w", f.Source, f.Target, fmt.Sprintf(format, args...), ErrRefused)
	}
	switch {
	case storage.Scheme(f.Source) != "s3" || storage.Scheme(f.Target) != "s3":
		return fail("copies only from S3 to S3")
	case f.Size > maxBatchCopy:
		return fail("copies no object above 5 GiB; relocate without --manifest, which copies such objects in parts on the store's side, or use the format pairs")
	case m.Files > 0 && bucket != m.SourceBucket:
		return fail("copies from one bucket in a job, and other files are in %s; use the format pairs", m.SourceBucket)
	case !ok || m.Files > 0 && (prefix != m.Prefix || to != m.Bucket):
		return fail("keeps the key of an object, after one prefix for all: use --rewrite s3://%s=s3://%s, perhaps with a prefix, and the directory in it that answers to the source", bucket, to)
	}
	m.SourceBucket, m.Bucket, m.Prefix = bucket, to, prefix
	return bucket, key, nil
}

// escapeKey URL-encodes all that any decoder of URLs could read in another way.
func escapeKey(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(key), "+", "%20"), "%2F", "/")
}

func bucketKey(uri string) (bucket, key string) {
	_, bucket, path := storage.Split(storage.Clean(uri))
	return bucket, strings.TrimPrefix(path, "/")
}
