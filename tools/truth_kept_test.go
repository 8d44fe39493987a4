package tools

import (
	"path/filepath"
	"testing"
)

// TestTruthKept is what TestTruth, TestTruthOldVersions and TestTruthDiff do,
// on the few snapshots that lie beside the tests.
func TestTruthKept(t *testing.T) {
	total := newTruthTally()
	for _, c := range []struct {
		dir     string
		compare func(dir string)
	}{
		{"flink/2.3.0/sp-types-rocksdb", func(dir string) { compareFixture(t, dir, false, total) }},
		{"extra/2.3.0/ck-raw-p1", func(dir string) { compareFixture(t, dir, false, total) }},
		{"sql/2.3.0/sql-dedup-last", func(dir string) { compareFixture(t, dir, true, total) }},
		{"old/1.12.7/savepoint-fs-rich", func(dir string) { compareOldFixture(t, dir, total) }},
	} {
		dir, err := filepath.Abs(filepath.Join("testdata", "truth", filepath.FromSlash(c.dir)))
		if err != nil {
			t.Fatal(err)
		}
		c.compare(dir)
	}
	if total.fixtures != 4 || total.snapshots != 5 || total.elements < 300 {
		t.Errorf("%d fixtures, %d snapshots, %d entries", total.fixtures, total.snapshots, total.elements)
	}
	total.log(t, "kept")

	dir, err := filepath.Abs(filepath.Join("testdata", "truth", "sql", "2.3.0", "sql-dedup-last"))
	if err != nil {
		t.Fatal(err)
	}
	snapshots := snapshotsToDiff(t, dir)
	counts := &diffTally{left: map[string]int{}}
	compareDiff(t, snapshots[0], snapshots[1], true, counts)
	if counts.pairs != 1 || counts.equal != 1 {
		t.Errorf("the canonical savepoint and the incremental checkpoint of the same content: %+v", counts)
	}
}
