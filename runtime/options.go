package runtime

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/storage"
)

// Backend is where keyed state is held.
type Backend uint8

const (
	// BackendHeap is package heap.
	BackendHeap Backend = iota
	// BackendPebble is package pebble.
	BackendPebble
)

// Options say how a job runs. FS is required if anything is to be saved; the zero value of all else is the default.
type Options struct {
	// ID identifies the job, 32 hexadecimal digits; "" is a random one. A job that is started again under its ID after its process ended
	// goes on from its newest checkpoint.
	ID string
	// Parallelism is the number of subtasks of operators that say none (parallelism.default); 0 means 1.
	Parallelism int
	// MaxParallelism is the number of key groups of operators that say none and are restored from nothing (pipeline.max-parallelism); 0
	// means what Flink makes of the parallelism.
	MaxParallelism int
	// Backend holds keyed state (state.backend.type); Pebble are its options, of which Pebble.Memory.Size is that of a slot, which the
	// subtasks of the same index share, or of all if Pebble.PerProcess is set; what is 0 is as package pebble has it. Metrics that it names are registered
	// with those of the job.
	Backend Backend
	Pebble  pebble.Config
	// WorkDir is the local directory for the databases of Pebble (io.tmp.dirs); "" means that of the system.
	WorkDir string
	// FS is where checkpoints and savepoints are.
	FS storage.FS
	// CheckpointDir is the directory in which the job has one of its own, named by its ID (execution.checkpointing.dir). It is required for checkpoints.
	CheckpointDir string
	// SavepointDir is where savepoints go that name no directory (execution.checkpointing.savepoint-dir).
	SavepointDir string
	Checkpoints  CheckpointOptions
	Restore      RestoreOptions
	Restart      RestartStrategy
	// Local keeps second copies of checkpoints (execution.state-recovery.from-local); nil means none. The caller closes it.
	Local *localrecovery.Store
	// Clock is that of processing time and of time to live; nil means that of the machine.
	Clock backend.Clock
	// Registerer is where the metrics of the job are registered until it ends; nil means nowhere.
	Registerer prometheus.Registerer
	// Logger gets what happens to the job; nil means silence.
	Logger *slog.Logger
}

// Mode says what becomes of records around a failure.
type Mode uint8

const (
	// ExactlyOnce has each record affect state once.
	ExactlyOnce Mode = iota
	// AtLeastOnce has no channel wait for others, and some records affect state twice after a failure.
	AtLeastOnce
)

// Retention says what becomes of the checkpoints of a job that ends (ExternalizedCheckpointRetention). Those of a job that has finished are always
// deleted, and those of one that is suspended never.
type Retention uint8

const (
	// NoExternalizedCheckpoints deletes them when the job is canceled or fails.
	NoExternalizedCheckpoints Retention = iota
	// DeleteOnCancellation deletes them when the job is canceled, and keeps them when it fails.
	DeleteOnCancellation
	// RetainOnCancellation keeps them.
	RetainOnCancellation
)

// retentionNames are Flink's names, in lower case.
var retentionNames = [...]string{"no_externalized_checkpoints", "delete_on_cancellation", "retain_on_cancellation"}

// keeps says whether a job that has ended so keeps its checkpoints.
func (r Retention) keeps(s Status) bool {
	switch s {
	case StatusFinished:
		return false
	case StatusFailed:
		return r != NoExternalizedCheckpoints
	case StatusCanceled:
		return r == RetainOnCancellation
	default:
		return true
	}
}

// CheckpointOptions say when checkpoints are taken and what is in them. In brackets the keys of Flink's configuration, without execution.checkpointing before them.
type CheckpointOptions struct {
	// Interval is the time from one to the next (interval); 0 means that none are taken.
	Interval time.Duration
	// Timeout aborts one that takes longer (timeout); 0 means 10 minutes.
	Timeout time.Duration
	// MinPause is the least time from the end of one to the start of the next (min-pause).
	MinPause time.Duration
	// MaxConcurrent is how many are under way at a time (max-concurrent-checkpoints); 0 means 1.
	MaxConcurrent int
	// Tolerable is how many may fail one after the other before the job fails (tolerable-failed-checkpoints).
	Tolerable int
	Mode      Mode
	// Unaligned has barriers overtake records, which become part of the checkpoint (unaligned.enabled). AlignedTimeout, if not 0, is the time
	// from its start after which they begin to (aligned-checkpoint-timeout).
	Unaligned      bool
	AlignedTimeout time.Duration
	// Incremental writes only what is new (incremental); on heap it has no effect.
	Incremental bool
	// Compress compresses with snappy (snapshot-compression).
	Compress bool
	// InlineBelow is the size up to which state stands in the metadata (data-inline-threshold); 0 means 20 KiB, a negative number none.
	InlineBelow int
	// InlineOnly has all state of checkpoints and savepoints stand in the metadata, as with Flink's JobManagerCheckpointStorage (storage: jobmanager). One in which
	// the subtask of an operator has more than 5 MiB in one piece fails with [ErrInlineSize].
	InlineOnly bool
	// Retain is how many are kept (num-retained); 0 means 1.
	Retain int
	// Retention says what becomes of them when the job ends (externalized-checkpoint-retention).
	Retention Retention
	// ForceIterations takes checkpoints and savepoints of jobs with loops, too, without the records in them (enableCheckpointing(interval, mode, force) of Flink 1,
	// force). See [Iteration].
	ForceIterations bool
	// History is how many are remembered for [Execution.Checkpoints] (web.checkpoints.history); 0 means 10, a negative number none.
	History int
	// RebaseEvery is that of [incremental.CheckpointsOptions].
	RebaseEvery int
}

