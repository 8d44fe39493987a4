package tools

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// kafkaState reads the elements of operator state and the coordinators' state that Kafka sources have.
func kafkaState(t *testing.T, fsys storage.FS, s *Snapshot) (elements []*backend.OperatorEntry, coordinators [][]byte) {
	t.Helper()
	r, err := newStateReader(fsys, s, Selection{States: []string{stateKafkaConsumer, stateSourceReader, stateDefault}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.parts {
		if p.list == nil {
			continue
		}
		err := r.read(t.Context(), p, visitor{
			element: func(e *backend.OperatorEntry) error {
				elements = append(elements, &backend.OperatorEntry{State: e.State, Value: bytes.Clone(e.Value)})
				return nil
			},
			problem: func(p *StateProblem) error { return p },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.Operators {
		if c := s.Operators[i].Coordinator; c != nil {
			data, err := r.files.ReadAll(t.Context(), c, mostCoordinator)
			if err != nil {
				t.Fatal(err)
			}
			coordinators = append(coordinators, data)
		}
	}
	return elements, coordinators
}

// kafkaElements are elements of every form: of KafkaSource, of FlinkKafkaConsumer by Kryo and as Java objects, all
// of real Flink, and a tuple.
func kafkaElements(t *testing.T) (all []*backend.OperatorEntry) {
	t.Helper()
	for _, dir := range kafkaSavepoints(t) {
		fsys, s := openLocal(t, filepath.ToSlash(dir))
		elements, _ := kafkaState(t, fsys, s)
		all = append(all, elements...)
	}
	all = append(all, consumerElements(t)...)
	for _, release := range []string{"1.2", "1.3"} {
		fsys, s := defaultState(t, release)
		elements, _ := kafkaState(t, fsys, s)
		all = append(all, elements...)
	}
	return append(all, kafkaTuple())
}

// kafkaTuple is an element by TupleSerializer, with the partition as a POJO.
func kafkaTuple() *backend.OperatorEntry {
	type partition struct {
		topic  string
		number int32
	}
	c := serializer.ForTuple2(serializer.ForPojo("KafkaTopicPartition",
		serializer.NewMember("topic", serializer.ForString(), func(p *partition) *string { return &p.topic }),
		serializer.NewMember("partition", serializer.ForInt(), func(p *partition) *int32 { return &p.number }),
	), serializer.ForLong())
	var out serializer.Output
	c.Write(&out, serializer.Tuple2[partition, int64]{F0: partition{"t", 3}, F1: 41})
	e := consumerElement(out.Bytes())
	e.State.Value = serializer.Of(c.Snapshot())
	return e
}

// of makes a change of the partition of k.
func (c KafkaChange) of(k *kafkaSplit) *KafkaChange {
	c.Topic, c.Partition = k.topic, k.partition
	return &c
}

// bytesDiffer gives how many bytes differ, and where the first and the last of them are.
func bytesDiffer(a, b []byte) (n, first, last int) {
	for i := range a {
		if a[i] != b[i] {
			if n == 0 {
				first = i
			}
			n, last = n+1, i
		}
	}
	return n, first, last
}

// TestKafkaChangeElement sets and shifts the offset of each element: the decoder shows the new one, and the other bytes are as they were.
func TestKafkaChangeElement(t *testing.T) {
	forms := map[string]int{}
	for _, e := range kafkaElements(t) {
		was, ok := kafkaElement(e)
		if !ok {
			t.Fatalf("%s: %x is not understood", e.State.Name, e.Value)
		}
		forms[was.source+" in "+e.State.Name]++
		before := bytes.Clone(e.Value)
		_, next := was.position()
		change := func(c KafkaChange) (*kafkaSplit, []byte) {
			t.Helper()
			value, found, err := c.of(was).element(e)
			if err != nil || !found || len(value) != len(before) || !bytes.Equal(e.Value, before) {
				t.Fatalf("%+v of %x: %x, %v, %v", c, before, value, found, err)
			}
			is, ok := kafkaElement(&backend.OperatorEntry{State: e.State, Value: value})
			if !ok || is.topic != was.topic || is.partition != was.partition || is.stopping != was.stopping || is.source != was.source {
				t.Fatalf("%+v of %x: %+v", c, before, is)
			}
			if n, first, last := bytesDiffer(before, value); n > 0 && (first < was.at || last >= was.at+8) {
				t.Fatalf("%+v of %x: %x differs", c, before, value)
			}
			return is, value
		}
		for _, n := range []int64{0, 1, next, next + 1, 1 << 40, math.MaxInt64} {
			is, value := change(KafkaChange{Next: new(n)})
			var shown KafkaOffset
			if shown.setOffsets(is); shown.Next == nil || *shown.Next != n || shown.Special != "" {
				t.Errorf("%x: set to %d, shown as %+v", before, n, shown)
			}
			if n == next != bytes.Equal(value, before) {
				t.Errorf("%x at %d: set to %d: %x", before, next, n, value)
			}
		}
		if _, value := change(KafkaChange{}); !bytes.Equal(value, before) {
			t.Errorf("%x: shifted by 0: %x", before, value)
		}
		for _, n := range []int64{1, -next, 1 << 33} {
			if is, _ := change(KafkaChange{Shift: n}); is.offset != was.offset+n {
				t.Errorf("%x at %d: shifted by %d to %d", before, was.offset, n, is.offset)
			}
		}
		places := []string{"earliest", "committed"}
		if was.source == kafkaConsumer {
			places = append(places, "latest")
		}
		for _, place := range places {
			is, value := change(KafkaChange{Special: place})
			if special, _ := is.position(); special != place {
				t.Errorf("%x: set to %s: %+v", before, place, is)
			}
			special := &backend.OperatorEntry{State: e.State, Value: value}
			for _, same := range []KafkaChange{{Special: place}, {}} {
				if again, _, err := same.of(was).element(special); err != nil || !bytes.Equal(again, value) {
					t.Errorf("%+v of %s: %x, %v", same, place, again, err)
				}
			}
			if _, _, err := (KafkaChange{Shift: 1}).of(was).element(special); !errors.Is(err, ErrRefused) {
				t.Errorf("%s shifted: %v", place, err)
			}
		}
		for _, c := range []KafkaChange{
			{Next: new(int64(-1))}, {Shift: -next - 1}, {Shift: math.MinInt64}, {Shift: math.MaxInt64}, {Special: "newest"}, {Special: kafkaNotSet},
			{Next: new(int64(1)), Special: "earliest"}, {Next: new(int64(1)), Shift: 1}, {Special: "earliest", Shift: 1},
		} {
			if value, found, err := c.of(was).element(e); !errors.Is(err, ErrRefused) || !found || value != nil {
				t.Errorf("%+v of %x: %x, %v, %v", c, before, value, found, err)
			}
		}
		for _, other := range []KafkaChange{{Topic: was.topic, Partition: was.partition + 1}, {Topic: was.topic + "x", Partition: was.partition}} {
			if value, found, err := other.element(e); value != nil || found || err != nil {
				t.Errorf("%+v of %x: %x, %v, %v", other, before, value, found, err)
			}
		}
	}
	t.Log(forms)
	if forms["KafkaSource in "+stateSourceReader] != 30 || forms["FlinkKafkaConsumer in "+stateKafkaConsumer] < 17 || forms["FlinkKafkaConsumer in "+stateDefault] != 4 {
		t.Errorf("elements: %v", forms)
	}
}

// kafkaReader is an element of KafkaSource's reader.
func kafkaReader(offset, stopping int64) *backend.OperatorEntry {
	split := kafkaSplitBytes("t", 3, offset, stopping)
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(split)))
	b = binary.BigEndian.AppendUint32(b, 0)
	return &backend.OperatorEntry{State: &backend.OperatorState{Name: stateSourceReader}, Value: append(binary.BigEndian.AppendUint32(b, uint32(len(split))), split...)}
}

// kafkaSplitBytes is a KafkaPartitionSplit.
func kafkaSplitBytes(topic string, partition int32, offset, stopping int64) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, uint16(len(topic))), topic...)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	return binary.BigEndian.AppendUint64(b, uint64(stopping))
}

