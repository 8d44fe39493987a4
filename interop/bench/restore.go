//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/backend/backendtest"
	"github.com/drey-state/drey/backend/pebble"
	"github.com/drey-state/drey/localrecovery"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
	"github.com/drey-state/drey/state"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/storage/s3"
)

// restoreBench measures restores of a state of one subtask on Pebble in three ways: from the local copy of an incremental checkpoint, from
// the checkpoint on an S3 server, and from a canonical savepoint on local disk.
type restoreBench struct {
	work, endpoint, dir string // dir is a URI on the server
	mb, laps            int
	fileMB              int // size of tables; 0 is the default
}

// restoreValue is how many bytes a value has, which don't compress.
const restoreValue = 1000

func (s *restoreBench) valueOf(k int64) string {
	b := make([]byte, 0, restoreValue)
	for r := rand.NewPCG(uint64(k), 0); len(b) < restoreValue*3/4; {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return base64.RawStdEncoding.EncodeToString(b[:restoreValue*3/4])
}

func (s *restoreBench) keys() int64 { return int64(s.mb) * 1e6 / restoreValue }

func (s *restoreBench) start(name string) (backend.Keyed[int64], backend.Value[struct{}, string], error) {
	b, err := pebble.Open(serializer.ForLong(), pebble.Options[int64]{
		MaxParallelism: backendtest.MaxParallelism, KeyGroups: backendtest.All, Dir: filepath.Join(s.work, name),
		Tuning: pebble.Tuning{FileSize: int64(s.fileMB) << 20},
	})
	if err != nil {
		return nil, nil, err
	}
	v, err := state.OpenValue(b, backend.Descriptor[struct{}, string]{Name: "value", Namespace: serializer.ForVoidNamespace(), Value: serializer.ForString()})
	return b, v, err
}

func (s *restoreBench) run(ctx context.Context) (err error) {
	runtime.LockOSThread()
	if s.work, err = filepath.Abs(s.work); err != nil {
		return err
	}
	remote, err := s3.New(ctx, s3.Options{Endpoint: s.endpoint, PathStyle: true})
	if err != nil {
		return err
	}
	disk := storage.NewLocal(storage.LocalOptions{})
	local, err := localrecovery.Open(localrecovery.Options{Roots: []string{filepath.Join(s.work, "local")}})
	if err != nil {
		return err
	}
	defer func() { _ = local.Close() }()
	task, err := local.Task(localrecovery.TaskID{Job: "bench", Vertex: "state"})
	if err != nil {
		return err
	}
	checkpoint, savepoint, err := s.fill(ctx, task, remote, disk)
	if err != nil {
		return err
	}
	defer func() {
		for info, err := range remote.List(ctx, s.dir) {
			if err == nil {
				_ = remote.Delete(ctx, info.URI)
			}
		}
	}()
	savepointDir := "file:" + filepath.Join(s.work, "savepoint")
	for _, way := range []struct {
		what   string
		handle metadata.Keyed
		laps   int
		files  func() backend.Files
	}{
		{"local copy", checkpoint, 3 * s.laps, func() backend.Files {
			return backend.Files{FS: task.Restore(ctx, 1, remote), Dir: s.dir + "/chk-1"}
		}},
		{"S3", checkpoint, s.laps, func() backend.Files { return backend.Files{FS: remote, Dir: s.dir + "/chk-1"} }},
		{"canonical savepoint", savepoint, s.laps, func() backend.Files { return backend.Files{FS: disk, Dir: savepointDir} }},
	} {
		l := backendLine{Name: "restore", Backend: "pebble", What: way.what, Ops: s.keys(), MB: float64(s.mb), FileMB: s.fileMB}
		var all []threadLap
		for i := range way.laps {
			lap, err := s.restore(ctx, fmt.Sprintf("restored-%d", i), way.files, way.handle)
			if err != nil {
				return fmt.Errorf("%s: %w", way.what, err)
			}
			all = append(all, lap)
		}
		l.set(all)
		l.WallMin = slices.MinFunc(all, func(a, b threadLap) int { return int(1e9 * (a.wall - b.wall)) }).wall
		if h, ok := way.handle.(*metadata.Incremental); ok {
			l.StateMB, l.Files = float64(handleSize(h))/1e6, len(h.Shared)+len(h.Private)+1
		}
		if err := l.print(); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the state, and takes the checkpoint and the savepoint.
func (s *restoreBench) fill(ctx context.Context, task *localrecovery.Task, remote, disk storage.FS) (checkpoint, savepoint metadata.Keyed, err error) {
	b, v, err := s.start("filled")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = b.Close() }()
	for k := range s.keys() {
		if err := b.SetKey(k); err != nil {
			return nil, nil, err
		}
		if err := v.Set(s.valueOf(k)); err != nil {
			return nil, nil, err
		}
	}
	write := func(id int64, f backend.Format, to backend.Target) (metadata.Keyed, error) {
		shot, err := b.Snapshot(id, backend.SnapshotOptions{Format: f})
		if err != nil {
			return nil, err
		}
		to.InlineBelow = -1
		return shot.Write(ctx, to)
	}
	start := time.Now()
	copied := task.Begin(1)
	checkpoint, err = write(1, backend.FormatIncremental, backend.Target{FS: copied.FS(remote), Dir: s.dir + "/chk-1", Shared: s.dir + "/shared"})
	if err != nil {
		return nil, nil, err
	}
	copied.Seal(ctx)
	task.Confirm(1)
	fmt.Fprintf(os.Stderr, "bench: the checkpoint of %d MB took %.1f s\n", s.mb, time.Since(start).Seconds())
	savepoint, err = write(2, backend.FormatCanonical, backend.Target{FS: disk, Dir: "file:" + filepath.Join(s.work, "savepoint")})
	return checkpoint, savepoint, err
}

// restore measures a restore, and checks some of the values.
func (s *restoreBench) restore(ctx context.Context, name string, files func() backend.Files, h metadata.Keyed) (threadLap, error) {
	defer func() { _ = os.RemoveAll(filepath.Join(s.work, name)) }()
	var b backend.Keyed[int64]
	var v backend.Value[struct{}, string]
	runtime.GC()
	l, err := timed(func() (err error) {
		if b, v, err = s.start(name); err != nil {
			return err
		}
		return b.Restore(ctx, files(), backend.Handles{Managed: []metadata.Keyed{h}})
	})
	if err != nil {
		return l, err
	}
	for k := int64(0); k < s.keys(); k += s.keys()/1000 + 1 {
		if err := b.SetKey(k); err != nil {
			return l, err
		}
		if got, ok, err := v.Get(); err != nil || !ok || got != s.valueOf(k) {
			return l, fmt.Errorf("key %d: %d bytes, %v, %w", k, len(got), ok, err)
		}
	}
	return l, b.Close()
}

// restoreTable writes the Markdown table of what run-restore.sh measured.
func restoreTable(w io.Writer, files []string) error {
	type state struct {
		mb     float64
		fileMB int
	}
	all := map[state]map[string]backendLine{}
	err := eachLine(files, func(l backendLine) {
		k := state{l.MB, l.FileMB}
		if all[k] == nil {
			all[k] = map[string]backendLine{}
		}
		all[k][l.What] = l
	})
	if err != nil {
		return err
	}
	fmt.Fprint(w, "| state, MB | tables of, MB | files | restored from | CPU s | wall s | times the local copy: CPU | wall |\n| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |\n")
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b state) int { return cmp.Or(cmp.Compare(a.fileMB, b.fileMB), cmp.Compare(a.mb, b.mb)) }) {
		local, size := all[k]["local copy"], "default"
		if k.fileMB > 0 {
			size = strconv.Itoa(k.fileMB)
		}
		for _, what := range []string{"local copy", "S3", "canonical savepoint"} {
			l, n := all[k][what], ""
			if l.Files > 0 {
				n = strconv.Itoa(l.Files)
			}
			fmt.Fprintf(w, "| %.0f | %s | %s | %s | %.3f | %.3f | %s | %s |\n", k.mb, size, n, what, l.CPU, l.WallMin, times(l.CPU/local.CPU), times(l.WallMin/local.WallMin))
		}
	}
	return nil
}
