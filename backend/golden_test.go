package backend

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// goldenHeader is the header of a file that Flink 1.20.5 and 2.3.0 restored
// into both backends: keys are Long, the state "val" is a value of String. It has 369 bytes.
func goldenHeader(t testing.TB) []byte {
	var b []byte
	text := func(s string) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	raw := func(s string) { b = append(b, fromHex(t, s)...) }
	raw("00000006 00 00000002")
	text(longClass)
	raw("00000003 0001")
	text("val")
	raw("00000000 00000001")
	text("KEYED_STATE_TYPE")
	text("VALUE")
	raw("00000002")
	text("VALUE_SERIALIZER")
	raw("00000002")
	text(stringClass)
	raw("00000003")
	text("NAMESPACE_SERIALIZER")
	raw("00000002")
	text(voidNamespace)
	raw("00000003")
	return b
}

// line is an entry in words.
func line(e *Entry) string {
	s := fmt.Sprintf("%d %s", e.KeyGroup, e.State.Meta.Name)
	for _, part := range []func([]byte) ([]byte, error){e.AppendKeyJSON, e.AppendNamespaceJSON, e.AppendUserKeyJSON, e.AppendValueJSON} {
		text, err := part(nil)
		if err != nil {
			return err.Error()
		}
		s += " " + string(text)
	}
	if e.State.Type == TypeTimers {
		s += fmt.Sprintf(" @%d", e.Timestamp)
	}
	return s
}

// lines reads all entries in words, errors included.
func lines(t testing.TB, h metadata.Keyed, o Options) (all []string) {
	t.Helper()
	r, err := OpenKeyed(context.Background(), Files{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, line(e))
	}
	return all
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d is\n%s\nwant\n%s", i, g, w)
		}
	}
}

func TestGoldenCanonical(t *testing.T) {
	data := goldenHeader(t)
	if len(data) != 369 {
		t.Fatalf("header of %d bytes", len(data))
	}
	data = append(data, fromHex(t, `
		0000
		0000000a 9d 000000000000002a 00
		00000003 03 68 69
		ffff`)...)
	if len(data) != 394 {
		t.Fatalf("file of %d bytes", len(data))
	}
	o := Options{MaxParallelism: 128}
	for _, form := range []metadata.KeyGroupsForm{metadata.KeyGroupsSavepoint, metadata.KeyGroupsV1, metadata.KeyGroupsV2} {
		h := inlineKeyGroups(form, data, 29, 369)
		r, err := OpenKeyed(context.Background(), Files{}, h, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Format() != "canonical" {
			t.Errorf("form %d is read as %s", form, r.Format())
		}
		wantLines(t, lines(t, h, o), `29 val 42 "VoidNamespace" null "hi"`)
	}
}

func TestGoldenHeap(t *testing.T) {
	data := append(goldenHeader(t), fromHex(t, "0000001d 0000 00000001 00 000000000000002a 03 6869")...)
	h := inlineKeyGroups(metadata.KeyGroupsV2, data, 29, 369)
	o := Options{MaxParallelism: 128}
	r, err := OpenKeyed(context.Background(), Files{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Format() != "heap" {
		t.Errorf("read as %s", r.Format())
	}
	wantLines(t, lines(t, h, o), `29 val 42 "VoidNamespace" null "hi"`)
}

func TestGoldenKeyedHeader(t *testing.T) {
	data := goldenHeader(t)
	in := serializer.NewInput(data)
	h := ReadKeyedHeader(in)
	if in.Err() != nil || !in.AtEnd() {
		t.Fatal(in.Err(), in.Remaining())
	}
	if h.Version != 6 || h.Compressed || len(h.States) != 1 || h.Key.Class != longClass {
		t.Errorf("%+v", h)
	}
	m := h.States[0]
	if m.Name != "val" || m.Kind != KindKeyValue || m.Option(OptionStateType) != "VALUE" || m.Serializer(SerializerValue).Class != stringClass {
		t.Errorf("%+v", m)
	}
	if !bytes.Equal(headerBytes(t, h), data) {
		t.Error("written as other bytes")
	}
}

// goldenOperator is a file that both releases restored.
func goldenOperator(t testing.TB) ([]byte, *metadata.OperatorState) {
	h := &OperatorHeader{
		Version: 6,
		Operator: []StateMeta{{
			Name: "split-strings", Kind: KindOperator, Options: []Option{{OptionDistributionMode, "SPLIT_DISTRIBUTE"}},
			Serializers: []NamedSnapshot{{SerializerValue, simple(stringClass)}},
		}},
		Broadcast: []StateMeta{{
			Name: "bcast", Kind: KindBroadcast, Options: []Option{{OptionDistributionMode, "BROADCAST"}},
			Serializers: []NamedSnapshot{{SerializerValue, simple(intClass)}, {SerializerKey, simple(stringClass)}},
		}},
	}
	data := headerBytes(t, h)
	if len(data) != 480 {
		t.Fatalf("header of %d bytes", len(data))
	}
	data = append(data, fromHex(t, "03 7331 | 02 e901 | 00000001 02 6b 00000007")...)
	return data, &metadata.OperatorState{
		States: []metadata.StateOffsets{
			{Name: "split-strings", Mode: metadata.ModeSplit, Offsets: []int64{480, 483}},
			{Name: "bcast", Mode: metadata.ModeBroadcast, Offsets: []int64{486}},
		},
		Delegate: &metadata.ByteStream{Name: "inline", Data: data},
	}
}

// operatorLines reads all entries in words, errors included.
func operatorLines(t testing.TB, h *metadata.OperatorState, o Options) (all []string) {
	t.Helper()
	r, err := OpenOperator(context.Background(), Files{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(context.Background(), nil) {
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		key, err1 := e.AppendKeyJSON(nil)
		value, err2 := e.AppendValueJSON(nil)
		if err := errors.Join(err1, err2); err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, fmt.Sprintf("%s %d %s %s", e.State.Name, e.Index, key, value))
	}
	return all
}

func TestGoldenOperator(t *testing.T) {
	_, h := goldenOperator(t)
	wantLines(t, operatorLines(t, h, Options{}), `split-strings 0 null "s1"`, `split-strings 1 null "é"`, `bcast 0 "k" 7`)
}
