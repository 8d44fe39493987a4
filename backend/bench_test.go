package backend

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/drey-state/drey/metadata"
)

// benchGroups is how many key groups the generated files have, and
// benchEntries how many entries each: together some megabytes.
const benchGroups, benchEntries = 128, 1000

func benchHeader(zip bool) *KeyedHeader {
	return &KeyedHeader{Version: 6, Compressed: zip, Key: simple(longClass), States: []StateMeta{keyValue("v", TypeValue, simple(stringClass), simple(voidNamespace))}}
}

func benchCanonical(b *testing.B, zip bool) *metadata.KeyGroups {
	file := headerBytes(b, benchHeader(zip))
	var offsets []int64
	for g := range benchGroups {
		var pairs []pair
		for i := range benchEntries {
			pairs = append(pairs, pair{joinBytes(long(int64(i)), []byte{0}), text(fmt.Sprintf("value %d of key group %d", i, g))})
		}
		offsets = append(offsets, int64(len(file)))
		file = canonical(b, file, 1, g, zip, []run{{0, pairs}})
	}
	return inlineKeyGroups(metadata.KeyGroupsSavepoint, file, 0, offsets...)
}

func benchHeap(b *testing.B, zip bool) *metadata.KeyGroups {
	file := headerBytes(b, benchHeader(zip))
	var offsets []int64
	for g := range benchGroups {
		block := binary.BigEndian.AppendUint32([]byte{0, 0}, benchEntries)
		for i := range benchEntries {
			block = append(block, 0)
			block = append(block, long(int64(i))...)
			block = append(block, text(fmt.Sprintf("value %d of key group %d", i, g))...)
		}
		offsets = append(offsets, int64(len(file)))
		file = heapGroup(b, file, g, zip, block)
	}
	return inlineKeyGroups(metadata.KeyGroupsV2, file, 0, offsets...)
}

// scan reads all entries as bytes, again and again.
func scan(b *testing.B, files Files, h metadata.Keyed, o Options) {
	read := int64(0)
	o.Progress = func(n int64) { read += n }
	b.ReportAllocs()
	entries := 0
	for b.Loop() {
		read, entries = 0, 0
		r, err := OpenKeyed(context.Background(), files, h, o)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range r.Entries(context.Background(), Filter{}) {
			if err != nil {
				b.Fatal(err)
			}
			entries++
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(read)
	b.ReportMetric(float64(entries)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkCanonical(b *testing.B) {
	for _, zip := range []bool{false, true} {
		b.Run(fmt.Sprintf("compressed=%t", zip), func(b *testing.B) {
			scan(b, Files{}, benchCanonical(b, zip), Options{MaxParallelism: benchGroups})
		})
	}
}

func BenchmarkHeap(b *testing.B) {
	for _, zip := range []bool{false, true} {
		b.Run(fmt.Sprintf("compressed=%t", zip), func(b *testing.B) {
			scan(b, Files{}, benchHeap(b, zip), Options{MaxParallelism: benchGroups})
		})
	}
}

// BenchmarkRocksDB scans a subtask that Flink wrote.
func BenchmarkRocksDB(b *testing.B) {
	var files Files
	var largest keyedHandle
	size := int64(0)
	eachFixture(b, []string{"flink/2.3.0/ck-rocksdb-full"}, func(f fixture) {
		for _, h := range f.keyed() {
			inc, ok := h.handle.(*metadata.Incremental)
			if !ok {
				continue
			}
			if inc.CheckpointedSize > size {
				size, files, largest = inc.CheckpointedSize, f.files, h
			}
		}
	})
	if size == 0 {
		b.Fatal("no RocksDB")
	}
	scan(b, files, largest.handle, largest.o)
}

// BenchmarkJSON decodes keys and values to JSON.
func BenchmarkJSON(b *testing.B) {
	r, err := OpenKeyed(context.Background(), Files{}, benchCanonical(b, false), Options{MaxParallelism: benchGroups})
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for b.Loop() {
		n := 0
		for e, err := range r.Entries(context.Background(), Filter{}) {
			if err != nil {
				b.Fatal(err)
			}
			buf, _ = e.AppendKeyJSON(buf[:0])
			buf, _ = e.AppendValueJSON(buf)
			n += len(buf)
		}
		b.SetBytes(int64(n))
	}
}
