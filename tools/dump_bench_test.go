package tools

import (
	"fmt"
	"io"
	"testing"
)

// BenchmarkDump reads a generated savepoint of 2.5 million Longs and as many
// Strings by Long keys; making its bytes as they are read is part of it.
func BenchmarkDump(b *testing.B) {
	fsys := newGeneratedFS()
	s, snapshot := fsys.add(b, "file:/state", 20_000, -1)
	entries := 2 * 20_000 * generatedGroups
	run := func(name string, work func(o EntryOptions) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(s.size)
			b.ReportAllocs()
			for b.Loop() {
				if err := work(EntryOptions{Jobs: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(entries)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
	for _, f := range []Format{FormatJSON, FormatCSV, FormatParquet} {
		run(fmt.Sprint("format=", f), func(o EntryOptions) error {
			_, err := DumpState(b.Context(), fsys, snapshot, io.Discard, DumpStateOptions{EntryOptions: o, Format: f})
			return err
		})
	}
	run("count", func(o EntryOptions) error {
		_, err := Sizes(b.Context(), fsys, snapshot, SizeOptions{EntryOptions: o})
		return err
	})
	run("sizes", func(o EntryOptions) error {
		_, err := Sizes(b.Context(), fsys, snapshot, SizeOptions{EntryOptions: o, Details: true})
		return err
	})
	run("entries", func(o EntryOptions) error {
		for _, err := range Entries(b.Context(), fsys, snapshot, o) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}
