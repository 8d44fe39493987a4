//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// flinks is what a backend is compared with: Flink's of the same kind.
var flinks = map[string]string{"heap": "hashmap", "pebble": "rocksdb"}

type backendKey struct{ name, backend, what string }

// backendLines are what both sides printed, by measurement and, of Flink, by collector.
type backendLines struct {
	order                  []backendKey // of drey
	lines                  map[backendKey]map[string][]backendLine
	lo, hi                 float64
	flink, java, goVersion string
}

// backendTable writes the Markdown tables of what run-backend.sh measured: the median of the lines for the same
// measurement, of Flink that of the better collector.
func backendTable(w io.Writer, files []string) error {
	all := backendLines{lines: map[backendKey]map[string][]backendLine{}}
	if err := eachLine(files, all.add); err != nil {
		return err
	}
	fmt.Fprintf(w, "Flink %s, Java %s, %s, %d cores; load of the machine %.1f to %.1f. Medians.\n", all.flink, all.java, all.goVersion, runtime.NumCPU(), all.lo, all.hi)
	fmt.Fprint(w, "\n| operation | Flink hashmap | heap | times | Flink RocksDB | Pebble | times |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, k := range all.order {
		if k.backend != "heap" || k.what != "" {
			continue
		}
		fmt.Fprintf(w, "| %s |", k.name)
		for _, b := range []string{"heap", "pebble"} {
			k.backend = b
			flink, drey := all.compared(k)
			fmt.Fprintf(w, " %s | %s | %s |", thousands(1/flink), thousands(1/drey), times(flink/drey))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\n| snapshots | Flink, keys per CPU s | drey, keys per CPU s | times | MB |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, k := range all.order {
		if k.what == "" {
			continue
		}
		flink, drey := all.compared(k)
		fmt.Fprintf(w, "| %s, %s of %s | %s | %s | %s | %.1f |\n", k.backend, k.name, k.what, thousands(1/flink), thousands(1/drey), times(flink/drey), all.lines[k][""][0].MB)
	}
	return nil
}

// times shows what is below one with more digits, so that it isn't rounded up to one.
func times(r float64) string {
	if r < 1 {
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.1f", r)
}

// eachLine calls take with each line of files of measurements.
func eachLine[L any](files []string, take func(L)) error {
	read := func(name string) error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		for d := json.NewDecoder(f); ; {
			var l L
			if err := d.Decode(&l); err == io.EOF {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			take(l)
		}
	}
	for _, name := range files {
		if err := read(name); err != nil {
			return err
		}
	}
	return nil
}

func (a *backendLines) add(l backendLine) {
	k := backendKey{l.Name, l.Backend, l.What}
	if a.lines[k] == nil {
		a.lines[k] = map[string][]backendLine{}
		if l.Go != "" {
			a.order = append(a.order, k)
		}
	}
	a.lines[k][l.GC] = append(a.lines[k][l.GC], l)
	if a.lo == 0 || l.Load1 < a.lo {
		a.lo = l.Load1
	}
	a.hi = max(a.hi, l.Load1)
	a.flink, a.java, a.goVersion = first(l.Flink, a.flink), first(l.Java, a.java), first(l.Go, a.goVersion)
}

// compared gives the CPU seconds of an operation, Flink's with the better collector.
func (a *backendLines) compared(k backendKey) (flink, drey float64) {
	cpu := func(l backendLine) float64 { return l.CPU / float64(l.Ops) }
	drey = median(a.lines[k][""], cpu)
	k.backend = flinks[k.backend]
	for _, lines := range a.lines[k] {
		if m := median(lines, cpu); flink == 0 || m < flink {
			flink = m
		}
	}
	return flink, drey
}
