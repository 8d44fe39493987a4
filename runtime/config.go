package runtime

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/localrecovery"
)

// flinkOptions are all keys of Flink 1.20.5 and 2.3.0, with the other spellings of each. CONFIG.md says where they are from.
//
//go:embed flink-options.tsv
var flinkOptions string

// flinkKeys gives the spellings of each key, the one that counts first before the others, and all of them.
var flinkKeys = sync.OnceValues(func() (spellings map[string][]string, known map[string]bool) {
	spellings, known = map[string][]string{}, map[string]bool{}
	for line := range strings.Lines(flinkOptions) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		all := append([]string{cells[0]}, strings.Fields(cells[3])...)
		spellings[cells[0]] = all
		for _, k := range all {
			known[k] = true
		}
	}
	return spellings, known
})

// otherKeys begin the keys of parts of Flink that flinkOptions does not have, and those with names in them that anyone may give.
var otherKeys = []string{
	"akka.", "containerized.", "env.java.", "external-resource.", "flink.hadoop.", "fs.", "high-availability.", "historyserver.", "kubernetes.", "metrics.", "pekko.", "python.",
	"s3.", "s3a.", "presto.s3.", "security.", "sql-client.", "sql-gateway.", "table.", "traces.reporter.", "events.reporter.", "yarn.", "zookeeper.", "gs.", "azure.", "oss.",
	"pipeline.global-job-parameters.", "client.", "taskmanager.memory.managed.consumer-weights.",
}

const rocksdbPrefix = "state.backend.rocksdb."

// ConfigReport says what became of the keys of a configuration.
type ConfigReport struct {
	// Unknown are keys that Flink does not have, in order.
	Unknown []string
	// Ignored are keys of Flink that change nothing here, in order: CONFIG.md says why. Among them are those beside which another key is
	// stronger, as an old spelling beside a new one.
	Ignored []string
	// LocalRoots are the directories for local recovery (execution.checkpointing.local-backup.dirs); none if it is off.
	LocalRoots []string
}

// Log tells a log of the keys that change nothing.
func (r ConfigReport) Log(log *slog.Logger) {
	if len(r.Unknown) > 0 {
		log.Warn("there are no such keys in Flink", "keys", r.Unknown)
	}
	if len(r.Ignored) > 0 {
		log.Info("these keys of Flink's configuration change nothing here", "keys", r.Ignored)
	}
}

// OpenLocal opens the local copies for [Options].Local, of which there is one in a process; nil if local recovery is off. The caller closes them when the
// job has ended.
func (r ConfigReport) OpenLocal(log *slog.Logger) (*localrecovery.Store, error) {
	if len(r.LocalRoots) == 0 {
		return nil, nil
	}
	return localrecovery.Open(localrecovery.Options{Roots: r.LocalRoots, Logger: log})
}

// config is what is being read.
type config struct {
	o       Options
	restart struct {
		kind        string
		fixed       FixedDelay
		rate        FailureRate
		exponential Exponential
	}
	backend, storage string
	managed          int64
	workDirs         []string
	backup           bool
	fromLocal        bool
	roots            []string
}

