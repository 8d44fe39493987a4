package tools

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

func dumpAs(t *testing.T, f Format) []byte {
	t.Helper()
	fsys, s := openLocal(t, canonicalSavepoint(t))
	var out bytes.Buffer
	d, err := DumpState(t.Context(), fsys, s, &out, DumpStateOptions{Format: f})
	if err != nil || len(d.Problems) > 0 {
		t.Fatal(err, d.Problems)
	}
	return out.Bytes()
}

// jsonRows makes rows of the lines of JSON, by way of package json.
func jsonRows(t *testing.T) []Row {
	t.Helper()
	var rows []Row
	for line := range bytes.Lines(dumpAs(t, FormatJSON)) {
		var l struct {
			Operator, OperatorID, State, Type, Mode string
			Subtask                                 int32
			KeyGroup                                *int32
			Key, Namespace, UserKey, Value          json.RawMessage
			LastAccess                              *time.Time
			Timestamp                               *int64
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		cell := func(raw json.RawMessage) *string {
			var text string
			switch {
			case raw == nil || string(raw) == "null":
				return nil
			case json.Unmarshal(raw, &text) == nil:
				return &text
			}
			text = string(raw)
			return &text
		}
		r := Row{
			Operator: l.Operator, OperatorID: l.OperatorID, Subtask: l.Subtask, State: l.State, Type: cmp.Or(l.Type, l.Mode), KeyGroup: l.KeyGroup,
			Key: cell(l.Key), Namespace: cell(l.Namespace), UserKey: cell(l.UserKey), Value: cell(l.Value), Timestamp: l.Timestamp,
		}
		if l.LastAccess != nil {
			r.LastAccess = new(l.LastAccess.UnixMilli())
		}
		rows = append(rows, r)
	}
	return rows
}

func rowText(r *Row) string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestFormatsAgree reads CSV and Parquet with their libraries.
func TestFormatsAgree(t *testing.T) {
	want := jsonRows(t)
	if len(want) < 1000 {
		t.Fatalf("only %d rows", len(want))
	}
	data := dumpAs(t, FormatParquet)
	got, err := parquet.Read[Row](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows of Parquet, %d of JSON", len(got), len(want))
	}
	for i := range got {
		if a, b := rowText(&got[i]), rowText(&want[i]); a != b {
			t.Fatalf("row %d: Parquet has %s, JSON %s", i, a, b)
		}
	}
	records, err := csv.NewReader(bytes.NewReader(dumpAs(t, FormatCSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(records[0], csvHeader) || len(records) != len(want)+1 {
		t.Fatalf("%d records: %q", len(records), records[0])
	}
	for i, record := range records[1:] {
		r := &want[i]
		text := func(v any) string {
			switch v := v.(type) {
			case *string:
				if v != nil {
					return *v
				}
			case *int64:
				if v != nil {
					return fmt.Sprint(*v)
				}
			case *int32:
				if v != nil {
					return fmt.Sprint(*v)
				}
			}
			return ""
		}
		fields := []string{
			r.Operator, r.OperatorID, fmt.Sprint(r.Subtask), r.State, r.Type, text(r.KeyGroup),
			text(r.Key), text(r.Namespace), text(r.UserKey), text(r.Value), text(r.LastAccess), text(r.Timestamp),
		}
		if !slices.Equal(record, fields) {
			t.Fatalf("record %d is %q, JSON has %q", i, record, fields)
		}
	}
}

// TestOrder: the output does not depend on the number of workers, and is in order.
func TestOrder(t *testing.T) {
	fsys := newGeneratedFS()
	_, s := fsys.add(t, "file:/a", 300, -1)
	var first []byte
	for _, jobs := range []int{1, 2, 5, 64} {
		var out bytes.Buffer
		if _, err := DumpState(t.Context(), fsys, s, &out, DumpStateOptions{EntryOptions: EntryOptions{Jobs: jobs}}); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out.Bytes()
		} else if !bytes.Equal(first, out.Bytes()) {
			t.Errorf("%d jobs give another output", jobs)
		}
	}
	for _, limit := range []int64{1, 299, 601, 5000} {
		var out bytes.Buffer
		d, err := DumpState(t.Context(), fsys, s, &out, DumpStateOptions{EntryOptions: EntryOptions{Limit: limit, Jobs: 3}})
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(bytes.Count(out.Bytes(), []byte("\n"))); n != limit || d.Entries != limit || !bytes.HasPrefix(first, out.Bytes()) {
			t.Errorf("limit %d gave %d lines", limit, n)
		}
		entries := int64(0)
		for _, err := range Entries(t.Context(), fsys, s, EntryOptions{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			entries++
		}
		if entries != limit {
			t.Errorf("limit %d gave %d entries", limit, entries)
		}
	}
}

// TestSizes compares with what is known of the generated state.
func TestSizes(t *testing.T) {
	fsys := newGeneratedFS()
	_, s := fsys.add(t, "file:/a", 100, -1)
	r, err := Sizes(t.Context(), fsys, s, SizeOptions{EntryOptions: EntryOptions{Jobs: 3}, Details: true, Top: 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.States) != 2 || r.Entries != 2*100*generatedGroups {
		t.Fatalf("got %+v", r)
	}
	for i, value := range []int64{8, int64(1 + len(generatedName))} {
		x := &r.States[i]
		const entries = 100 * generatedGroups
		// A Long as the key, and the byte of the namespace.
		if x.Entries != entries || x.KeyBytes != 9*entries || x.ValueBytes != value*entries || x.Subtasks != 1 {
			t.Errorf("got %+v", x)
		}
		if h := x.Values; h.Min != value || h.Max != value || h.P50 != value || h.P99 != value || h.Mean != float64(value) || len(h.Buckets) != 1 {
			t.Errorf("got %+v", h)
		}
		if len(x.KeyGroups) != 4 || x.KeyGroups[0].Entries != 100 || x.Skew != 1 {
			t.Errorf("got %+v, %f", x.KeyGroups, x.Skew)
		}
		if len(x.LargestKeys) != 4 || x.LargestKeys[3].Key != "3" || x.LargestKeys[3].Bytes != 9+value {
			t.Errorf("got %+v", x.LargestKeys)
		}
	}
}

func TestHistogram(t *testing.T) {
	var a, b Histogram
	for n := range int64(90) {
		a.add(n%10 + 1)
	}
	for range 10 {
		b.add(1000)
	}
	a.merge(&b)
	a.finish()
	if a.Count != 100 || a.Min != 1 || a.Max != 1000 || a.P50 != 8 || a.P99 != 1000 || a.Mean != 104.95 {
		t.Errorf("got %+v", a)
	}
	want := []Bucket{{1, 9}, {2, 9}, {4, 18}, {8, 36}, {16, 18}, {1024, 10}}
	if !slices.Equal(a.Buckets, want) {
		t.Errorf("got %v, want %v", a.Buckets, want)
	}
}

func TestParseKeyGroups(t *testing.T) {
	got, err := ParseKeyGroups("0-3, 17,32767")
	if err != nil || !slices.Equal(got, []keygroup.Range{{Start: 0, End: 3}, {Start: 17, End: 17}, {Start: 32767, End: 32767}}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "a", "-1", "3-1", "32768", "1-", "1,,2"} {
		if got, err := ParseKeyGroups(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

// TestMatchOperators: an id, a uid, the hash of a uid, a name; several are an error.
func TestMatchOperators(t *testing.T) {
	m := &metadata.Snapshot{Operators: []metadata.Operator{
		{ID: metadata.UIDHash("a"), UID: "a", Name: "map"}, {ID: metadata.UIDHash("b"), Name: "map"}, {ID: metadata.OperatorID{7}, Name: "b"},
	}}
	for arg, want := range map[string]int{"a": 0, "b": 1, metadata.UIDHash("b").String(): 1, "07000000000000000000000000000000": 2} {
		list, err := (&Selection{Operators: []string{arg}}).operators(m)
		if err != nil || len(list) != 1 || list[0] != &m.Operators[want] {
			t.Errorf("%s: got %v, %v", arg, list, err)
		}
	}
	for _, bad := range []string{"map", "c", ""} {
		if _, err := (&Selection{Operators: []string{bad}}).operators(m); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestStopIterating leaves the loop early, at an entry and at a problem.
func TestStopIterating(t *testing.T) {
	fsys := newGeneratedFS()
	_, s := fsys.add(t, "file:/a", 300, -1)
	for range Entries(t.Context(), fsys, s, EntryOptions{}) {
		break
	}
	delete(fsys.files, "file:/a/state")
	n := 0
	for _, err := range Entries(t.Context(), fsys, s, EntryOptions{}) {
		if err == nil {
			t.Error("no problem")
		}
		n++
		break
	}
	d, err := DumpState(t.Context(), fsys, s, io.Discard, DumpStateOptions{})
	if err != nil || len(d.Problems) != 1 || n != 1 {
		t.Errorf("got %+v, %v, %d", d, err, n)
	}
}
