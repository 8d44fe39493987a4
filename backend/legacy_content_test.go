package backend_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// dump gives the entries of a savepoint as lines of text, sorted, each with
// how many subtasks have it.
func dump(t *testing.T, name string) map[string]int {
	t.Helper()
	lines := map[string]int{}
	for _, h := range savepoint(t, filepath.Join(public, "flink-tests", name, "_metadata")) {
		h.dump(t, lines)
	}
	return lines
}

func (h handles) dump(t *testing.T, lines map[string]int) {
	t.Helper()
	ctx := context.Background()
	files := backend.Files{FS: storage.NewLocal(storage.LocalOptions{}), Dir: h.dir}
	text := func(v any, err error) string {
		if err != nil {
			t.Error(err)
		}
		return string(serializer.AppendJSON(nil, v))
	}
	for i, list := range [][]metadata.Keyed{h.managedKeyed, h.rawKeyed} {
		for _, k := range list {
			r, err := backend.OpenKeyed(ctx, files, k, backend.Options{MaxParallelism: h.maxParallelism, Raw: i == 1})
			if err != nil {
				t.Fatal(err)
			}
			for e, err := range r.Entries(ctx, backend.Filter{}) {
				if err != nil {
					t.Error(err)
					continue
				}
				line := fmt.Sprintf("%s %s %s", e.State.Meta.Name, text(e.DecodeKey()), text(e.DecodeNamespace()))
				switch e.State.Type {
				case backend.TypeTimers:
					line += fmt.Sprintf(" at %d", e.Timestamp)
				case backend.TypeMap:
					line += fmt.Sprintf(" %s=%s", text(e.DecodeUserKey()), text(e.DecodeValue()))
				default:
					line += " " + text(e.DecodeValue())
				}
				lines[line]++
			}
		}
	}
	elements := func(r *backend.OperatorReader, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range r.Entries(ctx, nil) {
			if err != nil {
				t.Error(err)
				continue
			}
			line := e.State.Name + " "
			if e.State.Key != nil {
				line += text(e.DecodeKey()) + "="
			}
			lines[line+text(e.DecodeValue())]++
		}
	}
	for _, o := range h.managedOperator {
		if o != nil {
			elements(backend.OpenOperator(ctx, files, o, backend.Options{}))
		}
	}
	for _, s := range h.legacy {
		if s != nil {
			elements(backend.OpenLegacy(ctx, files, s, backend.Options{}))
		}
	}
}

func (h handles) hasChangelog() bool {
	return slices.ContainsFunc(h.managedKeyed, func(k metadata.Keyed) bool {
		_, ok := k.(*metadata.Changelog)
		return ok
	})
}

// check compares the lines of some states.
func check(t *testing.T, got map[string]int, states []string, want map[string]int) {
	t.Helper()
	some := map[string]int{}
	for line, n := range got {
		if slices.Contains(states, strings.SplitN(line, " ", 2)[0]) {
			some[line] = n
		}
	}
	if !maps.Equal(some, want) {
		for _, line := range slices.Sorted(maps.Keys(some)) {
			t.Logf("got %d times: %s", some[line], line)
		}
		t.Errorf("want %v", want)
	}
}

// The job of Flink's StatefulJobWBroadcastStateMigrationITCase holds these
// maps, in Flink 1.5 with other types than their swapped ones (D31).
func TestBroadcastStateOfOldFlink(t *testing.T) {
	needPublic(t)
	paths, err := filepath.Glob(filepath.Join(public, "flink-tests", "1.[5-7]", "*broadcast*", "_metadata"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no savepoints: %v", err)
	}
	mixed := 0
	for _, path := range paths {
		name, _ := filepath.Rel(filepath.Join(public, "flink-tests"), filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			lines := dump(t, name)
			long, text := []string{"0", "1", "2", "3"}, []string{`"0"`, `"1"`, `"2"`, `"3"`}
			values, keys := text, text
			if _, ok := lines[`broadcast-state-2 "0"=0`]; ok {
				values, keys = long, long // the job of later releases
				mixed++
			}
			states := []string{"broadcast-state-1", "broadcast-state-2", "broadcast-state-3"}
			// Every subtask has a copy; the job has four, and Scala's has no third state.
			want := map[string]int{}
			for i := range 4 {
				want[fmt.Sprintf("broadcast-state-1 %s=%s", long[i], long[i])] = 4
				want[fmt.Sprintf("broadcast-state-2 %s=%s", text[i], values[i])] = 4
				want[fmt.Sprintf("broadcast-state-3 %s=%s", keys[i], text[i])] = 4
			}
			if strings.Contains(name, "scala") {
				for i := range 4 {
					delete(want, fmt.Sprintf("broadcast-state-3 %s=%s", keys[i], text[i]))
				}
			}
			check(t, lines, states, want)
		})
	}
	if mixed == 0 {
		t.Error("no savepoint has keys and values of different types")
	}
	t.Logf("%d savepoints with broadcast state, %d with keys and values of different types", len(paths), mixed)
}

