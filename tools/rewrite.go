package tools

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rewrite"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// RewriteOptions are the options of [PlanRewrite]. Transform is not used: Edits says what changes.
type RewriteOptions struct {
	rewrite.Options
	// Flink is the release that is to restore the result, "1.20" or "2.3"; "" means whichever wrote the source.
	Flink string
	// KeyHashes say how classes of keys compute hashCode; others are those that [serializer.NewHasher] knows.
	KeyHashes serializer.HashRules
	// Edits are done on what the source has; those of Kafka offsets one after the other.
	Edits []Edit
	// Target is the store of the destination; nil means that of the source.
	Target storage.FS
	// InlineBelow and Absolute are those of [backend.Target].
	InlineBelow int
	Absolute    bool
	// Now is when the plan is made; the zero time means now.
	Now time.Time
}

// RewritePlan is what will be done to make a new snapshot of another one. Nothing is written before [RewritePlan.Execute], and
// the source is never touched.
type RewritePlan struct {
	// Source is the metadata file that is read, Target the directory of the new snapshot.
	Source string `json:"source"`
	Target string `json:"target"`
	// Chosen says how the source was found, see [Snapshot].
	Chosen string `json:"chosen,omitempty"`
	*rewrite.Plan
	// Operators describe what becomes of each operator.
	Operators []RewriteOperator `json:"operators"`
	// Edits that are done.
	Edits []Edit `json:"edits,omitempty"`

	edits  []*plannedEdit
	target backend.Target
}

// RewriteOperator is what becomes of an operator.
type RewriteOperator struct {
	ID   metadata.OperatorID `json:"id"`
	Name string              `json:"name,omitempty"`
	UID  string              `json:"uid,omitempty"`
	// NewID and NewUID are set if it is renamed.
	NewID  *metadata.OperatorID `json:"newId,omitempty"`
	NewUID string               `json:"newUid,omitempty"`
	// Parallelism and MaxParallelism as they are, and as they will be.
	Parallelism       int32 `json:"parallelism"`
	MaxParallelism    int32 `json:"maxParallelism"`
	NewParallelism    int32 `json:"newParallelism"`
	NewMaxParallelism int32 `json:"newMaxParallelism"`
	*rewrite.OperatorPlan
}

// versionFor is the version of metadata that a release of Flink writes.
func versionFor(release string) (metadata.Version, error) {
	switch release {
	case "":
		return 0, nil
	case "1.20":
		return metadata.Version4, nil
	case "2.3":
		return metadata.Version6, nil
	}
	return 0, fmt.Errorf("Flink %q: only 1.20 and 2.3 can be written for", release)
}

