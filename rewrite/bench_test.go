package rewrite

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// longs is a canonical savepoint in memory, of an operator of two subtasks and 128 key groups that has a Long for each of so many Long keys.
func longs(tb testing.TB, keys int64) Source {
	tb.Helper()
	target := backend.Target{FS: storage.NewMemory(), Dir: "mem://b/source"}
	op := metadata.Operator{ID: metadata.UIDHash("state"), Parallelism: 2, MaxParallelism: 128}
	for i := range op.Parallelism {
		groups := keygroup.RangeOf(int(i), 128, 2)
		b, err := heap.Open(serializer.ForLong(), heap.Options[int64]{MaxParallelism: 128, KeyGroups: groups})
		if err != nil {
			tb.Fatal(err)
		}
		v, err := heap.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "value", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
		if err != nil {
			tb.Fatal(err)
		}
		for k := range keys {
			if g := keygroup.ForHash(keygroup.LongHash(k), 128); g >= groups.Start && g <= groups.End {
				if err := b.SetKey(k); err != nil {
					tb.Fatal(err)
				}
				if err := v.Set(31 * k); err != nil {
					tb.Fatal(err)
				}
			}
		}
		shot, err := b.Snapshot(1, backend.SnapshotOptions{Format: backend.FormatCanonical})
		if err != nil {
			tb.Fatal(err)
		}
		h, err := shot.Write(tb.Context(), target)
		if err != nil {
			tb.Fatal(err)
		}
		if err := b.Close(); err != nil {
			tb.Fatal(err)
		}
		op.Subtasks = append(op.Subtasks, metadata.Subtask{Index: i, State: &metadata.SubtaskState{ManagedKeyed: h}})
	}
	return Source{
		Files:    backend.Files{FS: target.FS, Dir: target.Dir},
		Metadata: &metadata.Snapshot{Version: metadata.Version5, Properties: metadata.PropertiesOf(metadata.KindCanonicalSavepoint), Operators: []metadata.Operator{op}},
	}
}

// TestPutTwice: two values for a key are a problem also if that of another one was given between them.
func TestPutTwice(t *testing.T) {
	src := longs(t, 10)
	put := func(key byte) Put {
		return Put{Key: []byte{0, 0, 0, 0, 0, 0, 0, key}, Namespace: []byte{0}, Value: make([]byte, 8)}
	}
	// Two keys of the same key group.
	same := map[int]byte{}
	var a, b byte
	for k := byte(0); a == b; k++ {
		g := keygroup.ForHash(keygroup.LongHash(int64(k)), 128)
		if other, ok := same[g]; ok {
			a, b = other, k
		}
		same[g] = k
	}
	p, err := NewPlan(t.Context(), src, Options{Transform: func(*metadata.Operator) (*Transform, error) {
		return &Transform{Put: func(*backend.State) ([]Put, error) { return []Put{put(b), put(a), put(b)}, nil }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Problems) != 1 || !strings.Contains(p.Problems[0].String(), "two values") {
		t.Errorf("problems: %v", p.Problems)
	}
}

// BenchmarkExecute writes a canonical savepoint of 200,000 Longs anew, in memory.
func BenchmarkExecute(b *testing.B) {
	const keys = 200_000
	src := longs(b, keys)
	for _, o := range []Options{
		{Format: NativeHeap},
		{Format: NativeRocksDB},
		{Format: Canonical, MaxParallelism: 1024},
		{Format: NativeRocksDB, MaxParallelism: 1024, Memory: 2 << 20},
	} {
		b.Run(fmt.Sprintf("%s/%d", o.Format, max(128, o.MaxParallelism)), func(b *testing.B) {
			o.TempDir = b.TempDir()
			b.ReportAllocs()
			for b.Loop() {
				p, err := NewPlan(b.Context(), src, o)
				if err != nil {
					b.Fatal(err)
				}
				r, err := p.Execute(b.Context(), backend.Target{FS: storage.NewMemory(), Dir: "mem://b/new"}, nil)
				if err != nil {
					b.Fatal(err)
				}
				if r.Entries != keys || (r.Spilled > 0) != (o.Memory > 0) {
					b.Fatalf("%+v", r)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/entry")
		})
	}
}

// BenchmarkSorter sorts a million entries of 1024 key groups, in memory.
func BenchmarkSorter(b *testing.B) {
	const entries = 1 << 20
	s := newSorter(256<<20, b.TempDir(), 1)
	defer s.close()
	groups := keygroup.Range{End: 1023}
	var m merger
	key, value := make([]byte, 9), make([]byte, 8)
	b.ReportAllocs()
	for b.Loop() {
		s.reset(groups)
		for i := range uint64(entries) {
			i = i * 0x9E3779B97F4A7C15 >> 40
			binary.BigEndian.PutUint64(key, i)
			if err := s.add(int(i%1024), 0, key, value); err != nil {
				b.Fatal(err)
			}
		}
		n := 0
		for g := range 1024 {
			if err := m.merge([]*sorter{s}, g, 1<<20, func(int, []byte, []byte) error { n++; return nil }); err != nil {
				b.Fatal(err)
			}
		}
		if n != entries {
			b.Fatalf("%d entries", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}
