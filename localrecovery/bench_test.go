package localrecovery

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/drey-state/drey/storage"
)

// sinkFS takes everything and keeps nothing, so that only the copy costs something.
type sinkFS struct{ storage.FS }

func (sinkFS) Create(context.Context, string, storage.CreateOptions) (storage.Writer, error) {
	return sinkWriter{}, nil
}

type sinkWriter struct{}

func (sinkWriter) Write(p []byte) (int, error) { return len(p), nil }
func (sinkWriter) Commit() error               { return nil }
func (sinkWriter) Abort()                      {}

// BenchmarkWrite is a file of 64 MiB in writes of 4 KiB: what the copy costs beside a primary store that costs nothing.
func BenchmarkWrite(b *testing.B) {
	for name, o := range map[string]Options{"disk": {}, "memory": {Memory: 1 << 30}} {
		b.Run(name, func(b *testing.B) {
			if o.Memory == 0 {
				o.Roots = []string{b.TempDir()}
			}
			s := mustOpen(b, o)
			k := task(b, s, me)
			piece := contentOf("x", 4<<10)
			const pieces = 16 << 10
			b.SetBytes(pieces * int64(len(piece)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				c := k.Begin(int64(n))
				w, err := c.FS(sinkFS{}).Create(b.Context(), "s3://b/x", storage.CreateOptions{})
				check(b, err)
				for range pieces {
					w.Write(piece)
				}
				check(b, w.Commit())
				c.Seal(b.Context())
				k.Confirm(int64(n))
				n++
			}
		})
	}
}

// BenchmarkKeep is a checkpoint of a database of 1,000 files: all are linked, and the last checkpoint's links removed.
func BenchmarkKeep(b *testing.B) {
	s, db := mustOpen(b, Options{Roots: []string{b.TempDir()}}), b.TempDir()
	k := task(b, s, me)
	files := database(b, db, 1000, 1)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		c := k.Begin(int64(n))
		f := c.FS(sinkFS{}).(storage.Keeper)
		for uri, name := range files {
			f.Keep(b.Context(), uri, name)
		}
		c.Seal(b.Context())
		k.Confirm(int64(n))
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/1000, "ns/file")
}

func database(b *testing.B, dir string, count, size int) map[string]string {
	files := map[string]string{}
	for i := range count {
		uri := fmt.Sprintf("s3://bucket/checkpoints/0123456789abcdef/shared/%06d-6a0f-4b1c-9e7d", i)
		files[uri] = write(b, filepath.Join(dir, fmt.Sprintf("%06d.sst", i)), contentOf(uri, size))
	}
	return files
}

// BenchmarkRestoreByLink opens a database of 64 MiB in 16 files by hard links of the local copy, beside reading them.
func BenchmarkRestoreByLink(b *testing.B) {
	s, db := mustOpen(b, Options{Roots: []string{b.TempDir()}}), b.TempDir()
	k := task(b, s, me)
	const count, size = 16, 4 << 20
	files := database(b, db, count, size)
	c := k.Begin(1)
	for uri, name := range files {
		c.FS(sinkFS{}).(storage.Keeper).Keep(b.Context(), uri, name)
	}
	c.Seal(b.Context())
	b.Run("link", func(b *testing.B) {
		dir := b.TempDir()
		b.SetBytes(count * size)
		b.ReportAllocs()
		for b.Loop() {
			r := k.Restore(b.Context(), 1, failing{})
			i := 0
			for uri := range files {
				path, ok := r.Locate(b.Context(), uri)
				if !ok {
					b.Fatal("not there")
				}
				i++
				name := filepath.Join(dir, fmt.Sprint(i))
				check(b, os.Link(path, name))
				check(b, os.Remove(name))
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(count * size)
		b.ReportAllocs()
		for b.Loop() {
			r := k.Restore(b.Context(), 1, failing{})
			for uri := range files {
				o, err := r.Open(b.Context(), uri)
				check(b, err)
				rc, err := o.Reader(b.Context(), 0)
				check(b, err)
				_, err = io.Copy(io.Discard, rc)
				check(b, err)
				check(b, rc.Close())
				check(b, o.Close())
			}
		}
	})
}
