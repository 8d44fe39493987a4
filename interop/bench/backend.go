//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/heap"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
)

// backendLine is a measurement of a keyed state backend, of either side.
type backendLine struct {
	Name    string `json:"name"` // of the operation; snapshot, restore
	Backend string `json:"backend"`
	What    string `json:"what,omitempty"` // format of a snapshot
	Ops     int64  `json:"ops"`
	// Medians over the N laps.
	Wall      float64 `json:"wall_s"`
	CPU       float64 `json:"cpu_s"`
	ThreadCPU float64 `json:"thread_cpu_s"`
	MB        float64 `json:"mb,omitempty"`
	// Of an incremental checkpoint: what it wrote, and all that it has.
	UploadedMB float64 `json:"uploaded_mb,omitempty"`
	StateMB    float64 `json:"state_mb,omitempty"`
	KeyGroups  string  `json:"key_groups,omitempty"` // of a restore
	// Files are how many a checkpoint has.
	Files   int     `json:"files,omitempty"`
	FileMB  int     `json:"file_mb,omitempty"` // of tables, if not the default
	WallMin float64 `json:"wall_min,omitempty"`
	PeakMB  float64 `json:"peak_mb,omitempty"` // resident set of the process so far
	N       int     `json:"n"`
	Flink   string  `json:"flink,omitempty"`
	Java    string  `json:"java,omitempty"`
	GC      string  `json:"gc,omitempty"`
	Go      string  `json:"go,omitempty"`
	Load1   float64 `json:"load1"`
}

// threadLap is what a lap took, in seconds; thread is the CPU time of the measuring thread alone.
type threadLap struct{ wall, cpu, thread float64 }

const rusageThread = 1 // RUSAGE_THREAD, which package syscall doesn't name

func threadSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		panic(err) // can't fail with these arguments
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// timed measures one lap. The caller has locked its thread.
func timed(body func() error) (threadLap, error) {
	wall, cpu, thread := time.Now(), cpuSeconds(), threadSeconds()
	err := body()
	return threadLap{time.Since(wall).Seconds(), cpuSeconds() - cpu, threadSeconds() - thread}, err
}

// set fills in the medians.
func (l *backendLine) set(laps []threadLap) {
	l.N = len(laps)
	l.Wall = median(laps, func(l threadLap) float64 { return l.wall })
	l.CPU = median(laps, func(l threadLap) float64 { return l.cpu })
	l.ThreadCPU = median(laps, func(l threadLap) float64 { return l.thread })
}

// stamp notes where it was measured.
func (l *backendLine) stamp() {
	l.Go = runtime.Version()
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		l.Load1, _ = strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	}
}

