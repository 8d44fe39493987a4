package fuzz

import (
	"bytes"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
)

// FuzzHeader reads any bytes as headers of keyed and of operator state, of
// whatever version. What is read to its end is written as it was.
func FuzzHeader(f *testing.F) {
	for _, object := range []string{
		"\xac\xed\x00\x05sr\x009org.apache.flink.api.common.typeutils.base.LongSerializer\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00xp",
		"\xac\xed\x00\x05p",
	} {
		framed := func(s string) string {
			out := serializer.NewOutput(nil)
			out.I32(1)
			out.Bytes32([]byte(s))
			return string(out.Bytes())
		}
		pairs := func(n int) string {
			out, all := serializer.NewOutput(nil), serializer.NewOutput(nil)
			out.I32(int32(n))
			for range n {
				out.I32(int32(all.Len()))
				all.Raw([]byte(framed(object)))
				out.I32(int32(all.Len()))
				all.I32(1)
				all.UTF("org.apache.flink.api.common.typeutils.ParameterlessTypeSerializerConfig")
				all.I32(1)
				all.UTF("x")
			}
			out.Bytes32(all.Bytes())
			return string(out.Bytes())
		}
		const one, state = "\x00\x01", "\x00\x00\x00\x01\x00\x01s"
		f.Add([]byte("\x00\x00\x00\x01" + framed(object) + one + state + framed(object) + framed(object)))
		f.Add([]byte("\x00\x00\x00\x03" + pairs(1) + one + state + pairs(2)))
		f.Add([]byte("\x00\x00\x00\x04\x00" + pairs(1) + one + state + pairs(2)))
		f.Add([]byte("\x00\x00\x00\x05\x00" + pairs(1) + one + "\x00\x01s\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01a\x00\x01b" + pairs(2)))
		f.Add([]byte("\x00\x00\x00\x01" + one + "\x00\x01s\x00" + object + "\x00\x00\x00\x01"))
		f.Add([]byte("\x00\x00\x00\x03" + one + "\x00\x01s\x00" + pairs(1) + one + "\x00\x01b\x02" + pairs(2)))
	}
	f.Add([]byte("\x00\x00\x00\x06\x00\x00\x00\x00\x02\x00\x50org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot\x00\x00\x00\x03\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(in *serializer.Input, h interface{ Write(*serializer.Output) }) {
			if in.Err() != nil {
				return
			}
			var out serializer.Output
			if h.Write(&out); out.Err() != nil || !bytes.Equal(out.Bytes(), data[:in.Offset()]) {
				t.Fatalf("%x is written as %x; %v", data[:in.Offset()], out.Bytes(), out.Err())
			}
		}
		in := serializer.NewInput(data)
		keyed := backend.ReadKeyedHeader(in)
		check(in, keyed)
		in.Reset(data)
		check(in, backend.ReadOperatorHeader(in))
		in.ResetStream(bytes.NewReader(data), 0)
		again := backend.ReadKeyedHeader(in)
		if (keyed == nil) != (again == nil) || keyed != nil && len(keyed.States) != len(again.States) {
			t.Fatal("a stream is read otherwise")
		}
		if keyed == nil {
			return
		}
		for i := range keyed.States {
			for _, s := range keyed.States[i].Serializers {
				_ = s.Snapshot.String()
				serializer.Of(s.Snapshot).Read(serializer.NewInput(data))
			}
		}
	})
}
