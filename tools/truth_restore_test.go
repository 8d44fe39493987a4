package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// anyKey is a key of any type, as its bytes.
type anyKey struct{ bytes string }

// anyKeys is the codec of keys that have a snapshot.
type anyKeys struct {
	snapshot *serializer.Snapshot
	of       serializer.Serializer
}

func (k anyKeys) Snapshot() *serializer.Snapshot           { return k.snapshot }
func (k anyKeys) Len() int                                 { return k.of.Len() }
func (k anyKeys) Write(out *serializer.Output, key anyKey) { out.Raw([]byte(key.bytes)) }

func (k anyKeys) Read(in *serializer.Input) anyKey {
	in.Mark()
	k.of.Skip(in)
	return anyKey{string(in.Marked())}
}

// rescaled is the keyed state of an operator of a snapshot, which is restored with other parallelism.
type rescaled struct {
	key            anyKeys
	maxParallelism int
	// hash is that of the keys' class, of which the key groups say all that is needed; nil where it follows from the serializer.
	hash func(anyKey) int32
	// subtasks are the handles by the subtasks that wrote them.
	subtasks []subtaskHandles
	files    backend.Files
}

type subtaskHandles struct {
	groups keygroup.Range
	backend.Handles
}

// choose gives the handles that a subtask of these key groups restores.
func (r *rescaled) choose(groups keygroup.Range) (h backend.Handles) {
	for _, s := range r.subtasks {
		if !s.groups.Intersect(groups).Empty() {
			h.Managed, h.Raw = append(h.Managed, s.Managed...), append(h.Raw, s.Raw...)
		}
	}
	return h
}

// newRescaled gives the keyed state of an operator, nil if it has none.
func newRescaled(ctx context.Context, files backend.Files, o *metadata.Operator) (*rescaled, error) {
	r := &rescaled{maxParallelism: int(o.MaxParallelism), files: files}
	groups := map[string]int{}
	for _, sub := range o.Subtasks {
		if sub.State == nil {
			continue
		}
		s := subtaskHandles{groups: keygroup.RangeOf(int(sub.Index), int(o.MaxParallelism), int(o.Parallelism))}
		for raw, h := range []metadata.Keyed{sub.State.ManagedKeyed, sub.State.RawKeyed} {
			if h == nil {
				continue
			}
			reader, err := backend.OpenKeyed(ctx, files, h, backend.Options{MaxParallelism: r.maxParallelism, Raw: raw == 1})
			if err != nil {
				return nil, err
			}
			defer reader.Close()
			switch {
			case raw == 0:
				s.Managed = append(s.Managed, h)
			case reader.Format() == "raw timers":
				s.Raw = append(s.Raw, h)
			default:
				continue // it is the operator's
			}
			for _, state := range reader.States() {
				if k := state.Parts().Key; k != nil && r.key.snapshot == nil {
					r.key = anyKeys{k, serializer.Of(k)}
				}
			}
			for e, err := range reader.Entries(ctx, backend.Filter{}) {
				if err != nil {
					return nil, err
				}
				if e.Unsplit || e.Joined {
					return nil, fmt.Errorf("state %q: %w", e.State.Meta.Name, errUnsplit)
				}
				groups[string(e.Key)] = e.KeyGroup
			}
		}
		r.subtasks = append(r.subtasks, s)
	}
	if len(groups) == 0 {
		return nil, nil
	}
	if _, err := backend.HashFunc(r.key); err != nil {
		hashes := map[int]int32{} // one of each key group
		for h := int32(0); len(hashes) < r.maxParallelism; h++ {
			hashes[keygroup.ForHash(h, r.maxParallelism)] = h
		}
		r.hash = func(k anyKey) int32 { return hashes[groups[k.bytes]] }
	}
	return r, nil
}

var errUnsplit = errors.New("key and namespace can't be told apart")

// opener opens a backend for the keys of an operator.
type opener func(r *rescaled, groups keygroup.Range) (backend.Keyed[anyKey], error)

func openHeap(*testing.T) opener {
	return func(r *rescaled, groups keygroup.Range) (backend.Keyed[anyKey], error) {
		return heap.Open(r.key, heap.Options[anyKey]{MaxParallelism: r.maxParallelism, KeyGroups: groups, Hash: r.hash})
	}
}

