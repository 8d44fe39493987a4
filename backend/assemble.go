package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// WriteMetadata writes the metadata of a snapshot of which all else was written: the last file,
// without which there is no snapshot. It fails with an error that unwraps to [io/fs.ErrExist] if there is one.
func (t Target) WriteMetadata(ctx context.Context, s *metadata.Snapshot) error {
	data, err := metadata.Encode(s)
	if err != nil {
		return err
	}
	return storage.WriteFile(ctx, t.FS, storage.Join(t.Dir, metadata.FileName), data, storage.CreateOptions{})
}

// HandlesOf gives what a subtask of these key groups restores of an operator: the handles that have some of them, in the
// order of the subtasks that wrote them. An error says that a handle is of a kind without key groups.
func HandlesOf(op *metadata.Operator, groups keygroup.Range) (h Handles, err error) {
	for i := range op.Subtasks {
		s := op.Subtasks[i].State
		if s == nil {
			continue
		}
		for _, part := range []struct {
			handle metadata.Keyed
			to     *[]metadata.Keyed
		}{{s.ManagedKeyed, &h.Managed}, {s.RawKeyed, &h.Raw}} {
			if part.handle == nil {
				continue
			}
			r, ok := metadata.KeyGroupsOf(part.handle)
			if !ok {
				return Handles{}, fmt.Errorf("subtask %d: keyed state in a %T: %w", op.Subtasks[i].Index, part.handle, serializer.ErrUnsupported)
			}
			if !r.Intersect(groups).Empty() {
				*part.to = append(*part.to, part.handle)
			}
		}
	}
	return h, nil
}

// OperatorHandlesOf gives the handles of an operator's operator state in the order of the subtasks, for [RepartitionOperator].
func OperatorHandlesOf(op *metadata.Operator) []*metadata.OperatorState {
	subtasks := slices.Clone(op.Subtasks)
	slices.SortStableFunc(subtasks, func(a, b metadata.Subtask) int { return cmp.Compare(a.Index, b.Index) })
	var handles []*metadata.OperatorState
	for _, s := range subtasks {
		if s.State != nil {
			handles = append(handles, s.State.ManagedOperator...)
		}
	}
	return handles
}
