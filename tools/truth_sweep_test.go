package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drey-state/drey/storage"
)

// truthFile is what the program that made a fixture says of its snapshots.
type truthFile struct {
	WrittenAt string          `json:"writtenAt"`
	Snapshots []truthSnapshot `json:"snapshots"`
}

type truthSnapshot struct {
	Dir string `json:"dir"`
	// Inflight says that the states are those after the data in flight was processed.
	Inflight bool `json:"inflight"`
	// Rounds is how many events each key has got.
	Rounds int `json:"rounds"`
	// Restorable is false if Flink left a snapshot that lacks files.
	Restorable *bool                    `json:"restorable"`
	Operators  map[string]truthOperator `json:"operators"`
	// OperatorsOf names the snapshot of the same content, which alone has it written out.
	OperatorsOf string `json:"operatorsOf"`
	// SinkFiles is the length of each file that a FileSink was writing.
	SinkFiles map[string]json.Number `json:"sinkFiles"`
}

// unlisted adds states of sources and sinks that the truth file has no list of,
// but says enough about.
func (s *truthSnapshot) unlisted() {
	list := func(operator, state, valueType string, entries map[string]any) {
		if o, ok := s.Operators[operator]; ok {
			o.States = maps.Clone(o.States)
			o.States[state] = truthState{Kind: "operator-list", ValueType: valueType, Entries: entries}
			s.Operators[operator] = o
		}
	}
	// Of two subtasks of this source the second is finished; a split has four keys.
	offset := json.Number(strconv.Itoa(4 * s.Rounds))
	list("fin-part", "splits", "Tuple2<Integer,Long>", map[string]any{"0": offset, "2": offset, "4": offset})
	var files []any
	for name, length := range s.SinkFiles {
		files = append(files, fmt.Sprintf("%s=%s", name, length))
	}
	list("filesink", "writer_raw_states", sinkFilesType, map[string]any{"": files})
}

type truthOperator struct {
	OperatorID     string                `json:"operatorId"`
	Parallelism    int32                 `json:"parallelism"`
	MaxParallelism int32                 `json:"maxParallelism"`
	States         map[string]truthState `json:"states"`
}

type truthState struct {
	Kind          string         `json:"kind"`
	KeyType       string         `json:"keyType"`
	NamespaceType string         `json:"namespaceType"`
	ValueType     string         `json:"valueType"`
	TTL           bool           `json:"ttl"`
	Entries       map[string]any `json:"entries"`
	// KeyGroups is the key group by key, where the truth knows it.
	KeyGroups map[string]int `json:"keyGroups"`
}

func readTruth(t *testing.T, path string, into any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// truthTally counts what was compared, of all fixtures or of one family.
type truthTally struct {
	mu                                          sync.Mutex
	fixtures, snapshots, states, elements, cuts int
	opaque, left                                map[string]int
}

func newTruthTally() *truthTally {
	return &truthTally{opaque: map[string]int{}, left: map[string]int{}}
}

func (a *truthTally) add(b *comparer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.snapshots++
	a.states += b.states
	a.elements += b.elements
	a.cuts += b.cut
	for class, n := range b.opaque {
		a.opaque[class] += n
	}
	for why, n := range b.left {
		a.left[why] += n
	}
}

func (a *truthTally) fixture() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fixtures++
}

func (a *truthTally) log(t *testing.T, family string) {
	t.Helper()
	t.Logf("%s: %d fixtures, %d snapshots, %d states, %d entries equal their truth", family, a.fixtures, a.snapshots, a.states, a.elements)
	for _, class := range slices.Sorted(maps.Keys(a.opaque)) {
		t.Logf("%s: %d values of %s compared by class and presence of their bytes only", family, a.opaque[class], class)
	}
	if a.cuts > 0 {
		t.Logf("%s: %d records compared up to a value of unknown length", family, a.cuts)
	}
	for _, why := range slices.Sorted(maps.Keys(a.left)) {
		t.Logf("%s: %d %s", family, a.left[why], why)
	}
}

// fixtureDirs are the directories of the fixtures of a family, which must be there.
func fixtureDirs(t *testing.T, family string, least int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(sharedFixtures(t), family, "*", "*", "truth.json"))
	if err != nil || len(found) < least {
		t.Fatalf("%d fixtures of %s, of at least %d; %v", len(found), family, least, err)
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// caseName is version and name of a fixture.
func caseName(dir string) string {
	return filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir)))
}

// TestTruth decodes every snapshot of every fixture and compares it with what
// the job that wrote it held: each state, key, namespace, timer and element.
func TestTruth(t *testing.T) {
	for _, family := range []struct {
		name  string
		least int
		// shownTTL says that the truth has the last access times.
		shownTTL bool
	}{
		{"flink", 88, false},
		{"extra", 44, false},
		{"sql", 84, true},
	} {
		t.Run(family.name, func(t *testing.T) {
			total := newTruthTally()
			t.Run("cases", func(t *testing.T) {
				for i, dir := range fixtureDirs(t, family.name, family.least) {
					if i%sweepStep != 0 {
						continue
					}
					t.Run(caseName(dir), func(t *testing.T) {
						t.Parallel()
						compareFixture(t, dir, family.shownTTL, total)
					})
				}
			})
			total.log(t, family.name)
		})
	}
}

