package tools

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestDiffStateOfOneJob compares snapshots of the same content in every pair
// of formats: canonical savepoints of both backends, native savepoints and
// incremental checkpoints. The truth files say which have the same content.
func TestDiffStateOfOneJob(t *testing.T) {
	root := sharedFixtures(t)
	pairs, entries := 0, int64(0)
	for _, release := range []string{"1.20.5", "2.3.0"} {
		cases, err := os.ReadDir(filepath.Join(root, "sql", release))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if !c.IsDir() {
				continue
			}
			dir := filepath.Join(root, "sql", release, c.Name())
			var truth truthFile
			readTruth(t, filepath.Join(dir, "truth.json"), &truth)
			fsys := newFixtureFS(dir, truth.WrittenAt)
			open := func(name string) *Snapshot {
				s, err := Open(t.Context(), fsys, "file:"+filepath.ToSlash(filepath.Join(dir, name)))
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			for _, s := range truth.Snapshots {
				if s.OperatorsOf == "" {
					continue
				}
				r, err := DiffState(t.Context(), fsys, open(s.OperatorsOf), open(s.Dir), DiffStateOptions{Limit: 3}, func(x *Difference) error {
					t.Errorf("%s/%s: %s and %s: %+v", release, c.Name(), s.OperatorsOf, s.Dir, x)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range append(r.OldProblems, r.NewProblems...) {
					t.Errorf("%s/%s: %v", release, c.Name(), p)
				}
				for _, state := range r.States {
					entries += state.Old
					// The snapshot of a POJO's serializer lists the subclasses that were met.
					if state.Old != state.New || state.Note != "" && c.Name() != "ex-pojo" {
						t.Errorf("%s/%s: %+v", release, c.Name(), state)
					}
				}
				pairs++
			}
		}
	}
	t.Logf("%d pairs of snapshots with %d entries each", pairs, entries)
	if pairs < 100 {
		t.Errorf("only %d pairs", pairs)
	}
}

// canonicalSavepoint copies a canonical savepoint of Flink 1.20.5 and gives its directory.
func canonicalSavepoint(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("drey/testdata/snapshots/1.20.5/sp-canonical-hashmap-files/savepoint-508158-bcdaedc881d5")); err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(dir)
}

// patch changes the bytes behind the only place in a directory's files that has a pattern.
func patch(t testing.TB, dir string, pattern []byte, change func(behind []byte)) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		i := bytes.Index(data, pattern)
		if i < 0 || filepath.Base(name) == MetadataName {
			continue
		}
		found += bytes.Count(data, pattern)
		change(data[i+len(pattern):])
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Fatalf("the pattern is there %d times", found)
	}
}

