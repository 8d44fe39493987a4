package backend

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Raw keyed state that InternalTimeServiceManager writes begins with these in each key group.
const (
	timersMagic   = 0xF1CD859F
	timersVersion = 2
	// maxServices bounds how many timer services are looked for where nothing says
	// that they are timers.
	maxServices = 1000
)

const (
	eventTimers      = "_timer_state/event_"
	processingTimers = "_timer_state/processing_"
)

// rawChunk is the most that an entry of raw bytes holds.
const rawChunk = 1 << 20

// rawFile is raw keyed state: what an operator wrote by itself for each key
// group, or the timers of a RocksDB backend that has timers on the heap.
type rawFile struct {
	groups
	o      Options
	timers bool
	bytes  *State

	mu     sync.Mutex
	states map[string]*State
}

func openRaw(ctx context.Context, files Files, h *metadata.KeyGroups, o Options) (*KeyedReader, error) {
	obj, err := files.open(ctx, h.Delegate)
	if err != nil {
		return nil, err
	}
	g, err := newGroups(obj, h.KeyGroupOffsets, o.MaxParallelism)
	if err != nil {
		obj.Close()
		return nil, err
	}
	f := &rawFile{groups: g, o: o, states: map[string]*State{}}
	r := &KeyedReader{layout: f, format: "raw", keyGroups: h.Range()}
	if err := f.look(ctx, r); err != nil {
		obj.Close()
		return nil, fmt.Errorf("%s: %w", obj.name, err)
	}
	if !f.timers {
		f.bytes = unknownState("raw", nil)
		f.bytes.Raw = true
		r.states = []*State{f.bytes}
	}
	return r, nil
}

// look finds out by the first key group with bytes what is in the stream. All
// key groups have the same services.
func (f *rawFile) look(ctx context.Context, r *KeyedReader) error {
	for i, off := range f.offsets {
		if off < 0 || off >= f.ends[i] {
			continue
		}
		out := &sink{yield: func(*Entry, error) bool { return false }}
		t := &timerReader{file: f, out: out, group: f.start + i}
		t.begin(newSource(ctx, f.obj, &f.o), off, f.ends[i])
		n := t.header()
		if t.src.err != nil {
			return t.src.err
		}
		if t.in.Err() != nil || t.version == 0 && n == 0 && f.ends[i]-off != 4 {
			return nil
		}
		r.format = "raw timers"
		f.timers = true
		for ; n > 0 && t.in.Err() == nil; n-- {
			event, processing := t.service()
			if t.in.Err() != nil {
				if t.version == 0 && len(r.states) == 0 && t.src.err == nil {
					// No timers, but bytes that begin as if there were some.
					r.format, f.timers = "raw", false
				}
				break
			}
			r.states = append(r.states, event, processing)
			t.timers(event, false)
			t.timers(processing, false)
		}
		if t.src.err != nil {
			return t.src.err
		}
		return nil
	}
	return nil
}

// group gives where a key group lies; false if nothing was written for it.
func (f *rawFile) group(group int) (start, end int64, written bool, err error) {
	i := group - f.start
	start, end = f.offsets[i], f.ends[i]
	switch {
	case start < -1 || start > f.obj.Size():
		return 0, 0, true, fmt.Errorf("%s: %w: begins at offset %d of %d", f.obj.name, serializer.ErrCorrupt, start, f.obj.Size())
	case start == -1:
		return 0, 0, false, nil
	}
	if f.again[i] {
		end = start // nothing was written before the next one began
	}
	return start, end, true, nil
}

func (f *rawFile) close() error { return f.obj.Close() }

func (f *rawFile) entries(ctx context.Context, out *sink) {
	src := newSource(ctx, f.obj, &f.o)
	t := &timerReader{file: f, out: out, in: serializer.NewStreamInput(nil, 0)}
	for _, run := range out.runs {
		src.limit = f.limit(run)
		for g := run.Start; g <= run.End && !out.done; g++ {
			start, end, written, err := f.group(g)
			switch {
			case err != nil:
				out.lost(&LostError{KeyGroup: g, Entries: -1, Err: err})
			case !written:
			case f.timers:
				t.group = g
				t.begin(src, start, end)
				t.read()
			case out.filter.wants(f.bytes):
				f.readBytes(src, out, g, start, end)
			}
		}
	}
}

// readBytes hands out the bytes of a key group as they are.
func (f *rawFile) readBytes(src *source, out *sink, group int, start, end int64) {
	r := &span{src, start, end}
	buf := make([]byte, min(rawChunk, end-start))
	for start < end && !out.done {
		n, err := io.ReadFull(r, buf[:min(rawChunk, end-start)])
		start += int64(n)
		switch {
		case src.err != nil:
			out.fail(fmt.Errorf("%s: %w", f.obj.name, src.err))
		case err != nil:
			out.lost(&LostError{State: f.bytes.Meta.Name, KeyGroup: group, Entries: -1, Err: fmt.Errorf("%s: offset %d: %w", f.obj.name, start, serializer.ErrTruncated)})
			return
		default:
			out.entry = Entry{State: f.bytes, KeyGroup: group, Value: buf[:n], in: out.entry.in}
			out.emit()
		}
	}
}

