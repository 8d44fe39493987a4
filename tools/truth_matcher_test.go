package tools

import (
	"math/big"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// TestTruthNotation checks the texts that keys are found by against what Java prints.
func TestTruthNotation(t *testing.T) {
	big1 := big.NewInt(12345)
	for _, c := range []struct {
		v    any
		want string
	}{
		{serializer.Decimal{Unscaled: big1, Scale: 0}, "12345"},
		{serializer.Decimal{Unscaled: big1, Scale: 2}, "123.45"},
		{serializer.Decimal{Unscaled: big.NewInt(-5), Scale: 3}, "-0.005"},
		{serializer.Decimal{Unscaled: big1, Scale: -2}, "1.2345E+6"},
		{serializer.Decimal{Unscaled: big.NewInt(1), Scale: 7}, "1E-7"},
		{serializer.Date{Year: 2024, Month: 2, Day: 29}, "2024-02-29"},
		{serializer.Date{Year: -5, Month: 1, Day: 1}, "-0005-01-01"},
		{serializer.Date{Year: -999999999, Month: 1, Day: 1}, "-999999999-01-01"},
		{serializer.Date{Year: 12345, Month: 1, Day: 1}, "+12345-01-01"},
		{serializer.Time{Hour: 7}, "07:00"},
		{serializer.Time{Hour: 7, Second: 1, Nano: 5000}, "07:00:01.000005"},
		{serializer.Instant{}, "1970-01-01T00:00:00Z"},
		{serializer.Instant{Second: -1, Nano: 999999999}, "1969-12-31T23:59:59.999999999Z"},
		{serializer.Instant{Second: 1_700_000_060, Nano: 60000}, "2023-11-14T22:14:20.000060Z"},
		{serializer.Window{Start: -5, End: 10}, "-5..10"},
		{float32(-0.25), "-0.25"},
		{1e7, "1.0E7"},
		{1.5e-7, "1.5E-7"},
		{3.0, "3.0"},
		{[]any{"a", int64(1), 2.5}, "(a,1,2.5)"},
		{serializer.Either{Left: true, Value: "x"}, "Left(x)"},
	} {
		if got := javaString(c.v); got != c.want {
			t.Errorf("%#v is printed %s, want %s", c.v, got, c.want)
		}
	}
}

// TestTruthMatcher checks that the comparison with truth files notices
// differences: a test that can't fail shows nothing.
func TestTruthMatcher(t *testing.T) {
	record := func(class, kind string, cut bool, values ...any) *serializer.Record {
		r := &serializer.Record{Class: class, Kind: kind, Cut: cut}
		for i, v := range values {
			name := ""
			if class != "" {
				name = string(rune('a' + i))
			}
			r.Fields = append(r.Fields, serializer.Field{Name: name, Value: v})
		}
		return r
	}
	for _, c := range []struct {
		name, want string // want is JSON
		got        any
		diffs      int
	}{
		{"number", `5`, int64(5), 0},
		{"other number", `5`, int64(6), 1},
		{"number for text", `"5"`, int64(5), 1},
		{"integer for float", `5.0`, int64(5), 1},
		{"float", `0.1`, float32(0.1), 0},
		{"null", `null`, nil, 0},
		{"null for value", `0`, nil, 1},
		{"list", `[1,"a"]`, []any{int32(1), "a"}, 0},
		{"longer list", `[1]`, []any{int32(1), "a"}, 1},
		{"order", `[1,2]`, []any{int32(2), int32(1)}, 2},
		{"tuple as text", `"(a,1)"`, []any{"a", int32(1)}, 0},
		{"map", `{"a":1,"5":null}`, serializer.Map{{Key: int64(5)}, {Key: "a", Value: int8(1)}}, 0},
		{"map with more", `{"a":1}`, serializer.Map{{Key: "b", Value: int8(1)}, {Key: "a", Value: int8(1)}}, 1},
		{"map with less", `{"a":1,"b":1}`, serializer.Map{{Key: "a", Value: int8(1)}}, 1},
		{"map by rows", `{"[1,\"x\"]":1}`, serializer.Map{{Key: record("", "+I", false, int32(1), "x"), Value: int32(1)}}, 0},
		{"bytes", `"0x0aff"`, []byte{10, 255}, 0},
		{"bytes without prefix", `"0aff"`, []byte{10, 255}, 0},
		{"other bytes", `"0x0afe"`, []byte{10, 255}, 1},
		{"row", `[1,null]`, record("", "+I", false, int32(1), nil), 0},
		{"row of another kind", `[1,null]`, record("", "-D", false, int32(1), nil), 1},
		{"row with kind", `{"rowKind":"-D","fields":[1]}`, record("", "-D", false, int32(1)), 0},
		{"insert with kind", `{"rowKind":"+I","fields":[1]}`, record("", "+I", false, int32(1)), 0},
		{"shorter row", `[1,2]`, record("", "+I", false, int32(1)), 1},
		{"cut row", `[1,2]`, record("", "+I", true, int32(1)), 0},
		{"object", `{"class":"C","a":1,"b":"x"}`, record("C", "", false, int32(1), "x"), 0},
		{"object of another class", `{"class":"D","a":1,"b":"x"}`, record("C", "", false, int32(1), "x"), 1},
		{"object without a field", `{"class":"C","a":1,"b":"x"}`, record("C", "", false, int32(1)), 1},
		{"object with one more", `{"class":"C","a":1}`, record("C", "", false, int32(1), "x"), 1},
		{"cut object", `{"class":"C","a":1,"b":"x"}`, record("C", "", true, int32(1)), 0},
		{"record as text", `"{\"a\": 1, \"b\": \"\\u0000ÿ\"}"`, record("C", "", false, int32(1), []byte{0, 255}), 0},
		{"either", `{"left":1}`, serializer.Either{Left: true, Value: int32(1)}, 0},
		{"other side", `{"right":1}`, serializer.Either{Left: true, Value: int32(1)}, 1},
		{"ttl", `{"lastAccess":7,"value":1}`, serializer.TTL{LastAccess: 7, Value: int32(1)}, 0},
		{"other access", `{"lastAccess":8,"value":1}`, serializer.TTL{LastAccess: 7, Value: int32(1)}, 1},
		{"opaque", `"anything"`, serializer.Opaque{Class: "C", Raw: []byte{1}, Reason: "r"}, 0},
		{"opaque without bytes", `"anything"`, serializer.Opaque{Class: "C", Reason: "r"}, 1},
		{"raw", `"raw:0x01"`, serializer.Opaque{Class: "C", Raw: []byte{1}, Reason: "r"}, 0},
		{"other raw", `"raw:0x02"`, serializer.Opaque{Class: "C", Raw: []byte{1}, Reason: "r"}, 1},
		{"instant", `"2023-11-14 22:14:20.00006"`, serializer.Instant{Second: 1_700_000_060, Nano: 60000}, 0},
		{"other instant", `"2023-11-14 22:14:20.00007"`, serializer.Instant{Second: 1_700_000_060, Nano: 60000}, 1},
	} {
		want, ok := parseJSON(c.want)
		if !ok {
			t.Fatalf("%s: %s is no JSON", c.name, c.want)
		}
		m := matcher{opaque: map[string]int{}}
		m.match("", notation{}, want, c.got)
		if len(m.diffs) != c.diffs {
			t.Errorf("%s: %d differences, want %d: %v", c.name, len(m.diffs), c.diffs, m.diffs)
		}
	}
}
