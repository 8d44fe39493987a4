package rewrite

import (
	"context"
	"io"
	"slices"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

// splitTimers decides where the timers of an operator are in the files of RocksDB: in raw keyed state, from which Flink restores them
// with timers on the heap and with timers in RocksDB. In tables, as RocksDB databases have them, a job with timers on the heap doesn't find
// them, and says nothing.
func (p *Plan) splitTimers(op *OperatorPlan) {
	if op.Format != NativeRocksDB {
		return
	}
	op.place = make([]int, len(op.states))
	op.managed = op.header
	op.managed.States = nil
	for i, s := range op.states {
		if s.Type == backend.TypeTimers {
			op.place[i] = -1 - len(op.timers)
			op.timers = append(op.timers, s)
			continue
		}
		op.place[i] = len(op.managed.States)
		op.managed.States = append(op.managed.States, op.header.States[i])
	}
	if len(op.timers) == 0 {
		return
	}
	why := "its operator has raw keyed state of its own"
	if len(op.raw) == 0 {
		// Whether they can be there shows when one tries.
		w := backend.NewTimersWriter(io.Discard, op.timers, keygroup.Range{})
		err := w.KeyGroup(make([][][]byte, len(op.timers)))
		if err == nil {
			return
		}
		why = err.Error()
	}
	op.managed, op.timers = op.header, nil
	for i := range op.place {
		op.place[i] = i
	}
	p.warn(op, "", "its timers are in the tables of RocksDB, as %s: a job with timers on the heap (state.backend.rocksdb.timer-service.factory) would lose them silently", why)
}

// rocksFiles writes the files of a RocksDB database, and timers into raw keyed state.
type rocksFiles struct {
	op     *OperatorPlan
	inner  backend.StateFiles // nil if there are but timers
	stream *backend.TargetStream
	w      *backend.TimersWriter
	groups keygroup.Range
	next   int        // the key group whose timers are gathered
	timers [][][]byte // of that key group, by queue
	raw    metadata.Keyed
}

func (x *execution) newRocksFiles(ctx context.Context, op *OperatorPlan, groups keygroup.Range, o backend.StateFilesOptions) (*rocksFiles, error) {
	f := &rocksFiles{op: op, groups: groups, next: groups.Start}
	if len(op.managed.States) > 0 {
		o.Header = &op.managed
		var err error
		if f.inner, err = backend.NewStateFiles(ctx, x.target, o); err != nil {
			return nil, err
		}
	}
	if len(op.timers) > 0 {
		f.stream = x.target.Create(ctx)
		f.w = backend.NewTimersWriter(f.stream, op.timers, groups)
		f.timers = make([][][]byte, len(op.timers))
	}
	return f, nil
}

// StartKeyGroup is that of [backend.StateFiles].
func (f *rocksFiles) StartKeyGroup(group int) error {
	if err := f.flush(group); err != nil || f.inner == nil {
		return err
	}
	return f.inner.StartKeyGroup(group)
}

// flush writes the timers of the key groups before one.
func (f *rocksFiles) flush(before int) error {
	for ; f.w != nil && f.next < before; f.next++ {
		if err := f.w.KeyGroup(f.timers); err != nil {
			return err
		}
		for i := range f.timers {
			f.timers[i] = f.timers[i][:0]
		}
	}
	return nil
}

// Entry is that of [backend.StateFiles].
func (f *rocksFiles) Entry(state int, key, value []byte) error {
	place := f.op.place[state]
	if place >= 0 {
		return f.inner.Entry(place, key, value)
	}
	f.timers[-1-place] = append(f.timers[-1-place], slices.Clone(key))
	return nil
}

// Commit is that of [backend.StateFiles].
func (f *rocksFiles) Commit() (h metadata.Keyed, err error) {
	if f.inner != nil {
		if h, err = f.inner.Commit(); err != nil {
			return nil, err
		}
	}
	if f.w == nil {
		return h, nil
	}
	if err := f.flush(f.groups.End + 1); err != nil {
		return nil, err
	}
	offsets, _, err := f.w.Close()
	if err != nil {
		return nil, err
	}
	f.raw, err = backend.CommitKeyGroups(f.stream, offsets, metadata.KeyGroupsV2)
	return h, err
}

// Abort is that of [backend.StateFiles].
func (f *rocksFiles) Abort() {
	if f.inner != nil {
		f.inner.Abort()
	}
	if f.stream != nil {
		f.stream.Abort()
	}
}
