package interop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// nativeCircles write snapshots in the formats of single backends: databases of RocksDB, and full checkpoints.
func nativeCircles() []*circle {
	var circles []*circle
	native, full := backend.SnapshotOptions{Format: backend.FormatRocksDB}, backend.SnapshotOptions{Format: backend.FormatFull, Compress: true}
	for _, goBackend := range goBackends {
		circles = append(circles,
			&circle{
				goBackend: goBackend, flinkBackend: "rocksdb", o: native, parallelism: 2, inspect: checkUploaded,
				words: []string{"change", "checkpoints=2", "again", "execution.checkpointing.incremental=true"},
			},
			&circle{
				goBackend: goBackend, flinkBackend: "rocksdb", o: native, parallelism: 2, inspect: checkClaimed, absolute: true,
				words: []string{"claim", "change", "checkpoints=2", "again", "execution.checkpointing.incremental=true"},
			},
			&circle{
				goBackend: goBackend, flinkBackend: "rocksdb", o: native, parallelism: map[string]int{"heap": 3, "pebble": 1}[goBackend],
				words: []string{"change", "canonical"},
			},
			&circle{
				goBackend: goBackend, flinkBackend: map[string]string{"heap": "hashmap", "pebble": "rocksdb"}[goBackend], o: full, parallelism: 3,
				words: []string{"change", "canonical"},
			})
	}
	// Timers on the heap, which are raw keyed state beside a database, also for Flink with its own in the database.
	for i, timers := range []string{"HEAP", "ROCKSDB"} {
		circles = append(circles, &circle{
			goBackend: pebbleHeapTimers, flinkBackend: "rocksdb", o: native, parallelism: 2 + i,
			words: []string{"change", "canonical", "state.backend.rocksdb.timer-service.factory=" + timers},
		})
	}
	return append(circles, &circle{
		goBackend: "pebble", flinkBackend: "rocksdb", o: native, goParallelism: 1, parallelism: 1, inspect: checkLarge,
		parts: map[string]circlePart{"go-large": &largePart{}},
		words: []string{"change", "checkpoints=1", "execution.checkpointing.incremental=true"},
	})
}

// checkLarge demands that a state has several tables.
func checkLarge(t *testing.T, c *circle, a flinkAnswer) {
	t.Helper()
	checkOpened(t, c, a)
	families := map[string]int{}
	for _, table := range a.Databases["go-large/0"].Tables {
		families[table.Family]++
	}
	t.Logf("tables of the large state: %v", families)
	if families["value"] < 3 {
		t.Error("too few")
	}
}

// tablesOf gives the tables in a handle by their names in the database.
func tablesOf(t *testing.T, k metadata.Keyed) map[string]metadata.Stream {
	t.Helper()
	h, ok := k.(*metadata.Incremental)
	if !ok {
		t.Fatalf("a %T", k)
	}
	tables := map[string]metadata.Stream{}
	for _, f := range h.Shared {
		tables[f.LocalName.String()] = f.Stream
	}
	return tables
}

// pathOf gives the path of a file with its size.
func pathOf(t *testing.T, dir string, s metadata.Stream) (string, int64) {
	t.Helper()
	switch s := s.(type) {
	case *metadata.File:
		return strings.TrimPrefix(s.Path.String(), "file:"), s.Size
	case *metadata.RelativeFile:
		return storage.Join(dir, s.Path.String()), s.Size
	}
	t.Fatalf("a table in a %T", s)
	return "", 0
}

