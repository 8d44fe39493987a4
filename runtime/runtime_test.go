package runtime

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// click is what the jobs of the tests work on.
type click = serializer.Tuple2[string, int64] // key, time

var clicks = serializer.ForTuple2(serializer.ForString(), serializer.ForLong())

// counter counts the records of each key and emits each count.
type counter struct {
	n backend.Value[struct{}, int64]
}

func (c *counter) Open(b backend.Keyed[string], _ *backend.Operator) (err error) {
	c.n, err = state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "count", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	return err
}

func (c *counter) Process(ctx *Context[string, string], v click) error {
	n, _, err := c.n.Get()
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprintf("%s %d", v.F0, n+1))
	return c.n.Set(n + 1)
}

func (c *counter) OnTimer(*Context[string, string], Timer) error { return nil }

func fill(l *Log[click], n int) {
	for i := range n {
		l.Append(i%len(l.parts), Record[click]{Value: click{F0: fmt.Sprint("k", i%17), F1: int64(i)}, Timestamp: int64(i)})
	}
}

// outDir is where the jobs of the tests write to.
const outDir = "mem:///out"

// sunk gives the committed lines.
func sunk(t *testing.T, fs storage.FS) []string {
	t.Helper()
	var lines []string
	for info, err := range fs.List(t.Context(), outDir) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info.URI, "/.pending/") {
			continue
		}
		data, err := storage.ReadAll(t.Context(), fs, info.URI, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for l := range bytes.Lines(data) {
			lines = append(lines, strings.TrimSuffix(string(l), "\n"))
		}
	}
	slices.Sort(lines)
	return lines
}

func appendLine(dst []byte, s string) []byte { return append(append(dst, s...), '\n') }

// counts is the job of most tests: the clicks are counted by key, and in windows of 100 ms.
func counts(l *Log[click], fs storage.FS, slow func()) *Job {
	j := NewJob("counts")
	src := From(j, Op{UID: "clicks"}, l, clicks, SourceOptions[click]{Watermarks: true})
	same := Map(src, Op{UID: "same"}, clicks, func(c click) (click, error) { slow(); return c, nil })
	keyed := KeyBy(same, serializer.ForString(), func(c click) string { return c.F0 })
	counted := Process(keyed, Op{UID: "count"}, serializer.ForString(), func() Processor[string, click, string] { return &counter{} })
	windows := Aggregate(keyed, Op{UID: "windows"}, Tumbling(100*time.Millisecond), serializer.ForLong(), Aggregation[click, int64, int64]{
		Create: func() int64 { return 0 },
		Add:    func(n int64, _ click) (int64, error) { return n + 1, nil },
		Result: func(n int64) (int64, error) { return n, nil },
	}, serializer.ForString(), func(k string, w Window, n int64) (string, error) {
		return fmt.Sprintf("%s [%d,%d) %d", k, w.Start, w.End, n), nil
	})
	all := Union(Op{UID: "all"}, counted, windows)
	Commit(all, Op{UID: "sink"}, Files(FileOptions[string]{FS: fs, Dir: outDir, Append: appendLine}))
	return j
}

// want is what counts gives for the clicks.
func want(n int) []string {
	var lines []string
	seen := map[string]int{}
	windows := map[string]int{}
	for i := range n {
		k := fmt.Sprint("k", i%17)
		seen[k]++
		lines = append(lines, fmt.Sprintf("%s %d", k, seen[k]))
		windows[fmt.Sprintf("%s [%d,%d)", k, i/100*100, i/100*100+100)]++
	}
	for w, n := range maps.All(windows) {
		lines = append(lines, fmt.Sprintf("%s %d", w, n))
	}
	slices.Sort(lines)
	return lines
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	count := map[string]int{}
	for _, l := range got {
		count[l]++
	}
	for _, l := range want {
		count[l]--
	}
	n := 0
	for l, c := range count {
		if c != 0 && n < 10 {
			n++
			t.Errorf("%+d times %q", c, l)
		}
	}
	t.Errorf("%d lines, want %d", len(got), len(want))
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestRun(t *testing.T) {
	for _, b := range []Backend{BackendHeap, BackendPebble} {
		fs := storage.Mux{"mem": storage.NewMemory()}
		l := NewLog[click](3)
		fill(l, 5000)
		l.End()
		x, err := Start(t.Context(), counts(l, fs, func() {}), Options{
			Parallelism: 3, Backend: b, FS: fs, CheckpointDir: "mem:///checkpoints", Checkpoints: CheckpointOptions{Interval: 20 * time.Millisecond}, Logger: testLogger(t),
			WorkDir: t.TempDir(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := x.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if x.Status() != StatusFinished {
			t.Errorf("status %s", x.Status())
		}
		compare(t, sunk(t, fs), want(5000))
	}
}
