package interop

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
)

// The job of this file runs in Go, then in Flink, then in Go again. It counts clicks, lines "KEY TIME" of files, and writes lines about them;
// Road.java is the same job for Flink.

// click is a key and a time in milliseconds.
type click = serializer.Tuple2[string, int64]

var clickCodec = serializer.ForTuple2(serializer.ForString(), serializer.ForLong())

// roadJob builds the job. What both sides must have in common are uids, names and types of states, and the rule of watermarks.
func roadJob(in runtime.Input[string], sink runtime.FileOptions[string]) *runtime.Job {
	j := runtime.NewJob("road")
	// The offsets are a state of the source: "partition-offsets", a union list of Tuple2<String, Long>.
	lines := runtime.From(j, runtime.Op{UID: "clicks"}, in, serializer.ForString(), runtime.SourceOptions[string]{
		Timestamp: func(line string) int64 { return parseClick(line).F1 }, Watermarks: true, OutOfOrderness: roadDisorder * time.Millisecond,
	})
	clicks := runtime.Map(lines, runtime.Op{UID: "parse"}, clickCodec, func(line string) (click, error) { return parseClick(line), nil })
	keyed := runtime.KeyBy(clicks, serializer.ForString(), func(c click) string { return c.F0 })

	counted := runtime.Process(keyed, runtime.Op{UID: "count"}, serializer.ForString(), func() runtime.Processor[string, click, string] { return &roadCount{} })
	// Flink's window operator names its state "window-contents"; windows are its namespaces.
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

	// Files that are prepared but not committed yet are a state, too: whoever goes on commits them.
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

// roadFiles and roadLines are the size of the input.
const (
	roadFiles = 5
	roadLines = 2000
)

// roadInput writes the files, and gives the lines that the job must write, with what each is about.
func roadInput(t *testing.T, dir string, random *rand.Rand) map[string]int {
	t.Helper()
	counts, seconds, newest := map[string]int64{}, map[click]int{}, map[click]int64{}
	for f := range roadFiles {
		var text bytes.Buffer
		for i := range roadLines {
			// Few clicks of the rare keys, so that there are such whose state is never touched while Flink has it.
			key := fmt.Sprint("key-", random.IntN(1+random.IntN(60)))
			at := int64(1_600_000_000_000 + 5*i + random.IntN(roadDisorder+1))
			fmt.Fprintf(&text, "%s %d\n", key, at)
			counts[key]++
			second := click{F0: key, F1: secondEnd(at)}
			seconds[second]++
			newest[second] = max(newest[second], at)
		}
		write(t, filepath.Join(dir, fmt.Sprint("part-", f)), text.Bytes())
	}
	want := map[string]int{}
	for key, all := range counts {
		for n := int64(1); n <= all; n++ {
			want[fmt.Sprint("count ", key, " ", n)]++
			if due := roadDue(n); due != 0 {
				want[fmt.Sprint("due ", key, " ", due)]++
			}
		}
	}
	for s, n := range seconds {
		want[fmt.Sprint("second ", s.F0, " ", s.F1, " ", n)]++
		want[fmt.Sprint("window ", s.F0, " ", s.F1-1000, " ", n)]++
		want[fmt.Sprint("newest ", s.F0, " ", s.F1-1000, " ", newest[s])]++
	}
	return want
}

// roadKind is what a line is about; timers of processing time are told apart by when they are due.
func roadKind(line string) string {
	words := strings.Fields(line)
	if words[0] != "due" {
		return words[0]
	}
	switch at, _ := strconv.ParseInt(words[2], 10, 64); {
	case at < roadPresent:
		return "due: past"
	case at < roadFuture:
		return "due: present"
	}
	return "due: future"
}

var roadKinds = []string{"count", "second", "due: past", "due: present", "due: future", "window", "newest"}

// slowLines is an input whose lines come in the course of time, up to a part of each file.
type slowLines struct {
	runtime.Lines
	percent int64 // of each file
	began   time.Time
	every   time.Duration // between the lines of a file
	ended   *atomic.Bool  // nothing more will come
}

func (l *slowLines) Open(ctx context.Context, uri string, offset int64) (runtime.Reader[string], error) {
	info, err := l.FS.Stat(ctx, uri)
	if err != nil {
		return nil, err
	}
	r, err := l.Lines.Open(ctx, uri, offset)
	return &slowReader{Reader: r, l: l, limit: info.Size * l.percent / 100}, err
}

type slowReader struct {
	runtime.Reader[string]
	l     *slowLines
	limit int64
	given time.Duration
}

func (r *slowReader) Next() (runtime.Record[string], bool, error) {
	if r.given >= time.Since(r.l.began) || r.Offset() >= r.limit && !r.l.ended.Load() {
		return runtime.Record[string]{}, false, nil
	}
	r.given += r.l.every
	return r.Reader.Next()
}

// road is the way of one job: from Go to Flink, and back.
type road struct {
	goBackend, flinkBackend string
	parallelism             [3]int // in Go, in Flink, in Go again
	enough                  [2]int // after how many lines the job is stopped in Go, and in Flink
	dir                     string
	want                    map[string]int
	savepoint               string
	legs                    [3]map[string]int // the lines that each part of the way wrote
}

// roadParts is up to where the files are read by the first Go, by Flink, and by the second Go, in percent: wherever they are stopped, something is left for the
// next. A click gives one line at least, so there are enough for any road.enough.
var roadParts = [3]int64{40, 75, 100}

// file is one of the road.
func (r *road) file(names ...string) string {
	return filepath.ToSlash(filepath.Join(r.dir, filepath.Join(names...)))
}

// run runs the job in Go: until enough lines have been written, when it is stopped with a savepoint; the last leg to the end of the input.
func (r *road) run(ctx context.Context, leg int) error {
	in := &slowLines{Lines: runtime.Lines{FS: localFiles}, percent: roadParts[leg], began: time.Now(), every: 2 * time.Millisecond, ended: new(atomic.Bool)}
	for f := range roadFiles {
		in.URIs = append(in.URIs, "file://"+r.file("input", fmt.Sprint("part-", f)))
	}
	now, last := int64(roadPresent-1), leg == 2
	if last {
		now, in.every = 2*roadFuture, 0
	}
	var written, due atomic.Int64
	job := roadJob(in, runtime.FileOptions[string]{FS: localFiles, Dir: r.file("output"), Append: func(b []byte, line string) []byte {
		written.Add(1)
		if strings.HasPrefix(line, "due ") {
			due.Add(1)
		}
		return append(append(b, line...), '\n')
	}})
	o := runtime.Options{
		Parallelism: r.parallelism[leg], MaxParallelism: 128, Restore: runtime.RestoreOptions{Path: r.savepoint},
		FS: localFiles, SavepointDir: r.file("go"), WorkDir: r.dir, Clock: func() int64 { return now },
	}
	if r.goBackend == "pebble" {
		o.Backend = runtime.BackendPebble
	}
	x, err := runtime.Start(ctx, job, o)
	if err != nil {
		return err
	}
	until := func(done func() bool) error {
		for !done() {
			select {
			case <-x.Done():
				return fmt.Errorf("the job ended: %s, %w", x.Status(), x.Wait(ctx))
			case <-time.After(time.Millisecond):
			}
		}
		return nil
	}
	if last {
		// Nobody waits for timers of processing time once the input has ended.
		left := 0
		for line := range r.want {
			if strings.HasPrefix(line, "due ") && r.legs[0][line]+r.legs[1][line] == 0 {
				left++
			}
		}
		if err := until(func() bool { return due.Load() >= int64(left) }); err != nil {
			return err
		}
		in.ended.Store(true)
		return x.Wait(ctx)
	}
	if err := until(func() bool { return written.Load() >= int64(r.enough[leg]) }); err != nil {
		return err
	}
	s, err := x.Stop(ctx, "", runtime.SavepointOptions{})
	r.savepoint = s.Path
	return err
}

// line is the line for Road.java.
func (r *road) line() []string {
	return []string{
		r.savepoint, r.file("flink"), r.file("input"), r.file("output"), fmt.Sprint(roadParts[1]), fmt.Sprint(r.enough[1]),
		"state.backend.type=" + r.flinkBackend, fmt.Sprint("parallelism.default=", r.parallelism[1]), "pipeline.max-parallelism=128",
		"execution.checkpointing.data-inline-threshold=0b",
	}
}

// ended notes what a leg wrote, which is what was committed since the one before.
func (r *road) ended(t *testing.T, leg int) {
	t.Helper()
	lines := map[string]int{}
	names, err := filepath.Glob(r.file("output", "part-*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s wrote no files: %v", roadLegs[leg], err)
	}
	for _, name := range names {
		for l := range strings.Lines(string(read(t, name))) {
			lines[strings.TrimSuffix(l, "\n")]++
		}
	}
	for _, before := range r.legs[:leg] {
		for l, n := range before {
			lines[l] -= n
		}
	}
	maps.DeleteFunc(lines, func(_ string, n int) bool { return n == 0 })
	r.legs[leg] = lines
}

var roadLegs = [...]string{"Go", "Flink", "Go again"}

// check demands that each line was written once, by whichever leg, and that each leg had something to do with what the one before left.
func (r *road) check(t *testing.T) {
	t.Helper()
	all := maps.Clone(r.want)
	for _, leg := range r.legs {
		for l, n := range leg {
			all[l] -= n
		}
	}
	maps.DeleteFunc(all, func(_ string, n int) bool { return n == 0 })
	for i, l := range slices.Sorted(maps.Keys(all)) {
		if i == 10 {
			t.Errorf("%s: %d lines are wrong in all", r, len(all))
			break
		}
		t.Errorf("%s: %+d times %q", r, -all[l], l)
	}
	if left, err := filepath.Glob(r.file("output", ".pending", "*")); err != nil || len(left) > 0 {
		t.Errorf("%s: lines that were not committed: %q, %v", r, left, err)
	}
	for leg, kinds := range r.kinds() {
		for kind, must := range map[string]bool{"count": true, "due: past": true, "due: present": leg > 0, "due: future": leg == 2} {
			if kinds[kind] > 0 != must {
				t.Errorf("%s: %d lines of kind %q from %s", r, kinds[kind], kind, roadLegs[leg])
			}
		}
	}
}

// kinds counts the lines that each leg wrote.
func (r *road) kinds() (legs [3]map[string]int) {
	for i, lines := range r.legs {
		legs[i] = map[string]int{}
		for l, n := range lines {
			legs[i][roadKind(l)] += n
		}
	}
	return legs
}

func (r *road) String() string {
	return fmt.Sprintf("%s %d -> %s %d -> %s %d", r.goBackend, r.parallelism[0], r.flinkBackend, r.parallelism[1], r.goBackend, r.parallelism[2])
}

// roadTable tells how many lines were compared.
func roadTable(roads []*road) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "road\twritten by\tlines\t%s\t\n", strings.Join(roadKinds, "\t"))
	row := func(road, by string, kinds map[string]int) {
		all := 0
		for _, n := range kinds {
			all += n
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t", road, by, all)
		for _, k := range roadKinds {
			fmt.Fprintf(w, "%d\t", kinds[k])
		}
		fmt.Fprintln(w)
	}
	for _, r := range roads {
		for leg, kinds := range r.kinds() {
			row(r.String(), roadLegs[leg], kinds)
		}
		want := map[string]int{}
		for l := range r.want {
			want[roadKind(l)]++
		}
		row(r.String(), "(model)", want)
	}
	_ = w.Flush()
	return text.String()
}

