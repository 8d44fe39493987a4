package pebble

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// MetricsOptions are which metrics of a database are shown, and where; the zero value shows none.
type MetricsOptions struct {
	// Registerer is where they are registered when the backend is opened, until it is closed; nil means nowhere.
	Registerer prometheus.Registerer
	// Names are those to show, as in the keys state.backend.rocksdb.metrics.* of Flink's configuration, see [MetricNames].
	Names []string
	// Operator, Subtask and Backend are labels, which must differ between backends.
	Operator string
	Subtask  int
	Backend  string
}

// metric is how a metric of RocksDB is read from what Pebble tells.
type metric struct {
	name  string // in Flink's keys
	unit  string // at the end of its name in Prometheus
	help  string
	total bool // it only grows
	value func(m *pebble.Metrics, e *events) float64
}

// numFilesAtLevel is the one metric that has more than one value.
const numFilesAtLevel = "num-files-at-level"

// metrics gives all metrics, by name.
func metrics() []metric {
	type p = *pebble.Metrics
	type e = *events
	return []metric{
		{"background-errors", "", "Errors of compactions and flushes.", true, func(_ p, e e) float64 { return float64(e.errors.Load()) }},
		{"block-cache-capacity", "bytes", "Size of the slot's block cache, with write buffers.", false, func(_ p, e e) float64 { return float64(e.capacity) }},
		{"block-cache-hit", "", "Blocks found in the slot's block cache.", true, func(m p, _ e) float64 { return float64(m.BlockCache.Hits) }},
		{"block-cache-miss", "", "Blocks not found in the slot's block cache.", true, func(m p, _ e) float64 { return float64(m.BlockCache.Misses) }},
		{"block-cache-usage", "bytes", "Blocks in the slot's block cache.", false, func(m p, _ e) float64 { return float64(m.BlockCache.Size) }},
		{"bloom-filter-full-positive", "", "Bloom filters that did not spare a read.", true, func(m p, _ e) float64 { return float64(m.Filter.Misses) }},
		{"bloom-filter-useful", "", "Bloom filters that spared a read.", true, func(m p, _ e) float64 { return float64(m.Filter.Hits) }},
		{"compaction-pending", "", "1 if a level is due for compaction.", false, func(m p, _ e) float64 {
			return flag(slices.ContainsFunc(m.Levels[:], func(l pebble.LevelMetrics) bool { return l.Score > 0 }))
		}},
		{"compaction-read-bytes", "", "Bytes read by compactions.", true, func(m p, _ e) float64 {
			return levels(m, func(l *pebble.LevelMetrics) uint64 { return l.TableBytesRead })
		}},
		{"compaction-write-bytes", "", "Bytes written by compactions.", true, func(m p, _ e) float64 {
			return levels(m, func(l *pebble.LevelMetrics) uint64 { return l.TableBytesCompacted })
		}},
		{"cur-size-all-mem-tables", "bytes", "Write buffers that are not written to files yet, with all that the one in front of the database has allocated.", false, func(m p, e e) float64 { return float64(m.MemTable.Size) + float64(e.buffer()) }},
		{"estimate-live-data-size", "bytes", "Live files without what deletions in them would free.", false, func(m p, _ e) float64 {
			g := &m.Table.Garbage
			return max(0, levels(m, liveSize)-float64(g.PointDeletionsBytesEstimate)-float64(g.RangeDeletionsBytesEstimate))
		}},
		{"estimate-pending-compaction-bytes", "", "Bytes that compactions would have to rewrite.", false, func(m p, _ e) float64 { return float64(m.Compact.EstimatedDebt) }},
		{"estimate-table-readers-mem", "bytes", "What the slot keeps of open files, without blocks.", false, func(m p, _ e) float64 { return float64(m.FileCache.Size) }},
		{"is-write-stopped", "", "1 while writes wait.", false, func(_ p, e e) float64 { return flag(e.since.Load() != 0) }},
		{"live-sst-files-size", "bytes", "Files of the current version.", false, func(m p, _ e) float64 { return levels(m, liveSize) }},
		{"mem-table-flush-pending", "", "1 if a full write buffer of the database's own, or a batch of the one in front of it, is not written to a file yet.", false, func(m p, _ e) float64 { return flag(m.MemTable.Count > 1) }},
		{numFilesAtLevel, "", "Files of each level.", false, nil},
		{"num-immutable-mem-table", "", "Full write buffers of the database's own, and batches of the one in front of it, that are not written to files yet.", false, func(m p, _ e) float64 { return float64(m.MemTable.Count - 1) }},
		{"num-running-compactions", "", "Compactions under way.", false, func(m p, _ e) float64 { return float64(m.Compact.NumInProgress) }},
		{"num-running-flushes", "", "Flushes under way.", false, func(m p, _ e) float64 { return float64(m.Flush.NumInProgress) }},
		{"num-snapshots", "", "Snapshots of the database that are held.", false, func(m p, _ e) float64 { return float64(m.Snapshots.Count) }},
		{"size-all-mem-tables", "bytes", "Write buffers, the one in front of the database too, with those that are still read or kept to be filled again.", false, func(m p, e e) float64 {
			return float64(m.MemTable.Size+m.MemTable.ZombieSize) + float64(e.buffer())
		}},
		{"stall-micros", "", "Seconds that writes waited.", true, func(_ p, e e) float64 { return e.stalled().Seconds() }},
		{"total-sst-files-size", "bytes", "Files, with those that are not of the current version any more.", false, func(m p, _ e) float64 {
			l := &m.Table.Local
			return float64(l.LiveSize + l.ObsoleteSize + l.ZombieSize)
		}},
	}
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

func levels(m *pebble.Metrics, of func(*pebble.LevelMetrics) uint64) float64 {
	sum := uint64(0)
	for i := range m.Levels {
		sum += of(&m.Levels[i])
	}
	return float64(sum)
}

func liveSize(l *pebble.LevelMetrics) uint64 { return uint64(l.TablesSize) }

// MetricNames are the names that [MetricsOptions] may have, in order.
func MetricNames() []string {
	var names []string
	for _, m := range metrics() {
		names = append(names, m.name)
	}
	return names
}

// fullName is the name in Prometheus.
func (m *metric) fullName() string {
	name := m.name
	if name == "stall-micros" {
		name = "stall-seconds" // Prometheus counts time in seconds
	}
	parts := []string{"drey_pebble", strings.ReplaceAll(name, "-", "_")}
	if m.unit != "" {
		parts = append(parts, m.unit)
	}
	if m.total {
		parts = append(parts, "total")
	}
	return strings.Join(parts, "_")
}

// events are what Pebble tells only when it happens.
type events struct {
	capacity int64
	buffer   func() int64 // bytes of the write buffer in front of the database
	errors   atomic.Int64
	since    atomic.Int64 // when writes began to wait, by the clock of events; 0 if they don't
	waited   atomic.Int64 // nanoseconds, without those since then
	start    time.Time
}

func (e *events) now() int64 { return int64(time.Since(e.start)) + 1 }

// stalled is how long writes have waited.
func (e *events) stalled() time.Duration {
	waited := e.waited.Load()
	if since := e.since.Load(); since != 0 {
		waited += e.now() - since
	}
	return time.Duration(waited)
}

// listen has the events counted, beside what else listens.
func (e *events) listen(o *pebble.Options) {
	o.AddEventListener(pebble.EventListener{
		BackgroundError: func(error) { e.errors.Add(1) },
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { e.since.Store(e.now()) },
		WriteStallEnd: func() {
			if since := e.since.Swap(0); since != 0 {
				e.waited.Add(e.now() - since)
			}
		},
	})
}

// collector shows metrics of a database; it implements [prometheus.Collector].
type collector struct {
	to     prometheus.Registerer
	events events
	shown  []metric
	descs  []*prometheus.Desc

	mu sync.Mutex // held while db is asked
	db *pebble.DB // nil when it isn't open
}

// newCollector makes the collector of a database that is about to be opened; nil if nothing is to be shown.
func newCollector(o MetricsOptions, s *share) (*collector, error) {
	all := metrics()
	c := &collector{to: o.Registerer, events: events{capacity: s.m.o.Size, buffer: s.buffered, start: time.Now()}}
	labels := prometheus.Labels{"operator": o.Operator, "subtask": strconv.Itoa(o.Subtask), "backend": o.Backend}
	for i, name := range o.Names {
		at := slices.IndexFunc(all, func(m metric) bool { return m.name == name })
		if at < 0 {
			return nil, fmt.Errorf("metric %q: there is none of this name, but %s", name, strings.Join(MetricNames(), ", "))
		}
		if slices.Contains(o.Names[:i], name) {
			return nil, fmt.Errorf("metric %q: it is there twice", name)
		}
		var variable []string
		if name == numFilesAtLevel {
			variable = []string{"level"}
		}
		c.shown = append(c.shown, all[at])
		c.descs = append(c.descs, prometheus.NewDesc(all[at].fullName(), all[at].help, variable, labels))
	}
	if o.Registerer == nil || len(o.Names) == 0 {
		return nil, nil
	}
	return c, nil
}

// open registers the collector.
func (c *collector) open(db *pebble.DB) error {
	c.db = db
	if err := c.to.Register(c); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// show has the metrics of another database shown, or of none; it may be called on nil.
func (c *collector) show(db *pebble.DB) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db = db
}

// close shows nothing any more; it may be called on nil.
func (c *collector) close() {
	if c == nil {
		return
	}
	c.to.Unregister(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db = nil
}

// Describe is that of [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect is that of [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.db == nil {
		return
	}
	now := c.db.Metrics()
	for i, m := range c.shown {
		if m.value == nil {
			for l := range now.Levels {
				to <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, float64(now.Levels[l].TablesCount), strconv.Itoa(l))
			}
			continue
		}
		kind := prometheus.GaugeValue
		if m.total {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(c.descs[i], kind, m.value(now, &c.events))
	}
}
