package tools

import (
	"context"
	"iter"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// EntryOptions are the options of what reads entries of state; the zero value is the default.
type EntryOptions struct {
	Selection
	// Limit is the most entries to give; 0 means all.
	Limit int64
	// Jobs is the number of goroutines that decode; 0 means one for each CPU.
	Jobs int
	// Progress, if not nil, is told how many bytes of state were read, and
	// how many there are as far as the handles say. It is called from several goroutines.
	Progress func(done, total int64)
}

// Entry is one entry of a snapshot's state. It is valid until the next one.
type Entry struct {
	Operator *metadata.Operator
	Subtask  int
	// Keyed is an entry of keyed state or a timer, Element one of operator
	// state; the other one is nil.
	Keyed   *backend.Entry
	Element *backend.OperatorEntry
}

// State is the name of the state.
func (e *Entry) State() string {
	if e.Keyed != nil {
		return e.Keyed.State.Meta.Name
	}
	return e.Element.State.Name
}

// Key decodes the key: of keyed state and of broadcast state; else it is nil.
// See package serializer for the types. What can't be decoded is a
// [serializer.Opaque], and the error says why.
func (e *Entry) Key() (any, error) {
	if e.Keyed != nil {
		return e.Keyed.DecodeKey()
	}
	return e.Element.DecodeKey()
}

// Value decodes the value like Key.
func (e *Entry) Value() (any, error) {
	if e.Keyed != nil {
		return e.Keyed.DecodeValue()
	}
	return e.Element.DecodeValue()
}

// AppendJSON appends the entry as one line of JSON, as [DumpState] writes it,
// without the newline. An error says that part of it could not be decoded;
// dst is still whole JSON.
func (e *Entry) AppendJSON(dst []byte) ([]byte, error) {
	l := newLines(e.Operator, e.Subtask)
	if e.Keyed != nil {
		dst = l.keyed(dst, e.Keyed)
	} else {
		dst = l.element(dst, e.Element)
	}
	return dst, l.err
}

// Entries yields the entries of a snapshot's state in a fixed order: by
// operator as in the metadata, subtask, keyed state before operator state, key
// group, and then as in the file. A [*StateProblem] as the error says that
// some state could not be read; the sequence goes on, as it does not after
// any other error. Memory does not depend on the size of the state.
func Entries(ctx context.Context, fsys storage.FS, s *Snapshot, o EntryOptions) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		r, err := newStateReader(fsys, s, o.Selection, o.Jobs, o.Progress)
		if err != nil {
			yield(nil, err)
			return
		}
		var problems problemList
		var given int64
		var e givenEntry
		stopped := false
		give := func(e *Entry, err error) error {
			if stopped = !yield(e, err); stopped {
				return ordered.ErrEnough
			}
			return nil
		}
		free := newFreeList[entryBatch](4 * ordered.Depth)
		err = ordered.Each(ctx, r.jobs, len(r.parts), func(ctx context.Context, n int, send func(*entryBatch) error) error {
			return r.batches(ctx, n, free, send)
		}, func(n int, b *entryBatch) error {
			u := r.parts[n].unit
			for i := range b.entries {
				b.entries[i].give(&e, b.data)
				e.Operator, e.Subtask = u.op, u.subtask
				if err := give(&e.Entry, nil); err != nil {
					return err
				}
				if given++; given == o.Limit {
					return ordered.ErrEnough
				}
			}
			problem := b.problem
			clear(b.entries)
			*b = entryBatch{data: b.data[:0], entries: b.entries[:0]}
			free.put(b)
			if problem != nil && problems.add(u, problem) {
				return give(nil, problem)
			}
			return nil
		})
		if err == nil {
			err = r.keyError()
		}
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// batchBytes is how many bytes of entries a worker gathers before it hands them on.
const batchBytes = 64 << 10

// entryBatch is entries whose bytes are in one buffer, or a problem behind them.
type entryBatch struct {
	data    []byte
	entries []heldEntry
	problem *StateProblem
}

// heldEntry is an entry whose bytes are in the buffer of a batch.
type heldEntry struct {
	keyed   *backend.State         // nil for operator state
	element *backend.OperatorState // nil for keyed state
	number  int                    // the key group, or the index
	time    int64
	null    bool
	unsplit bool
	key     span
	space   span
	userKey span
	value   span
}

type span struct{ start, end int }

func (s span) of(data []byte) []byte {
	if s.start < 0 {
		return nil
	}
	return data[s.start:s.end:s.end]
}

func (b *entryBatch) hold(p []byte) span {
	if p == nil {
		return span{-1, -1}
	}
	start := len(b.data)
	b.data = append(b.data, p...)
	return span{start, len(b.data)}
}

// givenEntry is an entry that is given out, with what its pointers mean.
type givenEntry struct {
	Entry
	keyed   backend.Entry
	element backend.OperatorEntry
}

// give fills in the entry that was held. The scratch memory of g stays.
func (h *heldEntry) give(g *givenEntry, data []byte) {
	g.Entry = Entry{}
	if h.keyed != nil {
		k := &g.keyed
		k.State, k.KeyGroup, k.Null, k.Timestamp, k.Unsplit = h.keyed, h.number, h.null, h.time, h.unsplit
		k.Key, k.Namespace, k.UserKey, k.Value = h.key.of(data), h.space.of(data), h.userKey.of(data), h.value.of(data)
		g.Keyed = k
		return
	}
	e := &g.element
	e.State, e.Index = h.element, h.number
	e.Key, e.Value = h.key.of(data), h.value.of(data)
	g.Element = e
}

// batches is the work of [Entries] on one part.
func (r *stateReader) batches(ctx context.Context, n int, free freeList[entryBatch], send func(*entryBatch) error) error {
	b := free.get()
	flush := func() error {
		full := b
		b = free.get()
		return send(full)
	}
	next := func() error {
		if len(b.data) < batchBytes {
			return nil
		}
		return flush()
	}
	err := r.read(ctx, r.parts[n], visitor{
		keyed: func(e *backend.Entry) error {
			b.entries = append(b.entries, heldEntry{
				keyed: e.State, number: e.KeyGroup, time: e.Timestamp, null: e.Null, unsplit: e.Unsplit,
				key: b.hold(e.Key), space: b.hold(e.Namespace), userKey: b.hold(e.UserKey), value: b.hold(e.Value),
			})
			return next()
		},
		element: func(e *backend.OperatorEntry) error {
			b.entries = append(b.entries, heldEntry{element: e.State, number: e.Index, key: b.hold(e.Key), value: b.hold(e.Value)})
			return next()
		},
		problem: func(p *StateProblem) error {
			b.problem = p
			return flush()
		},
	})
	if err != nil || len(b.entries) == 0 {
		return err
	}
	return flush()
}
