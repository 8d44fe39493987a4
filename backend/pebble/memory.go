package pebble

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// DefaultMemory is the memory of a backend that is given none, in bytes.
const DefaultMemory = 256 << 20

// minShare is the least that a backend needs for its write buffers, in bytes.
const minShare = 512 << 10

// minBuffer is the size of a write buffer in bytes below which each write would be a file of its own.
const minBuffer = 64 << 10

// MemoryOptions are the options of [NewMemory]; the zero value is the default.
// CONFIG.md tells which keys of Flink's configuration they stand for.
type MemoryOptions struct {
	// Size is the budget in bytes of all backends that share it; 0 means DefaultMemory.
	Size int64
	// WriteBufferRatio is the share of it for what is not written to files yet, between 0 and 1; 0 means 0.5.
	WriteBufferRatio float64
	// Backends is how many backends are going to share it. Each gets an equal part of the write buffers, and one
	// more than that is refused. 0 means that it isn't known: each gets a quarter of what is left when it is opened.
	Backends int
	// OpenFiles is how many files all of them keep open for reading; 0 means 1000.
	OpenFiles int
}

// Memory is the memory that the backends of a slot share: one cache of
// blocks, in which the write buffers of all have their place, and one cache of open files.
// It may be used concurrently.
type Memory struct {
	o     MemoryOptions
	cache *pebble.Cache
	files *pebble.FileCache

	mu     sync.Mutex
	free   int64 // of the write buffers, in bytes
	shares map[*share]struct{}
}

// share is what one backend has of a Memory.
type share struct {
	m    *Memory
	size int64
	db   *pebble.DB // nil until it is opened
	used int64      // of the write buffer in front of the database, in bytes
	free []func()   // gives their place in the cache back
}

// resolve fills in what is not set, and refuses what can't be.
func (o MemoryOptions) resolve() (MemoryOptions, error) {
	switch {
	case o.Size < 0:
		return o, fmt.Errorf("memory of %d bytes: it must not be negative", o.Size)
	case o.WriteBufferRatio != 0 && !(o.WriteBufferRatio > 0 && o.WriteBufferRatio < 1):
		return o, fmt.Errorf("write buffer ratio %v: it must be between 0 and 1", o.WriteBufferRatio)
	case o.Backends < 0:
		return o, fmt.Errorf("memory of %d backends: the number must not be negative", o.Backends)
	case o.OpenFiles < 0:
		return o, fmt.Errorf("%d open files: the number must not be negative", o.OpenFiles)
	}
	o.Size = or(o.Size, DefaultMemory)
	o.WriteBufferRatio = or(o.WriteBufferRatio, 0.5)
	o.OpenFiles = or(o.OpenFiles, 1000)
	if n := int64(max(o.Backends, 1)); o.writeBuffers()/n < minShare {
		return o, fmt.Errorf("memory of %d bytes: it must be at least %.0f for the write buffers of %d backends at a ratio of %v",
			o.Size, float64(minShare)*float64(n)/o.WriteBufferRatio+1, n, o.WriteBufferRatio)
	}
	return o, nil
}

// writeBuffers is how many bytes all write buffers may have together.
func (o MemoryOptions) writeBuffers() int64 { return int64(float64(o.Size) * o.WriteBufferRatio) }

// NewMemory makes the memory of a slot. Close it after the backends. It refuses
// options out of range, and a size too small for the write buffers of all backends, with the least that would do.
func NewMemory(o MemoryOptions) (*Memory, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	return &Memory{
		o:      o,
		cache:  pebble.NewCache(o.Size),
		files:  pebble.NewFileCache(fileShards, pebble.FileCacheSize(o.OpenFiles)),
		free:   o.writeBuffers(),
		shares: map[*share]struct{}{},
	}, nil
}

// fileShards is how many locks the cache of open files has.
const fileShards = 4

// Close gives the memory back.
func (m *Memory) Close() {
	if m != nil {
		m.files.Unref()
		m.cache.Unref()
	}
}

// join gives a backend its part of the write buffers.
func (m *Memory) join() (*share, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.o.writeBuffers()
	size := max(m.free/4, minShare)
	if m.o.Backends > 0 {
		size = total / int64(m.o.Backends)
	}
	if size > m.free {
		return nil, fmt.Errorf("%d backends have all %d bytes of write buffers (%d of them free, a backend needs %d): "+
			"more memory, or one for more backends, is needed", len(m.shares), total, m.free, size)
	}
	m.free -= size
	s := &share{m: m, size: size}
	m.shares[s] = struct{}{}
	return s, nil
}

// opened says which database uses the share; nil before it is closed.
func (s *share) opened(db *pebble.DB) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.db = db
}

// leave gives the share back, when its database is closed. It may be called again, and on nil.
func (s *share) leave() {
	if s == nil {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if _, ok := s.m.shares[s]; ok {
		delete(s.m.shares, s)
		s.m.free += s.size
		for _, free := range s.free {
			free()
		}
	}
}

// reserve takes place in the cache for the write buffer in front of the database.
func (s *share) reserve(bytes int) {
	free := s.m.cache.Reserve(bytes)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.used += int64(bytes)
	s.free = append(s.free, free)
}

// buffered is what reserve took.
func (s *share) buffered() int64 {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.used
}

// buffer is the size of one of n write buffers. While one is filled and the others are written, a
// reader may hold one that is written already, and the database has one of its own for timers, so that the share is divided by two more.
func (s *share) buffer(n int, most int64) (int64, error) {
	size := min(s.size/int64(n+2), most)
	if size < minBuffer {
		return 0, fmt.Errorf("%d write buffers in %d bytes, at most %d each: one must have %d", n, s.size, most, minBuffer)
	}
	return size, nil
}

// Usage is the memory that the backends of a [Memory] use, in bytes.
type Usage struct {
	// Blocks are those in the cache, uncompressed.
	Blocks int64
	// WriteBuffers are allocated for what is not written to files yet, also as far as they are empty,
	// with those that are written but still read.
	WriteBuffers int64
	// Files is what is known about open files.
	Files int64
}

// Sum is the whole of it.
func (u Usage) Sum() int64 { return u.Blocks + u.WriteBuffers + u.Files }

// Usage tells what is used now, as Pebble counts it.
func (m *Memory) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := Usage{Blocks: m.cache.Size()}
	for s := range m.shares {
		if s.db == nil {
			continue
		}
		metrics := s.db.Metrics()
		u.WriteBuffers += s.used + int64(metrics.MemTable.Size+metrics.MemTable.ZombieSize)
		u.Files = metrics.FileCache.Size // the same of all
	}
	return u
}
