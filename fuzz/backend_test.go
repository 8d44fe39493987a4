package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"runtime"
	"testing"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Snapshots of Flink's serializers of Long, String and VoidNamespace, of
// lists and maps of them, and of timers.
var (
	stateLong   = &serializer.Snapshot{Class: "org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot", Version: 3}
	stateString = &serializer.Snapshot{Class: "org.apache.flink.api.common.typeutils.base.StringSerializer$StringSerializerSnapshot", Version: 3}
	stateVoid   = &serializer.Snapshot{Class: "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", Version: 3}
)

func composed(class string, outer int32, parts ...*serializer.Snapshot) *serializer.Snapshot {
	return &serializer.Snapshot{Class: class, Version: 3, Body: &serializer.Composite{OuterVersion: outer, Nested: parts}}
}

func keyedState(name, kind string, value, namespace *serializer.Snapshot) backend.StateMeta {
	return backend.StateMeta{
		Name: name, Options: []backend.Option{{Key: backend.OptionStateType, Value: kind}},
		Serializers: []backend.NamedSnapshot{{Key: backend.SerializerValue, Snapshot: value}, {Key: backend.SerializerNamespace, Snapshot: namespace}},
	}
}

// keyedHeader has a state of each type.
func keyedHeader(zip bool) []byte {
	const base = "org.apache.flink.api.common.typeutils.base."
	h := &backend.KeyedHeader{Version: 6, Compressed: zip, Key: stateString, States: []backend.StateMeta{
		keyedState("v", "VALUE", stateString, stateString),
		keyedState("l", "LIST", composed(base+"ListSerializerSnapshot", 1, stateLong), stateVoid),
		keyedState("m", "MAP", composed(base+"MapSerializerSnapshot", 1, stateString, stateLong), stateString),
		{Name: "_timer_state/event_user-timers", Kind: backend.KindPriorityQueue, Serializers: []backend.NamedSnapshot{{
			Key: backend.SerializerValue, Snapshot: composed("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", 2, stateString, stateVoid),
		}}},
	}}
	out := serializer.NewOutput(nil)
	h.Write(out)
	return out.Bytes()
}

func operatorHeader(zip bool) []byte {
	option := func(mode string) []backend.Option {
		return []backend.Option{{Key: backend.OptionDistributionMode, Value: mode}}
	}
	h := &backend.OperatorHeader{
		Version: 6, Compressed: zip,
		Operator: []backend.StateMeta{{Name: "list", Kind: backend.KindOperator, Options: option("SPLIT_DISTRIBUTE"), Serializers: []backend.NamedSnapshot{{Key: backend.SerializerValue, Snapshot: stateString}}}},
		Broadcast: []backend.StateMeta{{Name: "rules", Kind: backend.KindBroadcast, Options: option("BROADCAST"), Serializers: []backend.NamedSnapshot{
			{Key: backend.SerializerValue, Snapshot: stateLong}, {Key: backend.SerializerKey, Snapshot: stateString},
		}}},
	}
	out := serializer.NewOutput(nil)
	h.Write(out)
	return out.Bytes()
}

func unhex(f *testing.F, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func framed(f *testing.F, data []byte) []byte {
	var b bytes.Buffer
	w := snappy.NewBufferedWriter(&b)
	if _, err := w.Write(data); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// FuzzKeyedHeader checks that a header that is read is written as the same
// bytes, be it of keyed or of operator state.
func FuzzKeyedHeader(f *testing.F) {
	f.Add(keyedHeader(false))
	f.Add(keyedHeader(true))
	f.Add(operatorHeader(false))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := serializer.NewInput(data)
		if h := backend.ReadKeyedHeader(in); in.Err() == nil {
			sameHeader(t, h, data[:in.Offset()])
		}
		in.Reset(data)
		if h := backend.ReadOperatorHeader(in); in.Err() == nil {
			sameHeader(t, h, data[:in.Offset()])
		}
	})
}

func sameHeader(t *testing.T, h interface{ Write(*serializer.Output) }, want []byte) {
	out := serializer.NewOutput(nil)
	h.Write(out)
	if out.Err() != nil || !bytes.Equal(out.Bytes(), want) {
		t.Fatalf("read, but written as other bytes, %v", out.Err())
	}
}

// allocates checks that no more memory was taken than the input allows.
func allocates(t *testing.T, input int, do func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(4<<20+4096*input); got > most {
		t.Errorf("%d bytes allocated for %d of input", got, input)
	}
}