// roads gives a road for each backend of Go and of Flink.
func roads(t *testing.T, seed uint64) []*road {
	t.Helper()
	var all []*road
	for _, goBackend := range goBackends {
		for _, flinkBackend := range []string{"hashmap", "rocksdb"} {
			random := rand.New(rand.NewPCG(seed, uint64(len(all))))
			r := &road{goBackend: goBackend, flinkBackend: flinkBackend, dir: t.TempDir(), enough: [2]int{500 + random.IntN(3000), 500 + random.IntN(2500)}}
			// Each has another parallelism than the one before, up to the slots that Run.java has.
			p := random.Perm(4)
			r.parallelism = [3]int{1 + p[0], 1 + p[1], 1 + p[2+random.IntN(2)]}
			r.want = roadInput(t, r.file("input"), random)
			all = append(all, r)
		}
	}
	return all
}

// together does something with all roads at the same time.
func together(t *testing.T, roads []*road, f func(r *road) error) {
	t.Helper()
	errs := make([]error, len(roads))
	var wg sync.WaitGroup
	for i, r := range roads {
		wg.Go(func() { errs[i] = f(r) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", roads[i], err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// TestRoad has a job begin in Go, go on in real Flink, and end in Go: at random moments it is stopped with a savepoint, from which the next goes on with
// another parallelism. The lines that it writes are those of a run without interruption. DREY_SEED repeats a run.
func TestRoad(t *testing.T) {
	seed := seedOf(t)
	for _, v := range current {
		t.Run(string(v), func(t *testing.T) {
			needFlink(t, v)
			t.Logf("DREY_SEED=%d", seed)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			roads := roads(t, seed)
			runGo := func(leg int) {
				together(t, roads, func(r *road) error { return r.run(ctx, leg) })
				for _, r := range roads {
					r.ended(t, leg)
				}
			}
			runGo(0)
			var lines [][]string
			for _, r := range roads {
				lines = append(lines, r.line())
			}
			if v.many(t, "road-many", lines); t.Failed() {
				return
			}
			for _, r := range roads {
				r.ended(t, 1)
				r.savepoint = strings.TrimSpace(string(read(t, r.file("flink", "savepoint"))))
			}
			runGo(2)
			for _, r := range roads {
				r.check(t)
			}
			t.Logf("lines that were compared, Flink %s:\n%s", v, roadTable(roads))
		})
	}
}