// TestKafkaChangeRefused has what only KafkaSource can't say, and offsets behind the end.
func TestKafkaChangeRefused(t *testing.T) {
	const none = math.MinInt64
	for _, c := range []struct {
		offset, stopping int64
		change           KafkaChange
		want             int64
		why              string // "" if it is not refused
	}{
		{5, 17, KafkaChange{Next: new(int64(17))}, 17, ""},
		{5, 17, KafkaChange{Next: new(int64(18))}, 0, "the source ends before offset 17"},
		{5, 17, KafkaChange{Shift: 13}, 0, "the source ends before offset 17"},
		{20, 17, KafkaChange{}, 20, ""},
		{20, 17, KafkaChange{Next: new(int64(20))}, 20, ""},
		{20, 17, KafkaChange{Shift: -1}, 0, "the source ends before offset 17"},
		{5, -1, KafkaChange{Next: new(int64(1000))}, 1000, ""},
		{5, 17, KafkaChange{Special: "committed"}, -3, ""},
		{5, none, KafkaChange{Special: "latest"}, 0, "does not restore"},
		{-1, none, KafkaChange{Special: "latest"}, -1, ""},
		{-1, none, KafkaChange{Next: new(int64(7))}, 7, ""},
		{math.MaxInt64, none, KafkaChange{Shift: 1}, 0, "more than there can be"},
		{5, none, KafkaChange{Shift: -6}, 0, "would be -1"},
		{5, none, KafkaChange{Shift: -5}, 0, ""},
	} {
		e := kafkaReader(c.offset, c.stopping)
		c.change.Topic, c.change.Partition = "t", 3
		value, found, err := c.change.element(e)
		switch {
		case !found:
			t.Errorf("%+v: not found", c)
		case c.why != "":
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.why) || !strings.HasPrefix(err.Error(), "KafkaSource, t-3: ") {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || !bytes.Equal(value, kafkaReader(c.want, c.stopping).Value):
			t.Errorf("%+v: %x, %v", c, value, err)
		}
	}
	// A tuple in which the number does not stand where it should, here since the bytes have a length of their own.
	e := kafkaTuple()
	e.State.Value = shifted{e.State.Value}
	e.Value = append(e.Value, 0)
	if _, found, err := (&KafkaChange{Topic: "t", Partition: 3, Next: new(int64(1))}).element(e); !found || !errors.Is(err, ErrRefused) {
		t.Errorf("found %v, %v", found, err)
	}
	if value, found, err := (&KafkaChange{Topic: "t", Partition: 3}).element(e); !found || err != nil || !bytes.Equal(value, e.Value) {
		t.Errorf("%x, found %v, %v", value, found, err)
	}
}

