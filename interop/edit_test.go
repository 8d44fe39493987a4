package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/rewrite"
)

// edited is what an edit makes of what the truth says of an operator's states: entries by key, or by key@namespace, of each state.
type edited func(operators map[string]any, states func(uid string) map[string]map[string]any)

// editCase is a kind of edit, with what it does to the truth.
type editCase struct {
	name  string
	flags [][]string // of one run after the other
	truth edited
}

// nouid is the generated ID of the operator without uid.
const nouid = "a03e8ec529dde398e0cf6f933073f988"

// editCases are the kinds of edits that a job of the fixtures can show. Offsets of Kafka are compared by the tests of package tools: restoring
// them needs a connector, and Kafka.
var editCases = []editCase{
	{
		"drop an operator", [][]string{{"--drop-operator", "kv-pojo", "--drop-operator", nouid}},
		func(operators map[string]any, _ func(string) map[string]map[string]any) {
			delete(operators, "kv-pojo")
			delete(operators, "nouid")
		},
	},
	{
		"drop states", [][]string{{"--drop-state", "kv-string/ttl-*", "--drop-state", "kv-string/avg"}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			clear(states("kv-string")["ttl-value"])
			clear(states("kv-string")["ttl-map"])
			clear(states("kv-string")["avg"])
		},
	},
	{
		"keep states", [][]string{{"--keep-state", "kv-tuple/last"}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			clear(states("kv-tuple")["bykind"])
		},
	},
	{
		"drop entries of keys", [][]string{{"--drop-entries", "kv-string/*", "--key", `"key-01"`, "--key", `"key-07"`}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			for _, entries := range states("kv-string") {
				delete(entries, "key-01")
				delete(entries, "key-07")
			}
		},
	},
	{
		"drop entries of a namespace, and their timers", [][]string{{"--drop-entries", "kv-int/*", "--namespace", `"ns-a"`}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			for _, entries := range states("kv-int") {
				for at := range entries {
					if strings.HasSuffix(at, "@ns-a") {
						delete(entries, at)
					}
				}
			}
		},
	},
	{
		"drop entries by a condition", [][]string{{"--drop-entries", "kv-string/sum", "--where", "value >= 600"}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			entries := states("kv-string")["sum"]
			for key, v := range entries {
				if n, err := v.(json.Number).Int64(); err == nil && n >= 600 {
					delete(entries, key)
				}
			}
		},
	},
	{
		"drop what has expired", [][]string{{"--drop-entries", "kv-string/ttl-*", "--expired-after", "1h"}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			clear(states("kv-string")["ttl-value"])
			clear(states("kv-string")["ttl-map"])
		},
	},
	{
		"set values", [][]string{{
			"--edit", `{"operator":"kv-string","set":{"state":"count","key":"key-02","value":4711}}`,
			"--edit", `{"operator":"kv-string","set":{"state":"label","key":"key-03","value":"set, \u00e4 and \u20ac"}}`,
			"--edit", `{"operator":"kv-string","set":{"state":"bykind","key":"key-04","userKey":"kind-0","value":-1}}`,
			"--edit", `{"operator":"kv-string","set":{"state":"events","key":"key-05","value":[1,2,3]}}`,
			"--edit", `{"operator":"kv-int","set":{"state":"ns-value","key":-1,"namespace":"ns-b","value":99}}`,
		}, {
			// A key that was dropped comes back.
			"--drop-entries", "kv-string/sum", "--key", `"key-06"`,
		}, {"--edit", `{"operator":"kv-string","set":{"state":"sum","key":"key-06","value":6}}`}},
		func(_ map[string]any, states func(string) map[string]map[string]any) {
			s := states("kv-string")
			s["count"]["key-02"], s["label"]["key-03"], s["sum"]["key-06"] = 4711, "set, ä and €", 6
			s["bykind"]["key-04"].(map[string]any)["kind-0"] = -1
			s["events"]["key-05"] = []int{1, 2, 3}
			states("kv-int")["ns-value"]["-1@ns-b"] = 99
		},
	},
	{
		// The job looks for them under their old names: what is renamed twice is there.
		"rename an operator and a state, and back",
		[][]string{
			{"--rename-operator", "kv-int=lost", "--rename-operator", "win=b7e6c0f2d1a84395867f0e1d2c3b4a59", "--rename-state", "kv-long/last=first"},
			{"--rename-operator", "lost=kv-int", "--rename-operator", "b7e6c0f2d1a84395867f0e1d2c3b4a59=win", "--rename-state", "kv-long/first=last"},
		},
		func(map[string]any, func(string) map[string]map[string]any) {},
	},
}

// TestEdit edits savepoints of real Flink, and lets it restore the result: every state is what the truth says after the same edit.
func TestEdit(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Parallel()
			c := &converter{t: t, v: v, dir: t.TempDir(), src: map[string]*conversion{}}
			for i, e := range editCases {
				for j, source := range []struct {
					name, backend string
					flags         []string
				}{
					{"sp-canonical-hashmap-files", "rocksdb", nil},
					{"sp-canonical-hashmap-files", "rocksdb", []string{"--format", "native-rocksdb"}},
					{"sp-native-hashmap-files", "hashmap", nil},
				} {
					if (i+j)%3 != 2 { // two of the three for each kind
						c.edit(e, conversionSource{e.name, fmt.Sprintf("flink/%s/%s", v, source.name)}, source.backend, source.flags)
					}
				}
			}
			c.verify()
			t.Logf("edited, and restored by Flink %s:\n%s", v, changesTable(c.done))
		})
	}
}

// edit runs the command, and writes the truth of its result.
func (c *converter) edit(e editCase, s conversionSource, backend string, format []string) {
	c.t.Helper()
	n := *c.place(s)
	var truth map[string]any
	decode(c.t, read(c.t, n.Truth), &truth)
	list, _ := truth["snapshots"].([]any)
	last, _ := list[len(list)-1].(map[string]any)
	operators, _ := last["operators"].(map[string]any)
	parts := map[string]bool{}
	for uid := range operators {
		parts[uid] = true
	}
	e.truth(operators, func(uid string) map[string]map[string]any {
		op, _ := operators[uid].(map[string]any)
		states, _ := op["states"].(map[string]any)
		all := map[string]map[string]any{}
		for name, state := range states {
			all[name], _ = state.(map[string]any)["entries"].(map[string]any)
		}
		if len(all) == 0 {
			c.t.Fatalf("%s: no states of %s", n.Truth, uid)
		}
		return all
	})
	var kept []any
	all, _ := truth["parts"].([]any)
	for _, p := range all {
		if uid := fmt.Sprint(p); !parts[uid] || operators[uid] != nil {
			kept = append(kept, p)
		}
	}
	truth["parts"] = kept
	data, err := json.Marshal(truth)
	if err != nil {
		c.t.Fatal(err)
	}
	number := len(c.done)
	n.Truth = filepath.Join(c.dir, fmt.Sprintf("truth-%d.json", number))
	write(c.t, n.Truth, data)
	for i, flags := range e.flags {
		to := filepath.Join(c.dir, fmt.Sprintf("edited-%d-%d", number, i))
		drey(c.t, nil, slices.Concat([]string{"edit"}, format, flags, []string{n.at, to})...)
		n.at = to
	}
	n.source, n.target.backend = s, backend
	if format != nil {
		n.target.format = rewrite.NativeRocksDB
	}
	n.args = []string{"--backend", backend, "--conf", "state.changelog.enabled=false", "--shared"}
	c.done = append(c.done, &n)
}