// timerReader reads the timers of key groups one after the other.
type timerReader struct {
	file  *rawFile
	out   *sink
	src   *source
	in    *serializer.Input
	span  span
	group int
	// version of the key group, 0 for that of Flink 1.2 to 1.4.0, which has none.
	version int32
}

func (t *timerReader) begin(src *source, start, end int64) {
	t.src = src
	t.span = span{src, start, end}
	if t.in == nil {
		t.in = serializer.NewStreamInput(nil, 0)
	}
	t.in.ResetStream(&t.span, start)
}

// header reads what precedes the services, and gives their number.
func (t *timerReader) header() int {
	off := t.in.Offset()
	m := t.in.I32()
	if uint32(m) != timersMagic {
		t.version = 0
		if t.in.Err() == nil && (m < 0 || m > maxServices) {
			t.in.FailAt(off, "magic number", fmt.Errorf("%w: %#x", serializer.ErrCorrupt, uint32(m)))
		}
		return int(m)
	}
	if t.version = t.in.I32(); t.in.Err() == nil && (t.version < 1 || t.version > timersVersion) {
		t.in.Fail("version", fmt.Errorf("timers of version %d: %w", t.version, serializer.ErrUnsupported))
	}
	return t.in.Length()
}

// service reads the start of a service.
func (t *timerReader) service() (event, processing *State) {
	in := t.in
	name := readUTF(in, "service")
	if key, namespace := readTimerSerializers(in, t.version); key != nil {
		return t.file.queue(eventTimers+name, key, namespace), t.file.queue(processingTimers+name, key, namespace)
	}
	within(in, fmt.Sprintf("service %q", name))
	return nil, nil
}

// queue gives the state of timers that has a name.
func (f *rawFile) queue(name string, key, namespace *serializer.Snapshot) *State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[name]
	if s == nil {
		s = &State{
			Meta: &StateMeta{Name: name, Kind: KindPriorityQueue, Serializers: []NamedSnapshot{{SerializerKey, key}, {SerializerNamespace, namespace}}},
			Type: TypeTimers, Key: serializer.Of(key), Namespace: serializer.Of(namespace), Raw: true, known: true,
			parts: Parts{Key: key, Namespace: namespace},
		}
		f.states[name] = s
	}
	return s
}

// read reads the key group.
func (t *timerReader) read() {
	in := t.in
	for n := t.header(); n > 0 && in.Err() == nil && !t.out.done; n-- {
		event, processing := t.service()
		if in.Err() != nil {
			break
		}
		t.timers(event, t.out.filter.wants(event))
		t.timers(processing, t.out.filter.wants(processing))
	}
	if t.out.done {
		return
	}
	if t.version == 0 && in.Err() == nil && !in.AtEnd() {
		skipCallbacks(in)
	}
	if in.Err() == nil && !in.AtEnd() {
		in.Failf("end", "bytes follow the last timer")
	}
	if err := in.Err(); t.src.err != nil {
		t.out.fail(fmt.Errorf("%s: %w", t.file.obj.name, t.src.err))
	} else if err != nil {
		t.out.lost(&LostError{KeyGroup: t.group, Entries: -1, Err: fmt.Errorf("%s: %w", t.file.obj.name, err)})
	}
}

// timers reads a queue of timers.
func (t *timerReader) timers(state *State, wanted bool) {
	in := t.in
	for n := in.Length(); n > 0 && in.Err() == nil && !t.out.done; n-- {
		in.Mark()
		start := in.Offset()
		skipValue(in, state.Key, "key")
		middle := in.Offset()
		skipValue(in, state.Namespace, "namespace")
		in.Skip(8)
		b := in.Marked()
		if in.Err() != nil {
			within(in, state.Meta.Name)
			return
		}
		if !wanted {
			continue
		}
		k := int(middle - start)
		m := len(b) - 8
		t.out.entry = Entry{
			State: state, KeyGroup: t.group, Key: b[:k:k], Namespace: b[k:m:m],
			Timestamp: int64(binary.BigEndian.Uint64(b[m:])), in: t.out.entry.in,
		}
		t.out.emit()
	}
}

// skipValue passes over one value of a stream.
func skipValue(in *serializer.Input, s serializer.Serializer, field string) {
	s.Skip(in)
	if !in.Lost() {
		return
	}
	if in.Err() == nil {
		in.Fail(field, fmt.Errorf("a value of unknown length: %w", serializer.ErrUnsupported))
	}
	within(in, field)
}
