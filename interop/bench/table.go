//go:build linux

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// table writes the Markdown tables of RESULTS.md's section on _metadata. Of
// lines for the same measurement (rounds) it takes the median, and of the
// JVM's collectors the one with the better median.
func table(w io.Writer, files []string) error {
	type key struct {
		name, io string
		handles  int64
	}
	rows := map[key]map[string][]line{} // by collector
	sizes := map[int64]float64{}
	base, flink, goVersion := []line{}, "", ""
	lo, hi := 0.0, 0.0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			var l line
			if json.Unmarshal(sc.Bytes(), &l) != nil || l.Name == "meta-gen" || l.Name == "meta-heap" && l.GC != "G1" {
				continue
			}
			if l.Name == "drey-peak" && l.IO == "none" {
				base = append(base, l)
				continue
			}
			k := key{l.Name, l.IO, l.Handles}
			if rows[k] == nil {
				rows[k] = map[string][]line{}
			}
			rows[k][l.GC] = append(rows[k][l.GC], l)
			sizes[l.Handles] = max(sizes[l.Handles], l.MB)
			flink, goVersion = cmp.Or(l.Flink, flink), cmp.Or(l.Go, goVersion)
			if lo == 0 || l.Load1 < lo {
				lo = l.Load1
			}
			hi = max(hi, l.Load1)
		}
	}
	cpu := func(l line) float64 { return l.CPU }
	thread := func(l line) float64 { return l.ThreadCPU }
	live := func(l line) float64 { return l.LiveMB }
	top := func(l line) float64 { return l.PeakMB }
	get := func(n int64, name, io string, of func(line) float64) (best float64) {
		for _, lines := range rows[key{name, io, n}] {
			if v := median(lines, of); best == 0 || v < best {
				best = v
			}
		}
		return best
	}
	rate := func(n int64, seconds float64) string {
		if seconds == 0 {
			return "-"
		}
		return thousands(float64(n) / seconds)
	}
	times := func(a, b float64) string {
		if a == 0 || b == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", a/b)
	}
	order := slices.Sorted(maps.Keys(sizes))

	fmt.Fprintf(w, "Flink %s, %s; load of the machine %.1f to %.1f. Rates: handles per second of process CPU time.\n", flink, goVersion, lo, hi)
	for _, t := range []struct{ title, flink, drey string }{
		{"Load", "meta-load", "drey-load"},
		{"Store", "meta-store", "drey-store"},
	} {
		fmt.Fprintf(w, "\n| %s: handles | MB | Flink on `file:` | Flink, buffered | drey | MB/s | times Flink | times buffered | (thread CPU) |\n", t.title)
		fmt.Fprintln(w, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
		for _, n := range order {
			f, b, d := get(n, t.flink, "flink", cpu), get(n, t.flink, "buffered", cpu), get(n, t.drey, "file", cpu)
			fmt.Fprintf(w, "| %s | %.1f | %s | %s | %s | %.0f | %s | %s | %s |\n", thousands(float64(n)), sizes[n],
				rate(n, f), rate(n, b), rate(n, d), sizes[n]/d, times(f, d), times(b, d), times(get(n, t.flink, "buffered", thread), d))
		}
	}
	fmt.Fprintln(w, "\n| In memory: handles | Flink load | Decode | times | Flink store | Encode | times | MapPaths |")
	fmt.Fprintln(w, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, n := range order {
		l, d := get(n, "meta-load", "memory", cpu), get(n, "drey-load", "memory", cpu)
		s, e := get(n, "meta-store", "memory", cpu), get(n, "drey-store", "memory", cpu)
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", thousands(float64(n)),
			rate(n, l), rate(n, d), times(l, d), rate(n, s), rate(n, e), times(s, e), rate(n, get(n, "drey-map", "memory", cpu)))
	}
	idle := median(base, top)
	fmt.Fprintln(w, "\n| Memory, MB: handles | file | Flink: loaded | Flink: peak heap | drey: peak, load | times file | load, map | times | load, map, store | times |")
	fmt.Fprintln(w, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, n := range order {
		fmt.Fprintf(w, "| %s | %.1f | %.1f | %.0f |", thousands(float64(n)), sizes[n], get(n, "meta-heap", "", live), get(n, "meta-heap", "", top))
		for _, what := range []string{"load", "map", "store"} {
			p := get(n, "drey-peak", what, top)
			fmt.Fprintf(w, " %.1f | %.1f |", p, (p-idle)/sizes[n])
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "\ndrey's memory is the process's peak resident set, one process for each figure; an idle one has %.1f MB, which \"times\" leaves out.\n", idle)
	return err
}

// thousands writes a count with separators, to three significant digits.
func thousands(v float64) string {
	unit := 1.0
	for v/unit >= 1000 {
		unit *= 10
	}
	s := fmt.Sprintf("%.0f", float64(int64(v/unit+0.5))*unit)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
