package serializer

import (
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/drey-state/drey/keygroup"
)

// sample is a value as Flink serialized and hashed it (testdata/keys.tsv).
type sample struct {
	name          string
	snapshot, raw []byte
	hash          string // "-" if it has none that lasts
	of128         string
	of32768       string
}

func samples(t testing.TB) (all []sample) {
	t.Helper()
	return append(samplesOf(t, "keys.tsv"), samplesOf(t, "valuekeys.tsv")...)
}

func samplesOf(t testing.TB, file string) (all []sample) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(strings.Trim(s, "-"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, sample{f[0], unhex(f[1]), unhex(f[2]), f[3], f[4], f[5]})
	}
	return all
}

func (s sample) read(t testing.TB) *Snapshot {
	t.Helper()
	in := NewInput(s.snapshot)
	snapshot := ReadSnapshot(in)
	if in.Err() != nil || !in.AtEnd() {
		t.Fatalf("%s: snapshot: %v", s.name, in.Err())
	}
	return snapshot
}

// unhashed are the names of samples with a hash code of which the bytes do
// not tell.
func unhashed(name string) bool {
	switch name {
	case "POJO", "Timer<String, VoidNamespace>", "Timer<Long, TimeWindow>", "TimeWindow", "GlobalWindow", "NullValue", "VoidNamespace":
		return true
	}
	for _, release := range []string{"1.11", "1.12", "1.13"} {
		if strings.HasPrefix(name, release) {
			return true
		}
	}
	return strings.HasSuffix(name, " (null)")
}

// assumes says whether a sample has rows that could also have been made by
// names, or doubles that another Scala hashes in another way.
func assumes(name string) bool {
	if strings.HasPrefix(name, "Scala (Double") {
		return true
	}
	if !strings.Contains(name, "Row") {
		return false
	}
	for _, release := range []string{"1.8.", "1.9.", "1.10."} {
		if strings.HasPrefix(name, release) {
			return false
		}
	}
	return true
}

func TestHasher(t *testing.T) {
	checked := map[string]int{}
	for _, s := range samples(t) {
		h := NewHasher(s.read(t))
		got, err := h.Hash(s.raw)
		switch {
		case s.hash == "-" || unhashed(s.name):
			if !errors.Is(err, ErrNoHash) {
				t.Errorf("%s: hash %d, %v; want none", s.name, got, err)
			}
			checked["none"]++
		case err != nil || strconv.Itoa(int(got)) != s.hash:
			t.Errorf("%s of %x: hash %d, %v; want %s", s.name, s.raw, got, err, s.hash)
		default:
			if a, b := strconv.Itoa(keygroup.ForHash(got, 128)), strconv.Itoa(keygroup.ForHash(got, 32768)); a != s.of128 || b != s.of32768 {
				t.Errorf("%s of %x: key groups %s and %s, want %s and %s", s.name, s.raw, a, b, s.of128, s.of32768)
			}
			checked[s.name]++
		}
		if h.Err() == nil && (h.Assumes() != "") != assumes(s.name) {
			t.Errorf("%s assumes %q", s.name, h.Assumes())
		}
	}
	if len(checked) < 60 {
		t.Errorf("only %d types", len(checked))
	}
	t.Logf("%d types", len(checked))
}

// TestHasherDamage cuts keys and adds a byte: that gives an error, or the
// hash of what is a key of another length.
func TestHasherDamage(t *testing.T) {
	for _, s := range samples(t) {
		h := NewHasher(s.read(t))
		if h.Err() != nil || len(s.raw) == 0 {
			continue
		}
		if _, err := h.Hash(append(append([]byte{}, s.raw...), 0)); err == nil {
			t.Errorf("%s: a byte after %x is no error", s.name, s.raw)
		}
		for n := range s.raw {
			if _, err := h.Hash(s.raw[:n]); err == nil {
				t.Errorf("%s: %d bytes of %x are a key", s.name, n, s.raw)
			}
		}
	}
	if _, err := NewHasher(nil).Hash(nil); !errors.Is(err, ErrNoHash) {
		t.Errorf("without a serializer: %v", err)
	}
}

// TestSelfWritten compares values of Flink's classes that write themselves
// with what Java prints, and the lengths that their serializers have.
func TestSelfWritten(t *testing.T) {
	for _, s := range samplesOf(t, "valuekeys.tsv") {
		name := strings.SplitN(s.name, " ", 3) // serializer, length, value
		of := Of(s.read(t))
		if got := strconv.Itoa(of.Len()); got != name[1] {
			t.Errorf("%s: length %s", s.name, got)
		}
		v := of.Read(NewInput(s.raw))
		want := name[2]
		if want == "(null)" {
			want = "NullValue"
		}
		if u, ok := v.(Unit); ok {
			v = string(u)
		}
		if c, ok := v.(Char); ok {
			v = string(rune(c))
		}
		if got := Text(v); got != want {
			t.Errorf("%s: read as %s", s.name, got)
		}
	}
}

func TestHasherAllocs(t *testing.T) {
	for _, s := range samples(t) {
		switch s.name {
		case "String", "Long", "Integer", "Tuple2<String, Integer>", "ROW<STRING>", "Row<String, Integer>":
			h := NewHasher(s.read(t))
			if n := testing.AllocsPerRun(10, func() { _, _ = h.Hash(s.raw) }); n != 0 && s.hash != "-" {
				t.Errorf("%s: %.0f allocations", s.name, n)
			}
		}
	}
}
