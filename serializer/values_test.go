package serializer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// flinkValues calls value for the snapshots and values of a file of testdata.
func flinkValues(t testing.TB, file string, columns [2]int, value func(line int, snapshot, value []byte)) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.Split(line, "\t")
		value(i+1, fromHex(t, fields[columns[0]]), fromHex(t, strings.TrimPrefix(fields[columns[1]], "-")))
	}
}

// TestFlinkValues reads what Flink wrote of each type, and writes the snapshots again.
func TestFlinkValues(t *testing.T) {
	test := func(line int, raw, value []byte) {
		in := serializer.NewInput(raw)
		s := serializer.ReadSnapshot(in)
		if s == nil || in.Remaining() != 0 {
			t.Errorf("line %d: %v, %d bytes left", line, in.Err(), in.Remaining())
			return
		}
		var out serializer.Output
		if s.Write(&out); !bytes.Equal(out.Bytes(), raw) {
			t.Errorf("line %d: written again it is\n%x, not\n%x", line, out.Bytes(), raw)
		}
		testValue(t, s, value, "")
		if v, ok := serializer.Of(s).Read(serializer.NewInput(value)).(serializer.Opaque); ok && v.Reason != "written by Kryo" {
			t.Errorf("line %d: %s is opaque: %s", line, s, v.Reason)
		}
	}
	flinkValues(t, "values.tsv", [2]int{1, 2}, test)
	flinkValues(t, "keys.tsv", [2]int{1, 2}, test)
	flinkValues(t, "valuekeys.tsv", [2]int{1, 2}, test)
}
