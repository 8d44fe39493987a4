package rewrite_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"strings"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rewrite"
	"github.com/drey-state/drey/storage"
)

// A savepoint becomes one of the RocksDB backend, for three subtasks, without the timers of one operator and the values of a state that are null.
func Example() {
	ctx := context.Background()
	local := storage.NewLocal(storage.LocalOptions{})
	dir, err := filepath.Abs("../tools/drey/testdata/snapshots/2.3.0/sp-canonical-hashmap-files/savepoint-508158-79ffa70569a0")
	if err != nil {
		log.Fatal(err)
	}
	data, err := storage.ReadAll(ctx, local, "file:"+dir+"/"+metadata.FileName, 1<<30)
	if err != nil {
		log.Fatal(err)
	}
	snapshot, err := metadata.Decode(data)
	if err != nil {
		log.Fatal(err)
	}
	source := rewrite.Source{Files: backend.Files{FS: local, Dir: "file:" + dir}, Metadata: snapshot}

	counter := metadata.UIDHash("kv-long")
	plan, err := rewrite.NewPlan(ctx, source, rewrite.Options{
		Format: rewrite.NativeRocksDB, Parallelism: 3,
		Transform: func(op *metadata.Operator) (*rewrite.Transform, error) {
			if op.ID != counter {
				return nil, nil
			}
			return &rewrite.Transform{
				State: func(name string, keyed bool) string {
					if strings.HasPrefix(name, "_timer_state/") {
						return "" // left out
					}
					return name
				},
				Keyed: func(e *backend.Entry) (bool, error) { return !e.Null, nil },
			}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range plan.Problems {
		log.Print(p)
	}
	result, err := plan.Execute(ctx, backend.Target{FS: storage.NewMemory(), Dir: "mem://bucket/savepoint"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Kind, result.Dropped, "dropped")
	// Output: savepoint (native) 0 dropped
}
