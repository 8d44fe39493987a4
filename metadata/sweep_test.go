package metadata

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestFixturesRoundTrip checks the law on every file that real Flink wrote.
func TestFixturesRoundTrip(t *testing.T) {
	files := fixtures(t)
	refused := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Decode(data)
		if err != nil {
			if errors.Is(err, ErrVersion) && bytes.Equal(data[4:8], []byte{0, 0, 0, 0}) {
				refused++
				continue
			}
			t.Errorf("%s: %v", f, err)
			continue
		}
		out, err := Encode(s)
		if err != nil {
			t.Errorf("%s: encode: %v", f, err)
		} else if !bytes.Equal(out, data) {
			t.Errorf("%s: encode gives other bytes", f)
		}
	}
	if len(files) != 1642 || refused != 2 {
		t.Errorf("%d files, %d of them refused for version 0; want 1642 and 2", len(files), refused)
	}
}
