package metadata

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drey-state/drey/internal/javaio"
)

// As gives a snapshot that [Encode] writes in version v, 2 to 6. It is a new
// value that shares with s what stays the same; in its own version a snapshot
// stays as it is, dialect and all. Only the metadata is converted: whether a
// release can read the state in the files is another question.
//
// The last release that writes v must know every handle of the result: Flink
// 1.10 for version 2, 1.15 for 3, 1.20 for 4, 2.0 for 5, 2.3 for 6. Handles
// that it knows stay in the form that they have. Otherwise:
//
//   - Version 2: [KeyGroups] and [Incremental] get the form of version 1,
//     which has no ID and no CheckpointedSize. The reader makes up an ID.
//   - Version 3: [Changelog] and [ChangelogFile] get the form of version 1,
//     without CheckpointID and StorageID, which must be "filesystem".
//   - Versions 3 to 5: merged channel state becomes one handle for each channel.
//   - Versions 4 to 6, from an older one: the properties are [NullProperties].
//
// What the new version has no field for is dropped where nothing depends on it:
//
//   - below 5, the operators' Name and UID, which are for display (the ID is
//     what a job finds its state by);
//   - below 4, the Properties. With them goes what kind of snapshot it is and,
//     for a claimed one, whether later checkpoints may go on using its files;
//   - Trailing, ChainLength and Unused. Version 2 gets ChainLength 1 and Unused -1,
//     as Flink writes.
//
// Anything else is an [*Error] that names the field and unwraps to
// [ErrInexpressible]: relative files, coordinator state, finished subtasks
// and operators, channel state and changelogs in version 2; segments of merged files
// below 4; state of the Checkpointed interface above 2; a chain of several
// operators of version 1, which does not say their ids; changelogs of Flink
// 1.14, which lack their ID; and anything in version 1.
//
// Channel state of Flink 1.11 does not say which subtask wrote it: it gets
// the index of the subtask that it belongs to, which is what later releases write.
func (s *Snapshot) As(v Version) (*Snapshot, error) {
	r := *s
	if v == s.Version {
		return &r, nil
	}
	c := &converter{Writer: javaio.NewMeasure(), from: s.Version, dialect: s.Dialect, v: v}
	c.snapshot(&r)
	if c.Failed() {
		var e *Error
		if errors.As(c.Err(), &e) {
			e.Offset = -1 // nothing was written
		}
		return nil, c.Err()
	}
	return &r, nil
}

// converter mirrors encoder, function by function. Of its Writer it uses the error only.
type converter struct {
	*javaio.Writer
	from    Version
	dialect Dialect
	v       Version
}

func (c *converter) inexpressible(field, what string) {
	c.Fail(field, fmt.Errorf("%s: version %d: %w", what, c.v, ErrInexpressible))
}

// convertList gives a list of what fn makes of the elements, the same list if
// it changes none. Like all lists here it stops at an error, whose field must
// get this list's name only.
func convertList[T comparable](c *converter, list []T, field string, fn func(T) T) []T {
	copied := false
	for i := 0; i < len(list) && !c.Failed(); i++ {
		v := list[i]
		w := fn(v)
		c.WithinIndex(field, i)
		if w != v {
			if !copied {
				list, copied = slices.Clone(list), true
			}
			list[i] = w
		}
	}
	return list
}

func (c *converter) snapshot(s *Snapshot) {
	switch {
	case c.v < Version1 || c.v > Version6:
		c.Fail("version", &versionError{c.v})
		return
	case c.from < Version1 || c.from > Version6:
		c.Fail("version", &versionError{c.from})
		return
	case c.v == Version1:
		c.inexpressible("version", "a snapshot by operators")
		return
	}
	s.Version, s.Dialect, s.Trailing = c.v, DialectStandard, nil
	switch {
	case c.v < Version4:
		s.Properties = nil
	case c.from < Version4:
		s.Properties = NullProperties
	}
	s.Operators = slices.Clone(s.Operators)
	for i := 0; i < len(s.Operators) && !c.Failed(); i++ {
		c.operator(&s.Operators[i])
		c.WithinIndex("operators", i)
	}
}

