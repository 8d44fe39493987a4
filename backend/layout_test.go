package backend

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// richHeader has a state of each type; keys are strings.
func richHeader(zip bool) *KeyedHeader {
	str, void := simple(stringClass), simple(voidNamespace)
	return &KeyedHeader{Version: 6, Compressed: zip, Key: str, States: []StateMeta{
		keyValue("v", TypeValue, str, str),
		keyValue("l", TypeList, nested(listClass, 1, simple(longClass)), void),
		keyValue("m", TypeMap, nested(mapClass, 1, str, simple(longClass)), str),
		timerQueue("_timer_state/event_user-timers", str, void),
	}}
}

// richFile is a canonical file with bytes that real Flink wrote (state.md
// 6.3 has the composite keys and values of "v" and "m").
func richFile(t testing.TB, zip bool) ([]byte, []int64) {
	file := headerBytes(t, richHeader(zip))
	offset := int64(len(file))
	file = canonical(t, file, 1, 54, zip, []run{
		{0, []pair{
			{fromHex(t, "066b65792d31 06 01 01"), fromHex(t, "09 762d6b65792d312d")},
			{fromHex(t, "066b65792d31 06 056e732d31 05"), fromHex(t, "0d 762d6b65792d312d6e732d31")},
		}},
		{2, []pair{
			{fromHex(t, "066b65792d31 06 056e732d31 05 046d6b31"), fromHex(t, "00 0000000000000002")},
			{fromHex(t, "066b65792d31 06 056e732d31 05 046d6b32"), fromHex(t, "01")},
		}},
		{1, []pair{{joinBytes(text("key-1"), []byte{0}), joinBytes(long(7), []byte{','}, long(0x2c2c2c2c2c2c2c2c))}}},
		{3, []pair{
			{fromHex(t, "7ffffffffffffffb 066b65792d31 00"), nil},
			{fromHex(t, "8000000000000005 066b65792d31 00"), nil},
		}},
	})
	return file, []int64{offset, 0}
}

var richLines = []string{
	`54 v "key-1" "" null "v-key-1-"`,
	`54 v "key-1" "ns-1" null "v-key-1-ns-1"`,
	`54 m "key-1" "ns-1" "mk1" 2`,
	`54 m "key-1" "ns-1" "mk2" null`,
	`54 l "key-1" "VoidNamespace" null [7,3182967604875373612]`,
	`54 _timer_state/event_user-timers "key-1" "VoidNamespace" null null @-5`,
	`54 _timer_state/event_user-timers "key-1" "VoidNamespace" null null @5`,
}

func TestCanonical(t *testing.T) {
	for _, zip := range []bool{false, true} {
		for _, form := range []metadata.KeyGroupsForm{metadata.KeyGroupsSavepoint, metadata.KeyGroupsV2} {
			file, offsets := richFile(t, zip)
			h := inlineKeyGroups(form, file, 54, offsets...)
			wantLines(t, lines(t, h, Options{MaxParallelism: 128}), richLines...)
		}
	}
}

// heapGroup appends a key group as the heap backend writes it.
func heapGroup(t testing.TB, file []byte, group int, zip bool, blocks ...[]byte) []byte {
	file = binary.BigEndian.AppendUint32(file, uint32(group))
	for _, b := range blocks {
		if zip {
			b = compressed(t, b)
		}
		file = append(file, b...)
	}
	return file
}

// heapBlocks are the same entries as in richFile, and empty collections.
func heapBlocks(t testing.TB) [][]byte {
	return [][]byte{
		fromHex(t, "0001 00000002 | 00 066b65792d31 00000002 0000000000000007 2c2c2c2c2c2c2c2c | 00 066b65792d32 00000000"),
		fromHex(t, "0003 00000002 | 7ffffffffffffffb 066b65792d31 00 | 8000000000000005 066b65792d31 00"),
		fromHex(t, "0000 00000002 | 01 066b65792d31 09762d6b65792d312d | 056e732d31 066b65792d31 0d762d6b65792d312d6e732d31"),
		fromHex(t, "0002 00000002 | 056e732d31 066b65792d31 00000002 046d6b31 00 0000000000000002 046d6b32 01 | 01 066b65792d32 00000000"),
	}
}

func heapFile(t testing.TB, zip bool) ([]byte, []int64) {
	file := headerBytes(t, richHeader(zip))
	var offsets []int64
	offsets = append(offsets, int64(len(file)))
	file = heapGroup(t, file, 54, zip, heapBlocks(t)...)
	offsets = append(offsets, int64(len(file)))
	file = heapGroup(t, file, 55, zip, fromHex(t, "0002 00000000"), fromHex(t, "0000 00000000"), fromHex(t, "0001 00000000"), fromHex(t, "0003 00000000"))
	return file, offsets
}

