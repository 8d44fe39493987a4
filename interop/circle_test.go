package interop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// goBackends are the backends of this module.
var goBackends = []string{"heap", "pebble"}

// pebbleHeapTimers is Pebble with timers on the heap.
const pebbleHeapTimers = "pebble, heap timers"

// circle is a snapshot on its way: written in Go, restored by Flink, written by it, restored in Go.
type circle struct {
	goBackend, flinkBackend string
	o                       backend.SnapshotOptions
	max                     int
	now                     int64 // the clock of Go
	absolute                bool
	words                   []string // for Circle.java, besides those that follow from the rest
	goParallelism           int      // when it is written; 0 means 2
	parallelism             int      // of Flink

	dir    string
	shared string // directory for files that checkpoints share
	id     int64  // of the checkpoint; 0 means 1
	random *rand.Rand
	parts  map[string]circlePart // by uid; nil means all but the large one
	wrote  *metadata.Snapshot
	// inspect looks at what Flink did, besides the state.
	inspect func(t *testing.T, c *circle, a flinkAnswer)
}

// circlePart is an operator with its model.
type circlePart interface {
	// write fills backends of so many subtasks and gives their part of a snapshot.
	write(t *testing.T, c *circle, parallelism int) metadata.Operator
	// shown is what Flink must show of the state that was written.
	shown() map[string]map[string]any
	// seen brings what Flink shows into the form of shown.
	seen(t *testing.T, got map[string]map[string]any) map[string]map[string]any
	// change does to the model what Flink does to the state.
	change(c *circle)
	// restore gives what a backend of Go holds that restores op, as shown.
	restore(t *testing.T, c *circle, kind string, files backend.Files, op *metadata.Operator) map[string]map[string]any
}

func openGo[K comparable](t *testing.T, kind string, key serializer.Codec[K], hash func(K) int32, max int, groups keygroup.Range, clock backend.Clock) backend.Keyed[K] {
	t.Helper()
	var b backend.Keyed[K]
	var err error
	switch kind {
	case "heap":
		b, err = heap.Open(key, heap.Options[K]{MaxParallelism: max, KeyGroups: groups, Hash: hash, Clock: clock})
	case "pebble", pebbleHeapTimers:
		o := pebble.Options[K]{MaxParallelism: max, KeyGroups: groups, Hash: hash, Clock: clock, Dir: filepath.Join(t.TempDir(), "db")}
		if kind == pebbleHeapTimers {
			o.Timers = pebble.TimersOnHeap
		}
		b, err = pebble.Open(key, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// keyedPart is a circlePart with keyed state.
type keyedPart[K, N comparable] struct {
	op       circleOperator[K, N]
	model    circleModel
	subtasks []*circleStates[K, N]
	clock    int64 // of the subtasks
}

func (p *keyedPart[K, N]) write(t *testing.T, c *circle, parallelism int) metadata.Operator {
	t.Helper()
	p.open(t, c, parallelism)
	const steps = 3000
	p.step(t, c, steps/3, true)
	p.step(t, c, steps*2/3, false)
	op := p.snapshot(t, c)
	for _, s := range p.subtasks {
		p.fail(t, s.b.Close())
	}
	return op
}

func (p *keyedPart[K, N]) fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", p.op.uid, err)
	}
}

// open opens empty backends.
func (p *keyedPart[K, N]) open(t *testing.T, c *circle, parallelism int) {
	t.Helper()
	p.subtasks, p.model = nil, circleModel{}
	for i := range parallelism {
		b := openGo(t, c.goBackend, p.op.key, p.op.hash, c.max, keygroup.RangeOf(i, c.max, parallelism), func() int64 { return p.clock })
		s, err := p.op.open(b)
		p.fail(t, err)
		p.subtasks = append(p.subtasks, s)
	}
}

// step changes state and model at random; what is old has no values with time to live in the model.
func (p *keyedPart[K, N]) step(t *testing.T, c *circle, steps int, old bool) {
	t.Helper()
	if p.clock = c.now; old {
		p.clock -= 2 * lifetime.Milliseconds()
	}
	for range steps {
		i, j := c.random.IntN(p.op.keys), c.random.IntN(len(p.op.namespaces))
		if i%10 == 9 {
			continue // keys without state
		}
		for _, s := range p.subtasks { // that of the key
			if s.at(i, j) == nil {
				p.fail(t, s.randomStep(c.random, old, p.model.at(i, j), j))
			}
		}
	}
}

// snapshot writes the state.
func (p *keyedPart[K, N]) snapshot(t *testing.T, c *circle) metadata.Operator {
	t.Helper()
	op := metadata.Operator{ID: metadata.UIDHash(p.op.uid), Parallelism: int32(len(p.subtasks)), MaxParallelism: int32(c.max)}
	for i, s := range p.subtasks {
		view, err := s.b.Snapshot(c.number(), c.o)
		p.fail(t, err)
		h, err := view.Write(t.Context(), c.target())
		p.fail(t, err)
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: &metadata.SubtaskState{ManagedKeyed: h, RawKeyed: view.Raw()}})
	}
	return op
}

