package tools_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// The entries of one state of a checkpoint that Flink 2.3.0 wrote.
func ExampleEntries() {
	ctx, fsys := context.Background(), storage.NewLocal(storage.LocalOptions{})
	dir, _ := filepath.Abs("drey/testdata/snapshots/2.3.0/ck-unaligned/ckpt/a78b391bff6f34f8820cc7eb77ebe4f5/chk-1")
	s, err := tools.Open(ctx, fsys, "file:"+filepath.ToSlash(dir))
	if err != nil {
		fmt.Println(err)
		return
	}
	want := tools.Selection{Operators: []string{"kv-long"}, States: []string{"last"}}
	for e, err := range tools.Entries(ctx, fsys, s, tools.EntryOptions{Selection: want}) {
		if err != nil {
			fmt.Println(err) // some state could not be read; the rest follows
			continue
		}
		key, _ := e.Key()
		value, _ := e.Value()
		fmt.Println(e.Operator.UID, e.Subtask, key, value)
	}
	// Output:
	// kv-long 0 -32081 1
	// kv-long 0 -16243 3
	// kv-long 0 -405 5
	// kv-long 1 23352 8
	// kv-long 1 7514 6
	// kv-long 1 -40000 0
	// kv-long 1 -24162 2
}
