package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
)

// one wraps the state of a single subtask into a snapshot.
func one(v Version, state *SubtaskState) *Snapshot {
	o := Operator{ID: UIDHash("a"), Parallelism: 1, MaxParallelism: 128, Subtasks: []Subtask{{State: state}}}
	s := &Snapshot{Version: v, CheckpointID: 7}
	if v >= Version4 {
		s.Properties = NullProperties
	}
	if v <= Version2 {
		o.ChainLength = 1
	}
	s.Operators = []Operator{o}
	return s
}

func keyed(v Version, k Keyed) *Snapshot { return one(v, &SubtaskState{ManagedKeyed: k}) }

// TestAs looks at each conversion.
func TestAs(t *testing.T) {
	file := &File{Path: "file:/a", Size: 3}
	offsets := KeyGroupOffsets{Start: 2, Offsets: []int64{5, 6}}
	files := []LocalFile{{LocalName: "1.sst", Stream: file}}
	incremental := &Incremental{CheckpointID: 1, BackendID: "b", KeyGroups: KeyGroupRange{2, 2}, CheckpointedSize: 9, Meta: file, Shared: files, Private: files, ID: "i"}
	changes := &ChangelogFile{KeyGroups: KeyGroupRange{2, 2}, Streams: []ChangelogStream{{1, file}}, Size: 2, IncrementalSize: 1, ID: "c", StorageID: "filesystem"}
	blob := []byte("\x00\x00\x00\x02" +
		"\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x04" +
		"\x00\x00\x00\x05\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00")
	dialect := func(d Dialect, s *Snapshot) *Snapshot { s.Dialect = d; return s }
	legacy := func(s *Snapshot) *Snapshot { s.Operators[0].Subtasks[0].State.Unused = -1; return s }
	for name, c := range map[string]struct{ from, want *Snapshot }{
		"key groups to 2":           {keyed(6, &KeyGroups{KeyGroupOffsets: offsets, Delegate: file, ID: "i"}), legacy(keyed(2, &KeyGroups{Form: KeyGroupsV1, KeyGroupOffsets: offsets, Delegate: file}))},
		"savepoint key groups to 2": {keyed(3, &KeyGroups{Form: KeyGroupsSavepoint, KeyGroupOffsets: offsets, Delegate: file}), legacy(keyed(2, &KeyGroups{Form: KeyGroupsV1, KeyGroupOffsets: offsets, Delegate: file}))},
		"key groups to 3":           {keyed(6, &KeyGroups{KeyGroupOffsets: offsets, Delegate: file, ID: "i"}), keyed(3, &KeyGroups{KeyGroupOffsets: offsets, Delegate: file, ID: "i"})},
		"old key groups to 6":       {keyed(2, &KeyGroups{Form: KeyGroupsV1, KeyGroupOffsets: offsets, Delegate: file}), keyed(6, &KeyGroups{Form: KeyGroupsV1, KeyGroupOffsets: offsets, Delegate: file})},
		"incremental to 2": {keyed(6, incremental), legacy(keyed(2, &Incremental{V1: true, CheckpointID: 1, BackendID: "b", KeyGroups: KeyGroupRange{2, 2},
			Meta: file, Shared: files, Private: files}))},
		"incremental to 3": {keyed(6, incremental), keyed(3, incremental)},
		"changelog to 3": {
			keyed(6, &Changelog{KeyGroups: KeyGroupRange{2, 2}, CheckpointedSize: 4, Base: []Keyed{incremental, nil}, Delta: []Keyed{changes}, MaterializationID: 5, CheckpointID: 6, ID: "i"}),
			keyed(3, &Changelog{V1: true, KeyGroups: KeyGroupRange{2, 2}, CheckpointedSize: 4, Base: []Keyed{incremental, nil}, MaterializationID: 5, ID: "i",
				Delta: []Keyed{&ChangelogFile{V1: true, KeyGroups: KeyGroupRange{2, 2}, Streams: []ChangelogStream{{1, file}}, Size: 2, IncrementalSize: 1, ID: "c"}}}),
		},
		"old changelog to 5": {keyed(3, &Changelog{V1: true, ID: "i"}), keyed(5, &Changelog{V1: true, ID: "i"})},
		"merged channels to 5": {
			one(6, &SubtaskState{InputChannels: []ChannelState{{Subtask: 1, Merged: true, Size: 10, Delegate: file, Blob: blob}, {Subtask: 2, Delegate: file}}}),
			one(5, &SubtaskState{InputChannels: []ChannelState{
				{Subtask: 1, Group: 1, Channel: 2, Offsets: []int64{4}, Size: 3, Delegate: file},
				{Subtask: 1, Group: 5, Channel: 6, Size: 7, Delegate: file},
				{Subtask: 2, Delegate: file},
			}}),
		},
		"single channels to 6": {
			one(3, &SubtaskState{OutputChannels: []ChannelState{{Subtask: 2, Group: 1, Delegate: file}}}),
			one(6, &SubtaskState{OutputChannels: []ChannelState{{Subtask: 2, Group: 1, Delegate: file}}}),
		},
		"channels of 1.11": {
			dialect(Dialect111, one(3, &SubtaskState{OutputChannels: []ChannelState{{Group: 1, Delegate: file}}})),
			one(4, &SubtaskState{OutputChannels: []ChannelState{{Group: 1, Delegate: file}}}),
		},
		"version 1": {
			one(1, &SubtaskState{Unused: -1, ManagedOperator: []*OperatorState{nil}, RawOperator: []*OperatorState{{Delegate: file}}, Legacy: []Stream{nil}}),
			one(2, &SubtaskState{Unused: -1, RawOperator: []*OperatorState{{Delegate: file}}}),
		},
		"legacy to 2": {one(1, &SubtaskState{Legacy: []Stream{nil, file}}), one(2, &SubtaskState{Legacy: []Stream{file}})},
	} {
		before := fmt.Sprintf("%#v", c.from.Operators[0].Subtasks[0].State)
		got, err := c.from.As(c.want.Version)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.from.Version == Version2 || c.from.Version == Version1 {
			if c.want.Version > Version2 {
				c.want.Operators[0].Subtasks[0].State.Unused = 0
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%s\ninstead of\n%s", name, show(got), show(c.want))
		}
		if fmt.Sprintf("%#v", c.from.Operators[0].Subtasks[0].State) != before {
			t.Errorf("%s: the snapshot itself changed", name)
		}
		checkEncodes(t, name, got)
	}
}

func show(s *Snapshot) string {
	return fmt.Sprintf("%+v %+v", s, s.Operators[0].Subtasks[0].State)
}

// checkEncodes encodes and decodes a converted snapshot.
func checkEncodes(t *testing.T, name string, s *Snapshot) {
	t.Helper()
	data, err := Encode(s)
	if err != nil {
		t.Errorf("%s as %d: %v", name, s.Version, err)
		return
	}
	again, err := Decode(data)
	if err != nil {
		t.Errorf("%s as %d: %v", name, s.Version, err)
		return
	}
	if again.Dialect != s.Dialect || !bytes.Equal(encode(t, again), data) {
		t.Errorf("%s as %d: comes back as another", name, s.Version)
	}
}

// TestAsInexpressible names what a version can't hold.
func TestAsInexpressible(t *testing.T) {
	file := &File{Path: "file:/a", Size: 3}
	segment := &Segment{Path: "file:/a", Size: 3, LogicalFileID: "l"}
	op := func(s Stream) *Snapshot {
		return one(6, &SubtaskState{ManagedOperator: []*OperatorState{{Delegate: s}}})
	}
	merged := one(4, &SubtaskState{RawOperator: []*OperatorState{{Delegate: segment, Merged: &MergedDirectories{}}}})
	coordinator := one(6, nil)
	coordinator.Operators[0].Coordinator = &ByteStream{}
	finished := one(6, nil)
	finished.Operators[0].Subtasks, finished.Operators[0].FullyFinished = nil, true
	chain := one(1, &SubtaskState{})
	chain.Operators[0].ChainLength = 2
	old := keyed(3, &ChangelogMemory{})
	old.Dialect = Dialect114
	const sub = "operators[0].subtasks[0]."
	for _, c := range []struct {
		from  *Snapshot
		to    Version
		field string
		says  string
	}{
		{op(&RelativeFile{Path: "a"}), 2, sub + "managedOperator.delegate", "a relative file; make it absolute with Rewrite first: version 2: cannot be written in this version"},
		{op(segment), 3, sub + "managedOperator.delegate", "a segment of a merged file"},
		{op(&EmptySegment{}), 2, sub + "managedOperator.delegate", "a segment of a merged file"},
		{op(&KeyGroupsStream{Delegate: file}), 2, sub + "managedOperator.delegate", "key groups as a stream"},
		{op(&KeyGroupsStream{Delegate: &EmptySegment{}}), 3, sub + "managedOperator.delegate.delegate", "a segment of a merged file"},
		{merged, 3, sub + "rawOperator", "operator state in a merged file"},
		{coordinator, 2, "operators[0].coordinator", "coordinator state"},
		{finished, 2, "operators[0].subtasks", "a fully finished operator"},
		{one(5, nil), 2, sub + "index", "a finished subtask"},
		{one(6, &SubtaskState{InputChannels: []ChannelState{{Delegate: file}}}), 2, sub + "inputChannels", "channel state"},
		{one(6, &SubtaskState{OutputChannels: []ChannelState{{Delegate: segment}}}), 3, sub + "outputChannels[0].delegate", "a segment of a merged file"},
		{keyed(6, &Changelog{}), 2, sub + "managedKeyed", "a changelog"},
		{keyed(6, &ChangelogMemory{}), 2, sub + "managedKeyed", "a changelog"},
		{keyed(6, &ChangelogFile{}), 2, sub + "managedKeyed", "a changelog"},
		{keyed(6, &Changelog{Base: []Keyed{&KeyGroups{Delegate: segment}}}), 3, sub + "managedKeyed.base[0].delegate", "a segment of a merged file"},
		{keyed(6, &Changelog{Delta: []Keyed{nil, &ChangelogFile{StorageID: "memory"}}}), 3, sub + "managedKeyed.delta[1].storageID", `a changelog in the storage "memory"`},
		{keyed(6, &ChangelogFile{Streams: []ChangelogStream{{0, file}, {0, segment}}, StorageID: "filesystem"}), 3, sub + "managedKeyed.streams[1]", "a segment of a merged file"},
		{keyed(6, &Incremental{Meta: file, Shared: []LocalFile{{"a", file}, {"b", segment}}}), 3, sub + "managedKeyed.shared[1]", "a segment of a merged file"},
		{keyed(6, &Incremental{Meta: segment}), 3, sub + "managedKeyed.meta", "a segment of a merged file"},
		{one(2, &SubtaskState{Legacy: []Stream{nil, file}}), 3, sub + "legacy[1]", "state of the Checkpointed interface"},
		{chain, 2, "operators[0].chainLength", "a chain of 2 operators, whose ids version 1 does not tell"},
		{old, 4, sub + "managedKeyed", "a changelog of Flink 1.14, which has no id"},
		{op(file), 1, "version", "a snapshot by operators"},
		{one(1, &SubtaskState{ManagedOperator: []*OperatorState{{Delegate: file}, {Delegate: file}}}), 2, sub + "managedOperator", "more than one operator state of a subtask"},
	} {
		s, err := c.from.As(c.to)
		var e *Error
		if s != nil || !errors.Is(err, ErrInexpressible) || !errors.As(err, &e) {
			t.Errorf("%s as %d: %v", c.says, c.to, err)
			continue
		}
		if e.Field != c.field || e.Offset != -1 || !strings.HasPrefix(e.Err.Error(), c.says+": version ") && e.Err.Error() != c.says {
			t.Errorf("offset %d: %s: %v; want %s: %s", e.Offset, e.Field, e.Err, c.field, c.says)
		}
	}
	for _, v := range []Version{0, 7, -1} {
		if _, err := op(file).As(v); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// TestAsOwnVersion keeps everything, also what As would convert.
func TestAsOwnVersion(t *testing.T) {
	for _, file := range testdata(t) {
		s, data := decode(t, file)
		c, err := s.As(s.Version)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if c == s || !bytes.Equal(encode(t, c), data) {
			t.Errorf("%s: changed, or not a new value", file)
		}
	}
}

// checkAs converts a file to every version. What the result says is what the
// file says, as far as the version has words for it.
func checkAs(t *testing.T, file string) (converted int) {
	s, data := decode(t, file)
	for v := Version2; v <= Version6; v++ {
		c, err := s.As(v)
		if err != nil {
			var e *Error
			if !errors.Is(err, ErrInexpressible) || !errors.As(err, &e) || e.Field == "" {
				t.Errorf("%s as %d: %v", file, v, err)
			}
			if v >= s.Version && s.Dialect == DialectStandard && s.Version > Version2 {
				t.Errorf("%s as %d: %v", file, v, err)
			}
			continue
		}
		converted++
		checkEncodes(t, file, c)
		if !slices.Equal(refsOf(s), refsOf(c)) {
			t.Errorf("%s as %d: other files are named", file, v)
		}
		if c.CheckpointID != s.CheckpointID || len(c.Operators) != len(s.Operators) {
			t.Errorf("%s as %d: another snapshot", file, v)
		}
		// Up and down again nothing is lost but what the way up drops.
		// Releases from 1.16 on write their handles into version 3 too, if asked.
		newer := s.Version == Version3 && (strings.Contains(file, "/1.17.2/") || strings.Contains(file, "/1.20.5/") || strings.Contains(file, "/2.3.0/"))
		if v > s.Version && s.Version > Version2 && !newer && s.Dialect == DialectStandard {
			back, err := c.As(s.Version)
			if err != nil {
				t.Errorf("%s as %d and back: %v", file, v, err)
			} else if !bytes.Equal(encode(t, back), data) {
				t.Errorf("%s as %d and back: other bytes", file, v)
			}
		}
	}
	if !bytes.Equal(encode(t, s), data) {
		t.Errorf("%s: the snapshot itself changed", file)
	}
	return converted
}

// refsOf lists the references without their places. Merged channel handles
// that are split name the same file again and again.
func refsOf(s *Snapshot) []string {
	var list []string
	for r := range s.Refs() {
		list = append(list, fmt.Sprint(r.Path, r.Size, r.Kind, r.Role, r.Part, r.Subtask, r.Operator.ID, r.LocalName))
	}
	return slices.Compact(list)
}

func TestAsTestdata(t *testing.T) {
	for _, file := range testdata(t) {
		checkAs(t, file)
	}
}

// TestFixturesAs converts every snapshot of a real job.
func TestFixturesAs(t *testing.T) {
	n := 0
	for _, file := range fixtures(t) {
		if caseOf(file).dir != "" {
			n += checkAs(t, file)
		}
	}
	if n < 4*652/2 {
		t.Errorf("only %d conversions", n)
	}
}

// TestFixturesChannelSubtask shows what As relies on for Flink 1.11: channel
// state stands in the entry of the subtask that wrote it.
func TestFixturesChannelSubtask(t *testing.T) {
	n := 0
	for _, file := range fixtures(t) {
		if caseOf(file).dir == "" {
			continue
		}
		s, _ := decode(t, file)
		for _, o := range s.Operators {
			for _, sub := range o.Subtasks {
				if sub.State == nil {
					continue
				}
				for _, c := range append(slices.Clip(sub.State.InputChannels), sub.State.OutputChannels...) {
					if n++; c.Subtask != sub.Index {
						t.Errorf("%s: channel state of subtask %d in the entry of %d", file, c.Subtask, sub.Index)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("no channel state")
	}
}

// TestFixturesRanges compares the key groups of every real handle with those
// that its subtask must have, and the ids with the hash of the uids.
func TestFixturesRanges(t *testing.T) {
	handles, uids := 0, 0
	for _, file := range fixtures(t) {
		if strings.Contains(file, "/metadata-only/") {
			continue
		}
		s, err := Decode(read(t, file))
		if err != nil {
			continue // TestPublicVersions says which
		}
		for _, o := range s.Operators {
			if o.UID != "" {
				if uids++; UIDHash(o.UID.String()) != o.ID {
					t.Errorf("%s: id %s of uid %q is not %s", file, o.ID, o.UID, UIDHash(o.UID.String()))
				}
			}
			for _, sub := range o.Subtasks {
				if sub.State == nil {
					continue
				}
				want := keygroup.RangeOf(int(sub.Index), int(o.MaxParallelism), int(o.Parallelism))
				for _, k := range handlesIn(sub.State.ManagedKeyed, sub.State.RawKeyed) {
					handles++
					if r := rangeOf(k); r != want {
						t.Errorf("%s: subtask %d of %s has key groups %s, not %s", file, sub.Index, o.ID, r, want)
					}
				}
			}
		}
	}
	if handles != 4536 || uids != 1773 {
		t.Errorf("%d handles and %d uids", handles, uids)
	}
}

// handlesIn lists handles and those in them.
func handlesIn(list ...Keyed) (all []Keyed) {
	for _, k := range list {
		if k == nil {
			continue
		}
		all = append(all, k)
		if h, ok := k.(*Changelog); ok {
			all = append(all, handlesIn(h.Base...)...)
			all = append(all, handlesIn(h.Delta...)...)
		}
	}
	return all
}

func rangeOf(k Keyed) keygroup.Range {
	switch h := k.(type) {
	case *KeyGroups:
		return h.Range()
	case *Incremental:
		return h.KeyGroups.Range()
	case *Changelog:
		return h.KeyGroups.Range()
	case *ChangelogMemory:
		return h.KeyGroups.Range()
	case *ChangelogFile:
		return h.KeyGroups.Range()
	}
	panic(k)
}