// The job of Flink's StatefulJobSavepointMigrationITCase for Flink 1.2 and 1.3.
func TestCheckpointedStateOfOldFlink(t *testing.T) {
	needPublic(t)
	for _, name := range []string{
		"1.2/stateful-udf-migration-itcase-flink1.2-savepoint", "1.2/stateful-udf-migration-itcase-flink1.2-rocksdb-savepoint",
		"1.3/stateful-udf-migration-itcase-flink1.3-savepoint", "1.3/stateful-udf-migration-itcase-flink1.3-rocksdb-savepoint",
	} {
		t.Run(name, func(t *testing.T) {
			lines := dump(t, name)
			check(t, lines, []string{"checkpointed"}, map[string]int{
				`checkpointed "Here be dragons!"`:     1,
				`checkpointed {"f0":"hello","f1":42}`: 8,
				// The operator writes a string ("Oh my, that's nice!") by writeUTF behind what its function does.
				`checkpointed {"function":{"f0":"hello","f1":42},"operator":"0x00134f68206d792c20746861742773206e69636521"}`: 4,
			})
			want := map[string]int{}
			timers := map[string]int{}
			for key := range 4 {
				want[fmt.Sprintf(`state-name [%d] "VoidNamespace" %d`, key, key)] = 3
				want[fmt.Sprintf(`state-name [%d] %d %d`, key, key, key)] = 1
				timers[fmt.Sprintf(`_timer_state/event_timer [%d] %d at %d`, key, key, math.MinInt64+10)] = 1
			}
			check(t, lines, []string{"state-name"}, want)
			check(t, lines, []string{"_timer_state/event_timer"}, timers)
		})
	}
}

// The job of Flink's StatefulJobSavepointMigrationITCase in Scala gets the
// pairs (0,0) to (3,3) and keeps for each what its source says.
func TestScalaState(t *testing.T) {
	needPublic(t)
	paths, err := filepath.Glob(filepath.Join(public, "flink-tests", "*", "stateful-scala*", "_metadata"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no savepoints: %v", err)
	}
	read := 0
	for _, path := range paths {
		name, _ := filepath.Rel(filepath.Join(public, "flink-tests"), filepath.Dir(path))
		if slices.ContainsFunc(savepoint(t, path), handles.hasChangelog) {
			continue // nothing in a changelog without a base says how keys are serialized
		}
		read++
		t.Run(name, func(t *testing.T) {
			lines := dump(t, name)
			want := map[string]int{}
			var states []string
			add := func(state string, key int, value string, args ...any) {
				want[fmt.Sprintf(`%s %d "VoidNamespace" %s`, state, key, fmt.Sprintf(value, args...))] = 1
				states = append(states, state)
			}
			for i := range 4 {
				double := fmt.Sprintf(`["%d",%d]`, i, 2*i)
				add("caseClassState", i, "%s", double)
				add("caseClassWithNestingState", i, "[%d,%s]", i, double)
				add("collectionState", i, "[%s]", double)
				add("tryState", i, `["%d",%d]`, i, 5*i)
				add("optionState", i, "%s", double)
				add("optionNoneState", i, "null")
				add("eitherLeftState", i, `{"left":%s}`, double)
				add("eitherRightState", i, `{"right":"%d"}`, 3*i)
				add("enumOneState", i, `"THREE"`)
			}
			check(t, lines, states, want)
			failures := 0
			for line := range lines {
				if strings.HasPrefix(line, "tryFailureState ") && strings.Contains(line, `"stackTrace":[{`) {
					failures++
				}
			}
			if failures != 4 {
				t.Errorf("%d failures with a stack trace", failures)
			}
		})
	}
	t.Logf("%d of %d snapshots of the job in Scala; the others are changelogs", read, len(paths))
}

// What Flink's FlinkKafkaConsumerBaseMigrationTest saved with Flink 1.2.
func TestKafkaOffsetsOfOldFlink(t *testing.T) {
	needPublic(t)
	lines := map[string]int{}
	name := "flink-connector-kafka-base--kafka-consumer-migration-test-flink1.2-snapshot"
	operatorSnapshot(t, filepath.Join(public, "operator-snapshots", "1.2", name)).dump(t, lines)
	for _, want := range []string{`"partition":13,"topic":"abc"},"f1":16768}`, `"partition":7,"topic":"def"},"f1":987654321}`} {
		found := false
		for line := range lines {
			found = found || strings.HasPrefix(line, "_default_ ") && strings.HasSuffix(line, want)
		}
		if !found {
			t.Errorf("no %s in %v", want, lines)
		}
	}
}
