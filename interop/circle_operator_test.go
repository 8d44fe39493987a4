package interop

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// operatorPart is a circlePart with operator state.
type operatorPart struct {
	split []string
	union []int64
	rules map[string]int64
}

func (p *operatorPart) write(t *testing.T, c *circle, parallelism int) metadata.Operator {
	t.Helper()
	op := metadata.Operator{ID: metadata.UIDHash("go-op"), Parallelism: int32(parallelism), MaxParallelism: int32(c.max)}
	p.rules = map[string]int64{}
	for i := range c.random.IntN(40) {
		p.rules[fmt.Sprint("rule ", i)] = c.random.Int64()
	}
	for i := range parallelism {
		o := backend.NewOperator()
		split, union, rules, err := openOperatorStates(o)
		if err != nil {
			t.Fatal(err)
		}
		for range c.random.IntN(40) {
			p.split = append(p.split, fmt.Sprint("é ", len(p.split)))
			split.Add(p.split[len(p.split)-1])
		}
		for range c.random.IntN(40) {
			p.union = append(p.union, int64(len(p.union))<<32-5)
			union.Add(p.union[len(p.union)-1])
		}
		for k, v := range p.rules {
			rules.Put(k, v)
		}
		view, err := o.Snapshot(c.o.Compress)
		if err != nil {
			t.Fatal(err)
		}
		h, err := view.Write(t.Context(), c.target())
		if err != nil {
			t.Fatal(err)
		}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: &metadata.SubtaskState{ManagedOperator: []*metadata.OperatorState{h}}})
	}
	return op
}

func openOperatorStates(o *backend.Operator) (*backend.OperatorList[string], *backend.OperatorList[int64], *backend.Broadcast[string, int64], error) {
	split, err1 := backend.OpenOperatorList(o, "split", serializer.ForString(), false)
	union, err2 := backend.OpenOperatorList(o, "union", serializer.ForLong(), true)
	rules, err3 := backend.OpenBroadcast(o, "rules", serializer.ForString(), serializer.ForLong())
	return split, union, rules, errors.Join(err1, err2, err3)
}

func (p *operatorPart) shown() map[string]map[string]any {
	return shownOperator(p.split, p.union, p.rules)
}

func shownOperator(split []string, union []int64, rules map[string]int64) map[string]map[string]any {
	all := map[string]map[string]any{"split": {}, "union": {}, "rules": {}}
	for _, s := range split {
		all["split"][s] = "there"
	}
	for _, v := range union {
		all["union"][fmt.Sprint(v)] = "there"
	}
	for k, v := range rules {
		all["rules"][k] = show(v)
	}
	return all
}

// seen checks how Flink shared the state out to its subtasks.
func (p *operatorPart) seen(t *testing.T, got map[string]map[string]any) map[string]map[string]any {
	t.Helper()
	subtasks := len(got["split"])
	all := map[string]map[string]any{"split": {}, "union": {}, "rules": {}}
	for i := range subtasks {
		subtask := fmt.Sprint(i)
		for _, name := range []string{"split", "union"} {
			list, _ := got[name][subtask].([]any)
			seen := map[string]any{}
			for _, e := range list {
				seen[fmt.Sprint(e)] = "there"
			}
			if len(seen) != len(list) {
				t.Errorf("%s of subtask %d: an element comes twice", name, i)
			}
			if name == "union" && len(list) != len(p.union) {
				t.Errorf("union of subtask %d: %d elements of %d", i, len(list), len(p.union))
			}
			for e := range seen {
				if name == "split" && all[name][e] != nil {
					t.Errorf("split: %q is in two subtasks", e)
				}
				all[name][e] = "there"
			}
		}
		rules, _ := got["rules"][subtask].(map[string]any)
		if len(rules) != len(p.rules) {
			t.Errorf("rules of subtask %d: %d of %d", i, len(rules), len(p.rules))
		}
		for k, v := range rules {
			if was, ok := all["rules"][k]; ok && was != v {
				t.Errorf("rule %s is %v in subtask %d, and %v in another", k, v, i, was)
			}
			all["rules"][k] = v
		}
	}
	return all
}

func (p *operatorPart) change(c *circle) {
	for i := range c.parallelism {
		p.split = append(p.split, fmt.Sprint("flink ", i))
	}
	p.rules["flink"] = 1
	delete(p.rules, "rule 0")
}

func (p *operatorPart) restore(t *testing.T, _ *circle, _ string, files backend.Files, op *metadata.Operator) map[string]map[string]any {
	t.Helper()
	o := backend.NewOperator()
	split, union, rules, err := openOperatorStates(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Restore(t.Context(), files, backend.RepartitionOperator(backend.OperatorHandlesOf(op), 1)[0]); err != nil {
		t.Fatal(err)
	}
	if got := shownOperator(split.Get(), union.Get(), nil); len(got["split"]) != len(split.Get()) || len(got["union"]) != len(union.Get()) {
		t.Error("an element of operator state comes twice")
	}
	return shownOperator(split.Get(), union.Get(), maps.Collect(rules.All()))
}
