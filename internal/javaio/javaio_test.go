package javaio

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// vectors gives the lines of testdata/vectors.txt of a kind.
func vectors(t *testing.T, kind string) (lines [][]string) {
	data, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[0] == kind {
			lines = append(lines, f[1:])
		}
	}
	if len(lines) < 100 {
		t.Fatalf("only %d vectors", len(lines))
	}
	return lines
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.Trim(s, "-"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fromUnits makes of UTF-16 what DecodeUTF gives: UTF-8, lone surrogates as three bytes.
func fromUnits(units []uint16) string {
	var b []byte
	for i := 0; i < len(units); i++ {
		u := rune(units[i])
		if utf16.IsSurrogate(u) && i+1 < len(units) {
			if r := utf16.DecodeRune(u, rune(units[i+1])); r != utf8.RuneError {
				b = utf8.AppendRune(b, r)
				i++
				continue
			}
		}
		if utf16.IsSurrogate(u) {
			b = append(b, byte(0xE0|u>>12), byte(0x80|u>>6&0x3F), byte(0x80|u&0x3F))
			continue
		}
		b = utf8.AppendRune(b, u)
	}
	return string(b)
}

func parseUnits(t *testing.T, s string) string {
	raw := unhex(t, s)
	var units []uint16
	for i := 0; i < len(raw); i += 2 {
		units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
	}
	return fromUnits(units)
}

// TestJavaWrites compares with DataOutputStream.writeUTF.
func TestJavaWrites(t *testing.T) {
	for _, v := range vectors(t, "write") {
		s, want := parseUnits(t, v[0]), unhex(t, v[1])
		got, err := EncodeUTF(s)
		if err != nil || got != want {
			t.Errorf("%s: %x, %v; want %x", v[0], got, err, want)
		}
		if !ValidUTF(want) {
			t.Errorf("%s is not valid", v[1])
		}
		if got := DecodeUTF(want); got != s {
			t.Errorf("%s: %q instead of %q", v[1], got, s)
		}
	}
}

// TestJavaReads compares with DataInputStream.readUTF.
func TestJavaReads(t *testing.T) {
	malformed := 0
	for _, v := range vectors(t, "read") {
		raw := unhex(t, v[0])
		if v[1] == "malformed" {
			malformed++
			if ValidUTF(raw) {
				t.Errorf("%s is valid here, but not for Java", v[0])
			}
			continue
		}
		if !ValidUTF(raw) {
			t.Errorf("%s is not valid here, but for Java", v[0])
		}
		if got, want := DecodeUTF(raw), parseUnits(t, v[1]); got != want {
			t.Errorf("%s: %q instead of %q", v[0], got, want)
		}
	}
	if malformed < 100 {
		t.Errorf("only %d malformed vectors", malformed)
	}
}

// anyString draws UTF-8 with all that is special in modified UTF-8.
func anyString(t *rapid.T) string {
	units := rapid.SliceOfN(rapid.OneOf(
		rapid.Uint16(), rapid.Uint16Range(0, 0x80), rapid.Uint16Range(0x7F0, 0x810),
		rapid.Uint16Range(0xD7FF, 0xDC01), rapid.Uint16Range(0xDBFF, 0xE001),
	), 0, 40).Draw(t, "units")
	return fromUnits(units)
}

func TestEncodeUTFProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyString(t)
		raw, err := EncodeUTF(s)
		if err != nil {
			t.Fatal(err)
		}
		if !ValidUTF(raw) || strings.IndexByte(raw, 0) >= 0 {
			t.Fatalf("encoding %x", raw)
		}
		for i := range len(raw) {
			if raw[i] >= 0xF0 {
				t.Fatalf("encoding %x has a byte of four", raw)
			}
		}
		if got := DecodeUTF(raw); got != s {
			t.Fatalf("comes back as %q", got)
		}
	})
}

// TestDecodeUTFProperties takes any raw bytes: over-long forms and all.
func TestDecodeUTFProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOfN(rapid.OneOf(
			rapid.Byte(), rapid.ByteRange(0, 0x7F), rapid.ByteRange(0x80, 0xBF), rapid.SampledFrom([]byte{0xC0, 0xC1, 0xE0, 0xED, 0xEF, 0xF0}),
		), 0, 24).Draw(t, "raw"))
		s := DecodeUTF(raw) // must not panic on anything
		if !ValidUTF(raw) {
			return
		}
		again, err := EncodeUTF(s)
		if err != nil {
			t.Fatal(err)
		}
		if DecodeUTF(again) != s {
			t.Fatalf("%x decodes to %q, encodes to %x", raw, s, again)
		}
	})
}

func TestEncodeUTFInvalid(t *testing.T) {
	for _, s := range []string{"\xff", "a\x80", "\xc0\x80", "\xed\xa0", "\xf0\x9f\x98", "01234567\xff"} {
		if raw, err := EncodeUTF(s); !errors.Is(err, ErrInvalidUTF) {
			t.Errorf("%q: %x, %v", s, raw, err)
		}
	}
}

