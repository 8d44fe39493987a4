package interop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rewrite"
)

// conversionTarget is a format with the state backend of Flink that restores it.
type conversionTarget struct {
	format  rewrite.Format
	backend string
}

func (c conversionTarget) String() string { return c.format.String() + " on " + c.backend }

// conversionTargets are the columns of the table.
var conversionTargets = []conversionTarget{
	{rewrite.Canonical, "hashmap"}, {rewrite.Canonical, "rocksdb"}, {rewrite.NativeHeap, "hashmap"}, {rewrite.NativeRocksDB, "rocksdb"},
}

// conversionSource is a snapshot of the fixtures, in the format that it stands for.
type conversionSource struct{ format, path string } // path: flink/RELEASE/CASE

// formatsOf are the formats of the current releases.
func formatsOf(release flink) []conversionSource {
	list := []conversionSource{
		{"canonical, of hashmap", "sp-canonical-hashmap-files"},
		{"canonical, of RocksDB, snappy", "sp-canonical-rocksdb-compressed"},
		{"hashmap native", "sp-native-hashmap-files"},
		{"hashmap checkpoint, snappy", "ck-hashmap-compressed"},
		{"RocksDB native", "sp-native-rocksdb-files"},
		{"RocksDB incremental", "ck-rocksdb-incr"},
		{"RocksDB incremental, timers on the heap", "ck-rocksdb-incr-heaptimers"},
		{"RocksDB incremental, merged files", "ck-filemerging-rocksdb"},
		{"changelog of hashmap", "ck-changelog-hashmap"},
		{"changelog of RocksDB", "ck-changelog-rocksdb"},
		{"changelog of hashmap, materialized", "ck-changelog-materialized-hashmap"},
	}
	for i := range list {
		list[i].path = "flink/" + string(release) + "/" + list[i].path
	}
	return list
}

// otherRelease are formats of the other current release.
func otherRelease(v flink) []conversionSource {
	var list []conversionSource
	for _, r := range current {
		if r == v {
			continue
		}
		for _, s := range formatsOf(r) {
			switch filepath.Base(s.path) {
			case "sp-canonical-hashmap-files", "sp-native-rocksdb-files", "ck-changelog-rocksdb":
				list = append(list, s)
			}
		}
	}
	return list
}

// formatsOfOld are those of the releases with savepoints that only the backend restores which wrote them.
var formatsOfOld = []conversionSource{
	{"heap savepoint", "old/1.8.3/savepoint-fs"},
	{"heap checkpoint", "old/1.8.3/chk-fs"},
	{"RocksDB savepoint", "old/1.8.3/savepoint-rocksdb-rich"},
	{"RocksDB savepoint, timers on the heap", "old/1.8.3/savepoint-rocksdb-heaptimers"},
	{"RocksDB savepoint, timers in RocksDB", "old/1.8.3/savepoint-rocksdb-rockstimers"},
	{"RocksDB incremental", "old/1.8.3/chk-rocksdb-incremental-rich"},
	{"heap savepoint", "old/1.12.7/savepoint-fs-rich"},
	{"RocksDB savepoint", "old/1.12.7/savepoint-rocksdb"},
	{"RocksDB savepoint, timers on the heap", "old/1.12.7/savepoint-rocksdb-heaptimers"},
	{"RocksDB incremental, timers on the heap", "old/1.12.7/chk-rocksdb-incremental-heaptimers"},
	{"RocksDB incremental", "old/1.12.7/chk-rocksdb-incremental"},
	{"canonical, of RocksDB", "old/1.15.4/savepoint-rocksdb-rich"},
	{"hashmap native", "old/1.17.2/savepoint-hashmap-native"},
}

// conversion is a snapshot that was converted, for Flink to restore.
type conversion struct {
	snapshot
	source conversionSource
	target conversionTarget
	o      rewrite.Options
	at     string   // where the result is
	args   []string // of the verification
	wrong  string   // what Flink says against it
	// entries of old releases that were compared.
	entries int
}

// converter converts snapshots for a release of Flink.
type converter struct {
	t    *testing.T
	v    flink
	dir  string
	done []*conversion
	// src holds the sources that were put in place, by their paths.
	src map[string]*conversion
}

