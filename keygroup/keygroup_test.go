package keygroup

import (
	"encoding/hex"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func bigInt(s string) *big.Int {
	v, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic(s)
	}
	return v
}

// TestKeys has what Flink 1.20.5 and 2.3.0 (KeyGroupRangeAssignment) give for keys.
func TestKeys(t *testing.T) {
	date := int32(2024&0xfffff800 ^ (2024<<11 + 2<<6 + 29)) // LocalDate.hashCode
	for _, c := range []struct {
		key            string
		hash, want     int32
		murmur         int32
		of128, of32768 int
		subtask        int
	}{
		{`""`, StringHash(""), 0, 593689054, 94, 31198, 2},
		{`"a"`, StringHash("a"), 97, 1455541201, 81, 19409, 2},
		{`"hello"`, StringHash("hello"), 99162322, 1715862179, 35, 31395, 1},
		{`"key-1"`, StringHash("key-1"), 101943363, 23124534, 54, 23094, 1},
		{`"user-4711"`, StringHash("user-4711"), 291394725, 767022698, 106, 22122, 3},
		{`"Ünïcödé"`, StringHash("Ünïcödé"), 1055431381, 301004223, 63, 30143, 1},
		{`"日本語"`, StringHash("日本語"), 25921943, 1333041691, 27, 6683, 0},
		{`"😀"`, StringHash("😀"), 1772899, 1934073014, 54, 7350, 1},
		{"1L", LongHash(1), 1, 68075478, 86, 16342, 2},
		{"-1L", LongHash(-1), 0, 593689054, 94, 31198, 2},
		{"4294967296L", LongHash(4294967296), 1, 68075478, 86, 16342, 2},
		{"Long.MIN", LongHash(math.MinInt64), -2147483648, 1718298732, 108, 10348, 3},
		{"1234567890123L", LongHash(1234567890123), 1912276436, 1151597916, 92, 32092, 2},
		{"-1", -1, -1, 1982413648, 80, 15184, 2},
		{"1000000", 1000000, 1000000, 2127295249, 17, 29457, 0},
		{"(short) -5", -5, -5, 1637461840, 80, 12112, 2},
		{"(byte) -128", -128, -128, 1319572171, 75, 4811, 2},
		{"true", BoolHash(true), 1231, 1090530765, 77, 11725, 2},
		{"false", BoolHash(false), 1237, 1530821891, 3, 32003, 0},
		{"'A'", 'A', 65, 743412968, 104, 5352, 3},
		{"-0.0", DoubleHash(math.Copysign(0, -1)), -2147483648, 1718298732, 108, 10348, 3},
		{"3.14", DoubleHash(3.14), 300063655, 913425156, 4, 17156, 0},
		{"NaN", DoubleHash(math.Float64frombits(0xfff8000000000001)), 2146959360, 1585394089, 41, 12713, 1},
		{"1.5f", FloatHash(1.5), 1069547520, 376679366, 70, 11206, 2},
		{"BigInteger", BigIntHash(bigInt("123456789012345678901234567890")), 1915528825, 739597324, 12, 23564, 0},
		{"1.50", DecimalHash(big.NewInt(150), 2), 4652, 1770639237, 5, 20357, 0},
		{"1.5", DecimalHash(big.NewInt(15), 1), 466, 1940656156, 28, 4124, 0},
		{"Date", LongHash(1700000000000), -807048821, 1892790720, 64, 12736, 2},
		{"2024-02-29", date, 4145309, 125776286, 30, 12702, 0},
		{`("a", 1)`, TupleHash(StringHash("a"), 1), 3008, 1123382429, 29, 29853, 0},
		{`(7L, "x")`, TupleHash(LongHash(7), StringHash("x")), 337, 1968687813, 69, 19141, 2},
		{`(1, "b", 2.5)`, TupleHash(1, StringHash("b"), DoubleHash(2.5)), 1074007967, 545121947, 27, 26267, 0},
		{"(1, 2, 3, 4)", TupleHash(1, 2, 3, 4), 31810, 1733360340, 84, 31444, 2},
		{"[1, 2, 3]", ListHash(1, 2, 3), 30817, 1825691233, 97, 22113, 3},
	} {
		if c.hash != c.want {
			t.Errorf("%s: hash %d, want %d", c.key, c.hash, c.want)
		}
		if got := murmur(c.want); got != c.murmur {
			t.Errorf("%s: murmur %d, want %d", c.key, got, c.murmur)
		}
		if a, b := ForHash(c.want, 128), ForHash(c.want, 32768); a != c.of128 || b != c.of32768 {
			t.Errorf("%s: key groups %d and %d, want %d and %d", c.key, a, b, c.of128, c.of32768)
		}
		if got := Subtask(c.of128, 128, 4); got != c.subtask {
			t.Errorf("%s: subtask %d, want %d", c.key, got, c.subtask)
		}
	}
	for hash, want := range map[int32]int32{
		0: 593689054, 1: 68075478, -1: 1982413648, 42: 1134849565, math.MinInt32: 1718298732, math.MaxInt32: 1653689534, 123456789: 1088346449,
	} {
		if got := murmur(hash); got != want {
			t.Errorf("murmur(%d) = %d, want %d", hash, got, want)
		}
	}
	if TupleHash() != 0 || ListHash() != 1 || FloatHash(float32(math.NaN())) != 0x7fc00000 || BigIntHash(new(big.Int)) != 0 {
		t.Error("hash of nothing")
	}
}