// shifted is a serializer that ends with a byte more.
type shifted struct{ serializer.Serializer }

func (s shifted) Read(in *serializer.Input) any {
	v := s.Serializer.Read(in)
	in.U8()
	return v
}

// TestKafkaChangeCoordinator has the states of the enumerator in each version, of real Flink.
func TestKafkaChangeCoordinator(t *testing.T) {
	for i, dir := range kafkaSavepoints(t) {
		fsys, s := openLocal(t, filepath.ToSlash(dir))
		_, coordinators := kafkaState(t, fsys, s)
		if len(coordinators) != 1 {
			t.Fatalf("%d coordinators", len(coordinators))
		}
		data := coordinators[0]
		for partition := range int32(10) {
			for _, c := range []KafkaChange{{}, {Shift: 5}, {Next: new(int64(42))}, {Special: "committed"}, {Special: "earliest"}} {
				c.Topic, c.Partition = "topic", partition
				value, found, err := c.coordinator(data)
				if err != nil || !found {
					t.Fatalf("%s, %+v: %v, %v", dir, c, found, err)
				}
				// Only version 3 has offsets, all "earliest" and of partitions that readers have.
				if set := i == 2 && (c.Next != nil || c.Special == "committed"); set == bytes.Equal(value, data) {
					t.Errorf("%s, %+v: %x", dir, c, value)
				}
				known, ok := kafkaEnumerator(value)
				if !ok || len(known) != 10 {
					t.Fatalf("%s: %d partitions", dir, len(known))
				}
				was, _ := kafkaEnumerator(data)
				for j := range known {
					switch {
					case known[j].partition != partition || i < 2:
					case c.Next != nil:
						was[j].offset = 42
					case c.Special == "committed":
						was[j].offset = -3
					}
				}
				if !slices.Equal(known, was) {
					t.Errorf("%s, %+v: %+v", dir, c, known)
				}
			}
		}
		for _, c := range []KafkaChange{{Topic: "topic", Partition: 10}, {Topic: "other"}} {
			if value, found, err := c.coordinator(data); value != nil || found || err != nil {
				t.Errorf("%s, %+v: %x, %v, %v", dir, c, value, found, err)
			}
		}
	}
}

