package fuzz

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/drey-state/drey/internal/javaio"
)

// FuzzJavaObject checks that any bytes are refused with a place or are a Java
// object stream that is kept as it is, in memory that follows their length.
func FuzzJavaObject(f *testing.F) {
	seeds(f, "../internal/javaio/testdata/objects/*", func(data []byte) { f.Add(data) })
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, n, err := javaio.ParseObject(data)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(256*len(data)+1<<18); got > most {
			t.Errorf("%d bytes allocated for %d of input", got, len(data))
		}
		all, _ := javaio.ParseContents(data)
		if err != nil {
			var e *javaio.Error
			if s != nil || len(all) > 0 || !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data)) || e.Field == "" {
				t.Errorf("stream %v, error %#v", s, err)
			}
			return
		}
		if !bytes.Equal(s.Raw, data[:n]) {
			t.Error("other bytes")
		}
		if o, ok := s.Root.(*javaio.Object); ok {
			_ = o.Field("size")
			javaio.Elements(o)
			javaio.Entries(o)
		}
	})
}
