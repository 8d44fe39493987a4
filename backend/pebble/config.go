package pebble

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// configPrefix is that of the keys of Flink's configuration that are about its backend on RocksDB.
const configPrefix = "state.backend.rocksdb."

// Config is what a configuration of Flink says of its backend on RocksDB, in the options of this one.
type Config struct {
	// Memory are the options of [NewMemory]; its size is 0 if Flink's managed memory is to be used, whose size the engine knows.
	Memory MemoryOptions
	// PerProcess says that the memory is one for all slots of the process.
	PerProcess bool
	// Tuning is for [Options] of each backend.
	Tuning Tuning
	// Timers is for [Options] of each backend.
	Timers TimerStore
	// Transfers is for [Options] of each backend.
	Transfers int
	// Metrics are the names for [MetricsOptions] of each backend.
	Metrics []string
	// Ignored are keys that have no counterpart, in order. CONFIG.md says why.
	Ignored []string
}

// FromConfig reads a configuration of Flink. Keys that don't begin with state.backend.rocksdb are not
// looked at. Unknown keys, and values that can't be, are refused, all of them in one error.
func FromConfig(flink map[string]string) (Config, error) {
	var c Config
	var errs []error
	known := settings()
	for _, key := range slices.Sorted(maps.Keys(flink)) {
		name, ok := strings.CutPrefix(key, configPrefix)
		if !ok {
			continue
		}
		value := strings.TrimSpace(flink[key])
		s, ok := known[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s=%s: there is no such key in Flink 1.20 and 2.3", key, value))
		case s.set == nil:
			c.Ignored = append(c.Ignored, key)
		case !s.set(&c, value):
			errs = append(errs, fmt.Errorf("%s=%s: not %s", key, value, s.valid))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	const ratio, pool, size = configPrefix + "memory.write-buffer-ratio", configPrefix + "memory.high-prio-pool-ratio", configPrefix + "memory.fixed-per-slot"
	if v, err := strconv.ParseFloat(strings.TrimSpace(flink[pool]), 64); err == nil && c.Memory.WriteBufferRatio+v > 1 {
		return Config{}, fmt.Errorf("%s=%s and %s=%s: more than 1 together", ratio, flink[ratio], pool, flink[pool])
	}
	if _, err := c.Memory.resolve(); err != nil {
		return Config{}, fmt.Errorf("%s=%s, %s=%s: %w", size, flink[size], ratio, flink[ratio], err)
	}
	return c, nil
}

// setting is how a key is read.
type setting struct {
	valid string // which values are
	set   func(c *Config, value string) bool
}

// settings are all keys of Flink, without their prefix, with nothing for those that have no counterpart.
func settings() map[string]setting {
	all := map[string]setting{
		"block.blocksize":          sizeFrom(1<<10, maxBlock, func(c *Config, n int64) { c.Tuning.BlockSize = int(n) }),
		"block.metadata-blocksize": sizeFrom(1<<10, maxBlock, func(c *Config, n int64) { c.Tuning.IndexBlock = int(n) }),
		"bloom-filter.bits-per-key": floatBetween(0, 64, func(c *Config, f float64) {
			c.Tuning.BloomBits = max(1, int(math.Round(f)))
		}),
		"compaction.level.max-size-level-base":   sizeFrom(1<<20, math.MaxInt64, func(c *Config, n int64) { c.Tuning.LevelBase = n }),
		"compaction.level.target-file-size-base": sizeFrom(1<<10, math.MaxInt64, func(c *Config, n int64) { c.Tuning.FileSize = n }),
		"compaction.style": {"LEVEL, the only one that Pebble has", func(_ *Config, v string) bool {
			return strings.EqualFold(v, "LEVEL")
		}},
		"compression.per.level": {"a list, separated by semicolons, of NO_COMPRESSION, SNAPPY_COMPRESSION and ZSTD_COMPRESSION", setCompression},
		"files.open": {"-1 or a number from 1 to 1048576", func(c *Config, v string) bool {
			n, err := strconv.Atoi(v)
			if n != -1 {
				c.Memory.OpenFiles = n
			}
			return err == nil && (n == -1 || n >= 1 && n <= 1<<20)
		}},
		"memory.fixed-per-slot": sizeFrom(1, math.MaxInt64, func(c *Config, n int64) { c.Memory.Size, c.PerProcess = n, false }),
		"memory.fixed-per-tm": sizeFrom(1, math.MaxInt64, func(c *Config, n int64) {
			if c.Memory.Size == 0 { // as in Flink, what is said of slots is stronger
				c.Memory.Size, c.PerProcess = n, true
			}
		}),
		"memory.high-prio-pool-ratio": floatBetween(0, 1, func(*Config, float64) {}),
		"memory.partitioned-index-filters": boolean(func(c *Config, set bool) {
			switch {
			case !set:
				c.Tuning.IndexBlock = math.MaxInt32
			case c.Tuning.IndexBlock == 0: // block.metadata-blocksize, which comes first
				c.Tuning.IndexBlock = 4 << 10
			}
		}),
		"memory.write-buffer-ratio":      floatBetween(0, 1, func(c *Config, f float64) { c.Memory.WriteBufferRatio = f }),
		"predefined-options":             {"one of " + strings.Join(profileNames, ", "), setProfile},
		"checkpoint.transfer.thread.num": intFrom(1, 1<<10, func(c *Config, n int) { c.Transfers = n }),
		"thread.num":                     intFrom(1, 1<<10, func(c *Config, n int) { c.Tuning.Threads = n }),
		"timer-service.factory": {"ROCKSDB or HEAP", func(c *Config, v string) bool {
			heap := strings.EqualFold(v, "HEAP")
			if heap {
				c.Timers = TimersOnHeap
			}
			return heap || strings.EqualFold(v, "ROCKSDB")
		}},
		"use-bloom-filter": boolean(func(c *Config, set bool) {
			if !set {
				c.Tuning.BloomBits = -1
			}
		}),
		"writebuffer.count": intFrom(2, 1<<10, func(c *Config, n int) { c.Tuning.WriteBuffers = n }),
		"writebuffer.size":  sizeFrom(minBuffer, maxBuffer, func(c *Config, n int64) { c.Tuning.WriteBuffer = n }),
	}
	for _, name := range MetricNames() {
		all["metrics."+name] = boolean(func(c *Config, set bool) {
			if set {
				c.Metrics = append(c.Metrics, name)
			}
		})
	}
	for _, name := range []string{
		"block.cache-size", "bloom-filter.block-based-mode", "compaction.filter.periodic-compaction-time",
		"compaction.filter.query-time-after-num-entries", "compaction.level.use-dynamic-size", "incremental-restore-async-compact-after-rescale",
		"localdir", "log.dir", "log.file-num", "log.level", "log.max-file-size", "manual-compaction.max-auto-compactions",
		"manual-compaction.max-file-size-to-compact", "manual-compaction.max-files-to-compact", "manual-compaction.max-output-file-size",
		"manual-compaction.max-parallel-compactions", "manual-compaction.min-files-to-compact", "manual-compaction.min-interval",
		"memory.managed", "options-factory", "rescaling.use-delete-files-in-range", "restore-overlap-fraction-threshold",
		"timer-service.cache-size", "use-ingest-db-restore-mode", "write-batch-size", "writebuffer.number-to-merge",
		"metrics.actual-delayed-write-rate", "metrics.block-cache-pinned-usage", "metrics.bloom-filter-full-true-positive", "metrics.bytes-read",
		"metrics.bytes-written", "metrics.column-family-as-variable", "metrics.cur-size-active-mem-table", "metrics.estimate-num-keys",
		"metrics.iter-bytes-read", "metrics.num-deletes-active-mem-table", "metrics.num-deletes-imm-mem-tables",
		"metrics.num-entries-active-mem-table", "metrics.num-entries-imm-mem-tables", "metrics.num-live-versions",
	} {
		all[name] = setting{}
	}
	return all
}

// profileNames are Flink's names of the profiles, by number.
var profileNames = []string{"DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"}

func setProfile(c *Config, value string) bool {
	at := slices.Index(profileNames, value)
	c.Tuning.Profile = Profile(max(at, 0))
	return at >= 0
}

func setCompression(c *Config, value string) bool {
	value = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]") // as lists are in YAML
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' }) {
		switch strings.ToUpper(strings.TrimSpace(part)) {
		case "NO_COMPRESSION":
			c.Tuning.Compression = append(c.Tuning.Compression, Uncompressed)
		case "SNAPPY_COMPRESSION":
			c.Tuning.Compression = append(c.Tuning.Compression, Snappy)
		case "ZSTD_COMPRESSION":
			c.Tuning.Compression = append(c.Tuning.Compression, Zstd)
		default:
			return false
		}
	}
	return len(c.Tuning.Compression) > 0
}

