package incremental_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// A job takes two checkpoints, of which the second goes on with a file of the first; then a third one fails.
func ExampleCheckpoints() {
	ctx := context.Background()
	store := storage.NewMemory()
	const dir = "s3://bucket/ck/0123456789abcdef0123456789abcdef"
	c, err := incremental.OpenCheckpoints(ctx, incremental.CheckpointsOptions{FS: store, Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	// table uploads a file that later checkpoints may use. A backend does so, with random names.
	table := func(p *incremental.Pending, name string) metadata.LocalFile {
		uri := storage.Join(p.SharedDir(), name)
		if err := storage.WriteFile(ctx, p.FS(), uri, []byte("table "+name), storage.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
		return metadata.LocalFile{LocalName: metadata.Text(name + ".sst"), Stream: &metadata.File{Path: metadata.Text(uri), Size: 7}}
	}
	complete := func(p *incremental.Pending, tables ...metadata.LocalFile) {
		state := &metadata.Incremental{Meta: &metadata.ByteStream{Name: "meta"}, Shared: tables, KeyGroups: metadata.KeyGroupRange{Count: 128}}
		done, err := p.Complete(ctx, &metadata.Snapshot{
			Version: metadata.Version6, CheckpointID: p.ID(),
			Operators: []metadata.Operator{{ID: metadata.UIDHash("counts"), Parallelism: 1, MaxParallelism: 128, Subtasks: []metadata.Subtask{
				{State: &metadata.SubtaskState{ManagedKeyed: state}},
			}}},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("completed", done.ID, "with", done.Files, "files, all of them new:", done.Full)
	}

	p, _ := c.Begin(c.NextID())
	a, b := table(p, "a"), table(p, "b")
	complete(p, a, b)

	p, _ = c.Begin(c.NextID())
	complete(p, b, table(p, "c"))

	p, _ = c.Begin(c.NextID())
	table(p, "d")
	_ = p.Abort(ctx) // as a subtask failed; what can't be deleted now is deleted later
	fmt.Println("aborted:", errors.Is(p.Err(), incremental.ErrAborted))

	for info, err := range store.List(ctx, dir) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.TrimPrefix(info.URI, dir+"/"))
	}
	// Unordered output:
	// completed 1 with 3 files, all of them new: true
	// completed 2 with 3 files, all of them new: false
	// aborted: true
	// chk-2/_metadata
	// shared/b
	// shared/c
}
