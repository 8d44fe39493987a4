package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// rawGroup is a key group of raw timers of version 2.
func rawGroup(t testing.TB, timers ...string) []byte {
	out := serializer.NewOutput(fromHex(t, "f1cd859f 00000002 00000001"))
	out.UTF("user-timers")
	simple(longClass).Write(out)
	simple(voidNamespace).Write(out)
	out.I32(int32(len(timers)))
	for _, timer := range timers {
		out.Raw(fromHex(t, timer))
	}
	out.I32(0)
	return out.Bytes()
}

// TestRawTimers has gaps: groups that were never written, and written out of order (D32).
func TestRawTimers(t *testing.T) {
	a := rawGroup(t, "0000000000000007 00 00000000000003e8", "0000000000000008 00 fffffffffffffffb")
	b := rawGroup(t)
	file := joinBytes(a, b)
	h := inlineKeyGroups(metadata.KeyGroupsV2, file, 10, -1, int64(len(a)), -1, 0, -1)
	o := Options{MaxParallelism: 128, Raw: true}
	want := []string{
		`13 _timer_state/event_user-timers 7 "VoidNamespace" null null @1000`,
		`13 _timer_state/event_user-timers 8 "VoidNamespace" null null @-5`,
	}
	wantLines(t, lines(t, h, o), want...)
	r, err := OpenKeyed(context.Background(), Files{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Format() != "raw timers" || len(r.States()) != 2 || !r.States()[1].Raw || r.States()[1].Meta.Name != "_timer_state/processing_user-timers" || r.Header() != nil {
		t.Errorf("%s %v", r.Format(), r.States())
	}
	if got := raws(t, r, Filter{KeyGroups: []keygroup.Range{{Start: 0, End: 12}, {Start: 14, End: 127}}}); len(got) != 0 {
		t.Error(got)
	}
	// A key group outside the file is lost, the others are not.
	h = inlineKeyGroups(metadata.KeyGroupsV2, file, 10, -1, 1<<40, -1, 0, int64(len(a)))
	got := lines(t, h, o)
	if len(got) != 3 || !strings.HasPrefix(got[0], "key group 11, entries lost: inline: corrupt: begins at offset") {
		t.Error(got)
	}
	wantLines(t, got[1:], want...)
}

// TestRawBytes: what an operator wrote, with a key group of no bytes and a large one.
func TestRawBytes(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), rawChunk/16+1)
	file := append([]byte("abc"), large...)
	h := inlineKeyGroups(metadata.KeyGroupsV2, file, 0, 0, 3, -1, 3)
	r, err := OpenKeyed(context.Background(), Files{}, h, Options{MaxParallelism: 128, Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range r.Entries(context.Background(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %d %.3s", e.KeyGroup, e.State.Meta.Name, len(e.Value), e.Value))
		if v, err := e.DecodeValue(); err != nil || !bytes.Equal(v.(serializer.Opaque).Raw, e.Value) {
			t.Error(err)
		}
	}
	wantLines(t, got, "0 raw 3 abc", "3 raw 1048576 012", "3 raw 16 012")
}

func TestFiles(t *testing.T) {
	ctx := context.Background()
	mem := storage.NewMemory()
	for uri, data := range map[string]string{"file:/snap/own": "own file", "file:/other": "secret", "file:/merged": "aabbbcc"} {
		if err := storage.WriteFile(ctx, mem, uri, []byte(data), storage.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	files := Files{FS: mem, Dir: "file:/snap"}
	cases := []struct {
		stream metadata.Stream
		want   string // "" for an error
	}{
		{&metadata.ByteStream{Name: "file:/other", Data: []byte("inline")}, "inline"},
		{&metadata.File{Path: "file:/other", Size: 6}, "secret"},
		{&metadata.RelativeFile{Path: "own", Size: 8}, "own file"},
		{&metadata.RelativeFile{Path: "../other", Size: 6}, ""},
		{&metadata.Segment{Path: "file:/merged", Start: 2, Size: 3}, "bbb"},
		{&metadata.Segment{Path: "file:/merged", Start: 2, Size: 6}, ""},
		{&metadata.Segment{Path: "file:/merged", Start: -1, Size: 2}, ""},
		{&metadata.Segment{Path: "file:/merged", Start: 1 << 62, Size: 1 << 62}, ""},
		{&metadata.Segment{Path: "file:/nowhere", Start: 0, Size: 0}, ""},
		{&metadata.KeyGroupsStream{Delegate: &metadata.Segment{Path: "file:/merged", Start: 0, Size: 2}}, "aa"},
		{nil, ""},
	}
	for i, c := range cases {
		obj, err := files.Open(ctx, c.stream)
		if c.want == "" {
			if err == nil {
				t.Errorf("case %d: no error", i)
			}
			continue
		}
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		if got := readObject(t, obj); got != c.want || obj.Size() != int64(len(c.want)) {
			t.Errorf("case %d: %q", i, got)
		}
		if err := obj.Close(); err != nil {
			t.Error(err)
		}
	}
	obj, err := files.Open(ctx, &metadata.EmptySegment{})
	if err != nil || obj.Size() != 0 {
		t.Error(err)
	}
}

// readObject reads an object both ways, from its second byte and from its first.
func readObject(t *testing.T, obj storage.Object) string {
	t.Helper()
	r, err := obj.Reader(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var tail bytes.Buffer
	if _, err := tail.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, obj.Size())
	if n, err := obj.ReadAt(b, 0); n != len(b) {
		t.Fatal(n, err)
	}
	if n, err := obj.ReadAt(make([]byte, 10), obj.Size()-1); n != 1 || err == nil {
		t.Error(n, err)
	}
	if tail.String() != string(b[1:]) {
		t.Errorf("%q and %q", b, tail.String())
	}
	return string(b)
}

// TestCancelled: a sequence ends with the context's error.
func TestCancelled(t *testing.T) {
	file, offsets := richFile(t, false)
	r, err := OpenKeyed(context.Background(), Files{}, inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 54, offsets...), Options{MaxParallelism: 128})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := 0
	for _, err := range r.Entries(ctx, Filter{}) {
		n++
		var lost *LostError
		if !errors.Is(err, context.Canceled) || errors.As(err, &lost) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d times", n)
	}
}
