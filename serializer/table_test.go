package serializer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tableSample is a serializer with values, see testdata/README.md.
type tableSample struct {
	From, Type string
	Snapshot   []byte
	Values     []struct {
		Value []byte
		Want  any
	}
}

func tableSamples(t testing.TB) (all []tableSample) {
	t.Helper()
	data, err := os.ReadFile("testdata/table/values.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var s tableSample
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) != 46 {
		t.Fatalf("%d samples", len(all))
	}
	return all
}

func readTableSnapshot(t testing.TB, data []byte) *Snapshot {
	t.Helper()
	in := NewInput(data)
	s := ReadSnapshot(in)
	if s == nil || !in.AtEnd() {
		t.Fatalf("snapshot: %v, %d bytes left", in.Err(), in.Remaining())
	}
	out := NewOutput(nil)
	if s.Write(out); !bytes.Equal(out.Bytes(), data) {
		t.Fatalf("%s: other bytes", s)
	}
	return s
}

// likeReader puts a value in the form of the program that read the files with
// Flink's serializers: rows and their kinds, times as Java prints them.
func likeReader(v any) any {
	switch v := v.(type) {
	case *Record:
		list, object := []any{}, map[string]any{}
		for _, f := range v.Fields {
			list = append(list, likeReader(f.Value))
			object[f.Name] = likeReader(f.Value)
		}
		switch {
		case v.Kind == "": // of CEP
			return object
		case v.Kind != "+I":
			return map[string]any{"rowKind": v.Kind, "fields": list}
		}
		return list
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, likeReader(e))
		}
		return list
	case Map:
		object := map[string]any{}
		for _, e := range v {
			object[Text(e.Key)] = likeReader(e.Value)
		}
		return object
	case TTL:
		return map[string]any{"lastAccess": float64(v.LastAccess), "value": likeReader(v.Value)}
	case Time:
		return float64(((int(v.Hour)*60+int(v.Minute))*60+int(v.Second))*1000 + int(v.Nano)/1_000_000)
	case DateTime, Instant:
		return strings.TrimSuffix(strings.TrimSuffix(strings.Trim(Text(v), `"`), "Z"), ":00")
	case nil, string, bool, float64:
		return v
	}
	var plain any
	if err := json.Unmarshal(AppendJSON(nil, v), &plain); err != nil {
		return err
	}
	return plain
}

// likeValues leaves out of what Flink's reader gave the names of classes, what
// is not in the bytes, and the raw byte of a view, which is null here.
func likeValues(want any) any {
	switch want := want.(type) {
	case map[string]any:
		if d, ok := want["deweyNumber"]; ok {
			return likeValues(d)
		}
		object := map[string]any{}
		for k, v := range want {
			if k != "class" && k != "isNewStartPartialMatch" && k != "stateChanged" {
				object[k] = likeValues(v)
			}
		}
		return object
	case []any:
		list := []any{}
		for _, v := range want {
			list = append(list, likeValues(v))
		}
		return list
	case string:
		if want == "raw:0x00" {
			return nil
		}
	}
	return want
}

func TestTableValues(t *testing.T) {
	types := 0
	for _, sample := range tableSamples(t) {
		snapshot := readTableSnapshot(t, sample.Snapshot)
		// Flink 1.20 writes structured types in another way.
		if strings.HasPrefix(sample.Type, "ROW<") && !strings.Contains(sample.Type, "*org.") {
			if types++; snapshot.String() != sample.Type {
				t.Errorf("%s: type %s, want %s", sample.From, snapshot, sample.Type)
			}
		}
		s := Of(snapshot)
		for _, c := range sample.Values {
			in := NewInput(c.Value)
			v := s.Read(in)
			if in.Err() != nil || !in.AtEnd() {
				t.Errorf("%s: %x: %v, %d bytes left", sample.From, c.Value, in.Err(), in.Remaining())
				continue
			}
			if got, want := likeReader(v), likeValues(c.Want); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v\nwant %v", sample.From, got, want)
			}
			checkReadings(t, s, c.Value)
			for n := range c.Value {
				in := NewInput(c.Value[:n])
				if s.Read(in); !errors.Is(in.Err(), ErrTruncated) {
					t.Errorf("%s: %d of %d bytes: %v", sample.From, n, len(c.Value), in.Err())
				}
				if s.Skip(NewInput(c.Value[:n])); len(c.Value) != n && !errors.Is(in.Err(), ErrTruncated) {
					t.Errorf("%s: %d of %d bytes skipped", sample.From, n, len(c.Value))
				}
			}
		}
	}
	if types < 30 {
		t.Errorf("only %d types", types)
	}
}

