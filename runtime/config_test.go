package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/incremental"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/rest"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// table is a file of cells that tabs part, without comments.
func table(t *testing.T, name string) [][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}

// documentedKeys begin the keys of which CONFIG.md has each.
var documentedKeys = []string{
	"execution.checkpointing.", "execution.savepoint", "execution.state-recovery.", "restart-strategy", "state.backend.async", "state.backend.local", "state.backend.type",
	"parallelism.", "pipeline.max-parallelism", "io.tmp.dirs", "taskmanager.memory.managed.", "web.checkpoints.history", "state.backend.rocksdb.localdir",
}

// TestConfigTable: the table of CONFIG.md has every key of Flink that is about what is here, with its old spellings, and FromConfig does with it what it says.
func TestConfigTable(t *testing.T) {
	b, err := os.ReadFile("CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ old, standard, here, note string }
	rows := map[string]row{}
	for line := range strings.Lines(string(b)) {
		c := strings.Split(line, "|")
		if len(c) != 7 || !strings.HasPrefix(c[1], " `") {
			continue
		}
		for i := range c {
			c[i] = strings.Trim(c[i], " `")
		}
		if _, ok := rows[c[1]]; ok {
			t.Errorf("%s is there twice", c[1])
		}
		rows[c[1]] = row{strings.ReplaceAll(c[2], "`", ""), c[3], c[4], c[5]}
	}
	settable := map[string]configKey{}
	for _, k := range configKeys() {
		settable[k.key] = k
	}
	counts := map[string]int{}
	spelling := map[string]bool{} // old ones
	for _, o := range table(t, "flink-options.tsv") {
		for k := range strings.FieldsSeq(o[3]) {
			spelling[k] = true
		}
	}
	for _, o := range table(t, "flink-options.tsv") {
		key, standard, old := o[0], o[2], strings.Fields(o[3])
		if !slices.ContainsFunc(documentedKeys, func(p string) bool { return strings.HasPrefix(key, p) }) || spelling[key] && settable[key].key == "" {
			continue
		}
		r, ok := rows[key]
		if !ok {
			t.Errorf("%s is not in the table", key)
			continue
		}
		delete(rows, key)
		if got := strings.Join(old, ", "); r.old != got {
			t.Errorf("%s: old spellings %q, want %q", key, r.old, got)
		}
		if want := strings.TrimPrefix(standard, "null"); r.standard != want {
			t.Errorf("%s: default %q, want %q", key, r.standard, want)
		}
		_, report, err := FromConfig(map[string]string{key: "no such value"})
		if r.here == "none" {
			counts["none"]++
			if r.note == "" || err != nil || !slices.Equal(report.Ignored, []string{key}) || settable[key].key != "" {
				t.Errorf("%s is none: %q, %+v, %v", key, r.note, report, err)
			}
			continue
		}
		counts["option"]++
		if settable[key].key == "" || report.Unknown != nil {
			t.Errorf("%s is %s: %+v, %v", key, r.here, report, err)
		}
		delete(settable, key)
		for _, k := range append([]string{key}, old...) {
			if _, _, err := FromConfig(map[string]string{k: ""}); err == nil || !strings.Contains(err.Error(), k+"=: not ") {
				t.Errorf("%s without a value: %v", k, err)
			}
		}
		for place := range strings.SplitSeq(r.here, ", ") {
			if !fieldExists(strings.Trim(place, "`")) {
				t.Errorf("%s: there is no %s", key, place)
			}
		}
		if standard == "null" {
			continue
		}
		if _, _, err := FromConfig(map[string]string{key: standard}); err != nil {
			t.Errorf("Flink's default is refused: %v", err)
		}
	}
	for key := range maps.Keys(rows) {
		t.Errorf("%s is no key of Flink", key)
	}
	for key := range maps.Keys(settable) {
		t.Errorf("%s has an effect that is not told", key)
	}
	t.Log(counts)
	if counts["option"] != 42 || counts["none"] != 21 {
		t.Errorf("%v", counts)
	}
}

// fieldExists says whether there is such a field of Options, or of the report.
func fieldExists(place string) bool {
	t := reflect.TypeFor[Options]()
	if name, ok := strings.CutPrefix(place, "ConfigReport."); ok {
		t, place = reflect.TypeFor[ConfigReport](), name
	}
	for name := range strings.SplitSeq(place, ".") {
		if t.Kind() != reflect.Struct {
			return strings.HasPrefix(place, "Restart.") // of the strategy
		}
		f, ok := t.FieldByName(name)
		if !ok {
			return false
		}
		t = f.Type
	}
	return true
}

var compareOptions = cmp.Options{cmpopts.IgnoreUnexported(FixedDelay{}, FailureRate{}, Exponential{}), cmpopts.EquateEmpty()}

// TestFromConfig: what is set of each key arrives, whatever its spelling.
func TestFromConfig(t *testing.T) {
	values := map[string]string{
		"state.backend.type":                                        "rocksdb",
		"execution.checkpointing.storage":                           "filesystem",
		"taskmanager.memory.managed.size":                           "512m",
		"io.tmp.dirs":                                               "/data1/tmp,/data2/tmp",
		"parallelism.default":                                       "4",
		"pipeline.max-parallelism":                                  "720",
		"web.checkpoints.history":                                   "20",
		"execution.checkpointing.dir":                               "s3://bucket/ck",
		"execution.checkpointing.savepoint-dir":                     "s3://bucket/sp",
		"execution.checkpointing.interval":                          "10 s",
		"execution.checkpointing.timeout":                           "PT5M",
		"execution.checkpointing.min-pause":                         "500",
		"execution.checkpointing.max-concurrent-checkpoints":        "1",
		"execution.checkpointing.tolerable-failed-checkpoints":      "3",
		"execution.checkpointing.mode":                              "AT_LEAST_ONCE",
		"execution.checkpointing.unaligned.enabled":                 "true",
		"execution.checkpointing.aligned-checkpoint-timeout":        "30 s",
		"execution.checkpointing.incremental":                       "TRUE",
		"execution.checkpointing.snapshot-compression":              "true",
		"execution.checkpointing.data-inline-threshold":             "8kb",
		"execution.checkpointing.num-retained":                      "5",
		"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
		"execution.checkpointing.force":                             "true",
		"execution.checkpointing.local-backup.enabled":              "true",
		"execution.checkpointing.local-backup.dirs":                 "/data1/local,/data2/local",
		"execution.state-recovery.from-local":                       "true",
		"execution.state-recovery.path":                             "s3://bucket/sp/savepoint-1",
		"execution.state-recovery.claim-mode":                       "CLAIM",
		"execution.state-recovery.ignore-unclaimed-state":           "true",
		"restart-strategy.type":                                     "fixed-delay",
		"restart-strategy.fixed-delay.attempts":                     "7",
		"restart-strategy.fixed-delay.delay":                        "2 s",
		"state.backend.rocksdb.thread.num":                          "3",
		"state.backend.rocksdb.timer-service.factory":               "HEAP",
		"state.backend.rocksdb.predefined-options":                  "FLASH_SSD_OPTIMIZED",
		"state.backend.rocksdb.metrics.block-cache-hit":             "true",
	}
	want := Options{
		Parallelism: 4, MaxParallelism: 720, Backend: BackendPebble, WorkDir: "/data1/tmp", CheckpointDir: "s3://bucket/ck", SavepointDir: "s3://bucket/sp",
		Pebble: pebble.Config{
			Memory: pebble.MemoryOptions{Size: 512 << 20}, PerProcess: true, Tuning: pebble.Tuning{Profile: pebble.ProfileFlashSSD, Threads: 3}, Timers: pebble.TimersOnHeap, Metrics: []string{"block-cache-hit"},
		},
		Checkpoints: CheckpointOptions{
			Interval: 10 * time.Second, Timeout: 5 * time.Minute, MinPause: 500 * time.Millisecond, MaxConcurrent: 1, Tolerable: 3, Mode: AtLeastOnce, Unaligned: true,
			AlignedTimeout: 30 * time.Second, Incremental: true, Compress: true, InlineBelow: 8 << 10, Retain: 5, Retention: RetainOnCancellation, History: 20, ForceIterations: true,
		},
		Restore: RestoreOptions{Path: "s3://bucket/sp/savepoint-1", ClaimMode: incremental.Claim, AllowNonRestored: true},
		Restart: &FixedDelay{Attempts: 7, Delay: 2 * time.Second},
	}
	wantReport := ConfigReport{LocalRoots: []string{"/data1/local", "/data2/local"}}
	check := func(name string, flink map[string]string, wantReport ConfigReport) {
		t.Helper()
		o, report, err := FromConfig(flink)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if d := cmp.Diff(want, o, compareOptions); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff(wantReport, report, compareOptions); d != "" {
			t.Errorf("%s: report: %s", name, d)
		}
	}
	check("new spellings", values, wantReport)
	for _, row := range table(t, "flink-options.tsv") {
		value, ok := values[row[0]]
		if !ok {
			continue
		}
		for _, old := range strings.Fields(row[3]) {
			if values[old] != "" {
				break // that one has a meaning of its own, and is stronger than those after it
			}
			flink := maps.Clone(values)
			delete(flink, row[0])
			flink[old] = value
			check(old, flink, wantReport)
			// The new one is stronger, and what the old one says is not even looked at.
			flink[row[0]], flink[old] = value, "nonsense"
			check(row[0]+" with "+old, flink, ConfigReport{LocalRoots: wantReport.LocalRoots, Ignored: []string{old}})
		}
	}

	for name, c := range map[string]struct {
		flink  map[string]string
		want   Options
		report ConfigReport
	}{
		"nothing":             {nil, Options{}, ConfigReport{}},
		"hashmap":             {map[string]string{"state.backend": "HashMap"}, Options{}, ConfigReport{}},
		"jobmanager":          {map[string]string{"state.backend": "jobmanager"}, Options{Checkpoints: CheckpointOptions{InlineOnly: true}}, ConfigReport{}},
		"hashmap, jobmanager": {map[string]string{"state.backend": "hashmap", "state.checkpoint-storage": "jobmanager"}, Options{Checkpoints: CheckpointOptions{InlineOnly: true}}, ConfigReport{}},
		"of jobmanager nothing": {map[string]string{"execution.checkpointing.storage": "jobmanager", "state.backend.fs.memory-threshold": "1k"}, Options{Checkpoints: CheckpointOptions{InlineOnly: true}},
			ConfigReport{Ignored: []string{"state.backend.fs.memory-threshold"}}},
		// The old names of backends mean the storage, too.
		"filesystem": {map[string]string{"state.backend": "filesystem", "execution.checkpointing.storage": "jobmanager"}, Options{}, ConfigReport{Ignored: []string{"execution.checkpointing.storage"}}},
		"of rocksdb": {map[string]string{"state.backend.incremental": "true", "taskmanager.memory.managed.size": "1g", "state.backend.rocksdb.thread.num": "3"}, Options{},
			ConfigReport{Ignored: []string{"state.backend.incremental", "state.backend.rocksdb.thread.num", "taskmanager.memory.managed.size"}}},
		"memory of the slot": {map[string]string{"state.backend": "rocksdb", "taskmanager.memory.managed.size": "1g", "state.backend.rocksdb.memory.fixed-per-slot": "64m"},
			Options{Backend: BackendPebble, Pebble: pebble.Config{Memory: pebble.MemoryOptions{Size: 64 << 20}}}, ConfigReport{Ignored: []string{"taskmanager.memory.managed.size"}}},
		"directory of databases": {map[string]string{"state.backend.rocksdb.localdir": "/fast", "io.tmp.dirs": "/slow", "state.backend.local-recovery": "true"},
			Options{WorkDir: "/fast"}, ConfigReport{LocalRoots: []string{"/fast/localState"}}},
		"file":              {map[string]string{"state.backend.local-recovery": "true", "taskmanager.state.local.root-dirs": "file:///a,file:///b"}, Options{}, ConfigReport{LocalRoots: []string{"file:///a", "file:///b"}}},
		"colons":            {map[string]string{"state.backend.local-recovery": "true", "taskmanager.state.local.root-dirs": "/a:/b"}, Options{}, ConfigReport{LocalRoots: []string{"/a", "/b"}}},
		"copies for nobody": {map[string]string{"execution.checkpointing.local-backup.enabled": "true", "taskmanager.state.local.root-dirs": "/a"}, Options{}, ConfigReport{Ignored: []string{"execution.checkpointing.local-backup.enabled", "taskmanager.state.local.root-dirs"}}},
		"nothing inline":    {map[string]string{"state.storage.fs.memory-threshold": "0"}, Options{Checkpoints: CheckpointOptions{InlineBelow: -1}}, ConfigReport{}},
		"no history":        {map[string]string{"jobmanager.web.checkpoints.history": "0"}, Options{Checkpoints: CheckpointOptions{History: -1}}, ConfigReport{}},
		"no restart":        {map[string]string{"restart-strategy": "off", "restart-strategy.fixed-delay.attempts": "3"}, Options{Restart: NoRestart{}}, ConfigReport{Ignored: []string{"restart-strategy.fixed-delay.attempts"}}},
		"no type":           {map[string]string{"restart-strategy.exponential-delay.max-backoff": "2 min"}, Options{}, ConfigReport{Ignored: []string{"restart-strategy.exponential-delay.max-backoff"}}},
		"failure rate": {map[string]string{"restart-strategy": "failure-rate", "restart-strategy.failure-rate.max-failures-per-interval": "3", "restart-strategy.failure-rate.failure-rate-interval": "5 min"},
			Options{Restart: &FailureRate{Max: 3, Interval: 5 * time.Minute, Delay: time.Second}}, ConfigReport{}},
		"exponential": {map[string]string{
			"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.initial-backoff": "2 s", "restart-strategy.exponential-delay.max-backoff": "1 h",
			"restart-strategy.exponential-delay.backoff-multiplier": "3", "restart-strategy.exponential-delay.reset-backoff-threshold": "2 h",
			"restart-strategy.exponential-delay.jitter-factor": "0", "restart-strategy.exponential-delay.attempts-before-reset-backoff": "9",
		}, Options{Restart: &Exponential{Initial: 2 * time.Second, Max: time.Hour, Multiplier: 3, Reset: 2 * time.Hour, Attempts: 9}}, ConfigReport{}},
		"defaults": {map[string]string{"restart-strategy.type": "exponentialdelay", "restart-strategy.exponential-delay.attempts-before-reset-backoff": "2147483647"},
			Options{Restart: &Exponential{Initial: time.Second, Max: time.Minute, Multiplier: 1.5, Reset: time.Hour, Jitter: 0.1}}, ConfigReport{}},
		"not here": {map[string]string{
			"jobmanager.rpc.address": "localhost", "kubernetes.cluster-id": "x", "metrics.reporter.prom.factory.class": "x", "state.backend.rocksdb.log.level": "INFO_LEVEL", "execution.checkpointing.unaligned.forced": "true",
			"execution.checkpointing.intervall": "1 s", "state.backend.rocksdb.threads": "4",
		}, Options{}, ConfigReport{
			Unknown: []string{"execution.checkpointing.intervall", "state.backend.rocksdb.threads"},
			Ignored: []string{"execution.checkpointing.unaligned.forced", "jobmanager.rpc.address", "kubernetes.cluster-id", "metrics.reporter.prom.factory.class", "state.backend.rocksdb.log.level"},
		}},
	} {
		want = c.want
		check(name, c.flink, c.report)
	}

	_, _, err := FromConfig(map[string]string{
		"state.backend": "forst", "execution.checkpointing.interval": "soon", "execution.checkpointing.num-retained": "0", "state.backend.rocksdb.thread.num": "none", "parallelism.default": "40000",
		"restart-strategy": "exponential-delay", "restart-strategy.exponential-delay.initial-backoff": "2 min",
	})
	for _, s := range []string{
		"state.backend=forst: not one of hashmap, rocksdb, filesystem, jobmanager", "execution.checkpointing.interval=soon: not a duration of at least 10ms",
		"execution.checkpointing.num-retained=0: not a number from 1", "state.backend.rocksdb.thread.num=none: not a number", "parallelism.default=40000: not a number from 1 to 32768",
		"initial-backoff=2m0s: more than restart-strategy.exponential-delay.max-backoff=1m0s",
	} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%v: it doesn't say %q", err, s)
		}
	}
}

