package metadata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// onDisk is where a reference of a fixture lies now: the case directory was
// moved as a whole, and s3/BUCKET/KEY in it stands for s3://BUCKET/KEY.
func onDisk(t *testing.T, file string, r Ref) string {
	t.Helper()
	c := caseOf(file)
	if r.Kind == RefRelative {
		return filepath.Join(filepath.Dir(file), r.Path)
	}
	home := "file:" + path.Clean(c.WrittenAt) + "/"
	if rest, ok := strings.CutPrefix(r.Path, home); ok {
		return filepath.Join(c.dir, rest)
	}
	if scheme, rest, ok := strings.Cut(r.Path, "://"); ok && (scheme == "s3" || scheme == "s3p") {
		return filepath.Join(c.dir, "s3", rest)
	}
	t.Errorf("%s: %s: %s is outside %s", file, r.Field(), r.Path, home)
	return ""
}

// TestFixturesRefs finds every reference of every snapshot of a real job on
// disk, with the size that the snapshot says.
func TestFixturesRefs(t *testing.T) {
	snapshots, kinds := 0, [4]int{}
	for _, file := range fixtures(t) {
		c := caseOf(file)
		if c.dir == "" {
			continue
		}
		snapshots++
		s, _ := decode(t, file)
		dangling := map[string]bool{}
		for r := range s.Refs() {
			kinds[r.Kind]++
			p := onDisk(t, file, r)
			if r.Kind == RefDirectory {
				continue // Git keeps no empty directories
			}
			info, err := os.Stat(p)
			switch {
			case errors.Is(err, os.ErrNotExist):
				rel, _ := filepath.Rel(c.dir, p)
				dangling[filepath.ToSlash(rel)] = true
			case err != nil:
				t.Error(err)
			case r.Kind == RefSegment && r.Start+r.Size > info.Size():
				t.Errorf("%s: %s: ends at %d of %d bytes", file, r.Field(), r.Start+r.Size, info.Size())
			case r.Kind != RefSegment && r.Part != PartChange && r.Size != info.Size():
				t.Errorf("%s: %s: %d bytes, on disk %d", file, r.Field(), r.Size, info.Size())
			}
		}
		if want := knownDangling(t, file); !slices.Equal(sorted(dangling), want) {
			t.Errorf("%s: dangling %q, want %q", file, sorted(dangling), want)
		}
	}
	if want := 652; snapshots != want {
		t.Errorf("%d snapshots instead of %d", snapshots, want)
	}
	for k, n := range kinds {
		if n == 0 {
			t.Errorf("no %s in any fixture", RefKind(k))
		}
	}
}

