package metadata_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drey-state/drey/metadata"
)

// The benchmarks run over snapshots of this many shared files. With
// DREY_BENCH_DIR set they read DREY_BENCH_DIR/HANDLES/_metadata, as Flink's
// side of the comparison wrote it (interop/bench); else they generate the same shape.
var benchSizes = []int{1_000, 10_000, 100_000, 1_000_000}

const (
	benchSubtasks       = 100
	benchMaxParallelism = 128
)

// generate builds what interop/bench's generator builds with Flink's classes:
// one operator, 100 subtasks, n shared files in all, 4 private files and a
// meta file a subtask. Only the ids and sizes differ.
func generate(n int) *metadata.Snapshot {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	id := func() metadata.Text {
		a, b := r.Uint64(), r.Uint64()
		return metadata.Text(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xFFFF, a&0xFFFF, b>>48, b&(1<<48-1)))
	}
	base := metadata.Text("file:/data/flink/checkpoints/" + strings.ReplaceAll(string(id()), "-", ""))
	op := metadata.Operator{Parallelism: benchSubtasks, MaxParallelism: benchMaxParallelism}
	for i := range op.ID {
		op.ID[i] = byte(r.Uint32())
	}
	file := func(local, dir metadata.Text, size int64) metadata.LocalFile {
		return metadata.LocalFile{LocalName: local, Stream: &metadata.File{Path: base + dir + id(), Size: 1 + r.Int64N(size)}}
	}
	for s := range benchSubtasks {
		start := (s*benchMaxParallelism + benchSubtasks - 1) / benchSubtasks
		end := ((s+1)*benchMaxParallelism - 1) / benchSubtasks
		h := &metadata.Incremental{
			CheckpointID: 42,
			BackendID:    id(),
			ID:           id(),
			KeyGroups:    metadata.KeyGroupRange{Start: int32(start), Count: int32(end - start + 1)},
			Meta:         file("", "/chk-42/", 2000).Stream,
		}
		count := n / benchSubtasks
		if s < n%benchSubtasks {
			count++
		}
		for i := range count {
			h.Shared = append(h.Shared, file(metadata.Text(fmt.Sprintf("%06d.sst", i+8)), "/shared/", 67_000_000))
		}
		for _, name := range []metadata.Text{"CURRENT", "MANIFEST-000004", "OPTIONS-000007", "IDENTITY"} {
			h.Private = append(h.Private, file(name, "/chk-42/", 100_000))
		}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: int32(s), State: &metadata.SubtaskState{ManagedKeyed: h}})
	}
	return &metadata.Snapshot{
		Version:      metadata.Version6,
		CheckpointID: 42,
		Operators:    []metadata.Operator{op},
		Properties:   metadata.NullProperties,
	}
}

// benchFile gives the bytes of a file with n shared files.
func benchFile(tb testing.TB, n int) []byte {
	if dir := os.Getenv("DREY_BENCH_DIR"); dir != "" {
		data, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(n), "_metadata"))
		if err != nil {
			tb.Fatal(err)
		}
		return data
	}
	data, err := metadata.Encode(generate(n))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// TestBenchFile keeps the generator at the very size that Flink's side has.
func TestBenchFile(t *testing.T) {
	for n, size := range map[int]int{1_000: 204_262, 10_000: 1_356_262} {
		data := benchFile(t, n)
		if len(data) != size {
			t.Errorf("%d handles: %d bytes instead of %d", n, len(data), size)
		}
		s, err := metadata.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		refs := 0
		for range s.Refs() {
			refs++
		}
		if want := n + 5*benchSubtasks; refs != want {
			t.Errorf("%d handles: %d references instead of %d", n, refs, want)
		}
	}
}

// benchmark runs fn over each size. Heap in use beside the loop is one file
// and its tree, as in a program that has just loaded them.
func benchmark(b *testing.B, fn func(b *testing.B, data []byte, s *metadata.Snapshot)) {
	for _, n := range benchSizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			data := benchFile(b, n)
			s, err := metadata.Decode(data)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			b.ResetTimer()
			fn(b, data, s)
			b.StopTimer()
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "handles/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(b *testing.B, data []byte, _ *metadata.Snapshot) {
		for b.Loop() {
			if _, err := metadata.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	benchmark(b, func(b *testing.B, data []byte, s *metadata.Snapshot) {
		for b.Loop() {
			out, err := metadata.Encode(s)
			if err != nil {
				b.Fatal(err)
			}
			if len(out) != len(data) {
				b.Fatalf("%d bytes instead of %d", len(out), len(data))
			}
		}
		if out, _ := metadata.Encode(s); !bytes.Equal(out, data) {
			b.Fatal("other bytes")
		}
	})
}

func BenchmarkRefs(b *testing.B) {
	benchmark(b, func(b *testing.B, _ []byte, s *metadata.Snapshot) {
		var sum int64
		for b.Loop() {
			for r := range s.Refs() {
				sum += r.Size + int64(len(r.Path))
			}
		}
		if sum == 0 {
			b.Fatal("no references")
		}
	})
}

// BenchmarkMapPaths moves every file to another root, as relocate does.
func BenchmarkMapPaths(b *testing.B) {
	benchmark(b, func(b *testing.B, _ []byte, s *metadata.Snapshot) {
		for b.Loop() {
			_, err := s.MapPaths(func(r metadata.Ref) (string, error) {
				return "s3://bucket/jobs" + strings.TrimPrefix(r.Path, "file:/data/flink"), nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