// place puts a fixture's newest snapshot where its metadata says it is.
func (c *converter) place(s conversionSource) *conversion {
	c.t.Helper()
	if placed := c.src[s.path]; placed != nil {
		return placed
	}
	root := filepath.Join(fixtures, filepath.FromSlash(s.path))
	var truth struct {
		Snapshots []struct{ Dir, Path string }
	}
	decode(c.t, read(c.t, filepath.Join(root, "truth.json")), &truth)
	last := truth.Snapshots[len(truth.Snapshots)-1]
	placed := &conversion{
		snapshot: snapshot{Case: filepath.Base(root), Dir: cmp.Or(last.Dir, last.Path), Truth: filepath.Join(root, "truth.json")},
		source:   s, at: filepath.Join(c.dir, "source", filepath.FromSlash(s.path)),
	}
	drey(c.t, nil, "relocate", filepath.Join(root, placed.Dir), placed.at)
	c.src[s.path] = placed
	return placed
}

// convert writes a snapshot anew.
func (c *converter) convert(s conversionSource, target conversionTarget, o rewrite.Options, args ...string) *conversion {
	c.t.Helper()
	n := *c.place(s)
	in, files := openSnapshot(c.t, n.at)
	n.source, n.target, n.o, n.at = s, target, o, filepath.Join(c.dir, fmt.Sprint("converted-", len(c.done)))
	n.o.Format = target.format
	if n.o.Version = metadata.Version4; c.v != "1.20.5" {
		n.o.Version = metadata.Version6
	}
	n.args = append([]string{"--backend", target.backend, "--conf", "state.changelog.enabled=false"}, args...)
	if m := n.o.MaxParallelism; m > 0 {
		n.args = append(n.args, "--conf", fmt.Sprint("pipeline.max-parallelism=", m))
	}
	c.done = append(c.done, &n)
	p, err := rewrite.NewPlan(c.t.Context(), rewrite.Source{Files: files, Metadata: in.Snapshot}, n.o)
	if err != nil {
		c.t.Fatalf("%s: %v", s.path, err)
	}
	to := backend.Target{FS: localFiles, Dir: filepath.ToSlash(n.at), InlineBelow: -1}
	if len(c.done)%2 == 0 { // small state in the metadata
		to.InlineBelow = 0
	}
	if _, err := p.Execute(c.t.Context(), to, nil); err != nil {
		n.wrong = err.Error()
		c.t.Errorf("%s as %s: %v", s.path, target, err)
	}
	return &n
}

// wide lets a job have 200 subtasks on one machine.
var wide = []string{
	"--parallelism", "200", "--conf", "heartbeat.timeout=300000", "--conf", "taskmanager.memory.segment-size=4kb", "--conf", "taskmanager.network.memory.buffers-per-channel=0",
	"--conf", "taskmanager.memory.network.min=512m", "--conf", "taskmanager.memory.network.max=512m", "--conf", "taskmanager.memory.managed.size=1g",
}

