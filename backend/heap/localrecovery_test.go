package heap_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// gone is a store that can't be read.
type gone struct{ storage.FS }

func (gone) Open(context.Context, string) (storage.Object, error) {
	return nil, errors.New("the store is gone")
}

// TestLocalRecovery restores a checkpoint from the local copy alone.
func TestLocalRecovery(t *testing.T) {
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	options := heap.Options[string]{MaxParallelism: 128, KeyGroups: keygroup.RangeOf(0, 128, 1)}
	counts := backend.Descriptor[struct{}, int64]{Name: "counts", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()}
	local, err := localrecovery.Open(localrecovery.Options{Roots: []string{t.TempDir()}})
	check(err)
	defer local.Close()
	task, err := local.Task(localrecovery.TaskID{Job: "a", Vertex: "b"})
	check(err)

	b, err := heap.Open(serializer.ForString(), options)
	check(err)
	defer b.Close()
	count, err := heap.OpenValue(b, counts)
	check(err)
	for i := range 5000 {
		check(b.SetKey(fmt.Sprint("key-", i)))
		check(count.Set(int64(i) * 3))
	}
	store, dir := storage.NewMemory(), "s3://bucket/job/chk-1"
	snapshot, err := b.Snapshot(1, backend.SnapshotOptions{})
	check(err)
	copied := task.Begin(1)
	handle, err := snapshot.Write(ctx, backend.Target{FS: copied.FS(store), Dir: dir})
	check(err)
	copied.Seal(ctx)
	task.Confirm(1)

	b, err = heap.Open(serializer.ForString(), options)
	check(err)
	defer b.Close()
	count, err = heap.OpenValue(b, counts)
	check(err)
	restored := task.Restore(ctx, 1, gone{store})
	check(b.Restore(ctx, backend.Files{FS: restored, Dir: dir}, backend.Handles{Managed: []metadata.Keyed{handle}}))
	for i := range 5000 {
		check(b.SetKey(fmt.Sprint("key-", i)))
		if n, ok, err := count.Get(); n != int64(i)*3 || !ok || err != nil {
			t.Fatalf("key %d: %d, %v, %v", i, n, ok, err)
		}
	}
	if got := restored.Stats(); got.LocalFiles == 0 || got.RemoteFiles != 0 {
		t.Errorf("%+v", got)
	}
}
