package s3

import (
	"strings"
	"testing"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

func conformance(t *testing.T, s server, o Options, lacks ...storagetest.Lack) {
	f, bucket := s.open(t, o)
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		return f, "s3://" + bucket + "/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	}, lacks...)
}

// gofakes3 ignores If-None-Match.
func TestConformanceFake(t *testing.T) {
	conformance(t, fakeServer(t), Options{AbandonedAfter: 1}, storagetest.LackAtomicCreate)
}

func TestConformanceA(t *testing.T) {
	conformance(t, realServer(t, "A"), Options{SingleCopyLimit: 6 << 20, AbandonedAfter: 1})
}

func TestConformanceB(t *testing.T) {
	// SeaweedFS 4.48 lets several racing CompleteMultipartUpload with
	// If-None-Match succeed; PutObject is atomic.
	conformance(t, realServer(t, "B"), Options{SingleCopyLimit: 6 << 20}, storagetest.LackAtomicLargeCreate)
}

// TestConformanceFaults runs the suite over a network that fails all the time.
func TestConformanceFaults(t *testing.T) {
	s := fakeServer(t)
	_, bucket := s.open(t, Options{})
	rt := faults(&storagetest.Transport{Seed: 1, SlowDown: .05, Timeout: .05, CutRequest: .05, LostAnswer: .05, CutAnswer: .05, Match: notBeginsUpload})
	f := s.reopen(t, Options{MaxAttempts: 20}, rt)
	storagetest.Run(t, func(t *testing.T) (storage.FS, string) {
		return f, "s3a://" + bucket + "/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	}, storagetest.LackAtomicCreate)
	t.Logf("injected: %v", rt.Injected())
}
