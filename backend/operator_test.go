package backend

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

func listState(name, mode string, value *serializer.Snapshot) StateMeta {
	return StateMeta{Name: name, Kind: KindOperator, Options: []Option{{OptionDistributionMode, mode}}, Serializers: []NamedSnapshot{{SerializerValue, value}}}
}

func broadcastState(name string, key, value *serializer.Snapshot) StateMeta {
	return StateMeta{
		Name: name, Kind: KindBroadcast, Options: []Option{{OptionDistributionMode, "BROADCAST"}},
		Serializers: []NamedSnapshot{{SerializerValue, value}, {SerializerKey, key}},
	}
}

// operatorFile writes a file of operator state with the handle for it. Each
// part is what an offset points to.
type operatorFile struct {
	t      testing.TB
	zip    bool
	data   []byte
	handle metadata.OperatorState
}

func newOperatorFile(t testing.TB, h *OperatorHeader) *operatorFile {
	f := &operatorFile{t: t, zip: h.Compressed, data: headerBytes(t, h)}
	if f.zip {
		f.data = append(f.data, identifier...)
	}
	return f
}

func (f *operatorFile) add(name string, mode metadata.Mode, parts ...[]byte) {
	o := metadata.StateOffsets{Name: metadata.Text(name), Mode: mode}
	for _, p := range parts {
		o.Offsets = append(o.Offsets, int64(len(f.data)))
		if f.zip {
			p = bytes.TrimPrefix(compressed(f.t, p), []byte(identifier))
		}
		f.data = append(f.data, p...)
	}
	f.handle.States = append(f.handle.States, o)
	f.handle.Delegate = &metadata.ByteStream{Name: "inline", Data: f.data}
}

// allKinds is operator state of every kind.
func allKinds(t testing.TB, version int32, zip bool) *operatorFile {
	f := newOperatorFile(t, &OperatorHeader{
		Version: version, Compressed: zip,
		Operator: []StateMeta{
			listState("list", "SPLIT_DISTRIBUTE", simple(stringClass)),
			listState("empty", "SPLIT_DISTRIBUTE", simple(longClass)),
			listState("union", "UNION", simple(longClass)),
			listState("not in the handle", "UNION", simple(longClass)),
		},
		Broadcast: []StateMeta{
			broadcastState("rules", simple(stringClass), simple(intClass)),
			broadcastState("no rules", simple(stringClass), simple(intClass)),
		},
	})
	f.add("union", metadata.ModeUnion, long(1), long(-2))
	f.add("rules", metadata.ModeBroadcast, joinBytes([]byte{0, 0, 0, 3}, text("a"), []byte{0, 0, 0, 1}, text("b"), []byte{0, 0, 0, 2}, text("c"), []byte{0xff, 0xff, 0xff, 0xff}))
	f.add("list", metadata.ModeSplit, text(strings.Repeat("x", 100)), []byte{2, 0xe9, 1}, text(""))
	f.add("empty", metadata.ModeSplit)
	f.add("no rules", metadata.ModeBroadcast, []byte{0, 0, 0, 0})
	return f
}

func TestOperator(t *testing.T) {
	for _, c := range []struct {
		version int32
		zip     bool
	}{{5, false}, {6, false}, {6, true}} {
		f := allKinds(t, c.version, c.zip)
		wantLines(t, operatorLines(t, &f.handle, Options{}),
			`list 0 null "`+strings.Repeat("x", 100)+`"`, `list 1 null "é"`, `list 2 null ""`,
			"union 0 null 1", "union 1 null -2",
			`rules 0 "a" 1`, `rules 1 "b" 2`, `rules 2 "c" -1`)
	}
}

// TestOperatorEmpty: a stream without any data, and none at all.
func TestOperatorEmpty(t *testing.T) {
	f := newOperatorFile(t, &OperatorHeader{Version: 6, Compressed: true})
	f.handle.Delegate = &metadata.ByteStream{Name: "inline", Data: f.data}
	wantLines(t, operatorLines(t, &f.handle, Options{}))
	f.handle.Delegate = &metadata.ByteStream{Name: "inline", Data: f.data[:len(f.data)-1]}
	if _, err := OpenOperator(context.Background(), Files{}, &f.handle, Options{}); err == nil {
		t.Error("no error")
	}
	wantLines(t, operatorLines(t, &metadata.OperatorState{Delegate: &metadata.EmptySegment{}}, Options{}))
}

