package localrecovery

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/storage"
)

// signed gives lines of an index their end.
func signed(body string) []byte {
	return fmt.Appendf([]byte(body), "end %d %016x\n", strings.Count(body, "\n")-2, xxh3.HashString(body))
}

func TestIndexBytes(t *testing.T) {
	x := &index{boot: "8f3c-1", files: []file{
		{uri: "s3://b/ck/0a/shared/x", name: "1", size: 5, sum: 0xab, summed: true},
		{uri: "file:/a b/\xff\n\"ü", name: "12", size: 1 << 40},
	}}
	want := signed("drey local copy 1\nboot 8f3c-1\n" +
		"1 5 00000000000000ab \"s3://b/ck/0a/shared/x\"\n" +
		"12 1099511627776 - \"file:/a b/\\xff\\n\\\"ü\"\n")
	if got := x.encode(); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, err := decodeIndex(want); err != nil || !reflect.DeepEqual(got, x) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeIndex(signed("drey local copy 1\nboot -\n")); err != nil || got.boot != "" || len(got.files) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDamagedIndex(t *testing.T) {
	head := "drey local copy 1\nboot -\n"
	for _, data := range [][]byte{
		nil, []byte("\n"), []byte("end 0 0\n"), signed(""), signed("\n\n"), signed("drey local copy 2\nboot -\n"), signed("drey local copy 1\n"),
		signed("drey local copy 1\nboot \n"), signed("drey local copy 1\nboot a/b\n"), signed("drey local copy 1\nBoot -\n"),
		signed(head + "1 5 -\n"), signed(head + "1  5 - \"x\"\n"), signed(head + "01 5 - \"x\"\n"), signed(head + "../x 5 - \"x\"\n"), signed(head + "a 5 - \"x\"\n"),
		signed(head + "-1 5 - \"x\"\n"), signed(head + "1 -5 - \"x\"\n"), signed(head + "1 9223372036854775808 - \"x\"\n"), signed(head + "4294967296 5 - \"x\"\n"),
		signed(head + "1 5 ab \"x\"\n"), signed(head + "1 5 00000000000000AB \"x\"\n"), signed(head + "1 5 - x\n"), signed(head + "1 5 - 'x'\n"), signed(head + "1 5 - `x`\n"),
		signed(head + "1 5 - \"\\u0041\"\n"), signed(head + "1 5 - \"x\" \n"), signed(head + "1 5 - \"x\"\n1 5 - \"y\"\n"), signed(head + "1 5 - \"s3://b/x\"\n2 5 - \"s3a://b/x\"\n"),
		append(signed(head), '\n'), append(signed(head), signed(head)...), bytes.TrimSuffix(signed(head), []byte("\n")),
	} {
		if x, err := decodeIndex(data); !errors.Is(err, errDamaged) {
			t.Errorf("%q: %+v, %v", data, x, err)
		}
	}
	// Cut or changed anywhere.
	whole := (&index{boot: "b", files: []file{{uri: "s3://b/x", name: "1", size: 5, sum: 7, summed: true}, {uri: "s3://b/y", name: "2", size: 6}}}).encode()
	for i := range whole {
		if _, err := decodeIndex(whole[:i]); !errors.Is(err, errDamaged) {
			t.Errorf("cut at %d: %v", i, err)
		}
		for bit := range 8 {
			data := bytes.Clone(whole)
			data[i] ^= 1 << bit
			if _, err := decodeIndex(data); !errors.Is(err, errDamaged) {
				t.Errorf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

func TestIndexProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &index{boot: rapid.StringMatching(`[0-9a-f-]{0,36}`).Draw(t, "boot")}
		if x.boot == noValue {
			x.boot = ""
		}
		seen := map[string]bool{}
		for i := range rapid.IntRange(0, 20).Draw(t, "files") {
			f := file{name: fmt.Sprint(i + 1), uri: string(rapid.SliceOf(rapid.Byte()).Draw(t, "uri")), size: rapid.Int64Range(0, 1<<62).Draw(t, "size")}
			if rapid.Bool().Draw(t, "summed") {
				f.summed, f.sum = true, rapid.Uint64().Draw(t, "sum")
			}
			if key := storage.Key(f.uri); !seen[key] {
				seen[key] = true
				x.files = append(x.files, f)
			}
		}
		got, err := decodeIndex(x.encode())
		if err != nil || !reflect.DeepEqual(got, x) {
			t.Fatalf("%+v comes back as %+v, %v", x, got, err)
		}
	})
}

// FuzzIndex holds that what decodes encodes to the same bytes.
func FuzzIndex(f *testing.F) {
	f.Add((&index{files: []file{{uri: "s3://b/x", name: "1", size: 5}}}).encode())
	f.Add(signed("drey local copy 1\nboot 0-a\n2 0 0123456789abcdef \"\"\n"))
	f.Add([]byte("drey local copy 1\nboot -\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, signed(string(data))} {
			if x, err := decodeIndex(b); err == nil && !bytes.Equal(x.encode(), b) {
				t.Errorf("%q encodes as %q", b, x.encode())
			}
		}
	})
}