// changes converts snapshots into such with other key groups, with another parallelism, or with another compression.
func (c *converter) changes() {
	c.t.Helper()
	of := func(what, name string) conversionSource {
		return conversionSource{what, fmt.Sprintf("flink/%s/%s", c.v, name)}
	}
	raw := func(what, name string) conversionSource {
		return conversionSource{what, fmt.Sprintf("extra/%s/%s", c.v, name)}
	}
	canonicalHashmap, canonicalRocksDB, nativeHeap, nativeRocksDB := conversionTargets[0], conversionTargets[1], conversionTargets[2], conversionTargets[3]
	at := func(parallelism int) []string { return []string{"--parallelism", fmt.Sprint(parallelism), "--shared"} }
	for _, n := range []struct {
		source conversionSource
		target conversionTarget
		o      rewrite.Options
		args   []string
	}{
		{of("128 key groups to 1,024, restored by 200 subtasks", "ck-rocksdb-incr"), canonicalHashmap, rewrite.Options{MaxParallelism: 1024, Parallelism: 200}, wide},
		{of("128 key groups to 1,024, for 200 subtasks", "ck-changelog-rocksdb"), nativeRocksDB, rewrite.Options{MaxParallelism: 1024, Parallelism: 200}, at(4)},
		{of("128 key groups to 1,024", "sp-native-rocksdb-files"), nativeHeap, rewrite.Options{MaxParallelism: 1024, Parallelism: 4}, at(3)},
		{
			of("128 key groups to 77, without operators of POJO keys or without uid", "sp-canonical-hashmap-files"), nativeRocksDB,
			rewrite.Options{MaxParallelism: 77, Parallelism: 3}, at(2),
		},
		{of("operator state, windows: 3 subtasks to 1", "sp-p3"), canonicalRocksDB, rewrite.Options{Parallelism: 1}, at(4)},
		{
			of("operator state, windows: 2 subtasks to 5, compressed", "sp-canonical-hashmap-files"), nativeHeap,
			rewrite.Options{Parallelism: 5, Compression: rewrite.CompressionSnappy}, at(2),
		},
		{
			of("operator state, windows: 2 subtasks to 3, compressed no more", "ck-hashmap-compressed"), canonicalRocksDB,
			rewrite.Options{Parallelism: 3, Compression: rewrite.CompressionNone}, at(3),
		},
		{of("compressed no more", "sp-canonical-rocksdb-compressed"), canonicalHashmap, rewrite.Options{Compression: rewrite.CompressionNone}, at(2)},
		{of("compressed", "ck-changelog-hashmap"), canonicalHashmap, rewrite.Options{Compression: rewrite.CompressionSnappy}, at(2)},
		{raw("raw keyed and raw operator state: 2 subtasks to 3", "sp-raw"), canonicalHashmap, rewrite.Options{Parallelism: 3}, at(3)},
		{raw("raw keyed and raw operator state: 2 subtasks to 1", "ck-raw-rocksdb"), canonicalRocksDB, rewrite.Options{Parallelism: 1}, at(2)},
		{of("records in flight", "ck-unaligned"), canonicalRocksDB, rewrite.Options{}, at(2)},
		{of("operators that finished", "sp-finished"), nativeRocksDB, rewrite.Options{}, at(2)},
		{of("subtasks that finished", "sp-finished-partly"), nativeHeap, rewrite.Options{}, at(2)},
		{of("state of a master hook", "sp-masterhook"), nativeRocksDB, rewrite.Options{}, at(2)},
	} {
		var truth string
		if n.o.MaxParallelism == 77 {
			// An operator without uid has another ID in a job that has fewer of them.
			n.o.Transform, truth = c.without(n.source, "kv-pojo", "nouid")
		}
		done := c.convert(n.source, n.target, n.o, n.args...)
		if truth != "" {
			done.Truth = truth
		}
	}
}

// without gives what drops operators, and writes a truth that knows nothing of them.
func (c *converter) without(s conversionSource, parts ...string) (drop func(*metadata.Operator) (*rewrite.Transform, error), truth string) {
	c.t.Helper()
	placed := c.place(s)
	var all map[string]any
	decode(c.t, read(c.t, placed.Truth), &all)
	list, _ := all["parts"].([]any)
	all["parts"] = slices.DeleteFunc(list, func(p any) bool { return slices.Contains(parts, fmt.Sprint(p)) })
	ids := map[string]bool{}
	list, _ = all["snapshots"].([]any)
	for _, s := range list {
		operators, _ := s.(map[string]any)["operators"].(map[string]any)
		for _, part := range parts {
			op, _ := operators[part].(map[string]any)
			ids[fmt.Sprint(op["operatorId"])] = true
			delete(operators, part)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		c.t.Fatal(err)
	}
	truth = filepath.Join(c.dir, "truth without "+strings.Join(parts, " ")+".json")
	write(c.t, truth, data)
	return func(op *metadata.Operator) (*rewrite.Transform, error) {
		return &rewrite.Transform{Drop: ids[op.ID.String()]}, nil
	}, truth
}

// TestConvert converts snapshots of every format of old and current releases into every other, and lets real Flink restore them: every
// state is as the truth says.
func TestConvert(t *testing.T) {
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Parallel()
			c := &converter{t: t, v: v, dir: t.TempDir(), src: map[string]*conversion{}}
			for _, s := range slices.Concat(formatsOf(v), otherRelease(v)) {
				for _, target := range conversionTargets {
					c.convert(s, target, rewrite.Options{}, "--shared")
				}
			}
			from := len(c.done)
			c.changes()
			c.verify()
			changes := slices.Clone(c.done[from:])
			for _, s := range formatsOfOld {
				for _, target := range conversionTargets {
					c.convert(s, target, rewrite.Options{})
				}
			}
			moved := conversionSource{"RocksDB savepoint, 128 key groups to 1,024", formatsOfOld[2].path}
			for _, target := range conversionTargets {
				c.convert(moved, target, rewrite.Options{MaxParallelism: 1024, Parallelism: 3})
			}
			c.verifyOld()
			t.Logf("restored by Flink %s, every state as the truth says:\n%s", v, matrix(slices.Delete(c.done, from, from+len(changes))))
			t.Logf("restored by Flink %s with other key groups, parallelism or compression, and what is carried as it is:\n%s", v, changesTable(changes))
		})
	}
}

