package storage

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for _, tc := range []struct{ uri, scheme, authority, path string }{
		{"s3://b/k", "s3", "b", "/k"},
		{"s3://b", "s3", "b", ""},
		{"hdfs://nn:8020/f", "hdfs", "nn:8020", "/f"},
		{"hdfs:/f", "hdfs", "", "/f"},
		{"file:///f", "file", "", "/f"},
		{"file:/f", "file", "", "/f"},
		{"/f", "", "", "/f"},
		{"f", "", "", "f"},
		{"", "", "", ""},
		{"/", "", "", "/"},
		{"//", "", "", "//"},
		{"/a:b", "", "", "/a:b"},
		{"a/b:c", "", "", "a/b:c"},
		{"C:/x", "", "", "C:/x"},
		{`C:\x`, "", "", `C:\x`},
		{"C:", "", "", "C:"},
		{"/C:/x", "", "", "/C:/x"},
		{"file:/C:/x", "file", "", "/C:/x"},
		{"s3://b/a%20b?c#d", "s3", "b", "/a%20b?c#d"},
		{"s3://b/x:y", "s3", "b", "/x:y"},
	} {
		scheme, authority, path := Split(tc.uri)
		if scheme != tc.scheme || authority != tc.authority || path != tc.path {
			t.Errorf("Split(%q) = %q, %q, %q", tc.uri, scheme, authority, path)
		}
	}
}

