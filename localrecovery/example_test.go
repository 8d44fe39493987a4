package localrecovery_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/storage"
)

// A task writes a checkpoint through its local copy, and is restored from that after a restart of the process.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	remote := storage.NewMemory() // in earnest: S3
	id := localrecovery.TaskID{Allocation: "5f1c", Job: "a1b2", Vertex: "c3d4", Subtask: 0}

	store, err := localrecovery.Open(localrecovery.Options{Roots: []string{dir}})
	if err != nil {
		log.Fatal(err)
	}
	task, err := store.Task(id)
	if err != nil {
		log.Fatal(err)
	}
	copied := task.Begin(1)       // with the barrier of checkpoint 1
	fsys := copied.FS(remote)     // what the backend's snapshot writes to
	uri := "s3://bucket/chk-1/kv" // in earnest: a random name
	if err := storage.WriteFile(ctx, fsys, uri, []byte("state"), storage.CreateOptions{}); err != nil {
		log.Fatal(err) // the checkpoint failed; the local copy never is the reason
	}
	copied.Seal(ctx) // before the task acknowledges the checkpoint
	task.Confirm(1)  // when all tasks have
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	store, err = localrecovery.Open(localrecovery.Options{Roots: []string{dir}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store.Tasks()) // for Assign, so that the task comes back here
	if task, err = store.Task(id); err != nil {
		log.Fatal(err)
	}
	restored := task.Restore(ctx, 1, remote)
	data, err := storage.ReadAll(ctx, restored, uri, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %+v\n", data, restored.Stats())
	// Output:
	// [aid_5f1c/jid_a1b2/vtx_c3d4_sti_0]
	// state {LocalFiles:1 RemoteFiles:0 LocalBytes:5 RemoteBytes:0}
}
