package serializer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// noText says why the text of a sample does not give back its bytes; "" if it does.
func noText(s sample) string {
	name := s.name
	if strings.HasPrefix(name, "1.") {
		_, name, _ = strings.Cut(name, " ")
	}
	if strings.HasSuffix(name, " (null)") || strings.Contains(name, "Option[") || strings.Contains(name, "Either[") {
		return "no key that has a text"
	}
	switch name {
	case "POJO", "TimeWindow", "GlobalWindow", "NullValue", "Void", "VoidNamespace", "Map<String, Long>", "Set<String>", "Set<Long> with null",
		"Either<String, Long>", "TTL<Long>", "TTL<String>", "Timer<String, VoidNamespace>", "Timer<Long, TimeWindow>", "Row<List<Long>, Map<String, Long>>":
		return "no key that has a text"
	case "Nullable<Integer>", "Nullable<Integer>, padded":
		return "null is no key"
	}
	switch raw := hex.EncodeToString(s.raw); {
	case (name == "BigInteger" || name == "BigDecimal") && (s.raw[3] < 4 || raw == "0000000500" || raw == "0000000501"):
		return "it may be Java's constant or not"
	case name == "BigDecimal" && s.raw[len(s.raw)-4] == 0xff:
		return "a negative scale is not shown"
	case (name == "BigDecimal" || name == "Row<Tuple2<String, Integer>, BigDecimal>") && bytes.Contains(s.raw, []byte{0, 0, 0, 5, 0}):
		return "it may be Java's constant or not"
	}
	return ""
}

// TestParseKey gives the text of what Flink wrote, and wants the same bytes.
func TestParseKey(t *testing.T) {
	checked := 0
	for _, s := range samples(t) {
		if noText(s) != "" {
			continue
		}
		snapshot := s.read(t)
		in := NewInput(s.raw)
		text := Text(Of(snapshot).Read(in))
		if in.Err() != nil {
			t.Fatal(s.name, in.Err())
		}
		raw, err := ParseKey(snapshot, text)
		if err != nil || !bytes.Equal(raw, s.raw) {
			t.Errorf("%s %s: %x, %v; want %x", s.name, text, raw, err, s.raw)
		}
		checked++
	}
	if checked < 400 {
		t.Errorf("only %d keys", checked)
	}
	t.Logf("%d keys", checked)
}

