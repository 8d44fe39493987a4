package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// TestTimersCircle writes all timers that Flink has in raw keyed state again.
func TestTimersCircle(t *testing.T) {
	ctx := context.Background()
	head := []byte{0xf1, 0xcd, 0x85, 0x9f, 0, 0, 0, timersVersion}
	files, timers, older := 0, 0, 0
	eachFixture(t, allFixtures, func(f fixture) {
		for _, h := range f.keyed() {
			k, ok := h.handle.(*metadata.KeyGroups)
			if !h.o.Raw || !ok {
				continue
			}
			r, err := OpenKeyed(ctx, f.files, k, h.o)
			if err != nil {
				t.Errorf("%s: %v", h.label, err)
				continue
			}
			defer r.Close()
			want := whole(t, f, k.Delegate)
			if r.Format() != "raw timers" {
				continue
			}
			if !bytes.HasPrefix(want[k.Offsets[0]:], head) {
				older++
				continue
			}
			var queues []*State
			number := map[*State]int{}
			for i, s := range r.States() {
				q, err := s.Managed()
				if err != nil {
					t.Fatal(err)
				}
				queues, number[s] = append(queues, q), i
			}
			groups := make([][][][]byte, len(k.Offsets))
			for i := range groups {
				groups[i] = make([][][]byte, len(queues))
			}
			for e, err := range r.Entries(ctx, Filter{}) {
				if err != nil {
					t.Fatalf("%s: %v", h.label, err)
				}
				to := &groups[e.KeyGroup-int(k.Start)][number[e.State]]
				*to = append(*to, e.AppendStoredKey(nil))
				timers++
			}
			var b bytes.Buffer
			w := NewTimersWriter(&b, queues, k.Range())
			for _, g := range groups {
				if err := w.KeyGroup(g); err != nil {
					t.Fatal(err)
				}
			}
			offsets, size, err := w.Close()
			if err != nil || size != int64(b.Len()) {
				t.Errorf("%s: %d of %d bytes, %v", h.label, size, b.Len(), err)
			}
			sameKeyGroups(t, h.label, false, 0, want, k.KeyGroupOffsets, b.Bytes(), offsets)
			files++
		}
	})
	t.Logf("%d files, %d timers; %d files of before Flink 1.8", files, timers, older)
	if files == 0 || timers == 0 {
		t.Error("files are missing")
	}
}

func TestTimersWriterRefuses(t *testing.T) {
	queue := func(name string, namespace *serializer.Snapshot) *State {
		meta := NewTimersMeta(name, serializer.TimerSnapshot(serializer.ForLong().Snapshot(), namespace))
		return NewState(&meta, serializer.ForLong().Snapshot())
	}
	void, window := serializer.ForVoidNamespace().Snapshot(), serializer.ForTimeWindow().Snapshot()
	groups := keygroup.Range{Start: 3, End: 3}
	w := NewTimersWriter(io.Discard, []*State{queue("_timer_state/event_a", void), queue("_timer_state/processing_a", window)}, groups)
	if err := w.KeyGroup(make([][][]byte, 2)); !errors.Is(err, serializer.ErrUnsupported) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("two namespaces: %v", err)
	}
	w = NewTimersWriter(io.Discard, []*State{queue("timers", void)}, groups)
	if err := w.KeyGroup(make([][][]byte, 1)); !errors.Is(err, serializer.ErrUnsupported) {
		t.Errorf("another name: %v", err)
	}
	w = NewTimersWriter(io.Discard, nil, groups)
	if _, _, err := w.Close(); err == nil {
		t.Error("a key group is missing")
	}
	w = NewTimersWriter(io.Discard, nil, groups)
	if err := w.KeyGroup(nil); err != nil {
		t.Fatal(err)
	}
	if err := w.KeyGroup(nil); err == nil {
		t.Error("a key group too many")
	}
}
