//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/drey-state/drey/backend"
	engine "github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// jobBench measures the jobs that the Java program's command job has.
type jobBench struct {
	what, backend string
	parallelism   int
	records, keys int64
	interval      time.Duration
	laps          int
	work          string
}

// jobLine is a measurement of either side.
type jobLine struct {
	Name         string  `json:"name"`
	Backend      string  `json:"backend"`
	Parallelism  int     `json:"parallelism"`
	Keys         int64   `json:"keys"`
	CheckpointMS int64   `json:"checkpoint_ms"`
	Checkpoints  int64   `json:"checkpoints"`
	Ops          int64   `json:"ops"`
	Net          float64 `json:"net_s"` // of the job, in wall time
	Wall         float64 `json:"wall_s"`
	CPU          float64 `json:"cpu_s"`
	N            int     `json:"n"`
	Flink        string  `json:"flink,omitempty"`
	Java         string  `json:"java,omitempty"`
	GC           string  `json:"gc,omitempty"`
	Go           string  `json:"go,omitempty"`
	Load1        float64 `json:"load1"`
}

// numbersIn are the numbers below n; each partition has its own contiguous share of them.
type numbersIn struct {
	n     int64
	parts int
}

func (in numbersIn) share() int64 { return (in.n + int64(in.parts) - 1) / int64(in.parts) }

func (in numbersIn) Partitions(context.Context) ([]string, error) {
	names := make([]string, in.parts)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names, nil
}

func (in numbersIn) Open(_ context.Context, partition string, offset int64) (engine.Reader[int64], error) {
	i, err := strconv.ParseInt(partition, 10, 64)
	return &numbersReader{in: in, at: i*in.share() + offset, first: i * in.share(), end: min((i+1)*in.share(), in.n)}, err
}

type numbersReader struct {
	in             numbersIn
	at, first, end int64
}

func (r *numbersReader) Next() (engine.Record[int64], bool, error) {
	if r.at >= r.end {
		return engine.Record[int64]{}, false, io.EOF
	}
	x := r.at
	r.at++
	// 100,000 records a second of event time over all readers.
	return engine.Record[int64]{Value: x, Timestamp: (x - r.first) * int64(r.in.parts) / 100}, true, nil
}

func (r *numbersReader) Offset() int64 { return r.at - r.first }
func (r *numbersReader) Close() error  { return nil }

// keyOf spreads numbers over the keys as Jobs.keyOf of the Java program does.
func keyOf(x, keys int64) int64 { return int64(uint64(x) * 0x9E3779B97F4A7C15 >> 20 % uint64(keys)) }

type countRecords struct {
	count backend.Value[struct{}, int64]
}

func (c *countRecords) Open(b backend.Keyed[int64], _ *backend.Operator) (err error) {
	c.count, err = state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "count", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	return err
}

func (c *countRecords) Process(ctx *engine.Context[int64, int64], _ int64) error {
	n, _, err := c.count.Get()
	if err != nil {
		return err
	}
	ctx.Emit(n + 1)
	return c.count.Set(n + 1)
}

func (c *countRecords) OnTimer(*engine.Context[int64, int64], engine.Timer) error { return nil }

// job makes the job for so many records.
func (b *jobBench) job(n int64) *engine.Job {
	long := serializer.ForLong()
	j := engine.NewJob(b.what)
	src := engine.From(j, engine.Op{UID: "numbers"}, numbersIn{n, b.parallelism}, long, engine.SourceOptions[int64]{Watermarks: b.what == "window"})
	keyed := engine.KeyBy(src, long, func(x int64) int64 { return keyOf(x, b.keys) })
	var result engine.Stream[int64]
	if b.what == "window" {
		result = engine.Aggregate(keyed, engine.Op{UID: "op"}, engine.Tumbling(10*time.Second), long, engine.Aggregation[int64, int64, int64]{
			Create: func() int64 { return 0 },
			Add:    func(sum, x int64) (int64, error) { return sum + x, nil },
			Result: func(sum int64) (int64, error) { return sum, nil },
		}, long, func(_ int64, _ engine.Window, sum int64) (int64, error) { return sum, nil })
	} else {
		result = engine.Process(keyed, engine.Op{UID: "op"}, long, func() engine.Processor[int64, int64, int64] { return &countRecords{} })
	}
	engine.ForEach(result, engine.Op{UID: "sink"}, func(engine.Record[int64]) error { return nil })
	return j
}