// compareFixture compares all snapshots of a fixture with its truth.
func compareFixture(t *testing.T, dir string, shownTTL bool, total *truthTally) {
	var truth truthFile
	readTruth(t, filepath.Join(dir, "truth.json"), &truth)
	operators := map[string]map[string]truthOperator{}
	for _, s := range truth.Snapshots {
		s.unlisted()
		operators[s.Dir] = s.Operators
	}
	fsys := newFixtureFS(dir, truth.WrittenAt)
	for _, s := range truth.Snapshots {
		want := operators[s.Dir]
		if s.OperatorsOf != "" {
			want = operators[s.OperatorsOf]
		}
		if len(want) == 0 {
			t.Errorf("%s: no truth", s.Dir)
			continue
		}
		c := newComparer(shownTTL, s.Inflight)
		got, err := readContent(t.Context(), fsys, storage.Join("file:"+filepath.ToSlash(dir), s.Dir))
		if err != nil {
			t.Errorf("%s: %v", s.Dir, err)
			continue
		}
		switch {
		case s.Restorable != nil && !*s.Restorable:
			c.compareDamaged(got)
		default:
			c.compare(want, got)
		}
		for _, d := range c.diffs {
			t.Errorf("%s: %s", s.Dir, d)
		}
		total.add(c)
	}
	total.fixture()
}

// comparer compares snapshots with their truth and counts what it compared.
type comparer struct {
	matcher
	shownTTL, inflight bool
	states, elements   int
	// left counts what was not compared, by reason.
	left map[string]int
}

func newComparer(shownTTL, inflight bool) *comparer {
	return &comparer{matcher: matcher{opaque: map[string]int{}}, shownTTL: shownTTL, inflight: inflight, left: map[string]int{}}
}

// compareDamaged demands that a snapshot which lacks files says which.
func (c *comparer) compareDamaged(got *content) {
	c.left["snapshots that lack files by a fault of Flink's (FLINK-39964); each error named the missing file"]++
	if len(got.missing) == 0 {
		c.diff("snapshot", "no file is missing")
	}
	for _, err := range got.missing {
		if !strings.Contains(err.Error(), "file:/") {
			c.diff("snapshot", "the error names no file: %v", err)
		}
	}
	for _, err := range got.errs {
		c.diff("snapshot", "%v", err)
	}
}

func (c *comparer) compare(want map[string]truthOperator, got *content) {
	for _, err := range slices.Concat(got.errs, got.missing) {
		c.diff("snapshot", "%v", err)
	}
	known := map[string]bool{}
	for name, o := range want {
		known[o.OperatorID] = true
		g := got.operators[o.OperatorID]
		if g == nil {
			if len(o.States) > 0 {
				c.diff(name, "operator %s is not there", o.OperatorID)
			}
			continue
		}
		if g.meta.Parallelism != o.Parallelism || g.meta.MaxParallelism != o.MaxParallelism {
			c.diff(name, "parallelism %d of %d, want %d of %d", g.meta.Parallelism, g.meta.MaxParallelism, o.Parallelism, o.MaxParallelism)
		}
		for state, st := range o.States {
			c.states++
			c.compareState(name+"/"+state, state, st, g)
		}
		c.nothingElse(name, o.States, g)
	}
	for id, g := range got.operators {
		if !known[id] {
			c.nothingElse(id, nil, g)
		}
	}
	if c.inflight && got.channels == 0 {
		c.diff("snapshot", "no data in flight")
	}
}

// nothingElse demands that there are no states with entries but those of the truth.
func (c *comparer) nothingElse(operator string, want map[string]truthState, got *operatorContent) {
	for name, s := range got.keyed {
		if _, ok := want[name]; !ok && len(s.entries) > 0 {
			c.diff(operator, "unexpected keyed state %q of %d entries", name, len(s.entries))
		}
	}
	for name, s := range got.states {
		if _, ok := want[name]; ok || len(s.lists)+len(s.maps) == 0 {
			continue
		}
		if name == committerState {
			c.left["states of a sink's committer, of which the truth says nothing"]++
			continue
		}
		c.diff(operator, "unexpected operator state %q", name)
	}
	if _, ok := want[rawKeyedName]; !ok && len(got.rawKeyed) > 0 {
		c.diff(operator, "unexpected raw keyed state")
	}
	if _, ok := want[rawOperatorName]; !ok && len(got.rawOperator) > 0 {
		c.diff(operator, "unexpected raw operator state")
	}
}

// committerState is what the committer of a sink has to commit still.
const committerState = "streaming_committer_raw_states"

// What the truth calls state that has no name.
const (
	rawKeyedName    = "(raw keyed)"
	rawOperatorName = "(raw operator)"
)

func (c *comparer) compareState(path, name string, want truthState, got *operatorContent) {
	switch want.Kind {
	case "value", "list", "map", "reducing", "aggregating", "timers":
		s := got.keyed[name]
		if s == nil {
			if len(want.Entries) > 0 {
				c.diff(path, "the state is not there")
			}
			return
		}
		c.compareKeyed(path, want, s)
	case "operator-list", "operator-union", "operator-broadcast", "broadcast":
		s := got.states[name]
		if s == nil {
			if len(want.Entries) > 0 {
				c.diff(path, "the state is not there")
			}
			return
		}
		c.compareOperator(path, want, s)
	case "raw-keyed":
		c.compareRawKeyed(path, want, got.rawKeyed)
	case "raw-operator":
		c.compareList(path, want, rawTexts(got.rawOperator))
	case "coordinator":
		c.compareMap(path, want, coordinatorSplits(got.coordinator))
	default:
		c.diff(path, "a kind of state that this test does not know: %q", want.Kind)
	}
}

// sorted sorts a list by the text that the elements have as JSON.
func sorted(list []any, tree func(any) any) []any {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(canon(tree(a)), canon(tree(b))) })
	return list
}

// splitKey cuts the text of a truth's key into key and namespace.
func splitKey(text string, void bool) string {
	if void {
		return normText(text)
	}
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return fmt.Sprintf("%s without a namespace", text)
	}
	return joinKey(normText(text[:at]), normText(text[at+1:]))
}

func joinKey(key, namespace string) string { return key + " in " + namespace }
