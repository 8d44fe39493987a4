package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// refusal is what RocksDB must say of the files of Pebble.
const refusal = "Pebble files of drey, which are not RocksDB's. Restore a canonical savepoint instead"

// changingPart is a part of a job in Go that goes on after a checkpoint.
type changingPart interface {
	open(t *testing.T, c *circle, parallelism int)
	step(t *testing.T, c *circle, steps int, old bool)
	snapshot(t *testing.T, c *circle) metadata.Operator
	completed(checkpoint int64)
	shown() map[string]map[string]any
}

// completed tells the backends that a checkpoint is complete.
func (p *keyedPart[K, N]) completed(checkpoint int64) {
	for _, s := range p.subtasks {
		s.b.(backend.CheckpointListener).CheckpointCompleted(checkpoint)
	}
}

// TestIncremental takes incremental checkpoints of Pebble: Flink reads and writes their metadata, but none of its backends restores them, and
// RocksDB says why and what to do; what it says to do restores all.
func TestIncremental(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			testIncremental(t, v)
		})
	}
}

func testIncremental(t *testing.T, v flink) {
	dir := t.TempDir()
	parts := map[string]changingPart{
		"go-string": &keyedPart[string, struct{}]{op: stringOperator()},
		"go-long":   &keyedPart[int64, serializer.Window]{op: longOperator()},
	}
	const uids, changed = "go-long,go-string", "go-string"
	var restores, rewrites [][]string
	var savepoints []*circle
	shown := map[*circle]map[string]map[string]map[string]any{}
	for i, kind := range []string{"pebble", pebbleHeapTimers} {
		job := filepath.Join(dir, fmt.Sprint("job-", i))
		random := rand.New(rand.NewPCG(7, uint64(i)))
		snapshot := func(name string, id int64, f backend.Format) *circle {
			return &circle{
				goBackend: kind, o: backend.SnapshotOptions{Format: f}, max: 128, now: time.Now().UnixMilli(), random: random, id: id,
				dir: filepath.Join(job, name), shared: filepath.Join(job, "shared"),
			}
		}
		first, second := snapshot("chk-1", 1, backend.FormatIncremental), snapshot("chk-2", 2, backend.FormatIncremental)
		savepoint := snapshot("savepoint", 3, backend.FormatCanonical)
		for _, p := range parts {
			p.open(t, first, 2)
			p.step(t, first, 1000, true)
			p.step(t, first, 2000, false)
		}
		take := func(c *circle) {
			var operators []metadata.Operator
			for _, p := range parts {
				operators = append(operators, p.snapshot(t, c))
			}
			c.assemble(t, v, operators)
		}
		take(first)
		for _, p := range parts {
			p.completed(1)
		}
		parts[changed].step(t, second, 200, false)
		take(second)
		checkShared(t, first, second, changed)
		take(savepoint)
		savepoints = append(savepoints, savepoint)
		shown[savepoint] = map[string]map[string]map[string]any{}
		for uid, p := range parts {
			shown[savepoint][uid] = p.shown()
		}
		for _, c := range []*circle{first, second} {
			rewrites = append(rewrites, []string{filepath.Join(c.dir, metadata.FileName), filepath.Join(dir, fmt.Sprint("rewritten-", len(rewrites)))})
		}
		for _, flinkBackend := range []string{"rocksdb", "hashmap"} {
			for parallelism := 1; parallelism <= 3; parallelism++ {
				restores = append(restores, []string{
					second.dir, filepath.Join(dir, fmt.Sprint("restored-", len(restores))), uids,
					"state.backend.type=" + flinkBackend, fmt.Sprint("parallelism.default=", parallelism), "pipeline.max-parallelism=128",
				})
			}
		}
	}

	v.many(t, "load-many", rewrites)
	v.many(t, "rewrite-many", rewrites)
	for _, l := range rewrites {
		if ours, theirs := read(t, l[0]), read(t, l[1]); !bytes.Equal(ours, theirs) {
			t.Errorf("%s: Flink writes other bytes for what it read: %d, ours are %d", l[0], len(theirs), len(ours))
		}
	}

	before := filesBelow(t, dir)
	answers := answersOf(v.run(t, nil, "circle-many", list(t, restores)))
	if len(answers) != len(restores) {
		t.Fatalf("%d answers to %d restores: %q", len(answers), len(restores), answers)
	}
	for i, l := range restores {
		want := "IncrementalRemoteKeyedStateHandle" // what hashmap says it can't restore
		if strings.Contains(l[3], "rocksdb") {
			want = refusal
		}
		reason := answers[i][max(0, strings.LastIndex(answers[i], "Caused by: ")):]
		if !strings.HasPrefix(answers[i], "FAIL "+l[0]) || !strings.Contains(reason, want) {
			t.Errorf("%v: %s", l[3:], answers[i])
		}
		first, _, _ := strings.Cut(reason, " \tat ")
		t.Logf("%v: %s", l[3:], first)
		if _, err := os.Stat(filepath.Join(l[1], "shown.json")); err == nil {
			t.Errorf("%v: it started", l[3:])
		}
	}
	after := filesBelow(t, dir)
	for name, written := range before {
		if !after[name].Equal(written) {
			t.Errorf("%s was written at %v, and after the restores that failed is of %v", name, written, after[name])
		}
	}

	var lines [][]string
	for i, c := range savepoints {
		c.flinkBackend, c.parallelism = []string{"rocksdb", "hashmap"}[i], 3
		line := c.line()
		line[2] = uids
		lines = append(lines, line)
	}
	v.many(t, "circle-many", lines)
	if t.Failed() {
		return
	}
	for _, c := range savepoints {
		a := c.answer(t, "")
		for uid, want := range shown[c] {
			compareShown(t, uid+", canonical savepoint, "+c.flinkBackend, a.States[uid], want)
		}
	}
}

// checkShared demands that the second checkpoint names just the tables of the first for the subtasks of an operator that did not change, and
// has others for those of one that did.
func checkShared(t *testing.T, first, second *circle, changed string) {
	t.Helper()
	for _, op := range second.wrote.Operators {
		for i, s := range op.Subtasks {
			was := tablesOf(t, operatorWithID(t, first.wrote, op.ID).Subtasks[i].State.ManagedKeyed)
			same, now := 0, tablesOf(t, s.State.ManagedKeyed)
			for name, stream := range now {
				if reflect.DeepEqual(was[name], stream) {
					same++
				}
			}
			if len(now) == 0 || (same == len(now)) == (op.ID == metadata.UIDHash(changed)) {
				t.Errorf("%s, operator %s, subtask %d: %d of %d tables are those of the checkpoint before", second.goBackend, op.ID, i, same, len(now))
			}
			if (s.State.RawKeyed != nil) != (second.goBackend == pebbleHeapTimers) {
				t.Errorf("%s, operator %s, subtask %d: raw state %v", second.goBackend, op.ID, i, s.State.RawKeyed)
			}
		}
	}
}

// answersOf gives the lines that say how a restore went.
func answersOf(out string) []string {
	var answers []string
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, "OK ") || strings.HasPrefix(line, "FAIL ") {
			answers = append(answers, line)
		}
	}
	return answers
}
