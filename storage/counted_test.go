package storage_test

import (
	"errors"
	"io"
	"testing"

	"github.com/drey-state/drey/storage"
)

func TestCounted(t *testing.T) {
	f := storage.NewMemory()
	if err := storage.WriteFile(t.Context(), f, "s3://b/x", []byte("0123456789"), storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inner, err := f.Open(t.Context(), "s3://b/x")
	if err != nil {
		t.Fatal(err)
	}
	var read int64
	o := storage.Counted(inner, func(n int64) { read += n })
	buf := make([]byte, 4)
	if n, err := o.ReadAt(buf, 2); n != 4 || err != nil || string(buf) != "2345" || read != 4 {
		t.Errorf("%d bytes %q, counted %d: %v", n, buf, read, err)
	}
	if n, err := o.ReadAt(buf, 8); n != 2 || !errors.Is(err, io.EOF) || read != 6 {
		t.Errorf("at the end %d bytes, counted %d: %v", n, read, err)
	}
	r, err := o.Reader(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); string(rest) != "56789" || err != nil || read != 11 {
		t.Errorf("%q, counted %d: %v", rest, read, err)
	}
	if err := errors.Join(r.Close(), o.Close()); err != nil {
		t.Error(err)
	}
	if _, err := o.Reader(t.Context(), 11); err == nil {
		t.Error("a stream from behind the end")
	}
}

// TestReadObject: an object is read whole, or it is an error.
func TestReadObject(t *testing.T) {
	f := storage.NewMemory()
	if err := storage.WriteFile(t.Context(), f, "s3://b/x", []byte("0123456789"), storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o, err := f.Open(t.Context(), "s3://b/x")
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{0, 10, 11} {
		if data, err := storage.ReadObject(t.Context(), o, limit); string(data) != "0123456789" || err != nil {
			t.Errorf("limit %d: %q, %v", limit, data, err)
		}
	}
	if _, err := storage.ReadObject(t.Context(), o, 9); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := storage.ReadObject(t.Context(), longer{o}, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("one that ends early: %v", err)
	}
}

// longer has fewer bytes than it says.
type longer struct{ storage.Object }

func (l longer) Size() int64 { return l.Object.Size() + 1 }
