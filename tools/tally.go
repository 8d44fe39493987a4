package tools

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/drey-state/drey/metadata"
)

// Contents of an operator, see [OperatorInfo].
const (
	ContentNone  = "none"
	ContentEmpty = "empty"
	ContentState = "state"
)

// StateInfo is a state of operator state by its name.
type StateInfo struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
	// Raw says that it was written to the raw operator stream.
	Raw bool `json:"raw,omitempty"`
	// Elements is the number of elements over all subtasks.
	Elements int `json:"elements"`
}

// OperatorInfo is what the metadata says of one operator. Names of keyed
// state are not in the metadata but in the files.
type OperatorInfo struct {
	ID   metadata.OperatorID `json:"id"`
	Name string              `json:"name,omitempty"`
	UID  string              `json:"uid,omitempty"`
	// MatchedUID is the candidate uid, or what Flink derives from it for
	// parts of a sink, whose hash is the id.
	MatchedUID     string `json:"matchedUID,omitempty"`
	Parallelism    int    `json:"parallelism"`
	MaxParallelism int    `json:"maxParallelism"`
	// Subtasks have an entry with state; FinishedSubtasks had finished.
	Subtasks         int  `json:"subtasks"`
	FinishedSubtasks int  `json:"finishedSubtasks,omitempty"`
	FullyFinished    bool `json:"fullyFinished,omitempty"`
	// Content is "none" if no handle is there, which a restore skips;
	// "empty" if the handles hold nothing, so that nothing is lost without
	// them, though Flink asks for --allowNonRestoredState; else "state".
	Content string      `json:"content"`
	States  []StateInfo `json:"states,omitempty"`
	// Headers are all states that the files have; only if asked for.
	Headers []StateHeader `json:"stateHeaders,omitempty"`
	// Keyed lists the kinds of handles of managed keyed state.
	Keyed []string `json:"keyed,omitempty"`
	// Sizes of state in bytes as the handles say; a file that several handles mean counts for each.
	KeyedBytes       int64 `json:"keyedBytes"`
	RawKeyedBytes    int64 `json:"rawKeyedBytes,omitempty"`
	OperatorBytes    int64 `json:"operatorStateBytes"`
	RawOperatorBytes int64 `json:"rawOperatorStateBytes,omitempty"`
	ChannelBytes     int64 `json:"channelBytes,omitempty"`
	CoordinatorBytes int64 `json:"coordinatorBytes,omitempty"`
	// Bytes is the sum, InlineBytes the part of it that is in the metadata itself.
	Bytes       int64 `json:"bytes"`
	InlineBytes int64 `json:"inlineBytes"`
	// InputChannels and OutputChannels are the channels with in-flight data.
	InputChannels  int `json:"inputChannels,omitempty"`
	OutputChannels int `json:"outputChannels,omitempty"`
	// Files are the distinct files, FileBytes their size.
	Files     int   `json:"files"`
	FileBytes int64 `json:"fileBytes"`
	// UnknownSizes is the number of handles that give no size.
	UnknownSizes int `json:"unknownSizes,omitempty"`

	// MetadataBytes is how much of the metadata file the operator takes, and
	// Classes by what; only if asked for.
	MetadataBytes int64            `json:"metadataBytes,omitempty"`
	Classes       map[string]int64 `json:"metadataClasses,omitempty"`

	hasCoordinator, hasKeyed, hasChannels bool
}

// Classes of fields of the metadata file.
const (
	classInline   = "inline data"
	classPaths    = "paths"
	classOffsets  = "offsets"
	classNames    = "names and ids"
	classChannels = "channel handles"
	classRest     = "structure"
)

// LargeField is a large handle with inline data.
type LargeField struct {
	Field    string              `json:"field"`
	Operator metadata.OperatorID `json:"operator"`
	Bytes    int64               `json:"bytes"`
}

// smallest is a heap of the largest fields so far, the smallest of them first.
type smallest []LargeField

