package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// margin is by how much of the budget the memory may be above it, as CONFIG.md says.
const margin = 0.15

// loader writes to the twenty states of a backend, and reads them.
type loader struct {
	b      *pebble.Backend[string]
	values []backend.Value[struct{}, []byte]
	maps   []backend.Map[struct{}, int64, []byte]
	random *rand.Rand
	dir    string // for snapshots
}

func newLoader(t testing.TB, memory *pebble.Memory, seed uint64) *loader {
	l := &loader{b: openAt(t, filepath.Join(t.TempDir(), "db"), memory, backendtest.All, nil), random: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir()}
	for i := range 15 {
		v, err := pebble.OpenValue(l.b, backend.Descriptor[struct{}, []byte]{
			Name: fmt.Sprint("value", i), Namespace: serializer.ForVoidNamespace(), Value: serializer.ForBytes(),
		})
		if err != nil {
			t.Fatal(err)
		}
		l.values = append(l.values, v)
	}
	for i := range 5 {
		m, err := pebble.OpenMap(l.b, backend.MapDescriptor[struct{}, int64, []byte]{
			Name: fmt.Sprint("map", i), Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForLong(), Value: serializer.ForBytes(),
		})
		if err != nil {
			t.Fatal(err)
		}
		l.maps = append(l.maps, m)
	}
	return l
}

func (l *loader) value(n int) []byte {
	v := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 { // half of it can't be compressed
		v[i], v[i+1], v[i+2], v[i+3] = byte(l.random.Uint32()), byte(l.random.Uint32()), byte(l.random.Uint32()), byte(l.random.Uint32())
	}
	return v
}