// checkReadings checks that the ways to read a value agree, and that JSON is
// JSON whatever the bytes. It gives the error.
func checkReadings(t interface {
	Errorf(string, ...any)
}, s Serializer, data []byte) error {
	in := NewInput(data)
	want := AppendJSON(nil, s.Read(in))
	direct := NewInput(data)
	got := AppendRead(nil, s, direct)
	if !json.Valid(want) || !json.Valid(got) {
		t.Errorf("%x: no JSON: %q, %q", data, want, got)
	}
	if fmt.Sprint(in.Err()) != fmt.Sprint(direct.Err()) {
		t.Errorf("%x: errors %v and %v", data, in.Err(), direct.Err())
	}
	if in.Err() != nil {
		return in.Err()
	}
	skip := NewInput(data)
	s.Skip(skip)
	if !bytes.Equal(got, want) || in.Offset() != direct.Offset() || in.Offset() != skip.Offset() {
		t.Errorf("%x: %s to %d, %s to %d, skipped to %d", data, want, in.Offset(), got, direct.Offset(), skip.Offset())
	}
	return nil
}

// TestTableDamage changes bytes of values: what comes out may be wrong, but is
// the same by each way, and ends.
func TestTableDamage(t *testing.T) {
	samples := tableSamples(t)
	rapid.Check(t, func(t *rapid.T) {
		sample := samples[rapid.IntRange(0, len(samples)-1).Draw(t, "sample")]
		data := bytes.Clone(sample.Values[0].Value)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		in := NewInput(sample.Snapshot)
		_ = checkReadings(t, Of(ReadSnapshot(in)), data)
	})
}