// verify lets Flink restore those of current releases.
func (c *converter) verify() {
	c.t.Helper()
	var lines [][]string
	for _, n := range c.done {
		if n.wrong == "" {
			lines = append(lines, append([]string{n.at, n.Truth, "--entry", n.Dir}, n.args...))
		}
	}
	wrong := c.v.verify(c.t, nil, lines)
	for _, n := range c.done {
		if w := wrong[n.at]; w != "" {
			n.wrong = w
			c.t.Errorf("Flink %s, %s as %s: %s", c.v, n.source.path, n.target, w)
		}
	}
}

// verifyOld lets Flink restore those of old releases, and compares what it shows.
func (c *converter) verifyOld() {
	c.t.Helper()
	var lines [][]string
	var list []*conversion
	for i, n := range c.done {
		if n.wrong != "" || !strings.HasPrefix(n.source.path, "old/") {
			continue
		}
		list = append(list, n)
		lines = append(lines, []string{
			n.at, n.at + ".flink", strings.Join(slices.Sorted(maps.Keys(oldTruth(c.t, n))), ","), "state.backend.type=" + n.target.backend,
			fmt.Sprint("parallelism.default=", 1+i%3), fmt.Sprint("pipeline.max-parallelism=", cmp.Or(n.o.MaxParallelism, 128)),
		})
	}
	c.v.many(c.t, "circle-many", lines)
	for _, n := range list {
		name := filepath.Join(n.at+".flink", "shown.json")
		if _, err := os.Stat(name); err != nil {
			n.wrong = "not restored"
			continue
		}
		var a flinkAnswer
		decode(c.t, read(c.t, name), &a)
		entries := 0
		for uid, want := range oldTruth(c.t, n) {
			where := fmt.Sprintf("Flink %s, %s as %s, %s", c.v, n.source.path, n.target, uid)
			got := oldShown(c.t, where, a.States[uid])
			same := 0
			for _, k := range compareShown(c.t, where, got, want) {
				same += k
			}
			all, shown := 0, 0
			for _, e := range want {
				all += len(e)
			}
			for _, e := range got {
				shown += len(e)
			}
			if same != all || shown != all || all == 0 {
				n.wrong = "other content"
			}
			entries += same
		}
		n.entries = entries
	}
}

// matrix is the table of what was restored.
func matrix(done []*conversion) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "source\tof Flink")
	for _, target := range conversionTargets {
		fmt.Fprintf(w, "\t%s", target)
	}
	var last conversionSource
	good := 0
	for _, n := range done {
		if n.source != last {
			last = n.source
			fmt.Fprintf(w, "\n%s\t%s", last.format, strings.Split(last.path, "/")[1])
		}
		answer := "yes"
		if n.wrong != "" {
			answer = "NO"
		} else if good++; strings.HasPrefix(last.path, "old/") {
			answer = fmt.Sprintf("yes, %d entries", n.entries)
		}
		fmt.Fprintf(w, "\t%s", answer)
	}
	fmt.Fprintf(w, "\n%d of %d\n", good, len(done))
	_ = w.Flush()
	return text.String()
}

// changesTable is the table of what was restored with other key groups, parallelism or compression.
func changesTable(done []*conversion) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, n := range done {
		answer := "yes"
		if n.wrong != "" {
			answer = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.source.format, filepath.Base(n.source.path), n.target, answer)
	}
	_ = w.Flush()
	return text.String()
}

// oldSnapshot is what a truth file of old/ says of a snapshot.
type oldSnapshot struct {
	Path  string
	Keyed []struct {
		Key              string
		Total            json.Number
		History          []any
		ByPhase          map[string]any `json:"by-phase"`
		EventTimers      []json.Number
		ProcessingTimers []json.Number
	}
	Rich []struct {
		Key, RSum json.Number
		Sum       json.Number `json:"avg.sum"`
		Count     json.Number `json:"avg.count"`
		TTL       json.Number `json:"ttl-val(without its timestamp)"`
		Name      string      `json:"pojo.name"`
		Number    json.Number `json:"pojo.count"`
		Last      json.Number `json:"pojo.last"`
	}
	Window []struct {
		Key      string
		Contents []struct {
			Start, End, Timer json.Number
			F0                string      `json:"value.f0"`
			F1                json.Number `json:"value.f1"`
		} `json:"window-contents"`
	}
	Operator []struct {
		Offsets   []any          `json:"src.src-offsets"`
		Union     []any          `json:"src.src-union"`
		List      []any          `json:"keyed.op-list"`
		Broadcast map[string]any `json:"keyed.bcast"`
	}
}