// TestConfigReport: without the keys that are told to change nothing the options are the same, and nothing is told.
func TestConfigReport(t *testing.T) {
	values := map[string][]string{"no.such.key": {"1"}, "state.backend.rocksdb.nothing": {"2"}, "s3.access-key": {"x"}}
	for _, row := range table(t, "flink-options.tsv") {
		if !slices.ContainsFunc(append(documentedKeys, "state.backend.rocksdb."), func(p string) bool { return strings.HasPrefix(row[0], p) }) {
			continue
		}
		for _, k := range append([]string{row[0]}, strings.Fields(row[3])...) {
			for _, v := range []string{
				"true", "false", "1", "2", "0.5", "10 s", "64mb", "/a,/b", "rocksdb", "jobmanager", "filesystem", "none", "fixed-delay", "failure-rate", "exponential-delay", "CLAIM", "AT_LEAST_ONCE",
			} {
				if _, _, err := FromConfig(map[string]string{k: v}); err == nil {
					values[k] = append(values[k], v)
				}
			}
		}
	}
	keys := slices.Sorted(maps.Keys(values))
	rapid.Check(t, func(t *rapid.T) {
		flink := map[string]string{}
		for _, k := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 40).Draw(t, "keys") {
			flink[k] = rapid.SampledFrom(values[k]).Draw(t, k)
		}
		o, report, err := FromConfig(flink)
		if err != nil {
			if o.CheckpointDir != "" || report.Ignored != nil {
				t.Fatalf("an error, and %+v, %+v", o, report)
			}
			return // two keys are at odds
		}
		told := append(slices.Clone(report.Unknown), report.Ignored...)
		rest := maps.Clone(flink)
		for _, k := range told {
			if _, ok := rest[k]; !ok {
				t.Fatalf("%s is told twice, or was not there", k)
			}
			delete(rest, k)
		}
		again, empty, err := FromConfig(rest)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(o, again, compareOptions); d != "" {
			t.Fatalf("%v change something: %s", told, d)
		}
		if d := cmp.Diff(ConfigReport{LocalRoots: report.LocalRoots}, empty, compareOptions); d != "" {
			t.Fatalf("without %v: %s", told, d)
		}
	})
}

