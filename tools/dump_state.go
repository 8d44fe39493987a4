package tools

import (
	"context"
	"io"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/internal/ordered"
	"github.com/drey-state/drey/storage"
)

// Format is how [DumpState] writes entries.
type Format string

const (
	// FormatJSON is one JSON object for each entry, each on a line.
	FormatJSON Format = "json"
	// FormatCSV has a header and the columns of [Row].
	FormatCSV Format = "csv"
	// FormatParquet has the columns of [Row].
	FormatParquet Format = "parquet"
)

// DumpStateOptions are the options of [DumpState]; the zero value is the default.
type DumpStateOptions struct {
	EntryOptions
	// Format is "" for JSON.
	Format Format
}

// StateDump is what [DumpState] did.
type StateDump struct {
	// Entries is how many were written.
	Entries int64
	// Undecoded is how many of them have a part that is shown as bytes, since
	// it could not be decoded, and Reasons how many for each reason.
	Undecoded int64
	Reasons   map[string]int64
	// Problems are state that could not be read.
	Problems []*StateProblem
	// Limited says that there may be more entries than the limit.
	Limited bool
}

// dumpBytes is how much a worker encodes before it hands it on.
const dumpBytes = 128 << 10

// dumpBatch is encoded entries, or a problem behind them.
type dumpBatch struct {
	data []byte
	// ends are where the entries end in data; rows are entries for Parquet.
	ends     []int
	rows     []Row
	rowBytes int
	entries  int64
	bad      undecoded
	problem  *StateProblem
}

// note counts an entry, of which a part could not be decoded if err is not nil or text shows bytes.
func (b *dumpBatch) note(err error, text []byte) {
	b.entries++
	if err != nil {
		b.bad.add(err)
	} else if reason, ok := opaqueReason(text); ok {
		b.bad.addText(reason, 1)
	}
}

// encoder encodes entries of one part.
type encoder interface {
	// keyed and element add an entry to b.
	keyed(b *dumpBatch, e *backend.Entry)
	element(b *dumpBatch, e *backend.OperatorEntry)
}

// DumpState writes the entries of a snapshot's state in the order of
// [Entries]. What can't be decoded is written as bytes, what can't be read is
// left out and told in the result, which is not nil. Memory does not depend on the size of the state.
func DumpState(ctx context.Context, fsys storage.FS, s *Snapshot, w io.Writer, o DumpStateOptions) (*StateDump, error) {
	d := &StateDump{}
	r, err := newStateReader(fsys, s, o.Selection, o.Jobs, o.Progress)
	if err != nil {
		return d, err
	}
	out := newSink(o.Format, w)
	if err := out.begin(); err != nil {
		return d, err
	}
	var problems problemList
	var bad undecoded
	free := newFreeList[dumpBatch](4 * ordered.Depth)
	err = ordered.Each(ctx, r.jobs, len(r.parts), func(ctx context.Context, n int, send func(*dumpBatch) error) error {
		u := r.parts[n].unit
		e := out.encoder(u)
		b := free.get()
		flush := func() error {
			full := b
			b = free.get()
			return send(full)
		}
		next := func() error {
			if o.Limit > 0 {
				b.ends = append(b.ends, len(b.data))
			}
			if len(b.data)+b.rowBytes < dumpBytes {
				return nil
			}
			return flush()
		}
		err := r.read(ctx, r.parts[n], visitor{
			keyed: func(entry *backend.Entry) error {
				e.keyed(b, entry)
				return next()
			},
			element: func(entry *backend.OperatorEntry) error {
				e.element(b, entry)
				return next()
			},
			problem: func(p *StateProblem) error {
				b.problem = p
				return flush()
			},
		})
		if err != nil || b.entries == 0 {
			return err
		}
		return flush()
	}, func(n int, b *dumpBatch) error {
		if left := o.Limit - d.Entries; o.Limit > 0 && b.entries >= left {
			b.cut(left)
			d.Limited = true
		}
		if err := out.write(b); err != nil {
			return err
		}
		d.Entries += b.entries
		bad.merge(&b.bad)
		if b.problem != nil {
			problems.add(r.parts[n].unit, b.problem)
		}
		b.reset()
		free.put(b)
		if d.Limited {
			return ordered.ErrEnough
		}
		return nil
	})
	d.Undecoded, d.Reasons, d.Problems = bad.total, bad.reasons, problems.list
	if err == nil {
		err = r.keyError()
	}
	if err != nil {
		return d, err
	}
	return d, out.end()
}

// cut leaves the first n entries.
func (b *dumpBatch) cut(n int64) {
	b.entries, b.problem = n, nil
	b.data = b.data[:b.ends[n-1]]
	if len(b.rows) > 0 {
		b.rows = b.rows[:n]
	}
}

func (b *dumpBatch) reset() {
	clear(b.rows)
	*b = dumpBatch{data: b.data[:0], ends: b.ends[:0], rows: b.rows[:0]}
}

// freeList keeps a number of values for use again.
type freeList[T any] struct{ list chan *T }

func newFreeList[T any](n int) freeList[T] { return freeList[T]{make(chan *T, n)} }

func (f freeList[T]) get() *T {
	select {
	case v := <-f.list:
		return v
	default:
		return new(T)
	}
}

func (f freeList[T]) put(v *T) {
	select {
	case f.list <- v:
	default:
	}
}

// sink is where encoded entries go.
type sink interface {
	begin() error
	encoder(u *unit) encoder
	write(b *dumpBatch) error
	end() error
}

func newSink(f Format, w io.Writer) sink {
	switch f {
	case FormatCSV:
		return &csvSink{w}
	case FormatParquet:
		return newParquetSink(w)
	}
	return &jsonSink{w}
}

// jsonSink writes lines of JSON.
type jsonSink struct{ w io.Writer }

func (s *jsonSink) begin() error { return nil }
func (s *jsonSink) end() error   { return nil }

func (s *jsonSink) encoder(u *unit) encoder { return &jsonEncoder{newLines(u.op, u.subtask)} }

func (s *jsonSink) write(b *dumpBatch) error {
	_, err := s.w.Write(b.data)
	return err
}

type jsonEncoder struct{ *lines }

func (j *jsonEncoder) keyed(b *dumpBatch, e *backend.Entry) {
	from := len(b.data)
	b.data = j.lines.keyed(b.data, e)
	j.end(b, from)
}

func (j *jsonEncoder) element(b *dumpBatch, e *backend.OperatorEntry) {
	from := len(b.data)
	b.data = j.lines.element(b.data, e)
	j.end(b, from)
}

// end ends the line that begins at from.
func (j *jsonEncoder) end(b *dumpBatch, from int) {
	b.note(j.err, b.data[from:])
	b.data = append(b.data, '\n')
}