func (p *keyedPart[K, N]) shown() map[string]map[string]any { return p.op.shown(p.model) }

func (p *keyedPart[K, N]) seen(_ *testing.T, got map[string]map[string]any) map[string]map[string]any {
	return got
}

func (p *keyedPart[K, N]) change(*circle) {
	for i := range p.op.keys {
		for j := range p.op.namespaces {
			p.model.at(i, j).changed(i, j)
		}
	}
}

func (p *keyedPart[K, N]) restore(t *testing.T, c *circle, kind string, files backend.Files, op *metadata.Operator) map[string]map[string]any {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", p.op.uid, err)
		}
	}
	b := openGo(t, kind, p.op.key, p.op.hash, c.max, keygroup.RangeOf(0, c.max, 1), backend.SystemClock)
	s, err := p.op.open(b)
	fail(err)
	handles, err := backend.HandlesOf(op, b.KeyGroups())
	fail(err)
	fail(b.Restore(t.Context(), files, handles))
	numbers, spaces := map[K]int{}, map[N]int{}
	for i := range p.op.keys {
		numbers[p.op.keyAt(i)] = i
	}
	for j, n := range p.op.namespaces {
		spaces[n] = j
	}
	all := map[string]map[string]any{}
	for i := range p.op.keys {
		for j := range p.op.namespaces {
			held, err := s.read(i, j)
			fail(err)
			p.op.put(all, i, j, held)
		}
	}
	for _, q := range []struct {
		timers backend.Timers[K, N]
		add    func(*cell, int64)
	}{
		{s.event, func(c *cell, due int64) { c.event = []int64{due} }},
		{s.process, func(c *cell, due int64) { c.process = []int64{due} }},
	} {
		for v, err := range q.timers.All() {
			fail(err)
			c := &cell{}
			q.add(c, v.Timestamp)
			p.op.put(all, numbers[v.Key], spaces[v.Namespace], c)
		}
	}
	p.checkTimes(t, c, kind, b)
	// Nothing may be there of keys that were not asked for.
	for _, meta := range b.States() {
		if meta.Kind == backend.KindPriorityQueue {
			continue
		}
		n := 0
		for k, err := range b.Keys(meta.Name) {
			fail(err)
			if _, ok := numbers[k]; !ok {
				t.Errorf("%s, %s: key %v", p.op.uid, meta.Name, k)
			}
			n++
		}
		if want := len(all[meta.Name]); n != want {
			t.Errorf("%s, %s: %d keys in all, of which %d were found", p.op.uid, meta.Name, n, want)
		}
	}
	return all
}

// format names the format.
func (c *circle) format() string {
	return map[backend.Format]string{backend.FormatCanonical: "canonical", backend.FormatFull: "full", backend.FormatRocksDB: "RocksDB"}[c.o.Format]
}