// FromConfig reads a configuration of Flink into options, of which FS, Local, Clock, Registerer and Logger are the caller's to set. Of each key
// the spellings of 1.20.5 and of 2.3.0 are known; a new one is stronger than an old one, as in Flink. Values that can't be are refused, all of them in one error.
// CONFIG.md has the keys.
func FromConfig(flink map[string]string) (Options, ConfigReport, error) {
	var c config
	c.restart.fixed = FixedDelay{Attempts: 1, Delay: time.Second}
	c.restart.rate = FailureRate{Max: 1, Interval: time.Minute, Delay: time.Second}
	c.restart.exponential = *defaultExponential()
	var r ConfigReport
	var errs []error
	spellings, known := flinkKeys()
	used := map[string]string{} // by spelling, the key
	for _, s := range configKeys() {
		for _, k := range spellings[s.key] {
			value, ok := flink[k]
			if !ok {
				continue
			}
			used[k] = s.key
			if value = strings.TrimSpace(value); !s.set(&c, value) {
				errs = append(errs, fmt.Errorf("%s=%s: not %s", k, value, s.valid))
			}
			break
		}
	}
	rocksdb := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(flink)) {
		switch {
		case used[k] != "":
		case strings.HasPrefix(k, rocksdbPrefix) && known[k]:
			rocksdb[k] = flink[k]
		case known[k], slices.ContainsFunc(otherKeys, func(p string) bool { return strings.HasPrefix(k, p) }):
			r.Ignored = append(r.Ignored, k)
		default:
			r.Unknown = append(r.Unknown, k)
		}
	}
	p, err := pebble.FromConfig(rocksdb)
	if err != nil {
		errs = append(errs, err)
	}
	c.o.Pebble = p
	r.Ignored = append(r.Ignored, p.Ignored...)
	c.o.Pebble.Ignored = nil
	// without moves what is used to what is ignored.
	without := func(keys ...string) {
		for _, k := range slices.Sorted(maps.Keys(used)) {
			if slices.ContainsFunc(keys, func(key string) bool {
				return used[k] == key || strings.HasSuffix(key, ".") && strings.HasPrefix(used[k], key)
			}) {
				r.Ignored = append(r.Ignored, k)
			}
		}
	}
	c.setBackend(without)
	if c.o.Backend != BackendPebble {
		c.o.Pebble = pebble.Config{}
		r.Ignored = slices.AppendSeq(r.Ignored, maps.Keys(rocksdb))
	}
	if err := c.setRestart(without); err != nil {
		errs = append(errs, err)
	}
	if len(c.workDirs) > 0 {
		c.o.WorkDir = c.workDirs[0]
	}
	switch {
	case c.backup && c.fromLocal:
		if r.LocalRoots = c.roots; len(c.roots) == 0 {
			for _, dir := range c.workDirs {
				r.LocalRoots = append(r.LocalRoots, filepath.Join(dir, "localState"))
			}
			if len(c.workDirs) == 0 {
				r.LocalRoots = []string{filepath.Join(os.TempDir(), "localState")}
			}
		}
	default: // copies that nothing reads, or nothing to read
		without(keyBackup, keyFromLocal, keyLocalRoots)
	}
	slices.Sort(r.Ignored)
	r.Ignored = slices.Compact(r.Ignored)
	if err := errors.Join(errs...); err != nil {
		return Options{}, ConfigReport{}, err
	}
	return c.o, r, nil
}

// The keys that others have to do with.
const (
	keyBackend    = "state.backend.type"
	keyStorage    = "execution.checkpointing.storage"
	keyManaged    = "taskmanager.memory.managed.size"
	keyBackup     = "execution.checkpointing.local-backup.enabled"
	keyFromLocal  = "execution.state-recovery.from-local"
	keyLocalRoots = "execution.checkpointing.local-backup.dirs"
	keyRestart    = "restart-strategy."
)

// setBackend chooses backend and storage. The old names of backends mean both (StateBackendLoader, CheckpointStorageLoader).
func (c *config) setBackend(without func(...string)) {
	switch c.backend {
	case "jobmanager":
		c.o.Checkpoints.InlineOnly = true
		without(keyStorage)
	case "filesystem":
		without(keyStorage)
	case "rocksdb":
		c.o.Backend = BackendPebble
		fallthrough
	default:
		c.o.Checkpoints.InlineOnly = c.storage == "jobmanager"
	}
	if c.o.Checkpoints.InlineOnly {
		without("execution.checkpointing.data-inline-threshold")
		c.o.Checkpoints.InlineBelow = 0
	}
	if c.o.Backend != BackendPebble {
		without(keyManaged, "execution.checkpointing.incremental")
		c.o.Checkpoints.Incremental = false
		return
	}
	if c.managed != 0 && c.o.Pebble.Memory.Size == 0 {
		c.o.Pebble.Memory.Size, c.o.Pebble.PerProcess = c.managed, true
	} else {
		without(keyManaged)
	}
}

// setRestart chooses the restart strategy. Without a type the keys of all are ignored, as in Flink.
func (c *config) setRestart(without func(...string)) error {
	fixedDelay, failureRate, e := c.restart.fixed, c.restart.rate, c.restart.exponential
	const fixed, rate, exponential = keyRestart + "fixed-delay.", keyRestart + "failure-rate.", keyRestart + "exponential-delay."
	switch c.restart.kind {
	case "":
		without(fixed, rate, exponential)
	case "none", "off", "disable":
		c.o.Restart = NoRestart{}
		without(fixed, rate, exponential)
	case "fixed-delay", "fixeddelay":
		c.o.Restart = &fixedDelay
		without(rate, exponential)
	case "failure-rate", "failurerate":
		c.o.Restart = &failureRate
		without(fixed, exponential)
	default:
		c.o.Restart = &e
		without(fixed, rate)
		if e.Initial > e.Max {
			return fmt.Errorf("%sinitial-backoff=%s: more than %smax-backoff=%s", exponential, e.Initial, exponential, e.Max)
		}
	}
	return nil
}

