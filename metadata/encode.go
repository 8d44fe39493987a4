package metadata

import (
	"errors"
	"fmt"

	"github.com/drey-state/drey/internal/javaio"
)

// Encode writes a _metadata file in s.Version. It fails with an [*Error],
// and gives nothing, if a string is too long or not modified UTF-8, a handle
// is missing or of a kind that its place does not allow, or the version can't express something
// (then the error unwraps to [ErrInexpressible]; see [Snapshot.As]).
func Encode(s *Snapshot) ([]byte, error) {
	m := &encoder{Writer: javaio.NewMeasure(), v: s.Version, dialect: s.Dialect, checks: true}
	m.snapshot(s)
	if m.Failed() {
		return nil, m.Err()
	}
	e := &encoder{Writer: javaio.NewWriter(make([]byte, 0, m.Len())), v: s.Version, dialect: s.Dialect}
	e.snapshot(s)
	return e.Written(), e.Err()
}

// encoder mirrors decoder, function by function.
type encoder struct {
	*javaio.Writer
	v       Version
	dialect Dialect
	checks  bool // what is costly to check is checked in the first of two passes
}

func (e *encoder) snapshot(s *Snapshot) {
	if s.Version < Version1 || s.Version > Version6 {
		e.Fail("version", &versionError{s.Version})
		return
	}
	if s.Dialect > Dialect114 || s.Dialect != DialectStandard && s.Version != Version3 {
		e.Fail("version", fmt.Errorf("version %d has no %s: %w", s.Version, s.Dialect, ErrInexpressible))
	}
	e.I32(magic)
	e.I32(int32(s.Version))
	if s.CheckpointID < 0 {
		e.Fail("checkpointID", fmt.Errorf("%d is negative", s.CheckpointID))
	}
	e.I64(s.CheckpointID)
	if e.v >= Version2 {
		e.Count(len(s.MasterStates), "masterStates")
		for i := 0; i < len(s.MasterStates) && !e.Failed(); i++ {
			e.masterState(&s.MasterStates[i])
			e.WithinIndex("masterStates", i)
		}
	} else if len(s.MasterStates) > 0 {
		e.inexpressible("masterStates", "master states")
	}
	e.Count(len(s.Operators), "operators")
	for i := 0; i < len(s.Operators) && !e.Failed(); i++ {
		e.operator(&s.Operators[i])
		e.WithinIndex("operators", i)
	}
	if e.v >= Version4 {
		if len(s.Trailing) > 0 {
			e.inexpressible("trailing", "trailing bytes apart from the properties")
		}
		if need := s.Properties.missing(); need > 0 {
			e.Fail("properties", fmt.Errorf("%d bytes are missing; use NullProperties for none", need))
		}
		e.Raw(s.Properties)
		return
	}
	if len(s.Properties) > 0 {
		e.inexpressible("properties", "checkpoint properties")
	}
	e.Raw(s.Trailing)
}

func (e *encoder) inexpressible(field, what string) {
	e.Fail(field, fmt.Errorf("%s: version %d: %w", what, e.v, ErrInexpressible))
}

func (e *encoder) masterState(m *MasterState) {
	e.I32(masterMagic)
	e.Count(4+2+len(m.Name)+4+len(m.Payload), "length")
	e.I32(m.Version)
	e.text(m.Name, "name")
	e.Bytes(m.Payload, "payload")
}

func (e *encoder) operator(o *Operator) {
	if e.v >= Version5 {
		e.text(o.Name, "name")
		e.text(o.UID, "uid")
	} else if o.Name != "" || o.UID != "" {
		e.inexpressible("name", "an operator's name and uid")
	}
	e.Raw(o.ID[:])
	if o.Parallelism > o.MaxParallelism {
		e.Fail("parallelism", fmt.Errorf("%d is more than the max parallelism %d", o.Parallelism, o.MaxParallelism))
	}
	e.I32(o.Parallelism)
	e.I32(o.MaxParallelism)
	if e.v <= Version2 {
		if o.Coordinator != nil {
			e.inexpressible("coordinator", "coordinator state")
		}
		e.I32(o.ChainLength)
	} else {
		if o.Coordinator != nil && o.Coordinator.Tag() != TagByteStream {
			e.Fail("coordinator", fmt.Errorf("tag %d is not a byte stream: %w", o.Coordinator.Tag(), ErrTag))
		}
		e.stream(o.Coordinator, "coordinator", maxNesting)
	}
	e.subtasks(o)
}

