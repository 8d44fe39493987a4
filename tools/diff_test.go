package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

func compared(t testing.TB, fsys storage.FS, old, new string) *DiffReport {
	t.Helper()
	r, err := Diff(t.Context(), fsys, old, new)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestD28WhichOperatorIsThis(t *testing.T) {
	fsys := storage.NewMemory()
	orphan := operatorOf("orphan", 1, 128, true)
	clear(orphan.Subtasks[0].State.ManagedKeyed.(*metadata.KeyGroups).Offsets)
	ops := func(third string) []metadata.Operator {
		list := []metadata.Operator{operatorOf("source", 2, 128, false), operatorOf("agg", 2, 128, true), operatorOf("x", 2, 128, false), operatorOf("sink", 2, 128, false), orphan}
		list[2].ID = metadata.UIDHash(third)
		return list
	}
	old, now := emptySnapshot(metadata.Version4, 1), emptySnapshot(metadata.Version4, 1)
	old.Operators, now.Operators = ops("third"), ops("third-renamed")
	putMetadata(t, fsys, "s3://b/old", old)
	putMetadata(t, fsys, "s3://b/new", now)

	var candidates []string
	for i := range 15 {
		candidates = append(candidates, fmt.Sprint("candidate-", i))
	}
	candidates = append(candidates, "sink", "third", "agg", "source", "third-renamed")
	r := inspected(t, fsys, "s3://b/old", InspectOptions{UIDs: candidates})
	var matched []string
	for _, o := range r.Operators {
		matched = append(matched, o.MatchedUID)
	}
	if got := strings.Join(matched, ","); got != "source,agg,third,sink," {
		t.Errorf("matched %s", got)
	}
	if len(r.UnmatchedUIDs) != 16 {
		t.Errorf("unmatched: %v", r.UnmatchedUIDs)
	}
	if o := r.Operators[4]; o.Content != ContentEmpty {
		t.Errorf("the orphan: %+v", o)
	}
	if o := r.Operators[0]; o.Content != ContentState || len(o.States) != 1 || o.States[0].Name != "list-source" || o.States[0].Elements != 2 || o.InlineBytes != 14 {
		t.Errorf("the source: %+v", o)
	}

	d := compared(t, fsys, "s3://b/old", "s3://b/new")
	if !d.Different || len(d.Added) != 1 || len(d.Removed) != 1 || len(d.Changed) != 0 || d.Same != 4 {
		t.Fatalf("got %+v", d)
	}
	if len(d.Renames) != 1 || d.Renames[0].Old != metadata.UIDHash("third") || d.Renames[0].New != metadata.UIDHash("third-renamed") || d.Renames[0].Ambiguous {
		t.Errorf("got %+v", d.Renames)
	}
	wantWords(t, d.Renames[0].Why, "same states", `"list-x"`, "parallelism")
}

func TestDiff(t *testing.T) {
	fsys := storage.NewMemory()
	same := emptySnapshot(metadata.Version4, 3)
	same.Operators = []metadata.Operator{operatorOf("a", 2, 128, true)}
	putMetadata(t, fsys, "s3://b/one", same)
	putMetadata(t, fsys, "s3://b/two", same)
	if d := compared(t, fsys, "s3://b/one", "s3://b/two"); d.Different || d.Same != 1 {
		t.Errorf("a copy differs: %+v", d)
	}

	changed := emptySnapshot(metadata.Version6, 4)
	changed.Operators = []metadata.Operator{operatorOf("a", 4, 256, true)}
	putMetadata(t, fsys, "s3://b/three", changed)
	d := compared(t, fsys, "s3://b/one", "s3://b/three")
	var fields []string
	for _, f := range d.Fields {
		fields = append(fields, f.Field+" "+f.Old+" "+f.New)
	}
	for _, f := range d.Changed[0].Changes {
		fields = append(fields, f.Field+" "+f.Old+" "+f.New)
	}
	wantWords(t, strings.Join(fields, "\n"), "version 4 6", "checkpoint id 3 4", "parallelism 2 4", "max parallelism 128 256", "subtasks 2 4")

	// Only the bytes of inline state differ.
	other := emptySnapshot(metadata.Version4, 3)
	other.Operators = []metadata.Operator{operatorOf("a", 2, 128, true)}
	other.Operators[0].Subtasks[1].State.ManagedKeyed.(*metadata.KeyGroups).Delegate.(*metadata.ByteStream).Data[9] = 1
	putMetadata(t, fsys, "s3://b/four", other)
	d = compared(t, fsys, "s3://b/one", "s3://b/four")
	if len(d.Changed) != 1 || len(d.Changed[0].Changes) != 1 || !strings.HasPrefix(d.Changed[0].Changes[0].Field, "inline data") {
		t.Errorf("got %+v", d.Changed)
	}
}

func TestDiffFiles(t *testing.T) {
	fsys := storage.NewMemory()
	snapshot := func(names ...string) *metadata.Snapshot {
		var shared []metadata.Stream
		for _, n := range names {
			shared = append(shared, file(t, n, 10))
		}
		s := emptySnapshot(metadata.Version4, 3)
		s.Operators = []metadata.Operator{operator("a", &metadata.SubtaskState{ManagedKeyed: incrementalHandle(inline("m", 2), shared, nil)})}
		return s
	}
	putMetadata(t, fsys, "s3://b/one", snapshot("s3://b/x/f1", "s3a://b/x/f2", "s3://b/x/f3"))
	putMetadata(t, fsys, "s3://b/two", snapshot("s3://b/x/f2", "s3://b/y/f3", "s3://b/x/f4"))
	d := compared(t, fsys, "s3://b/one", "s3://b/two")
	for _, c := range []struct {
		name, want string
		set        FileSet
	}{
		{"removed", "s3://b/x/f1", d.RemovedFiles}, {"added", "s3://b/x/f4", d.AddedFiles},
		{"common", "s3://b/x/f2", d.CommonFiles}, {"moved", "s3://b/y/f3", d.MovedFiles},
	} {
		if c.set.Count != 1 || c.set.Bytes != 10 || c.set.Files[0] != c.want {
			t.Errorf("%s: got %+v", c.name, c.set)
		}
	}

	// A relocated copy is no other snapshot.
	putMetadata(t, fsys, "s3://c/copy", snapshot("s3://c/f1", "s3://c/f2", "s3://c/f3"))
	if d := compared(t, fsys, "s3://b/one", "s3://c/copy"); d.Different || d.MovedFiles.Count != 3 {
		t.Errorf("got %+v", d)
	}
}

func dumped(t testing.TB, fsys storage.FS, arg string, o DumpOptions) map[string]any {
	t.Helper()
	var b bytes.Buffer
	if _, err := DumpRaw(t.Context(), fsys, arg, &b, o); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v", arg, err)
	}
	return v
}

