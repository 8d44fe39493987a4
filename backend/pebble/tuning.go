package pebble

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Profile is a set of options for a kind of machine (org.apache.flink.state.rocksdb.PredefinedOptions).
type Profile uint8

// The profiles.
const (
	ProfileDefault Profile = iota
	// ProfileSpinningDisk lets four compactions run at a time.
	ProfileSpinningDisk
	// ProfileSpinningDiskHighMemory has large blocks, large files and more write buffers.
	ProfileSpinningDiskHighMemory
	// ProfileFlashSSD lets four compactions run at a time.
	ProfileFlashSSD
)

// tuning is what a profile sets. What else Flink's profiles set is in CONFIG.md.
func (p Profile) tuning() Tuning {
	switch p {
	case ProfileSpinningDisk, ProfileFlashSSD:
		return Tuning{Threads: 4}
	case ProfileSpinningDiskHighMemory:
		return Tuning{
			BlockSize: 128 << 10, BloomBits: defaultBloomBits, LevelBase: 1 << 30, FileSize: 256 << 20,
			Threads: 4, WriteBuffer: 64 << 20, WriteBuffers: 4,
		}
	}
	return Tuning{}
}

// Compression is how blocks of the files of a level are compressed.
type Compression uint8

// The compressions that both RocksDB and Pebble have.
const (
	Snappy Compression = iota
	Zstd
	Uncompressed
)

func (c Compression) profile() *sstable.CompressionProfile {
	switch c {
	case Zstd:
		return sstable.ZstdCompression
	case Uncompressed:
		return sstable.NoCompression
	}
	return sstable.SnappyCompression
}

// Tuning are the options of a database. What is zero is as the profile says, and
// as the default if it says nothing. CONFIG.md tells which keys of Flink's configuration they stand for.
type Tuning struct {
	// Profile is a set of them for a kind of machine.
	Profile Profile
	// BlockSize is the size of blocks of files in bytes, before compression; the default is 4 KiB.
	BlockSize int
	// IndexBlock is the size in bytes from which the index of a file is split, which makes a read look at one block more; by default it never is.
	IndexBlock int
	// BloomBits is the size of bloom filters in bits per key; the default is 10, negative means no filters.
	BloomBits int
	// Compression is that of each level from the first, the last one also that of all deeper levels; the default is Snappy.
	Compression []Compression
	// LevelBase is how many bytes the first level below level 0 may have; the default is 256 MiB.
	LevelBase int64
	// FileSize is the size of files below level 0 in bytes; the default is 64 MiB. A restore from local copies takes as long as there are files.
	FileSize int64
	// Threads is how many compactions may run at a time; the default is half the processors.
	Threads int
	// WriteBuffer is the most that a write buffer may have, in bytes; the default is 64 MiB. It
	// is less where the backend's share of the memory is.
	WriteBuffer int64
	// WriteBuffers is how many write buffers there may be before writes wait for them to be written to files; the default is 2.
	WriteBuffers int
}

const (
	defaultBloomBits = 10
	maxBlock         = 16 << 20
	maxBuffer        = 2 << 30
)

// or gives the first of the values that is set.
func or[T comparable](values ...T) T {
	var none T
	for _, v := range values {
		if v != none {
			return v
		}
	}
	return none
}

// resolve fills in what is not set, and refuses what is out of range.
func (t Tuning) resolve() (Tuning, error) {
	if t.Profile > ProfileFlashSSD {
		return t, fmt.Errorf("profile %d: there is none of this number", t.Profile)
	}
	p := t.Profile.tuning()
	t.BlockSize = or(t.BlockSize, p.BlockSize, 4<<10)
	t.IndexBlock = or(t.IndexBlock, p.IndexBlock, math.MaxInt32)
	t.BloomBits = or(t.BloomBits, p.BloomBits, defaultBloomBits)
	t.LevelBase = or(t.LevelBase, p.LevelBase, 256<<20)
	t.FileSize = or(t.FileSize, p.FileSize, 64<<20)
	t.Threads = or(t.Threads, p.Threads, max(1, runtime.GOMAXPROCS(0)/2))
	t.WriteBuffer = or(t.WriteBuffer, p.WriteBuffer, 64<<20)
	t.WriteBuffers = or(t.WriteBuffers, p.WriteBuffers, 2)
	if len(t.Compression) == 0 {
		t.Compression = []Compression{Snappy}
	}
	for _, f := range []struct {
		name             string
		value, from, end int64
	}{
		{"block size", int64(t.BlockSize), 1 << 10, maxBlock},
		{"index block", int64(t.IndexBlock), 1 << 10, math.MaxInt32},
		{"bits per key of bloom filters", int64(t.BloomBits), math.MinInt64, 64},
		{"level base", t.LevelBase, 1 << 20, math.MaxInt64},
		{"file size", t.FileSize, 1, math.MaxInt64},
		{"threads", int64(t.Threads), 1, 1 << 10},
		{"write buffer", t.WriteBuffer, minBuffer, maxBuffer},
		{"write buffers", int64(t.WriteBuffers), 2, 1 << 10},
		{"levels with compression", int64(len(t.Compression)), 1, 1 << 10},
	} {
		if f.value < f.from || f.value > f.end {
			return t, fmt.Errorf("%s: %d is not from %d to %d", f.name, f.value, f.from, f.end)
		}
	}
	for _, c := range t.Compression {
		if c > Uncompressed {
			return t, fmt.Errorf("compression %d: there is none of this number", c)
		}
	}
	return t, nil
}