func (e *encoder) subtasks(o *Operator) {
	if o.FullyFinished {
		switch {
		case e.v <= Version2:
			e.inexpressible("subtasks", "a fully finished operator")
		case len(o.Subtasks) > 0 || o.Coordinator != nil:
			e.Fail("subtasks", errors.New("a fully finished operator has state"))
		}
		e.I32(min(o.finished, 0) - oneIf(o.finished >= 0))
		return
	}
	e.Count(len(o.Subtasks), "subtasks")
	for i := 0; i < len(o.Subtasks) && !e.Failed(); i++ {
		e.subtask(&o.Subtasks[i], o.Parallelism)
		e.WithinIndex("subtasks", i)
	}
}

func oneIf(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func (e *encoder) subtask(s *Subtask, parallelism int32) {
	if s.Index < 0 || s.Index >= parallelism {
		e.Fail("index", fmt.Errorf("subtask %d of an operator with parallelism %d", s.Index, parallelism))
	}
	if s.State == nil {
		if e.v <= Version2 {
			e.inexpressible("index", "a finished subtask")
		}
		e.I32(-s.Index - 1)
		return
	}
	e.I32(s.Index)
	e.subtaskState(s.State)
}

func (e *encoder) subtaskState(s *SubtaskState) {
	if e.v <= Version2 {
		e.I64(s.Unused)
		e.Count(len(s.Legacy), "legacy")
		for i := 0; i < len(s.Legacy) && !e.Failed(); i++ {
			e.stream(s.Legacy[i], "", maxNesting)
			e.WithinIndex("legacy", i)
		}
	} else if len(s.Legacy) > 0 {
		e.inexpressible("legacy", "state of the Checkpointed interface")
	}
	e.operatorStates(s.ManagedOperator, "managedOperator", s.presence[0])
	e.operatorStates(s.RawOperator, "rawOperator", s.presence[1])
	e.keyed(s.ManagedKeyed, "managedKeyed", anyKeyed)
	e.keyed(s.RawKeyed, "rawKeyed", anyKeyed)
	if e.v >= Version3 {
		e.channels(s.InputChannels, "inputChannels", channelInput, channelMergedInput)
		e.channels(s.OutputChannels, "outputChannels", channelOutput, channelMergedOutput)
	} else if len(s.InputChannels) > 0 || len(s.OutputChannels) > 0 {
		e.inexpressible("inputChannels", "channel state")
	}
}

func (e *encoder) operatorStates(states []*OperatorState, field string, presence int32) {
	if e.v == Version1 {
		e.Count(len(states), field)
	} else {
		if len(states) > 1 {
			e.inexpressible(field, "more than one operator state of a subtask")
		}
		if len(states) == 0 || presence == 0 {
			presence = int32(len(states))
		}
		e.I32(presence)
	}
	for i := 0; i < len(states) && !e.Failed(); i++ {
		e.operatorState(states[i])
		if e.v == Version1 {
			e.WithinIndex(field, i)
		} else {
			e.Within(field)
		}
	}
}

func (e *encoder) operatorState(s *OperatorState) {
	if s == nil {
		e.U8(byte(TagNull))
		return
	}
	e.U8(byte(s.Tag()))
	e.Count(len(s.States), "states")
	for i := 0; i < len(s.States) && !e.Failed(); i++ {
		o := &s.States[i]
		e.text(o.Name, "name")
		if o.Mode > ModeBroadcast {
			e.Fail("mode", fmt.Errorf("%d is unknown", o.Mode))
		}
		e.U8(byte(o.Mode))
		e.I64s(o.Offsets, "offsets")
		e.WithinIndex("states", i)
	}
	if m := s.Merged; m != nil {
		e.text(m.TaskOwned, "taskOwnedDirectory")
		e.text(m.Shared, "sharedDirectory")
		switch {
		case m.Empty && m.rawEmpty != 0:
			e.U8(m.rawEmpty)
		default:
			e.U8(byte(oneIf(m.Empty)))
		}
		if s.Delegate != nil && s.Delegate.Tag() != TagSegment && s.Delegate.Tag() != TagEmptySegment {
			e.Fail("delegate", fmt.Errorf("tag %d is not a segment: %w", s.Delegate.Tag(), ErrTag))
		}
	}
	e.someStream(s.Delegate, "delegate", maxNesting)
}

func (e *encoder) keyed(k Keyed, field string, allowed keyedSet) {
	if e.Failed() {
		return // else the field would be put before an earlier one's error
	}
	if k == nil {
		e.U8(byte(TagNull))
		return
	}
	tag := k.Tag()
	if allowed&(1<<tag) == 0 {
		e.Fail(field, fmt.Errorf("handle tag %d: %w", tag, ErrTag))
	}
	e.U8(byte(tag))
	switch h := k.(type) {
	case *KeyGroups:
		e.keyGroups(h)
	case *Incremental:
		e.incremental(h)
	case *Changelog:
		e.changelog(h)
	case *ChangelogMemory:
		e.changelogMemory(h)
	case *ChangelogFile:
		e.changelogFile(h)
	}
	e.Within(field)
}

func (e *encoder) keyGroups(h *KeyGroups) {
	e.keyGroupOffsets(h.KeyGroupOffsets)
	e.someStream(h.Delegate, "delegate", maxNesting)
	if h.Form == KeyGroupsV2 {
		e.text(h.ID, "id")
	}
}

func (e *encoder) keyGroupOffsets(o KeyGroupOffsets) {
	e.I32(o.Start)
	e.I64s(o.Offsets, "keyGroups.offsets")
	e.checkRange(o.Start, int32(len(o.Offsets)))
}

func (e *encoder) keyGroupRange(g KeyGroupRange) {
	if g.Count < 0 {
		e.Fail("keyGroups", fmt.Errorf("negative count %d", g.Count))
	}
	e.checkRange(g.Start, g.Count)
	e.I32(g.Start)
	e.I32(g.Count)
}

func (e *encoder) checkRange(start, count int32) {
	if count > 0 && (start < 0 || int64(start)+int64(count) > 1<<31) {
		e.Fail("keyGroups", fmt.Errorf("%d key groups from %d on", count, start))
	}
}

func (e *encoder) incremental(h *Incremental) {
	e.I64(h.CheckpointID)
	e.text(h.BackendID, "backendID")
	e.keyGroupRange(h.KeyGroups)
	if !h.V1 {
		e.I64(h.CheckpointedSize)
	}
	e.someStream(h.Meta, "meta", maxNesting)
	e.localFiles(h.Shared, "shared")
	e.localFiles(h.Private, "private")
	if !h.V1 {
		e.text(h.ID, "id")
	}
}

func (e *encoder) localFiles(files []LocalFile, field string) {
	e.Count(len(files), field)
	for i := 0; i < len(files) && !e.Failed(); i++ {
		e.text(files[i].LocalName, "localName")
		e.someStream(files[i].Stream, "", maxNesting)
		if e.Failed() {
			e.WithinIndex(field, i)
		}
	}
}

func (e *encoder) changelog(h *Changelog) {
	e.keyGroupRange(h.KeyGroups)
	if e.dialect != Dialect114 {
		e.I64(h.CheckpointedSize)
	} else if !h.V1 {
		e.inexpressible("checkpointID", "a changelog handle of Flink 1.16 in the dialect of 1.14")
	}
	e.keyedList(h.Base, "base", stateTags)
	e.keyedList(h.Delta, "delta", changeTags)
	if e.dialect != Dialect114 {
		e.I64(h.MaterializationID)
		if !h.V1 {
			e.I64(h.CheckpointID)
		}
		e.text(h.ID, "id")
	}
}

func (e *encoder) keyedList(list []Keyed, field string, allowed keyedSet) {
	e.Count(len(list), field)
	for i := 0; i < len(list) && !e.Failed(); i++ {
		e.keyed(list[i], "", allowed)
		e.WithinIndex(field, i)
	}
}

func (e *encoder) changelogMemory(h *ChangelogMemory) {
	e.keyGroupRange(h.KeyGroups)
	e.I64(h.From)
	e.I64(h.To)
	e.Count(len(h.Changes), "changes")
	for i := 0; i < len(h.Changes) && !e.Failed(); i++ {
		e.I32(h.Changes[i].KeyGroup)
		e.Bytes(h.Changes[i].Change, "change")
		e.WithinIndex("changes", i)
	}
	if e.dialect != Dialect114 {
		e.text(h.ID, "id")
	}
}

func (e *encoder) changelogFile(h *ChangelogFile) {
	e.keyGroupRange(h.KeyGroups)
	e.Count(len(h.Streams), "streams")
	for i := 0; i < len(h.Streams) && !e.Failed(); i++ {
		e.I64(h.Streams[i].Offset)
		e.someStream(h.Streams[i].Stream, "", maxNesting)
		e.WithinIndex("streams", i)
	}
	e.I64(h.Size)
	if e.dialect != Dialect114 {
		e.I64(h.IncrementalSize)
		e.text(h.ID, "id")
		if !h.V1 {
			e.text(h.StorageID, "storageID")
		}
	} else if !h.V1 {
		e.inexpressible("storageID", "a changelog handle of Flink 1.16 in the dialect of 1.14")
	}
}

func (e *encoder) channels(list []ChannelState, field string, single, merged byte) {
	e.Count(len(list), field)
	for i := 0; i < len(list) && !e.Failed(); i++ {
		e.channel(&list[i], single, merged)
		e.WithinIndex(field, i)
	}
}

func (e *encoder) channel(c *ChannelState, single, merged byte) {
	switch {
	case e.v >= Version6 && c.Merged:
		e.U8(merged)
	case e.v >= Version6:
		e.U8(single)
	case c.Merged:
		e.inexpressible("channels", "merged channel state")
	}
	if e.dialect != Dialect111 {
		e.I32(c.Subtask)
	}
	if c.Merged {
		e.I64(c.Size)
		e.someStream(c.Delegate, "delegate", maxNesting)
		if e.checks && !e.Failed() {
			if _, err := c.channels(); err != nil {
				e.Fail(err.Field, err.Err)
				e.Within("channels")
			}
		}
		e.Bytes(c.Blob, "channels")
		return
	}
	e.I32(c.Group)
	e.I32(c.Channel)
	e.I64s(c.Offsets, "offsets")
	e.I64(c.Size)
	e.someStream(c.Delegate, "delegate", maxNesting)
}

func (e *encoder) someStream(s Stream, field string, depth int) {
	if s == nil {
		e.Fail(field, fmt.Errorf("null handle: %w", ErrTag))
		return
	}
	e.stream(s, field, depth)
}

func (e *encoder) stream(s Stream, field string, depth int) {
	if e.Failed() {
		return // as in keyed
	}
	if s == nil {
		e.U8(byte(TagNull))
		return
	}
	e.U8(byte(s.Tag()))
	switch h := s.(type) {
	case *File:
		e.size(h.Size)
		e.text(h.Path, "path")
	case *ByteStream:
		e.text(h.Name, "name")
		e.Bytes(h.Data, "data")
	case *RelativeFile:
		e.text(h.Path, "path")
		e.size(h.Size)
	case *Segment:
		e.I64(h.Start)
		e.I64(h.Size)
		if h.Scope != ScopeExclusive && h.Scope != ScopeShared {
			e.Fail("scope", fmt.Errorf("%d is unknown", h.Scope))
		}
		e.I32(int32(h.Scope))
		e.text(h.Path, "path")
		e.text(h.LogicalFileID, "logicalFileID")
	case *EmptySegment:
	case *KeyGroupsStream:
		if depth == 0 {
			e.Fail(field, errors.New("handles nested too deeply"))
			return
		}
		e.keyGroupOffsets(h.KeyGroupOffsets)
		e.someStream(h.Delegate, "delegate", depth-1)
	}
	e.Within(field)
}

func (e *encoder) size(n int64) {
	if n < -1 {
		e.Fail("size", fmt.Errorf("%d is less than -1", n))
	}
	e.I64(n)
}

func (e *encoder) text(t Text, field string) {
	if e.checks && len(t) <= javaio.MaxUTF && !javaio.ValidUTF(string(t)) {
		e.Fail(field, javaio.ErrInvalidUTF)
	}
	e.UTF(string(t), field)
}