func TestDumpRaw(t *testing.T) {
	fsys := storage.NewMemory()
	s := emptySnapshot(metadata.Version6, 3)
	op := operator("a", &metadata.SubtaskState{ManagedOperator: operatorState([]string{"n"}, inline("x", 5))})
	op.Name, op.UID = text(t, "😀"), "plain\xc0\x80nul"
	s.Operators = []metadata.Operator{op}
	putMetadata(t, fsys, "s3://b/sp", s)
	o := dumped(t, fsys, "s3://b/sp", DumpOptions{InlineLimit: 2})["operators"].([]any)[0].(map[string]any)
	if o["name"] != "😀" || o["nameRawHex"] != "eda0bdedb880" {
		t.Errorf("name: %v, %v", o["name"], o["nameRawHex"])
	}
	if o["uid"] != "plain\x00nul" || o["uidRawHex"] != "706c61696ec0806e756c" {
		t.Errorf("uid: %q, %v", o["uid"], o["uidRawHex"])
	}
	state := o["subtasks"].([]any)[0].(map[string]any)["managedOperator"].([]any)[0].(map[string]any)
	delegate := state["delegate"].(map[string]any)
	if delegate["nameRawHex"] != nil {
		t.Errorf("plain text has raw bytes: %v", delegate)
	}
	data := delegate["data"].(map[string]any)
	if data["length"] != 5.0 || data["hex"] != "0000" || data["cut"] != true || len(data["sha256"].(string)) != 64 {
		t.Errorf("data: %v", data)
	}
}
