package metadata

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/drey-state/drey/internal/javaio"
)

// Decode reads a _metadata file. The snapshot shares data's memory, so data
// must not change afterwards. What Decode accepts, [Encode] gives back byte
// for byte; what it does not understand it refuses with an [*Error].
func Decode(data []byte) (*Snapshot, error) {
	s, err := DecodePartial(data)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// DecodePartial is Decode for looking at a damaged file: with an error it
// also gives what came before, the last element of each list being cut where
// the error is; nil if not even the header is right. Never write a partial
// snapshot.
func DecodePartial(data []byte) (*Snapshot, error) {
	r := javaio.NewReader(data)
	if m := r.I32("magic"); !r.Failed() && m != magic {
		r.Fail(0, "magic", fmt.Errorf("%#08x instead of %#08x: %w", uint32(m), uint32(magic), ErrMagic))
	}
	v := Version(r.I32("version"))
	if !r.Failed() && (v < Version1 || v > Version6) {
		r.Fail(4, "version", &versionError{v})
	}
	if r.Failed() {
		return nil, r.Err()
	}
	if v != Version3 {
		s, _, err := decodeBody(data, v, DialectStandard)
		return s, err
	}

	// Three layouts share version 3. The right one parses to the very end.
	var loose, partial *Snapshot
	var worst error
	for _, d := range [...]Dialect{DialectStandard, Dialect114, Dialect111} {
		s, exact, err := decodeBody(data, v, d)
		switch {
		case err == nil && exact:
			return s, nil
		case err == nil && loose == nil:
			loose = s
		case err != nil && further(err, worst):
			partial, worst = s, err
		}
	}
	if loose != nil {
		return loose, nil
	}
	return partial, worst
}

// further says that decoding got further before err than before the other,
// so that it was more likely the right dialect.
func further(err, than error) bool {
	var a, b *Error
	if !errors.As(than, &b) {
		return true
	}
	return errors.As(err, &a) && a.Offset > b.Offset
}

// decoder reads one layout.
type decoder struct {
	*javaio.Reader
	v       Version
	dialect Dialect

	// Handles of the kinds that come in large numbers are allocated in
	// blocks, as their own size would be doubled by the allocator's work.
	files     block[File]
	relatives block[RelativeFile]
	segments  block[Segment]
	bytes     block[ByteStream]
}

// block hands out pointers into slices that grow with use.
type block[T any] struct {
	free []T
	next int
}

func (b *block[T]) new() *T {
	if len(b.free) == 0 {
		b.next = min(max(4, b.next*2), 512)
		b.free = make([]T, b.next)
	}
	p := &b.free[0]
	b.free = b.free[1:]
	return p
}

// grow gives a list for n elements: all of them at once if that takes no more
// memory than there are bytes left to read, as in any real file; else it shall
// grow by what is read, not by what a count says.
func grow[T any](r *javaio.Reader, n int) []T {
	if n == 0 {
		return nil
	}
	if n > 64 && n > r.Remaining()/int(reflect.TypeFor[T]().Size()) {
		n = 64
	}
	return make([]T, 0, n)
}

// push is append for a list that shall get n elements, where an element can be
// a byte, namely a null: such a list must not be copied as often as append would.
func push[T any](list []T, n int, v T) []T {
	if len(list) == cap(list) {
		list = append(make([]T, 0, min(n, 4*len(list))), list...)
	}
	return append(list, v)
}

// decodeBody decodes one layout. If a count is more than the bytes left can
// hold, the file may have been cut somewhere in the list: then it is read on to
// the very place. If that is not what comes out, the count was wrong.
func decodeBody(data []byte, v Version, dialect Dialect) (s *Snapshot, exact bool, err error) {
	d := &decoder{Reader: javaio.NewReader(data), v: v, dialect: dialect}
	s, exact, err = d.body(data)
	if err != nil && d.TooMany() {
		c := &decoder{Reader: javaio.NewReader(data), v: v, dialect: dialect}
		c.BelieveCounts(maxBelieved)
		if s, _, err := c.body(data); errors.Is(err, ErrTruncated) {
			return s, false, err
		}
	}
	return s, exact, err
}

func (d *decoder) body(data []byte) (s *Snapshot, exact bool, err error) {
	d.Raw(8, "header")
	s = d.snapshot()
	if d.Failed() {
		return s, false, d.Err()
	}
	tail := data[d.Offset():]
	if d.v < Version4 {
		if len(tail) > 0 {
			s.Trailing = tail
		}
		return s, len(tail) == 0, nil
	}
	s.Properties = tail
	if need := s.Properties.missing(); need > 0 {
		d.Fail(d.Offset(), "properties", &TruncatedError{Have: int64(len(data)), Need: int64(len(data) + need)})
		return s, false, d.Err()
	}
	return s, true, nil
}

func (d *decoder) snapshot() *Snapshot {
	s := &Snapshot{Version: d.v, Dialect: d.dialect}
	off := d.Offset()
	s.CheckpointID = d.I64("checkpointID")
	if s.CheckpointID < 0 {
		d.Fail(off, "checkpointID", fmt.Errorf("%d is negative", s.CheckpointID))
	}
	if d.v >= Version2 {
		n := d.Count(minMaster, "masterStates")
		s.MasterStates = grow[MasterState](d.Reader, n)
		for i := 0; i < n && !d.Failed(); i++ {
			s.MasterStates = append(s.MasterStates, d.masterState())
			d.WithinIndex("masterStates", i)
		}
	}
	size := minOperatorV3
	switch {
	case d.v <= Version2:
		size = minOperatorV1
	case d.v >= Version5:
		size = minOperatorV5
	}
	n := d.Count(size, "operators")
	s.Operators = grow[Operator](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		s.Operators = append(s.Operators, Operator{})
		d.operator(&s.Operators[i])
		d.WithinIndex("operators", i)
	}
	return s
}

func (d *decoder) masterState() (m MasterState) {
	off := d.Offset()
	if v := d.I32("magic"); !d.Failed() && v != masterMagic {
		d.Fail(off, "magic", fmt.Errorf("%#08x instead of %#08x", uint32(v), uint32(0xC96B1696)))
	}
	off = d.Offset()
	n := d.I32("length")
	if n <= 0 {
		d.Fail(off, "length", fmt.Errorf("%d is not positive", n))
	}
	start := d.Offset()
	m.Version = d.I32("version")
	m.Name = d.text("name")
	m.Payload = d.Bytes("payload")
	if used := d.Offset() - start; !d.Failed() && used != int(n) {
		d.Fail(off, "length", fmt.Errorf("%d bytes announced, but the fields take %d", n, used))
	}
	return m
}

func (d *decoder) operator(o *Operator) {
	if d.v >= Version5 {
		o.Name = d.text("name")
		o.UID = d.text("uid")
	}
	copy(o.ID[:], d.Raw(len(o.ID), "id"))
	off := d.Offset()
	o.Parallelism = d.I32("parallelism")
	o.MaxParallelism = d.I32("maxParallelism")
	if !d.Failed() && o.Parallelism > o.MaxParallelism {
		d.Fail(off, "parallelism", fmt.Errorf("%d is more than the max parallelism %d", o.Parallelism, o.MaxParallelism))
	}
	if d.v <= Version2 {
		o.ChainLength = d.I32("chainLength")
	} else {
		off = d.Offset()
		o.Coordinator = d.stream("coordinator", maxNesting)
		if o.Coordinator != nil && o.Coordinator.Tag() != TagByteStream {
			d.Fail(off, "coordinator", fmt.Errorf("tag %d is not a byte stream: %w", o.Coordinator.Tag(), ErrTag))
		}
	}
	d.subtasks(o)
}

func (d *decoder) subtasks(o *Operator) {
	size := minSubtaskV3
	if d.v <= Version2 {
		size = minSubtaskV1
	}
	off := d.Offset()
	if n := d.Peek32(); n < 0 && d.v >= Version3 {
		d.I32("subtasks")
		o.FullyFinished = true
		if n != -1 {
			o.finished = n
		}
		if o.Coordinator != nil {
			d.Fail(off, "subtasks", errors.New("a fully finished operator has a coordinator state"))
		}
		return
	}
	n := d.Count(size, "subtasks")
	o.Subtasks = grow[Subtask](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		o.Subtasks = append(o.Subtasks, d.subtask(o.Parallelism))
		d.WithinIndex("subtasks", i)
	}
}

func (d *decoder) subtask(parallelism int32) (s Subtask) {
	off := d.Offset()
	s.Index = d.I32("index")
	finished := s.Index < 0 && d.v >= Version3
	if finished {
		s.Index = -s.Index - 1
	}
	if s.Index < 0 || s.Index >= parallelism {
		d.Fail(off, "index", fmt.Errorf("subtask %d of an operator with parallelism %d", s.Index, parallelism))
	}
	if !finished && !d.Failed() {
		s.State = d.subtaskState()
	}
	return s
}

func (d *decoder) subtaskState() *SubtaskState {
	s := &SubtaskState{}
	if d.v <= Version2 {
		s.Unused = d.I64("unused")
		n := d.Count(minHandle, "legacy")
		s.Legacy = grow[Stream](d.Reader, n)
		for i := 0; i < n && !d.Failed(); i++ {
			s.Legacy = push(s.Legacy, n, d.stream("", maxNesting))
			d.WithinIndex("legacy", i)
		}
	}
	s.ManagedOperator = d.operatorStates("managedOperator", &s.presence[0])
	s.RawOperator = d.operatorStates("rawOperator", &s.presence[1])
	s.ManagedKeyed = d.keyed("managedKeyed", anyKeyed)
	s.RawKeyed = d.keyed("rawKeyed", anyKeyed)
	if d.v >= Version3 {
		s.InputChannels = d.channels("inputChannels", channelInput, channelMergedInput)
		s.OutputChannels = d.channels("outputChannels", channelOutput, channelMergedOutput)
	}
	return s
}

func (d *decoder) operatorStates(field string, presence *int32) []*OperatorState {
	var n int
	if d.v == Version1 {
		n = d.Count(minHandle, field)
	} else if p := d.I32(field); p != 0 {
		n = 1
		if p != 1 {
			*presence = p
		}
	}
	states := grow[*OperatorState](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		states = append(states, d.operatorState())
		if d.v == Version1 {
			d.WithinIndex(field, i)
		} else {
			d.Within(field)
		}
	}
	return states
}

func (d *decoder) operatorState() *OperatorState {
	off := d.Offset()
	tag := Tag(d.U8("tag"))
	switch {
	case d.Failed() || tag == TagNull:
		return nil
	case tag != TagOperatorState && tag != TagMergedOperator:
		d.badTag(off, tag, "operator state")
		return nil
	}
	s := &OperatorState{}
	n := d.Count(minStateOffsets, "states")
	s.States = grow[StateOffsets](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		var o StateOffsets
		o.Name = d.text("name")
		off := d.Offset()
		o.Mode = Mode(d.U8("mode"))
		if o.Mode > ModeBroadcast {
			d.Fail(off, "mode", fmt.Errorf("%d is unknown", o.Mode))
		}
		o.Offsets = d.I64s("offsets")
		s.States = append(s.States, o)
		d.WithinIndex("states", i)
	}
	if tag == TagMergedOperator {
		s.Merged = &MergedDirectories{TaskOwned: d.text("taskOwnedDirectory"), Shared: d.text("sharedDirectory")}
		if b := d.U8("empty"); b != 0 {
			s.Merged.Empty = true
			if b != 1 {
				s.Merged.rawEmpty = b
			}
		}
	}
	off = d.Offset()
	s.Delegate = d.someStream("delegate", maxNesting)
	if s.Merged != nil && s.Delegate != nil && s.Delegate.Tag() != TagSegment && s.Delegate.Tag() != TagEmptySegment {
		d.Fail(off, "delegate", fmt.Errorf("tag %d is not a segment: %w", s.Delegate.Tag(), ErrTag))
	}
	return s
}

// keyedSet is a set of tags of keyed handles.
type keyedSet uint32

const (
	stateTags     keyedSet = 1<<TagKeyGroups | 1<<TagSavepointKeyGroups | 1<<TagKeyGroupsV2 | 1<<TagIncremental | 1<<TagIncrementalV2
	changeTags    keyedSet = 1<<TagChangelogMemory | 1<<TagChangelogFile | 1<<TagChangelogFileV2
	changelogTags keyedSet = 1<<TagChangelog | 1<<TagChangelogV2
	// laterTags are of Flink 1.16, and so in no file of 1.14.
	laterTags keyedSet = 1<<TagChangelogV2 | 1<<TagChangelogFileV2
	anyKeyed           = stateTags | changeTags | changelogTags
)

func (d *decoder) keyed(field string, allowed keyedSet) Keyed {
	off := d.Offset()
	tag := Tag(d.U8(field))
	if d.Failed() || tag == TagNull {
		return nil
	}
	if d.dialect == Dialect114 {
		allowed &^= laterTags
	}
	if tag > 31 || allowed&(1<<tag) == 0 {
		d.badTag(off, tag, "keyed state")
		d.Within(field)
		return nil
	}
	var k Keyed
	switch tag {
	case TagKeyGroups, TagSavepointKeyGroups, TagKeyGroupsV2:
		k = d.keyGroups(tag)
	case TagIncremental, TagIncrementalV2:
		k = d.incremental(tag)
	case TagChangelog, TagChangelogV2:
		k = d.changelog(tag)
	case TagChangelogMemory:
		k = d.changelogMemory()
	case TagChangelogFile, TagChangelogFileV2:
		k = d.changelogFile(tag)
	}
	d.Within(field)
	return k
}

func (d *decoder) keyGroups(tag Tag) *KeyGroups {
	h := &KeyGroups{KeyGroupOffsets: d.keyGroupOffsets()}
	h.Delegate = d.someStream("delegate", maxNesting)
	switch tag {
	case TagKeyGroups:
		h.Form = KeyGroupsV1
	case TagSavepointKeyGroups:
		h.Form = KeyGroupsSavepoint
	default:
		h.ID = d.text("id")
	}
	return h
}

func (d *decoder) keyGroupOffsets() (o KeyGroupOffsets) {
	off := d.Offset()
	o.Start = d.I32("keyGroups.start")
	o.Offsets = d.I64s("keyGroups.offsets")
	d.checkRange(off, o.Start, int32(len(o.Offsets)))
	return o
}

func (d *decoder) keyGroupRange() (g KeyGroupRange) {
	off := d.Offset()
	g.Start = d.I32("keyGroups.start")
	g.Count = d.I32("keyGroups.count")
	if g.Count < 0 {
		d.Fail(off, "keyGroups", fmt.Errorf("negative count %d", g.Count))
	}
	d.checkRange(off, g.Start, g.Count)
	return g
}

func (d *decoder) checkRange(off int, start, count int32) {
	if count > 0 && (start < 0 || int64(start)+int64(count) > 1<<31) {
		d.Fail(off, "keyGroups", fmt.Errorf("%d key groups from %d on", count, start))
	}
}

func (d *decoder) incremental(tag Tag) *Incremental {
	h := &Incremental{V1: tag == TagIncremental}
	h.CheckpointID = d.I64("checkpointID")
	h.BackendID = d.text("backendID")
	h.KeyGroups = d.keyGroupRange()
	if !h.V1 {
		h.CheckpointedSize = d.I64("checkpointedSize")
	}
	h.Meta = d.someStream("meta", maxNesting)
	h.Shared = d.localFiles("shared")
	h.Private = d.localFiles("private")
	if !h.V1 {
		h.ID = d.text("id")
	}
	return h
}

func (d *decoder) localFiles(field string) []LocalFile {
	n := d.Count(minLocalFile, field)
	files := grow[LocalFile](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		var f LocalFile
		f.LocalName = d.text("localName")
		f.Stream = d.someStream("", maxNesting)
		files = append(files, f)
		if d.Failed() {
			d.WithinIndex(field, i)
		}
	}
	return files
}

func (d *decoder) changelog(tag Tag) *Changelog {
	h := &Changelog{V1: tag == TagChangelog, KeyGroups: d.keyGroupRange()}
	if d.dialect != Dialect114 {
		h.CheckpointedSize = d.I64("checkpointedSize")
	}
	h.Base = d.keyedList("base", stateTags)
	h.Delta = d.keyedList("delta", changeTags)
	if d.dialect != Dialect114 {
		h.MaterializationID = d.I64("materializationID")
		if !h.V1 {
			h.CheckpointID = d.I64("checkpointID")
		}
		h.ID = d.text("id")
	}
	return h
}

func (d *decoder) keyedList(field string, allowed keyedSet) []Keyed {
	n := d.Count(minHandle, field)
	list := grow[Keyed](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		list = push(list, n, d.keyed("", allowed))
		d.WithinIndex(field, i)
	}
	return list
}

func (d *decoder) changelogMemory() *ChangelogMemory {
	h := &ChangelogMemory{KeyGroups: d.keyGroupRange()}
	h.From = d.I64("from")
	h.To = d.I64("to")
	n := d.Count(minStateChange, "changes")
	h.Changes = grow[StateChange](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		var c StateChange
		c.KeyGroup = d.I32("keyGroup")
		c.Change = d.Bytes("change")
		h.Changes = append(h.Changes, c)
		d.WithinIndex("changes", i)
	}
	if d.dialect != Dialect114 {
		h.ID = d.text("id")
	}
	return h
}

func (d *decoder) changelogFile(tag Tag) *ChangelogFile {
	h := &ChangelogFile{V1: tag == TagChangelogFile, KeyGroups: d.keyGroupRange()}
	n := d.Count(minChangelogIn, "streams")
	h.Streams = grow[ChangelogStream](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		var s ChangelogStream
		s.Offset = d.I64("offset")
		s.Stream = d.someStream("", maxNesting)
		h.Streams = append(h.Streams, s)
		d.WithinIndex("streams", i)
	}
	h.Size = d.I64("size")
	if d.dialect != Dialect114 {
		h.IncrementalSize = d.I64("incrementalSize")
		h.ID = d.text("id")
		if !h.V1 {
			h.StorageID = d.text("storageID")
		}
	}
	return h
}

func (d *decoder) channels(field string, single, merged byte) []ChannelState {
	size := minChannel
	switch {
	case d.v >= Version6:
		size = minChannelV6
	case d.dialect == Dialect111:
		size = minChannel111
	}
	n := d.Count(size, field)
	list := grow[ChannelState](d.Reader, n)
	for i := 0; i < n && !d.Failed(); i++ {
		list = append(list, d.channel(single, merged))
		d.WithinIndex(field, i)
	}
	return list
}

func (d *decoder) channel(single, merged byte) (c ChannelState) {
	if d.v >= Version6 {
		off := d.Offset()
		switch tag := d.U8("tag"); tag {
		case single:
		case merged:
			c.Merged = true
		default:
			d.badTag(off, Tag(tag), "channel state")
			return c
		}
	}
	if d.dialect != Dialect111 {
		c.Subtask = d.I32("subtask")
	}
	if c.Merged {
		c.Size = d.I64("size")
		c.Delegate = d.someStream("delegate", maxNesting)
		off := d.Offset()
		c.Blob = d.Bytes("channels")
		if !d.Failed() {
			if _, err := c.channels(); err != nil {
				d.Fail(off+4+int(err.Offset), err.Field, err.Err)
				d.Within("channels")
			}
		}
		return c
	}
	c.Group = d.I32("group")
	c.Channel = d.I32("channel")
	c.Offsets = d.I64s("offsets")
	c.Size = d.I64("size")
	c.Delegate = d.someStream("delegate", maxNesting)
	return c
}

// Channels lists the channels of the state: one, or as many as a merged
// handle has. It fails if the Blob of a merged handle is malformed.
func (c *ChannelState) Channels() ([]Channel, error) {
	list, err := c.channels()
	if err != nil {
		return list, err
	}
	return list, nil
}

func (c *ChannelState) channels() ([]Channel, *Error) {
	if !c.Merged {
		return []Channel{{Group: c.Group, Channel: c.Channel, Size: c.Size, Offsets: c.Offsets}}, nil
	}
	r := javaio.NewReader(c.Blob)
	n := r.Count(minMergedEntry, "count")
	list := grow[Channel](r, n)
	for i := 0; i < n && !r.Failed(); i++ {
		list = append(list, Channel{
			Group:   r.I32("group"),
			Channel: r.I32("channel"),
			Size:    r.I64("size"),
			Offsets: r.I64s("offsets"),
		})
		r.WithinIndex("", i)
	}
	if r.Remaining() > 0 {
		r.Fail(r.Offset(), "end", fmt.Errorf("%d bytes are left over", r.Remaining()))
	}
	var err *Error
	if errors.As(r.Err(), &err) {
		// It is not the file that ends.
		var t *TruncatedError
		if errors.As(err.Err, &t) {
			err.Err = fmt.Errorf("the list of channels ends at byte %d of at least %d", t.Have, t.Need)
		}
	}
	return list, err
}

// someStream reads a handle that must not be null.
func (d *decoder) someStream(field string, depth int) Stream {
	off := d.Offset()
	s := d.stream(field, depth)
	if s == nil {
		d.Fail(off, field, fmt.Errorf("null handle: %w", ErrTag))
	}
	return s
}

func (d *decoder) stream(field string, depth int) Stream {
	off := d.Offset()
	tag := Tag(d.U8(field))
	if d.Failed() || tag == TagNull {
		return nil
	}
	var s Stream
	switch tag {
	case TagFile:
		h := d.files.new()
		h.Size = d.size("size")
		h.Path = d.text("path")
		s = h
	case TagByteStream:
		h := d.bytes.new()
		h.Name = d.text("name")
		h.Data = d.Bytes("data")
		s = h
	case TagRelativeFile:
		h := d.relatives.new()
		h.Path = d.text("path")
		h.Size = d.size("size")
		s = h
	case TagSegment:
		h := d.segments.new()
		h.Start = d.I64("start")
		h.Size = d.I64("size")
		off := d.Offset()
		h.Scope = Scope(d.I32("scope"))
		if h.Scope != ScopeExclusive && h.Scope != ScopeShared {
			d.Fail(off, "scope", fmt.Errorf("%d is unknown", h.Scope))
		}
		h.Path = d.text("path")
		h.LogicalFileID = d.text("logicalFileID")
		s = h
	case TagEmptySegment:
		s = &EmptySegment{}
	case TagKeyGroups:
		if depth == 0 {
			d.Fail(off, field, errors.New("handles nested too deeply"))
			return nil
		}
		h := &KeyGroupsStream{KeyGroupOffsets: d.keyGroupOffsets()}
		h.Delegate = d.someStream("delegate", depth-1)
		s = h
	default:
		d.badTag(off, tag, "stream")
	}
	d.Within(field)
	return s
}

// size reads the size of a file, of which Flink accepts -1 and more.
func (d *decoder) size(field string) int64 {
	off := d.Offset()
	n := d.I64(field)
	if n < -1 {
		d.Fail(off, field, fmt.Errorf("%d is less than -1", n))
	}
	return n
}

func (d *decoder) text(field string) Text { return Text(d.UTF(field)) }

func (d *decoder) badTag(off int, tag Tag, position string) {
	known := "unknown"
	if tag <= TagMergedOperator {
		known = "not a handle of " + position
	}
	d.Fail(off, "", fmt.Errorf("handle tag %d: %s: %w", tag, known, ErrTag))
}
