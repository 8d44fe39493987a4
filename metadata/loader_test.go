package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// anyUUID stands in a tree for an id that Flink made up when it loaded the file.
var anyUUID = tree{"any": "uuid"}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`)

// diff gives the first difference of two trees, or "".
func diff(path string, got, want any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(tree)
		if !ok {
			break
		}
		if _, ok := g["any"]; ok {
			if id, _ := w["keyString"].(string); uuid.MatchString(id) {
				return ""
			}
		}
		if gk, wk := slices.Sorted(maps.Keys(g)), slices.Sorted(maps.Keys(w)); !slices.Equal(gk, wk) {
			return fmt.Sprintf("%s: fields %q instead of %q", path, gk, wk)
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			if d := diff(path+"."+k, g[k], w[k]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			if d := diff(fmt.Sprintf("%s[%d]", path, i), g[i], w[i]); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if got == any(number(w)) {
			return ""
		}
	default:
		if reflect.DeepEqual(got, want) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v instead of %v", path, got, want)
}

// compareWithLoader compares a file with the dump of what Flink's loader made
// of it, in full.
func compareWithLoader(t *testing.T, file, dumpFile string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	b, err := os.ReadFile(dumpFile)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&want); err != nil {
		t.Fatalf("%s: %v", dumpFile, err)
	}
	var d dump
	version := want["version"]
	if loader, ok := want["loader"].(string); ok {
		d = dump{old: true, dir: filepath.Dir(want["file"].(string))}
		if _, err := fmt.Sscanf(loader, "1.%d", &d.minor); err != nil {
			t.Fatalf("%s: loader %q", dumpFile, loader)
		}
		version = want["metadataVersion"]
	} else {
		d = dump{dir: "/elsewhere", minor: 20}
		if home := writtenAt(file); home != "" && (path.Clean(home) != home || !bytes.Contains(b, []byte("file:"+home))) {
			d.dir = home // it was dumped where it was written
		}
		if strings.Contains(filepath.ToSlash(file), "/2.3.0/") {
			d.minor = 100
		}
		if got := number(want["fileLength"].(json.Number)); got != num(len(data)) {
			t.Errorf("%s: %d bytes, Flink says %s", file, len(data), got)
		}
	}
	if got := number(version.(json.Number)); got != num(s.Version) {
		t.Errorf("%s: version %d, Flink says %s", file, s.Version, got)
	}
	if diff := diff("metadata", d.snapshot(s), want["metadata"]); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

// TestLoader compares each checked-in file of a real job with what Flink read in it.
func TestLoader(t *testing.T) {
	dumps, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(dumps) == 0 {
		t.Fatal("no dumps in testdata")
	}
	for _, f := range dumps {
		compareWithLoader(t, strings.TrimSuffix(f, ".json")+"._metadata", f)
	}
}

// TestFixturesLoader does the same with all the snapshots of real jobs.
func TestFixturesLoader(t *testing.T) {
	n := 0
	for _, f := range fixtures(t) {
		if dump := loaderDump(f); dump != "" {
			compareWithLoader(t, f, dump)
			n++
		}
	}
	if want := 652; n != want {
		t.Errorf("compared %d snapshots, not %d", n, want)
	}
}

// loaderDump finds the dump of a fixture: CASE/NAME.meta.json, where NAME is
// the snapshot's directory, or CASE/meta.NAME.json or CASE/meta.json. There
// are none of public files.
func loaderDump(file string) string {
	c := caseOf(file)
	if c.dir == "" {
		return ""
	}
	name := filepath.Base(filepath.Dir(file))
	for _, d := range []string{name + ".meta.json", "meta." + name + ".json", "meta.json"} {
		d = filepath.Join(c.dir, d)
		if _, err := os.Stat(d); err == nil {
			return d
		}
	}
	return ""
}

// writtenAt is the directory where Flink wrote the snapshot of a fixture.
func writtenAt(file string) string {
	c := caseOf(file)
	rel, err := filepath.Rel(c.dir, filepath.Dir(file))
	if c.dir == "" || err != nil {
		return ""
	}
	return c.WrittenAt + "/" + filepath.ToSlash(rel)
}
