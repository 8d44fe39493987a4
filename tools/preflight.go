package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// PreflightOptions are the options of [Preflight]; the zero value asks whether
// a job as it was can restore the snapshot.
type PreflightOptions struct {
	// Parallelism of the new job; 0 means as stored, for each operator.
	Parallelism int
	// MaxParallelism if the new job sets it explicitly; 0 means that it takes over what is stored.
	MaxParallelism int
	// Operators of the new job. nil means that they are not known, so that
	// every operator of the snapshot is taken to be there.
	Operators []JobOperator
	// AllowNonRestored is Flink's --allowNonRestoredState: state that no operator takes is dropped.
	AllowNonRestored bool
	// Key, if set, is located among the key groups.
	Key *Key
}

// JobOperator is an operator of the new job.
type JobOperator struct {
	UID string
	// Parallelism and MaxParallelism override those of the options if positive.
	Parallelism, MaxParallelism int
}

// Key is a key with the Java hash code of its type.
type Key struct {
	Text string
	Type string
	Hash int32
}

// Verdicts on an operator.
const (
	RestoreOK      = "ok"
	RestoreFails   = "fails"
	RestoreDropped = "dropped"
	RestoreSkipped = "skipped"
)

// PreflightReport says whether a job can restore a snapshot.
type PreflightReport struct {
	Snapshot     string           `json:"snapshot"`
	Chosen       string           `json:"chosen,omitempty"`
	Version      metadata.Version `json:"version"`
	ReadBy       string           `json:"readBy"`
	CheckpointID int64            `json:"checkpointID"`
	Kind         string           `json:"kind"`
	// OK is the answer.
	OK bool `json:"ok"`
	// Parallelism from 1 to AllowedMax works for every operator that has state.
	AllowedMax int                  `json:"allowedMaxParallelism"`
	Operators  []PreflightOperator  `json:"operators"`
	Groups     []MaxParallelismUses `json:"maxParallelism"`
	// WithoutState are uids of the job for which the snapshot has nothing.
	WithoutState []string `json:"uidsWithoutState,omitempty"`
	// DroppedBytes is the size of the state that is dropped.
	DroppedBytes int64         `json:"droppedBytes,omitempty"`
	MasterStates []string      `json:"masterStates,omitempty"`
	Key          *KeyPlacement `json:"key,omitempty"`
	Problems     []string      `json:"problems"`
	Warnings     []string      `json:"warnings"`
	Notes        []string      `json:"notes"`
}

