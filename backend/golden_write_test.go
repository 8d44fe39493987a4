package backend

import (
	"bytes"
	"errors"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/serializer"
)

// TestKeyedGolden writes the files that Flink 1.20.5 and 2.3.0 restored, see goldenHeader.
func TestKeyedGolden(t *testing.T) {
	h := ReadKeyedHeader(serializer.NewInput(goldenHeader(t)))
	r := keygroup.Range{Start: 29, End: 29}
	key, namespace, value := long(42), []byte{0}, text("hi")

	var out bytes.Buffer
	c := NewCanonicalWriter(&out, h, r, 128)
	if err := errors.Join(c.StartKeyGroup(29), c.Entry(0, AppendComposite(nil, false, key, namespace, nil), value)); err != nil {
		t.Fatal(err)
	}
	offsets, size, err := c.Close()
	want := append(goldenHeader(t), fromHex(t, "0000 | 0000000a 9d 000000000000002a 00 | 00000003 03 68 69 | ffff")...)
	if err != nil || size != 394 || offsets.Start != 29 || offsets.Offsets[0] != 369 || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("canonical: %v, %d bytes, %v:\n%x\nwant\n%x", offsets, size, err, out.Bytes(), want)
	}

	out.Reset()
	w := NewHeapWriter(&out, h, r)
	if err := errors.Join(w.StartKeyGroup(29), w.StartState(0, 1), w.Entry(namespace, key, value)); err != nil {
		t.Fatal(err)
	}
	offsets, size, err = w.Close()
	want = append(goldenHeader(t), fromHex(t, "0000001d 0000 00000001 00 000000000000002a 03 6869")...)
	if err != nil || size != int64(len(want)) || offsets.Start != 29 || offsets.Offsets[0] != 369 || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("heap: %v, %d bytes, %v:\n%x\nwant\n%x", offsets, size, err, out.Bytes(), want)
	}
}

// TestComposite compares with keys and timers that Flink wrote.
func TestComposite(t *testing.T) {
	str, number, void := serializer.Of(simple(stringClass)), serializer.Of(simple(longClass)), serializer.Of(simple(voidNamespace))
	key, userKey := text("key-1"), text("mk1")
	long302 := bytes.Repeat([]byte{'x'}, 302)
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"empty namespace", AppendComposite(nil, Ambiguous(str, str), key, text(""), nil), "066b65792d31 06 01 01"},
		{"namespace", AppendComposite(nil, Ambiguous(str, str), key, text("ns-1"), nil), "066b65792d31 06 056e732d31 05"},
		{"user key", AppendComposite(nil, Ambiguous(str, str), key, text("ns-1"), userKey), "066b65792d31 06 056e732d31 05 046d6b31"},
		{"no namespace", AppendComposite(nil, Ambiguous(str, void), key, []byte{0}, userKey), "066b65792d31 00 046d6b31"},
		{"key of fixed length", AppendComposite(nil, Ambiguous(number, str), long(42), text("ns-1"), nil), "000000000000002a 056e732d31"},
		{"long key", AppendComposite(nil, true, long302, nil, nil)[302:], "2e01 00"},
		{"timer", AppendTimer(nil, 5, text("k"), []byte{0}), "8000000000000005 026b 00"},
		{"timer before 1970", AppendTimer(nil, -5, text("k"), []byte{0}), "7ffffffffffffffb 026b 00"},
		{"key group", AppendKeyGroup(nil, 54, 128), "36"},
		{"key group of many", AppendKeyGroup(nil, 54, 129), "0036"},
	} {
		if want := fromHex(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%s: %x, want %x", c.name, c.got, want)
		}
	}
}

// TestNoEntries: key groups without entries take no bytes in a canonical
// file, and an empty block of each state in one of the heap backend.
func TestNoEntries(t *testing.T) {
	h := ReadKeyedHeader(serializer.NewInput(goldenHeader(t)))
	var out bytes.Buffer
	c := NewCanonicalWriter(&out, h, keygroup.Range{Start: 1, End: 2}, 128)
	if err := c.StartKeyGroup(2); err != nil {
		t.Fatal(err)
	}
	offsets, _, err := c.Close()
	if err != nil || len(offsets.Offsets) != 2 || offsets.Offsets[0] != 0 || offsets.Offsets[1] != 0 || !bytes.Equal(out.Bytes(), goldenHeader(t)) {
		t.Errorf("canonical: %v, %v, %d bytes", offsets, err, out.Len())
	}
	out.Reset()
	offsets, _, err = NewHeapWriter(&out, h, keygroup.Range{Start: 1, End: 2}).Close()
	want := fromHex(t, "00000001 0000 00000000 | 00000002 0000 00000000")
	if err != nil || len(offsets.Offsets) != 2 || offsets.Offsets[0] != 369 || offsets.Offsets[1] != 379 || !bytes.Equal(out.Bytes()[369:], want) {
		t.Errorf("heap: %v, %v, %x", offsets, err, out.Bytes()[369:])
	}
	for zip, tail := range map[bool]string{false: "", true: identifier} {
		out.Reset()
		oh := &OperatorHeader{Version: 6, Compressed: zip, Operator: []StateMeta{{Name: "list", Kind: KindOperator}}}
		states, size, err := NewOperatorWriter(&out, oh).Close()
		if err != nil || len(states) != 1 || len(states[0].Offsets) != 0 || out.String() != string(headerBytes(t, oh))+tail || size != int64(out.Len()) {
			t.Errorf("operator, compressed %t: %v, %v, %x", zip, states, err, out.Bytes())
		}
	}
}

// TestOperatorGolden writes the file that both releases restored.
func TestOperatorGolden(t *testing.T) {
	want, h := goldenOperator(t)
	var out bytes.Buffer
	w := NewOperatorWriter(&out, ReadOperatorHeader(serializer.NewInput(want)))
	err := errors.Join(w.Element(0, text("s1")), w.Element(0, []byte{2, 0xe9, 1}), w.StartBroadcast(0, 1), w.BroadcastEntry(text("k"), []byte{0, 0, 0, 7}))
	if err != nil {
		t.Fatal(err)
	}
	states, size, err := w.Close()
	if err != nil || size != int64(len(want)) || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%x, %d bytes, %v", out.Bytes(), size, err)
	}
	sameOffsets(t, "golden", false, states, h.States)
}
