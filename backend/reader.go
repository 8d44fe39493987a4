package backend

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Filter says which entries are wanted; the zero value is all. A reader does
// not read what it can pass over.
type Filter struct {
	// KeyGroups that are wanted; nil means all.
	KeyGroups []keygroup.Range
	// State says whether a state is wanted; nil means all.
	State func(*State) bool
	// Key is the serialized key that is wanted; nil means all. Entries whose
	// key could not be told from what follows it are wanted if they begin with it.
	Key []byte
}

// ranges gives the runs of wanted key groups within r, in order.
func (f *Filter) ranges(r keygroup.Range) []keygroup.Range {
	if f.KeyGroups == nil {
		if r.Empty() {
			return nil
		}
		return []keygroup.Range{r}
	}
	var runs []keygroup.Range
	for _, g := range f.KeyGroups {
		if g = g.Intersect(r); !g.Empty() {
			runs = append(runs, g)
		}
	}
	slices.SortFunc(runs, func(a, b keygroup.Range) int { return a.Start - b.Start })
	merged := runs[:0]
	for _, g := range runs {
		if n := len(merged); n > 0 && g.Start <= merged[n-1].End+1 {
			merged[n-1].End = max(merged[n-1].End, g.End)
		} else {
			merged = append(merged, g)
		}
	}
	return merged
}

func (f *Filter) wants(s *State) bool { return f.State == nil || f.State(s) }

// wantsKey says whether an entry has the wanted key.
func (f *Filter) wantsKey(e *Entry) bool {
	return f.Key == nil || bytes.Equal(f.Key, e.Key) || e.Unsplit && bytes.HasPrefix(e.Key, f.Key)
}

// LostError is an error of a sequence of entries after which it goes on:
// entries that could not be read were passed over.
type LostError struct {
	// State names the state, "" if it is not known. KeyGroup is -1 if it is
	// not known, and for operator state.
	State    string
	KeyGroup int
	// Entries is how many were lost, -1 if that is not known.
	Entries int64
	Err     error
}

// Error implements error.
func (e *LostError) Error() string {
	var where []string
	if e.State != "" {
		where = append(where, fmt.Sprintf("state %q", e.State))
	}
	if e.KeyGroup >= 0 {
		where = append(where, fmt.Sprintf("key group %d", e.KeyGroup))
	}
	switch {
	case e.Entries == 1:
		where = append(where, "1 entry lost")
	case e.Entries >= 0:
		where = append(where, fmt.Sprintf("%d entries lost", e.Entries))
	default:
		where = append(where, "entries lost")
	}
	return strings.Join(where, ", ") + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *LostError) Unwrap() error { return e.Err }

// Options of a reader; the zero value is the default.
type Options struct {
	// MaxParallelism is the operator's number of key groups; it must be set for keyed state.
	MaxParallelism int
	// Raw says that the handle stands in the slot of raw keyed or raw operator state.
	Raw bool
	// ReadAhead is the most that is read at once of a file, in bytes; 0 means 512 KiB.
	ReadAhead int
	// Progress, if set, is told of bytes of state that were read, inline ones
	// too. It may be called by several goroutines at once.
	Progress func(bytes int64)

	// partial says that the file may hold other key groups than those of the handle.
	partial bool
}

// layout is a format of keyed state.
type layout interface {
	// entries hands entries that the filter lets through to the sink, until
	// it or the layout fails.
	entries(ctx context.Context, out *sink)
	close() error
}

// KeyedReader reads the keyed state of one handle, whatever its format. Its
// methods may be called concurrently.
type KeyedReader struct {
	layout    layout
	format    string
	header    *KeyedHeader
	headerErr error
	states    []*State
	keyGroups keygroup.Range
}

// OpenKeyed opens a handle of keyed state and reads its header. The caller
// closes it. A serializer that is not known is an error only if nothing can be
// read without it, see [KeyedReader.HeaderErr].
func OpenKeyed(ctx context.Context, files Files, h metadata.Keyed, o Options) (*KeyedReader, error) {
	if o.MaxParallelism <= 0 || o.MaxParallelism > keygroup.UpperBound {
		return nil, fmt.Errorf("keyed state of %d key groups: %w", o.MaxParallelism, serializer.ErrCorrupt)
	}
	switch h := h.(type) {
	case *metadata.KeyGroups:
		if o.Raw {
			return openRaw(ctx, files, h, o)
		}
		return openKeyGroups(ctx, files, h, o)
	case *metadata.Incremental:
		return openIncremental(ctx, files, h, o)
	case *metadata.Changelog:
		return openChangelog(ctx, files, h, o)
	}
	return nil, fmt.Errorf("a handle of type %T: %w", h, serializer.ErrUnsupported)
}

// Header is what the file says of its states; nil for raw keyed state. If
// [KeyedReader.HeaderErr] is not nil, states are missing.
func (r *KeyedReader) Header() *KeyedHeader { return r.header }

// HeaderErr says why the header could not be read to its end, nil if it was.
// The states behind that place are read as they can be without it.
func (r *KeyedReader) HeaderErr() error { return r.headerErr }

// States are those of the header, in its order. A state that the header
// announces but that is behind [KeyedReader.HeaderErr] has a name such as "state#3 (unknown)".
func (r *KeyedReader) States() []*State { return slices.Clone(r.states) }

// KeyGroups is the range of the handle.
func (r *KeyedReader) KeyGroups() keygroup.Range { return r.keyGroups }

// Format names the layout: "canonical", "heap", "rocksdb", "changelog", "raw timers" or "raw".
func (r *KeyedReader) Format() string { return r.format }

// Entries yields the entries that the filter lets through, in the order of
// the file. After an error that is a [*LostError] it goes on, after any other it ends. Several
// sequences may run at once, on disjoint key groups for instance.
func (r *KeyedReader) Entries(ctx context.Context, f Filter) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		out := &sink{filter: f, runs: f.ranges(r.keyGroups), yield: yield}
		out.entry.in = serializer.NewInput(nil)
		r.layout.entries(ctx, out)
	}
}

// Verify tells found of what is wrong in the files and need not be met by
// [KeyedReader.Entries]: of RocksDB, in blocks of tables that hold no entry of
// these key groups, and in those that are no data. Other layouts have no such bytes. It
// returns an error only if ctx ends; found is called by this goroutine.
func (r *KeyedReader) Verify(ctx context.Context, found func(error)) error {
	return verify(ctx, r.layout, found)
}

func verify(ctx context.Context, l layout, found func(error)) error {
	if v, ok := l.(interface {
		verify(ctx context.Context, found func(error)) error
	}); ok {
		return v.verify(ctx, found)
	}
	return nil
}

// Close closes the files.
func (r *KeyedReader) Close() error { return r.layout.close() }

// sink takes the entries of one sequence.
type sink struct {
	filter Filter
	runs   []keygroup.Range // the wanted key groups of the handle
	yield  func(*Entry, error) bool
	entry  Entry
	done   bool
}

// emit hands out the entry, which is filled, if its key is wanted.
func (s *sink) emit() {
	if !s.done && s.filter.wantsKey(&s.entry) && !s.yield(&s.entry, nil) {
		s.done = true
	}
}

// lost tells of entries that were passed over.
func (s *sink) lost(e *LostError) {
	if !s.done && !s.yield(nil, e) {
		s.done = true
	}
}

// fail ends the sequence.
func (s *sink) fail(err error) {
	if !s.done {
		s.done = true
		s.yield(nil, err)
	}
}
