package fuzz

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// tableValues gives the snapshots of Table jobs with values that Flink wrote.
func tableValues(f *testing.F, add func(snapshot []byte, values [][]byte)) {
	data, err := os.ReadFile("../serializer/testdata/table/values.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var sample struct {
			Snapshot []byte
			Values   []struct{ Value []byte }
		}
		if err := json.Unmarshal(line, &sample); err != nil {
			f.Fatal(err)
		}
		var values [][]byte
		for _, v := range sample.Values {
			values = append(values, v.Value)
		}
		add(sample.Snapshot, values)
	}
}

// FuzzRowData reads any bytes as rows of SQL's types, in memory that follows
// their number whatever the offsets and counts in them say.
func FuzzRowData(f *testing.F) {
	var types []serializer.Serializer
	tableValues(f, func(snapshot []byte, values [][]byte) {
		for _, v := range values {
			f.Add(uint(len(types)), v)
		}
		types = append(types, serializer.Of(serializer.ReadSnapshot(serializer.NewInput(snapshot))))
	})
	f.Fuzz(func(t *testing.T, which uint, data []byte) {
		s := types[which%uint(len(types))]
		in := serializer.NewInput(data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v := s.Read(in)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(512*len(data)+1<<16); got > most {
			t.Errorf("%d bytes allocated for %d of input", got, len(data))
		}
		direct := serializer.NewInput(data)
		text := serializer.AppendRead(nil, s, direct)
		if !json.Valid(text) {
			t.Errorf("no JSON: %q", text)
		}
		if err := in.Err(); err != nil {
			var e *serializer.Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data)) || direct.Err() == nil {
				t.Errorf("errors %#v and %v", err, direct.Err())
			}
			return
		}
		if want := serializer.AppendJSON(nil, v); !bytes.Equal(text, want) || direct.Offset() != in.Offset() {
			t.Errorf("%s to %d, %s to %d", want, in.Offset(), text, direct.Offset())
		}
	})
}
