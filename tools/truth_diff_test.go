package tools

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// diffedSnapshot is a snapshot whose difference to another one the truth tells.
type diffedSnapshot struct {
	dir, name string
	fsys      fixtureFS
	operators map[string]truthOperator
	got       *content // once it was needed
}

// fixturesFS finds the files of several fixtures.
type fixturesFS struct {
	storage.FS
	fixtures []fixtureFS
}

func (f fixturesFS) Open(ctx context.Context, uri string) (storage.Object, error) {
	for _, x := range f.fixtures {
		o, err := x.Open(ctx, uri)
		if !errors.Is(err, fs.ErrNotExist) {
			return o, err
		}
	}
	return f.FS.Open(ctx, uri)
}

// diffedSnapshots are the snapshots of a family that can be compared as a
// whole, by job: those of a case of SQL in all versions, and elsewhere all with
// the same operators.
func diffedSnapshots(t *testing.T, family string) map[string][]*diffedSnapshot {
	jobs := map[string][]*diffedSnapshot{}
	for _, dir := range fixtureDirs(t, family, 1) {
		for _, s := range snapshotsToDiff(t, dir) {
			job := filepath.Base(dir)
			if family != "sql" {
				var ids []string
				for _, o := range s.operators {
					ids = append(ids, o.OperatorID)
				}
				slices.Sort(ids)
				job = fmt.Sprintf("%x", crc32.ChecksumIEEE([]byte(strings.Join(ids, " "))))
			}
			jobs[job] = append(jobs[job], s)
		}
	}
	if family == "sql" && os.Getenv("DREY_LONG") != "1" {
		for job, list := range jobs {
			jobs[job] = ends(list)
		}
	}
	return jobs
}

// snapshotsToDiff are those of a fixture that can be compared as a whole.
func snapshotsToDiff(t *testing.T, dir string) []*diffedSnapshot {
	var truth truthFile
	readTruth(t, filepath.Join(dir, "truth.json"), &truth)
	operators := map[string]map[string]truthOperator{}
	var snapshots []*diffedSnapshot
	for _, s := range truth.Snapshots {
		operators[s.Dir] = s.Operators
		if s.OperatorsOf != "" {
			operators[s.Dir] = operators[s.OperatorsOf]
		}
		if !s.Inflight && (s.Restorable == nil || *s.Restorable) {
			snapshots = append(snapshots, &diffedSnapshot{
				dir: dir, name: s.Dir, fsys: newFixtureFS(dir, truth.WrittenAt), operators: operators[s.Dir],
			})
		}
	}
	return snapshots
}

// ends are the first and the last snapshot of each version: a canonical
// savepoint and, as a rule, an incremental checkpoint.
func ends(list []*diffedSnapshot) []*diffedSnapshot {
	var out []*diffedSnapshot
	for i, s := range list {
		if i == 0 || i == len(list)-1 || s.version() != list[i-1].version() || s.version() != list[i+1].version() {
			out = append(out, s)
		}
	}
	return out
}

func (s *diffedSnapshot) uri() string { return storage.Join("file:"+filepath.ToSlash(s.dir), s.name) }

func (s *diffedSnapshot) String() string { return caseName(s.dir) + "/" + filepath.Base(s.name) }

// version is the version of Flink.
func (s *diffedSnapshot) version() string { return filepath.Base(filepath.Dir(s.dir)) }

// content decodes the snapshot.
func (s *diffedSnapshot) content(ctx context.Context) (*content, error) {
	if s.got != nil {
		return s.got, nil
	}
	opened, err := Open(ctx, s.fsys, s.uri())
	if err == nil {
		s.got = decodeContent(ctx, s.fsys, opened)
	}
	return s.got, err
}

