package tools

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// Names of Kafka sources' operator state.
const (
	stateKafkaConsumer = "topic-partition-offset-states"
	stateSourceReader  = "SourceReaderState"
	// stateDefault is where FlinkKafkaConsumer of Flink 1.2 and 1.3 has its offsets, as do others what they keep.
	stateDefault = "_default_"
)

// kafkaPartitionClass ends the name of the class of partitions, which Java-serialized elements have.
const kafkaPartitionClass = ".kafka.internals.KafkaTopicPartition"

// Sources that keep Kafka offsets.
const (
	kafkaConsumer = "FlinkKafkaConsumer" // up to Flink 1.x
	kafkaSource   = "KafkaSource"        // FLIP-27
)

// kafkaSplit is a position in a partition as it is in state.
type kafkaSplit struct {
	source    string
	topic     string
	partition int32
	// offset is the last one that was read (FlinkKafkaConsumer) or the next to
	// read (KafkaSource), or a special value.
	offset int64
	// stopping is math.MinInt64 if there is none.
	stopping int64
	// at is where in the bytes the offset stands, in eight of them; -1 if it was not found there.
	at int
}

// Special values of KafkaSource, KafkaPartitionSplit of the connector.
var kafkaSpecial = map[int64]string{-1: "latest", -2: "earliest", -3: "committed"}

// kafkaNotSet is of a partition of which FlinkKafkaConsumer had not asked yet where it begins.
const kafkaNotSet = "not set"

// Special values of FlinkKafkaConsumer, KafkaTopicPartitionStateSentinel.
var kafkaSentinels = map[int64]string{
	-915623761776: kafkaNotSet, -915623761775: "earliest", -915623761774: "latest", -915623761773: "committed",
}

// position says what an offset means: a special value by name, or the next offset to read.
func (k *kafkaSplit) position() (special string, next int64) {
	if k.source == kafkaConsumer {
		return kafkaSentinels[k.offset], k.offset + 1
	}
	return kafkaSpecial[k.offset], k.offset
}

// stop says where the source ends: by name, or before an offset; ok is false if nowhere.
func (k *kafkaSplit) stop() (special string, offset int64, ok bool) {
	return kafkaSpecial[k.stopping], k.stopping, k.stopping != math.MinInt64
}

func (k *kafkaSplit) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"source":"`...)
	dst = append(dst, k.source...)
	dst = append(dst, `","topic":"`...)
	dst = append(dst, k.topic...) // only characters that JSON leaves alone
	dst = append(dst, `","partition":`...)
	dst = strconv.AppendInt(dst, int64(k.partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, k.offset, 10)
	if special, next := k.position(); special != "" {
		dst = append(append(append(dst, `,"special":"`...), special...), '"')
	} else {
		dst = append(dst, `,"next":`...)
		dst = strconv.AppendInt(dst, next, 10)
	}
	if special, stop, ok := k.stop(); special != "" {
		dst = append(append(append(dst, `,"stopping":"`...), special...), '"')
	} else if ok {
		dst = append(dst, `,"stopping":`...)
		dst = strconv.AppendInt(dst, stop, 10)
	}
	return append(dst, '}')
}

// kafkaElement gives the position in an element of operator state, if it is
// one of a Kafka source. Splits of other sources have another shape.
func kafkaElement(e *backend.OperatorEntry) (*kafkaSplit, bool) {
	switch e.State.Name {
	case stateSourceReader:
		in := serializer.NewInput(e.Value)
		if in.I32() != int32(in.Remaining()) || in.I32() != 0 {
			return nil, false
		}
		return kafkaFramed(in, true)
	case stateKafkaConsumer, stateDefault:
		if e.State.Name == stateDefault && !bytes.Contains(e.Value, []byte(kafkaPartitionClass)) {
			return nil, false
		}
		if k, ok := kryoPartition(e.Value); ok {
			return k, true
		}
		v, err := e.DecodeValue()
		if err != nil {
			return nil, false
		}
		k, ok := kafkaTree(v)
		if ok {
			// A tuple ends with its long; a Java object stream, with the number of the last object in it.
			if k.at = len(e.Value) - 8; k.at < 0 || int64(binary.BigEndian.Uint64(e.Value[k.at:])) != k.offset {
				k.at = -1
			}
		}
		return k, ok
	}
	return nil, false
}

// kafkaFramed reads a length and a KafkaPartitionSplit; last says that nothing may follow.
func kafkaFramed(in *serializer.Input, last bool) (*kafkaSplit, bool) {
	n := in.I32()
	if in.Err() != nil || int(n) > in.Remaining() || last && int(n) != in.Remaining() {
		return nil, false
	}
	start := int(in.Offset())
	k, ok := kafkaPartitionSplit(in.Take(int(n)))
	if ok {
		k.at += start
	}
	return k, ok
}

// kafkaPartitionSplit reads what KafkaPartitionSplitSerializer wrote: topic,
// partition, starting and stopping offset.
func kafkaPartitionSplit(b []byte) (*kafkaSplit, bool) {
	const numbers = 4 + 8 + 8
	if len(b) < 2+numbers {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) != 2+n+numbers || !kafkaTopic(b[2:2+n]) {
		return nil, false
	}
	k := &kafkaSplit{source: kafkaSource, topic: string(b[2 : 2+n]), at: 2 + n + 4}
	b = b[2+n:]
	k.partition = int32(binary.BigEndian.Uint32(b))
	k.offset = int64(binary.BigEndian.Uint64(b[4:]))
	k.stopping = int64(binary.BigEndian.Uint64(b[12:]))
	return k, k.partition >= 0 && k.offset >= -3 && (k.stopping >= -3 || k.stopping == math.MinInt64)
}

