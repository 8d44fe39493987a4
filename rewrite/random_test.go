package rewrite

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// randomSnapshot writes a canonical savepoint of an operator with keyed state, timers and operator state.
func randomSnapshot(t *rapid.T, target backend.Target) Source {
	maxParallelism := rapid.SampledFrom([]int{1, 2, 7, 128, 129, 300}).Draw(t, "max parallelism")
	parallelism := rapid.IntRange(1, min(5, maxParallelism)).Draw(t, "parallelism")
	keys, text, void := serializer.ForString(), serializer.ForString(), serializer.ForVoidNamespace()
	long := serializer.ForLong()
	header := &backend.KeyedHeader{Version: backend.KeyedVersion, Compressed: rapid.Bool().Draw(t, "compressed"), Key: keys.Snapshot(), States: []backend.StateMeta{
		backend.NewStateMeta("value", backend.TypeValue, void.Snapshot(), long.Snapshot()),
		backend.NewStateMeta("in namespaces", backend.TypeValue, text.Snapshot(), text.Snapshot()),
		backend.NewStateMeta("list", backend.TypeList, void.Snapshot(), serializer.ForList(text).Snapshot()),
		backend.NewStateMeta("map", backend.TypeMap, void.Snapshot(), serializer.ForMap(text, long).Snapshot()),
		backend.NewTimersMeta("_timer_state/event_timers", serializer.TimerSnapshot(keys.Snapshot(), void.Snapshot())),
	}}
	states := make([]*backend.State, len(header.States))
	for i := range header.States {
		states[i] = backend.NewState(&header.States[i], header.Key)
	}
	bytesOf := func(s string) []byte {
		out := serializer.NewOutput(nil)
		text.Write(out, s)
		return out.Bytes()
	}
	longBytes := func(n int64) []byte {
		out := serializer.NewOutput(nil)
		long.Write(out, n)
		return out.Bytes()
	}
	// The entries by key group and state, each with a key of its own.
	type entry struct{ key, value []byte }
	entries := map[[2]int]map[string]entry{}
	words := rapid.SampledFrom([]string{"", "a", "b", "ab", "Ä", "€", "a\x00", "zz,", "long " + string(make([]byte, 300))})
	for range rapid.IntRange(0, 60).Draw(t, "entries") {
		key := words.Draw(t, "key") + words.Draw(t, "key")
		state := rapid.IntRange(0, len(states)-1).Draw(t, "state")
		group := keygroup.ForHash(keygroup.StringHash(key), maxParallelism)
		e := backend.Entry{State: states[state], KeyGroup: group, Key: bytesOf(key), Namespace: []byte{0}}
		switch state {
		case 0:
			e.Value = longBytes(rapid.Int64().Draw(t, "value"))
		case 1:
			e.Namespace, e.Value = bytesOf(words.Draw(t, "namespace")), bytesOf(words.Draw(t, "value"))
		case 2:
			for i := range rapid.IntRange(1, 4).Draw(t, "elements") {
				if i > 0 {
					e.Value = append(e.Value, ',')
				}
				e.Value = append(e.Value, bytesOf(words.Draw(t, "element"))...)
			}
		case 3:
			e.UserKey = bytesOf(words.Draw(t, "user key"))
			if e.Null = rapid.Bool().Draw(t, "null"); !e.Null {
				e.Value = longBytes(rapid.Int64().Draw(t, "value"))
			}
		case 4:
			e.Timestamp = rapid.Int64().Draw(t, "timestamp")
		}
		at := [2]int{group, state}
		if entries[at] == nil {
			entries[at] = map[string]entry{}
		}
		one := entry{e.AppendStoredKey(nil), e.AppendStoredValue(nil)}
		entries[at][string(one.key)] = one
	}
	op := metadata.Operator{ID: metadata.UIDHash("random"), UID: "random", Parallelism: int32(parallelism), MaxParallelism: int32(maxParallelism)}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range parallelism {
		groups := keygroup.RangeOf(i, maxParallelism, parallelism)
		f, err := backend.NewStateFiles(t.Context(), target, backend.StateFilesOptions{Header: header, KeyGroups: groups, MaxParallelism: maxParallelism})
		check(err)
		for g := groups.Start; g <= groups.End; g++ {
			check(f.StartKeyGroup(g))
			for s := range states {
				list := entries[[2]int{g, s}]
				var sorted []string
				for k := range list {
					sorted = append(sorted, k)
				}
				slices.Sort(sorted)
				for _, k := range sorted {
					check(f.Entry(s, list[k].key, list[k].value))
				}
			}
		}
		h, err := f.Commit()
		check(err)
		state := &metadata.SubtaskState{ManagedKeyed: h}
		o := backend.NewOperator()
		split, err := backend.OpenOperatorList(o, "split", text, false)
		check(err)
		union, err := backend.OpenOperatorList(o, "union", text, true)
		check(err)
		all, err := backend.OpenBroadcast(o, "broadcast", text, long)
		check(err)
		for n := range rapid.IntRange(0, 5).Draw(t, "elements") {
			split.Add(fmt.Sprint(i, n))
			union.Add(fmt.Sprint(i, -n))
		}
		all.Put("all", 1)
		snapshot, err := o.Snapshot(false)
		check(err)
		elements, err := snapshot.Write(t.Context(), target)
		check(err)
		state.ManagedOperator = []*metadata.OperatorState{elements}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: state})
	}
	s := &metadata.Snapshot{Version: metadata.Version6, CheckpointID: 1, Properties: metadata.PropertiesOf(metadata.KindCanonicalSavepoint), Operators: []metadata.Operator{op}}
	check(target.WriteMetadata(t.Context(), s))
	return Source{backend.Files{FS: target.FS, Dir: target.Dir}, s}
}

