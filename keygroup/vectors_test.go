package keygroup

import (
	"encoding/hex"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// args are the arguments of one line of vectors.tsv.
type args struct {
	t *testing.T
	f []string
}

func (a *args) text() string {
	s := a.f[0]
	a.f = a.f[1:]
	return strings.Trim(s, `"`)
}

func (a *args) int() int64 {
	v, err := strconv.ParseInt(a.text(), 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return v
}

func (a *args) bits() uint64 {
	v, err := strconv.ParseUint(a.text(), 16, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return v
}

func (a *args) double() float64 { return math.Float64frombits(a.bits()) }
func (a *args) float() float32  { return math.Float32frombits(uint32(a.bits())) }
func (a *args) bool() bool      { return a.text() == "true" }

func (a *args) longs() (hashes []int32) {
	for len(a.f) > 0 && a.f[0] != "-" {
		hashes = append(hashes, LongHash(a.int()))
	}
	return hashes
}

// hash computes what a line of this kind asks for.
func (a *args) hash(kind string) int32 {
	switch kind {
	case "long", "date", "sqldate", "sqltime", "timestamp":
		return LongHash(a.int())
	case "uuid":
		return UUIDHash(uint64(a.int()), uint64(a.int()))
	case "instant":
		return InstantHash(a.int(), int32(a.int()))
	case "localdate":
		return DateHash(int32(a.int()), uint8(a.int()), uint8(a.int()))
	case "localtime":
		return TimeHash(a.int())
	case "localdatetime":
		return DateHash(int32(a.int()), uint8(a.int()), uint8(a.int())) ^ TimeHash(a.int())
	case "double":
		return DoubleHash(a.double())
	case "float":
		return FloatHash(a.float())
	case "scalalong":
		return ScalaLong(a.int())
	case "scaladouble":
		return ScalaDouble(a.double())
	case "scalafloat":
		return ScalaFloat(a.float())
	case "bytes":
		b, err := hex.DecodeString(strings.Trim(a.text(), "-"))
		if err != nil {
			a.t.Fatal(err)
		}
		return BytesHash(b)
	case "longs":
		return ListHash(a.longs()...)
	case "set":
		return SetHash(a.longs()...)
	case "map":
		var entries []int32
		for h := a.longs(); len(h) > 0; h = h[2:] {
			entries = append(entries, EntryHash(h[0], h[1]))
		}
		return SetHash(entries...)
	case "record":
		return TupleHash(StringHash(a.text()), LongHash(a.int()), BoolHash(a.bool()), DoubleHash(a.double()))
	case "lombok":
		name, id, paid, boxed := StringHash(a.text()), LongHash(a.int()), LombokBool(a.bool()), int32(LombokNull)
		if a.f[0] != "null" {
			boxed = BoolHash(a.bool())
		} else {
			a.text()
		}
		count, price := int32(a.int()), DoubleHash(a.double())
		return LombokHash(id, paid, count, price, boxed, name) // Lombok takes primitives first, then their boxes
	case "scala2":
		return ScalaHash(StringHash(a.text()), ScalaLong(a.int()))
	case "scala3":
		return ScalaHash(int32(a.int()), StringHash(a.text()), ScalaDouble(a.double()))
	case "namedrow":
		field := func(name string, v int32) int32 { return EntryHash(Row13.Field(StringHash(name)), v) }
		return NamedRowHash(byte(a.int()),
			field("name", Row13.Field(StringHash(a.text()))), field("id", Row13.Field(LongHash(a.int()))), field("none", 0))
	}
	a.t.Fatalf("no hash of %q", kind)
	return 0
}

// TestVectors has the hash codes of real objects of Java, Flink, Scala and Lombok.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		a := args{t, strings.Fields(f[1])}
		got := a.hash(f[0])
		if strconv.Itoa(int(got)) != f[2] {
			t.Errorf("hash of %s %s = %d, want %s", f[0], f[1], got, f[2])
		}
		if strconv.Itoa(ForHash(got, 128)) != f[3] || strconv.Itoa(ForHash(got, UpperBound)) != f[4] {
			t.Errorf("%s %s: key groups %d and %d, want %s and %s", f[0], f[1], ForHash(got, 128), ForHash(got, UpperBound), f[3], f[4])
		}
		seen[f[0]]++
	}
	if len(seen) != 24 || seen["lombok"] < 40 {
		t.Errorf("vectors of %d kinds: %v", len(seen), seen)
	}
}

// TestRowDataHash has what BinaryRowData.hashCode of Flink 1.20 gives.
func TestRowDataHash(t *testing.T) {
	for _, c := range []struct {
		row  string
		want int32
	}{
		{"0000000000000000", -1670924195},
		{"0000000000000000" + "6100000000000081", 943281246},
		{"0000000000000000" + "68656c6c6f000085", 243722546},
		{"0000000000000000" + "0900000010000000" + "757365722d343731" + "3100000000000000", 602907307},
		{"0001000000000000" + "0000000000000000", -1748325344},
		{"0000000000000000" + "2a00000000000000", 907821237},
		{"0000000000000000" + "ffffffffffffffff", -821098432},
		{"0000000000000000" + "0700000000000000" + "7800000000000081", -1252423430},
	} {
		b, err := hex.DecodeString(c.row)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := RowDataHash(b); got != c.want || !ok {
			t.Errorf("hash of %s = %d, want %d", c.row, got, c.want)
		}
	}
	if _, ok := RowDataHash([]byte{1, 2, 3}); ok {
		t.Error("a row of three bytes has a hash")
	}
}

// TestRowHash has what Row.hashCode of each release gives for ("a", 1), +I and -U, and for rows in rows;
// more are in the serializer package's testdata/keys.tsv.
func TestRowHash(t *testing.T) {
	for r, want := range map[RowRelease][4]int32{
		Row8:  {3969, 3969, 1, 146137},
		Row11: {3969, 4000, 1, 146137},
		Row12: {4000, 4961, 0, 146168},
		Row13: {4961, 4992, 1, 177881},
	} {
		a, one := r.Field(StringHash("a")), r.Field(1)
		inner := r.Row(r.Hash(0, r.Field(StringHash("x")), r.Field(2)))
		got := [4]int32{r.Hash(0, a, one), r.Hash(1, a, one), r.Hash(0), r.Hash(0, inner, r.Field(3))}
		if r == Row8 {
			got[1] = r.Hash(0, a, one)
		}
		if got != want {
			t.Errorf("release %d: %v, want %v", r, got, want)
		}
	}
}
