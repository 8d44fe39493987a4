package tools

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestVerifyPebble: the databases of incremental checkpoints of Pebble are not looked into, which is no damage.
func TestVerifyPebble(t *testing.T) {
	const job = "s3://b/ck/0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	fsys := storage.NewMemory()
	b, err := pebble.Open(serializer.ForLong(), pebble.Options[int64]{MaxParallelism: 16, KeyGroups: keygroup.Range{End: 15}, Dir: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, []byte]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForBytes()})
	if err != nil {
		t.Fatal(err)
	}
	for key := range int64(2000) {
		if err := errors.Join(b.SetKey(key), v.Set(soakValue(key, 1))); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := b.Snapshot(1, backend.SnapshotOptions{Format: backend.FormatIncremental})
	if err != nil {
		t.Fatal(err)
	}
	h, err := snapshot.Write(t.Context(), backend.Target{FS: fsys, Dir: job + "/chk-1", Shared: job + "/shared"})
	if err != nil {
		t.Fatal(err)
	}
	snapshotOf := func(h metadata.Keyed) *metadata.Snapshot {
		return &metadata.Snapshot{
			Version: metadata.Version4, CheckpointID: 1, Properties: metadata.PropertiesOf(metadata.KindCheckpoint),
			Operators: []metadata.Operator{{ID: metadata.UIDHash("op"), Parallelism: 1, MaxParallelism: 16, ChainLength: 1, Subtasks: []metadata.Subtask{
				{State: &metadata.SubtaskState{ManagedKeyed: h}},
			}}},
		}
	}
	putMetadata(t, fsys, job+"/chk-1", snapshotOf(h))

	verify := func(dir string) *SnapshotCheck {
		t.Helper()
		v, err := Verify(t.Context(), fsys, []string{job + dir}, VerifyOptions{Deep: true})
		if err != nil {
			t.Fatal(err)
		}
		return &v.Snapshots[0]
	}
	c := verify("/chk-1")
	if d := c.Deep; c.Verdict != VerdictIntact || len(d.Damage)+len(d.Unread) > 0 || d.Handles != 0 || len(d.NotLookedInto) != 1 {
		t.Errorf("%s: %+v", c.Verdict, c.Deep)
	}
	for reason, n := range c.Deep.NotLookedInto {
		if n != 1 || !strings.Contains(reason, "Pebble") || !strings.Contains(reason, "a canonical savepoint") {
			t.Errorf("%d of %q", n, reason)
		}
	}

	// Who wants the entries is told why there are none, and what to do.
	s, err := Open(t.Context(), fsys, job+"/chk-1")
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for e, err := range Entries(t.Context(), fsys, s, EntryOptions{}) {
		var p *StateProblem
		if told++; e != nil || !errors.As(err, &p) || !errors.Is(err, backend.ErrPebble) || !p.Undecided || !strings.Contains(err.Error(), "a canonical savepoint") {
			t.Errorf("entries: %v, %v", e, err)
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}

	// A list of states that is damaged, and a table that is gone, are found.
	damaged := *h.(*metadata.Incremental)
	damaged.Meta = &metadata.ByteStream{Name: "meta", Data: make([]byte, 3)}
	putMetadata(t, fsys, job+"/chk-2", snapshotOf(&damaged))
	if c := verify("/chk-2"); c.Verdict != VerdictDamaged || len(c.Deep.Damage) != 1 {
		t.Errorf("with a damaged header: %s, %+v", c.Verdict, c.Deep)
	}
	if err := fsys.Delete(t.Context(), damaged.Shared[0].Stream.(*metadata.File).Path.String()); err != nil {
		t.Fatal(err)
	}
	if c := verify("/chk-1"); c.Verdict != VerdictDamaged || c.Missing != 1 {
		t.Errorf("without a table: %s, %d missing", c.Verdict, c.Missing)
	}
}
