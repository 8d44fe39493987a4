package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// movedFS finds files by the paths that they were written at.
type movedFS struct {
	storage.FS
	from, to string
}

func (m movedFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	if _, _, path := storage.Split(uri); strings.HasPrefix(path, m.from) {
		rest := path[len(m.from):]
		uri = m.to + rest
	}
	return m.FS.Open(ctx, uri)
}

// changelogTruth is the part of truth.json that these tests read.
type changelogTruth struct {
	WrittenAt string
	Snapshots []struct {
		Dir       string
		Operators map[string]struct {
			OperatorID string
			States     map[string]struct {
				Kind    string
				Entries map[string]json.RawMessage
			}
		}
	}
}

// TestChangelogTruth compares what is there after the changes with what the
// job held, for every snapshot of a changelog backend.
func TestChangelogTruth(t *testing.T) {
	root := filepath.Join(sharedFixtures(t), "flink")
	cases, err := filepath.Glob(filepath.Join(root, "*", "ck-changelog-*"))
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	snapshots, states, entries, materialized := 0, 0, 0, 0
	for _, dir := range cases {
		data, err := os.ReadFile(filepath.Join(dir, "truth.json"))
		if err != nil {
			t.Fatal(err)
		}
		var truth changelogTruth
		if err := json.Unmarshal(data, &truth); err != nil {
			t.Fatal(err)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		fsys := movedFS{storage.NewLocal(storage.LocalOptions{}), truth.WrittenAt, abs}
		for _, s := range truth.Snapshots {
			name := filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir), filepath.Base(s.Dir))
			data, err := os.ReadFile(filepath.Join(abs, s.Dir, "_metadata"))
			if err != nil {
				t.Fatal(err)
			}
			meta, err := metadata.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			snapshots++
			for opName, op := range s.Operators {
				i := slices.IndexFunc(meta.Operators, func(o metadata.Operator) bool { return o.ID.String() == op.OperatorID })
				if i < 0 {
					t.Fatalf("%s: no operator %s", name, opName)
				}
				got := map[string]map[string][]string{}
				for _, sub := range meta.Operators[i].Subtasks {
					h, ok := sub.State.ManagedKeyed.(*metadata.Changelog)
					if !ok {
						continue
					}
					materialized += len(h.Base)
					files := Files{fsys, filepath.Join(abs, s.Dir)}
					collect(t, name, files, h, int(meta.Operators[i].MaxParallelism), got)
				}
				for state, want := range op.States {
					if len(got) == 0 {
						continue // operator state
					}
					states++
					for key, raw := range want.Entries {
						w := wanted(t, want.Kind, raw)
						entries += len(w)
						if g := got[state][key]; !slices.Equal(g, w) {
							t.Errorf("%s: %s: key %s: got %v, want %v", name, state, key, g, w)
						}
					}
					if len(got[state]) != len(want.Entries) {
						t.Errorf("%s: %s: %d keys, want %d", name, state, len(got[state]), len(want.Entries))
					}
				}
			}
		}
	}
	t.Logf("%d snapshots, %d states, %d entries; %d materialized handles", snapshots, states, entries, materialized)
	if snapshots < 16 || states < 80 || materialized < 4 {
		t.Error("fewer than there should be")
	}
}

// collect gathers the entries of one handle as text, sorted for each key.
func collect(t *testing.T, name string, files Files, h metadata.Keyed, maxParallelism int, into map[string]map[string][]string) {
	t.Helper()
	r, err := OpenKeyed(context.Background(), files, h, Options{MaxParallelism: maxParallelism})
	if err != nil {
		t.Fatal(name, err)
	}
	defer r.Close()
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		key, err := e.DecodeKey()
		if err != nil {
			t.Error(name, err)
		}
		value, err := e.DecodeValue()
		if err != nil {
			t.Error(name, err)
		}
		user, err := e.DecodeUserKey()
		if err != nil {
			t.Error(name, err)
		}
		if hash := keygroup.LongHash(key.(int64)); keygroup.ForHash(hash, maxParallelism) != e.KeyGroup {
			t.Errorf("%s: key %v in key group %d", name, key, e.KeyGroup)
		}
		var texts []string
		switch e.State.Type {
		case TypeTimers:
			texts = []string{fmt.Sprint(e.Timestamp)}
		case TypeList:
			for _, v := range value.([]any) {
				texts = append(texts, serializer.Text(v))
			}
		case TypeMap:
			texts = []string{serializer.Text(user) + "=" + serializer.Text(value)}
		default:
			texts = []string{serializer.Text(value)}
		}
		state := e.State.Meta.Name
		if into[state] == nil {
			into[state] = map[string][]string{}
		}
		k := serializer.Text(key)
		into[state][k] = append(into[state][k], texts...)
		if e.State.Type != TypeList {
			slices.Sort(into[state][k])
		}
	}
	for _, s := range r.States() {
		if into[s.Meta.Name] == nil {
			into[s.Meta.Name] = map[string][]string{}
		}
	}
}

// wanted is an entry of the truth as collect has it.
func wanted(t *testing.T, kind string, raw json.RawMessage) []string {
	t.Helper()
	switch kind {
	case "map":
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, k+"="+string(m[k]))
		}
		return out
	case "list", "timers":
		var l []json.RawMessage
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range l {
			out = append(out, string(v))
		}
		return out
	}
	return []string{string(raw)}
}
