package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/serializer"
)

// rounds is a job in which each click goes round until its number is used up, a key's records in one subtask each round or any; what comes out has been counted by key.
func rounds(b *bench, wait time.Duration, shuffle bool, slow func()) *Job {
	j := NewJob("rounds")
	src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
	it := Iterate(src, Op{UID: "loop"}, wait)
	body := Map(it.Stream(), Op{UID: "step"}, clicks, func(c click) (click, error) {
		slow()
		return click{F0: c.F0, F1: c.F1 - 1}, nil
	})
	if shuffle {
		body = Rebalance(body, Op{UID: "shuffle"})
	}
	it.CloseWith(Filter(body, Op{UID: "again"}, func(c click) (bool, error) { return c.F1 > 0, nil }))
	done := Filter(body, Op{UID: "done"}, func(c click) (bool, error) { return c.F1 <= 0, nil })
	counted := Process(KeyBy(done, serializer.ForString(), func(c click) string { return c.F0 }), Op{UID: "count"}, serializer.ForString(),
		func() Processor[string, click, string] { return &counter{} })
	Commit(counted, Op{UID: "sink"}, Files(FileOptions[string]{FS: b.fs, Dir: outDir, Append: appendLine}))
	return j
}

// turns gives clicks numbers of rounds, from 1 to most.
func turns(b *bench, most int) {
	b.l = NewLog[click](3)
	for i := range b.n {
		b.l.Append(i%3, Record[click]{Value: click{F0: fmt.Sprint("k", i%17), F1: int64(1 + i%most)}, Timestamp: int64(i)})
	}
}

// counted is what comes out of rounds.
func counted(n int) []string {
	return slices.DeleteFunc(want(n), func(l string) bool { return strings.Contains(l, "[") })
}

// TestIterate: each record comes out when it has gone its rounds, whatever the body of the loop is and however slow; the loop ends so long after its input that nothing comes back.
func TestIterate(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		for _, p := range []int{1, 3} {
			for _, delay := range []time.Duration{0, 100 * time.Microsecond} {
				in(t, 3000, func(b *bench) {
					turns(b, 40)
					b.l.End()
					b.o = Options{Parallelism: p, FS: b.fs, Logger: b.o.Logger}
					x, err := Start(b.t.Context(), rounds(b, time.Second, shuffle, func() { time.Sleep(delay) }), b.o)
					if err != nil {
						b.t.Fatal(err)
					}
					if err := x.Wait(b.t.Context()); err != nil {
						b.t.Fatal(err)
					}
					if took := time.Since(x.started); took < time.Second {
						b.t.Errorf("it has waited only %s", took)
					}
					compare(b.t, sunk(b.t, b.fs), counted(b.n))
				})
			}
		}
	}
}

// TestIterateBackpressure: a body that makes more of each record than channels hold, before a slow end, does not stop the loop; and a loop that is
// full takes nothing more from its input.
func TestIterateBackpressure(t *testing.T) {
	in(t, 400, func(b *bench) {
		turns(b, 3)
		b.l.End()
		var out Collection[string]
		j := NewJob("more")
		src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
		it := Iterate(src, Op{UID: "loop"}, 10*time.Second)
		body := FlatMap(Rebalance(it.Stream(), Op{UID: "shuffle"}), Op{UID: "step"}, clicks, func(c click, emit func(click)) error {
			for range 6 {
				emit(click{F0: c.F0, F1: c.F1 - 1})
			}
			return nil
		})
		it.CloseWith(Filter(body, Op{UID: "again"}, func(c click) (bool, error) { return c.F1 > 0, nil }))
		done := Rebalance(Filter(body, Op{UID: "done"}, func(c click) (bool, error) { return c.F1 <= 0, nil }), Op{UID: "end"})
		Collect(Map(done, Op{UID: "slow"}, serializer.ForString(), func(c click) (string, error) {
			time.Sleep(10 * time.Microsecond)
			return c.F0, nil
		}), Op{UID: "out"}, &out)
		x, err := Start(b.t.Context(), j, Options{Parallelism: 2, Logger: b.o.Logger})
		if err != nil {
			b.t.Fatal(err)
		}
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		expected := 0
		for i := range b.n {
			expected += []int{6, 36, 216}[i%3]
		}
		if n := len(out.Records()); n != expected {
			b.t.Errorf("%d records, want %d", n, expected)
		}
	})
	in(t, 100_000, func(b *bench) {
		b.l.End()
		j := NewJob("for ever")
		it := Iterate(From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{}), Op{UID: "loop"}, 0)
		it.CloseWith(Map(it.Stream(), Op{UID: "slow", NewChain: true}, clicks, func(c click) (click, error) {
			time.Sleep(time.Microsecond)
			return c, nil
		}))
		x, err := Start(b.t.Context(), j, Options{Logger: b.o.Logger})
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		held := -1
		if err := x.ask(b.t.Context(), func() { held = x.attempt.tasks[1].gate.fedBack() }); err != nil {
			b.t.Fatal(err)
		}
		// What was in the channels when it became full comes back, too.
		if held < 1 || held > loopCapacity+2*channelCapacity {
			b.t.Errorf("%d batches were fed back", held)
		}
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	})
}

