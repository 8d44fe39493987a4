package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// bench is a job with its storage, in a bubble of fake time.
type bench struct {
	t     *testing.T
	fs    storage.Mux
	l     *Log[click]
	delay atomic.Int64 // of each record
	o     Options
	n     int
}

// in runs a test in a bubble, with a job of n clicks that come to no end before l.End.
func in(t *testing.T, n int, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, fs: storage.Mux{"mem": storage.NewMemory()}, l: NewLog[click](3), n: n}
		fill(b.l, n)
		b.o = Options{
			Parallelism: 2, FS: b.fs, CheckpointDir: "mem:///checkpoints", SavepointDir: "mem:///savepoints", Logger: testLogger(t),
			Checkpoints: CheckpointOptions{Interval: 100 * time.Millisecond},
		}
		f(b)
	})
}

func (b *bench) job() *Job {
	return counts(b.l, b.fs, func() { time.Sleep(time.Duration(b.delay.Load())) })
}

func (b *bench) start() *Execution {
	b.t.Helper()
	x, err := Start(b.t.Context(), b.job(), b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	return x
}

// finish ends the input and compares what the sink has.
func (b *bench) finish(x *Execution) {
	b.t.Helper()
	b.delay.Store(0)
	b.l.End()
	if err := x.Wait(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if x.Status() != StatusFinished {
		b.t.Errorf("status %s", x.Status())
	}
	compare(b.t, sunk(b.t, b.fs), want(b.n))
}

// exists says whether a snapshot is complete.
func (b *bench) exists(dir string) bool {
	_, err := b.fs.Stat(b.t.Context(), storage.Join(dir, metadata.FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return err == nil
}

// checkpoints lists the complete checkpoints of a job.
func (b *bench) checkpoints(x *Execution) []string {
	var dirs []string
	for info, err := range b.fs.List(b.t.Context(), "mem:///checkpoints/"+x.ID()) {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			b.t.Fatal(err)
		}
		if storage.Base(info.URI) == metadata.FileName {
			dirs = append(dirs, storage.Base(storage.Dir(info.URI)))
		}
	}
	slices.Sort(dirs)
	return dirs
}

// TestSavepointDirectory takes savepoints with and without a default directory.
func TestSavepointDirectory(t *testing.T) {
	in(t, 500, func(b *bench) {
		b.o.SavepointDir = ""
		x := b.start()
		time.Sleep(10 * time.Millisecond)
		if _, err := x.Savepoint(b.t.Context(), "", SavepointOptions{}); !errors.Is(err, ErrNoDirectory) {
			b.t.Errorf("without a directory: %v", err)
		}
		s, err := x.Savepoint(b.t.Context(), "mem:///elsewhere", SavepointOptions{})
		if err != nil || !strings.HasPrefix(s.Path, "mem:/elsewhere/savepoint-"+x.ID()[:6]+"-") || !b.exists(s.Path) {
			b.t.Errorf("%+v, %v", s, err)
		}
		b.finish(x)
		if !b.exists(s.Path) {
			b.t.Error("the savepoint is gone with the job")
		}
		if c := b.checkpoints(x); len(c) != 0 {
			b.t.Errorf("the job has finished, and left %v", c)
		}
	})
}

// TestSavepointOnly: a job with no directory at all takes savepoints in those that it is told.
func TestSavepointOnly(t *testing.T) {
	in(t, 500, func(b *bench) {
		b.o.CheckpointDir, b.o.SavepointDir, b.o.Checkpoints = "", "", CheckpointOptions{}
		b.o.Restart = &FixedDelay{Attempts: 1, Delay: time.Second}
		b.delay.Store(int64(time.Millisecond))
		x := b.start()
		time.Sleep(10 * time.Millisecond)
		first, err := x.Savepoint(b.t.Context(), "mem:///a", SavepointOptions{})
		if err != nil || !b.exists(first.Path) {
			b.t.Fatalf("%+v, %v", first, err)
		}
		x.kill(func(int) int { return 0 })
		time.Sleep(1100 * time.Millisecond) // it is at its start again: a savepoint is no checkpoint
		second, err := x.Stop(b.t.Context(), "mem:///b", SavepointOptions{})
		if err != nil || !b.exists(second.Path) || second.ID <= first.ID {
			b.t.Fatalf("%+v, %v", second, err)
		}
		b.o.Restore.Path = second.Path
		b.finish(b.start())
	})
}

// TestResume stops a job with a savepoint and goes on from its directory, and from its metadata file, at another parallelism.
func TestResume(t *testing.T) {
	for _, format := range []backend.Format{backend.FormatCanonical, backend.FormatRocksDB} {
		for _, drain := range []bool{false, true} {
			for _, name := range []string{"", metadata.FileName} {
				for _, p := range []int{1, 3} {
					in(t, 1000, func(b *bench) {
						b.delay.Store(int64(time.Millisecond))
						x := b.start()
						time.Sleep(150 * time.Millisecond)
						s, err := x.Stop(b.t.Context(), "", SavepointOptions{Format: format, Drain: drain})
						if err != nil || x.Status() != StatusFinished || !b.exists(s.Path) {
							b.t.Fatalf("%+v, %v, %s", s, err, x.Status())
						}
						before := sunk(b.t, b.fs)
						if len(before) == 0 || len(before) >= b.n {
							b.t.Errorf("stopped after %d lines", len(before))
						}
						windows := slices.ContainsFunc(before, func(l string) bool { return strings.Contains(l, "[") })
						if windows != drain && drain {
							b.t.Error("drained, but no window has fired")
						}
						b.o.Restore.Path = storage.Join(s.Path, name)
						b.o.Parallelism = p
						x = b.start()
						if drain { // windows have fired early, and do again
							b.delay.Store(0)
							b.l.End()
							if err := x.Wait(b.t.Context()); err != nil {
								b.t.Fatal(err)
							}
							return
						}
						b.finish(x)
					})
				}
			}
		}
	}
}

// TestSavepointCommitsNothing: a savepoint with which a job goes on makes nothing visible, is told to nobody, and is not what the job goes on from after a failure. It can be
// restored later, with what was about to be committed, also if the job has failed meanwhile and done that again.
func TestSavepointCommitsNothing(t *testing.T) {
	in(t, 500, func(b *bench) {
		b.o.Checkpoints.Interval = time.Hour
		b.o.Restart = &FixedDelay{Attempts: 1, Delay: time.Second}
		var told atomic.Int64
		job := func() *Job {
			j := b.job()
			src := From(j, Op{UID: "more clicks", Parallelism: 1}, b.l, clicks, SourceOptions[click]{})
			Process(KeyBy(src, serializer.ForString(), func(c click) string { return c.F0 }), Op{UID: "told"}, serializer.ForString(),
				func() Processor[string, click, string] { return &listener{told: &told} })
			return j
		}
		start := func() *Execution {
			x, err := Start(b.t.Context(), job(), b.o)
			if err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			return x
		}
		x := start()
		s, err := x.Savepoint(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(time.Second)
		if lines := sunk(b.t, b.fs); len(lines) != 0 || told.Load() != 0 {
			b.t.Errorf("%d lines are visible, %d listeners were told", len(lines), told.Load())
		}
		x.kill(func(int) int { return 0 })
		time.Sleep(2 * time.Second)
		if stats, err := x.Checkpoints(b.t.Context()); err != nil || len(stats) != 1 || x.point != nil {
			b.t.Errorf("the job went on from %v: %+v, %v", x.point, stats, err)
		}
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		b.o.Restore.Path = s.Path
		b.finish(start())
		if told.Load() == 0 {
			b.t.Error("no listener was told of the last checkpoint")
		}
	})
}

// listener counts what it is told.
type listener struct {
	counter
	told *atomic.Int64
}

func (l *listener) CheckpointCompleted(int64) error {
	l.told.Add(1)
	return nil
}

func (l *listener) CheckpointAborted(int64) error { return nil }

// TestUnclaimedState refuses state of an operator that the job has not, unless it is told to pass over it.
func TestUnclaimedState(t *testing.T) {
	in(t, 300, func(b *bench) {
		x := b.start()
		time.Sleep(50 * time.Millisecond)
		s, err := x.Stop(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		j := NewJob("other")
		src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
		ForEach(src, Op{UID: "none"}, func(Record[click]) error { return nil })
		b.o.Restore.Path = s.Path
		_, err = Start(b.t.Context(), j, b.o)
		id := metadata.UIDHash("count")
		if !errors.Is(err, ErrUnclaimed) || !strings.Contains(err.Error(), fmt.Sprintf("%x", id[:])) {
			b.t.Fatalf("%v", err)
		}
		b.o.Restore.AllowNonRestored = true
		x, err = Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		b.l.End()
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	})
}

// TestMaxParallelism: that of the snapshot counts, and no other may be asked for.
func TestMaxParallelism(t *testing.T) {
	in(t, 300, func(b *bench) {
		b.o.MaxParallelism = 4
		x := b.start()
		time.Sleep(50 * time.Millisecond)
		s, err := x.Stop(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		b.o.Restore.Path = s.Path
		b.o.MaxParallelism = 0
		b.o.Parallelism = 5
		if _, err := Start(b.t.Context(), b.job(), b.o); !errors.Is(err, ErrMaxParallelism) {
			b.t.Errorf("parallelism 5 of 4: %v", err)
		}
		b.o.Parallelism, b.o.MaxParallelism = 4, 128 // that of the options is for operators without state
		b.finish(b.start())
	})
}

// TestRetention: what becomes of the checkpoints of a job that is canceled, or has failed, is what Flink says (CheckpointProperties).
func TestRetention(t *testing.T) {
	for _, c := range []struct {
		retention        Retention
		canceled, failed bool // whether they are kept
	}{
		{NoExternalizedCheckpoints, false, false},
		{DeleteOnCancellation, false, true},
		{RetainOnCancellation, true, true},
	} {
		in(t, 300, func(b *bench) {
			b.o.Checkpoints.Retain, b.o.Checkpoints.Retention = 2, c.retention
			x := b.start()
			time.Sleep(450 * time.Millisecond)
			if got := b.checkpoints(x); !slices.Equal(got, []string{"chk-3", "chk-4"}) {
				b.t.Errorf("retained: %v", got)
			}
			s, err := x.CancelWithSavepoint(b.t.Context(), "", SavepointOptions{})
			if err != nil || !b.exists(s.Path) || x.Status() != StatusCanceled {
				b.t.Errorf("%+v, %v, %s", s, err, x.Status())
			}
			if got := b.checkpoints(x); (len(got) == 2) != c.canceled {
				b.t.Errorf("retention %d, canceled: %v", c.retention, got)
			}
			if err := x.Cancel(b.t.Context()); !errors.Is(err, ErrEnded) {
				b.t.Errorf("canceled twice: %v", err)
			}
			// A checkpoint that was kept is as good as a savepoint.
			b.o.Restore.Path = s.Path
			if c.canceled {
				b.o.Restore = RestoreOptions{Path: "mem:///checkpoints/" + x.ID() + "/chk-4", ClaimMode: incremental.Claim}
			}
			b.finish(b.start())
		})
		in(t, 300, func(b *bench) {
			b.o.Checkpoints.Retention, b.o.Restart = c.retention, NoRestart{}
			x := b.start()
			time.Sleep(450 * time.Millisecond)
			x.kill(func(int) int { return 0 })
			if err := x.Wait(b.t.Context()); err == nil || x.Status() != StatusFailed {
				b.t.Errorf("%v, %s", err, x.Status())
			}
			if got := b.checkpoints(x); slices.Equal(got, []string{"chk-4"}) != c.failed {
				b.t.Errorf("retention %d, failed: %v", c.retention, got)
			}
		})
	}
}

// TestRestart: the strategies, and what a failure leaves of the counts.
func TestRestart(t *testing.T) {
	in(t, 3000, func(b *bench) {
		b.delay.Store(int64(time.Millisecond))
		b.o.Restart = &FixedDelay{Attempts: 2, Delay: time.Second}
		x := b.start()
		for range 2 {
			time.Sleep(250 * time.Millisecond)
			x.kill(func(n int) int { return n - 1 })
			time.Sleep(time.Second)
		}
		b.finish(x)
	})
	in(t, 300, func(b *bench) {
		b.o.Restart = &FixedDelay{Attempts: 2, Delay: time.Second}
		b.o.Checkpoints.Retention = DeleteOnCancellation
		x := b.start()
		for range 3 {
			time.Sleep(500 * time.Millisecond)
			x.kill(func(int) int { return 0 })
			time.Sleep(time.Second)
		}
		if err := x.Wait(b.t.Context()); err == nil || x.Status() != StatusFailed || !strings.Contains(err.Error(), "killed") {
			b.t.Errorf("%v, %s", err, x.Status())
		}
		if len(b.checkpoints(x)) != 1 {
			b.t.Error("its checkpoint was not kept")
		}
	})
	now := time.Unix(1000, 0)
	e := (&Exponential{Initial: time.Second, Max: 3 * time.Second, Multiplier: 2, Reset: time.Minute, Attempts: 5}).fresh()
	for i, want := range []time.Duration{1, 2, 3, 3, 1, 2} {
		if i == 4 {
			now = now.Add(2 * time.Minute)
		}
		if d, ok := e.next(now); d != want*time.Second || !ok {
			t.Errorf("exponential, failure %d: %v, %v", i, d, ok)
		}
		now = now.Add(time.Second)
	}
	r := (&FailureRate{Max: 2, Interval: time.Minute, Delay: time.Second}).fresh()
	for i, want := range []bool{true, true, false} {
		if _, ok := r.next(now.Add(time.Duration(i) * time.Second)); ok != want {
			t.Errorf("failure rate, failure %d: %v", i, ok)
		}
	}
	if _, ok := r.next(now.Add(2 * time.Minute)); !ok {
		t.Error("failure rate: the interval is over")
	}
}

// TestOlder goes on from the checkpoint before if the newest has lost a file.
func TestOlder(t *testing.T) {
	in(t, 2000, func(b *bench) {
		b.delay.Store(int64(time.Millisecond))
		b.o.Checkpoints.Retain, b.o.Checkpoints.InlineBelow = 2, -1
		b.o.Restart = &FixedDelay{Attempts: 10, Delay: time.Second}
		x := b.start()
		time.Sleep(350 * time.Millisecond)
		x.do(func() { x.c.timer.Stop() })
		for info, err := range b.fs.List(b.t.Context(), "mem:///checkpoints/"+x.ID()+"/chk-3") {
			if err != nil {
				b.t.Fatal(err)
			}
			if storage.Base(info.URI) != metadata.FileName {
				if err := b.fs.Delete(b.t.Context(), info.URI); err != nil {
					b.t.Fatal(err)
				}
			}
		}
		x.kill(func(int) int { return 0 })
		time.Sleep(2 * time.Second)
		if x.Status() != StatusRunning {
			b.t.Errorf("status %s", x.Status())
		}
		b.delay.Store(0)
		b.l.End()
		// The transactions of the lost checkpoint were committed: those records come twice, which the log says.
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	})
}

// TestCancelSoon: a job ends after the record at hand, not after all that the task has taken from its input.
func TestCancelSoon(t *testing.T) {
	in(t, 3000, func(b *bench) {
		b.delay.Store(int64(time.Second))
		b.o.Checkpoints.Interval = time.Hour // a checkpoint interrupts, too
		x := b.start()
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			b.t.Errorf("it took %v", took)
		}
	})
}

// TestTolerable fails the job when one checkpoint too many has failed.
func TestTolerable(t *testing.T) {
	in(t, 300, func(b *bench) {
		b.o.FS = failingFS{b.fs}
		b.o.Checkpoints.Tolerable = 2
		b.o.Restart = NoRestart{}
		x := b.start()
		err := x.Wait(b.t.Context())
		if err == nil || !strings.Contains(err.Error(), "3 checkpoints failed, and 2 are tolerable") || !errors.Is(err, fs.ErrPermission) {
			b.t.Errorf("%v", err)
		}
	})
}

// failingFS is a store into which no metadata can be written.
type failingFS struct{ storage.FS }

func (f failingFS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	if storage.Base(uri) == metadata.FileName {
		return nil, fs.ErrPermission
	}
	return f.FS.Create(ctx, uri, o)
}

// backlog is a job whose slow part is behind an exchange, so that records queue there.
func (b *bench) backlog() *Job {
	j := NewJob("slow")
	src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
	keyed := KeyBy(src, serializer.ForString(), func(c click) string { return c.F0 })
	counted := Process(keyed, Op{UID: "count"}, serializer.ForString(), func() Processor[string, click, string] { return &counter{} })
	slow := Map(counted, Op{UID: "slow"}, serializer.ForString(), func(s string) (string, error) {
		time.Sleep(time.Duration(b.delay.Load()))
		return s, nil
	})
	Commit(slow, Op{UID: "sink"}, Files(FileOptions[string]{FS: b.fs, Dir: outDir, Append: appendLine}))
	return j
}

// TestUnaligned: under backpressure an aligned checkpoint takes as long as the backlog, an unaligned one does not, and one with a timeout
// begins to overtake. What it took along comes once.
func TestUnaligned(t *testing.T) {
	durations := map[string]time.Duration{}
	for _, mode := range []string{"aligned", "unaligned", "timeout"} {
		in(t, 3000, func(b *bench) {
			b.delay.Store(int64(time.Millisecond))
			b.o.Checkpoints.Interval = time.Second
			b.o.Checkpoints.Unaligned = mode != "aligned"
			if mode == "timeout" {
				b.o.Checkpoints.AlignedTimeout = 50 * time.Millisecond
			}
			b.o.Restart = &FixedDelay{Attempts: 1, Delay: time.Second}
			x, err := Start(b.t.Context(), b.backlog(), b.o)
			if err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(2900 * time.Millisecond)
			stats, err := x.Checkpoints(b.t.Context())
			if err != nil || len(stats) == 0 || stats[0].Status != CheckpointCompleted {
				b.t.Fatalf("%+v, %v", stats, err)
			}
			s := stats[0]
			durations[mode] = s.Duration
			if (s.Channels > 0) != (mode != "aligned") || s.Unaligned != (mode != "aligned") {
				b.t.Errorf("%s: %d bytes in flight, unaligned %v", mode, s.Channels, s.Unaligned)
			}
			var channels int64
			var longest time.Duration // until a subtask behind the backlog began
			for _, t := range s.Subtasks {
				began := t.StartDelay + t.Alignment
				if t.StartDelay < 0 || t.Alignment < 0 || began+t.Sync+t.Async > t.Acknowledged.Sub(s.Trigger) {
					b.t.Errorf("%s: %+v, triggered at %s", mode, t, s.Trigger)
				}
				channels, longest = channels+t.Channels, max(longest, began)
			}
			if channels != s.Channels || longest > s.Duration || longest < s.Duration*9/10 {
				b.t.Errorf("%s: %d bytes in flight of all subtasks, and %d; the last began after %v of %v", mode, channels, s.Channels, longest, s.Duration)
			}
			x.kill(func(n int) int { return n - 1 })
			time.Sleep(1500 * time.Millisecond)
			b.delay.Store(0)
			b.l.End()
			if err := x.Wait(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
			var lines []string
			for _, l := range want(b.n) {
				if !strings.Contains(l, "[") {
					lines = append(lines, l)
				}
			}
			compare(b.t, sunk(b.t, b.fs), lines)
		})
	}
	t.Log(durations)
	if durations["unaligned"] > 5*time.Millisecond || durations["timeout"] > 60*time.Millisecond || durations["aligned"] < 200*time.Millisecond {
		t.Errorf("durations %v", durations)
	}
}

// TestBacklog: how long an unaligned checkpoint takes has nothing to do with how long the backlog does; an aligned one waits for it.
func TestBacklog(t *testing.T) {
	durations := map[bool][]time.Duration{}
	for _, unaligned := range []bool{false, true} {
		for _, delay := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond} {
			in(t, 3000, func(b *bench) {
				b.delay.Store(int64(delay))
				b.o.Checkpoints.Interval = time.Second
				b.o.Checkpoints.Unaligned = unaligned
				x, err := Start(b.t.Context(), b.backlog(), b.o)
				if err != nil {
					b.t.Fatal(err)
				}
				time.Sleep(5900 * time.Millisecond)
				stats, err := x.Checkpoints(b.t.Context())
				if err != nil || len(stats) == 0 {
					b.t.Fatalf("%+v, %v", stats, err)
				}
				first := stats[0]
				if first.Status != CheckpointCompleted {
					b.t.Fatalf("%+v", first)
				}
				durations[unaligned] = append(durations[unaligned], first.Duration)
				if err := x.Cancel(b.t.Context()); err != nil {
					b.t.Fatal(err)
				}
			})
		}
	}
	t.Logf("records take 1, 2 and 4 ms: aligned %v, unaligned %v", durations[false], durations[true])
	for i, d := range durations[false] {
		if i > 0 && d < durations[false][i-1]*3/2 {
			t.Errorf("aligned %v", durations[false])
		}
		if durations[true][i] > 5*time.Millisecond {
			t.Errorf("unaligned %v", durations[true])
		}
	}
}

// TestTimers fires timers of both domains, also after a restart.
func TestTimers(t *testing.T) {
	in(t, 0, func(b *bench) {
		b.o.Restart = &FixedDelay{Attempts: 1, Delay: 10 * time.Millisecond}
		for i := range 10 {
			b.l.Append(0, Record[click]{Value: click{F0: fmt.Sprint("k", i), F1: int64(i)}, Timestamp: int64(1000 * i)})
		}
		var out Collection[string]
		j := NewJob("timers")
		src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{Watermarks: true})
		fired := Process(KeyBy(src, serializer.ForString(), func(c click) string { return c.F0 }), Op{UID: "timers"}, serializer.ForString(),
			func() Processor[string, click, string] { return timerSetter{} })
		Collect(fired, Op{UID: "out"}, &out)
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(350 * time.Millisecond)
		x.kill(func(int) int { return 1 })
		time.Sleep(time.Minute)
		b.l.End()
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		got := map[string]bool{}
		for _, r := range out.Records() {
			got[r.Value] = true
		}
		for i := range 10 {
			for _, domain := range []string{"event", "processing"} {
				if s := fmt.Sprintf("k%d %s", i, domain); !got[s] {
					b.t.Errorf("%s did not fire", s)
				}
			}
		}
	})
}

type timerSetter struct{}

func (timerSetter) Open(backend.Keyed[string], *backend.Operator) error { return nil }

func (timerSetter) Process(c *Context[string, string], _ click) error {
	return errors.Join(c.Register(backend.EventTime, c.Timestamp()+1500), c.Register(backend.ProcessingTime, c.Now()+10_000))
}

func (timerSetter) OnTimer(c *Context[string, string], t Timer) error {
	c.Emit(c.Key() + " " + []string{"event", "processing"}[t.Domain])
	return nil
}

// TestBroadcast: every subtask sees the same broadcast state, which survives a rescale; records in flight to all can't be shared out anew.
func TestBroadcast(t *testing.T) {
	in(t, 600, func(b *bench) {
		rules := NewLog[string](1)
		rules.Append(0, Record[string]{Value: "k1"}, Record[string]{Value: "k2"})
		var out *Collection[string]
		job := func() *Job {
			out = &Collection[string]{}
			j := NewJob("broadcast")
			src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
			slow := Rebalance(src, Op{UID: "shuffle"})
			r := From(j, Op{UID: "rules", Parallelism: 1}, rules, serializer.ForString(), SourceOptions[string]{})
			matched := ConnectBroadcast(slow, r, Op{UID: "match"}, serializer.ForString(), func() BroadcastProcessor[click, string, string] { return &matcher{} })
			Collect(matched, Op{UID: "out"}, out)
			return j
		}
		x, err := Start(b.t.Context(), job(), b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		s, err := x.Stop(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		fill(b.l, 600)
		b.o.Restore.Path, b.o.Parallelism = s.Path, 3
		if x, err = Start(b.t.Context(), job(), b.o); err != nil {
			b.t.Fatal(err)
		}
		b.l.End()
		rules.End()
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		n := map[string]int{}
		for _, r := range out.Records() {
			n[r.Value]++
		}
		if n["k1"] != 36 || n["k2"] != 36 || len(n) != 2 {
			b.t.Errorf("%v", n)
		}
	})
}

// matcher lets the keys pass that are in its broadcast state.
type matcher struct {
	rules *backend.Broadcast[string, bool]
}

func (m *matcher) Open(op *backend.Operator) (err error) {
	m.rules, err = backend.OpenBroadcast(op, "rules", serializer.ForString(), serializer.ForBoolean())
	return err
}

func (m *matcher) Process(v click, emit func(string)) error {
	if _, ok := m.rules.Get(v.F0); ok {
		emit(v.F0)
	}
	return nil
}

func (m *matcher) ProcessBroadcast(r string, _ func(string)) error {
	m.rules.Put(r, true)
	return nil
}

// TestGraph: what is wrong with a job is told before it runs.
func TestGraph(t *testing.T) {
	l := NewLog[click](1)
	for name, c := range map[string]struct {
		job  func() *Job
		want string
	}{
		"empty": {func() *Job { return NewJob("x") }, "no operators"},
		"no uid": {func() *Job {
			j := NewJob("x")
			From(j, Op{}, l, clicks, SourceOptions[click]{})
			return j
		}, "has no uid"},
		"same uid": {func() *Job {
			j := NewJob("x")
			Map(From(j, Op{UID: "a"}, l, clicks, SourceOptions[click]{}), Op{UID: "a"}, clicks, func(c click) (click, error) { return c, nil })
			return j
		}, "same uid"},
		"window": {func() *Job {
			j := NewJob("x")
			s := KeyBy(From(j, Op{UID: "a"}, l, clicks, SourceOptions[click]{}), serializer.ForString(), func(c click) string { return c.F0 })
			Reduce(s, Op{UID: "w"}, Tumbling(0), clicks, func(a, _ click) (click, error) { return a, nil }, clicks, func(_ string, _ Window, c click) (click, error) { return c, nil })
			return j
		}, "positive size"},
	} {
		if _, err := Start(t.Context(), c.job(), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := Options{Checkpoints: CheckpointOptions{Interval: time.Second}}
	if _, err := Start(t.Context(), counts(l, nil, func() {}), o); err == nil || !strings.Contains(err.Error(), "execution.checkpointing.dir") {
		t.Errorf("no directory: %v", err)
	}
	o = Options{ID: "xyz"}
	if _, err := Start(t.Context(), counts(l, nil, func() {}), o); err == nil || !strings.Contains(err.Error(), "32 hexadecimal") {
		t.Errorf("id: %v", err)
	}
}

// TestMetrics: those of a job are there while it runs.
func TestMetrics(t *testing.T) {
	in(t, 300, func(b *bench) {
		registry := prometheus.NewRegistry()
		b.o.Registerer = registry
		x := b.start()
		time.Sleep(250 * time.Millisecond)
		families, err := registry.Gather()
		if err != nil {
			b.t.Fatal(err)
		}
		n := map[string]int{}
		for _, f := range families {
			n[f.GetName()] = len(f.GetMetric())
			if f.GetName() == "drey_job_checkpoints_completed_total" && f.GetMetric()[0].GetCounter().GetValue() != 2 {
				b.t.Errorf("%v", f)
			}
		}
		if n["drey_job_checkpoint_alignment_seconds"] != 8 || n["drey_job_checkpoint_size_bytes"] != 1 {
			b.t.Errorf("%v", n)
		}
		b.finish(x)
		if families, err := registry.Gather(); err != nil || len(families) != 0 {
			b.t.Errorf("%v, %v", families, err)
		}
	})
}

// TestWaiting: what is before a slow task is under backpressure, and what is behind its input is idle when that is empty.
func TestWaiting(t *testing.T) {
	in(t, 3000, func(b *bench) {
		registry := prometheus.NewRegistry()
		b.o.Registerer = registry
		b.delay.Store(int64(time.Millisecond))
		x, err := Start(b.t.Context(), b.backlog(), b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		waited := func() map[string]float64 {
			families, err := registry.Gather()
			if err != nil {
				b.t.Fatal(err)
			}
			seconds := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if name := f.GetName(); strings.HasPrefix(name, "drey_job_task_") {
						for _, v := range x.vertices {
							if m.GetLabel()[len(m.GetLabel())-1].GetValue() == v.id() {
								seconds[v.head().UID+" "+name] += m.GetCounter().GetValue() / float64(v.parallelism)
							}
						}
					}
				}
			}
			return seconds
		}
		const blocked, idle = " drey_job_task_backpressured_seconds_total", " drey_job_task_idle_seconds_total"
		time.Sleep(500 * time.Millisecond)
		if s := waited(); s["clicks"+blocked] < 0.3 || s["count"+blocked] != 0 || s["count"+idle] > 0.1 {
			b.t.Errorf("while there is a backlog: %v", s)
		}
		time.Sleep(10 * time.Second)
		before := waited()
		time.Sleep(time.Second)
		s := waited()
		for _, uid := range []string{"clicks", "count"} {
			if d := s[uid+idle] - before[uid+idle]; d < 0.8 || d > 1.2 || s[uid+blocked] != before[uid+blocked] {
				b.t.Errorf("%s, when all is done: idle for %v s of 1 s, backpressured for %v s", uid, d, s[uid+blocked]-before[uid+blocked])
			}
		}
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	})
}

// TestWithoutCheckpoints commits at the end of the input.
func TestWithoutCheckpoints(t *testing.T) {
	in(t, 1000, func(b *bench) {
		b.o = Options{Parallelism: 3, FS: b.fs, Logger: b.o.Logger}
		b.finish(b.start())
	})
}

// TestPanic: a panic of a function is a failure of the job that says where it was.
func TestPanic(t *testing.T) {
	in(t, 10, func(b *bench) {
		j := NewJob("x")
		ForEach(From(j, Op{UID: "a"}, b.l, clicks, SourceOptions[click]{}), Op{UID: "boom"}, func(Record[click]) error { panic("boom") })
		x, err := Start(b.t.Context(), j, Options{})
		if err != nil {
			b.t.Fatal(err)
		}
		if err := x.Wait(b.t.Context()); err == nil || !strings.Contains(err.Error(), "panic: boom") || !strings.Contains(err.Error(), "TestPanic") {
			b.t.Errorf("%v", err)
		}
	})
}

// TestOverlapping: savepoints that are asked for while a source is busy are all taken, in order.
func TestOverlapping(t *testing.T) {
	in(t, 3000, func(b *bench) {
		b.delay.Store(int64(20 * time.Millisecond))
		b.o.Checkpoints.MaxConcurrent = 3
		x := b.start()
		time.Sleep(5 * time.Millisecond)
		results := make(chan error, 3)
		for range cap(results) {
			go func() {
				_, err := x.Savepoint(b.t.Context(), "", SavepointOptions{})
				results <- err
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				b.t.Error(err)
			}
		}
		stats, err := x.Checkpoints(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		for _, s := range stats {
			if s.Status == CheckpointFailed {
				b.t.Errorf("checkpoint %d: %s", s.ID, s.Failure)
			}
		}
		b.finish(x)
	})
}

// TestAtLeastOnce: after a failure nothing is missing, and some of it may be counted twice.
func TestAtLeastOnce(t *testing.T) {
	in(t, 1500, func(b *bench) {
		b.delay.Store(int64(time.Millisecond))
		b.o.Checkpoints.Mode, b.o.Checkpoints.MaxConcurrent = AtLeastOnce, 2
		b.o.Restart = &FixedDelay{Attempts: 1, Delay: 10 * time.Millisecond}
		x := b.start()
		time.Sleep(250 * time.Millisecond)
		x.kill(func(n int) int { return n - 1 })
		time.Sleep(100 * time.Millisecond)
		b.delay.Store(0)
		b.l.End()
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		got := map[string]bool{}
		for _, l := range sunk(b.t, b.fs) {
			got[l] = true
		}
		for _, l := range want(b.n) {
			if !strings.Contains(l, "[") && !got[l] {
				b.t.Errorf("%q is missing", l)
			}
		}
	})
}

// TestNotified: functions hear what became of checkpoints.
func TestNotified(t *testing.T) {
	in(t, 300, func(b *bench) {
		var heard hearer
		b.o.FS = hookFS{b.fs, func(uri string) error {
			if meta(uri, "/chk-2/") {
				return fs.ErrPermission
			}
			return nil
		}}
		b.o.Checkpoints.Tolerable, b.o.Parallelism = 1, 1
		j := NewJob("listening")
		keyed := KeyBy(From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{}), serializer.ForString(), func(c click) string { return c.F0 })
		out := Process(keyed, Op{UID: "count"}, serializer.ForString(), func() Processor[string, click, string] { return &heard })
		ForEach(out, Op{UID: "out"}, func(Record[string]) error { return nil })
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(350 * time.Millisecond)
		b.end(x)
		if !slices.Equal(heard.completed, []int64{1, 3}) || !slices.Equal(heard.aborted, []int64{2}) {
			b.t.Errorf("completed %v, aborted %v", heard.completed, heard.aborted)
		}
	})
}

// hearer notes what it hears of checkpoints.
type hearer struct {
	counter
	completed, aborted []int64
}

func (l *hearer) CheckpointCompleted(checkpoint int64) error {
	l.completed = append(l.completed, checkpoint)
	return nil
}

func (l *hearer) CheckpointAborted(checkpoint int64) error {
	l.aborted = append(l.aborted, checkpoint)
	return nil
}
