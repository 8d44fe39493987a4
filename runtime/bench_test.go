package runtime

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// sequence is an input of numbers, as many in each partition.
type sequence struct {
	parts int
	n     int64
}

func (s sequence) Partitions(context.Context) ([]string, error) {
	names := make([]string, s.parts)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names, nil
}

func (s sequence) Open(_ context.Context, _ string, offset int64) (Reader[int64], error) {
	return &sequenceReader{offset, s.n}, nil
}

type sequenceReader struct{ at, n int64 }

func (r *sequenceReader) Next() (Record[int64], bool, error) {
	if r.at == r.n {
		return Record[int64]{}, false, io.EOF
	}
	v := r.at
	r.at++
	return Record[int64]{v, v / 1000}, true, nil
}
func (r *sequenceReader) Offset() int64 { return r.at }
func (r *sequenceReader) Close() error  { return nil }

type longCounter struct {
	n backend.Value[struct{}, int64]
}

func (c *longCounter) Open(b backend.Keyed[int64], _ *backend.Operator) (err error) {
	c.n, err = state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "count", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	return err
}

func (c *longCounter) Process(_ *Context[int64, int64], _ int64) error {
	n, _, err := c.n.Get()
	if err != nil {
		return err
	}
	return c.n.Set(n + 1)
}

func (c *longCounter) OnTimer(*Context[int64, int64], Timer) error { return nil }

// BenchmarkJob runs records through a keyed count and a windowed aggregation, without checkpoints and with one each second.
func BenchmarkJob(b *testing.B) {
	const parallelism, keys = 2, 100_000
	for _, kind := range []string{"count", "window"} {
		for _, back := range []Backend{BackendHeap, BackendPebble} {
			for _, every := range []time.Duration{0, time.Second} {
				b.Run(fmt.Sprintf("%s/%s/every=%v", kind, [...]string{"heap", "pebble"}[back], every), func(b *testing.B) {
					j := NewJob("bench")
					src := From(j, Op{UID: "numbers"}, sequence{parallelism, int64(b.N)/parallelism + 1}, serializer.ForLong(), SourceOptions[int64]{Watermarks: true})
					keyed := KeyBy(src, serializer.ForLong(), func(v int64) int64 { return v * 7919 % keys })
					var out Stream[int64]
					if kind == "count" {
						out = Process(keyed, Op{UID: "count"}, serializer.ForLong(), func() Processor[int64, int64, int64] { return &longCounter{} })
					} else {
						out = Aggregate(keyed, Op{UID: "window"}, Tumbling(time.Second), serializer.ForLong(), Aggregation[int64, int64, int64]{
							Create: func() int64 { return 0 },
							Add:    func(n, _ int64) (int64, error) { return n + 1, nil },
							Result: func(n int64) (int64, error) { return n, nil },
						}, serializer.ForLong(), func(_ int64, _ Window, n int64) (int64, error) { return n, nil })
					}
					ForEach(out, Op{UID: "out"}, func(Record[int64]) error { return nil })
					o := Options{Parallelism: parallelism, Backend: back, WorkDir: b.TempDir(), Checkpoints: CheckpointOptions{Interval: every, Incremental: true}}
					if every > 0 {
						dir := b.TempDir()
						o.FS, o.CheckpointDir = storage.Mux{"file": storage.NewLocal(storage.LocalOptions{})}, "file://"+dir
					}
					b.ResetTimer()
					x, err := Start(b.Context(), j, o)
					if err != nil {
						b.Fatal(err)
					}
					if err := x.Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
				})
			}
		}
	}
}
