package pebble_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// A count for each word, saved and restored.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "drey")
	must(err)
	defer os.RemoveAll(dir)
	options := pebble.Options[string]{MaxParallelism: 128, KeyGroups: keygroup.RangeOf(0, 128, 1), Dir: filepath.Join(dir, "before")}
	counts := backend.Descriptor[struct{}, int64]{Name: "counts", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()}

	b, err := pebble.Open(serializer.ForString(), options)
	must(err)
	count, err := pebble.OpenValue(b, counts)
	must(err)
	for _, word := range []string{"nut", "drey", "nut"} {
		must(b.SetKey(word))
		n, _, err := count.Get()
		must(err)
		must(count.Set(n + 1))
	}
	snapshot, err := b.Snapshot(1, backend.SnapshotOptions{})
	must(err)
	store := storage.NewMemory()
	handle, err := snapshot.Write(ctx, backend.Target{FS: store, Dir: "mem://savepoint"})
	must(err)
	must(b.Close())

	options.Dir = filepath.Join(dir, "after")
	b, err = pebble.Open(serializer.ForString(), options)
	must(err)
	count, err = pebble.OpenValue(b, counts)
	must(err)
	must(b.Restore(ctx, backend.Files{FS: store, Dir: "mem://savepoint"}, backend.Handles{Managed: []metadata.Keyed{handle}}))
	must(b.SetKey("nut"))
	n, _, err := count.Get()
	must(err)
	must(b.Close())
	fmt.Println(n)
	// Output: 2
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