func (c *converter) operator(o *Operator) {
	if c.v < Version5 {
		o.Name, o.UID = "", ""
	}
	if c.from == Version1 && o.ChainLength != 1 {
		c.inexpressible("chainLength", fmt.Sprintf("a chain of %d operators, whose ids version 1 does not tell", o.ChainLength))
	}
	o.ChainLength = 0
	if c.v == Version2 {
		o.ChainLength = 1
		switch {
		case o.Coordinator != nil:
			c.inexpressible("coordinator", "coordinator state")
		case o.FullyFinished:
			c.inexpressible("subtasks", "a fully finished operator")
		}
	}
	o.Subtasks = slices.Clone(o.Subtasks)
	for i := 0; i < len(o.Subtasks) && !c.Failed(); i++ {
		c.subtask(&o.Subtasks[i])
		c.WithinIndex("subtasks", i)
	}
}

func (c *converter) subtask(s *Subtask) {
	if s.State == nil {
		if c.v == Version2 {
			c.inexpressible("index", "a finished subtask")
		}
		return
	}
	state := *s.State
	c.subtaskState(&state, s.Index)
	s.State = &state
}

func (c *converter) subtaskState(s *SubtaskState, index int32) {
	switch {
	case c.v > Version2:
		s.Unused = 0
	case c.from > Version2:
		s.Unused = -1
	}
	s.Legacy = c.legacy(s.Legacy)
	s.ManagedOperator = c.operatorStates(s.ManagedOperator, "managedOperator")
	s.RawOperator = c.operatorStates(s.RawOperator, "rawOperator")
	s.ManagedKeyed = c.keyed(s.ManagedKeyed, "managedKeyed")
	s.RawKeyed = c.keyed(s.RawKeyed, "rawKeyed")
	s.InputChannels = c.channels(s.InputChannels, "inputChannels", index)
	s.OutputChannels = c.channels(s.OutputChannels, "outputChannels", index)
}

// legacy drops the null handles that Flink 1.2 writes for operators without such state.
func (c *converter) legacy(list []Stream) []Stream {
	var kept []Stream
	for i := 0; i < len(list) && !c.Failed(); i++ {
		h := list[i]
		if h == nil {
			continue
		}
		if c.v > Version2 {
			c.inexpressible("", "state of the Checkpointed interface")
		}
		c.stream(h, "")
		kept = append(kept, h)
		c.WithinIndex("legacy", i)
	}
	return kept
}

func (c *converter) operatorStates(list []*OperatorState, field string) []*OperatorState {
	if c.from == Version1 {
		var kept []*OperatorState
		for _, s := range list {
			if s != nil {
				kept = append(kept, s)
			}
		}
		list = kept
	}
	if len(list) > 1 {
		c.inexpressible(field, "more than one operator state of a subtask")
	}
	for i := 0; i < len(list) && !c.Failed(); i++ {
		c.operatorState(list[i])
		c.Within(field)
	}
	return list
}

func (c *converter) operatorState(s *OperatorState) {
	if s == nil {
		return
	}
	if s.Merged != nil && c.v < Version4 {
		c.inexpressible("", "operator state in a merged file")
	}
	c.stream(s.Delegate, "delegate")
}

func (c *converter) keyed(k Keyed, field string) Keyed {
	if c.Failed() {
		return k
	}
	switch h := k.(type) {
	case *KeyGroups:
		k = c.keyGroups(h)
	case *Incremental:
		k = c.incremental(h)
	case *Changelog:
		k = c.changelog(h)
	case *ChangelogMemory:
		c.changelogKnown()
	case *ChangelogFile:
		k = c.changelogFile(h)
	}
	c.Within(field)
	return k
}

func (c *converter) keyGroups(h *KeyGroups) *KeyGroups {
	c.stream(h.Delegate, "delegate")
	if c.v == Version2 && h.Form != KeyGroupsV1 {
		n := *h
		n.Form, n.ID = KeyGroupsV1, ""
		return &n
	}
	return h
}

func (c *converter) incremental(h *Incremental) *Incremental {
	c.stream(h.Meta, "meta")
	c.localFiles(h.Shared, "shared")
	c.localFiles(h.Private, "private")
	if c.v == Version2 && !h.V1 {
		n := *h
		n.V1, n.CheckpointedSize, n.ID = true, 0, ""
		return &n
	}
	return h
}