func TestParseKeyOtherWays(t *testing.T) {
	of := map[string]*Snapshot{}
	for _, s := range samples(t) {
		of[s.name] = s.read(t)
	}
	for _, c := range []struct{ name, text, want string }{
		{"String", `"a"`, "04" + "226122"},
		{"String", "", "01"},
		{"Long", "7", "0000000000000007"},
		{"BigDecimal", "-1E+5", "00000005ff" + "fffffffb"},
		{"BigDecimal", "1.50", "000000060096" + "00000002"},
		{"LocalDate", "2024-02-29", "000007e8021d"},
		{"LocalDate", `"-0005-01-01"`, "fffffffb0101"},
		{"LocalTime", "12:34", "0c2200" + "00000000"},
		{"Instant", "1970-01-01T00:00:01.5Z", "0000000000000001" + "1dcd6500"},
		{"sql.Timestamp", "1970-01-01T00:00:01.001Z", "00000000000003e9" + "000f4240"},
		{"Character", "A", "0041"},
		{"enum", "BLUE", "00000002"},
		{"byte[]", "0x0001ff", "00000003" + "0001ff"},
		{"Tuple2<String, Integer>", ` ["a", 1] `, "0261" + "00000001"},
		{"Row<String, Integer>", `{"rowKind":"-D","fields":["x",null]}`, "d0" + "0278"},
		{"1.8.3 Row<String, Integer>", `[null,2]`, "80" + "00000002"},
		{"Nullable<Integer>, padded", "1", "0000000001"},
		{"ROW<STRING>", `["a"]`, "00000010" + "0000000000000000" + "6100000000000081"},
		{"ROW<STRING>", `[null]`, "00000010" + "0001000000000000" + "0000000000000000"},
		{"POJO", "0x0201", "0201"},
		{"Tuple2<String, Integer>", `["\ud800",1]`, "0280b003" + "00000001"},
		{"Character", `"\ud800"`, "d800"},
	} {
		raw, err := ParseKey(of[c.name], c.text)
		if err != nil || hex.EncodeToString(raw) != c.want {
			t.Errorf("%s %s: %x, %v; want %s", c.name, c.text, raw, err, c.want)
		}
	}
	for _, c := range []struct{ name, text string }{
		{"Long", "x"}, {"Long", "9223372036854775808"}, {"Integer", "2147483648"}, {"Short", "32768"}, {"Byte", "128"}, {"Long", "1.5"},
		{"Boolean", "yes"}, {"Double", "one"}, {"Character", "ab"}, {"Character", "😀"}, {"BigInteger", "1.5"}, {"BigDecimal", "1.-5"}, {"BigDecimal", "1e99999999999"},
		{"LocalDate", "2023-02-29"}, {"LocalDate", "24-02-29"}, {"LocalDate", "+1000000000-01-01"}, {"ROW<DATE, TIME>", `["+9999999-01-01","00:00"]`}, {"LocalTime", "24:00:00"}, {"LocalTime", "1:00:00"}, {"LocalTime", "12:00:00."},
		{"Instant", "1970-01-01T00:00:01"}, {"Date", "1970-01-01T00:00:01.0001Z"}, {"enum", "PINK"}, {"byte[]", "00"}, {"byte[]", "0x0"},
		{"Tuple2<String, Integer>", `["a"]`}, {"Tuple2<String, Integer>", `a`}, {"Tuple2<String, Integer>", `["a",1] 2`}, {"Tuple2<String, Integer>", `[7,1]`},
		{"Row<String, Integer>", `{"rowKind":"?","fields":["x",null]}`}, {"1.8.3 Row<String, Integer>", `{"rowKind":"-D","fields":["x",null]}`},
		{"ROW<STRING>", `["a","b"]`}, {"ROW<STRING>", `[7]`}, {"ROW<DECIMAL(10, 2), DECIMAL(30, 5)>", `["1.005","1"]`}, {"ROW<DECIMAL(10, 2), DECIMAL(30, 5)>", `["123456789.00","1"]`},
		{"ROW<DECIMAL(10, 2), DECIMAL(30, 5)>", `["1",null]`}, {"ROW<TIMESTAMP(3), TIMESTAMP(9)>", `["2024-01-01T00:00:00.0001","2024-01-01T00:00:00"]`},
		{"POJO", "x"}, {"POJO", "0x0"},
	} {
		if raw, err := ParseKey(of[c.name], c.text); err == nil {
			t.Errorf("%s %s: %x", c.name, c.text, raw)
		}
	}
	if _, err := ParseKey(of["POJO"], "x"); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "0x") {
		t.Errorf("POJO: %v", err)
	}
	// What has several forms is to be looked for by its text.
	if _, err := ParseKey(of["BigInteger"], "10"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("10: %v", err)
	}
	if _, err := ParseKey(of["ROW<TIMESTAMP(3), TIMESTAMP(9)>"], `["2024-01-01T00:00:00",null]`); !errors.Is(err, ErrUnsupported) {
		t.Errorf("null of TIMESTAMP(9): %v", err)
	}
	if _, err := ParseKey(nil, "x"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no serializer: %v", err)
	}
}

// TestParseTimes reads what is shown of any date, time and point in time.
func TestParseTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := DateTime{dates.Draw(t, "date"), clocks.Draw(t, "time")}
		unquoted := func(v any) string { return strings.Trim(Text(v), `"`) }
		if d, ok := parseDateTime(unquoted(v)); !ok || d != v {
			t.Fatalf("%s is %v", Text(v), d)
		}
		at := v.instant()
		if at.utc() != v {
			t.Fatalf("%v is %v and that %v", v, at, at.utc())
		}
		if i, ok := parseInstant(unquoted(at)); !ok || i != at {
			t.Fatalf("%s is %v", Text(at), i)
		}
	})
}
