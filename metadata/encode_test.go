package metadata

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/drey-state/drey/internal/javaio"
)

// TestEncodeErrors names the place of what can't be written, whatever follows it.
func TestEncodeErrors(t *testing.T) {
	file := &File{Path: "file:/a", Size: 3}
	long := Text(strings.Repeat("x", javaio.MaxUTF+1))
	full := func() *Snapshot {
		state := func() *SubtaskState {
			return &SubtaskState{
				ManagedOperator: []*OperatorState{{States: []StateOffsets{{Name: "a"}, {Name: "b"}}, Delegate: file}},
				RawOperator:     []*OperatorState{{Delegate: &Segment{Path: "file:/s"}, Merged: &MergedDirectories{}}},
				ManagedKeyed: &Changelog{
					Base:  []Keyed{&Incremental{Meta: file, Shared: []LocalFile{{"a", file}, {"b", file}}, Private: []LocalFile{{"c", file}}}, &KeyGroups{Delegate: file}},
					Delta: []Keyed{&ChangelogFile{Streams: []ChangelogStream{{0, file}, {1, file}}}, &ChangelogMemory{Changes: []StateChange{{}, {}}}},
				},
				RawKeyed:       &KeyGroups{Delegate: &KeyGroupsStream{Delegate: file}},
				InputChannels:  []ChannelState{{Delegate: file}, {Delegate: file, Merged: true, Blob: make([]byte, 4)}},
				OutputChannels: []ChannelState{{Delegate: file}, {Delegate: file}},
			}
		}
		op := func() Operator {
			return Operator{Parallelism: 2, MaxParallelism: 2, Coordinator: &ByteStream{}, Subtasks: []Subtask{{State: state()}, {Index: 1, State: state()}}}
		}
		return &Snapshot{Version: Version6, MasterStates: []MasterState{{}, {}}, Operators: []Operator{op(), op()}, Properties: NullProperties}
	}
	if _, err := Encode(full()); err != nil {
		t.Fatal(err)
	}
	op := func(s *Snapshot) *Operator { return &s.Operators[0] }
	state := func(s *Snapshot) *SubtaskState { return op(s).Subtasks[0].State }
	changelog := func(s *Snapshot) *Changelog { return state(s).ManagedKeyed.(*Changelog) }
	incremental := func(s *Snapshot) *Incremental { return changelog(s).Base[0].(*Incremental) }
	const sub = "operators[0].subtasks[0]."
	for field, c := range map[string]struct {
		damage func(*Snapshot)
		is     error
	}{
		"checkpointID":                                   {func(s *Snapshot) { s.CheckpointID = -1 }, nil},
		"version":                                        {func(s *Snapshot) { s.Dialect = Dialect111 }, ErrInexpressible},
		"masterStates[0].name":                           {func(s *Snapshot) { s.MasterStates[0].Name = long }, nil},
		"operators[0].uid":                               {func(s *Snapshot) { op(s).UID = long }, nil},
		"operators[0].name":                              {func(s *Snapshot) { op(s).Name = "😀" }, javaio.ErrInvalidUTF},
		"operators[0].parallelism":                       {func(s *Snapshot) { op(s).Parallelism = 3 }, nil},
		"operators[0].coordinator":                       {func(s *Snapshot) { op(s).Coordinator = file }, ErrTag},
		"operators[0].coordinator.name":                  {func(s *Snapshot) { op(s).Coordinator = &ByteStream{Name: long} }, nil},
		"operators[0].subtasks":                          {func(s *Snapshot) { op(s).FullyFinished = true }, nil},
		sub + "index":                                    {func(s *Snapshot) { op(s).Subtasks[0].Index = 2 }, nil},
		sub + "legacy":                                   {func(s *Snapshot) { state(s).Legacy = []Stream{file} }, ErrInexpressible},
		sub + "managedOperator.states[0].name":           {func(s *Snapshot) { state(s).ManagedOperator[0].States[0].Name = long }, nil},
		sub + "managedOperator.states[0].mode":           {func(s *Snapshot) { state(s).ManagedOperator[0].States[0].Mode = 3 }, nil},
		sub + "managedOperator.delegate":                 {func(s *Snapshot) { state(s).ManagedOperator[0].Delegate = nil }, ErrTag},
		sub + "managedOperator":                          {func(s *Snapshot) { state(s).ManagedOperator = make([]*OperatorState, 2) }, ErrInexpressible},
		sub + "rawOperator.taskOwnedDirectory":           {func(s *Snapshot) { state(s).RawOperator[0].Merged.TaskOwned = long }, nil},
		sub + "rawOperator.delegate":                     {func(s *Snapshot) { state(s).RawOperator[0].Delegate = file }, ErrTag},
		sub + "rawOperator.delegate.scope":               {func(s *Snapshot) { state(s).RawOperator[0].Delegate = &Segment{Scope: 2} }, nil},
		sub + "managedKeyed.keyGroups":                   {func(s *Snapshot) { changelog(s).KeyGroups.Count = -1 }, nil},
		sub + "managedKeyed.base[0]":                     {func(s *Snapshot) { changelog(s).Base[0] = &Changelog{} }, ErrTag},
		sub + "managedKeyed.base[0].backendID":           {func(s *Snapshot) { incremental(s).BackendID = long }, nil},
		sub + "managedKeyed.base[0].meta":                {func(s *Snapshot) { incremental(s).Meta = nil }, ErrTag},
		sub + "managedKeyed.base[0].shared[0].localName": {func(s *Snapshot) { incremental(s).Shared[0].LocalName = long }, nil},
		sub + "managedKeyed.base[0].shared[0]":           {func(s *Snapshot) { incremental(s).Shared[0].Stream = nil }, ErrTag},
		sub + "managedKeyed.base[0].private[0].path":     {func(s *Snapshot) { incremental(s).Private[0].Stream = &File{Path: long} }, nil},
		sub + "managedKeyed.base[0].private[0].size":     {func(s *Snapshot) { incremental(s).Private[0].Stream = &RelativeFile{Size: -2} }, nil},
		sub + "managedKeyed.base[0].id":                  {func(s *Snapshot) { incremental(s).ID = long }, nil},
		sub + "managedKeyed.delta[0].streams[0].path":    {func(s *Snapshot) { changelog(s).Delta[0].(*ChangelogFile).Streams[0].Stream = &File{Path: long} }, nil},
		sub + "managedKeyed.delta[0].storageID":          {func(s *Snapshot) { changelog(s).Delta[0].(*ChangelogFile).StorageID = long }, nil},
		sub + "managedKeyed.delta[1].id":                 {func(s *Snapshot) { changelog(s).Delta[1].(*ChangelogMemory).ID = long }, nil},
		sub + "rawKeyed.keyGroups":                       {func(s *Snapshot) { k := state(s).RawKeyed.(*KeyGroups); k.Start, k.Offsets = -1, []int64{1} }, nil},
		sub + "rawKeyed.delegate.delegate.path": {func(s *Snapshot) {
			state(s).RawKeyed.(*KeyGroups).Delegate = &KeyGroupsStream{Delegate: &File{Path: long}}
		}, nil},
		sub + "inputChannels[0].delegate":       {func(s *Snapshot) { state(s).InputChannels[0].Delegate = nil }, ErrTag},
		sub + "inputChannels[1].channels.count": {func(s *Snapshot) { state(s).InputChannels[1].Blob = nil }, nil},
		sub + "outputChannels[0].delegate.name": {func(s *Snapshot) { state(s).OutputChannels[0].Delegate = &ByteStream{Name: long} }, nil},
		sub + "inputChannels[1].channels[0].offsets": {func(s *Snapshot) {
			state(s).InputChannels[1].Blob = append([]byte{0, 0, 0, 1}, bytes.Repeat([]byte{1}, 20)...)
		}, nil},
		sub + "inputChannels[1].channels.end": {func(s *Snapshot) { state(s).InputChannels[1].Blob = make([]byte, 5) }, nil},
		"properties":                          {func(s *Snapshot) { s.Properties = nil }, nil},
		"trailing":                            {func(s *Snapshot) { s.Trailing = []byte{1} }, ErrInexpressible},
	} {
		s := full()
		c.damage(s)
		data, err := Encode(s)
		var e *Error
		if data != nil || !errors.As(err, &e) || e.Field != field || e.Offset < 0 || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