func openPebble(timers pebble.TimerStore) func(*testing.T) opener {
	return func(t *testing.T) opener {
		memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(memory.Close)
		dir, n := t.TempDir(), 0
		return func(r *rescaled, groups keygroup.Range) (backend.Keyed[anyKey], error) {
			n++
			return pebble.Open(r.key, pebble.Options[anyKey]{
				MaxParallelism: r.maxParallelism, KeyGroups: groups, Hash: r.hash, Timers: timers,
				Dir: filepath.Join(dir, strconv.Itoa(n)), Memory: memory,
			})
		}
	}
}

// restore restores the operator with a parallelism, calls see for each subtask, and gives what they write.
func (r *rescaled) restore(ctx context.Context, open opener, parallelism int, format backend.Format, see func(backend.Keyed[anyKey]) error) (*rescaled, error) {
	next := *r
	next.subtasks = nil
	fs := storage.NewMemory()
	next.files = backend.Files{FS: fs, Dir: "mem://next"}
	one := func(groups keygroup.Range) (err error) {
		b, err := open(r, groups)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		if err := b.Restore(ctx, r.files, r.choose(groups)); err != nil {
			return err
		}
		if err := see(b); err != nil {
			return err
		}
		s, err := b.Snapshot(1, backend.SnapshotOptions{Format: format})
		if err != nil {
			return err
		}
		h, err := s.Write(ctx, backend.Target{FS: fs, Dir: "mem://next"})
		if err != nil {
			return err
		}
		written := subtaskHandles{groups: groups}
		if h != nil {
			written.Managed = []metadata.Keyed{h}
		}
		if raw := s.Raw(); raw != nil {
			written.Raw = []metadata.Keyed{raw}
		}
		next.subtasks = append(next.subtasks, written)
		return nil
	}
	for i := range parallelism {
		if err := one(keygroup.RangeOf(i, r.maxParallelism, parallelism)); err != nil {
			return nil, fmt.Errorf("subtask %d of %d: %w", i, parallelism, err)
		}
	}
	return &next, nil
}

// restored puts what a backend holds in place of what was read.
func (c *content) restored(into *operatorContent, b backend.Keyed[anyKey], key *serializer.Snapshot) error {
	for _, meta := range b.States() {
		if s := backend.NewState(&meta, key); into.keyed[meta.Name] == nil {
			into.keyed[meta.Name] = &keyedContent{typ: s.Type, ttl: s.TTL}
		}
	}
	for e, err := range b.Entries("", b.KeyGroups()) {
		if err != nil {
			return err
		}
		if g := b.KeyGroups(); e.KeyGroup < g.Start || e.KeyGroup > g.End {
			return fmt.Errorf("key group %d in a backend of %v", e.KeyGroup, g)
		}
		subtask := e.KeyGroup * int(into.meta.Parallelism) / int(into.meta.MaxParallelism)
		to := into.keyed[e.State.Meta.Name]
		copied := *e
		copied.Key, copied.Namespace, copied.UserKey, copied.Value = bytes.Clone(e.Key), bytes.Clone(e.Namespace), bytes.Clone(e.UserKey), bytes.Clone(e.Value)
		to.entries = append(to.entries, c.decodeEntry("restored", subtask, &copied))
	}
	return nil
}

// restoreTally counts what was restored.
type restoreTally struct {
	truthTally
	operators, backends int
	skipped             map[string]int
}

