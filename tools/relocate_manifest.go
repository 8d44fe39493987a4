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
	// Bucket and Prefix are what a job of S3 Batch Operations must be told.
	Bucket string `json:"bucket,omitempty"`
	Prefix string `json:"prefix,omitempty"`
}

// WriteManifest lists the files that the plan copies, without the metadata,
// which is written by a relocation with MetadataOnly when they have arrived.
func (p *RelocatePlan) WriteManifest(w io.Writer, format ManifestFormat) (Manifest, error) {
	var m Manifest
	out := csv.NewWriter(w)
	for i, f := range p.Files {
		if f.Present {
			continue
		}
		row := []string{f.Source, f.Target}
		if format == ManifestS3Batch {
			bucket, key := bucketKey(f.Source)
			to, toKey := bucketKey(f.Target)
			prefix, ok := strings.CutSuffix(toKey, key)
			if storage.Scheme(f.Source) != "s3" || storage.Scheme(f.Target) != "s3" {
				return m, fmt.Errorf("%s -> %s: S3 Batch Operations copies only from S3 to S3: %w", f.Source, f.Target, ErrRefused)
			}
			if !ok || i > 0 && m.Files > 0 && (prefix != m.Prefix || to != m.Bucket) {
				return m, fmt.Errorf("%s -> %s: S3 Batch Operations keeps the key of an object, after one prefix for all: use --rewrite s3://%s=s3://%s, perhaps with a prefix, and the directory in it that answers to the source: %w",
					f.Source, f.Target, bucket, to, ErrRefused)
			}
			m.Bucket, m.Prefix = to, prefix
			row = []string{bucket, strings.ReplaceAll(url.PathEscape(key), "%2F", "/")}
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

func bucketKey(uri string) (bucket, key string) {
	_, bucket, path := storage.Split(storage.Clean(uri))
	return bucket, strings.TrimPrefix(path, "/")
}
