package tools

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// SizeOptions are the options of [Sizes]; the zero value is the default.
type SizeOptions struct {
	EntryOptions
	// Details adds histograms, key groups and the largest keys.
	Details bool
	// Top is how many of the largest there are in each list; 0 means 10.
	Top int
}

// SizeReport is how many entries there are and how large they are. Values are not decoded.
type SizeReport struct {
	Snapshot string          `json:"snapshot"`
	States   []StateSizes    `json:"states"`
	Channels []ChannelSizes  `json:"channels,omitempty"`
	Entries  int64           `json:"entries"`
	Bytes    int64           `json:"bytes"`
	Problems []*StateProblem `json:"problems,omitempty"`
}

// StateSizes is the size of one state of one operator over all subtasks.
type StateSizes struct {
	Operator metadata.OperatorID `json:"operatorId"`
	Name     string              `json:"name,omitempty"`
	UID      string              `json:"uid,omitempty"`
	State    string              `json:"state"`
	// Type of keyed state, or the distribution mode of operator state.
	Type string `json:"type"`
	// Serializer names the type of the values, Key that of the keys.
	Serializer string `json:"serializer,omitempty"`
	Key        string `json:"key,omitempty"`
	// Raw says that the state is in raw state.
	Raw      bool  `json:"raw,omitempty"`
	Subtasks int   `json:"subtasks"`
	Entries  int64 `json:"entries"`
	// Maps is the number of maps, of which Entries are the entries: of keys with a namespace.
	Maps int64 `json:"maps,omitempty"`
	// KeyBytes are those of key, namespace and user key, ValueBytes those of values, as serialized.
	KeyBytes   int64 `json:"keyBytes"`
	ValueBytes int64 `json:"valueBytes"`

	// The rest is there only with details.

	Keys   *Histogram `json:"keySizes,omitempty"`
	Values *Histogram `json:"valueSizes,omitempty"`
	// KeyGroups are the largest ones; Skew is how many times the bytes of the
	// largest are those of an average one of all that the operator has.
	KeyGroups []KeyGroupSizes `json:"keyGroups,omitempty"`
	Skew      float64         `json:"skew,omitempty"`
	// LargestKeys are those with most bytes over all their entries, LargestEntries single entries.
	LargestKeys    []LargeKey `json:"largestKeys,omitempty"`
	LargestEntries []LargeKey `json:"largestEntries,omitempty"`
}

// KeyGroupSizes is the size of one key group.
type KeyGroupSizes struct {
	KeyGroup int   `json:"keyGroup"`
	Entries  int64 `json:"entries"`
	Bytes    int64 `json:"bytes"`
}

// LargeKey is a key, in a namespace, with much state.
type LargeKey struct {
	// Key, Namespace and UserKey are JSON; "" for none.
	Key       rawJSON `json:"key"`
	Namespace rawJSON `json:"namespace,omitempty"`
	UserKey   rawJSON `json:"userKey,omitempty"`
	KeyGroup  int     `json:"keyGroup"`
	Subtask   int     `json:"subtask"`
	Entries   int64   `json:"entries"`
	Bytes     int64   `json:"bytes"`
}

// rawJSON is text that is JSON already.
type rawJSON string

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return []byte(r), nil
}

// sizer adds up one state of one part.
type sizer struct {
	StateSizes
	groups  map[int]*KeyGroupSizes
	groupOf *KeyGroupSizes // of the entry before
	top     int

	// The key and namespace of the entry before; entries of a map follow each other.
	key, namespace []byte
	run            LargeKey
	held           bool
	serializers    *backend.State
	keys, entries  []LargeKey // kept largest first, at most top
}

// partSizes is what one part holds.
type partSizes struct {
	order   []*sizer
	problem *StateProblem
}

