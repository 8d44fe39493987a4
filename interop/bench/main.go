//go:build linux

// Command bench measures drey on what the Java program beside it measures
// Flink on, with the same clocks and laps, and prints the same JSON lines.
// README.md describes both.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drey-state/drey/metadata"
)

const usage = `usage: bench meta SECONDS FILE...   load, map and store these _metadata files, in laps
       bench peak none|load|map|store FILE   do it once, print the process's peak memory
       bench table LINES...            the Markdown table of the lines that both sides printed
       bench unpack SNAPSHOT DIR       the RocksDB of each subtask of an incremental checkpoint as a directory
       bench rocks SECONDS DIR         scan the RocksDBs below DIR, in laps
       bench exec WHAT PATH ENTRIES COMMAND...   run a process that reads PATH, print its CPU time and peak memory
       bench state-table LINES...      the Markdown tables of run-state.sh
       bench state heap|pebble WORKDIR REGEX LAPS CALLS   state access on a backend, in laps of that many calls
       bench snap heap|pebble WORKDIR KEYS LAPS   snapshots and restores of a backend
       bench backend-table LINES...    the Markdown tables of run-backend.sh
       bench incremental WORKDIR KEYS LAPS   incremental checkpoints, and restores from them
       bench incremental-table LINES...   the Markdown tables of run-incremental.sh
       bench restore WORKDIR ENDPOINT S3-URI MB LAPS TABLE-MB   restores of a state from a local copy, from S3, from a canonical savepoint; 0 is the default
       bench restore-table LINES...    the Markdown table of run-restore.sh
       bench job count|window heap|pebble PARALLELISM RECORDS KEYS CHECKPOINT-MS LAPS WORKDIR   a job of the runtime
       bench job-table LINES...        the Markdown table of run-job.sh
       bench convert SNAPSHOT TARGET canonical|native-heap|native-rocksdb MAX-PARALLELISM   write a savepoint anew, and print what the process took
       bench convert-table LINES...    the Markdown table of run-convert.sh
       bench depot [OPTIONS] ROOT      make a tree of checkpoints, on local disk or S3; -h for the options
       bench audit [OPTIONS] DREY ROOT measure drey audit and drey gc on such a tree, beside bare listings`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 3 && args[0] == "meta":
		seconds, err := strconv.ParseFloat(args[1], 64)
		if err != nil {
			return err
		}
		for _, f := range args[2:] {
			if err := measure(f, seconds); err != nil {
				return err
			}
		}
		return nil
	case len(args) == 3 && args[0] == "peak":
		return peak(args[1], args[2])
	case len(args) >= 2 && args[0] == "table":
		return table(os.Stdout, args[1:])
	case len(args) == 3 && args[0] == "unpack":
		return unpack(context.Background(), args[1], args[2])
	case len(args) == 3 && args[0] == "rocks":
		seconds, err := strconv.ParseFloat(args[1], 64)
		if err != nil {
			return err
		}
		return scanRocks(context.Background(), args[2], seconds)
	case len(args) >= 5 && args[0] == "exec":
		entries, err := strconv.ParseInt(args[3], 10, 64)
		if err != nil {
			return err
		}
		return process(args[1], args[2], entries, args[4:])
	case len(args) >= 2 && args[0] == "state-table":
		return stateTable(os.Stdout, args[1:])
	case len(args) == 6 && args[0] == "state":
		n, err := numbers(args[4:])
		if err != nil {
			return err
		}
		return benchState(args[1], args[2], args[3], n[0], n[1])
	case len(args) == 5 && args[0] == "snap":
		n, err := numbers(args[3:])
		if err != nil {
			return err
		}
		s := snapBench{backends: backends{kind: args[1], work: args[2]}, keys: int64(n[0]), laps: n[1]}
		return s.run(context.Background())
	case len(args) >= 2 && args[0] == "backend-table":
		return backendTable(os.Stdout, args[1:])
	case len(args) == 4 && args[0] == "incremental":
		n, err := numbers(args[2:])
		if err != nil {
			return err
		}
		s := incrementalBench{snapBench{backends: backends{kind: "pebble", work: args[1]}, keys: int64(n[0]), laps: n[1]}}
		return s.run(context.Background())
	case len(args) >= 2 && args[0] == "incremental-table":
		return incrementalTable(os.Stdout, args[1:])
	case len(args) == 7 && args[0] == "restore":
		n, err := numbers(args[4:])
		if err != nil {
			return err
		}
		s := restoreBench{work: args[1], endpoint: args[2], dir: args[3], mb: n[0], laps: n[1], fileMB: n[2]}
		return s.run(context.Background())
	case len(args) >= 2 && args[0] == "restore-table":
		return restoreTable(os.Stdout, args[1:])
	case len(args) == 9 && args[0] == "job":
		n, err := numbers(args[3:8])
		if err != nil {
			return err
		}
		b := jobBench{
			what: args[1], backend: args[2], parallelism: n[0], records: int64(n[1]), keys: int64(n[2]), interval: time.Duration(n[3]) * time.Millisecond, laps: n[4], work: args[8],
		}
		return b.run(context.Background())
	case len(args) >= 2 && args[0] == "job-table":
		return jobTable(os.Stdout, args[1:])
	case len(args) == 5 && args[0] == "convert":
		n, err := numbers(args[4:])
		if err != nil {
			return err
		}
		return convert(context.Background(), args[1], args[2], args[3], n[0])
	case len(args) >= 2 && args[0] == "convert-table":
		return convertTable(os.Stdout, args[1:])
	case len(args) >= 1 && args[0] == "audit":
		return benchAudit(args[1:])
	case len(args) >= 1 && args[0] == "depot":
		return makeDepot(context.Background(), args[1:])
	}
	return errors.New(usage)
}