// TestFlinkValues: durations, sizes and limits are read as Flink's own classes read them.
func TestFlinkValues(t *testing.T) {
	for _, row := range table(t, "testdata/flink-values.tsv") {
		kind, want := row[0], row[2]
		var text string
		if err := json.Unmarshal([]byte(row[1]), &text); err != nil {
			t.Fatal(err)
		}
		trimmed := strings.TrimSpace(text)
		got := "error"
		switch kind {
		case "duration":
			if seconds, ok := new(big.Rat).SetString(want); ok && seconds.Cmp(big.NewRat(math.MaxInt64, 1e9)) > 0 {
				want = "error" // Go's durations end after 292 years
			}
			if d, ok := parseDuration(trimmed); ok {
				got = fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
			}
		case "size":
			if n, ok := pebble.ParseSize(trimmed); ok {
				got = fmt.Sprint(n)
			}
		default:
			flink := map[string]string{}
			words := strings.SplitN(text, " ", 3)
			if kind == "checkpointing" {
				flink["execution.checkpointing."+words[0]] = words[1]
			} else if flink["restart-strategy.type"] = words[0]; len(words) > 1 {
				flink["restart-strategy."+words[1]] = words[2]
			}
			if _, _, err := FromConfig(flink); err == nil {
				got = "ok"
			}
		}
		if got != want {
			t.Errorf("%s %q: %s, and %s in Flink", kind, text, got, want)
		}
	}
}

