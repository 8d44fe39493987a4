package rewrite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

// Plan is what will be done to a snapshot. Nothing was written for it; [Plan.Execute] does exactly this.
type Plan struct {
	Operators []*OperatorPlan `json:"operators"`
	// Problems is what can't be carried over; the plan can't be executed if there are any. Warnings is what to know besides.
	Problems []Problem `json:"problems,omitempty"`
	Warnings []Problem `json:"warnings,omitempty"`
	// Bytes is how many bytes of state are to be read, as far as the handles say.
	Bytes int64 `json:"bytes"`
	// Version of the metadata, and what kind of snapshot it will be.
	Version metadata.Version `json:"metadataVersion"`
	Kind    metadata.Kind    `json:"-"`

	src Source
	o   Options
}

// Work is what is done to the keyed state of an operator.
type Work string

// What is done, in the order of what it costs.
const (
	// Copied means that the files are copied as they are.
	Copied Work = "copied"
	// Rewritten means that entries are read and written in their order.
	Rewritten Work = "rewritten"
	// Sorted means that the entries of each key group are sorted.
	Sorted Work = "sorted"
	// Moved means that entries move to other key groups.
	Moved Work = "moved"
)

// OperatorPlan is what will be done to an operator.
type OperatorPlan struct {
	// Source is the operator as it is. Target is what it becomes, still without state.
	Source *metadata.Operator `json:"-"`
	Target metadata.Operator  `json:"-"`
	// Dropped says that it is left out.
	Dropped bool `json:"dropped,omitempty"`
	// From names the layouts of the keyed state that is there, Format is that of what is written; Work is "" if there is no keyed state.
	From   []string    `json:"from,omitempty"`
	Format Format      `json:"format"`
	Work   Work        `json:"work,omitempty"`
	States []StatePlan `json:"states,omitempty"`
	// OperatorStates are the states that are not keyed.
	OperatorStates []StatePlan `json:"operatorStates,omitempty"`

	t       *Transform
	handles []*handle
	raw     []*handle // raw keyed state that is no timers
	header  backend.KeyedHeader
	states  []*backend.State // of the header
	was     []*backend.State // the same before they were renamed
	// In the files of RocksDB: the header without the queues of timers that are written into raw keyed state, these queues, and where each state
	// of the header is: its number in managed, or -1 and below in timers.
	managed  backend.KeyedHeader
	timers   []*backend.State
	place    []int
	numbers  map[stateID]int // number in the header by what the source calls the state; -1 if it is dropped
	puts     []statePut
	elements []*elements
	channels bool
}

// rescaled says that the operator gets another parallelism or other key groups.
func (op *OperatorPlan) rescaled() bool {
	return op.Target.Parallelism != op.Source.Parallelism || op.Target.MaxParallelism != op.Source.MaxParallelism
}

// StatePlan is what becomes of a state.
type StatePlan struct {
	Name string `json:"name"`
	// To is the new name; "" if the state is dropped.
	To   string `json:"to"`
	Type string `json:"type"`
}

// stateID is what a backend knows a state by.
type stateID struct {
	name   string
	timers bool
}

func idOf(s *backend.State) stateID { return stateID{s.Meta.Name, s.Type == backend.TypeTimers} }

// statePut is an entry that is put, with the number of its state.
type statePut struct {
	state, group int
	key, value   []byte
}

func (p statePut) compare(o statePut) int {
	return cmp.Or(p.group-o.group, p.state-o.state, bytes.Compare(p.key, o.key))
}

// handle is a handle of keyed state.
type handle struct {
	keyed   metadata.Keyed
	isRaw   bool
	subtask int
	groups  keygroup.Range
	bytes   int64
	shared  reader
	// What its header says, as far as it could be read.
	format    string
	header    *backend.KeyedHeader
	headerErr error
	states    []*backend.State
}

