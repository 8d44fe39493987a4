package pebble_test

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	db "github.com/cockroachdb/pebble/v2"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/serializer"
)

const prefix = "state.backend.rocksdb."

// lines are those of a file of testdata, without comments, by their tabs.
func lines(t *testing.T, name string) [][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if !strings.HasPrefix(s.Text(), "#") {
			all = append(all, strings.Split(s.Text(), "\t"))
		}
	}
	return all
}

// documented is the table of CONFIG.md: what each key is here.
func documented(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], " `"+prefix) {
			continue
		}
		key, here := strings.Trim(cells[1], " `"), strings.Trim(cells[3], " `")
		if _, ok := table[key]; ok {
			t.Errorf("%s is there twice", key)
		}
		if strings.TrimSpace(cells[4]) == "" && here == "none" {
			t.Errorf("%s: it doesn't say why", key)
		}
		table[key] = here
	}
	return table
}

// The table of CONFIG.md has every key of Flink, and FromConfig does with it what it says.
func TestConfigTable(t *testing.T) {
	table := documented(t)
	counts := map[string]int{}
	for _, o := range lines(t, "flink-options.tsv") {
		key, standard := o[0], o[2]
		here, ok := table[key]
		if !ok {
			t.Errorf("%s is not in the table", key)
			continue
		}
		delete(table, key)
		if standard == "null" {
			standard = "64 mb"
		}
		c, err := pebble.FromConfig(map[string]string{key: standard})
		if err != nil {
			t.Errorf("Flink's default is refused: %v", err)
		}
		_, wrong := pebble.FromConfig(map[string]string{key: "no such value"})
		ignored := slices.Equal(c.Ignored, []string{key})
		switch field, isField := strings.CutPrefix(here, "Tuning."); {
		case here == "none":
			counts["none"]++
			if !ignored || wrong != nil {
				t.Errorf("%s is none: %+v, %v", key, c, wrong)
			}
			continue
		case strings.HasPrefix(here, "drey_pebble_"):
			counts["metric"]++
			c, err := pebble.FromConfig(map[string]string{key: "true"})
			if err != nil || !slices.Equal(c.Metrics, []string{strings.TrimPrefix(key, prefix+"metrics.")}) {
				t.Errorf("%s: %+v, %v", key, c, err)
			}
		case isField:
			counts["option"]++
			if _, ok := reflect.TypeFor[pebble.Tuning]().FieldByName(field); !ok {
				t.Errorf("%s: there is no %s", key, here)
			}
		case strings.HasPrefix(here, "MemoryOptions."):
			counts["option"]++
			if _, ok := reflect.TypeFor[pebble.MemoryOptions]().FieldByName(strings.TrimPrefix(here, "MemoryOptions.")); !ok {
				t.Errorf("%s: there is no %s", key, here)
			}
		case here == "Options.Timers", here == "Options.Transfers":
			counts["option"]++
		case here == "checked":
			counts["checked"]++
		default:
			t.Errorf("%s: %s is nothing that there is", key, here)
		}
		if c.Ignored != nil {
			t.Errorf("%s is ignored, but is %s", key, here)
		}
		if wrong == nil || !strings.Contains(wrong.Error(), key+"=no such value: not ") {
			t.Errorf("%s: a wrong value: %v", key, wrong)
		}
	}
	for key := range table {
		t.Errorf("%s is no key of Flink", key)
	}
	t.Log(counts)
	if want := map[string]int{"none": 40, "metric": 25, "option": 18, "checked": 2}; !maps.Equal(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
}

// What is set of each key arrives.
func TestFromConfig(t *testing.T) {
	c, err := pebble.FromConfig(map[string]string{
		"parallelism.default":                             "4",
		"state.backend.type":                              "rocksdb",
		prefix + "block.blocksize":                        "16 kb",
		prefix + "block.metadata-blocksize":               "8kb",
		prefix + "bloom-filter.bits-per-key":              "12.4",
		prefix + "compaction.level.max-size-level-base":   "512mb",
		prefix + "compaction.level.target-file-size-base": "32 mb",
		prefix + "compaction.style":                       "level",
		prefix + "compression.per.level":                  "NO_COMPRESSION;SNAPPY_COMPRESSION;zstd_compression",
		prefix + "files.open":                             "500",
		prefix + "localdir":                               "/tmp/x",
		prefix + "log.level":                              "INFO_LEVEL",
		prefix + "memory.fixed-per-slot":                  "128 mb",
		prefix + "memory.fixed-per-tm":                    "1g",
		prefix + "memory.high-prio-pool-ratio":            "0.2",
		prefix + "memory.write-buffer-ratio":              "0.4",
		prefix + "metrics.num-snapshots":                  "TRUE",
		prefix + "metrics.block-cache-hit":                "true",
		prefix + "metrics.block-cache-miss":               "false",
		prefix + "predefined-options":                     "FLASH_SSD_OPTIMIZED",
		prefix + "thread.num":                             " 3 ",
		prefix + "use-bloom-filter":                       "true",
		prefix + "writebuffer.count":                      "3",
		prefix + "writebuffer.size":                       "8mb",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := pebble.Config{
		Memory: pebble.MemoryOptions{Size: 128 << 20, WriteBufferRatio: 0.4, OpenFiles: 500},
		Tuning: pebble.Tuning{
			Profile: pebble.ProfileFlashSSD, BlockSize: 16 << 10, IndexBlock: 8 << 10, BloomBits: 12, LevelBase: 512 << 20, FileSize: 32 << 20,
			Compression: []pebble.Compression{pebble.Uncompressed, pebble.Snappy, pebble.Zstd}, Threads: 3, WriteBuffer: 8 << 20, WriteBuffers: 3,
		},
		Metrics: []string{"block-cache-hit", "num-snapshots"},
		Ignored: []string{prefix + "localdir", prefix + "log.level"},
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	memory, err := pebble.NewMemory(c.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	o, buffer := opened(t, memory, c.Tuning)
	if lower, upper := o.CompactionConcurrencyRange(); lower != 1 || upper != 3 {
		t.Errorf("%d to %d compactions", lower, upper)
	}
	for i, l := range o.Levels {
		wantCompression := []string{"NoCompression", "Snappy", "ZSTD"}[min(i, 2)]
		wantFilter := i < len(o.Levels)-1
		if l.BlockSize != 16<<10 || l.IndexBlockSize != 8<<10 || l.Compression().Name != wantCompression || (l.FilterPolicy != db.NoFilterPolicy) != wantFilter {
			t.Errorf("level %d: %+v, %s", i, l, l.Compression().Name)
		}
	}
	// A quarter of 128 MiB * 0.4, for three write buffers, one that is read and one of the database's own.
	if want := 128 << 20 * 4 / 10 / 4 / 5; buffer != want || o.MemTableSize != uint64(want/4) || o.MemTableStopWritesThreshold != 2*4 || o.LBaseMaxBytes != 512<<20 || o.TargetFileSizes[1] != 32<<20 || o.TargetFileSizes[6] != 32<<20 {
		t.Errorf("%v", o)
	}

	for name, c := range map[string]struct {
		flink map[string]string
		want  pebble.Config
	}{
		"of the process":         {map[string]string{"memory.fixed-per-tm": "1g"}, pebble.Config{Memory: pebble.MemoryOptions{Size: 1 << 30}, PerProcess: true}},
		"no filters":             {map[string]string{"bloom-filter.bits-per-key": "5", "use-bloom-filter": "false"}, pebble.Config{Tuning: pebble.Tuning{BloomBits: -1}}},
		"timers on the heap":     {map[string]string{"timer-service.factory": "heap"}, pebble.Config{Timers: pebble.TimersOnHeap}},
		"timers in the database": {map[string]string{"timer-service.factory": "ROCKSDB"}, pebble.Config{}},
		"one index": {
			map[string]string{"block.metadata-blocksize": "8k", "memory.partitioned-index-filters": "false"},
			pebble.Config{Tuning: pebble.Tuning{IndexBlock: 1<<31 - 1}},
		},
		"a list of YAML": {
			map[string]string{"compression.per.level": "[NO_COMPRESSION, ZSTD_COMPRESSION]"},
			pebble.Config{Tuning: pebble.Tuning{Compression: []pebble.Compression{pebble.Uncompressed, pebble.Zstd}}},
		},
		"nothing": {nil, pebble.Config{}},
	} {
		flink := map[string]string{}
		for k, v := range c.flink {
			flink[prefix+k] = v
		}
		got, err := pebble.FromConfig(flink)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// opened gives the options that a database of the tuning is opened with.
func opened(t *testing.T, memory *pebble.Memory, tuning pebble.Tuning) (*db.Options, int) {
	t.Helper()
	var options *db.Options
	b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
		MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Dir: filepath.Join(t.TempDir(), "db"), Memory: memory,
		Tuning: tuning, Configure: func(o *db.Options) { options = o },
	})
	if err != nil {
		t.Fatal(err)
	}
	buffer := b.WriteBuffer()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return options, buffer
}

// Profiles set what Flink's set, as far as there are keys for it.
func TestProfiles(t *testing.T) {
	flink := map[string]map[string]string{"DEFAULT": {}}
	for _, l := range lines(t, "flink-profiles.tsv") {
		if flink[l[0]] == nil {
			flink[l[0]] = map[string]string{}
		}
		flink[l[0]][l[1]] = l[2]
	}
	if len(flink) != 4 {
		t.Fatalf("%d profiles", len(flink))
	}
	for name, keys := range flink {
		single, err := pebble.FromConfig(keys)
		if err != nil {
			t.Fatal(err)
		}
		profile, err := pebble.FromConfig(map[string]string{prefix + "predefined-options": name})
		if err != nil {
			t.Fatal(err)
		}
		memory, err := pebble.NewMemory(pebble.MemoryOptions{Size: 1 << 30, Backends: 1})
		if err != nil {
			t.Fatal(err)
		}
		want, wantBuffer := opened(t, memory, single.Tuning)
		got, buffer := opened(t, memory, profile.Tuning)
		if want.String() != got.String() || wantBuffer != buffer {
			t.Errorf("%s: %s", name, cmp.Diff(want.String(), got.String()))
		}
		_, wantThreads := want.CompactionConcurrencyRange()
		if _, threads := got.CompactionConcurrencyRange(); threads != wantThreads {
			t.Errorf("%s: %d threads, want %d", name, threads, wantThreads)
		}
		if name == "SPINNING_DISK_OPTIMIZED_HIGH_MEM" && buffer != 64<<20 {
			t.Errorf("%s: write buffers of %d bytes", name, buffer)
		}
		memory.Close()
	}
}

// Sizes are read as Flink's MemorySize.parse reads them; what it gave and refused is here as its class said.
func TestConfigSizes(t *testing.T) {
	for value, want := range map[string]int64{
		"67108864": 67108864, "64 mb": 67108864, "64mb": 67108864, "64m": 67108864, "64 MB": 67108864, " 64 mb ": 67108864,
		"64 mebibytes": 67108864, "67108864 bytes": 67108864, "67108864b": 67108864, "65536kb": 67108864, "65536 kibibytes": 67108864,
		"2g": 2147483648, "2 gb": 2147483648, "2 gibibytes": 2147483648, "1t": 1099511627776, "1tb": 1099511627776, "1 tebibytes": 1099511627776,
		"9223372036854775807": 9223372036854775807, "8388607 tb": 9223370937343148032, "64\tmb": 67108864,
	} {
		c, err := pebble.FromConfig(map[string]string{prefix + "compaction.level.max-size-level-base": value})
		if err != nil || c.Tuning.LevelBase != want {
			t.Errorf("%q: %d, %v", value, c.Tuning.LevelBase, err)
		}
	}
	for _, value := range []string{"-1", "", "mb", "1.5mb", "1 xb", "9223372036854775808", "8388608 tb", "1 0 mb"} {
		if c, err := pebble.FromConfig(map[string]string{prefix + "compaction.level.max-size-level-base": value}); err == nil {
			t.Errorf("%q: %d", value, c.Tuning.LevelBase)
		}
	}
}

// What can't be is refused with its key, its value and what can be.
func TestFromConfigRefuses(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"memory.write-buffer-ratio", "-0.5", "memory.write-buffer-ratio=-0.5: not a number between 0 and 1"},
		{"memory.write-buffer-ratio", "0", "memory.write-buffer-ratio=0: not a number between 0 and 1"},
		{"memory.write-buffer-ratio", "1", "not a number between 0 and 1"},
		{"memory.write-buffer-ratio", "NaN", "memory.write-buffer-ratio=NaN: not a number between 0 and 1"},
		{"memory.write-buffer-ratio", "Inf", "not a number between 0 and 1"},
		{"memory.write-buffer-ratio", "1e-300", "it must be at least"},
		{"memory.high-prio-pool-ratio", "-0.1", "memory.high-prio-pool-ratio=-0.1: not a number between 0 and 1"},
		{"memory.fixed-per-slot", "0", "memory.fixed-per-slot=0: not a size of at least 1 bytes, such as 64mb"},
		{"memory.fixed-per-slot", "100 kb", "memory.fixed-per-slot=100 kb, state.backend.rocksdb.memory.write-buffer-ratio=: memory of 102400 bytes: it must be at least 1048577 for"},
		{"memory.fixed-per-slot", "-64mb", "not a size of at least 1 bytes"},
		{"memory.fixed-per-slot", "lots", "memory.fixed-per-slot=lots: not a size"},
		{"block.blocksize", "0", "block.blocksize=0: not a size from 1024 to 16777216 bytes, such as 64kb"},
		{"block.blocksize", "3g", "not a size from 1024 to 16777216 bytes"},
		{"bloom-filter.bits-per-key", "1e9", "not a number between 0 and 64"},
		{"compaction.style", "UNIVERSAL", "compaction.style=UNIVERSAL: not LEVEL, the only one that Pebble has"},
		{"compression.per.level", "LZ4_COMPRESSION", "not a list, separated by semicolons, of NO_COMPRESSION, SNAPPY_COMPRESSION and ZSTD_COMPRESSION"},
		{"compression.per.level", ";", "compression.per.level=;: not a list"},
		{"files.open", "0", "files.open=0: not -1 or a number from 1 to 1048576"},
		{"files.open", "-2", "files.open=-2: not -1"},
		{"files.open", "99999999999999999999", "not -1 or a number"},
		{"predefined-options", "flash", "predefined-options=flash: not one of DEFAULT, SPINNING_DISK_OPTIMIZED, SPINNING_DISK_OPTIMIZED_HIGH_MEM, FLASH_SSD_OPTIMIZED"},
		{"thread.num", "0", "thread.num=0: not a number from 1 to 1024"},
		{"thread.num", "", "thread.num=: not a number"},
		{"use-bloom-filter", "yes", "use-bloom-filter=yes: not true or false"},
		{"writebuffer.count", "1", "writebuffer.count=1: not a number from 2 to 1024"},
		{"writebuffer.size", "3 gb", "writebuffer.size=3 gb: not a size from 65536 to 2147483648 bytes"},
		{"metrics.num-snapshots", "1", "metrics.num-snapshots=1: not true or false"},
		{"metrics.nothing", "true", "metrics.nothing=true: there is no such key in Flink 1.20 and 2.3"},
		{"ttl.compaction.filter.enabled", "true", "there is no such key"},
		{"", "", "state.backend.rocksdb.=: there is no such key"},
	} {
		got, err := pebble.FromConfig(map[string]string{prefix + c.key: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), prefix+c.key) || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s=%s: %v", c.key, c.value, err)
		}
	}
	_, err := pebble.FromConfig(map[string]string{prefix + "memory.write-buffer-ratio": "0.7", prefix + "memory.high-prio-pool-ratio": "0.4"})
	want := "state.backend.rocksdb.memory.write-buffer-ratio=0.7 and state.backend.rocksdb.memory.high-prio-pool-ratio=0.4: more than 1 together"
	if err == nil || err.Error() != want {
		t.Errorf("ratios: %v", err)
	}
	if _, err := pebble.FromConfig(map[string]string{prefix + "memory.write-buffer-ratio": "0.5", prefix + "memory.high-prio-pool-ratio": "0.5"}); err != nil {
		t.Errorf("ratios of 1 together, which Flink takes: %v", err)
	}
	_, err = pebble.FromConfig(map[string]string{prefix + "thread.num": "x", prefix + "files.open": "y"})
	if got := fmt.Sprint(err); !strings.Contains(got, "files.open=y") || !strings.Contains(got, "thread.num=x") {
		t.Errorf("not all that is wrong: %v", err)
	}
}

// No configuration makes it panic, and what it takes can be opened or is refused.
func FuzzFromConfig(f *testing.F) {
	for _, o := range [][2]string{
		{"block.blocksize", "1kb"}, {"block.metadata-blocksize", "16mb"}, {"bloom-filter.bits-per-key", "0.1"}, {"compaction.level.max-size-level-base", "8388607 tb"},
		{"compaction.level.target-file-size-base", "8388607 tb"}, {"files.open", "1"}, {"writebuffer.count", "1024"}, {"writebuffer.size", "64k"}, {"memory.fixed-per-slot", "2 mb"},
		{"memory.fixed-per-tm", "8388607 tb"}, {"memory.write-buffer-ratio", "0.999999"}, {"thread.num", "1024"}, {"compression.per.level", "ZSTD_COMPRESSION"},
	} {
		f.Add(o[0], o[1])
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		c, err := pebble.FromConfig(map[string]string{prefix + key: value})
		if err != nil {
			if !reflect.ValueOf(c).IsZero() {
				t.Errorf("%+v, %v", c, err)
			}
			return
		}
		c.Memory.Size = min(c.Memory.Size, 64<<20) // what there is here
		memory, err := pebble.NewMemory(c.Memory)
		if err != nil {
			t.Skip(err)
		}
		defer memory.Close()
		b, err := pebble.Open(serializer.ForString(), pebble.Options[string]{
			MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Dir: filepath.Join(t.TempDir(), "db"), Memory: memory, Tuning: c.Tuning,
		})
		if err != nil {
			if !strings.Contains(err.Error(), "write buffers in") {
				t.Errorf("%s=%s was taken, but: %v", key, value, err)
			}
			return
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