// TestStringHash has what Java's String.hashCode gives, lone surrogates too
// (../internal/javaio/testdata/Vectors.java).
func TestStringHash(t *testing.T) {
	data, err := os.ReadFile("../internal/javaio/testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if f[0] != "write" {
			continue
		}
		var s []byte
		raw, err := hex.DecodeString(strings.Trim(f[1], "-"))
		if err != nil {
			t.Fatal(err)
		}
		var units []uint16
		for i := 0; i < len(raw); i += 2 {
			units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
		}
		for i := 0; i < len(units); i++ {
			u := rune(units[i])
			switch {
			case utf16.IsSurrogate(u) && i+1 < len(units) && utf16.DecodeRune(u, rune(units[i+1])) != 0xFFFD:
				s = append(s, string(utf16.DecodeRune(u, rune(units[i+1])))...)
				i++
			case utf16.IsSurrogate(u):
				s = append(s, 0xE0|byte(u>>12), 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
			default:
				s = append(s, string(u)...)
			}
		}
		if got := StringHash(string(s)); strconv.Itoa(int(got)) != f[3] {
			t.Errorf("hash of %q = %d, want %s", s, got, f[3])
		}
		n++
	}
	if n < 100 {
		t.Errorf("only %d vectors", n)
	}
}

// TestDecimalHash has what Java 17's BigDecimal.hashCode gives.
func TestDecimalHash(t *testing.T) {
	for _, c := range []struct {
		unscaled string
		scale    int32
		want     int32
	}{
		{"0", 0, 0},
		{"0", 2, 2},
		{"0", -3, -3},
		{"0", 1, 1},
		{"1", 0, 31},
		{"1", 2, 33},
		{"1", -3, 28},
		{"1", 1, 32},
		{"-1", 0, -31},
		{"-1", 2, -29},
		{"-1", -3, -34},
		{"-1", 1, -30},
		{"150", 0, 4650},
		{"150", 2, 4652},
		{"150", -3, 4647},
		{"150", 1, 4651},
		{"-150", 0, -4650},
		{"-150", 2, -4648},
		{"-150", -3, -4653},
		{"-150", 1, -4649},
		{"4294967296", 0, 961},
		{"4294967296", 2, 963},
		{"4294967296", -3, 958},
		{"4294967296", 1, 962},
		{"-4294967297", 0, -992},
		{"-4294967297", 2, -990},
		{"-4294967297", -3, -995},
		{"-4294967297", 1, -991},
		{"9223372036854775807", 0, 2147482656},
		{"9223372036854775807", 2, 2147482658},
		{"9223372036854775807", -3, 2147482653},
		{"9223372036854775807", 1, 2147482657},
		{"-9223372036854775808", 0, -2147483648},
		{"-9223372036854775808", 2, -2147483646},
		{"-9223372036854775808", -3, 2147483645},
		{"-9223372036854775808", 1, -2147483647},
		{"9223372036854775808", 0, -2147483648},
		{"9223372036854775808", 2, -2147483646},
		{"9223372036854775808", -3, 2147483645},
		{"9223372036854775808", 1, -2147483647},
		{"-9223372036854775809", 0, 2147483617},
		{"-9223372036854775809", 2, 2147483619},
		{"-9223372036854775809", -3, 2147483614},
		{"-9223372036854775809", 1, 2147483618},
		{"123456789012345678901234567890", 0, -748148569},
		{"123456789012345678901234567890", 2, -748148567},
		{"123456789012345678901234567890", -3, -748148572},
		{"123456789012345678901234567890", 1, -748148568},
		{"-123456789012345678901234567890", 0, 748148569},
		{"-123456789012345678901234567890", 2, 748148571},
		{"-123456789012345678901234567890", -3, 748148566},
		{"-123456789012345678901234567890", 1, 748148570},
	} {
		if got := DecimalHash(bigInt(c.unscaled), c.scale); got != c.want {
			t.Errorf("hash of %se-%d = %d, want %d", c.unscaled, c.scale, got, c.want)
		}
	}
}