func sorted(set map[string]bool) []string {
	var list []string
	for s := range set {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// knownDangling lists the files that Flink itself left dangling (FLINK-39964).
func knownDangling(t *testing.T, file string) []string {
	c := caseOf(file)
	data, err := os.ReadFile(filepath.Join(c.dir, "orphans.json"))
	if err != nil {
		return nil
	}
	var o struct {
		DanglingReferences map[string][]string
	}
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(c.dir, filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	list := o.DanglingReferences[filepath.ToSlash(rel)]
	slices.Sort(list)
	return slices.Compact(list)
}

// TestPublicRefs compares with what the index of the public fixtures says: the
// version, the number of references, and the kind.
func TestPublicRefs(t *testing.T) {
	fixtures(t)
	root := filepath.Join("..", "..", "shared", "fixtures", "public")
	lines := strings.Split(strings.TrimSpace(string(read(t, filepath.Join(root, "INDEX.tsv")))), "\n")
	column := map[string]int{}
	for i, name := range strings.Split(lines[0], "\t") {
		column[name] = i
	}
	n, kinds := 0, 0
	for _, line := range lines[1:] {
		f := strings.Split(line, "\t")
		var have, want int
		if _, err := fmt.Sscanf(f[column["completeness"]], "%d/%d referenced files present", &have, &want); err != nil {
			continue
		}
		file := filepath.Join(root, f[column["path"]])
		s, err := Decode(read(t, file))
		if err != nil {
			if !errors.Is(err, ErrVersion) {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		if v := strconv.Itoa(int(s.Version)); v != f[column["metadata_version"]] {
			t.Errorf("%s: version %s instead of %s", file, v, f[column["metadata_version"]])
		}
		files := 0
		for range s.Refs() {
			files++
		}
		if files != want {
			t.Errorf("%s: %d references instead of %d", file, files, want)
		}
		if info := s.Properties.Info(); s.Version >= Version4 && !bytes.Equal(s.Properties, NullProperties) {
			kind := f[column["kind"]]
			ok := true // an unknown kind stands in the index as a savepoint
			switch {
			case kind == "checkpoint":
				ok = info.Kind == KindCheckpoint
			case kind == "savepoint-native":
				ok = info.Kind == KindNativeSavepoint
			case strings.Contains(f[column["path"]], "savepoint"):
				ok = info.Kind.Savepoint()
			}
			if !ok {
				t.Errorf("%s: a %s instead of a %s", file, info.Kind, kind)
			}
			kinds++
		}
		n++
	}
	if kinds < 80 {
		t.Errorf("only %d files of a known kind", kinds)
	}
	if want := 488; n != want {
		t.Errorf("compared %d files instead of %d", n, want)
	}
}

// TestRefsComplete compares the references with the paths in the
// dump of Flink's loader, where they are found by the name of their field.
func TestRefsComplete(t *testing.T) {
	for _, file := range testdata(t) {
		dumpFile := strings.TrimSuffix(file, "._metadata") + ".json"
		b, err := os.ReadFile(dumpFile)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Metadata any }
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		want := pathsIn(v.Metadata)
		s, _ := decode(t, file)
		var got []string
		for r := range s.Refs() {
			got = append(got, r.Path)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: references\n%q\ninstead of\n%q", file, got, want)
		}
	}
}

func pathsIn(v any) (paths []string) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			paths = append(paths, pathsIn(x)...)
		}
	case map[string]any:
		for k, x := range v {
			s, ok := x.(string)
			switch {
			case !ok:
				paths = append(paths, pathsIn(x)...)
			case k == "relativePath", k == "directory":
				paths = append(paths, s)
			case k == "filePath" && v["relativePath"] == nil && s != "empty":
				paths = append(paths, s)
			}
		}
	}
	return paths
}

// TestRefs looks at every part of a reference, in the example of FORMAT.md.
func TestRefs(t *testing.T) {
	s, _ := decode(t, "testdata/2.3.0/small-v6._metadata")
	var got []string
	for r := range s.Refs() {
		got = append(got, fmt.Sprintf("%s | %s | %s | %s | %s | %d | %d | subtask %d | key groups %s | %v",
			r.Field(), r.Role, r.Part, r.Kind, r.Path, r.Size, r.Start, r.Subtask, r.KeyGroups, r.Operator == &s.Operators[0]))
	}
	want := []string{
		"operators[0].subtasks[0].managedOperator.delegate | managed operator state | state | relative file | f | 9 | 0 | subtask 0 | key groups none | true",
		"operators[0].subtasks[0].managedKeyed.delegate | managed keyed state | state | file | file:/x/g | 3 | 0 | subtask 0 | key groups 0-1 | true",
		"operators[0].subtasks[0].inputChannels[0].delegate | input channel state | state | relative file | f | 9 | 0 | subtask 0 | key groups none | true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("references\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range s.Refs() {
		break // must not call again after the end
	}
}

// TestRefField damages each path in turn: the decoder must name the place as
// the reference does.
func TestRefField(t *testing.T) {
	const marker = "here-it-is"
	parts, roles := map[Part]bool{}, map[Role]bool{}
	for _, file := range testdata(t) {
		s, _ := decode(t, file)
		i := 0
		for r := range s.Refs() {
			parts[r.Part], roles[r.Role] = true, true
			n := -1
			marked, err := s.MapPaths(func(o Ref) (string, error) {
				if n++; n == i {
					return marker, nil
				}
				return o.Path, nil
			})
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			data, err := Encode(marked)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			at := bytes.Index(data, []byte(marker))
			data[at] = 0xFF
			// Decode may take a damaged file for one of another dialect.
			_, _, err = decodeBody(data, s.Version, s.Dialect)
			want := r.Field()
			if r.Kind != RefDirectory {
				want += ".path"
			}
			var e *Error
			if !errors.As(err, &e) || e.Field != want || e.Offset != int64(at-2) {
				t.Errorf("%s: %v; want offset %d and field %s", file, err, at-2, want)
			}
			i++
		}
	}
	if len(parts) != 7 || len(roles) != 7 {
		t.Errorf("testdata has only the parts %v and the roles %v", parts, roles)
	}
}