// NewPlan looks at what there is, which opens each handle and reads its header, and plans what will be done to it. An error
// is one of reading; what can't be done is among the plan's problems.
func NewPlan(ctx context.Context, src Source, o Options) (*Plan, error) {
	p := &Plan{src: src, o: o, Version: o.Version}
	if p.Version == 0 {
		p.Version = max(metadata.Version3, src.Metadata.Version)
	}
	if m := o.MaxParallelism; m < 0 || m > keygroup.UpperBound {
		return nil, fmt.Errorf("max parallelism %d: it must be from 1 to %d", m, keygroup.UpperBound)
	}
	if n := o.Parallelism; n < 0 || n > keygroup.UpperBound {
		return nil, fmt.Errorf("parallelism %d: it must be from 1 to %d", n, keygroup.UpperBound)
	}
	ids := map[metadata.OperatorID]*OperatorPlan{}
	for i := range src.Metadata.Operators {
		op, err := p.operator(ctx, &src.Metadata.Operators[i])
		if err != nil {
			return nil, err
		}
		p.Operators = append(p.Operators, op)
		if op.Dropped {
			continue
		}
		if other := ids[op.Target.ID]; other != nil {
			p.problem(op, "", "it would have the ID %s, as %s has", op.Target.ID, Label(other.Source))
		}
		ids[op.Target.ID] = op
	}
	p.checkChannels()
	p.Kind = metadata.KindCanonicalSavepoint
	for _, op := range p.Operators {
		if op.Work != "" && op.Format != Canonical {
			p.Kind = metadata.KindNativeSavepoint
		}
	}
	p.checkMetadata()
	return p, nil
}

// checkChannels finds operators that change while others have records in flight: of those that were not sent yet, nothing says to
// which operator they go, and they are sorted by its subtasks.
func (p *Plan) checkChannels() {
	i := slices.IndexFunc(p.Operators, func(op *OperatorPlan) bool { return op.channels })
	if i < 0 {
		return
	}
	for _, op := range p.Operators {
		if !op.Dropped && !op.channels && op.rescaled() {
			p.problem(op, "", "%s has records in flight, of an unaligned checkpoint, which may be for this one, so that the parallelism can't change: take a savepoint, or an aligned checkpoint", Label(p.Operators[i].Source))
		}
	}
}

// Label names an operator for messages.
func Label(op *metadata.Operator) string {
	switch {
	case op.UID != "":
		return fmt.Sprintf("operator %s (uid %q)", op.ID, op.UID)
	case op.Name != "":
		return fmt.Sprintf("operator %s (%s)", op.ID, op.Name)
	}
	return fmt.Sprintf("operator %s", op.ID)
}

func (p *Plan) problem(op *OperatorPlan, state, format string, args ...any) {
	p.Problems = append(p.Problems, newProblem(op, state, format, args...))
}

func (p *Plan) warn(op *OperatorPlan, state, format string, args ...any) {
	w := newProblem(op, state, format, args...)
	if !slices.Contains(p.Warnings, w) {
		p.Warnings = append(p.Warnings, w)
	}
}

func newProblem(op *OperatorPlan, state, format string, args ...any) Problem {
	pr := Problem{Text: fmt.Sprintf(format, args...)}
	if op != nil {
		pr.Operator, pr.Where = op.Source, Label(op.Source)
		if state != "" {
			pr.Where += fmt.Sprintf(", state %q", state)
		}
	}
	return pr
}

// checkMetadata finds out whether the metadata can be expressed in its version.
func (p *Plan) checkMetadata() {
	s := *p.src.Metadata
	s.Operators = nil
	for _, op := range p.Operators {
		if op.Dropped {
			continue
		}
		o := *op.Source
		o.Subtasks = nil
		for _, t := range op.Source.Subtasks {
			if t.State != nil {
				// Its state is written anew, but for what can only be carried as it is.
				t.State = &metadata.SubtaskState{
					InputChannels: t.State.InputChannels, OutputChannels: t.State.OutputChannels, Unused: t.State.Unused, Legacy: t.State.Legacy,
				}
			}
			o.Subtasks = append(o.Subtasks, t)
		}
		s.Operators = append(s.Operators, o)
	}
	if p.Version < metadata.Version3 {
		p.problem(nil, "", "metadata of version %d can't hold a savepoint that names its files relative to itself", p.Version)
		return
	}
	if _, err := s.As(p.Version); err != nil {
		p.problem(nil, "", "%v", err)
	}
}

