package tools

import (
	"fmt"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// semantics checks what decoding does not: that the metadata makes sense. It
// gives what a restore must stumble over, and what Flink would accept silently.
func semantics(s *Snapshot) (damage []CheckProblem, warnings []string) {
	c := &checker{s: s}
	if w := trailing(s, s.Properties.Info()); w != "" {
		c.warn("%s", w)
	}
	if s.Version >= metadata.Version4 && s.Properties.Info() == (metadata.PropertiesInfo{}) && string(s.Properties) != string(metadata.NullProperties) {
		c.warn("the properties are in a form that is not known (%s); Flink needs them to restore with CLAIM", count(len(s.Properties), "byte"))
	}
	seen := map[metadata.OperatorID]bool{}
	for i := range s.Operators {
		o := &s.Operators[i]
		if seen[o.ID] {
			c.warn("operator %s is there twice; on a restore the last one counts", operatorName(o))
		}
		seen[o.ID] = true
		c.operator(i, o)
	}
	c.directories()
	return c.damage, c.warnings
}

// directories warns of directories of file merging that hold the snapshot.
func (c *checker) directories() {
	warned := map[string]bool{}
	for r := range c.s.Refs() {
		if r.Kind != metadata.RefDirectory || warned[r.Path] {
			continue
		}
		if _, inside := storage.Rel(r.Path, c.s.Dir); inside {
			warned[r.Path] = true
			c.warn("%s is registered as a directory of file merging (%s), and holds the snapshot itself: after a restore with CLAIM Flink deletes it with all it holds", r.Path, r.Field())
		}
	}
}

type checker struct {
	s        *Snapshot
	damage   []CheckProblem
	warnings []string
	ranges   int // of key groups that were reported
}

func (c *checker) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

func (c *checker) operator(index int, o *metadata.Operator) {
	name := operatorName(o)
	if o.UID != "" && metadata.UIDHash(o.UID.String()) != o.ID {
		c.warn("operator %s: the id is not the hash of its uid, which is %s; a job with this uid would not find the state", name, metadata.UIDHash(o.UID.String()))
	}
	if o.MaxParallelism < 1 || o.MaxParallelism > keygroup.UpperBound {
		c.warn("operator %s: max parallelism %d is not between 1 and %d", name, o.MaxParallelism, keygroup.UpperBound)
	}
	if o.Parallelism < 1 {
		c.warn("operator %s: parallelism %d is not positive", name, o.Parallelism)
	}
	seen := map[int32]bool{}
	for i := range o.Subtasks {
		t := &o.Subtasks[i]
		if seen[t.Index] {
			c.warn("operator %s: subtask %d is there twice; Flink silently takes the last one", name, t.Index)
		}
		seen[t.Index] = true
		if t.State == nil {
			continue
		}
		field := fmt.Sprintf("operators[%d].subtasks[%d]", index, i)
		at := Use{Operator: o.ID, Name: o.Name.String(), UID: o.UID.String(), Subtask: t.Index, Size: -1}
		c.keyed(o, t.Index, "managed keyed state", t.State.ManagedKeyed)
		c.keyed(o, t.Index, "raw keyed state", t.State.RawKeyed)
		c.offsets(o, at, field, t.State)
	}
}

// keyed checks that a handle has the key groups of its subtask.
func (c *checker) keyed(o *metadata.Operator, subtask int32, role string, k metadata.Keyed) {
	var have keygroup.Range
	switch h := k.(type) {
	case *metadata.KeyGroups:
		have = h.Range()
	case *metadata.Incremental:
		have = h.KeyGroups.Range()
	case *metadata.Changelog:
		have = h.KeyGroups.Range()
	default:
		return
	}
	if o.Parallelism < 1 || o.MaxParallelism < 1 {
		return
	}
	want := keygroup.RangeOf(int(subtask), int(o.MaxParallelism), int(o.Parallelism))
	if have == want || have.Empty() && want.Empty() {
		return
	}
	if c.ranges++; c.ranges <= mostProblems {
		c.warn("operator %s, subtask %d, %s: key groups %s instead of %s", operatorName(o), subtask, role, have, want)
	}
}

// offsets checks that offsets lie in the stream that they are of.
func (c *checker) offsets(o *metadata.Operator, at Use, field string, s *metadata.SubtaskState) {
	bad := func(role, inner string, offset, size int64) {
		at.Role, at.Field = role, field+"."+inner
		at.Text = fmt.Sprintf("operator %s, subtask %d, %s", operatorName(o), at.Subtask, role)
		c.damage = append(c.damage, CheckProblem{
			Problem: ProblemOffset, Expected: -1, Uses: []Use{at},
			Detail: fmt.Sprintf("offset %d in a stream of %d bytes", offset, size),
		})
	}
	for _, list := range [...]struct {
		role, field string
		states      []*metadata.OperatorState
	}{{"managed operator state", "managedOperator", s.ManagedOperator}, {"raw operator state", "rawOperator", s.RawOperator}} {
		for _, h := range list.states {
			if h == nil {
				continue
			}
			size := streamSize(h.Delegate)
			for i, st := range h.States {
				if off, ok := beyond(st.Offsets, size, 0); ok {
					bad(list.role, fmt.Sprintf("%s.states[%d].offsets", list.field, i), off, size)
				}
			}
		}
	}
	for _, keyed := range [...]struct {
		role, field string
		k           metadata.Keyed
	}{{"managed keyed state", "managedKeyed", s.ManagedKeyed}, {"raw keyed state", "rawKeyed", s.RawKeyed}} {
		if h, ok := keyed.k.(*metadata.KeyGroups); ok {
			size := streamSize(h.Delegate)
			if off, ok := beyond(h.Offsets, size, -1); ok {
				bad(keyed.role, keyed.field+".keyGroups.offsets", off, size)
			}
		}
	}
	for _, list := range [...]struct {
		role, field string
		channels    []metadata.ChannelState
	}{{"input channel state", "inputChannels", s.InputChannels}, {"output channel state", "outputChannels", s.OutputChannels}} {
		for i := range list.channels {
			size := streamSize(list.channels[i].Delegate)
			channels, err := list.channels[i].Channels()
			if err != nil || size < 0 {
				continue
			}
			for j, ch := range channels {
				// Every buffer has bytes, so that none begins at the end.
				if off, ok := beyond(ch.Offsets, size-1, 0); ok {
					bad(list.role, fmt.Sprintf("%s[%d].channels[%d].offsets", list.field, i, j), off, size)
				}
			}
		}
	}
}

// beyond finds an offset that is not between least and size.
func beyond(offsets []int64, size, least int64) (int64, bool) {
	if size < least {
		return 0, false
	}
	for _, o := range offsets {
		if o < least || o > size {
			return o, true
		}
	}
	return 0, false
}

// streamSize is the length of a stream in bytes, -1 if the handle does not say.
func streamSize(s metadata.Stream) int64 {
	switch h := s.(type) {
	case *metadata.ByteStream:
		return int64(len(h.Data))
	case *metadata.File:
		return h.Size
	case *metadata.RelativeFile:
		return h.Size
	case *metadata.Segment:
		return h.Size
	case *metadata.KeyGroupsStream:
		return streamSize(h.Delegate)
	}
	return -1
}
