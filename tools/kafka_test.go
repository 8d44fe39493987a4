package tools

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestKafkaSource reads savepoints that Flink's Kafka connector wrote: its
// test reads 10 records of each of 10 partitions, with every version of the enumerator's state.
func TestKafkaSource(t *testing.T) {
	for _, dir := range kafkaSavepoints(t) {
		fsys, s := openLocal(t, filepath.ToSlash(dir))
		list, problems, err := KafkaOffsets(t.Context(), fsys, s, EntryOptions{})
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		parts := map[string][]int32{}
		for _, k := range list {
			parts[k.Part] = append(parts[k.Part], k.Partition)
			if k.Topic != "topic" || k.Source != kafkaSource || k.Stopping != nil || k.StoppingSpecial != "" || k.Unassigned {
				t.Errorf("%s: %+v", dir, k)
			}
			if k.Part == "reader" && (k.Next == nil || *k.Next != 10 || len(k.Subtasks) != 1) {
				t.Errorf("%s: %+v", dir, k)
			}
			// Only the third version of the enumerator's state has offsets: where its splits began.
			if k.Part == "enumerator" && (k.Special == "earliest") != strings.Contains(dir, "enum3") {
				t.Errorf("%s: %+v", dir, k)
			}
		}
		all := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		if !slices.Equal(parts["reader"], all) || !slices.Equal(parts["enumerator"], all) {
			t.Errorf("%s: %v", dir, parts)
		}
	}
}

// kafkaSavepoints are the directories of those savepoints, by version.
func kafkaSavepoints(t *testing.T) []string {
	t.Helper()
	root := filepath.Join(sharedFixtures(t), "public", "flink-connector-kafka", "unknown")
	dirs, err := filepath.Glob(root + "/kafka-source-savepoint--*")
	if err != nil || len(dirs) != 3 {
		t.Fatalf("%d directories: %v", len(dirs), err)
	}
	return dirs
}

// consumerElement is an element of the state of FlinkKafkaConsumer.
func consumerElement(value []byte) *backend.OperatorEntry {
	return &backend.OperatorEntry{State: &backend.OperatorState{Name: stateKafkaConsumer, Mode: metadata.ModeUnion, Value: serializer.Of(nil)}, Value: value}
}

// TestKafkaConsumer reads what FlinkKafkaConsumer's migration test has as its
// state: abc-13 at 16768 and def-7 at 987654321.
func TestKafkaConsumer(t *testing.T) {
	texts := []string{
		`{"source":"FlinkKafkaConsumer","topic":"abc","partition":13,"offset":16768,"next":16769}`,
		`{"source":"FlinkKafkaConsumer","topic":"def","partition":7,"offset":987654321,"next":987654322}`,
	}
	for i, e := range consumerElements(t) {
		k, ok := kafkaElement(e)
		if !ok {
			t.Fatalf("%x: not understood", e.Value)
		}
		if got := string(k.appendJSON(nil)); got != texts[i%2] {
			t.Errorf("%x: got %s", e.Value, got)
		}
	}
}

// consumerElements are the two elements of each release of that test.
func consumerElements(t *testing.T) (all []*backend.OperatorEntry) {
	t.Helper()
	root := filepath.Join(sharedFixtures(t), "public", "operator-snapshots")
	files, err := filepath.Glob(root + "/*/flink-connector-kafka--kafka-consumer-migration-test-flink1.*[0-9]-snapshot")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Both begin with the number of the class and the mark of an object.
		for _, start := range []string{"\x57\x01\xd6\xcf\xec\x02", "\x57\x01\xc4\xf2\xf7\x02"} {
			i := bytes.Index(data, []byte(start))
			if i < 0 {
				t.Fatalf("%s: no element", file)
			}
			const size = 6 + 1 + 1 + 3 + 8
			all = append(all, consumerElement(data[i:i+size]))
		}
	}
	return all
}