// oldTruth is what Flink must show of a snapshot of an old release, by uid, state and entry, as oldShown has it.
func oldTruth(t *testing.T, n *conversion) map[string]map[string]map[string]any {
	t.Helper()
	var truth struct{ Snapshots []oldSnapshot }
	decode(t, read(t, n.Truth), &truth)
	i := slices.IndexFunc(truth.Snapshots, func(s oldSnapshot) bool { return s.Path == n.Dir })
	if i < 0 {
		t.Fatalf("%s: nothing about %s", n.Truth, n.Dir)
	}
	s := truth.Snapshots[i]
	all := map[string]map[string]map[string]any{}
	put := func(uid, state, entry string, value any) {
		if all[uid] == nil {
			all[uid] = map[string]map[string]any{}
		}
		if all[uid][state] == nil {
			all[uid][state] = map[string]any{}
		}
		all[uid][state][entry] = value
	}
	for _, k := range s.Keyed {
		put("uid-keyed", "total", k.Key, k.Total)
		if len(k.History) > 0 {
			put("uid-keyed", "history", k.Key, k.History)
		}
		var phases []any
		for name, v := range k.ByPhase {
			phases = append(phases, []any{name, v})
		}
		put("uid-keyed", "by-phase", k.Key, map[string]any{"map": phases})
		for _, due := range k.EventTimers {
			put("uid-keyed", "event", k.Key+"!"+due.String(), due)
		}
		for _, due := range k.ProcessingTimers {
			put("uid-keyed", "processing", k.Key+"!"+due.String(), due)
		}
	}
	for _, k := range s.Rich {
		put("uid-rich", "rsum", k.Key.String(), k.RSum)
		put("uid-rich", "avg", k.Key.String(), []any{k.Sum, k.Count})
		put("uid-rich", "ttl-val", k.Key.String(), k.TTL)
		put("uid-rich", "pojo", k.Key.String(), map[string]any{"name": k.Name, "count": k.Number, "last": k.Last})
	}
	for _, k := range s.Window {
		for _, w := range k.Contents {
			at := fmt.Sprintf("%s@%s..%s", k.Key, w.Start, w.End)
			put("uid-window", "window-contents", at, []any{w.F0, w.F1})
			put("uid-window", "event", at+"!"+w.Timer.String(), w.Timer)
		}
	}
	var offsets, union, list []any
	for _, o := range s.Operator {
		offsets, union, list = append(offsets, o.Offsets...), append(union, o.Union...), append(list, o.List...)
		put("uid-keyed", "bcast", "", o.Broadcast)
	}
	put("uid-src", "src-offsets", "", inOrder(offsets))
	put("uid-src", "src-union", "", inOrder(union))
	put("uid-keyed", "op-list", "", inOrder(list))
	return all
}

func inOrder(list []any) []any {
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(canonical(a), canonical(b)) })
	return list
}

// oldShown puts the operator state of all subtasks together, of which all must have the same where it isn't split.
func oldShown(t *testing.T, where string, got map[string]map[string]any) map[string]map[string]any {
	t.Helper()
	for _, state := range []string{"src-offsets", "op-list", "src-union", "bcast"} {
		var parts []any
		for _, part := range got[state] {
			if list, ok := part.([]any); ok {
				part = inOrder(list)
			}
			parts = append(parts, part)
		}
		if len(parts) == 0 {
			continue
		}
		if state == "src-offsets" || state == "op-list" {
			var all []any
			for _, part := range parts {
				list, _ := part.([]any)
				all = append(all, list...)
			}
			got[state] = map[string]any{"": inOrder(all)}
			continue
		}
		for _, part := range parts {
			if canonical(part) != canonical(parts[0]) {
				t.Errorf("%s: %s: %s in one subtask, %s in another", where, state, canonical(parts[0]), canonical(part))
			}
		}
		got[state] = map[string]any{"": parts[0]}
	}
	return got
}