// kafkaTopic says that b is a legal name of a topic.
func kafkaTopic(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(b) > 0 && len(b) <= 249
}

// kryoPartition reads a Tuple2 of a KafkaTopicPartition as Kryo 2 writes it
// (the class's number, a reference mark, and its fields by name: cached hash,
// partition, topic) and a Long.
func kryoPartition(b []byte) (*kafkaSplit, bool) {
	at := len(b) - 8
	varint := func() (v uint32) {
		for shift := 0; shift < 35 && len(b) > 0; shift += 7 {
			c := b[0]
			b = b[1:]
			v |= uint32(c&0x7f) << shift
			if c < 0x80 {
				return v
			}
		}
		b = nil
		return 0
	}
	mark := func() bool { // a new object, neither null nor seen before
		ok := len(b) > 0 && b[0] == 1
		if ok {
			b = b[1:]
		}
		return ok
	}
	const byName = 1 // a class without a number
	if varint() <= byName || !mark() {
		return nil, false
	}
	varint() // cached hash
	zigzag := varint()
	if !mark() {
		return nil, false
	}
	topic, rest, ok := kryoASCII(b)
	if !ok || len(rest) != 8 || !kafkaTopic(topic) {
		return nil, false
	}
	k := &kafkaSplit{
		source: kafkaConsumer, topic: string(topic), partition: int32(zigzag>>1) ^ -int32(zigzag&1),
		offset: int64(binary.BigEndian.Uint64(rest)), stopping: math.MinInt64, at: at,
	}
	return k, k.partition >= 0
}

// kryoASCII reads an ASCII string of Kryo 2: its last byte marked by the high
// bit, or, if it has one character or many, after its length plus 1.
func kryoASCII(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	if b[0] < 0x80 {
		for i, c := range b {
			if c >= 0x80 {
				text = append(append(text, b[:i]...), c&0x7f)
				return text, b[i+1:], true
			}
		}
		return nil, nil, false
	}
	n, shift, i := int(b[0]&0x3f), 6, 1
	for more := b[0]&0x40 != 0; more && shift < 27; shift += 7 {
		if i == len(b) {
			return nil, nil, false
		}
		n |= int(b[i]&0x7f) << shift
		more = b[i] >= 0x80
		i++
	}
	n--
	if n < 1 || n > len(b)-i {
		return nil, nil, false
	}
	return b[i : i+n], b[i+n:], true
}

// kafkaTree finds the position in a decoded value: a pair of a
// KafkaTopicPartition, as an object with its fields, and a number.
func kafkaTree(v any) (*kafkaSplit, bool) {
	var pair []any
	switch v := v.(type) {
	case []any:
		pair = v
	case *serializer.Record:
		for _, f := range v.Fields {
			pair = append(pair, f.Value)
		}
	}
	if len(pair) != 2 {
		return nil, false
	}
	at, _ := pair[0].(*serializer.Record)
	offset, ok := pair[1].(int64)
	if r, isRecord := pair[1].(*serializer.Record); isRecord && len(r.Fields) == 1 { // java.lang.Long as an object
		offset, ok = r.Fields[0].Value.(int64)
	}
	if at == nil || !ok {
		return nil, false
	}
	k := &kafkaSplit{source: kafkaConsumer, partition: -1, offset: offset, stopping: math.MinInt64}
	for _, f := range at.Fields {
		switch f.Name {
		case "topic":
			k.topic, _ = f.Value.(string)
		case "partition":
			k.partition, _ = f.Value.(int32)
		}
	}
	return k, k.partition >= 0 && kafkaTopic([]byte(k.topic))
}

// kafkaAssignment is a partition that an enumerator knows.
type kafkaAssignment struct {
	kafkaSplit
	// hasOffset says that the offsets are there; since version 3.
	hasOffset bool
	// assigned says that a reader has it.
	assigned bool
}

// kafkaEnumerator reads the state of a source's coordinator
// (SourceCoordinatorSerdeUtils) that holds a KafkaSourceEnumState of version
// 1, 2 or 3; ok is false for any other content.
func kafkaEnumerator(b []byte) (list []kafkaAssignment, ok bool) {
	in := serializer.NewInput(b)
	if serde := in.I32(); serde < 0 || serde > 2 {
		return nil, false
	}
	version := in.I32()
	n := in.I32()
	if in.Err() != nil || n < 0 || int(n) > in.Remaining() || version < 1 || version > 3 {
		return nil, false
	}
	start := int(in.Offset())
	in = serializer.NewInput(in.Take(int(n))) // behind it older releases have the readers' splits
	count := in.I32()
	if version == 3 && in.I32() != 0 { // of the split's serializer
		return nil, false
	}
	for range count {
		a := kafkaAssignment{assigned: true}
		if version == 3 {
			k, ok := kafkaFramed(in, false)
			if !ok {
				return nil, false
			}
			k.at += start
			a.kafkaSplit, a.hasOffset = *k, true
		} else {
			topic := in.Take(int(in.U16()))
			a.kafkaSplit = kafkaSplit{source: kafkaSource, topic: string(topic), partition: in.I32(), stopping: math.MinInt64}
			if !kafkaTopic(topic) || a.partition < 0 {
				return nil, false
			}
		}
		if version >= 2 {
			status := in.I32()
			if status != 0 && status != 1 {
				return nil, false
			}
			a.assigned = status == 0
		}
		list = append(list, a)
	}
	if version >= 2 {
		in.U8() // whether the first discovery is over
	}
	return list, in.Err() == nil && in.Remaining() == 0
}