// readKeyed reads two key groups at the given offsets behind a header.
func readKeyed(t *testing.T, form metadata.KeyGroupsForm, raw bool, data []byte, offsets ...int64) {
	h := &metadata.KeyGroups{Form: form, KeyGroupOffsets: metadata.KeyGroupOffsets{Start: 54, Offsets: offsets}, Delegate: &metadata.ByteStream{Name: "inline", Data: data}}
	ctx := context.Background()
	r, err := backend.OpenKeyed(ctx, backend.Files{}, h, backend.Options{MaxParallelism: 128, Raw: raw})
	if err != nil {
		return
	}
	defer r.Close()
	// State by state there is at least what there is together: more if damage hides less.
	together := 0
	for e, err := range r.Entries(ctx, backend.Filter{}) {
		if err != nil {
			continue
		}
		together++
		_, _ = e.DecodeKey()
		_, _ = e.DecodeNamespace()
		_, _ = e.DecodeUserKey()
		_, _ = e.DecodeValue()
		_, _ = e.AppendValueJSON(nil)
	}
	byState := 0
	for _, s := range r.States() {
		for _, err := range r.Entries(ctx, backend.Filter{State: func(o *backend.State) bool { return o == s }}) {
			if err == nil {
				byState++
			}
		}
	}
	if r.HeaderErr() == nil && !raw && byState < together {
		t.Errorf("%d entries by state, %d together", byState, together)
	}
}

// FuzzCanonical reads key groups of a canonical file, plain or compressed.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		"00000000000ab6066b65792d31060101000000050574657874ffff",
		"000100000008b6066b65792d31000000001100000000000000072c0000000000000008ffff",
		"00020000001136066b65792d3106056e732d3105046d6b310000000900000000000000000200000011b6066b65792d3106056e732d3105046d6b320000000101ffff",
		"000300000011b67ffffffffffffffb066b65792d310000000000ffff",
	} {
		b := unhex(f, s)
		f.Add(b, uint16(0), false)
		f.Add(append(b, b...), uint16(len(b)), false)
		f.Add(framed(f, b), uint16(0), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, second uint16, zip bool) {
		head := keyedHeader(zip)
		first := int64(len(head))
		next := int64(0)
		if second > 0 {
			next = first + int64(second)
		}
		allocates(t, len(data), func() {
			readKeyed(t, metadata.KeyGroupsSavepoint, false, append(head, data...), first, next)
		})
	})
}

// FuzzHeap reads key groups of a file of the heap backend, plain or
// compressed, and the same bytes as raw keyed state.
func FuzzHeap(f *testing.F) {
	blocks := [][]byte{
		unhex(f, "00010000000100066b65792d310000000200000000000000070000000000000008"),
		unhex(f, "0003000000017ffffffffffffffb066b65792d3100"),
		unhex(f, "00000000000101066b65792d310574657874"),
		unhex(f, "000200000001056e732d31066b65792d3100000002046d6b31000000000000000002046d6b3201"),
	}
	plain := binary.BigEndian.AppendUint32(nil, 54)
	zipped := bytes.Clone(plain)
	for _, b := range blocks {
		plain = append(plain, b...)
		zipped = append(zipped, framed(f, b)...)
	}
	f.Add(plain, uint16(0), false)
	f.Add(zipped, uint16(0), true)
	f.Add(append(bytes.Clone(plain), plain...), uint16(len(plain)), false)
	f.Add(unhex(f, "f1cd859f000000020000000100036f6e65"), uint16(3), false)
	f.Fuzz(func(t *testing.T, data []byte, second uint16, zip bool) {
		head := keyedHeader(zip)
		first := int64(len(head))
		offsets := []int64{first}
		if second > 0 {
			offsets = append(offsets, first+int64(second))
		}
		allocates(t, len(data), func() {
			readKeyed(t, metadata.KeyGroupsV2, false, append(head, data...), offsets...)
			readKeyed(t, metadata.KeyGroupsV2, true, data, 0, int64(second))
		})
	})
}

// FuzzOperator reads operator state: two elements of a list and a broadcast state.
func FuzzOperator(f *testing.F) {
	f.Add(unhex(f, "03733102e90100000001026b0000000000000007"), uint16(3), uint16(6), false)
	f.Add(append(append(framed(f, unhex(f, "037331"))[10:], framed(f, unhex(f, "02e901"))[10:]...), framed(f, unhex(f, "00000001026b0000000000000007"))[10:]...), uint16(11), uint16(22), true)
	f.Fuzz(func(t *testing.T, data []byte, second, third uint16, zip bool) {
		head := operatorHeader(zip)
		if zip {
			head = append(head, "\xff\x06\x00\x00sNaPpY"...)
		}
		first := int64(len(head))
		h := &metadata.OperatorState{
			States: []metadata.StateOffsets{
				{Name: "list", Mode: metadata.ModeSplit, Offsets: []int64{first, first + int64(second)}},
				{Name: "rules", Mode: metadata.ModeBroadcast, Offsets: []int64{first + int64(third)}},
			},
			Delegate: &metadata.ByteStream{Name: "inline", Data: append(head, data...)},
		}
		for _, raw := range []bool{false, true} {
			allocates(t, len(data), func() {
				ctx := context.Background()
				r, err := backend.OpenOperator(ctx, backend.Files{}, h, backend.Options{Raw: raw})
				if err != nil {
					return
				}
				defer r.Close()
				for e, err := range r.Entries(ctx, nil) {
					if err == nil {
						_, _ = e.DecodeKey()
						_, _ = e.AppendValueJSON(nil)
					}
				}
			})
		}
	})
}
