package rewrite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// reader is a handle that is opened once for all who read it, and closed when the last one is done. The zero value is closed.
type reader struct {
	mu    sync.Mutex
	users int
	r     *backend.KeyedReader
}

func (h *handle) open(ctx context.Context, x *execution, op *OperatorPlan) (*backend.KeyedReader, error) {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if h.shared.users == 0 {
		r, err := backend.OpenKeyed(ctx, x.src.Files, h.keyed, backend.Options{MaxParallelism: int(op.Source.MaxParallelism), Raw: h.isRaw, Progress: x.progress})
		if err != nil {
			return nil, fmt.Errorf("subtask %d: %w", h.subtask, err)
		}
		h.shared.r = r
	}
	h.shared.users++
	return h.shared.r, nil
}

func (h *handle) close() {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if h.shared.users--; h.shared.users == 0 {
		_ = h.shared.r.Close() // it was only read
		h.shared.r = nil
	}
}

// take is given entries in their stored form, with the number of their state in the header that is written, in the order of
// their key groups. The slices are valid until it returns.
type take func(group, state int, key, value []byte) error

// batch is entries on their way from those who read to the one who writes.
type batch struct {
	data  []byte
	items []batchItem
}

type batchItem struct {
	group, state uint16
	key, end     int // where the key ends, and the value
}

const (
	// batchBytes is how many bytes of entries are handed on at once.
	batchBytes = 256 << 10
	// itemBytes is what an item takes.
	itemBytes = 24
)

// keyedTasks gives the tasks that write an operator's keyed state, but for one whose keys move.
func (x *execution) keyedTasks(op *OperatorPlan, t *metadata.Operator) []task {
	var tasks []task
	switch op.Work {
	case Copied:
		for _, h := range op.handles {
			tasks = append(tasks, func(ctx context.Context, _ int) error { return x.copyKeyed(ctx, op, h, t) })
		}
	case Rewritten, Sorted:
		if len(op.header.States) == 0 {
			break
		}
		for i := range t.Subtasks {
			tasks = append(tasks, func(ctx context.Context, readers int) error {
				groups := rangeOf(t, int(t.Subtasks[i].Index))
				if !op.has(groups) {
					return nil
				}
				return x.write(ctx, op, &t.Subtasks[i], groups, readers, func(ctx context.Context, groups keygroup.Range, take take) error {
					if op.Work == Rewritten {
						return x.groups(ctx, op, groups, take)
					}
					return x.sorted(ctx, op, groups, take)
				})
			})
		}
	}
	return tasks
}

// has says whether some handle has some of these key groups, or something is put there.
func (op *OperatorPlan) has(groups keygroup.Range) bool {
	for _, h := range op.handles {
		if !h.groups.Intersect(groups).Empty() {
			return true
		}
	}
	return len(op.putsOf(groups)) > 0
}

// mostParts is into how many parts the key groups of a subtask are cut at most, each of which is read by itself.
const mostParts = 128

// write writes the keyed state of a subtask, of which produce gives the entries of some key groups. Readers is how many parts are read at once.
func (x *execution) write(ctx context.Context, op *OperatorPlan, sub *metadata.Subtask, groups keygroup.Range, readers int,
	produce func(ctx context.Context, groups keygroup.Range, take take) error,
) error {
	if sub.State == nil {
		return fmt.Errorf("subtask %d had finished, but there is keyed state of its key groups %v", sub.Index, groups)
	}
	files, err := x.files(ctx, op, groups)
	if err != nil {
		return err
	}
	defer files.Abort()
	free := make(chan *batch, ordered.Depth*(readers+1))
	for _, h := range op.handles {
		if h.groups.Intersect(groups).Empty() {
			continue
		}
		// It stays open from one part to the next.
		if _, err := h.open(ctx, x, op); err != nil {
			return err
		}
		defer h.close()
	}
	step := (groups.Len() + mostParts - 1) / mostParts
	begun := -1
	err = ordered.Each(ctx, readers, (groups.Len()+step-1)/step, func(ctx context.Context, n int, send func(*batch) error) error {
		start := groups.Start + n*step
		return batches(free, send, func(take take) error {
			return produce(ctx, keygroup.Range{Start: start, End: min(groups.End, start+step-1)}, take)
		})
	}, func(_ int, b *batch) error {
		at := 0
		for _, i := range b.items {
			if int(i.group) != begun {
				begun = int(i.group)
				if err := files.StartKeyGroup(begun); err != nil {
					return err
				}
			}
			if err := files.Entry(int(i.state), b.data[at:i.key], b.data[i.key:i.end]); err != nil {
				return err
			}
			at = i.end
		}
		x.result.entries.Add(int64(len(b.items)))
		b.data, b.items = b.data[:0], b.items[:0]
		select {
		case free <- b:
		default:
		}
		return nil
	})
	if err != nil {
		return err
	}
	h, err := files.Commit()
	if err != nil {
		return err
	}
	sub.State.ManagedKeyed = h
	if f, ok := files.(*rocksFiles); ok && f.raw != nil {
		sub.State.RawKeyed = f.raw
	}
	return nil
}