// TestTruthDiff compares snapshots of the same job, in all formats and by
// several Flink versions, one with the next: what differs must be what differs
// in their truth, entry by entry.
func TestTruthDiff(t *testing.T) {
	for _, family := range []struct {
		name     string
		shownTTL bool
	}{{"flink", false}, {"extra", false}, {"sql", true}} {
		jobs := diffedSnapshots(t, family.name)
		counts := &diffTally{left: map[string]int{}}
		t.Run(family.name, func(t *testing.T) {
			for i, job := range slices.Sorted(maps.Keys(jobs)) {
				if i%sweepStep != 0 {
					continue
				}
				snapshots := jobs[job]
				t.Run(job, func(t *testing.T) {
					t.Parallel()
					for i := range snapshots[1:] {
						compareDiff(t, snapshots[i], snapshots[i+1], family.shownTTL, counts)
						snapshots[i].got = nil
					}
				})
			}
		})
		t.Logf("%s: %d pairs of snapshots, of which %d are equal; %d entries of the others differ as their truth does", family.name, counts.pairs, counts.equal, counts.entries)
		for why, n := range counts.left {
			t.Logf("%s: %d %s", family.name, n, why)
		}
	}
}

func compareDiff(t *testing.T, from, to *diffedSnapshot, shownTTL bool, counts *diffTally) {
	pair := fmt.Sprintf("%s to %s", from, to)
	fsys := fixturesFS{storage.NewLocal(storage.LocalOptions{}), []fixtureFS{from.fsys, to.fsys}}
	var opened [2]*Snapshot
	for i, s := range []*diffedSnapshot{from, to} {
		var err error
		if opened[i], err = Open(t.Context(), fsys, s.uri()); err != nil {
			t.Fatal(err)
		}
	}
	var differences []*Difference
	d, err := DiffState(t.Context(), fsys, opened[0], opened[1], DiffStateOptions{IgnoreTTL: !shownTTL, Limit: -1, Jobs: 1}, func(x *Difference) error {
		differences = append(differences, x)
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", pair, err)
		return
	}
	for _, p := range slices.Concat(d.OldProblems, d.NewProblems) {
		t.Errorf("%s: %v", pair, p)
	}
	want := wantedDiff(from.operators, to.operators)
	got, err := namedDiff(t.Context(), differences, from, to)
	if err != nil {
		t.Errorf("%s: %v", pair, err)
		return
	}
	entries, equal := 0, true
	for state, w := range want {
		equal = equal && len(w) == 0
		i := slices.IndexFunc(d.States, func(c StateChange) bool { return c.Operator.String()+"/"+c.State == state })
		switch {
		case i < 0 && len(w) > 0:
			t.Errorf("%s: %s: no differences, want %v", pair, state, w)
		case i < 0:
		case from.version() != to.version() && undecodable(state, from, to):
			counts.skip("states with values that versions of Kryo or of a sink write differently")
		default:
			entries += len(w)
			c := &d.States[i]
			if n := c.Added + c.Removed + c.Changed; n != int64(len(w)) {
				t.Errorf("%s: %s: %d added, %d removed, %d changed, want %d", pair, state, c.Added, c.Removed, c.Changed, len(w))
			} else if !maps.Equal(w, got[state]) && !isElementList(c.Type) {
				t.Errorf("%s: %s: differences %v, want %v", pair, state, got[state], w)
			}
		}
	}
	counts.add(equal, entries)
}

// undecodable says that values of a state are compared by their bytes.
func undecodable(state string, snapshots ...*diffedSnapshot) bool {
	for _, s := range snapshots {
		for _, o := range s.operators {
			for name, st := range o.States {
				if o.OperatorID+"/"+name != state {
					continue
				}
				for _, part := range []string{"GenericType<", "Kryo(", "Duration", "ZonedDateTime", "CommittableCollector"} {
					if strings.Contains(st.ValueType, part) {
						return true
					}
				}
			}
		}
	}
	return false
}

// namedDiff is the kind of change by entry, as the truth names it, by state.
func namedDiff(ctx context.Context, differences []*Difference, snapshots ...*diffedSnapshot) (map[string]map[string]string, error) {
	index := map[string]string{}
	for _, s := range snapshots {
		if len(differences) == 0 {
			return nil, nil
		}
		got, err := s.content(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range s.operators {
			if g := got.operators[o.OperatorID]; g != nil {
				indexEntries(index, o, g)
			}
		}
	}
	named := map[string]map[string]string{}
	for _, x := range differences {
		state, id := x.Operator.String()+"/"+x.State, string(x.Key)
		if x.KeyGroup >= 0 {
			timestamp := int64(0)
			if x.Timestamp != nil {
				timestamp = *x.Timestamp
			}
			id = index[indexKey(state, string(x.Key), string(x.Namespace), string(x.UserKey), timestamp)]
		}
		if named[state] == nil {
			named[state] = map[string]string{}
		}
		named[state][id] += x.Change
	}
	return named, nil
}

// diffTally counts what was compared.
type diffTally struct {
	mu                    sync.Mutex
	pairs, equal, entries int
	left                  map[string]int
}

func (c *diffTally) skip(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[why]++
}

func (c *diffTally) add(equal bool, entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pairs++
	c.entries += entries
	if equal {
		c.equal++
	}
}

// isElementList says that a state is a list of elements without keys, of which only the number can be compared.
func isElementList(mode string) bool {
	return mode == metadata.ModeSplit.String() || mode == metadata.ModeUnion.String()
}

// wantedDiff is how the truth of two snapshots differs: the kind of change by
// entry, by state.
func wantedDiff(from, to map[string]truthOperator) map[string]map[string]string {
	old, now := flattened(from), flattened(to)
	diff := map[string]map[string]string{}
	for _, states := range []map[string]map[string]string{old, now} {
		for state := range states {
			diff[state] = map[string]string{}
		}
	}
	for state, d := range diff {
		for id, v := range old[state] {
			switch w, ok := now[state][id]; {
			case !ok:
				d[id] = changeRemoved
			case v != w:
				d[id] = changeChanged
			}
		}
		for id := range now[state] {
			if _, ok := old[state][id]; !ok {
				d[id] = changeAdded
			}
		}
	}
	return diff
}

// flattened gives the value of each entry by its identity, by state.
func flattened(operators map[string]truthOperator) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, o := range operators {
		for name, s := range o.States {
			switch s.Kind {
			case "raw-keyed", "raw-operator", "coordinator":
				continue // in no file of a state backend
			}
			entries := map[string]string{}
			out[o.OperatorID+"/"+name] = entries
			for text, v := range s.Entries {
				flatten(entries, s, text, v)
			}
		}
	}
	return out
}

func flatten(entries map[string]string, s truthState, text string, v any) {
	key := splitKey(text, s.NamespaceType == voidNamespace)
	switch s.Kind {
	case "map":
		for k, e := range v.(map[string]any) {
			entries[key+" / "+normText(k)] = canon(e)
		}
	case "timers":
		for _, ts := range v.([]any) {
			entries[key+" / "+canon(ts)] = ""
		}
	case "operator-list", "operator-union":
		list, ok := v.([]any)
		if !ok || text != "" {
			list = []any{[]any{text, v}}
		}
		for _, e := range list {
			n := 0
			for entries[fmt.Sprint(canon(e), n)] != "" {
				n++
			}
			entries[fmt.Sprint(canon(e), n)] = "there"
		}
	case "operator-broadcast", "broadcast":
		entries[string(serializer.AppendJSON(nil, text))] = canon(v)
	default:
		entries[key] = canon(v)
	}
}

func indexKey(state, key, namespace, userKey string, timestamp int64) string {
	return fmt.Sprint(state, " ", key, " ", namespace, " ", userKey, " ", timestamp)
}

// indexEntries maps what a difference names an entry by to its identity in the truth.
func indexEntries(index map[string]string, want truthOperator, got *operatorContent) {
	for name, s := range got.keyed {
		st, ok := want.States[name]
		if !ok {
			continue
		}
		for _, e := range s.entries {
			id, user, namespace := keyText(st, e), "", ""
			switch s.typ {
			case backend.TypeMap:
				id += " / " + notationOf(st.ValueType).text(e.userKey)
				user = string(serializer.AppendJSON(nil, e.userKey))
			case backend.TypeTimers:
				id += fmt.Sprint(" / ", e.timestamp)
			}
			if st.NamespaceType != voidNamespace {
				namespace = string(serializer.AppendJSON(nil, e.namespace))
			}
			index[indexKey(want.OperatorID+"/"+name, string(serializer.AppendJSON(nil, e.key)), namespace, user, e.timestamp)] = id
		}
	}
}
