package serializer

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// snapshotOf is a snapshot of a class; its body is in hex, or other snapshots.
func snapshotOf(t *testing.T, class string, version int32, body ...any) []byte {
	t.Helper()
	out := NewOutput(nil)
	out.UTF(class)
	out.I32(version)
	for _, b := range body {
		switch b := b.(type) {
		case string:
			out.Raw(unhex(t, b))
		case [][]byte:
			out.I32(nestedMagic)
			out.I32(1)
			out.I32(int32(len(b)))
			out.Raw(bytes.Join(b, nil))
		}
	}
	return out.Bytes()
}

// compositeBytes is a snapshot of a composite of others.
func compositeBytes(t *testing.T, class, outerVersion, outer string, parts ...[]byte) []byte {
	t.Helper()
	return snapshotOf(t, class, 3, "000de704"+outerVersion+outer, parts)
}

// TestTableClasses are serializers of which the files of real Flink have no
// values: snapshots and values are made as their classes' write methods do.
func TestTableClasses(t *testing.T) {
	long := snapshotOf(t, base+"LongSerializer$LongSerializerSnapshot", 3)
	str := snapshotOf(t, base+"StringSerializer$StringSerializerSnapshot", 3)
	nullable := compositeBytes(t, javaRuntime+"NullableSerializer$NullableSerializerSnapshot", "00000002", "00000008", long)
	var row []byte // ROW<BIGINT>
	for _, sample := range tableSamples(t) {
		if sample.Type == "ROW<BIGINT>" {
			row = sample.Snapshot
		}
	}
	const (
		one  = "0000000000000001 "
		row7 = "00000010 0000000000000000 0700000000000000 "
	)
	named := append(bytes.Clone(row), unhex(t, "01 0003 666f6f")...)
	binary.BigEndian.PutUint32(named[2+binary.BigEndian.Uint16(named):], 4)
	unnamed := append(bytes.Clone(named[:len(named)-6]), 0)
	for name, c := range map[string]struct {
		snapshot []byte
		typ      string
		len      int
		value    string
		want     string
	}{
		"row with names":       {named, "ROW<`foo` BIGINT>", -1, row7, `{"foo":7}`},
		"row without":          {unnamed, "ROW<BIGINT>", -1, row7, `[7]`},
		"binary row":           {snapshotOf(t, tableTypes+"BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot", 3, "00000001"), "ROW", -1, row7, `{"@class":"BinaryRowData","@raw":"0x00000000000000000700000000000000","@reason":"the types of the fields are not known"}`},
		"count window":         {snapshotOf(t, tableWindows+"CountWindow$Serializer$CountWindowSerializerSnapshot", 3), "CountWindow", 8, one, `{"id":1}`},
		"global window":        {snapshotOf(t, tableWindows+"GlobalWindow$Serializer$GlobalWindowSerializerSnapshot", 3), "GlobalWindow", 1, "00", `"GlobalWindow"`},
		"window key":           {compositeBytes(t, tableTypes+"WindowKeySerializer$WindowKeySerializerSnapshot", "00000001", "", row), "WindowKey<ROW<BIGINT>>", -1, one + row7, `{"window":1,"key":[7]}`},
		"list, no mask":        {compositeBytes(t, tableTypes+"LinkedListSerializer$LinkedListSerializerSnapshot", "00000003", "00", str), "List<String>", -1, "00000001 0261", `["a"]`},
		"list, mask":           {compositeBytes(t, tableTypes+"LinkedListSerializer$LinkedListSerializerSnapshot", "00000003", "01", str), "List<String>", -1, "00000002 80 0261", `[null,"a"]`},
		"list, always a mask":  {compositeBytes(t, tableTypes+"LinkedListSerializer$LinkedListSerializerSnapshot", "00000002", "", str), "List<String>", -1, "00000009 0080 02610261026102610261026102610261", `["a","a","a","a","a","a","a","a",null]`},
		"list, old":            {compositeBytes(t, tableTypes+"LinkedListSerializer$LinkedListSerializerSnapshot", "00000001", "", str), "List<String>", -1, "00000001 0261", `["a"]`},
		"list view":            {compositeBytes(t, dataview+"ListViewSerializerSnapshot", "00000001", "", compositeBytes(t, base+"ListSerializerSnapshot", "00000001", "", str)), "List<String>", -1, "00000001 0261", `["a"]`},
		"map view":             {compositeBytes(t, dataview+"MapViewSerializerSnapshot", "00000001", "", compositeBytes(t, base+"MapSerializerSnapshot", "00000001", "", str, long)), "Map<String, Long>", -1, "00000001 0261 00 " + one, `{"a":1}`},
		"null-aware map":       {compositeBytes(t, dataview+"NullAwareMapSerializerSnapshot", "00000001", "", str, long), "Map<String, Long>", -1, "00000002 01 00 " + one + "00 0261 01", `[[null,1],["a",null]]`},
		"null":                 {snapshotOf(t, dataview+"NullSerializer$NullSerializerSnapshot", 3), "NULL", 0, "00", `null`},
		"sorted long":          {snapshotOf(t, "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot", 3), "Long", 8, "7ffffffffffffffe", `-2`},
		"row key":              {append(snapshotOf(t, linkedState+"RowDataKeySerializerSnapshot", 0, "00000001 aa 00000002 bbcc"), row...), "ROW<BIGINT>", -1, row7, `[7]`},
		"node":                 {compositeBytes(t, linkedState+"NodeSerializer$NodeSerializerSnapshot", "00000000", "", row, long, nullable, nullable, nullable, long), "Node", -1, row7 + one + "01 0000000000000000 00 " + one + "00 " + one + one, `{"row":[7],"sqn":1,"prevSqn":null,"nextSqn":1,"nextSqnForRecord":1,"timestamp":1}`},
		"numbers of a row":     {compositeBytes(t, linkedState+"RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot", "00000000", "", long, long), "RowSqnInfo", 16, one + one, `{"firstSqn":1,"lastSqn":1}`},
		"numbers of all":       {compositeBytes(t, linkedState+"MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot", "00000000", "", long, long), "MetaSqnInfo", 16, one + one, `{"highSqn":1,"size":1}`},
		"long decimal":         {snapshotOf(t, tableTypes+"DecimalDataSerializer$DecimalSerializerSnapshot", 3, "00000013 00000002"), "DECIMAL(19, 2)", -1, "00000001 ff", `"-0.01"`},
		"short decimal":        {snapshotOf(t, tableTypes+"DecimalDataSerializer$DecimalSerializerSnapshot", 3, "00000012 00000002"), "DECIMAL(18, 2)", -1, one, `"0.01"`},
		"timestamp":            {snapshotOf(t, tableTypes+"TimestampDataSerializer$TimestampDataSerializerSnapshot", 1, "00000003"), "TIMESTAMP(3)", 8, "ffffffffffffffff", `"1969-12-31T23:59:59.999"`},
		"timestamp with nanos": {snapshotOf(t, tableTypes+"TimestampDataSerializer$TimestampDataSerializerSnapshot", 1, "00000009"), "TIMESTAMP(9)", 12, one + "00000001", `"1970-01-01T00:00:00.001000001"`},
	} {
		checkClass(t, name, c.snapshot, c.typ, c.len, c.value, c.want)
	}
}