// kafkaCoordinator is a coordinator's state with an enumerator's of two partitions of t: 3, which a reader has, and 4.
func kafkaCoordinator(version int32, offset int64) []byte {
	state := binary.BigEndian.AppendUint32(nil, 2)
	if version == 3 {
		state = binary.BigEndian.AppendUint32(state, 0)
	}
	for i := range int32(2) {
		split := kafkaSplitBytes("t", 3+i, offset, 100)
		if version == 3 {
			state = append(binary.BigEndian.AppendUint32(state, uint32(len(split))), split...)
		} else {
			state = append(state, split[:2+1+4]...)
		}
		if version >= 2 {
			state = binary.BigEndian.AppendUint32(state, uint32(i))
		}
	}
	if version >= 2 {
		state = append(state, 1)
	}
	b := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(version))
	return append(append(binary.BigEndian.AppendUint32(b, uint32(len(state))), state...), "behind"...)
}

// TestKafkaChangeUnassigned has partitions that no reader has yet.
func TestKafkaChangeUnassigned(t *testing.T) {
	for _, c := range []struct {
		version, partition int32
		offset             int64
		change             KafkaChange
		want               string // offsets of both in version 3; of others "same"
	}{
		{1, 3, 0, KafkaChange{Next: new(int64(7))}, "same"},
		{1, 4, 0, KafkaChange{Next: new(int64(7))}, "same"}, // version 1 has only those that readers have
		{2, 3, 0, KafkaChange{Next: new(int64(7))}, "same"},
		{2, 4, 0, KafkaChange{Next: new(int64(7))}, "refused"},
		{2, 4, 0, KafkaChange{Special: "earliest"}, "refused"},
		{2, 4, 0, KafkaChange{Shift: 1}, "refused"},
		{2, 4, 0, KafkaChange{}, "same"},
		{3, 3, 5, KafkaChange{Next: new(int64(7))}, "7 5"},
		{3, 4, 5, KafkaChange{Next: new(int64(7))}, "5 7"},
		{3, 4, 5, KafkaChange{Next: new(int64(101))}, "refused"},
		{3, 3, 5, KafkaChange{Shift: 2}, "same"},
		{3, 4, 5, KafkaChange{Shift: 2}, "5 7"},
		{3, 4, 5, KafkaChange{Shift: -6}, "refused"},
		{3, 3, -2, KafkaChange{Shift: 2}, "same"},
		{3, 4, -2, KafkaChange{Shift: 2}, "refused"},
		{3, 4, -2, KafkaChange{}, "same"},
		{3, 4, 5, KafkaChange{Special: "committed"}, "5 -3"},
		{3, 4, 5, KafkaChange{Special: "latest"}, "refused"},
	} {
		data := kafkaCoordinator(c.version, c.offset)
		before := bytes.Clone(data)
		c.change.Topic, c.change.Partition = "t", c.partition
		value, found, err := c.change.coordinator(data)
		got := "refused"
		switch {
		case err == nil && bytes.Equal(value, data):
			got = "same"
		case err == nil:
			got = ""
			known, _ := kafkaEnumerator(value)
			for i := range known {
				got += " " + strconv.FormatInt(known[i].offset, 10)
			}
			got = strings.TrimSpace(got)
			if n, first, last := bytesDiffer(data, value); n == 0 || last-first >= 8 {
				t.Errorf("%+v: %x becomes %x", c, data, value)
			}
		case !errors.Is(err, ErrRefused) || value != nil:
			t.Errorf("%+v: %v", c, err)
		}
		if got != c.want || !found || !bytes.Equal(data, before) {
			t.Errorf("%+v: %s, found %v, %v", c, got, found, err)
		}
	}
}

