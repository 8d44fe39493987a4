package rewrite

import (
	"context"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

// files begins the keyed state of a subtask.
func (x *execution) files(ctx context.Context, op *OperatorPlan, groups keygroup.Range) (backend.StateFiles, error) {
	if op.Format == NativeHeap {
		return newHeapFile(ctx, x.target, op, groups), nil
	}
	o := backend.StateFilesOptions{Header: &op.header, KeyGroups: groups, MaxParallelism: int(op.Target.MaxParallelism), Checkpoint: x.src.Metadata.CheckpointID}
	o.TableSize = x.o.TableSize
	if op.Format == NativeRocksDB {
		o.Format = backend.FormatRocksDB
		return x.newRocksFiles(ctx, op, groups, o)
	}
	return backend.NewStateFiles(ctx, x.target, o)
}

// heapFile writes entries in their stored form into a file of the hashmap backend.
type heapFile struct {
	*backend.HeapWriter
	stream *backend.TargetStream
	states []*backend.State
	entry  backend.Entry
	group  int
	state  int // the one that was begun last, -1 if none was in this key group
}

func newHeapFile(ctx context.Context, t backend.Target, op *OperatorPlan, groups keygroup.Range) *heapFile {
	stream := t.Create(ctx)
	return &heapFile{HeapWriter: backend.NewHeapWriter(stream, &op.header, groups), stream: stream, states: op.states}
}

// StartKeyGroup is that of [backend.StateFiles].
func (f *heapFile) StartKeyGroup(group int) error {
	f.group, f.state = group, -1
	return f.HeapWriter.StartKeyGroup(group)
}

// Entry is that of [backend.StateFiles].
func (f *heapFile) Entry(state int, key, value []byte) error {
	if state != f.state {
		f.state = state
		if err := f.StartState(state, -1); err != nil {
			return err
		}
	}
	f.entry.State, f.entry.KeyGroup = f.states[state], f.group
	if err := f.entry.SetStored(key, value); err != nil {
		return err
	}
	return f.Add(&f.entry)
}

// Commit is that of [backend.StateFiles].
func (f *heapFile) Commit() (metadata.Keyed, error) {
	offsets, _, err := f.Close()
	if err != nil {
		return nil, err
	}
	return backend.CommitKeyGroups(f.stream, offsets, metadata.KeyGroupsV2)
}

// Abort is that of [backend.StateFiles].
func (f *heapFile) Abort() { f.stream.Abort() }