// checkTimes demands that values with time to live still have the times of their last access as
// Go wrote them, but for those that Flink has set, or added to, since.
func (p *keyedPart[K, N]) checkTimes(t *testing.T, c *circle, kind string, b backend.Keyed[K]) {
	t.Helper()
	kept, since := 0, 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case serializer.TTL:
			switch now := time.Now().UnixMilli(); {
			case v.LastAccess == c.now || v.LastAccess == c.now-2*lifetime.Milliseconds():
				kept++
			case v.LastAccess > c.now && v.LastAccess <= now:
				since++
			default:
				t.Errorf("%s in %s: last access at %d; Go wrote at %d", p.op.uid, kind, v.LastAccess, c.now)
			}
		}
	}
	for e, err := range b.Entries("", keygroup.RangeOf(0, c.max, 1)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State.TTL {
			v, err := e.DecodeValue()
			if err != nil {
				t.Fatal(err)
			}
			walk(v)
		}
	}
	if kept == 0 || since == 0 {
		t.Errorf("%s in %s: %d times of Go, %d of Flink", p.op.uid, kind, kept, since)
	}
}

func (c *circle) target() backend.Target {
	return backend.Target{FS: localFiles, Dir: filepath.ToSlash(c.dir), InlineBelow: -1, Absolute: c.absolute, Shared: filepath.ToSlash(c.shared)}
}

func (c *circle) number() int64 { return cmp.Or(c.id, 1) }

var localFiles = storage.NewLocal(storage.LocalOptions{})

// write writes the snapshot for a version of Flink.
func (c *circle) write(t *testing.T, v flink) {
	t.Helper()
	var operators []metadata.Operator
	for _, uid := range slices.Sorted(maps.Keys(c.parts)) {
		operators = append(operators, c.parts[uid].write(t, c, cmp.Or(c.goParallelism, 2)))
	}
	c.assemble(t, v, operators)
}

// assemble writes the metadata.
func (c *circle) assemble(t *testing.T, v flink, operators []metadata.Operator) {
	t.Helper()
	kinds := map[backend.Format]metadata.Kind{
		backend.FormatCanonical: metadata.KindCanonicalSavepoint, backend.FormatFull: metadata.KindCheckpoint, backend.FormatRocksDB: metadata.KindNativeSavepoint,
		backend.FormatIncremental: metadata.KindCheckpoint,
	}
	c.wrote = &metadata.Snapshot{Version: metadata.Version4, CheckpointID: c.number(), Properties: metadata.PropertiesOf(kinds[c.o.Format]), Operators: operators}
	if v != "1.20.5" {
		c.wrote.Version = metadata.Version6
	}
	if err := c.target().WriteMetadata(t.Context(), c.wrote); err != nil {
		t.Fatal(err)
	}
}

// flinkAnswer is what Circle.java says of a run.
type flinkAnswer struct {
	States      map[string]map[string]map[string]any
	Databases   map[string]flinkDatabase
	Savepoint   string
	Checkpoints []string
}

type flinkDatabase struct {
	Sequence int64
	Tables   []struct {
		Family, Name                    string
		Size                            int64
		Level, Entries, LargestSequence int64
	}
}

// line is the line for Circle.java.
func (c *circle) line() []string {
	words := []string{
		c.dir, c.dir + ".flink", strings.Join(slices.Sorted(maps.Keys(c.parts)), ","),
		"state.backend.type=" + c.flinkBackend, fmt.Sprint("parallelism.default=", c.parallelism), fmt.Sprint("pipeline.max-parallelism=", c.max),
		fmt.Sprint("execution.checkpointing.snapshot-compression=", c.o.Compress),
	}
	return append(words, c.words...)
}

// answer reads what Circle.java says of the run, or of the one of the same job "again".
func (c *circle) answer(t *testing.T, of string) flinkAnswer {
	t.Helper()
	var a flinkAnswer
	decode(t, read(t, filepath.Join(c.dir+".flink", of, "shown.json")), &a)
	return a
}

// openSnapshot opens a snapshot that Flink wrote.
func openSnapshot(t *testing.T, dir string) (*tools.Snapshot, backend.Files) {
	t.Helper()
	s, err := tools.Open(context.Background(), localFiles, filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s, backend.Files{FS: localFiles, Dir: s.Dir}
}

// TestCircle writes savepoints from backends of Go, which real Flink restores, changes and writes
// again, for the backends of Go to restore. DREY_SEED repeats a run.
func TestCircle(t *testing.T) {
	seed := seedOf(t)
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Logf("DREY_SEED=%d", seed)
			var circles []*circle
			for _, goBackend := range goBackends {
				for _, flinkBackend := range []string{"hashmap", "rocksdb"} {
					for _, compress := range []bool{false, true} {
						circles = append(circles, &circle{
							goBackend: goBackend, flinkBackend: flinkBackend, o: backend.SnapshotOptions{Compress: compress}, parallelism: 3,
							words: []string{"change", "canonical"},
						})
					}
				}
			}
			circles = append(circles, nativeCircles()...)
			table := &circleTable{}
			runCircles(t, v, seed, circles, table)
			t.Logf("entries that were compared, Flink %s:\n%s", v, table)
		})
	}
}

