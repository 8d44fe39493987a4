package storagetest

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
)

// Transport is an [http.RoundTripper] that injects what a network and a busy
// S3 server do. The fields are shares of the requests, from 0 to 1. What
// happens to a request depends on Seed, on its name (see Name), and on how
// often one of that name was sent before, so that it does not depend on the order in
// which concurrent requests arrive, and a second attempt may work. Set the fields before use.
type Transport struct {
	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper
	// Seed chooses which requests are hit.
	Seed uint64
	// SlowDown is answered with 503 SlowDown and does not reach the server.
	SlowDown float64
	// Timeout fails with a timeout and does not reach the server.
	Timeout float64
	// CutRequest breaks the connection in the middle of the request's body.
	CutRequest float64
	// LostAnswer lets the server do its work and breaks the connection before its answer.
	LostAnswer float64
	// CutAnswer breaks the connection in the middle of the answer's body.
	CutAnswer float64
	// Match limits the faults to the requests for which it says so; nil means all.
	Match func(*http.Request) bool
	// Name names a request; nil means its method, URL and range. A test whose
	// URLs differ from run to run needs another one to see the same faults again.
	Name func(*http.Request) string

	mu       sync.Mutex
	sent     map[string]uint64
	injected map[string]int
}

// Injected gives how often each fault was injected, by the name of its field.
func (t *Transport) Injected() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.injected)
}

// plan draws what happens to a request. where says how far into a body a cut goes, from 0 to 1.
func (t *Transport) plan(r *http.Request) (fault string, where float64) {
	if t.Match != nil && !t.Match(r) {
		return "", 0
	}
	name := r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Range")
	if t.Name != nil {
		name = t.Name(r)
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, name) // never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent == nil {
		t.sent, t.injected = map[string]uint64{}, map[string]int{}
	}
	t.sent[name]++
	rnd := rand.New(rand.NewPCG(t.Seed, h.Sum64()+t.sent[name]))
	x, where := rnd.Float64(), rnd.Float64()
	for _, f := range []struct {
		name  string
		share float64
	}{
		{"SlowDown", t.SlowDown}, {"Timeout", t.Timeout}, {"CutRequest", t.CutRequest},
		{"LostAnswer", t.LostAnswer}, {"CutAnswer", t.CutAnswer},
	} {
		if x -= f.share; x < 0 {
			t.injected[f.name]++
			return f.name, where
		}
	}
	return "", where
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	fault, where := t.plan(r)
	switch fault {
	case "SlowDown":
		drop(r, r.ContentLength)
		return slowDown(r), nil
	case "Timeout":
		drop(r, 0)
		return nil, timeout{}
	case "CutRequest":
		drop(r, int64(where*float64(max(r.ContentLength, 0))))
		return nil, fmt.Errorf("injected: write: %w", syscall.ECONNRESET)
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch fault {
	case "LostAnswer":
		_, _ = io.Copy(io.Discard, resp.Body) // the answer gets lost anyway
		resp.Body.Close()
		return nil, fmt.Errorf("injected: read: %w", syscall.ECONNRESET)
	case "CutAnswer":
		length := resp.ContentLength
		if length < 0 {
			length = 4 << 10
		}
		resp.Body = &cutBody{ReadCloser: resp.Body, left: int64(where * float64(length))}
	}
	return resp, nil
}

// drop reads up to n bytes of a request's body and closes it.
func drop(r *http.Request, n int64) {
	if r.Body != nil {
		_, _ = io.CopyN(io.Discard, r.Body, max(n, 0))
		r.Body.Close()
	}
}

func slowDown(r *http.Request) *http.Response {
	const body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`
	return &http.Response{
		Status: "503 Slow Down", StatusCode: http.StatusServiceUnavailable,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/xml"}},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// timeout is a network error that says Timeout.
type timeout struct{}

func (timeout) Error() string   { return "injected: i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// cutBody ends with an error after some bytes.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.ReadCloser.Close()
		return 0, fmt.Errorf("injected: %w: %w", io.ErrUnexpectedEOF, syscall.ECONNRESET)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