func openLocal(t testing.TB, dir string) (storage.FS, *Snapshot) {
	t.Helper()
	local := storage.NewLocal(storage.LocalOptions{})
	s, err := Open(t.Context(), local, "file:"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return local, s
}

// TestDiffStateOneKey changes one value in a state file.
func TestDiffStateOneKey(t *testing.T) {
	before, after := canonicalSavepoint(t), canonicalSavepoint(t)
	// Of the keyed Integer states only ns-value has namespaces: key 13, namespace "ns-a", a Long.
	pattern := slices.Concat(binary.BigEndian.AppendUint32(nil, 13), []byte("\x05ns-a"), []byte{0, 0, 0, 8})
	var old, changed uint64
	patch(t, after, pattern, func(value []byte) {
		old = binary.BigEndian.Uint64(value)
		value[7] ^= 1
		changed = binary.BigEndian.Uint64(value)
	})
	local, a := openLocal(t, before)
	_, b := openLocal(t, after)
	for _, o := range []DiffStateOptions{{Limit: -1}, {Limit: -1, budget: 1, Jobs: 1}} {
		var shown []*Difference
		r, err := DiffState(t.Context(), local, a, b, o, func(x *Difference) error {
			shown = append(shown, x)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(shown) != 1 {
			t.Fatalf("%d differences: %+v", len(shown), r)
		}
		x := shown[0]
		if x.State != "ns-value" || x.Change != changeChanged || x.Key != "13" || x.Namespace != `"ns-a"` ||
			string(x.Old) != string(serializer.AppendJSON(nil, int64(old))) || string(x.New) != string(serializer.AppendJSON(nil, int64(changed))) {
			t.Errorf("got %+v", x)
		}
		if !r.Different {
			t.Error("not different")
		}
	}
}

// entriesByName reads all entries into a map, by all that names one.
func entriesByName(t *testing.T, fsys storage.FS, s *Snapshot) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for e, err := range Entries(t.Context(), fsys, s, EntryOptions{Jobs: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		name := []string{e.Operator.ID.String(), e.State()}
		value, err := e.Value()
		if err != nil {
			t.Fatal(err)
		}
		text := string(serializer.AppendJSON(nil, value))
		if k := e.Keyed; k != nil {
			for _, decode := range []func() (any, error){k.DecodeKey, k.DecodeNamespace, k.DecodeUserKey} {
				v, err := decode()
				if err != nil {
					t.Fatal(err)
				}
				name = append(name, string(serializer.AppendJSON(nil, v)))
			}
			if k.State.Type == backend.TypeTimers {
				name = append(name, string(serializer.AppendJSON(nil, k.Timestamp)))
			}
		} else if e.Element.State.Mode == metadata.ModeBroadcast {
			key, err := e.Key()
			if err != nil {
				t.Fatal(err)
			}
			name = append(name, string(serializer.AppendJSON(nil, key)))
		} else {
			name = append(name, text)
			text = ""
		}
		key := strings.Join(name, "|")
		if e.Element == nil || e.Element.State.Mode == metadata.ModeSplit || len(all[key]) == 0 {
			all[key] = append(all[key], text)
		}
	}
	return all
}

// TestDiffStateAgainstMaps compares checkpoints of running jobs with each
// other, and with what a comparison of maps in memory gives.
func TestDiffStateAgainstMaps(t *testing.T) {
	root := sharedFixtures(t)
	for _, name := range []string{"flink/1.20.5/ck-rocksdb-incr", "flink/2.3.0/ck-rocksdb-incr-list", "flink/2.3.0/ck-rocksdb-incr-heaptimers", "flink/1.20.5/sp-rescaled"} {
		dir := filepath.Join(root, filepath.FromSlash(name))
		var truth truthFile
		readTruth(t, filepath.Join(dir, "truth.json"), &truth)
		fsys := newFixtureFS(dir, truth.WrittenAt)
		var snapshots []*Snapshot
		var entries []map[string][]string
		for _, s := range truth.Snapshots {
			snapshot, err := Open(t.Context(), fsys, "file:"+filepath.ToSlash(filepath.Join(dir, s.Dir)))
			if err != nil {
				t.Fatal(err)
			}
			snapshots = append(snapshots, snapshot)
			entries = append(entries, entriesByName(t, fsys, snapshot))
		}
		for i := 1; i < len(snapshots); i++ {
			var added, removed, changed int64
			for k, old := range entries[i-1] {
				now := entries[i][k]
				removed += max(0, int64(len(old)-len(now)))
				if len(now) == 1 && len(old) == 1 && now[0] != old[0] {
					changed++
				}
			}
			for k, now := range entries[i] {
				added += max(0, int64(len(now)-len(entries[i-1][k])))
			}
			for _, budget := range []int{0, 40} {
				var got StateChange
				shown := int64(0)
				r, err := DiffState(t.Context(), fsys, snapshots[i-1], snapshots[i], DiffStateOptions{Limit: -1, Jobs: 2, budget: budget}, func(*Difference) error {
					shown++
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for j := range r.States {
					got.add(&r.States[j])
				}
				if got.Added != added || got.Removed != removed || got.Changed != changed || shown != added+removed+changed || r.Different != (shown > 0) {
					t.Errorf("%s, %d: got %d added, %d removed, %d changed, %d shown; want %d, %d, %d", name, i, got.Added, got.Removed, got.Changed, shown, added, removed, changed)
				}
				if shown == 0 {
					t.Errorf("%s, %d: nothing differs", name, i)
				}
			}
		}
	}
}

// TestDiffStateAcrossShapes compares savepoints of one job with other numbers
// of key groups and subtasks, by other releases and backends: the truth files
// have the same entries for all, but for times of last access.
func TestDiffStateAcrossShapes(t *testing.T) {
	root := sharedFixtures(t)
	open := func(name string) *Snapshot {
		dirs, err := filepath.Glob(filepath.Join(root, "flink", filepath.FromSlash(name), "savepoint-*", MetadataName))
		if err != nil || len(dirs) != 1 {
			t.Fatal(name, dirs, err)
		}
		_, s := openLocal(t, filepath.ToSlash(filepath.Dir(dirs[0])))
		return s
	}
	local := storage.NewLocal(storage.LocalOptions{})
	for _, pair := range [][2]string{
		{"1.20.5/sp-canonical-rocksdb", "1.20.5/sp-maxp300"},
		{"1.20.5/sp-maxp300", "1.20.5/sp-maxp7"},
		{"1.20.5/sp-maxp7", "2.3.0/sp-canonical-rocksdb"},
		{"2.3.0/sp-p1", "2.3.0/sp-p3"},
		{"1.20.5/sp-native-hashmap", "2.3.0/sp-canonical-rocksdb-compressed"},
	} {
		a, b := open(pair[0]), open(pair[1])
		for i := range a.Operators {
			o := &a.Operators[i]
			if o.ID == metadata.UIDHash("flip27") {
				continue // one split for each subtask
			}
			r, err := DiffState(t.Context(), local, a, b, DiffStateOptions{Selection: Selection{Operators: []string{o.ID.String()}}, IgnoreTTL: true, Limit: 2}, func(x *Difference) error {
				t.Errorf("%s: %+v", pair, x)
				return nil
			})
			if err != nil || r.Different || len(r.OldProblems)+len(r.NewProblems) > 0 {
				t.Errorf("%s: %+v, %v", pair, r, err)
			}
		}
	}
}