// configKey is a key that has an effect.
type configKey struct {
	key   string // as Flink 2.3 spells it, or 1.20 if that has none
	valid string // which values are
	set   func(c *config, value string) bool
}

// configKeys are those keys, but for those of package pebble.
func configKeys() []configKey {
	const checkpointing, recovery = "execution.checkpointing.", "execution.state-recovery."
	return []configKey{
		oneOf(keyBackend, []string{"hashmap", "rocksdb", "filesystem", "jobmanager"}, func(c *config, v string) { c.backend = v }),
		oneOf(keyStorage, []string{"filesystem", "jobmanager"}, func(c *config, v string) { c.storage = v }),
		sizeKey(keyManaged, 1, math.MaxInt64, func(c *config, n int64) { c.managed = n }),
		dirsKey(rocksdbPrefix+"localdir", func(c *config, dirs []string) { c.workDirs = dirs }),
		dirsKey("io.tmp.dirs", func(c *config, dirs []string) {
			if c.workDirs == nil { // what is said of databases is stronger
				c.workDirs = dirs
			}
		}),
		intKey("parallelism.default", 1, keygroup.UpperBound, func(c *config, n int) { c.o.Parallelism = n }),
		{"pipeline.max-parallelism", fmt.Sprintf("-1 or a number from 1 to %d", keygroup.UpperBound), func(c *config, v string) bool {
			n, err := strconv.Atoi(v)
			c.o.MaxParallelism = max(n, 0)
			return err == nil && (n == -1 || n >= 1 && n <= keygroup.UpperBound)
		}},
		{"web.checkpoints.history", "a number from 0 to 1048576", func(c *config, v string) bool {
			n, err := strconv.Atoi(v)
			if c.o.Checkpoints.History = n; n == 0 {
				c.o.Checkpoints.History = -1
			}
			return err == nil && n >= 0 && n <= 1<<20
		}},

		pathKey(checkpointing+"dir", func(c *config, v string) { c.o.CheckpointDir = v }),
		pathKey(checkpointing+"savepoint-dir", func(c *config, v string) { c.o.SavepointDir = v }),
		durationKey(checkpointing+"interval", 10*time.Millisecond, func(c *config, d time.Duration) { c.o.Checkpoints.Interval = d }),
		durationKey(checkpointing+"timeout", 10*time.Millisecond, func(c *config, d time.Duration) { c.o.Checkpoints.Timeout = d }),
		durationKey(checkpointing+"min-pause", 0, func(c *config, d time.Duration) { c.o.Checkpoints.MinPause = d }),
		intKey(checkpointing+"max-concurrent-checkpoints", 1, math.MaxInt32, func(c *config, n int) { c.o.Checkpoints.MaxConcurrent = n }),
		intKey(checkpointing+"tolerable-failed-checkpoints", 0, math.MaxInt32, func(c *config, n int) { c.o.Checkpoints.Tolerable = n }),
		oneOf(checkpointing+"mode", []string{"exactly_once", "at_least_once"}, func(c *config, v string) {
			c.o.Checkpoints.Mode = map[string]Mode{"exactly_once": ExactlyOnce, "at_least_once": AtLeastOnce}[v]
		}),
		boolKey(checkpointing+"unaligned.enabled", func(c *config, v bool) { c.o.Checkpoints.Unaligned = v }),
		durationKey(checkpointing+"aligned-checkpoint-timeout", 0, func(c *config, d time.Duration) { c.o.Checkpoints.AlignedTimeout = d }),
		boolKey(checkpointing+"incremental", func(c *config, v bool) { c.o.Checkpoints.Incremental = v }),
		boolKey(checkpointing+"snapshot-compression", func(c *config, v bool) { c.o.Checkpoints.Compress = v }),
		sizeKey(checkpointing+"data-inline-threshold", 0, 1<<20, func(c *config, n int64) {
			if c.o.Checkpoints.InlineBelow = int(n); n == 0 {
				c.o.Checkpoints.InlineBelow = -1
			}
		}),
		intKey(checkpointing+"num-retained", 1, math.MaxInt32, func(c *config, n int) { c.o.Checkpoints.Retain = n }),
		oneOf(checkpointing+"externalized-checkpoint-retention", retentionNames[:], func(c *config, v string) {
			c.o.Checkpoints.Retention = Retention(slices.Index(retentionNames[:], v))
		}),
		boolKey(checkpointing+"force", func(c *config, v bool) { c.o.Checkpoints.ForceIterations = v }),
		boolKey(keyBackup, func(c *config, v bool) { c.backup = v }),
		boolKey(keyFromLocal, func(c *config, v bool) { c.fromLocal = v }),
		dirsKey(keyLocalRoots, func(c *config, dirs []string) { c.roots = dirs }),

		pathKey(recovery+"path", func(c *config, v string) { c.o.Restore.Path = v }),
		oneOf(recovery+"claim-mode", []string{"no_claim", "claim", "legacy"}, func(c *config, v string) {
			c.o.Restore.ClaimMode = map[string]incremental.ClaimMode{"no_claim": incremental.NoClaim, "claim": incremental.Claim, "legacy": incremental.Legacy}[v]
		}),
		boolKey(recovery+"ignore-unclaimed-state", func(c *config, v bool) { c.o.Restore.AllowNonRestored = v }),

		oneOf(keyRestart+"type", []string{
			"none", "off", "disable", "fixed-delay", "fixeddelay", "failure-rate", "failurerate", "exponential-delay", "exponentialdelay",
		}, func(c *config, v string) { c.restart.kind = v }),
		intKey(keyRestart+"fixed-delay.attempts", 0, math.MaxInt32, func(c *config, n int) { c.restart.fixed.Attempts = n }),
		durationKey(keyRestart+"fixed-delay.delay", 0, func(c *config, d time.Duration) { c.restart.fixed.Delay = d }),
		intKey(keyRestart+"failure-rate.max-failures-per-interval", 1, math.MaxInt32, func(c *config, n int) { c.restart.rate.Max = n }),
		durationKey(keyRestart+"failure-rate.failure-rate-interval", time.Millisecond, func(c *config, d time.Duration) { c.restart.rate.Interval = d }),
		durationKey(keyRestart+"failure-rate.delay", 0, func(c *config, d time.Duration) { c.restart.rate.Delay = d }),
		durationKey(keyRestart+"exponential-delay.initial-backoff", time.Millisecond, func(c *config, d time.Duration) { c.restart.exponential.Initial = d }),
		durationKey(keyRestart+"exponential-delay.max-backoff", time.Millisecond, func(c *config, d time.Duration) { c.restart.exponential.Max = d }),
		floatKey(keyRestart+"exponential-delay.backoff-multiplier", "a number above 1", func(c *config, f float64) bool {
			c.restart.exponential.Multiplier = f
			return f > 1 && !math.IsInf(f, 0)
		}),
		durationKey(keyRestart+"exponential-delay.reset-backoff-threshold", time.Millisecond, func(c *config, d time.Duration) { c.restart.exponential.Reset = d }),
		floatKey(keyRestart+"exponential-delay.jitter-factor", "a number from 0 to 1", func(c *config, f float64) bool {
			c.restart.exponential.Jitter = f
			return f >= 0 && f <= 1
		}),
		intKey(keyRestart+"exponential-delay.attempts-before-reset-backoff", 1, math.MaxInt32, func(c *config, n int) {
			if c.restart.exponential.Attempts = n; n == math.MaxInt32 { // Flink's way to say that there is no limit
				c.restart.exponential.Attempts = 0
			}
		}),
	}
}

