package pebble

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// DefaultMemory is the memory of a backend that is given none, in bytes.
const DefaultMemory = 256 << 20

// MemoryOptions are the options of [NewMemory]; the zero value is the default.
type MemoryOptions struct {
	// Size is the budget in bytes of all backends that share it; 0 means DefaultMemory.
	Size int64
	// WriteBufferRatio is the share of it for what is not written to files yet
	// (state.backend.rocksdb.memory.write-buffer-ratio); 0 means 0.5.
	WriteBufferRatio float64
	// Backends is the number of backends that share it, which bounds the write buffer of each; 0 means 1.
	Backends int
}

// Memory is the memory that the backends of a slot share: one cache of
// blocks, in which the write buffers of all have their place. It may be used concurrently.
type Memory struct {
	o     MemoryOptions
	cache *pebble.Cache
}

// NewMemory makes the memory of a slot. Close it after the backends.
func NewMemory(o MemoryOptions) *Memory {
	if o.Size <= 0 {
		o.Size = DefaultMemory
	}
	if o.WriteBufferRatio <= 0 || o.WriteBufferRatio >= 1 {
		o.WriteBufferRatio = 0.5
	}
	if o.Backends <= 0 {
		o.Backends = 1
	}
	return &Memory{o, pebble.NewCache(o.Size)}
}

// Close gives the memory back.
func (m *Memory) Close() { m.close() }

func (m *Memory) close() {
	if m != nil {
		m.cache.Unref()
	}
}

// memTable is the size of one write buffer: while one is filled, one is written.
func (m *Memory) memTable() uint64 {
	size := int64(float64(m.o.Size)*m.o.WriteBufferRatio) / int64(m.o.Backends) / 2
	return uint64(min(max(size, 256<<10), 64<<20))
}

// Profile is a set of options for a kind of machine (PredefinedOptions).
type Profile uint8

// The profiles.
const (
	ProfileDefault Profile = iota
	ProfileSpinningDisk
	ProfileSpinningDiskHighMemory
	ProfileFlashSSD
)

// options are those of the database.
func (b *Backend[K]) options(m *Memory) *pebble.Options {
	o := &pebble.Options{
		Cache:                       m.cache,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatNewest,
		Merger:                      listMerger,
		MemTableSize:                m.memTable(),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               256 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/2) },
		Logger:                      logger{b.o.Logger},
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 4 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
	}
	switch b.o.Profile {
	case ProfileSpinningDisk, ProfileSpinningDiskHighMemory:
		o.LBaseMaxBytes = 512 << 20
		o.TargetFileSizes[0] = 64 << 20
		if b.o.Profile == ProfileSpinningDiskHighMemory {
			for i := range o.Levels {
				o.Levels[i].BlockSize = 128 << 10
			}
			o.TargetFileSizes[0] = 256 << 20
		}
	case ProfileFlashSSD:
		o.CompactionConcurrencyRange = func() (int, int) { return 1, 4 }
	}
	o.EnsureDefaults()
	return o
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