// restoreSnapshot restores the keyed state of a snapshot into backends, with the parallelisms one after the other, each from what those
// before it wrote, and with a small max parallelism also with that, and compares what they hold with the truth each time.
func restoreSnapshot(t *testing.T, dir, writtenAt, snapshot string, first, second opener, parallelisms []int, shownTTL, inflight bool, want map[string]truthOperator, total *restoreTally) {
	t.Helper()
	ctx := t.Context()
	fsys := newFixtureFS(dir, writtenAt)
	s, err := Open(ctx, fsys, storage.Join("file:"+filepath.ToSlash(dir), snapshot))
	if err != nil {
		t.Error(err)
		return
	}
	files := backend.Files{FS: fsys, Dir: s.Dir}
	read := decodeContent(ctx, fsys, s)
	if len(read.errs)+len(read.missing) > 0 {
		t.Errorf("%s: %v, %v", snapshot, read.errs, read.missing)
		return
	}
	most := int32(0)
	for i := range s.Operators {
		most = max(most, s.Operators[i].MaxParallelism)
	}
	if most <= 16 {
		parallelisms = append(slices.Clone(parallelisms), int(most))
	}
	var at []*content
	for range parallelisms {
		c := *read
		c.operators = map[string]*operatorContent{}
		for id, o := range read.operators {
			again := *o
			again.keyed = map[string]*keyedContent{}
			c.operators[id] = &again
		}
		at = append(at, &c)
	}
	formats := []backend.Format{backend.FormatFull, backend.FormatRocksDB, backend.FormatCanonical}
	for i := range s.Operators {
		o := &s.Operators[i]
		r, err := newRescaled(ctx, files, o)
		if errors.Is(err, errUnsplit) {
			total.skip(err.Error())
			for j := range at {
				at[j].operators[o.ID.String()].keyed = read.operators[o.ID.String()].keyed
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: operator %s: %v", snapshot, o.ID, err)
			return
		}
		if r == nil {
			continue
		}
		for j, parallelism := range parallelisms {
			open := first
			if j%2 == 1 {
				open = second
			}
			parallelism = min(parallelism, r.maxParallelism)
			total.count(parallelism)
			r, err = r.restore(ctx, open, parallelism, formats[(i+j)%3], func(b backend.Keyed[anyKey]) error {
				return at[j].restored(at[j].operators[o.ID.String()], b, r.key.snapshot)
			})
			if j > 0 && errors.Is(err, serializer.ErrUnsupported) {
				// In a full checkpoint of the heap only Flink finds the end of a value of Kryo, nor are its lists written.
				total.skip("a full checkpoint of the heap with values of Kryo")
				at[j].operators[o.ID.String()].keyed = read.operators[o.ID.String()].keyed
				break
			}
			if err != nil {
				t.Errorf("%s: operator %s, parallelism %d: %v", snapshot, o.ID, parallelism, err)
				return
			}
		}
	}
	for j := range at {
		c := newComparer(shownTTL, inflight)
		c.compare(want, at[j])
		for _, d := range c.diffs {
			t.Errorf("%s: restored with parallelism %d: %s", snapshot, parallelisms[j], d)
		}
		total.add(c)
	}
}

func (a *restoreTally) skip(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.skipped[why]++
}

func (a *restoreTally) count(backends int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.operators++
	a.backends += backends
}

// TestTruthRestored restores the keyed state of every snapshot of every fixture into backends of both kinds, with other
// parallelisms, and compares what they hold with what the job held.
func TestTruthRestored(t *testing.T) {
	for _, kind := range []struct {
		name          string
		first, second func(*testing.T) opener
		parallelisms  []int
	}{
		{"heap", openHeap, openPebble(pebble.TimersOnHeap), []int{3, 1}},
		{"pebble", openPebble(pebble.TimersInDatabase), openHeap, []int{1, 3}},
	} {
		for _, family := range []struct {
			name     string
			least    int
			shownTTL bool
		}{
			{"flink", 88, false}, {"extra", 44, false}, {"sql", 84, true}, {"old", 46, false},
		} {
			t.Run(kind.name+" "+family.name, func(t *testing.T) {
				total := &restoreTally{truthTally: *newTruthTally(), skipped: map[string]int{}}
				t.Run("cases", func(t *testing.T) {
					for i, dir := range fixtureDirs(t, family.name, family.least) {
						if i%sweepStep != 0 {
							continue
						}
						t.Run(caseName(dir), func(t *testing.T) {
							t.Parallel()
							restoreFixture(t, dir, family.name == "old", kind.first(t), kind.second(t), kind.parallelisms, family.shownTTL, total)
						})
					}
				})
				total.log(t, family.name)
				t.Logf("%d operators were restored into %d backends; not restored: %v", total.operators, total.backends, total.skipped)
				if total.operators == 0 {
					t.Error("nothing was restored")
				}
			})
		}
	}
}

func restoreFixture(t *testing.T, dir string, old bool, first, second opener, parallelisms []int, shownTTL bool, total *restoreTally) {
	total.fixture()
	if old {
		var truth oldTruth
		readTruth(t, filepath.Join(dir, "truth.json"), &truth)
		for _, s := range truth.Snapshots {
			restoreSnapshot(t, dir, truth.WrittenAt, s.Path, first, second, parallelisms, false, false, s.operators(&truth), total)
		}
		return
	}
	var truth truthFile
	readTruth(t, filepath.Join(dir, "truth.json"), &truth)
	operators := map[string]map[string]truthOperator{}
	for _, s := range truth.Snapshots {
		s.unlisted()
		operators[s.Dir] = s.Operators
	}
	for _, s := range truth.Snapshots {
		want := operators[s.Dir]
		if s.OperatorsOf != "" {
			want = operators[s.OperatorsOf]
		}
		if s.Restorable != nil && !*s.Restorable {
			continue // files are missing
		}
		restoreSnapshot(t, dir, truth.WrittenAt, s.Dir, first, second, parallelisms, shownTTL, s.Inflight, want, total)
	}
}