func TestRangeOf(t *testing.T) {
	for _, c := range []struct {
		maxParallelism int
		want           []Range
	}{
		{128, []Range{{0, 42}, {43, 85}, {86, 127}}},
		{10, []Range{{0, 3}, {4, 6}, {7, 9}}},
		{2, []Range{{0, 0}, {1, 1}, {2, 1}}}, // the last has none
	} {
		for i, want := range c.want {
			if got := RangeOf(i, c.maxParallelism, len(c.want)); got != want {
				t.Errorf("subtask %d of %d: %+v, want %+v", i, len(c.want), got, want)
			}
		}
	}
	for i, want := range []int{0, 4682, 9363, 14044, 18725, 23406, 28087} {
		if got := RangeOf(i, 32768, 7).Start; got != want {
			t.Errorf("subtask %d of 7 starts at %d, want %d", i, got, want)
		}
	}
}

// TestPartition: the ranges of all subtasks are each key group once, in order.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, UpperBound).Draw(t, "max parallelism")
		p := rapid.IntRange(1, most).Draw(t, "parallelism")
		next := 0
		for i := range p {
			r := RangeOf(i, most, p)
			if r.Start != next || r.Empty() {
				t.Fatalf("subtask %d has %s after %d", i, r, next)
			}
			next = r.End + 1
			if Subtask(r.Start, most, p) != i || Subtask(r.End, most, p) != i {
				t.Fatalf("range %s is not subtask %d's", r, i)
			}
		}
		if next != most {
			t.Fatalf("ends at %d of %d", next, most)
		}
	})
}

func TestDefaultMaxParallelism(t *testing.T) {
	from := 1
	for _, c := range []struct{ to, want int }{
		{85, 128}, {171, 256}, {341, 512}, {683, 1024}, {1365, 2048}, {2731, 4096}, {5461, 8192}, {10923, 16384}, {UpperBound, 32768},
	} {
		for p := from; p <= c.to; p++ {
			if got := DefaultMaxParallelism(p); got != c.want {
				t.Fatalf("default for %d is %d, want %d", p, got, c.want)
			}
		}
		from = c.to + 1
	}
	if got := DefaultMaxParallelism(math.MaxInt / 2); got != UpperBound {
		t.Errorf("default for a huge parallelism is %d", got)
	}
}

func TestRange(t *testing.T) {
	a, none := Range{3, 5}, Range{0, -1}
	if a.Len() != 3 || a.String() != "3-5" || a.Empty() {
		t.Errorf("%s has %d", a, a.Len())
	}
	if none.Len() != 0 || none.String() != "none" || !none.Empty() {
		t.Errorf("%s has %d", none, none.Len())
	}
	for _, c := range []struct{ b, want Range }{{Range{0, 3}, Range{3, 3}}, {Range{4, 9}, Range{4, 5}}, {Range{0, 9}, a}, {a, a}} {
		if got := a.Intersect(c.b); got != c.want {
			t.Errorf("%s and %s: %s", a, c.b, got)
		}
	}
	if got := a.Intersect(Range{6, 9}); !got.Empty() {
		t.Errorf("3-5 and 6-9: %s", got)
	}
}