// run does some steps: writes of mostly small values, reads, iterations over all keys with writes meanwhile, and snapshots.
func (l *loader) run(ctx context.Context, steps int) error {
	for i := range steps {
		if err := l.b.SetKey(fmt.Sprint("key", l.random.IntN(5000))); err != nil {
			return err
		}
		v, m := l.values[l.random.IntN(len(l.values))], l.maps[l.random.IntN(len(l.maps))]
		size := 600
		if i%1000 == 0 {
			size = 100_000
		}
		_, _, err := v.Get()
		_, _, err2 := m.Get(l.random.Int64N(10))
		err = errors.Join(err, err2, v.Set(l.value(size)), m.Put(l.random.Int64N(10), l.value(100)))
		if i%(steps/4) == steps/8 {
			err = errors.Join(err, l.iterate(v), l.snapshot(ctx))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// iterate holds an iterator over a state while another is written.
func (l *loader) iterate(to backend.Value[struct{}, []byte]) error {
	for _, err := range l.b.Entries("value0", backendtest.All) {
		if err != nil {
			return err
		}
		if err := to.Set(l.value(1000)); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) snapshot(ctx context.Context) error {
	s, err := l.b.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		return err
	}
	_, err = s.Write(ctx, backend.Target{FS: storage.NewLocal(storage.LocalOptions{NoSync: true}), Dir: "file:" + l.dir})
	return err
}

// peak is the most memory that was used at a time, in bytes.
type peak struct {
	usage    pebble.Usage // as backends tell it
	manual   int64        // what Pebble has allocated outside of Go's heap, in the whole process
	resident int64        // of the process, 0 if the system doesn't tell
	heap     int64        // Go's
	samples  int
}

// sample notes the peak until it is stopped.
func sample(memory *pebble.Memory, b *pebble.Backend[string]) (stop func() peak) {
	var wg sync.WaitGroup
	var p peak
	done := make(chan struct{})
	heap := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	wg.Go(func() {
		for {
			if u := memory.Usage(); u.Sum() > p.usage.Sum() {
				p.usage = u
			}
			p.manual = max(p.manual, manual(b))
			p.resident = max(p.resident, resident())
			metrics.Read(heap)
			p.heap = max(p.heap, int64(heap[0].Value.Uint64()-heap[1].Value.Uint64()))
			p.samples++
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	return func() peak {
		close(done)
		wg.Wait()
		return p
	}
}

// manual tells how many bytes Pebble has allocated for blocks, with what it keeps of them, and
// for write buffers, in the whole process. It says so only in words, with two or three digits.
func manual(b *pebble.Backend[string]) int64 {
	_, text, ok := strings.Cut(b.DB().Metrics().String(), "Cgo memory usage: ")
	if !ok {
		return math.MaxInt64
	}
	digits := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	n, err := strconv.ParseFloat(text[:max(digits, 0)], 64)
	if err != nil {
		return math.MaxInt64
	}
	switch text[digits : digits+1] {
	case "K":
		n *= 1 << 10
	case "M":
		n *= 1 << 20
	case "G":
		n *= 1 << 30
	}
	return int64(n)
}

// resident is the process's memory in bytes.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var all, pages int64
	if _, err := fmt.Sscan(string(b), &all, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// load runs four backends of twenty states each on a memory, the last one opened while the others are under load, then
// closed, and one more opened in its place.
func load(t testing.TB, memory *pebble.Memory, steps int) (before, most peak) {
	first := newLoader(t, memory, 0)
	before = peak{manual: manual(first.b), resident: resident()}
	stop := sample(memory, first.b)
	g, ctx := errgroup.WithContext(t.Context())
	for _, l := range []*loader{first, newLoader(t, memory, 1), newLoader(t, memory, 2)} {
		g.Go(func() error { return l.run(ctx, steps) })
	}
	for seed := range uint64(2) {
		l := newLoader(t, memory, 10+seed)
		if err := errors.Join(l.run(t.Context(), steps/2), l.b.Close()); err != nil {
			t.Error(err)
		}
	}
	err := g.Wait()
	most = stop()
	if err != nil {
		t.Fatal(err)
	}
	return before, most
}

// Backends under load keep to the budget of the slot.
func TestMemoryBudget(t *testing.T) {
	const size = 16 << 20
	for _, planned := range []int{4, 0} {
		t.Run(fmt.Sprint(planned, " planned"), func(t *testing.T) {
			memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: size, Backends: planned})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(memory.Close)
			before, most := load(t, memory, 6_000)
			sum, manual := most.usage.Sum(), most.manual-before.manual
			t.Logf("of %d bytes: %d (%+v), %d with what Pebble keeps of them, in %d samples", size, sum, most.usage, manual, most.samples)
			if float64(sum) > size*(1+margin) || sum < size/2 {
				t.Errorf("%d bytes were used of %d", sum, size)
			}
			if float64(manual) > size*(1+margin) || manual < size/2 {
				t.Errorf("%d bytes were allocated of %d", manual, size)
			}
		})
	}
}

// BenchmarkMemoryResident tells by how much the process grows under load, in parts of the budget. That includes Go's
// heap and what malloc doesn't give back (try MALLOC_ARENA_MAX=1), so that it is printed and not asserted.
func BenchmarkMemoryResident(b *testing.B) {
	const size = 64 << 20
	for b.Loop() {
		memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: size, Backends: 4})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(memory.Close)
		before, most := load(b, memory, 50_000)
		b.ReportMetric(float64(most.usage.Sum())/size, "usage/budget")
		b.ReportMetric(float64(most.manual-before.manual)/size, "malloc/budget")
		b.ReportMetric(float64(most.resident-before.resident)/size, "resident/budget")
		b.ReportMetric(float64(most.heap)/size, "go/budget")
	}
}

// Options that can't be are refused with what would do.
func TestNewMemoryRefuses(t *testing.T) {
	for _, c := range []struct {
		o    pebble.MemoryOptions
		want string
	}{
		{pebble.MemoryOptions{Size: -1}, "memory of -1 bytes: it must not be negative"},
		{pebble.MemoryOptions{Size: 1}, "memory of 1 bytes: it must be at least 1048577 for the write buffers of 1 backends at a ratio of 0.5"},
		{pebble.MemoryOptions{Size: 1 << 20, Backends: 4}, "it must be at least 4194305 for the write buffers of 4 backends"},
		{pebble.MemoryOptions{Size: 4 << 20, WriteBufferRatio: 0.01}, "it must be at least 52428801"},
		{pebble.MemoryOptions{Backends: math.MaxInt}, "it must be at least"},
		{pebble.MemoryOptions{WriteBufferRatio: -0.1}, "write buffer ratio -0.1: it must be between 0 and 1"},
		{pebble.MemoryOptions{WriteBufferRatio: 1}, "write buffer ratio 1: it must be between 0 and 1"},
		{pebble.MemoryOptions{WriteBufferRatio: math.NaN()}, "write buffer ratio NaN"},
		{pebble.MemoryOptions{WriteBufferRatio: math.Inf(1)}, "write buffer ratio +Inf"},
		{pebble.MemoryOptions{Backends: -1}, "memory of -1 backends"},
		{pebble.MemoryOptions{OpenFiles: -1}, "-1 open files"},
	} {
		if m, err := pebble.NewMemory(c.o); err == nil || m != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 4194305, Backends: 4}) // the size that was asked for
	if err != nil {
		t.Fatal(err)
	}
	memory.Close()
}

// One backend more than the write buffers are planned for is refused, and taken when another is closed.
func TestMemoryIsFull(t *testing.T) {
	for planned, want := range map[int]int{2: 2, 0: 8} {
		memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20, Backends: planned})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(memory.Close)
		o := pebble.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Memory: memory}
		open := func() (*pebble.Backend[string], error) {
			o.Dir = filepath.Join(t.TempDir(), "db")
			b, err := pebble.Open(serializer.ForString(), o)
			if err == nil {
				t.Cleanup(func() { b.Close() })
			}
			return b, err
		}
		var backends []*pebble.Backend[string]
		for {
			var b *pebble.Backend[string]
			if b, err = open(); err != nil {
				break
			}
			backends = append(backends, b)
		}
		if len(backends) != want || !strings.Contains(err.Error(), fmt.Sprintf("%d backends have all 8388608 bytes of write buffers", want)) {
			t.Errorf("%d planned: %d were opened, then: %v", planned, len(backends), err)
		}
		if err := backends[0].Close(); err != nil {
			t.Fatal(err)
		}
		o.Tuning.Threads = -1 // fails, and takes nothing
		if _, err := open(); err == nil || !strings.Contains(err.Error(), "threads: -1 is not from 1 to 1024") {
			t.Errorf("an option that can't be: %v", err)
		}
		o.Tuning.Threads = 0
		if _, err := open(); err != nil {
			t.Errorf("%d planned, one closed: %v", planned, err)
		}
	}
}