// PlanRewrite plans a new snapshot in the directory dst, made of what src means as [Locate] has it. It opens each state file and reads its
// header. What can't be carried over is in the plan; an error is one of reading, or of edits that don't fit.
func PlanRewrite(ctx context.Context, fsys storage.FS, src, dst string, o RewriteOptions) (*RewritePlan, error) {
	s, err := Open(ctx, fsys, src)
	if err != nil {
		return nil, err
	}
	version, err := versionFor(o.Flink)
	if err != nil {
		return nil, err
	}
	o.Version = cmp.Or(version, o.Options.Version)
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	edits, of, err := forOperators(s.Snapshot, o.Edits, o.Now)
	if err != nil {
		return nil, err
	}
	o.Transform = func(op *metadata.Operator) (*rewrite.Transform, error) { return transformOf(op, of[op], o.Now) }
	if len(o.KeyHashes) > 0 {
		o.Hasher = func(_ *metadata.Operator, key *serializer.Snapshot) *serializer.Hasher {
			return serializer.NewHasherBy(key, o.KeyHashes)
		}
	}
	plan, err := rewrite.NewPlan(ctx, rewrite.Source{Files: backend.Files{FS: fsys, Dir: s.Dir}, Metadata: s.Snapshot}, o.Options)
	if err != nil {
		return nil, err
	}
	p := &RewritePlan{Source: s.URI, Target: storage.Clean(dst), Chosen: s.Chosen, Plan: plan, Edits: o.Edits, edits: edits}
	p.target = backend.Target{FS: fsys, Dir: p.Target, InlineBelow: o.InlineBelow, Absolute: o.Absolute}
	if o.Target != nil {
		p.target.FS = o.Target
	}
	if p.Target == s.Dir {
		return nil, fmt.Errorf("%s: source and target are the same: %w; the source is never changed", p.Target, ErrRefused)
	}
	if _, inside := storage.Rel(s.Dir, p.Target); inside {
		return nil, fmt.Errorf("%s: the target is inside the source: %w; the source is never changed", p.Target, ErrRefused)
	}
	if err := rewrite.CheckEmpty(ctx, p.target); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	for _, op := range plan.Operators {
		r := RewriteOperator{
			ID: op.Source.ID, Name: op.Source.Name.String(), UID: op.Source.UID.String(), OperatorPlan: op,
			Parallelism: op.Source.Parallelism, MaxParallelism: op.Source.MaxParallelism, NewParallelism: op.Target.Parallelism, NewMaxParallelism: op.Target.MaxParallelism,
		}
		if op.Target.ID != op.Source.ID {
			r.NewID, r.NewUID = &op.Target.ID, op.Target.UID.String()
		}
		p.Operators = append(p.Operators, r)
	}
	for i, e := range edits {
		why := e.unmet(plan)
		if e.Kafka != nil {
			if why, err = e.withoutPartition(ctx, fsys, s); err != nil {
				return nil, err
			}
		}
		if why != "" {
			return nil, fmt.Errorf("edits[%d]: operator %s: %s", i, e.Operator, why)
		}
	}
	return p, nil
}

// withoutPartition says that a Kafka source has no such partition; "" if it has.
func (e *plannedEdit) withoutPartition(ctx context.Context, fsys storage.FS, s *Snapshot) (string, error) {
	list, _, err := KafkaOffsets(ctx, fsys, s, EntryOptions{Selection: Selection{Operators: []string{e.Operator}}})
	if err != nil {
		return "", err
	}
	found := false
	for _, k := range list {
		c := e.Kafka.changeOf(&kafkaSplit{topic: k.Topic, partition: k.Partition})
		switch {
		case c == nil:
			continue
		case k.Source == kafkaSource && c.Special == "latest":
			return "KafkaSource does not restore \"latest\": records would be lost that come before it reads (FLINK-28303)", nil
		case k.Part == "reader" && k.Next != nil && c.Shift < 0 && *k.Next+c.Shift < 0:
			return fmt.Sprintf("partition %d goes on at offset %d, which can't be shifted by %d", k.Partition, *k.Next, c.Shift), nil
		}
		found = true
	}
	if found {
		return "", nil
	}
	return "it has no position in such a partition; `drey dump --kafka` lists those that it has", nil
}

// unmet says why an edit has nothing to work on, as far as it shows without reading state; "" if it has.
func (e *plannedEdit) unmet(p *rewrite.Plan) string {
	switch {
	case len(e.DropStates) > 0 && e.matches.Load() == 0:
		return fmt.Sprintf("it has no state %q", e.DropStates)
	case e.RenameState != nil && e.matches.Load() == 0:
		return fmt.Sprintf("it has no state %q", e.RenameState.From)
	case len(e.KeepStates) > 0 && !e.hasState(p, e.KeepStates, true):
		return fmt.Sprintf("it has no state %q, so that all of its states would be dropped", e.KeepStates)
	case e.DropEntries != nil && len(e.DropEntries.States) > 0 && !e.hasState(p, e.DropEntries.States, false):
		return fmt.Sprintf("it has no keyed state %q", e.DropEntries.States)
	case e.Set != nil && e.matches.Load() == 0 && !e.broadcast(p):
		return fmt.Sprintf("it has no keyed state and no broadcast map %q", e.Set.State)
	}
	return ""
}

// hasState says that some operator of the edit has a state, of keyed state or of any, whose name one of the patterns fits.
func (e *plannedEdit) hasState(p *rewrite.Plan, patterns []string, any bool) bool {
	fits := func(s rewrite.StatePlan) bool { return matchesName(patterns, s.Name) }
	return slices.ContainsFunc(p.Operators, func(op *rewrite.OperatorPlan) bool {
		return slices.Contains(e.ops, op.Source) && (slices.ContainsFunc(op.States, fits) || any && slices.ContainsFunc(op.OperatorStates, fits))
	})
}

