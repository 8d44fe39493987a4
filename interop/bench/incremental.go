//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// incrementalBench measures incremental checkpoints of Pebble as SnapBench.java does those of RocksDB: the first one of a value for each of the keys,
// then one after every 100th, every 10th and every key has changed, each of them confirmed; and restores from the last one.
type incrementalBench struct{ snapBench }

// incrementalSteps are the checkpoints; each changes every so many keys.
var incrementalSteps = []struct {
	what  string
	every int64 // 0: it is the first
}{{"incremental-first", 0}, {"incremental-1%", 100}, {"incremental-10%", 10}, {"incremental-100%", 1}}

func (s *incrementalBench) run(ctx context.Context) error {
	runtime.LockOSThread()
	fsys := storage.NewLocal(storage.LocalOptions{})
	laps, lines := make([][]threadLap, len(incrementalSteps)), make([]backendLine, len(incrementalSteps))
	var last metadata.Keyed
	var files backend.Files
	for i := range s.laps {
		dir, err := filepath.Abs(filepath.Join(s.work, fmt.Sprintf("checkpoints-%d", i)))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		b, v, err := s.start(backendtest.All)
		if err != nil {
			return err
		}
		defer func() { _ = b.Close() }()
		if err := s.put(b, v, 1, 0); err != nil {
			return err
		}
		for j, step := range incrementalSteps {
			if step.every > 0 {
				if err := s.put(b, v, step.every, 1); err != nil {
					return err
				}
			}
			id := int64(j + 1)
			to := backend.Target{FS: fsys, Dir: fmt.Sprintf("file:%s/chk-%d", dir, id), Shared: "file:" + dir + "/shared", InlineBelow: -1}
			for _, d := range []string{fmt.Sprintf("chk-%d", id), "shared"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					return err
				}
			}
			l, err := timed(func() error {
				shot, err := b.Snapshot(id, backend.SnapshotOptions{Format: backend.FormatIncremental})
				if err != nil {
					return err
				}
				last, err = shot.Write(ctx, to)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", step.what, err)
			}
			h := last.(*metadata.Incremental)
			laps[j] = append(laps[j], l)
			lines[j] = backendLine{Name: "snapshot", Backend: "pebble-inc", What: step.what, UploadedMB: float64(h.CheckpointedSize) / 1e6, StateMB: float64(handleSize(h)) / 1e6}
			b.(backend.CheckpointListener).CheckpointCompleted(id)
			files = backend.Files{FS: fsys, Dir: to.Dir}
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	for j := range lines {
		lines[j].set(laps[j])
		if err := lines[j].print(); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		what   string
		groups keygroup.Range
	}{
		{"incremental-100%", backendtest.All},
		{"incremental-100% rescaled", keygroup.RangeOf(0, backendtest.MaxParallelism, 2)}, {"incremental-100% rescaled", keygroup.RangeOf(1, backendtest.MaxParallelism, 2)},
	} {
		var all []threadLap
		for i := range s.laps + 1 { // the first one warms up
			runtime.GC()
			l, err := s.restore(ctx, files, last, r.groups, 1)
			if err != nil {
				return fmt.Errorf("%s of key groups %s: %w", r.what, r.groups, err)
			}
			if i > 0 {
				all = append(all, l)
			}
		}
		l := backendLine{
			Name: "restore", Backend: "pebble-inc", What: r.what, KeyGroups: fmt.Sprintf("%d-%d", r.groups.Start, r.groups.End),
			Ops: s.keys * int64(r.groups.Len()) / backendtest.MaxParallelism, StateMB: float64(handleSize(last.(*metadata.Incremental))) / 1e6,
		}
		l.set(all)
		if err := l.print(); err != nil {
			return err
		}
	}
	return nil
}

// handleSize is how many bytes the files of a checkpoint have, new or not. None is inline.
func handleSize(h *metadata.Incremental) (n int64) {
	size := func(s metadata.Stream) {
		switch s := s.(type) {
		case *metadata.File:
			n += s.Size
		case *metadata.RelativeFile:
			n += s.Size
		}
	}
	for _, f := range slices.Concat(h.Shared, h.Private) {
		size(f.Stream)
	}
	size(h.Meta)
	return n
}

// incrementalTable writes the Markdown tables of what run-incremental.sh measured.
func incrementalTable(w io.Writer, files []string) error {
	type side struct{ flink, drey []backendLine }
	type key struct{ what, groups string }
	all := map[key]*side{}
	var order []key
	err := eachLine(files, func(l backendLine) {
		k := key{l.What, l.KeyGroups}
		if all[k] == nil {
			all[k] = &side{}
			order = append(order, k)
		}
		if l.Go != "" {
			all[k].drey = append(all[k].drey, l)
		} else {
			all[k].flink = append(all[k].flink, l)
		}
	})
	if err != nil {
		return err
	}
	cpu := func(l backendLine) float64 { return l.CPU }
	uploaded := func(l backendLine) float64 { return l.UploadedMB }
	total := func(l backendLine) float64 { return l.StateMB }
	share := func(l backendLine) float64 { return 100 * l.UploadedMB / l.StateMB }
	fmt.Fprint(w, "| keys changed | state, MB: Flink | drey | uploaded, MB: Flink | drey | times | share of the state: Flink | drey | CPU s: Flink | drey |\n")
	fmt.Fprint(w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, k := range order {
		if s := all[k]; k.groups == "" {
			fmt.Fprintf(w, "| %s | %.2f | %.2f | %.2f | %.2f | %s | %.1f %% | %.1f %% | %.2f | %.2f |\n", strings.TrimPrefix(k.what, "incremental-"), median(s.flink, total), median(s.drey, total),
				median(s.flink, uploaded), median(s.drey, uploaded), times(median(s.drey, uploaded)/median(s.flink, uploaded)), median(s.flink, share), median(s.drey, share), median(s.flink, cpu), median(s.drey, cpu))
		}
	}
	fmt.Fprint(w, "\n| restore from the last one | CPU s: Flink | drey | times |\n| --- | ---: | ---: | ---: |\n")
	for _, k := range order {
		if s := all[k]; k.groups != "" {
			fmt.Fprintf(w, "| key groups %s | %.3f | %.3f | %s |\n", k.groups, median(s.flink, cpu), median(s.drey, cpu), times(median(s.flink, cpu)/median(s.drey, cpu)))
		}
	}
	return nil
}