func (b *jobBench) run(ctx context.Context) error {
	if b.what != "count" && b.what != "window" {
		return fmt.Errorf("job %q: count or window", b.what)
	}
	kinds := map[string]engine.Backend{"heap": engine.BackendHeap, "pebble": engine.BackendPebble}
	kind, ok := kinds[b.backend]
	if !ok {
		return fmt.Errorf("backend %q: heap or pebble", b.backend)
	}
	var laps []threadLap
	var done []int64
	for lap := -1; lap < b.laps; lap++ {
		n := b.records
		if lap < 0 {
			n /= 5 // warms up, as on the Java side
		}
		dir, err := os.MkdirTemp(b.work, "job")
		if err != nil {
			return err
		}
		o := engine.Options{Parallelism: b.parallelism, MaxParallelism: 128, Backend: kind, WorkDir: dir}
		if b.interval > 0 {
			o.FS, o.CheckpointDir = storage.Mux{"file": storage.NewLocal(storage.LocalOptions{})}, "file://"+dir+"/checkpoints"
			o.Checkpoints = engine.CheckpointOptions{Interval: b.interval, Timeout: 20 * time.Minute}
		}
		completed := int64(0)
		l, err := timed(func() error {
			x, err := engine.Start(ctx, b.job(n), o)
			if err != nil {
				return err
			}
			if err := x.Wait(ctx); err != nil {
				return err
			}
			completed = x.Completed()
			return nil
		})
		if err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if lap >= 0 {
			laps, done = append(laps, l), append(done, completed)
		}
	}
	var m backendLine
	m.set(laps)
	m.stamp()
	slices.Sort(done)
	return json.NewEncoder(os.Stdout).Encode(jobLine{
		Name: "job-" + b.what, Backend: b.backend, Parallelism: b.parallelism, Keys: b.keys, CheckpointMS: b.interval.Milliseconds(), Checkpoints: done[len(done)/2],
		Ops: b.records, Net: m.Wall, Wall: m.Wall, CPU: m.CPU, N: len(laps), Go: m.Go, Load1: m.Load1,
	})
}

type jobKey struct {
	name, backend string
	checkpoints   int64
}

// jobTable writes the Markdown table of what run-job.sh measured: the medians of the lines for the same measurement, of Flink that of the better collector.
func jobTable(w io.Writer, files []string) error {
	lines := map[jobKey]map[string][]jobLine{}
	var order []jobKey
	var flink, java, goVersion string
	lo, hi := 0.0, 0.0
	err := eachLine(files, func(l jobLine) {
		if len(lines) == 0 {
			lo = l.Load1
		}
		lo, hi = min(lo, l.Load1), max(hi, l.Load1)
		k := jobKey{l.Name, l.Backend, l.CheckpointMS}
		if lines[k] == nil {
			lines[k] = map[string][]jobLine{}
			if _, ours := flinks[l.Backend]; ours {
				order = append(order, k)
			}
		}
		lines[k][l.GC] = append(lines[k][l.GC], l)
		if l.Flink != "" {
			flink, java = l.Flink, l.Java
		} else {
			goVersion = l.Go
		}
	})
	if err != nil {
		return err
	}
	// best gives the rates by CPU and by wall time, and the checkpoints.
	best := func(k jobKey) (cpu, wall float64, checkpoints int64) {
		for _, l := range lines[k] {
			c, n := median(l, func(l jobLine) float64 { return float64(l.Ops) / l.CPU }), median(l, func(l jobLine) float64 { return float64(l.Ops) / l.Net })
			if c > cpu {
				cpu, wall, checkpoints = c, n, l[0].Checkpoints
			}
		}
		return cpu, wall, checkpoints
	}
	fmt.Fprintf(w, "Flink %s, Java %s, %s, %d cores; load of the machine %.1f to %.1f. Medians, records per second.\n", flink, java, goVersion, runtime.NumCPU(), lo, hi)
	fmt.Fprint(w, "\n| job | backend | checkpoints every | Flink, per CPU s | drey, per CPU s | times | Flink, per s | drey, per s | times | checkpoints |\n")
	fmt.Fprint(w, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, k := range order {
		theirs := k
		theirs.backend = flinks[k.backend]
		fc, fw, fn := best(theirs)
		dc, dw, dn := best(k)
		every := "-"
		if k.checkpoints > 0 {
			every = (time.Duration(k.checkpoints) * time.Millisecond).String()
		}
		fmt.Fprintf(w, "| %s | %s / %s | %s | %s | %s | %s | %s | %s | %s | %d, %d |\n", k.name[len("job-"):], theirs.backend, k.backend, every,
			thousands(fc), thousands(dc), times(dc/fc), thousands(fw), thousands(dw), times(dw/fw), fn, dn)
	}
	return nil
}