func (l backendLine) print() (err error) {
	l.stamp()
	if l.PeakMB, err = peakRSS(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

// backends opens empty backends of a kind, each with a directory of its own below work.
type backends struct {
	kind, work string
	n          int
}

func (o *backends) open() (backend.Keyed[int64], error) { return o.openFor(backendtest.All) }

func (o *backends) openFor(groups keygroup.Range) (backend.Keyed[int64], error) {
	switch o.kind {
	case "heap":
		return heap.Open(serializer.ForLong(), heap.Options[int64]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups})
	case "pebble":
		dir, err := filepath.Abs(filepath.Join(o.work, fmt.Sprintf("backend-%d-%d", os.Getpid(), o.n)))
		if err != nil {
			return nil, err
		}
		o.n++
		return pebble.Open(serializer.ForLong(), pebble.Options[int64]{MaxParallelism: backendtest.MaxParallelism, KeyGroups: groups, Dir: dir})
	}
	return nil, fmt.Errorf("no such backend: %s", o.kind)
}

// benchState measures state access, lap by lap as the Java program does.
func benchState(kind, work, only string, laps, calls int) error {
	wanted, err := regexp.Compile("^(?:" + only + ")$")
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	o := &backends{kind: kind, work: work}
	return backendtest.Benchmarks(calls, o.open, func(m *backendtest.Benchmark) error {
		if !wanted.MatchString(m.Name) {
			return nil
		}
		var all []threadLap
		for i := range laps + 1 { // the first one warms up
			if err := m.Prepare(); err != nil {
				return err
			}
			l, err := timed(func() error { return m.Lap(m.Calls) })
			if err != nil {
				return err
			}
			if i > 0 {
				all = append(all, l)
			}
		}
		l := backendLine{Name: m.Name, Backend: kind, Ops: int64(m.Calls * m.Operations)}
		l.set(all)
		return l.print()
	})
}

// snapBench measures snapshots and restores of a backend with a value for each of the keys.
type snapBench struct {
	backends
	keys int64
	laps int
}

func (s *snapBench) valueOf(k int64) int64 { return k*31 + 7 }

func (s *snapBench) start(groups keygroup.Range) (backend.Keyed[int64], backend.Value[struct{}, int64], error) {
	b, err := s.openFor(groups)
	if err != nil {
		return nil, nil, err
	}
	v, err := state.OpenValue(b, backend.Descriptor[struct{}, int64]{Name: "value", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForLong()})
	return b, v, err
}

// put sets every so many keys; change is added to their values.
func (s *snapBench) put(b backend.Keyed[int64], v backend.Value[struct{}, int64], every, change int64) error {
	for k := int64(0); k < s.keys; k += every {
		if err := b.SetKey(k); err != nil {
			return err
		}
		if err := v.Set(s.valueOf(k) + change); err != nil {
			return err
		}
	}
	return nil
}

// run fills a backend, and measures each format: a snapshot, and the restore from it.
func (s *snapBench) run(ctx context.Context) error {
	runtime.LockOSThread()
	b, v, err := s.start(backendtest.All)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	if err := s.put(b, v, 1, 0); err != nil {
		return err
	}
	formats := []struct {
		what   string
		format backend.Format
	}{{"checkpoint-full", backend.FormatFull}, {"savepoint-canonical", backend.FormatCanonical}}
	if s.kind == "pebble" {
		formats[0].format = backend.FormatRocksDB // what Flink's RocksDB backend has there
	}
	for _, f := range formats {
		if err := s.measure(ctx, b, f.what, f.format); err != nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
	}
	return nil
}

func (s *snapBench) measure(ctx context.Context, b backend.Keyed[int64], what string, format backend.Format) error {
	fsys := storage.NewLocal(storage.LocalOptions{})
	dir, err := filepath.Abs(filepath.Join(s.work, what))
	if err != nil {
		return err
	}
	var handle metadata.Keyed
	var snapshots, restores []threadLap
	for i := range s.laps + 1 {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		runtime.GC() // what the lap before left is not this one's
		l, err := timed(func() error {
			shot, err := b.Snapshot(int64(i), backend.SnapshotOptions{Format: format})
			if err != nil {
				return err
			}
			handle, err = shot.Write(ctx, backend.Target{FS: fsys, Dir: "file:" + dir})
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 {
			snapshots = append(snapshots, l)
		}
	}
	for i := range s.laps + 1 {
		runtime.GC()
		l, err := s.restore(ctx, backend.Files{FS: fsys, Dir: "file:" + dir}, handle, backendtest.All, 0)
		if err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		if i > 0 {
			restores = append(restores, l)
		}
	}
	size, err := dirSize(dir)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		laps []threadLap
	}{{"snapshot", snapshots}, {"restore", restores}} {
		l := backendLine{Name: m.name, Backend: s.kind, What: what, Ops: s.keys, MB: float64(size) / 1e6}
		l.set(m.laps)
		if err := l.print(); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// restore measures a restore of key groups, and checks some of the values, to which change was added.
func (s *snapBench) restore(ctx context.Context, files backend.Files, h metadata.Keyed, groups keygroup.Range, change int64) (threadLap, error) {
	var b backend.Keyed[int64]
	var v backend.Value[struct{}, int64]
	l, err := timed(func() (err error) {
		if b, v, err = s.start(groups); err != nil {
			return err
		}
		return b.Restore(ctx, files, backend.Handles{Managed: []metadata.Keyed{h}})
	})
	if err != nil {
		return l, err
	}
	for k := int64(0); k < s.keys; k += s.keys/1000 + 1 {
		if err := b.SetKey(k); errors.Is(err, backend.ErrKeyGroup) {
			continue
		} else if err != nil {
			return l, err
		}
		if got, ok, err := v.Get(); err != nil || !ok || got != s.valueOf(k)+change {
			return l, fmt.Errorf("key %d: %d, %v, %w", k, got, ok, err)
		}
	}
	return l, b.Close()
}

func dirSize(dir string) (n int64, err error) {
	return n, filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	})
}