// broadcast says that the state that is set is a broadcast map.
func (e *plannedEdit) broadcast(p *rewrite.Plan) bool {
	for _, op := range p.Operators {
		if !slices.Contains(e.ops, op.Source) {
			continue
		}
		for _, s := range op.OperatorStates {
			if s.Name == e.Set.State && s.Type == metadata.ModeBroadcast.String() {
				return true
			}
		}
	}
	return false
}

// transformOf makes what the edits of an operator change of it; nil if there are none.
func transformOf(op *metadata.Operator, edits []*plannedEdit, now time.Time) (*rewrite.Transform, error) {
	if len(edits) == 0 {
		return nil, nil
	}
	t := &rewrite.Transform{}
	var filters, sets []*plannedEdit
	var kafka []*plannedEdit
	for _, e := range edits {
		switch {
		case e.DropOperator:
			t.Drop = true
			e.once("")
		case e.RenameOperator != nil:
			id, uid, err := e.RenameOperator.id()
			if err != nil {
				return nil, err
			}
			if t.ID != nil {
				return nil, errors.New("renameOperator: it is renamed twice")
			}
			t.ID, t.UID, t.Name = &id, uid, op.Name
			e.once("")
		case e.DropEntries != nil:
			filters = append(filters, e)
		case e.Set != nil:
			sets = append(sets, e)
		case e.Kafka != nil:
			kafka = append(kafka, e)
		}
	}
	renamed := map[string]bool{}
	for _, e := range edits {
		if e.RenameState == nil {
			continue
		}
		if renamed[e.RenameState.From] {
			return nil, fmt.Errorf("renameState: %q is renamed twice", e.RenameState.From)
		}
		renamed[e.RenameState.From] = true
	}
	if changesStates(edits) {
		t.State = func(name string, _ bool) string { return withoutState(edits, name) }
	}
	if len(filters) > 0 {
		t.Wants = func(s *backend.State) bool {
			return slices.ContainsFunc(filters, func(e *plannedEdit) bool { return e.matcher.states.match(s.Meta.Name) })
		}
		t.Keyed = func(entry *backend.Entry) (bool, error) {
			for _, e := range filters {
				drop, removed, err := e.matcher.drops(op, entry)
				if err != nil {
					return false, err
				}
				if drop || removed > 0 && entry.State.Type == backend.TypeList {
					e.matches.Add(removed)
				}
				if drop {
					return false, nil
				}
			}
			return true, nil
		}
	}
	if len(sets) > 0 {
		t.Put = func(s *backend.State) ([]rewrite.Put, error) {
			var puts []rewrite.Put
			for _, e := range sets {
				if e.Set.State != s.Meta.Name || s.Type == backend.TypeTimers {
					continue
				}
				e.once("")
				put, err := e.Set.put(s, now)
				if err != nil {
					return nil, fmt.Errorf("set: %w", err)
				}
				puts = append(puts, put)
			}
			return puts, nil
		}
	}
	if len(sets)+len(kafka) > 0 {
		t.Element = func(_ int, entry *backend.OperatorEntry) (bool, error) {
			return true, changeElement(entry, sets, kafka)
		}
	}
	if len(kafka) > 0 {
		t.Coordinator = func(data []byte) ([]byte, error) {
			for _, e := range kafka {
				known, _ := kafkaEnumerator(data)
				for i := range known {
					c := e.Kafka.changeOf(&known[i].kafkaSplit)
					if c == nil {
						continue
					}
					value, found, err := c.coordinator(data)
					if err != nil {
						return nil, err
					}
					if found {
						data = value
						e.once(fmt.Sprint(c.Partition))
					}
				}
			}
			return data, nil
		}
	}
	return t, nil
}