// batches gathers what produce gives and sends it on.
func batches(free chan *batch, send func(*batch) error, produce func(take) error) error {
	var b *batch
	err := produce(func(group, state int, key, value []byte) error {
		if b == nil {
			select {
			case b = <-free:
			default:
				b = new(batch)
			}
		}
		b.data = append(b.data, key...)
		k := len(b.data)
		b.data = append(b.data, value...)
		b.items = append(b.items, batchItem{uint16(group), uint16(state), k, len(b.data)})
		if len(b.data)+len(b.items)*itemBytes < batchBytes {
			return nil
		}
		full := b
		b = nil
		return send(full)
	})
	if err == nil && b != nil {
		err = send(b)
	}
	return err
}

// groups gives the entries of key groups as they will be, in the order in which they are read.
func (x *execution) groups(ctx context.Context, op *OperatorPlan, groups keygroup.Range, take take) error {
	puts := newPutter(x, op, groups)
	var hasher *serializer.Hasher
	if len(op.puts) > 0 {
		hasher = x.hasher(op)
	}
	var handles []*handle
	for _, h := range op.handles {
		if !h.groups.Intersect(groups).Empty() {
			handles = append(handles, h)
		}
	}
	// RocksDB has one state after the other, and several handles may have the same key groups.
	parts := []keygroup.Range{groups}
	if len(handles) > 1 || len(handles) == 1 && handles[0].format == "rocksdb" {
		parts = parts[:0]
		for g := groups.Start; g <= groups.End; g++ {
			parts = append(parts, keygroup.Range{Start: g, End: g})
		}
	}
	for _, part := range parts {
		for _, h := range handles {
			if h.groups.Intersect(part).Empty() {
				continue
			}
			err := x.entries(ctx, op, h, part, func(state int, e *backend.Entry, key, value []byte) error {
				if hasher != nil {
					// What is put is where the hash says: where the others are shows whether that is the right one.
					if _, err := checkedHash(op, hasher, e); err != nil {
						return err
					}
				}
				return puts.pass(e.KeyGroup, state, key, value, take)
			})
			if err != nil {
				return err
			}
		}
	}
	return puts.rest(take)
}

// worker is what a goroutine that sorts needs.
type worker struct {
	sorter *sorter
	merger merger
}

// worker gives a worker that nobody has; it goes back by done.
func (x *execution) worker() *worker {
	x.workersMu.Lock()
	defer x.workersMu.Unlock()
	if last := len(x.workers) - 1; last >= 0 {
		w := x.workers[last]
		x.workers = x.workers[:last]
		return w
	}
	return &worker{sorter: x.newSorter(x.o.jobs(), 1)}
}

func (x *execution) done(w *worker) {
	x.workersMu.Lock()
	defer x.workersMu.Unlock()
	x.workers = append(x.workers, w)
}

// closeWorkers gives up the memory and the files of all workers.
func (x *execution) closeWorkers() {
	for _, w := range x.workers {
		x.closeSorter(w.sorter)
	}
	x.workers = nil
}

// newSorter gives one of several sorters, of which so many key groups are merged at once. A quarter of the memory is for reading what they spilled.
func (x *execution) newSorter(sorters, merged int) *sorter {
	return newSorter(x.o.memory()/4*3/int64(sorters), x.o.TempDir, merged)
}

func (x *execution) closeSorter(s *sorter) {
	x.result.spilled.Add(s.spilled)
	s.close()
}

