package tools

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drey-state/drey/metadata"
)

// TestRenames changes the ids of two operators of one snapshot: their states tell which is which.
func TestRenames(t *testing.T) {
	before, after := canonicalSavepoint(t), canonicalSavepoint(t)
	local, a := openLocal(t, before)
	changed := map[metadata.OperatorID]metadata.OperatorID{
		metadata.UIDHash("kv-string"): metadata.UIDHash("kv-string-2"),
		metadata.UIDHash("kv-long"):   metadata.UIDHash("kv-long-2"),
		metadata.UIDHash("opstate"):   metadata.UIDHash("opstate-2"),
	}
	_, b := openLocal(t, after)
	for i := range b.Operators {
		if id, ok := changed[b.Operators[i].ID]; ok {
			b.Operators[i].ID = id
		}
	}
	data, err := metadata.Encode(b.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(after, MetadataName), data, 0o666); err != nil {
		t.Fatal(err)
	}
	_, b = openLocal(t, after)
	list, err := Renames(t.Context(), local, a, b, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[metadata.OperatorID]metadata.OperatorID{}
	for _, r := range list {
		got[r.Old] = r.New
		if r.Ambiguous {
			t.Errorf("ambiguous: %+v", r)
		}
	}
	if len(list) != len(changed) {
		t.Errorf("got %+v", list)
	}
	for old, now := range changed {
		if got[old] != now {
			t.Errorf("%s became %s, got %s", old, now, got[old])
		}
	}
}

// TestInspectStates demands what the program that wrote the snapshot had.
func TestInspectStates(t *testing.T) {
	local, _ := openLocal(t, canonicalSavepoint(t))
	r, err := Inspect(t.Context(), local, "file:"+canonicalSavepoint(t), InspectOptions{States: true, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 {
		t.Error(r.Problems)
	}
	var got []StateHeader
	for _, o := range r.Operators {
		if o.ID == metadata.UIDHash("kv-string") {
			got = o.Headers
		}
	}
	for _, want := range []StateHeader{
		{Name: "ttl-map", Type: "MAP", Key: "String", Namespace: "VoidNamespace", Value: "Map<String, TTL<Long>>", Subtasks: 2},
		{Name: "profile", Type: "VALUE", Key: "String", Namespace: "VoidNamespace", Value: "lab.Jobs$Profile", Subtasks: 2},
		{Name: "avg", Type: "AGGREGATING", Key: "String", Namespace: "VoidNamespace", Value: "Tuple2<Long, Long>", Subtasks: 2},
	} {
		if !slices.ContainsFunc(got, func(h StateHeader) bool { return h.signature() == want.signature() && h.Subtasks == want.Subtasks }) {
			t.Errorf("no %+v in %+v", want, got)
		}
	}
}

// TestBlockers looks at states of old releases.
func TestBlockers(t *testing.T) {
	root := sharedFixtures(t)
	fsys, s := openLocal(t, filepath.ToSlash(filepath.Join(root, "public", "flink-tests", "1.4", "new-stateful-udf-migration-itcase-flink1.4-savepoint")))
	r, err := Inspect(t.Context(), fsys, s.URI, InspectOptions{States: true})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, o := range r.Operators {
		for _, h := range o.Headers {
			if !h.Raw && len(h.Blockers) == 0 {
				t.Errorf("%s: %+v", o.ID, h)
			}
			n++
		}
	}
	if n < 5 {
		t.Errorf("%d states", n)
	}
}
