package backend

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// HeapWriter writes a file in the layout of the heap backend's checkpoints
// and native savepoints (HeapSnapshotStrategy). It holds some hundred KiB in
// memory, or one state of one key group if the number of its entries is not
// told in advance. After a failure every method gives that failure again. One
// goroutine may use it at a time.
type HeapWriter struct {
	fileWriter
	h       *KeyedHeader
	offsets metadata.KeyGroupOffsets
	group   int // the key group that was begun last
	state   int // the state that was begun last in it, -1 if it has ended
	// blocks has for each state the last key group in which it has a block.
	blocks []int
	// entries is how many the state's block is to have, -1 if that is not
	// known: then its number is at countAt in buf. seen is how many it has.
	entries, seen, countAt int

	// What Add gathers: the map of the last entry. head is its namespace and
	// key, mapAt where in buf the number of its entries is, -1 if there is no map.
	head          []byte
	mapAt, mapLen int
	in            *serializer.Input
}

// NewHeapWriter begins a file with the header h, which says whether blocks
// are compressed, for the key groups r. A failure comes with the next call.
func NewHeapWriter(out io.Writer, h *KeyedHeader, r keygroup.Range) *HeapWriter {
	w := &HeapWriter{h: h, group: r.Start - 1, state: -1, in: serializer.NewInput(nil)}
	w.begin(out, h)
	var err error
	w.offsets, err = newOffsets(h, r, keygroup.UpperBound)
	w.fail(err)
	w.blocks = unwritten(h)
	return w
}

// StartKeyGroup begins a key group, which must be of the range and above the
// ones before. Those that are left out become empty.
func (w *HeapWriter) StartKeyGroup(group int) error {
	if w.err == nil && (group <= w.group || group > w.offsets.Range().End) {
		w.fail(fmt.Errorf("key group %d after %d, of a file of %s", group, w.group, w.offsets.Range()))
	}
	for w.err == nil && w.group < group {
		w.endGroup()
		w.group++
		w.offsets.Offsets[w.group-int(w.offsets.Start)] = w.offset()
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(w.group))
	}
	return w.err
}

// endGroup ends the key group. A state without a block gets one, because Flink expects all.
func (w *HeapWriter) endGroup() {
	if w.group < int(w.offsets.Start) {
		return
	}
	for i, g := range w.blocks {
		if g != w.group && w.StartState(i, 0) != nil {
			return
		}
	}
	w.endState()
}

// StartState begins the entries of the state with that number in the header.
// A state may be begun once in each key group, in any order. A negative
// number of entries says that it is not known.
func (w *HeapWriter) StartState(state, entries int) error {
	w.endState()
	switch {
	case w.err != nil:
		return w.err
	case w.group < int(w.offsets.Start):
		return w.refuse("a state before the first key group")
	case state < 0 || state >= len(w.blocks):
		return w.refuse("key group %d: state %d of %d", w.group, state, len(w.blocks))
	case w.blocks[state] == w.group:
		return w.refuse("key group %d: state %q a second time", w.group, w.h.States[state].Name)
	case entries > w.limit:
		return w.refuse("%d entries, but the format has at most %d: %w", entries, w.limit, ErrTooLarge)
	}
	w.state, w.entries, w.seen, w.mapAt = state, max(entries, -1), 0, -1
	w.blocks[state] = w.group
	w.room()
	if w.h.Compressed {
		w.beginSnappy()
	}
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(state))
	w.countAt = len(w.buf)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(max(entries, 0)))
	return nil
}

// endState ends the state's block.
func (w *HeapWriter) endState() {
	if w.err != nil || w.state < 0 {
		return
	}
	w.endMap()
	if w.entries < 0 {
		binary.BigEndian.PutUint32(w.buf[w.countAt:], uint32(w.seen))
	} else if w.seen != w.entries {
		w.fail(fmt.Errorf("%s: %d entries instead of %d", w.where(), w.seen, w.entries))
	}
	w.state = -1
	if w.h.Compressed {
		w.endSnappy()
	}
}

// where names the block for errors.
func (w *HeapWriter) where() string {
	return fmt.Sprintf("state %q, key group %d", w.h.States[w.state].Name, w.group)
}

// Entry writes an entry of the state that was begun last, whose parts are as
// their serializers write them: a list or map with its count.
func (w *HeapWriter) Entry(namespace, key, value []byte) error {
	if !w.next(false) {
		return w.err
	}
	w.buf = append(w.buf, namespace...)
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, value...)
	return w.err
}

// Timer writes a timer of the queue that was begun last. The timestamp is in
// milliseconds since 1970.
func (w *HeapWriter) Timer(timestamp int64, key, namespace []byte) error {
	if !w.next(true) {
		return w.err
	}
	w.buf = AppendTimer(w.buf, timestamp, key, namespace)
	return w.err
}