// TestReadConfig: files are read as Flink reads them, and what it would pass over is an error.
func TestReadConfig(t *testing.T) {
	for dir, truth := range map[string]string{"testdata/conf/lines": "flink-conf.tsv", "testdata/conf/yaml": "config.tsv"} {
		c, err := ReadConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, row := range table(t, dir+"/"+truth) {
			want[row[0]] = strings.ReplaceAll(row[1], `\n`, "\n")
		}
		if d := cmp.Diff(want, c); d != "" {
			t.Errorf("%s: %s", dir, d)
		}
	}
	for name, c := range map[string]struct{ file, content, want string }{
		"no space":       {"flink-conf.yaml", "a: 1\nsecret:5\n", `line 2 is not of the form "key: value"`},
		"no value":       {"flink-conf.yaml", "a:\nb: \n", "line 2 is not"},
		"twice":          {"config.yaml", "a: 1\na: 2\n", "line 2: a is there twice"},
		"twice, flat":    {"config.yaml", "a.b: 1\na:\n  b: 2\n", "line 3: a.b is there twice"},
		"null":           {"config.yaml", "a:\n  b: ~\n", "line 2: a.b has no value"},
		"list":           {"config.yaml", "- a\n", "no map"},
		"list of maps":   {"config.yaml", "a: [{b: 1}]\n", "a list of more than texts"},
		"map as key":     {"config.yaml", "? {a: 1}\n: 2\n", "a key is no text"},
		"two documents":  {"config.yaml", "a: 1\n---\nb: 2\n", "more than one document"},
		"alias":          {"config.yaml", "a: &x 1\nb: *x\n", "write out what the alias *x stands for"},
		"not YAML":       {"config.yaml", "a: [\n", "did not find"},
		"deep":           {"config.yaml", strings.Repeat("{abcdefghij: ", 200) + "1" + strings.Repeat("}", 200), "a key of more than 1024 bytes"},
		"too large":      {"config.yaml", "a: " + strings.Repeat("x", 1<<20), "more than 1048576 bytes"},
		"there is none":  {"", "", "no such file"},
		"other name":     {"job.yml", "a: {b: 1\n", "did not find"},
		"secret is safe": {"flink-conf.yaml", "s3.secret-key:hunter2\n", "line 1 is not"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if c.file != "" {
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ReadConfig(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, content := range []string{"", "# nothing\n", "---\n"} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := ReadConfig(path); err != nil || len(c) != 0 {
			t.Errorf("%q: %v, %v", content, c, err)
		}
	}
}

// TestParseConfig: any texts in quotes, as in JSON, come back as they were, and what is neither YAML nor lines is an error at most.
func TestParseConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.StringOf(rapid.RuneFrom([]rune("\n\t\"\\ :#"), unicode.L, unicode.N, unicode.P))
		want := rapid.MapOf(texts, texts).Draw(t, "texts")
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseYAML(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		text := rapid.SliceOf(rapid.SampledFrom([]string{"a", ":", " ", "\n", "- ", "{", "}", "[", "]", "#", "&x", "*x", "!!int ", "<<", "?", "'", "~", "\t", "|", "0x", "\xff", "---\n"})).Draw(t, "text")
		for _, parse := range []func([]byte) (map[string]string, error){parseYAML, parseLines} {
			if c, err := parse([]byte(strings.Join(text, ""))); (c == nil) != (err != nil) {
				t.Fatalf("%v, %v", c, err)
			}
		}
	})
}

// TestConfiguredJob runs a job from a file: rocksdb is Pebble, which the log says, with its metrics, and copies for local recovery are kept.
func TestConfiguredJob(t *testing.T) {
	in(t, 600, func(b *bench) {
		local := b.t.TempDir()
		path := filepath.Join(b.t.TempDir(), "config.yaml")
		content := fmt.Sprintf(`
state.backend.type: rocksdb
state.backend.rocksdb.metrics.block-cache-hit: true
state.backend.local-recovery: true
taskmanager.state.local.root-dirs: %s
taskmanager.numberOfTaskSlots: 4
no.such.key: 1
execution.checkpointing:
  dir: mem:///checkpoints
  interval: 100 ms
`, local)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.t.Fatal(err)
		}
		flink, err := ReadConfig(path)
		if err != nil {
			b.t.Fatal(err)
		}
		o, report, err := FromConfig(flink)
		if err != nil {
			b.t.Fatal(err)
		}
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, nil))
		report.Log(log)
		for _, s := range []string{"keys=[no.such.key]", "keys=[taskmanager.numberOfTaskSlots]"} {
			if !strings.Contains(text.String(), s) {
				b.t.Errorf("the log doesn't say %s: %s", s, text.String())
			}
		}
		registry := prometheus.NewRegistry()
		o.FS, o.Logger, o.Registerer, o.WorkDir = b.fs, log, registry, b.t.TempDir()
		if o.Local, err = report.OpenLocal(log); err != nil {
			b.t.Fatal(err)
		}
		defer func() {
			if err := o.Local.Close(); err != nil {
				b.t.Error(err)
			}
		}()
		b.o = o
		x := b.start()
		time.Sleep(350 * time.Millisecond)
		families, err := registry.Gather()
		var names []string
		for _, f := range families {
			names = append(names, f.GetName())
		}
		if err != nil || !slices.Contains(names, "drey_pebble_block_cache_hit_total") {
			b.t.Errorf("no metrics of the database: %v, %v", names, err)
		}
		if entries, err := os.ReadDir(local); err != nil || len(entries) == 0 {
			b.t.Errorf("no local copies: %v, %v", entries, err)
		}
		b.finish(x)
		if !strings.Contains(text.String(), "Pebble, which has the place of Flink's backend rocksdb") {
			b.t.Errorf("the log doesn't say it: %s", text.String())
		}
	})
	if s, err := (ConfigReport{}).OpenLocal(nil); s != nil || err != nil {
		t.Errorf("local recovery is off: %v, %v", s, err)
	}
}

