package serializer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatternFiles reads what Flink 1.11 to 1.19 wrote so that later versions
// are tested with it. The values are those in its NFASerializerUpgradeTest and
// LockableTypeSerializerUpgradeTest.
func TestPatternFiles(t *testing.T) {
	const edge = `{"target":{"eventId":{"id":42,"timestamp":42},"pageName":"page"},"deweyNumber":[42]}`
	want := map[string]string{
		"dewey-number":       `[42]`,
		"event-id":           `{"id":42,"timestamp":42}`,
		"node-id":            `{"eventId":{"id":42,"timestamp":42},"pageName":"ciao"}`,
		"shared-buffer-edge": edge,
		"shared-buffer-node": `{"edges":[` + edge + `]}`,
		"nfa-state":          `{"partialMatches":[],"completedMatches":[]}`,
		"lockable-type":      `{"refCounter":10,"element":"flink"}`,
	}
	dirs, err := filepath.Glob(filepath.Join(fixtures(t, "public/serializer-snapshots"), "*", "flink-cep--*"))
	if err != nil || len(dirs) != 56 {
		t.Fatal(len(dirs), err)
	}
	for _, dir := range dirs {
		snapshot, err := os.ReadFile(filepath.Join(dir, "serializer-snapshot"))
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "test-data"))
		if err != nil {
			t.Fatal(err)
		}
		s := Of(readTableSnapshot(t, snapshot[4:])) // after the version of its container
		in := NewInput(data)
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "flink-cep--"), "-serializer-")
		if got := Text(s.Read(in)); got != want[name] || in.Err() != nil || !in.AtEnd() {
			t.Errorf("%s: %s, want %s; %v, %d bytes left", dir, got, want[name], in.Err(), in.Remaining())
		}
		if err := checkReadings(t, s, data); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	t.Logf("%d values", len(dirs))
}