// Sizes counts the entries of a snapshot's state without decoding values.
func Sizes(ctx context.Context, fsys storage.FS, s *Snapshot, o SizeOptions) (*SizeReport, error) {
	report := &SizeReport{Snapshot: s.URI, States: []StateSizes{}}
	r, err := newStateReader(fsys, s, o.Selection, o.Jobs, o.Progress)
	if err != nil {
		return nil, err
	}
	top := o.Top
	if top == 0 {
		top = 10
	}
	type stateKey struct {
		op   metadata.OperatorID
		name string
		kind string
		raw  bool
	}
	all := map[stateKey]*sizer{}
	subtasks := map[stateKey]map[int]bool{}
	var order []stateKey
	var problems problemList
	err = ordered.Each(ctx, r.jobs, len(r.parts), func(ctx context.Context, n int, send func(partSizes) error) error {
		u := r.parts[n].unit
		var sum partSizes
		var last any
		var at *sizer
		byState := map[any]*sizer{}
		find := func(state any, fill func(*sizer)) *sizer {
			if state != last {
				if at = byState[state]; at == nil {
					at = &sizer{StateSizes: StateSizes{Operator: u.op.ID, Name: u.op.Name.String(), UID: u.op.UID.String()}, top: top}
					if o.Details {
						at.Keys, at.Values, at.groups = new(Histogram), new(Histogram), map[int]*KeyGroupSizes{}
					}
					fill(at)
					byState[state] = at
					sum.order = append(sum.order, at)
				}
				last = state
			}
			return at
		}
		err := r.read(ctx, r.parts[n], visitor{
			keyed: func(e *backend.Entry) error {
				find(e.State, func(s *sizer) { s.describe(e.State) }).keyed(e, u.subtask)
				return nil
			},
			element: func(e *backend.OperatorEntry) error {
				find(e.State, func(s *sizer) { s.describeElement(e.State) }).element(e)
				return nil
			},
			problem: func(p *StateProblem) error { return send(partSizes{problem: p}) },
		})
		if err != nil {
			return err
		}
		for _, s := range sum.order {
			s.endRun()
		}
		return send(sum)
	}, func(n int, p partSizes) error {
		u := r.parts[n].unit
		if p.problem != nil {
			problems.add(u, p.problem)
		}
		for _, s := range p.order {
			k := stateKey{u.op.ID, s.State, s.Type, s.Raw}
			if all[k] == nil {
				all[k], subtasks[k] = s, map[int]bool{}
				order = append(order, k)
			} else {
				all[k].merge(s)
			}
			subtasks[k][u.subtask] = true
		}
		return nil
	})
	if err == nil {
		err = r.keyError()
	}
	if err != nil {
		return nil, err
	}
	for _, k := range order {
		s := all[k]
		s.Subtasks = len(subtasks[k])
		s.finish(r.groupCount(k.op))
		report.Entries += s.Entries
		report.Bytes += s.KeyBytes + s.ValueBytes
		report.States = append(report.States, s.StateSizes)
	}
	report.Problems = problems.list
	if !o.keyedOnly() && len(o.States) == 0 {
		report.Channels, err = channelSizes(s, o.Selection)
	}
	return report, err
}

// groupCount is the number of key groups of an operator that are read.
func (r *stateReader) groupCount(id metadata.OperatorID) (n int) {
	seen := map[int]bool{}
	for _, p := range r.parts {
		if p.op.ID != id || p.keyed == nil {
			continue
		}
		r := p.groups.Intersect(keygroup.Range{End: keygroup.UpperBound - 1})
		for g := r.Start; g <= r.End; g++ {
			if !seen[g] {
				seen[g] = true
				n++
			}
		}
	}
	return n
}

func (s *sizer) describe(state *backend.State) {
	s.serializers = state
	s.State, s.Type, s.Raw = state.Meta.Name, string(state.Type), state.Raw
	s.Serializer = snapshotText(state.Meta.Serializer(backend.SerializerValue))
}

func (s *sizer) describeElement(state *backend.OperatorState) {
	s.State, s.Type, s.Raw = state.Name, state.Mode.String(), state.Meta == nil
	if state.Meta != nil {
		s.Serializer = snapshotText(state.Meta.Serializer(backend.SerializerValue))
		s.Key = snapshotText(state.Meta.Serializer(backend.SerializerKey))
	}
}

func snapshotText(s *serializer.Snapshot) string {
	if s == nil {
		return ""
	}
	return s.String()
}

func (s *sizer) keyed(e *backend.Entry, subtask int) {
	keyBytes, valueBytes := int64(len(e.Key)+len(e.Namespace)+len(e.UserKey)), int64(len(e.Value))
	s.Entries++
	s.KeyBytes += keyBytes
	s.ValueBytes += valueBytes
	isMap := e.UserKey != nil
	same := s.held && isMap && bytes.Equal(s.key, e.Key) && bytes.Equal(s.namespace, e.Namespace)
	if isMap && !same {
		s.Maps++
	}
	if s.groups == nil {
		if isMap {
			s.remember(e)
		}
		return
	}
	s.Keys.add(keyBytes)
	s.Values.add(valueBytes)
	if s.groupOf == nil || s.groupOf.KeyGroup != e.KeyGroup {
		if s.groupOf = s.groups[e.KeyGroup]; s.groupOf == nil {
			s.groupOf = &KeyGroupSizes{KeyGroup: e.KeyGroup}
			s.groups[e.KeyGroup] = s.groupOf
		}
	}
	s.groupOf.Entries++
	s.groupOf.Bytes += keyBytes + valueBytes
	if !same {
		s.endRun()
		s.remember(e)
		s.run = LargeKey{KeyGroup: e.KeyGroup, Subtask: subtask}
	}
	s.run.Entries++
	s.run.Bytes += keyBytes + valueBytes
	if isMap && s.enters(s.entries, keyBytes+valueBytes) {
		l := describeKey(e, subtask)
		l.UserKey = jsonOf(e.AppendUserKeyJSON)
		l.Entries, l.Bytes = 1, keyBytes+valueBytes
		s.entries = s.enter(s.entries, l)
	}
}

