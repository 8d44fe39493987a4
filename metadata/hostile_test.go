package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
)

// checkLaw says that data is either refused with a place or given back as it is.
func checkLaw(t *testing.T, what string, data []byte) (*Snapshot, error) {
	t.Helper()
	s, err := Decode(data)
	if err != nil {
		var e *Error
		switch {
		case !errors.As(err, &e):
			t.Errorf("%s: %v is no *Error", what, err)
		case e.Offset < 0 || e.Offset > int64(len(data)) || e.Field == "":
			t.Errorf("%s: offset %d, field %q: %v", what, e.Offset, e.Field, err)
		case s != nil:
			t.Errorf("%s: a snapshot with an error", what)
		}
		return nil, err
	}
	out, err := Encode(s)
	if err != nil {
		t.Errorf("%s: decoded, but: %v", what, err)
	} else if !bytes.Equal(out, data) {
		t.Errorf("%s: decoded, but encoded to other bytes", what)
	}
	return s, nil
}

// long says that DREY_LONG=1 asks for every case instead of a sample of them.
func long() bool { return os.Getenv("DREY_LONG") == "1" }

// cuts gives the lengths to cut a file of n bytes to: those near the ends,
// and in between by strides. With DREY_LONG=1 it is every length.
func cuts(n, edge, stride int) func(func(int) bool) {
	if long() {
		stride = 1
	}
	return func(yield func(int) bool) {
		for i := 0; i < n; {
			if !yield(i) {
				return
			}
			if i >= edge && i < n-edge {
				i = min(i+stride, n-edge)
			} else {
				i++
			}
		}
	}
}

func checkCut(t *testing.T, file string, data []byte, n int) {
	t.Helper()
	cut := data[:n:n]
	_, err := checkLaw(t, file, cut)
	v := Version(binary.BigEndian.Uint32(data[4:]))
	if err == nil {
		t.Errorf("%s: cut to %d of %d bytes it still passes", file, n, len(data))
		return
	}
	if v == Version3 {
		return // the error may be of another dialect, which got further
	}
	var short *TruncatedError
	if !errors.As(err, &short) || !errors.Is(err, ErrTruncated) {
		t.Errorf("%s: cut to %d: %v", file, n, err)
	} else if short.Have != int64(n) || short.Need <= short.Have || short.Need > int64(len(data)) {
		t.Errorf("%s: cut to %d of %d: have %d, need %d", file, n, len(data), short.Have, short.Need)
	}
	if s, _ := DecodePartial(cut); (s != nil) != (n >= 8) {
		t.Errorf("%s: cut to %d: partial snapshot %v", file, n, s)
	}
}

// TestTruncated cuts every file of testdata everywhere.
func TestTruncated(t *testing.T) {
	for _, file := range testdata(t) {
		data := read(t, file)
		stride := 1
		if len(data) > 8<<10 {
			stride = 97
		}
		for n := range cuts(len(data), 128, stride) {
			checkCut(t, file, data, n)
		}
	}
}

// TestFixturesTruncated cuts all fixtures in many places, with DREY_LONG=1 in
// all places (24 million; a quarter of an hour, so give go test a -timeout of an hour).
func TestFixturesTruncated(t *testing.T) {
	for _, file := range fixtures(t) {
		data := read(t, file)
		if bytes.Equal(data[4:8], []byte{0, 0, 0, 0}) {
			continue
		}
		for n := range cuts(len(data), 12, max(97, len(data)/16)) {
			checkCut(t, file, data, n)
		}
	}
}

// TestBitFlips flips every single bit of the small files.
func TestBitFlips(t *testing.T) {
	for _, file := range testdata(t) {
		data := read(t, file)
		if len(data) > 1<<10 && !long() {
			continue
		}
		for i := range 8 * len(data) {
			data[i/8] ^= 1 << (i % 8)
			checkLaw(t, file, data)
			data[i/8] ^= 1 << (i % 8)
		}
	}
}

// TestTailCut cuts each form of the properties everywhere.
func TestTailCut(t *testing.T) {
	head := []byte("\x49\x60\x67\x2d\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, form := range allProperties(t) {
		data := slices.Concat(head, form)
		if _, err := checkLaw(t, "whole", data); err != nil {
			t.Error(err)
		}
		for n := len(head); n < len(data); n++ {
			_, err := checkLaw(t, "cut", data[:n])
			var e *Error
			if !errors.Is(err, ErrTruncated) || !errors.As(err, &e) || e.Field != "properties" || e.Offset != int64(len(head)) {
				t.Errorf("properties cut to %d of %d bytes: %v", n-len(head), len(form), err)
			}
		}
		// What follows is kept.
		s, err := checkLaw(t, "more", append(data, "more"...))
		if err != nil {
			t.Error(err)
		} else if got := s.Properties.Info().Trailing; got != 4 {
			t.Errorf("%d trailing bytes", got)
		}
	}
}