// TestOperatorOpaque: values by Kryo have no length, but elements of a list do.
func TestOperatorOpaque(t *testing.T) {
	kryo := custom("")
	f := newOperatorFile(t, &OperatorHeader{
		Version:   6,
		Operator:  []StateMeta{listState("list", "SPLIT_DISTRIBUTE", kryo)},
		Broadcast: []StateMeta{broadcastState("one", simple(stringClass), kryo), broadcastState("two", simple(stringClass), kryo)},
	})
	f.add("list", metadata.ModeSplit, []byte("abc"), []byte("de"))
	f.add("one", metadata.ModeBroadcast, joinBytes([]byte{0, 0, 0, 1}, text("k"), []byte("value")))
	f.add("two", metadata.ModeBroadcast, joinBytes([]byte{0, 0, 0, 2}, text("k"), []byte("value"), text("l"), []byte("value")))
	r, err := OpenOperator(context.Background(), Files{}, &f.handle, Options{})
	if err != nil || r.HeaderErr() != nil {
		t.Fatal(err, r.HeaderErr())
	}
	var got []string
	for e, err := range r.Entries(context.Background(), nil) {
		if err != nil {
			var lost *LostError
			if !errors.As(err, &lost) || lost.State != "two" || lost.Entries != 2 || !errors.Is(err, serializer.ErrUnsupported) {
				t.Error(err)
			}
			continue
		}
		v, err := e.DecodeValue()
		if o, ok := v.(serializer.Opaque); err != nil || !ok || o.Class != kryo.Class {
			t.Errorf("%#v %v", v, err)
		}
		got = append(got, e.State.Name+" "+string(e.Value))
	}
	wantLines(t, got, "list abc", "list de", "one value")
}

// TestOperatorLostHeader: behind the place where the header cannot be read,
// the handle names the states.
func TestOperatorLostHeader(t *testing.T) {
	f := allKinds(t, 6, false)
	i := bytes.Index(f.data, []byte("LongSerializer$"))
	f.data[i] = 'X'
	f.data[6]++ // a state more than there are, so that no end fits
	r, err := OpenOperator(context.Background(), Files{}, &f.handle, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.HeaderErr(); err == nil || !strings.Contains(err.Error(), `state "empty".VALUE_SERIALIZER`) {
		t.Error(err)
	}
	var got []string
	for e, err := range r.Entries(context.Background(), nil) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, e.State.Name)
	}
	if len(got) != 7 || got[0] != "list" || got[3] != "union" || !strings.HasPrefix(got[5], `state "rules", entries lost: `) {
		t.Error(got)
	}
}

func TestOperatorDamage(t *testing.T) {
	lost := func(f *operatorFile, o Options) (lost []string) {
		for _, l := range operatorLines(t, &f.handle, o) {
			if strings.Contains(l, "lost") {
				lost = append(lost, l)
			}
		}
		return lost
	}
	cases := []struct {
		damage func(f *operatorFile)
		want   string
	}{
		{func(f *operatorFile) { f.handle.States[0].Mode = metadata.ModeSplit }, `state "union", 2 entries lost: inline: corrupt: mode SPLIT_DISTRIBUTE in the handle, UNION in the file`},
		{func(f *operatorFile) { f.handle.States[0].Name = "other" }, `state "other", 2 entries lost: inline: corrupt: the file's header does not have the state of the handle`},
		{func(f *operatorFile) { f.handle.States[3].Name = "union" }, `state "union", 0 entries lost: inline: corrupt: the handle has the state a second time`},
		{func(f *operatorFile) { f.handle.States[0].Offsets[1] = 1 << 40 }, `state "union", 1 entry lost: inline: corrupt: an entry at offset 1099511627776 of `},
		{func(f *operatorFile) { f.handle.States[0].Offsets[1] = f.handle.States[1].Offsets[0] }, `state "union", 1 entry lost: inline: corrupt: entries of two states at offset `},
		{func(f *operatorFile) { f.data[f.handle.States[1].Offsets[0]+3] = 2 }, ``},
		{func(f *operatorFile) { f.data[f.handle.States[1].Offsets[0]+3] = 4 }, `state "rules", 1 entry lost: inline: `},
		{func(f *operatorFile) { f.data[f.handle.States[4].Offsets[0]] = 0x80 }, `state "no rules", entries lost: inline: offset `},
	}
	for i, c := range cases {
		f := allKinds(t, 6, false)
		c.damage(f)
		if got := lost(f, Options{}); c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("case %d: %q", i, got)
		}
	}
}

func TestRawOperator(t *testing.T) {
	h := &metadata.OperatorState{
		States:   []metadata.StateOffsets{{Name: "_default_", Mode: metadata.ModeSplit, Offsets: []int64{0, 3, 3, 5}}},
		Delegate: &metadata.ByteStream{Name: "inline", Data: []byte("abcdefg")},
	}
	r, err := OpenOperator(context.Background(), Files{}, h, Options{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range r.Entries(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Value))
		if v, err := e.DecodeValue(); err != nil || string(v.(serializer.Opaque).Raw) != string(e.Value) {
			t.Error(v, err)
		}
	}
	wantLines(t, got, "abc", "", "de", "fg")
	if r.Header() != nil || r.States()[0].Meta != nil {
		t.Error("raw state has no header")
	}
}