// checkOpened demands that the databases which Flink had after the restore are of just
// the tables that were written in Go, and that no row was written into them. It gives how many tables there are.
func checkOpened(t *testing.T, c *circle, a flinkAnswer) int {
	t.Helper()
	n := 0
	for uid := range c.parts {
		if uid == "go-op" {
			continue
		}
		for _, s := range operatorOf(t, c.wrote, uid).Subtasks {
			tables := tablesOf(t, s.State.ManagedKeyed)
			db, ok := a.Databases[fmt.Sprintf("%s/%d", uid, s.Index)]
			if !ok || db.Sequence != 1 || len(db.Tables) != len(tables) {
				t.Errorf("%s, subtask %d: opened a database with %d tables of %d, last sequence number %d", uid, s.Index, len(db.Tables), len(tables), db.Sequence)
				continue
			}
			for _, table := range db.Tables {
				if tables[table.Name] == nil {
					t.Errorf("%s, subtask %d: table %s of %s is not from Go", uid, s.Index, table.Name, table.Family)
				} else if _, size := pathOf(t, c.dir, tables[table.Name]); size != table.Size || table.Level != 6 || table.LargestSequence != 1 {
					t.Errorf("%s, subtask %d: %+v; %d bytes were written", uid, s.Index, table, size)
				}
				n++
			}
		}
	}
	return n
}

func operatorOf(t *testing.T, s *metadata.Snapshot, uid string) *metadata.Operator {
	t.Helper()
	return operatorWithID(t, s, metadata.UIDHash(uid))
}

func operatorWithID(t *testing.T, s *metadata.Snapshot, id metadata.OperatorID) *metadata.Operator {
	t.Helper()
	for i := range s.Operators {
		if s.Operators[i].ID == id {
			return &s.Operators[i]
		}
	}
	t.Fatalf("no operator %s", id)
	return nil
}

// eachTable calls f for each table of the snapshot that was written in Go, and the same one in a checkpoint of Flink's,
// where its path is "" if it has gone.
func (c *circle) eachTable(t *testing.T, checkpoint string, f func(written, now string)) {
	t.Helper()
	s, files := openSnapshot(t, checkpoint)
	for uid := range c.parts {
		if uid == "go-op" {
			continue
		}
		op := operatorOf(t, s.Snapshot, uid)
		for i, was := range operatorOf(t, c.wrote, uid).Subtasks {
			now := tablesOf(t, op.Subtasks[i].State.ManagedKeyed)
			for name, stream := range tablesOf(t, was.State.ManagedKeyed) {
				written, _ := pathOf(t, c.dir, stream)
				at := ""
				if now[name] != nil {
					at, _ = pathOf(t, files.Dir, now[name])
				}
				f(written, at)
			}
		}
	}
}

// checkUploaded is for a job that did not claim the savepoint: its first checkpoint holds the same tables, by the same
// names, and the second one those of the first.
func checkUploaded(t *testing.T, c *circle, a flinkAnswer) {
	t.Helper()
	opened := checkOpened(t, c, a)
	first := map[string]string{}
	same, again := 0, 0
	c.eachTable(t, a.Checkpoints[0], func(written, now string) {
		if first[written] = now; now == "" {
			return // compacted since
		}
		if strings.HasPrefix(now, c.dir+"/") {
			t.Errorf("%s is in the savepoint, which was not claimed", now)
		}
		if bytes.Equal(read(t, written), read(t, now)) {
			same++
		}
	})
	c.eachTable(t, a.Checkpoints[1], func(written, now string) {
		if now != "" && now == first[written] {
			again++
		}
	})
	t.Logf("%s, %s: %d tables opened as they were written; the first checkpoint has %d of them, with equal bytes, the second names %d of these",
		c.goBackend, c.format(), opened, same, again)
	if opened == 0 || same < opened/2 || again < opened/2 {
		t.Error("too few")
	}
}

// checkClaimed is for a job that did: its checkpoints name the tables where they are, which stay although the savepoint is
// not among the last two any more.
func checkClaimed(t *testing.T, c *circle, a flinkAnswer) {
	t.Helper()
	opened := checkOpened(t, c, a)
	named := 0
	c.eachTable(t, a.Checkpoints[1], func(written, now string) {
		if written == now {
			named++
			read(t, now)
		}
	})
	t.Logf("%s, %s, claimed: %d tables opened as they were written; the second checkpoint names %d of them in the savepoint", c.goBackend, c.format(), opened, named)
	if opened == 0 || named < opened/2 {
		t.Error("too few")
	}
}
