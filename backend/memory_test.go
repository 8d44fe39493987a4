package backend

import (
	"context"
	"runtime"
	"testing"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// TestMemory: what a scan takes does not grow with the file.
func TestMemory(t *testing.T) {
	const groups, entries = 64, 4000
	ctx := context.Background()
	h := &KeyedHeader{Version: 6, Key: simple(longClass), States: []StateMeta{keyValue("v", TypeValue, simple(longClass), simple(voidNamespace))}}
	file, heap := headerBytes(t, h), headerBytes(t, h)
	var offsets, heapOffsets []int64
	for g := range groups {
		var pairs []pair
		block := serializer.NewOutput([]byte{0, 0})
		block.I32(entries)
		for i := range int64(entries) {
			pairs = append(pairs, pair{append(long(i), 0), long(i)})
			block.U8(0)
			block.I64(i)
			block.I64(i)
		}
		offsets = append(offsets, int64(len(file)))
		file = canonical(t, file, 1, g, false, []run{{0, pairs}})
		heapOffsets = append(heapOffsets, int64(len(heap)))
		heap = heapGroup(t, heap, g, false, block.Bytes())
	}
	mem := storage.NewMemory()
	for uri, data := range map[string][]byte{"file:/canonical": file, "file:/heap": heap} {
		if err := storage.WriteFile(ctx, mem, uri, data, storage.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []*metadata.KeyGroups{
		{Form: metadata.KeyGroupsSavepoint, KeyGroupOffsets: metadata.KeyGroupOffsets{Offsets: offsets}, Delegate: &metadata.File{Path: "file:/canonical"}},
		{Form: metadata.KeyGroupsV2, KeyGroupOffsets: metadata.KeyGroupOffsets{Offsets: heapOffsets}, Delegate: &metadata.File{Path: "file:/heap"}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := OpenKeyed(ctx, Files{FS: mem}, k, Options{MaxParallelism: groups})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for e, err := range r.Entries(ctx, Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Key) != 8 || len(e.Value) != 8 {
				t.Fatal(e)
			}
			n++
		}
		runtime.ReadMemStats(&after)
		if n != groups*entries {
			t.Errorf("%s: %d entries", r.Format(), n)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
			t.Errorf("%s: %d bytes allocated for files of %d and %d", r.Format(), got, len(file), len(heap))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