func checkClass(t *testing.T, name string, snapshot []byte, typ string, length int, value, want string) {
	t.Helper()
	s := readTableSnapshot(t, snapshot)
	r := Of(s)
	if s.String() != typ || r.Len() != length {
		t.Errorf("%s: %s of length %d", name, s, r.Len())
	}
	in := NewInput(unhex(t, value))
	if got := string(AppendRead(nil, r, in)); got != want || in.Err() != nil || !in.AtEnd() {
		t.Errorf("%s: %s, want %s; %v, %d bytes left", name, got, want, in.Err(), in.Remaining())
	}
	if err := checkReadings(t, r, unhex(t, value)); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	CheckEncodeJSON(t, s, unhex(t, value), []byte(want))
}

// TestPatternClasses are values of CEP by the write methods of Flink 1.3 and 1.20.
func TestPatternClasses(t *testing.T) {
	str := snapshotOf(t, base+"StringSerializer$StringSerializerSnapshot", 3)
	dewey := snapshotOf(t, cepNFA+"DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot", 3)
	buffer := compositeBytes(t, cepNFA+"SharedBuffer$SharedBufferSerializerSnapshot", "00000002", "", str, str, dewey)
	event := snapshotOf(t, cepBuffer+"EventId$EventIdSerializer$EventIdSerializerSnapshot", 3)
	node := compositeBytes(t, cepBuffer+"NodeId$NodeIdSerializer$NodeIdSerializerSnapshot", "00000001", "", event)
	edge := compositeBytes(t, cepBuffer+"SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot", "00000001", "", node, dewey)
	const (
		one      = "0000000000000001 "
		aBuffer  = "00000001 0261 00000001 0265" + one + "00000002 00000003 00000001 00000000 ffffffff 00000001 00000005 "
		bufferOf = `{"pages":[{"name":"a","entries":[{"value":"e","timestamp":1,"counter":2,"refCounter":3}]}],"edges":[{"source":0,"target":-1,"deweyNumber":[5]}]}`
	)
	checkClass(t, "buffer of 1.3", buffer, "SharedBuffer", -1, aBuffer, bufferOf)
	checkClass(t, "NFA of 1.3", compositeBytes(t, cepNFA+"NFA$MigratedNFASerializerSnapshot", "00000002", "", str, buffer), "NFA", -1,
		"00000001 0261 00000000 0261 00000002 0261 0262 00000001 00 0261 0261 00000000 01 00000005 aced000570 "+
			one+"01 "+aBuffer+"00000001 0261 00 "+one+"00000001 00000005 "+one+"00000007 01 0265",
		`{"states":[{"name":"a","type":0},{"source":"a","transitions":[{"source":"a","target":"b","action":1,"condition":null},`+
			`{"source":"a","target":"a","action":0,"condition":{"@class":"","@raw":"0xaced000570","@reason":"a condition is code"}}]}],`+
			`"windowTime":1,"handleTimeout":true,"sharedBuffer":`+bufferOf+`,"computationStates":[{"currentStateName":"a",`+
			`"previousStateName":null,"timestamp":1,"version":[5],"startTimestamp":1,"counter":7,"event":"e"}]}`)
	checkClass(t, "node with locked edges", compositeBytes(t, cepBuffer+"SharedBufferNodeSerializerSnapshotV2", "00000001", "", edge), "SharedBufferNode", -1,
		"00000001 00000002 00 00000000", `{"edges":[{"refCounter":2,"element":{"target":null,"deweyNumber":[]}}]}`)
	in := NewInput(unhex(t, "02"))
	if Of(readTableSnapshot(t, node)).Read(in); in.Err() == nil || !strings.Contains(in.Err().Error(), "presence") {
		t.Error(in.Err())
	}
}