// sorted gives the entries of key groups in the order of their states and keys.
func (x *execution) sorted(ctx context.Context, op *OperatorPlan, groups keygroup.Range, take take) error {
	w := x.worker()
	defer x.done(w)
	w.sorter.reset(groups)
	if err := x.groups(ctx, op, groups, w.sorter.add); err != nil {
		return err
	}
	return x.merged(ctx, []*sorter{w.sorter}, groups, &w.merger, take)
}

// merged gives what sorters have of key groups, in order.
func (x *execution) merged(ctx context.Context, sorters []*sorter, groups keygroup.Range, m *merger, take take) error {
	for g := groups.Start; g <= groups.End; g++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.merge(sorters, g, x.o.memory()/4/int64(x.o.jobs()), func(state int, key, value []byte) error { return take(g, state, key, value) }); err != nil {
			return err
		}
	}
	return nil
}

// entries reads key groups of a handle and hands on what is kept of them, with the entry that it came from and in its stored form.
func (x *execution) entries(ctx context.Context, op *OperatorPlan, h *handle, groups keygroup.Range, take func(state int, e *backend.Entry, key, value []byte) error) error {
	r, err := h.open(ctx, x, op)
	if err != nil {
		return err
	}
	defer h.close()
	var last *backend.State
	number, changes := -1, false
	var key, value []byte
	var dropped int64
	defer func() { x.result.dropped.Add(dropped) }()
	filter := backend.Filter{KeyGroups: []keygroup.Range{groups}, State: func(s *backend.State) bool {
		n, known := op.numbers[idOf(s)]
		return !known || n >= 0
	}}
	for e, err := range r.Entries(ctx, filter) {
		if err != nil {
			return fmt.Errorf("subtask %d: %w", h.subtask, err)
		}
		if e.State != last {
			last = e.State
			var known bool
			if number, known = op.numbers[idOf(last)]; !known {
				return fmt.Errorf("subtask %d: state %q is not in the header", h.subtask, last.Meta.Name)
			}
			changes = op.t.Keyed != nil && (op.t.Wants == nil || op.t.Wants(last))
		}
		if changes {
			keep, err := op.t.Keyed(e)
			if err != nil {
				return fmt.Errorf("subtask %d: %w", h.subtask, err)
			}
			if !keep {
				dropped++
				continue
			}
		}
		key, value = e.AppendStoredKey(key[:0]), e.AppendStoredValue(value[:0])
		if err := take(number, e, key, value); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// putsOf gives what is put into key groups.
func (op *OperatorPlan) putsOf(groups keygroup.Range) []statePut {
	start := func(group int) int {
		i, _ := slices.BinarySearchFunc(op.puts, group, func(p statePut, group int) int { return p.group - group })
		return i
	}
	return op.puts[start(groups.Start):start(groups.End+1)]
}

// findPut finds what is put in place of an entry.
func findPut(puts []statePut, group, state int, key []byte) (int, bool) {
	return slices.BinarySearchFunc(puts, statePut{state: state, group: group, key: key}, statePut.compare)
}

// putter puts entries between those of the source, in place of those with the same key. The entries that a state has in a key group stay together.
type putter struct {
	x            *execution
	puts         []statePut
	done         []bool
	group, state int // of the last entry that passed, -1 before it
}

func newPutter(x *execution, op *OperatorPlan, groups keygroup.Range) *putter {
	puts := op.putsOf(groups)
	return &putter{x: x, puts: puts, done: make([]bool, len(puts)), group: -1, state: -1}
}

// pass hands on an entry of the source, or what is put in its place.
func (p *putter) pass(group, state int, key, value []byte, take take) error {
	if len(p.puts) == 0 {
		return take(group, state, key, value)
	}
	if group != p.group || state != p.state {
		if err := p.flush(func(put *statePut) bool { return put.group == p.group && put.state == p.state }, take); err != nil {
			return err
		}
		if err := p.flush(func(put *statePut) bool { return put.group < group }, take); err != nil {
			return err
		}
		p.group, p.state = group, state
	}
	if i, ok := findPut(p.puts, group, state, key); ok {
		p.done[i] = true
		p.x.result.put.Add(1)
		return take(group, state, p.puts[i].key, p.puts[i].value)
	}
	return take(group, state, key, value)
}

// rest hands on what was not put yet.
func (p *putter) rest(take take) error {
	if err := p.flush(func(put *statePut) bool { return put.group == p.group && put.state == p.state }, take); err != nil {
		return err
	}
	return p.flush(func(*statePut) bool { return true }, take)
}

func (p *putter) flush(of func(*statePut) bool, take take) error {
	for i := range p.puts {
		put := &p.puts[i]
		if p.done[i] || !of(put) {
			continue
		}
		p.done[i] = true
		p.x.result.put.Add(1)
		if err := take(put.group, put.state, put.key, put.value); err != nil {
			return err
		}
	}
	return nil
}

// move writes the keyed state of an operator whose keys get other key groups.
func (x *execution) move(ctx context.Context, op *OperatorPlan, t *metadata.Operator) error {
	if len(op.header.States) == 0 {
		return nil
	}
	type part struct {
		h      *handle
		groups keygroup.Range
	}
	var parts []part
	for _, h := range op.handles {
		step := (h.groups.Len() + mostParts - 1) / mostParts
		for g := h.groups.Start; g <= h.groups.End; g += step {
			parts = append(parts, part{h, keygroup.Range{Start: g, End: min(h.groups.End, g+step-1)}})
		}
		// It stays open from one part to the next.
		if _, err := h.open(ctx, x, op); err != nil {
			return err
		}
		defer h.close()
	}
	sorters := make([]*sorter, min(x.o.jobs(), max(1, len(parts))))
	for i := range sorters {
		s := x.newSorter(len(sorters), x.o.jobs())
		s.reset(keygroup.Range{End: int(op.Target.MaxParallelism) - 1})
		defer x.closeSorter(s)
		sorters[i] = s
	}
	for _, put := range op.puts {
		x.result.put.Add(1)
		if err := sorters[0].add(put.group, put.state, put.key, put.value); err != nil {
			return err
		}
	}
	var next atomic.Int64
	eg, sorting := errgroup.WithContext(ctx)
	for _, s := range sorters {
		eg.Go(func() error {
			m := &mover{op: op, s: s, hasher: x.hasher(op)}
			for {
				n := int(next.Add(1)) - 1
				if n >= len(parts) {
					break
				}
				if err := x.entries(sorting, op, parts[n].h, parts[n].groups, m.take); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	var tasks []task
	for i := range t.Subtasks {
		tasks = append(tasks, func(ctx context.Context, readers int) error {
			groups := rangeOf(t, int(t.Subtasks[i].Index))
			return x.write(ctx, op, &t.Subtasks[i], groups, readers, func(ctx context.Context, groups keygroup.Range, take take) error {
				w := x.worker()
				defer x.done(w)
				return x.merged(ctx, sorters, groups, &w.merger, take)
			})
		})
	}
	return x.each(ctx, tasks)
}

// mover gives entries to a sorter with their new key groups.
type mover struct {
	op     *OperatorPlan
	s      *sorter
	hasher *serializer.Hasher
}

func (m *mover) take(state int, e *backend.Entry, key, value []byte) error {
	hash, err := checkedHash(m.op, m.hasher, e)
	if err != nil {
		return err
	}
	group := keygroup.ForHash(hash, int(m.op.Target.MaxParallelism))
	if _, ok := findPut(m.op.puts, group, state, key); ok {
		return nil
	}
	return m.s.add(group, state, key, value)
}

// checkedHash gives the hash of an entry's key. That it is the right one shows in where the key is.
func checkedHash(op *OperatorPlan, h *serializer.Hasher, e *backend.Entry) (int32, error) {
	wrong := func(err error) error {
		return fmt.Errorf("state %q, key group %d: %w", e.State.Meta.Name, e.KeyGroup, err)
	}
	if e.Unsplit {
		return 0, wrong(fmt.Errorf("a key that can't be told from what follows it: %w", serializer.ErrUnsupported))
	}
	hash, err := h.Hash(e.Key)
	if err != nil {
		return 0, wrong(err)
	}
	if g := keygroup.ForHash(hash, int(op.Source.MaxParallelism)); g != e.KeyGroup {
		return 0, wrong(fmt.Errorf("by the hash of its key, %d, an entry belongs to key group %d: the hash is not the one that the job has: %w", hash, g, backend.ErrKeyGroup))
	}
	return hash, nil
}
