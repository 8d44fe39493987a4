package fuzz

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drey-state/drey/internal/javaio"
	"github.com/drey-state/drey/metadata"
)

// metadataFiles are the checked-in _metadata files, of which
// ../metadata/testdata/README.md tells the origin.
const metadataFiles = "../metadata/testdata/*/*._metadata"

// seeds gives the small files that a pattern names.
func seeds(f *testing.F, pattern string, add func(data []byte)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) <= 8<<10 {
			add(data)
		}
	}
}

// FuzzMetadata checks that any bytes are refused with a place or given back as
// they are, and that decoding them takes no more memory than their length allows.
func FuzzMetadata(f *testing.F) {
	seeds(f, metadataFiles, func(data []byte) { f.Add(data) })
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := metadata.Decode(data)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(6*64*len(data)+1<<18); got > most {
			t.Errorf("%d bytes allocated for %d of input", got, len(data))
		}
		if err != nil {
			var e *metadata.Error
			if s != nil || !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data)) || e.Field == "" {
				t.Errorf("snapshot %v, error %#v", s, err)
			}
			if s, _ := metadata.DecodePartial(data); s != nil {
				look(s)
			}
			return
		}
		out, err := metadata.Encode(s)
		if err != nil {
			t.Fatalf("decoded, but: %v", err)
		}
		if !bytes.Equal(out, data) {
			t.Fatal("decoded, but encoded to other bytes")
		}
		look(s)
		for v := metadata.Version2; v <= metadata.Version6; v++ {
			convert(t, s, v)
		}
		if !bytes.Equal(data, out) {
			t.Fatal("the input changed")
		}
	})
}

// look uses what a snapshot offers to those who read it.
func look(s *metadata.Snapshot) {
	_ = s.Kind()
	_ = s.Properties.Info()
	for r := range s.Refs() {
		_ = r.Field()
	}
	for _, o := range s.Operators {
		_ = metadata.UIDHash(o.UID.String())
		for _, sub := range o.Subtasks {
			if sub.State == nil {
				continue
			}
			for i := range sub.State.InputChannels {
				_, _ = sub.State.InputChannels[i].Channels()
			}
		}
	}
}

// convert checks that a snapshot in another version can be written and read.
func convert(t *testing.T, s *metadata.Snapshot, v metadata.Version) {
	c, err := s.As(v)
	if err != nil {
		if !errors.Is(err, metadata.ErrInexpressible) {
			t.Errorf("as version %d: %v", v, err)
		}
		return
	}
	data, err := metadata.Encode(c)
	if err != nil {
		t.Fatalf("as version %d: %v", v, err)
	}
	again, err := metadata.Decode(data)
	if err != nil {
		t.Fatalf("as version %d: %v", v, err)
	}
	if out, err := metadata.Encode(again); err != nil || !bytes.Equal(out, data) {
		t.Fatalf("as version %d: other bytes, %v", v, err)
	}
}

// FuzzMapPaths moves all paths and moves them back.
func FuzzMapPaths(f *testing.F) {
	seeds(f, metadataFiles, func(data []byte) {
		f.Add(data, "s3://bucket/ü 日本/")
		f.Add(data, "")
	})
	f.Fuzz(func(t *testing.T, data []byte, prefix string) {
		if !utf8.ValidString(prefix) {
			return // half a surrogate pair could become one with the path's first character
		}
		s, err := metadata.Decode(data)
		if err != nil {
			return
		}
		m, err := s.MapPaths(func(r metadata.Ref) (string, error) { return prefix + r.Path, nil })
		var long *javaio.UTFTooLongError
		switch {
		case errors.As(err, &long) || errors.Is(err, javaio.ErrInvalidUTF):
			return
		case err != nil:
			t.Fatal(err)
		}
		out, err := metadata.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := metadata.Decode(out)
		if err != nil {
			t.Fatal(err)
		}
		back, err := again.MapPaths(func(r metadata.Ref) (string, error) {
			path, ok := strings.CutPrefix(r.Path, prefix)
			if !ok {
				t.Fatalf("%s: path %q does not begin with %q", r.Field(), r.Path, prefix)
			}
			return path, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// An odd spelling of a path, such as an over-long form, becomes the
		// usual one when the path is changed.
		same := func(r metadata.Ref) (string, error) { return "same", nil }
		one, err := back.MapPaths(same)
		if err != nil {
			t.Fatal(err)
		}
		two, err := s.MapPaths(same)
		if err != nil {
			t.Fatal(err)
		}
		a, err := metadata.Encode(one)
		if err != nil {
			t.Fatal(err)
		}
		b, err := metadata.Encode(two)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Error("more than paths changed")
		}
		if out, err := metadata.Encode(s); err != nil || !bytes.Equal(out, data) {
			t.Errorf("the snapshot itself changed, %v", err)
		}
	})
}

// FuzzUTF checks that modified UTF-8 and UTF-8 go to and fro.
func FuzzUTF(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "\xc0\x80", "é日本😀", "\xed\xa0\xbd\xed\xb8\x80", "\xed\xa0\x80", "\xc1\x81", "\xe0\x80\x80", "01234567\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := javaio.DecodeUTF(s)
		if javaio.ValidUTF(s) {
			raw, err := javaio.EncodeUTF(text)
			if err != nil {
				t.Fatal(err)
			}
			if !javaio.ValidUTF(raw) || javaio.DecodeUTF(raw) != text {
				t.Errorf("%x decodes to %q, encodes to %x", s, text, raw)
			}
			w := javaio.NewWriter(nil)
			w.UTF(s, "")
			if len(s) <= javaio.MaxUTF && javaio.NewReader(w.Written()).UTF("") != s {
				t.Errorf("%x comes back otherwise", s)
			}
		}
		if raw, err := javaio.EncodeUTF(s); err == nil {
			again, err := javaio.EncodeUTF(javaio.DecodeUTF(raw))
			if err != nil || again != raw {
				t.Errorf("%q encodes to %x, then to %x, %v", s, raw, again, err)
			}
		}
	})
}