// RestoreOptions say what a job starts from. If it has a checkpoint of its own, that is what it goes on from.
type RestoreOptions struct {
	// Path is a savepoint or a checkpoint: its directory or metadata file (execution.state-recovery.path); "" means nothing.
	Path string
	// ClaimMode says whose it is afterwards (execution.state-recovery.claim-mode).
	ClaimMode incremental.ClaimMode
	// AllowNonRestored passes over state of operators that the job does not have (execution.state-recovery.ignore-unclaimed-state).
	AllowNonRestored bool
}

// RestartStrategy says whether a job that failed runs again, and when.
type RestartStrategy interface {
	// next is called at each failure; false means that the job has failed for good.
	next(now time.Time) (time.Duration, bool)
	// fresh gives a strategy that has not seen a failure.
	fresh() RestartStrategy
}

// NoRestart fails a job for good (restart-strategy.type: none). It is what nil means for jobs without checkpoints.
type NoRestart struct{}

func (NoRestart) next(time.Time) (time.Duration, bool) { return 0, false }
func (NoRestart) fresh() RestartStrategy               { return NoRestart{} }

// FixedDelay restarts a job so many times, after a delay (fixed-delay).
type FixedDelay struct {
	Attempts int
	Delay    time.Duration
	seen     int
}

func (s *FixedDelay) next(time.Time) (time.Duration, bool) {
	s.seen++
	return s.Delay, s.seen <= s.Attempts
}
func (s *FixedDelay) fresh() RestartStrategy {
	return &FixedDelay{Attempts: s.Attempts, Delay: s.Delay}
}

// FailureRate restarts a job unless it failed more than Max times within an interval (failure-rate).
type FailureRate struct {
	Max             int
	Interval, Delay time.Duration
	seen            []time.Time
}

func (s *FailureRate) next(now time.Time) (time.Duration, bool) {
	s.seen = append(s.seen, now)
	for len(s.seen) > 0 && now.Sub(s.seen[0]) > s.Interval {
		s.seen = s.seen[1:]
	}
	return s.Delay, len(s.seen) <= s.Max
}
func (s *FailureRate) fresh() RestartStrategy {
	return &FailureRate{Max: s.Max, Interval: s.Interval, Delay: s.Delay}
}

// Exponential restarts a job after a delay that grows with each failure (exponential-delay). It is what nil means for jobs with
// checkpoints, with the values of Flink: 1 s, at most 1 min, 1.5 times as much each time, a tenth of it random, as at first after an hour without failure.
type Exponential struct {
	Initial, Max time.Duration
	Multiplier   float64
	// Reset is the time without failure after which the delay is Initial again.
	Reset time.Duration
	// Jitter is the part of the delay that is random, to both sides.
	Jitter float64
	// Attempts is how many failures one after the other end the job; 0 means no limit.
	Attempts int
	delay    time.Duration
	last     time.Time
	seen     int
}

func defaultExponential() *Exponential {
	return &Exponential{Initial: time.Second, Max: time.Minute, Multiplier: 1.5, Reset: time.Hour, Jitter: 0.1}
}

func (s *Exponential) next(now time.Time) (time.Duration, bool) {
	if s.seen == 0 || now.Sub(s.last) > s.Reset+s.delay {
		s.delay, s.seen = s.Initial, 0
	} else {
		s.delay = time.Duration(math.Min(float64(s.delay)*s.Multiplier, float64(s.Max)))
	}
	s.last = now
	s.seen++
	d := s.delay
	if s.Jitter > 0 {
		d += time.Duration(float64(d) * s.Jitter * (2*rand.Float64() - 1))
	}
	return d, s.Attempts == 0 || s.seen <= s.Attempts
}

func (s *Exponential) fresh() RestartStrategy {
	c := *s
	c.delay, c.last, c.seen = 0, time.Time{}, 0
	return &c
}

// check fills in defaults, and says what can't be.
func (o *Options) check() error {
	if o.Parallelism == 0 {
		o.Parallelism = 1
	}
	c := &o.Checkpoints
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = 1
	}
	if c.Retain == 0 {
		c.Retain = 1
	}
	if c.History == 0 {
		c.History = 10
	}
	if o.Clock == nil {
		o.Clock = backend.SystemClock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Restart == nil {
		o.Restart = NoRestart{}
		if c.Interval > 0 {
			o.Restart = defaultExponential()
		}
	}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Parallelism < 0 || o.MaxParallelism < 0 {
		fail("parallelism %d, max parallelism %d", o.Parallelism, o.MaxParallelism)
	}
	if c.Interval < 0 || c.Timeout < 0 || c.MinPause < 0 || c.MaxConcurrent < 0 || c.Tolerable < 0 || c.Retain < 0 || c.AlignedTimeout < 0 {
		fail("checkpoints: no duration or number may be negative")
	}
	if c.Interval > 0 && o.CheckpointDir == "" {
		fail("checkpoints need a directory: set execution.checkpointing.dir (CheckpointDir)")
	}
	if (o.CheckpointDir != "" || o.SavepointDir != "" || o.Restore.Path != "") && o.FS == nil {
		fail("no storage (FS) for checkpoints and savepoints")
	}
	if c.InlineOnly && c.Incremental && o.Backend == BackendPebble {
		fail("incremental checkpoints have files of their own, which can't be in the metadata: set execution.checkpointing.storage: filesystem (InlineOnly: false)")
	}
	if c.Unaligned && (c.Mode != ExactlyOnce || c.MaxConcurrent != 1) {
		fail("unaligned checkpoints need exactly once and one checkpoint at a time (max-concurrent-checkpoints: 1)")
	}
	return errors.Join(errs...)
}