// TestIterateEnds: a loop without a wait never ends, and one with too short a wait is told of.
func TestIterateEnds(t *testing.T) {
	in(t, 10, func(b *bench) {
		b.l.End()
		turns(b, 3)
		b.l.End()
		x, err := Start(b.t.Context(), rounds(b, 0, false, func() {}), Options{FS: b.fs, Logger: b.o.Logger})
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if x.Status() != StatusRunning {
			b.t.Errorf("status %s", x.Status())
		}
		if err := x.Cancel(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	})
	in(t, 10, func(b *bench) {
		turns(b, 3)
		b.l.End()
		j := NewJob("hasty")
		it := Iterate(From(j, Op{UID: "clicks", Parallelism: 1}, b.l, clicks, SourceOptions[click]{}), Op{UID: "loop"}, time.Second)
		it.CloseWith(Map(it.Stream(), Op{UID: "slow", NewChain: true}, clicks, func(c click) (click, error) {
			time.Sleep(2 * time.Second)
			return c, nil
		}))
		x, err := Start(b.t.Context(), j, Options{Logger: b.o.Logger})
		if err != nil {
			b.t.Fatal(err)
		}
		if err := x.Wait(b.t.Context()); !errors.Is(err, ErrLoopEnded) || !strings.Contains(err.Error(), `loop "loop"`) {
			b.t.Errorf("%v", err)
		}
	})
}

// TestIterateCheckpoints: a job with a loop is refused checkpoints and savepoints, unless it is forced to have them; then barriers pass the loop by,
// and what was in no loop is restored.
func TestIterateCheckpoints(t *testing.T) {
	in(t, 10, func(b *bench) {
		turns(b, 3)
		if _, err := Start(b.t.Context(), rounds(b, time.Second, false, func() {}), b.o); !errors.Is(err, ErrIterations) {
			b.t.Errorf("checkpoints: %v", err)
		}
		b.o.Checkpoints.Interval = 0
		x, err := Start(b.t.Context(), rounds(b, time.Second, false, func() {}), b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := x.Savepoint(b.t.Context(), "", SavepointOptions{}); !errors.Is(err, ErrIterations) {
			b.t.Errorf("savepoint: %v", err)
		}
		b.l.End()
		if err := x.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		compare(b.t, sunk(b.t, b.fs), counted(b.n))
	})
	for _, unaligned := range []bool{false, true} {
		in(t, 2000, func(b *bench) {
			turns(b, 30)
			b.delay.Store(int64(20 * time.Microsecond))
			b.o.Checkpoints = CheckpointOptions{Interval: 10 * time.Millisecond, ForceIterations: true, Unaligned: unaligned}
			b.o.Restart = &FixedDelay{Attempts: 1, Delay: time.Second}
			job := func() *Job { return rounds(b, time.Second, true, func() { time.Sleep(time.Duration(b.delay.Load())) }) }
			x, err := Start(b.t.Context(), job(), b.o)
			if err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(55 * time.Millisecond)
			stats, err := x.Checkpoints(b.t.Context())
			if err != nil || len(stats) < 3 || stats[0].Status != CheckpointCompleted {
				b.t.Errorf("while records go round: %+v, %v", stats, err)
			}
			time.Sleep(2 * time.Second) // the loop is empty
			x.kill(func(n int) int { return n - 1 })
			time.Sleep(2 * time.Second)
			s, err := x.Stop(b.t.Context(), "", SavepointOptions{})
			if err != nil {
				b.t.Fatal(err)
			}
			b.o.Restore.Path, b.o.Parallelism = s.Path, 3
			if x, err = Start(b.t.Context(), job(), b.o); err != nil {
				b.t.Fatal(err)
			}
			b.l.End()
			if err := x.Wait(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
			compare(b.t, sunk(b.t, b.fs), counted(b.n))
		})
	}
}

// TestIterateGraph: what is wrong with a loop is told before it runs.
func TestIterateGraph(t *testing.T) {
	l := NewLog[click](1)
	for wrong, f := range map[string]func(it *Iteration[click], src Stream[click]){
		`loop "loop": nothing is fed back, call CloseWith`:            func(*Iteration[click], Stream[click]) {},
		`loop "loop" is closed twice`:                                 func(it *Iteration[click], _ Stream[click]) { it.CloseWith(it.Stream()); it.CloseWith(it.Stream()) },
		`loop "loop": what is fed back does not come from its stream`: func(it *Iteration[click], src Stream[click]) { it.CloseWith(src) },
		`operator "other": its input is of another job`: func(it *Iteration[click], _ Stream[click]) {
			Union(Op{UID: "other"}, it.Stream(), From(NewJob("y"), Op{UID: "z"}, l, clicks, SourceOptions[click]{}))
		},
		`loop "in it": what is fed back does not come from its stream`: func(it *Iteration[click], _ Stream[click]) {
			Iterate(it.Stream(), Op{UID: "in it"}, 0).CloseWith(it.Stream())
		},
	} {
		j := NewJob("x")
		src := From(j, Op{UID: "clicks"}, l, clicks, SourceOptions[click]{})
		f(Iterate(src, Op{UID: "loop"}, 0), src)
		if _, err := Start(t.Context(), j, Options{}); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%v: want %q", err, wrong)
		}
	}
	j := NewJob("x")
	Iterate(From(j, Op{UID: "clicks"}, l, clicks, SourceOptions[click]{}), Op{UID: "loop"}, -1)
	if err := j.Err(); err == nil || !strings.Contains(err.Error(), "a wait of -1ns") {
		t.Errorf("%v", err)
	}
}
