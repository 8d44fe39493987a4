package backend

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Snapshot classes of Flink.
const (
	base          = "org.apache.flink.api.common.typeutils.base."
	longClass     = base + "LongSerializer$LongSerializerSnapshot"
	stringClass   = base + "StringSerializer$StringSerializerSnapshot"
	intClass      = base + "IntSerializer$IntSerializerSnapshot"
	listClass     = base + "ListSerializerSnapshot"
	mapClass      = base + "MapSerializerSnapshot"
	voidNamespace = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
	timerClass    = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"
	kryoClass     = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
)

func simple(class string) *serializer.Snapshot {
	return &serializer.Snapshot{Class: class, Version: 3}
}

func nested(class string, outerVersion int32, parts ...*serializer.Snapshot) *serializer.Snapshot {
	return &serializer.Snapshot{Class: class, Version: 3, Body: &serializer.Composite{OuterVersion: outerVersion, Nested: parts}}
}

// custom is a snapshot of a class that only its job knows.
func custom(body string) *serializer.Snapshot {
	return &serializer.Snapshot{Class: "com.example.PriceSerializer$Snapshot", Version: 7, Body: serializer.Unread(body)}
}

func keyValue(name string, t Type, value, namespace *serializer.Snapshot) StateMeta {
	return StateMeta{
		Name: name, Kind: KindKeyValue, Options: []Option{{OptionStateType, string(t)}},
		Serializers: []NamedSnapshot{{SerializerValue, value}, {SerializerNamespace, namespace}},
	}
}

func timerQueue(name string, key, namespace *serializer.Snapshot) StateMeta {
	return StateMeta{Name: name, Kind: KindPriorityQueue, Serializers: []NamedSnapshot{{SerializerValue, nested(timerClass, 2, key, namespace)}}}
}

// headerBytes writes a header.
func headerBytes(t testing.TB, h interface{ Write(*serializer.Output) }) []byte {
	t.Helper()
	out := serializer.NewOutput(nil)
	h.Write(out)
	if out.Err() != nil {
		t.Fatal(out.Err())
	}
	return out.Bytes()
}

// fromHex reads hexadecimal digits with spaces and comments.
func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.ReplaceAll(line, "|", " "), "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compressed is a framed snappy stream.
func compressed(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := snappy.NewBufferedWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pair is an entry of a canonical file: what follows the key group, and the value.
type pair struct{ key, value []byte }

// run is the entries of one state in one key group.
type run struct {
	state int
	pairs []pair
}

// canonical appends a key group to a canonical file.
func canonical(t testing.TB, file []byte, prefix, group int, zip bool, runs []run) []byte {
	t.Helper()
	out := serializer.NewOutput(nil)
	for _, r := range runs {
		out.U16(uint16(r.state))
		for i, p := range r.pairs {
			key := binary.BigEndian.AppendUint16(nil, uint16(group))[2-prefix:]
			if i == len(r.pairs)-1 {
				key[0] |= lastKey
			}
			out.Bytes32(append(key, p.key...))
			out.Bytes32(p.value)
		}
	}
	out.U16(endOfGroup)
	if zip {
		return append(file, compressed(t, out.Bytes())...)
	}
	return append(file, out.Bytes()...)
}

// inlineKeyGroups is a handle of keyed state with its bytes.
func inlineKeyGroups(form metadata.KeyGroupsForm, data []byte, start int, offsets ...int64) *metadata.KeyGroups {
	return &metadata.KeyGroups{
		Form: form, KeyGroupOffsets: metadata.KeyGroupOffsets{Start: int32(start), Offsets: offsets},
		Delegate: &metadata.ByteStream{Name: "inline", Data: data},
	}
}

// long is a value as its serializer writes it, as text is.
func long(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func joinBytes(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
