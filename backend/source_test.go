package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/golang/snappy"

	"github.com/drey-state/drey/serializer"
)

// TestSnappyPadding refuses a chunk whose type was damaged into one that the
// framing format tells decoders to pass over: its data would be missing.
func TestSnappyPadding(t *testing.T) {
	var b bytes.Buffer
	w := snappy.NewBufferedWriter(&b)
	for _, part := range []string{"first", "second"} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil { // ends the chunk
			t.Fatal(err)
		}
	}
	for _, typ := range []byte{0, 1, 2, 0x80, 0xfe} {
		data := bytes.Clone(b.Bytes())
		first := len(identifier)
		second := first + 4 + int(data[first+1]) // the first chunk is short
		was := data[second]
		if typ > 1 {
			data[second] = typ
		} else if was != typ {
			continue
		}
		src := newSource(context.Background(), &object{inline(data), "f"}, &Options{})
		z := new(unsnappy)
		z.reset(src, 0, int64(len(data)))
		got, err := io.ReadAll(z)
		if typ <= 1 {
			if string(got) != "firstsecond" || err != nil {
				t.Fatalf("intact: %q, %v", got, err)
			}
			continue
		}
		if string(got) != "first" || !errors.Is(err, serializer.ErrCorrupt) {
			t.Errorf("type %#x: got %q, %v", typ, got, err)
		}
	}
}
