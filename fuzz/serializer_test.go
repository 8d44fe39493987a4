package fuzz

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drey-state/drey/serializer"
)

// flinkValues gives the snapshots and values that Flink wrote.
func flinkValues(f *testing.F, add func(snapshot, value []byte)) {
	data, err := os.ReadFile("../serializer/testdata/values.tsv")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		snapshot, err := hex.DecodeString(fields[1])
		if err != nil {
			f.Fatal(err)
		}
		value, err := hex.DecodeString(strings.TrimPrefix(fields[2], "-"))
		if err != nil {
			f.Fatal(err)
		}
		add(snapshot, value)
	}
}

// FuzzSnapshot reads any bytes as a snapshot. What is read is written as it was.
func FuzzSnapshot(f *testing.F) {
	flinkValues(f, func(snapshot, _ []byte) { f.Add(snapshot) })
	f.Fuzz(func(t *testing.T, data []byte) {
		in := serializer.NewInput(data)
		s := serializer.ReadSnapshot(in)
		if s == nil {
			if in.Err() == nil {
				t.Fatal("no snapshot and no error")
			}
			return
		}
		var out serializer.Output
		if s.Write(&out); out.Err() != nil || !bytes.Equal(out.Bytes(), data[:in.Offset()]) {
			t.Fatalf("%x is written as %x; %v", data[:in.Offset()], out.Bytes(), out.Err())
		}
		_ = s.String()
		serializer.Of(s).Read(serializer.NewInput(data))
	})
}

// FuzzValue reads any bytes as a value of any of the types. All ways to read
// it agree, from a slice and from a stream.
func FuzzValue(f *testing.F) {
	var types []serializer.Serializer
	flinkValues(f, func(snapshot, value []byte) {
		f.Add(uint(len(types)), value)
		types = append(types, serializer.Of(serializer.ReadSnapshot(serializer.NewInput(snapshot))))
	})
	f.Fuzz(func(t *testing.T, which uint, value []byte) {
		s := types[which%uint(len(types))]
		in := serializer.NewInput(value)
		v := s.Read(in)
		text := serializer.AppendJSON(nil, v)
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("not JSON: %s", text)
		}
		direct := serializer.NewInput(value)
		got := serializer.AppendRead(nil, s, direct)
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		if (in.Err() == nil) != (direct.Err() == nil) {
			t.Fatalf("read: %v; straight to JSON: %v", in.Err(), direct.Err())
		}
		if in.Err() != nil {
			s.Skip(serializer.NewInput(value))
			return
		}
		if !bytes.Equal(got, text) || direct.Offset() != in.Offset() {
			t.Fatalf("straight to JSON: %s at %d, not %s at %d", got, direct.Offset(), text, in.Offset())
		}
		skipped := serializer.NewInput(value)
		if s.Skip(skipped); skipped.Err() != nil || skipped.Offset() != in.Offset() {
			t.Fatalf("read to %d, skipped to %d: %v", in.Offset(), skipped.Offset(), skipped.Err())
		}
		if in.Lost() {
			return // in a stream its end is not known
		}
		stream := serializer.NewStreamInput(bytes.NewReader(value), 0)
		if again := serializer.AppendJSON(nil, s.Read(stream)); stream.Err() != nil || !bytes.Equal(again, text) || stream.Offset() != in.Offset() {
			t.Fatalf("in a stream %s at %d, not %s at %d: %v", again, stream.Offset(), text, in.Offset(), stream.Err())
		}
	})
}

// FuzzEncodeJSON takes any text as the JSON of a value of any type. What is accepted is read again as that
// value, and its JSON gives the same bytes.
func FuzzEncodeJSON(f *testing.F) {
	add := func(snapshot, value []byte) {
		s := serializer.Of(serializer.ReadSnapshot(serializer.NewInput(snapshot)))
		f.Add(snapshot, serializer.AppendRead(nil, s, serializer.NewInput(value)), len(value)%2 == 0)
	}
	flinkValues(f, add)
	keySeeds(f, add)
	tableValues(f, func(snapshot []byte, values [][]byte) {
		for _, v := range values {
			add(snapshot, v)
		}
	})
	for schema, text := range map[string]string{
		`["null","float","double","string","bytes",{"type":"map","values":"int"},{"type":"array","items":["null","string"]}]`:                               `["0x00",null]`,
		`{"type":"record","name":"A","fields":[{"name":"n","type":["null","A",{"type":"record","name":"B","fields":[{"name":"n","type":["null","A"]}]}]}]}`: `{"n":{"n":null}}`,
	} {
		var out serializer.Output
		(&serializer.Snapshot{
			Class:   "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot",
			Version: 3, Body: &serializer.Avro{Class: "A", Schema: schema},
		}).Write(&out)
		f.Add(out.Bytes(), []byte(text), false)
	}
	f.Fuzz(func(t *testing.T, snapshot, text []byte, key bool) {
		s := serializer.Of(serializer.ReadSnapshot(serializer.NewInput(snapshot)))
		encode := serializer.EncodeJSON
		if key {
			encode = serializer.EncodeKeyJSON
		}
		value, err := encode(s, text)
		if err != nil {
			return
		}
		in := serializer.NewInput(value)
		again := serializer.AppendRead(nil, s, in)
		if err := in.Finish(); err != nil || in.Lost() {
			t.Fatalf("%q is %x, which is read as %s: %v", text, value, again, err)
		}
		if !json.Valid(text) || !sameShape(t, text, again) {
			t.Fatalf("%q is read as %s", text, again)
		}
		if twice, err := encode(s, again); err != nil || !bytes.Equal(twice, value) {
			t.Fatalf("%q is %x, but %s is %x, %v", text, value, again, twice, err)
		}
	})
}

// sameShape compares JSON as package encoding/json understands it, in which fields that are null may be missing.
func sameShape(t *testing.T, a, b []byte) bool {
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Logf("%s, %s: %v", a, b, err) // numbers beyond those of Go
		return true
	}
	return reflect.DeepEqual(withoutNulls(x), withoutNulls(y))
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if value == nil {
				delete(v, name)
			} else {
				v[name] = withoutNulls(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}