// PreflightOperator is an operator of the snapshot and what becomes of it.
type PreflightOperator struct {
	OperatorInfo
	// JobUID is the uid of the job's operator that takes the state.
	JobUID            string `json:"jobUID,omitempty"`
	HasKeyedState     bool   `json:"hasKeyedState"`
	NewParallelism    int    `json:"newParallelism,omitempty"`
	NewMaxParallelism int    `json:"newMaxParallelism,omitempty"`
	// Allowed is the range of parallelism that can restore it.
	Allowed string `json:"allowed"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	// KeyGroups are the key groups of each new subtask; only with keyed state.
	KeyGroups []string `json:"keyGroups,omitempty"`
}

// MaxParallelismUses is one max parallelism and the operators that have it.
type MaxParallelismUses struct {
	MaxParallelism int                   `json:"maxParallelism"`
	Operators      []metadata.OperatorID `json:"operators"`
}

// KeyPlacement says where a key goes.
type KeyPlacement struct {
	Key    string    `json:"key"`
	Type   string    `json:"type"`
	Hash   int32     `json:"hash"`
	Places []KeySpot `json:"places"`
}

// KeySpot is where a key goes in operators of one max parallelism.
type KeySpot struct {
	MaxParallelism int `json:"maxParallelism"`
	KeyGroup       int `json:"keyGroup"`
	Parallelism    int `json:"parallelism"`
	Subtask        int `json:"subtask"`
}

// Preflight decodes the metadata of a snapshot and applies the rules by
// which Flink accepts or refuses to restore it.
func Preflight(ctx context.Context, fsys storage.FS, arg string, o PreflightOptions) (*PreflightReport, error) {
	s, err := Open(ctx, fsys, arg)
	if err != nil {
		return nil, err
	}
	return preflight(s, o), nil
}

func preflight(s *Snapshot, o PreflightOptions) *PreflightReport {
	r := &PreflightReport{
		Snapshot: s.URI, Chosen: s.Chosen, Version: s.Version, ReadBy: readBy(s.Snapshot), CheckpointID: s.CheckpointID,
		AllowedMax: keygroup.UpperBound, Operators: []PreflightOperator{}, Groups: []MaxParallelismUses{},
		Problems: []string{}, Warnings: []string{}, Notes: []string{},
	}
	r.Kind, _ = kindOf(s, newPlaces(s))
	job := newJob(o)
	r.bounds(o)
	for i := range s.Operators {
		op := PreflightOperator{OperatorInfo: summarize(i, &s.Operators[i], 0, nil)}
		op.HasKeyedState = op.hasKeyed
		r.operator(&op, job, o)
		if op.Content != ContentNone && op.Verdict != RestoreDropped {
			r.AllowedMax = min(r.AllowedMax, op.MaxParallelism)
		}
		r.Operators = append(r.Operators, op)
	}
	r.groups()
	if job != nil {
		r.WithoutState = job.names.unmatched()
	}
	r.finish(s, o)
	if o.Key != nil {
		r.placeKey(*o.Key)
	}
	r.OK = len(r.Problems) == 0
	return r
}

func (r *PreflightReport) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// bounds checks the figures of the job by themselves.
func (r *PreflightReport) bounds(o PreflightOptions) {
	check := func(what string, p, most int) {
		switch {
		case most > keygroup.UpperBound:
			r.problem("max parallelism %d%s is more than %d", most, what, keygroup.UpperBound)
		case p > keygroup.UpperBound:
			r.problem("parallelism %d%s is more than %d", p, what, keygroup.UpperBound)
		case most > 0 && p > most:
			r.problem("parallelism %d%s is more than the max parallelism %d", p, what, most)
		}
	}
	check("", o.Parallelism, o.MaxParallelism)
	for _, j := range o.Operators {
		if j.Parallelism > 0 || j.MaxParallelism > 0 {
			check(fmt.Sprintf(" of %q", j.UID), pick(j.Parallelism, o.Parallelism), pick(j.MaxParallelism, o.MaxParallelism))
		}
	}
}

// pick gives the first number that is positive, or 0.
func pick(numbers ...int) int {
	for _, n := range numbers {
		if n > 0 {
			return n
		}
	}
	return 0
}

// job is the new job.
type job struct {
	names *uids
	by    map[string]JobOperator
}

func newJob(o PreflightOptions) *job {
	if o.Operators == nil {
		return nil
	}
	j := &job{by: map[string]JobOperator{}}
	var list []string
	for _, op := range o.Operators {
		if _, ok := j.by[op.UID]; !ok {
			list = append(list, op.UID)
		}
		j.by[op.UID] = op
	}
	j.names = newUIDs(list)
	return j
}

// find gives the job's operator that takes the state of op. Parts of a sink
// beyond those with fixed names are known by the uid in the snapshot.
func (j *job) find(op *PreflightOperator) (uid string, o JobOperator, ok bool) {
	if d, ok := j.names.by[op.ID]; ok {
		j.names.used[d.from] = true
		return d.uid, j.by[d.from], true
	}
	for _, u := range j.names.list {
		if op.UID != "" && strings.HasPrefix(op.UID, u+": ") && metadata.UIDHash(op.UID) == op.ID {
			j.names.used[u] = true
			return op.UID, j.by[u], true
		}
	}
	return "", o, false
}

func (r *PreflightReport) operator(op *PreflightOperator, j *job, o PreflightOptions) {
	name := op.title()
	stateful := op.Content != ContentNone
	op.Allowed = fmt.Sprintf("1-%d", op.MaxParallelism)
	if !stateful {
		op.Allowed = fmt.Sprintf("1-%d", keygroup.UpperBound)
	}
	op.Verdict = RestoreOK
	fail := func(format string, args ...any) {
		op.Verdict = RestoreFails
		reason := fmt.Sprintf(format, args...)
		if op.Reason != "" {
			reason = op.Reason + "; " + reason
		}
		op.Reason = reason
	}
	var set JobOperator
	if j != nil {
		uid, found, ok := j.find(op)
		if !ok {
			r.orphan(op, name, o.AllowNonRestored)
			return
		}
		op.JobUID, set = uid, found
	}
	if !stateful && !op.FullyFinished && op.FinishedSubtasks == 0 {
		op.Verdict, op.Reason = RestoreSkipped, "no state"
	}
	p, most := pick(set.Parallelism, o.Parallelism, op.Parallelism), pick(set.MaxParallelism, o.MaxParallelism)
	op.NewParallelism, op.NewMaxParallelism = p, pick(most, op.MaxParallelism)
	if stateful {
		if p > op.MaxParallelism {
			fail("parallelism %d is more than the max parallelism %d of the snapshot", p, op.MaxParallelism)
		}
		if most > 0 && most != op.MaxParallelism {
			fail("the job sets max parallelism %d, the snapshot has %d; set %d, or don't set it", most, op.MaxParallelism, op.MaxParallelism)
		}
	}
	if op.hasChannels && p != op.Parallelism {
		r.Warnings = append(r.Warnings, fmt.Sprintf("operator %s holds in-flight data and changes its parallelism from %d to %d: releases before 1.13 can't, later ones redistribute it", name, op.Parallelism, p))
	}
	if op.Verdict == RestoreFails {
		r.problem("operator %s: %s", name, op.Reason)
		return
	}
	if op.hasKeyed && p > 0 && op.MaxParallelism > 0 && p <= op.MaxParallelism {
		for i := range p {
			op.KeyGroups = append(op.KeyGroups, keygroup.RangeOf(i, op.MaxParallelism, p).String())
		}
	}
}

// orphan is an operator of the snapshot that the job does not have.
func (r *PreflightReport) orphan(op *PreflightOperator, name string, allow bool) {
	switch {
	case op.Content == ContentNone:
		op.Verdict, op.Reason = RestoreSkipped, "not in the job, and has no state"
	case allow:
		op.Verdict, op.Reason = RestoreDropped, "not in the job"
		r.DroppedBytes += op.Bytes
	default:
		op.Verdict, op.Reason = RestoreFails, "has state, but no uid of the job matches; Flink refuses without --allowNonRestoredState"
		if op.Content == ContentEmpty {
			op.Reason = "no uid of the job matches, and Flink counts its empty handles as state; with --allowNonRestoredState nothing is lost"
		}
		r.DroppedBytes += op.Bytes
		r.problem("operator %s: %s", name, op.Reason)
	}
}

// title is the operator's id with what is known of its name.
func (op *PreflightOperator) title() string {
	o := &metadata.Operator{ID: op.ID}
	if t, err := metadata.NewText(op.UID); err == nil {
		o.UID = t
	}
	if t, err := metadata.NewText(op.Name); err == nil {
		o.Name = t
	}
	return operatorName(o)
}

// groups lists the operators with keyed state by max parallelism.
func (r *PreflightReport) groups() {
	by := map[int][]metadata.OperatorID{}
	for i := range r.Operators {
		if op := &r.Operators[i]; op.Content != ContentNone {
			by[op.MaxParallelism] = append(by[op.MaxParallelism], op.ID)
		}
	}
	for most, ids := range by {
		r.Groups = append(r.Groups, MaxParallelismUses{most, ids})
	}
	slices.SortFunc(r.Groups, func(a, b MaxParallelismUses) int { return a.MaxParallelism - b.MaxParallelism })
	if len(r.Groups) > 1 {
		var parts []string
		for _, g := range r.Groups {
			parts = append(parts, fmt.Sprintf("%d (%s)", g.MaxParallelism, count(len(g.Operators), "operator")))
		}
		r.Warnings = append(r.Warnings, "the operators disagree in max parallelism: "+strings.Join(parts, ", ")+
			"; one setting for the whole job can't restore all of them, and chained operators must agree")
	}
}

// finish adds what does not concern one operator.
func (r *PreflightReport) finish(s *Snapshot, o PreflightOptions) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case s.Version == metadata.Version1:
		r.Warnings = append(r.Warnings, "metadata of version 1 is read by Flink 1.2 to 1.10 only, and its ids are of job vertices, not of operators")
	case s.Dialect == metadata.Dialect111:
		r.Warnings = append(r.Warnings, "in-flight data as Flink 1.11 writes it is read by 1.11 only; take a savepoint with 1.11 first")
	case s.Dialect == metadata.Dialect114:
		r.Warnings = append(r.Warnings, "changelog handles as Flink 1.14 writes them are read by 1.14 only; take a savepoint with 1.14 first")
	}
	for _, m := range s.MasterStates {
		r.MasterStates = append(r.MasterStates, m.Name.String())
	}
	if len(r.MasterStates) > 0 {
		note("the snapshot holds state of %s (%s); a job without a hook of that name needs --allowNonRestoredState", count(len(r.MasterStates), "master hook"), listSome(r.MasterStates))
	}
	channels, finished, unnamed := 0, 0, 0
	for i := range r.Operators {
		op := &r.Operators[i]
		if op.hasChannels {
			channels++
		}
		if op.FullyFinished || op.FinishedSubtasks > 0 {
			finished++
		}
		if s.Version >= metadata.Version5 && op.UID == "" && op.Content == ContentState {
			unnamed++
		}
	}
	if channels > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("unaligned checkpoint: %s hold in-flight data, which only a job of the same topology can take; "+
			"to change operators, chains or exchanges take a savepoint first", count(channels, "operator")))
	}
	if finished > 0 {
		note("%s had finished, wholly or in part; the operators of one task must all be in the same condition in the new job, and so must what feeds them", count(finished, "operator"))
	}
	if unnamed > 0 {
		note("%s with state have no uid: their ids come from the shape of the job graph, so that a changed job may not find the state; uids can't be computed for them", count(unnamed, "operator"))
	}
	if o.Operators != nil {
		note("operators without a uid in the new job have ids from the job graph, which can't be computed here: state that only they would take is shown as not taken")
	} else {
		note("the operators of the new job were not given (--uid, --uids), so each operator of the snapshot is taken to be in it")
	}
}

// placeKey finds the key groups of a key.
func (r *PreflightReport) placeKey(k Key) {
	p := &KeyPlacement{Key: k.Text, Type: k.Type, Hash: k.Hash, Places: []KeySpot{}}
	seen := map[[2]int]bool{}
	add := func(most, parallelism int) {
		at := [2]int{most, parallelism}
		if seen[at] || most < 1 || parallelism < 1 || parallelism > most {
			return
		}
		seen[at] = true
		group := keygroup.ForHash(k.Hash, most)
		p.Places = append(p.Places, KeySpot{most, group, parallelism, keygroup.Subtask(group, most, parallelism)})
	}
	for i := range r.Operators {
		op := &r.Operators[i]
		if op.hasKeyed {
			add(op.MaxParallelism, op.Parallelism)
			add(op.MaxParallelism, op.NewParallelism)
		}
	}
	r.Key = p
}
