package serializer

import (
	"fmt"
	"math"
	"strconv"
)

// ttl is a value after the time of its last access.
type ttl struct{ value Serializer }

func (t *ttl) Len() int { return sum(8, t.value.Len()) }

func (t *ttl) Skip(in *Input) {
	in.Skip(8)
	t.value.Skip(in)
}

func (t *ttl) Read(in *Input) any {
	last := in.I64()
	v := t.value.Read(in)
	if in.err != nil {
		return nil
	}
	return TTL{LastAccess: last, Value: v}
}

func (t *ttl) appendJSON(dst []byte, in *Input) []byte {
	last := in.I64()
	dst = AppendRead(append(dst, `{"value":`...), t.value, in)
	return appendLastAccess(dst, last)
}

func (t *ttl) encode(w *encoding, v any) error {
	values, err := membersOf(v, "value", "lastAccess")
	if err != nil {
		return err
	}
	if err := with(millisOfText, (*Output).I64)(&w.Output, values[1]); err != nil {
		return fmt.Errorf("lastAccess: %w", err)
	}
	if err := w.value(t.value, values[0]); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	return nil
}

// The snapshots of values with a time to live, in states of either API.
const (
	ttlSnapshot      = runtimeState + "ttl.TtlStateFactory$TtlSerializerSnapshot"
	asyncTTLSnapshot = runtimeState + "v2.ttl.TtlStateFactory$TtlSerializerSnapshot"
)

// HasTTL says that the values are a [TTL].
func (s *Snapshot) HasTTL() bool {
	s = s.Modern()
	if aware, ok := s.Body.(*TTLAware); ok {
		return aware.Nested.HasTTL()
	}
	class := s.Class
	return class == ttlSnapshot || class == asyncTTLSnapshot
}

// sum is the length of parts, unknown if one is.
func sum(lengths ...int) int {
	n := 0
	for _, l := range lengths {
		if l < 0 {
			return -1
		}
		n += l
	}
	return n
}

// timer is a timestamp that sorts as its bytes, a key and a namespace.
type timer struct{ key, namespace Serializer }

func (t *timer) Len() int { return sum(8, t.key.Len(), t.namespace.Len()) }

func (t *timer) Skip(in *Input) {
	in.Skip(8)
	if t.key.Skip(in); !in.Lost() {
		t.namespace.Skip(in)
	}
}

func (t *timer) Read(in *Input) any {
	v := Timer{Timestamp: in.I64() ^ math.MinInt64, Key: t.key.Read(in)}
	if !in.Lost() {
		v.Namespace = t.namespace.Read(in)
	}
	if in.err != nil {
		return nil
	}
	return v
}

func (t *timer) appendJSON(dst []byte, in *Input) []byte {
	dst = strconv.AppendInt(append(dst, `{"timestamp":`...), in.I64()^math.MinInt64, 10)
	dst = AppendRead(append(dst, `,"key":`...), t.key, in)
	dst = append(dst, `,"namespace":`...)
	if in.Lost() {
		return append(dst, "null}"...)
	}
	return append(AppendRead(dst, t.namespace, in), '}')
}

func (t *timer) encode(w *encoding, v any) error {
	return w.fields(v, field{"timestamp", sortedLong()}, field{"key", t.key}, field{"namespace", t.namespace})
}

// either is a flag that says left, and the value.
type either struct{ left, right Serializer }

func (e *either) Len() int { return -1 }

func (e *either) side(in *Input) (bool, Serializer) {
	if in.Bool() {
		return true, e.left
	}
	return false, e.right
}

func (e *either) Skip(in *Input) {
	_, s := e.side(in)
	s.Skip(in)
}

func (e *either) Read(in *Input) any {
	left, s := e.side(in)
	v := s.Read(in)
	if in.err != nil {
		return nil
	}
	return Either{Left: left, Value: v}
}

func (e *either) encode(w *encoding, v any) error {
	o, _ := v.(members)
	if len(o) == 1 && o[0].name == "left" {
		w.Bool(true)
		return w.fields(v, field{"left", e.left})
	}
	w.Bool(false)
	return w.fields(v, field{"right", e.right})
}

func eitherFamily() family {
	return composite(part{
		parts: 2, name: generic("Either"),
		make: func(_ *Composite, p []Serializer) Serializer { return &either{p[0], p[1]} },
	})
}