// put gives what is put into a keyed state.
func (v *ValueSetting) put(s *backend.State, now time.Time) (p rewrite.Put, err error) {
	var errs [4]error
	p.Key, errs[0] = s.EncodeKeyJSON(v.Key)
	if v.Namespace != nil {
		p.Namespace, errs[1] = s.EncodeNamespaceJSON(v.Namespace)
	} else if noNamespaces(s) {
		p.Namespace, errs[1] = s.EncodeNamespaceJSON([]byte(`"VoidNamespace"`))
	} else {
		errs[1] = fmt.Errorf("state %q has namespaces: say which one is meant", s.Meta.Name)
	}
	switch {
	case s.UserKey != nil && v.UserKey == nil:
		errs[2] = fmt.Errorf("state %q is a map: say which user key is meant", s.Meta.Name)
	case v.UserKey != nil:
		p.UserKey, errs[2] = s.EncodeUserKeyJSON(v.UserKey)
	}
	value := []byte(v.Value)
	if s.TTL && s.Type != backend.TypeList && string(value) != "null" {
		access := now
		if !v.LastAccess.IsZero() {
			access = v.LastAccess
		}
		value = append(append([]byte(`{"value":`), v.Value...), access.UTC().Truncate(time.Millisecond).Format(`,"lastAccess":"2006-01-02T15:04:05.999Z"}`)...)
	}
	p.Value, p.Null, errs[3] = s.EncodeValueJSON(value)
	if s.Type == backend.TypeList && errs[3] == nil && len(p.Value) == 0 {
		errs[3] = fmt.Errorf("state %q is a list, and Flink has no empty one: drop the entry (dropEntries with keys)", s.Meta.Name)
	}
	return p, errors.Join(errs[:]...)
}

// changeOf gives what a setting means for a partition; nil if it is not about it.
func (k *KafkaSetting) changeOf(s *kafkaSplit) *KafkaChange {
	if s.topic != k.Topic || k.Partition != nil && *k.Partition != s.partition {
		return nil
	}
	return &KafkaChange{Topic: s.topic, Partition: s.partition, Next: k.Offset, Special: k.Special, Shift: k.Shift}
}

// changeElement sets what edits set in an element of operator state or an entry of a broadcast map.
func changeElement(entry *backend.OperatorEntry, sets, kafka []*plannedEdit) error {
	for _, e := range sets {
		if e.Set.State != entry.State.Name || entry.State.Key == nil {
			continue
		}
		key, err := entry.State.EncodeKeyJSON(e.Set.Key)
		if err != nil {
			return fmt.Errorf("set: %w", err)
		}
		if !bytes.Equal(key, entry.Key) {
			continue
		}
		if entry.Value, err = entry.State.EncodeValueJSON(e.Set.Value); err != nil {
			return fmt.Errorf("set: %w", err)
		}
		e.once("")
	}
	for _, e := range kafka {
		split, ok := kafkaElement(entry)
		if !ok {
			return nil
		}
		c := e.Kafka.changeOf(split)
		if c == nil {
			continue
		}
		value, found, err := c.element(entry)
		if err != nil {
			return err
		}
		if found {
			entry.Value = value
			e.once(fmt.Sprint(c.Partition))
		}
	}
	return nil
}

// RewriteResult is what [RewritePlan.Execute] did.
type RewriteResult struct {
	*rewrite.Result
	// Edits say what each of them was about.
	Edits []EditResult `json:"edits,omitempty"`
}

// Execute writes the new snapshot; its metadata comes last. Progress, if not nil, is told how many bytes of state were read and how many there
// are, from several goroutines. After an error nothing is left behind.
func (p *RewritePlan) Execute(ctx context.Context, progress func(done, total int64)) (*RewriteResult, error) {
	for _, e := range p.edits {
		if e.DropEntries != nil || e.Kafka != nil {
			e.matches.Store(0)
		}
	}
	var done atomic.Int64
	r, err := p.Plan.Execute(ctx, p.target, func(n int64) {
		if progress != nil {
			progress(min(done.Add(n), p.Bytes), p.Bytes)
		}
	})
	switch {
	case errors.Is(err, rewrite.ErrCannotCarry), errors.Is(err, rewrite.ErrNotEmpty):
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return nil, err
	}
	result := &RewriteResult{Result: r}
	for _, e := range p.edits {
		result.Edits = append(result.Edits, EditResult{e.Edit, e.matches.Load()})
	}
	return result, nil
}
