package pebble_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	db "github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/serializer"
)

// shown opens a backend that shows metrics, with one value state.
func shown(t *testing.T, to prometheus.Registerer, subtask int, o pebble.Options[string], names ...string) (*pebble.Backend[string], backend.Value[struct{}, int64]) {
	t.Helper()
	o.MaxParallelism, o.KeyGroups, o.Dir = backendtest.MaxParallelism, backendtest.All, filepath.Join(t.TempDir(), "db")
	o.Metrics = pebble.MetricsOptions{Registerer: to, Names: names, Operator: "sum", Subtask: subtask, Backend: "keyed"}
	b, err := pebble.Open(serializer.ForString(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	v, err := pebble.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "v", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	if err != nil {
		t.Fatal(err)
	}
	return b, v
}

// Metrics are what the database says, for each backend by its labels, and are gone when it is closed.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	names := pebble.MetricNames()
	// The database stays as it is while it is looked at twice.
	quiet := func(o *db.Options) { o.DisableAutomaticCompactions = true; o.DisableTableStats = true }
	b, v := shown(t, registry, 0, pebble.Options[string]{Configure: quiet}, names...)
	other, _ := shown(t, registry, 1, pebble.Options[string]{}, names...)
	for flush := range 2 {
		for i := range 1000 {
			if err := errors.Join(b.SetKey(fmt.Sprint("key", i)), v.Set(int64(i))); err != nil {
				t.Fatal(err)
			}
		}
		if flush == 0 {
			if err := b.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 100 {
		err := b.SetKey(fmt.Sprint("none", i))
		_, ok, err2 := v.Get()
		if err = errors.Join(err, err2); err != nil || ok {
			t.Fatal(ok, err)
		}
	}
	snapshot, err := b.Snapshot(1, backend.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Release()

	m := b.DB().Metrics()
	if m.MemTable.Size == 0 || b.Buffered() < 1000*(8+4) || m.BlockCache.Size == 0 || m.Filter.Hits < 50 || m.Levels[0].TablesCount != 1 || m.Levels[0].TablesSize == 0 || m.FileCache.Size == 0 {
		t.Fatalf("the database did not do what is to be seen: %v", m)
	}
	for name, want := range map[string]any{
		"background_errors_total":                   0,
		"block_cache_capacity_bytes":                256 << 20,
		"block_cache_hit_total":                     m.BlockCache.Hits,
		"block_cache_miss_total":                    m.BlockCache.Misses,
		"block_cache_usage_bytes":                   m.BlockCache.Size,
		"bloom_filter_full_positive_total":          m.Filter.Misses,
		"bloom_filter_useful_total":                 m.Filter.Hits,
		"compaction_pending":                        0,
		"compaction_read_bytes_total":               0,
		"compaction_write_bytes_total":              0,
		"cur_size_all_mem_tables_bytes":             int64(m.MemTable.Size) + b.Buffered(),
		"estimate_live_data_size_bytes":             m.Levels[0].TablesSize,
		"estimate_pending_compaction_bytes":         m.Compact.EstimatedDebt,
		"estimate_table_readers_mem_bytes":          m.FileCache.Size,
		"is_write_stopped":                          0,
		"live_sst_files_size_bytes":                 m.Levels[0].TablesSize,
		"mem_table_flush_pending":                   0,
		"num_immutable_mem_table":                   0,
		"num_running_compactions":                   0,
		"num_running_flushes":                       0,
		"num_snapshots":                             1,
		"size_all_mem_tables_bytes":                 int64(m.MemTable.Size+m.MemTable.ZombieSize) + b.Buffered(),
		"stall_seconds_total":                       0,
		"total_sst_files_size_bytes":                m.Levels[0].TablesSize,
		`num_files_at_level{level="0"}`:             1,
		`num_files_at_level{level="6"}`:             0,
		`num_files_at_level{level="3",subtask="1"}`: 0,
		`block_cache_usage_bytes{subtask="1"}`:      0,
	} {
		if got := gathered(t, registry, "drey_pebble_"+name); got != fmt.Sprint(want) {
			t.Errorf("%s: %s, the database says %v", name, got, want)
		}
	}
	// Each backend shows each once, but files for each of seven levels.
	series := func(backends int) {
		t.Helper()
		if n, err := testutil.GatherAndCount(registry); err != nil || n != backends*(len(names)-1+7) {
			t.Errorf("%d series of %d backends: %v", n, backends, err)
		}
	}
	series(2)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	series(1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	series(0)
}

// gathered gives the value of a metric, of subtask 0 unless labels say another.
func gathered(t *testing.T, from prometheus.Gatherer, series string) string {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	want := map[string]string{"operator": "sum", "subtask": "0", "backend": "keyed"}
	for l := range strings.SplitSeq(labels, ",") {
		if k, v, ok := strings.Cut(l, "="); ok {
			want[k] = strings.Trim(v, `"`)
		}
	}
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			same := f.GetName() == name && len(m.GetLabel()) == len(want)
			for _, l := range m.GetLabel() {
				same = same && want[l.GetName()] == l.GetValue()
			}
			if same {
				return fmt.Sprintf("%.10g", m.GetGauge().GetValue()+m.GetCounter().GetValue())
			}
		}
	}
	return "none"
}

// Nothing is shown that isn't chosen, and what Pebble tells when it happens is counted beside what else listens.
func TestMetricsEvents(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var options *db.Options
	heard := 0
	o := pebble.Options[string]{Configure: func(o *db.Options) {
		options = o
		o.AddEventListener(db.EventListener{BackgroundError: func(error) { heard++ }})
	}}
	shown(t, registry, 0, o, "is-write-stopped", "background-errors", "stall-micros")
	expect := func(stopped, errors int) {
		t.Helper()
		want := fmt.Sprintf(`
# HELP drey_pebble_background_errors_total Errors of compactions and flushes.
# TYPE drey_pebble_background_errors_total counter
drey_pebble_background_errors_total{backend="keyed",operator="sum",subtask="0"} %d
# HELP drey_pebble_is_write_stopped 1 while writes wait.
# TYPE drey_pebble_is_write_stopped gauge
drey_pebble_is_write_stopped{backend="keyed",operator="sum",subtask="0"} %d
`, errors, stopped)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "drey_pebble_background_errors_total", "drey_pebble_is_write_stopped"); err != nil {
			t.Error(err)
		}
		if n, err := testutil.GatherAndCount(registry); n != 3 || err != nil {
			t.Errorf("%d series: %v", n, err)
		}
	}
	expect(0, 0)
	options.EventListener.BackgroundError(os.ErrClosed)
	options.EventListener.WriteStallBegin(db.WriteStallBeginInfo{})
	expect(1, 1)
	during := gathered(t, registry, "drey_pebble_stall_seconds_total")
	options.EventListener.WriteStallEnd()
	expect(0, 1)
	after := gathered(t, registry, "drey_pebble_stall_seconds_total")
	if during == "0" || after == "0" || after != gathered(t, registry, "drey_pebble_stall_seconds_total") {
		t.Errorf("writes waited for %s, then for %s", during, after)
	}
	if heard != 1 {
		t.Errorf("the other listener heard %d errors", heard)
	}
}

// Metrics that can't be shown are refused, and a backend that is refused leaves nothing.
func TestMetricsRefused(t *testing.T) {
	registry := prometheus.NewRegistry()
	shown(t, registry, 0, pebble.Options[string]{}, "num-snapshots")
	memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 16 << 20, Backends: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	o := pebble.Options[string]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Memory: memory}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"num-snapshots"}, "metrics: duplicate metrics collector registration attempted"},
		{[]string{"estimate-num-keys"}, `metric "estimate-num-keys": there is none of this name, but background-errors, `},
		{[]string{"is-write-stopped", "is-write-stopped"}, `metric "is-write-stopped": it is there twice`},
	} {
		o.Dir = filepath.Join(t.TempDir(), "db")
		o.Metrics = pebble.MetricsOptions{Registerer: registry, Names: c.names, Operator: "sum", Backend: "keyed"}
		if b, err := pebble.Open(serializer.ForString(), o); err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.names, err)
		}
		if _, err := os.Stat(o.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: its directory: %v", c.names, err)
		}
	}
	o.Metrics = pebble.MetricsOptions{Registerer: registry, Names: []string{"num-snapshots"}, Operator: "sum", Backend: "keyed", Subtask: 1}
	b, err := pebble.Open(serializer.ForString(), o) // has the memory
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if names := pebble.MetricNames(); !slices.IsSorted(names) {
		t.Errorf("not in order: %q", names)
	}
}

// Metrics may be gathered while backends are opened, used and closed.
func TestMetricsWhileClosing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	done := make(chan struct{})
	ended := make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-done:
				ended <- nil
				return
			default:
				_, err = registry.Gather()
			}
		}
		ended <- err
	}()
	for range 10 {
		b, v := shown(t, registry, 0, pebble.Options[string]{}, pebble.MetricNames()...)
		if err := errors.Join(b.SetKey("k"), v.Set(1), b.Close()); err != nil {
			t.Error(err)
		}
	}
	close(done)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
