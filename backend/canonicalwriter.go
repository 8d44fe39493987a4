package backend

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// CanonicalWriter writes a file in the canonical layout, which savepoints of
// all backends and full checkpoints of RocksDB have (FullSnapshotAsyncWriter).
// It holds one entry and some hundred KiB in memory. After a failure every
// method gives that failure again. One goroutine may use it at a time.
type CanonicalWriter struct {
	fileWriter
	h              *KeyedHeader
	maxParallelism int
	offsets        metadata.KeyGroupOffsets
	group          int // -1 before the first key group
	state          int // the state of the last entry of the key group, -1 if there is none
	// last is where in buf the last key begins.
	last int
	// runs has for each state the last key group in which it has entries.
	runs []int
}

// NewCanonicalWriter begins a file with the header h, which says whether key
// groups are compressed, for the key groups r of an operator with
// maxParallelism of them. A failure comes with the next call.
func NewCanonicalWriter(out io.Writer, h *KeyedHeader, r keygroup.Range, maxParallelism int) *CanonicalWriter {
	w := &CanonicalWriter{h: h, maxParallelism: maxParallelism, group: -1, state: -1}
	w.begin(out, h)
	var err error
	w.offsets, err = newOffsets(h, r, maxParallelism)
	w.fail(err)
	w.runs = unwritten(h)
	return w
}

// unwritten has for each state the last key group in which it has entries: none.
func unwritten(h *KeyedHeader) []int {
	groups := make([]int, len(h.States))
	for i := range groups {
		groups[i] = -1
	}
	return groups
}

// newOffsets checks what a file of keyed state is to hold.
func newOffsets(h *KeyedHeader, r keygroup.Range, maxParallelism int) (metadata.KeyGroupOffsets, error) {
	switch {
	case h.Version != KeyedVersion:
		return metadata.KeyGroupOffsets{}, fmt.Errorf("a header of version %d: %w", h.Version, serializer.ErrUnsupported)
	case maxParallelism <= 0 || maxParallelism > keygroup.UpperBound || r.Start < 0 || r.End >= maxParallelism:
		return metadata.KeyGroupOffsets{}, fmt.Errorf("key groups %s of %d: %w", r, maxParallelism, serializer.ErrUnsupported)
	}
	return metadata.KeyGroupOffsets{Start: int32(r.Start), Offsets: make([]int64, r.Len())}, nil
}

// StartKeyGroup begins a key group, which must be of the range and above the
// ones before. Key groups may be left out; those without entries take no bytes.
func (w *CanonicalWriter) StartKeyGroup(group int) error {
	w.endGroup()
	if w.err != nil {
		return w.err
	}
	if group <= w.group || w.offsets.Range().Intersect(keygroup.Range{Start: group, End: group}).Empty() {
		return w.refuse("key group %d after %d, of a file of %s", group, w.group, w.offsets.Range())
	}
	w.group = group
	return nil
}

// Entry writes an entry of the state with that number in the header. key is
// joined as by [AppendComposite] or [AppendTimer], value is as
// [Entry.AppendStoredValue] has it; neither is kept. All entries of a state in
// a key group must come one after the other; states and entries may come in any order.
func (w *CanonicalWriter) Entry(state int, key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if state != w.state {
		if err := w.startRun(state); err != nil {
			return err
		}
	}
	n := prefixLen(w.maxParallelism) + len(key)
	if n > w.limit || len(value) > w.limit {
		return w.refuse("state %q, key group %d: a key of %d and a value of %d bytes, the limit of both is %d: %w",
			w.h.States[state].Name, w.group, n, len(value), w.limit, ErrTooLarge)
	}
	w.room()
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(n))
	w.last = len(w.buf)
	w.buf = AppendKeyGroup(w.buf, w.group, w.maxParallelism)
	w.buf = append(w.buf, key...)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(value)))
	w.buf = append(w.buf, value...)
	return w.err
}

// startRun begins the entries of a state in the key group.
func (w *CanonicalWriter) startRun(state int) error {
	switch {
	case w.group < 0:
		return w.refuse("an entry before the first key group")
	case state < 0 || state >= len(w.runs):
		return w.refuse("key group %d: state %d of %d", w.group, state, len(w.runs))
	case w.runs[state] == w.group:
		return w.refuse("key group %d: entries of state %q, then of others, then of it again", w.group, w.h.States[state].Name)
	case w.state >= 0:
		w.buf[w.last] |= lastKey
	default:
		w.offsets.Offsets[w.group-int(w.offsets.Start)] = w.offset()
		if w.h.Compressed {
			w.beginSnappy()
		}
	}
	w.state, w.runs[state] = state, w.group
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(state))
	return nil
}

// endGroup ends the key group, if it has entries.
func (w *CanonicalWriter) endGroup() {
	if w.err != nil || w.state < 0 {
		return
	}
	w.buf[w.last] |= lastKey
	w.buf = binary.BigEndian.AppendUint16(w.buf, endOfGroup)
	w.state = -1
	if w.h.Compressed {
		w.endSnappy()
	}
}

// Close ends the file without closing what it is written to. It gives what a
// [metadata.KeyGroups] says of the file, 0 for key groups without entries, and the file's size in bytes.
func (w *CanonicalWriter) Close() (metadata.KeyGroupOffsets, int64, error) {
	w.endGroup()
	size, err := w.end()
	if err != nil {
		return metadata.KeyGroupOffsets{}, 0, err
	}
	return w.offsets, size, nil
}

// AppendStoredKey appends the entry's composite key or timer, as
// [AppendComposite] and [AppendTimer] join it.
func (e *Entry) AppendStoredKey(dst []byte) []byte {
	c := &e.State.keys
	switch {
	case e.State.Type == TypeTimers:
		return AppendTimer(dst, e.Timestamp, e.Key, e.Namespace)
	case e.Unsplit:
		return append(dst, e.Key...)
	case e.Joined:
		dst = append(dst, e.Key...)
		if c.ambiguous && !c.guess {
			dst = appendSuffix(dst, len(e.Key))
		}
		return append(dst, e.Namespace...)
	}
	return AppendComposite(dst, c.ambiguous, e.Key, e.Namespace, e.UserKey)
}

// AppendStoredValue appends the entry's value as RocksDB and canonical files
// have it: in a map it follows a flag that says whether it is null.
func (e *Entry) AppendStoredValue(dst []byte) []byte {
	if e.State.Type != TypeMap {
		return append(dst, e.Value...)
	}
	if e.Null {
		return append(dst, 1)
	}
	dst = append(dst, 0)
	return append(dst, e.Value...)
}