// remember keeps the key of an entry.
func (s *sizer) remember(e *backend.Entry) {
	s.held = true
	s.key, s.namespace = append(s.key[:0], e.Key...), append(s.namespace[:0], e.Namespace...)
}

// endRun ends the entries of one key.
func (s *sizer) endRun() {
	if s.run.Entries == 0 || !s.enters(s.keys, s.run.Bytes) {
		return
	}
	l := describeKey(&backend.Entry{State: s.serializers, Key: s.key, Namespace: s.namespace, KeyGroup: s.run.KeyGroup}, s.run.Subtask)
	l.Entries, l.Bytes = s.run.Entries, s.run.Bytes
	s.keys = s.enter(s.keys, l)
	s.run = LargeKey{}
}

// describeKey decodes the key of an entry.
func describeKey(e *backend.Entry, subtask int) LargeKey {
	l := LargeKey{KeyGroup: e.KeyGroup, Subtask: subtask, Key: jsonOf(e.AppendKeyJSON)}
	if !noNamespaces(e.State) {
		l.Namespace = jsonOf(e.AppendNamespaceJSON)
	}
	return l
}

func jsonOf(appendJSON func([]byte) ([]byte, error)) rawJSON {
	b, _ := appendJSON(nil) // what can't be decoded is shown as bytes
	return rawJSON(b)
}

func (s *sizer) element(e *backend.OperatorEntry) {
	keyBytes, valueBytes := int64(len(e.Key)), int64(len(e.Value))
	s.Entries++
	s.KeyBytes += keyBytes
	s.ValueBytes += valueBytes
	if s.Keys != nil {
		s.Keys.add(keyBytes)
		s.Values.add(valueBytes)
	}
}

// enters says that something of that size belongs into a list of the largest.
func (s *sizer) enters(list []LargeKey, size int64) bool {
	return len(list) < s.top || size > list[len(list)-1].Bytes
}

// enter puts it there, behind what is as large.
func (s *sizer) enter(list []LargeKey, l LargeKey) []LargeKey {
	i, _ := slices.BinarySearchFunc(list, l.Bytes, func(a LargeKey, size int64) int {
		if a.Bytes >= size {
			return -1
		}
		return 1
	})
	list = slices.Insert(list, i, l)
	return list[:min(len(list), s.top)]
}

func (s *sizer) merge(o *sizer) {
	s.Entries += o.Entries
	s.Maps += o.Maps
	s.KeyBytes += o.KeyBytes
	s.ValueBytes += o.ValueBytes
	if s.Keys == nil {
		return
	}
	s.Keys.merge(o.Keys)
	s.Values.merge(o.Values)
	for g, sizes := range o.groups {
		if s.groups[g] == nil {
			s.groups[g] = sizes
			continue
		}
		s.groups[g].Entries += sizes.Entries
		s.groups[g].Bytes += sizes.Bytes
	}
	for _, l := range o.keys {
		if s.enters(s.keys, l.Bytes) {
			s.keys = s.enter(s.keys, l)
		}
	}
	for _, l := range o.entries {
		if s.enters(s.entries, l.Bytes) {
			s.entries = s.enter(s.entries, l)
		}
	}
}

// finish makes the report; groups is the number of key groups there are.
func (s *sizer) finish(groups int) {
	if s.Keys == nil {
		return
	}
	s.Keys.finish()
	s.Values.finish()
	var list []KeyGroupSizes
	var sum int64
	for _, g := range s.groups {
		list = append(list, *g)
		sum += g.Bytes
	}
	slices.SortFunc(list, func(a, b KeyGroupSizes) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.KeyGroup, b.KeyGroup))
	})
	if sum > 0 {
		s.Skew = float64(list[0].Bytes) * float64(groups) / float64(sum)
	}
	s.KeyGroups = list[:min(len(list), s.top)]
	s.LargestKeys, s.LargestEntries = s.keys, s.entries
}