// ownPart is which part of a write buffer those have that the database fills itself, with timers and with what is flushed before there is much of it.
const ownPart = 4

// options are those of a database that has a share of the memory, with the size of the write buffer in front of it.
func (t Tuning) options(s *share, filter *stateFilter, to *slog.Logger) (*pebble.Options, int, error) {
	t, err := t.resolve()
	if err != nil {
		return nil, 0, err
	}
	buffer, err := s.buffer(t.WriteBuffers, t.WriteBuffer)
	if err != nil {
		return nil, 0, err
	}
	own := max(buffer/ownPart, minBuffer)
	o := &pebble.Options{
		Cache:                       s.m.cache,
		FileCache:                   s.m.files,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(own),
		MemTableStopWritesThreshold: int(max(2, buffer*int64(t.WriteBuffers-1)/own)),
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               t.LevelBase,
		CompactionConcurrencyRange:  func() (int, int) { return 1, t.Threads },
		Logger:                      logger{to},
	}
	// Damage is an error of what reads it; by default it would end the process.
	o.AddEventListener(pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) { o.Logger.Errorf("%s", i) }})
	filter.FilterPolicy = bloom.FilterPolicy(t.BloomBits)
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = t.BlockSize
		l.IndexBlockSize = t.IndexBlock
		c := t.Compression[min(i, len(t.Compression)-1)]
		l.Compression = c.profile
		l.FilterPolicy = pebble.NoFilterPolicy
		// Pebble doesn't read filters of the last level.
		if t.BloomBits > 0 && i < len(o.Levels)-1 {
			l.FilterPolicy = filter
		}
		if i > 0 {
			o.TargetFileSizes[i] = t.FileSize
		}
	}
	// Reads by an iterator would start compactions, those by Get, which are the same here, would not.
	o.Experimental.ReadSamplingMultiplier = -1
	o.EnsureDefaults()
	return o, int(buffer), nil
}

// StateOptions are what may be set of one state. All states are in one database,
// sorted by key group first, so that what a database has per level or per file can't differ between them.
type StateOptions struct {
	// NoFilter leaves the keys of the state out of bloom filters, which saves their place if what
	// is looked up is mostly there, or if the state is mostly iterated over.
	NoFilter bool
}

// stateFilter is a bloom filter of the keys of some states.
type stateFilter struct {
	pebble.FilterPolicy
	without atomic.Pointer[[]int] // numbers of states that are not in it, in order
}

// Name is kept in files.
func (f *stateFilter) Name() string { return "drey.bloom" }

// states are those whose keys are not in filters.
func (f *stateFilter) states() []int {
	if without := f.without.Load(); without != nil {
		return *without
	}
	return nil
}

// leaveOut leaves a state out, of files that are written from now on. It must not run concurrently with itself.
func (f *stateFilter) leaveOut(no int) {
	var next []int
	if old := f.without.Load(); old != nil {
		next = *old
	}
	if at, ok := slices.BinarySearch(next, no); !ok {
		next = slices.Insert(slices.Clone(next), at, no)
		f.without.Store(&next)
	}
}

// leftOut says if keys of the state are not in filters.
func (f *stateFilter) leftOut(key []byte) bool {
	without := f.without.Load()
	if without == nil || len(key) < prefixLen {
		return false
	}
	_, ok := slices.BinarySearch(*without, int(binary.BigEndian.Uint16(key[2:])))
	return ok
}

// MayContain asks a filter.
func (f *stateFilter) MayContain(ftype pebble.FilterType, filter, key []byte) bool {
	return f.leftOut(key) || f.FilterPolicy.MayContain(ftype, filter, key)
}

// NewWriter makes a filter.
func (f *stateFilter) NewWriter(ftype pebble.FilterType) pebble.FilterWriter {
	return stateFilterWriter{f.FilterPolicy.NewWriter(ftype), f}
}

type stateFilterWriter struct {
	pebble.FilterWriter
	f *stateFilter
}

// AddKey adds a key to the filter.
func (w stateFilterWriter) AddKey(key []byte) {
	if !w.f.leftOut(key) {
		w.FilterWriter.AddKey(key)
	}
}

// logger passes what the database has to say to a slog.Logger.
type logger struct{ to *slog.Logger }

func (l logger) Infof(format string, args ...any) {
	if l.to != nil {
		l.to.Debug(fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) {
	if l.to != nil {
		l.to.Error(fmt.Sprintf(format, args...))
	}
}

// Fatalf is called when the database is no longer of use, such as when its directory is gone. It
// must not return, and may hold locks, so that there is no error to go on with.
func (l logger) Fatalf(format string, args ...any) {
	if l.to != nil {
		l.to.Error(fmt.Sprintf(format, args...))
	}
	panic(fmt.Sprintf(format, args...))
}
