package metadata

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFormatExample compares the example in FORMAT.md with the file that it is of.
func TestFormatExample(t *testing.T) {
	want := read(t, "testdata/2.3.0/small-v6._metadata")
	var got []byte
	for _, row := range regexp.MustCompile("(?m)^\\| 0x([0-9a-f]+) \\| `([0-9a-f ]+)` \\|").FindAllStringSubmatch(string(read(t, "FORMAT.md")), -1) {
		offset, err := strconv.ParseInt(row[1], 16, 32)
		if err != nil || int(offset) != len(got) {
			t.Errorf("row %s comes after %#x bytes, %v", row[0], len(got), err)
		}
		b, err := hex.DecodeString(strings.ReplaceAll(row[2], " ", ""))
		if err != nil {
			t.Error(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the rows are\n%x\nthe file is\n%x", got, want)
	}
}