func TestHeap(t *testing.T) {
	want := []string{richLines[4], richLines[5], richLines[6], richLines[0], richLines[1], richLines[2], richLines[3]}
	for _, zip := range []bool{false, true} {
		file, offsets := heapFile(t, zip)
		h := inlineKeyGroups(metadata.KeyGroupsV1, file, 54, offsets...)
		wantLines(t, lines(t, h, Options{MaxParallelism: 128}), want...)
	}
	// One stream for all blocks, which Flink's reader takes too.
	file := headerBytes(t, richHeader(true))
	offset := int64(len(file))
	file = heapGroup(t, file, 54, true, bytes.Join(heapBlocks(t), nil))
	wantLines(t, lines(t, inlineKeyGroups(metadata.KeyGroupsV1, file, 54, offset), Options{MaxParallelism: 128}), want...)
}

// TestOnlyKeyGroupZero: the two layouts begin with the same bytes there.
func TestOnlyKeyGroupZero(t *testing.T) {
	o := Options{MaxParallelism: 1}
	file := goldenHeader(t)
	offset := int64(len(file))
	heap := append(bytes.Clone(file), fromHex(t, "00000000 0000 00000001 00 000000000000002a 03 6869")...)
	wantLines(t, lines(t, inlineKeyGroups(metadata.KeyGroupsV2, heap, 0, offset), o), `0 val 42 "VoidNamespace" null "hi"`)
	file = canonical(t, file, 1, 0, false, []run{{0, []pair{{joinBytes(long(42), []byte{0}), text("hi")}}}})
	wantLines(t, lines(t, inlineKeyGroups(metadata.KeyGroupsV2, file, 0, offset), o), `0 val 42 "VoidNamespace" null "hi"`)
}

// TestWideKeyGroups: with more than 128 key groups they have two bytes.
func TestWideKeyGroups(t *testing.T) {
	file := goldenHeader(t)
	offset := int64(len(file))
	file = canonical(t, file, 2, 300, false, []run{{0, []pair{{joinBytes(long(1), []byte{0}), text("x")}}}})
	h := inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 299, 0, offset, 0)
	wantLines(t, lines(t, h, Options{MaxParallelism: 32768}), `300 val 1 "VoidNamespace" null "x"`)
}

// TestUnknownClass reads files whose header has serializers that only the job knows.
func TestUnknownClass(t *testing.T) {
	h := richHeader(false)
	// Bodies that look like what may follow them, or end like it.
	h.States[0].Serializers[0].Snapshot = custom("\x00\x0fVALUE_SERIALIZER\x00\x00\x00\x02")
	h.States[2].Serializers[0].Snapshot = nested(mapClass, 1, simple(stringClass), simple(longClass))
	h.States[3].Serializers[0].Snapshot = custom("")
	rich, offsets := richFile(t, false)
	header := headerBytes(t, h)
	file := append(bytes.Clone(header), rich[offsets[0]:]...)
	handle := inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 54, int64(len(header)), 0)
	r, err := OpenKeyed(context.Background(), Files{}, handle, Options{MaxParallelism: 128})
	if err != nil || r.HeaderErr() != nil {
		t.Fatal(err, r.HeaderErr())
	}
	if !bytes.Equal(headerBytes(t, r.Header()), header) {
		t.Error("the header is written as other bytes")
	}
	got := lines(t, handle, Options{MaxParallelism: 128})
	if len(got) != len(richLines) {
		t.Fatal(got)
	}
	if !strings.HasPrefix(got[0], `54 v "key-1" "" null {`) || !strings.Contains(got[0], "com.example.PriceSerializer") {
		t.Error(got[0])
	}
	wantLines(t, got[2:5], richLines[2:5]...)
}

// TestUnknownKeyClass: without the keys' serializer states are known, and values.
func TestUnknownKeyClass(t *testing.T) {
	h := &KeyedHeader{Version: 6, Key: custom("\x00\x00\x00"), States: []StateMeta{
		keyValue("v", TypeValue, simple(longClass), simple(voidNamespace)),
		keyValue("n", TypeValue, simple(longClass), simple(stringClass)),
	}}
	file := headerBytes(t, h)
	offset := int64(len(file))
	file = canonical(t, file, 1, 3, false, []run{
		{0, []pair{{[]byte("key\x00"), long(5)}}},
		{1, []pair{{[]byte("key\x03\x03ab\x03"), long(6)}}},
	})
	handle := inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 3, offset)
	r, err := OpenKeyed(context.Background(), Files{}, handle, Options{MaxParallelism: 128})
	if err != nil || r.HeaderErr() != nil {
		t.Fatal(err, r.HeaderErr())
	}
	var got []string
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := e.DecodeValue()
		got = append(got, fmt.Sprintf("%s %q %q %t %v %v", e.State.Meta.Name, e.Key, e.Namespace, e.Unsplit, v, err))
	}
	wantLines(t, got, `v "key" "\x00" false 5 <nil>`, `n "key\x03\x03ab\x03" "" true 6 <nil>`)
}