// TestKafkaNegativeLength has a split of less than no bytes.
func TestKafkaNegativeLength(t *testing.T) {
	data := kafkaCoordinator(3, 5)
	copy(data[20:], "\xff\xff\xff\xfe") // behind the coordinator's three numbers, the count and the version of the splits
	if known, ok := kafkaEnumerator(data); ok {
		t.Errorf("read as %+v", known)
	}
	e := kafkaReader(5, 7)
	copy(e.Value[8:], "\xff\xff\xff\xfe")
	if k, ok := kafkaElement(e); ok {
		t.Errorf("read as %+v", k)
	}
}

// TestKafkaChangeHostile changes damaged bytes of each form: that is refused, or only the offset differs and is the one asked for.
func TestKafkaChangeHostile(t *testing.T) {
	elements := kafkaElements(t)
	rapid.Check(t, func(t *rapid.T) {
		damage := func(b []byte) []byte {
			b = bytes.Clone(b)
			for range rapid.IntRange(0, 3).Draw(t, "damages") {
				if i := rapid.IntRange(0, len(b)-1).Draw(t, "at"); rapid.Bool().Draw(t, "cut") {
					b = append(b[:i:i], b[min(len(b), i+rapid.IntRange(0, 9).Draw(t, "bytes")):]...)
				} else {
					b[i] = rapid.Byte().Draw(t, "byte")
				}
				if len(b) == 0 {
					break
				}
			}
			return b
		}
		c := KafkaChange{Special: rapid.SampledFrom([]string{"", "", "", "earliest", "latest", "committed"}).Draw(t, "place")}
		if c.Special == "" && rapid.Bool().Draw(t, "set") {
			c.Next = new(rapid.Int64().Draw(t, "next"))
		} else if c.Special == "" {
			c.Shift = rapid.Int64().Draw(t, "shift")
		}
		check := func(was kafkaSplit, before, after []byte, is kafkaSplit) {
			n, first, last := bytesDiffer(before, after)
			if len(before) != len(after) || n > 0 && last-first >= 8 {
				t.Fatalf("%+v: %x becomes %x", c, before, after)
			}
			special, next := is.position()
			_, now := was.position()
			if special != c.Special && (c.Shift != 0 || c.Next != nil || c.Special != "") || c.Next != nil && next != *c.Next || c.Shift != 0 && next != now+c.Shift {
				t.Fatalf("%+v: %+v becomes %+v", c, was, is)
			}
			if was.offset = is.offset; was != is {
				t.Fatalf("%+v: %+v becomes %+v", c, was, is)
			}
		}

		e := rapid.SampledFrom(elements).Draw(t, "element")
		e = &backend.OperatorEntry{State: e.State, Value: damage(e.Value)}
		if was, ok := kafkaElement(e); ok {
			c.Topic, c.Partition = was.topic, was.partition
			value, found, err := c.element(e)
			switch is, ok := kafkaElement(&backend.OperatorEntry{State: e.State, Value: value}); {
			case !found || err != nil && !errors.Is(err, ErrRefused):
				t.Fatalf("%+v: %v, %v", c, found, err)
			case err == nil && !ok:
				t.Fatalf("%+v: %x is not understood", c, value)
			case err == nil:
				check(*was, e.Value, value, *is)
			}
		}

		data := damage(kafkaCoordinator(rapid.Int32Range(1, 3).Draw(t, "version"), rapid.SampledFrom([]int64{-3, -2, 0, 5}).Draw(t, "offset")))
		c.Topic, c.Partition = "t", 4
		value, found, err := c.coordinator(data)
		was, _ := kafkaEnumerator(data)
		is, ok := kafkaEnumerator(value)
		switch {
		case err != nil && !errors.Is(err, ErrRefused), err == nil && found != ok:
			t.Fatalf("%+v: %v, %v", c, found, err)
		case err == nil && found && !bytes.Equal(value, data):
			for i := range is {
				if is[i] != was[i] && !is[i].assigned && is[i].partition == 4 && len(is) == 2 && is[0].partition == 3 {
					check(was[i].kafkaSplit, data, value, is[i].kafkaSplit)
				} else if is[i] != was[i] && is[i].partition != 4 {
					t.Fatalf("%+v: %+v becomes %+v", c, was[i], is[i])
				}
			}
		}
	})
}