// allocated is what Decode allocates in all, live or not.
func allocated(data []byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = Decode(data)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxAllocated bounds what decoding may allocate: a multiple of the input for
// each time that it is read, and some room for small lists and errors.
func maxAllocated(data []byte) uint64 {
	times := uint64(1)
	if _, err := Decode(data); errors.Is(err, ErrTruncated) {
		times = 2
	}
	if len(data) >= 8 && data[7] == 3 {
		times = 6
	}
	return times*64*uint64(len(data)) + 64<<10
}

// TestHostileCounts puts large numbers everywhere: where they are counts they
// must not be believed.
func TestHostileCounts(t *testing.T) {
	for _, file := range testdata(t) {
		data := read(t, file)
		if len(data) > 1<<10 && !long() {
			continue
		}
		for i := 8; i+4 <= len(data); i++ {
			for _, count := range []uint32{0x7FFFFFFF, 0x80000000, 0x10000000, 0xFFFF, 0x0100} {
				bad := bytes.Clone(data)
				binary.BigEndian.PutUint32(bad[i:], count)
				if got := allocated(bad); got > maxAllocated(bad) {
					t.Errorf("%s: %#x at %d: %d bytes allocated for %d of input", file, count, i, got, len(bad))
				}
				checkLaw(t, file, bad)
			}
		}
	}
}

// TestHostileLists are lists that are as long as they say, of the elements
// that take least: the worst that input can do.
func TestHostileLists(t *testing.T) {
	const n = 1 << 20
	type w = *bytes.Buffer
	i32 := func(b w, vs ...int32) {
		for _, v := range vs {
			_ = binary.Write(b, binary.BigEndian, v)
		}
	}
	header := func(b w, v Version) {
		i32(b, 0x4960672D, int32(v), 0, 5)
		if v >= Version2 {
			i32(b, 0)
		}
	}
	operator := func(b w, v Version) {
		header(b, v)
		i32(b, 1)
		if v >= Version5 {
			i32(b, 0) // two empty strings
		}
		b.Write(make([]byte, 16))
		i32(b, 1<<20, 1<<20)
		if v <= Version2 {
			i32(b, 1)
		} else {
			b.WriteByte(0)
		}
	}
	subtask := func(b w, v Version) {
		operator(b, v)
		i32(b, 1, 0)
		if v <= Version2 {
			i32(b, -1, -1)
		}
	}
	changelog := func(b w, v Version) {
		subtask(b, v)
		i32(b, 0, 0)
		b.WriteByte(byte(TagChangelogV2))
		i32(b, 0, 1, 0, 0)
	}
	// java writes properties that are an object of so many fields, each of
	// them an object of one class of so many fields.
	java := func(b w, objects, fields int) {
		class := func(n int, code string) {
			b.WriteString("sr\x00\x01A\x00\x00\x00\x00\x00\x00\x00\x00\x02" + string([]byte{byte(n >> 8), byte(n)}))
			for i := range n {
				b.WriteString(code[:1] + "\x00\x03" + string([]byte{byte(i>>14 | 1), byte(i >> 7 & 0x7F), byte(i & 0x7F)}) + code[1:])
			}
			b.WriteString("xp")
		}
		header(b, 4)
		i32(b, 0)
		b.WriteString("\xac\xed\x00\x05")
		class(objects, "Lp")
		class(fields, "Z")
		b.Write(make([]byte, fields))
		for range objects - 1 {
			b.WriteString("sq\x00\x7e\x00\x02")
			b.Write(make([]byte, fields))
		}
	}
	for name, build := range map[string]func(w){
		"master states": func(b w) {
			i32(b, 0x4960672D, 6, 0, 5, n/18)
			b.Write(bytes.Repeat([]byte("\xc9\x6b\x16\x96\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), n/18))
		},
		"operators": func(b w) { header(b, 6); i32(b, n/33); b.Write(make([]byte, n)) },
		"finished subtasks": func(b w) {
			operator(b, 4)
			i32(b, n/4)
			b.Write(bytes.Repeat([]byte{0xFF}, n))
		},
		"empty subtasks":       func(b w) { operator(b, 4); i32(b, n/22); b.Write(make([]byte, n)) },
		"empty subtasks, v2":   func(b w) { operator(b, 2); i32(b, n/26); b.Write(make([]byte, n)) },
		"null legacy":          func(b w) { subtask(b, 2); i32(b, n); b.Write(make([]byte, n)) },
		"null operator states": func(b w) { subtask(b, 1); i32(b, 0, n); b.Write(make([]byte, n)) },
		"null base":            func(b w) { changelog(b, 4); i32(b, n); b.Write(make([]byte, n)) },
		"null base, no more":   func(b w) { changelog(b, 4); i32(b, n); b.Write(make([]byte, n-1)); b.WriteByte(99) },
		"null base, version 3": func(b w) { changelog(b, 3); i32(b, n); b.Write(make([]byte, n)) },
		"a count and no base":  func(b w) { changelog(b, 4); i32(b, n); b.WriteByte(99); b.Write(make([]byte, n)) },
		"small operator states": func(b w) {
			subtask(b, 1)
			i32(b, 0, n/6)
			b.Write(bytes.Repeat([]byte("\x04\x00\x00\x00\x00\x10"), n/6))
		},
		"small byte streams": func(b w) {
			subtask(b, 2)
			i32(b, n/7)
			b.Write(bytes.Repeat([]byte("\x01\x00\x00\x00\x00\x00\x00"), n/7))
		},
		"small key group states": func(b w) {
			changelog(b, 4)
			i32(b, n/10)
			b.Write(bytes.Repeat([]byte("\x03\x00\x00\x00\x00\x00\x00\x00\x00\x10"), n/10))
		},
		"state names": func(b w) {
			subtask(b, 4)
			i32(b, 1)
			b.WriteByte(4)
			i32(b, n/7)
			b.Write(make([]byte, n))
		},
		"input channels": func(b w) {
			subtask(b, 6)
			b.Write(make([]byte, 4+4+1+1))
			i32(b, n/22)
			b.Write(bytes.Repeat([]byte("\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x04\x00\x00\x00\x00"), n/22))
		},
		"channels of a merged handle": func(b w) {
			subtask(b, 6)
			b.Write(make([]byte, 4+4+1+1))
			i32(b, 1)
			b.Write([]byte("\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10"))
			i32(b, 4+20*(n/20), n/20)
			b.Write(make([]byte, n))
		},
		"local files": func(b w) {
			subtask(b, 4)
			i32(b, 0, 0)
			b.WriteByte(5)
			i32(b, 0, 0)
			b.Write([]byte{0, 0})
			i32(b, 0, 1)
			b.WriteByte(16)
			i32(b, n/3)
			b.Write(bytes.Repeat([]byte("\x00\x00\x10"), n/3))
		},
		"Java objects": func(b w) { java(b, 60000, 0) },
		"Java fields":  func(b w) { java(b, 60, 20000) },
	} {
		var b bytes.Buffer
		build(&b)
		data := b.Bytes()
		got := allocated(data)
		if got > maxAllocated(data) {
			t.Errorf("%s: %.1f bytes allocated for each of input", name, float64(got)/float64(len(data)))
		}
		t.Logf("%s: %.1f bytes allocated for each of input", name, float64(got)/float64(len(data)))
		checkLaw(t, name, data)
	}
}

// TestNesting is a handle in a handle, and so on: refused before the stack ends.
func TestNesting(t *testing.T) {
	for n := range 12 {
		var s Stream = &ByteStream{}
		for range n {
			s = &KeyGroupsStream{Delegate: s}
		}
		snapshot := &Snapshot{Version: Version4, Properties: NullProperties, Operators: []Operator{{
			Parallelism: 1, MaxParallelism: 1,
			Subtasks: []Subtask{{State: &SubtaskState{ManagedKeyed: &KeyGroups{Delegate: s}}}},
		}}}
		data, err := Encode(snapshot)
		if (err == nil) != (n <= maxNesting) {
			t.Errorf("%d handles: %v", n, err)
		}
		if err == nil {
			checkLaw(t, "nested", data)
		}
	}
	data := []byte("\x49\x60\x67\x2d\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01" +
		"0123456789abcdef\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00")
	data = append(data, bytes.Repeat([]byte{3, 0, 0, 0, 0, 0, 0, 0, 0}, 1<<16)...)
	_, err := checkLaw(t, "deep", data)
	if want := "handles nested too deeply"; err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
		t.Errorf("%v does not say %q", err, want)
	}
}