// TestLostHeader reads files whose header cannot be read to its end.
func TestLostHeader(t *testing.T) {
	h := richHeader(false)
	whole := headerBytes(t, h)
	i := bytes.Index(whole, []byte("MapSerializerSnapshot"))
	whole[i] = 'X'
	count := 4 + 1 + 4 + 2 + len(stringClass) + 4
	whole[count+1] = 5 // one more than there are, so that no end fits
	rich, offsets := richFile(t, false)
	file := append(bytes.Clone(whole), rich[offsets[0]:]...)
	handle := inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 54, int64(len(whole)), 0)
	r, err := OpenKeyed(context.Background(), Files{}, handle, Options{MaxParallelism: 128})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.HeaderErr(); err == nil || !strings.Contains(err.Error(), `state "m".VALUE_SERIALIZER`) || !strings.Contains(err.Error(), "XapSerializerSnapshot") {
		t.Error(err)
	}
	var names []string
	for _, s := range r.States() {
		names = append(names, s.Meta.Name)
	}
	if !slices.Equal(names, []string{"v", "l", "state#2 (unknown)", "state#3 (unknown)", "state#4 (unknown)"}) {
		t.Error(names)
	}
	got := lines(t, handle, Options{MaxParallelism: 128})
	if len(got) != len(richLines) {
		t.Fatal(got)
	}
	wantLines(t, []string{got[0], got[1], got[4]}, richLines[0], richLines[1], richLines[4])
	for e, err := range r.Entries(context.Background(), Filter{State: func(s *State) bool { return s.Type == TypeUnknown }}) {
		if err != nil {
			t.Error(err)
			continue
		}
		if len(e.Value) > 0 && (string(e.Key) != "\x06key-1" || !e.Joined) || len(e.Value) == 0 && !e.Unsplit {
			t.Errorf("%+v", e)
		}
	}

	// The heap backend's blocks have no length: what stands before is read.
	heap, heapOffsets := heapFile(t, false)
	file = append(bytes.Clone(whole), heap[heapOffsets[0]:]...)
	shift := int64(len(whole)) - heapOffsets[0]
	handle = inlineKeyGroups(metadata.KeyGroupsV2, file, 54, heapOffsets[0]+shift, heapOffsets[1]+shift)
	got = lines(t, handle, Options{MaxParallelism: 128})
	if len(got) != 4 || got[0] != richLines[4] ||
		!strings.HasPrefix(got[1], `state "state#3 (unknown)", key group 54, 2 entries lost: `) ||
		!strings.Contains(got[2], "(v, state#2 (unknown), state#4 (unknown))") {
		t.Error(strings.Join(got, "\n"))
	}
	// Compressed ones can be told apart by their streams.
	whole[4] = 1
	heap, heapOffsets = heapFile(t, true)
	file = append(bytes.Clone(whole), heap[heapOffsets[0]:]...)
	got = lines(t, inlineKeyGroups(metadata.KeyGroupsV2, file, 54, heapOffsets[0]+shift, heapOffsets[1]+shift), Options{MaxParallelism: 128})
	if len(got) != 7 || got[0] != richLines[4] || got[2] != richLines[0] || got[3] != richLines[1] {
		t.Error(strings.Join(got, "\n"))
	}
}

