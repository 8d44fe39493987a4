package serializer_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/drey-state/drey/serializer"
)

// TestAppendJSON checks values at the limits of their types. Dates and
// decimals are what toString of java.time and BigDecimal.toPlainString give.
func TestAppendJSON(t *testing.T) {
	decimal := func(unscaled string, scale int32) serializer.Decimal {
		v, _ := new(big.Int).SetString(unscaled, 10)
		return serializer.Decimal{Unscaled: v, Scale: scale}
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{decimal("0", 2), `"0.00"`},
		{decimal("0", -3), `"0"`},
		{decimal("5", -3), `"5000"`},
		{decimal("-5", 3), `"-0.005"`},
		{decimal("-12345", 3), `"-12.345"`},
		{decimal("123", 3), `"0.123"`},
		{decimal("-1", math.MaxInt32), `"-1E-2147483647"`},
		{decimal("1", math.MinInt32), `"1E+2147483648"`},
		{decimal("12", 65536), `"0.` + strings.Repeat("0", 65534) + `12"`},
		{serializer.Instant{Second: -31557014167219200}, `"-1000000000-01-01T00:00:00Z"`},
		{serializer.Instant{Second: 31556889864403199, Nano: 999999999}, `"+1000000000-12-31T23:59:59.999999999Z"`},
		{serializer.Instant{Second: 951782400, Nano: 1000}, `"2000-02-29T00:00:00.000001Z"`},
		{serializer.Instant{Second: -1}, `"1969-12-31T23:59:59Z"`},
		{serializer.Date{Year: 10000, Month: 1, Day: 1}, `"+10000-01-01"`},
		{serializer.Date{Year: 0, Month: 12, Day: 31}, `"0000-12-31"`},
		{serializer.Time{Hour: 1}, `"01:00:00"`},
		{int8(-128), `-128`},
		{int64(math.MinInt64), `-9223372036854775808`},
		{float32(math.SmallestNonzeroFloat32), `1e-45`},
		{math.MaxFloat64, `1.7976931348623157e+308`},
		{float32(math.Inf(1)), `"Infinity"`},
		{serializer.Unit("GlobalWindow"), `"GlobalWindow"`},
		{serializer.Char('\\'), `"\\"`},
		{[]any{}, `[]`},
		{serializer.Map{}, `{}`},
		{serializer.Map{{Key: true, Value: nil}, {Key: "true", Value: nil}}, `[[true,null],["true",null]]`},
		{serializer.Map{{Key: serializer.Date{Year: 2024, Month: 2, Day: 29}, Value: 1.5}}, `{"2024-02-29":1.5}`},
		{serializer.Map{{Key: math.NaN(), Value: int8(1)}}, `{"NaN":1}`},
		{&serializer.Record{}, `[]`},
		{&serializer.Record{Class: "Empty"}, `{}`},
		{&serializer.Record{Kind: "-U", Fields: []serializer.Field{{Name: "a", Value: int8(1)}}}, `{"rowKind":"-U","fields":{"a":1}}`},
		{&serializer.Record{Class: "Sub", Subclass: true, Cut: true}, `{"@class":"Sub","@cut":true}`},
		{serializer.Opaque{Class: "A", Raw: []byte{1}, Reason: `"`}, `{"@class":"A","@raw":"0x01","@reason":"\""}`},
	} {
		if got := serializer.AppendJSON([]byte("x"), c.v); string(got) != "x"+c.want || !json.Valid(got[1:]) {
			t.Errorf("%#v is %s, want %s", c.v, got[1:], c.want)
		}
	}
	long := new(big.Int).Lsh(big.NewInt(-1), 1<<20)
	if got := string(serializer.AppendJSON(nil, long)); !strings.HasPrefix(got, `"-0x1000`) {
		t.Error(got[:20])
	}
	many := make(serializer.Map, 100)
	for i := range many {
		many[i] = serializer.MapEntry{Key: int64(i), Value: int64(i)}
	}
	if got := string(serializer.AppendJSON(nil, many)); !strings.HasPrefix(got, `{"0":0,"1":1,`) {
		t.Error(got)
	}
	many[99].Key = int64(3)
	if got := string(serializer.AppendJSON(nil, many)); !strings.HasPrefix(got, `[[0,0],[1,1],`) {
		t.Error(got)
	}
}

func TestText(t *testing.T) {
	for want, v := range map[string]any{`a"b`: `a"b`, `7`: int64(7), `"2024-02-29"`: serializer.Date{Year: 2024, Month: 2, Day: 29}, `[1]`: []any{int8(1)}} {
		if got := serializer.Text(v); got != want {
			t.Errorf("%#v is %s, want %s", v, got, want)
		}
	}
}