// rowDataOf makes a serializer of rows of a type.
func rowDataOf(children ...*logicalType) Serializer {
	return framed{&logicalType{root: rootRow, text: "ROW", children: children}}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRowRefuses(t *testing.T) {
	text := &logicalType{root: rootString}
	array := &logicalType{root: rootArray, children: []*logicalType{text}}
	dict := &logicalType{root: rootMap, children: []*logicalType{text, text}}
	row := &logicalType{root: rootRow, children: []*logicalType{text}}
	for name, c := range map[string]struct {
		of   Serializer
		data string
	}{
		"no room for the header":    {rowDataOf(text), "00000007 00000000000000"},
		"no room for a field":       {rowDataOf(text), "00000008 0000000000000000"},
		"kind":                      {rowDataOf(), "00000008 0400000000000000"},
		"text longer than its slot": {rowDataOf(text), "00000010 0000000000000000 6161616161616188"},
		"offset behind the row":     {rowDataOf(text), "00000010 0000000000000000 0000000011000000"},
		"length behind the row":     {rowDataOf(text), "00000010 0000000000000000 0900000008000000"},
		"parts that overlap":        {rowDataOf(text, text), "00000018 0000000000000000 1000000008000000 1000000008000000"},
		"array of itself":           {rowDataOf(array), "00000010 0000000000000000 0800000008000000"},
		"array without a count":     {rowDataOf(array), "00000010 0000000000000000 0300000000000000"},
		"array of too many":         {rowDataOf(array), "00000018 0000000000000000 0800000010000000 ffffffff 00000000"},
		"map without a size":        {rowDataOf(dict), "00000010 0000000000000000 0300000008000000"},
		"map of too large keys":     {rowDataOf(dict), "00000018 0000000000000000 0800000010000000 05000000 00000000"},
		"map of unequal numbers":    {rowDataOf(dict), "00000030 0000000000000000 2000000010000000 10000000 01000000 01000000 00000000 00000000 00000000 00000000 00000000"},
		"row in a row that is short": {rowDataOf(row),
			"00000018 0000000000000000 0800000010000000 0000000000000000"},
		"time of no day":        {rowDataOf(&logicalType{root: rootTime}), "00000010 0000000000000000 005c260500000000"},
		"nanoseconds":           {rowDataOf(&logicalType{root: rootTimestamp, precision: 9}), "00000018 0000000000000000 40420f0010000000 0000000000000000"},
		"timestamp without end": {rowDataOf(&logicalType{root: rootTimestampLTZ, precision: 9}), "00000010 0000000000000000 0000000010000000"},
		"variant":               {rowDataOf(&logicalType{root: rootVariant}), "00000010 0000000000000000 0000000500000084"},
		"negative size":         {rowDataOf(text), "ffffffff"},
		"string":                {Of(simpleOf(tableTypes + "StringDataSerializer")), "80000000"},
	} {
		err := checkReadings(t, c.of, unhex(t, c.data))
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrCorrupt) || e.Field == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRowWork nests arrays in arrays that all are the same bytes: what is read
// must not grow with the depth.
func TestRowWork(t *testing.T) {
	deep := &logicalType{root: rootInteger}
	for range maxTypeDepth - 1 {
		deep = &logicalType{root: rootArray, children: []*logicalType{deep}}
	}
	data := []byte{0, 0, 0x20, 0, 0xF0, 3, 0, 0}
	for len(data) < 4+0x2000 {
		data = append(data, 0xF8, 0x1F, 0, 0, 0, 0, 0, 0)
	}
	in := NewInput(data[:4+0x2000])
	if (framed{deep}).Read(in); !errors.Is(in.Err(), ErrCorrupt) {
		t.Error(in.Err())
	}
}

func TestRowUnknownTypes(t *testing.T) {
	raw := &logicalType{root: rootRaw, class: "com.example.Thing"}
	s := rowDataOf(unknownType("SYMBOL"), raw, &logicalType{root: rootVariant}, &logicalType{root: rootString})
	data := unhex(t, "00000028 0000000000000000 0102030405060708 0102000000000082 00000001ab cd0086 6869000000000082")
	want := `[{"@class":"SYMBOL","@raw":"0x0102030405060708","@reason":"the SQL type is not known"},` +
		`{"@class":"com.example.Thing","@raw":"0x0102","@reason":"the serializer of the raw type is not known"},` +
		`{"value":"0xcd","metadata":"0xab"},"hi"]`
	if got := AppendRead(nil, s, NewInput(data)); string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if err := checkReadings(t, s, data); err != nil {
		t.Error(err)
	}
	// What a serializer in a RAW type cannot read does not end the row.
	raw.raw = text()
	if got := string(AppendRead(nil, s, NewInput(data))); !strings.Contains(got, `"@class":"com.example.Thing","@raw":"0x0102"`) || !strings.HasSuffix(got, `"hi"]`) {
		t.Error(got)
	}
}

func TestCompactDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unscaled, scale := rapid.Int64().Draw(t, "unscaled"), rapid.Int32Range(0, compactDecimal).Draw(t, "scale")
		want := appendDecimal(nil, Decimal{Unscaled: big.NewInt(unscaled), Scale: scale})
		if got := appendCompactDecimal(nil, unscaled, int(scale)); !bytes.Equal(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func BenchmarkRowAppendRead(b *testing.B) {
	for _, sample := range tableSamples(b) {
		if !strings.HasSuffix(sample.From, "sql-dedup-first deduplicate-state") && !strings.HasSuffix(sample.From, "sql-cumulate window-aggs") {
			continue
		}
		b.Run(strings.ReplaceAll(sample.From, " ", "/"), func(b *testing.B) {
			s := Of(readTableSnapshot(b, sample.Snapshot))
			in, dst := new(Input), []byte(nil)
			b.SetBytes(int64(len(sample.Values[0].Value)))
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(sample.Values[0].Value)
				dst = AppendRead(dst[:0], s, in)
			}
			if in.Err() != nil {
				b.Fatal(in.Err())
			}
		})
	}
}
