package tools

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// emptySnapshot is the smallest that each version can have.
func emptySnapshot(v metadata.Version, id int64) *metadata.Snapshot {
	s := &metadata.Snapshot{Version: v, CheckpointID: id}
	if v >= metadata.Version4 {
		s.Properties = metadata.NullProperties
	}
	return s
}

func putBytes(t testing.TB, fsys storage.FS, uri string, data []byte) {
	t.Helper()
	if err := storage.WriteFile(t.Context(), fsys, uri, data, storage.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestD24WrongThings(t *testing.T) {
	local := storage.NewLocal(storage.LocalOptions{NoSync: true})
	root := t.TempDir()
	dir := "file:" + filepath.ToSlash(root)
	mkdir := func(name string) {
		if err := os.MkdirAll(filepath.Join(root, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	mkdir("empty")
	putBytes(t, local, dir+"/zero/_metadata", nil)
	jobA, jobB := strings.Repeat("a1", 16), strings.Repeat("b2", 16)
	put(t, local, dir+"/parent/"+jobA+"/chk-3/x", 1)
	put(t, local, dir+"/parent/"+jobB+"/shared/x", 1)
	put(t, local, dir+"/savepoints/savepoint-aaaaaa-0123456789ab/_metadata", 1)
	put(t, local, dir+"/savepoints/savepoint-bbbbbb-0123456789ab/_metadata", 1)
	sst := append(bytes.Repeat([]byte{9}, 100), 0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88)
	putBytes(t, local, dir+"/files/sst", sst)
	putBytes(t, local, dir+"/files/kg", []byte{0, 0, 0, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	putBytes(t, local, dir+"/files/page/_metadata", []byte("<!DOCTYPE html>\n<html><body>403</body></html>"))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte("whatever"))
	z.Close()
	putBytes(t, local, dir+"/files/gz/_metadata", zipped.Bytes())
	for _, c := range []struct {
		name, arg string
		words     []string
	}{
		{"not there", "/nothing", []string{"does not exist"}},
		{"empty directory", "/empty", []string{"is empty"}},
		{"empty metadata", "/zero", []string{"_metadata", "the file is empty"}},
		{"shared", "/parent/" + jobB + "/shared", []string{"state files that checkpoints share", "chk-N"}},
		{"job without checkpoint", "/parent/" + jobB, []string{"job's directory without any checkpoint"}},
		{"job without complete one", "/parent/" + jobA, []string{"1 checkpoints, none of which has a _metadata"}},
		{"checkpoint without metadata", "/parent/" + jobA + "/chk-3", []string{"a checkpoint without _metadata", "in progress"}},
		{"parent of jobs", "/parent", []string{"directories of jobs", jobA, jobB}},
		{"parent of savepoints", "/savepoints", []string{"holds savepoints", "savepoint-aaaaaa-0123456789ab", "savepoint-bbbbbb-0123456789ab"}},
		{"table file", "/files/sst", []string{"not a _metadata file", "RocksDB table"}},
		{"key groups", "/files/kg", []string{"not a _metadata file", "state file of a snapshot"}},
		{"error page", "/files/page", []string{"HTML or XML page"}},
		{"gzip", "/files/gz", []string{"gzip data"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), local, dir+c.arg)
			if err == nil {
				t.Fatal("no error")
			}
			wantWords(t, err.Error(), append(c.words, dir+c.arg)...)
			if strings.Contains(err.Error(), "EOF") {
				t.Errorf("%q: a bare EOF says nothing", err)
			}
		})
	}

	t.Run("no permission", func(t *testing.T) {
		denied := storagetest.NewFaulty(local, storagetest.FaultOptions{Inject: func(storagetest.Step) *storagetest.Fault {
			return &storagetest.Fault{Err: fmt.Errorf("403: %w", fs.ErrPermission)}
		}})
		_, err := Open(t.Context(), denied, dir+"/zero")
		if !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("got %v", err)
		}
		wantWords(t, err.Error(), "not readable", dir+"/zero")
	})
}

func TestD24Latest(t *testing.T) {
	local := storage.NewLocal(storage.LocalOptions{NoSync: true})
	root := t.TempDir()
	dir := "file:" + filepath.ToSlash(root)
	putMetadata(t, local, dir+"/chk-9", emptySnapshot(metadata.Version4, 9))
	put(t, local, dir+"/chk-10/data", 3)
	putMetadata(t, local, dir+"/chk-8", emptySnapshot(metadata.Version4, 8))
	late := time.Now().Add(time.Hour) // copied later
	if err := os.Chtimes(filepath.Join(root, "chk-8", MetadataName), late, late); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), local, dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.CheckpointID != 9 {
		t.Errorf("took checkpoint %d", s.CheckpointID)
	}
	wantWords(t, s.Chosen, "newest complete checkpoint, chk-9", "1 with a higher number")
}

// TestD25EveryPrefix cuts a file of each version at every length.
func TestD25EveryPrefix(t *testing.T) {
	for v := metadata.Version2; v <= metadata.Version6; v++ {
		t.Run(fmt.Sprint("v", v), func(t *testing.T) {
			keyed := incrementalHandle(file(t, "s3://b/meta", 5), []metadata.Stream{file(t, "s3://b/s1", 10), inline("x", 4)}, []metadata.Stream{file(t, "s3://b/p", 3)})
			keyed.V1 = v <= metadata.Version3
			s := emptySnapshot(v, 7)
			s.MasterStates = []metadata.MasterState{{Version: 1, Name: "hook", Payload: []byte("abc")}}
			op := operator("a", &metadata.SubtaskState{Unused: -1, ManagedKeyed: keyed, ManagedOperator: operatorState([]string{"st"}, file(t, "s3://b/o", 6))})
			if v >= metadata.Version5 {
				op.UID = "a"
			}
			s.Operators = []metadata.Operator{op, op}
			data := encode(t, s)
			fsys := storage.NewMemory()
			for n := range len(data) {
				uri := fmt.Sprintf("s3://b/cut/%d", n)
				putBytes(t, fsys, uri, data[:n])
				_, err := Open(t.Context(), fsys, uri)
				if err == nil {
					t.Fatalf("%d of %d bytes: no error", n, len(data))
				}
				if !errors.Is(err, metadata.ErrTruncated) {
					t.Fatalf("%d of %d bytes: %v", n, len(data), err)
				}
				wantWords(t, err.Error(), uri, "offset ", fmt.Sprintf("file ends at byte %d of at least ", n), "while reading ")

				// What came before the cut is reported.
				r, err := Inspect(t.Context(), fsys, uri, InspectOptions{Partial: true, Top: 1})
				switch {
				case n < 8 && err == nil:
					t.Errorf("%d bytes: no error without a header", n)
				case n >= 8 && err != nil:
					t.Errorf("%d bytes: %v", n, err)
				case n >= 8 && (r.Damage == "" || r.Version != v):
					t.Errorf("%d bytes: got %+v", n, r)
				case n == len(data)-1 && len(r.Operators) != 2:
					t.Errorf("%d bytes: %d operators", n, len(r.Operators))
				}
			}
			_, err := Inspect(t.Context(), fsys, fmt.Sprintf("s3://b/cut/%d", len(data)-5), InspectOptions{})
			wantWords(t, err.Error(), "--partial shows what comes before it")

			putBytes(t, fsys, "s3://b/padded", append(bytes.Clone(data), 0, 0, 0, 0, 0))
			r := inspected(t, fsys, "s3://b/padded", InspectOptions{})
			wantWords(t, strings.Join(r.Warnings, "\n"), "goes on after the end", "for 5 bytes")
		})
	}
}

func TestD25FieldInWords(t *testing.T) {
	for field, want := range map[string]string{
		"operators[3].subtasks[1].managedKeyed.shared[17].path":                "operator 3 → subtask 1 → managed keyed state → shared file 17 → path",
		"operators[0].subtasks[0].managedOperator.states[2].offsets":           "operator 0 → subtask 0 → managed operator state → state 2 → offsets",
		"operators[0].subtasks[0].managedKeyed.delta[1].streams[0].offset":     "operator 0 → subtask 0 → managed keyed state → delta handle 1 → changelog file 0 → offset",
		"operators[5].subtasks[0].inputChannels[4].delegate.path":              "operator 5 → subtask 0 → input channel 4 → stream → path",
		"operators[1].maxParallelism":                                          "operator 1 → max parallelism",
		"operators":                                                            "number of operators",
		"checkpointID":                                                         "checkpoint id",
		"masterStates[0].name":                                                 "master state 0 → name",
		"operators[0].subtasks[0].managedKeyed.shared[0].stream.logicalFileID": "operator 0 → subtask 0 → managed keyed state → shared file 0 → stream → logical file id",
		"": "the header",
	} {
		if got := fieldWords(field); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", field, got, want)
		}
	}
}
