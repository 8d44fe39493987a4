package interop

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/runtime"
	"github.com/drey-state/drey/tools"
)

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
			at := int64(1_600_000_000_000 + 20*i + random.IntN(roadDisorder+1))
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
	saved                   [2]map[string]int // entries by operator and state of the savepoint after it
}

// roadParts is up to where the files are read in Go, in Flink, and in Go again, in percent: wherever they are stopped, something is left for the next.
// A click gives one line at least, so there are enough for any road.enough.
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
	now, last := [...]int64{roadPresent - 1, roadFuture - 1, 2 * roadFuture}[leg], leg == 2
	if last {
		in.every = 0
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
				return errors.Join(fmt.Errorf("the job is %s", x.Status()), x.Wait(ctx))
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

// roadStates are the states that cross, and what the table calls them.
var roadStates = []struct{ uid, name, short string }{
	{"clicks", "partition-offsets", "offsets"},
	{"count", "count", "counts"},
	{"count", "seconds", "seconds"},
	{"count", "_timer_state/event_user-timers", "their timers"},
	{"count", "_timer_state/processing_user-timers", "timers of processing time"},
	{"windows", "window-contents", "aggregated windows"},
	{"windows", "_timer_state/event_window-timers", "timers of these"},
	{"newest", "window-contents", "reduced windows"},
	{"newest", "_timer_state/event_window-timers", "timers of those"},
	{"sink", "prepared-transactions", "files"},
}

// look counts what the savepoint holds after a leg, and demands that it is what follows from the lines until then, and something of each state.
func (r *road) look(t *testing.T, leg int) {
	t.Helper()
	type state struct {
		op   metadata.OperatorID
		name string
	}
	known := map[state]string{}
	for _, s := range roadStates {
		known[state{metadata.UIDHash(s.uid), s.name}] = s.short
	}
	s, _ := openSnapshot(t, r.savepoint)
	n := map[string]int{}
	for e, err := range tools.Entries(t.Context(), localFiles, s, tools.EntryOptions{}) {
		if err != nil {
			t.Fatalf("%s: %v", r.savepoint, err)
		}
		short, ok := known[state{e.Operator.ID, e.State()}]
		if !ok {
			t.Errorf("%s: an entry of %s in the savepoint of %s, which nobody has", r, e.State(), roadLegs[leg])
		}
		n[short]++
	}
	r.saved[leg] = n
	keys, due := map[string]bool{}, 0
	for _, lines := range r.legs[:leg+1] {
		for l := range lines {
			switch words := strings.Fields(l); words[0] {
			case "count":
				keys[words[1]] = true
				if count, _ := strconv.ParseInt(words[2], 10, 64); roadDue(count) != 0 {
					due++
				}
			case "due":
				due--
			}
		}
	}
	want := map[string]int{"offsets": roadFiles, "counts": len(keys), "timers of processing time": due}
	want["their timers"], want["timers of these"], want["timers of those"] = n["seconds"], n["aggregated windows"], n["reduced windows"]
	for _, s := range roadStates {
		if w, ok := want[s.short]; n[s.short] == 0 || ok && n[s.short] != w {
			t.Errorf("%s: %d %s in the savepoint of %s; %d are right", r, n[s.short], s.short, roadLegs[leg], w)
		}
	}
}

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

// roadTable writes rows of numbers, each by the road and a word.
func roadTable(roads []*road, columns []string, rows func(r *road, row func(word string, cells map[string]int))) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "road\tby\t%s\tin all\t\n", strings.Join(columns, "\t"))
	for _, r := range roads {
		rows(r, func(word string, cells map[string]int) {
			fmt.Fprintf(w, "%s\t%s\t", r, word)
			all := 0
			for _, c := range columns {
				all += cells[c]
				fmt.Fprintf(w, "%d\t", cells[c])
			}
			fmt.Fprintf(w, "%d\t\n", all)
		})
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
			r := &road{goBackend: goBackend, flinkBackend: flinkBackend, dir: t.TempDir(), enough: [2]int{1000 + random.IntN(2500), 1000 + random.IntN(2000)}}
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
// another parallelism. The lines that it writes are those of a run without interruption. DREY_SEED repeats a run, as far as time does not decide.
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
			for _, r := range roads {
				r.look(t, 0)
			}
			var lines [][]string
			for _, r := range roads {
				lines = append(lines, r.line())
			}
			if v.many(t, "road-many", lines); t.Failed() {
				return
			}
			for _, r := range roads {
				r.ended(t, 1)
				r.savepoint = string(read(t, r.file("flink", "savepoint")))
				r.look(t, 1)
			}
			runGo(2)
			for _, r := range roads {
				r.check(t)
			}
			var states []string
			for _, s := range roadStates {
				states = append(states, s.short)
			}
			t.Logf("entries of the savepoints, Flink %s:\n%s", v, roadTable(roads, states, func(r *road, row func(string, map[string]int)) {
				for leg, saved := range r.saved {
					row(roadLegs[leg], saved)
				}
			}))
			t.Logf("lines that were compared, Flink %s:\n%s", v, roadTable(roads, roadKinds, func(r *road, row func(string, map[string]int)) {
				for leg, kinds := range r.kinds() {
					row(roadLegs[leg], kinds)
				}
				want := map[string]int{}
				for l := range r.want {
					want[roadKind(l)]++
				}
				row("(all that is right)", want)
			}))
		})
	}
}
