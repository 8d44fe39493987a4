package tools

import (
	"bytes"
	"encoding/csv"
	"math/rand/v2"
	"testing"
)

// TestAppendCSV compares fields of odd characters with what encoding/csv writes.
func TestAppendCSV(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []string{",", `"`, "\r", "\n", " ", "\u00a0", `\.`, "a", "日本", "\xed\xa0\x80", "\xff", "\x00", "'"}
	for range 5000 {
		var record []string
		var got []byte
		for i := range 1 + r.IntN(4) {
			field := ""
			for range r.IntN(4) {
				field += odd[r.IntN(len(odd))]
			}
			record = append(record, field)
			if i > 0 {
				got = append(got, ',')
			}
			got = appendCSV(got, []byte(field))
		}
		var want bytes.Buffer
		w := csv.NewWriter(&want)
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if string(got)+"\n" != want.String() {
			t.Fatalf("%q: %q, want %q", record, got, want.String())
		}
	}
}
