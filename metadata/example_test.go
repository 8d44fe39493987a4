package metadata_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
)

func text(s string) metadata.Text {
	t, err := metadata.NewText(s)
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// A snapshot is built in Go, written in each version, and read again.
func Example() {
	const parallelism, maxParallelism = 2, 128
	op := metadata.Operator{
		Name: text("count"), UID: text("my-uid"), ID: metadata.UIDHash("my-uid"),
		Parallelism: parallelism, MaxParallelism: maxParallelism,
	}
	for i := range parallelism {
		groups := keygroup.RangeOf(i, maxParallelism, parallelism)
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(i), State: &metadata.SubtaskState{
			ManagedKeyed: &metadata.KeyGroups{
				KeyGroupOffsets: metadata.KeyGroupOffsets{Start: int32(groups.Start), Offsets: make([]int64, groups.Len())},
				Delegate:        &metadata.File{Size: 1000, Path: text(fmt.Sprintf("s3://bucket/job/chk-7/state-%d", i))},
				ID:              text(fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", i)),
			},
		}})
	}
	s := &metadata.Snapshot{
		Version: metadata.Version6, CheckpointID: 7,
		Operators: []metadata.Operator{op}, Properties: metadata.NullProperties,
	}
	for v := metadata.Version2; v <= metadata.Version6; v++ {
		old, err := s.As(v)
		if err != nil {
			log.Fatal(err)
		}
		data, err := metadata.Encode(old)
		if err != nil {
			log.Fatal(err)
		}
		again, err := metadata.Decode(data)
		if err != nil {
			log.Fatal(err)
		}
		op := again.Operators[0]
		fmt.Printf("version %d, Flink %s: %d bytes, uid %q, handles of tag %d\n",
			again.Version, v.Writers(), len(data), op.UID, op.Subtasks[0].State.ManagedKeyed.Tag())
	}
	// Output:
	// version 2, Flink 1.3 to 1.10: 1228 bytes, uid "", handles of tag 3
	// version 3, Flink 1.11 to 1.15: 1293 bytes, uid "", handles of tag 12
	// version 4, Flink 1.16 to 1.20: 1298 bytes, uid "", handles of tag 12
	// version 5, Flink 2.0: 1313 bytes, uid "my-uid", handles of tag 12
	// version 6, Flink 2.1 to 2.3: 1313 bytes, uid "my-uid", handles of tag 12
}

func ExampleSnapshot_Refs() {
	data, err := os.ReadFile("testdata/2.3.0/ck-unaligned-chk-1._metadata")
	if err != nil {
		log.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, version %d\n", s.Kind(), s.Version)
	for r := range s.Refs() {
		if r.Subtask == 0 {
			fmt.Printf("%s: %s, %d bytes, key groups %s\n", r.Operator.Name, r.Role, r.Size, r.KeyGroups)
		}
	}
	// Output:
	// checkpoint, version 6
	// kv-long: managed keyed state, 4328 bytes, key groups 0-63
	// kv-long: input channel state, 87997 bytes, key groups none
	// Source: src: managed operator state, 442 bytes, key groups none
	// Source: src: output channel state, 87997 bytes, key groups none
}

func ExampleSnapshot_MapPaths() {
	data, err := os.ReadFile("testdata/2.3.0/ck-rocksdb-incr-chk-4._metadata")
	if err != nil {
		log.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		log.Fatal(err)
	}
	moved, err := s.MapPaths(func(r metadata.Ref) (string, error) {
		if r.Kind == metadata.RefRelative {
			return r.Path, nil // it moves with _metadata
		}
		rest, ok := strings.CutPrefix(r.Path, "file:/tmp/lab/gen/2.3.0/ck-rocksdb-incr/ckpt/")
		if !ok {
			return "", errors.New("no rule for " + r.Path)
		}
		return "s3://bucket/" + rest, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	out, err := metadata.Encode(moved)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(data), "bytes became", len(out))
	for r := range moved.Refs() {
		if r.Kind == metadata.RefFile {
			fmt.Println(r.LocalName, r.Path)
			break
		}
	}
	// Output:
	// 5054 bytes became 4196
	// 000027.sst s3://bucket/64b9b5bf8a7f34f89dc6cf585ae90afe/shared/ff0c2a72-6f88-40b5-97d1-742fefebed1d
}

// As refuses what a version can't hold.
func ExampleSnapshot_As() {
	data, err := os.ReadFile("testdata/2.3.0/ck-unaligned-chk-1._metadata")
	if err != nil {
		log.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.As(metadata.Version2)
	fmt.Println(err)
	// Output:
	// operators[0].subtasks[0].managedKeyed.delegate: a relative file; make it absolute with Rewrite first: version 2: cannot be written in this version
}
