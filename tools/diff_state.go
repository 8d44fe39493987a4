package tools

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// DiffStateOptions are the options of [DiffState]; the zero value is the default.
type DiffStateOptions struct {
	Selection
	// IgnoreTTL leaves times of last access out of the comparison.
	IgnoreTTL bool
	// Limit is how many differences of each state are shown; 0 means none, negative all.
	Limit int
	// Jobs is the number of goroutines that compare; 0 means one for each CPU.
	Jobs int
	// Progress, if not nil, is told how many bytes of state were read, and how
	// many there are to read at least. It is called from several goroutines.
	Progress func(done, total int64)

	budget int // entries in all tables; 0 means diffBudget
}

const (
	// diffBudget is how many entries the tables of all workers hold at most, some 50 bytes each.
	diffBudget = 2 << 20
	// diffPending is how many bytes of values a worker holds until it looks for what they were before.
	diffPending = 8 << 20
)

// StateDiff is how the state of two snapshots differs.
type StateDiff struct {
	Old string `json:"old"`
	New string `json:"new"`
	// Different is the answer as far as state could be read.
	Different bool `json:"different"`
	// States are all that were compared, in the order of the old snapshot.
	States []StateChange `json:"states"`
	// OldProblems and NewProblems are state that could not be read. What may be
	// in it on one side is no difference if it is only on the other.
	OldProblems []*StateProblem `json:"oldProblems,omitempty"`
	NewProblems []*StateProblem `json:"newProblems,omitempty"`
}

// StateChange is how one state differs.
type StateChange struct {
	Operator metadata.OperatorID `json:"operatorId"`
	Name     string              `json:"name,omitempty"`
	UID      string              `json:"uid,omitempty"`
	State    string              `json:"state"`
	Type     string              `json:"type"`
	// Old and New are the numbers of entries. Elements of union and broadcast
	// state count once, however many subtasks have them.
	Old int64 `json:"old"`
	New int64 `json:"new"`
	// Added, Removed and Changed are entries by key, for list-like operator state by value.
	Added   int64 `json:"added"`
	Removed int64 `json:"removed"`
	Changed int64 `json:"changed"`
	// Note says if the serializers differ, so that decoded values were compared.
	Note string `json:"note,omitempty"`
}

// Different says that there is a difference.
func (c *StateChange) Different() bool { return c.Added+c.Removed+c.Changed > 0 }

// Difference is one entry that differs.
type Difference struct {
	Operator metadata.OperatorID `json:"operatorId"`
	Name     string              `json:"name,omitempty"`
	UID      string              `json:"uid,omitempty"`
	State    string              `json:"state"`
	// Change is "added", "removed" or "changed".
	Change string `json:"change"`
	// KeyGroup is -1 for operator state.
	KeyGroup int `json:"keyGroup"`
	// Key, Namespace, UserKey, Old and New are JSON; "" for none.
	Key       rawJSON `json:"key,omitempty"`
	Namespace rawJSON `json:"namespace,omitempty"`
	UserKey   rawJSON `json:"userKey,omitempty"`
	// Timestamp of a timer, in milliseconds since 1970.
	Timestamp *int64  `json:"timestamp,omitempty"`
	Old       rawJSON `json:"old,omitempty"`
	New       rawJSON `json:"new,omitempty"`
}

const (
	changeAdded   = "added"
	changeRemoved = "removed"
	changeChanged = "changed"
)

// The sides of a comparison.
const (
	sideOld = iota
	sideNew
	sides
)

