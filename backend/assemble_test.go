package backend

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

func TestHandlesOf(t *testing.T) {
	offsets := func(start, n int) metadata.KeyGroupOffsets {
		return metadata.KeyGroupOffsets{Start: int32(start), Offsets: make([]int64, n)}
	}
	last := &metadata.KeyGroups{KeyGroupOffsets: offsets(80, 48)}
	first := &metadata.Incremental{KeyGroups: metadata.KeyGroupRange{Start: 0, Count: 40}}
	middle := &metadata.Changelog{KeyGroups: metadata.KeyGroupRange{Start: 40, Count: 40}}
	raw := &metadata.KeyGroups{KeyGroupOffsets: offsets(0, 40)}
	o1, o2 := &metadata.OperatorState{}, &metadata.OperatorState{States: []metadata.StateOffsets{{}}}
	op := &metadata.Operator{Parallelism: 5, MaxParallelism: 128, Subtasks: []metadata.Subtask{
		{Index: 2, State: &metadata.SubtaskState{ManagedKeyed: last, ManagedOperator: []*metadata.OperatorState{o2}}},
		{Index: 0, State: &metadata.SubtaskState{ManagedKeyed: first, RawKeyed: raw, ManagedOperator: []*metadata.OperatorState{o1}}},
		{Index: 1, State: &metadata.SubtaskState{ManagedKeyed: middle}},
		{Index: 3}, // finished
		{Index: 4, State: &metadata.SubtaskState{}},
	}}
	for _, test := range []struct {
		groups keygroup.Range
		want   Handles
	}{
		{keygroup.Range{Start: 0, End: 127}, Handles{Managed: []metadata.Keyed{last, first, middle}, Raw: []metadata.Keyed{raw}}},
		{keygroup.Range{Start: 39, End: 79}, Handles{Managed: []metadata.Keyed{first, middle}, Raw: []metadata.Keyed{raw}}},
		{keygroup.Range{Start: 40, End: 80}, Handles{Managed: []metadata.Keyed{last, middle}}},
		{keygroup.Range{Start: 40, End: 79}, Handles{Managed: []metadata.Keyed{middle}}},
	} {
		if got, err := HandlesOf(op, test.groups); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v: %v, %v", test.groups, got, err)
		}
	}
	if got := OperatorHandlesOf(op); len(got) != 2 || got[0] != o1 || got[1] != o2 {
		t.Errorf("operator state: %v", got)
	}
	op.Subtasks[2].State.RawKeyed = unknownKeyed{}
	if _, err := HandlesOf(op, keygroup.Range{}); !errors.Is(err, serializer.ErrUnsupported) {
		t.Errorf("a handle that is not known: %v", err)
	}
}

type unknownKeyed struct{ metadata.Keyed }

func TestWriteMetadata(t *testing.T) {
	ctx := context.Background()
	target := Target{FS: storage.NewMemory(), Dir: "mem://savepoints/savepoint-1"}
	s := &metadata.Snapshot{Version: metadata.Version6, CheckpointID: 7, Properties: metadata.PropertiesOf(metadata.KindCanonicalSavepoint)}
	if err := target.WriteMetadata(ctx, s); err != nil {
		t.Fatal(err)
	}
	obj, err := target.FS.Open(ctx, target.Dir+"/_metadata")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(io.NewSectionReader(obj, 0, obj.Size()))
	if err = errors.Join(err, obj.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := metadata.Decode(data); err != nil || got.CheckpointID != 7 || got.Kind() != metadata.KindCanonicalSavepoint {
		t.Errorf("%+v, %v", got, err)
	}
	if err := target.WriteMetadata(ctx, s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
}
