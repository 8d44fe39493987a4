//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/rewrite"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// convertLine is a measurement of a savepoint that is written anew, of either side: a whole process.
type convertLine struct {
	Name           string  `json:"name"`
	What           string  `json:"what"` // the format that is written
	MaxParallelism int     `json:"max_parallelism"`
	Entries        int64   `json:"entries,omitempty"` // drey alone counts them
	From           string  `json:"from,omitempty"`    // the backend that reads, in Flink
	Mode           string  `json:"mode,omitempty"`    // of Flink's job
	MB             float64 `json:"mb"`
	SpilledMB      float64 `json:"spilled_mb,omitempty"`
	Wall           float64 `json:"wall_s"`
	CPU            float64 `json:"cpu_s"`
	PeakMB         float64 `json:"peak_mb"`
	Flink          string  `json:"flink,omitempty"`
	Java           string  `json:"java,omitempty"`
	GC             string  `json:"gc,omitempty"`
	Go             string  `json:"go,omitempty"`
	Load1          float64 `json:"load1"`
}

// convert writes a savepoint anew, the only thing that this process does.
func convert(ctx context.Context, source, target, format string, maxParallelism int) error {
	start := time.Now()
	formats := []rewrite.Format{rewrite.Canonical, rewrite.NativeHeap, rewrite.NativeRocksDB}
	i := slices.IndexFunc(formats, func(f rewrite.Format) bool { return f.String() == format })
	if i < 0 {
		return fmt.Errorf("format %q: one of %s", format, formats)
	}
	target, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	fsys := storage.NewLocal(storage.LocalOptions{})
	s, err := tools.Open(ctx, fsys, source)
	if err != nil {
		return err
	}
	p, err := rewrite.NewPlan(ctx, rewrite.Source{Files: backend.Files{FS: fsys, Dir: s.Dir}, Metadata: s.Snapshot}, rewrite.Options{
		Format: formats[i], MaxParallelism: maxParallelism, TempDir: os.TempDir(),
	})
	if err != nil {
		return err
	}
	r, err := p.Execute(ctx, backend.Target{FS: fsys, Dir: "file:" + target}, nil)
	if err != nil {
		return err
	}
	l := convertLine{Name: "convert", What: format, MaxParallelism: maxParallelism, Entries: r.Entries, MB: float64(r.Bytes) / 1e6, SpilledMB: float64(r.Spilled) / 1e6}
	if l.PeakMB, err = peakRSS(); err != nil {
		return err
	}
	l.Wall, l.CPU = time.Since(start).Seconds(), cpuSeconds()
	var m backendLine
	m.stamp()
	l.Go, l.Load1 = m.Go, m.Load1
	return json.NewEncoder(os.Stdout).Encode(l)
}

// convertTable writes the Markdown table of what run-convert.sh measured: the medians, of Flink the setting that took the least CPU time.
func convertTable(w io.Writer, files []string) error {
	type key struct {
		what string
		max  int
	}
	type side map[string][]convertLine // by settings, "" for drey
	all := map[key]side{}
	keys, flink, java, goVersion := int64(0), "", "", ""
	lo, hi := 0.0, 0.0
	err := eachLine(files, func(l convertLine) {
		if len(all) == 0 {
			lo = l.Load1
		}
		lo, hi = min(lo, l.Load1), max(hi, l.Load1)
		k := key{l.What, l.MaxParallelism}
		if all[k] == nil {
			all[k] = side{}
		}
		setting := ""
		if l.Flink != "" {
			flink, java = l.Flink, l.Java
			setting = strings.ToLower(l.Mode) + ", " + l.GC
		} else {
			goVersion, keys = l.Go, l.Entries
		}
		all[k][setting] = append(all[k][setting], l)
	})
	if err != nil {
		return err
	}
	cpu := func(l convertLine) float64 { return l.CPU }
	wall := func(l convertLine) float64 { return l.Wall }
	peak := func(l convertLine) float64 { return l.PeakMB }
	fmt.Fprintf(w, "%s keys. Flink %s, Java %s, %s, %d cores; load of the machine %.1f to %.1f. Medians.\n", thousands(float64(keys)), flink, java, goVersion, runtime.NumCPU(), lo, hi)
	fmt.Fprint(w, "\n| canonical, 128 key groups, becomes | Flink's job, collector | CPU s: Flink | drey | times | keys per CPU s: drey | wall s: Flink | drey | times | peak MB: Flink | drey |\n")
	fmt.Fprint(w, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b key) int { return cmp.Or(cmp.Compare(a.what, b.what), a.max-b.max) }) {
		ours, best := all[k][""], ""
		for _, setting := range slices.Sorted(maps.Keys(all[k])) {
			if setting != "" && (best == "" || median(all[k][setting], cpu) < median(all[k][best], cpu)) {
				best = setting
			}
		}
		theirs := all[k][best]
		c, t := median(ours, cpu), median(ours, wall)
		fmt.Fprintf(w, "| %s, %d | %s | %.1f | %.2f | %s | %s | %.1f | %.2f | %s | %.0f | %.0f |\n", k.what, k.max, best,
			median(theirs, cpu), c, times(median(theirs, cpu)/c), thousands(float64(keys)/c), median(theirs, wall), t, times(median(theirs, wall)/t), median(theirs, peak), median(ours, peak))
	}
	return nil
}
