package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/internal/javaio"
)

func encode(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	data, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mapPaths(t testing.TB, s *Snapshot, fn func(string) string) *Snapshot {
	t.Helper()
	m, err := s.MapPaths(func(r Ref) (string, error) { return fn(r.Path), nil })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkMapPaths maps a file to and fro.
func checkMapPaths(t *testing.T, file string) {
	s, data := decode(t, file)
	if m := mapPaths(t, s, func(p string) string { return p }); !bytes.Equal(encode(t, m), data) {
		t.Errorf("%s: the identity changes it", file)
	}
	const prefix = "abfs://container@some-account.example/ü 日本 😀/a/much/longer/place/"
	long := mapPaths(t, s, func(p string) string { return prefix + p })
	if back := mapPaths(t, long, func(p string) string { return strings.TrimPrefix(p, prefix) }); !bytes.Equal(encode(t, back), data) {
		t.Errorf("%s: to a longer path and back changes it", file)
	}

	// To shorter paths, and back by a table.
	var paths []string
	number := map[string]int{}
	short := mapPaths(t, s, func(p string) string {
		if _, ok := number[p]; !ok {
			number[p] = len(paths)
			paths = append(paths, p)
		}
		return fmt.Sprint(number[p])
	})
	mapped := encode(t, short)
	again, err := Decode(mapped)
	if err != nil {
		t.Fatalf("%s: mapped: %v", file, err)
	}
	back := mapPaths(t, again, func(p string) string {
		var n int
		if _, err := fmt.Sscan(p, &n); err != nil {
			t.Error(err)
		}
		return paths[n]
	})
	if !bytes.Equal(encode(t, back), data) {
		t.Errorf("%s: to a shorter path and back changes it", file)
	}

	// With the same path everywhere nothing else differs.
	same := func(string) string { return "P" }
	if !bytes.Equal(encode(t, mapPaths(t, long, same)), encode(t, mapPaths(t, s, same))) {
		t.Errorf("%s: more than paths changed", file)
	}
	if !bytes.Equal(encode(t, s), data) {
		t.Errorf("%s: the snapshot itself changed", file)
	}
}

func TestMapPaths(t *testing.T) {
	for _, file := range testdata(t) {
		checkMapPaths(t, file)
	}
}

func TestFixturesMapPaths(t *testing.T) {
	n := 0
	for _, file := range fixtures(t) {
		if data := read(t, file); bytes.Equal(data[4:8], []byte{0, 0, 0, 0}) {
			continue
		}
		checkMapPaths(t, file)
		n++
	}
	if n != 1640 {
		t.Errorf("%d files", n)
	}
}

// TestMapPathsFields checks by the names of Flink's fields which ones change.
func TestMapPathsFields(t *testing.T) {
	allowed := map[string]bool{"filePath": true, "relativePath": true, "directory": true, "@streamStateHandleID": true}
	changed := map[string]bool{}
	for _, file := range testdata(t) {
		if _, err := os.Stat(strings.TrimSuffix(file, "._metadata") + ".json"); err != nil {
			continue // of no real job
		}
		s, _ := decode(t, file)
		d := dump{dir: "/snapshot", minor: 100}
		m := mapPaths(t, s, func(p string) string { return "x" + p })
		changedFields(d.snapshot(s), d.snapshot(m), changed)
	}
	for f := range changed {
		if !allowed[f] {
			t.Errorf("%s changed", f)
		}
	}
	if want := slices.Sorted(maps.Keys(allowed)); !slices.Equal(slices.Sorted(maps.Keys(changed)), want) {
		t.Errorf("changed fields are %v, want %v", sorted(changed), want)
	}
}

func changedFields(a, b any, changed map[string]bool) {
	switch x := a.(type) {
	case tree:
		for k, v := range x {
			if w := b.(tree)[k]; isLeaf(v) {
				if v != w {
					changed[k] = true
				}
			} else {
				changedFields(v, w, changed)
			}
		}
	case []any:
		for i, v := range x {
			if !isLeaf(v) {
				changedFields(v, b.([]any)[i], changed)
			}
		}
	}
}

func isLeaf(v any) bool {
	switch v.(type) {
	case tree, []any:
		return false
	}
	return true
}

// TestMapPathsTooLong is a path of which only the encoding is too long.
func TestMapPathsTooLong(t *testing.T) {
	s, _ := decode(t, "testdata/2.3.0/small-v6._metadata")
	for _, c := range []struct {
		name, path string
		bytes      int
	}{
		{"ASCII", strings.Repeat("a", 65536), 65536},
		{"a long prefix", strings.Repeat("a", 65530) + "/g/23456", 65538},
		{"supplementary, 4 bytes in UTF-8", strings.Repeat("😀", 10923), 65538},
		{"NUL, 1 byte in UTF-8", strings.Repeat("\x00", 32768), 65536},
	} {
		_, err := s.MapPaths(func(r Ref) (string, error) {
			if r.Kind == RefFile {
				return c.path, nil
			}
			return r.Path, nil
		})
		var long *javaio.UTFTooLongError
		if !errors.As(err, &long) || long.Bytes != c.bytes {
			t.Errorf("%s: %v", c.name, err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Field != "operators[0].subtasks[0].managedKeyed.delegate" || e.Offset != -1 {
			t.Errorf("%s: %v", c.name, err)
		}
		if want := fmt.Sprintf("%d bytes as modified UTF-8; the format allows 65535", c.bytes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", c.name, err, want)
		}
	}
	// The longest that fits.
	for _, path := range []string{strings.Repeat("a", 65535), strings.Repeat("😀", 10922) + "abc", strings.Repeat("\x00", 32767) + "a"} {
		m := mapPaths(t, s, func(string) string { return path })
		data := encode(t, m)
		again, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		for r := range again.Refs() {
			if r.Path != path {
				t.Errorf("a path of %d bytes comes back as one of %d", len(path), len(r.Path))
			}
		}
	}
}

func TestMapPathsErrors(t *testing.T) {
	s, _ := decode(t, "testdata/2.3.0/ck-filemerging-rocksdb-chk-2._metadata")
	wrong := errors.New("wrong")
	calls := 0
	_, err := s.MapPaths(func(r Ref) (string, error) {
		if calls++; calls == 3 {
			return "", wrong
		}
		return r.Path, nil
	})
	var e *Error
	if !errors.Is(err, wrong) || !errors.As(err, &e) || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
	for _, kind := range []RefKind{RefSegment, RefDirectory} {
		_, err := s.Rewrite(func(r Ref) (Location, error) { return Location{Path: r.Path, Relative: r.Kind == kind}, nil })
		if want := fmt.Sprintf("a %s can't be relative", kind); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestRewrite turns relative files into absolute ones and back.
func TestRewrite(t *testing.T) {
	s, data := decode(t, "testdata/2.3.0/ck-unaligned-chk-1._metadata")
	const dir = "s3://bucket/job/chk-1/"
	absolute, err := s.Rewrite(func(r Ref) (Location, error) { return Location{Path: dir + r.Path}, nil })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range absolute.Refs() {
		if n++; r.Kind != RefFile || !strings.HasPrefix(r.Path, dir) {
			t.Errorf("%s is a %s", r.Path, r.Kind)
		}
	}
	if n == 0 {
		t.Fatal("no references")
	}
	relative, err := absolute.Rewrite(func(r Ref) (Location, error) {
		return Location{Path: strings.TrimPrefix(r.Path, dir), Relative: true}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, relative), data) {
		t.Error("to absolute and back changes it")
	}
}
