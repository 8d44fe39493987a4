package tools

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/rewrite"
	"github.com/drey-state/drey/storage"
)

// executed plans and executes in memory, and opens what was written.
func executed(t *testing.T, fsys storage.FS, s *Snapshot, o RewriteOptions) (storage.FS, *Snapshot, *RewriteResult) {
	t.Helper()
	memory := storage.NewMemory()
	o.Target = memory
	p, err := PlanRewrite(t.Context(), fsys, s.URI, "mem://b/new", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range p.Problems {
		t.Fatal(pr)
	}
	r, err := p.Execute(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), memory, "mem://b/new")
	if err != nil {
		t.Fatal(err)
	}
	return memory, n, r
}

// TestEditKafka sets and shifts offsets of KafkaSource in every version of its enumerator's state, all else staying as it is.
func TestEditKafka(t *testing.T) {
	for _, dir := range kafkaSavepoints(t) {
		fsys, s := openLocal(t, filepath.ToSlash(dir))
		before, _, err := KafkaOffsets(t.Context(), fsys, s, EntryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		source := before[0].Operator.String()
		edits := []Edit{
			{Operator: source, Kafka: &KafkaSetting{Topic: "topic", Shift: -3}},
			{Operator: source, Kafka: &KafkaSetting{Topic: "topic", Partition: new(int32(4)), Offset: new(int64(100))}},
		}
		newFS, n, r := executed(t, fsys, s, RewriteOptions{Edits: edits})
		if r.Edits[0].Matches != 10 || r.Edits[1].Matches != 1 {
			t.Errorf("%s: %+v", dir, r.Edits)
		}
		after, _, err := KafkaOffsets(t.Context(), newFS, n, EntryOptions{})
		if err != nil || len(after) != len(before) {
			t.Fatalf("%s: %d positions became %d, %v", dir, len(before), len(after), err)
		}
		for _, k := range after {
			want := int64(7)
			if k.Partition == 4 {
				want = 100
			}
			if k.Part == "reader" && (k.Next == nil || *k.Next != want) {
				t.Errorf("%s: partition %d: %+v", dir, k.Partition, k.Next)
			}
		}
		_, err = DiffState(t.Context(), storage.Mux{"file": fsys, "mem": newFS}, s, n, DiffStateOptions{}, func(d *Difference) error {
			if d.State != stateSourceReader {
				t.Errorf("%s: state %q changed, too", dir, d.State)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, e := range map[string]Edit{
			"no position in such a partition": {Operator: source, Kafka: &KafkaSetting{Topic: "another", Shift: 1}},
			"must be set":                     {Operator: source, Kafka: &KafkaSetting{Topic: "topic"}},
			"can't be shifted by -11":         {Operator: source, Kafka: &KafkaSetting{Topic: "topic", Shift: -11}}, // before offset 0 is nothing
			"does not restore":                {Operator: source, Kafka: &KafkaSetting{Topic: "topic", Special: "latest"}},
			"earliest, latest or committed":   {Operator: source, Kafka: &KafkaSetting{Topic: "topic", Special: "soon"}},
		} {
			if _, err := PlanRewrite(t.Context(), fsys, s.URI, "mem://b/new", RewriteOptions{Target: storage.NewMemory(), Edits: []Edit{e}}); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("got %v, want %q", err, what)
			}
		}
	}
}

// TestEditBroadcast sets the value of a key of a broadcast map in all subtasks.
func TestEditBroadcast(t *testing.T) {
	fsys, s := openLocal(t, absolute(t, "drey/testdata/snapshots/2.3.0/sp-canonical-hashmap-files/savepoint-508158-79ffa70569a0"))
	values := func(fsys storage.FS, s *Snapshot) (list []string) {
		for e, err := range Entries(t.Context(), fsys, s, EntryOptions{Selection: Selection{States: []string{"op-broadcast"}}}) {
			if err != nil {
				t.Fatal(err)
			}
			key, _ := e.Element.AppendKeyJSON(nil)
			value, _ := e.Element.AppendValueJSON(nil)
			list = append(list, string(key)+"="+string(value))
		}
		slices.Sort(list)
		return list
	}
	before := values(fsys, s)
	key, value, _ := strings.Cut(before[0], "=")
	set := &ValueSetting{State: "op-broadcast", Key: json.RawMessage(key), Value: json.RawMessage(value)}
	_, _, r := executed(t, fsys, s, RewriteOptions{Edits: []Edit{{Operator: "opstate", Set: set}}})
	if r.Edits[0].Matches != 1 {
		t.Errorf("%+v", r.Edits)
	}
	set.Value = json.RawMessage(strings.Replace(value, `"`, `"set `, 1))
	if string(set.Value) == value {
		set.Value = json.RawMessage("4711")
	}
	newFS, n, _ := executed(t, fsys, s, RewriteOptions{Edits: []Edit{{Operator: "opstate", Set: set}}, Options: rewrite.Options{Format: rewrite.NativeRocksDB}})
	after := values(newFS, n)
	changed := 0
	for _, line := range after {
		switch {
		case line == key+"="+string(set.Value):
			changed++
		case !slices.Contains(before, line) || strings.HasPrefix(line, key+"="):
			t.Errorf("%s", line)
		}
	}
	if len(after) != len(before) || changed != 2 { // there are two subtasks
		t.Errorf("%d entries became %d, %d changed", len(before), len(after), changed)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(abs)
}
