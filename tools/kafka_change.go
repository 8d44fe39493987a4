package tools

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/drey-state/drey/backend"
)

// KafkaChange says from where a Kafka source shall go on in a partition: from the offset Next, from a Special place,
// or, if it has neither, Shift records further than now. What it says can be refused with an error that unwraps to
// [ErrRefused] and has the reason.
type KafkaChange struct {
	Topic     string
	Partition int32
	// Next is the next offset to read, as [KafkaOffset.Next] has it, whichever the stored one is.
	Next *int64
	// Special is "earliest", "latest" or "committed". KafkaSource has "latest" in state no more, as records would
	// be lost that come before it reads for the first time (FLINK-28303), and does not restore it.
	Special string
	// Shift is how many offsets further, or back if it is negative. With 0, nothing changes.
	Shift int64
}

// element gives an element of operator state with the other offset and every other byte as it is. found says
// that it has the position of a Kafka source in this partition; else value is nil. The entry is not changed.
func (c *KafkaChange) element(e *backend.OperatorEntry) (value []byte, found bool, err error) {
	was, ok := kafkaElement(e)
	if !ok || !c.concerns(was) {
		return nil, false, nil
	}
	want := *was
	if want.offset, err = c.moved(was); err != nil {
		return nil, true, err
	}
	value = bytes.Clone(e.Value)
	if want.offset == was.offset {
		return value, true, nil
	}
	was.put(value, want.offset)
	if is, ok := kafkaElement(&backend.OperatorEntry{State: e.State, Value: value}); !ok || *is != want {
		return nil, true, was.refused("where its offset stands in the bytes is not known")
	}
	return value, true, nil
}

// coordinator is element for the state of a source's coordinator. What an enumerator remembers of a partition that
// a reader has is where that began, and not read again: it is set, too, but not shifted. Before version 3 the
// enumerator has no offsets: nothing changes, but of a partition that it has not given to a reader it can't be said
// where that begins, which is refused.
func (c *KafkaChange) coordinator(data []byte) (value []byte, found bool, err error) {
	known, ok := kafkaEnumerator(data)
	if !ok {
		return nil, false, nil
	}
	value = bytes.Clone(data)
	for i := range known {
		a := &known[i]
		if !c.concerns(&a.kafkaSplit) {
			continue
		}
		found = true
		shift := c.Next == nil && c.Special == ""
		switch {
		case a.assigned && (shift || !a.hasOffset), shift && c.Shift == 0:
			continue
		case !a.hasOffset:
			return nil, true, a.refused("no reader has it yet, and this version of the enumerator's state has no offsets: the job's starting offsets decide where it begins")
		}
		offset, err := c.moved(&a.kafkaSplit)
		if err != nil {
			return nil, true, err
		}
		a.put(value, offset)
		a.offset = offset
	}
	if !found {
		return nil, false, nil
	}
	if is, ok := kafkaEnumerator(value); !ok || !slices.Equal(is, known) {
		return nil, true, fmt.Errorf("%s-%d: the enumerator's state is not understood well enough: %w", c.Topic, c.Partition, ErrRefused)
	}
	return value, true, nil
}

func (c *KafkaChange) concerns(k *kafkaSplit) bool {
	return k.topic == c.Topic && k.partition == c.Partition
}

// moved gives the offset that is to be stored instead of that of k.
func (c *KafkaChange) moved(k *kafkaSplit) (int64, error) {
	special, now := k.position()
	var next int64
	switch {
	case c.Special != "" && c.Next != nil, c.Shift != 0 && (c.Special != "" || c.Next != nil):
		return 0, k.refused("more than one of an offset, a place and a shift")
	case c.Special != "":
		return c.place(k, special)
	case c.Next != nil:
		next = *c.Next
	case c.Shift == 0:
		return k.offset, nil
	case special != "":
		return 0, k.refused("it begins at a place by name (%s), not at an offset that can be shifted: say which one", special)
	case c.Shift > 0 && now > math.MaxInt64-c.Shift:
		return 0, k.refused("the next offset is %d: it would become more than there can be", now)
	default:
		next = now + c.Shift
	}
	if special == "" && next == now {
		return k.offset, nil
	}
	if next < 0 {
		return 0, k.refused("the next offset would be %d; the first one is 0", next)
	}
	if name, stop, ok := k.stop(); ok && name == "" && next > stop {
		return 0, k.refused("the source ends before offset %d, and would begin behind that, at %d", stop, next)
	}
	if k.source == kafkaConsumer {
		return next - 1, nil // the last one that was read
	}
	return next, nil
}

// place gives the offset that stands for the special place; now is where k is, if that is one.
func (c *KafkaChange) place(k *kafkaSplit, now string) (int64, error) {
	names := kafkaSpecial
	if k.source == kafkaConsumer {
		names = kafkaSentinels
	}
	switch {
	case c.Special == now:
		return k.offset, nil
	case c.Special == "latest" && k.source == kafkaSource:
		return 0, k.refused("KafkaSource does not restore \"latest\" any more: say the offset")
	}
	for offset, name := range names {
		if name == c.Special && name != kafkaNotSet {
			return offset, nil
		}
	}
	return 0, k.refused("there is no place %q: say an offset, earliest, latest or committed", c.Special)
}

// put writes an offset to where that of k is in its bytes, if that is known.
func (k *kafkaSplit) put(b []byte, offset int64) {
	if k.at >= 0 {
		binary.BigEndian.PutUint64(b[k.at:], uint64(offset))
	}
}

// refused is the error of a change that can't be made.
func (k *kafkaSplit) refused(format string, args ...any) error {
	return fmt.Errorf("%s, %s-%d: %s: %w", k.source, k.topic, k.partition, fmt.Sprintf(format, args...), ErrRefused)
}