// sizeFrom is a number of bytes.
func sizeFrom(from, to int64, set func(*Config, int64)) setting {
	valid := fmt.Sprintf("a size of at least %d bytes, such as 64mb", from)
	if to < math.MaxInt64 {
		valid = fmt.Sprintf("a size from %d to %d bytes, such as 64kb", from, to)
	}
	return setting{valid, func(c *Config, value string) bool {
		n, ok := ParseSize(value)
		if ok = ok && n >= from && n <= to; ok {
			set(c, n)
		}
		return ok
	}}
}

// ParseSize reads a number of bytes as it stands in a configuration of Flink, such as 64mb (org.apache.flink.configuration.MemorySize). There must be
// no space around it.
func ParseSize(value string) (int64, bool) {
	digits := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(value)
	}
	n, err := strconv.ParseInt(value[:digits], 10, 64)
	if err != nil {
		return 0, false
	}
	shift := 0
	switch strings.ToLower(strings.TrimSpace(value[digits:])) {
	case "", "b", "bytes":
	case "k", "kb", "kibibytes":
		shift = 10
	case "m", "mb", "mebibytes":
		shift = 20
	case "g", "gb", "gibibytes":
		shift = 30
	case "t", "tb", "tebibytes":
		shift = 40
	default:
		return 0, false
	}
	return n << shift, bits.Len64(uint64(n))+shift < 64
}

// floatBetween is a number between two others.
func floatBetween(from, to float64, set func(*Config, float64)) setting {
	return setting{fmt.Sprintf("a number between %v and %v", from, to), func(c *Config, value string) bool {
		f, err := strconv.ParseFloat(value, 64)
		ok := err == nil && f > from && f < to
		if ok {
			set(c, f)
		}
		return ok
	}}
}

// intFrom is a whole number.
func intFrom(from, to int, set func(*Config, int)) setting {
	return setting{fmt.Sprintf("a number from %d to %d", from, to), func(c *Config, value string) bool {
		n, err := strconv.Atoi(value)
		ok := err == nil && n >= from && n <= to
		if ok {
			set(c, n)
		}
		return ok
	}}
}

// boolean is true or false.
func boolean(set func(*Config, bool)) setting {
	return setting{"true or false", func(c *Config, value string) bool {
		is := strings.EqualFold(value, "true")
		ok := is || strings.EqualFold(value, "false")
		if ok {
			set(c, is)
		}
		return ok
	}}
}
