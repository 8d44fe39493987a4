package backend

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

var errFull = errors.New("no space left")

// fullWriter takes left bytes and then fails, with err or by taking fewer than it was given.
type fullWriter struct {
	left int
	err  error
}

func (w *fullWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

// sampleHeader has a state of each kind that the layouts tell apart.
func sampleHeader(zip bool) *KeyedHeader {
	str, void := simple(stringClass), simple(voidNamespace)
	return &KeyedHeader{Version: 6, Compressed: zip, Key: simple(longClass), States: []StateMeta{
		keyValue("value", TypeValue, str, void),
		keyValue("list", TypeList, nested(listClass, 1, str), void),
		keyValue("map", TypeMap, nested(mapClass, 1, str, str), void),
		timerQueue("timers", simple(longClass), void),
	}}
}

// sampleEntries gives entries of a state of sampleHeader, with long values.
func sampleEntries(h *KeyedHeader, state, group int) (all []*Entry) {
	s := NewState(&h.States[state], h.Key)
	word := string(bytes.Repeat([]byte("drey"), 20))
	for i := range 300 {
		e := &Entry{State: s, KeyGroup: group, Key: long(int64(i)), Namespace: []byte{0}}
		switch s.Type {
		case TypeTimers:
			e.Timestamp = int64(i)
		case TypeList:
			e.Value = joinBytes(text(word), []byte(","), text(word))
		case TypeMap:
			e.UserKey, e.Value = text("k"), text(word)
		default:
			e.Value = text(word)
		}
		all = append(all, e)
	}
	return all
}

// sampleFiles writes a file in each layout. They go on after failures, as a careless caller would.
var sampleFiles = map[string]func(out io.Writer, zip bool) error{
	"canonical": func(out io.Writer, zip bool) error {
		h := sampleHeader(zip)
		w := NewCanonicalWriter(out, h, keygroup.Range{Start: 3, End: 5}, 128)
		var errs []error
		for group := 3; group <= 5; group++ {
			errs = append(errs, w.StartKeyGroup(group))
			for state := range h.States {
				for _, e := range sampleEntries(h, state, group) {
					errs = append(errs, w.Entry(state, e.AppendStoredKey(nil), e.AppendStoredValue(nil)))
				}
			}
		}
		_, _, err := w.Close()
		return stays(err, errs)
	},
	"heap": func(out io.Writer, zip bool) error {
		h := sampleHeader(zip)
		w := NewHeapWriter(out, h, keygroup.Range{Start: 3, End: 5})
		var errs []error
		for group := 3; group <= 5; group++ {
			errs = append(errs, w.StartKeyGroup(group))
			for state := range h.States {
				errs = append(errs, w.StartState(state, -1))
				for _, e := range sampleEntries(h, state, group) {
					errs = append(errs, w.Add(e))
				}
			}
		}
		_, _, err := w.Close()
		return stays(err, errs)
	},
	"operator": func(out io.Writer, zip bool) error {
		h := &OperatorHeader{Version: 6, Compressed: zip, Operator: []StateMeta{{Name: "list"}}, Broadcast: []StateMeta{{Name: "map", Kind: KindBroadcast}}}
		w := NewOperatorWriter(out, h)
		var errs []error
		for _, e := range sampleEntries(sampleHeader(false), 0, 0) {
			errs = append(errs, w.Element(0, e.Value))
		}
		errs = append(errs, w.StartBroadcast(0, 300))
		for _, e := range sampleEntries(sampleHeader(false), 0, 0) {
			errs = append(errs, w.BroadcastEntry(e.Key, e.Value))
		}
		_, _, err := w.Close()
		return stays(err, errs)
	},
}

// stays gives err, the one of Close, if every failure before was the same and none was followed by success.
func stays(err error, errs []error) error {
	failed := false
	for _, e := range errs {
		if e != nil && !errors.Is(err, e) || e == nil && failed {
			return errors.New("a failure did not stay")
		}
		failed = failed || e != nil
	}
	return err
}

// TestWriterFaults: the failure of what is written to comes out, wherever it happens.
func TestWriterFaults(t *testing.T) {
	for name, write := range sampleFiles {
		for _, zip := range []bool{false, true} {
			var whole bytes.Buffer
			if err := write(&whole, zip); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			size := whole.Len()
			for n := 0; n < size; n += 1 + size/15 {
				if err := write(&fullWriter{n, errFull}, zip); !errors.Is(err, errFull) {
					t.Errorf("%s, compressed %t: after %d of %d bytes: %v", name, zip, n, size, err)
				}
				if err := write(&fullWriter{n, nil}, zip); !errors.Is(err, io.ErrShortWrite) {
					t.Errorf("%s, compressed %t: short after %d of %d bytes: %v", name, zip, n, size, err)
				}
			}
			if err := write(&fullWriter{size - 1, errFull}, zip); !errors.Is(err, errFull) {
				t.Errorf("%s, compressed %t: without the last byte: %v", name, zip, err)
			}
			if err := write(&fullWriter{size, errFull}, zip); err != nil {
				t.Errorf("%s, compressed %t: with room for all: %v", name, zip, err)
			}
		}
	}
}

// TestWriterRefusals: what cannot be written in a layout, one case each.
func TestWriterRefusals(t *testing.T) {
	canonical := func(use func(w *CanonicalWriter)) error {
		w := NewCanonicalWriter(io.Discard, sampleHeader(true), keygroup.Range{Start: 3, End: 5}, 128)
		w.limit = 10
		use(w)
		_, _, err := w.Close()
		return err
	}
	heap := func(use func(w *HeapWriter)) error {
		w := NewHeapWriter(io.Discard, sampleHeader(true), keygroup.Range{Start: 3, End: 5})
		w.limit = 2
		use(w)
		_, _, err := w.Close()
		return err
	}
	operator := func(use func(w *OperatorWriter)) error {
		w := NewOperatorWriter(io.Discard, &OperatorHeader{Version: 6, Operator: []StateMeta{{Name: "list"}}, Broadcast: []StateMeta{{Name: "map", Kind: KindBroadcast}}})
		w.limit = 2
		use(w)
		_, _, err := w.Close()
		return err
	}
	entry := func(state int) *Entry { return sampleEntries(sampleHeader(false), state, 3)[0] }
	add := func(state int, e *Entry) error {
		return heap(func(w *HeapWriter) {
			_, _, _ = w.StartKeyGroup(3), w.StartState(state, -1), w.Add(e)
		})
	}
	list := func(value ...byte) *Entry {
		e := entry(1)
		e.Value = value
		return e
	}
	unsplit := entry(0)
	unsplit.Unsplit = true
	unknown := entry(1)
	unknown.State = NewState(&StateMeta{Name: "list", Options: []Option{{OptionStateType, "LIST"}}}, simple(longClass))
	create := func(h *KeyedHeader, r keygroup.Range, maxParallelism int) error {
		_, _, err := NewCanonicalWriter(io.Discard, h, r, maxParallelism).Close()
		return err
	}
	one := keygroup.Range{Start: 1, End: 1}
	for _, c := range []struct {
		name string
		err  error
		want string
		is   error
	}{
		{"old header", create(&KeyedHeader{Version: 5, Key: simple(longClass)}, one, 128), "a header of version 5", serializer.ErrUnsupported},
		{"old heap header", func() error {
			_, _, err := NewHeapWriter(io.Discard, &KeyedHeader{Version: 4, legacy: []byte{1}}, one).Close()
			return err
		}(), "a header of version 4", serializer.ErrUnsupported},
		{"old operator header", func() error {
			_, _, err := NewOperatorWriter(io.Discard, &OperatorHeader{Version: 4, legacy: []byte{1}}).Close()
			return err
		}(), "a header of version 4", serializer.ErrUnsupported},
		{"compressed operator header of version 5", func() error {
			_, _, err := NewOperatorWriter(io.Discard, &OperatorHeader{Version: 5, Compressed: true}).Close()
			return err
		}(), "a header of version 5", serializer.ErrUnsupported},
		{"name too long", create(&KeyedHeader{Version: 6, Key: simple(longClass), States: []StateMeta{{Name: strings.Repeat("x", 1<<16)}}}, one, 128), "header: ", nil},
		{"range", create(sampleHeader(false), keygroup.Range{Start: 100, End: 128}, 128), "100-128 of 128", serializer.ErrUnsupported},
		{"max parallelism", create(sampleHeader(false), one, 1<<15+1), "of 32769", serializer.ErrUnsupported},

		{"no key group", canonical(func(w *CanonicalWriter) { _ = w.Entry(0, nil, nil) }), "before the first key group", nil},
		{"key group outside", canonical(func(w *CanonicalWriter) { _ = w.StartKeyGroup(6) }), "key group 6", nil},
		{"key group again", canonical(func(w *CanonicalWriter) { _, _ = w.StartKeyGroup(4), w.StartKeyGroup(4) }), "key group 4 after 4", nil},
		{"key group below", canonical(func(w *CanonicalWriter) { _, _ = w.StartKeyGroup(4), w.StartKeyGroup(3) }), "key group 3 after 4", nil},
		{"state unknown", canonical(func(w *CanonicalWriter) { _, _ = w.StartKeyGroup(4), w.Entry(4, nil, nil) }), "state 4 of 4", nil},
		{"state negative", canonical(func(w *CanonicalWriter) { _, _ = w.StartKeyGroup(4), w.Entry(-2, nil, nil) }), "state -2 of 4", nil},
		{"state again", canonical(func(w *CanonicalWriter) {
			_, _, _, _ = w.StartKeyGroup(4), w.Entry(1, nil, nil), w.Entry(0, nil, nil), w.Entry(1, nil, nil)
		}), `key group 4: entries of state "list", then of others`, nil},
		{"key too long", canonical(func(w *CanonicalWriter) { _, _ = w.StartKeyGroup(4), w.Entry(0, make([]byte, 10), nil) }), `state "value", key group 4: a key of 11`, ErrTooLarge},
		{"value too long", canonical(func(w *CanonicalWriter) { _, _ = w.StartKeyGroup(4), w.Entry(0, nil, make([]byte, 11)) }), `a value of 11 bytes, the limit of both is 10`, ErrTooLarge},
		{"closed", canonical(func(w *CanonicalWriter) { _, _, _ = w.Close() }), "closed", nil},
		{"closed, entry", canonical(func(w *CanonicalWriter) { _, _, _ = w.Close(); _ = w.StartKeyGroup(3) }), "closed", nil},

		{"heap: no key group", heap(func(w *HeapWriter) { _ = w.StartState(0, 0) }), "before the first key group", nil},
		{"heap: no state", heap(func(w *HeapWriter) { _, _ = w.StartKeyGroup(3), w.Entry(nil, nil, nil) }), "before the first state", nil},
		{"heap: key group outside", heap(func(w *HeapWriter) { _ = w.StartKeyGroup(6) }), "key group 6", nil},
		{"heap: key group below", heap(func(w *HeapWriter) { _ = w.StartKeyGroup(2) }), "key group 2", nil},
		{"heap: state unknown", heap(func(w *HeapWriter) { _, _ = w.StartKeyGroup(3), w.StartState(4, 0) }), "state 4 of 4", nil},
		{"heap: state again", heap(func(w *HeapWriter) {
			_, _, _ = w.StartKeyGroup(3), w.StartState(0, 0), w.StartState(0, 0)
		}), `state "value" a second time`, nil},
		{"heap: entries announced", heap(func(w *HeapWriter) { _, _ = w.StartKeyGroup(3), w.StartState(0, 3) }), "3 entries, but the format has at most 2", ErrTooLarge},
		{"heap: too few", heap(func(w *HeapWriter) { _, _ = w.StartKeyGroup(3), w.StartState(0, 1) }), "0 entries instead of 1", nil},
		{"heap: too many", heap(func(w *HeapWriter) {
			_, _, _, _ = w.StartKeyGroup(3), w.StartState(0, 1), w.Entry(nil, nil, nil), w.Entry(nil, nil, nil)
		}), "more than 1 entries", nil},
		{"heap: more than can be counted", heap(func(w *HeapWriter) {
			_, _, _, _, _ = w.StartKeyGroup(3), w.StartState(0, -1), w.Entry(nil, nil, nil), w.Entry(nil, nil, nil), w.Entry(nil, nil, nil)
		}), "more than 2 entries", ErrTooLarge},
		{"heap: timer", heap(func(w *HeapWriter) { _, _, _ = w.StartKeyGroup(3), w.StartState(0, 1), w.Timer(0, nil, nil) }), "timers and other state", nil},
		{"heap: no timer", heap(func(w *HeapWriter) {
			_, _, _ = w.StartKeyGroup(3), w.StartState(3, 1), w.Entry(nil, nil, nil)
		}), "timers and other state", nil},
		{"heap: add to the wrong state", add(1, entry(0)), "not begun", nil},
		{"heap: add, counted", heap(func(w *HeapWriter) { _, _, _ = w.StartKeyGroup(3), w.StartState(0, 1), w.Add(entry(0)) }), "not begun", nil},
		{"heap: add, unsplit", add(0, unsplit), "cannot be told apart", serializer.ErrUnsupported},
		{"heap: add, unknown element", add(1, unknown), "a value of unknown length", nil},
		{"heap: add, list without comma", add(1, list(2, 'a', 2, 'b')), "between elements", serializer.ErrCorrupt},
		{"heap: add, list with a comma at the end", add(1, list(2, 'a', ',')), "element", serializer.ErrTruncated},
		{"heap: add, map too long", heap(func(w *HeapWriter) {
			_, _, _, _, _ = w.StartKeyGroup(3), w.StartState(2, -1), w.Add(entry(2)), w.Add(entry(2)), w.Add(entry(2))
		}), "a map of more than 2 entries", ErrTooLarge},

		{"operator: list unknown", operator(func(w *OperatorWriter) { _ = w.Element(1, nil) }), "list state 1 of 1", nil},
		{"operator: map unknown", operator(func(w *OperatorWriter) { _ = w.StartBroadcast(-1, 0) }), "broadcast state -1 of 1", nil},
		{"operator: map again", operator(func(w *OperatorWriter) { _, _ = w.StartBroadcast(0, 0), w.StartBroadcast(0, 0) }), `"map" a second time`, nil},
		{"operator: map too long", operator(func(w *OperatorWriter) { _ = w.StartBroadcast(0, 3) }), "at most 2", ErrTooLarge},
		{"operator: map too short", operator(func(w *OperatorWriter) { _ = w.StartBroadcast(0, 2) }), "2 entries of a broadcast state are missing", nil},
		{"operator: list within a map", operator(func(w *OperatorWriter) { _, _ = w.StartBroadcast(0, 2), w.Element(0, nil) }), "2 entries of a broadcast state are missing", nil},
		{"operator: more of a map", operator(func(w *OperatorWriter) { _ = w.BroadcastEntry(nil, nil) }), "more entries", nil},
		{"operator: closed", operator(func(w *OperatorWriter) { _, _, _ = w.Close() }), "closed", nil},
	} {
		switch {
		case c.err == nil:
			t.Errorf("%s: no error", c.name)
		case !strings.Contains(c.err.Error(), c.want):
			t.Errorf("%s: %q instead of %q", c.name, c.err, c.want)
		case c.is != nil && !errors.Is(c.err, c.is):
			t.Errorf("%s: %v is not %v", c.name, c.err, c.is)
		}
	}
}

// TestWriterSizes: what is exactly as long as the format allows is written.
func TestWriterSizes(t *testing.T) {
	w := NewCanonicalWriter(io.Discard, sampleHeader(false), keygroup.Range{Start: 3, End: 3}, 129)
	w.limit = 10
	if err := errors.Join(w.StartKeyGroup(3), w.Entry(0, make([]byte, 8), make([]byte, 10))); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Close(); err != nil {
		t.Error(err)
	}
	if limit := NewHeapWriter(io.Discard, sampleHeader(false), keygroup.Range{}).limit; limit != 1<<31-1 {
		t.Errorf("a limit of %d", limit)
	}
}