// union is a store with operator state of a consumer: parallelism 4, 12
// partitions, of which every subtask has all, as after a restore.
func union(t *testing.T) (storage.FS, *Snapshot) {
	t.Helper()
	element := func(partition byte) []byte {
		b := []byte{0x57, 1, 0, partition << 1, 1, 'a', 'b', 'c' | 0x80}
		return binary.BigEndian.AppendUint64(b, uint64(partition)*100)
	}
	kryo, err := os.ReadFile(filepath.Join(sharedFixtures(t), "public", "operator-snapshots", "1.20", "flink-connector-kafka--kafka-consumer-migration-test-flink1.20-snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	// The header of the file of operator state, up to the first element.
	start := bytes.Index(kryo, []byte("\x00\x00\x00\x06\x00\x00\x01\x00\x1dtopic-partition-offset-states"))
	if start < 0 {
		start = bytes.Index(kryo, []byte("\x00\x00\x00\x05\x00\x01\x00\x1dtopic-partition-offset-states"))
	}
	first, _ := hex.DecodeString("5701d6cfec02")
	end := bytes.Index(kryo, first)
	if start < 0 || end < start {
		t.Fatal("no header")
	}
	s := &metadata.Snapshot{Version: 4, CheckpointID: 1, Properties: metadata.NullProperties, Operators: []metadata.Operator{{
		ID: metadata.UIDHash("consumer"), Parallelism: 4, MaxParallelism: 128,
	}}}
	for subtask := range 4 {
		data := bytes.Clone(kryo[start:end])
		state := metadata.StateOffsets{Name: stateKafkaConsumer, Mode: metadata.ModeUnion}
		for p := range byte(12) {
			state.Offsets = append(state.Offsets, int64(len(data)))
			data = append(data, element(p)...)
		}
		s.Operators[0].Subtasks = append(s.Operators[0].Subtasks, metadata.Subtask{Index: int32(subtask), State: &metadata.SubtaskState{
			ManagedOperator: []*metadata.OperatorState{{States: []metadata.StateOffsets{state}, Delegate: &metadata.ByteStream{Name: "x", Data: data}}},
		}})
	}
	data, err := metadata.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	fsys := storage.NewMemory()
	if err := storage.WriteFile(t.Context(), fsys, "file:/union/_metadata", data, storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(t.Context(), fsys, "file:/union")
	if err != nil {
		t.Fatal(err)
	}
	return fsys, opened
}

// TestKafkaUnion shows what every subtask has once.
func TestKafkaUnion(t *testing.T) {
	fsys, s := union(t)
	list, problems, err := KafkaOffsets(t.Context(), fsys, s, EntryOptions{})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if len(list) != 12 {
		t.Fatalf("%d rows", len(list))
	}
	for i, k := range list {
		if k.Partition != int32(i) || *k.Next != int64(i)*100+1 || fmt.Sprint(k.Subtasks) != "[0 1 2 3]" {
			t.Errorf("got %+v", k)
		}
	}
}

// TestKafkaDefaultState reads what FlinkKafkaConsumer's migration test saved with Flink 1.2 and 1.3, which had
// the offsets as Java objects in the state without a name of its own.
func TestKafkaDefaultState(t *testing.T) {
	for _, release := range []string{"1.2", "1.3"} {
		fsys, s := defaultState(t, release)
		list, problems, err := KafkaOffsets(t.Context(), fsys, s, EntryOptions{})
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		got := ""
		for _, k := range list {
			got += fmt.Sprint(k.Source, " ", k.Topic, " ", k.Partition, " ", *k.Offset, " ", *k.Next, ";")
		}
		if want := "FlinkKafkaConsumer abc 13 16768 16769;FlinkKafkaConsumer def 7 987654321 987654322;"; got != want {
			t.Errorf("%s: got %s", release, got)
		}
	}
}

// defaultState is a store with what the migration test saved with Flink 1.2 or 1.3.
func defaultState(t *testing.T, release string) (storage.FS, *Snapshot) {
	t.Helper()
	path := filepath.Join(sharedFixtures(t), "public", "operator-snapshots", release, "flink-connector-kafka-base--kafka-consumer-migration-test-flink"+release+"-snapshot")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A handle: the state's name, mode and offsets, and inline data after its name.
	_, handle, ok := bytes.Cut(file, append([]byte("\x00\x09"+stateDefault), 0, 0, 0, 0, 2))
	if !ok {
		t.Fatalf("%s: no handle", path)
	}
	state := metadata.StateOffsets{Name: stateDefault, Mode: metadata.ModeSplit, Offsets: []int64{
		int64(binary.BigEndian.Uint64(handle)), int64(binary.BigEndian.Uint64(handle[8:])),
	}}
	const uuid = 36
	data := handle[16+1+2+uuid:] // after the tag and the length of the name
	data = data[4:][:binary.BigEndian.Uint32(data)]
	return inlineState(t, &metadata.OperatorState{States: []metadata.StateOffsets{state}, Delegate: &metadata.ByteStream{Name: "x", Data: data}})
}

// inlineState is a store with a snapshot of Flink 1.2 that has one handle of operator state.
func inlineState(t *testing.T, h *metadata.OperatorState) (storage.FS, *Snapshot) {
	t.Helper()
	data, err := metadata.Encode(&metadata.Snapshot{Version: metadata.Version2, CheckpointID: 1, Operators: []metadata.Operator{{
		ID: metadata.UIDHash("consumer"), Parallelism: 1, MaxParallelism: 128,
		Subtasks: []metadata.Subtask{{State: &metadata.SubtaskState{ManagedOperator: []*metadata.OperatorState{h}}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	fsys := storage.NewMemory()
	if err := storage.WriteFile(t.Context(), fsys, "file:/snapshot/_metadata", data, storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), fsys, "file:/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	return fsys, s
}

func TestKafkaSpecial(t *testing.T) {
	split := func(partition int32, offset, stopping int64) []byte {
		b := append([]byte{0, 3}, "t.1"...)
		b = binary.BigEndian.AppendUint32(b, uint32(partition))
		b = binary.BigEndian.AppendUint64(b, uint64(offset))
		return binary.BigEndian.AppendUint64(b, uint64(stopping))
	}
	for _, c := range []struct {
		bytes []byte
		want  string // "" if it is no split
	}{
		{split(3, 5, 17), `{"source":"KafkaSource","topic":"t.1","partition":3,"offset":5,"next":5,"stopping":17}`},
		{split(3, -3, -1), `{"source":"KafkaSource","topic":"t.1","partition":3,"offset":-3,"special":"committed","stopping":"latest"}`},
		{split(3, -2, math.MinInt64), `{"source":"KafkaSource","topic":"t.1","partition":3,"offset":-2,"special":"earliest"}`},
		{split(-1, 0, 0), ""},
		{split(3, -4, 0), ""},
		{split(3, 0, 0)[1:], ""},
		{append(split(3, 0, 0), 0), ""},
	} {
		k, ok := kafkaPartitionSplit(c.bytes)
		got := ""
		if ok {
			got = string(k.appendJSON(nil))
		}
		if got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	// Sentinels of FlinkKafkaConsumer, and long topics, after Kryo's length.
	long := strings.Repeat("x", 100)
	b := append([]byte{0x57, 1, 0, 4, 1, 0x80 | 0x40 | 101&0x3f, 101 >> 6}, long...)
	b = binary.BigEndian.AppendUint64(b, uint64(0xffffffffffffffff-915623761773+1))
	k, ok := kryoPartition(b)
	if special, _ := k.position(); !ok || k.topic != long || k.partition != 2 || special != "committed" {
		t.Errorf("got %+v", k)
	}
}