// TestInlineOnly: as with Flink's backend jobmanager all state is in the metadata, of checkpoints and of savepoints, and one that is too large is refused.
func TestInlineOnly(t *testing.T) {
	for _, held := range []Backend{BackendHeap, BackendPebble} {
		in(t, 900, func(b *bench) {
			b.delay.Store(int64(time.Millisecond))
			b.o.Backend, b.o.WorkDir = held, b.t.TempDir()
			b.o.Checkpoints.InlineOnly, b.o.Checkpoints.InlineBelow = true, -1
			b.o.Restart = &FixedDelay{Attempts: 1, Delay: time.Second}
			x := b.start()
			time.Sleep(250 * time.Millisecond)
			s, err := x.Savepoint(b.t.Context(), "", SavepointOptions{})
			if err != nil {
				b.t.Fatal(err)
			}
			if _, c, err := (&Server{}).checkpointConfig(x, nil); err != nil || c.(rest.CheckpointConfig).Storage != "JobManagerCheckpointStorage" {
				b.t.Errorf("%+v, %v", c, err)
			}
			x.kill(func(int) int { return 0 })
			for _, dir := range []string{"mem:///checkpoints", s.Path} {
				for info, err := range b.fs.List(b.t.Context(), dir) {
					if err != nil || storage.Base(info.URI) != metadata.FileName {
						b.t.Errorf("%s, %v", info.URI, err)
					}
				}
			}
			time.Sleep(2 * time.Second)
			b.finish(x)
		})
	}
	in(t, 3, func(b *bench) {
		b.o.Checkpoints.InlineOnly, b.o.Restart = true, NoRestart{}
		j := NewJob("large")
		src := From(j, Op{UID: "clicks"}, b.l, clicks, SourceOptions[click]{})
		Collect(Process(KeyBy(src, serializer.ForString(), func(c click) string { return c.F0 }), Op{UID: "large"}, serializer.ForString(), func() Processor[string, click, string] { return &hoarder{size: 6 << 20} }),
			Op{UID: "out"}, &Collection[string]{})
		x, err := Start(b.t.Context(), j, b.o)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := x.Wait(b.t.Context()); !errors.Is(err, ErrInlineSize) || !strings.Contains(err.Error(), `large`) {
			b.t.Errorf("%v", err)
		}
	})
	o := Options{Backend: BackendPebble, Checkpoints: CheckpointOptions{InlineOnly: true, Incremental: true}}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "incremental checkpoints have files of their own") {
		t.Errorf("incremental: %v", err)
	}
}

// hoarder has a value of so many bytes for each key.
type hoarder struct {
	size int
	v    backend.Value[struct{}, string]
}

func (h *hoarder) Open(b backend.Keyed[string], _ *backend.Operator) (err error) {
	h.v, err = state.OpenValue(b, backend.Descriptor[struct{}, string]{Name: "value", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForString()})
	return err
}

func (h *hoarder) Process(_ *Context[string, string], _ click) error {
	return h.v.Set(strings.Repeat("x", h.size))
}

func (h *hoarder) OnTimer(*Context[string, string], Timer) error { return nil }

// TestHistory: so many checkpoints are remembered.
func TestHistory(t *testing.T) {
	for history, want := range map[int]int{0: 10, 3: 3, -1: 0} {
		in(t, 100, func(b *bench) {
			b.o.Checkpoints.History = history
			x := b.start()
			time.Sleep(1550 * time.Millisecond)
			stats, err := x.Checkpoints(b.t.Context())
			if err != nil || len(stats) != want {
				b.t.Errorf("%d are remembered, want %d: %v", len(stats), want, err)
			}
			b.finish(x)
		})
	}
}