func (h smallest) Len() int           { return len(h) }
func (h smallest) Less(i, j int) bool { return h[i].Bytes < h[j].Bytes }
func (h smallest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *smallest) Push(x any)        { *h = append(*h, x.(LargeField)) }
func (h *smallest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// spot is where the walk is; fields that don't apply are -1.
type spot struct {
	subtask           int
	role              string
	item, base, delta int
	part              string
	file              int
}

func (s spot) field(operator int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operators[%d]", operator)
	index := func(name string, i int) {
		if name == "" {
			return
		}
		b.WriteString("." + name)
		if i >= 0 {
			fmt.Fprintf(&b, "[%d]", i)
		}
	}
	if s.subtask >= 0 {
		index("subtasks", s.subtask)
	}
	index(s.role, s.item)
	if s.base >= 0 {
		index("base", s.base)
	}
	if s.delta >= 0 {
		index("delta", s.delta)
	}
	index(s.part, s.file)
	return b.String()
}

// tally sums up one operator.
type tally struct {
	info  *OperatorInfo
	index int
	top   int
	large *smallest

	states map[string]int // "raw/name" to index in info.States
	solid  bool           // there is state, not only empty handles
	any    bool           // there is a handle
}

// summarize sums up an operator; it adds its large fields to large if top is positive.
func summarize(index int, o *metadata.Operator, top int, large *smallest) OperatorInfo {
	info := OperatorInfo{
		ID: o.ID, Name: o.Name.String(), UID: o.UID.String(),
		Parallelism: int(o.Parallelism), MaxParallelism: int(o.MaxParallelism), FullyFinished: o.FullyFinished,
		Content: ContentNone,
	}
	t := &tally{info: &info, index: index, top: top, large: large, states: map[string]int{}}
	if top > 0 {
		info.Classes = map[string]int64{}
	}
	t.class(classNames, len(o.Name)+len(o.UID))
	at := spot{subtask: -1, role: "coordinator", item: -1, base: -1, delta: -1, file: -1}
	if o.Coordinator != nil {
		info.hasCoordinator, t.any = true, true
		info.CoordinatorBytes = t.stream(at, o.Coordinator)
		t.solid = t.solid || info.CoordinatorBytes > 0
	}
	for i := range o.Subtasks {
		st := o.Subtasks[i].State
		if st == nil {
			info.FinishedSubtasks++
			continue
		}
		before := t.any
		t.any = false
		at.subtask = i
		t.subtask(at, st)
		if t.any {
			info.Subtasks++
		}
		t.any = t.any || before
	}
	switch {
	case t.solid:
		info.Content = ContentState
	case t.any:
		info.Content = ContentEmpty
	}
	info.Bytes = info.KeyedBytes + info.RawKeyedBytes + info.OperatorBytes + info.RawOperatorBytes + info.ChannelBytes + info.CoordinatorBytes
	return info
}

func (t *tally) class(name string, n int) {
	if t.info.Classes != nil && n > 0 {
		t.info.Classes[name] += int64(n)
	}
}

func (t *tally) subtask(at spot, s *metadata.SubtaskState) {
	in := t.info
	for i, h := range s.Legacy {
		at.role, at.item = "legacy", i
		if h != nil {
			t.any = true
			n := t.stream(at, h)
			in.OperatorBytes += n
			t.solid = t.solid || n > 0
		}
	}
	at.role, at.item = "managedOperator", -1
	for _, h := range s.ManagedOperator {
		in.OperatorBytes += t.operatorState(at, h, false)
	}
	at.role = "rawOperator"
	for _, h := range s.RawOperator {
		in.RawOperatorBytes += t.operatorState(at, h, true)
	}
	at.role = "managedKeyed"
	if s.ManagedKeyed != nil {
		in.hasKeyed = true
		if kind := keyedKind(s.ManagedKeyed); !slices.Contains(in.Keyed, kind) {
			in.Keyed = append(in.Keyed, kind)
		}
	}
	in.KeyedBytes += t.keyed(at, s.ManagedKeyed)
	at.role = "rawKeyed"
	in.hasKeyed = in.hasKeyed || s.RawKeyed != nil
	in.RawKeyedBytes += t.keyed(at, s.RawKeyed)
	at.role = "inputChannels"
	in.InputChannels += t.channels(at, s.InputChannels)
	at.role = "outputChannels"
	in.OutputChannels += t.channels(at, s.OutputChannels)
}

func (t *tally) channels(at spot, list []metadata.ChannelState) (channels int) {
	for i := range list {
		c := &list[i]
		t.any, t.solid, t.info.hasChannels = true, true, true
		t.info.ChannelBytes += c.Size
		at.item = i
		if n := t.stream(at, c.Delegate); n > 0 && c.Size == 0 {
			t.info.ChannelBytes += n
		}
		t.class(classChannels, len(c.Blob)+8*len(c.Offsets)+20)
		if !c.Merged {
			channels++
		} else if many, err := c.Channels(); err == nil {
			channels += len(many)
		}
	}
	return channels
}

func (t *tally) operatorState(at spot, h *metadata.OperatorState, raw bool) int64 {
	if h == nil {
		return 0
	}
	t.any = true
	if h.Merged != nil {
		t.class(classPaths, len(h.Merged.TaskOwned)+len(h.Merged.Shared))
	}
	for _, s := range h.States {
		t.class(classNames, len(s.Name))
		t.class(classOffsets, 8*len(s.Offsets))
		t.solid = t.solid || len(s.Offsets) > 0
		key := fmt.Sprintf("%t/%d/%s", raw, s.Mode, s.Name)
		i, ok := t.states[key]
		if !ok {
			i = len(t.info.States)
			t.states[key] = i
			t.info.States = append(t.info.States, StateInfo{Name: s.Name.String(), Mode: s.Mode.String(), Raw: raw})
		}
		t.info.States[i].Elements += len(s.Offsets)
	}
	return t.stream(at, h.Delegate)
}

func keyedKind(k metadata.Keyed) string {
	switch h := k.(type) {
	case *metadata.KeyGroups:
		if h.Form == metadata.KeyGroupsSavepoint {
			return "canonical"
		}
		return "key groups"
	case *metadata.Incremental:
		return "incremental"
	case *metadata.Changelog:
		return "changelog"
	case *metadata.ChangelogMemory, *metadata.ChangelogFile:
		return "changes"
	}
	return "none"
}

func (t *tally) keyed(at spot, k metadata.Keyed) (n int64) {
	if k == nil {
		return 0
	}
	t.any = true
	switch h := k.(type) {
	case *metadata.KeyGroups:
		t.class(classOffsets, 8*len(h.Offsets))
		t.class(classNames, len(h.ID))
		t.solid = t.solid || holdsKeyGroup(h)
		return t.stream(at, h.Delegate)
	case *metadata.Incremental:
		t.solid = true
		t.class(classNames, len(h.BackendID)+len(h.ID))
		meta := at
		meta.part = "meta"
		n = t.stream(meta, h.Meta)
		for i, f := range h.Shared {
			at.part, at.file = "shared", i
			t.class(classNames, len(f.LocalName))
			n += t.stream(at, f.Stream)
		}
		for i, f := range h.Private {
			at.part, at.file = "private", i
			t.class(classNames, len(f.LocalName))
			n += t.stream(at, f.Stream)
		}
	case *metadata.Changelog:
		t.class(classNames, len(h.ID))
		for i, b := range h.Base {
			at.base = i
			n += t.keyed(at, b)
		}
		at.base = -1
		for i, d := range h.Delta {
			at.delta = i
			n += t.keyed(at, d)
		}
	case *metadata.ChangelogMemory:
		t.class(classNames, len(h.ID))
		for i, c := range h.Changes {
			at.part, at.file = "changes", i
			n += t.inline(at, len(c.Change))
		}
		t.solid = t.solid || n > 0
	case *metadata.ChangelogFile:
		t.class(classNames, len(h.ID)+len(h.StorageID))
		for i, s := range h.Streams {
			at.part, at.file = "streams", i
			n += t.stream(at, s.Stream)
		}
		t.solid = t.solid || n > 0 || len(h.Streams) > 0
		// A stream counts whole in each handle that means a part of it; the handle knows its own part.
		if h.Size >= 0 {
			n = h.Size
		}
	}
	return n
}

// holdsKeyGroup says that some key group has data. One without has offset 0
// in a canonical savepoint, where a header comes first, and -1 in raw keyed state.
func holdsKeyGroup(h *metadata.KeyGroups) bool {
	for _, o := range h.Offsets {
		if o > 0 || o == 0 && h.Form != metadata.KeyGroupsSavepoint {
			return true
		}
	}
	return false
}

func (t *tally) inline(at spot, n int) int64 {
	size := int64(n)
	t.class(classInline, n)
	t.info.InlineBytes += size
	if t.top > 0 && n > 0 && (len(*t.large) < t.top || size > (*t.large)[0].Bytes) {
		heap.Push(t.large, LargeField{Field: at.field(t.index), Operator: t.info.ID, Bytes: size})
		if len(*t.large) > t.top {
			heap.Pop(t.large)
		}
	}
	return size
}

// stream gives the size of what a stream holds.
func (t *tally) stream(at spot, s metadata.Stream) int64 {
	known := func(n int64) int64 {
		if n < 0 {
			t.info.UnknownSizes++
			return 0
		}
		return n
	}
	switch h := s.(type) {
	case *metadata.ByteStream:
		t.class(classNames, len(h.Name))
		return t.inline(at, len(h.Data))
	case *metadata.File:
		t.class(classPaths, len(h.Path))
		return known(h.Size)
	case *metadata.RelativeFile:
		t.class(classPaths, len(h.Path))
		return known(h.Size)
	case *metadata.Segment:
		t.class(classPaths, len(h.Path))
		t.class(classNames, len(h.LogicalFileID))
		return known(h.Size)
	case *metadata.KeyGroupsStream:
		t.class(classOffsets, 8*len(h.Offsets))
		return t.stream(at, h.Delegate)
	}
	return 0
}