// TestOpaque reads values, keys and namespaces by Kryo, which have no length.
func TestOpaque(t *testing.T) {
	kryo := &serializer.Snapshot{Class: kryoClass, Version: 2, Body: serializer.Unread("")}
	str, void := simple(stringClass), simple(voidNamespace)
	state := func(typ Type, key, namespace, userKey *serializer.Snapshot) *State {
		value := str
		if userKey != nil {
			value = nested(mapClass, 1, userKey, str)
		}
		m := keyValue("s", typ, value, namespace)
		s := NewState(&m, key)
		s.keys = newComposite(s, false, false) // Kryo's length is known to vary
		return s
	}
	cases := []struct {
		name                    string
		state                   *State
		in                      string
		key, namespace, userKey string
		unsplit, joined         bool
	}{
		{"key", state(TypeValue, kryo, void, nil), "abc\x00", "abc", "\x00", "", false, false},
		{"key and a namespace of varying length", state(TypeValue, kryo, str, nil), "abc\x03\x03xy\x03", "abc", "\x03xy", "", false, false},
		{"key and namespace", state(TypeValue, kryo, kryo, nil), "abc\x03defg\x04", "abc", "defg", "", false, false},
		{"long key and namespace", state(TypeValue, kryo, kryo, nil), strings.Repeat("k", 302) + "\x2e\x01" + strings.Repeat("n", 256) + "\x00\x01", strings.Repeat("k", 302), strings.Repeat("n", 256), "", false, false},
		{"namespace", state(TypeValue, str, kryo, nil), "\x02a\x02xyz\x03", "\x02a", "xyz", "", false, false},
		{"namespace after a key of fixed length", state(TypeValue, simple(longClass), kryo, nil), "12345678xyz", "12345678", "xyz", "", false, false},
		{"key of a map", state(TypeMap, kryo, void, str), "abc\x00\x02u", "abc\x00\x02u", "", "", true, false},
		{"key of a map with user keys of fixed length", state(TypeMap, kryo, void, simple(longClass)), "abc\x0012345678", "abc", "\x00", "12345678", false, false},
		{"namespace of a map", state(TypeMap, str, kryo, str), "\x02a\x02xyz\x03\x02u", "\x02a", "xyz\x03\x02u", "", false, true},
		{"namespace of a map with user keys of fixed length", state(TypeMap, str, kryo, simple(longClass)), "\x02a\x02xyz\x0312345678", "\x02a", "xyz", "12345678", false, false},
		{"user key", state(TypeMap, str, str, kryo), "\x02a\x02\x03xy\x03user", "\x02a", "\x03xy", "user", false, false},
	}
	for _, c := range cases {
		e := &Entry{State: c.state, in: serializer.NewInput(nil)}
		if err := e.split([]byte(c.in)); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if string(e.Key) != c.key || string(e.Namespace) != c.namespace || string(e.UserKey) != c.userKey || e.Unsplit != c.unsplit || e.Joined != c.joined {
			t.Errorf("%s: %q %q %q %t %t", c.name, e.Key, e.Namespace, e.UserKey, e.Unsplit, e.Joined)
		}
	}
}

// TestDecodeErrors: the error of a part never ends the sequence.
func TestDecodeErrors(t *testing.T) {
	str, void := simple(stringClass), simple(voidNamespace)
	h := &KeyedHeader{Version: 6, Key: simple(longClass), States: []StateMeta{
		keyValue("v", TypeValue, simple(longClass), void),
		keyValue("l", TypeList, nested(listClass, 1, simple(longClass)), void),
		keyValue("m", TypeMap, nested(mapClass, 1, str, str), void),
	}}
	file := headerBytes(t, h)
	offset := int64(len(file))
	key := joinBytes(long(1), []byte{0})
	file = canonical(t, file, 1, 0, false, []run{
		{0, []pair{{key, long(1)[:7]}, {key, append(long(1), 9)}, {key, long(4)}}},
		{1, []pair{{key, joinBytes(long(1), []byte{','})}, {key, joinBytes(long(1), []byte{';'}, long(2))}, {key, nil}}},
		{2, []pair{{append(key, "\x02ab"...), append([]byte{0}, "\x02a"...)}, {append(key, "\x02a"...), []byte{2}}, {key[:8], []byte{1}}}},
	})
	handle := inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 0, offset)
	got := lines(t, handle, Options{MaxParallelism: 1})
	want := []string{
		"file ends at byte 7 of at least 8", "1 bytes follow", `0 v 1 "VoidNamespace" null 4`,
		"comma at the end", "byte 0x3b between elements", `0 l 1 "VoidNamespace" null []`,
		"1 bytes follow", "no flag", "namespace: ",
	}
	for i, w := range want {
		if i >= len(got) || !strings.Contains(got[i], w) {
			t.Errorf("line %d is %v, want %s", i, got[min(i, len(got)-1)], w)
		}
	}
	r, err := OpenKeyed(context.Background(), Files{}, handle, Options{MaxParallelism: 1})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range r.Entries(context.Background(), Filter{State: func(s *State) bool { return s.Meta.Name == "v" }}) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := e.DecodeValue()
		text, err2 := e.AppendValueJSON([]byte("x"))
		if (err == nil) != (err2 == nil) || string(text) != "x"+string(serializer.AppendJSON(nil, v)) {
			t.Errorf("%v %v, %s %v", v, err, text, err2)
		}
	}
}