// TestThereAndBack converts random snapshots to other formats, parallelisms and max parallelisms, and back: the content is what it was.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := storage.NewMemory()
		first := randomSnapshot(rt, backend.Target{FS: memory, Dir: "mem://b/0", InlineBelow: -1})
		want, err := contentOf(rt.Context(), first)
		if err != nil {
			rt.Fatal(err)
		}
		src := first
		steps := rapid.IntRange(1, 4).Draw(rt, "steps")
		for i := range steps + 1 {
			o := Options{
				Format:      rapid.SampledFrom([]Format{AsIs, Canonical, NativeHeap, NativeRocksDB}).Draw(rt, "format"),
				Compression: rapid.SampledFrom([]Compression{CompressionAsIs, CompressionNone, CompressionSnappy}).Draw(rt, "compression"),
				Version:     rapid.SampledFrom([]metadata.Version{0, metadata.Version4, metadata.Version6}).Draw(rt, "version"),
				Memory:      int64(rapid.SampledFrom([]int{0, 1 << 10}).Draw(rt, "memory")),
				Jobs:        rapid.IntRange(1, 4).Draw(rt, "jobs"),
			}
			if i < steps {
				o.MaxParallelism = rapid.SampledFrom([]int{0, 2, 5, 128, 200, 1024}).Draw(rt, "max parallelism")
				o.Parallelism = rapid.IntRange(1, 6).Draw(rt, "parallelism")
			} else {
				o.MaxParallelism, o.Parallelism = int(first.Metadata.Operators[0].MaxParallelism), int(first.Metadata.Operators[0].Parallelism)
			}
			p, err := NewPlan(rt.Context(), src, o)
			if err != nil {
				rt.Fatal(err)
			}
			if len(p.Problems) > 0 {
				// More subtasks than key groups, and an operator that has one key group keeps it.
				if i < steps {
					continue
				}
				rt.Fatal(p.Problems[0])
			}
			target := backend.Target{FS: memory, Dir: fmt.Sprintf("mem://b/%d", i+1), InlineBelow: -1}
			if _, err := p.Execute(rt.Context(), target, nil); err != nil {
				rt.Fatal(err)
			}
			src = readBack(t, target)
		}
		got, err := contentOf(rt.Context(), src)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(want, got) {
			rt.Fatalf("the content changed%s", firstDifference(want, got))
		}
	})
}