// oneOf is a name, in any case.
func oneOf(key string, names []string, set func(*config, string)) configKey {
	return configKey{key, "one of " + strings.Join(names, ", "), func(c *config, v string) bool {
		v = strings.ToLower(v)
		ok := slices.Contains(names, v)
		if ok {
			set(c, v)
		}
		return ok
	}}
}

func pathKey(key string, set func(*config, string)) configKey {
	return configKey{key, "a path", func(c *config, v string) bool {
		set(c, v)
		return v != ""
	}}
}

// dirsKey is a list of directories.
func dirsKey(key string, set func(*config, []string)) configKey {
	return configKey{key, "a list of directories, separated by commas", func(c *config, v string) bool {
		dirs := splitPaths(v)
		set(c, dirs)
		return len(dirs) > 0
	}}
}

func boolKey(key string, set func(*config, bool)) configKey {
	return oneOf(key, []string{"true", "false"}, func(c *config, v string) { set(c, v == "true") })
}

func intKey(key string, from, to int, set func(*config, int)) configKey {
	return configKey{key, fmt.Sprintf("a number from %d to %d", from, to), func(c *config, v string) bool {
		n, err := strconv.Atoi(v)
		set(c, n)
		return err == nil && n >= from && n <= to
	}}
}

func floatKey(key, valid string, set func(*config, float64) bool) configKey {
	return configKey{key, valid, func(c *config, v string) bool {
		f, err := strconv.ParseFloat(v, 64)
		return err == nil && set(c, f)
	}}
}