func (p *Plan) operator(ctx context.Context, source *metadata.Operator) (*OperatorPlan, error) {
	op := &OperatorPlan{Source: source, Target: *source, numbers: map[stateID]int{}, t: &Transform{}}
	op.Target.Subtasks = nil
	if p.o.Transform != nil {
		t, err := p.o.Transform(source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Label(source), err)
		}
		if t != nil {
			op.t = t
		}
	}
	if op.t.Drop {
		op.Dropped = true
		for _, t := range source.Subtasks {
			if t.State != nil && len(t.State.InputChannels)+len(t.State.OutputChannels) > 0 {
				p.warn(op, "", "records in flight, of an unaligned checkpoint, are dropped with it")
			}
		}
		return op, nil
	}
	if op.t.ID != nil {
		op.Target.ID, op.Target.Name, op.Target.UID = *op.t.ID, op.t.Name, op.t.UID
	}
	if p.Version < metadata.Version5 {
		op.Target.Name, op.Target.UID = "", "" // such metadata has IDs only
	}
	for i := range source.Subtasks {
		t := &source.Subtasks[i]
		if t.State == nil {
			continue
		}
		for _, k := range []struct {
			metadata.Keyed
			raw bool
		}{{t.State.ManagedKeyed, false}, {t.State.RawKeyed, true}} {
			if k.Keyed == nil {
				continue
			}
			groups, ok := metadata.KeyGroupsOf(k.Keyed)
			if !ok {
				p.problem(op, "", "subtask %d has a handle of keyed state of type %T", t.Index, k.Keyed)
				continue
			}
			op.handles = append(op.handles, &handle{keyed: k.Keyed, isRaw: k.raw, subtask: int(t.Index), groups: groups, bytes: keyedBytes(k.Keyed)})
		}
		op.channels = op.channels || len(t.State.InputChannels)+len(t.State.OutputChannels) > 0
		if len(t.State.Legacy) > 0 {
			p.problem(op, "", "subtask %d has state of the Checkpointed interface, which no release after Flink 1.3 restores", t.Index)
		}
	}
	slices.SortFunc(op.handles, func(a, b *handle) int { return cmp.Or(a.groups.Start-b.groups.Start, a.subtask-b.subtask) })
	p.parallelism(op)
	if err := p.keyed(ctx, op); err != nil {
		return nil, err
	}
	if err := p.operatorState(ctx, op); err != nil {
		return nil, err
	}
	return op, nil
}

// parallelism decides on the operator's numbers of subtasks and of key groups.
func (p *Plan) parallelism(op *OperatorPlan) {
	s, t := op.Source, &op.Target
	if m := int32(p.o.MaxParallelism); m > 0 && s.MaxParallelism != 1 {
		t.MaxParallelism = m
	}
	if n := int32(p.o.Parallelism); n > 0 && len(op.handles) > 0 {
		t.Parallelism = n
		if t.MaxParallelism == 1 {
			t.Parallelism = 1
		}
	}
	if t.Parallelism > t.MaxParallelism {
		p.problem(op, "", "parallelism %d is more than max parallelism %d", t.Parallelism, t.MaxParallelism)
	}
	if !op.rescaled() {
		return
	}
	for _, sub := range s.Subtasks {
		if sub.State == nil {
			p.problem(op, "", "subtask %d had finished, so that the parallelism can't change", sub.Index)
			break
		}
	}
	if op.channels {
		p.problem(op, "", "it has records in flight, of an unaligned checkpoint, so that the parallelism can't change: take a savepoint, or an aligned checkpoint")
	}
}
