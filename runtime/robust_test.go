package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/storage"
)

// hookFS is a store that calls a function before it creates a file.
type hookFS struct {
	storage.FS
	create func(uri string) error
}

func (f hookFS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	if err := f.create(uri); err != nil {
		return nil, err
	}
	return f.FS.Create(ctx, uri, o)
}

// meta says that a metadata file is below a directory of that name.
func meta(uri, in string) bool {
	return storage.Base(uri) == metadata.FileName && strings.Contains(uri, in)
}

// end cancels the job of a test.
func (b *bench) end(x *Execution) {
	b.t.Helper()
	if err := x.Cancel(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}

// refused starts the job from a snapshot that it must refuse.
func (b *bench) refused(dir string, want error) {
	b.t.Helper()
	b.o.Restore.Path, b.o.Restart = dir, NoRestart{}
	x, err := Start(b.t.Context(), b.job(), b.o)
	if err == nil {
		b.end(x)
	}
	if !errors.Is(err, want) {
		b.t.Errorf("%v, want %v", err, want)
	}
}

// TestStopFailsAtEnd: the input ends while a stop is under way that then fails: the job finishes.
func TestStopFailsAtEnd(t *testing.T) {
	in(t, 300, func(b *bench) {
		b.o.FS = hookFS{b.fs, func(uri string) error {
			if meta(uri, "savepoints") {
				return errors.New("no")
			}
			return nil
		}}
		b.o.Checkpoints.Interval = time.Hour
		b.delay.Store(int64(time.Millisecond))
		j := b.backlog()
		b.l.End()
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // sources ended, the counts have not
		if _, err = x.Stop(b.t.Context(), "", SavepointOptions{}); err == nil {
			b.t.Error("stopped")
		}
		ctx, c := context.WithTimeout(b.t.Context(), 24*time.Hour)
		defer c()
		if err := x.Wait(ctx); err != nil {
			b.t.Errorf("job did not finish in a day: %v %s", err, x.Status())
			b.end(x)
		}
	})
}

// TestStopIsAnswered: a task fails while the metadata of the savepoint is written, and who waits for it hears of that.
func TestStopIsAnswered(t *testing.T) {
	in(t, 300, func(b *bench) {
		b.o.FS = hookFS{b.fs, func(uri string) error {
			if meta(uri, "savepoints") {
				time.Sleep(time.Second)
			}
			return nil
		}}
		b.o.Restart = &FixedDelay{Attempts: 10, Delay: time.Second}
		x := b.start()
		time.Sleep(50 * time.Millisecond)
		got := make(chan error, 1)
		go func() {
			_, err := x.Stop(b.t.Context(), "", SavepointOptions{})
			got <- err
		}()
		time.Sleep(500 * time.Millisecond)
		x.kill(func(int) int { return 0 })
		time.Sleep(time.Minute)
		select {
		case err := <-got:
			if err == nil {
				b.t.Error("stopped")
			}
		default:
			b.t.Errorf("Stop has no answer after a minute; status %s", x.Status())
		}
		b.finish(x)
	})
}

// TestCheckpointsAfterFailedStop: after a stop that fails because the job can't be told of the savepoint, checkpoints go on.
func TestCheckpointsAfterFailedStop(t *testing.T) {
	in(t, 300, func(b *bench) {
		var stopping atomic.Bool
		b.o.FS = hookFS{b.fs, func(uri string) error {
			if stopping.Load() && meta(uri, "savepoints") {
				time.Sleep(time.Second)
			}
			if stopping.Load() && meta(uri, "checkpoints") {
				return errors.New("no")
			}
			return nil
		}}
		x := b.start()
		time.Sleep(250 * time.Millisecond)
		stopping.Store(true)
		_, err := x.Stop(b.t.Context(), "", SavepointOptions{})
		stopping.Store(false)
		n := x.Completed()
		if err == nil {
			b.t.Error("stopped")
		}
		time.Sleep(time.Minute)
		if x.Completed() == n {
			b.t.Errorf("no checkpoint in a minute with an interval of 100 ms; status %s", x.Status())
		}
		b.end(x)
	})
}

// TestStopAfterNoClaim: a job that may share nothing with older checkpoints can be stopped.
func TestStopAfterNoClaim(t *testing.T) {
	in(t, 300, func(b *bench) {
		b.o.Checkpoints.InlineBelow = -1
		b.o.Checkpoints.Interval = time.Hour
		x := b.start()
		time.Sleep(50 * time.Millisecond)
		s, err := x.Stop(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		b.o.Restore.Path = s.Path
		x = b.start()
		time.Sleep(50 * time.Millisecond)
		s, err = x.Stop(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Error(err)
			b.end(x)
		}
	})
}

// TestInFlightChained: records in flight to an operator that has no channel now are refused, not lost.
func TestInFlightChained(t *testing.T) {
	in(t, 3000, func(b *bench) {
		b.delay.Store(int64(time.Millisecond))
		b.o.Checkpoints.Interval = 200 * time.Millisecond
		b.o.Checkpoints.Unaligned = true
		b.o.Checkpoints.Retention = RetainOnCancellation
		b.o.Parallelism = 2
		job := func() *Job {
			j := NewJob("slow")
			src := From(j, Op{UID: "clicks", Parallelism: 1}, b.l, clicks, SourceOptions[click]{})
			slow := Map(src, Op{UID: "slow"}, serializer.ForString(), func(s click) (string, error) {
				time.Sleep(time.Duration(b.delay.Load()))
				return fmt.Sprint(s.F1), nil
			})
			Commit(slow, Op{UID: "sink"}, Files(FileOptions[string]{FS: b.fs, Dir: outDir, Append: appendLine}))
			return j
		}
		x, err := Start(b.t.Context(), job(), b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		b.end(x)
		c := b.checkpoints(x)
		b.o.Restore.Path = "mem:///checkpoints/" + x.ID() + "/" + c[len(c)-1]
		b.o.Parallelism = 1
		b.l.End()
		b.delay.Store(0)
		x, err = Start(b.t.Context(), job(), b.o)
		if err != nil {
			if !errors.Is(err, ErrInFlight) || !strings.Contains(err.Error(), `"slow"`) {
				b.t.Error(err)
			}
			return
		}
		b.end(x)
		b.t.Error("it runs, and the records are gone")
	})
}

// TestAtLeastOnceSavepoint: a savepoint leaves checkpoints that are under way alone.
func TestAtLeastOnceSavepoint(t *testing.T) {
	in(t, 3000, func(b *bench) {
		b.delay.Store(int64(2 * time.Millisecond))
		b.o.Checkpoints.Mode = AtLeastOnce
		b.o.Checkpoints.Interval = 100 * time.Millisecond
		// one source subtask is slow, and has the barrier late
		j := NewJob("x")
		a := From(j, Op{UID: "a", Parallelism: 1}, b.l, clicks, SourceOptions[click]{})
		fast := From(j, Op{UID: "b", Parallelism: 1}, b.l, clicks, SourceOptions[click]{})
		slow := Map(a, Op{UID: "slow"}, clicks, func(c click) (click, error) { time.Sleep(time.Duration(b.delay.Load())); return c, nil })
		all := Union(Op{UID: "all"}, slow, fast)
		ForEach(all, Op{UID: "out"}, func(Record[click]) error { return nil })
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(101 * time.Millisecond)
		if _, err = x.Savepoint(b.t.Context(), "", SavepointOptions{}); err != nil {
			b.t.Error(err)
		}
		time.Sleep(11 * time.Minute)
		if x.attempts > 1 || x.Completed() < 1000 {
			b.t.Error("a checkpoint was stuck")
		}
		b.end(x)
	})
}

// TestSuspendWhileWriting: what the end of the process does to a sink is no failure of the job.
func TestSuspendWhileWriting(t *testing.T) {
	failed := 0
	for range 10 {
		in(t, 300, func(b *bench) {
			b.o.Restart = NoRestart{}
			b.o.Parallelism = 1
			ctx, cancel := context.WithCancel(b.t.Context())
			j := NewJob("x")
			src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
			Commit(src, Op{UID: "sink"}, func() Transactions[click] { return &waiting{} })
			x, err := Start(ctx, j, b.o)
			if err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
			b.l.Append(0, Record[click]{Value: click{F0: "wait"}})
			time.Sleep(20 * time.Millisecond)
			x.do(func() { time.Sleep(time.Millisecond) }) // it is busy, as while it deletes local files
			time.Sleep(time.Microsecond)
			cancel()
			<-x.Done()
			if x.Status() != StatusSuspended {
				failed++
			}
		})
	}
	if failed > 0 {
		t.Errorf("%d of 10 failed for good instead of being suspended", failed)
	}
}

// waiting is a sink that waits for the end of its context.
type waiting struct{}

func (waiting) Recover(context.Context, int, int, []string) error { return nil }

func (waiting) Write(ctx context.Context, r Record[click]) error {
	if r.Value.F0 == "wait" {
		<-ctx.Done() // as a store does
		return ctx.Err()
	}
	return nil
}

func (waiting) Prepare(context.Context, int64, bool) (string, error) { return "", nil }

func (waiting) Commit(context.Context, string) error { return nil }

func (waiting) Close() error { return nil }

// countInput counts how often it is asked.
type countInput struct{ n *atomic.Int64 }

func (c countInput) Partitions(context.Context) ([]string, error) { return []string{"a"}, nil }
func (c countInput) Open(context.Context, string, int64) (Reader[click], error) {
	return countReader(c), nil
}

type countReader struct{ n *atomic.Int64 }

func (c countReader) Next() (Record[click], bool, error) {
	c.n.Add(1)
	return Record[click]{}, false, nil
}
func (c countReader) Offset() int64 { return 0 }
func (c countReader) Close() error  { return nil }

// TestIdlePolls: a source without records is asked at the same rate, however many checkpoints there are.
func TestIdlePolls(t *testing.T) {
	in(t, 0, func(b *bench) {
		b.o.Parallelism = 1
		b.o.Checkpoints.Interval = 101 * time.Millisecond
		// a store that takes a while, so that mails come at odd times
		b.o.FS = hookFS{b.fs, func(string) error { time.Sleep(313 * time.Microsecond); return nil }}
		b.o.Checkpoints.InlineBelow = -1
		var n atomic.Int64
		j := NewJob("x")
		src := From[click](j, Op{UID: "clicks"}, countInput{&n}, clicks, SourceOptions[click]{})
		ForEach(src, Op{UID: "out"}, func(Record[click]) error { return nil })
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		var per []int64
		for range 6 {
			time.Sleep(9 * time.Second)
			n.Store(0)
			time.Sleep(time.Second)
			per = append(per, n.Load())
		}
		if per[5] > 2*per[0]+400 {
			b.t.Errorf("polls a second, every 10 s: %v", per)
		}
		b.end(x)
	})
}

// TestOlderMetadata: without its metadata the newest checkpoint is passed over.
func TestOlderMetadata(t *testing.T) {
	in(t, 2000, func(b *bench) {
		b.delay.Store(int64(time.Millisecond))
		b.o.Checkpoints.Retain = 2
		b.o.Restart = &FixedDelay{Attempts: 10, Delay: time.Second}
		x := b.start()
		time.Sleep(350 * time.Millisecond)
		x.do(func() { x.c.timer.Stop() })
		if err := b.fs.Delete(b.t.Context(), "mem:///checkpoints/"+x.ID()+"/chk-3/"+metadata.FileName); err != nil {
			b.t.Fatal(err)
		}
		x.kill(func(int) int { return 0 })
		time.Sleep(20 * time.Second)
		if x.Status() != StatusRunning {
			b.t.Errorf("status %s %v", x.Status(), b.checkpoints(x))
		}
		b.end(x)
	})
}

// rewrite changes a snapshot.
func (b *bench) rewrite(dir string, f func(s *metadata.Snapshot)) {
	uri := storage.Join(dir, metadata.FileName)
	data, err := storage.ReadAll(b.t.Context(), b.fs, uri, 1<<30)
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := metadata.Decode(data)
	if err != nil {
		b.t.Fatal(err)
	}
	f(s)
	if data, err = metadata.Encode(s); err != nil {
		b.t.Fatal(err)
	}
	if err := storage.WriteFile(b.t.Context(), b.fs, uri, data, storage.CreateOptions{Overwrite: true}); err != nil {
		b.t.Fatal(err)
	}
}

// saved gives a savepoint of the job.
func (b *bench) saved() string {
	x := b.start()
	time.Sleep(50 * time.Millisecond)
	s, err := x.Stop(b.t.Context(), "", SavepointOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Path
}

// TestFinishedOperator: an operator that had finished would begin anew.
func TestFinishedOperator(t *testing.T) {
	in(t, 300, func(b *bench) {
		dir := b.saved()
		id := metadata.UIDHash("clicks")
		b.rewrite(dir, func(s *metadata.Snapshot) {
			for i := range s.Operators {
				if s.Operators[i].ID == id {
					s.Operators[i].FullyFinished, s.Operators[i].Subtasks = true, nil
				}
			}
		})
		b.refused(dir, ErrForeign)
	})
}

// TestHostileNumbers: numbers that no snapshot has.
func TestHostileNumbers(t *testing.T) {
	for _, m := range []int32{1 << 16, 1 << 24} {
		in(t, 300, func(b *bench) {
			dir := b.saved()
			b.rewrite(dir, func(s *metadata.Snapshot) {
				for i := range s.Operators {
					s.Operators[i].MaxParallelism = m
				}
			})
			b.refused(dir, ErrForeign)
		})
	}
}

// TestHostileTwice: an operator that is there twice.
func TestHostileTwice(t *testing.T) {
	in(t, 300, func(b *bench) {
		dir := b.saved()
		id := metadata.UIDHash("clicks")
		b.rewrite(dir, func(s *metadata.Snapshot) {
			for i := range s.Operators {
				if s.Operators[i].ID == id {
					o := s.Operators[i]
					o.Subtasks = nil
					s.Operators = append(s.Operators, o)
					break
				}
			}
		})
		b.refused(dir, ErrForeign)
	})
}

// farTimer registers a timer of processing time.
type farTimer struct{ at int64 }

func (farTimer) Open(backend.Keyed[string], *backend.Operator) error { return nil }

func (f farTimer) Process(c *Context[string, string], _ click) error {
	return c.Register(backend.ProcessingTime, f.at)
}

func (farTimer) OnTimer(*Context[string, string], Timer) error { return nil }

// TestFarTimer: a timer that is never due costs nothing.
func TestFarTimer(t *testing.T) {
	for _, at := range []int64{math.MaxInt64, math.MaxInt64 / 2, math.MaxInt64 / 1000} {
		l := NewLog[click](1)
		fill(l, 1)
		j := NewJob("x")
		src := From(j, Op{UID: "clicks"}, l, clicks, SourceOptions[click]{})
		out := Process(KeyBy(src, serializer.ForString(), func(c click) string { return c.F0 }), Op{UID: "t"}, serializer.ForString(), func() Processor[string, click, string] { return farTimer{at} })
		ForEach(out, Op{UID: "o"}, func(Record[string]) error { return nil })
		calls := 0
		o := Options{Clock: func() int64 { calls++; return time.Now().UnixMilli() }}
		x, err := Start(context.Background(), j, o)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		if err := x.Cancel(context.Background()); err != nil {
			t.Error(err)
		}
		if calls > 100 {
			t.Errorf("timer at %d: the clock was read %d times in 0.3 s", at, calls)
		}
	}
}

// TestStopCannotBegin: after a stop into a directory where no savepoint may be, all goes on.
func TestStopCannotBegin(t *testing.T) {
	in(t, 300, func(b *bench) {
		x := b.start()
		time.Sleep(250 * time.Millisecond)
		_, err := x.Stop(b.t.Context(), "mem:///checkpoints/"+x.ID()+"/shared", SavepointOptions{})
		if err == nil {
			b.t.Error("stopped")
		}
		n := x.Completed()
		time.Sleep(time.Minute)
		if x.Completed() == n {
			b.t.Errorf("no checkpoint in a minute")
		}
		_, err = x.Stop(b.t.Context(), "", SavepointOptions{})
		if err != nil {
			b.t.Error("stop again:", err)
			b.end(x)
		}
	})
}

// TestOutputChannels: records on their way out are refused, whichever operator of a chain has them.
func TestOutputChannels(t *testing.T) {
	in(t, 300, func(b *bench) {
		dir := b.saved()
		id := metadata.UIDHash("same") // chained behind the source: the tail, where Flink has them
		b.rewrite(dir, func(s *metadata.Snapshot) {
			for i := range s.Operators {
				if s.Operators[i].ID == id {
					st := s.Operators[i].Subtasks[0].State
					st.OutputChannels = append(st.OutputChannels, metadata.ChannelState{Offsets: []int64{0}, Size: 9, Delegate: &metadata.ByteStream{Name: "x", Data: []byte{0, 0, 0, 5, 0, 0, 0, 1, 1}}})
				}
			}
		})
		b.refused(dir, ErrInFlight)
	})
}

// TestOlderGarbage: files of any content have the checkpoint passed over.
func TestOlderGarbage(t *testing.T) {
	for _, be := range []Backend{BackendHeap, BackendPebble} {
		for name, spoil := range map[string]func([]byte) []byte{
			"zeros": func(d []byte) []byte { return make([]byte, len(d)) },
			"half":  func(d []byte) []byte { return d[:len(d)/2] },
			"empty": func([]byte) []byte { return nil },
			"ff":    func(d []byte) []byte { return bytes.Repeat([]byte{255}, len(d)) },
		} {
			in(t, 2000, func(b *bench) {
				b.delay.Store(int64(time.Millisecond))
				b.o.Backend, b.o.WorkDir = be, t.TempDir()
				b.o.Checkpoints.Retain, b.o.Checkpoints.InlineBelow = 2, -1
				b.o.Restart = &FixedDelay{Attempts: 3, Delay: time.Second}
				x := b.start()
				time.Sleep(350 * time.Millisecond)
				x.do(func() { x.c.timer.Stop() })
				for info, err := range b.fs.List(b.t.Context(), "mem:///checkpoints/"+x.ID()+"/chk-3") {
					if err != nil {
						b.t.Fatal(err)
					}
					if storage.Base(info.URI) != metadata.FileName {
						data, err := storage.ReadAll(b.t.Context(), b.fs, info.URI, 1<<30)
						if err != nil {
							b.t.Fatal(err)
						}
						if err := storage.WriteFile(b.t.Context(), b.fs, info.URI, spoil(data), storage.CreateOptions{Overwrite: true}); err != nil {
							b.t.Fatal(err)
						}
					}
				}
				x.kill(func(int) int { return 0 })
				time.Sleep(1500 * time.Millisecond)
				if x.Status() != StatusRunning || x.point.snapshot.CheckpointID != 2 {
					b.t.Errorf("backend %d, %s: status %s", be, name, x.Status())
				}
				b.end(x)
			})
		}
	}
}

// opens panics when it is opened.
type opens struct{ counter }

func (opens) Open(backend.Keyed[string], *backend.Operator) error { panic("boom in Open") }

// TestPanicOpen: a panic when states are opened is a failure of the job.
func TestPanicOpen(t *testing.T) {
	l := NewLog[click](1)
	j := NewJob("x")
	src := From(j, Op{UID: "clicks"}, l, clicks, SourceOptions[click]{})
	out := Process(KeyBy(src, serializer.ForString(), func(c click) string { return c.F0 }), Op{UID: "t"}, serializer.ForString(), func() Processor[string, click, string] { return &opens{} })
	ForEach(out, Op{UID: "o"}, func(Record[string]) error { return nil })
	x, err := Start(context.Background(), j, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "boom in Open") {
		t.Error(err)
	}
}

// closes panics when it is closed.
type closes struct{ waiting }

func (closes) Close() error { panic("boom in Close") }

// TestPanicClose: a panic at the end doesn't end the process.
func TestPanicClose(t *testing.T) {
	l := NewLog[click](1)
	l.End()
	j := NewJob("x")
	src := From(j, Op{UID: "clicks"}, l, clicks, SourceOptions[click]{})
	Commit(src, Op{UID: "sink"}, func() Transactions[click] { return closes{} })
	x, err := Start(context.Background(), j, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHostileOffsets: a buffer that is named again and again is read no more often than its file is long.
func TestHostileOffsets(t *testing.T) {
	in(t, 300, func(b *bench) {
		dir := b.saved()
		id := metadata.UIDHash("count")
		b.rewrite(dir, func(s *metadata.Snapshot) {
			for i := range s.Operators {
				if s.Operators[i].ID == id {
					st := s.Operators[i].Subtasks[0].State
					data := make([]byte, 1<<20+4)
					data[1] = 0x10
					st.InputChannels = append(st.InputChannels, metadata.ChannelState{Offsets: make([]int64, 4000), Size: 9, Delegate: &metadata.ByteStream{Name: "x", Data: data}})
				}
			}
		})
		b.o.Restore.Path, b.o.Restart = dir, NoRestart{}
		x, err := Start(b.t.Context(), b.job(), b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := x.Wait(b.t.Context()); !errors.Is(err, serializer.ErrCorrupt) {
			b.t.Error(err)
		}
	})
}

// TestCancelAndEnd: a job that is being canceled when its process is to end is canceled.
func TestCancelAndEnd(t *testing.T) {
	n := 0
	for range 5 {
		in(t, 300, func(b *bench) {
			b.delay.Store(int64(50 * time.Millisecond))
			ctx, end := context.WithCancel(b.t.Context())
			x, err := Start(ctx, b.job(), b.o)
			if err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			got := make(chan error, 1)
			go func() { got <- x.Cancel(b.t.Context()) }()
			time.Sleep(time.Millisecond)
			end()
			if err := <-got; err == nil && x.Status() != StatusCanceled {
				n++
			}
		})
	}
	if n > 0 {
		t.Errorf("%d of 5: Cancel gave nil, and the job is suspended", n)
	}
}

// TestFinalRetries: the last checkpoint is tried again after the time between checkpoints, not at once.
func TestFinalRetries(t *testing.T) {
	in(t, 10, func(b *bench) {
		fails := 0
		b.o.FS = hookFS{b.fs, func(uri string) error {
			if meta(uri, "checkpoints") {
				fails++
				return errors.New("store is away for a moment")
			}
			return nil
		}}
		b.o.Checkpoints.Tolerable, b.o.Checkpoints.Interval = 1000, time.Minute
		b.o.Restart = NoRestart{}
		b.l.End()
		at := time.Now()
		x := b.start()
		err := x.Wait(b.t.Context())
		if d := time.Since(at); d < time.Second {
			b.t.Errorf("%d tries in %v: %v", fails, d, strings.Split(err.Error(), "(")[0])
		}
	})
}