// record makes a Record of one of Flink's own classes from pairs of a name and a value.
func record(class string, pairs ...any) *Record {
	r := &Record{Class: class}
	for i := 0; i < len(pairs); i += 2 {
		r.Fields = append(r.Fields, Field{Name: pairs[i].(string), Value: pairs[i+1]})
	}
	return r
}

// streamElement is a record or what else flows in a stream.
func streamElement(value Serializer) Serializer {
	return variable(func(in *Input) any {
		off := in.Offset()
		switch tag := in.U8(); tag {
		case 0:
			return record("StreamRecord", "timestamp", in.I64(), "value", value.Read(in))
		case 1:
			return record("StreamRecord", "value", value.Read(in))
		case 2:
			return record("Watermark", "timestamp", in.I64())
		case 3:
			return record("LatencyMarker", "markedTime", in.I64(), "operatorIdLower", in.I64(),
				"operatorIdUpper", in.I64(), "subtaskIndex", in.I32())
		case 4:
			return record("WatermarkStatus", "status", in.I32())
		case 5:
			return record("RecordAttributes", "backlog", in.Bool())
		case 6:
			return record("InternalWatermark", "subpartition", in.I32(), "timestamp", in.I64())
		default:
			in.FailAt(off, "stream element", fmt.Errorf("%w: tag %d", ErrCorrupt, tag))
			return nil
		}
	}).writes(func(w *encoding, v any) error {
		return w.oneOf(v, 0, [][]field{
			{{"timestamp", long()}, {"value", value}},
			{{"value", value}},
			{{"timestamp", long()}},
			{{"markedTime", long()}, {"operatorIdLower", long()}, {"operatorIdUpper", long()}, {"subtaskIndex", integer()}},
			{{"status", integer()}},
			{{"backlog", boolean()}},
			{{"subpartition", integer()}, {"timestamp", long()}},
		})
	})
}

// taggedUnion is an element of the first or the second stream.
func taggedUnion(one, two Serializer) Serializer {
	return variable(func(in *Input) any {
		off := in.Offset()
		switch tag := in.U8(); tag {
		case 1:
			return record("TaggedUnion", "one", one.Read(in))
		case 2:
			return record("TaggedUnion", "two", two.Read(in))
		default:
			in.FailAt(off, "tagged union", fmt.Errorf("%w: tag %d", ErrCorrupt, tag))
			return nil
		}
	}).writes(func(w *encoding, v any) error {
		return w.oneOf(v, 1, [][]field{{{"one", one}}, {{"two", two}}})
	})
}

// twoPhaseCommit is the state of a sink with transactions. If the pending
// transaction may be null, a flag says whether there is one.
func twoPhaseCommit(transaction, context Serializer, nullable bool) Serializer {
	holder := func(in *Input) any {
		v := transaction.Read(in)
		if in.Lost() {
			return &Record{Class: "TransactionHolder", Cut: true, Fields: []Field{{Name: "transaction", Value: v}}}
		}
		return record("TransactionHolder", "transaction", v, "startTime", in.I64())
	}
	return variable(func(in *Input) any {
		r := &Record{Class: "TwoPhaseCommitSinkFunction.State"}
		var pending any
		if !nullable || in.Bool() {
			pending = holder(in)
		}
		r.Fields = append(r.Fields, Field{Name: "pendingTransaction", Value: pending})
		if r.Cut = in.Lost(); r.Cut {
			return r
		}
		n := in.Length()
		commits := make([]any, 0, min(n, in.Remaining(), maxPrepared))
		for ; n > 0; n-- {
			start := in.Offset()
			if commits = append(commits, holder(in)); !in.element(start) {
				break
			}
		}
		r.Fields = append(r.Fields, Field{Name: "pendingCommitTransactions", Value: commits})
		if r.Cut = in.Lost(); r.Cut {
			return r
		}
		var v any
		if in.Bool() {
			v = context.Read(in)
		}
		r.Fields = append(r.Fields, Field{Name: "context", Value: v})
		return r
	}).writes(func(w *encoding, v any) error {
		hold := newObject("TransactionHolder", field{"transaction", transaction}, field{"startTime", long()})
		var pending Serializer = hold
		if nullable {
			pending = &option{hold}
		}
		return w.fields(v, field{"pendingTransaction", pending}, field{"pendingCommitTransactions", &list{hold}}, field{"context", &option{context}})
	})
}

