package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// allFixtures are the directories with snapshots by real Flink.
var allFixtures = []string{"flink", "extra", "old", "sql", "public"}

// tally counts what was read of one format.
type tally struct{ handles, entries, refused, lost int }

// expected says whether an error is one of what cannot be read: releases and
// classes that are not known, or files that Flink itself lost (FLINK-39964).
func expected(name string, err error) bool {
	return errors.Is(err, serializer.ErrUnsupported) ||
		strings.Contains(name, "/ck-rocksdb-claim-native/") && errors.Is(err, fs.ErrNotExist)
}

// TestFixturesKeyed reads all keyed state of all fixtures.
func TestFixturesKeyed(t *testing.T) {
	ctx := context.Background()
	counts := map[string]*tally{}
	kinds := map[string]int{}
	eachFixture(t, allFixtures, func(f fixture) {
		for _, h := range f.keyed() {
			r, err := OpenKeyed(ctx, f.files, h.handle, h.o)
			if err != nil {
				if !expected(f.name, err) {
					t.Errorf("%s: %v", h.label, err)
				}
				count(counts, "refused").refused++
				continue
			}
			c := count(counts, r.Format())
			c.handles++
			if r.HeaderErr() != nil {
				t.Errorf("%s: %v", h.label, r.HeaderErr())
			}
			checkKeyedHeader(t, f, h, r)
			for e, err := range r.Entries(ctx, Filter{}) {
				if err != nil {
					c.lost++
					if !expected(f.name, err) {
						t.Errorf("%s: %v", h.label, err)
					}
					continue
				}
				c.entries++
				kinds[fmt.Sprintf("%d %s", e.State.Meta.Kind, e.State.Type)]++
				if e.State.TTL {
					kinds["TTL"]++
				}
				if e.Null {
					kinds["null"]++
				}
				if e.Unsplit || e.Joined {
					t.Errorf("%s: %+v", h.label, e)
				}
				if r.KeyGroups().Intersect(rangeOf(e.KeyGroup)).Empty() {
					t.Errorf("%s: an entry of key group %d", h.label, e.KeyGroup)
				}
				for _, decode := range []func() (any, error){e.DecodeKey, e.DecodeNamespace, e.DecodeUserKey, e.DecodeValue} {
					if _, err := decode(); err != nil {
						t.Errorf("%s: %v", h.label, err)
					}
				}
			}
			r.Close()
		}
	})
	t.Log(kinds)
	for kind, least := range map[string]int{"4 LIST": 192, "4 MAP": 672, "4 VALUE": 192, "TTL": 7321, "3 TIMERS": 41719} {
		if kinds[kind] < least {
			t.Errorf("%s: %d entries, want at least %d", kind, kinds[kind], least)
		}
	}
	report(t, counts, map[string]tally{
		"canonical":  {handles: 1971, entries: 63610},
		"heap":       {handles: 890, entries: 23126},
		"rocksdb":    {handles: 1044, entries: 43277},
		"changelog":  {handles: 47, entries: 5178},
		"raw":        {handles: 10, entries: 84},
		"raw timers": {handles: 507, entries: 2214},
	})
}

func count(counts map[string]*tally, format string) *tally {
	if counts[format] == nil {
		counts[format] = &tally{}
	}
	return counts[format]
}

// report fails if less was read than is known to be there.
func report(t *testing.T, counts map[string]*tally, least map[string]tally) {
	t.Helper()
	for format, c := range counts {
		t.Logf("%-12s %5d handles, %6d entries, %d refused, %d times entries lost", format, c.handles, c.entries, c.refused, c.lost)
	}
	for format, want := range least {
		if c := count(counts, format); c.handles < want.handles || c.entries < want.entries {
			t.Errorf("%s: %+v, want at least %+v", format, *c, want)
		}
	}
}

// checkKeyedHeader writes a header and compares it with the file.
func checkKeyedHeader(t *testing.T, f fixture, h keyedHandle, r *KeyedReader) {
	t.Helper()
	var stream metadata.Stream
	switch k := h.handle.(type) {
	case *metadata.KeyGroups:
		stream = k.Delegate
	case *metadata.Incremental:
		stream = k.Meta
	default:
		return
	}
	if r.Header() != nil && r.Header().Version == KeyedVersion {
		checkHeader(t, f, h.label, stream, headerBytes(t, r.Header()))
	}
}

func checkHeader(t *testing.T, f fixture, label string, stream metadata.Stream, want []byte) {
	t.Helper()
	obj, err := f.files.Open(context.Background(), stream)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	got := make([]byte, len(want))
	if _, err := obj.ReadAt(got, 0); len(want) > int(obj.Size()) || !bytes.Equal(got, want) {
		t.Errorf("%s: the header is written as other bytes (%v)", label, err)
	}
}

// TestFixturesOperator reads all operator state of all fixtures.
func TestFixturesOperator(t *testing.T) {
	ctx := context.Background()
	counts := map[string]*tally{}
	eachFixture(t, allFixtures, func(f fixture) {
		for _, h := range f.operator() {
			r, err := OpenOperator(ctx, f.files, h.handle, h.o)
			if err != nil {
				if !expected(f.name, err) {
					t.Errorf("%s: %v", h.label, err)
				}
				count(counts, "refused").refused++
				continue
			}
			c := count(counts, "operator")
			if h.o.Raw {
				c = count(counts, "raw")
			}
			c.handles++
			if r.HeaderErr() != nil {
				t.Errorf("%s: %v", h.label, r.HeaderErr())
			}
			if r.Header() != nil && r.Header().Version >= operatorVersionPlain {
				checkHeader(t, f, h.label, h.handle.Delegate, headerBytes(t, r.Header()))
			}
			for e, err := range r.Entries(ctx, nil) {
				if err != nil {
					c.lost++
					if !expected(f.name, err) {
						t.Errorf("%s: %v", h.label, err)
					}
					continue
				}
				c.entries++
				for _, decode := range []func() (any, error){e.DecodeKey, e.DecodeValue} {
					if _, err := decode(); err != nil {
						t.Errorf("%s: %v", h.label, err)
					}
				}
			}
			r.Close()
		}
	})
	report(t, counts, map[string]tally{
		"operator": {handles: 3542, entries: 16686},
		"raw":      {handles: 20, entries: 216},
	})
}
