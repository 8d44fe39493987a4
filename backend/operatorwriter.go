package backend

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// OperatorWriter writes a file of operator state
// (DefaultOperatorStateBackendSnapshotStrategy). It holds one element and some
// hundred KiB in memory. After a failure every method gives that failure
// again. One goroutine may use it at a time.
type OperatorWriter struct {
	fileWriter
	h *OperatorHeader
	// states are those of the header, lists first.
	states []metadata.StateOffsets
	left   int // entries of the broadcast state that was begun last that are still to come
}

// NewOperatorWriter begins a file with the header h, which says whether it is
// compressed. A failure comes with the next call.
func NewOperatorWriter(out io.Writer, h *OperatorHeader) *OperatorWriter {
	w := &OperatorWriter{h: h}
	w.begin(out, h)
	for _, list := range [][]StateMeta{h.Operator, h.Broadcast} {
		for i := range list {
			name, err := metadata.NewText(list[i].Name)
			if err != nil {
				w.fail(fmt.Errorf("state %q: %w", list[i].Name, err))
			}
			w.states = append(w.states, metadata.StateOffsets{Name: name, Mode: newOperatorState(&list[i]).Mode})
		}
	}
	switch {
	case h.legacy != nil:
		w.fail(fmt.Errorf("a header of version %d: %w", h.Version, serializer.ErrUnsupported))
	case h.Compressed:
		w.beginSnappy()
	}
	return w
}

// Element writes an element of the list h.Operator[state], as its serializer
// writes it. The elements of a state come in its order; those of others may stand between them.
func (w *OperatorWriter) Element(state int, value []byte) error {
	if w.err == nil && (state < 0 || state >= len(w.h.Operator)) {
		return w.refuse("list state %d of %d", state, len(w.h.Operator))
	}
	if err := w.next(state); err != nil {
		return err
	}
	w.buf = append(w.buf, value...)
	return nil
}

// StartBroadcast begins the map h.Broadcast[state] with that number of entries.
func (w *OperatorWriter) StartBroadcast(state, entries int) error {
	place := len(w.h.Operator) + state
	switch {
	case w.err != nil:
		return w.err
	case state < 0 || state >= len(w.h.Broadcast):
		return w.refuse("broadcast state %d of %d", state, len(w.h.Broadcast))
	case len(w.states[place].Offsets) > 0:
		return w.refuse("broadcast state %q a second time", w.h.Broadcast[state].Name)
	case entries < 0 || entries > w.limit:
		return w.refuse("broadcast state %q: %d entries, but the format has at most %d: %w", w.h.Broadcast[state].Name, entries, w.limit, ErrTooLarge)
	}
	if err := w.next(place); err != nil {
		return err
	}
	w.left = entries
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(entries))
	return nil
}

// next begins what has an offset of its own.
func (w *OperatorWriter) next(place int) error {
	w.complete()
	if w.zipping {
		// A reader goes to the offset, so that a chunk must begin there.
		w.flush(len(w.buf))
	} else {
		w.room()
	}
	if w.err == nil {
		w.states[place].Offsets = append(w.states[place].Offsets, w.offset())
	}
	return w.err
}

// complete checks that the broadcast state that was begun last has all its entries.
func (w *OperatorWriter) complete() {
	if w.left > 0 {
		w.fail(fmt.Errorf("%d entries of a broadcast state are missing", w.left))
	}
}

// BroadcastEntry writes an entry of the broadcast state that was begun last.
func (w *OperatorWriter) BroadcastEntry(key, value []byte) error {
	if w.err == nil && w.left == 0 {
		w.fail(fmt.Errorf("more entries of a broadcast state than were announced"))
	}
	if w.err != nil {
		return w.err
	}
	w.left--
	w.room()
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, value...)
	return w.err
}

// Close ends the file without closing what it is written to. Broadcast states
// that were not begun become empty. It gives what a [metadata.OperatorState]
// says of the file, for each state of the header in its order, and the file's size in bytes.
func (w *OperatorWriter) Close() ([]metadata.StateOffsets, int64, error) {
	for i := range w.h.Broadcast {
		if w.err == nil && len(w.states[len(w.h.Operator)+i].Offsets) == 0 {
			w.fail(w.StartBroadcast(i, 0))
		}
	}
	w.complete()
	if w.zipping {
		w.endSnappy()
	}
	size, err := w.end()
	if err != nil {
		return nil, 0, err
	}
	return w.states, size, nil
}