// streamingFamily knows wrappers of states and the records of operators.
func streamingFamily(class string) (family, bool) {
	switch class {
	case ttlSnapshot, asyncTTLSnapshot:
		return composite(part{
			parts: 2,
			name:  func(c *Composite) string { return "TTL<" + c.Nested[1].String() + ">" },
			make:  func(_ *Composite, p []Serializer) Serializer { return &ttl{p[1]} },
		}), true
	case operators + "TimerSerializerSnapshot":
		return composite(part{
			parts: 2, name: generic("Timer"),
			make: func(_ *Composite, p []Serializer) Serializer { return &timer{p[0], p[1]} },
		}), true
	case javaRuntime + "JavaEitherSerializerSnapshot":
		return eitherFamily(), true
	case javaRuntime + "EitherSerializerSnapshot": // of Flink 1.7
		f := eitherFamily()
		f.oldest, f.newest = 2, 2
		return f, true
	case "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("StreamElement"),
			make: func(_ *Composite, p []Serializer) Serializer { return streamElement(p[0]) },
		}), true
	case "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot":
		return composite(part{
			parts: 2, name: generic("TaggedUnion"),
			make: func(_ *Composite, p []Serializer) Serializer { return taggedUnion(p[0], p[1]) },
		}), true
	case operators + "co.IntervalJoinOperator$BufferEntrySerializerSnapshot":
		return composite(part{
			parts: 1, name: generic("BufferEntry"),
			make: func(_ *Composite, p []Serializer) Serializer {
				return variable(func(in *Input) any {
					return record("BufferEntry", "hasBeenJoined", in.Bool(), "element", p[0].Read(in))
				}).writes(func(w *encoding, v any) error {
					return w.fields(v, field{"hasBeenJoined", boolean()}, field{"element", p[0]})
				})
			},
		}), true
	case sinks + "TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
		sinks + "legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot":
		return composite(part{
			parts: 2, name: generic("TwoPhaseCommitSinkFunction.State"),
			outer: func(in *Input, version int32) Body {
				if version < 4 {
					return nil
				}
				return Flag(in.flag("flag of a pending transaction"))
			},
			make: func(c *Composite, p []Serializer) Serializer {
				nullable := c.OuterVersion == 3
				if f, ok := c.Outer.(Flag); ok {
					nullable = bool(f)
				}
				return twoPhaseCommit(p[0], p[1], nullable)
			},
		}), true
	}
	return kafkaFamily(class)
}

const sinks = "org.apache.flink.streaming.api.functions.sink."

// javaText is text as DataOutput.writeUTF writes it.
func javaText() Serializer {
	return variable(func(in *Input) any { return in.UTF() }).text(with(stringOf, (*Output).UTF))
}

// kafkaFamily knows the parts of the state of FlinkKafkaProducer.
func kafkaFamily(class string) (family, bool) {
	const kafka = "org.apache.flink.streaming.connectors.kafka.FlinkKafkaProducer"
	for _, producer := range []string{kafka + "$", kafka + "011$"} {
		switch class {
		case producer + "TransactionStateSerializer$TransactionStateSerializerSnapshot":
			return simple("KafkaTransactionState", variable(func(in *Input) any {
				var id any
				if in.Bool() {
					id = in.UTF()
				}
				return record("KafkaTransactionState", "transactionalId", id, "producerId", in.I64(), "epoch", int16(in.U16()))
			}).writes(func(w *encoding, v any) error {
				return w.fields(v, field{"transactionalId", &option{javaText()}}, field{"producerId", long()}, field{"epoch", short()})
			})), true
		case producer + "ContextStateSerializer$ContextStateSerializerSnapshot":
			return simple("KafkaTransactionContext", variable(func(in *Input) any {
				n := in.Length()
				ids := make([]any, 0, min(n, in.Remaining()/2, maxPrepared))
				for ; n > 0 && in.err == nil; n-- {
					ids = append(ids, in.UTF())
				}
				return record("KafkaTransactionContext", "transactionalIds", ids)
			}).writes(func(w *encoding, v any) error {
				return w.fields(v, field{"transactionalIds", &list{javaText()}})
			})), true
		case producer + "NextTransactionalIdHintSerializer$NextTransactionalIdHintSerializerSnapshot":
			return simple("NextTransactionalIdHint", variable(func(in *Input) any {
				return record("NextTransactionalIdHint", "nextFreeTransactionalId", in.I64(), "lastParallelism", in.I32())
			}).writes(func(w *encoding, v any) error {
				return w.fields(v, field{"nextFreeTransactionalId", long()}, field{"lastParallelism", integer()})
			})), true
		}
	}
	return family{}, false
}