func numbers(args []string) ([]int, error) {
	n := make([]int, len(args))
	for i, a := range args {
		var err error
		if n[i], err = strconv.Atoi(a); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// line is a measurement of either side; the Java side has more fields.
type line struct {
	Name    string  `json:"name"` // drey-load, drey-map, drey-store, drey-peak; meta-load, meta-store, meta-heap
	IO      string  `json:"io,omitempty"`
	Handles int64   `json:"handles"`
	MB      float64 `json:"mb"` // of the file
	// Medians over N laps, for one file. CPU is the whole process's,
	// ThreadCPU (Java only) that of the measuring thread alone.
	Wall      float64 `json:"wall_s,omitempty"`
	CPU       float64 `json:"cpu_s,omitempty"`
	ThreadCPU float64 `json:"thread_cpu_s,omitempty"`
	N         int     `json:"n,omitempty"`
	// LiveMB (Java only) is the loaded graph. PeakMB is on the Java side the
	// heap pools' peak, on this side the process's peak resident set.
	LiveMB float64 `json:"live_mb,omitempty"`
	PeakMB float64 `json:"peak_mb,omitempty"`
	Flink  string  `json:"flink,omitempty"`
	GC     string  `json:"gc,omitempty"` // the JVM's collector
	Go     string  `json:"go,omitempty"`
	Load1  float64 `json:"load1"`
}

func (l line) print() error {
	l.Go = runtime.Version()
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		l.Load1, _ = strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

// measure prints a line for loading a file, for decoding it in memory, for
// mapping all paths, for encoding it in memory and for storing it.
func measure(file string, seconds float64) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s, err := metadata.Decode(data)
	if err != nil {
		return err
	}
	out, err := metadata.Encode(s)
	if err != nil {
		return err
	}
	if !bytes.Equal(out, data) {
		return fmt.Errorf("%s: encode gives other bytes", file)
	}
	tmp, err := os.CreateTemp("", "drey-bench")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return err
	}
	handles, size := count(s), float64(len(data))/1e6
	for _, m := range []struct {
		name, io string
		body     func() error
	}{
		{"drey-load", "file", func() error { _, err := load(file); return err }},
		{"drey-load", "memory", func() error { _, err := metadata.Decode(data); return err }},
		{"drey-map", "memory", func() error { _, err := move(s); return err }},
		{"drey-store", "memory", func() error { _, err := metadata.Encode(s); return err }},
		{"drey-store", "file", func() error { return store(tmp.Name(), s) }},
	} {
		laps, err := repeat(seconds, m.body)
		if err != nil {
			return err
		}
		l := line{Name: m.name, IO: m.io, Handles: handles, MB: size, N: len(laps)}
		l.Wall = median(laps, func(l lap) float64 { return l.wall })
		l.CPU = median(laps, func(l lap) float64 { return l.cpu })
		if err := l.print(); err != nil {
			return err
		}
	}
	return nil
}

func load(file string) (*metadata.Snapshot, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return metadata.Decode(data)
}

// store does not sync, as Flink's local file system does not.
func store(file string, s *metadata.Snapshot) error {
	data, err := metadata.Encode(s)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// move gives every file another root, as a relocation does.
func move(s *metadata.Snapshot) (*metadata.Snapshot, error) {
	return s.MapPaths(func(r metadata.Ref) (string, error) {
		return "s3://bucket/jobs" + strings.TrimPrefix(r.Path, "file:/data/flink"), nil
	})
}

// count counts the shared files, as the Java side does.
func count(s *metadata.Snapshot) (n int64) {
	for r := range s.Refs() {
		if r.Part == metadata.PartShared {
			n++
		}
	}
	return n
}

// lap is what one repetition took, in seconds.
type lap struct{ wall, cpu float64 }

// repeat warms up for half of the seconds, then measures for as long: 5 laps
// at least. Short ones are batched to 0.2 s or more. All in CPU time.
func repeat(seconds float64, body func() error) (laps []lap, err error) {
	timed := func(n int) (l lap) {
		wall, cpu := time.Now(), cpuSeconds()
		for range n {
			if e := body(); e != nil {
				err = e
			}
		}
		return lap{time.Since(wall).Seconds() / float64(n), (cpuSeconds() - cpu) / float64(n)}
	}
	one, runs := 0.0, 0
	for warmed := 0.0; (runs < 3 || warmed < seconds/2) && err == nil; runs++ {
		one = timed(1).cpu
		warmed += one
	}
	batch := int(math.Max(1, math.Ceil(0.2/math.Max(one, 1e-5))))
	for measured := 0.0; (len(laps) < 5 || measured < seconds/2 && len(laps) < 101) && err == nil; {
		l := timed(batch)
		measured += l.cpu * float64(batch)
		laps = append(laps, l)
	}
	return laps, err
}

func median[T any](list []T, of func(T) float64) float64 {
	v := make([]float64, len(list))
	for i := range list {
		v[i] = of(list[i])
	}
	slices.Sort(v)
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// cpuSeconds is the CPU time of the process, the garbage collector's included.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // can't fail with these arguments
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peak does one thing in this process, which has done nothing else, and
// prints the peak of its resident set: the program and Go's runtime included.
func peak(what, file string) error {
	steps := slices.Index([]string{"none", "load", "map", "store"}, what)
	if steps < 0 {
		return errors.New(usage)
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	l := line{Name: "drey-peak", IO: what, MB: float64(info.Size()) / 1e6}
	var s *metadata.Snapshot
	if steps >= 1 {
		if s, err = load(file); err != nil {
			return err
		}
		l.Handles = count(s)
	}
	if steps >= 2 {
		if s, err = move(s); err != nil {
			return err
		}
	}
	if steps >= 3 {
		if err := store(os.DevNull, s); err != nil {
			return err
		}
	}
	runtime.KeepAlive(s)
	if l.PeakMB, err = peakRSS(); err != nil {
		return err
	}
	return l.print()
}

// peakRSS reads VmHWM, in MB.
func peakRSS() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, errors.New("no VmHWM in /proc/self/status")
}