// TestReader reads what Writer wrote.
func TestReader(t *testing.T) {
	long := strings.Repeat("x", MaxUTF)
	m, w := NewMeasure(), NewWriter(nil)
	for _, w := range []*Writer{m, w} {
		w.U8(0xFE)
		w.I32(-2)
		w.I64(-3)
		w.Raw([]byte("raw"))
		w.Bytes([]byte("bytes"), "bytes")
		w.Bytes(nil, "none")
		w.UTF("text", "text")
		w.UTF("", "empty")
		w.UTF(long, "long")
		w.I64s([]int64{1, -1}, "longs")
		w.I64s(nil, "no longs")
		w.Count(3, "count")
		w.Raw(make([]byte, 3))
	}
	if err := w.Err(); err != nil || m.Err() != nil {
		t.Fatal(err)
	}
	if m.Len() != w.Len() || w.Len() != len(w.Written()) || len(m.Written()) != 0 {
		t.Errorf("measured %d, wrote %d", m.Len(), len(w.Written()))
	}
	r := NewReader(w.Written())
	if r.U8("") != 0xFE || r.I32("") != -2 || r.I64("") != -3 || string(r.Raw(3, "")) != "raw" || string(r.Bytes("")) != "bytes" || len(r.Bytes("")) != 0 {
		t.Error("numbers or bytes")
	}
	if r.UTF("") != "text" || r.UTF("") != "" || r.UTF("") != long {
		t.Error("text")
	}
	if l := r.I64s(""); len(l) != 2 || l[0] != 1 || l[1] != -1 || r.I64s("") != nil || r.Count(1, "") != 3 {
		t.Error("lists")
	}
	if r.Failed() || r.Remaining() != 3 || r.Offset() != w.Len()-3 {
		t.Errorf("%v, %d left", r.Err(), r.Remaining())
	}
}

// TestReaderErrors: the first error stays, with its place.
func TestReaderErrors(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		read func(*Reader)
		want string
	}{
		"U8":             {"", func(r *Reader) { r.U8("f") }, "offset 0: f: file ends at byte 0 of at least 1"},
		"I32":            {"abc", func(r *Reader) { r.I32("f") }, "offset 0: f: file ends at byte 3 of at least 4"},
		"I64":            {"abcdefgh", func(r *Reader) { r.U8(""); r.I64("f") }, "offset 1: f: file ends at byte 8 of at least 9"},
		"Raw":            {"ab", func(r *Reader) { r.Raw(3, "f") }, "offset 0: f: file ends at byte 2 of at least 3"},
		"Raw negative":   {"ab", func(r *Reader) { r.Raw(-1, "f") }, "offset 0: f: negative length -1"},
		"Bytes":          {"\x7f\xff\xff\xffa", func(r *Reader) { r.Bytes("f") }, "offset 0: f: file ends at byte 5 of at least 2147483651"},
		"Bytes negative": {"\xff\xff\xff\xff", func(r *Reader) { r.Bytes("f") }, "offset 0: f: negative length -1"},
		"UTF":            {"\x00\x02a", func(r *Reader) { r.UTF("f") }, "offset 0: f: file ends at byte 3 of at least 4"},
		"UTF malformed":  {"\x00\x01\xff", func(r *Reader) { r.UTF("f") }, "offset 0: f: malformed modified UTF-8"},
		"Count":          {"\x00\x00\x00\x02123", func(r *Reader) { r.Count(2, "f") }, "offset 0: f: file ends at byte 7 of at least 8"},
		"Count negative": {"\x80\x00\x00\x00123", func(r *Reader) { r.Count(2, "f") }, "offset 0: f: negative count -2147483648"},
		"Count huge":     {"\x7f\xff\xff\xff", func(r *Reader) { r.Count(1<<20, "f") }, "offset 0: f: file ends at byte 4 of at least 2251799812636676"},
		"I64s":           {"\x00\x00\x00\x01abc", func(r *Reader) { r.I64s("f") }, "offset 0: f: file ends at byte 7 of at least 12"},
		"nested":         {"", func(r *Reader) { r.U8("f"); r.WithinIndex("list", 3); r.Within(""); r.Within("outer") }, "offset 0: outer.list[3].f: file ends at byte 0 of at least 1"},
		"element":        {"", func(r *Reader) { r.U8(""); r.WithinIndex("", 3); r.Within("outer") }, "offset 0: outer[3]: file ends at byte 0 of at least 1"},
	} {
		r := NewReader([]byte(c.data))
		c.read(r)
		if err := r.Err(); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
			continue
		}
		if strings.Contains(c.want, "file ends") != errors.Is(r.Err(), ErrTruncated) {
			t.Errorf("%s: %v and ErrTruncated", name, r.Err())
		}
		left := r.Remaining()
		if r.U8("x") != 0 || r.I32("x") != 0 || r.I64("x") != 0 || r.Raw(1, "x") != nil || r.Bytes("x") != nil || r.UTF("x") != "" || r.Count(1, "x") != 0 || r.I64s("x") != nil {
			t.Errorf("%s: something is read after the error", name)
		}
		if r.Remaining() != left || r.Err().Error() != c.want {
			t.Errorf("%s: the error moved on to %v", name, r.Err())
		}
	}
}

func TestWriterErrors(t *testing.T) {
	w := NewWriter(nil)
	w.I32(1)
	w.UTF(strings.Repeat("x", MaxUTF+1), "f")
	w.WithinIndex("list", 2)
	w.Within("outer")
	w.UTF(strings.Repeat("x", MaxUTF+2), "g")
	var long *UTFTooLongError
	if err := w.Err(); !errors.As(err, &long) || long.Bytes != MaxUTF+1 ||
		err.Error() != "offset 4: outer.list[2].f: 65536 bytes as modified UTF-8; the format allows 65535" {
		t.Error(err)
	}
	m := NewMeasure()
	m.Count(1<<31, "f")
	if err := m.Err(); err == nil || err.Error() != "offset 0: f: 2147483648 elements do not fit an int" {
		t.Error(err)
	}
	if err := (&Error{Offset: -1, Field: "f", Err: ErrTruncated}); err.Error() != "f: file ends too early" {
		t.Error(err)
	}
	if got := NewWriter([]byte("old")); len(got.Written()) != 0 || !bytes.Equal(got.Written(), nil) {
		t.Error("a writer keeps what the buffer held")
	}
}