func TestClean(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///a/b":         "file:/a/b",
		"file:/a/b/":          "file:/a/b",
		"/a//b///c":           "/a/b/c",
		`/a\b`:                "/a/b",
		"/a/./b/../c":         "/a/c",
		"s3://b//a//b/":       "s3://b/a/b",
		"s3a://b/":            "s3a://b/",
		"s3a://b/a%20b":       "s3a://b/a%20b",
		"s3a://b/a b+ü日本😀?#":  "s3a://b/a b+ü日本😀?#",
		"s3://b/{1}[2]":       "s3://b/{1}[2]",
		"hdfs://nn:8020/f/..": "hdfs://nn:8020/",
		"S3://B/x":            "S3://B/x",
		"./a:b":               "./a:b",
		"./a:":                "./a:",
	} {
		if got := Clean(uri); got != want {
			t.Errorf("Clean(%q) = %q, want %q", uri, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct{ uri, dir, base string }{
		{"s3://b/a/c", "s3://b/a", "c"},
		{"s3://b/a", "s3://b/", "a"},
		{"s3://b/", "s3://b/", ""},
		{"s3://b", "s3://b", ""},
		{"/a", "/", "a"},
		{"/", "/", ""},
		{"file:///a/c/", "file:/a", "c"},
	} {
		if dir, base := Dir(tc.uri), Base(tc.uri); dir != tc.dir || base != tc.base {
			t.Errorf("Dir, Base of %q are %q, %q; want %q, %q", tc.uri, dir, base, tc.dir, tc.base)
		}
	}
	for want, got := range map[string]string{
		"s3://b/a/c/d": Join("s3://b/a/", "c", "d"),
		"s3://b/a":     Join("s3://b", "a"),
		"file:/a/b:c":  Join("file:///a", "b:c"),
		"/a/日本 %20":    Join("/a", "日本 %20"),
		"/a":           Join("/a"),
	} {
		if got != want {
			t.Errorf("Join gives %q, want %q", got, want)
		}
	}
}

func TestScheme(t *testing.T) {
	for uri, want := range map[string]string{
		"s3a://b/x": "s3", "S3N://b": "s3", "s3p://b": "s3", "s3://b": "s3", "/x": "file", "file:/x": "file", "FILE:/x": "file",
		"C:/x": "file", `C:\x`: "file", "hdfs://n/x": "hdfs", "gs://b/x": "gs", "": "file",
	} {
		if got := Scheme(uri); got != want {
			t.Errorf("Scheme(%q) = %q, want %q", uri, got, want)
		}
	}
}

// TestKey has groups of spellings of one object each; no two groups name the same.
func TestKey(t *testing.T) {
	groups := [][]string{
		{"s3://b/x", "s3a://b/x", "s3n://b//x/", "s3p://b/./x", "S3://b/y/../x"},
		{"s3://b2/x"},
		{"s3://b/X"},
		{"s3://b/%78"},
		{"s3://b/p/q", `s3://b/p\q`},
		{"s3://b/a b"}, {"s3://b/a%20b"}, {"s3://b/a+b"},
		{"s3://b", "s3://b/", "s3a://b//"},
		{"/x", "file:/x", "file:///x", "file://localhost/x", `\x`},
		{"hdfs://nn/x", "hdfs://nn:8020/x", "hdfs://NN:8020/x"},
		{"hdfs://nn:9000/x"},
		{"hdfs:/x", "hdfs:///x"},
		{"file:/C:/x", "C:/x", "/C:/x", `C:\x`, `file:///C:\x`, "file:/C:/x/", "file://localhost/C:/x"},
		{"file:/D:/x"},
		{"gs://b/x"},
	}
	owner := map[string]int{}
	for i, group := range groups {
		for _, uri := range group {
			key := Key(uri)
			if key != Key(group[0]) {
				t.Errorf("Key(%q) = %q, Key(%q) = %q", uri, key, group[0], Key(group[0]))
			}
			if j, ok := owner[key]; ok && j != i {
				t.Errorf("%q and %q have the key %q", uri, groups[j][0], key)
			}
			owner[key] = i
		}
	}
}

func TestRel(t *testing.T) {
	for _, tc := range []struct {
		dir, uri, want string
		ok             bool
	}{
		{"s3://b/chk-1", "s3a://b/chk-1/x", "x", true},
		{"s3://b/chk-1/", "s3://b/chk-1/x/y", "x/y", true},
		{"s3://b/chk-1", "s3://b/chk-10/x", "", false},
		{"s3://b/chk-1", "s3://b/chk-1", "", true},
		{"s3://b/chk-1", "s3://b/chk-1/", "", true},
		{"s3://b", "s3://b/x", "x", true},
		{"s3://b", "s3://bb/x", "", false},
		{"/", "file:/x", "x", true},
		{"/a", "/", "", false},
		{"file:/C:/x", `C:\x\y`, "y", true},
	} {
		if got, ok := Rel(tc.dir, tc.uri); got != tc.want || ok != tc.ok {
			t.Errorf("Rel(%q, %q) = %q, %v", tc.dir, tc.uri, got, ok)
		}
	}
}

// anyURI draws strings in which everything that matters to these functions occurs often.
func anyURI() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"/", "//", ":", ".", "..", `\`, "a", "b", "C:", "s3:", "s3a://", "file:", "file://", "localhost", "hdfs://nn:8020", "%20", " ", "+", "ü", "日本", "?", "#", "chk-1"}),
		rapid.String(),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
	})
}

// anyPlace draws sensible absolute URIs.
func anyPlace() *rapid.Generator[string] {
	segment := rapid.SampledFrom([]string{"a", "b c", "%20", "chk-1", "chk-10", "ü", "日本", "x:y", "...", "q?#"})
	return rapid.Custom(func(t *rapid.T) string {
		root := rapid.SampledFrom([]string{"", "file:", "file://", "s3://b", "s3a://b", "hdfs://nn:8020", "hdfs://nn"}).Draw(t, "root")
		return root + "/" + strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "segments"), "/")
	})
}

func TestCleanIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uri := anyURI().Draw(t, "uri")
		once := Clean(uri)
		if twice := Clean(once); twice != once {
			t.Errorf("Clean(%q) = %q, and of that %q", uri, once, twice)
		}
		if Key(uri) != Key(once) {
			t.Errorf("Key(%q) = %q, of the cleaned one %q", uri, Key(uri), Key(once))
		}
	})
}

func TestKeyIsAKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uri := anyURI().Draw(t, "uri")
		if key := Key(uri); Key(key) != key {
			t.Errorf("Key(%q) = %q, and of that %q", uri, key, Key(key))
		}
	})
}

func TestSplitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uri := anyPlace().Draw(t, "uri")
		if got := unsplit(Split(uri)); strings.Replace(uri, ":///", ":/", 1) != got {
			t.Errorf("%q comes back as %q", uri, got)
		}
	})
}

func TestRelIsJoinsInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, below := anyPlace().Draw(t, "dir"), anyPlace().Draw(t, "below")
		_, _, path := Split(below)
		rest := path[1:]
		joined := Join(dir, rest)
		if got, ok := Rel(dir, joined); !ok || got != rest {
			t.Errorf("Rel(%q, %q) = %q, %v; want %q", dir, joined, got, ok, rest)
		}
		if Dir(joined) == Clean(joined) || Join(Dir(joined), Base(joined)) != joined {
			t.Errorf("%q is not %q and %q", joined, Dir(joined), Base(joined))
		}
		if _, ok := Rel(dir+"0", joined); ok {
			t.Errorf("%q is below %q", joined, dir+"0")
		}
		if _, ok := Rel(joined, dir); ok {
			t.Errorf("%q is below %q", dir, joined)
		}
	})
}