func (c *converter) localFiles(files []LocalFile, field string) {
	for i := 0; i < len(files) && !c.Failed(); i++ {
		c.stream(files[i].Stream, "")
		if c.Failed() {
			c.WithinIndex(field, i)
		}
	}
}

// changelogKnown refuses where no release knows changelogs, or not all of them is there.
func (c *converter) changelogKnown() {
	if c.v == Version2 {
		c.inexpressible("", "a changelog")
	}
	if c.dialect == Dialect114 {
		c.inexpressible("", "a changelog of Flink 1.14, which has no id")
	}
}

func (c *converter) changelog(h *Changelog) *Changelog {
	c.changelogKnown()
	n := *h
	n.Base = convertList(c, h.Base, "base", func(k Keyed) Keyed { return c.keyed(k, "") })
	n.Delta = convertList(c, h.Delta, "delta", func(k Keyed) Keyed { return c.keyed(k, "") })
	if c.v == Version3 && !h.V1 {
		n.V1, n.CheckpointID = true, 0
	}
	return &n
}

func (c *converter) changelogFile(h *ChangelogFile) *ChangelogFile {
	c.changelogKnown()
	for i := 0; i < len(h.Streams) && !c.Failed(); i++ {
		c.stream(h.Streams[i].Stream, "")
		c.WithinIndex("streams", i)
	}
	if c.v == Version3 && !h.V1 {
		// Tag 10 has no storage id; whoever reads it takes it for a file's.
		if h.StorageID != "filesystem" {
			c.inexpressible("storageID", fmt.Sprintf("a changelog in the storage %q", h.StorageID))
		}
		n := *h
		n.V1, n.StorageID = true, ""
		return &n
	}
	return h
}

func (c *converter) channels(list []ChannelState, field string, index int32) []ChannelState {
	if len(list) > 0 && c.v == Version2 {
		c.inexpressible(field, "channel state")
		return nil
	}
	var out []ChannelState
	for i := 0; i < len(list) && !c.Failed(); i++ {
		out = c.channel(out, list[i], index)
		c.WithinIndex(field, i)
	}
	return out
}

// channel appends to list what becomes of h.
func (c *converter) channel(list []ChannelState, h ChannelState, index int32) []ChannelState {
	if c.dialect == Dialect111 {
		h.Subtask = index
	}
	c.stream(h.Delegate, "delegate")
	if !h.Merged || c.v >= Version6 || c.Failed() {
		return append(list, h)
	}
	channels, err := h.channels()
	if err != nil {
		c.Fail(err.Field, err.Err)
		c.Within("channels")
		return list
	}
	for _, ch := range channels {
		list = append(list, ChannelState{
			Subtask: h.Subtask, Group: ch.Group, Channel: ch.Channel,
			Offsets: ch.Offsets, Size: ch.Size, Delegate: h.Delegate,
		})
	}
	return list
}

// stream checks that the version knows the handle; none has another form for it.
func (c *converter) stream(s Stream, field string) {
	if c.Failed() {
		return
	}
	switch h := s.(type) {
	case *RelativeFile:
		if c.v == Version2 {
			c.inexpressible(field, "a relative file; make it absolute with Rewrite first")
		}
	case *Segment, *EmptySegment:
		if c.v < Version4 {
			c.inexpressible(field, "a segment of a merged file")
		}
	case *KeyGroupsStream:
		if c.v == Version2 {
			c.inexpressible(field, "key groups as a stream")
			return
		}
		c.stream(h.Delegate, "delegate")
		c.Within(field)
	}
}

// Kind says what the snapshot is: what its properties tell or, where they
// tell nothing, as in all versions up to 3, KindCanonicalSavepoint if it
// holds keyed state of the form that only canonical savepoints have.
func (s *Snapshot) Kind() Kind {
	if k := s.Properties.Info().Kind; k != KindUnknown {
		return k
	}
	for i := range s.Operators {
		for _, t := range s.Operators[i].Subtasks {
			if t.State == nil {
				continue
			}
			for _, k := range [...]Keyed{t.State.ManagedKeyed, t.State.RawKeyed} {
				if h, ok := k.(*KeyGroups); ok && h.Form == KeyGroupsSavepoint {
					return KindCanonicalSavepoint
				}
			}
		}
	}
	return KindUnknown
}