func sizeKey(key string, from, to int64, set func(*config, int64)) configKey {
	valid := fmt.Sprintf("a size of at least %d bytes, such as 64mb", from)
	if to < math.MaxInt64 {
		valid = fmt.Sprintf("a size from %d to %d bytes, such as 20kb", from, to)
	}
	return configKey{key, valid, func(c *config, v string) bool {
		n, ok := pebble.ParseSize(v)
		set(c, n)
		return ok && n >= from && n <= to
	}}
}

func durationKey(key string, from time.Duration, set func(*config, time.Duration)) configKey {
	return configKey{key, fmt.Sprintf("a duration of at least %s, such as 10 s or PT10S", from), func(c *config, v string) bool {
		d, ok := parseDuration(v)
		set(c, d)
		return ok && d >= from
	}}
}

// units of durations (TimeUtils.TimeUnit).
var units = map[string]time.Duration{
	"":  time.Millisecond,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"min": time.Minute, "m": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"ms": time.Millisecond, "milli": time.Millisecond, "millis": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"µs": time.Microsecond, "micro": time.Microsecond, "micros": time.Microsecond, "microsecond": time.Microsecond, "microseconds": time.Microsecond,
	"ns": time.Nanosecond, "nano": time.Nanosecond, "nanos": time.Nanosecond, "nanosecond": time.Nanosecond, "nanoseconds": time.Nanosecond,
}

// parseDuration reads a duration as Flink 2.3 does (TimeUtils): a number with a unit, without one milliseconds, or a duration of ISO 8601. What
// is longer than 292 years is refused.
func parseDuration(value string) (time.Duration, bool) {
	at := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	switch {
	case at == 0:
		return parseISODuration(value)
	case at < 0:
		at = len(value)
	}
	n, err := strconv.ParseInt(value[:at], 10, 64)
	unit, ok := units[strings.ToLower(strings.TrimSpace(value[at:]))]
	if err != nil || !ok {
		return 0, false
	}
	return times(n, unit)
}

// times multiplies if it can be.
func times(n int64, unit time.Duration) (time.Duration, bool) {
	high, low := bits.Mul64(uint64(n), uint64(unit))
	return time.Duration(low), high == 0 && low <= math.MaxInt64
}

// isoDuration is a duration of ISO 8601, such as P1DT2H30M1.5S (java.time.Duration.parse), without signs.
var isoDuration = regexp.MustCompile(`^(?i)P(?:([0-9]+)D)?(T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

func parseISODuration(value string) (time.Duration, bool) {
	m := isoDuration.FindStringSubmatch(value)
	if m == nil || strings.Join(m[1:], "") == "" || len(m[2]) == 1 {
		return 0, false
	}
	m[6] = (m[6] + "000000000")[:9]
	total := time.Duration(0)
	for i, unit := range map[int]time.Duration{1: 24 * time.Hour, 3: time.Hour, 4: time.Minute, 5: time.Second, 6: time.Nanosecond} {
		if m[i] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i], 10, 64)
		d, ok := times(n, unit)
		if total += d; err != nil || !ok || total < 0 {
			return 0, false
		}
	}
	return total, true
}

// splitPaths splits a list of directories at commas and colons (ConfigurationUtils.splitPaths), but for those of URIs.
func splitPaths(value string) []string {
	separators := ",:"
	if strings.Contains(value, "://") || strings.HasPrefix(value, "file:") {
		separators = ","
	}
	var paths []string
	for p := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if p = strings.TrimSpace(p); p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}