// DiffState compares the state of two snapshots by operator, state, key,
// namespace and user key, whatever formats they have, and tells show of
// differences up to the limit, in a fixed order. An error of show ends it. Memory does not depend on the
// size of the state: it goes through it key group by key group with tables of hashes.
func DiffState(ctx context.Context, fsys storage.FS, old, new *Snapshot, o DiffStateOptions, show func(*Difference) error) (*StateDiff, error) {
	d := &differ{o: o, total: &StateDiff{Old: old.URI, New: new.URI, States: []StateChange{}}}
	if err := d.plan(fsys, old, new); err != nil {
		return nil, err
	}
	jobs := stateJobs(o.Jobs)
	if d.budget = o.budget; d.budget == 0 {
		d.budget = diffBudget
	}
	d.budget = max(1, d.budget/jobs)
	d.tables = newFreeList[keyedTable](jobs)
	index := map[changeKey]int{}
	shown := map[changeKey]int{}
	var problems [sides]problemList
	err := ordered.Each(ctx, jobs, len(d.chunks), d.compare, func(n int, r chunkResult) error {
		c := d.chunks[n]
		for _, s := range r.states {
			k := changeKey{c.op.ID, s.State}
			i, ok := index[k]
			if !ok {
				i = len(d.total.States)
				index[k] = i
				d.total.States = append(d.total.States, StateChange{
					Operator: c.op.ID, Name: c.op.Name.String(), UID: c.op.UID.String(), State: s.State, Type: s.Type,
				})
			}
			d.total.States[i].add(s)
		}
		for side, list := range r.problems {
			for _, p := range list {
				problems[side].add(p.u, p.StateProblem)
			}
		}
		for i := range r.differences {
			x := &r.differences[i]
			k := changeKey{c.op.ID, x.State}
			if shown[k]++; o.Limit >= 0 && shown[k] > o.Limit {
				continue
			}
			x.Operator, x.Name, x.UID = c.op.ID, c.op.Name.String(), c.op.UID.String()
			if err := show(x); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range d.total.States {
		d.total.Different = d.total.Different || d.total.States[i].Different()
	}
	d.total.OldProblems, d.total.NewProblems = problems[sideOld].list, problems[sideNew].list
	if len(d.total.States)+len(d.total.OldProblems)+len(d.total.NewProblems) == 0 && o.narrow() {
		return nil, errNothingCompared
	}
	return d.total, nil
}

// errNothingCompared keeps a name that was mistyped from being taken for equality.
var errNothingCompared = errors.New("nothing to compare: neither snapshot has a state of this name in these key groups; `drey dump --count` lists the states")

// narrow says that states or key groups were named, of which there may be none.
func (o *DiffStateOptions) narrow() bool {
	return len(o.KeyGroups) > 0 || slices.ContainsFunc(o.States, func(name string) bool { return name != "*" })
}

type changeKey struct {
	op    metadata.OperatorID
	state string
}

func (c *StateChange) add(o *StateChange) {
	c.Old += o.Old
	c.New += o.New
	c.Added += o.Added
	c.Removed += o.Removed
	c.Changed += o.Changed
	if c.Note == "" {
		c.Note = o.Note
	}
}

// differ compares two snapshots.
type differ struct {
	o       DiffStateOptions
	budget  int // entries of one worker
	readers [sides]*stateReader
	chunks  []*chunk
	tables  freeList[keyedTable] // that workers have done with
	total   *StateDiff
}

// chunk is what one worker compares: some key groups of an operator, or its operator state.
type chunk struct {
	op    *metadata.Operator // of one of the snapshots
	keyed bool
	parts [sides][]part
}

// chunkResult is what was found in a chunk.
type chunkResult struct {
	states      []*StateChange
	differences []Difference
	problems    [sides][]unitProblem
}

type unitProblem struct {
	u *unit
	*StateProblem
}

// plan pairs the operators and cuts their state into chunks.
func (d *differ) plan(fsys storage.FS, old, new *Snapshot) error {
	var ops [sides][]*metadata.Operator
	var failed [sides]error
	for side, s := range []*Snapshot{old, new} {
		// A name need only be known on one side.
		for _, name := range selectEach(d.o.Operators) {
			sel := d.o.Selection
			sel.Operators = name
			list, err := sel.operators(s.Snapshot)
			if err != nil {
				failed[side] = err
			}
			ops[side] = append(ops[side], list...)
		}
		d.readers[side] = readerOf(fsys, s, d.o.Selection, d.o.Jobs)
	}
	if failed[sideOld] != nil && failed[sideNew] != nil {
		return failed[sideOld]
	}
	pairs := pairOperators(ops[sideOld], ops[sideNew])
	for _, pair := range pairs {
		d.planPair(pair)
	}
	if d.o.Progress != nil {
		var done atomic.Int64
		total := d.readers[sideOld].total + d.readers[sideNew].total
		for _, r := range d.readers {
			r.progress = func(n int64) { d.o.Progress(done.Add(n), total) }
		}
	}
	return nil
}

// selectEach gives the names one by one, or one empty list for all.
func selectEach(names []string) [][]string {
	if len(names) == 0 {
		return [][]string{nil}
	}
	var list [][]string
	for _, n := range names {
		list = append(list, []string{n})
	}
	return list
}

// pairOperators pairs the operators by id, in the order of the old ones, then
// of those that are new.
func pairOperators(old, new []*metadata.Operator) [][sides]*metadata.Operator {
	var pairs [][sides]*metadata.Operator
	index := map[metadata.OperatorID]int{}
	for side, list := range [][]*metadata.Operator{old, new} {
		for _, o := range list {
			i, ok := index[o.ID]
			if !ok {
				i = len(pairs)
				index[o.ID] = i
				pairs = append(pairs, [sides]*metadata.Operator{})
			}
			pairs[i][side] = o
		}
	}
	return pairs
}

func (d *differ) planPair(pair [sides]*metadata.Operator) {
	op := pair[sideOld]
	if op == nil || op.UID == "" && pair[sideNew] != nil {
		op = pair[sideNew] // newer metadata has names
	}
	var units [sides][]*unit
	groups := 0
	same := true
	for side, o := range pair {
		if o == nil {
			continue
		}
		units[side] = unitsOf(d.readers[side].snapshot.Dir, o, d.o.keyedOnly())
		same = same && o.MaxParallelism == op.MaxParallelism
		groups = max(groups, int(o.MaxParallelism))
		for _, u := range units[side] {
			d.readers[side].total += u.bytes
		}
	}
	var ranges []keygroup.Range
	step := (groups + mostParts - 1) / mostParts
	if !same {
		step = groups // the same key is in different groups
	}
	for _, r := range intersectAll(keygroup.Range{End: groups - 1}, d.o.KeyGroups) {
		for g := r.Start; g <= r.End; g += step {
			ranges = append(ranges, keygroup.Range{Start: g, End: min(r.End, g+step-1)})
		}
	}
	list := make([]*chunk, len(ranges), len(ranges)+1)
	for i := range list {
		list[i] = &chunk{op: op, keyed: true}
	}
	rest := &chunk{op: op}
	for side := range units {
		for _, u := range units[side] {
			if u.keyed == nil {
				u.parts.Add(1)
				rest.parts[side] = append(rest.parts[side], part{unit: u, groups: keygroup.Range{End: -1}})
				continue
			}
			for i, r := range ranges {
				if r = r.Intersect(keyedRange(u.keyed)); !r.Empty() {
					u.parts.Add(1)
					list[i].parts[side] = append(list[i].parts[side], part{unit: u, groups: r})
				}
			}
		}
	}
	for _, c := range append(list, rest) {
		if len(c.parts[sideOld])+len(c.parts[sideNew]) > 0 {
			d.chunks = append(d.chunks, c)
		}
	}
}

// worker compares one chunk.
type worker struct {
	*differ
	*chunk
	ctx    context.Context
	send   func(chunkResult) error
	result chunkResult
	states map[string]*comparedState
	bytes  int // of differences in result
	told   [sides]bool
	// lacking says that a handle could not be opened; it is told for one chunk only.
	lacking [sides]bool
	buf     []byte
}

// comparedState is a state of a chunk.
type comparedState struct {
	*StateChange
	id    uint32
	shown int
	// texts says that keys (of broadcast state too), and elements of operator state, are compared decoded.
	texts bool
	// snapshots are those of the serializers, as bytes, by side; nil if the state is not there.
	snapshots [sides][]byte
}

// compare is the work of [DiffState] on one chunk.
func (d *differ) compare(ctx context.Context, n int, send func(chunkResult) error) error {
	c := d.chunks[n]
	defer func() {
		for _, parts := range c.parts {
			for _, p := range parts {
				p.release()
			}
		}
	}()
	w := &worker{differ: d, chunk: c, ctx: ctx, send: send, states: map[string]*comparedState{}}
	w.describe()
	var err error
	if c.keyed {
		err = w.compareKeyed()
	} else {
		err = w.compareElements()
	}
	if err != nil {
		return err
	}
	return send(w.result)
}

// describe finds out which states there are and how to compare them.
func (w *worker) describe() {
	for side, parts := range w.parts {
		r := w.readers[side]
		for _, p := range parts {
			if p.open(w.ctx, r.files, r.progress) != nil {
				w.lacking[side] = true
				continue // scan tells
			}
			if p.keyed != nil {
				for _, s := range p.keys.States() {
					if r.states.match(s.Meta.Name) {
						w.state(s.Meta.Name, string(s.Type)).describe(side, s.Meta)
					}
				}
				continue
			}
			for _, s := range p.elements.States() {
				if r.states.match(s.Name) {
					w.state(s.Name, s.Mode.String()).describe(side, s.Meta)
				}
			}
		}
	}
	for _, s := range w.states {
		both := s.snapshots[sideOld] != nil && s.snapshots[sideNew] != nil
		if both && string(s.snapshots[sideOld]) != string(s.snapshots[sideNew]) {
			s.Note = "the serializers differ; decoded values were compared"
			s.texts = true
		}
		for _, text := range s.snapshots {
			s.texts = s.texts || ambiguous(string(text), !w.keyed)
		}
	}
}

// state gives the state of a name.
func (w *worker) state(name, kind string) *comparedState {
	s := w.states[name]
	if s == nil {
		s = &comparedState{StateChange: &StateChange{State: name, Type: kind}, id: uint32(len(w.states))}
		w.states[name] = s
		w.result.states = append(w.result.states, s.StateChange)
	}
	return s
}

func (s *comparedState) describe(side int, m *backend.StateMeta) {
	if m == nil || s.snapshots[side] != nil {
		return
	}
	s.snapshots[side] = snapshotBytes(m, nil)
}

// ambiguous says that a serializer of these snapshots writes equal values in
// different bytes: BigInteger has two forms of 0, 1 and 10, and a map that is
// one value has the order of its hash table.
func ambiguous(snapshots string, values bool) bool {
	return strings.Contains(snapshots, ".BigIntSerializer") || strings.Contains(snapshots, ".BigDecSerializer") ||
		values && strings.Contains(snapshots, "MapSerializer")
}

// scan reads what one side has of the chunk. Problems are told once.
func (w *worker) scan(side int, v visitor) error {
	var problems []unitProblem
	for _, p := range w.parts[side] {
		v.problem = func(problem *StateProblem) error {
			problems = append(problems, unitProblem{p.unit, problem})
			return nil
		}
		if err := w.readers[side].scan(w.ctx, p, v); err != nil {
			return err
		}
	}
	if !w.told[side] {
		w.told[side] = true
		w.result.problems[side] = problems
	}
	return nil
}

// unread says that a side could not be read to its end, so that what is
// missing there may be in what was not read.
func (w *worker) unread(side int) bool {
	return w.lacking[side] || len(w.result.problems[side]) > 0
}

// show adds a difference to what is shown.
func (w *worker) show(s *comparedState, make func() Difference) error {
	if s.shown++; w.o.Limit >= 0 && s.shown > w.o.Limit {
		return nil
	}
	x := make()
	x.State = s.State
	w.result.differences = append(w.result.differences, x)
	w.bytes += len(x.Key) + len(x.Namespace) + len(x.UserKey) + len(x.Old) + len(x.New)
	if w.bytes < diffPending {
		return nil
	}
	full := chunkResult{differences: w.result.differences}
	w.result.differences, w.bytes = nil, 0
	return w.send(full)
}

// identity is the hash of what makes an entry the same one on both sides.
func (w *worker) identity(s *comparedState, e *backend.Entry) xxh3.Uint128 {
	b := binary.BigEndian.AppendUint32(w.buf[:0], s.id)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Timestamp))
	if s.texts {
		b, _ = e.AppendKeyJSON(b) // bytes as text if it can't be decoded
		b = append(b, 0)
		b, _ = e.AppendNamespaceJSON(b)
		b = append(b, 0)
		if e.UserKey != nil {
			b, _ = e.AppendUserKeyJSON(b)
		}
	} else {
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Key)))
		b = append(b, e.Key...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Namespace)))
		b = append(b, e.Namespace...)
		b = append(b, e.UserKey...)
	}
	w.buf = b
	return xxh3.Hash128(b)
}

// valueHash is the hash of a value's bytes.
func (w *worker) valueHash(e *backend.Entry) uint64 {
	value := e.Value
	if w.o.IgnoreTTL && e.State.TTL && e.State.Type != backend.TypeList && len(value) >= 8 {
		value = value[8:]
	}
	h := xxh3.Hash(value)
	if e.Null {
		h = ^h
	}
	return h
}

// keyedDifference describes an entry that differs, but for its values.
func keyedDifference(change string, e *backend.Entry) Difference {
	x := Difference{Change: change, KeyGroup: e.KeyGroup, Key: jsonOf(e.AppendKeyJSON)}
	if !e.Unsplit && !noNamespaces(e.State) {
		x.Namespace = jsonOf(e.AppendNamespaceJSON)
	}
	if e.UserKey != nil {
		x.UserKey = jsonOf(e.AppendUserKeyJSON)
	}
	if e.State.Type == backend.TypeTimers {
		x.Timestamp = new(e.Timestamp)
	}
	return x
}

// errOverBudget says that a table has too many entries.
var errOverBudget = errors.New("too many entries for one table")
