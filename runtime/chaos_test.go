package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/storagetest"
)

// kill has a subtask fail.
func (x *Execution) kill(pick func(n int) int) {
	x.do(func() {
		if x.attempt != nil && !x.deploying {
			t := x.attempt.tasks[pick(len(x.attempt.tasks))]
			t.post(func() error { return errors.New("killed") })
		}
	})
}

// TestChaos runs jobs with failures of subtasks, of storage and of the whole process, in all modes of checkpoints and at changing
// parallelism; the files of the transactional sink must be those of a run without failures. DREY_CHAOS is the number of seeds, DREY_SEED the first.
func TestChaos(t *testing.T) {
	seeds, first := 1000, uint64(1)
	if testing.Short() { // as under the race detector
		seeds = 60
	}
	if s := os.Getenv("DREY_CHAOS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	if s := os.Getenv("DREY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = n
	}
	for i := range seeds {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 8))) })
		})
		if !ok {
			t.Fatalf("DREY_SEED=%d DREY_CHAOS=1 runs it again", seed)
		}
	}
}

// slowFS is a store that takes its time.
type slowFS struct {
	storage.FS
	most   time.Duration
	random func(n int64) int64
}

func (s slowFS) Create(ctx context.Context, uri string, o storage.CreateOptions) (storage.Writer, error) {
	time.Sleep(time.Duration(s.random(int64(s.most) + 1)))
	return s.FS.Create(ctx, uri, o)
}

// dice is a source of random numbers that goroutines share.
type dice struct {
	sync.Mutex
	r *rand.Rand
}

func (d *dice) n(n int64) int64 {
	d.Lock()
	defer d.Unlock()
	return d.r.Int64N(n)
}

func (d *dice) ms(most int64) time.Duration {
	return time.Duration(d.n(most*1000+1)) * time.Microsecond
}

func chaos(t *testing.T, random *rand.Rand) {
	d := &dice{r: random}
	memory := storage.NewMemory()
	const n = 3000
	l := NewLog[click](3)
	fill(l, n)
	start := time.Now().UnixMilli()
	var jump atomic.Int64
	o := Options{
		ID: "000102030405060708090a0b0c0d0e0f", MaxParallelism: 16, CheckpointDir: "mem:///checkpoints", SavepointDir: "mem:///savepoints",
		Restart: &FixedDelay{Attempts: 1000, Delay: 50 * time.Millisecond}, Logger: testLogger(t),
		Clock: func() int64 { return time.Now().UnixMilli() - start + jump.Load() },
		Checkpoints: CheckpointOptions{
			Interval: 10*time.Millisecond + d.ms(100), Timeout: time.Second, Tolerable: int(d.n(3)), Unaligned: d.n(2) == 0, Retain: 1 + int(d.n(3)),
			Compress: d.n(2) == 0, Retention: RetainOnCancellation, Incremental: d.n(2) == 0, MinPause: d.ms(20), InlineBelow: int(d.n(3))*200 - 1,
		},
	}
	if c := &o.Checkpoints; c.Unaligned && d.n(2) == 0 {
		c.AlignedTimeout = time.Millisecond + d.ms(20)
	} else if !c.Unaligned {
		c.MaxConcurrent = 1 + int(d.n(2))
	}
	copies := []int64{0, 4 << 10, 1 << 20}[d.n(3)] // bytes of memory for local copies; with few, most are left out
	var delay atomic.Int64
	slow := func() {
		if d := delay.Load(); d > 0 {
			time.Sleep(time.Duration(d))
		}
	}
	rate := []int64{0, 0, 20, 200}[d.n(4)] // of 10,000 steps that fail
	kills := 3 + int(d.n(6))
	for process := 0; ; process++ {
		if process > 200 {
			t.Fatal("it doesn't end")
		}
		last := kills == 0
		if last {
			rate = 0
			delay.Store(0)
			l.End()
		}
		faulty := storagetest.NewFaulty(memory, storagetest.FaultOptions{Inject: func(storagetest.Step) *storagetest.Fault {
			if rate > 0 && d.n(10000) < rate {
				return &storagetest.Fault{Err: errors.New("injected"), Done: d.n(2) == 0}
			}
			return nil
		}})
		o.FS = storage.Mux{"mem": slowFS{faulty, time.Duration(d.n(3)) * 10 * time.Millisecond, d.n}}
		o.Parallelism = 1 + int(d.n(4))
		if copies > 0 && (o.Local == nil || d.n(2) == 0) {
			local, err := localrecovery.Open(localrecovery.Options{Memory: copies})
			if err != nil {
				t.Fatal(err)
			}
			o.Local = local
		}
		ctx, crash := context.WithCancel(t.Context())
		x, err := Start(ctx, counts(l, o.FS, slow), o)
		if err != nil {
			crash()
			if rate == 0 {
				t.Fatal(err)
			}
			t.Log("start:", err)
			continue
		}
		stopped := false
		for kills > 0 && !stopped && ctx.Err() == nil && !x.Status().Ended() {
			kills--
			delay.Store(d.n(3) * d.n(1000_000))
			time.Sleep(d.ms(300))
			switch d.n(6) {
			case 0:
				t.Log("crash")
				faulty.Crash()
				crash()
			case 1:
				s, err := x.Stop(ctx, "", SavepointOptions{})
				t.Log("stopped", s, err)
				if err == nil {
					o.Restore, stopped = RestoreOptions{Path: s.Path}, true
					o.ID = fmt.Sprintf("%016x%016x", d.n(1<<62), d.n(1<<62))
				}
			case 2:
				s, err := x.Savepoint(ctx, "", SavepointOptions{})
				t.Log("savepoint", s, err)
			case 3:
				jump.Add(d.n(100_000) - 50_000)
			default:
				x.kill(func(tasks int) int { return int(d.n(int64(tasks))) })
			}
		}
		if !last && !stopped {
			crash()
		}
		<-x.Done()
		crash()
		switch x.Status() {
		case StatusFailed:
			t.Fatal(x.Wait(t.Context()))
		case StatusFinished:
			if !stopped {
				compare(t, sunk(t, storage.Mux{"mem": memory}), want(n))
				return
			}
		default:
		}
	}
}
