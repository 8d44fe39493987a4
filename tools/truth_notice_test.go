package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/storage"
)

// TestTruthNotices changes truth files in one place at a time, and demands that
// the comparison with an unchanged snapshot fails: entry by entry that is
// missing, is there too much, or has another value, in states of every kind.
func TestTruthNotices(t *testing.T) {
	root := sharedFixtures(t)
	kinds := map[string]int{}
	for _, c := range []struct {
		dir      string
		shownTTL bool
	}{
		{"flink/1.20.5/sp-types-rocksdb", false},
		{"flink/2.3.0/sp-canonical-hashmap", false},
		{"flink/2.3.0/sp-native-rocksdb-files", false},
		{"extra/2.3.0/ck-raw-p1", false},
		{"sql/2.3.0/sql-group-ttl", true},
		{"sql/1.20.5/sql-match", true},
		{"sql/1.20.5/ex-avro", true},
	} {
		dir := filepath.Join(root, filepath.FromSlash(c.dir))
		var truth truthFile
		readTruth(t, filepath.Join(dir, "truth.json"), &truth)
		s := truth.Snapshots[0]
		got, err := readContent(t.Context(), newFixtureFS(dir, truth.WrittenAt), storage.Join("file:"+filepath.ToSlash(dir), s.Dir))
		if err != nil {
			t.Fatal(err)
		}
		for operator, o := range s.Operators {
			for name, state := range o.States {
				for what, changed := range changedStates(state) {
					kinds[state.Kind+" "+what]++
					o := o
					o.States = maps.Clone(o.States)
					o.States[name] = changed
					operators := maps.Clone(s.Operators)
					operators[operator] = o
					cmp := newComparer(c.shownTTL, false)
					if cmp.compare(operators, got); len(cmp.diffs) == 0 {
						t.Errorf("%s: %s/%s: %s is not noticed", c.dir, operator, name, what)
					}
				}
			}
		}
	}
	for _, kind := range []string{"value", "list", "map", "reducing", "aggregating", "timers", "operator-list", "operator-union", "operator-broadcast", "raw-keyed", "raw-operator", "coordinator"} {
		if kinds[kind+" another value"] == 0 {
			t.Errorf("no state of kind %s was changed", kind)
		}
	}
	t.Logf("changes noticed: %v", kinds)
}

// changedStates are variants of a state that are wrong.
func changedStates(s truthState) map[string]truthState {
	out := map[string]truthState{}
	keys := slices.Sorted(maps.Keys(s.Entries))
	with := func(what string, change func(entries map[string]any)) {
		c := s
		c.Entries = maps.Clone(s.Entries)
		change(c.Entries)
		out[what] = c
	}
	if len(keys) == 0 {
		return nil
	}
	first := keys[0]
	if first != "" {
		with("a missing entry", func(m map[string]any) { delete(m, first) })
		with("one more entry", func(m map[string]any) { m["no such key@0..1"] = m[first] })
	}
	if strings.HasPrefix(s.ValueType, "GenericType<") {
		return out // compared by class only
	}
	with("another value", func(m map[string]any) { m[first] = changedValue(m[first]) })
	if group, ok := s.KeyGroups[first]; ok {
		c := s
		c.KeyGroups = maps.Clone(s.KeyGroups)
		c.KeyGroups[first] = group + 1
		out["another key group"] = c
	}
	return out
}

// changedValue is a value of the same type that differs in its last part.
func changedValue(v any) any {
	switch v := v.(type) {
	case nil:
		return json.Number("1")
	case bool:
		return !v
	case json.Number:
		return v + "1"
	case string:
		return changedText(v)
	case []any:
		if len(v) == 0 {
			return []any{json.Number("1")}
		}
		c := slices.Clone(v)
		c[len(c)-1] = changedValue(c[len(c)-1])
		return c
	case map[string]any:
		c := maps.Clone(v)
		keys := slices.Sorted(maps.Keys(c))
		if len(keys) == 0 {
			return map[string]any{"a": nil}
		}
		last := keys[len(keys)-1]
		c[last] = changedValue(c[last])
		return c
	}
	panic(fmt.Sprintf("%T in JSON", v))
}

// changedText changes a text, or the last number or text in one that is JSON.
func changedText(s string) string {
	if i := strings.LastIndexAny(s, "0123456789"); i >= 0 {
		return s[:i] + string('0'+(s[i]-'0'+1)%10) + s[i+1:]
	}
	return s + "x"
}