// runCircles runs circles in one JVM.
func runCircles(t *testing.T, v flink, seed uint64, circles []*circle, table *circleTable) {
	t.Helper()
	dir := t.TempDir()
	var lines [][]string
	for i, c := range circles {
		c.dir, c.max, c.now = filepath.Join(dir, fmt.Sprint("savepoint-", i)), []int{128, 300}[i%2], time.Now().UnixMilli()
		c.random = rand.New(rand.NewPCG(seed, uint64(i)))
		if c.parts == nil {
			c.parts = map[string]circlePart{
				"go-string": &keyedPart[string, struct{}]{op: stringOperator()},
				"go-long":   &keyedPart[int64, serializer.Window]{op: longOperator()},
				"go-tuple":  &keyedPart[tupleKey, string]{op: tupleOperator()},
				"go-pojo":   &keyedPart[pojoKey, struct{}]{op: pojoOperator()},
				"go-op":     &operatorPart{},
			}
		}
		c.write(t, v)
		lines = append(lines, c.line())
	}
	v.many(t, "circle-many", lines)
	if t.Failed() {
		return
	}
	for _, c := range circles {
		a := c.answer(t, "")
		compare := func(where, uid string, got map[string]map[string]any) {
			t.Helper()
			want := c.parts[uid].shown()
			table.add(c, where, compareShown(t, uid+", "+where, got, want), want)
		}
		for uid, p := range c.parts {
			compare("Flink", uid, p.seen(t, a.States[uid]))
			p.change(c)
		}
		if c.inspect != nil {
			c.inspect(t, c, a)
		}
		last := a.Savepoint
		if last == "" {
			last = a.Checkpoints[len(a.Checkpoints)-1]
		}
		s, files := openSnapshot(t, last)
		for uid, p := range c.parts {
			for _, kind := range goBackends {
				compare("Go, "+kind, uid, p.restore(t, c, kind, files, operatorOf(t, s.Snapshot, uid)))
			}
			if slices.Contains(c.words, "again") {
				compare("Flink again", uid, p.seen(t, c.answer(t, "again").States[uid]))
			}
		}
	}
}

// circleTable tells how many entries of each state were compared.
type circleTable struct {
	rows  []string
	cells map[string]map[string]int
}

func (b *circleTable) add(c *circle, restored string, same map[string]int, want map[string]map[string]any) {
	how := ""
	if c.o.Compress {
		how = "snappy "
	}
	if slices.Contains(c.words, "claim") {
		how += "claimed"
	}
	row := fmt.Sprintf("%s\t%s\t%s\t%d-%d-1\t%s\t%s", c.goBackend, c.format(), how, cmp.Or(c.goParallelism, 2), c.parallelism, c.flinkBackend, restored)
	if b.cells[row] == nil {
		b.rows = append(b.rows, row)
		if b.cells == nil {
			b.cells = map[string]map[string]int{}
		}
		b.cells[row] = map[string]int{}
	}
	for s, n := range same {
		if sum, ok := want[s]["entries"].(int64); ok && n == 2 { // of a large state
			n = int(sum)
		}
		b.cells[row][s] += n
	}
}

func (b *circleTable) String() string {
	names := map[string]bool{}
	for _, cells := range b.cells {
		for s := range cells {
			names[s] = true
		}
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	columns := slices.Sorted(maps.Keys(names))
	fmt.Fprintf(w, "Go\tformat\t\tsubtasks\tFlink\trestored by\t%s\n", strings.Join(columns, "\t"))
	for _, row := range b.rows {
		fmt.Fprint(w, row)
		for _, s := range columns {
			fmt.Fprintf(w, "\t%d", b.cells[row][s])
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return text.String()
}
