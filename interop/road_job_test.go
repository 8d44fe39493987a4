package interop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// The job of TestRoad, which runs in Go, then in Flink, then in Go again. It counts clicks, lines "KEY TIME" of files, and writes lines about
// them. Road.java is the same job for Flink: what the two must have in common is told where it stands here, and in the README.

// click is a key and a time in milliseconds.
type click = serializer.Tuple2[string, int64]

var clickCodec = serializer.ForTuple2(serializer.ForString(), serializer.ForLong())

// roadJob builds the job. Operators with state have the same uids on both sides; others, as parse and all, are nobody's business.
func roadJob(in runtime.Input[string], sink runtime.FileOptions[string]) *runtime.Job {
	j := runtime.NewJob("road")
	// The state of the source is the offset of each file: "partition-offsets", a union list of Tuple2<String, Long>. Watermarks are in no state: both sides
	// have forBoundedOutOfOrderness of 50 ms.
	lines := runtime.From(j, runtime.Op{UID: "clicks"}, in, serializer.ForString(), runtime.SourceOptions[string]{
		Timestamp: func(line string) int64 { return parseClick(line).F1 }, Watermarks: true, OutOfOrderness: roadDisorder * time.Millisecond,
	})
	clicks := runtime.Map(lines, runtime.Op{UID: "parse"}, clickCodec, func(line string) (click, error) { return parseClick(line), nil })
	keyed := runtime.KeyBy(clicks, serializer.ForString(), func(c click) string { return c.F0 })

	counted := runtime.Process(keyed, runtime.Op{UID: "count"}, serializer.ForString(), func() runtime.Processor[string, click, string] { return &roadCount{} })
	// Flink's window operator and this one keep windows alike: "window-contents", of the type of accumulators or, below, of records.
	sizes := runtime.Aggregate(keyed, runtime.Op{UID: "windows"}, runtime.Tumbling(time.Second), serializer.ForLong(), runtime.Aggregation[click, int64, int64]{
		Create: func() int64 { return 0 },
		Add:    func(n int64, _ click) (int64, error) { return n + 1, nil },
		Result: func(n int64) (int64, error) { return n, nil },
	}, serializer.ForString(), func(key string, w runtime.Window, n int64) (string, error) {
		return fmt.Sprint("window ", key, " ", w.Start, " ", n), nil
	})
	newest := runtime.Reduce(keyed, runtime.Op{UID: "newest"}, runtime.Tumbling(time.Second), clickCodec,
		func(a, b click) (click, error) { return click{F0: a.F0, F1: max(a.F1, b.F1)}, nil },
		serializer.ForString(), func(key string, w runtime.Window, c click) (string, error) {
			return fmt.Sprint("newest ", key, " ", w.Start, " ", c.F1), nil
		})

	// The state of the sink is the files that may not be committed yet: "prepared-transactions", a union list of Tuple2<Long, String>. Whoever goes on
	// commits them. A sink with another uid would do as well, for a job that is allowed to leave this state behind.
	runtime.Commit(runtime.Union(runtime.Op{UID: "all"}, counted, sizes, newest), runtime.Op{UID: "sink"}, runtime.Files(sink))
	return j
}

// roadDisorder is by how many milliseconds a click may be older than one before it in its file.
const roadDisorder = 50

func parseClick(line string) click {
	key, at, _ := strings.Cut(line, " ")
	n, _ := strconv.ParseInt(at, 10, 64)
	return click{F0: key, F1: n}
}

// When timers of processing time are due: long before the test, before it, and long after.
const (
	roadPast    = 1_000_000_000_000
	roadPresent = 1_700_000_000_000
	roadFuture  = 4_000_000_000_000
)

// roadCount counts the clicks of a key, all and those of each second, which ends with a timer; some counts set timers of
// processing time.
type roadCount struct {
	count   backend.Value[struct{}, int64]
	seconds backend.Map[struct{}, int64, int64]
}

func (p *roadCount) Open(b backend.Keyed[string], _ *backend.Operator) (err error) {
	p.count, err = state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "count", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		return err
	}
	p.seconds, err = state.OpenMap(b, backend.MapDescriptor[struct{}, int64, int64]{
		Name: "seconds", Namespace: serializer.ForVoidNamespace(), UserKey: serializer.ForLong(), Value: serializer.ForLong(),
	})
	return err
}

func (p *roadCount) Process(ctx *runtime.Context[string, string], c click) error {
	n, _, err := p.count.Get()
	if err != nil {
		return err
	}
	n++
	if err := p.count.Set(n); err != nil {
		return err
	}
	ctx.Emit(fmt.Sprint("count ", c.F0, " ", n))

	end := secondEnd(c.F1)
	in, _, err := p.seconds.Get(end)
	if err != nil {
		return err
	}
	if err := p.seconds.Put(end, in+1); err != nil {
		return err
	}
	if err := ctx.Register(backend.EventTime, end); err != nil {
		return err
	}
	if due := roadDue(n); due != 0 {
		return ctx.Register(backend.ProcessingTime, due)
	}
	return nil
}

func secondEnd(at int64) int64 { return at - at%1000 + 1000 }

// roadDue is when the timer is due that a count sets; 0 if it sets none.
func roadDue(n int64) int64 {
	if n%3 != 0 {
		return 0
	}
	return [...]int64{roadPast, roadPresent, roadFuture}[n/3%3] + n
}

func (p *roadCount) OnTimer(ctx *runtime.Context[string, string], t runtime.Timer) error {
	if t.Domain == backend.ProcessingTime {
		ctx.Emit(fmt.Sprint("due ", ctx.Key(), " ", t.Timestamp))
		return nil
	}
	n, _, err := p.seconds.Get(t.Timestamp)
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprint("second ", ctx.Key(), " ", t.Timestamp, " ", n))
	return p.seconds.Delete(t.Timestamp)
}
