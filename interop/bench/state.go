//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/rocksdb"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// stateLine is a measurement of reading state, of either side.
type stateLine struct {
	Name    string  `json:"name"` // drey-dump, drey-rocks; sp-read, rocks-scan
	What    string  `json:"what,omitempty"`
	Path    string  `json:"path"`
	Backend string  `json:"backend,omitempty"` // of the State Processor API
	Output  string  `json:"output,omitempty"`
	Ops     int64   `json:"ops,omitempty"`     // rows
	Entries int64   `json:"entries,omitempty"` // of a whole process
	MB      float64 `json:"mb,omitempty"`
	Wall    float64 `json:"wall_s"`
	CPU     float64 `json:"cpu_s"`
	PeakMB  float64 `json:"peak_mb,omitempty"`
	N       int     `json:"n,omitempty"`
	Flink   string  `json:"flink,omitempty"`
	Java    string  `json:"java,omitempty"`
	Go      string  `json:"go,omitempty"`
	Load1   float64 `json:"load1"`
}

func (l stateLine) print() error {
	l.Go = runtime.Version()
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		l.Load1, _ = strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

// unpack copies the RocksDB files of each subtask of an incremental
// checkpoint to a directory of their own, under the names that RocksDB gave them.
func unpack(ctx context.Context, snapshot, dir string) error {
	fsys := storage.NewLocal(storage.LocalOptions{})
	s, err := tools.Open(ctx, fsys, snapshot)
	if err != nil {
		return err
	}
	files := backend.Files{FS: fsys, Dir: s.Dir}
	n := 0
	for _, o := range s.Operators {
		for _, sub := range o.Subtasks {
			if sub.State == nil {
				continue
			}
			h, ok := sub.State.ManagedKeyed.(*metadata.Incremental)
			if !ok {
				continue
			}
			to := filepath.Join(dir, strconv.Itoa(n))
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			for _, f := range append(append([]metadata.LocalFile{}, h.Shared...), h.Private...) {
				if err := unpackFile(ctx, files, f, to); err != nil {
					return err
				}
			}
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("%s: no incremental RocksDB state", snapshot)
	}
	return nil
}

func unpackFile(ctx context.Context, files backend.Files, f metadata.LocalFile, dir string) error {
	obj, err := files.Open(ctx, f.Stream)
	if err != nil {
		return err
	}
	defer obj.Close()
	out, err := os.Create(filepath.Join(dir, filepath.Base(f.LocalName.String())))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(obj, 0, obj.Size()))
	return errors.Join(err, out.Close())
}

// scanRocks scans all rows of the databases below dir, in laps.
func scanRocks(ctx context.Context, dir string, seconds float64) error {
	store := storage.NewLocal(storage.LocalOptions{})
	dirs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	l := stateLine{Name: "drey-rocks", Path: dir}
	var dbs []*rocksdb.DB
	for _, d := range dirs {
		files, err := rocksdb.Directory(ctx, store, filepath.ToSlash(d))
		if err != nil {
			return err
		}
		db, err := rocksdb.Open(ctx, files, rocksdb.Options{Merge: rocksdb.StringAppend(",")})
		if err != nil {
			return err
		}
		for _, f := range db.Families() {
			for t := range f.Files() {
				l.MB += float64(t.Size) / 1e6
			}
		}
		dbs = append(dbs, db)
	}
	laps, err := repeat(seconds, func() error {
		l.Ops = 0
		for _, db := range dbs {
			for _, f := range db.Families() {
				it := f.Iter(ctx, rocksdb.Bounds{})
				for it.Next() {
					l.Ops++
				}
				if err := it.Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.N = len(laps)
	l.Wall = median(laps, func(l lap) float64 { return l.wall })
	l.CPU = median(laps, func(l lap) float64 { return l.cpu })
	return l.print()
}

// process measures a whole process whose output nobody keeps. entries is what it has to read.
func process(what, path string, entries int64, args []string) error {
	c := exec.Command(args[0], args[1:]...)
	c.Stderr = os.Stderr
	start := time.Now()
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	l := stateLine{Name: "drey-dump", What: what, Path: path, Entries: entries, Wall: time.Since(start).Seconds(), N: 1}
	u := c.ProcessState.SysUsage().(*syscall.Rusage)
	l.CPU = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	l.PeakMB = float64(u.Maxrss) * 1024 / 1e6
	return l.print()
}

// stateTable writes the Markdown tables of what run-state.sh measured: the
// median of the lines for the same measurement.
func stateTable(w io.Writer, files []string) error {
	type key struct{ name, what, path, backend, output string }
	rows := map[key][]stateLine{}
	var order []key
	lo, hi, flink, java, goVersion := 0.0, 0.0, "", "", ""
	err := eachLine(files, func(l stateLine) {
		k := key{l.Name, l.What, l.Path, l.Backend, l.Output}
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], l)
		if lo == 0 || l.Load1 < lo {
			lo = l.Load1
		}
		hi = max(hi, l.Load1)
		flink, java, goVersion = first(l.Flink, flink), first(l.Java, java), first(l.Go, goVersion)
	})
	if err != nil {
		return err
	}
	cpu := func(l stateLine) float64 { return l.CPU }
	wall := func(l stateLine) float64 { return l.Wall }
	peak := func(l stateLine) float64 { return l.PeakMB }
	fmt.Fprintf(w, "Flink %s, Java %s, %s, %d cores; load of the machine %.1f to %.1f. Medians.\n", flink, java, goVersion, runtime.NumCPU(), lo, hi)

	best := 0.0 // of the State Processor API
	for _, k := range order {
		if k.name == "sp-read" {
			best = max(best, float64(rows[k][0].Entries)/median(rows[k], cpu))
		}
	}
	fmt.Fprint(w, "\n| the whole process | source | wall s | CPU s | entries per CPU s | times the better of Flink's | peak memory, MB |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, k := range order {
		if k.name != "sp-read" && k.name != "drey-dump" {
			continue
		}
		l := rows[k]
		c := median(l, cpu)
		rate := float64(l[0].Entries) / c
		what, times, memory := "drey "+k.what, fmt.Sprintf("%.1f", rate/best), fmt.Sprintf("%.0f", median(l, peak))
		if k.name == "sp-read" {
			what, times, memory = fmt.Sprintf("State Processor API, %s, %s", k.backend, k.output), "", ""
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %s | %s | %s |\n", what, source(k.path), median(l, wall), c, thousands(rate), times, memory)
	}

	fmt.Fprint(w, "\n| rows of the checkpoint's tables | MB | rows per CPU s | MB per CPU s | drey, times |\n| --- | ---: | ---: | ---: | ---: |\n")
	drey := map[string]float64{}
	for _, k := range order {
		if k.name == "drey-rocks" {
			drey[k.path] = float64(rows[k][0].Ops) / median(rows[k], cpu)
		}
	}
	for _, k := range order {
		if k.name != "rocks-scan" && k.name != "drey-rocks" {
			continue
		}
		l := rows[k]
		c := median(l, cpu)
		rate := float64(l[0].Ops) / c
		what, times := "drey", ""
		if k.name == "rocks-scan" {
			what, times = "RocksDB's Java iterator, "+k.what, fmt.Sprintf("%.1f", drey[k.path]/rate)
		}
		fmt.Fprintf(w, "| %s, %s | %.1f | %s | %.0f | %s |\n", filepath.Base(k.path), what, l[0].MB, thousands(rate), l[0].MB/c, times)
	}
	return nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// source says what a path is of.
func source(path string) string {
	switch {
	case strings.Contains(path, "/chk-"):
		return "incremental RocksDB checkpoint"
	case strings.HasPrefix(path, "buf:"):
		return "canonical savepoint, buffered"
	}
	return "canonical savepoint"
}