// next counts an entry, and says whether it can be written.
func (w *HeapWriter) next(timer bool) bool {
	switch {
	case w.err != nil:
	case w.state < 0:
		w.fail(fmt.Errorf("an entry before the first state of a key group"))
	case timer != (w.h.States[w.state].Kind == KindPriorityQueue):
		w.fail(fmt.Errorf("%s: timers and other state mixed", w.where()))
	case w.seen == w.entries:
		w.fail(fmt.Errorf("%s: more than %d entries", w.where(), w.seen))
	case w.seen == w.limit:
		w.fail(fmt.Errorf("%s: more than %d entries: %w", w.where(), w.seen, ErrTooLarge))
	default:
		w.endMap()
		w.seen++
		if w.entries >= 0 {
			w.room()
		}
	}
	return w.err == nil
}

// Add writes an entry that a reader gave, of any layout. The state that was
// begun last must be the entry's, with an unknown number of entries, because
// the entries of a map become one; they must come one after the other.
func (w *HeapWriter) Add(e *Entry) error {
	switch {
	case w.err != nil:
		return w.err
	case e.Unsplit || e.Joined:
		return w.refuse("state %q, key group %d: key and namespace that cannot be told apart: %w", e.State.Meta.Name, e.KeyGroup, serializer.ErrUnsupported)
	case w.state < 0 || w.entries >= 0 || w.h.States[w.state].Name != e.State.Meta.Name:
		return w.refuse("state %q, key group %d: an entry where its state was not begun with an unknown number of entries", e.State.Meta.Name, e.KeyGroup)
	case e.State.Type == TypeTimers:
		return w.Timer(e.Timestamp, e.Key, e.Namespace)
	case e.State.Type == TypeList:
		return w.addList(e)
	case e.State.Type == TypeMap:
		return w.addMap(e)
	}
	return w.Entry(e.Namespace, e.Key, e.Value)
}

// addList writes a list whose elements are joined by commas.
func (w *HeapWriter) addList(e *Entry) error {
	if w.Entry(e.Namespace, e.Key, []byte{0, 0, 0, 0}) != nil {
		return w.err
	}
	countAt := len(w.buf) - 4
	in := w.in
	in.Reset(e.Value)
	n := 0
	for i := 0; i < len(e.Value); n++ {
		if n > 0 {
			if e.Value[i] != ',' {
				in.Failf("list", "byte %#02x between elements", e.Value[i])
				break
			}
			in.Skip(1)
			i++
		}
		skipValue(in, e.State.Value, "element")
		end := int(in.Offset())
		if in.Err() != nil {
			break
		}
		if end == i {
			in.Failf("list", "an element of no bytes")
			break
		}
		w.buf = append(w.buf, e.Value[i:end]...)
		i = end
	}
	if err := in.Err(); err != nil {
		return w.refuse("%s: %w", w.where(), err)
	}
	binary.BigEndian.PutUint32(w.buf[countAt:], uint32(n))
	return nil
}

// addMap writes an entry of a map, and begins the map if the entry before is of another.
func (w *HeapWriter) addMap(e *Entry) error {
	n := len(e.Namespace)
	if w.mapAt < 0 || !bytes.HasPrefix(w.head, e.Namespace) || !bytes.Equal(w.head[n:], e.Key) {
		w.endMap()
		if w.Entry(e.Namespace, e.Key, []byte{0, 0, 0, 0}) != nil {
			return w.err
		}
		w.mapAt, w.mapLen = len(w.buf)-4, 0
		w.head = append(append(w.head[:0], e.Namespace...), e.Key...)
	}
	if w.mapLen == w.limit {
		return w.refuse("%s: a map of more than %d entries: %w", w.where(), w.limit, ErrTooLarge)
	}
	w.mapLen++
	w.buf = append(w.buf, e.UserKey...)
	w.buf = e.AppendStoredValue(w.buf)
	return nil
}

// endMap ends the map that Add gathers.
func (w *HeapWriter) endMap() {
	if w.mapAt >= 0 {
		binary.BigEndian.PutUint32(w.buf[w.mapAt:], uint32(w.mapLen))
		w.mapAt = -1
	}
}

// Close ends the file without closing what it is written to. It gives what a
// [metadata.KeyGroups] says of the file, and the file's size in bytes.
func (w *HeapWriter) Close() (metadata.KeyGroupOffsets, int64, error) {
	if last := w.offsets.Range().End; w.err == nil && w.group < last {
		w.fail(w.StartKeyGroup(last))
	}
	if w.err == nil {
		w.endGroup()
	}
	size, err := w.end()
	if err != nil {
		return metadata.KeyGroupOffsets{}, 0, err
	}
	return w.offsets, size, nil
}
