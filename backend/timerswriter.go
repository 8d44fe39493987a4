package backend

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// TimersWriter writes timers as raw keyed state, in which a RocksDB backend of Flink has those
// that are on the heap (InternalTimersSnapshotReaderWriters). It holds one key group in memory. After
// a failure every method gives that failure again. One goroutine may use it at a time.
type TimersWriter struct {
	fileWriter
	services []timerService
	offsets  metadata.KeyGroupOffsets
	next     int // index of the next key group
}

// timerService is the two queues of a timer service.
type timerService struct {
	name, head string // head is what stands in front of the queues
	queues     [2]int // numbers of the states of event and processing time, -1 if there is none
}

// nothing is a header of no bytes.
type nothing struct{}

func (nothing) Write(*serializer.Output) {}

// NewTimersWriter begins raw keyed state of queues of timers for key groups. A failure comes with the next call.
func NewTimersWriter(out io.Writer, queues []*State, groups keygroup.Range) *TimersWriter {
	w := &TimersWriter{offsets: metadata.KeyGroupOffsets{Start: int32(groups.Start), Offsets: make([]int64, groups.Len())}}
	w.begin(out, nothing{})
	for i, s := range queues {
		w.fail(w.add(i, s))
	}
	return w
}

// add puts a queue into its service.
func (w *TimersWriter) add(i int, s *State) error {
	domain := 0
	name, ok := strings.CutPrefix(s.Meta.Name, eventTimers)
	if !ok {
		domain = 1
		if name, ok = strings.CutPrefix(s.Meta.Name, processingTimers); !ok {
			return fmt.Errorf("state %q: not the name of a queue of timers: %w", s.Meta.Name, serializer.ErrUnsupported)
		}
	}
	head := serializer.NewOutput(nil)
	head.UTF(name)
	s.parts.Key.Write(head)
	s.parts.Namespace.Write(head)
	if err := head.Err(); err != nil {
		return fmt.Errorf("state %q: %w", s.Meta.Name, err)
	}
	for j := range w.services {
		if of := &w.services[j]; of.name == name {
			if of.head != string(head.Bytes()) {
				return fmt.Errorf("timer service %q: those of event time and of processing time have different namespaces, which Flink can't have in raw keyed state: %w",
					name, serializer.ErrUnsupported)
			}
			of.queues[domain] = i
			return nil
		}
	}
	service := timerService{name: name, head: string(head.Bytes()), queues: [2]int{-1, -1}}
	service.queues[domain] = i
	w.services = append(w.services, service)
	return nil
}

// KeyGroup writes the next key group, all of which must be written. timers has those of
// each queue, as [AppendTimer] gives them.
func (w *TimersWriter) KeyGroup(timers [][][]byte) error {
	if w.err == nil && w.next == len(w.offsets.Offsets) {
		return w.refuse("more key groups than %v", w.offsets.Range())
	}
	if w.err != nil {
		return w.err
	}
	w.offsets.Offsets[w.next] = w.offset()
	w.next++
	for _, v := range []uint32{timersMagic, timersVersion, uint32(len(w.services))} {
		w.buf = binary.BigEndian.AppendUint32(w.buf, v)
	}
	for _, s := range w.services {
		w.buf = append(w.buf, s.head...)
		for _, q := range s.queues {
			if q < 0 {
				w.buf = binary.BigEndian.AppendUint32(w.buf, 0)
				continue
			}
			w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(timers[q])))
			for _, t := range timers[q] {
				// The timestamp comes last here, and is not turned.
				w.buf = append(w.buf, t[8:]...)
				w.buf = binary.BigEndian.AppendUint64(w.buf, binary.BigEndian.Uint64(t)^(1<<63))
				w.room()
			}
		}
	}
	return w.err
}

// Close ends the state and gives where its key groups begin, and its size in bytes.
func (w *TimersWriter) Close() (metadata.KeyGroupOffsets, int64, error) {
	if w.err == nil && w.next < len(w.offsets.Offsets) {
		w.fail(fmt.Errorf("%d key groups of %v", w.next, w.offsets.Range()))
	}
	size, err := w.end()
	return w.offsets, size, err
}
